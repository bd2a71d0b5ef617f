//! Reading files: sequential, by `pread`, around the page cache, and mapped.
//!
//! Offsets and buffers flow in, bytes flow out; reads continue after interruptions and short results, so less than
//! asked means the end of the file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use firn_error::{Error, Result};

use super::mmap::ReadMapping;
use super::{DIRECT_ALIGNMENT, aligned::with_buffer, sys};
use crate::file::{AccessPattern, RandomAccessFile, SequentialFile};

/// `pread` until the buffer is full or the file ends.
fn pread(file: &File, path: &Path, offset: u64, buffer: &mut [u8]) -> Result<usize> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                let error = Error::from_io(&error, "While pread", path);
                return Err(error.with_offset(offset.saturating_add(done as u64)));
            }
        }
    }
    Ok(done)
}

/// Reads an unaligned range with direct reads of multiples of `align` through a buffer.
fn pread_direct(file: &File, path: &Path, align: usize, offset: u64, buffer: &mut [u8]) -> Result<usize> {
    let start = offset / align as u64 * align as u64;
    let lead = usize::try_from(offset - start).unwrap_or_default();
    let span = (lead + buffer.len()).div_ceil(align) * align;
    with_buffer(span, |aligned| {
        let got = pread(file, path, start, aligned)?;
        let count = got.saturating_sub(lead).min(buffer.len());
        if let (Some(target), Some(source)) = (buffer.get_mut(..count), aligned.get(lead..lead + count)) {
            target.copy_from_slice(source);
        }
        Ok(count)
    })
}

fn check_offset(path: &Path, offset: u64, bytes: usize) -> Result<()> {
    match offset.checked_add(bytes as u64) {
        Some(end) if i64::try_from(end).is_ok() => Ok(()),
        _ => Err(Error::invalid_argument("offset beyond what a file can have").with_file(path).with_offset(offset)),
    }
}

#[derive(Debug)]
pub(super) struct PosixSequentialFile {
    pub(super) file: File,
    pub(super) path: PathBuf,
    pub(super) offset: u64,
    /// At multiples of how many bytes direct reads start and end; none through the page cache.
    pub(super) direct: Option<usize>,
}

impl SequentialFile for PosixSequentialFile {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        check_offset(&self.path, self.offset, buffer.len())?;
        let got = match self.direct {
            Some(align) => pread_direct(&self.file, &self.path, align, self.offset, buffer)?,
            None => pread(&self.file, &self.path, self.offset, buffer)?,
        };
        self.offset += got as u64;
        Ok(got)
    }

    fn skip(&mut self, bytes: u64) -> Result<()> {
        self.offset = self.offset.saturating_add(bytes).min(i64::MAX as u64 / 2);
        Ok(())
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

#[derive(Debug)]
pub(super) struct PosixRandomAccessFile {
    pub(super) file: File,
    pub(super) path: PathBuf,
    /// At multiples of how many bytes direct reads start and end; none through the page cache.
    pub(super) direct: Option<usize>,
}

impl RandomAccessFile for PosixRandomAccessFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        check_offset(&self.path, offset, buffer.len())?;
        let Some(align) = self.direct else {
            return pread(&self.file, &self.path, offset, buffer);
        };
        let aligned = offset.is_multiple_of(align as u64)
            && buffer.len().is_multiple_of(align)
            && buffer.as_ptr().addr().is_multiple_of(DIRECT_ALIGNMENT);
        if aligned {
            pread(&self.file, &self.path, offset, buffer)
        } else {
            pread_direct(&self.file, &self.path, align, offset, buffer)
        }
    }

    fn size(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(|e| Error::from_io(&e, "fstat", &self.path))?.len())
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn prefetch(&self, offset: u64, bytes: usize) -> Result<bool> {
        if self.is_direct() {
            return Ok(false);
        }
        sys::readahead(&self.file, offset, bytes).map_err(|e| Error::from_io(&e, "While prefetching", &self.path))?;
        Ok(true)
    }

    fn hint(&self, pattern: AccessPattern) {
        if !self.is_direct() {
            sys::advise(&self.file, 0, 0, pattern);
        }
    }

    fn required_alignment(&self) -> usize {
        self.direct.unwrap_or(1)
    }

    fn is_direct(&self) -> bool {
        self.direct.is_some()
    }
}

#[derive(Debug)]
pub(super) struct PosixMappedFile {
    pub(super) mapping: ReadMapping,
    pub(super) path: PathBuf,
    pub(super) advised: AtomicBool,
}

impl RandomAccessFile for PosixMappedFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let available = self.mapping.as_slice().get(from..).unwrap_or_default();
        let count = available.len().min(buffer.len());
        if let (Some(target), Some(source)) = (buffer.get_mut(..count), available.get(..count)) {
            target.copy_from_slice(source);
        }
        Ok(count)
    }

    fn size(&self) -> Result<u64> {
        Ok(self.mapping.as_slice().len() as u64)
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn hint(&self, pattern: AccessPattern) {
        if pattern == AccessPattern::Random && !self.advised.swap(true, Ordering::Relaxed) {
            self.mapping.advise_random();
        }
    }

    fn as_mapped(&self) -> Option<&[u8]> {
        Some(self.mapping.as_slice())
    }
}
