//! Random options, as text: printable, replayable, and a test of the option parser on the way.
//!
//! What must not change in a database's life (comparator, merge operator, number of levels, compaction style) is drawn once per column
//! family; everything else is drawn again at every open.

use firndb::options::{BlockBasedTableOptions, ConfigOptions, OptionSet, TableFactory};
use firndb::{ColumnFamilyOptions, DbOptions};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

type Choices = &'static [(&'static str, &'static [&'static str])];
type Texts = Vec<(&'static str, String)>;

const DB_CHOICES: Choices = &[
    ("max_background_jobs", &["1", "2", "4"]),
    ("max_subcompactions", &["1", "3"]),
    ("wal_compression", &["kNoCompression", "kZSTD"]),
    ("manual_wal_flush", &["true"]),
    ("wal_recovery_mode", &["kTolerateCorruptedTailRecords", "kAbsoluteConsistency", "kPointInTimeRecovery"]),
    ("max_total_wal_size", &["0", "60000"]),
    ("atomic_flush", &["true"]),
    ("allow_concurrent_memtable_write", &["false"]),
    ("enable_pipelined_write", &["true"]),
    ("avoid_flush_during_recovery", &["true"]),
    ("avoid_flush_during_shutdown", &["true"]),
    ("max_open_files", &["-1", "20"]),
    ("allow_mmap_reads", &["true"]),
    ("use_direct_reads", &["true"]),
    ("use_direct_io_for_flush_and_compaction", &["true"]),
    ("bytes_per_sync", &["4096"]),
    ("wal_bytes_per_sync", &["4096"]),
    ("max_manifest_file_size", &["2000"]),
    ("track_and_verify_wals_in_manifest", &["true"]),
    ("delete_obsolete_files_period_micros", &["0"]),
    ("paranoid_checks", &["true"]),
    ("writable_file_max_buffer_size", &["8192"]),
    ("use_fsync", &["true"]),
];

const CF_CHOICES: Choices = &[
    ("level0_file_num_compaction_trigger", &["2", "4", "8"]),
    ("max_bytes_for_level_base", &["20000", "100000"]),
    ("max_bytes_for_level_multiplier", &["3", "10"]),
    ("target_file_size_base", &["4000", "20000", "100000"]),
    ("target_file_size_multiplier", &["1", "2"]),
    ("max_compaction_bytes", &["30000"]),
    ("max_write_buffer_number", &["2", "4"]),
    ("min_write_buffer_number_to_merge", &["2"]),
    ("max_write_buffer_size_to_maintain", &["200000"]),
    ("memtable_whole_key_filtering", &["true"]),
    ("memtable_prefix_bloom_size_ratio", &["0.1"]),
    ("max_successive_merges", &["3"]),
    ("max_sequential_skip_in_iterations", &["0", "1"]),
    ("optimize_filters_for_hits", &["true"]),
    ("compaction_pri", &["kByCompensatedSize", "kOldestLargestSeqFirst", "kOldestSmallestSeqFirst", "kRoundRobin"]),
    ("disable_auto_compactions", &["true"]),
    ("paranoid_file_checks", &["true"]),
    ("paranoid_memory_checks", &["true"]),
    ("memtable_protection_bytes_per_key", &["1", "2", "4", "8"]),
    ("block_protection_bytes_per_key", &["1", "2", "4", "8"]),
    ("memtable_max_range_deletions", &["5"]),
    ("bottommost_compression", &["kZSTD", "kNoCompression"]),
    ("report_bg_io_stats", &["true"]),
];

const COMPRESSIONS: &[&str] = &[
    "kNoCompression",
    "kSnappyCompression",
    "kZlibCompression",
    "kBZip2Compression",
    "kLZ4Compression",
    "kLZ4HCCompression",
    "kZSTD",
];

const TABLE_CHOICES: Choices = &[
    ("format_version", &["2", "3", "4", "5", "6", "7"]),
    ("checksum", &["kNoChecksum", "kCRC32c", "kxxHash", "kxxHash64", "kXXH3"]),
    ("block_size", &["100", "500", "4096"]),
    ("block_restart_interval", &["1", "3", "16"]),
    ("index_block_restart_interval", &["1", "4"]),
    ("index_shortening", &["kNoShortening", "kShortenSeparators", "kShortenSeparatorsAndSuccessor"]),
    ("data_block_index_type", &["kDataBlockBinarySearch", "kDataBlockBinaryAndHash"]),
    ("cache_index_and_filter_blocks", &["true"]),
    ("no_block_cache", &["true"]),
    ("use_delta_encoding", &["false"]),
    ("enable_index_compression", &["false"]),
    ("verify_compression", &["true"]),
    ("optimize_filters_for_memory", &["true", "false"]),
];

/// Combinations that go together.
const TABLE_KINDS: &[&[(&str, &str)]] = &[
    &[],
    &[("filter_policy", "bloomfilter:10:false")],
    &[("filter_policy", "ribbonfilter:10:0")],
    &[("filter_policy", "bloomfilter:2:false"), ("whole_key_filtering", "false")],
    &[("index_type", "kTwoLevelIndexSearch"), ("metadata_block_size", "100")],
    &[
        ("index_type", "kTwoLevelIndexSearch"),
        ("metadata_block_size", "100"),
        ("filter_policy", "bloomfilter:10:false"),
        ("partition_filters", "true"),
    ],
    &[("index_type", "kBinarySearchWithFirstKey"), ("filter_policy", "bloomfilter:5:false")],
    &[("index_type", "kHashSearch")],
];

/// Few keys a prefix, and many.
const PREFIXES: &[&str] = &["fixed:3", "capped:4", "fixed:1", "fixed:2", "fixed:5", "capped:7"];

/// How operands change a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// There are no operands.
    None,
    /// They are appended behind commas.
    StringAppend,
    /// Numbers are added.
    UInt64Add,
    /// The greatest one stays.
    Max,
    /// The last one stays.
    Put,
}

