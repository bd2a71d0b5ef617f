//! Repaired databases hold what their files still hold; RocksDB opens them, and its own repair never saves more.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use common::{Contents, Outcome, copy_dir, for_all, goldens, put_file, read_dir, rocksdb_scan, say, scan_all};
use firn_env::crash::{CrashFileSystem, Journal, LossPolicy, Tree};
use firn_env::fault::{Effect, Fault, FaultFileSystem, Operation, io_error, no_space_error};
use firn_env::{Env, FileSystem, create_dir_all, read_file, write_file};
use firndb::merge::built_in;
use firndb::options::{CompactRangeOptions, TableFactory};
use firndb::{
    ColumnFamilyDescriptor, ColumnFamilyOptions, Db, ErrorKind, FlushOptions, Options, RepairReport, WriteBatch,
    WriteOptions, repair, repair_cf,
};

const TABLES_OF_A_FAMILY: u32 = 3;

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.cf.disable_auto_compactions = true;
    options.cf.merge_operator = built_in("stringappend", None);
    if let TableFactory::BlockBased(table) = &mut options.cf.table_factory {
        table.format_version = 5;
        table.block_size = 512;
    }
    options
}

fn families(dir: &Path) -> Vec<ColumnFamilyDescriptor> {
    let names = Db::list_column_families(dir, &options().db).unwrap();
    names.into_iter().map(|name| ColumnFamilyDescriptor::new(name, options().cf)).collect()
}

fn open(dir: &Path) -> Db {
    let mut options = options();
    options.db.create_if_missing = false;
    Db::open_cf(dir, options.db, families(dir)).unwrap()
}

fn contents(dir: &Path) -> Contents {
    let db = open(dir);
    let contents = scan_all(&db).unwrap();
    for cf in db.column_families() {
        for (key, value) in contents.get(cf.name()).into_iter().flatten() {
            assert_eq!(db.get_opt(&Default::default(), &cf, key).unwrap().as_deref(), Some(&value[..]));
        }
    }
    db.verify_checksum().unwrap();
    db.close().unwrap();
    contents
}

/// Two families, tables on two levels, and a WAL with what was not flushed. Every key is written once, but for one that is
/// deleted, one that is merged and a range that is deleted.
fn build(dir: &Path) -> Contents {
    let db = Db::open(dir, options()).unwrap();
    db.create_cf("other", options().cf).unwrap();
    for round in 0..=TABLES_OF_A_FAMILY {
        for cf in db.column_families() {
            let mut batch = WriteBatch::new();
            for number in 0..200 {
                batch
                    .put_cf(&cf, format!("key{round}{number:05}"), format!("value of {number} {}", cf.name()))
                    .unwrap();
            }
            batch.merge_cf(&cf, "merged", format!("{round}")).unwrap();
            if round == 1 {
                batch.delete_cf(&cf, "key000003").unwrap();
                batch.delete_range_cf(&cf, "key000050", "key000060").unwrap();
            }
            db.write(&mut batch).unwrap();
            if round < TABLES_OF_A_FAMILY {
                db.flush(&FlushOptions::default(), &cf).unwrap();
            }
            if round == 0 {
                db.compact_range(&CompactRangeOptions::default(), &cf, None, None).unwrap();
            }
        }
    }
    let contents = scan_all(&db).unwrap();
    let files = tempfile::tempdir().unwrap();
    let copy = files.path().join("db");
    // The job of a flush removes its WAL after those who wait for the flush went on.
    db.wait_for_compact().unwrap();
    copy_dir(dir, &copy);
    db.close().unwrap();
    // As a kill would leave it: with a WAL.
    remove_all(dir);
    for (name, bytes) in read_dir(&copy) {
        put_file(&dir.join(name), &bytes);
    }
    contents
}

#[allow(clippy::disallowed_methods, reason = "a test changes files")]
fn remove_all(dir: &Path) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            std::fs::remove_file(path).unwrap();
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "a test changes files")]
fn remove(dir: &Path, name: &str) {
    std::fs::remove_file(dir.join(name)).unwrap();
}

fn names(dir: &Path, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    read_dir(dir).into_keys().filter(|name| wanted(name)).collect()
}

fn manifest(dir: &Path) -> String {
    names(dir, |name| name.starts_with("MANIFEST")).pop().unwrap()
}

fn tables(dir: &Path) -> Vec<String> {
    names(dir, |name| name.ends_with(".sst"))
}

