//! OPTIONS files: what a database's options were when it was last opened or changed.
//!
//! Structures flow out into the text of an OPTIONS file and back. A file is written under a temporary name, synced, read
//! back and compared, and only then renamed, so that a database never shows an OPTIONS file that cannot be read. Opening a
//! database reads no OPTIONS file; [`load_latest_options`] is for programs that want its options.

use std::path::{Path, PathBuf};

use firn_env::{FileSystem, read_file, write_file};
use firn_format::options::{Comparison, ConfigOptions, Dialect, OptionSet, SanityLevel, ValueKind};
use firn_format::options_text::{OptionsFile, OptionsFileVersion, OptionsSection, SectionKind};
use firn_format::{Error, Result};
use firn_table::options::TableFactory;

use super::{ColumnFamilyOptions, DbOptions};

/// The version of RocksDB whose formats and option names are followed, as OPTIONS files state it.
pub const ROCKSDB_VERSION: OptionsFileVersion = OptionsFileVersion { major: 11, minor: 9, patch: 0 };

/// The greatest OPTIONS file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// The options of a database as an OPTIONS file states them.
#[derive(Clone, Debug, Default)]
pub struct LoadedOptions {
    /// The version of RocksDB that wrote the file; zero when it does not say.
    pub rocksdb_version: OptionsFileVersion,
    /// The options of the whole database.
    pub db: DbOptions,
    /// The names and options of the column families, in the order of the file; `default` comes first.
    pub column_families: Vec<(String, ColumnFamilyOptions)>,
}

/// Section errors are the caller's, whatever their kind was.
fn as_invalid_argument(error: Error) -> Error {
    Error::invalid_argument(error.message())
}

fn borrowed(section: &OptionsSection) -> impl Iterator<Item = (&str, &str)> {
    section.entries.iter().map(|(name, value)| (name.as_str(), value.as_str()))
}

impl LoadedOptions {
    /// Reads the text of an OPTIONS file.
    ///
    /// Unknown names are `InvalidArgument`, except in files of newer versions where `config` ignores them.
    pub fn parse(text: &str, config: &ConfigOptions) -> Result<Self> {
        let file = OptionsFile::parse(text)?;
        let mut config = config.clone();
        // Unknown names in a file that is not newer than the reader mean damage.
        if file.version_comes_first && file.rocksdb_version <= ROCKSDB_VERSION {
            config.ignore_unknown_options = false;
        }
        let mut loaded = Self { rocksdb_version: file.rocksdb_version, ..Self::default() };
        if let Some(section) = file.db() {
            loaded.db.apply_map(borrowed(section), &config).map_err(as_invalid_argument)?;
        }
        for (name, section) in file.column_families() {
            let mut options = ColumnFamilyOptions::default();
            options.apply_map(borrowed(section), &config).map_err(as_invalid_argument)?;
            if let Some((factory, section)) = file.table(name)
                && let Some(mut table_factory) = TableFactory::from_name(factory)
            {
                table_factory.apply_map(borrowed(section), &config).map_err(as_invalid_argument)?;
                options.table_factory = table_factory;
            }
            loaded.column_families.push((name.to_owned(), options));
        }
        Ok(loaded)
    }

    /// The options of the column family `name`.
    pub fn column_family(&self, name: &str) -> Option<&ColumnFamilyOptions> {
        self.column_families.iter().find(|(known, _)| known == name).map(|(_, options)| options)
    }

    /// The text of the OPTIONS file that states these options.
    pub fn print(&self, dialect: Dialect) -> String {
        let families = self.column_families.iter().map(|(name, options)| (name.as_str(), options));
        print_options(&self.db, families, dialect, self.rocksdb_version)
    }
}

