//! Reading block-based tables.
//!
//! [`TableReader::open`] reads footer, metaindex, properties, range tombstones and index of a file and checks all of them.
//! Lookups then flow filter → index → data block; entries come out through a [`GetSink`](crate::GetSink) or a
//! [`TableIterator`](crate::TableIterator). A reader is immutable, shared by any number of threads, and knows nothing of
//! levels or versions.

mod get;
pub(crate) mod meta;
mod whole;

pub use whole::Anchor;

use std::sync::Arc;

use firn_env::RandomAccessFile;
use firn_error::{Error, Result};
use firn_format::comparator::InternalKeyComparator;
use firn_format::compression::DecompressionDictionary;
use firn_format::footer::{FOOTER_SIZE, Footer};
use firn_format::index::{BlockHandle, IndexFormat};
use firn_format::properties::{CompressionUse, TableProperties, names};
use firn_format::range_tombstone::{FragmentedRangeTombstones, RangeTombstone};
use firn_format::slice_transform::SliceTransform;

use crate::block_ref::{BlockRef, DataBlock, TableBlock};
use crate::index_block::IndexBlock;
use crate::iterator::TableIterator;
use crate::key_order::KeyOrder;
use crate::options::IndexType;
use crate::readahead::{ReadAhead, ReadAheadOptions};
use crate::table_file::{BlockKind, TableFile, Verify};
use meta::MetaIndex;

/// How a table is opened.
#[derive(Clone, Debug, Default)]
pub struct TableReaderOptions {
    /// The order of keys. Default: bytewise.
    pub comparator: InternalKeyComparator,
    /// What prefixes are, for prefix filters. Default: there are none.
    pub prefix_extractor: Option<Arc<dyn SliceTransform>>,
    /// The file's greatest sequence number as the MANIFEST knows it; ingested files need it. Default: unknown.
    pub largest_sequence: Option<u64>,
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
    /// When iterators read ahead.
    pub readahead: ReadAheadOptions,
}

impl Default for TableReadOptions {
    fn default() -> Self {
        Self { verify_checksums: true, fill_cache: true, cache_only: false, readahead: ReadAheadOptions::default() }
    }
}

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

/// One open table. `Send + Sync`; iterators keep it alive.
#[derive(Debug)]
pub struct TableReader {
    file: TableFile,
    footer: Footer,
    order: KeyOrder,
    properties: Arc<TableProperties>,
    metaindex: MetaIndex,
    index_type: IndexType,
    index_format: IndexFormat,
    index: IndexBlock,
    dictionary: Option<DecompressionDictionary>,
    range_tombstones: Vec<RangeTombstone>,
    fragmented_tombstones: Arc<FragmentedRangeTombstones>,
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
        let properties = meta::read_properties(&file, &metaindex, &footer)?;
        file.set_compression(
            CompressionUse::parse(&properties.compression_name, footer.format_version)
                .map_err(|error| file.locate(error, footer.metaindex.offset))?,
        );
        if properties.user_defined_timestamps_persisted == 0 {
            return Err(Error::not_supported("user timestamps stripped from keys are not supported yet"));
        }
        if properties.user_collected.contains_key(names::EMBEDDED_BLOB_STATS.as_bytes()) {
            return Err(Error::not_supported("tables with embedded blobs are not supported yet"));
        }
        let order = KeyOrder {
            comparator: options.comparator,
            global_sequence: properties.global_sequence(options.largest_sequence)?,
        };
        let range_tombstones = meta::read_range_tombstones(&file, &metaindex, &order)?;
        let fragmented_tombstones =
            Arc::new(FragmentedRangeTombstones::new(range_tombstones.clone(), &order.comparator));
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
        let payload = file.read_block(index_handle, BlockKind::Index, None, Verify::Checksum, None)?;
        let index = IndexBlock::decode(&payload, index_format, &order.comparator)
            .map_err(|error| file.locate(error, index_handle.offset))?;

        Ok(Self {
            file,
            footer,
            order,
            properties: Arc::new(properties),
            metaindex,
            index_type,
            index_format,
            index,
            dictionary,
            range_tombstones,
            fragmented_tombstones,
        })
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

    /// The range tombstones of the file, as they were written: possibly overlapping and unordered.
    ///
    /// # Errors
    /// None; they were read when the table was opened.
    pub fn range_tombstones(&self) -> Result<Vec<RangeTombstone>> {
        Ok(self.range_tombstones.clone())
    }

    /// The range tombstones cut into fragments that do not overlap; empty in most tables. Not cut to the file's bounds.
    pub fn fragmented_range_tombstones(&self) -> &Arc<FragmentedRangeTombstones> {
        &self.fragmented_tombstones
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

    /// The index block, or the top-level index where the index is partitioned.
    pub(crate) fn index(&self) -> &IndexBlock {
        &self.index
    }

    pub(crate) fn is_partitioned(&self) -> bool {
        self.index_type == IndexType::TwoLevelIndexSearch
    }

    /// The data block at `handle`.
    pub(crate) fn data_block(
        &self,
        handle: BlockHandle,
        options: &TableReadOptions,
        readahead: Option<&mut ReadAhead>,
    ) -> Result<BlockRef> {
        if options.cache_only {
            return Err(Error::incomplete("no blocking io: block is not in the cache"));
        }
        let verify = Verify::from_option(options.verify_checksums);
        let payload = self.file.read_block(handle, BlockKind::Data, self.dictionary.as_ref(), verify, readahead)?;
        let block = DataBlock::new(payload).map_err(|error| self.file.locate(error, handle.offset))?;
        Ok(BlockRef::owned(TableBlock::Data(block)))
    }

    /// The index partition at `handle`.
    pub(crate) fn index_partition(&self, handle: BlockHandle, options: &TableReadOptions) -> Result<BlockRef> {
        if options.cache_only {
            return Err(Error::incomplete("no blocking io: block is not in the cache"));
        }
        let verify = Verify::from_option(options.verify_checksums);
        let payload = self.file.read_block(handle, BlockKind::Index, None, verify, None)?;
        let index = IndexBlock::decode(&payload, self.index_format, &self.order.comparator)
            .map_err(|error| self.file.locate(error, handle.offset))?;
        Ok(BlockRef::owned(TableBlock::Index(index)))
    }
}
