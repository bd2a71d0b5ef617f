//! Times the memtable alone: inserts in random and in key order, lookups of present and absent keys, scans.
//!
//! `cargo bench -p firndb --bench memtable`. Figures are nanoseconds per operation at 450,000 entries of 16+100 bytes, which
//! is what fills 64 MiB.
#![allow(missing_docs, clippy::disallowed_methods, clippy::disallowed_types, clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use firn_format::comparator::InternalKeyComparator;
use firn_format::iterator::InternalIterator;
use firn_format::key::{InternalKey, SequenceNumber, ValueType};
use firndb::memtable::{MemTable, MemTableConfig};
use firndb::read::{GetContext, LookupMode, get_from_memtable};

const COUNT: u64 = 450_000;

fn shuffle(number: u64) -> u64 {
    let mut x = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^= x >> 32;
    x.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 20
}

fn key(number: u64, prefix: &str) -> Vec<u8> {
    let mut key = prefix.as_bytes().to_vec();
    key.extend_from_slice(&number.to_be_bytes());
    key.resize(prefix.len() + 16, b'0');
    key
}

fn time(label: &str, count: u64, work: impl FnOnce()) {
    let start = Instant::now();
    work();
    println!("{label:<44} {:>7.1} ns", start.elapsed().as_nanos() as f64 / count as f64);
}

fn run(name: &str, prefix: &str, stem: &[u8], number: impl Fn(u64) -> u64, filter: bool) {
    println!("-- {name}");
    let mut config = MemTableConfig { key_stem: stem.to_vec(), ..MemTableConfig::default() };
    if !filter {
        config.filter_bytes = 0;
    }
    let table = Arc::new(MemTable::new(InternalKeyComparator::default(), &config, SequenceNumber::ZERO, 1));
    let keys: Vec<Vec<u8>> = (0..COUNT).map(|i| key(number(i), prefix)).collect();
    let value = [7; 100];
    time("insert", COUNT, || {
        for (i, key) in keys.iter().enumerate() {
            table.add(SequenceNumber(i as u64 + 1), ValueType::Value, key, &value).unwrap();
        }
    });
    println!("{:<44} {:>7.1} MiB", "memory", table.memory_bytes() as f64 / f64::from(1 << 20));
    let lookups = 200_000;
    let probe = |wanted: Box<dyn Fn(u64) -> Vec<u8>>| {
        let targets: Vec<InternalKey> =
            (0..lookups).map(|i| InternalKey::for_seek(&wanted(i), SequenceNumber::MAX)).collect();
        move |table: &MemTable| {
            let mut found = 0;
            for target in &targets {
                let mut context = GetContext::new(target.user_key(), None, LookupMode::Value);
                get_from_memtable(table, target.encoded(), &mut context);
                found += u64::from(context.finish().unwrap().is_some());
            }
            black_box(found);
        }
    };
    let all = keys.clone();
    let present = probe(Box::new(move |i| all[(shuffle(i + 7) % COUNT) as usize].clone()));
    time("get, present", lookups, || present(&table));
    let owned = prefix.to_owned();
    let absent = probe(Box::new(move |i| key(shuffle(i + 12_345_678) | 1 << 50, &owned)));
    time("get, absent", lookups, || absent(&table));
    let mut cursor = table.iter();
    let targets: Vec<InternalKey> = (0..lookups)
        .map(|i| InternalKey::for_seek(&keys[(shuffle(i) % COUNT) as usize], SequenceNumber::MAX))
        .collect();
    time("seek", lookups, || {
        for target in &targets {
            cursor.seek(target.encoded());
            black_box(cursor.key());
        }
    });
    time("scan forward, per entry", COUNT, || {
        cursor.seek_to_first();
        while cursor.valid() {
            black_box((cursor.key(), cursor.value()));
            cursor.next();
        }
    });
    time("scan backward, per entry", COUNT, || {
        cursor.seek_to_last();
        while cursor.valid() {
            black_box((cursor.key(), cursor.value()));
            cursor.prev();
        }
    });
}

fn main() {
    run("random keys", "", b"", shuffle, true);
    run("random keys, no filter", "", b"", shuffle, false);
    run("ascending keys", "", b"", |i| i, true);
    run("random keys with a common prefix", "user:0001:", b"", shuffle, true);
    run("random keys with a common prefix as stem", "user:0001:", b"user:0001:", shuffle, true);
    println!("-- random keys, two threads");
    let table = MemTable::new(InternalKeyComparator::default(), &MemTableConfig::default(), SequenceNumber::ZERO, 1);
    time("insert", COUNT, || {
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let table = &table;
                scope.spawn(move || {
                    for i in (thread..COUNT).step_by(2) {
                        table.add(SequenceNumber(i + 1), ValueType::Value, &key(shuffle(i), ""), &[7; 100]).unwrap();
                    }
                });
            }
        });
    });
}
