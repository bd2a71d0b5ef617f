//! The real file system.
//!
//! [`PosixFileSystem`] opens files in the flavour that [`FileOptions`] ask for: [`read`] holds the readers, [`write`]
//! the buffered and the direct writer, [`mapped_log`] the mapped writer for logs, [`lock`] the LOCK file; system calls
//! and mappings with their `unsafe` are in [`sys`] and [`mmap`] only.

mod aligned;
mod lock;
mod mapped_log;
mod mmap;
mod read;
mod sys;
mod write;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::UNIX_EPOCH;

use firn_error::{Error, Result};

pub use sys::CivilTime;

use crate::file::{
    AccessPattern, Directory, FileLock, FileOptions, FileSystem, RandomAccessFile, SequentialFile, WritableFile,
};
use mapped_log::MappedLog;
use mmap::ReadMapping;
use read::{PosixMappedFile, PosixRandomAccessFile, PosixSequentialFile};
use write::{BufferedFile, DirectFile};

/// What direct I/O demands of offsets, lengths and memory, unless the system tells otherwise. Memory for it always starts at
/// a multiple of this.
const DIRECT_ALIGNMENT: usize = 4096;

/// The operating system's id of the calling thread; [`crate::thread::system_id`] remembers it.
pub fn thread_id() -> u64 {
    sys::thread_id()
}

/// Processor time of the calling thread, in nanoseconds; see [`crate::thread::cpu_nanos`].
pub fn thread_cpu_nanos() -> u64 {
    sys::thread_cpu_nanos()
}

/// Fills `bytes` from the system's random source; false when there is none.
pub fn fill_random(bytes: &mut [u8]) -> bool {
    sys::fill_random(bytes)
}

/// How many files this process may have open (its soft limit); `None` where that is not known.
pub fn open_file_limit() -> Option<u64> {
    sys::open_file_limit()
}

/// The machine's name, or `localhost`.
pub fn host_name() -> String {
    sys::host_name().filter(|name| !name.is_empty()).unwrap_or_else(|| "localhost".to_owned())
}

/// Seconds since 1970 as local date and time.
pub fn local_time(seconds: u64) -> CivilTime {
    sys::local_time(seconds)
}

/// The machine's file system. Thread-safe, without state.
#[derive(Clone, Copy, Debug, Default)]
pub struct PosixFileSystem;

impl PosixFileSystem {
    /// The machine's file system.
    pub fn new() -> Self {
        Self
    }
}

/// How a writable file comes to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    /// New or emptied.
    Empty,
    /// Behind what it holds.
    Append,
    /// At its start, over what it holds.
    Overwrite,
}

fn open_writable(path: &Path, options: &FileOptions, start: Start) -> Result<Box<dyn WritableFile>> {
    let direct = options.use_direct_writes;
    // A mapping for writing needs read permission too, and so does the tail of a reopened direct file.
    let mut open = OpenOptions::new();
    open.read(true).write(true).create(start != Start::Overwrite).truncate(start == Start::Empty);
    let flags = (if direct { libc::O_DIRECT } else { 0 }) | cloexec(options);
    open.custom_flags(flags).mode(0o644);
    let file = open.open(path).map_err(|e| Error::from_io(&e, "While open a file for appending", path))?;
    let held = file.metadata().map_err(|e| Error::from_io(&e, "fstat", path))?.len();
    let size = if start == Start::Append { held } else { 0 };
    let path_buf = path.to_path_buf();
    if direct {
        let mut page = aligned::AlignedBuffer::new(DIRECT_ALIGNMENT);
        let tail_bytes = usize::try_from(size % DIRECT_ALIGNMENT as u64).unwrap_or_default();
        if tail_bytes > 0 {
            let base = size - tail_bytes as u64;
            file.read_at(page.as_mut_slice(), base).map_err(|e| Error::from_io(&e, "While pread", path))?;
        }
        let tail = page.as_slice().get(..tail_bytes).unwrap_or_default();
        return Ok(Box::new(DirectFile::new(file, path_buf, size, tail, options)));
    }
    if options.mapped_log && sys::reserved_blocks_stay(&file) {
        let again = file.try_clone().map_err(|e| Error::from_io(&e, "dup", path))?;
        match MappedLog::new(file, path_buf.clone(), size, held, options) {
            Ok(log) => return Ok(Box::new(log)),
            // No reservation or no mapping on this file system, or a full disk: appends by `write` still work or
            // report it. The attempt may have lengthened the file.
            Err(_) => {
                again.set_len(held).map_err(|e| Error::from_io(&e, "While ftruncate", path))?;
                return Ok(Box::new(BufferedFile::new(again, path_buf, size, held, options)));
            }
        }
    }
    Ok(Box::new(BufferedFile::new(file, path_buf, size, held, options)))
}

