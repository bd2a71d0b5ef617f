//! What an open makes of the options it is given: values out of range are moved into it, derived defaults are filled in.
//!
//! Pure functions of options. Nothing fails here; what cannot be repaired is refused by [`super::validate`].

use std::path::Path;

use firn_format::compression::CompressionType;
use firn_table::options::{BlockBasedTableOptions, IndexType, TableFactory};

use super::objects::{DbPath, MemTableFactory};
use super::{ColumnFamilyOptions, CompactionStyle, DbOptions, Temperature, WalRecoveryMode};

/// The value of `ttl` and `periodic_compaction_seconds` that asks for a derived default.
pub const DERIVED_SECONDS: u64 = u64::MAX - 1;

/// The derived default of `ttl`: 30 days.
const THIRTY_DAYS_SECONDS: u64 = 30 * 24 * 60 * 60;

/// The most files that are opened when the system's limit is not known.
const UNKNOWN_OPEN_FILE_LIMIT: i32 = 4_194_304;

/// How many flushes and compactions may run at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackgroundJobLimits {
    /// Flushes.
    pub max_flushes: i32,
    /// Compactions.
    pub max_compactions: i32,
}

impl BackgroundJobLimits {
    /// The limits of `options`; without compaction pressure a single compaction runs at a time.
    pub fn of(options: &DbOptions, compaction_pressure: bool) -> Self {
        let mut limits = if options.max_background_flushes == -1 && options.max_background_compactions == -1 {
            let max_flushes = (options.max_background_jobs / 4).max(1);
            Self { max_flushes, max_compactions: options.max_background_jobs.saturating_sub(max_flushes).max(1) }
        } else {
            Self {
                max_flushes: options.max_background_flushes.max(1),
                max_compactions: options.max_background_compactions.max(1),
            }
        };
        if !compaction_pressure {
            limits.max_compactions = 1;
        }
        limits
    }
}

fn without_trailing_slash(path: &str) -> &str {
    path.strip_suffix('/').unwrap_or(path)
}

/// The options with which a database in `directory` runs.
///
/// `open_file_limit` is the process's soft limit of open files, `None` where it is not known; `rate_limit` the bytes per second
/// of a rate limiter that the options do not name.
pub fn sanitize_db_options(
    options: &DbOptions,
    directory: &Path,
    open_file_limit: Option<u64>,
    rate_limit: Option<u64>,
) -> DbOptions {
    let mut options = options.clone();
    let rate_limit = rate_limit.or(options.rate_limiter.as_ref().map(|limiter| limiter.bytes_per_second()));
    if options.max_open_files != -1 {
        let limit = open_file_limit.and_then(|limit| i32::try_from(limit).ok()).unwrap_or(UNKNOWN_OPEN_FILE_LIMIT);
        options.max_open_files = options.max_open_files.clamp(20, limit.max(20));
    }
    if rate_limit.is_some() && options.bytes_per_sync == 0 {
        options.bytes_per_sync = 1 << 20;
    }
    if options.delayed_write_rate == 0 {
        options.delayed_write_rate = rate_limit.filter(|rate| *rate > 0).unwrap_or(16 << 20);
    }
    if options.wal_ttl_seconds > 0 || options.wal_size_limit_mb > 0 {
        options.recycle_log_file_num = 0;
    }
    if matches!(
        options.wal_recovery_mode,
        WalRecoveryMode::TolerateCorruptedTailRecords | WalRecoveryMode::AbsoluteConsistency
    ) {
        // Leftovers of the recycled file behind the new end would look like corruption to these modes.
        options.recycle_log_file_num = 0;
    }
    if options.recycle_log_file_num > 0 {
        options.async_wal_precreate = false;
    }
    let directory_text = directory.to_string_lossy();
    if options.db_paths.is_empty() {
        options.db_paths.push(DbPath { path: directory.to_path_buf(), target_size: u64::MAX });
    } else if options.wal_dir.is_empty() {
        options.wal_dir = directory_text.clone().into_owned();
    }
    options.wal_dir = without_trailing_slash(&options.wal_dir).to_owned();
    let first_path = options.db_paths.first().map(|path| path.path.to_string_lossy().into_owned()).unwrap_or_default();
    if options.wal_dir == without_trailing_slash(&directory_text)
        && options.wal_dir == without_trailing_slash(&first_path)
    {
        options.wal_dir.clear();
    }
    if options.allow_2pc {
        options.avoid_flush_during_recovery = false;
    }
    if options.wal_compression != CompressionType::Zstd || !CompressionType::Zstd.is_supported() {
        options.wal_compression = CompressionType::None;
    }
    options
}

fn arena_block_size(write_buffer_size: usize) -> usize {
    (write_buffer_size / 8).min(1 << 20).next_multiple_of(4096)
}

/// The options with which a column family of a database with the sanitized options `db` runs.
pub fn sanitize_column_family_options(
    db: &DbOptions,
    options: &ColumnFamilyOptions,
    read_only: bool,
) -> ColumnFamilyOptions {
    let mut cf = options.clone();
    sanitize_memtables(db, &mut cf);
    sanitize_shape(db, &mut cf);
    sanitize_ages(&mut cf);
    if read_only {
        cf.preserve_internal_time_seconds = 0;
        cf.preclude_last_level_data_seconds = 0;
        cf.memtable_op_scan_flush_trigger = 0;
        cf.memtable_avg_op_scan_flush_trigger = 0;
    }
    if !cf.enable_blob_files {
        cf.enable_blob_direct_write = false;
    }
    cf.blob_direct_write_partitions = cf.blob_direct_write_partitions.max(1);
    if let TableFactory::BlockBased(table) = &mut cf.table_factory {
        sanitize_table_options(table);
    }
    cf
}

