//! How many bytes of table files a store finished: those that flushes and compactions wrote, also the ones that later
//! compactions removed again. The kernel tells when a file that was written is closed; no store is asked.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent};

use crate::Fallible;

/// Counts from its beginning to the end of the process.
pub struct FinishedTables {
    directory: PathBuf,
    bytes: Arc<AtomicU64>,
    marks: Receiver<()>,
}

/// A file whose closing says that all earlier events were seen. Stores do not know such a name and leave it alone.
const MARK: &str = "compare.mark";
/// How long the kernel may take to tell.
const PATIENCE: Duration = Duration::from_secs(10);

impl FinishedTables {
    /// Begins to count files `*.sst` that are closed in a directory.
    pub fn watch(directory: &Path) -> Fallible<Self> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC)?;
        inotify.add_watch(directory, AddWatchFlags::IN_CLOSE_WRITE)?;
        let bytes = Arc::new(AtomicU64::new(0));
        let (sender, marks) = mpsc::channel();
        let (directory, counted) = (directory.to_owned(), Arc::clone(&bytes));
        let place = directory.clone();
        std::thread::spawn(move || {
            while let Ok(events) = inotify.read_events() {
                for event in events {
                    if is_mark(&event) {
                        if sender.send(()).is_err() {
                            return;
                        }
                    } else if let Some(size) = size_of_table(&place, &event) {
                        counted.fetch_add(size, Ordering::Relaxed);
                    }
                }
            }
        });
        Ok(Self { directory, bytes, marks })
    }

    /// Bytes so far.
    pub fn bytes(&self) -> Fallible<u64> {
        let mark = self.directory.join(MARK);
        std::fs::write(&mark, [])?;
        self.marks.recv_timeout(PATIENCE).map_err(|_| "the kernel does not tell of closed files")?;
        std::fs::remove_file(&mark)?;
        Ok(self.bytes.load(Ordering::Relaxed))
    }
}

fn is_mark(event: &InotifyEvent) -> bool {
    event.name.as_ref().is_some_and(|name| name == MARK)
}

fn size_of_table(directory: &Path, event: &InotifyEvent) -> Option<u64> {
    let path = directory.join(event.name.as_ref()?);
    if path.extension()? != "sst" {
        return None;
    }
    Some(std::fs::metadata(path).ok()?.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_tables_count_and_other_files_do_not() {
        let directory = tempfile::tempdir().unwrap();
        let tables = FinishedTables::watch(directory.path()).unwrap();
        assert_eq!(tables.bytes().unwrap(), 0);
        std::fs::write(directory.path().join("000007.sst"), [0; 700]).unwrap();
        std::fs::write(directory.path().join("000008.log"), [0; 80]).unwrap();
        assert_eq!(tables.bytes().unwrap(), 700);
        std::fs::remove_file(directory.path().join("000007.sst")).unwrap();
        std::fs::write(directory.path().join("000009.sst"), [0; 9]).unwrap();
        assert_eq!(tables.bytes().unwrap(), 709);
    }
}
