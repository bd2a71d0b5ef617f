//! The public write batch: a list of updates that take effect together.
//!
//! Updates are encoded once, here, into the bytes that the log will carry. A batch knows nothing of a database until it
//! is written; it may be written more than once.

use firn_error::{Error, Result, SubCode};
use firn_format::batch::{self, BatchIter, HEADER_SIZE, MAX_KEY_BYTES, MAX_VALUE_BYTES, PrepareKind, Record};
use firn_format::key::{SequenceNumber, ValueType};
use firn_format::protection::Protection;
use std::fmt;

#[path = "batch_protection.rs"]
mod protection;

pub(crate) use protection::RecordProtections;

/// Names a column family by its number; handles of column families convert into it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnFamilyId(pub u32);

impl ColumnFamilyId {
    /// The family that every database has.
    pub const DEFAULT: Self = Self(0);
}

impl From<u32> for ColumnFamilyId {
    fn from(id: u32) -> Self {
        Self(id)
    }
}

/// Where a record of a batch goes: a column family by its number, or by its handle, which also says of which database.
#[derive(Clone, Copy, Debug)]
pub struct RecordTarget {
    id: u32,
    owner: u64,
}

impl RecordTarget {
    /// The column family with the number `id` of the database `owner`; 0 is any.
    pub(crate) fn new(id: u32, owner: u64) -> Self {
        Self { id, owner }
    }
}

impl From<ColumnFamilyId> for RecordTarget {
    fn from(id: ColumnFamilyId) -> Self {
        Self::new(id.0, 0)
    }
}

impl From<u32> for RecordTarget {
    fn from(id: u32) -> Self {
        Self::new(id, 0)
    }
}

/// Which kinds of records a batch holds.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ContentFlags(u16);

impl ContentFlags {
    /// A put, a timed put or a put of an entity.
    pub const PUT: Self = Self(1);
    /// A deletion.
    pub const DELETE: Self = Self(1 << 1);
    /// A single deletion.
    pub const SINGLE_DELETE: Self = Self(1 << 2);
    /// A deletion of a range.
    pub const DELETE_RANGE: Self = Self(1 << 3);
    /// A merge operand.
    pub const MERGE: Self = Self(1 << 4);
    /// A reference to a blob.
    pub const BLOB_INDEX: Self = Self(1 << 5);
    /// A set of named columns.
    pub const ENTITY: Self = Self(1 << 6);
    /// A value with a write time.
    pub const TIMED_PUT: Self = Self(1 << 7);
    /// The start of a prepare section.
    pub const BEGIN_PREPARE: Self = Self(1 << 8);
    /// The end of a prepare section.
    pub const END_PREPARE: Self = Self(1 << 9);
    /// A commit.
    pub const COMMIT: Self = Self(1 << 10);
    /// A rollback.
    pub const ROLLBACK: Self = Self(1 << 11);

    /// Whether all of `other` is in here.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether anything of `other` is in here.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Both together.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn of(record: &Record<'_>) -> Self {
        match record {
            Record::Put { .. } => Self::PUT,
            Record::Delete { .. } => Self::DELETE,
            Record::SingleDelete { .. } => Self::SINGLE_DELETE,
            Record::DeleteRange { .. } => Self::DELETE_RANGE,
            Record::Merge { .. } => Self::MERGE,
            Record::BlobIndex { .. } => Self::BLOB_INDEX,
            Record::PutEntity { .. } => Self::ENTITY.with(Self::PUT),
            Record::TimedPut { .. } => Self::TIMED_PUT.with(Self::PUT),
            Record::BeginPrepare(_) => Self::BEGIN_PREPARE,
            Record::EndPrepare { .. } => Self::END_PREPARE,
            Record::Commit { .. } | Record::CommitWithTimestamp { .. } => Self::COMMIT,
            Record::Rollback { .. } => Self::ROLLBACK,
            Record::LogData(_) | Record::Noop => Self(0),
        }
    }
}

impl fmt::Debug for ContentFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentFlags({:#b})", self.0)
    }
}

/// A place in a batch to come back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SavePoint {
    bytes: usize,
    count: u32,
    flags: ContentFlags,
}

