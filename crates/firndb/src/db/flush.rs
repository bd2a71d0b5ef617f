//! Flushes: from immutable memtables to a table on level 0, and to tables on the last level for insert streams
//! ([`streams`](super::streams)).
//!
//! A request flows in from a full memtable, a user or a WAL that is too large; durable tables, their edit in the MANIFEST
//! and a new super version flow out. Always true here: one flush of a family runs at a time, and it takes the oldest
//! memtables, so that results reach the MANIFEST in the order of writing; a WAL becomes obsolete only with the edit that
//! makes it so.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use firn_env::sync::{Mutex, MutexGuard, atomic};
use firn_env::{FileOptions, IoPriority, thread};
use firn_error::{Error, Result, SubCode};
use firn_format::comparator::InternalKeyComparator;
use firn_format::key::{FileNumber, SequenceNumber, extract_user_key};
use firn_format::version_edit::VersionEdit;

use super::column_family::ColumnFamilyData;
use super::error_handler::BackgroundErrorReason;
use super::report::Retired;
use super::streams::{self, ReservedRuns};
use super::{DbInner, DbState, attention};
use crate::compaction::deeper::DeeperLevels;
use crate::compaction::filter::{CompactionFilter, FilterContext, TableCreationReason, check_ignores_snapshots};
use crate::compaction::iterator::{CompactionIterator, DropRules};
use crate::compaction::output::{
    FinishedTable, OutputSettings, OutputTimes, TableOutput, max_allowed_space_reached, output_compression,
    output_temperature,
};
use crate::compaction::tombstones::{
    CompactionTombstones, OutputBounds, SnapshotStripes, TombstoneDropRules, output_tombstones,
};
use crate::compaction::verify::OutputChecks;
use crate::memtable::MemTable;
use crate::options::FlushOptions;
use crate::read::MergingIterator;
use crate::read::tombstone_cover::TombstoneWindow;
pub(crate) use crate::stats::FlushReason;
use crate::stats::{CompactionStats, HistogramKind, JobPriority, Ticker, record_tick};
use crate::version::{ManifestChange, TableSource, VersionSet};

/// Each time so many bytes of a table were written the disk is told to begin with them, unless `bytes_per_sync` says
/// otherwise: when the table is complete and must be durable, little is left to wait for.
const WRITE_BEHIND_BYTES: u64 = 4 << 20;

/// Families whose memtables are to be flushed, together if there are several.
#[derive(Clone, Debug)]
pub(crate) struct FlushRequest {
    /// Ids of the families.
    pub(crate) families: Vec<u32>,
    /// Why.
    pub(crate) reason: FlushReason,
    /// Whether these families were claimed for a flush together; see `flush_group`.
    pub(crate) is_group: bool,
}

/// What the table of one flush is told.
pub(crate) struct FlushOutput {
    /// The number of the table.
    pub(crate) number: FileNumber,
    /// Its place among the tables of level 0.
    pub(crate) epoch_number: u64,
    /// Live snapshots, ascending.
    pub(crate) snapshots: Vec<SequenceNumber>,
    /// The job that writes it.
    pub(crate) job: TableJob,
}

/// The job that a table is written for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableJob {
    /// Its number.
    pub(crate) id: u64,
    /// Why it creates tables.
    pub(crate) reason: TableCreationReason,
}

/// The part of a flush that concerns one family.
pub(crate) struct FamilyFlush {
    /// The family.
    pub(crate) data: Arc<ColumnFamilyData>,
    /// What is written, oldest first.
    pub(crate) memtables: Vec<Arc<MemTable>>,
    /// What the table is told.
    pub(crate) output: FlushOutput,
    /// Parts that go to the last level.
    pub(crate) runs: ReservedRuns,
    /// The tables, once they are written; none if nothing was left to write.
    pub(crate) tables: FlushedTables,
}

/// What the flush of a family wrote.
#[derive(Default)]
pub(crate) struct FlushedTables {
    /// The table of level 0.
    pub(crate) level_0: Option<FinishedTable>,
    /// Those of the reserved runs.
    pub(crate) runs: Vec<FinishedTable>,
}

impl FlushedTables {
    /// All tables, that of level 0 first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &FinishedTable> {
        self.level_0.iter().chain(&self.runs)
    }
}

