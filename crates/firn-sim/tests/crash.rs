//! The short form of the crash simulation; `cargo run --release -p firn-sim -- crash` is the long one.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use firn_sim::crash::{Figures, Plan, explore};
use firn_sim::run::run;
use firn_sim::workload::Workload;

/// Some seeds of short workloads; `FIRN_SIM_SEEDS` says how many, from which on `FIRN_SIM_FIRST_SEED`.
#[test]
fn nothing_is_lost_whenever_it_crashes() {
    let number = |name, default| std::env::var(name).map_or(default, |text| text.parse::<u64>().unwrap());
    let first = number("FIRN_SIM_FIRST_SEED", 0);
    let mut total = Figures::default();
    for seed in first..first + number("FIRN_SIM_SEEDS", 16) {
        let explored =
            run(Workload::draw(seed, 40)).and_then(|history| explore(&history, Plan { every: 9, all_modes: false }));
        match explored {
            Ok(figures) => total.add(figures),
            Err(violation) => panic!("seed {seed}: {violation}"),
        }
    }
    println!("{total:?}");
    assert!(total.points > 100 && total.second_points > 200, "{total:?}");
}

/// Replaying a seed gives the same operations in the same order, or no failure could be looked at twice.
#[test]
fn a_seed_repeats_a_run_exactly() {
    for seed in 0..5 {
        let describe = || {
            let history = run(Workload::draw(seed, 40)).unwrap();
            let journal = &history.journal;
            let mut replay = journal.replay();
            while replay.advance() {}
            let image = replay.disk().image(firn_env::crash::LossPolicy::Scatter, seed);
            (journal.len(), history.writes.len(), image.files())
        };
        assert!(describe() == describe(), "seed {seed}");
    }
}
