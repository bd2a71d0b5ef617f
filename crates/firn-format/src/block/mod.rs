//! Key/value blocks: data, index, metaindex, properties, range-deletion and filter-partition-index blocks.
//!
//! Entries flow into a [`BlockBuilder`] in key order and come out as a block payload; a payload flows into
//! [`BlockLayout::parse`], and a [`BlockCursor`] walks its entries in both directions.
//!
//! ```text
//! entries | [values] | restart array: fixed32 × n | [hash buckets: u8 × b | fixed16 b] | [fixed32 values start] | fixed32 packed footer
//! entry   = varint32 shared | varint32 non-shared | varint32 value length | [varint32 value offset] | key delta | [value]
//! ```
//!
//! Keys share prefixes with their predecessors between restart points. Index blocks, whose values may be deltas without
//! a length, are decoded by [`crate::index`].
//!
//! Always true here: no offset or length of a block is used before it was checked against the block's bounds.

mod builder;
mod cursor;

pub use builder::{BlockBuilder, BlockBuilderOptions, Sharing, common_prefix};
pub use cursor::{BlockCursor, BlockIter};

use firn_error::{Error, Result};

/// Bytes after every block on disk: one compression type and a fixed32 checksum. Handles do not count them.
pub const BLOCK_TRAILER_SIZE: usize = 5;

/// The greatest payload a block may have: 2 GiB.
pub const MAX_BLOCK_PAYLOAD: u64 = 1 << 31;

/// The greatest payload that may carry a data-block hash index.
pub const MAX_HASH_INDEXED_PAYLOAD: usize = 1 << 16;

const HASH_INDEX_BIT: u32 = 1 << 31;
const RESERVED_BIT: u32 = 1 << 30;
const UNIFORM_KEYS_BIT: u32 = 1 << 29;
const SEPARATED_VALUES_BIT: u32 = 1 << 28;
const RESTART_COUNT_MASK: u32 = SEPARATED_VALUES_BIT - 1;

/// Where the parts of a block lie in its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockLayout {
    /// One past the last entry.
    pub entries_end: u32,
    /// Start of the restart array.
    pub restarts_offset: u32,
    /// Restart points; 0 when the block holds no entry.
    pub num_restarts: u32,
    /// Whether values stand apart from keys, in `entries_end..restarts_offset`.
    pub separated_values: bool,
    /// Start of the buckets of the data-block hash index.
    pub hash_offset: u32,
    /// Number of the buckets; 0 when there is no hash index.
    pub hash_buckets: u16,
    /// Whether the writer found the restart keys evenly spaced.
    pub uniform_keys: bool,
}

#[cold]
fn bad_contents() -> Error {
    Error::corruption("bad block contents")
}

/// The error of an entry that does not decode or does not fit.
#[cold]
pub fn bad_entry() -> Error {
    Error::corruption("bad entry in block")
}

fn fixed32_at(payload: &[u8], at: usize) -> Option<u32> {
    payload.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

impl BlockLayout {
    /// Finds the parts of `payload`, the uncompressed block without its trailer.
    ///
    /// # Errors
    /// Corruption when the parts do not fit the payload.
    pub fn parse(payload: &[u8]) -> Result<Self> {
        let size = payload.len();
        if size as u64 > MAX_BLOCK_PAYLOAD {
            return Err(bad_contents());
        }
        let word_at = size.checked_sub(4).ok_or_else(|| Error::corruption("Block too small for footer"))?;
        let word = fixed32_at(payload, word_at).ok_or_else(bad_contents)?;
        if word & RESERVED_BIT != 0 {
            return Err(Error::corruption("Unrecognized feature in block footer (reserved bits set)"));
        }
        if size < 8 {
            return Err(bad_contents());
        }
        let num_restarts = word & RESTART_COUNT_MASK;
        let mut end = word_at;
        let mut values_start = None;
        if word & SEPARATED_VALUES_BIT != 0 {
            end = end.checked_sub(4).ok_or_else(bad_contents)?;
            values_start = Some(fixed32_at(payload, end).ok_or_else(bad_contents)?);
        }
        let (mut hash_offset, mut hash_buckets) = (0, 0);
        if word & HASH_INDEX_BIT != 0 {
            if end >= MAX_HASH_INDEXED_PAYLOAD {
                return Err(bad_contents());
            }
            end = end.checked_sub(2).ok_or_else(bad_contents)?;
            let count = payload.get(end..).and_then(<[u8]>::first_chunk).ok_or_else(bad_contents)?;
            let count = u16::from_le_bytes(*count);
            if count == 0 {
                return Err(bad_contents());
            }
            end = end.checked_sub(usize::from(count)).ok_or_else(bad_contents)?;
            (hash_offset, hash_buckets) = (end as u32, count);
        }
        let restarts_bytes = (num_restarts as usize).checked_mul(4).ok_or_else(bad_contents)?;
        let restarts_offset = end.checked_sub(restarts_bytes).ok_or_else(bad_contents)? as u32;
        let entries_end = values_start.unwrap_or(restarts_offset);
        if entries_end > restarts_offset {
            return Err(bad_contents());
        }
        // A restart array at offset 0 belongs to a block without entries, whatever it counts.
        let num_restarts = if entries_end == 0 { 0 } else { num_restarts };
        let entries_end = if num_restarts == 0 { 0 } else { entries_end };
        Ok(Self {
            entries_end,
            restarts_offset,
            num_restarts,
            separated_values: values_start.is_some(),
            hash_offset,
            hash_buckets,
            uniform_keys: word & UNIFORM_KEYS_BIT != 0,
        })
    }

    /// Whether the block holds no entry.
    pub fn is_empty(&self) -> bool {
        self.num_restarts == 0
    }
}

/// A block payload with its layout: what cursors walk over. Cheap to copy.
#[derive(Clone, Copy, Debug)]
pub struct BlockView<'a> {
    /// The payload.
    pub payload: &'a [u8],
    /// Its layout, as [`BlockLayout::parse`] found it for this very payload.
    pub layout: BlockLayout,
}

