//! Writing files: buffered, around the page cache, or straight through.
//!
//! Appended bytes collect in a user-space buffer and go to the system when it is full or on `flush`. Space is reserved
//! ahead in chunks, write-back is started early when asked, and `close` gives back what was reserved and not used.
//!
//! Always true here: `written + buffered == size`; the direct writer's buffer starts at an aligned file offset.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_error::{Error, Result};

use super::{DIRECT_ALIGNMENT, aligned::AlignedBuffer, sys};
use crate::file::{FileOptions, FileSync, WritableFile};
use crate::rate_limiter::{IoKind, IoPriority, RateLimiter};

/// Write-back is never asked for the last so many bytes: they would soon be written again.
const RANGE_SYNC_LAG_BYTES: u64 = 1 << 20;

/// Buffers up to this size grow as they need; beyond, they get their whole capacity at once.
const SMALL_BUFFER_BYTES: usize = 64 << 10;

/// Makes the bytes of an open file durable; shared by all writers of this file system.
#[derive(Debug)]
pub(super) struct PosixSync {
    pub(super) file: Arc<File>,
    pub(super) path: PathBuf,
}

impl FileSync for PosixSync {
    fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|e| Error::from_io(&e, "While fdatasync", &self.path))
    }
}

/// `pwrite` of everything.
pub(super) fn pwrite(file: &File, path: &Path, mut offset: u64, mut data: &[u8]) -> Result<()> {
    while !data.is_empty() {
        match file.write_at(data, offset) {
            Ok(count) => {
                data = data.get(count..).unwrap_or_default();
                offset += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                return Err(Error::from_io(&error, "While appending to file", path).with_offset(offset));
            }
        }
    }
    Ok(())
}

/// Where the reservation of a file stands.
#[derive(Debug)]
struct Reservation {
    chunk_bytes: u64,
    keep_size: bool,
    reserved: u64,
}

impl Reservation {
    /// Makes sure that the blocks before `end` are reserved. A refusal is remembered and harmless: the write itself
    /// reports a full disk.
    fn cover(&mut self, file: &File, end: u64) {
        if self.chunk_bytes == 0 || end <= self.reserved {
            return;
        }
        let until = end.div_ceil(self.chunk_bytes).saturating_mul(self.chunk_bytes);
        match sys::allocate(file, self.reserved, until - self.reserved, self.keep_size) {
            Ok(()) => self.reserved = until,
            Err(_) => self.chunk_bytes = 0,
        }
    }
}

/// Who is asked before bytes are written.
#[derive(Debug)]
struct Throttle {
    limiter: Option<Arc<dyn RateLimiter>>,
    priority: IoPriority,
}

impl Throttle {
    fn new(options: &FileOptions) -> Self {
        Self { limiter: options.rate_limiter.clone(), priority: options.rate_limiter_priority }
    }

    fn wait(&self, bytes: usize) {
        if let Some(limiter) = &self.limiter {
            limiter.request(bytes as u64, self.priority, IoKind::Write);
        }
    }
}

/// Where early write-back stands.
#[derive(Debug)]
pub(super) struct EarlySync {
    every_bytes: u64,
    strict: bool,
    synced_until: u64,
}

impl EarlySync {
    /// For a file that is written from `size` on.
    pub(super) fn new(options: &FileOptions, size: u64) -> Self {
        Self { every_bytes: options.bytes_per_sync, strict: options.strict_bytes_per_sync, synced_until: size }
    }

    /// Up to where write-back was asked for.
    #[cfg(test)]
    pub(super) fn synced_until(&self) -> u64 {
        self.synced_until
    }

    /// What lies behind `size` was cut off.
    pub(super) fn cut(&mut self, size: u64) {
        self.synced_until = self.synced_until.min(size);
    }

    /// Whether write-back waits for the one before it.
    pub(super) fn is_strict(&self) -> bool {
        self.strict
    }

    /// Starts write-back, if it is time to: the file holds `written` bytes now.
    pub(super) fn after_write(&mut self, file: &File, written: u64) {
        if self.every_bytes == 0 || written < self.synced_until + RANGE_SYNC_LAG_BYTES + self.every_bytes {
            return;
        }
        let until = (written - RANGE_SYNC_LAG_BYTES) / 4096 * 4096;
        // A hint: what it cannot do, the later sync does.
        let _ = if self.strict {
            sys::sync_range(file, 0, until, true)
        } else {
            sys::sync_range(file, self.synced_until, until - self.synced_until, false)
        };
        self.synced_until = until;
    }
}

