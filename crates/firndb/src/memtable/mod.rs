//! Memtables: the newest writes of a column family, in memory, in key order.
//!
//! Writers add entries (several threads at once), readers look keys up and scan while they do. Point entries go to a
//! concurrent [`index`] over an [`arena`]; range deletions to a list of their own, which readers see cut into fragments. A
//! small filter answers most lookups of absent keys. Once [`MemTable::should_flush`] says so, the memtable is frozen, and
//! lives on, unchanged, until a flush has written it to a table and the last reader has gone.
//!
//! Always true: an entry is visible to a reader that learned of its sequence number through the database's last
//! published sequence; entries are never changed or removed; keys order by user key, then newest first. `unsafe` is
//! confined to `arena`, `chunks`, `entry`, `index` and the iterator, and rests on one fact: the arena lives as long as the memtable.

mod arena;
mod checks;
mod chunks;
mod entry;
mod filter;
mod index;
mod iterator;
mod range_deletions;
#[cfg(test)]
mod tests;

use firn_env::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;

use firn_error::{Error, Result};
use firn_format::comparator::InternalKeyComparator;
use firn_format::key::{FOOTER_SIZE, ParsedInternalKey, SequenceNumber, ValueType, extract_user_key};
use firn_format::protection::Protection;
use firn_format::range_tombstone::{FragmentedRangeTombstones, RangeTombstone};
use firn_format::slice_transform::{SliceTransform, prefix_of};
use firn_table::{GetControl, GetSink, ValueRef};

use crate::key_word::KeyWords;
use crate::stats::{PerfMetric, perf_add};
use arena::Arena;
use checks::{Direction, EntryChecks};
use entry::Entry;
use filter::{MemTableFilter, filter_hash};
use index::{Ahead, Index};
pub use iterator::MemTableIterator;
use range_deletions::RangeDeletions;

/// What a memtable needs to know of the options of its column family.
#[derive(Clone, Debug)]
pub struct MemTableConfig {
    /// `write_buffer_size`: the size at which it counts as full, in bytes. Default 64 MiB.
    pub write_buffer_bytes: usize,
    /// `arena_block_size` in bytes; 0 derives it from `write_buffer_bytes`. Default 0.
    pub arena_block_bytes: usize,
    /// `memtable_max_range_deletions`: so many range deletions make it full; 0 means any number. Default 0.
    pub max_range_deletions: u64,
    /// Bytes of the whole-key filter, rounded down to a power of two, at least 64; 0 for none. Default about 1/128 of
    /// `write_buffer_bytes`.
    pub filter_bytes: usize,
    /// Whether `filter_bytes` were asked for, so that they count as memory of the memtable
    /// (`docs/behaviour/reads-and-writes.md`, When a memtable is full) and the filter's answers are counted in the perf
    /// context. Default false: the filter is this implementation's own affair.
    pub filter_requested: bool,
    /// `memtable_prefix_bloom_size_ratio` with a prefix extractor: the filter of prefixes. Default none.
    pub prefix_filter: Option<PrefixFilterConfig>,
    /// Whether to ask for transparent huge pages. Default true.
    pub huge_pages: bool,
    /// `memtable_huge_page_size`: take memory from huge pages reserved by the administrator while there are any, in
    /// multiples of this many bytes; 0, the default, does not.
    pub reserved_page_bytes: usize,
    /// A start that (nearly) all keys are expected to share, such as [`MemTable::common_stem`] of an earlier memtable.
    /// Makes searches faster where it is right and a little slower where it is wrong. Default empty.
    pub key_stem: Vec<u8>,
    /// `memtable_protection_bytes_per_key`: bytes kept with each entry to notice when it changes: 0, 1, 2, 4 or 8.
    /// Default 0.
    pub protection_bytes: usize,
    /// `paranoid_memory_checks`: readers check the order of the keys they meet. Default false.
    pub check_key_order: bool,
}

/// A filter of the prefixes of the keys.
#[derive(Clone, Debug)]
pub struct PrefixFilterConfig {
    /// What prefixes are.
    pub extractor: Arc<dyn SliceTransform>,
    /// Bytes of the filter; rounded down to a power of two, at least 64.
    pub bytes: usize,
}

