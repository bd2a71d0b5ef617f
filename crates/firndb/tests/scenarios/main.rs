//! Scenarios: what RocksDB's users rely on, as files of commands and answers that Firn and RocksDB both run.
//!
//! `docs/scenarios.md` has the format. A test runs the files of one room on one engine:
//!
//! ```text
//! cargo test -p firndb --test scenarios                      all rooms on both engines
//! FIRN_SCENARIOS=<part of a name> cargo test ...             some scenarios only
//! FIRN_SCENARIOS_REWRITE=rocksdb cargo test ... rocksdb      write down what RocksDB answers
//! FIRN_SCENARIOS_REWRITE=firn cargo test ... firn            the same of Firn, where it is said to differ
//! ```
//!
//! What is missing of RocksDB is skipped with a notice, unless `FIRN_REQUIRE_INTEROP` is set.

#![allow(clippy::unwrap_used, clippy::expect_used, unreachable_pub, reason = "a test fails by panicking")]
#![allow(clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;
mod disk;
mod firn;
mod rocksdb;
mod room;
mod script;
mod words;

use std::collections::BTreeSet;

use firn_env::FileSystem;
use room::Rewrite;

/// What an engine says to a command.
#[derive(Clone, Debug)]
pub enum Answer {
    /// What stands below the command.
    Lines(Vec<String>),
    /// The command was not understood.
    Broken(Vec<String>),
    /// The engine is gone.
    Died(String),
}

impl Answer {
    fn lines(&self) -> Vec<String> {
        match self {
            Self::Lines(lines) | Self::Broken(lines) => lines.clone(),
            Self::Died(_) => vec!["(dies)".to_owned()],
        }
    }

    fn is_broken(&self) -> bool {
        matches!(self, Self::Broken(_))
    }
}

impl From<Result<Vec<String>, String>> for Answer {
    fn from(answer: Result<Vec<String>, String>) -> Self {
        match answer {
            Ok(lines) if lines.iter().any(|line| line.starts_with("!! ")) => Self::Broken(lines),
            Ok(lines) => Self::Lines(lines),
            Err(text) => Self::Died(text),
        }
    }
}

/// A store that understands the commands.
pub trait Engine {
    /// `firn` or `rocksdb`, as tests are called.
    fn name(&self) -> &'static str;

    /// Carries out one command.
    fn run(&mut self, command: &str) -> Answer;
}

fn filter() -> String {
    std::env::var("FIRN_SCENARIOS").unwrap_or_default()
}

fn rewrite() -> Rewrite {
    match std::env::var("FIRN_SCENARIOS_REWRITE").as_deref() {
        Err(_) | Ok("") => Rewrite::Nothing,
        Ok("firn") => Rewrite::Firn,
        Ok("rocksdb" | "1") => Rewrite::RocksDb,
        Ok(other) => panic!("FIRN_SCENARIOS_REWRITE={other} is neither firn nor rocksdb"),
    }
}

fn check(room: &str, engine: &mut dyn Engine) {
    let (count, failures) = room::run(room, engine, &filter(), rewrite());
    println!("{count} scenarios on {}", engine.name());
    assert!(failures.is_empty(), "{} of {count} scenarios failed\n\n{}", failures.len(), failures.join("\n"));
}

macro_rules! rooms {
    ($($room:ident)*) => {
        const ROOMS: &[&str] = &[$(stringify!($room)),*];

        mod on_firn {
            $(#[test]
            fn $room() {
                crate::check(stringify!($room), &mut crate::firn::Firn::default());
            })*
        }

        mod on_rocksdb {
            $(#[test]
            fn $room() {
                if let Some(driver) = crate::rocksdb::driver() {
                    crate::check(stringify!($room), &mut crate::rocksdb::RocksDb::new(driver));
                }
            })*
        }
    };
}

rooms! {
    batches
    column_families
    compactions
    corruption
    flush_and_wal
    ingestion
    iterators
    merges
    obsolete_files
    opening
    prefixes
    properties
    range_deletions
    rate_limits
    recovery
    repair
    run_time_options
    snapshots
    statistics
    tailing
}

#[test]
fn every_folder_of_scenarios_is_a_room() {
    let folders: BTreeSet<String> = common::FS.children(&room::data_dir()).unwrap().into_iter().collect();
    assert_eq!(folders, ROOMS.iter().map(|room| (*room).to_owned()).collect());
}

#[test]
fn a_file_is_printed_as_it_was_read() {
    let text =
        "// About.\n# One\nopen\nput a=1\n\n# Two\n// Why.\nget a\n  a not found\n! rocksdb: it keeps more\n  a=1\n";
    let items = script::parse(text).unwrap();
    assert_eq!(script::print(&items), text);
    let scenarios = script::scenarios(&items);
    assert_eq!(scenarios.iter().map(|scenario| scenario.name.as_str()).collect::<Vec<_>>(), ["One", "Two"]);
    assert_eq!(scenarios[1].steps[0].otherwise.as_ref().unwrap().answer, ["a=1"]);
    assert!(script::parse("put a=1\n").is_err(), "a command outside of scenarios");
    assert!(script::parse("# One\n  answer\n").is_err(), "an answer without a command");
}

#[test]
fn names_of_scenarios_are_their_own() {
    for room in ROOMS {
        let mut seen = BTreeSet::new();
        for path in room::files(room) {
            for scenario in script::scenarios(&room::read(&path)) {
                let name = format!("{}: {}", path.display(), scenario.name);
                assert!(!scenario.steps.is_empty(), "{name} does nothing");
                assert!(seen.insert(name.clone()), "{name} is there twice");
            }
        }
    }
}
