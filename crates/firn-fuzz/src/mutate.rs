//! Small random damage, for the replay without a fuzzer.

use rand::{Rng, rngs::StdRng};

/// `seed` with one to four changes: bits turned, bytes set, ranges removed, repeated or taken from `other`.
pub fn mutate(random: &mut StdRng, seed: &[u8], other: &[u8]) -> Vec<u8> {
    let mut data = seed.to_vec();
    for _ in 0..random.random_range(1..=4) {
        let at = random.random_range(0..=data.len());
        let length = random.random_range(0..=(data.len() - at).min(16));
        match random.random_range(0..6) {
            0 if at < data.len() => data[at] ^= 1 << random.random_range(0..8),
            1 if at < data.len() => data[at] = [0, 1, 0x7f, 0x80, 0xff][random.random_range(0..5)],
            2 => drop(data.drain(at..at + length)),
            3 => {
                let piece = data[at..at + length].to_vec();
                data.splice(at..at, piece);
            }
            4 => {
                let from = random.random_range(0..=other.len());
                let to = other.len().min(from + 16);
                data.splice(at..at + length.min(to - from), other[from..to].iter().copied());
            }
            _ => data.truncate(data.len() - length),
        }
    }
    data
}
