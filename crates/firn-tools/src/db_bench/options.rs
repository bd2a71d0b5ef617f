//! From flags to options: what the database, its families and its tables are opened with.
//!
//! Most flags carry the name of the option they set, so the tables below name them once and the option's own parser
//! does the rest. Flags with numbers for enumerations, and flags that combine, are handled one by one.

use std::sync::Arc;

use firn_error::{Error, Result};
use firn_format::checksum::ChecksumType;
use firn_format::compression::CompressionType;
use firn_table::options::{
    BlockBasedTableOptions, DataBlockIndexType, FilterPolicy, IndexShorteningMode, IndexType, PrepopulateBlockCache,
    TableFactory,
};
use firndb::file_checksum::FileChecksumGenCrc32cFactory;
use firndb::options::{
    ColumnFamilyOptions, CompactionPri, CompactionStopStyle, CompactionStyle, ConfigOptions, DbOptions,
    MemTableFactory, OptionSet, Options,
};

use super::bench_flags::BenchFlags;
use crate::flags::FlagSet;

/// Flags that set the database option of the same name.
const DB_FLAGS: &[&str] = &[
    "advise_random_on_open",
    "allow_concurrent_memtable_write",
    "allow_data_in_errors",
    "async_wal_precreate",
    "avoid_flush_during_recovery",
    "avoid_flush_during_shutdown",
    "bytes_per_sync",
    "compaction_readahead_size",
    "db_write_buffer_size",
    "delayed_write_rate",
    "delete_obsolete_files_period_micros",
    "dump_malloc_stats",
    "enable_pipelined_write",
    "enable_write_thread_adaptive_yield",
    "log_readahead_size",
    "manual_wal_flush",
    "max_background_compactions",
    "max_background_flushes",
    "max_background_jobs",
    "max_compaction_trigger_wakeup_seconds",
    "max_manifest_file_size",
    "max_manifest_space_amp_pct",
    "max_total_wal_size",
    "open_files_async",
    "paranoid_checks",
    "persist_stats_to_disk",
    "skip_stats_update_on_db_open",
    "stats_dump_period_sec",
    "stats_history_buffer_size",
    "stats_persist_period_sec",
    "table_cache_numshardbits",
    "track_and_verify_wals",
    "track_and_verify_wals_in_manifest",
    "unordered_write",
    "use_adaptive_mutex",
    "use_direct_io_for_compaction_reads",
    "use_direct_io_for_flush_and_compaction",
    "use_direct_reads",
    "use_fsync",
    "verify_manifest_content_on_close",
    "wal_bytes_per_sync",
    "wal_dir",
    "write_thread_max_yield_usec",
    "write_thread_slow_yield_usec",
];

/// Flags that set a database option of another name: (flag, option).
const DB_FLAGS_RENAMED: &[(&str, &str)] = &[
    ("file_opening_threads", "max_file_opening_threads"),
    ("mmap_read", "allow_mmap_reads"),
    ("mmap_write", "allow_mmap_writes"),
    ("open_files", "max_open_files"),
    ("subcompactions", "max_subcompactions"),
    ("wal_size_limit_MB", "WAL_size_limit_MB"),
    ("wal_ttl_seconds", "WAL_ttl_seconds"),
    ("writable_file_max_buffer_size", "writable_file_max_buffer_size"),
];

/// Flags that set the column family option of the same name.
const CF_FLAGS: &[&str] = &[
    "arena_block_size",
    "block_protection_bytes_per_key",
    "bloom_locality",
    "disable_auto_compactions",
    "experimental_mempurge_threshold",
    "force_consistency_checks",
    "hard_pending_compaction_bytes_limit",
    "inplace_update_num_locks",
    "inplace_update_support",
    "level0_file_num_compaction_trigger",
    "level0_slowdown_writes_trigger",
    "level0_stop_writes_trigger",
    "level_compaction_dynamic_level_bytes",
    "max_bytes_for_level_base",
    "max_bytes_for_level_multiplier",
    "max_compaction_bytes",
    "max_successive_merges",
    "max_write_buffer_number",
    "max_write_buffer_size_to_maintain",
    "memtable_batch_lookup_optimization",
    "memtable_op_scan_flush_trigger",
    "memtable_protection_bytes_per_key",
    "memtable_verify_per_key_checksum_on_seek",
    "memtable_whole_key_filtering",
    "min_tombstones_for_range_conversion",
    "min_write_buffer_number_to_merge",
    "num_levels",
    "optimize_filters_for_hits",
    "paranoid_memory_checks",
    "periodic_compaction_seconds",
    "preclude_last_level_data_seconds",
    "preserve_internal_time_seconds",
    "read_triggered_compaction_threshold",
    "report_bg_io_stats",
    "sample_for_compression",
    "soft_pending_compaction_bytes_limit",
    "strict_max_successive_merges",
    "target_file_size_base",
    "target_file_size_multiplier",
    "uncache_aggressiveness",
    "write_buffer_size",
];

