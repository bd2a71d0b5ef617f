//! The reader: framed bytes in, payloads and reports of damage out.

use super::frame::Decompressor;
use super::{
    BLOCK_SIZE, HEADER_SIZE, LogCompression, PredecessorInfo, RECYCLABLE_HEADER_SIZE, RecoveryMode,
    decode_timestamp_sizes, record_type,
};
use crate::checksum::{crc32c, crc32c_extend, unmask_crc32c};
use crate::{Error, Result};
use std::ops::Range;

/// Where the bytes of a log come from.
pub trait ByteSource {
    /// Reads up to `buf.len()` bytes; 0 means the end.
    ///
    /// # Errors
    /// Whatever the file system reports; it ends the reading.
    fn read(&mut self, buf: &mut [u8]) -> Result<usize>;
}

/// A log that lies in memory.
#[derive(Clone, Debug)]
pub struct SliceSource<'a>(pub &'a [u8]);

impl ByteSource for SliceSource<'_> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let (now, later) = self.0.split_at(buf.len().min(self.0.len()));
        buf[..now.len()].copy_from_slice(now);
        self.0 = later;
        Ok(now.len())
    }
}

/// Damage found in a log.
#[derive(Clone, Debug)]
pub struct Report {
    /// What is wrong; carries the offset in the log. The owner adds the file.
    pub error: Error,
    /// Bytes dropped because of it, roughly.
    pub dropped_bytes: u64,
}

/// What reading one physical record came to.
enum Physical {
    /// A record with a matching checksum; the payload lies in this range of the block buffer.
    Record { number: u8, payload: Range<usize> },
    /// The end of the file, with this many bytes of an incomplete header.
    End { torn_header_bytes: usize },
    /// The length runs over the end of the block; `last_block` if the file ends there, as it does after a torn write.
    BadLength { dropped: usize, last_block: bool },
    /// The checksum does not match; `before_zeros` if the record ends in a zero and the block in zeros behind it.
    BadChecksum { dropped: usize, before_zeros: bool },
    /// Zeros where a record should be; `before_zeros` if the block has nothing else.
    BadRecord { before_zeros: bool },
    /// A record of an earlier life of the file.
    Old,
    /// A recyclable record after legacy ones: no writer makes this.
    MixedHeaders { dropped: usize },
}

/// Where the current logical record lies.
enum Current {
    None,
    InBlock(Range<usize>),
    Assembled,
    Decompressed,
}

/// Reads the logical records of a log.
///
/// Call [`advance`](Self::advance) until it answers `false`; after each call, also the last, ask
/// [`take_report`](Self::take_report). What a report means is up to the owner: under
/// [`RecoveryMode::SkipAnyCorruptedRecords`] it is logged and reading goes on, under
/// [`RecoveryMode::PointInTime`] the owner stops using the log, under the other two opening fails.
pub struct LogReader<S> {
    source: S,
    mode: RecoveryMode,
    log_number: u32,
    block: Box<[u8]>,
    /// The unread part of the block.
    unread: Range<usize>,
    /// Offset in the log of the start of the block buffer.
    block_offset: u64,
    source_ended: bool,
    ended: bool,
    /// Whether a record with a recyclable header was met.
    recycled: bool,
    data_record_seen: bool,
    compression_seen: bool,
    decompressor: Option<Decompressor>,
    in_record: bool,
    pending: Vec<u8>,
    pending_offset: u64,
    current: Current,
    record_offset: u64,
    record_end: u64,
    report: Option<Report>,
    old_record_seen: bool,
    timestamp_sizes: Vec<(u32, u16)>,
    predecessor: Option<PredecessorInfo>,
}

impl<S: std::fmt::Debug> std::fmt::Debug for LogReader<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogReader")
            .field("source", &self.source)
            .field("mode", &self.mode)
            .field("record_offset", &self.record_offset)
            .finish_non_exhaustive()
    }
}

impl<S: ByteSource> LogReader<S> {
    /// A reader at the start of a log; `log_number` is the number of the WAL, 0 for a MANIFEST.
    pub fn new(source: S, log_number: u64, mode: RecoveryMode) -> Self {
        Self {
            source,
            mode,
            // Recyclable headers carry only this half.
            log_number: log_number as u32,
            block: vec![0; BLOCK_SIZE].into_boxed_slice(),
            unread: 0..0,
            block_offset: 0,
            source_ended: false,
            ended: false,
            recycled: false,
            data_record_seen: false,
            compression_seen: false,
            decompressor: None,
            in_record: false,
            pending: Vec::new(),
            pending_offset: 0,
            current: Current::None,
            record_offset: 0,
            record_end: 0,
            report: None,
            old_record_seen: false,
            timestamp_sizes: Vec::new(),
            predecessor: None,
        }
    }

