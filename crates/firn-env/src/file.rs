//! The contracts of files and file systems.
//!
//! A [`FileSystem`] hands out files of three kinds: [`SequentialFile`] (logs and small files, read once front to back),
//! [`RandomAccessFile`] (tables, read anywhere by many threads) and [`WritableFile`] (append only, one writer). Paths go
//! in, bytes come out; every error names its file.
//!
//! Always true here: nothing is durable before a `sync` of the file **and**, for a new, renamed or removed name, an
//! [`Directory::fsync`] of its directory returned. What was [`WritableFile::flush`]ed survives a kill of the process.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_error::{Error, Result};

use crate::rate_limiter::{IoPriority, RateLimiter};

/// How a file is going to be read; a hint, never an obligation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessPattern {
    /// No expectation.
    #[default]
    Normal,
    /// Point reads: read-ahead would be waste.
    Random,
    /// Front to back: read-ahead pays.
    Sequential,
    /// Will be read soon.
    WillNeed,
    /// Will not be read again soon.
    DontNeed,
}

/// How a file is opened. Fields that do not apply to the kind of file are ignored.
#[derive(Clone, Debug)]
pub struct FileOptions {
    /// Read around the page cache (`O_DIRECT`). Default: false.
    pub use_direct_reads: bool,
    /// Write around the page cache (`O_DIRECT`). Default: false. Excludes `mapped_log`.
    pub use_direct_writes: bool,
    /// Map files for reading instead of `pread`. Default: false. Ignored with `use_direct_reads`.
    pub use_mmap_reads: bool,
    /// Writable files: ask the system to start writing back after every so many bytes, to keep a later sync short.
    /// 0 (the default) leaves it to the system.
    pub bytes_per_sync: u64,
    /// Also wait for earlier write-backs, so that the amount in flight is bounded. Default: false.
    pub strict_bytes_per_sync: bool,
    /// Writable files: bytes collected in user space before a `write`; 0 writes every append at once.
    /// Default: 1 MiB. For logs the caller flushes after each record.
    pub writable_buffer_bytes: usize,
    /// Writable files: reserve disk blocks in chunks of so many bytes; 0 (the default) reserves nothing.
    pub preallocate_bytes: u64,
    /// Whether a reservation leaves the visible size alone (`FALLOC_FL_KEEP_SIZE`). Default: true.
    pub fallocate_with_keep_size: bool,
    /// Writable files: append by `memcpy` into a memory-mapped, reserved segment, so that no append is a system call.
    /// Until it is closed, the visible size is larger than what was appended (the rest are zeros). For WALs.
    /// Default: false; falls back to the buffered writer where the file system refuses, and where it may answer a full disk
    /// with a signal instead of an error: everywhere but on ext2, ext3, ext4, tmpfs, and XFS without shared blocks.
    pub mapped_log: bool,
    /// Random-access files: the expected pattern. Default: [`AccessPattern::Normal`].
    pub access_pattern: AccessPattern,
    /// Close on `exec`. Default: true.
    pub set_fd_cloexec: bool,
    /// Writable files: ask this limiter before each `write`. Default: none. Mapped logs ignore it.
    pub rate_limiter: Option<Arc<dyn RateLimiter>>,
    /// The priority of those requests. Default: [`IoPriority::Unlimited`], which never waits.
    pub rate_limiter_priority: IoPriority,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            use_direct_reads: false,
            use_direct_writes: false,
            use_mmap_reads: false,
            bytes_per_sync: 0,
            strict_bytes_per_sync: false,
            writable_buffer_bytes: 1 << 20,
            preallocate_bytes: 0,
            fallocate_with_keep_size: true,
            mapped_log: false,
            access_pattern: AccessPattern::Normal,
            set_fd_cloexec: true,
            rate_limiter: None,
            rate_limiter_priority: IoPriority::Unlimited,
        }
    }
}

/// A file read once from front to back by one reader.
pub trait SequentialFile: Send + Debug {
    /// Reads up to `buffer.len()` bytes; less only at the end of the file, 0 at the end.
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize>;

    /// Moves forward by `bytes` without reading; beyond the end the next read returns 0.
    fn skip(&mut self, bytes: u64) -> Result<()>;

    /// The file's path.
    fn path(&self) -> &Path;
}

/// A file read at any place by any number of threads.
pub trait RandomAccessFile: Send + Sync + Debug {
    /// Reads `buffer.len()` bytes at `offset`; less only when the file ends before. Returns the number of bytes read.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize>;

    /// The current size in bytes.
    fn size(&self) -> Result<u64>;

    /// The file's path.
    fn path(&self) -> &Path;