impl DbInner {
    /// Runs a flush request. The database mutex is given up while tables are written.
    ///
    /// # Errors
    /// What stopped it; the memtables then wait for the next flush.
    pub(crate) fn run_flush(
        &self,
        state: &mut MutexGuard<'_, DbState>,
        job: u64,
        request: &FlushRequest,
    ) -> Result<()> {
        let table_job = TableJob { id: job, reason: TableCreationReason::Flush };
        let everything = FlushRequest {
            families: state.families.keys().copied().collect(),
            reason: request.reason,
            is_group: false,
        };
        // Families that came after the request was queued have their part in the state that it makes durable.
        let request = if self.options().atomic_flush { &everything } else { request };
        let _at_work = self.workers.enter();
        let mut parts = pick(state, request, table_job, self.snapshots.sequences());
        if parts.is_empty() {
            return Ok(());
        }
        let start_nanos = self.env.clock().now_nanos();
        let several_families = state.families.len() > 1 || self.options().allow_2pc;
        let synced = MutexGuard::unlocked(state, || {
            thread::catch_panic("the flush", || {
                self.log_ahead.reserve();
                self.report_flush_begin(job, &parts, request.reason);
                // What is flushed must not be ahead of what other families have only in a WAL.
                if several_families { self.sync_closed_wals() } else { Ok(()) }
            })
        });
        let outputs: Mutex<Vec<FileNumber>> = Mutex::new(parts.iter().map(|part| part.output.number).collect());
        let written = synced.map_err(|error| (error, BackgroundErrorReason::Flush)).and_then(|()| {
            let write = || {
                parts.iter_mut().try_for_each(|part| {
                    part.runs = self.reserve_runs(&part.data, &part.memtables);
                    part.tables = self.write_memtables(part, &outputs)?;
                    Ok(())
                })
            };
            MutexGuard::unlocked(state, || thread::catch_panic("the flush", write))
                .map_err(|error| (error, BackgroundErrorReason::FlushNoWal))
        });
        let count_reports = |state: &mut DbState, count: fn(usize) -> usize| {
            for part in &parts {
                if let Some(family) = state.families.get_mut(&part.data.id) {
                    family.reporting = count(family.reporting);
                }
            }
        };
        count_reports(state, |reporting| reporting + 1);
        let (result, reason) = match written {
            Ok(()) => (self.commit_flush(state, &parts), BackgroundErrorReason::ManifestWriteNoWal),
            Err((error, reason)) => (Err(error), reason),
        };
        state.release_outputs(&outputs.into_inner());
        for part in &parts {
            self.release_runs(state, part);
            if let Some(family) = state.families.get_mut(&part.data.id) {
                family.flushing = 0;
            }
        }
        if result.is_err() {
            count_reports(state, |reporting| reporting - 1);
        }
        match result {
            Ok(()) => {
                let nanos = self.env.clock().now_nanos().saturating_sub(start_nanos);
                parts.iter().for_each(|part| part.data.flush_pace.learn(&part.memtables, nanos));
                let told = thread::catch_panic("the flush", || {
                    self.report_flush_end(state, job, &parts, request.reason);
                    Ok(())
                });
                count_reports(state, |reporting| reporting - 1);
                self.background.notify_all();
                if let Err(error) = told {
                    self.set_background_error(state, BackgroundErrorReason::FlushNoWal, &error);
                }
                if self.file_manager.is_max_allowed_space_reached() {
                    self.set_background_error(state, BackgroundErrorReason::Flush, &max_allowed_space_reached());
                }
                Ok(())
            }
            Err(error) if error.kind() == firn_error::ErrorKind::ColumnFamilyDropped => Ok(()),
            Err(error) => {
                self.set_background_error(state, reason, &error);
                if !state.errors.stops_background_work() {
                    // Nothing else asks for this flush again.
                    self.note_failed_flush(state, &parts, &error);
                }
                Err(error)
            }
        }
    }

    /// A flush failed and is no background error: it is to be tried again, and those who wait for it learn of it.
    fn note_failed_flush(&self, state: &mut DbState, parts: &[FamilyFlush], error: &Error) {
        for part in parts {
            let Some(family) = state.families.get_mut(&part.data.id) else { continue };
            family.flush_requested = true;
            family.failed_flushes.note(error);
        }
        self.background.notify_all();
    }

