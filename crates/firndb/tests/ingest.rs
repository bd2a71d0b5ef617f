//! Ingestion of tables that were written outside the database: where they land, what they hide, who waits, what fails, and
//! what RocksDB's tools say of the result.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test fails by panicking, and may look at files")]

mod common;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use common::{Contents, have_tools, rocksdb_accepts, scan_all};
use firn_env::FileSystem;
use firn_env::crash::{CrashFileSystem, LossPolicy};
use firn_format::block::BlockIter;
use firn_format::checksum;
use firn_format::footer::Footer;
use firn_format::index::BlockHandle;
use firn_format::properties::find_value_range;
use firndb::env::Env;
use firndb::file_checksum::FileChecksumGenCrc32cFactory;
use firndb::merge::StringAppendOperator;
use firndb::options::{
    BlockBasedTableOptions, CompactRangeOptions, CompactionStyle, FlushOptions, IngestExternalFileOptions, ReadOptions,
    TableFactory,
};
use firndb::stats::EventListener;
use firndb::stats::events::ExternalFileIngestionInfo;
use firndb::{
    ColumnFamily, Db, ErrorKind, ExportedColumnFamily, ExternalFileChecksum, ImportColumnFamilyOptions,
    IngestExternalFiles, Options, WriteOptions, sst_file_writer,
};

struct Setup {
    db: Option<Db>,
    options: Options,
    dir: tempfile::TempDir,
}

impl Setup {
    fn new(change: impl FnOnce(&mut Options)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.cf.merge_operator = Some(Arc::new(StringAppendOperator::default()));
        // The newest format that RocksDB 7.8 reads.
        options.cf.table_factory =
            TableFactory::BlockBased(BlockBasedTableOptions { format_version: 5, ..BlockBasedTableOptions::default() });
        options.cf.disable_auto_compactions = true;
        change(&mut options);
        let db = Db::open(dir.path().join("db"), options.clone()).unwrap();
        Self { db: Some(db), options, dir }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn reopen(&mut self) {
        self.db = None;
        self.db = Some(Db::open(self.dir.path().join("db"), self.options.clone()).unwrap());
    }

    /// An external file with these keys, whose values are `name`; `-key` deletes, `+key` merges, `a..b` deletes a range.
    fn file(&self, name: &str, keys: &[&str]) -> PathBuf {
        let path = self.dir.path().join(format!("{name}.sst"));
        let mut writer = sst_file_writer(&self.options);
        writer.open(&path).unwrap();
        for key in keys {
            if let Some(key) = key.strip_prefix('-') {
                writer.delete(key.as_bytes()).unwrap();
            } else if let Some(key) = key.strip_prefix('+') {
                writer.merge(key.as_bytes(), name.as_bytes()).unwrap();
            } else if let Some((start, end)) = key.split_once("..") {
                writer.delete_range(start.as_bytes(), end.as_bytes()).unwrap();
            } else {
                writer.put(key.as_bytes(), name.as_bytes()).unwrap();
            }
        }
        writer.finish().unwrap();
        path
    }

    fn ingest(&self, files: &[&PathBuf], options: IngestExternalFileOptions) -> firndb::Result<()> {
        self.db().ingest_external_file(self.db().default_cf(), files, &options)
    }

    /// Ingests files and tells the level and the sequence number of each, in their order.
    fn ingested(&self, files: &[&PathBuf], options: IngestExternalFileOptions) -> Vec<(usize, u64)> {
        let known: Vec<_> = self.db().live_files().iter().map(|file| file.number).collect();
        self.ingest(files, options).unwrap();
        let mut new: Vec<_> = self.db().live_files().into_iter().filter(|file| !known.contains(&file.number)).collect();
        // A flush before has a lower number, since files get theirs first; it is told apart by being no external file.
        new.sort_by_key(|file| file.number);
        new.truncate(files.len());
        new.iter()
            .map(|file| {
                assert_eq!(file.smallest_sequence, file.largest_sequence);
                (file.level, file.largest_sequence.get())
            })
            .collect()
    }

    fn put(&self, key: &str, value: &str) {
        self.db().put(key, value).unwrap();
    }

    fn flush(&self) {
        self.db().flush(&FlushOptions::default(), self.db().default_cf()).unwrap();
    }

    fn compact(&self) {
        self.db().compact_range(&CompactRangeOptions::default(), self.db().default_cf(), None, None).unwrap();
    }

    fn contents(&self) -> Vec<String> {
        let text = |entry: firndb::Result<(Vec<u8>, Vec<u8>)>| {
            let (key, value) = entry.unwrap();
            String::from_utf8([key, b"=".to_vec(), value].concat()).unwrap()
        };
        self.db().iter().map(text).collect()
    }

    fn tables(&self) -> usize {
        let names = std::fs::read_dir(self.dir.path().join("db")).unwrap();
        names.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|e| e == "sst")).count()
    }
}

