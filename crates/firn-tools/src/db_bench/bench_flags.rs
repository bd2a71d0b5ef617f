//! The flags of `db_bench`, each declared once: name, type, default, help.
//!
//! In: the command line, through [`crate::flags::parse`]. Out: [`BenchFlags`], one typed field per flag. The names and
//! defaults are those of RocksDB 11.9; flags that existed in 7.8 only are accepted and do nothing. What Firn cannot do
//! yet is refused by [`super::refusals`], not here.

use crate::declare_flags;

/// The benchmarks that run when `--benchmarks` is not given.
pub const DEFAULT_BENCHMARKS: &str = "\
    fillseq,fillseqdeterministic,fillsync,fillrandom,filluniquerandomdeterministic,overwrite,readrandom,\
    newiterator,newiteratorwhilewriting,seekrandom,seekrandomwhilewriting,seekrandomwhilemerging,readseq,\
    readreverse,compact,compactall,flush,compact0,compact1,waitforcompaction,multireadrandom,multiscan,\
    multiscanrandom,mixgraph,readseq,readtorowcache,readtocache,readreverse,readwhilewriting,\
    readwhilemerging,readwhilescanning,readrandomwriterandom,updaterandom,xorupdaterandom,\
    approximatesizerandom,randomwithverify,fill100K,crc32c,xxhash,xxhash64,xxh3,compress,uncompress,\
    acquireload,fillseekseq,randomtransaction,randomreplacekeys,timeseries,getmergeoperands,\
    readrandomoperands,backup,restore,openandcompact,approximatememtablestats";