    /// Logs the edits of finished tables and takes their memtables out.
    fn commit_flush(&self, state: &mut MutexGuard<'_, DbState>, parts: &[FamilyFlush]) -> Result<()> {
        let mut edits = Vec::with_capacity(parts.len() + 1);
        let ids: Vec<u32> = parts.iter().map(|part| part.data.id).collect();
        let mut min_log = state.versions.min_log_number_with_unflushed_data_except(&ids);
        let current_wal = state.live_wals.back().map_or(FileNumber(0), |wal| wal.number);
        for part in parts {
            let next_log = FileNumber(part.memtables.iter().map(|mem| mem.next_log_number()).max().unwrap_or(0));
            // A family that has nothing in memory after this needs no closed WAL, however long it stays idle.
            let is_last = state
                .families
                .get(&part.data.id)
                .is_some_and(|family| family.mem.is_empty() && family.imm.len() == part.memtables.len());
            let needed = if is_last { next_log.max(current_wal) } else { next_log };
            min_log = Some(min_log.map_or(needed, |min| min.min(needed)));
            let mut edit = VersionEdit {
                column_family: part.data.id,
                log_number: Some(next_log),
                prev_log_number: Some(FileNumber(0)),
                ..VersionEdit::default()
            };
            if let Some(table) = &part.tables.level_0 {
                edit.add_file(0, table.file.clone());
            }
            for table in &part.tables.runs {
                edit.add_file(u32::try_from(part.runs.level).unwrap_or(u32::MAX), table.file.clone());
            }
            edits.push(edit);
        }
        let min_log = match (min_log, state.oldest_prepared_wal) {
            (Some(min), Some(prepared)) => Some(min.min(prepared)),
            (min, _) => min,
        };
        if let Some(min_log) = min_log.filter(|min| *min > state.versions.min_log_number_to_keep()) {
            let mut edit = VersionEdit { min_log_number_to_keep: Some(min_log), ..VersionEdit::default() };
            if self.options().track_and_verify_wals_in_manifest {
                edit.wal_deletion = Some(min_log);
            }
            edits.push(edit);
        }
        let change = ManifestChange { edits, atomic: parts.len() > 1, ..ManifestChange::default() };
        VersionSet::log_and_apply(state, change)?;
        let mut retired = Retired::default();
        for part in parts {
            let Some(family) = state.families.get_mut(&part.data.id) else { continue };
            let keep = family.imm.len() - part.memtables.len();
            family.imm.truncate(keep);
            family.flushing = 0;
            if family.is_empty() {
                state.versions.raise_log_number(part.data.id, current_wal);
            }
            retired.absorb(self.install_super_version(state, part.data.id));
        }
        MutexGuard::unlocked(state, || drop(retired));
        Ok(())
    }

    /// Writes one table from frozen memtables, oldest first, during recovery; the mutex is given up meanwhile.
    ///
    /// # Errors
    /// What stopped it.
    pub(crate) fn write_level_0(
        &self,
        state: &mut MutexGuard<'_, DbState>,
        data: &Arc<ColumnFamilyData>,
        memtables: &[Arc<MemTable>],
        output: &FlushOutput,
    ) -> Result<Option<FinishedTable>> {
        let runs = &mut RunWriter::none();
        MutexGuard::unlocked(state, || self.write_tables(data, memtables, output, JobPriority::User, runs))
    }

    /// Looks for insert streams and reserves where they go. Called without the mutex.
    fn reserve_runs(&self, data: &Arc<ColumnFamilyData>, memtables: &[Arc<MemTable>]) -> ReservedRuns {
        if !streams::takes_streams(data, memtables) || self.allows_ingest_behind(&data.options()) {
            return ReservedRuns::default();
        }
        let runs = streams::find_runs(&data.comparator, memtables, data.options().target_file_size_base);
        if runs.is_empty() {
            return ReservedRuns::default();
        }
        streams::reserve(&mut self.state.lock(), data, &runs)
    }

    /// Lets others write where the runs of a flush went, or did not go.
    fn release_runs(&self, state: &mut DbState, part: &FamilyFlush) {
        if part.runs.ranges().next().is_none() {
            return;
        }
        part.runs.release(state);
        self.queue_compaction_if_needed(state, part.data.id);
        self.maybe_schedule(state);
        self.background.notify_all();
    }

