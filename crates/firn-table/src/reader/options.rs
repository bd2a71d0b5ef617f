//! How tables are opened and read.

use std::sync::Arc;

use firn_env::{IoKind, IoPriority, RateLimiter};
use firn_format::comparator::InternalKeyComparator;
use firn_format::slice_transform::SliceTransform;

use crate::block_ref::BlockCache;
use crate::options::BlockBasedTableOptions;
use crate::readahead::ReadAheadOptions;
use crate::statistics::Statistics;

/// How a table is opened.
#[derive(Clone, Debug)]
pub struct TableReaderOptions {
    /// The order of keys. Default: bytewise.
    pub comparator: InternalKeyComparator,
    /// What is configured for tables: whether filters are used, what lives in the block cache. Without a filter policy, the
    /// default, no filter is read.
    pub table: BlockBasedTableOptions,
    /// Keeps blocks in memory. Default: none, every block is read when it is needed.
    pub block_cache: Option<Arc<BlockCache>>,
    /// What prefixes are, for prefix filters. Default: there are none.
    pub prefix_extractor: Option<Arc<dyn SliceTransform>>,
    /// The file's greatest sequence number as the MANIFEST knows it; ingested files need it. Default: unknown.
    pub largest_sequence: Option<u64>,
    /// The level of the file, for what stays pinned in the block cache; -1, the default: unknown.
    pub level: i32,
    /// Level-0 files up to this size count as flushed, not compacted, for what stays pinned; 0, the default: none does.
    pub max_flushed_file_bytes: u64,
    /// The file's number; names its blocks in the cache where the file itself does not tell who made it.
    pub file_number: u64,
    /// The session's id; as `file_number`.
    pub session_id: String,
    /// Bytes of protection that each entry of a data block has in memory, checked when it is read: 0, 1, 2, 4 or 8.
    /// Default: 0, none.
    pub block_protection_bytes_per_key: u8,
    /// Counts hits and misses of the cache and of filters. Default: none.
    pub statistics: Option<Arc<Statistics>>,
}

impl Default for TableReaderOptions {
    fn default() -> Self {
        Self {
            comparator: InternalKeyComparator::default(),
            table: BlockBasedTableOptions::default(),
            block_cache: None,
            prefix_extractor: None,
            largest_sequence: None,
            level: -1,
            max_flushed_file_bytes: 0,
            file_number: 0,
            session_id: String::new(),
            block_protection_bytes_per_key: 0,
            statistics: None,
        }
    }
}

/// Makes reads from files wait for a rate limiter.
#[derive(Clone, Debug)]
pub struct ReadThrottle {
    /// Who is asked.
    pub limiter: Arc<dyn RateLimiter>,
    /// With which priority.
    pub priority: IoPriority,
}

impl ReadThrottle {
    /// Waits until so many bytes may be read.
    pub fn wait(&self, bytes: u64) {
        self.limiter.request(bytes, self.priority, IoKind::Read);
    }
}

/// How one lookup or iterator reads a table.
#[derive(Clone, Debug)]
pub struct TableReadOptions {
    /// Compare every block that is read from the file with its checksum. Default: true.
    pub verify_checksums: bool,
    /// Keep blocks that are read in the block cache. Default: true.
    pub fill_cache: bool,
    /// Answer from memory alone; where that takes a block that is not there, fail with `Incomplete`. Default: false.
    pub cache_only: bool,
    /// Do not ask filters. Default: false.
    pub skip_filters: bool,
    /// Iterators: never pass over a table by its prefix filter. Default: false.
    pub total_order_seek: bool,
    /// Iterators: use the prefix filter only where it cannot change the result. Default: false.
    pub auto_prefix_mode: bool,
    /// Iterators: the caller looks at keys of the sought prefix only. Default: false.
    pub prefix_same_as_start: bool,
    /// Iterators: the user key, without timestamp, at which the caller stops. Only filters look at it. Default: none.
    pub iterate_upper_bound: Option<Arc<[u8]>>,
    /// When iterators read ahead.
    pub readahead: ReadAheadOptions,
    /// Whom blocks wait for before they are read from the file. Default: nobody.
    pub throttle: Option<ReadThrottle>,
}

impl Default for TableReadOptions {
    fn default() -> Self {
        Self {
            verify_checksums: true,
            fill_cache: true,
            cache_only: false,
            skip_filters: false,
            total_order_seek: false,
            auto_prefix_mode: false,
            prefix_same_as_start: false,
            iterate_upper_bound: None,
            readahead: ReadAheadOptions::default(),
            throttle: None,
        }
    }
}
