//! The block cache: a bounded map from block keys to values in memory, whose hits take no lock.
//!
//! Values flow in with a charge in bytes; [`CacheRef`]s flow out, each of which keeps its value alive and readable for as
//! long as it lives, even beyond the cache. When the charges exceed the capacity, values that nobody refers to leave by
//! the CLOCK rule: a hand goes round the slots, values that were used since its last visit get another round.
//!
//! How it is built, from the inside out:
//!
//! - [`slot`]: one value with its key and one atomic word that holds its state, its references and its CLOCK countdown;
//! - [`table`]: an open-addressed array of slots, which never move; a cached value is one cache miss away;
//! - [`shard`]: a table, the smaller tables it outgrew, and the mutex under which values come and go;
//! - [`Cache`]: shards, and the capacity they share.
//!
//! A lookup reads key words, adds one to a slot's reference count and checks again; giving the reference back subtracts
//! one. Inserting, erasing and evicting lock one shard. Lookups that race with those may miss a value that is just being
//! moved; they never see a wrong or half-made one.
//!
//! `unsafe` in this crate lives here: slots hand out shared references to values whose lifetime the atomic word guards.

mod key;
mod shard;
mod slot;
mod table;

pub use key::CacheKey;

use crate::cache::shard::{Inserted, Shard};
use crate::cache::slot::{Life, Slot};
use firn_env::sync::Arc;
use firn_env::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use firn_error::{Error, ErrorKind, Result, SubCode};
use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;

/// How long a value that is never used stays, in rounds of the CLOCK hand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CachePriority {
    /// Index and filter blocks with high priority: three rounds, and longer while they fit their pool.
    High,
    /// Data blocks: two rounds.
    #[default]
    Low,
    /// What is likely not used again: one round.
    Bottom,
}

impl CachePriority {
    const fn life(self) -> Life {
        match self {
            Self::High => Life::new(3, true),
            Self::Low => Life::new(2, false),
            Self::Bottom => Life::new(1, false),
        }
    }
}

/// How a [`Cache`] is made.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// Greatest sum of charges in bytes; 0 keeps nothing that is not referred to.
    pub capacity_bytes: usize,
    /// log2 of the number of shards; negative (the default) chooses by the capacity, at most 6.
    pub num_shard_bits: i32,
    /// Refuse an insertion that would exceed the capacity, instead of exceeding it; default false.
    pub strict_capacity_limit: bool,
    /// Share of the capacity up to which values of high priority stay while there are others that nobody refers to;
    /// default 0.5.
    pub high_pri_pool_ratio: f64,
    /// What values will about be charged, in bytes, for the first size of the tables; default 16 KiB.
    pub estimated_entry_charge: usize,
}

impl CacheOptions {
    /// Options for a capacity, all else default.
    pub fn new(capacity_bytes: usize) -> Self {
        Self {
            capacity_bytes,
            num_shard_bits: -1,
            strict_capacity_limit: false,
            high_pri_pool_ratio: 0.5,
            estimated_entry_charge: 16 << 10,
        }
    }

    fn shard_bits(&self) -> u32 {
        const MAX_BITS: u32 = 6;
        const MIN_SHARD_BYTES: usize = 512 << 10;
        match u32::try_from(self.num_shard_bits) {
            Ok(bits) => bits.min(19),
            Err(_) => (self.capacity_bytes / MIN_SHARD_BYTES).max(1).ilog2().min(MAX_BITS),
        }
    }
}

/// Sums over all shards; changed when values come and go, not when they are used.
#[derive(Debug, Default)]
struct Totals {
    usage_bytes: AtomicUsize,
    /// What of it are values of high priority.
    high_bytes: AtomicUsize,
    entries: AtomicUsize,
}

/// A bounded concurrent map from [`CacheKey`] to `V`. Share it behind an `Arc`; every method takes `&self`.
pub struct Cache<V: Send + Sync + 'static> {
    shards: Box<[Arc<Shard<V>>]>,
    shard_bits: u32,
    totals: Arc<Totals>,
    capacity_bytes: AtomicUsize,
    strict_capacity_limit: AtomicBool,
    high_pri_pool_ratio: f64,
    next_id: AtomicU64,
}

