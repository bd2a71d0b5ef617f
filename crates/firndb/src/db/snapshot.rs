//! Snapshots: sequence numbers that readers keep alive.
//!
//! A [`Snapshot`] pins what was visible when it was taken: as long as it lives, no compaction drops an entry that it can
//! see. The list of live snapshots flows out to flushes and compactions as sorted distinct sequence numbers.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use firn_env::sync::Mutex;
use firn_format::key::SequenceNumber;

/// The live snapshots of one database: sequence number and how many handles share it.
#[derive(Debug, Default)]
pub(crate) struct SnapshotList {
    live: Mutex<BTreeMap<SequenceNumber, Entry>>,
}

#[derive(Debug)]
struct Entry {
    handles: u64,
    unix_seconds: u64,
}

impl SnapshotList {
    /// Takes a snapshot of what `read_sequence` returns. The sequence is read under the list's lock, so that a job which
    /// lists the snapshots later cannot miss one that was taken at an older sequence.
    pub(crate) fn take(
        self: &Arc<Self>,
        read_sequence: impl FnOnce() -> SequenceNumber,
        unix_seconds: u64,
        on_release: Weak<dyn SnapshotReleased>,
    ) -> Snapshot {
        let mut live = self.live.lock();
        let sequence = read_sequence();
        live.entry(sequence).or_insert(Entry { handles: 0, unix_seconds }).handles += 1;
        Snapshot(Arc::new(Inner { sequence, list: Arc::clone(self), on_release }))
    }

    /// The live sequence numbers, ascending and distinct.
    pub(crate) fn sequences(&self) -> Vec<SequenceNumber> {
        self.live.lock().keys().copied().collect()
    }

    /// The oldest live sequence number and when it was taken (unix seconds).
    pub(crate) fn oldest(&self) -> Option<(SequenceNumber, u64)> {
        self.live.lock().first_key_value().map(|(sequence, entry)| (*sequence, entry.unix_seconds))
    }

    /// How many handles are live.
    pub(crate) fn count(&self) -> u64 {
        self.live.lock().values().map(|entry| entry.handles).sum()
    }
}

/// Told when the oldest snapshot of a database was released, so that files kept for it can be compacted.
pub(crate) trait SnapshotReleased: Send + Sync {
    /// The oldest snapshot is gone.
    fn oldest_snapshot_released(&self);
}

/// A consistent view of a database at one moment.
///
/// Cheap to clone; the view is released when the last clone is dropped. Pass it to reads through
/// [`ReadOptions::snapshot`](crate::ReadOptions). Thread-safe.
#[derive(Clone)]
pub struct Snapshot(Arc<Inner>);

struct Inner {
    sequence: SequenceNumber,
    list: Arc<SnapshotList>,
    on_release: Weak<dyn SnapshotReleased>,
}

impl Snapshot {
    /// The last sequence number that the snapshot sees.
    pub fn sequence(&self) -> SequenceNumber {
        self.0.sequence
    }

    /// Whether it is one of `list`.
    #[inline]
    pub(crate) fn is_of(&self, list: &Arc<SnapshotList>) -> bool {
        Arc::ptr_eq(&self.0.list, list)
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Snapshot({})", self.0.sequence)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let mut live = self.list.live.lock();
        let was_oldest = live.first_key_value().is_some_and(|(sequence, _)| *sequence == self.sequence);
        let mut gone = false;
        if let Some(entry) = live.get_mut(&self.sequence) {
            entry.handles -= 1;
            if entry.handles == 0 {
                live.remove(&self.sequence);
                gone = true;
            }
        }
        drop(live);
        if was_oldest
            && gone
            && let Some(database) = self.on_release.upgrade()
        {
            database.oldest_snapshot_released();
        }
    }
}
