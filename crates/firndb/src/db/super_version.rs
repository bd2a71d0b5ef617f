//! Super versions: everything a reader of one column family needs, taken with one load and no lock that others use.
//!
//! A [`SuperVersion`] is the immutable triple of mutable memtable, immutable memtables and table files, with the options
//! in force. Writers and background jobs install a new one under the database mutex; readers get at it through
//! [`SuperVersionCell::read`], which keeps the current one cached per thread: a hit touches only cache lines of its own
//! thread and the installation number, which changes rarely.
//!
//! Always true here: a reader takes its super version before it chooses its read sequence, since otherwise a flush in
//! between could drop what the sequence should see; and every installation clears the caches of threads that are not in
//! the middle of a read. One that is drops the old super version itself when it is done (but for the moment between its look
//! at the number and its leaving the slot, after which the next read or installation does it).

use std::sync::Arc;

use firn_env::sync::atomic::{AtomicU64, Ordering};
use firn_env::sync::{Mutex, PerThread};

use crate::memtable::MemTable;
use crate::options::ColumnFamilyOptions;
use crate::version::Version;

/// What a reader of one column family sees.
pub(crate) struct SuperVersion {
    /// The memtable that takes writes.
    pub(crate) mem: Arc<MemTable>,
    /// Memtables that wait for their flush, newest first.
    pub(crate) imm: Vec<Arc<MemTable>>,
    /// The table files.
    pub(crate) version: Arc<Version>,
    /// The options in force when it was installed.
    pub(crate) options: Arc<ColumnFamilyOptions>,
    /// Counts the installations of this column family; see [`SuperVersionCell::number`].
    pub(crate) number: u64,
}

/// Where a column family keeps its current super version.
pub(crate) struct SuperVersionCell {
    current: Mutex<Arc<SuperVersion>>,
    number: AtomicU64,
    cached: PerThread<Mutex<Option<Arc<SuperVersion>>>>,
}

impl SuperVersionCell {
    /// A cell that holds `first`.
    pub(crate) fn new(first: Arc<SuperVersion>) -> Self {
        Self { number: AtomicU64::new(first.number), current: Mutex::new(first), cached: PerThread::new() }
    }

    /// The number of the super version in force; it grows with every installation.
    pub(crate) fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// A counted reference to the super version in force, for readers that keep it, such as iterators.
    pub(crate) fn current(&self) -> Arc<SuperVersion> {
        Arc::clone(&self.current.lock())
    }

    /// Runs `reader` on the super version in force.
    pub(crate) fn read<R>(&self, reader: impl FnOnce(&SuperVersion) -> R) -> R {
        let slot = self.cached.get_or_default();
        // The slot is taken only when this thread reads from within a read (a merge operator that calls back) or in
        // the moment an installation clears it.
        let Some(mut cached) = slot.try_lock() else {
            return reader(&self.current());
        };
        let fresh = match cached.take() {
            Some(cached) if cached.number == self.number() => cached,
            _ => self.current(),
        };
        let number = fresh.number;
        let result = reader(&fresh);
        // An installation that came while we read could not clear this slot; do it in its place.
        if number == self.number() {
            *cached = Some(fresh);
        }
        result
    }

    /// Installs `next` and returns the one that was in force, to be dropped outside of all locks.
    pub(crate) fn install(&self, next: Arc<SuperVersion>) -> Vec<Arc<SuperVersion>> {
        let number = next.number;
        let mut retired = vec![std::mem::replace(&mut *self.current.lock(), next)];
        self.number.store(number, Ordering::Release);
        for slot in self.cached.iter() {
            if let Some(mut cached) = slot.try_lock() {
                retired.extend(cached.take());
            }
        }
        retired
    }
}

#[cfg(feature = "shuttle")]
#[path = "super_version_model.rs"]
pub(crate) mod model;
