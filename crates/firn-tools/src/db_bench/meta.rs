//! Operations on the whole database: compactions, flushes, waiting, and what the database says about itself.

use super::engine::{CompactedLevel, OpenDb};
use super::harness::{Failure, Worker};
use super::run::Bench;
use super::script_form;

/// An operation of the main thread.
pub type Meta = fn(&mut Bench) -> Result<(), Failure>;

/// `compact`: every thread compacts one database over its whole range.
pub fn compact(worker: &mut Worker<'_>) -> Result<(), Failure> {
    let db = worker.select_db();
    db.compact_range(0).map_err(|e| Failure::new("compact error", &e))
}

/// `compactall`
pub fn compact_all(bench: &mut Bench) -> Result<(), Failure> {
    let subcompactions = u32::try_from(bench.flags.subcompactions).unwrap_or(1);
    for db in bench.engine.databases() {
        db.compact_range(subcompactions).map_err(|e| Failure::new("compactall error", &e))?;
    }
    Ok(())
}

/// `compact0`
pub fn compact_level_0(bench: &mut Bench) -> Result<(), Failure> {
    compact_level(bench, 0)
}

/// `compact1`
pub fn compact_level_1(bench: &mut Bench) -> Result<(), Failure> {
    compact_level(bench, 1)
}

/// Times a failing compaction of a level is tried again.
const COMPACT_LEVEL_ATTEMPTS: u32 = 10;

fn compact_level(bench: &mut Bench, label: usize) -> Result<(), Failure> {
    for db in bench.engine.databases() {
        for _ in 0..COMPACT_LEVEL_ATTEMPTS {
            match db.compact_level(label) {
                Ok(CompactedLevel::NoFiles) => println!("compact{label} found 0 files to compact"),
                Ok(CompactedLevel::NothingBelow(level)) => {
                    println!("compact{label} found no data beyond L{level}");
                }
                Ok(CompactedLevel::Moved { files, from, to }) => {
                    println!("compact{label} found {files} files to compact from L{from} to L{to}");
                }
                Err(error) => {
                    eprintln!("compact{label} CompactFiles failed: {error}");
                    wait_for(db)?;
                    continue;
                }
            }
            break;
        }
    }
    Ok(())
}

/// `flush`
pub fn flush(bench: &mut Bench) -> Result<(), Failure> {
    for db in bench.engine.databases() {
        db.flush().map_err(|e| Failure::new("Flush failed", &e))?;
    }
    println!("flush memtable");
    Ok(())
}

/// `waitforcompaction`
pub fn wait_for_compaction(bench: &mut Bench) -> Result<(), Failure> {
    // Work that a flush sets off may not be queued yet.
    bench.env.clock().sleep_micros(5_000_000);
    bench.engine.databases().iter().try_for_each(wait_for)
}

fn wait_for(db: &OpenDb) -> Result<(), Failure> {
    let path = db.path().display();
    println!("waitforcompaction({path}): started");
    let status = match db.wait_for_compact() {
        Ok(()) => "OK".to_owned(),
        Err(error) => error.to_string(),
    };
    println!("waitforcompaction({path}): finished with status ({status})");
    Ok(())
}

/// `stats`, `levelstats`, `sstables` and others: a property of each database.
pub fn print_property(bench: &mut Bench, property: &str) -> Result<(), Failure> {
    let databases = bench.engine.databases();
    for db in databases {
        if databases.len() > 1 {
            println!("\n==== DB: {} ===", db.path().display());
        }
        let text = db.property(property).unwrap_or_else(|| "(failed)".to_owned());
        println!("\n{}", script_form::of_stats(&text));
    }
    Ok(())
}

/// `memstats`
pub fn memory_stats(bench: &mut Bench) -> Result<(), Failure> {
    const PROPERTIES: [&str; 6] = [
        "rocksdb.num-immutable-mem-table",
        "rocksdb.cur-size-active-mem-table",
        "rocksdb.cur-size-all-mem-tables",
        "rocksdb.size-all-mem-tables",
        "rocksdb.num-entries-active-mem-table",
        "rocksdb.num-entries-imm-mem-tables",
    ];
    for db in bench.engine.databases() {
        for property in PROPERTIES {
            println!("{property}: {}", db.property(property).unwrap_or_else(|| "(failed)".to_owned()));
        }
    }
    Ok(())
}

/// `resetstats`
pub fn reset_stats(bench: &mut Bench) -> Result<(), Failure> {
    bench.engine.databases().iter().for_each(OpenDb::reset_stats);
    Ok(())
}
