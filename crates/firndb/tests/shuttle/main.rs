//! Models under shuttle's scheduler: small programs whose every interleaving of locks, atomics, conditions and threads may
//! come up, drawn at random and by priorities (PCT), with seeds that give the same schedules again.
//!
//! ```text
//! cargo test -p firndb --features shuttle --test shuttle                                   the short form
//! FIRN_SHUTTLE_ROUNDS=100 cargo test --release -p firndb --features shuttle --test shuttle   a hundred times as much
//! FIRN_SHUTTLE_REPLAY=<schedule> cargo test … --test shuttle -- <model>                    one failure again
//! ```
//!
//! A failure prints its schedule. Orderings weaker than sequential consistency are Miri's and ThreadSanitizer's to find.
#![allow(clippy::unwrap_used, reason = "a model fails by panicking")]

mod cache;
mod engine;
mod memtable;
mod write_group;

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, MaxSteps, Runner};

/// How deep a bug may lie that the schedules by priorities find with their guaranteed probability: the number of
/// scheduling constraints it takes.
const PCT_DEPTH: usize = 3;

/// Explores `model` under `schedules` random schedules and as many by priorities, times `FIRN_SHUTTLE_ROUNDS`.
fn explore(model: fn(), schedules: usize) {
    if let Ok(schedule) = std::env::var("FIRN_SHUTTLE_REPLAY") {
        return shuttle::replay(model, &schedule);
    }
    let rounds: usize = std::env::var("FIRN_SHUTTLE_ROUNDS").map_or(1, |text| text.parse().unwrap());
    let seed: u64 = std::env::var("FIRN_SHUTTLE_SEED").map_or(1, |text| text.parse().unwrap());
    let schedules = schedules * rounds;
    run(model, RandomScheduler::new_from_seed(seed, schedules));
    run(model, PctScheduler::new_from_seed(seed, PCT_DEPTH, schedules));
    println!("{} schedules of seed {seed}, half of them by priorities of depth {PCT_DEPTH}", 2 * schedules);
}

fn run(model: fn(), scheduler: impl Scheduler + 'static) {
    let mut config = Config::new();
    config.stack_size = 1 << 20;
    config.silence_warnings = true;
    // A schedule that goes on for ever is a failure: somebody spins for what does not come.
    config.max_steps = MaxSteps::FailAfter(2_000_000);
    Runner::new(scheduler, config).run(model);
}

#[test]
fn memtable_inserts_and_reads() {
    explore(memtable::inserts_and_reads, 1000);
}

#[test]
fn write_groups_by_the_leader() {
    explore(write_group::by_leader, 1500);
}

#[test]
fn write_groups_by_members() {
    explore(write_group::by_members, 1500);
}

#[test]
fn write_groups_that_fail() {
    explore(write_group::failing, 1500);
}

#[test]
fn write_groups_and_stalls() {
    explore(write_group::stalls, 1500);
}

#[test]
fn super_versions_change_hands() {
    explore(firndb::models::super_versions_change_hands, 1500);
}

#[test]
fn block_cache_holds_and_evicts() {
    explore(cache::holds_and_evicts, 600);
}

#[test]
fn engine_writes_flushes_and_reads() {
    explore(engine::writes_flushes_and_reads, 25);
}

#[test]
fn engine_switches_logs_under_writers() {
    explore(engine::switches_logs_under_writers, 25);
}
