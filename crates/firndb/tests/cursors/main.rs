//! What scans and gets show, over trees whose files were laid by hand.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod shared_keys;
mod tree;