impl MemTableConfig {
    /// The configuration for a `write_buffer_size` (clipped to [64 KiB, 64 GiB]) with everything else at its default.
    pub fn new(write_buffer_bytes: usize) -> Self {
        let write_buffer_bytes = write_buffer_bytes.clamp(64 << 10, 64 << 30);
        Self {
            write_buffer_bytes,
            arena_block_bytes: 0,
            max_range_deletions: 0,
            filter_bytes: (write_buffer_bytes / 128).next_power_of_two(),
            filter_requested: false,
            prefix_filter: None,
            huge_pages: true,
            reserved_page_bytes: 0,
            key_stem: Vec::new(),
            protection_bytes: 0,
            check_key_order: false,
        }
    }

    /// The arena block size after sanitising, in bytes.
    pub fn effective_arena_block_bytes(&self) -> usize {
        match self.arena_block_bytes {
            0 => (self.write_buffer_bytes / 8).min(1 << 20).next_multiple_of(4096),
            bytes => bytes,
        }
    }
}

impl Default for MemTableConfig {
    fn default() -> Self {
        Self::new(64 << 20)
    }
}

/// The newest writes of a column family. Thread-safe; see the module documentation.
pub struct MemTable {
    order: InternalKeyComparator,
    config: MemTableConfig,
    checks: EntryChecks,
    index: Index,
    arena: Arena,
    filter: Option<MemTableFilter>,
    prefix_filter: Option<PrefixFilter>,
    /// Bytes of filters that count towards `write_buffer_bytes`.
    charged_filter_bytes: usize,
    range_deletions: RangeDeletions,
    id: u64,
    earliest_sequence: SequenceNumber,
    range_deletion_bytes: AtomicUsize,
    next_log_number: AtomicU64,
    oldest_key_time: AtomicU64,
    /// `write_buffer_size` as it is now; options can change while the memtable takes writes.
    write_buffer_bytes: AtomicUsize,
    flush_marked: AtomicBool,
    flush_scheduled: AtomicBool,
    counters: Counters,
}

/// Which prefixes the keys have.
struct PrefixFilter {
    extractor: Arc<dyn SliceTransform>,
    filter: MemTableFilter,
}

impl PrefixFilter {
    #[inline]
    fn add(&self, user_key: &[u8]) {
        if let Some(prefix) = prefix_of(&*self.extractor, user_key) {
            self.filter.add(filter_hash(prefix));
        }
    }

    /// Whether keys with the prefix of `user_key` may have been added.
    fn may_contain(&self, user_key: &[u8]) -> bool {
        let Some(prefix) = prefix_of(&*self.extractor, user_key) else { return true };
        let may_contain = self.filter.may_contain(filter_hash(prefix));
        count_filter_answer(may_contain);
        may_contain
    }
}

fn count_filter_answer(may_contain: bool) {
    perf_add(if may_contain { PerfMetric::BloomMemtableHitCount } else { PerfMetric::BloomMemtableMissCount }, 1);
}

/// What every insert changes; on cache lines of its own, so that inserts do not take from readers the lines that they need.
#[repr(align(128))]
#[derive(Default)]
struct Counters {
    first_sequence: AtomicU64,
    entries: AtomicU64,
    deletes: AtomicU64,
    data_bytes: AtomicU64,
}

impl MemTable {
    /// An empty memtable in the order of `order`. Every entry added will be newer than `earliest_sequence`; `id` grows by
    /// one per memtable of a column family.
    pub fn new(
        order: InternalKeyComparator,
        config: &MemTableConfig,
        earliest_sequence: SequenceNumber,
        id: u64,
    ) -> Self {
        let arena = Arena::new(config.effective_arena_block_bytes(), config.huge_pages, config.reserved_page_bytes);
        let words = KeyWords::new(order.kind(), &config.key_stem);
        let equal_bytes_only = !order.user_comparator().can_keys_with_different_byte_contents_be_equal();
        let filter = (config.filter_bytes > 0 && equal_bytes_only).then(|| MemTableFilter::new(config.filter_bytes));
        let prefix_filter = config.prefix_filter.as_ref().map(|config| PrefixFilter {
            extractor: Arc::clone(&config.extractor),
            filter: MemTableFilter::new(config.bytes),
        });
        let requested = filter.as_ref().filter(|_| config.filter_requested);
        let charged = requested.into_iter().chain(prefix_filter.as_ref().map(|prefixes| &prefixes.filter));
        Self {
            index: Index::new(&arena, order.clone(), words),
            charged_filter_bytes: charged.map(MemTableFilter::memory_bytes).sum(),
            filter,
            prefix_filter,
            arena,
            range_deletions: RangeDeletions::new(order.clone()),
            order,
            config: config.clone(),
            checks: EntryChecks { protection_bytes: config.protection_bytes, key_order: config.check_key_order },
            id,
            earliest_sequence,
            range_deletion_bytes: AtomicUsize::new(0),
            next_log_number: AtomicU64::new(0),
            oldest_key_time: AtomicU64::new(u64::MAX),
            write_buffer_bytes: AtomicUsize::new(config.write_buffer_bytes),
            flush_marked: AtomicBool::new(false),
            flush_scheduled: AtomicBool::new(false),
            counters: Counters::default(),
        }
    }

