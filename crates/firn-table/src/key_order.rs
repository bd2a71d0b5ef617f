//! The order of a table's keys as its readers see them.
//!
//! Keys of an ingested file all count as written at one sequence number, whatever their bytes say. A [`KeyOrder`] compares
//! stored keys under that rule.

use std::cmp::Ordering;

use firn_format::comparator::InternalKeyComparator;
use firn_format::key::{FOOTER_SIZE, extract_footer, extract_user_key};

/// Compares stored keys with targets.
#[derive(Clone, Debug)]
pub(crate) struct KeyOrder {
    pub(crate) comparator: InternalKeyComparator,
    /// The sequence number that all stored keys count as having.
    pub(crate) global_sequence: Option<u64>,
}

impl KeyOrder {
    /// Orders a stored internal key against `target`.
    #[inline]
    pub(crate) fn compare(&self, stored: &[u8], target: &[u8]) -> Ordering {
        if self.global_sequence.is_none() {
            return self.comparator.compare(stored, target);
        }
        self.comparator
            .compare_user(extract_user_key(stored), extract_user_key(target))
            .then_with(|| extract_footer(target).cmp(&self.footer(extract_footer(stored))))
    }

    /// The footer that a stored footer counts as.
    #[inline]
    pub(crate) fn footer(&self, stored: u64) -> u64 {
        match self.global_sequence {
            Some(sequence) => sequence << 8 | (stored & 0xff),
            None => stored,
        }
    }

    /// Writes the key that `stored` counts as to `out`.
    pub(crate) fn rewrite(&self, stored: &[u8], out: &mut Vec<u8>) {
        out.clear();
        if stored.len() >= FOOTER_SIZE {
            out.extend_from_slice(extract_user_key(stored));
            out.extend_from_slice(&self.footer(extract_footer(stored)).to_le_bytes());
        }
    }
}
