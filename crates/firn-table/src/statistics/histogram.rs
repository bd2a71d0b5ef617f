//! Histograms with RocksDB's buckets, figures and text.
//!
//! Samples flow in, percentiles and the usual figures flow out. The bucket limits grow by half each and are rounded to two
//! digits, so that figures are exact to about a tenth. Sums wrap around as RocksDB's do.

use std::fmt::Write;

/// Number of buckets.
pub const BUCKETS: usize = 109;

/// The greatest value of each bucket; greater values count in the last bucket.
pub const BUCKET_LIMITS: [u64; BUCKETS] = bucket_limits();

/// For each number of significant bits, the first bucket that a value with so many bits can be in.
const FIRST_BUCKET: [u8; 65] = first_buckets();

const fn bucket_limits() -> [u64; BUCKETS] {
    let mut limits = [0u64; BUCKETS];
    limits[0] = 1;
    limits[1] = 2;
    let mut bound = 2.0f64;
    let mut at = 2;
    while at < BUCKETS {
        bound *= 1.5;
        let mut digits = bound as u64;
        let mut scale = 1u64;
        while digits / 10 > 10 {
            digits /= 10;
            scale *= 10;
        }
        limits[at] = digits * scale;
        at += 1;
    }
    limits
}

const fn first_buckets() -> [u8; 65] {
    let mut first = [0u8; 65];
    let mut bits = 1;
    while bits <= 64 {
        let least = 1u64 << (bits - 1);
        let mut at = 0;
        while at + 1 < BUCKETS && BUCKET_LIMITS[at] < least {
            at += 1;
        }
        first[bits] = at as u8;
        bits += 1;
    }
    first
}

/// The bucket that `value` counts in.
#[inline]
pub fn bucket_of(value: u64) -> usize {
    let bits = (u64::BITS - value.leading_zeros()) as usize;
    let mut at = usize::from(FIRST_BUCKET[bits]);
    // Limits grow by half, so that at most two more are passed.
    while at + 1 < BUCKETS && BUCKET_LIMITS[at] < value {
        at += 1;
    }
    at
}

/// The figures of a histogram. All are zero when it is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HistogramData {
    /// The 50th percentile.
    pub median: f64,
    /// The 95th percentile.
    pub percentile95: f64,
    /// The 99th percentile.
    pub percentile99: f64,
    /// The mean.
    pub average: f64,
    /// The standard deviation.
    pub standard_deviation: f64,
    /// The greatest sample.
    pub max: f64,
    /// Number of samples.
    pub count: u64,
    /// Sum of the samples, wrapping.
    pub sum: u64,
    /// The least sample.
    pub min: f64,
}

