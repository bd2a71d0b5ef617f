//! The filter of new tables and its text: `bloomfilter:10:false`, `ribbonfilter:10:0`.

use firn_format::options::{ConfigOptions, Dialect, ObjectText, OptionCodec, OptionValue, ValueKind};
use firn_format::{Error, Result};

/// Which filter new tables get.
///
/// Sizes are in thousandths of a bit per key; see [`FilterPolicy::millibits`] for how a number of bits becomes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterPolicy {
    /// A Bloom filter: the cache-local kind from `format_version` 5 on, the older kind before.
    Bloom {
        /// Thousandths of a bit per key; 0 builds no filter.
        millibits_per_key: u32,
    },
    /// A Ribbon filter: a third smaller than Bloom for the same accuracy, slower to build.
    Ribbon {
        /// Thousandths of a Bloom filter's bit per key for the same accuracy; 0 builds no filter.
        millibits_per_key: u32,
        /// Flushes and levels below this one get Bloom filters: -1 none, 0 flushes only, and so on.
        bloom_before_level: i32,
    },
    /// The cache-local Bloom filter, whatever the `format_version`.
    FastLocalBloom {
        /// Thousandths of a bit per key.
        millibits_per_key: u32,
    },
    /// The older Bloom filter, whatever the `format_version`.
    LegacyBloom {
        /// Thousandths of a bit per key.
        millibits_per_key: u32,
    },
    /// The Ribbon filter on every level.
    Standard128Ribbon {
        /// Thousandths of a Bloom filter's bit per key for the same accuracy.
        millibits_per_key: u32,
    },
    /// Reads every built-in filter, builds none.
    ReadOnly,
}

impl FilterPolicy {
    /// A Bloom filter of so many bits per key; 10 gives about 1 % false positives.
    pub fn bloom(bits_per_key: f64) -> Self {
        Self::Bloom { millibits_per_key: Self::millibits(bits_per_key) }
    }

    /// A Ribbon filter as accurate as a Bloom filter of so many bits per key; flushes get the Bloom filter.
    pub fn ribbon(bloom_equivalent_bits_per_key: f64) -> Self {
        let millibits_per_key = Self::millibits(bloom_equivalent_bits_per_key);
        Self::Ribbon { millibits_per_key, bloom_before_level: 0 }
    }

    /// Bits per key in thousandths: below 0.5 none, below 1 one bit, from 100 on (and for NaN) 100 bits.
    pub fn millibits(bits_per_key: f64) -> u32 {
        if bits_per_key < 0.5 {
            0
        } else if bits_per_key < 1.0 {
            1000
        } else if bits_per_key < 100.0 {
            (bits_per_key * 1000.0 + 0.500_001) as u32
        } else {
            100_000
        }
    }

    /// Thousandths of a bit per key; 0 when no filter is built.
    pub fn millibits_per_key(&self) -> u32 {
        match *self {
            Self::Bloom { millibits_per_key }
            | Self::Ribbon { millibits_per_key, .. }
            | Self::FastLocalBloom { millibits_per_key }
            | Self::LegacyBloom { millibits_per_key }
            | Self::Standard128Ribbon { millibits_per_key } => millibits_per_key,
            Self::ReadOnly => 0,
        }
    }

    /// The id of the policy as RocksDB writes it.
    pub fn id(&self) -> String {
        let bits = bits_text(self.millibits_per_key());
        match self {
            Self::Bloom { .. } => format!("bloomfilter:{bits}:false"),
            Self::Ribbon { bloom_before_level, .. } => format!("ribbonfilter:{bits}:{bloom_before_level}"),
            Self::FastLocalBloom { .. } => format!("rocksdb.internal.FastLocalBloomFilter:{bits}"),
            Self::LegacyBloom { .. } => format!("rocksdb.internal.LegacyBloomFilter:{bits}"),
            Self::Standard128Ribbon { .. } => format!("rocksdb.internal.Standard128RibbonFilter:{bits}"),
            Self::ReadOnly => "rocksdb.BuiltinBloomFilter".into(),
        }
    }

