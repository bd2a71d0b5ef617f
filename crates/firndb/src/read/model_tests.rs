//! Scans and lookups against a model: random writes in several sources, snapshots, deletions, range tombstones, merges,
//! bounds, both directions.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use firn_format::comparator::{BytewiseComparator, Comparator, InternalKeyComparator, ReverseBytewiseComparator};
use firn_format::key::{InternalKey, SequenceNumber, ValueType};
use proptest::prelude::*;

use super::tombstone_cover::TombstoneSource;
use super::*;
use crate::memtable::{MemTable, MemTableConfig, MemTableIterator};
use crate::merge::{MergeOperator, StringAppendOperator};

#[derive(Clone, Debug)]
enum Write {
    Put(u8, u8),
    Delete(u8),
    SingleDelete(u8),
    Merge(u8, u8),
    DeleteRange(u8, u8),
    /// What was written so far moves to an older source.
    Switch,
}

#[derive(Clone, Debug)]
enum Move {
    Seek(u8),
    SeekForPrev(u8),
    First,
    Last,
    Next,
    Prev,
}

const KEYS: u8 = 12;

fn write() -> impl Strategy<Value = Write> {
    let key = 0..KEYS;
    prop_oneof![
        6 => (key.clone(), any::<u8>()).prop_map(|(k, v)| Write::Put(k, v)),
        2 => key.clone().prop_map(Write::Delete),
        1 => key.clone().prop_map(Write::SingleDelete),
        4 => (key.clone(), any::<u8>()).prop_map(|(k, v)| Write::Merge(k, v)),
        1 => (key.clone(), key).prop_map(|(a, b)| Write::DeleteRange(a.min(b), a.max(b))),
        1 => Just(Write::Switch),
    ]
}

fn movement() -> impl Strategy<Value = Move> {
    prop_oneof![
        1 => (0..=KEYS).prop_map(Move::Seek),
        1 => (0..=KEYS).prop_map(Move::SeekForPrev),
        1 => Just(Move::First),
        1 => Just(Move::Last),
        6 => Just(Move::Next),
        6 => Just(Move::Prev),
    ]
}

/// The database as of each sequence number, by positions among the sorted keys, and the memtables, newest first.
struct World {
    order: InternalKeyComparator,
    keys: Vec<Vec<u8>>,
    states: Vec<BTreeMap<u8, Vec<u8>>>,
    sources: Vec<Arc<MemTable>>,
}

/// Orders like the bytewise comparator, but claims to be unknown, so that no short cut for built-in orders is taken.
struct Unknown;
impl Comparator for Unknown {
    fn name(&self) -> &str {
        "test.Unknown"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        a.cmp(b)
    }
}

fn key_of(number: u8) -> Vec<u8> {
    // Some keys share their first eight bytes, some do not.
    format!("{}key{number:02}", if number.is_multiple_of(3) { "long-stem-" } else { "" }).into_bytes()
}

fn build(writes: &[Write], comparator: usize) -> World {
    let comparators: [Arc<dyn Comparator>; 3] =
        [Arc::new(BytewiseComparator), Arc::new(ReverseBytewiseComparator), Arc::new(Unknown)];
    let order = InternalKeyComparator::new(Arc::clone(&comparators[comparator]));
    let mut keys: Vec<_> = (0..=KEYS).map(key_of).collect();
    keys.sort_by(|a, b| order.compare_user(a, b));
    let memtable = |id| {
        let config = MemTableConfig::new(1 << 20);
        Arc::new(MemTable::new(order.clone(), &config, SequenceNumber::ZERO, id))
    };
    let mut states = vec![BTreeMap::new()];
    let mut sources = vec![memtable(0)];
    for write in writes {
        let sequence = SequenceNumber(states.len() as u64);
        let mut state: BTreeMap<u8, Vec<u8>> = states.last().unwrap().clone();
        let add = |value_type, key: u8, value: &[u8]| {
            sources[0].add(sequence, value_type, &keys[key as usize], value).unwrap();
        };
        match *write {
            Write::Put(k, v) => {
                add(ValueType::Value, k, &[v]);
                state.insert(k, vec![v]);
            }
            Write::Delete(k) => {
                add(ValueType::Deletion, k, b"");
                state.remove(&k);
            }
            Write::SingleDelete(k) => {
                add(ValueType::SingleDeletion, k, b"");
                state.remove(&k);
            }
            Write::Merge(k, v) => {
                add(ValueType::Merge, k, &[v]);
                match state.get_mut(&k) {
                    Some(value) => value.extend_from_slice(&[b',', v]),
                    None => {
                        state.insert(k, vec![v]);
                    }
                }
            }
            Write::DeleteRange(a, b) => {
                add(ValueType::RangeDeletion, a, &keys[b as usize]);
                state.retain(|k, _| *k < a || *k >= b);
            }
            Write::Switch => {
                sources.insert(0, memtable(sources.len() as u64));
                continue;
            }
        }
        states.push(state);
    }
    World { order, keys, states, sources }
}

