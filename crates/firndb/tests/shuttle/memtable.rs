//! Concurrent inserts into a memtable and scans meanwhile.

use std::sync::Arc;

use firn_env::sync::atomic::{AtomicU64, Ordering};
use firn_env::thread;
use firn_format::comparator::InternalKeyComparator;
use firn_format::iterator::InternalIterator;
use firn_format::key::{InternalKey, ParsedInternalKey, SequenceNumber, ValueType};
use firn_table::{GetControl, GetSink, ValueRef};
use firndb::memtable::{MemTable, MemTableConfig};

const WRITERS: u64 = 2;
/// Together more than a leaf of the index holds, so that leaves split.
const PER_WRITER: u64 = 11;

struct First(Option<Vec<u8>>);

impl GetSink for First {
    fn accept(&mut self, _: ParsedInternalKey<'_>, value: ValueRef<'_>) -> GetControl {
        self.0 = Some(value.to_vec());
        GetControl::Stop
    }
}

/// Neighbouring keys of all writers interleave; values are so large that the arena grows.
fn key(writer: u64, i: u64) -> Vec<u8> {
    format!("{:02}-{writer}", (i * 7) % PER_WRITER).into_bytes()
}

fn value(writer: u64, i: u64) -> Vec<u8> {
    vec![(writer * PER_WRITER + i) as u8; if i < 2 { 700 } else { 3 }]
}

fn found(memtable: &MemTable, key: &[u8]) -> Option<Vec<u8>> {
    let mut sink = First(None);
    memtable.get(InternalKey::for_seek(key, SequenceNumber::MAX).encoded(), &mut sink).unwrap();
    sink.0
}

/// What was inserted is found at once, scans are in order in both directions and never lose an entry that they had.
pub(crate) fn inserts_and_reads() {
    let config = MemTableConfig { arena_block_bytes: 4096, ..MemTableConfig::new(64 << 10) };
    let order = InternalKeyComparator::default();
    let memtable = Arc::new(MemTable::new(order.clone(), &config, SequenceNumber::ZERO, 1));
    let inserted = Arc::new([const { AtomicU64::new(0) }; WRITERS as usize]);
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (memtable, inserted) = (Arc::clone(&memtable), Arc::clone(&inserted));
            thread::spawn("writer", move || {
                for i in 0..PER_WRITER {
                    let sequence = SequenceNumber(writer * PER_WRITER + i + 1);
                    let (key, value) = (key(writer, i), value(writer, i));
                    memtable.add(sequence, ValueType::Value, &key, &value).unwrap();
                    inserted[writer as usize].store(i + 1, Ordering::Release);
                    assert_eq!(found(&memtable, &key), Some(value), "a writer finds what it inserted");
                }
            })
            .unwrap()
        })
        .collect();
    let mut most = 0;
    for _ in 0..2 {
        let known: Vec<u64> = inserted.iter().map(|count| count.load(Ordering::Acquire)).collect();
        let (mut cursor, mut last, mut count) = (memtable.iter(), Vec::new(), 0);
        cursor.seek_to_first();
        while cursor.valid() {
            assert!(last.is_empty() || order.compare(&last, cursor.key()).is_lt(), "a scan runs backwards");
            last = cursor.key().to_vec();
            count += 1;
            cursor.next();
        }
        assert!(count >= known.iter().sum::<u64>().max(most), "a scan misses what was inserted before it began");
        most = count;
        let mut backwards = 0;
        cursor.seek_to_last();
        while cursor.valid() {
            backwards += 1;
            cursor.prev();
        }
        assert!(backwards >= count);
        for (writer, known) in (0..).zip(known) {
            for i in 0..known {
                assert_eq!(found(&memtable, &key(writer, i)), Some(value(writer, i)));
            }
        }
    }
    for writer in writers {
        writer.join().unwrap();
    }
    assert_eq!(memtable.entry_count(), WRITERS * PER_WRITER);
    for (writer, i) in (0..WRITERS).flat_map(|writer| (0..PER_WRITER).map(move |i| (writer, i))) {
        assert_eq!(found(&memtable, &key(writer, i)), Some(value(writer, i)));
    }
}
