//! Databases with damaged files: what is read is right or refused, damage is found, and never written again as if it were
//! sound.
//!
//! Samples run by default; `FIRN_DAMAGE_ROUNDS=N` takes N times as many damages per file of the golden databases, and
//! `FIRN_DAMAGE_ALL=1` turns a bit in every byte of every file of the databases made here.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test reads files and fails by panicking")]

mod golden;
mod sweep;

use std::collections::BTreeMap;
use std::path::Path;

use firn_env::{Env, FileSystem, create_dir_all, write_file};
use firndb::options::{ConfigOptions, LoadedOptions, load_latest_options};
use firndb::{ColumnFamilyDescriptor, Db, Error, ErrorKind, ReadOptions, Result};

/// The files of a database by name.
type Files = BTreeMap<String, Vec<u8>>;
/// Entries by column family, families without entries left out.
type Contents = BTreeMap<String, Vec<(Vec<u8>, Vec<u8>)>>;

/// No golden database has more entries, so a scan that gives more runs in a circle.
const MOST_ENTRIES: usize = 200_000;
const DIRECTORY: &str = "/db";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    ReadOnly,
    ReadWrite,
}

fn put_files(fs: &dyn FileSystem, files: &Files) {
    create_dir_all(fs, Path::new(DIRECTORY)).unwrap();
    for (name, bytes) in files {
        write_file(fs, &Path::new(DIRECTORY).join(name), bytes, false).unwrap();
    }
}

fn loaded_options(env: &Env) -> Result<LoadedOptions> {
    let config = ConfigOptions { ignore_unknown_options: true, ..ConfigOptions::default() };
    match load_latest_options(&**env.fs(), Path::new(DIRECTORY), &config) {
        // LevelDB writes none.
        Err(error) if error.is_not_found() => Ok(LoadedOptions::default()),
        other => other,
    }
}

/// Opens the files that `env` holds as a database under `options`, with all its column families.
fn open(env: &Env, options: &LoadedOptions, access: Access) -> Result<Db> {
    let mut db_options = options.db.clone();
    db_options.env = env.clone();
    let families = Db::list_column_families(DIRECTORY, &db_options)?
        .into_iter()
        .map(|name| {
            let family = options.column_family(&name).cloned().unwrap_or_default();
            ColumnFamilyDescriptor::new(name, family)
        })
        .collect();
    match access {
        Access::ReadOnly => Db::open_cf_read_only(DIRECTORY, db_options, families),
        Access::ReadWrite => Db::open_cf(DIRECTORY, db_options, families),
    }
}

/// Reads all of a database by scans, and some of it by lookups.
fn contents_of(db: &Db, is_unchecked: bool) -> Result<Contents> {
    let read = ReadOptions { total_order_seek: true, ..ReadOptions::default() };
    let mut contents = Contents::new();
    for cf in db.column_families() {
        let mut cursor = db.cursor(&read, &cf)?;
        let mut entries = Vec::new();
        cursor.seek_to_first();
        while cursor.valid() {
            entries.push((cursor.key().to_vec(), cursor.value().to_vec()));
            assert!(entries.len() < MOST_ENTRIES, "endless scan");
            cursor.next();
        }
        cursor.status()?;
        for (key, value) in entries.iter().step_by((entries.len() / 50).max(1)) {
            let got = db.get_opt(&read, &cf, key)?;
            // In tables without checksums a filter may be damaged without notice.
            if got.as_deref() != Some(&**value) && !is_unchecked {
                panic!("get of {} gives {got:?} and not what a scan gives", key.escape_ascii());
            }
        }
        if !entries.is_empty() {
            contents.insert(cf.name().to_owned(), entries);
        }
    }
    Ok(contents)
}

/// Opens the files as a database under options read from `options`, the same database undamaged, and reads all of it.
fn read_all(files: &Files, options: &LoadedOptions, access: Access, is_unchecked: bool) -> Result<Contents> {
    let env = Env::memory();
    put_files(&**env.fs(), files);
    let db = open(&env, options, access)?;
    let contents = contents_of(&db, is_unchecked)?;
    // Damage may keep the database from flushing at its close; that is no loss of what the log holds.
    let _ = db.close();
    Ok(contents)
}

enum Damage {
    Cut(usize),
    Flip(usize),
    Zero,
}

impl Damage {
    fn apply(&self, bytes: &[u8]) -> Vec<u8> {
        match *self {
            Self::Cut(at) => bytes[..at].to_vec(),
            Self::Flip(at) => {
                let mut bytes = bytes.to_vec();
                bytes[at] ^= 1 << (at % 8);
                bytes
            }
            Self::Zero => vec![0; bytes.len()],
        }
    }

    /// Where the damage begins.
    fn start(&self) -> usize {
        match *self {
            Self::Cut(at) | Self::Flip(at) => at,
            Self::Zero => 0,
        }
    }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cut(at) => write!(f, "cut to {at} bytes"),
            Self::Flip(at) => write!(f, "bit {} of byte {at} turned", at % 8),
            Self::Zero => f.write_str("zeroed"),
        }
    }
}

fn check_error(error: &Error, context: &str) {
    let expected = [ErrorKind::Corruption, ErrorKind::NotSupported, ErrorKind::InvalidArgument, ErrorKind::IoError];
    assert!(expected.contains(&error.kind()), "{context}: {error}");
}