/// Flags that set a column family option of another name: (flag, option).
const CF_FLAGS_RENAMED: &[(&str, &str)] =
    &[("memtable_bloom_size_ratio", "memtable_prefix_bloom_size_ratio"), ("ttl_seconds", "ttl")];

/// Flags that set the table option of the same name.
const TABLE_FLAGS: &[&str] = &[
    "block_align",
    "block_restart_interval",
    "block_size",
    "cache_index_and_filter_blocks",
    "data_block_hash_table_util_ratio",
    "decouple_partitioned_filters",
    "enable_index_compression",
    "format_version",
    "index_block_restart_interval",
    "initial_auto_readahead_size",
    "max_auto_readahead_size",
    "metadata_block_size",
    "num_file_reads_for_auto_readahead",
    "optimize_filters_for_memory",
    "pin_l0_filter_and_index_blocks_in_cache",
    "read_amp_bytes_per_bit",
    "separate_key_value_in_data_block",
    "super_block_alignment_size",
    "super_block_alignment_space_overhead_ratio",
    "uniform_cv_threshold",
    "verify_compression",
    "whole_key_filtering",
];

/// The compression type of a flag value; `None` for a name that is not known.
pub fn compression_type(name: &str) -> Option<CompressionType> {
    Some(match name.to_ascii_lowercase().as_str() {
        "none" => CompressionType::None,
        "snappy" => CompressionType::Snappy,
        "zlib" => CompressionType::Zlib,
        "bzip2" => CompressionType::Bzip2,
        "lz4" => CompressionType::Lz4,
        "lz4hc" => CompressionType::Lz4hc,
        "xpress" => CompressionType::Xpress,
        "zstd" => CompressionType::Zstd,
        _ => return None,
    })
}

fn known_compression(name: &str) -> Result<CompressionType> {
    compression_type(name).ok_or_else(|| Error::invalid_argument(format!("Cannot parse compression type '{name}'")))
}

/// The enumerator of a number given by `flag`.
fn by_number<T>(flag: &str, number: i64, from: fn(u8) -> Option<T>) -> Result<T> {
    let value = u8::try_from(number).ok().and_then(from);
    value.ok_or_else(|| Error::invalid_argument(format!("--{flag}={number} is out of range")))
}

/// Copies flags into the options they name.
fn copy<S: OptionSet>(
    flags: &BenchFlags,
    names: impl Iterator<Item = (&'static str, &'static str)>,
    set: &mut S,
) -> Result<()> {
    let config = ConfigOptions { input_strings_escaped: false, ..Default::default() };
    for (flag, option) in names {
        let Some(spec) = BenchFlags::specs().iter().find(|spec| spec.name == flag) else {
            return Err(Error::invalid_argument(format!("no flag sets the option {option}")));
        };
        set.set_text(option, &(spec.get)(flags), &config)?;
    }
    Ok(())
}

fn same(names: &'static [&'static str]) -> impl Iterator<Item = (&'static str, &'static str)> {
    names.iter().map(|name| (*name, *name))
}

/// The options that the flags describe.
///
/// # Errors
/// `InvalidArgument` naming the flag whose value no option takes.
pub fn from_flags(flags: &BenchFlags) -> Result<Options> {
    Ok(Options { db: db_options(flags)?, cf: column_family_options(flags)? })
}

fn db_options(flags: &BenchFlags) -> Result<DbOptions> {
    let mut db = DbOptions { create_if_missing: true, create_missing_column_families: true, ..Default::default() };
    if flags.file_checksum {
        db.file_checksum_gen_factory = Some(Arc::new(FileChecksumGenCrc32cFactory));
    }
    copy(flags, same(DB_FLAGS).chain(DB_FLAGS_RENAMED.iter().copied()), &mut db)?;
    db.wal_compression = known_compression(&flags.wal_compression)?;
    Ok(db)
}

