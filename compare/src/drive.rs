//! Runs one step on one store: the same loops for all.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use nix::sys::resource::UsageWho;

use crate::Fallible;
use crate::keys::{ENTRY_BYTES, Key, Values, key};
use crate::measure::{self, Processor, Progress, Span, Watch};
use crate::outcome::Outcome;
use crate::plain::PlainFiles;
use crate::scenario::{Count, Step, Work};
use crate::stores::{Direction, Store};

/// What all steps of a run share.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Keys in the database.
    pub num: u64,
    /// Reads in each reading step, per thread.
    pub reads: u64,
}

/// An open store and where its files are.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    pub store: &'a dyn Store,
    pub path: &'a Path,
}

/// What a thread of a step found.
struct Part {
    operations: u64,
    entries: u64,
    latencies: Option<Histogram<u64>>,
    /// Operations that took longer than `SLOW`.
    slow: Vec<Span>,
}

/// Streams of inserts lie this far apart.
const STREAM_GAP: u64 = 1 << 40;
/// Shorter operations cannot be what makes a step stand still.
const SLOW: Duration = Duration::from_millis(1);

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The step's clock and this thread's counter.
#[derive(Clone, Copy)]
struct Lap<'a> {
    start: Instant,
    progress: &'a Progress,
}

impl Lap<'_> {
    /// One thread's loop: `operation` is called with the number of the operation and says how many entries it met.
    fn repeat(self, count: u64, mut operation: impl FnMut(u64) -> Fallible<u64>) -> Fallible<Part> {
        let mut latencies = measure::new_histogram();
        let mut slow = Vec::new();
        let mut entries = 0;
        let mut last = Instant::now();
        for number in 0..count {
            entries += operation(number)?;
            // One reading of the clock an operation: the end of one is the start of the next.
            let now = Instant::now();
            let took = now - last;
            latencies.saturating_record(nanos(took));
            if took > SLOW {
                slow.push((nanos(last - self.start), nanos(now - self.start)));
            }
            last = now;
            self.progress.set(number + 1);
        }
        // From here on this thread holds up nobody.
        slow.push((nanos(last - self.start), u64::MAX));
        Ok(Part { operations: count, entries, latencies: Some(latencies), slow })
    }
}

fn share(total: u64, threads: usize, thread: usize) -> u64 {
    let (threads, thread) = (threads as u64, thread as u64);
    total * (thread + 1) / threads - total * thread / threads
}

