//! Reports about files and caches: `levelstats`, `sstables`, read latencies, block cache entries, sums of table properties.
//!
//! Plain values flow in, RocksDB's text flows out.

use std::collections::BTreeMap;
use std::fmt::Write;

use firn_format::key::parse_internal_key;
use firn_format::properties::TableProperties;

use super::compaction_stats::LevelShape;
use super::numbers::{MB, bytes_text, general_text};
use super::{ColumnFamilyShape, Histogram};

/// The text of `rocksdb.levelstats`.
pub fn level_stats_text(levels: &[LevelShape]) -> String {
    let mut text = String::from("Level Files Size(MB)\n--------------------\n");
    for (number, level) in levels.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{number:>3} {:>8} {:>8.0}", level.files, level.size_bytes as f64 / MB);
    }
    text
}

/// A table as `rocksdb.sstables` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableShape {
    /// The file's number.
    pub number: u64,
    /// Its bytes.
    pub size_bytes: u64,
    /// The least sequence number in it.
    pub smallest_sequence: u64,
    /// The greatest sequence number in it.
    pub largest_sequence: u64,
    /// The first internal key.
    pub smallest_key: Vec<u8>,
    /// The last internal key.
    pub largest_key: Vec<u8>,
    /// The oldest blob file it refers to; 0 when there is none.
    pub oldest_blob_file: u64,
    /// Sampled reads so far.
    pub sampled_reads: u64,
}

/// The text of an internal key: `'<hex>' seq:<n>, type:<n>`.
pub fn internal_key_text(key: &[u8]) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
    match parse_internal_key(key) {
        Ok(parsed) => {
            format!("'{}' seq:{}, type:{}", hex(parsed.user_key), parsed.sequence.0, parsed.value_type as u8)
        }
        Err(_) => format!("(bad){}", hex(key)),
    }
}

/// The text of `rocksdb.sstables` for the tables of each level of a version.
pub fn tables_text(version_number: u64, levels: &[Vec<TableShape>]) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    for (number, level) in levels.iter().enumerate() {
        let _ = writeln!(text, "--- level {number} --- version# {version_number} ---");
        for table in level {
            let _ = write!(text, " {}:{}", table.number, table.size_bytes);
            let _ = write!(text, "[{} .. {}]", table.smallest_sequence, table.largest_sequence);
            let (smallest, largest) = (internal_key_text(&table.smallest_key), internal_key_text(&table.largest_key));
            let _ = write!(text, "[{smallest} .. {largest}]");
            if table.oldest_blob_file != 0 {
                let _ = write!(text, " blob_file:{}", table.oldest_blob_file);
            }
            let _ = writeln!(text, "({})", table.sampled_reads);
        }
    }
    text
}

/// The text of `rocksdb.cf-file-histogram`: read latencies in microseconds of each level, then of blob files.
pub fn read_latency_text(family: &str, levels: &[Histogram], blobs: &Histogram) -> String {
    let mut text = format!("\n** File Read Latency Histogram By Level [{family}] **\n");
    for (number, histogram) in levels.iter().enumerate().filter(|(_, histogram)| histogram.count() > 0) {
        let _ = writeln!(text, "** Level {number} read latency histogram (micros):\n{}", histogram.to_text());
    }
    if blobs.count() > 0 {
        let _ = writeln!(text, "** Blob file read latency histogram (micros):\n{}", blobs.to_text());
    }
    text
}

/// The roles of block cache entries in RocksDB's order: the name in text, the name in maps.
pub const CACHE_ENTRY_ROLES: [(&str, &str); 14] = [
    ("DataBlock", "data-block"),
    ("FilterBlock", "filter-block"),
    ("FilterMetaBlock", "filter-meta-block"),
    ("DeprecatedFilterBlock", "deprecated-filter-block"),
    ("IndexBlock", "index-block"),
    ("OtherBlock", "other-block"),
    ("WriteBuffer", "write-buffer"),
    ("CompressionDictionaryBuildingBuffer", "compression-dictionary-building-buffer"),
    ("FilterConstruction", "filter-construction"),
    ("BlockBasedTableReader", "block-based-table-reader"),
    ("FileMetadata", "file-metadata"),
    ("BlobValue", "blob-value"),
    ("BlobCache", "blob-cache"),
    ("Misc", "misc"),
];

