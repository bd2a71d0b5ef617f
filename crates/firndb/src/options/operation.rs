//! Options of single operations. They live in memory only and have no text.

use firn_env::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::Duration;

use firn_env::IoPriority;
use firn_format::compression::CompressionType;

use super::enums::{BlobGarbageCollectionPolicy, BottommostLevelCompaction, ReadTier, Temperature};

/// Options of reads: gets and iterators.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Read as of this sequence number, which a live snapshot must protect. Default: none, the latest at the call.
    pub snapshot: Option<crate::Snapshot>,
    /// Upper bound of user timestamps. Default: none.
    pub timestamp: Option<Vec<u8>>,
    /// Lower bound of user timestamps: iterators return every version between. Default: none.
    pub iter_start_ts: Option<Vec<u8>>,
    /// Absolute deadline since the epoch; zero is none. Default: zero.
    pub deadline: Duration,
    /// Timeout of each file read; zero is none. Default: zero.
    pub io_timeout: Duration,
    /// Where to look. Default: everywhere.
    pub read_tier: ReadTier,
    /// Priority of reads under a rate limiter. Default: not limited.
    pub rate_limiter_priority: IoPriority,
    /// Total bytes of values in one `multi_get` after which the remaining keys are `Aborted`. Default: no limit.
    pub value_size_soft_limit: u64,
    /// Merge operands beyond which a get reports their number as excessive. Default: none.
    pub merge_operand_count_threshold: Option<usize>,
    /// Verify block checksums. Default: true.
    pub verify_checksums: bool,
    /// Put blocks that were read into the block cache. Default: true.
    pub fill_cache: bool,
    /// Skip range tombstones. Default: false.
    pub ignore_range_deletions: bool,
    /// Prefetch asynchronously. Default: false.
    pub async_io: bool,
    /// Let `multi_get` read several levels at once; needs `async_io`. Default: true.
    pub optimize_multiget_for_io: bool,
    /// Read-ahead of iterators in bytes; 0 is automatic. Default: 0.
    pub readahead_size: usize,
    /// Internal keys that an iterator may skip before it is `Incomplete`; 0 is no limit. Default: 0.
    pub max_skippable_internal_keys: u64,
    /// First key that an iterator shows. Default: none.
    pub iterate_lower_bound: Option<Vec<u8>>,
    /// First key that an iterator does not show any more. Default: none.
    pub iterate_upper_bound: Option<Vec<u8>>,
    /// An iterator that sees later writes. Default: false.
    pub tailing: bool,
    /// Ignore prefix filters and prefix indexes. Default: false.
    pub total_order_seek: bool,
    /// Use prefix filters where that changes no result. Default: false.
    pub auto_prefix_mode: bool,
    /// End an iterator where the prefix of the seek key ends. Default: false.
    pub prefix_same_as_start: bool,
    /// Let a cursor's property `rocksdb.iterator.is-value-pinned` tell which values
    /// [`Cursor::pinned_value`](crate::Cursor::pinned_value) keeps without a copy; it keeps them with and without this.
    /// Default: false.
    pub pin_data: bool,
    /// Keep the read-ahead state when an iterator enters the next file. Default: false.
    pub adaptive_readahead: bool,
    /// Delete obsolete files in the background when an iterator ends. Default: false.
    pub background_purge_on_iterator_cleanup: bool,
    /// Shorten read-ahead where the upper bound or the prefix ends. Default: true.
    pub auto_readahead_size: bool,
    /// Load large values only when asked for. Default: false.
    pub allow_unprepared_value: bool,
    /// Let long-lived iterators move to the newest version of the files. Default: false.
    pub auto_refresh_iterator_with_snapshot: bool,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            snapshot: None,
            timestamp: None,
            iter_start_ts: None,
            deadline: Duration::ZERO,
            io_timeout: Duration::ZERO,
            read_tier: ReadTier::All,
            rate_limiter_priority: IoPriority::Unlimited,
            value_size_soft_limit: u64::MAX,
            merge_operand_count_threshold: None,
            verify_checksums: true,
            fill_cache: true,
            ignore_range_deletions: false,
            async_io: false,
            optimize_multiget_for_io: true,
            readahead_size: 0,
            max_skippable_internal_keys: 0,
            iterate_lower_bound: None,
            iterate_upper_bound: None,
            tailing: false,
            total_order_seek: false,
            auto_prefix_mode: false,
            prefix_same_as_start: false,
            pin_data: false,
            adaptive_readahead: false,
            background_purge_on_iterator_cleanup: false,
            auto_readahead_size: true,
            allow_unprepared_value: false,
            auto_refresh_iterator_with_snapshot: false,
        }
    }
}

