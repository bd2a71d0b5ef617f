//! Blocks in memory and references that keep them there.
//!
//! A block that was read becomes a [`TableBlock`]; whoever works with it holds a [`BlockRef`]. Values are handed out
//! borrowed from the block with the reference as their owner, so that a caller may keep them without a copy.

use std::sync::Arc;

use firn_format::block::{BlockLayout, BlockView};

use crate::cache::{Cache, CacheRef};
use crate::data_block::DataBlock;
use crate::index_block::IndexBlock;
use crate::reader::filter::FilterBlock;
use crate::sink::{Keepalive, PinSource};

/// A block in memory, of any kind that caches hold.
///
/// Data blocks lie here themselves, the others behind a pointer: a lookup meets one data block after the other, but the
/// same few others again and again.
#[derive(Debug)]
pub enum TableBlock {
    /// Entries.
    Data(DataBlock),
    /// An index block, an index partition, a top-level index or a filter partition index.
    Index(Box<IndexBlock>),
    /// A full filter or a filter partition.
    Filter(Box<FilterBlock>),
}

// With the cache's own words a data block fills two cache lines.
const _: () = assert!(size_of::<TableBlock>() <= 88);

impl TableBlock {
    /// Bytes of memory that the block takes.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Self::Data(block) => size_of::<Self>() + block.payload_memory_bytes(),
            Self::Index(block) => block.memory_bytes(),
            Self::Filter(block) => block.memory_bytes(),
        }
    }
}

/// The cache that tables share.
pub type BlockCache = Cache<TableBlock>;

/// A reference that keeps a block in memory.
#[derive(Clone, Debug)]
pub enum BlockRef {
    /// A block in the cache, which cannot evict it meanwhile.
    Cached(CacheRef<TableBlock>),
    /// A block that no cache knows.
    Owned(Arc<TableBlock>),
}

impl BlockRef {
    /// Bytes of memory that the block takes outside of the cache.
    pub fn owned_bytes(&self) -> usize {
        match self {
            Self::Cached(_) => 0,
            Self::Owned(block) => block.memory_bytes(),
        }
    }

    /// A block that no cache knows.
    pub fn owned(block: TableBlock) -> Self {
        Self::Owned(Arc::new(block))
    }

    /// The block.
    #[inline]
    pub fn get(&self) -> &TableBlock {
        match self {
            Self::Cached(block) => block,
            Self::Owned(block) => block,
        }
    }

    /// The block as a data block; an empty one if it is of another kind, which loaders see to that it never is.
    #[inline]
    pub fn data_view(&self) -> BlockView<'_> {
        match self.get() {
            TableBlock::Data(block) => block.view(),
            _ => EMPTY_VIEW,
        }
    }

    /// The block as a data block, if it is one.
    #[inline]
    pub fn data(&self) -> Option<&DataBlock> {
        match self.get() {
            TableBlock::Data(block) => Some(block),
            _ => None,
        }
    }

    /// The block as an index block, if it is one.
    #[inline]
    pub fn index(&self) -> Option<&IndexBlock> {
        match self.get() {
            TableBlock::Index(block) => Some(block),
            _ => None,
        }
    }
}

const EMPTY_VIEW: BlockView<'static> = BlockView {
    payload: &[],
    layout: BlockLayout {
        entries_end: 0,
        restarts_offset: 0,
        num_restarts: 0,
        separated_values: false,
        hash_offset: 0,
        hash_buckets: 0,
        uniform_keys: false,
    },
};

impl PinSource for BlockRef {
    #[inline]
    fn keepalive(&self) -> Keepalive {
        match self {
            Self::Cached(block) => Keepalive::Cached(block.clone()),
            Self::Owned(block) => block.keepalive(),
        }
    }
}
