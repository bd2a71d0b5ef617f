//! Bringing blocks into memory: from the block cache, or from the file through the block cache.

use firn_error::{Error, Result};
use firn_format::index::{BlockHandle, IndexFormat};

use super::count::{self, BlockCounters};
use super::filter::{FilterBlock, FilterKind};
use super::{Hold, TableReadOptions, TableReader};
use crate::block_ref::{BlockRef, TableBlock};
use crate::cache::CacheKey;
use crate::data_block::DataBlock;
use crate::index_block::IndexBlock;
use crate::options::{BlockBasedTableOptions, PinningTier};
use crate::readahead::ReadAhead;
use crate::table_file::{BlockKind, Verify};

/// Which metadata blocks of a table stay in memory while it is open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pinning {
    /// Index and filter, where they are not partitioned.
    unpartitioned: bool,
    /// The partitions of index and filter.
    partitions: bool,
    /// The top level of partitioned indexes and filters.
    top_level: bool,
}

impl Pinning {
    /// What `table` says of a table; `flushed` tells whether it comes from a flush or is about as small.
    pub(super) fn of(table: &BlockBasedTableOptions, flushed: bool) -> Self {
        let is_pinned = |tier: PinningTier, fallback: PinningTier| {
            let tier = if tier == PinningTier::Fallback { fallback } else { tier };
            tier == PinningTier::All || (tier == PinningTier::FlushedAndSimilar && flushed)
        };
        let level_0 = match table.pin_l0_filter_and_index_blocks_in_cache {
            true => PinningTier::FlushedAndSimilar,
            false => PinningTier::None,
        };
        let top_level = if table.pin_top_level_index_and_filter { PinningTier::All } else { PinningTier::None };
        let tiers = &table.metadata_cache_options;
        Self {
            unpartitioned: is_pinned(tiers.unpartitioned_pinning, level_0),
            partitions: is_pinned(tiers.partition_pinning, level_0),
            top_level: is_pinned(tiers.top_level_index_pinning, top_level),
        }
    }
}

/// The handles in a top-level index.
fn partitions(top_level: &BlockRef) -> impl Iterator<Item = BlockHandle> + '_ {
    let index = top_level.index();
    index.into_iter().flat_map(|index| (0..index.len()).filter_map(|position| index.handle(position)))
}

impl TableReader {
    /// Loads index and filter at open, and holds here what does not live in the cache or is pinned there.
    pub(super) fn load_metadata(&mut self, pinning: &Pinning, table: &BlockBasedTableOptions) -> Result<()> {
        let in_cache = table.cache_index_and_filter_blocks && self.block_cache.is_some();
        let pinned = !in_cache || pinning.unpartitioned;
        let pin_top_level = !in_cache || pinning.top_level;
        let options = TableReadOptions { fill_cache: in_cache, ..TableReadOptions::default() };

        // The index is read in any case, so that a damaged one is found now.
        let index = self.load_index(&options, in_cache)?;
        if pinning.partitions && self.block_cache.is_some() {
            self.hold_partitions(&index)?;
        }
        if if self.is_partitioned() { pin_top_level } else { pinned } {
            self.held_index = Some(index);
        }
        let loaded = match &self.filter.kind {
            FilterKind::None => None,
            FilterKind::Full { handle, .. } if pinned => Some(self.load_filter(*handle, &options, in_cache)),
            FilterKind::Partitioned { handle, .. } if pin_top_level => {
                Some(self.load_filter_partition_index(*handle, &options, in_cache))
            }
            _ => return Ok(()),
        };
        match (&mut self.filter.kind, loaded) {
            (FilterKind::Full { held, .. } | FilterKind::Partitioned { held, .. }, Some(Ok(block))) => {
                *held = Some(block);
            }
            // A file is readable without its filter.
            (kind, Some(Err(_))) => *kind = FilterKind::None,
            _ => {}
        }
        Ok(())
    }

    /// Holds all partitions of the index, whose top level is `index`, and of the filter.
    fn hold_partitions(&mut self, index: &BlockRef) -> Result<()> {
        let options = TableReadOptions::default();
        if self.is_partitioned() {
            for handle in partitions(index) {
                let block = self.index_partition(handle, &options)?;
                self.held_partitions.insert(handle.offset, block);
            }
        }
        if let FilterKind::Partitioned { handle, .. } = self.filter.kind {
            // A file is readable without its filter, and without parts of it.
            let Ok(top_level) = self.filter_partition_index(handle, &options) else { return Ok(()) };
            for handle in partitions(&top_level).filter(|handle| handle.size > 0) {
                if let Ok(block) = self.filter_block(handle, &options) {
                    self.held_partitions.insert(handle.offset, block);
                }
            }
        }
        Ok(())
    }

    fn held_partition(&self, handle: BlockHandle) -> Option<BlockRef> {
        if self.held_partitions.is_empty() {
            return None;
        }
        self.held_partitions.get(&handle.offset).cloned()
    }

    /// Names the block at `handle` in the cache.
    #[inline]
    pub(crate) fn cache_key(&self, handle: BlockHandle) -> CacheKey {
        CacheKey::from(self.cache_key_base.block_key(handle.offset))
    }

