//! Limits of space and of speed: the file manager's account of tables, its limits and its trash; files that nobody needs; who
//! asks the rate limiter for how much.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use firn_format::compression::CompressionType;
use firndb::env::{
    Clock, Env, IoKind, IoPriority, JobPools, ManualClock, NullLogger, RateLimiter, SstFileManager,
    SstFileManagerOptions, write_file,
};
use firndb::options::{CompactRangeOptions, FlushOptions, ReadOptions, WriteOptions};
use firndb::stats::events::FlushJobInfo;
use firndb::stats::{EventListener, Statistics, Ticker};
use firndb::{Db, ErrorKind, Options, Result, SubCode};

fn file_manager(env: &Env, options: SstFileManagerOptions) -> Arc<SstFileManager> {
    let (fs, clock) = (Arc::clone(env.fs()), Arc::clone(env.clock()));
    Arc::new(SstFileManager::new(fs, clock, Arc::new(NullLogger), options))
}

fn options(env: &Env, manager: &Arc<SstFileManager>) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = env.clone();
    options.db.sst_file_manager = Some(Arc::clone(manager));
    options.db.bgerror_resume_retry_interval = 20_000;
    options.cf.compression = CompressionType::None;
    options.cf.disable_auto_compactions = true;
    options
}

fn flush(db: &Db) -> Result<()> {
    db.flush(&FlushOptions::default(), db.default_cf())
}

fn compact(db: &Db) -> Result<()> {
    db.compact_range(&CompactRangeOptions::default(), db.default_cf(), None, None)
}

/// Writes a table of about 100 KB.
fn fill(db: &Db) -> Result<()> {
    for i in 0..1000 {
        db.put(format!("key{i:04}"), [b'v'; 100])?;
    }
    flush(db)
}

fn live(db: &Db) -> (BTreeSet<PathBuf>, u64) {
    let files = db.live_files();
    let paths = files.iter().map(|file| file.directory.join(file.name.trim_start_matches('/'))).collect();
    (paths, files.iter().map(|file| file.size_bytes).sum())
}

#[test]
fn the_file_manager_knows_exactly_the_live_tables() {
    let env = Env::memory();
    let manager = file_manager(&env, SstFileManagerOptions::default());
    let known = || (manager.tracked_files().into_keys().collect::<BTreeSet<_>>(), manager.total_bytes());
    let db = Db::open("/db", options(&env, &manager)).unwrap();
    for _ in 0..3 {
        fill(&db).unwrap();
        assert_eq!(known(), live(&db));
    }
    assert_eq!(known().0.len(), 3);
    compact(&db).unwrap();
    assert_eq!(known().0.len(), 1);
    assert_eq!(known(), live(&db));
    let before = known();
    db.close().unwrap();
    assert_eq!(known(), (BTreeSet::new(), 0));
    let db = Db::open("/db", options(&env, &manager)).unwrap();
    assert_eq!(known(), before);
    drop(db);
}

#[test]
fn reaching_the_allowed_space_stops_writes_until_there_is_more() {
    let env = Env::memory();
    let manager = file_manager(&env, SstFileManagerOptions { max_allowed_space_bytes: 250_000, ..Default::default() });
    let db = Db::open("/db", options(&env, &manager)).unwrap();
    fill(&db).unwrap();
    fill(&db).unwrap();
    // A compaction would not fit, and is not begun.
    assert_eq!(compact(&db).unwrap_err().kind(), ErrorKind::CompactionTooLarge);
    db.put("key", "writes go on").unwrap();
    // The flush itself ends well: what was written is safe.
    let third = fill(&db);
    assert!(third.as_ref().err().is_none_or(|error| error.subcode() == SubCode::SpaceLimit), "{third:?}");
    let mut stopped = Ok(());
    for _ in 0..1000 {
        stopped = db.put("more", "and more");
        if stopped.is_err() {
            break;
        }
        env.clock().sleep_micros(1000);
    }
    assert_eq!(stopped.unwrap_err().subcode(), SubCode::SpaceLimit);
    assert_eq!(db.get("key0999").unwrap().as_deref(), Some(&[b'v'; 100][..]));
    manager.set_max_allowed_space_bytes(1_000_000);
    for attempt in 0.. {
        match db.put("more", "and more") {
            Ok(()) => break,
            Err(error) => assert!(attempt < 3000, "{error}"),
        }
        env.clock().sleep_micros(10_000);
    }
    compact(&db).unwrap();
    flush(&db).unwrap();
}