/// A writer through the page cache.
#[derive(Debug)]
pub(super) struct BufferedFile {
    file: Arc<File>,
    path: PathBuf,
    buffer: Vec<u8>,
    capacity: usize,
    written: u64,
    reservation: Reservation,
    early: EarlySync,
    throttle: Throttle,
    /// The file holds bytes behind `size` that closing must cut: a reservation, or an older life.
    cut_at_close: bool,
    closed: bool,
}

impl BufferedFile {
    /// A writer that appends at `size`; `held` is the visible length of the file now.
    pub(super) fn new(file: File, path: PathBuf, size: u64, held: u64, options: &FileOptions) -> Self {
        Self {
            file: Arc::new(file),
            path,
            buffer: Vec::new(),
            capacity: options.writable_buffer_bytes,
            written: size,
            reservation: Reservation {
                chunk_bytes: options.preallocate_bytes,
                keep_size: options.fallocate_with_keep_size,
                reserved: held,
            },
            early: EarlySync::new(options, size),
            throttle: Throttle::new(options),
            cut_at_close: held > size,
            closed: false,
        }
    }

    fn check_open(&self) -> Result<()> {
        if self.closed { Err(closed_error(&self.path)) } else { Ok(()) }
    }

    fn write_out(&mut self, data: &[u8]) -> Result<()> {
        self.throttle.wait(data.len());
        self.reservation.cover(&self.file, self.written + data.len() as u64);
        pwrite(&self.file, &self.path, self.written, data)?;
        self.written += data.len() as u64;
        self.early.after_write(&self.file, self.written);
        Ok(())
    }

    fn write_buffer(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let result = self.write_out(&buffer);
        if result.is_ok() {
            buffer.clear();
        }
        self.buffer = buffer;
        result
    }
}

pub(super) fn closed_error(path: &Path) -> Error {
    Error::io_error("the file is closed").with_file(path)
}

impl WritableFile for BufferedFile {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.check_open()?;
        if self.buffer.len() + data.len() > self.capacity {
            self.write_buffer()?;
            if data.len() >= self.capacity {
                return self.write_out(data);
            }
        }
        if self.buffer.len() + data.len() > self.buffer.capacity() && self.buffer.capacity() >= SMALL_BUFFER_BYTES {
            // A file that needs more than a little is a large one: growing by steps would leave as much garbage again.
            self.buffer.reserve_exact(self.capacity - self.buffer.len());
        }
        self.buffer.extend_from_slice(data);
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.check_open()?;
        self.write_buffer()
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
        self.check_open()?;
        let done = sys::sync_range(&self.file, offset, bytes, self.early.is_strict());
        done.map_err(|e| Error::from_io(&e, "While sync_file_range", &self.path))
    }

    fn truncate(&mut self, size: u64) -> Result<()> {
        self.flush()?;
        self.file.set_len(size).map_err(|e| Error::from_io(&e, "While ftruncate", &self.path))?;
        self.written = size;
        self.reservation.reserved = size;
        self.early.cut(size);
        self.cut_at_close = false;
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        if self.closed {
            return Ok(());
        }
        let flushed = self.write_buffer();
        self.closed = true;
        if self.cut_at_close || self.reservation.reserved > self.written {
            let cut = self.file.set_len(self.written);
            // Cutting to the same visible size may keep the blocks behind it (ext4, XFS): free them explicitly.
            let _ = sys::release_behind_end(&self.file, self.written, self.reservation.reserved);
            let cut = cut.map_err(|e| Error::from_io(&e, "While ftruncate file", &self.path));
            return flushed.and(cut);
        }
        flushed
    }

    fn file_size(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn sync_handle(&self) -> Option<Arc<dyn FileSync>> {
        Some(Arc::new(PosixSync { file: Arc::clone(&self.file), path: self.path.clone() }))
    }
}