fn merged(world: &World, snapshot: SequenceNumber) -> MergingIterator<MemTableIterator> {
    let child = |table: &Arc<MemTable>| (table.iter(), TombstoneSource::of_memtable(table.range_tombstones()));
    MergingIterator::with_tombstones(world.order.clone(), world.sources.iter().map(child).collect(), snapshot)
}

fn lookup(world: &World, key: &[u8], snapshot: SequenceNumber) -> Option<Vec<u8>> {
    let operator = StringAppendOperator::default();
    let mut context = GetContext::new(key, Some(&operator as &dyn MergeOperator), LookupMode::Value);
    let target = InternalKey::for_seek(key, snapshot);
    for source in &world.sources {
        if get_from_memtable(source, target.encoded(), &mut context) {
            break;
        }
    }
    context.finish().unwrap().map(Vec::from)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 400 }))]
    #[test]
    fn scans_and_lookups_agree_with_the_model(
        writes in prop::collection::vec(write(), 0..80),
        moves in prop::collection::vec(movement(), 0..60),
        at in any::<prop::sample::Index>(),
        bounds in (prop::option::of((0..=KEYS, any::<bool>())), prop::option::of((0..=KEYS, any::<bool>()))),
        max_sequential_skip in 0u64..4,
        comparator in 0usize..3,
    ) {
        let world = build(&writes, comparator);
        let keys = &world.keys;
        let at = at.index(world.states.len());
        let snapshot = SequenceNumber(at as u64);
        let all = &world.states[at];
        for (number, key) in (0..).zip(keys) {
            prop_assert_eq!(lookup(&world, key, snapshot), all.get(&number).cloned());
        }
        let shown: Vec<(u8, &Vec<u8>)> = all
            .iter()
            .filter(|(k, _)| bounds.0.is_none_or(|(l, included)| **k > l || (included && **k == l)))
            .filter(|(k, _)| bounds.1.is_none_or(|(u, included)| **k < u || (included && **k == u)))
            .map(|(k, v)| (*k, v))
            .collect();
        let bound = |bound: Option<(u8, bool)>| match bound {
            None => Bound::Unbounded,
            Some((key, true)) => Bound::Included(keys[key as usize].clone()),
            Some((key, false)) => Bound::Excluded(keys[key as usize].clone()),
        };
        let config = DbIteratorConfig {
            merge_operator: Some(Arc::new(StringAppendOperator::default())),
            lower_bound: bound(bounds.0),
            upper_bound: bound(bounds.1),
            max_sequential_skip,
            ..DbIteratorConfig::new(world.order.clone(), snapshot)
        };
        let mut cursor = DbIterator::new(merged(&world, snapshot), config);
        let mut position: Option<usize> = None;
        for step in [&[Move::First][..], &moves].concat() {
            match step {
                Move::Seek(k) => {
                    cursor.seek(&keys[k as usize]);
                    position = Some(shown.partition_point(|e| e.0 < k));
                }
                Move::SeekForPrev(k) => {
                    cursor.seek_for_prev(&keys[k as usize]);
                    position = shown.partition_point(|e| e.0 <= k).checked_sub(1);
                }
                Move::First => {
                    cursor.seek_to_first();
                    position = Some(0);
                }
                Move::Last => {
                    cursor.seek_to_last();
                    position = shown.len().checked_sub(1);
                }
                Move::Next if cursor.valid() => {
                    cursor.next();
                    position = position.map(|p| p + 1);
                }
                Move::Prev if cursor.valid() => {
                    cursor.prev();
                    position = position.and_then(|p| p.checked_sub(1));
                }
                Move::Next | Move::Prev => continue,
            }
            cursor.status().unwrap();
            let expected = position.and_then(|p| shown.get(p)).map(|e| (&keys[e.0 as usize][..], &e.1[..]));
            let found = cursor.valid().then(|| (cursor.key(), cursor.value()));
            prop_assert_eq!(found, expected, "after {:?}", step);
            if found.is_none() {
                position = None;
            }
        }
    }
}

fn iterator(
    entries: &[(&str, u64, ValueType, &str)],
    change: impl FnOnce(&mut DbIteratorConfig),
) -> DbIterator<testing::VecIterator> {
    let mut config = DbIteratorConfig::new(InternalKeyComparator::default(), SequenceNumber(100));
    change(&mut config);
    DbIterator::new(testing::VecIterator::of(entries), config)
}

