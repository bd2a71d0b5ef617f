//! An open that is refused leaves every byte as it was: for whatever a database or the options ask that is not done here or
//! not there, in every way of opening and by repair. Only an empty LOCK may be new.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::{FS, open_with, put_file, read_dir};
use firn_env::{FileSystem, read_file};
use firn_format::batch::{self, PrepareKind};
use firn_format::checksum::{crc32c, mask_crc32c};
use firn_format::comparator::ReverseBytewiseComparator;
use firn_format::filename;
use firn_format::key::{InternalKey, ValueType};
use firn_format::log::{LogEncoder, LogFormat};
use firn_format::version_edit::{NewFile, VersionEdit, WalAddition};
use firndb::merge::built_in;
use firndb::options::{ConfigOptions, OptionSet, WalRecoveryMode};
use firndb::version::{read_current, read_manifest};
use firndb::{
    ColumnFamilyDescriptor, ColumnFamilyOptions, Db, DbOptions, ErrorKind, FileNumber, FlushOptions, Options,
    ReadOptions, SequenceNumber, WriteBatch, WriteOptions, repair,
};

/// The number of a WAL that a case makes; above those of the database, whose next file number need not know it.
const WAL: FileNumber = FileNumber(900);

/// A closed database with a table and two families.
fn database(dir: &Path) {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    let db = Db::open(dir, options).unwrap();
    let cf = db.create_cf("other", ColumnFamilyOptions::default()).unwrap();
    for number in 0..10 {
        db.put(format!("key{number}"), "value").unwrap();
    }
    db.flush(&FlushOptions::default(), db.default_cf()).unwrap();
    db.put_opt(&WriteOptions::default(), &cf, "key", "value").unwrap();
    db.put("logged", "value").unwrap();
    db.close().unwrap();
}

/// A batch of a WAL behind all of [`database`].
fn batch(count: u32, append: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = batch::header(SequenceNumber(1000), count).to_vec();
    append(&mut bytes);
    bytes
}

fn wal_bytes(write: impl Fn(&mut LogEncoder, &mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = LogEncoder::new(LogFormat::default()).unwrap();
    encoder.start(&mut bytes);
    write(&mut encoder, &mut bytes);
    bytes
}

fn wal(dir: &Path, batches: &[Vec<u8>]) {
    let bytes = wal_bytes(|encoder, out| batches.iter().for_each(|batch| encoder.append_record(out, batch).unwrap()));
    put_file(&dir.join(filename::wal(WAL)), &bytes);
}

/// Writes another edit behind those of the MANIFEST.
fn add_edit(dir: &Path, edit: &VersionEdit) {
    let path = dir.join(filename::manifest(read_current(&FS, dir).unwrap()));
    let mut edits = Vec::new();
    read_manifest(&FS, &path, |edit, _| {
        edits.push(edit);
        Ok(())
    })
    .unwrap();
    edits.push(edit.clone());
    let bytes = wal_bytes(|encoder, out| {
        for edit in &edits {
            encoder.append_record(out, &edit.encode().unwrap()).unwrap();
        }
    });
    put_file(&path, &bytes);
}

fn change_options(dir: &Path, from: &str, to: &str) {
    let name = read_dir(dir).into_keys().filter(|name| name.starts_with("OPTIONS")).max().unwrap();
    let text = String::from_utf8(read_file(&FS, &dir.join(&name), u64::MAX).unwrap()).unwrap();
    assert!(text.contains(from));
    put_file(&dir.join(name), text.replace(from, to).as_bytes());
}

fn nothing(_: &mut DbOptions, _: &mut Vec<ColumnFamilyDescriptor>) {}

type ChangeOptions = fn(&mut DbOptions, &mut Vec<ColumnFamilyDescriptor>);

/// Who refuses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// Opens of all kinds.
    Opens,
    /// Only those that may write.
    Writers,
    /// Opens of all kinds, and repair.
    OpensAndRepair,
}

/// What is refused: its name, how the database comes to it, with which options it is opened, and what the error says.
struct Case {
    name: &'static str,
    make: fn(&Path),
    options: ChangeOptions,
    by: By,
    kind: ErrorKind,
    says: &'static [&'static str],
}

