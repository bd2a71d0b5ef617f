//! What the command line says about the options of the database, over what its OPTIONS file says.
//!
//! In: the command line. Out: options changed by it. All values are checked before a database is touched, with the
//! bounds and words of RocksDB's tool: its numbers are 32-bit integers.

use std::num::IntErrorKind;

use firn_format::compression::CompressionType;
use firndb::merge::built_in;
use firndb::options::{
    ColumnFamilyOptions, ConfigOptions, DbOptions, FilterPolicy, OptionSet, PrepopulateBlobCache, TableFactory,
};

use super::Stop;
use super::arguments::Arguments;

/// Checked values; what is `None` or `false` was not given and changes nothing.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    db_write_buffer_size: Option<usize>,
    write_buffer_size: Option<usize>,
    file_size: Option<u64>,
    block_size: Option<u64>,
    bloom_bits: Option<f64>,
    uniform_cv_threshold: Option<f64>,
    fix_prefix_len: Option<u32>,
    compression_type: Option<CompressionType>,
    compression_max_dict_bytes: Option<u32>,
    auto_compaction: Option<bool>,
    disable_consistency_checks: bool,
    blobs: BlobOverrides,
}

/// Options of blob files. They are written to the OPTIONS file as RocksDB writes them; no blob file comes of them.
#[derive(Clone, Debug, Default)]
struct BlobOverrides {
    min_size: Option<u64>,
    file_size: Option<u64>,
    compression_type: Option<CompressionType>,
    garbage_collection: bool,
    age_cutoff: Option<f64>,
    force_threshold: Option<f64>,
    readahead: Option<u64>,
    starting_level: Option<i32>,
    prepopulate_cache: Option<PrepopulateBlobCache>,
}

impl Overrides {
    /// Checks the values of the command line.
    ///
    /// # Errors
    /// The message about a value that RocksDB's tool refuses, or about a request for blob files.
    pub fn of(arguments: &Arguments) -> Result<Self, String> {
        let auto_compaction = match arguments.option("auto_compaction") {
            Some(_) => Some(arguments.boolean("auto_compaction", true)?),
            None => None,
        };
        let overrides = Self {
            block_size: positive(arguments, "block_size")?,
            bloom_bits: bloom_bits(arguments)?,
            uniform_cv_threshold: real(arguments, "uniform_cv_threshold")?,
            disable_consistency_checks: arguments.boolean("disable_consistency_checks", false)?,
            blobs: BlobOverrides::of(arguments)?,
            auto_compaction,
            db_write_buffer_size: positive(arguments, "db_write_buffer_size")?,
            write_buffer_size: positive(arguments, "write_buffer_size")?,
            file_size: positive(arguments, "file_size")?,
            compression_type: compression(arguments, "compression_type")?,
            compression_max_dict_bytes: not_negative(arguments, "compression_max_dict_bytes")?,
            fix_prefix_len: positive(arguments, "fix_prefix_len")?,
        };
        // Means something beside --use_txn only, which is refused.
        if given(arguments, "txn_write_policy").is_some_and(|policy| !matches!(policy, "0" | "1" | "2")) {
            return Err("txn_write_policy has an invalid value.".to_owned());
        }
        Ok(overrides)
    }

    /// Changes the options of the database.
    pub fn apply_to_db(&self, options: &mut DbOptions) {
        replace(&mut options.db_write_buffer_size, self.db_write_buffer_size);
    }

    /// Changes the options of one family.
    ///
    /// # Errors
    /// Options that do not fit each other.
    pub fn apply_to_family(&self, options: &mut ColumnFamilyOptions) -> Result<(), Stop> {
        replace(&mut options.write_buffer_size, self.write_buffer_size);
        replace(&mut options.target_file_size_base, self.file_size);
        replace(&mut options.compression, self.compression_type);
        replace(&mut options.compression_opts.max_dict_bytes, self.compression_max_dict_bytes);
        replace(&mut options.disable_auto_compactions, self.auto_compaction.map(|on| !on));
        if self.disable_consistency_checks {
            options.force_consistency_checks = false;
        }
        if let Some(bytes) = self.fix_prefix_len {
            let config = ConfigOptions { ignore_unsupported_options: false, ..Default::default() };
            options.set_text("prefix_extractor", &format!("rocksdb.FixedPrefix.{bytes}"), &config)?;
        }
        if options.merge_operator.is_none() {
            // Merge operands of an operator that is not known here are shown one behind the other, as RocksDB's tool does.
            options.merge_operator = built_in("stringappend", Some(":"));
        }
        if let TableFactory::BlockBased(table) = &mut options.table_factory {
            replace(&mut table.block_size, self.block_size);
            replace(&mut table.uniform_cv_threshold, self.uniform_cv_threshold);
            if let Some(bits) = self.bloom_bits {
                table.filter_policy = Some(FilterPolicy::bloom(bits));
            }
        }
        self.blobs.apply(options);
        Ok(())
    }
}

