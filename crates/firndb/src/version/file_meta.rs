//! What the database knows about one table file while it runs: [`FileMetaData`].
//!
//! The durable part is the [`NewFile`] of a MANIFEST record, reached through `Deref`; beside it stand marks that
//! compaction sets (atomics, written under the database mutex) and numbers that come from the table's properties. Everything
//! that belongs to the file itself and not to its place in the tree lives in a [`FileHandle`], which a moved file shares with
//! its former self: when the last handle of a number goes, no version has the file any more and it joins the
//! [`ObsoleteFiles`].

use firn_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use firn_env::sync::Mutex;
use firn_format::key::FileNumber;
use firn_format::version_edit::NewFile;

use super::OpenTable;

/// Numbers of a table that its properties tell and the MANIFEST does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileStats {
    /// Entries of all types, range tombstones included.
    pub num_entries: u64,
    /// Deletions of all types, range tombstones included.
    pub num_deletions: u64,
    /// Range tombstones.
    pub num_range_deletions: u64,
    /// Bytes of all keys before compression.
    pub raw_key_size: u64,
    /// Bytes of all values before compression.
    pub raw_value_size: u64,
    /// When the newest key was written, in unix seconds; 0 = unknown.
    pub newest_key_time: u64,
    /// When the oldest key was written or the file was created, in unix seconds; 0 = unknown.
    pub creation_time: u64,
    /// When the file was created, in unix seconds; 0 = unknown.
    pub file_creation_time: u64,
}

/// A file that no version has any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObsoleteFile {
    /// The number in the file's name.
    pub number: FileNumber,
    /// Index into the paths of the column family.
    pub path_id: u32,
    /// The column family that had the file.
    pub column_family: u32,
    /// Size in bytes.
    pub file_size: u64,
}

/// Where file handles leave their numbers when the last version that has them is gone. Thread-safe.
#[derive(Debug, Default)]
pub struct ObsoleteFiles {
    tables: Mutex<Vec<ObsoleteFile>>,
    blobs: Mutex<Vec<FileNumber>>,
    /// Whether anything waits, so that readers that drop a version need no lock to see that nothing does.
    pending: AtomicBool,
}

impl ObsoleteFiles {
    /// Whether files wait to be taken.
    pub fn is_pending(&self) -> bool {
        self.pending.load(Ordering::Acquire)
    }

    /// The table files that became obsolete since the last call, in ascending order.
    pub fn take_tables(&self) -> Vec<ObsoleteFile> {
        self.pending.store(false, Ordering::Release);
        let mut tables = std::mem::take(&mut *self.tables.lock());
        tables.sort_unstable();
        tables
    }

    /// The blob files that became obsolete since the last call, in ascending order.
    pub fn take_blobs(&self) -> Vec<FileNumber> {
        let mut blobs = std::mem::take(&mut *self.blobs.lock());
        blobs.sort_unstable();
        blobs
    }

    fn add_table(&self, file: ObsoleteFile) {
        self.tables.lock().push(file);
        self.pending.store(true, Ordering::Release);
    }

    pub(crate) fn add_blob(&self, number: FileNumber) {
        self.blobs.lock().push(number);
        self.pending.store(true, Ordering::Release);
    }
}

/// What belongs to a file wherever in the tree it stands. One exists per file number and column family.
pub struct FileHandle {
    identity: ObsoleteFile,
    /// Set once a published version has the file; before that nobody may conclude that the file is obsolete.
    obsolete: OnceLock<Arc<ObsoleteFiles>>,
    stats: OnceLock<FileStats>,
    /// The open table, where tables stay open for good.
    table: OnceLock<Arc<OpenTable>>,
}

impl FileHandle {
    /// The numbers from the file's properties, once somebody loaded them.
    pub fn stats(&self) -> Option<&FileStats> {
        self.stats.get()
    }

    /// Remembers the numbers from the file's properties; the first caller wins.
    pub fn set_stats(&self, stats: FileStats) {
        let _ = self.stats.set(stats);
    }

    /// The open table, if it was pinned.
    #[inline]
    pub(crate) fn pinned_table(&self) -> Option<&Arc<OpenTable>> {
        self.table.get()
    }

    /// Keeps the table open for as long as any version has the file; the first caller wins.
    pub(crate) fn pin_table(&self, table: Arc<OpenTable>) -> &Arc<OpenTable> {
        self.table.get_or_init(|| table)
    }

    /// From now on the file joins `obsolete` when its last handle goes.
    pub(crate) fn track(&self, obsolete: &Arc<ObsoleteFiles>) {
        if self.obsolete.get().is_none() {
            let _ = self.obsolete.set(Arc::clone(obsolete));
        }
    }
}

impl Drop for FileHandle {
    fn drop(&mut self) {
        if let Some(obsolete) = self.obsolete.get() {
            obsolete.add_table(self.identity);
        }
    }
}

/// A table file at its place in a version.
pub struct FileMetaData {
    /// What the MANIFEST knows.
    file: NewFile,
    handle: Arc<FileHandle>,
    level: i32,
    /// Size in bytes with a surcharge for the deletions that compacting the file would get rid of.
    compensated_file_size: u64,
    being_compacted: AtomicBool,
    marked_for_compaction: AtomicBool,
    sampled_reads: AtomicU64,
}

