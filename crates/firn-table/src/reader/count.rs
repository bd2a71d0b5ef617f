//! What looking into the block cache and asking filters counts.

use std::sync::Arc;

use crate::cache::CachePriority;
use crate::statistics::{PerfMetric, Statistics, Ticker, perf_add};

/// The counters of one kind of block.
pub(crate) struct BlockCounters {
    hit: Ticker,
    miss: Ticker,
    add: Ticker,
    bytes_insert: Ticker,
    perf_hit: Option<PerfMetric>,
    perf_read: Option<PerfMetric>,
    /// Whether blocks have the priority of metadata in the cache.
    is_metadata: bool,
}

/// Of data blocks.
pub(crate) const DATA: BlockCounters = BlockCounters {
    hit: Ticker::BlockCacheDataHit,
    miss: Ticker::BlockCacheDataMiss,
    add: Ticker::BlockCacheDataAdd,
    bytes_insert: Ticker::BlockCacheDataBytesInsert,
    perf_hit: None,
    perf_read: None,
    is_metadata: false,
};

/// Of index blocks.
pub(super) const INDEX: BlockCounters = BlockCounters {
    hit: Ticker::BlockCacheIndexHit,
    miss: Ticker::BlockCacheIndexMiss,
    add: Ticker::BlockCacheIndexAdd,
    bytes_insert: Ticker::BlockCacheIndexBytesInsert,
    perf_hit: Some(PerfMetric::BlockCacheIndexHitCount),
    perf_read: Some(PerfMetric::IndexBlockReadCount),
    is_metadata: true,
};

/// Of filter blocks and of the indexes of filter partitions.
pub(super) const FILTER: BlockCounters = BlockCounters {
    hit: Ticker::BlockCacheFilterHit,
    miss: Ticker::BlockCacheFilterMiss,
    add: Ticker::BlockCacheFilterAdd,
    bytes_insert: Ticker::BlockCacheFilterBytesInsert,
    perf_hit: Some(PerfMetric::BlockCacheFilterHitCount),
    perf_read: Some(PerfMetric::FilterBlockReadCount),
    is_metadata: true,
};

impl BlockCounters {
    /// How long the cache tries to keep such a block of a table whose metadata have the priority `metadata`.
    pub(super) fn priority(&self, metadata: CachePriority) -> CachePriority {
        if self.is_metadata { metadata } else { CachePriority::Low }
    }

    /// A block of `bytes` was found in the cache.
    #[inline]
    pub(super) fn found(&self, statistics: Option<&Arc<Statistics>>, bytes: impl FnOnce() -> usize) {
        perf_add(PerfMetric::BlockCacheHitCount, 1);
        if let Some(metric) = self.perf_hit {
            perf_add(metric, 1);
        }
        if let Some(statistics) = statistics {
            statistics.record_tick(Ticker::BlockCacheHit, 1);
            statistics.record_tick(self.hit, 1);
            statistics.record_tick(Ticker::BlockCacheBytesRead, bytes() as u64);
        }
    }

    /// A block was not found in the cache.
    pub(super) fn missed(&self, statistics: Option<&Arc<Statistics>>) {
        if let Some(statistics) = statistics {
            statistics.record_tick(Ticker::BlockCacheMiss, 1);
            statistics.record_tick(self.miss, 1);
        }
    }

    /// A block of `bytes` was read from the file.
    pub(super) fn read(&self, bytes: u64) {
        perf_add(PerfMetric::BlockReadCount, 1);
        perf_add(PerfMetric::BlockReadByte, bytes);
        if let Some(metric) = self.perf_read {
            perf_add(metric, 1);
        }
    }

    /// A block of `bytes` was put into the cache, or was refused.
    pub(crate) fn inserted(&self, statistics: Option<&Arc<Statistics>>, bytes: usize, accepted: bool) {
        let Some(statistics) = statistics else { return };
        if accepted {
            statistics.record_tick(Ticker::BlockCacheAdd, 1);
            statistics.record_tick(self.add, 1);
            statistics.record_tick(Ticker::BlockCacheBytesWrite, bytes as u64);
            statistics.record_tick(self.bytes_insert, bytes as u64);
        } else {
            statistics.record_tick(Ticker::BlockCacheAddFailures, 1);
        }
    }
}

/// A filter was asked for a whole key.
#[inline]
pub(super) fn whole_key_filter_asked(statistics: Option<&Arc<Statistics>>, may_match: bool) {
    perf_add(if may_match { PerfMetric::BloomSstHitCount } else { PerfMetric::BloomSstMissCount }, 1);
    if let Some(statistics) = statistics {
        statistics.record_tick(if may_match { Ticker::BloomFilterFullPositive } else { Ticker::BloomFilterUseful }, 1);
    }
}

/// A filter was asked for a prefix in a point lookup.
#[inline]
pub(super) fn prefix_filter_asked(statistics: Option<&Arc<Statistics>>, may_match: bool) {
    perf_add(if may_match { PerfMetric::BloomSstHitCount } else { PerfMetric::BloomSstMissCount }, 1);
    if let Some(statistics) = statistics {
        statistics.record_tick(Ticker::BloomFilterPrefixChecked, 1);
        if !may_match {
            statistics.record_tick(Ticker::BloomFilterPrefixUseful, 1);
        }
    }
}
