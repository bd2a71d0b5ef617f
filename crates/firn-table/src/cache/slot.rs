//! One place for one value, and the atomic word that says who may do what with it.
//!
//! ```text
//! word     references (32 bits) | countdown (2 bits) | high priority | ... | state
//!
//! empty ──claim──▶ claimed ──publish──▶ visible ──hide──▶ invisible ──claim──▶ claimed ──vacate──▶ empty
//!                                          └───────────claim (no references)──────▶
//! ```
//!
//! State changes happen under the mutex of the slot's shard; references come and go without it. A reference counts only if
//! it was added while the slot was visible with the wanted key (or cloned from one that counts); one that was added too
//! late is given back and its owner never looks at the value. Whoever has claimed a slot owns key, charge and value alone.
//!
//! Always true here: a claim is made only when no reference that counts exists; an invisible slot gains none.

use super::CacheKey;
use firn_env::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

const ONE_REFERENCE: u64 = 1;
const REFERENCES: u64 = u32::MAX as u64;
const COUNTDOWN_SHIFT: u32 = 32;
const COUNTDOWN: u64 = 3 << COUNTDOWN_SHIFT;
/// The value belongs to the pool of high priority.
const HIGH: u64 = 1 << 34;
const VISIBLE: u64 = 1 << 60;
const INVISIBLE: u64 = 1 << 61;
const CLAIMED: u64 = 1 << 62;
/// Beside `INVISIBLE`: the cache is gone, and this slot's last reference holds a strong count of the shard.
const ORPHAN: u64 = 1 << 63;
const STATE: u64 = VISIBLE | INVISIBLE | CLAIMED | ORPHAN;

/// How long a value stays: its countdown and whether it belongs to the pool of high priority; bits of the word.
#[derive(Clone, Copy)]
pub(super) struct Life(u64);

impl Life {
    /// So many rounds of the hand.
    pub(super) const fn new(countdown: u64, high: bool) -> Self {
        Self((countdown << COUNTDOWN_SHIFT & COUNTDOWN) | if high { HIGH } else { 0 })
    }

    pub(super) const fn is_high(self) -> bool {
        self.0 & HIGH != 0
    }
}

/// A place for a value. All bytes zero is an empty slot.
#[repr(align(64))]
pub(super) struct Slot<V> {
    word: AtomicU64,
    file: AtomicU64,
    block: AtomicU64,
    charge_bytes: AtomicUsize,
    /// How many values lie elsewhere because their search passed this slot; a search that meets 0 is over.
    displacements: AtomicU32,
    value: UnsafeCell<MaybeUninit<V>>,
}

// SAFETY: `value` is read through `&self` only by holders of counted references and written only by the holder of a
// claim; the atomic word orders the two. What is shared between threads is therefore `&V`, what moves is `V`.
unsafe impl<V: Send + Sync> Sync for Slot<V> {}

/// What a lookup found in a slot.
pub(super) enum Acquired {
    /// A reference to the wanted value was counted.
    Yes,
    /// Nothing was counted.
    No,
    /// A reference was counted, but of something else; it must be released.
    Wrong,
}

/// What the CLOCK hand found in a slot.
pub(super) enum Visit {
    /// Nothing, or something that is about to go.
    Empty,
    /// A value that somebody refers to.
    Pinned,
    /// A value that got a round less.
    Aged,
    /// A value whose time is over: claimed now.
    Claimed,
}

/// What hiding a slot led to.
#[derive(PartialEq, Eq)]
pub(super) enum Hidden {
    /// Nobody refers to the value: claimed now.
    Claimed,
    /// The last reference will free the slot.
    Later,
}

impl<V> Slot<V> {
    #[inline]
    fn has_key(&self, key: &CacheKey) -> bool {
        self.file.load(Ordering::Relaxed) == key.file && self.block.load(Ordering::Relaxed) == key.block
    }

    /// The key; meaningful to holders of a reference or of the shard's mutex.
    pub(super) fn key(&self) -> CacheKey {
        CacheKey::new(self.file.load(Ordering::Relaxed), self.block.load(Ordering::Relaxed))
    }

    /// The charge; meaningful to holders of a reference or of the shard's mutex.
    pub(super) fn charge_bytes(&self) -> usize {
        self.charge_bytes.load(Ordering::Relaxed)
    }

    /// Whether no search passed this slot to store its value elsewhere.
    #[inline]
    pub(super) fn ends_search(&self) -> bool {
        self.displacements.load(Ordering::Relaxed) == 0
    }

