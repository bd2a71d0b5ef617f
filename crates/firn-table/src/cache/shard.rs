//! A part of the cache: the tables whose hashes share their top bits, and the mutex under which values come and go.
//!
//! A shard begins with a small table. When it is full, a table of twice the size takes its place, and all values that
//! nobody refers to move over at once; the others stay where they are, found by searching the older tables too, until
//! they go. Tables are freed with the shard only, so that a search without a lock always stands on solid ground; since
//! sizes double, that costs at most as much again.
//!
//! Always true here: a key is visible at most once in all tables of its shard, but for moments while a value moves, when it
//! is nowhere.

use super::slot::{Acquired, Hidden, Life, Slot, Visit};
use super::table::{Probe, Table};
use super::{CacheKey, Totals};
use firn_env::sync::atomic::{AtomicPtr, Ordering};
use firn_env::sync::{Arc, Mutex};
use std::ptr::NonNull;

const MIN_SLOTS: usize = 64;
const MAX_FIRST_SLOTS: usize = 1 << 16;
/// The CLOCK hand gives up when it met this many pinned values for each one that it evicted, so that a cache full of
/// pinned values does not spend its time searching.
const EVICTION_EFFORT: usize = 30;
/// Rounds after which every value that nobody uses is gone.
const MAX_ROUNDS: usize = 4;
/// Slots of an older table that one eviction visits.
const OLDER_SLOTS_PER_EVICTION: usize = 64;

pub(super) struct Shard<V: Send + Sync + 'static> {
    newest: AtomicPtr<Table<V>>,
    totals: Arc<Totals>,
    /// Held by whoever changes which values are where.
    changes: Mutex<()>,
}

/// What an insertion did.
pub(super) struct Inserted<'s, V> {
    /// The slot of the new value, with one reference counted.
    pub(super) slot: &'s Slot<V>,
    /// The old value, if the key had one that nobody referred to.
    pub(super) replaced: Option<V>,
}

