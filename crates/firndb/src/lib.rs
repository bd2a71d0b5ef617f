//! Firn: an embeddable, persistent, ordered key-value store.

#[doc(hidden)]
pub mod compaction;
pub mod options;
#[doc(hidden)]
pub mod version;
