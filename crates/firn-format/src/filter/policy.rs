//! Filter policies: from configuration to the kind and density of the filters that are written.
//!
//! Option strings or numbers flow in, [`FilterBuilder`]s for one table each flow out. Reading needs no policy: all built-in
//! kinds share one compatibility name and say in their content what they are.
//!
//! Always true here: bits per key are kept as the double the caller gave, cleaned to 0 or 1..=100, and in thousandths.

use super::FilterBuilder;
use super::bloom;
use super::builder::Implementation;
use crate::{Error, Result};

/// The name under which all built-in filters are found in a table's metaindex.
pub const BUILTIN_COMPATIBILITY_NAME: &str = "rocksdb.BuiltinBloomFilter";

/// Which filters a policy writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyKind {
    /// New Bloom, or legacy Bloom for `format_version` < 5.
    Bloom,
    /// Ribbon, or Bloom for files that start above a level.
    Ribbon {
        /// Files created at a level below this number get Bloom; 0: only flushes do; -1: none; `i32::MAX`: all.
        bloom_before_level: i32,
    },
    /// Legacy Bloom whatever the format version; for tests.
    LegacyBloom,
    /// New Bloom whatever the format version; for tests.
    FastLocalBloom,
    /// Ribbon at every level; for tests.
    Standard128Ribbon,
    /// Writes nothing, reads everything.
    ReadOnly,
}

/// What decides, beside the policy, which filter a new table gets.
#[derive(Clone, Copy, Debug)]
pub struct FilterContext {
    /// The table's format version.
    pub format_version: u32,
    /// Whether levels mean age: leveled and universal compaction, not FIFO or none.
    pub leveled: bool,
    /// Whether a memtable flush (not a recovery) makes the table.
    pub is_flush: bool,
    /// The level the table is created at, where known.
    pub level: Option<u32>,
    /// Option `optimize_filters_for_memory`: the number of probes follows the real density.
    pub optimize_filters_for_memory: bool,
}

impl FilterContext {
    /// The level that `bloom_before_level` is compared with.
    fn effective_level(&self) -> i32 {
        const UNKNOWN: i32 = i32::MAX - 1;
        if !self.leveled {
            return UNKNOWN;
        }
        if self.is_flush {
            return -1;
        }
        self.level.map_or(UNKNOWN, |level| i32::try_from(level).unwrap_or(UNKNOWN))
    }
}

impl Default for FilterContext {
    /// A stand-alone file of `format_version` 6.
    fn default() -> Self {
        Self { format_version: 6, leveled: true, is_flush: false, level: None, optimize_filters_for_memory: true }
    }
}

/// A configured filter policy.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterPolicy {
    kind: PolicyKind,
    bits_per_key: f64,
    millibits_per_key: u32,
}

impl FilterPolicy {
    /// A policy of this kind. Less than half a bit per key means no filter, less than one means one, more than 100 and NaN
    /// mean 100.
    pub fn new(kind: PolicyKind, bits_per_key: f64) -> Self {
        let bits_per_key = if bits_per_key < 0.5 || kind == PolicyKind::ReadOnly {
            0.0
        } else if bits_per_key < 1.0 {
            1.0
        } else if bits_per_key < 100.0 {
            bits_per_key
        } else {
            100.0
        };
        Self { kind, bits_per_key, millibits_per_key: (bits_per_key * 1000.0 + 0.500_001) as u32 }
    }

    /// The Bloom policy, RocksDB's `NewBloomFilterPolicy`.
    pub fn bloom(bits_per_key: f64) -> Self {
        Self::new(PolicyKind::Bloom, bits_per_key)
    }

    /// The Ribbon policy, RocksDB's `NewRibbonFilterPolicy`; `bits_per_key` are those of a Bloom filter of the same
    /// false-positive rate.
    pub fn ribbon(bits_per_key: f64, bloom_before_level: i32) -> Self {
        Self::new(PolicyKind::Ribbon { bloom_before_level }, bits_per_key)
    }

    /// What the policy writes.
    pub fn kind(&self) -> PolicyKind {
        self.kind
    }

    /// Thousandths of bits per key; 0 means that nothing is written.
    pub fn millibits_per_key(&self) -> u32 {
        self.millibits_per_key
    }

