//! Object-valued options: their built-in objects by name.

use std::path::PathBuf;
use std::sync::Arc;

use firn_env::{Env, GenericRateLimiter, RateLimiter, RateLimiterOptions};
use firn_format::comparator::{BytewiseComparator, Comparator, ReverseBytewiseComparator};
use firn_format::options::{ConfigOptions, Dialect, ObjectText, OptionCodec, OptionSet, OptionValue, ValueKind};
use firn_format::options_text::{escape, join_list, unescape};
use firn_format::slice_transform::{self, SliceTransform};
use firn_format::{Error, Result, option_set};

use crate::compaction::filter::{CompactionFilter, CompactionFilterFactory, FilterDecision, FilterValueType};
use crate::file_checksum::{FileChecksumGenCrc32cFactory, FileChecksumGenFactory};
use crate::merge::{self, MergeOperator};
use crate::stats::{EventListener, Statistics};

/// A directory of tables and how many bytes it shall hold before the next one is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DbPath {
    /// The directory.
    pub path: PathBuf,
    /// Target size in bytes.
    pub target_size: u64,
}

/// Reads and writes a comparator by its name.
#[derive(Clone, Copy, Debug)]
pub struct ComparatorCodec;

/// The built-in comparator of this name.
pub fn builtin_comparator(name: &str) -> Option<Arc<dyn Comparator>> {
    match name {
        "leveldb.BytewiseComparator" => Some(Arc::new(BytewiseComparator)),
        "rocksdb.ReverseBytewiseComparator" => Some(Arc::new(ReverseBytewiseComparator)),
        _ => None,
    }
}

impl OptionCodec<Arc<dyn Comparator>> for ComparatorCodec {
    const KIND: ValueKind = ValueKind::Object;

    fn parse(slot: &mut Arc<dyn Comparator>, name: &str, text: &str, _config: &ConfigOptions) -> Result<()> {
        if text.trim().is_empty() {
            return Ok(());
        }
        let object = ObjectText::parse(text);
        let id = object.as_ref().and_then(|object| object.id.as_deref()).unwrap_or("nullptr");
        if id == slot.name() {
            return Ok(());
        }
        *slot =
            builtin_comparator(id).ok_or_else(|| Error::not_supported(format!("Could not load Comparator: {id}")))?;
        if let Some((field, _)) = object.iter().flat_map(|object| &object.parameters).next() {
            return Err(Error::invalid_argument(format!("Unrecognized option: {name}.{field}")));
        }
        Ok(())
    }

    fn print(value: &Arc<dyn Comparator>, _dialect: Dialect) -> Option<String> {
        Some(value.name().to_owned())
    }
}

option_set! {
    /// Parameters of the hash skip list memtable.
    #[derive(PartialEq, Eq)]
    pub struct HashSkipListOptions("HashSkipListRepFactory") {
        /// Buckets.
        bucket_count: usize = 1_000_000;
        /// Greatest height of each list.
        skiplist_height: i32 = 4;
        /// Inverse chance of a node to be one higher.
        branching_factor: i32 = 4;
    }
}

option_set! {
    /// Parameters of the hash linked list memtable.
    #[derive(PartialEq, Eq)]
    pub struct HashLinkListOptions("HashLinkListRepFactory") {
        /// Buckets.
        bucket_count: usize = 50_000;
        /// Entries from which a bucket becomes a skip list.
        threshold: u32 = 256;
        /// Huge page size in bytes; 0 is off.
        huge_page_size: usize = 0;
        /// Entries of a bucket from which it is logged.
        logging_threshold: i32 = 4096;
        /// Log the distribution of entries when flushed.
        log_when_flash: bool = true;
    }
}

/// The representation of memtables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemTableFactory {
    /// A skip list; takes concurrent inserts. The default.
    SkipList {
        /// Steps that an insert looks ahead from its last position; 0 is off.
        lookahead: usize,
    },
    /// A vector that is sorted when read.
    Vector {
        /// Entries to reserve.
        count: usize,
    },
    /// A hash table of skip lists by prefix.
    HashSkipList(HashSkipListOptions),
    /// A hash table of linked lists by prefix.
    HashLinkList(HashLinkListOptions),
}

impl Default for MemTableFactory {
    fn default() -> Self {
        Self::SkipList { lookahead: 0 }
    }
}

