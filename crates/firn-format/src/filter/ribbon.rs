//! The Ribbon filter (128-bit ribbon): a table Z of bits such that XORing the rows an entry names gives the entry's own
//! bits. About 30 % smaller than a Bloom filter of the same false-positive rate, dearer to build.
//!
//! ```text
//! body     16-byte segments; block b of 128 rows has one segment per column, columns of a block side by side
//! trailer  fe | seed | fixed24 number of blocks
//! columns  `upper` in most blocks, one less in the first `lower_blocks` ones
//! entry    start row, 128 coefficients, 32 result bits, all from (hash XOR seed)
//! ```
//!
//! Hashes flow in, bodies and answers flow out. Always true here: a layout has at least two blocks, and every segment that
//! a query names lies inside the body.

use super::{TRAILER_BYTES, bloom};
use crate::hash::fast_range64;

const ROWS_PER_BLOCK: u64 = 128;
const SEGMENT_BYTES: usize = 16;
const MAX_COLUMNS: u32 = 32;
/// More entries than this make a Bloom filter instead.
const MAX_ENTRIES: u64 = 950_000_000;
/// Below this many slots a Bloom filter may be smaller.
const SMALL_SLOTS: u64 = 1024;

/// The shape of one Ribbon filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    seed: u32,
    blocks: u32,
    /// Columns of the blocks from `lower_blocks` on.
    upper_columns: u32,
    /// How many blocks at the beginning have one column less.
    lower_blocks: u32,
}

/// The linear equation of one entry under one seed.
struct Equation {
    start: u64,
    coefficients: u128,
    result: u32,
}

#[inline(always)]
fn equation(hash: u64, seed: u32, blocks: u32) -> Equation {
    let starts = u64::from(blocks) * ROWS_PER_BLOCK - (ROWS_PER_BLOCK - 1);
    let x = (hash ^ u64::from(seed)).wrapping_mul(0x6193_d459_236a_3a0d);
    let a = x.wrapping_mul(0xc28f_8282_2b65_0bed);
    let low = (a ^ 0xc367_844a_6e52_731d) | 1;
    Equation {
        start: fast_range64(x, starts),
        coefficients: u128::from(a) << 64 | u128::from(low),
        result: a.swap_bytes() as u32,
    }
}

/// The 32-bit seed that an ordinal of the trailer stands for.
fn raw_seed(ordinal: u8) -> u32 {
    let mixed = u64::from(ordinal).wrapping_mul(0xc782_19a2_3eea_dd03);
    (mixed ^ (mixed & 0xf0f0_f0f0_f0f0_f0f0) >> 4) as u32
}

impl Layout {
    pub(super) fn parse(body_bytes: usize, trailer: &[u8; TRAILER_BYTES]) -> Option<Self> {
        let [_, ordinal, b0, b1, b2] = *trailer;
        let blocks = u32::from_le_bytes([b0, b1, b2, 0]);
        let layout = Self::of_segments(ordinal, blocks, (body_bytes / SEGMENT_BYTES) as u64)?;
        (layout.upper_columns > 0).then_some(layout)
    }

    fn of_segments(ordinal: u8, blocks: u32, segments: u64) -> Option<Self> {
        if blocks < 2 {
            return None;
        }
        let upper = segments.div_ceil(u64::from(blocks));
        let (upper_columns, lower_blocks) = if upper > u64::from(MAX_COLUMNS) {
            (MAX_COLUMNS, 0)
        } else {
            (upper as u32, (upper * u64::from(blocks) - segments) as u32)
        };
        Some(Self { seed: raw_seed(ordinal), blocks, upper_columns, lower_blocks })
    }

    #[inline(always)]
    fn columns_of(&self, block: u32) -> u32 {
        self.upper_columns - u32::from(block < self.lower_blocks)
    }

    #[inline(always)]
    fn first_segment(&self, block: u32) -> usize {
        block as usize * self.upper_columns as usize - block.min(self.lower_blocks) as usize
    }

    /// The offset in the body of the first segment that belongs to `hash`.
    #[inline]
    pub fn first_offset(&self, hash: u64) -> usize {
        let block = (equation(hash, self.seed, self.blocks).start / ROWS_PER_BLOCK) as u32;
        self.first_segment(block) * SEGMENT_BYTES
    }

