//! The fuzz targets without a fuzzer: inputs that once failed, all seeds, and random damage to seeds for a while.
//!
//! `FIRN_FUZZ_SECONDS` is the time that mutation takes over all targets (3 by default); `FIRN_FUZZ_TARGET` names the only
//! target to run. Inputs are drawn by a generator with a fixed seed, so a failure comes back; it is also printed in hex.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use firn_env::posix::PosixFileSystem;
use firn_env::{Clock, FileSystem, SystemClock, read_file};
use firn_fuzz::mutate::mutate;
use firn_fuzz::seeds::Golden;
use firn_fuzz::{TARGETS, Target};
use rand::{Rng, SeedableRng, rngs::StdRng};

fn targets() -> Vec<&'static Target> {
    let only = std::env::var("FIRN_FUZZ_TARGET").ok();
    let chosen: Vec<_> =
        TARGETS.iter().filter(|target| only.as_deref().is_none_or(|only| only == target.name)).collect();
    assert!(!chosen.is_empty(), "no target is called {only:?}");
    chosen
}

fn run(target: &Target, input: &[u8], what: &str) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (target.run)(input))) {
        let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
        eprintln!("target {} fails on {what}; the input in hex: {hex}", target.name);
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn inputs_that_once_failed_pass() {
    let fs = PosixFileSystem::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/regressions");
    let folders = fs.children(&root).unwrap();
    for folder in folders {
        let target = firn_fuzz::find(&folder).unwrap_or_else(|| panic!("regressions of no target: {folder}"));
        for name in fs.children(&root.join(&folder)).unwrap() {
            let input = read_file(&fs, &root.join(&folder).join(&name), 1 << 20).unwrap();
            run(target, &input, &name);
        }
    }
}

#[test]
fn seeds_and_damaged_seeds_pass() {
    let seconds: f64 = std::env::var("FIRN_FUZZ_SECONDS").map_or(3.0, |text| text.parse().unwrap());
    let golden = Golden::load();
    let clock = SystemClock::new();
    let targets = targets();
    for target in &targets {
        let seeds = (target.seeds)(&golden);
        assert!(!seeds.is_empty(), "{} has no seeds", target.name);
        for seed in &seeds {
            run(target, seed, "a seed");
        }
        let mut random = StdRng::seed_from_u64(0x5eed);
        let until = clock.now_micros() + Duration::from_secs_f64(seconds / targets.len() as f64).as_micros() as u64;
        let mut runs = 0;
        while clock.now_micros() < until {
            let seed = &seeds[random.random_range(0..seeds.len())];
            let other = &seeds[random.random_range(0..seeds.len())];
            run(target, &mutate(&mut random, seed, other), &format!("mutation {runs}"));
            runs += 1;
        }
        println!("{}: {} seeds, {runs} mutations", target.name, seeds.len());
    }
}
