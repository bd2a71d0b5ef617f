//! Options that change what a database does, each in a test in which it makes a difference.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod block_cache;
mod filters;
mod flush;
mod memtable;
mod merge;
mod prefixes;
mod tables;
mod temperature;
mod universal;

use firndb::Options;

/// Options that create a database, changed by `change`.
fn options(change: impl FnOnce(&mut Options)) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    change(&mut options);
    options
}
