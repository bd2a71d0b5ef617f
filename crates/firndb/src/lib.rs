//! Firn: an embeddable, persistent, ordered key-value store that reads and writes RocksDB's databases.
//!
//! [`Db::open`] gives a handle that is cheap to clone and may be used from any thread; [`WriteBatch`] groups writes that
//! happen together, [`Db::snapshot`] fixes a moment to read from, [`Db::range`] and [`Db::cursor`] walk through keys in
//! order. Options carry RocksDB's names and defaults. A write that returned survives the end of the process; with
//! [`WriteOptions::sync`] it survives a power failure too. Failures are [`Error`]s that name the file; a database that
//! uses what Firn does not support is refused with `NotSupported` before anything on disk changes.
//!
//! ```
//! # fn main() -> firndb::Result<()> {
//! # let dir = tempfile::tempdir().expect("a temporary directory");
//! # let path = dir.path().join("db");
//! use firndb::{Db, Options, WriteBatch};
//!
//! let mut options = Options::default();
//! options.db.create_if_missing = true;
//! let db = Db::open(&path, options)?;
//!
//! let mut batch = WriteBatch::new();
//! batch.put("mont blanc", "4806")?;
//! batch.put("kilimanjaro", "5895")?;
//! db.write(&mut batch)?;
//!
//! let before = db.snapshot();
//! db.delete("mont blanc")?;
//! assert_eq!(db.get("mont blanc")?, None);
//! let names: Vec<_> = db.iter().rev().collect::<firndb::Result<_>>()?;
//! assert_eq!(names.len(), 1);
//! # drop(before);
//! db.close()
//! # }
//! ```

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

#[doc(hidden)]
pub mod compaction;
mod db;
pub mod file_checksum;
mod key_word;
#[doc(hidden)]
pub mod memtable;
pub mod merge;
#[cfg(feature = "shuttle")]
#[doc(hidden)]
pub mod models;
pub mod options;
#[doc(hidden)]
pub mod read;
mod repair;
pub mod stats;
#[doc(hidden)]
pub mod version;
#[doc(hidden)]
pub mod write;

pub use db::cursor::{Cursor, Entry, RangeIterator};
pub use db::error_handler::BackgroundErrorReason;
pub use db::handle::{ColumnFamily, ColumnFamilyDescriptor, DEFAULT_COLUMN_FAMILY_NAME, Db};
pub use db::ingest::{
    ExportedColumnFamily, ExportedFile, ExternalFileChecksum, ImportColumnFamilyOptions, IngestExternalFiles,
    sst_file_writer,
};
pub use db::live_files::{LiveFileStorageInfo, LiveFilesStorageInfoOptions, WalFile};
pub use db::scrub::FileChecksumInfo;
pub use db::snapshot::Snapshot;
pub use db::{LiveFile, SizeApproximation};
pub use firn_env as env;
pub use firn_error::{Error, ErrorKind, Result, Severity, SubCode};
pub use firn_format::filename::FileKind;
pub use firn_format::key::{FileNumber, SequenceNumber};
pub use firn_format::slice_transform;
pub use firn_table::PinnedSlice;
pub use options::{ColumnFamilyOptions, DbOptions, FlushOptions, Options, ReadOptions, WriteOptions};
pub use repair::{RepairReport, repair, repair_cf, unsafe_remove_table};
pub use write::WriteBatch;
