//! The running database: its shared state and how its rooms work together.
//!
//! Calls of users flow in through the handles ([`handle`]), writes go through [`write`], reads through [`read`] and
//! [`cursor`]; [`background`] runs flushes and compactions; [`open`] and [`recovery`] bring it all up, [`files`] cleans up.
//!
//! **Locks**, in the order in which they may be taken: leadership of the write queue, the return of WALs
//! ([`DbInner::purging`]), the log ([`DbInner::log`]), the
//! database mutex ([`DbInner::state`]), then the small ones (registry of column families, snapshot list, options), which
//! never enclose another. Under the database mutex nothing slow happens: no I/O, no compression, no user callback. Readers
//! take none of them.
//!
//! Always true here: what is visible ([`DbInner::visible`]) is in the memtables; the memtable of a family is replaced only
//! by whoever leads the write queue; a table is deleted only when no version has it and no job is writing it.

pub(crate) mod background;
pub(crate) mod checkpoint;
pub(crate) mod column_family;
pub(crate) mod compact;
pub(crate) mod cursor;
pub(crate) mod error_handler;
pub(crate) mod file_events;
pub(crate) mod files;
pub(crate) mod flush;
mod flush_group;
pub(crate) mod handle;
pub(crate) mod ingest;
pub(crate) mod insert;
pub(crate) mod layout;
pub(crate) mod live_files;
pub(crate) mod log_ahead;
pub(crate) mod manage;
pub(crate) mod open;
mod pace;
pub(crate) mod periodic;
pub(crate) mod properties;
pub(crate) mod read;
pub(crate) mod recovery;
pub(crate) mod report;
pub(crate) mod resume;
pub(crate) mod scrub;
pub(crate) mod snapshot;
mod streams;
pub(crate) mod super_version;
pub(crate) mod tables;
pub(crate) mod workers;
pub(crate) mod write;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use firn_env::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use firn_env::sync::{Condvar, Mutex, RwLock};
use firn_env::{Env, FileLock, Logger, RateLimiter, SstFileManager};
use firn_error::{Error, Result};
use firn_format::key::{FileNumber, SequenceNumber};

use crate::compaction::picker::CompactionPlan;
use crate::options::DbOptions;
use crate::stats::history::StatsHistory;
use crate::stats::{Listeners, Statistics};
use crate::version::{HoldsVersions, ObsoleteFiles, VersionSet};
use crate::write::controller::WriteController;
use crate::write::group::WriteThread;

use column_family::{ColumnFamilyData, FamilyRegistry, FamilyState};
use error_handler::ErrorHandler;
use flush::FlushRequest;
use layout::{DirectoryHandles, Layout};
use log_ahead::LogAhead;
use snapshot::{Snapshot, SnapshotList, SnapshotReleased};
use tables::Tables;
use workers::{Failures, Workers};
use write::LogState;

pub use files::LiveFile;
pub use properties::SizeApproximation;

/// Reasons for the leader of a write to look closer before it writes; bits of [`DbInner::attention`].
pub(crate) mod attention {
    /// A background error may stop writes, or the database is closing.
    pub(crate) const STOPPED: u32 = 1;
    /// Some memtable is full.
    pub(crate) const MEMTABLE_FULL: u32 = 2;
    /// Writes are delayed or stopped because flushes or compactions are behind.
    pub(crate) const STALL: u32 = 4;
    /// The WALs together are larger than they may be.
    pub(crate) const WAL_FULL: u32 = 8;
    /// The memtables together are larger than they may be.
    pub(crate) const MEMORY_FULL: u32 = 16;
    /// A flush may set the pace of writers; see `pace`.
    pub(crate) const PACED: u32 = 32;
}