/// One thread of a step.
fn work(at: Place<'_>, step: &Step, thread: usize, scale: Scale, seed: u64, lap: Lap<'_>) -> Fallible<Part> {
    let store = at.store;
    let mut random = fastrand::Rng::with_seed(seed ^ (thread as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut values = Values::new(random.u64(..));
    let total = match step.count {
        Count::Keys(keys) => share(keys, step.threads, thread),
        Count::Reads(part) => scale.reads / part,
    };
    let num = scale.num;
    let inner = match &step.work {
        Work::WhileWriting(inner, _) => inner,
        other => other,
    };
    match inner {
        Work::FillSequential => lap.repeat(total, |number| store.put(&key(number), values.next(), false).map(|()| 1)),
        Work::FillRandom => lap.repeat(total, |_| store.put(&key(random.u64(..num)), values.next(), false).map(|()| 1)),
        Work::FillSync => lap.repeat(total, |_| store.put(&key(random.u64(..num)), values.next(), true).map(|()| 1)),
        Work::Streams(streams) => lap.repeat(total, |number| {
            let (stream, place) = (number % streams, number / streams);
            store.put(&key(stream * STREAM_GAP + place), values.next(), false).map(|()| 1)
        }),
        Work::ReadRandom => lap.repeat(total, |_| Ok(u64::from(store.get(&key(random.u64(..num)))?.is_some()))),
        Work::MultiRead(batch) => {
            let mut keys: Vec<Key> = Vec::with_capacity(*batch);
            let mut part = lap.repeat(total / *batch as u64, |_| {
                keys.clear();
                keys.extend((0..*batch).map(|_| key(random.u64(..num))));
                Ok(store.multi_get(&keys)? as u64)
            })?;
            part.operations *= *batch as u64;
            Ok(part)
        }
        Work::Seek { nexts, direction } => {
            lap.repeat(total, |_| Ok(store.scan(Some(&key(random.u64(..num))), nexts + 1, *direction)? as u64))
        }
        Work::PlainReads(bytes) => {
            let files = PlainFiles::open(at.path, *bytes)?;
            let mut buffer = files.buffer();
            lap.repeat(total, |_| files.read(&mut random, &mut buffer).map(|()| 1))
        }
        Work::Scan(direction) => walk(store, total, *direction),
        Work::Flush => at_once(0, || store.flush()),
        Work::CompactAll => at_once(total, || store.compact_all()),
        Work::CompactTo(level) => at_once(total, || store.compact_to(*level)),
        Work::MergeDown(level) => at_once(total, || store.merge_down(*level)),
        Work::WhileWriting(..) => Err("a step that writes beside cannot hold another one".into()),
    }
}

/// Walks over everything at once; what a database holds may be less than `limit`.
fn walk(store: &dyn Store, limit: u64, direction: Direction) -> Fallible<Part> {
    let seen = store.scan(None, usize::try_from(limit)?, direction)? as u64;
    Ok(Part { operations: seen.max(1), entries: seen, latencies: None, slow: Vec::new() })
}

/// One call that works on so many entries.
fn at_once(entries: u64, call: impl FnOnce() -> Fallible<()>) -> Fallible<Part> {
    call()?;
    Ok(Part { operations: entries.max(1), entries, latencies: None, slow: Vec::new() })
}

/// Writes random keys at a rate until told to stop; how many.
fn write_beside(store: &dyn Store, rate: u64, num: u64, seed: u64, done: &AtomicBool) -> Fallible<u64> {
    let mut random = fastrand::Rng::with_seed(!seed);
    let mut values = Values::new(seed);
    let start = Instant::now();
    let mut written = 0;
    while !done.load(Ordering::Relaxed) {
        let due = (start.elapsed().as_secs_f64() * rate as f64) as u64;
        while written < due && !done.load(Ordering::Relaxed) {
            store.put(&key(random.u64(..num)), values.next(), false)?;
            written += 1;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(written)
}

/// What all threads of a step came to.
struct Together {
    parts: Vec<Part>,
    /// Entries of the writer beside.
    beside: u64,
    timeline: measure::Timeline,
}

fn run_threads(at: Place<'_>, step: &Step, scale: Scale, seed: u64, start: Instant) -> Fallible<(Together, f64)> {
    let counters: Vec<Progress> = (0..step.threads).map(|_| Progress::default()).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = Watch { counters: &counters, done: &done };
        let watch = scope.spawn(move || watch.run());
        let writer = match &step.work {
            Work::WhileWriting(_, rate) => {
                let (rate, done) = (*rate, &done);
                Some(scope.spawn(move || write_beside(at.store, rate, scale.num, seed, done)))
            }
            _ => None,
        };
        let threads: Vec<_> = counters
            .iter()
            .enumerate()
            .map(|(thread, progress)| scope.spawn(move || work(at, step, thread, scale, seed, Lap { start, progress })))
            .collect();
        let parts: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        let seconds = start.elapsed().as_secs_f64();
        // Set whatever happened, or the watch would never end.
        done.store(true, Ordering::Relaxed);
        watch.thread().unpark();
        let beside = writer.map_or(Ok(0), |writer| writer.join().map_err(|_| "the writer died")?)?;
        let timeline = watch.join().map_err(|_| "the watch died")?;
        let parts = parts.into_iter().map(|part| part.map_err(|_| "a thread of the step died")?);
        Ok((Together { parts: parts.collect::<Fallible<_>>()?, beside, timeline }, seconds))
    })
}

/// The longest time in which no thread finished an operation. Below `SLOW` it is not looked for: the smallest of the
/// threads' longest operations bounds it.
fn no_progress_ms(parts: &[Part]) -> Option<f64> {
    let longest = parts.iter().map(|part| part.latencies.as_ref().map(|list| list.max())).min()??;
    let last = parts.iter().filter_map(|part| Some(part.slow.last()?.0)).max()?;
    let cut = |span: &Span| (span.0 < last).then_some((span.0, span.1.min(last)));
    let spans: Vec<Vec<Span>> = parts.iter().map(|part| part.slow.iter().filter_map(cut).collect()).collect();
    Some(measure::longest_common_span(&spans).unwrap_or(longest.min(nanos(SLOW))) as f64 / 1e6)
}

/// Runs a step and measures it. Background work that it leaves is waited for, so that no other store's step meets it;
/// whether the clock waits too is the step's. Tables are not counted here.
pub fn run(at: Place<'_>, step: &Step, scale: Scale, seed: u64, live: &mut Live) -> Fallible<Outcome> {
    let Place { store, path } = at;
    measure::reset_peak_memory();
    let processor = Processor::of(UsageWho::RUSAGE_SELF)?;
    let device = measure::bytes_written("self")?;
    let start = Instant::now();
    let (Together { parts, beside, timeline }, mut seconds) = run_threads(at, step, scale, seed, start)?;
    if step.to_the_end {
        store.flush()?;
    }
    store.settle()?;
    let settled_seconds = start.elapsed().as_secs_f64();
    if step.to_the_end {
        seconds = settled_seconds;
    }
    let used = Processor::of(UsageWho::RUSAGE_SELF)?;
    let mut latencies: Option<Histogram<u64>> = None;
    for part in &parts {
        if let Some(list) = &part.latencies {
            latencies.get_or_insert_with(measure::new_histogram).add(list)?;
        }
    }
    let operations: u64 = parts.iter().map(|part| part.operations).sum();
    let puts = beside + if step.work.puts() { operations } else { 0 };
    live.put(&step.work, scale.num, puts);
    let quantiles = [0.5, 0.99, 0.999, 0.9999, 1.0];
    let curve = |list: &Histogram<u64>| {
        let quantiles = (0..=60).map(|step| 1.0 - 10f64.powf(-f64::from(step) / 10.0));
        quantiles.map(|quantile| (quantile, list.value_at_quantile(quantile))).collect()
    };
    Ok(Outcome {
        operations,
        entries: parts.iter().map(|part| part.entries).sum(),
        seconds,
        settled_seconds,
        user_us: used.user_us - processor.user_us,
        system_us: used.system_us - processor.system_us,
        latency_ns: latencies.as_ref().map(|list| quantiles.map(|quantile| list.value_at_quantile(quantile))),
        curve: latencies.as_ref().map(curve).unwrap_or_default(),
        no_progress_ms: no_progress_ms(&parts),
        timeline,
        device_bytes: measure::bytes_written("self")? - device,
        table_bytes: None,
        user_bytes: puts * ENTRY_BYTES,
        space_bytes: measure::space(path),
        live_bytes: (live.entries * ENTRY_BYTES as f64) as u64,
        peak_memory_bytes: measure::peak_memory("self")?,
        shape: store.shape(),
    })
}

/// How many different keys a database holds, as expected for random ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct Live {
    entries: f64,
}

impl Live {
    fn put(&mut self, work: &Work, num: u64, puts: u64) {
        let (num, puts) = (num as f64, puts as f64);
        match work {
            Work::FillSequential | Work::Streams(_) => self.entries = self.entries.max(puts),
            // Each of the absent keys stays absent with probability (1 - 1/num)^puts.
            _ => self.entries = num - (num - self.entries).max(0.0) * (-puts / num).exp(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_puts_leave_gaps() {
        let mut live = Live::default();
        live.put(&Work::FillRandom, 1000, 1000);
        assert!((live.entries - 632.1).abs() < 0.1, "{}", live.entries);
        live.put(&Work::FillSequential, 1000, 1000);
        assert_eq!(live.entries, 1000.0);
        live.put(&Work::FillRandom, 1000, 500);
        assert_eq!(live.entries, 1000.0);
        live.put(&Work::ReadRandom, 1000, 0);
        assert_eq!(live.entries, 1000.0);
    }

    #[test]
    fn shares_add_up() {
        assert_eq!((0..4).map(|thread| share(10, 4, thread)).sum::<u64>(), 10);
    }

    #[test]
    fn a_thread_that_ended_does_not_stand_still() {
        let part = |slow: &[Span]| {
            let mut latencies = measure::new_histogram();
            latencies.saturating_record(50_000_000);
            Part { operations: 1, entries: 1, latencies: Some(latencies), slow: slow.to_vec() }
        };
        // Both wait together for 2 ms; then the first one alone is left, and it waits for 29 ms.
        let parts = [
            part(&[(10_000_000, 14_000_000), (20_000_000, 50_000_000), (50_000_000, u64::MAX)]),
            part(&[(12_000_000, 19_000_000), (21_000_000, u64::MAX)]),
        ];
        assert_eq!(no_progress_ms(&parts), Some(29.0));
        let parts = [part(&[(10_000_000, 14_000_000), (50_000_000, u64::MAX)]), part(&[(50_000_000, u64::MAX)])];
        assert_eq!(no_progress_ms(&parts), Some(1.0));
    }
}
