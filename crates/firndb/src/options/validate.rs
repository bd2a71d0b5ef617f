//! Which options contradict each other or cannot be met: checked at open and after changes, before anything is touched.
//!
//! Pure functions of options that answer with RocksDB's messages, and with `NotSupported` where RocksDB has a feature that
//! is not built here.

use firn_format::comparator::ComparatorKind;
use firn_format::compression::CompressionType;
use firn_format::{Error, Result};
use firn_table::options::{BlockBasedTableOptions, BlockSearchType, DataBlockIndexType, IndexType, TableFactory};

use super::sanitize::DERIVED_SECONDS;
use super::{ColumnFamilyOptions, CompactionStyle, DbOptions};

fn invalid<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::invalid_argument(message))
}

fn unsupported<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::not_supported(message))
}

/// Checks the options of a whole database.
pub fn validate_db_options(db: &DbOptions) -> Result<()> {
    if db.db_paths.len() > 4 {
        return unsupported("More than four DB paths are not supported yet. ");
    }
    if db.allow_mmap_reads && db.use_direct_reads {
        return unsupported(
            "If memory mapped reads (allow_mmap_reads) are enabled then direct I/O reads (use_direct_reads) must be disabled. ",
        );
    }
    if db.allow_mmap_reads && db.use_direct_io_for_compaction_reads {
        return unsupported(
            "If memory mapped reads (allow_mmap_reads) are enabled then compaction-only direct I/O reads \
             (use_direct_io_for_compaction_reads) must be disabled. ",
        );
    }
    if db.allow_mmap_writes && db.use_direct_io_for_flush_and_compaction {
        return unsupported(
            "If memory mapped writes (allow_mmap_writes) are enabled then direct I/O writes \
             (use_direct_io_for_flush_and_compaction) must be disabled. ",
        );
    }
    if db.keep_log_file_num == 0 {
        return invalid("keep_log_file_num must be greater than 0");
    }
    if db.unordered_write && !db.allow_concurrent_memtable_write {
        return invalid("unordered_write is incompatible with !allow_concurrent_memtable_write");
    }
    if db.unordered_write && db.enable_pipelined_write {
        return invalid("unordered_write is incompatible with enable_pipelined_write");
    }
    if db.atomic_flush && db.enable_pipelined_write {
        return invalid("atomic_flush is incompatible with enable_pipelined_write");
    }
    if db.use_direct_io_for_flush_and_compaction && db.writable_file_max_buffer_size == 0 {
        return invalid("writes in direct IO require writable_file_max_buffer_size > 0");
    }
    if !db.daily_offpeak_time_utc.is_empty() {
        parse_offpeak_time(&db.daily_offpeak_time_utc)?;
    }
    if !db.write_dbid_to_manifest && !db.write_identity_file {
        return invalid("write_dbid_to_manifest and write_identity_file cannot both be false");
    }
    if db.read_io_executor_threads <= 0 {
        return invalid("read_io_executor_threads must be greater than zero");
    }
    if db.open_files_async && !db.skip_stats_update_on_db_open {
        return invalid("open_files_async requires skip_stats_update_on_db_open = true.");
    }
    if !db.wal_filter.is_null() {
        return unsupported("wal_filter is not supported: recovery would apply what it is to hold back");
    }
    if !(0..20).contains(&db.table_cache_numshardbits) {
        return invalid("table_cache_numshardbits must be between 0 and 19");
    }
    Ok(())
}

/// Reads `HH:mm-HH:mm` into minutes since midnight (UTC).
pub fn parse_offpeak_time(text: &str) -> Result<(u32, u32)> {
    let minute_of_day = |text: &str| -> Option<u32> {
        let (hour, minute) = text.split_once(':')?;
        let number = |text: &str, limit: u32| -> Option<u32> {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.trim_start_matches('0')).map(|text| if text.is_empty() { "0" } else { text })?;
            text.parse().ok().filter(|value| *value < limit)
        };
        Some(number(hour, 24)? * 60 + number(minute, 60)?)
    };
    let times = text.split_once('-').and_then(|(start, end)| Some((minute_of_day(start)?, minute_of_day(end)?)));
    match times {
        None => invalid("daily_offpeak_time_utc should be set in the format HH:mm-HH:mm (e.g. 04:30-07:30)"),
        Some((start, end)) if start == end => invalid("start_time and end_time cannot be the same"),
        Some(times) => Ok(times),
    }
}

