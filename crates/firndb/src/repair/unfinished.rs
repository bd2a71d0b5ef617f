//! The record of a repair that is not finished, which a later repair tells leftovers by.
//!
//! The number of a MANIFEST flows into a small file in `lost/` before that MANIFEST becomes the current one, and out of it
//! when the next repair begins. While `CURRENT` names that very MANIFEST, the repair that wrote it was interrupted and nobody
//! has opened the database for writing since, as that makes a MANIFEST with another number. So a table that the MANIFEST does
//! not name holds nothing of its own: it was lost or replaced, or it was made of WALs or tables that are still there. To
//! count it beside them would apply operands of merges twice, and bring back what was deleted.
//!
//! Always true here: the file has all of its contents or is not there. A record that cannot be understood is no record, and
//! the repair takes every table for a part of the database, as it does without one.

use std::path::{Path, PathBuf};

use firn_env::{FileSystem, write_file};
use firn_error::{Error, ErrorKind, Result};
use firn_format::key::FileNumber;

/// Its name below `lost/` in the directory of the database.
const NAME: &str = "UNFINISHED";

/// What it is written as first.
const TEMPORARY_NAME: &str = "UNFINISHED.dbtmp";

/// No record is longer.
const MAX_BYTES: u64 = 64;

/// Where the record of one database lies.
#[derive(Debug)]
pub(super) struct Record {
    dir: PathBuf,
}

impl Record {
    pub(super) fn new(lost_dir: PathBuf) -> Self {
        Self { dir: lost_dir }
    }

    fn path(&self) -> PathBuf {
        self.dir.join(NAME)
    }

    /// The MANIFEST of the repair that is not finished.
    ///
    /// # Errors
    /// The file system's.
    pub(super) fn read(&self, fs: &dyn FileSystem) -> Result<Option<FileNumber>> {
        let is_fault = |error: &Error| error.kind() == ErrorKind::IoError && !error.is_path_not_found();
        match firn_env::read_file(fs, &self.path(), MAX_BYTES) {
            Ok(bytes) => Ok(std::str::from_utf8(&bytes).ok().and_then(|text| text.trim().parse().ok()).map(FileNumber)),
            Err(error) if is_fault(&error) => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Makes it durable that the repair that wrote this MANIFEST is not finished.
    ///
    /// # Errors
    /// The file system's; then the record is as it was.
    pub(super) fn write(&self, fs: &dyn FileSystem, manifest: FileNumber) -> Result<()> {
        let temporary = self.dir.join(TEMPORARY_NAME);
        write_file(fs, &temporary, format!("{}\n", manifest.0).as_bytes(), true)?;
        fs.rename(&temporary, &self.path())?;
        sync(fs, &self.dir)
    }

    /// The repair is finished.
    ///
    /// # Errors
    /// The file system's.
    pub(super) fn remove(&self, fs: &dyn FileSystem) -> Result<()> {
        fs.remove_file(&self.path())?;
        sync(fs, &self.dir)
    }
}

fn sync(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    fs.new_directory(dir)?.fsync()
}
