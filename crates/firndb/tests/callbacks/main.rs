//! Callbacks that misbehave: every one there is, made to panic, to block, to drop the last handle, to read, to write, to
//! close. Whatever they do, no call hangs, the process lives, and the database can be opened again with all that was
//! acknowledged.
//!
//! One scene makes the database call everything that it can call; each test plays it for every place and one misdeed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod probe;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use firn_env::{Clock, FileSystem, SystemClock, thread};
use firndb::env::Env;
use firndb::env::fault::{Effect, Fault, FaultFileSystem, Operation, retryable_error};
use firndb::options::{
    BlockBasedTableOptions, CompactRangeOptions, FlushOptions, IngestExternalFileOptions, ReadOptions, TableFactory,
    WriteOptions,
};
use firndb::stats::EventListener;
use firndb::{Db, Options, sst_file_writer};

use probe::{Action, Everything, Probe};

/// How long a scene may take before it counts as hanging.
const WATCHDOG: Duration = Duration::from_secs(120);

/// Places that run on threads of the database, where a callback may hold the last handle.
const BACKGROUND: [&str; 18] = [
    "flush begin",
    "flush completed",
    "compaction begin",
    "compaction pre-commit",
    "compaction completed",
    "subcompaction begin",
    "subcompaction completed",
    "table creation started",
    "table created",
    "table deleted",
    "compaction filter",
    "compaction filter factory",
    "partial merge",
    "comparator in the background",
    "rate limiter",
    "creating a table",
    "appending to a table",
    "syncing a MANIFEST",
];

/// The other places.
const FOREGROUND: [&str; 22] = [
    "manual flush scheduled",
    "memtable sealed",
    "handle deletion started",
    "external file ingested",
    "background error",
    "error recovery begin",
    "error recovery end",
    "file operation finished",
    "I/O error",
    "stall conditions changed",
    "shutdown begin",
    "full merge",
    "comparator in a call",
    "prefix extractor",
    "logger",
    "creating a WAL",
    "appending to a WAL",
    "syncing a WAL",
    "appending to a MANIFEST",
    "syncing a table",
    "reading a table",
    "removing a table",
];

/// Where the database may not be called: the callback runs under locks, or within what the call would need.
fn may_call_back(place: &str) -> bool {
    let is_file = ["file operation finished", "I/O error", "logger", "rate limiter"].contains(&place);
    !is_file && !place.contains(" a ")
}

/// Where a write would wait for itself.
fn may_write(place: &str) -> bool {
    let at_front = ["memtable sealed", "stall conditions changed"].contains(&place);
    let in_write = at_front || ["comparator in a call", "prefix extractor", "full merge"].contains(&place);
    may_call_back(place) && !in_write
}

struct Scene {
    place: &'static str,
    action: Action,
    env: Env,
    fs: Arc<FaultFileSystem>,
    probe: Arc<Probe>,
    /// What was acknowledged.
    written: Mutex<BTreeMap<String, String>>,
}

impl Scene {
    fn new(place: &'static str, action: Action) -> Arc<Self> {
        let fs = Arc::new(FaultFileSystem::new(Arc::clone(Env::memory().fs())));
        let env = Env::with_file_system(Arc::clone(&fs) as Arc<dyn FileSystem>);
        Arc::new(Self { place, action, env, fs, probe: Probe::new(place, action), written: Mutex::default() })
    }

    fn options(&self) -> Options {
        let mut options = Options::default();
        let everything = Everything(Arc::clone(&self.probe));
        options.db.create_if_missing = true;
        options.db.env = self.env.clone();
        options.db.listeners = vec![Arc::new(everything.clone()) as Arc<dyn EventListener>];
        options.db.info_log = Some(Arc::new(everything.clone()));
        options.db.rate_limiter = Some(Arc::new(everything.clone()));
        options.db.bgerror_resume_retry_interval = 1_000;
        options.cf.merge_operator = Some(Arc::new(everything.clone()));
        options.cf.comparator = Arc::new(everything.clone());
        options.cf.prefix_extractor = Some(Arc::new(everything.clone()));
        if self.place == "compaction filter" {
            options.cf.compaction_filter = Some(Arc::new(everything.clone()));
        } else {
            options.cf.compaction_filter_factory = Some(Arc::new(everything));
        }
        // Where compactions never come, their backlog holds nobody up.
        options.cf.disable_auto_compactions = self.place != "stall conditions changed";
        options.cf.level0_file_num_compaction_trigger = 2;
        options.cf.level0_slowdown_writes_trigger = 2;
        options.cf.memtable_prefix_bloom_size_ratio = 0.1;
        // Blocks are read again and again.
        let table = BlockBasedTableOptions { no_block_cache: true, ..BlockBasedTableOptions::default() };
        options.cf.table_factory = TableFactory::BlockBased(table);
        options
    }

