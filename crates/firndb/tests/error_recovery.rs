//! How the database goes on after files failed or the disk was full: by itself where that can work, and never without what
//! it acknowledged.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use firndb::env::fault::{Effect, Fault, FaultFileSystem, Operation, io_error, retryable_error};
use firndb::env::{Env, FileSystem, create_dir_all, read_file, write_file};
use firndb::options::{FlushOptions, WriteOptions};
use firndb::stats::EventListener;
use firndb::stats::events::ErrorRecoveryInfo;
use firndb::{BackgroundErrorReason, Db, Error, ErrorKind, Options, Severity, SubCode};

/// Writes down how recoveries begin and end.
#[derive(Default)]
struct Recorder(Mutex<Vec<String>>);

impl Recorder {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
    fn wait_for_end(&self, env: &Env) -> Vec<String> {
        for _ in 0..3000 {
            if self.0.lock().unwrap().iter().any(|line| line.starts_with("end")) {
                return self.take();
            }
            env.clock().sleep_micros(10_000);
        }
        panic!("the recovery does not end: {:?}", self.take());
    }
}

impl EventListener for Recorder {
    fn on_error_recovery_begin(&self, reason: BackgroundErrorReason, _: &Error) -> bool {
        self.0.lock().unwrap().push(format!("begin {reason:?}"));
        true
    }
    fn on_error_recovery_end(&self, info: &ErrorRecoveryInfo) {
        let new = info.new_error.as_ref().map(|error| error.message().to_owned());
        self.0.lock().unwrap().push(format!("end {:?} {new:?}", info.old_error.severity()));
    }
}

struct World {
    fs: Arc<FaultFileSystem>,
    env: Env,
    recorder: Arc<Recorder>,
}

impl World {
    fn new() -> Self {
        let fs = Arc::new(FaultFileSystem::new(Arc::clone(Env::memory().fs())));
        let env = Env::with_file_system(Arc::clone(&fs) as Arc<dyn FileSystem>);
        Self { fs, env, recorder: Arc::default() }
    }

    fn options(&self) -> Options {
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.env = self.env.clone();
        options.db.listeners = vec![Arc::clone(&self.recorder) as Arc<dyn EventListener>];
        options.db.bgerror_resume_retry_interval = 20_000;
        options.cf.write_buffer_size = 64 << 10;
        options
    }

    fn open(&self) -> Db {
        Db::open("/db", self.options()).unwrap()
    }

    /// What a kill of the process would leave, on a file system of its own.
    fn copy(&self) -> Self {
        let copy = Self::new();
        create_dir_all(&*copy.fs, Path::new("/db")).unwrap();
        for name in self.fs.children(Path::new("/db")).unwrap() {
            let path = PathBuf::from("/db").join(name);
            let bytes = read_file(&*self.fs, &path, 64 << 20).unwrap();
            write_file(&*copy.fs, &path, &bytes, false).unwrap();
        }
        copy
    }
}

fn flush(db: &Db) -> firndb::Result<()> {
    db.flush(&FlushOptions::default(), db.default_cf())
}

/// Puts until it works again, or panics after a while.
fn put_until_it_works(db: &Db, env: &Env, options: &WriteOptions, key: &str, value: &str) -> usize {
    for failures in 0..3000 {
        match db.put_opt(options, db.default_cf(), key, value) {
            Ok(()) => return failures,
            Err(error) => assert!(error.severity() < Severity::Fatal, "{error}"),
        }
        env.clock().sleep_micros(10_000);
    }
    panic!("writes do not go on: {:?}", db.put(key, value));
}

fn check(db: &Db, acknowledged: &BTreeMap<String, String>) {
    for (key, value) in acknowledged {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(value.as_bytes()), "{key}");
    }
    assert_eq!(db.iter().count(), acknowledged.len());
}

