//! Times the memtable alone: inserts in random and in key order, lookups of present and absent keys, scans.
//!
//! `cargo bench -p firndb --bench memtable`. Figures are times per operation at 450,000 entries of 16+100 bytes, which is what
//! fills 64 MiB.
#![allow(missing_docs, clippy::disallowed_methods, clippy::disallowed_types, clippy::unwrap_used)]

mod common;

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{ThreadTime, bench, key, shuffle};
use criterion::Criterion;
use firn_format::comparator::InternalKeyComparator;
use firn_format::iterator::InternalIterator;
use firn_format::key::{InternalKey, SequenceNumber, ValueType};
use firndb::memtable::{MemTable, MemTableConfig};
use firndb::read::{GetContext, LookupMode, get_from_memtable};

const COUNT: u64 = 450_000;

/// The other candidate: a skip list whose links carry the word of the key they lead to, for one thread.
struct SkipList {
    arena: Vec<Box<[u8]>>,
    used: usize,
    head: Box<[Link; 12]>,
    random: u64,
}

#[derive(Clone, Copy)]
struct Link {
    word: u64,
    node: *mut u8,
}

impl SkipList {
    fn new() -> Self {
        let none = Link { word: u64::MAX, node: std::ptr::null_mut() };
        Self { arena: Vec::new(), used: usize::MAX, head: Box::new([none; 12]), random: 1 }
    }

    fn allocate(&mut self, bytes: usize) -> *mut u8 {
        let bytes = bytes.next_multiple_of(16);
        if self.arena.is_empty() || self.used + bytes > 1 << 20 {
            self.arena.push(vec![0; 1 << 20].into_boxed_slice());
            self.used = 0;
        }
        let at = self.used;
        self.used += bytes;
        // SAFETY: inside the last block.
        unsafe { self.arena.last_mut().unwrap().as_mut_ptr().add(at) }
    }

    /// Keys are unique words here, so that words alone decide.
    fn insert(&mut self, word: u64, key: &[u8], value: &[u8]) {
        let mut height = 1;
        while height < 12 {
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if self.random >> 62 != 0 {
                break;
            }
            height += 1;
        }
        let node = self.allocate(height * size_of::<Link>() + key.len() + value.len() + 10);
        // SAFETY: nodes are big enough for their links and bytes; links lead to nodes of at least their level.
        unsafe {
            let mut tower: *mut Link = self.head.as_mut_ptr();
            for level in (0..12).rev() {
                while (*tower.add(level)).word < word {
                    tower = (*tower.add(level)).node.cast();
                }
                if level < height {
                    node.cast::<Link>().add(level).write(*tower.add(level));
                    *tower.add(level) = Link { word, node };
                }
            }
            let bytes = node.cast::<Link>().add(height).cast::<u8>();
            std::ptr::copy_nonoverlapping(key.as_ptr(), bytes, key.len());
            std::ptr::copy_nonoverlapping(value.as_ptr(), bytes.add(key.len()), value.len());
        }
    }

    fn seek(&mut self, word: u64) -> *mut u8 {
        let mut tower: *mut Link = self.head.as_mut_ptr();
        for level in (0..12).rev() {
            // SAFETY: as in `insert`.
            unsafe {
                while (*tower.add(level)).word < word {
                    tower = (*tower.add(level)).node.cast();
                }
            }
        }
        // SAFETY: as in `insert`.
        unsafe { (*tower).node }
    }
}

fn run_skip_list(criterion: &mut Criterion<ThreadTime>, name: &str, number: impl Fn(u64) -> u64) {
    let mut group = criterion.benchmark_group(name);
    let keys: Vec<Vec<u8>> = (0..COUNT).map(|i| key(number(i), "")).collect();
    let word = |key: &[u8]| u64::from_be_bytes(*key.first_chunk().unwrap());
    let value = [7; 100];
    let filled = || {
        let mut list = SkipList::new();
        keys.iter().for_each(|key| list.insert(word(key), key, &value));
        list
    };
    bench(&mut group, "insert", COUNT, || {
        black_box(filled());
    });
    let mut list = filled();
    bench(&mut group, "seek", 200_000, || {
        for i in 0..200_000 {
            let found = list.seek(word(&keys[(shuffle(i) % COUNT) as usize]));
            // SAFETY: the keys are all there.
            black_box(unsafe { found.read() });
        }
    });
    bench(&mut group, "scan forward, per entry", COUNT, || {
        let mut link = list.head[0];
        while !link.node.is_null() {
            // SAFETY: as in `SkipList::insert`.
            unsafe {
                black_box(link.node.add(40).read());
                link = link.node.cast::<Link>().read();
            }
        }
    });
}

