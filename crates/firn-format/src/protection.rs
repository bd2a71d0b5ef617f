//! Protection of single entries against bytes that change in memory (`docs/format/write-batch.md`, Protection of records).
//!
//! The fields of an entry flow in, 64 bits flow out: the exclusive or of one hash per field, so that a field can be taken
//! out or put in when an entry is handed over, without looking at the others again. Never stored in files.
//!
//! Always true here: a protection that changed hands still covers what it was first computed from; whoever checks it
//! against the bytes at hand finds damage done anywhere in between.

use crate::hash::xxph3_64_with_seed;
use crate::key::{SequenceNumber, ValueType};

const KEY_SEED: u64 = 0;
const VALUE_SEED: u64 = 0xD28A_AD72_F49B_D50B;
const TYPE_SEED: u64 = 0xA515_5AE5_E937_AA16;
const SEQUENCE_SEED: u64 = 0x77A0_0858_DDD3_7F21;
const FAMILY_SEED: u64 = 0x4A2A_B5CB_D26F_542C;

/// The protection of one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Protection(pub u64);

impl Protection {
    /// Of a key, a value and what they mean. The value of a range deletion is its end, that of other deletions is empty.
    #[inline]
    pub fn of(value_type: ValueType, key: &[u8], value: &[u8]) -> Self {
        Self(Self::of_stored(key, value).0 ^ xxph3_64_with_seed(&[value_type as u8], TYPE_SEED))
    }

    /// Of an entry as blocks store it, whose key tells what it means.
    #[inline]
    pub fn of_stored(internal_key: &[u8], value: &[u8]) -> Self {
        Self(xxph3_64_with_seed(internal_key, KEY_SEED) ^ xxph3_64_with_seed(value, VALUE_SEED))
    }

    /// With a column family, if it was without; without it, if it was with it.
    #[inline]
    #[must_use]
    pub fn toggle_family(self, column_family: u32) -> Self {
        Self(self.0 ^ xxph3_64_with_seed(&column_family.to_le_bytes(), FAMILY_SEED))
    }

    /// With a sequence number, if it was without; without it, if it was with it.
    #[inline]
    #[must_use]
    pub fn toggle_sequence(self, sequence: SequenceNumber) -> Self {
        Self(self.0 ^ xxph3_64_with_seed(&sequence.get().to_le_bytes(), SEQUENCE_SEED))
    }

    /// The low-order bytes; the first 1, 2, 4 or 8 of them are what memtables and blocks keep.
    #[inline]
    pub const fn to_bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }

    /// Whether `kept`, the first bytes of a protection, are of this one.
    #[inline]
    pub fn matches(self, kept: &[u8]) -> bool {
        self.to_bytes().starts_with(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_reference() {
        let put = Protection::of(ValueType::Value, b"key", b"value");
        assert_eq!(put.toggle_family(0).0, 0x054c_2407_8592_b0df);
        assert_eq!(put.toggle_sequence(SequenceNumber(7)).0, 0xfd0c_682c_2559_ebac);
        let delete = Protection::of(ValueType::Deletion, b"key", b"");
        assert_eq!(delete.toggle_family(2).0, 0xd919_b91b_55f3_586a);
        assert_eq!(delete.toggle_sequence(SequenceNumber(7)).0, 0x9d39_1241_6739_fcce);
    }

    #[test]
    fn fields_that_are_toggled_twice_are_gone() {
        let bare = Protection::of(ValueType::Merge, b"a", b"b");
        let there = bare.toggle_family(9).toggle_sequence(SequenceNumber(1 << 40));
        assert_ne!(there, bare);
        assert_eq!(there.toggle_family(9).toggle_sequence(SequenceNumber(1 << 40)), bare);
        assert!(bare.matches(&bare.to_bytes()[..2]) && !bare.matches(&[!bare.to_bytes()[0]]));
    }
}
