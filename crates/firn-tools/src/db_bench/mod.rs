//! `db_bench`: measures the database under RocksDB's named workloads and prints RocksDB's result lines.

pub mod bench_flags;
