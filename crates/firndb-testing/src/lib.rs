//! What the tests of all crates share: the golden databases, RocksDB's own tools, and what a run had to skip.
//!
//! Crates name this one among their `dev-dependencies` only. It knows nothing of Firn, and reads nothing outside the
//! repository and its target directory but the tools that are installed.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests stand outside the floors")]

mod golden;
mod skips;

use std::path::{Path, PathBuf};

pub use golden::{golden, golden_databases, golden_name};
pub use skips::{skip, skip_interop, summary};

/// The program of this name on the `PATH`, one of RocksDB's tools; where it is missing, the calling test says so and is skipped.
///
/// # Panics
/// If it is missing and `FIRN_REQUIRE_INTEROP` is set.
pub fn rocksdb_tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|directory| directory.join(name)).find(|program| program.is_file());
    if found.is_none() {
        skip_interop(&format!("RocksDB's {name} is not installed (Debian package rocksdb-tools)"));
    }
    found
}

/// Whether RocksDB's C library and its header are there to build against; where they are not, as [`rocksdb_tool`].
///
/// # Panics
/// If they are missing and `FIRN_REQUIRE_INTEROP` is set.
pub fn have_rocksdb_library() -> bool {
    let found = Path::new("/usr/include/rocksdb/c.h").exists();
    if !found {
        skip_interop("RocksDB's C library is not installed (Debian package librocksdb-dev)");
    }
    found
}

/// The directory that cargo builds in, found from the running program, since only cargo itself is told where it is.
fn target_directory() -> PathBuf {
    let program = std::env::current_exe().ok();
    let mut above = program.iter().flat_map(|program| program.ancestors());
    match above.find(|directory| directory.join("CACHEDIR.TAG").is_file()) {
        Some(directory) => directory.to_path_buf(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"),
    }
}
