//! The write-batch representation: the bytes of one WAL record and the body of every public write batch.
//!
//! ```text
//! batch  = fixed64 sequence | fixed32 count | record*            (a header of 12 bytes)
//! record = tag | [varint32 column family id] | fields of the tag
//! ```
//!
//! Encoders append one record to a `Vec<u8>` and leave the header alone; whoever owns the batch keeps the count with
//! [`set_count`]. [`BatchIter`] walks over the records of outside bytes and refuses unknown tags, truncated fields and a
//! count that does not match. Always true here: the short tag is written for column family 0, the tag with an id for
//! all others, and both are read.

use crate::key::{SequenceNumber, ValueType};
use crate::varint::{get_fixed64, get_length_prefixed, get_varint32, put_length_prefixed, put_varint32};
use crate::{Error, Result};

/// Bytes of the header: sequence and count.
pub const HEADER_SIZE: usize = 12;

/// The greatest length of a key in bytes; an internal key adds eight.
pub const MAX_KEY_BYTES: usize = u32::MAX as usize - 8;

/// The greatest length of a value in bytes.
pub const MAX_VALUE_BYTES: usize = u32::MAX as usize;

/// A write time that turns a timed put into a plain put.
pub const UNKNOWN_WRITE_TIME_SECS: u64 = u64::MAX;

/// What a transaction's prepare section was written under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PrepareKind {
    /// Write-committed: the section is held back until its commit record.
    WriteCommitted,
    /// Write-prepared, or the last part of a write-unprepared transaction.
    WritePrepared,
    /// An earlier part of a write-unprepared transaction.
    WriteUnprepared,
}

/// One record of a batch; `cf` is the id of its column family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// Sets `key` to `value`.
    Put {
        /// Column family id.
        cf: u32,
        /// User key.
        key: &'a [u8],
        /// New value.
        value: &'a [u8],
    },
    /// Deletes `key`.
    Delete {
        /// Column family id.
        cf: u32,
        /// User key.
        key: &'a [u8],
    },
    /// Deletes `key`, which was put at most once since its last deletion.
    SingleDelete {
        /// Column family id.
        cf: u32,
        /// User key.
        key: &'a [u8],
    },
    /// Deletes every key in `[begin, end)`.
    DeleteRange {
        /// Column family id.
        cf: u32,
        /// First user key, included.
        begin: &'a [u8],
        /// Last user key, excluded.
        end: &'a [u8],
    },
    /// Adds an operand for the merge operator.
    Merge {
        /// Column family id.
        cf: u32,
        /// User key.
        key: &'a [u8],
        /// Operand.
        value: &'a [u8],
    },
    /// Sets `key` to a reference to a blob.
    BlobIndex {
        /// Column family id.
        cf: u32,
        /// User key.
        key: &'a [u8],
        /// Encoded reference.
        value: &'a [u8],
    },
    /// Sets `key` to a serialized set of named columns.
    PutEntity {
        /// Column family id.
        cf: u32,
        /// User key.
        key: &'a [u8],
        /// Serialized entity.
        value: &'a [u8],
    },
    /// Sets `key` to a value with a write time.
    TimedPut {
        /// Column family id.
        cf: u32,
        /// User key.
        key: &'a [u8],
        /// The value, then its write time in seconds since 1970 as a fixed64.
        packed: &'a [u8],
    },
    /// A blob that only the WAL carries.
    LogData(&'a [u8]),
    /// A place holder or a boundary of a sub-batch.
    Noop,
    /// Start of a prepare section.
    BeginPrepare(PrepareKind),
    /// End of a prepare section of the named transaction.
    EndPrepare {
        /// Name of the transaction.
        xid: &'a [u8],
    },
    /// Commit of the named transaction.
    Commit {
        /// Name of the transaction.
        xid: &'a [u8],
    },
    /// Commit of the named transaction at a user timestamp.
    CommitWithTimestamp {
        /// The user timestamp.
        timestamp: &'a [u8],
        /// Name of the transaction.
        xid: &'a [u8],
    },
    /// Rollback of the named transaction.
    Rollback {
        /// Name of the transaction.
        xid: &'a [u8],
    },
}