impl BlobOverrides {
    fn of(arguments: &Arguments) -> Result<Self, String> {
        let blobs = Self {
            min_size: not_negative(arguments, "min_blob_size")?,
            file_size: positive(arguments, "blob_file_size")?,
            compression_type: compression(arguments, "blob_compression_type")?,
            garbage_collection: arguments.boolean("enable_blob_garbage_collection", false)?,
            age_cutoff: fraction(arguments, "blob_garbage_collection_age_cutoff")?,
            force_threshold: fraction(arguments, "blob_garbage_collection_force_threshold")?,
            readahead: positive(arguments, "blob_compaction_readahead_size")?,
            starting_level: not_negative(arguments, "blob_file_starting_level")?,
            prepopulate_cache: match integer(arguments, "prepopulate_blob_cache")? {
                None => None,
                Some(0) => Some(PrepopulateBlobCache::Disable),
                Some(1) => Some(PrepopulateBlobCache::FlushOnly),
                Some(_) => {
                    return Err("prepopulate_blob_cache must be 0 (disable) or 1 (flush only).".to_owned());
                }
            },
        };
        if arguments.boolean("enable_blob_files", false)? {
            return Err("Not implemented: blob files (--enable_blob_files)".to_owned());
        }
        Ok(blobs)
    }

    fn apply(&self, options: &mut ColumnFamilyOptions) {
        replace(&mut options.min_blob_size, self.min_size);
        replace(&mut options.blob_file_size, self.file_size);
        replace(&mut options.blob_compression_type, self.compression_type);
        if self.garbage_collection {
            options.enable_blob_garbage_collection = true;
        }
        replace(&mut options.blob_garbage_collection_age_cutoff, self.age_cutoff);
        replace(&mut options.blob_garbage_collection_force_threshold, self.force_threshold);
        replace(&mut options.blob_compaction_readahead_size, self.readahead);
        replace(&mut options.blob_file_starting_level, self.starting_level);
        replace(&mut options.prepopulate_blob_cache, self.prepopulate_cache);
    }
}

fn replace<T: Copy>(slot: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *slot = value;
    }
}

fn invalid(name: &str) -> String {
    format!("{name} has an invalid value.")
}

fn out_of_range(name: &str) -> String {
    format!("{name} has a value out-of-range.")
}

/// An option's value; an empty one counts as not given.
fn given<'a>(arguments: &'a Arguments, name: &str) -> Option<&'a str> {
    arguments.option(name).filter(|text| !text.is_empty())
}

fn integer(arguments: &Arguments, name: &str) -> Result<Option<i32>, String> {
    let Some(text) = given(arguments, name) else { return Ok(None) };
    text.parse().map(Some).map_err(|error: std::num::ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => out_of_range(name),
        _ => invalid(name),
    })
}

fn at_least<T: TryFrom<i32>>(arguments: &Arguments, name: &str, least: i32, bound: &str) -> Result<Option<T>, String> {
    match integer(arguments, name)? {
        None => Ok(None),
        Some(value) if value < least => Err(format!("{name} must be {bound}.")),
        Some(value) => T::try_from(value).map(Some).map_err(|_| out_of_range(name)),
    }
}

fn positive<T: TryFrom<i32>>(arguments: &Arguments, name: &str) -> Result<Option<T>, String> {
    at_least(arguments, name, 1, "> 0")
}

fn not_negative<T: TryFrom<i32>>(arguments: &Arguments, name: &str) -> Result<Option<T>, String> {
    at_least(arguments, name, 0, ">= 0")
}

fn real(arguments: &Arguments, name: &str) -> Result<Option<f64>, String> {
    given(arguments, name).map(|text| text.parse().map_err(|_| invalid(name))).transpose()
}

fn fraction(arguments: &Arguments, name: &str) -> Result<Option<f64>, String> {
    match real(arguments, name)? {
        Some(value) if !(0.0..=1.0).contains(&value) => Err(format!("{name} must be >= 0 and <= 1.")),
        value => Ok(value),
    }
}

/// Bits of a key in Bloom filters: a whole number for RocksDB's tool, with a fraction too here.
fn bloom_bits(arguments: &Arguments) -> Result<Option<f64>, String> {
    const NAME: &str = "bloom_bits";
    match real(arguments, NAME)? {
        Some(bits) if !bits.is_finite() => Err(invalid(NAME)),
        Some(bits) if bits < 1.0 => Err(format!("{NAME} must be > 0.")),
        Some(bits) if bits > f64::from(i32::MAX) => Err(out_of_range(NAME)),
        bits => Ok(bits),
    }
}

fn compression(arguments: &Arguments, option: &str) -> Result<Option<CompressionType>, String> {
    let Some(name) = given(arguments, option) else { return Ok(None) };
    Ok(Some(match name {
        "no" => CompressionType::None,
        "snappy" => CompressionType::Snappy,
        "zlib" => CompressionType::Zlib,
        "bzip2" => CompressionType::Bzip2,
        "lz4" => CompressionType::Lz4,
        "lz4hc" => CompressionType::Lz4hc,
        "xpress" => CompressionType::Xpress,
        "zstd" => CompressionType::Zstd,
        _ => return Err(format!("Unknown compression algorithm: {name}")),
    }))
}
