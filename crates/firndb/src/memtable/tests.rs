//! Tests of the memtable as a whole: order, scans both ways, lookups, fullness, and threads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_format::comparator::{BytewiseComparator, Comparator, ReverseBytewiseComparator};
use firn_format::iterator::InternalIterator;
use firn_format::key::{InternalKey, parse_internal_key};
use proptest::prelude::*;

use super::*;

fn table(comparator: Arc<dyn Comparator>, stem: &[u8]) -> Arc<MemTable> {
    let config = MemTableConfig { key_stem: stem.to_vec(), ..MemTableConfig::new(1 << 20) };
    Arc::new(MemTable::new(InternalKeyComparator::new(comparator), &config, SequenceNumber::ZERO, 1))
}

fn bytewise() -> Arc<MemTable> {
    table(Arc::new(BytewiseComparator), b"")
}

#[derive(Default)]
struct Collect {
    found: Vec<(u64, ValueType, Vec<u8>)>,
    limit: usize,
}

impl GetSink for Collect {
    fn accept(&mut self, key: ParsedInternalKey<'_>, value: ValueRef<'_>) -> GetControl {
        self.found.push((key.sequence.0, key.value_type, value.to_vec()));
        if self.found.len() < self.limit { GetControl::Continue } else { GetControl::Stop }
    }
}

fn get(table: &MemTable, key: &[u8], snapshot: u64, limit: usize) -> Vec<(u64, ValueType, Vec<u8>)> {
    let mut sink = Collect { limit, ..Collect::default() };
    table.get(InternalKey::for_seek(key, SequenceNumber(snapshot)).encoded(), &mut sink).unwrap();
    sink.found
}

#[test]
fn versions_come_newest_first_from_the_snapshot_down() {
    let table = bytewise();
    for (sequence, value) in [(1, "one"), (5, "five"), (3, "three")] {
        table.add(SequenceNumber(sequence), ValueType::Value, b"k", value.as_bytes()).unwrap();
    }
    table.add(SequenceNumber(6), ValueType::Deletion, b"k", b"").unwrap();
    table.add(SequenceNumber(9), ValueType::Value, b"l", b"other").unwrap();
    let sequences = |snapshot, limit| get(&table, b"k", snapshot, limit).iter().map(|e| e.0).collect::<Vec<_>>();
    assert_eq!(sequences(100, 10), [6, 5, 3, 1]);
    assert_eq!(sequences(4, 10), [3, 1]);
    assert_eq!(sequences(5, 1), [5]);
    assert_eq!(sequences(0, 10), [0u64; 0]);
    assert_eq!(get(&table, b"absent", 100, 10), []);
    assert_eq!((table.entry_count(), table.delete_count(), table.first_sequence().0), (5, 1, 1));
}

#[test]
fn the_same_key_and_sequence_is_refused() {
    let table = bytewise();
    table.add(SequenceNumber(7), ValueType::Merge, b"k", b"a").unwrap();
    for value_type in [ValueType::Merge, ValueType::Value, ValueType::WideColumnEntity] {
        let error = table.add(SequenceNumber(7), value_type, b"k", b"b").unwrap_err();
        assert_eq!(error.kind(), firn_error::ErrorKind::TryAgain);
    }
    assert_eq!(table.entry_count(), 1);
    assert!(table.add(SequenceNumber(8), ValueType::LogData, b"k", b"").is_err());
}

#[test]
#[cfg_attr(miri, ignore = "thousands of inserts, all like those of other tests")]
fn becomes_full_where_the_reference_does() {
    // `docs/behaviour/reads-and-writes.md`, When a memtable is full: W = 1 MiB, B = 128 KiB: the switch happened with A =
    // 2048 + 8 blocks.
    let table = bytewise();
    let mut sequence = 0;
    while !table.should_flush() {
        sequence += 1;
        table.add(SequenceNumber(sequence), ValueType::Value, &sequence.to_be_bytes(), &[0; 100]).unwrap();
    }
    assert_eq!(table.arena.allocated_bytes(), 2048 + 8 * 131_072);
    assert!(table.try_schedule_flush() && !table.try_schedule_flush());
}

