//! The write path: from a batch to the WAL, the memtables and visibility.
//!
//! A batch joins the write queue; whoever leads the queue carries a whole group through the steps of
//! [`GroupExecutor`]: look at what asks for attention (full memtables, stalls, errors), append one record to the WAL, insert,
//! publish. Memtables are switched here and nowhere else, because only a leader is alone with them.
//!
//! Order of durability: a record is in the WAL (and synced, when asked) before it is in a memtable, and in the memtables
//! before it is visible. With `sync`, WALs that were closed before and not yet synced are synced first, oldest first, and
//! the directory once per new WAL, so that no synced write survives a power failure without those before it.

use std::cell::{Cell, OnceCell};
use std::sync::Arc;

use firn_env::sync::MutexGuard;
use firn_env::sync::atomic::Ordering;
use firn_env::{FileOptions, IoKind, IoPriority, log_info, thread};
use firn_error::{Error, ErrorKind, Result};
use firn_format::batch::BatchIter;
use firn_format::compression::CompressionType;
use firn_format::key::{FileNumber, SequenceNumber};
use firn_format::log::LogCompression;
use firn_format::version_edit::{VersionEdit, WalAddition};

use super::column_family::ColumnFamilyData;
use super::error_handler::BackgroundErrorReason;
use super::flush::{FlushReason, FlushRequest};
use super::insert::{Target, Targets, insert_records};
use super::report::Retired;
use super::{DbInner, DbState, LiveWal, attention};
use crate::memtable::MemTable;
use crate::options::{DbOptions, FlushOptions, WriteOptions};
use crate::stats::{DbStats, HistogramKind, StopWatch, Ticker, record_tick};
use crate::version::VersionSet;
use crate::write::group::{GroupExecutor, Insertion, Leadership, LoggedGroup, WriteFlags, WriteGroup};
use crate::write::wal::{WalFormat, WalWriter};
use crate::write::{ContentFlags, WriteBatch};

/// How long a leader that must slow down sleeps before it looks again.
const STALL_STEP_MICROS: u64 = 1001;
/// How long a leader that is ahead of a flush sleeps before it looks again. Short sleeps would be felt by more than one write
/// in a thousand.
const PACE_STEP_MICROS: u64 = 2000;
/// A leader looks whether it is ahead of a flush once so many bytes were written.
const PACE_LOOK_BYTES: u64 = 16 << 10;

/// The WAL and what inserts need; owned by whoever leads the write queue.
#[derive(Default)]
pub(crate) struct LogState {
    /// The current WAL; none in a database that is read-only or closed.
    writer: Option<WalWriter>,
    /// WALs that are full but not yet synced, oldest first.
    unsynced: Vec<WalWriter>,
    /// Whether the current WAL's name was made durable.
    directory_synced: bool,
    /// Where records go.
    targets: Arc<Targets>,
    /// Bytes of all WALs that are needed.
    total_bytes: u64,
    /// At which that is too much.
    max_total_bytes: u64,
    /// The oldest of them.
    oldest_wal: FileNumber,
    /// The newest WAL that flushes were asked to make obsolete because all together are too large. As long as they run,
    /// asking again would only flush the little that was written since.
    asked_wal: FileNumber,
    /// What all memtables together may take (`db_write_buffer_size`), in bytes; 0 is no limit.
    memory_limit: usize,
    /// Whether records stay in the buffer until somebody asks (`manual_wal_flush`).
    manual_flush: bool,
    /// Whether followers may insert their own batches (`allow_concurrent_memtable_write`).
    parallel_inserts: bool,
    /// What writers did; here because whoever holds the log may count without further ado.
    pub(crate) stats: DbStats,
}

impl LogState {
    /// Whether the memtables that take inserts have outgrown what all may take together. Small ones hold more reserved
    /// than used memory: flushing those would win nothing and go on for ever.
    fn is_memory_full(&self) -> bool {
        let sum = |bytes: fn(&MemTable) -> u64| self.targets.iter().map(|target| bytes(&target.mem)).sum::<u64>();
        let limit = self.memory_limit as u64;
        limit > 0 && sum(MemTable::data_bytes) > limit / 4 && sum(|mem| mem.memory_bytes() as u64) > limit / 8 * 7
    }

    /// WALs that are open, oldest first, the current one last; their files may still change.
    pub(crate) fn open_wals(&self) -> impl Iterator<Item = &WalWriter> {
        self.unsynced.iter().chain(&self.writer)
    }

    /// Hands what the current WAL buffers to the operating system.
    ///
    /// # Errors
    /// `IoError` naming the file.
    pub(crate) fn flush_current(&mut self) -> Result<()> {
        self.writer.as_mut().map_or(Ok(()), WalWriter::flush)
    }

    /// The number of the current WAL.
    pub(crate) fn current_number(&self) -> FileNumber {
        self.writer.as_ref().map_or(FileNumber(0), WalWriter::number)
    }
}

/// Carries out the steps of a group.
struct Executor<'a> {
    db: &'a DbInner,
    /// Where records go, known once this writer has led its group through the log; members that insert their own batches
    /// look it up.
    targets: OnceCell<Arc<Targets>>,
}