    /// The block at `handle`, through the cache unless `cached` is false.
    #[inline]
    fn block(
        &self,
        handle: BlockHandle,
        options: &TableReadOptions,
        cached: bool,
        counters: &BlockCounters,
        load: impl FnOnce() -> Result<TableBlock>,
    ) -> Result<BlockRef> {
        let cache = self.block_cache.as_ref().filter(|_| cached);
        let key = self.cache_key(handle);
        if let Some(cache) = cache
            && let Some(block) = cache.lookup(&key)
        {
            counters.found(self.statistics.as_ref(), || block.charge_bytes());
            return Ok(BlockRef::Cached(block));
        }
        if options.cache_only {
            return Err(Error::incomplete("no blocking io: block is not in the cache"));
        }
        if cache.is_some() {
            counters.missed(self.statistics.as_ref());
        }
        if let Some(throttle) = &options.throttle {
            throttle.wait(handle.size);
        }
        let block = load().map_err(|error| self.file.locate(error, handle.offset))?;
        counters.read(handle.size);
        match cache.filter(|_| options.fill_cache) {
            Some(cache) => {
                let charge_bytes = block.memory_bytes();
                let inserted = cache.insert(&key, block, charge_bytes, counters.priority(self.metadata_priority));
                counters.inserted(self.statistics.as_ref(), charge_bytes, inserted.is_ok());
                inserted.map(BlockRef::Cached)
            }
            None => Ok(BlockRef::owned(block)),
        }
    }

    /// The data block at `handle`.
    #[inline]
    pub(crate) fn data_block(
        &self,
        handle: BlockHandle,
        options: &TableReadOptions,
        readahead: Option<&mut ReadAhead>,
    ) -> Result<BlockRef> {
        self.block(handle, options, true, &count::DATA, || {
            let verify = Verify::from_option(options.verify_checksums);
            let payload = self.file.read_data_block(handle, self.dictionary.as_ref(), verify, readahead)?;
            DataBlock::with_protection(payload, self.block_protection_bytes_per_key).map(TableBlock::Data)
        })
    }

    fn index_like(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        format: IndexFormat,
        options: &TableReadOptions,
        cached: bool,
    ) -> Result<BlockRef> {
        let counters = if kind == BlockKind::FilterPartitionIndex { &count::FILTER } else { &count::INDEX };
        self.block(handle, options, cached, counters, || {
            let verify = Verify::from_option(options.verify_checksums);
            let payload = self.file.read_block(handle, kind, verify)?;
            let index =
                IndexBlock::decode_within(&payload, format, &self.order.comparator, self.file.most_raw_bytes())?;
            Ok(TableBlock::Index(Box::new(index.protect(self.block_protection_bytes_per_key))))
        })
    }

    fn load_index(&self, options: &TableReadOptions, cached: bool) -> Result<BlockRef> {
        // The top-level index of a partitioned one names partitions, which have no first key.
        let format = if self.is_partitioned() { self.filter_index_format() } else { self.index_format };
        self.index_like(self.index_handle, BlockKind::Index, format, options, cached)
    }

    /// Names the file and the place of the index in an error that the index answered.
    #[inline]
    pub(crate) fn place_index_error<T>(&self, answer: Result<T>) -> Result<T> {
        answer.map_err(|error| self.file.locate(error, self.index_handle.offset))
    }

    /// The index block, or the top-level index where the index is partitioned.
    #[inline]
    pub(crate) fn index(&self, options: &TableReadOptions) -> Result<Hold<'_>> {
        match &self.held_index {
            Some(index) => Ok(Hold::Borrowed(index)),
            None => self.load_index(options, true).map(Hold::Owned),
        }
    }

    /// The index partition at `handle`.
    pub(crate) fn index_partition(&self, handle: BlockHandle, options: &TableReadOptions) -> Result<BlockRef> {
        if let Some(held) = self.held_partition(handle) {
            return Ok(held);
        }
        self.index_like(handle, BlockKind::Index, self.index_format, options, true)
    }

    fn load_filter(&self, handle: BlockHandle, options: &TableReadOptions, cached: bool) -> Result<BlockRef> {
        self.block(handle, options, cached, &count::FILTER, || {
            let verify = Verify::from_option(options.verify_checksums);
            let content = self.file.read_block(handle, BlockKind::Filter, verify)?;
            Ok(TableBlock::Filter(Box::new(FilterBlock::new(content))))
        })
    }

    /// The filter block at `handle`, a full filter or a partition.
    pub(super) fn filter_block(&self, handle: BlockHandle, options: &TableReadOptions) -> Result<BlockRef> {
        if let Some(held) = self.held_partition(handle) {
            return Ok(held);
        }
        self.load_filter(handle, options, true)
    }

    pub(super) fn load_filter_partition_index(
        &self,
        handle: BlockHandle,
        options: &TableReadOptions,
        cached: bool,
    ) -> Result<BlockRef> {
        self.index_like(handle, BlockKind::FilterPartitionIndex, self.filter_index_format(), options, cached)
    }

    /// The index of filter partitions.
    pub(super) fn filter_partition_index(&self, handle: BlockHandle, options: &TableReadOptions) -> Result<BlockRef> {
        self.load_filter_partition_index(handle, options, true)
    }
}