fn plain() -> IngestExternalFileOptions {
    IngestExternalFileOptions::default()
}

#[test]
fn files_go_as_deep_as_what_they_overlap_allows() {
    let mut setup = Setup::new(|options| options.cf.level_compaction_dynamic_level_bytes = false);
    let (a, b, c) = (setup.file("a", &["a", "c"]), setup.file("b", &["x", "z"]), setup.file("c", &["b", "c"]));
    assert_eq!(setup.ingested(&[&a, &b], plain()), [(6, 0), (6, 0)]);
    assert_eq!(setup.ingested(&[&c], plain()), [(5, 1)]);
    setup.put("n", "memory");
    let e = setup.file("e", &["m", "n"]);
    assert_eq!(setup.ingested(&[&e], plain()), [(0, 3)]);
    let snapshot = setup.db().snapshot();
    let f = setup.file("f", &["q"]);
    assert_eq!(setup.ingested(&[&f], plain()), [(6, 4)]);
    let inconsistent = IngestExternalFileOptions { snapshot_consistency: false, ..plain() };
    let g = setup.file("g", &["r"]);
    assert_eq!(setup.ingested(&[&g], inconsistent), [(6, 0)]);
    let at_snapshot = ReadOptions { snapshot: Some(snapshot), ..ReadOptions::default() };
    let get = |key| setup.db().get_opt(&at_snapshot, setup.db().default_cf(), key).unwrap().is_some();
    assert_eq!((get("q"), get("r"), get("n")), (false, true, true));
    drop(at_snapshot);
    let expected = ["a=a", "b=c", "c=c", "m=e", "n=e", "q=f", "r=g", "x=b", "z=b"];
    assert_eq!(setup.contents(), expected);
    setup.reopen();
    assert_eq!(setup.contents(), expected);
    setup.put("c", "newer");
    setup.compact();
    assert_eq!(setup.db().get("c").unwrap().as_deref(), Some(&b"newer"[..]));
    assert_eq!(setup.contents().len(), expected.len());
}

#[test]
fn files_that_overlap_each_other_are_stacked_in_their_order() {
    let setup = Setup::new(|options| options.cf.level_compaction_dynamic_level_bytes = false);
    let (a, b, c) = (setup.file("a", &["a", "c"]), setup.file("b", &["x", "z"]), setup.file("c", &["b", "c"]));
    assert_eq!(setup.ingested(&[&a, &b], plain()), [(6, 0), (6, 0)]);
    assert_eq!(setup.ingested(&[&c], plain()), [(5, 1)]);
    assert_eq!(setup.ingested(&[&a, &c, &b], plain()), [(4, 2), (3, 3), (3, 4)]);
    assert_eq!(setup.contents(), ["a=a", "b=c", "c=c", "x=b", "z=b"]);
    let disabled = IngestExternalFileOptions { allow_global_seqno: false, ..plain() };
    let error = setup.ingest(&[&a, &c], disabled).unwrap_err();
    assert_eq!(error.message(), "Global seqno is required, but disabled");
}

#[test]
fn levels_above_the_base_level_stay_empty() {
    let setup = Setup::new(|options| options.cf.level_compaction_dynamic_level_bytes = true);
    let (a, b, c) = (setup.file("a", &["a", "c"]), setup.file("b", &["b"]), setup.file("c", &["d"]));
    assert_eq!(setup.ingested(&[&a], plain()), [(6, 0)]);
    // Between the keys of a table: over nothing, but not beside it either.
    assert_eq!(setup.ingested(&[&b, &c], plain()), [(0, 0), (6, 0)]);
    let d = setup.file("d", &["a"]);
    assert_eq!(setup.ingested(&[&d], plain()), [(0, 1)]);
}