impl<'a> Record<'a> {
    /// Whether the record counts in the header and takes a sequence number.
    pub const fn is_counted(&self) -> bool {
        matches!(
            self,
            Self::Put { .. }
                | Self::Delete { .. }
                | Self::SingleDelete { .. }
                | Self::DeleteRange { .. }
                | Self::Merge { .. }
                | Self::BlobIndex { .. }
                | Self::PutEntity { .. }
                | Self::TimedPut { .. }
        )
    }

    /// Column family, type, key and value of a counted record; the value of a range deletion is its end.
    pub fn entry(&self) -> Option<(u32, ValueType, &'a [u8], &'a [u8])> {
        Some(match *self {
            Self::Put { cf, key, value } => (cf, ValueType::Value, key, value),
            Self::Delete { cf, key } => (cf, ValueType::Deletion, key, &[]),
            Self::SingleDelete { cf, key } => (cf, ValueType::SingleDeletion, key, &[]),
            Self::DeleteRange { cf, begin, end } => (cf, ValueType::RangeDeletion, begin, end),
            Self::Merge { cf, key, value } => (cf, ValueType::Merge, key, value),
            Self::BlobIndex { cf, key, value } => (cf, ValueType::BlobIndex, key, value),
            Self::PutEntity { cf, key, value } => (cf, ValueType::WideColumnEntity, key, value),
            Self::TimedPut { cf, key, packed } => (cf, ValueType::ValuePreferredSeqno, key, packed),
            _ => return None,
        })
    }

    /// The column family of a counted record.
    pub const fn column_family(&self) -> Option<u32> {
        match *self {
            Self::Put { cf, .. }
            | Self::Delete { cf, .. }
            | Self::SingleDelete { cf, .. }
            | Self::DeleteRange { cf, .. }
            | Self::Merge { cf, .. }
            | Self::BlobIndex { cf, .. }
            | Self::PutEntity { cf, .. }
            | Self::TimedPut { cf, .. } => Some(cf),
            _ => None,
        }
    }

