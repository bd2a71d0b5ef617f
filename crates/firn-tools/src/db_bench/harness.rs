//! Runs one benchmark's method on its threads and merges what they measured.
//!
//! All workers start together. Each has its own random stream (seed of the process + the number of the thread among
//! all threads the process has started, so that no two streams repeat), its own measurements and its own walk over
//! the values. A method that fails ends the process, as RocksDB's tool does: its figures would mean nothing.

use std::sync::Arc;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use firn_env::{Clock, thread};

use super::engine::OpenDb;
use super::limit::{Pacer, RunLimit};
use super::random::MersenneTwister64;
use super::report::ReportAgent;
use super::run::Bench;
use super::setup::Setup;
use super::stats::{IntervalText, RunStats, StatsOptions, ThreadStats};
use super::values::{ValuePool, ValueSource};

/// Why a benchmark cannot go on; the text goes to stderr.
#[derive(Debug)]
pub struct Failure(pub String);

impl Failure {
    /// `{what}: {error}`.
    pub fn new(what: &str, error: &firn_error::Error) -> Self {
        Self(format!("{what}: {error}"))
    }
}

/// The body of a benchmark, run by every worker.
pub type Method = fn(&mut Worker<'_>) -> Result<(), Failure>;

/// What the workers of one run share.
pub struct Job<'b> {
    /// The whole tool: flags, databases, clock.
    pub bench: &'b Bench,
    /// This benchmark's settings.
    pub setup: &'b Setup,
    /// Workers, the background one included.
    pub workers: usize,
    /// Limits writes to a number of bytes per second.
    pub write_pacer: Option<Pacer>,
    /// Limits the background writer.
    pub background_pacer: Option<Pacer>,
    /// Limits reads to a number of operations per second.
    pub read_pacer: Option<Pacer>,
    /// The clock of `timeseries`: moved by its writer.
    pub time: AtomicU64,
    finished: AtomicUsize,
}

/// One thread of a run.
pub struct Worker<'j> {
    /// Number of the thread in its run, from 0.
    pub tid: usize,
    /// Draws keys and choices.
    pub random: MersenneTwister64,
    /// Counts.
    pub stats: ThreadStats,
    /// What is shared.
    pub job: &'j Job<'j>,
    /// Makes values.
    pub values: ValueSource,
}

impl<'j> Worker<'j> {
    /// The clock of the measurements.
    pub fn clock(&self) -> &'j Arc<dyn Clock> {
        self.job.bench.env.clock()
    }

    /// A limit of `ops` operations, or of `--duration` when that is given and `timed` allows it.
    pub fn limit(&self, ops: u64, timed: bool) -> RunLimit {
        let flags = &self.job.bench.flags;
        let seconds = if timed { flags.duration } else { 0 };
        RunLimit::new(self.clock(), seconds, ops, flags.ops_between_duration_checks)
    }

    /// Picks the database of the next operation. One draw is spent even when there is only one.
    #[inline]
    pub fn select_db(&mut self) -> &'j OpenDb {
        let draw = self.random.draw();
        let databases = self.job.bench.engine.databases();
        &databases[(draw % databases.len() as u64) as usize]
    }

    /// Writes the key of `value` in a key space of `num` into `out`.
    #[inline]
    pub fn fill_key(&self, value: u64, num: u64, out: &mut Vec<u8>) {
        match &self.job.bench.existing_keys {
            Some(keys) => {
                out.clear();
                out.extend_from_slice(&keys[(value % keys.len() as u64) as usize]);
            }
            None => {
                out.resize(self.job.setup.keys.key_size, 0);
                self.job.setup.keys.fill(value, num, out);
            }
        }
    }

    /// Whether a worker has ended.
    #[inline]
    pub fn any_is_done(&self) -> bool {
        self.job.finished.load(Ordering::Relaxed) > 0
    }

    /// Whether all other workers have ended.
    #[inline]
    pub fn others_are_done(&self) -> bool {
        self.job.finished.load(Ordering::Relaxed) + 1 >= self.job.workers
    }
}

fn stats_options(bench: &Bench) -> StatsOptions {
    let flags = &bench.flags;
    let seconds = u64::try_from(flags.stats_interval_seconds).unwrap_or(0);
    // With an interval in seconds, the clock is looked at every thousand operations.
    let interval = if seconds > 0 { 1000 } else { u64::try_from(flags.stats_interval).unwrap_or(0) };
    StatsOptions {
        histogram: flags.histogram,
        progress_reports: flags.progress_reports,
        stats_interval: interval,
        stats_interval_seconds: seconds,
        slow_usecs: flags.slow_usecs,
    }
}

/// Runs `method` on all threads of `setup` and returns the merged measurements.
///
/// # Errors
/// The first failure of a worker, or of the CSV report.
pub fn run(bench: &Bench, setup: &Setup, method: Method) -> Result<RunStats, Failure> {
    let flags = &bench.flags;
    let workers = setup.threads + usize::from(setup.background);
    let clock = bench.env.clock();
    let job = Job {
        bench,
        setup,
        workers,
        write_pacer: Pacer::new(clock, flags.benchmark_write_rate_limit),
        background_pacer: Pacer::new(clock, flags.benchmark_write_rate_limit),
        read_pacer: Pacer::new(clock, flags.benchmark_read_rate_limit),
        time: AtomicU64::new(0),
        finished: AtomicUsize::new(0),
    };
    let agent = match u64::try_from(flags.report_interval_seconds).unwrap_or(0) {
        0 => None,
        seconds => Some(
            ReportAgent::start(&bench.env, flags.report_file.as_ref(), seconds)
                .map_err(|error| Failure::new("report file", &error))?,
        ),
    };
    let pool = ValuePool::new(flags.compression_ratio, setup.sizes.max());
    let interval_text: Option<IntervalText> = bench.interval_text();
    let start = Barrier::new(workers);
    let results: Vec<(ThreadStats, Result<(), Failure>)> = thread::scope(|scope| {
        let handles: Vec<_> = (0..workers)
            .map(|tid| {
                let seed = bench.next_thread_seed();
                let (job, start) = (&job, &start);
                let values = pool.source(
                    setup.sizes,
                    u32::try_from(flags.same_value_percentage).unwrap_or(0),
                    clock.now_nanos() ^ seed.rotate_left(32),
                );
                let counter = agent.as_ref().map(ReportAgent::counter);
                let interval_text = interval_text.clone();
                scope.spawn(move || {
                    let random = MersenneTwister64::new(seed);
                    start.wait();
                    let stats = ThreadStats::new(tid, clock, stats_options(bench), counter, interval_text);
                    let mut worker = Worker { tid, random, stats, job, values };
                    let counting = super::engine::start_perf_context(flags.perf_level);
                    let result = method(&mut worker);
                    worker.stats.stop();
                    if counting {
                        let counters = super::engine::perf_context_text();
                        worker.stats.add_message(&format!("PERF_CONTEXT:\n{counters}"));
                    }
                    job.finished.fetch_add(1, Ordering::Relaxed);
                    if let Err(failure) = &result {
                        // The other workers may run for hours yet.
                        eprintln!("{}", failure.0);
                        std::process::exit(1);
                    }
                    (worker.stats, result)
                })
            })
            .collect();
        handles
            .into_iter()
            .map(|handle| match handle.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    });
    if let Some(agent) = agent {
        agent.stop().map_err(|error| Failure::new("report file", &error))?;
    }
    let mut stats = Vec::with_capacity(results.len());
    for (thread_stats, result) in results {
        result?;
        stats.push(thread_stats);
    }
    Ok(RunStats::merge(&stats))
}