fn cloexec(options: &FileOptions) -> i32 {
    if options.set_fd_cloexec { libc::O_CLOEXEC } else { 0 }
}

/// At multiples of how many bytes direct reads of a file start and end: where blocks of the disk are smaller than pages,
/// reads of unaligned ranges take less with them.
fn direct_read_alignment(file: &File) -> usize {
    match sys::direct_read_alignment(file) {
        Some((offset, memory)) if memory <= DIRECT_ALIGNMENT => offset,
        _ => DIRECT_ALIGNMENT,
    }
}

fn open_readable(path: &Path, options: &FileOptions, operation: &str) -> Result<File> {
    let direct = if options.use_direct_reads { libc::O_DIRECT } else { 0 };
    let mut open = OpenOptions::new();
    open.read(true).custom_flags(direct | cloexec(options));
    open.open(path).map_err(|e| Error::from_io(&e, operation, path))
}

impl FileSystem for PosixFileSystem {
    fn name(&self) -> &'static str {
        "posix"
    }

    fn new_sequential_file(&self, path: &Path, options: &FileOptions) -> Result<Box<dyn SequentialFile>> {
        let file = open_readable(path, options, "While opening a file for sequentially reading")?;
        let direct = options.use_direct_reads.then(|| direct_read_alignment(&file));
        if direct.is_none() {
            sys::advise(&file, 0, 0, AccessPattern::Sequential);
        }
        Ok(Box::new(PosixSequentialFile { file, path: path.to_path_buf(), offset: 0, direct }))
    }

    fn new_random_access_file(&self, path: &Path, options: &FileOptions) -> Result<Arc<dyn RandomAccessFile>> {
        let file = open_readable(path, options, "While open a file for random read")?;
        if options.use_mmap_reads && !options.use_direct_reads {
            let size = file.metadata().map_err(|e| Error::from_io(&e, "fstat", path))?.len();
            let bytes = usize::try_from(size).map_err(|_| Error::io_error("file too large to map").with_file(path))?;
            let mapping = ReadMapping::new(&file, bytes);
            let mapping = mapping.map_err(|e| Error::from_io(&e, "while mmap file for read", path))?;
            let mapped = PosixMappedFile { mapping, path: path.to_path_buf(), advised: AtomicBool::new(false) };
            mapped.hint(options.access_pattern);
            return Ok(Arc::new(mapped));
        }
        let direct = options.use_direct_reads.then(|| direct_read_alignment(&file));
        let file = PosixRandomAccessFile { file, path: path.to_path_buf(), direct };
        if options.access_pattern != AccessPattern::Normal {
            file.hint(options.access_pattern);
        }
        Ok(Arc::new(file))
    }

    fn new_writable_file(&self, path: &Path, options: &FileOptions) -> Result<Box<dyn WritableFile>> {
        open_writable(path, options, Start::Empty)
    }

    fn reopen_writable_file(&self, path: &Path, options: &FileOptions) -> Result<Box<dyn WritableFile>> {
        open_writable(path, options, Start::Append)
    }

    fn reuse_writable_file(&self, path: &Path, old: &Path, options: &FileOptions) -> Result<Box<dyn WritableFile>> {
        self.rename(old, path)?;
        open_writable(path, options, Start::Overwrite)
    }

    fn new_directory(&self, path: &Path) -> Result<Box<dyn Directory>> {
        let file = File::open(path).map_err(|e| Error::from_io(&e, "While open directory", path))?;
        Ok(Box::new(PosixDirectory { file, path: path.to_path_buf() }))
    }

    fn file_exists(&self, path: &Path) -> Result<bool> {
        path.try_exists().map_err(|e| Error::from_io(&e, "While accessing file", path))
    }

    fn is_directory(&self, path: &Path) -> Result<bool> {
        match std::fs::metadata(path) {
            Ok(metadata) => Ok(metadata.is_dir()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::from_io(&error, "While stat a file", path)),
        }
    }

    fn children(&self, path: &Path) -> Result<Vec<String>> {
        let fail = |e: &std::io::Error| Error::from_io(e, "While opendir", path);
        let entries = std::fs::read_dir(path).map_err(|e| fail(&e))?;
        entries.map(|entry| Ok(entry.map_err(|e| fail(&e))?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        std::fs::remove_file(path).map_err(|e| Error::from_io(&e, "while unlink() file", path))
    }

    fn create_dir(&self, path: &Path) -> Result<()> {
        std::fs::create_dir(path).map_err(|e| Error::from_io(&e, "While mkdir", path))
    }

    fn create_dir_if_missing(&self, path: &Path) -> Result<()> {
        match std::fs::create_dir(path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                if self.is_directory(path)? {
                    return Ok(());
                }
                Err(Error::io_error("exists but is not a directory").with_file(path))
            }
            other => other.map_err(|e| Error::from_io(&e, "While mkdir if missing", path)),
        }
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        std::fs::remove_dir(path).map_err(|e| Error::from_io(&e, "file rmdir", path))
    }

    fn file_size(&self, path: &Path) -> Result<u64> {
        let metadata = std::fs::metadata(path);
        Ok(metadata.map_err(|e| Error::from_io(&e, "while stat a file for size", path))?.len())
    }

    fn modification_time_secs(&self, path: &Path) -> Result<u64> {
        let modified = std::fs::metadata(path).and_then(|metadata| metadata.modified());
        let modified = modified.map_err(|e| Error::from_io(&e, "while stat a file for modification time", path))?;
        Ok(modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let operation = format!("While renaming a file to {}", to.display());
        std::fs::rename(from, to).map_err(|e| Error::from_io(&e, &operation, from))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        std::fs::hard_link(from, to).map_err(|e| {
            if e.raw_os_error() == Some(libc::EXDEV) {
                return Error::not_supported("No cross FS links allowed").with_file(from);
            }
            Error::from_io(&e, &format!("while link file to {}", to.display()), from)
        })
    }

    fn link_count(&self, path: &Path) -> Result<u64> {
        let metadata = std::fs::metadata(path);
        Ok(metadata.map_err(|e| Error::from_io(&e, "while stat a file for num hard links", path))?.nlink())
    }

    fn truncate(&self, path: &Path, size: u64) -> Result<()> {
        let file = OpenOptions::new().write(true).open(path);
        file.and_then(|file| file.set_len(size)).map_err(|e| Error::from_io(&e, "While truncate file", path))
    }

    fn lock_file(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        lock::lock_file(path)
    }

    fn absolute_path(&self, path: &Path) -> Result<PathBuf> {
        std::path::absolute(path).map_err(|e| Error::from_io(&e, "absolute path", path))
    }

    fn free_space_bytes(&self, path: &Path) -> Result<u64> {
        sys::free_space(path).map_err(|e| Error::from_io(&e, "While doing statvfs", path))
    }
}

#[derive(Debug)]
struct PosixDirectory {
    file: File,
    path: PathBuf,
}

impl Directory for PosixDirectory {
    fn fsync(&self) -> Result<()> {
        match self.file.sync_all() {
            // Some file systems cannot sync directories and need not.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            other => other.map_err(|e| Error::from_io(&e, "While fsync on dir", &self.path)),
        }
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