fn flip(dir: &Path, name: &str, at: impl Fn(usize) -> usize) {
    let mut bytes = read_dir(dir)[name].clone();
    let at = at(bytes.len());
    bytes[at] ^= 0x55;
    put_file(&dir.join(name), &bytes);
}

/// Damages a copy of a database, repairs it, and gives it to `check`, with what it held before.
fn repaired(damage: impl Fn(&Path), check: impl Fn(&Path, &RepairReport, &Contents, &Contents)) {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("db");
    let before = build(&dir);
    damage(&dir);
    let for_rocksdb = temp.path().join("rocksdb");
    copy_dir(&dir, &for_rocksdb);
    let report = repair(&dir, &options()).unwrap();
    let after = contents(&dir);
    check(&dir, &report, &before, &after);
    if !common::have_tools() {
        return;
    }
    for (name, entries) in &after {
        assert_eq!(&rocksdb_scan(&dir, name).unwrap(), entries, "RocksDB reads what Firn repaired, {name}");
    }
    // RocksDB repairs the same damage.
    #[allow(clippy::disallowed_methods, reason = "a test runs RocksDB's tool, which complains although it succeeds")]
    let output = std::process::Command::new("ldb")
        .args([format!("--db={}", for_rocksdb.display()), "repair".to_owned()])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "OK");
    for (name, entries) in &after {
        let ours: BTreeSet<_> = entries.iter().filter(|(key, _)| key.starts_with(b"key")).collect();
        let theirs = rocksdb_scan(&for_rocksdb, name).unwrap_or_default();
        // What it brings back from deletion, having lost the table with the deletion, does not count.
        let was_there: BTreeSet<_> = before[name].iter().collect();
        let is_missed = |entry: &&(Vec<u8>, Vec<u8>)| {
            entry.0.starts_with(b"key") && !ours.contains(entry) && was_there.contains(entry)
        };
        let only_theirs = theirs.iter().filter(is_missed);
        assert_eq!(only_theirs.count(), 0, "RocksDB's repair of {name} saves what Firn's does not");
    }
}

#[test]
fn a_database_without_manifest_is_all_there() {
    repaired(
        |dir| {
            remove(dir, &manifest(dir));
            remove(dir, "CURRENT");
        },
        |dir, report, before, after| {
            assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
            // Without a MANIFEST nobody knows what of a WAL is in tables: operands may be applied twice.
            let points = |contents: &Contents| {
                let mut contents = contents.clone();
                contents.values_mut().for_each(|entries| entries.retain(|(key, _)| key.starts_with(b"key")));
                contents
            };
            assert_eq!(points(after), points(before));
            assert_eq!((report.lost_tables.len(), report.rewritten_tables.len()), (0, 0));
            assert_eq!(report.whole_tables.len() as u32, 2 * TABLES_OF_A_FAMILY);
            assert!(!report.wals.is_empty());
            assert_eq!(names(&dir.join("lost"), |name| name.ends_with(".log")).len(), report.wals.len());
        },
    );
}

#[test]
fn a_sound_database_stays_as_it_is() {
    repaired(
        |_| {},
        |dir, report, before, after| {
            assert_eq!(after, before);
            assert!(report.damages.is_empty(), "{:?}", report.damages);
            assert_eq!(names(&dir.join("lost"), |name| name.starts_with("MANIFEST")).len(), 1);
        },
    );
}

#[test]
fn a_damaged_manifest_is_set_aside() {
    repaired(
        |dir| flip(dir, &manifest(dir), |length| length / 3),
        |dir, report, before, after| {
            assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
            assert!(
                report.damages.iter().any(|error| error.file().is_some_and(|file| file.ends_with(manifest_in(dir))))
            );
        },
    );
}

fn manifest_in(dir: &Path) -> String {
    manifest(&dir.join("lost"))
}

#[test]
fn of_a_damaged_table_the_intact_blocks_are_saved() {
    repaired(
        |dir| flip(dir, &tables(dir)[2], |_| 700),
        |dir, report, before, after| {
            assert_eq!((report.rewritten_tables.len(), report.lost_tables.len()), (1, 0), "{report:?}");
            assert_eq!(report.damages.len(), 1);
            let (before_count, after_count) =
                (before.values().map(Vec::len).sum::<usize>(), after.values().map(Vec::len).sum::<usize>());
            assert!(after_count < before_count && after_count + 40 > before_count, "{after_count} of {before_count}");
            for (name, entries) in after {
                let all: BTreeSet<_> = before[name].iter().collect();
                assert!(entries.iter().filter(|(key, _)| key.starts_with(b"key")).all(|entry| all.contains(entry)));
            }
            assert_eq!(names(&dir.join("lost"), |name| name.ends_with(".sst")).len(), 1);
        },
    );
}

