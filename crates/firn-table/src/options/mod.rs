//! Options of tables: how a sorted file is laid out, and what of it stays in memory.
//!
//! [`BlockBasedTableOptions`] configures the default format, [`PlainTableOptions`] and [`CuckooTableOptions`] the two that
//! are known and refused. [`TableFactory`] names the format of new files. Fields carry RocksDB's names; every option is
//! declared once (see [`firn_format::options`]), so that the structures, the text of OPTIONS files and the reference page
//! cannot differ.

mod block_cache;
mod filter_policy;
mod table_factory;

pub use block_cache::BlockCacheCodec;
pub use filter_policy::FilterPolicyCodec;
pub use firn_format::filter::FilterPolicy;
pub use table_factory::{CuckooTableOptions, PlainTableEncoding, PlainTableOptions, TableFactory, TableFactoryCodec};

use std::sync::Arc;

use crate::BlockCache;
use firn_format::checksum::ChecksumType;
use firn_format::options::{
    ConfigOptions, Dialect, Kept, KeptOptions, Nested, OptionValue, UnsupportedObject, ValueKind,
};
use firn_format::{Result, option_enum, option_set};

option_enum! {
    /// How data blocks are found.
    pub enum IndexType {
        /// One sorted index block.
        #[default]
        BinarySearch = 0 => "kBinarySearch",
        /// A sorted index block with a hash table over key prefixes; needs a prefix extractor.
        HashSearch = 1 => "kHashSearch",
        /// Index partitions under a top-level index.
        TwoLevelIndexSearch = 2 => "kTwoLevelIndexSearch",
        /// One sorted index block whose entries also hold the first key of their data block.
        BinarySearchWithFirstKey = 3 => "kBinarySearchWithFirstKey",
    }
}

option_enum! {
    /// How a key is found in a data block.
    pub enum DataBlockIndexType {
        /// Binary search over restart points.
        #[default]
        BinarySearch = 0 => "kDataBlockBinarySearch",
        /// A hash table for point lookups beside it.
        BinaryAndHash = 1 => "kDataBlockBinaryAndHash",
    }
}

option_enum! {
    /// How a key is found in an index block.
    pub enum BlockSearchType {
        /// Binary search.
        #[default]
        Binary = 0 => "kBinary",
        /// Interpolation search; needs the bytewise comparator.
        Interpolation = 1 => "kInterpolation",
        /// Whichever the block's marks suggest.
        Auto = 2 => "kAuto",
    }
}

option_enum! {
    /// How much index keys are shortened.
    pub enum IndexShorteningMode {
        /// Full keys.
        NoShortening = 0 => "kNoShortening",
        /// Shortest separators between blocks, the full key for the last block.
        #[default]
        ShortenSeparators = 1 => "kShortenSeparators",
        /// Shortest separators between blocks, a short successor for the last block.
        ShortenSeparatorsAndSuccessor = 2 => "kShortenSeparatorsAndSuccessor",
    }
}

option_enum! {
    /// Which freshly written blocks are put into the block cache.
    pub enum PrepopulateBlockCache {
        /// None.
        #[default]
        Disable = 0 => "kDisable",
        /// Those of flushes.
        FlushOnly = 1 => "kFlushOnly",
        /// Those of flushes and compactions.
        FlushAndCompaction = 2 => "kFlushAndCompaction",
    }
}

option_enum! {
    /// Which tables keep their metadata blocks pinned in the block cache.
    pub enum PinningTier {
        /// As the older options say.
        #[default]
        Fallback = 0 => "kFallback",
        /// None.
        None = 1 => "kNone",
        /// Tables that come from a flush, or are about as small.
        FlushedAndSimilar = 2 => "kFlushedAndSimilar",
        /// All.
        All = 3 => "kAll",
    }
}

option_enum! {
    /// Where data blocks end.
    pub enum FlushBlockPolicy {
        /// At the target size.
        #[default]
        BySize = 0 => "FlushBlockBySizePolicyFactory",
        /// After every key.
        EveryKey = 1 => "FlushBlockEveryKeyPolicyFactory",
    }
    also { "" => BySize }
}

