//! Background errors of the running database: what they stop, and how it goes on after them, by itself or when asked.
//!
//! Failures of jobs and of the write path flow in through [`DbInner::set_background_error`]; [`judge`] says how bad they are
//! and whether a recovery may help. A recovery is a thread of its own that waits (for time to pass, or for space to come
//! back) and attempts: broken WALs are replaced, what lies in memory is flushed, the MANIFEST is written anew. Only when all
//! of that went well is the error forgotten and do writes go on (`docs/behaviour/background.md`, Recovery from errors).
//!
//! Always true here: at most one recovery runs; while an error stops writes, nothing is acknowledged; a WAL that failed takes
//! no further record, and what it holds is in tables before a record goes to another one.

use std::time::Duration;

use firn_env::sync::MutexGuard;
use firn_env::sync::atomic::Ordering;
use firn_env::{log_info, log_warn, thread};
use firn_error::{Error, ErrorKind, Result, Severity, SubCode};
use firn_format::version_edit::VersionEdit;

use super::error_handler::{AutoRecovery, BackgroundErrorReason, Strictness, Verdict, judge};
use super::flush::{FlushReason, FlushRequest};
use super::{DbInner, DbState};
use crate::stats::events::ErrorRecoveryInfo;
use crate::stats::{Ticker, record_tick};
use crate::version::{ManifestChange, VersionSet};

impl DbInner {
    /// Keeps a failure as the background error, if it is bad enough and no listener takes it away, and starts to recover
    /// from it where that may help. The mutex is given up while listeners are told.
    pub(crate) fn set_background_error(
        &self,
        state: &mut MutexGuard<'_, DbState>,
        reason: BackgroundErrorReason,
        error: &Error,
    ) {
        if matches!(error.kind(), ErrorKind::ShutdownInProgress | ErrorKind::ColumnFamilyDropped) {
            return;
        }
        state.background_errors += 1;
        self.count(Ticker::ErrorHandlerBgErrorCount);
        if error.kind() == ErrorKind::IoError {
            self.count(Ticker::ErrorHandlerBgIoErrorCount);
            if error.is_retryable() {
                self.count(Ticker::ErrorHandlerBgRetryableIoErrorCount);
            }
        }
        let options = self.options();
        let strictness = Strictness {
            paranoid_checks: options.paranoid_checks,
            manual_wal_flush: options.manual_wal_flush,
            allow_2pc: options.allow_2pc,
        };
        let mut verdict = judge(reason, error, strictness);
        if verdict.recovery == AutoRecovery::Retry && options.max_bgerror_resume_count <= 0 {
            verdict.recovery = AutoRecovery::None;
        }
        let begins = verdict.recovery != AutoRecovery::None && self.may_recover(state);
        let told = MutexGuard::unlocked(state, || self.tell_background_error(reason, error, &mut verdict, begins));
        if let Some(error) = told {
            log_warn!(self.logger(), "Background error ({reason:?}, severity {:?}): {error}", verdict.severity);
            state.errors.store(error, verdict);
            if begins && verdict.recovery != AutoRecovery::None && self.may_recover(state) {
                self.start_recovery(state);
            }
        }
        self.update_attention(state);
        self.background.notify_all();
    }

    fn count(&self, ticker: Ticker) {
        record_tick(self.statistics.as_ref(), ticker, 1);
    }

    fn may_recover(&self, state: &DbState) -> bool {
        self.opened.load(Ordering::Acquire) && !self.closing.load(Ordering::Acquire) && !state.errors.is_recovering()
    }

    /// Tells listeners of an error, and that a recovery begins; returns what they leave of the error. Called without the
    /// mutex.
    fn tell_background_error(
        &self,
        reason: BackgroundErrorReason,
        error: &Error,
        verdict: &mut Verdict,
        begins: bool,
    ) -> Option<Error> {
        let retryable = verdict.recovery == AutoRecovery::Retry || error.is_retryable();
        // A WAL that failed takes no more records, whatever anybody says.
        let binding = retryable || reason == BackgroundErrorReason::WriteCallback;
        let severity = if retryable { Severity::None } else { verdict.severity };
        let mut told = Some(error.clone().with_severity(severity));
        self.listeners.tell_calmly(|listener| listener.on_background_error(reason, &mut told));
        if begins && let Some(error) = &told {
            let mut allowed = true;
            self.listeners.tell_calmly(|listener| allowed &= listener.on_error_recovery_begin(reason, error));
            if !allowed && !retryable {
                verdict.recovery = AutoRecovery::None;
            }
        }
        if binding { Some(error.clone()) } else { told }
    }

    /// Starts the thread that recovers.
    fn start_recovery(&self, state: &mut DbState) {
        let Some(db) = self.this.upgrade() else { return };
        self.count(Ticker::ErrorHandlerAutoresumeCount);
        state.errors.set_recovering(true);
        state.own_threads += 1;
        if let Err(error) = thread::spawn("firn:recover", move || db.run_recovery()) {
            state.errors.set_recovering(false);
            state.own_threads -= 1;
            log_warn!(self.logger(), "No recovery: {error}");
        }
    }