    /// The name of the record's kind as error messages use it.
    const fn label(tag: ValueType) -> &'static str {
        match tag {
            ValueType::Value | ValueType::ColumnFamilyValue => "bad WriteBatch Put",
            ValueType::Deletion
            | ValueType::ColumnFamilyDeletion
            | ValueType::SingleDeletion
            | ValueType::ColumnFamilySingleDeletion => "bad WriteBatch Delete",
            ValueType::RangeDeletion | ValueType::ColumnFamilyRangeDeletion => "bad WriteBatch DeleteRange",
            ValueType::Merge | ValueType::ColumnFamilyMerge => "bad WriteBatch Merge",
            ValueType::BlobIndex | ValueType::ColumnFamilyBlobIndex => "bad WriteBatch BlobIndex",
            ValueType::WideColumnEntity | ValueType::ColumnFamilyWideColumnEntity => "bad WriteBatch PutEntity",
            ValueType::ValuePreferredSeqno | ValueType::ColumnFamilyValuePreferredSeqno => "bad WriteBatch TimedPut",
            ValueType::LogData => "bad WriteBatch Blob",
            ValueType::EndPrepareXid => "bad EndPrepare XID",
            ValueType::CommitXid => "bad Commit XID",
            ValueType::CommitXidAndTimestamp => "bad commit timestamp",
            ValueType::RollbackXid => "bad Rollback XID",
            _ => "bad WriteBatch record",
        }
    }

    /// Takes one record off `input`.
    ///
    /// # Errors
    /// Corruption for an unknown tag or a truncated field; `input` is then left in place.
    #[inline]
    pub fn decode(input: &mut &'a [u8]) -> Result<Self> {
        let Some((&number, mut rest)) = input.split_first() else {
            return Err(Error::corruption("bad WriteBatch record"));
        };
        let tag = ValueType::from_u8(number).ok_or_else(|| unknown_tag(number))?;
        let record = Self::decode_fields(tag, &mut rest)?;
        *input = rest;
        Ok(record)
    }

    #[inline]
    fn decode_fields(tag: ValueType, rest: &mut &'a [u8]) -> Result<Self> {
        let bad = |_| Error::corruption(Self::label(tag));
        let cf = |has_id: bool, rest: &mut &'a [u8]| if has_id { get_varint32(rest).map_err(bad) } else { Ok(0) };
        let slice = |rest: &mut &'a [u8]| get_length_prefixed(rest).map_err(bad);
        Ok(match tag {
            ValueType::Value | ValueType::ColumnFamilyValue => {
                let cf = cf(tag == ValueType::ColumnFamilyValue, rest)?;
                Self::Put { cf, key: slice(rest)?, value: slice(rest)? }
            }
            ValueType::Deletion | ValueType::ColumnFamilyDeletion => {
                let cf = cf(tag == ValueType::ColumnFamilyDeletion, rest)?;
                Self::Delete { cf, key: slice(rest)? }
            }
            ValueType::SingleDeletion | ValueType::ColumnFamilySingleDeletion => {
                let cf = cf(tag == ValueType::ColumnFamilySingleDeletion, rest)?;
                Self::SingleDelete { cf, key: slice(rest)? }
            }
            ValueType::RangeDeletion | ValueType::ColumnFamilyRangeDeletion => {
                let cf = cf(tag == ValueType::ColumnFamilyRangeDeletion, rest)?;
                Self::DeleteRange { cf, begin: slice(rest)?, end: slice(rest)? }
            }
            ValueType::Merge | ValueType::ColumnFamilyMerge => {
                let cf = cf(tag == ValueType::ColumnFamilyMerge, rest)?;
                Self::Merge { cf, key: slice(rest)?, value: slice(rest)? }
            }
            ValueType::BlobIndex | ValueType::ColumnFamilyBlobIndex => {
                let cf = cf(tag == ValueType::ColumnFamilyBlobIndex, rest)?;
                Self::BlobIndex { cf, key: slice(rest)?, value: slice(rest)? }
            }
            ValueType::WideColumnEntity | ValueType::ColumnFamilyWideColumnEntity => {
                let cf = cf(tag == ValueType::ColumnFamilyWideColumnEntity, rest)?;
                Self::PutEntity { cf, key: slice(rest)?, value: slice(rest)? }
            }
            ValueType::ValuePreferredSeqno | ValueType::ColumnFamilyValuePreferredSeqno => {
                let cf = cf(tag == ValueType::ColumnFamilyValuePreferredSeqno, rest)?;
                let (key, packed) = (slice(rest)?, slice(rest)?);
                if packed.len() < 8 {
                    return Err(Error::corruption(Self::label(tag)));
                }
                Self::TimedPut { cf, key, packed }
            }
            ValueType::LogData => Self::LogData(slice(rest)?),
            ValueType::Noop => Self::Noop,
            ValueType::BeginPrepareXid => Self::BeginPrepare(PrepareKind::WriteCommitted),
            ValueType::BeginPersistedPrepareXid => Self::BeginPrepare(PrepareKind::WritePrepared),
            ValueType::BeginUnprepareXid => Self::BeginPrepare(PrepareKind::WriteUnprepared),
            ValueType::EndPrepareXid => Self::EndPrepare { xid: slice(rest)? },
            ValueType::CommitXid => Self::Commit { xid: slice(rest)? },
            ValueType::CommitXidAndTimestamp => {
                let timestamp = slice(rest)?;
                let xid = get_length_prefixed(rest).map_err(|_| Error::corruption("bad Commit XID"))?;
                Self::CommitWithTimestamp { timestamp, xid }
            }
            ValueType::RollbackXid => Self::Rollback { xid: slice(rest)? },
            ValueType::DeletionWithTimestamp | ValueType::MaxValid => return Err(unknown_tag(tag as u8)),
        })
    }

    /// Appends this record to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Put { cf, key, value } => append_put(out, cf, key, value),
            Self::Delete { cf, key } => append_delete(out, cf, key),
            Self::SingleDelete { cf, key } => append_single_delete(out, cf, key),
            Self::DeleteRange { cf, begin, end } => append_delete_range(out, cf, begin, end),
            Self::Merge { cf, key, value } => append_merge(out, cf, key, value),
            Self::BlobIndex { cf, key, value } => append_blob_index(out, cf, key, value),
            Self::PutEntity { cf, key, value } => append_put_entity(out, cf, key, value),
            Self::TimedPut { cf, key, packed } => {
                append_timed_put_packed(out, cf, key, packed);
            }
            Self::LogData(blob) => append_log_data(out, blob),
            Self::Noop => append_noop(out),
            Self::BeginPrepare(kind) => append_begin_prepare(out, kind),
            Self::EndPrepare { xid } => append_end_prepare(out, xid),
            Self::Commit { xid } => append_commit(out, xid),
            Self::CommitWithTimestamp { timestamp, xid } => append_commit_with_timestamp(out, timestamp, xid),
            Self::Rollback { xid } => append_rollback(out, xid),
        }
    }
}