/// A distribution of samples, for one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    pub(super) buckets: [u64; BUCKETS],
    pub(super) count: u64,
    pub(super) sum: u64,
    pub(super) sum_of_squares: u64,
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty histogram.
    pub const fn new() -> Self {
        Self { buckets: [0; BUCKETS], count: 0, sum: 0, sum_of_squares: 0, min: u64::MAX, max: 0 }
    }

    /// Adds a sample.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.buckets[bucket_of(value)] += 1;
        self.count += 1;
        self.sum = self.sum.wrapping_add(value);
        self.sum_of_squares = self.sum_of_squares.wrapping_add(value.wrapping_mul(value));
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds all samples of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
        self.sum_of_squares = self.sum_of_squares.wrapping_add(other.sum_of_squares);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Forgets all samples.
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// Number of samples.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Sum of the samples, wrapping.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The least sample; 0 when there is none.
    pub fn min(&self) -> u64 {
        if self.count == 0 { 0 } else { self.min }
    }

    /// The greatest sample; 0 when there is none.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The mean; 0 when empty.
    pub fn average(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// The standard deviation; 0 when empty.
    pub fn standard_deviation(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let (count, sum, squares) = (self.count as f64, self.sum as f64, self.sum_of_squares as f64);
        ((squares * count - sum * sum) / (count * count)).max(0.0).sqrt()
    }

    /// The value below which `percent` of the samples lie, interpolated inside its bucket; 0 when empty.
    pub fn percentile(&self, percent: f64) -> f64 {
        let threshold = self.count as f64 * (percent / 100.0);
        let mut passed = 0u64;
        for (at, &count) in self.buckets.iter().enumerate() {
            let before = passed;
            passed += count;
            if passed as f64 >= threshold {
                let left = at.checked_sub(1).map_or(0.0, |at| BUCKET_LIMITS[at] as f64);
                let right = BUCKET_LIMITS[at] as f64;
                let part = if count == 0 { 0.0 } else { (threshold - before as f64) / count as f64 };
                // Fused as in RocksDB's own builds, so that the last digits of huge values agree.
                let value = (right - left).mul_add(part, left);
                return value.max(self.min() as f64).min(self.max as f64);
            }
        }
        self.max as f64
    }

    /// The 50th percentile.
    pub fn median(&self) -> f64 {
        self.percentile(50.0)
    }

    /// The figures.
    pub fn data(&self) -> HistogramData {
        HistogramData {
            median: self.median(),
            percentile95: self.percentile(95.0),
            percentile99: self.percentile(99.0),
            average: self.average(),
            standard_deviation: self.standard_deviation(),
            max: self.max as f64,
            count: self.count,
            sum: self.sum,
            min: self.min() as f64,
        }
    }

    /// RocksDB's text: the figures, then one line for each bucket with samples.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_text(&mut text);
        text
    }

    fn write_text(&self, text: &mut String) -> std::fmt::Result {
        let (average, deviation) = (self.average(), self.standard_deviation());
        writeln!(text, "Count: {} Average: {average:.4}  StdDev: {deviation:.2}", self.count)?;
        writeln!(text, "Min: {}  Median: {:.4}  Max: {}", self.min(), self.median(), self.max)?;
        let [p50, p75, p99, p999, p9999] = [50.0, 75.0, 99.0, 99.9, 99.99].map(|percent| self.percentile(percent));
        writeln!(text, "Percentiles: P50: {p50:.2} P75: {p75:.2} P99: {p99:.2} P99.9: {p999:.2} P99.99: {p9999:.2}")?;
        writeln!(text, "------------------------------------------------------")?;
        let mut passed = 0u64;
        for (at, &count) in self.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            passed += count;
            let percent = |count: u64| 100.0 * count as f64 / self.count as f64;
            let (open, left) = at.checked_sub(1).map_or(('[', 0), |before| ('(', BUCKET_LIMITS[before]));
            write!(text, "{open} {left:>7}, {:>7} ] {count:>8} ", BUCKET_LIMITS[at])?;
            write!(text, "{:>7.3}% {:>7.3}% ", percent(count), percent(passed))?;
            let marks = (percent(count) / 5.0 + 0.5).floor() as usize;
            writeln!(text, "{:#<marks$}", "")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_rocksdbs() {
        let head = [1, 2, 3, 4, 6, 10, 15, 22, 34, 51, 76, 110, 170, 250, 380, 580, 870, 1300, 1900, 2900, 4400, 6600];
        assert_eq!(BUCKET_LIMITS[..head.len()], head);
        assert!(BUCKET_LIMITS.contains(&108_000_000_000_000) && BUCKET_LIMITS.contains(&107_000_000_000_000_000));
        assert_eq!(BUCKET_LIMITS[BUCKETS - 2..], [9_200_000_000_000_000_000, 13_000_000_000_000_000_000]);
    }

    #[test]
    fn every_value_is_in_its_bucket() {
        let near = BUCKET_LIMITS.iter().flat_map(|&limit| [limit - 1, limit, limit.saturating_add(1)]);
        for value in near.chain([0, u64::MAX]) {
            let expected = BUCKET_LIMITS.partition_point(|&limit| limit < value).min(BUCKETS - 1);
            assert_eq!(bucket_of(value), expected, "{value}");
        }
    }

    /// Vector A: a read workload measured by RocksDB 7.8.3.
    #[test]
    fn figures_of_a_real_workload() {
        let mut histogram = Histogram { count: 3334, sum: 28381, min: 1, max: 4110, ..Histogram::new() };
        for (limit, count) in [
            (1, 52),
            (2, 366),
            (3, 267),
            (4, 470),
            (6, 1610),
            (10, 309),
            (15, 122),
            (22, 91),
            (34, 23),
            (51, 13),
            (76, 5),
            (110, 2),
            (170, 1),
            (250, 1),
            (4400, 2),
        ] {
            histogram.buckets[bucket_of(limit)] = count;
        }
        for (percent, value) in [
            (50.0, 4.636024844720497),
            (75.0, 5.671428571428572),
            (95.0, 13.823770491803268),
            (99.0, 29.126956521739054),
            (99.9, 149.96),
            (99.99, 4110.0),
        ] {
            assert!((histogram.percentile(percent) / value - 1.0).abs() < 1e-12, "P{percent}");
        }
        let text = histogram.to_text();
        assert!(text.starts_with("Count: 3334 Average: 8.5126  StdDev: "));
        assert!(text.contains("Percentiles: P50: 4.64 P75: 5.67 P99: 29.13 P99.9: 149.96 P99.99: 4110.00\n"));
        assert!(text.contains("\n[       0,       1 ]       52   1.560%   1.560% \n"));
        assert!(text.contains("\n(       4,       6 ]     1610  48.290%  82.933% ##########\n"));
        assert!(text.ends_with("\n(    2900,    4400 ]        2   0.060% 100.000% \n"));
    }

    /// Vector B of RocksDB 11.9.0: sums wrap.
    #[test]
    fn figures_of_extreme_samples() {
        let mut histogram = Histogram::new();
        for value in [0, 1, 2, 3, 109, 110, 111, u64::MAX] {
            histogram.add(value);
        }
        assert_eq!(histogram.sum(), 335);
        assert_eq!(
            histogram.to_text(),
            "Count: 8 Average: 41.8750  StdDev: 52.78\n\
             Min: 0  Median: 3.0000  Max: 18446744073709551615\n\
             Percentiles: P50: 3.00 P75: 110.00 P99: 12696000000000000000.00 P99.9: 12969600000000004096.00 P99.99: \
             12996959999999997952.00\n\
             ------------------------------------------------------\n\
             [       0,       1 ]        2  25.000%  25.000% #####\n\
             (       1,       2 ]        1  12.500%  37.500% ###\n\
             (       2,       3 ]        1  12.500%  50.000% ###\n\
             (      76,     110 ]        2  25.000%  75.000% #####\n\
             (     110,     170 ]        1  12.500%  87.500% ###\n\
             ( 9200000000000000000, 13000000000000000000 ]        1  12.500% 100.000% ###\n"
        );
    }

    /// Vectors C and D: one sample, none.
    #[test]
    fn figures_of_few_samples() {
        let mut histogram = Histogram::new();
        assert_eq!(
            histogram.to_text(),
            "Count: 0 Average: 0.0000  StdDev: 0.00\nMin: 0  Median: 0.0000  Max: 0\n\
             Percentiles: P50: 0.00 P75: 0.00 P99: 0.00 P99.9: 0.00 P99.99: 0.00\n\
             ------------------------------------------------------\n"
        );
        assert_eq!(histogram.data(), HistogramData::default());
        histogram.add(5);
        let line = "(       4,       6 ]        1 100.000% 100.000% ####################\n";
        assert!(histogram.to_text().ends_with(line));
        assert_eq!(histogram.percentile(99.99), 5.0);
        let mut twice = histogram.clone();
        twice.merge(&histogram);
        assert_eq!((twice.count(), twice.sum(), twice.min()), (2, 10, 5));
    }
}
