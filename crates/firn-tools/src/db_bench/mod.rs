//! `db_bench`: measures the database under RocksDB's named workloads and prints RocksDB's result lines.
//!
//! In: the command line. Out: a header, one result line per benchmark, and what the database says about itself; lines
//! and streams (stdout, stderr) are those of RocksDB's tool, because scripts cut them apart.
//!
//! The benchmarks themselves (files beside this one that are not listed below) join the build with the database.

pub mod bench_flags;
pub mod calendar;
pub mod header;
pub mod histogram;
pub mod keys;
pub mod limit;
pub mod list;
pub mod options;
pub mod random;
pub mod refusals;
pub mod report;
pub mod setup;
pub mod stats;
pub mod values;
