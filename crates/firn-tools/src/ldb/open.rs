//! Opening the database that `--db` names, with the options of its OPTIONS file and those of the command line.

use std::path::{Path, PathBuf};

use firn_format::compression::CompressionType;
use firn_format::version_edit::DEFAULT_COLUMN_FAMILY_NAME;
use firndb::merge::built_in;
use firndb::options::{
    ColumnFamilyOptions, ConfigOptions, DbOptions, FilterPolicy, LoadedOptions, OptionSet, TableFactory,
    load_latest_options,
};
use firndb::{ColumnFamily, ColumnFamilyDescriptor, Db, ErrorKind};

use super::{Context, Stop};
use crate::ROCKSDB_VERSION;

/// How the database is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing on disk changes.
    ReadOnly,
    /// For changes.
    ReadWrite,
}

/// An open database and the family that the command works on.
pub struct Opened {
    /// The database.
    pub db: Db,
    /// `--column_family`, or the default one.
    pub family: ColumnFamily,
    /// Its directory as given on the command line.
    pub path: PathBuf,
}

/// Opens the database of the command line with all its families.
///
/// # Errors
/// What keeps it from being opened, or that `--column_family` names none.
pub fn open(context: &mut Context<'_>, access: Access) -> Result<Opened, Stop> {
    open_changed(context, access, |_| {})
}

/// [`open`] with other options than those: `change` gets the families.
///
/// # Errors
/// As for [`open`].
pub fn open_changed(
    context: &mut Context<'_>,
    access: Access,
    change: impl FnOnce(&mut Vec<ColumnFamilyDescriptor>),
) -> Result<Opened, Stop> {
    let path = context.db_path()?;
    let create = context.arguments.boolean("create_if_missing", false)?;
    let (mut db_options, mut families) = stored_options(context, &path, create)?;
    db_options.create_if_missing = create;
    apply_db_flags(context, &mut db_options)?;
    for family in &mut families {
        apply_family_flags(context, &mut family.options)?;
    }
    change(&mut families);
    drop_missing_wal_dir(context, &mut db_options)?;
    let db = match access {
        Access::ReadOnly => Db::open_cf_read_only(&path, db_options, families)?,
        Access::ReadWrite => Db::open_cf(&path, db_options, families)?,
    };
    let name = context.arguments.option("column_family").unwrap_or(DEFAULT_COLUMN_FAMILY_NAME);
    let Some(family) = db.cf(name) else {
        return Err(Stop::Failed(format!("Non-existing column family {name}")));
    };
    Ok(Opened { db, family, path })
}

/// The options in the newest OPTIONS file, or defaults; and the families that the database has.
fn stored_options(
    context: &Context<'_>,
    path: &Path,
    create: bool,
) -> Result<(DbOptions, Vec<ColumnFamilyDescriptor>), Stop> {
    let loaded = loaded_options(context, path, create)?;
    let exists = super::manifest::current(&context.env, path);
    let names = match exists {
        Ok(manifest) => {
            let state = super::manifest::read(&context.env, &manifest, &mut |_| {})?;
            let mut names: Vec<String> = state.families.values().map(|family| family.name.clone()).collect();
            // A MANIFEST that lacks it is damaged, and the open says where.
            if !names.iter().any(|name| name == DEFAULT_COLUMN_FAMILY_NAME) {
                names.insert(0, DEFAULT_COLUMN_FAMILY_NAME.to_owned());
            }
            names
        }
        Err(_) => vec![DEFAULT_COLUMN_FAMILY_NAME.to_owned()],
    };
    let family_options = |name: &str| {
        let stored = loaded.as_ref().and_then(|loaded| loaded.column_family(name).cloned());
        stored.unwrap_or_default()
    };
    let families = names.iter().map(|name| ColumnFamilyDescriptor::new(name.clone(), family_options(name))).collect();
    let db_options = loaded.as_ref().map(|loaded| loaded.db.clone()).unwrap_or_default();
    Ok((db_options, families))
}

/// What the newest OPTIONS file says, if it is asked and there is one.
fn loaded_options(context: &Context<'_>, path: &Path, create: bool) -> Result<Option<LoadedOptions>, Stop> {
    let config = ConfigOptions {
        ignore_unknown_options: context.arguments.boolean("ignore_unknown_options", false)?,
        ..Default::default()
    };
    if !context.arguments.boolean("try_load_options", !create)? {
        return Ok(None);
    }
    match load_latest_options(&**context.env.fs(), path, &config) {
        Ok(loaded) => Ok(Some(loaded)),
        // Without the file the defaults hold.
        Err(error) if error.is_path_not_found() || error.is_not_found() => Ok(None),
        // The file may be as good as any.
        Err(error) if error.kind() == ErrorKind::IoError => Err(error.into()),
        Err(error) => Err(Stop::Failed(format!(
            "{error}\nThis tool was built with version {ROCKSDB_VERSION}. If your db is in a different version, please try \
             again with option --ignore_unknown_options."
        ))),
    }
}

