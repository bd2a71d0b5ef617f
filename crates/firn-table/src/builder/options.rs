//! What a new table is told about itself.

use std::sync::Arc;

use firn_error::{Error, Result};
use firn_format::comparator::InternalKeyComparator;
use firn_format::compression::{CompressionOptions, CompressionType};
use firn_format::filter::{FilterBuilder, FilterContext};
use firn_format::footer::LATEST_FORMAT_VERSION;
use firn_format::properties::{TableProperties, UNKNOWN_COLUMN_FAMILY, names};
use firn_format::slice_transform::SliceTransform;

use super::collector::TablePropertiesCollector;
use crate::block_ref::BlockCache;
use crate::options::{BlockBasedTableOptions, DataBlockIndexType, IndexType};
use crate::statistics::Statistics;

/// How a table is written and what its properties say.
pub struct TableBuilderOptions {
    /// The order of keys. Default: bytewise.
    pub comparator: InternalKeyComparator,
    /// The layout. Default: the default options of tables.
    pub table: BlockBasedTableOptions,
    /// Compression of data and index blocks. Default: none.
    pub compression: CompressionType,
    /// Parameters of the compression.
    pub compression_options: CompressionOptions,
    /// What prefixes are, for filter and hash index. Default: there are none.
    pub prefix_extractor: Option<Arc<dyn SliceTransform>>,
    /// Write no filter, as for files of the last level with `optimize_filters_for_hits`. Default: false.
    pub skip_filters: bool,
    /// What the kind of filter depends on beside its policy; `format_version` and memory options are taken from `table`.
    pub filter_context: FilterContext,
    /// The size at which the caller is going to end the file, in bytes; bounds what is held back for a compression
    /// dictionary. 0, the default: unknown.
    pub target_file_size: u64,
    /// Id of the column family. Default: unknown.
    pub column_family_id: u64,
    /// Name of the column family.
    pub column_family_name: String,
    /// Name of the merge operator, if there is one.
    pub merge_operator_name: Option<String>,
    /// Unix seconds of the oldest ancestor; 0 when unknown.
    pub creation_time: u64,
    /// Unix seconds of the oldest key; 0 when unknown.
    pub oldest_key_time: u64,
    /// Unix seconds of the newest key; 0 when unknown.
    pub newest_key_time: u64,
    /// Unix seconds at which the file is made; 0 when unknown.
    pub file_creation_time: u64,
    /// Id of the database.
    pub db_id: String,
    /// Id of the session.
    pub db_session_id: String,
    /// Name of the host.
    pub db_host_id: String,
    /// The file's number.
    pub original_file_number: u64,
    /// Further user-collected properties, as name and value.
    pub user_properties: Vec<(Vec<u8>, Vec<u8>)>,
    /// A cache that the data blocks go into beside the file (`prepopulate_block_cache`). Default: none.
    pub warm_cache: Option<Arc<BlockCache>>,
    /// Bytes of protection that each entry of these blocks has there: 0, 1, 2, 4 or 8. Default: 0, none.
    pub block_protection_bytes_per_key: u8,
    /// Counts what goes into that cache. Default: none.
    pub statistics: Option<Arc<Statistics>>,
    /// Collectors that watch the entries.
    pub collectors: Vec<Box<dyn TablePropertiesCollector>>,
}

impl Default for TableBuilderOptions {
    fn default() -> Self {
        Self {
            comparator: InternalKeyComparator::default(),
            table: BlockBasedTableOptions::default(),
            compression: CompressionType::None,
            compression_options: CompressionOptions::default(),
            prefix_extractor: None,
            skip_filters: false,
            filter_context: FilterContext::default(),
            target_file_size: 0,
            column_family_id: UNKNOWN_COLUMN_FAMILY,
            column_family_name: String::new(),
            merge_operator_name: None,
            creation_time: 0,
            oldest_key_time: 0,
            newest_key_time: 0,
            file_creation_time: 0,
            db_id: String::new(),
            db_session_id: String::new(),
            db_host_id: String::new(),
            original_file_number: 0,
            user_properties: Vec::new(),
            warm_cache: None,
            block_protection_bytes_per_key: 0,
            statistics: None,
            collectors: Vec::new(),
        }
    }
}

