//! The queue of writers: who leads, who follows, and that everybody learns the fate of their batch.

use std::sync::Arc;

use firn_env::sync::Mutex;
use firn_env::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use firn_env::thread;
use firn_format::batch::Record;
use firn_format::key::SequenceNumber;
use firndb::write::WriteBatch;
use firndb::write::group::{GroupExecutor, Insertion, Leadership, LoggedGroup, WriteFlags, WriteGroup, WriteThread};
use firndb::{Error, Result};

/// What a write does to the database, with checks of everything that the queue promises.
struct Recorder {
    insertion: Insertion,
    refused: Option<&'static [u8]>,
    stalls: bool,
    leaders: AtomicUsize,
    next: AtomicU64,
    published: AtomicU64,
    inserted: Mutex<Vec<(u64, Vec<u8>)>>,
}

fn recorder(insertion: Insertion) -> Recorder {
    Recorder {
        insertion,
        refused: None,
        stalls: false,
        leaders: AtomicUsize::new(0),
        next: AtomicU64::new(1),
        published: AtomicU64::new(0),
        inserted: Mutex::new(Vec::new()),
    }
}

impl GroupExecutor for Recorder {
    fn prepare(&self, leader: &Leadership<'_>, flags: WriteFlags) -> Result<()> {
        if self.stalls {
            let _stall = leader.begin_stall();
            thread::yield_now();
        }
        if flags.no_slowdown && self.stalls {
            return Err(Error::incomplete("Write stall"));
        }
        assert_eq!(self.leaders.fetch_add(1, Ordering::SeqCst), 0, "one leader at a time");
        Ok(())
    }

    fn log(&self, group: &WriteGroup<'_>) -> Result<LoggedGroup> {
        assert_eq!(group.batches().count(), group.len());
        let first = self.next.fetch_add(group.count(), Ordering::SeqCst);
        Ok(LoggedGroup { first_sequence: SequenceNumber(first), insertion: self.insertion })
    }

    fn insert(&self, batch: &WriteBatch, sequence: SequenceNumber) -> Result<()> {
        for (sequence, record) in (sequence.get()..).zip(batch.records()) {
            let Record::Put { key, .. } = record? else { panic!("only puts") };
            if self.refused == Some(key) {
                return Err(Error::corruption("refused"));
            }
            self.inserted.lock().push((sequence, key.to_vec()));
        }
        Ok(())
    }

    fn publish(&self, last: SequenceNumber) {
        let inserted = self.inserted.lock().len() as u64;
        assert!(self.refused.is_some() || inserted == last.get(), "published before all was inserted");
        assert!(self.published.swap(last.get(), Ordering::SeqCst) < last.get());
        assert_eq!(self.leaders.fetch_sub(1, Ordering::SeqCst), 1);
    }

    fn failed(&self, _: &Error) {
        assert_eq!(self.leaders.fetch_sub(1, Ordering::SeqCst), 1);
    }
}

const KEYS: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];

/// Four writers, one of which writes twice and one of which syncs, beside somebody who wants the queue alone.
fn contend(recorder: Recorder, flags: fn(usize) -> WriteFlags) -> (Arc<Recorder>, Vec<Result<()>>) {
    let recorder = Arc::new(recorder);
    let queue = Arc::new(WriteThread::new(1 << 20));
    let writers: Vec<_> = (0..KEYS.len())
        .map(|n| {
            let (queue, recorder) = (Arc::clone(&queue), Arc::clone(&recorder));
            thread::spawn("writer", move || {
                let mut batch = WriteBatch::new();
                for _ in 0..=n % 2 {
                    batch.put(KEYS[n], b"value").unwrap();
                }
                let result = queue.write(&batch, flags(n), &*recorder);
                if result.is_ok() {
                    let inserted = recorder.inserted.lock();
                    let own = inserted.iter().filter(|(_, key)| key == KEYS[n]).map(|(sequence, _)| *sequence).max();
                    assert!(own.is_some_and(|own| own <= recorder.published.load(Ordering::SeqCst)));
                }
                result
            })
            .unwrap()
        })
        .collect();
    {
        let _alone = queue.enter_exclusive();
        assert_eq!(recorder.leaders.fetch_add(1, Ordering::SeqCst), 0, "alone at the front of the queue");
        thread::yield_now();
        assert_eq!(recorder.leaders.fetch_sub(1, Ordering::SeqCst), 1);
    }
    let results = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
    (recorder, results)
}

fn check_all_inserted(recorder: &Recorder, results: &[Result<()>]) {
    assert!(results.iter().all(Result::is_ok));
    let mut inserted = recorder.inserted.lock().clone();
    inserted.sort();
    let sequences: Vec<u64> = inserted.iter().map(|(sequence, _)| *sequence).collect();
    assert_eq!(sequences, [1, 2, 3, 4, 5, 6], "every update has a sequence number of its own");
    for (n, key) in KEYS.iter().enumerate() {
        assert_eq!(inserted.iter().filter(|(_, other)| other == key).count(), 1 + n % 2);
    }
}

fn some_sync(n: usize) -> WriteFlags {
    WriteFlags { sync: n == 2, ..WriteFlags::default() }
}

pub(crate) fn by_leader() {
    let (recorder, results) = contend(recorder(Insertion::ByLeader), some_sync);
    check_all_inserted(&recorder, &results);
}

pub(crate) fn by_members() {
    let (recorder, results) = contend(recorder(Insertion::ByMembers), some_sync);
    check_all_inserted(&recorder, &results);
}

/// The writer of the batch that is refused always learns it; others only if they were in its group.
pub(crate) fn failing() {
    for insertion in [Insertion::ByLeader, Insertion::ByMembers] {
        let (recorder, results) = contend(Recorder { refused: Some(b"b"), ..recorder(insertion) }, some_sync);
        assert!(results[1].is_err());
        assert_eq!(recorder.leaders.load(Ordering::SeqCst), 0);
        assert!(!recorder.inserted.lock().iter().any(|(_, key)| key == b"b"));
    }
}

/// During stalls writers that will not wait fail, wherever they stand in the queue; the others are written.
pub(crate) fn stalls() {
    let flags = |n| WriteFlags { no_slowdown: n % 2 == 1, ..WriteFlags::default() };
    let (recorder, results) = contend(Recorder { stalls: true, ..recorder(Insertion::ByMembers) }, flags);
    assert!(results[0].is_ok() && results[2].is_ok());
    assert!(results[1].is_err() && results[3].is_err());
    assert_eq!(recorder.inserted.lock().len(), 2);
}
