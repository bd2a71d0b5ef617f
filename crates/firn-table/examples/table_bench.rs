//! Measures reading and writing of tables: `cargo run --release --example table_bench [keys] [tables]`.
//!
//! Keys and values are those of `db_bench`: 16 bytes that begin with a big-endian number, and 100 bytes. Tables are split
//! by key, all blocks are in the cache after a first pass.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use firn_env::{Env, FileOptions};
use firn_format::filter::FilterPolicy;
use firn_format::iterator::InternalIterator;
use firn_format::key::{InternalKey, ParsedInternalKey, SequenceNumber, ValueType};
use firn_table::cache::CacheOptions;
use firn_table::options::BlockBasedTableOptions;
use firn_table::{
    BlockCache, GetControl, GetSink, TableBuilder, TableBuilderOptions, TableReadOptions, TableReader,
    TableReaderOptions, ValueRef,
};

fn user_key(number: u64) -> [u8; 16] {
    let mut key = [b'0'; 16];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

struct Found(usize);

impl GetSink for Found {
    fn accept(&mut self, _key: ParsedInternalKey<'_>, value: ValueRef<'_>) -> GetControl {
        self.0 += value.len();
        GetControl::Stop
    }
}

/// Processor time of this process, which other processes disturb less than the clock on the wall.
#[allow(clippy::disallowed_methods)]
fn cpu_nanos() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|field| field.parse().ok()).unwrap_or(0)
}

fn measure<T>(name: &str, count: u64, work: impl FnOnce() -> T) -> T {
    let start = cpu_nanos();
    let result = work();
    let nanos = cpu_nanos() - start;
    println!("{name:<28} {:>8.1} ns/op", nanos as f64 / count as f64);
    result
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|text| text.parse().ok());
    let keys: u64 = arguments.next().unwrap_or(5_000_000);
    let tables: u64 = arguments.next().unwrap_or(10);
    let gets: u64 = arguments.next().unwrap_or(1_000_000);
    let env = Env::memory();
    let table_options = BlockBasedTableOptions { filter_policy: Some(FilterPolicy::bloom(10.0)), ..Default::default() };
    let per_table = keys / tables;
    let value = [b'v'; 100];

    measure("build", keys, || {
        for n in 0..tables {
            let path = format!("/{n}.sst");
            let file = env.fs().new_writable_file(Path::new(&path), &FileOptions::default()).unwrap();
            let options = TableBuilderOptions {
                table: table_options.clone(),
                db_session_id: "ABCDEFGHIJKLMNOPQRST".into(),
                original_file_number: n + 1,
                ..Default::default()
            };
            let mut builder = TableBuilder::new(options, file).unwrap();
            for number in n * per_table..(n + 1) * per_table {
                let key = InternalKey::new(&user_key(number), SequenceNumber::ZERO, ValueType::Value);
                builder.add(key.encoded(), &value).unwrap();
            }
            builder.finish().unwrap();
        }
    });

    let cache = Arc::new(BlockCache::new(&CacheOptions::new(4 << 30)));
    let readers: Vec<Arc<TableReader>> = (0..tables)
        .map(|n| {
            let file =
                env.fs().new_random_access_file(Path::new(&format!("/{n}.sst")), &FileOptions::default()).unwrap();
            let size = file.size().unwrap();
            let options = TableReaderOptions {
                table: table_options.clone(),
                block_cache: Some(Arc::clone(&cache)),
                ..Default::default()
            };
            Arc::new(TableReader::open(file, size, options).unwrap())
        })
        .collect();
    let options = TableReadOptions::default();
    let scan = |name: &str| {
        measure(name, keys, || {
            let mut count = 0;
            for reader in &readers {
                let mut iterator = reader.iter(&options);
                iterator.seek_to_first();
                while iterator.valid() {
                    black_box((iterator.key(), iterator.value()));
                    count += 1;
                    iterator.next();
                }
            }
            assert_eq!(count, per_table * tables);
        });
    };
    scan("scan, filling the cache");
    scan("scan, cached");
    measure("reverse scan, cached", keys, || {
        for reader in &readers {
            let mut iterator = reader.iter(&options);
            iterator.seek_to_last();
            while iterator.valid() {
                black_box((iterator.key(), iterator.value()));
                iterator.prev();
            }
        }
    });
    let mut state = 88_172_645_463_325_252u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % (per_table * tables)
    };
    let numbers: Vec<u64> = (0..gets).map(|_| random()).collect();
    let get = |name: &str, missing: bool| {
        let mut found = Found(0);
        let mut lookup = Vec::new();
        measure(name, gets, || {
            for &number in &numbers {
                let mut key = user_key(number);
                if missing {
                    key[15] = b'1';
                }
                lookup.clear();
                firn_format::key::append_internal_key(&mut lookup, &key, SequenceNumber::MAX, ValueType::FOR_SEEK);
                let reader = &readers[(number / per_table) as usize];
                reader.get(&options, &lookup, &mut found).unwrap();
            }
        });
        black_box(found.0);
    };
    for _ in 0..5 {
        get("get, cached", false);
    }
    for _ in 0..3 {
        get("get, missing", true);
    }
    let mut iterators: Vec<_> = readers.iter().map(|reader| reader.iter(&options)).collect();
    measure("seek, cached", gets, || {
        let mut lookup = Vec::new();
        for &number in &numbers {
            lookup.clear();
            let key = user_key(number);
            firn_format::key::append_internal_key(&mut lookup, &key, SequenceNumber::MAX, ValueType::FOR_SEEK);
            let iterator = &mut iterators[(number / per_table) as usize];
            iterator.seek(&lookup);
            black_box(iterator.value());
        }
    });
}
