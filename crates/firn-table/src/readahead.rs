//! Read-ahead of iterators: few large reads in place of many small ones.
//!
//! Block reads of one iterator flow through a [`ReadAhead`]. After a few reads that followed each other it starts to read
//! more than it was asked for, twice as much each time, and serves what comes next from its buffer. A read elsewhere
//! starts the count again.

use firn_env::RandomAccessFile;
use firn_error::Result;

/// When an iterator reads ahead, and how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAheadOptions {
    /// Read so many bytes ahead from the first read on; 0 to find out by the access pattern.
    pub fixed_bytes: usize,
    /// The first automatic read-ahead; 0 for none. Default 8 KiB.
    pub initial_bytes: usize,
    /// The greatest automatic read-ahead; 0 for none. Default 256 KiB.
    pub max_bytes: usize,
    /// Sequential reads before automatic read-ahead starts. Default 2.
    pub reads_before: u32,
}

impl Default for ReadAheadOptions {
    fn default() -> Self {
        Self { fixed_bytes: 0, initial_bytes: 8 << 10, max_bytes: 256 << 10, reads_before: 2 }
    }
}

/// The read-ahead state of one iterator.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    options: ReadAheadOptions,
    buffer: Vec<u8>,
    buffer_offset: u64,
    expected_offset: u64,
    sequential_reads: u32,
    next_bytes: usize,
}

impl ReadAhead {
    pub(crate) fn new(options: ReadAheadOptions) -> Self {
        Self {
            options,
            buffer: Vec::new(),
            buffer_offset: 0,
            expected_offset: u64::MAX,
            sequential_reads: 0,
            next_bytes: options.initial_bytes.min(options.max_bytes),
        }
    }

    /// Fills `out` from `offset`, reading ahead if it pays. Returns how many bytes the file had.
    pub(crate) fn read(
        &mut self,
        file: &dyn RandomAccessFile,
        file_size: u64,
        offset: u64,
        out: &mut [u8],
    ) -> Result<usize> {
        if offset == self.expected_offset {
            self.sequential_reads = self.sequential_reads.saturating_add(1);
        } else {
            self.sequential_reads = 0;
            self.next_bytes = self.options.initial_bytes.min(self.options.max_bytes);
        }
        self.expected_offset = offset + out.len() as u64;
        if self.copy_from_buffer(offset, out) {
            return Ok(out.len());
        }
        let ahead = if self.options.fixed_bytes > 0 {
            self.options.fixed_bytes
        } else if self.sequential_reads > self.options.reads_before {
            let ahead = self.next_bytes;
            self.next_bytes = (ahead * 2).min(self.options.max_bytes);
            ahead
        } else {
            0
        };
        if ahead == 0 {
            return file.read_at(offset, out);
        }
        let wanted = (out.len() + ahead) as u64;
        let wanted = wanted.min(file_size.saturating_sub(offset)) as usize;
        self.buffer.clear();
        self.buffer.resize(wanted, 0);
        self.buffer_offset = offset;
        let got = file.read_at(offset, &mut self.buffer);
        self.buffer.truncate(*got.as_ref().unwrap_or(&0));
        got?;
        if self.copy_from_buffer(offset, out) {
            return Ok(out.len());
        }
        Ok(self.buffer.len().min(out.len()))
    }

    fn copy_from_buffer(&self, offset: u64, out: &mut [u8]) -> bool {
        let Some(start) = offset.checked_sub(self.buffer_offset) else {
            return false;
        };
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        match start.checked_add(out.len()).and_then(|end| self.buffer.get(start..end)) {
            Some(bytes) => {
                out.copy_from_slice(bytes);
                true
            }
            None => false,
        }
    }
}
