//! Random trees of the shapes that hand-laid tests are about, and every way of reading them, against a plain model.
//!
//! The shapes: files of level 0 that end and begin with the same user key and are moved together; range tombstones that
//! begin or end at such a key; prefixes that some tables and memtables do not have, with filters that know it; more hidden
//! versions of a key than a scan steps over; snapshots between all of it.

use std::collections::BTreeMap;
use std::ops::Bound;

use firndb::options::{BlockBasedTableOptions, FilterPolicy, ReadOptions, TableFactory};
use firndb::{Cursor, Snapshot};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

use crate::tree::Tree;

const PREFIXES: u8 = 5;
const SUFFIXES: u8 = 4;
const KEYS: u8 = PREFIXES * SUFFIXES;

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;
/// A key by its number; `KEYS` is behind all of them.
type Key = u8;

fn key(number: Key) -> Vec<u8> {
    vec![b'a' + number / SUFFIXES, b'1' + number % SUFFIXES]
}

#[derive(Clone, Debug)]
enum Step {
    Put(Key),
    /// Many versions.
    PutOften(Key, u8),
    Delete(Key),
    Merge(Key),
    DeleteRange(Key, Key),
    Snapshot,
    Release(prop::sample::Index),
    Flush,
    /// Two files of level 0, of which the older one begins and the newer one ends with the key; each has a range tombstone,
    /// that of the older one beginning at the key.
    SharePair {
        shared: Key,
        width: u8,
        merges: bool,
        snapshot: bool,
    },
    /// Whatever automatic compactions do: they move files from level 0 where they can.
    Settle,
    MergeLevel(usize, usize),
    Compact(Key, Key),
    Check,
}

fn step() -> impl Strategy<Value = Step> {
    let any_key = || 0..KEYS;
    prop_oneof![
        6 => any_key().prop_map(Step::Put),
        2 => (any_key(), 9..14_u8).prop_map(|(key, times)| Step::PutOften(key, times)),
        2 => any_key().prop_map(Step::Delete),
        2 => any_key().prop_map(Step::Merge),
        2 => (any_key(), 0..=KEYS).prop_map(|(a, b)| Step::DeleteRange(a.min(b), a.max(b))),
        2 => Just(Step::Snapshot),
        1 => any::<prop::sample::Index>().prop_map(Step::Release),
        3 => Just(Step::Flush),
        3 => (1..KEYS - 1, 1..4_u8, any::<bool>(), any::<bool>())
            .prop_map(|(shared, width, merges, snapshot)| Step::SharePair { shared, width, merges, snapshot }),
        2 => Just(Step::Settle),
        1 => (0..3_usize, 1..4_usize).prop_map(|(from, by)| Step::MergeLevel(from, from + by)),
        1 => (any_key(), any_key()).prop_map(|(a, b)| Step::Compact(a.min(b), a.max(b))),
        2 => Just(Step::Check),
    ]
}

struct World {
    tree: Tree,
    now: Contents,
    snapshots: Vec<(Snapshot, Contents)>,
    writes: u32,
}

impl World {
    fn put(&mut self, number: Key) {
        self.writes += 1;
        let (key, value) = (key(number), self.writes.to_string().into_bytes());
        self.tree.db.put(&key, &value).unwrap();
        self.now.insert(key, value);
    }

    fn merge(&mut self, number: Key) {
        self.writes += 1;
        let (key, operand) = (key(number), self.writes.to_string());
        self.tree.db.merge(&key, &operand).unwrap();
        let value = self.now.entry(key).or_default();
        if !value.is_empty() {
            value.push(b',');
        }
        value.extend_from_slice(operand.as_bytes());
    }

    fn delete_range(&mut self, start: Key, end: Key) {
        let (start, end) = (key(start), key(end));
        self.tree.db.delete_range(&start, &end).unwrap();
        self.now.retain(|key, _| *key < start || *key >= end);
    }