impl MemTableFactory {
    /// The name of the factory.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::SkipList { .. } => "SkipListFactory",
            Self::Vector { .. } => "VectorRepFactory",
            Self::HashSkipList(_) => "HashSkipListRepFactory",
            Self::HashLinkList(_) => "HashLinkListRepFactory",
        }
    }

    /// Whether several threads may insert at once.
    pub const fn is_insert_concurrently_supported(&self) -> bool {
        matches!(self, Self::SkipList { .. } | Self::Vector { .. })
    }

    fn from_id(id: &str) -> Result<Option<Self>> {
        let (name, number) = match id.split_once(':') {
            Some((name, number)) => match number.parse::<usize>() {
                Ok(number) => (name, Some(number)),
                Err(_) => return Ok(None),
            },
            None => (id, None),
        };
        Ok(Some(match name {
            "skip_list" | "SkipListFactory" => Self::SkipList { lookahead: number.unwrap_or(0) },
            "vector" | "VectorRepFactory" => Self::Vector { count: number.unwrap_or(0) },
            "prefix_hash" | "HashSkipListRepFactory" => {
                let mut options = HashSkipListOptions::default();
                options.bucket_count = number.unwrap_or(options.bucket_count);
                Self::HashSkipList(options)
            }
            "hash_linkedlist" | "HashLinkListRepFactory" => {
                let mut options = HashLinkListOptions::default();
                options.bucket_count = number.unwrap_or(options.bucket_count);
                Self::HashLinkList(options)
            }
            "cuckoo" => return Err(Error::invalid_argument("cuckoo hash memtable is not supported anymore.")),
            _ => return Ok(None),
        }))
    }
}

/// Reads and writes a memtable factory.
#[derive(Clone, Copy, Debug)]
pub struct MemTableFactoryCodec;

impl OptionCodec<MemTableFactory> for MemTableFactoryCodec {
    const KIND: ValueKind = ValueKind::Object;

    fn parse(slot: &mut MemTableFactory, name: &str, text: &str, config: &ConfigOptions) -> Result<()> {
        let Some(object) = ObjectText::parse(text) else {
            return Err(Error::not_supported("Could not load MemTableRepFactory: nullptr"));
        };
        let mut factory = match &object.id {
            Some(id) => MemTableFactory::from_id(id)?
                .ok_or_else(|| Error::not_supported(format!("Could not load MemTableRepFactory: {id}")))?,
            None => slot.clone(),
        };
        for (field, value) in &object.parameters {
            Self::parse_field(&mut factory, name, field, value, config)?;
        }
        *slot = factory;
        Ok(())
    }

    fn parse_field(
        slot: &mut MemTableFactory,
        name: &str,
        field: &str,
        text: &str,
        config: &ConfigOptions,
    ) -> Result<()> {
        match (slot, field) {
            (MemTableFactory::SkipList { lookahead }, "lookahead") => {
                *lookahead = usize::parse_value(field, text, config)?;
                Ok(())
            }
            (MemTableFactory::Vector { count }, "count") => {
                *count = usize::parse_value(field, text, config)?;
                Ok(())
            }
            (MemTableFactory::HashSkipList(options), _) => options.set_text(field, text, config),
            (MemTableFactory::HashLinkList(options), _) => options.set_text(field, text, config),
            _ => Err(Error::invalid_argument(format!("Unrecognized option: {name}.{field}"))),
        }
    }

    fn print(value: &MemTableFactory, dialect: Dialect) -> Option<String> {
        let with_parameters = |parameters: String| format!("{{id={};{parameters}}}", value.name());
        Some(match value {
            MemTableFactory::SkipList { lookahead: 0 } => value.name().to_owned(),
            MemTableFactory::SkipList { lookahead } => format!("{}:{lookahead}", value.name()),
            MemTableFactory::Vector { count } => with_parameters(format!("count={count};")),
            MemTableFactory::HashSkipList(options) => with_parameters(options.to_text(dialect, ";")),
            MemTableFactory::HashLinkList(options) => with_parameters(options.to_text(dialect, ";")),
        })
    }
}

/// Reads and writes a prefix extractor by its id.
#[derive(Clone, Copy, Debug)]
pub struct SliceTransformCodec;

impl OptionCodec<Option<Arc<dyn SliceTransform>>> for SliceTransformCodec {
    const KIND: ValueKind = ValueKind::Object;

    fn parse(
        slot: &mut Option<Arc<dyn SliceTransform>>,
        _name: &str,
        text: &str,
        _config: &ConfigOptions,
    ) -> Result<()> {
        *slot = slice_transform::from_string(text)?;
        Ok(())
    }

    fn print(value: &Option<Arc<dyn SliceTransform>>, _dialect: Dialect) -> Option<String> {
        Some(value.as_ref().map_or_else(|| "nullptr".into(), |transform| transform.id()))
    }
}

/// Reads the environment by name; only the default one has a name.
#[derive(Clone, Copy, Debug)]
pub struct EnvCodec;

impl OptionCodec<Env> for EnvCodec {
    const KIND: ValueKind = ValueKind::Object;