    /// Whether the entry with this hash may have been added.
    #[inline]
    pub fn may_match(&self, body: &[u8], hash: u64) -> bool {
        let Equation { start, coefficients, result } = equation(hash, self.seed, self.blocks);
        let block = (start / ROWS_PER_BLOCK) as u32;
        let shift = (start % ROWS_PER_BLOCK) as u32;
        let columns = self.columns_of(block) as usize;
        let first = self.first_segment(block);
        let end = first + columns * if shift > 0 { 2 } else { 1 };
        let Some(window) = body.get(first * SEGMENT_BYTES..end * SEGMENT_BYTES) else { return true };
        let (segments, _) = window.as_chunks::<SEGMENT_BYTES>();
        let here = coefficients << shift;
        if shift == 0 {
            return segments
                .iter()
                .enumerate()
                .all(|(column, segment)| parity(u128::from_le_bytes(*segment) & here) == result >> column & 1);
        }
        let there = coefficients >> (128 - shift);
        let (these, next) = segments.split_at(columns);
        these.iter().zip(next).enumerate().all(|(column, (segment, next))| {
            let rows = (u128::from_le_bytes(*segment) & here) ^ (u128::from_le_bytes(*next) & there);
            parity(rows) == result >> column & 1
        })
    }
}

#[inline(always)]
fn parity(bits: u128) -> u32 {
    (bits as u64 ^ (bits >> 64) as u64).count_ones() & 1
}

/// Entries that 2^l slots take with a 5 % chance of failure per seed; 0 where that is not supported.
fn entries_for_log2_slots(log2: u32) -> f64 {
    const TABLE: [f64; 10] =
        [248.851, 499.532, 1001.26, 2003.97, 4005.59, 8000.39, 15966.6, 31828.1, 63447.3, 126_506.0];
    match log2 {
        0..8 => 0.0,
        8..18 => TABLE.get(log2 as usize - 8).copied().unwrap_or(0.0),
        _ => 2f64.powi(log2 as i32) / (slot_factor() + SLOT_FACTOR_STEP * f64::from(log2)),
    }
}

const SLOT_FACTOR_STEP: f64 = 0.0038;

fn slot_factor() -> f64 {
    131_072.0 / 126_506.0 - 17.0 * SLOT_FACTOR_STEP
}

/// 1 / ln 2 to the digits that RocksDB has; the sizes depend on them.
#[allow(clippy::approx_constant)]
const LOG2_E: f64 = 1.442_695_040_9;

fn raw_slots_for(entries: u64) -> u64 {
    let n = entries as f64;
    let mut log2 = (n.ln() * LOG2_E + 0.5) as u32;
    if log2 == 0 || entries_for_log2_slots(log2) == 0.0 {
        return 256;
    }
    if n < entries_for_log2_slots(log2) {
        log2 -= 1;
    }
    let (low, high) = (entries_for_log2_slots(log2), entries_for_log2_slots(log2 + 1));
    let portion = (n - low) / (high - low);
    let base = 2f64.powi(log2 as i32);
    (portion * base + base + 0.999_999_999) as u64
}

fn round_slots(raw: u64) -> u64 {
    raw.next_multiple_of(ROWS_PER_BLOCK).max(2 * ROWS_PER_BLOCK)
}

fn slots_for(entries: u64) -> u64 {
    round_slots(raw_slots_for(entries))
}

fn entries_for_slots(slots: u64) -> u64 {
    if slots == 0 {
        return 0;
    }
    let s = slots as f64;
    let x = s.ln() * LOG2_E;
    let log2 = x as u32;
    if log2 + 1 < 18 {
        let portion = s / 2f64.powi(log2 as i32) - 1.0;
        let (low, high) = (entries_for_log2_slots(log2), entries_for_log2_slots(log2 + 1));
        (portion * high + (1.0 - portion) * low) as u64
    } else {
        (s / (slot_factor() + SLOT_FACTOR_STEP * x)) as u64
    }
}

/// The body length in bytes; `one_in` is the desired false-positive rate as "one in", `bias` decides rounding.
fn body_bytes(slots: u64, one_in: f64, bias: u32) -> u64 {
    let segment = SEGMENT_BYTES as u64;
    if one_in > 4_294_967_295.0 {
        return slots * 4;
    }
    if one_in.is_nan() || one_in <= 1.0 {
        return segment;
    }
    let rate = 1.0 / one_in;
    let columns = (one_in as u64).ilog2();
    let (upper_rate, lower_rate) = (2f64.powi(-(columns as i32 + 1)), 2f64.powi(-(columns as i32)));
    let lower_share = (rate - upper_rate) / (lower_rate - upper_rate);
    let starts = (slots - (ROWS_PER_BLOCK - 1)) as f64;
    let rounding = (f64::from(bias) + 0.5) / 4_294_967_296.0;
    let lower_blocks = ((lower_share * starts + rounding) / ROWS_PER_BLOCK as f64) as u64;
    let blocks = slots / ROWS_PER_BLOCK;
    segment * (blocks * u64::from(columns) + blocks - lower_blocks)
}