#[test]
fn a_table_with_a_damaged_footer_is_lost() {
    repaired(
        |dir| flip(dir, &tables(dir)[1], |length| length - 53 + 2),
        |dir, report, _, _| {
            assert_eq!(report.lost_tables.len(), 1, "{report:?}");
            assert_eq!(names(&dir.join("lost"), |name| name.ends_with(".sst")).len(), 1);
        },
    );
}

#[test]
fn of_a_damaged_wal_the_rest_is_saved() {
    repaired(
        |dir| {
            let wal = names(dir, |name| name.ends_with(".log")).pop().unwrap();
            // In the first batch of the last round.
            flip(dir, &wal, |_| 50);
        },
        |_, report, before, after| {
            assert!(!report.wals.is_empty());
            let count = |contents: &Contents| contents.values().map(Vec::len).sum::<usize>();
            assert!(count(after) < count(before));
        },
    );
}

#[test]
fn newer_values_win_whatever_files_they_lie_in() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("db");
    let db = Db::open(&dir, options()).unwrap();
    // Sequence numbers stay.
    let snapshot = db.snapshot();
    let flush = || db.flush(&FlushOptions::default(), db.default_cf()).unwrap();
    for key in ["a", "k", "zz"] {
        db.put(key, "old").unwrap();
    }
    flush();
    db.compact_range(&CompactRangeOptions::default(), db.default_cf(), None, None).unwrap();
    db.put("k", "new").unwrap();
    flush();
    db.put("z", "last").unwrap();
    flush();
    // Now a deep file is newer, by its last sequence number, than the file of level 0 with the newer value.
    db.compact_range(&CompactRangeOptions::default(), db.default_cf(), Some(b"z"), Some(b"z")).unwrap();
    let files = db.live_files();
    assert!(files.iter().any(|file| file.level > 0 && file.smallest_sequence.get() == 1), "{files:?}");
    assert_eq!(files.iter().filter(|file| file.level == 0).count(), 1);
    assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"new"[..]));
    drop(snapshot);
    db.close().unwrap();
    drop(db);
    for keep_manifest in [true, false] {
        if !keep_manifest {
            remove(&dir, &manifest(&dir));
            remove(&dir, "CURRENT");
        }
        repair(&dir, &options()).unwrap();
        let db = open(&dir);
        assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"new"[..]), "with MANIFEST: {keep_manifest}");
        db.close().unwrap();
    }
}

#[test]
fn families_without_options_stop_a_repair_before_it_begins() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("db");
    build(&dir);
    let before = read_dir(&dir);
    let known = [ColumnFamilyDescriptor::new("default", options().cf)];
    let error = repair_cf(&dir, &options().db, &known, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("Encountered unknown column family with name=other"), "{error}");
    let without_lock = |files: std::collections::BTreeMap<String, Vec<u8>>| {
        files.into_iter().filter(|(name, _)| name != "LOCK").collect::<Vec<_>>()
    };
    assert_eq!(without_lock(read_dir(&dir)), without_lock(before));
    repair_cf(&dir, &options().db, &known, Some(&ColumnFamilyOptions { ..options().cf })).unwrap();
    assert_eq!(families(&dir).len(), 2);
}

/// Nothing but the MANIFEST and OPTIONS name a family without tables.
#[test]
fn a_repair_tells_of_records_whose_family_is_lost() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("db");
    let db = Db::open(&dir, options()).unwrap();
    let cf = db.create_cf("two", options().cf).unwrap();
    db.put_opt(&WriteOptions::default(), &cf, "key", "value").unwrap();
    drop(cf);
    db.close().unwrap();
    drop(db);
    remove(&dir, &manifest(&dir));
    let report = repair(&dir, &options()).unwrap();
    let told = |error: &firndb::Error| error.to_string().contains("column family 1, whose name is lost");
    assert!(report.damages.iter().any(told), "{report:?}");
}

