//! Compactions as the database runs them: automatic ones from the queue, manual ones for callers.
//!
//! The pickers decide, the compaction room merges; this room stands between them and the database: it marks inputs busy,
//! gives the mutex up while files are read and written, logs the edit and installs the result. Always true here: inputs are
//! busy from the pick to the end of the plan, whatever comes of it; outputs are protected from the cleaner until their edit
//! is logged or given up.

use firn_env::sync::atomic::AtomicBool;
use std::sync::Arc;

use firn_env::sync::atomic::Ordering;
use firn_env::sync::{Mutex, MutexGuard};
use firn_env::thread;
use firn_error::{Error, ErrorKind, Result, SubCode};
use firn_format::compression::CompressionType;
use firn_format::key::{FileNumber, InternalKey, SequenceNumber, ValueType};
use firn_format::version_edit::VersionEdit;

use super::column_family::ColumnFamilyData;
use super::error_handler::BackgroundErrorReason;
use super::flush::{FlushReason, OutputPlace, TableJob};
use super::ingest::KeyRange;
use super::report::CompactionReport;
use super::{DbInner, DbState};
use crate::compaction::filter::TableCreationReason;
use crate::compaction::job::{self, CompactionContext, CompactionResult};
use crate::compaction::picker::{
    self, CompactionPlan, CompactionWork, ManualCompaction, ManualStep, MayMove, RangeEnd, files_to_delete_in_range,
    manual_levels, next_manual_level, pick_files, pick_manual, refit_target,
};
use crate::compaction::stop::StopSignals;
use crate::options::{
    BottommostLevelCompaction, CompactRangeOptions, CompactionOptions, CompactionStyle, FlushOptions, Temperature,
};
use crate::stats::{CompactionStats, HistogramKind, JobPriority, Ticker, record_tick};
use crate::version::{FileMetaData, ManifestChange, TableSource, VersionSet};

impl DbInner {
    /// Picks and runs one compaction of a family whose turn it is.
    ///
    /// # Errors
    /// What stopped it; it is the background error then, if it is bad enough.
    pub(crate) fn run_automatic_compaction(
        &self,
        state: &mut MutexGuard<'_, DbState>,
        job: u64,
        id: u32,
    ) -> Result<()> {
        let disabled = state.families.get(&id).is_none_or(|family| family.data.options().disable_auto_compactions);
        // A family that is being ingested into is queued again when that is over.
        if disabled || state.is_ingesting(id) {
            return Ok(());
        }
        let Some(plan) = self.with_picker_input(state, id, picker::pick).flatten() else { return Ok(()) };
        self.carry_out(state, job, plan, None)
    }

    /// Looks for files of the bottommost level that a snapshot kept from being compacted until now.
    pub(crate) fn mark_bottommost_files(&self, state: &mut DbState, id: u32) {
        self.queue_compaction_if_needed(state, id);
        self.maybe_schedule(state);
    }

