//! Sorted table files: one file at a time.
//!
//! [`TableBuilder`] writes a table file; [`TableReader`] opens one and answers lookups and iterators from it; [`sink`] is
//! how what it finds is handed over; [`cache`] keeps blocks in memory; [`options`] says how new files are laid out. Files
//! come in through `firn-env`, bytes get their meaning in `firn-format`. Nothing here knows levels, versions or the WAL.
//! how what it finds is handed over; [`options`] says how new files are laid out. [`cache`] keeps blocks in memory,
//! [`TableCache`] keeps tables open; [`SstFileWriter`] and [`SstFileReader`] work on one file outside of any database.
//! Files come in through `firn-env`, bytes get their meaning in `firn-format`. Nothing here knows levels, versions or the
//! WAL.

mod block_protection;
mod block_ref;
pub mod builder;
pub mod cache;
mod data_block;
mod frame;
mod index_block;
mod iterator;
mod key_order;
pub mod options;
mod pinning;
mod prefetch;
mod readahead;
pub mod reader;
pub mod sink;
mod sst_file_reader;
mod sst_file_writer;
pub mod statistics;
mod table_cache;
mod table_file;

pub use block_ref::{BlockCache, BlockRef, TableBlock};
pub use builder::{TableBuilder, TableBuilderOptions, TableFileSummary, TablePropertiesCollector};
pub use data_block::DataBlock;
pub use index_block::IndexBlock;
pub use iterator::TableIterator;
pub use readahead::ReadAheadOptions;
pub use reader::{Anchor, Located, ReadThrottle, TableReadOptions, TableReader, TableReaderOptions};
pub use sink::{GetControl, GetSink, Keepalive, PinSource, PinnedSlice, ValueRef};
pub use sst_file_reader::SstFileReader;
pub use sst_file_writer::{ExternalSstFileInfo, MakeTableOptions, SstFileWriter};
pub use table_cache::TableCache;
pub use table_file::BlockKind;
