//! Parameters of universal and FIFO compaction.

use firn_format::options::{ConfigOptions, Dialect, Nested, OptionCodec, OptionValue, ValueKind};
use firn_format::{Result, option_set};

use super::enums::{CompactionStopStyle, Temperature};

option_set! {
    /// Parameters of universal compaction.
    #[derive(PartialEq)]
    pub struct CompactionOptionsUniversal("CompactionOptionsUniversal") {
        /// Percent by which the next sorted run may exceed those before it and still join them.
        size_ratio: u32 = 1 => mutable;
        /// Fewest sorted runs in one compaction.
        min_merge_width: u32 = 2 => mutable;
        /// Most sorted runs in one compaction.
        max_merge_width: u32 = u32::MAX => mutable;
        /// Percent of extra space over the oldest run that makes a full compaction necessary.
        max_size_amplification_percent: u32 = 200 => mutable;
        /// Outputs are compressed only while older data makes up less than this percentage; negative means always.
        compression_size_percent: i32 = -1 => mutable;
        /// Most sorted runs: -1 is `level0_file_num_compaction_trigger`, 0 is chosen automatically.
        max_read_amp: i32 = -1 => mutable new;
        /// When picking stops.
        stop_style: CompactionStopStyle = CompactionStopStyle::TotalSize => mutable;
        /// Move files that overlap nothing instead of rewriting them.
        allow_trivial_move: bool = false => mutable;
        /// Where the tree has grown too large, merge a part of its oldest runs, of about `max_compaction_bytes`, if that pays.
        incremental: bool = false => mutable;
        /// Lock fewer inputs while bottom-priority jobs wait.
        reduce_file_locking: bool = true => mutable new inert;
    }
}

option_set! {
    /// The temperature that files take from an age on.
    #[derive(Copy, PartialEq, Eq)]
    pub struct FileTemperatureAge("FileTemperatureAge") {
        /// The temperature.
        temperature: Temperature = Temperature::Unknown;
        /// The age in seconds.
        age: u64 = 0;
    }
}

impl OptionValue for FileTemperatureAge {
    const KIND: ValueKind = ValueKind::Struct;

    fn parse_value(name: &str, text: &str, config: &ConfigOptions) -> Result<Self> {
        let mut value = Self::default();
        Nested::parse(&mut value, name, text, config)?;
        Ok(value)
    }

    fn print_value(&self, dialect: Dialect) -> String {
        Nested::print(self, dialect).unwrap_or_default()
    }
}

option_set! {
    /// Parameters of FIFO compaction.
    #[derive(PartialEq)]
    pub struct CompactionOptionsFifo("CompactionOptionsFIFO") {
        /// Total size of the tables in bytes beyond which the oldest are dropped.
        max_table_files_size: u64 = 1_073_741_824 => mutable;
        /// Merge small level-0 files.
        allow_compaction: bool = false => mutable;
        /// Deprecated: age in seconds from which files are warm.
        age_for_warm: u64 = 0 => mutable inert;
        /// Temperatures by age, ages ascending.
        file_temperature_age_thresholds: Vec<FileTemperatureAge> = Vec::new() => mutable new;
        /// Change temperatures by copying files.
        allow_trivial_copy_when_change_temperature: bool = false => mutable new inert;
        /// Buffer of such copies in bytes, at least 4096.
        trivial_copy_buffer_size: u64 = 4096 => mutable new inert;
        /// Total size of tables and blob files in bytes; if not 0 it overrides `max_table_files_size`.
        max_data_files_size: u64 = 0 => mutable new;
        /// Merge within level 0 as the capacity suggests.
        use_kv_ratio_compaction: bool = false => mutable new inert;
    }
    retired { "ttl" }
    legacy parse_legacy_fifo;
}

/// `compaction_options_fifo=<bytes>` sets the total size alone.
fn parse_legacy_fifo(
    options: &mut CompactionOptionsFifo,
    name: &str,
    text: &str,
    config: &ConfigOptions,
) -> Result<()> {
    options.max_table_files_size = u64::parse_value(name, text, config)?;
    Ok(())
}
