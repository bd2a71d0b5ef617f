//! Lookups and iterators over the tables of golden databases, compared with each other.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_env::{Env, FileOptions};
use firn_format::iterator::InternalIterator;
use firn_format::key::{InternalKey, SequenceNumber, ValueType, parse_internal_key};
use firn_table::{TableReadOptions, TableReaderOptions};

use super::*;
use crate::read::{GetContext, LookupMode};

fn golden(name: &str) -> VersionSet {
    let db = firndb_testing::golden().join(name).join("db");
    let fs = Env::shared().fs().clone();
    let spec = FamilySpec {
        name: "default".into(),
        order: Default::default(),
        num_levels: 7,
        force_consistency_checks: true,
        allow_ingest_behind: false,
        paths: vec![db.clone()],
    };
    let options = VersionSetOptions::new(fs, db);
    VersionSet::recover(options, vec![spec], OpenMode::ReadOnly).unwrap().0
}

fn tables_of(set: &VersionSet, max_open_files: i32) -> Arc<FamilyTables> {
    Arc::new(FamilyTables::new(FamilyTablesOptions {
        fs: set.options().fs.clone(),
        file_options: FileOptions::default(),
        db_path: set.options().db_path.clone(),
        spec: set.family(0).unwrap().spec().clone(),
        reader: TableReaderOptions::default(),
        open: Arc::new(OpenTables::new(max_open_files, 4)),
        latencies: None,
        verify_sst_unique_id_in_manifest: true,
    }))
}

/// Every point entry of a run, by walking forward; walking backward must give the reverse.
fn entries(run: &mut SortedRun) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (mut forward, mut backward) = (Vec::new(), Vec::new());
    let iterator = &mut run.iterator;
    iterator.seek_to_first();
    while iterator.valid() {
        forward.push((iterator.key().to_vec(), iterator.value().to_vec()));
        iterator.next();
    }
    iterator.status().unwrap();
    iterator.seek_to_last();
    while iterator.valid() {
        backward.push((iterator.key().to_vec(), iterator.value().to_vec()));
        iterator.prev();
    }
    iterator.status().unwrap();
    backward.reverse();
    assert_eq!(forward.len(), backward.len());
    assert!(forward == backward);
    forward
}

fn check_database(name: &str, max_open_files: i32) {
    let set = golden(name);
    let version = Arc::clone(set.family(0).unwrap().current());
    let tables = tables_of(&set, max_open_files);
    let source: Arc<dyn TableSource> = tables.clone();
    let options = TableReadOptions::default();
    let mut runs = version.sorted_runs(&source, &options).unwrap();
    let mut newest: BTreeMap<Vec<u8>, (u64, ValueType, Vec<u8>)> = BTreeMap::new();
    let mut total = 0;
    for run in &mut runs {
        let entries = entries(run);
        total += entries.len();
        for (at, (key, value)) in entries.iter().enumerate() {
            let parsed = parse_internal_key(key).unwrap();
            let sequence = parsed.sequence.0;
            let known = newest.entry(parsed.user_key.to_vec()).or_insert((sequence, parsed.value_type, value.clone()));
            if known.0 < sequence {
                *known = (sequence, parsed.value_type, value.clone());
            }
            if at % 37 == 0 {
                run.iterator.seek(key);
                assert_eq!(run.iterator.key(), key);
                run.iterator.seek_for_prev(key);
                assert_eq!(run.iterator.key(), key);
            }
        }
    }
    assert!(total > 0, "{name}");
    let mut deleted = 0;
    let mut one_by_one = Vec::new();
    for (user_key, (sequence, value_type, value)) in &newest {
        let covering = runs
            .iter()
            .flat_map(|run| run.tombstones.iter())
            .map(|window| window.max_covering_sequence(user_key, SequenceNumber::MAX, version.order()).0)
            .max()
            .unwrap_or(0);
        let expected = match value_type {
            ValueType::Value if *sequence >= covering => Some(value.clone()),
            ValueType::Value | ValueType::Deletion | ValueType::SingleDeletion => None,
            other => panic!("{name} has entries of type {other:?}"),
        };
        deleted += usize::from(expected.is_none());
        let lookup = InternalKey::for_seek(user_key, SequenceNumber::MAX);
        let mut context = GetContext::new(user_key, None, LookupMode::Value);
        version.get(&*tables, &options, lookup.encoded(), &mut context).unwrap();
        let found = context.finish().unwrap().map(|value| value.to_vec());
        assert!(found == expected, "{name}: {}", user_key.escape_ascii());
        one_by_one.push(found);
    }
    check_batches(&version, &*tables, newest.keys(), &one_by_one);
    eprintln!("{name}: {total} entries in {} runs, {} keys, {deleted} deleted", runs.len(), newest.len());
    let begin = InternalKey::for_seek(b"", SequenceNumber::MAX);
    let end = InternalKey::for_seek(&[0xff; 40], SequenceNumber::MAX);
    let all: u64 = version.all_files().map(|(_, file)| file.file_size).sum();
    assert_eq!(version.approximate_size(&*tables, &begin, &end, 0).unwrap(), all);
    let middle = InternalKey::for_seek(newest.keys().nth(newest.len() / 2).unwrap(), SequenceNumber::MAX);
    let half = version.approximate_size(&*tables, &begin, &middle, 0).unwrap();
    assert!(half <= all, "{half} of {all}");
}