/// About how many entries fit a content of `bytes`.
pub(super) fn approximate_entries(bytes: u64, one_in: f64, millibits_per_key: u32) -> u64 {
    if one_in.is_nan() || one_in <= 1.0 {
        return MAX_ENTRIES;
    }
    let trailer = TRAILER_BYTES as u64;
    let length = (bytes.max(trailer) - trailer) / SEGMENT_BYTES as u64 * SEGMENT_BYTES as u64;
    let bits_per_slot = if one_in >= 4_294_967_296.0 {
        f64::from(MAX_COLUMNS)
    } else {
        let upper = 1 + (one_in as u64).ilog2();
        let upper_rate = 2f64.powi(-(upper as i32));
        f64::from(upper) - (1.0 / one_in - upper_rate) / upper_rate
    };
    let max_slots = 8.0 * length as f64 / bits_per_slot;
    if max_slots >= raw_slots_for(MAX_ENTRIES) as f64 {
        return MAX_ENTRIES;
    }
    let mut slots = round_slots(max_slots as u64);
    for _ in 0..2 {
        if slots == 0 || body_bytes(slots, one_in, 0) <= length {
            break;
        }
        slots = (slots - 1) / ROWS_PER_BLOCK * ROWS_PER_BLOCK;
        if slots < 2 * ROWS_PER_BLOCK {
            slots = 0;
        }
    }
    let entries = entries_for_slots(slots);
    if slots < SMALL_SLOTS {
        entries.max(bloom::approximate_entries(bytes, millibits_per_key))
    } else {
        entries.min(MAX_ENTRIES)
    }
}

/// Rows of equations in echelon form, one slot each.
struct Banding {
    coefficients: Vec<u128>,
    results: Vec<u32>,
}

impl Banding {
    fn new(slots: usize) -> Self {
        Self { coefficients: vec![0; slots], results: vec![0; slots] }
    }

    fn clear(&mut self) {
        self.coefficients.fill(0);
        self.results.fill(0);
    }

    /// Adds all equations; `false` when two contradict each other under this seed.
    fn add_all(&mut self, hashes: &[u64], seed: u32, blocks: u32) -> bool {
        hashes.iter().all(|&hash| self.add(equation(hash, seed, blocks)))
    }

    #[inline]
    fn add(&mut self, equation: Equation) -> bool {
        let Equation { start, mut coefficients, mut result } = equation;
        let mut row = start as usize;
        loop {
            let stored = self.coefficients[row];
            if stored == 0 {
                self.coefficients[row] = coefficients;
                self.results[row] = result;
                return true;
            }
            coefficients ^= stored;
            result ^= self.results[row];
            if coefficients == 0 {
                return result == 0;
            }
            let skipped = coefficients.trailing_zeros();
            row += skipped as usize;
            coefficients >>= skipped;
        }
    }

    /// Solves from the last row up and writes each block's columns when its rows are done.
    fn solve_into(&self, layout: &Layout, body: &mut [u8]) {
        // Bit k of a window is Z[row + k] of that column.
        let mut windows = [0u128; MAX_COLUMNS as usize];
        let (segments, _) = body.as_chunks_mut::<SEGMENT_BYTES>();
        for block in (0..layout.blocks).rev() {
            let columns = layout.columns_of(block) as usize;
            let windows = &mut windows[..columns];
            for row in (0..ROWS_PER_BLOCK as usize).rev() {
                let row = block as usize * ROWS_PER_BLOCK as usize + row;
                let (coefficients, result) = (self.coefficients[row], self.results[row]);
                for (column, window) in windows.iter_mut().enumerate() {
                    *window <<= 1;
                    *window |= u128::from(parity(*window & coefficients) ^ (result >> column & 1));
                }
            }
            let first = layout.first_segment(block);
            for (segment, window) in segments[first..first + columns].iter_mut().zip(windows) {
                *segment = window.to_le_bytes();
            }
        }
    }
}

