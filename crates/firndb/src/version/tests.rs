use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use firn_env::sync::Mutex;
use firn_env::{Env, FileSystem};
use firn_format::comparator::{BytewiseComparator, Comparator, InternalKeyComparator};
use firn_format::filename::{self, FileKind};
use firn_format::key::{FileNumber, InternalKey, SequenceNumber, ValueType};
use firn_format::log::{LogEncoder, LogFormat, LogReader, RecoveryMode, SliceSource};
use firn_format::version_edit::{EditDialect, NewFile, VersionEdit};
use firndb_testing::{golden_databases, golden_name};

use super::*;

/// Bytewise with eight bytes of timestamp at the end of a key; greater timestamps first.
struct WithTimestamp;

impl Comparator for WithTimestamp {
    fn name(&self) -> &str {
        "leveldb.BytewiseComparator.u64ts"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let split = |key: &'_ [u8]| key.len().saturating_sub(8);
        let time = |key: &[u8]| key.last_chunk::<8>().map_or(0, |time| u64::from_le_bytes(*time));
        a[..split(a)].cmp(&b[..split(b)]).then_with(|| time(b).cmp(&time(a)))
    }
    fn timestamp_size(&self) -> usize {
        8
    }
}

struct Reverse;

impl Comparator for Reverse {
    fn name(&self) -> &str {
        "rocksdb.ReverseBytewiseComparator"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

fn comparator(name: &str) -> InternalKeyComparator {
    InternalKeyComparator::new(match name {
        "leveldb.BytewiseComparator" => Arc::new(BytewiseComparator),
        "leveldb.BytewiseComparator.u64ts" => Arc::new(WithTimestamp),
        "rocksdb.ReverseBytewiseComparator" => Arc::new(Reverse),
        other => panic!("no comparator {other} here"),
    })
}

fn spec(name: &str, comparator_name: &str, db: &Path) -> FamilySpec {
    FamilySpec {
        name: name.to_owned(),
        order: comparator(comparator_name),
        num_levels: 7,
        force_consistency_checks: true,
        allow_ingest_behind: false,
        paths: vec![db.to_path_buf()],
    }
}

fn bytewise(name: &str) -> FamilySpec {
    spec(name, "leveldb.BytewiseComparator", Path::new("/db"))
}

fn manifest_of(fs: &dyn FileSystem, db: &Path) -> PathBuf {
    db.join(filename::manifest(read_current(fs, db).unwrap()))
}

/// The column families that a MANIFEST names, with their comparators, to open them all.
fn specs_of(fs: &dyn FileSystem, db: &Path) -> Vec<FamilySpec> {
    let mut comparators = std::collections::HashMap::new();
    read_manifest(fs, &manifest_of(fs, db), |edit, _| {
        if let Some(comparator) = edit.comparator {
            comparators.insert(edit.column_family_add.unwrap_or_else(|| "default".into()), comparator);
        }
        Ok(())
    })
    .unwrap();
    let names = list_column_families(fs, db).unwrap();
    let comparator_of = |name: &str| comparators.get(name).map_or("leveldb.BytewiseComparator", String::as_str);
    names.iter().map(|name| spec(name, comparator_of(name), db)).collect()
}

#[test]
fn every_golden_manifest_recovers_to_the_files_that_are_there() {
    let fs = Env::shared().fs().clone();
    for db in golden_databases() {
        let options = VersionSetOptions::new(fs.clone(), &db);
        let (set, _) = VersionSet::recover(options, specs_of(&*fs, &db), OpenMode::ReadWrite)
            .unwrap_or_else(|error| panic!("{}: {error}", db.display()));
        let on_disk: BTreeSet<u64> = fs
            .children(&db)
            .unwrap()
            .iter()
            .filter_map(|name| filename::parse(name))
            .filter(|parsed| parsed.kind == FileKind::Table)
            .map(|parsed| parsed.number.0)
            .collect();
        let in_versions: BTreeSet<u64> = set.live_tables().iter().map(|number| number.0).collect();
        assert!(in_versions.is_subset(&on_disk), "{}", db.display());
        // LevelDB, and a process that did not close its database, leave files that they would have deleted later.
        let name = db.to_string_lossy();
        if !name.contains("leveldb") && !name.contains("unclean") {
            assert_eq!(in_versions, on_disk, "{name}");
        }
        for family in set.families() {
            let version = family.current();
            assert!(version.all_files().all(|(_, file)| file.epoch_number > 0));
            assert!(version.all_files().all(|(_, file)| file.number < set.numbers().peek()));
            for (level, file) in version.all_files() {
                let key = file.largest.encoded();
                if level > 0 && !file.largest.is_range_sentinel() {
                    let search = version.search(level).unwrap();
                    let place = search.place(file.largest.user_key());
                    let at = search.first_not_before(version.files(level), key, place, version.order());
                    assert_eq!(version.files(level)[at].number, file.number);
                }
            }
        }
        assert!(set.last_sequence() >= SequenceNumber(0));
    }
}

#[test]
fn every_record_of_the_golden_manifests_encodes_to_the_same_bytes() {
    let fs = Env::shared().fs().clone();
    for db in golden_databases().iter().filter(|db| !golden_name(db).starts_with("leveldb-")) {
        let dialect =
            if golden_name(db).starts_with("r7.8-") { EditDialect::WithoutEpochs } else { EditDialect::Current };
        let path = manifest_of(&*fs, db);
        let bytes = firn_env::read_file(&*fs, &path, 1 << 30).unwrap();
        let mut reader = LogReader::new(SliceSource(&bytes), 0, RecoveryMode::AbsoluteConsistency);
        while reader.advance().unwrap() {
            let edit = VersionEdit::decode(reader.record()).unwrap();
            assert_eq!(edit.encode_as(dialect).unwrap(), reader.record(), "{} {edit:#?}", path.display());
        }
        assert!(reader.take_report().is_none(), "{}", path.display());
    }
}

/// A database in memory, with its set behind a mutex as the database keeps it.
struct Holder(VersionSet);

impl HoldsVersions for Holder {
    fn versions(&mut self) -> &mut VersionSet {
        &mut self.0
    }
}

fn memory_database() -> (Arc<dyn FileSystem>, Mutex<Holder>) {
    let fs = Env::memory().fs().clone();
    fs.create_dir(Path::new("/db")).unwrap();
    create_database(&*fs, Path::new("/db"), Some("the-id")).unwrap();
    let set = reopen(&fs, &["default"]).unwrap();
    (fs, Mutex::new(Holder(set)))
}

fn reopen(fs: &Arc<dyn FileSystem>, names: &[&str]) -> firn_error::Result<VersionSet> {
    let specs = names.iter().map(|name| bytewise(name)).collect();
    VersionSet::recover(VersionSetOptions::new(fs.clone(), "/db"), specs, OpenMode::ReadWrite).map(|(set, _)| set)
}

fn apply(set: &Mutex<Holder>, change: impl Into<ManifestChange>) -> firn_error::Result<Installed> {
    VersionSet::log_and_apply(&mut set.lock(), change.into())
}

/// A table of `size` bytes that the file system has, described for an edit.
fn table(fs: &dyn FileSystem, number: u64, keys: (&str, &str), sequences: (u64, u64)) -> NewFile {
    let size = 100 + number;
    let path = Path::new("/db").join(filename::table(FileNumber(number)));
    firn_env::write_file(fs, &path, &vec![0; size as usize], true).unwrap();
    NewFile {
        number: FileNumber(number),
        file_size: size,
        smallest: InternalKey::new(keys.0.as_bytes(), SequenceNumber(sequences.1), ValueType::Value),
        largest: InternalKey::new(keys.1.as_bytes(), SequenceNumber(sequences.0), ValueType::Value),
        smallest_sequence: SequenceNumber(sequences.0),
        largest_sequence: SequenceNumber(sequences.1),
        epoch_number: number,
        ..NewFile::default()
    }
}

fn adding(level: u32, file: NewFile) -> VersionEdit {
    let mut edit = VersionEdit::default();
    edit.add_file(level, file);
    edit
}

fn shape(version: &Version) -> String {
    let mut lines = Vec::new();
    for (level, files) in version.levels().iter().enumerate().filter(|(_, files)| !files.is_empty()) {
        let numbers: Vec<String> = files.iter().map(|file| file.number.to_string()).collect();
        lines.push(format!("L{level}:{}", numbers.join(",")));
    }
    lines.join(" ")
}

#[test]
fn changes_are_there_after_a_reopen() {
    let (fs, set) = memory_database();
    assert_eq!(set.lock().0.manifest_number(), FileNumber(1));
    let mut first = adding(0, table(&*fs, 10, ("a", "m"), (1, 5)));
    first.log_number = Some(FileNumber(9));
    apply(&set, first).unwrap();
    apply(&set, adding(0, table(&*fs, 11, ("c", "z"), (6, 9)))).unwrap();
    let manifest = set.lock().0.manifest_number();
    assert_ne!(manifest, FileNumber(1), "the first change after opening starts a new MANIFEST");

    let mut moved = VersionEdit::default();
    moved.delete_file(0, FileNumber(10));
    let file = set.lock().0.family(0).unwrap().current().find_file(FileNumber(10)).unwrap().1.to_new_file();
    moved.add_file(6, file);
    moved.compact_cursors.push((1, InternalKey::new(b"q", SequenceNumber(1), ValueType::Value)));
    let installed = apply(&set, moved).unwrap();
    assert!(!installed.new_manifest);
    assert_eq!(shape(&installed.versions[0]), "L0:11 L6:10");
    assert_eq!(set.lock().0.manifest_number(), manifest);

    set.lock().0.numbers().mark_used(FileNumber(20));
    apply(&set, VersionEdit { min_log_number_to_keep: Some(FileNumber(9)), ..VersionEdit::default() }).unwrap();
    let again = reopen(&fs, &["default"]).unwrap();
    let family = again.family(0).unwrap();
    assert_eq!(shape(family.current()), "L0:11 L6:10");
    assert_eq!(family.log_number(), FileNumber(9));
    assert_eq!(family.next_epoch_number(), 12);
    assert_eq!(family.current().compact_cursor(1).unwrap().user_key(), b"q");
    assert_eq!(again.last_sequence(), SequenceNumber(9));
    assert_eq!(again.min_log_number_to_keep(), FileNumber(9));
    assert_eq!(again.db_id(), Some("the-id"));
    assert!(again.numbers().peek() > FileNumber(20));
}

/// WALs that a column family without data in memory does not need may still be unsynced. If a new MANIFEST said that it needs
/// none of them, a power failure that tears one would leave tables that look newer than it, and no recovery would open them.
#[test]
fn a_new_manifest_has_the_log_numbers_that_were_recorded() {
    let (fs, set) = memory_database();
    let mut first = adding(0, table(&*fs, 10, ("a", "m"), (1, 5)));
    first.log_number = Some(FileNumber(9));
    set.lock().0.numbers().mark_used(FileNumber(20));
    apply(&set, first).unwrap();
    let set = Mutex::new(Holder(reopen(&fs, &["default"]).unwrap()));
    set.lock().0.raise_log_number(0, FileNumber(15));
    let installed = apply(&set, VersionEdit::default()).unwrap();
    assert!(installed.new_manifest);
    assert_eq!(set.lock().0.family(0).unwrap().log_number(), FileNumber(15));
    assert_eq!(reopen(&fs, &["default"]).unwrap().family(0).unwrap().log_number(), FileNumber(9));
}

#[test]
fn files_become_obsolete_with_the_last_version_that_has_them() {
    let (fs, set) = memory_database();
    apply(&set, adding(0, table(&*fs, 10, ("a", "m"), (1, 5)))).unwrap();
    let reader = Arc::clone(set.lock().0.family(0).unwrap().current());
    let mut edit = VersionEdit::default();
    let file = reader.find_file(FileNumber(10)).unwrap().1.to_new_file();
    edit.delete_file(0, FileNumber(10));
    edit.add_file(1, file);
    apply(&set, edit).unwrap();
    let obsolete = Arc::clone(set.lock().0.obsolete());
    let mut gone = VersionEdit::default();
    gone.delete_file(1, FileNumber(10));
    apply(&set, gone).unwrap();
    assert!(!obsolete.is_pending(), "a reader still has the file on another level");
    assert!(set.lock().0.live_tables().contains(&FileNumber(10)));
    drop(reader);
    assert!(obsolete.is_pending());
    let files = obsolete.take_tables();
    assert_eq!(files.iter().map(|file| (file.number.0, file.file_size)).collect::<Vec<_>>(), [(10, 110)]);
    assert!(!obsolete.is_pending());
    assert!(set.lock().0.live_tables().is_empty());
}

#[test]
fn a_manifest_that_grew_is_replaced_by_a_snapshot() {
    let (fs, set) = memory_database();
    set.lock().0.set_manifest_limits(600, 0);
    let mut manifests = BTreeSet::new();
    for number in 100..130 {
        let (from, to) = (format!("{number}a"), format!("{number}z"));
        apply(&set, adding(1, table(&*fs, number, (&from, &to), (number, number)))).unwrap();
        let set = set.lock();
        manifests.insert(set.0.manifest_number());
        assert_eq!(read_current(&*fs, Path::new("/db")).unwrap(), set.0.manifest_number());
        let size = fs.file_size(&manifest_of(&*fs, Path::new("/db"))).unwrap();
        assert_eq!(size, set.0.manifest_size());
    }
    assert!(manifests.len() > 3);
    let set = set.lock();
    assert!(manifests.iter().all(|number| *number == set.0.manifest_number() || set.0.is_manifest_obsolete(*number)));
    assert_eq!(reopen(&fs, &["default"]).unwrap().family(0).unwrap().current().num_files(), 30);
}

#[test]
fn column_families_come_and_go() {
    let (fs, set) = memory_database();
    let create = |name: &str| {
        let change = set.lock().0.new_column_family(bytewise(name), FileNumber(3)).unwrap();
        apply(&set, change).unwrap().versions[0].column_family()
    };
    let (one, two) = (create("one"), create("two"));
    assert_eq!((one, two), (1, 2));
    assert_eq!(
        set.lock().0.new_column_family(bytewise("one"), FileNumber(3)).unwrap_err().message(),
        "Column family already exists"
    );
    let edit = VersionEdit { column_family: two, ..adding(0, table(&*fs, 10, ("a", "b"), (1, 2))) };
    apply(&set, edit).unwrap();
    let drop_one = set.lock().0.drop_column_family(one).unwrap();
    apply(&set, drop_one).unwrap();
    assert!(set.lock().0.drop_column_family(0).is_err());
    let late = VersionEdit { column_family: one, ..adding(0, table(&*fs, 11, ("a", "b"), (1, 2))) };
    assert_eq!(apply(&set, late).unwrap_err().kind(), firn_error::ErrorKind::ColumnFamilyDropped);
    assert_eq!(create("three"), 3, "ids are never used again");

    assert_eq!(list_column_families(&*fs, Path::new("/db")).unwrap(), ["default", "two", "three"]);
    let error = reopen(&fs, &["default", "three"]).unwrap_err();
    assert_eq!(error.message(), "Column families not opened: two");
    assert_eq!(error.kind(), firn_error::ErrorKind::InvalidArgument);
    let again = reopen(&fs, &["default", "two", "three"]).unwrap();
    assert_eq!(again.families().map(|f| f.spec().name.clone()).collect::<Vec<_>>(), ["default", "two", "three"]);
    assert_eq!(shape(again.family(2).unwrap().current()), "L0:10");
    let read_only =
        VersionSet::recover(VersionSetOptions::new(fs.clone(), "/db"), vec![bytewise("default")], OpenMode::ReadOnly);
    assert_eq!(read_only.unwrap().1.not_opened, ["two", "three"]);
}

#[test]
fn changes_of_many_threads_follow_each_other() {
    let (fs, set) = memory_database();
    set.lock().0.set_manifest_limits(3000, 0);
    std::thread::scope(|scope| {
        for thread in 0..6u64 {
            let (fs, set) = (&fs, &set);
            scope.spawn(move || {
                for turn in 0..20 {
                    let number = 100 + thread * 20 + turn;
                    let (from, to) = (format!("{number}a"), format!("{number}z"));
                    let installed =
                        apply(set, adding(1, table(&**fs, number, (&from, &to), (number, number)))).unwrap();
                    assert!(installed.versions[0].find_file(FileNumber(number)).is_some());
                }
            });
        }
    });
    assert!(!set.lock().0.is_writing());
    assert_eq!(set.lock().0.family(0).unwrap().current().num_files(), 120);
    assert_eq!(reopen(&fs, &["default"]).unwrap().family(0).unwrap().current().num_files(), 120);
}

#[test]
fn edits_that_contradict_the_state_change_nothing() {
    let (fs, set) = memory_database();
    apply(&set, adding(1, table(&*fs, 10, ("b", "m"), (1, 5)))).unwrap();
    let mut missing = VersionEdit::default();
    missing.delete_file(1, FileNumber(77));
    let cases = [
        (missing, "Cannot delete table file #77 from level 1 since it is not in the LSM tree"),
        (
            adding(2, table(&*fs, 10, ("b", "m"), (1, 5))),
            "Cannot add table file #10 to level 2 since it is already in the LSM tree on level 1",
        ),
        (
            adding(1, table(&*fs, 12, ("m", "z"), (7, 8))),
            "force_consistency_checks: VersionBuilder: Ln has overlapping",
        ),
    ];
    for (edit, message) in cases {
        let error = apply(&set, edit).unwrap_err();
        assert!(error.is_corruption() && error.message().contains(message), "{error}");
    }
    assert!(set.lock().0.obsolete().take_tables().is_empty(), "files of refused edits are not obsolete");
    apply(&set, adding(1, table(&*fs, 13, ("n", "z"), (7, 8)))).unwrap();
    assert_eq!(shape(reopen(&fs, &["default"]).unwrap().family(0).unwrap().current()), "L1:10,13");
}

/// Writes a MANIFEST of these edits as the current one.
fn write_manifest(fs: &dyn FileSystem, edits: &[VersionEdit]) {
    let mut bytes = Vec::new();
    let mut encoder = LogEncoder::new(LogFormat::default()).unwrap();
    for edit in edits {
        encoder.append_record(&mut bytes, &edit.encode().unwrap()).unwrap();
    }
    firn_env::write_file(fs, Path::new("/db/MANIFEST-000005"), &bytes, true).unwrap();
    firn_env::write_file(fs, Path::new("/db/CURRENT"), b"MANIFEST-000005\n", true).unwrap();
}

fn counters() -> VersionEdit {
    VersionEdit {
        log_number: Some(FileNumber(0)),
        next_file_number: Some(FileNumber(50)),
        last_sequence: Some(SequenceNumber(9)),
        ..VersionEdit::default()
    }
}

#[test]
fn manifests_that_contradict_themselves_are_refused_with_their_place() {
    let drop_default = VersionEdit { column_family_drop: true, ..VersionEdit::default() };
    let drop_unknown = VersionEdit { column_family: 7, ..drop_default.clone() };
    let add = |id, name: &str| VersionEdit {
        column_family: id,
        column_family_add: Some(name.into()),
        ..VersionEdit::default()
    };
    let group = |remaining| VersionEdit { remaining_entries: Some(remaining), ..VersionEdit::default() };
    let late = NewFile { epoch_number: u64::MAX, ..table(&*memory_database().0, 10, ("a", "m"), (1, 2)) };
    let cases: Vec<(Vec<VersionEdit>, &str)> = vec![
        (vec![counters(), drop_default], "dropping the default column family"),
        (vec![counters(), drop_unknown], "MANIFEST - dropping non-existing column family"),
        (vec![counters(), add(0, "x")], "MANIFEST adding the same column family twice: x"),
        (vec![counters(), add(1, "x"), add(2, "x")], "MANIFEST adding the same column family twice: x"),
        (
            vec![counters(), VersionEdit { column_family: 3, ..VersionEdit::default() }],
            "MANIFEST record referencing unknown column family",
        ),
        (
            vec![VersionEdit { next_file_number: Some(FileNumber(1)), ..VersionEdit::default() }],
            "no log_file_number, last_sequence entry in MANIFEST",
        ),
        (vec![], "no log_file_number, next_file_number, last_sequence entry in MANIFEST"),
        (vec![counters(), group(2), group(0)], "corrupted atomic group"),
        (vec![counters(), group(1), counters()], "corrupted atomic group"),
        (vec![counters(), adding(0, late)], "epoch number 18446744073709551615 of table 10 is too large"),
    ];
    for (edits, message) in cases {
        let (fs, _) = memory_database();
        write_manifest(&*fs, &edits);
        let error = reopen(&fs, &["default", "x"]).unwrap_err();
        assert!(error.is_corruption() && error.message().contains(message), "{error} instead of {message}");
        assert_eq!(error.file(), Some(Path::new("/db/MANIFEST-000005")));
    }
}

#[test]
fn a_tree_out_of_order_is_corruption_and_not_an_empty_column_family() {
    let (fs, _) = memory_database();
    let edits =
        [counters(), adding(1, table(&*fs, 10, ("a", "m"), (1, 2))), adding(1, table(&*fs, 11, ("k", "z"), (3, 4)))];
    write_manifest(&*fs, &edits);
    let error = reopen(&fs, &["default"]).unwrap_err();
    assert!(error.is_corruption() && error.message().contains("Ln has overlapping ranges"), "{error}");
    assert!(fs.file_exists(Path::new("/db/000010.sst")).unwrap());
}

#[test]
fn missing_and_cut_tables_are_found_at_open() {
    let (fs, _) = memory_database();
    write_manifest(&*fs, &[counters(), adding(1, table(&*fs, 10, ("a", "m"), (1, 2)))]);
    fs.truncate(Path::new("/db/000010.sst"), 7).unwrap();
    let error = reopen(&fs, &["default"]).unwrap_err();
    assert!(error.message().contains("Sst file size mismatch between expected 110 and file system 7"), "{error}");
    fs.remove_file(Path::new("/db/000010.sst")).unwrap();
    let error = reopen(&fs, &["default"]).unwrap_err();
    assert!(error.is_corruption() && error.message().contains("IO error"), "{error}");
}

#[test]
fn an_incomplete_group_at_the_end_is_left_out() {
    let (fs, _) = memory_database();
    let mut member = adding(0, table(&*fs, 10, ("a", "m"), (1, 2)));
    member.remaining_entries = Some(1);
    write_manifest(&*fs, &[counters(), member.clone()]);
    assert_eq!(shape(reopen(&fs, &["default"]).unwrap().family(0).unwrap().current()), "");
    let last = VersionEdit { remaining_entries: Some(0), ..VersionEdit::default() };
    write_manifest(&*fs, &[counters(), member, last]);
    assert_eq!(shape(reopen(&fs, &["default"]).unwrap().family(0).unwrap().current()), "L0:10");
}

#[test]
fn comparators_and_levels_must_fit() {
    let (fs, _) = memory_database();
    write_manifest(&*fs, &[VersionEdit { comparator: Some("other".into()), ..counters() }]);
    let error = reopen(&fs, &["default"]).unwrap_err();
    assert_eq!(error.message(), "leveldb.BytewiseComparator: does not match existing comparator other");
    write_manifest(&*fs, &[counters(), adding(7, table(&*fs, 10, ("a", "m"), (1, 2)))]);
    assert_eq!(reopen(&fs, &["default"]).unwrap_err().message(), "db has more levels than options.num_levels");
    assert_eq!(reopen(&fs, &[]).unwrap_err().message(), "Default column family not specified");
}

#[test]
fn files_without_epochs_get_them_in_the_order_of_their_sequences() {
    let file = |number, keys, sequences| {
        let fs = Env::memory().fs().clone();
        fs.create_dir(Path::new("/db")).unwrap();
        NewFile { epoch_number: 0, ..table(&*fs, number, keys, sequences) }
    };
    let mut replay = ManifestReplay::new(vec![bytewise("default")]).unwrap();
    let mut edit = counters();
    edit.add_file(0, file(21, ("a", "z"), (20, 25)));
    edit.add_file(0, file(20, ("a", "z"), (26, 30)));
    edit.add_file(2, file(12, ("a", "m"), (5, 9)));
    edit.add_file(6, file(11, ("a", "m"), (0, 0)));
    edit.add_file(6, file(13, ("n", "z"), (0, 0)));
    replay.add(edit).unwrap();
    let state = replay.finish(OpenMode::ReadWrite, &NoFileStats).unwrap();
    let family = &state.families[0];
    assert_eq!(shape(&family.version), "L0:20,21 L2:12 L6:11,13");
    let epochs: Vec<u64> = family.version.all_files().map(|(_, file)| file.epoch_number).collect();
    assert_eq!(epochs, [4, 3, 2, 1, 1]);
    assert_eq!(family.epochs, RecoveredEpochs { next: 5, inferred: true });
}

#[test]
fn current_must_name_a_manifest() {
    let (fs, _) = memory_database();
    for (content, message) in [
        ("", "CURRENT file does not end with newline"),
        ("MANIFEST-000001", "CURRENT file does not end with newline"),
        ("MANIFEST-\n", "CURRENT file corrupted"),
        ("000007.sst\n", "CURRENT file corrupted"),
    ] {
        firn_env::write_file(&*fs, Path::new("/db/CURRENT"), content.as_bytes(), true).unwrap();
        assert_eq!(reopen(&fs, &["default"]).unwrap_err().message(), message);
    }
    firn_env::write_file(&*fs, Path::new("/db/CURRENT"), b"MANIFEST-000077\n", true).unwrap();
    assert!(reopen(&fs, &["default"]).unwrap_err().is_path_not_found());
}

#[test]
fn damage_in_the_middle_is_corruption_and_a_torn_tail_is_not() {
    let (fs, set) = memory_database();
    for number in 100..120 {
        let (from, to) = (format!("{number}a"), format!("{number}z"));
        apply(&set, adding(1, table(&*fs, number, (&from, &to), (number, number)))).unwrap();
    }
    let path = manifest_of(&*fs, Path::new("/db"));
    let whole = firn_env::read_file(&*fs, &path, 1 << 20).unwrap();
    for cut in (whole.len() - 30..whole.len()).rev() {
        firn_env::write_file(&*fs, &path, &whole[..cut], true).unwrap();
        assert_eq!(reopen(&fs, &["default"]).unwrap().family(0).unwrap().current().num_files(), 19);
    }
    for at in [10, whole.len() / 2, whole.len() - 3] {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x40;
        firn_env::write_file(&*fs, &path, &damaged, true).unwrap();
        let error = reopen(&fs, &["default"]).unwrap_err();
        assert!(error.is_corruption() && error.offset().is_some(), "{error}");
    }
}

#[test]
fn rocksdb_reads_the_manifests_that_are_written_here() {
    let Ok(dir) = tempfile::tempdir() else { return };
    let fs = Env::shared().fs().clone();
    let db = dir.path();
    create_database(&*fs, db, Some("0df70f9e-1b0c-4a4f-8b62-6d9a4b6c2f11")).unwrap();
    let default = spec("default", "leveldb.BytewiseComparator", db);
    let (set, _) =
        VersionSet::recover(VersionSetOptions::new(fs.clone(), db), vec![default.clone()], OpenMode::ReadWrite)
            .unwrap();
    let set = Mutex::new(Holder(set));
    let change = set.lock().0.new_column_family(FamilySpec { name: "pets".into(), ..default }, FileNumber(4)).unwrap();
    apply(&set, change).unwrap();
    let memory = Env::memory().fs().clone();
    memory.create_dir(Path::new("/db")).unwrap();
    let mut edit = adding(3, table(&*memory, 12, ("cat", "dog"), (3, 8)));
    edit.column_family = 1;
    apply(&set, edit).unwrap();
    let manifest = manifest_of(&*fs, db);
    let Some(tool) = firndb_testing::rocksdb_tool("ldb") else { return };
    let ldb = |arguments: &[String]| Command::new(&tool).args(arguments).output().unwrap();
    let output = ldb(&["manifest_dump".into(), "--verbose".into(), format!("--path={}", manifest.display())]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    for line in [
        "Comparator: leveldb.BytewiseComparator",
        "ColumnFamilyAdd: pets",
        "AddFile: 3 12 112 'cat' seq:8, type:1 .. 'dog' seq:3, type:1",
        "Column family \"pets\"  (ID 1)",
        "--- level 3 --- version# ",
        " 12:112[3 .. 8]['cat' seq:8, type:1 .. 'dog' seq:3, type:1]",
    ] {
        assert!(text.contains(line), "no {line:?} in\n{text}");
    }
    let output = ldb(&["list_column_families".into(), format!("--db={}", db.display())]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("{default, pets}"), "{text}");
}
