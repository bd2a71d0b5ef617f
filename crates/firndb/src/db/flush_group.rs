//! Flushes of some families together (`FlushOptions::force_atomic_flush`), where others flush one by one.
//!
//! The families are claimed before their memtables are switched at one moment; from then on no other flush takes anything of
//! them, so that one record of the MANIFEST holds all of the group or nothing. Always true here: a family is in one group at a
//! time, and a group claims all its families at once, so that groups do not wait for each other in a circle.

use std::sync::Arc;

use firn_env::sync::atomic::Ordering;
use firn_env::{Priority, thread};
use firn_error::{Error, Result};

use super::flush::{FlushReason, FlushRequest};
use super::{DbInner, DbState};
use crate::options::FlushOptions;

/// Families that are flushed together; free again when this goes.
struct Group {
    db: Arc<DbInner>,
    families: Vec<u32>,
}

impl Drop for Group {
    fn drop(&mut self) {
        let mut state = self.db.state.lock();
        for id in &self.families {
            if let Some(family) = state.families.get_mut(id) {
                family.in_group = false;
            }
        }
        // What became immutable meanwhile waits for a request of its own.
        let families = self.families.clone();
        let reason = FlushReason::WriteBufferFull;
        self.db.queue_flush(&mut state, FlushRequest { families, reason, is_group: false });
        self.db.background.notify_all();
    }
}

impl DbInner {
    /// Flushes families together; see [`FlushOptions::force_atomic_flush`].
    ///
    /// # Errors
    /// What stopped it: then none of them was flushed by this call.
    pub(crate) fn flush_together(&self, options: &FlushOptions, families: Vec<u32>, reason: FlushReason) -> Result<()> {
        let group = {
            // Claimed by whoever leads the write queue: who waits for a flush there waits for no group that still needs it.
            let _front = self.writers.enter_exclusive();
            let group = self.claim(families)?;
            let mut log = self.log.lock();
            let mut state = self.state.lock();
            if state.errors.is_stopped()
                && let Some(error) = state.errors.error().cloned()
            {
                // The group takes the lock again.
                drop((state, log));
                return Err(error);
            }
            let switched = self.switch_memtables(&mut log, &mut state, &group.families);
            drop((state, log));
            switched?;
            group
        };
        if reason == FlushReason::ManualFlush {
            let families = group.families.clone();
            self.report_scheduled_flush(&FlushRequest { families, reason, is_group: true });
        }
        if options.wait {
            return group.flush(reason);
        }
        self.env.pools().schedule_tagged(
            Priority::High,
            self.instance,
            move || {
                let _at_work = group.db.workers.enter();
                // Its failure is a background error, or none that anybody asked for.
                let _ = group.flush(reason);
            },
            || (),
        );
        Ok(())
    }

    /// Claims families for a group, once no other group has any of them.
    fn claim(&self, families: Vec<u32>) -> Result<Group> {
        let Some(db) = self.this.upgrade() else { return Err(closing()) };
        let mut state = self.state.lock();
        while families.iter().any(|id| state.families.get(id).is_some_and(|family| family.in_group)) {
            if self.closing.load(Ordering::Acquire) {
                return Err(closing());
            }
            self.wait_for_background(&mut state);
        }
        for id in &families {
            if let Some(family) = state.families.get_mut(id) {
                family.in_group = true;
            }
        }
        drop(state);
        Ok(Group { db, families })
    }
}

impl Group {
    fn flush(&self, reason: FlushReason) -> Result<()> {
        let db = &self.db;
        let mut state = db.state.lock();
        // Older memtables may be on their way; nobody starts with newer ones.
        let is_flushing = |state: &DbState, id: &u32| state.families.get(id).is_some_and(|family| family.flushing > 0);
        while state.paused > 0 || self.families.iter().any(|id| is_flushing(&state, id)) {
            if db.closing.load(Ordering::Acquire) {
                return Err(closing());
            }
            db.wait_for_background(&mut state);
        }
        if db.closing.load(Ordering::Acquire) {
            return Err(closing());
        }
        if let Some(error) = state.errors.error().filter(|_| state.errors.stops_background_work()) {
            return Err(error.clone());
        }
        // Closing waits for it as for any flush.
        state.flushes_scheduled += 1;
        state.flushes_running += 1;
        let job = state.new_job_id();
        let request = FlushRequest { families: self.families.clone(), reason, is_group: true };
        let flushed = thread::catch_panic("the flush", || db.run_flush(&mut state, job, &request));
        state.flushes_scheduled -= 1;
        state.flushes_running -= 1;
        state.finished_jobs += 1;
        db.maybe_schedule(&mut state);
        db.background.notify_all();
        drop(state);
        db.purge_obsolete_files(Some(job));
        flushed
    }
}

fn closing() -> Error {
    Error::shutdown_in_progress("the database is closing")
}
