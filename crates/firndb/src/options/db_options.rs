//! Options of the whole database.

use std::sync::Arc;

use firn_env::{Env, Logger, RateLimiter, SstFileManager};
use firn_format::compression::CompressionType;
use firn_format::option_set;
use firn_format::options::{Kept, KeptOptions, Memory, UnsupportedObject};

use super::enums::{CacheTier, InfoLogLevel, Temperature, WalRecoveryMode};
use super::objects::{
    DbPath, EnvCodec, FileChecksumGenFactoryCodec, ListenersCodec, RateLimiterCodec, StatisticsCodec,
};
use crate::file_checksum::FileChecksumGenFactory;
use crate::stats::{EventListener, Statistics};

option_set! {
    /// Options of the whole database. Defaults are those of RocksDB 11.9 before sanitization.
    pub struct DbOptions("DBOptions") {
        /// Advise random access when a table is opened.
        advise_random_on_open: bool = true;
        /// Two-phase commit support during recovery; set by TransactionDB.
        allow_2pc: bool = false;
        /// Followers of a write group insert into the memtable in parallel.
        allow_concurrent_memtable_write: bool = true;
        /// Allow user keys/values in messages.
        allow_data_in_errors: bool = false => inert;
        /// Allow preallocation by fallocate.
        allow_fallocate: bool = true;
        /// Deprecated DB-wide form of cf_allow_ingest_behind.
        allow_ingest_behind: bool = false;
        /// mmap tables for reading.
        allow_mmap_reads: bool = false;
        /// mmap files for writing.
        allow_mmap_writes: bool = false => inert;
        /// Create the next WAL file ahead of time in the background.
        async_wal_precreate: bool = false => new inert;
        /// Flush all column families atomically.
        atomic_flush: bool = false;
        /// Keep recovered data in memtables instead of flushing.
        avoid_flush_during_recovery: bool = false;
        /// Do not flush unpersisted data on close (data without WAL is lost).
        avoid_flush_during_shutdown: bool = false => mutable;
        /// Defer file and memtable deletion to background threads.
        avoid_unnecessary_blocking_io: bool = false => inert;
        /// Deprecated: leave synced inactive WALs open until deleted.
        background_close_inactive_wals: bool = false => new inert;
        /// Recover to the newest consistent state when files are missing.
        best_efforts_recovery: bool = false;
        /// Microseconds between resume attempts.
        bgerror_resume_retry_interval: u64 = 1_000_000;
        /// The disk is told to begin with a table's bytes each time so many were written; 0 is every 4 MiB.
        bytes_per_sync: u64 = 0 => mutable;
        /// Read-ahead of compaction inputs in bytes; 0 is none.
        compaction_readahead_size: usize = 2_097_152 => mutable;
        /// Compaction compares entries read / written with the counts in table properties.
        compaction_verify_record_count: bool = true => new;
        /// Create the database directory and an empty database when none exists.
        create_if_missing: bool = false;
        /// On open, create column families named in the open call but absent from the MANIFEST.
        create_missing_column_families: bool = false;
        /// Off-peak period `HH:mm-HH:mm` (UTC, inclusive, may wrap midnight).
        daily_offpeak_time_utc: String = String::new() => mutable new inert;
        /// Host name stored in SST properties; the default literal is replaced by the real host name when tables are
        /// written; empty omits the property.
        db_host_id: String = String::from("__hostname__") => never;
        /// Directory of the info log.
        db_log_dir: String = String::new();
        /// Directories of the tables, at most four, filled in their order; empty means the directory of the database.
        db_paths: Vec<DbPath> = Vec::new(), with Memory;
        /// Total memtable budget of the DB (0 = none).
        db_write_buffer_size: usize = 0;
        /// Initial and maximum write rate in the delayed state, bytes/s.
        delayed_write_rate: u64 = 0 => mutable;
        /// Period of the full obsolete-file scan.
        delete_obsolete_files_period_micros: u64 = 21_600_000_000 => mutable;
        /// Add allocator statistics to the stats dump.
        dump_malloc_stats: bool = false => inert;
        /// Overlap WAL and memtable stages of successive write groups.
        enable_pipelined_write: bool = false => inert;
        /// Maintain thread status (GetThreadList).
        enable_thread_tracking: bool = false => inert;
        /// Writers spin/yield before blocking.
        enable_write_thread_adaptive_yield: bool = true => inert;
        /// Compaction fails with Corruption on SingleDelete misuse.
        enforce_single_del_contracts: bool = true;
        /// Flush during WAL recovery when the shared budget is exceeded.
        enforce_write_buffer_manager_during_recovery: bool = true => new inert;
        /// The outside world: files, time and background threads. Default: the one all databases of the process share.
        env: Env = Env::default(), with EnvCodec => parse_only never;
        /// Fail the open when the database already exists.
        error_if_exists: bool = false;
        /// Store file-system open metadata of SSTs in the MANIFEST and use it at open.
        fast_sst_open: bool = false => mutable new inert;
        /// Whole-file checksum generator for SST/blob files.
        file_checksum_gen_factory: Option<Arc<dyn FileChecksumGenFactory>> = None, with FileChecksumGenFactoryCodec;
        /// Flush compares the number of entries read with the memtable's counter; mismatch is Corruption.
        flush_verify_memtable_count: bool = true;
        /// Follower mode: attempts per catch-up.
        follower_catchup_retry_count: u64 = 10 => new inert;
        /// Follower mode: wait between attempts.
        follower_catchup_retry_wait_ms: u64 = 100 => new inert;
        /// Follower mode: catch-up period.
        follower_refresh_catchup_period_ms: u64 = 10_000 => new inert;
        /// Destination of informational messages; none means the file `LOG` in the database's directory or `db_log_dir`.
        info_log: Option<Arc<dyn Logger>> = None, with Memory;
        /// Minimum severity written.
        info_log_level: InfoLogLevel = InfoLogLevel::Info;
        /// Set close-on-exec on file descriptors.
        is_fd_close_on_exec: bool = true => inert;
        /// Info log files kept; must be > 0.
        keep_log_file_num: usize = 1000;
        /// Who is told what happens; called in this order.
        listeners: Vec<Arc<dyn EventListener>> = Vec::new(), with ListenersCodec => never;
        /// Roll the info log after this many seconds (0 = never by time).
        log_file_time_to_roll: usize = 0;
        /// Readahead for MANIFEST and WAL at open.
        log_readahead_size: usize = 0 => inert;
        /// Lowest cache tier consulted.
        lowest_used_cache_tier: CacheTier = CacheTier::NonVolatileBlockTier => inert;
        /// Preallocation of the MANIFEST file.
        manifest_preallocation_size: usize = 4_194_304 => mutable inert;
        /// WAL is buffered until FlushWAL is called.
        manual_wal_flush: bool = false;
        /// Deprecated explicit compaction limit.
        max_background_compactions: i32 = -1 => mutable;
        /// Deprecated explicit flush limit.
        max_background_flushes: i32 = -1 => mutable;
        /// Total background jobs; split between flush and compaction (see 06 section 6).
        max_background_jobs: i32 = 2 => mutable;
        /// Automatic resume attempts after retryable I/O errors.
        max_bgerror_resume_count: i32 = 2_147_483_647;
        /// Upper bound of the period between compaction-score re-evaluations.
        max_compaction_trigger_wakeup_seconds: u64 = 43_200 => mutable new;
        /// Threads used to open tables at DB open when max_open_files = -1.
        max_file_opening_threads: i32 = 16 => inert;
        /// Roll the info log at this size (0 = never by size).
        max_log_file_size: usize = 0;
        /// Lower bound of the size at which the MANIFEST is rewritten.
        max_manifest_file_size: u64 = 1_073_741_824 => mutable;
        /// MANIFEST is rewritten when size > max(max_manifest_file_size, est_compacted x (1 + pct/100)).
        max_manifest_space_amp_pct: i32 = 500 => mutable new;
        /// Capacity of the table cache; -1 keeps all files open.
        max_open_files: i32 = -1 => mutable;
        /// Maximum parallel parts of one compaction.
        max_subcompactions: u32 = 1 => mutable;
        /// Total live WAL size that forces flushes of the CFs pinning the oldest WAL (only with > 1 CF).
        max_total_wal_size: u64 = 0 => mutable;
        /// Maximum bytes in one write group; small leaders limit to size + 1/8 of it.
        max_write_batch_group_size_bytes: u64 = 1_048_576;
        /// Temperature hint for files other than SST, blob, WAL.
        metadata_write_temperature: Temperature = Temperature::Unknown => new inert;
        /// Open tables in the background after DB open returns; needs skip_stats_update_on_db_open; not with FIFO.
        open_files_async: bool = false => new inert;
        /// Best-effort reduction of recovery work after a clean shutdown.
        optimize_manifest_for_recovery: bool = false => mutable new inert;
        /// Fail / go read-only on detected inconsistency instead of continuing.
        paranoid_checks: bool = true;
        /// Keep the stats history in a hidden column family instead of memory.
        persist_stats_to_disk: bool = false => inert;
        /// Iterators ignore the prefix extractor unless prefix_same_as_start or auto_prefix_mode.
        prefix_seek_opt_in_only: bool = false => new;
        /// Limits the input and output of flushes and compactions; none means no limit. Under the key
        /// `rate_limiter_bytes_per_sec`, text makes a limiter of that rate.
        rate_limiter as "rate_limiter_bytes_per_sec": Option<Arc<dyn RateLimiter>> = None, with RateLimiterCodec
            => parse_only never;
        /// Size of the shared executor for asynchronous reads; must be > 0.
        read_io_executor_threads: i32 = 1 => new inert;
        /// Obsolete WAL files kept for reuse.
        recycle_log_file_num: usize = 0;
        /// Append to the existing MANIFEST after open when possible.
        reuse_manifest_on_open: bool = false => new inert;
        /// Knows the tables of all databases that share it, limits their space and deletes them at a rate. None makes one of
        /// its own, without limits. It must be made over the file system of `env`.
        sst_file_manager: Option<Arc<SstFileManager>> = None, with Memory;
        /// Do not read table properties of many files at open.
        skip_stats_update_on_db_open: bool = false => inert;
        /// Counts what happens; none means that nothing is counted.
        statistics: Option<Arc<Statistics>> = None, with StatisticsCodec => parse_only never;
        /// Period of the stats dump to the info log (0 = off).
        stats_dump_period_sec: u32 = 600 => mutable;
        /// Memory bound of the in-memory stats history.
        stats_history_buffer_size: usize = 1_048_576 => mutable;
        /// Period of ticker snapshots to the stats history (0 = off).
        stats_persist_period_sec: u32 = 600 => mutable;
        /// Wait for earlier range syncs before issuing more.
        strict_bytes_per_sync: bool = false => mutable;
        /// log2 of table cache shards.
        table_cache_numshardbits: i32 = 6;
        /// Each WAL carries data about its predecessor; recovery verifies that no WAL is missing.
        track_and_verify_wals: bool = false => new;
        /// Record synced WAL sizes in the MANIFEST and check them on recovery.
        track_and_verify_wals_in_manifest: bool = false;
        /// Second queue for WAL-only writes (2PC prepare).
        two_write_queues: bool = false => inert;
        /// Relax ordering between WAL and memtable writes for throughput.
        unordered_write: bool = false => inert;
        /// Spin before blocking on the DB mutex.
        use_adaptive_mutex: bool = false => inert;
        /// O_DIRECT for compaction input only.
        use_direct_io_for_compaction_reads: bool = false => new inert;
        /// O_DIRECT for background writes.
        use_direct_io_for_flush_and_compaction: bool = false;
        /// O_DIRECT for reads.
        use_direct_reads: bool = false;
        /// Use fsync instead of fdatasync.
        use_fsync: bool = false;
        /// Re-read the MANIFEST on close and rewrite it when damaged.
        verify_manifest_content_on_close: bool = false => mutable new inert;
        /// On opening a table compare its unique id with the one stored in the MANIFEST.
        verify_sst_unique_id_in_manifest: bool = true;
        /// Incremental range sync of WAL files every N bytes (0 = off).
        wal_bytes_per_sync: u64 = 0 => mutable;
        /// Streaming compression of WAL records; only kZSTD is effective.
        wal_compression: CompressionType = CompressionType::None;
        /// Directory of WAL files.
        wal_dir: String = String::new();
        /// Inspects WAL records during recovery.
        wal_filter: UnsupportedObject = UnsupportedObject(None) => never inert;
        /// Reaction to corrupted WAL content.
        wal_recovery_mode: WalRecoveryMode = WalRecoveryMode::PointInTimeRecovery;
        /// Archive obsolete WALs and delete oldest beyond this total size.
        wal_size_limit_mb as "WAL_size_limit_MB": u64 = 0;
        /// Archive obsolete WALs and delete them after this age.
        wal_ttl_seconds as "WAL_ttl_seconds": u64 = 0;
        /// Temperature hint for WAL files.
        wal_write_temperature: Temperature = Temperature::Unknown => new inert;
        /// Write buffer of file writers.
        writable_file_max_buffer_size: usize = 1_048_576 => mutable;
        /// Store the DB id in the MANIFEST.
        write_dbid_to_manifest: bool = true;
        /// Write the IDENTITY file.
        write_identity_file: bool = true => new;
        /// Maximum spinning time of a writer.
        write_thread_max_yield_usec: u64 = 100 => inert;
        /// Yield latency that signals CPU contention.
        write_thread_slow_yield_usec: u64 = 3 => inert;
        /// Text of options that are not acted on.
        kept: KeptOptions = KeptOptions::default(), with Kept;
    }
    retired {
        "allow_os_buffer", "base_background_compactions", "access_hint_on_compaction_start", "concurrent_prepare",
        "disable_data_sync", "disableDataSync", "experimental_allow_mempurge", "experimental_mempurge_policy",
        "experimental_mempurge_threshold", "fail_if_options_file_error", "new_table_reader_for_compaction_inputs",
        "preserve_deletes", "random_access_max_buffer_size", "rate_limiter", "seq_per_batch",
        "skip_checking_sst_file_sizes_on_db_open", "skip_log_error_on_recovery", "use_direct_writes",
    }
}
