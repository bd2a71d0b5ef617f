//! One number for each running thread, as small as possible, so that counters can be kept apart without contention.
//!
//! A thread takes a number when it first counts and gives it back when it ends. While it holds the number nobody else does,
//! so that it may change what is kept under the number without atomic read-modify-write operations.

use std::cell::Cell;

use firn_env::sync::StaticMutex;

/// How many threads have a number of their own; further threads share [`SHARED_SLOT`].
pub(super) const OWN_SLOTS: usize = 64;

/// The number of threads that have none of their own.
pub(super) const SHARED_SLOT: usize = OWN_SLOTS;

const UNKNOWN: usize = usize::MAX;

/// Which numbers are free: bit `n` for number `n`.
static FREE: StaticMutex<u64> = StaticMutex::new(u64::MAX);

/// Gives the number back when the thread ends.
struct Lease(usize);

impl Lease {
    fn take() -> Self {
        let mut free = FREE.lock();
        let slot = free.trailing_zeros() as usize;
        if slot < OWN_SLOTS {
            *free &= !(1 << slot);
        }
        Self(slot)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // What this thread still counts while it ends goes to the shared place.
        SLOT.set(SHARED_SLOT);
        if self.0 < OWN_SLOTS {
            *FREE.lock() |= 1 << self.0;
        }
    }
}

thread_local! {
    static SLOT: Cell<usize> = const { Cell::new(UNKNOWN) };
    static LEASE: Lease = Lease::take();
}

/// The number of the calling thread, from 0 to [`SHARED_SLOT`].
#[inline]
pub(super) fn thread_slot() -> usize {
    let slot = SLOT.get();
    if slot == UNKNOWN { take_slot() } else { slot }
}

#[cold]
fn take_slot() -> usize {
    let slot = LEASE.try_with(|lease| lease.0.min(SHARED_SLOT)).unwrap_or(SHARED_SLOT);
    SLOT.set(slot);
    slot
}
