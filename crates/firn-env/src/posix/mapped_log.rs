//! A log file that is appended to by copying into mapped memory.
//!
//! A `write` call per log record costs more than everything else a small put does. Here a window of the file is
//! reserved on disk, mapped, and filled by `memcpy`: the bytes are in the page cache at once, so they survive a kill of
//! the process exactly as written ones do; `sync` is the same `fdatasync`.
//!
//! Always true here: the blocks under a window were reserved before the window was mapped, and the file system keeps them
//! where they are ([`sys::reserved_blocks_stay`]; elsewhere logs are written with `write`), so a full disk is an error of
//! the append that needs the next window and never a signal; what lies behind the last append is zeros (or, in a
//! recycled file, bytes of its older life), which log readers take for the end; closing cuts it off. Pages that were filled
//! leave the process soon after: at most [`RESIDENT_BYTES`] and what was made present ahead count as its memory.
//!
//! What nothing here can exclude: somebody else who cuts the file off while it is open. The next step of pages is refused
//! with an error then, but a copy into pages that were present raises `SIGBUS`.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{Ordering, compiler_fence};

use firn_error::{Error, Result};

use super::mmap::WriteWindow;
use super::sys;
use super::write::{EarlySync, PosixSync, closed_error};
use crate::file::{FileOptions, FileSpace, FileSync, WritableFile};
use crate::sync::Mutex;

/// Windows are multiples of a log block, so that a cut-off log still ends at a block boundary.
const LOG_BLOCK_BYTES: u64 = 32 << 10;
/// A new log starts with a small window: most column families of an idle database write little.
const FIRST_WINDOW_BYTES: u64 = 256 << 10;
/// Windows double up to this size; see docs/performance.md for the figures.
const LARGEST_WINDOW_BYTES: u64 = 16 << 20;
/// Space is reserved ahead in steps of this size, since each holds up an append that needs its next window.
const AHEAD_STEP_BYTES: u64 = 8 << 20;
/// Nothing is reserved ahead unless the file system has so many times its size to spare.
const AHEAD_SPARE: u64 = 8;
/// The start of a log record with its length and type, in one store.
const RECORD_HEAD_BYTES: usize = 8;
/// Pages are made present in steps of this size ahead of the appends, instead of one fault per page. With records of 100
/// to 200 bytes fewer than one append in a thousand waits for a step.
const POPULATE_BYTES: usize = 256 << 10;
/// Filled pages are unmapped once there are so many.
const RESIDENT_BYTES: usize = 1 << 20;

/// A mapped log; see the module's documentation.
#[derive(Debug)]
pub(super) struct MappedLog {
    file: Arc<File>,
    path: PathBuf,
    window: Option<WriteWindow>,
    /// File offset of the window, a multiple of the log block.
    window_offset: u64,
    /// Bytes of the window that are in use; the file's size is `window_offset + used`.
    used: usize,
    window_bytes: usize,
    /// Bytes of the window whose pages are present.
    populated: usize,
    /// Bytes at the start of the window whose pages were unmapped again.
    released: usize,
    can_populate: bool,
    /// The visible size of the file.
    reserved: u64,
    next_window_bytes: u64,
    /// Looks once per step of pages, so write-back starts a little later than asked for.
    early: EarlySync,
    /// Blocks that others reserved ahead; none of this log's business until it closes.
    ahead: Arc<Ahead>,
    closed: bool,
}

/// Space of an open log that was reserved behind its visible end.
#[derive(Debug)]
struct Ahead {
    file: Arc<File>,
    path: PathBuf,
    /// Up to where; `None` once the log was closed, after which nobody may reserve any more.
    until: Mutex<Option<u64>>,
}

impl Ahead {
    /// Ends it: says up to where blocks may be reserved.
    fn end(&self) -> u64 {
        self.until.lock().take().unwrap_or(0)
    }

    /// Reserves blocks for `start..end`; false when there is no use in going on.
    fn step(&self, start: u64, end: u64) -> bool {
        let mut until = self.until.lock();
        let Some(until) = &mut *until else { return false };
        *until = end.max(*until);
        sys::allocate(&self.file, start, end - start, true).is_ok()
    }
}

impl FileSpace for Ahead {
    fn reserve(&self, bytes: u64) {
        let spare = self.path.parent().map_or(Ok(0), sys::free_space).unwrap_or(0);
        if spare / AHEAD_SPARE < bytes {
            return;
        }
        let mut start = 0;
        while start < bytes {
            let end = (start + AHEAD_STEP_BYTES).min(bytes);
            if !self.step(start, end) {
                return;
            }
            start = end;
        }
    }
}

