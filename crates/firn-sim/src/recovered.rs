//! A database as it is found after a crash.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_env::crash::CrashFileSystem;
use firn_error::{Error, Result};
use firndb::options::{FlushOptions, ReadOptions, WalRecoveryMode};
use firndb::{Db, WriteBatch, WriteOptions};

use crate::model::{Fingerprint, Map};
use crate::run::Session;
use crate::workload::{FamilyId, Logging, Setup};
use crate::world::{db_path, environment};

/// The key that is written after a recovery, to see that the database takes writes.
pub const MARKER: &[u8] = b"~marker";

/// Opens what a crash left, with all the families that it has.
///
/// # Errors
/// Those of the open.
pub fn open(
    fs: &CrashFileSystem,
    setup: &Setup,
    mode: WalRecoveryMode,
    session_seed: u64,
    identify: impl Fn(&str) -> Option<FamilyId>,
) -> Result<Session> {
    let fs = Arc::new(fs.clone());
    let options = setup.db_options(environment(Arc::<CrashFileSystem>::clone(&fs), session_seed), mode);
    let names = match Db::list_column_families(db_path(), &options) {
        Ok(names) => names,
        // No CURRENT: the database was never there, and the open makes it.
        Err(error) if error.is_path_not_found() => vec!["default".to_owned()],
        Err(error) => return Err(error),
    };
    let mut families = BTreeMap::new();
    for name in names {
        let Some(family) = identify(&name) else {
            return Err(Error::invalid_argument(format!("column family {name} is not meant to exist")));
        };
        families.insert(family, name);
    }
    Session::open(fs, setup, &families, mode, session_seed)
}

/// The fingerprint of each family, without the marker.
///
/// # Errors
/// What a scan finds.
pub fn fingerprints(session: &Session) -> Result<BTreeMap<FamilyId, u64>> {
    let mut found = BTreeMap::new();
    for (family, handle) in &session.families {
        let mut fingerprint = Fingerprint::default();
        let mut cursor = session.db.cursor(&ReadOptions::default(), handle)?;
        cursor.seek_to_first();
        while cursor.valid() {
            if cursor.key() != MARKER {
                fingerprint.add(cursor.key(), cursor.value());
            }
            cursor.next();
        }
        cursor.status()?;
        found.insert(*family, fingerprint.finish());
    }
    Ok(found)
}

/// What a family holds, without the marker; by a scan, and each key once more by a lookup.
///
/// # Errors
/// What reads find, and a lookup that contradicts the scan.
pub fn contents(session: &Session, family: FamilyId) -> Result<Map> {
    let mut map = Map::new();
    let Some(handle) = session.families.get(&family) else { return Ok(map) };
    for entry in session.db.range_opt::<&[u8], _>(ReadOptions::default(), handle, ..) {
        let (key, value) = entry?;
        let looked_up = session.db.get_opt(&ReadOptions::default(), handle, &key)?;
        if looked_up.as_deref() != Some(value.as_ref()) {
            return Err(Error::corruption(format!("get of {} differs from the scan", key.escape_ascii())));
        }
        if key.as_slice() != MARKER {
            map.insert(key, value);
        }
    }
    Ok(map)
}

/// Writes the marker to all families, durably, and reads it back.
///
/// # Errors
/// What the database answers, and a marker that cannot be read.
pub fn write_marker(session: &Session, setup: &Setup, value: &[u8]) -> Result<()> {
    let mut batch = WriteBatch::new();
    for family in session.families.values() {
        batch.put_cf(family, MARKER, value)?;
    }
    let logged = setup.logging == Logging::All;
    let options = WriteOptions { sync: logged, disable_wal: !logged, ..WriteOptions::default() };
    session.db.write_opt(&options, &mut batch)?;
    if !logged {
        let all: Vec<_> = session.families.values().collect();
        session.db.flush_cfs(&FlushOptions { allow_write_stall: true, ..FlushOptions::default() }, &all)?;
    }
    check_marker(session, value)
}

/// Reads the marker of all families.
///
/// # Errors
/// A marker that is not there.
pub fn check_marker(session: &Session, value: &[u8]) -> Result<()> {
    for (id, family) in &session.families {
        let found = session.db.get_opt(&ReadOptions::default(), family, MARKER)?;
        if found.as_deref() != Some(value) {
            return Err(Error::corruption(format!("a durable write after recovery is not there in family {id}")));
        }
    }
    Ok(())
}
