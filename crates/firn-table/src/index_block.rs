//! Index blocks in memory.
//!
//! An index block is decoded once, when it is loaded, into arrays that are searched without touching its encoded form:
//! the first eight bytes of every key behind the prefix that all keys share stand side by side as big-endian words, so
//! that a search under the bytewise order compares integers and looks at whole keys only where words are equal.
//!
//! Always true here: the arrays have one element per entry; an entry is named by its position. With protection
//! (`block_protection_bytes_per_key`, `docs/format/write-batch.md`, Protection of records), what [`IndexBlock::seek`] and
//! [`IndexBlock::entry`] answer rests on entries that are as they were decoded, or it is an error.

use std::cmp::Ordering;

use firn_error::{Error, Result};
use firn_format::block::{BLOCK_TRAILER_SIZE, common_prefix};
use firn_format::comparator::{ComparatorKind, InternalKeyComparator};
use firn_format::hash::xxph3_64_with_seed;
use firn_format::index::{BlockHandle, IndexEntries, IndexFormat};
use firn_format::key::{FOOTER_SIZE, extract_user_key};

use crate::block_protection;

const FINGERPRINT_SEED: u64 = 0x51D0_7EC9_B7A2_3F4D;

/// Words between two samples: two cache lines.
const GROUP: usize = 16;

/// A decoded index block.
#[derive(Debug)]
pub struct IndexBlock {
    comparator: InternalKeyComparator,
    key_is_user_key: bool,
    /// What the user keys of all entries start with; empty when there are no words.
    shared_prefix: Vec<u8>,
    /// The word of every entry's user key; empty when the order is not bytewise.
    words: Vec<u64>,
    /// Every [`GROUP`]-th word: few enough to stay in the processor's cache.
    samples: Vec<u64>,
    /// Where each block starts.
    offsets: Vec<u64>,
    /// The payload size of each block; empty when each block but the last ends where the next one starts.
    sizes: Vec<u64>,
    last_size: u64,
    /// Where each key ends in `keys`.
    key_ends: Vec<u32>,
    keys: Vec<u8>,
    /// Where each first key ends in `first_keys`; empty when the index has none.
    first_key_ends: Vec<u32>,
    first_keys: Vec<u8>,
    /// The protection of each entry; empty when there is none.
    protection: Vec<u8>,
    protection_bytes_per_key: u8,
}

/// The first eight bytes of `bytes` as a number that orders as they do; missing bytes count as zero.
#[inline(always)]
pub(crate) fn prefix_word(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(chunk) => u64::from_be_bytes(*chunk),
        None => {
            let mut chunk = [0; 8];
            for (to, from) in chunk.iter_mut().zip(bytes) {
                *to = *from;
            }
            u64::from_be_bytes(chunk)
        }
    }
}

#[cold]
fn changed_entry(position: usize) -> Error {
    block_protection::changed(format_args!("Entry {position} of an index block"))
}

fn end_of(bytes: &[u8]) -> Result<u32> {
    u32::try_from(bytes.len()).map_err(|_| Error::corruption("index block too large"))
}

fn piece<'a>(ends: &[u32], bytes: &'a [u8], position: usize) -> &'a [u8] {
    let start = position.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
    let end = ends.get(position).copied().unwrap_or(start);
    bytes.get(start as usize..end as usize).unwrap_or_default()
}

impl IndexBlock {
    /// Decodes an index payload.
    ///
    /// # Errors
    /// Corruption when an entry does not decode or an internal key is too short to be one.
    pub fn decode(payload: &[u8], format: IndexFormat, comparator: &InternalKeyComparator) -> Result<Self> {
        Self::decode_within(payload, format, comparator, usize::MAX)
    }