const fn case(name: &'static str, kind: ErrorKind, says: &'static [&'static str], make: fn(&Path)) -> Case {
    Case { name, make, options: nothing, by: By::Opens, kind, says }
}

/// A WAL that fills memtables again and again before it comes to what is not there.
fn long_wal_with_a_merge(dir: &Path) {
    let value = vec![b'v'; 4096];
    let mut batches: Vec<Vec<u8>> = (0..100u64)
        .map(|number| {
            let mut bytes = batch::header(SequenceNumber(1000 + number), 1).to_vec();
            batch::append_put(&mut bytes, 0, format!("long{number:05}").as_bytes(), &value);
            bytes
        })
        .collect();
    let mut last = batch::header(SequenceNumber(1100), 1).to_vec();
    batch::append_merge(&mut last, 0, b"key", b"operand");
    batches.push(last);
    wal(dir, &batches);
}

fn prepared(bytes: &mut Vec<u8>, kind: PrepareKind) {
    batch::append_begin_prepare(bytes, kind);
    batch::append_put(bytes, 0, b"uncommitted", b"value");
    batch::append_end_prepare(bytes, b"xid");
}

fn policy(dir: &Path, kind: PrepareKind, commit: bool) {
    let mut batches = vec![batch(1, |bytes| prepared(bytes, kind))];
    if commit {
        let mut bytes = batch::header(SequenceNumber(1001), 0).to_vec();
        batch::append_commit(&mut bytes, b"xid");
        batches.push(bytes);
    }
    wal(dir, &batches);
}

/// The next file number after all edits.
fn log_numbers(dir: &Path, family: u32, log_number: u64, min_to_keep: u64) {
    add_edit(
        dir,
        &VersionEdit {
            column_family: family,
            log_number: Some(FileNumber(log_number)).filter(|number| number.0 > 0),
            min_log_number_to_keep: Some(FileNumber(min_to_keep)).filter(|number| number.0 > 0),
            ..VersionEdit::default()
        },
    );
}

fn refused() -> Vec<Case> {
    use ErrorKind::{Corruption, InvalidArgument, NotSupported};
    vec![
        Case {
            by: By::OpensAndRepair,
            ..case(
                "a merge in the WAL without its operator",
                InvalidArgument,
                &["Merge operator is not set for column family \"other\"", "000900.log"],
                |dir| wal(dir, &[batch(1, |bytes| batch::append_merge(bytes, 1, b"key", b"operand"))]),
            )
        },
        Case {
            options: |_, families| families.iter_mut().for_each(|family| family.options.write_buffer_size = 64 << 10),
            by: By::OpensAndRepair,
            ..case(
                "a merge behind enough to flush",
                InvalidArgument,
                &["Merge operator is not set for column family \"default\"", "000900.log"],
                long_wal_with_a_merge,
            )
        },
        Case {
            by: By::OpensAndRepair,
            ..case("a wide-column entity in the WAL", NotSupported, &["wide-column", "000900.log"], |dir| {
                wal(dir, &[batch(1, |bytes| batch::append_put_entity(bytes, 0, b"key", b"\x01\x00"))]);
            })
        },
        Case {
            by: By::OpensAndRepair,
            ..case("a blob index in the WAL", NotSupported, &["blob index", "000900.log"], |dir| {
                wal(dir, &[batch(1, |bytes| batch::append_blob_index(bytes, 0, b"key", b"\x00\x00value"))]);
            })
        },
        case("timestamps in the WAL", NotSupported, &["timestamps", "000900.log"], |dir| {
            let bytes = wal_bytes(|encoder, out| {
                encoder.append_timestamp_sizes(out, &[(0, 8)]).unwrap();
                encoder.append_record(out, &batch(1, |bytes| batch::append_put(bytes, 0, b"key", b"value"))).unwrap();
            });
            put_file(&dir.join(filename::wal(WAL)), &bytes);
        }),
        case(
            "a record type of a newer version in the WAL",
            NotSupported,
            &["unknown record type 64", "000900.log"],
            |dir| {
                let covered = [&[64][..], b"payload"].concat();
                let mut bytes = mask_crc32c(crc32c(&covered)).to_le_bytes().to_vec();
                bytes.extend_from_slice(&7u16.to_le_bytes());
                bytes.extend_from_slice(&covered);
                put_file(&dir.join(filename::wal(WAL)), &bytes);
            },
        ),
        Case {
            by: By::OpensAndRepair,
            ..case("a prepared transaction of write-prepared", NotSupported, &["write-prepared", "000900.log"], |dir| {
                policy(dir, PrepareKind::WritePrepared, false);
            })
        },
        Case {
            by: By::OpensAndRepair,
            ..case("a committed one", NotSupported, &["write-prepared", "000900.log"], |dir| {
                policy(dir, PrepareKind::WritePrepared, true);
            })
        },
        Case {
            by: By::OpensAndRepair,
            ..case("a part of one of write-unprepared", NotSupported, &["write-unprepared", "000900.log"], |dir| {
                policy(dir, PrepareKind::WriteUnprepared, false);
            })
        },
        Case {
            by: By::OpensAndRepair,
            ..case(
                "one whose WAL is kept for it alone, since tables hold the rest",
                NotSupported,
                &["write-prepared", "000900.log"],
                |dir| {
                    policy(dir, PrepareKind::WritePrepared, false);
                    // Every table is newer than the WAL.
                    let next = Some(FileNumber(1000));
                    add_edit(dir, &VersionEdit { next_file_number: next, ..VersionEdit::default() });
                    log_numbers(dir, 0, 950, 0);
                    log_numbers(dir, 1, 950, 0);
                },
            )
        },
        case("an undecided transaction without two-phase commit", NotSupported, &["allow_2pc"], |dir| {
            policy(dir, PrepareKind::WriteCommitted, false);
        }),
        case("one in a WAL that is kept for it alone", NotSupported, &["allow_2pc"], |dir| {
            policy(dir, PrepareKind::WriteCommitted, false);
            add_edit(dir, &VersionEdit { next_file_number: Some(FileNumber(1000)), ..VersionEdit::default() });
            log_numbers(dir, 0, 950, 0);
            log_numbers(dir, 1, 950, 0);
        }),
        Case {
            options: |_, families| families[0].options.comparator = Arc::new(ReverseBytewiseComparator),
            ..case(
                "another comparator",
                InvalidArgument,
                &["rocksdb.ReverseBytewiseComparator: does not match existing comparator", "MANIFEST-"],
                |_| (),
            )
        },
        Case {
            options: |_, families| families.truncate(1),
            by: By::Writers,
            ..case("a family that is not opened", InvalidArgument, &["Column families not opened: other"], |_| ())
        },
        Case {
            options: |_, families| {
                families.push(ColumnFamilyDescriptor::new("third", ColumnFamilyOptions::default()));
            },
            ..case("a family that is not there", InvalidArgument, &["Column family not found: third"], |_| ())
        },
        Case {
            options: |options, _| options.error_if_exists = true,
            by: By::Writers,
            ..case("error_if_exists", InvalidArgument, &["exists (error_if_exists is true)"], |_| ())
        },
        Case {
            options: |_, families| {
                families[0].options.set_text("table_factory", "PlainTable", &ConfigOptions::default()).unwrap()
            },
            ..case("plain tables", NotSupported, &["plain tables"], |_| ())
        },
        case(
            "a log number in the future",
            Corruption,
            &["log number of column family \"other\"", "MANIFEST-"],
            |dir| {
                log_numbers(dir, 1, 1 << 40, 0);
            },
        ),
        case("a smallest log number in the future", Corruption, &["smallest log number to keep", "MANIFEST-"], |dir| {
            log_numbers(dir, 0, 0, 1 << 40);
        }),
        case("file numbers that are used up", Corruption, &["next file number", "too large", "MANIFEST-"], |dir| {
            let next = Some(FileNumber(u64::MAX - 1));
            add_edit(dir, &VersionEdit { next_file_number: next, ..VersionEdit::default() });
        }),
        case("sequence numbers that are used up", Corruption, &["last sequence number", "MANIFEST-"], |dir| {
            add_edit(dir, &VersionEdit { last_sequence: Some(SequenceNumber(u64::MAX)), ..VersionEdit::default() });
        }),
        case("a table with a sequence number beyond them", Corruption, &["sequence number", "MANIFEST-"], |dir| {
            let file = NewFile {
                number: FileNumber(7),
                largest_sequence: SequenceNumber(1 << 60),
                epoch_number: 1,
                smallest: InternalKey::new(b"a", SequenceNumber(1), ValueType::Value),
                largest: InternalKey::new(b"a", SequenceNumber(1), ValueType::Value),
                ..NewFile::default()
            };
            add_edit(dir, &VersionEdit { new_files: vec![(0, file)], ..VersionEdit::default() });
        }),
        case("a tracked WAL with a number at the end", Corruption, &["tracked WAL", "MANIFEST-"], |dir| {
            let wal = WalAddition { number: FileNumber(u64::MAX), synced_size_bytes: None };
            add_edit(dir, &VersionEdit { wal_additions: vec![wal], ..VersionEdit::default() });
        }),
        case("a MANIFEST that drops the default family", Corruption, &["MANIFEST-"], |dir| {
            add_edit(dir, &VersionEdit { column_family_drop: true, ..VersionEdit::default() });
        }),
        Case {
            by: By::OpensAndRepair,
            ..case("a table named by the last number", Corruption, &["too large", "18446744073709551615.sst"], |dir| {
                put_file(&dir.join("18446744073709551615.sst"), b"");
            })
        },
        Case {
            by: By::OpensAndRepair,
            ..case("a WAL named by the last but one", Corruption, &["too large", "18446744073709551614.log"], |dir| {
                put_file(&dir.join("18446744073709551614.log"), b"");
            })
        },
        Case {
            by: By::OpensAndRepair,
            ..case("a MANIFEST named by the last", Corruption, &["too large", "MANIFEST-18446744073709551615"], |dir| {
                put_file(&dir.join("MANIFEST-18446744073709551615"), b"");
            })
        },
    ]
}

fn assert_refused<T>(case: &Case, how: &str, dir: &Path, open: impl FnOnce() -> firndb::Result<T>) {
    let before = read_dir(dir);
    let what = format!("{}, {how}", case.name);
    let Err(error) = open() else { panic!("{what}: not refused") };
    let text = error.to_string();
    assert!(error.kind() == case.kind && case.says.iter().all(|part| text.contains(part)), "{what}: {text}");
    let mut after = read_dir(dir);
    if !before.contains_key("LOCK") {
        assert!(after.remove("LOCK").is_none_or(|bytes| bytes.is_empty()), "{what}");
    }
    let names = |files: &std::collections::BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&after), names(&before), "{what}: {text}");
    assert!(after == before, "{what}: a file changed");
}