/// Looks the keys up in batches, every third one twice, and compares with what single lookups found.
fn check_batches<'a>(
    version: &Version,
    tables: &dyn TableSource,
    keys: impl Iterator<Item = &'a Vec<u8>>,
    expected: &[Option<Vec<u8>>],
) {
    let keys: Vec<(&Vec<u8>, &Option<Vec<u8>>)> =
        keys.zip(expected).enumerate().flat_map(|(at, pair)| vec![pair; if at % 3 == 0 { 2 } else { 1 }]).collect();
    for (size, part) in [1usize, 2, 7, 32].iter().cycle().zip(keys.chunks(32)) {
        for chunk in part.chunks(*size) {
            let lookups: Vec<_> =
                chunk.iter().map(|(key, _)| InternalKey::for_seek(key, SequenceNumber::MAX)).collect();
            let mut batch: Vec<_> = chunk
                .iter()
                .zip(&lookups)
                .map(|((key, _), lookup)| BatchedLookup {
                    lookup: lookup.encoded(),
                    sink: GetContext::new(key, None, LookupMode::Value),
                    level: None,
                })
                .collect();
            version.multi_get(tables, &TableReadOptions::default(), &mut batch);
            for (entry, (key, expected)) in batch.into_iter().zip(chunk) {
                let found = entry.sink.finish().unwrap().map(|value| value.to_vec());
                assert!(found == **expected, "{}", key.escape_ascii());
            }
        }
    }
}

#[test]
fn lookups_agree_with_iterators_over_all_levels() {
    for name in ["r7.8-multi-level", "r11.9-multi-level", "r11.9-dynamic-levels", "leveldb-1.23-default"] {
        check_database(name, -1);
    }
}

#[test]
fn range_tombstones_are_seen_by_lookups_and_runs() {
    for name in ["r7.8-delete-range", "r11.9-delete-range"] {
        check_database(name, -1);
    }
}

#[test]
fn a_bounded_number_of_open_tables_gives_the_same_answers() {
    check_database("r11.9-multi-level", 13);
}

#[test]
fn memory_only_lookups_do_not_open_tables() {
    let set = golden("r11.9-default");
    let version = set.family(0).unwrap().current();
    let tables = tables_of(&set, -1);
    let file = version.all_files().next().unwrap().1;
    let lookup = InternalKey::for_seek(file.smallest.user_key(), SequenceNumber::MAX);
    let options = TableReadOptions { cache_only: true, ..TableReadOptions::default() };
    let mut context = GetContext::new(file.smallest.user_key(), None, LookupMode::Value);
    let error = version.get(&*tables, &options, lookup.encoded(), &mut context).unwrap_err();
    assert_eq!(error.kind(), firn_error::ErrorKind::Incomplete);
}
