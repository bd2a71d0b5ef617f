//! Every kind of internal iterator under the conformance suite: tables in several layouts, levels of files, and merges of
//! tables, levels and memtables.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use firn_env::{Env, FileOptions};
use firn_error::{Error, Result};
use firn_format::comparator::{BytewiseComparator, Comparator, InternalKeyComparator, ReverseBytewiseComparator};
use firn_format::iterator::InternalIterator;
use firn_format::key::{FileNumber, InternalKey, SequenceNumber, ValueType, parse_internal_key};
use firn_format::version_edit::NewFile;
use firn_table::options::{BlockBasedTableOptions, IndexType};
use firn_table::{TableBuilder, TableBuilderOptions, TableReadOptions, TableReader, TableReaderOptions};
use proptest::prelude::*;

use super::MergingIterator;
use super::testing::check_iterator;
use crate::memtable::{MemTable, MemTableConfig};
use crate::version::{FileMetaData, LevelIterator, OpenPolicy, OpenTable, RunIterator, TableSource};

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

const SESSION: &str = "ABCDEFGHIJKLMNOPQRST";

fn layout(number: usize) -> BlockBasedTableOptions {
    let index_type = match number {
        1 => IndexType::TwoLevelIndexSearch,
        2 => IndexType::BinarySearchWithFirstKey,
        _ => IndexType::BinarySearch,
    };
    BlockBasedTableOptions {
        block_size: 64,
        metadata_block_size: 64,
        block_restart_interval: 3,
        format_version: if number == 3 { 2 } else { 5 },
        index_type,
        ..BlockBasedTableOptions::default()
    }
}

/// Writes `entries` to a table file in memory and opens it.
fn table(
    env: &Env,
    number: u64,
    entries: &Entries,
    order: &InternalKeyComparator,
    layout_number: usize,
) -> TableReader {
    let path = PathBuf::from(format!("/{number:06}.sst"));
    let file = env.fs().new_writable_file(&path, &FileOptions::default()).unwrap();
    let options = TableBuilderOptions {
        comparator: order.clone(),
        table: layout(layout_number),
        db_session_id: SESSION.into(),
        original_file_number: number,
        ..TableBuilderOptions::default()
    };
    let mut builder = TableBuilder::new(options, file).unwrap();
    entries.iter().for_each(|(key, value)| builder.add(key, value).unwrap());
    builder.finish().unwrap();
    let file = env.fs().new_random_access_file(&path, &FileOptions::default()).unwrap();
    let size = file.size().unwrap();
    let options = TableReaderOptions {
        comparator: order.clone(),
        table: layout(layout_number),
        session_id: SESSION.into(),
        file_number: number,
        ..TableReaderOptions::default()
    };
    TableReader::open(file, size, options).unwrap()
}

/// Tables by number, all open.
struct OpenTables(HashMap<u64, Arc<OpenTable>>);

impl TableSource for OpenTables {
    fn open(&self, file: &FileMetaData, _: OpenPolicy) -> Result<Arc<OpenTable>> {
        self.0.get(&file.number.0).cloned().ok_or_else(|| Error::corruption("no such table"))
    }

    fn read_back(&self, file: &FileMetaData) -> Result<Arc<OpenTable>> {
        self.open(file, OpenPolicy::MayOpen)
    }
}

/// A level whose files hold `files`, sorted entries each.
fn level(files: &[Entries], order: &InternalKeyComparator, layout_number: usize) -> LevelIterator {
    let env = Env::memory();
    let mut tables = HashMap::new();
    let mut metadata = Vec::new();
    for (number, entries) in (1..).zip(files) {
        let reader = Arc::new(table(&env, number, entries, order, layout_number));
        let bound = |entry: Option<&(Vec<u8>, Vec<u8>)>| InternalKey::from_encoded(entry.unwrap().0.clone()).unwrap();
        let file = NewFile {
            number: FileNumber(number),
            file_size: reader.file_size(),
            smallest: bound(entries.first()),
            largest: bound(entries.last()),
            ..NewFile::default()
        };
        tables.insert(number, Arc::new(OpenTable { reader, tombstones: None }));
        metadata.push(Arc::new(FileMetaData::new(file)));
    }
    LevelIterator::of_files(metadata, order.clone(), Arc::new(OpenTables(tables)), TableReadOptions::default())
}

/// A child of the merge under test.
#[expect(clippy::large_enum_variant, reason = "three exist")]
enum Child {
    Memory(crate::memtable::MemTableIterator),
    Run(RunIterator),
}

impl Child {
    fn iterator(&self) -> &dyn InternalIterator {
        match self {
            Self::Memory(iterator) => iterator,
            Self::Run(iterator) => iterator,
        }
    }

    fn iterator_mut(&mut self) -> &mut dyn InternalIterator {
        match self {
            Self::Memory(iterator) => iterator,
            Self::Run(iterator) => iterator,
        }
    }
}

