//! Data blocks in memory and point searches in them.
//!
//! When a data block enters memory it gets a [`RestartTable`]: the first eight bytes of a few restart keys, behind what
//! all of them share, as big-endian words. It lies beside the pointer to the payload, so that a lookup under the bytewise
//! order touches the payload first where the wanted entry is near. From there entries are compared as they lie, against
//! what the target has in common with the key before, and no key is put together.

use std::cmp::Ordering;
use std::ops::Range;

use firn_error::{Error, Result};
use firn_format::block::{BlockCursor, BlockLayout, BlockView, EntryHeader, bad_entry, common_prefix};
use firn_format::key::{FOOTER_SIZE, extract_user_key};

use crate::block_protection::{self, BlockProtection};
use crate::frame::Frame;
use crate::index_block::prefix_word;
use crate::prefetch::prefetch_byte;

/// A data block: its payload, where its parts lie, and the way into it.
#[derive(Debug)]
pub struct DataBlock {
    /// The payload, and behind it the protection of its entries, if there is one.
    payload: Frame,
    layout: BlockLayout,
    restarts: RestartTable,
    /// Bytes of protection for each entry; 0: none.
    protection: u8,
}

impl DataBlock {
    /// Copies an uncompressed payload.
    ///
    /// # Errors
    /// Corruption when it is no block.
    pub fn new(payload: &[u8]) -> Result<Self> {
        Self::from_frame(Frame::from(payload))
    }

    pub(crate) fn from_frame(payload: Frame) -> Result<Self> {
        let layout = BlockLayout::parse(&payload)?;
        let restarts = RestartTable::new(BlockView { payload: &payload, layout });
        Ok(Self { payload, layout, restarts, protection: 0 })
    }

    /// As [`from_frame`](Self::from_frame), with so many bytes of protection for each entry; 0: none.
    #[inline]
    pub(crate) fn with_protection(payload: Frame, bytes_per_key: u8) -> Result<Self> {
        let block = Self::from_frame(payload)?;
        if bytes_per_key == 0 { Ok(block) } else { block.protect(bytes_per_key) }
    }

    #[cold]
    fn protect(self, bytes_per_key: u8) -> Result<Self> {
        let payload = block_protection::protect(&self.payload, self.layout, bytes_per_key)?;
        Ok(Self { payload, protection: bytes_per_key, ..self })
    }

    /// What broken memory does.
    #[cfg(test)]
    pub(crate) fn turn_bit(&mut self, bit: usize) {
        self.payload[bit / 8] ^= 1 << (bit % 8);
    }

    /// Whether what is read from the block must be checked.
    #[inline]
    pub(crate) fn is_protected(&self) -> bool {
        self.protection > 0
    }

