//! Checkpoints: complete, consistent across column families, independent of the original, and acceptable to RocksDB.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::{FS, Outcome, difference, for_all, have_tools, rocksdb_accepts, say, scan, scan_all};
use firn_env::{Clock, FileSystem, SystemClock, thread};
use firndb::options::{CompactRangeOptions, ConfigOptions, OptionSet, TableFactory};
use firndb::{
    ColumnFamilyDescriptor, ColumnFamilyOptions, Db, DbOptions, ErrorKind, FileKind, FlushOptions,
    LiveFilesStorageInfoOptions, Options, WriteBatch, WriteOptions,
};

const FAMILIES: [&str; 3] = ["default", "odd", "even"];

fn db_options(texts: &[(&str, &str)]) -> DbOptions {
    let mut options =
        DbOptions { create_if_missing: true, create_missing_column_families: true, ..DbOptions::default() };
    options.apply_map(texts.iter().copied(), &ConfigOptions::default()).unwrap();
    options
}

fn families() -> Vec<ColumnFamilyDescriptor> {
    let mut options = ColumnFamilyOptions { write_buffer_size: 64 << 10, ..ColumnFamilyOptions::default() };
    if let TableFactory::BlockBased(table) = &mut options.table_factory {
        table.format_version = 5; // RocksDB 7.8 reads it
    }
    FAMILIES.iter().map(|name| ColumnFamilyDescriptor::new(*name, options.clone())).collect()
}

fn open(dir: &Path, texts: &[(&str, &str)]) -> Db {
    Db::open_cf(dir, db_options(texts), families()).unwrap()
}

/// One batch that writes `number` to every family.
fn write_round(db: &Db, number: u64, options: &WriteOptions) -> firndb::Result<()> {
    let mut batch = WriteBatch::new();
    for cf in db.column_families() {
        batch.put_cf(&cf, format!("{:05}", number % 3000), number.to_be_bytes())?;
        batch.put_cf(&cf, "last", number.to_be_bytes())?;
    }
    db.write_opt(options, &mut batch)
}

/// Every family is the result of the rounds up to one and the same number, which is returned.
fn last_round(db: &Db) -> Result<u64, String> {
    let mut rounds = Vec::new();
    for cf in db.column_families() {
        let entries = say("scan", scan(db, &cf))?;
        let number = |bytes: &[u8]| bytes.try_into().map(u64::from_be_bytes).unwrap_or(0);
        let Some((_, last)) = entries.iter().find(|(key, _)| key == b"last") else {
            rounds.push(0);
            continue;
        };
        let last = number(last);
        let first = last.saturating_sub(2999).max(1);
        let mut wanted: Vec<_> =
            (first..=last).map(|n| (format!("{:05}", n % 3000).into_bytes(), n.to_be_bytes().to_vec())).collect();
        wanted.sort();
        wanted.push((b"last".to_vec(), last.to_be_bytes().to_vec()));
        if let Some(text) = difference(&entries, &wanted) {
            return Err(format!("{} after round {last}: {text}", cf.name()));
        }
        rounds.push(last);
    }
    let first = *rounds.first().ok_or("no column family")?;
    if rounds.iter().any(|round| *round != first) {
        return Err(format!("the column families are of rounds {rounds:?}"));
    }
    Ok(first)
}

const SETTINGS: &[&[(&str, &str)]] = &[
    &[],
    &[("manual_wal_flush", "true")],
    &[("recycle_log_file_num", "2")],
    &[("track_and_verify_wals_in_manifest", "true")],
    &[("track_and_verify_wals", "true")],
    &[("wal_compression", "kZSTD")],
    &[("atomic_flush", "true")],
    &[("max_manifest_file_size", "1000")],
    &[("allow_fallocate", "false")],
    &[("max_total_wal_size", "100000"), ("WAL_ttl_seconds", "1000")],
];

/// While a writer writes batches to all families, checkpoints are taken: each holds all that was acknowledged before it began
/// and ends at one batch boundary, the same in all families.
#[test]
fn a_checkpoint_is_one_moment_of_all_families() {
    for_all(SETTINGS, |texts| format!("{texts:?}"), |texts| check_moments(texts));
}

