//! Background work: which jobs run when, what their failures mean, and how the database comes to rest.
//!
//! Families flow in through the flush and the compaction queue; [`DbInner::maybe_schedule`] hands jobs to the pools of the
//! environment as far as the limits allow. Always true here: a family stands in each queue at most once; every job that was
//! scheduled is counted until it ended, and closing waits for all of them.

use std::sync::Arc;
use std::time::Duration;

use firn_env::sync::MutexGuard;
use firn_env::sync::atomic::Ordering;
use firn_env::{Priority, log_error, thread};
use firn_error::{Error, ErrorKind, Result};

use super::error_handler::BackgroundErrorReason;
use super::flush::{FlushReason, FlushRequest};
use super::report::Retired;
use super::snapshot::SnapshotReleased;
use super::{DbInner, DbState, attention};
use crate::compaction::picker::{self, FilterUse, LevelScores, LevelTargets, PickerInput, PickerOptions, score};
use crate::options::{BackgroundJobLimits, CompactionStyle, FlushOptions};
use crate::stats::events::WriteStallInfo;
use crate::write::controller::{StallFacts, stall_condition};

/// How long a job that failed waits before the next one, so that a failing disk is not hammered.
const PAUSE_AFTER_FAILURE_MICROS: u64 = 1_000_000;

impl DbInner {
    /// Makes the current memtables and version of a family what readers see, and looks anew at what follows from them:
    /// stalls, due flushes, due compactions. The caller drops what is returned without the mutex.
    pub(crate) fn install_super_version(&self, state: &mut DbState, id: u32) -> Retired {
        let Some(version) = state.versions.family(id).map(|family| Arc::clone(family.current())) else {
            return Retired::default();
        };
        let Some(family) = state.families.get_mut(&id) else { return Retired::default() };
        let super_versions = family.install(version);
        let stall = self.look_at_family(state, id);
        Retired::new(super_versions, &self.listeners, stall)
    }

    /// Installs super versions of all families, as after an open.
    pub(crate) fn install_all_super_versions(&self, state: &mut MutexGuard<'_, DbState>) {
        let ids: Vec<u32> = state.families.keys().copied().collect();
        let mut retired = Retired::default();
        ids.into_iter().for_each(|id| retired.absorb(self.install_super_version(state, id)));
        if self.opened.load(Ordering::Acquire) || !self.read_only {
            let mut log = self.log.try_lock();
            if let Some(log) = &mut log {
                self.refresh_log(log, state);
            }
        }
        MutexGuard::unlocked(state, || drop(retired));
    }

    /// [`look_at_family`](Self::look_at_family) for all of them. The caller drops what is returned without the mutex.
    pub(crate) fn look_at_all_families(&self, state: &mut DbState) -> Retired {
        let ids: Vec<u32> = state.families.keys().copied().collect();
        let mut retired = Retired::default();
        for id in ids {
            let stall = self.look_at_family(state, id);
            retired.absorb(Retired::new(Vec::new(), &self.listeners, stall));
        }
        retired
    }

    /// Evaluates stalls and due compactions of a family after its files or memtables changed. Returns how writes go now, if
    /// they go differently.
    fn look_at_family(&self, state: &mut DbState, id: u32) -> Option<WriteStallInfo> {
        if self.read_only {
            return None;
        }
        let scores = self.scores(state, id)?;
        let version = Arc::clone(state.versions.family(id)?.current());
        let family = state.families.get_mut(&id)?;
        let options = family.data.options();
        let deeper = version.levels().iter().skip(1).filter(|files| !files.is_empty()).count();
        let l0_files = match options.compaction_style {
            CompactionStyle::Universal => version.files(0).len() + deeper,
            _ => version.files(0).len(),
        };
        let bottommost = version.num_non_empty_levels().saturating_sub(1);
        let previous = family.stall_condition();
        let current = family.recalculate_stall(StallFacts {
            unflushed_memtables: family.imm.len(),
            l0_files,
            pending_compaction_bytes: scores.pending_compaction_bytes,
            bottommost_bytes: version.level_bytes(bottommost),
            files_marked_for_compaction: version
                .all_files()
                .filter(|(_, file)| file.is_marked_for_compaction() && !file.being_compacted())
                .count(),
        });
        let name = &family.data.name;
        let info = || WriteStallInfo { column_family: name.clone(), current, previous };
        let change = (!self.listeners.is_empty() && current != previous).then(info);
        if family.tell_pace() && !self.env.pools().is_stepped() {
            self.raise(attention::PACED);
        }
        if !options.disable_auto_compactions {
            self.queue_compaction_if_needed(state, id);
        }
        self.update_attention(state);
        self.maybe_schedule(state);
        change
    }