impl TableBuilderOptions {
    pub(crate) fn validate(&self) -> Result<()> {
        let table = &self.table;
        if table.format_version > LATEST_FORMAT_VERSION {
            return Err(Error::invalid_argument(
                "Unsupported BlockBasedTable format_version. Please check include/rocksdb/table.h for more info",
            ));
        }
        if table.format_version < 2 {
            return Err(Error::invalid_argument("tables of format_version 0 and 1 can be read but not written"));
        }
        if table.block_align {
            if self.compression != CompressionType::None {
                return Err(Error::invalid_argument("Enable block_align, but compression enabled"));
            }
            if !table.block_size.is_power_of_two() {
                return Err(Error::invalid_argument("Block alignment requested but block size is not a power of 2"));
            }
        }
        // A size of 0 closes a block behind every entry.
        if table.block_size > u64::from(u32::MAX) {
            return Err(Error::invalid_argument("block size exceeds maximum number (4GiB) allowed"));
        }
        if table.super_block_alignment_size != 0 {
            if !table.super_block_alignment_size.is_power_of_two() {
                return Err(Error::invalid_argument(
                    "Super Block alignment requested but super block alignment size is not a power of 2",
                ));
            }
            if (1..4).contains(&table.super_block_alignment_space_overhead_ratio) {
                return Err(Error::invalid_argument(
                    "Super Block alignment space overhead ratio must be at least 4 or 0",
                ));
            }
        }
        if table.data_block_index_type == DataBlockIndexType::BinaryAndHash
            && table.data_block_hash_table_util_ratio <= 0.0
        {
            return Err(Error::invalid_argument("data_block_hash_table_util_ratio should be greater than 0"));
        }
        if table.separate_key_value_in_data_block && table.block_restart_interval < 1 {
            return Err(Error::invalid_argument("separated keys and values need a restart interval of at least 1"));
        }
        Ok(())
    }

    /// The filter builder, if the table gets a filter.
    pub(crate) fn filter_builder(&self) -> Result<Option<FilterBuilder>> {
        let Some(policy) = self.table.filter_policy.as_ref().filter(|_| !self.skip_filters) else {
            return Ok(None);
        };
        let context = FilterContext {
            format_version: self.table.format_version,
            optimize_filters_for_memory: self.table.optimize_filters_for_memory,
            ..self.filter_context
        };
        let mut builder = policy.builder(&context);
        if let Some(builder) = &mut builder {
            builder.set_detect_corruption(self.table.detect_filter_construct_corruption);
        }
        Ok(builder)
    }

    /// What block checksums are mixed with: any number but 0 that differs from file to file. It is a function of the file's
    /// identity, so that the same input gives the same file.
    pub(crate) fn base_context_checksum(&self) -> u32 {
        if self.table.format_version < 6 {
            return 0;
        }
        let mut identity = self.db_session_id.clone().into_bytes();
        identity.extend_from_slice(self.db_id.as_bytes());
        identity.extend_from_slice(&self.original_file_number.to_le_bytes());
        (firn_format::hash::xxph3_64(&identity) as u32 & 0x7fff_ffff).max(1)
    }

    /// The properties that are known before the first entry.
    pub(crate) fn initial_properties(&self, index_type: IndexType, index_restart_interval: usize) -> TableProperties {
        let table = &self.table;
        let none = || "nullptr".to_owned();
        let collectors: Vec<&str> = self.collectors.iter().map(|collector| collector.name()).collect();
        let mut properties = TableProperties {
            column_family_id: self.column_family_id,
            column_family_name: self.column_family_name.clone(),
            comparator: self.comparator.user_comparator().name().to_owned(),
            compression_name: match self.compression {
                CompressionType::None if table.format_version >= 7 => ";;".to_owned(),
                kind => kind.property_name().to_owned(),
            },
            compression_options: self.compression_options.to_property_string(),
            creation_time: self.creation_time,
            oldest_key_time: self.oldest_key_time,
            newest_key_time: self.newest_key_time,
            file_creation_time: self.file_creation_time,
            db_id: self.db_id.clone(),
            db_session_id: self.db_session_id.clone(),
            db_host_id: self.db_host_id.clone(),
            original_file_number: self.original_file_number,
            data_block_restart_interval: table.block_restart_interval.max(1) as u64,
            index_block_restart_interval: index_restart_interval as u64,
            separate_key_value_in_data_block: u64::from(table.separate_key_value_in_data_block),
            format_version: u64::from(table.format_version),
            merge_operator_name: self.merge_operator_name.clone().unwrap_or_else(none),
            prefix_extractor_name: self.prefix_extractor.as_ref().map_or_else(none, |extractor| extractor.id()),
            property_collectors_names: format!("[{}]", collectors.join(",")),
            filter_policy_name: self
                .table
                .filter_policy
                .as_ref()
                .map_or_else(String::new, |policy| policy.name().to_owned()),
            ..TableProperties::default()
        };
        let flag = |set: bool| if set { b"1".to_vec() } else { b"0".to_vec() };
        let user = &mut properties.user_collected;
        user.insert(names::INDEX_TYPE.into(), (index_type as u32).to_le_bytes().to_vec());
        user.insert(names::WHOLE_KEY_FILTERING.into(), flag(table.whole_key_filtering));
        user.insert(names::PREFIX_FILTERING.into(), flag(self.prefix_extractor.is_some()));
        // Partitions of filters are always cut on their own here.
        user.insert(names::DECOUPLED_PARTITIONED_FILTERS.into(), flag(true));
        for (name, value) in &self.user_properties {
            user.insert(name.clone(), value.clone());
        }
        properties
    }
}
