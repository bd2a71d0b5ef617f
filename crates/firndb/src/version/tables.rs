//! Open tables of a column family: [`TableSource`] and its implementation [`FamilyTables`].
//!
//! A version asks its source for the reader of a file. With unlimited open files the first opening pins the reader in the
//! [`FileHandle`](super::FileHandle), and every later lookup finds it there without a lock, a reference count or a hash
//! table; otherwise a bounded cache, [`OpenTables`], which all column families share, keeps the ones used last.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use firn_env::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use firn_env::{FileOptions, FileSystem};
use firn_error::{Error, Result};
use firn_format::key::FileNumber;
use firn_format::range_tombstone::FragmentedRangeTombstones;
use firn_format::unique_id::InternalUniqueId;
use firn_table::{ReadAheadOptions, TableCache, TableReadOptions, TableReader, TableReaderOptions};

use super::ReadLatencies;
use super::manifest::{blame, table_path};
use super::set::spec_directory;
use super::{FamilySpec, FileMetaData, FileStats, FileStatsLoader};
use crate::stats::{Ticker, record_tick};

/// Bytes read at once when a whole table is looked through.
const SCRUB_READAHEAD_BYTES: usize = 256 << 10;

/// A table that is open, with its range tombstones ready to be searched.
#[derive(Debug)]
pub struct OpenTable {
    /// The reader.
    pub reader: Arc<TableReader>,
    /// The range tombstones; `None` if there are none, as in nearly all tables.
    pub tombstones: Option<Arc<FragmentedRangeTombstones>>,
}

impl OpenTable {
    fn new(reader: TableReader) -> Self {
        let fragments = || FragmentedRangeTombstones::new(reader.range_tombstones().to_vec(), reader.comparator());
        let tombstones = reader.has_range_tombstones().then(fragments);
        let tombstones = tombstones.filter(|tombstones| !tombstones.is_empty()).map(Arc::new);
        Self { reader: Arc::new(reader), tombstones }
    }

    /// What the properties of the table tell beyond the MANIFEST.
    pub fn stats(&self) -> FileStats {
        let properties = self.reader.properties();
        FileStats {
            num_entries: properties.num_entries,
            num_deletions: properties.num_deletions,
            num_range_deletions: properties.num_range_deletions,
            raw_key_size: properties.raw_key_size,
            raw_value_size: properties.raw_value_size,
            newest_key_time: properties.newest_key_time,
            creation_time: properties.creation_time,
            file_creation_time: properties.file_creation_time,
        }
    }
}

/// Whether a table that is not open may be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenPolicy {
    /// Open it.
    MayOpen,
    /// Answer `Incomplete`: the caller asked for what is in memory.
    MemoryOnly,
}

/// A table somebody looks into: pinned by its file, or kept open by this reference.
pub enum TableRef<'a> {
    /// Open for as long as a version has the file.
    Pinned(&'a OpenTable),
    /// Open for as long as this lives.
    Shared(Arc<OpenTable>),
}

impl Deref for TableRef<'_> {
    type Target = OpenTable;

    #[inline]
    fn deref(&self) -> &OpenTable {
        match self {
            Self::Pinned(table) => table,
            Self::Shared(table) => table,
        }
    }
}

/// Gives the open tables of files. Thread-safe.
pub trait TableSource: Send + Sync {
    /// Opens the table, or finds it open, without looking at the handle of the file.
    ///
    /// # Errors
    /// Those of opening a table; `Incomplete` if it is not open and may not be opened.
    fn open(&self, file: &FileMetaData, policy: OpenPolicy) -> Result<Arc<OpenTable>>;

    /// Opens the table as it lies on the disk, past every cache, for who wants to know what the file holds.
    ///
    /// # Errors
    /// Those of opening a table.
    fn read_back(&self, file: &FileMetaData) -> Result<Arc<OpenTable>>;

    /// The table of `file`.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    #[inline]
    fn table<'a>(&self, file: &'a FileMetaData, policy: OpenPolicy) -> Result<TableRef<'a>> {
        match file.handle().pinned_table() {
            Some(table) => Ok(TableRef::Pinned(table)),
            None => self.open(file, policy).map(TableRef::Shared),
        }
    }
}