#[cold]
fn unknown_tag(number: u8) -> Error {
    Error::corruption(format!("unknown WriteBatch tag: {number}"))
}

/// Appends `tag`, the column family id if it is not 0, and the fields.
#[inline]
fn append_fields<const N: usize>(out: &mut Vec<u8>, cf: u32, tag: ValueType, cf_tag: ValueType, fields: [&[u8]; N]) {
    // One growth for the record: tag, id and each length take at most one and five bytes.
    let room: usize = fields.iter().map(|field| field.len() + 5).sum();
    out.reserve(room + 6);
    if cf == 0 {
        out.push(tag as u8);
    } else {
        out.push(cf_tag as u8);
        put_varint32(out, cf);
    }
    for field in fields {
        put_length_prefixed(out, field);
    }
}

/// Appends a put.
#[inline]
pub fn append_put(out: &mut Vec<u8>, cf: u32, key: &[u8], value: &[u8]) {
    append_fields(out, cf, ValueType::Value, ValueType::ColumnFamilyValue, [key, value]);
}

/// Appends a deletion.
#[inline]
pub fn append_delete(out: &mut Vec<u8>, cf: u32, key: &[u8]) {
    append_fields(out, cf, ValueType::Deletion, ValueType::ColumnFamilyDeletion, [key]);
}

/// Appends a single deletion.
#[inline]
pub fn append_single_delete(out: &mut Vec<u8>, cf: u32, key: &[u8]) {
    append_fields(out, cf, ValueType::SingleDeletion, ValueType::ColumnFamilySingleDeletion, [key]);
}

/// Appends a deletion of `[begin, end)`.
#[inline]
pub fn append_delete_range(out: &mut Vec<u8>, cf: u32, begin: &[u8], end: &[u8]) {
    append_fields(out, cf, ValueType::RangeDeletion, ValueType::ColumnFamilyRangeDeletion, [begin, end]);
}

/// Appends a merge operand.
#[inline]
pub fn append_merge(out: &mut Vec<u8>, cf: u32, key: &[u8], operand: &[u8]) {
    append_fields(out, cf, ValueType::Merge, ValueType::ColumnFamilyMerge, [key, operand]);
}

/// Appends a reference to a blob.
pub fn append_blob_index(out: &mut Vec<u8>, cf: u32, key: &[u8], index: &[u8]) {
    append_fields(out, cf, ValueType::BlobIndex, ValueType::ColumnFamilyBlobIndex, [key, index]);
}

