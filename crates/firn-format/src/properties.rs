//! Table properties: what a table file says about itself in its properties block.
//!
//! A [`TableProperties`] flows into [`TableProperties::encode`] and comes out as a block payload with names in bytewise
//! order; [`TableProperties::decode`] is the way back. Names that this module does not know are user-collected properties
//! and pass through unchanged.

use std::collections::BTreeMap;

use firn_error::{Error, Result};

use crate::block::{BlockBuilder, BlockBuilderOptions, BlockIter};
use crate::varint::{get_varint64, put_varint64};

/// Property names that readers and writers look up by themselves.
pub mod names {
    /// The index type, a fixed32; user-collected.
    pub const INDEX_TYPE: &str = "rocksdb.block.based.table.index.type";
    /// Whether whole keys are in the filter, "1" or "0"; user-collected.
    pub const WHOLE_KEY_FILTERING: &str = "rocksdb.block.based.table.whole.key.filtering";
    /// Whether prefixes are in the filter, "1" or "0"; user-collected.
    pub const PREFIX_FILTERING: &str = "rocksdb.block.based.table.prefix.filtering";
    /// "1" when filter partitions are cut independently of index partitions; user-collected.
    pub const DECOUPLED_PARTITIONED_FILTERS: &str = "rocksdb.block.based.table.decoupled.partitioned.filters";
    /// Version of files made outside a database, a fixed32; user-collected.
    pub const EXTERNAL_SST_FILE_VERSION: &str = "rocksdb.external_sst_file.version";
    /// The sequence number that all keys of an ingested file have, a fixed64; user-collected.
    pub const EXTERNAL_SST_FILE_GLOBAL_SEQNO: &str = "rocksdb.external_sst_file.global_seqno";
    /// The least user timestamp of the file; user-collected.
    pub const TIMESTAMP_MIN: &str = "rocksdb.timestamp_min";
    /// The greatest user timestamp of the file; user-collected.
    pub const TIMESTAMP_MAX: &str = "rocksdb.timestamp_max";
    /// Present in files that hold blob records between their data blocks; user-collected.
    pub const EMBEDDED_BLOB_STATS: &str = "rocksdb.embedded.blob.stats";
}

/// `column_family_id` of a file that belongs to no known column family.
pub const UNKNOWN_COLUMN_FAMILY: u64 = i32::MAX as u64;

/// When a number property is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    Always,
    UnlessZero,
    UnlessMax,
    UnlessOne,
}