    /// Adds an entry; a range deletion's key is its start and its value its end. May be called by several threads at once.
    ///
    /// # Errors
    /// `TryAgain` if an entry of the same key and sequence exists; `InvalidArgument` if key or value are too large or the
    /// type may not stand in a memtable.
    #[inline]
    pub fn add(&self, sequence: SequenceNumber, value_type: ValueType, user_key: &[u8], value: &[u8]) -> Result<()> {
        self.add_protected(sequence, value_type, user_key, value, None)
    }

    /// [`add`](Self::add) of an entry that comes with its protection, made of type, key, value and sequence. What lies in
    /// the memtable in the end is compared with it.
    ///
    /// # Errors
    /// Those of [`add`](Self::add); `Corruption` when the entry is not what was protected.
    #[inline]
    pub fn add_protected(
        &self,
        sequence: SequenceNumber,
        value_type: ValueType,
        user_key: &[u8],
        value: &[u8],
        protection: Option<Protection>,
    ) -> Result<()> {
        if user_key.len() > u32::MAX as usize - FOOTER_SIZE - 1 || value.len() > u32::MAX as usize {
            return Err(Error::invalid_argument("key or value is too large for a memtable"));
        }
        if value_type == ValueType::RangeDeletion {
            return self.add_range_deletion(sequence, user_key, value, protection);
        }
        if !value_type.is_key_type() {
            return Err(Error::invalid_argument(format!("a memtable cannot hold type {value_type:?}")));
        }
        // The order spares waits: an atomic addition first, then loads and stores that overlap, then the other atomic
        // operations, each of which waits for all stores before it.
        let hash = self.filter.as_ref().map(|filter| {
            let hash = filter_hash(user_key);
            filter.prefetch(hash);
            hash
        });
        let protection_bytes = self.checks.protection_bytes;
        let reservation = Entry::reserve(&self.arena, user_key.len(), value.len(), protection_bytes);
        let target = self.index.insert_target(user_key, sequence);
        let leaf = self.index.find_leaf(&target);
        let entry = if protection_bytes > 0 || protection.is_some() {
            let made = || Protection::of(value_type, user_key, value).toggle_sequence(sequence);
            let protection = protection.unwrap_or_else(made);
            let kept = protection.to_bytes();
            let kept = kept.get(..protection_bytes).unwrap_or_default();
            let entry = reservation.write(user_key, sequence, value_type, value, kept);
            // SAFETY: the entry was just written to the arena of `self`.
            unsafe { entry.check_protection(protection) }?;
            entry
        } else {
            reservation.write(user_key, sequence, value_type, value, &[])
        };
        if self.index.insert(&self.arena, leaf, &target, entry).is_err() {
            return Err(Error::try_again("key+seq exists"));
        }
        if let (Some(filter), Some(hash)) = (&self.filter, hash) {
            filter.add(hash);
        }
        if let Some(prefixes) = &self.prefix_filter {
            prefixes.add(user_key);
        }
        self.counters.entries.fetch_add(1, Ordering::Relaxed);
        let bytes = (user_key.len() + FOOTER_SIZE + value.len()) as u64;
        self.counters.data_bytes.fetch_add(bytes, Ordering::Relaxed);
        if matches!(value_type, ValueType::Deletion | ValueType::SingleDeletion | ValueType::DeletionWithTimestamp) {
            self.counters.deletes.fetch_add(1, Ordering::Relaxed);
        }
        self.note_first_sequence(sequence);
        Ok(())
    }

