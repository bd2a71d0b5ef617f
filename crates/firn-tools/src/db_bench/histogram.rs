//! Latency histogram with RocksDB's buckets and text.
//!
//! In: microseconds. Out: the five-part text that scripts grep (`Count:`, `Min:`, `Percentiles:`, rule, rows).

use std::fmt::Write as _;
use std::sync::OnceLock;

/// Upper limits of all buckets but the last one's overflow, ascending.
fn limits() -> &'static [u64] {
    static LIMITS: OnceLock<Vec<u64>> = OnceLock::new();
    LIMITS.get_or_init(|| {
        let mut limits = vec![1, 2];
        let mut bound = 2.0_f64;
        loop {
            bound *= 1.5;
            if bound >= u64::MAX as f64 {
                return limits;
            }
            // Only the two leading digits are kept, so that the limits are easy to read.
            let (mut value, mut scale) = (bound as u64, 1);
            while value / 10 > 10 {
                value /= 10;
                scale *= 10;
            }
            limits.push(value * scale);
        }
    })
}

/// Counts per bucket, and what the text needs besides.
#[derive(Clone, Debug)]
pub struct Histogram {
    count: u64,
    sum: u64,
    sum_of_squares: f64,
    min: u64,
    max: u64,
    buckets: Vec<u64>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { count: 0, sum: 0, sum_of_squares: 0.0, min: u64::MAX, max: 0, buckets: vec![0; limits().len()] }
    }
}

impl Histogram {
    /// Counts one value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        let limits = limits();
        let index = limits.partition_point(|limit| *limit < value).min(limits.len() - 1);
        self.buckets[index] += 1;
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
        self.sum_of_squares += value as f64 * value as f64;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds everything that `other` counted.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.sum_of_squares += other.sum_of_squares;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The value below which `percent` of the values lie, interpolated within its bucket; 0 when empty.
    pub fn percentile(&self, percent: f64) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let threshold = self.count as f64 * percent / 100.0;
        let mut cumulative = 0_u64;
        for (index, &count) in self.buckets.iter().enumerate() {
            cumulative += count;
            if cumulative as f64 >= threshold {
                let left = if index == 0 { 0 } else { limits()[index - 1] } as f64;
                let right = limits()[index] as f64;
                let before = (cumulative - count) as f64;
                let position = if count == 0 { 0.0 } else { (threshold - before) / count as f64 };
                return (left + (right - left) * position).clamp(self.min as f64, self.max as f64);
            }
        }
        self.max as f64
    }

    /// The text, each line ended.
    pub fn text(&self) -> String {
        let (average, deviation) = if self.count == 0 {
            (0.0, 0.0)
        } else {
            let count = self.count as f64;
            let average = self.sum as f64 / count;
            (average, (self.sum_of_squares / count - average * average).max(0.0).sqrt())
        };
        let min = if self.count == 0 { 0 } else { self.min };
        let mut text = String::new();
        let _ = writeln!(text, "Count: {} Average: {average:.4}  StdDev: {deviation:.2}", self.count);
        let _ = writeln!(text, "Min: {min}  Median: {:.4}  Max: {}", self.percentile(50.0), self.max);
        let _ = writeln!(
            text,
            "Percentiles: P50: {:.2} P75: {:.2} P99: {:.2} P99.9: {:.2} P99.99: {:.2}",
            self.percentile(50.0),
            self.percentile(75.0),
            self.percentile(99.0),
            self.percentile(99.9),
            self.percentile(99.99)
        );
        let _ = writeln!(text, "{}", "-".repeat(54));
        let mut cumulative = 0;
        for (index, &count) in self.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            cumulative += count;
            let share = 100.0 * count as f64 / self.count as f64;
            let (open, left) = if index == 0 { ('[', 0) } else { ('(', limits()[index - 1]) };
            let _ = writeln!(
                text,
                "{open} {left:7}, {:7} ] {count:8} {share:7.3}% {:7.3}% {}",
                limits()[index],
                100.0 * cumulative as f64 / self.count as f64,
                "#".repeat((share / 5.0 + 0.5) as usize)
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_rocksdb() {
        let expected = [
            1, 2, 3, 4, 6, 10, 15, 22, 34, 51, 76, 110, 170, 250, 380, 580, 870, 1300, 1900, 2900, 4400, 6600, 9900,
            14000, 22000, 33000, 50000, 75000, 110_000,
        ];
        assert_eq!(limits()[..expected.len()], expected);
        assert_eq!(limits().len(), 109);
    }

    #[test]
    fn text_of_a_known_distribution() {
        let mut histogram = Histogram::default();
        (0..1947).for_each(|_| histogram.add(1));
        (0..39).for_each(|_| histogram.add(2));
        (0..14).for_each(|_| histogram.add(200));
        let text = histogram.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "Count: 2000 Average: 2.4125  StdDev: 16.59");
        assert_eq!(lines[1], "Min: 1  Median: 1.0000  Max: 200");
        assert_eq!(lines[2], "Percentiles: P50: 1.00 P75: 1.00 P99: 1.85 P99.9: 200.00 P99.99: 200.00");
        assert_eq!(lines[4], "[       0,       1 ]     1947  97.350%  97.350% ###################");
        assert_eq!(lines[5], "(       1,       2 ]       39   1.950%  99.300% ");
        assert_eq!(lines[6], "(     170,     250 ]       14   0.700% 100.000% ");
    }

    #[test]
    fn empty_prints_zeros() {
        assert!(Histogram::default().text().contains("Min: 0  Median: 0.0000  Max: 0\n"));
    }

    #[test]
    fn merging_equals_adding() {
        let (mut all, mut left, mut right) = (Histogram::default(), Histogram::default(), Histogram::default());
        for value in (0..5000_u64).map(|i| i * i % 7919) {
            all.add(value);
            if value % 2 == 0 { left.add(value) } else { right.add(value) }
        }
        left.merge(&right);
        assert_eq!(left.text(), all.text());
    }
}