thread_local! {
    /// A batch per thread for writes of single records, so that they allocate nothing.
    static SCRATCH: Cell<Option<WriteBatch>> = const { Cell::new(None) };
}

/// Scratch batches larger than this are not kept.
const MAX_KEPT_SCRATCH_BYTES: usize = 1 << 20;

/// Runs `write` with an empty batch that is reused.
pub(crate) fn with_scratch_batch<R>(write: impl FnOnce(&mut WriteBatch) -> R) -> R {
    let mut batch = SCRATCH.take().unwrap_or_default();
    let result = write(&mut batch);
    if batch.data_size() <= MAX_KEPT_SCRATCH_BYTES && batch.protection_bytes_per_key() == 0 {
        batch.clear();
        SCRATCH.set(Some(batch));
    }
    result
}

impl DbInner {
    /// Applies a batch; see [`Db::write_opt`](crate::Db::write_opt).
    ///
    /// # Errors
    /// Those of the documented checks, of the WAL and of the background error in force.
    #[inline]
    pub(crate) fn write(&self, options: &WriteOptions, batch: &mut WriteBatch) -> Result<()> {
        self.check_writable()?;
        self.check_options(options)?;
        if options.protection_bytes_per_key > 0 {
            batch.protect()?;
        }
        self.check_records(options, batch)?;
        self.write_checked(options, batch)
    }

    /// Writes one record into a family that exists, which needs few checks.
    #[inline]
    pub(crate) fn write_one(&self, options: &WriteOptions, data: &ColumnFamilyData, batch: &WriteBatch) -> Result<()> {
        const PLAIN: ContentFlags = ContentFlags::PUT.with(ContentFlags::DELETE).with(ContentFlags::SINGLE_DELETE);
        self.check_writable()?;
        if let Err(error) = data.check_takes_writes()
            && !(options.ignore_missing_column_families && data.is_dropped())
        {
            return Err(error);
        }
        self.check_options(options)?;
        if !PLAIN.contains(batch.flags()) {
            self.check_records(options, batch)?;
        }
        self.write_checked(options, batch)
    }

    #[inline]
    fn write_checked(&self, options: &WriteOptions, batch: &WriteBatch) -> Result<()> {
        let flags =
            WriteFlags { sync: options.sync, disable_wal: options.disable_wal, no_slowdown: options.no_slowdown };
        let _watch = StopWatch::start(self.statistics.as_ref(), &**self.env.clock(), HistogramKind::DbWriteMicros);
        if options.rate_limiter_priority != IoPriority::Unlimited
            && let Some(limiter) = &self.rate_limiter
        {
            limiter.request(batch.data_size() as u64, options.rate_limiter_priority, IoKind::Write);
        }
        self.writers.write(batch, flags, &Executor { db: self, targets: OnceCell::new() })
    }

    /// The checks of the options of a write (`docs/behaviour/reads-and-writes.md`, Writing), before it queues up.
    #[inline]
    fn check_options(&self, options: &WriteOptions) -> Result<()> {
        if !options.disable_wal
            && !options.low_pri
            && options.protection_bytes_per_key == 0
            && options.rate_limiter_priority == IoPriority::Unlimited
        {
            return Ok(());
        }
        self.check_unusual_options(options)
    }

    #[cold]
    fn check_unusual_options(&self, options: &WriteOptions) -> Result<()> {
        if !matches!(options.protection_bytes_per_key, 0 | 8) {
            return Err(Error::invalid_argument("`WriteOptions::protection_bytes_per_key` must be zero or eight"));
        }
        match options.rate_limiter_priority {
            IoPriority::Unlimited => {}
            IoPriority::User if options.disable_wal || self.options().manual_wal_flush => {
                return Err(Error::invalid_argument(
                    "WriteOptions::rate_limiter_priority currently only supports rate-limiting automatic WAL flush, \
                     which requires `WriteOptions::disableWAL` and `DBOptions::manual_wal_flush` both set to false",
                ));
            }
            IoPriority::User => {}
            _ => {
                return Err(Error::invalid_argument(
                    "WriteOptions::rate_limiter_priority only allows Env::IO_TOTAL and Env::IO_USER due to \
                     implementation constraints",
                ));
            }
        }
        if options.disable_wal && self.options().recycle_log_file_num > 0 {
            return Err(Error::invalid_argument(
                "WriteOptions::disableWAL option is not supported if DBOptions::recycle_log_file_num > 0",
            ));
        }
        if options.sync && options.disable_wal {
            return Err(Error::invalid_argument("Sync writes has to enable WAL."));
        }
        if options.low_pri && options.no_slowdown && self.attention.load(Ordering::Acquire) & attention::STALL != 0 {
            return Err(Error::incomplete("Low priority write stall"));
        }
        Ok(())
    }