    /// The payload of the record that the last [`advance`](Self::advance) found; empty if it found none.
    pub fn record(&self) -> &[u8] {
        match &self.current {
            Current::None => &[],
            Current::InBlock(range) => self.block.get(range.clone()).unwrap_or(&[]),
            Current::Assembled => &self.pending,
            Current::Decompressed => self.decompressor.as_ref().map_or(&[], |decompressor| &decompressor.output),
        }
    }

    /// Offset in the log of the first fragment of the current record.
    pub fn record_offset(&self) -> u64 {
        self.record_offset
    }

    /// Offset in the log just behind the last record that was returned: where an intact log ends.
    pub fn record_end(&self) -> u64 {
        self.record_end
    }

    /// The first damage found since the last call. Later ones of the same step are consequences of it.
    pub fn take_report(&mut self) -> Option<Report> {
        self.report.take()
    }

    /// Whether reading ended at a record of an earlier life of the file, outside a logical record.
    ///
    /// Under [`RecoveryMode::PointInTime`] this stops the replay as a report does.
    pub fn old_record_seen(&self) -> bool {
        self.old_record_seen
    }

    /// The sizes in bytes of the user timestamps of column families, as far as recorded up to here.
    pub fn timestamp_sizes(&self) -> &[(u32, u16)] {
        &self.timestamp_sizes
    }

    /// What the log says about the WAL before it, if that was met since the last call.
    pub fn take_predecessor(&mut self) -> Option<PredecessorInfo> {
        self.predecessor.take()
    }

    /// Whether headers carry the WAL number, as far as seen.
    pub fn is_recycled(&self) -> bool {
        self.recycled
    }

    /// The source, for its owner to look at.
    pub fn source(&self) -> &S {
        &self.source
    }

    #[cold]
    fn report(&mut self, dropped: usize, message: impl Into<String>) {
        self.report_error(dropped, Error::corruption(message));
    }

    #[cold]
    fn report_error(&mut self, dropped: usize, error: Error) {
        let offset = self.offset();
        if let Some(first) = &mut self.report {
            first.dropped_bytes += dropped as u64;
        } else {
            self.report = Some(Report { error: error.with_offset(offset), dropped_bytes: dropped as u64 });
        }
    }

    /// Offset in the log of the next unread byte.
    fn offset(&self) -> u64 {
        self.block_offset + self.unread.start as u64
    }

    fn strict(&self) -> bool {
        matches!(self.mode, RecoveryMode::AbsoluteConsistency | RecoveryMode::PointInTime)
    }

    /// Drops the fragments of an unfinished record and says that this is damage.
    fn break_off(&mut self, message: &str) {
        if self.in_record {
            let dropped = self.pending.len();
            self.report(dropped, message);
            self.forget_pending();
        }
    }

    fn forget_pending(&mut self) {
        self.in_record = false;
        self.pending.clear();
    }

    fn end(&mut self) -> bool {
        self.ended = true;
        self.forget_pending();
        false
    }