impl MappedLog {
    /// A log that appends at `size` of a file that visibly holds `held` bytes.
    ///
    /// # Errors
    /// Whatever refuses the first window; the file is then as it was, and another writer can be used.
    pub(super) fn new(file: File, path: PathBuf, size: u64, held: u64, options: &FileOptions) -> io::Result<Self> {
        let file = Arc::new(file);
        let ahead = Ahead { file: Arc::clone(&file), path: path.clone(), until: Mutex::new(Some(0)) };
        let mut log = Self {
            file,
            path,
            window: None,
            window_offset: size,
            used: 0,
            window_bytes: 0,
            populated: 0,
            released: 0,
            can_populate: true,
            reserved: held,
            next_window_bytes: FIRST_WINDOW_BYTES,
            early: EarlySync::new(options, size),
            ahead: Arc::new(ahead),
            closed: false,
        };
        match log.map_next_window() {
            Ok(()) => Ok(log),
            Err(error) => {
                log.closed = true; // nothing to cut off: leave the file to the caller
                Err(error)
            }
        }
    }

    fn size(&self) -> u64 {
        self.window_offset + self.used as u64
    }

    /// Reserves and maps the window that starts at (the log block of) the current size.
    fn map_next_window(&mut self) -> io::Result<()> {
        let size = self.size();
        let start = size / LOG_BLOCK_BYTES * LOG_BLOCK_BYTES;
        let mut bytes = self.next_window_bytes;
        loop {
            match self.reserve(start, bytes) {
                Ok(()) => break,
                // The disk is nearly full: what is left may still do for a while.
                Err(error) if is_no_space(&error) && bytes > 2 * LOG_BLOCK_BYTES => bytes /= 2,
                Err(error) => return Err(error),
            }
        }
        let length = usize::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::ENOMEM))?;
        let window = WriteWindow::new(&self.file, start, length, false)?;
        self.window = Some(window);
        self.window_offset = start;
        self.used = usize::try_from(size - start).unwrap_or_default();
        self.window_bytes = length;
        self.populated = self.used;
        self.released = 0;
        self.next_window_bytes = (bytes * 2).min(LARGEST_WINDOW_BYTES);
        Ok(())
    }

    /// Gives a range real blocks and makes the file reach over it. The range of a recycled file has its blocks, unless
    /// somebody copied it sparsely: asking again costs little and rules the signal out.
    fn reserve(&mut self, start: u64, bytes: u64) -> io::Result<()> {
        sys::allocate(&self.file, start, bytes, false)?;
        self.reserved = self.reserved.max(start + bytes);
        Ok(())
    }

    #[cold]
    fn prepare(&mut self) -> Result<()> {
        if self.closed {
            return Err(closed_error(&self.path));
        }
        if self.used == self.window_bytes {
            let size = self.size();
            self.map_next_window()
                .map_err(|e| Error::from_io(&e, "While reserving log space", &self.path).with_offset(size))?;
        }
        self.early.after_write(&self.file, self.size());
        if let Some(window) = &self.window {
            let filled = self.used / 4096 * 4096;
            if filled - self.released >= RESIDENT_BYTES {
                window.release(self.released, filled - self.released);
                self.released = filled;
            }
            if self.can_populate {
                // The start must lie on a page boundary; the page of `populated` may be present already.
                let from = self.populated / 4096 * 4096;
                match window.populate(from, self.populated - from + POPULATE_BYTES) {
                    Ok(()) => {}
                    Err(error) if would_raise_a_signal(&error) => {
                        let error = self.explain_fault();
                        let error = Error::from_io(&error, "While touching log space", &self.path);
                        return Err(error.with_offset(self.size()));
                    }
                    // An older system: pages come one by one when they are touched.
                    Err(_) => self.can_populate = false,
                }
            }
            self.populated = (self.populated + POPULATE_BYTES) / 4096 * 4096;
            self.populated = self.populated.min(self.window_bytes);
        }
        Ok(())
    }

    /// Why pages of the window cannot be written to, which the system does not say.
    fn explain_fault(&self) -> io::Error {
        let end = self.window_offset + self.window_bytes as u64;
        if self.file.metadata().is_ok_and(|metadata| metadata.len() < end) {
            return io::Error::other("the file was cut off by somebody else");
        }
        let free = self.path.parent().map_or(Ok(u64::MAX), sys::free_space).unwrap_or(u64::MAX);
        io::Error::from_raw_os_error(if free < POPULATE_BYTES as u64 { libc::ENOSPC } else { libc::EIO })
    }
}

/// Whether pages could not be made present because writing to them is not possible, and not for want of the system call.
fn would_raise_a_signal(error: &io::Error) -> bool {
    is_no_space(error) || matches!(error.raw_os_error(), Some(libc::EFAULT | libc::EIO | libc::EHWPOISON))
}

fn is_no_space(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}