/// One running database, shared by its handles and background jobs.
pub(crate) struct DbInner {
    pub(crate) this: Weak<Self>,
    /// Tells this database from others in the process.
    pub(crate) instance: u64,
    pub(crate) path: PathBuf,
    pub(crate) layout: Layout,
    pub(crate) env: Env,
    pub(crate) read_only: bool,
    pub(crate) db_id: String,
    pub(crate) session_id: String,
    pub(crate) options: RwLock<Arc<DbOptions>>,
    pub(crate) logger: RwLock<Arc<dyn Logger>>,
    pub(crate) directories: RwLock<Option<DirectoryHandles>>,
    /// The open table files.
    pub(crate) tables: Arc<Tables>,
    /// The column families by name.
    pub(crate) families: FamilyRegistry,
    pub(crate) snapshots: Arc<SnapshotList>,
    /// Held while WALs are closed and given back for reuse.
    pub(crate) purging: Mutex<()>,
    /// Where tables arrive that no version has any more.
    pub(crate) obsolete: Arc<ObsoleteFiles>,
    /// The newest sequence number that readers may see.
    pub(crate) visible: Arc<AtomicU64>,
    /// The queue of writers.
    pub(crate) writers: WriteThread,
    /// The WAL; its lock is taken by whoever leads the write queue, and by syncs.
    pub(crate) log: Mutex<LogState>,
    /// Space of the current WAL that a flush will reserve.
    pub(crate) log_ahead: LogAhead,
    /// Bits of [`attention`].
    pub(crate) attention: AtomicU32,
    /// Bytes written beside a flush since a leader last looked whether it is ahead of it.
    pub(crate) unlooked_bytes: AtomicU64,
    /// Everything that changes rarely.
    pub(crate) state: Mutex<DbState>,
    /// Signalled whenever background work ends or something that a waiter may wait for changes.
    pub(crate) background: Condvar,
    /// Signalled when periodic work has to look at the options again, or to end.
    pub(crate) periodic: Condvar,
    /// What the tickers did in the recent past.
    pub(crate) stats_history: Mutex<StatsHistory>,
    pub(crate) opened: AtomicBool,
    /// Whether a write since the open went without WAL.
    pub(crate) has_unlogged_data: AtomicBool,
    pub(crate) closing: AtomicBool,
    /// The threads that work for this database now.
    pub(crate) workers: Workers,
    pub(crate) lock: Mutex<Option<Box<dyn FileLock>>>,
    pub(crate) statistics: Option<Arc<Statistics>>,
    /// Who is told what happens.
    pub(crate) listeners: Listeners,
    /// Knows the tables and deletes them.
    pub(crate) file_manager: Arc<SstFileManager>,
    /// Limits background input and output, and that of calls which ask for it.
    pub(crate) rate_limiter: Option<Arc<dyn RateLimiter>>,
}

/// A WAL that may hold data which no table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LiveWal {
    pub(crate) number: FileNumber,
    /// Bytes of its records; of the current WAL as of the last switch.
    pub(crate) size_bytes: u64,
}

/// What the database mutex guards.
pub(crate) struct DbState {
    pub(crate) versions: VersionSet,
    pub(crate) families: BTreeMap<u32, FamilyState>,
    pub(crate) errors: ErrorHandler,
    pub(crate) controller: Arc<WriteController>,
    /// WALs that are not obsolete yet, ascending; the last one is current.
    pub(crate) live_wals: VecDeque<LiveWal>,
    /// Obsolete WALs whose files are used again.
    pub(crate) recycled_wals: VecDeque<FileNumber>,
    /// The first WAL of this run. Older ones are never used again: they may be of the format without WAL numbers in their
    /// records, whose left-overs a reader would take for records of the new WAL.
    pub(crate) first_own_wal: FileNumber,
    /// The oldest WAL with a prepared transaction that is neither committed nor rolled back.
    pub(crate) oldest_prepared_wal: Option<FileNumber>,
    /// Numbers of files that jobs are writing; they are not garbage although no version has them.
    pub(crate) pending_outputs: BTreeSet<FileNumber>,
    pub(crate) flush_queue: VecDeque<FlushRequest>,
    pub(crate) flushes_scheduled: usize,
    pub(crate) flushes_running: usize,
    pub(crate) compaction_queue: VecDeque<u32>,
    pub(crate) compactions_scheduled: usize,
    pub(crate) compactions_running: usize,
    /// Plans that are being carried out.
    pub(crate) running: Vec<Arc<CompactionPlan>>,
    /// The oldest snapshot when one was last released (the visible sequence if none was left): only then may files of the
    /// bottommost level have become worth rewriting.
    pub(crate) oldest_snapshot_at_release: SequenceNumber,
    /// Background errors so far.
    pub(crate) background_errors: u64,
    /// Threads of the database that have not ended: periodic work, and the recovery from a background error.
    pub(crate) own_threads: usize,
    /// How often background work was paused.
    pub(crate) paused: u32,
    /// How many manual compactions want to be alone.
    pub(crate) exclusive_manual: u32,
    /// How often file deletions were switched off.
    pub(crate) deletions_disabled: u32,
    /// How many removals of files are at work.
    pub(crate) removals_running: u32,
    /// Counts jobs, for the info log.
    pub(crate) next_job_id: u64,
    /// Counts finished flushes and compactions, so that waiters notice progress.
    pub(crate) finished_jobs: u64,
    /// Jobs that failed without a background error.
    pub(crate) failed_jobs: Failures,
}