    /// Runs a plan and installs its result. `cancelled` ends it early.
    fn carry_out(
        &self,
        state: &mut MutexGuard<'_, DbState>,
        job: u64,
        plan: CompactionPlan,
        cancelled: Option<&AtomicBool>,
    ) -> Result<()> {
        let id = plan.column_family;
        let Some(family) = state.families.get(&id) else { return Ok(()) };
        let data = Arc::clone(&family.data);
        if plan.work == CompactionWork::Merge && !self.admit_compaction(state, &plan) {
            return Err(Error::compaction_too_large(format!("compaction of {} bytes", plan.input_bytes())));
        }
        let plan = Arc::new(plan);
        plan.set_busy(true);
        state.running.push(Arc::clone(&plan));
        // With these inputs busy there may be more to do beside it.
        self.queue_compaction_if_needed(state, id);
        self.maybe_schedule(state);
        let numbers = Mutex::new(Vec::new());
        let start = self.env.clock().now_nanos();
        let micros = || self.env.clock().now_nanos().saturating_sub(start) / 1000;
        let run = || {
            let _at_work = self.workers.enter();
            self.report_compaction_begin(&data, job, &plan);
            let result = match plan.work {
                CompactionWork::Merge => self.merge(job, &plan, &data, &numbers, cancelled),
                CompactionWork::TrivialMove | CompactionWork::DropFiles => Ok(CompactionResult::default()),
            };
            if let Ok(result) = &result {
                let done = CompactionReport { plan: &plan, elapsed_micros: micros(), outcome: Ok(result) };
                self.report_compaction_written(&data, job, &done);
            }
            result
        };
        // Filters, merge operators and listeners are not ours; the inputs must be free again whatever they do.
        let finished = MutexGuard::unlocked(state, || thread::catch_panic("the compaction", run));
        let outcome = match finished {
            Err(error) => Err((error, BackgroundErrorReason::Compaction)),
            Ok(result) => match self.log_plan(state, &plan, &result) {
                Err(error) => Err((error, BackgroundErrorReason::ManifestWrite)),
                Ok(()) => Ok(result),
            },
        };
        if let Err((error, reason)) = &outcome
            && error.kind() != ErrorKind::Incomplete
        {
            self.set_background_error(state, *reason, error);
        }
        let outcome = outcome.map_err(|(error, _)| error);
        match &outcome {
            Ok(result) => self.count_compaction(&data, &plan, result, micros()),
            Err(error) if error.subcode() == SubCode::MergeOperatorFailed => {
                record_tick(self.statistics.as_ref(), Ticker::NumberMergeFailures, 1);
            }
            Err(_) => {}
        }
        if plan.work == CompactionWork::Merge {
            self.file_manager.on_compaction_end(plan.input_bytes());
        }
        plan.set_busy(false);
        state.running.retain(|running| !Arc::ptr_eq(running, &plan));
        state.release_outputs(&numbers.into_inner());
        let retired = self.install_super_version(state, id);
        self.background.notify_all();
        MutexGuard::unlocked(state, || drop(retired));
        let done = CompactionReport { plan: &plan, elapsed_micros: micros(), outcome: outcome.as_ref() };
        let told = thread::catch_panic("the compaction", || {
            let _at_work = self.workers.enter();
            self.report_compaction_end(state, &data, job, &done);
            Ok(())
        });
        if let Err(error) = told {
            self.set_background_error(state, BackgroundErrorReason::Compaction, &error);
        }
        outcome.map(|_| ())
    }

    /// Sets space for a compaction aside. Where there is none the family is queued again.
    fn admit_compaction(&self, state: &mut DbState, plan: &CompactionPlan) -> bool {
        let disk_was_full = state.errors.error().is_some_and(|error| error.subcode() == SubCode::NoSpace);
        let free_in = disk_was_full.then_some(self.path.as_path());
        let admitted = self.file_manager.enough_room_for_compaction(plan.input_bytes(), free_in);
        if !admitted {
            record_tick(self.statistics.as_ref(), Ticker::CompactionCancelled, 1);
            self.queue_compaction_if_needed(state, plan.column_family);
        }
        admitted
    }

    /// Merges the inputs of a plan. Runs without the mutex.
    fn merge(
        &self,
        job: u64,
        plan: &CompactionPlan,
        data: &Arc<ColumnFamilyData>,
        numbers: &Mutex<Vec<FileNumber>>,
        cancelled: Option<&AtomicBool>,
    ) -> Result<CompactionResult> {
        let db = self.options();
        let options = data.options();
        let now_secs = self.env.clock().now_secs();
        let place =
            OutputPlace { level: plan.output_level, path_id: plan.output_path_id, base_level: plan.base_level.max(1) };
        let table_job = TableJob { id: job, reason: TableCreationReason::Compaction };
        let mut settings = self.output_settings(data, place, table_job, now_secs);
        settings.bottommost = plan.bottommost;
        settings.compression = plan.output_compression;
        if let Some(temperature) = plan.output_temperature {
            settings.temperature = firn_format::version_edit::Temperature(temperature as u8);
        }
        settings.target_file_size = plan.target_output_file_size_bytes;
        let new_number = || {
            let number = self.state.lock().new_output();
            numbers.lock().push(number);
            number
        };
        let leveled = options.compaction_style == CompactionStyle::Level;
        let context = CompactionContext {
            tables: Arc::clone(data.tables()) as Arc<dyn TableSource>,
            settings,
            snapshots: self.snapshots.sequences(),
            write_conflict_boundary: SequenceNumber::MAX,
            merge_operator: options.merge_operator.clone(),
            filter: options.compaction_filter.clone(),
            filter_factory: options.compaction_filter_factory.clone(),
            leveled,
            allow_ingest_behind: db.allow_ingest_behind || options.cf_allow_ingest_behind,
            enforce_single_del_contracts: db.enforce_single_del_contracts,
            verify_record_count: db.compaction_verify_record_count,
            readahead_bytes: db.compaction_readahead_size,
            min_part_bytes: plan.target_output_file_size_bytes,
            output_cursor: plan.version.compact_cursor(plan.output_level).cloned(),
            old_files: old_files(plan, options.ttl, now_secs),
            new_file_number: &new_number,
            signals: StopSignals { closing: Some(&self.closing), dropped: Some(data.dropped_flag()), cancelled },
            listeners: self.listeners.clone(),
            part_info: self.subcompaction_info(data, job, plan),
            workers: Some(&self.workers),
        };
        job::run(plan, &context)
    }

