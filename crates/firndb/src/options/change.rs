//! Changing options of an open database by name.
//!
//! The present options and a map of names and texts flow in, the changed options flow out; installing them and writing a new
//! OPTIONS file is the caller's part. All names of a map take effect, or none. The result is validated but not sanitized,
//! as in RocksDB: `write_buffer_size=1` stays 1.

use firn_format::options::{ConfigOptions, OptionSet};
use firn_format::{Error, Result};

use super::validate::{validate_column_family_options, validate_db_options};
use super::{ColumnFamilyOptions, DbOptions};

/// How texts given to a running database are read.
fn running() -> ConfigOptions {
    ConfigOptions { mutable_options_only: true, ..ConfigOptions::default() }
}

/// The options `cf` of the column family `name` with the changes of `map`.
///
/// Errors: an empty map, an unknown name, an option that cannot be changed, an invalid text or an invalid result is
/// `InvalidArgument`; a result that needs what is not built is `NotSupported`.
pub fn change_column_family_options(
    db: &DbOptions,
    name: &str,
    cf: &ColumnFamilyOptions,
    map: &[(&str, &str)],
) -> Result<ColumnFamilyOptions> {
    if map.is_empty() {
        return Err(Error::invalid_argument("empty input"));
    }
    let mut changed = cf.clone();
    changed.apply_map(map.iter().copied(), &running())?;
    if changed.max_write_buffer_number <= 0 {
        // An open raises it; here writers would wait for ever.
        return Err(Error::invalid_argument("max_write_buffer_number must be greater than zero"));
    }
    validate_column_family_options(db, name, &changed)?;
    Ok(changed)
}

/// The options `db` with the changes of `map`; `None` when nothing changes.
///
/// Errors: an empty map or an invalid result is `InvalidArgument`; a name that is unknown or cannot be changed is
/// `NotFound`.
pub fn change_db_options(db: &DbOptions, map: &[(&str, &str)]) -> Result<Option<DbOptions>> {
    if map.is_empty() {
        return Err(Error::invalid_argument("empty input"));
    }
    let retired_mutable = ["allow_os_buffer", "base_background_compactions"];
    for (name, _) in map {
        let known = DbOptions::find(name).is_some_and(|field| field.descriptor.flags.mutable);
        if !known && !retired_mutable.contains(name) {
            return Err(Error::not_found(format!("Unrecognized option: {name}")));
        }
    }
    let mut changed = db.clone();
    changed.apply_map(map.iter().copied(), &running())?;
    if changed.bytes_per_sync == 0 {
        changed.bytes_per_sync = 1 << 20;
    }
    validate_db_options(&changed)?;
    let same = DbOptions::FIELDS.iter().filter(|field| field.descriptor.flags.mutable).all(|field| {
        let dialect = firn_format::options::Dialect::RocksDb11;
        (field.print)(db, dialect) == (field.print)(&changed, dialect)
    });
    Ok((!same).then_some(changed))
}