    fn protection(&self) -> Result<BlockProtection<'_>> {
        BlockProtection::of(&self.payload, self.layout, self.protection)
    }

    /// Whether the entry that `cursor` stands on is what it was when the block was read. The block must be protected.
    ///
    /// # Errors
    /// Corruption.
    #[cold]
    pub(crate) fn check_entry(&self, cursor: &BlockCursor) -> Result<()> {
        self.protection()?.check_entry(cursor)
    }

    /// Moves `cursor` to the first entry whose key is not less than the target, and checks all that leads there. The block must
    /// be protected.
    ///
    /// # Errors
    /// Corruption.
    #[cold]
    pub(crate) fn checked_seek(&self, cursor: &mut BlockCursor, compare: impl Fn(&[u8]) -> Ordering) -> Result<bool> {
        self.protection()?.seek(cursor, compare)
    }

    /// Bytes of memory that the payload takes.
    pub(crate) fn payload_memory_bytes(&self) -> usize {
        self.payload.capacity()
    }

    /// The block as cursors walk over it.
    #[inline]
    pub fn view(&self) -> BlockView<'_> {
        BlockView { payload: &self.payload, layout: self.layout }
    }

    /// A restart point from which a scan for `user_key` under the bytewise order may start, and its offset: all entries
    /// before it come before the user key. It is the last such restart point, or not far from it.
    #[inline]
    pub(crate) fn restart_for(&self, user_key: &[u8]) -> Result<(u32, usize)> {
        let view = self.view();
        let (mut low, mut high) = self.restarts.range_for(user_key, self.layout.num_restarts);
        if high - low <= 1
            && let Some(offset) = self.restarts.offset_of(low)
        {
            return Ok((low, offset));
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if extract_user_key(view.restart_key(middle)?) < user_key {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok((low, view.restart_offset(low)?))
    }

    /// Asks for what a scan from `offset` is going to read. It goes from entry to entry, and each tells only where the next one
    /// is; so the lines come together instead of one after the other, which saves an eighth of a cached lookup.
    #[inline]
    pub(crate) fn prefetch_scan(&self, offset: usize) {
        for line in 1..=PREFETCHED_LINES {
            prefetch_byte(&self.payload, offset + line * 64);
        }
    }

    /// Asks for what a later [`find`](Self::find) of `user_key` is going to read.
    #[inline]
    pub(crate) fn prefetch_find(&self, user_key: &[u8]) {
        if self.layout.is_empty() || self.layout.separated_values {
            return;
        }
        let (low, _) = self.restarts.range_for(user_key, self.layout.num_restarts);
        if let Some(offset) = self.restarts.offset_of(low) {
            prefetch_byte(&self.payload, offset);
            self.prefetch_scan(offset);
        }
    }

    /// Looks for the first entry at or after user key and footer of a lookup, under the bytewise order.
    #[inline]
    pub(crate) fn find(&self, user_key: &[u8], footer: u64) -> Result<Found> {
        if self.layout.is_empty() {
            return Ok(Found::EndOfBlock);
        }
        if self.layout.separated_values {
            return Ok(Found::Undecided);
        }
        let (_, offset) = self.restart_for(user_key)?;
        self.prefetch_scan(offset);
        find_from(self.view().entries(), offset, user_key, footer)
    }
}

/// Cache lines of a scan that are asked for at its start, beyond the first.
const PREFETCHED_LINES: usize = 15;

/// What a point search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The entry of the user key with this footer, and where its value lies in the payload.
    Entry { footer: u64, value: Range<usize> },
    /// The first entry behind the target is of another user key.
    OtherKey,
    /// All entries come before the target.
    EndOfBlock,
    /// The entries share bytes in a way that takes whole keys to tell.
    Undecided,
}

/// Scans from the restart point at `offset`, whose key must come before the target or be the block's first.
fn find_from(entries: &[u8], mut offset: usize, user_key: &[u8], footer: u64) -> Result<Found> {
    // How many bytes of the target the key before begins with, and how long its user key was.
    let (mut matched, mut last_length) = (0usize, 0usize);
    let mut first = true;
    while offset < entries.len() {
        let header = EntryHeader::decode(entries, offset, false).ok_or_else(bad_entry)?;
        let (shared, non_shared) = (header.shared as usize, header.non_shared as usize);
        let key_end = header.key_start + non_shared;
        let value_end = key_end + header.value_length as usize;
        if value_end > entries.len() || shared > last_length + FOOTER_SIZE || (first && shared != 0) {
            return Err(bad_entry());
        }
        let Some(length) = (shared + non_shared).checked_sub(FOOTER_SIZE) else {
            return Err(too_small(shared + non_shared));
        };
        offset = value_end;
        if shared > matched {
            // The keys differ behind the place where the one before left the target: this one leaves it there too.
            if matched < last_length && matched < length {
                last_length = length;
                continue;
            }
            return Ok(Found::Undecided);
        }
        if shared > length {
            return Ok(Found::Undecided);
        }
        let delta = entries.get(header.key_start..key_end).unwrap_or_default();
        let user_delta = delta.get(..length - shared).unwrap_or_default();
        let rest = user_key.get(shared..).unwrap_or_default();
        let common = common_prefix(user_delta, rest);
        matched = shared + common;
        last_length = length;
        first = false;
        match (user_delta.get(common), rest.get(common)) {
            (Some(entry), Some(target)) if entry < target => {}
            (None, Some(_)) => {}
            (Some(_), _) => return Ok(Found::OtherKey),
            (None, None) => {
                let Some(bytes) = delta.last_chunk::<FOOTER_SIZE>() else {
                    return Ok(Found::Undecided); // part of the footer stands in the key before
                };
                let found = u64::from_le_bytes(*bytes);
                if found <= footer {
                    return Ok(Found::Entry { footer: found, value: key_end..value_end });
                }
                return Ok(Found::Undecided); // newer than the target: the next version shares bytes of this footer
            }
        }
    }
    Ok(Found::EndOfBlock)
}