    /// The policy's name, as it stands in the table property `rocksdb.filter.policy`.
    pub fn name(&self) -> &'static str {
        match self.kind {
            PolicyKind::Bloom => "bloomfilter",
            PolicyKind::Ribbon { .. } => "ribbonfilter",
            PolicyKind::LegacyBloom => "rocksdb.internal.LegacyBloomFilter",
            PolicyKind::FastLocalBloom => "rocksdb.internal.FastLocalBloomFilter",
            PolicyKind::Standard128Ribbon => "rocksdb.internal.Standard128RibbonFilter",
            PolicyKind::ReadOnly => BUILTIN_COMPATIBILITY_NAME,
        }
    }

    /// The name under which this policy's filters are stored and found.
    pub fn compatibility_name(&self) -> &'static str {
        BUILTIN_COMPATIBILITY_NAME
    }

    /// The text for OPTIONS files, which [`from_string`](Self::from_string) of all versions reads.
    pub fn to_option_string(&self) -> String {
        let (whole, thousandths) = (self.millibits_per_key / 1000, self.millibits_per_key % 1000);
        let fraction = format!(".{thousandths:03}");
        let bits = format!("{whole}{}", fraction.trim_end_matches('0').trim_end_matches('.'));
        match self.kind {
            PolicyKind::Bloom => format!("bloomfilter:{bits}:false"),
            PolicyKind::Ribbon { bloom_before_level } => format!("ribbonfilter:{bits}:{bloom_before_level}"),
            PolicyKind::ReadOnly => self.name().to_string(),
            _ => format!("{}:{bits}", self.name()),
        }
    }

    /// The policy of an option string such as `bloomfilter:10:false` or `ribbonfilter:10:1`; `None` for empty text and
    /// `nullptr`.
    ///
    /// # Errors
    /// `NotSupported` for anything else.
    pub fn from_string(text: &str) -> Result<Option<Self>> {
        if matches!(text, "" | "nullptr") {
            return Ok(None);
        }
        parse_with_id(text)
            .or_else(|| parse_plain(text))
            .map(Some)
            .ok_or_else(|| Error::not_supported(format!("Could not load FilterPolicy: {text}")))
    }

    /// A builder for the filters of one table; `None` when the policy writes none.
    pub fn builder(&self, context: &FilterContext) -> Option<FilterBuilder> {
        if self.millibits_per_key == 0 {
            return None;
        }
        let bloom_for_version =
            if context.format_version < 5 { Implementation::LegacyBloom } else { Implementation::FastLocalBloom };
        let implementation = match self.kind {
            PolicyKind::Bloom => bloom_for_version,
            PolicyKind::Ribbon { bloom_before_level } if context.effective_level() < bloom_before_level => {
                Implementation::FastLocalBloom
            }
            PolicyKind::Ribbon { .. } | PolicyKind::Standard128Ribbon => {
                Implementation::Ribbon { one_in: self.one_in_false_positive() }
            }
            PolicyKind::LegacyBloom => Implementation::LegacyBloom,
            PolicyKind::FastLocalBloom => Implementation::FastLocalBloom,
            PolicyKind::ReadOnly => return None,
        };
        Some(FilterBuilder::new(implementation, self.millibits_per_key, context.optimize_filters_for_memory))
    }

    /// The false-positive rate of a Bloom filter of this density, as "one in".
    fn one_in_false_positive(&self) -> f64 {
        let probes = bloom::probes_for(u64::from(self.millibits_per_key));
        1.0 / cache_local_rate(self.bits_per_key, f64::from(probes))
    }
}

fn standard_rate(bits_per_key: f64, probes: f64) -> f64 {
    (1.0 - (-probes / bits_per_key).exp()).powf(probes)
}

/// The false-positive rate of a Bloom filter whose bits lie in 512-bit lines: lines are not equally full.
fn cache_local_rate(bits_per_key: f64, probes: f64) -> f64 {
    if bits_per_key <= 0.0 {
        return 1.0;
    }
    let keys_per_line = 512.0 / bits_per_key;
    let deviation = keys_per_line.sqrt();
    let crowded = standard_rate(512.0 / (keys_per_line + deviation), probes);
    let uncrowded = standard_rate(512.0 / (keys_per_line - deviation), probes);
    (crowded + uncrowded) / 2.0
}