/// Appends a put of a serialized entity, whose columns are sorted by name.
pub fn append_put_entity(out: &mut Vec<u8>, cf: u32, key: &[u8], entity: &[u8]) {
    append_fields(out, cf, ValueType::WideColumnEntity, ValueType::ColumnFamilyWideColumnEntity, [key, entity]);
}

/// Appends a put of `value` written `write_time_secs` seconds after 1970; with [`UNKNOWN_WRITE_TIME_SECS`] a plain put.
pub fn append_timed_put(out: &mut Vec<u8>, cf: u32, key: &[u8], value: &[u8], write_time_secs: u64) {
    if write_time_secs == UNKNOWN_WRITE_TIME_SECS {
        return append_put(out, cf, key, value);
    }
    append_timed_put_packed(out, cf, key, &pack_timed_value(value, write_time_secs));
}

/// A value with its write time behind it, as a timed put has them.
pub fn pack_timed_value(value: &[u8], write_time_secs: u64) -> Vec<u8> {
    let mut packed = Vec::with_capacity(value.len() + 8);
    packed.extend_from_slice(value);
    packed.extend_from_slice(&write_time_secs.to_le_bytes());
    packed
}

fn append_timed_put_packed(out: &mut Vec<u8>, cf: u32, key: &[u8], packed: &[u8]) {
    let (tag, cf_tag) = (ValueType::ValuePreferredSeqno, ValueType::ColumnFamilyValuePreferredSeqno);
    append_fields(out, cf, tag, cf_tag, [key, packed]);
}

/// Appends a blob that only the WAL carries.
pub fn append_log_data(out: &mut Vec<u8>, blob: &[u8]) {
    out.push(ValueType::LogData as u8);
    put_length_prefixed(out, blob);
}

/// Appends a no-op.
pub fn append_noop(out: &mut Vec<u8>) {
    out.push(ValueType::Noop as u8);
}

/// The tag byte that starts a prepare section of this kind.
pub const fn begin_prepare_tag(kind: PrepareKind) -> u8 {
    match kind {
        PrepareKind::WriteCommitted => ValueType::BeginPrepareXid as u8,
        PrepareKind::WritePrepared => ValueType::BeginPersistedPrepareXid as u8,
        PrepareKind::WriteUnprepared => ValueType::BeginUnprepareXid as u8,
    }
}

/// Appends the start of a prepare section.
pub fn append_begin_prepare(out: &mut Vec<u8>, kind: PrepareKind) {
    out.push(begin_prepare_tag(kind));
}

/// Appends the end of a prepare section.
pub fn append_end_prepare(out: &mut Vec<u8>, xid: &[u8]) {
    out.push(ValueType::EndPrepareXid as u8);
    put_length_prefixed(out, xid);
}

/// Appends a commit.
pub fn append_commit(out: &mut Vec<u8>, xid: &[u8]) {
    out.push(ValueType::CommitXid as u8);
    put_length_prefixed(out, xid);
}

/// Appends a commit at a user timestamp.
pub fn append_commit_with_timestamp(out: &mut Vec<u8>, timestamp: &[u8], xid: &[u8]) {
    out.push(ValueType::CommitXidAndTimestamp as u8);
    put_length_prefixed(out, timestamp);
    put_length_prefixed(out, xid);
}

/// Appends a rollback.
pub fn append_rollback(out: &mut Vec<u8>, xid: &[u8]) {
    out.push(ValueType::RollbackXid as u8);
    put_length_prefixed(out, xid);
}

/// The header of an empty batch.
pub const EMPTY: [u8; HEADER_SIZE] = [0; HEADER_SIZE];

/// The header of a batch with these fields.
pub fn header(sequence: SequenceNumber, count: u32) -> [u8; HEADER_SIZE] {
    let mut bytes = [0; HEADER_SIZE];
    bytes[..8].copy_from_slice(&sequence.get().to_le_bytes());
    bytes[8..].copy_from_slice(&count.to_le_bytes());
    bytes
}