/// Checks the options of the column family `name` of a database with the options `db`.
pub fn validate_column_family_options(db: &DbOptions, name: &str, cf: &ColumnFamilyOptions) -> Result<()> {
    validate_compression(cf)?;
    validate_memtables(db, name, cf)?;
    validate_shape(db, cf)?;
    validate_features(db, cf)?;
    match &cf.table_factory {
        TableFactory::BlockBased(table) => validate_table_options(cf, table),
        other => unsupported(format!("Table format {} is not supported", other.name())),
    }
}

fn validate_compression(cf: &ColumnFamilyOptions) -> Result<()> {
    let check = |kind: CompressionType, option: &str| {
        if kind == CompressionType::DisableOption {
            return invalid(format!("kDisableCompressionOption not permitted for option: {option}"));
        }
        if !kind.is_supported() {
            return invalid(format!("Compression type {} is not linked with the binary.", kind.property_name()));
        }
        Ok(())
    };
    if cf.compression_per_level.is_empty() {
        check(cf.compression, "compression")?;
    }
    for kind in &cf.compression_per_level {
        check(*kind, "compression_per_level")?;
    }
    if cf.bottommost_compression != CompressionType::DisableOption {
        check(cf.bottommost_compression, "bottommost_compression")?;
    }
    if cf.compression_opts.zstd_max_train_bytes > 0 && cf.compression_opts.max_dict_bytes == 0 {
        return invalid(
            "The dictionary size limit (`CompressionOptions::max_dict_bytes`) should be nonzero if we're using zstd's \
             dictionary generator.",
        );
    }
    if !cf.blob_compression_type.is_supported() {
        let kind = cf.blob_compression_type.property_name();
        return invalid(format!("The specified blob compression type {kind} is not available."));
    }
    Ok(())
}

fn validate_memtables(db: &DbOptions, name: &str, cf: &ColumnFamilyOptions) -> Result<()> {
    if db.allow_concurrent_memtable_write && cf.inplace_update_support {
        return invalid(
            "In-place memtable updates (inplace_update_support) is not compatible with concurrent writes \
             (allow_concurrent_memtable_write)",
        );
    }
    if db.allow_concurrent_memtable_write && !cf.memtable_factory.is_insert_concurrently_supported() {
        return invalid("Memtable doesn't allow concurrent writes (allow_concurrent_memtable_write)");
    }
    if db.unordered_write && cf.max_successive_merges > 0 {
        return invalid("max_successive_merges larger than 0 is currently inconsistent with unordered_write");
    }
    if name == "default" && cf.disallow_memtable_writes {
        return invalid("Default column family cannot use disallow_memtable_writes=true");
    }
    let protects = |bytes: u32| matches!(bytes, 0 | 1 | 2 | 4 | 8);
    if !protects(cf.memtable_protection_bytes_per_key) {
        return unsupported("Memtable per key-value checksum protection only supports 0, 1, 2, 4 or 8 bytes per key.");
    }
    if !protects(u32::from(cf.block_protection_bytes_per_key)) {
        return unsupported("Block per key-value checksum protection only supports 0, 1, 2, 4 or 8 bytes per key.");
    }
    Ok(())
}

/// More levels than any tree can fill; every version has a list for each.
pub(super) const MAX_LEVELS: i32 = 1024;

