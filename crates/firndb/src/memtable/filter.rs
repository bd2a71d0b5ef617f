//! A small Bloom filter over the keys of a memtable or over their prefixes, written and read by several threads at once.
//!
//! Each key sets four bits of one 64-bit word, so that an insert or a lookup costs one cache line, and the filter of a
//! 64 MiB memtable (512 KiB) stays in the second-level cache. Most point lookups of a database ask the memtable for keys
//! that are not in it; the filter answers them without a search. Always true: a key that was added is always found.

use firn_env::sync::atomic::{AtomicU64, Ordering};

/// See the module documentation.
pub(crate) struct MemTableFilter {
    words: Box<[AtomicU64]>,
    shift: u32,
}

/// A hash of `key`, good for filters in memory only: it is not stored anywhere and may change.
#[inline]
pub(crate) fn filter_hash(key: &[u8]) -> u64 {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    #[inline]
    fn fold(a: u64, b: u64) -> u64 {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    }
    let mut hash = MULTIPLIER ^ key.len() as u64;
    let mut chunks = key.chunks_exact(8);
    for chunk in &mut chunks {
        let word = chunk.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        hash = fold(hash ^ word, 0xa076_1d64_78bd_642f);
    }
    let mut tail = 0;
    for &byte in chunks.remainder() {
        tail = tail << 8 | u64::from(byte);
    }
    fold(hash ^ tail, 0xe703_7ed1_a0b4_28db ^ MULTIPLIER)
}

/// The bits of a word that a hash stands for.
#[inline]
fn mask(hash: u64) -> u64 {
    (1 << (hash & 63)) | (1 << (hash >> 6 & 63)) | (1 << (hash >> 12 & 63)) | (1 << (hash >> 18 & 63))
}

impl MemTableFilter {
    /// A filter of `bytes` bytes, rounded down to a power of two, at least 64.
    pub(crate) fn new(bytes: usize) -> Self {
        let words = 1usize << (bytes / 8).max(8).ilog2();
        let words: Box<[AtomicU64]> = (0..words).map(|_| AtomicU64::new(0)).collect();
        Self { shift: 64 - words.len().trailing_zeros(), words }
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.words.len() * 8
    }

    #[inline]
    fn word(&self, hash: u64) -> &AtomicU64 {
        &self.words[(hash >> self.shift) as usize]
    }

    /// Fetches what [`add`](Self::add) with the same hash will change.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a prefetch is a hint and touches nothing.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_ET0>(std::ptr::from_ref(self.word(hash)).cast());
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = hash;
    }

    /// Adds the key with this [`filter_hash`].
    #[inline]
    pub(crate) fn add(&self, hash: u64) {
        let (word, mask) = (self.word(hash), mask(hash));
        // The order against the index does not matter: readers look for keys whose insertion they know to be over.
        if word.load(Ordering::Relaxed) & mask != mask {
            word.fetch_or(mask, Ordering::Relaxed);
        }
    }

    /// Whether the key with this [`filter_hash`] may have been added.
    #[inline]
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        let mask = mask(hash);
        self.word(hash).load(Ordering::Relaxed) & mask == mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_all_that_was_added_and_little_else() {
        let count = if cfg!(miri) { 200_u64 } else { 20_000 };
        let filter = MemTableFilter::new((count as usize * 10 / 8).next_power_of_two());
        let hash = |number: u64| filter_hash(&number.to_be_bytes());
        (0..count).for_each(|number| filter.add(hash(number)));
        assert!((0..count).all(|number| filter.may_contain(hash(number))));
        let wrong = (count..2 * count).filter(|&number| filter.may_contain(hash(number))).count();
        assert!(wrong * 20 < count as usize, "{wrong} false positives of {count}");
    }

    #[test]
    fn hashes_differ_in_every_byte() {
        let base = filter_hash(b"0123456789abc");
        for at in 0..13 {
            let mut key = *b"0123456789abc";
            key[at] ^= 1;
            assert_ne!(filter_hash(&key), base);
        }
        assert_ne!(filter_hash(b""), filter_hash(b"\0"));
    }
}
