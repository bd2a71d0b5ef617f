//! The encoder: payloads in, framed bytes out.

use super::frame::Compressor;
use super::{
    BLOCK_SIZE, HEADER_SIZE, LogCompression, PredecessorInfo, RECYCLABLE_HEADER_SIZE, encode_timestamp_sizes,
    record_type,
};
use crate::checksum::{crc32c, mask_crc32c};
use crate::{Error, Result};

/// Bytes appended to a log so far, and where that is in a block.
pub type LogPosition = u64;

/// What kind of log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogFormat {
    /// The number of the WAL; 0 for a MANIFEST.
    pub log_number: u64,
    /// Whether headers carry the WAL number, so that records of an earlier life of the file are told apart.
    pub recyclable: bool,
    /// How data records are compressed.
    pub compression: LogCompression,
}

/// Frames records into a block-structured log.
///
/// The encoder keeps nothing but its place in the file; the bytes go to a buffer of the caller, which appends them to the
/// file in one piece. An encoder whose bytes did not reach the file is out of step with it and must not be used again.
pub struct LogEncoder {
    format: LogFormat,
    position: LogPosition,
    compressor: Option<Compressor>,
}

impl std::fmt::Debug for LogEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogEncoder").field("format", &self.format).field("position", &self.position).finish()
    }
}

impl LogEncoder {
    /// An encoder for a new log. Call [`start`](Self::start) before the first record.
    ///
    /// # Errors
    /// `InvalidArgument` when the compressor cannot be set up.
    pub fn new(format: LogFormat) -> Result<Self> {
        let compressor = match format.compression {
            LogCompression::None => None,
            LogCompression::Zstd => Some(Compressor::new()?),
        };
        Ok(Self { format, position: 0, compressor })
    }

    /// An encoder that goes on at `position` bytes of an existing log without compression, such as a MANIFEST.
    ///
    /// # Errors
    /// `InvalidArgument` when the compressor cannot be set up.
    pub fn resume(format: LogFormat, position: LogPosition) -> Result<Self> {
        let mut encoder = Self::new(format)?;
        encoder.position = position;
        Ok(encoder)
    }

    /// What kind of log is written.
    pub fn format(&self) -> LogFormat {
        self.format
    }

    /// Bytes encoded so far: the size of the log once they are appended.
    pub fn position(&self) -> LogPosition {
        self.position
    }

    fn header_size(&self) -> usize {
        if self.format.recyclable { RECYCLABLE_HEADER_SIZE } else { HEADER_SIZE }
    }

    fn left_in_block(&self) -> usize {
        BLOCK_SIZE - (self.position % BLOCK_SIZE as u64) as usize
    }

    /// Encodes the record that names the compression, if there is one. It comes before all others.
    pub fn start(&mut self, out: &mut Vec<u8>) {
        debug_assert_eq!(self.position, 0);
        if self.format.compression != LogCompression::None {
            // This one record has the short header even in a recyclable log.
            let payload = self.format.compression.encode();
            self.physical(out, record_type::SET_COMPRESSION, HEADER_SIZE, payload.len(), |out| {
                out.extend_from_slice(&payload);
            });
        }
    }

    /// Encodes what is known about the WAL before this one.
    pub fn append_predecessor(&mut self, out: &mut Vec<u8>, info: &PredecessorInfo) {
        let (plain, recyclable) = (record_type::PREDECESSOR, record_type::RECYCLABLE_PREDECESSOR);
        self.special(out, plain, recyclable, &info.encode());
    }

    /// Encodes the sizes in bytes of the user timestamps of column families, before the first batch that has them.
    ///
    /// # Errors
    /// `InvalidArgument` when they do not fit one block.
    pub fn append_timestamp_sizes(&mut self, out: &mut Vec<u8>, sizes: &[(u32, u16)]) -> Result<()> {
        let payload = encode_timestamp_sizes(sizes);
        if payload.len() > BLOCK_SIZE - RECYCLABLE_HEADER_SIZE {
            return Err(Error::invalid_argument("too many column families with user-defined timestamps"));
        }
        self.special(out, record_type::TIMESTAMP_SIZES, record_type::RECYCLABLE_TIMESTAMP_SIZES, &payload);
        Ok(())
    }

    /// A special record: never fragmented, never compressed.
    fn special(&mut self, out: &mut Vec<u8>, plain: u8, recyclable: u8, payload: &[u8]) {
        let header = self.header_size();
        let left = self.left_in_block();
        if left < header + payload.len() {
            self.pad(out, left);
        }
        let number = if self.format.recyclable { recyclable } else { plain };
        self.physical(out, number, header, payload.len(), |out| out.extend_from_slice(payload));
    }

