//! The format of new sorted files, and the options of the formats other than the block-based one.

use firn_format::options::{ConfigOptions, Dialect, ObjectText, OptionCodec, OptionSet, ValueKind};
use firn_format::options_text::{parse_map, strip_braces};
use firn_format::{Error, Result, option_enum, option_set};

use super::BlockBasedTableOptions;

option_enum! {
    /// How keys stand in plain tables.
    pub enum PlainTableEncoding {
        /// Whole keys.
        #[default]
        Plain = 0 => "kPlain",
        /// The prefix once, then the rest of each key.
        Prefix = 1 => "kPrefix",
    }
}

option_set! {
    /// Options of plain tables. The format is known and not supported.
    pub struct PlainTableOptions("PlainTableOptions") {
        /// Fixed length of user keys in bytes; 0 is variable.
        user_key_len: u32 = 0;
        /// Prefix Bloom filter bits per key; 0 is none.
        bloom_bits_per_key: i32 = 10;
        /// Prefixes per hash bucket; 0 means binary search.
        hash_table_ratio: f64 = 0.75;
        /// Keys per index record inside a bucket.
        index_sparseness: usize = 16;
        /// Huge page size for index and Bloom filter in bytes; 0 is off.
        huge_page_tlb_size: usize = 0;
        /// Key encoding of new files.
        encoding_type: PlainTableEncoding = PlainTableEncoding::Plain;
        /// Only full scans: no index.
        full_scan_mode: bool = false;
        /// Store the index and the Bloom filter in the file.
        store_index_in_file: bool = false;
    }
}

option_set! {
    /// Options of cuckoo tables. The format is known and not supported.
    pub struct CuckooTableOptions("CuckooTableOptions") {
        /// Utilization of the hash table.
        hash_table_ratio: f64 = 0.9;
        /// Depth of the search for a displacement when a table is built.
        max_search_depth: u32 = 100;
        /// Buckets probed one after the other.
        cuckoo_block_size: u32 = 5;
        /// The first hash is the first eight bytes of the key.
        identity_as_first_hash: bool = false;
        /// Modulo instead of a bit mask.
        use_module_hash: bool = true;
    }
}

/// The format of new sorted files.
#[derive(Clone, Debug)]
pub enum TableFactory {
    /// Blocks, an index and filters: the default.
    BlockBased(BlockBasedTableOptions),
    /// The plain format; opening a database with it is refused.
    Plain(PlainTableOptions),
    /// The cuckoo format; opening a database with it is refused.
    Cuckoo(CuckooTableOptions),
}

impl Default for TableFactory {
    fn default() -> Self {
        Self::BlockBased(BlockBasedTableOptions::default())
    }
}