macro_rules! properties {
    (
        numbers { $($(#[$number_doc:meta])* $number:ident = $number_name:literal, $written:ident, $default:expr;)* }
        texts { $($(#[$text_doc:meta])* $text:ident = $text_name:literal;)* }
    ) => {
        /// The properties of one table file.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct TableProperties {
            $($(#[$number_doc])* pub $number: u64,)*
            $($(#[$text_doc])* pub $text: String,)*
            /// Which sequence numbers were assigned when; see `seqno_time`. Empty when unknown.
            pub seqno_to_time_mapping: Vec<u8>,
            /// All properties that are not built in, in bytewise order of their names.
            pub user_collected: BTreeMap<Vec<u8>, Vec<u8>>,
        }

        impl Default for TableProperties {
            fn default() -> Self {
                Self {
                    $($number: $default,)*
                    $($text: String::new(),)*
                    seqno_to_time_mapping: Vec::new(),
                    user_collected: BTreeMap::new(),
                }
            }
        }

        impl TableProperties {
            fn collect(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
                let mut all = self.user_collected.clone();
                $(if is_written(Written::$written, self.$number) {
                    let mut value = Vec::new();
                    put_varint64(&mut value, self.$number);
                    all.insert($number_name.into(), value);
                })*
                $(if !self.$text.is_empty() {
                    all.insert($text_name.into(), self.$text.as_bytes().to_vec());
                })*
                if !self.seqno_to_time_mapping.is_empty() {
                    all.insert(SEQNO_TIME_MAP.into(), self.seqno_to_time_mapping.clone());
                }
                all
            }

            fn set(&mut self, name: &[u8], value: &[u8]) {
                $(if name == $number_name.as_bytes() {
                    // A number that does not decode is as good as absent.
                    if let Ok(number) = get_varint64(&mut { value }) {
                        self.$number = number;
                    }
                    return;
                })*
                $(if name == $text_name.as_bytes() {
                    self.$text = String::from_utf8_lossy(value).into_owned();
                    return;
                })*
                if name == SEQNO_TIME_MAP.as_bytes() {
                    self.seqno_to_time_mapping = value.to_vec();
                    return;
                }
                self.user_collected.insert(name.to_vec(), value.to_vec());
            }
        }
    };
}

const SEQNO_TIME_MAP: &str = "rocksdb.seqno.time.map";

fn is_written(written: Written, value: u64) -> bool {
    match written {
        Written::Always => true,
        Written::UnlessZero => value != 0,
        Written::UnlessMax => value != u64::MAX,
        Written::UnlessOne => value != 1,
    }
}

properties! {
    numbers {
        /// The column family; [`UNKNOWN_COLUMN_FAMILY`] when there is none.
        column_family_id = "rocksdb.column.family.id", Always, UNKNOWN_COLUMN_FAMILY;
        /// Unix seconds of the oldest ancestor; 0 when unknown.
        creation_time = "rocksdb.creation.time", Always, 0;
        /// Restart interval of data blocks; 0 when unknown.
        data_block_restart_interval = "rocksdb.data.block.restart.interval", UnlessZero, 0;
        /// File offset just after the last data block.
        data_size = "rocksdb.data.size", Always, 0;
        /// Deletions of all kinds, range deletions included.
        num_deletions = "rocksdb.deleted.keys", Always, 0;
        /// Unix seconds at which the file was made; 0 when unknown.
        file_creation_time = "rocksdb.file.creation.time", UnlessZero, 0;
        /// Bytes of filter payload.
        filter_size = "rocksdb.filter.size", Always, 0;
        /// 0 in block-based tables.
        fixed_key_length = "rocksdb.fixed.key.length", Always, 0;
        /// The table's version; informational, the footer decides.
        format_version = "rocksdb.format.version", Always, 0;
        /// Restart interval of index blocks; 0 when unknown.
        index_block_restart_interval = "rocksdb.index.block.restart.interval", UnlessZero, 0;
        /// 1 when index keys are user keys.
        index_key_is_user_key = "rocksdb.index.key.is.user.key", Always, 0;
        /// Number of index partitions; 0 when the index is not partitioned.
        index_partitions = "rocksdb.index.partitions", UnlessZero, 0;
        /// Uncompressed bytes of the index.
        index_size = "rocksdb.index.size", Always, 0;
        /// 1 when index values are delta encoded.
        index_value_is_delta_encoded = "rocksdb.index.value.is.delta.encoded", Always, 0;
        /// The greatest sequence number; `u64::MAX` when unknown.
        key_largest_seqno = "rocksdb.key.largest.seqno", UnlessMax, u64::MAX;
        /// The least sequence number; `u64::MAX` when unknown.
        key_smallest_seqno = "rocksdb.key.smallest.seqno", UnlessMax, u64::MAX;
        /// Merge operands.
        num_merge_operands = "rocksdb.merge.operands", Always, 0;
        /// Unix seconds of the newest key; 0 when unknown.
        newest_key_time = "rocksdb.newest.key.time", Always, 0;
        /// Data blocks; 0 when the writer did not count them.
        num_data_blocks = "rocksdb.num.data.blocks", Always, 0;
        /// Data blocks whose compression was not attempted.
        num_data_blocks_compression_bypassed = "rocksdb.num.data.blocks.compression.bypassed", UnlessZero, 0;
        /// Data blocks whose compression did not save enough.
        num_data_blocks_compression_rejected = "rocksdb.num.data.blocks.compression.rejected", UnlessZero, 0;
        /// Entries, range deletions included.
        num_entries = "rocksdb.num.entries", Always, 0;
        /// Keys and prefixes in filters.
        num_filter_entries = "rocksdb.num.filter_entries", Always, 0;
        /// Range deletions.
        num_range_deletions = "rocksdb.num.range-deletions", Always, 0;
        /// Index blocks with evenly spaced keys.
        num_uniform_blocks = "rocksdb.num.uniform.blocks", Always, 0;
        /// Unix seconds of the oldest key; 0 when unknown.
        oldest_key_time = "rocksdb.oldest.key.time", Always, 0;
        /// The file's number when it was made.
        original_file_number = "rocksdb.original.file.number", Always, 0;
        /// Bytes of all internal keys.
        raw_key_size = "rocksdb.raw.key.size", Always, 0;
        /// Bytes of all values.
        raw_value_size = "rocksdb.raw.value.size", Always, 0;
        /// Estimated bytes of data with a fast compression; 0 when not sampled.
        fast_compression_estimated_data_size = "rocksdb.sample_for_compression.fast.data.size", UnlessZero, 0;
        /// Estimated bytes of data with a slow compression; 0 when not sampled.
        slow_compression_estimated_data_size = "rocksdb.sample_for_compression.slow.data.size", UnlessZero, 0;
        /// 1 when values stand apart from keys in data blocks.
        separate_key_value_in_data_block = "rocksdb.separate.key.value.in.data.block", UnlessZero, 0;
        /// File offset of the first byte after data; 0 when unknown.
        tail_start_offset = "rocksdb.tail.start.offset", Always, 0;
        /// Bytes of the top-level index block; 0 when the index is not partitioned.
        top_level_index_size = "rocksdb.top-level.index.size", UnlessZero, 0;
        /// Whether a user-defined index is the primary one; informational.
        udi_is_primary_index = "rocksdb.udi.is.primary.index", UnlessZero, 0;
        /// 0 when user timestamps were stripped from keys.
        user_defined_timestamps_persisted = "rocksdb.user.defined.timestamps.persisted", UnlessOne, 1;
    }
    texts {
        /// Name of the column family.
        column_family_name = "rocksdb.column.family.name";
        /// Name of the comparator.
        comparator = "rocksdb.comparator";
        /// Which compression types blocks may have; see [`CompressionUse`].
        compression_name = "rocksdb.compression";
        /// Parameters of the compression; informational.
        compression_options = "rocksdb.compression_options";
        /// Id of the database that made the file.
        db_id = "rocksdb.creating.db.identity";
        /// Host that made the file.
        db_host_id = "rocksdb.creating.host.identity";
        /// Session that made the file.
        db_session_id = "rocksdb.creating.session.identity";
        /// Name of the filter policy; informational.
        filter_policy_name = "rocksdb.filter.policy";
        /// Name of the merge operator, `nullptr` when there is none.
        merge_operator_name = "rocksdb.merge.operator";
        /// Name of the prefix extractor, `nullptr` when there is none.
        prefix_extractor_name = "rocksdb.prefix.extractor.name";
        /// Names of the property collectors in brackets.
        property_collectors_names = "rocksdb.property.collectors";
    }
}

impl TableProperties {
    /// The payload of the properties block.
    pub fn encode(&self) -> Vec<u8> {
        let options = BlockBuilderOptions { restart_interval: i32::MAX as usize, ..Default::default() };
        let mut block = BlockBuilder::new(&options);
        for (name, value) in self.collect() {
            block.add(&name, &value);
        }
        block.finish().to_vec()
    }

    /// Decodes the payload of a properties block.
    ///
    /// # Errors
    /// Corruption when it is no block or its names are not in strictly ascending order.
    pub fn decode(payload: &[u8]) -> Result<Self> {
        let mut properties = Self::default();
        let mut entries = BlockIter::new(payload)?;
        let mut last: Option<Vec<u8>> = None;
        while let Some((name, value)) = entries.next_entry()? {
            if last.as_deref().is_some_and(|last| last >= name) {
                return Err(Error::corruption("properties unsorted"));
            }
            properties.set(name, value);
            last = Some(name.to_vec());
        }
        Ok(properties)
    }

    /// The index type as its number; `None` when the property is missing or damaged.
    pub fn index_type(&self) -> Option<u32> {
        self.user_fixed32(names::INDEX_TYPE)
    }

    /// Whether whole keys are in the filter, as far as the properties know.
    pub fn has_whole_key_filtering(&self) -> bool {
        self.user_collected.get(names::WHOLE_KEY_FILTERING.as_bytes()).is_none_or(|value| value != b"0")
    }

    /// Whether prefixes are in the filter, as far as the properties know.
    pub fn has_prefix_filtering(&self) -> bool {
        self.user_collected.get(names::PREFIX_FILTERING.as_bytes()).is_none_or(|value| value != b"0")
    }

    /// A user-collected property that is a fixed32.
    pub fn user_fixed32(&self, name: &str) -> Option<u32> {
        let value = self.user_collected.get(name.as_bytes())?;
        value.as_slice().try_into().ok().map(u32::from_le_bytes)
    }

    /// A user-collected property that is a fixed64.
    pub fn user_fixed64(&self, name: &str) -> Option<u64> {
        let value = self.user_collected.get(name.as_bytes())?;
        value.as_slice().try_into().ok().map(u64::from_le_bytes)
    }

    /// The sequence number that all keys of the file have, from its properties and `largest`, the file's greatest
    /// sequence number as the MANIFEST knows it. `None` when keys have their own.
    ///
    /// # Errors
    /// Corruption when the properties contradict each other or the MANIFEST.
    pub fn global_sequence(&self, largest: Option<u64>) -> Result<Option<u64>> {
        let global = self.user_fixed64(names::EXTERNAL_SST_FILE_GLOBAL_SEQNO);
        if !self.user_collected.contains_key(names::EXTERNAL_SST_FILE_VERSION.as_bytes()) {
            return match global {
                Some(_) => Err(Error::corruption("A non-external sst file have global seqno property")),
                None => Ok(None),
            };
        }
        match self.user_fixed32(names::EXTERNAL_SST_FILE_VERSION) {
            Some(1) if global.is_some() => {
                Err(Error::corruption("An external sst file with version 1 has global seqno property"))
            }
            Some(1) => Ok(None),
            Some(2) => {
                let mut sequence = global.unwrap_or(0);
                if let Some(largest) = largest {
                    if sequence == 0 {
                        sequence = largest;
                    } else if sequence != largest {
                        return Err(Error::corruption(format!(
                            "An external sst file with version 2 has global seqno property with value {sequence}, \
                             while largest seqno in the file is {largest}"
                        )));
                    }
                }
                if sequence >= 1 << 56 {
                    return Err(Error::corruption(format!(
                        "An external sst file with version 2 has global seqno property with value {sequence}, \
                         which is greater than kMaxSequenceNumber"
                    )));
                }
                Ok(Some(sequence))
            }
            _ => Err(Error::corruption("External sst file has an unsupported version")),
        }
    }
}

/// Where the value of property `name` lies in the payload of a properties block.
///
/// # Errors
/// Corruption when the payload is no block.
pub fn find_value_range(payload: &[u8], name: &str) -> Result<Option<std::ops::Range<usize>>> {
    let mut entries = BlockIter::new(payload)?;
    while let Some((key, _)) = entries.next_entry()? {
        if key == name.as_bytes() {
            return Ok(Some(entries.value_range()));
        }
    }
    Ok(None)
}

/// What `rocksdb.compression` allows blocks of the file to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompressionUse {
    /// No block is compressed; trailers that say otherwise are damaged.
    None,
    /// Blocks may have any built-in type.
    Any,
    /// Blocks may be uncompressed or have one of these trailer types.
    Types(Vec<u8>),
}

impl CompressionUse {
    /// Reads the property of a file of this version.
    ///
    /// # Errors
    /// Corruption when the text does not follow the version's grammar; not supported for types of an unknown manager.
    pub fn parse(name: &str, format_version: u32) -> Result<Self> {
        if format_version < 7 {
            return match name {
                "NoCompression" => Ok(Self::None),
                "" | "Snappy" | "Zlib" | "BZip2" | "LZ4" | "LZ4HC" | "Xpress" | "ZSTD" | "ZSTDNotFinal" => {
                    Ok(Self::Any)
                }
                other => Err(Error::corruption(format!("Unrecognized compression_name: {other}"))),
            };
        }
        if name.is_empty() {
            return Ok(Self::Any);
        }
        let (manager, rest) =
            name.split_once(';').ok_or_else(|| Error::corruption("Missing separator in compression_name property"))?;
        let (types, _) =
            rest.split_once(';').ok_or_else(|| Error::corruption("Missing second field from compression_name"))?;
        if types.len() % 2 != 0 {
            return Err(Error::corruption("Second field of compression_name has odd size"));
        }
        let bad = || Error::corruption("Error parsing second field of compression_name");
        let mut numbers = Vec::new();
        for pair in types.as_bytes().chunks(2) {
            let pair = std::str::from_utf8(pair).map_err(|_| bad())?;
            if pair.starts_with('+') {
                return Err(bad());
            }
            let number = u8::from_str_radix(pair, 16).map_err(|_| bad())?;
            if number == 0 || number == 0xff {
                return Err(bad());
            }
            numbers.push(number);
        }
        match manager {
            "" | "BuiltinV2" if numbers.is_empty() => Ok(Self::None),
            "" | "BuiltinV2" => Ok(Self::Types(numbers)),
            other => Err(Error::not_supported(format!("Could not load CompressionManager: {other}"))),
        }
    }

    /// Whether a block may have trailer type `number`.
    pub fn allows(&self, number: u8) -> bool {
        match self {
            _ if number == 0 => true,
            Self::None => false,
            Self::Any => true,
            Self::Types(types) => types.contains(&number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    }

    /// A complete file that RocksDB 11.9 wrote; its properties lie at 44, 1081 bytes.
    const COMPLETE_FILE: &str = include_str!("../testdata/complete_fv7.hex");

    #[test]
    fn properties_of_a_real_file_round_trip() {
        let file = hex(COMPLETE_FILE);
        assert_eq!(file.len(), 1242);
        let payload = &file[44..44 + 1081];
        let properties = TableProperties::decode(payload).unwrap();
        assert_eq!(properties.num_entries, 1);
        assert_eq!(properties.data_size, 26);
        assert_eq!(properties.index_size, 18);
        assert_eq!(properties.tail_start_offset, 26);
        assert_eq!(properties.format_version, 7);
        assert_eq!(properties.compression_name, ";;");
        assert_eq!(properties.db_id, "SST Writer");
        assert_eq!(properties.comparator, "leveldb.BytewiseComparator");
        assert_eq!(properties.column_family_id, UNKNOWN_COLUMN_FAMILY);
        assert_eq!(properties.merge_operator_name, "nullptr");
        assert_eq!((properties.key_smallest_seqno, properties.key_largest_seqno), (0, 0));
        assert_eq!((properties.data_block_restart_interval, properties.index_block_restart_interval), (16, 1));
        assert_eq!(properties.index_type(), Some(0));
        assert!(properties.has_whole_key_filtering() && !properties.has_prefix_filtering());
        assert_eq!(properties.global_sequence(None).unwrap(), Some(0));
        assert_eq!(properties.global_sequence(Some(77)).unwrap(), Some(77));
        assert_eq!(properties.encode(), payload);
        let range = find_value_range(payload, names::EXTERNAL_SST_FILE_GLOBAL_SEQNO).unwrap().unwrap();
        assert_eq!(payload[range], [0; 8]);
        assert_eq!(find_value_range(payload, "no.such").unwrap(), None);
    }

    #[test]
    fn unsorted_names_are_refused_and_bad_numbers_skipped() {
        let mut block = BlockBuilder::new(&BlockBuilderOptions { restart_interval: 1, ..Default::default() });
        block.add(b"rocksdb.num.entries", b"\xff");
        block.add(b"z", b"1");
        let properties = TableProperties::decode(block.finish()).unwrap();
        assert_eq!((properties.num_entries, properties.user_collected.len()), (0, 1));
        block.reset();
        block.add(b"b", b"1");
        block.add(b"a", b"1");
        assert_eq!(TableProperties::decode(block.finish()).unwrap_err().message(), "properties unsorted");
    }

    #[test]
    fn global_sequences_follow_version_and_manifest() {
        let with = |version: Option<u32>, global: Option<u64>| {
            let mut properties = TableProperties::default();
            let user = &mut properties.user_collected;
            if let Some(version) = version {
                user.insert(names::EXTERNAL_SST_FILE_VERSION.into(), version.to_le_bytes().to_vec());
            }
            if let Some(global) = global {
                user.insert(names::EXTERNAL_SST_FILE_GLOBAL_SEQNO.into(), global.to_le_bytes().to_vec());
            }
            properties
        };
        assert_eq!(with(None, None).global_sequence(Some(4)).unwrap(), None);
        assert!(with(None, Some(1)).global_sequence(None).is_err());
        assert_eq!(with(Some(1), None).global_sequence(None).unwrap(), None);
        assert!(with(Some(1), Some(1)).global_sequence(None).is_err());
        assert_eq!(with(Some(2), None).global_sequence(Some(9)).unwrap(), Some(9));
        assert_eq!(with(Some(2), Some(9)).global_sequence(Some(9)).unwrap(), Some(9));
        assert!(with(Some(2), Some(8)).global_sequence(Some(9)).is_err());
        assert!(with(Some(2), Some(1 << 56)).global_sequence(None).is_err());
        assert!(with(Some(3), None).global_sequence(None).is_err());
    }

    #[test]
    fn compression_names_follow_the_version() {
        assert_eq!(CompressionUse::parse("NoCompression", 5).unwrap(), CompressionUse::None);
        assert_eq!(CompressionUse::parse("ZSTD", 6).unwrap(), CompressionUse::Any);
        assert_eq!(CompressionUse::parse("", 2).unwrap(), CompressionUse::Any);
        assert!(CompressionUse::parse("Brotli", 5).unwrap_err().is_corruption());
        assert_eq!(CompressionUse::parse(";;", 7).unwrap(), CompressionUse::None);
        assert_eq!(CompressionUse::parse("BuiltinV2;;", 7).unwrap(), CompressionUse::None);
        let some = CompressionUse::parse("BuiltinV2;0407;later", 7).unwrap();
        assert_eq!(some, CompressionUse::Types(vec![4, 7]));
        assert!(some.allows(0) && some.allows(7) && !some.allows(1));
        for (name, message) in [
            ("LZ4", "Missing separator"),
            ("BuiltinV2;04", "Missing second field"),
            ("BuiltinV2;0;", "odd size"),
            ("BuiltinV2;0x;", "Error parsing"),
            ("BuiltinV2;00;", "Error parsing"),
            ("BuiltinV2;FF;", "Error parsing"),
            ("BuiltinV2;+4;", "Error parsing"),
            ("Mine;80;", "Could not load CompressionManager: Mine"),
        ] {
            assert!(CompressionUse::parse(name, 7).unwrap_err().message().contains(message), "{name}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn properties_round_trip(
            numbers in prop::collection::vec(any::<u64>(), 6),
            text in "[a-z.]{0,20}",
            user in prop::collection::btree_map("user[a-z]{1,8}", prop::collection::vec(any::<u8>(), 0..20), 0..5),
        ) {
            let mut properties = TableProperties {
                num_entries: numbers[0],
                index_partitions: numbers[1],
                key_largest_seqno: numbers[2],
                user_defined_timestamps_persisted: numbers[3] % 2,
                file_creation_time: numbers[4],
                comparator: text.clone(),
                compression_name: text,
                ..Default::default()
            };
            for (name, value) in user {
                properties.user_collected.insert(name.into_bytes(), value);
            }
            prop_assert_eq!(TableProperties::decode(&properties.encode()).unwrap(), properties);
        }
    }
}
