use super::*;
use firn_error::ErrorKind;

/// A database of the keys inserted, with checks of everything the queue promises.
struct Recorder {
    insertion: Insertion,
    inside: AtomicUsize,
    next: AtomicU64,
    published: AtomicU64,
    inserted: Mutex<Vec<(u64, Vec<u8>)>>,
    groups: Mutex<Vec<usize>>,
    fail_insert_of: Option<&'static [u8]>,
    failures: AtomicUsize,
}

impl Recorder {
    fn new(insertion: Insertion) -> Self {
        Self {
            insertion,
            inside: AtomicUsize::new(0),
            next: AtomicU64::new(1),
            published: AtomicU64::new(0),
            inserted: Mutex::new(Vec::new()),
            groups: Mutex::new(Vec::new()),
            fail_insert_of: None,
            failures: AtomicUsize::new(0),
        }
    }
}

impl GroupExecutor for Recorder {
    fn prepare(&self, _leader: &Leadership<'_>, _flags: WriteFlags) -> Result<()> {
        assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0, "one leader at a time");
        Ok(())
    }

    fn log(&self, group: &WriteGroup<'_>) -> Result<LoggedGroup> {
        assert_eq!(group.batches().count(), group.len());
        assert_eq!(group.batches().map(|batch| u64::from(batch.count())).sum::<u64>(), group.count());
        self.groups.lock().push(group.len());
        let first = self.next.fetch_add(group.count(), Ordering::SeqCst);
        Ok(LoggedGroup { first_sequence: SequenceNumber(first), insertion: self.insertion })
    }

    fn insert(&self, batch: &WriteBatch, sequence: SequenceNumber) -> Result<()> {
        for (index, record) in batch.records().enumerate() {
            let firn_format::batch::Record::Put { key, .. } = record? else { panic!("only puts") };
            if self.fail_insert_of == Some(key) {
                return Err(Error::corruption("refused"));
            }
            self.inserted.lock().push((sequence.get() + index as u64, key.to_vec()));
        }
        Ok(())
    }

    fn publish(&self, last: SequenceNumber) {
        let before = self.published.swap(last.get(), Ordering::SeqCst);
        assert!(before <= last.get());
        assert_eq!(self.inside.fetch_sub(1, Ordering::SeqCst), 1);
    }

    fn failed(&self, _error: &Error) {
        self.failures.fetch_add(1, Ordering::SeqCst);
        assert_eq!(self.inside.fetch_sub(1, Ordering::SeqCst), 1);
    }
}

fn batch_of(keys: &[&str]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for key in keys {
        batch.put(key, "").unwrap();
    }
    batch
}

#[test]
fn pure_rules() {
    let plain = WriteFlags::default();
    let sync = WriteFlags { sync: true, ..plain };
    assert!(may_join(sync, plain) && may_join(sync, sync) && !may_join(plain, sync));
    assert!(!may_join(plain, WriteFlags { disable_wal: true, ..plain }));
    assert!(!may_join(WriteFlags { no_slowdown: true, ..plain }, plain));
    assert_eq!(max_group_bytes(100, 1 << 20), 100 + (1 << 17));
    assert_eq!(max_group_bytes((1 << 17) + 1, 1 << 20), 1 << 20);
}

#[test]
fn a_single_writer_leads_itself() {
    let queue = WriteThread::new(1 << 20);
    let recorder = Recorder::new(Insertion::ByMembers);
    for key in ["a", "b"] {
        queue.write(&batch_of(&[key, "x"]), WriteFlags::default(), &recorder).unwrap();
    }
    assert_eq!(recorder.published.load(Ordering::SeqCst), 4);
    assert_eq!(*recorder.groups.lock(), [1, 1]);
    assert!(queue.newest.load(Ordering::SeqCst).is_null());
}

fn hammer(insertion: Insertion) {
    const THREADS: usize = if cfg!(miri) { 3 } else { 8 };
    const WRITES: usize = if cfg!(miri) { 20 } else { 400 };
    let queue = WriteThread::new(1 << 20);
    let recorder = Recorder::new(insertion);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (queue, recorder) = (&queue, &recorder);
            scope.spawn(move || {
                for write in 0..WRITES {
                    let key = format!("{thread}-{write}");
                    let flags = WriteFlags { sync: write % 5 == 0, disable_wal: write % 7 == 0, no_slowdown: false };
                    let keys = [key.as_str(), "x"];
                    let batch = batch_of(if write % 3 == 0 { &keys } else { &keys[..1] });
                    queue.write(&batch, flags, recorder).unwrap();
                    let first = recorder.inserted.lock().iter().find(|(_, seen)| *seen == key.as_bytes()).unwrap().0;
                    assert!(recorder.published.load(Ordering::SeqCst) >= first, "published before it returns");
                    if write % 50 == 0 {
                        let guard = queue.enter_exclusive();
                        assert_eq!(recorder.inside.load(Ordering::SeqCst), 0);
                        drop(guard);
                    }
                }
            });
        }
    });
    assert!(queue.newest.load(Ordering::SeqCst).is_null());
    let mut inserted = recorder.inserted.lock().clone();
    inserted.sort_unstable();
    let sequences: Vec<u64> = inserted.iter().map(|(sequence, _)| *sequence).collect();
    assert_eq!(sequences, (1..=sequences.len() as u64).collect::<Vec<_>>());
    // Writes of one thread keep their order.
    for thread in 0..THREADS {
        let mine: Vec<usize> = inserted
            .iter()
            .filter_map(|(_, key)| std::str::from_utf8(key).unwrap().strip_prefix(&format!("{thread}-")))
            .map(|write| write.parse().unwrap())
            .collect();
        assert_eq!(mine, (0..WRITES).collect::<Vec<_>>());
    }
    assert_eq!(recorder.groups.lock().iter().sum::<usize>(), THREADS * WRITES);
}

