//! Writing block-based tables.
//!
//! Entries flow into a [`TableBuilder`] in internal-key order, range tombstones at any time; blocks flow into the file as
//! they fill; [`TableBuilder::finish`] adds filter, index, properties and footer. With a compression dictionary, data
//! blocks are kept until there are enough of them to sample.
//!
//! ```text
//! data blocks | filter | hash index | index | dictionary | range deletions | properties | metaindex | footer
//! ```
//!
//! Always true here: nothing that was written is changed; after an error the file is worthless and every further call
//! fails with that error.

mod collector;
mod data;
mod filter;
mod flush_policy;
mod hash_index;
mod index;
mod options;
mod output;

pub use collector::TablePropertiesCollector;
pub use options::TableBuilderOptions;

use std::cmp::Ordering;
use std::sync::Arc;

use firn_env::WritableFile;
use firn_error::{Error, Result};
use firn_format::block::{BlockBuilder, BlockBuilderOptions};
use firn_format::compression::{CompressionType, Compressor, SizeFormat};
use firn_format::filter::BUILTIN_COMPATIBILITY_NAME;
use firn_format::footer::Footer;
use firn_format::index::{BlockHandle, IndexShortening};
use firn_format::key::{ParsedInternalKey, ValueType, parse_internal_key};
use firn_format::properties::{TableProperties, names};

use crate::options::{DataBlockIndexType, FlushBlockPolicy, IndexShorteningMode, IndexType};
use crate::reader::{cache_key_base, meta};
use data::{DataBlocks, DataCounts};
use filter::{FilterPartitioning, TableFilterBuilder};
use flush_policy::FlushPolicy;
use hash_index::HashIndexBuilder;
use index::{IndexCollector, IndexOptions};
use output::{CacheWarmer, TableOutput};

/// What a finished table file is.
#[derive(Clone, Debug)]
pub struct TableFileSummary {
    /// Bytes of the file.
    pub file_size: u64,
    /// The properties that stand in the file.
    pub properties: TableProperties,
    /// Bytes behind the last data block.
    pub tail_size: u64,
    /// The first point entry's internal key; empty when there is none.
    pub smallest: Vec<u8>,
    /// The last point entry's internal key; empty when there is none.
    pub largest: Vec<u8>,
}

/// Writes one table file. Not thread-safe; may be sent to another thread.
pub struct TableBuilder {
    options: TableBuilderOptions,
    output: TableOutput,
    block: BlockBuilder,
    flush_policy: FlushPolicy,
    first_in_block: Vec<u8>,
    smallest: Vec<u8>,
    last_key: Vec<u8>,
    data: DataBlocks,
    range_deletions: BlockBuilder,
    filter: Option<TableFilterBuilder>,
    hash_index: Option<HashIndexBuilder>,
    index_type: IndexType,
    properties: TableProperties,
    timestamps: Option<(u64, u64)>,
    failed: Option<Error>,
    finished: bool,
}

impl std::fmt::Debug for TableBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableBuilder")
            .field("output", &self.output)
            .field("num_entries", &self.properties.num_entries)
            .finish_non_exhaustive()
    }
}