#[test]
fn obsolete_tables_wait_in_the_trash_for_their_turn() {
    let env = Env::memory();
    let slow = SstFileManagerOptions { rate_bytes_per_sec: 1, max_trash_db_ratio: 100.0, ..Default::default() };
    let trash = |env: &Env| {
        let names = env.fs().children(Path::new("/db")).unwrap();
        names.into_iter().filter(|name| name.ends_with(".sst.trash")).count()
    };
    {
        let manager = file_manager(&env, slow);
        let db = Db::open("/db", options(&env, &manager)).unwrap();
        fill(&db).unwrap();
        fill(&db).unwrap();
        compact(&db).unwrap();
        // The first goes at once, and is paid for afterwards.
        assert!(trash(&env) >= 1 && manager.total_trash_bytes() > 100_000);
    }
    let manager = file_manager(&env, SstFileManagerOptions::default());
    let db = Db::open("/db", options(&env, &manager)).unwrap();
    assert_eq!(trash(&env), 0);
    assert_eq!(manager.total_bytes(), live(&db).1);
    drop(db);
    write_file(&**env.fs(), Path::new("/db/000099.sst.trash"), b"left over", false).unwrap();
    drop(Db::open("/db", options(&env, &manager)).unwrap());
    assert_eq!(trash(&env), 0);
}

/// Never makes anybody wait, and counts what it was asked for.
#[derive(Debug, Default)]
struct Counter(Mutex<Vec<(IoPriority, IoKind, u64)>>);

impl Counter {
    fn bytes(&self, priority: IoPriority, kind: IoKind) -> u64 {
        let asked = self.0.lock().unwrap();
        asked.iter().filter(|(p, k, _)| (*p, *k) == (priority, kind)).map(|(_, _, bytes)| bytes).sum()
    }
}

impl RateLimiter for Counter {
    fn request(&self, bytes: u64, priority: IoPriority, kind: IoKind) {
        self.0.lock().unwrap().push((priority, kind, bytes));
    }
    fn bytes_per_second(&self) -> u64 {
        1 << 40
    }
    fn set_bytes_per_second(&self, _: u64) -> Result<()> {
        Ok(())
    }
    fn single_burst_bytes(&self) -> u64 {
        1 << 40
    }
    fn total_bytes_through(&self, _: IoPriority) -> u64 {
        0
    }
    fn total_requests(&self, _: IoPriority) -> u64 {
        0
    }
    fn limits(&self, _: IoKind) -> bool {
        true
    }
}

#[test]
fn the_rate_limiter_is_asked_by_whom_it_concerns() {
    let dir = tempfile::tempdir().unwrap();
    let limiter = Arc::new(Counter::default());
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.rate_limiter = Some(Arc::clone(&limiter) as Arc<dyn RateLimiter>);
    options.db.statistics = Some(Arc::new(Statistics::default()));
    options.cf.compression = CompressionType::None;
    let db = Db::open(dir.path().join("db"), options).unwrap();
    fill(&db).unwrap();
    fill(&db).unwrap();
    let flushed = live(&db).1;
    assert_eq!(limiter.bytes(IoPriority::High, IoKind::Write), flushed);
    assert_eq!(limiter.bytes(IoPriority::Low, IoKind::Write), 0);
    compact(&db).unwrap();
    assert_eq!(limiter.bytes(IoPriority::Low, IoKind::Write), live(&db).1);
    assert!(limiter.bytes(IoPriority::Low, IoKind::Read) > flushed / 10 * 9);

    assert_eq!(limiter.bytes(IoPriority::User, IoKind::Write), 0);
    let asking = WriteOptions { rate_limiter_priority: IoPriority::User, ..WriteOptions::default() };
    db.put_opt(&asking, db.default_cf(), "key", [0; 1000]).unwrap();
    assert!(limiter.bytes(IoPriority::User, IoKind::Write) > 1000);
    let low = WriteOptions { rate_limiter_priority: IoPriority::Low, ..WriteOptions::default() };
    let without_wal = WriteOptions { disable_wal: true, ..asking };
    for refused in [low, without_wal] {
        let error = db.put_opt(&refused, db.default_cf(), "key", "value").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }

    assert_eq!(limiter.bytes(IoPriority::Mid, IoKind::Read), 0);
    let reads = ReadOptions { rate_limiter_priority: IoPriority::Mid, fill_cache: false, ..ReadOptions::default() };
    assert!(db.get_opt(&reads, db.default_cf(), "key0500").unwrap().is_some());
    let of_get = limiter.bytes(IoPriority::Mid, IoKind::Read);
    assert!(of_get > 0 && of_get < 20_000, "{of_get}");
    let statistics = db.statistics().unwrap();
    assert_eq!(statistics.ticker_count(Ticker::CompactionCancelled), 0);
}

#[test]
fn a_manifest_goes_with_the_first_job_after_another_took_its_place() {
    let env = Env::memory().with_pools(Arc::new(JobPools::stepped()));
    let mut options = options(&env, &file_manager(&env, SstFileManagerOptions::default()));
    (options.db.max_manifest_file_size, options.db.max_manifest_space_amp_pct) = (1, 0);
    let db = Db::open("/db", options).unwrap();
    let manifests = || {
        let names = env.fs().children(Path::new("/db")).unwrap();
        names.into_iter().filter(|name| name.starts_with("MANIFEST")).collect::<Vec<_>>()
    };
    let mut seen = BTreeSet::new();
    for _ in 0..4 {
        fill(&db).unwrap();
        let found = manifests();
        assert_eq!(found.len(), 1, "{found:?}");
        seen.extend(found);
    }
    assert_eq!(seen.len(), 4, "each flush began a new one");
}

