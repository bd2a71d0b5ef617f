//! Enumerations of options, with RocksDB's numbers and strings.

use firn_format::option_enum;

option_enum! {
    /// How sorted runs are merged.
    pub enum CompactionStyle {
        /// Levels of growing size, one sorted run each beyond level 0.
        #[default]
        Level = 0 => "kCompactionStyleLevel",
        /// Sorted runs of growing size.
        Universal = 1 => "kCompactionStyleUniversal",
        /// No merging: the oldest tables are dropped when the total is too large.
        Fifo = 2 => "kCompactionStyleFIFO",
        /// No automatic compaction.
        None = 3 => "kCompactionStyleNone",
    }
}

option_enum! {
    /// Which file of a level is compacted first.
    pub enum CompactionPri {
        /// The largest, counting tombstones more.
        ByCompensatedSize = 0 => "kByCompensatedSize",
        /// The one whose newest entry is oldest.
        OldestLargestSeqFirst = 1 => "kOldestLargestSeqFirst",
        /// The one whose oldest entry is oldest.
        OldestSmallestSeqFirst = 2 => "kOldestSmallestSeqFirst",
        /// The one that overlaps the next level least in relation to its size.
        #[default]
        MinOverlappingRatio = 3 => "kMinOverlappingRatio",
        /// One after the other through the key range.
        RoundRobin = 4 => "kRoundRobin",
    }
}

option_enum! {
    /// When universal compaction stops taking further sorted runs.
    pub enum CompactionStopStyle {
        /// When the next run is of another size than the last.
        SimilarSize = 0 => "kCompactionStopStyleSimilarSize",
        /// When the next run is larger than all before it together.
        #[default]
        TotalSize = 1 => "kCompactionStopStyleTotalSize",
    }
}

option_enum! {
    /// What recovery does with damaged WAL content.
    pub enum WalRecoveryMode {
        /// Tolerates an incomplete record at the end of each WAL, fails on other damage.
        TolerateCorruptedTailRecords = 0 => "kTolerateCorruptedTailRecords",
        /// Fails on any damage.
        AbsoluteConsistency = 1 => "kAbsoluteConsistency",
        /// Recovers everything before the first damage.
        #[default]
        PointInTimeRecovery = 2 => "kPointInTimeRecovery",
        /// Recovers whatever can be read.
        SkipAnyCorruptedRecords = 3 => "kSkipAnyCorruptedRecords",
    }
}

option_enum! {
    /// How soon data is expected to be read again; a hint for the file system.
    pub enum Temperature {
        /// Not said.
        #[default]
        Unknown = 0x00 => "kUnknown",
        /// Very often.
        Hot = 0x04 => "kHot",
        /// Often.
        Warm = 0x08 => "kWarm",
        /// Sometimes.
        Cool = 0x0a => "kCool",
        /// Rarely.
        Cold = 0x0c => "kCold",
        /// Hardly ever.
        Ice = 0x10 => "kIce",
    }
}

option_enum! {
    /// Which freshly written blobs are put into the blob cache.
    pub enum PrepopulateBlobCache {
        /// None.
        #[default]
        Disable = 0 => "kDisable",
        /// Those of flushes.
        FlushOnly = 1 => "kFlushOnly",
    }
}

option_enum! {
    /// The lowest cache tier that is consulted.
    pub enum CacheTier {
        /// Memory.
        VolatileTier = 0 => "kVolatileTier",
        /// Compressed memory.
        VolatileCompressedTier = 1 => "kVolatileCompressedTier",
        /// Storage.
        #[default]
        NonVolatileBlockTier = 2 => "kNonVolatileBlockTier",
    }
}

option_enum! {
    /// How important a message of the info log is.
    pub enum InfoLogLevel {
        /// For developers.
        Debug = 0 => "DEBUG_LEVEL",
        /// What happens.
        #[default]
        Info = 1 => "INFO_LEVEL",
        /// Something looks wrong.
        Warn = 2 => "WARN_LEVEL",
        /// Something failed.
        Error = 3 => "ERROR_LEVEL",
        /// The store cannot go on.
        Fatal = 4 => "FATAL_LEVEL",
        /// Facts at the top of each log file.
        Header = 5 => "HEADER_LEVEL",
    }
}

impl From<InfoLogLevel> for firn_env::LogLevel {
    fn from(level: InfoLogLevel) -> Self {
        match level {
            InfoLogLevel::Debug => Self::Debug,
            InfoLogLevel::Info => Self::Info,
            InfoLogLevel::Warn => Self::Warn,
            InfoLogLevel::Error => Self::Error,
            InfoLogLevel::Fatal => Self::Fatal,
            InfoLogLevel::Header => Self::Header,
        }
    }
}

option_enum! {
    /// Where a read may look.
    pub enum ReadTier {
        /// Memtables, caches and files.
        #[default]
        All = 0 => "kReadAllTier",
        /// Memtables and caches; `Incomplete` when a file would have to be read.
        BlockCache = 1 => "kBlockCacheTier",
        /// Only data that would survive a crash.
        Persisted = 2 => "kPersistedTier",
        /// Memtables.
        Memtable = 3 => "kMemtableTier",
    }
}

option_enum! {
    /// Whether a manual compaction rewrites the bottommost level.
    pub enum BottommostLevelCompaction {
        /// No.
        Skip = 0 => "kSkip",
        /// When there is a compaction filter.
        #[default]
        IfHaveCompactionFilter = 1 => "kIfHaveCompactionFilter",
        /// Yes.
        Force = 2 => "kForce",
        /// Yes, except for files that this compaction created.
        ForceOptimized = 3 => "kForceOptimized",
    }
}

option_enum! {
    /// Whether a manual compaction collects garbage of blob files.
    pub enum BlobGarbageCollectionPolicy {
        /// Yes.
        Force = 0 => "kForce",
        /// No.
        Disable = 1 => "kDisable",
        /// As the column family's options say.
        #[default]
        UseDefault = 2 => "kUseDefault",
    }
}
