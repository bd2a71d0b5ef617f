//! What of tables lives in the block cache, and for how long.

use std::sync::Arc;

use firn_table::cache::CacheOptions;
use firn_table::options::{IndexType, MetadataCacheOptions, PinningTier, PrepopulateBlockCache};
use firndb::Db;
use firndb::options::{BlockBasedTableOptions, CompactRangeOptions, FilterPolicy, FlushOptions, TableFactory};
use firndb::stats::{Statistics, Ticker};

use crate::options;

/// A database, its counters and its cache.
struct Setup {
    db: Db,
    statistics: Arc<Statistics>,
    cache: Arc<firn_table::BlockCache>,
    _dir: tempfile::TempDir,
}

impl Setup {
    /// With metadata in a cache of `cache_bytes`.
    fn new(cache_bytes: usize, change: impl FnOnce(&mut BlockBasedTableOptions)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let statistics = Arc::new(Statistics::default());
        let cache = CacheOptions { num_shard_bits: 0, ..CacheOptions::new(cache_bytes) };
        let cache = Arc::new(firn_table::BlockCache::new(&cache));
        let mut table = BlockBasedTableOptions {
            block_cache: Some(Arc::clone(&cache)),
            cache_index_and_filter_blocks: true,
            ..BlockBasedTableOptions::default()
        };
        change(&mut table);
        let options = options(|o| {
            o.db.statistics = Some(Arc::clone(&statistics));
            o.cf.disable_auto_compactions = true;
            o.cf.table_factory = TableFactory::BlockBased(table);
        });
        let db = Db::open(dir.path(), options).unwrap();
        Self { db, statistics, cache, _dir: dir }
    }

    fn fill(&self, start: &str, count: usize) {
        for i in 0..count {
            self.db.put(format!("{start}{i:05}"), format!("{i:0400}")).unwrap();
        }
        self.db.flush(&FlushOptions::default(), self.db.default_cf()).unwrap();
    }

    fn get(&self, key: &str) {
        assert!(self.db.get(key).unwrap().is_some());
    }

    /// By how much `ticker` grows while `action` runs.
    fn counted(&self, ticker: Ticker, action: impl FnOnce()) -> u64 {
        let before = self.statistics.ticker_count(ticker);
        action();
        self.statistics.ticker_count(ticker) - before
    }

    /// Whether a get looks for the index in the cache rather than at the table.
    fn asks_cache_for_index(&self) -> bool {
        let hits = self.counted(Ticker::BlockCacheIndexHit, || self.get("a00000"));
        let misses = self.counted(Ticker::BlockCacheIndexMiss, || self.get("a00000"));
        hits + misses > 0
    }

    fn compact(&self) {
        self.db.compact_range(&CompactRangeOptions::default(), self.db.default_cf(), None, None).unwrap();
    }
}

#[test]
fn pin_l0_filter_and_index_blocks_in_cache_holds_the_metadata_of_flushed_tables() {
    for pin in [false, true] {
        let setup = Setup::new(8 << 20, |table| table.pin_l0_filter_and_index_blocks_in_cache = pin);
        setup.fill("a", 100);
        assert_eq!(setup.asks_cache_for_index(), !pin);
        setup.fill("a", 100);
        setup.compact();
        assert!(setup.asks_cache_for_index(), "the table left level 0");
    }
}

#[test]
fn metadata_cache_options_pin_by_kind_of_block() {
    let unpartitioned = |tier| {
        let setup = Setup::new(8 << 20, |table| table.metadata_cache_options.unpartitioned_pinning = tier);
        setup.fill("a", 100);
        let flushed = setup.asks_cache_for_index();
        setup.fill("a", 100);
        setup.compact();
        (flushed, setup.asks_cache_for_index())
    };
    assert_eq!(unpartitioned(PinningTier::None), (true, true));
    assert_eq!(unpartitioned(PinningTier::FlushedAndSimilar), (false, true));
    assert_eq!(unpartitioned(PinningTier::All), (false, false));
}

#[test]
fn pinned_partitions_are_never_read_again() {
    for (tier, pinned) in [(PinningTier::None, false), (PinningTier::All, true)] {
        let setup = Setup::new(8 << 20, |table| {
            table.index_type = IndexType::TwoLevelIndexSearch;
            table.partition_filters = true;
            table.filter_policy = Some(FilterPolicy::bloom(10.0));
            table.metadata_block_size = 128;
            table.metadata_cache_options = MetadataCacheOptions { partition_pinning: tier, ..Default::default() };
        });
        setup.fill("a", 500);
        setup.get("a00000");
        setup.cache.erase_unreferenced();
        let misses = setup.counted(Ticker::BlockCacheIndexMiss, || setup.get("a00400"));
        assert_eq!(misses == 0, pinned);
        let misses = setup.counted(Ticker::BlockCacheFilterMiss, || setup.get("a00200"));
        assert_eq!(misses == 0, pinned);
    }
}

#[test]
fn cache_index_and_filter_blocks_with_high_priority_keeps_them_in_their_pool() {
    for high in [false, true] {
        let setup = Setup::new(256 << 10, |table| table.cache_index_and_filter_blocks_with_high_priority = high);
        setup.fill("a", 100);
        setup.fill("b", 5000);
        setup.get("a00000");
        (0..5000).for_each(|i| setup.get(&format!("b{i:05}")));
        let misses = setup.counted(Ticker::BlockCacheIndexMiss, || setup.get("a00000"));
        assert_eq!(misses, u64::from(!high));
    }
}

#[test]
fn prepopulate_block_cache_puts_new_data_blocks_into_the_cache() {
    let missed = |prepopulate, compact: bool| {
        let setup = Setup::new(8 << 20, |table| table.prepopulate_block_cache = prepopulate);
        setup.fill("a", 100);
        if compact {
            setup.fill("a", 100);
            setup.compact();
        }
        setup.counted(Ticker::BlockCacheDataMiss, || (0..100).for_each(|i| setup.get(&format!("a{i:05}")))) > 0
    };
    use PrepopulateBlockCache::{Disable, FlushAndCompaction, FlushOnly};
    assert_eq!((missed(Disable, false), missed(Disable, true)), (true, true));
    assert_eq!((missed(FlushOnly, false), missed(FlushOnly, true)), (false, true));
    assert_eq!((missed(FlushAndCompaction, false), missed(FlushAndCompaction, true)), (false, false));
}

#[test]
fn block_protection_bytes_per_key_takes_its_bytes_for_every_entry_in_the_cache() {
    let setup = Setup::new(8 << 20, |table| table.cache_index_and_filter_blocks = false);
    let cached = |start: &str, bytes: &str| {
        setup.db.set_options(setup.db.default_cf(), &[("block_protection_bytes_per_key", bytes)]).unwrap();
        (0..5000).for_each(|i| setup.db.put(format!("{start}{i:05}"), "").unwrap());
        setup.db.flush(&FlushOptions::default(), setup.db.default_cf()).unwrap();
        let before = setup.cache.usage_bytes();
        (0..5000).for_each(|i| setup.get(&format!("{start}{i:05}")));
        setup.cache.usage_bytes() - before
    };
    let none = cached("a", "0");
    let eight = cached("b", "8");
    assert!(eight > none + 5000 * 8, "{none} {eight}");
    assert!(cached("c", "1") < eight - 5000 * 6);
}
