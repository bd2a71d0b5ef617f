//! The store end to end: create, write, read, scan, flush, reopen.

use firndb::options::{FlushOptions, ReadOptions};
use firndb::{Db, Options, WriteBatch, WriteOptions};

fn create() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options
}

fn key(i: u32) -> Vec<u8> {
    format!("key{i:06}").into_bytes()
}

fn value(i: u32) -> Vec<u8> {
    format!("value-{i}-{}", "x".repeat((i % 50) as usize)).into_bytes()
}

#[test]
fn what_was_written_is_read_scanned_and_there_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let db = Db::open(&path, create()).unwrap();
    for i in 0..3000 {
        db.put(key(i), value(i)).unwrap();
        if i == 1000 {
            db.flush(&FlushOptions::default(), db.default_cf()).unwrap();
        }
    }
    for i in (0..3000).step_by(3) {
        db.delete(key(i)).unwrap();
    }
    let check = |db: &Db| {
        for i in 0..3000 {
            let found = db.get(key(i)).unwrap();
            let expected = (i % 3 != 0).then(|| value(i));
            assert_eq!(found.as_deref(), expected.as_deref(), "key {i}");
        }
        let expected: Vec<_> = (0..3000).filter(|i| i % 3 != 0).map(|i| (key(i), value(i))).collect();
        let forward: Vec<_> = db.iter().map(Result::unwrap).collect();
        assert_eq!(forward, expected);
        let mut backward: Vec<_> = db.iter().rev().map(Result::unwrap).collect();
        backward.reverse();
        assert_eq!(backward, expected);
    };
    check(&db);
    db.flush(&FlushOptions::default(), db.default_cf()).unwrap();
    check(&db);
    db.put(b"late", b"in the WAL").unwrap();
    db.delete(b"late").unwrap();
    drop(db);
    let db = Db::open(&path, Options::default()).unwrap();
    check(&db);
    drop(db);
    let db = Db::open_read_only(&path, Options::default()).unwrap();
    check(&db);
}

#[test]
fn a_range_is_walked_from_both_ends_and_meets_once() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db"), create()).unwrap();
    for i in 0..100 {
        db.put(key(i), value(i)).unwrap();
    }
    let mut range = db.range(key(10)..key(15));
    let mut seen = Vec::new();
    while let Some(front) = range.next() {
        seen.push(front.unwrap().0);
        if let Some(back) = range.next_back() {
            seen.push(back.unwrap().0);
        }
    }
    seen.sort();
    assert_eq!(seen, (10..15).map(key).collect::<Vec<_>>());
    assert_eq!(db.prefix(b"key00009").count(), 10);
}

#[test]
fn snapshots_see_what_was_and_batches_are_atomic() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db"), create()).unwrap();
    db.put(b"a", b"1").unwrap();
    let snapshot = db.snapshot();
    let mut batch = WriteBatch::new();
    batch.put(b"a", b"2").unwrap();
    batch.delete(b"b").unwrap();
    batch.put(b"c", b"3").unwrap();
    db.write_opt(&WriteOptions { sync: true, ..WriteOptions::default() }, &mut batch).unwrap();
    let old = ReadOptions { snapshot: Some(snapshot.clone()), ..ReadOptions::default() };
    assert_eq!(db.get_opt(&old, db.default_cf(), b"a").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(db.get_opt(&old, db.default_cf(), b"c").unwrap().as_deref(), None);
    db.flush(&FlushOptions::default(), db.default_cf()).unwrap();
    assert_eq!(db.get_opt(&old, db.default_cf(), b"a").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(db.get(b"a").unwrap().as_deref(), Some(&b"2"[..]));
}