impl TableFactory {
    /// The name in OPTIONS files.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::BlockBased(_) => "BlockBasedTable",
            Self::Plain(_) => "PlainTable",
            Self::Cuckoo(_) => "CuckooTable",
        }
    }

    /// A factory of this name with default options; `None` when there is none.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "BlockBasedTable" => Some(Self::BlockBased(BlockBasedTableOptions::default())),
            "PlainTable" => Some(Self::Plain(PlainTableOptions::default())),
            "CuckooTable" => Some(Self::Cuckoo(CuckooTableOptions::default())),
            _ => None,
        }
    }

    /// The block-based options, where that is the format.
    pub fn block_based(&self) -> Option<&BlockBasedTableOptions> {
        match self {
            Self::BlockBased(options) => Some(options),
            _ => None,
        }
    }

    /// The block-based options to change, where that is the format.
    pub fn block_based_mut(&mut self) -> Option<&mut BlockBasedTableOptions> {
        match self {
            Self::BlockBased(options) => Some(options),
            _ => None,
        }
    }

    /// Reads one option of the present format.
    pub fn set_text(&mut self, name: &str, text: &str, config: &ConfigOptions) -> Result<()> {
        match self {
            Self::BlockBased(options) => options.set_text(name, text, config),
            Self::Plain(options) => options.set_text(name, text, config),
            Self::Cuckoo(options) => options.set_text(name, text, config),
        }
    }

    /// Reads several options of the present format; all or none take effect.
    pub fn apply_map<'a>(
        &mut self,
        map: impl IntoIterator<Item = (&'a str, &'a str)>,
        config: &ConfigOptions,
    ) -> Result<()> {
        match self {
            Self::BlockBased(options) => options.apply_map(map, config),
            Self::Plain(options) => options.apply_map(map, config),
            Self::Cuckoo(options) => options.apply_map(map, config),
        }
    }

    /// The options of the present format that are written in `dialect`.
    pub fn entries(&self, dialect: Dialect) -> Vec<(String, String)> {
        match self {
            Self::BlockBased(options) => options.entries(dialect),
            Self::Plain(options) => options.entries(dialect),
            Self::Cuckoo(options) => options.entries(dialect),
        }
    }

    /// Those of [`entries`](Self::entries) that have to be written ([`OptionSet::written_entries`]).
    pub fn written_entries(&self, dialect: Dialect) -> Vec<(String, String)> {
        match self {
            Self::BlockBased(options) => options.written_entries(dialect),
            Self::Plain(options) => options.written_entries(dialect),
            Self::Cuckoo(options) => options.written_entries(dialect),
        }
    }

    /// Reads `text` as options of the format that the alias key (`block_based_table_factory`, ...) stands for. The options
    /// that `text` does not mention keep their values; another present format is `InvalidArgument`.
    pub fn apply_alias(&mut self, key: &str, text: &str, config: &ConfigOptions) -> Result<()> {
        let wanted = match key {
            "block_based_table_factory" => "BlockBasedTable",
            "plain_table_factory" => "PlainTable",
            _ => return Err(Error::invalid_argument(format!("Extra option not recognized: {key}"))),
        };
        if self.name() != wanted {
            return Err(Error::invalid_argument(format!("Cannot modify {} as {key}", self.name())));
        }
        let map = parse_map(text)?;
        self.apply_map(map.iter().map(|(name, value)| (name.as_str(), value.as_str())), config)
    }
}

/// Names under which an option map may change the present format's options.
const ALIASES: [&str; 2] = ["block_based_table_factory", "plain_table_factory"];

/// Reads and writes a table factory: the name alone, or `{id=<name>;option=value;...}`.
#[derive(Clone, Copy, Debug)]
pub struct TableFactoryCodec;

impl OptionCodec<TableFactory> for TableFactoryCodec {
    const KIND: ValueKind = ValueKind::Object;

    fn parse(slot: &mut TableFactory, name: &str, text: &str, config: &ConfigOptions) -> Result<()> {
        if ALIASES.contains(&name) {
            return slot.apply_alias(name, text, config);
        }
        let Some(object) = ObjectText::parse(text) else {
            return Err(Error::not_supported("Could not load TableFactory: nullptr"));
        };
        let mut factory = match &object.id {
            Some(id) if id == slot.name() => slot.clone(),
            Some(id) => TableFactory::from_name(strip_braces(id))
                .ok_or_else(|| Error::not_supported(format!("Could not load TableFactory: {id}")))?,
            None => slot.clone(),
        };
        factory.apply_map(object.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())), config)?;
        *slot = factory;
        Ok(())
    }

    fn parse_field(slot: &mut TableFactory, name: &str, field: &str, text: &str, config: &ConfigOptions) -> Result<()> {
        match field {
            "id" => Self::parse(slot, name, text, config),
            _ => {
                let own = format!("{}.", slot.name());
                slot.set_text(field.strip_prefix(own.as_str()).unwrap_or(field), text, config)
            }
        }
    }

    fn print(value: &TableFactory, _dialect: Dialect) -> Option<String> {
        Some(value.name().into())
    }
}
