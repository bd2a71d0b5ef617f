//! The outside world of a simulated database: one thread, a clock that stands still, seeded randomness.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_env::entropy::SeededEntropy;
use firn_env::{Env, FileSystem, JobPools, ManualClock};

/// Where the simulated database lies.
pub const DB_PATH: &str = "/db";

/// The path of the simulated database.
pub fn db_path() -> &'static Path {
    Path::new(DB_PATH)
}

/// What the paths of all checkpoints begin with.
pub const CHECKPOINTS: &str = "/checkpoint-";

/// Where a checkpoint lies.
pub fn checkpoint_path(number: u64) -> PathBuf {
    PathBuf::from(format!("{CHECKPOINTS}{number}"))
}

/// Where an external file is written.
pub fn external_path(number: u64, index: usize) -> PathBuf {
    PathBuf::from(format!("/external/{number}-{index}.sst"))
}

/// Where the tables of a family are exported to.
pub fn export_path(number: u64) -> PathBuf {
    PathBuf::from(format!("/export-{number}"))
}

/// An environment over `fs` whose background jobs run when somebody waits for them. No two opens of one directory
/// may share the seed: ids are made from it.
pub fn environment(fs: Arc<dyn FileSystem>, seed: u64) -> Env {
    Env::with_file_system(fs)
        .with_clock(Arc::new(ManualClock::new(1_700_000_000_000_000)))
        .with_pools(Arc::new(JobPools::stepped()))
        .with_entropy(Arc::new(SeededEntropy::new(seed)))
}
