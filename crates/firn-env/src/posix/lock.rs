//! The LOCK file: one owner per machine.
//!
//! A POSIX record lock keeps other processes out. Such locks belong to the process, so a second open in the same
//! process would succeed; a table of held paths keeps it out, and is asked before the file is touched, because closing
//! any descriptor of the file would give the lock up.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use firn_error::{Error, Result};

use super::sys;
use crate::file::FileLock;
use crate::sync::StaticMutex;

struct Holder {
    since_secs: u64,
    thread: u64,
}

static HELD: StaticMutex<BTreeMap<PathBuf, Holder>> = StaticMutex::new(BTreeMap::new());

#[derive(Debug)]
struct PosixLock {
    path: PathBuf,
    key: PathBuf,
    file: Option<File>,
}

/// Takes the lock; see [`crate::FileSystem::lock_file`].
pub(super) fn lock_file(path: &Path) -> Result<Box<dyn FileLock>> {
    // The directory exists, the file perhaps not yet: resolve links in the directory, so that one database reached by
    // two paths has one entry in the table.
    let key = match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            parent.canonicalize().map(|dir| dir.join(name)).unwrap_or_else(|_| path.to_path_buf())
        }
        _ => path.to_path_buf(),
    };
    let mut held = HELD.lock();
    if let Some(holder) = held.get(&key) {
        return Err(Error::io_error(format!(
            "lock hold by current process, acquire time {} acquiring thread {}: {}: No locks available",
            holder.since_secs,
            holder.thread,
            path.display()
        )));
    }
    let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    let file = open.map_err(|e| Error::from_io(&e, "while open a file for lock", path))?;
    if let Err(error) = sys::lock_whole_file(&file, true) {
        let reason = reason_of(&error);
        return Err(Error::io_error(format!("While lock file: {}: {reason}", path.display())));
    }
    let since_secs = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    held.insert(key.clone(), Holder { since_secs, thread: super::thread_id() });
    Ok(Box::new(PosixLock { path: path.to_path_buf(), key, file: Some(file) }))
}

/// The system's text for an error, without the number that the standard library adds.
fn reason_of(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

impl FileLock for PosixLock {
    fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PosixLock {
    fn drop(&mut self) {
        let mut held = HELD.lock();
        if let Some(file) = self.file.take() {
            let _ = sys::lock_whole_file(&file, false);
        }
        held.remove(&self.key);
    }
}