fn column_family_options(flags: &BenchFlags) -> Result<ColumnFamilyOptions> {
    let mut cf = ColumnFamilyOptions::default();
    copy(flags, same(CF_FLAGS).chain(CF_FLAGS_RENAMED.iter().copied()), &mut cf)?;
    cf.compaction_style = by_number("compaction_style", flags.compaction_style.into(), CompactionStyle::from_number)?;
    cf.compaction_pri = by_number("compaction_pri", flags.compaction_pri.into(), CompactionPri::from_number)?;
    if flags.memtable_use_huge_page {
        cf.memtable_huge_page_size = 2 << 20;
    }
    let factors = flags.max_bytes_for_level_multiplier_additional.split(',').filter(|text| !text.is_empty());
    let factors: Vec<i32> = factors
        .map(|text| {
            text.trim().parse().map_err(|_| {
                Error::invalid_argument(format!("--max_bytes_for_level_multiplier_additional: '{text}' is no number"))
            })
        })
        .collect::<Result<_>>()?;
    if !factors.is_empty() {
        cf.max_bytes_for_level_multiplier_additional = factors;
    }
    set_universal_and_fifo(flags, &mut cf)?;
    set_compression(flags, &mut cf)?;
    cf.memtable_factory = memtable_factory(flags)?;
    cf.table_factory = TableFactory::BlockBased(table_options(flags)?);
    Ok(cf)
}

fn set_universal_and_fifo(flags: &BenchFlags, cf: &mut ColumnFamilyOptions) -> Result<()> {
    let positive = |value: i32| u32::try_from(value).ok().filter(|value| *value != 0);
    let universal = &mut cf.compaction_options_universal;
    universal.size_ratio = positive(flags.universal_size_ratio).unwrap_or(universal.size_ratio);
    universal.min_merge_width = positive(flags.universal_min_merge_width).unwrap_or(universal.min_merge_width);
    universal.max_merge_width = positive(flags.universal_max_merge_width).unwrap_or(universal.max_merge_width);
    universal.max_size_amplification_percent =
        positive(flags.universal_max_size_amplification_percent).unwrap_or(universal.max_size_amplification_percent);
    universal.compression_size_percent = flags.universal_compression_size_percent;
    universal.max_read_amp = flags.universal_max_read_amp;
    universal.allow_trivial_move = flags.universal_allow_trivial_move;
    universal.incremental = flags.universal_incremental;
    universal.reduce_file_locking = flags.universal_reduce_file_locking;
    universal.stop_style =
        by_number("universal_stop_style", flags.universal_stop_style.into(), CompactionStopStyle::from_number)?;
    let fifo = &mut cf.compaction_options_fifo;
    fifo.max_table_files_size = flags.fifo_compaction_max_table_files_size_mb.saturating_mul(1 << 20);
    fifo.allow_compaction = flags.fifo_compaction_allow_compaction;
    fifo.age_for_warm = flags.fifo_age_for_warm;
    fifo.max_data_files_size = flags.fifo_compaction_max_data_files_size_mb.saturating_mul(1 << 20);
    fifo.use_kv_ratio_compaction = flags.fifo_compaction_use_kv_ratio_compaction;
    Ok(())
}

fn set_compression(flags: &BenchFlags, cf: &mut ColumnFamilyOptions) -> Result<()> {
    let kind = known_compression(&flags.compression_type)?;
    cf.compression = kind;
    let size = |value: i32| u32::try_from(value).unwrap_or(0);
    let options = &mut cf.compression_opts;
    options.level = flags.compression_level;
    options.max_dict_bytes = size(flags.compression_max_dict_bytes);
    options.zstd_max_train_bytes = size(flags.compression_zstd_max_train_bytes);
    options.parallel_threads = size(flags.compression_parallel_threads);
    options.max_dict_buffer_bytes = flags.compression_max_dict_buffer_bytes;
    options.use_zstd_dict_trainer = flags.compression_use_zstd_dict_trainer;
    if let Ok(first) = usize::try_from(flags.min_level_to_compress) {
        let levels = usize::try_from(cf.num_levels).unwrap_or(0);
        cf.compression_per_level =
            (0..levels).map(|level| if level < first { CompressionType::None } else { kind }).collect();
    }
    Ok(())
}

fn memtable_factory(flags: &BenchFlags) -> Result<MemTableFactory> {
    let mut cf = ColumnFamilyOptions::default();
    let config = ConfigOptions { ignore_unsupported_options: false, ..Default::default() };
    cf.set_text("memtable_factory", &flags.memtablerep, &config)?;
    let buckets = usize::try_from(flags.hash_bucket_count).unwrap_or(0);
    let mut factory = cf.memtable_factory;
    match &mut factory {
        MemTableFactory::SkipList { lookahead } if flags.memtablerep == "skip_list" => {
            *lookahead = usize::try_from(flags.skip_list_lookahead).unwrap_or(0);
        }
        MemTableFactory::HashSkipList(options) => options.bucket_count = buckets,
        MemTableFactory::HashLinkList(options) => options.bucket_count = buckets,
        _ => {}
    }
    let hashed = matches!(factory, MemTableFactory::HashSkipList(_) | MemTableFactory::HashLinkList(_));
    if hashed && flags.prefix_size == 0 {
        return Err(Error::invalid_argument(format!("--memtablerep={} needs --prefix_size > 0", flags.memtablerep)));
    }
    Ok(factory)
}

