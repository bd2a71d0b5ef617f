//! Whether WALs can be turned into tables, which a repair has to know before it changes anything.
//!
//! WALs flow in, an error flows out for what is sound and needs what is not there, and word of what no family can take. Damage is passed over, as the conversion
//! passes over it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use firn_error::{Error, Result};
use firn_format::key::FileNumber;
use firn_format::log::RecoveryMode;

use super::Repair;
use crate::db::insert::{FindRules, RecordRules};
use crate::db::recovery::{PreparedTransactions, check_wal_batch, refuse_undecided};
use crate::write::replay::{ReplayOptions, WalReplay};

/// The families that need what a WAL holds.
struct Families<'a, 'b> {
    repair: &'a Repair<'b>,
    wal: FileNumber,
    /// Ids that no file has a name for.
    nameless: &'a RefCell<BTreeSet<u32>>,
}

impl FindRules for Families<'_, '_> {
    fn rules(&self, id: u32) -> Option<RecordRules<'_>> {
        let family = self.repair.families.get(&id);
        if family.is_none() {
            self.nameless.borrow_mut().insert(id);
        }
        let family = family.filter(|_| self.repair.log_number(id) <= self.wal)?;
        Some(RecordRules {
            name: &family.name,
            comparator: &family.order,
            can_merge: family.options.merge_operator.is_some(),
        })
    }
}

/// Reads all WALs, and gives an error for each of them that has records of families whose names are lost.
///
/// # Errors
/// What the open refuses that turns them into tables, with file and offset.
pub(super) fn check(repair: &Repair<'_>, wals: &BTreeMap<FileNumber, PathBuf>) -> Result<Vec<Error>> {
    let fs = repair.fs();
    let mut prepared = PreparedTransactions::new();
    let mode = RecoveryMode::SkipAnyCorruptedRecords;
    let mut replay = WalReplay::new(ReplayOptions { mode, ..ReplayOptions::default() });
    let mut damages = Vec::new();
    for (number, path) in wals {
        let nameless = RefCell::default();
        let families = Families { repair, wal: *number, nameless: &nameless };
        replay.replay(&*fs, path, *number, &mut |batch| {
            if !batch.timestamp_sizes.is_empty() {
                return Ok(Err(Error::not_supported("WAL records with user-defined timestamps")));
            }
            Ok(check_wal_batch(batch.data, batch.sequence, *number, &families, &mut prepared))
        })?;
        // A whole MANIFEST names all families, and others were dropped.
        if repair.old.whole_and_current.is_none() {
            damages.extend(nameless.into_inner().into_iter().map(|id| {
                Error::corruption(format!("records of column family {id}, whose name is lost")).with_file(path)
            }));
        }
    }
    if !repair.options.allow_2pc {
        refuse_undecided(&prepared)?;
    }
    Ok(damages)
}
