//! Opening the database that `--db` names, with the options of its OPTIONS file and those of the command line.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_format::version_edit::DEFAULT_COLUMN_FAMILY_NAME;
use firndb::merge::{MergeFailure, MergeInput, MergeOperator};
use firndb::options::{ColumnFamilyOptions, ConfigOptions, DbOptions, LoadedOptions, load_latest_options};
use firndb::{ColumnFamily, ColumnFamilyDescriptor, Db, ErrorKind};

use super::overrides::Overrides;
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
    let overrides = Overrides::of(&context.arguments)?;
    let create = context.arguments.boolean("create_if_missing", false)?;
    let (mut db_options, mut families) = stored_options(context, &path, create)?;
    db_options.create_if_missing = create;
    overrides.apply_to_db(&mut db_options);
    for family in &mut families {
        overrides.apply_to_family(&mut family.options)?;
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
            // A MANIFEST that has a name twice is damaged, or lacks this one, and the open says where.
            let mut seen = BTreeSet::new();
            names.retain(|name| seen.insert(name.clone()));
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
    let overrides = Overrides::of(&context.arguments)?;
    let loaded = loaded_options(context, path, false)?.unwrap_or_default();
    let mut db_options = loaded.db.clone();
    overrides.apply_to_db(&mut db_options);
    drop_missing_wal_dir(context, &mut db_options)?;
    let mut families: Vec<_> = loaded
        .column_families
        .iter()
        .map(|(name, options)| ColumnFamilyDescriptor::new(name.clone(), options.clone()))
        .collect();
    for family in &mut families {
        override_for_repair(&overrides, &mut family.options)?;
    }
    let mut unknown = ColumnFamilyOptions::default();
    override_for_repair(&overrides, &mut unknown)?;
    Ok((db_options, families, unknown))
}

/// Applies the command line, but lets operands of an operator that is not known here stay as they are, for whoever knows it.
fn override_for_repair(overrides: &Overrides, options: &mut ColumnFamilyOptions) -> Result<(), Stop> {
    let known = options.merge_operator.is_some();
    overrides.apply_to_family(options)?;
    if !known {
        options.merge_operator = Some(Arc::new(KeepOperands));
    }
    Ok(())
}

/// Merges nothing.
struct KeepOperands;

impl MergeOperator for KeepOperands {
    fn name(&self) -> &str {
        // What tables say that were written without one.
        "nullptr"
    }

    fn full_merge(&self, _: &MergeInput<'_>, _: &mut Vec<u8>) -> Result<(), MergeFailure> {
        Err(MergeFailure::MustMerge)
    }
}

/// A WAL directory that is not there any more would keep the database from being opened.
fn drop_missing_wal_dir(context: &mut Context<'_>, options: &mut DbOptions) -> Result<(), Stop> {
    if !options.wal_dir.is_empty() && !context.env.fs().file_exists(Path::new(&options.wal_dir))? {
        writeln!(context.err, "wal_dir loaded from the option file doesn't exist. Ignore it.")?;
        options.wal_dir.clear();
    }
    Ok(())
}