    pub(super) fn add_displacement(&self) {
        self.displacements.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn remove_displacement(&self) {
        let before = self.displacements.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0);
    }

    /// Tries to count a reference to the value under `key`, and marks the value as used.
    #[inline]
    pub(super) fn acquire(&self, key: &CacheKey) -> Acquired {
        // Look before writing: a word of another value must not travel between cores for this search.
        if self.word.load(Ordering::Relaxed) & VISIBLE == 0 || !self.has_key(key) {
            return Acquired::No;
        }
        // Acquire: pairs with `publish`, so that key and value are seen as they were published.
        let before = self.word.fetch_add(ONE_REFERENCE, Ordering::Acquire);
        if before & VISIBLE == 0 || !self.has_key(key) {
            return Acquired::Wrong;
        }
        if before & COUNTDOWN != COUNTDOWN {
            self.word.fetch_or(COUNTDOWN, Ordering::Relaxed);
        }
        Acquired::Yes
    }

    /// Tries to count a reference to whatever value is here, without marking it as used.
    pub(super) fn acquire_any(&self) -> Acquired {
        if self.word.load(Ordering::Relaxed) & VISIBLE == 0 {
            return Acquired::No;
        }
        if self.word.fetch_add(ONE_REFERENCE, Ordering::Acquire) & VISIBLE == 0 {
            Acquired::Wrong
        } else {
            Acquired::Yes
        }
    }

    /// Counts one more reference for somebody who has one.
    #[inline]
    pub(super) fn add_reference(&self) {
        let before = self.word.fetch_add(ONE_REFERENCE, Ordering::Relaxed);
        debug_assert!(before & REFERENCES != 0 && before & REFERENCES != REFERENCES);
    }

    /// Gives a reference back; `false` when the slot is invisible, and the shard must do it under its mutex.
    #[inline]
    pub(super) fn release(&self) -> bool {
        // Not a plain subtraction: the last reference to an invisible value must stay counted until the mutex is held,
        // since it is what keeps the shard alive.
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word & INVISIBLE != 0 {
                return false;
            }
            debug_assert!(word & REFERENCES != 0);
            // Release: what this reference read happens before a later claim.
            match self.word.compare_exchange_weak(word, word - ONE_REFERENCE, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
    }

    /// Under the mutex: gives back a reference to an invisible slot; claims the slot if it was the last one.
    /// Returns whether it did, and whether the slot was an orphan.
    pub(super) fn release_invisible(&self) -> (bool, bool) {
        if self.word.load(Ordering::Relaxed) & INVISIBLE == 0 {
            // A reference that came too late saw the slot between its hiding and its claim, and waited for the mutex
            // meanwhile. Whatever is here now does not depend on it.
            self.word.fetch_sub(ONE_REFERENCE, Ordering::Release);
            return (false, false);
        }
        let before = self.word.fetch_sub(ONE_REFERENCE, Ordering::AcqRel);
        debug_assert!(before & REFERENCES != 0);
        if before & REFERENCES != ONE_REFERENCE {
            return (false, false);
        }
        // No reference that counts is left and none can come; late ones may still be added and given back.
        let state = before & (INVISIBLE | ORPHAN);
        self.word.fetch_xor(state | CLAIMED, Ordering::AcqRel);
        self.clear_countdown();
        (true, before & ORPHAN != 0)
    }

    fn clear_countdown(&self) {
        self.word.fetch_and(!COUNTDOWN, Ordering::Relaxed);
    }

    /// Whether the value belongs to the pool of high priority; meaningful to holders of a claim.
    pub(super) fn is_high(&self) -> bool {
        self.word.load(Ordering::Relaxed) & HIGH != 0
    }

    /// Under the mutex: whether a value can be put here.
    pub(super) fn is_empty(&self) -> bool {
        self.word.load(Ordering::Relaxed) & STATE == 0
    }

    /// Under the mutex: whether a lookup of `key` would find this slot.
    pub(super) fn shows(&self, key: &CacheKey) -> bool {
        self.word.load(Ordering::Relaxed) & VISIBLE != 0 && self.has_key(key)
    }

    /// Under the mutex: whether a reference is counted.
    pub(super) fn is_pinned(&self) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        word & (VISIBLE | INVISIBLE) != 0 && word & REFERENCES != 0
    }