/// A list of updates that a database applies together or not at all.
///
/// Updates take effect in the order in which they were added. Not thread-safe: one thread fills a batch.
///
/// ```
/// use firndb::write::WriteBatch;
///
/// let mut batch = WriteBatch::new();
/// batch.put(b"key", b"value")?;
/// batch.set_save_point();
/// batch.delete(b"other")?;
/// batch.rollback_to_save_point()?;
/// assert_eq!(batch.count(), 1);
/// # Ok::<(), firn_error::Error>(())
/// ```
#[derive(Clone)]
pub struct WriteBatch {
    bytes: Vec<u8>,
    count: u32,
    flags: ContentFlags,
    max_bytes: usize,
    save_points: Vec<SavePoint>,
    wal_end: Option<SavePoint>,
    /// One per counted record, when the batch is protected.
    protections: Option<Vec<Protection>>,
    /// The database whose handles were used; 0 if none was.
    owner: u64,
}

impl Default for WriteBatch {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for WriteBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = f.debug_list();
        for record in self.records() {
            match record {
                Ok(record) => list.entry(&record),
                Err(error) => list.entry(&error),
            };
        }
        list.finish()
    }
}

impl WriteBatch {
    /// An empty batch without a limit.
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// An empty batch with room for so many bytes of records.
    pub fn with_capacity(bytes: usize) -> Self {
        let mut data = Vec::with_capacity(HEADER_SIZE + bytes);
        data.extend_from_slice(&batch::EMPTY);
        Self {
            bytes: data,
            count: 0,
            flags: ContentFlags::default(),
            max_bytes: 0,
            save_points: Vec::new(),
            wal_end: None,
            protections: None,
            owner: 0,
        }
    }

    /// An empty batch that refuses to grow beyond `max_bytes` bytes, header included; 0 is no limit.
    pub fn with_max_bytes(max_bytes: usize) -> Self {
        Self { max_bytes, ..Self::new() }
    }

    /// Takes bytes that [`data`](Self::data) returned or a log held.
    ///
    /// # Errors
    /// Corruption when they are not a well-formed batch.
    pub fn from_data(data: impl Into<Vec<u8>>) -> Result<Self> {
        let bytes = data.into();
        let mut flags = ContentFlags::default();
        for record in BatchIter::new(&bytes)? {
            flags = flags.with(ContentFlags::of(&record?));
        }
        let count = batch::count(&bytes);
        Ok(Self { bytes, count, flags, ..Self::new() })
    }

    /// The bytes of the batch: header and records.
    pub fn data(&self) -> &[u8] {
        &self.bytes
    }

    /// The records without the header: what a merged log record takes over.
    pub fn record_bytes(&self) -> &[u8] {
        self.bytes.get(HEADER_SIZE..).unwrap_or(&[])
    }

    /// The part of the records that the log gets: all, or those before the WAL termination point.
    pub fn wal_record_bytes(&self) -> &[u8] {
        let end = self.wal_end.map_or(self.bytes.len(), |point| point.bytes);
        self.bytes.get(HEADER_SIZE..end).unwrap_or(&[])
    }

    /// How many counted records the log gets.
    pub fn wal_count(&self) -> u32 {
        self.wal_end.map_or(self.count, |point| point.count)
    }

    /// Size of the batch in bytes, header included.
    pub fn data_size(&self) -> usize {
        self.bytes.len()
    }

    /// Number of updates; log data and transaction markers do not count.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether there is no update.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Which kinds of records the batch holds.
    pub fn flags(&self) -> ContentFlags {
        self.flags
    }

    /// The limit in bytes, header included; 0 is no limit.
    pub fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// Changes the limit for the updates to come.
    pub fn set_max_bytes(&mut self, max_bytes: usize) {
        self.max_bytes = max_bytes;
    }

