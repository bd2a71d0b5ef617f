//! Index entries: block handles, separators between blocks, and index blocks in all their encodings.
//!
//! Separators and handles flow into an [`IndexBlockBuilder`]; a payload and its [`IndexFormat`] flow into an
//! [`IndexEntries`], which yields them again.
//!
//! ```text
//! entry       = shared | non-shared | [value length] | key delta | handle | [length-prefixed first key]
//! full handle = varint64 offset | varint64 size
//! delta       = zigzag varint64 of the change in size; the block starts where the one before ended
//! ```
//!
//! Which of these a file uses is told by its properties, never by its version.

use std::cmp::Ordering;

use firn_error::{Error, Result};

use crate::block::{BLOCK_TRAILER_SIZE, BlockBuilder, BlockBuilderOptions, BlockLayout, Sharing, bad_entry};
use crate::comparator::InternalKeyComparator;
use crate::key::{FOOTER_SIZE, SequenceNumber, ValueType, append_internal_key, extract_user_key};
use crate::varint::{
    get_length_prefixed, get_varint32, get_varint64, get_varsigned64, put_length_prefixed, put_varint64,
    put_varsigned64,
};

/// Where a block lies in its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BlockHandle {
    /// Offset of the first payload byte.
    pub offset: u64,
    /// Bytes of payload, without the trailer.
    pub size: u64,
}

impl BlockHandle {
    /// The handle that stands for no block.
    pub const NULL: Self = Self { offset: 0, size: 0 };

    /// Takes a handle off `input`.
    ///
    /// # Errors
    /// Corruption when it does not decode or its end overflows.
    #[inline]
    pub fn decode_from(input: &mut &[u8]) -> Result<Self> {
        let mut rest = *input;
        let bad = |_| Error::corruption("bad block handle");
        let offset = get_varint64(&mut rest).map_err(bad)?;
        let size = get_varint64(&mut rest).map_err(bad)?;
        let handle = Self { offset, size };
        if handle.checked_end().is_none() {
            return Err(Error::corruption("bad block handle"));
        }
        *input = rest;
        Ok(handle)
    }

    /// Appends the handle to `out`.
    pub fn encode_to(self, out: &mut Vec<u8>) {
        put_varint64(out, self.offset);
        put_varint64(out, self.size);
    }

    /// Whether this stands for no block.
    pub fn is_null(self) -> bool {
        self == Self::NULL
    }

    /// One past the trailer of the block, unless that overflows.
    #[inline]
    pub fn checked_end(self) -> Option<u64> {
        self.offset.checked_add(self.size)?.checked_add(BLOCK_TRAILER_SIZE as u64)
    }
}

/// How far index keys are shortened; the discriminants are RocksDB's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum IndexShortening {
    /// Index keys are the last keys of blocks.
    NoShortening = 0,
    /// Between two blocks, the shortest key that parts them. The default.
    #[default]
    ShortenSeparators = 1,
    /// Also after the last block.
    ShortenSeparatorsAndSuccessor = 2,
}

/// An index key for a block that ends with `last` and is followed by one that starts with `next`: it is at or after `last`
/// and before `next`. All are internal keys.
pub fn separator(
    comparator: &InternalKeyComparator,
    shortening: IndexShortening,
    last: &[u8],
    next: Option<&[u8]>,
) -> Vec<u8> {
    let last_user_key = extract_user_key(last);
    let mut shortened = last_user_key.to_vec();
    match next {
        _ if shortening == IndexShortening::NoShortening => return last.to_vec(),
        Some(next) => comparator.user_comparator().find_shortest_separator(&mut shortened, extract_user_key(next)),
        None if shortening == IndexShortening::ShortenSeparatorsAndSuccessor => {
            comparator.user_comparator().find_short_successor(&mut shortened);
        }
        None => return last.to_vec(),
    }
    if shortened.len() <= last_user_key.len() && comparator.compare_user(&shortened, last_user_key) == Ordering::Greater
    {
        let mut key = Vec::with_capacity(shortened.len() + FOOTER_SIZE);
        append_internal_key(&mut key, &shortened, SequenceNumber::MAX, ValueType::FOR_SEEK);
        key
    } else {
        last.to_vec()
    }
}

/// How the entries of a file's index blocks are encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexFormat {
    /// Keys are user keys, not internal keys.
    pub key_is_user_key: bool,
    /// Values stand without a length, as deltas where keys share bytes.
    pub value_is_delta_encoded: bool,
    /// Values end with the first internal key of their block.
    pub has_first_key: bool,
}