    /// Under the mutex: fills an empty slot and makes it visible with `references` counted.
    pub(super) fn publish(&self, key: &CacheKey, value: V, charge_bytes: usize, life: Life, references: u64) {
        debug_assert!(self.is_empty());
        self.word.fetch_or(CLAIMED, Ordering::Acquire);
        self.file.store(key.file, Ordering::Relaxed);
        self.block.store(key.block, Ordering::Relaxed);
        self.charge_bytes.store(charge_bytes, Ordering::Relaxed);
        // SAFETY: the slot is claimed, so nobody else reads or writes the value.
        unsafe { (*self.value.get()).write(value) };
        // Claimed becomes visible and the references are added in one step; references that came too late stay counted.
        // Release: whoever sees the slot visible sees key and value.
        let change = VISIBLE.wrapping_sub(CLAIMED).wrapping_add(life.0).wrapping_add(references);
        self.word.fetch_add(change, Ordering::Release);
    }

    /// Under the mutex: claims the slot if it is visible and nobody refers to it; returns the life it had.
    pub(super) fn claim(&self) -> Option<Life> {
        let word = self.word.load(Ordering::Relaxed);
        if word & VISIBLE == 0 || word & REFERENCES != 0 {
            return None;
        }
        // Acquire: pairs with the releases of all earlier references.
        self.word.compare_exchange(word, CLAIMED | (word & HIGH), Ordering::AcqRel, Ordering::Relaxed).ok()?;
        Some(Life(word & (COUNTDOWN | HIGH)))
    }

    /// Under the mutex: what the CLOCK hand does to this slot. With `spare_high`, values of high priority stay.
    pub(super) fn visit(&self, spare_high: bool) -> Visit {
        let word = self.word.load(Ordering::Relaxed);
        if word & VISIBLE == 0 {
            return if word & INVISIBLE != 0 { Visit::Pinned } else { Visit::Empty };
        }
        if word & REFERENCES != 0 {
            return Visit::Pinned;
        }
        let (next, outcome) = if word & COUNTDOWN != 0 {
            (word - (1 << COUNTDOWN_SHIFT), Visit::Aged)
        } else if spare_high && word & HIGH != 0 {
            return Visit::Aged;
        } else {
            (CLAIMED | (word & HIGH), Visit::Claimed)
        };
        match self.word.compare_exchange(word, next, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => outcome,
            Err(_) => Visit::Pinned,
        }
    }

    /// Under the mutex: hides a visible slot from lookups; claims it if nobody refers to it.
    pub(super) fn hide(&self) -> Hidden {
        let before = self.word.fetch_xor(VISIBLE | INVISIBLE, Ordering::AcqRel);
        debug_assert!(before & VISIBLE != 0);
        if before & REFERENCES != 0 {
            return Hidden::Later;
        }
        self.word.fetch_xor(INVISIBLE | CLAIMED, Ordering::AcqRel);
        self.clear_countdown();
        Hidden::Claimed
    }

    /// Under the mutex, when the cache goes: lets the last reference, if there is one, know that it keeps the shard.
    /// Returns `None` for a slot without value.
    pub(super) fn orphan(&self) -> Option<Hidden> {
        let word = self.word.load(Ordering::Relaxed);
        let change = match word & STATE {
            VISIBLE => VISIBLE | INVISIBLE | ORPHAN,
            INVISIBLE => ORPHAN,
            _ => return None,
        };
        let before = self.word.fetch_xor(change, Ordering::AcqRel);
        if before & REFERENCES != 0 {
            return Some(Hidden::Later);
        }
        self.word.fetch_xor(INVISIBLE | ORPHAN | CLAIMED, Ordering::AcqRel);
        self.clear_countdown();
        Some(Hidden::Claimed)
    }

    /// The value.
    ///
    /// # Safety
    /// The caller holds a counted reference for as long as the result is used.
    #[inline]
    pub(super) unsafe fn value(&self) -> &V {
        // SAFETY: a counted reference was taken after `publish` wrote the value, and keeps claims away.
        unsafe { (*self.value.get()).assume_init_ref() }
    }

    /// Takes the value out of a claimed slot and makes the slot empty.
    ///
    /// # Safety
    /// The caller has claimed the slot, holds the mutex, and does not call this twice for one claim.
    pub(super) unsafe fn vacate(&self) -> V {
        debug_assert!(self.word.load(Ordering::Relaxed) & STATE == CLAIMED);
        // SAFETY: the claim makes the caller the only user of the value, which `publish` wrote.
        let value = unsafe { (*self.value.get()).assume_init_read() };
        // Not a store: references that came too late stay counted until they are given back.
        self.word.fetch_and(!(CLAIMED | HIGH), Ordering::Release);
        value
    }
}
