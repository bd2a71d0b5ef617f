//! The text of the filter policy: `bloomfilter:10:false`, `ribbonfilter:10:0`.

use firn_format::filter::{FilterPolicy, PolicyKind};
use firn_format::options::{ConfigOptions, Dialect, ObjectText, OptionCodec, OptionValue, ValueKind};
use firn_format::{Error, Result};

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
            Some(id) => FilterPolicy::from_string(id)?,
            None => slot.clone(),
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
        match (slot.as_ref().map(|policy| (policy.kind(), policy.millibits_per_key())), field) {
            (Some((PolicyKind::Ribbon { .. }, millibits)), "bloom_before_level") => {
                let bloom_before_level = i32::parse_value(field, text, config)?;
                *slot = Some(FilterPolicy::ribbon(f64::from(millibits) / 1000.0, bloom_before_level));
                Ok(())
            }
            (_, "id") => Self::parse(slot, name, text, config),
            _ => Err(Error::invalid_argument(format!("Unrecognized option: {name}.{field}"))),
        }
    }

    fn print(value: &Option<FilterPolicy>, dialect: Dialect) -> Option<String> {
        let Some(policy) = value else { return Some("nullptr".into()) };
        let id = policy.to_option_string();
        Some(match (policy.kind(), dialect) {
            (PolicyKind::Ribbon { bloom_before_level }, Dialect::RocksDb11) => {
                format!("{{id={id};bloom_before_level={bloom_before_level};}}")
            }
            _ => id,
        })
    }
}
