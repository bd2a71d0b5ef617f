//! The text of compression parameters: `{level=3;...}` and the older `window_bits:level:strategy:...`.

use firn_error::{Error, Result};

use super::{ConfigOptions, OptionValue};
use crate::compression::{CompressionOptions, CompressionType};
use crate::option_set;
use crate::options_text::split_list;

impl OptionValue for CompressionType {
    const KIND: super::ValueKind = super::ValueKind::Enum;

    fn parse_value(name: &str, text: &str, _config: &ConfigOptions) -> Result<Self> {
        Self::from_option_name(crate::options_text::strip_braces(text))
            .ok_or_else(|| Error::invalid_argument(format!("No mapping for enum : {name}")))
    }

    fn print_value(&self, _dialect: super::Dialect) -> String {
        self.option_name().to_owned()
    }

    fn choices() -> &'static [&'static str] {
        &[
            "kNoCompression",
            "kSnappyCompression",
            "kZlibCompression",
            "kBZip2Compression",
            "kLZ4Compression",
            "kLZ4HCCompression",
            "kXpressCompression",
            "kZSTD",
            "kZSTDNotFinalCompression",
            "kDisableCompressionOption",
        ]
    }
}

option_set! {
    impl CompressionOptions("CompressionOptions") {
        /// Zlib window as a negative power of two.
        window_bits: i32 = -14 => mutable;
        /// Level; 32767 means the algorithm's own default.
        level: i32 = 32767 => mutable;
        /// Zlib strategy.
        strategy: i32 = 0 => mutable;
        /// Size limit of the compression dictionary in bytes; 0 means none.
        max_dict_bytes: u32 = 0 => mutable;
        /// Training data for ZSTD dictionaries in bytes; more than 0 requires `max_dict_bytes`.
        zstd_max_train_bytes: u32 = 0 => mutable;
        /// Compression threads per job.
        parallel_threads: u32 = 1 => mutable;
        /// For bottommost options: use them at all.
        enabled: bool = false => mutable;
        /// Limit of the buffer that collects dictionary samples, in bytes; 0 means none.
        max_dict_buffer_bytes: u64 = 0 => mutable;
        /// Train ZSTD dictionaries rather than only finalize the samples.
        use_zstd_dict_trainer: bool = true => mutable;
        /// A block is stored compressed only when 1024 * compressed is at most raw * this.
        max_compressed_bytes_per_kb: i32 = 896 => mutable new;
        /// Add ZSTD's frame checksum.
        checksum: bool = false => mutable new;
    }
    legacy parse_legacy;
}

/// Reads `window_bits:level:strategy[:max_dict_bytes[:zstd_max_train_bytes[:parallel_threads][:enabled[...]]]]]`.
fn parse_legacy(options: &mut CompressionOptions, name: &str, text: &str, config: &ConfigOptions) -> Result<()> {
    let fields = split_list(text)?;
    if !(3..=9).contains(&fields.len()) {
        return Err(Error::invalid_argument(format!("unable to parse the specified CF option {name}")));
    }
    *options = CompressionOptions::default();
    // With exactly six fields the sixth is `enabled`: the thread count came later and stands before it.
    let sixth_is_enabled = fields.len() == 6;
    for (at, text) in fields.iter().enumerate() {
        match at {
            0 => options.window_bits = i32::parse_value(name, text, config)?,
            1 => options.level = i32::parse_value(name, text, config)?,
            2 => options.strategy = i32::parse_value(name, text, config)?,
            3 => options.max_dict_bytes = u32::parse_value(name, text, config)?,
            4 => options.zstd_max_train_bytes = u32::parse_value(name, text, config)?,
            5 if sixth_is_enabled => options.enabled = bool::parse_value(name, text, config)?,
            5 => options.parallel_threads = u32::parse_value(name, text, config)?,
            6 => options.enabled = bool::parse_value(name, text, config)?,
            7 => options.max_dict_buffer_bytes = u64::parse_value(name, text, config)?,
            _ => options.use_zstd_dict_trainer = bool::parse_value(name, text, config)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Dialect, Nested, OptionCodec, OptionSet};

    fn parse(text: &str) -> Result<CompressionOptions> {
        let mut options = CompressionOptions::default();
        Nested::parse(&mut options, "compression_opts", text, &ConfigOptions::default())?;
        Ok(options)
    }

    #[test]
    fn reads_the_older_form() {
        let options = parse("4:5:6:7:8:2:true:9:false").unwrap();
        assert_eq!((options.window_bits, options.level, options.strategy), (4, 5, 6));
        assert_eq!((options.max_dict_bytes, options.zstd_max_train_bytes, options.parallel_threads), (7, 8, 2));
        assert!(options.enabled && !options.use_zstd_dict_trainer);
        let six = parse("4:5:6:7:8:true").unwrap();
        assert!(six.enabled);
        assert_eq!(six.parallel_threads, 1);
        let error = parse("4:5").unwrap_err();
        assert_eq!(error.message(), "unable to parse the specified CF option compression_opts");
    }

    #[test]
    fn declared_defaults_are_the_structures_own() {
        let options = CompressionOptions::default();
        for field in CompressionOptions::FIELDS {
            assert_eq!((field.print)(&options, Dialect::RocksDb11).as_deref(), Some(field.descriptor.default));
        }
    }
}
