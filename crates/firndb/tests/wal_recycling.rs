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
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_file_system(Arc::new(fs.clone()));
    options.db.recycle_log_file_num = 4;
    options.cf.max_write_buffer_number = 16;
    let db = Db::open("/db", options).unwrap();
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
