//! A WAL that is lost between others: what RocksDB 7.8.3 reads then, Firn reads too, but it says that something is missing;
//! and with `track_and_verify_wals` the database is refused.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use firndb::env::{Env, create_dir_all, read_file, write_file};
use firndb::options::{FlushOptions, WalRecoveryMode};
use firndb::{ColumnFamilyDescriptor, ColumnFamilyOptions, Db, DbOptions, ErrorKind, Result};

fn open(env: &Env, tracked: bool, mode: WalRecoveryMode) -> Result<Db> {
    let options = DbOptions {
        env: env.clone(),
        create_if_missing: true,
        create_missing_column_families: true,
        track_and_verify_wals: tracked,
        wal_recovery_mode: mode,
        ..DbOptions::default()
    };
    let family = |name: &str| ColumnFamilyDescriptor::new(name, ColumnFamilyOptions::default());
    Db::open_cf("/db", options, vec![family("default"), family("other")])
}

/// What a kill leaves of a database whose second family lies in three WALs; the middle one is changed by `damage`.
fn killed(tracked: bool, damage: impl Fn(Vec<u8>) -> Option<Vec<u8>>) -> Env {
    let env = Env::memory();
    let db = open(&env, tracked, WalRecoveryMode::PointInTimeRecovery).unwrap();
    let other = db.cf("other").unwrap();
    for wal in 1..=3 {
        for i in 0..3 {
            db.put(format!("{wal}-{i}"), "value").unwrap();
            db.put_opt(&Default::default(), &other, format!("{wal}-{i}"), "value").unwrap();
        }
        if wal < 3 {
            db.flush(&FlushOptions::default(), db.default_cf()).unwrap();
        }
    }
    let copy = Env::memory();
    create_dir_all(&**copy.fs(), Path::new("/db")).unwrap();
    let mut names = env.fs().children(Path::new("/db")).unwrap();
    names.sort();
    let wals: Vec<_> = names.iter().filter(|name| name.ends_with(".log")).cloned().collect();
    assert_eq!(wals.len(), 3);
    for name in names {
        let path = PathBuf::from("/db").join(&name);
        let bytes = read_file(&**env.fs(), &path, 64 << 20).unwrap();
        let bytes = if name == wals[1] { damage(bytes) } else { Some(bytes) };
        if let Some(bytes) = bytes {
            write_file(&**copy.fs(), &path, &bytes, false).unwrap();
        }
    }
    copy
}

#[test]
fn a_lost_wal_between_others_is_read_over_as_rocksdb_does_but_not_silently() {
    type Damage = fn(Vec<u8>) -> Option<Vec<u8>>;
    let damages: [(&str, Damage); 3] =
        [("empty", |_| Some(Vec::new())), ("zeros", |bytes| Some(vec![0; bytes.len()])), ("gone", |_| None)];
    for (what, damage) in damages {
        let modes = [
            WalRecoveryMode::TolerateCorruptedTailRecords,
            WalRecoveryMode::AbsoluteConsistency,
            WalRecoveryMode::PointInTimeRecovery,
            WalRecoveryMode::SkipAnyCorruptedRecords,
        ];
        for mode in modes {
            let env = killed(false, damage);
            let db = open(&env, false, mode).unwrap();
            let cursor = db.cursor(&Default::default(), &db.cf("other").unwrap());
            let (mut cursor, mut keys) = (cursor.unwrap(), Vec::new());
            cursor.seek_to_first();
            while cursor.valid() {
                keys.push(String::from_utf8(cursor.key().to_vec()).unwrap());
                cursor.next();
            }
            assert_eq!(keys, ["1-0", "1-1", "1-2", "3-0", "3-1", "3-2"], "{what} {mode:?}");
            assert_eq!(db.iter().count(), 9);
            let log = read_file(&**env.fs(), Path::new("/db/LOG"), 1 << 20).unwrap();
            let log = String::from_utf8(log).unwrap();
            assert!(log.contains("Sequence numbers 7 to 12 are in no WAL"), "{what} {mode:?}: {log}");
            let is_warning = log.contains("[WARN]") && log.contains("they are lost");
            assert_eq!(is_warning, what != "gone");
        }
        let refused = open(&killed(true, damage), true, WalRecoveryMode::PointInTimeRecovery).map(|_| ());
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Corruption, "{what}");
    }
}
