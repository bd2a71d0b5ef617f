//! What a run measures, and the lines that tell it.
//!
//! Each worker counts into its own [`ThreadStats`]; [`RunStats`] merges them into the result line. [`RepeatStats`]
//! summarises repeated runs. Scripts cut these lines at blanks: their form is an interface.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_env::Clock;

use super::calendar::CivilTime;
use firndb::stats::Histogram;

/// What an operation did, for the histograms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OpKind {
    /// A point lookup.
    Read,
    /// A put.
    Write,
    /// A delete.
    Delete,
    /// A seek with its nexts.
    Seek,
    /// A merge.
    Merge,
    /// A read and a write of the same key.
    Update,
    /// A block compressed.
    Compress,
    /// A block decompressed.
    Uncompress,
    /// A CRC of a block.
    Crc,
    /// Another hash of a block.
    Hash,
    /// Everything else.
    Other,
    /// A scan of several ranges.
    MultiScan,
}

impl OpKind {
    /// The name in `Microseconds per {name}:`.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Delete => "delete",
            Self::Seek => "seek",
            Self::Merge => "merge",
            Self::Update => "update",
            Self::Compress => "compress",
            Self::Uncompress => "uncompress",
            Self::Crc => "crc",
            Self::Hash => "hash",
            Self::Other => "op",
            Self::MultiScan => "multiscan",
        }
    }
}

/// What the flags say about measuring.
#[derive(Clone, Debug)]
pub struct StatsOptions {
    /// `--histogram`
    pub histogram: bool,
    /// `--progress_reports`
    pub progress_reports: bool,
    /// `--stats_interval`: report every so many operations of a thread; 0 for never.
    pub stats_interval: u64,
    /// `--stats_interval_seconds`: …and only after so many seconds.
    pub stats_interval_seconds: u64,
    /// `--slow_usecs`
    pub slow_usecs: u64,
}

/// Text about the database that thread 0 adds to its interval reports.
pub type IntervalText = Arc<dyn Fn() -> String + Send + Sync>;

/// One worker's measurements.
pub struct ThreadStats {
    thread: usize,
    clock: Arc<dyn Clock>,
    options: StatsOptions,
    /// Operations of all threads, for the CSV report.
    reported_ops: Option<Arc<AtomicU64>>,
    interval_text: Option<IntervalText>,
    start_nanos: u64,
    finish_nanos: u64,
    last_op_nanos: u64,
    done: u64,
    next_report: u64,
    last_report_done: u64,
    last_report_nanos: u64,
    bytes: u64,
    message: String,
    excluded: bool,
    histograms: BTreeMap<OpKind, Histogram>,
}

impl ThreadStats {
    /// Starts measuring now.
    pub fn new(
        thread: usize,
        clock: &Arc<dyn Clock>,
        options: StatsOptions,
        reported_ops: Option<Arc<AtomicU64>>,
        interval_text: Option<IntervalText>,
    ) -> Self {
        let mut stats = Self {
            thread,
            clock: Arc::clone(clock),
            options,
            reported_ops,
            interval_text,
            start_nanos: 0,
            finish_nanos: 0,
            last_op_nanos: 0,
            done: 0,
            next_report: 0,
            last_report_done: 0,
            last_report_nanos: 0,
            bytes: 0,
            message: String::new(),
            excluded: false,
            histograms: BTreeMap::new(),
        };
        stats.start();
        stats
    }

    /// Forgets everything measured and starts again.
    pub fn start(&mut self) {
        let now = self.clock.now_nanos();
        self.start_nanos = now;
        self.finish_nanos = now;
        self.last_op_nanos = now;
        self.last_report_nanos = now;
        self.done = 0;
        self.last_report_done = 0;
        self.bytes = 0;
        self.next_report = if self.options.stats_interval > 0 { self.options.stats_interval } else { 100 };
        self.histograms.clear();
        self.message.clear();
    }

    /// Ends measuring.
    pub fn stop(&mut self) {
        self.finish_nanos = self.clock.now_nanos();
    }

