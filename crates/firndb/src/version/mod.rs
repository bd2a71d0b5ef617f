//! Which files make up the database, and the log that remembers it.
//!
//! A [`Version`] is one immutable state of a column family's files, a [`VersionSet`] the chain of them for all column
//! families together with the counters that a MANIFEST keeps. [`VersionEdit`]s flow in from flush, compaction and recovery;
//! out come new versions, a longer MANIFEST, and the numbers of files that no version has any more.
//!
//! Always true here: a state is published only after the MANIFEST that leads to it is durable, and a file is never called
//! obsolete while any version, held by anybody, still has it.
//!
//! [`VersionEdit`]: firn_format::version_edit::VersionEdit

mod batch;
mod best_efforts;
mod blob;
mod builder;
mod file_meta;
mod latencies;
mod level_iterator;
mod manifest;
mod pending;
mod read;
mod replay;
mod search;
mod set;
mod tables;
#[expect(clippy::module_inception, reason = "a version is what the room is about")]
mod version;
mod wal_set;

#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod read_tests;
#[cfg(test)]
mod tests;

pub use batch::BatchedLookup;
pub use best_efforts::manifests;
pub use blob::{BlobFileMetaData, SharedBlobFile};
pub use builder::{ConsistencyChecks, FileStatsLoader, NoFileStats, RecoveredEpochs, VersionBuilder};
pub use file_meta::{FileHandle, FileMetaData, FileStats, ObsoleteFile, ObsoleteFiles};
pub use latencies::ReadLatencies;
pub use level_iterator::{LevelIterator, RunIterator};
pub(crate) use manifest::continue_manifest;
pub use manifest::{read_current, read_manifest, table_path};
pub use pending::{PendingWrite, WriteOutcome};
pub use read::{LookupSink, SortedRun};
pub use replay::{
    ColumnFamilyNames, FamilySpec, ManifestReplay, OpenMode, PERSISTENT_STATS_COLUMN_FAMILY_NAME, RecoveredFamily,
    RecoveredState,
};
pub(crate) use set::start_from;
pub use set::{
    FamilyVersions, FileNumbers, HoldsVersions, Installed, ManifestChange, Recovered, VersionSet, VersionSetOptions,
    best_efforts_column_families, column_families_in_manifest, create_database, list_column_families,
};
pub use tables::{FamilyTables, FamilyTablesOptions, OpenPolicy, OpenTable, OpenTables, TableRef, TableSource};
pub use version::{StatTotals, Version};
pub use wal_set::WalSet;
