//! The properties of a database: their names, declared once, and what shape each answer has.
//!
//! A name flows in ([`PropertyQuery::parse`]); the database room answers through [`PropertySource`]; the functions here turn
//! answers into the form that was asked for. A property that is unknown, lacks its argument or has no value just now is
//! `None`.

use std::collections::BTreeMap;

/// What shape the answer of a property has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PropertyShape {
    /// An integer.
    Integer,
    /// Text.
    Text,
    /// Text, or a map of names and values.
    TextAndMap,
}

/// What is to be known of a property without asking a database.
#[derive(Clone, Copy, Debug)]
pub struct PropertyDescriptor {
    /// The property.
    pub property: Property,
    /// Its name, without the number that may follow.
    pub name: &'static str,
    /// Its documentation.
    pub doc: &'static str,
    /// The shape of its answer.
    pub shape: PropertyShape,
    /// Whether a number follows the name.
    pub has_argument: bool,
}

macro_rules! properties {
    ($($(#[doc = $doc:literal])+ $property:ident => $name:literal, $shape:ident $(, $argument:ident)?;)*) => {
        /// A property of a database or of one of its column families.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Property {
            $($(#[doc = $doc])+ $property,)*
        }

        /// Every property.
        pub const PROPERTIES: &[PropertyDescriptor] = &[
            $(PropertyDescriptor {
                property: Property::$property,
                name: concat!("rocksdb.", $name),
                doc: concat!($($doc, "\n"),+),
                shape: PropertyShape::$shape,
                has_argument: properties!(@argument $($argument)?),
            },)*
        ];
    };
    (@argument) => { false };
    (@argument argument) => { true };
}

properties! {
    /// Number of tables on a level.
    NumFilesAtLevel => "num-files-at-level", Text, argument;
    /// Raw bytes by file bytes of the tables on a level; -1 when not known.
    CompressionRatioAtLevel => "compression-ratio-at-level", Text, argument;
    /// The statistics of the column family, then those of the database.
    Stats => "stats", Text;
    /// The statistics of the column family.
    CfStats => "cfstats", TextAndMap;
    /// The same without the histograms of file reads.
    CfStatsNoFileHistogram => "cfstats-no-file-histogram", Text;
    /// The histograms of file reads.
    CfFileHistogram => "cf-file-histogram", Text;
    /// The statistics of the column family since they were last asked for in this way.
    CfStatsPeriodic => "cfstats.periodic", Text;
    /// How often writes to the column family were slowed down or stopped, and why.
    CfWriteStallStats => "cf-write-stall-stats", TextAndMap;
    /// How often writes to the database were slowed down or stopped, and why.
    DbWriteStallStats => "db-write-stall-stats", TextAndMap;
    /// The statistics of the database.
    DbStats => "dbstats", TextAndMap;
    /// Number and size of the tables on each level.
    LevelStats => "levelstats", Text;
    /// Every table.
    SsTables => "sstables", Text;
    /// What the block cache holds.
    BlockCacheEntryStats => "block-cache-entry-stats", TextAndMap;
    /// What the block cache held a while ago.
    FastBlockCacheEntryStats => "fast-block-cache-entry-stats", TextAndMap;
    /// The properties of all tables added up.
    AggregatedTableProperties => "aggregated-table-properties", TextAndMap;
    /// The properties of the tables of a level added up.
    AggregatedTablePropertiesAtLevel => "aggregated-table-properties-at-level", TextAndMap, argument;
    /// Bytes of the live tables of a temperature, by its number.
    LiveSstFilesSizeAtTemperature => "live-sst-files-size-at-temperature", Text, argument;
    /// The statistics object.
    OptionsStatistics => "options-statistics", Text;
    /// Number, size and garbage of blob files.
    BlobStats => "blob-stats", Text;

    /// Memtables that wait for their flush.
    NumImmutableMemTable => "num-immutable-mem-table", Integer;
    /// Flushed memtables that are still held.
    NumImmutableMemTableFlushed => "num-immutable-mem-table-flushed", Integer;
    /// 1 when a flush is pending.
    MemTableFlushPending => "mem-table-flush-pending", Integer;
    /// Running flushes of the database.
    NumRunningFlushes => "num-running-flushes", Integer;
    /// 1 when a compaction is wanted.
    CompactionPending => "compaction-pending", Integer;
    /// Running compactions of the database.
    NumRunningCompactions => "num-running-compactions", Integer;
    /// Sorted runs inside running compactions of the database.
    NumRunningCompactionSortedRuns => "num-running-compaction-sorted-runs", Integer;
    /// Requests to abort compactions that hold now.
    CompactionAbortCount => "compaction-abort-count", Integer;
    /// Wanted compactions that have no thread yet.
    NumUnscheduledCompactions => "num-unscheduled-compactions", Integer;
    /// Background errors so far.
    BackgroundErrors => "background-errors", Integer;
    /// Bytes of the active memtable.
    CurSizeActiveMemTable => "cur-size-active-mem-table", Integer;
    /// Bytes of the memtables that are not flushed.
    CurSizeAllMemTables => "cur-size-all-mem-tables", Integer;
    /// Bytes of all memtables, also of flushed ones that are still held.
    SizeAllMemTables => "size-all-mem-tables", Integer;
    /// Entries of the active memtable.
    NumEntriesActiveMemTable => "num-entries-active-mem-table", Integer;
    /// Entries of the memtables that wait for their flush.
    NumEntriesImmMemTables => "num-entries-imm-mem-tables", Integer;
    /// Tombstones of the active memtable.
    NumDeletesActiveMemTable => "num-deletes-active-mem-table", Integer;
    /// Tombstones of the memtables that wait for their flush.
    NumDeletesImmMemTables => "num-deletes-imm-mem-tables", Integer;
    /// Estimated number of keys.
    EstimateNumKeys => "estimate-num-keys", Integer;
    /// Bytes of memory of open tables outside the block cache.
    EstimateTableReadersMem => "estimate-table-readers-mem", Integer;
    /// 1 when obsolete files are deleted.
    IsFileDeletionsEnabled => "is-file-deletions-enabled", Integer;
    /// Snapshots that are held.
    NumSnapshots => "num-snapshots", Integer;
    /// Seconds since the epoch at which the oldest snapshot was taken; 0 when there is none.
    OldestSnapshotTime => "oldest-snapshot-time", Integer;
    /// The sequence number of the oldest snapshot; 0 when there is none.
    OldestSnapshotSequence => "oldest-snapshot-sequence", Integer;
    /// Versions of the column family that are held.
    NumLiveVersions => "num-live-versions", Integer;
    /// Changes of the column family's memtables and files since the open.
    CurrentSuperVersionNumber => "current-super-version-number", Integer;
    /// Estimated bytes of live data.
    EstimateLiveDataSize => "estimate-live-data-size", Integer;
    /// The least number of a WAL that is needed.
    MinLogNumberToKeep => "min-log-number-to-keep", Integer;
    /// The least number of an obsolete table that is kept; 2^64-1 when there is none.
    MinObsoleteSstNumberToKeep => "min-obsolete-sst-number-to-keep", Integer;
    /// The level that level 0 is compacted into.
    BaseLevel => "base-level", Integer;
    /// Bytes that compactions have to rewrite until the tree has its shape.
    EstimatePendingCompactionBytes => "estimate-pending-compaction-bytes", Integer;
    /// Bytes of the tables of all versions that are held.
    TotalSstFilesSize => "total-sst-files-size", Integer;
    /// Bytes of the tables of the current version.
    LiveSstFilesSize => "live-sst-files-size", Integer;
    /// Bytes of obsolete tables that are not deleted yet.
    ObsoleteSstFilesSize => "obsolete-sst-files-size", Integer;
    /// Bytes per second that writes are slowed down to; 0 when they are not.
    ActualDelayedWriteRate => "actual-delayed-write-rate", Integer;
    /// 1 when writes are stopped.
    IsWriteStopped => "is-write-stopped", Integer;
    /// Seconds since the epoch of the oldest key; for FIFO compaction only.
    EstimateOldestKeyTime => "estimate-oldest-key-time", Integer;
    /// Bytes that the block cache may hold.
    BlockCacheCapacity => "block-cache-capacity", Integer;
    /// Bytes that the block cache holds.
    BlockCacheUsage => "block-cache-usage", Integer;
    /// Bytes of the block cache that are in use just now.
    BlockCachePinnedUsage => "block-cache-pinned-usage", Integer;
    /// Blob files.
    NumBlobFiles => "num-blob-files", Integer;
    /// Bytes of the blob files of all versions that are held.
    TotalBlobFileSize => "total-blob-file-size", Integer;
    /// Bytes of the blob files of the current version.
    LiveBlobFileSize => "live-blob-file-size", Integer;
    /// Bytes of garbage in them.
    LiveBlobFileGarbageSize => "live-blob-file-garbage-size", Integer;
    /// Bytes that the blob cache may hold.
    BlobCacheCapacity => "blob-cache-capacity", Integer;
    /// Bytes that the blob cache holds.
    BlobCacheUsage => "blob-cache-usage", Integer;
    /// Bytes of the blob cache that are in use just now.
    BlobCachePinnedUsage => "blob-cache-pinned-usage", Integer;
}

impl Property {
    /// What is known of the property.
    pub fn descriptor(self) -> &'static PropertyDescriptor {
        // The table has one row for each property, in their order.
        &PROPERTIES[self as usize]
    }

    /// The name, without the number that may follow.
    pub fn name(self) -> &'static str {
        self.descriptor().name
    }
}

/// A property that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PropertyQuery {
    /// The property.
    pub property: Property,
    /// The number behind the name.
    pub argument: Option<u64>,
}