#[test]
fn too_many_hidden_entries_end_the_call_and_a_seek_recovers() {
    let entries: Vec<_> = (1..6).map(|s| ("a", s, ValueType::Deletion, "")).collect();
    let entries = [&entries[..], &[("b", 9, ValueType::Value, "v")]].concat();
    let mut cursor = iterator(&entries, |config| config.max_skippable_internal_keys = 4);
    cursor.seek_to_first();
    let error = cursor.status().unwrap_err();
    assert!(!cursor.valid());
    assert_eq!(error.to_string(), "Result incomplete: Too many internal keys skipped.");
    cursor.seek(b"b");
    assert!(cursor.valid() && cursor.status().is_ok());
    cursor.prev();
    assert!(cursor.status().is_err());
}

#[test]
fn long_runs_of_versions_are_left_by_seeking() {
    let mut entries: Vec<_> = (1..40).map(|s| ("a", s, ValueType::Value, "old")).collect();
    entries.push(("b", 50, ValueType::Value, "v"));
    entries.extend((101..130).map(|s| ("b", s, ValueType::Value, "new")));
    let mut cursor = iterator(&entries, |_| {});
    cursor.seek_to_first();
    cursor.next();
    assert_eq!((cursor.key(), cursor.value()), (&b"b"[..], &b"v"[..]));
    assert_eq!(cursor.take_counters().reseeks, 2);
    cursor.prev();
    assert_eq!((cursor.key(), cursor.value()), (&b"a"[..], &b"old"[..]));
    assert!(cursor.take_counters().reseeks > 0);
}

#[test]
fn seeking_over_versions_ends_at_a_deletion_without_a_number() {
    let entries = [("a", 5, ValueType::Value, "v"), ("a", 0, ValueType::Deletion, ""), ("b", 1, ValueType::Value, "w")];
    for max_sequential_skip in 0..3 {
        let mut cursor = iterator(&entries, |config| config.max_sequential_skip = max_sequential_skip);
        cursor.seek_to_first();
        cursor.next();
        assert_eq!(cursor.key(), b"b");
        cursor.prev();
        assert_eq!(cursor.key(), b"a");
        cursor.next();
        assert_eq!(cursor.key(), b"b");
    }
}

#[test]
fn the_prefix_of_the_start_bounds_the_scan() {
    let entries = ["aa1", "aa2", "ab1", "ab2", "ac1"].map(|key| (key, 1, ValueType::Value, "v"));
    let mut cursor = iterator(&entries, |config| {
        config.prefix_extractor = firn_format::slice_transform::from_string("fixed:2").unwrap();
        config.prefix_same_as_start = true;
    });
    let walk = |cursor: &mut DbIterator<testing::VecIterator>, forward: bool| {
        let mut keys = Vec::new();
        while cursor.valid() {
            keys.push(String::from_utf8(cursor.key().to_vec()).unwrap());
            if forward { cursor.next() } else { cursor.prev() }
        }
        keys.join(" ")
    };
    cursor.seek(b"ab");
    assert_eq!(walk(&mut cursor, true), "ab1 ab2");
    cursor.seek_for_prev(b"ab9");
    assert_eq!(walk(&mut cursor, false), "ab2 ab1");
    cursor.seek_to_first();
    assert_eq!(walk(&mut cursor, true), "aa1 aa2");
    cursor.seek_to_last();
    assert_eq!(walk(&mut cursor, false), "ac1");
}

#[test]
fn entries_that_cannot_be_read_are_refused() {
    for value_type in [ValueType::BlobIndex, ValueType::WideColumnEntity] {
        for forward in [true, false] {
            let mut cursor = iterator(&[("a", 1, value_type, "?")], |_| {});
            if forward {
                cursor.seek_to_first()
            } else {
                cursor.seek_to_last()
            }
            assert_eq!(cursor.status().unwrap_err().kind(), firn_error::ErrorKind::NotSupported);
        }
    }
    let mut cursor = iterator(&[("a", 1, ValueType::Merge, "?")], |_| {});
    cursor.seek_to_first();
    assert_eq!(cursor.status().unwrap_err().kind(), firn_error::ErrorKind::InvalidArgument);
    let mut cursor = iterator(&[("a", 1, ValueType::ValuePreferredSeqno, "v12345678")], |_| {});
    cursor.seek_to_first();
    assert_eq!(cursor.value(), b"v");
    cursor.seek_to_last();
    assert_eq!(cursor.value(), b"v");
}