/// The text of an OPTIONS file.
pub fn print_options<'a>(
    db: &DbOptions,
    column_families: impl IntoIterator<Item = (&'a str, &'a ColumnFamilyOptions)>,
    dialect: Dialect,
    rocksdb_version: OptionsFileVersion,
) -> String {
    let mut file = OptionsFile { rocksdb_version, ..OptionsFile::default() };
    file.sections.push(OptionsSection { kind: SectionKind::Db, entries: db.written_entries(dialect) });
    for (name, options) in column_families {
        let kind = SectionKind::ColumnFamily { name: name.to_owned() };
        file.sections.push(OptionsSection { kind, entries: options.written_entries(dialect) });
        let factory = options.table_factory.name().to_owned();
        let kind = SectionKind::Table { factory, name: name.to_owned() };
        file.sections.push(OptionsSection { kind, entries: options.table_factory.written_entries(dialect) });
    }
    file.to_string()
}

/// The number of an OPTIONS file by its name; temporary files have none.
fn options_file_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("OPTIONS-")?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

fn options_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("OPTIONS-{number:06}"))
}

/// The path of the newest OPTIONS file in `dir`; `NotFound` when there is none.
pub fn latest_options_file(fs: &dyn FileSystem, dir: &Path) -> Result<PathBuf> {
    let children = fs.children(dir)?;
    let latest = children.iter().filter_map(|name| Some((options_file_number(name)?, name))).max();
    match latest {
        Some((_, name)) => Ok(dir.join(name)),
        None => Err(Error::not_found("No options files found in the DB directory.")
            .with_subcode(firn_error::SubCode::PathNotFound)
            .with_file(dir)),
    }
}

/// Reads the newest OPTIONS file of the database in `dir`.
pub fn load_latest_options(fs: &dyn FileSystem, dir: &Path, config: &ConfigOptions) -> Result<LoadedOptions> {
    load_options_from_file(fs, &latest_options_file(fs, dir)?, config)
}

/// Reads an OPTIONS file. Errors name the file.
pub fn load_options_from_file(fs: &dyn FileSystem, path: &Path, config: &ConfigOptions) -> Result<LoadedOptions> {
    let bytes = read_file(fs, path, MAX_FILE_BYTES)?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to() as u64;
        Error::corruption("OPTIONS file is not UTF-8 text").with_file(path).with_offset(offset)
    })?;
    LoadedOptions::parse(&text, config).map_err(|error| error.with_file(path))
}

/// Writes the OPTIONS file `number` of the database in `dir` by way of the temporary file `temporary_number`.
///
/// Durable when it returns. On failure neither file is left.
pub fn write_options_file<'a>(
    fs: &dyn FileSystem,
    dir: &Path,
    temporary_number: u64,
    number: u64,
    db: &DbOptions,
    column_families: impl IntoIterator<Item = (&'a str, &'a ColumnFamilyOptions)> + Clone,
) -> Result<()> {
    let temporary = dir.join(format!("OPTIONS-{temporary_number:06}.dbtmp"));
    let path = options_path(dir, number);
    let text = print_options(db, column_families.clone(), Dialect::Portable, ROCKSDB_VERSION);
    let write = || -> Result<()> {
        write_file(fs, &temporary, text.as_bytes(), true)?;
        let persisted = load_options_from_file(fs, &temporary, &ConfigOptions::default())?;
        check_same_options(&persisted, db, column_families, SanityLevel::ExactMatch)?;
        fs.rename(&temporary, &path)?;
        fs.new_directory(dir)?.fsync()
    };
    write().inspect_err(|_| {
        let _ = fs.remove_file(&temporary);
    })
}

/// Whether these options survive being written to an OPTIONS file and read back, which [`write_options_file`] insists on.
/// Nothing is written.
///
/// # Errors
/// Those of [`check_same_options`], and those of reading.
pub fn check_options_text<'a>(
    db: &DbOptions,
    column_families: impl IntoIterator<Item = (&'a str, &'a ColumnFamilyOptions)> + Clone,
) -> Result<()> {
    let text = print_options(db, column_families.clone(), Dialect::Portable, ROCKSDB_VERSION);
    let persisted = LoadedOptions::parse(&text, &ConfigOptions::default())?;
    check_same_options(&persisted, db, column_families, SanityLevel::ExactMatch)
}

/// Removes all OPTIONS files of the database in `dir` but the two newest. A file that cannot be removed stays.
pub fn remove_old_options_files(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    let mut files: Vec<(u64, String)> =
        fs.children(dir)?.into_iter().filter_map(|name| Some((options_file_number(&name)?, name))).collect();
    files.sort_unstable();
    for (_, name) in files.iter().rev().skip(2) {
        let _ = fs.remove_file(&dir.join(name));
    }
    Ok(())
}