/// How many tables a database keeps open, and which, if not all. Thread-safe; the column families of a database share one.
#[derive(Debug)]
pub struct OpenTables {
    shard_bits: u32,
    is_limited: AtomicBool,
    /// The tables used last, from the first limit on.
    recent: OnceLock<TableCache<OpenTable>>,
}

impl OpenTables {
    /// Keeps the tables that `max_open_files` leaves room for; negative means all. 2^`shard_bits` threads that open
    /// different tables do not meet.
    pub fn new(max_open_files: i32, shard_bits: u32) -> Self {
        let open = Self { shard_bits, is_limited: AtomicBool::new(false), recent: OnceLock::new() };
        open.set_max_open_files(max_open_files);
        open
    }

    /// Changes the limit. Tables that were opened while there was none stay open for as long as a version has their files.
    pub fn set_max_open_files(&self, max_open_files: i32) {
        let capacity = TableCache::<OpenTable>::capacity_for(max_open_files);
        if max_open_files >= 0 {
            self.recent.get_or_init(|| TableCache::new(capacity, self.shard_bits));
        }
        if let Some(recent) = self.recent.get() {
            recent.set_capacity_files(capacity);
        }
        self.is_limited.store(max_open_files >= 0, Ordering::Release);
    }

    /// The tables used last, if not all stay open.
    fn limited(&self) -> Option<&TableCache<OpenTable>> {
        if self.is_limited.load(Ordering::Acquire) { self.recent.get() } else { None }
    }

    /// How many tables a limit keeps open now.
    pub fn limited_count(&self) -> usize {
        self.recent.get().map_or(0, TableCache::len)
    }
}

/// How the tables of a column family are opened.
#[derive(Clone)]
pub struct FamilyTablesOptions {
    /// Where the files are.
    pub fs: Arc<dyn FileSystem>,
    /// How files are read.
    pub file_options: FileOptions,
    /// The directory of the database.
    pub db_path: PathBuf,
    /// The column family.
    pub spec: FamilySpec,
    /// How tables are read; the greatest sequence number is set per file.
    pub reader: TableReaderOptions,
    /// Which tables stay open.
    pub open: Arc<OpenTables>,
    /// Measures reads of the files. None when nobody wants to know.
    pub latencies: Option<Arc<ReadLatencies>>,
    /// Compare the unique id of a table with the MANIFEST's. Default: true.
    pub verify_sst_unique_id_in_manifest: bool,
}

/// The open tables of one column family.
pub struct FamilyTables {
    options: FamilyTablesOptions,
    /// For tables that are opened from now on.
    block_protection_bytes_per_key: AtomicU8,
}

impl FamilyTables {
    /// No table is open at first.
    pub fn new(options: FamilyTablesOptions) -> Self {
        let block_protection_bytes_per_key = AtomicU8::new(options.reader.block_protection_bytes_per_key);
        Self { options, block_protection_bytes_per_key }
    }

    /// Changes how many bytes of protection the entries of data blocks get in memory; for tables that are opened from now on.
    pub fn set_block_protection_bytes_per_key(&self, bytes: u8) {
        self.block_protection_bytes_per_key.store(bytes, Ordering::Relaxed);
    }

    /// How tables are opened.
    pub fn options(&self) -> &FamilyTablesOptions {
        &self.options
    }

    /// Forgets the table of a file that is about to be deleted.
    pub fn evict(&self, number: FileNumber) {
        if let Some(recent) = self.options.open.recent.get() {
            recent.evict(number);
        }
    }

    /// Where the file lies; `.sst`, or `.ldb` as LevelDB names it.
    ///
    /// # Errors
    /// `IoError` when the file system does not say which.
    pub fn path_of(&self, file: &FileMetaData) -> Result<PathBuf> {
        let options = &self.options;
        table_path(&*options.fs, spec_directory(&options.spec, file.path_id, &options.db_path), file.number)
    }

