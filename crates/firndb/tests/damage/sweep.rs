//! A bit turned in every region of every file of databases that use all that tables can hold.
//!
//! For tables: readers never get other data; scrubbing finds the damage and names file and offset; a compaction that meets
//! it fails, keeps its inputs and stops writes, and one that does not meet it (it reads no filters) writes what was there.
//! For other files: the database is refused, with file and offset, or is what it was.

use std::path::Path;

use firn_env::{Env, read_file};
use firn_format::compression::CompressionType;
use firndb::file_checksum::FileChecksumGenCrc32cFactory;
use firndb::options::{
    BlockBasedTableOptions, BottommostLevelCompaction, CompactRangeOptions, ConfigOptions, LoadedOptions, OptionSet,
    TableFactory, WalRecoveryMode,
};
use firndb::{ColumnFamilyOptions, Db, Error, ErrorKind, FlushOptions, Options, WriteBatch};

use super::{Access, Contents, DIRECTORY, Damage, Files, check_error, contents_of, loaded_options, open, put_files};

/// Families whose tables differ in layout.
const FAMILIES: &[(&str, &str)] = &[
    ("default", "filter_policy=bloomfilter:10:false;block_size=400;format_version=6"),
    (
        "partitions",
        "filter_policy=ribbonfilter:10:0;block_size=300;index_type=kTwoLevelIndexSearch;partition_filters=true;\
         metadata_block_size=100;format_version=5",
    ),
    ("dictionary", "block_size=500;checksum=kCRC32c;format_version=7;data_block_index_type=kDataBlockBinaryAndHash"),
];

fn family_options(table: &str) -> ColumnFamilyOptions {
    let mut options = ColumnFamilyOptions { disable_auto_compactions: true, ..ColumnFamilyOptions::default() };
    let mut factory = BlockBasedTableOptions::default();
    let config = ConfigOptions::default();
    for pair in table.split(';').map(str::trim) {
        let (name, value) = pair.split_once('=').unwrap();
        factory.set_text(name, value, &config).unwrap();
    }
    options.table_factory = TableFactory::BlockBased(factory);
    options.merge_operator = Some(firndb::merge::built_in("stringappend", None).unwrap());
    if table.contains("kDataBlockBinaryAndHash") {
        options.compression = CompressionType::Zstd;
        options.compression_opts.max_dict_bytes = 4096;
    }
    options
}

/// The files of a database with tables on two levels, range deletions, and a WAL that was not flushed.
fn build() -> (Files, LoadedOptions, Contents) {
    let env = Env::memory();
    let mut options = Options { cf: family_options(FAMILIES[0].1), ..Options::default() };
    options.db.env = env.clone();
    options.db.create_if_missing = true;
    options.db.file_checksum_gen_factory = Some(std::sync::Arc::new(FileChecksumGenCrc32cFactory));
    let db = Db::open(DIRECTORY, options).unwrap();
    for (name, table) in &FAMILIES[1..] {
        db.create_cf(name, family_options(table)).unwrap();
    }
    for round in 0..3u32 {
        for cf in db.column_families() {
            let mut batch = WriteBatch::new();
            for number in 0..60 + 60 * round {
                let value = format!("value {round} of {number} {}", "x".repeat((number % 40) as usize));
                batch.put_cf(&cf, format!("key{:06}", number * 3 + round), value).unwrap();
            }
            batch.merge_cf(&cf, "merged", format!("{round}")).unwrap();
            batch.delete_cf(&cf, "key000003").unwrap();
            batch.delete_range_cf(&cf, format!("key00003{round}"), format!("key00004{round}")).unwrap();
            db.write(&mut batch).unwrap();
            if round < 2 {
                db.flush(&FlushOptions::default(), &cf).unwrap();
            }
            if round == 0 {
                db.compact_range(&CompactRangeOptions::default(), &cf, None, None).unwrap();
            }
        }
    }
    let contents = contents_of(&db, false).unwrap();
    // A WAL that the last flush made obsolete goes with the end of its job; nobody would notice damage to it.
    db.wait_for_compact().unwrap();
    // As a kill would leave them: nothing is flushed.
    let mut files = Files::new();
    for name in env.fs().children(Path::new(DIRECTORY)).unwrap() {
        let path = Path::new(DIRECTORY).join(&name);
        if !matches!(name.as_str(), "LOG" | "LOCK") {
            files.insert(name, read_file(&**env.fs(), &path, u64::MAX).unwrap());
        }
    }
    db.close().unwrap();
    // Behind the records of a WAL and of a MANIFEST that are being written lies reserved space.
    for (_, bytes) in files.iter_mut().filter(|(name, _)| name.ends_with(".log") || name.starts_with("MANIFEST")) {
        bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1);
    }
    let env = Env::memory();
    put_files(&**env.fs(), &files);
    let mut options = loaded_options(&env).unwrap();
    options.db.create_if_missing = false;
    (files, options, contents)
}

/// The places where bits are turned: all, or about `samples` and the last bytes of the file.
fn places(length: usize, samples: usize) -> Vec<usize> {
    if std::env::var_os("FIRN_DAMAGE_ALL").is_some() {
        return (0..length).collect();
    }
    let mut places: Vec<usize> = (0..length).step_by((length / samples).max(1)).collect();
    places.extend(length.saturating_sub(53)..length);
    places
}

/// Checks that an error tells where the damage is.
fn check_place(error: &Error, name: &str, context: &str) {
    check_error(error, context);
    let file = error.file().and_then(Path::file_name).and_then(|file| file.to_str());
    assert!(file == Some(name) && error.offset().is_some(), "{context}: file or offset is missing: {error}");
}

fn rewrite() -> CompactRangeOptions {
    CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    }
}

