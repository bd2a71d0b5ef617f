//! Firn: an embeddable, persistent, ordered key-value store.
