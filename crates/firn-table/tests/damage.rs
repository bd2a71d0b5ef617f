//! Damaged tables give errors that name the file, or the right entries; never a panic, never wrong entries.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use firn_env::{Env, FileOptions, write_file};
use firn_error::{ErrorKind, Result};
use firn_format::filter::FilterPolicy;
use firn_format::iterator::InternalIterator;
use firn_format::key::parse_internal_key;
use firn_table::options::BlockBasedTableOptions;
use firn_table::{TableReadOptions, TableReader, TableReaderOptions};
use firndb_testing::golden;

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// Opens `bytes` as a table and reads all of it both ways.
fn read_all(env: &Env, bytes: &[u8]) -> Result<Entries> {
    let path = Path::new("/table.sst");
    write_file(&**env.fs(), path, bytes, false)?;
    let file = env.fs().new_random_access_file(path, &FileOptions::default())?;
    let table = BlockBasedTableOptions { filter_policy: Some(FilterPolicy::bloom(10.0)), ..Default::default() };
    let options = TableReaderOptions { table, ..Default::default() };
    let table = Arc::new(TableReader::open(file, bytes.len() as u64, options)?);
    let mut iterator = table.iter(&TableReadOptions::default());
    let mut entries = Entries::new();
    iterator.seek_to_first();
    while iterator.valid() {
        parse_internal_key(iterator.key())?;
        entries.push((iterator.key().to_vec(), iterator.value().to_vec()));
        iterator.next();
    }
    iterator.status()?;
    iterator.seek_to_last();
    while iterator.valid() {
        iterator.prev();
    }
    iterator.status()?;
    table.verify_checksums(&TableReadOptions::default())?;
    table.anchors(&TableReadOptions::default())?;
    for tombstone in table.range_tombstones() {
        entries.push((tombstone.start.clone(), tombstone.end.clone()));
    }
    Ok(entries)
}

fn check(env: &Env, name: &str, original: &Entries, damaged: &[u8], what: &str) {
    match read_all(env, damaged) {
        Ok(entries) => assert!(&entries == original, "{name}: {what} gives other entries"),
        Err(error) => {
            let expected = [ErrorKind::Corruption, ErrorKind::NotSupported, ErrorKind::InvalidArgument];
            assert!(expected.contains(&error.kind()), "{name}: {what}: {error}");
            assert!(error.file().is_some(), "{name}: {what}: no file in {error}");
        }
    }
}

#[test]
fn damaged_tables_are_refused() {
    let env = Env::memory();
    let mut checked = 0;
    for kind in [
        "r7.8-default",
        "r7.8-index-partitioned",
        "r7.8-index-first-key",
        "r7.8-index-hash",
        "r7.8-format-version-2",
        "r7.8-compression-zlib",
        "r7.8-dictionary-zstd",
        "r7.8-data-block-hash-index",
        "r7.8-ribbon-partitioned",
        "r7.8-delete-range",
        "r7.8-ingested",
        "r11.9-default",
        "r11.9-format-version-7",
        "r11.9-compression-snappy",
        "leveldb-1.23-default",
    ] {
        let directory = golden().join(kind).join("db");
        let mut paths: Vec<_> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "sst" || extension == "ldb"))
            .collect();
        paths.sort();
        let path = paths.first().unwrap();
        let bytes = std::fs::read(path).unwrap();
        let original = read_all(&env, &bytes).unwrap();
        assert!(!original.is_empty());
        let name = path.display().to_string();

        let length = bytes.len();
        for cut in [0, 1, 7, 8, 47, 48, 52, 53, 54, length / 4, length / 2, length - 54, length - 53, length - 1] {
            check(&env, &name, &original, &bytes[..cut.min(length)], &format!("cut to {cut}"));
        }
        let footer = length - 53..length;
        let step = (length / 150).max(1);
        for at in (0..length).step_by(step).chain(footer).chain(length.saturating_sub(600)..length - 53) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            check(&env, &name, &original, &damaged, &format!("bit {} of byte {at} flipped", at % 8));
        }
        let zeroed: Vec<u8> =
            bytes.iter().enumerate().map(|(at, byte)| if at / 512 % 3 == 1 { 0 } else { *byte }).collect();
        check(&env, &name, &original, &zeroed, "sectors zeroed");
        checked += 1;
    }
    assert_eq!(checked, 15);
}

#[test]
fn damage_that_no_checksum_catches_does_not_panic() {
    let env = Env::memory();
    for kind in ["r7.8-checksum-none", "r11.9-checksum-none"] {
        let directory = golden().join(kind).join("db");
        let path = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|path| path.extension().is_some_and(|extension| extension == "sst"))
            .unwrap();
        let bytes = std::fs::read(path).unwrap();
        let step = (bytes.len() / 400).max(1);
        for at in (0..bytes.len()).step_by(step).chain(bytes.len() - 1200..bytes.len()) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            let _ = read_all(&env, &damaged);
            damaged[at] = 0xff;
            let _ = read_all(&env, &damaged);
        }
    }
}