    /// Refuses what the memtables would refuse, before it is in the WAL: a record there must be insertable.
    fn check_records(&self, options: &WriteOptions, batch: &WriteBatch) -> Result<()> {
        use firn_format::batch::Record;
        if batch.owner() != 0 && batch.owner() != self.instance {
            return Err(Error::invalid_argument("the batch has records for a column family of another database"));
        }
        // However many there are, a batch costs the same.
        let families = self.families.sorted();
        let family = |id: u32| families.binary_search_by_key(&id, |data| data.id).ok().and_then(|at| families.get(at));
        for record in batch.records() {
            let id = match record? {
                Record::Merge { cf, .. } => {
                    if family(cf).is_some_and(|data| data.options().merge_operator.is_none()) {
                        return Err(Error::not_supported("Provide a merge_operator when opening DB"));
                    }
                    cf
                }
                Record::DeleteRange { cf, begin, end } => {
                    let backwards = family(cf)
                        .is_some_and(|data| data.comparator.compare_user(begin, end) == std::cmp::Ordering::Greater);
                    if backwards {
                        return Err(Error::invalid_argument("end key comes before start key"));
                    }
                    cf
                }
                Record::Put { cf, .. } | Record::Delete { cf, .. } | Record::SingleDelete { cf, .. } => cf,
                Record::LogData(_) | Record::Noop => continue,
                other => {
                    return Err(Error::not_supported(format!("write batch records of this kind: {other:?}")));
                }
            };
            match family(id) {
                Some(data) => data.check_takes_writes()?,
                None if options.ignore_missing_column_families => {}
                None => return Err(Error::invalid_argument("Invalid column family specified in write batch")),
            }
        }
        Ok(())
    }

    /// Makes the first WAL of this run current, and what the replay left in memory a target of inserts.
    ///
    /// # Errors
    /// `IoError` naming the file.
    pub(crate) fn start_first_wal(&self, state: &mut MutexGuard<'_, DbState>, first_batches: &[&[u8]]) -> Result<()> {
        let number = state.versions.new_file_number();
        let mut writer = self.create_wal(number, None)?;
        if !first_batches.is_empty() {
            // Durable before the MANIFEST forgets the old WALs: the next recovery resumes here, or finds here what was
            // prepared in them.
            for batch in first_batches {
                writer.append_batch(batch)?;
            }
            writer.sync(self.options().use_fsync)?;
        }
        state.first_own_wal = number;
        state.live_wals.push_back(LiveWal { number, size_bytes: 0 });
        let mut log = self.log.lock();
        log.writer = Some(writer);
        log.directory_synced = false;
        log.stats = DbStats::new(self.env.clock().now_micros());
        self.refresh_log(&mut log, state);
        Ok(())
    }

    /// A new WAL, in the file of an obsolete one where there is one to recycle.
    fn create_wal(&self, number: FileNumber, recycled: Option<FileNumber>) -> Result<WalWriter> {
        let options = self.options();
        let fs = self.env.fs();
        let path = self.layout.wal(number);
        let file_options = wal_file_options(&options, self.wal_block_bytes(&options));
        let file = match recycled {
            Some(old) => fs.reuse_writable_file(&path, &self.layout.wal(old), &file_options)?,
            None => fs.new_writable_file(&path, &file_options)?,
        };
        let compression = match options.wal_compression {
            CompressionType::Zstd => LogCompression::Zstd,
            _ => LogCompression::None,
        };
        WalWriter::new(file, WalFormat { number, recyclable: options.recycle_log_file_num > 0, compression })
    }

    /// In what steps the space of a WAL is reserved (`docs/behaviour/reads-and-writes.md`, Switching).
    fn wal_block_bytes(&self, options: &DbOptions) -> u64 {
        let largest = self.families.all().iter().map(|data| data.options().write_buffer_size).max().unwrap_or(64 << 20);
        let mut bytes = largest as u64 + largest as u64 / 10;
        for limit in [options.max_total_wal_size, options.db_write_buffer_size as u64] {
            if limit > 0 {
                bytes = bytes.min(limit);
            }
        }
        bytes
    }

    /// Tells the log where inserts go and how large the WALs may be, after memtables or families changed. The caller
    /// leads the write queue, or nobody writes yet.
    pub(crate) fn refresh_log(&self, log: &mut LogState, state: &DbState) {
        let target = |family: &super::column_family::FamilyState| Target {
            data: Arc::clone(&family.data),
            mem: Arc::clone(&family.mem),
            can_merge: family.data.options().merge_operator.is_some(),
            max_successive_merges: family.data.options().max_successive_merges,
            skip: false,
        };
        log.targets = Arc::new(Targets::new(state.families.values().map(target).collect()));
        let options = self.options();
        log.manual_flush = options.manual_wal_flush;
        log.memory_limit = options.db_write_buffer_size;
        log.parallel_inserts = options.allow_concurrent_memtable_write;
        log.max_total_bytes = if state.families.len() < 2 {
            u64::MAX
        } else if options.max_total_wal_size > 0 {
            options.max_total_wal_size
        } else {
            let budget = |family: &super::column_family::FamilyState| {
                let options = family.data.options();
                options.write_buffer_size as u64 * u64::try_from(options.max_write_buffer_number).unwrap_or(1)
            };
            4 * state.families.values().map(budget).sum::<u64>()
        };
        self.measure_wals(log, state);
    }

    /// Tells the log how much all WALs hold, and whether a flush will make the oldest go.
    pub(crate) fn measure_wals(&self, log: &mut LogState, state: &DbState) {
        let closed: u64 = state.live_wals.iter().map(|wal| wal.size_bytes).sum();
        log.total_bytes = closed + log.writer.as_ref().map_or(0, WalWriter::size_bytes);
        log.oldest_wal = state.live_wals.front().map_or(FileNumber(0), |wal| wal.number);
        if state.families.values().all(|family| family.imm.is_empty()) {
            log.asked_wal = FileNumber(0);
        }
    }

