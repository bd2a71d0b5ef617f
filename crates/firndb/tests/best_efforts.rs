//! Best-efforts recovery: a database that lost files opens to the newest state that is whole.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use firndb::env::{Env, create_dir_all, read_file, write_file};
use firndb::options::{CompactRangeOptions, FlushOptions};
use firndb::{Db, ErrorKind, Options};

fn options(env: &Env, best_efforts: bool) -> Options {
    let mut options = Options::default();
    options.db.env = env.clone();
    options.db.create_if_missing = !best_efforts;
    options.db.best_efforts_recovery = best_efforts;
    options.cf.disable_auto_compactions = true;
    options
}

fn path(name: &str) -> PathBuf {
    Path::new("/db").join(name)
}

fn names(env: &Env, end: &str) -> Vec<String> {
    let mut names = env.fs().children(Path::new("/db")).unwrap();
    names.retain(|name| name.ends_with(end) || name.starts_with(end));
    names.sort();
    names
}

fn keys(db: &Db) -> Vec<String> {
    db.iter().map(|entry| String::from_utf8(entry.unwrap().0.to_vec()).unwrap()).collect()
}

/// What a kill leaves of three flushed tables, with one key each, and a key in the WAL; `compacted`: the first two in one.
fn killed(compacted: bool) -> Env {
    let env = Env::memory();
    let db = Db::open("/db", options(&env, false)).unwrap();
    for i in 0..3 {
        db.put(format!("table{i}"), "value").unwrap();
        // So that the compaction cannot just move the tables.
        db.put("table0", "value").unwrap();
        db.flush(&FlushOptions::default(), db.default_cf()).unwrap();
        if compacted && i == 1 {
            db.compact_range(&CompactRangeOptions::default(), db.default_cf(), None, None).unwrap();
        }
    }
    db.put("wal", "value").unwrap();
    // The job of a flush removes its WAL after those who wait for the flush went on.
    db.wait_for_compact().unwrap();
    let copy = Env::memory();
    create_dir_all(&**copy.fs(), Path::new("/db")).unwrap();
    for name in env.fs().children(Path::new("/db")).unwrap() {
        let bytes = read_file(&**env.fs(), &path(&name), 64 << 20).unwrap();
        write_file(&**copy.fs(), &path(&name), &bytes, false).unwrap();
    }
    copy
}

/// Opens what is left, writes to it, and opens it again as usual.
fn recovers_to(env: &Env, expected: &[&str]) {
    let db = Db::open("/db", options(env, true)).unwrap();
    assert_eq!(keys(&db), expected);
    db.put("afterwards", "value").unwrap();
    drop(db);
    let db = Db::open("/db", options(env, false)).unwrap();
    let mut all = vec!["afterwards"];
    all.extend(expected);
    assert_eq!(keys(&db), all);
    db.check_consistency().unwrap();
    db.verify_checksum().unwrap();
}

#[test]
fn a_database_that_lost_current_has_all_its_tables() {
    let env = killed(false);
    env.fs().remove_file(&path("CURRENT")).unwrap();
    // An open that may create a database leaves one alone that is there.
    assert_eq!(Db::open("/db", options(&env, false)).map(|_| ()).unwrap_err().kind(), ErrorKind::Corruption);
    let wal = names(&env, ".log").pop().unwrap();
    recovers_to(&env, &["table0", "table1", "table2"]);
    assert!(env.fs().file_exists(&Path::new("/db/archive").join(wal)).unwrap());
}

#[test]
fn lost_tables_take_what_came_after_them_along() {
    for (lost, expected) in [(2, &["table0", "table1"][..]), (1, &["table0"]), (0, &[])] {
        let env = killed(false);
        let tables = names(&env, ".sst");
        env.fs().remove_file(&path(&tables[lost])).unwrap();
        assert_eq!(Db::open("/db", options(&env, false)).map(|_| ()).unwrap_err().kind(), ErrorKind::Corruption);
        recovers_to(&env, expected);
    }
    // A table that was cut is as good as lost.
    let env = killed(false);
    let tables = names(&env, ".sst");
    let bytes = read_file(&**env.fs(), &path(&tables[2]), 1 << 20).unwrap();
    write_file(&**env.fs(), &path(&tables[2]), &bytes[..bytes.len() - 1], false).unwrap();
    recovers_to(&env, &["table0", "table1"]);
}

#[test]
fn the_newest_table_of_level_0_may_go_alone() {
    let env = killed(true);
    let tables = names(&env, ".sst");
    assert_eq!(tables.len(), 2);
    env.fs().remove_file(&path(&tables[1])).unwrap();
    recovers_to(&env, &["table0", "table1"]);
    // The inputs of a compaction are gone: without its output nothing is left but the beginning.
    let env = killed(true);
    env.fs().remove_file(&path(&names(&env, ".sst")[0])).unwrap();
    recovers_to(&env, &[]);
}

#[test]
fn an_older_manifest_serves_when_the_newest_is_damaged() {
    let env = killed(false);
    let newest = path("MANIFEST-000099");
    write_file(&**env.fs(), &newest, &[7; 5000], false).unwrap();
    recovers_to(&env, &["table0", "table1", "table2"]);
    let env = Env::memory();
    create_dir_all(&**env.fs(), Path::new("/db")).unwrap();
    write_file(&**env.fs(), &newest, &[7; 5000], false).unwrap();
    let error = Db::open("/db", options(&env, true)).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("Cannot locate MANIFEST file in /db"), "{error}");
}
