//! Sorted table files.

pub mod options;
pub mod sink;

pub use sink::{GetControl, GetSink, Keepalive, PinSource, PinnedSlice, ValueRef};