    /// Writes the tables of one family; their numbers go to `outputs` before they are used. Called without the mutex.
    fn write_memtables(&self, part: &FamilyFlush, outputs: &Mutex<Vec<FileNumber>>) -> Result<FlushedTables> {
        let new_table = || {
            let mut state = self.state.lock();
            let number = state.new_output();
            outputs.lock().push(number);
            (number, state.versions.family_mut(part.data.id).map_or(0, |family| family.new_epoch_number()))
        };
        let place = OutputPlace { level: part.runs.level, path_id: 0, base_level: part.runs.base_level };
        let mut settings = self.output_settings(&part.data, place, part.output.job, self.env.clock().now_secs());
        settings.is_flush = true;
        settings.bottommost = true;
        settings.compression = output_compression(&settings.options, place.level, place.base_level, true);
        let mut runs = RunWriter {
            ranges: part.runs.ranges().collect(),
            settings: Some(settings),
            new_table: &new_table,
            times: OutputTimes::default(),
            current: None,
            finished: Vec::new(),
        };
        let (memtables, output) = (&part.memtables, &part.output);
        let level_0 = self.write_tables(&part.data, memtables, output, JobPriority::High, &mut runs)?;
        Ok(FlushedTables { level_0, runs: runs.finished })
    }

    /// Writes one table from frozen memtables, and what lies in `runs` to tables of their own; makes files and names durable.
    fn write_tables(
        &self,
        data: &Arc<ColumnFamilyData>,
        memtables: &[Arc<MemTable>],
        output: &FlushOutput,
        priority: JobPriority,
        runs: &mut RunWriter<'_>,
    ) -> Result<Option<FinishedTable>> {
        let (start, cpu_start) = (self.env.clock().now_nanos(), thread::cpu_nanos());
        let now_secs = self.env.clock().now_secs();
        let settings =
            self.output_settings(data, OutputPlace { level: 0, path_id: 0, base_level: 0 }, output.job, now_secs);
        let oldest_key_time = memtables.iter().map(|mem| mem.oldest_key_time_secs()).min().unwrap_or(u64::MAX);
        let oldest_key_time = if oldest_key_time == u64::MAX { now_secs } else { oldest_key_time };
        let times = OutputTimes {
            oldest_ancester_time: oldest_key_time.min(now_secs),
            oldest_key_time,
            // Nothing in the memtables was written later.
            newest_key_time: now_secs,
        };
        runs.times = times;
        let mut table = TableOutput::create(&settings, output.number, output.epoch_number, times)?;
        let entries_read = match self.write_entries(data, memtables, output, &mut table, runs) {
            Ok(read) => read,
            Err(error) => {
                table.abandon(&error);
                return Err(error);
            }
        };
        let finished = table.finish()?;
        let written = || finished.iter().chain(&runs.finished);
        if written().next().is_some() {
            self.env.fs().new_directory(&settings.directory)?.fsync()?;
        }
        let bytes_written = written().map(|table| table.file.file_size).sum();
        let stats = CompactionStats {
            micros: self.env.clock().now_nanos().saturating_sub(start) / 1000,
            cpu_micros: thread::cpu_nanos().saturating_sub(cpu_start) / 1000,
            bytes_written,
            num_input_records: entries_read,
            num_output_files: written().count() as u64,
            count: 1,
            ..CompactionStats::default()
        };
        let mut sums = data.stats.lock();
        sums.add_compaction(0, priority, stats);
        sums.ingest.bytes_flushed += bytes_written;
        drop(sums);
        if let Some(statistics) = &self.statistics {
            statistics.record_tick(Ticker::FlushWriteBytes, bytes_written);
            statistics.report_time(HistogramKind::DbFlushMicros, stats.micros);
        }
        Ok(finished)
    }