impl TableBuilder {
    /// Starts a table in `file`, which must be empty.
    ///
    /// # Errors
    /// Invalid argument when options contradict each other; not supported when this build lacks the compression.
    pub fn new(options: TableBuilderOptions, file: Box<dyn WritableFile>) -> Result<Self> {
        options.validate()?;
        let table = &options.table;
        let user_comparator = options.comparator.user_comparator();
        let block = BlockBuilder::new(&BlockBuilderOptions {
            restart_interval: table.block_restart_interval.max(1) as usize,
            use_delta_encoding: table.use_delta_encoding,
            use_value_delta_encoding: false,
            separate_values: table.separate_key_value_in_data_block,
            hash_index_util_ratio: (table.data_block_index_type == DataBlockIndexType::BinaryAndHash
                && !user_comparator.can_keys_with_different_byte_contents_be_equal())
            .then_some(table.data_block_hash_table_util_ratio),
        });
        let range_deletions = BlockBuilder::new(&BlockBuilderOptions { restart_interval: 1, ..Default::default() });
        let flush_policy = match table.flush_block_policy_factory {
            FlushBlockPolicy::BySize => {
                FlushPolicy::by_size(table.block_size, table.block_size_deviation, table.block_align)
            }
            FlushBlockPolicy::EveryKey => FlushPolicy::every_key(),
        };
        // The hash index is one of prefixes: without an extractor there is nothing to put into it.
        let index_type = match table.index_type {
            IndexType::HashSearch if options.prefix_extractor.is_none() => IndexType::BinarySearch,
            other => other,
        };
        let restart_interval = match index_type {
            IndexType::HashSearch => 1,
            _ => table.index_block_restart_interval.max(1) as usize,
        };
        let partition_policy = FlushPolicy::by_size(table.metadata_block_size, table.block_size_deviation, false);
        let index = IndexCollector::new(IndexOptions {
            comparator: options.comparator.clone(),
            shortening: match table.index_shortening {
                IndexShorteningMode::NoShortening => IndexShortening::NoShortening,
                IndexShorteningMode::ShortenSeparators => IndexShortening::ShortenSeparators,
                IndexShorteningMode::ShortenSeparatorsAndSuccessor => IndexShortening::ShortenSeparatorsAndSuccessor,
            },
            restart_interval,
            format_version: table.format_version,
            value_is_delta_encoded: table.format_version >= 4 && !table.block_align,
            has_first_key: index_type == IndexType::BinarySearchWithFirstKey,
            partitions: (index_type == IndexType::TwoLevelIndexSearch).then_some(partition_policy),
        });
        let filter = options.filter_builder()?.map(|builder| {
            let partitioning = FilterPartitioning {
                metadata_block_size: table.metadata_block_size,
                block_size_deviation: u32::try_from(table.block_size_deviation).unwrap_or(0),
            };
            TableFilterBuilder::new(
                builder,
                options.prefix_extractor.clone(),
                table.whole_key_filtering,
                user_comparator.timestamp_size(),
                (table.partition_filters && index_type == IndexType::TwoLevelIndexSearch).then_some(partitioning),
            )
        });
        let mut output = TableOutput::new(
            file,
            table.checksum,
            options.base_context_checksum(),
            table.format_version,
            table.verify_compression,
        );
        let data = DataBlocks::new(&options, index)?;
        let properties = options.initial_properties(index_type, restart_interval);
        if let Some(cache) = &options.warm_cache {
            let keys = cache_key_base(&properties, &options.db_session_id, options.original_file_number);
            let protection = options.block_protection_bytes_per_key;
            output.set_warmer(CacheWarmer::new(Arc::clone(cache), keys, protection, options.statistics.clone()));
        }
        Ok(Self {
            hash_index: (index_type == IndexType::HashSearch).then(HashIndexBuilder::default),
            output,
            block,
            flush_policy,
            first_in_block: Vec::new(),
            smallest: Vec::new(),
            last_key: Vec::new(),
            data,
            range_deletions,
            filter,
            index_type,
            properties,
            timestamps: None,
            failed: None,
            finished: false,
            options,
        })
    }

