//! One history, many ways to run it, one result: Firn under options drawn anew at every open, and RocksDB 7.8 through its C
//! library. Every get and every walk must answer the same everywhere; then each store opens the other's directory.
//!
//! `FIRN_METAMORPHIC_SEED=<seed>` runs one history, `FIRN_METAMORPHIC_HISTORIES` sets how many are drawn. What is missing of
//! RocksDB is skipped with a notice, unless `FIRN_REQUIRE_INTEROP` is set.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test fails by panicking, and is a crate of its own")]

#[path = "../common/mod.rs"]
mod common;
mod firn;
mod rocksdb;
mod script;

use std::path::Path;

use common::{Outcome, say};
use firn::Recipes;
use firn_check::recipe;
use firn_env::entropy::{Entropy, SystemEntropy};
use firndb::Db;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rocksdb::With;

/// Sets of options per history.
const OPTION_SETS: u64 = 4;

/// A directory in memory where there is one: histories flush a lot, and nothing here asks what survives a power failure.
fn scratch() -> tempfile::TempDir {
    let in_memory = Path::new("/dev/shm");
    if in_memory.is_dir() { tempfile::tempdir_in(in_memory) } else { tempfile::tempdir() }.unwrap()
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

fn for_histories(count: u64, check: impl Fn(u64) -> Outcome) {
    let (first, count) = match number("FIRN_METAMORPHIC_SEED") {
        Some(seed) => (seed, 1),
        None => (SystemEntropy.next_u64() >> 20, number("FIRN_METAMORPHIC_HISTORIES").unwrap_or(count)),
    };
    for seed in first..first + count {
        check(seed).unwrap_or_else(|text| panic!("{text}\nreplay with FIRN_METAMORPHIC_SEED={seed}"));
    }
    println!("{count} histories");
}

fn operations(seed: u64) -> usize {
    [100, 400, 1200][(seed % 3) as usize]
}

/// The first answer that differs, with the line of the script that asked.
fn same(what: &str, script: &str, got: &str, wanted: &str) -> Outcome {
    let asks = script.lines().filter(|line| line.starts_with("g ") || line.starts_with("i "));
    let head = |text: &str| text.chars().take(300).collect::<String>();
    for ((ask, got), wanted) in asks.zip(got.lines()).zip(wanted.lines()) {
        if got != wanted {
            return Err(format!("{what}: {ask}\n     got {}\n  wanted {}", head(got), head(wanted)));
        }
    }
    if got.lines().count() == wanted.lines().count() { Ok(()) } else { Err(format!("{what}: answers are missing")) }
}

/// A script that asks for everything in these families.
fn everything(families: &[String]) -> String {
    families.iter().map(|name| format!("i {name} - - - f 1000000\ni {name} - - - b 1000000\n")).collect()
}

fn families(dir: &Path) -> Result<Vec<String>, String> {
    say("families", Db::list_column_families(dir, &firndb::DbOptions::default()))
}

#[test]
fn options_do_not_change_answers() {
    for_histories(5, |seed| {
        let script = script::draw(seed, operations(seed));
        let temp = scratch();
        let wanted = firn::run(&script, &temp.path().join("plain"), Recipes::Plain)?;
        for set in 0..OPTION_SETS {
            let drawn = Recipes::Drawn(seed.wrapping_mul(OPTION_SETS) + set);
            let what = format!("{drawn:?}");
            let got = firn::run(&script, &temp.path().join(format!("set{set}")), drawn)
                .map_err(|text| format!("{what}: {text}"))?;
            same(&what, &script, &got, &wanted)?;
        }
        Ok(())
    });
}

/// What RocksDB 7.8 runs the history with: options of column families as Firn would draw them, less what 7.8 does not know.
fn rocksdb_options(seed: u64) -> String {
    let mut rng = StdRng::seed_from_u64(seed);
    let fixed = recipe::Fixed {
        merge: recipe::Merge::StringAppend,
        reversed: false,
        levels: 7,
        universal: seed.is_multiple_of(5),
    };
    let (_, text) = recipe::column_family(&mut rng, &fixed);
    let (family, table) = text.split_once(" table {").unwrap();
    let newer = [
        "block_protection_bytes_per_key",
        "memtable_max_range_deletions",
        "paranoid_memory_checks",
        "use_delta_encoding",
    ];
    let known = |text: &str| {
        let known = text.split(';').filter(|option| !newer.iter().any(|name| option.starts_with(name)));
        known
            .collect::<Vec<_>>()
            .join(";")
            .replace("format_version=6", "format_version=5")
            .replace("format_version=7", "format_version=5")
    };
    format!("{};block_based_table_factory={{{}}}", known(family), known(table.trim_end_matches('}')))
}

#[test]
fn rocksdb_gives_the_same_answers_and_each_reads_the_others_directory() {
    let Some(driver) = rocksdb::driver() else { return };
    for_histories(6, |seed| {
        let script = script::draw(seed, operations(seed));
        let temp = scratch();
        let place = |name: &str| temp.path().join(name);
        let write = |name: &str, text: &str| {
            common::put_file(&place(name), text.as_bytes());
            place(name)
        };
        let (ours, theirs) = (place("firn"), place("rocksdb"));
        let wanted = firn::run(&script, &ours, Recipes::Drawn(seed))?;
        let options = rocksdb_options(seed);
        let got = rocksdb::run(driver, &write("history", &script), &theirs, &With::Text(&options))
            .map_err(|text| format!("{text} (options {options})"))?;
        same("RocksDB (got) and Firn (wanted)", &script, &got, &wanted)?;
        let (mut our_families, mut their_families) = (families(&ours)?, families(&theirs)?);
        our_families.sort();
        their_families.sort();
        if our_families != their_families {
            return Err(format!("families: Firn has {our_families:?}, RocksDB {their_families:?}"));
        }
        let all = everything(&our_families);
        let all_file = write("everything", &all);
        let contents = rocksdb::run(driver, &all_file, &theirs, &With::Text(&options))?;
        let of_ours = rocksdb::run(driver, &all_file, &ours, &With::Stated)
            .map_err(|text| format!("Firn's directory: {text}"))?;
        same("RocksDB over Firn's directory (got) and over its own (wanted)", &all, &of_ours, &contents)?;
        let of_theirs =
            firn::run(&all, &theirs, Recipes::Plain).map_err(|text| format!("RocksDB's directory: {text}"))?;
        same("Firn over RocksDB's directory (got) and RocksDB (wanted)", &all, &of_theirs, &contents)
    });
}