    /// Leaves this thread out of the result, as background writers are.
    pub fn exclude_from_result(&mut self) {
        self.excluded = true;
    }

    /// Adds a message, separated from earlier ones by a blank.
    pub fn add_message(&mut self, text: &str) {
        append_with_space(&mut self.message, text);
    }

    /// Adds to the bytes that make MB/s.
    #[inline]
    pub fn add_bytes(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// The next operation's time counts from now; for loops that did something uncounted in between.
    pub fn reset_last_op_time(&mut self) {
        self.last_op_nanos = self.clock.now_nanos();
    }

    /// Operations counted so far.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Nanoseconds since the start.
    pub fn elapsed_nanos(&self) -> u64 {
        self.clock.now_nanos() - self.start_nanos
    }

    /// Counts `ops` operations of one kind that just ended.
    #[inline]
    pub fn finished_ops(&mut self, ops: u64, kind: OpKind) {
        if let Some(reported) = &self.reported_ops {
            reported.fetch_add(ops, Ordering::Relaxed);
        }
        if self.options.histogram {
            self.time_op(kind);
        }
        self.done += ops;
        if self.done >= self.next_report {
            self.progress();
        }
    }

    fn time_op(&mut self, kind: OpKind) {
        let now = self.clock.now_nanos();
        let micros = (now - self.last_op_nanos) / 1000;
        self.histograms.entry(kind).or_default().add(micros);
        if micros > self.options.slow_usecs && self.options.stats_interval == 0 {
            eprint!("long op: {micros} micros{:30}\r", "");
        }
        self.last_op_nanos = now;
    }

    #[cold]
    fn progress(&mut self) {
        if self.options.stats_interval == 0 {
            self.next_report += match self.next_report {
                0..1000 => 100,
                1000..5000 => 500,
                5000..10_000 => 1000,
                10_000..50_000 => 5000,
                50_000..100_000 => 10_000,
                100_000..500_000 => 50_000,
                _ => 100_000,
            };
            if self.options.progress_reports {
                eprint!("... finished {} ops{:30}\r", self.done, "");
            }
            return;
        }
        let now = self.clock.now_nanos();
        let interval_nanos = now - self.last_report_nanos;
        let wanted = self.options.stats_interval_seconds * 1_000_000_000;
        self.next_report += self.options.stats_interval;
        if wanted > 0 && interval_nanos < wanted {
            return;
        }
        let (interval, total) = (interval_nanos as f64 / 1e9, (now - self.start_nanos) as f64 / 1e9);
        let interval_done = self.done - self.last_report_done;
        eprintln!(
            "{}  ... thread {}: ({},{}) ops and ({:.1},{:.1}) ops/second in ({:.6},{:.6}) seconds",
            CivilTime::from_unix(self.clock.now_secs()).stamp(),
            self.thread,
            interval_done,
            self.done,
            interval_done as f64 / interval,
            self.done as f64 / total,
            interval,
            total
        );
        if self.thread == 0
            && let Some(text) = &self.interval_text
        {
            eprint!("{}", text());
        }
        self.last_report_nanos = now;
        self.last_report_done = self.done;
    }
}

/// Appends with one blank in between.
pub fn append_with_space(text: &mut String, more: &str) {
    if more.is_empty() {
        return;
    }
    if !text.is_empty() {
        text.push(' ');
    }
    text.push_str(more);
}

/// The merged measurements of one run.
#[derive(Clone, Debug)]
pub struct RunStats {
    ops: u64,
    bytes: u64,
    thread_seconds: f64,
    seconds: f64,
    message: String,
    histograms: BTreeMap<OpKind, Histogram>,
}

impl RunStats {
    /// Merges the threads of a run. The run ends when the last thread ends, excluded ones too.
    pub fn merge(threads: &[ThreadStats]) -> Self {
        let mut merged = Self {
            ops: 0,
            bytes: 0,
            thread_seconds: 0.0,
            seconds: 0.0,
            message: String::new(),
            histograms: BTreeMap::new(),
        };
        let mut start = u64::MAX;
        for stats in threads.iter().filter(|stats| !stats.excluded) {
            merged.ops += stats.done;
            merged.bytes += stats.bytes;
            merged.thread_seconds += (stats.finish_nanos - stats.start_nanos) as f64 / 1e9;
            start = start.min(stats.start_nanos);
            if merged.message.is_empty() {
                merged.message.clone_from(&stats.message);
            }
            for (kind, histogram) in &stats.histograms {
                merged.histograms.entry(*kind).or_default().merge(histogram);
            }
        }
        let finish = threads.iter().map(|stats| stats.finish_nanos).max().unwrap_or(0);
        merged.seconds = finish.saturating_sub(start) as f64 / 1e9;
        merged.ops = merged.ops.max(1);
        merged
    }

