//! The random streams of `db_bench`.
//!
//! [`Lehmer31`] makes value bytes, [`MersenneTwister64`] draws keys (one per worker thread, seeded so that no two
//! streams of a process repeat), [`Permutation`] visits every number below a bound exactly once without storing them.
//! All are pure: the same seed gives the same stream on every machine.

/// The multiplicative congruential generator `s * 16807 mod (2^31 - 1)`.
#[derive(Clone, Debug)]
pub struct Lehmer31(u32);

impl Lehmer31 {
    const MODULUS: u32 = 2_147_483_647;

    /// Starts from the low 31 bits of `seed`; the two seeds that would stay fixed become 1.
    pub fn new(seed: u32) -> Self {
        match seed & Self::MODULUS {
            0 | Self::MODULUS => Self(1),
            state => Self(state),
        }
    }

    /// The next state, in 1..2^31-1.
    #[inline]
    pub fn draw(&mut self) -> u32 {
        let product = u64::from(self.0) * 16807;
        self.0 = (product % u64::from(Self::MODULUS)) as u32;
        self.0
    }
}

const MT_WORDS: usize = 312;
const MT_MIDDLE: usize = 156;

/// The standard 64-bit Mersenne twister (mt19937-64).
#[derive(Clone, Debug)]
pub struct MersenneTwister64 {
    words: [u64; MT_WORDS],
    index: usize,
}

impl MersenneTwister64 {
    /// Starts the stream of `seed`.
    pub fn new(seed: u64) -> Self {
        let mut words = [0_u64; MT_WORDS];
        let mut previous = seed;
        for (index, word) in words.iter_mut().enumerate() {
            if index > 0 {
                previous =
                    6_364_136_223_846_793_005_u64.wrapping_mul(previous ^ (previous >> 62)).wrapping_add(index as u64);
            }
            *word = previous;
        }
        Self { words, index: MT_WORDS }
    }

    fn refill(&mut self) {
        const UPPER: u64 = 0xffff_ffff_8000_0000;
        const MATRIX: u64 = 0xb502_6f5a_a966_19e9;
        for i in 0..MT_WORDS {
            let bits = (self.words[i] & UPPER) | (self.words[(i + 1) % MT_WORDS] & !UPPER);
            let twist = if bits & 1 == 0 { 0 } else { MATRIX };
            self.words[i] = self.words[(i + MT_MIDDLE) % MT_WORDS] ^ (bits >> 1) ^ twist;
        }
        self.index = 0;
    }

    /// The next 64 random bits.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        if self.index >= MT_WORDS {
            self.refill();
        }
        let mut x = self.words[self.index];
        self.index += 1;
        x ^= (x >> 29) & 0x5555_5555_5555_5555;
        x ^= (x << 17) & 0x71d6_7fff_eda6_0000;
        x ^= (x << 37) & 0xfff7_eee0_0000_0000;
        x ^ (x >> 43)
    }

    /// A fraction in [0, 1) with 53 random bits.
    #[inline]
    pub fn fraction(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True with probability `percent` / 100.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.draw() % 100 < percent
    }

    /// A normally distributed number with mean 0 and deviation 1.
    pub fn normal(&mut self) -> f64 {
        // Box-Muller; the first factor is kept away from zero, whose logarithm has no value.
        let radius = (-2.0 * (1.0 - self.fraction()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.fraction()).cos()
    }
}

/// A pseudo-random order of 0..len: every number once, nothing stored.
#[derive(Clone, Debug)]
pub struct Permutation {
    len: u64,
    half_bits: u32,
    keys: [u64; 4],
    next: u64,
}

impl Permutation {
    /// The order of 0..`len` that belongs to `seed`.
    pub fn new(len: u64, seed: u64) -> Self {
        let bits = 64 - len.saturating_sub(1).leading_zeros();
        let mut source = MersenneTwister64::new(seed);
        let keys = std::array::from_fn(|_| source.draw());
        Self { len, half_bits: bits.div_ceil(2).max(1), keys, next: 0 }
    }

    /// Four rounds of a Feistel network over 2 * half_bits bits.
    fn scramble(&self, value: u64) -> u64 {
        let mask = (1_u64 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for key in self.keys {
            let mut mixed = (right ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            mixed ^= mixed >> 29;
            mixed = mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (left, right) = (right, left ^ ((mixed >> 32) & mask));
        }
        (left << self.half_bits) | right
    }
}

impl Iterator for Permutation {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if self.next >= self.len {
            return None;
        }
        let mut value = self.scramble(self.next);
        self.next += 1;
        // The network permutes a power of four that is at most four times `len`: walk the cycle back into range.
        while value >= self.len {
            value = self.scramble(value);
        }
        Some(value)
    }
}

/// How reads choose among `num` keys: evenly, or with exponential skew when `exp_range` is positive.
#[inline]
pub fn skewed_key(draw: u64, num: u64, exp_range: f64) -> u64 {
    if exp_range == 0.0 {
        return draw % num;
    }
    const BOUND: u64 = 1 << 62;
    let order = -((draw % BOUND) as f64 / BOUND as f64) * exp_range;
    let rank = (num as f64 * order.exp()) as u64;
    // Multiplying by a prime spreads the popular keys over the key space.
    rank.wrapping_mul(0x5bd1_e995) % num
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lehmer_vector() {
        let mut random = Lehmer31::new(301);
        let drawn: Vec<u32> = (0..4).map(|_| random.draw()).collect();
        assert_eq!(drawn, [5_058_907, 1_273_187_716, 938_884_104, 115_297_772]);
        assert_eq!(Lehmer31::new(0).draw(), 16807);
        assert_eq!(Lehmer31::new(2_147_483_647).draw(), 16807);
    }

    #[test]
    fn twister_vector() {
        let mut random = MersenneTwister64::new(6);
        let drawn: Vec<u64> = (0..4).map(|_| random.draw()).collect();
        assert_eq!(
            drawn,
            [
                14_315_882_575_126_838_720,
                10_331_981_455_065_595_755,
                14_809_531_781_736_056_691,
                14_890_282_015_006_665_334
            ]
        );
        // The 10000th output for seed 5489 is part of the C++ standard.
        let mut random = MersenneTwister64::new(5489);
        assert_eq!((0..10_000).map(|_| random.draw()).last(), Some(9_981_545_732_273_789_042));
    }

    #[test]
    fn permutation_visits_everything_once() {
        for len in [0, 1, 2, 3, 5, 64, 100, 1000, 4097] {
            let mut seen: Vec<u64> = Permutation::new(len, 42).collect();
            assert_eq!(seen.len() as u64, len);
            seen.sort_unstable();
            assert!(seen.iter().copied().eq(0..len), "{len}");
        }
        let (a, b): (Vec<_>, Vec<_>) = (Permutation::new(1000, 1).collect(), Permutation::new(1000, 2).collect());
        assert_ne!(a, b);
    }

    #[test]
    fn skew_prefers_few_keys() {
        let mut random = MersenneTwister64::new(1);
        let mut counts = vec![0; 1000];
        for _ in 0..20_000 {
            counts[skewed_key(random.draw(), 1000, 10.0) as usize] += 1;
        }
        counts.sort_unstable();
        assert!(counts[999] > 20 * counts[900].max(1), "{:?}", &counts[990..]);
    }
}
