//! Recycled WALs: a file belongs to one writer at a time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;

use firndb::env::fault::{Callback, Effect, Fault, FaultFileSystem, Operation};
use firndb::env::memory::MemoryFileSystem;
use firndb::env::{Env, thread};
use firndb::options::FlushOptions;
use firndb::{Db, Options};

/// A switch of WALs that does not wait for the flush behind it.
fn switch_wal(db: &Db) {
    db.put("key", "value").unwrap();
    let flush = FlushOptions { wait: false, allow_write_stall: true, ..FlushOptions::default() };
    db.flush(&flush, db.default_cf()).unwrap();
}

fn recycling(fs: &FaultFileSystem) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_file_system(Arc::new(fs.clone()));
    options.db.recycle_log_file_num = 4;
    options.cf.max_write_buffer_number = 16;
    options
}

/// While the old writer of an obsolete WAL is about to close, writers that need new WALs must not be given its file:
/// closing cuts the file, whose new records would be lost.
#[test]
fn a_wal_is_not_used_again_while_its_old_writer_is_open() {
    let fs = FaultFileSystem::new(Arc::new(MemoryFileSystem::new()));
    let handle: Arc<OnceLock<Db>> = Arc::default();
    let closed: Arc<Mutex<BTreeSet<PathBuf>>> = Arc::default();
    let reused_open: Arc<Mutex<Vec<PathBuf>>> = Arc::default();
    let held_back = Arc::new(AtomicBool::new(false));
    let callback: Callback = {
        let (handle, closed) = (Arc::clone(&handle), Arc::clone(&closed));
        let (reused_open, held_back) = (Arc::clone(&reused_open), Arc::clone(&held_back));
        Arc::new(move |operation, path| match operation {
            Operation::Close => {
                if let Some(db) = handle.get().cloned()
                    && !held_back.swap(true, Ordering::SeqCst)
                {
                    let (done, others) = mpsc::channel();
                    let writer = move || {
                        (0..3).for_each(|_| switch_wal(&db));
                        done.send(()).unwrap();
                    };
                    thread::spawn("writer", writer).unwrap();
                    others.recv_timeout(Duration::from_secs(60)).expect("writers do not wait for a close");
                }
                closed.lock().unwrap().insert(path.to_path_buf());
            }
            _ => {
                if !closed.lock().unwrap().contains(path) {
                    reused_open.lock().unwrap().push(path.to_path_buf());
                }
            }
        })
    };
    fs.inject(
        Fault::new(Effect::Call(callback))
            .with_operations([Operation::Close, Operation::Reuse])
            .with_path(".log")
            .with_times(u64::MAX),
    );
    let db = Db::open("/db", recycling(&fs)).unwrap();
    assert!(handle.set(db.clone()).is_ok());
    for _ in 0..20 {
        db.put("key", "value").unwrap();
        db.flush(&FlushOptions::default(), db.default_cf()).unwrap();
    }
    assert!(held_back.load(Ordering::SeqCst), "no WAL was closed");
    assert!(fs.count(Operation::Reuse) > 5, "WALs are recycled");
    assert_eq!(*reused_open.lock().unwrap(), Vec::<PathBuf>::new(), "reused while their old writers were open");
    db.close().unwrap();
    fs.heal(); // the callback holds the database, which holds the file system
}

/// Who looks for files that nobody needs while a WAL is about to get the file of another one must leave that file alone.
#[test]
fn a_wal_that_is_about_to_be_used_again_is_no_garbage() {
    let fs = FaultFileSystem::new(Arc::new(MemoryFileSystem::new()));
    let db = Db::open("/db", recycling(&fs)).unwrap();
    for _ in 0..10 {
        db.put("key", "value").unwrap();
        db.flush(&FlushOptions::default(), db.default_cf()).unwrap();
    }
    db.wait_for_compact().unwrap();
    let (arrived, arrival) = mpsc::channel();
    let (leave, departure) = mpsc::channel();
    let departure = Mutex::new(departure);
    let wait = move || departure.lock().unwrap().recv_timeout(Duration::from_secs(60)).expect("the search ends");
    let about_to_rename: Callback = Arc::new(move |_, _| {
        arrived.send(()).unwrap();
        wait();
    });
    let arrival = Mutex::new(arrival);
    let (writer, shared) = (Arc::new(OnceLock::new()), db.clone());
    let listing: Callback = {
        let writer = Arc::clone(&writer);
        Arc::new(move |_, _| {
            let db = shared.clone();
            let switch = thread::spawn("writer", move || switch_wal(&db)).unwrap();
            assert!(writer.set(Mutex::new(Some(switch))).is_ok());
            arrival.lock().unwrap().recv_timeout(Duration::from_secs(60)).expect("a WAL is there to be used again");
        })
    };
    fs.inject(Fault::new(Effect::Call(about_to_rename)).with_operations([Operation::Reuse]));
    fs.inject(Fault::new(Effect::Call(listing)).with_operations([Operation::List]));
    db.disable_file_deletions().unwrap();
    db.enable_file_deletions().unwrap();
    leave.send(()).unwrap();
    let switch = writer.get().expect("the directory was listed").lock().unwrap().take().unwrap();
    switch.join().expect("the file was there to be renamed");
    db.close().unwrap();
    fs.heal(); // the callbacks hold the database, which holds the file system
}
