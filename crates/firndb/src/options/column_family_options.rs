//! Options of one column family.

use std::sync::Arc;

use firn_format::comparator::{BytewiseComparator, Comparator};
use firn_format::compression::{CompressionOptions, CompressionType};
use firn_format::option_set;
use firn_format::options::{Kept, KeptOptions, Memory, Nested, UnsupportedObject};
use firn_format::slice_transform::SliceTransform;
use firn_table::options::{TableFactory, TableFactoryCodec};

use crate::compaction::filter::{CompactionFilter, CompactionFilterFactory};
use crate::merge::MergeOperator;

use super::compaction_options::{CompactionOptionsFifo, CompactionOptionsUniversal};
use super::enums::{CompactionPri, CompactionStyle, PrepopulateBlobCache, Temperature};
use super::objects::{
    CompactionFilterCodec, CompactionFilterFactoryCodec, ComparatorCodec, DbPath, MemTableFactory,
    MemTableFactoryCodec, MergeOperatorCodec, SliceTransformCodec,
};

option_set! {
    /// Options of one column family. Defaults are those of RocksDB 11.9 before sanitization.
    pub struct ColumnFamilyOptions("ColumnFamilyOptions") {
        /// Memtable arena block size.
        arena_block_size: usize = 0 => mutable;
        /// Readahead for blob reads in compaction.
        blob_compaction_readahead_size: u64 = 0 => mutable inert;
        /// Parameters of blob compression.
        blob_compression_opts: CompressionOptions = CompressionOptions::default(), with Nested => mutable new never inert;
        /// Compression of blobs.
        blob_compression_type: CompressionType = CompressionType::None => mutable inert;
        /// Parallel direct-write blob files.
        blob_direct_write_partitions: u32 = 1 => new inert;
        /// Blob file size limit.
        blob_file_size: u64 = 268_435_456 => mutable inert;
        /// First level that writes blob files.
        blob_file_starting_level: i32 = 0 => mutable inert;
        /// Oldest fraction of blob files eligible for relocation, in [0,1].
        blob_garbage_collection_age_cutoff: f64 = 0.25 => mutable inert;
        /// Garbage ratio that forces compactions, in [0,1].
        blob_garbage_collection_force_threshold: f64 = 1.0 => mutable inert;
        /// Per-entry checksum of in-memory blocks: 0,1,2,4,8.
        block_protection_bytes_per_key: u8 = 0 => mutable new;
        /// Memtable Bloom cache locality control.
        bloom_locality: u32 = 0 => inert;
        /// Compression of the bottommost level.
        bottommost_compression: CompressionType = CompressionType::DisableOption => mutable;
        /// Parameters used for the bottommost level when its `enabled` is true.
        bottommost_compression_opts: CompressionOptions = CompressionOptions::default(), with Nested => mutable never;
        /// Minimum file age (s) for snapshot-release compactions.
        bottommost_file_compaction_delay: u32 = 0 => mutable new;
        /// Reserve the last level for ingest-behind (universal only).
        cf_allow_ingest_behind: bool = false => new;
        /// Directories of the column family's tables; empty means `db_paths`.
        cf_paths: Vec<DbPath> = Vec::new(), with Memory;
        /// Single filter instance used by compactions.
        compaction_filter: Option<Arc<dyn CompactionFilter>> = None, with CompactionFilterCodec;
        /// Creates a filter per (sub)compaction.
        compaction_filter_factory: Option<Arc<dyn CompactionFilterFactory>> = None, with CompactionFilterFactoryCodec;
        /// FIFO parameters.
        compaction_options_fifo: CompactionOptionsFifo = CompactionOptionsFifo::default(), with Nested => mutable;
        /// Universal parameters.
        compaction_options_universal: CompactionOptionsUniversal = CompactionOptionsUniversal::default(), with Nested => mutable;
        /// File choice inside a level (leveled).
        compaction_pri: CompactionPri = CompactionPri::MinOverlappingRatio;
        /// Compaction algorithm.
        compaction_style: CompactionStyle = CompactionStyle::Level;
        /// Key order; its name is recorded in the MANIFEST and must never change.
        comparator: Arc<dyn Comparator> = Arc::new(BytewiseComparator), with ComparatorCodec => loose;
        /// Compression of all levels (unless overridden).
        compression: CompressionType = CompressionType::default_for_options() => mutable;
        /// Custom compression; needs table format_version >= 7 when not built-in compatible.
        compression_manager: UnsupportedObject = UnsupportedObject(None) => mutable new inert;
        /// Parameters of compression.
        compression_opts: CompressionOptions = CompressionOptions::default(), with Nested => mutable never;
        /// Per-level override; last element applies to deeper levels.
        compression_per_level: Vec<CompressionType> = Vec::new() => mutable;
        /// Temperature assumed for files with none, for accounting.
        default_temperature: Temperature = Temperature::Unknown => new never;
        /// Temperature of other new files.
        default_write_temperature: Temperature = Temperature::Unknown => mutable new;
        /// No automatic compactions.
        disable_auto_compactions: bool = false => mutable;
        /// Take only ingested and imported files, no writes; not for `default`.
        disallow_memtable_writes: bool = false => new;
        /// Write blobs to blob files in the write path.
        enable_blob_direct_write: bool = false => new inert;
        /// Store large values in blob files.
        enable_blob_files: bool = false => mutable inert;
        /// Relocate live blobs of old files during compaction.
        enable_blob_garbage_collection: bool = false => mutable inert;
        /// > 0 replaces some flushes by in-memory garbage collection.
        experimental_mempurge_threshold: f64 = 0.0 => mutable inert;
        /// Check LSM invariants on every version change.
        force_consistency_checks: bool = true;
        /// Debt at which writes stop.
        hard_pending_compaction_bytes_limit: u64 = 274_877_906_944 => mutable;
        /// Striped locks for in-place updates.
        inplace_update_num_locks: usize = 10_000 => mutable inert;
        /// Update values inside the memtable when they fit.
        inplace_update_support: bool = false;
        /// Temperature of last-level files.
        last_level_temperature: Temperature = Temperature::Unknown => mutable;
        /// L0 files (or sorted runs) that start a compaction; negative disables the trigger.
        level0_file_num_compaction_trigger: i32 = 4 => mutable;
        /// L0 file count at which writes are delayed; < 0 disables.
        level0_slowdown_writes_trigger: i32 = 20 => mutable;
        /// L0 file count at which writes stop.
        level0_stop_writes_trigger: i32 = 36 => mutable;
        /// Choose base level and level targets from the last level's size.
        level_compaction_dynamic_level_bytes: bool = true;
        /// Target size of the base level.
        max_bytes_for_level_base: u64 = 268_435_456 => mutable;
        /// Level size growth factor.
        max_bytes_for_level_multiplier: f64 = 10.0 => mutable;
        /// Extra per-level factor (missing elements = 1).
        max_bytes_for_level_multiplier_additional: Vec<i32> = vec![1; 7] => mutable;
        /// Limit of one compaction's input.
        max_compaction_bytes: u64 = 0 => mutable;
        /// Versions of one key skipped by stepping before a reseek.
        max_sequential_skip_in_iterations: u64 = 8 => mutable;
        /// Merge operands folded at write time beyond this count (0 = off).
        max_successive_merges: usize = 0 => mutable;
        /// Maximum memtables (mutable + immutable) before writes stop.
        max_write_buffer_number: i32 = 2 => mutable;
        /// Bytes of flushed memtables kept for conflict checking; -1 = max_write_buffer_number x write_buffer_size.
        max_write_buffer_size_to_maintain: i64 = 0 => inert;
        /// Hidden memtable entries skipped per iterator operation, averaged over a window, that request a flush.
        memtable_avg_op_scan_flush_trigger: u32 = 0 => mutable new inert;
        /// Reuse the search path between sorted MultiGet keys in the memtable.
        memtable_batch_lookup_optimization: bool = false => new inert;
        /// Memtable implementation.
        memtable_factory: MemTableFactory = MemTableFactory::default(), with MemTableFactoryCodec => inert;
        /// Bytes of a huge page: memtables take pages that the administrator reserved while there are any (0 = only
        /// transparent ones).
        memtable_huge_page_size: usize = 0 => mutable;
        /// Prefixes by which inserts into the memtable remember their last position.
        memtable_insert_with_hint_prefix_extractor: Option<Arc<dyn SliceTransform>> = None, with SliceTransformCodec => inert;
        /// Flush after this many range deletions in the memtable (0 = off).
        memtable_max_range_deletions: u32 = 0 => mutable new;
        /// Hidden memtable entries skipped by one iterator operation that request a flush.
        memtable_op_scan_flush_trigger: u32 = 0 => mutable new inert;
        /// Size of the memtable's filter of prefixes (with a prefix extractor) and of that of whole keys (with
        /// `memtable_whole_key_filtering`) as a fraction of `write_buffer_size`, at most 0.25; counts as memory of the
        /// memtable.
        memtable_prefix_bloom_size_ratio: f64 = 0.0 => mutable;
        /// Per-entry memtable checksum bytes: 0,1,2,4,8.
        memtable_protection_bytes_per_key: u32 = 0 => mutable;
        /// Verify per-entry checksums in memtable seeks. Alias key `memtable_veirfy_per_key_checksum_on_seek`
        /// (misspelt) is accepted.
        memtable_verify_per_key_checksum_on_seek: bool = false => mutable new inert;
        /// Give the memtable's filter of whole keys the size that `memtable_prefix_bloom_size_ratio` says.
        memtable_whole_key_filtering: bool = false => mutable;
        /// Semantics of merge writes; none means that they are refused.
        merge_operator: Option<Arc<dyn MergeOperator>> = None, with MergeOperatorCodec => loose;
        /// Smallest value stored in a blob file.
        min_blob_size: u64 = 0 => mutable inert;
        /// Contiguous point tombstones seen by an iterator that are turned into a range tombstone.
        min_tombstones_for_range_conversion: u32 = 0 => mutable new inert;
        /// Immutable memtables merged into one flush.
        min_write_buffer_number_to_merge: i32 = 1;
        /// Number of levels.
        num_levels: i32 = 7;
        /// No filters on the last level.
        optimize_filters_for_hits: bool = false;
        /// Re-read and verify each new table.
        paranoid_file_checks: bool = false => mutable;
        /// Verify key order while reading skip-list memtables.
        paranoid_memory_checks: bool = false => mutable new;
        /// Age after which a file is rewritten at the same level.
        periodic_compaction_seconds: u64 = u64::MAX - 1 => mutable;
        /// false strips user timestamps at flush.
        persist_user_defined_timestamps: bool = true => new loose;
        /// Keep data younger than this out of the last level (0 = off).
        preclude_last_level_data_seconds: u64 = 0 => mutable;
        /// Key prefix for prefix filters and prefix seeks; none means no prefixes.
        prefix_extractor: Option<Arc<dyn SliceTransform>> = None, with SliceTransformCodec => mutable;
        /// Insert blobs into the cache at flush.
        prepopulate_blob_cache: PrepopulateBlobCache = PrepopulateBlobCache::Disable => mutable inert;
        /// Keep sequence-to-time mapping for this long (0 = off).
        preserve_internal_time_seconds: u64 = 0 => mutable inert;
        /// Compact files whose estimated wasted reads / size exceed this; 0 = off.
        read_triggered_compaction_threshold: f64 = 0.0 => mutable new inert;
        /// Measure I/O time in flush and compaction jobs.
        report_bg_io_stats: bool = false => mutable inert;
        /// Sample 1/N blocks for compressibility estimates (0 = off).
        sample_for_compression: u64 = 0 => mutable inert;
        /// Estimated compaction debt at which writes are delayed.
        soft_pending_compaction_bytes_limit: u64 = 68_719_476_736 => mutable;
        /// Forces file cuts at partition borders.
        sst_partitioner_factory: UnsupportedObject = UnsupportedObject(None) => inert;
        /// Allow file reads to honour max_successive_merges.
        strict_max_successive_merges: bool = false => mutable new;
        /// SST format for new files.
        table_factory: TableFactory = TableFactory::default(), with TableFactoryCodec => mutable loose;
        /// Extra collectors of table properties; known by name only.
        table_properties_collector_factories as "table_properties_collectors": Vec<UnsupportedObject> = Vec::new() => inert;
        /// Output file size at the base level.
        target_file_size_base: u64 = 67_108_864 => mutable;
        /// Include the estimated tail (index+filter) when cutting files.
        target_file_size_is_upper_bound: bool = false => mutable new inert;
        /// Growth factor of the target file size per level.
        target_file_size_multiplier: i32 = 1 => mutable;
        /// Age in seconds after which files are compacted (leveled) or dropped (FIFO).
        ttl: u64 = u64::MAX - 1 => mutable;
        /// Willingness to erase cache entries of obsolete files.
        uncache_aggressiveness: u32 = 0 => mutable new inert;
        /// Verification of compaction output: 1 block checksums, 2 iteration + key/value hash, 4 file checksum; 0x400
        /// local, 0x800 remote compactions.
        verify_output_flags: u32 = 0 => mutable new inert;
        /// Memtable size that triggers a switch.
        write_buffer_size: usize = 67_108_864 => mutable;
        /// Text of options that are not acted on.
        kept: KeptOptions = KeptOptions::default(), with Kept;
    }
    aliases {
        "memtable" => "memtable_factory",
        "block_based_table_factory" => "table_factory",
        "plain_table_factory" => "table_factory",
        "memtable_veirfy_per_key_checksum_on_seek" => "memtable_verify_per_key_checksum_on_seek",
    }
    retired {
        "bottommost_temperature", "check_flush_compaction_key_order", "expanded_compaction_factor",
        "filter_deletes", "hard_rate_limit", "ignore_max_compaction_bytes_for_input",
        "max_grandparent_overlap_factor", "memtable_prefix_bloom_bits", "memtable_prefix_bloom_huge_page_tlb_size",
        "memtable_prefix_bloom_probes", "min_partial_merge_operands", "snap_refresh_nanos", "soft_rate_limit",
        "source_compaction_factor", "verify_checksums_in_compaction", "compaction_measure_io_stats",
        "level_compaction_dynamic_file_size", "max_mem_compaction_level", "max_write_buffer_number_to_maintain",
        "purge_redundant_kvs_while_flush", "rate_limit_delay_max_milliseconds",
    }
}