    fn parse(slot: &mut Env, _name: &str, text: &str, _config: &ConfigOptions) -> Result<()> {
        match text.trim() {
            "" | "PosixEnv" | "DefaultEnv" => {
                *slot = Env::default();
                Ok(())
            }
            other => Err(Error::not_supported(format!("Could not load Env: {other}"))),
        }
    }

    fn print(_value: &Env, _dialect: Dialect) -> Option<String> {
        None
    }
}

/// Reads and writes a merge operator by its name, with its parameters where it has some.
#[derive(Clone, Copy, Debug)]
pub struct MergeOperatorCodec;

impl OptionCodec<Option<Arc<dyn MergeOperator>>> for MergeOperatorCodec {
    const KIND: ValueKind = ValueKind::Object;

    fn parse(slot: &mut Option<Arc<dyn MergeOperator>>, name: &str, text: &str, config: &ConfigOptions) -> Result<()> {
        let Some(object) = ObjectText::parse(text) else {
            *slot = None;
            return Ok(());
        };
        let mut operator = match &object.id {
            Some(id) => Some(
                merge::built_in(id, None)
                    .ok_or_else(|| Error::not_supported(format!("Could not load MergeOperator: {id}")))?,
            ),
            None => slot.clone(),
        };
        for (field, value) in &object.parameters {
            Self::parse_field(&mut operator, name, field, value, config)?;
        }
        *slot = operator;
        Ok(())
    }

    fn parse_field(
        slot: &mut Option<Arc<dyn MergeOperator>>,
        name: &str,
        field: &str,
        text: &str,
        config: &ConfigOptions,
    ) -> Result<()> {
        if field == "id" {
            return Self::parse(slot, name, text, config);
        }
        // The value of a parameter carries escapes of its own, as every value does.
        let value = if config.input_strings_escaped { unescape(text) } else { text.to_owned() };
        let has_field = |operator: &&Arc<dyn MergeOperator>| {
            operator.option_text().split_once('=').is_some_and(|(known, _)| known == field)
        };
        let changed =
            slot.as_ref().filter(has_field).and_then(|operator| merge::built_in(operator.name(), Some(&value)));
        match changed {
            Some(operator) => {
                *slot = Some(operator);
                Ok(())
            }
            None => Err(Error::invalid_argument(format!("Unrecognized option: {name}.{field}"))),
        }
    }

    fn print(value: &Option<Arc<dyn MergeOperator>>, _dialect: Dialect) -> Option<String> {
        let Some(operator) = value else { return Some("nullptr".into()) };
        let parameters = operator.option_text();
        Some(match parameters.split_once('=') {
            None => operator.name().to_owned(),
            Some((name, value)) => format!("{{id={};{name}={};}}", operator.name(), escape(value)),
        })
    }
}

/// Reads a rate limiter from its bytes per second.
#[derive(Clone, Copy, Debug)]
pub struct RateLimiterCodec;

impl OptionCodec<Option<Arc<dyn RateLimiter>>> for RateLimiterCodec {
    const KIND: ValueKind = ValueKind::Object;

    fn parse(slot: &mut Option<Arc<dyn RateLimiter>>, name: &str, text: &str, config: &ConfigOptions) -> Result<()> {
        let bytes_per_second = u64::parse_value(name, text, config)?;
        let options = RateLimiterOptions { bytes_per_second, ..RateLimiterOptions::default() };
        let limiter = GenericRateLimiter::new(options, Env::default().clock().clone())?;
        *slot = Some(Arc::new(limiter));
        Ok(())
    }

    fn print(_value: &Option<Arc<dyn RateLimiter>>, _dialect: Dialect) -> Option<String> {
        None
    }
}

/// Reads statistics by name: a new, empty object.
#[derive(Clone, Copy, Debug)]
pub struct StatisticsCodec;

impl OptionCodec<Option<Arc<Statistics>>> for StatisticsCodec {
    const KIND: ValueKind = ValueKind::Object;

    fn parse(slot: &mut Option<Arc<Statistics>>, _name: &str, text: &str, _config: &ConfigOptions) -> Result<()> {
        *slot = match ObjectText::parse(text).and_then(|object| object.id).as_deref() {
            None if text.trim() == "nullptr" => None,
            None | Some("BasicStatistics") => Some(Arc::new(Statistics::default())),
            Some(other) => return Err(Error::not_supported(format!("Could not load Statistics: {other}"))),
        };
        Ok(())
    }

    fn print(_value: &Option<Arc<Statistics>>, _dialect: Dialect) -> Option<String> {
        None
    }
}

/// Reads and writes a factory of file checksums by its name.
#[derive(Clone, Copy, Debug)]
pub struct FileChecksumGenFactoryCodec;