/// Options of writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Make the write survive a crash of the machine before it returns. Default: false.
    pub sync: bool,
    /// Skip the WAL: the write is lost when the process ends before a flush. Not together with `sync`. Default: false.
    pub disable_wal: bool,
    /// Ignore records for column families that were dropped. Default: false.
    pub ignore_missing_column_families: bool,
    /// Fail with `Incomplete` instead of waiting when writes are slowed down. Beside a flush, whose pace others keep, such
    /// writes pass. Default: false.
    pub no_slowdown: bool,
    /// Yield to other writes when compaction lags behind. Default: false.
    pub low_pri: bool,
    /// Remember insert positions of a batch; good for sorted batches. Default: false.
    pub memtable_insert_hint_per_batch: bool,
    /// Priority of WAL writes under a rate limiter: `User` or `Unlimited`. Default: not limited.
    pub rate_limiter_priority: IoPriority,
    /// Bytes kept with each update of the batch, to notice when it changes before it is in the memtable: 0 or 8.
    /// Default: 0.
    pub protection_bytes_per_key: usize,
}

/// Options of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushOptions {
    /// Return when the flush is done. Default: true.
    pub wait: bool,
    /// Flush at once even if that stalls writes. Default: false.
    pub allow_write_stall: bool,
    /// Flush the named column families atomically even where `atomic_flush` is off. Default: false.
    pub force_atomic_flush: bool,
    /// Return only when listeners were told that the flush is done; for flushes that wait. Default: false.
    pub listener_wait: bool,
}

impl Default for FlushOptions {
    fn default() -> Self {
        Self { wait: true, allow_write_stall: false, force_atomic_flush: false, listener_wait: false }
    }
}

/// Options of a manual compaction.
#[derive(Clone, Debug)]
pub struct CompactRangeOptions {
    /// Let no automatic compaction run beside it. Default: false.
    pub exclusive_manual_compaction: bool,
    /// Move the result to `target_level`. Default: false.
    pub change_level: bool,
    /// The level for `change_level`; negative is the lowest that can hold it. Default: -1.
    pub target_level: i32,
    /// Index into `db_paths` for the results. Default: 0.
    pub target_path_id: u32,
    /// Whether the bottommost level is rewritten. Default: when there is a compaction filter.
    pub bottommost_level_compaction: BottommostLevelCompaction,
    /// Start at once even if that stalls writes. Default: false.
    pub allow_write_stall: bool,
    /// Parallel parts; 0 is the database's `max_subcompactions`. Default: 0.
    pub max_subcompactions: u32,
    /// History of user timestamps below this may be dropped. Default: none.
    pub full_history_ts_low: Option<Vec<u8>>,
    /// Set from another thread to stop the compaction. Default: none.
    pub canceled: Option<Arc<AtomicBool>>,
    /// Garbage collection of blob files. Default: as the column family says.
    pub blob_garbage_collection_policy: BlobGarbageCollectionPolicy,
    /// Oldest fraction of blob files to collect; outside [0, 1] the column family's option counts. Default: -1.
    pub blob_garbage_collection_age_cutoff: f64,
}

impl Default for CompactRangeOptions {
    fn default() -> Self {
        Self {
            exclusive_manual_compaction: false,
            change_level: false,
            target_level: -1,
            target_path_id: 0,
            bottommost_level_compaction: BottommostLevelCompaction::IfHaveCompactionFilter,
            allow_write_stall: false,
            max_subcompactions: 0,
            full_history_ts_low: None,
            canceled: None,
            blob_garbage_collection_policy: BlobGarbageCollectionPolicy::UseDefault,
            blob_garbage_collection_age_cutoff: -1.0,
        }
    }
}