#[test]
fn a_refused_open_leaves_every_byte_as_it_was() {
    let temp = tempfile::tempdir().unwrap();
    for (at, case) in refused().iter().enumerate() {
        let dir: PathBuf = temp.path().join(at.to_string());
        database(&dir);
        (case.make)(&dir);
        remove(&dir, "LOCK");
        let modes = [
            WalRecoveryMode::TolerateCorruptedTailRecords,
            WalRecoveryMode::AbsoluteConsistency,
            WalRecoveryMode::PointInTimeRecovery,
            WalRecoveryMode::SkipAnyCorruptedRecords,
        ];
        let setups = modes.into_iter().map(|mode| (mode, true));
        for (mode, paranoid_checks) in setups.chain([(WalRecoveryMode::PointInTimeRecovery, false)]) {
            let how = format!("{mode:?}, paranoid_checks={paranoid_checks}");
            assert_refused(case, &how, &dir, || {
                open_with(&dir, |options, families| {
                    options.wal_recovery_mode = mode;
                    options.paranoid_checks = paranoid_checks;
                    (case.options)(options, families);
                })
            });
        }
        if case.by != By::Writers {
            assert_refused(case, "read-only", &dir, || {
                let (mut options, mut families) = common::descriptors(&dir)?;
                (case.options)(&mut options, &mut families);
                Db::open_cf_read_only(&dir, options, families)
            });
        }
        if case.by == By::OpensAndRepair {
            assert_refused(case, "repair", &dir, || repair(&dir, &Options::default()));
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "a test changes files")]
fn remove(dir: &Path, name: &str) {
    std::fs::remove_file(dir.join(name)).unwrap();
}

/// As RocksDB: the object is not there, and OPTIONS goes on naming it.
#[test]
fn unknown_filters_and_operators_are_kept_in_options_and_do_not_keep_the_database_shut() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("db");
    database(&dir);
    change_options(&dir, "merge_operator=nullptr", "merge_operator=MyOwnMerge");
    change_options(&dir, "compaction_filter_factory=nullptr", "compaction_filter_factory={id=MyFilterFactory;ttl=7;}");
    for round in 0..2 {
        let db = common::open(&dir).unwrap();
        db.put(format!("round{round}"), "value").unwrap();
        assert_eq!(db.get("logged").unwrap().as_deref(), Some(&b"value"[..]));
        let mut merge = WriteBatch::new();
        merge.merge("key", "operand").unwrap();
        assert_eq!(db.write(&mut merge).unwrap_err().kind(), ErrorKind::NotSupported);
        db.close().unwrap();
        let files = read_dir(&dir);
        let (_, text) = files.iter().rfind(|(name, _)| name.starts_with("OPTIONS")).unwrap();
        let text = String::from_utf8_lossy(text);
        for line in ["merge_operator=MyOwnMerge", "compaction_filter_factory={id=MyFilterFactory;ttl=7;}"] {
            assert!(text.contains(line), "{line}");
        }
    }
}

