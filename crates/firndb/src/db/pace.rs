//! The pace of writers while memtables of their column family are being flushed.
//!
//! Writers can fill a memtable faster than a flush writes the one before it. Left alone they have the next one nearly full
//! when the flush ends, so that twice the memory is taken, and where no further one is allowed they stop. Here they go at
//! a share of the flush's own pace instead, as the last flush showed it: by its end they have filled a small part of the
//! next memtable. What they lose by that is made up for by the rest of the time, in which no flush runs beside them.
//!
//! Writers that bring less than [`FAST_BYTES_PER_SEC`] are left alone: they do not get far during a flush. And a flush that
//! is slow, as on a slow disk or behind other flushes, does not hold writers: once it lasts longer than
//! [`SLOW_BYTES_PER_SEC`] would take, they may use all the memory that `max_write_buffer_number` gives them.
//!
//! What flushes and writers did flows in, whether a memtable may hold what it holds flows out.

use std::sync::Arc;

use firn_env::sync::Mutex;
use firn_env::sync::atomic::{AtomicBool, Ordering};

use crate::memtable::MemTable;

/// Writers fill one part in so many of a memtable while one is flushed.
const SHARE: f64 = 64.0;
/// A flush of memtables takes at least so many bytes per second, or writers do not wait for it.
const SLOW_BYTES_PER_SEC: f64 = (128 << 20) as f64;
/// Slower writers are left alone.
const FAST_BYTES_PER_SEC: f64 = (64 << 20) as f64;
/// How fast writers are is told from so many bytes.
const WINDOW_BYTES: u64 = 128 << 10;
/// Smaller memtables are written as fast as a writer can sleep, and take little memory.
const LEAST_PACED_BYTES: u64 = 4 << 20;

/// The pace of the flushes of a column family. Thread-safe.
#[derive(Debug, Default)]
pub(crate) struct FlushPace {
    /// Whether memtables wait for a flush or are in one.
    under_way: AtomicBool,
    measures: Mutex<Measures>,
}

/// What the memtable that takes entries held at some time.
#[derive(Clone, Copy, Debug)]
struct Mark {
    /// On the clock of the database.
    nanos: u64,
    bytes: u64,
}

impl Mark {
    fn seconds_until(&self, now: &Self) -> f64 {
        now.nanos.saturating_sub(self.nanos) as f64 / 1e9
    }
}

#[derive(Debug, Default)]
struct Measures {
    /// How many bytes of memtables the last flush wrote in a second; zero before the first.
    flushed_per_sec: f64,
    /// When a writer first asked during this flush.
    first: Option<Mark>,
    /// From where on writers go at the pace of the flush.
    base: Option<Mark>,
    /// From where on it is measured how fast they are.
    window: Option<Mark>,
    /// Whether they were fast in the last window.
    are_fast: bool,
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
        let mut measures = self.measures.lock();
        *measures = Measures { flushed_per_sec: measures.flushed_per_sec, ..Measures::default() };
    }

    /// A flush of `memtables` took `nanos`. What is far from full says little about the others.
    pub(crate) fn learn(&self, memtables: &[Arc<MemTable>], nanos: u64) {
        let sum = |bytes: fn(&MemTable) -> u64| memtables.iter().map(|mem| bytes(mem)).sum::<u64>();
        let bytes = sum(MemTable::data_bytes);
        if bytes >= sum(MemTable::full_bytes) / 2 {
            self.measures.lock().flushed_per_sec = bytes as f64 * 1e9 / nanos.max(1) as f64;
        }
    }

    /// Writers slept for `nanos` because [`allows`](Self::allows) said no.
    pub(crate) fn note_sleep(&self, nanos: u64) {
        if let Some(window) = &mut self.measures.lock().window {
            window.nanos += nanos;
        }
    }

    /// Whether a memtable that is full with `full_bytes` may hold `bytes` at `now_nanos`. Nothing limits it without a flush.
    pub(crate) fn allows(&self, bytes: u64, full_bytes: u64, now_nanos: u64) -> bool {
        if !self.is_under_way() || full_bytes < LEAST_PACED_BYTES {
            return true;
        }
        let now = Mark { nanos: now_nanos, bytes };
        self.measures.lock().allow(&now, full_bytes)
    }
}

