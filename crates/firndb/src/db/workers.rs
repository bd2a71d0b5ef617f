//! Who works for a database, and what went wrong there that is no background error.
//!
//! Threads enter when they begin a job or a life of their own and leave with the guard. Calls that wait for jobs ask whether
//! they come from one: callbacks run there, and may drop the last handle.

use firn_env::sync::Mutex;
use firn_env::thread::{self, ThreadId};
use firn_error::Error;

/// The threads that work for one database; one that works in several ways at once is there as often.
#[derive(Debug, Default)]
pub(crate) struct Workers(Mutex<Vec<ThreadId>>);

impl Workers {
    /// The current thread works from now on, until what this returns goes.
    pub(crate) fn enter(&self) -> AtWork<'_> {
        let id = thread::current().id();
        self.0.lock().push(id);
        AtWork { workers: self, id }
    }

    /// Whether the current thread is one of them.
    pub(crate) fn has_current(&self) -> bool {
        self.0.lock().contains(&thread::current().id())
    }
}

/// A thread works; see [`Workers::enter`].
pub(crate) struct AtWork<'a> {
    workers: &'a Workers,
    id: ThreadId,
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        let mut threads = self.workers.0.lock();
        if let Some(at) = threads.iter().position(|id| *id == self.id) {
            threads.swap_remove(at);
        }
    }
}

/// Failures of one kind that are tried again.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    count: u64,
    last: Option<Error>,
}

impl Failures {
    /// Adds one.
    pub(crate) fn note(&mut self, error: &Error) {
        self.count += 1;
        self.last = Some(error.clone());
    }

    /// How many there were.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The last one.
    pub(crate) fn last(&self) -> Option<Error> {
        self.last.clone()
    }
}