    /// As [`decode`](Self::decode), for an index whose keys come to no more than `most_key_bytes`: few bytes may stand for many
    /// long keys that share almost all of theirs.
    ///
    /// # Errors
    /// As [`decode`](Self::decode), and when there are more bytes.
    pub(crate) fn decode_within(
        payload: &[u8],
        format: IndexFormat,
        comparator: &InternalKeyComparator,
        most_key_bytes: usize,
    ) -> Result<Self> {
        let mut entries = IndexEntries::new(payload, format)?;
        let mut block = Self {
            comparator: comparator.clone(),
            key_is_user_key: format.key_is_user_key,
            shared_prefix: Vec::new(),
            words: Vec::new(),
            samples: Vec::new(),
            offsets: Vec::new(),
            sizes: Vec::new(),
            last_size: 0,
            key_ends: Vec::new(),
            keys: Vec::with_capacity(payload.len()),
            first_key_ends: Vec::new(),
            first_keys: Vec::new(),
            protection: Vec::new(),
            protection_bytes_per_key: 0,
        };
        while entries.advance()? {
            let too_short = |key: &[u8]| key.len() < FOOTER_SIZE;
            if !format.key_is_user_key && too_short(entries.key()) {
                return Err(Error::corruption("index key is too short to be an internal key"));
            }
            block.keys.extend_from_slice(entries.key());
            block.key_ends.push(end_of(&block.keys)?);
            block.offsets.push(entries.handle().offset);
            block.sizes.push(entries.handle().size);
            if format.has_first_key {
                if too_short(entries.first_key()) {
                    return Err(Error::corruption("first key in index is too short to be an internal key"));
                }
                block.first_keys.extend_from_slice(entries.first_key());
                block.first_key_ends.push(end_of(&block.first_keys)?);
            }
            if block.keys.len().saturating_add(block.first_keys.len()) > most_key_bytes {
                return Err(Error::corruption("keys in index are longer than all keys of the table"));
            }
        }
        if comparator.kind() == ComparatorKind::Bytewise {
            block.build_words();
        }
        block.drop_needless_sizes();
        block.keys.shrink_to_fit();
        block.offsets.shrink_to_fit();
        block.key_ends.shrink_to_fit();
        Ok(block)
    }

    /// The block with so many bytes (0, 1, 2, 4 or 8) for each entry that tell whether it changed in memory.
    pub(crate) fn protect(mut self, bytes_per_key: u8) -> Self {
        self.protection_bytes_per_key = bytes_per_key;
        let kept = |position| block_protection::truncated(self.fingerprint(position), bytes_per_key);
        self.protection = (0..self.len()).flat_map(kept).collect();
        self
    }

    /// A hash of all that is known of an entry.
    fn fingerprint(&self, position: usize) -> u64 {
        let key = xxph3_64_with_seed(self.key(position), FINGERPRINT_SEED);
        let first_key = xxph3_64_with_seed(self.first_key(position).unwrap_or_default(), key);
        let handle = self.handle(position).unwrap_or(BlockHandle { offset: u64::MAX, size: u64::MAX });
        let mut numbers = [0; 16];
        numbers[..8].copy_from_slice(&handle.offset.to_le_bytes());
        numbers[8..].copy_from_slice(&handle.size.to_le_bytes());
        xxph3_64_with_seed(&numbers, first_key)
    }

    #[cold]
    fn check(&self, position: usize) -> Result<()> {
        let bytes_per_key = usize::from(self.protection_bytes_per_key);
        let start = position.saturating_mul(bytes_per_key);
        let kept = self.protection.get(start..).and_then(|kept| kept.get(..bytes_per_key));
        let now = block_protection::truncated(self.fingerprint(position), self.protection_bytes_per_key);
        if kept.is_some_and(|kept| kept.iter().copied().eq(now)) { Ok(()) } else { Err(changed_entry(position)) }
    }

    /// As [`lower_bound`](Self::lower_bound), checked where the block is protected: the entries on both sides of the answer are
    /// unchanged, and the target lies between their keys.
    ///
    /// # Errors
    /// Corruption.
    #[inline]
    pub(crate) fn seek(&self, target: &[u8]) -> Result<usize> {
        let position = self.lower_bound(target);
        if !self.protection.is_empty() {
            self.check_bound(position, target)?;
        }
        Ok(position)
    }