    /// Waits for the front of the write queue and runs `change` with the log and the database state.
    ///
    /// # Errors
    /// What `change` returns.
    pub(crate) fn alone<R>(
        &self,
        change: impl FnOnce(&mut LogState, &mut MutexGuard<'_, DbState>) -> Result<R>,
    ) -> Result<R> {
        let _front = self.writers.enter_exclusive();
        let mut log = self.log.lock();
        let mut state = self.state.lock();
        change(&mut log, &mut state)
    }

    /// Freezes the memtables of the families that have data, and makes a new WAL unless the current one is empty. The
    /// caller leads the write queue. Returns the families whose memtables were switched.
    ///
    /// # Errors
    /// `IoError` when the new WAL cannot be made; nothing is switched then.
    pub(crate) fn switch_memtables(
        &self,
        log: &mut LogState,
        state: &mut MutexGuard<'_, DbState>,
        families: &[u32],
    ) -> Result<Vec<u32>> {
        let has_data = |id: &&u32| state.families.get(*id).is_some_and(|f| !f.mem.is_empty() && !f.data.is_dropped());
        let switched: Vec<u32> = families.iter().filter(has_data).copied().collect();
        if switched.is_empty() {
            return Ok(switched);
        }
        if log.writer.as_ref().is_some_and(|writer| !writer.is_empty()) {
            self.switch_wal(log, state)?;
        }
        let wal = log.current_number();
        let earliest = self.visible_sequence();
        let mut retired = Retired::default();
        for id in &switched {
            if let Some(family) = state.families.get_mut(id) {
                family.switch_memtable(earliest, wal.get());
            }
            retired.absorb(self.install_super_version(state, *id));
        }
        // What has nothing in memory needs no older WAL. In memory only, and for the least number that the next flush records.
        let empty: Vec<u32> = state.families.values().filter(|f| f.is_empty()).map(|f| f.data.id).collect();
        for id in empty {
            state.versions.raise_log_number(id, wal);
        }
        self.refresh_log(log, state);
        self.report_sealed(state, &switched);
        MutexGuard::unlocked(state, || drop(retired));
        Ok(switched)
    }

    /// Makes sure that no WAL that failed gets another record, and forgets those that cannot be synced any more. The
    /// caller flushes all that is in memory before it lets anybody write again.
    ///
    /// # Errors
    /// `IoError` when a new WAL cannot be made.
    pub(crate) fn replace_broken_wals(&self, log: &mut LogState, state: &mut MutexGuard<'_, DbState>) -> Result<()> {
        if log.writer.as_ref().is_some_and(WalWriter::is_broken) {
            self.switch_wal(log, state)?;
            self.refresh_log(log, state);
        }
        let broken: Vec<WalWriter> = log.unsynced.extract_if(.., |wal| wal.is_broken()).collect();
        MutexGuard::unlocked(state, || drop(broken));
        Ok(())
    }

    /// Makes a new WAL current. The old one stays open until it is synced or obsolete.
    fn switch_wal(&self, log: &mut LogState, state: &mut MutexGuard<'_, DbState>) -> Result<()> {
        let number = state.versions.new_file_number();
        // It stays on the list until it has its new name: what is on no list is garbage for others meanwhile.
        let recycled = state.recycled_wals.front().copied().filter(|_| state.deletions_disabled == 0);
        let track_predecessors = self.options().track_and_verify_wals;
        let create = || -> Result<WalWriter> {
            let mut writer = self.create_wal(number, recycled)?;
            if let Some(old) = log.writer.as_mut().filter(|old| !old.is_broken()) {
                old.flush()?;
                if track_predecessors {
                    writer.append_predecessor(&old.as_predecessor())?;
                }
            }
            Ok(writer)
        };
        let created = MutexGuard::unlocked(state, || thread::catch_panic("making a WAL", create));
        if recycled.is_some() {
            state.recycled_wals.pop_front();
        }
        let writer = match created {
            Ok(writer) => writer,
            Err(error) => {
                self.set_background_error(state, BackgroundErrorReason::MemTable, &error);
                return Err(error);
            }
        };
        if let Some(old) = log.writer.replace(writer) {
            if let Some(last) = state.live_wals.back_mut() {
                last.size_bytes = old.size_bytes();
            }
            log.unsynced.push(old);
        }
        log.directory_synced = false;
        state.live_wals.push_back(LiveWal { number, size_bytes: 0 });
        Ok(())
    }

    /// Switches the memtables of families for a flush and queues it. Returns, per family, the newest memtable that the
    /// flush will write.
    ///
    /// # Errors
    /// As for [`switch_memtables`](Self::switch_memtables).
    pub(crate) fn switch_memtables_for_flush(&self, families: &[u32], reason: FlushReason) -> Result<Vec<(u32, u64)>> {
        self.alone(|log, state| self.request_flush(log, state, families, reason))
    }

    /// [`switch_memtables_for_flush`](Self::switch_memtables_for_flush) by a caller that leads the write queue.
    ///
    /// # Errors
    /// The background error in force; `IoError` when the new WAL cannot be made.
    pub(crate) fn request_flush(
        &self,
        log: &mut LogState,
        state: &mut MutexGuard<'_, DbState>,
        families: &[u32],
        reason: FlushReason,
    ) -> Result<Vec<(u32, u64)>> {
        if state.errors.is_stopped()
            && let Some(error) = state.errors.error()
        {
            return Err(error.clone());
        }
        self.switch_memtables(log, state, families)?;
        let mut targets = Vec::new();
        let mut request = FlushRequest { families: Vec::new(), reason, is_group: false };
        for id in families {
            let Some(family) = state.families.get_mut(id) else { continue };
            let Some(newest) = family.imm.first() else { continue };
            targets.push((*id, newest.id()));
            family.flush_requested = true;
            request.families.push(*id);
        }
        self.queue_flush(state, request);
        Ok(targets)
    }

    /// Syncs the WALs that are no longer written, oldest first, and the WAL directory.
    ///
    /// # Errors
    /// `IoError` naming the file.
    pub(crate) fn sync_closed_wals(&self) -> Result<()> {
        let mut log = self.log.lock();
        self.sync_unsynced(&mut log)
    }

    fn sync_unsynced(&self, log: &mut LogState) -> Result<()> {
        let use_fsync = self.options().use_fsync;
        let mut synced = Vec::new();
        for wal in &mut log.unsynced {
            wal.finish(use_fsync)?;
            synced.push(WalAddition { number: wal.number(), synced_size_bytes: Some(wal.size_bytes()) });
        }
        log.unsynced.clear();
        if !log.directory_synced {
            self.directories()?.wal.fsync()?;
            log.directory_synced = true;
        }
        if self.options().track_and_verify_wals_in_manifest && !synced.is_empty() {
            let mut state = self.state.lock();
            // A WAL that became obsolete meanwhile is about to go, and must not be missed later.
            let min_log = state.versions.min_log_number_to_keep();
            synced.retain(|wal| wal.synced_size_bytes != Some(0) && wal.number >= min_log);
            if synced.is_empty() {
                return Ok(());
            }
            let edit = VersionEdit { wal_additions: synced, ..VersionEdit::default() };
            VersionSet::log_and_apply(&mut state, edit.into())?;
        }
        Ok(())
    }

    /// Hands the WAL's buffer to the operating system and, if `sync`, makes everything written so far durable.
    ///
    /// # Errors
    /// `IoError` naming the file.
    pub(crate) fn flush_wal(&self, sync: bool) -> Result<()> {
        self.check_writable()?;
        let mut log = self.log.lock();
        let result = (|| {
            log.flush_current()?;
            if sync { self.sync_log(&mut log) } else { Ok(()) }
        })();
        drop(log);
        if let Err(error) = &result {
            self.set_background_error(&mut self.state.lock(), BackgroundErrorReason::WriteCallback, error);
        }
        result
    }

    /// Makes all WALs durable: those before the current one first.
    fn sync_log(&self, log: &mut LogState) -> Result<()> {
        if !log.unsynced.is_empty() || !log.directory_synced {
            self.sync_unsynced(log)?;
        }
        let Some(writer) = &mut log.writer else { return Ok(()) };
        log.stats.counters.wal_syncs += 1;
        record_tick(self.statistics.as_ref(), Ticker::WalSynced, 1);
        let clock = self.env.clock();
        let _watch = StopWatch::start(self.statistics.as_ref(), &**clock, HistogramKind::WalFileSyncMicros);
        writer.sync(self.options().use_fsync)
    }

    /// Closes all WALs, which cuts them to their logical size; used when the database closes.
    ///
    /// # Errors
    /// The first `IoError`; the others are closed all the same.
    pub(crate) fn close_wals(&self) -> Result<()> {
        let mut log = self.log.lock();
        let mut first = Ok(());
        let writers: Vec<WalWriter> = std::mem::take(&mut log.unsynced).into_iter().chain(log.writer.take()).collect();
        for mut writer in writers {
            first = first.and(writer.flush()).and(writer.close());
        }
        first
    }

    /// Forgets closed WALs below `number`, which are obsolete.
    pub(crate) fn drop_closed_wals_below(&self, number: FileNumber) {
        let obsolete: Vec<WalWriter> = self.log.lock().unsynced.extract_if(.., |wal| wal.number() < number).collect();
        // Unmapping a large file takes long enough to be felt by writers, so not under the lock.
        drop(obsolete);
    }

    /// What a leader does when something asks for attention.
    #[cold]
    fn attend(&self, leadership: &Leadership<'_>, flags: WriteFlags) -> Result<()> {
        let bits = self.attention.load(Ordering::Acquire);
        self.check_open()?;
        if bits & attention::STOPPED != 0 {
            let mut state = self.state.lock();
            if state.errors.is_stopped()
                && let Some(error) = state.errors.error()
            {
                return Err(error.clone());
            }
            self.update_attention(&mut state);
        }
        if bits & (attention::WAL_FULL | attention::MEMTABLE_FULL | attention::MEMORY_FULL) != 0 {
            self.switch_full_memtables()?;
        }
        let stalls = bits & attention::STALL != 0;
        let is_paced = bits & attention::PACED != 0 && !flags.no_slowdown && self.is_pace_look_due(leadership);
        if stalls || (is_paced && self.is_ahead_of_flushes(0)) {
            let clock = self.env.clock();
            let start = clock.now_nanos();
            let outcome = if stalls { self.stall(leadership, flags) } else { self.keep_pace() };
            let micros = clock.now_nanos().saturating_sub(start) / 1000;
            self.log.lock().stats.counters.stall_micros += micros;
            if let Some(statistics) = &self.statistics {
                statistics.record_tick(Ticker::StallMicros, micros);
                statistics.report_time(HistogramKind::DbWriteStall, micros);
            }
            outcome?;
        }
        Ok(())
    }

    /// Switches memtables that are full, or that hold back WALs or memory, and queues their flushes.
    fn switch_full_memtables(&self) -> Result<()> {
        let mut log = self.log.lock();
        let mut state = self.state.lock();
        let bits = self.attention.load(Ordering::Acquire);
        if bits & attention::WAL_FULL != 0 {
            self.attention.fetch_and(!attention::WAL_FULL, Ordering::AcqRel);
            self.flush_for_wals(&mut log, &mut state)?;
        }
        if bits & attention::MEMORY_FULL != 0 {
            self.attention.fetch_and(!attention::MEMORY_FULL, Ordering::AcqRel);
            let oldest = state
                .families
                .values()
                .filter(|family| !family.mem.is_empty())
                .min_by_key(|family| family.mem.earliest_sequence())
                .map(|family| family.data.id);
            let ids: Vec<u32> = oldest.into_iter().collect();
            self.switch_and_queue(&mut log, &mut state, ids.clone(), ids, FlushReason::WriteBufferManager)?;
        }
        if bits & attention::MEMTABLE_FULL != 0 {
            self.attention.fetch_and(!attention::MEMTABLE_FULL, Ordering::AcqRel);
            let full = |family: &&super::column_family::FamilyState| family.mem.should_flush();
            let ids: Vec<u32> = state.families.values().filter(full).map(|family| family.data.id).collect();
            self.switch_and_queue(&mut log, &mut state, ids.clone(), ids, FlushReason::WriteBufferFull)?;
        }
        Ok(())
    }

    /// Flushes what keeps the oldest WAL that is there or, where nobody needs that, the oldest that anybody needs: the others go
    /// with the next flush.
    fn flush_for_wals(&self, log: &mut LogState, state: &mut MutexGuard<'_, DbState>) -> Result<()> {
        let needed = |id: u32| state.versions.family(id).map_or(FileNumber(0), |family| family.log_number());
        let with_data = || state.families.values().filter(|family| !family.is_empty());
        let Some(oldest) = with_data().map(|family| needed(family.data.id)).min() else { return Ok(()) };
        let oldest = oldest.max(log.oldest_wal);
        let holding = || with_data().filter(|family| needed(family.data.id) <= oldest);
        // Where memtables wait for their flush, what takes writes began with a later WAL.
        let began = |family: &super::column_family::FamilyState| match family.imm.first() {
            Some(newest) => FileNumber(newest.next_log_number()),
            None => needed(family.data.id),
        };
        let to_flush: Vec<u32> = holding().map(|family| family.data.id).collect();
        let to_switch = holding().filter(|family| began(family) <= oldest).map(|family| family.data.id).collect();
        self.switch_and_queue(log, state, to_switch, to_flush, FlushReason::WalFull)?;
        log.asked_wal = oldest;
        Ok(())
    }

    /// Switches the memtables of some families and queues the flush of `ids`.
    fn switch_and_queue(
        &self,
        log: &mut LogState,
        state: &mut MutexGuard<'_, DbState>,
        mut switch: Vec<u32>,
        mut ids: Vec<u32>,
        reason: FlushReason,
    ) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        if self.options().atomic_flush {
            ids = state.families.keys().copied().collect();
            switch.clone_from(&ids);
        }
        let before = log.current_number();
        self.switch_memtables(log, state, &switch)?;
        if let (Some(old), Some(new)) = (log.unsynced.last(), &log.writer)
            && old.number() == before
        {
            self.log_ahead.note(old, new, self.wal_block_bytes(&self.options()));
        }
        if reason != FlushReason::WriteBufferFull {
            for id in &ids {
                if let Some(family) = state.families.get_mut(id) {
                    family.flush_requested = !family.imm.is_empty();
                }
            }
        }
        self.queue_flush(state, FlushRequest { families: ids, reason, is_group: false });
        Ok(())
    }

