//! Log records: how a WAL or a MANIFEST is cut into checksummed physical records in blocks of 32 KiB.
//!
//! ```text
//! legacy header       masked crc32c (4) | length (2) | type (1)
//! recyclable header   masked crc32c (4) | length (2) | type (1) | low half of the WAL number (4)
//! ```
//!
//! The checksum covers everything from the type on, not the length. A physical record never crosses a block; a logical
//! record is one Full, or a First, any number of Middles and a Last. What is left of a block that cannot hold a header is
//! zeros. [`LogEncoder`] turns payloads into bytes, [`LogReader`] turns the bytes of a [`ByteSource`] back into payloads
//! and decides, by recovery mode, whether what it cannot read is the end of the log or damage to report.
//!
//! Always true here: the encoder writes one kind of header per file, and in a recyclable file leaves no hole of zeros
//! inside a logical record; the reader never returns bytes whose checksum does not match.

mod frame;
mod reader;
mod writer;

pub use reader::{ByteSource, LogReader, Report, SliceSource};
pub use writer::{LogEncoder, LogFormat, LogPosition};

use crate::varint::{get_fixed16, get_fixed32, get_fixed64, put_fixed16, put_fixed32, put_fixed64};
use crate::{Error, Result};

/// Bytes of a block.
pub const BLOCK_SIZE: usize = 32 * 1024;
/// Bytes of a legacy header: checksum, length, type.
pub const HEADER_SIZE: usize = 7;
/// Bytes of a recyclable header: the legacy one and half a WAL number.
pub const RECYCLABLE_HEADER_SIZE: usize = 11;

/// The types of physical records.
#[allow(dead_code)]
pub(crate) mod record_type {
    pub(crate) const ZERO: u8 = 0;
    pub(crate) const FULL: u8 = 1;
    pub(crate) const FIRST: u8 = 2;
    pub(crate) const MIDDLE: u8 = 3;
    pub(crate) const LAST: u8 = 4;
    pub(crate) const RECYCLABLE_FULL: u8 = 5;
    pub(crate) const RECYCLABLE_FIRST: u8 = 6;
    pub(crate) const RECYCLABLE_MIDDLE: u8 = 7;
    pub(crate) const RECYCLABLE_LAST: u8 = 8;
    pub(crate) const SET_COMPRESSION: u8 = 9;
    pub(crate) const TIMESTAMP_SIZES: u8 = 10;
    pub(crate) const RECYCLABLE_TIMESTAMP_SIZES: u8 = 11;
    pub(crate) const PREDECESSOR: u8 = 130;
    pub(crate) const RECYCLABLE_PREDECESSOR: u8 = 131;
    /// Types with this bit set may be skipped by a reader that does not know them.
    pub(crate) const IGNORABLE_BIT: u8 = 0x80;
}

/// The compression of the data records of a WAL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum LogCompression {
    /// Records stand as they are.
    #[default]
    None = 0,
    /// Every logical record is one zstd frame.
    Zstd = 7,
}

impl LogCompression {
    /// The payload of the record that names the compression.
    pub fn encode(self) -> [u8; 4] {
        (self as u32).to_le_bytes()
    }

    /// Reads the payload of the record that names the compression.
    ///
    /// # Errors
    /// Corruption for a wrong size or a compression that WALs do not have.
    pub fn decode(mut payload: &[u8]) -> Result<Self> {
        let number = get_fixed32(&mut payload);
        match number {
            Ok(0) if payload.is_empty() => Ok(Self::None),
            Ok(7) if payload.is_empty() => Ok(Self::Zstd),
            _ => Err(Error::corruption("could not decode SetCompressionType record")),
        }
    }
}

/// What a WAL says about the WAL before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PredecessorInfo {
    /// Number of the WAL before.
    pub log_number: u64,
    /// Bytes appended to it.
    pub size_bytes: u64,
    /// The greatest start sequence of its batches; 0 if it has none.
    pub last_sequence: u64,
}

impl PredecessorInfo {
    /// Bytes of the payload.
    pub const ENCODED_BYTES: usize = 24;

    /// The payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut payload = Vec::with_capacity(Self::ENCODED_BYTES);
        put_fixed64(&mut payload, self.log_number);
        put_fixed64(&mut payload, self.size_bytes);
        put_fixed64(&mut payload, self.last_sequence);
        payload
    }

    /// Reads the payload.
    ///
    /// # Errors
    /// Corruption for a wrong size.
    pub fn decode(mut payload: &[u8]) -> Result<Self> {
        if payload.len() != Self::ENCODED_BYTES {
            return Err(Error::corruption("could not decode PredecessorWALInfo record"));
        }
        Ok(Self {
            log_number: get_fixed64(&mut payload)?,
            size_bytes: get_fixed64(&mut payload)?,
            last_sequence: get_fixed64(&mut payload)?,
        })
    }
}

/// The payload that names column families and the sizes of their user timestamps in bytes.
pub fn encode_timestamp_sizes(sizes: &[(u32, u16)]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(sizes.len() * 6);
    for &(column_family, size) in sizes {
        put_fixed32(&mut payload, column_family);
        put_fixed16(&mut payload, size);
    }
    payload
}

/// Reads the payload that names column families and the sizes of their user timestamps in bytes.
///
/// # Errors
/// Corruption when the size is not a multiple of six.
pub fn decode_timestamp_sizes(mut payload: &[u8]) -> Result<Vec<(u32, u16)>> {
    if !payload.len().is_multiple_of(6) {
        return Err(Error::corruption("could not decode user-defined timestamp size record"));
    }
    let mut sizes = Vec::with_capacity(payload.len() / 6);
    while !payload.is_empty() {
        sizes.push((get_fixed32(&mut payload)?, get_fixed16(&mut payload)?));
    }
    Ok(sizes)
}

/// What recovery does with a log that it cannot read to the end; the discriminants are RocksDB's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RecoveryMode {
    /// An incomplete record at the end of a log is dropped; other damage fails the opening.
    TolerateCorruptedTailRecords = 0,
    /// Any damage fails the opening.
    AbsoluteConsistency = 1,
    /// Recovery stops at the first damage and keeps everything before it.
    #[default]
    PointInTime = 2,
    /// Damaged records are skipped.
    SkipAnyCorruptedRecords = 3,
}

impl RecoveryMode {
    /// The mode with this number.
    pub const fn from_u8(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::TolerateCorruptedTailRecords),
            1 => Some(Self::AbsoluteConsistency),
            2 => Some(Self::PointInTime),
            3 => Some(Self::SkipAnyCorruptedRecords),
            _ => None,
        }
    }
}

#[cfg(test)]
mod test;