    /// Merges memtables into a table, without what no snapshot can see. Returns how many entries were read.
    fn write_entries(
        &self,
        data: &Arc<ColumnFamilyData>,
        memtables: &[Arc<MemTable>],
        output: &FlushOutput,
        table: &mut TableOutput,
        runs: &mut RunWriter<'_>,
    ) -> Result<u64> {
        let db = self.options();
        let stripes = SnapshotStripes::new(output.snapshots.clone());
        let filter = flush_filter(data, output.job.reason)?;
        let is_filtered = filter.is_some();
        let rules = DropRules {
            merge_operator: data.options().merge_operator.clone(),
            filter,
            enforce_single_del_contracts: db.enforce_single_del_contracts,
            ..DropRules::flush(data.comparator.clone(), stripes.clone())
        };
        memtables.iter().try_for_each(|mem| mem.verify_range_deletions())?;
        let windows = memtables.iter().filter(|mem| mem.has_range_deletions()).map(|mem| TombstoneWindow {
            tombstones: Some(mem.range_tombstones()),
            from: None,
            until: None,
        });
        let mut tombstones = CompactionTombstones::new(data.comparator.clone(), windows.collect());
        let mut deeper = DeeperLevels::unknown();
        // Newest first, as merges want it.
        let children: Vec<_> = memtables.iter().rev().map(|mem| mem.iter()).collect();
        let merged = MergingIterator::new(data.comparator.clone(), children);
        let mut entries = CompactionIterator::new(merged, rules, &mut tombstones, &mut deeper, None);
        entries.seek_to_first();
        while entries.valid() {
            runs.output_of(&data.comparator, entries.key(), table)?.add(entries.key(), entries.value())?;
            entries.next();
        }
        runs.finish_current()?;
        let refused = entries.status().is_err_and(|error| error.subcode() == SubCode::MergeOperatorFailed);
        let merge_failures = entries.stats().merge_failures + u64::from(refused);
        record_tick(self.statistics.as_ref(), Ticker::NumberMergeFailures, merge_failures);
        entries.status()?;
        let read = entries.stats().input_records;
        drop(entries);
        let points: u64 = memtables.iter().map(|mem| mem.entry_count() - mem.range_deletion_count()).sum();
        // A filter may have passed entries over unread.
        if db.flush_verify_memtable_count && !is_filtered && read != points {
            return Err(Error::corruption(format!("Expected {points} entries in memtables, but read {read}")));
        }
        let keep = TombstoneDropRules {
            order: &data.comparator,
            stripes: &stripes,
            bottommost: false,
            deeper: &DeeperLevels::unknown(),
        };
        for tombstone in output_tombstones(&tombstones.fragments(), &OutputBounds::default(), &keep).kept {
            table.add_range_tombstone(tombstone)?;
        }
        Ok(read)
    }

    /// How urgent the input and output of a job is: a user's concern once writers wait for it.
    fn io_priority(&self, reason: TableCreationReason) -> IoPriority {
        if self.attention.load(atomic::Ordering::Acquire) & attention::STALL != 0 {
            return IoPriority::User;
        }
        if reason == TableCreationReason::Compaction { IoPriority::Low } else { IoPriority::High }
    }

    /// What outputs of a job of `data` at `place` have in common.
    pub(crate) fn output_settings(
        &self,
        data: &Arc<ColumnFamilyData>,
        place: OutputPlace,
        job: TableJob,
        now_secs: u64,
    ) -> OutputSettings {
        let db = self.options();
        let options = data.options();
        let directory = data.table_dirs.get(place.path_id as usize).or(data.table_dirs.first()).cloned();
        let is_flush = place.level == 0 && place.base_level == 0;
        let host_id = match db.db_host_id.as_str() {
            "__hostname__" => self.env.host_name(),
            other => other.to_owned(),
        };
        OutputSettings {
            fs: Arc::clone(self.env.fs()),
            file_options: FileOptions {
                rate_limiter: self.rate_limiter.clone(),
                rate_limiter_priority: self.io_priority(job.reason),
                use_direct_writes: db.use_direct_io_for_flush_and_compaction,
                bytes_per_sync: if db.bytes_per_sync == 0 { WRITE_BEHIND_BYTES } else { db.bytes_per_sync },
                strict_bytes_per_sync: db.strict_bytes_per_sync,
                writable_buffer_bytes: db.writable_file_max_buffer_size.max(4096),
                ..FileOptions::default()
            },
            use_fsync: db.use_fsync,
            directory: directory.unwrap_or_default(),
            path_id: place.path_id,
            comparator: data.comparator.clone(),
            family_id: data.id,
            family_name: data.name.clone(),
            db_id: self.db_id.clone(),
            session_id: self.session_id.clone(),
            host_id,
            level: place.level,
            is_flush,
            bottommost: false,
            compression: output_compression(&options, place.level, place.base_level, false),
            temperature: output_temperature(&options, place.level),
            target_file_size: 0,
            now_secs,
            tables: Arc::clone(data.tables()) as Arc<dyn TableSource>,
            checks: OutputChecks {
                record_count: if is_flush { db.flush_verify_memtable_count } else { db.compaction_verify_record_count },
                contents: options.paranoid_file_checks,
            },
            block_cache: data.tables().options().reader.block_cache.clone(),
            statistics: self.statistics.clone(),
            file_checksums: db.file_checksum_gen_factory.clone(),
            options,
            file_manager: Arc::clone(&self.file_manager),
            reporter: self.table_reporter(job.id, job.reason, &data.name),
        }
    }

