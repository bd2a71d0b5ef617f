//! An open-addressed array of slots of fixed size.
//!
//! A search starts at a slot given by the hash and proceeds by a step given by the hash; slots count how many values were
//! stored beyond them, so that searches end early and nothing needs to be marked deleted. Slots never move.
//!
//! Always true here: the length is a power of two and steps are odd, so a search visits every slot once; less than all
//! slots are taken.

use super::CacheKey;
use super::slot::{Life, Slot};
use firn_env::pages::{Backing, HUGE_PAGE_BYTES, map_zeroed, unmap};
use firn_env::sync::atomic::{AtomicUsize, Ordering};
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::ptr::NonNull;

pub(super) struct Table<V> {
    slots: NonNull<Slot<V>>,
    /// Number of slots minus one.
    mask: usize,
    /// The table that this one replaced, which still holds what was referred to at that time.
    older: Option<NonNull<Table<V>>>,
    counters: Counters,
}

/// Kept away from what lookups read.
#[repr(align(64))]
struct Counters {
    taken: AtomicUsize,
    /// Where the CLOCK hand stands; changed under the mutex only.
    hand: AtomicUsize,
}

// SAFETY: a table owns its slots and, through its shard, the older tables; slots may be shared and sent if `V` may.
unsafe impl<V: Send + Sync> Send for Table<V> {}
// SAFETY: as above.
unsafe impl<V: Send + Sync> Sync for Table<V> {}

/// The positions that a search visits, in order.
#[derive(Clone, Copy)]
pub(super) struct Probe {
    position: usize,
    step: usize,
}

impl Probe {
    #[inline]
    pub(super) fn new(hash: u64) -> Self {
        Self { position: hash as usize, step: (hash >> 20) as usize | 1 }
    }

    #[inline]
    fn advance(&mut self) {
        self.position = self.position.wrapping_add(self.step);
    }
}

impl<V> Table<V> {
    /// A table of `len` slots, a power of two, that replaces `older`.
    pub(super) fn new(len: usize, older: Option<NonNull<Self>>) -> Self {
        debug_assert!(len.is_power_of_two());
        let layout = Self::layout(len);
        // All bytes zero is an empty slot, so that memory which was never used needs never be touched.
        let memory = if Self::is_mapped(layout) {
            map_zeroed(layout.size(), Backing::HugePages).as_ptr()
        } else {
            // SAFETY: the layout is not empty: `len` is at least one and slots are not zero-sized.
            unsafe { alloc_zeroed(layout) }
        };
        let Some(slots) = NonNull::new(memory.cast::<Slot<V>>()) else { handle_alloc_error(layout) };
        let counters = Counters { taken: AtomicUsize::new(0), hand: AtomicUsize::new(0) };
        Self { slots, mask: len - 1, older, counters }
    }

    fn layout(len: usize) -> Layout {
        // A cache that asks for more slots than the address space has is out of memory.
        Layout::array::<Slot<V>>(len).unwrap_or_else(|_| handle_alloc_error(Layout::new::<Slot<V>>()))
    }

    /// Whether slots of this layout come straight from the system: lookups touch them at random, and huge pages help.
    fn is_mapped(layout: Layout) -> bool {
        layout.size() >= HUGE_PAGE_BYTES && layout.size().is_multiple_of(HUGE_PAGE_BYTES)
    }

    pub(super) fn len(&self) -> usize {
        self.mask + 1
    }

    pub(super) fn older(&self) -> Option<NonNull<Self>> {
        self.older
    }

    #[inline]
    pub(super) fn slot(&self, position: usize) -> &Slot<V> {
        // SAFETY: the mask keeps the position below the number of slots, which live as long as the table.
        unsafe { self.slots.add(position & self.mask).as_ref() }
    }

    /// Asks the processor to fetch the first slot of a search.
    #[inline]
    pub(super) fn prefetch(&self, probe: Probe) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            let slot: *const Slot<V> = self.slot(probe.position);
            // SAFETY: prefetching has no effect that a program can see; the address is that of a slot.
            unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(slot.cast()) };
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = probe;
    }

    /// Calls `visit` with each slot of a search, until it returns a result or the search ends.
    #[inline]
    pub(super) fn search<'t, T>(
        &'t self,
        mut probe: Probe,
        mut visit: impl FnMut(&'t Slot<V>) -> Option<T>,
    ) -> Option<T> {
        for _ in 0..=self.mask {
            let slot = self.slot(probe.position);
            if let Some(found) = visit(slot) {
                return Some(found);
            }
            if slot.ends_search() {
                return None;
            }
            probe.advance();
        }
        None
    }

    pub(super) fn taken(&self) -> usize {
        self.counters.taken.load(Ordering::Relaxed)
    }

    /// Whether one more value would make searches long.
    pub(super) fn is_full(&self) -> bool {
        self.taken() >= self.len() / 8 * 5
    }

    /// Under the mutex: puts a value into the first empty slot of its search.
    pub(super) fn publish(
        &self,
        key: &CacheKey,
        hash: u64,
        value: V,
        charge_bytes: usize,
        life: Life,
        references: u64,
    ) -> &Slot<V> {
        let mut probe = Probe::new(hash);
        debug_assert!(self.taken() < self.len());
        loop {
            let slot = self.slot(probe.position);
            if slot.is_empty() {
                slot.publish(key, value, charge_bytes, life, references);
                self.counters.taken.fetch_add(1, Ordering::Relaxed);
                return slot;
            }
            slot.add_displacement();
            probe.advance();
        }
    }

    /// Under the mutex: empties a claimed slot of this table.
    ///
    /// # Safety
    /// The caller has claimed the slot and does not use it as claimed afterwards.
    pub(super) unsafe fn vacate(&self, slot: &Slot<V>) -> V {
        let mut probe = Probe::new(slot.key().hash());
        loop {
            let passed = self.slot(probe.position);
            if std::ptr::eq(passed, slot) {
                break;
            }
            passed.remove_displacement();
            probe.advance();
        }
        self.counters.taken.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: passed on from the caller.
        unsafe { slot.vacate() }
    }

    /// Whether the slot is one of this table.
    pub(super) fn contains(&self, slot: &Slot<V>) -> bool {
        let first = self.slots.as_ptr().cast_const();
        (first..first.wrapping_add(self.len())).contains(&std::ptr::from_ref(slot))
    }

    /// Under the mutex: the next slot for the CLOCK hand.
    pub(super) fn next_under_hand(&self) -> &Slot<V> {
        let hand = self.counters.hand.load(Ordering::Relaxed);
        self.counters.hand.store(hand.wrapping_add(1), Ordering::Relaxed);
        self.slot(hand)
    }

    /// All slots.
    pub(super) fn slots(&self) -> impl Iterator<Item = &Slot<V>> {
        (0..self.len()).map(|position| self.slot(position))
    }
}

impl<V> Drop for Table<V> {
    fn drop(&mut self) {
        debug_assert_eq!(self.taken(), 0, "values are taken out before their table goes");
        let layout = Self::layout(self.len());
        // SAFETY: the memory was made with this layout in `new`, the same way; slots without value own nothing.
        unsafe {
            if Self::is_mapped(layout) {
                unmap(self.slots.cast(), layout.size());
            } else {
                std::alloc::dealloc(self.slots.as_ptr().cast(), layout);
            }
        }
    }
}
