//! The write path and its limits: flushes that fail and are tried again, WALs that are too large together, families that are
//! flushed together, and what belongs to another database.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use firndb::env::fault::{Effect, Fault, FaultFileSystem, Operation, io_error};
use firndb::env::{Clock, Env, FileSystem, SystemClock, create_dir_all, read_file, thread, write_file};
use firndb::options::{FlushOptions, WriteOptions};
use firndb::stats::EventListener;
use firndb::stats::events::FlushJobInfo;
use firndb::{ColumnFamily, ColumnFamilyDescriptor, Db, ErrorKind, Options, ReadOptions, Result, WriteBatch};

/// Runs what may hang; no answer in two minutes is a failure.
fn in_time<T: Send + 'static>(what: &str, body: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    thread::spawn("in time", move || sender.send(body())).unwrap();
    receiver.recv_timeout(Duration::from_secs(120)).unwrap_or_else(|_| panic!("{what}: no answer"))
}

struct World {
    fs: Arc<FaultFileSystem>,
    env: Env,
}

impl World {
    fn new() -> Self {
        let fs = Arc::new(FaultFileSystem::new(Arc::clone(Env::memory().fs())));
        let env = Env::with_file_system(Arc::clone(&fs) as Arc<dyn FileSystem>);
        Self { fs, env }
    }

    fn options(&self) -> Options {
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.create_missing_column_families = true;
        options.db.env = self.env.clone();
        options
    }

    fn open(&self, options: &Options, families: &[&str]) -> Db {
        let descriptor = |name: &&str| ColumnFamilyDescriptor::new(*name, options.cf.clone());
        Db::open_cf("/db", options.db.clone(), families.iter().map(descriptor).collect()).unwrap()
    }

    /// Bytes of the files whose names end so, one number a file.
    fn sizes(&self, end: &str) -> Vec<u64> {
        let names = self.fs.children(Path::new("/db")).unwrap();
        let ours = names.iter().filter(|name| name.ends_with(end));
        ours.filter_map(|name| self.fs.file_size(&Path::new("/db").join(name)).ok()).collect()
    }
}

fn flush(db: &Db, cf: &ColumnFamily) -> Result<()> {
    db.flush(&FlushOptions::default(), cf)
}

fn put(db: &Db, cf: &ColumnFamily, key: &str, value: &[u8], disable_wal: bool) {
    db.put_opt(&WriteOptions { disable_wal, ..WriteOptions::default() }, cf, key, value).unwrap();
}

#[test]
fn a_flush_that_failed_without_a_background_error_is_tried_again() {
    let world = World::new();
    let mut options = world.options();
    options.db.paranoid_checks = false;
    let db = world.open(&options, &["default"]);
    put(&db, db.default_cf(), "key", b"value", false);
    let fault = Fault::new(Effect::Fail(io_error())).with_operations([Operation::Append]).with_path(".sst");
    world.fs.inject(fault);
    let (again, cf) = (db.clone(), db.default_cf().clone());
    let error = in_time("a flush that fails", move || flush(&again, &cf)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::IoError, "{error}");
    let (again, cf) = (db.clone(), db.default_cf().clone());
    in_time("the next flush", move || flush(&again, &cf)).unwrap();
    assert_eq!(db.live_files().len(), 1);
    // Nobody waits for this one.
    put(&db, db.default_cf(), "other", b"value", false);
    world.fs.inject(Fault::new(Effect::Fail(io_error())).with_operations([Operation::Append]).with_path(".sst"));
    db.flush(&FlushOptions { wait: false, ..FlushOptions::default() }, db.default_cf()).unwrap();
    in_time("a flush that is tried again", move || {
        while db.live_files().len() < 2 {
            SystemClock::new().sleep_micros(1_000);
        }
    });
}