impl DbState {
    pub(crate) fn new(
        versions: VersionSet,
        families: BTreeMap<u32, FamilyState>,
        controller: Arc<WriteController>,
    ) -> Self {
        Self {
            versions,
            families,
            errors: ErrorHandler::default(),
            controller,
            live_wals: VecDeque::new(),
            recycled_wals: VecDeque::new(),
            first_own_wal: FileNumber(u64::MAX),
            oldest_prepared_wal: None,
            pending_outputs: BTreeSet::new(),
            flush_queue: VecDeque::new(),
            flushes_scheduled: 0,
            flushes_running: 0,
            compaction_queue: VecDeque::new(),
            compactions_scheduled: 0,
            compactions_running: 0,
            running: Vec::new(),
            oldest_snapshot_at_release: SequenceNumber::ZERO,
            background_errors: 0,
            own_threads: 0,
            paused: 0,
            exclusive_manual: 0,
            deletions_disabled: 0,
            removals_running: 0,
            next_job_id: 1,
            finished_jobs: 0,
            failed_jobs: Failures::default(),
        }
    }

    /// A number for a new table, protected from the cleaner until [`release_outputs`](Self::release_outputs).
    pub(crate) fn new_output(&mut self) -> FileNumber {
        let number = self.versions.new_file_number();
        self.pending_outputs.insert(number);
        number
    }

    /// The tables are in a version now, or are garbage.
    pub(crate) fn release_outputs(&mut self, numbers: &[FileNumber]) {
        for number in numbers {
            self.pending_outputs.remove(number);
        }
    }

    /// The number of the next job, for the info log.
    pub(crate) fn new_job_id(&mut self) -> u64 {
        let id = self.next_job_id;
        self.next_job_id += 1;
        id
    }
}

impl HoldsVersions for DbState {
    fn versions(&mut self) -> &mut VersionSet {
        &mut self.versions
    }
}

impl DbInner {
    /// The options in force.
    pub(crate) fn options(&self) -> Arc<DbOptions> {
        Arc::clone(&self.options.read())
    }

    /// The info log.
    pub(crate) fn logger(&self) -> Arc<dyn Logger> {
        Arc::clone(&self.logger.read())
    }

    /// The newest sequence number that readers may see.
    pub(crate) fn visible_sequence(&self) -> SequenceNumber {
        SequenceNumber(self.visible.load(Ordering::Acquire))
    }

    /// The handles for syncing directories.
    ///
    /// # Errors
    /// `NotSupported` when the database is open for reading only.
    pub(crate) fn directories(&self) -> Result<DirectoryHandles> {
        self.directories.read().clone().ok_or_else(read_only_error)
    }

    /// Refuses changes of a database that is closing or open for reading only.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.read_only {
            return Err(read_only_error());
        }
        self.check_open()
    }

    /// Refuses calls on a database that is closing.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closing.load(Ordering::Acquire) {
            return Err(Error::shutdown_in_progress("the database is closed"));
        }
        Ok(())
    }

    /// Replaces the info log.
    pub(crate) fn set_logger(&self, logger: Arc<dyn Logger>) {
        *self.logger.write() = logger;
    }

    /// Keeps the handles for syncing directories.
    pub(crate) fn set_directories(&self, directories: DirectoryHandles) {
        *self.directories.write() = Some(directories);
    }

    /// Raises bits of [`attention`].
    pub(crate) fn raise(&self, bits: u32) {
        self.attention.fetch_or(bits, Ordering::AcqRel);
    }

    /// The family called `name`.
    pub(crate) fn column_family(&self, name: &str) -> Option<Arc<ColumnFamilyData>> {
        self.families.by_name(name)
    }

    /// All families by ascending id.
    pub(crate) fn column_families(&self) -> Vec<Arc<ColumnFamilyData>> {
        self.families.all()
    }

    /// Takes a snapshot of what is visible now.
    pub(crate) fn take_snapshot(&self) -> Snapshot {
        let released: Weak<dyn SnapshotReleased> = Weak::<Self>::clone(&self.this);
        self.snapshots.take(|| self.visible_sequence(), self.env.clock().now_secs(), released)
    }

    /// The statistics object, when the options have one.
    pub(crate) fn statistics(&self) -> Option<Arc<Statistics>> {
        self.statistics.clone()
    }
}

fn read_only_error() -> Error {
    Error::not_supported("Not supported operation in read only mode.")
}