fn sanitize_memtables(db: &DbOptions, cf: &mut ColumnFamilyOptions) {
    cf.write_buffer_size = cf.write_buffer_size.clamp(64 << 10, 64 << 30);
    if cf.arena_block_size == 0 {
        cf.arena_block_size = arena_block_size(cf.write_buffer_size);
    }
    let most_to_merge = cf.max_write_buffer_number.saturating_sub(1);
    cf.min_write_buffer_number_to_merge = cf.min_write_buffer_number_to_merge.min(most_to_merge).max(1);
    if db.atomic_flush {
        cf.min_write_buffer_number_to_merge = 1;
    }
    if cf.disallow_memtable_writes {
        cf.memtable_factory = MemTableFactory::Vector { count: 0 };
    }
    cf.max_write_buffer_number = cf.max_write_buffer_number.max(2);
    if cf.max_write_buffer_size_to_maintain < 0 {
        let bytes = (cf.write_buffer_size as i64).saturating_mul(i64::from(cf.max_write_buffer_number));
        cf.max_write_buffer_size_to_maintain = bytes;
    }
    cf.memtable_prefix_bloom_size_ratio = cf.memtable_prefix_bloom_size_ratio.clamp(0.0, 0.25);
    let hashes_prefixes =
        matches!(cf.memtable_factory, MemTableFactory::HashSkipList(_) | MemTableFactory::HashLinkList(_));
    if cf.prefix_extractor.is_none() && hashes_prefixes {
        cf.memtable_factory = MemTableFactory::default();
    }
}

fn sanitize_shape(db: &DbOptions, cf: &mut ColumnFamilyOptions) {
    let ingests_behind = db.allow_ingest_behind || cf.cf_allow_ingest_behind;
    let least_levels = match cf.compaction_style {
        CompactionStyle::Level => 2,
        CompactionStyle::Universal if ingests_behind => 3,
        _ => 1,
    };
    cf.num_levels = cf.num_levels.max(least_levels);
    if cf.compaction_style == CompactionStyle::Fifo {
        cf.level0_slowdown_writes_trigger = i32::MAX;
        cf.level0_stop_writes_trigger = i32::MAX;
        cf.last_level_temperature = Temperature::Unknown;
    }
    if cf.max_bytes_for_level_multiplier <= 0.0 {
        cf.max_bytes_for_level_multiplier = 1.0;
    }
    if cf.level0_file_num_compaction_trigger == 0 {
        cf.level0_file_num_compaction_trigger = 1;
    }
    cf.level0_slowdown_writes_trigger = cf.level0_slowdown_writes_trigger.max(cf.level0_file_num_compaction_trigger);
    cf.level0_stop_writes_trigger = cf.level0_stop_writes_trigger.max(cf.level0_slowdown_writes_trigger);
    let hard = cf.hard_pending_compaction_bytes_limit;
    if cf.soft_pending_compaction_bytes_limit == 0 || (hard > 0 && cf.soft_pending_compaction_bytes_limit > hard) {
        cf.soft_pending_compaction_bytes_limit = hard;
    }
    if cf.cf_paths.is_empty() {
        cf.cf_paths.clone_from(&db.db_paths);
    }
    if cf.compaction_style != CompactionStyle::Level || cf.cf_paths.len() > 1 {
        cf.level_compaction_dynamic_level_bytes = false;
    }
    let by_ratio = cf.compaction_style == CompactionStyle::Fifo && cf.compaction_options_fifo.use_kv_ratio_compaction;
    if cf.max_compaction_bytes == 0 && !by_ratio {
        cf.max_compaction_bytes = cf.target_file_size_base.saturating_mul(25);
    }
    // More are refused later.
    let levels = usize::try_from(cf.num_levels.min(super::validate::MAX_LEVELS)).unwrap_or(1);
    if cf.max_bytes_for_level_multiplier_additional.len() < levels {
        cf.max_bytes_for_level_multiplier_additional.resize(levels, 1);
    }
}

fn sanitize_ages(cf: &mut ColumnFamilyOptions) {
    let block_based = cf.table_factory.block_based().is_some();
    if cf.ttl == DERIVED_SECONDS {
        cf.ttl = if block_based { THIRTY_DAYS_SECONDS } else { 0 };
    }
    if cf.periodic_compaction_seconds == DERIVED_SECONDS {
        let wanted = match cf.compaction_style {
            CompactionStyle::Level => cf.has_compaction_filter(),
            CompactionStyle::Universal => true,
            _ => false,
        };
        cf.periodic_compaction_seconds = if wanted && block_based { THIRTY_DAYS_SECONDS } else { 0 };
    }
    if cf.compaction_style == CompactionStyle::Universal {
        if cf.periodic_compaction_seconds == 0 {
            cf.periodic_compaction_seconds = cf.ttl;
        } else if cf.ttl != 0 {
            cf.periodic_compaction_seconds = cf.periodic_compaction_seconds.min(cf.ttl);
        }
    }
}

/// Moves the options of block-based tables into their ranges.
pub fn sanitize_table_options(table: &mut BlockBasedTableOptions) {
    if !(0..=100).contains(&table.block_size_deviation) {
        table.block_size_deviation = 0;
    }
    table.block_restart_interval = table.block_restart_interval.max(1);
    table.index_block_restart_interval = table.index_block_restart_interval.max(1);
    if table.index_type == IndexType::HashSearch {
        table.index_block_restart_interval = 1;
    }
    if table.index_type != IndexType::TwoLevelIndexSearch {
        table.partition_filters = false;
    }
    table.format_version = table.format_version.max(2);
}