    fn snapshot(&mut self) {
        self.snapshots.push((self.tree.db.snapshot(), self.now.clone()));
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Put(key) => self.put(key),
            Step::PutOften(key, times) => (0..times).for_each(|_| self.put(key)),
            Step::Delete(number) => {
                self.tree.db.delete(key(number)).unwrap();
                self.now.remove(&key(number));
            }
            Step::Merge(key) => self.merge(key),
            Step::DeleteRange(start, end) => self.delete_range(start, end),
            Step::Snapshot => self.snapshot(),
            Step::Release(which) if !self.snapshots.is_empty() => {
                self.snapshots.remove(which.index(self.snapshots.len()));
            }
            Step::Release(_) => {}
            Step::Flush => self.tree.flush(),
            Step::SharePair { shared, width, merges, snapshot } => self.share_pair(shared, width, merges, snapshot),
            Step::Settle => self.tree.settle(),
            Step::MergeLevel(from, to) => {
                if !self.tree.files_at(from).is_empty() {
                    self.tree.merge_level(from, to);
                }
            }
            Step::Compact(begin, end) => {
                let options = firndb::options::CompactRangeOptions::default();
                let (begin, end) = (key(begin), key(end));
                self.tree.db.compact_range(&options, self.tree.cf(), Some(&begin), Some(&end)).unwrap();
            }
            Step::Check => self.check(),
        }
    }

    fn share_pair(&mut self, shared: Key, width: u8, merges: bool, snapshot: bool) {
        // Level 0 holds the two files alone, or they might not be moved.
        self.tree.flush();
        if !self.tree.files_at(0).is_empty() {
            self.tree.merge_level(0, 4);
        }
        let end = (shared + width).min(KEYS);
        self.delete_range(shared, end);
        self.put(end - 1);
        self.tree.flush();
        if snapshot {
            self.snapshot();
        }
        let before = shared.saturating_sub(width);
        self.delete_range(before, shared);
        if before + 1 < shared {
            self.put(before);
        }
        if merges {
            self.merge(shared)
        } else {
            self.put(shared)
        }
        self.tree.flush();
        self.tree.settle();
    }

    fn check(&self) {
        check_reads(&self.tree, None, &self.now);
        for (snapshot, contents) in &self.snapshots {
            check_reads(&self.tree, Some(snapshot), contents);
        }
    }
}

fn shown(cursor: &Cursor) -> Option<(&[u8], &[u8])> {
    cursor.status().unwrap();
    cursor.valid().then(|| (cursor.key(), cursor.value()))
}

/// Walks from where the cursor stands to the end, in one direction.
fn walk(cursor: &mut Cursor, forward: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    while let Some((key, value)) = shown(cursor) {
        found.push((key.to_vec(), value.to_vec()));
        if forward { cursor.next() } else { cursor.prev() }
    }
    found
}

fn check_reads(tree: &Tree, snapshot: Option<&Snapshot>, contents: &Contents) {
    let read = || ReadOptions { snapshot: snapshot.cloned(), ..ReadOptions::default() };
    let all: Vec<_> = contents.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    let reversed = |entries: &[(Vec<u8>, Vec<u8>)]| entries.iter().rev().cloned().collect::<Vec<_>>();
    let keys: Vec<_> = (0..KEYS).map(key).collect();
    let many = tree.db.multi_get_opt(&read(), tree.cf(), &keys);
    for (key, found) in keys.iter().zip(many) {
        let wanted = contents.get(key).map(Vec::as_slice);
        assert_eq!(tree.db.get_opt(&read(), tree.cf(), key).unwrap().as_deref(), wanted, "get of {key:?}");
        assert_eq!(found.unwrap().as_deref(), wanted, "multi_get of {key:?}");
    }
    let total = || ReadOptions { total_order_seek: true, ..read() };
    for (mode, options) in [("default", read()), ("total order", total())] {
        let mut cursor = tree.cursor(&options);
        cursor.seek_to_first();
        assert_eq!(walk(&mut cursor, true), all, "forward, {mode}");
        cursor.seek_to_last();
        assert_eq!(walk(&mut cursor, false), reversed(&all), "backward, {mode}");
        check_turns(&mut cursor, &all, mode);
    }
    let mut cursor = tree.cursor(&total());
    let mut within = tree.cursor(&ReadOptions { prefix_same_as_start: true, ..read() });
    for key in &keys {
        let from: Vec<_> = all.iter().filter(|entry| entry.0 >= *key).cloned().collect();
        let to: Vec<_> = reversed(&all).into_iter().filter(|entry| entry.0 <= *key).collect();
        cursor.seek(key);
        assert_eq!(walk(&mut cursor, true), from, "from {key:?}");
        cursor.seek_for_prev(key);
        assert_eq!(walk(&mut cursor, false), to, "back from {key:?}");
        let same = |entries: &[(Vec<u8>, Vec<u8>)]| {
            entries.iter().filter(|entry| entry.0[0] == key[0]).cloned().collect::<Vec<_>>()
        };
        within.seek(key);
        assert_eq!(walk(&mut within, true), same(&from), "prefix from {key:?}");
        within.seek_for_prev(key);
        assert_eq!(walk(&mut within, false), same(&to), "prefix back from {key:?}");
    }
    check_bounds(tree, &read(), &all);
}