#[test]
fn many_writers_inserted_by_the_leader() {
    hammer(Insertion::ByLeader);
}

#[test]
fn many_writers_inserting_at_once() {
    hammer(Insertion::ByMembers);
}

/// Queues writers up behind a held front, in order, and lets them go.
fn queue_up(
    queue: &WriteThread,
    recorder: &Recorder,
    writers: &[(&str, WriteFlags)],
    meanwhile: impl FnOnce(&ExclusiveGuard<'_>),
) -> Vec<Result<()>> {
    let guard = queue.enter_exclusive();
    thread::scope(|scope| {
        let mut handles = Vec::new();
        for &(key, flags) in writers {
            let before = queue.newest.load(Ordering::SeqCst);
            handles.push(scope.spawn(move || queue.write(&batch_of(&[key]), flags, recorder)));
            while queue.newest.load(Ordering::SeqCst) == before {
                thread::yield_now();
            }
        }
        meanwhile(&guard);
        drop(guard);
        handles.into_iter().map(|handle| handle.join().unwrap()).collect()
    })
}

#[test]
fn groups_form_by_flags() {
    for insertion in [Insertion::ByLeader, Insertion::ByMembers] {
        let queue = WriteThread::new(1 << 20);
        let recorder = Recorder::new(insertion);
        let plain = WriteFlags::default();
        let sync = WriteFlags { sync: true, ..plain };
        let unlogged = WriteFlags { disable_wal: true, ..plain };
        let writers =
            [("a", sync), ("b", plain), ("c", sync), ("d", plain), ("e", unlogged), ("f", plain), ("g", sync)];
        let results = queue_up(&queue, &recorder, &writers, |_| {});
        assert!(results.iter().all(Result::is_ok));
        assert_eq!(*recorder.groups.lock(), [4, 1, 1, 1]);
    }
}

#[test]
fn groups_have_a_size_limit() {
    let queue = WriteThread::new(8 * 16);
    let recorder = Recorder::new(Insertion::ByLeader);
    let plain = WriteFlags::default();
    // Each batch has 16 bytes: not above an eighth of the limit, so that a group may have 32.
    let results = queue_up(&queue, &recorder, &[("a", plain); 5], |_| {});
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(*recorder.groups.lock(), [2, 2, 1]);
}

#[test]
fn a_failed_insertion_fails_the_group() {
    for insertion in [Insertion::ByLeader, Insertion::ByMembers] {
        let queue = WriteThread::new(1 << 20);
        let recorder = Recorder { fail_insert_of: Some(b"b"), ..Recorder::new(insertion) };
        let plain = WriteFlags::default();
        let results = queue_up(&queue, &recorder, &[("a", plain), ("b", plain), ("c", plain)], |_| {});
        assert!(results.iter().all(|result| result.as_ref().is_err_and(Error::is_corruption)));
        assert_eq!(recorder.failures.load(Ordering::SeqCst), 1);
        queue.write(&batch_of(&["d"]), plain, &recorder).unwrap();
    }
}

#[test]
fn a_stall_rejects_writers_that_will_not_wait() {
    let queue = WriteThread::new(1 << 20);
    let recorder = Recorder::new(Insertion::ByLeader);
    let plain = WriteFlags::default();
    let hasty = WriteFlags { no_slowdown: true, ..plain };
    let writers = [("a", hasty), ("b", plain), ("c", hasty), ("d", hasty), ("e", plain), ("f", hasty)];
    let results = queue_up(&queue, &recorder, &writers, |guard| {
        let stall = guard.leadership().begin_stall();
        let rejected = queue.write(&batch_of(&["g"]), hasty, &recorder).unwrap_err();
        assert_eq!((rejected.kind(), rejected.message()), (ErrorKind::Incomplete, "Write stall"));
        drop(stall);
    });
    for ((key, flags), result) in writers.iter().zip(results) {
        assert_eq!(result.is_err(), flags.no_slowdown, "{key}");
    }
    assert_eq!(*recorder.groups.lock(), [2]);
    queue.write(&batch_of(&["h"]), hasty, &recorder).unwrap();
}
