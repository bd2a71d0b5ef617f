//! `db_bench`, `db_stress`, `ldb` and `sst_dump` for Firn: the same flags and the same output lines as RocksDB's tools, so that
//! existing scripts run unchanged.
//!
//! Each tool is a module here; the binaries only hand over their arguments. Floors: tools use `firndb`, `firn-table`
//! and `firn-format`; they hold no engine logic.

pub mod db_bench;
pub mod db_stress;
pub mod flags;
pub mod ldb;
pub mod sst_dump;
pub mod text;

/// The RocksDB version whose flags, formats and lines the tools follow.
pub const ROCKSDB_VERSION: &str = "11.9.0";
