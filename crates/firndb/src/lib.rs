//! Firn: an embeddable, persistent, ordered key-value store.

#[doc(hidden)]
pub mod compaction;
mod db;
mod key_word;
#[doc(hidden)]
pub mod memtable;
pub mod merge;
pub mod options;
#[doc(hidden)]
pub mod read;
pub mod stats;
#[doc(hidden)]
pub mod version;
#[doc(hidden)]
pub mod write;

pub use db::cursor::{Cursor, Entry, RangeIterator};
pub use db::error_handler::BackgroundErrorReason;
pub use db::handle::{ColumnFamily, ColumnFamilyDescriptor, DEFAULT_COLUMN_FAMILY_NAME, Db};
pub use db::snapshot::Snapshot;
pub use db::{LiveFile, SizeApproximation};
pub use firn_env as env;
pub use firn_error::{Error, ErrorKind, Result, Severity, SubCode};
pub use firn_format::key::SequenceNumber;
pub use firn_table::PinnedSlice;
pub use options::{ColumnFamilyOptions, DbOptions, FlushOptions, Options, ReadOptions, WriteOptions};
pub use write::WriteBatch;