#[test]
fn deletions_merges_and_ranges_take_effect() {
    let mut setup = Setup::new(|_| ());
    for key in ["a", "b", "c", "d", "e", "f"] {
        setup.put(key, "old");
    }
    let file = setup.file("new", &["-a", "+b", "c..e", "d", "g"]);
    setup.ingest(&[&file], plain()).unwrap();
    let expected = ["b=old,new", "d=new", "e=old", "f=old", "g=new"];
    assert_eq!(setup.contents(), expected);
    setup.reopen();
    assert_eq!(setup.contents(), expected);
    setup.compact();
    assert_eq!(setup.contents(), expected);
    // A range tombstone alone: it covers what is there, is not covered by what comes later, and asks for a compaction.
    let only_range = setup.file("range", &["a..f"]);
    setup.ingest(&[&only_range], plain()).unwrap();
    setup.put("b", "later");
    assert_eq!(setup.contents(), ["b=later", "f=old", "g=new"]);
    setup.compact();
    assert_eq!(setup.contents(), ["b=later", "f=old", "g=new"]);
}

#[test]
fn ranges_in_memory_are_seen_by_files() {
    let setup = Setup::new(|_| ());
    setup.db().delete_range("c", "f").unwrap();
    let file = setup.file("new", &["d"]);
    setup.ingest(&[&file], plain()).unwrap();
    assert_eq!(setup.contents(), ["d=new"]);
    assert_eq!(setup.db().live_files().len(), 2, "the tombstone was flushed below the file");
}

#[test]
fn allow_blocking_flush_decides_whether_memtables_may_be_flushed() {
    let setup = Setup::new(|_| ());
    setup.put("m", "memory");
    let (over, beside) = (setup.file("over", &["l", "n"]), setup.file("beside", &["x"]));
    let no_flush = IngestExternalFileOptions { allow_blocking_flush: false, ..plain() };
    assert_eq!(setup.ingest(&[&over], no_flush).unwrap_err().message(), "External file requires flush");
    assert_eq!((setup.tables(), setup.contents().len()), (0, 1));
    setup.ingest(&[&beside], no_flush).unwrap();
    assert_eq!(setup.db().live_files().len(), 1);
    setup.ingest(&[&over], plain()).unwrap();
    assert_eq!(setup.contents(), ["l=over", "m=memory", "n=over", "x=beside"]);
}

