//! The full Bloom filter of `format_version` below 5: 32-bit hashes, lines of one cache line, an odd number of lines.
//!
//! ```text
//! body     lines of equal size, a power of two
//! trailer  probes (1..=127) | fixed32 number of lines
//! line     hash mod lines
//! bit i    (hash + i * rotate_right(hash, 17)) mod bits per line
//! ```
//!
//! Hashes flow in, bodies and answers flow out. Always true here: a layout's lines fill its body exactly.

use super::TRAILER_BYTES;

/// Written line size; readers accept every power of two.
const LINE_BYTES: u64 = 64;
const MAX_BITS: u64 = 0xffff_0000;

/// The shape of one legacy Bloom filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    lines: u32,
    line_bytes_log2: u8,
    probes: u8,
}

impl Layout {
    pub(super) fn parse(body_bytes: usize, trailer: &[u8; TRAILER_BYTES]) -> Option<Self> {
        let [probes, lines @ ..] = *trailer;
        let lines = u32::from_le_bytes(lines);
        let divisor = lines as usize;
        if divisor == 0 || !body_bytes.is_multiple_of(divisor) {
            return None;
        }
        let line_bytes = body_bytes / divisor;
        line_bytes.is_power_of_two().then_some(Self { lines, line_bytes_log2: line_bytes.ilog2() as u8, probes })
    }

    /// The offset in the body of the line that belongs to `hash`.
    #[inline]
    pub fn line_offset(&self, hash: u32) -> usize {
        ((hash % self.lines) as usize) << self.line_bytes_log2
    }

    /// Whether the entry with this hash may have been added.
    #[inline]
    pub fn may_match(&self, body: &[u8], hash: u32) -> bool {
        let offset = self.line_offset(hash);
        let line_bytes = 1usize << self.line_bytes_log2;
        let Some(line) = body.get(offset..).and_then(|rest| rest.get(..line_bytes)) else { return true };
        let delta = hash.rotate_right(17);
        let mut probe = hash;
        (0..self.probes).all(|_| {
            let byte = (probe >> 3) as usize & (line_bytes - 1);
            let set = line.get(byte).is_none_or(|byte| byte >> (probe & 7) & 1 != 0);
            probe = probe.wrapping_add(delta);
            set
        })
    }
}

fn lines_for(entries: u64, bits_per_key: u32) -> u64 {
    let bits = (entries.saturating_mul(u64::from(bits_per_key))).min(MAX_BITS);
    bits.div_ceil(LINE_BYTES * 8) | 1
}

/// The number of probes for a whole number of bits per key.
pub(super) fn probes_for(bits_per_key: u32) -> u8 {
    ((f64::from(bits_per_key) * 0.69) as u32).clamp(1, 30) as u8
}

/// About how many entries fit a content of `bytes`.
pub(super) fn approximate_entries(bytes: u64, bits_per_key: u32) -> u64 {
    let fits = |entries: u64| lines_for(entries, bits_per_key) * LINE_BYTES + TRAILER_BYTES as u64 <= bytes;
    // The size grows with the entries: search the last count that fits.
    let (mut low, mut high) = (0, (bytes.saturating_mul(8)).min(MAX_BITS) / u64::from(bits_per_key.max(1)) + 1);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(middle) { low = middle } else { high = middle - 1 }
    }
    low
}

/// The content for a non-empty set of 32-bit hashes.
pub(super) fn build(hashes: &[u64], bits_per_key: u32) -> Vec<u8> {
    let lines = lines_for(hashes.len() as u64, bits_per_key);
    let probes = probes_for(bits_per_key);
    let body_bytes = (lines * LINE_BYTES) as usize;
    let mut content = vec![0; body_bytes + TRAILER_BYTES];
    let (body, trailer) = content.split_at_mut(body_bytes);
    let (body_lines, _) = body.as_chunks_mut::<{ LINE_BYTES as usize }>();
    for &hash in hashes {
        let hash = hash as u32;
        let line = &mut body_lines[(u64::from(hash) % lines) as usize];
        let delta = hash.rotate_right(17);
        let mut probe = hash;
        for _ in 0..probes {
            line[(probe >> 3) as usize & (LINE_BYTES as usize - 1)] |= 1 << (probe & 7);
            probe = probe.wrapping_add(delta);
        }
    }
    trailer[0] = probes;
    trailer[1..].copy_from_slice(&(lines as u32).to_le_bytes());
    content
}
