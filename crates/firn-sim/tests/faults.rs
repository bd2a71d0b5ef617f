//! The short form of the fault simulation; `cargo run --release -p firn-sim -- faults` is the long one.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use firn_sim::faults::{Figures, explore};

/// Some seeds of short workloads; `FIRN_SIM_SEEDS` says how many, from which on `FIRN_SIM_FIRST_SEED`.
#[test]
fn whatever_fails_once_nothing_acknowledged_is_lost_and_nothing_refused_comes_back() {
    let number = |name, default| std::env::var(name).map_or(default, |text| text.parse::<u64>().unwrap());
    let first = number("FIRN_SIM_FIRST_SEED", 0);
    let mut total = Figures::default();
    for seed in first..first + number("FIRN_SIM_SEEDS", 6) {
        match explore(seed, 20, 9) {
            Ok(figures) => total.add(figures),
            Err(violation) => panic!("seed {seed}: {violation}"),
        }
    }
    println!("{total:?}");
    assert!(total.faults > 100 && total.noticed > 50, "{total:?}");
}