    /// Encodes one logical record.
    ///
    /// # Errors
    /// Only a compressor fails; nothing is then encoded.
    #[inline]
    pub fn append_record(&mut self, out: &mut Vec<u8>, payload: &[u8]) -> Result<()> {
        self.append_record_parts(out, payload.len(), std::iter::once(payload))
    }

    /// Encodes one logical record whose payload is the concatenation of `parts`, `total_bytes` altogether.
    ///
    /// # Errors
    /// Only a compressor fails; nothing is then encoded.
    pub fn append_record_parts<'a>(
        &mut self,
        out: &mut Vec<u8>,
        total_bytes: usize,
        parts: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<()> {
        match self.compressor.take() {
            // An empty record has no frame.
            Some(mut compressor) if total_bytes > 0 => {
                compressor.plain.clear();
                for part in parts {
                    compressor.plain.extend_from_slice(part);
                }
                debug_assert_eq!(compressor.plain.len(), total_bytes);
                let compressed = compressor.compress();
                if compressed.is_ok() {
                    self.data(out, compressor.frame.len(), std::iter::once(compressor.frame.as_slice()));
                }
                self.compressor = Some(compressor);
                compressed
            }
            compressor => {
                self.compressor = compressor;
                self.data(out, total_bytes, parts.into_iter());
                Ok(())
            }
        }
    }

    /// Cuts a data record into fragments that leave no hole too small for a header inside the record.
    fn data<'a>(&mut self, out: &mut Vec<u8>, total_bytes: usize, mut parts: impl Iterator<Item = &'a [u8]>) {
        let header = self.header_size();
        let is_frame = self.format.compression != LogCompression::None;
        out.reserve(total_bytes + header * (2 + total_bytes / (BLOCK_SIZE - RECYCLABLE_HEADER_SIZE)) + header);
        let left = self.left_in_block();
        if left < header {
            self.pad(out, left);
        }
        let mut part: &[u8] = &[];
        let mut left_bytes = total_bytes;
        let mut begin = true;
        loop {
            let room = self.left_in_block() - header;
            let mut fragment = left_bytes.min(room);
            let end = fragment == left_bytes;
            if !end && is_frame && room == BLOCK_SIZE - header {
                // Readers of RocksDB 7.0 to 7.10 lose a compressed fragment that begins at the same place of its block as
                // the one before it did: never let one fill a whole block.
                fragment /= 2;
            }
            let number = match (begin, end) {
                (true, true) => record_type::FULL,
                (true, false) => record_type::FIRST,
                (false, false) => record_type::MIDDLE,
                (false, true) => record_type::LAST,
            };
            let number = if self.format.recyclable {
                number + (record_type::RECYCLABLE_FULL - record_type::FULL)
            } else {
                number
            };
            self.physical(out, number, header, fragment, |out| {
                let mut needed = fragment;
                while needed > 0 {
                    if part.is_empty() {
                        match parts.next() {
                            Some(next) => part = next,
                            None => {
                                debug_assert!(false, "the parts are shorter than their total");
                                out.resize(out.len() + needed, 0);
                                return;
                            }
                        }
                        continue;
                    }
                    let (now, later) = part.split_at(needed.min(part.len()));
                    out.extend_from_slice(now);
                    needed -= now.len();
                    part = later;
                }
            });
            left_bytes -= fragment;
            begin = false;
            if end {
                debug_assert!(part.is_empty() && parts.all(<[u8]>::is_empty), "the parts are longer than their total");
                return;
            }
        }
    }

    fn pad(&mut self, out: &mut Vec<u8>, bytes: usize) {
        out.resize(out.len() + bytes, 0);
        self.position += bytes as u64;
    }

    /// One physical record; `fill` appends its `length` payload bytes.
    #[inline]
    fn physical(
        &mut self,
        out: &mut Vec<u8>,
        number: u8,
        header: usize,
        length: usize,
        fill: impl FnOnce(&mut Vec<u8>),
    ) {
        debug_assert!(header + length <= self.left_in_block());
        let start = out.len();
        let mut bytes = [0u8; RECYCLABLE_HEADER_SIZE];
        bytes[4..6].copy_from_slice(&(length as u16).to_le_bytes());
        bytes[6] = number;
        bytes[7..].copy_from_slice(&(self.format.log_number as u32).to_le_bytes());
        out.extend_from_slice(&bytes[..header]);
        fill(out);
        let record = &mut out[start..];
        debug_assert_eq!(record.len(), header + length);
        let checksum = mask_crc32c(crc32c(&record[6..]));
        record[..4].copy_from_slice(&checksum.to_le_bytes());
        self.position += (header + length) as u64;
    }
}