    /// Moves to the next logical record; `false` at the end of the log.
    ///
    /// # Errors
    /// Only failures of the source; damage goes to [`take_report`](Self::take_report).
    pub fn advance(&mut self) -> Result<bool> {
        if matches!(self.current, Current::Assembled) {
            self.pending.clear();
        }
        self.current = Current::None;
        while !self.ended {
            let start = self.offset();
            match self.read_physical()? {
                Physical::Record { number, payload } => {
                    // `read_physical` skips to the next block when the header does not fit the current one.
                    let header = if has_recyclable_header(number) { RECYCLABLE_HEADER_SIZE } else { HEADER_SIZE };
                    let offset = self.block_offset + (payload.start - header) as u64;
                    debug_assert!(offset >= start);
                    if self.take_record(number, payload, offset) {
                        self.data_record_seen = true;
                        self.record_end = self.offset();
                        return Ok(true);
                    }
                }
                Physical::End { torn_header_bytes } => {
                    if self.strict() && torn_header_bytes > 0 {
                        self.report(torn_header_bytes, "truncated header");
                    }
                    if self.strict() && self.in_record {
                        self.break_off("error reading trailing data due to encountering EOF");
                    }
                    return Ok(self.end());
                }
                Physical::BadLength { dropped, last_block: true } => {
                    if self.strict() {
                        self.report(dropped, "truncated record body");
                    }
                    return Ok(self.end());
                }
                Physical::BadLength { dropped, last_block: false } => {
                    if self.is_stale_tail() {
                        return Ok(self.end());
                    }
                    self.report(dropped, "bad record length");
                    self.break_off("error in middle of record");
                }
                Physical::BadChecksum { dropped, before_zeros } => {
                    if self.is_stale_tail() || (before_zeros && self.is_unwritten_tail()?) {
                        return Ok(self.end());
                    }
                    self.report(dropped, "checksum mismatch");
                    self.break_off("error in middle of record");
                }
                Physical::BadRecord { before_zeros } => {
                    if self.in_record && before_zeros && self.is_unwritten_tail()? {
                        return Ok(self.end());
                    }
                    self.break_off("error in middle of record");
                }
                Physical::Old => match self.mode {
                    RecoveryMode::SkipAnyCorruptedRecords => self.break_off("error in middle of record"),
                    RecoveryMode::TolerateCorruptedTailRecords => return Ok(self.end()),
                    RecoveryMode::AbsoluteConsistency | RecoveryMode::PointInTime => {
                        if self.in_record {
                            self.break_off("error reading trailing data due to encountering old record");
                        } else {
                            self.old_record_seen = true;
                        }
                        return Ok(self.end());
                    }
                },
                Physical::MixedHeaders { dropped } => {
                    self.report(dropped, "recyclable record after legacy records");
                    return Ok(self.end());
                }
            }
        }
        Ok(false)
    }

    /// Whether damage is what an earlier life of the file left: only where the mode tolerates a torn tail.
    fn is_stale_tail(&self) -> bool {
        self.recycled && self.mode == RecoveryMode::TolerateCorruptedTailRecords
    }

    /// Whether damage, behind which its block has only zeros, is the last record of a WAL that is written through a mapping
    /// of reserved space: when the process is killed within an append, that record is cut off by zeros up to the end of the
    /// file, where a file without reserved space would end. Only where the mode tolerates a torn tail. If there is more
    /// than zeros, nothing can be read any more.
    fn is_unwritten_tail(&mut self) -> Result<bool> {
        if self.mode != RecoveryMode::TolerateCorruptedTailRecords || self.log_number == 0 {
            return Ok(false);
        }
        let offset = self.offset();
        while !self.source_ended {
            self.fill()?;
            if self.block.get(self.unread.clone()).is_some_and(|block| block.iter().any(|byte| *byte != 0)) {
                (self.block_offset, self.unread, self.ended) = (offset, 0..0, true);
                return Ok(false);
            }
            self.drop_block();
        }
        Ok(true)
    }

    /// Takes in a physical record; `true` when it completes a logical one.
    fn take_record(&mut self, number: u8, payload: Range<usize>, offset: u64) -> bool {
        let dropped = self.pending.len();
        match number {
            record_type::FULL | record_type::RECYCLABLE_FULL => {
                if self.in_record && dropped > 0 {
                    self.report(dropped, "partial record without end(1)");
                }
                self.forget_pending();
                self.record_offset = offset;
                if self.decompressor.is_none() || payload.is_empty() {
                    self.current = Current::InBlock(payload);
                    return true;
                }
                self.begin_frame();
                self.decompress(payload) && self.finish_frame()
            }
            record_type::FIRST | record_type::RECYCLABLE_FIRST => {
                if self.in_record && dropped > 0 {
                    self.report(dropped, "partial record without end(2)");
                }
                self.forget_pending();
                self.in_record = true;
                self.pending_offset = offset;
                self.begin_frame();
                self.append_fragment(payload);
                false
            }
            record_type::MIDDLE | record_type::RECYCLABLE_MIDDLE => {
                if self.in_record {
                    self.append_fragment(payload);
                } else {
                    self.report(payload.len(), "missing start of fragmented record(1)");
                }
                false
            }
            record_type::LAST | record_type::RECYCLABLE_LAST => {
                if !self.in_record {
                    self.report(payload.len(), "missing start of fragmented record(2)");
                    return false;
                }
                self.append_fragment(payload);
                if !self.in_record {
                    return false;
                }
                self.in_record = false;
                self.record_offset = self.pending_offset;
                if self.decompressor.is_some() {
                    return self.finish_frame();
                }
                self.current = Current::Assembled;
                true
            }
            record_type::SET_COMPRESSION => {
                self.break_off("partial record without end(3)");
                self.take_compression(payload);
                false
            }
            record_type::TIMESTAMP_SIZES | record_type::RECYCLABLE_TIMESTAMP_SIZES => {
                self.break_off("partial record without end(3)");
                match decode_timestamp_sizes(self.payload(&payload)) {
                    Ok(sizes) => self.take_timestamp_sizes(payload.len(), sizes),
                    Err(error) => self.report_error(payload.len(), error),
                }
                false
            }
            record_type::PREDECESSOR | record_type::RECYCLABLE_PREDECESSOR => {
                self.break_off("partial record without end(3)");
                match PredecessorInfo::decode(self.payload(&payload)) {
                    Ok(info) => self.predecessor = Some(info),
                    Err(error) => self.report_error(payload.len(), error),
                }
                false
            }
            _ if number & record_type::IGNORABLE_BIT != 0 => {
                self.forget_pending();
                false
            }
            _ => {
                // Its checksum matches: somebody newer wrote it, and it is not damage.
                let error = Error::not_supported(format!("unknown record type {number}"));
                self.report_error(payload.len() + dropped, error);
                self.forget_pending();
                false
            }
        }
    }

