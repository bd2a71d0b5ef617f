//! Random operations under random options against a model: every answer must be the same.
//!
//! One seed is one life of one database: writes of all kinds, reads, iterators, snapshots, flushes, compactions, column families
//! that come and go, and reopening after a clean close, after a drop without close, and from a copy taken while the
//! database was open (what a killed process leaves). A failure prints the seed, the options and the last operations;
//! `FIRN_MODEL_SEED=<seed>` runs that life alone. `FIRN_MODEL_SECONDS` sets how long new seeds are drawn (default 40).

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test fails by panicking, and is a crate of its own")]

#[path = "../common/mod.rs"]
mod common;
mod life;
mod reference;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use firn_env::entropy::{Entropy, SystemEntropy};
use firn_env::sync::Mutex;
use firn_env::{Clock, SystemClock, thread};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

/// The operation that a worker is at, for lives that hang.
pub type Status = Arc<Mutex<String>>;

/// Seconds that a single operation may take before the life counts as hung.
const HUNG_SECONDS: u64 = 120;

/// One life; what went wrong, if anything did.
fn run(seed: u64, status: &Status) -> Result<(), String> {
    let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| life::live(seed, Arc::clone(status))));
    let text = match outcome {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(text)) => text,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
        }
    };
    Err(format!("seed {seed}: {text}\nreplay with FIRN_MODEL_SEED={seed}"))
}

#[test]
fn the_store_answers_like_the_model() {
    if let Some(seed) = number("FIRN_MODEL_SEED") {
        let repeats = number("FIRN_MODEL_REPEATS").unwrap_or(1);
        (0..repeats).for_each(|_| run(seed, &Status::default()).unwrap_or_else(|text| panic!("{text}")));
        return;
    }
    let seconds = number("FIRN_MODEL_SECONDS").unwrap_or(40);
    let clock = Arc::new(SystemClock::new());
    let end = clock.now_nanos() + seconds * 1_000_000_000;
    let next = Arc::new(AtomicU64::new(SystemEntropy.next_u64() >> 20));
    let failed = Arc::new(AtomicBool::new(false));
    println!("first seed {}, {seconds} s", next.load(Ordering::SeqCst));
    let workers: Vec<_> = (0..2)
        .map(|worker| {
            let (clock, next, failed) = (Arc::clone(&clock), Arc::clone(&next), Arc::clone(&failed));
            let status = Status::default();
            let shown = Arc::clone(&status);
            let body = move || -> Result<u64, String> {
                let mut lives = 0;
                while clock.now_nanos() < end && !failed.load(Ordering::SeqCst) {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    run(seed, &status).inspect_err(|_| failed.store(true, Ordering::SeqCst))?;
                    lives += 1;
                }
                Ok(lives)
            };
            (thread::spawn(format!("model{worker}"), body).unwrap(), shown)
        })
        .collect();
    let mut last = vec![(String::new(), clock.now_nanos()); workers.len()];
    while !workers.iter().all(|(worker, _)| worker.is_finished()) {
        clock.sleep_micros(100_000);
        for ((worker, status), (text, since)) in workers.iter().zip(&mut last) {
            let now = status.lock().clone();
            if now != *text {
                (*text, *since) = (now, clock.now_nanos());
            }
            let hung = !worker.is_finished() && clock.now_nanos() - *since > HUNG_SECONDS * 1_000_000_000;
            assert!(!hung, "hung for {HUNG_SECONDS} s: {text}");
        }
    }
    let outcomes: Vec<_> = workers.into_iter().map(|(worker, _)| worker.join().unwrap()).collect();
    let failures: Vec<&str> =
        outcomes.iter().filter_map(|outcome| outcome.as_ref().err().map(String::as_str)).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    println!("{} lives", outcomes.into_iter().flatten().sum::<u64>());
}