#[test]
fn a_comparator_that_is_not_known_makes_no_database() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("db");
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.cf.set_text("comparator", "my.Comparator", &ConfigOptions::default()).unwrap();
    let error = Db::open(&dir, options).map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "Not implemented: Could not load Comparator: my.Comparator");
    assert!(!FS.file_exists(&dir).unwrap());
}

/// A batch holds a prepared section whole or not at all: what lies between is damage, and none of it is applied or forgotten
/// without a word.
#[test]
fn half_a_prepared_section_is_damage() {
    type Half<'a> = &'a dyn Fn(&mut Vec<u8>);
    let put = |bytes: &mut Vec<u8>| batch::append_put(bytes, 0, b"uncommitted", b"value");
    let halves: [Half<'_>; 4] = [
        &|bytes| {
            batch::append_begin_prepare(bytes, PrepareKind::WriteCommitted);
            put(bytes);
        },
        &|bytes| {
            put(bytes);
            batch::append_end_prepare(bytes, b"xid");
        },
        &|bytes| {
            batch::append_begin_prepare(bytes, PrepareKind::WriteCommitted);
            prepared(bytes, PrepareKind::WriteCommitted);
        },
        &|bytes| {
            batch::append_begin_prepare(bytes, PrepareKind::WriteCommitted);
            batch::append_commit(bytes, b"other");
            put(bytes);
            batch::append_end_prepare(bytes, b"xid");
        },
    ];
    for (at, half) in halves.iter().enumerate() {
        for mode in [WalRecoveryMode::AbsoluteConsistency, WalRecoveryMode::PointInTimeRecovery] {
            let temp = tempfile::tempdir().unwrap();
            let dir = temp.path().join("db");
            database(&dir);
            wal(&dir, &[batch(1, half)]);
            let opened = open_with(&dir, |options, _| {
                options.wal_recovery_mode = mode;
                options.allow_2pc = true;
            });
            if mode == WalRecoveryMode::PointInTimeRecovery {
                let db = opened.unwrap();
                assert_eq!(db.get("uncommitted").unwrap(), None, "{at}");
                assert_eq!(db.get("logged").unwrap().as_deref(), Some(&b"value"[..]));
            } else {
                let error = opened.map(|_| ()).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corruption);
                assert!(error.to_string().contains("prepared section"), "{at}: {error}");
                assert!(error.to_string().contains("000900.log"), "{at}: {error}");
            }
        }
    }
}