fn run(
    criterion: &mut Criterion<ThreadTime>,
    name: &str,
    (prefix, stem): (&str, &[u8]),
    number: impl Fn(u64) -> u64,
    filter: bool,
) {
    let mut group = criterion.benchmark_group(name);
    let mut config = MemTableConfig { key_stem: stem.to_vec(), ..MemTableConfig::default() };
    if !filter {
        config.filter_bytes = 0;
    }
    let new_table = || Arc::new(MemTable::new(InternalKeyComparator::default(), &config, SequenceNumber::ZERO, 1));
    let keys: Vec<Vec<u8>> = (0..COUNT).map(|i| key(number(i), prefix)).collect();
    let value = [7; 100];
    let filled = || {
        let table = new_table();
        for (i, key) in keys.iter().enumerate() {
            table.add(SequenceNumber(i as u64 + 1), ValueType::Value, key, &value).unwrap();
        }
        table
    };
    bench(&mut group, "insert", COUNT, || {
        black_box(filled());
    });
    let table = filled();
    println!("{name}: {:.1} MiB", table.memory_bytes() as f64 / f64::from(1 << 20));
    let lookups = 200_000;
    let probe = |wanted: Box<dyn Fn(u64) -> Vec<u8>>| {
        let targets: Vec<InternalKey> =
            (0..lookups).map(|i| InternalKey::for_seek(&wanted(i), SequenceNumber::MAX)).collect();
        move |table: &Arc<MemTable>| {
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
    bench(&mut group, "get, present", lookups, || present(&table));
    let owned = prefix.to_owned();
    let absent = probe(Box::new(move |i| key(shuffle(i + 12_345_678), &owned)));
    bench(&mut group, "get, absent", lookups, || absent(&table));
    let mut cursor = table.iter();
    let targets: Vec<InternalKey> = (0..lookups)
        .map(|i| InternalKey::for_seek(&keys[(shuffle(i) % COUNT) as usize], SequenceNumber::MAX))
        .collect();
    bench(&mut group, "seek", lookups, || {
        for target in &targets {
            cursor.seek(target.encoded());
            black_box(cursor.key());
        }
    });
    bench(&mut group, "scan forward, per entry", COUNT, || {
        cursor.seek_to_first();
        while cursor.valid() {
            black_box((cursor.key(), cursor.value()));
            cursor.next();
        }
    });
    bench(&mut group, "scan backward, per entry", COUNT, || {
        cursor.seek_to_last();
        while cursor.valid() {
            black_box((cursor.key(), cursor.value()));
            cursor.prev();
        }
    });
}

/// Two threads insert; the time on the wall, per entry.
fn run_two_threads(criterion: &mut Criterion<ThreadTime>) {
    let mut group = criterion.benchmark_group("random keys, two threads, time on the wall");
    group.bench_function("insert", |bencher| {
        bencher.iter_custom(|iterations| {
            let config = MemTableConfig::default();
            let table = MemTable::new(InternalKeyComparator::default(), &config, SequenceNumber::ZERO, 1);
            let start = Instant::now();
            std::thread::scope(|scope| {
                for thread in 0..2 {
                    let table = &table;
                    scope.spawn(move || {
                        for i in (thread..COUNT).step_by(2) {
                            let sequence = SequenceNumber(i + 1);
                            table.add(sequence, ValueType::Value, &key(shuffle(i), ""), &[7; 100]).unwrap();
                        }
                    });
                }
            });
            Duration::from_secs_f64(start.elapsed().as_secs_f64() * iterations as f64 / COUNT as f64)
        });
    });
}

fn main() {
    let criterion = &mut common::criterion();
    let user = "user:0001:";
    run(criterion, "random keys", ("", b""), shuffle, true);
    run(criterion, "random keys, no filter", ("", b""), shuffle, false);
    run(criterion, "ascending keys", ("", b""), |i| i, true);
    run(criterion, "random keys with a common prefix", (user, b""), shuffle, true);
    run(criterion, "random keys with a common prefix as stem", (user, user.as_bytes()), shuffle, true);
    run_skip_list(criterion, "the skip list with words in its links, random keys", shuffle);
    run_skip_list(criterion, "the skip list with words in its links, ascending keys", |i| i);
    run_two_threads(criterion);
    criterion.final_summary();
}
