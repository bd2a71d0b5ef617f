//! Events: what a database tells its listeners.
//!
//! The rooms that do the work fill in an info structure and call every listener, on their own thread and without the database
//! mutex. Listeners must return soon. [`Listeners`] are those of one database, in their order.
//!
//! In a quiet database, writing, flushing and compacting tells: memtable sealed, flush begins, table file started, table file
//! created, flush completed; compaction begins, subcompaction begins, table file started and created, subcompaction
//! completed, compaction completed, table file deleted for every input (`docs/behaviour/reports.md`, Order of events).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use firn_env::thread;
use firn_format::compression::CompressionType;
use firn_format::properties::TableProperties;
use firn_format::{Error, option_enum};

pub use crate::compaction::filter::TableCreationReason;
pub use crate::compaction::picker::CompactionReason;
pub use crate::db::error_handler::BackgroundErrorReason;
pub use crate::write::controller::WriteStallCondition;

option_enum! {
    /// Why a memtable is flushed.
    pub enum FlushReason {
        /// None of the others.
        #[default]
        Others = 0 => "Other Reasons",
        /// Someone wants the list of live files.
        GetLiveFiles = 1 => "Get Live Files",
        /// The database closes.
        ShutDown = 2 => "Shut down",
        /// External files overlap the memtable.
        ExternalFileIngestion = 3 => "External File Ingestion",
        /// A manual compaction needs what is in memory.
        ManualCompaction = 4 => "Manual Compaction",
        /// The memtables together are too large.
        WriteBufferManager = 5 => "Write Buffer Manager",
        /// The memtable is full.
        WriteBufferFull = 6 => "Write Buffer Full",
        /// A test.
        Test = 7 => "Test",
        /// Files are deleted by range.
        DeleteFiles = 8 => "Delete Files",
        /// An automatic compaction needs what is in memory.
        AutoCompaction = 9 => "Auto Compaction",
        /// A caller asked for it.
        ManualFlush = 10 => "Manual Flush",
        /// The database recovers from a background error.
        ErrorRecovery = 11 => "Error Recovery",
        /// The same, tried again.
        ErrorRecoveryRetryFlush = 12 => "Error Recovery Retry Flush",
        /// The WALs together are too large.
        WalFull = 13 => "WAL Full",
        /// What came in during a recovery from an error.
        CatchUpAfterErrorRecovery = 14 => "Catch Up After Error Recovery",
        /// The memtable holds too many range tombstones.
        MemtableMaxRangeDeletions = 15 => "Memtable Max Range Deletions",
    }
}

/// A flush that begins or has ended. When it begins the file is not known yet.
#[derive(Clone, Debug, Default)]
pub struct FlushJobInfo {
    /// Number of the column family.
    pub column_family_id: u32,
    /// Name of the column family.
    pub column_family: String,
    /// The table.
    pub file_path: PathBuf,
    /// Its number; 0 when it is not known, and when nothing was left to write.
    pub file_number: u64,
    /// The operating system's id of the thread that works.
    pub thread_id: u64,
    /// The job's number.
    pub job: u64,
    /// Whether level 0 holds so many files that writes are slowed down.
    pub triggered_writes_slowdown: bool,
    /// Whether level 0 holds so many files that writes are stopped.
    pub triggered_writes_stop: bool,
    /// The least sequence number in the table; 0 when the table is not known.
    pub smallest_sequence: u64,
    /// The greatest sequence number in the table; 0 when the table is not known.
    pub largest_sequence: u64,
    /// The table's properties.
    pub table_properties: Option<Arc<TableProperties>>,
    /// Why the memtable is flushed.
    pub reason: FlushReason,
}

/// A flush that a caller asked for and that waits for its turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManualFlushInfo {
    /// Number of the column family.
    pub column_family_id: u32,
    /// Name of the column family.
    pub column_family: String,
    /// Why it is flushed.
    pub reason: FlushReason,
}