    /// Where a family needs compaction.
    pub(crate) fn scores(&self, state: &DbState, id: u32) -> Option<LevelScores> {
        let version = state.versions.family(id)?.current();
        let options = self.picker_options(state, id)?;
        Some(score::compute(version, &options, self.env.clock().now_secs()))
    }

    /// How large the levels of a family are meant to be.
    pub(crate) fn targets(&self, state: &DbState, id: u32) -> Option<LevelTargets> {
        let version = state.versions.family(id)?.current();
        Some(score::targets(version, &self.picker_options(state, id)?))
    }

    /// The options of a family as the pickers see them.
    pub(crate) fn picker_options(&self, state: &DbState, id: u32) -> Option<PickerOptions> {
        let options = state.families.get(&id)?.data.options();
        let filter = if options.has_compaction_filter() { FilterUse::Filtered } else { FilterUse::Unfiltered };
        Some(PickerOptions::new(&options, &self.options(), filter))
    }

    /// Whether one more memtable and one more table of level 0 would delay or stop writes.
    pub(crate) fn flush_would_stall(&self, state: &DbState, id: u32) -> bool {
        let Some(family) = state.families.get(&id) else { return false };
        let options = family.data.options();
        let facts = StallFacts {
            unflushed_memtables: family.imm.len() + 1,
            l0_files: family.stall_facts.l0_files + 1,
            ..family.stall_facts
        };
        let few = i64::try_from(family.imm.len()).unwrap_or(i64::MAX)
            < i64::from(options.min_write_buffer_number_to_merge)
            && i64::try_from(family.stall_facts.l0_files).unwrap_or(i64::MAX)
                < i64::from(options.level0_file_num_compaction_trigger);
        !few && stall_condition(&facts, &super::column_family::stall_options(&options)).0
            != crate::write::controller::WriteStallCondition::Normal
    }

    /// Queues the families of a request that have something to flush.
    pub(crate) fn queue_flush(&self, state: &mut DbState, mut request: FlushRequest) {
        let atomic = self.options().atomic_flush;
        if atomic {
            // A flush takes what is immutable in all families: a part of that would be a state that never was. The end of
            // one that runs queues what came meanwhile.
            if state.families.values().any(|family| family.flushing > 0) {
                return;
            }
            request.families = state.families.keys().copied().collect();
        }
        request.families.retain(|id| {
            state.families.get(id).is_some_and(|family| {
                !family.queued_for_flush
                    && family.flushing == 0
                    && !family.in_group
                    && (atomic || family.is_flush_pending())
            })
        });
        // A group goes together, but not when none of its families has anything to flush: it would queue itself for ever.
        let any_is_due =
            request.families.iter().any(|id| state.families.get(id).is_some_and(|family| family.is_flush_pending()));
        if !any_is_due {
            return;
        }
        for id in &request.families {
            if let Some(family) = state.families.get_mut(id) {
                family.queued_for_flush = true;
            }
        }
        if atomic {
            state.flush_queue.push_back(request);
        } else {
            let one = |id: &u32| FlushRequest { families: vec![*id], reason: request.reason, is_group: false };
            let requests: Vec<_> = request.families.iter().map(one).collect();
            state.flush_queue.extend(requests);
        }
        self.maybe_schedule(state);
    }

