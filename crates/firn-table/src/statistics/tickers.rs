//! Tickers: counters that only grow, declared once: number, name and meaning.
//!
//! The order is RocksDB 11.9's and gives the numbers; names are what files, logs and properties use.

super::metrics! {
    /// A counter that only grows.
    pub enum Ticker {
        /// Block cache misses, all kinds.
        BlockCacheMiss => "rocksdb.block.cache.miss",
        /// Block cache hits, all kinds.
        BlockCacheHit => "rocksdb.block.cache.hit",
        /// Blocks inserted.
        BlockCacheAdd => "rocksdb.block.cache.add",
        /// Failed inserts.
        BlockCacheAddFailures => "rocksdb.block.cache.add.failures",
        /// Index block misses.
        BlockCacheIndexMiss => "rocksdb.block.cache.index.miss",
        /// Index block hits.
        BlockCacheIndexHit => "rocksdb.block.cache.index.hit",
        /// Index blocks inserted.
        BlockCacheIndexAdd => "rocksdb.block.cache.index.add",
        /// Bytes of index blocks inserted.
        BlockCacheIndexBytesInsert => "rocksdb.block.cache.index.bytes.insert",
        /// Filter block misses.
        BlockCacheFilterMiss => "rocksdb.block.cache.filter.miss",
        /// Filter block hits.
        BlockCacheFilterHit => "rocksdb.block.cache.filter.hit",
        /// Filter blocks inserted.
        BlockCacheFilterAdd => "rocksdb.block.cache.filter.add",
        /// Bytes of filter blocks inserted.
        BlockCacheFilterBytesInsert => "rocksdb.block.cache.filter.bytes.insert",
        /// Data block misses.
        BlockCacheDataMiss => "rocksdb.block.cache.data.miss",
        /// Data block hits.
        BlockCacheDataHit => "rocksdb.block.cache.data.hit",
        /// Data blocks inserted.
        BlockCacheDataAdd => "rocksdb.block.cache.data.add",
        /// Bytes of data blocks inserted.
        BlockCacheDataBytesInsert => "rocksdb.block.cache.data.bytes.insert",
        /// Bytes read from the cache.
        BlockCacheBytesRead => "rocksdb.block.cache.bytes.read",
        /// Bytes inserted into the cache.
        BlockCacheBytesWrite => "rocksdb.block.cache.bytes.write",
        /// Dictionary misses.
        BlockCacheCompressionDictMiss => "rocksdb.block.cache.compression.dict.miss",
        /// Dictionary hits.
        BlockCacheCompressionDictHit => "rocksdb.block.cache.compression.dict.hit",
        /// Dictionaries inserted.
        BlockCacheCompressionDictAdd => "rocksdb.block.cache.compression.dict.add",
        /// Bytes of dictionaries inserted.
        BlockCacheCompressionDictBytesInsert => "rocksdb.block.cache.compression.dict.bytes.insert",
        /// Inserts that replaced an existing entry, all kinds.
        BlockCacheAddRedundant => "rocksdb.block.cache.add.redundant",
        /// Inserts that replaced an existing entry, index blocks.
        BlockCacheIndexAddRedundant => "rocksdb.block.cache.index.add.redundant",
        /// Inserts that replaced an existing entry, filter blocks.
        BlockCacheFilterAddRedundant => "rocksdb.block.cache.filter.add.redundant",
        /// Inserts that replaced an existing entry, data blocks.
        BlockCacheDataAddRedundant => "rocksdb.block.cache.data.add.redundant",
        /// Inserts that replaced an existing entry, dictionaries.
        BlockCacheCompressionDictAddRedundant => "rocksdb.block.cache.compression.dict.add.redundant",
        /// Secondary cache hits.
        SecondaryCacheHits => "rocksdb.secondary.cache.hits",
        /// Secondary cache hits, filter blocks.
        SecondaryCacheFilterHits => "rocksdb.secondary.cache.filter.hits",
        /// Secondary cache hits, index blocks.
        SecondaryCacheIndexHits => "rocksdb.secondary.cache.index.hits",
        /// Secondary cache hits, data blocks.
        SecondaryCacheDataHits => "rocksdb.secondary.cache.data.hits",
        /// Compressed secondary: placeholder hits.
        CompressedSecondaryCacheDummyHits => "rocksdb.compressed.secondary.cache.dummy.hits",
        /// Compressed secondary: hits.
        CompressedSecondaryCacheHits => "rocksdb.compressed.secondary.cache.hits",
        /// Entries promoted to the primary cache.
        CompressedSecondaryCachePromotions => "rocksdb.compressed.secondary.cache.promotions",
        /// Promotions skipped.
        CompressedSecondaryCachePromotionSkips => "rocksdb.compressed.secondary.cache.promotion.skips",
        /// Whole-key filter negatives (reads avoided).
        BloomFilterUseful => "rocksdb.bloom.filter.useful",
        /// Whole-key filter positives.
        BloomFilterFullPositive => "rocksdb.bloom.filter.full.positive",
        /// Positives with the key present.
        BloomFilterFullTruePositive => "rocksdb.bloom.filter.full.true.positive",
        /// Prefix filter queries in point lookups.
        BloomFilterPrefixChecked => "rocksdb.bloom.filter.prefix.checked",
        /// Prefix filter negatives in point lookups.
        BloomFilterPrefixUseful => "rocksdb.bloom.filter.prefix.useful",
        /// Prefix filter positives with the key present.
        BloomFilterPrefixTruePositive => "rocksdb.bloom.filter.prefix.true.positive",
        /// Persistent cache hits.
        PersistentCacheHit => "rocksdb.persistent.cache.hit",
        /// Persistent cache misses.
        PersistentCacheMiss => "rocksdb.persistent.cache.miss",
        /// Simulated cache hits.
        SimBlockCacheHit => "rocksdb.sim.block.cache.hit",
        /// Simulated cache misses.
        SimBlockCacheMiss => "rocksdb.sim.block.cache.miss",
        /// Get served by memtables.
        MemtableHit => "rocksdb.memtable.hit",
        /// Get not served by memtables.
        MemtableMiss => "rocksdb.memtable.miss",
        /// Get served by L0.
        L0Hit => "rocksdb.l0.hit",
        /// Get served by L1.
        L1Hit => "rocksdb.l1.hit",
        /// Get served by L2 and deeper.
        L2andupHit => "rocksdb.l2andup.hit",
        /// Entries dropped: newer version exists (incl. range delete cover).
        CompactionKeyDropNew => "rocksdb.compaction.key.drop.new",
        /// Entries dropped: obsolete delete.
        CompactionKeyDropObsolete => "rocksdb.compaction.key.drop.obsolete",
        /// Entries dropped: covered by range delete.
        CompactionKeyDropRangeDel => "rocksdb.compaction.key.drop.range_del",
        /// Entries dropped by compaction filter.
        CompactionKeyDropUser => "rocksdb.compaction.key.drop.user",
        /// Range deletes dropped as obsolete.
        CompactionRangeDelDropObsolete => "rocksdb.compaction.range_del.drop.obsolete",
        /// Deletes dropped early thanks to empty lower levels.
        CompactionOptimizedDelDropObsolete => "rocksdb.compaction.optimized.del.drop.obsolete",
        /// Compactions cancelled for lack of space.
        CompactionCancelled => "rocksdb.compaction.cancelled",
        /// Compactions aborted by request.
        CompactionAborted => "rocksdb.compaction.aborted",
        /// Keys written.
        NumberKeysWritten => "rocksdb.number.keys.written",
        /// Keys read by Get.
        NumberKeysRead => "rocksdb.number.keys.read",
        /// In-place updates.
        NumberKeysUpdated => "rocksdb.number.keys.updated",
        /// User bytes written.
        BytesWritten => "rocksdb.bytes.written",
        /// Value bytes returned by Get.
        BytesRead => "rocksdb.bytes.read",
        /// Iterator seeks.
        NumberDbSeek => "rocksdb.number.db.seek",
        /// Iterator Next calls.
        NumberDbNext => "rocksdb.number.db.next",
        /// Iterator Prev calls.
        NumberDbPrev => "rocksdb.number.db.prev",
        /// Seeks that found an entry.
        NumberDbSeekFound => "rocksdb.number.db.seek.found",
        /// Next that found an entry.
        NumberDbNextFound => "rocksdb.number.db.next.found",
        /// Prev that found an entry.
        NumberDbPrevFound => "rocksdb.number.db.prev.found",
        /// Key+value bytes returned by iterators.
        DbIterBytesRead => "rocksdb.db.iter.bytes.read",
        /// Internal entries skipped by iterators.
        NumberIterSkip => "rocksdb.number.iter.skip",
        /// Reseeks after skipping many versions.
        NumberReseeksIteration => "rocksdb.number.reseeks.iteration",
        /// Iterators created.
        NumIteratorCreated => "rocksdb.num.iterator.created",
        /// Iterators deleted.
        NumIteratorDeleted => "rocksdb.num.iterator.deleted",
        /// Table files opened.
        NoFileOpens => "rocksdb.no.file.opens",
        /// Table open errors.
        NoFileErrors => "rocksdb.no.file.errors",
        /// Microseconds writers were stalled.
        StallMicros => "rocksdb.stall.micros",
        /// Microseconds waiting for the DB mutex (level All).
        DbMutexWaitMicros => "rocksdb.db.mutex.wait.micros",
        /// MultiGet calls.
        NumberMultigetGet => "rocksdb.number.multiget.get",
        /// Keys requested by MultiGet.
        NumberMultigetKeysRead => "rocksdb.number.multiget.keys.read",
        /// Value bytes returned by MultiGet.
        NumberMultigetBytesRead => "rocksdb.number.multiget.bytes.read",
        /// Keys found by MultiGet.
        NumberMultigetKeysFound => "rocksdb.number.multiget.keys.found",
        /// Failed merges.
        NumberMergeFailures => "rocksdb.number.merge.failures",
        /// GetUpdatesSince calls.
        GetupdatessinceCalls => "rocksdb.getupdatessince.calls",
        /// WAL syncs.
        WalSynced => "rocksdb.wal.synced",
        /// Bytes written to WAL.
        WalBytes => "rocksdb.wal.bytes",
        /// WAL switches that used a precreated file.
        WalPrecreateHit => "rocksdb.wal.precreate.hit",
        /// WAL switches without one.
        WalPrecreateMiss => "rocksdb.wal.precreate.miss",
        /// WAL switches that waited for one.
        WalPrecreateWaited => "rocksdb.wal.precreate.waited",
        /// Microseconds of that wait.
        WalPrecreateWaitMicros => "rocksdb.wal.precreate.wait.micros",
        /// Failed precreations.
        WalPrecreateFailed => "rocksdb.wal.precreate.failed",
        /// Writes done by the calling thread.
        WriteSelf => "rocksdb.write.self",
        /// Writes done by another group leader.
        WriteOther => "rocksdb.write.other",
        /// Writes with WAL.
        WriteWal => "rocksdb.write.wal",
        /// Bytes read by compactions.
        CompactReadBytes => "rocksdb.compact.read.bytes",
        /// Bytes written by compactions.
        CompactWriteBytes => "rocksdb.compact.write.bytes",
        /// Bytes written by flushes.
        FlushWriteBytes => "rocksdb.flush.write.bytes",
        /// Read by compactions of marked files.
        CompactReadMarkedBytes => "rocksdb.compact.read.marked.bytes",
        /// Read by periodic compactions.
        CompactReadPeriodicBytes => "rocksdb.compact.read.periodic.bytes",
        /// Read by TTL compactions.
        CompactReadTtlBytes => "rocksdb.compact.read.ttl.bytes",
        /// Written by compactions of marked files.
        CompactWriteMarkedBytes => "rocksdb.compact.write.marked.bytes",
        /// Written by periodic compactions.
        CompactWritePeriodicBytes => "rocksdb.compact.write.periodic.bytes",
        /// Written by TTL compactions.
        CompactWriteTtlBytes => "rocksdb.compact.write.ttl.bytes",
        /// Properties loaded without a table reader.
        NumberDirectLoadTableProperties => "rocksdb.number.direct.load.table.properties",
        /// Super version acquisitions outside the thread cache.
        NumberSuperversionAcquires => "rocksdb.number.superversion_acquires",
        /// Super version releases.
        NumberSuperversionReleases => "rocksdb.number.superversion_releases",
        /// Super versions cleaned up.
        NumberSuperversionCleanups => "rocksdb.number.superversion_cleanups",
        /// Blocks compressed.
        NumberBlockCompressed => "rocksdb.number.block.compressed",
        /// Blocks decompressed.
        NumberBlockDecompressed => "rocksdb.number.block.decompressed",
        /// Input bytes of blocks stored compressed.
        BytesCompressedFrom => "rocksdb.bytes.compressed.from",
        /// Output bytes of those blocks.
        BytesCompressedTo => "rocksdb.bytes.compressed.to",
        /// Bytes stored uncompressed without trying.
        BytesCompressionBypassed => "rocksdb.bytes.compression_bypassed",
        /// Bytes stored uncompressed after rejection.
        BytesCompressionRejected => "rocksdb.bytes.compression.rejected",
        /// Blocks stored uncompressed without trying.
        NumberBlockCompressionBypassed => "rocksdb.number.block_compression_bypassed",
        /// Blocks stored uncompressed after rejection.
        NumberBlockCompressionRejected => "rocksdb.number.block_compression_rejected",
        /// Compressed bytes decompressed.
        BytesDecompressedFrom => "rocksdb.bytes.decompressed.from",
        /// Bytes produced by decompression.
        BytesDecompressedTo => "rocksdb.bytes.decompressed.to",
        /// Nanoseconds in merge operators.
        MergeOperationTimeNanos => "rocksdb.merge.operation.time.nanos",
        /// Nanoseconds in compaction filters.
        FilterOperationTimeNanos => "rocksdb.filter.operation.time.nanos",
        /// CPU microseconds of compactions.
        CompactionTotalTimeCpuMicros => "rocksdb.compaction.total.time.cpu_micros",
        /// Row cache hits.
        RowCacheHit => "rocksdb.row.cache.hit",
        /// Row cache misses.
        RowCacheMiss => "rocksdb.row.cache.miss",
        /// Estimated useful bytes of loaded data blocks.
        ReadAmpEstimateUsefulBytes => "rocksdb.read.amp.estimate.useful.bytes",
        /// Bytes of loaded data blocks.
        ReadAmpTotalReadBytes => "rocksdb.read.amp.total.read.bytes",
        /// Refill intervals with exhausted rate limiter.
        NumberRateLimiterDrains => "rocksdb.number.rate_limiter.drains",
        /// Bytes granted for reads.
        RateLimiterBytesRead => "rocksdb.rate.limiter.bytes.read",
        /// Bytes granted for writes.
        RateLimiterBytesWrite => "rocksdb.rate.limiter.bytes.write",
        /// Read requests.
        RateLimiterRequestsRead => "rocksdb.rate.limiter.requests.read",
        /// Write requests.
        RateLimiterRequestsWrite => "rocksdb.rate.limiter.requests.write",
        /// Delayed read requests.
        RateLimiterDelayedRequestsRead => "rocksdb.rate.limiter.delayed.requests.read",
        /// Delayed write requests.
        RateLimiterDelayedRequestsWrite => "rocksdb.rate.limiter.delayed.requests.write",
        /// Microseconds read requests waited.
        RateLimiterTotalWaitMicrosRead => "rocksdb.rate.limiter.total.wait.micros.read",
        /// Microseconds write requests waited.
        RateLimiterTotalWaitMicrosWrite => "rocksdb.rate.limiter.total.wait.micros.write",
        /// Legacy BlobDB puts.
        BlobdbNumPut => "rocksdb.blobdb.num.put",
        /// Legacy BlobDB writes.
        BlobdbNumWrite => "rocksdb.blobdb.num.write",
        /// Legacy BlobDB gets.
        BlobdbNumGet => "rocksdb.blobdb.num.get",
        /// Legacy BlobDB multigets.
        BlobdbNumMultiget => "rocksdb.blobdb.num.multiget",
        /// Legacy BlobDB seeks.
        BlobdbNumSeek => "rocksdb.blobdb.num.seek",
        /// Legacy BlobDB nexts.
        BlobdbNumNext => "rocksdb.blobdb.num.next",
        /// Legacy BlobDB prevs.
        BlobdbNumPrev => "rocksdb.blobdb.num.prev",
        /// Legacy BlobDB keys written.
        BlobdbNumKeysWritten => "rocksdb.blobdb.num.keys.written",
        /// Legacy BlobDB keys read.
        BlobdbNumKeysRead => "rocksdb.blobdb.num.keys.read",
        /// Legacy BlobDB bytes written.
        BlobdbBytesWritten => "rocksdb.blobdb.bytes.written",
        /// Legacy BlobDB bytes read.
        BlobdbBytesRead => "rocksdb.blobdb.bytes.read",
        /// Unused.
        BlobdbWriteInlined => "rocksdb.blobdb.write.inlined",
        /// Unused.
        BlobdbWriteInlinedTtl => "rocksdb.blobdb.write.inlined.ttl",
        /// Legacy: values written without TTL.
        BlobdbWriteBlob => "rocksdb.blobdb.write.blob",
        /// Legacy: values written with TTL.
        BlobdbWriteBlobTtl => "rocksdb.blobdb.write.blob.ttl",
        /// Bytes written to blob files.
        BlobdbBlobFileBytesWritten => "rocksdb.blobdb.blob.file.bytes.written",
        /// Bytes read from blob files.
        BlobdbBlobFileBytesRead => "rocksdb.blobdb.blob.file.bytes.read",
        /// Blob file syncs.
        BlobdbBlobFileSynced => "rocksdb.blobdb.blob.file.synced",
        /// Legacy: expired indexes evicted.
        BlobdbBlobIndexExpiredCount => "rocksdb.blobdb.blob.index.expired.count",
        /// Legacy: their bytes.
        BlobdbBlobIndexExpiredSize => "rocksdb.blobdb.blob.index.expired.size",
        /// Legacy: indexes of deleted files evicted.
        BlobdbBlobIndexEvictedCount => "rocksdb.blobdb.blob.index.evicted.count",
        /// Legacy: their bytes.
        BlobdbBlobIndexEvictedSize => "rocksdb.blobdb.blob.index.evicted.size",
        /// Legacy: files obsoleted by GC.
        BlobdbGcNumFiles => "rocksdb.blobdb.gc.num.files",
        /// Legacy: files created by GC.
        BlobdbGcNumNewFiles => "rocksdb.blobdb.gc.num.new.files",
        /// Legacy: GC failures.
        BlobdbGcFailures => "rocksdb.blobdb.gc.failures",
        /// Blobs relocated by GC.
        BlobdbGcNumKeysRelocated => "rocksdb.blobdb.gc.num.keys.relocated",
        /// Bytes relocated by GC.
        BlobdbGcBytesRelocated => "rocksdb.blobdb.gc.bytes.relocated",
        /// Legacy: files evicted when full.
        BlobdbFifoNumFilesEvicted => "rocksdb.blobdb.fifo.num.files.evicted",
        /// Legacy: keys in them.
        BlobdbFifoNumKeysEvicted => "rocksdb.blobdb.fifo.num.keys.evicted",
        /// Legacy: bytes in them.
        BlobdbFifoBytesEvicted => "rocksdb.blobdb.fifo.bytes.evicted",
        /// Blob cache misses.
        BlobdbCacheMiss => "rocksdb.blobdb.cache.miss",
        /// Blob cache hits.
        BlobdbCacheHit => "rocksdb.blobdb.cache.hit",
        /// Blobs inserted.
        BlobdbCacheAdd => "rocksdb.blobdb.cache.add",
        /// Failed inserts.
        BlobdbCacheAddFailures => "rocksdb.blobdb.cache.add.failures",
        /// Bytes read from blob cache.
        BlobdbCacheBytesRead => "rocksdb.blobdb.cache.bytes.read",
        /// Bytes inserted into blob cache.
        BlobdbCacheBytesWrite => "rocksdb.blobdb.cache.bytes.write",
        /// Write-prepared: prepare mutex in fast path.
        TxnOverheadMutexPrepare => "rocksdb.txn.overhead.mutex.prepare",
        /// Write-prepared: old commit map mutex in fast path.
        TxnOverheadMutexOldCommitMap => "rocksdb.txn.overhead.mutex.old.commit.map",
        /// Batches checked for duplicate keys.
        TxnOverheadDuplicateKey => "rocksdb.txn.overhead.duplicate.key",
        /// Write-prepared: snapshot mutex in fast path.
        TxnOverheadMutexSnapshot => "rocksdb.txn.overhead.mutex.snapshot",
        /// Get returned TryAgain.
        TxnGetTryagain => "rocksdb.txn.get.tryagain",
        /// Files renamed to trash.
        FilesMarkedTrash => "rocksdb.files.marked.trash",
        /// Trash files deleted.
        FilesMarkedTrashDeleted => "rocksdb.files.marked.trash.deleted",
        /// Files deleted at once.
        FilesDeletedImmediately => "rocksdb.files.deleted.immediately",
        /// Background errors.
        ErrorHandlerBgErrorCount => "rocksdb.error.handler.bg.error.count",
        /// Of which I/O errors.
        ErrorHandlerBgIoErrorCount => "rocksdb.error.handler.bg.io.error.count",
        /// Of which retryable.
        ErrorHandlerBgRetryableIoErrorCount => "rocksdb.error.handler.bg.retryable.io.error.count",
        /// Automatic resumes started.
        ErrorHandlerAutoresumeCount => "rocksdb.error.handler.autoresume.count",
        /// Resume retries.
        ErrorHandlerAutoresumeRetryTotalCount => "rocksdb.error.handler.autoresume.retry.total.count",
        /// Successful resumes.
        ErrorHandlerAutoresumeSuccessCount => "rocksdb.error.handler.autoresume.success.count",
        /// Payload bytes in memtables at flush.
        MemtablePayloadBytesAtFlush => "rocksdb.memtable.payload.bytes.at.flush",
        /// Of which obsolete.
        MemtableGarbageBytesAtFlush => "rocksdb.memtable.garbage.bytes.at.flush",
        /// Bytes read by checksum verification calls.
        VerifyChecksumReadBytes => "rocksdb.verify_checksum.read.bytes",
        /// Bytes read by backups.
        BackupReadBytes => "rocksdb.backup.read.bytes",
        /// Bytes written by backups.
        BackupWriteBytes => "rocksdb.backup.write.bytes",
        /// Bytes read by remote compactions.
        RemoteCompactReadBytes => "rocksdb.remote.compact.read.bytes",
        /// Bytes written by remote compactions.
        RemoteCompactWriteBytes => "rocksdb.remote.compact.write.bytes",
        /// Bytes of resumed remote output.
        RemoteCompactResumedBytes => "rocksdb.remote.compact.resumed.bytes",
        /// Bytes read from kHot files.
        HotFileReadBytes => "rocksdb.hot.file.read.bytes",
        /// Bytes read from kWarm files.
        WarmFileReadBytes => "rocksdb.warm.file.read.bytes",
        /// Bytes read from kCool files.
        CoolFileReadBytes => "rocksdb.cool.file.read.bytes",
        /// Bytes read from kCold files.
        ColdFileReadBytes => "rocksdb.cold.file.read.bytes",
        /// Bytes read from kIce files.
        IceFileReadBytes => "rocksdb.ice.file.read.bytes",
        /// Reads of kHot files.
        HotFileReadCount => "rocksdb.hot.file.read.count",
        /// Reads of kWarm files.
        WarmFileReadCount => "rocksdb.warm.file.read.count",
        /// Reads of kCool files.
        CoolFileReadCount => "rocksdb.cool.file.read.count",
        /// Reads of kCold files.
        ColdFileReadCount => "rocksdb.cold.file.read.count",
        /// Reads of kIce files.
        IceFileReadCount => "rocksdb.ice.file.read.count",
        /// Bytes read from last-level files.
        LastLevelReadBytes => "rocksdb.last.level.read.bytes",
        /// Reads of last-level files.
        LastLevelReadCount => "rocksdb.last.level.read.count",
        /// Bytes read from other levels.
        NonLastLevelReadBytes => "rocksdb.non.last.level.read.bytes",
        /// Reads of other levels.
        NonLastLevelReadCount => "rocksdb.non.last.level.read.count",
        /// Last level: seeks rejected by filter.
        LastLevelSeekFiltered => "rocksdb.last.level.seek.filtered",
        /// Last level: seeks passed by filter.
        LastLevelSeekFilterMatch => "rocksdb.last.level.seek.filter.match",
        /// Last level: seeks that touched data.
        LastLevelSeekData => "rocksdb.last.level.seek.data",
        /// Same, value used, no filter.
        LastLevelSeekDataUsefulNoFilter => "rocksdb.last.level.seek.data.useful.no.filter",
        /// Same, value used, after filter.
        LastLevelSeekDataUsefulFilterMatch => "rocksdb.last.level.seek.data.useful.filter.match",
        /// Other levels: rejected by filter.
        NonLastLevelSeekFiltered => "rocksdb.non.last.level.seek.filtered",
        /// Other levels: passed by filter.
        NonLastLevelSeekFilterMatch => "rocksdb.non.last.level.seek.filter.match",
        /// Other levels: touched data.
        NonLastLevelSeekData => "rocksdb.non.last.level.seek.data",
        /// Same, value used, no filter.
        NonLastLevelSeekDataUsefulNoFilter => "rocksdb.non.last.level.seek.data.useful.no.filter",
        /// Same, value used, after filter.
        NonLastLevelSeekDataUsefulFilterMatch => "rocksdb.non.last.level.seek.data.useful.filter.match",
        /// Block checksums verified.
        BlockChecksumComputeCount => "rocksdb.block.checksum.compute.count",
        /// Block checksum failures.
        BlockChecksumMismatchCount => "rocksdb.block.checksum.mismatch.count",
        /// MultiGet coroutines.
        MultigetCoroutineCount => "rocksdb.multiget.coroutine.count",
        /// Microseconds in asynchronous read submission.
        ReadAsyncMicros => "rocksdb.read.async.micros",
        /// Errors delivered to async read callbacks.
        AsyncReadErrorCount => "rocksdb.async.read.error.count",
        /// Table open: tail prefetch misses.
        TableOpenPrefetchTailMiss => "rocksdb.table.open.prefetch.tail.miss",
        /// Table open: tail prefetch hits.
        TableOpenPrefetchTailHit => "rocksdb.table.open.prefetch.tail.hit",
        /// Tables checked by timestamp range.
        TimestampFilterTableChecked => "rocksdb.timestamp.filter.table.checked",
        /// Tables skipped by timestamp range.
        TimestampFilterTableFiltered => "rocksdb.timestamp.filter.table.filtered",
        /// Readaheads trimmed by bound.
        ReadaheadTrimmed => "rocksdb.readahead.trimmed",
        /// FIFO drops by size.
        FifoMaxSizeCompactions => "rocksdb.fifo.max.size.compactions",
        /// FIFO drops by TTL.
        FifoTtlCompactions => "rocksdb.fifo.ttl.compactions",
        /// FIFO temperature changes.
        FifoChangeTemperatureCompactions => "rocksdb.fifo.change_temperature.compactions",
        /// Bytes prefetched by scans.
        PrefetchBytes => "rocksdb.prefetch.bytes",
        /// Of which used.
        PrefetchBytesUseful => "rocksdb.prefetch.bytes.useful",
        /// Reads served by prefetch.
        PrefetchHits => "rocksdb.prefetch.hits",
        /// Bad SST footers.
        FooterCorruptionCount => "rocksdb.footer.corruption.count",
        /// Reads retried with reconstruction.
        FileReadCorruptionRetryCount => "rocksdb.file.read.corruption.retry.count",
        /// Successful retries.
        FileReadCorruptionRetrySuccessCount => "rocksdb.file.read.corruption.retry.success.count",
        /// Batches ingested as memtables.
        NumberWbwiIngest => "rocksdb.number.wbwi.ingest",
        /// User-defined index load failures.
        SstUserDefinedIndexLoadFailCount => "rocksdb.sst.user.defined.index.load.fail.count",
        /// MultiScan Prepare calls.
        MultiscanPrepareCalls => "rocksdb.multiscan.prepare.calls",
        /// Failed ones.
        MultiscanPrepareErrors => "rocksdb.multiscan.prepare.errors",
        /// Blocks prefetched.
        MultiscanBlocksPrefetched => "rocksdb.multiscan.blocks.prefetched",
        /// Blocks found in cache.
        MultiscanBlocksFromCache => "rocksdb.multiscan.blocks.from.cache",
        /// Bytes prefetched.
        MultiscanPrefetchBytes => "rocksdb.multiscan.prefetch.bytes",
        /// Prefetched blocks never used.
        MultiscanPrefetchBlocksWasted => "rocksdb.multiscan.prefetch.blocks.wasted",
        /// I/O requests.
        MultiscanIoRequests => "rocksdb.multiscan.io.requests",
        /// Non-adjacent blocks merged into one I/O.
        MultiscanIoCoalescedNonadjacent => "rocksdb.multiscan.io.coalesced.nonadjacent",
        /// Failed seek validations.
        MultiscanSeekErrors => "rocksdb.multiscan.seek.errors",
        /// Prefetch memory granted.
        PrefetchMemoryBytesGranted => "rocksdb.prefetch.memory.bytes.granted",
        /// Prefetch memory released.
        PrefetchMemoryBytesReleased => "rocksdb.prefetch.memory.bytes.released",
        /// Requests blocked on memory.
        PrefetchMemoryRequestsBlocked => "rocksdb.prefetch.memory.requests.blocked",
        /// Range tombstones created by reads.
        ReadPathRangeTombstonesInserted => "rocksdb.read.path.range.tombstones.inserted",
        /// Such tombstones discarded.
        ReadPathRangeTombstonesDiscarded => "rocksdb.read.path.range.tombstones.discarded",
        /// File-open metadata obtained.
        FileOpenMetadataRetrieved => "rocksdb.file.open.metadata.retrieved",
        /// File-open metadata used.
        FileOpenMetadataPassed => "rocksdb.file.open.metadata.passed",
        /// Bad MANIFEST found at close.
        ManifestValidationFailureCount => "rocksdb.manifest.validation.failure.count",
        /// Flushes: memtable full.
        FlushReasonWriteBufferFull => "rocksdb.flush.reason.write_buffer_full",
        /// Flushes: write buffer manager.
        FlushReasonWriteBufferManager => "rocksdb.flush.reason.write_buffer_manager",
        /// Flushes: range delete limit.
        FlushReasonMemtableMaxRangeDeletions => "rocksdb.flush.reason.memtable_max_range_deletions",
        /// Atomic flush requests: memtable full.
        AtomicFlushRequestReasonWriteBufferFull => "rocksdb.atomic_flush.request.reason.write_buffer_full",
        /// Same: write buffer manager.
        AtomicFlushRequestReasonWriteBufferManager => "rocksdb.atomic_flush.request.reason.write_buffer_manager",
        /// Same: range delete limit.
        AtomicFlushRequestReasonMemtableMaxRangeDeletions => "rocksdb.atomic_flush.request.reason.memtable_max_range_deletions",
        /// Same: other.
        AtomicFlushRequestReasonOther => "rocksdb.atomic_flush.request.reason.other",
        /// Bytes read by checkpoints.
        CheckpointReadBytes => "rocksdb.checkpoint.read.bytes",
        /// Bytes written by checkpoints.
        CheckpointWriteBytes => "rocksdb.checkpoint.write.bytes",
        /// Async reads done synchronously.
        FileSubmitAsyncReadFallback => "rocksdb.file.submit.async.read.fallback",
        /// Lazy wide-column reads.
        BlobdbLazyReadCount => "rocksdb.blobdb.lazy.read.count",
        /// Their bytes.
        BlobdbLazyReadBytes => "rocksdb.blobdb.lazy.read.bytes",
        /// Partial ones.
        BlobdbLazyPartialReadCount => "rocksdb.blobdb.lazy.partial.read.count",
        /// Bytes saved by partial reads.
        BlobdbLazyPartialBytesSaved => "rocksdb.blobdb.lazy.partial.bytes.saved",
    }
}
