//! Where random bits come from: the system, or a seed.
//!
//! Database ids and session ids are drawn here; a seeded source makes a simulated run repeat exactly.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

/// A source of random bits. Thread-safe.
pub trait Entropy: Send + Sync + Debug {
    /// 64 random bits.
    fn next_u64(&self) -> u64;
}

/// Bits from the operating system.
#[derive(Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        if crate::posix::fill_random(&mut bytes) {
            return u64::from_le_bytes(bytes);
        }
        // No random device: hash what differs between two calls and two processes.
        use std::hash::{BuildHasher, Hasher};
        static CALLS: AtomicU64 = AtomicU64::new(0);
        let mut hasher = std::hash::RandomState::new().build_hasher();
        hasher.write_u64(CALLS.fetch_add(1, Ordering::Relaxed));
        hasher.write_u32(std::process::id());
        hasher.finish()
    }
}

/// The same bits for the same seed (splitmix64).
#[derive(Debug)]
pub struct SeededEntropy {
    state: AtomicU64,
}

impl SeededEntropy {
    /// A source that repeats for the same `seed`.
    pub fn new(seed: u64) -> Self {
        Self { state: AtomicU64::new(seed) }
    }
}

impl Entropy for SeededEntropy {
    fn next_u64(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// A random (version 4) UUID in its usual 36-character form, as IDENTITY files hold it.
pub fn uuid(entropy: &dyn Entropy) -> String {
    let high = (entropy.next_u64() & !0xf000) | 0x4000;
    let low = (entropy.next_u64() & !(0b11 << 62)) | (0b10 << 62);
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_repeat_and_uuids_have_their_form() {
        assert_eq!(SeededEntropy::new(0).next_u64(), 0xe220_a839_7b1d_cdaf); // first output of splitmix64(0)
        let id = uuid(&SystemEntropy);
        assert_eq!((id.len(), &id[14..15]), (36, "4"));
        assert_ne!(id, uuid(&SystemEntropy));
    }
}