#[test]
fn range_deletions_are_apart_from_point_entries() {
    let config = MemTableConfig { max_range_deletions: 2, ..MemTableConfig::default() };
    let table = Arc::new(MemTable::new(InternalKeyComparator::default(), &config, SequenceNumber::ZERO, 1));
    table.add(SequenceNumber(1), ValueType::RangeDeletion, b"b", b"d").unwrap();
    assert!(!table.should_flush());
    table.add(SequenceNumber(2), ValueType::RangeDeletion, b"c", b"e").unwrap();
    assert!(table.should_flush());
    assert_eq!(table.max_covering_tombstone(b"c", SequenceNumber::MAX).0, 2);
    assert_eq!(table.max_covering_tombstone(b"c", SequenceNumber(1)).0, 1);
    assert_eq!(table.range_tombstones().fragments().len(), 3);
    let mut cursor = table.iter();
    cursor.seek_to_first();
    assert!(!cursor.valid());
    assert_eq!((table.entry_count(), table.range_deletion_count()), (2, 2));
}

#[test]
fn merge_operands_are_counted_from_the_top() {
    let table = bytewise();
    table.add(SequenceNumber(1), ValueType::Value, b"k", b"").unwrap();
    (2..6).for_each(|s| table.add(SequenceNumber(s), ValueType::Merge, b"k", b"").unwrap());
    assert_eq!(table.count_merge_operands(b"k", 10).unwrap(), 4);
    assert_eq!(table.count_merge_operands(b"k", 3).unwrap(), 3);
    assert_eq!(table.count_merge_operands(b"j", 3).unwrap(), 0);
}

#[test]
fn estimates_follow_the_contents() {
    let table = bytewise();
    let count = if cfg!(miri) { 300_u32 } else { 20_000 };
    for i in 0..count {
        let key = i.wrapping_mul(7919) % count;
        let _ = table.add(SequenceNumber(u64::from(i) + 1), ValueType::Value, &key.to_be_bytes(), &[0; 12]);
    }
    let bound = |key: u32| InternalKey::for_seek(&key.to_be_bytes(), SequenceNumber::MAX);
    let (entries, bytes) = table.approximate_stats(bound(count / 4).encoded(), bound(count / 2).encoded());
    let expected = u64::from(count / 4);
    assert!(entries > expected / 2 && entries < expected * 2, "{entries} of {expected}");
    assert_eq!(bytes, entries * 24);
}

/// Orders by the number of bytes first.
struct ByLength;
impl Comparator for ByLength {
    fn name(&self) -> &str {
        "test.ByLength"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        a.len().cmp(&b.len()).then(a.cmp(b))
    }
    fn can_keys_with_different_byte_contents_be_equal(&self) -> bool {
        false
    }
}

fn check_against_model(table: &Arc<MemTable>, operations: &[(Vec<u8>, u8)], probes: &[Vec<u8>]) {
    let order = table.order().clone();
    let mut model: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for (at, (key, value)) in operations.iter().enumerate() {
        let sequence = SequenceNumber(at as u64 + 1);
        table.add(sequence, ValueType::Value, key, &[*value]).unwrap();
        model.push((InternalKey::new(key, sequence, ValueType::Value).encoded().to_vec(), vec![*value]));
    }
    model.sort_by(|a, b| order.compare(&a.0, &b.0));
    crate::read::testing::check_iterator(&mut table.iter(), &model, &order);
    for probe in probes {
        let expected: Vec<_> = model
            .iter()
            .filter(|(key, _)| extract_user_key(key) == probe)
            .map(|(key, value)| (parse_internal_key(key).unwrap().sequence.0, ValueType::Value, value.clone()))
            .collect();
        assert_eq!(get(table, probe, SequenceNumber::MAX.0, usize::MAX), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 64 }))]
    #[test]
    fn behaves_like_a_sorted_list(
        operations in prop::collection::vec((prop::collection::vec(0u8..4, 0..6), any::<u8>()), 1..120),
        probes in prop::collection::vec(prop::collection::vec(0u8..4, 0..6), 0..20),
        stem in prop::collection::vec(0u8..4, 0..3),
    ) {
        check_against_model(&table(Arc::new(BytewiseComparator), &stem), &operations, &probes);
        check_against_model(&table(Arc::new(ReverseBytewiseComparator), &stem), &operations, &probes);
        check_against_model(&table(Arc::new(ByLength), &stem), &operations, &probes);
    }
}

