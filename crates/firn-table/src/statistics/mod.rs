//! Statistics: tickers and histograms that databases, tables and caches count into.
//!
//! Counts flow in from every thread; totals, figures and RocksDB's text flow out. [`Ticker`] and [`HistogramKind`] declare
//! each counter once. Always true here: counting takes no lock and touches no cache line that another running thread counts
//! into; a reader sees every count that happened before it, but not necessarily all counters at one moment.

mod histogram;
mod histograms;
mod perf;
mod slot;
mod tickers;

pub use histogram::{BUCKET_LIMITS, BUCKETS, Histogram, HistogramData, bucket_of};
pub use histograms::HistogramKind;
pub use perf::{
    IoMetric, IoStatsContext, PerfContext, PerfLevel, PerfMetric, PerfTimer, io_stats, perf_add, perf_context,
    perf_level, reset_io_stats, reset_perf_context, set_perf_level,
};
pub use tickers::Ticker;

use std::fmt::Write;
use std::sync::{Arc, OnceLock};

use firn_env::Clock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use slot::{OWN_SLOTS, SHARED_SLOT, thread_slot};

/// Declares counters: their names and, by their order, their numbers.
macro_rules! metrics {
    (
        $(#[$meta:meta])*
        pub enum $enum:ident {
            $($(#[$doc:meta])+ $variant:ident => $name:literal,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum $enum {
            $($(#[$doc])+ $variant,)*
        }

        impl $enum {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();

            const NAMES: &'static [&'static str] = &[$($name),*];

            /// RocksDB's name.
            pub fn name(self) -> &'static str {
                Self::NAMES[self as usize]
            }

            /// RocksDB 11.9's number.
            pub const fn number(self) -> usize {
                self as usize
            }

            /// The one with this number.
            pub fn from_number(number: usize) -> Option<Self> {
                Self::ALL.get(number).copied()
            }

            /// The one with this name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::NAMES.iter().position(|known| *known == name).and_then(Self::from_number)
            }
        }
    };
}
use metrics;

/// How much is recorded; the discriminants are RocksDB's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum StatsLevel {
    /// Nothing.
    DisableAll = 0,
    /// Tickers.
    ExceptHistogramOrTimers = 1,
    /// And histograms of other things than durations.
    ExceptTimers = 2,
    /// And durations, except detailed ones.
    #[default]
    ExceptDetailedTimers = 3,
    /// And detailed durations.
    ExceptTimeForMutex = 4,
    /// And waiting for mutexes.
    All = 5,
}

impl StatsLevel {
    /// The level with this number; numbers beyond the last mean the last.
    pub const fn from_number(number: u8) -> Self {
        match number {
            0 => Self::DisableAll,
            1 => Self::ExceptHistogramOrTimers,
            2 => Self::ExceptTimers,
            3 => Self::ExceptDetailedTimers,
            4 => Self::ExceptTimeForMutex,
            _ => Self::All,
        }
    }
}

impl HistogramKind {
    /// The least level at which durations of this kind are measured.
    pub const fn timer_level(self) -> StatsLevel {
        match self {
            Self::CompressionTimesNanos
            | Self::DecompressionTimesNanos
            | Self::FileReadGetMicros
            | Self::FileReadMultigetMicros
            | Self::FileReadDbIteratorMicros
            | Self::FileReadVerifyDbChecksumMicros
            | Self::FileReadVerifyFileChecksumsMicros => StatsLevel::ExceptTimeForMutex,
            _ => StatsLevel::ExceptDetailedTimers,
        }
    }
}

/// A histogram that one thread writes and others read.
struct SharedHistogram {
    buckets: [AtomicU64; BUCKETS],
    sum: AtomicU64,
    sum_of_squares: AtomicU64,
    /// The bitwise complement of the least sample, so that zero means none.
    complement_of_min: AtomicU64,
    max: AtomicU64,
}

/// What the threads with one slot have counted.
struct Shard {
    tickers: [AtomicU64; Ticker::COUNT],
    histograms: Box<[OnceLock<Box<SharedHistogram>>]>,
}

impl Shard {
    fn new() -> Box<Self> {
        Box::new(Self {
            tickers: [const { AtomicU64::new(0) }; Ticker::COUNT],
            histograms: (0..HistogramKind::COUNT).map(|_| OnceLock::new()).collect(),
        })
    }
}

impl SharedHistogram {
    fn new() -> Box<Self> {
        Box::new(Self {
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
            sum: AtomicU64::new(0),
            sum_of_squares: AtomicU64::new(0),
            complement_of_min: AtomicU64::new(0),
            max: AtomicU64::new(0),
        })
    }

    fn add(&self, value: u64, exclusive: bool) {
        increase(&self.buckets[bucket_of(value)], 1, exclusive);
        increase(&self.sum, value, exclusive);
        increase(&self.sum_of_squares, value.wrapping_mul(value), exclusive);
        if self.max.load(Relaxed) < value {
            self.max.fetch_max(value, Relaxed);
        }
        if self.complement_of_min.load(Relaxed) < !value {
            self.complement_of_min.fetch_max(!value, Relaxed);
        }
    }

    fn add_to(&self, total: &mut Histogram) {
        for (sum, bucket) in total.buckets.iter_mut().zip(&self.buckets) {
            let count = bucket.load(Relaxed);
            *sum = sum.wrapping_add(count);
            total.count = total.count.wrapping_add(count);
        }
        total.sum = total.sum.wrapping_add(self.sum.load(Relaxed));
        total.sum_of_squares = total.sum_of_squares.wrapping_add(self.sum_of_squares.load(Relaxed));
        total.max = total.max.max(self.max.load(Relaxed));
        total.min = total.min.min(!self.complement_of_min.load(Relaxed));
    }
}

/// Adds to a counter; without contention and without a locked instruction where no other thread writes it.
#[inline]
fn increase(counter: &AtomicU64, count: u64, exclusive: bool) {
    if exclusive {
        counter.store(counter.load(Relaxed).wrapping_add(count), Relaxed);
    } else {
        counter.fetch_add(count, Relaxed);
    }
}

/// Tickers and histograms. Thread-safe; may be shared by several databases, whose counts then add up.
pub struct Statistics {
    level: AtomicU8,
    shards: [OnceLock<Box<Shard>>; OWN_SLOTS + 1],
    /// What a total must be increased by: resets and settings, which never write into shards of running threads.
    ticker_corrections: [AtomicU64; Ticker::COUNT],
    /// What was counted in histograms before the last reset.
    histogram_corrections: firn_env::sync::Mutex<Vec<Option<Histogram>>>,
}

impl Default for Statistics {
    fn default() -> Self {
        Self::new(StatsLevel::default())
    }
}

impl std::fmt::Debug for Statistics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Statistics").field("level", &self.level()).finish_non_exhaustive()
    }
}