#[test]
fn an_empty_directory_has_nothing_to_repair() {
    let temp = tempfile::tempdir().unwrap();
    let error = repair(temp.path(), &options()).unwrap_err();
    assert!(error.to_string().contains("repair found no files"), "{error}");
}

/// Repairing a sound database, of any kind, changes nothing that is read.
#[test]
fn sound_golden_databases_stay_as_they_are() {
    let golden = goldens("").into_iter().filter(|golden| !golden.refused());
    for_all(
        golden,
        |golden| golden.name.clone(),
        |golden| -> Outcome {
            let temp = tempfile::tempdir().map_err(|error| error.to_string())?;
            let dir = temp.path().join("db");
            copy_dir(&golden.db(), &dir);
            let (db_options, families) = say("options", common::descriptors(&dir))?;
            let undamaged = temp.path().join("undamaged");
            copy_dir(&golden.db(), &undamaged);
            let before = say("scan", common::open(&undamaged).and_then(|db| scan_all(&db)))?;
            let unknown = ColumnFamilyOptions::default();
            let report = say("repair", repair_cf(&dir, &db_options, &families, Some(&unknown)))?;
            if !report.damages.is_empty() {
                return Err(format!("{:?}", report.damages));
            }
            let after = say("scan", common::open(&dir).and_then(|db| scan_all(&db)))?;
            common::contents_difference(&after, &before).map_or(Ok(()), Err)
        },
    );
}

/// Undecided transactions lie in a WAL, which a repair may not leave beside tables with what came after the damage in it.
#[test]
fn prepared_transactions_in_a_damaged_wal_do_not_keep_the_repaired_database_shut() {
    for golden in goldens("").into_iter().filter(|golden| golden.name.ends_with("-txn-prepared")) {
        for at in [1000, 2500, 4000] {
            let temp = tempfile::tempdir().unwrap();
            let dir = temp.path().join("db");
            copy_dir(&golden.db(), &dir);
            flip(&dir, &names(&dir, |name| name.ends_with(".log") && !name.contains('/'))[0], |_| at);
            let stated = common::stated_options(&dir).unwrap();
            assert!(stated.db.allow_2pc);
            let cf = stated.column_family("default").unwrap().clone();
            let report = repair(&dir, &Options { db: stated.db.clone(), cf }).unwrap();
            assert_eq!(report.wals.len(), 1);
            for round in 0..2 {
                let db = common::open(&dir).unwrap();
                db.put(format!("round{round}"), "value").unwrap();
                assert_eq!(db.get("round0").unwrap().as_deref(), Some(&b"value"[..]));
                db.close().unwrap();
            }
            assert!(
                !names(&dir, |name| name.ends_with(".log") && !name.contains('/')).is_empty(),
                "prepared ones are kept"
            );
        }
    }
}

fn on(env: &Env) -> Options {
    let mut options = options();
    options.db.env = env.clone();
    // A WAL becomes more than one table.
    options.cf.write_buffer_size = 64 << 10;
    options
}

/// What happens to a database before it is repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    Nothing,
    Table,
    Manifest,
    /// The MANIFEST is there and whole.
    NoCurrent,
}

