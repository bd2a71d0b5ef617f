//! `db_bench`: measures the database under RocksDB's named workloads and prints RocksDB's result lines.
//!
//! In: the command line. Out: a header, one result line per benchmark, and what the database says about itself; lines
//! and streams (stdout, stderr) are those of RocksDB's tool, because scripts cut them apart.
//!
//! [`registry`] maps names to methods; [`harness`] runs a method on threads; [`engine`] is the only module that knows
//! the database; everything else is arithmetic and text.

pub mod bench_flags;
pub mod calendar;
pub mod compute;
pub mod engine;
pub mod harness;
pub mod header;
pub mod keys;
pub mod limit;
pub mod list;
pub mod meta;
pub mod mixed;
pub mod mixgraph;
pub mod operands;
pub mod options;
pub mod random;
pub mod reads;
pub mod refusals;
pub mod registry;
pub mod report;
pub mod run;
pub mod script_form;
pub mod setup;
pub mod stats;
pub mod timeseries;
pub mod values;
pub mod writes;

pub use run::main;
