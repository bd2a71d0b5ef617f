//! Internal keys: user key, sequence number and type, as they stand in memtables and tables.
//!
//! ```text
//! internal key = user key bytes | fixed64 little-endian (sequence << 8 | type)
//! ```
//!
//! Internal keys order by user key ascending, then by the 64-bit footer descending, so that the newest entry of a user
//! key comes first. Bytes from a file become a [`ParsedInternalKey`] only through [`parse_internal_key`], which checks
//! length and type.

use crate::{Error, Result};

/// A 56-bit number that orders all writes of a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceNumber(pub u64);

impl SequenceNumber {
    /// The greatest sequence number; as a read bound it means "everything".
    pub const MAX: Self = Self((1 << 56) - 1);
    /// The sequence of entries that no snapshot needs to tell apart any more.
    pub const ZERO: Self = Self(0);

    /// The plain number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// This sequence `count` records later.
    #[must_use]
    pub const fn plus(self, count: u64) -> Self {
        Self(self.0 + count)
    }

    /// This sequence `count` records later; `None` beyond [`MAX`](Self::MAX).
    #[must_use]
    pub fn checked_plus(self, count: u64) -> Option<Self> {
        self.0.checked_add(count).map(Self).filter(|&later| later <= Self::MAX)
    }
}

impl std::fmt::Display for SequenceNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The number in the name of a table, WAL, MANIFEST, OPTIONS or blob file; unique in a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileNumber(pub u64);

impl FileNumber {
    /// The greatest number that a file may have. Two bits of the number are used for the path id in RocksDB's memory; far
    /// below them there is room for all numbers that a database can ever hand out after it.
    pub const MAX: Self = Self((1 << 62) - (1 << 48));

    /// The number, unless it is beyond [`MAX`](Self::MAX).
    ///
    /// # Errors
    /// `Corruption` saying what `what` is.
    pub fn checked(self, what: &str) -> Result<Self> {
        if self > Self::MAX {
            return Err(Error::corruption(format!("{what} {self} is too large")));
        }
        Ok(self)
    }

