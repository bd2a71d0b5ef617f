//! Filters of tables: which keys a file cannot hold.
//!
//! While a table is written, keys and prefixes flow into a [`FilterBuilder`], which a [`FilterPolicy`] made; its result
//! is the content of a filter block. While it is read, the content flows into a [`FilterLayout`] and a [`FilterReader`],
//! which answer "cannot be there" or "may be there". A content says itself, in its last five bytes, which of the kinds it
//! is: new Bloom ([`bloom`]), legacy Bloom ([`legacy_bloom`]) or Ribbon ([`ribbon`]); the configured policy plays no part in
//! reading.
//!
//! Always true here: an added key is never denied; content that is damaged or of an unknown kind denies nothing; queries
//! borrow the content and read only inside it; equal entries give the bytes that RocksDB gives.

pub mod bloom;
mod builder;
pub mod legacy_bloom;
mod policy;
pub mod ribbon;

pub use builder::FilterBuilder;
pub use policy::{BUILTIN_COMPATIBILITY_NAME, FilterContext, FilterPolicy, PolicyKind};

use crate::hash::{bloom_hash, xxph3_64};

/// Bytes of the trailer that ends every filter content.
pub const TRAILER_BYTES: usize = 5;

/// A key or prefix with its hash, made once and then shown to many filters.
#[derive(Clone, Copy, Debug)]
pub struct FilterKey<'a> {
    key: &'a [u8],
    hash: u64,
}

impl<'a> FilterKey<'a> {
    /// Hashes a user key (without timestamp) or a prefix.
    #[inline]
    pub fn new(key: &'a [u8]) -> Self {
        Self { key, hash: xxph3_64(key) }
    }

    /// The 64-bit hash that new Bloom and Ribbon filters use.
    #[inline]
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

/// What the trailer of a filter content says; parsed once per filter and kept beside the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterLayout {
    /// Nothing can be denied: empty, damaged, reserved or unknown content.
    AlwaysTrue,
    /// No key was added.
    AlwaysFalse,
    /// New Bloom.
    FastLocalBloom(bloom::Layout),
    /// Legacy Bloom.
    LegacyBloom(legacy_bloom::Layout),
    /// Ribbon.
    Ribbon(ribbon::Layout),
}

impl FilterLayout {
    /// Reads the trailer of the content of a full filter or of a partition of non-zero size. Never fails.
    pub fn parse(content: &[u8]) -> Self {
        let Some((body, trailer)) = content.split_last_chunk::<TRAILER_BYTES>() else {
            return if content.is_empty() { Self::AlwaysTrue } else { Self::AlwaysFalse };
        };
        if body.is_empty() {
            return Self::AlwaysFalse;
        }
        let known = match trailer[0] {
            0xff => bloom::Layout::parse(body.len(), trailer).map(Self::FastLocalBloom),
            0xfe => ribbon::Layout::parse(body.len(), trailer).map(Self::Ribbon),
            1..=0x7f => legacy_bloom::Layout::parse(body.len(), trailer).map(Self::LegacyBloom),
            _ => None,
        };
        known.unwrap_or(Self::AlwaysTrue)
    }
}

/// Queries one filter content; borrows it, copies nothing.
#[derive(Clone, Copy, Debug)]
pub struct FilterReader<'a> {
    layout: FilterLayout,
    body: &'a [u8],
}

impl<'a> FilterReader<'a> {
    /// A reader of `content`, body and trailer.
    pub fn new(content: &'a [u8]) -> Self {
        Self::with_layout(FilterLayout::parse(content), content)
    }

    /// A reader of `content` whose layout was parsed before; does not touch the content.
    #[inline]
    pub fn with_layout(layout: FilterLayout, content: &'a [u8]) -> Self {
        let body = content.get(..content.len().saturating_sub(TRAILER_BYTES)).unwrap_or_default();
        Self { layout, body }
    }

    /// Where in the content a query for `key` will read first; for prefetching. `None` when it reads nothing, or at no
    /// place worth fetching ahead.
    #[inline]
    pub fn prepare(&self, key: &FilterKey<'_>) -> Option<usize> {
        match &self.layout {
            FilterLayout::FastLocalBloom(layout) => Some(layout.line_offset(key.hash)),
            FilterLayout::Ribbon(layout) => Some(layout.first_offset(key.hash)),
            FilterLayout::LegacyBloom(layout) => Some(layout.line_offset(bloom_hash(key.key))),
            FilterLayout::AlwaysTrue | FilterLayout::AlwaysFalse => None,
        }
    }

    /// `false` only when `key` was not added.
    #[inline]
    pub fn may_match(&self, key: &FilterKey<'_>) -> bool {
        match &self.layout {
            FilterLayout::FastLocalBloom(layout) => layout.may_match(self.body, key.hash),
            FilterLayout::Ribbon(layout) => layout.may_match(self.body, key.hash),
            FilterLayout::LegacyBloom(layout) => layout.may_match(self.body, bloom_hash(key.key)),
            FilterLayout::AlwaysTrue => true,
            FilterLayout::AlwaysFalse => false,
        }
    }

    /// Answers many keys at once; `answers[i]` is for `keys[i]`, the shorter of the two slices counts.
    ///
    /// The cache lines of a group of keys are touched before the first of them is probed, so that their misses overlap.
    pub fn may_match_batch(&self, keys: &[FilterKey<'_>], answers: &mut [bool]) {
        const GROUP: usize = 16;
        for (keys, answers) in keys.chunks(GROUP).zip(answers.chunks_mut(GROUP)) {
            let mut touched = 0u8;
            for key in keys {
                if let Some(byte) = self.prepare(key).and_then(|offset| self.body.get(offset)) {
                    touched ^= byte;
                }
            }
            std::hint::black_box(touched);
            for (key, answer) in keys.iter().zip(answers) {
                *answer = self.may_match(key);
            }
        }
    }
}

#[cfg(test)]
mod tests;
