//! What a database that rests keeps in memory.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use firndb::env::{Clock, SystemClock};
use firndb::{Db, FlushOptions, Options};

/// Resident memory of this process in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<usize>().unwrap() << 10
}

#[test]
fn memory_of_flushed_memtables_goes_back_to_the_system() {
    const MEMTABLE: usize = 64 << 20;
    const VALUE: usize = 10_000;
    let dir = tempfile::tempdir().unwrap();
    let options = Options::from_string("create_if_missing=true;write_buffer_size=67108864").unwrap();
    let db = Db::open(dir.path(), options).unwrap();
    let before = resident();
    let value = vec![7; VALUE];
    let fill = |bytes: usize| {
        for number in 0..bytes / VALUE {
            db.put(format!("{number:08}").as_bytes(), &value).unwrap();
        }
    };
    // More than one memtable, so that a freed one meets another that may still need its pages.
    fill(MEMTABLE / 10 * 15);
    let filled = resident();
    assert!(filled > before + MEMTABLE / 4, "the second memtable is in memory: {} KiB", (filled - before) >> 10);
    db.flush(&FlushOptions::default(), db.default_cf()).unwrap();
    let over_limit = || resident().saturating_sub(before + MEMTABLE / 3);
    // What the flush itself used stays with the allocator; no memtable, no pooled page and no window of the WAL does.
    for _ in 0..1000 {
        if over_limit() == 0 {
            return;
        }
        SystemClock::new().sleep_micros(50_000);
    }
    panic!("{} KiB too much are still in memory", over_limit() >> 10);
}