    /// Adds what a plan did to the sums of its family and to the statistics.
    fn count_compaction(&self, data: &ColumnFamilyData, plan: &CompactionPlan, result: &CompactionResult, micros: u64) {
        let input_bytes = |at_output: bool| {
            let files = plan.input_files().filter(|(level, _)| (*level == plan.output_level) == at_output);
            files.map(|(_, file)| file.file_size).sum::<u64>()
        };
        let mut sums = data.stats.lock();
        match plan.work {
            CompactionWork::TrivialMove => sums.add_moved(plan.output_level, input_bytes(false)),
            CompactionWork::DropFiles => {}
            CompactionWork::Merge => {
                let (drops, written) = (&result.drops, result.output_bytes());
                let stats = CompactionStats {
                    micros,
                    cpu_micros: result.cpu_micros,
                    bytes_read_non_output: input_bytes(false),
                    bytes_read_output: input_bytes(true),
                    bytes_written: written,
                    num_input_records: drops.input_records,
                    num_dropped_records: drops.input_records.saturating_sub(result.output_records),
                    num_input_files: plan.input_files().count() as u64,
                    num_output_files: result.outputs.len() as u64,
                    count: 1,
                    ..CompactionStats::default()
                };
                sums.add_compaction(plan.output_level, JobPriority::Low, stats);
                drop(sums);
                let Some(statistics) = &self.statistics else { return };
                for (ticker, count) in [
                    (Ticker::CompactReadBytes, stats.bytes_read_non_output + stats.bytes_read_output),
                    (Ticker::CompactWriteBytes, written),
                    (Ticker::CompactionKeyDropNew, drops.dropped_hidden),
                    (Ticker::CompactionKeyDropObsolete, drops.dropped_obsolete),
                    (Ticker::CompactionRangeDelDropObsolete, drops.dropped_range_tombstones),
                    (Ticker::NumberMergeFailures, drops.merge_failures),
                    (Ticker::CompactionKeyDropRangeDel, drops.dropped_range_deleted),
                    (Ticker::CompactionKeyDropUser, drops.dropped_by_filter),
                ] {
                    statistics.record_tick(ticker, count);
                }
                statistics.report_time(HistogramKind::CompactionTimesMicros, micros);
                statistics.record_in_histogram(HistogramKind::NumfilesInSinglecompaction, stats.num_input_files);
                let parts = result.parts as u64;
                statistics.record_in_histogram(HistogramKind::NumSubcompactionsScheduled, parts);
            }
        }
    }

    /// Logs what a plan did: inputs out, outputs in.
    fn log_plan(
        &self,
        state: &mut MutexGuard<'_, DbState>,
        plan: &CompactionPlan,
        result: &CompactionResult,
    ) -> Result<()> {
        let mut edit = VersionEdit { column_family: plan.column_family, ..VersionEdit::default() };
        for (level, file) in plan.input_files() {
            edit.delete_file(level_number(level), file.number);
        }
        let files = match plan.work {
            CompactionWork::TrivialMove => plan.input_files().map(|(_, file)| file.to_new_file()).collect(),
            CompactionWork::Merge | CompactionWork::DropFiles => result.new_files(),
        };
        for file in files {
            edit.add_file(level_number(plan.output_level), file);
        }
        if let Some(cursor) = &plan.next_cursor {
            edit.compact_cursors.push((level_number(plan.start_level), cursor.clone()));
        }
        VersionSet::log_and_apply(state, edit.into()).map(|_| ())
    }

