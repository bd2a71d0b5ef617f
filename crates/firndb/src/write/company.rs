//! Company for a sync: a leader that is about to sync waits a moment for writers that are likely to come.
//!
//! Writers whose group was just synced come back at once when they write one batch after the other. Without a wait the
//! first of them leads alone while the others miss it, so that groups alternate between one writer and all others. In:
//! how many writers wait, and how large the last groups became. Out: a wait of at most a quarter of a sync. Always true
//! here: who waits in vain expects fewer the next time, and more than were seen last is expected only now and then.

use firn_env::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use firn_env::thread::{self, Elapsed};

/// The longest wait, in microseconds.
const MAX_WAIT_MICROS: u64 = 100;
/// One in so many groups tries whether there is one writer more.
const TRY_MORE_ONE_IN: u64 = 32;

/// What the leaders of a queue learned. Only whoever leads touches it.
#[derive(Debug, Default)]
pub(super) struct Company {
    /// Writers of the last synced group.
    expected: AtomicUsize,
    /// How long the last sync took, with its write.
    sync_micros: AtomicU64,
    groups: AtomicU64,
}

impl Company {
    /// Waits while `waiting` says that fewer writers are in the queue than the last group had, if not for long, and runs
    /// `sync` with what is there then; it tells how large the group was.
    pub(super) fn sync<R>(&self, waiting: impl Fn() -> usize, sync: impl FnOnce() -> (R, usize)) -> R {
        let groups = self.groups.load(Ordering::Relaxed);
        self.groups.store(groups + 1, Ordering::Relaxed);
        let more = usize::from(groups.is_multiple_of(TRY_MORE_ONE_IN));
        let expected = self.expected.load(Ordering::Relaxed) + more;
        let budget = (self.sync_micros.load(Ordering::Relaxed) / 4).min(MAX_WAIT_MICROS);
        if waiting() < expected && !cfg!(feature = "shuttle") {
            thread::yield_until(budget, || waiting() >= expected);
        }
        let time = Elapsed::start();
        let (result, length) = sync();
        self.sync_micros.store(time.micros(), Ordering::Relaxed);
        self.expected.store(length, Ordering::Relaxed);
        result
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_leader_waits_for_as_many_as_came_last_and_gives_up_on_those_that_do_not() {
        let company = Company::default();
        let asked = Cell::new(0);
        let sync = |waiting: &dyn Fn() -> usize| {
            asked.set(0);
            let count = || {
                asked.set(asked.get() + 1);
                waiting()
            };
            company.sync(count, || {
                thread::yield_until(2000, || false);
                ((), waiting())
            });
        };
        // A group of four, found without a wait.
        sync(&|| 4);
        assert_eq!(asked.get(), 1);
        // The fourth comes while the leader waits.
        sync(&|| if asked.get() < 3 { 1 } else { 4 });
        assert_eq!(asked.get(), 3);
        // Nobody comes: this leader waits, the next one does not.
        sync(&|| 1);
        assert!(asked.get() > 1);
        sync(&|| 1);
        assert_eq!(asked.get(), 1);
    }
}