impl Merge {
    /// The operator as an option says it.
    pub fn option_text(self) -> &'static str {
        match self {
            Self::None => "",
            Self::StringAppend => "stringappend",
            Self::UInt64Add => "uint64add",
            Self::Max => "max",
            Self::Put => "put",
        }
    }

    /// The value after one more operand.
    pub fn apply(self, existing: Option<&[u8]>, operand: &[u8]) -> Vec<u8> {
        let Some(existing) = existing else { return operand.to_vec() };
        match self {
            Self::None => unreachable!("merges are made only where there is an operator"),
            Self::StringAppend => [existing, b",", operand].concat(),
            Self::UInt64Add => {
                let read = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
                read(existing).wrapping_add(read(operand)).to_le_bytes().to_vec()
            }
            Self::Max => existing.max(operand).to_vec(),
            Self::Put => operand.to_vec(),
        }
    }
}

/// What stays as it is in the life of a column family.
#[derive(Clone, Debug)]
pub struct Fixed {
    /// The merge operator.
    pub merge: Merge,
    /// Whether keys are in reverse order.
    pub reversed: bool,
    /// The number of levels.
    pub levels: u32,
    /// Whether compactions are universal.
    pub universal: bool,
}

impl Fixed {
    /// Draws them.
    pub fn draw(rng: &mut StdRng) -> Self {
        const MERGES: [Merge; 5] = [Merge::None, Merge::StringAppend, Merge::UInt64Add, Merge::Max, Merge::Put];
        Self {
            merge: *MERGES.choose(rng).unwrap(),
            reversed: rng.random_bool(0.15),
            levels: *[2, 4, 7, 7, 7].choose(rng).unwrap(),
            universal: rng.random_bool(0.15),
        }
    }
}

fn draw(rng: &mut StdRng, choices: Choices, chance: f64) -> Texts {
    let mut texts = Texts::new();
    for (name, values) in choices {
        if rng.random_bool(chance) {
            texts.push((name, (*values.choose(rng).unwrap()).to_owned()));
        }
    }
    texts
}

fn apply(options: &mut impl OptionSet, texts: &Texts) {
    let config = ConfigOptions { input_strings_escaped: false, ..ConfigOptions::default() };
    let pairs = texts.iter().map(|(name, value)| (*name, value.as_str()));
    options.apply_map(pairs, &config).unwrap_or_else(|error| panic!("{texts:?}: {error}"));
}