    /// Operations per second.
    pub fn ops_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.ops as f64 / self.seconds } else { 0.0 }
    }

    /// MiB per second; `None` when no bytes were counted.
    pub fn mb_per_second(&self) -> Option<f64> {
        (self.bytes > 0 && self.seconds > 0.0).then(|| self.bytes as f64 / 1_048_576.0 / self.seconds)
    }

    /// The result line and the histograms after it.
    pub fn text(&self, name: &str) -> String {
        let mut text = format!(
            "{name:<12} : {:11.3} micros/op {} ops/sec {:.3} seconds {} operations;",
            self.thread_seconds * 1e6 / self.ops as f64,
            self.ops_per_second() as u64,
            self.seconds,
            self.ops
        );
        if let Some(rate) = self.mb_per_second() {
            let _ = write!(text, " {rate:6.1} MB/s");
        }
        append_with_space(&mut text, &self.message);
        text.push('\n');
        for (kind, histogram) in &self.histograms {
            let _ = writeln!(text, "Microseconds per {}:\n{}", kind.label(), histogram.to_text());
        }
        text
    }
}

/// Throughput of repeated runs of one benchmark.
#[derive(Clone, Debug, Default)]
pub struct RepeatStats {
    ops: Vec<f64>,
    mb: Vec<f64>,
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Half the width of the 95 % confidence interval of the mean.
fn confidence(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let average = mean(values);
    let squares: f64 = values.iter().map(|value| (value - average).powi(2)).sum();
    1.959_964 * (squares / (values.len() - 1) as f64).sqrt() / (values.len() as f64).sqrt()
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match (sorted.len() % 2, sorted.get(middle.wrapping_sub(1)), sorted.get(middle)) {
        (1, _, Some(value)) => *value,
        (0, Some(low), Some(high)) => (low + high) / 2.0,
        _ => 0.0,
    }
}

impl RepeatStats {
    /// Adds a measured run.
    pub fn add(&mut self, run: &RunStats) {
        self.ops.push(run.ops_per_second());
        if let Some(mb) = run.mb_per_second() {
            self.mb.push(mb);
        }
    }

    fn averages(&self, name: &str, label: &str) -> String {
        let runs = self.ops.len();
        let (ops, ops_ci) = (mean(&self.ops) as i64, confidence(&self.ops) as i64);
        let mut text = format!("{name} [{label}{runs} runs] : {ops} (± {ops_ci}) ops/sec");
        if self.mb.len() == runs {
            let _ = write!(text, "; {:6.1} (± {:.1}) MB/sec", mean(&self.mb), confidence(&self.mb));
        }
        text
    }

    /// The line after the second and each later run.
    pub fn interim(&self, name: &str, confidence_interval_only: bool) -> Option<String> {
        if self.ops.len() < 2 {
            return None;
        }
        if !confidence_interval_only {
            return Some(self.averages(name, "AVG ") + "\n");
        }
        let (ops, ci) = (mean(&self.ops), confidence(&self.ops));
        let mut text =
            format!("{name} [CI95 {} runs] : ({}, {}) ops/sec", self.ops.len(), (ops - ci) as i64, (ops + ci) as i64);
        if self.mb.len() == self.ops.len() {
            let (mb, ci) = (mean(&self.mb), confidence(&self.mb));
            let _ = write!(text, "; ({:.1}, {:.1}) MB/sec", mb - ci, mb + ci);
        }
        Some(text + "\n")
    }

