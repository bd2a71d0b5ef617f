//! Memory mappings of files: read-only whole files, and writable windows of a file that is being appended to.
//!
//! A mapping is made over a [`File`] and unmapped when dropped. Reading or writing mapped memory whose file was cut
//! behind our back raises `SIGBUS`, and so does writing to it where the disk is full and a page needs a new block. Of what
//! this process does nothing leads there: tables never shrink while open, and log windows lie in blocks that were reserved
//! before, on file systems that keep such blocks in their place ([`super::sys::reserved_blocks_stay`]).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

fn map(file: &File, offset: u64, bytes: usize, protection: libc::c_int, flags: libc::c_int) -> io::Result<NonNull<u8>> {
    let offset = libc::off_t::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
    // SAFETY: a new mapping at an address of the kernel's choice over an open descriptor; no memory of ours is touched.
    let address = unsafe {
        libc::mmap(std::ptr::null_mut(), bytes, protection, flags | libc::MAP_SHARED, file.as_raw_fd(), offset)
    };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(address.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))
}

/// A whole file mapped for reading.
#[derive(Debug)]
pub(super) struct ReadMapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is only read, from any thread, and freed once by its owner.
unsafe impl Send for ReadMapping {}
// SAFETY: as above; shared reads of memory that nobody in this process writes.
unsafe impl Sync for ReadMapping {}

impl ReadMapping {
    /// Maps the first `bytes` bytes of a file. The file must not be shortened while the mapping lives.
    pub(super) fn new(file: &File, bytes: usize) -> io::Result<Self> {
        if bytes == 0 {
            return Ok(Self { start: NonNull::dangling(), bytes });
        }
        Ok(Self { start: map(file, 0, bytes, libc::PROT_READ, 0)?, bytes })
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        // SAFETY: the mapping covers `bytes` readable bytes (none when dangling) until `self` is dropped, and nobody
        // in this process writes them: files opened for mapped reads are complete.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    /// Tells the system how the mapping will be read.
    pub(super) fn advise_random(&self) {
        if self.bytes > 0 {
            // SAFETY: the range is exactly our mapping, and the advice does not change its contents.
            unsafe { libc::madvise(self.start.as_ptr().cast(), self.bytes, libc::MADV_RANDOM) };
        }
    }
}

impl Drop for ReadMapping {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: the range is exactly our mapping, which nobody can refer to any more.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
        }
    }
}

/// A window of a file mapped for writing.
#[derive(Debug)]
pub(super) struct WriteWindow {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is owned by this value, used through `&mut self` only, and not tied to a thread.
unsafe impl Send for WriteWindow {}
// SAFETY: a shared reference gives no access to the memory.
unsafe impl Sync for WriteWindow {}

impl WriteWindow {
    /// Maps `bytes` bytes from `offset` (a multiple of the page size), whose blocks are reserved; `populate` makes all
    /// pages present now instead of one fault per page later.
    pub(super) fn new(file: &File, offset: u64, bytes: usize, populate: bool) -> io::Result<Self> {
        let flags = if populate { libc::MAP_POPULATE } else { 0 };
        Ok(Self { start: map(file, offset, bytes, libc::PROT_READ | libc::PROT_WRITE, flags)?, bytes })
    }

    /// Copies as much of `data` as fits to position `at`; returns how many bytes fitted.
    #[inline]
    pub(super) fn write(&mut self, at: usize, data: &[u8]) -> usize {
        let count = data.len().min(self.bytes.saturating_sub(at));
        if count > 0 {
            // SAFETY: `at + count <= self.bytes`, all of which is mapped writable and owned by `self`; `data` is
            // ordinary memory and cannot overlap a mapping that no reference was ever given to.
            unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), self.start.as_ptr().add(at), count) };
        }
        count
    }

    /// Makes the pages of a range present and writable (`MADV_POPULATE_WRITE`, Linux 5.14).
    ///
    /// # Errors
    /// `EINVAL` or `ENOSYS` where the system does not know how; `EFAULT` where writing to the range would raise a signal.
    pub(super) fn populate(&self, at: usize, count: usize) -> io::Result<()> {
        let end = at.saturating_add(count).min(self.bytes);
        if at >= end {
            return Ok(());
        }
        // SAFETY: `at..end` lies in our mapping; populating does not change its contents.
        let result = unsafe { libc::madvise(self.start.as_ptr().add(at).cast(), end - at, libc::MADV_POPULATE_WRITE) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Takes the pages of a range out of the process; both ends are multiples of the page size. What was written stays in
    /// the page cache, dirty as it is, and is mapped again when it is touched again.
    pub(super) fn release(&self, at: usize, count: usize) {
        if at.saturating_add(count) > self.bytes {
            return;
        }
        // SAFETY: the range lies in our mapping, which is shared with the file: nothing that was written is lost. A refusal
        // changes nothing.
        unsafe { libc::madvise(self.start.as_ptr().add(at).cast(), count, libc::MADV_DONTNEED) };
    }
}

impl Drop for WriteWindow {
    fn drop(&mut self) {
        // SAFETY: the range is exactly our mapping, which nobody can refer to any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