    fn open(&self) -> firndb::Result<Db> {
        Db::open("/db", self.options())
    }

    /// Has the file system call the probe.
    fn watch_files(&self) {
        let callback = Everything(Arc::clone(&self.probe)).file_system();
        self.fs.inject(Fault::new(Effect::Call(callback)).with_times(u64::MAX));
    }

    /// Runs one step. What a callback throws into it is the caller's; what it returns may be an error.
    fn step<T>(&self, step: impl FnOnce() -> firndb::Result<T>) -> Option<T> {
        catch_unwind(AssertUnwindSafe(step)).ok().and_then(|result| result.ok())
    }

    fn put(&self, db: &Db, key: &str, value: &str) {
        let options = WriteOptions { sync: key.ends_with('5'), ..WriteOptions::default() };
        if self.step(|| db.put_opt(&options, db.default_cf(), key, value)).is_some() {
            self.written.lock().unwrap().insert(key.to_owned(), value.to_owned());
        }
    }

    fn merge(&self, db: &Db, key: &str, operand: &str) {
        if self.step(|| db.merge(key, operand)).is_some() {
            self.written.lock().unwrap().entry(key.to_owned()).or_default().push_str(operand);
        }
    }

    fn write_some(&self, db: &Db, round: usize) {
        for i in 0..10 {
            self.put(db, &format!("key {i}"), &format!("value {round}"));
        }
        self.merge(db, "merged", "a");
        self.merge(db, "merged", "b");
    }

    /// Everything that a database calls back for.
    fn play(&self, db: &Db) {
        let flush = |options: &FlushOptions| self.step(|| db.flush(options, db.default_cf()));
        for round in 0..4 {
            self.write_some(db, round);
            flush(&FlushOptions::default());
        }
        self.step(|| db.get("merged"));
        self.step(|| db.iter().map(|entry| entry.map(|_| ())).collect::<firndb::Result<Vec<_>>>());
        let seek = ReadOptions { prefix_same_as_start: true, ..ReadOptions::default() };
        self.step(|| db.cursor(&seek, db.default_cf()).map(|mut cursor| cursor.seek(b"key 4")));
        self.step(|| db.compact_range(&CompactRangeOptions::default(), db.default_cf(), None, None));
        let other = self.step(|| db.create_cf("other", self.options().cf));
        self.step(|| other.as_ref().map_or(Ok(()), |cf| db.drop_cf(cf)));
        self.step(|| {
            drop(other);
            Ok(())
        });
        self.step(|| {
            let mut writer = sst_file_writer(&self.options());
            writer.open(Path::new("/external.sst"))?;
            writer.put(b"z external", b"value")?;
            writer.finish()?;
            let files = [Path::new("/external.sst").to_path_buf()];
            db.ingest_external_file(db.default_cf(), &files, &IngestExternalFileOptions::default())
        });
        // An error that the database recovers from by itself.
        // The first fault that fits an operation is taken.
        self.fs.heal();
        let fault = Fault::new(Effect::Fail(retryable_error())).with_operations([Operation::Create]).with_path(".sst");
        self.fs.inject(fault);
        self.watch_files();
        self.write_some(db, 5);
        flush(&FlushOptions { wait: false, ..FlushOptions::default() });
        let clock = SystemClock::new();
        for i in 0..40 {
            clock.sleep_micros(2_000);
            self.put(db, &format!("later {i}"), "value");
        }
        flush(&FlushOptions::default());
        self.step(|| db.set_options(db.default_cf(), &[("disable_auto_compactions", "false")]));
        self.step(|| db.wait_for_compact());
        self.step(|| db.resume());
    }

    /// The whole scene, until the database is closed and was opened again.
    fn run(&self) {
        let db = self.open().unwrap();
        *self.probe.db.lock().unwrap() = Some(db.clone());
        // Nobody waits for the test's own handle to go.
        self.probe.alone.store(true, Ordering::SeqCst);
        self.watch_files();
        self.probe.arm();
        self.play(&db);
        self.step(|| db.close());
        drop(self.probe.db.lock().unwrap().take());
        drop(db);
        self.check();
    }