#[test]
fn waiting_for_compactions_ends_with_the_damage_that_they_meet() {
    let world = World::new();
    let mut options = world.options();
    options.cf.disable_auto_compactions = true;
    options.cf.level0_file_num_compaction_trigger = 2;
    let db = world.open(&options, &["default"]);
    for round in 0..2 {
        for i in 0..50 {
            put(&db, db.default_cf(), &format!("key {i}"), &[round; 100], false);
        }
        flush(&db, db.default_cf()).unwrap();
    }
    let path = PathBuf::from(format!("/db{}", db.live_files()[0].name));
    db.close().unwrap();
    drop(db);
    let mut bytes = read_file(&*world.fs, &path, u64::MAX).unwrap();
    bytes[100] ^= 1;
    write_file(&*world.fs, &path, &bytes, false).unwrap();
    options.db.paranoid_checks = false;
    let db = world.open(&options, &["default"]);
    db.set_options(db.default_cf(), &[("disable_auto_compactions", "false")]).unwrap();
    let waiting = db.clone();
    let error = in_time("waiting for compactions", move || waiting.wait_for_compact()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    db.put("writes", "go on").unwrap();
}

#[test]
fn wals_together_stay_below_their_limit_beside_an_idle_family() {
    const LIMIT: u64 = 256 << 10;
    let world = World::new();
    let mut options = world.options();
    options.db.max_total_wal_size = LIMIT;
    options.cf.disable_auto_compactions = true;
    options.cf.compression = firn_format::compression::CompressionType::None;
    let db = world.open(&options, &["default", "cold"]);
    let cold = db.cf("cold").unwrap();
    put(&db, &cold, "once", b"and never again", false);
    let mut largest = 0;
    for i in 0..8000 {
        put(&db, db.default_cf(), &format!("{i:06}"), &[i as u8; 1000], false);
        if i % 1000 == 999 {
            // What was asked for is done.
            db.wait_for_compact().unwrap();
            largest = largest.max(world.sizes(".log").iter().sum::<u64>());
        }
    }
    assert!(largest < 3 * LIMIT, "{largest} bytes of WALs");
    let tables = db.live_files();
    let hot: Vec<u64> = tables.iter().filter(|table| table.column_family == "default").map(|t| t.size_bytes).collect();
    assert!(hot.len() > 5, "{hot:?}");
    assert!(hot.iter().all(|&bytes| bytes > LIMIT / 2), "tables that were not worth a flush: {hot:?}");
    for cf in db.column_families() {
        flush(&db, &cf).unwrap();
    }
    db.wait_for_compact().unwrap();
    let wals = world.sizes(".log").len();
    assert!(wals <= 1, "{wals} WALs, of which one is needed");
    db.close().unwrap();
    let db = world.open(&options, &["default", "cold"]);
    assert_eq!(db.iter().count(), 8000);
    assert!(db.get_opt(&ReadOptions::default(), &db.cf("cold").unwrap(), "once").unwrap().is_some());
}

#[test]
fn families_that_are_flushed_together_become_durable_together() {
    let names = ["default", "b", "c"];
    for wait in [true, false] {
        let world = World::new();
        let options = world.options();
        let db = world.open(&options, &names);
        let families = db.column_families();
        // Old data, in tables and in memory, that goes its own way.
        for cf in &families {
            put(&db, cf, "old", b"value", true);
        }
        flush(&db, &families[1]).unwrap();
        flush(&db, &families[0]).unwrap();
        flush(&db, &families[2]).unwrap();
        families.iter().for_each(|cf| put(&db, cf, "new", b"value", true));
        // What a kill would leave, each time the MANIFEST changes.
        let images: Arc<Mutex<Vec<World>>> = Arc::default();
        let (sink, source) = (Arc::clone(&images), Arc::clone(&world.fs));
        let take = move |_: Operation, path: &Path| {
            if path.to_string_lossy().contains("MANIFEST") {
                sink.lock().unwrap().push(copy(&source));
            }
        };
        let call = Fault::new(Effect::Call(Arc::new(take))).with_path("MANIFEST").with_times(u64::MAX);
        world.fs.inject(call.with_operations([Operation::Append, Operation::Flush, Operation::Sync]));
        let together = FlushOptions { force_atomic_flush: true, wait, ..FlushOptions::default() };
        let handles: Vec<&ColumnFamily> = families.iter().collect();
        db.flush_cfs(&together, &handles).unwrap();
        let waiting = db.clone();
        in_time("a flush of a family that is being flushed", move || {
            waiting.column_families().iter().for_each(|cf| flush(&waiting, cf).unwrap());
        });
        world.fs.heal();
        let mut images = std::mem::take(&mut *images.lock().unwrap());
        images.push(World { fs: Arc::clone(&world.fs), env: world.env.clone() });
        db.close().unwrap();
        drop((families, db));
        assert!(images.len() > 2);
        for (at, image) in images.iter().enumerate() {
            let db = image.open(&image.options(), &names);
            let has = |cf: &&ColumnFamily| db.get_opt(&ReadOptions::default(), cf, "new").unwrap().is_some();
            let count = db.column_families().iter().filter(has).count();
            assert!(count == 0 || count == 3, "wait {wait}: image {at} has {count} of 3 families");
            assert!(at + 1 < images.len() || count == 3);
        }
    }
}

/// The files as they are now, on a file system of their own.
fn copy(fs: &FaultFileSystem) -> World {
    let copy = World::new();
    create_dir_all(&*copy.fs, Path::new("/db")).unwrap();
    for name in fs.children(Path::new("/db")).unwrap().iter().filter(|name| *name != "LOCK") {
        let path = Path::new("/db").join(name);
        let bytes = read_file(fs, &path, u64::MAX).unwrap();
        write_file(&*copy.fs, &path, &bytes, false).unwrap();
    }
    copy
}

#[derive(Default)]
struct SlowListener(AtomicBool);

impl EventListener for SlowListener {
    fn on_flush_completed(&self, _: &FlushJobInfo) {
        SystemClock::new().sleep_micros(100_000);
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_flush_waits_for_listeners_where_it_is_asked_to() {
    let world = World::new();
    let listener = Arc::new(SlowListener::default());
    let mut options = world.options();
    options.db.listeners = vec![Arc::clone(&listener) as Arc<dyn EventListener>];
    let db = world.open(&options, &["default", "b"]);
    for together in [false, true] {
        let families = db.column_families();
        families.iter().for_each(|cf| put(&db, cf, "key", b"value", false));
        listener.0.store(false, Ordering::SeqCst);
        let options = FlushOptions { listener_wait: true, force_atomic_flush: together, ..FlushOptions::default() };
        db.flush_cfs(&options, &families.iter().collect::<Vec<_>>()).unwrap();
        assert!(listener.0.load(Ordering::SeqCst), "together: {together}");
    }
}

#[test]
fn what_belongs_to_another_database_is_refused() {
    let (one, two) = (World::new(), World::new());
    let (a, b) = (one.open(&one.options(), &["default", "x"]), two.open(&two.options(), &["default", "x"]));
    let foreign = b.cf("x").unwrap();
    let mut batch = WriteBatch::new();
    batch.put("key", "value").unwrap();
    batch.put_cf(&foreign, "key", "value").unwrap();
    assert_eq!(a.write(&mut batch).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert!(a.get("key").unwrap().is_none(), "nothing of it was written");
    b.write(&mut batch).unwrap();
    let mixed = batch.put_cf(&a.cf("x").unwrap(), "key", "value");
    assert_eq!(mixed.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let mut other = WriteBatch::new();
    other.delete_cf(a.default_cf(), "key").unwrap();
    assert_eq!(batch.append(&other).unwrap_err().kind(), ErrorKind::InvalidArgument);
    // Numbers name families of any database, and an empty batch begins anew.
    batch.clear();
    batch.put_cf(foreign.id(), "key", "value").unwrap();
    a.write(&mut batch).unwrap();
    assert!(a.get_opt(&ReadOptions::default(), &a.cf("x").unwrap(), "key").unwrap().is_some());

    let options = ReadOptions { snapshot: Some(b.snapshot()), ..ReadOptions::default() };
    let refused = |error: firndb::Error| assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    refused(a.get_opt(&options, a.default_cf(), "key").unwrap_err());
    refused(a.multi_get_opt(&options, a.default_cf(), &["key"]).remove(0).unwrap_err());
    refused(a.cursor(&options, a.default_cf()).unwrap_err());
    refused(a.range_opt::<&[u8], _>(options.clone(), a.default_cf(), ..).next().unwrap().unwrap_err());
    assert!(b.get_opt(&options, b.default_cf(), "key").unwrap().is_some());
}

#[test]
fn an_iterator_that_was_not_stepped_yet_outlives_the_database() {
    let world = World::new();
    let db = world.open(&world.options(), &["default"]);
    db.put("in a table", "value").unwrap();
    flush(&db, db.default_cf()).unwrap();
    db.put("in memory", "value").unwrap();
    let (forward, backward) = (db.iter(), db.iter());
    drop(db);
    assert_eq!(forward.map(|entry| entry.unwrap().0).collect::<Vec<_>>(), [&b"in a table"[..], b"in memory"]);
    assert_eq!(backward.rev().map(|entry| entry.unwrap().0).collect::<Vec<_>>(), [&b"in memory"[..], b"in a table"]);
}

#[test]
fn options_that_would_hold_writers_for_ever_or_take_all_memory_are_refused() {
    let world = World::new();
    let db = world.open(&world.options(), &["default"]);
    for number in ["0", "-1"] {
        let error = db.set_options(db.default_cf(), &[("max_write_buffer_number", number)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    db.set_options(db.default_cf(), &[("max_write_buffer_number", "1")]).unwrap();
    let mut options = World::new().options();
    options.cf.num_levels = i32::MAX;
    let error = Db::open("/db", options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
}

#[test]
fn a_write_while_a_panic_unwinds_is_a_write_like_any_other() {
    struct WritesAtTheEnd(Db);
    impl Drop for WritesAtTheEnd {
        fn drop(&mut self) {
            self.0.put("key", "value").unwrap();
        }
    }
    let world = World::new();
    let db = world.open(&world.options(), &["default"]);
    let writer = WritesAtTheEnd(db.clone());
    let outcome = thread::spawn("unwinding", move || {
        let _writer = writer;
        std::panic::resume_unwind(Box::new("expected by the test"));
    });
    assert!(outcome.unwrap().join().is_err());
    assert!(db.get("key").unwrap().is_some());
}