declare_flags! {
    /// Values of all `db_bench` flags.
    #[allow(non_snake_case)] // wal_size_limit_MB is how RocksDB spells it
    pub struct BenchFlags {
        benchmarks: String = DEFAULT_BENCHMARKS.to_owned(), "Comma-separated list, executed in order";
        num: i64 = 1_000_000, "Key-space size N, and the default number of operations per thread";
        bgwriter_num: i64 = 0, "If >0 the background writer draws keys from [0,v) instead of [0,num)";
        numdistinct: i64 = 1000, "Key count used by randomwithverify and randomreplacekeys";
        merge_keys: i64 = -1, "Key-space of the merge benchmarks; <0 means num";
        num_column_families: i32 = 1, "Number of column families";
        num_hot_column_families: i32 = 0, "If >0, write only to this many families at a time, then to the next ones";
        column_family_distribution: String = String::new(), "Comma list of percentages (sum 100), one per (hot) CF";
        reads: i64 = -1, "Read ops per thread; <0 means num";
        deletes: i64 = -1, "Delete ops per thread; <0 means num";
        bloom_locality: i32 = 0, "Option bloom_locality";
        seed: i64 = 0, "RNG base; 0 = current time in microseconds";
        threads: i32 = 1, "Number of worker threads";
        duration: i32 = 0, "Seconds for the random-type benchmarks; 0 = op-count limited";
        value_size_distribution_type: String = "fixed".to_owned(), "fixed, uniform or normal";
        value_size: i32 = 100, "Value size for fixed";
        value_size_min: i32 = 100, "Lower bound for uniform/normal";
        value_size_max: i32 = 102_400, "Upper bound for uniform/normal";
        seek_nexts: i32 = 0, "Next/Prev steps after each Seek";
        seek_nexts_to_delete: i32 = 0, "After those steps delete this many following keys (seekrandom)";
        reverse_iterator: bool = false, "Use Prev instead of Next (seekrandom, multiscan, fillseekseq)";
        auto_prefix_mode: bool = false, "ReadOptions.auto_prefix_mode in seekrandom; bound = next prefix";
        max_scan_distance: i64 = 0, "If !=0 sets iterate_upper_bound (lower for reverse) to seek position +- this";
        use_uint64_comparator: bool = false, "Use the 64-bit native-integer comparator";
        batch_size: i64 = 1, "Entries per WriteBatch / MultiGet";
        multiscan_size: i64 = 10, "Ranges per multiscan op";
        multiscan_stride: i64 = 100, "Key gap between consecutive ranges in multiscan";
        key_size: i32 = 16, "Key size in bytes";
        user_timestamp_size: i32 = 0, "User-defined timestamp bytes (only 0 or 8)";
        num_multi_db: i32 = 0, ">1 opens that many DBs under db/0, db/1, ...";
        compression_ratio: f64 = 0.5, "Target compressed/uncompressed ratio of generated values (0..1)";
        overwrite_probability: f64 = 0.0, "filluniquerandom: chance that a write repeats a recent key";
        overwrite_window_size: u32 = 1, "filluniquerandom: size of the recent-key window";
        disposable_entries_delete_delay: u64 = 0, "filluniquerandom: us before a disposable batch is deleted";
        disposable_entries_batch_size: u64 = 0, "filluniquerandom: keys per disposable batch (0=off)";
        disposable_entries_value_size: i32 = 64, "Value size of disposable entries";
        persistent_entries_batch_size: u64 = 0, "filluniquerandom: keys per persistent batch";
        persistent_entries_value_size: i32 = 64, "Value size of persistent entries";
        read_random_exp_range: f64 = 0.0, ">0: exponential key skew exp(-U*r) in random reads";
        histogram: bool = false, "Print latency histograms after each result line";
        confidence_interval_only: bool = false, "With [Xn]: print 95% confidence interval instead of average";
        enable_numa: bool = false, "Bind worker threads round-robin to NUMA nodes";
        db_write_buffer_size: i64 = 0, "Option (all memtables; 0 none)";
        max_manifest_file_size: i64 = 1_073_741_824, "Option of the same name";
        max_manifest_space_amp_pct: i32 = 500, "Option of the same name";
        verify_manifest_content_on_close: bool = false, "Option of the same name";
        cost_write_buffer_to_cache: bool = false, "Charge memtables to the block cache through a WriteBufferManager";
        arena_block_size: i64 = 0, "Option of the same name";
        write_buffer_size: i64 = 67_108_864, "Memtable size";
        max_write_buffer_number: i32 = 2, "Option of the same name";
        min_write_buffer_number_to_merge: i32 = 1, "Option of the same name";
        max_write_buffer_size_to_maintain: i64 = 0, "Option of the same name";
        max_background_jobs: i32 = 2, "Option of the same name";
        num_bottom_pri_threads: i32 = 0, "Threads in the BOTTOM pool";
        num_high_pri_threads: i32 = 0, "Threads in the HIGH pool";
        num_low_pri_threads: i32 = 0, "Threads in the LOW pool";
        max_background_compactions: i32 = -1, "Option (deprecated; -1 derive)";
        subcompactions: u64 = 1, "Option max_subcompactions";
        max_background_flushes: i32 = -1, "Option (deprecated; -1 derive)";
        compaction_style: i32 = 0, "0 level, 1 universal, 2 FIFO, 3 none";
        compaction_pri: i32 = 3, "0 by size, 1 oldest largest seq, 2 oldest smallest seq, 3 min overlap, 4 round-robin";
        universal_size_ratio: i32 = 0, "Applied when !=0";
        universal_min_merge_width: i32 = 0, "Applied when !=0";
        universal_max_merge_width: i32 = 0, "Applied when !=0";
        universal_max_size_amplification_percent: i32 = 0, "Applied when !=0";
        universal_compression_size_percent: i32 = -1, "Applied when !=-1";
        universal_max_read_amp: i32 = -1, "Universal option max_read_amp";
        universal_allow_trivial_move: bool = false, "Universal option";
        universal_incremental: bool = false, "Universal option";
        universal_stop_style: i32 = 1, "0 similar size, 1 total size";
        cache_size: i64 = 33_554_432, "Block cache bytes; <=0 for none";
        cache_numshardbits: i32 = -1, "-1 automatic; must be <20";
        cache_high_pri_pool_ratio: f64 = 0.0, "LRU cache option";
        cache_low_pri_pool_ratio: f64 = 0.0, "LRU cache option";
        cache_type: String = "hyper_clock_cache".to_owned(), "lru_cache or (auto_, fixed_)hyper_clock_cache";
        use_compressed_secondary_cache: bool = false, "Add a compressed secondary cache";
        compressed_secondary_cache_size: i64 = 33_554_432, "Compressed secondary cache size";
        compressed_secondary_cache_numshardbits: i32 = 6, "Compressed secondary cache numshardbits";
        compressed_secondary_cache_high_pri_pool_ratio: f64 = 0.0, "Compressed secondary cache high pri pool ratio";
        compressed_secondary_cache_low_pri_pool_ratio: f64 = 0.0, "Compressed secondary cache low pri pool ratio";
        compressed_secondary_cache_compression_type: String = "lz4".to_owned(), "Compressed secondary cache codec";
        compression_manager: String = "none".to_owned(), "none, mixed, costpredictor or autoskip";
        compressed_secondary_cache_compression_level: i32 = 32_767, "Compressed secondary cache compression level";
        use_tiered_cache: bool = false, "Build a tiered cache (primary + compressed + local)";
        tiered_adm_policy: String = "auto".to_owned(), "auto, placeholder, allow_cache_hits, three_queue, allow_all";
        simcache_size: i64 = -1, ">=0 wraps the block cache in a simulated cache of that size";
        cache_index_and_filter_blocks: bool = false, "Table option";
        use_cache_jemalloc_no_dump_allocator: bool = false, "Block-cache allocator choice";
        use_cache_memkind_kmem_allocator: bool = false, "Block-cache allocator choice";
        decouple_partitioned_filters: bool = true, "Table option";
        partition_index_and_filters: bool = false, "Two-level index + partitioned filters";
        partition_index: bool = false, "Two-level index only";
        index_with_first_key: bool = false, "Index type \"binary search with first key\"";
        use_trie_index: bool = false, "User-defined trie index";
        optimize_filters_for_memory: bool = true, "Table option";
        index_shortening_mode: i64 = 2, "0 none, 1 separators, 2 separators+successor";
        metadata_block_size: i64 = 4096, "Partition block size";
        ops_between_duration_checks: i32 = 1000, "Ops between two clock reads when duration>0";
        pin_l0_filter_and_index_blocks_in_cache: bool = false, "Table option";
        pin_top_level_index_and_filter: bool = false, "Table option";
        block_size: i32 = 4096, "Table option";
        format_version: i32 = 7, "Table format_version written";
        block_restart_interval: i32 = 16, "Table option";
        index_block_restart_interval: i32 = 1, "Table option";
        read_amp_bytes_per_bit: i32 = 0, "Table option";
        enable_index_compression: bool = true, "Table option";
        block_align: bool = false, "Table option";
        super_block_alignment_size: u64 = 0, "Table option";
        super_block_alignment_space_overhead_ratio: u64 = 128, "Table option";
        separate_key_value_in_data_block: bool = false, "Table option";
        prepopulate_block_cache: i64 = 0, "0 off, 1 on flush, 2 on flush and compaction";
        uncache_aggressiveness: u32 = 0, "CF option";
        use_data_block_hash_index: bool = false, "Data-block hash index";
        data_block_hash_table_util_ratio: f64 = 0.75, "Data block hash table util ratio";
        uniform_cv_threshold: f64 = -1.0, "Table option";
        compressed_cache_size: i64 = -1, "Obsolete (accepted)";
        row_cache_size: i64 = 0, "Row cache bytes (0 none)";
        open_files: i32 = -1, "Option max_open_files";
        file_opening_threads: i32 = 16, "Option max_file_opening_threads";
        compaction_readahead_size: u64 = 2_097_152, "Option of the same name";
        log_readahead_size: i32 = 0, "Option of the same name";
        writable_file_max_buffer_size: i32 = 1_048_576, "Option of the same name";
        bloom_bits: i32 = -1, "Bits per key: <0 default policy (none), 0 none, >0 a filter";
        use_ribbon_filter: bool = false, "Ribbon instead of Bloom";
        memtable_bloom_size_ratio: f64 = 0.0, "memtable_prefix_bloom_size_ratio";
        memtable_whole_key_filtering: bool = false, "Option of the same name";
        memtable_use_huge_page: bool = false, "2 MiB huge pages for the memtable arena";
        memtable_batch_lookup_optimization: bool = false, "Option of the same name";
        whole_key_filtering: bool = true, "Table option";
        use_existing_db: bool = false, "Do not destroy; fresh-DB benchmarks are skipped";
        use_existing_keys: bool = false, "Draw keys from the keys present in the DB (needs use_existing_db)";
        show_table_properties: bool = false, "With stats_per_interval: print aggregated properties per level";
        db: String = String::new(), "Database directory";
        progress_reports: bool = true, "Print ... finished progress on stderr";
        read_cache_path: String = String::new(), "Directory of a persistent read cache";
        read_cache_size: i64 = 4_294_967_296, "Read cache size";
        read_cache_direct_write: bool = true, "Read cache direct write";
        read_cache_direct_read: bool = true, "Read cache direct read";
        use_keep_filter: bool = false, "Install a compaction filter that keeps everything";
        verify_checksum: bool = true, "ReadOptions.verify_checksums";
        checksum_type: i32 = 4, "0 none, 1 crc32c, 2 xxHash, 3 xxHash64, 4 XXH3";
        statistics: bool = false, "Attach statistics; dump at exit";
        stats_level: i32 = 3, "StatsLevel value 0..5";
        statistics_string: String = String::new(), "Statistics object from a string (exclusive with statistics)";
        writes: i64 = -1, "Write ops per thread; <0 means num";
        finish_after_writes: bool = false, "Background writer runs until writes are done";
        sync: bool = false, "WriteOptions.sync";
        use_fsync: bool = false, "Option of the same name";
        disable_wal: bool = false, "WriteOptions.disableWAL";
        manual_wal_flush: bool = false, "Option of the same name";
        wal_compression: String = "none".to_owned(), "WAL codec";
        wal_dir: String = String::new(), "Option of the same name";
        truth_db: String = "/dev/shm/truth_db/dbbench".to_owned(), "Reference DB for verify";
        num_levels: i32 = 7, "Option of the same name";
        target_file_size_base: i64 = 67_108_864, "Option of the same name";
        target_file_size_multiplier: i32 = 1, "Option of the same name";
        max_bytes_for_level_base: u64 = 268_435_456, "Option of the same name";
        level_compaction_dynamic_level_bytes: bool = false, "Option (library default is true; here false)";
        max_bytes_for_level_multiplier: f64 = 10.0, "Option of the same name";
        max_bytes_for_level_multiplier_additional: String = String::new(), "Comma list of ints";
        level0_stop_writes_trigger: i32 = 36, "Option of the same name";
        level0_slowdown_writes_trigger: i32 = 20, "Option of the same name";
        level0_file_num_compaction_trigger: i32 = 4, "Option of the same name";
        periodic_compaction_seconds: u64 = 18_446_744_073_709_551_614, "Option of the same name";
        ttl_seconds: u64 = 18_446_744_073_709_551_614, "Option ttl";
        readwritepercent: i32 = 90, "Percentage of gets (must be 1..99)";
        mergereadpercent: i32 = 70, "Percentage of MERGES in readrandommergerandom (despite its name)";
        deletepercent: i32 = 2, "Percentage of deletes in randomwithverify (1..99)";
        optimize_filters_for_hits: bool = false, "Option of the same name";
        paranoid_checks: bool = true, "Option of the same name";
        force_consistency_checks: bool = true, "Option of the same name";
        delete_obsolete_files_period_micros: u64 = 0, "Option (here 0; library default 6 h)";
        writes_before_delete_range: i64 = 0, "Range tombstones start after this many writes";
        writes_per_range_tombstone: i64 = 0, "Writes between two range tombstones (0 off)";
        range_tombstone_width: i64 = 100, "Keys covered by one";
        max_num_range_tombstones: i64 = 0, "Upper limit";
        expand_range_tombstones: bool = false, "Write point deletes instead";
        optimistic_transaction_db: bool = false, "Open as OptimisticTransactionDB";
        transaction_db: bool = false, "Open as TransactionDB";
        transaction_sets: u64 = 2, "Key sets per random transaction (1..9999)";
        transaction_set_snapshot: bool = false, "TransactionOptions.set_snapshot";
        transaction_sleep: i32 = 0, "Obsolete (accepted)";
        transaction_lock_timeout: u64 = 100, "Lock timeout in ms";
        options_file: String = String::new(), "Take options from an OPTIONS file";
        fifo_compaction_max_table_files_size_mb: u64 = 0, "FIFO option (MiB)";
        fifo_compaction_allow_compaction: bool = true, "FIFO option";
        fifo_compaction_ttl: u64 = 0, "Overridden by ttl_seconds";
        fifo_age_for_warm: u64 = 0, "FIFO age in seconds for the warm tier";
        fifo_compaction_max_data_files_size_mb: u64 = 0, "FIFO option";
        fifo_compaction_use_kv_ratio_compaction: bool = false, "FIFO option";
        use_blob_db: bool = false, "Legacy stacked BlobDB";
        blob_db_enable_gc: bool = false, "Blob db enable gc";
        blob_db_max_db_size: u64 = 0, "Blob db max db size";
        blob_db_max_ttl_range: u64 = 0, "Legacy: random TTL in [0,v)";
        blob_db_ttl_range_secs: u64 = 3600, "Blob db ttl range secs";
        blob_db_file_size: u64 = 268_435_456, "Blob db file size";
        enable_blob_files: bool = false, "Option of the same name";
        enable_blob_direct_write: bool = false, "Option of the same name";
        blob_direct_write_partitions: u64 = 1, "Option of the same name";
        min_blob_size: u64 = 0, "Option of the same name";
        blob_file_size: u64 = 268_435_456, "Option of the same name";
        blob_compression_type: String = "none".to_owned(), "Blob codec";
        enable_blob_garbage_collection: bool = false, "Option of the same name";
        blob_garbage_collection_age_cutoff: f64 = 0.25, "Option of the same name";
        blob_garbage_collection_force_threshold: f64 = 1.0, "Option of the same name";
        blob_compaction_readahead_size: u64 = 0, "Option of the same name";
        read_triggered_compaction_threshold: f64 = 0.0, "Option of the same name";
        blob_file_starting_level: i32 = 0, "Option of the same name";
        use_blob_cache: bool = false, "Use a blob cache";
        use_shared_block_and_blob_cache: bool = true, "Blob cache is the block cache";
        blob_cache_size: u64 = 8_388_608, "Own blob cache size";
        blob_cache_numshardbits: i32 = 6, "Own blob cache shard bits";
        prepopulate_blob_cache: i32 = 0, "0 off, 1 on flush";
        embedded_blob_min_size: u64 = 2048, "fillembedded*: minimum size for an embedded blob";
        num_wide_columns: i32 = 4, "fillembeddedentity: columns per entity";
        num_short_wide_columns: i32 = 1, "fillembeddedentity: how many are short";
        use_secondary_db: bool = false, "Open as secondary instance";
        secondary_path: String = String::new(), "Secondary path";
        secondary_update_interval: i32 = 5, "Seconds between catch-ups";
        open_as_follower: bool = false, "Open as follower";
        leader_path: String = String::new(), "Leader directory";
        report_bg_io_stats: bool = false, "Option of the same name";
        use_stderr_info_logger: bool = false, "Info log to stderr";
        trace_file: String = String::new(), "Trace to write (or to replay with replay)";
        trace_replay_fast_forward: f64 = 1.0, "Replay speed factor";
        block_cache_trace_sampling_frequency: i32 = 1, "Trace 1 of n blocks";
        block_cache_trace_max_trace_file_size_in_bytes: i64 = 68_719_476_736, "Trace size limit";
        block_cache_trace_file: String = String::new(), "Block cache trace to write";
        trace_replay_threads: i32 = 1, "Replay threads";
        io_uring_enabled: bool = true, "Master switch for io_uring";
        adaptive_readahead: bool = false, "ReadOptions";
        rate_limit_user_ops: bool = false, "Charge user reads to the rate limiter";
        file_checksum: bool = false, "Use the CRC32C file checksum generator";
        rate_limit_auto_wal_flush: bool = false, "WAL writes at IO_USER priority";
        async_io: bool = false, "ReadOptions";
        optimize_multiget_for_io: bool = true, "ReadOptions";
        charge_compression_dictionary_building_buffer: bool = false, "Charge to cache";
        charge_filter_construction: bool = false, "Charge to cache";
        charge_table_reader: bool = false, "Charge to cache";
        charge_file_metadata: bool = false, "Charge to cache";
        charge_blob_cache: bool = false, "Charge to cache";
        backup_rate_limit: u64 = 0, "Bytes/s";
        restore_rate_limit: u64 = 0, "Bytes/s";
        backup_dir: String = String::new(), "Default db + \"/backup\"";
        restore_dir: String = String::new(), "Default db + \"/restore\"";
        ingest_external_file_batch_size: i32 = 10, "Files per ingestion";
        ingest_external_file_num_batches: i32 = 1, "Ingestions";
        ingest_external_file_file_opening_threads: i32 = 1, "Ingest option";
        ingest_external_file_use_file_info: bool = false, "Pass prepared file info";
        ingest_external_file_fill_cache: bool = true, "Ingest option";
        ingest_external_file_prefetch_lmax_index_and_filter_blocks: bool = true, "Ingest option";
        initial_auto_readahead_size: u64 = 8192, "Table option";
        max_auto_readahead_size: u64 = 262_144, "Table option";
        num_file_reads_for_auto_readahead: u64 = 2, "Table option";
        auto_readahead_size: bool = false, "ReadOptions";
        paranoid_memory_checks: bool = false, "Option of the same name";
        memtable_verify_per_key_checksum_on_seek: bool = false, "Option of the same name";
        auto_refresh_iterator_with_snapshot: bool = false, "ReadOptions";
        explicit_snapshot: bool = false, "Take a snapshot for iterators";
        memtable_op_scan_flush_trigger: u32 = 0, "Option of the same name";
        min_tombstones_for_range_conversion: u32 = 0, "Option of the same name";
        verify_compression: bool = false, "Table option";
        tolerate_io_errors_for_remote_dbs: bool = false, "With env_uri or fs_uri: log and skip failed operations";
        compression_type: String = "snappy".to_owned(), "none, snappy, zlib, bzip2, lz4, lz4hc, xpress, zstd";
        sample_for_compression: i64 = 0, "Option of the same name";
        compression_level: i32 = 32_767, "32767 = codec default";
        compression_max_dict_bytes: i32 = 0, "Option of the same name";
        compression_zstd_max_train_bytes: i32 = 0, "Option of the same name";
        min_level_to_compress: i32 = -1, ">=0: levels below it are not compressed";
        compression_parallel_threads: i32 = 1, "Option of the same name";
        compression_max_dict_buffer_bytes: u64 = 0, "Option of the same name";
        compression_use_zstd_dict_trainer: bool = true, "Option of the same name";
        table_cache_numshardbits: i32 = 4, "1..19";
        env_uri: String = String::new(), "Env by URI (exclusive with fs_uri)";
        fs_uri: String = String::new(), "FileSystem by URI";
        simulate_hybrid_fs_file: String = String::new(), "File listing warm-tier files (simulation)";
        simulate_hybrid_hdd_multipliers: i32 = 1, "Simulated HDD count";
        simulate_hdd: bool = false, "Simulate HDD for everything";
        fault_injection_read_after_reads: i64 = 0, "Inject a read error after n reads";
        preclude_last_level_data_seconds: i64 = 0, "Option of the same name";
        preserve_internal_time_seconds: i64 = 0, "Option of the same name";
        stats_interval: i64 = 0, ">0: interval report every n ops (thread-local)";
        stats_interval_seconds: i64 = 0, ">0: interval report every n s (overrides stats_interval)";
        stats_per_interval: i32 = 0, "1: also print DB stats in thread 0's reports";
        slow_usecs: u64 = 1_000_000, "long op threshold";
        report_interval_seconds: i64 = 0, ">0: write CSV throughput";
        report_file: String = "report.csv".to_owned(), "CSV name";
        thread_status_per_interval: i32 = 0, "Print thread status in reports";
        perf_level: i32 = 1, "PerfLevel 1..6; >1 appends PERF_CONTEXT";
        soft_pending_compaction_bytes_limit: u64 = 68_719_476_736, "Option of the same name";
        hard_pending_compaction_bytes_limit: u64 = 137_438_953_472, "Option (here 128 GiB; library default 256 GiB)";
        delayed_write_rate: u64 = 8_388_608, "Option of the same name";
        enable_pipelined_write: bool = true, "Option (here true; library default false)";
        unordered_write: bool = false, "Option of the same name";
        allow_concurrent_memtable_write: bool = true, "Option of the same name";
        experimental_mempurge_threshold: f64 = 0.0, "Option of the same name";
        inplace_update_support: bool = false, "Option of the same name";
        inplace_update_num_locks: u64 = 10_000, "Option of the same name";
        enable_write_thread_adaptive_yield: bool = true, "Option of the same name";
        write_thread_max_yield_usec: u64 = 100, "Option of the same name";
        write_thread_slow_yield_usec: u64 = 3, "Option of the same name";
        rate_limiter_bytes_per_sec: u64 = 0, ">0: DB rate limiter";
        rate_limiter_refill_period_us: i64 = 100_000, "Rate limiter refill period us";
        rate_limiter_auto_tuned: bool = false, "Rate limiter auto tuned";
        rate_limiter_single_burst_bytes: i64 = 0, "Rate limiter single burst bytes";
        sine_write_rate: bool = false, "Re-set the write limiter along a sine";
        sine_write_rate_interval_milliseconds: u64 = 10_000, "Sine write rate interval milliseconds";
        sine_a: f64 = 1.0, "Sine rate(t)=a*sin(b*t+c)+d: a";
        sine_b: f64 = 1.0, "Sine rate: b";
        sine_c: f64 = 0.0, "Sine rate: c";
        sine_d: f64 = 1.0, "Sine rate: d";
        rate_limit_bg_reads: bool = false, "Rate limiter mode \"reads only\"";
        benchmark_write_rate_limit: u64 = 0, "Bytes/s limit of benchmark writes (0 none)";
        keyrange_dist_a: f64 = 0.0, "mixgraph: key range model";
        keyrange_dist_b: f64 = 0.0, "mixgraph: key range model";
        keyrange_dist_c: f64 = 0.0, "mixgraph: key range model";
        keyrange_dist_d: f64 = 0.0, "mixgraph: key range model";
        keyrange_num: i64 = 1, "Number of key ranges";
        key_dist_a: f64 = 0.0, "mixgraph: power law of keys, factor";
        key_dist_b: f64 = 0.0, "mixgraph: power law of keys, exponent";
        value_theta: f64 = 0.0, "mixgraph value-size Pareto location";
        value_k: f64 = 0.2615, "mixgraph: shape of value sizes";
        value_sigma: f64 = 25.45, "mixgraph: scale of value sizes";
        iter_theta: f64 = 0.0, "mixgraph scan-length Pareto location";
        iter_k: f64 = 2.517, "mixgraph: shape of scan lengths";
        iter_sigma: f64 = 14.236, "mixgraph: scale of scan lengths";
        mix_get_ratio: f64 = 1.0, "Weight of gets";
        mix_put_ratio: f64 = 0.0, "Weight of puts";
        mix_seek_ratio: f64 = 0.0, "Weight of seeks";
        mix_max_scan_len: i64 = 10_000, "Modulus of scan length";
        mix_max_value_size: i64 = 1024, "Modulus of value size (<=1 MiB)";
        sine_mix_rate_noise: f64 = 0.0, "Noise factor added to the sine rate";
        sine_mix_rate: bool = false, "Limit mixgraph rate along a sine";
        sine_mix_rate_interval_milliseconds: u64 = 10_000, "Sine mix rate interval milliseconds";
        mix_accesses: i64 = -1, "Obsolete (accepted)";
        benchmark_read_rate_limit: u64 = 0, "Reads/s limit (0 none)";
        max_compaction_bytes: u64 = 0, "Option (0 = 25 * target_file_size_base)";
        readonly: bool = false, "Open read-only; implies use_existing_db";
        print_malloc_stats: bool = false, "Print allocator statistics at exit";
        disable_auto_compactions: bool = false, "Option of the same name";
        open_files_async: bool = false, "Option of the same name";
        skip_stats_update_on_db_open: bool = false, "Option of the same name";
        wal_ttl_seconds: u64 = 0, "Option WAL_ttl_seconds";
        wal_size_limit_MB: u64 = 0, "Option WAL_size_limit_MB";
        max_total_wal_size: u64 = 0, "Option of the same name";
        mmap_read: bool = false, "allow_mmap_reads";
        mmap_write: bool = false, "allow_mmap_writes";
        use_direct_reads: bool = false, "Option of the same name";
        use_direct_io_for_compaction_reads: bool = false, "Option of the same name";
        use_direct_io_for_flush_and_compaction: bool = false, "Option of the same name";
        advise_random_on_open: bool = true, "Option of the same name";
        use_tailing_iterator: bool = false, "ReadOptions.tailing";
        use_adaptive_mutex: bool = false, "Option of the same name";
        bytes_per_sync: u64 = 0, "Option of the same name";
        wal_bytes_per_sync: u64 = 0, "Option of the same name";
        use_single_deletes: bool = true, "randomreplacekeys: SingleDelete vs Delete";
        stddev: f64 = 2000.0, "randomreplacekeys: standard deviation";
        key_id_range: i32 = 100_000, "timeseries: number of series";
        expire_style: String = "none".to_owned(), "timeseries: none, compaction_filter, delete";
        time_range: u64 = 100_000, "timeseries: age limit";
        num_deletion_threads: i32 = 1, "timeseries: deleting threads";
        max_successive_merges: i32 = 0, "Option of the same name";
        strict_max_successive_merges: bool = false, "Option of the same name";
        prefix_size: i32 = 0, "Fixed-prefix extractor length (0 none; <=2*10^9)";
        keys_per_prefix: i64 = 0, "Keys sharing one prefix (0 = no prefix in keys)";
        total_order_seek: bool = false, "ReadOptions";
        prefix_same_as_start: bool = false, "ReadOptions";
        seek_missing_prefix: bool = false, "Seek to prefixes that do not exist (prefix_size>8)";
        memtable_insert_with_hint_prefix_size: i32 = 0, "Option of the same name";
        enable_io_prio: bool = false, "Lower IO priority of LOW threads";
        enable_cpu_prio: bool = false, "Lower CPU priority of LOW threads";
        identity_as_first_hash: bool = false, "Cuckoo table option";
        dump_malloc_stats: bool = true, "Option (library default false)";
        stats_dump_period_sec: u64 = 600, "Option of the same name";
        max_compaction_trigger_wakeup_seconds: u64 = 43_200, "Option of the same name";
        stats_persist_period_sec: u64 = 600, "Option of the same name";
        persist_stats_to_disk: bool = false, "Option of the same name";
        stats_history_buffer_size: u64 = 1_048_576, "Option of the same name";
        avoid_flush_during_recovery: bool = false, "Option of the same name";
        avoid_flush_during_shutdown: bool = false, "Option of the same name";
        multiread_stride: i64 = 0, "Key distance inside a MultiGet batch (0 random)";
        multiread_batched: bool = false, "Use the batched MultiGet API";
        coro_jobs_per_thread: i32 = 1, "Concurrent requests per thread in *coroutine";
        memtablerep: String = "skip_list".to_owned(), "skip_list, prefix_hash, vector or hash_linkedlist";
        hash_bucket_count: i64 = 1_048_576, "Buckets of prefix_hash / hash_linkedlist";
        use_plain_table: bool = false, "Plain table format";
        use_cuckoo_table: bool = false, "Cuckoo table format";
        cuckoo_hash_ratio: f64 = 0.9, "Cuckoo hash ratio";
        use_hash_search: bool = false, "Hash index for block-based tables";
        index_block_search_type: String = "binary_search".to_owned(), "binary_search or interpolation_search";
        merge_operator: String = String::new(), "Merge operator name/URI (put, uint64add, stringappend, ...)";
        skip_list_lookahead: i32 = 0, "Skip list lookahead";
        report_file_operations: bool = false, "Count and print file operations";
        report_open_timing: bool = false, "Print the open time";
        readahead_size: i32 = 0, "ReadOptions";
        read_with_latest_user_timestamp: bool = true, "Read at newest rather than random timestamp";
        cache_uri: String = String::new(), "Cache from URI";
        secondary_cache_uri: String = String::new(), "Secondary cache from URI";
        disable_seek_compaction: i32 = 0, "Ignored (LevelDB script compatibility)";
        allow_data_in_errors: bool = false, "Option of the same name";
        write_batch_protection_bytes_per_key: u32 = 0, "0 or 8";
        memtable_protection_bytes_per_key: u32 = 0, "0,1,2,4,8";
        block_protection_bytes_per_key: u32 = 0, "0,1,2,4,8";
        build_info: bool = false, "Print build information and exit 0";
        track_and_verify_wals_in_manifest: bool = false, "Option of the same name";
        track_and_verify_wals: bool = false, "Option of the same name";
        async_wal_precreate: bool = false, "Option of the same name";
        same_value_percentage: i32 = 0, "Chance (%) that a generated value repeats the first one";
        universal_reduce_file_locking: bool = true, "Universal option";
        multiscan_coalesce_threshold: u64 = 16_384, "MultiScan option";
        multiscan_use_async_io: bool = false, "MultiScan option";
        io_dispatcher_max_prefetch_memory_bytes: u64 = 0, "Prefetch budget of multiscan (0 none)";
        multiscan_max_prefetch_size: u64 = 0, "MultiScan option";
        use_multiscan: bool = true, "multiscanrandom: MultiScan vs plain iterator";
        openandcompact_allow_resumption: bool = false, "openandcompact option";
        openandcompact_test_cancel_on_odd: bool = false, "openandcompact: cancel every odd run";
        openandcompact_cancel_after_millseconds: u32 = 1, "openandcompact: cancel after this time";
        fatal_shutdown_watchdog_seconds: u64 = 180, "Force exit if shutdown after a fatal error hangs (0 off)";
        blob_db_bytes_per_sync: u64 = 0, "Accepted for old scripts; has no effect";
        blob_db_compression_type: String = "snappy".to_owned(), "Accepted for old scripts; has no effect";
        blob_db_gc_cutoff: f64 = 0.25, "Accepted for old scripts; has no effect";
        blob_db_is_fifo: bool = false, "Accepted for old scripts; has no effect";
        blob_db_min_blob_size: u64 = 0, "Accepted for old scripts; has no effect";
        check_flush_compaction_key_order: bool = true, "Accepted for old scripts; has no effect";
        compaction_fadvice: String = "NORMAL".to_owned(), "Accepted for old scripts; has no effect";
        compressed_secondary_cache_compress_format_version: u32 = 2, "Accepted for old scripts; has no effect";
        max_write_buffer_number_to_maintain: i32 = 0, "Accepted for old scripts; has no effect";
        random_access_max_buffer_size: i32 = 1_048_576, "Accepted for old scripts; has no effect";
        compaction_measure_io_stats: i32 = 0, "Accepted for old scripts; has no effect";
    }
    validate(flags, name) {
        let percent = |value: i32| {
            if (1..100).contains(&value) {
                return Ok(());
            }
            Err(format!("Invalid value for --{name}: {value}, 0< pct <100 "))
        };
        match name {
            "cache_numshardbits" if flags.cache_numshardbits >= 20 => {
                Err(format!("Invalid value for --{name}: {}, must be < 20", flags.cache_numshardbits))
            }
            "table_cache_numshardbits" if !(1..20).contains(&flags.table_cache_numshardbits) => {
                Err(format!("Invalid value for --{name}: {}, must be  0 < val < 20", flags.table_cache_numshardbits))
            }
            "readwritepercent" => percent(flags.readwritepercent),
            "deletepercent" => percent(flags.deletepercent),
            "prefix_size" if !(0..=2_000_000_000).contains(&flags.prefix_size) => {
                Err(format!("Invalid value for --{name}: {}. 0<= PrefixSize <=2000000000", flags.prefix_size))
            }
            "subcompactions" if u32::try_from(flags.subcompactions).is_err() => {
                Err(format!("Invalid value for --{name}: {}, overflow", flags.subcompactions))
            }
            "blob_direct_write_partitions" if u32::try_from(flags.blob_direct_write_partitions).is_err() => {
                Err(format!("Invalid value for --{name}: {}, overflow", flags.blob_direct_write_partitions))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::FlagSet;

    #[test]
    fn flags_are_distinct_and_defaults_pass_their_own_parser_and_validator() {
        let mut flags = BenchFlags::default();
        let mut names = std::collections::BTreeSet::new();
        for spec in BenchFlags::specs() {
            assert!(names.insert(spec.name), "{} is declared twice", spec.name);
            let text = (spec.get)(&flags);
            assert!((spec.set)(&mut flags, &text), "{}={text}", spec.name);
            assert_eq!(flags.validate(spec.name), Ok(()), "{}", spec.name);
        }
        assert!(names.len() >= 418);
    }

    #[test]
    fn validators_refuse_what_rocksdb_refuses() {
        let refused: &[(&str, &str)] = &[
            ("cache_numshardbits", "20"),
            ("table_cache_numshardbits", "0"),
            ("table_cache_numshardbits", "20"),
            ("readwritepercent", "0"),
            ("deletepercent", "100"),
            ("prefix_size", "-1"),
            ("subcompactions", "4294967296"),
        ];
        for (name, value) in refused {
            let mut flags = BenchFlags::default();
            let spec = BenchFlags::specs().iter().find(|spec| spec.name == *name).expect("declared");
            assert!((spec.set)(&mut flags, value));
            assert!(flags.validate(name).is_err(), "{name}={value}");
        }
    }
}