/// Options of the database for one open, and their text. With `recycles`, WALs may hold bytes of an earlier life, which
/// only point-in-time recovery tells from damage: other modes are then drawn in no open of the database.
pub fn database(rng: &mut StdRng, recycles: bool) -> (DbOptions, String) {
    let chance = if rng.random_bool(0.3) { 0.02 } else { 0.2 };
    let mut texts = draw(rng, DB_CHOICES, chance);
    if recycles {
        texts.retain(|(name, _)| *name != "wal_recovery_mode");
        texts.push(("recycle_log_file_num", ["0", "2"].choose(rng).unwrap().to_string()));
    }
    texts.push(("create_if_missing", "true".to_owned()));
    texts.push(("info_log_level", "INFO_LEVEL".to_owned()));
    // Mapped and direct reads exclude each other.
    if texts.iter().any(|(name, _)| name.starts_with("use_direct")) {
        texts.retain(|(name, _)| *name != "allow_mmap_reads");
    }
    // Atomic flushes and pipelined writes exclude each other.
    if texts.iter().any(|(name, _)| *name == "atomic_flush") {
        texts.retain(|(name, _)| *name != "enable_pipelined_write");
    }
    let mut options = DbOptions::default();
    apply(&mut options, &texts);
    (options, print(&texts))
}

/// Options of a column family for one open, and their text.
pub fn column_family(rng: &mut StdRng, fixed: &Fixed) -> (ColumnFamilyOptions, String) {
    // A user's options are the defaults, which are RocksDB's, but for a few.
    let near_defaults = rng.random_bool(0.3);
    let mut texts = draw(rng, CF_CHOICES, if near_defaults { 0.04 } else { 0.3 });
    texts.push(("num_levels", fixed.levels.to_string()));
    if !near_defaults {
        texts.push(("write_buffer_size", ["65536", "200000"].choose(rng).unwrap().to_string()));
        texts.push(("compression", (*COMPRESSIONS.choose(rng).unwrap()).to_owned()));
    }
    if fixed.reversed {
        texts.push(("comparator", "rocksdb.ReverseBytewiseComparator".to_owned()));
    }
    if rng.random_bool(0.4) {
        texts.push(("level_compaction_dynamic_level_bytes", "false".to_owned()));
    }
    if fixed.universal {
        texts.push(("compaction_style", "kCompactionStyleUniversal".to_owned()));
        if rng.random_bool(0.4) {
            let options = "{incremental=true;max_size_amplification_percent=30}";
            texts.push(("compaction_options_universal", options.to_owned()));
        }
    }
    if fixed.merge != Merge::None {
        texts.push(("merge_operator", fixed.merge.option_text().to_owned()));
    }
    let mut table_texts = draw(rng, TABLE_CHOICES, if near_defaults { 0.04 } else { 0.4 });
    let kind = TABLE_KINDS.choose(rng).unwrap();
    table_texts.extend(kind.iter().map(|(name, value)| (*name, (*value).to_owned())));
    let hash_index = kind.iter().any(|(_, value)| *value == "kHashSearch");
    // Metadata cannot be cached without a cache.
    if table_texts.iter().any(|(name, _)| *name == "no_block_cache") {
        table_texts.retain(|(name, _)| *name != "cache_index_and_filter_blocks");
    }
    if hash_index {
        table_texts.retain(|(name, _)| *name != "index_block_restart_interval");
    }
    if hash_index || rng.random_bool(0.5) {
        texts.push(("prefix_extractor", (*PREFIXES.choose(rng).unwrap()).to_owned()));
    }
    let mut options = ColumnFamilyOptions::default();
    apply(&mut options, &texts);
    let mut table = BlockBasedTableOptions::default();
    apply(&mut table, &table_texts);
    options.table_factory = TableFactory::BlockBased(table);
    (options, format!("{} table {{{}}}", print(&texts), print(&table_texts)))
}

fn print(texts: &Texts) -> String {
    texts.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(";")
}
