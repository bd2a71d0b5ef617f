//! The pace of writers while memtables of their column family are being flushed.
//!
//! Writers fill a memtable faster than a flush writes the one before it. Left alone they have the next one nearly full
//! when the flush ends, so that twice the memory is taken, and where no further one is allowed they stop. Here they go at
//! a share of the flush's own pace instead, as the last flush showed it: by its end they have filled a small part of the
//! next memtable. What they lose by that is made up for by the rest of the time, in which no flush runs beside them.
//!
//! A flush that is slow, as on a slow disk or behind other flushes, does not hold writers: once it lasts longer than
//! [`SLOW_BYTES_PER_SEC`] would take, they may use all the memory that `max_write_buffer_number` gives them.
//!
//! What flushes did flows in, how many bytes a memtable may hold flows out.

use std::sync::Arc;

use firn_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::memtable::MemTable;

/// Writers fill one part in so many of a memtable while one is flushed.
const SHARE: f64 = 32.0;
/// A flush of memtables takes at least so many bytes per second, or writers do not wait for it.
const SLOW_BYTES_PER_SEC: u64 = 128 << 20;

/// The pace of the flushes of a column family. Thread-safe.
#[derive(Debug, Default)]
pub(crate) struct FlushPace {
    /// Whether memtables wait for a flush or are in one.
    under_way: AtomicBool,
    /// Since when, in nanoseconds on the clock of the database; zero while no writer asked.
    since_nanos: AtomicU64,
    /// What the memtable that takes entries held then, in bytes.
    held_bytes: AtomicU64,
    /// How many bytes of memtables the last flush wrote in a second; zero before the first.
    bytes_per_sec: AtomicU64,
}

impl FlushPace {
    /// Whether memtables wait for a flush or are in one, from now on.
    pub(crate) fn set_under_way(&self, under_way: bool) {
        if self.under_way.swap(under_way, Ordering::AcqRel) != under_way {
            self.begin();
        }
    }

    /// Whether memtables wait for a flush or are in one.
    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way.load(Ordering::Acquire)
    }

    /// A flush begins.
    pub(crate) fn begin(&self) {
        self.since_nanos.store(0, Ordering::Relaxed);
    }

    /// A flush of `memtables` took `nanos`. What is far from full says little about the others.
    pub(crate) fn learn(&self, memtables: &[Arc<MemTable>], nanos: u64) {
        let sum = |bytes: fn(&MemTable) -> u64| memtables.iter().map(|mem| bytes(mem)).sum::<u64>();
        let bytes = sum(MemTable::data_bytes);
        if bytes >= sum(MemTable::full_bytes) / 2 {
            let per_sec = bytes as f64 * 1e9 / nanos.max(1) as f64;
            self.bytes_per_sec.store(per_sec as u64, Ordering::Relaxed);
        }
    }

    /// Whether a memtable that is full with `full_bytes` may hold `bytes` at `now_nanos`. Nothing limits it without a flush.
    pub(crate) fn allows(&self, bytes: u64, full_bytes: u64, now_nanos: u64) -> bool {
        if !self.is_under_way() {
            return true;
        }
        let since = self.since_nanos.load(Ordering::Relaxed);
        if since == 0 {
            self.held_bytes.store(bytes, Ordering::Relaxed);
            self.since_nanos.store(now_nanos.max(1), Ordering::Relaxed);
            return true;
        }
        let seconds = now_nanos.saturating_sub(since) as f64 / 1e9;
        let pace = self.bytes_per_sec.load(Ordering::Relaxed).max(SLOW_BYTES_PER_SEC);
        let more = (seconds * pace as f64 / SHARE) as u64;
        seconds * SLOW_BYTES_PER_SEC as f64 >= full_bytes as f64
            || bytes <= self.held_bytes.load(Ordering::Relaxed).saturating_add(more)
    }
}

#[cfg(test)]
mod tests {
    use firn_format::comparator::{BytewiseComparator, InternalKeyComparator};
    use firn_format::key::{SequenceNumber, ValueType};

    use super::*;
    use crate::memtable::MemTableConfig;

    const FULL: u64 = 64 << 20;
    const MILLISECOND: u64 = 1_000_000;
    const START: u64 = 7 * MILLISECOND;

    fn under_way() -> FlushPace {
        let pace = FlushPace::default();
        pace.set_under_way(true);
        pace
    }

    /// The most that is allowed some milliseconds after the start.
    fn most(pace: &FlushPace, milliseconds: u64) -> u64 {
        let allows = |bytes: &u64| pace.allows(*bytes, FULL, START + milliseconds * MILLISECOND);
        (0..=FULL).step_by(1 << 16).take_while(allows).last().unwrap_or(0)
    }

    #[test]
    fn nothing_limits_writers_without_a_flush() {
        let pace = under_way();
        assert!(pace.allows(0, FULL, START));
        assert!(!pace.allows(FULL, FULL, START));
        pace.set_under_way(false);
        assert!(pace.allows(FULL, FULL, START));
    }

    #[test]
    fn writers_go_at_a_share_of_the_last_flush() {
        let order = InternalKeyComparator::new(Arc::new(BytewiseComparator));
        let memtable = MemTable::new(order, &MemTableConfig::new(1 << 20), SequenceNumber::ZERO, 1);
        let pace = under_way();
        assert!(pace.allows(0, FULL, START));
        assert_eq!(most(&pace, 250) >> 20, 1, "128 MiB/s before anything is known");
        let memtables = [Arc::new(memtable)];
        let fill = |bytes: usize| {
            let key = bytes.to_be_bytes();
            memtables[0].add(SequenceNumber(1), ValueType::Value, &key, &vec![0; bytes]).expect("an insert");
        };
        fill(1 << 18);
        pace.learn(&memtables, 1);
        assert_eq!(most(&pace, 250) >> 20, 1, "a quarter of a memtable says nothing");
        fill(3 << 18);
        pace.learn(&memtables, MILLISECOND);
        assert_eq!(most(&pace, 250) >> 20, 7, "1 GiB/s");
        assert!(pace.allows(FULL, FULL, START + 500 * MILLISECOND), "a flush this slow holds nobody");
    }

    #[test]
    fn each_flush_begins_with_what_is_there() {
        let pace = under_way();
        assert!(pace.allows(FULL / 2, FULL, START));
        assert!(pace.allows(FULL / 2, FULL, START));
        assert!(!pace.allows(FULL / 2 + 1, FULL, START));
        pace.begin();
        assert!(pace.allows(FULL / 2 + (1 << 20), FULL, START), "the first look at the next one");
        assert!(!pace.allows(FULL / 2 + (2 << 20), FULL, START));
    }
}