    /// Slows the leader down, or holds it until writes may go on.
    fn stall(&self, leadership: &Leadership<'_>, flags: WriteFlags) -> Result<()> {
        let controller = Arc::clone(&self.state.lock().controller);
        let clock = self.env.clock();
        let now = || clock.now_nanos() / 1000;
        let delay = controller.delay_micros(leadership.previous_group_bytes(), now());
        if delay > 0 {
            if flags.no_slowdown {
                return Err(Error::incomplete("Write stall"));
            }
            let _stall = leadership.begin_stall();
            let until = now() + delay;
            while controller.needs_delay() && now() < until {
                clock.sleep_micros(STALL_STEP_MICROS.min(until.saturating_sub(now())));
            }
        }
        if !controller.is_stopped() {
            return Ok(());
        }
        if flags.no_slowdown {
            return Err(Error::incomplete("Write stall"));
        }
        let _stall = leadership.begin_stall();
        let mut state = self.state.lock();
        log_info!(self.logger(), "Stopping writes until flushes or compactions catch up");
        while controller.is_stopped() && !state.errors.is_stopped() {
            if self.closing.load(Ordering::Acquire) {
                return Err(Error::shutdown_in_progress("stalled writes"));
            }
            self.wait_for_background(&mut state);
        }
        match state.errors.error() {
            Some(error) if state.errors.is_stopped() => Err(Error::incomplete(error.to_string())),
            _ => Ok(()),
        }
    }