impl WritableFile for MappedLog {
    fn append(&mut self, mut data: &[u8]) -> Result<()> {
        if let (Some(window), Some((head, rest))) = (&mut self.window, data.split_first_chunk::<RECORD_HEAD_BYTES>())
            && data.len() <= self.populated - self.used
        {
            // The head goes last: a process killed within this copy leaves zeros where the record would begin, which
            // readers take for the end of the log, and not a record whose checksum fails.
            window.write(self.used + RECORD_HEAD_BYTES, rest);
            compiler_fence(Ordering::SeqCst);
            window.write(self.used, head);
            self.used += data.len();
            return Ok(());
        }
        while !data.is_empty() {
            if self.used >= self.populated {
                self.prepare()?;
            }
            let until = self.populated - self.used;
            let part = data.get(..until).unwrap_or(data);
            let Some(window) = &mut self.window else { return Err(closed_error(&self.path)) };
            let count = window.write(self.used, part);
            self.used += count;
            data = data.get(count..).unwrap_or_default();
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if self.closed { Err(closed_error(&self.path)) } else { Ok(()) }
    }

    fn sync(&mut self) -> Result<()> {
        self.flush()?;
        self.file.sync_data().map_err(|e| Error::from_io(&e, "While fdatasync", &self.path))
    }

    fn fsync(&mut self) -> Result<()> {
        self.flush()?;
        self.file.sync_all().map_err(|e| Error::from_io(&e, "While fsync", &self.path))
    }

    fn range_sync(&mut self, offset: u64, bytes: u64) -> Result<()> {
        self.flush()?;
        let done = sys::sync_range(&self.file, offset, bytes, self.early.is_strict());
        done.map_err(|e| Error::from_io(&e, "While sync_file_range", &self.path))
    }

    fn truncate(&mut self, size: u64) -> Result<()> {
        self.flush()?;
        // The window may reach beyond the new end: it must go before the file is cut.
        self.window = None;
        (self.used, self.window_bytes, self.populated) = (0, 0, 0);
        self.window_offset = size;
        self.file.set_len(size).map_err(|e| Error::from_io(&e, "While ftruncate", &self.path))?;
        self.reserved = size;
        self.early.cut(size);
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        if self.closed {
            return Ok(());
        }
        self.closed = true;
        let size = self.size();
        self.window = None;
        // Appends must find no room, so that they meet the check for a closed file.
        (self.window_offset, self.used, self.window_bytes, self.populated) = (size, 0, 0, 0);
        let reserved = self.reserved.max(self.ahead.end());
        if reserved > size {
            // A cut to the size that the file has already frees what was reserved behind it, on most file systems.
            self.file.set_len(size).map_err(|e| Error::from_io(&e, "While ftruncate file", &self.path))?;
            let _ = sys::release_behind_end(&self.file, size, reserved);
        }
        Ok(())
    }

    fn file_size(&self) -> u64 {
        self.size()
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn sync_handle(&self) -> Option<Arc<dyn FileSync>> {
        Some(Arc::new(PosixSync { file: Arc::clone(&self.file), path: self.path.clone() }))
    }

    fn space_handle(&self) -> Option<Arc<dyn FileSpace>> {
        Some(Arc::clone(&self.ahead) as Arc<dyn FileSpace>)
    }
}

impl Drop for MappedLog {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_log(dir: &Path, options: &FileOptions) -> Option<MappedLog> {
        let path = dir.join("000001.log");
        let file = std::fs::OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        if !sys::reserved_blocks_stay(&file) {
            firndb_testing::skip(&format!("logs are not mapped on the file system of {}", dir.display()));
            return None;
        }
        Some(MappedLog::new(file, path, 0, 0, options).unwrap())
    }

    #[test]
    fn write_back_starts_early_where_it_is_asked_for() {
        let options = FileOptions { bytes_per_sync: 512 << 10, mapped_log: true, ..FileOptions::default() };
        for (options, lag) in [(options, 3 << 20), (FileOptions::default(), u64::MAX)] {
            let dir = tempfile::tempdir().unwrap();
            let Some(mut log) = new_log(dir.path(), &options) else { return };
            for _ in 0..8 << 10 {
                log.append(&[7; 1 << 10]).unwrap();
                assert!(log.size().saturating_sub(log.early.synced_until()) < lag);
            }
            assert_eq!(log.early.synced_until() > 0, lag < u64::MAX);
            log.truncate(1 << 20).unwrap();
            assert!(log.early.synced_until() <= 1 << 20, "what is written again is synced again");
        }
    }

    #[test]
    fn a_log_that_somebody_cuts_off_is_an_error_at_the_next_step() {
        let dir = tempfile::tempdir().unwrap();
        let Some(mut log) = new_log(dir.path(), &FileOptions::default()) else { return };
        // Fill all pages that are present, so that the next append has to ask for some.
        log.append(b"record").unwrap();
        let room = log.populated - log.used;
        log.append(&vec![1; room]).unwrap();
        // A window that has pages left.
        if log.used == log.window_bytes {
            log.append(b"record").unwrap();
            let room = log.populated - log.used;
            log.append(&vec![1; room]).unwrap();
        }
        assert!(log.used < log.window_bytes);
        let size = log.size();
        std::fs::OpenOptions::new().write(true).open(log.path()).unwrap().set_len(0).unwrap();
        let error = log.append(b"record").unwrap_err();
        assert!(error.to_string().contains("cut off by somebody else"), "{error}");
        assert!(error.to_string().contains("000001.log"), "{error}");
        assert_eq!(log.size(), size);
    }
}
