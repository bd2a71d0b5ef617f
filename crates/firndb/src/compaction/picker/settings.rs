//! What pickers need to know of the options, with defaults that depend on other options resolved.

use firn_format::compression::CompressionType;

use crate::options::{
    ColumnFamilyOptions, CompactionOptionsFifo, CompactionOptionsUniversal, CompactionPri, CompactionStyle, DbOptions,
};

const THIRTY_DAYS_SECS: u64 = 30 * 24 * 60 * 60;

/// The value of `ttl` and `periodic_compaction_seconds` that stands for "what is usual for the style".
const USUAL: u64 = u64::MAX - 1;

/// Whether something changes or drops entries while they are compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterUse {
    /// A compaction filter or a factory of them is set.
    Filtered,
    /// None is.
    Unfiltered,
}

/// Options as pickers see them. Field names are RocksDB's; see there for what they do.
#[derive(Clone, Debug)]
pub struct PickerOptions {
    /// The compaction style.
    pub compaction_style: CompactionStyle,
    /// Number of levels; at least 1.
    pub num_levels: usize,
    /// Which file of a level goes first.
    pub compaction_pri: CompactionPri,
    /// Whether level targets follow the size of the last level.
    pub level_compaction_dynamic_level_bytes: bool,
    /// Files on level 0 that ask for a compaction.
    pub level0_file_num_compaction_trigger: usize,
    /// Files on level 0 at which writes stop.
    pub level0_stop_writes_trigger: usize,
    /// Target bytes of the base level.
    pub max_bytes_for_level_base: u64,
    /// Target of a level over that of the level above.
    pub max_bytes_for_level_multiplier: f64,
    /// Further factors per level.
    pub max_bytes_for_level_multiplier_additional: Vec<i32>,
    /// Target bytes of a file.
    pub target_file_size_base: u64,
    /// Target of a file over that of a file of the level above.
    pub target_file_size_multiplier: i32,
    /// Bytes that a compaction should not exceed; never 0 here.
    pub max_compaction_bytes: u64,
    /// Seconds after which files are compacted; 0 = never.
    pub ttl: u64,
    /// Seconds after which files are rewritten; 0 = never.
    pub periodic_compaction_seconds: u64,
    /// Compression of levels without another.
    pub compression: CompressionType,
    /// Compression of the last level; `DisableOption` = as others.
    pub bottommost_compression: CompressionType,
    /// Compression of each level, counted from the base level; may be empty.
    pub compression_per_level: Vec<CompressionType>,
    /// Target bytes of each path of the column family.
    pub path_target_sizes: Vec<u64>,
    /// Seconds for which data stays off the last level; 0 = off.
    pub preclude_last_level_data_seconds: u64,
    /// The last level is kept for files ingested behind.
    pub allow_ingest_behind: bool,
    /// Age in seconds below which files of the bottommost level are left alone.
    pub bottommost_file_compaction_delay: u64,
    /// Size of a memtable in bytes.
    pub write_buffer_size: u64,
    /// Into how many parallel parts a compaction may be split.
    pub max_subcompactions: u32,
    /// Compactions run only when a caller asks.
    pub disable_auto_compactions: bool,
    /// Whether a compaction filter may change entries, which rules trivial moves by callers out.
    pub filtered: bool,
    /// Parameters of universal compaction.
    pub compaction_options_universal: CompactionOptionsUniversal,
    /// Parameters of FIFO compaction.
    pub compaction_options_fifo: CompactionOptionsFifo,
}

impl Default for PickerOptions {
    fn default() -> Self {
        Self::new(&ColumnFamilyOptions::default(), &DbOptions::default(), FilterUse::Unfiltered)
    }
}

fn count(value: i32) -> usize {
    usize::try_from(value).unwrap_or(0)
}

