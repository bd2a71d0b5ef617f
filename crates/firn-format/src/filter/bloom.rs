//! FastLocalBloom, the Bloom filter of `format_version` 5 and later: all bits of a key lie in one 64-byte line.
//!
//! ```text
//! body     64-byte lines
//! trailer  ff | 00 | probes (bits 0..5), line size code (bits 5..8, 0) | 00 00
//! line     fast_range32(low half of the hash, lines)
//! bit i    (high half * 0x9e3779b9^i) >> 23
//! ```
//!
//! Hashes flow in, bodies and answers flow out. Always true here: a layout has at least one line and 1 to 30 probes.

use super::TRAILER_BYTES;
use crate::hash::fast_range32;

const LINE_BYTES: usize = 64;
/// No body is longer.
const MAX_BODY_BYTES: u64 = 0xffff_ffc0;
const MAX_PROBES: usize = 30;

/// `0x9e3779b9^i`; with these the probes of a key do not wait for each other.
const POWERS: [u32; MAX_PROBES] = {
    let mut powers = [1u32; MAX_PROBES];
    let mut i = 1;
    while i < MAX_PROBES {
        powers[i] = powers[i - 1].wrapping_mul(0x9e37_79b9);
        i += 1;
    }
    powers
};

/// The shape of one FastLocalBloom filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    lines: u32,
    probes: u8,
}

impl Layout {
    /// The layout of a body of this length with this trailer; `None` when the filter cannot deny anything.
    pub(super) fn parse(body_bytes: usize, trailer: &[u8; TRAILER_BYTES]) -> Option<Self> {
        let [_, sub_kind, probes_and_line, reserved @ ..] = *trailer;
        let probes = probes_and_line & 0x1f;
        let lines = u32::try_from(body_bytes / LINE_BYTES).ok()?;
        let known = sub_kind == 0 && probes_and_line >> 5 == 0 && reserved == [0, 0];
        (known && (1..=30).contains(&probes) && lines > 0).then_some(Self { lines, probes })
    }

    /// Number of probes per key.
    pub fn probes(&self) -> u8 {
        self.probes
    }

    /// The offset in the body of the line that belongs to `hash`.
    #[inline(always)]
    pub fn line_offset(&self, hash: u64) -> usize {
        fast_range32(hash as u32, self.lines) as usize * LINE_BYTES
    }

    /// Whether the entry with this hash may have been added.
    #[inline(always)]
    pub fn may_match(&self, body: &[u8], hash: u64) -> bool {
        let offset = self.line_offset(hash);
        let Some(line) = body.get(offset..).and_then(|rest| rest.first_chunk::<LINE_BYTES>()) else { return true };
        let high = (hash >> 32) as u32;
        // Branch free over the probes: most answers need all of them, and a mispredicted exit costs more.
        let mut set = 1u8;
        for power in POWERS.iter().take(usize::from(self.probes)) {
            let bit = high.wrapping_mul(*power) >> 23;
            set &= line[(bit >> 3) as usize] >> (bit & 7);
        }
        set & 1 != 0
    }
}

/// The number of probes that suits a density in thousandths of bits per key.
pub fn probes_for(millibits_per_key: u64) -> u8 {
    const LIMITS: [(u64, u8); 12] = [
        (2080, 1),
        (3580, 2),
        (5100, 3),
        (6640, 4),
        (8300, 5),
        (10070, 6),
        (11720, 7),
        (14001, 8),
        (16050, 9),
        (18300, 10),
        (22001, 11),
        (25501, 12),
    ];
    match LIMITS.iter().find(|(limit, _)| millibits_per_key <= *limit) {
        Some(&(_, probes)) => probes,
        None if millibits_per_key > 50_000 => 24,
        None => ((millibits_per_key - 1) / 2000 - 1) as u8,
    }
}

/// The body length in bytes for `entries` > 0.
pub(super) fn body_bytes(entries: u64, millibits_per_key: u32) -> u64 {
    let raw =
        (u128::from(entries) * u128::from(millibits_per_key)).div_ceil(8000).min(u128::from(MAX_BODY_BYTES)) as u64;
    raw.next_multiple_of(LINE_BYTES as u64)
}

/// The length of body and trailer for `entries` > 0.
pub(super) fn total_bytes(entries: u64, millibits_per_key: u32) -> u64 {
    body_bytes(entries, millibits_per_key) + TRAILER_BYTES as u64
}

/// About how many entries fit a content of `bytes`.
pub(super) fn approximate_entries(bytes: u64, millibits_per_key: u32) -> u64 {
    let Some(body) = bytes.checked_sub(TRAILER_BYTES as u64) else { return 0 };
    let body = body.min(MAX_BODY_BYTES) / LINE_BYTES as u64 * LINE_BYTES as u64;
    8000 * body / u64::from(millibits_per_key.max(1))
}

/// The content for a non-empty set of hashes. With `probes_by_density` the number of probes follows the bits per key that
/// the rounded body really gives, else the configured ones.
pub(super) fn build(hashes: &[u64], millibits_per_key: u32, probes_by_density: bool) -> Vec<u8> {
    let entries = hashes.len() as u64;
    let body_bytes = body_bytes(entries, millibits_per_key);
    let density = if probes_by_density { body_bytes * 8000 / entries.max(1) } else { u64::from(millibits_per_key) };
    let layout = Layout { lines: (body_bytes / LINE_BYTES as u64) as u32, probes: probes_for(density) };
    let mut content = vec![0; body_bytes as usize + TRAILER_BYTES];
    let (body, trailer) = content.split_at_mut(body_bytes as usize);
    let (lines, _) = body.as_chunks_mut::<LINE_BYTES>();
    for &hash in hashes {
        let line = &mut lines[fast_range32(hash as u32, layout.lines) as usize];
        let high = (hash >> 32) as u32;
        for power in POWERS.iter().take(usize::from(layout.probes)) {
            let bit = high.wrapping_mul(*power) >> 23;
            line[(bit >> 3) as usize] |= 1 << (bit & 7);
        }
    }
    trailer.copy_from_slice(&[0xff, 0, layout.probes, 0, 0]);
    content
}