    /// Whether enough was written since a leader last looked whether it is ahead of flushes. Takes no lock: it is asked before
    /// every group beside a flush.
    fn is_pace_look_due(&self, leadership: &Leadership<'_>) -> bool {
        // Only the leader reads and writes it.
        let unlooked = self.unlooked_bytes.load(Ordering::Relaxed).saturating_add(leadership.previous_group_bytes());
        let is_due = unlooked >= PACE_LOOK_BYTES;
        self.unlooked_bytes.store(if is_due { 0 } else { unlooked }, Ordering::Relaxed);
        is_due
    }

    /// Whether memtables hold more than flushes under way allow. The caller leads the write queue and has just slept for so
    /// long.
    fn is_ahead_of_flushes(&self, slept_nanos: u64) -> bool {
        let now_nanos = self.env.clock().now_nanos();
        let targets = Arc::clone(&self.log.lock().targets);
        // Lowered first: who raises it has told before what is looked at here.
        self.attention.fetch_and(!attention::PACED, Ordering::AcqRel);
        let mut is_ahead = false;
        for Target { data, mem, .. } in targets.iter().filter(|target| target.data.flush_pace.is_under_way()) {
            self.raise(attention::PACED);
            data.flush_pace.note_sleep(slept_nanos);
            is_ahead |= !data.flush_pace.allows(mem.data_bytes(), mem.full_bytes(), now_nanos);
        }
        is_ahead
    }

