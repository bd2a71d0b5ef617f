//! Scrubbing finds damage that no reader has met, also behind what is cached; checksums of whole files are those that
//! RocksDB shows.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::path::PathBuf;
use std::sync::Arc;

use firn_env::{Env, read_file, write_file};
use firn_format::checksum::crc32c;
use firndb::file_checksum::FileChecksumGenCrc32cFactory;
use firndb::options::{CompactRangeOptions, OptionSet, TableFactory};
use firndb::{Db, ErrorKind, FlushOptions, Options};

fn options(env: &Env, with_checksums: bool) -> Options {
    let mut options = Options::default();
    options.db.env = env.clone();
    options.db.create_if_missing = true;
    options.db.file_checksum_gen_factory = with_checksums.then(|| Arc::new(FileChecksumGenCrc32cFactory) as Arc<_>);
    options.cf.disable_auto_compactions = true;
    options
}

fn fill(db: &Db, rounds: u32) {
    for round in 0..rounds {
        for number in 0..400u32 {
            db.put(format!("key{number:05}"), format!("value {round} {number}")).unwrap();
        }
        db.delete_range("key00100", "key00105").unwrap();
        db.flush(&FlushOptions::default(), db.default_cf()).unwrap();
    }
}

fn tables(db: &Db) -> Vec<PathBuf> {
    db.live_files().iter().map(|file| file.directory.join(file.name.trim_start_matches('/'))).collect()
}

#[test]
fn checksums_of_whole_files_go_to_the_manifest_and_are_verified() {
    let env = Env::memory();
    let db = Db::open("/db", options(&env, true)).unwrap();
    fill(&db, 2);
    let compact = CompactRangeOptions::default();
    db.compact_range(&compact, db.default_cf(), None, None).unwrap();
    fill(&db, 1);
    let check = |db: &Db| {
        let found = db.live_files_checksum_info();
        assert_eq!(found.len(), 2);
        for info in &found {
            let path = PathBuf::from(format!("/db/{:06}.sst", info.number.get()));
            let expected = crc32c(&read_file(&**env.fs(), &path, u64::MAX).unwrap()).to_be_bytes();
            assert_eq!((&info.checksum[..], info.function.as_str()), (&expected[..], "FileChecksumCrc32c"));
        }
        db.verify_file_checksums().unwrap();
        db.verify_checksum().unwrap();
        db.check_consistency().unwrap();
    };
    check(&db);
    db.close().unwrap();
    let db = Db::open("/db", options(&env, true)).unwrap();
    check(&db);
    // Any byte counts, also one that no block has.
    let path = tables(&db).remove(0);
    let bytes = read_file(&**env.fs(), &path, u64::MAX).unwrap();
    for at in [0, bytes.len() / 2, bytes.len() - 1] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        write_file(&**env.fs(), &path, &damaged, false).unwrap();
        let error = db.verify_file_checksums().unwrap_err();
        assert_eq!((error.kind(), error.file()), (ErrorKind::Corruption, Some(path.as_path())), "{error}");
        assert!(error.to_string().contains("file checksum mismatch: expecting"), "{error}");
    }
    write_file(&**env.fs(), &path, &bytes, false).unwrap();
    db.verify_file_checksums().unwrap();
}

#[test]
fn without_checksums_there_is_nothing_to_verify() {
    let env = Env::memory();
    let db = Db::open("/db", options(&env, false)).unwrap();
    fill(&db, 1);
    assert_eq!(
        db.live_files_checksum_info().iter().map(|info| info.function.as_str()).collect::<Vec<_>>(),
        ["Unknown"]
    );
    assert_eq!(db.verify_file_checksums().unwrap_err().kind(), ErrorKind::InvalidArgument);
    db.close().unwrap();
    // Tables from before the option was set pass.
    let db = Db::open("/db", options(&env, true)).unwrap();
    db.verify_file_checksums().unwrap();
}

#[test]
fn options_name_the_factory() {
    let config = firndb::options::ConfigOptions::default();
    let mut db = firndb::DbOptions::default();
    assert_eq!(db.get_text("file_checksum_gen_factory").as_deref(), Some("nullptr"));
    db.set_text("file_checksum_gen_factory", "FileChecksumGenCrc32cFactory", &config).unwrap();
    assert_eq!(db.get_text("file_checksum_gen_factory").as_deref(), Some("FileChecksumGenCrc32cFactory"));
    assert!(db.file_checksum_gen_factory.is_some());
    db.set_text("file_checksum_gen_factory", "nullptr", &config).unwrap();
    assert!(db.file_checksum_gen_factory.is_none());
}

/// A byte that changes on the disk is found although everything was read, and is cached and open.
#[test]
fn scrubbing_reads_what_is_on_the_disk() {
    for cached_index in [false, true] {
        let env = Env::memory();
        let mut options = options(&env, false);
        if let TableFactory::BlockBased(table) = &mut options.cf.table_factory {
            table.cache_index_and_filter_blocks = cached_index;
        }
        let db = Db::open("/db", options).unwrap();
        fill(&db, 1);
        assert_eq!(db.iter().count(), 395);
        let path = tables(&db).remove(0);
        let bytes = read_file(&**env.fs(), &path, u64::MAX).unwrap();
        for at in (0..bytes.len()).step_by(37) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            write_file(&**env.fs(), &path, &damaged, false).unwrap();
            let error = db.verify_checksum().expect_err(&format!("byte {at} of {} is found", bytes.len()));
            assert_eq!(error.file(), Some(path.as_path()), "{error}");
            assert!(error.offset().is_some(), "{error}");
        }
        write_file(&**env.fs(), &path, &bytes, false).unwrap();
        db.verify_checksum().unwrap();
    }
}

#[test]
fn rocksdb_shows_the_same_checksums() {
    if !common::have_tools() {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("db");
    let mut options = options(&Env::default(), true);
    if let TableFactory::BlockBased(table) = &mut options.cf.table_factory {
        table.format_version = 5;
    }
    let db = Db::open(&dir, options).unwrap();
    fill(&db, 2);
    let infos = db.live_files_checksum_info();
    assert_eq!(infos.len(), 2);
    db.close().unwrap();
    let Some(ldb) = firndb_testing::rocksdb_tool("ldb") else { return };
    #[allow(clippy::disallowed_methods, reason = "a test runs RocksDB's tool")]
    let output = std::process::Command::new(ldb)
        .arg(format!("--db={}", dir.display()))
        .arg("file_checksum_dump")
        .output()
        .unwrap();
    for info in infos {
        // RocksDB 7.8 prints the bytes as they are, later versions in hexadecimal.
        let mut line = format!("{}, {}, ", info.number.get(), info.function).into_bytes();
        line.extend(info.checksum);
        assert!(output.stdout.windows(line.len()).any(|shown| shown == line), "{}", output.stdout.escape_ascii());
    }
}