/// What a block cache holds.
#[derive(Clone, Debug, Default)]
pub struct CacheShape {
    /// What names the cache: `<kind>@<place>#<process>`.
    pub id: String,
    /// Bytes that it may hold.
    pub capacity_bytes: u64,
    /// Bytes that it holds.
    pub usage_bytes: u64,
    /// Places for entries.
    pub table_size: u64,
    /// Entries.
    pub occupancy: u64,
    /// How often the entries were counted.
    pub collections: u64,
    /// Seconds that the last count took.
    pub last_seconds: f64,
    /// Seconds since the last count.
    pub seconds_since: u64,
    /// Entries and bytes of each role, in the order of [`CACHE_ENTRY_ROLES`].
    pub roles: [(u64, u64); 14],
}

impl CacheShape {
    fn portion(&self, bytes: u64) -> f64 {
        if self.capacity_bytes == 0 { 0.0 } else { 100.0 * bytes as f64 / self.capacity_bytes as f64 }
    }

    /// The text of `rocksdb.block-cache-entry-stats`.
    pub fn text(&self) -> String {
        let mut text = format!(
            "Block cache {} capacity: {} usage: {} table_size: {} occupancy: {} collections: {} last_copies: 0 last_secs: {} \
             secs_since: {}\nBlock cache entry stats(count,size,portion):",
            self.id,
            bytes_text(self.capacity_bytes),
            bytes_text(self.usage_bytes),
            self.table_size,
            self.occupancy,
            self.collections,
            general_text(self.last_seconds, 6),
            self.seconds_since,
        );
        for ((name, _), (count, bytes)) in CACHE_ENTRY_ROLES.iter().zip(self.roles).filter(|(_, (count, _))| *count > 0)
        {
            let portion = general_text(self.portion(bytes), 6);
            let _ = write!(text, " {name}({count},{},{portion}%)", bytes_text(bytes));
        }
        text.push('\n');
        text
    }

    /// The map of `rocksdb.block-cache-entry-stats`.
    pub fn map(&self) -> BTreeMap<String, String> {
        let mut map = BTreeMap::from([
            ("id".to_owned(), self.id.clone()),
            ("capacity".to_owned(), self.capacity_bytes.to_string()),
            ("secs_for_last_collection".to_owned(), format!("{:.6}", self.last_seconds)),
            ("secs_since_last_collection".to_owned(), self.seconds_since.to_string()),
        ]);
        for ((_, name), (count, bytes)) in CACHE_ENTRY_ROLES.iter().zip(self.roles) {
            map.insert(format!("count.{name}"), count.to_string());
            map.insert(format!("bytes.{name}"), bytes.to_string());
            map.insert(format!("percent.{name}"), format!("{:.6}", self.portion(bytes)));
        }
        map
    }
}

macro_rules! aggregated {
    ($($field:ident,)*) => {
        /// The properties of several tables added up.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct AggregatedTableProperties {
            $(
                #[doc = concat!("The sum of `", stringify!($field), "`.")]
                pub $field: u64,
            )*
        }

        impl AggregatedTableProperties {
            /// Adds the properties of a table.
            pub fn add(&mut self, table: &TableProperties) {
                $(self.$field = self.$field.wrapping_add(table.$field);)*
            }
        }
    };
}

aggregated! {
    data_size, index_size, index_partitions, top_level_index_size, index_key_is_user_key, index_value_is_delta_encoded,
    filter_size, raw_key_size, raw_value_size, num_data_blocks, num_entries, num_filter_entries, num_deletions,
    num_merge_operands, num_range_deletions, slow_compression_estimated_data_size, fast_compression_estimated_data_size,
    num_data_blocks_compression_rejected, num_data_blocks_compression_bypassed, num_uniform_blocks,
}

