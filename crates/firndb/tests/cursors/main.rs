//! What scans and gets show, over trees whose files were laid by hand: user keys that two files share, prefix filters that
//! know nothing of a key, many versions of one key, ranges of every kind and order.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod gets;
mod life;
mod limits;
mod prefixes;
mod random;
mod ranges;
mod shared_keys;
mod tree;