impl<V: Send + Sync + 'static> Shard<V> {
    /// A shard prepared for about this many entries.
    pub(super) fn new(expected_entries: usize, totals: Arc<Totals>) -> Self {
        let slots = (expected_entries * 2).next_power_of_two().clamp(MIN_SLOTS, MAX_FIRST_SLOTS);
        let table = Box::new(Table::new(slots, None));
        Self { newest: AtomicPtr::new(Box::into_raw(table)), totals, changes: Mutex::new(()) }
    }

    #[inline]
    fn newest(&self) -> &Table<V> {
        // SAFETY: the pointer is never null, came from a box, and tables live as long as the shard. Acquire: pairs with the
        // store that published the table.
        unsafe { &*self.newest.load(Ordering::Acquire) }
    }

    /// The tables, newest first.
    fn tables(&self) -> impl Iterator<Item = &Table<V>> {
        std::iter::successors(Some(self.newest()), |table| {
            // SAFETY: as for the newest; a table's predecessor is set before it is published.
            table.older().map(|older| unsafe { older.as_ref() })
        })
    }

    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        self.newest().prefetch(Probe::new(hash));
    }

    /// The slot of `key` with one reference counted.
    #[inline]
    pub(super) fn lookup(&self, key: &CacheKey, hash: u64) -> Option<&Slot<V>> {
        let newest = self.newest();
        match self.lookup_in(newest, key, hash) {
            None if newest.older().is_some() => self.lookup_in_older(key, hash),
            found => found,
        }
    }

    #[cold]
    fn lookup_in_older(&self, key: &CacheKey, hash: u64) -> Option<&Slot<V>> {
        self.tables().skip(1).filter(|table| table.taken() > 0).find_map(|table| self.lookup_in(table, key, hash))
    }

    #[inline]
    fn lookup_in<'s>(&'s self, table: &'s Table<V>, key: &CacheKey, hash: u64) -> Option<&'s Slot<V>> {
        table.search(Probe::new(hash), |slot| match slot.acquire(key) {
            Acquired::Yes => Some(slot),
            Acquired::No => None,
            Acquired::Wrong => {
                // SAFETY: a reference was counted, and `self` is borrowed, so the shard is alive.
                unsafe { Self::release(NonNull::from(self), NonNull::from(slot)) };
                None
            }
        })
    }

    /// Gives back a reference to `slot`, and frees slot and shard if it was the last to need them.
    ///
    /// # Safety
    /// A reference to the slot is counted, which the call takes over; the slot lies in a table of the shard, which is
    /// alive, or kept alive by the slot.
    #[inline]
    pub(super) unsafe fn release(shard: NonNull<Self>, slot: NonNull<Slot<V>>) {
        // SAFETY: the slot is alive because its shard is.
        if !unsafe { slot.as_ref() }.release() {
            // SAFETY: passed on; nothing was given back yet.
            unsafe { Self::release_invisible(shard, slot) };
        }
    }

    #[cold]
    unsafe fn release_invisible(shard: NonNull<Self>, slot: NonNull<Slot<V>>) {
        let (value, orphan) = {
            // SAFETY: the reference that is still counted keeps the shard alive: until the mutex is held, `close` would
            // find it and add a strong count.
            let this = unsafe { shard.as_ref() };
            // SAFETY: as above.
            let slot = unsafe { slot.as_ref() };
            let _changes = this.changes.lock();
            let (claimed, orphan) = slot.release_invisible();
            // SAFETY: `release_invisible` claimed the slot.
            (claimed.then(|| unsafe { this.take(slot) }), orphan)
        };
        drop(value);
        if orphan {
            // SAFETY: `close` added this count for this slot, with the pointer of the same `Arc`; the mutex is not held
            // any more and nothing of the shard is used after this.
            unsafe { Arc::decrement_strong_count(shard.as_ptr().cast_const()) };
        }
    }

    /// Takes the value out of a claimed slot and settles the sums.
    ///
    /// # Safety
    /// The caller holds the mutex and has claimed the slot, which it does not use as claimed afterwards.
    unsafe fn take(&self, slot: &Slot<V>) -> V {
        let charge = slot.charge_bytes();
        let table = self.tables().find(|table| table.contains(slot)).unwrap_or_else(|| self.newest());
        debug_assert!(table.contains(slot));
        self.totals.usage_bytes.fetch_sub(charge, Ordering::Relaxed);
        self.totals.entries.fetch_sub(1, Ordering::Relaxed);
        if slot.is_high() {
            self.totals.high_bytes.fetch_sub(charge, Ordering::Relaxed);
        }
        // SAFETY: passed on from the caller; the slot is one of this table.
        unsafe { table.vacate(slot) }
    }

    /// Puts a value in; its charge is counted already.
    pub(super) fn insert(
        &self,
        key: &CacheKey,
        hash: u64,
        value: V,
        charge_bytes: usize,
        life: Life,
    ) -> Inserted<'_, V> {
        let _changes = self.changes.lock();
        let replaced = self.erase_locked(key, hash);
        if self.newest().is_full() {
            self.grow();
        }
        self.totals.entries.fetch_add(1, Ordering::Relaxed);
        if life.is_high() {
            self.totals.high_bytes.fetch_add(charge_bytes, Ordering::Relaxed);
        }
        let slot = self.newest().publish(key, hash, value, charge_bytes, life, 1);
        Inserted { slot, replaced }
    }

    /// Under the mutex: a table of twice the size, with all values that can move.
    #[cold]
    fn grow(&self) {
        let full = self.newest();
        // The pointer as it came from the box, not from a reference: `drop` makes a box of it again.
        let older = NonNull::new(self.newest.load(Ordering::Acquire));
        let larger = Table::new(full.len() * 2, older);
        let larger: &Table<V> = {
            let pointer = Box::into_raw(Box::new(larger));
            // Published before it is filled: a search that finds a value in neither table just reads the block again.
            self.newest.store(pointer, Ordering::Release);
            self.newest()
        };
        for table in self.tables().skip(1).filter(|table| table.taken() > 0) {
            for slot in table.slots() {
                if let Some(life) = slot.claim() {
                    let (key, charge) = (slot.key(), slot.charge_bytes());
                    // SAFETY: the slot was just claimed, under the mutex, and is one of this table.
                    let value = unsafe { table.vacate(slot) };
                    larger.publish(&key, key.hash(), value, charge, life, 0);
                }
            }
        }
    }

    /// Makes at least `bytes` free if that many belong to values which nobody refers to, or, unless `patient`, gives up
    /// when most values are pinned. While values of high priority take at most `spared_high_bytes`, they stay.
    pub(super) fn evict(&self, bytes: usize, patient: bool, spared_high_bytes: usize, evicted: &mut Vec<V>) {
        let _changes = self.changes.lock();
        let mut freed = 0;
        let mut taken_out = 0;
        let mut pinned = 0;
        for (age, table) in self.tables().enumerate() {
            if table.taken() == 0 {
                continue;
            }
            let visits = if age == 0 || patient { MAX_ROUNDS * table.len() } else { OLDER_SLOTS_PER_EVICTION };
            for _ in 0..visits {
                if freed >= bytes {
                    return;
                }
                let slot = table.next_under_hand();
                let high_bytes = self.totals.high_bytes.load(Ordering::Relaxed);
                match slot.visit(high_bytes <= spared_high_bytes) {
                    Visit::Empty | Visit::Aged => {}
                    Visit::Pinned => {
                        pinned += 1;
                        if !patient && pinned > EVICTION_EFFORT * (taken_out + EVICTION_EFFORT) {
                            return;
                        }
                    }
                    Visit::Claimed => {
                        freed += slot.charge_bytes();
                        taken_out += 1;
                        // SAFETY: the visit claimed the slot, under the mutex.
                        evicted.push(unsafe { self.take(slot) });
                    }
                }
            }
        }
    }

    /// Removes `key`; returns the value if nobody refers to it.
    pub(super) fn erase(&self, key: &CacheKey, hash: u64) -> Option<V> {
        let _changes = self.changes.lock();
        self.erase_locked(key, hash)
    }

    fn erase_locked(&self, key: &CacheKey, hash: u64) -> Option<V> {
        let slot =
            self.tables().find_map(|table| table.search(Probe::new(hash), |slot| slot.shows(key).then_some(slot)))?;
        // SAFETY: hiding claimed the slot, under the mutex.
        (slot.hide() == Hidden::Claimed).then(|| unsafe { self.take(slot) })
    }

    /// Removes all values that nobody refers to.
    pub(super) fn erase_unreferenced(&self) -> Vec<V> {
        let _changes = self.changes.lock();
        let mut erased = Vec::new();
        for slot in self.tables().filter(|table| table.taken() > 0).flat_map(Table::slots) {
            if slot.claim().is_some() {
                // SAFETY: the slot was just claimed, under the mutex.
                erased.push(unsafe { self.take(slot) });
            }
        }
        erased
    }

    /// Visits all values, each under a reference.
    pub(super) fn for_each(&self, visit: &mut impl FnMut(CacheKey, &V, usize)) {
        for slot in self.tables().filter(|table| table.taken() > 0).flat_map(Table::slots) {
            match slot.acquire_any() {
                Acquired::No => continue,
                // SAFETY: a reference is counted until the release below.
                Acquired::Yes => visit(slot.key(), unsafe { slot.value() }, slot.charge_bytes()),
                Acquired::Wrong => {}
            }
            // SAFETY: a reference was counted, and `self` is borrowed, so the shard is alive.
            unsafe { Self::release(NonNull::from(self), NonNull::from(slot)) };
        }
    }

    pub(super) fn pinned_usage_bytes(&self) -> usize {
        let _changes = self.changes.lock();
        let slots = self.tables().filter(|table| table.taken() > 0).flat_map(Table::slots);
        slots.filter(|slot| slot.is_pinned()).map(Slot::charge_bytes).sum()
    }

    /// When the cache goes: takes out all values that nobody refers to, and lets the slots of the others keep the shard.
    pub(super) fn close(this: &Arc<Self>) -> Vec<V> {
        let _changes = this.changes.lock();
        let mut values = Vec::new();
        let pointer = Arc::as_ptr(this);
        for slot in this.tables().filter(|table| table.taken() > 0).flat_map(Table::slots) {
            // Counted before the slot says so: its last reference may ask for the mutex at any moment after that.
            // SAFETY: the pointer is that of a live `Arc`.
            unsafe { Arc::increment_strong_count(pointer) };
            let outcome = slot.orphan();
            if outcome == Some(Hidden::Later) {
                continue;
            }
            // SAFETY: takes back the count just added; `this` holds another.
            unsafe { Arc::decrement_strong_count(pointer) };
            if outcome == Some(Hidden::Claimed) {
                // SAFETY: `orphan` claimed the slot, under the mutex.
                values.push(unsafe { this.take(slot) });
            }
        }
        values
    }
}

impl<V: Send + Sync + 'static> Drop for Shard<V> {
    fn drop(&mut self) {
        let mut next = NonNull::new(*self.newest.get_mut());
        while let Some(table) = next {
            // SAFETY: each table came from a box and is in the chain once; nobody uses the shard any more.
            let table = unsafe { Box::from_raw(table.as_ptr()) };
            next = table.older();
        }
    }
}