impl<V: Send + Sync + 'static> Cache<V> {
    /// An empty cache.
    pub fn new(options: &CacheOptions) -> Self {
        let shard_bits = options.shard_bits();
        let shards = 1usize << shard_bits;
        let entries_per_shard = options.capacity_bytes / options.estimated_entry_charge.max(1) / shards;
        let totals = Arc::new(Totals::default());
        Self {
            shards: (0..shards).map(|_| Arc::new(Shard::new(entries_per_shard, Arc::clone(&totals)))).collect(),
            shard_bits,
            totals,
            capacity_bytes: AtomicUsize::new(options.capacity_bytes),
            strict_capacity_limit: AtomicBool::new(options.strict_capacity_limit),
            high_pri_pool_ratio: options.high_pri_pool_ratio.clamp(0.0, 1.0),
            next_id: AtomicU64::new(1),
        }
    }

    #[inline]
    fn shard_of(&self, hash: u64) -> &Arc<Shard<V>> {
        &self.shards[self.shard_index(hash)]
    }

    /// The top bits choose the shard, the low ones the slot.
    #[inline]
    fn shard_index(&self, hash: u64) -> usize {
        (hash >> 1 >> (63 - self.shard_bits)) as usize & (self.shards.len() - 1)
    }

    /// The value under `key`, or `None`. Takes no lock and does not block.
    #[inline]
    pub fn lookup(&self, key: &CacheKey) -> Option<CacheRef<V>> {
        let hash = key.hash();
        let shard = self.shard_of(hash);
        shard.lookup(key, hash).map(|slot| CacheRef::new(slot, shard))
    }

    /// Asks the processor to fetch the place where `key` would be found, so that a later lookup need not wait.
    #[inline]
    pub fn prefetch(&self, key: &CacheKey) {
        let hash = key.hash();
        self.shard_of(hash).prefetch(hash);
    }

    /// Puts `value` under `key`, in the place of what was there, and returns a reference to it.
    ///
    /// `charge_bytes` is what the value counts against the capacity. Values that nobody refers to make room.
    ///
    /// # Errors
    /// `Aborted` with the sub-code `MemoryLimit` when the cache has a strict limit and room cannot be made; the value is
    /// dropped then.
    pub fn insert(
        &self,
        key: &CacheKey,
        value: V,
        charge_bytes: usize,
        priority: CachePriority,
    ) -> Result<CacheRef<V>> {
        let hash = key.hash();
        let mut evicted = Vec::new();
        self.reserve(hash, charge_bytes, &mut evicted)?;
        let shard = self.shard_of(hash);
        let Inserted { slot, replaced } = shard.insert(key, hash, value, charge_bytes, priority.life());
        let reference = CacheRef::new(slot, shard);
        // Values are dropped outside of every lock: dropping may be slow, and may come back to the cache.
        drop((evicted, replaced));
        Ok(reference)
    }

    /// Adds `bytes` to the usage and evicts until it fits, beginning with the shard of `hash`.
    fn reserve(&self, hash: u64, bytes: usize, evicted: &mut Vec<V>) -> Result<()> {
        let usage = self.totals.usage_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let capacity = self.capacity_bytes();
        if usage <= capacity {
            return Ok(());
        }
        let strict = self.has_strict_capacity_limit();
        let first = self.shard_index(hash);
        // The pool of high priority gives way when the others are not enough.
        for (patient, spared) in [(false, self.high_pool_bytes()), (false, 0), (true, 0)] {
            for i in 0..self.shards.len() {
                let over = self.usage_bytes().saturating_sub(capacity);
                if over == 0 {
                    return Ok(());
                }
                self.shards[(first + i) & (self.shards.len() - 1)].evict(over, patient, spared, evicted);
            }
            if self.usage_bytes() <= capacity || (!strict && spared == 0) {
                return Ok(());
            }
        }
        if !strict {
            return Ok(());
        }
        self.totals.usage_bytes.fetch_sub(bytes, Ordering::Relaxed);
        Err(Error::new(ErrorKind::Aborted, "Insert failed due to LRU cache being full.")
            .with_subcode(SubCode::MemoryLimit))
    }

    /// How many bytes of values of high priority are spared.
    fn high_pool_bytes(&self) -> usize {
        (self.capacity_bytes() as f64 * self.high_pri_pool_ratio) as usize
    }

    /// Counts `bytes` of memory held elsewhere against the capacity until the result is dropped.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn charge(&self, bytes: usize) -> Result<CacheCharge> {
        let mut evicted = Vec::new();
        let id = self.next_id.load(Ordering::Relaxed);
        self.reserve(CacheKey::new(0, id).hash(), bytes, &mut evicted)?;
        Ok(CacheCharge { totals: Arc::clone(&self.totals), bytes })
    }

    /// Removes the value under `key`; references to it stay valid.
    pub fn erase(&self, key: &CacheKey) {
        let hash = key.hash();
        drop(self.shard_of(hash).erase(key, hash));
    }

    /// Removes every value that nobody refers to.
    pub fn erase_unreferenced(&self) {
        for shard in &self.shards {
            drop(shard.erase_unreferenced());
        }
    }

    /// Calls `visit` with every key, value and charge. Values that come or go meanwhile may or may not be seen.
    pub fn for_each(&self, mut visit: impl FnMut(CacheKey, &V, usize)) {
        for shard in &self.shards {
            shard.for_each(&mut visit);
        }
    }

    /// Changes the capacity; a smaller one evicts at once what nobody refers to.
    pub fn set_capacity(&self, capacity_bytes: usize) {
        self.capacity_bytes.store(capacity_bytes, Ordering::Relaxed);
        for shard in &self.shards {
            let over = self.usage_bytes().saturating_sub(capacity_bytes);
            if over == 0 {
                return;
            }
            let mut evicted = Vec::new();
            shard.evict(over, true, 0, &mut evicted);
        }
    }

    /// The capacity in bytes.
    pub fn capacity_bytes(&self) -> usize {
        self.capacity_bytes.load(Ordering::Relaxed)
    }

    /// Whether insertions that do not fit are refused.
    pub fn has_strict_capacity_limit(&self) -> bool {
        self.strict_capacity_limit.load(Ordering::Relaxed)
    }

    /// Changes whether insertions that do not fit are refused.
    pub fn set_strict_capacity_limit(&self, strict: bool) {
        self.strict_capacity_limit.store(strict, Ordering::Relaxed);
    }

    /// The sum of charges in bytes.
    pub fn usage_bytes(&self) -> usize {
        self.totals.usage_bytes.load(Ordering::Relaxed)
    }

    /// The sum of charges in bytes of values that somebody refers to. Visits every slot.
    pub fn pinned_usage_bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.pinned_usage_bytes()).sum()
    }

    /// How many values are held.
    pub fn len(&self) -> usize {
        self.totals.entries.load(Ordering::Relaxed)
    }

    /// Whether no value is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A key that no block has and that this cache has not given out before.
    pub fn new_unique_key(&self) -> CacheKey {
        CacheKey::new(0, self.next_id.fetch_add(1, Ordering::Relaxed))
    }
}