/// From every place to the next one and back and so on, without a seek.
fn check_turns(cursor: &mut Cursor, all: &[(Vec<u8>, Vec<u8>)], mode: &str) {
    cursor.seek_to_first();
    for at in 1..all.len() {
        cursor.next();
        for step in [at - 1, at] {
            if step < at {
                cursor.prev()
            } else {
                cursor.next()
            }
            let wanted = all.get(step).map(|(key, value)| (&key[..], &value[..]));
            assert_eq!(shown(cursor), wanted, "turning at {:?}, {mode}", all[at].0);
        }
    }
}

/// Scans and ranges between bounds that lie in different prefixes.
fn check_bounds(tree: &Tree, read: &ReadOptions, all: &[(Vec<u8>, Vec<u8>)]) {
    for (lower, upper) in [(0, KEYS), (1, 2), (2, SUFFIXES), (SUFFIXES - 1, 3 * SUFFIXES), (SUFFIXES, 4 * SUFFIXES + 1)]
    {
        let (lower, upper) = (key(lower), key(upper));
        let between: Vec<_> = all.iter().filter(|entry| entry.0 >= lower && entry.0 < upper).cloned().collect();
        let back: Vec<_> = between.iter().rev().cloned().collect();
        let bounds = || ReadOptions {
            iterate_lower_bound: Some(lower.clone()),
            iterate_upper_bound: Some(upper.clone()),
            ..read.clone()
        };
        for options in [bounds(), ReadOptions { auto_prefix_mode: true, ..bounds() }] {
            let mut cursor = tree.cursor(&options);
            cursor.seek_to_first();
            assert_eq!(walk(&mut cursor, true), between, "{lower:?} to {upper:?}");
            cursor.seek_to_last();
            assert_eq!(walk(&mut cursor, false), back, "{upper:?} to {lower:?}");
        }
        let ends = (Bound::Excluded(&lower), Bound::Included(&upper));
        let wanted: Vec<_> = all.iter().filter(|entry| entry.0 > lower && entry.0 <= upper).cloned().collect();
        let found: Vec<_> =
            tree.db.range_opt::<&Vec<u8>, _>(read.clone(), tree.cf(), ends).map(Result::unwrap).collect();
        assert_eq!(found, wanted, "behind {lower:?} up to {upper:?}");
        let ends = (Bound::Excluded(&lower), Bound::Included(&upper));
        let mut found: Vec<_> =
            tree.db.range_opt::<&Vec<u8>, _>(read.clone(), tree.cf(), ends).rev().map(Result::unwrap).collect();
        found.reverse();
        assert_eq!(found, wanted, "{upper:?} back to {lower:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 40,
        max_shrink_iters: 300,
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..ProptestConfig::default()
    })]
    #[test]
    fn every_way_of_reading_agrees_with_the_model(
        steps in prop::collection::vec(step(), 4..40),
        memtable_filter in any::<bool>(),
        max_skip in prop_oneof![Just(8_u64), 0..3_u64],
        block_size in prop_oneof![Just(4096_u64), Just(64)],
    ) {
        let tree = Tree::with_prefixes(memtable_filter, |options| {
            options.cf.level0_file_num_compaction_trigger = 2;
            options.cf.max_sequential_skip_in_iterations = max_skip;
            options.cf.table_factory = TableFactory::BlockBased(BlockBasedTableOptions {
                filter_policy: Some(FilterPolicy::bloom(10.0)),
                block_size,
                ..BlockBasedTableOptions::default()
            });
        });
        let mut world = World { tree, now: Contents::new(), snapshots: Vec::new(), writes: 0 };
        for step in &steps {
            world.run(step);
        }
        world.check();
    }
}