/// A database as a kill leaves it: three families, tables of two of them, and several WALs, of which each family needs others.
/// Some of what is written must not be applied twice, and some not be left out.
fn build_in_memory(damage: Damage) -> (Env, Contents) {
    let fs = Arc::new(CrashFileSystem::new());
    let mut options = options();
    options.db.env = Env::with_file_system(fs.clone());
    let db = Db::open("/db", options.clone()).unwrap();
    let sync = WriteOptions { sync: true, ..WriteOptions::default() };
    for name in ["second", "third"] {
        db.create_cf(name, options.cf.clone()).unwrap();
    }
    let families = db.column_families();
    for round in 0..4 {
        for cf in &families {
            let mut batch = WriteBatch::new();
            for number in (0..60).step_by(4) {
                let value = format!("value {round} of {number}").repeat(100);
                batch.put_cf(cf, format!("key{number:03}{round}"), value).unwrap();
            }
            for number in 0..10 {
                batch.put_cf(cf, format!("overwritten{number}"), format!("{round}")).unwrap();
                batch.merge_cf(cf, format!("merged{number}"), format!("{round}")).unwrap();
            }
            batch.merge_cf(cf, format!("key048{round}"), "merged").unwrap();
            batch.put_cf(cf, format!("single{round}"), "value").unwrap();
            batch.delete_cf(cf, format!("key000{}", 2 * round / 3)).unwrap();
            if round > 0 {
                batch.single_delete_cf(cf, format!("single{}", round - 1)).unwrap();
                batch.delete_range_cf(cf, format!("key0{round}"), format!("key0{round}5")).unwrap();
                batch.put_cf(cf, format!("key0{round}3"), "again").unwrap();
            }
            db.write_opt(&sync, &mut batch).unwrap();
        }
        // The families that are not flushed keep the WAL.
        if let Some(cf) = [0, 1, 0].get(round).and_then(|family| families.get(*family)) {
            db.flush(&FlushOptions::default(), cf).unwrap();
        }
    }
    let contents = scan_all(&db).unwrap();
    let killed = CrashFileSystem::from_image(fs.crash(LossPolicy::KeepAll, 0));
    drop(families);
    drop(db);
    let names = killed.children(Path::new("/db")).unwrap();
    let named = |part: &str| Path::new("/db").join(names.iter().find(|name| name.contains(part)).unwrap());
    let flip = |path: &Path| {
        let mut bytes = read_file(&killed, path, u64::MAX).unwrap();
        let at = bytes.len() * 2 / 3;
        bytes[at] ^= 0x55;
        write_file(&killed, path, &bytes, true).unwrap();
    };
    match damage {
        Damage::Nothing => {}
        Damage::Table => flip(&named(".sst")),
        Damage::Manifest => flip(&named("MANIFEST")),
        Damage::NoCurrent => killed.remove_file(&named("CURRENT")).unwrap(),
    }
    assert_eq!(names.iter().filter(|name| name.ends_with(".sst")).count(), 3);
    assert_eq!(names.iter().filter(|name| name.ends_with(".log")).count(), 4);
    let synced = Arc::new(CrashFileSystem::new());
    copy_files(&killed, &*synced, Path::new("/db"));
    (Env::with_file_system(synced), contents)
}

fn all_in_memory(env: &Env) -> Contents {
    let mut options = on(env);
    options.db.create_if_missing = false;
    let names = Db::list_column_families("/db", &options.db).unwrap();
    let families = names.into_iter().map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone())).collect();
    let db = Db::open_cf("/db", options.db.clone(), families).unwrap();
    let contents = scan_all(&db).unwrap();
    db.verify_checksum().unwrap();
    contents
}

/// Repairs what a crash left, and gives the journal of it.
fn repair_image(image: Tree, wanted: &Contents, moment: &str) -> Journal {
    let fs = Arc::new(CrashFileSystem::from_image(image));
    let env = Env::with_file_system(fs.clone());
    fs.start_journal();
    repair("/db", &on(&env)).unwrap_or_else(|error| panic!("{moment}: {error}"));
    let journal = fs.take_journal();
    let difference = common::contents_difference(&all_in_memory(&env), wanted);
    assert!(difference.is_none(), "{moment}: {}", difference.unwrap_or_default());
    journal
}

/// Crashes at every moment of a repair; what the next one makes is what an uninterrupted one would have made. At some moments
/// the next one is interrupted as well.
fn interrupt_anywhere(damage: Damage, policies: &[LossPolicy]) {
    let (env, before) = build_in_memory(damage);
    let whole = Arc::new(CrashFileSystem::new());
    copy_files(&**env.fs(), &*whole, Path::new("/db"));
    whole.start_journal();
    let env = Env::with_file_system(whole.clone());
    let report = repair("/db", &on(&env)).unwrap();
    assert!(report.leftover_tables.is_empty(), "{report:?}");
    let journal = whole.take_journal();
    let wanted = all_in_memory(&env);
    assert_eq!(wanted == before, matches!(damage, Damage::Nothing | Damage::NoCurrent));
    assert!(wanted["third"].len() > 40);
    for &policy in policies {
        let mut replay = journal.replay();
        loop {
            let at = replay.at();
            let last = at.checked_sub(1).map(|last| journal.describe(last)).unwrap_or_default();
            let moment = format!("{policy:?}, {damage:?}, after {at} of {}, {last}", journal.len());
            let second = repair_image(replay.disk().image(policy, at as u64), &wanted, &moment);
            if at % 13 == 5 {
                let mut replay = second.replay();
                while replay.advance() {
                    if replay.at() % 11 == at / 13 % 11 {
                        let image = replay.disk().image(policy, at as u64);
                        repair_image(
                            image,
                            &wanted,
                            &format!("{moment}, then after {} of {}", replay.at(), second.len()),
                        );
                    }
                }
            }
            if !replay.advance() {
                break;
            }
        }
    }
}