#[cold]
fn too_small(length: usize) -> Error {
    Error::corruption(format!("Corrupted Key: Internal Key too small. Size={length}. "))
}

const WORDS: usize = 3;
const PREFIX_BYTES: usize = 16;

/// Words of up to three restart keys that divide a block into about equal parts.
#[derive(Debug, Default)]
struct RestartTable {
    /// The words in the processor's byte order; as bytes, so that the table packs tightly.
    words: [[u8; 8]; WORDS],
    /// Offsets of the restart points of the words; 0 where it does not fit.
    offsets: [u16; WORDS],
    /// Restart points from one word to the next; 0 when there are no words.
    step: u16,
    prefix_length: u8,
    count: u8,
    /// What the keys of the words start with.
    prefix: [u8; PREFIX_BYTES],
}

impl RestartTable {
    /// The table of a block; one without words where a restart key does not decode or too much is shared. The block may
    /// be damaged: what does not decode is met again, and reported, when it is searched.
    fn new(view: BlockView<'_>) -> Self {
        Self::try_new(view).unwrap_or_default()
    }

    fn try_new(view: BlockView<'_>) -> Option<Self> {
        let restarts = view.layout.num_restarts;
        if restarts < 2 || view.layout.separated_values {
            return None;
        }
        let step = restarts.div_ceil(WORDS as u32 + 1);
        let count = (restarts - 1) / step;
        let key = |word: u32| view.restart_key((word + 1) * step).ok().map(extract_user_key);
        let (first, last) = (key(0)?, key(count - 1)?);
        let shared = common_prefix(first, last);
        let mut table = Self { step: u16::try_from(step).ok()?, count: count as u8, ..Self::default() };
        table.prefix_length = u8::try_from(shared).ok()?;
        table.prefix.get_mut(..shared)?.copy_from_slice(first.get(..shared)?);
        let mut before = 0;
        for word in 0..count {
            let value = prefix_word(key(word)?.strip_prefix(first.get(..shared)?)?);
            if value < before {
                return None;
            }
            before = value;
            *table.words.get_mut(word as usize)? = value.to_ne_bytes();
            let offset = view.restart_offset((word + 1) * step).ok()?;
            *table.offsets.get_mut(word as usize)? = u16::try_from(offset).unwrap_or(0);
        }
        Some(table)
    }

    /// The restart points between which the scan for `user_key` starts: at the first, before the second.
    #[inline]
    fn range_for(&self, user_key: &[u8], restarts: u32) -> (u32, u32) {
        if self.count == 0 {
            return (0, restarts);
        }
        let prefix = self.prefix.get(..usize::from(self.prefix_length)).unwrap_or_default();
        let words = self.words.get(..usize::from(self.count)).unwrap_or_default();
        // Words less than the target's are of keys before it; equal ones may be on either side.
        let less = match user_key.get(..prefix.len()).map_or_else(|| user_key.cmp(prefix), |head| head.cmp(prefix)) {
            Ordering::Less => 0,
            Ordering::Greater => words.len(),
            Ordering::Equal => {
                let word = prefix_word(user_key.get(prefix.len()..).unwrap_or_default());
                words.iter().filter(|&&other| u64::from_ne_bytes(other) < word).count()
            }
        } as u32;
        let step = u32::from(self.step);
        let low = less * step;
        // Behind the words that are equal to the target's, all keys come after it.
        (low, (low + step).min(restarts))
    }