    fn payload(&self, range: &Range<usize>) -> &[u8] {
        self.block.get(range.clone()).unwrap_or(&[])
    }

    fn take_timestamp_sizes(&mut self, bytes: usize, sizes: Vec<(u32, u16)>) {
        for (column_family, size) in sizes {
            if self.timestamp_sizes.iter().any(|&(known, _)| known == column_family) {
                let message = format!("user-defined timestamp size of column family {column_family} recorded twice");
                self.report(bytes, message);
            } else {
                self.timestamp_sizes.push((column_family, size));
            }
        }
    }

    fn take_compression(&mut self, payload: Range<usize>) {
        if self.compression_seen {
            return self.report(payload.len(), "read multiple SetCompressionType records");
        }
        if self.data_record_seen {
            return self.report(payload.len(), "SetCompressionType not the first record");
        }
        self.compression_seen = true;
        let set = LogCompression::decode(self.payload(&payload)).and_then(|compression| match compression {
            LogCompression::None => Ok(None),
            LogCompression::Zstd => Decompressor::new().map(Some),
        });
        match set {
            Ok(decompressor) => self.decompressor = decompressor,
            Err(error) => {
                // What follows cannot be understood; handing out compressed bytes as batches would be worse than ending.
                self.report_error(payload.len(), error);
                self.ended = true;
            }
        }
    }

    fn begin_frame(&mut self) {
        if let Some(decompressor) = &mut self.decompressor {
            decompressor.begin();
        }
    }

    fn append_fragment(&mut self, payload: Range<usize>) {
        if self.decompressor.is_some() {
            self.decompress(payload);
        } else {
            self.pending.extend_from_slice(self.block.get(payload).unwrap_or(&[]));
        }
    }

    /// Feeds a fragment to the decompressor; on failure reports and drops the record and the rest of the block.
    fn decompress(&mut self, payload: Range<usize>) -> bool {
        let Some(decompressor) = &mut self.decompressor else { return false };
        let result = decompressor.feed(self.block.get(payload.clone()).unwrap_or(&[]));
        if self.in_record {
            // Only its length matters: it says that an unfinished record is pending.
            self.pending.extend_from_slice(&[0][..usize::from(!payload.is_empty())]);
        }
        match result {
            Ok(()) => true,
            Err(error) => {
                let dropped = payload.len() + self.unread.len();
                self.unread.start = self.unread.end;
                self.report_error(dropped, error);
                self.forget_pending();
                false
            }
        }
    }

    fn finish_frame(&mut self) -> bool {
        self.pending.clear();
        self.current = Current::Decompressed;
        true
    }

    /// Drops what is left of the block.
    fn drop_block(&mut self) -> usize {
        let dropped = self.unread.len();
        self.unread.start = self.unread.end;
        dropped
    }

    /// Reads the next block; `false` when the file has no more.
    fn fill(&mut self) -> Result<bool> {
        self.block_offset += self.unread.end as u64;
        let mut filled = 0;
        while filled < self.block.len() {
            let read = self.source.read(&mut self.block[filled..])?;
            if read == 0 {
                self.source_ended = true;
                break;
            }
            filled += read;
        }
        self.unread = 0..filled;
        Ok(filled > 0)
    }

