//! Collecting the entries of one filter and making its content.
//!
//! Keys and prefixes flow in as hashes, in table order; the content (body and trailer) flows out. Equal hashes that follow
//! each other count once, by the rule of RocksDB 11, so that entry counts and therefore sizes agree.

use super::{bloom, legacy_bloom, ribbon};
use crate::filter::{FilterKey, FilterReader};
use crate::hash::{bloom_hash, xxph3_64};
use crate::{Error, Result};

/// Which bits the builder makes; decided by the policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Implementation {
    FastLocalBloom,
    LegacyBloom,
    /// Desired false-positive rate as "one in".
    Ribbon {
        one_in: f64,
    },
}

/// Makes the content of one filter, or of one partition after another.
#[derive(Clone, Debug)]
pub struct FilterBuilder {
    implementation: Implementation,
    millibits_per_key: u32,
    probes_by_density: bool,
    detect_corruption: bool,
    hashes: Vec<u64>,
    last_prefix: Option<u64>,
    /// XOR of all collected hashes, to notice memory that changed.
    checksum: u64,
}

impl FilterBuilder {
    pub(super) fn new(implementation: Implementation, millibits_per_key: u32, probes_by_density: bool) -> Self {
        Self {
            implementation,
            millibits_per_key,
            probes_by_density,
            detect_corruption: false,
            hashes: Vec::new(),
            last_prefix: None,
            checksum: 0,
        }
    }

    /// Lets [`finish`](Self::finish) compare the collected hashes with a checksum and query every one of them
    /// (option `detect_filter_construct_corruption`).
    pub fn set_detect_corruption(&mut self, detect: bool) {
        self.detect_corruption = detect;
    }

    /// Adds a whole user key without its timestamp, or a prefix on its own.
    #[inline]
    pub fn add(&mut self, entry: &[u8]) {
        let hash = self.hash(entry);
        if self.hashes.last() != Some(&hash) {
            self.push(hash);
        }
    }

    /// Adds a user key and its prefix together.
    pub fn add_key_and_prefix(&mut self, key: &[u8], prefix: &[u8]) {
        let (key, prefix) = (self.hash(key), self.hash(prefix));
        let (last, last_prefix) = (self.hashes.last().copied(), self.last_prefix);
        if Some(prefix) != last_prefix && prefix != key && Some(prefix) != last {
            self.push(prefix);
        }
        self.last_prefix = Some(prefix);
        if Some(key) != last && Some(key) != last_prefix {
            self.push(key);
        }
    }

    #[inline]
    fn hash(&self, entry: &[u8]) -> u64 {
        if self.implementation == Implementation::LegacyBloom { u64::from(bloom_hash(entry)) } else { xxph3_64(entry) }
    }

    #[inline]
    fn push(&mut self, hash: u64) {
        self.hashes.push(hash);
        self.checksum ^= hash;
    }

    /// How many entries the content in the making has.
    pub fn entries(&self) -> usize {
        self.hashes.len()
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.hashes.capacity() * size_of::<u64>()
    }

    /// The content for what was added since the last call; empty when nothing was. The builder is empty afterwards.
    ///
    /// # Errors
    /// With corruption detection, `Corruption` when memory changed between adding and finishing.
    pub fn finish(&mut self) -> Result<Vec<u8>> {
        let expected_checksum = std::mem::take(&mut self.checksum);
        self.last_prefix = None;
        if self.hashes.is_empty() {
            return Ok(Vec::new());
        }
        if self.detect_corruption && self.hashes.iter().fold(0, |sum, hash| sum ^ hash) != expected_checksum {
            self.hashes.clear();
            return Err(Error::corruption("Filter's hash entries checksum mismatched"));
        }
        let content = match self.implementation {
            Implementation::FastLocalBloom => {
                bloom::build(&self.hashes, self.millibits_per_key, self.probes_by_density)
            }
            Implementation::LegacyBloom => legacy_bloom::build(&self.hashes, self.whole_bits_per_key()),
            Implementation::Ribbon { one_in } => {
                ribbon::build(&self.hashes, one_in, self.millibits_per_key, self.probes_by_density)
            }
        };
        let intact = !self.detect_corruption || self.all_match(&content);
        self.hashes.clear();
        if intact { Ok(content) } else { Err(Error::corruption("Corrupted filter content")) }
    }

    fn all_match(&self, content: &[u8]) -> bool {
        let reader = FilterReader::new(content);
        self.hashes.iter().all(|&hash| match self.implementation {
            Implementation::LegacyBloom => match reader.layout {
                super::FilterLayout::LegacyBloom(layout) => layout.may_match(reader.body, hash as u32),
                _ => true,
            },
            _ => reader.may_match(&FilterKey { key: b"", hash }),
        })
    }

    fn whole_bits_per_key(&self) -> u32 {
        (self.millibits_per_key + 500) / 1000
    }

    /// About how many entries fit a content of `bytes`; for cutting partitions.
    pub fn approximate_entries(&self, bytes: u64) -> u64 {
        match self.implementation {
            Implementation::FastLocalBloom => bloom::approximate_entries(bytes, self.millibits_per_key),
            Implementation::LegacyBloom => legacy_bloom::approximate_entries(bytes, self.whole_bits_per_key()),
            Implementation::Ribbon { one_in } => ribbon::approximate_entries(bytes, one_in, self.millibits_per_key),
        }
    }

    /// After how many entries a partition is cut.
    pub fn keys_per_partition(
        &self,
        metadata_block_size: u64,
        block_size_deviation_percent: u32,
        has_prefix_extractor: bool,
    ) -> u64 {
        let percent = 100 - u64::from(block_size_deviation_percent.min(100));
        let target = (metadata_block_size.saturating_mul(percent).div_ceil(100)).max(1);
        let mut keys = self.approximate_entries(target);
        let mut bytes = (target + 4).max(16);
        while keys == 0 && bytes <= 100_000 {
            keys = self.approximate_entries(bytes);
            bytes += bytes / 4;
        }
        if keys == 0 {
            keys = target;
        }
        if has_prefix_extractor && keys > 1 { keys - 1 } else { keys }
    }
}