    #[cold]
    fn check_bound(&self, position: usize, target: &[u8]) -> Result<()> {
        if let Some(before) = position.checked_sub(1) {
            self.check(before)?;
            if self.compare(before, target) != Ordering::Less {
                return Err(changed_entry(before));
            }
        }
        if position < self.len() {
            self.check(position)?;
            if self.compare(position, target) == Ordering::Less {
                return Err(changed_entry(position));
            }
        }
        Ok(())
    }

    /// The handle at `position`, of which no entry beyond the last has one; checked where the block is protected.
    ///
    /// # Errors
    /// Corruption.
    #[inline]
    pub(crate) fn entry(&self, position: usize) -> Result<Option<BlockHandle>> {
        let handle = self.handle(position);
        if handle.is_some() && !self.protection.is_empty() {
            self.check(position)?;
        }
        Ok(handle)
    }

    /// Forgets the sizes where offsets alone tell them.
    fn drop_needless_sizes(&mut self) {
        self.last_size = self.sizes.last().copied().unwrap_or(0);
        let ends =
            self.offsets.iter().zip(&self.sizes).map(|(&offset, &size)| BlockHandle { offset, size }.checked_end());
        if ends.zip(self.offsets.iter().skip(1)).all(|(end, &next)| end == Some(next)) {
            self.sizes = Vec::new();
        }
    }

    fn build_words(&mut self) {
        if self.is_empty() {
            return;
        }
        let mut shared = self.user_key(0).len();
        for position in 1..self.len() {
            shared = shared.min(common_prefix(self.user_key(0), self.user_key(position)));
        }
        self.words = (0..self.len())
            .map(|position| prefix_word(self.user_key(position).get(shared..).unwrap_or_default()))
            .collect();
        self.shared_prefix = self.user_key(0).get(..shared).unwrap_or_default().to_vec();
        // Words that do not ascend mean keys that do not: then only whole keys are compared, as for any other order.
        if !self.words.is_sorted() {
            self.words = Vec::new();
            self.shared_prefix = Vec::new();
        }
        self.samples = self.words.iter().copied().step_by(GROUP).collect();
    }

    /// Number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// The handle at `position`.
    #[inline]
    pub fn handle(&self, position: usize) -> Option<BlockHandle> {
        let offset = *self.offsets.get(position)?;
        let size = match (self.sizes.get(position), self.offsets.get(position + 1)) {
            (Some(&size), _) => size,
            (None, Some(&next)) => next.wrapping_sub(offset).wrapping_sub(BLOCK_TRAILER_SIZE as u64),
            (None, None) => self.last_size,
        };
        Some(BlockHandle { offset, size })
    }

    /// The key at `position`, in the form the file has.
    #[inline]
    pub fn key(&self, position: usize) -> &[u8] {
        piece(&self.key_ends, &self.keys, position)
    }

    /// The user key at `position`.
    #[inline]
    pub fn user_key(&self, position: usize) -> &[u8] {
        let key = self.key(position);
        if self.key_is_user_key { key } else { extract_user_key(key) }
    }

    /// The first internal key of the block at `position`, if the index tells it.
    #[inline]
    pub fn first_key(&self, position: usize) -> Option<&[u8]> {
        if self.first_key_ends.is_empty() {
            return None;
        }
        Some(piece(&self.first_key_ends, &self.first_keys, position))
    }