    /// Adds an entry. Point entries must come in strictly increasing internal-key order; range tombstones (their key is
    /// the start, their value the end) may come at any time and in any order.
    ///
    /// # Errors
    /// Corruption when a key is no internal key or out of order; errors of the file.
    pub fn add(&mut self, ikey: &[u8], value: &[u8]) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let outcome = self.add_entry(ikey, value);
        if let Err(error) = &outcome {
            self.failed = Some(error.clone());
        }
        outcome
    }

    fn add_entry(&mut self, ikey: &[u8], value: &[u8]) -> Result<()> {
        let parsed = parse_internal_key(ikey)?;
        if u32::try_from(ikey.len()).is_err() || u32::try_from(value.len()).is_err() {
            return Err(Error::corruption("key or value of 4 GiB or more"));
        }
        if parsed.value_type == ValueType::RangeDeletion {
            self.range_deletions.add(ikey, value);
            self.properties.num_range_deletions += 1;
        } else {
            self.add_point(ikey, parsed, value)?;
        }
        self.count(ikey, parsed, value)
    }

    fn add_point(&mut self, ikey: &[u8], parsed: ParsedInternalKey<'_>, value: &[u8]) -> Result<()> {
        if self.last_key.is_empty() {
            self.smallest.extend_from_slice(ikey);
        } else if self.options.comparator.compare(ikey, &self.last_key) != Ordering::Greater {
            return Err(Error::corruption(format!(
                "Out-of-order key: {} after {}",
                ikey.escape_ascii(),
                self.last_key.escape_ascii()
            )));
        }
        if !self.block.is_empty()
            && self
                .flush_policy
                .is_full(self.block.current_size(), || self.block.estimate_after(ikey.len(), value.len()))
        {
            self.flush_block(Some(ikey))?;
        }
        if self.block.is_empty() {
            self.first_in_block.clear();
            self.first_in_block.extend_from_slice(ikey);
        }
        if let Some(filter) = &mut self.filter {
            filter.add(parsed.user_key)?;
        }
        if let (Some(hash_index), Some(extractor)) = (&mut self.hash_index, &self.options.prefix_extractor) {
            if extractor.in_domain(parsed.user_key) {
                hash_index.add(extractor.transform(parsed.user_key), self.data.blocks_finished());
            } else {
                // A hash index that lacks a key would deny it: better none.
                self.hash_index = None;
            }
        }
        self.block.add(ikey, value);
        self.last_key.clear();
        self.last_key.extend_from_slice(ikey);
        Ok(())
    }

    fn count(&mut self, ikey: &[u8], parsed: ParsedInternalKey<'_>, value: &[u8]) -> Result<()> {
        let properties = &mut self.properties;
        let sequence = parsed.sequence.get();
        properties.key_smallest_seqno = properties.key_smallest_seqno.min(sequence);
        properties.key_largest_seqno = match properties.key_largest_seqno {
            u64::MAX => sequence,
            largest => largest.max(sequence),
        };
        properties.num_entries += 1;
        properties.raw_key_size += ikey.len() as u64;
        properties.raw_value_size += value.len() as u64;
        match parsed.value_type {
            ValueType::Deletion
            | ValueType::SingleDeletion
            | ValueType::DeletionWithTimestamp
            | ValueType::RangeDeletion => properties.num_deletions += 1,
            ValueType::Merge => properties.num_merge_operands += 1,
            _ => {}
        }
        if self.options.comparator.user_comparator().timestamp_size() == 8
            && let Some(timestamp) = parsed.user_key.last_chunk()
        {
            let timestamp = u64::from_le_bytes(*timestamp);
            let (least, greatest) = self.timestamps.unwrap_or((timestamp, timestamp));
            self.timestamps = Some((least.min(timestamp), greatest.max(timestamp)));
        }
        for collector in &mut self.options.collectors {
            // A collector's failure costs its properties, not the table.
            let _ = collector.add(parsed, value, self.output.offset());
        }
        Ok(())
    }

    fn flush_block(&mut self, next: Option<&[u8]>) -> Result<()> {
        let payload = self.block.finish();
        let result = self.data.add_block(&mut self.output, payload, &self.first_in_block, &self.last_key, next);
        self.block.reset();
        result
    }

    /// Bytes of the file so far; blocks that are still being built or sampled are not counted.
    pub fn file_size(&self) -> u64 {
        self.output.offset()
    }

    /// [`file_size`](Self::file_size) and what is known to follow it: blocks held back and the current one, uncompressed.
    pub fn estimated_file_size(&self) -> u64 {
        self.output.offset() + self.data.buffered_bytes() + self.block.current_size() as u64
    }

    /// Entries so far, range tombstones included.
    pub fn num_entries(&self) -> u64 {
        self.properties.num_entries
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.properties.num_entries == 0
    }

    /// The properties as far as they are known; complete after [`finish`](Self::finish).
    pub fn properties(&self) -> &TableProperties {
        &self.properties
    }

    /// Sets the sequence-to-time mapping (encoded) that the properties will have.
    pub fn set_seqno_to_time_mapping(&mut self, encoded: Vec<u8>) {
        self.properties.seqno_to_time_mapping = encoded;
    }

    /// The file, to sync and close it after [`finish`](Self::finish).
    pub fn file_mut(&mut self) -> &mut dyn WritableFile {
        &mut **self.output.file_mut()
    }

    /// The file itself, after [`finish`](Self::finish) or to [`abandon`](Self::abandon) it by hand.
    pub fn into_file(self) -> Box<dyn WritableFile> {
        self.output.into_file()
    }

    /// Gives the table up. The file keeps what was written and is no table; the caller removes it.
    pub fn abandon(self) {}

    /// Completes the file and hands it to the operating system. It is not synced: that is the caller's, through
    /// [`file_mut`](Self::file_mut).
    ///
    /// # Errors
    /// Errors of earlier calls and of the file.
    pub fn finish(&mut self) -> Result<TableFileSummary> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        if self.finished {
            return Err(Error::invalid_argument("the table is finished already"));
        }
        self.finished = true;
        let outcome = self.write_tail();
        if let Err(error) = &outcome {
            self.failed = Some(error.clone());
        }
        outcome
    }

    fn write_tail(&mut self) -> Result<TableFileSummary> {
        if !self.block.is_empty() {
            self.flush_block(None)?;
        }
        self.data.finish(&mut self.output)?;
        let tail_start = self.output.offset();
        let DataCounts { blocks, compression_bypassed, compression_rejected } = self.data.counts();
        self.properties.data_size = tail_start;
        self.properties.tail_start_offset = tail_start;
        self.properties.num_data_blocks = blocks;
        self.properties.num_data_blocks_compression_bypassed = compression_bypassed;
        self.properties.num_data_blocks_compression_rejected = compression_rejected;

        let mut metaindex: Vec<(String, BlockHandle)> = Vec::new();
        self.write_filter(&mut metaindex)?;
        let index = self.write_index(&mut metaindex)?;
        if let Some(dictionary) = self.data.dictionary() {
            metaindex.push((meta::COMPRESSION_DICTIONARY.into(), self.output.write_raw(dictionary)?));
        }
        if !self.range_deletions.is_empty() {
            metaindex.push((meta::RANGE_DELETIONS.into(), self.output.write_raw(self.range_deletions.finish())?));
        }
        self.complete_properties();
        metaindex.push((meta::PROPERTIES.into(), self.output.write_raw(&self.properties.encode())?));
        self.write_metaindex_and_footer(metaindex, index)?;
        self.output.file_mut().flush()?;
        let file_size = self.output.offset();
        Ok(TableFileSummary {
            file_size,
            properties: self.properties.clone(),
            tail_size: file_size - tail_start,
            smallest: self.smallest.clone(),
            largest: self.last_key.clone(),
        })
    }

    fn write_filter(&mut self, metaindex: &mut Vec<(String, BlockHandle)>) -> Result<()> {
        let Some(filter) = &mut self.filter else {
            return Ok(());
        };
        let restart_interval = self.options.table.index_block_restart_interval.max(1) as usize;
        if let Some(written) = filter.write(&mut self.output, self.data.index().format(), restart_interval)? {
            let kind = if filter.is_partitioned() { "partitionedfilter" } else { "fullfilter" };
            metaindex.push((format!("{kind}.{BUILTIN_COMPATIBILITY_NAME}"), written.handle));
            self.properties.filter_size = written.size;
        }
        self.properties.num_filter_entries = filter.entries();
        Ok(())
    }

    fn write_index(&mut self, metaindex: &mut Vec<(String, BlockHandle)>) -> Result<BlockHandle> {
        let mut compressor = match self.options.compression {
            CompressionType::None => None,
            _ if !self.options.table.enable_index_compression => None,
            kind => Some(Compressor::new(
                kind,
                &self.options.compression_options,
                SizeFormat::of_table(self.options.table.format_version),
                &[],
            )?),
        };
        let mut hash_index_size = 0;
        if let Some(hash_index) = &mut self.hash_index {
            let (prefixes, metadata) = hash_index.finish();
            hash_index_size = (prefixes.len() + metadata.len()) as u64;
            for (name, payload) in [(meta::HASH_INDEX_PREFIXES, prefixes), (meta::HASH_INDEX_METADATA, metadata)] {
                let block = self.output.write_block(payload, compressor.as_mut(), None, |_, _| 0)?;
                metaindex.push((name.into(), block.handle));
            }
        }
        let written = self.data.index().write(&mut self.output, compressor.as_mut())?;
        let format = self.data.index().format();
        self.properties.index_size = written.raw_size + hash_index_size;
        self.properties.index_partitions = written.partitions;
        self.properties.top_level_index_size = written.top_level_size;
        self.properties.index_key_is_user_key = u64::from(format.key_is_user_key);
        self.properties.index_value_is_delta_encoded = u64::from(format.value_is_delta_encoded);
        if self.options.table.format_version >= 6 {
            metaindex.push((meta::INDEX.into(), written.handle));
        }
        Ok(written.handle)
    }

    fn complete_properties(&mut self) {
        if self.properties.num_entries == 0 {
            self.properties.key_largest_seqno = 0;
        }
        if self.options.table.format_version >= 7 && self.options.compression != CompressionType::None {
            let types: String = self.output.types_written().map(|number| format!("{number:02X}")).collect();
            self.properties.compression_name = format!("BuiltinV2;{types};");
        }
        let user = &mut self.properties.user_collected;
        if let Some((least, greatest)) = self.timestamps {
            user.insert(names::TIMESTAMP_MIN.into(), least.to_le_bytes().to_vec());
            user.insert(names::TIMESTAMP_MAX.into(), greatest.to_le_bytes().to_vec());
        }
        for collector in &mut self.options.collectors {
            for (name, value) in collector.finish().unwrap_or_default() {
                user.insert(name, value);
            }
        }
        debug_assert_eq!(
            user.get(names::INDEX_TYPE.as_bytes()).map(Vec::as_slice),
            Some(&(self.index_type as u32).to_le_bytes()[..])
        );
    }

    fn write_metaindex_and_footer(
        &mut self,
        mut entries: Vec<(String, BlockHandle)>,
        index: BlockHandle,
    ) -> Result<()> {
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut block = BlockBuilder::new(&BlockBuilderOptions { restart_interval: 1, ..Default::default() });
        let mut encoded = Vec::new();
        for (name, handle) in &entries {
            encoded.clear();
            handle.encode_to(&mut encoded);
            block.add(name.as_bytes(), &encoded);
        }
        let metaindex = self.output.write_raw(block.finish())?;
        let format_version = self.options.table.format_version;
        let footer = Footer {
            format_version,
            checksum_type: self.options.table.checksum,
            base_context_checksum: self.options.base_context_checksum(),
            metaindex,
            index: (format_version < 6).then_some(index),
        };
        let bytes = footer.encode(self.output.offset())?;
        self.output.append(&bytes)
    }
}