    /// The plain number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl std::fmt::Display for FileNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

macro_rules! value_types {
    ($($(#[$doc:meta])* $name:ident = $number:literal,)*) => {
        /// The type byte of internal keys and the tag byte of write-batch records; one number space serves both.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum ValueType { $($(#[$doc])* $name = $number,)* }

        impl ValueType {
            /// The type with this number, if there is one.
            pub const fn from_u8(number: u8) -> Option<Self> {
                match number { $($number => Some(Self::$name),)* _ => None }
            }
        }
    };
}

value_types! {
    /// A tombstone of one key.
    Deletion = 0x00,
    /// A plain value.
    Value = 0x01,
    /// An operand for the merge operator.
    Merge = 0x02,
    /// Batch only: a blob for the WAL that changes nothing.
    LogData = 0x03,
    /// Batch only: `Deletion` with a column family id.
    ColumnFamilyDeletion = 0x04,
    /// Batch only: `Value` with a column family id.
    ColumnFamilyValue = 0x05,
    /// Batch only: `Merge` with a column family id.
    ColumnFamilyMerge = 0x06,
    /// A tombstone that may annihilate with the one value below it.
    SingleDeletion = 0x07,
    /// Batch only: `SingleDeletion` with a column family id.
    ColumnFamilySingleDeletion = 0x08,
    /// Batch only: start of a prepared transaction (write-committed).
    BeginPrepareXid = 0x09,
    /// Batch only: end of a prepared transaction, with its name.
    EndPrepareXid = 0x0A,
    /// Batch only: commit of the named transaction.
    CommitXid = 0x0B,
    /// Batch only: rollback of the named transaction.
    RollbackXid = 0x0C,
    /// Batch only: a place holder for a later begin-prepare marker.
    Noop = 0x0D,
    /// Batch only: `RangeDeletion` with a column family id.
    ColumnFamilyRangeDeletion = 0x0E,
    /// A tombstone of all keys in `[start, end)`; also marks exclusive file boundaries.
    RangeDeletion = 0x0F,
    /// Batch only: `BlobIndex` with a column family id.
    ColumnFamilyBlobIndex = 0x10,
    /// A reference to a value in a blob file.
    BlobIndex = 0x11,
    /// Batch only: start of a prepared transaction (write-prepared).
    BeginPersistedPrepareXid = 0x12,
    /// Batch only: start of a prepared transaction (write-unprepared).
    BeginUnprepareXid = 0x13,
    /// A tombstone of a key that carries a user timestamp.
    DeletionWithTimestamp = 0x14,
    /// Batch only: commit of the named transaction with a timestamp.
    CommitXidAndTimestamp = 0x15,
    /// A value made of named columns.
    WideColumnEntity = 0x16,
    /// Batch only: `WideColumnEntity` with a column family id.
    ColumnFamilyWideColumnEntity = 0x17,
    /// A value with a preferred sequence number (timed put).
    ValuePreferredSeqno = 0x18,
    /// Batch only: `ValuePreferredSeqno` with a column family id.
    ColumnFamilyValuePreferredSeqno = 0x19,
    /// In memory only: the start of a truncated range tombstone.
    MaxValid = 0x1A,
}

impl ValueType {
    /// The greatest key type: with it, a seek key sorts before every entry of the same user key and sequence.
    pub const FOR_SEEK: Self = Self::ValuePreferredSeqno;
    /// The least key type: with it, a seek key sorts after every entry of the same user key and sequence.
    pub const FOR_SEEK_FOR_PREV: Self = Self::Deletion;

    /// Whether the type may stand in a point entry of a memtable or a data block.
    pub const fn is_key_type(self) -> bool {
        matches!(
            self,
            Self::Deletion
                | Self::Value
                | Self::Merge
                | Self::SingleDeletion
                | Self::BlobIndex
                | Self::DeletionWithTimestamp
                | Self::WideColumnEntity
                | Self::ValuePreferredSeqno
        )
    }
}

/// Bytes that the footer adds to a user key.
pub const FOOTER_SIZE: usize = 8;

/// The footer of an internal key as a number.
#[inline]
pub const fn pack_footer(sequence: SequenceNumber, value_type: ValueType) -> u64 {
    debug_assert!(sequence.0 <= SequenceNumber::MAX.0);
    (sequence.0 << 8) | value_type as u64
}

/// The user key of a well-formed internal key; empty if `ikey` is too short to be one.
#[inline]
pub fn extract_user_key(ikey: &[u8]) -> &[u8] {
    ikey.split_last_chunk::<FOOTER_SIZE>().map_or(&[], |(user_key, _)| user_key)
}

/// The footer of a well-formed internal key; 0 if `ikey` is too short to be one.
#[inline]
pub fn extract_footer(ikey: &[u8]) -> u64 {
    ikey.last_chunk::<FOOTER_SIZE>().map_or(0, |footer| u64::from_le_bytes(*footer))
}

/// Appends the internal key of these parts to `out`.
#[inline]
pub fn append_internal_key(out: &mut Vec<u8>, user_key: &[u8], sequence: SequenceNumber, value_type: ValueType) {
    out.reserve(user_key.len() + FOOTER_SIZE);
    out.extend_from_slice(user_key);
    out.extend_from_slice(&pack_footer(sequence, value_type).to_le_bytes());
}

/// An internal key taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsedInternalKey<'a> {
    /// The key as the caller of the database knows it (with its timestamp, if the comparator has them).
    pub user_key: &'a [u8],
    /// When it was written.
    pub sequence: SequenceNumber,
    /// What was written.
    pub value_type: ValueType,
}

/// Takes an internal key apart.
///
/// # Errors
/// `Corruption` if it is shorter than its footer or its type may not stand in an internal key.
#[inline]
pub fn parse_internal_key(ikey: &[u8]) -> Result<ParsedInternalKey<'_>> {
    let Some((user_key, footer)) = ikey.split_last_chunk::<FOOTER_SIZE>() else {
        return Err(Error::corruption(format!("Corrupted Key: Internal Key too small. Size={}. ", ikey.len())));
    };
    let footer = u64::from_le_bytes(*footer);
    match ValueType::from_u8(footer as u8) {
        Some(value_type)
            if value_type.is_key_type() || matches!(value_type, ValueType::RangeDeletion | ValueType::MaxValid) =>
        {
            Ok(ParsedInternalKey { user_key, sequence: SequenceNumber(footer >> 8), value_type })
        }
        _ => Err(Error::corruption(format!("Corrupted Key: type {:#04x} is not a key type", footer as u8))),
    }
}

/// An owned internal key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct InternalKey(Vec<u8>);

impl InternalKey {
    /// The internal key of these parts.
    pub fn new(user_key: &[u8], sequence: SequenceNumber, value_type: ValueType) -> Self {
        let mut bytes = Vec::new();
        append_internal_key(&mut bytes, user_key, sequence, value_type);
        Self(bytes)
    }

