//! Times scans through the layers: table iterator, merge, user iterator. Everything is cached.
//!
//! `cargo bench -p firndb --bench scan`. Figures are processor time per entry or seek, over one million entries of 16+100
//! bytes: alone in one table, or with every tenth of them newer in a memtable and in a second table.
#![allow(missing_docs, clippy::disallowed_methods, clippy::unwrap_used)]

mod common;

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use common::{ThreadTime, bench, key, shuffle};
use criterion::Criterion;
use firn_env::{Env, FileOptions};
use firn_format::comparator::InternalKeyComparator;
use firn_format::iterator::InternalIterator;
use firn_format::key::{InternalKey, SequenceNumber, ValueType};
use firn_table::cache::{Cache, CacheOptions};
use firn_table::{
    SstFileReader, TableBuilder, TableBuilderOptions, TableIterator, TableReadOptions, TableReader, TableReaderOptions,
};
use firndb::memtable::{MemTable, MemTableConfig, MemTableIterator};
use firndb::read::{DbIterator, DbIteratorConfig, MergingIterator};

const COUNT: u64 = 1_000_000;

fn table(env: &Env, path: &str, sequence: u64, step: usize) -> Arc<TableReader> {
    let file = env.fs().new_writable_file(Path::new(path), &FileOptions::default()).unwrap();
    let options = TableBuilderOptions {
        db_session_id: "ABCDEFGHIJKLMNOPQRST".into(),
        original_file_number: sequence,
        ..TableBuilderOptions::default()
    };
    let mut builder = TableBuilder::new(options, file).unwrap();
    for number in (0..COUNT).step_by(step) {
        let ikey = InternalKey::new(&key(number, ""), SequenceNumber(sequence), ValueType::Value);
        builder.add(ikey.encoded(), &[b'v'; 100]).unwrap();
    }
    builder.finish().unwrap();
    let options = TableReaderOptions {
        block_cache: Some(Arc::new(Cache::new(&CacheOptions::new(1 << 30)))),
        session_id: "ABCDEFGHIJKLMNOPQRST".into(),
        file_number: sequence,
        ..TableReaderOptions::default()
    };
    let reader = SstFileReader::open(env, Path::new(path), &FileOptions::default(), options).unwrap();
    Arc::clone(reader.table())
}

#[expect(clippy::large_enum_variant, reason = "a handful of children, each as it is in the database")]
enum Child {
    MemTable(MemTableIterator),
    Table(TableIterator),
}

macro_rules! each {
    ($self:ident, $iterator:ident => $call:expr) => {
        match $self {
            Child::MemTable($iterator) => $call,
            Child::Table($iterator) => $call,
        }
    };
}

impl InternalIterator for Child {
    #[inline]
    fn valid(&self) -> bool {
        each!(self, i => i.valid())
    }
    fn seek_to_first(&mut self) {
        each!(self, i => i.seek_to_first());
    }
    fn seek_to_last(&mut self) {
        each!(self, i => i.seek_to_last());
    }
    fn seek(&mut self, target: &[u8]) {
        each!(self, i => i.seek(target));
    }
    fn seek_for_prev(&mut self, target: &[u8]) {
        each!(self, i => i.seek_for_prev(target));
    }
    fn reseek(&mut self, target: &[u8]) {
        each!(self, i => i.reseek(target));
    }
    fn reseek_for_prev(&mut self, target: &[u8]) {
        each!(self, i => i.reseek_for_prev(target));
    }
    #[inline]
    fn next(&mut self) {
        each!(self, i => i.next());
    }
    #[inline]
    fn prev(&mut self) {
        each!(self, i => i.prev());
    }
    #[inline]
    fn key(&self) -> &[u8] {
        each!(self, i => i.key())
    }
    #[inline]
    fn value(&self) -> &[u8] {
        each!(self, i => i.value())
    }
    fn status(&self) -> firn_error::Result<()> {
        each!(self, i => i.status())
    }
}

fn scan<I: InternalIterator>(criterion: &mut Criterion<ThreadTime>, name: &str, cursor: &mut I) {
    let mut group = criterion.benchmark_group(name);
    bench(&mut group, "forward", COUNT, || {
        cursor.seek_to_first();
        while cursor.valid() {
            black_box((cursor.key(), cursor.value()));
            cursor.next();
        }
    });
    bench(&mut group, "backward", COUNT, || {
        cursor.seek_to_last();
        while cursor.valid() {
            black_box((cursor.key(), cursor.value()));
            cursor.prev();
        }
    });
}

fn user_scan(criterion: &mut Criterion<ThreadTime>, name: &str, children: Vec<Child>) {
    let mut group = criterion.benchmark_group(name);
    let order = InternalKeyComparator::default();
    let config = DbIteratorConfig::new(order.clone(), SequenceNumber::MAX);
    let mut cursor = DbIterator::new(MergingIterator::new(order, children), config);
    bench(&mut group, "forward", COUNT, || {
        cursor.seek_to_first();
        let mut count = 0;
        while cursor.valid() {
            black_box((cursor.key(), cursor.value()));
            cursor.next();
            count += 1;
        }
        assert_eq!(count, COUNT);
    });
    bench(&mut group, "backward", COUNT, || {
        cursor.seek_to_last();
        while cursor.valid() {
            black_box((cursor.key(), cursor.value()));
            cursor.prev();
        }
    });
    let seeks = 50_000;
    bench(&mut group, "seek + 10 nexts", seeks, || {
        for i in 0..seeks {
            cursor.seek(&key(shuffle(i) % COUNT, ""));
            for _ in 0..10 {
                if cursor.valid() {
                    black_box((cursor.key(), cursor.value()));
                    cursor.next();
                }
            }
        }
    });
}

fn main() {
    let env = Env::memory();
    let bottom = table(&env, "/bottom.sst", 1, 1);
    let upper = table(&env, "/upper.sst", 2, 10);
    let memtable = MemTable::new(InternalKeyComparator::default(), &MemTableConfig::default(), SequenceNumber::ZERO, 1);
    for i in 0..COUNT / 10 {
        let number = shuffle(i) % COUNT;
        memtable.add(SequenceNumber(10 + i), ValueType::Value, &key(number, ""), &[b'w'; 100]).unwrap();
    }
    let memtable = Arc::new(memtable);
    let empty =
        Arc::new(MemTable::new(InternalKeyComparator::default(), &MemTableConfig::default(), SequenceNumber::ZERO, 2));
    let options = TableReadOptions::default();
    let criterion = &mut common::criterion();
    scan(criterion, "table iterator", &mut bottom.iter(&options));
    let order = InternalKeyComparator::default();
    scan(criterion, "merge of one", &mut MergingIterator::new(order, vec![Child::Table(bottom.iter(&options))]));
    user_scan(
        criterion,
        "user iterator over one table and an empty memtable",
        vec![Child::MemTable(empty.iter()), Child::Table(bottom.iter(&options))],
    );
    user_scan(
        criterion,
        "user iterator over memtable and two tables",
        vec![Child::MemTable(memtable.iter()), Child::Table(upper.iter(&options)), Child::Table(bottom.iter(&options))],
    );
    criterion.final_summary();
}