/// The content for a non-empty set of hashes: Ribbon, or Bloom where that is smaller or Ribbon cannot be built.
pub(super) fn build(hashes: &[u64], one_in: f64, millibits_per_key: u32, probes_by_density: bool) -> Vec<u8> {
    let bloom = || bloom::build(hashes, millibits_per_key, probes_by_density);
    let entries = hashes.len() as u64;
    let first_hash = hashes.first().copied().unwrap_or(0);
    if entries > MAX_ENTRIES {
        return bloom();
    }
    let slots = slots_for(entries);
    let body_bytes = body_bytes(slots, one_in, (first_hash >> 32) as u32) as usize;
    if slots < SMALL_SLOTS && bloom::total_bytes(entries, millibits_per_key) < (body_bytes + TRAILER_BYTES) as u64 {
        return bloom();
    }
    let blocks = (slots / ROWS_PER_BLOCK) as u32;
    let mut banding = Banding::new(slots as usize);
    for attempt in 0..=u8::MAX {
        let ordinal = (first_hash as u8).wrapping_add(attempt);
        let Some(layout) = Layout::of_segments(ordinal, blocks, (body_bytes / SEGMENT_BYTES) as u64) else {
            break;
        };
        if attempt > 0 {
            banding.clear();
        }
        if banding.add_all(hashes, layout.seed, blocks) {
            let mut content = vec![0; body_bytes + TRAILER_BYTES];
            let (body, trailer) = content.split_at_mut(body_bytes);
            banding.solve_into(&layout, body);
            let [b0, b1, b2, _] = blocks.to_le_bytes();
            trailer.copy_from_slice(&[0xfe, ordinal, b0, b1, b2]);
            return content;
        }
    }
    bloom()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::xxph3_64;

    #[test]
    fn seeds() {
        for (ordinal, seed) in [
            (0, 0),
            (1, 0x3de4_d003),
            (2, 0x7ad8_b106),
            (3, 0xb7cc_9e09),
            (9, 0x3545_c91a),
            (10, 0x722e_a81f),
            (127, 0x358b_ae7a),
            (128, 0x7268_8988),
            (236, 0x008b_b5c8),
            (255, 0xa1fd_27f2),
        ] {
            assert_eq!(raw_seed(ordinal), seed, "{ordinal}");
        }
    }

    #[test]
    fn equations() {
        let vectors: [(&str, u8, u32, u64, u64, u64, u32); 6] = [
            ("key00000000", 0, 2, 29, 0x0032_5774_2e90_b14c, 0xc355_d33e_40c2_c251, 0x7457_3200),
            ("key00000000", 236, 2, 27, 0x5ba0_5a46_6cab_8544, 0x98c7_de0c_02f9_f659, 0x465a_a05b),
            ("key00000000", 236, 1000, 26809, 0x5ba0_5a46_6cab_8544, 0x98c7_de0c_02f9_f659, 0x465a_a05b),
            ("key00000001", 236, 2, 69, 0x3155_7371_fc4b_4a4b, 0xf232_f73b_9219_3957, 0x7173_5531),
            ("", 5, 3, 220, 0xf0c5_db4a_f848_2063, 0x33a2_5f00_961a_537f, 0x4adb_c5f0),
            ("other000373", 236, 2, 108, 0x455b_6a92_fdf2_d009, 0x863c_eed8_93a0_a315, 0x926a_5b45),
        ];
        for (key, ordinal, blocks, start, high, low, result) in vectors {
            let equation = equation(xxph3_64(key.as_bytes()), raw_seed(ordinal), blocks);
            let coefficients = u128::from(high) << 64 | u128::from(low);
            assert_eq!(
                (equation.start, equation.coefficients, equation.result),
                (start, coefficients, result),
                "{key}"
            );
        }
    }

    #[test]
    fn slots() {
        for (entries, raw, rounded) in [
            (249, 257, 384),
            (499, 512, 512),
            (500, 513, 640),
            (1000, 1023, 1024),
            (1001, 1024, 1024),
            (1002, 1025, 1152),
            (2000, 2044, 2048),
            (10_000, 10_249, 10_368),
            (100_000, 103_525, 103_552),
            (126_506, 131_072, 131_072),
            (126_507, 131_074, 131_200),
            (1_000_000, 1_047_490, 1_047_552),
            (10_000_000, 10_604_781, 10_604_800),
            (100_000_000, 107_313_795, 107_313_920),
            (950_000_000, 1_031_068_581, 1_031_068_672),
        ] {
            assert_eq!((raw_slots_for(entries), slots_for(entries)), (raw, rounded), "{entries}");
        }
        for entries in 1..=248 {
            assert!(raw_slots_for(entries) <= 256);
            assert_eq!(slots_for(entries), 256);
        }
    }

    #[test]
    fn all_equations_of_a_built_filter_hold_and_contradictions_fail() {
        let mut banding = Banding::new(256);
        let make = |result| Equation { start: 3, coefficients: 0b1011, result };
        assert!(banding.add(make(7)) && banding.add(make(7)) && !banding.add(make(6)));
    }
}