    /// Compacts a range for a caller; see [`Db::compact_range`](crate::Db::compact_range).
    ///
    /// # Errors
    /// What stopped it; `Incomplete` when it was cancelled.
    pub(crate) fn compact_range(
        &self,
        options: &CompactRangeOptions,
        data: &Arc<ColumnFamilyData>,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<()> {
        self.check_writable()?;
        self.check_owner(data)?;
        data.check_live()?;
        let cf = data.options();
        let paths = data.table_dirs.len();
        if options.target_path_id as usize >= paths {
            return Err(Error::invalid_argument("Invalid target path ID"));
        }
        if cf.compaction_style == CompactionStyle::Fifo && options.change_level {
            return Err(Error::not_supported("FIFO compaction does not support change_level."));
        }
        if options.full_history_ts_low.is_some() {
            return Err(Error::not_supported("full_history_ts_low without user-defined timestamps"));
        }
        check_cancelled(options)?;
        if may_be_in_memory(data, begin, end) {
            let flush = FlushOptions { allow_write_stall: options.allow_write_stall, ..FlushOptions::default() };
            self.flush_for(&flush, std::slice::from_ref(data), FlushReason::ManualCompaction)?;
        }
        let exclusive = options.exclusive_manual_compaction.then(|| self.stop_automatic_compactions());
        let result = match cf.compaction_style {
            CompactionStyle::Level => self.compact_levels(options, data, begin, end),
            CompactionStyle::Universal => self.compact_everything(options, data, begin, end),
            CompactionStyle::Fifo => {
                // What an automatic one would do next, also where those are off.
                let mut state = self.state.lock();
                while state.is_ingesting(data.id) {
                    self.wait_for_background(&mut state);
                }
                let job = state.new_job_id();
                let plan = self.with_picker_input(&state, data.id, picker::pick).flatten();
                plan.map_or(Ok(()), |plan| self.carry_out(&mut state, job, plan, options.canceled.as_deref()))
            }
            CompactionStyle::None => Ok(()),
        };
        drop(exclusive);
        self.purge_obsolete_files(None);
        result
    }

    /// Keeps automatic compactions from starting, and waits for those that run, until the guard goes.
    fn stop_automatic_compactions(&self) -> ExclusiveCompaction<'_> {
        let mut state = self.state.lock();
        state.exclusive_manual += 1;
        while state.compactions_running > 0 || !state.running.is_empty() {
            self.wait_for_background(&mut state);
        }
        ExclusiveCompaction(self)
    }