impl<'a> BlockView<'a> {
    /// Parses the layout of `payload`.
    ///
    /// # Errors
    /// As [`BlockLayout::parse`].
    pub fn parse(payload: &'a [u8]) -> Result<Self> {
        Ok(Self { payload, layout: BlockLayout::parse(payload)? })
    }

    /// The bytes of all entries.
    #[inline]
    pub fn entries(&self) -> &'a [u8] {
        self.payload.get(..self.layout.entries_end as usize).unwrap_or_default()
    }

    /// Where restart point `index` lies.
    ///
    /// # Errors
    /// Corruption when there is no such restart point or it lies past the entries.
    #[inline]
    pub fn restart_offset(&self, index: u32) -> Result<usize> {
        let at = self.layout.restarts_offset as usize + index as usize * 4;
        match fixed32_at(self.payload, at) {
            Some(offset) if index < self.layout.num_restarts && offset < self.layout.entries_end => Ok(offset as usize),
            _ => Err(bad_contents()),
        }
    }

    /// The whole key at restart point `index`.
    ///
    /// # Errors
    /// Corruption when the entry there does not decode or shares bytes with a predecessor.
    #[inline]
    pub fn restart_key(&self, index: u32) -> Result<&'a [u8]> {
        let offset = self.restart_offset(index)?;
        let entry = EntryHeader::decode(self.entries(), offset, self.layout.separated_values).ok_or_else(bad_entry)?;
        if entry.shared != 0 {
            return Err(bad_entry());
        }
        self.entries().get(entry.key_start..entry.key_start + entry.non_shared as usize).ok_or_else(bad_entry)
    }

    /// The restart interval that the data-block hash index names for `user_key`.
    pub fn hash_lookup(&self, user_key: &[u8]) -> HashLookup {
        if self.layout.hash_buckets == 0 {
            return HashLookup::Collision;
        }
        let bucket = crate::data_block_hash::hash(user_key) % u32::from(self.layout.hash_buckets);
        match self.payload.get(self.layout.hash_offset as usize + bucket as usize) {
            Some(&crate::data_block_hash::EMPTY) => HashLookup::Absent,
            Some(&restart) if u32::from(restart) < self.layout.num_restarts => HashLookup::Restart(restart.into()),
            _ => HashLookup::Collision,
        }
    }
}

/// What the data-block hash index says about a user key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashLookup {
    /// If the key is in this block, it is in this restart interval.
    Restart(u32),
    /// The key is not in this block.
    Absent,
    /// Nothing; search.
    Collision,
}

/// The lengths at the head of an entry.
#[derive(Clone, Copy, Debug)]
pub struct EntryHeader {
    /// Leading bytes taken from the key before.
    pub shared: u32,
    /// Bytes of key that follow.
    pub non_shared: u32,
    /// Bytes of value.
    pub value_length: u32,
    /// Where the value starts in the values section; read only at restart points of blocks with separated values.
    pub value_offset: u32,
    /// Where the key delta starts.
    pub key_start: usize,
}

impl EntryHeader {
    /// Decodes the header at `at`; with `has_value_offset` for restart entries of blocks with separated values.
    /// `None` when it does not fit. The key delta is *not* checked against the bounds.
    #[inline(always)]
    pub fn decode(entries: &[u8], at: usize, has_value_offset: bool) -> Option<Self> {
        let rest = entries.get(at..)?;
        if let Some(&[shared, non_shared, value_length]) = rest.first_chunk()
            && (shared | non_shared | value_length) < 0x80
            && !has_value_offset
        {
            return Some(Self {
                shared: shared.into(),
                non_shared: non_shared.into(),
                value_length: value_length.into(),
                value_offset: 0,
                key_start: at + 3,
            });
        }
        Self::decode_slow(rest, at, has_value_offset)
    }

    #[inline(never)]
    fn decode_slow(mut rest: &[u8], at: usize, has_value_offset: bool) -> Option<Self> {
        let before = rest.len();
        let shared = short_varint32(&mut rest)?;
        let non_shared = short_varint32(&mut rest)?;
        let value_length = short_varint32(&mut rest)?;
        let value_offset = if has_value_offset { short_varint32(&mut rest)? } else { 0 };
        Some(Self { shared, non_shared, value_length, value_offset, key_start: at + before - rest.len() })
    }
}

#[inline]
fn short_varint32(input: &mut &[u8]) -> Option<u32> {
    crate::varint::get_varint32(input).ok()
}

#[cfg(test)]
mod tests;