impl FileMetaData {
    /// A file of the default column family that nobody tracks.
    pub fn new(file: NewFile) -> Self {
        Self::of_column_family(file, 0)
    }

    /// A file of `column_family` that nobody tracks yet: nothing happens when it is dropped.
    pub(crate) fn of_column_family(file: NewFile, column_family: u32) -> Self {
        let identity =
            ObsoleteFile { number: file.number, path_id: file.path_id, column_family, file_size: file.file_size };
        Self::with_handle(
            file,
            Arc::new(FileHandle {
                identity,
                obsolete: OnceLock::new(),
                stats: OnceLock::new(),
                table: OnceLock::new(),
            }),
        )
    }

    /// The same file at another place, sharing `handle`.
    pub(crate) fn with_handle(file: NewFile, handle: Arc<FileHandle>) -> Self {
        let compensated_file_size = file.file_size.saturating_add(file.compensated_range_deletion_size).min(1 << 50);
        let marked_for_compaction = AtomicBool::new(file.marked_for_compaction);
        Self {
            file,
            handle,
            level: -1,
            compensated_file_size,
            being_compacted: AtomicBool::new(false),
            marked_for_compaction,
            sampled_reads: AtomicU64::new(0),
        }
    }

    /// What belongs to the file wherever it stands.
    pub fn handle(&self) -> &Arc<FileHandle> {
        &self.handle
    }

    /// The level at which a version has the file; -1 outside of versions.
    pub fn level(&self) -> i32 {
        self.level
    }

    pub(crate) fn set_level(&mut self, level: i32) {
        self.level = level;
    }

    /// The id of the column family that has the file.
    pub fn column_family(&self) -> u32 {
        self.handle.identity.column_family
    }

    /// The numbers from the file's properties, once somebody loaded them.
    pub fn stats(&self) -> Option<&FileStats> {
        self.handle.stats()
    }

    /// Bytes that count for compaction: the size, and a surcharge where deletions abound.
    pub fn compensated_file_size(&self) -> u64 {
        self.compensated_file_size
    }

    pub(crate) fn set_compensated_file_size(&mut self, bytes: u64) {
        // Numbers of a file may lie; sizes of many files are added up.
        self.compensated_file_size = bytes.min(1 << 50);
    }

    pub(crate) fn set_epoch_number(&mut self, epoch_number: u64) {
        self.file.epoch_number = epoch_number;
    }

    /// Whether a running compaction has the file among its inputs. Changes under the database mutex.
    pub fn being_compacted(&self) -> bool {
        self.being_compacted.load(Ordering::Relaxed)
    }

    /// Says whether a running compaction has the file. The caller holds the database mutex.
    pub fn set_being_compacted(&self, busy: bool) {
        self.being_compacted.store(busy, Ordering::Relaxed);
    }

    /// Whether somebody asked for the file to be compacted soon.
    pub fn is_marked_for_compaction(&self) -> bool {
        self.marked_for_compaction.load(Ordering::Relaxed)
    }

    /// Asks for the file to be compacted soon. The caller holds the database mutex.
    pub fn mark_for_compaction(&self) {
        self.marked_for_compaction.store(true, Ordering::Relaxed);
    }

    /// Counts a sampled read of the file.
    pub fn count_sampled_read(&self) {
        self.sampled_reads.fetch_add(1, Ordering::Relaxed);
    }

    /// Sampled reads so far.
    pub fn sampled_reads(&self) -> u64 {
        self.sampled_reads.load(Ordering::Relaxed)
    }

    /// The durable description, with the marks that were set since the file was added.
    pub fn to_new_file(&self) -> NewFile {
        NewFile { marked_for_compaction: self.is_marked_for_compaction(), ..self.file.clone() }
    }

    /// When the oldest data was written, in unix seconds: from the MANIFEST, else from the properties if loaded; 0 = unknown.
    pub fn try_oldest_ancester_time(&self) -> u64 {
        match self.file.oldest_ancester_time {
            0 => self.stats().map_or(0, |stats| stats.creation_time),
            time => time,
        }
    }

    /// When the file was written, in unix seconds: from the MANIFEST, else from the properties if loaded; 0 = unknown.
    pub fn try_file_creation_time(&self) -> u64 {
        match self.file.file_creation_time {
            0 => self.stats().map_or(0, |stats| stats.file_creation_time),
            time => time,
        }
    }

    /// Whether the file holds an unknown range of sequence numbers, as LevelDB's files do.
    pub fn has_unknown_sequences(&self) -> bool {
        self.file.smallest_sequence > self.file.largest_sequence
    }
}

impl Deref for FileMetaData {
    type Target = NewFile;

    fn deref(&self) -> &NewFile {
        &self.file
    }
}

impl fmt::Debug for FileMetaData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "#{}({} bytes, {}..{}{})",
            self.number,
            self.file_size,
            self.smallest.user_key().escape_ascii(),
            self.largest.user_key().escape_ascii(),
            if self.being_compacted() { ", busy" } else { "" }
        )
    }
}