    /// Level by level downwards, then the last level onto itself where the options ask for it.
    fn compact_levels(
        &self,
        options: &CompactRangeOptions,
        data: &Arc<ColumnFamilyData>,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<()> {
        let mut state = self.state.lock();
        let first_new_file = state.versions.numbers().peek();
        let levels = self.with_picker_input(&state, data.id, |input| manual_levels(input, begin, end)).flatten();
        let Some(levels) = levels else { return Ok(()) };
        let mut level = levels.first;
        while level < levels.last || level == 0 {
            let next_level =
                |state: &DbState| self.with_picker_input(state, data.id, |input| next_manual_level(input, level));
            let Some(next) = next_level(&state).filter(|next| *next > level) else { break };
            let step = self.manual_step(options, ManualCompaction::new(level, next, begin, end));
            self.run_manual_steps(&mut state, options, data.id, step)?;
            // The base level may be another one by now.
            let Some(next) = next_level(&state) else { return Ok(()) };
            level = next;
        }
        let rewrite = match options.bottommost_level_compaction {
            BottommostLevelCompaction::Skip => false,
            BottommostLevelCompaction::IfHaveCompactionFilter => data.options().has_compaction_filter(),
            BottommostLevelCompaction::Force | BottommostLevelCompaction::ForceOptimized => true,
        };
        if rewrite && level > 0 {
            let mut step = self.manual_step(options, ManualCompaction::new(level, level, begin, end));
            step.disallow_trivial_move = true;
            if options.bottommost_level_compaction != BottommostLevelCompaction::Force {
                step.ignore_files_from = Some(first_new_file);
            }
            self.run_manual_steps(&mut state, options, data.id, step)?;
        }
        if options.change_level {
            self.refit_level(&mut state, data.id, level, usize::try_from(options.target_level).ok())?;
        }
        Ok(())
    }

    /// All sorted runs into one.
    fn compact_everything(
        &self,
        options: &CompactRangeOptions,
        data: &Arc<ColumnFamilyData>,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<()> {
        let mut state = self.state.lock();
        let Some(levels) = state.versions.family(data.id).map(|family| family.current().num_levels()) else {
            return Ok(());
        };
        // The last level may be kept free for files that are ingested behind.
        let reserved = usize::from(self.allows_ingest_behind(&data.options()));
        let last = (levels - 1).saturating_sub(reserved);
        let step = self.manual_step(options, ManualCompaction::new(0, last, begin, end));
        self.run_manual_steps(&mut state, options, data.id, step)?;
        if options.change_level {
            self.refit_level(&mut state, data.id, last, usize::try_from(options.target_level).ok())?;
        }
        Ok(())
    }

    fn manual_step(&self, options: &CompactRangeOptions, step: ManualCompaction) -> ManualCompaction {
        ManualCompaction {
            max_subcompactions: options.max_subcompactions,
            output_path_id: (options.target_path_id > 0).then_some(options.target_path_id),
            ..step
        }
    }

    /// Runs the rounds of one step, waiting where other compactions are in the way.
    fn run_manual_steps(
        &self,
        state: &mut MutexGuard<'_, DbState>,
        options: &CompactRangeOptions,
        id: u32,
        mut step: ManualCompaction,
    ) -> Result<()> {
        loop {
            check_cancelled(options)?;
            if self.closing.load(Ordering::Acquire) {
                return Err(Error::shutdown_in_progress("Database shutdown"));
            }
            if state.errors.stops_background_work()
                && let Some(error) = state.errors.error()
            {
                return Err(error.clone());
            }
            if state.is_ingesting(id) {
                self.wait_for_background(state);
                continue;
            }
            match self.with_picker_input(state, id, |input| pick_manual(input, &step)) {
                None | Some(ManualStep::Nothing) => return Ok(()),
                Some(ManualStep::Conflict) => self.wait_for_background(state),
                Some(ManualStep::Run { plan, resume }) => {
                    let job = state.new_job_id();
                    self.carry_out(state, job, *plan, options.canceled.as_deref())?;
                    MutexGuard::unlocked(state, || self.purge_obsolete_files(Some(job)));
                    if resume.is_none() {
                        return Ok(());
                    }
                    step.resume = resume;
                }
            }
        }
    }

    /// Compacts named files; see [`Db::compact_files`](crate::Db::compact_files).
    ///
    /// # Errors
    /// What keeps the files from being compacted, or stopped it.
    pub(crate) fn compact_files(
        &self,
        options: &CompactionOptions,
        data: &Arc<ColumnFamilyData>,
        numbers: &[FileNumber],
        output_level: usize,
    ) -> Result<()> {
        self.check_writable()?;
        self.check_owner(data)?;
        data.check_live()?;
        let mut state = self.state.lock();
        while state.is_ingesting(data.id) {
            self.wait_for_background(&mut state);
        }
        // A file that is moved stays as it is.
        let rewrites = options.compression != CompressionType::DisableOption
            || options.output_temperature_override != Temperature::Unknown;
        let work = if options.allow_trivial_move && !rewrites { MayMove::Yes } else { MayMove::No };
        let picked = self
            .with_picker_input(&state, data.id, |input| pick_files(input, numbers, output_level, 0, &data.name, work));
        let Some(mut plan) = picked.transpose()? else { return Ok(()) };
        // The caller's limit is the only place where outputs end: they are not aligned with the files below.
        plan.target_output_file_size_bytes = options.output_file_size_limit;
        plan.max_output_file_size_bytes = options.output_file_size_limit;
        plan.grandparents.clear();
        if options.compression != CompressionType::DisableOption {
            plan.output_compression = options.compression;
        }
        if options.max_subcompactions > 0 {
            plan.max_subcompactions = options.max_subcompactions;
        }
        if options.output_temperature_override != Temperature::Unknown {
            plan.output_temperature = Some(options.output_temperature_override);
        }
        let job = state.new_job_id();
        self.carry_out(&mut state, job, plan, options.canceled.as_deref())?;
        drop(state);
        self.purge_obsolete_files(Some(job));
        Ok(())
    }

    /// Hangs the files of a level under another one, as they are.
    fn refit_level(
        &self,
        state: &mut MutexGuard<'_, DbState>,
        id: u32,
        level: usize,
        target: Option<usize>,
    ) -> Result<()> {
        state.exclusive_manual += 1;
        while !state.running.is_empty() {
            self.wait_for_background(state);
        }
        let moved = match self.with_picker_input(state, id, |input| refit_target(input, level, target)) {
            None => Ok(()),
            Some(Err(error)) => Err(error),
            Some(Ok(target)) if target == level => Ok(()),
            Some(Ok(target)) => {
                let mut edit = VersionEdit { column_family: id, ..VersionEdit::default() };
                let files: Vec<Arc<FileMetaData>> =
                    state.versions.family(id).map(|family| family.current().files(level).to_vec()).unwrap_or_default();
                for file in &files {
                    // `compact_files` starts while others wait; it must not take what moves as the edit is written.
                    file.set_being_compacted(true);
                    edit.delete_file(level_number(level), file.number);
                    edit.add_file(level_number(target), file.to_new_file());
                }
                let logged = VersionSet::log_and_apply(state, edit.into()).map(|_| ());
                files.iter().for_each(|file| file.set_being_compacted(false));
                logged
            }
        };
        state.exclusive_manual -= 1;
        let retired = self.install_super_version(state, id);
        MutexGuard::unlocked(state, || drop(retired));
        moved
    }

    /// Deletes whole files of a range; see [`Db::delete_files_in_range`](crate::Db::delete_files_in_range).
    ///
    /// # Errors
    /// `IoError` when the MANIFEST cannot be written.
    pub(crate) fn delete_files_in_range(
        &self,
        data: &Arc<ColumnFamilyData>,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<()> {
        self.check_writable()?;
        self.check_owner(data)?;
        let mut state = self.state.lock();
        let Some(family) = state.versions.family(data.id) else { return Ok(()) };
        let files = files_to_delete_in_range(family.current(), begin, end, RangeEnd::Inclusive);
        if files.is_empty() {
            return Ok(());
        }
        let mut edit = VersionEdit { column_family: data.id, ..VersionEdit::default() };
        for (level, file) in &files {
            // Nobody picks them while the edit is written.
            file.set_being_compacted(true);
            edit.delete_file(level_number(*level), file.number);
        }
        let logged = VersionSet::log_and_apply(&mut state, ManifestChange::from(edit));
        files.iter().for_each(|(_, file)| file.set_being_compacted(false));
        let retired = self.install_super_version(&mut state, data.id);
        drop(state);
        drop((retired, files));
        logged?;
        self.purge_obsolete_files(None);
        Ok(())
    }
}

/// Lets automatic compactions start again when dropped.
struct ExclusiveCompaction<'a>(&'a DbInner);

impl Drop for ExclusiveCompaction<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.exclusive_manual -= 1;
        self.0.maybe_schedule(&mut state);
    }
}

