//! The hash index at the end of a data block: user key → restart interval, one byte per bucket.
//!
//! Keys flow in while a block is built; bucket bytes flow out. A bucket holds the number of the one restart interval whose
//! keys fall into it, [`COLLISION`] when there are several, or [`EMPTY`].

/// Bucket value: keys of several restart intervals fall here.
pub const COLLISION: u8 = 254;
/// Bucket value: no key falls here.
pub const EMPTY: u8 = 255;
/// The greatest restart index that a bucket can name.
pub const MAX_RESTART_INDEX: u32 = 253;

/// The hash of a user key in a data block: the legacy 32-bit hash with seed 397.
pub fn hash(user_key: &[u8]) -> u32 {
    crate::hash::hash32(user_key, 397)
}

/// Collects the keys of one data block.
#[derive(Clone, Debug)]
pub struct DataBlockHashIndexBuilder {
    buckets_per_key: f64,
    estimated_buckets: f64,
    keys: Vec<(u32, u8)>,
    usable: bool,
}

impl DataBlockHashIndexBuilder {
    /// A builder that aims at `util_ratio` keys per bucket; ratios of 0 and less are taken as 0.75, the default.
    pub fn new(util_ratio: f64) -> Self {
        let util_ratio = if util_ratio > 0.0 { util_ratio } else { 0.75 };
        Self { buckets_per_key: 1.0 / util_ratio, estimated_buckets: 0.0, keys: Vec::new(), usable: true }
    }

    /// Whether the blocks so far can have the index. Once a restart index did not fit, no later block of the file gets it.
    pub fn is_usable(&self) -> bool {
        self.usable
    }

    /// Adds a key of restart interval `restart_index`.
    pub fn add(&mut self, user_key: &[u8], restart_index: u32) {
        if restart_index > MAX_RESTART_INDEX {
            self.usable = false;
            return;
        }
        self.estimated_buckets += self.buckets_per_key;
        self.keys.push((hash(user_key), restart_index as u8));
    }

    /// Bytes that the index will take, 0 when there will be none.
    pub fn estimated_size(&self) -> usize {
        if self.usable { 2 + (self.estimated_buckets as usize | 1) } else { 0 }
    }

    /// Appends the buckets and their number.
    pub fn finish(&self, out: &mut Vec<u8>) {
        let count = (self.estimated_buckets as u16).max(1) | 1;
        let start = out.len();
        out.resize(start + usize::from(count), EMPTY);
        for &(hash, restart) in &self.keys {
            if let Some(bucket) = out.get_mut(start + (hash % u32::from(count)) as usize) {
                *bucket = if *bucket == EMPTY || *bucket == restart { restart } else { COLLISION };
            }
        }
        out.extend_from_slice(&count.to_le_bytes());
    }

    /// Forgets the keys, for the next block.
    pub fn reset(&mut self) {
        self.estimated_buckets = 0.0;
        self.keys.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_matches_the_vectors() {
        for (input, expected) in [
            (&b""[..], 0x0000_018d),
            (b"\x61", 0x5c84_73b1),
            (b"\xff", 0x517c_4df6),
            (b"\xff\xff\xff", 0xf058_a4b9),
            (b"\x80\x81\x82", 0x8768_28db),
            (b"\x61\x80", 0x8b8f_b76f),
            (b"\x61\x62\x63\x64\xff\xfe\xfd", 0x8e5c_fdcc),
            (b"date", 0x6f78_a447),
            (b"apple", 0xf556_85da),
            (b"elder", 0xb232_9498),
            (b"hello", 0xbe00_6c87),
            (b"banana", 0x065a_75a5),
            (b"cherry", 0x97ad_ab89),
            (b"key00000000", 0xd322_24e7),
        ] {
            assert_eq!(hash(input), expected, "{input:?}");
        }
    }
}