impl PropertyQuery {
    /// Reads a name: the digits at its end are the argument, which a property without one ignores. `None` for an unknown name
    /// or a missing or excessive argument.
    pub fn parse(text: &str) -> Option<Self> {
        let name = text.trim_end_matches(|c: char| c.is_ascii_digit());
        let digits = text.get(name.len()..).unwrap_or_default();
        let descriptor = PROPERTIES.iter().find(|descriptor| descriptor.name == name)?;
        let argument = if descriptor.has_argument { Some(digits.parse().ok()?) } else { None };
        Some(Self { property: descriptor.property, argument })
    }
}

/// Where properties are computed. Each answer is `None` when the property has no value just now; only the properties of the
/// matching shape are asked for.
pub trait PropertySource {
    /// The value of an integer property.
    fn integer(&self, query: PropertyQuery) -> Option<u64>;

    /// The text of any other property.
    fn text(&self, query: PropertyQuery) -> Option<String>;

    /// The map of a property that has one.
    fn map(&self, query: PropertyQuery) -> Option<BTreeMap<String, String>>;
}

/// The property called `name` as text.
pub fn get_property(source: &(impl PropertySource + ?Sized), name: &str) -> Option<String> {
    let query = PropertyQuery::parse(name)?;
    match query.property.descriptor().shape {
        PropertyShape::Integer => source.integer(query).map(|value| value.to_string()),
        PropertyShape::Text | PropertyShape::TextAndMap => source.text(query),
    }
}

