//! Every table of the golden databases reads as RocksDB and LevelDB wrote it.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_env::{Env, FileOptions};
use firn_error::{ErrorKind, Result};
use firn_format::comparator::{Comparator, ComparatorKind, InternalKeyComparator, ReverseBytewiseComparator};
use firn_format::filter::FilterPolicy;
use firn_format::iterator::InternalIterator;
use firn_format::key::{InternalKey, ParsedInternalKey, SequenceNumber, extract_user_key, parse_internal_key};
use firn_table::options::BlockBasedTableOptions;
use firn_table::{GetControl, GetSink, TableReadOptions, TableReader, TableReaderOptions, ValueRef};
use firndb_testing::golden_databases;

/// `leveldb.BytewiseComparator.u64ts`: keys ascending, then their eight bytes of timestamp descending.
struct TimestampComparator;

impl Comparator for TimestampComparator {
    fn name(&self) -> &str {
        "leveldb.BytewiseComparator.u64ts"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let parts = |key: &[u8]| {
            let (key, timestamp) = key.split_last_chunk::<8>().unwrap();
            (key.to_vec(), u64::from_le_bytes(*timestamp))
        };
        let ((a, a_time), (b, b_time)) = (parts(a), parts(b));
        a.cmp(&b).then(b_time.cmp(&a_time))
    }
    fn timestamp_size(&self) -> usize {
        8
    }
}

fn open_with(path: &Path, comparator: InternalKeyComparator) -> Result<TableReader> {
    let fs = Arc::clone(Env::shared().fs());
    let file = fs.new_random_access_file(path, &FileOptions::default())?;
    let size = file.size()?;
    let table = BlockBasedTableOptions { filter_policy: Some(FilterPolicy::bloom(10.0)), ..Default::default() };
    TableReader::open(file, size, TableReaderOptions { comparator, table, ..Default::default() })
}

fn open(path: &Path) -> Result<TableReader> {
    let table = open_with(path, InternalKeyComparator::default())?;
    match table.properties().comparator.as_str() {
        "" | "leveldb.BytewiseComparator" => Ok(table),
        "rocksdb.ReverseBytewiseComparator" => {
            open_with(path, InternalKeyComparator::new(Arc::new(ReverseBytewiseComparator)))
        }
        "leveldb.BytewiseComparator.u64ts" => {
            open_with(path, InternalKeyComparator::new(Arc::new(TimestampComparator)))
        }
        other => panic!("unknown comparator {other}"),
    }
}

struct FirstEntry {
    found: Option<(SequenceNumber, Vec<u8>)>,
}

impl GetSink for FirstEntry {
    fn accept(&mut self, key: ParsedInternalKey<'_>, value: ValueRef<'_>) -> GetControl {
        self.found = Some((key.sequence, value.pin().into_vec()));
        GetControl::Stop
    }
}

/// Reads all of a table in every way and returns how many entries it has.
fn check(path: &Path) -> Result<u64> {
    let table = Arc::new(open(path)?);
    let options = TableReadOptions::default();
    let mut iterator = table.iter(&options);
    let mut forward: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    iterator.seek_to_first();
    while iterator.valid() {
        let key = iterator.key().to_vec();
        parse_internal_key(&key)?;
        if let Some((last, _)) = forward.last() {
            assert!(table.comparator().compare(last, &key).is_lt(), "{}: order", path.display());
        }
        forward.push((key, iterator.value().to_vec()));
        iterator.next();
    }
    iterator.status()?;
    let count = forward.len() as u64 + table.range_tombstones().len() as u64;
    let properties = table.properties();
    if properties.num_entries != 0 {
        assert_eq!(count, properties.num_entries, "{}", path.display());
        let key_bytes: usize = forward.iter().map(|(key, _)| key.len()).sum();
        assert!(properties.raw_key_size >= key_bytes as u64);
    }

    let mut remaining = forward.len();
    iterator.seek_to_last();
    while iterator.valid() {
        remaining -= 1;
        assert_eq!((iterator.key(), iterator.value()), (&*forward[remaining].0, &*forward[remaining].1));
        iterator.prev();
    }
    iterator.status()?;
    assert_eq!(remaining, 0);

    let mut last_offset = 0;
    let step = (forward.len() / 500).max(1);
    for (n, (key, value)) in forward.iter().enumerate().step_by(step) {
        let mut sink = FirstEntry { found: None };
        table.get(&options, key, &mut sink)?;
        let sequence = parse_internal_key(key)?.sequence;
        assert_eq!(sink.found, Some((sequence, value.clone())), "{}: get", path.display());
        iterator.seek(key);
        assert_eq!(iterator.key(), key);
        iterator.seek_for_prev(key);
        assert_eq!(iterator.key(), key);
        if table.comparator().user_comparator().kind() != ComparatorKind::Bytewise {
            continue;
        }
        let after = InternalKey::new(
            &[extract_user_key(key), b"\0"].concat(),
            SequenceNumber::MAX,
            firn_format::key::ValueType::FOR_SEEK,
        );
        iterator.seek(after.encoded());
        let next = forward[n..].iter().find(|(other, _)| extract_user_key(other) >= after.user_key());
        assert_eq!(iterator.valid().then(|| iterator.key().to_vec()), next.map(|(key, _)| key.clone()));
        iterator.seek_for_prev(after.encoded());
        assert!(extract_user_key(iterator.key()) == extract_user_key(key));
        let offset = table.approximate_offset_of(key);
        assert!(offset >= last_offset && offset <= table.file_size());
        last_offset = offset;
    }
    table.verify_checksums(&options)?;
    let anchors = table.anchors(&options)?;
    assert!(anchors.len() <= 128 && (anchors.is_empty() == forward.is_empty()));
    Ok(count)
}

fn tables_of(directory: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "sst" || extension == "ldb"))
        .collect();
    paths.sort();
    paths
}

#[test]
#[allow(clippy::disallowed_methods)]
fn every_golden_table_reads() {
    let (mut tables, mut refused, mut failures) = (0, Vec::new(), Vec::new());
    for database in golden_databases() {
        for path in tables_of(&database) {
            match check(&path) {
                Ok(_) => tables += 1,
                Err(error) if error.kind() == ErrorKind::NotSupported => refused.push(path),
                Err(error) => failures.push(format!("{}: {error}", path.display())),
            }
        }
    }
    assert!(failures.is_empty(), "{} tables fail:\n{}", failures.len(), failures.join("\n"));
    assert!(tables > 300, "only {tables} tables read");
    for path in &refused {
        let text = path.display().to_string();
        assert!(text.contains("plain-table") || text.contains("cuckoo"), "{text} refused");
    }
    eprintln!("{tables} tables read, {} refused", refused.len());
}