#[test]
fn ascending_descending_and_shuffled_inserts_give_the_same_scan() {
    let count = if cfg!(miri) { 400_u64 } else { 30_000 };
    let orders: [Box<dyn Fn(u64) -> u64>; 3] =
        [Box::new(|i| i), Box::new(move |i| count - 1 - i), Box::new(move |i| i.wrapping_mul(7919) % count)];
    for order in orders {
        let table = bytewise();
        for i in 0..count {
            table.add(SequenceNumber(i + 1), ValueType::Value, &order(i).to_be_bytes(), b"").unwrap();
        }
        let mut cursor = table.iter();
        cursor.seek_to_first();
        for i in 0..count {
            assert_eq!(extract_user_key(cursor.key()), i.to_be_bytes());
            cursor.next();
        }
        assert!(!cursor.valid());
        cursor.seek_to_last();
        for i in (0..count).rev() {
            assert_eq!(extract_user_key(cursor.key()), i.to_be_bytes());
            cursor.prev();
        }
        assert!(!cursor.valid());
    }
}

/// Writers insert disjoint keys in shuffled order while readers check that everything published is found, that scans are
/// in order, and that both directions agree.
#[test]
fn threads_write_and_read_at_once() {
    let (writers, per_writer) = if cfg!(miri) { (2_u64, 60_u64) } else { (4, 20_000) };
    let table = bytewise();
    let published: Vec<AtomicU64> = (0..writers).map(|_| AtomicU64::new(0)).collect();
    let key = |writer: u64, i: u64| ((i.wrapping_mul(7919) % per_writer) * writers + writer).to_be_bytes();
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let (table, published) = (&table, &published);
            scope.spawn(move || {
                for i in 0..per_writer {
                    let sequence = SequenceNumber(writer * per_writer + i + 1);
                    table.add(sequence, ValueType::Value, &key(writer, i), &i.to_le_bytes()).unwrap();
                    published[writer as usize].store(i + 1, Ordering::Release);
                }
            });
        }
        for reader in 0..2_u64 {
            let (table, published) = (&table, &published);
            scope.spawn(move || {
                let mut round = reader;
                loop {
                    let seen: Vec<u64> = published.iter().map(|p| p.load(Ordering::Acquire)).collect();
                    for (writer, &count) in seen.iter().enumerate() {
                        for i in (0..count).skip((round % 97) as usize).step_by(97) {
                            let found = get(table, &key(writer as u64, i), SequenceNumber::MAX.0, 1);
                            assert_eq!(found[0].2, i.to_le_bytes());
                        }
                    }
                    let mut cursor = table.iter();
                    let mut count = 0;
                    let mut last = Vec::new();
                    if reader == 0 {
                        cursor.seek_to_first();
                        while cursor.valid() {
                            assert!(count == 0 || last.as_slice() < extract_user_key(cursor.key()));
                            last = extract_user_key(cursor.key()).to_vec();
                            cursor.next();
                            count += 1;
                        }
                    } else {
                        cursor.seek_to_last();
                        while cursor.valid() {
                            assert!(count == 0 || last.as_slice() > extract_user_key(cursor.key()));
                            last = extract_user_key(cursor.key()).to_vec();
                            cursor.prev();
                            count += 1;
                        }
                    }
                    assert!(count >= seen.iter().sum::<u64>(), "{count} of {seen:?}");
                    round += 1;
                    if seen.iter().all(|&count| count == per_writer) {
                        return;
                    }
                }
            });
        }
    });
    assert_eq!(table.entry_count(), writers * per_writer);
}

#[test]
#[cfg_attr(miri, ignore = "a thousand inserts, all like those of other tests")]
fn the_stem_of_a_memtable_is_what_its_keys_share() {
    let table = bytewise();
    let mut model = BTreeMap::new();
    for i in 0..1000_u64 {
        let key = format!("user{:06}", i * 31 % 1000);
        table.add(SequenceNumber(i + 1), ValueType::Value, key.as_bytes(), b"").unwrap();
        model.insert(key, i);
    }
    assert_eq!(table.common_stem(), b"user000");
}