fn table_options(flags: &BenchFlags) -> Result<BlockBasedTableOptions> {
    let mut table = BlockBasedTableOptions::default();
    copy(flags, same(TABLE_FLAGS), &mut table)?;
    table.pin_top_level_index_and_filter = flags.pin_top_level_index_and_filter;
    table.no_block_cache = flags.cache_size <= 0;
    table.checksum = u8::try_from(flags.checksum_type).map_or_else(
        |_| Err(Error::invalid_argument(format!("--checksum_type={} is out of range", flags.checksum_type))),
        ChecksumType::from_u8,
    )?;
    table.prepopulate_block_cache =
        by_number("prepopulate_block_cache", flags.prepopulate_block_cache, PrepopulateBlockCache::from_number)?;
    table.index_shortening =
        by_number("index_shortening_mode", flags.index_shortening_mode, IndexShorteningMode::from_number)?;
    if flags.use_data_block_hash_index {
        table.data_block_index_type = DataBlockIndexType::BinaryAndHash;
    }
    table.index_type = if flags.use_hash_search {
        if flags.prefix_size == 0 {
            return Err(Error::invalid_argument("prefix_size not assigned when enable use_hash_search"));
        }
        IndexType::HashSearch
    } else if flags.partition_index_and_filters || flags.partition_index {
        IndexType::TwoLevelIndexSearch
    } else if flags.index_with_first_key {
        IndexType::BinarySearchWithFirstKey
    } else {
        IndexType::BinarySearch
    };
    table.partition_filters = flags.partition_index_and_filters;
    if flags.bloom_bits > 0 {
        let bits = f64::from(flags.bloom_bits);
        table.filter_policy =
            Some(if flags.use_ribbon_filter { FilterPolicy::ribbon(bits, 0) } else { FilterPolicy::bloom(bits) });
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_named_option_exists() {
        let options = from_flags(&BenchFlags::default()).expect("the defaults are valid");
        assert!(options.db.create_if_missing && options.db.enable_pipelined_write);
        assert_eq!(options.cf.compression, CompressionType::Snappy);
        assert!(!options.cf.level_compaction_dynamic_level_bytes);
    }

    #[test]
    fn the_shape_of_the_tree_follows_the_flags() {
        let flags = BenchFlags {
            write_buffer_size: 1 << 20,
            num_levels: 5,
            min_level_to_compress: 2,
            compression_type: "lz4".to_owned(),
            max_bytes_for_level_multiplier_additional: "1,2,3".to_owned(),
            bloom_bits: 10,
            partition_index_and_filters: true,
            checksum_type: 1,
            open_files: 100,
            ..Default::default()
        };
        let options = from_flags(&flags).expect("valid flags");
        assert_eq!(options.cf.write_buffer_size, 1 << 20);
        assert_eq!(options.cf.max_bytes_for_level_multiplier_additional, [1, 2, 3]);
        let (none, lz4) = (CompressionType::None, CompressionType::Lz4);
        assert_eq!(options.cf.compression_per_level, [none, none, lz4, lz4, lz4]);
        assert_eq!(options.db.max_open_files, 100);
        let TableFactory::BlockBased(table) = &options.cf.table_factory else { panic!("another format") };
        assert_eq!(table.checksum, ChecksumType::Crc32c);
        assert_eq!(table.index_type, IndexType::TwoLevelIndexSearch);
        assert!(table.partition_filters && table.filter_policy.is_some());
    }

    #[test]
    fn values_out_of_range_are_refused() {
        for flags in [
            BenchFlags { compaction_style: 9, ..Default::default() },
            BenchFlags { checksum_type: 77, ..Default::default() },
            BenchFlags { use_hash_search: true, ..Default::default() },
            BenchFlags { memtablerep: "prefix_hash".to_owned(), ..Default::default() },
            BenchFlags { memtablerep: "nonsense".to_owned(), ..Default::default() },
            BenchFlags { max_bytes_for_level_multiplier_additional: "1,x".to_owned(), ..Default::default() },
        ] {
            assert!(from_flags(&flags).is_err());
        }
    }
}