    /// Drops all records and save points; keeps the memory, the limit and whether it is protected.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.extend_from_slice(&batch::EMPTY);
        self.count = 0;
        self.flags = ContentFlags::default();
        self.save_points.clear();
        self.wal_end = None;
        self.owner = 0;
        if let Some(protections) = &mut self.protections {
            protections.clear();
        }
    }

    /// The database whose handles were used; 0 if none was.
    #[inline]
    pub(crate) fn owner(&self) -> u64 {
        self.owner
    }

    /// The number of a column family, unless the batch has records for another database.
    #[inline]
    fn family_of(&mut self, target: RecordTarget) -> Result<u32> {
        if target.owner != self.owner {
            self.take_owner(target.owner)?;
        }
        Ok(target.id)
    }

    fn take_owner(&mut self, owner: u64) -> Result<()> {
        if owner != 0 && self.owner != 0 {
            return Err(Error::invalid_argument("a batch cannot have records for column families of two databases"));
        }
        self.owner = self.owner.max(owner);
        Ok(())
    }

    /// Sets `key` to `value` in the default column family.
    ///
    /// # Errors
    /// `InvalidArgument` for a key or value beyond 4 GiB, `Aborted` when the batch would exceed its limit.
    #[inline]
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_cf(ColumnFamilyId::DEFAULT, key, value)
    }

    /// Sets `key` to `value`.
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    #[inline]
    pub fn put_cf(
        &mut self,
        cf: impl Into<RecordTarget>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        check_key(key)?;
        check_value(value)?;
        let cf = self.family_of(cf.into())?;
        let entry = (cf, ValueType::Value, key, value);
        self.counted(ContentFlags::PUT, entry, |bytes| batch::append_put(bytes, cf, key, value))
    }

    /// Sets `key` in a column family to `value`, written `write_time_secs` seconds after 1970.
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    pub fn timed_put_cf(
        &mut self,
        cf: impl Into<RecordTarget>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        write_time_secs: u64,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        check_key(key)?;
        check_value(value)?;
        let cf = self.family_of(cf.into())?;
        if write_time_secs == batch::UNKNOWN_WRITE_TIME_SECS {
            return self.put_cf(cf, key, value);
        }
        let packed = batch::pack_timed_value(value, write_time_secs);
        let flags = ContentFlags::PUT.with(ContentFlags::TIMED_PUT);
        let entry = (cf, ValueType::ValuePreferredSeqno, key, &packed[..]);
        self.counted(flags, entry, |bytes| Record::TimedPut { cf, key, packed: &packed }.encode(bytes))
    }

    /// Deletes `key` in the default column family.
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    #[inline]
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_cf(ColumnFamilyId::DEFAULT, key)
    }

    /// Deletes `key`.
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    #[inline]
    pub fn delete_cf(&mut self, cf: impl Into<RecordTarget>, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        check_key(key)?;
        let cf = self.family_of(cf.into())?;
        let entry = (cf, ValueType::Deletion, key, &[][..]);
        self.counted(ContentFlags::DELETE, entry, |bytes| batch::append_delete(bytes, cf, key))
    }

    /// Deletes `key`, which was put at most once since it was last deleted and never merged, in the default family.
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    pub fn single_delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.single_delete_cf(ColumnFamilyId::DEFAULT, key)
    }

    /// Deletes `key`, which was put at most once since it was last deleted and never merged.
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    pub fn single_delete_cf(&mut self, cf: impl Into<RecordTarget>, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        check_key(key)?;
        let cf = self.family_of(cf.into())?;
        let entry = (cf, ValueType::SingleDeletion, key, &[][..]);
        self.counted(ContentFlags::SINGLE_DELETE, entry, |bytes| batch::append_single_delete(bytes, cf, key))
    }

    /// Deletes all keys in `[begin, end)` in the default column family.
    ///
    /// # Errors
    /// As for [`put`](Self::put). The order of the ends is checked when the batch is written.
    pub fn delete_range(&mut self, begin: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        self.delete_range_cf(ColumnFamilyId::DEFAULT, begin, end)
    }

    /// Deletes all keys in `[begin, end)`.
    ///
    /// # Errors
    /// As for [`put`](Self::put). The order of the ends is checked when the batch is written.
    pub fn delete_range_cf(
        &mut self,
        cf: impl Into<RecordTarget>,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> Result<()> {
        let (begin, end) = (begin.as_ref(), end.as_ref());
        check_key(begin)?;
        if end.len() > MAX_KEY_BYTES {
            return Err(Error::invalid_argument("end key is too large"));
        }
        let cf = self.family_of(cf.into())?;
        let entry = (cf, ValueType::RangeDeletion, begin, end);
        self.counted(ContentFlags::DELETE_RANGE, entry, |bytes| batch::append_delete_range(bytes, cf, begin, end))
    }

    /// Adds an operand for the merge operator to `key` in the default column family.
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.merge_cf(ColumnFamilyId::DEFAULT, key, operand)
    }

    /// Adds an operand for the merge operator to `key`.
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    pub fn merge_cf(
        &mut self,
        cf: impl Into<RecordTarget>,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        let (key, operand) = (key.as_ref(), operand.as_ref());
        check_key(key)?;
        check_value(operand)?;
        let cf = self.family_of(cf.into())?;
        let entry = (cf, ValueType::Merge, key, operand);
        self.counted(ContentFlags::MERGE, entry, |bytes| batch::append_merge(bytes, cf, key, operand))
    }

    /// Adds a blob that the log carries and no key gets. It does not count as an update.
    ///
    /// # Errors
    /// `Aborted` when the batch would exceed its limit.
    pub fn put_log_data(&mut self, blob: impl AsRef<[u8]>) -> Result<()> {
        check_value(blob.as_ref())?;
        let before = self.here();
        batch::append_log_data(&mut self.bytes, blob.as_ref());
        self.enforce_limit(before)
    }

    /// Appends the records of another batch. Its log data comes along, its save points do not.
    ///
    /// # Errors
    /// `Aborted` when the batch would exceed its limit; `Corruption` when the batch is protected and the other malformed.
    pub fn append(&mut self, other: &Self) -> Result<()> {
        if other.owner != self.owner {
            self.take_owner(other.owner)?;
        }
        let before = self.here();
        self.bytes.extend_from_slice(other.record_bytes());
        self.flags = self.flags.with(other.flags);
        self.set_count(self.count.saturating_add(other.count));
        self.append_protections(other)?;
        self.enforce_limit(before)
    }

    /// Remembers this place in the batch for [`rollback_to_save_point`](Self::rollback_to_save_point).
    pub fn set_save_point(&mut self) {
        self.save_points.push(self.here());
    }

    /// Drops everything added since the latest save point, and the save point.
    ///
    /// # Errors
    /// `NotFound` without a save point.
    pub fn rollback_to_save_point(&mut self) -> Result<()> {
        let point = self.save_points.pop().ok_or_else(no_save_point)?;
        self.go_back(point);
        Ok(())
    }

    /// Forgets the latest save point and keeps what was added since.
    ///
    /// # Errors
    /// `NotFound` without a save point.
    pub fn pop_save_point(&mut self) -> Result<()> {
        self.save_points.pop().map(drop).ok_or_else(no_save_point)
    }

    /// Lets the log end here: later records reach the memtables only.
    pub fn mark_wal_termination_point(&mut self) {
        self.wal_end = Some(self.here());
    }

    /// Whether the log gets only a part of the batch.
    pub fn has_wal_termination_point(&self) -> bool {
        self.wal_end.is_some()
    }

    /// Appends a transaction marker or a no-op; none of them counts. The end of a prepare section drops the save points.
    pub fn append_marker(&mut self, record: &Record<'_>) {
        debug_assert!(!record.is_counted());
        record.encode(&mut self.bytes);
        self.flags = self.flags.with(ContentFlags::of(record));
        if matches!(record, Record::EndPrepare { .. }) {
            self.save_points.clear();
        }
    }

    /// The records in order.
    pub fn records(&self) -> BatchIter<'_> {
        // The header is always there, so that this cannot fail; an empty batch stands in.
        BatchIter::new(&self.bytes).unwrap_or_else(|_| BatchIter::empty())
    }

    /// Hands every record to `handler`, in order, until it fails or wants no more.
    ///
    /// # Errors
    /// What the handler returns.
    pub fn iterate(&self, handler: &mut impl BatchHandler) -> Result<()> {
        for record in self.records() {
            if !handler.should_continue() {
                return Ok(());
            }
            match record? {
                Record::Put { cf, key, value } => handler.put(ColumnFamilyId(cf), key, value),
                Record::Delete { cf, key } => handler.delete(ColumnFamilyId(cf), key),
                Record::SingleDelete { cf, key } => handler.single_delete(ColumnFamilyId(cf), key),
                Record::DeleteRange { cf, begin, end } => handler.delete_range(ColumnFamilyId(cf), begin, end),
                Record::Merge { cf, key, value } => handler.merge(ColumnFamilyId(cf), key, value),
                Record::BlobIndex { cf, key, value } => handler.put_blob_index(ColumnFamilyId(cf), key, value),
                Record::PutEntity { cf, key, value } => handler.put_entity(ColumnFamilyId(cf), key, value),
                Record::TimedPut { cf, key, packed } => {
                    let (value, write_time_secs) = batch::unpack_timed_value(packed)?;
                    handler.timed_put(ColumnFamilyId(cf), key, value, write_time_secs)
                }
                Record::LogData(blob) => handler.log_data(blob),
                Record::Noop => handler.noop(),
                Record::BeginPrepare(kind) => handler.begin_prepare(kind),
                Record::EndPrepare { xid } => handler.end_prepare(xid),
                Record::Commit { xid } => handler.commit(xid),
                Record::CommitWithTimestamp { timestamp, xid } => handler.commit_with_timestamp(timestamp, xid),
                Record::Rollback { xid } => handler.rollback(xid),
            }?;
        }
        Ok(())
    }

    /// The sequence number in the header: 0 unless the bytes came from a log.
    pub fn sequence(&self) -> SequenceNumber {
        batch::sequence(&self.bytes)
    }

    fn here(&self) -> SavePoint {
        SavePoint { bytes: self.bytes.len(), count: self.count, flags: self.flags }
    }

    fn go_back(&mut self, point: SavePoint) {
        debug_assert!(point.bytes <= self.bytes.len());
        self.bytes.truncate(point.bytes);
        self.flags = point.flags;
        self.set_count(point.count);
        if let Some(protections) = &mut self.protections {
            protections.truncate(point.count as usize);
        }
        if self.wal_end.is_some_and(|end| end.bytes > point.bytes) {
            self.wal_end = None;
        }
    }

    #[inline]
    fn set_count(&mut self, count: u32) {
        self.count = count;
        batch::set_count(&mut self.bytes, count);
    }

    #[inline]
    fn counted(
        &mut self,
        flag: ContentFlags,
        entry: (u32, ValueType, &[u8], &[u8]),
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<()> {
        let before = self.here();
        let Some(count) = self.count.checked_add(1) else {
            return Err(Error::invalid_argument("write batch has too many updates"));
        };
        encode(&mut self.bytes);
        self.flags = self.flags.with(flag);
        self.set_count(count);
        if let Some(protections) = &mut self.protections {
            // Of what the caller gave, not of what was encoded.
            protections.push(protection::of_entry(entry));
        }
        self.enforce_limit(before)
    }

    #[inline]
    fn enforce_limit(&mut self, before: SavePoint) -> Result<()> {
        if self.max_bytes == 0 || self.bytes.len() <= self.max_bytes {
            return Ok(());
        }
        self.go_back(before);
        Err(Error::aborted("").with_subcode(SubCode::MemoryLimit))
    }
}