impl Statistics {
    /// Empty statistics that record at `level`.
    pub fn new(level: StatsLevel) -> Self {
        Self {
            level: AtomicU8::new(level as u8),
            shards: [const { OnceLock::new() }; OWN_SLOTS + 1],
            ticker_corrections: [const { AtomicU64::new(0) }; Ticker::COUNT],
            histogram_corrections: firn_env::sync::Mutex::new(Vec::new()),
        }
    }

    /// How much is recorded.
    #[inline]
    pub fn level(&self) -> StatsLevel {
        StatsLevel::from_number(self.level.load(Relaxed))
    }

    /// Changes how much is recorded from now on.
    pub fn set_level(&self, level: StatsLevel) {
        self.level.store(level as u8, Relaxed);
    }

    #[inline]
    fn shard(&self) -> (&Shard, bool) {
        let slot = thread_slot();
        let shard = self.shards.get(slot).unwrap_or(&self.shards[SHARED_SLOT]);
        (shard.get_or_init(Shard::new), slot != SHARED_SLOT)
    }

    /// Adds to a ticker.
    #[inline]
    pub fn record_tick(&self, ticker: Ticker, count: u64) {
        if self.level.load(Relaxed) >= StatsLevel::ExceptHistogramOrTimers as u8 {
            let (shard, exclusive) = self.shard();
            increase(&shard.tickers[ticker as usize], count, exclusive);
        }
    }

    /// Adds a sample that is no duration.
    #[inline]
    pub fn record_in_histogram(&self, histogram: HistogramKind, value: u64) {
        if self.level.load(Relaxed) >= StatsLevel::ExceptTimers as u8 {
            self.add_sample(histogram, value);
        }
    }

    /// Adds a duration in the histogram's unit.
    #[inline]
    pub fn report_time(&self, histogram: HistogramKind, duration: u64) {
        if self.measures(histogram) {
            self.add_sample(histogram, duration);
        }
    }

    /// Whether durations of this kind are recorded, so that it is worth while to look at the clock.
    #[inline]
    pub fn measures(&self, histogram: HistogramKind) -> bool {
        self.level.load(Relaxed) >= histogram.timer_level() as u8
    }

    fn add_sample(&self, histogram: HistogramKind, value: u64) {
        let (shard, exclusive) = self.shard();
        if let Some(cell) = shard.histograms.get(histogram as usize) {
            cell.get_or_init(SharedHistogram::new).add(value, exclusive);
        }
    }

    fn counted(&self, ticker: Ticker) -> u64 {
        let shards = self.shards.iter().filter_map(OnceLock::get);
        shards.fold(0, |sum, shard| sum.wrapping_add(shard.tickers[ticker as usize].load(Relaxed)))
    }

    /// The total of a ticker.
    pub fn ticker_count(&self, ticker: Ticker) -> u64 {
        self.counted(ticker).wrapping_add(self.ticker_corrections[ticker as usize].load(Relaxed))
    }

    /// Makes the total of a ticker `count`, at every level.
    pub fn set_ticker_count(&self, ticker: Ticker, count: u64) {
        self.ticker_corrections[ticker as usize].store(count.wrapping_sub(self.counted(ticker)), Relaxed);
    }