/// The integer property called `name`.
pub fn get_int_property(source: &(impl PropertySource + ?Sized), name: &str) -> Option<u64> {
    let query = PropertyQuery::parse(name)?;
    (query.property.descriptor().shape == PropertyShape::Integer).then(|| source.integer(query)).flatten()
}

/// The map property called `name`.
pub fn get_map_property(source: &(impl PropertySource + ?Sized), name: &str) -> Option<BTreeMap<String, String>> {
    let query = PropertyQuery::parse(name)?;
    (query.property.descriptor().shape == PropertyShape::TextAndMap).then(|| source.map(query)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Source;

    impl PropertySource for Source {
        fn integer(&self, query: PropertyQuery) -> Option<u64> {
            (query.property == Property::EstimateNumKeys).then_some(7)
        }

        fn text(&self, query: PropertyQuery) -> Option<String> {
            Some(format!("{:?} {:?}", query.property, query.argument))
        }

        fn map(&self, _query: PropertyQuery) -> Option<BTreeMap<String, String>> {
            Some(BTreeMap::new())
        }
    }

    #[test]
    fn names_may_end_in_an_argument() {
        let get = |name: &str| get_property(&Source, name);
        assert_eq!(get("rocksdb.num-files-at-level0").as_deref(), Some("NumFilesAtLevel Some(0)"));
        assert_eq!(get("rocksdb.num-files-at-level12").as_deref(), Some("NumFilesAtLevel Some(12)"));
        assert_eq!(get("rocksdb.num-files-at-level"), None);
        assert_eq!(get("rocksdb.num-files-at-level99999999999999999999"), None);
        assert_eq!(get("rocksdb.estimate-num-keys5").as_deref(), Some("7"));
        assert_eq!(get("rocksdb.cfstats.periodic").as_deref(), Some("CfStatsPeriodic None"));
        assert_eq!((get("rocksdb.nonsense"), get("")), (None, None));
        assert_eq!(get_int_property(&Source, "rocksdb.estimate-num-keys"), Some(7));
        assert_eq!(get_int_property(&Source, "rocksdb.base-level"), None);
        assert_eq!(get_int_property(&Source, "rocksdb.stats"), None);
        assert!(get_map_property(&Source, "rocksdb.cfstats").is_some());
        assert!(get_map_property(&Source, "rocksdb.stats").is_none());
    }

    #[test]
    fn each_property_knows_its_row() {
        for descriptor in PROPERTIES {
            assert_eq!(descriptor.property.name(), descriptor.name);
        }
    }
}