#[test]
fn move_files_and_link_files_share_the_file_and_copies_do_not() {
    let links = |setup: &Setup, file: &Path| {
        use std::os::unix::fs::MetadataExt;
        let source = std::fs::metadata(file).map(|metadata| metadata.ino()).ok();
        let live = setup.db().live_files().into_iter().next_back().unwrap();
        let ingested = std::fs::metadata(live.directory.join(live.name.trim_start_matches('/'))).unwrap().ino();
        (source.is_some(), source == Some(ingested))
    };
    for (move_files, link_files, expected) in
        [(false, false, (true, false)), (false, true, (true, true)), (true, false, (false, false))]
    {
        let setup = Setup::new(|_| ());
        let file = setup.file("new", &["a"]);
        setup.ingest(&[&file], IngestExternalFileOptions { move_files, link_files, ..plain() }).unwrap();
        assert_eq!(links(&setup, &file), expected);
        assert_eq!(setup.contents(), ["a=new"]);
    }
    let setup = Setup::new(|_| ());
    let file = setup.file("new", &["a"]);
    let both = IngestExternalFileOptions { move_files: true, link_files: true, ..plain() };
    assert_eq!(setup.ingest(&[&file], both).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn fail_if_not_bottommost_level_refuses_what_would_lie_higher() {
    let setup = Setup::new(|_| ());
    let (a, b) = (setup.file("a", &["a", "c"]), setup.file("b", &["b"]));
    let bottommost = IngestExternalFileOptions { fail_if_not_bottommost_level: true, ..plain() };
    setup.ingest(&[&a], bottommost).unwrap();
    let error = setup.ingest(&[&b], bottommost).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TryAgain);
    assert_eq!((setup.tables(), setup.contents().len()), (1, 2), "nothing stays behind");
    setup.ingest(&[&b], plain()).unwrap();
    assert_eq!(setup.contents(), ["a=a", "b=b", "c=a"]);
}

#[test]
fn ingest_behind_puts_files_below_everything() {
    let mut setup = Setup::new(|options| {
        options.cf.cf_allow_ingest_behind = true;
        options.cf.compaction_style = CompactionStyle::Universal;
    });
    setup.put("b", "present");
    setup.flush();
    setup.compact();
    let file = setup.file("behind", &["a", "b", "c"]);
    let behind = IngestExternalFileOptions { ingest_behind: true, ..plain() };
    assert_eq!(setup.ingested(&[&file], behind), [(6, 0)]);
    assert_eq!(setup.contents(), ["a=behind", "b=present", "c=behind"]);
    let again = setup.file("again", &["c"]);
    assert_eq!(setup.ingest(&[&again], behind).unwrap_err().kind(), ErrorKind::InvalidArgument);
    // What comes from above stays off the last level.
    let above = setup.file("above", &["x"]);
    assert_eq!(setup.ingested(&[&above], plain()), [(5, 0)]);
    setup.reopen();
    assert_eq!(setup.contents(), ["a=behind", "b=present", "c=behind", "x=above"]);
    let refusing = Setup::new(|_| ());
    let file = refusing.file("behind", &["a"]);
    assert_eq!(refusing.ingest(&[&file], behind).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn write_global_seqno_writes_into_the_copy() {
    for (write_global_seqno, link_files) in [(false, false), (true, false), (true, true)] {
        let mut setup = Setup::new(|_| ());
        setup.put("a", "old");
        let file = setup.file("new", &["a"]);
        let source = std::fs::read(&file).unwrap();
        let options = IngestExternalFileOptions { write_global_seqno, link_files, ..plain() };
        assert_eq!(setup.ingested(&[&file], options), [(0, 2)]);
        assert_eq!(std::fs::read(&file).unwrap(), source, "the source stays as it was");
        let live = setup.db().live_files().into_iter().max_by_key(|file| file.largest_sequence).unwrap();
        let ingested = std::fs::read(live.directory.join(live.name.trim_start_matches('/'))).unwrap();
        assert_eq!(ingested != source, write_global_seqno);
        setup.reopen();
        assert_eq!(setup.contents(), ["a=new"]);
        setup.db().verify_checksum().unwrap();
    }
}

#[test]
fn damaged_and_foreign_files_are_refused_and_leave_nothing_behind() {
    let setup = Setup::new(|_| ());
    let refused = |file: &PathBuf, options| {
        let error = setup.ingest(&[file], options).unwrap_err();
        assert_eq!((setup.tables(), setup.contents().len()), (0, 0));
        error
    };
    assert_eq!(refused(&setup.dir.path().join("absent.sst"), plain()).kind(), ErrorKind::IoError);
    assert_eq!(setup.ingest(&[], plain()).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let keys: Vec<String> = (0..2000).map(|i| format!("key{i:06}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let file = setup.file("damaged", &keys);
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[1500] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    // A damaged data block is found when it is asked for, or later.
    let verified = IngestExternalFileOptions { verify_checksums_before_ingest: true, ..plain() };
    let error = refused(&file, verified);
    assert!(error.is_corruption() && error.to_string().contains("damaged.sst"), "{error}");
    bytes.truncate(2000);
    std::fs::write(&file, &bytes).unwrap();
    assert!(refused(&file, plain()).is_corruption());
    // A table of a database is no external file, unless it is said to be one.
    let other = Setup::new(|_| ());
    other.put("a", "value");
    other.put("b", "value");
    other.flush();
    let live = other.db().live_files().remove(0);
    let table = live.directory.join(live.name.trim_start_matches('/'));
    assert_eq!(refused(&table, plain()).message(), "External file version not found");
    let generated = IngestExternalFileOptions { allow_db_generated_files: true, ..plain() };
    setup.ingest(&[&table], generated).unwrap();
    assert_eq!(setup.contents(), ["a=value", "b=value"]);
    assert!(setup.ingest(&[&table], generated).is_err(), "it overlaps itself now");
}

#[test]
fn several_families_get_their_files_together_or_not_at_all() {
    let mut setup = Setup::new(|options| options.db.create_missing_column_families = true);
    let other = setup.db().create_cf("other", setup.options.cf.clone()).unwrap();
    let (a, b) = (setup.file("a", &["a"]), setup.file("b", &["b"]));
    let all = |files: [&PathBuf; 2], cfs: [&ColumnFamily; 2]| {
        let one = |(file, cf): (&PathBuf, _)| IngestExternalFiles {
            cf,
            files: vec![file.clone()],
            checksums: Vec::new(),
            options: plain(),
        };
        let ingestions: Vec<_> = files.into_iter().zip(cfs).map(one).collect();
        setup.db().ingest_external_files(&ingestions)
    };
    let absent = setup.dir.path().join("absent.sst");
    assert!(all([&a, &absent], [setup.db().default_cf(), &other]).is_err());
    assert_eq!(setup.tables(), 0);
    assert!(all([&a, &b], [&other, &other]).is_err());
    setup.db().put_opt(&WriteOptions::default(), &other, "b", "old").unwrap();
    all([&a, &b], [setup.db().default_cf(), &other]).unwrap();
    let get =
        |db: &Db, cf: &ColumnFamily, key| db.get_opt(&ReadOptions::default(), cf, key).unwrap().map(|v| v.to_vec());
    assert_eq!(get(setup.db(), setup.db().default_cf(), "a").as_deref(), Some(&b"a"[..]));
    assert_eq!(get(setup.db(), &other, "b").as_deref(), Some(&b"b"[..]));
    drop(other);
    setup.db = None;
    let cfs = ["default", "other"].map(|name| firndb::ColumnFamilyDescriptor::new(name, setup.options.cf.clone()));
    let db = Db::open_cf(setup.dir.path().join("db"), setup.options.db.clone(), cfs.to_vec()).unwrap();
    assert_eq!(get(&db, &db.cf("other").unwrap(), "b").as_deref(), Some(&b"b"[..]));
}

#[test]
fn disallow_memtable_writes_takes_only_files() {
    let setup = Setup::new(|_| ());
    let options = firndb::ColumnFamilyOptions { disallow_memtable_writes: true, ..setup.options.cf.clone() };
    let cf = setup.db().create_cf("files", options).unwrap();
    let write = WriteOptions::default();
    let refused = setup.db().put_opt(&write, &cf, "a", "value").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    let mut batch = firndb::WriteBatch::new();
    batch.put("a", "value").unwrap();
    batch.merge_cf(&cf, "a", "operand").unwrap();
    assert_eq!(setup.db().write(&mut batch).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert!(setup.contents().is_empty(), "no part of the batch was written");
    setup.db().ingest_external_file(&cf, &[setup.file("new", &["a"])], &plain()).unwrap();
    assert!(setup.db().get_opt(&ReadOptions::default(), &cf, "a").unwrap().is_some());
}

#[test]
fn checksums_of_whole_files_are_compared_and_kept() {
    let with_checksums = |factory: bool| {
        Setup::new(move |options| {
            if factory {
                options.db.file_checksum_gen_factory = Some(Arc::new(FileChecksumGenCrc32cFactory));
            }
        })
    };
    let crc = |path: &Path| {
        let bytes = std::fs::read(path).unwrap();
        ExternalFileChecksum {
            checksum: firn_format::checksum::crc32c_extend(0, &bytes).to_be_bytes().to_vec(),
            function: "FileChecksumCrc32c".to_owned(),
        }
    };
    let ingest = |setup: &Setup, file: &PathBuf, checksums: Vec<ExternalFileChecksum>, verify, write_global_seqno| {
        let options = IngestExternalFileOptions { verify_file_checksum: verify, write_global_seqno, ..plain() };
        let cf = setup.db().default_cf();
        setup.db().ingest_external_files(&[IngestExternalFiles { cf, files: vec![file.clone()], checksums, options }])
    };
    for (known, write_global_seqno) in [(false, false), (true, false), (true, true)] {
        let setup = with_checksums(true);
        setup.put("a", "old");
        let file = setup.file("new", &["a"]);
        let checksums = if known { vec![crc(&file)] } else { Vec::new() };
        ingest(&setup, &file, checksums, true, write_global_seqno).unwrap();
        setup.db().verify_file_checksums().unwrap();
        let kept = setup.db().live_files_checksum_info();
        let kept = format!("{kept:?}");
        assert!(kept.contains("FileChecksumCrc32c") && !kept.contains("Unknown"), "{kept}");
    }
    let setup = with_checksums(true);
    let file = setup.file("new", &["a"]);
    let wrong = ExternalFileChecksum { checksum: vec![1, 2, 3, 4], ..crc(&file) };
    let strange = ExternalFileChecksum { function: "strange".to_owned(), ..crc(&file) };
    assert!(ingest(&setup, &file, vec![wrong.clone()], true, false).unwrap_err().is_corruption());
    for (checksums, verify) in
        [(vec![strange.clone()], true), (vec![strange], false), (vec![crc(&file), crc(&file)], true)]
    {
        assert_eq!(ingest(&setup, &file, checksums, verify, false).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    ingest(&setup, &file, vec![wrong.clone()], false, false).unwrap();
    assert!(setup.db().verify_file_checksums().unwrap_err().is_corruption(), "it was trusted");
    let without = with_checksums(false);
    ingest(&without, &without.file("new", &["a"]), vec![wrong], true, false).unwrap();
}

#[test]
fn listeners_are_told_of_ingested_files() {
    #[derive(Default)]
    struct Listener(Mutex<Vec<(String, u64)>>);
    impl EventListener for Listener {
        fn on_external_file_ingested(&self, info: &ExternalFileIngestionInfo) {
            let name = info.external_file_path.file_name().unwrap().to_str().unwrap().to_owned();
            assert!(info.internal_file_path.is_file() && info.table_properties.is_some());
            self.0.lock().unwrap().push((name, info.global_sequence));
        }
    }
    let listener = Arc::new(Listener::default());
    let setup = Setup::new(|options| options.db.listeners = vec![Arc::clone(&listener) as _]);
    let (a, b) = (setup.file("a", &["a"]), setup.file("b", &["a"]));
    setup.ingest(&[&a, &b], plain()).unwrap();
    assert_eq!(*listener.0.lock().unwrap(), [("a.sst".to_owned(), 1), ("b.sst".to_owned(), 2)]);
}

#[test]
fn writers_and_compactions_go_on_beside_ingestions() {
    let setup = Setup::new(|options| {
        options.cf.disable_auto_compactions = false;
        options.cf.write_buffer_size = 64 << 10;
        options.cf.target_file_size_base = 16 << 10;
        options.cf.max_bytes_for_level_base = 64 << 10;
        options.cf.level0_file_num_compaction_trigger = 2;
        options.db.max_background_jobs = 4;
    });
    let files: Vec<PathBuf> = (0..40)
        .map(|i| {
            let keys: Vec<String> = (0..50).map(|k| format!("key{:05}", (i * 131 + k * 40) % 2000)).collect();
            let mut keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            keys.sort_unstable();
            keys.dedup();
            setup.file(&format!("file{i:02}"), &keys)
        })
        .collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..6000 {
                setup.put(&format!("key{:05}w", i * 7 % 2000), &format!("{i:0100}"));
            }
        });
        for file in &files {
            setup.ingest(&[file], plain()).unwrap();
            let name = file.file_stem().unwrap().to_str().unwrap();
            let newest = setup.contents().into_iter().filter(|entry| entry.ends_with(name)).count();
            assert_eq!(newest, 50, "all of {name} is visible at once");
        }
    });
    setup.db().wait_for_compact().unwrap();
    assert!(setup.db().property(setup.db().default_cf(), "rocksdb.background-errors").as_deref() == Some("0"));
    setup.db().verify_checksum().unwrap();
}

#[test]
fn rocksdb_reads_databases_with_ingested_files() {
    if !have_tools() {
        return;
    }
    for write_global_seqno in [false, true] {
        let mut setup = Setup::new(|_| ());
        for i in 0..300 {
            setup.put(&format!("key{i:03}"), "written");
        }
        let keys: Vec<String> = (0..300).step_by(3).map(|i| format!("key{i:03}")).collect();
        let over = setup.file("over", &keys.iter().map(String::as_str).collect::<Vec<_>>());
        let (beside, range) =
            (setup.file("beside", &["x1", "x2"]), setup.file("range", &["-key001", "key100..key120"]));
        let options = IngestExternalFileOptions { write_global_seqno, ..plain() };
        setup.ingest(&[&over, &beside], options).unwrap();
        setup.ingest(&[&range], options).unwrap();
        let wanted: Contents = scan_all(setup.db()).unwrap();
        assert_eq!(wanted["default"].len(), 300 + 2 - 20 - 1);
        setup.db = None;
        rocksdb_accepts(&setup.dir.path().join("db"), &wanted, &["default".to_owned()]).unwrap();
        setup.reopen();
        setup.compact();
        assert_eq!(scan_all(setup.db()).unwrap(), wanted);
    }
}

#[test]
fn files_that_rocksdb_wrote_are_ingested() {
    if !have_tools() {
        return;
    }
    use std::io::Write;
    let setup = Setup::new(|_| ());
    let file = setup.dir.path().join("external.sst");
    let db = format!("--db={}", setup.dir.path().join("other").display());
    let mut ldb = std::process::Command::new("ldb")
        .args([&db, "--create_if_missing", "write_extern_sst", file.to_str().unwrap()])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    ldb.stdin.take().unwrap().write_all(b"a ==> one\nb ==> two\n").unwrap();
    assert!(ldb.wait().unwrap().success());
    setup.put("b", "old");
    setup.ingest(&[&file], plain()).unwrap();
    assert_eq!(setup.contents(), ["a=one", "b=two"]);
}

/// A family with tables on several levels, deletions, merges and an ingested file; and its contents.
fn filled_family(setup: &Setup, name: &str, start: &str) -> (ColumnFamily, common::Entries) {
    let db = setup.db();
    let cf = db.create_cf(name, setup.options.cf.clone()).unwrap();
    let write = WriteOptions::default();
    for round in 0..3 {
        for i in 0..100 {
            db.put_opt(&write, &cf, format!("{start}{i:03}"), format!("round {round}")).unwrap();
        }
        db.delete_opt(&write, &cf, format!("{start}{round:03}")).unwrap();
        db.merge_opt(&write, &cf, format!("{start}050"), "operand").unwrap();
        db.flush(&FlushOptions::default(), &cf).unwrap();
        if round == 1 {
            db.compact_range(&CompactRangeOptions::default(), &cf, None, None).unwrap();
        }
    }
    let file = setup.file(&format!("external-{name}"), &[&format!("{start}007"), &format!("{start}010..{start}020")]);
    db.ingest_external_file(&cf, &[&file], &plain()).unwrap();
    db.put_opt(&write, &cf, format!("{start}999"), "in memory").unwrap();
    let contents = common::scan(db, &cf).unwrap();
    assert_eq!(contents.len(), 100 - 1 - 10 + 1);
    (cf, contents)
}

#[test]
fn exported_families_are_imported_elsewhere() {
    for move_files in [false, true] {
        let (from, mut to) = (Setup::new(|_| ()), Setup::new(|_| ()));
        let (a, a_contents) = filled_family(&from, "a", "a");
        let (b, b_contents) = filled_family(&from, "b", "b");
        let export = |cf: &ColumnFamily| from.db().export_cf(cf, to.dir.path().join(cf.name())).unwrap();
        let exported = [export(&a), export(&b)];
        let again = from.db().export_cf(&a, to.dir.path().join("a")).unwrap_err();
        assert_eq!(again.message(), "Specified export_dir exists");
        assert_eq!(exported[0].files.len(), from.db().live_files().iter().filter(|f| f.column_family == "a").count());
        let how = ImportColumnFamilyOptions { move_files };
        let import = |name: &str, import: &[ExportedColumnFamily]| {
            to.db().create_cf_with_import(name, to.options.cf.clone(), import, how)
        };
        let overlapping = import("twice", &[exported[0].clone(), exported[0].clone()]).unwrap_err();
        assert_eq!(overlapping.message(), "CFs have overlapping ranges");
        let renamed = ExportedColumnFamily { comparator: "other".to_owned(), ..exported[0].clone() };
        assert_eq!(import("renamed", &[renamed]).unwrap_err().message(), "Comparator name mismatch");
        assert_eq!(to.db().column_families().len(), 1, "nothing stays behind");
        let both = import("both", &exported).unwrap();
        let wanted = [a_contents, b_contents].concat();
        assert_eq!(common::scan(to.db(), &both).unwrap(), wanted);
        assert_eq!(std::fs::read_dir(to.dir.path().join("a")).unwrap().count() == 0, move_files);
        to.db().put_opt(&WriteOptions::default(), &both, "a000", "new").unwrap();
        assert_eq!(to.db().get_opt(&ReadOptions::default(), &both, "a000").unwrap().as_deref(), Some(&b"new"[..]));
        to.db().delete_opt(&WriteOptions::default(), &both, "a000").unwrap();
        let wanted: common::Entries = wanted.into_iter().filter(|(key, _)| key != b"a000").collect();
        to.db().compact_range(&CompactRangeOptions::default(), &both, None, None).unwrap();
        assert_eq!(common::scan(to.db(), &both).unwrap(), wanted);
        drop(both);
        to.db = None;
        if have_tools() {
            let contents = Contents::from([("both".to_owned(), wanted)]);
            rocksdb_accepts(&to.dir.path().join("db"), &contents, &["default".into(), "both".into()]).unwrap();
        }
    }
}

#[test]
fn an_import_that_fails_leaves_no_family() {
    let (from, to) = (Setup::new(|_| ()), Setup::new(|_| ()));
    let (a, _) = filled_family(&from, "a", "a");
    let exported = from.db().export_cf(&a, to.dir.path().join("a")).unwrap();
    let victim = to.dir.path().join("a").join(exported.files[0].name.trim_start_matches('/'));
    std::fs::remove_file(&victim).unwrap();
    std::fs::write(&victim, b"no table").unwrap();
    let import =
        |options| to.db().create_cf_with_import("a", options, std::slice::from_ref(&exported), Default::default());
    assert!(import(to.options.cf.clone()).is_err());
    let shallow = firndb::ColumnFamilyOptions { num_levels: 2, ..to.options.cf.clone() };
    assert_eq!(import(shallow).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!((to.db().column_families().len(), to.tables()), (1, 0));
    to.put("a", "goes on");
    assert_eq!(to.contents(), ["a=goes on"]);
}

/// Runs an ingestion on a file system that knows what a crash leaves, and looks at the database at every moment of it.
fn crash_anywhere_in(move_files: bool, write_global_seqno: bool, policy: LossPolicy) {
    let fs = Arc::new(CrashFileSystem::new());
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_file_system(fs.clone());
    let db = Db::open("/db", options.clone()).unwrap();
    let sync = WriteOptions { sync: true, ..WriteOptions::default() };
    for key in ["a", "b", "c"] {
        db.put_opt(&sync, db.default_cf(), key, "old").unwrap();
    }
    let mut writer = sst_file_writer(&options);
    let files: Vec<PathBuf> = [["a", "x"], ["b", "y"]]
        .into_iter()
        .map(|keys| {
            let path = PathBuf::from(format!("/{}.sst", keys[1]));
            writer.open(&path).unwrap();
            keys.iter().for_each(|key| writer.put(key.as_bytes(), b"new").unwrap());
            writer.finish().unwrap();
            path
        })
        .collect();
    fs.new_directory(Path::new("/")).unwrap().fsync().unwrap();
    fs.start_journal();
    let how = IngestExternalFileOptions { move_files, write_global_seqno, ..plain() };
    db.ingest_external_file(db.default_cf(), &files, &how).unwrap();
    let journal = fs.take_journal();
    db.close().unwrap();
    let mut replay = journal.replay();
    let (mut before, mut after) = (0, 0);
    loop {
        let image = replay.disk().image(policy, replay.at() as u64);
        let fs = Arc::new(CrashFileSystem::from_image(image));
        options.db.env = Env::with_file_system(fs.clone());
        options.db.create_if_missing = false;
        let moment = || format!("after {} of {} operations", replay.at(), journal.len());
        let db = Db::open("/db", options.clone()).unwrap_or_else(|error| panic!("{}: {error}", moment()));
        let found: Vec<String> = ["a", "b", "c", "x", "y"]
            .iter()
            .map(|key| String::from_utf8(db.get(key).unwrap().map(|v| v.to_vec()).unwrap_or_default()).unwrap())
            .collect();
        match found.join(" ").trim() {
            "old old old" => {
                before += 1;
                // What is not ingested is where it was.
                assert!(files.iter().all(|file| fs.file_exists(file).unwrap()), "{}", moment());
            }
            "new new old new new" => after += 1,
            other => panic!("{}: {other:?}", moment()),
        }
        db.verify_checksum().unwrap();
        db.close().unwrap();
        if !replay.advance() {
            break;
        }
    }
    assert!(before > 0 && after > 0, "{before} moments before, {after} after");
}

#[test]
fn a_crash_leaves_files_ingested_or_where_they_were() {
    use LossPolicy::{DropAll, DropData, DropNames, KeepAll, Tear};
    for policy in [DropAll, KeepAll, DropData, DropNames, Tear] {
        for (move_files, write_global_seqno) in [(false, false), (true, false), (true, true)] {
            crash_anywhere_in(move_files, write_global_seqno, policy);
        }
    }
}

/// The checksum of the properties is made with sequence number 0, so that ingestion may write another one in place. A table whose
/// checksum was made with a number is refused: no reader could check it once it has the database's number.
#[test]
fn a_table_whose_checksum_covers_a_sequence_number_is_refused() {
    let setup = Setup::new(|_| ());
    setup.put("a", "memory");
    let path = setup.file("b", &["b"]);
    let mut bytes = std::fs::read(&path).unwrap();
    let footer = Footer::decode(&bytes[bytes.len() - 53..], bytes.len() as u64).unwrap();
    let block = |handle: BlockHandle| handle.offset as usize..(handle.offset + handle.size) as usize;
    let mut metaindex = BlockIter::new(&bytes[block(footer.metaindex)]).unwrap();
    let mut handle = metaindex.find(b"rocksdb.properties").unwrap().unwrap();
    let properties = block(BlockHandle::decode_from(&mut handle).unwrap());
    let number =
        find_value_range(&bytes[properties.clone()], "rocksdb.external_sst_file.global_seqno").unwrap().unwrap();
    bytes[properties.start + number.start] = 7;
    let word = checksum::compute(footer.checksum_type, &bytes[properties.start..=properties.end]);
    bytes[properties.end + 1..properties.end + 5].copy_from_slice(&word.to_le_bytes());
    std::fs::write(&path, bytes).unwrap();
    let error = setup.ingest(&[&path], plain()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert_eq!(setup.contents(), ["a=memory"]);
}