impl PickerOptions {
    /// Takes what pickers need from the options and settles what they leave open.
    pub fn new(family: &ColumnFamilyOptions, db: &DbOptions, filter: FilterUse) -> Self {
        let paths = if family.cf_paths.is_empty() { &db.db_paths } else { &family.cf_paths };
        let leveled = family.compaction_style == CompactionStyle::Level;
        let filtered = filter == FilterUse::Filtered;
        let ttl = match family.ttl {
            USUAL => THIRTY_DAYS_SECS,
            ttl => ttl,
        };
        let periodic_compaction_seconds = match (family.periodic_compaction_seconds, family.compaction_style) {
            (USUAL, CompactionStyle::Level) if filtered => THIRTY_DAYS_SECS,
            (USUAL, CompactionStyle::Universal) => THIRTY_DAYS_SECS,
            (USUAL, _) => 0,
            (seconds, _) => seconds,
        };
        // Universal compaction has one clock for both.
        let periodic_compaction_seconds = match (family.compaction_style, ttl, periodic_compaction_seconds) {
            (CompactionStyle::Universal, 0, seconds) | (CompactionStyle::Universal, seconds, 0) => seconds,
            (CompactionStyle::Universal, ttl, seconds) => ttl.min(seconds),
            (_, _, seconds) => seconds,
        };
        let max_compaction_bytes = match family.max_compaction_bytes {
            0 => family.target_file_size_base.saturating_mul(25),
            bytes => bytes,
        };
        Self {
            compaction_style: family.compaction_style,
            num_levels: count(family.num_levels).max(1),
            compaction_pri: family.compaction_pri,
            level_compaction_dynamic_level_bytes: family.level_compaction_dynamic_level_bytes
                && leveled
                && paths.len() <= 1,
            level0_file_num_compaction_trigger: count(family.level0_file_num_compaction_trigger).max(1),
            level0_stop_writes_trigger: count(family.level0_stop_writes_trigger),
            max_bytes_for_level_base: family.max_bytes_for_level_base,
            max_bytes_for_level_multiplier: family.max_bytes_for_level_multiplier,
            max_bytes_for_level_multiplier_additional: family.max_bytes_for_level_multiplier_additional.clone(),
            target_file_size_base: family.target_file_size_base,
            target_file_size_multiplier: family.target_file_size_multiplier,
            max_compaction_bytes,
            ttl,
            periodic_compaction_seconds,
            compression: family.compression,
            bottommost_compression: family.bottommost_compression,
            compression_per_level: family.compression_per_level.clone(),
            path_target_sizes: paths.iter().map(|path| path.target_size).collect(),
            preclude_last_level_data_seconds: family.preclude_last_level_data_seconds,
            allow_ingest_behind: db.allow_ingest_behind || family.cf_allow_ingest_behind,
            bottommost_file_compaction_delay: u64::from(family.bottommost_file_compaction_delay),
            write_buffer_size: family.write_buffer_size as u64,
            max_subcompactions: db.max_subcompactions.max(1),
            disable_auto_compactions: family.disable_auto_compactions,
            filtered,
            compaction_options_universal: family.compaction_options_universal.clone(),
            compaction_options_fifo: family.compaction_options_fifo.clone(),
        }
    }

    /// Whether the column family lives in one directory.
    pub(crate) fn has_one_path(&self) -> bool {
        self.path_target_sizes.len() <= 1
    }

    /// The size in bytes at which files of `level` are meant to end.
    pub fn max_file_size_for_level(&self, level: usize, base_level: usize) -> u64 {
        if level == 0 && self.compaction_style == CompactionStyle::Universal {
            return u64::MAX;
        }
        let steps = if self.level_compaction_dynamic_level_bytes && level >= base_level && level > 0 {
            level - base_level
        } else {
            level
        };
        // The two uppermost sizes are equal.
        (1..steps).fold(self.target_file_size_base, |size, _| {
            multiply_checked(size, f64::from(self.target_file_size_multiplier))
        })
    }

    /// Compression of files that a compaction writes to `level`, with `base_level` the one that level 0 compacts to.
    pub fn compression_for_level(
        &self,
        level: usize,
        base_level: usize,
        num_non_empty_levels: usize,
    ) -> CompressionType {
        let is_last = level + 1 >= num_non_empty_levels;
        if self.bottommost_compression != CompressionType::DisableOption && is_last {
            return self.bottommost_compression;
        }
        let Some(last) = self.compression_per_level.len().checked_sub(1) else { return self.compression };
        let index = if level == 0 { 0 } else { (level + 1).saturating_sub(base_level) };
        self.compression_per_level.get(index.min(last)).copied().unwrap_or(self.compression)
    }
}

/// `value * factor`, or `value` if that exceeds 64 bits; 0 for a factor that is not positive.
pub(crate) fn multiply_checked(value: u64, factor: f64) -> u64 {
    if factor <= 0.0 {
        return 0;
    }
    if u64::MAX as f64 / factor < value as f64 { value } else { (value as f64 * factor) as u64 }
}
