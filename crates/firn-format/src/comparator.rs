//! The order of user keys and of internal keys.
//!
//! A [`Comparator`] orders user keys and is known on disk by its name. [`InternalKeyComparator`] orders internal keys on
//! top of one; the two built-in orders are dispatched statically, since every search does little else than compare.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::key::{extract_footer, extract_user_key};

/// A total order of user keys.
///
/// Implementations must be thread-safe and must never change their order: it is stored in files under [`name`](Self::name).
pub trait Comparator: Send + Sync {
    /// The name under which databases remember the order.
    fn name(&self) -> &str;

    /// Orders two user keys (with timestamps, where the order has them).
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering;

    /// May shorten `start` to any key in `[start, limit)`; used for index entries. Leaving it as it is is correct.
    fn find_shortest_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        let _ = (start, limit);
    }

    /// May shorten `key` to any key at or after it; used for the last index entry. Leaving it as it is is correct.
    fn find_short_successor(&self, key: &mut Vec<u8>) {
        let _ = key;
    }

    /// Bytes of user timestamp at the end of every user key; 0 when there are none.
    fn timestamp_size(&self) -> usize {
        0
    }

    /// Whether `t` directly follows `s` among the keys of the same length.
    fn is_same_length_immediate_successor(&self, s: &[u8], t: &[u8]) -> bool {
        let _ = (s, t);
        false
    }

    /// Whether two keys of different bytes may compare equal; hash-based structures are off if so.
    fn can_keys_with_different_byte_contents_be_equal(&self) -> bool {
        true
    }

    /// Which built-in order this is, if it is one.
    fn kind(&self) -> ComparatorKind {
        ComparatorKind::Custom
    }
}

/// Tells the built-in orders, which are compared without a virtual call, from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparatorKind {
    /// `leveldb.BytewiseComparator`.
    Bytewise,
    /// `rocksdb.ReverseBytewiseComparator`.
    ReverseBytewise,
    /// Any other.
    Custom,
}

/// Lexicographic order of unsigned bytes: `leveldb.BytewiseComparator`, the default.
#[derive(Clone, Copy, Debug, Default)]
pub struct BytewiseComparator;

impl Comparator for BytewiseComparator {
    fn name(&self) -> &str {
        "leveldb.BytewiseComparator"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }

    fn find_shortest_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        let common = common_prefix(start, limit);
        let (Some(&start_byte), Some(&limit_byte)) = (start.get(common), limit.get(common)) else {
            return; // one is a prefix of the other: nothing shorter lies between
        };
        if start_byte >= limit_byte {
            return;
        }
        if common + 1 < limit.len() || start_byte + 1 < limit_byte {
            start.truncate(common);
            start.push(start_byte + 1);
        } else {
            // `start_byte + 1` would be the limit itself: keep this byte and raise the first later one that can be.
            let raise = start.iter().enumerate().skip(common + 1).find(|(_, byte)| **byte < 0xff);
            if let Some((at, &byte)) = raise {
                start.truncate(at);
                start.push(byte + 1);
            }
        }
        debug_assert!(start.as_slice() < limit);
    }

    fn find_short_successor(&self, key: &mut Vec<u8>) {
        if let Some((at, &byte)) = key.iter().enumerate().find(|(_, byte)| **byte != 0xff) {
            key.truncate(at);
            key.push(byte + 1);
        }
    }

    fn is_same_length_immediate_successor(&self, s: &[u8], t: &[u8]) -> bool {
        if s.len() != t.len() {
            return false;
        }
        let mut successor = s.to_vec();
        for byte in successor.iter_mut().rev() {
            *byte = byte.wrapping_add(1);
            if *byte != 0 {
                return successor == t;
            }
        }
        false
    }

    fn can_keys_with_different_byte_contents_be_equal(&self) -> bool {
        false
    }

    fn kind(&self) -> ComparatorKind {
        ComparatorKind::Bytewise
    }
}

/// The reverse of [`BytewiseComparator`]: `rocksdb.ReverseBytewiseComparator`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReverseBytewiseComparator;

impl Comparator for ReverseBytewiseComparator {
    fn name(&self) -> &str {
        "rocksdb.ReverseBytewiseComparator"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }

    fn find_shortest_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        let common = common_prefix(start, limit);
        if common == limit.len() {
            return; // the limit is a prefix of start: start is already the shortest between them, or equal
        }
        if let (Some(start_byte), Some(limit_byte)) = (start.get(common), limit.get(common))
            && start_byte > limit_byte
            && common + 1 < start.len()
        {
            start.truncate(common + 1);
        }
    }

    fn can_keys_with_different_byte_contents_be_equal(&self) -> bool {
        false
    }

    fn kind(&self) -> ComparatorKind {
        ComparatorKind::ReverseBytewise
    }
}

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

/// Orders internal keys: user key ascending by a [`Comparator`], then footer descending.
#[derive(Clone)]
pub struct InternalKeyComparator {
    user: Arc<dyn Comparator>,
    kind: ComparatorKind,
}

impl InternalKeyComparator {
    /// The order of internal keys on top of `user`.
    pub fn new(user: Arc<dyn Comparator>) -> Self {
        let kind = user.kind();
        Self { user, kind }
    }

    /// The order of user keys below.
    pub fn user_comparator(&self) -> &Arc<dyn Comparator> {
        &self.user
    }

    /// Which built-in order of user keys this is, if it is one.
    #[inline]
    pub fn kind(&self) -> ComparatorKind {
        self.kind
    }

    /// Orders two user keys.
    #[inline]
    pub fn compare_user(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self.kind {
            ComparatorKind::Bytewise => a.cmp(b),
            ComparatorKind::ReverseBytewise => b.cmp(a),
            ComparatorKind::Custom => self.user.compare(a, b),
        }
    }

    /// Orders two internal keys.
    #[inline]
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.compare_user(extract_user_key(a), extract_user_key(b))
            .then_with(|| extract_footer(b).cmp(&extract_footer(a)))
    }
}

impl Default for InternalKeyComparator {
    fn default() -> Self {
        Self::new(Arc::new(BytewiseComparator))
    }
}

impl std::fmt::Debug for InternalKeyComparator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "InternalKeyComparator({})", self.user.name())
    }
}
