//! Checkpoints after a crash.
//!
//! The disk as a crash left it flows in; out comes whether each checkpoint whose call had returned is there, whole, with exactly
//! what the database held then. One whose call had not returned may be missing; if it is there it must be whole too. Each is
//! opened twice on a copy of the disk: for reading only, which must change nothing, and as a database of its own, in the
//! strictest recovery mode, since a checkpoint holds nothing torn.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use firn_env::FileSystem;
use firn_env::crash::{CrashFileSystem, Tree};
use firn_error::{Error, Result};
use firndb::options::WalRecoveryMode;
use firndb::{Db, DbOptions};

use crate::history::{CheckpointMade, History, State};
use crate::recovered;
use crate::run::Session;
use crate::workload::{FamilyId, Setup};
use crate::world::{CHECKPOINTS, environment};

/// A file with its path, without the leading slash.
pub type NamedFile = (String, Arc<Vec<u8>>);

/// Those of the files that belong to checkpoints.
pub fn files(all: &[NamedFile]) -> Vec<&NamedFile> {
    let prefix = CHECKPOINTS.trim_start_matches('/');
    all.iter().filter(|(name, _)| name.starts_with(prefix)).collect()
}

/// The options of a checkpoint's database: its WALs lie beside its tables.
fn options(fs: Arc<dyn FileSystem>, setup: &Setup, seed: u64) -> DbOptions {
    let options = setup.db_options(environment(fs, seed), WalRecoveryMode::AbsoluteConsistency);
    DbOptions { wal_dir: String::new(), create_if_missing: false, ..options }
}

/// Opens the checkpoint at `path` on a copy of `tree` and hands it to `judge`, for reading only and then as a database of its
/// own. It must have exactly the column families that `names` says.
///
/// # Errors
/// What the opens and `judge` find.
pub fn open(
    tree: &Tree,
    setup: &Setup,
    path: &Path,
    names: impl Fn(Vec<String>) -> Result<BTreeMap<FamilyId, String>>,
    judge: impl Fn(&Session) -> Result<()>,
) -> Result<()> {
    let fs = CrashFileSystem::from_image(tree.clone());
    let options = |seed| options(Arc::new(fs.clone()), setup, seed);
    let names = names(Db::list_column_families(path, &options(1))?)?;
    judge(&Session::open_with(setup, &names, |families| Db::open_cf_read_only(path, options(2), families))?)?;
    if fs.operations() > 0 {
        return Err(Error::corruption("opening it for reading changed a file"));
    }
    judge(&Session::open_with(setup, &names, |families| Db::open_cf(path, options(3), families))?)
}

/// The checkpoints of a run, and what of them was looked at already.
pub struct Checkpoints<'a> {
    history: &'a History,
    /// The files of each that were found to be right.
    seen: BTreeMap<usize, Vec<NamedFile>>,
}

impl<'a> Checkpoints<'a> {
    /// None was looked at.
    pub fn new(history: &'a History) -> Self {
        Self { history, seen: BTreeMap::new() }
    }

    /// Looks at all checkpoints that are there after a crash behind `at` operations, unless their files are those that were
    /// looked at last. Returns how many it opened.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&mut self, at: u64, tree: &Tree, files: &[NamedFile]) -> std::result::Result<u64, String> {
        let mut opened = 0;
        for (index, checkpoint) in self.history.checkpoints.iter().enumerate() {
            let prefix = format!("{}/", checkpoint.path.display());
            let prefix = prefix.trim_start_matches('/');
            let own: Vec<NamedFile> = files.iter().filter(|(name, _)| name.starts_with(prefix)).cloned().collect();
            if self.seen.get(&index) == Some(&own) || (own.is_empty() && !checkpoint.made.is_over(at)) {
                continue;
            }
            let checked = self.check_one(checkpoint, tree);
            checked.map_err(|error| format!("{}: {error}", checkpoint.path.display()))?;
            opened += 1;
            self.seen.insert(index, own);
        }
        Ok(opened)
    }

    fn check_one(&self, checkpoint: &CheckpointMade, tree: &Tree) -> Result<()> {
        let mut expected: Vec<&String> = checkpoint.families.values().collect();
        expected.sort();
        let names = |mut found: Vec<String>| {
            found.sort();
            if found.iter().eq(expected.iter().copied()) {
                return Ok(checkpoint.families.clone());
            }
            Err(Error::corruption(format!("families {expected:?} were there, found {found:?}")))
        };
        let state = State { writes: checkpoint.writes, loose: 0 };
        open(tree, &self.history.workload.setup, &checkpoint.path, names, |session| {
            for (family, found) in recovered::fingerprints(session)? {
                if self.history.fingerprint(state, family) != found {
                    return Err(Error::corruption(format!("family {family} is not as after {state:?}")));
                }
            }
            Ok(())
        })
    }
}