    /// The name written into tables, by which a reader knows how to read the filter.
    pub const COMPATIBILITY_NAME: &'static str = "rocksdb.BuiltinBloomFilter";

    /// The policy with this id; `None` when no built-in policy has it.
    pub fn from_id(id: &str) -> Option<Self> {
        let mut parts = id.split(':');
        let (name, bits, last) = (parts.next()?, parts.next(), parts.next());
        if parts.next().is_some() {
            return None;
        }
        if name == "rocksdb.BuiltinBloomFilter" {
            return bits.is_none().then_some(Self::ReadOnly);
        }
        let millibits_per_key = Self::millibits(parse_decimal(bits?)?);
        match (name, last) {
            ("bloomfilter" | "rocksdb.BloomFilter", None | Some("true" | "false")) => {
                Some(Self::Bloom { millibits_per_key })
            }
            ("ribbonfilter" | "rocksdb.RibbonFilter", level) => {
                let bloom_before_level = level.map_or(Some(0), |level| level.parse().ok())?;
                Some(Self::Ribbon { millibits_per_key, bloom_before_level })
            }
            ("rocksdb.internal.FastLocalBloomFilter", None) => Some(Self::FastLocalBloom { millibits_per_key }),
            ("rocksdb.internal.LegacyBloomFilter", None) => Some(Self::LegacyBloom { millibits_per_key }),
            ("rocksdb.internal.Standard128RibbonFilter", None) => Some(Self::Standard128Ribbon { millibits_per_key }),
            _ => None,
        }
    }
}

/// Reads digits with at most one dot and perhaps a minus sign; size suffixes are no part of an id.
fn parse_decimal(text: &str) -> Option<f64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if plain && digits.starts_with(|c: char| c.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// Thousandths as a decimal number without trailing zeros.
fn bits_text(millibits: u32) -> String {
    let (whole, rest) = (millibits / 1000, millibits % 1000);
    if rest == 0 { whole.to_string() } else { format!("{whole}.{}", format!("{rest:03}").trim_end_matches('0')) }
}

/// Reads and writes a filter policy.
#[derive(Clone, Copy, Debug)]
pub struct FilterPolicyCodec;

impl OptionCodec<Option<FilterPolicy>> for FilterPolicyCodec {
    const KIND: ValueKind = ValueKind::Object;

    fn parse(slot: &mut Option<FilterPolicy>, name: &str, text: &str, config: &ConfigOptions) -> Result<()> {
        let Some(object) = ObjectText::parse(text) else {
            *slot = None;
            return Ok(());
        };
        let mut policy = match &object.id {
            Some(id) => Some(
                FilterPolicy::from_id(id)
                    .ok_or_else(|| Error::not_supported(format!("Could not load FilterPolicy: {id}")))?,
            ),
            None => *slot,
        };
        for (field, value) in &object.parameters {
            Self::parse_field(&mut policy, name, field, value, config)?;
        }
        *slot = policy;
        Ok(())
    }

    fn parse_field(
        slot: &mut Option<FilterPolicy>,
        name: &str,
        field: &str,
        text: &str,
        config: &ConfigOptions,
    ) -> Result<()> {
        match (slot, field) {
            (Some(FilterPolicy::Ribbon { bloom_before_level, .. }), "bloom_before_level") => {
                *bloom_before_level = i32::parse_value(field, text, config)?;
                Ok(())
            }
            (slot, "id") => Self::parse(slot, name, text, config),
            _ => Err(Error::invalid_argument(format!("Unrecognized option: {name}.{field}"))),
        }
    }

    fn print(value: &Option<FilterPolicy>, dialect: Dialect) -> Option<String> {
        Some(match (value, dialect) {
            (None, _) => "nullptr".into(),
            (Some(policy @ FilterPolicy::Ribbon { bloom_before_level, .. }), Dialect::RocksDb11) => {
                format!("{{id={};bloom_before_level={bloom_before_level};}}", policy.id())
            }
            (Some(policy), _) => policy.id(),
        })
    }
}