/// A memtable that takes no more writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemTableInfo {
    /// Name of the column family.
    pub column_family: String,
    /// The sequence number of its first entry; 0 when it is empty.
    pub first_sequence: u64,
    /// The least sequence number that it could hold.
    pub earliest_sequence: u64,
    /// Entries.
    pub num_entries: u64,
    /// Tombstones among them.
    pub num_deletes: u64,
}

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionJobStats {
    /// Wall time in microseconds.
    pub elapsed_micros: u64,
    /// Processor time in microseconds.
    pub cpu_micros: u64,
    /// Entries read.
    pub num_input_records: u64,
    /// Files read.
    pub num_input_files: u64,
    /// Files read from the output level.
    pub num_input_files_at_output_level: u64,
    /// Entries written.
    pub num_output_records: u64,
    /// Tables written.
    pub num_output_files: u64,
    /// Whether a caller asked for it.
    pub is_manual_compaction: bool,
    /// Bytes read.
    pub total_input_bytes: u64,
    /// Bytes written.
    pub total_output_bytes: u64,
    /// Entries replaced by newer ones.
    pub num_records_replaced: u64,
    /// Bytes of the keys read.
    pub total_input_raw_key_bytes: u64,
    /// Bytes of the values read.
    pub total_input_raw_value_bytes: u64,
    /// Tombstones read.
    pub num_input_deletion_records: u64,
    /// Tombstones that were not needed any more.
    pub num_expired_deletion_records: u64,
    /// Single deletes that met no value.
    pub num_single_del_fallthru: u64,
    /// Single deletes that met something else than a value.
    pub num_single_del_mismatch: u64,
}

/// A table of a compaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompactionFileInfo {
    /// The table.
    pub file_path: PathBuf,
    /// Its level.
    pub level: i32,
    /// Its number.
    pub file_number: u64,
}

/// A compaction that begins or has ended.
#[derive(Clone, Debug, Default)]
pub struct CompactionJobInfo {
    /// Number of the column family.
    pub column_family_id: u32,
    /// Name of the column family.
    pub column_family: String,
    /// Why it failed; none when it did not.
    pub error: Option<Error>,
    /// The operating system's id of the thread that works.
    pub thread_id: u64,
    /// The job's number.
    pub job: u64,
    /// Files on level 0.
    pub num_l0_files: usize,
    /// The level compacted from.
    pub base_input_level: i32,
    /// The level compacted into.
    pub output_level: i32,
    /// The tables read.
    pub input_files: Vec<CompactionFileInfo>,
    /// The tables written; for a trivial move those that moved. Empty when the compaction begins.
    pub output_files: Vec<CompactionFileInfo>,
    /// The properties of the tables written, by path.
    pub table_properties: BTreeMap<PathBuf, Arc<TableProperties>>,
    /// Why it runs.
    pub reason: CompactionReason,
    /// Compression of the outputs.
    pub compression: CompressionType,
    /// What it did.
    pub stats: CompactionJobStats,
}

/// A part of a compaction that begins or has ended. A compaction that is not split has one part.
#[derive(Clone, Debug, Default)]
pub struct SubcompactionJobInfo {
    /// Number of the column family.
    pub column_family_id: u32,
    /// Name of the column family.
    pub column_family: String,
    /// Why the part failed; none when it did not.
    pub error: Option<Error>,
    /// The operating system's id of the thread that works.
    pub thread_id: u64,
    /// The compaction's job number.
    pub job: u64,
    /// The part's number, from 0.
    pub subcompaction_job: u32,
    /// The level compacted from.
    pub base_input_level: i32,
    /// The level compacted into.
    pub output_level: i32,
    /// Why the compaction runs.
    pub reason: CompactionReason,
    /// Compression of the outputs.
    pub compression: CompressionType,
    /// What the part did; zeros when it begins.
    pub stats: CompactionJobStats,
}

/// A table that is about to be created or was created.
#[derive(Clone, Debug, Default)]
pub struct TableFileCreationInfo {
    /// The directory of the database.
    pub db_path: PathBuf,
    /// Name of the column family.
    pub column_family: String,
    /// The table.
    pub file_path: PathBuf,
    /// The job's number.
    pub job: u64,
    /// Why it is created.
    pub reason: TableCreationReason,
    /// Its bytes; 0 before it is there.
    pub file_size: u64,
    /// The checksum of the whole file; empty when there is none.
    pub file_checksum: Vec<u8>,
    /// The function that made the checksum.
    pub file_checksum_func_name: String,
    /// Its properties.
    pub table_properties: Option<Arc<TableProperties>>,
    /// Why it failed; none when it did not.
    pub error: Option<Error>,
}

