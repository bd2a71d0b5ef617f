//! The write-ahead log on a file: appending write groups, and reading records back.
//!
//! [`WalWriter`] frames one record per write group into a buffer that it keeps, and hands it to the file with one append;
//! nothing is allocated per record. [`FileLogReader`] feeds a sequential file to the log format's reader.
//!
//! Durability: a record survives a kill of the process when [`WalWriter::flush`] returned, and a power failure when the
//! file's sync returned and, for a new log, its directory was synced. A writer that failed once refuses further records,
//! because the file may end in the middle of one.

use std::sync::Arc;

use firn_env::{FileSpace, SequentialFile, WritableFile};
use firn_error::{Error, Result};
use firn_format::batch;
use firn_format::key::{FileNumber, SequenceNumber};
use firn_format::log::{ByteSource, LogCompression, LogEncoder, LogFormat, LogReader, PredecessorInfo, RecoveryMode};

/// The frame buffer shrinks back to this after a larger record.
const MAX_KEPT_BUFFER_BYTES: usize = 4 << 20;

/// How a log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalFormat {
    /// The number of the log.
    pub number: FileNumber,
    /// Whether records carry the number, so that the file may have an earlier life (`recycle_log_file_num` > 0).
    pub recyclable: bool,
    /// How records are compressed (`wal_compression`).
    pub compression: LogCompression,
}

/// Appends write groups to a log. Used by one thread at a time.
#[derive(Debug)]
pub struct WalWriter {
    file: Box<dyn WritableFile>,
    encoder: LogEncoder,
    buffer: Vec<u8>,
    number: FileNumber,
    last_sequence: SequenceNumber,
    records: u64,
    recorded_timestamp_sizes: Vec<(u32, u16)>,
    broken: Option<Error>,
}

impl WalWriter {
    /// Starts a log at offset 0 of `file`. Nothing is flushed yet.
    ///
    /// # Errors
    /// What the file or the compressor reports.
    pub fn new(file: Box<dyn WritableFile>, format: WalFormat) -> Result<Self> {
        let WalFormat { number, recyclable, compression } = format;
        let encoder = LogEncoder::new(LogFormat { log_number: number.get(), recyclable, compression })?;
        let mut writer = Self {
            file,
            encoder,
            buffer: Vec::new(),
            number,
            last_sequence: SequenceNumber::ZERO,
            records: 0,
            recorded_timestamp_sizes: Vec::new(),
            broken: None,
        };
        writer.framed(|encoder, buffer| {
            encoder.start(buffer);
            Ok(())
        })?;
        Ok(writer)
    }

    /// The number of the log.
    pub fn number(&self) -> FileNumber {
        self.number
    }

    /// Whether it failed once, and so takes no more records.
    pub fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Takes no more records: its last one was refused for `error`, and must not stand before acknowledged ones.
    pub fn give_up(&mut self, error: &Error) {
        self.broken.get_or_insert_with(|| error.clone());
    }

    /// Bytes appended so far.
    pub fn size_bytes(&self) -> u64 {
        self.encoder.position()
    }

    /// Whether no batch was appended yet; such a log may go on being used when the memtable is switched.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// The greatest start sequence of the batches appended; 0 without one.
    pub fn last_sequence(&self) -> SequenceNumber {
        self.last_sequence
    }

    /// What the next log may record about this one.
    pub fn as_predecessor(&self) -> PredecessorInfo {
        PredecessorInfo {
            log_number: self.number.get(),
            size_bytes: self.size_bytes(),
            last_sequence: self.last_sequence.get(),
        }
    }

    /// The file, for syncing it.
    pub fn file(&self) -> &dyn WritableFile {
        &*self.file
    }

    /// The file, for syncing it.
    pub fn file_mut(&mut self) -> &mut dyn WritableFile {
        &mut *self.file
    }

    /// Records what is known about the log before this one. Comes before the first batch.
    ///
    /// # Errors
    /// What the file reports.
    pub fn append_predecessor(&mut self, info: &PredecessorInfo) -> Result<()> {
        debug_assert!(self.is_empty());
        self.framed(|encoder, buffer| {
            encoder.append_predecessor(buffer, info);
            Ok(())
        })
    }

    /// Records the sizes of the user timestamps of column families that this log does not know yet. Comes before the first
    /// batch that has them.
    ///
    /// # Errors
    /// What the file reports.
    pub fn append_timestamp_sizes(&mut self, sizes: &[(u32, u16)]) -> Result<()> {
        let known = &self.recorded_timestamp_sizes;
        let new: Vec<_> = sizes
            .iter()
            .copied()
            .filter(|&(cf, size)| size > 0 && !known.iter().any(|&(known_cf, _)| known_cf == cf))
            .collect();
        if new.is_empty() {
            return Ok(());
        }
        self.framed(|encoder, buffer| encoder.append_timestamp_sizes(buffer, &new))?;
        self.recorded_timestamp_sizes.extend(new);
        Ok(())
    }

