//! What a process used and how evenly a step went.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use nix::sys::resource::{UsageWho, getrusage};
use serde::{Deserialize, Serialize};

use crate::Fallible;

/// Length of a slice of the throughput over time.
pub const SLICE: Duration = Duration::from_millis(50);

/// Processor time so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Processor {
    pub user_us: i64,
    pub system_us: i64,
}

impl Processor {
    /// That of this process, or of all its children that ended.
    pub fn of(whom: UsageWho) -> Fallible<Self> {
        let usage = getrusage(whom)?;
        let micros = |time: nix::sys::time::TimeVal| time.tv_sec() * 1_000_000 + time.tv_usec();
        Ok(Self { user_us: micros(usage.user_time()), system_us: micros(usage.system_time()) })
    }
}

/// Bytes that a process (`self` or a number) made dirty or wrote directly and did not take back, as the kernel counts
/// them.
pub fn bytes_written(process: &str) -> Fallible<i64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/io"))?;
    let field = |name: &str| -> Fallible<i64> {
        let line =
            text.lines().find_map(|line| line.strip_prefix(name)).ok_or("a field of /proc/<pid>/io is missing")?;
        Ok(line.trim().parse()?)
    };
    Ok(field("write_bytes:")? - field("cancelled_write_bytes:")?)
}

/// Forgets the peak of resident memory, so that the next one is of what follows.
pub fn reset_peak_memory() {
    // Where the kernel does not allow it the peak stays that of the process, which the report can bear.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Peak resident memory of a process (`self` or a number) since the last reset, in bytes.
pub fn peak_memory(process: &str) -> Fallible<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<u64>()? * 1024)
}

/// Bytes that a directory takes on disk. Files that vanish meanwhile count nothing.
pub fn space(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(data) if data.is_dir() => space(&entry.path()),
        Ok(data) => data.blocks() * 512,
        Err(_) => 0,
    };
    entries.filter_map(Result::ok).map(size).sum()
}

/// Writes back what is dirty in the file system of a path, so that the next step does not pay for it.
pub fn write_back(path: &Path) -> Fallible<()> {
    Ok(nix::unistd::syncfs(std::fs::File::open(path)?)?)
}

/// Latencies of operations, in nanoseconds.
pub fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 600_000_000_000, 3).expect("the bounds are valid")
}

/// Operations done by one thread of a step; one counter a thread, each in lines of its own.
#[derive(Default)]
#[repr(align(128))]
pub struct Progress(AtomicU64);

impl Progress {
    pub fn set(&self, done: u64) {
        self.0.store(done, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Operations in each whole slice of a step.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Timeline {
    pub slices: Vec<u64>,
}

impl Timeline {
    /// Share of the slices with less than a tenth of the median slice's operations, in percent.
    pub fn stall_percent(&self) -> f64 {
        let mut sorted = self.slices.clone();
        sorted.sort_unstable();
        let Some(&median) = sorted.get(sorted.len() / 2) else { return 0.0 };
        let slow = self.slices.iter().filter(|&&done| done * 10 < median).count();
        100.0 * slow as f64 / self.slices.len() as f64
    }
}

/// Watches the counters of a step from a thread of its own until it is told to stop and unparked.
pub struct Watch<'a> {
    pub counters: &'a [Progress],
    pub done: &'a AtomicBool,
}

impl Watch<'_> {
    /// Operations by slice. The last one, which is not whole, is left out.
    pub fn run(self) -> Timeline {
        let mut slices = Vec::new();
        let mut last = 0;
        let mut next = Instant::now() + SLICE;
        while !self.done.load(Ordering::Relaxed) {
            let now = Instant::now();
            if now < next {
                std::thread::park_timeout(next - now);
                continue;
            }
            next += SLICE;
            let sum = self.counters.iter().map(Progress::get).sum();
            slices.push(sum - last);
            last = sum;
        }
        Timeline { slices }
    }
}

/// A span of time since the start of a step, in nanoseconds.
pub type Span = (u64, u64);

/// Times that are in a span of both lists; spans of a list are in order and apart.
fn common(ours: &[Span], theirs: &[Span]) -> Vec<Span> {
    let (mut spans, mut one, mut other) = (Vec::new(), 0, 0);
    while let (Some(&(start, end)), Some(&(their_start, their_end))) = (ours.get(one), theirs.get(other)) {
        let both = (start.max(their_start), end.min(their_end));
        if both.0 < both.1 {
            spans.push(both);
        }
        if end < their_end { one += 1 } else { other += 1 }
    }
    spans
}

/// The longest span that lies in operations of all threads; none without threads.
pub fn longest_common_span(threads: &[Vec<Span>]) -> Option<u64> {
    let (first, rest) = threads.split_first()?;
    let all = rest.iter().fold(first.clone(), |spans, thread| common(&spans, thread));
    all.iter().map(|(start, end)| end - start).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_progress_is_when_all_threads_wait() {
        let one = vec![(0, 10), (20, 40)];
        let two = vec![(5, 8), (9, 25), (30, 50)];
        assert_eq!(common(&one, &two), [(5, 8), (9, 10), (20, 25), (30, 40)]);
        assert_eq!(longest_common_span(&[one.clone(), two]), Some(10));
        assert_eq!(longest_common_span(&[one, vec![(10, 20)]]), None);
        assert_eq!(longest_common_span(&[]), None);
    }

    #[test]
    fn slices_far_below_the_median_are_stalls() {
        let timeline = Timeline { slices: vec![100, 100, 9, 100, 11] };
        assert!((timeline.stall_percent() - 20.0).abs() < 1e-9);
    }
}