#[inline]
fn check_key(key: &[u8]) -> Result<()> {
    if key.len() > MAX_KEY_BYTES {
        return Err(Error::invalid_argument("key is too large"));
    }
    Ok(())
}

#[inline]
fn check_value(value: &[u8]) -> Result<()> {
    if value.len() > MAX_VALUE_BYTES {
        return Err(Error::invalid_argument("value is too large"));
    }
    Ok(())
}

#[cold]
fn no_save_point() -> Error {
    Error::not_found("")
}

/// Receives the records of a batch. Every method does nothing unless it is overridden.
#[allow(unused_variables)]
pub trait BatchHandler {
    /// A put.
    fn put(&mut self, cf: ColumnFamilyId, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(())
    }
    /// A put with a write time in seconds since 1970.
    fn timed_put(&mut self, cf: ColumnFamilyId, key: &[u8], value: &[u8], write_time_secs: u64) -> Result<()> {
        Ok(())
    }
    /// A put of a serialized entity.
    fn put_entity(&mut self, cf: ColumnFamilyId, key: &[u8], entity: &[u8]) -> Result<()> {
        Ok(())
    }
    /// A put of a reference to a blob.
    fn put_blob_index(&mut self, cf: ColumnFamilyId, key: &[u8], index: &[u8]) -> Result<()> {
        Ok(())
    }
    /// A deletion.
    fn delete(&mut self, cf: ColumnFamilyId, key: &[u8]) -> Result<()> {
        Ok(())
    }
    /// A single deletion.
    fn single_delete(&mut self, cf: ColumnFamilyId, key: &[u8]) -> Result<()> {
        Ok(())
    }
    /// A deletion of `[begin, end)`.
    fn delete_range(&mut self, cf: ColumnFamilyId, begin: &[u8], end: &[u8]) -> Result<()> {
        Ok(())
    }
    /// A merge operand.
    fn merge(&mut self, cf: ColumnFamilyId, key: &[u8], operand: &[u8]) -> Result<()> {
        Ok(())
    }
    /// Log data.
    fn log_data(&mut self, blob: &[u8]) -> Result<()> {
        Ok(())
    }
    /// A no-op.
    fn noop(&mut self) -> Result<()> {
        Ok(())
    }
    /// The start of a prepare section.
    fn begin_prepare(&mut self, kind: PrepareKind) -> Result<()> {
        Ok(())
    }
    /// The end of a prepare section.
    fn end_prepare(&mut self, xid: &[u8]) -> Result<()> {
        Ok(())
    }
    /// A commit.
    fn commit(&mut self, xid: &[u8]) -> Result<()> {
        Ok(())
    }
    /// A commit at a user timestamp.
    fn commit_with_timestamp(&mut self, timestamp: &[u8], xid: &[u8]) -> Result<()> {
        Ok(())
    }
    /// A rollback.
    fn rollback(&mut self, xid: &[u8]) -> Result<()> {
        Ok(())
    }
    /// Asked before every record; `false` ends the iteration without an error.
    fn should_continue(&mut self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firn_error::ErrorKind;
    use proptest::prelude::*;

    #[derive(Default)]
    struct Text(String);

    impl BatchHandler for Text {
        fn put(&mut self, cf: ColumnFamilyId, key: &[u8], value: &[u8]) -> Result<()> {
            self.0 += &format!("put {} {}={};", cf.0, key.escape_ascii(), value.escape_ascii());
            Ok(())
        }
        fn delete(&mut self, cf: ColumnFamilyId, key: &[u8]) -> Result<()> {
            self.0 += &format!("delete {} {};", cf.0, key.escape_ascii());
            Ok(())
        }
        fn log_data(&mut self, blob: &[u8]) -> Result<()> {
            self.0 += &format!("log {};", blob.escape_ascii());
            Ok(())
        }
        fn should_continue(&mut self) -> bool {
            self.0.len() < 60
        }
    }

    fn text(batch: &WriteBatch) -> String {
        let mut text = Text::default();
        batch.iterate(&mut text).unwrap();
        text.0
    }

    #[test]
    fn updates_come_back_in_order() {
        let mut batch = WriteBatch::new();
        batch.put("a", "1").unwrap();
        batch.delete_cf(7, "b").unwrap();
        batch.put_log_data("note").unwrap();
        assert_eq!(text(&batch), "put 0 a=1;delete 7 b;log note;");
        assert_eq!((batch.count(), batch.data_size()), (2, batch.data().len()));
        assert!(batch.flags().contains(ContentFlags::PUT.with(ContentFlags::DELETE)));
        assert!(!batch.flags().intersects(ContentFlags::MERGE));
        let again = WriteBatch::from_data(batch.data()).unwrap();
        assert_eq!((text(&again), again.flags(), again.count()), (text(&batch), batch.flags(), 2));
    }

    #[test]
    fn save_points_nest() {
        let mut batch = WriteBatch::new();
        assert!(batch.rollback_to_save_point().unwrap_err().is_not_found());
        assert!(batch.pop_save_point().unwrap_err().is_not_found());
        batch.put("a", "1").unwrap();
        batch.set_save_point();
        batch.merge("b", "2").unwrap();
        batch.set_save_point();
        batch.put_log_data("gone").unwrap();
        batch.delete("c").unwrap();
        batch.rollback_to_save_point().unwrap();
        assert_eq!(batch.count(), 2);
        batch.set_save_point();
        batch.delete("d").unwrap();
        batch.pop_save_point().unwrap();
        assert_eq!(batch.count(), 3);
        batch.rollback_to_save_point().unwrap();
        assert_eq!(text(&batch), "put 0 a=1;");
        assert!(!batch.flags().intersects(ContentFlags::MERGE));
        batch.set_save_point();
        batch.clear();
        assert!(batch.is_empty() && batch.rollback_to_save_point().is_err());
        assert_eq!(batch.data(), WriteBatch::new().data());
    }

    #[test]
    fn the_limit_undoes_what_exceeds_it() {
        let mut batch = WriteBatch::with_max_bytes(20);
        batch.put("a", "1").unwrap();
        let before = batch.data().to_vec();
        let error = batch.put("b", "2").unwrap_err();
        assert_eq!((error.kind(), error.subcode()), (ErrorKind::Aborted, SubCode::MemoryLimit));
        assert_eq!(error.to_string(), "Operation aborted: Memory limit reached: ");
        assert!(batch.put_log_data("too long").is_err());
        assert_eq!(batch.data(), before);
        batch.delete("b").unwrap();
        assert_eq!(batch.data_size(), 20);
    }

    #[test]
    fn the_log_may_get_less_than_the_memtable() {
        let mut batch = WriteBatch::new();
        batch.put("a", "1").unwrap();
        batch.mark_wal_termination_point();
        batch.put("b", "2").unwrap();
        assert_eq!((batch.wal_record_bytes().len(), batch.wal_count()), (5, 1));
        assert_eq!((batch.record_bytes().len(), batch.count()), (10, 2));
    }

    #[test]
    fn appending_concatenates() {
        let (mut a, mut b) = (WriteBatch::new(), WriteBatch::new());
        a.put("a", "1").unwrap();
        b.delete_cf(3, "b").unwrap();
        a.append(&b).unwrap();
        assert_eq!(text(&a), "put 0 a=1;delete 3 b;");
        assert_eq!(WriteBatch::from_data(a.data()).unwrap().count(), 2);
    }

    #[test]
    fn markers_do_not_count() {
        let mut batch = WriteBatch::new();
        batch.append_marker(&Record::Noop);
        batch.set_save_point();
        batch.append_marker(&Record::EndPrepare { xid: b"x" });
        assert!(batch.rollback_to_save_point().is_err());
        assert_eq!((batch.count(), batch.flags()), (0, ContentFlags::END_PREPARE));
    }

    #[test]
    fn damaged_bytes_are_refused() {
        assert!(WriteBatch::from_data(vec![0; 11]).unwrap_err().is_corruption());
        assert!(WriteBatch::from_data([batch::EMPTY.to_vec(), vec![0x63]].concat()).unwrap_err().is_corruption());
    }

    proptest! {
        #[test]
        fn rolling_back_restores_the_bytes(
            before in prop::collection::vec((any::<Vec<u8>>(), any::<Vec<u8>>()), 0..5),
            after in prop::collection::vec((any::<u32>(), any::<Vec<u8>>()), 0..5),
        ) {
            let mut batch = WriteBatch::new();
            for (key, value) in &before {
                batch.put(key, value).unwrap();
            }
            let bytes = batch.data().to_vec();
            batch.set_save_point();
            for (cf, key) in &after {
                batch.single_delete_cf(*cf, key).unwrap();
            }
            prop_assert_eq!(WriteBatch::from_data(batch.data()).unwrap().count() as usize, before.len() + after.len());
            batch.rollback_to_save_point().unwrap();
            prop_assert_eq!(batch.data(), bytes);
        }
    }
}