/// `id=<plain>`, optionally followed by `;bloom_before_level=L`, optionally in braces.
fn parse_with_id(text: &str) -> Option<FilterPolicy> {
    let inner = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(text);
    let mut fields = inner.trim().trim_end_matches(';').split(';').map(str::trim);
    let mut policy = parse_plain(fields.next()?.strip_prefix("id=")?)?;
    for field in fields {
        let level = field.strip_prefix("bloom_before_level=")?;
        match &mut policy.kind {
            PolicyKind::Ribbon { bloom_before_level } => *bloom_before_level = parse_level(level)?,
            _ => return None,
        }
    }
    Some(policy)
}

fn parse_plain(text: &str) -> Option<FilterPolicy> {
    if text == BUILTIN_COMPATIBILITY_NAME {
        return Some(FilterPolicy::new(PolicyKind::ReadOnly, 0.0));
    }
    let mut fields = text.split(':');
    let (name, bits, extra) = (fields.next()?, parse_bits(fields.next()?)?, fields.next());
    if fields.next().is_some() {
        return None;
    }
    let kind = match (name, extra) {
        ("bloomfilter" | "rocksdb.BloomFilter", None | Some("true" | "false")) => PolicyKind::Bloom,
        ("ribbonfilter" | "rocksdb.RibbonFilter", level) => {
            PolicyKind::Ribbon { bloom_before_level: level.map_or(Some(0), parse_level)? }
        }
        ("rocksdb.internal.LegacyBloomFilter", None) => PolicyKind::LegacyBloom,
        ("rocksdb.internal.FastLocalBloomFilter", None) => PolicyKind::FastLocalBloom,
        ("rocksdb.internal.Standard128RibbonFilter", None) => PolicyKind::Standard128Ribbon,
        _ => return None,
    };
    Some(FilterPolicy::new(kind, bits))
}