/// Builds one index block after the other, all in one [`IndexFormat`].
#[derive(Debug)]
pub struct IndexBlockBuilder {
    format: IndexFormat,
    block: BlockBuilder,
    last: BlockHandle,
    full: Vec<u8>,
    delta: Vec<u8>,
}

impl IndexBlockBuilder {
    /// An empty index block with a whole key at every `restart_interval`-th entry.
    pub fn new(format: IndexFormat, restart_interval: usize) -> Self {
        let options = BlockBuilderOptions {
            restart_interval,
            use_value_delta_encoding: format.value_is_delta_encoded,
            ..Default::default()
        };
        Self {
            format,
            block: BlockBuilder::new(&options),
            last: BlockHandle::NULL,
            full: Vec::new(),
            delta: Vec::new(),
        }
    }

    /// Adds an entry; `separator` is an internal key whatever the format. `first_key` is used where the format has it.
    /// With [`Sharing::Forbidden`] the entry does not assume that its block starts where the one before ended.
    pub fn add(&mut self, separator: &[u8], handle: BlockHandle, first_key: &[u8], sharing: Sharing) {
        let key = if self.format.key_is_user_key { extract_user_key(separator) } else { separator };
        self.full.clear();
        self.delta.clear();
        handle.encode_to(&mut self.full);
        put_varsigned64(&mut self.delta, handle.size.wrapping_sub(self.last.size) as i64);
        debug_assert!(
            self.block.is_empty()
                || sharing == Sharing::Forbidden
                || !self.format.value_is_delta_encoded
                || self.last.checked_end() == Some(handle.offset)
        );
        if self.format.has_first_key {
            put_length_prefixed(&mut self.full, first_key);
            put_length_prefixed(&mut self.delta, first_key);
        }
        self.block.add_index_entry(key, &self.full, &self.delta, sharing);
        self.last = handle;
    }

    /// Whether the block has no entry.
    pub fn is_empty(&self) -> bool {
        self.block.is_empty()
    }

    /// The size the block would have if finished now.
    pub fn current_size(&self) -> usize {
        self.block.current_size()
    }

    /// An upper estimate of the size after another entry with a key and value of these lengths.
    pub fn estimate_after(&self, key_length: usize, value_length: usize) -> usize {
        self.block.estimate_after(key_length, value_length)
    }

    /// Completes the block and returns its payload, which stays until [`reset`](Self::reset).
    pub fn finish(&mut self) -> &[u8] {
        self.block.finish()
    }

    /// Starts the next block.
    pub fn reset(&mut self) {
        self.block.reset();
        self.last = BlockHandle::NULL;
    }
}

/// Reads the entries of an index block from first to last.
#[derive(Debug)]
pub struct IndexEntries<'a> {
    format: IndexFormat,
    rest: &'a [u8],
    key: Vec<u8>,
    handle: BlockHandle,
    first_key: &'a [u8],
    uniform_keys: bool,
}

impl<'a> IndexEntries<'a> {
    /// Stands before the first entry of the index block `payload`.
    ///
    /// # Errors
    /// Corruption when the payload is no block.
    pub fn new(payload: &'a [u8], format: IndexFormat) -> Result<Self> {
        let layout = BlockLayout::parse(payload)?;
        if layout.separated_values {
            return Err(Error::corruption("bad block contents"));
        }
        Ok(Self {
            format,
            rest: payload.get(..layout.entries_end as usize).unwrap_or_default(),
            key: Vec::new(),
            handle: BlockHandle::NULL,
            first_key: &[],
            uniform_keys: layout.uniform_keys,
        })
    }

    /// Moves to the next entry; `false` when there is none.
    ///
    /// # Errors
    /// Corruption when the entry does not decode.
    pub fn advance(&mut self) -> Result<bool> {
        if self.rest.is_empty() {
            return Ok(false);
        }
        self.decode().map_err(|_| bad_entry())?;
        Ok(true)
    }