/// A table that was deleted.
#[derive(Clone, Debug, Default)]
pub struct TableFileDeletionInfo {
    /// The directory of the database.
    pub db_path: PathBuf,
    /// The table.
    pub file_path: PathBuf,
    /// The job's number.
    pub job: u64,
    /// Why it failed; none when it did not.
    pub error: Option<Error>,
}

/// An external file that was added.
#[derive(Clone, Debug, Default)]
pub struct ExternalFileIngestionInfo {
    /// Name of the column family.
    pub column_family: String,
    /// Where it was.
    pub external_file_path: PathBuf,
    /// Where it is.
    pub internal_file_path: PathBuf,
    /// The sequence number of all its entries.
    pub global_sequence: u64,
    /// Its properties.
    pub table_properties: Option<Arc<TableProperties>>,
}

/// A change of how writes go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteStallInfo {
    /// Name of the column family.
    pub column_family: String,
    /// How they go now.
    pub current: WriteStallCondition,
    /// How they went before.
    pub previous: WriteStallCondition,
}

/// What is done to a file; the discriminants are RocksDB's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FileOperation {
    /// A read.
    #[default]
    Read = 0,
    /// A cut.
    Truncate = 2,
    /// The close.
    Close = 3,
    /// A hand-over of the buffer to the system.
    Flush = 4,
    /// A sync of the data.
    Sync = 5,
    /// A sync of data and metadata.
    Fsync = 6,
    /// The start of writing a range back.
    RangeSync = 7,
    /// An append.
    Append = 8,
    /// An open.
    Open = 10,
}

/// An operation on a table, write-ahead log or MANIFEST that has ended.
#[derive(Clone, Debug, Default)]
pub struct FileOperationInfo {
    /// What was done.
    pub operation: FileOperation,
    /// The file.
    pub path: PathBuf,
    /// Where it began, in bytes from the start of the file.
    pub offset: u64,
    /// Bytes read, written or kept.
    pub length: u64,
    /// When it began, in microseconds since 1970.
    pub start_micros: u64,
    /// How long it took, in nanoseconds.
    pub duration_nanos: u64,
    /// Why it failed; none when it did not.
    pub error: Option<Error>,
}

/// The end of a recovery from a background error.
#[derive(Clone, Debug)]
pub struct ErrorRecoveryInfo {
    /// The error that the database recovered from.
    pub old_error: Error,
    /// What is left of it; none when writes go on.
    pub new_error: Option<Error>,
}

/// Something that wants to know what a database does. Every method does nothing unless it is implemented.
///
/// Methods are called on the thread that does the work, without the database mutex; they must return soon. A panic in a method
/// that tells of a flush, a compaction, or a table that one of them makes, is a fatal background error; everywhere else it ends
/// nothing but the call.
///
/// What they may not do is wait for the work that they are told of: a flush for that flush, a compaction for that compaction.
/// [`on_memtable_sealed`](Self::on_memtable_sealed) and
/// [`on_stall_conditions_changed`](Self::on_stall_conditions_changed), moreover, may run at the head of the write queue: a write,
/// a flush, or a change of options from there waits for itself. Reading is always allowed, and so is dropping a handle, even the last one.
pub trait EventListener: Send + Sync {
    /// The name under which OPTIONS files list the listener; those without are not listed.
    fn name(&self) -> &str {
        ""
    }

    /// A flush begins.
    fn on_flush_begin(&self, info: &FlushJobInfo) {
        let _ = info;
    }

    /// A flush has ended well.
    fn on_flush_completed(&self, info: &FlushJobInfo) {
        let _ = info;
    }

    /// A caller asked for flushes, which are queued now.
    fn on_manual_flush_scheduled(&self, flushes: &[ManualFlushInfo]) {
        let _ = flushes;
    }

    /// A memtable takes no more writes.
    fn on_memtable_sealed(&self, info: &MemTableInfo) {
        let _ = info;
    }

    /// A compaction begins.
    fn on_compaction_begin(&self, info: &CompactionJobInfo) {
        let _ = info;
    }

    /// A compaction has written its outputs; no reader sees them yet.
    fn on_compaction_pre_commit(&self, info: &CompactionJobInfo) {
        let _ = info;
    }

