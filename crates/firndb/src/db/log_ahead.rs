//! Disk space for the next WAL, reserved by a flush instead of by writers.
//!
//! A writer whose append reaches space that is not reserved yet waits until the file system found some, which takes it up to
//! ten milliseconds where it has to read its maps first. A writer that switches to a new WAL because a memtable is full leaves
//! a note here, and the flush of that memtable, which runs in the background at once, reserves as much for the new WAL as
//! the old one had grown to. Flushes that somebody asks for leave none: perhaps nothing is written after them. Always true
//! here: at most one note waits, that of the last such WAL; one whose WAL was closed meanwhile does nothing.

use std::sync::Arc;

use firn_env::FileSpace;
use firn_env::sync::Mutex;

use crate::write::wal::WalWriter;

/// A WAL that was shorter fits the space that its writer reserves for a start.
const LEAST_BYTES: u64 = 1 << 20;

/// See the module documentation. A leaf among the locks.
#[derive(Debug, Default)]
pub(crate) struct LogAhead {
    note: Mutex<Option<(Arc<dyn FileSpace>, u64)>>,
}

impl LogAhead {
    /// Notes that `new` follows `old` and may grow as long, but not beyond `most_bytes`.
    pub(crate) fn note(&self, old: &WalWriter, new: &WalWriter, most_bytes: u64) {
        let bytes = old.size_bytes().min(most_bytes);
        let note = new.space_handle().filter(|_| bytes >= LEAST_BYTES).map(|space| (space, bytes));
        *self.note.lock() = note;
    }

    /// Reserves what was noted.
    pub(crate) fn reserve(&self) {
        let note = self.note.lock().take();
        if let Some((space, bytes)) = note {
            space.reserve(bytes);
        }
    }
}