    /// Flushes families because a user asked for it; see [`Db::flush`](crate::Db::flush).
    ///
    /// # Errors
    /// What stopped the flush.
    pub(crate) fn flush(&self, options: &FlushOptions, families: &[Arc<ColumnFamilyData>]) -> Result<()> {
        self.flush_for(options, families, FlushReason::ManualFlush)
    }

    /// [`flush`](Self::flush) with a reason.
    pub(crate) fn flush_for(
        &self,
        options: &FlushOptions,
        families: &[Arc<ColumnFamilyData>],
        reason: FlushReason,
    ) -> Result<()> {
        self.check_writable()?;
        for data in families {
            self.check_owner(data)?;
            data.check_live()?;
        }
        if !options.allow_write_stall && !self.wait_until_flush_would_not_stall(options, families)? {
            return Ok(());
        }
        let mut ids: Vec<u32> = families.iter().map(|data| data.id).collect();
        if self.options().atomic_flush {
            ids = self.families.all().iter().map(|data| data.id).collect();
        } else if options.force_atomic_flush && ids.len() > 1 {
            return self.flush_together(options, ids, reason);
        }
        // Memtables up to these ids are what the caller wants to see flushed.
        let targets = self.switch_memtables_for_flush(&ids, reason)?;
        if reason == FlushReason::ManualFlush && !targets.is_empty() {
            let families = targets.iter().map(|(id, _)| *id).collect();
            self.report_scheduled_flush(&FlushRequest { families, reason, is_group: false });
        }
        if !options.wait {
            return Ok(());
        }
        self.wait_for_flush(&targets)?;
        if options.listener_wait {
            self.wait_for_flush_reports(&targets);
        }
        Ok(())
    }

    /// Waits until listeners were told of the flushes that put these memtables in tables.
    fn wait_for_flush_reports(&self, targets: &[(u32, u64)]) {
        let mut state = self.state.lock();
        let is_reporting = |state: &DbState, id: &u32| state.families.get(id).is_some_and(|f| f.reporting > 0);
        while targets.iter().any(|(id, _)| is_reporting(&state, id)) {
            self.wait_for_background(&mut state);
        }
    }

    /// Waits until the memtables of the families, up to these ids, are in tables.
    ///
    /// # Errors
    /// The background error that keeps them from being flushed; `ShutdownInProgress`.
    pub(crate) fn wait_for_flush(&self, targets: &[(u32, u64)]) -> Result<()> {
        let mut state = self.state.lock();
        let failures = |state: &DbState, id: &u32| state.families.get(id).map_or(0, |f| f.failed_flushes.count());
        let before: Vec<u64> = targets.iter().map(|(id, _)| failures(&state, id)).collect();
        loop {
            let is_waiting = |id: &u32, memtable: &u64| {
                state.families.get(id).is_some_and(|family| family.imm.iter().any(|mem| mem.id() <= *memtable))
            };
            let mut waiting =
                targets.iter().zip(&before).filter(|((id, memtable), _)| is_waiting(id, memtable)).peekable();
            if waiting.peek().is_none() {
                return Ok(());
            }
            let failed = waiting.find(|((id, _), before)| failures(&state, id) > **before);
            if let Some(((id, _), _)) = failed
                && let Some(error) = state.families.get(id).and_then(|family| family.failed_flushes.last())
            {
                return Err(error);
            }
            if let Some(error) = state.errors.error().filter(|_| state.errors.stops_background_work()) {
                return Err(error.clone());
            }
            if self.closing.load(atomic::Ordering::Acquire) {
                return Err(Error::shutdown_in_progress("the database is closing"));
            }
            self.wait_for_background(&mut state);
        }
    }
}