    /// The key that a search for the newest entry of `user_key` visible at `sequence` starts from.
    pub fn for_seek(user_key: &[u8], sequence: SequenceNumber) -> Self {
        Self::new(user_key, sequence, ValueType::FOR_SEEK)
    }

    /// The exclusive upper file boundary at `user_key` that a range tombstone leaves.
    pub fn range_sentinel(user_key: &[u8]) -> Self {
        Self::new(user_key, SequenceNumber::MAX, ValueType::RangeDeletion)
    }

    /// Takes bytes as an internal key.
    ///
    /// # Errors
    /// `Corruption` as for [`parse_internal_key`].
    pub fn from_encoded(bytes: impl Into<Vec<u8>>) -> Result<Self> {
        let bytes = bytes.into();
        parse_internal_key(&bytes)?;
        Ok(Self(bytes))
    }

    /// The encoded bytes.
    pub fn encoded(&self) -> &[u8] {
        &self.0
    }

    /// The user key.
    pub fn user_key(&self) -> &[u8] {
        extract_user_key(&self.0)
    }

    /// The sequence number.
    pub fn sequence(&self) -> SequenceNumber {
        SequenceNumber(extract_footer(&self.0) >> 8)
    }

    /// Whether this is the exclusive upper file boundary that a range tombstone leaves.
    pub fn is_range_sentinel(&self) -> bool {
        extract_footer(&self.0) == pack_footer(SequenceNumber::MAX, ValueType::RangeDeletion)
    }

    /// Whether there is no key at all, as in a default-constructed value.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_matches_the_vectors() {
        let hex = |k: &InternalKey| k.encoded().iter().map(|b| format!("{b:02X}")).collect::<String>();
        assert_eq!(hex(&InternalKey::new(b"foo", SequenceNumber(1), ValueType::Value)), "666F6F0101000000000000");
        let seq = SequenceNumber(0x0001_2345_6789_abcd);
        assert_eq!(hex(&InternalKey::new(b"foo", seq, ValueType::Merge)), "666F6F02CDAB8967452301");
        assert_eq!(hex(&InternalKey::range_sentinel(b"")), "0FFFFFFFFFFFFFFF");
        assert_eq!(hex(&InternalKey::new(b"k", SequenceNumber(100), ValueType::Deletion)), "6B0064000000000000");
    }

    #[test]
    fn refuses_short_keys_and_batch_only_types() {
        assert!(parse_internal_key(b"1234567").unwrap_err().is_corruption());
        assert!(parse_internal_key(&[3, 0, 0, 0, 0, 0, 0, 0]).unwrap_err().is_corruption());
        assert!(parse_internal_key(&[0x7f, 0, 0, 0, 0, 0, 0, 0]).unwrap_err().is_corruption());
    }
}