fn validate_shape(db: &DbOptions, cf: &ColumnFamilyOptions) -> Result<()> {
    let style = cf.compaction_style;
    let paths = if cf.cf_paths.is_empty() { db.db_paths.len() } else { cf.cf_paths.len() };
    if paths > 1 && !matches!(style, CompactionStyle::Level | CompactionStyle::Universal) {
        return unsupported("More than one DB paths are only supported in universal and level compaction styles. ");
    }
    if paths > 4 {
        return unsupported("More than four DB paths are not supported yet. ");
    }
    if cf.num_levels > MAX_LEVELS {
        return invalid(format!("num_levels must not be greater than {MAX_LEVELS}"));
    }
    let explicit = |seconds: u64| seconds > 0 && seconds != DERIVED_SECONDS;
    if cf.table_factory.block_based().is_none() {
        if explicit(cf.ttl) {
            return unsupported("TTL is only supported in Block-Based Table format. ");
        }
        if explicit(cf.periodic_compaction_seconds) {
            return unsupported("Periodic Compaction is only supported in Block-Based Table format. ");
        }
    }
    if style == CompactionStyle::Fifo {
        if db.max_open_files != -1 && cf.ttl > 0 {
            return unsupported("FIFO compaction only supported with max_open_files = -1.");
        }
        if db.open_files_async {
            return unsupported("FIFO compaction is not supported with open_files_async = true.");
        }
    }
    let threshold = cf.read_triggered_compaction_threshold;
    if !(threshold >= 0.0 && threshold.is_finite()) {
        return invalid("read_triggered_compaction_threshold must be >= 0.0 and finite. Use 0.0 to disable.");
    }
    let ages = &cf.compaction_options_fifo.file_temperature_age_thresholds;
    if !ages.is_empty() {
        if style != CompactionStyle::Fifo {
            return unsupported("Option file_temperature_age_thresholds only supports FIFO compaction.");
        }
        if cf.num_levels > 1 {
            return unsupported("Option file_temperature_age_thresholds is only supported when num_levels = 1.");
        }
        if !ages.is_sorted_by(|a, b| a.age < b.age) {
            return unsupported(
                "Option file_temperature_age_thresholds requires elements to be sorted in increasing order with respect to \
                 `age` field.",
            );
        }
    }
    let max_read_amp = cf.compaction_options_universal.max_read_amp;
    if style == CompactionStyle::Universal {
        if max_read_amp < -1 {
            return unsupported("CompactionOptionsUniversal::max_read_amp should be at least -1.");
        }
        if max_read_amp > 0 && max_read_amp < cf.level0_file_num_compaction_trigger {
            return unsupported(
                "CompactionOptionsUniversal::max_read_amp limits the number of sorted runs but is smaller than the compaction \
                 trigger level0_file_num_compaction_trigger.",
            );
        }
    }
    Ok(())
}

fn validate_features(db: &DbOptions, cf: &ColumnFamilyOptions) -> Result<()> {
    if cf.enable_blob_garbage_collection {
        if !(0.0..=1.0).contains(&cf.blob_garbage_collection_age_cutoff) {
            return invalid("The age cutoff for blob garbage collection should be in the range [0.0, 1.0].");
        }
        if !(0.0..=1.0).contains(&cf.blob_garbage_collection_force_threshold) {
            let message =
                "The garbage ratio threshold for forcing blob garbage collection should be in the range [0.0, 1.0].";
            return invalid(message);
        }
    }
    let _ = db;
    Ok(())
}

/// Checks the options of block-based tables of a column family with the options `cf`.
pub fn validate_table_options(cf: &ColumnFamilyOptions, table: &BlockBasedTableOptions) -> Result<()> {
    if table.index_type == IndexType::HashSearch && cf.prefix_extractor.is_none() {
        return invalid("Hash index is specified for block-based table, but prefix_extractor is not given");
    }
    if table.index_block_search_type == BlockSearchType::Interpolation
        && cf.comparator.kind() != ComparatorKind::Bytewise
    {
        return invalid("Interpolation search requires BytewiseComparator");
    }
    if table.no_block_cache && table.cache_index_and_filter_blocks {
        return invalid("Enable cache_index_and_filter_blocks, , but block cache is disabled");
    }
    if table.no_block_cache && table.pin_l0_filter_and_index_blocks_in_cache {
        return invalid("Enable pin_l0_filter_and_index_blocks_in_cache, , but block cache is disabled");
    }
    if table.format_version > 7 {
        return invalid(
            "Unsupported BlockBasedTable format_version. Please check include/rocksdb/table.h for more info",
        );
    }
    if table.block_align {
        if cf.compression != CompressionType::None {
            return invalid("Enable block_align, but compression enabled");
        }
        if !matches!(cf.bottommost_compression, CompressionType::None | CompressionType::DisableOption) {
            return invalid("Enable block_align, but bottommost_compression enabled");
        }
        if !table.block_size.is_power_of_two() {
            return invalid("Block alignment requested but block size is not a power of 2");
        }
    }
    if table.block_size > u64::from(u32::MAX) {
        return invalid("block size exceeds maximum number (4GiB) allowed");
    }
    let alignment = table.super_block_alignment_size;
    if alignment & alignment.wrapping_sub(1) != 0 {
        return invalid("Super Block alignment requested but super block alignment size is not a power of 2");
    }
    if (1..=3).contains(&table.super_block_alignment_space_overhead_ratio) {
        return invalid("Super Block alignment space overhead is too high");
    }
    if table.data_block_index_type == DataBlockIndexType::BinaryAndHash && table.data_block_hash_table_util_ratio <= 0.0
    {
        return invalid(
            "data_block_hash_table_util_ratio should be greater than 0 when data_block_index_type is set to \
             kDataBlockBinaryAndHash",
        );
    }
    Ok(())
}
