//! The hash functions whose values RocksDB stores, and the range reduction that turns them into positions.
//!
//! Bytes and a seed flow in, integers flow out. Which function serves what:
//!
//! | function | used for |
//! | --- | --- |
//! | [`bloom_hash`] | legacy full Bloom filters (`format_version` < 5) |
//! | [`slice_hash`] | data-block hash index, plain table |
//! | [`xxph3_64`] | FastLocalBloom and Ribbon filters |
//! | [`xxh3_64`] | block checksum kXXH3 |
//! | [`xxh3_128`] | unique ids of tables, cache keys |
//! | [`bijective_hash_2x64`] | the public form of a unique id |
//! | [`murmur64a`] | cuckoo tables |
//!
//! Always true here: values are those of RocksDB on little-endian machines, bit for bit, on every machine.

mod xxph3;

pub use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};
pub use xxph3::{xxph3_64, xxph3_64_with_seed};

use xxhash_rust::xxh3;

/// The default secret, shared by XXPH3 and the released XXH3.
#[rustfmt::skip]
pub(crate) const XXH_SECRET: [u8; 192] = [
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
];

/// The little-endian 32-bit word at `offset`; the caller knows that it is inside.
#[inline(always)]
pub(crate) fn read32(data: &[u8], offset: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&data[offset..offset + 4]);
    u32::from_le_bytes(word)
}

/// The little-endian 64-bit word at `offset`; the caller knows that it is inside.
#[inline(always)]
pub(crate) fn read64(data: &[u8], offset: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&data[offset..offset + 8]);
    u64::from_le_bytes(word)
}

/// Low XOR high half of the 128-bit product.
#[inline(always)]
pub(crate) const fn fold64(a: u64, b: u64) -> u64 {
    let product = (a as u128) * (b as u128);
    (product as u64) ^ ((product >> 64) as u64)
}

/// RocksDB's legacy 32-bit hash, a MurmurHash1 variant whose last one to three bytes count as signed.
#[inline]
pub fn hash32(data: &[u8], seed: u32) -> u32 {
    const M: u32 = 0xc6a4_a793;
    let mut h = seed ^ (data.len() as u32).wrapping_mul(M);
    let words = data.chunks_exact(4);
    let tail = words.remainder();
    for word in words {
        h = h.wrapping_add(read32(word, 0)).wrapping_mul(M);
        h ^= h >> 16;
    }
    if !tail.is_empty() {
        for (i, &byte) in tail.iter().enumerate() {
            // The sign extension of the byte is part of the format.
            h = h.wrapping_add((byte as i8 as u32) << (8 * i));
        }
        h = h.wrapping_mul(M);
        h ^= h >> 24;
    }
    h
}

/// [`hash32`] with the seed of legacy Bloom filters.
#[inline]
pub fn bloom_hash(key: &[u8]) -> u32 {
    hash32(key, 0xbc9f_1d34)
}

/// [`hash32`] with the seed of the data-block hash index and the plain table.
#[inline]
pub fn slice_hash(key: &[u8]) -> u32 {
    hash32(key, 397)
}

/// The released XXH3-128 as (high, low) 64-bit halves.
pub fn xxh3_128(data: &[u8], seed: u64) -> (u64, u64) {
    let hash = xxh3::xxh3_128_with_seed(data, seed);
    ((hash >> 64) as u64, hash as u64)
}

/// MurmurHash64A with a 32-bit seed.
pub fn murmur64a(data: &[u8], seed: u32) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    let mut h = u64::from(seed) ^ (data.len() as u64).wrapping_mul(M);
    let words = data.chunks_exact(8);
    let tail = words.remainder();
    for word in words {
        let mut k = read64(word, 0).wrapping_mul(M);
        k ^= k >> 47;
        h = (h ^ k.wrapping_mul(M)).wrapping_mul(M);
    }
    if !tail.is_empty() {
        let mut word = [0; 8];
        word[..tail.len()].copy_from_slice(tail);
        h = (h ^ u64::from_le_bytes(word)).wrapping_mul(M);
    }
    h ^= h >> 47;
    h = h.wrapping_mul(M);
    h ^ (h >> 47)
}

/// Maps a uniform 32-bit hash to `0..range` by multiplication.
#[inline(always)]
pub const fn fast_range32(hash: u32, range: u32) -> u32 {
    ((hash as u64 * range as u64) >> 32) as u32
}

/// Maps a uniform 64-bit hash to `0..range` by multiplication.
#[inline(always)]
pub const fn fast_range64(hash: u64, range: u64) -> u64 {
    ((hash as u128 * range as u128) >> 64) as u64
}

/// An invertible hash of (high, low); equals XXH3-128 of the sixteen bytes LE64(low), LE64(high).
pub fn bijective_hash_2x64(high: u64, low: u64, seed: u64) -> (u64, u64) {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&low.to_le_bytes());
    bytes[8..].copy_from_slice(&high.to_le_bytes());
    xxh3_128(&bytes, seed)
}

/// The inverse of [`bijective_hash_2x64`] under the same seed.
pub fn bijective_unhash_2x64(high: u64, low: u64, seed: u64) -> (u64, u64) {
    const K1: u64 = 0x9E37_79B1_85EB_CA87;
    const K1_INVERSE: u64 = 0x0887_4934_32ba_db37;
    const K2: u64 = 0xC2B2_AE3D_27D4_EB4F;
    const K2_INVERSE: u64 = 0x0ba7_9078_168d_4baf;
    const MX1_INVERSE: u64 = 0x08da_8ee4_1d6d_f849;
    const Q2: u64 = 0x85EB_CA77;
    const Q2_INVERSE: u32 = 0xb6c9_2f47;
    let unavalanche = |mut h: u64| {
        h ^= h >> 32;
        h = h.wrapping_mul(MX1_INVERSE);
        h ^ (h >> 37)
    };
    let high_half = |a: u64, b: u64| ((u128::from(a) * u128::from(b)) >> 64) as u64;

    let flip_low = (read64(&XXH_SECRET, 32) ^ read64(&XXH_SECRET, 40)).wrapping_sub(seed);
    let flip_high = (read64(&XXH_SECRET, 48) ^ read64(&XXH_SECRET, 56)).wrapping_add(seed);
    let h2 = unavalanche(high);
    let mut lo = unavalanche(low).wrapping_mul(K2_INVERSE);
    let mut hi = h2.wrapping_sub(high_half(lo, K2)).wrapping_mul(K2_INVERSE);
    lo ^= hi.swap_bytes();
    lo = lo.wrapping_sub(15 << 54);
    let input_mix = lo.wrapping_mul(K1_INVERSE);
    hi = hi.wrapping_sub(high_half(input_mix, K1));
    // `hi` is now w + lo32(w) * (Q2 - 1), that is hi32(w) * 2^32 + lo32(w) * Q2.
    let w_low = u64::from((hi as u32).wrapping_mul(Q2_INVERSE));
    let w = hi.wrapping_sub(w_low.wrapping_mul(Q2)) | w_low;
    let out_high = w ^ flip_high;
    (out_high, input_mix ^ out_high ^ flip_low)
}

#[cfg(test)]
mod tests;