    /// Queues a family that needs compaction, unless it is queued already.
    pub(crate) fn queue_compaction_if_needed(&self, state: &mut DbState, id: u32) {
        let waiting = state.families.get(&id).is_none_or(|f| f.queued_for_compaction || f.data.is_dropped());
        if waiting || !self.with_picker_input(state, id, picker::needs_compaction).unwrap_or(false) {
            return;
        }
        if let Some(family) = state.families.get_mut(&id) {
            family.queued_for_compaction = true;
            state.compaction_queue.push_back(id);
        }
    }

    /// Asks the pickers something about a family.
    pub(crate) fn with_picker_input<R>(
        &self,
        state: &DbState,
        id: u32,
        ask: impl FnOnce(&PickerInput<'_>) -> R,
    ) -> Option<R> {
        let version = state.versions.family(id)?.current();
        let options = self.picker_options(state, id)?;
        let now_secs = self.env.clock().now_secs();
        let scores = score::compute(version, &options, now_secs);
        let running: Vec<_> = state.running.iter().filter(|plan| plan.column_family == id).map(Arc::clone).collect();
        Some(ask(&PickerInput {
            version,
            options: &options,
            scores: &scores,
            running: &running,
            now_secs,
            oldest_snapshot: state.oldest_snapshot_at_release,
            random: state.next_job_id.wrapping_mul(0x9E37_79B9_7F4A_7C15),
        }))
    }

    /// Hands queued work to the pools, as far as the limits allow.
    pub(crate) fn maybe_schedule(&self, state: &mut DbState) {
        let ready = self.opened.load(Ordering::Acquire) && !self.read_only && !self.closing.load(Ordering::Acquire);
        if !ready || state.paused > 0 || state.errors.stops_background_work() {
            return;
        }
        let (max_flushes, max_compactions) = self.job_limits(state.controller.needs_speedup());
        while state.flushes_scheduled < max_flushes
            && state.flushes_scheduled < state.flush_queue.len() + state.flushes_running
        {
            state.flushes_scheduled += 1;
            self.spawn(Priority::High, Self::background_flush);
        }
        if state.exclusive_manual > 0 {
            return;
        }
        while state.compactions_scheduled < max_compactions
            && state.compactions_scheduled < state.compaction_queue.len() + state.compactions_running
        {
            state.compactions_scheduled += 1;
            self.spawn(Priority::Low, Self::background_compaction);
        }
    }

    /// How many flushes and compactions may run at once.
    fn job_limits(&self, under_pressure: bool) -> (usize, usize) {
        let limits = BackgroundJobLimits::of(&self.options(), under_pressure);
        let at_least_one = |limit: i32| usize::try_from(limit).unwrap_or(1).max(1);
        (at_least_one(limits.max_flushes), at_least_one(limits.max_compactions))
    }

    /// Waits until background work ends or something else changes; where nobody but the waiter would do that work
    /// ([`JobPools::stepped`](firn_env::JobPools::stepped)), does a piece of it.
    pub(crate) fn wait_for_background(&self, state: &mut MutexGuard<'_, DbState>) {
        let pools = self.env.pools();
        if !pools.is_stepped() {
            self.background.wait(state);
        } else if !MutexGuard::unlocked(state, || pools.run_one()) {
            // A thread of the database's own may have ended, and told so, while the lock was given up.
            self.background.wait_for(state, Duration::from_millis(1));
        }
    }

    fn spawn(&self, priority: Priority, job: fn(&Self)) {
        let Some(db) = self.this.upgrade() else { return };
        let withdrawn = Arc::clone(&db);
        self.env.pools().schedule_tagged(
            priority,
            self.instance,
            move || {
                let _at_work = db.workers.enter();
                let ended = thread::catch_panic("a background job", || {
                    job(&db);
                    Ok(())
                });
                if let Err(error) = ended {
                    db.job_panicked(priority, &error);
                }
            },
            move || withdrawn.job_withdrawn(priority),
        );
    }

    /// Something that a job called panicked, such as a listener: what the job was about is not known to be whole, but those
    /// who wait for its end must not wait for ever.
    fn job_panicked(&self, priority: Priority, error: &Error) {
        let mut state = self.state.lock();
        let reason = match priority {
            Priority::High => BackgroundErrorReason::FlushNoWal,
            _ => BackgroundErrorReason::Compaction,
        };
        self.set_background_error(&mut state, reason, error);
        match priority {
            Priority::High => state.flushes_running -= 1,
            _ => state.compactions_running -= 1,
        }
        drop(state);
        self.job_withdrawn(priority);
    }

    fn job_withdrawn(&self, priority: Priority) {
        let mut state = self.state.lock();
        match priority {
            Priority::High => state.flushes_scheduled -= 1,
            _ => state.compactions_scheduled -= 1,
        }
        self.background.notify_all();
    }

    fn background_flush(&self) {
        let mut state = self.state.lock();
        state.flushes_running += 1;
        let (mut result, mut job, mut again) = (Ok(()), None, None);
        if !self.closing.load(Ordering::Acquire)
            && !state.errors.stops_background_work()
            && let Some(request) = state.flush_queue.pop_front()
        {
            let families = request.families.clone();
            let id = *job.insert(state.new_job_id());
            result = self.run_flush(&mut state, id, &request);
            let next = FlushRequest { families, reason: FlushReason::WriteBufferFull, is_group: false };
            if result.is_ok() {
                // What became immutable meanwhile waits for a request of its own.
                self.queue_flush(&mut state, next);
            } else {
                again = Some(next);
            }
        }
        self.end_job(state, job, result, again, |state| {
            state.flushes_running -= 1;
            state.flushes_scheduled -= 1;
        });
    }

    fn background_compaction(&self) {
        let mut state = self.state.lock();
        state.compactions_running += 1;
        let (mut result, mut job) = (Ok(()), None);
        if !self.closing.load(Ordering::Acquire)
            && !state.errors.stops_background_work()
            && state.exclusive_manual == 0
            && let Some(id) = state.compaction_queue.pop_front()
        {
            if let Some(family) = state.families.get_mut(&id) {
                family.queued_for_compaction = false;
            }
            let number = *job.insert(state.new_job_id());
            result = self.run_automatic_compaction(&mut state, number, id);
        }
        self.end_job(state, job, result, None, |state| {
            state.compactions_running -= 1;
            state.compactions_scheduled -= 1;
        });
    }

    /// What every job does last: report, clean up, make room for the next.
    fn end_job(
        &self,
        mut state: MutexGuard<'_, DbState>,
        job: Option<u64>,
        result: Result<()>,
        again: Option<FlushRequest>,
        count: fn(&mut DbState),
    ) {
        if let Err(error) = &result
            && !matches!(error.kind(), ErrorKind::ShutdownInProgress | ErrorKind::ColumnFamilyDropped)
        {
            MutexGuard::unlocked(&mut state, || {
                log_error!(self.logger(), "Waiting after background error: {error}");
            });
            // What may go away is tried again while others wait. The rest they must know: it is no background error.
            let will_pass = error.is_retryable() || error.kind() == ErrorKind::CompactionTooLarge;
            if !will_pass && !state.errors.stops_background_work() {
                state.failed_jobs.note(error);
                self.background.notify_all();
            }
            // A recovery has its own pauses.
            self.rest(&mut state, PAUSE_AFTER_FAILURE_MICROS, |state| state.errors.is_recovering());
        }
        if let Some(request) = again {
            self.queue_flush(&mut state, request);
        }
        let always_search = self.options().delete_obsolete_files_period_micros == 0;
        MutexGuard::unlocked(&mut state, || {
            self.purge_obsolete_files(job);
            if always_search {
                self.purge_all_obsolete_files();
            }
        });
        count(&mut state);
        state.finished_jobs += 1;
        self.maybe_schedule(&mut state);
        self.background.notify_all();
        // The guard goes before the job's reference to the database does.
        drop(state);
    }

    /// Starts what an open database does by itself: flushes and compactions that are due.
    pub(crate) fn start_background_work(&self) {
        let (max_flushes, max_compactions) = self.job_limits(true);
        self.env.pools().increase_background_threads(Priority::High, max_flushes);
        self.env.pools().increase_background_threads(Priority::Low, max_compactions);
        let retired = self.look_at_all_families(&mut self.state.lock());
        drop(retired);
    }

    /// Waits until no flush or compaction is running or due.
    ///
    /// # Errors
    /// The background error in force; what ended a job meanwhile, if trying again is not likely to help.
    pub(crate) fn wait_for_compact(&self) -> Result<()> {
        let mut state = self.state.lock();
        let failures_before = state.failed_jobs.count();
        loop {
            if let Some(error) = state.errors.error() {
                return Err(error.clone());
            }
            if state.failed_jobs.count() > failures_before
                && let Some(error) = state.failed_jobs.last()
            {
                return Err(error);
            }
            if self.closing.load(Ordering::Acquire) {
                return Err(Error::shutdown_in_progress("the database is closing"));
            }
            let queued = if state.paused > 0 { 0 } else { state.flush_queue.len() + state.compaction_queue.len() };
            if queued == 0
                && state.flushes_scheduled == 0
                && state.compactions_scheduled == 0
                && state.running.is_empty()
            {
                return Ok(());
            }
            self.wait_for_background(&mut state);
        }
    }

    /// Brings the database to rest and closes its files; see [`Db::close`](crate::Db::close).
    ///
    /// # Errors
    /// What stopped the last flush or the WAL from being closed. The database is closed all the same. `Busy` in a callback of
    /// a job, which this would wait for: then nothing happens.
    pub(crate) fn close(&self) -> Result<()> {
        if self.closing.load(Ordering::Acquire) {
            return Ok(());
        }
        if self.workers.has_current() {
            return Err(Error::busy("a callback cannot close the database, which waits for the job that called it"));
        }
        let mut result = Ok(());
        let options = self.options();
        if !self.read_only && self.has_unlogged_data.load(Ordering::Acquire) && !options.avoid_flush_during_shutdown {
            let flush = FlushOptions { allow_write_stall: true, ..FlushOptions::default() };
            result = self.flush_for(&flush, &self.families.all(), FlushReason::ShutDown);
        }
        if self.closing.swap(true, Ordering::AcqRel) {
            return result;
        }
        self.listeners.tell_calmly(|listener| listener.on_db_shutdown_begin());
        self.raise(super::attention::STOPPED);
        self.env.pools().unschedule(Priority::High, self.instance);
        self.env.pools().unschedule(Priority::Low, self.instance);
        let mut state = self.state.lock();
        self.background.notify_all();
        self.periodic.notify_all();
        while state.flushes_scheduled > 0
            || state.compactions_scheduled > 0
            || state.own_threads > 0
            || !state.running.is_empty()
        {
            self.wait_for_background(&mut state);
        }
        drop(state);
        // Writers that are in the queue finish first.
        drop(self.writers.enter_exclusive());
        if !self.read_only {
            result = result.and(self.close_wals());
            self.purge_obsolete_files(None);
            self.logger().flush();
        }
        self.untrack_files();
        *self.lock.lock() = None;
        result
    }
}

impl DbInner {
    /// Closes because the last handle is gone. Where that happens within a job of this database, which closing waits for,
    /// another thread does it.
    pub(crate) fn close_without_handles(&self) {
        if !self.workers.has_current() {
            // Who wants to know calls `Db::close`.
            let _ = self.close();
            return;
        }
        let Some(db) = self.this.upgrade() else { return };
        let later = Arc::clone(&db);
        let close = |db: Arc<Self>| {
            let _ = db.close();
        };
        if thread::spawn("firn:close", move || close(db)).is_err() {
            // Without threads the pool does it, once it is done with this job.
            self.env.pools().schedule(Priority::Low, move || close(later));
        }
    }
}

impl SnapshotReleased for DbInner {
    fn oldest_snapshot_released(&self) {
        let mut state = self.state.lock();
        let oldest = self.snapshots.oldest().map_or_else(|| self.visible_sequence(), |(sequence, _)| sequence);
        state.oldest_snapshot_at_release = state.oldest_snapshot_at_release.max(oldest);
        let ids: Vec<u32> = state.families.keys().copied().collect();
        for id in ids {
            self.mark_bottommost_files(&mut state, id);
        }
    }
}