/// What became of one damaged table.
#[derive(Default)]
struct Tally {
    copies: usize,
    refused_reads: usize,
    refused_compactions: usize,
}

fn check_table(
    name: &str,
    at: usize,
    files: &Files,
    options: &LoadedOptions,
    original: &Contents,
    context: &str,
    tally: &mut Tally,
) {
    let env = Env::memory();
    put_files(&**env.fs(), files);
    tally.copies += 1;
    let mut options = options.clone();
    // Like a table that is not touched at open.
    options.db.max_open_files = 20;
    options.db.paranoid_checks = true;
    let db = match open(&env, &options, Access::ReadWrite) {
        Ok(db) => db,
        Err(error) => {
            tally.refused_reads += 1;
            return check_place(&error, name, context);
        }
    };
    match contents_of(&db, false) {
        Ok(contents) => assert!(&contents == original, "{context}: other contents"),
        Err(error) => {
            tally.refused_reads += 1;
            check_place(&error, name, context);
        }
    }
    match db.verify_checksum() {
        Err(error) => check_place(&error, name, context),
        // Before format version 6 nothing covers the unused bytes of a footer, which nobody reads; see below.
        Ok(()) => assert!(at + 53 > files[name].len() && is_old_footer(&files[name]), "{context}: not found"),
    }
    let error = db.verify_file_checksums().expect_err(context);
    check_place(&error, name, context);
    check_compaction(&db, &env, name, original, context, tally);
}

/// Whether the last bytes of a table are a footer without a checksum of its own.
fn is_old_footer(table: &[u8]) -> bool {
    let version = table.last_chunk::<12>().unwrap();
    u32::from_le_bytes(version[..4].try_into().unwrap()) < 6
}

fn check_compaction(db: &Db, env: &Env, name: &str, original: &Contents, context: &str, tally: &mut Tally) {
    let live = |db: &Db| db.live_files().into_iter().map(|file| file.name).collect::<Vec<_>>();
    let before = live(db);
    let damaged_family = db.live_files().into_iter().find(|file| file.name.ends_with(name)).unwrap().column_family;
    let cf = db.cf(&damaged_family).unwrap();
    match db.compact_range(&rewrite(), &cf, None, None) {
        Ok(()) => {
            // What was damaged is not read by compactions.
            let contents =
                contents_of(db, false).unwrap_or_else(|error| panic!("{context}: after compaction: {error}"));
            assert!(&contents == original, "{context}: other contents after the compaction");
            db.verify_checksum().unwrap_or_else(|error| panic!("{context}: after compaction: {error}"));
        }
        Err(error) => {
            tally.refused_compactions += 1;
            check_place(&error, name, context);
            let after = live(db);
            // The memtable was flushed first; apart from that all is as it was.
            assert!(before.iter().all(|file| after.contains(file)), "{context}: inputs are gone: {before:?} {after:?}");
            assert!(env.fs().file_exists(&Path::new(DIRECTORY).join(name)).unwrap(), "{context}");
            let stopped = db.put("key", "value").expect_err(context);
            assert_eq!(stopped.kind(), ErrorKind::Corruption, "{context}: {stopped}");
            assert_eq!(db.property_int(&cf, "rocksdb.background-errors"), Some(1), "{context}");
        }
    }
}

#[test]
fn tables_with_a_turned_bit_are_found_and_not_laundered() {
    let (files, options, original) = build();
    let mut tally = Tally::default();
    for (name, bytes) in files.iter().filter(|(name, _)| name.ends_with(".sst")) {
        for at in places(bytes.len(), 30) {
            let damage = Damage::Flip(at);
            let mut damaged = files.clone();
            damaged.insert(name.clone(), damage.apply(bytes));
            check_table(
                name,
                at,
                &damaged,
                &options,
                &original,
                &format!("{name} of {} bytes, {damage}", bytes.len()),
                &mut tally,
            );
        }
    }
    let Tally { copies, refused_reads, refused_compactions } = tally;
    println!("{copies} damaged tables, {refused_reads} refused by readers, {refused_compactions} by compactions");
    assert!(refused_reads > 0 && refused_compactions > 0 && refused_compactions < copies);
}

#[test]
fn other_files_with_a_turned_bit_are_refused_or_harmless() {
    let (files, options, original) = build();
    let (mut copies, mut refused) = (0, 0);
    for (name, bytes) in files.iter().filter(|(name, _)| !name.ends_with(".sst")) {
        for at in places(bytes.len(), 40) {
            let damage = Damage::Flip(at);
            let context = format!("{name} of {} bytes, {damage}", bytes.len());
            let mut damaged = files.clone();
            damaged.insert(name.clone(), damage.apply(bytes));
            let env = Env::memory();
            put_files(&**env.fs(), &damaged);
            copies += 1;
            if name.starts_with("OPTIONS") {
                // Opening does not read it; loading gives options or an error, and nothing else.
                let _ = loaded_options(&env);
            }
            let mut options = options.clone();
            options.db.wal_recovery_mode = WalRecoveryMode::AbsoluteConsistency;
            let read = open(&env, &options, Access::ReadWrite).and_then(|db| contents_of(&db, false));
            match read {
                Ok(contents) => {
                    assert!(contents == original, "{context}: other contents");
                    let is_checked = name.ends_with(".log") || name.starts_with("MANIFEST");
                    assert!(!is_checked, "{context}: not noticed");
                }
                // A name in CURRENT that no file has tells of no place in a file.
                Err(error) if name == "CURRENT" => {
                    refused += 1;
                    check_error(&error, &context);
                    assert!(error.file().is_some(), "{context}: {error}");
                }
                Err(error) => {
                    refused += 1;
                    check_place(&error, name, &context);
                }
            }
        }
    }
    println!("{copies} damaged copies, {refused} refused");
}
