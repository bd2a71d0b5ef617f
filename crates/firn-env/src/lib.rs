//! Files, time and threads behind traits.
//!
//! Everything the store asks of the outside world passes through here: [`FileSystem`] and its files, [`Clock`],
//! background [`JobPools`], [`RateLimiter`], the info [`Logger`], [`thread`] and the lock types in [`sync`]. Above this
//! crate nobody names `std::fs`, `std::time` or `std::thread`, so that simulated environments can take their place.
//!
//! The file systems: [`posix`] (the real one), [`memory`] (a map in memory, for tests and caches), [`crash`] (in memory,
//! knows what a crash would leave) and, over any of them, [`fault`] (fails on demand).
//! Nothing in this crate knows keys, tables or databases.

pub mod clock;
pub mod crash;
pub mod entropy;
pub mod env;
pub mod fault;
pub mod file;
pub mod info_log;
pub mod logger;
pub mod memory;
pub mod pages;
pub mod pool;
pub mod posix;
pub mod rate_limiter;
pub mod sst_file_manager;
pub mod sync;
pub mod thread;

pub use clock::{Clock, ManualClock, SystemClock};
pub use env::Env;
pub use file::{
    AccessPattern, Directory, FileLock, FileOptions, FileSpace, FileSync, FileSystem, RandomAccessFile, SequentialFile,
    WritableFile, create_dir_all, read_file, write_file,
};
pub use firn_error::{Error, Result};
pub use info_log::{FileLogger, InfoLogOptions, LogBuffer};
pub use logger::{LogLevel, Logger, NullLogger};
pub use pool::{JobPools, Priority};
pub use rate_limiter::{GenericRateLimiter, IoKind, IoPriority, RateLimiter, RateLimiterMode, RateLimiterOptions};
pub use sst_file_manager::{SstFileManager, SstFileManagerOptions};
