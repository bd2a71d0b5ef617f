//! Work that comes with time: reports in the info log, the history of statistics, compactions for age; and that closing
//! does not wait for it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;

use firndb::env::{Env, read_file, write_file};
use firndb::options::FlushOptions;
use firndb::stats::{Statistics, Ticker};
use firndb::{Db, Options};

fn options(env: &Env) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = env.clone();
    options.db.statistics = Some(Arc::new(Statistics::default()));
    options
}

/// Waits until something is so, or panics after a while.
fn wait_until(env: &Env, what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..3000 {
        if is_so() {
            return;
        }
        env.clock().sleep_micros(10_000);
    }
    panic!("{what}");
}

#[test]
fn statistics_are_dumped_and_their_history_is_kept() {
    let env = Env::memory();
    let mut options = options(&env);
    options.db.stats_dump_period_sec = 0;
    options.db.stats_persist_period_sec = 1;
    let db = Db::open("/db", options).unwrap();
    let log = || String::from_utf8(read_file(&**env.fs(), Path::new("/db/LOG"), 8 << 20).unwrap()).unwrap();
    db.put("key", "value").unwrap();
    wait_until(&env, "no first reading", || log().contains("------- PERSISTING STATS -------"));
    for i in 0..50 {
        db.put(format!("key{i}"), "value").unwrap();
    }
    // The first reading may come before the single put or after it, but not among the fifty unless the machine stands still.
    let written = |db: &Db| {
        let entries = db.get_stats_history(0, u64::MAX);
        entries.iter().map(|entry| entry.tickers[Ticker::NumberKeysWritten.name()]).sum::<u64>()
    };
    wait_until(&env, "no history", || written(&db) > 0);
    wait_until(&env, "the history lacks something", || {
        written(&db) >= 50 || db.get_stats_history(0, u64::MAX).len() > 2
    });
    let history = db.get_stats_history(0, u64::MAX);
    let first = history[0].time_secs;
    assert!(db.get_stats_history(first, first + 1).len() == 1 && db.get_stats_history(0, first).is_empty());
    assert!(!log().contains("DUMPING STATS"));
    db.set_db_options(&[("stats_dump_period_sec", "1"), ("stats_persist_period_sec", "0")]).unwrap();
    wait_until(&env, "no dump", || log().contains("------- DUMPING STATS -------"));
    let log = log();
    for part in
        ["** DB Stats **", "** Compaction Stats [default] **", "STATISTICS:\n rocksdb.block.cache.miss COUNT : "]
    {
        assert!(log.contains(part), "{part} is missing");
    }
}

#[test]
fn files_are_compacted_for_their_age_and_garbage_is_found_without_anybody_asking() {
    let env = Env::memory();
    let mut options = options(&env);
    options.cf.periodic_compaction_seconds = 2;
    options.db.delete_obsolete_files_period_micros = 50_000;
    let db = Db::open("/db", options).unwrap();
    db.put("key", "value").unwrap();
    db.flush(&FlushOptions::default(), db.default_cf()).unwrap();
    let first = db.live_files()[0].number;
    let garbage = Path::new("/db/000001.sst");
    write_file(&**env.fs(), garbage, b"nobody knows it", false).unwrap();
    wait_until(&env, "the garbage stays", || !env.fs().file_exists(garbage).unwrap());
    wait_until(&env, "no compaction", || db.live_files()[0].number != first);
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn closing_does_not_wait_for_the_next_time() {
    let env = Env::memory();
    for _ in 0..20 {
        // With periods of ten minutes this would take hours.
        Db::open("/db", options(&env)).unwrap().close().unwrap();
    }
    assert!(Db::open("/db", options(&env)).unwrap().get_stats_history(0, u64::MAX).is_empty());
}