#[test]
fn a_full_disk_stops_writes_until_there_is_space_again() {
    // The limits let the disk fill in the middle of a WAL, a table, a MANIFEST or the creation of a file.
    for limit in [0, 700, 5_000, 40_000, 66_000, 69_500, 70_500, 75_000, 139_000, 200_000] {
        let world = World::new();
        let db = world.open();
        let mut acknowledged = BTreeMap::new();
        world.fs.limit_space(Some(limit));
        let mut stopped = None;
        for i in 0..3000 {
            let (key, value) = (format!("key{i:05}"), format!("{i:0150}"));
            match db.put(&key, &value) {
                Ok(()) => acknowledged.insert(key, value),
                Err(error) => {
                    stopped = Some(error);
                    break;
                }
            };
        }
        let stopped = stopped.unwrap();
        assert_eq!(stopped.subcode(), SubCode::NoSpace, "limit {limit}: {stopped}");
        assert!(db.put("more", "while it is full").is_err());
        check(&db, &acknowledged);
        world.fs.limit_space(None);
        put_until_it_works(&db, &world.env, &WriteOptions::default(), "after", "the space came back");
        acknowledged.insert("after".to_owned(), "the space came back".to_owned());
        check(&db, &acknowledged);
        // Listeners hear of the end after writes go on.
        let lines = world.recorder.wait_for_end(&world.env);
        assert!(lines[0].starts_with("begin ") && lines.last().unwrap().ends_with("None"), "{lines:?}");
        let killed = world.copy();
        check(&killed.open(), &acknowledged);
        db.close().unwrap();
        check(&world.open(), &acknowledged);
    }
}

#[test]
fn errors_that_pass_are_recovered_from_wherever_they_arise() {
    use Operation::{Append, Create, Flush, Sync, SyncDirectory};
    for (operation, path) in [
        (Append, ".log"),
        (Flush, ".log"),
        (Sync, ".log"),
        (Create, ".log"),
        (Create, ".sst"),
        (Append, ".sst"),
        (Sync, ".sst"),
        (Append, "MANIFEST"),
        (Sync, "MANIFEST"),
        (SyncDirectory, "db"),
    ] {
        let world = World::new();
        let db = world.open();
        let mut acknowledged = BTreeMap::new();
        let mut failures = 0;
        for i in 0..1500 {
            if i == 300 {
                let fault = Fault::new(Effect::Fail(retryable_error())).with_operations([operation]).with_path(path);
                world.fs.inject(fault.with_times(3));
            }
            let (key, value) = (format!("key{i:05}"), format!("{i:0150}"));
            let options = WriteOptions { sync: i % 100 == 0, ..WriteOptions::default() };
            failures += put_until_it_works(&db, &world.env, &options, &key, &value);
            acknowledged.insert(key, value);
        }
        assert!(!world.fs.fired().is_empty(), "{operation:?} {path}");
        check(&db, &acknowledged);
        let is_wal = path == ".log";
        assert!(failures > 0 || !is_wal, "{operation:?} {path}");
        check(&world.copy().open(), &acknowledged);
        db.close().unwrap();
        check(&world.open(), &acknowledged);
    }
}

#[test]
fn a_record_whose_write_failed_does_not_come_back() {
    let world = World::new();
    let db = world.open();
    // The record is in the WAL in full, but the writer was told that it is not.
    let fault = Fault::new(Effect::FailAfter(retryable_error())).with_operations([Operation::Append]);
    world.fs.inject(fault.with_path(".log"));
    assert!(db.put("failed", "1").is_err());
    let lines = world.recorder.wait_for_end(&world.env);
    assert_eq!(lines, ["begin WriteCallback", "end Hard None"]);
    db.put("went well", "2").unwrap();
    let killed = world.copy().open();
    assert_eq!(killed.get("failed").unwrap(), None);
    assert_eq!(killed.get("went well").unwrap().as_deref(), Some(&b"2"[..]));
}

#[test]
fn writes_go_on_while_a_flush_is_tried_again() {
    let world = World::new();
    let db = world.open();
    db.put("key", "value").unwrap();
    let fault = Fault::new(Effect::Fail(retryable_error())).with_operations([Operation::Append]).with_path(".sst");
    world.fs.inject(fault.with_times(u64::MAX));
    assert_eq!(flush(&db).unwrap_err().severity(), Severity::Soft);
    db.put("other", "written meanwhile").unwrap();
    assert_eq!(db.resume().unwrap_err().kind(), ErrorKind::Busy);
    world.fs.heal();
    let lines = world.recorder.wait_for_end(&world.env);
    assert_eq!(lines, ["begin FlushNoWal", "end Soft None"]);
    flush(&db).unwrap();
    assert_eq!(db.iter().count(), 2);
}