impl Measures {
    fn allow(&mut self, now: &Mark, full_bytes: u64) -> bool {
        let lasted = self.first.get_or_insert(*now).seconds_until(now);
        let window = *self.window.get_or_insert(*now);
        let base = self.base.get_or_insert(*now);
        let brought = now.bytes.saturating_sub(window.bytes);
        if brought >= WINDOW_BYTES {
            self.are_fast = brought as f64 >= FAST_BYTES_PER_SEC * window.seconds_until(now);
            self.window = Some(*now);
        }
        if !self.are_fast {
            *base = *now;
        }
        let per_sec = self.flushed_per_sec.max(SLOW_BYTES_PER_SEC) / SHARE;
        let allowed = base.bytes.saturating_add((base.seconds_until(now) * per_sec) as u64);
        now.bytes <= allowed || lasted * SLOW_BYTES_PER_SEC >= full_bytes as f64
    }
}

#[cfg(test)]
mod tests {
    use firn_format::comparator::{BytewiseComparator, InternalKeyComparator};
    use firn_format::key::{SequenceNumber, ValueType};

    use super::*;
    use crate::memtable::MemTableConfig;

    const FULL: u64 = 64 << 20;
    const STEP: u64 = 256 << 10;
    const MILLISECOND: u64 = 1_000_000;
    const START: u64 = 7 * MILLISECOND;

    /// A flush beside which writers brought the first step in no time.
    fn with_fast_writers() -> FlushPace {
        let pace = FlushPace::default();
        pace.set_under_way(true);
        assert!(pace.allows(0, FULL, START));
        assert!(!pace.allows(STEP, FULL, START));
        pace
    }

    /// How many steps are allowed after some milliseconds of sleep from the start on.
    fn most(pace: &FlushPace, milliseconds: u64) -> u64 {
        pace.note_sleep(milliseconds * MILLISECOND);
        let allows = |bytes: &u64| pace.allows(bytes * STEP, FULL, START + milliseconds * MILLISECOND);
        (1..=FULL / STEP).take_while(allows).last().unwrap_or(0)
    }

    #[test]
    fn nothing_limits_writers_without_a_flush() {
        let pace = with_fast_writers();
        assert!(pace.allows(STEP, STEP, START), "small memtables are filled as fast as may be");
        pace.set_under_way(false);
        assert!(pace.allows(FULL, FULL, START));
    }

    #[test]
    fn fast_writers_go_at_a_share_of_the_last_flush() {
        let order = InternalKeyComparator::new(Arc::new(BytewiseComparator));
        let memtable = MemTable::new(order, &MemTableConfig::new(1 << 20), SequenceNumber::ZERO, 1);
        let pace = with_fast_writers();
        assert_eq!(most(&pace, 250), 2, "128 MiB/s before anything is known");
        let memtables = [Arc::new(memtable)];
        let fill = |bytes: usize| {
            let key = bytes.to_be_bytes();
            memtables[0].add(SequenceNumber(1), ValueType::Value, &key, &vec![0; bytes]).expect("an insert");
        };
        fill(1 << 18);
        pace.learn(&memtables, 1);
        assert_eq!(most(&with_learned(&pace), 250), 2, "a quarter of a memtable says nothing");
        fill(3 << 18);
        pace.learn(&memtables, MILLISECOND);
        assert_eq!(most(&with_learned(&pace), 250), 15, "1 GiB/s");
        assert!(pace.allows(FULL, FULL, START + 500 * MILLISECOND), "a flush this slow holds nobody");
    }

    /// The next flush after one that took as long as the last of `pace`.
    fn with_learned(pace: &FlushPace) -> FlushPace {
        let next = with_fast_writers();
        next.measures.lock().flushed_per_sec = pace.measures.lock().flushed_per_sec;
        next
    }

    #[test]
    fn each_flush_begins_with_what_is_there() {
        let pace = with_fast_writers();
        pace.begin();
        assert!(pace.allows(FULL / 2, FULL, START));
        assert!(!pace.allows(FULL / 2 + STEP, FULL, START));
        assert!(pace.allows(FULL / 2 + STEP, FULL, START + 250 * MILLISECOND));
    }

    #[test]
    fn slow_writers_are_left_alone_and_sleeping_does_not_make_writers_slow() {
        let pace = FlushPace::default();
        pace.set_under_way(true);
        // 32 MiB/s.
        for step in 0..100 {
            assert!(pace.allows(step * STEP, FULL, START + step * 31 * MILLISECOND / 4), "step {step}");
            pace.measures.lock().first = None;
        }
        let pace = with_fast_writers();
        let mut now = START;
        for step in 2..20 {
            while !pace.allows(step * STEP, FULL, now) {
                now += 2 * MILLISECOND;
                pace.note_sleep(2 * MILLISECOND);
                pace.measures.lock().first = None;
            }
        }
        assert!(now > START + 500 * MILLISECOND, "{now}");
    }
}
