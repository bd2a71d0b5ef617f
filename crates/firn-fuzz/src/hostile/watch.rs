//! Many mutants one after the other, under a limit of time and of memory.
//!
//! Numbers flow in, figures and what must not be flow out. Mutants run on a thread of their own; one that takes too long is
//! reported and left behind, and another thread goes on. Panics are caught wherever they happen.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firn_env::posix::PosixFileSystem;
use firn_env::{Clock, SystemClock, read_file, thread};

use super::drive::{Outcome, drive};
use super::mutant;
use super::seeds::Image;

/// What a mutant may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Seconds for one mutant.
    pub seconds: u64,
    /// Resident memory of the process.
    pub memory_bytes: u64,
}

/// What came of many mutants.
#[derive(Debug, Default)]
pub struct Figures {
    /// Mutants that ran to their end.
    pub runs: u64,
    /// Those that opened for reading, for writing, that were read whole, and that were repaired.
    pub opened_for_reading: u64,
    /// See above.
    pub opened_for_writing: u64,
    /// See above.
    pub scanned: u64,
    /// See above.
    pub repaired: u64,
    /// The mutant that took longest, and its microseconds.
    pub slowest: (u64, u64),
    /// The most memory the process had.
    pub memory_bytes: u64,
    /// What must not be, with the number of the mutant and what was changed.
    pub violations: Vec<(u64, String)>,
}

impl Figures {
    fn add(&mut self, number: u64, micros: u64, outcome: Outcome) {
        self.runs += 1;
        self.opened_for_reading += u64::from(outcome.opened.0);
        self.opened_for_writing += u64::from(outcome.opened.1);
        self.scanned += u64::from(outcome.scanned);
        self.repaired += u64::from(outcome.repaired);
        if micros > self.slowest.1 {
            self.slowest = (number, micros);
        }
        self.violations.extend(outcome.violations.into_iter().map(|what| (number, what)));
    }
}

static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn take_panics() -> Vec<String> {
    PANICS.lock().map(|mut panics| std::mem::take(&mut *panics)).unwrap_or_default()
}

/// Collects panics in place of printing them; also those that the engine makes errors of.
fn collect_panics() {
    std::panic::set_hook(Box::new(|info| {
        if let Ok(mut panics) = PANICS.lock() {
            panics.push(info.to_string());
        }
    }));
}

/// The most memory that the process had resident.
fn most_memory() -> u64 {
    let status = read_file(&PosixFileSystem::new(), Path::new("/proc/self/status"), 1 << 16).unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.trim().split(' ').next()).and_then(|text| text.parse::<u64>().ok());
    kibibytes.unwrap_or_default() * 1024
}

/// Runs one mutant; what panics is a violation.
pub fn run_one(databases: &[Image], number: u64) -> (Outcome, Vec<String>) {
    let mut changes = Vec::new();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut mutant = mutant(databases, number);
        changes = std::mem::take(&mut mutant.changes);
        drive(&mut mutant)
    }));
    let mut outcome = outcome.unwrap_or_default();
    outcome.violations.extend(take_panics());
    (outcome, changes)
}

/// What the watching thread knows of the one that works.
struct Work {
    databases: Arc<Vec<Image>>,
    next: AtomicU64,
    end: u64,
    /// The mutant at hand, and since when it is.
    number: AtomicU64,
    since_micros: AtomicU64,
    /// Threads with an older number were left behind.
    generation: AtomicU64,
}

struct Done {
    number: u64,
    micros: u64,
    outcome: Outcome,
    changes: Vec<String>,
    memory_bytes: Option<u64>,
}

fn work(work: &Work, generation: u64, done: &Sender<Done>) {
    let clock = SystemClock::new();
    loop {
        let number = work.next.fetch_add(1, Ordering::SeqCst);
        if number >= work.end {
            return;
        }
        let start = clock.now_micros();
        work.number.store(number, Ordering::SeqCst);
        work.since_micros.store(start, Ordering::SeqCst);
        let (outcome, changes) = run_one(&work.databases, number);
        let micros = clock.now_micros().saturating_sub(start);
        if work.generation.load(Ordering::SeqCst) != generation {
            return;
        }
        let memory_bytes = (micros > 20_000 || number.is_multiple_of(16)).then(most_memory);
        if done.send(Done { number, micros, outcome, changes, memory_bytes }).is_err() {
            return;
        }
    }
}

/// Runs the mutants of these numbers. `progress` is called now and then.
pub fn run(databases: Vec<Image>, numbers: Range<u64>, limits: Limits, progress: &mut dyn FnMut(&Figures)) -> Figures {
    collect_panics();
    let clock = SystemClock::new();
    let shared = Arc::new(Work {
        databases: Arc::new(databases),
        next: AtomicU64::new(numbers.start),
        end: numbers.end,
        number: AtomicU64::new(u64::MAX),
        since_micros: AtomicU64::new(u64::MAX),
        generation: AtomicU64::new(0),
    });
    let mut figures = Figures::default();
    for generation in 0.. {
        let (send, receive) = channel();
        let worker = Arc::clone(&shared);
        shared.since_micros.store(u64::MAX, Ordering::SeqCst);
        shared.generation.store(generation, Ordering::SeqCst);
        let _ = thread::spawn("mutants", move || work(&worker, generation, &send));
        loop {
            match receive.recv_timeout(Duration::from_secs(1)) {
                Ok(done) => {
                    let found = done.outcome.violations.len();
                    let options = done.outcome.options.clone();
                    figures.add(done.number, done.micros, done.outcome);
                    let last = figures.violations.len();
                    for (_, what) in figures.violations.iter_mut().skip(last - found) {
                        *what = format!("{what} ({options}) [{}]", done.changes.join(" | "));
                    }
                    if let Some(bytes) = done.memory_bytes.filter(|bytes| *bytes > figures.memory_bytes) {
                        figures.memory_bytes = bytes;
                        if bytes > limits.memory_bytes {
                            let what = format!("{bytes} bytes of memory [{}]", done.changes.join(" | "));
                            figures.violations.push((done.number, what));
                        }
                    }
                    if figures.runs % 500 == 0 {
                        progress(&figures);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return figures,
                Err(RecvTimeoutError::Timeout) => {
                    let since = shared.since_micros.load(Ordering::SeqCst);
                    if clock.now_micros().saturating_sub(since) > limits.seconds * 1_000_000 {
                        let number = shared.number.load(Ordering::SeqCst);
                        let changes = mutant(&shared.databases, number).changes;
                        let what = format!("takes more than {} s [{}]", limits.seconds, changes.join(" | "));
                        figures.violations.push((number, what));
                        progress(&figures);
                        break;
                    }
                }
            }
        }
    }
    figures
}