/// Options of compacting named files.
#[derive(Clone, Debug)]
pub struct CompactionOptions {
    /// Compression of the outputs; `DisableOption` is as the column family says. Default: that.
    pub compression: CompressionType,
    /// Greatest size of an output in bytes. Default: no limit.
    pub output_file_size_limit: u64,
    /// Parallel parts; 0 is the database's `max_subcompactions`. Default: 0.
    pub max_subcompactions: u32,
    /// Set from another thread to stop the compaction. Default: none.
    pub canceled: Option<Arc<AtomicBool>>,
    /// Temperature of the outputs; `Unknown` is as the column family says. Default: that.
    pub output_temperature_override: Temperature,
    /// Move files instead of rewriting them where possible. Default: false.
    pub allow_trivial_move: bool,
}

impl Default for CompactionOptions {
    fn default() -> Self {
        Self {
            compression: CompressionType::DisableOption,
            output_file_size_limit: u64::MAX,
            max_subcompactions: 0,
            canceled: None,
            output_temperature_override: Temperature::Unknown,
            allow_trivial_move: false,
        }
    }
}

/// Options of adding tables that were written outside the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IngestExternalFileOptions {
    /// Move the files instead of copying them. Default: false.
    pub move_files: bool,
    /// Hard-link the files; not together with `move_files`. Default: false.
    pub link_files: bool,
    /// Copy when moving fails. Default: true.
    pub failed_move_fall_back_to_copy: bool,
    /// Hide the files from snapshots taken before. Default: true.
    pub snapshot_consistency: bool,
    /// Allow the files to get a sequence number of their own. Default: true.
    pub allow_global_seqno: bool,
    /// Flush the memtable when it overlaps the files; otherwise fail. Default: true.
    pub allow_blocking_flush: bool,
    /// Put the files below everything, behind existing keys. Default: false.
    pub ingest_behind: bool,
    /// Write the sequence number into the files. Default: false.
    pub write_global_seqno: bool,
    /// Verify every block before. Default: false.
    pub verify_checksums_before_ingest: bool,
    /// Read-ahead of that verification in bytes; 0 is the default. Default: 0.
    pub verify_checksums_readahead_size: usize,
    /// Verify whole-file checksums. Default: true.
    pub verify_file_checksum: bool,
    /// Fail with `TryAgain` when the files do not fit into the bottommost level. Default: false.
    pub fail_if_not_bottommost_level: bool,
    /// Allow files that a database wrote. Default: false.
    pub allow_db_generated_files: bool,
    /// Put blocks read meanwhile into the block cache. Default: true.
    pub fill_cache: bool,
}

impl Default for IngestExternalFileOptions {
    fn default() -> Self {
        Self {
            move_files: false,
            link_files: false,
            failed_move_fall_back_to_copy: true,
            snapshot_consistency: true,
            allow_global_seqno: true,
            allow_blocking_flush: true,
            ingest_behind: false,
            write_global_seqno: false,
            verify_checksums_before_ingest: false,
            verify_checksums_readahead_size: 0,
            verify_file_checksum: true,
            fail_if_not_bottommost_level: false,
            allow_db_generated_files: false,
            fill_cache: true,
        }
    }
}

/// What an approximate size counts. Neither tables nor memtables is `InvalidArgument`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizeApproximationOptions {
    /// Count memtables. Default: false.
    pub include_memtables: bool,
    /// Count tables. Default: true.
    pub include_files: bool,
    /// Count blob files. Default: false.
    pub include_blob_files: bool,
    /// Relative error that is allowed in exchange for speed; negative is off. Default: -1.
    pub files_size_error_margin: f64,
}

impl Default for SizeApproximationOptions {
    fn default() -> Self {
        Self { include_memtables: false, include_files: true, include_blob_files: false, files_size_error_margin: -1.0 }
    }
}

/// Options of waiting until background work has caught up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitForCompactOptions {
    /// Fail with `Aborted` when background work is paused. Default: false.
    pub abort_on_pause: bool,
    /// Flush all memtables first. Default: false.
    pub flush: bool,
    /// Also wait for the deletion of obsolete files. Default: false.
    pub wait_for_purge: bool,
    /// Close the database afterwards. Default: false.
    pub close_db: bool,
    /// Give up with `TimedOut` after this time; zero is never. Default: zero.
    pub timeout: Duration,
}