/// The sequence number in the header; 0 when `batch` is shorter than a header.
#[inline]
pub fn sequence(batch: &[u8]) -> SequenceNumber {
    SequenceNumber(batch.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)))
}

/// The number of counted records in the header; 0 when `batch` is shorter than a header.
#[inline]
pub fn count(batch: &[u8]) -> u32 {
    batch.get(8..HEADER_SIZE).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Writes the sequence number into the header. `batch` has a header.
#[inline]
pub fn set_sequence(batch: &mut [u8], sequence: SequenceNumber) {
    if let Some(bytes) = batch.first_chunk_mut::<8>() {
        *bytes = sequence.get().to_le_bytes();
    }
}

/// Writes the number of counted records into the header. `batch` has a header.
#[inline]
pub fn set_count(batch: &mut [u8], count: u32) {
    if let Some(bytes) = batch.first_chunk_mut::<HEADER_SIZE>() {
        bytes[8..].copy_from_slice(&count.to_le_bytes());
    }
}

/// Walks over the records of a batch and checks them.
///
/// Yields `Err` once and then ends when a record is damaged, and when all records were read but the count in the header
/// is wrong. A caller that stops early skips the count check.
#[derive(Clone, Debug)]
pub struct BatchIter<'a> {
    rest: &'a [u8],
    batch_bytes: usize,
    expected: u32,
    found: u32,
    state: IterState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IterState {
    Records,
    Done,
}

impl<'a> BatchIter<'a> {
    /// Starts at the first record of `batch`, which has a header.
    ///
    /// # Errors
    /// Corruption when `batch` is shorter than a header.
    #[inline]
    pub fn new(batch: &'a [u8]) -> Result<Self> {
        match batch.split_at_checked(HEADER_SIZE) {
            Some((_, rest)) => {
                let batch_bytes = batch.len();
                Ok(Self { rest, batch_bytes, expected: count(batch), found: 0, state: IterState::Records })
            }
            None => Err(Error::corruption("malformed WriteBatch (too small)")),
        }
    }

    /// An iterator over no records.
    pub const fn empty() -> Self {
        Self { rest: &[], batch_bytes: 0, expected: 0, found: 0, state: IterState::Done }
    }

    /// The byte offset in the batch of the record that comes next.
    pub fn offset(&self) -> usize {
        self.batch_bytes - self.rest.len()
    }

    #[cold]
    fn fail(&mut self, error: Error) -> Option<Result<Record<'a>>> {
        self.state = IterState::Done;
        Some(Err(error))
    }
}

impl<'a> Iterator for BatchIter<'a> {
    type Item = Result<Record<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.state == IterState::Done {
            return None;
        }
        if self.rest.is_empty() {
            if self.found != self.expected {
                return self.fail(Error::corruption("WriteBatch has wrong count"));
            }
            self.state = IterState::Done;
            return None;
        }
        match Record::decode(&mut self.rest) {
            Ok(record) => {
                self.found = self.found.wrapping_add(u32::from(record.is_counted()));
                Some(Ok(record))
            }
            Err(error) => self.fail(error),
        }
    }
}

/// Reads the whole batch and checks it.
///
/// # Errors
/// Corruption for everything that [`BatchIter`] refuses.
pub fn validate(batch: &[u8]) -> Result<()> {
    BatchIter::new(batch)?.try_for_each(|record| record.map(drop))
}

/// Splits the payload of a timed put into value and write time (seconds since 1970) or preferred sequence.
///
/// # Errors
/// Corruption when the payload is shorter than the trailer.
pub fn unpack_timed_value(packed: &[u8]) -> Result<(&[u8], u64)> {
    let Some((value, mut trailer)) = packed.len().checked_sub(8).and_then(|at| packed.split_at_checked(at)) else {
        return Err(Error::corruption("value with preferred sequence number is too short"));
    };
    Ok((value, get_fixed64(&mut trailer)?))
}

#[cfg(test)]
#[path = "batch_test.rs"]
mod tests;