    /// The offset of restart point `restart`, if the table knows it.
    #[inline]
    fn offset_of(&self, restart: u32) -> Option<usize> {
        if restart == 0 {
            return Some(0);
        }
        if self.step == 0 || !restart.is_multiple_of(u32::from(self.step)) {
            return None;
        }
        let word = (restart / u32::from(self.step)) as usize - 1;
        self.offsets.get(word).filter(|&&offset| offset != 0).map(|&offset| usize::from(offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firn_format::block::{BlockBuilder, BlockBuilderOptions};
    use firn_format::key::{InternalKey, SequenceNumber, ValueType};
    use proptest::prelude::*;

    #[test]
    fn a_data_block_fills_what_the_cache_leaves_of_two_lines() {
        assert!(size_of::<DataBlock>() <= 88);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn find_agrees_with_a_linear_search(
            keys in prop::collection::btree_map(
                prop::collection::vec(prop::sample::select(vec![0u8, 1, 97, 255]), 0..12),
                prop::collection::btree_set(0u64..400, 1..4),
                0..60,
            ),
            targets in prop::collection::vec(prop::collection::vec(prop::sample::select(vec![0u8, 1, 97, 255]), 0..12), 20),
            prefix in prop::collection::vec(any::<u8>(), 0..20),
            restart_interval in 1usize..9,
            use_delta_encoding: bool,
        ) {
            let options = BlockBuilderOptions { restart_interval, use_delta_encoding, ..Default::default() };
            let mut builder = BlockBuilder::new(&options);
            let mut entries = Vec::new();
            for (key, sequences) in &keys {
                let user_key = [&prefix, key.as_slice()].concat();
                for &sequence in sequences.iter().rev() {
                    let key = InternalKey::new(&user_key, SequenceNumber(sequence), ValueType::Value);
                    builder.add(key.encoded(), &sequence.to_le_bytes());
                    entries.push((key, sequence));
                }
            }
            let block = DataBlock::new(builder.finish()).unwrap();
            let comparator = firn_format::comparator::InternalKeyComparator::default();
            let with_prefix = targets.iter().map(|key| [&prefix, key.as_slice()].concat());
            let known = entries.iter().map(|(key, _)| key.user_key().to_vec());
            for user_key in with_prefix.chain(known).chain(targets.iter().cloned()) {
                for sequence in [0, 100, 200, 1 << 40] {
                    let target = InternalKey::for_seek(&user_key, SequenceNumber(sequence));
                    let footer = firn_format::key::extract_footer(target.encoded());
                    let expected = entries.iter().find(|(key, _)| comparator.compare(key.encoded(), target.encoded()).is_ge());
                    match block.find(&user_key, footer).unwrap() {
                        Found::Entry { footer, value } => {
                            let (key, sequence) = expected.unwrap();
                            prop_assert_eq!(key.user_key(), user_key.as_slice());
                            prop_assert_eq!(footer >> 8, *sequence);
                            prop_assert_eq!(&block.view().payload[value], &sequence.to_le_bytes()[..]);
                        }
                        Found::OtherKey => prop_assert_ne!(expected.unwrap().0.user_key(), user_key.as_slice()),
                        Found::EndOfBlock => prop_assert!(expected.is_none()),
                        Found::Undecided => {}
                    }
                    if !block.view().layout.is_empty() {
                        let (restart, offset) = block.restart_for(&user_key).unwrap();
                        prop_assert_eq!(block.view().restart_offset(restart).unwrap(), offset);
                        if restart > 0 {
                            prop_assert!(extract_user_key(block.view().restart_key(restart).unwrap()) < user_key.as_slice());
                        }
                    }
                }
            }
        }
    }
}