    /// The total of a ticker, which starts again from zero.
    pub fn take_ticker_count(&self, ticker: Ticker) -> u64 {
        let counted = self.counted(ticker);
        let correction = self.ticker_corrections[ticker as usize].swap(counted.wrapping_neg(), Relaxed);
        counted.wrapping_add(correction)
    }

    /// Every ticker with its total, zeros too.
    pub fn ticker_map(&self) -> impl Iterator<Item = (Ticker, u64)> {
        Ticker::ALL.iter().map(|ticker| (*ticker, self.ticker_count(*ticker)))
    }

    fn sampled(&self, histogram: HistogramKind) -> Histogram {
        let mut total = Histogram::new();
        for shard in self.shards.iter().filter_map(OnceLock::get) {
            if let Some(part) = shard.histograms.get(histogram as usize).and_then(OnceLock::get) {
                part.add_to(&mut total);
            }
        }
        total
    }

    /// The samples of a histogram. After a [`reset`](Self::reset) the least and greatest sample are known only as exactly as
    /// the buckets tell them.
    pub fn histogram(&self, histogram: HistogramKind) -> Histogram {
        let mut total = self.sampled(histogram);
        let corrections = self.histogram_corrections.lock();
        if let Some(Some(before)) = corrections.get(histogram as usize) {
            subtract(&mut total, before);
        }
        total
    }

    /// The figures of a histogram.
    pub fn histogram_data(&self, histogram: HistogramKind) -> HistogramData {
        self.histogram(histogram).data()
    }

    /// Starts all tickers and histograms again from zero.
    pub fn reset(&self) {
        for ticker in Ticker::ALL {
            self.set_ticker_count(*ticker, 0);
        }
        let samples = HistogramKind::ALL.iter().map(|histogram| Some(self.sampled(*histogram)));
        *self.histogram_corrections.lock() = samples.collect();
    }

    /// RocksDB's text: every ticker, then every histogram, in the order of their numbers.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (ticker, count) in self.ticker_map() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{} COUNT : {count}", ticker.name());
        }
        for kind in HistogramKind::ALL {
            let histogram = self.histogram(*kind);
            let [p50, p95, p99] = [50.0, 95.0, 99.0].map(|percent| histogram.percentile(percent));
            let _ = writeln!(
                text,
                "{} P50 : {p50:.6} P95 : {p95:.6} P99 : {p99:.6} P100 : {:.6} COUNT : {} SUM : {}",
                kind.name(),
                histogram.max() as f64,
                histogram.count(),
                histogram.sum(),
            );
        }
        text
    }
}

/// Takes the samples of `before` out of `total`.
fn subtract(total: &mut Histogram, before: &Histogram) {
    for (count, earlier) in total.buckets.iter_mut().zip(&before.buckets) {
        *count = count.saturating_sub(*earlier);
    }
    total.count = total.buckets.iter().sum();
    total.sum = total.sum.wrapping_sub(before.sum);
    total.sum_of_squares = total.sum_of_squares.wrapping_sub(before.sum_of_squares);
    let lowest = total.buckets.iter().position(|count| *count > 0);
    let highest = total.buckets.iter().rposition(|count| *count > 0);
    let least = lowest.map_or(u64::MAX, |at| at.checked_sub(1).map_or(0, |before| BUCKET_LIMITS[before] + 1));
    total.min = total.min.max(least);
    total.max = total.max.min(highest.map_or(0, |at| if at + 1 == BUCKETS { u64::MAX } else { BUCKET_LIMITS[at] }));
}

/// Adds to a ticker where there are statistics.
#[inline]
pub fn record_tick(statistics: Option<&Arc<Statistics>>, ticker: Ticker, count: u64) {
    if let Some(statistics) = statistics {
        statistics.record_tick(ticker, count);
    }
}

/// Measures a duration for a histogram in microseconds, where it is wanted; ends when dropped.
pub struct StopWatch<'a> {
    running: Option<(&'a Statistics, &'a dyn Clock, HistogramKind, u64)>,
}

impl<'a> StopWatch<'a> {
    /// Starts to measure; reads no clock when nobody wants the duration.
    pub fn start(statistics: Option<&'a Arc<Statistics>>, clock: &'a dyn Clock, histogram: HistogramKind) -> Self {
        let wanted = statistics.filter(|statistics| statistics.measures(histogram));
        Self { running: wanted.map(|statistics| (&**statistics, clock, histogram, clock.now_nanos())) }
    }

    /// Forgets the measurement.
    pub fn cancel(mut self) {
        self.running = None;
    }
}

impl Drop for StopWatch<'_> {
    fn drop(&mut self) {
        if let Some((statistics, clock, histogram, start)) = self.running.take() {
            statistics.report_time(histogram, clock.now_nanos().saturating_sub(start) / 1000);
        }
    }
}

#[cfg(test)]
mod tests;