    /// Holds the leader until flushes under way allow what memtables hold.
    fn keep_pace(&self) -> Result<()> {
        loop {
            let clock = self.env.clock();
            let start = clock.now_nanos();
            clock.sleep_micros(PACE_STEP_MICROS);
            let slept_nanos = clock.now_nanos().saturating_sub(start);
            self.check_open()?;
            if !self.is_ahead_of_flushes(slept_nanos) {
                return Ok(());
            }
        }
    }

    /// Sets the bits of attention that follow from the state.
    pub(crate) fn update_attention(&self, state: &mut DbState) {
        let mut bits = 0;
        if state.errors.is_stopped() || self.closing.load(Ordering::Acquire) {
            bits |= attention::STOPPED;
        }
        if !state.controller.is_normal() {
            bits |= attention::STALL;
        }
        let managed = attention::STOPPED | attention::STALL;
        self.attention.fetch_and(!(managed & !bits), Ordering::AcqRel);
        self.attention.fetch_or(bits, Ordering::AcqRel);
    }

    /// Waits until a flush of `families` would not stop or delay writes; `false` if nothing is left to flush.
    pub(crate) fn wait_until_flush_would_not_stall(
        &self,
        options: &FlushOptions,
        families: &[Arc<ColumnFamilyData>],
    ) -> Result<bool> {
        let mut state = self.state.lock();
        loop {
            if let Some(error) = state.errors.error().filter(|_| state.errors.is_stopped()) {
                return Err(error.clone());
            }
            if !families.iter().any(|data| self.flush_would_stall(&state, data.id)) {
                return Ok(true);
            }
            if !options.wait && state.controller.is_stopped() {
                return Err(Error::try_again(
                    "Writes have been stopped, thus unable to perform manual flush. Please try again later after writes \
                     are resumed",
                ));
            }
            if self.closing.load(Ordering::Acquire) {
                return Err(Error::shutdown_in_progress("the database is closing"));
            }
            self.wait_for_background(&mut state);
        }
    }
}

/// How WAL files are written. Without direct I/O and without manual flushing, appends go to a mapping of reserved space,
/// which survives a kill of the process like a `write()` does and costs no system call.
fn wal_file_options(options: &DbOptions, block_bytes: u64) -> FileOptions {
    FileOptions {
        bytes_per_sync: options.wal_bytes_per_sync,
        strict_bytes_per_sync: options.strict_bytes_per_sync,
        writable_buffer_bytes: if options.manual_wal_flush { options.writable_file_max_buffer_size } else { 64 << 10 },
        preallocate_bytes: if options.allow_fallocate { block_bytes } else { 0 },
        mapped_log: options.allow_fallocate && !options.manual_wal_flush,
        ..FileOptions::default()
    }
}