#[test]
fn large_values_are_pinned_where_they_lie() {
    let table = bytewise();
    table.add(SequenceNumber(1), ValueType::Value, b"small", &[1; 10]).unwrap();
    table.add(SequenceNumber(2), ValueType::Value, b"large", &[2; 5000]).unwrap();
    let value = |key: &[u8]| {
        let mut context = crate::read::GetContext::new(key, None, crate::read::LookupMode::Value);
        let lookup = InternalKey::for_seek(key, SequenceNumber::MAX);
        assert!(crate::read::get_from_memtable(&table, lookup.encoded(), &mut context));
        context.finish().unwrap().unwrap()
    };
    let (small, large) = (value(b"small"), value(b"large"));
    assert_eq!((small.is_pinned(), large.is_pinned()), (false, true));
    drop(table);
    assert_eq!((&*small, &*large), (&[1; 10][..], &[2; 5000][..]));
}

fn filtered(config: impl FnOnce(&mut MemTableConfig)) -> Arc<MemTable> {
    let mut filtered = MemTableConfig::new(1 << 20);
    config(&mut filtered);
    Arc::new(MemTable::new(InternalKeyComparator::default(), &filtered, SequenceNumber::ZERO, 1))
}

fn prefixes_of_3(bytes: usize) -> PrefixFilterConfig {
    PrefixFilterConfig { extractor: Arc::new(firn_format::slice_transform::FixedPrefix::new(3)), bytes }
}

#[test]
fn a_prefix_cursor_does_not_look_for_prefixes_that_no_key_has() {
    let table = filtered(|config| config.prefix_filter = Some(prefixes_of_3(1 << 10)));
    for (sequence, key) in [(1, "aaa1"), (2, "ccc1"), (3, "ccc2"), (4, "d")] {
        table.add(SequenceNumber(sequence), ValueType::Value, key.as_bytes(), b"").unwrap();
    }
    let target = |key: &str| InternalKey::for_seek(key.as_bytes(), SequenceNumber::MAX).encoded().to_vec();
    let at = |cursor: &MemTableIterator| {
        cursor.valid().then(|| String::from_utf8(extract_user_key(cursor.key()).to_vec()).unwrap())
    };
    let mut total = table.iter();
    total.seek(&target("bbb"));
    assert_eq!(at(&total).as_deref(), Some("ccc1"));
    let mut cursor = table.prefix_iter(&firn_format::slice_transform::FixedPrefix::new(3));
    let found = |cursor: &mut MemTableIterator, key: &str| {
        cursor.seek(&target(key));
        at(cursor)
    };
    assert_eq!(found(&mut cursor, "bbb"), None);
    assert_eq!(found(&mut cursor, "ccc").as_deref(), Some("ccc1"));
    assert_eq!(found(&mut cursor, "ccc2").as_deref(), Some("ccc2"));
    assert_eq!(found(&mut cursor, "b").as_deref(), Some("ccc1"), "outside the domain");
    cursor.seek_for_prev(&target("bbb"));
    assert_eq!(at(&cursor), None);
    cursor.seek_for_prev(&target("ccc9"));
    assert_eq!(at(&cursor).as_deref(), Some("ccc2"));
    cursor.seek_to_first();
    assert_eq!(at(&cursor).as_deref(), Some("aaa1"));
    let mut other_prefixes = table.prefix_iter(&firn_format::slice_transform::FixedPrefix::new(2));
    assert_eq!(found(&mut other_prefixes, "bbb").as_deref(), Some("ccc1"), "the filter knows other prefixes");
}

#[test]
fn requested_filters_count_as_memory_of_the_memtable() {
    let entries = |table: Arc<MemTable>| {
        (1..).find(|&i| {
            table.add(SequenceNumber(i), ValueType::Value, &i.to_be_bytes(), &[7; 100]).unwrap();
            table.should_flush()
        })
    };
    let plain = entries(filtered(|_| {})).unwrap();
    let requested =
        entries(filtered(|config| (config.filter_bytes, config.filter_requested) = (1 << 18, true))).unwrap();
    let prefixes = entries(filtered(|config| config.prefix_filter = Some(prefixes_of_3(1 << 18)))).unwrap();
    assert_eq!(requested, prefixes);
    assert!(requested * 5 < plain * 4 && requested * 10 > plain * 6, "a quarter less than {plain}: {requested}");
}
