//! Reading block-based tables.
//!
//! [`TableReader::open`] reads footer, metaindex, properties, range tombstones, index and filter of a file and checks all
//! of them. Lookups then flow filter → index → data block; entries come out through a [`GetSink`](crate::GetSink) or a
//! [`TableIterator`]. A reader is immutable, shared by any number of threads, and knows nothing of levels or versions.

pub(crate) mod count;
pub(crate) mod filter;
mod get;
mod inspect;
mod load;
pub(crate) mod meta;
mod options;
mod whole;

pub use get::Located;
pub use options::{ReadThrottle, TableReadOptions, TableReaderOptions};
pub use whole::Anchor;

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use firn_env::RandomAccessFile;
use firn_error::{Error, Result};
use firn_format::comparator::InternalKeyComparator;
use firn_format::compression::DecompressionDictionary;
use firn_format::filter::BUILTIN_COMPATIBILITY_NAME;
use firn_format::footer::{FOOTER_SIZE, Footer};
use firn_format::index::{BlockHandle, IndexFormat};
use firn_format::properties::{CompressionUse, TableProperties, names};
use firn_format::range_tombstone::RangeTombstone;
use firn_format::unique_id::CacheKeyBase;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::block_ref::{BlockCache, BlockRef};
use crate::cache::CachePriority;
use crate::iterator::TableIterator;
use crate::key_order::KeyOrder;
use crate::options::IndexType;
use crate::statistics::Statistics;
use crate::table_file::TableFile;
use filter::{FilterKind, TableFilter};
use load::Pinning;
use meta::MetaIndex;

/// The index type with this number in a table's properties.
fn index_type_from_number(number: u32) -> Result<IndexType> {
    match number {
        0 => Ok(IndexType::BinarySearch),
        1 => Ok(IndexType::HashSearch),
        2 => Ok(IndexType::TwoLevelIndexSearch),
        3 => Ok(IndexType::BinarySearchWithFirstKey),
        other => Err(Error::invalid_argument(format!("Unrecognized index type: {other}"))),
    }
}

/// A block that is held somewhere else, or here.
#[derive(Debug)]
pub(crate) enum Hold<'a> {
    Borrowed(&'a BlockRef),
    Owned(BlockRef),
}

impl Deref for Hold<'_> {
    type Target = BlockRef;

    #[inline]
    fn deref(&self) -> &BlockRef {
        match self {
            Self::Borrowed(block) => block,
            Self::Owned(block) => block,
        }
    }
}

/// One open table. `Send + Sync`; iterators keep it alive.
#[derive(Debug)]
pub struct TableReader {
    file: TableFile,
    footer: Footer,
    order: KeyOrder,
    timestamp_size: usize,
    properties: Arc<TableProperties>,
    metaindex: MetaIndex,
    index_type: IndexType,
    index_format: IndexFormat,
    index_handle: BlockHandle,
    /// The index block, or the top-level one, where it does not live in the cache.
    held_index: Option<BlockRef>,
    /// The partitions of index and filter by their offset, where they stay in memory.
    held_partitions: HashMap<u64, BlockRef>,
    /// Priority of index and filter blocks in the cache.
    metadata_priority: CachePriority,
    filter: TableFilter,
    dictionary: Option<DecompressionDictionary>,
    range_tombstones: Vec<RangeTombstone>,
    block_cache: Option<Arc<BlockCache>>,
    cache_key_base: CacheKeyBase,
    /// Bytes of protection for each entry of a data block in memory.
    block_protection_bytes_per_key: u8,
    statistics: Option<Arc<Statistics>>,
}

impl TableReader {
    /// Opens a table of `file_size` bytes.
    ///
    /// # Errors
    /// Corruption, with file and offset, when the file is damaged or contradicts what is expected of it; not supported
    /// when it is of a kind that is not covered. Errors of the file pass through.
    pub fn open(file: Arc<dyn RandomAccessFile>, file_size: u64, options: TableReaderOptions) -> Result<Self> {
        let path = file.path().to_path_buf();
        Self::open_inner(file, file_size, options).map_err(|error| error.with_file(path))
    }