    fn decode(&mut self) -> Result<()> {
        let mut rest = self.rest;
        let shared = get_varint32(&mut rest)? as usize;
        let non_shared = get_varint32(&mut rest)? as usize;
        let value_length =
            if self.format.value_is_delta_encoded { None } else { Some(get_varint32(&mut rest)? as usize) };
        let (delta, after_key) = rest.split_at_checked(non_shared).ok_or_else(bad_entry)?;
        if shared > self.key.len() {
            return Err(bad_entry());
        }
        self.key.truncate(shared);
        self.key.extend_from_slice(delta);
        let (mut value, after_value) = match value_length {
            Some(length) => after_key.split_at_checked(length).ok_or_else(bad_entry)?,
            None => (after_key, &[][..]),
        };
        self.handle = if self.format.value_is_delta_encoded && shared != 0 {
            let change = get_varsigned64(&mut value)?;
            let offset = self.handle.checked_end().ok_or_else(bad_entry)?;
            let size = self.handle.size.checked_add_signed(change).ok_or_else(bad_entry)?;
            let handle = BlockHandle { offset, size };
            handle.checked_end().ok_or_else(bad_entry)?;
            handle
        } else {
            BlockHandle::decode_from(&mut value)?
        };
        if self.format.has_first_key {
            self.first_key = get_length_prefixed(&mut value)?;
        }
        self.rest = match value_length {
            Some(_) if !value.is_empty() => return Err(bad_entry()),
            Some(_) => after_value,
            None => value,
        };
        Ok(())
    }

    /// The key of the current entry, in the format's form.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The handle of the current entry.
    pub fn handle(&self) -> BlockHandle {
        self.handle
    }