    /// The two lines after the last run.
    pub fn summary(&self, name: &str, confidence_interval_only: bool) -> Option<String> {
        let interim = self.interim(name, confidence_interval_only)?;
        let first = if confidence_interval_only { interim } else { self.averages(name, "AVG    ") + "\n" };
        let mut text = format!("{first}{name} [MEDIAN {} runs] : {} ops/sec", self.ops.len(), median(&self.ops) as i64);
        if self.mb.len() == self.ops.len() {
            let _ = write!(text, "; {:6.1} MB/sec", median(&self.mb));
        }
        Some(text + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firn_env::ManualClock;

    fn options() -> StatsOptions {
        StatsOptions {
            histogram: false,
            progress_reports: false,
            stats_interval: 0,
            stats_interval_seconds: 0,
            slow_usecs: 1_000_000,
        }
    }

    #[test]
    fn result_lines_have_rocksdbs_form() {
        let manual = Arc::new(ManualClock::new(0));
        let clock: Arc<dyn Clock> = Arc::clone(&manual) as Arc<dyn Clock>;
        let mut one = ThreadStats::new(0, &clock, options(), None, None);
        let mut two = ThreadStats::new(1, &clock, options(), None, None);
        let mut background = ThreadStats::new(2, &clock, options(), None, None);
        background.exclude_from_result();
        one.finished_ops(1000, OpKind::Read);
        one.add_bytes(2 << 20);
        one.add_message("(7 of 1000 found)\n");
        two.finished_ops(1000, OpKind::Read);
        two.add_message("(9 of 1000 found)\n");
        background.finished_ops(77, OpKind::Write);
        manual.advance_micros(1_000_000);
        one.stop();
        two.stop();
        manual.advance_micros(1_000_000);
        background.stop();
        let run = RunStats::merge(&[background, one, two]);
        assert_eq!(
            run.text("readrandom"),
            "readrandom   :    1000.000 micros/op 1000 ops/sec 2.000 seconds 2000 operations;    1.0 MB/s \
             (7 of 1000 found)\n\n"
        );
    }

    #[test]
    fn lines_without_bytes_and_with_histogram() {
        let manual = Arc::new(ManualClock::new(0));
        let clock: Arc<dyn Clock> = Arc::clone(&manual) as Arc<dyn Clock>;
        let mut stats = ThreadStats::new(0, &clock, StatsOptions { histogram: true, ..options() }, None, None);
        manual.advance_micros(3);
        stats.finished_ops(1, OpKind::Other);
        stats.stop();
        let text = RunStats::merge(&[stats]).text("newiterator");
        assert!(text.starts_with(
            "newiterator  :       3.000 micros/op 333333 ops/sec 0.000 seconds 1 operations;\n\
             Microseconds per op:\nCount: 1 Average: 3.0000  StdDev: 0.00\n"
        ));
        assert!(text.ends_with("####################\n\n"), "{text}");
    }

    #[test]
    fn repeats_are_summarised() {
        let repeats = RepeatStats { ops: vec![843_739.0, 854_993.0, 451_222.0], mb: vec![93.3, 94.6, 49.9] };
        let two = RepeatStats { ops: repeats.ops[..2].to_vec(), mb: repeats.mb[..2].to_vec() };
        assert_eq!(
            two.interim("readrandom", false).as_deref(),
            Some("readrandom [AVG 2 runs] : 849366 (± 11028) ops/sec;   93.9 (± 1.3) MB/sec\n")
        );
        let summary = repeats.summary("readrandom", false).expect("three runs");
        let lines: Vec<&str> = summary.lines().collect();
        assert_eq!(lines[0], "readrandom [AVG    3 runs] : 716651 (± 260193) ops/sec;   79.3 (± 28.8) MB/sec");
        assert_eq!(lines[1], "readrandom [MEDIAN 3 runs] : 843739 ops/sec;   93.3 MB/sec");
        assert_eq!(RepeatStats::default().summary("x", false), None);
    }
}