    /// The life of the thread that recovers.
    fn run_recovery(&self) {
        let _at_work = self.workers.enter();
        let recovered = thread::catch_panic("the recovery", || {
            self.recover();
            Ok(())
        });
        let mut state = self.state.lock();
        if let Err(error) = recovered {
            log_warn!(self.logger(), "No recovery: {error}");
            state.errors.set_recovering(false);
        }
        state.own_threads -= 1;
        self.background.notify_all();
        // The guard goes before the thread's reference to the database does.
        drop(state);
    }

    /// Attempts to recover until it works, or until nothing is left to hope for.
    fn recover(&self) {
        let old_error = self.state.lock().errors.error().cloned();
        let interval = self.options().bgerror_resume_retry_interval;
        let most_retries = self.options().max_bgerror_resume_count;
        let mut retries = 0;
        let new_error = loop {
            if let Some(end) = self.end_of_hope() {
                break Some(end);
            }
            let recovery = self.state.lock().errors.recovery();
            let outcome = match recovery {
                AutoRecovery::None => break self.state.lock().errors.error().cloned(),
                AutoRecovery::WhenSpaceReturns => match self.has_space_again() {
                    Ok(true) => self.attempt(),
                    Ok(false) => {
                        self.rest(&mut self.state.lock(), interval, |_| false);
                        continue;
                    }
                    Err(error) => break Some(error),
                },
                AutoRecovery::Retry if retries >= most_retries => {
                    break Some(Error::aborted("Exceeded resume retry count"));
                }
                AutoRecovery::Retry => {
                    retries += 1;
                    self.count(Ticker::ErrorHandlerAutoresumeRetryTotalCount);
                    self.attempt()
                }
            };
            match outcome {
                Ok(()) => break None,
                Err(error) => {
                    log_info!(self.logger(), "Recovery attempt failed: {error}");
                    let mut state = self.state.lock();
                    if !state.errors.is_worth_another_attempt(&error) {
                        drop(state);
                        break self.end_of_hope().or(Some(error));
                    }
                    self.rest(&mut state, interval, |_| false);
                }
            }
        };
        let mut state = self.state.lock();
        match &new_error {
            Some(_) => state.errors.set_recovering(false),
            None => self.count(Ticker::ErrorHandlerAutoresumeSuccessCount),
        }
        drop(state);
        self.tell_recovery_end(old_error, new_error);
    }

    /// The error that ends a recovery: the database closes, or it became fatal.
    fn end_of_hope(&self) -> Option<Error> {
        let state = self.state.lock();
        let stored = state.errors.error().cloned();
        let closing = self.closing.load(Ordering::Acquire);
        stored.filter(|error| closing || error.severity() >= Severity::Fatal)
    }

    /// Waits so many microseconds, or until the database closes or `done`.
    pub(crate) fn rest(&self, state: &mut MutexGuard<'_, DbState>, micros: u64, done: impl Fn(&DbState) -> bool) {
        let clock = self.env.clock();
        let until = clock.now_nanos().saturating_add(micros.saturating_mul(1000));
        while !self.closing.load(Ordering::Acquire) && !done(state) {
            let left = until.saturating_sub(clock.now_nanos());
            if left == 0 {
                return;
            }
            if clock.is_manual() {
                MutexGuard::unlocked(state, || clock.sleep_micros(left.div_ceil(1000)));
            } else {
                self.background.wait_for(state, Duration::from_nanos(left));
            }
        }
    }

    /// Whether so much space is free that going on makes sense: room for a memtable after an error that stopped writes, so
    /// that they are not let in only to be stopped at once.
    ///
    /// # Errors
    /// When the file system cannot tell.
    fn has_space_again(&self) -> Result<bool> {
        let (stopped, over_limit) = {
            let state = self.state.lock();
            let over_limit = state.errors.error().is_some_and(|error| error.subcode() == SubCode::SpaceLimit);
            (state.errors.is_stopped(), over_limit)
        };
        if over_limit {
            return Ok(!self.file_manager.is_max_allowed_space_reached());
        }
        let buffers = self.families.all().iter().map(|data| data.options().write_buffer_size as u64).max();
        let reserved = self.file_manager.reserved_for_compactions_bytes();
        let needed = if stopped { buffers.unwrap_or(0) } else { reserved };
        let most = match self.file_manager.max_allowed_space_bytes() {
            0 => u64::MAX,
            most => most,
        };
        self.env.fs().free_space_bytes(&self.path).map(|free| free.min(most) >= needed.max(1))
    }