    /// A compaction has ended, well or not.
    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        let _ = info;
    }

    /// A part of a compaction begins.
    fn on_subcompaction_begin(&self, info: &SubcompactionJobInfo) {
        let _ = info;
    }

    /// A part of a compaction has ended, well or not.
    fn on_subcompaction_completed(&self, info: &SubcompactionJobInfo) {
        let _ = info;
    }

    /// A table is about to be created.
    fn on_table_file_creation_started(&self, info: &TableFileCreationInfo) {
        let _ = info;
    }

    /// A table was created, or failed to be.
    fn on_table_file_created(&self, info: &TableFileCreationInfo) {
        let _ = info;
    }

    /// A table was deleted, or failed to be.
    fn on_table_file_deleted(&self, info: &TableFileDeletionInfo) {
        let _ = info;
    }

    /// The last clone of a handle to this column family is about to go. The default handle goes with the database.
    fn on_column_family_handle_deletion_started(&self, column_family: &str, id: u32) {
        let _ = (column_family, id);
    }

    /// An external file was added.
    fn on_external_file_ingested(&self, info: &ExternalFileIngestionInfo) {
        let _ = info;
    }

    /// Something in the background, or a write to the WAL, failed.
    ///
    /// The listener may replace the error or take it away, and then nothing stops; for errors that are
    /// [retryable](Error::is_retryable), and for those of the WAL, that has no effect. The error carries the severity that it is about to have, and
    /// none when it is retryable.
    fn on_background_error(&self, reason: BackgroundErrorReason, error: &mut Option<Error>) {
        let _ = (reason, error);
    }

    /// The database is about to recover from an error by itself. The answer `false` forbids it, but for
    /// [retryable](Error::is_retryable) errors.
    fn on_error_recovery_begin(&self, reason: BackgroundErrorReason, error: &Error) -> bool {
        let _ = (reason, error);
        true
    }

    /// A recovery from an error, by itself or by [`Db::resume`](crate::Db::resume), has ended, well or not.
    fn on_error_recovery_end(&self, info: &ErrorRecoveryInfo) {
        let _ = info;
    }

    /// Whether [`on_file_operation_finished`](Self::on_file_operation_finished) and [`on_io_error`](Self::on_io_error)
    /// are wanted. Asked once, when the database opens.
    fn should_be_notified_on_file_io(&self) -> bool {
        false
    }

    /// An operation on a table, write-ahead log or MANIFEST has ended, well or not.
    ///
    /// Called under whatever locks the operation runs under: the listener must not call the database.
    fn on_file_operation_finished(&self, info: &FileOperationInfo) {
        let _ = info;
    }

    /// An operation on a table, write-ahead log or MANIFEST failed; called after
    /// [`on_file_operation_finished`](Self::on_file_operation_finished) and under the same rule.
    fn on_io_error(&self, info: &FileOperationInfo) {
        let _ = info;
    }

    /// Writes to a column family go differently from now on.
    fn on_stall_conditions_changed(&self, info: &WriteStallInfo) {
        let _ = info;
    }

    /// The database closes.
    fn on_db_shutdown_begin(&self) {}
}

/// The listeners of one database. Cheap to clone.
#[derive(Clone, Default)]
pub struct Listeners(Arc<[Arc<dyn EventListener>]>);

impl Listeners {
    /// These listeners, told in this order.
    pub fn new(listeners: &[Arc<dyn EventListener>]) -> Self {
        Self(listeners.into())
    }

    /// Whether nobody listens: then nothing needs to be collected.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Calls every listener. The caller holds no lock, and turns a panic into the error of the job that it is part of.
    pub fn tell(&self, mut call: impl FnMut(&dyn EventListener)) {
        self.0.iter().for_each(|listener| call(&**listener));
    }

    /// Calls every listener, where nothing may fail for what a listener does: a panic, which the panic hook has reported, ends
    /// the call that it comes from.
    pub fn tell_calmly(&self, mut call: impl FnMut(&dyn EventListener)) {
        for listener in &*self.0 {
            let call = || {
                call(&**listener);
                Ok(())
            };
            let _ = thread::catch_panic("a listener", call);
        }
    }

    /// Those that want to hear of operations on files.
    #[must_use]
    pub fn of_file_io(&self) -> Self {
        Self(self.0.iter().filter(|listener| listener.should_be_notified_on_file_io()).map(Arc::clone).collect())
    }
}

impl std::fmt::Debug for Listeners {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|listener| listener.name())).finish()
    }
}