    /// Bytes of memory that the block takes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.keys.capacity()
            + self.first_keys.capacity()
            + (self.words.capacity() + self.samples.capacity() + self.offsets.capacity() + self.sizes.capacity())
                * size_of::<u64>()
            + (self.key_ends.capacity() + self.first_key_ends.capacity()) * size_of::<u32>()
            + self.protection.capacity()
    }

    /// Orders the key at `position` against the internal key `target`.
    #[inline]
    fn compare(&self, position: usize, target: &[u8]) -> Ordering {
        if self.key_is_user_key {
            self.comparator.compare_user(self.key(position), extract_user_key(target))
        } else {
            self.comparator.compare(self.key(position), target)
        }
    }

    /// The first position whose key is at or after the internal key `target`; [`len`](Self::len) when there is none.
    #[inline]
    pub fn lower_bound(&self, target: &[u8]) -> usize {
        if self.words.is_empty() {
            return self.lower_bound_in(0, self.len(), target);
        }
        let user_key = extract_user_key(target);
        let word = match user_key.strip_prefix(self.shared_prefix.as_slice()) {
            Some(rest) => prefix_word(rest),
            // All entries start with the prefix, so the target lies before or behind all of them.
            None if user_key < self.shared_prefix.as_slice() => return 0,
            None => return self.len(),
        };
        let low = self.first_word_at_least(word);
        if self.words.get(low) != Some(&word) {
            return low;
        }
        let equal = self.words.get(low..).unwrap_or_default().partition_point(|&other| other == word);
        self.lower_bound_in(low, low + equal, target)
    }

    /// The first position whose word is not less than `word`.
    #[inline]
    fn first_word_at_least(&self, word: u64) -> usize {
        let group = self.samples.partition_point(|&sample| sample < word).saturating_sub(1) * GROUP;
        let words = self.words.get(group..(group + GROUP).min(self.words.len())).unwrap_or_default();
        // The handle will lie in one of two cache lines: let them come while the words are looked at.
        std::hint::black_box(self.offsets.get(group + GROUP / 4));
        std::hint::black_box(self.offsets.get(group + 3 * GROUP / 4));
        group + words.iter().filter(|&&other| other < word).count()
    }

    fn lower_bound_in(&self, mut low: usize, mut high: usize, target: &[u8]) -> usize {
        while low < high {
            let middle = low + (high - low) / 2;
            if self.compare(middle, target) == Ordering::Less {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firn_format::block::Sharing;
    use firn_format::comparator::ReverseBytewiseComparator;
    use firn_format::index::IndexBlockBuilder;
    use firn_format::key::{InternalKey, SequenceNumber, ValueType};
    use proptest::prelude::*;
    use std::sync::Arc;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn lower_bound_agrees_with_a_linear_search(
            user_keys in prop::collection::btree_set(prop::collection::vec(prop::sample::select(vec![0u8, 1, 97, 255]), 0..14), 0..120),
            targets in prop::collection::vec(prop::collection::vec(prop::sample::select(vec![0u8, 1, 97, 255]), 0..14), 20),
            prefix in prop::collection::vec(any::<u8>(), 0..4),
            key_is_user_key: bool,
            reverse: bool,
        ) {
            let comparator = if reverse {
                InternalKeyComparator::new(Arc::new(ReverseBytewiseComparator))
            } else {
                InternalKeyComparator::default()
            };
            let format = IndexFormat { key_is_user_key, value_is_delta_encoded: true, has_first_key: true };
            let mut keys: Vec<InternalKey> = user_keys
                .iter()
                .map(|key| InternalKey::new(&[&prefix, key.as_slice()].concat(), SequenceNumber(5), ValueType::Value))
                .collect();
            if reverse {
                keys.reverse();
            }
            let mut builder = IndexBlockBuilder::new(format, 3);
            for (n, key) in keys.iter().enumerate() {
                builder.add(key.encoded(), BlockHandle { offset: n as u64 * 15, size: 10 }, key.encoded(), Sharing::Allowed);
            }
            let block = IndexBlock::decode(builder.finish(), format, &comparator).unwrap();
            prop_assert_eq!(block.len(), keys.len());
            for (n, key) in keys.iter().enumerate() {
                prop_assert_eq!(block.user_key(n), key.user_key());
                prop_assert_eq!(block.first_key(n), Some(key.encoded()));
                prop_assert_eq!(block.handle(n).unwrap().offset, n as u64 * 15);
            }
            let all = targets.iter().map(|key| [&prefix, key.as_slice()].concat());
            for target in all.chain(targets.iter().cloned()).chain(keys.iter().map(|key| key.user_key().to_vec())) {
                for sequence in [0, 5, 9] {
                    let target = InternalKey::new(&target, SequenceNumber(sequence), ValueType::Value);
                    let expected = keys.iter().position(|key| if key_is_user_key {
                        comparator.compare_user(key.user_key(), target.user_key()).is_ge()
                    } else {
                        comparator.compare(key.encoded(), target.encoded()).is_ge()
                    }).unwrap_or(keys.len());
                    prop_assert_eq!(block.lower_bound(target.encoded()), expected);
                }
            }
        }
    }

    fn block(format: IndexFormat, gap: u64) -> IndexBlock {
        let mut builder = IndexBlockBuilder::new(format, 3);
        for n in 0..40u64 {
            let key = InternalKey::new(
                format!("key{:04}{:09}", n / 3, n * 7).as_bytes(),
                SequenceNumber(5),
                ValueType::Value,
            );
            let handle = BlockHandle { offset: n * (100 + 5 + gap), size: 100 };
            let sharing = if gap == 0 { Sharing::Allowed } else { Sharing::Forbidden };
            builder.add(key.encoded(), handle, key.encoded(), sharing);
        }
        IndexBlock::decode(builder.finish(), format, &InternalKeyComparator::default()).unwrap()
    }

    /// One bit of the `n`-th byte of what the block keeps; `false` beyond the last.
    fn turn(block: &mut IndexBlock, mut n: usize, bit: u8) -> bool {
        for bytes in [&mut block.keys, &mut block.first_keys, &mut block.shared_prefix, &mut block.protection] {
            if let Some(byte) = bytes.get_mut(n) {
                *byte ^= 1 << bit;
                return true;
            }
            n -= bytes.len();
        }
        for numbers in [&mut block.words, &mut block.samples, &mut block.offsets, &mut block.sizes] {
            if let Some(number) = numbers.get_mut(n / 8) {
                *number ^= 1 << (n % 8 * 8 + usize::from(bit));
                return true;
            }
            n -= numbers.len() * 8;
        }
        for ends in [&mut block.key_ends, &mut block.first_key_ends] {
            if let Some(end) = ends.get_mut(n / 4) {
                *end ^= 1 << (n % 4 * 8 + usize::from(bit));
                return true;
            }
            n -= ends.len() * 4;
        }
        block.last_size ^= 1 << (n % 8 * 8 + usize::from(bit));
        n < 8
    }

    #[test]
    fn a_turned_bit_of_a_protected_block_is_an_error_or_harmless() {
        for (key_is_user_key, gap) in [(false, 0), (true, 1)] {
            let format = IndexFormat { key_is_user_key, value_is_delta_encoded: true, has_first_key: true };
            let answer = |block: &IndexBlock, target: &InternalKey| {
                let position = block.seek(target.encoded())?;
                let handle = block.entry(position)?;
                Ok::<_, Error>((
                    position,
                    handle,
                    block.first_key(position).filter(|_| handle.is_some()).map(<[u8]>::to_vec),
                ))
            };
            let sound = block(format, gap);
            let targets: Vec<_> = (0..40)
                .step_by(3)
                .flat_map(|n| [sound.user_key(n).to_vec(), [sound.user_key(n), b"x"].concat()])
                .chain([b"a".to_vec(), b"z".to_vec()])
                .map(|key| InternalKey::for_seek(&key, SequenceNumber::MAX))
                .collect();
            let expected: Vec<_> = targets.iter().map(|target| answer(&sound, target).unwrap()).collect();
            let (mut n, mut noticed) = (0, 0);
            loop {
                let mut block = block(format, gap).protect(8);
                if !turn(&mut block, n, (n % 8) as u8) {
                    break;
                }
                n += 1;
                for (target, expected) in targets.iter().zip(&expected) {
                    match answer(&block, target) {
                        Ok(found) => assert_eq!(&found, expected, "byte {n}"),
                        Err(error) => {
                            assert!(error.is_corruption());
                            noticed += 1;
                        }
                    }
                }
            }
            assert!(n > 2000 && noticed > n, "{n} bits turned, noticed {noticed} times");
        }
    }
}
