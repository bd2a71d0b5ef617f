//! `db_bench`: measures the database under RocksDB's named workloads and prints RocksDB's result lines.

pub mod bench_flags;
pub mod calendar;
pub mod header;
pub mod histogram;
pub mod keys;
pub mod limit;
pub mod list;
pub mod random;
pub mod report;
pub mod setup;
pub mod stats;
pub mod values;
