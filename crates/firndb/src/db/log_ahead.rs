//! Disk space for the next WAL, reserved by a flush instead of by writers.
//!
//! A writer whose append reaches space that is not reserved yet waits until the file system found some, which takes it up to
//! ten milliseconds where it has to read its maps first. Who switches to a new WAL leaves a note here, and the flush of the
//! memtable that was switched with it, which runs in the background at once, reserves as much for the new WAL as the old one
//! had grown to. Always true here: at most one note waits, that of the current WAL; one that nobody reads costs nothing.

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
