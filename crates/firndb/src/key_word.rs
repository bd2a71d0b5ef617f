//! Eight bytes of a key as one integer that orders almost like the key.
//!
//! A [`KeyWords`] maps user keys to 64-bit words so that a key that sorts before another never has the greater word. Words
//! that differ settle a comparison with one integer compare and without touching the keys' memory; equal words settle
//! nothing. Memtable nodes and merge heaps keep words beside their pointers for this.
//!
//! Where all keys begin with the same bytes, those bytes can be given as the *stem*: words are then taken after it, and
//! keys without the stem get the least or the greatest word.

use firn_format::comparator::ComparatorKind;

/// The mapping from user keys to words for one order of keys.
#[derive(Clone, Debug)]
pub(crate) struct KeyWords {
    kind: ComparatorKind,
    stem: Vec<u8>,
}

/// The first eight bytes as a big-endian number, filled up with zeros.
#[inline]
fn leading_bytes(key: &[u8]) -> u64 {
    if let Some(head) = key.first_chunk::<8>() {
        return u64::from_be_bytes(*head);
    }
    let mut word = 0;
    for &byte in key {
        word = word << 8 | u64::from(byte);
    }
    // A key of no bytes would shift by 64, which is not defined; its word is zero either way.
    if key.is_empty() { 0 } else { word << (8 * (8 - key.len())) }
}

impl KeyWords {
    /// Words for keys of the given order, taken after `stem`. Orders that are not built in get equal words for all keys.
    pub(crate) fn new(kind: ComparatorKind, stem: &[u8]) -> Self {
        Self { kind, stem: stem.to_vec() }
    }

    /// The word of `user_key`.
    #[inline]
    pub(crate) fn word(&self, user_key: &[u8]) -> u64 {
        match self.kind {
            ComparatorKind::Bytewise => self.forward(user_key),
            ComparatorKind::ReverseBytewise => !self.forward(user_key),
            ComparatorKind::Custom => 0,
        }
    }

    #[inline]
    fn forward(&self, key: &[u8]) -> u64 {
        if self.stem.is_empty() {
            return leading_bytes(key);
        }
        match key.strip_prefix(self.stem.as_slice()) {
            Some(rest) => leading_bytes(rest),
            None if key < self.stem.as_slice() => 0,
            None => u64::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn words_never_contradict_the_order(
            a in prop::collection::vec(0u8..3, 0..12),
            b in prop::collection::vec(0u8..3, 0..12),
            stem in prop::collection::vec(0u8..3, 0..4),
        ) {
            let forward = KeyWords::new(ComparatorKind::Bytewise, &stem);
            if a <= b {
                prop_assert!(forward.word(&a) <= forward.word(&b));
            }
            let reverse = KeyWords::new(ComparatorKind::ReverseBytewise, &stem);
            if b <= a {
                prop_assert!(reverse.word(&a) <= reverse.word(&b));
            }
        }
    }
}
