//! The stores of a race behind one trait.

#[cfg(feature = "firn")]
mod firn;
#[cfg(feature = "fjall")]
mod fjall;
#[cfg(feature = "heed")]
mod heed;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "rocksdb")]
mod rocks;

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Fallible;
use crate::config::Config;
use crate::keys::Key;

/// What a scan walks over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Direction {
    Forward,
    Backward,
}

/// A store that is open. Loops over many entries are inside the implementations, so that the call through the trait
/// weighs on single operations only, and alike.
pub trait Store: Send + Sync {
    /// Writes one entry; `sync` makes it survive a power failure before this returns.
    fn put(&self, key: &Key, value: &[u8], sync: bool) -> Fallible<()>;
    /// The length of a key's value; the value's bytes have been brought to the caller.
    fn get(&self, key: &Key) -> Fallible<Option<usize>>;
    /// How many of the keys are there.
    fn multi_get(&self, keys: &[Key]) -> Fallible<usize>;
    /// Walks over at most `limit` entries from `from` (from the end of the order without it); entries seen.
    fn scan(&self, from: Option<&Key>, limit: usize, direction: Direction) -> Fallible<usize>;
    /// Writes what is only in memory to its place on disk.
    fn flush(&self) -> Fallible<()>;
    /// Returns when no background work is left to do.
    fn settle(&self) -> Fallible<()>;
    /// Merges everything into one run, if the store has runs.
    fn compact_all(&self) -> Fallible<()>;
    /// Merges everything into one run and puts it into a level; asked only of stores that have levels.
    fn compact_to(&self, _level: u32) -> Fallible<()> {
        Err("the store has no levels".into())
    }
    /// Merges a level into the next; asked only of stores that have levels.
    fn merge_down(&self, _level: u32) -> Fallible<()> {
        Err("the store has no levels".into())
    }
    /// What the tree looks like: files and bytes by level.
    fn shape(&self) -> String;
}

/// The stores that can race.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lower")]
pub enum Kind {
    Firn,
    Rocksdb,
    Fjall,
    Redb,
    Heed,
}

impl Kind {
    /// Whether this program was built with it.
    pub fn is_built(self) -> bool {
        match self {
            Self::Firn => cfg!(feature = "firn"),
            Self::Rocksdb => cfg!(feature = "rocksdb"),
            Self::Fjall => cfg!(feature = "fjall"),
            Self::Redb => cfg!(feature = "redb"),
            Self::Heed => cfg!(feature = "heed"),
        }
    }

    /// Whether it is a tree of levels that can be told what to merge.
    pub fn has_levels(self) -> bool {
        matches!(self, Self::Firn | Self::Rocksdb)
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Firn => "firn",
            Self::Rocksdb => "rocksdb",
            Self::Fjall => "fjall",
            Self::Redb => "redb",
            Self::Heed => "heed",
        })
    }
}

/// Opens a store, creating it if it is not there.
pub fn open(kind: Kind, path: &Path, config: &Config) -> Fallible<Box<dyn Store>> {
    match kind {
        #[cfg(feature = "firn")]
        Kind::Firn => Ok(Box::new(firn::Firn::open(path, config)?)),
        #[cfg(feature = "rocksdb")]
        Kind::Rocksdb => Ok(Box::new(rocks::Rocks::open(path, config)?)),
        #[cfg(feature = "fjall")]
        Kind::Fjall => Ok(Box::new(fjall::Fjall::open(path, config)?)),
        #[cfg(feature = "redb")]
        Kind::Redb => Ok(Box::new(redb::Redb::open(path, config)?)),
        #[cfg(feature = "heed")]
        Kind::Heed => Ok(Box::new(heed::Heed::open(path, config)?)),
        #[allow(unreachable_patterns)]
        kind => Err(format!("built without the feature {kind}").into()),
    }
}

/// Settings by name, as stores with RocksDB's options take them.
type Settings<'a> = [(&'a str, &'a str)];

/// What makes a tree merge the whole of a level into the next, and no more, while compactions start by themselves. Both
/// limits are so far away that no other level is over its own.
fn merging_down(level: u32) -> Fallible<&'static Settings<'static>> {
    match level {
        0 => Ok(&[
            ("level0_file_num_compaction_trigger", "1"),
            ("max_bytes_for_level_base", "1099511627776"),
            ("disable_auto_compactions", "false"),
        ]),
        1 => Ok(&[
            ("max_bytes_for_level_base", "1"),
            ("max_bytes_for_level_multiplier", "1000000000000"),
            ("disable_auto_compactions", "false"),
        ]),
        _ => Err("only levels 0 and 1 are merged down".into()),
    }
}

/// What ends it: the sizes of levels are those of [`Config`] again.
const MERGED_DOWN: &Settings<'static> = &[
    ("disable_auto_compactions", "true"),
    ("max_bytes_for_level_base", "268435456"),
    ("max_bytes_for_level_multiplier", "10"),
];

/// Brings a value to the caller: reads a byte of each cache line.
pub fn touch(value: &[u8]) -> usize {
    let sum = value.iter().step_by(64).fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    std::hint::black_box(sum);
    value.len()
}