    /// Drops the test's handles while the database works, so that the callback has the last one.
    fn run_alone(&self) {
        let db = self.open().unwrap();
        for round in 0..3 {
            self.write_some(&db, round);
            db.flush(&FlushOptions::default(), db.default_cf()).unwrap();
        }
        self.write_some(&db, 4);
        *self.probe.db.lock().unwrap() = Some(db.clone());
        self.watch_files();
        let flush = FlushOptions { wait: false, ..FlushOptions::default() };
        // The background starts on compactions first, or on the flush first, as the place needs it.
        self.probe.arm();
        db.set_options(db.default_cf(), &[("disable_auto_compactions", "false")]).unwrap();
        db.flush(&flush, db.default_cf()).unwrap();
        drop(db);
        self.probe.alone.store(true, Ordering::SeqCst);
        let clock = SystemClock::new();
        while !self.probe.was_reached() {
            clock.sleep_micros(1_000);
        }
        // Nobody but the callback drops it.
        while self.probe.db.lock().unwrap().is_some() {
            clock.sleep_micros(1_000);
        }
        self.check();
    }

    /// Opens the database as soon as it is closed, and looks whether all is there that was acknowledged.
    fn check(&self) {
        self.fs.heal();
        let db = loop {
            match self.open() {
                Ok(db) => break db,
                Err(error) if error.to_string().contains("lock") => SystemClock::new().sleep_micros(2_000),
                Err(error) => panic!("{}, {:?}: {error}", self.place, self.action),
            }
        };
        for (key, value) in &*self.written.lock().unwrap() {
            let got = db.get(key).unwrap().map(|value| String::from_utf8(value.to_vec()).unwrap());
            // An operand whose write failed may be there too.
            let matches = got.as_deref().is_some_and(|got| got == value || key == "merged" && got.len() > value.len());
            assert!(matches || is_newer(key, got.as_deref()), "{}: {key} is {got:?}, not {value:?}", self.place);
        }
        db.put("usable", "again").unwrap();
        db.flush(&FlushOptions::default(), db.default_cf()).unwrap();
        assert_eq!(db.iter().filter(|entry| entry.is_err()).count(), 0);
        db.close().unwrap();
    }
}

/// A write that failed may have taken effect.
fn is_newer(key: &str, got: Option<&str>) -> bool {
    key.starts_with("key ") && got.is_some_and(|got| got.starts_with("value "))
}

/// Runs scenes, each on a thread that may hang.
fn play_all(places: impl Iterator<Item = &'static str>, action: Action, play: fn(&Scene)) {
    let mut failures = Vec::new();
    for place in places {
        let (done, waiting) = mpsc::channel();
        let scene = Scene::new(place, action);
        let probe = Arc::clone(&scene.probe);
        let thread = thread::spawn("scene", move || {
            play(&scene);
            let _ = done.send(());
        })
        .unwrap();
        match waiting.recv_timeout(WATCHDOG) {
            Ok(()) => {}
            // The sender is gone without a word: the scene panicked.
            Err(mpsc::RecvTimeoutError::Disconnected) => failures.push(format!("{place}: {:?}", said(thread.join()))),
            Err(mpsc::RecvTimeoutError::Timeout) => failures.push(format!("{place}: hangs")),
        }
        if !probe.was_reached() {
            failures.push(format!("{place}: never reached"));
        }
    }
    assert!(failures.is_empty(), "{action:?}:\n{}", failures.join("\n"));
}

fn said(outcome: std::thread::Result<()>) -> String {
    let panic = outcome.expect_err("it panicked");
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

fn everywhere() -> impl Iterator<Item = &'static str> {
    BACKGROUND.into_iter().chain(FOREGROUND)
}

#[test]
fn a_panic_in_any_callback_leaves_no_call_waiting() {
    play_all(everywhere(), Action::Panic, Scene::run);
}

#[test]
fn any_callback_may_take_its_time() {
    play_all(everywhere(), Action::Block, Scene::run);
}

#[test]
fn any_callback_may_drop_a_handle() {
    play_all(everywhere(), Action::DropLast, Scene::run);
}

#[test]
fn a_callback_on_a_thread_of_the_database_may_drop_the_last_handle() {
    play_all(BACKGROUND.into_iter(), Action::DropLast, Scene::run_alone);
}

#[test]
fn callbacks_may_read() {
    play_all(everywhere().filter(|place| may_call_back(place)), Action::Read, Scene::run);
}

#[test]
fn callbacks_outside_of_writes_may_write() {
    play_all(everywhere().filter(|place| may_write(place)), Action::Write, Scene::run);
}

#[test]
fn a_callback_of_a_job_cannot_close_but_does_not_hang() {
    let background = BACKGROUND.into_iter().filter(|place| may_call_back(place));
    play_all(background, Action::Close, Scene::run);
}