option_set! {
    /// Which metadata blocks stay pinned in the block cache.
    #[derive(Copy, PartialEq, Eq)]
    pub struct MetadataCacheOptions("MetadataCacheOptions") {
        /// Index and filter blocks that are not partitioned.
        unpartitioned_pinning: PinningTier = PinningTier::Fallback;
        /// Index and filter partitions.
        partition_pinning: PinningTier = PinningTier::Fallback;
        /// The top level of partitioned indexes and filters.
        top_level_index_pinning: PinningTier = PinningTier::Fallback;
    }
}

/// Reads [`BlockBasedTableOptions::read_amp_bytes_per_bit`]: old files hold eight bytes of which only four were meant.
#[derive(Clone, Copy, Debug)]
pub struct TruncatedU32;

impl firn_format::options::OptionCodec<u32> for TruncatedU32 {
    const KIND: ValueKind = ValueKind::Uint;

    fn parse(slot: &mut u32, name: &str, text: &str, config: &ConfigOptions) -> Result<()> {
        *slot = u64::parse_value(name, text, config)? as u32;
        Ok(())
    }

    fn print(value: &u32, _dialect: Dialect) -> Option<String> {
        Some(value.to_string())
    }
}

option_set! {
    /// Options of block-based tables, the default format of sorted files.
    pub struct BlockBasedTableOptions("BlockBasedTableOptions") {
        /// Pad data blocks so that none crosses a multiple of `block_size`. Needs no compression and a `block_size` that is
        /// a power of two.
        block_align: bool = false => mutable;
        /// Cache of blocks, perhaps shared by several databases; none means one of 32 MiB of the table's own database, unless
        /// `no_block_cache` is set.
        block_cache: Option<Arc<BlockCache>> = None, with BlockCacheCodec => mutable parse_only never;
        /// Keys between restart points in data blocks. Below 1 counts as 1.
        block_restart_interval: i32 = 16 => mutable;
        /// Target size of data blocks in bytes before compression; at most 2^32-1.
        block_size: u64 = 4096 => mutable;
        /// Percent of `block_size`: a block that lacks at most this much is closed when the next entry would overflow it.
        block_size_deviation: i32 = 10 => mutable;
        /// Whether index and filter blocks live in the block cache instead of beside the open table.
        cache_index_and_filter_blocks: bool = false => mutable;
        /// Whether they are inserted with high priority.
        cache_index_and_filter_blocks_with_high_priority: bool = true => mutable;
        /// Checksum of every block.
        checksum: ChecksumType = ChecksumType::Xxh3 => mutable;
        /// Keys per bucket of the data blocks' hash index.
        data_block_hash_table_util_ratio: f64 = 0.75 => mutable;
        /// How a key is found in a data block.
        data_block_index_type: DataBlockIndexType = DataBlockIndexType::BinarySearch => mutable;
        /// Whether filter partitions may end elsewhere than index partitions.
        decouple_partitioned_filters: bool = true => mutable new inert;
        /// Verify each filter after it was built.
        detect_filter_construct_corruption: bool = false => mutable;
        /// Whether index blocks are compressed like data blocks.
        enable_index_compression: bool = true => mutable;
        /// Fail when an opened table lacks the user-defined index.
        fail_if_no_udi_on_open: bool = false => mutable new inert;
        /// Filter of new tables; none means no filter.
        filter_policy: Option<FilterPolicy> = None, with FilterPolicyCodec => mutable;
        /// Where data blocks end.
        flush_block_policy_factory: FlushBlockPolicy = FlushBlockPolicy::BySize => mutable;
        /// Format version of new tables, 2 to 7. RocksDB 7.8 reads up to 5, RocksDB 11.9 up to 7.
        format_version: u32 = 6 => mutable;
        /// Keys between restart points in index blocks. Below 1 counts as 1.
        index_block_restart_interval: i32 = 1 => mutable;
        /// How a key is found in an index block.
        index_block_search_type: BlockSearchType = BlockSearchType::Binary => mutable new inert;
        /// How much index keys are shortened.
        index_shortening: IndexShorteningMode = IndexShorteningMode::ShortenSeparators => mutable;
        /// How data blocks are found.
        index_type: IndexType = IndexType::BinarySearch => mutable;
        /// First automatic read-ahead of an iterator in bytes; it doubles from there.
        initial_auto_readahead_size: usize = 8192 => mutable inert;
        /// Largest automatic read-ahead of an iterator in bytes; 0 is none.
        max_auto_readahead_size: usize = 262_144 => mutable inert;
        /// Target size of index and filter partitions in bytes.
        metadata_block_size: u64 = 4096 => mutable;
        /// Which metadata blocks stay pinned in the block cache.
        metadata_cache_options: MetadataCacheOptions = MetadataCacheOptions::default(), with Nested => mutable;
        /// Run without a block cache.
        no_block_cache: bool = false => mutable;
        /// Sequential reads of an iterator before automatic read-ahead starts.
        num_file_reads_for_auto_readahead: u64 = 2 => mutable inert;
        /// Size filters so that the allocator wastes little.
        optimize_filters_for_memory: bool = true => mutable;
        /// Whether filters are partitioned; needs a two-level index.
        partition_filters: bool = false => mutable;
        /// Pin the metadata blocks of level-0 tables in the block cache; `metadata_cache_options` supersedes it.
        pin_l0_filter_and_index_blocks_in_cache: bool = false => mutable;
        /// Pin the top level of partitioned metadata in the block cache; `metadata_cache_options` supersedes it.
        pin_top_level_index_and_filter: bool = true => mutable;
        /// Which freshly written data blocks are put into the block cache.
        prepopulate_block_cache: PrepopulateBlockCache = PrepopulateBlockCache::Disable => mutable;
        /// Bytes per bit of the read amplification statistics; 0 is off.
        read_amp_bytes_per_bit: u32 = 0, with TruncatedU32 => mutable inert;
        /// Keys first and values last inside data blocks.
        separate_key_value_in_data_block: bool = false => mutable new;
        /// Power of two in bytes that no block crosses; 0 is off.
        super_block_alignment_size: usize = 0 => mutable new;
        /// Padding takes at most `super_block_alignment_size` divided by this; 0 means no padding.
        super_block_alignment_space_overhead_ratio: usize = 128 => mutable new;
        /// Marks index blocks as uniform when the variation of their key gaps is below this; -1 is off.
        uniform_cv_threshold: f64 = -1.0 => mutable new inert;
        /// Whether keys in data blocks omit the bytes they share with their predecessor.
        use_delta_encoding: bool = true => mutable new;
        /// Route all reads through the user-defined index.
        use_udi_as_primary_index: bool = false => mutable new inert;
        /// An index of the application's own; known by name only.
        user_defined_index_factory: UnsupportedObject = UnsupportedObject(None) => mutable new inert;
        /// Decompress and compare every block that is written.
        verify_compression: bool = false => mutable;
        /// Whether whole keys, and not only prefixes, enter the filter.
        whole_key_filtering: bool = true => mutable;
        /// Text of options that are not acted on.
        kept: KeptOptions = KeptOptions::default(), with Kept;
    }
    retired {
        "block_cache_compressed", "hash_index_allow_collision", "index_per_partition", "reserve_table_builder_memory",
        "reserve_table_reader_memory", "skip_table_builder_flush",
    }
}

impl BlockBasedTableOptions {
    /// The options that RocksDB 7.8 lets change while a database is open; 11.9 lets all change.
    pub const MUTABLE_IN_7_8: [&'static str; 7] = [
        "block_size",
        "block_restart_interval",
        "prepopulate_block_cache",
        "max_auto_readahead_size",
        "initial_auto_readahead_size",
        "num_file_reads_for_auto_readahead",
        "detect_filter_construct_corruption",
    ];
}

#[cfg(test)]
mod tests;
