//! Scrubbing: looking for damage in the files of a running database before a reader meets it.
//!
//! The tables of all column families flow in, the first error flows out. Always true here: files are read from the disk,
//! past every cache; a table that a version has stays while it is read, whatever is compacted meanwhile.

use std::path::PathBuf;
use std::sync::Arc;

use firn_error::{Error, Result};
use firn_format::key::FileNumber;

use super::DbInner;
use super::handle::Db;
use crate::file_checksum::verify_file;
use crate::version::FileMetaData;

/// The checksum of a whole live table file, as the MANIFEST has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileChecksumInfo {
    /// The number in the file's name.
    pub number: FileNumber,
    /// The checksum; empty when none was computed.
    pub checksum: Vec<u8>,
    /// The name of the function; `Unknown` when none was computed.
    pub function: String,
}

impl Db {
    /// Reads every block of every live table file from the disk, footers and indexes included, and compares it with its
    /// checksum. Thread-safe; reads and writes go on meanwhile.
    ///
    /// # Errors
    /// `Corruption` naming file and offset of the first damage; `IoError`.
    pub fn verify_checksum(&self) -> Result<()> {
        self.inner.db.verify_checksum()
    }

    /// Reads every live table file and compares it with the checksum of the whole file in the MANIFEST. Files without one,
    /// written before `file_checksum_gen_factory` was set, pass. Thread-safe.
    ///
    /// # Errors
    /// `Corruption` naming the first file that differs; `InvalidArgument` without `file_checksum_gen_factory`, or when it
    /// does not know a function; `IoError`.
    pub fn verify_file_checksums(&self) -> Result<()> {
        self.inner.db.verify_file_checksums()
    }

    /// The checksums of whole files that the MANIFEST has, of all live table files by number.
    pub fn live_files_checksum_info(&self) -> Vec<FileChecksumInfo> {
        self.inner.db.live_files_checksum_info()
    }

    /// Checks that every live table file is there with the size that the MANIFEST tells.
    ///
    /// # Errors
    /// `Corruption` or `IoError` naming the file.
    pub fn check_consistency(&self) -> Result<()> {
        self.inner.db.check_consistency()
    }
}

impl DbInner {
    fn verify_checksum(&self) -> Result<()> {
        self.check_open()?;
        for data in self.families.all() {
            let version = Arc::clone(&data.super_version.current().version);
            version.all_files().try_for_each(|(_, file)| data.tables().scrub(file))?;
        }
        Ok(())
    }

    fn verify_file_checksums(&self) -> Result<()> {
        self.check_open()?;
        let options = self.options();
        let Some(factory) = &options.file_checksum_gen_factory else {
            return Err(Error::invalid_argument(
                "Cannot verify file checksum if options.file_checksum_gen_factory is null",
            ));
        };
        self.for_each_file(|file, path| {
            verify_file(&**self.env.fs(), &path, &**factory, &file.file_checksum, &file.file_checksum_func_name)
        })
    }

    fn live_files_checksum_info(&self) -> Vec<FileChecksumInfo> {
        let mut found = Vec::new();
        for data in self.families.all() {
            let version = Arc::clone(&data.super_version.current().version);
            found.extend(version.all_files().map(|(_, file)| FileChecksumInfo {
                number: file.number,
                checksum: file.file_checksum.clone(),
                function: file.file_checksum_func_name.clone(),
            }));
        }
        found.sort_unstable();
        found
    }

    fn check_consistency(&self) -> Result<()> {
        self.for_each_file(|file, path| {
            let size = self.env.fs().file_size(&path)?;
            if size == file.file_size {
                return Ok(());
            }
            let expected = file.file_size;
            let message = format!("Sst file size mismatch between expected {expected} and file system {size}");
            Err(Error::corruption(message).with_file(path))
        })
    }

    /// Calls `look` with every live table file and its path, until it fails.
    fn for_each_file(&self, mut look: impl FnMut(&FileMetaData, PathBuf) -> Result<()>) -> Result<()> {
        for data in self.families.all() {
            let version = Arc::clone(&data.super_version.current().version);
            for (_, file) in version.all_files() {
                look(file, data.tables().path_of(file)?)?;
            }
        }
        Ok(())
    }
}
