//! Races stores against each other on one machine, and writes down what came out.
//!
//! `race` drives Firn, RocksDB and others through one trait, in one process per store, step by step in turn: every step
//! runs on one store while the others rest, so that neighbours in time are compared. `blackbox` runs whole `db_bench`
//! programs in turn. Both print tables with ratios and write them to files; `report` makes a race's report again.

// Without stores nothing is left of the race in process but its reports.
#![cfg_attr(not(feature = "firn"), allow(dead_code, unused_variables))]

mod bars;
mod blackbox;
mod config;
mod drive;
mod finished;
mod kept;
mod keys;
mod measure;
mod options;
mod outcome;
mod plain;
mod plots;
mod race;
mod report;
mod scenario;
mod stores;
mod tables;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

/// Every store allocates through jemalloc: Rust code by this, C++ code because its symbols are not prefixed.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// What may go wrong here ends the run with its text.
pub type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[derive(Parser)]
#[command(about = "Races Firn against RocksDB and other stores on one machine")]
struct Command {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Drive stores through one trait, in turn, step by step.
    Race(RaceArguments),
    /// Make the report of a race again from what was kept of it.
    Report {
        /// Where the results are.
        #[arg(long, default_value = "results")]
        out: PathBuf,
    },
    /// Run db_bench programs in turn on named scenarios.
    Blackbox(BlackboxArguments),
    /// Name the scenarios and their steps.
    List,
    /// One store of a race, told what to do on standard input.
    #[command(hide = true)]
    Worker,
}

/// What `race` takes.
#[derive(Args, Clone)]
pub struct RaceArguments {
    /// Stores, the first is the one that ratios are for, the second the bar.
    #[arg(long, value_delimiter = ',', default_value = "firn,rocksdb")]
    pub stores: Vec<stores::Kind>,
    /// Scenarios to run, by name; all when not given.
    #[arg(long, value_delimiter = ',')]
    pub scenarios: Vec<String>,
    /// Keys in the database.
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1000..))]
    pub num: u64,
    /// Reads in each reading step, per thread; scans and direct reads do a part of it.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1000..))]
    pub reads: u64,
    /// How often each scenario is run on each store.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// First seed; each round and each thread has its own.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Measure what is there already once more, instead of going on with what is not.
    #[arg(long)]
    pub again: bool,
    /// Seconds after which a step of one store counts as failed.
    #[arg(long, default_value_t = 3600)]
    pub limit: u64,
    /// Where databases are made and removed, on a file system with direct I/O; in the results' `databases` when not given.
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Where the report goes, and what it is made of.
    #[arg(long, default_value = "results")]
    pub out: PathBuf,
}

/// What `blackbox` takes.
#[derive(Args, Clone)]
pub struct BlackboxArguments {
    /// A peer's db_bench, as name=path; may be given several times.
    #[arg(long = "peer", default_value = "debian=/usr/bin/db_bench")]
    pub peers: Vec<String>,
    /// Firn's db_bench; built in release mode when not given.
    #[arg(long)]
    pub firn: Option<PathBuf>,
    /// Scenarios to run, by name; the short ones when not given.
    #[arg(long, value_delimiter = ',')]
    pub scenarios: Vec<String>,
    /// Keys in the database.
    #[arg(long, default_value_t = 2_000_000)]
    pub num: u64,
    /// Reads in each reading step, per thread.
    #[arg(long, default_value_t = 200_000)]
    pub reads: u64,
    /// How often each scenario is run on each program.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// No further round is begun that would probably end after so many minutes.
    #[arg(long, default_value_t = 15)]
    pub minutes: u64,
    /// First seed; each round has its own.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Where databases are made and removed; in the results' `databases` when not given.
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Where the report goes.
    #[arg(long, default_value = "results")]
    pub out: PathBuf,
    /// Further flags for every program, after all others: `-- --compression_type=lz4`.
    #[arg(last = true)]
    pub flags: Vec<String>,
}

fn main() -> ExitCode {
    match run(Command::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("compare: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Fallible<()> {
    match task {
        Task::Race(arguments) => race::run(&arguments),
        Task::Report { out } => {
            println!("{}", report::write(&out)?);
            Ok(())
        }
        Task::Blackbox(arguments) => blackbox::run(&arguments),
        Task::List => {
            print!("{}{}", scenario::listing(), blackbox::listing());
            Ok(())
        }
        Task::Worker => worker::run(),
    }
}