impl Drop for BufferedFile {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

/// A writer around the page cache: whole aligned pages only. The last, partial page stays in the buffer and is written
/// padded with zeros by `flush`; it is written again once it is full, and closing cuts the padding off.
#[derive(Debug)]
pub(super) struct DirectFile {
    file: Arc<File>,
    path: PathBuf,
    buffer: AlignedBuffer,
    /// Bytes of the buffer in use; the first lies at file offset `base`.
    used: usize,
    base: u64,
    /// Bytes at the front of the buffer that are already on disk (a padded page).
    clean: usize,
    reservation: Reservation,
    throttle: Throttle,
    closed: bool,
}

impl DirectFile {
    /// A writer that appends at `size`, whose last partial page is `tail`.
    pub(super) fn new(file: File, path: PathBuf, size: u64, tail: &[u8], options: &FileOptions) -> Self {
        let capacity =
            options.writable_buffer_bytes.max(DIRECT_ALIGNMENT).div_ceil(DIRECT_ALIGNMENT) * DIRECT_ALIGNMENT;
        let mut buffer = AlignedBuffer::new(capacity);
        if let Some(start) = buffer.as_mut_slice().get_mut(..tail.len()) {
            start.copy_from_slice(tail);
        }
        Self {
            file: Arc::new(file),
            path,
            buffer,
            used: tail.len(),
            base: size - tail.len() as u64,
            clean: tail.len(),
            reservation: Reservation {
                chunk_bytes: options.preallocate_bytes,
                keep_size: options.fallocate_with_keep_size,
                reserved: size,
            },
            throttle: Throttle::new(options),
            closed: false,
        }
    }

    fn check_open(&self) -> Result<()> {
        if self.closed { Err(closed_error(&self.path)) } else { Ok(()) }
    }

    fn write_pages(&mut self) -> Result<()> {
        if self.used == self.clean {
            return Ok(());
        }
        let padded = self.used.div_ceil(DIRECT_ALIGNMENT) * DIRECT_ALIGNMENT;
        let whole = self.used / DIRECT_ALIGNMENT * DIRECT_ALIGNMENT;
        self.throttle.wait(padded);
        self.reservation.cover(&self.file, self.base + padded as u64);
        let memory = self.buffer.as_mut_slice();
        if let Some(padding) = memory.get_mut(self.used..padded) {
            padding.fill(0);
        }
        pwrite(&self.file, &self.path, self.base, memory.get(..padded).unwrap_or_default())?;
        memory.copy_within(whole..self.used, 0);
        self.base += whole as u64;
        self.used -= whole;
        self.clean = self.used;
        Ok(())
    }
}

impl WritableFile for DirectFile {
    fn append(&mut self, mut data: &[u8]) -> Result<()> {
        self.check_open()?;
        while !data.is_empty() {
            let used = self.used;
            let room = self.buffer.as_mut_slice().get_mut(used..).unwrap_or_default();
            let (now, later) = data.split_at(room.len().min(data.len()));
            if let Some(target) = room.get_mut(..now.len()) {
                target.copy_from_slice(now);
            }
            self.used += now.len();
            data = later;
            if self.used == self.buffer.as_slice().len() {
                self.write_pages()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.check_open()?;
        self.write_pages()
    }

    fn sync(&mut self) -> Result<()> {
        self.flush()?;
        self.file.sync_data().map_err(|e| Error::from_io(&e, "While fdatasync", &self.path))
    }

    fn fsync(&mut self) -> Result<()> {
        self.flush()?;
        self.file.sync_all().map_err(|e| Error::from_io(&e, "While fsync", &self.path))
    }

    fn truncate(&mut self, size: u64) -> Result<()> {
        self.flush()?;
        if size < self.base {
            return Err(Error::not_supported("cutting a direct-I/O file before its last page").with_file(&self.path));
        }
        self.file.set_len(size).map_err(|e| Error::from_io(&e, "While ftruncate", &self.path))?;
        let kept = usize::try_from(size - self.base).unwrap_or(usize::MAX);
        if kept > self.used {
            return Err(Error::not_supported("extending a direct-I/O file").with_file(&self.path));
        }
        self.used = kept;
        self.clean = kept;
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        if self.closed {
            return Ok(());
        }
        let flushed = self.write_pages();
        self.closed = true;
        let size = self.file_size();
        let cut = self.file.set_len(size).map_err(|e| Error::from_io(&e, "While ftruncate file", &self.path));
        let _ = sys::release_behind_end(&self.file, size, self.reservation.reserved);
        flushed.and(cut)
    }

    fn file_size(&self) -> u64 {
        self.base + self.used as u64
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn sync_handle(&self) -> Option<Arc<dyn FileSync>> {
        Some(Arc::new(PosixSync { file: Arc::clone(&self.file), path: self.path.clone() }))
    }
}

impl Drop for DirectFile {
    fn drop(&mut self) {
        let _ = self.close();
    }
}