#[test]
fn recovery_gives_up_after_so_many_attempts_and_resume_goes_on() {
    for attempts in [0, 2] {
        let world = World::new();
        let mut options = world.options();
        options.db.max_bgerror_resume_count = attempts;
        let db = Db::open("/db", options).unwrap();
        db.put("key", "value").unwrap();
        let fault = Fault::new(Effect::Fail(retryable_error())).with_operations([Operation::Append]).with_path(".sst");
        world.fs.inject(fault.with_times(u64::MAX));
        assert_eq!(flush(&db).unwrap_err().severity(), Severity::Soft);
        db.put("key", "writes go on").unwrap();
        if attempts > 0 {
            let lines = world.recorder.wait_for_end(&world.env);
            assert_eq!(lines, ["begin FlushNoWal", "end Soft Some(\"Exceeded resume retry count\")"]);
        }
        assert!(db.resume().is_err());
        world.fs.heal();
        world.recorder.take();
        db.resume().unwrap();
        assert_eq!(world.recorder.take(), ["end Soft None"]);
        flush(&db).unwrap();
        db.resume().unwrap();
        assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"writes go on"[..]));
    }
}

#[test]
fn resume_replaces_a_wal_that_failed() {
    let world = World::new();
    let mut options = world.options();
    options.db.max_bgerror_resume_count = 0;
    let db = Db::open("/db", options).unwrap();
    db.put("before", "1").unwrap();
    let fault = Fault::new(Effect::Tear(3, retryable_error())).with_operations([Operation::Append]).with_path(".log");
    world.fs.inject(fault);
    assert!(db.put("torn", "2").is_err());
    assert_eq!(db.put("stopped", "3").unwrap_err().severity(), Severity::Hard);
    db.resume().unwrap();
    db.put("after", "4").unwrap();
    for db in [db, world.copy().open()] {
        let keys: Vec<_> = db.iter().map(|entry| entry.unwrap().0.to_vec()).collect();
        assert_eq!(keys, [b"after".to_vec(), b"before".to_vec()]);
    }
}

#[test]
fn what_cannot_pass_is_final() {
    let world = World::new();
    let db = world.open();
    db.put("key", "value").unwrap();
    world.fs.inject(Fault::new(Effect::Fail(io_error())).with_operations([Operation::Append]).with_path(".sst"));
    assert_eq!(flush(&db).unwrap_err().severity(), Severity::Fatal);
    assert_eq!(db.put("key", "stopped").unwrap_err().severity(), Severity::Fatal);
    assert_eq!(db.resume().unwrap_err().severity(), Severity::Fatal);
    assert!(world.recorder.take().is_empty());
    drop(db);
    assert_eq!(world.open().get("key").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn a_database_closes_in_the_middle_of_a_recovery() {
    let world = World::new();
    let mut options = world.options();
    options.db.bgerror_resume_retry_interval = u64::MAX / 4000;
    let db = Db::open("/db", options).unwrap();
    db.put("key", "value").unwrap();
    let fault = Fault::new(Effect::Fail(retryable_error())).with_operations([Operation::Append]).with_path(".sst");
    world.fs.inject(fault.with_times(u64::MAX));
    assert!(flush(&db).is_err());
    db.close().unwrap();
    assert_eq!(world.recorder.take().len(), 2);
    world.fs.heal();
    assert_eq!(world.open().get("key").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn a_write_that_was_refused_since_the_directory_was_not_synced_never_comes_back() {
    let world = World::new();
    let mut options = world.options();
    options.db.max_bgerror_resume_count = 0;
    let db = Db::open("/db", options).unwrap();
    let sync = WriteOptions { sync: true, ..WriteOptions::default() };
    let put = |key| db.put_opt(&sync, db.default_cf(), key, "value");
    // The first synced write of a WAL syncs the directory that its name is in.
    world.fs.inject(Fault::new(Effect::Fail(retryable_error())).with_operations([Operation::SyncDirectory]));
    put("refused").unwrap_err();
    assert_eq!(world.fs.fired().len(), 1);
    db.resume().unwrap();
    put("accepted").unwrap();
    assert_eq!(db.get("refused").unwrap(), None);
    check(&world.copy().open(), &BTreeMap::from([("accepted".to_owned(), "value".to_owned())]));
}