/// The options for repairing the database: of the database, of its families as far as OPTIONS tells, and of others.
///
/// # Errors
/// What is wrong with the OPTIONS file or the command line.
pub fn repair_options(
    context: &mut Context<'_>,
    path: &Path,
) -> Result<(DbOptions, Vec<ColumnFamilyDescriptor>, ColumnFamilyOptions), Stop> {
    let loaded = loaded_options(context, path, false)?.unwrap_or_default();
    let mut db_options = loaded.db.clone();
    apply_db_flags(context, &mut db_options)?;
    drop_missing_wal_dir(context, &mut db_options)?;
    let mut families: Vec<_> = loaded
        .column_families
        .iter()
        .map(|(name, options)| ColumnFamilyDescriptor::new(name.clone(), options.clone()))
        .collect();
    for family in &mut families {
        apply_family_flags(context, &mut family.options)?;
    }
    let mut unknown = ColumnFamilyOptions::default();
    apply_family_flags(context, &mut unknown)?;
    Ok((db_options, families, unknown))
}

/// A WAL directory that is not there any more would keep the database from being opened.
fn drop_missing_wal_dir(context: &mut Context<'_>, options: &mut DbOptions) -> Result<(), Stop> {
    if !options.wal_dir.is_empty() && !context.env.fs().file_exists(Path::new(&options.wal_dir))? {
        writeln!(context.err, "wal_dir loaded from the option file doesn't exist. Ignore it.")?;
        options.wal_dir.clear();
    }
    Ok(())
}

fn apply_db_flags(context: &Context<'_>, options: &mut DbOptions) -> Result<(), Stop> {
    if let Some(bytes) = positive(context, "db_write_buffer_size")? {
        options.db_write_buffer_size = bytes;
    }
    Ok(())
}

/// A number above zero.
fn positive(context: &Context<'_>, name: &str) -> Result<Option<usize>, Stop> {
    match context.arguments.number::<usize>(name)? {
        Some(0) => Err(Stop::Failed(format!("{name} must be > 0."))),
        value => Ok(value),
    }
}

fn compression(name: &str) -> Option<CompressionType> {
    Some(match name {
        "no" => CompressionType::None,
        "snappy" => CompressionType::Snappy,
        "zlib" => CompressionType::Zlib,
        "bzip2" => CompressionType::Bzip2,
        "lz4" => CompressionType::Lz4,
        "lz4hc" => CompressionType::Lz4hc,
        "xpress" => CompressionType::Xpress,
        "zstd" => CompressionType::Zstd,
        _ => return None,
    })
}

fn apply_family_flags(context: &Context<'_>, options: &mut ColumnFamilyOptions) -> Result<(), Stop> {
    let arguments = &context.arguments;
    if let Some(bytes) = positive(context, "write_buffer_size")? {
        options.write_buffer_size = bytes;
    }
    if let Some(bytes) = positive(context, "file_size")? {
        options.target_file_size_base = bytes as u64;
    }
    if let Some(name) = arguments.option("compression_type") {
        let Some(kind) = compression(name) else {
            return Err(Stop::Failed("Unknown compression type.".to_owned()));
        };
        options.compression = kind;
    }
    if let Some(bytes) = arguments.number::<u32>("compression_max_dict_bytes")? {
        options.compression_opts.max_dict_bytes = bytes;
    }
    if arguments.option("auto_compaction").is_some() {
        options.disable_auto_compactions = !arguments.boolean("auto_compaction", true)?;
    }
    if arguments.boolean("disable_consistency_checks", false)? {
        options.force_consistency_checks = false;
    }
    if let Some(bytes) = arguments.number::<u32>("fix_prefix_len")? {
        let config = ConfigOptions { ignore_unsupported_options: false, ..Default::default() };
        options.set_text("prefix_extractor", &format!("rocksdb.FixedPrefix.{bytes}"), &config)?;
    }
    if options.merge_operator.is_none() {
        // Merge operands of an operator that is not known here are shown one behind the other, as RocksDB's tool does.
        options.merge_operator = built_in("stringappend", Some(":"));
    }
    if let TableFactory::BlockBased(table) = &mut options.table_factory {
        if let Some(bytes) = positive(context, "block_size")? {
            table.block_size = bytes as u64;
        }
        if let Some(bits) = arguments.number::<f64>("bloom_bits")? {
            table.filter_policy = Some(FilterPolicy::bloom(bits));
        }
    }
    Ok(())
}
