//! Read-ahead of iterators: few large reads in place of many small ones.
//!
//! Block reads of one iterator flow through a [`ReadAhead`]. After a few reads that followed each other it starts to read
//! more than it was asked for, twice as much each time, and serves what comes next from its buffer. A read elsewhere
//! starts the count again.
//!
//! The buffer is small where the system has a cache of its own: that is asked to load what comes next in the background,
//! and only a piece of it is copied at a time. A merge of many tables would else hold its whole read-ahead of each.

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

/// What is copied at a time of what the system loads ahead.
const PIECE_BYTES: usize = 128 << 10;

/// Buffers grow in steps of so many bytes.
const BUFFER_STEP_BYTES: usize = 16 << 10;

/// The read-ahead state of one iterator.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    options: ReadAheadOptions,
    buffer: Vec<u8>,
    buffer_offset: u64,
    /// Until where the system was asked to load; 0 when it was not.
    loading_until: u64,
    can_load: bool,
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
            loading_until: 0,
            can_load: true,
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
            self.loading_until = 0;
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
        let ahead = self.load(file, file_size, offset + out.len() as u64, ahead);
        let wanted = (out.len() + ahead) as u64;
        let wanted = wanted.min(file_size.saturating_sub(offset)) as usize;
        self.buffer.clear();
        if self.buffer.capacity() < wanted {
            // Blocks differ a little in size, and so does what is wanted: no need for twice as much.
            self.buffer.reserve_exact(wanted.next_multiple_of(BUFFER_STEP_BYTES));
        }
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

    /// Has the system load at least half of the `ahead` bytes from `offset`, so that it is done with them when they are read;
    /// returns how much of them is to be read now.
    fn load(&mut self, file: &dyn RandomAccessFile, file_size: u64, offset: u64, ahead: usize) -> usize {
        if ahead <= PIECE_BYTES || !self.can_load {
            return ahead;
        }
        if self.loading_until < (offset + ahead as u64 / 2).min(file_size) {
            let start = self.loading_until.max(offset);
            // A file that cannot do it, or not now, is read in full.
            self.can_load = file.prefetch(start, ahead).unwrap_or(false);
            if !self.can_load {
                return ahead;
            }
            self.loading_until = start + ahead as u64;
        }
        PIECE_BYTES
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

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Mutex;

    use super::*;

    /// A file of zeros that remembers what was asked of it.
    #[derive(Debug, Default)]
    struct Recorder {
        loads: bool,
        loaded: Mutex<Vec<(u64, usize)>>,
        read: Mutex<Vec<(u64, usize)>>,
    }

    const FILE_BYTES: u64 = 8 << 20;

    impl RandomAccessFile for Recorder {
        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
            self.read.lock().unwrap().push((offset, buffer.len()));
            Ok(buffer.len())
        }

        fn size(&self) -> Result<u64> {
            Ok(FILE_BYTES)
        }

        fn path(&self) -> &Path {
            Path::new("recorder")
        }

        fn prefetch(&self, offset: u64, bytes: usize) -> Result<bool> {
            self.loaded.lock().unwrap().push((offset, bytes));
            Ok(self.loads)
        }
    }

    const AHEAD: usize = 2 << 20;

    /// The read-ahead and its file after so many bytes were read by the block.
    fn read_in_order(loads: bool, bytes: u64) -> (ReadAhead, Recorder) {
        let file = Recorder { loads, ..Recorder::default() };
        let mut readahead = ReadAhead::new(ReadAheadOptions { fixed_bytes: AHEAD, ..ReadAheadOptions::default() });
        let mut block = [0; 4096];
        for offset in (0..bytes).step_by(block.len()) {
            assert_eq!(readahead.read(&file, FILE_BYTES, offset, &mut block).unwrap(), block.len());
        }
        (readahead, file)
    }

    #[test]
    fn what_the_system_loads_is_copied_in_pieces() {
        let (readahead, file) = read_in_order(true, FILE_BYTES);
        assert!(
            readahead.buffer.capacity() <= PIECE_BYTES + 2 * BUFFER_STEP_BYTES,
            "{} bytes",
            readahead.buffer.capacity()
        );
        let loaded = file.loaded.into_inner().unwrap();
        assert!(loaded.windows(2).all(|pair| pair[0].0 + pair[0].1 as u64 == pair[1].0), "in order, once: {loaded:?}");
        // Every read but the first was in what had been asked for before it, with time to load it.
        for (offset, bytes) in file.read.into_inner().unwrap() {
            let end = (offset + bytes as u64 + AHEAD as u64 / 4).min(FILE_BYTES);
            assert!(loaded.iter().any(|(start, bytes)| start + *bytes as u64 >= end), "{offset}");
        }
    }

    #[test]
    fn where_the_system_loads_nothing_all_is_read_at_once() {
        let (readahead, file) = read_in_order(false, AHEAD as u64);
        assert!(readahead.buffer.len() > AHEAD);
        assert_eq!(file.loaded.into_inner().unwrap().len(), 1, "it is not asked again");
        assert_eq!(file.read.into_inner().unwrap(), [(0, 4096 + AHEAD)]);
    }
}