    /// Reads exactly `buffer.len()` bytes at `offset`.
    ///
    /// # Errors
    /// `Corruption` naming file and offset when the file is too short.
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let got = self.read_at(offset, buffer)?;
        if got == buffer.len() {
            return Ok(());
        }
        Err(Error::corruption(format!("truncated file: wanted {} bytes, got {got}", buffer.len()))
            .with_file(self.path())
            .with_offset(offset))
    }

    /// Asks the system to load a range in the background. Returns whether it can.
    fn prefetch(&self, offset: u64, bytes: usize) -> Result<bool> {
        let _ = (offset, bytes);
        Ok(false)
    }

    /// Tells how the file is going to be read from now on.
    fn hint(&self, pattern: AccessPattern) {
        let _ = pattern;
    }

    /// The whole file as memory, when it is mapped. Whoever opened it with `use_mmap_reads` promises that nobody
    /// shortens the file meanwhile; table files never change after they were written.
    fn as_mapped(&self) -> Option<&[u8]> {
        None
    }

    /// The alignment in bytes that offset, length and memory of a read should have to avoid a copy; 1 when any will do.
    fn required_alignment(&self) -> usize {
        1
    }

    /// Whether reads go around the page cache.
    fn is_direct(&self) -> bool {
        false
    }
}

/// An append-only file with one writer.
///
/// Dropping it closes it, ignoring errors: call [`WritableFile::close`] where they matter.
pub trait WritableFile: Send + Sync + Debug {
    /// Adds bytes at the end. They may stay in a user-space buffer until [`WritableFile::flush`].
    ///
    /// After an error the file's contents beyond the last successful flush are unknown.
    fn append(&mut self, data: &[u8]) -> Result<()>;

    /// Hands everything appended to the operating system: it then survives a kill of the process, and readers see it.
    fn flush(&mut self) -> Result<()>;

    /// Flushes, and makes data and size durable (`fdatasync`).
    fn sync(&mut self) -> Result<()>;

    /// Flushes, and makes data and all metadata durable (`fsync`).
    fn fsync(&mut self) -> Result<()>;

    /// Asks the system to start writing back a range that was flushed. Promises no durability.
    fn range_sync(&mut self, offset: u64, bytes: u64) -> Result<()> {
        let _ = (offset, bytes);
        Ok(())
    }

    /// Cuts the file to `size` bytes; appends go on there.
    fn truncate(&mut self, size: u64) -> Result<()>;

    /// Flushes, cuts reserved space off and closes. Further calls of `close` do nothing; other calls then fail.
    fn close(&mut self) -> Result<()>;

    /// Bytes appended so far, buffered ones included, and what the file held when it was reopened.
    fn file_size(&self) -> u64;

    /// The file's path.
    fn path(&self) -> &Path;

    /// A handle that makes durable what was **flushed** so far, usable by another thread while this one appends.
    /// `None` when this file cannot do that.
    fn sync_handle(&self) -> Option<Arc<dyn FileSync>> {
        None
    }

    /// A handle that reserves disk space ahead of the appends, usable by another thread while this one appends. `None`
    /// when this file gains nothing by that.
    fn space_handle(&self) -> Option<Arc<dyn FileSpace>> {
        None
    }
}

/// Reserves disk space for a file to which somebody else appends, so that appends do not wait for the file system to find
/// it. Does nothing once the file was closed.
pub trait FileSpace: Send + Sync + Debug {
    /// Reserves what the first `bytes` bytes of the file take, without making it longer. A hint: what is refused, or not
    /// reserved because the disk is rather full, appends reserve as they come to it. Closing the file gives back what it
    /// does not fill.
    fn reserve(&self, bytes: u64);
}

/// Makes a file's flushed bytes durable while somebody else appends. Stays usable after the file was closed.
pub trait FileSync: Send + Sync + Debug {
    /// Makes data and size durable (`fdatasync`).
    fn sync(&self) -> Result<()>;
}

/// An open directory, for making changes of its names durable.
pub trait Directory: Send + Sync + Debug {
    /// Makes creations, renames and removals in this directory durable.
    fn fsync(&self) -> Result<()>;

    /// The directory's path.
    fn path(&self) -> &Path;
}

/// A held lock; dropping it releases it.
pub trait FileLock: Send + Sync + Debug {
    /// The lock file's path.
    fn path(&self) -> &Path;
}

/// Files and directories. Thread-safe. All errors name the path; a missing path is `IoError` with sub-code
/// `PathNotFound` ([`Error::is_path_not_found`]).
pub trait FileSystem: Send + Sync + Debug {
    /// A short name for logs.
    fn name(&self) -> &'static str;

    /// Opens an existing file for reading front to back.
    fn new_sequential_file(&self, path: &Path, options: &FileOptions) -> Result<Box<dyn SequentialFile>>;

    /// Opens an existing file for reading anywhere.
    fn new_random_access_file(&self, path: &Path, options: &FileOptions) -> Result<Arc<dyn RandomAccessFile>>;

    /// Creates an empty file for appending; an existing one is emptied.
    fn new_writable_file(&self, path: &Path, options: &FileOptions) -> Result<Box<dyn WritableFile>>;