impl AggregatedTableProperties {
    /// The map of `rocksdb.aggregated-table-properties`.
    pub fn map(&self) -> BTreeMap<String, String> {
        [
            ("data_size", self.data_size),
            ("index_size", self.index_size),
            ("index_partitions", self.index_partitions),
            ("top_level_index_size", self.top_level_index_size),
            ("filter_size", self.filter_size),
            ("raw_key_size", self.raw_key_size),
            ("raw_value_size", self.raw_value_size),
            ("num_data_blocks", self.num_data_blocks),
            ("num_entries", self.num_entries),
            ("num_filter_entries", self.num_filter_entries),
            ("num_deletions", self.num_deletions),
            ("num_merge_operands", self.num_merge_operands),
            ("num_range_deletions", self.num_range_deletions),
            ("slow_compression_estimated_data_size", self.slow_compression_estimated_data_size),
            ("fast_compression_estimated_data_size", self.fast_compression_estimated_data_size),
            ("uncompressed_data_size", 0),
            ("num_data_blocks_compression_rejected", self.num_data_blocks_compression_rejected),
            ("num_data_blocks_compression_bypassed", self.num_data_blocks_compression_bypassed),
            ("num_uniform_blocks", self.num_uniform_blocks),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_string()))
        .collect()
    }

    /// The text of `rocksdb.aggregated-table-properties`, one line.
    pub fn text(&self) -> String {
        let average = |bytes: u64| if self.num_entries == 0 { 0.0 } else { bytes as f64 / self.num_entries as f64 };
        let not_of_one_table = "filter policy name=N/A; prefix extractor name=N/A; column family ID=N/A; column family name=N/A; \
            comparator name=N/A; user defined timestamps persisted=true; largest sequence number in \
            file=18446744073709551615; smallest sequence number in file=18446744073709551615; merge operator name=N/A; \
            property collectors names=N/A; SST file compression algo=N/A; SST file compression options=N/A; creation time=0; \
            time stamp of earliest key=0; time stamp of newest key=0; file creation time=0; ";
        let mut text = format!(
            "# data blocks={}; # data blocks compression rejected={}; # data blocks compression bypassed={}; # uniform blocks={}; \
             # entries={}; # deletions={}; # merge operands={}; # range deletions={}; ",
            self.num_data_blocks,
            self.num_data_blocks_compression_rejected,
            self.num_data_blocks_compression_bypassed,
            self.num_uniform_blocks,
            self.num_entries,
            self.num_deletions,
            self.num_merge_operands,
            self.num_range_deletions,
        );
        let _ = write!(
            text,
            "raw key size={}; raw average key size={:.6}; raw value size={}; raw average value size={:.6}; data block size={}; \
             data uncompressed size=0; index block size (user-key? {}, delta-value? {})={}; ",
            self.raw_key_size,
            average(self.raw_key_size),
            self.raw_value_size,
            average(self.raw_value_size),
            self.data_size,
            self.index_key_is_user_key,
            self.index_value_is_delta_encoded,
            self.index_size,
        );
        if self.index_partitions != 0 {
            let (count, size) = (self.index_partitions, self.top_level_index_size);
            let _ = write!(text, "# index partitions={count}; top-level index size={size}; ");
        }
        let total = self.data_size + self.index_size + self.filter_size;
        let (filter, keys) = (self.filter_size, self.num_filter_entries);
        let _ =
            write!(text, "filter block size={filter}; # entries for filter={keys}; (estimated) table size={total}; ");
        text.push_str(not_of_one_table);
        let (slow, fast) = (self.slow_compression_estimated_data_size, self.fast_compression_estimated_data_size);
        let _ =
            write!(text, "slow compression estimated data size={slow}; fast compression estimated data size={fast}; ");
        text.push_str(
            "DB identity=; DB session identity=; DB host id=; original file number=0; unique ID=N/A; Sequence number to time \
             mapping=; ",
        );
        text
    }
}

