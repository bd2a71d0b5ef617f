//! One handle for everything outside: file system, clock, job pools, randomness.
//!
//! An [`Env`] is cheap to clone; clones share their parts. Databases that share an `Env` share its background threads.

use std::sync::{Arc, OnceLock};

use crate::clock::{Clock, SystemClock};
use crate::entropy::{Entropy, SystemEntropy};
use crate::file::FileSystem;
use crate::memory::MemoryFileSystem;
use crate::pool::JobPools;
use crate::posix::PosixFileSystem;

/// The outside world of a database. `Clone + Send + Sync`; clones share everything.
#[derive(Clone, Debug)]
pub struct Env {
    fs: Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
    pools: Arc<JobPools>,
    entropy: Arc<dyn Entropy>,
}

impl Env {
    /// The real file system and clock, with background threads of its own.
    pub fn posix() -> Self {
        Self::with_file_system(Arc::new(PosixFileSystem::new()))
    }

    /// An empty file system in memory with the real clock, with background threads of its own.
    pub fn memory() -> Self {
        Self::with_file_system(Arc::new(MemoryFileSystem::new()))
    }

    /// The process-wide posix environment; all who use it share its background threads, as with RocksDB's default.
    pub fn shared() -> Self {
        static SHARED: OnceLock<Env> = OnceLock::new();
        SHARED.get_or_init(Self::posix).clone()
    }

    /// The real clock and new background threads over the given file system.
    pub fn with_file_system(fs: Arc<dyn FileSystem>) -> Self {
        Self {
            fs,
            clock: Arc::new(SystemClock::new()),
            pools: Arc::new(JobPools::new()),
            entropy: Arc::new(SystemEntropy),
        }
    }

    /// The same environment over another file system.
    #[must_use]
    pub fn over_file_system(mut self, fs: Arc<dyn FileSystem>) -> Self {
        self.fs = fs;
        self
    }

    /// The same environment with another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The same environment with other job pools.
    #[must_use]
    pub fn with_pools(mut self, pools: Arc<JobPools>) -> Self {
        self.pools = pools;
        self
    }

    /// The same environment with another source of randomness.
    #[must_use]
    pub fn with_entropy(mut self, entropy: Arc<dyn Entropy>) -> Self {
        self.entropy = entropy;
        self
    }

    /// Files and directories.
    pub fn fs(&self) -> &Arc<dyn FileSystem> {
        &self.fs
    }

    /// Time.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Background threads.
    pub fn pools(&self) -> &Arc<JobPools> {
        &self.pools
    }

    /// Random bits.
    pub fn entropy(&self) -> &dyn Entropy {
        &*self.entropy
    }

    /// A new random UUID (36 characters), the form of a database id.
    pub fn generate_uuid(&self) -> String {
        crate::entropy::uuid(&*self.entropy)
    }

    /// How many files this process may have open; `None` where that is not known.
    pub fn open_file_limit(&self) -> Option<u64> {
        crate::posix::open_file_limit()
    }

    /// The machine's name, for table properties and the info log; `localhost` when unknown.
    pub fn host_name(&self) -> String {
        crate::posix::host_name()
    }
}

/// [`Env::shared`].
impl Default for Env {
    fn default() -> Self {
        Self::shared()
    }
}
