//! Typed options: every option of RocksDB, declared once.
//!
//! [`DbOptions`] holds for a whole database, [`ColumnFamilyOptions`] for one column family, [`Options`] is both; the others
//! go with single operations. Names and defaults are RocksDB 11.9's. Text flows in and out through
//! [`firn_format::options::OptionSet`]; values flow to every other room. Always true here: a default structure is valid, and
//! parsing never changes a structure when it fails.

mod change;
mod column_family_options;
mod compaction_options;
mod db_options;
mod enums;
mod file;
mod objects;
mod operation;
mod presets;
mod sanitize;
mod validate;

pub use crate::compaction::filter::{
    CompactionFilter, CompactionFilterFactory, FilterContext, FilterDecision, FilterValueType, TableCreationReason,
};
pub use change::{change_column_family_options, change_db_options};
pub use column_family_options::ColumnFamilyOptions;
pub use compaction_options::{CompactionOptionsFifo, CompactionOptionsUniversal, FileTemperatureAge};
pub use db_options::DbOptions;
pub use enums::{
    BlobGarbageCollectionPolicy, BottommostLevelCompaction, CacheTier, CompactionPri, CompactionStopStyle,
    CompactionStyle, InfoLogLevel, PrepopulateBlobCache, ReadTier, Temperature, WalRecoveryMode,
};
pub use file::{
    LoadedOptions, ROCKSDB_VERSION, check_options_text, check_same_options, latest_options_file, load_latest_options,
    load_options_from_file, print_options, remove_old_options_files, write_options_file,
};
pub use firn_env::IoPriority;
pub use firn_format::options::{ConfigOptions, Dialect, OptionSet, SanityLevel};
pub use firn_table::BlockCache;
pub use firn_table::cache::CacheOptions;
pub use firn_table::options::{BlockBasedTableOptions, FilterPolicy, TableFactory};
pub use objects::{
    CompactionFilterCodec, CompactionFilterFactoryCodec, ComparatorCodec, DbPath, EnvCodec,
    FileChecksumGenFactoryCodec, HashLinkListOptions, HashSkipListOptions, ListenersCodec, MemTableFactory,
    MemTableFactoryCodec, MergeOperatorCodec, RateLimiterCodec, RemoveEmptyValueCompactionFilter, SliceTransformCodec,
    StatisticsCodec, builtin_comparator,
};
pub use operation::{
    CompactRangeOptions, CompactionOptions, FlushOptions, IngestExternalFileOptions, ReadOptions,
    SizeApproximationOptions, WaitForCompactOptions, WriteOptions,
};
pub use sanitize::{
    BackgroundJobLimits, DERIVED_SECONDS, sanitize_column_family_options, sanitize_db_options, sanitize_table_options,
};
pub use validate::{parse_offpeak_time, validate_column_family_options, validate_db_options, validate_table_options};

/// Options of a database and of its default column family together.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Options of the whole database.
    pub db: DbOptions,
    /// Options of the default column family, and of others that are opened without their own.
    pub cf: ColumnFamilyOptions,
}

impl From<DbOptions> for Options {
    fn from(db: DbOptions) -> Self {
        Self { db, cf: ColumnFamilyOptions::default() }
    }
}

impl From<ColumnFamilyOptions> for Options {
    fn from(cf: ColumnFamilyOptions) -> Self {
        Self { db: DbOptions::default(), cf }
    }
}

#[cfg(test)]
mod tests;
