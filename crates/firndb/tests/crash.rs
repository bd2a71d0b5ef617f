//! What power failures and kills leave of a database, one case each; `firn-sim` looks at all of them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::{Arc, Mutex};

use firndb::env::Env;
use firndb::env::crash::{CrashFileSystem, LossPolicy, Tree};
use firndb::env::fault::{Callback, Effect, Fault, FaultFileSystem, Operation};
use firndb::options::{FlushOptions, IngestExternalFileOptions, ReadOptions, WalRecoveryMode};
use firndb::{ColumnFamilyDescriptor, Db, DbOptions, ErrorKind, Options, WriteBatch, WriteOptions, sst_file_writer};

const SYNC: WriteOptions = WriteOptions {
    sync: true,
    disable_wal: false,
    ignore_missing_column_families: false,
    no_slowdown: false,
    low_pri: false,
    memtable_insert_hint_per_batch: false,
    rate_limiter_priority: firndb::options::IoPriority::Unlimited,
    protection_bytes_per_key: 0,
};

fn options(fs: &CrashFileSystem) -> DbOptions {
    DbOptions {
        env: Env::with_file_system(Arc::new(fs.clone())),
        create_if_missing: true,
        create_missing_column_families: true,
        ..DbOptions::default()
    }
}

fn open(db: DbOptions) -> firndb::Result<Db> {
    let family = |name| ColumnFamilyDescriptor::new(name, Options::default().cf);
    Db::open_cf("/db", db, vec![family("default"), family("second")])
}

fn reboot(image: Tree) -> CrashFileSystem {
    CrashFileSystem::from_image(image)
}

#[test]
fn a_synced_write_to_a_new_database_survives_with_the_directory_it_lies_in() {
    let fs = CrashFileSystem::new();
    let db = open(options(&fs)).unwrap();
    db.put_opt(&SYNC, db.default_cf(), "key", "value").unwrap();
    let fs = reboot(fs.crash(LossPolicy::DropAll, 0));
    let db = open(options(&fs)).unwrap();
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn current_never_names_a_manifest_whose_own_name_was_lost() {
    let fs = CrashFileSystem::new();
    fs.start_journal();
    drop(open(options(&fs)).unwrap());
    let journal = fs.take_journal();
    let mut replay = journal.replay();
    while replay.advance() {
        for seed in 0..8 {
            let fs = reboot(replay.disk().image(LossPolicy::Scatter, seed));
            if let Err(error) = open(options(&fs)) {
                panic!("after {}: {error}", journal.describe(replay.at() - 1));
            }
        }
    }
}

#[test]
fn writes_that_stay_in_memory_at_recovery_are_durable_before_later_ones_are() {
    let fs = CrashFileSystem::new();
    let keep_in_memory = || DbOptions { avoid_flush_during_recovery: true, ..options(&fs) };
    let db = open(keep_in_memory()).unwrap();
    db.put_opt(&SYNC, db.default_cf(), "first", "1").unwrap();
    db.put("second", "2").unwrap(); // not synced
    db.close().unwrap();
    let db = open(keep_in_memory()).unwrap();
    db.put_opt(&SYNC, db.default_cf(), "third", "3").unwrap();
    let fs = reboot(fs.crash(LossPolicy::DropAll, 0));
    let db = open(options(&fs)).unwrap();
    for (key, value) in [("first", b"1"), ("second", b"2"), ("third", b"3")] {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]), "{key}");
    }
}

#[test]
fn a_damaged_wal_is_read_by_one_recovery_only() {
    let fs = CrashFileSystem::new();
    let db = open(options(&fs)).unwrap();
    db.put("flushed", "1").unwrap();
    db.flush(&FlushOptions::default(), db.default_cf()).unwrap();
    let second = db.cf("second").unwrap();
    db.put_opt(&SYNC, &second, "synced", "2").unwrap();
    db.put_opt(&WriteOptions::default(), &second, "torn", [7; 2000]).unwrap();
    let torn = (0..100).map(|seed| fs.crash(LossPolicy::Tear, seed)).find(|image| {
        let wals = image.files().into_iter().filter(|(path, _)| path.ends_with(".log"));
        wals.max().is_some_and(|(_, bytes)| bytes.contains(&7) && !bytes.windows(2000).any(|part| part == [7; 2000]))
    });
    let fs = reboot(torn.unwrap());
    for _ in 0..3 {
        let keep_in_memory = DbOptions { avoid_flush_during_recovery: true, ..options(&fs) };
        let db = open(keep_in_memory).unwrap();
        let second = db.cf("second").unwrap();
        assert_eq!(db.get("flushed").unwrap().as_deref(), Some(&b"1"[..]));
        let synced = db.get_opt(&firndb::ReadOptions::default(), &second, "synced").unwrap();
        assert_eq!(synced.as_deref(), Some(&b"2"[..]));
        db.close().unwrap();
    }
}