#[test]
fn the_flush_of_a_full_memtable_reserves_for_the_new_wal_what_the_old_one_took() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.cf.write_buffer_size = 4 << 20;
    let db = Db::open(dir.path(), options.clone()).unwrap();
    let newest_wal = || {
        let names = Env::default().fs().children(dir.path()).unwrap();
        let name = names.into_iter().filter(|name| name.ends_with(".log")).max().unwrap();
        let metadata = std::fs::metadata(dir.path().join(&name)).unwrap();
        (name, metadata.len(), metadata.blocks() * 512)
    };
    let put = |i: u32| db.put(format!("key{i:04}"), [b'v'; 1000]).unwrap();
    put(0);
    let is_reserved = newest_wal().1 > 5000;
    (1..3000).for_each(put);
    flush(&db).unwrap();
    assert!(newest_wal().2 < 1 << 20, "perhaps nobody writes any more");
    let first = newest_wal().0;
    let filled = (3000..20_000).position(|i| {
        put(i);
        newest_wal().0 != first
    });
    let filled = filled.unwrap() as u64 * 1000;
    db.wait_for_compact().unwrap();
    let (_, visible, taken) = newest_wal();
    assert!(visible < 1 << 20, "{visible}");
    if is_reserved {
        assert!((filled..filled + (1 << 20)).contains(&taken), "{taken} after {filled}");
    } else {
        firndb_testing::skip("this file system reserves nothing");
    }
    put(1);
    drop(db);
    assert!(newest_wal().2 < 64 << 10, "closing gives back what was not filled");
    let db = Db::open(dir.path(), options).unwrap();
    assert_eq!(db.get("key0001").unwrap().as_deref(), Some([b'v'; 1000].as_slice()));
}

/// Holds flushes at their beginning while somebody has the gate.
struct Gate(Arc<Mutex<()>>);

impl EventListener for Gate {
    fn name(&self) -> &str {
        "gate"
    }
    fn on_flush_begin(&self, _: &FlushJobInfo) {
        drop(self.0.lock().unwrap());
    }
}

/// Beside a flush writers go at a share of its pace, but one that lasts does not hold them, and other times nothing does.
#[test]
fn writers_keep_the_pace_of_a_flush_until_it_is_a_slow_one() {
    const START_MICROS: u64 = 1_000_000_000;
    const MEMTABLE: u64 = 4 << 20;
    for no_slowdown in [false, true] {
        let clock = Arc::new(ManualClock::new(START_MICROS));
        let gate = Arc::new(Mutex::new(()));
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.env = Env::memory().with_clock(Arc::clone(&clock) as _);
        options.db.listeners.push(Arc::new(Gate(Arc::clone(&gate))));
        options.cf.write_buffer_size = MEMTABLE as usize;
        options.cf.max_write_buffer_number = 6;
        options.cf.disable_auto_compactions = true;
        let db = Db::open("/db", options).unwrap();
        let held = gate.lock().unwrap();
        let frozen = || db.property_int(db.default_cf(), "rocksdb.num-immutable-mem-table").unwrap();
        let slept_micros = || clock.now_micros() - START_MICROS;
        let write = WriteOptions { no_slowdown, ..WriteOptions::default() };
        let mut written = 0u32;
        let mut fill_until = |count| {
            while frozen() < count {
                db.put_opt(&write, db.default_cf(), written.to_be_bytes(), [b'v'; 1000]).unwrap();
                written += 1;
            }
        };
        fill_until(1);
        assert_eq!(slept_micros(), 0, "no flush, no pace");
        fill_until(2);
        // A flush is slow below 128 MiB/s.
        let patience_micros = MEMTABLE * 1_000_000 / (128 << 20);
        let slept = slept_micros();
        if no_slowdown {
            assert_eq!(slept, 0, "they fail or pass, but do not wait");
        } else {
            assert!((patience_micros..2 * patience_micros).contains(&slept), "{slept} µs");
        }
        fill_until(3);
        assert_eq!(slept_micros(), slept, "the same slow flush");
        drop(held);
        flush(&db).unwrap();
        let after = slept_micros();
        db.put_opt(&write, db.default_cf(), b"one more", b"").unwrap();
        assert_eq!(slept_micros(), after, "no flush, no pace");
        for number in 0..written {
            assert_eq!(db.get(number.to_be_bytes()).unwrap().unwrap(), [b'v'; 1000]);
        }
        db.close().unwrap();
    }
}