/// Compares persisted options with those specified; `InvalidArgument` names the first option that differs.
pub fn check_same_options<'a>(
    persisted: &LoadedOptions,
    db: &DbOptions,
    column_families: impl IntoIterator<Item = (&'a str, &'a ColumnFamilyOptions)>,
    level: SanityLevel,
) -> Result<()> {
    if level == SanityLevel::None {
        return Ok(());
    }
    if let Some((name, specified, stored)) = first_difference(db, &persisted.db, level) {
        return Err(Error::invalid_argument(format!(
            "[RocksDBOptionsParser]: failed the verification on DBOptions::{name} -- -- The specified one is {specified} \
             while the persisted one is {stored}.\n"
        )));
    }
    let column_families: Vec<_> = column_families.into_iter().collect();
    if column_families.len() != persisted.column_families.len() {
        return Err(Error::invalid_argument(
            "[RocksDBOptionParser Error] The persisted options does not have the same number of column family names as the \
             db instance.",
        ));
    }
    for ((name, options), (persisted_name, stored)) in column_families.into_iter().zip(&persisted.column_families) {
        if name != persisted_name {
            return Err(Error::invalid_argument(format!(
                "[RocksDBOptionParser Error] The persisted options and the db instance does not have the same name for \
                 column family: {name} and {persisted_name}."
            )));
        }
        check_same_family(options, stored, level)?;
    }
    Ok(())
}

fn check_same_family(specified: &ColumnFamilyOptions, stored: &ColumnFamilyOptions, level: SanityLevel) -> Result<()> {
    if let Some((name, specified, stored)) = first_difference(specified, stored, level) {
        return Err(Error::invalid_argument(format!(
            "[RocksDBOptionsParser]: failed the verification on ColumnFamilyOptions::{name}--- The specified one is \
             {specified} while the persisted one is {stored}.\n"
        )));
    }
    if level < SanityLevel::ExactMatch {
        return Ok(());
    }
    let difference = match (&specified.table_factory, &stored.table_factory) {
        (TableFactory::BlockBased(a), TableFactory::BlockBased(b)) => first_difference(a, b, level),
        (TableFactory::Plain(a), TableFactory::Plain(b)) => first_difference(a, b, level),
        (TableFactory::Cuckoo(a), TableFactory::Cuckoo(b)) => first_difference(a, b, level),
        _ => None,
    };
    match difference {
        None => Ok(()),
        Some((name, ..)) => {
            let factory = specified.table_factory.name();
            let message = format!("[RocksDBOptionsParser]:failed the verification on {factory}::: {name}");
            Err(Error::corruption(message))
        }
    }
}

/// The first option in which two structures differ: its name and the two texts.
fn first_difference<S: OptionSet>(
    specified: &S,
    stored: &S,
    level: SanityLevel,
) -> Option<(&'static str, String, String)> {
    let compared = |comparison| match comparison {
        Comparison::Loose => true,
        Comparison::Exact => level == SanityLevel::ExactMatch,
        Comparison::Never => false,
    };
    S::FIELDS
        .iter()
        .filter(|field| compared(field.descriptor.flags.comparison) && !field.descriptor.flags.parse_only)
        .find_map(|field| {
            let name = field.descriptor.name;
            let default = (field.print)(&S::default(), Dialect::RocksDb11);
            let text = |options: &S| {
                let text = (field.print)(options, Dialect::RocksDb11)?;
                // An object that is not known by name was not loaded; its text was, and is what is written.
                let kept = options.kept().and_then(|kept| kept.0.get(name));
                Some(kept.filter(|_| default.as_ref() == Some(&text)).cloned().unwrap_or(text))
            };
            let (specified, stored) = (text(specified)?, text(stored)?);
            // An operator may be added to a database that had none.
            let tolerated = field.descriptor.kind == ValueKind::Object && stored == "nullptr";
            (specified != stored && !tolerated).then_some((name, specified, stored))
        })
}