#[test]
fn a_wal_whose_predecessor_is_in_tables_misses_nothing() {
    let fs = CrashFileSystem::new();
    fs.start_journal();
    let verifying = |fs: &CrashFileSystem| DbOptions { track_and_verify_wals: true, ..options(fs) };
    let db = open(verifying(&fs)).unwrap();
    for _ in 0..4 {
        db.put("key", "value").unwrap();
        db.flush(&FlushOptions::default(), db.default_cf()).unwrap();
    }
    db.put("last", "value").unwrap();
    let journal = fs.take_journal();
    let mut replay = journal.replay();
    while replay.advance() {
        let fs = reboot(replay.disk().image(LossPolicy::KeepAll, 0));
        if let Err(error) = open(verifying(&fs)) {
            panic!("after {}: {error}", journal.describe(replay.at() - 1));
        }
    }
}

#[test]
fn nothing_is_visible_before_it_is_in_the_wal() {
    let fs = FaultFileSystem::new(Arc::new(CrashFileSystem::new()));
    let db = open(DbOptions { env: Env::with_file_system(Arc::new(fs.clone())), ..options(&CrashFileSystem::new()) });
    let db = db.unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let callback: Callback = {
        let (db, seen) = (db.clone(), Arc::clone(&seen));
        Arc::new(move |operation, _| seen.lock().unwrap().push((operation, db.latest_sequence_number().get())))
    };
    let on = [Operation::Append, Operation::Sync];
    fs.inject(Fault::new(Effect::Call(callback)).with_operations(on).with_path(".log").with_times(u64::MAX));
    let before = db.latest_sequence_number().get();
    db.put_opt(&SYNC, db.default_cf(), "key", "value").unwrap();
    fs.heal(); // the callback holds the database
    assert_eq!(*seen.lock().unwrap(), [(Operation::Append, before), (Operation::Sync, before)]);
    assert_eq!(db.latest_sequence_number().get(), before + 1);
}

#[test]
fn no_power_failure_leaves_an_ingested_file_without_the_writes_before_it() {
    let fs = CrashFileSystem::new();
    let db = open(options(&fs)).unwrap();
    let second = db.cf("second").unwrap();
    db.put_opt(&WriteOptions::default(), &second, "before", "1").unwrap(); // not synced, and not among the keys of the file
    let mut writer = sst_file_writer(&db.options(db.default_cf()));
    writer.open(Path::new("/external.sst")).unwrap();
    writer.put(b"key", b"2").unwrap();
    writer.finish().unwrap();
    db.ingest_external_file(db.default_cf(), &["/external.sst"], &IngestExternalFileOptions::default()).unwrap();
    let fs = reboot(fs.crash(LossPolicy::DropAll, 0));
    let db = open(options(&fs)).unwrap();
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"2"[..]));
    let before = db.get_opt(&ReadOptions::default(), &db.cf("second").unwrap(), "before").unwrap();
    assert_eq!(before.as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_batch_that_wants_a_merge_operator_is_refused_in_every_mode_and_whole_with_it() {
    let fs = CrashFileSystem::new();
    let mut merging = Options { db: options(&fs), ..Options::default() };
    merging.apply_string("merge_operator=stringappend").unwrap();
    let db = Db::open("/db", merging).unwrap();
    db.put("before", "value").unwrap();
    let mut batch = WriteBatch::new();
    batch.put("part", "1").unwrap();
    batch.merge("merged", "2").unwrap();
    db.write(&mut batch).unwrap();
    // The WAL is sound: to open without the batch, as for damage, would lose writes that were acknowledged.
    for mode in [
        WalRecoveryMode::TolerateCorruptedTailRecords,
        WalRecoveryMode::AbsoluteConsistency,
        WalRecoveryMode::PointInTimeRecovery,
        WalRecoveryMode::SkipAnyCorruptedRecords,
    ] {
        let fs = reboot(fs.crash(LossPolicy::KeepAll, 0));
        let with_mode = || DbOptions { wal_recovery_mode: mode, ..options(&fs) };
        let error = open(with_mode()).map(|_| ()).unwrap_err();
        let said = (error.kind(), error.message().contains("Merge operator is not set for column family \"default\""));
        assert_eq!(said, (ErrorKind::InvalidArgument, true), "{mode:?}: {error}");
        assert!(error.file().is_some_and(|file| file.extension().is_some_and(|end| end == "log")), "{error}");
        let mut merging = Options { db: with_mode(), ..Options::default() };
        merging.apply_string("merge_operator=stringappend").unwrap();
        let db = Db::open("/db", merging).unwrap();
        let keys = ["before", "part", "merged"].map(|key| db.get(key).unwrap().is_some());
        assert_eq!(keys, [true; 3], "{mode:?}");
    }
}