/// Writes the runs of a flush, each to a table of its own.
struct RunWriter<'a> {
    /// Ranges of user keys that are still to come or being written, ascending.
    ranges: VecDeque<(&'a [u8], &'a [u8])>,
    /// What their tables are told; none without ranges.
    settings: Option<OutputSettings>,
    /// Number and epoch of the next table.
    new_table: &'a dyn Fn() -> (FileNumber, u64),
    times: OutputTimes,
    /// The table of the first range.
    current: Option<TableOutput>,
    finished: Vec<FinishedTable>,
}

impl RunWriter<'_> {
    /// For a flush without runs.
    fn none() -> Self {
        Self {
            ranges: VecDeque::new(),
            settings: None,
            new_table: &|| (FileNumber(0), 0),
            times: OutputTimes::default(),
            current: None,
            finished: Vec::new(),
        }
    }

    /// The table that an entry goes to: that of its run, or `level_0`. Keys ascend.
    #[inline]
    fn output_of<'t>(
        &'t mut self,
        order: &InternalKeyComparator,
        key: &[u8],
        level_0: &'t mut TableOutput,
    ) -> Result<&'t mut TableOutput> {
        if self.ranges.is_empty() {
            return Ok(level_0);
        }
        let user_key = extract_user_key(key);
        while let Some((_, largest)) = self.ranges.front()
            && order.compare_user(user_key, largest) == Ordering::Greater
        {
            self.finish_current()?;
            self.ranges.pop_front();
        }
        match (self.ranges.front(), &self.settings) {
            (Some((smallest, _)), Some(settings)) if order.compare_user(user_key, smallest) != Ordering::Less => {
                if self.current.is_none() {
                    let (number, epoch_number) = (self.new_table)();
                    self.current = Some(TableOutput::create(settings, number, epoch_number, self.times)?);
                }
                Ok(self.current.as_mut().unwrap_or(level_0))
            }
            _ => Ok(level_0),
        }
    }

    fn finish_current(&mut self) -> Result<()> {
        if let Some(table) = self.current.take() {
            self.finished.extend(table.finish()?);
        }
        Ok(())
    }
}

/// Where the outputs of a job go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutputPlace {
    /// The level.
    pub(crate) level: usize,
    /// Index into the directories of the family.
    pub(crate) path_id: u32,
    /// The level that level 0 compacts to; 0 for flushes.
    pub(crate) base_level: usize,
}

/// The compaction filter of a table that is written from memtables; the factory decides, the single filter of the options
/// is for compactions only.
fn flush_filter(data: &ColumnFamilyData, reason: TableCreationReason) -> Result<Option<Arc<dyn CompactionFilter>>> {
    let options = data.options();
    let Some(factory) = options.compaction_filter_factory.as_ref().filter(|factory| factory.filters(reason)) else {
        return Ok(None);
    };
    let filter = factory.create(&FilterContext {
        is_full_compaction: false,
        is_manual_compaction: false,
        input_start_level: 0,
        column_family_id: data.id,
        reason,
    });
    check_ignores_snapshots(filter.as_ref())?;
    Ok(filter)
}

/// Takes the memtables of a request that no other flush has, and numbers for their tables.
fn pick(
    state: &mut DbState,
    request: &FlushRequest,
    job: TableJob,
    snapshots: Vec<SequenceNumber>,
) -> Vec<FamilyFlush> {
    let mut parts = Vec::new();
    for id in &request.families {
        let Some(family) = state.families.get_mut(id) else { continue };
        family.queued_for_flush = false;
        let is_claimed = family.in_group && !request.is_group;
        if is_claimed || family.flushing > 0 || family.imm.is_empty() || family.data.is_dropped() {
            continue;
        }
        family.flushing = family.imm.len();
        family.flush_requested = false;
        let data = Arc::clone(&family.data);
        let memtables: Vec<_> = family.imm.iter().rev().map(Arc::clone).collect();
        data.flush_pace.begin();
        let epoch_number = state.versions.family_mut(*id).map_or(0, |family| family.new_epoch_number());
        let number = state.new_output();
        let output = FlushOutput { number, epoch_number, snapshots: snapshots.clone(), job };
        parts.push(FamilyFlush {
            data,
            memtables,
            output,
            runs: ReservedRuns::default(),
            tables: FlushedTables::default(),
        });
    }
    parts
}
