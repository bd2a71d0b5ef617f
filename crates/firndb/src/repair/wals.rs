//! Whether WALs can be turned into tables, which a repair has to know before it changes anything.
//!
//! WALs flow in, an error flows out for what is sound and needs what is not there. Damage is passed over, as the conversion
//! passes over it.

use std::collections::BTreeMap;
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
}

impl FindRules for Families<'_, '_> {
    fn rules(&self, id: u32) -> Option<RecordRules<'_>> {
        let family = self.repair.families.get(&id).filter(|_| self.repair.log_number(id) <= self.wal)?;
        Some(RecordRules {
            name: &family.name,
            comparator: &family.order,
            can_merge: family.options.merge_operator.is_some(),
        })
    }
}

/// Reads all WALs.
///
/// # Errors
/// What the open refuses that turns them into tables, with file and offset.
pub(super) fn check(repair: &Repair<'_>, wals: &BTreeMap<FileNumber, PathBuf>) -> Result<()> {
    let fs = repair.fs();
    let mut prepared = PreparedTransactions::new();
    let mode = RecoveryMode::SkipAnyCorruptedRecords;
    let mut replay = WalReplay::new(ReplayOptions { mode, ..ReplayOptions::default() });
    for (number, path) in wals {
        let families = Families { repair, wal: *number };
        replay.replay(&*fs, path, *number, &mut |batch| {
            if !batch.timestamp_sizes.is_empty() {
                return Ok(Err(Error::not_supported("WAL records with user-defined timestamps")));
            }
            Ok(check_wal_batch(batch.data, batch.sequence, *number, &families, &mut prepared))
        })?;
    }
    if repair.options.allow_2pc { Ok(()) } else { refuse_undecided(&prepared) }
}