    /// The first internal key of the current entry's block; empty where the format has none.
    pub fn first_key(&self) -> &'a [u8] {
        self.first_key
    }

    /// Whether the writer found the keys evenly spaced.
    pub fn uniform_keys(&self) -> bool {
        self.uniform_keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::InternalKey;
    use proptest::prelude::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    }

    fn ikey(user_key: &str) -> Vec<u8> {
        InternalKey::new(user_key.as_bytes(), SequenceNumber(0), ValueType::Value).encoded().to_vec()
    }

    const HANDLES: [(u64, u64); 6] = [(0, 59), (64, 63), (132, 67), (204, 71), (280, 75), (360, 79)];
    const FIRST: [&str; 6] = ["key000", "key020", "key040", "key060", "key080", "key100"];
    const LAST: [&str; 6] = ["key010", "key030", "key050", "key070", "key090", "key110"];

    fn build(format: IndexFormat) -> Vec<u8> {
        let comparator = InternalKeyComparator::default();
        let mut builder = IndexBlockBuilder::new(format, 3);
        for (n, (offset, size)) in HANDLES.into_iter().enumerate() {
            let next = FIRST.get(n + 1).map(|key| ikey(key));
            let key = separator(&comparator, IndexShortening::ShortenSeparators, &ikey(LAST[n]), next.as_deref());
            builder.add(&key, BlockHandle { offset, size }, &ikey(FIRST[n]), Sharing::Allowed);
        }
        builder.finish().to_vec()
    }

    fn check(format: IndexFormat, vector: &str) {
        let vector = hex(vector);
        assert_eq!(build(format), vector);
        let mut entries = IndexEntries::new(&vector, format).unwrap();
        for (n, (offset, size)) in HANDLES.into_iter().enumerate() {
            assert!(entries.advance().unwrap());
            assert_eq!(entries.handle(), BlockHandle { offset, size });
            if format.has_first_key {
                assert_eq!(entries.first_key(), ikey(FIRST[n]));
            }
        }
        assert_eq!(entries.key(), if format.key_is_user_key { b"key110".to_vec() } else { ikey("key110") });
        assert!(!entries.advance().unwrap());
    }

    #[test]
    fn index_blocks_match_the_vectors() {
        let mut format = IndexFormat::default();
        // The vector is of 7.8, which seeks with type 0x16 instead of 0x18.
        check(
            format,
            "000d02 6b65793032 18ffffffffffffff 003b   040902 34 18ffffffffffffff 403f
             040903 36 18ffffffffffffff 840143         000d03 6b65793038 18ffffffffffffff cc0147
             030903 31 18ffffffffffffff 98024b         040a03 3130 0100000000000000 e8024f
             00000000 2f000000 02000000",
        );
        format.key_is_user_key = true;
        check(
            format,
            "000502 6b65793032 003b  040102 34 403f  040103 36 840143  000503 6b65793038 cc0147
             030103 31 98024b  040203 3130 e8024f   00000000 17000000 02000000",
        );
        format.value_is_delta_encoded = true;
        check(
            format,
            "0005 6b65793032 003b  0401 34 08  0401 36 08  0005 6b65793038 cc0147
             0301 31 08  0402 3130 08   00000000 11000000 02000000",
        );
        format.has_first_key = true;
        check(
            format,
            "0005 6b65793032 003b 0e 6b6579303030 0100000000000000   0401 34 08 0e 6b6579303230 0100000000000000
             0401 36 08 0e 6b6579303430 0100000000000000             0005 6b65793038 cc0147 0e 6b6579303630 0100000000000000
             0301 31 08 0e 6b6579303830 0100000000000000             0402 3130 08 0e 6b6579313030 0100000000000000
             00000000 3e000000 02000000",
        );
    }

    #[test]
    fn successor_and_unshortened_keys() {
        let comparator = InternalKeyComparator::default();
        let last = ikey("abc");
        let key = separator(&comparator, IndexShortening::ShortenSeparatorsAndSuccessor, &last, None);
        assert_eq!(key, InternalKey::new(b"b", SequenceNumber::MAX, ValueType::FOR_SEEK).encoded());
        assert_eq!(separator(&comparator, IndexShortening::ShortenSeparators, &last, None), last);
        assert_eq!(separator(&comparator, IndexShortening::NoShortening, &last, Some(&ikey("x"))), last);
        assert_eq!(separator(&comparator, IndexShortening::ShortenSeparators, &last, Some(&ikey("abcd"))), last);
    }

    #[test]
    fn damaged_entries_are_refused() {
        let delta = IndexFormat { key_is_user_key: true, value_is_delta_encoded: true, has_first_key: false };
        for (format, text) in [
            (IndexFormat::default(), "0001 61"),
            (IndexFormat::default(), "000103 61 0015"),
            (IndexFormat::default(), "000103 61 001500"),
            (delta, "0101 61 0015"),
            (delta, "0001 61 00"),
            (delta, "0001 61 0015 0101 62 ffffffffffffffffffff01"),
            (delta, "0001 61 0015 0101 62 2d"),
            (delta, "0001 61 ffffffffffffffffff01 05"),
            (IndexFormat { has_first_key: true, ..delta }, "0001 61 0015 0561"),
        ] {
            let block = [hex(text), hex("00000000 01000000")].concat();
            let mut entries = IndexEntries::new(&block, format).unwrap();
            let outcome = loop {
                match entries.advance() {
                    Ok(true) => {}
                    other => break other,
                }
            };
            assert!(outcome.unwrap_err().is_corruption(), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn index_blocks_round_trip(
            keys in prop::collection::btree_set(prop::collection::vec(0u8..4, 0..6), 1..40),
            sizes in prop::collection::vec(0u64..100_000, 40),
            restart_interval in 1usize..6,
            key_is_user_key: bool, value_is_delta_encoded: bool, has_first_key: bool,
        ) {
            let format = IndexFormat { key_is_user_key, value_is_delta_encoded, has_first_key };
            let mut builder = IndexBlockBuilder::new(format, restart_interval);
            let mut offset = 0;
            let mut expected = Vec::new();
            for (n, (key, &size)) in keys.iter().zip(&sizes).enumerate() {
                let sharing = if n % 7 == 3 { offset += 11; Sharing::Forbidden } else { Sharing::Allowed };
                let key = InternalKey::new(key, SequenceNumber(9), ValueType::Value);
                let handle = BlockHandle { offset, size };
                builder.add(key.encoded(), handle, key.encoded(), sharing);
                offset += size + 5;
                expected.push((key, handle));
            }
            let block = builder.finish().to_vec();
            let mut entries = IndexEntries::new(&block, format).unwrap();
            for (key, handle) in expected {
                prop_assert!(entries.advance().unwrap());
                prop_assert_eq!(entries.key(), if key_is_user_key { key.user_key() } else { key.encoded() });
                prop_assert_eq!(entries.handle(), handle);
                prop_assert_eq!(entries.first_key(), if has_first_key { key.encoded() } else { &[] });
            }
            prop_assert!(!entries.advance().unwrap());
        }

        #[test]
        fn damage_never_panics(
            mut block in prop::collection::vec(any::<u8>(), 0..200),
            key_is_user_key: bool, value_is_delta_encoded: bool, has_first_key: bool,
        ) {
            block.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0]);
            let format = IndexFormat { key_is_user_key, value_is_delta_encoded, has_first_key };
            if let Ok(mut entries) = IndexEntries::new(&block, format) {
                while let Ok(true) = entries.advance() {}
            }
        }
    }
}