#[test]
fn a_repair_that_is_interrupted_anywhere_can_be_repeated() {
    interrupt_anywhere(Damage::Nothing, &[LossPolicy::DropAll, LossPolicy::KeepAll]);
}

#[test]
fn a_repair_of_a_damaged_table_that_is_interrupted_anywhere_can_be_repeated() {
    interrupt_anywhere(Damage::Table, &[LossPolicy::DropAll, LossPolicy::KeepAll, LossPolicy::Tear]);
}

#[test]
fn a_repair_of_a_damaged_manifest_that_is_interrupted_anywhere_can_be_repeated() {
    interrupt_anywhere(Damage::Manifest, &[LossPolicy::DropAll, LossPolicy::Tear]);
}

#[test]
fn a_repair_without_current_that_is_interrupted_anywhere_can_be_repeated() {
    interrupt_anywhere(Damage::NoCurrent, &[LossPolicy::DropAll, LossPolicy::Tear]);
}

/// Copies files to where they are synced.
fn copy_files(from: &dyn FileSystem, to: &dyn FileSystem, dir: &Path) {
    create_dir_all(to, dir).unwrap();
    for name in from.children(dir).unwrap() {
        let path = dir.join(&name);
        if from.is_directory(&path).unwrap() {
            copy_files(from, to, &path);
        } else {
            write_file(to, &path, &read_file(from, &path, u64::MAX).unwrap(), true).unwrap();
        }
    }
    to.new_directory(dir).unwrap().fsync().unwrap();
    to.new_directory(dir.parent().unwrap()).unwrap().fsync().unwrap();
}

/// A fault of the file system is no damage: the repair fails, and the next one saves as much as if there had been none.
#[test]
fn a_repair_that_meets_a_fault_fails_and_loses_nothing() {
    let (built, _) = build_in_memory(Damage::Table);
    let image = || {
        let fs = Arc::new(CrashFileSystem::new());
        copy_files(&**built.fs(), &*fs, Path::new("/db"));
        fs
    };
    let env = Env::with_file_system(image());
    repair("/db", &on(&env)).unwrap();
    let wanted = all_in_memory(&env);
    // A full disk stays full until somebody makes room.
    for (reads, effect, times) in
        [(true, io_error(), 1), (false, no_space_error(), 1), (false, no_space_error(), u64::MAX)]
    {
        let operations: &[Operation] = if reads {
            &[Operation::Open, Operation::Read, Operation::List]
        } else {
            &[Operation::Create, Operation::Append, Operation::Sync, Operation::Rename, Operation::SyncDirectory]
        };
        for &operation in operations {
            let mut pass = 0;
            loop {
                let at: u64 = pass;
                pass += if reads || times > 1 { 1 + pass / 8 } else { 1 };
                let fs = image();
                let faulty = Arc::new(FaultFileSystem::new(fs.clone()));
                faulty.inject(
                    Fault::new(Effect::Fail(effect.clone()))
                        .with_operations([operation])
                        .with_pass(at)
                        .with_times(times),
                );
                let before = files_of(&*fs);
                let result = repair("/db", &on(&Env::with_file_system(faulty.clone())));
                if faulty.fired().is_empty() {
                    assert!(at > 0 && result.is_ok(), "{operation:?}");
                    break;
                }
                if reads && result.is_err() && before == files_of(&*fs) {
                    continue;
                }
                let env = Env::with_file_system(fs);
                repair("/db", &on(&env)).unwrap_or_else(|error| panic!("{operation:?} {at}: {error}"));
                let difference = common::contents_difference(&all_in_memory(&env), &wanted);
                assert!(difference.is_none(), "{operation:?} {at} {times}: {difference:?}, {:?}", result.map(|_| ()));
            }
        }
    }
}

fn files_of(fs: &dyn FileSystem) -> Vec<(String, Vec<u8>)> {
    let dir = Path::new("/db");
    let mut names = fs.children(dir).unwrap();
    names.sort();
    let read = |name: &String| read_file(fs, &dir.join(name), u64::MAX).unwrap_or_default();
    names.iter().filter(|name| *name != "LOCK").map(|name| (name.clone(), read(name))).collect()
}
