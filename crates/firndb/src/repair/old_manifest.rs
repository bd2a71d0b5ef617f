//! What the old MANIFEST still tells.
//!
//! Edits flow in until the first damage; names of families, places of files, and how far WALs are in tables flow out. Always
//! true here: all of it is advice. A repair works without a MANIFEST, as one that lies is no worse than none.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use firn_env::FileSystem;
use firn_error::{Error, ErrorKind, Result};
use firn_format::key::{FileNumber, SequenceNumber};
use firn_format::version_edit::{EditKind, VersionEdit};

use crate::version::{read_current, read_manifest};

/// Where a file stood.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) family: u32,
    pub(super) level: u32,
    pub(super) epoch_number: u64,
    pub(super) size_bytes: u64,
}

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct OldManifest {
    pub(super) db_id: Option<String>,
    pub(super) families: BTreeMap<u32, String>,
    pub(super) comparators: BTreeMap<u32, String>,
    pub(super) log_numbers: BTreeMap<u32, FileNumber>,
    pub(super) places: BTreeMap<FileNumber, Place>,
    pub(super) last_sequence: SequenceNumber,
    /// The number of the MANIFEST, if `CURRENT` names it and nothing is wrong with it.
    pub(super) whole_and_current: Option<FileNumber>,
    /// What ended the reading early.
    pub(super) damage: Option<Error>,
}

impl OldManifest {
    /// Reads the MANIFEST that `CURRENT` names, else the one with the greatest number; `unfinished` is of a repair that was
    /// interrupted, perhaps while it wrote it.
    ///
    /// # Errors
    /// `IoError` for a file that is there and cannot be read: that is no damage.
    pub(super) fn read(
        fs: &dyn FileSystem,
        db_dir: &Path,
        manifests: &BTreeMap<FileNumber, PathBuf>,
        unfinished: Option<FileNumber>,
    ) -> Result<Self> {
        let mut old = Self::default();
        let is_fault = |error: &Error| error.kind() == ErrorKind::IoError && !error.is_path_not_found();
        let current = read_current(fs, db_dir);
        if let Some(error) = current.as_ref().err().filter(|error| is_fault(error)) {
            return Err(error.clone());
        }
        let named = current.as_ref().ok().and_then(|number| manifests.get(number));
        old.damage = current.as_ref().err().cloned();
        let finished = manifests.iter().rev().find(|(number, _)| Some(**number) != unfinished).map(|(_, path)| path);
        if let Some(path) = named.or(finished).or_else(|| manifests.values().next_back()) {
            let result = read_manifest(fs, path, |edit, _| {
                old.take(edit);
                Ok(())
            });
            if let Some(error) = result.as_ref().err().filter(|error| is_fault(error)) {
                return Err(error.clone());
            }
            old.damage = result.err().or(old.damage.take());
            old.whole_and_current = current.ok().filter(|_| named.is_some() && old.damage.is_none());
        }
        Ok(old)
    }

    fn take(&mut self, edit: VersionEdit) {
        let id = edit.column_family;
        if let Some(comparator) = &edit.comparator {
            self.comparators.insert(id, comparator.clone());
        }
        if let Some(number) = edit.log_number {
            let known = self.log_numbers.entry(id).or_default();
            *known = (*known).max(number);
        }
        self.last_sequence = self.last_sequence.max(edit.last_sequence.unwrap_or_default());
        if edit.db_id.is_some() {
            self.db_id.clone_from(&edit.db_id);
        }
        match edit.kind() {
            EditKind::ColumnFamilyAdd => {
                self.families.insert(id, edit.column_family_add.unwrap_or_default());
            }
            EditKind::ColumnFamilyDrop => {
                self.families.remove(&id);
                self.comparators.remove(&id);
                self.log_numbers.remove(&id);
            }
            EditKind::WalAddition | EditKind::WalDeletion => {}
            EditKind::Ordinary => {
                for (_, number) in &edit.deleted_files {
                    self.places.remove(number);
                }
                for (level, file) in edit.new_files {
                    let place =
                        Place { family: id, level, epoch_number: file.epoch_number, size_bytes: file.file_size };
                    self.places.insert(file.number, place);
                }
            }
        }
    }
}
