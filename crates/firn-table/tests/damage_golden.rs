//! Copies of every golden table, cut short, emptied or with a bit turned, give an error that names the file and a place in
//! it, or the entries of the original; never a panic, never other entries, never an endless read.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use firn_env::{Env, FileOptions, write_file};
use firn_error::{Error, ErrorKind, Result};
use firn_format::checksum::ChecksumType;
use firn_format::comparator::{InternalKeyComparator, ReverseBytewiseComparator};
use firn_format::filter::FilterPolicy;
use firn_format::iterator::InternalIterator;
use firn_format::key::{ParsedInternalKey, parse_internal_key};
use firn_table::options::BlockBasedTableOptions;
use firn_table::{GetControl, GetSink, TableReadOptions, TableReader, TableReaderOptions, ValueRef};
use firndb_testing::golden_databases;

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// No golden table has more entries, so an iterator that gives more runs in a circle.
const MOST_ENTRIES: usize = 100_000;
/// Bits turned per table.
const FLIPS: usize = 60;

fn golden_tables() -> Vec<PathBuf> {
    let files = golden_databases().into_iter().flat_map(|database| std::fs::read_dir(database).unwrap());
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "sst" || extension == "ldb"));
    paths.sort();
    paths
}

struct Found(usize);

impl GetSink for Found {
    fn accept(&mut self, _key: ParsedInternalKey<'_>, value: ValueRef<'_>) -> GetControl {
        self.0 += value.len();
        GetControl::Stop
    }
}

struct Tables {
    env: Env,
    path: PathBuf,
}

impl Tables {
    fn open(&self, comparator: InternalKeyComparator) -> Result<TableReader> {
        let file = self.env.fs().new_random_access_file(&self.path, &FileOptions::default())?;
        let size = file.size()?;
        let table = BlockBasedTableOptions { filter_policy: Some(FilterPolicy::bloom(10.0)), ..Default::default() };
        TableReader::open(file, size, TableReaderOptions { comparator, table, ..Default::default() })
    }

    /// Opens `bytes` as a table and reads all of it in every way; whether it has checksums.
    fn read_all(&self, bytes: &[u8], lookups: &Entries) -> Result<(Entries, bool)> {
        write_file(&**self.env.fs(), &self.path, bytes, false)?;
        let mut table = self.open(InternalKeyComparator::default())?;
        if table.properties().comparator == "rocksdb.ReverseBytewiseComparator" {
            table = self.open(InternalKeyComparator::new(Arc::new(ReverseBytewiseComparator)))?;
        }
        let table = Arc::new(table);
        let has_checksums = table.footer().checksum_type != ChecksumType::NoChecksum;
        let options = TableReadOptions::default();
        let mut iterator = table.iter(&options);
        let mut entries = Entries::new();
        iterator.seek_to_first();
        while iterator.valid() {
            // Without checksums the reader hands damaged keys on; who parses them names the file.
            parse_internal_key(iterator.key()).map_err(|error| error.with_file(&self.path).with_offset(0))?;
            entries.push((iterator.key().to_vec(), iterator.value().to_vec()));
            assert!(entries.len() < MOST_ENTRIES, "endless iteration");
            iterator.next();
        }
        iterator.status()?;
        let mut backwards = 0;
        iterator.seek_to_last();
        while iterator.valid() {
            backwards += 1;
            assert!(backwards < MOST_ENTRIES, "endless iteration backwards");
            iterator.prev();
        }
        iterator.status()?;
        let step = (lookups.len() / 20).max(1);
        for (key, value) in lookups.iter().step_by(step) {
            let mut found = Found(0);
            table.get(&options, key, &mut found)?;
            assert!(!has_checksums || found.0 == value.len(), "a lookup missed {}", key.escape_ascii());
            iterator.seek(key);
            iterator.seek_for_prev(key);
        }
        iterator.status()?;
        table.verify_checksums(&options)?;
        table.anchors(&options)?;
        for tombstone in table.range_tombstones() {
            entries.push((tombstone.start.clone(), tombstone.end.clone()));
        }
        Ok((entries, has_checksums))
    }

    fn check(&self, original: &Entries, damaged: &[u8], what: &str) -> Option<Error> {
        let points: Entries = original.iter().filter(|(key, _)| parse_internal_key(key).is_ok()).cloned().collect();
        match self.read_all(damaged, &points) {
            Ok((entries, true)) => {
                assert!(&entries == original, "{what} gives other entries");
                None
            }
            Ok((_, false)) => None,
            Err(error) => {
                let expected = [ErrorKind::Corruption, ErrorKind::NotSupported, ErrorKind::InvalidArgument];
                assert!(expected.contains(&error.kind()), "{what}: {error}");
                assert_eq!(error.file(), Some(&*self.path), "{what}: no file in {error}");
                Some(error)
            }
        }
    }
}

/// Places spread over the file, more of them near its end, where footer, properties and index are.
fn places(length: usize, seed: usize) -> impl Iterator<Item = usize> {
    (0..FLIPS).map(move |i| {
        let spread = (i * 2_654_435_761 + seed * 40_503 + i * i * 97) % length;
        if i % 2 == 0 { spread } else { length - 1 - spread % length.min(1500) }
    })
}

#[test]
fn every_damaged_golden_table_is_refused_or_unharmed() {
    let paths = golden_tables();
    let (mut tables, mut refused, mut without_place) = (0, 0, BTreeMap::<String, usize>::new());
    for (number, golden) in paths.iter().enumerate() {
        let tables_at = Tables { env: Env::memory(), path: PathBuf::from("/damaged.sst") };
        let bytes = std::fs::read(golden).unwrap();
        let (original, has_checksums) = match tables_at.read_all(&bytes, &Entries::new()) {
            Ok(read) => read,
            // Plain and cuckoo tables, and what else this build cannot read, must be refused as such.
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NotSupported, "{}: {error}", golden.display());
                continue;
            }
        };
        let length = bytes.len();
        let mut note = |error: Option<Error>| {
            if let Some(error) = error {
                refused += 1;
                if error.offset().is_none() {
                    *without_place.entry(error.message().to_owned()).or_default() += 1;
                }
            }
        };
        for cut in [0, 1, 12, 47, 48, 53, length / 3, length * 2 / 3, length - 53, length - 48, length - 8, length - 1]
        {
            let what = format!("{}: cut to {cut}", golden.display());
            let error = tables_at.check(&original, &bytes[..cut], &what);
            assert!(error.is_some() || !has_checksums, "{what} was accepted");
            note(error);
        }
        for at in places(length, number) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            note(tables_at.check(
                &original,
                &damaged,
                &format!("{}: bit {} of byte {at} turned", golden.display(), at % 8),
            ));
        }
        let zeroed = vec![0; length];
        note(tables_at.check(&original, &zeroed, &format!("{}: all zero", golden.display())));
        tables += 1;
    }
    println!("{tables} of {} tables, {refused} damaged copies refused", paths.len());
    assert!(tables > 500 && refused > 20_000);
    assert!(without_place.is_empty(), "errors without a place in the file: {without_place:#?}");
}