    /// Appends one record for a write group: a header with `sequence` and `count`, then `parts`, the records of each batch
    /// without its header, `part_bytes` altogether. Returns the size of the record's payload in bytes.
    ///
    /// # Errors
    /// What the file or the compressor reports; the log must then not be used any more.
    #[inline]
    pub fn append_group<'a>(
        &mut self,
        sequence: SequenceNumber,
        count: u32,
        part_bytes: usize,
        parts: impl Iterator<Item = &'a [u8]>,
    ) -> Result<usize> {
        let header = batch::header(sequence, count);
        let total = header.len() + part_bytes;
        self.framed(|encoder, buffer| {
            encoder.append_record_parts(
                buffer,
                total,
                std::iter::once(header.as_slice()).chain(parts.map(|part| part as &[u8])),
            )
        })?;
        self.records += 1;
        self.last_sequence = self.last_sequence.max(sequence);
        Ok(total)
    }

    /// Appends one batch that has its header already.
    ///
    /// # Errors
    /// As for [`append_group`](Self::append_group).
    pub fn append_batch(&mut self, data: &[u8]) -> Result<usize> {
        self.framed(|encoder, buffer| encoder.append_record(buffer, data))?;
        self.records += 1;
        self.last_sequence = self.last_sequence.max(batch::sequence(data));
        Ok(data.len())
    }

    /// Hands everything appended to the operating system.
    ///
    /// # Errors
    /// What the file reports.
    #[inline]
    pub fn flush(&mut self) -> Result<()> {
        self.usable()?;
        let flushed = self.file.flush();
        self.remember(flushed)
    }

    /// Makes everything appended durable; with `use_fsync` all metadata too.
    ///
    /// # Errors
    /// What the file reports.
    pub fn sync(&mut self, use_fsync: bool) -> Result<()> {
        self.usable()?;
        let synced = if use_fsync { self.file.fsync() } else { self.file.sync() };
        self.remember(synced)
    }

    /// Flushes, cuts the file to its logical size and closes it. Does not sync.
    ///
    /// # Errors
    /// What the file reports.
    pub fn close(&mut self) -> Result<()> {
        self.file.close()
    }

    /// Closes the log and makes it durable, its size included: behind a cut that was lost, a reader may find reserved space
    /// or the records of an earlier life, and take them for damage.
    ///
    /// # Errors
    /// What the file reports; the log must then not be used any more.
    pub fn finish(&mut self, use_fsync: bool) -> Result<()> {
        self.usable()?;
        let handle = self.file.sync_handle();
        let finished = match handle {
            Some(handle) => self.file.close().and_then(|()| handle.sync()),
            None => self.sync(use_fsync).and_then(|()| self.file.close()),
        };
        self.remember(finished)
    }

    /// What reserves disk space for this log while somebody appends to it; `None` where that gains nothing.
    pub fn space_handle(&self) -> Option<Arc<dyn FileSpace>> {
        self.file.space_handle()
    }

    fn usable(&self) -> Result<()> {
        match &self.broken {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    fn remember(&mut self, result: Result<()>) -> Result<()> {
        if let Err(error) = &result {
            self.broken = Some(error.clone());
        }
        result
    }

    #[inline]
    fn framed(&mut self, encode: impl FnOnce(&mut LogEncoder, &mut Vec<u8>) -> Result<()>) -> Result<()> {
        self.usable()?;
        self.buffer.clear();
        encode(&mut self.encoder, &mut self.buffer)?;
        // One append per record: a kill between two appends would leave half of it in a file without a buffer.
        let appended = if self.buffer.is_empty() { Ok(()) } else { self.file.append(&self.buffer) };
        if self.buffer.capacity() > MAX_KEPT_BUFFER_BYTES {
            self.buffer = Vec::new();
        }
        self.remember(appended)
    }
}

/// A sequential file as the source of a log reader.
#[derive(Debug)]
pub struct FileSource(pub Box<dyn SequentialFile>);

impl ByteSource for FileSource {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        self.0.read(buf)
    }
}

/// Reads the records of a log file.
pub type FileLogReader = LogReader<FileSource>;

/// A reader at the start of a log file; `number` is 0 for a MANIFEST.
pub fn open_log(file: Box<dyn SequentialFile>, number: FileNumber, mode: RecoveryMode) -> FileLogReader {
    LogReader::new(FileSource(file), number.get(), mode)
}
