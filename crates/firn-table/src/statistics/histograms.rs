//! Histograms: distributions of samples, declared once: number, name and meaning.
//!
//! The order is RocksDB 11.9's and gives the numbers; names are what files, logs and properties use.

super::metrics! {
    /// A distribution of samples. Durations are microseconds unless the name says otherwise.
    pub enum HistogramKind {
        /// Get latency, us.
        DbGetMicros => "rocksdb.db.get.micros",
        /// Write latency, us.
        DbWriteMicros => "rocksdb.db.write.micros",
        /// Compaction wall time, us.
        CompactionTimesMicros => "rocksdb.compaction.times.micros",
        /// Compaction CPU time, us.
        CompactionTimesCpuMicros => "rocksdb.compaction.times.cpu_micros",
        /// Subcompaction setup, us.
        SubcompactionSetupTimesMicros => "rocksdb.subcompaction.setup.times.micros",
        /// Table sync (flush), us.
        TableSyncMicros => "rocksdb.table.sync.micros",
        /// Compaction output sync, us.
        CompactionOutfileSyncMicros => "rocksdb.compaction.outfile.sync.micros",
        /// WAL sync, us.
        WalFileSyncMicros => "rocksdb.wal.file.sync.micros",
        /// MANIFEST sync, us.
        ManifestFileSyncMicros => "rocksdb.manifest.file.sync.micros",
        /// Table open I/O, us.
        TableOpenIoMicros => "rocksdb.table.open.io.micros",
        /// MultiGet latency, us.
        DbMultigetMicros => "rocksdb.db.multiget.micros",
        /// Block read in compaction, us.
        ReadBlockCompactionMicros => "rocksdb.read.block.compaction.micros",
        /// Block read in Get, us.
        ReadBlockGetMicros => "rocksdb.read.block.get.micros",
        /// Block write, us.
        WriteRawBlockMicros => "rocksdb.write.raw.block.micros",
        /// Input files per compaction.
        NumfilesInSinglecompaction => "rocksdb.numfiles.in.singlecompaction",
        /// Iterator seek, us.
        DbSeekMicros => "rocksdb.db.seek.micros",
        /// Write stall, us.
        DbWriteStall => "rocksdb.db.write.stall",
        /// SST read, us.
        SstReadMicros => "rocksdb.sst.read.micros",
        /// File read for flush, us.
        FileReadFlushMicros => "rocksdb.file.read.flush.micros",
        /// File read for compaction, us.
        FileReadCompactionMicros => "rocksdb.file.read.compaction.micros",
        /// File read for DB open, us.
        FileReadDbOpenMicros => "rocksdb.file.read.db.open.micros",
        /// File read for Get, us.
        FileReadGetMicros => "rocksdb.file.read.get.micros",
        /// File read for MultiGet, us.
        FileReadMultigetMicros => "rocksdb.file.read.multiget.micros",
        /// File read for iterators, us.
        FileReadDbIteratorMicros => "rocksdb.file.read.db.iterator.micros",
        /// File read for VerifyChecksum, us.
        FileReadVerifyDbChecksumMicros => "rocksdb.file.read.verify.db.checksum.micros",
        /// File read for VerifyFileChecksums, us.
        FileReadVerifyFileChecksumsMicros => "rocksdb.file.read.verify.file.checksums.micros",
        /// SST write, us.
        SstWriteMicros => "rocksdb.sst.write.micros",
        /// File write for flush, us.
        FileWriteFlushMicros => "rocksdb.file.write.flush.micros",
        /// File write for compaction, us.
        FileWriteCompactionMicros => "rocksdb.file.write.compaction.micros",
        /// File write for DB open, us.
        FileWriteDbOpenMicros => "rocksdb.file.write.db.open.micros",
        /// Subcompactions per compaction.
        NumSubcompactionsScheduled => "rocksdb.num.subcompactions.scheduled",
        /// Value bytes per Get.
        BytesPerRead => "rocksdb.bytes.per.read",
        /// Batch bytes per write.
        BytesPerWrite => "rocksdb.bytes.per.write",
        /// Value bytes per MultiGet.
        BytesPerMultiget => "rocksdb.bytes.per.multiget",
        /// Compression, ns.
        CompressionTimesNanos => "rocksdb.compression.times.nanos",
        /// Decompression, ns.
        DecompressionTimesNanos => "rocksdb.decompression.times.nanos",
        /// Merge operands per read.
        ReadNumMergeOperands => "rocksdb.read.num.merge_operands",
        /// Legacy BlobDB key size.
        BlobdbKeySize => "rocksdb.blobdb.key.size",
        /// Legacy BlobDB value size.
        BlobdbValueSize => "rocksdb.blobdb.value.size",
        /// Legacy BlobDB write, us.
        BlobdbWriteMicros => "rocksdb.blobdb.write.micros",
        /// Legacy BlobDB get, us.
        BlobdbGetMicros => "rocksdb.blobdb.get.micros",
        /// Legacy BlobDB multiget, us.
        BlobdbMultigetMicros => "rocksdb.blobdb.multiget.micros",
        /// Legacy BlobDB seek, us.
        BlobdbSeekMicros => "rocksdb.blobdb.seek.micros",
        /// Legacy BlobDB next, us.
        BlobdbNextMicros => "rocksdb.blobdb.next.micros",
        /// Legacy BlobDB prev, us.
        BlobdbPrevMicros => "rocksdb.blobdb.prev.micros",
        /// Blob file write, us.
        BlobdbBlobFileWriteMicros => "rocksdb.blobdb.blob.file.write.micros",
        /// Blob file read, us.
        BlobdbBlobFileReadMicros => "rocksdb.blobdb.blob.file.read.micros",
        /// Blob file sync, us.
        BlobdbBlobFileSyncMicros => "rocksdb.blobdb.blob.file.sync.micros",
        /// Blob compression, us.
        BlobdbCompressionMicros => "rocksdb.blobdb.compression.micros",
        /// Blob decompression, us.
        BlobdbDecompressionMicros => "rocksdb.blobdb.decompression.micros",
        /// Flush, us.
        DbFlushMicros => "rocksdb.db.flush.micros",
        /// Keys per SST in a MultiGet batch.
        SstBatchSize => "rocksdb.sst.batch.size",
        /// Parallel reads in a MultiGet batch.
        MultigetIoBatchSize => "rocksdb.multiget.io.batch.size",
        /// Index+filter blocks read per level.
        NumIndexAndFilterBlocksReadPerLevel => "rocksdb.num.index.and.filter.blocks.read.per.level",
        /// SSTs read per level.
        NumSstReadPerLevel => "rocksdb.num.sst.read.per.level",
        /// Levels with I/O per MultiGet.
        NumLevelReadPerMultiget => "rocksdb.num.level.read.per.multiget",
        /// Retries per automatic resume.
        ErrorHandlerAutoresumeRetryCount => "rocksdb.error.handler.autoresume.retry.count",
        /// Bytes per async read.
        AsyncReadBytes => "rocksdb.async.read.bytes",
        /// Wait in Poll, us.
        PollWaitMicros => "rocksdb.poll.wait.micros",
        /// Bytes prefetched by compaction.
        CompactionPrefetchBytes => "rocksdb.compaction.prefetch.bytes",
        /// Prefetched bytes discarded.
        PrefetchedBytesDiscarded => "rocksdb.prefetched.bytes.discarded",
        /// Aborting async prefetch, us.
        AsyncPrefetchAbortMicros => "rocksdb.async.prefetch.abort.micros",
        /// Bytes prefetched from the tail at table open.
        TableOpenPrefetchTailReadBytes => "rocksdb.table.open.prefetch.tail.read.bytes",
        /// Operations per transaction.
        NumOpPerTransaction => "rocksdb.num.op.per.transaction",
        /// MultiScan: preparing iterators, us.
        MultiscanOpPrepareIteratorsMicros => "rocksdb.multiscan.op.prepare.iterators.micros",
        /// MultiScan Prepare, us.
        MultiscanPrepareMicros => "rocksdb.multiscan.prepare.micros",
        /// Blocks per Prepare.
        MultiscanBlocksPerPrepare => "rocksdb.multiscan.blocks.per.prepare",
        /// Async read submit to callback, us.
        IodispatcherAsyncReadObservedCompletionMicros => "rocksdb.iodispatcher.async.read.observed.completion.micros",
        /// Async read poll wait, us.
        IodispatcherAsyncReadPollWaitMicros => "rocksdb.iodispatcher.async.read.poll.wait.micros",
        /// Async read submit to use, us.
        IodispatcherAsyncReadPrefetchLeadMicros => "rocksdb.iodispatcher.async.read.prefetch.lead.micros",
        /// Key gap variation of index blocks x 10000.
        BlockKeyDistributionCv => "rocksdb.block.key.distribution.cv",
        /// Ingestion prepare phase, us.
        IngestExternalFilePrepareMicros => "rocksdb.ingest.external.file.prepare.micros",
        /// Ingestion blocking phase, us.
        IngestExternalFileRunMicros => "rocksdb.ingest.external.file.run.micros",
        /// Rate limiter wait of reads, us.
        RateLimiterWaitMicrosRead => "rocksdb.rate.limiter.wait.micros.read",
        /// Rate limiter wait of writes, us.
        RateLimiterWaitMicrosWrite => "rocksdb.rate.limiter.wait.micros.write",
        /// Memtable memory at flush, bytes.
        FlushMemtableMemoryBytes => "rocksdb.flush.memtable.memory.bytes",
        /// Memtable data at flush, bytes.
        FlushMemtableTotalDataSizeBytes => "rocksdb.flush.memtable.total.data.size.bytes",
        /// Memtable memory, full-buffer flushes.
        FlushWriteBufferFullMemtableMemoryBytes => "rocksdb.flush.write_buffer_full.memtable.memory.bytes",
        /// Memtable memory, manager-triggered flushes.
        FlushWriteBufferManagerMemtableMemoryBytes => "rocksdb.flush.write_buffer_manager.memtable.memory.bytes",
        /// Secondary open inside OpenAndCompact, us.
        OpenAndCompactDbOpenMicros => "rocksdb.open.and.compact.db.open.micros",
    }
}