    fn open_inner(file: Arc<dyn RandomAccessFile>, file_size: u64, options: TableReaderOptions) -> Result<Self> {
        let actual_size = file.size()?;
        if actual_size != file_size {
            return Err(Error::corruption(format!(
                "Sst file size mismatch between expected {file_size} and file system {actual_size}"
            )));
        }
        let mut tail = vec![0; file_size.min(FOOTER_SIZE as u64) as usize];
        file.read_exact_at(file_size - tail.len() as u64, &mut tail)?;
        let footer = Footer::decode(&tail, file_size)?;
        let mut file = TableFile::new(file, file_size, &footer);

        let metaindex = MetaIndex::read(&file, footer.metaindex)?;
        let properties = Arc::new(meta::read_properties(&file, &metaindex, &footer)?);
        file.set_compression(
            CompressionUse::parse(&properties.compression_name, footer.format_version)
                .map_err(|error| file.locate(error, footer.metaindex.offset))?,
        );
        file.set_contents(&properties);
        refuse_unsupported(&properties)?;
        let order = KeyOrder {
            comparator: options.comparator,
            global_sequence: properties.global_sequence(options.largest_sequence)?,
        };
        let range_tombstones = meta::read_range_tombstones(&file, &metaindex, &order)?;
        let dictionary = match metaindex.find(meta::COMPRESSION_DICTIONARY) {
            Some(handle) => meta::read_dictionary(&file, handle)?,
            None => None,
        };

        // Releases before the property existed wrote binary-search indexes only.
        let index_type = index_type_from_number(properties.index_type().unwrap_or_default())?;
        let index_format = IndexFormat {
            key_is_user_key: properties.index_key_is_user_key != 0,
            value_is_delta_encoded: properties.index_value_is_delta_encoded != 0,
            has_first_key: index_type == IndexType::BinarySearchWithFirstKey,
        };
        let index_handle = match footer.index {
            Some(handle) => handle,
            None => metaindex
                .find(meta::INDEX)
                .ok_or_else(|| file.locate(Error::corruption("Cannot find the meta block: rocksdb.index"), 0))?,
        };
        let filter_kind =
            if options.table.filter_policy.is_some() { find_filter(&metaindex) } else { FilterKind::None };
        let filter =
            TableFilter::new(filter_kind, &properties, options.table.whole_key_filtering, options.prefix_extractor);
        let cache_key_base = cache_key_base(&properties, &options.session_id, options.file_number);
        let timestamp_size = order.comparator.user_comparator().timestamp_size();
        let mut table = Self {
            file,
            footer,
            order,
            timestamp_size,
            properties,
            metaindex,
            index_type,
            index_format,
            index_handle,
            held_index: None,
            held_partitions: HashMap::new(),
            metadata_priority: if options.table.cache_index_and_filter_blocks_with_high_priority {
                CachePriority::High
            } else {
                CachePriority::Low
            },
            filter,
            dictionary,
            range_tombstones,
            block_cache: options.block_cache.filter(|_| !options.table.no_block_cache),
            cache_key_base,
            block_protection_bytes_per_key: options.block_protection_bytes_per_key,
            statistics: options.statistics,
        };
        let flushed = options.level == 0 && file_size <= options.max_flushed_file_bytes;
        table.load_metadata(&Pinning::of(&options.table, flushed), &options.table)?;
        Ok(table)
    }

    /// What the file says about itself.
    pub fn properties(&self) -> &Arc<TableProperties> {
        &self.properties
    }

    /// The file's footer.
    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// How the index is arranged.
    pub fn index_type(&self) -> IndexType {
        self.index_type
    }

    /// The order of internal keys.
    pub fn comparator(&self) -> &InternalKeyComparator {
        &self.order.comparator
    }

    /// Bytes of the file.
    pub fn file_size(&self) -> u64 {
        self.file.file_size()
    }

    /// The sequence number that all entries count as having, in ingested files.
    pub fn global_sequence(&self) -> Option<u64> {
        self.order.global_sequence
    }

    /// The range tombstones of the file, as they were written: possibly overlapping and unordered, and not cut to the file's
    /// bounds.
    pub fn range_tombstones(&self) -> &[RangeTombstone] {
        &self.range_tombstones
    }

    /// Whether the file has range tombstones.
    pub fn has_range_tombstones(&self) -> bool {
        !self.range_tombstones.is_empty()
    }

    /// Bytes of memory that the open table takes besides what lies in the block cache: index and filter blocks that it holds
    /// itself.
    pub fn memory_bytes(&self) -> usize {
        let held = self.held_index.iter().chain(self.held_partitions.values()).chain(self.filter.held());
        size_of::<Self>() + held.map(BlockRef::owned_bytes).sum::<usize>()
    }

    /// An iterator over the entries that stands nowhere. Range tombstones are not among them.
    pub fn iter(self: &Arc<Self>, options: &TableReadOptions) -> TableIterator {
        TableIterator::new(Arc::clone(self), options.clone())
    }

    pub(crate) fn order(&self) -> &KeyOrder {
        &self.order
    }

    pub(crate) fn file(&self) -> &TableFile {
        &self.file
    }

    pub(crate) fn is_partitioned(&self) -> bool {
        self.index_type == IndexType::TwoLevelIndexSearch
    }
}

/// What the table's blocks are called in the cache: by who made the file, as the file itself tells; else by who opened it;
/// else by a number of its own, so that no two files ever share a name.
pub(crate) fn cache_key_base(properties: &TableProperties, session_id: &str, file_number: u64) -> CacheKeyBase {
    static UNIDENTIFIED: AtomicU64 = AtomicU64::new(0);
    if !properties.db_session_id.is_empty() && properties.original_file_number != 0 {
        let db_id = if properties.db_id.is_empty() { "unknown" } else { &properties.db_id };
        CacheKeyBase::new(db_id, &properties.db_session_id, properties.original_file_number)
    } else if !session_id.is_empty() && file_number != 0 {
        CacheKeyBase::new("unknown", session_id, file_number)
    } else {
        let number = UNIDENTIFIED.fetch_add(1, Ordering::Relaxed);
        CacheKeyBase::new("unidentified", &format!("opened {number}"), number)
    }
}

fn refuse_unsupported(properties: &TableProperties) -> Result<()> {
    if properties.user_defined_timestamps_persisted == 0 {
        return Err(Error::not_supported("user timestamps stripped from keys are not supported yet"));
    }
    if properties.user_collected.contains_key(names::EMBEDDED_BLOB_STATS.as_bytes()) {
        return Err(Error::not_supported("tables with embedded blobs are not supported yet"));
    }
    Ok(())
}

/// The filter of the built-in kinds; obsolete block-based filters are passed over.
fn find_filter(metaindex: &MetaIndex) -> FilterKind {
    let find = |kind: &str| metaindex.find(&format!("{kind}.{BUILTIN_COMPATIBILITY_NAME}"));
    if let Some(handle) = find("fullfilter") {
        FilterKind::Full { handle, held: None }
    } else if let Some(handle) = find("partitionedfilter") {
        FilterKind::Partitioned { handle, held: None }
    } else {
        FilterKind::None
    }
}
