//! What the calling thread did: the perf context and the I/O statistics of RocksDB.
//!
//! Each thread counts for itself, at its own [`PerfLevel`]; the default counts events and bytes and reads no clock.

use std::cell::Cell;
use std::fmt::Write;

use firn_env::Clock;

use super::metrics;

/// How much the calling thread counts; the discriminants are RocksDB 11.9's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PerfLevel {
    /// Not set.
    Uninitialized = 0,
    /// Nothing.
    Disable = 1,
    /// Events and bytes.
    #[default]
    EnableCount = 2,
    /// And waits inside the write path.
    EnableWait = 3,
    /// And other times.
    EnableTimeExceptForMutex = 4,
    /// And processor times.
    EnableTimeAndCpuTimeExceptForMutex = 5,
    /// And waits for mutexes.
    EnableTime = 6,
}

/// The declaration of one counter of the perf context.
struct PerfDeclaration {
    level: u8,
    c_id: i16,
}

macro_rules! perf_metrics {
    ($($(#[$doc:meta])+ $variant:ident => $name:literal, $level:literal, $c_id:literal,)*) => {
        metrics! {
            /// A counter of the perf context.
            pub enum PerfMetric {
                $($(#[$doc])+ $variant => $name,)*
            }
        }

        const DECLARATIONS: [PerfDeclaration; PerfMetric::COUNT] =
            [$(PerfDeclaration { level: $level, c_id: $c_id }),*];
    };
}

perf_metrics! {
        /// User key comparisons.
        UserKeyComparisonCount => "user_key_comparison_count", 2, 0,
        /// Block cache hits.
        BlockCacheHitCount => "block_cache_hit_count", 2, 1,
        /// Blocks read with I/O.
        BlockReadCount => "block_read_count", 2, 2,
        /// Bytes of those reads.
        BlockReadByte => "block_read_byte", 2, 3,
        /// Time of those reads.
        BlockReadTime => "block_read_time", 4, 4,
        /// CPU time of those reads (not async).
        BlockReadCpuTime => "block_read_cpu_time", 5, 76,
        /// Index block hits.
        BlockCacheIndexHitCount => "block_cache_index_hit_count", 2, -1,
        /// Secondary cache hits returned as stand-alone handles.
        BlockCacheStandaloneHandleCount => "block_cache_standalone_handle_count", 2, -1,
        /// Secondary cache hits promoted into the primary cache.
        BlockCacheRealHandleCount => "block_cache_real_handle_count", 2, -1,
        /// Index blocks read.
        IndexBlockReadCount => "index_block_read_count", 2, -1,
        /// Filter block hits.
        BlockCacheFilterHitCount => "block_cache_filter_hit_count", 2, -1,
        /// Filter blocks read.
        FilterBlockReadCount => "filter_block_read_count", 2, -1,
        /// Dictionary blocks read.
        CompressionDictBlockReadCount => "compression_dict_block_read_count", 2, -1,
        /// Bytes of index blocks found in the cache.
        BlockCacheIndexReadByte => "block_cache_index_read_byte", 2, -1,
        /// Bytes of filter blocks found in the cache.
        BlockCacheFilterReadByte => "block_cache_filter_read_byte", 2, -1,
        /// Bytes of dictionaries found in the cache.
        BlockCacheCompressionDictReadByte => "block_cache_compression_dict_read_byte", 2, -1,
        /// Bytes of all blocks found in the cache.
        BlockCacheReadByte => "block_cache_read_byte", 2, -1,
        /// Secondary cache hits.
        SecondaryCacheHitCount => "secondary_cache_hit_count", 2, -1,
        /// Real entries inserted into the compressed secondary cache.
        CompressedSecCacheInsertRealCount => "compressed_sec_cache_insert_real_count", 2, -1,
        /// Placeholders inserted there.
        CompressedSecCacheInsertDummyCount => "compressed_sec_cache_insert_dummy_count", 2, -1,
        /// Bytes before its compression.
        CompressedSecCacheUncompressedBytes => "compressed_sec_cache_uncompressed_bytes", 2, -1,
        /// Bytes after its compression.
        CompressedSecCacheCompressedBytes => "compressed_sec_cache_compressed_bytes", 2, -1,
        /// Verifying block checksums.
        BlockChecksumTime => "block_checksum_time", 4, 5,
        /// Decompressing blocks.
        BlockDecompressTime => "block_decompress_time", 4, 6,
        /// Blocks decompressed.
        BlockDecompressCount => "block_decompress_count", 2, -1,
        /// Value bytes returned by Get.
        GetReadBytes => "get_read_bytes", 2, 7,
        /// Value bytes returned by MultiGet.
        MultigetReadBytes => "multiget_read_bytes", 2, 8,
        /// Key + value bytes returned by iterators.
        IterReadBytes => "iter_read_bytes", 2, 9,
        /// Blob cache hits.
        BlobCacheHitCount => "blob_cache_hit_count", 2, 69,
        /// Bytes read from the blob cache.
        BlobCacheReadByte => "blob_cache_read_byte", 2, 83,
        /// Blobs read with I/O.
        BlobReadCount => "blob_read_count", 2, 70,
        /// Bytes of those reads.
        BlobReadByte => "blob_read_byte", 2, 71,
        /// Time of those reads.
        BlobReadTime => "blob_read_time", 4, 72,
        /// Verifying blob checksums.
        BlobChecksumTime => "blob_checksum_time", 4, 73,
        /// Decompressing blobs.
        BlobDecompressTime => "blob_decompress_time", 4, 74,
        /// Internal keys skipped by iterators (re-positioning, overwritten versions; not tombstones).
        InternalKeySkippedCount => "internal_key_skipped_count", 2, 10,
        /// Delete / SingleDelete tombstones skipped by iterators.
        InternalDeleteSkippedCount => "internal_delete_skipped_count", 2, 11,
        /// Entries newer than the snapshot skipped by iterators.
        InternalRecentSkippedCount => "internal_recent_skipped_count", 2, 12,
        /// Operands merged by iterators.
        InternalMergeCount => "internal_merge_count", 2, 13,
        /// Operands merged by point lookups.
        InternalMergePointLookupCount => "internal_merge_point_lookup_count", 2, 77,
        /// Reseeks caused by range tombstones.
        InternalRangeDelReseekCount => "internal_range_del_reseek_count", 2, 75,
        /// Obtaining the snapshot / super version.
        GetSnapshotTime => "get_snapshot_time", 4, 14,
        /// Searching memtables.
        GetFromMemtableTime => "get_from_memtable_time", 4, 15,
        /// Memtables searched.
        GetFromMemtableCount => "get_from_memtable_count", 2, 16,
        /// After the key was found.
        GetPostProcessTime => "get_post_process_time", 4, 17,
        /// Searching SSTs in Get.
        GetFromOutputFilesTime => "get_from_output_files_time", 4, 18,
        /// Seeks on memtables.
        SeekOnMemtableTime => "seek_on_memtable_time", 4, 19,
        /// Seeks on memtables.
        SeekOnMemtableCount => "seek_on_memtable_count", 2, 20,
        /// Next on memtables.
        NextOnMemtableCount => "next_on_memtable_count", 2, 21,
        /// Prev on memtables.
        PrevOnMemtableCount => "prev_on_memtable_count", 2, 22,
        /// Seeks of child iterators.
        SeekChildSeekTime => "seek_child_seek_time", 4, 23,
        /// Seeks of child iterators.
        SeekChildSeekCount => "seek_child_seek_count", 2, 24,
        /// Min heap work.
        SeekMinHeapTime => "seek_min_heap_time", 4, 25,
        /// Max heap work.
        SeekMaxHeapTime => "seek_max_heap_time", 4, 26,
        /// Internal seek as a whole.
        SeekInternalSeekTime => "seek_internal_seek_time", 4, 27,
        /// Searching the next visible entry.
        FindNextUserEntryTime => "find_next_user_entry_time", 4, 28,
        /// Writing the WAL.
        WriteWalTime => "write_wal_time", 4, 29,
        /// Inserting into memtables.
        WriteMemtableTime => "write_memtable_time", 3, 30,
        /// Delayed or stopped writes.
        WriteDelayTime => "write_delay_time", 3, 31,
        /// Switching memtable/WAL, scheduling work.
        WriteSchedulingFlushesCompactionsTime => "write_scheduling_flushes_compactions_time", 4, -1,
        /// Rest of a write.
        WritePreAndPostProcessTime => "write_pre_and_post_process_time", 4, 32,
        /// Waiting in the write queue.
        WriteThreadWaitNanos => "write_thread_wait_nanos", 3, -1,
        /// Acquiring the DB mutex.
        DbMutexLockNanos => "db_mutex_lock_nanos", 6, 33,
        /// Waiting on its condition variables.
        DbConditionWaitNanos => "db_condition_wait_nanos", 6, 34,
        /// Merge operator.
        MergeOperatorTimeNanos => "merge_operator_time_nanos", 4, 35,
        /// Obtaining index blocks.
        ReadIndexBlockNanos => "read_index_block_nanos", 4, 36,
        /// Obtaining filter blocks.
        ReadFilterBlockNanos => "read_filter_block_nanos", 4, 37,
        /// Creating data block iterators.
        NewTableBlockIterNanos => "new_table_block_iter_nanos", 4, 38,
        /// Creating table iterators.
        NewTableIteratorNanos => "new_table_iterator_nanos", 4, 39,
        /// Seeking inside blocks.
        BlockSeekNanos => "block_seek_nanos", 4, 40,
        /// Table cache lookups.
        FindTableNanos => "find_table_nanos", 4, 41,
        /// Memtable bloom positives.
        BloomMemtableHitCount => "bloom_memtable_hit_count", 2, 42,
        /// Memtable bloom negatives.
        BloomMemtableMissCount => "bloom_memtable_miss_count", 2, 43,
        /// SST filter positives.
        BloomSstHitCount => "bloom_sst_hit_count", 2, 44,
        /// SST filter negatives.
        BloomSstMissCount => "bloom_sst_miss_count", 2, 45,
        /// Waiting for transaction locks.
        KeyLockWaitTime => "key_lock_wait_time", 4, 46,
        /// Lock requests that had to wait.
        KeyLockWaitCount => "key_lock_wait_count", 2, 47,
        /// Time in this file system call; counted by an instrumented file system only.
        EnvNewSequentialFileNanos => "env_new_sequential_file_nanos", 4, 48,
        /// Time in this file system call; counted by an instrumented file system only.
        EnvNewRandomAccessFileNanos => "env_new_random_access_file_nanos", 4, 49,
        /// Time in this file system call; counted by an instrumented file system only.
        EnvNewWritableFileNanos => "env_new_writable_file_nanos", 4, 50,
        /// Time in this file system call; counted by an instrumented file system only.
        EnvReuseWritableFileNanos => "env_reuse_writable_file_nanos", 4, 51,
        /// Time in this file system call; counted by an instrumented file system only.
        EnvNewRandomRwFileNanos => "env_new_random_rw_file_nanos", 4, 52,
        /// Time in this file system call; counted by an instrumented file system only.
        EnvNewDirectoryNanos => "env_new_directory_nanos", 4, 53,
        /// Time in this file system call; counted by an instrumented file system only.
        EnvFileExistsNanos => "env_file_exists_nanos", 4, 54,
        /// Time in this file system call; counted by an instrumented file system only.
        EnvGetChildrenNanos => "env_get_children_nanos", 4, 55,
        /// Time in this file system call; counted by an instrumented file system only.
        EnvGetChildrenFileAttributesNanos => "env_get_children_file_attributes_nanos", 4, 56,
        /// Time in this file system call; counted by an instrumented file system only.
        EnvDeleteFileNanos => "env_delete_file_nanos", 4, 57,
        /// Time in this file system call; counted by an instrumented file system only.
        EnvCreateDirNanos => "env_create_dir_nanos", 4, 58,
        /// Time in this file system call; counted by an instrumented file system only.
        EnvCreateDirIfMissingNanos => "env_create_dir_if_missing_nanos", 4, 59,
        /// Time in this file system call; counted by an instrumented file system only.
        EnvDeleteDirNanos => "env_delete_dir_nanos", 4, 60,
        /// Time in this file system call; counted by an instrumented file system only.
        EnvGetFileSizeNanos => "env_get_file_size_nanos", 4, 61,
        /// Time in this file system call; counted by an instrumented file system only.
        EnvGetFileModificationTimeNanos => "env_get_file_modification_time_nanos", 4, 62,
        /// Time in this file system call; counted by an instrumented file system only.
        EnvRenameFileNanos => "env_rename_file_nanos", 4, 63,
        /// Time in this file system call; counted by an instrumented file system only.
        EnvLinkFileNanos => "env_link_file_nanos", 4, 64,
        /// Time in this file system call; counted by an instrumented file system only.
        EnvLockFileNanos => "env_lock_file_nanos", 4, 65,
        /// Time in this file system call; counted by an instrumented file system only.
        EnvUnlockFileNanos => "env_unlock_file_nanos", 4, 66,
        /// Time in this file system call; counted by an instrumented file system only.
        EnvNewLoggerNanos => "env_new_logger_nanos", 4, 67,
        /// CPU of Get.
        GetCpuNanos => "get_cpu_nanos", 5, -1,
        /// CPU of Next.
        IterNextCpuNanos => "iter_next_cpu_nanos", 5, -1,
        /// CPU of Prev.
        IterPrevCpuNanos => "iter_prev_cpu_nanos", 5, -1,
        /// CPU of all seeks.
        IterSeekCpuNanos => "iter_seek_cpu_nanos", 5, -1,
        /// Next calls.
        IterNextCount => "iter_next_count", 2, -1,
        /// Prev calls.
        IterPrevCount => "iter_prev_count", 2, -1,
        /// Seek calls.
        IterSeekCount => "iter_seek_count", 2, -1,
        /// Encrypting (encrypted env).
        EncryptDataNanos => "encrypt_data_nanos", 4, -1,
        /// Decrypting.
        DecryptDataNanos => "decrypt_data_nanos", 4, -1,
        /// Async seeks.
        NumberAsyncSeek => "number_async_seek", 2, 68,
        /// IngestExternalFile as a whole.
        FileIngestionNanos => "file_ingestion_nanos", 4, -1,
        /// Part of it during which writes were blocked.
        FileIngestionBlockingLiveWritesNanos => "file_ingestion_blocking_live_writes_nanos", 4, -1,
        /// Part of block_read_byte: data blocks.
        DataBlockReadByte => "data_block_read_byte", 2, 78,
        /// Index blocks.
        IndexBlockReadByte => "index_block_read_byte", 2, 79,
        /// Filter blocks.
        FilterBlockReadByte => "filter_block_read_byte", 2, 80,
        /// Dictionaries.
        CompressionDictBlockReadByte => "compression_dict_block_read_byte", 2, 81,
        /// Other meta blocks.
        MetadataBlockReadByte => "metadata_block_read_byte", 2, 82,
        /// MultiScan Prepare calls.
        MultiscanPrepareCount => "multiscan_prepare_count", 2, -1,
        /// Blocks for which a prefetch read was issued.
        MultiscanBlocksPrefetched => "multiscan_blocks_prefetched", 2, -1,
        /// Blocks already cached.
        MultiscanBlocksFromCache => "multiscan_blocks_from_cache", 2, -1,
        /// Bytes spanned by prefetch reads.
        MultiscanPrefetchBytes => "multiscan_prefetch_bytes", 2, -1,
        /// Prefetch reads issued.
        MultiscanIoRequests => "multiscan_io_requests", 2, -1,
        /// Blocks merged into a read across a gap.
        MultiscanIoCoalescedNonadjacent => "multiscan_io_coalesced_nonadjacent", 2, -1,
}

metrics! {
    /// A counter of the I/O statistics.
    pub enum IoMetric {
        /// Bytes read.
        BytesRead => "bytes_read",
        /// Bytes written.
        BytesWritten => "bytes_written",
        /// Opening files.
        OpenNanos => "open_nanos",
        /// Preallocation.
        AllocateNanos => "allocate_nanos",
        /// Write calls.
        WriteNanos => "write_nanos",
        /// Read calls.
        ReadNanos => "read_nanos",
        /// Range syncs.
        RangeSyncNanos => "range_sync_nanos",
        /// Syncs.
        FsyncNanos => "fsync_nanos",
        /// Preparing writes.
        PrepareWriteNanos => "prepare_write_nanos",
        /// Writing the info log.
        LoggerNanos => "logger_nanos",
        /// Processor time of writes.
        CpuWriteNanos => "cpu_write_nanos",
        /// Processor time of reads.
        CpuReadNanos => "cpu_read_nanos",
        /// Bytes read from hot files.
        HotFileBytesRead => "file_io_stats_by_temperature.hot_file_bytes_read",
        /// Bytes read from warm files.
        WarmFileBytesRead => "file_io_stats_by_temperature.warm_file_bytes_read",
        /// Bytes read from cool files.
        CoolFileBytesRead => "file_io_stats_by_temperature.cool_file_bytes_read",
        /// Bytes read from cold files.
        ColdFileBytesRead => "file_io_stats_by_temperature.cold_file_bytes_read",
        /// Reads of hot files.
        HotFileReadCount => "file_io_stats_by_temperature.hot_file_read_count",
        /// Reads of warm files.
        WarmFileReadCount => "file_io_stats_by_temperature.warm_file_read_count",
        /// Reads of cool files.
        CoolFileReadCount => "file_io_stats_by_temperature.cool_file_read_count",
        /// Reads of cold files.
        ColdFileReadCount => "file_io_stats_by_temperature.cold_file_read_count",
    }
}

impl PerfMetric {
    /// The least perf level at which it is counted.
    pub fn level(self) -> u8 {
        DECLARATIONS[self as usize].level
    }

    /// The counter with this id in RocksDB's C interface.
    pub fn from_c_id(id: u32) -> Option<Self> {
        let position = DECLARATIONS.iter().position(|declared| u32::try_from(declared.c_id) == Ok(id));
        position.and_then(Self::from_number)
    }
}

thread_local! {
    static LEVEL: Cell<u8> = const { Cell::new(PerfLevel::EnableCount as u8) };
    static PERF: [Cell<u64>; PerfMetric::COUNT] = const { [const { Cell::new(0) }; PerfMetric::COUNT] };
    static IO: [Cell<u64>; IoMetric::COUNT] = const { [const { Cell::new(0) }; IoMetric::COUNT] };
}

/// The perf level of the calling thread.
pub fn perf_level() -> PerfLevel {
    match LEVEL.get() {
        0 => PerfLevel::Uninitialized,
        1 => PerfLevel::Disable,
        2 => PerfLevel::EnableCount,
        3 => PerfLevel::EnableWait,
        4 => PerfLevel::EnableTimeExceptForMutex,
        5 => PerfLevel::EnableTimeAndCpuTimeExceptForMutex,
        _ => PerfLevel::EnableTime,
    }
}

/// Changes the perf level of the calling thread.
pub fn set_perf_level(level: PerfLevel) {
    LEVEL.set(level as u8);
}

/// Adds to a counter of the calling thread, if its level counts it.
#[inline]
pub fn perf_add(metric: PerfMetric, count: u64) {
    if LEVEL.get() >= metric.level() {
        PERF.with(|counters| {
            let counter = &counters[metric as usize];
            counter.set(counter.get().wrapping_add(count));
        });
    }
}

/// Measures a duration in nanoseconds for a counter of the calling thread, if its level wants it; ends when dropped.
pub struct PerfTimer<'a> {
    running: Option<(PerfMetric, &'a dyn Clock, u64)>,
}

impl<'a> PerfTimer<'a> {
    /// Starts to measure; reads no clock when the duration is not wanted.
    #[inline]
    pub fn start(metric: PerfMetric, clock: &'a dyn Clock) -> Self {
        let wanted = LEVEL.get() >= metric.level();
        Self { running: wanted.then(|| (metric, clock, clock.now_nanos())) }
    }
}

impl Drop for PerfTimer<'_> {
    fn drop(&mut self) {
        if let Some((metric, clock, start)) = self.running {
            perf_add(metric, clock.now_nanos().saturating_sub(start));
        }
    }
}

/// The counters of a thread at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerfContext([u64; PerfMetric::COUNT]);

/// The counters of the calling thread.
pub fn perf_context() -> PerfContext {
    PERF.with(|counters| PerfContext(std::array::from_fn(|at| counters[at].get())))
}

/// Sets the counters of the calling thread to zero.
pub fn reset_perf_context() {
    PERF.with(|counters| counters.iter().for_each(|counter| counter.set(0)));
}

impl PerfContext {
    /// The value of a counter.
    pub fn get(&self, metric: PerfMetric) -> u64 {
        self.0[metric as usize]
    }

    /// RocksDB's text: `name = value, ...`.
    pub fn to_text(&self, exclude_zero: bool) -> String {
        join(PerfMetric::ALL.iter().map(|metric| (metric.name(), self.get(*metric))), exclude_zero)
    }
}

impl IoMetric {
    /// Adds to the counter of the calling thread.
    #[inline]
    pub fn add(self, count: u64) {
        IO.with(|counters| {
            let counter = &counters[self as usize];
            counter.set(counter.get().wrapping_add(count));
        });
    }
}

/// The I/O counters of a thread at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoStatsContext([u64; IoMetric::COUNT]);

/// The I/O counters of the calling thread.
pub fn io_stats() -> IoStatsContext {
    IO.with(|counters| IoStatsContext(std::array::from_fn(|at| counters[at].get())))
}

/// Sets the I/O counters of the calling thread to zero.
pub fn reset_io_stats() {
    IO.with(|counters| counters.iter().for_each(|counter| counter.set(0)));
}

impl IoStatsContext {
    /// RocksDB's number for a thread of no pool.
    const NO_POOL: u64 = 4;

    /// The value of a counter.
    pub fn get(&self, metric: IoMetric) -> u64 {
        self.0[metric as usize]
    }

    /// RocksDB's text: `name = value, ...`.
    pub fn to_text(&self, exclude_zero: bool) -> String {
        let counters = IoMetric::ALL.iter().map(|metric| (metric.name(), self.get(*metric)));
        join(std::iter::once(("thread_pool_id", Self::NO_POOL)).chain(counters), exclude_zero)
    }
}

fn join(counters: impl Iterator<Item = (&'static str, u64)>, exclude_zero: bool) -> String {
    let mut text = String::new();
    for (name, value) in counters.filter(|(_, value)| !exclude_zero || *value != 0) {
        let separator = if text.is_empty() { "" } else { ", " };
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}{name} = {value}");
    }
    text
}