/// The line `files[...]` of a column family's levels, as log messages show it.
pub fn level_summary_text(shape: &ColumnFamilyShape) -> String {
    let files: Vec<String> = shape.levels.iter().map(|level| level.files.to_string()).collect();
    let score = shape.levels.iter().map(|level| level.score).fold(0.0, f64::max);
    let pending = shape.pending_compaction_bytes;
    format!("files[{}] max score {score:.2}, estimated pending compaction bytes {pending}", files.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use firn_format::key::{SequenceNumber, ValueType, append_internal_key};

    #[test]
    fn level_stats_are_rocksdbs() {
        let level = LevelShape { files: 1, size_bytes: 3 << 20, ..LevelShape::default() };
        assert_eq!(
            level_stats_text(&[level, LevelShape::default()]),
            "Level Files Size(MB)\n--------------------\n  0        1        3\n  1        0        0\n"
        );
    }

    #[test]
    fn tables_are_listed_as_rocksdb_does() {
        let key = |user_key: &str, sequence: u64, value_type: ValueType| {
            let mut key = Vec::new();
            append_internal_key(&mut key, user_key.as_bytes(), SequenceNumber(sequence), value_type);
            key
        };
        let table = TableShape {
            number: 116,
            size_bytes: 25356,
            smallest_sequence: 20002,
            largest_sequence: 23530,
            smallest_key: key("k00000000", 20002, ValueType::Deletion),
            largest_key: key("k00002646", 23530, ValueType::Deletion),
            oldest_blob_file: 0,
            sampled_reads: 1024,
        };
        let with_blob = TableShape { oldest_blob_file: 84, sampled_reads: 0, ..table.clone() };
        let text = tables_text(41, &[vec![table], vec![with_blob]]);
        let keys = "['6B3030303030303030' seq:20002, type:0 .. '6B3030303032363436' seq:23530, type:0]";
        assert_eq!(
            text,
            format!(
                "--- level 0 --- version# 41 ---\n 116:25356[20002 .. 23530]{keys}(1024)\n\
                 --- level 1 --- version# 41 ---\n 116:25356[20002 .. 23530]{keys} blob_file:84(0)\n"
            )
        );
        assert_eq!(internal_key_text(b"short"), "(bad)73686F7274");
    }

    #[test]
    fn sums_of_properties_have_rocksdbs_text() {
        let mut sum = AggregatedTableProperties::default();
        let table = TableProperties {
            num_data_blocks: 278,
            num_entries: 10_000,
            raw_key_size: 170_000,
            raw_value_size: 981_524,
            data_size: 105_869,
            index_key_is_user_key: 1,
            index_value_is_delta_encoded: 1,
            index_size: 5457,
            filter_size: 12_549,
            num_filter_entries: 10_000,
            ..TableProperties::default()
        };
        sum.add(&table);
        let expected = "# data blocks=278; # data blocks compression rejected=0; # data blocks compression bypassed=0; # uniform blocks=0; # entries=10000; # deletions=0; # merge operands=0; # range deletions=0; raw key size=170000; raw average key size=17.000000; raw value size=981524; raw average value size=98.152400; data block size=105869; data uncompressed size=0; index block size (user-key? 1, delta-value? 1)=5457; filter block size=12549; # entries for filter=10000; (estimated) table size=123875; filter policy name=N/A; prefix extractor name=N/A; column family ID=N/A; column family name=N/A; comparator name=N/A; user defined timestamps persisted=true; largest sequence number in file=18446744073709551615; smallest sequence number in file=18446744073709551615; merge operator name=N/A; property collectors names=N/A; SST file compression algo=N/A; SST file compression options=N/A; creation time=0; time stamp of earliest key=0; time stamp of newest key=0; file creation time=0; slow compression estimated data size=0; fast compression estimated data size=0; DB identity=; DB session identity=; DB host id=; original file number=0; unique ID=N/A; Sequence number to time mapping=; ";
        assert_eq!(sum.text(), expected);
        assert_eq!(sum.map().get("num_entries").map(String::as_str), Some("10000"));
    }

    #[test]
    fn cache_entries_have_rocksdbs_text() {
        let mut roles = [(0, 0); 14];
        roles[0] = (287, 1_174_405);
        roles[13] = (1, 0);
        let cache = CacheShape { id: "LRUCache@0x1#2".into(), capacity_bytes: 4 << 20, roles, ..CacheShape::default() };
        let text = cache.text();
        assert!(
            text.starts_with("Block cache LRUCache@0x1#2 capacity: 4.00 MB usage: 0.00 KB table_size: 0 occupancy: 0 ")
        );
        let line = "\nBlock cache entry stats(count,size,portion): DataBlock(287,1.12 MB,28%) Misc(1,0.00 KB,0%)\n";
        assert!(text.ends_with(line), "{text}");
        assert_eq!(cache.map().len(), 4 + 3 * 14);
    }

    #[test]
    fn read_latencies_show_levels_with_reads() {
        let mut histogram = Histogram::new();
        histogram.add(5);
        let text = read_latency_text("default", &[Histogram::new(), histogram], &Histogram::new());
        let start = "\n** File Read Latency Histogram By Level [default] **\n** Level 1 read latency histogram (micros):\nCount: 1 ";
        assert!(text.starts_with(start));
        assert!(text.ends_with("####################\n\n"));
    }
}
