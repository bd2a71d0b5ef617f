//! Firn: an embeddable, persistent, ordered key-value store.

#[doc(hidden)]
pub mod compaction;
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