    /// One attempt to recover; see the module.
    ///
    /// # Errors
    /// What stopped it; the database is as before then, or worse.
    fn attempt(&self) -> Result<()> {
        let mut state = self.state.lock();
        if state.errors.severity() == Severity::Soft && !state.errors.stops_background_work() {
            return self.go_on(state);
        }
        while state.flushes_running > 0 || state.compactions_running > 0 || !state.running.is_empty() {
            self.wait_for_background(&mut state);
        }
        let Some(error) = state.errors.error().cloned() else { return self.go_on(state) };
        if error.severity() >= Severity::Fatal {
            return Err(error);
        }
        log_info!(self.logger(), "Trying to recover from: {error}");
        let stopped = state.errors.is_stopped();
        drop(state);
        if stopped {
            // No WAL is trusted any more: everything in memory goes to tables.
            self.alone(|log, state| {
                self.replace_broken_wals(log, state)?;
                let all: Vec<u32> = state.families.keys().copied().collect();
                self.switch_memtables(log, state, &all).map(|_| ())
            })?;
        }
        let reason = if stopped { FlushReason::ErrorRecovery } else { FlushReason::ErrorRecoveryRetryFlush };
        let mut state = self.state.lock();
        let families: Vec<u32> =
            state.families.values().filter(|family| !family.imm.is_empty()).map(|family| family.data.id).collect();
        if !families.is_empty() {
            // Together: when WALs may have lost what they held, no family must get ahead of the others.
            let job = state.new_job_id();
            self.run_flush(&mut state, job, &FlushRequest { families, reason, is_group: true })?;
        }
        self.forget_old_wals(&mut state, stopped)?;
        drop(state);
        self.purge_all_obsolete_files();
        self.go_on(self.state.lock())
    }

    /// Writes the MANIFEST, which may have failed before; after a full flush it says that no family needs an older WAL, so
    /// that a record which failed never comes back.
    fn forget_old_wals(&self, state: &mut MutexGuard<'_, DbState>, all_flushed: bool) -> Result<()> {
        let mut edits = vec![VersionEdit::default()];
        if all_flushed && let Some(wal) = state.live_wals.back().map(|wal| wal.number) {
            let behind = |id: &u32| state.versions.family(*id).is_some_and(|family| family.recorded_log_number() < wal);
            let empty = state.families.values().filter(|family| family.is_empty()).map(|family| family.data.id);
            edits.extend(empty.filter(behind).map(|id| VersionEdit {
                column_family: id,
                log_number: Some(wal),
                ..VersionEdit::default()
            }));
            let keep = state.oldest_prepared_wal.map_or(wal, |prepared| wal.min(prepared));
            if state.families.values().all(|family| family.is_empty()) && keep > state.versions.min_log_number_to_keep()
            {
                let wal_deletion = self.options().track_and_verify_wals_in_manifest.then_some(keep);
                edits.push(VersionEdit { min_log_number_to_keep: Some(keep), wal_deletion, ..VersionEdit::default() });
            }
        }
        let change = ManifestChange { edits, ..ManifestChange::default() };
        VersionSet::log_and_apply(state, change).map(|_| ()).inspect_err(|error| {
            self.set_background_error(state, BackgroundErrorReason::ManifestWrite, error);
        })
    }

    /// Forgets the error and starts what has waited for that.
    fn go_on(&self, mut state: MutexGuard<'_, DbState>) -> Result<()> {
        state.errors.clear();
        self.update_attention(&mut state);
        let ids: Vec<u32> = state.families.keys().copied().collect();
        for id in ids {
            let Some(family) = state.families.get_mut(&id).filter(|family| !family.imm.is_empty()) else { continue };
            family.flush_requested = true;
            let reason = FlushReason::CatchUpAfterErrorRecovery;
            self.queue_flush(&mut state, FlushRequest { families: vec![id], reason, is_group: false });
        }
        let retired = self.look_at_all_families(&mut state);
        self.maybe_schedule(&mut state);
        self.background.notify_all();
        drop(state);
        drop(retired);
        Ok(())
    }

    fn tell_recovery_end(&self, old_error: Option<Error>, new_error: Option<Error>) {
        let Some(old_error) = old_error else { return };
        match &new_error {
            None => log_info!(self.logger(), "Recovered from: {old_error}"),
            Some(error) => log_warn!(self.logger(), "Recovery ended with: {error}"),
        }
        let info = ErrorRecoveryInfo { old_error, new_error };
        self.listeners.tell_calmly(|listener| listener.on_error_recovery_end(&info));
    }

    /// Clears a background error that can be recovered from; see [`Db::resume`](crate::Db::resume).
    ///
    /// # Errors
    /// The error itself when it is fatal; `Busy` while the database recovers by itself; what stops the flush that makes good
    /// for a WAL that is not trusted any more.
    pub(crate) fn resume(&self) -> Result<()> {
        self.check_writable()?;
        let mut state = self.state.lock();
        let Some(error) = state.errors.error().cloned().filter(|_| state.errors.stops_background_work()) else {
            return Ok(());
        };
        if state.errors.is_recovering() {
            return Err(Error::busy("Recovery in progress"));
        }
        if error.severity() >= Severity::Fatal {
            return Err(error);
        }
        state.errors.set_recovering(true);
        drop(state);
        let outcome = self.attempt();
        if outcome.is_err() {
            self.state.lock().errors.set_recovering(false);
        }
        self.tell_recovery_end(Some(error), outcome.as_ref().err().cloned());
        outcome
    }
}
