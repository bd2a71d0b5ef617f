//! Compaction: deciding what to merge, merging it, and what may be dropped on the way.
//!
//! The [`picker`] turns a version, options and the time into a [`CompactionPlan`](picker::CompactionPlan), plain data; the
//! job carries the plan out and leaves a version edit.

mod bounded;
mod cutter;
pub(crate) mod deeper;
pub mod filter;
pub(crate) mod iterator;
pub(crate) mod job;
pub(crate) mod output;
pub mod picker;
mod split;
pub(crate) mod stop;
pub(crate) mod tombstones;
pub(crate) mod verify;