impl GroupExecutor for Executor<'_> {
    #[inline]
    fn prepare(&self, leader: &Leadership<'_>, flags: WriteFlags) -> Result<()> {
        if self.db.attention.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        self.db.attend(leader, flags)
    }

    #[inline]
    fn log(&self, group: &WriteGroup<'_>) -> Result<LoggedGroup> {
        let db = self.db;
        // The log would give damage a valid checksum.
        group.batches().try_for_each(WriteBatch::verify_protection)?;
        let mut log = db.log.lock();
        let first_sequence = db.visible_sequence().plus(1);
        if first_sequence.checked_plus(group.count()).is_none() {
            return Err(sequence_numbers_used_up());
        }
        let mut wal_bytes = None;
        if !group.flags().disable_wal {
            // The file system may be somebody else's.
            let append = || db.append_group(&mut log, group, first_sequence);
            match thread::catch_panic("appending to the WAL", append) {
                Ok(written) => wal_bytes = Some(written),
                Err(error) => {
                    // Whatever failed, another WAL or the directory perhaps: the record may be in this one.
                    if let Some(writer) = &mut log.writer {
                        writer.give_up(&error);
                    }
                    drop(log);
                    db.set_background_error(&mut db.state.lock(), BackgroundErrorReason::WriteCallback, &error);
                    return Err(error);
                }
            }
        } else {
            db.has_unlogged_data.store(true, Ordering::Release);
        }
        db.count_group(&mut log, group, wal_bytes);
        if log.is_memory_full() {
            db.raise(attention::MEMORY_FULL);
        }
        let parallel = log.parallel_inserts
            && group.is_worth_parallel_insertion()
            && !group.content().intersects(ContentFlags::MERGE);
        let _ = self.targets.set(Arc::clone(&log.targets));
        let insertion = if parallel { Insertion::ByMembers } else { Insertion::ByLeader };
        Ok(LoggedGroup { first_sequence, insertion })
    }

    #[inline]
    fn insert(&self, batch: &WriteBatch, sequence: SequenceNumber) -> Result<()> {
        // Nobody changes the targets before the group is complete.
        let targets = self.targets.get_or_init(|| Arc::clone(&self.db.log.lock().targets));
        let records = BatchIter::new(batch.data())?;
        // Families were checked before the batch queued up; one that was dropped since then needs nothing any more.
        let protections = batch.protections();
        let full = &mut || self.db.raise(attention::MEMTABLE_FULL);
        // Comparators and prefix extractors run here.
        thread::catch_panic("the insertion", || {
            insert_records(records, protections, sequence, targets, Some(self.db), full).map(|_| ())
        })
    }

    #[inline]
    fn publish(&self, last: SequenceNumber) {
        self.db.visible.store(last.get(), Ordering::Release);
    }

    #[cold]
    fn failed(&self, error: &Error) {
        // The WAL has what the memtables lack: going on would make a hole.
        self.db.set_background_error(&mut self.db.state.lock(), BackgroundErrorReason::MemTable, error);
    }
}

/// No sequence number is left for another record.
pub(crate) fn sequence_numbers_used_up() -> Error {
    Error::new(ErrorKind::Aborted, "sequence numbers are used up")
}

impl DbInner {
    /// Counts a group that was logged; `wal_bytes` is none when it skipped the WAL.
    #[inline]
    fn count_group(&self, log: &mut LogState, group: &WriteGroup<'_>, wal_bytes: Option<usize>) {
        let (members, bytes, keys) = (group.len() as u64, group.bytes() as u64, group.count());
        let counters = &mut log.stats.counters;
        counters.writes_by_self += 1;
        counters.writes_by_other += members - 1;
        counters.keys_written += keys;
        counters.bytes_written += bytes;
        if let Some(wal_bytes) = wal_bytes {
            counters.writes_with_wal += members;
            counters.wal_bytes += wal_bytes as u64;
        }
        if let Some(statistics) = &self.statistics {
            statistics.record_tick(Ticker::WriteSelf, 1);
            statistics.record_tick(Ticker::WriteOther, members - 1);
            statistics.record_tick(Ticker::NumberKeysWritten, keys);
            statistics.record_tick(Ticker::BytesWritten, bytes);
            statistics.record_in_histogram(HistogramKind::BytesPerWrite, bytes);
            if let Some(wal_bytes) = wal_bytes {
                statistics.record_tick(Ticker::WriteWal, members);
                statistics.record_tick(Ticker::WalBytes, wal_bytes as u64);
            }
        }
    }

    /// Appends the records of a group to the WAL; returns how many bytes that took.
    #[inline]
    fn append_group(&self, log: &mut LogState, group: &WriteGroup<'_>, first: SequenceNumber) -> Result<usize> {
        let Some(writer) = &mut log.writer else {
            return Err(Error::shutdown_in_progress("the database is closed"));
        };
        let parts = group.batches().map(WriteBatch::wal_record_bytes);
        let part_bytes = group.batches().map(|batch| batch.wal_record_bytes().len()).sum();
        let count = group.batches().map(WriteBatch::wal_count).sum();
        let written = writer.append_group(first, count, part_bytes, parts)?;
        log.total_bytes += written as u64;
        if log.total_bytes > log.max_total_bytes && log.oldest_wal > log.asked_wal {
            self.raise(attention::WAL_FULL);
        }
        let sync = group.flags().sync;
        if !log.manual_flush || sync {
            writer.flush()?;
        }
        if sync {
            self.sync_log(log)?;
        }
        Ok(written)
    }
}