    fn add_range_deletion(
        &self,
        sequence: SequenceNumber,
        start: &[u8],
        end: &[u8],
        protection: Option<Protection>,
    ) -> Result<()> {
        let bytes = start.len() + end.len() + FOOTER_SIZE;
        let tombstone = RangeTombstone { start: start.to_vec(), end: end.to_vec(), sequence };
        if protection.is_some_and(|protection| protection != range_deletions::protection_of(&tombstone)) {
            return Err(checks::mismatch());
        }
        self.range_deletions.add(tombstone, self.checks.protection_bytes > 0);
        self.counters.entries.fetch_add(1, Ordering::Relaxed);
        self.counters.data_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.range_deletion_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.note_first_sequence(sequence);
        Ok(())
    }

    #[inline]
    fn note_first_sequence(&self, sequence: SequenceNumber) {
        let first = self.counters.first_sequence.load(Ordering::Relaxed);
        if first == 0 || sequence.0 < first {
            let lower = |first| (first == 0 || sequence.0 < first).then_some(sequence.0);
            let _ = self.counters.first_sequence.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lower);
        }
    }

    /// Hands the point entries of the user key of `lookup` (an internal key for seeking) to `sink`, newest first, from the
    /// sequence of `lookup` down, until it has enough. Range deletions are the caller's to ask for first, with
    /// [`max_covering_tombstone`](Self::max_covering_tombstone).
    ///
    /// # Errors
    /// `Corruption` when an entry fails the checks that the configuration asks for.
    #[inline]
    pub fn get<S: GetSink + ?Sized>(&self, lookup: &[u8], sink: &mut S) -> Result<()> {
        self.get_from(lookup, None, sink)
    }

    /// As [`get`](Self::get), with values that keep the memtable alive when they are pinned.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    #[inline]
    pub fn get_pinnable<S: GetSink + ?Sized>(self: &Arc<Self>, lookup: &[u8], sink: &mut S) -> Result<()> {
        self.get_from(lookup, Some(self), sink)
    }

    #[inline]
    fn get_from<S: GetSink + ?Sized>(&self, lookup: &[u8], owner: Option<&Arc<Self>>, sink: &mut S) -> Result<()> {
        let user_key = extract_user_key(lookup);
        if let Some(filter) = &self.filter {
            let may_contain = filter.may_contain(filter_hash(user_key));
            if self.config.filter_requested {
                count_filter_answer(may_contain);
            }
            if !may_contain {
                return Ok(());
            }
        }
        self.get_unfiltered(lookup, user_key, owner, sink)
    }

    fn get_unfiltered<S: GetSink + ?Sized>(
        &self,
        lookup: &[u8],
        user_key: &[u8],
        owner: Option<&Arc<Self>>,
        sink: &mut S,
    ) -> Result<()> {
        let mut from = lookup;
        let mut next = self.index.seek(lookup, Ahead::Nothing);
        while let Some(place) = next {
            if self.checks.any() {
                // SAFETY: the arena lives as long as `self`, and its entries are as `checks` says.
                from = unsafe {
                    self.checks.check(&self.order, place.entry(), Some((from, Direction::Up)))?;
                    place.entry().ikey()
                };
            }
            // SAFETY: the arena lives as long as `self`.
            let (found_key, footer, value) = unsafe {
                let (found_key, footer) = place.entry().key_parts();
                (found_key, footer, place.entry().key_and_value().1)
            };
            if self.order.compare_user(found_key, user_key) != std::cmp::Ordering::Equal {
                return Ok(());
            }
            // Only key types are ever added.
            let Some(value_type) = ValueType::from_u8(footer as u8) else { return Ok(()) };
            let key = ParsedInternalKey { user_key: found_key, sequence: SequenceNumber(footer >> 8), value_type };
            let value = match owner {
                // SAFETY: the value lies in the arena of the memtable that `owner` keeps alive, and never changes.
                Some(owner) => unsafe { ValueRef::owned_by(value, owner) },
                None => ValueRef::borrowed(value),
            };
            if sink.accept(key, value) == GetControl::Stop {
                return Ok(());
            }
            // SAFETY: the place is of this index.
            next = unsafe { self.index.next(&place) };
        }
        Ok(())
    }

    /// How many merge operands lie on top of `user_key`, counting at most `limit`.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn count_merge_operands(&self, user_key: &[u8], limit: usize) -> Result<usize> {
        struct Counter {
            operands: usize,
            limit: usize,
        }
        impl GetSink for Counter {
            fn accept(&mut self, key: ParsedInternalKey<'_>, _: ValueRef<'_>) -> GetControl {
                if key.value_type != ValueType::Merge {
                    return GetControl::Stop;
                }
                self.operands += 1;
                if self.operands < self.limit { GetControl::Continue } else { GetControl::Stop }
            }
        }
        let mut counter = Counter { operands: 0, limit };
        let lookup = firn_format::key::InternalKey::for_seek(user_key, SequenceNumber::MAX);
        self.get(lookup.encoded(), &mut counter)?;
        Ok(counter.operands)
    }

    /// A cursor over the point entries. It keeps the memtable alive, and sees at least all entries that were there when it
    /// last sought.
    pub fn iter(self: &Arc<Self>) -> MemTableIterator {
        MemTableIterator::new(Arc::clone(self), false)
    }

    /// As [`iter`](Self::iter), for a caller that after seeking a key looks only at keys with the prefix that `extractor`
    /// finds in it: where no key has that prefix, the cursor becomes invalid.
    pub fn prefix_iter(self: &Arc<Self>, extractor: &dyn SliceTransform) -> MemTableIterator {
        // Prefixes of another kind than those in the filter say nothing.
        let filtered = self.prefix_filter.as_ref().is_some_and(|own| own.extractor.id() == extractor.id());
        MemTableIterator::new(Arc::clone(self), filtered)
    }

    /// Whether keys with the prefix of the user key of `target`, an internal key, may have been added.
    #[cold]
    fn may_contain_prefix(&self, target: &[u8]) -> bool {
        self.prefix_filter.as_ref().is_none_or(|prefixes| prefixes.may_contain(extract_user_key(target)))
    }

    /// Whether there are range deletions.
    #[inline]
    pub fn has_range_deletions(&self) -> bool {
        !self.range_deletions.is_empty()
    }

    /// The range deletions so far, as fragments. Cached until the next range deletion.
    pub fn range_tombstones(&self) -> Arc<FragmentedRangeTombstones> {
        self.range_deletions.fragments()
    }

    /// Checks that the range deletions are still what was added; their readers do not.
    ///
    /// # Errors
    /// `Corruption` when one is not, if the configuration asks for protection.
    pub fn verify_range_deletions(&self) -> Result<()> {
        self.range_deletions.verify()
    }

    /// The sequence of the newest range deletion over `user_key` that a reader at `snapshot` sees; zero if there is none.
    #[inline]
    pub fn max_covering_tombstone(&self, user_key: &[u8], snapshot: SequenceNumber) -> SequenceNumber {
        if self.range_deletions.is_empty() {
            return SequenceNumber::ZERO;
        }
        self.range_deletions.max_covering_sequence(user_key, snapshot)
    }

    /// Whether it is full (`docs/behaviour/reads-and-writes.md`, When a memtable is full) and should be switched and
    /// flushed.
    #[inline]
    pub fn should_flush(&self) -> bool {
        if self.flush_marked.load(Ordering::Relaxed) {
            return true;
        }
        let max_range_deletions = self.config.max_range_deletions;
        if max_range_deletions > 0 && self.range_deletion_count() >= max_range_deletions {
            return true;
        }
        let block = self.arena.block_bytes();
        let allocated = self.arena.allocated_bytes()
            + self.range_deletion_bytes.load(Ordering::Relaxed)
            + self.charged_filter_bytes;
        let limit = self.write_buffer_bytes.load(Ordering::Relaxed) + block * 3 / 5;
        if allocated + block < limit {
            return false;
        }
        allocated > limit || self.arena.unused_bytes() < block / 4
    }

    /// `write_buffer_size`: at how many bytes of memory it is about full.
    pub fn full_bytes(&self) -> u64 {
        self.write_buffer_bytes.load(Ordering::Relaxed) as u64
    }

    /// Changes at how many bytes it is about full. Its blocks and filters keep their sizes.
    pub fn set_full_bytes(&self, bytes: usize) {
        self.write_buffer_bytes.store(bytes.clamp(64 << 10, 64 << 30), Ordering::Relaxed);
    }

    /// Asks for a flush at the next opportunity, whatever the size.
    pub fn mark_for_flush(&self) {
        self.flush_marked.store(true, Ordering::Relaxed);
    }

    /// Whether the caller is the first to see it full, and must tell the flush scheduler.
    #[inline]
    pub fn try_schedule_flush(&self) -> bool {
        self.should_flush() && !self.flush_scheduled.swap(true, Ordering::AcqRel)
    }

    /// The number of this memtable in its column family.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The order of its keys.
    pub fn order(&self) -> &InternalKeyComparator {
        &self.order
    }

    /// No entry is older than this.
    pub fn earliest_sequence(&self) -> SequenceNumber {
        self.earliest_sequence
    }

    /// The least sequence added; zero while empty.
    pub fn first_sequence(&self) -> SequenceNumber {
        SequenceNumber(self.counters.first_sequence.load(Ordering::Relaxed))
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.entry_count() == 0
    }

    /// Whether point entries came in ascending order of their keys, but for some that came a little late.
    pub fn was_filled_in_order(&self) -> bool {
        self.index.was_filled_in_order()
    }

    /// Entries, range deletions included.
    pub fn entry_count(&self) -> u64 {
        self.counters.entries.load(Ordering::Relaxed)
    }

    /// Point deletions.
    pub fn delete_count(&self) -> u64 {
        self.counters.deletes.load(Ordering::Relaxed)
    }

    /// Range deletions.
    pub fn range_deletion_count(&self) -> u64 {
        self.range_deletions.count() as u64
    }

    /// Bytes of the internal keys and values added.
    pub fn data_bytes(&self) -> u64 {
        self.counters.data_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of memory taken, filter included.
    pub fn memory_bytes(&self) -> usize {
        self.arena.allocated_bytes()
            + self.range_deletion_bytes.load(Ordering::Relaxed)
            + self.filter.as_ref().map_or(0, MemTableFilter::memory_bytes)
            + self.prefix_filter.as_ref().map_or(0, |prefixes| prefixes.filter.memory_bytes())
            + size_of::<Self>()
    }

    /// The WAL from which on this memtable's column family needs the log once this memtable is flushed; 0 before the switch.
    pub fn next_log_number(&self) -> u64 {
        self.next_log_number.load(Ordering::Acquire)
    }

    /// Set at the switch; see [`next_log_number`](Self::next_log_number).
    pub fn set_next_log_number(&self, number: u64) {
        self.next_log_number.store(number, Ordering::Release);
    }

    /// The unix time in seconds of the oldest entry; `u64::MAX` if it was not told.
    pub fn oldest_key_time_secs(&self) -> u64 {
        self.oldest_key_time.load(Ordering::Relaxed)
    }

    /// Tells the time of an entry; the least one told is kept.
    pub fn note_key_time_secs(&self, unix_secs: u64) {
        self.oldest_key_time.fetch_min(unix_secs, Ordering::Relaxed);
    }

    /// Estimated number of point entries and of their bytes between two encoded internal keys.
    pub fn approximate_stats(&self, from: &[u8], to: &[u8]) -> (u64, u64) {
        let entries = self.entry_count().saturating_sub(self.range_deletion_count());
        let share = (self.index.fraction_before(to) - self.index.fraction_before(from)).max(0.0);
        let count = (share * entries as f64).round() as u64;
        let average = self.data_bytes().checked_div(self.entry_count()).unwrap_or(0);
        (count, count * average)
    }

    /// The bytes that all keys begin with, for the next memtable's [`MemTableConfig::key_stem`]; empty if there are few
    /// entries or nothing in common.
    pub fn common_stem(&self) -> Vec<u8> {
        let (Some(first), Some(last)) = (self.index.first(), self.index.last()) else { return Vec::new() };
        // SAFETY: the arena lives as long as `self`.
        let (first, last) = unsafe { (first.entry().key_parts().0, last.entry().key_parts().0) };
        let common = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        // A key equal to the stem would leave nothing to tell it from others; few entries say little about more to come.
        if self.entry_count() < 1000 || common == first.len().min(last.len()) {
            return Vec::new();
        }
        first.get(..common).map(<[u8]>::to_vec).unwrap_or_default()
    }
}

impl std::fmt::Debug for MemTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MemTable({}, {} entries, {} bytes)", self.id, self.entry_count(), self.memory_bytes())
    }
}
