//! The handles that users hold: [`Db`] and [`ColumnFamily`].
//!
//! Both are cheap to clone and may be used from any thread. The methods here only name defaults and pass on; the work is
//! done in the neighbouring rooms. The database closes when its last [`Db`] is gone; iterators that are left go on reading, and
//! snapshots and column families keep nothing open.

use std::path::Path;
use std::sync::{Arc, Weak};

use firn_error::{Error, Result, SubCode};
use firn_format::key::{FileNumber, SequenceNumber};
use firn_table::PinnedSlice;

use super::column_family::ColumnFamilyData;
use super::cursor::{Cursor, RangeIterator};
use super::files::PurgeAtEnd;
use super::report::HandleGuard;
use super::snapshot::Snapshot;
use super::{DbInner, open};
use crate::options::{
    ColumnFamilyOptions, CompactRangeOptions, CompactionOptions, DbOptions, FlushOptions, Options, ReadOptions,
    WriteOptions,
};
use crate::write::{ColumnFamilyId, RecordTarget, WriteBatch};

/// The name of the column family that always exists.
pub const DEFAULT_COLUMN_FAMILY_NAME: &str = "default";

/// A column family to open: its name and its options.
#[derive(Clone, Debug)]
pub struct ColumnFamilyDescriptor {
    /// The name.
    pub name: String,
    /// The options.
    pub options: ColumnFamilyOptions,
}

impl ColumnFamilyDescriptor {
    /// A descriptor of `name` with `options`.
    pub fn new(name: impl Into<String>, options: ColumnFamilyOptions) -> Self {
        Self { name: name.into(), options }
    }
}

/// A handle to one column family of one database. Using it on another database is an `InvalidArgument` error.
#[derive(Clone)]
pub struct ColumnFamily {
    pub(crate) data: Arc<ColumnFamilyData>,
    /// Tells listeners, if there are any, when the last clone goes.
    _guard: Option<Arc<HandleGuard>>,
    /// The last handle of a dropped column family may be the last that keeps its tables.
    _purge: PurgeAtEnd,
}

impl ColumnFamily {
    pub(crate) fn new(db: &DbInner, data: Arc<ColumnFamilyData>) -> Self {
        let guard = || Arc::new(HandleGuard { listeners: db.listeners.clone(), data: Arc::clone(&data) });
        let _guard = (!db.listeners.is_empty()).then(guard);
        Self { data, _guard, _purge: PurgeAtEnd(Weak::clone(&db.this)) }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.data.name
    }

    /// The id that write-ahead logs and the MANIFEST know it by.
    pub fn id(&self) -> u32 {
        self.data.id
    }
}

impl From<&ColumnFamily> for ColumnFamilyId {
    fn from(cf: &ColumnFamily) -> Self {
        ColumnFamilyId(cf.data.id)
    }
}

impl From<&ColumnFamily> for RecordTarget {
    fn from(cf: &ColumnFamily) -> Self {
        Self::new(cf.data.id, cf.data.owner)
    }
}

impl std::fmt::Debug for ColumnFamily {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ColumnFamily({} {:?})", self.id(), self.name())
    }
}

/// An open database.
///
/// ```
/// # fn main() -> firndb::Result<()> {
/// # let dir = tempfile::tempdir().expect("a temporary directory");
/// # let path = dir.path().join("db");
/// use firndb::{Db, Options};
///
/// let mut options = Options::default();
/// options.db.create_if_missing = true;
/// let db = Db::open(&path, options)?;
/// db.put(b"kilimanjaro", b"5895")?;
/// db.put(b"mont blanc", b"4806")?;
/// assert_eq!(db.get(b"kilimanjaro")?.as_deref(), Some(&b"5895"[..]));
/// for entry in db.range("l"..) {
///     let (name, height) = entry?;
///     println!("{} {}", String::from_utf8_lossy(&name), String::from_utf8_lossy(&height));
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Db {
    pub(crate) inner: Arc<DbHandle>,
}