impl InternalIterator for Child {
    fn valid(&self) -> bool {
        self.iterator().valid()
    }
    fn seek_to_first(&mut self) {
        self.iterator_mut().seek_to_first();
    }
    fn seek_to_last(&mut self) {
        self.iterator_mut().seek_to_last();
    }
    fn seek(&mut self, target: &[u8]) {
        self.iterator_mut().seek(target);
    }
    fn seek_for_prev(&mut self, target: &[u8]) {
        self.iterator_mut().seek_for_prev(target);
    }
    fn reseek(&mut self, target: &[u8]) {
        self.iterator_mut().reseek(target);
    }
    fn reseek_for_prev(&mut self, target: &[u8]) {
        self.iterator_mut().reseek_for_prev(target);
    }
    fn next(&mut self) {
        self.iterator_mut().next();
    }
    fn prev(&mut self) {
        self.iterator_mut().prev();
    }
    fn key(&self) -> &[u8] {
        self.iterator().key()
    }
    fn value(&self) -> &[u8] {
        self.iterator().value()
    }
    fn status(&self) -> Result<()> {
        self.iterator().status()
    }
}

fn order_of(reverse: bool) -> InternalKeyComparator {
    let comparator: Arc<dyn Comparator> =
        if reverse { Arc::new(ReverseBytewiseComparator) } else { Arc::new(BytewiseComparator) };
    InternalKeyComparator::new(comparator)
}

/// Sorted entries with several versions of some keys.
fn entries(keys: &[(Vec<u8>, u8)], order: &InternalKeyComparator, first_sequence: u64) -> Entries {
    let encode = |(at, (key, value)): (u64, &(Vec<u8>, u8))| {
        let key = InternalKey::new(key, SequenceNumber(first_sequence + at), ValueType::Value);
        (key.encoded().to_vec(), vec![*value; usize::from(*value) % 40])
    };
    let mut entries: Entries = (0..).zip(keys).map(encode).collect();
    entries.sort_by(|a, b| order.compare(&a.0, &b.0));
    entries
}

/// Cuts sorted entries into files, some of which begin with the user key that the one before ends with.
fn cut(entries: &Entries, per_file: usize) -> Vec<Entries> {
    entries.chunks(per_file).map(<[_]>::to_vec).collect()
}

fn keys(len: std::ops::Range<usize>) -> impl Strategy<Value = Vec<(Vec<u8>, u8)>> {
    prop::collection::vec((prop::collection::vec(0u8..4, 0..10), any::<u8>()), len)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn tables_conform(keys in keys(1..60), layout_number in 0usize..4, reverse in any::<bool>()) {
        let order = order_of(reverse);
        let entries = entries(&keys, &order, 1);
        let table = Arc::new(table(&Env::memory(), 1, &entries, &order, layout_number));
        check_iterator(&mut table.iter(&TableReadOptions::default()), &entries, &order);
    }

    #[test]
    fn levels_conform(
        keys in keys(1..60),
        layout_number in 0usize..4,
        per_file in 1usize..20,
        reverse in any::<bool>(),
    ) {
        let order = order_of(reverse);
        let entries = entries(&keys, &order, 1);
        let mut level = level(&cut(&entries, per_file), &order, layout_number);
        check_iterator(&mut level, &entries, &order);
    }

    #[test]
    fn merges_of_all_kinds_conform(
        newest in keys(0..30),
        middle in keys(1..30),
        oldest in keys(1..40),
        per_file in 1usize..10,
        reverse in any::<bool>(),
    ) {
        let order = order_of(reverse);
        let memtable = Arc::new(MemTable::new(order.clone(), &MemTableConfig::new(1 << 20), SequenceNumber::ZERO, 1));
        let (newest, middle) = (entries(&newest, &order, 2000), entries(&middle, &order, 1000));
        let oldest = entries(&oldest, &order, 1);
        for (key, value) in &newest {
            let parsed = parse_internal_key(key).unwrap();
            memtable.add(parsed.sequence, parsed.value_type, parsed.user_key, value).unwrap();
        }
        let upper = Arc::new(table(&Env::memory(), 1, &middle, &order, 0));
        let lower = level(&cut(&oldest, per_file), &order, 1);
        let children = vec![
            Child::Memory(memtable.iter()),
            Child::Run(RunIterator::Table(upper.iter(&TableReadOptions::default()))),
            Child::Run(RunIterator::Level(lower)),
        ];
        let mut all = [newest, middle, oldest].concat();
        all.sort_by(|a, b| order.compare(&a.0, &b.0));
        check_iterator(&mut MergingIterator::new(order.clone(), children), &all, &order);
    }
}

#[test]
fn an_empty_level_is_never_valid() {
    let order = InternalKeyComparator::default();
    check_iterator(&mut level(&[], &order, 0), &[], &order);
}
