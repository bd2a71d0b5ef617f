//! The write path up to the memtables: batches, the write group, the log and the stall control.
//!
//! A caller's [`WriteBatch`] is already in the form of the log. [`group::WriteThread`] gathers concurrent batches behind one
//! leader, which lets [`wal::WalWriter`] append them as one record and then has them inserted into the memtables;
//! [`replay::WalReplay`] does the reverse after a crash. [`controller`] decides when writers must slow down or stop.
//!
//! Always true here: what is logged is inserted in the same order and under the same sequence numbers; nothing in this
//! room knows memtables, versions or column families beyond their ids.

pub mod batch;
mod company;
pub mod controller;
pub mod group;
pub mod replay;
pub mod wal;

pub(crate) use batch::RecordProtections;
pub use batch::{BatchHandler, ColumnFamilyId, ContentFlags, RecordTarget, WriteBatch};