/// Closes the database when the last [`Db`] is dropped, although background jobs hold the inner state too.
pub(crate) struct DbHandle {
    pub(crate) db: Arc<DbInner>,
    default_cf: ColumnFamily,
}

impl Drop for DbHandle {
    fn drop(&mut self) {
        self.db.close_without_handles();
    }
}

impl Db {
    pub(crate) fn from_inner(db: Arc<DbInner>, default_cf: Arc<ColumnFamilyData>) -> Self {
        let default_cf = ColumnFamily::new(&db, default_cf);
        Self { inner: Arc::new(DbHandle { db, default_cf }) }
    }

    fn db(&self) -> &Arc<DbInner> {
        &self.inner.db
    }

    /// Opens the database at `path` with its default column family only.
    ///
    /// # Errors
    /// `InvalidArgument` when the database does not exist and `create_if_missing` is off, when it exists and
    /// `error_if_exists` is on, when it has other column families, or when options contradict each other; `IoError`
    /// when the directory is locked or unreadable; `Corruption` naming the file; `NotSupported` when the database uses a
    /// feature that Firn does not read, before anything is changed.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        let descriptor = ColumnFamilyDescriptor::new(DEFAULT_COLUMN_FAMILY_NAME, options.cf);
        Self::open_cf(path, options.db, vec![descriptor])
    }

    /// Opens the database at `path` with the given column families, which must be all that it has.
    ///
    /// # Errors
    /// As for [`Db::open`].
    pub fn open_cf(
        path: impl AsRef<Path>,
        options: DbOptions,
        column_families: Vec<ColumnFamilyDescriptor>,
    ) -> Result<Self> {
        open::open(path.as_ref(), options, column_families, open::Mode::ReadWrite)
    }

    /// Opens the database at `path` for reading only; nothing on disk changes and no lock is taken.
    ///
    /// # Errors
    /// As for [`Db::open`]; later writes are `NotSupported`.
    pub fn open_read_only(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        let descriptor = ColumnFamilyDescriptor::new(DEFAULT_COLUMN_FAMILY_NAME, options.cf);
        Self::open_cf_read_only(path, options.db, vec![descriptor])
    }

    /// Opens some or all column families of the database at `path` for reading only.
    ///
    /// # Errors
    /// As for [`Db::open_read_only`].
    pub fn open_cf_read_only(
        path: impl AsRef<Path>,
        options: DbOptions,
        column_families: Vec<ColumnFamilyDescriptor>,
    ) -> Result<Self> {
        open::open(path.as_ref(), options, column_families, open::Mode::ReadOnly)
    }

    /// Deletes all files of the database at `path`, which must not be open.
    ///
    /// # Errors
    /// `IoError` when it is locked or a file cannot be removed. A database that does not exist is no error.
    pub fn destroy(path: impl AsRef<Path>, options: &Options) -> Result<()> {
        open::destroy(path.as_ref(), &options.db)
    }

    /// The names of the column families of the database at `path`, in ascending order of their ids.
    ///
    /// # Errors
    /// `IoError` or `Corruption` when CURRENT or the MANIFEST cannot be read.
    pub fn list_column_families(path: impl AsRef<Path>, options: &DbOptions) -> Result<Vec<String>> {
        open::list_column_families(path.as_ref(), options)
    }

    /// Waits for background work to stop, writes what the options ask for and closes the files. Dropping the last handle
    /// does the same but cannot report errors; if that happens in a callback of background work, another thread closes the
    /// database soon after. Further calls on any clone are `ShutdownInProgress`.
    ///
    /// # Errors
    /// What stops the last flush or the release of the files. `Busy` in a callback of background work, which closing would
    /// wait for: nothing happens then.
    pub fn close(&self) -> Result<()> {
        self.db().close()
    }

    /// The directory of the database.
    pub fn path(&self) -> &Path {
        &self.db().path
    }

    /// The default column family.
    pub fn default_cf(&self) -> &ColumnFamily {
        &self.inner.default_cf
    }

    /// The open column family called `name`.
    pub fn cf(&self, name: &str) -> Option<ColumnFamily> {
        self.db().column_family(name).map(|data| ColumnFamily::new(self.db(), data))
    }

    /// The open column families in ascending order of their ids.
    pub fn column_families(&self) -> Vec<ColumnFamily> {
        self.db().column_families().into_iter().map(|data| ColumnFamily::new(self.db(), data)).collect()
    }

    /// Creates a column family; durable when it returns.
    ///
    /// # Errors
    /// `InvalidArgument` when the name exists or the options contradict each other.
    pub fn create_cf(&self, name: &str, options: ColumnFamilyOptions) -> Result<ColumnFamily> {
        self.db().create_column_family(name, options).map(|data| ColumnFamily::new(self.db(), data))
    }

    /// Drops a column family; durable when it returns. Handles stay readable until they are dropped; writes to them fail.
    ///
    /// # Errors
    /// `InvalidArgument` for the default column family or one that was dropped already.
    pub fn drop_cf(&self, cf: &ColumnFamily) -> Result<()> {
        self.db().drop_column_family(&cf.data)
    }

    /// Sets `key` to `value` in the default column family.
    ///
    /// Survives a crash of the process; survives a power failure only with [`WriteOptions::sync`].
    ///
    /// # Errors
    /// `IoError` when the write-ahead log cannot be written; the background error in force when writes are stopped.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_opt(&WriteOptions::default(), self.default_cf(), key, value)
    }

    /// [`Db::put`] with options and a column family.
    ///
    /// # Errors
    /// As for [`Db::put`].
    pub fn put_opt(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.one_record(options, cf, |batch| batch.put_cf(cf, key.as_ref(), value.as_ref()))
    }

    /// Deletes `key` from the default column family; no error when it does not exist.
    ///
    /// # Errors
    /// As for [`Db::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_opt(&WriteOptions::default(), self.default_cf(), key)
    }

    /// [`Db::delete`] with options and a column family.
    ///
    /// # Errors
    /// As for [`Db::put`].
    pub fn delete_opt(&self, options: &WriteOptions, cf: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        self.one_record(options, cf, |batch| batch.delete_cf(cf, key.as_ref()))
    }

    /// Deletes a key that was put exactly once since it was last deleted; cheaper than [`Db::delete`]. The result of
    /// breaking that contract is undefined (an older value may reappear).
    ///
    /// # Errors
    /// As for [`Db::put`].
    pub fn single_delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.single_delete_opt(&WriteOptions::default(), self.default_cf(), key)
    }

    /// [`Db::single_delete`] with options and a column family.
    ///
    /// # Errors
    /// As for [`Db::put`].
    pub fn single_delete_opt(&self, options: &WriteOptions, cf: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        self.one_record(options, cf, |batch| batch.single_delete_cf(cf, key.as_ref()))
    }

    /// Deletes all keys in `[start, end)` of the default column family with one record.
    ///
    /// # Errors
    /// `InvalidArgument` when `end` sorts before `start`; as for [`Db::put`].
    pub fn delete_range(&self, start: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        self.delete_range_opt(&WriteOptions::default(), self.default_cf(), start, end)
    }

    /// [`Db::delete_range`] with options and a column family.
    ///
    /// # Errors
    /// As for [`Db::delete_range`].
    pub fn delete_range_opt(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        start: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.one_record(options, cf, |batch| batch.delete_range_cf(cf, start.as_ref(), end.as_ref()))
    }

    /// Adds `operand` to `key` in the default column family; the merge operator combines them when the key is read.
    ///
    /// # Errors
    /// `NotSupported` without a merge operator; as for [`Db::put`].
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.merge_opt(&WriteOptions::default(), self.default_cf(), key, operand)
    }

    /// [`Db::merge`] with options and a column family.
    ///
    /// # Errors
    /// As for [`Db::merge`].
    pub fn merge_opt(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.one_record(options, cf, |batch| batch.merge_cf(cf, key.as_ref(), operand.as_ref()))
    }

    fn one_record(
        &self,
        options: &WriteOptions,
        cf: &ColumnFamily,
        record: impl FnOnce(&mut WriteBatch) -> Result<()>,
    ) -> Result<()> {
        self.db().check_owner(&cf.data)?;
        super::write::with_scratch_batch(|batch| {
            if options.protection_bytes_per_key == 8 {
                batch.protect()?;
            }
            record(batch)?;
            self.db().write_one(options, &cf.data, batch)
        })
    }

    /// Applies all records of `batch` or none. The batch may be reused.
    ///
    /// # Errors
    /// As for [`Db::put`].
    pub fn write(&self, batch: &mut WriteBatch) -> Result<()> {
        self.write_opt(&WriteOptions::default(), batch)
    }

    /// [`Db::write`] with options.
    ///
    /// # Errors
    /// As for [`Db::put`].
    pub fn write_opt(&self, options: &WriteOptions, batch: &mut WriteBatch) -> Result<()> {
        self.db().write(options, batch)
    }

    /// The newest value of `key` in the default column family, pinned where it lies.
    ///
    /// # Errors
    /// `Corruption` or `IoError` naming the file.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedSlice>> {
        self.get_opt(&ReadOptions::default(), self.default_cf(), key)
    }

    /// [`Db::get`] with options and a column family.
    ///
    /// # Errors
    /// As for [`Db::get`]; `Incomplete` when the options forbid the I/O needed.
    pub fn get_opt(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<PinnedSlice>> {
        self.db().get(options, &cf.data, key.as_ref())
    }

    /// [`Db::get_opt`], with the sub-code of success: `MergeOperandThresholdExceeded` when more operands were merged than
    /// [`ReadOptions::merge_operand_count_threshold`] says, else `None`.
    ///
    /// # Errors
    /// As for [`Db::get_opt`].
    pub fn get_with_subcode(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<(Option<PinnedSlice>, SubCode)> {
        self.db().get_with_subcode(options, &cf.data, key.as_ref())
    }

    /// What a merge of `key` would be given, oldest first and unmerged: the base value, if there is one, then the operands.
    /// Empty if the key does not exist; the value alone if there are no operands.
    ///
    /// # Errors
    /// As for [`Db::get_opt`]; `Incomplete` with the sub-code `MergeOperandsInsufficientCapacity` if there are more than
    /// `limit`.
    pub fn get_merge_operands(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        limit: usize,
    ) -> Result<Vec<Vec<u8>>> {
        self.db().get_merge_operands(options, &cf.data, key.as_ref(), limit)
    }

    /// The newest values of `keys` in the default column family, all as of one moment, in the order of `keys`.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<Option<PinnedSlice>>> {
        self.multi_get_opt(&ReadOptions::default(), self.default_cf(), keys)
    }

    /// [`Db::multi_get`] with options and a column family.
    pub fn multi_get_opt<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        keys: &[K],
    ) -> Vec<Result<Option<PinnedSlice>>> {
        self.db().multi_get(options, &cf.data, keys)
    }

    /// Takes a snapshot of what is visible now.
    pub fn snapshot(&self) -> Snapshot {
        self.db().take_snapshot()
    }

    /// A seekable cursor over a column family, unpositioned.
    ///
    /// # Errors
    /// `InvalidArgument` or `NotSupported` when the options contradict each other.
    pub fn cursor(&self, options: &ReadOptions, cf: &ColumnFamily) -> Result<Cursor> {
        self.db().cursor(options.clone(), &cf.data)
    }

    /// All entries of the default column family, as a double-ended iterator of owned pairs.
    pub fn iter(&self) -> RangeIterator {
        self.range::<&[u8], _>(..)
    }

    /// The entries of the default column family with keys in `range`, in the order of its comparator.
    pub fn range<K: AsRef<[u8]>, R: std::ops::RangeBounds<K>>(&self, range: R) -> RangeIterator {
        self.range_opt(ReadOptions::default(), self.default_cf(), range)
    }

    /// [`Db::range`] with options and a column family.
    pub fn range_opt<K: AsRef<[u8]>, R: std::ops::RangeBounds<K>>(
        &self,
        options: ReadOptions,
        cf: &ColumnFamily,
        range: R,
    ) -> RangeIterator {
        RangeIterator::new(self.db(), options, &cf.data, range)
    }

    /// The entries of the default column family whose keys start with `prefix`. In an order of one's own these need not lie
    /// together, and all entries are looked through.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> RangeIterator {
        self.prefix_opt(ReadOptions::default(), self.default_cf(), prefix)
    }

    /// [`Db::prefix`] with options and a column family.
    pub fn prefix_opt(&self, options: ReadOptions, cf: &ColumnFamily, prefix: impl AsRef<[u8]>) -> RangeIterator {
        RangeIterator::with_prefix(self.db(), options, &cf.data, prefix.as_ref())
    }

    /// Writes the memtables of a column family to table files.
    ///
    /// # Errors
    /// What stopped the flush; `TryAgain` when it would stall and [`FlushOptions::wait`] is off.
    pub fn flush(&self, options: &FlushOptions, cf: &ColumnFamily) -> Result<()> {
        self.db().flush(options, &[Arc::clone(&cf.data)])
    }

    /// Flushes several column families; with `atomic_flush` all of them or none.
    ///
    /// # Errors
    /// As for [`Db::flush`].
    pub fn flush_cfs(&self, options: &FlushOptions, cfs: &[&ColumnFamily]) -> Result<()> {
        let cfs: Vec<_> = cfs.iter().map(|cf| Arc::clone(&cf.data)).collect();
        self.db().flush(options, &cfs)
    }

    /// Compacts the keys between `begin` and `end` (both inclusive; `None` is unbounded) to the bottom.
    ///
    /// # Errors
    /// What stopped the compaction.
    pub fn compact_range(
        &self,
        options: &CompactRangeOptions,
        cf: &ColumnFamily,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<()> {
        self.db().compact_range(options, &cf.data, begin, end)
    }

    /// Compacts the named table files, with all that must come along, into `output_level`.
    ///
    /// # Errors
    /// `InvalidArgument` for unknown files or an impossible level; `Aborted` when a file is being compacted already; what
    /// stopped the compaction.
    pub fn compact_files(
        &self,
        options: &CompactionOptions,
        cf: &ColumnFamily,
        files: &[FileNumber],
        output_level: usize,
    ) -> Result<()> {
        self.db().compact_files(options, &cf.data, files, output_level)
    }

    /// Waits until no flush or compaction is running or due.
    ///
    /// # Errors
    /// The background error in force; with `paranoid_checks` off also what ended a job meanwhile, such as `Corruption`.
    pub fn wait_for_compact(&self) -> Result<()> {
        self.db().wait_for_compact()
    }

    /// Deletes the table files below level 0 that lie wholly in `[begin, end]`, whatever snapshots see.
    ///
    /// # Errors
    /// `IoError` when the MANIFEST cannot be written.
    pub fn delete_files_in_range(&self, cf: &ColumnFamily, begin: Option<&[u8]>, end: Option<&[u8]>) -> Result<()> {
        self.db().delete_files_in_range(&cf.data, begin, end)
    }

    /// A property of a column family or the database as text, such as `rocksdb.stats`.
    pub fn property(&self, cf: &ColumnFamily, name: &str) -> Option<String> {
        self.db().property(&cf.data, name)
    }

    /// A property as a number, such as `rocksdb.num-files-at-level0`'s or `rocksdb.estimate-num-keys`.
    pub fn property_int(&self, cf: &ColumnFamily, name: &str) -> Option<u64> {
        self.db().property_int(&cf.data, name)
    }

    /// A property as a map of names and values, such as `rocksdb.cfstats`.
    pub fn property_map(&self, cf: &ColumnFamily, name: &str) -> Option<std::collections::BTreeMap<String, String>> {
        self.db().property_map(&cf.data, name)
    }

    /// Starts the sums behind `rocksdb.stats`, `rocksdb.cfstats` and `rocksdb.dbstats` again. The statistics object stays.
    pub fn reset_stats(&self) {
        self.db().reset_stats();
    }

    /// Changes mutable options of a column family; durable in the OPTIONS file when it returns.
    ///
    /// # Errors
    /// `InvalidArgument` when an option is unknown, immutable or malformed; nothing is changed then.
    pub fn set_options(&self, cf: &ColumnFamily, options: &[(&str, &str)]) -> Result<()> {
        self.db().set_options(&cf.data, options)
    }

    /// Changes mutable options of the database.
    ///
    /// # Errors
    /// As for [`Db::set_options`].
    pub fn set_db_options(&self, options: &[(&str, &str)]) -> Result<()> {
        self.db().set_db_options(options)
    }

    /// Hands the write-ahead log's buffer to the operating system and, if `sync`, makes it durable.
    ///
    /// # Errors
    /// `IoError` naming the file.
    pub fn flush_wal(&self, sync: bool) -> Result<()> {
        self.db().flush_wal(sync)
    }

    /// Makes everything written so far durable.
    ///
    /// # Errors
    /// `IoError` naming the file.
    pub fn sync_wal(&self) -> Result<()> {
        self.db().flush_wal(true)
    }

    /// The sequence number of the newest visible write.
    pub fn latest_sequence_number(&self) -> SequenceNumber {
        self.db().visible_sequence()
    }

    /// Clears a background error that can be recovered from, and writes again.
    ///
    /// # Errors
    /// The error, when it is fatal or arises again.
    pub fn resume(&self) -> Result<()> {
        self.db().resume()
    }

    /// The options in force: those of the database and those of a column family.
    pub fn options(&self, cf: &ColumnFamily) -> Options {
        self.db().options_of(&cf.data)
    }

    /// The statistics object, when the options have one.
    pub fn statistics(&self) -> Option<Arc<crate::stats::Statistics>> {
        self.db().statistics()
    }

    /// What the tickers counted in each period of `stats_persist_period_sec` that ended in `[start_secs, end_secs)`, oldest
    /// first; in memory only, within `stats_history_buffer_size`. Empty without a statistics object.
    pub fn get_stats_history(&self, start_secs: u64, end_secs: u64) -> Vec<crate::stats::StatsHistoryEntry> {
        self.db().get_stats_history(start_secs, end_secs)
    }

    /// Bytes that the keys in `[start, end)` take in table files (and memtables, if asked), by estimate.
    ///
    /// # Errors
    /// `IoError` or `Corruption` naming the file.
    pub fn approximate_sizes(
        &self,
        cf: &ColumnFamily,
        ranges: &[(&[u8], &[u8])],
        include: super::SizeApproximation,
    ) -> Result<Vec<u64>> {
        self.db().approximate_sizes(&cf.data, ranges, include)
    }

    /// Hands every stored version of the keys in `[from, to)` to `visit`, as internal key and value, in order, until it
    /// returns false: what deletions and overwrites hide is shown, what range tombstones cover is not. For tools.
    ///
    /// # Errors
    /// `IoError` or `Corruption` naming the file.
    pub fn for_each_internal_entry(
        &self,
        cf: &ColumnFamily,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        self.db().for_each_internal_entry(&cf.data, from, to, visit)
    }

    /// What is known of every live table file.
    pub fn live_files(&self) -> Vec<super::LiveFile> {
        self.db().live_files()
    }

    /// Whether `key` may exist, without any I/O: false is certain.
    pub fn key_may_exist(&self, options: &ReadOptions, cf: &ColumnFamily, key: impl AsRef<[u8]>) -> bool {
        self.db().key_may_exist(options, &cf.data, key.as_ref())
    }
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Db").field("path", &self.path()).finish_non_exhaustive()
    }
}

impl DbInner {
    /// Refuses a handle of another database.
    pub(crate) fn check_owner(&self, cf: &ColumnFamilyData) -> Result<()> {
        if cf.owner == self.instance {
            return Ok(());
        }
        Err(Error::invalid_argument(format!("column family {:?} belongs to another database", cf.name)))
    }
}
