//! Checkpoints: a second database directory that is this database at one moment.
//!
//! A running database and the path of a directory that does not exist flow in; a complete database flows out, whose tables
//! are hard links where the file system allows them. Always true here: the directory appears under its name only when it is
//! complete and durable (it grows as `<dir>.tmp`), and the original is not changed, except for the flush.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_env::{FileOptions, FileSystem, log_info, write_file};
use firn_error::{Error, ErrorKind, Result};
use firn_format::key::SequenceNumber;

use super::DbInner;
use super::handle::Db;
use super::live_files::{LiveFileStorageInfo, LiveFilesStorageInfoOptions};

/// Bytes copied at once.
const COPY_CHUNK_BYTES: usize = 1 << 20;

impl Db {
    /// Makes a copy of the database as of now at `dir`, which must not exist: all that was written with a WAL before the
    /// call is in it, and nothing that was not written. All column families are flushed first.
    ///
    /// The copy is durable when this returns the sequence number from which on it is complete. Tables are hard links if both
    /// directories lie on one file system. Thread-safe; writers go on meanwhile.
    ///
    /// ```
    /// # fn main() -> firndb::Result<()> {
    /// # let temp = tempfile::tempdir().expect("a temporary directory");
    /// # let (path, copy) = (temp.path().join("db"), temp.path().join("copy"));
    /// use firndb::{Db, Options};
    ///
    /// let mut options = Options::default();
    /// options.db.create_if_missing = true;
    /// let db = Db::open(&path, options)?;
    /// db.put("k2", "8611")?;
    /// db.checkpoint(&copy)?;
    /// db.delete("k2")?;
    /// let copy = Db::open(&copy, Options::default())?;
    /// assert_eq!(copy.get("k2")?.as_deref(), Some(&b"8611"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` ("Directory exists"); `NotSupported` when the database is open for reading only or has several
    /// paths; `IoError`. Nothing stays behind then.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<SequenceNumber> {
        self.checkpoint_with_wal(dir, 0)
    }

    /// [`Db::checkpoint`] that flushes only when the live WALs together have at least `log_size_for_flush` bytes (0: always;
    /// `u64::MAX`: never); otherwise the WALs are copied and replayed when the copy is opened.
    ///
    /// # Errors
    /// As for [`Db::checkpoint`].
    pub fn checkpoint_with_wal(&self, dir: impl AsRef<Path>, log_size_for_flush: u64) -> Result<SequenceNumber> {
        Checkpoint::of(&self.inner.db, dir.as_ref())?.create(self, log_size_for_flush)
    }
}

/// A checkpoint in the making.
struct Checkpoint<'a> {
    db: &'a DbInner,
    fs: &'a Arc<dyn FileSystem>,
    /// Where it will be.
    target: PathBuf,
    /// Where it grows.
    temporary: PathBuf,
    /// Whether linking works; the first refusal turns to copying for good.
    links: bool,
}

impl<'a> Checkpoint<'a> {
    fn of(db: &'a DbInner, dir: &Path) -> Result<Self> {
        let fs = db.env.fs();
        // Component by component: trailing slashes go.
        let target: PathBuf = dir.components().collect();
        let Some(name) = target.file_name() else {
            return Err(Error::invalid_argument("invalid checkpoint directory name"));
        };
        if fs.file_exists(&target)? {
            return Err(Error::invalid_argument("Directory exists"));
        }
        let mut temporary = name.to_os_string();
        temporary.push(".tmp");
        let temporary = target.with_file_name(temporary);
        Ok(Self { db, fs, target, temporary, links: true })
    }

    fn create(mut self, db: &Db, log_size_for_flush: u64) -> Result<SequenceNumber> {
        let sequence = db.latest_sequence_number();
        let options = LiveFilesStorageInfoOptions { wal_size_for_flush: log_size_for_flush };
        log_info!(
            self.db.logger(),
            "Started the snapshot process -- creating snapshot in directory {}",
            self.target.display()
        );
        self.db.disable_file_deletions()?;
        let built = db.live_files_storage_info(&options).and_then(|files| self.build(&files));
        let enabled = self.db.enable_file_deletions();
        if let Err(error) = built.and(enabled) {
            let _ = self.clear_temporary();
            log_info!(self.db.logger(), "Snapshot failed -- {error}");
            return Err(error);
        }
        log_info!(self.db.logger(), "Snapshot DONE. All is good. Snapshot sequence number: {}", sequence.get());
        Ok(sequence)
    }

    fn build(&mut self, files: &[LiveFileStorageInfo]) -> Result<()> {
        self.clear_temporary()?;
        self.fs.create_dir(&self.temporary)?;
        files.iter().try_for_each(|file| self.add(file))?;
        self.fs.new_directory(&self.temporary)?.fsync()?;
        self.fs.rename(&self.temporary, &self.target)?;
        let parent = match self.target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        self.fs.new_directory(parent)?.fsync()
    }

    fn add(&mut self, file: &LiveFileStorageInfo) -> Result<()> {
        let target = self.temporary.join(&file.name);
        if let Some(contents) = &file.replacement_contents {
            return write_file(&**self.fs, &target, contents, true);
        }
        let mut source = file.directory.join(&file.name);
        if file.kind == firn_format::filename::FileKind::Table && !self.fs.file_exists(&source)? {
            source.set_extension("ldb");
        }
        if self.links && !file.trim_to_size {
            match self.fs.link(&source, &target) {
                Err(error) if error.kind() == ErrorKind::NotSupported => self.links = false,
                linked => return linked,
            }
        }
        copy(&**self.fs, &source, &target, file.size_bytes)
    }

    /// Removes what an earlier, interrupted attempt may have left.
    fn clear_temporary(&self) -> Result<()> {
        if !self.fs.file_exists(&self.temporary)? {
            return Ok(());
        }
        for name in self.fs.children(&self.temporary)? {
            self.fs.remove_file(&self.temporary.join(name))?;
        }
        self.fs.remove_dir(&self.temporary)
    }
}

/// Copies the first `bytes` of a file, durably.
pub(super) fn copy(fs: &dyn FileSystem, from: &Path, to: &Path, bytes: u64) -> Result<()> {
    let mut source = fs.new_sequential_file(from, &FileOptions::default())?;
    let mut target = fs.new_writable_file(to, &FileOptions::default())?;
    let mut left = bytes;
    let mut chunk = vec![0; COPY_CHUNK_BYTES.min(usize::try_from(bytes).unwrap_or(COPY_CHUNK_BYTES))];
    while left > 0 {
        let want = chunk.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let part = chunk.get_mut(..want).unwrap_or_default();
        let got = source.read(part)?;
        if got == 0 {
            return Err(Error::corruption("File is shorter than it was").with_file(from).with_offset(bytes - left));
        }
        target.append(part.get(..got).unwrap_or_default())?;
        left -= got as u64;
    }
    target.sync()?;
    target.close()
}