fn check_moments(texts: &[(&str, &str)]) -> Outcome {
    let temp = tempfile::tempdir().unwrap();
    let db = open(&temp.path().join("db"), texts);
    let (done, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let writer = {
        let (db, done, acknowledged) = (db.clone(), Arc::clone(&done), Arc::clone(&acknowledged));
        thread::spawn("writer".to_owned(), move || {
            let (mut number, clock) = (0, SystemClock::new());
            while !done.load(Ordering::SeqCst) {
                number += 1;
                clock.sleep_micros(10);
                write_round(&db, number, &WriteOptions { sync: number % 500 == 0, ..WriteOptions::default() }).unwrap();
                acknowledged.store(number, Ordering::SeqCst);
            }
        })
        .unwrap()
    };
    let copies: Vec<_> = [0, u64::MAX, 100_000, u64::MAX]
        .iter()
        .enumerate()
        .map(|(at, wal_size)| {
            while acknowledged.load(Ordering::SeqCst) < 200 * (at as u64 + 1) {
                thread::yield_now();
            }
            let copy = temp.path().join(format!("copy{at}"));
            let before = acknowledged.load(Ordering::SeqCst);
            db.checkpoint_with_wal(&copy, *wal_size).map(|_| (copy, before, acknowledged.load(Ordering::SeqCst)))
        })
        .collect();
    done.store(true, Ordering::SeqCst);
    writer.join().unwrap();
    for copy in copies {
        let (copy, before, after) = say("checkpoint", copy)?;
        let copy = say("open", Db::open_cf(&copy, db_options(texts), families()))?;
        let round = last_round(&copy)?;
        // One more round may have been written when its acknowledgement was not noted yet.
        if round < before || round > after + 1 {
            return Err(format!("a checkpoint between rounds {before} and {after} has {round}"));
        }
        say("verify", copy.verify_checksum())?;
        say("put", copy.put("writes", "go on"))?;
        say("close", copy.close())?;
    }
    last_round(&db)?;
    say("close", db.close())
}

#[test]
fn a_checkpoint_outlives_the_original_and_keeps_its_contents() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("db");
    let db = open(&dir, &[]);
    for number in 1..5000 {
        write_round(&db, number, &WriteOptions::default()).unwrap();
    }
    let wanted = scan_all(&db).unwrap();
    let flushed = temp.path().join("flushed/");
    let logged = temp.path().join("logged");
    let sequence = db.latest_sequence_number();
    assert_eq!(db.checkpoint(&flushed).unwrap(), sequence);
    db.checkpoint_with_wal(&logged, u64::MAX).unwrap();
    for cf in db.column_families() {
        db.delete_range_opt(&WriteOptions::default(), &cf, "", "z").unwrap();
        db.flush(&FlushOptions::default(), &cf).unwrap();
        db.compact_range(&CompactRangeOptions::default(), &cf, None, None).unwrap();
    }
    db.close().unwrap();
    Db::destroy(&dir, &Options::default()).unwrap();
    for copy in [&flushed, &logged] {
        let names = FS.children(copy).unwrap();
        assert!(!names.iter().any(|name| ["LOCK", "LOG", "IDENTITY"].contains(&name.as_str())), "{names:?}");
        if have_tools() {
            let families: Vec<String> = FAMILIES.iter().map(|name| (*name).to_owned()).collect();
            rocksdb_accepts(copy, &wanted, &families).unwrap();
        }
        let db = common::open(copy).unwrap();
        assert_eq!(scan_all(&db).unwrap(), wanted);
    }
}

#[test]
fn a_refused_checkpoint_leaves_nothing_and_an_interrupted_one_is_replaced() {
    let temp = tempfile::tempdir().unwrap();
    let (dir, copy) = (temp.path().join("db"), temp.path().join("copy"));
    let db = open(&dir, &[]);
    db.put("key", "value").unwrap();
    FS.create_dir(&copy).unwrap();
    let refused = db.checkpoint(&copy).unwrap_err();
    assert_eq!(refused.to_string(), "Invalid argument: Directory exists");
    FS.remove_dir(&copy).unwrap();
    assert_eq!(db.checkpoint("/").unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert!(db.checkpoint(temp.path().join("no such parent/copy")).is_err());
    // What a crash in the middle of a checkpoint leaves.
    FS.create_dir(&temp.path().join("copy.tmp")).unwrap();
    common::put_file(&temp.path().join("copy.tmp/000001.sst"), b"half");
    db.checkpoint(&copy).unwrap();
    let mut names = FS.children(temp.path()).unwrap();
    names.sort();
    assert_eq!(names, ["copy", "db"]);
    assert!(!FS.file_exists(&copy.join("000001.sst")).unwrap());
    // Deletions are on again, whatever happened.
    assert_eq!(db.property(db.default_cf(), "rocksdb.is-file-deletions-enabled").as_deref(), Some("1"));
    db.close().unwrap();
    let reader = Db::open_cf_read_only(&dir, db_options(&[]), families()).unwrap();
    assert_eq!(reader.checkpoint(temp.path().join("other")).unwrap_err().kind(), ErrorKind::NotSupported);
}

fn tables(dir: &Path) -> usize {
    FS.children(dir).unwrap().iter().filter(|name| name.ends_with(".sst")).count()
}

#[test]
fn files_stay_while_deletions_are_disabled() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("db");
    let mut options = Options { db: db_options(&[]), ..Options::default() };
    options.cf.disable_auto_compactions = true;
    let db = Db::open(&dir, options).unwrap();
    let flush = || db.flush(&FlushOptions::default(), db.default_cf()).unwrap();
    for number in 0..3 {
        db.put("another key", "so that the tables overlap").unwrap();
        db.put("key", format!("{number}")).unwrap();
        flush();
    }
    db.disable_file_deletions().unwrap();
    db.disable_file_deletions().unwrap();
    let before = common::read_dir(&dir);
    let live = db.live_files_storage_info(&LiveFilesStorageInfoOptions { wal_size_for_flush: u64::MAX }).unwrap();
    assert_eq!(live.iter().filter(|file| file.kind == FileKind::Table).count(), 3);
    db.put("key", "in a new WAL").unwrap();
    flush();
    db.compact_range(&CompactRangeOptions::default(), db.default_cf(), None, None).unwrap();
    db.enable_file_deletions().unwrap();
    assert_eq!(tables(&dir), 5, "three old tables, one new, and the result of the compaction");
    for (name, bytes) in before.iter().filter(|(name, _)| name.ends_with(".sst")) {
        assert_eq!(common::read_dir(&dir).get(name), Some(bytes), "{name}");
    }
    for file in &live {
        assert!(FS.file_size(&file.directory.join(&file.name)).unwrap() >= file.size_bytes, "{}", file.name);
    }
    db.enable_file_deletions().unwrap();
    assert_eq!(tables(&dir), 1);
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"in a new WAL"[..]));
}

