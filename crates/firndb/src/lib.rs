//! Firn: an embeddable, persistent, ordered key-value store.

#[doc(hidden)]
pub mod compaction;
#[doc(hidden)]
pub mod version;
