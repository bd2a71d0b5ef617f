//! Crash and fault simulation: what a database promises, checked at every file-system operation of random workloads.
//!
//! A [`workload::Workload`] is drawn from a seed; [`run`] carries it out once, on one thread, over a file system in memory,
//! and notes what was issued, acknowledged and promised at which operation ([`history`]). [`crash`] then takes the disk as
//! a power failure would leave it after each operation, opens it and compares it with the [`model`]; [`faults`] makes each
//! operation fail instead.
//!
//! Always true here: a seed repeats a run exactly; every failure prints the command that replays it.

mod agreement;
pub mod checkpoints;
pub mod crash;
pub mod faults;
pub mod history;
pub mod model;
pub mod recovered;
pub mod run;
pub mod workload;
pub mod world;

use std::fmt;

/// A promise that was broken, and how to see it again.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The arguments of the binary that replay it.
    pub replay: String,
    /// What was expected and what was found.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  replay: cargo run --release -p firn-sim -- {}", self.message, self.replay)
    }
}