impl OptionCodec<Option<Arc<dyn FileChecksumGenFactory>>> for FileChecksumGenFactoryCodec {
    const KIND: ValueKind = ValueKind::Object;

    fn parse(
        slot: &mut Option<Arc<dyn FileChecksumGenFactory>>,
        _name: &str,
        text: &str,
        _config: &ConfigOptions,
    ) -> Result<()> {
        let id = ObjectText::parse(text).and_then(|object| object.id);
        *slot = match id.as_deref() {
            None => None,
            Some(id) if slot.as_ref().is_some_and(|factory| factory.name() == id) => return Ok(()),
            Some("FileChecksumGenCrc32cFactory") => Some(Arc::new(FileChecksumGenCrc32cFactory)),
            Some(other) => {
                return Err(Error::not_supported(format!("Could not load FileChecksumGenFactory: {other}")));
            }
        };
        Ok(())
    }

    fn print(value: &Option<Arc<dyn FileChecksumGenFactory>>, _dialect: Dialect) -> Option<String> {
        Some(value.as_ref().map_or_else(|| "nullptr".to_owned(), |factory| factory.name().to_owned()))
    }
}

/// Writes the names of listeners; none can be made from a name.
#[derive(Clone, Copy, Debug)]
pub struct ListenersCodec;

impl OptionCodec<Vec<Arc<dyn EventListener>>> for ListenersCodec {
    const KIND: ValueKind = ValueKind::List;

    fn parse(_slot: &mut Vec<Arc<dyn EventListener>>, _name: &str, text: &str, _config: &ConfigOptions) -> Result<()> {
        if text.trim().is_empty() {
            return Ok(());
        }
        Err(Error::not_supported(format!("Could not load EventListener: {text}")))
    }

    fn print(value: &Vec<Arc<dyn EventListener>>, _dialect: Dialect) -> Option<String> {
        Some(join_list(value.iter().map(|listener| listener.name().to_owned()).filter(|name| !name.is_empty())))
    }
}

/// Removes entries with an empty value, RocksDB's one built-in compaction filter.
#[derive(Clone, Copy, Debug, Default)]
pub struct RemoveEmptyValueCompactionFilter;

impl CompactionFilter for RemoveEmptyValueCompactionFilter {
    fn name(&self) -> &str {
        "RemoveEmptyValueCompactionFilter"
    }

    fn filter(&self, _level: usize, _key: &[u8], value_type: FilterValueType, existing: &[u8]) -> FilterDecision {
        if value_type == FilterValueType::Value && existing.is_empty() {
            FilterDecision::Remove
        } else {
            FilterDecision::Keep
        }
    }
}

/// Reads and writes a compaction filter by its name.
#[derive(Clone, Copy, Debug)]
pub struct CompactionFilterCodec;

impl OptionCodec<Option<Arc<dyn CompactionFilter>>> for CompactionFilterCodec {
    const KIND: ValueKind = ValueKind::Object;

    fn parse(
        slot: &mut Option<Arc<dyn CompactionFilter>>,
        _name: &str,
        text: &str,
        _config: &ConfigOptions,
    ) -> Result<()> {
        *slot = match ObjectText::parse(text).and_then(|object| object.id).as_deref() {
            None => None,
            Some("RemoveEmptyValueCompactionFilter") => Some(Arc::new(RemoveEmptyValueCompactionFilter)),
            Some(other) => return Err(Error::not_supported(format!("Could not load CompactionFilter: {other}"))),
        };
        Ok(())
    }

    fn print(value: &Option<Arc<dyn CompactionFilter>>, _dialect: Dialect) -> Option<String> {
        Some(value.as_ref().map_or_else(|| "nullptr".into(), |filter| filter.name().to_owned()))
    }
}

/// Writes the name of a compaction filter factory; none can be made from a name.
#[derive(Clone, Copy, Debug)]
pub struct CompactionFilterFactoryCodec;

impl OptionCodec<Option<Arc<dyn CompactionFilterFactory>>> for CompactionFilterFactoryCodec {
    const KIND: ValueKind = ValueKind::Object;

    fn parse(
        slot: &mut Option<Arc<dyn CompactionFilterFactory>>,
        _name: &str,
        text: &str,
        _config: &ConfigOptions,
    ) -> Result<()> {
        if ObjectText::parse(text).is_some() {
            return Err(Error::not_supported(format!("Could not load CompactionFilterFactory: {text}")));
        }
        *slot = None;
        Ok(())
    }

    fn print(value: &Option<Arc<dyn CompactionFilterFactory>>, _dialect: Dialect) -> Option<String> {
        Some(value.as_ref().map_or_else(|| "nullptr".into(), |factory| factory.name().to_owned()))
    }
}