    fn read_physical(&mut self) -> Result<Physical> {
        loop {
            let unread = self.block.get(self.unread.clone()).unwrap_or(&[]);
            let Some((header, _)) = unread.split_first_chunk::<HEADER_SIZE>() else {
                if !self.source_ended {
                    self.fill()?;
                    continue;
                }
                return Ok(Physical::End { torn_header_bytes: self.drop_block() });
            };
            let length = usize::from(u16::from_le_bytes([header[4], header[5]]));
            let number = header[6];
            let recyclable = has_recyclable_header(number);
            if recyclable && !self.recycled {
                if self.data_record_seen {
                    return Ok(Physical::MixedHeaders { dropped: self.drop_block() });
                }
                self.recycled = true;
            }
            let header_size = if recyclable { RECYCLABLE_HEADER_SIZE } else { HEADER_SIZE };
            if unread.len() < header_size {
                if !self.source_ended {
                    self.fill()?;
                    continue;
                }
                return Ok(Physical::End { torn_header_bytes: self.drop_block() });
            }
            let Some(record) = unread.get(..header_size + length) else {
                let last_block = self.source_ended && !holds_whole_record(unread, header_size);
                return Ok(Physical::BadLength { dropped: self.drop_block(), last_block });
            };
            if recyclable && record.get(HEADER_SIZE..RECYCLABLE_HEADER_SIZE) != Some(&self.log_number.to_le_bytes()) {
                self.unread.start += header_size + length;
                return Ok(Physical::Old);
            }
            if number == record_type::ZERO && length == 0 {
                // A recyclable and compressed log may have a hole too small for its header inside a record.
                let hole =
                    self.recycled && !self.source_ended && unread.len() < RECYCLABLE_HEADER_SIZE && all_zeros(unread);
                if hole {
                    self.drop_block();
                    continue;
                }
                let before_zeros = all_zeros(unread);
                self.drop_block();
                return Ok(Physical::BadRecord { before_zeros });
            }
            let stored = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
            if crc32c(record.get(6..).unwrap_or(&[])) != unmask_crc32c(stored) {
                let behind = unread.get(record.len()..).unwrap_or(&[]);
                // Without anything behind it, its block has no reserved space: only a further block may show that.
                let before_zeros =
                    record.last() == Some(&0) && all_zeros(behind) && !(behind.is_empty() && self.source_ended);
                return Ok(Physical::BadChecksum { dropped: self.drop_block(), before_zeros });
            }
            let payload = self.unread.start + header_size..self.unread.start + header_size + length;
            self.unread.start = payload.end;
            return Ok(Physical::Record { number, payload });
        }
    }
}

/// Whether `bytes`, the rest of a log whose first header tells a greater length, hold that record whole: then its length was
/// damaged, and no write was torn. The checksum of a record does not cover its length, so that it tells the true one; what
/// follows must be the end, zeros or another record, since among many lengths one may match by chance.
#[cold]
fn holds_whole_record(bytes: &[u8], header_size: usize) -> bool {
    let Some((stored, _)) = bytes.split_first_chunk::<4>() else { return false };
    let stored = unmask_crc32c(u32::from_le_bytes(*stored));
    let mut checksum = crc32c(bytes.get(6..header_size).unwrap_or(&[]));
    for end in header_size..=bytes.len() {
        let rest = bytes.get(end..).unwrap_or(&[]);
        if checksum == stored && (all_zeros(rest) || starts_with_record(rest)) {
            return true;
        }
        checksum = crc32c_extend(checksum, rest.get(..1).unwrap_or(&[]));
    }
    false
}

/// Compares 16 bytes at a time: reserved space is megabytes of zeros.
fn all_zeros(bytes: &[u8]) -> bool {
    let mut chunks = bytes.chunks_exact(16);
    chunks.by_ref().all(|chunk| chunk == [0; 16]) && chunks.remainder().iter().all(|byte| *byte == 0)
}

fn starts_with_record(bytes: &[u8]) -> bool {
    let Some((header, _)) = bytes.split_first_chunk::<HEADER_SIZE>() else { return false };
    let length = usize::from(u16::from_le_bytes([header[4], header[5]]));
    let header_size = if has_recyclable_header(header[6]) { RECYCLABLE_HEADER_SIZE } else { HEADER_SIZE };
    let stored = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    bytes.get(6..header_size + length).is_some_and(|checked| crc32c(checked) == unmask_crc32c(stored))
}

const fn has_recyclable_header(number: u8) -> bool {
    matches!(
        number,
        record_type::RECYCLABLE_FULL
            | record_type::RECYCLABLE_FIRST
            | record_type::RECYCLABLE_MIDDLE
            | record_type::RECYCLABLE_LAST
            | record_type::RECYCLABLE_TIMESTAMP_SIZES
            | record_type::RECYCLABLE_PREDECESSOR
    )
}
