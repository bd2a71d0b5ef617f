//! XXPH3: the preview variant of XXH3 that RocksDB froze for its filters.
//!
//! Bytes and a seed flow in, a 64-bit hash flows out. The function differs from the released XXH3 in every length class
//! (avalanche multiplier, byte packing, accumulator order), so no published implementation can stand in for it.
//!
//! Always true here: one shot only, no state; equal input gives equal output on every machine.

use super::{XXH_SECRET, fold64, read32, read64};

const Q1: u64 = 0x9E37_79B1;
const Q2: u64 = 0x85EB_CA77;
const Q3: u64 = 0xC2B2_AE3D;
const K1: u64 = 0x9E37_79B1_85EB_CA87;
const K2: u64 = 0xC2B2_AE3D_27D4_EB4F;
const K3: u64 = 0x1656_67B1_9E37_79F9;
const K4: u64 = 0x85EB_CA77_C2B2_AE63;
const K5: u64 = 0x27D4_EB2F_1656_67C5;

const STRIPE_BYTES: usize = 64;
const BLOCK_BYTES: usize = 1024;

type Secret = [u8; 192];

#[inline(always)]
const fn avalanche(mut h: u64) -> u64 {
    h ^= h >> 37;
    h = h.wrapping_mul(K3);
    h ^ (h >> 32)
}

#[inline(always)]
fn mix(data: &[u8], offset: usize, secret_offset: usize, seed: u64) -> u64 {
    fold64(
        read64(data, offset) ^ read64(&XXH_SECRET, secret_offset).wrapping_add(seed),
        read64(data, offset + 8) ^ read64(&XXH_SECRET, secret_offset + 8).wrapping_sub(seed),
    )
}

/// XXPH3 of `data` with seed 0; the hash under which entries stand in new Bloom and Ribbon filters.
#[inline]
pub fn xxph3_64(data: &[u8]) -> u64 {
    xxph3_64_with_seed(data, 0)
}

/// XXPH3 of `data` with a seed.
#[inline]
pub fn xxph3_64_with_seed(data: &[u8], seed: u64) -> u64 {
    match data.len() {
        0 => fold64(seed.wrapping_add(read64(&XXH_SECRET, 0)), K2),
        1..=3 => hash_1_to_3(data, seed),
        4..=8 => hash_4_to_8(data, seed),
        9..=16 => hash_9_to_16(data, seed),
        17..=128 => hash_17_to_128(data, seed),
        129..=240 => hash_129_to_240(data, seed),
        _ => hash_long(data, seed),
    }
}

#[inline(always)]
fn hash_1_to_3(data: &[u8], seed: u64) -> u64 {
    let n = data.len();
    let combined = u64::from(data[0]) | u64::from(data[n >> 1]) << 8 | u64::from(data[n - 1]) << 16 | (n as u64) << 24;
    let keyed = combined ^ u64::from(read32(&XXH_SECRET, 0)).wrapping_add(seed);
    avalanche(keyed.wrapping_mul(K1))
}

#[inline(always)]
fn hash_4_to_8(data: &[u8], seed: u64) -> u64 {
    let n = data.len();
    let word = u64::from(read32(data, 0)) | u64::from(read32(data, n - 4)) << 32;
    let keyed = word ^ read64(&XXH_SECRET, 0).wrapping_add(seed);
    let mixed = (n as u64).wrapping_add((keyed ^ (keyed >> 51)).wrapping_mul(Q1));
    avalanche((mixed ^ (mixed >> 47)).wrapping_mul(K2))
}

#[inline(always)]
fn hash_9_to_16(data: &[u8], seed: u64) -> u64 {
    let n = data.len();
    let a = read64(data, 0) ^ read64(&XXH_SECRET, 0).wrapping_add(seed);
    let b = read64(data, n - 8) ^ read64(&XXH_SECRET, 8).wrapping_sub(seed);
    avalanche((n as u64).wrapping_add(a).wrapping_add(b).wrapping_add(fold64(a, b)))
}

#[inline]
fn hash_17_to_128(data: &[u8], seed: u64) -> u64 {
    let n = data.len();
    let mut acc = (n as u64).wrapping_mul(K1);
    for i in 0..=(n - 1) / 32 {
        acc = acc.wrapping_add(mix(data, 16 * i, 32 * i, seed));
        acc = acc.wrapping_add(mix(data, n - 16 * (i + 1), 32 * i + 16, seed));
    }
    avalanche(acc)
}

fn hash_129_to_240(data: &[u8], seed: u64) -> u64 {
    let n = data.len();
    let mut acc = (n as u64).wrapping_mul(K1);
    for i in 0..8 {
        acc = acc.wrapping_add(mix(data, 16 * i, 16 * i, seed));
    }
    acc = avalanche(acc);
    for i in 8..n / 16 {
        acc = acc.wrapping_add(mix(data, 16 * i, 16 * (i - 8) + 3, seed));
    }
    avalanche(acc.wrapping_add(mix(data, n - 16, 119, seed)))
}

/// The secret under a seed: even words plus the seed, odd words minus it.
fn seeded_secret(seed: u64) -> Secret {
    let mut secret = XXH_SECRET;
    for (j, word) in secret.chunks_exact_mut(8).enumerate() {
        let plain = read64(&XXH_SECRET, 8 * j);
        let keyed = if j % 2 == 0 { plain.wrapping_add(seed) } else { plain.wrapping_sub(seed) };
        word.copy_from_slice(&keyed.to_le_bytes());
    }
    secret
}

#[inline(always)]
fn accumulate_stripe(acc: &mut [u64; 8], stripe: &[u8], secret: &Secret, secret_offset: usize) {
    for (i, lane) in acc.iter_mut().enumerate() {
        let value = read64(stripe, 8 * i);
        let keyed = value ^ read64(secret, secret_offset + 8 * i);
        *lane = lane.wrapping_add(value).wrapping_add((keyed & 0xffff_ffff).wrapping_mul(keyed >> 32));
    }
}

fn hash_long(data: &[u8], seed: u64) -> u64 {
    let n = data.len();
    let secret = if seed == 0 { XXH_SECRET } else { seeded_secret(seed) };
    let mut acc = [Q3, K1, K2, K3, K4, Q2, K5, Q1];
    let blocks = data.chunks_exact(BLOCK_BYTES);
    let rest = blocks.remainder();
    for block in blocks {
        for (j, stripe) in block.chunks_exact(STRIPE_BYTES).enumerate() {
            accumulate_stripe(&mut acc, stripe, &secret, 8 * j);
        }
        for (i, lane) in acc.iter_mut().enumerate() {
            *lane = ((*lane ^ (*lane >> 47)) ^ read64(&secret, 128 + 8 * i)).wrapping_mul(Q1);
        }
    }
    for (j, stripe) in rest.chunks_exact(STRIPE_BYTES).enumerate() {
        accumulate_stripe(&mut acc, stripe, &secret, 8 * j);
    }
    if !n.is_multiple_of(STRIPE_BYTES) {
        accumulate_stripe(&mut acc, &data[n - STRIPE_BYTES..], &secret, 121);
    }
    let mut result = (n as u64).wrapping_mul(K1);
    for i in 0..4 {
        result = result.wrapping_add(fold64(
            acc[2 * i] ^ read64(&secret, 11 + 16 * i),
            acc[2 * i + 1] ^ read64(&secret, 19 + 16 * i),
        ));
    }
    avalanche(result)
}