impl<V: Send + Sync + 'static> Drop for Cache<V> {
    fn drop(&mut self) {
        for shard in &self.shards {
            drop(Shard::close(shard));
        }
    }
}

impl<V: Send + Sync + 'static> fmt::Debug for Cache<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("capacity_bytes", &self.capacity_bytes())
            .field("usage_bytes", &self.usage_bytes())
            .field("entries", &self.len())
            .field("shards", &self.shards.len())
            .finish_non_exhaustive()
    }
}

/// Memory held outside of the cache that counts against its capacity; see [`Cache::charge`].
#[derive(Debug)]
pub struct CacheCharge {
    totals: Arc<Totals>,
    bytes: usize,
}

impl CacheCharge {
    /// How much is counted, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for CacheCharge {
    fn drop(&mut self) {
        self.totals.usage_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Keeps one value of a cache alive and in its place. Cheap to clone; may outlive the cache.
pub struct CacheRef<V: Send + Sync + 'static> {
    slot: NonNull<Slot<V>>,
    shard: NonNull<Shard<V>>,
}

// SAFETY: a `CacheRef` is a shared reference to a `V` with an atomic count; both may be used from any thread when `V` may.
unsafe impl<V: Send + Sync + 'static> Send for CacheRef<V> {}
// SAFETY: as above; `&CacheRef` gives only `&V` and atomic counting.
unsafe impl<V: Send + Sync + 'static> Sync for CacheRef<V> {}

impl<V: Send + Sync + 'static> CacheRef<V> {
    /// Takes over one reference that was counted for `slot`, which lies in a table of `shard`.
    #[inline]
    fn new(slot: &Slot<V>, shard: &Arc<Shard<V>>) -> Self {
        // SAFETY: the pointer of an `Arc` is never null.
        let shard = unsafe { NonNull::new_unchecked(Arc::as_ptr(shard).cast_mut()) };
        Self { slot: NonNull::from(slot), shard }
    }

    #[inline]
    fn slot(&self) -> &Slot<V> {
        // SAFETY: slots live as long as their shard, and the shard lives while a reference is counted: the cache holds it,
        // and when the cache goes, `Shard::close` adds a strong count for each slot that is still referred to.
        unsafe { self.slot.as_ref() }
    }

    /// What the value counts against the capacity, in bytes.
    pub fn charge_bytes(&self) -> usize {
        self.slot().charge_bytes()
    }
}

impl<V: Send + Sync + 'static> Deref for CacheRef<V> {
    type Target = V;

    #[inline]
    fn deref(&self) -> &V {
        // SAFETY: this holds a counted reference, which was taken while the slot was visible.
        unsafe { self.slot().value() }
    }
}

impl<V: Send + Sync + 'static> Clone for CacheRef<V> {
    #[inline]
    fn clone(&self) -> Self {
        self.slot().add_reference();
        Self { slot: self.slot, shard: self.shard }
    }
}

impl<V: Send + Sync + 'static> Drop for CacheRef<V> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this holds a counted reference, which `release` takes over; the shard is alive as said in `slot`.
        unsafe { Shard::release(self.shard, self.slot) };
    }
}

impl<V: Send + Sync + fmt::Debug + 'static> fmt::Debug for CacheRef<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests;
