//! The store end to end: create, write, read, scan, flush, reopen.

#![allow(clippy::disallowed_methods, reason = "a test may copy files")]

use std::sync::Arc;

use firn_env::Env;
use firn_env::crash::{CrashFileSystem, LossPolicy};
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

#[test]
fn compactions_change_nothing_that_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let mut options = create();
    options.cf.write_buffer_size = 64 << 10;
    options.cf.target_file_size_base = 64 << 10;
    options.cf.max_bytes_for_level_base = 256 << 10;
    let db = Db::open(&path, options.clone()).unwrap();
    let mut model = std::collections::BTreeMap::new();
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 8
    };
    for round in 0..40_000 {
        let i = next() % 5000;
        if next() % 10 == 0 {
            db.delete(key(i)).unwrap();
            model.remove(&key(i));
        } else {
            let written = format!("{round}-{}", "y".repeat((next() % 100) as usize)).into_bytes();
            db.put(key(i), &written).unwrap();
            model.insert(key(i), written);
        }
    }
    let check = |db: &Db| {
        let scanned: Vec<_> = db.iter().map(Result::unwrap).collect();
        let expected: Vec<_> = model.clone().into_iter().collect();
        assert!(scanned == expected, "{} entries scanned, {} expected", scanned.len(), expected.len());
        for i in 0..5000 {
            assert_eq!(db.get(key(i)).unwrap().as_deref(), model.get(&key(i)).map(Vec::as_slice));
        }
    };
    check(&db);
    db.wait_for_compact().unwrap();
    assert!(db.live_files().iter().any(|file| file.level > 0), "no compaction ran");
    check(&db);
    drop(db);
    let db = Db::open(&path, options).unwrap();
    check(&db);
    db.compact_range(&Default::default(), db.default_cf(), None, None).unwrap();
    check(&db);
    assert!(db.live_files().iter().all(|file| file.level == 6), "{:?}", db.live_files());
    db.verify_checksum().unwrap();
}

#[test]
fn memtables_together_stay_within_the_write_buffer_of_the_database() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = create();
    options.db.db_write_buffer_size = 4 << 20;
    options.cf.write_buffer_size = 64 << 20;
    let db = Db::open(dir.path().join("db"), options).unwrap();
    let other = db.create_cf("other", Default::default()).unwrap();
    for i in 0..60_000 {
        let cf = if i % 4 == 0 { &other } else { db.default_cf() };
        db.put_opt(&WriteOptions::default(), cf, key(i), [b'v'; 200]).unwrap();
    }
    let bytes = |cf| db.property_int(cf, "rocksdb.cur-size-active-mem-table").unwrap();
    let active = bytes(db.default_cf()) + bytes(&other);
    assert!(active < 6 << 20, "{active} bytes in memtables");
    assert!(!db.live_files().is_empty());
}

#[test]
fn a_manifest_that_tracks_wals_forgets_those_that_recovery_deletes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let mut options = create();
    options.db.track_and_verify_wals_in_manifest = true;
    let db = Db::open(&path, options.clone()).unwrap();
    let other = db.create_cf("other", Default::default()).unwrap();
    db.put(b"a", b"1").unwrap();
    db.put_opt(&WriteOptions::default(), &other, b"b", b"2").unwrap();
    // With a second family the closed WAL is synced, and tracked, before the flush is committed; it is still needed.
    db.flush(&FlushOptions::default(), &other).unwrap();
    drop((other, db));
    let open = || {
        let families = ["default", "other"]
            .map(|name| firndb::ColumnFamilyDescriptor::new(name, firndb::ColumnFamilyOptions::default()));
        Db::open_cf(&path, options.db.clone(), families.to_vec())
    };
    for _ in 0..3 {
        let db = open().unwrap();
        assert_eq!(db.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    }
}

#[test]
fn recycled_wals_are_closed_by_their_old_writers_before_new_ones_use_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let mut options = create();
    options.db.recycle_log_file_num = 4;
    options.cf.write_buffer_size = 64 << 10;
    options.cf.max_write_buffer_number = 8;
    for round in 0..3 {
        let db = Db::open(&path, options.clone()).unwrap();
        for i in 0..15_000 {
            db.put(key(i), [round; 120]).unwrap();
        }
        // A copy of what a kill leaves: every acknowledged write is in it.
        let copy = dir.path().join(format!("copy{round}"));
        std::fs::create_dir(&copy).unwrap();
        db.wait_for_compact().unwrap();
        for entry in std::fs::read_dir(&path).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
        }
        let killed = Db::open(&copy, Options::default()).unwrap();
        for i in (0..15_000).rev().take(2000) {
            assert_eq!(killed.get(key(i)).unwrap().as_deref(), Some(&[round; 120][..]), "round {round}, key {i}");
        }
    }
}

/// The directory of the database is as new as the database.
#[test]
fn synced_writes_to_a_new_database_survive_a_power_failure() {
    let fs = Arc::new(CrashFileSystem::new());
    let mut options = create();
    options.db.env = Env::with_file_system(fs.clone());
    let db = Db::open("/parent/db", options.clone()).unwrap();
    db.put_opt(&WriteOptions { sync: true, ..WriteOptions::default() }, db.default_cf(), "key", "value").unwrap();
    let image = fs.crash(LossPolicy::DropAll, 1);
    db.close().unwrap();
    options.db.env = Env::with_file_system(Arc::new(CrashFileSystem::from_image(image)));
    options.db.create_if_missing = false;
    let db = Db::open("/parent/db", options).unwrap();
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn values_that_a_cursor_pinned_outlive_it_and_their_files() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = create();
    options.apply_string("merge_operator=stringappend").unwrap();
    let db = Db::open(dir.path().join("db"), options).unwrap();
    for i in 0..500 {
        db.put(key(i), value(i)).unwrap();
    }
    db.flush(&FlushOptions::default(), db.default_cf()).unwrap();
    for i in 500..1000 {
        db.put(key(i), value(i)).unwrap();
    }
    db.merge("merged", "a").unwrap();
    db.merge("merged", "b").unwrap();
    let reading = ReadOptions { pin_data: true, ..ReadOptions::default() };
    let mut cursor = db.cursor(&reading, db.default_cf()).unwrap();
    assert!(cursor.pinned_value().is_empty());
    let mut kept = Vec::new();
    cursor.seek_to_first();
    while cursor.valid() {
        let pinned = cursor.pinned_value();
        assert_eq!(&*pinned, cursor.value());
        let tells = cursor.property("rocksdb.iterator.is-value-pinned").unwrap();
        assert_eq!(tells == b"1", pinned.is_pinned());
        assert_eq!(pinned.is_pinned(), cursor.key() != b"merged");
        kept.push((cursor.key().to_vec(), pinned));
        cursor.next();
    }
    cursor.seek_to_last();
    assert_eq!(&*cursor.pinned_value(), b"a,b");
    drop(cursor);
    db.delete_range("", "z").unwrap();
    db.compact_range(&Default::default(), db.default_cf(), None, None).unwrap();
    db.close().unwrap();
    drop(db);
    assert_eq!(kept.len(), 1001);
    for (i, (kept_key, kept_value)) in kept.iter().take(1000).enumerate() {
        assert_eq!((kept_key, &**kept_value), (&key(i as u32), &value(i as u32)[..]));
    }
}