/// A transaction may be prepared in a WAL whose other contents are in tables, and committed in a later one.
#[test]
fn a_commit_finds_what_an_older_wal_prepared() {
    for allow_2pc in [false, true] {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("db");
        database(&dir);
        policy(&dir, PrepareKind::WriteCommitted, false);
        add_edit(&dir, &VersionEdit { next_file_number: Some(FileNumber(1000)), ..VersionEdit::default() });
        log_numbers(&dir, 0, 901, 0);
        log_numbers(&dir, 1, 901, 0);
        let mut commit = batch::header(SequenceNumber(1000), 0).to_vec();
        batch::append_commit(&mut commit, b"xid");
        let bytes = wal_bytes(|encoder, out| encoder.append_record(out, &commit).unwrap());
        put_file(&dir.join(filename::wal(FileNumber(901))), &bytes);
        let db = open_with(&dir, |options, _| options.allow_2pc = allow_2pc).unwrap();
        assert_eq!(db.get("uncommitted").unwrap().as_deref(), Some(&b"value"[..]));
    }
}

#[test]
fn with_its_operator_the_merge_is_there() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("db");
    database(&dir);
    wal(&dir, &[batch(1, |bytes| batch::append_merge(bytes, 1, b"key", b"operand"))]);
    open_with(&dir, nothing).map(|_| ()).unwrap_err();
    let with_operator = |_: &mut DbOptions, families: &mut Vec<ColumnFamilyDescriptor>| {
        families.iter_mut().for_each(|family| family.options.merge_operator = built_in("stringappend", None));
    };
    let db = open_with(&dir, with_operator).unwrap();
    let cf = db.cf("other").unwrap();
    assert_eq!(db.get_opt(&ReadOptions::default(), &cf, "key").unwrap().as_deref(), Some(&b"value,operand"[..]));
}