/// Whether a memtable may have keys between `begin` and `end`, both included. Without both it is said to.
fn may_be_in_memory(data: &ColumnFamilyData, begin: Option<&[u8]>, end: Option<&[u8]>) -> bool {
    let (Some(begin), Some(end)) = (begin, end) else { return true };
    let range = KeyRange {
        order: data.comparator.clone(),
        smallest: InternalKey::for_seek(begin, SequenceNumber::MAX),
        largest: InternalKey::new(end, SequenceNumber::ZERO, ValueType::FOR_SEEK_FOR_PREV),
    };
    let super_version = data.super_version.current();
    std::iter::once(&super_version.mem).chain(&super_version.imm).any(|memtable| range.meets_memtable(memtable))
}

fn check_cancelled(options: &CompactRangeOptions) -> Result<()> {
    if options.canceled.as_ref().is_some_and(|canceled| canceled.load(Ordering::Acquire)) {
        return Err(Error::incomplete("").with_subcode(SubCode::ManualCompactionPaused));
    }
    Ok(())
}

/// Input files of the output level that outlived half their time to live.
fn old_files(plan: &CompactionPlan, ttl: u64, now_secs: u64) -> Vec<Arc<FileMetaData>> {
    if ttl == 0 || ttl >= u64::MAX - 1 || plan.bottommost || plan.inputs.len() < 2 {
        return Vec::new();
    }
    let limit = now_secs.saturating_sub(ttl / 2);
    let is_old = |file: &&Arc<FileMetaData>| {
        let born = file.try_oldest_ancester_time();
        born > 0 && born < limit && file.file_size > plan.target_output_file_size_bytes / 2
    };
    plan.files_of_level(plan.output_level).iter().filter(is_old).map(Arc::clone).collect()
}

/// Levels as the MANIFEST counts them.
fn level_number(level: usize) -> u32 {
    u32::try_from(level).unwrap_or(u32::MAX)
}