    /// Reads all of the file from the disk, past every cache, and compares every block with its checksum.
    ///
    /// # Errors
    /// `Corruption` naming file and offset; `IoError`.
    pub fn scrub(&self, file: &FileMetaData) -> Result<()> {
        let table = self.read_back(file)?;
        let readahead = ReadAheadOptions { fixed_bytes: SCRUB_READAHEAD_BYTES, ..ReadAheadOptions::default() };
        table.reader.verify_checksums(&TableReadOptions { fill_cache: false, readahead, ..TableReadOptions::default() })
    }

    fn open_file(&self, file: &FileMetaData, reader: TableReaderOptions) -> Result<OpenTable> {
        let options = &self.options;
        let path = self.path_of(file)?;
        record_tick(options.reader.statistics.as_ref(), Ticker::NoFileOpens, 1);
        let source = options.fs.new_random_access_file(&path, &options.file_options)?;
        let source = match &options.latencies {
            Some(latencies) => latencies.observe(source, file.level()),
            None => source,
        };
        let largest_sequence = (!file.has_unknown_sequences()).then_some(file.largest_sequence.0);
        let reader = TableReaderOptions {
            largest_sequence,
            level: file.level(),
            file_number: file.number.get(),
            block_protection_bytes_per_key: self.block_protection_bytes_per_key.load(Ordering::Relaxed),
            ..reader
        };
        let table = OpenTable::new(TableReader::open(source, file.file_size, reader)?);
        let properties_at = table.reader.footer().metaindex.offset;
        self.check_unique_id(file, &table).map_err(|error| blame(error, &path, properties_at))?;
        file.handle().set_stats(table.stats());
        Ok(table)
    }

    fn check_unique_id(&self, file: &FileMetaData, table: &OpenTable) -> Result<()> {
        let [low, high] = file.unique_id;
        let expected = InternalUniqueId([low, high, 0]);
        if !self.options.verify_sst_unique_id_in_manifest || expected.is_null() {
            return Ok(());
        }
        let properties = table.reader.properties();
        let actual = InternalUniqueId::for_verification(
            &properties.db_id,
            &properties.db_session_id,
            properties.original_file_number,
        );
        if actual.matches(&expected) {
            return Ok(());
        }
        Err(Error::corruption(format!(
            "Mismatch in unique ID on table file {}. Expected: {{{low},{high}}} Actual: {{{},{}}}",
            file.number, actual.0[0], actual.0[1]
        )))
    }
}

impl TableSource for FamilyTables {
    fn read_back(&self, file: &FileMetaData) -> Result<Arc<OpenTable>> {
        self.open_file(file, TableReaderOptions { block_cache: None, ..self.options.reader.clone() }).map(Arc::new)
    }

    fn open(&self, file: &FileMetaData, policy: OpenPolicy) -> Result<Arc<OpenTable>> {
        if let Some(table) = file.handle().pinned_table() {
            return Ok(Arc::clone(table));
        }
        match (self.options.open.limited(), policy) {
            (Some(recent), OpenPolicy::MemoryOnly) => recent.get(file.number).ok_or_else(not_open),
            (Some(recent), OpenPolicy::MayOpen) => {
                recent.get_or_open(file.number, || self.open_file(file, self.options.reader.clone()))
            }
            (None, policy) => {
                // Perhaps it was opened while there was a limit.
                let recent = self.options.open.recent.get().and_then(|recent| recent.get(file.number));
                let table = match (recent, policy) {
                    (Some(table), _) => table,
                    (None, OpenPolicy::MemoryOnly) => return Err(not_open()),
                    // Two threads may open the same table at once; the loser's reader goes away again.
                    (None, OpenPolicy::MayOpen) => Arc::new(self.open_file(file, self.options.reader.clone())?),
                };
                Ok(Arc::clone(file.handle().pin_table(table)))
            }
        }
    }
}

#[cold]
fn not_open() -> Error {
    Error::incomplete("Table not found in table_cache, no_io is set")
}

impl FileStatsLoader for FamilyTables {
    fn load(&self, file: &FileMetaData) -> Option<FileStats> {
        // A table that cannot be opened is found out by whoever reads it.
        self.open(file, OpenPolicy::MayOpen).ok().map(|table| table.stats())
    }
}