/// OPTIONS and CURRENT are written as temporary files and renamed; a cleaner that runs meanwhile must leave those alone.
#[test]
fn what_is_being_written_is_not_garbage() {
    let temp = tempfile::tempdir().unwrap();
    let db = open(&temp.path().join("db"), &[("max_manifest_file_size", "1"), ("max_manifest_space_amp_pct", "0")]);
    let cleaning = Arc::new(AtomicBool::new(true));
    let cleaner = {
        let (db, cleaning) = (db.clone(), Arc::clone(&cleaning));
        let clean = move || {
            while cleaning.load(Ordering::SeqCst) {
                db.enable_file_deletions().unwrap();
            }
        };
        thread::spawn("cleaner".to_owned(), clean).unwrap()
    };
    let outcome = (0..150).try_for_each(|number| {
        db.set_options(db.default_cf(), &[("max_bytes_for_level_base", &format!("{}", 100_000 + number))])?;
        db.put("key", format!("{number}"))?;
        db.flush(&FlushOptions::default(), db.default_cf())
    });
    cleaning.store(false, Ordering::SeqCst);
    cleaner.join().unwrap();
    outcome.unwrap();
}

#[test]
fn wals_are_listed_with_their_first_sequence_number() {
    let temp = tempfile::tempdir().unwrap();
    let options = Options { db: db_options(&[("WAL_ttl_seconds", "1000")]), ..Options::default() };
    let db = Db::open(temp.path().join("db"), options).unwrap();
    assert_eq!(db.sorted_wal_files().unwrap(), []);
    db.put("a", "1").unwrap();
    db.put("b", "2").unwrap();
    db.flush(&FlushOptions::default(), db.default_cf()).unwrap();
    db.put("c", "3").unwrap();
    // The job that flushed archives the WAL after those who wait for the flush went on.
    let is_archived = || db.sorted_wal_files().unwrap().iter().any(|wal| wal.kind == FileKind::ArchivedWal);
    let tries = (0..10_000).take_while(|_| !is_archived()).inspect(|_| SystemClock::new().sleep_micros(1_000)).count();
    assert!(tries < 10_000, "the WAL is not archived");
    let wals = db.sorted_wal_files().unwrap();
    let shown: Vec<_> = wals.iter().map(|wal| (wal.kind, wal.start_sequence.get())).collect();
    assert_eq!(shown, [(FileKind::ArchivedWal, 1), (FileKind::Wal, 3)]);
    assert!(wals[0].path_name.starts_with("/archive/0") && wals[1].path_name.starts_with("/0"), "{wals:?}");
    let (names, manifest_size_bytes) = db.live_file_names(false).unwrap();
    assert!(manifest_size_bytes > 0);
    let kinds: Vec<_> = names.iter().map(|name| name.trim_end_matches(|c: char| c.is_ascii_digit())).collect();
    assert_eq!(kinds.last(), Some(&"/OPTIONS-"), "{names:?}");
    assert!(names.contains(&"/CURRENT".to_owned()), "{names:?}");
}
