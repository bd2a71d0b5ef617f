//! The text of block caches: `16M`, `capacity=16M;num_shard_bits=4`.

use std::sync::Arc;

use firn_format::options::{ConfigOptions, Dialect, OptionCodec, OptionSet, OptionValue, ValueKind};
use firn_format::options_text::strip_braces;
use firn_format::{Error, Result, option_set};

use crate::BlockCache;
use crate::cache::CacheOptions;

option_set! {
    /// The fields of a cache in text.
    struct CacheText("") {
        /// Total charge in bytes.
        capacity: usize = 0;
        /// Logarithm of the number of shards; negative is derived from the capacity.
        num_shard_bits: i32 = -1;
        /// Refuse entries beyond the capacity.
        strict_capacity_limit: bool = false;
        /// Part of the capacity up to which entries of high priority stay.
        high_pri_pool_ratio: f64 = 0.5;
        /// Part of the capacity for entries of low priority; accepted, since nothing of bottom priority competes with them.
        low_pri_pool_ratio: f64 = 0.0;
    }
}

/// Reads a block cache; caches are never written.
#[derive(Clone, Copy, Debug)]
pub struct BlockCacheCodec;

impl OptionCodec<Option<Arc<BlockCache>>> for BlockCacheCodec {
    const KIND: ValueKind = ValueKind::Object;

    fn parse(slot: &mut Option<Arc<BlockCache>>, name: &str, text: &str, config: &ConfigOptions) -> Result<()> {
        let text = strip_braces(text);
        if text.starts_with("null") {
            *slot = None;
            return Ok(());
        }
        if text.contains("://") {
            return Err(Error::not_supported(format!("Could not load Cache: {text}")));
        }
        let mut fields = CacheText::default();
        if text.contains('=') {
            for (field, value) in firn_format::options_text::parse_map(text)? {
                if !CacheText::knows(&field) {
                    return Err(Error::invalid_argument(format!("Unrecognized option: .{field}")));
                }
                fields.set_text(&field, &value, config)?;
            }
        } else {
            fields.capacity = usize::parse_value(name, text, config)?;
        }
        if fields.num_shard_bits >= 20 {
            return Err(Error::invalid_argument("num_shard_bits must be below 20"));
        }
        let options = CacheOptions {
            num_shard_bits: fields.num_shard_bits,
            strict_capacity_limit: fields.strict_capacity_limit,
            high_pri_pool_ratio: fields.high_pri_pool_ratio,
            ..CacheOptions::new(fields.capacity)
        };
        *slot = Some(Arc::new(BlockCache::new(&options)));
        Ok(())
    }

    fn print(_value: &Option<Arc<BlockCache>>, _dialect: Dialect) -> Option<String> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::BlockBasedTableOptions;

    #[test]
    fn reads_sizes_and_fields() {
        let config = ConfigOptions::default();
        let capacity = |text: &str| {
            let options = BlockBasedTableOptions::from_text(&format!("block_cache={text}"), &config)?;
            Ok::<_, Error>(options.block_cache.map(|cache| cache.capacity_bytes()))
        };
        assert_eq!(capacity("16M").unwrap(), Some(16 << 20));
        assert_eq!(capacity("{capacity=1M;num_shard_bits=4;strict_capacity_limit=true}").unwrap(), Some(1 << 20));
        assert_eq!(capacity("nullptr").unwrap(), None);
        assert_eq!(capacity("{capacity=1M;color=red}").unwrap_err().message(), "Unrecognized option: .color");
        assert_eq!(BlockBasedTableOptions::default().entries(Dialect::RocksDb11).len(), 41);
    }
}