    /// Opens a file for appending behind what it holds; creates it when missing.
    fn reopen_writable_file(&self, path: &Path, options: &FileOptions) -> Result<Box<dyn WritableFile>>;

    /// Renames `old` to `path` and opens it for writing from the start **without** emptying it: the old bytes stay
    /// behind the new ones until overwritten. For recycled WALs.
    fn reuse_writable_file(&self, path: &Path, old: &Path, options: &FileOptions) -> Result<Box<dyn WritableFile>>;

    /// Opens a directory for [`Directory::fsync`].
    fn new_directory(&self, path: &Path) -> Result<Box<dyn Directory>>;

    /// Whether the path exists (file or directory).
    fn file_exists(&self, path: &Path) -> Result<bool>;

    /// Whether the path is a directory; false when missing.
    fn is_directory(&self, path: &Path) -> Result<bool>;

    /// The names in a directory, without `.` and `..`, in no particular order.
    fn children(&self, path: &Path) -> Result<Vec<String>>;

    /// Removes a file.
    fn remove_file(&self, path: &Path) -> Result<()>;

    /// Creates a directory; an error when it exists or its parent does not.
    fn create_dir(&self, path: &Path) -> Result<()>;

    /// Creates a directory unless it exists; its parent must exist.
    fn create_dir_if_missing(&self, path: &Path) -> Result<()>;

    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> Result<()>;

    /// A file's size in bytes.
    fn file_size(&self, path: &Path) -> Result<u64>;

    /// When the file was last written, in seconds since 1970.
    fn modification_time_secs(&self, path: &Path) -> Result<u64>;

    /// Renames, replacing an existing target atomically.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Makes `to` a second name of the file `from`; `NotSupported` across devices.
    fn link(&self, from: &Path, to: &Path) -> Result<()>;

    /// How many names a file has.
    fn link_count(&self, path: &Path) -> Result<u64>;

    /// Cuts or extends (with zeros) a file to `size` bytes.
    fn truncate(&self, path: &Path, size: u64) -> Result<()>;

    /// Takes the exclusive lock that the lock file `path` stands for, creating the file; never waits.
    ///
    /// # Errors
    /// `IoError` when this or another process holds it, with RocksDB's messages.
    fn lock_file(&self, path: &Path) -> Result<Box<dyn FileLock>>;

    /// The path from the root, without resolving links.
    fn absolute_path(&self, path: &Path) -> Result<PathBuf>;

    /// Bytes that an ordinary user may still write on the file system that holds `path`.
    fn free_space_bytes(&self, path: &Path) -> Result<u64>;
}

/// Creates a directory and all missing parents, and makes their names durable: what is synced inside a directory whose own
/// name is lost is lost too. A parent that cannot be opened, as one that may be searched and not read, is not synced.
pub fn create_dir_all(fs: &dyn FileSystem, path: &Path) -> Result<()> {
    let mut missing = Vec::new();
    let mut at = Some(path);
    while let Some(dir) = at {
        if dir.as_os_str().is_empty() || fs.file_exists(dir)? {
            break;
        }
        missing.push(dir);
        at = dir.parent();
    }
    for dir in missing.into_iter().rev() {
        fs.create_dir_if_missing(dir)?;
        let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if let Ok(parent) = fs.new_directory(parent) {
            parent.fsync()?;
        }
    }
    Ok(())
}

/// The contents of a file.
///
/// # Errors
/// `Corruption` when it holds more than `limit_bytes`, so that a bad file cannot exhaust memory.
pub fn read_file(fs: &dyn FileSystem, path: &Path, limit_bytes: u64) -> Result<Vec<u8>> {
    let mut file = fs.new_sequential_file(path, &FileOptions::default())?;
    let mut contents = Vec::new();
    let mut chunk = vec![0; 64 << 10];
    loop {
        let got = file.read(&mut chunk)?;
        if got == 0 {
            return Ok(contents);
        }
        contents.extend_from_slice(chunk.get(..got).unwrap_or_default());
        if contents.len() as u64 > limit_bytes {
            return Err(Error::corruption(format!("file is larger than {limit_bytes} bytes")).with_file(path));
        }
    }
}

/// Writes a whole file (replacing an existing one), and syncs it when `sync` says so. Not atomic: write a temporary
/// name and rename it where that matters.
pub fn write_file(fs: &dyn FileSystem, path: &Path, contents: &[u8], sync: bool) -> Result<()> {
    let mut file = fs.new_writable_file(path, &FileOptions::default())?;
    let written = file.append(contents).and_then(|()| if sync { file.sync() } else { Ok(()) });
    let closed = file.close();
    if let Err(error) = written.and(closed) {
        // A half-written file must not be taken for a whole one; the first error is the one worth reporting.
        let _ = fs.remove_file(path);
        return Err(error);
    }
    Ok(())
}