/// Decimal digits with at most one point and an optional minus; no exponent, no blanks.
fn parse_bits(text: &str) -> Option<f64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        && digits.bytes().filter(|&byte| byte == b'.').count() <= 1
        && digits.bytes().any(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

fn parse_level(text: &str) -> Option<i32> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn false_positive_targets() {
        for (bits, one_in) in [
            (1.0, 1.5828764599687017),
            (2.0, 2.5434086178920716),
            (3.0, 4.222978678719145),
            (5.0, 10.788342018508663),
            (7.5, 34.747668),
            (8.0, 43.387452561107715),
            (9.9, 100.61625420295171),
            (10.0, 104.90235348782818),
            (12.0, 248.34839762521918),
            (15.0, 853.089195906945),
            (16.0, 1255.0532086126823),
            (20.0, 5852.54010383965),
            (25.0, 34050.17197381722),
            (30.0, 176754.09297602403),
            (50.0, 160480108.9973967),
            (100.0, 12965515550269.635),
        ] {
            let ours = FilterPolicy::ribbon(bits, -1).one_in_false_positive();
            assert!((ours / one_in - 1.0).abs() < 1e-7, "{bits}: {ours} {one_in}");
        }
    }

    #[test]
    fn probes_follow_density() {
        for (bits, probes, legacy) in [
            (1.0, 1, 1),
            (7.5, 5, 5),
            (9.9, 6, 6),
            (15.0, 9, 10),
            (16.0, 9, 11),
            (30.0, 13, 20),
            (50.0, 23, 30),
            (100.0, 24, 30),
        ] {
            let policy = FilterPolicy::bloom(bits);
            assert_eq!(bloom::probes_for(u64::from(policy.millibits_per_key)), probes, "{bits}");
            let whole = (policy.millibits_per_key + 500) / 1000;
            assert_eq!(super::super::legacy_bloom::probes_for(whole), legacy, "{bits}");
        }
    }

    #[test]
    fn option_strings() {
        for (text, back) in [
            ("bloomfilter:10", "bloomfilter:10:false"),
            ("bloomfilter:10:true", "bloomfilter:10:false"),
            ("rocksdb.BloomFilter:4.567:false", "bloomfilter:4.567:false"),
            ("bloomfilter:9.9999", "bloomfilter:10:false"),
            ("bloomfilter:0.4", "bloomfilter:0:false"),
            ("bloomfilter:0.7", "bloomfilter:1:false"),
            ("bloomfilter:1000", "bloomfilter:100:false"),
            ("bloomfilter:-3", "bloomfilter:0:false"),
            ("bloomfilter:5.", "bloomfilter:5:false"),
            ("bloomfilter:.5", "bloomfilter:1:false"),
            ("ribbonfilter:10", "ribbonfilter:10:0"),
            ("rocksdb.RibbonFilter:10:-1", "ribbonfilter:10:-1"),
            ("{id=ribbonfilter:10:0;bloom_before_level=2;}", "ribbonfilter:10:2"),
            ("id=bloomfilter:10", "bloomfilter:10:false"),
            ("rocksdb.internal.Standard128RibbonFilter:7.5", "rocksdb.internal.Standard128RibbonFilter:7.5"),
            ("rocksdb.BuiltinBloomFilter", "rocksdb.BuiltinBloomFilter"),
        ] {
            let policy = FilterPolicy::from_string(text).unwrap().unwrap();
            assert_eq!(policy.to_option_string(), back, "{text}");
            assert_eq!(FilterPolicy::from_string(back).unwrap().unwrap().to_option_string(), back);
        }
        assert_eq!(FilterPolicy::from_string("").unwrap(), None);
        assert_eq!(FilterPolicy::from_string("nullptr").unwrap(), None);
        for text in [
            "bloomfilter",
            "bloomfilter:",
            "bloomfilter:abc",
            "bloomfilter:10:0",
            "bloomfilter:10:FALSE",
            "bloomfilter:1e1",
            "bloomfilter:10 ",
            "bloomfilter:.",
            "ribbonfilter:10:",
            "ribbonfilter:10:false",
            "experimental_ribbon:10",
            "{bloomfilter:10}",
            "id=bloomfilter:10;bloom_before_level=1",
        ] {
            let error = FilterPolicy::from_string(text).unwrap_err();
            assert_eq!(error.message(), format!("Could not load FilterPolicy: {text}"));
        }
    }

    #[test]
    fn which_filter_is_written() {
        let first_byte = |policy: &FilterPolicy, context: &FilterContext| {
            let mut builder = policy.builder(context).unwrap();
            for i in 0..1000 {
                builder.add(format!("{i}").as_bytes());
            }
            let content = builder.finish().unwrap();
            content[content.len() - 5]
        };
        let at = |format_version, is_flush, level| FilterContext {
            format_version,
            is_flush,
            level,
            ..FilterContext::default()
        };
        let bloom = FilterPolicy::bloom(10.0);
        assert_eq!(first_byte(&bloom, &at(5, false, None)), 0xff);
        assert_eq!(first_byte(&bloom, &at(4, false, None)), 6);
        let hybrid = FilterPolicy::ribbon(10.0, 1);
        assert_eq!(first_byte(&hybrid, &at(4, true, Some(0))), 0xff);
        assert_eq!(first_byte(&hybrid, &at(5, false, Some(0))), 0xff);
        assert_eq!(first_byte(&hybrid, &at(4, false, Some(1))), 0xfe);
        assert_eq!(first_byte(&hybrid, &at(5, false, None)), 0xfe);
        assert_eq!(first_byte(&FilterPolicy::ribbon(10.0, -1), &at(5, true, Some(0))), 0xfe);
        assert_eq!(first_byte(&FilterPolicy::ribbon(10.0, i32::MAX), &at(5, false, None)), 0xff);
        let fifo = FilterContext { leveled: false, is_flush: true, ..FilterContext::default() };
        assert_eq!(first_byte(&hybrid, &fifo), 0xfe);
        for nothing in ["bloomfilter:0.4", "rocksdb.BuiltinBloomFilter"] {
            let policy = FilterPolicy::from_string(nothing).unwrap().unwrap();
            assert!(policy.builder(&FilterContext::default()).is_none());
        }
    }
}
