//! Databases that RocksDB and LevelDB wrote open here and show exactly what their writers read from them; those that
//! use what Firn does not support are refused and left as they are.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Golden, Outcome, contents_difference, difference, for_all, goldens, say, scan, scan_all, scan_backward};
use firndb::{ErrorKind, ReadOptions};

fn check(golden: &Golden) -> Outcome {
    let temp = tempfile::tempdir().map_err(|e| e.to_string())?;
    let dir = temp.path().join("db");
    common::copy_dir(&golden.db(), &dir);
    if golden.refused() { check_refusal(&dir) } else { check_contents(golden, &dir) }
}

fn check_refusal(dir: &std::path::Path) -> Outcome {
    let before = common::read_dir(dir);
    match common::open(dir) {
        Ok(_) => return Err("opened, but it uses what is not supported".to_owned()),
        Err(error) if error.kind() == ErrorKind::NotSupported => {}
        Err(error) => return Err(format!("should be NotSupported: {error}")),
    }
    let mut after = common::read_dir(dir);
    // Opening takes the lock and begins an info log before it can know; neither is part of the database.
    after.retain(|name, _| before.contains_key(name) || !(name == "LOCK" || name.starts_with("LOG")));
    if before == after { Ok(()) } else { Err("refused, but the directory changed".to_owned()) }
}

fn check_contents(golden: &Golden, dir: &std::path::Path) -> Outcome {
    let expected = golden.expected();
    check_read_only(golden, dir)?;
    let db = say("open", common::open(dir))?;
    if let Some(text) = contents_difference(&say("scan", scan_all(&db))?, &expected) {
        return Err(text);
    }
    let options = ReadOptions::default();
    for cf in db.column_families() {
        let wanted = expected.get(cf.name()).cloned().unwrap_or_default();
        let mut backward = say("backward scan", scan_backward(&db, &cf))?;
        backward.reverse();
        if let Some(text) = difference(&backward, &wanted) {
            return Err(format!("backward, column family {}: {text}", cf.name()));
        }
        for (key, value) in &wanted {
            let got = say("get", db.get_opt(&options, &cf, key))?;
            if got.as_deref() != Some(&**value) {
                return Err(format!("get of {} in {} is wrong", key.escape_ascii(), cf.name()));
            }
        }
        let keys: Vec<&[u8]> = wanted.iter().map(|(key, _)| &**key).collect();
        for (got, (key, value)) in db.multi_get_opt(&options, &cf, &keys).into_iter().zip(&wanted) {
            if say("multi_get", got)?.as_deref() != Some(&**value) {
                return Err(format!("multi_get of {} in {} is wrong", key.escape_ascii(), cf.name()));
            }
        }
        let missing = say("get", db.get_opt(&options, &cf, b"\xff\xff no such key"))?;
        if missing.is_some() {
            return Err("found a key that is not there".to_owned());
        }
    }
    say("verify_checksum", db.verify_checksum())?;
    say("close", db.close())?;
    // Once more: what opening wrote must open too.
    drop(db);
    let db = say("open again", common::open(dir))?;
    match contents_difference(&say("scan again", scan_all(&db))?, &expected) {
        Some(text) => Err(format!("after reopening: {text}")),
        None => Ok(()),
    }
}

/// Reading only shows the same and changes nothing.
fn check_read_only(golden: &Golden, dir: &std::path::Path) -> Outcome {
    let before = common::read_dir(dir);
    let (options, families) = say("options", common::descriptors(dir))?;
    let db = say("open read only", firndb::Db::open_cf_read_only(dir, options, families))?;
    let expected = golden.expected();
    for cf in db.column_families() {
        let got = say("scan read only", scan(&db, &cf))?;
        if let Some(text) = difference(&got, expected.get(cf.name()).unwrap_or(&Vec::new())) {
            return Err(format!("read only, column family {}: {text}", cf.name()));
        }
    }
    match db.put(b"a", b"b") {
        Err(error) if error.kind() == ErrorKind::NotSupported => {}
        other => return Err(format!("a write to a read-only database gave {other:?}")),
    }
    drop(db);
    if common::read_dir(dir) == before { Ok(()) } else { Err("reading only changed the directory".to_owned()) }
}

#[test]
fn databases_of_rocksdb_7_8() {
    for_all(goldens("r7.8-"), |golden| golden.name.clone(), check);
}

#[test]
fn databases_of_rocksdb_11_9() {
    for_all(goldens("r11.9-"), |golden| golden.name.clone(), check);
}

#[test]
fn databases_of_leveldb() {
    for_all(goldens("leveldb-"), |golden| golden.name.clone(), check);
}
