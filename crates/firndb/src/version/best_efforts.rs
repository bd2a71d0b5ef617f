//! Best-efforts recovery: the newest state that a MANIFEST tells of and whose files are all there.
//!
//! The edits of a MANIFEST and a way to look for files flow in; edits flow out that lead, for every column family, to the
//! last state in which none of its files is missing (`docs/format/manifest.md`, Best-efforts recovery). Numbers that concern
//! the whole database are kept as they are. Always true here: what comes out adds only files that are there; from the first
//! atomic group on, all column families stand at one and the same point.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use firn_env::FileSystem;
use firn_error::Result;
use firn_format::filename::{self, FileKind};
use firn_format::key::FileNumber;
use firn_format::version_edit::{DEFAULT_COLUMN_FAMILY_ID, DEFAULT_COLUMN_FAMILY_NAME, EditKind, NewFile, VersionEdit};

/// The MANIFESTs in a directory that hold anything, newest first.
///
/// # Errors
/// The file system's; a missing directory has none.
pub fn manifests(fs: &dyn FileSystem, db_path: &Path) -> Result<Vec<FileNumber>> {
    let names = match fs.children(db_path) {
        Err(error) if error.is_path_not_found() => return Ok(Vec::new()),
        names => names?,
    };
    let mut numbers = Vec::new();
    for name in names {
        let manifest = filename::parse(&name).filter(|parsed| parsed.kind == FileKind::Manifest);
        if let Some(parsed) = manifest
            && fs.file_size(&db_path.join(&name))? > 0
        {
            numbers.push(parsed.number);
        }
    }
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    Ok(numbers)
}

/// Looks for a file of the column family of that name.
type IsThere<'a> = dyn FnMut(&str, &NewFile) -> Result<bool> + 'a;

/// A state to go back to.
#[derive(Clone, Debug)]
struct Candidate {
    /// The last edit that counts.
    last_edit: usize,
    /// Files that are left out all the same: the newest of level 0.
    left_out: BTreeSet<FileNumber>,
}

/// A column family from its creation to its end.
#[derive(Debug, Default)]
struct Life {
    name: String,
    /// Files and their levels.
    live: BTreeMap<FileNumber, (u32, NewFile)>,
    missing: BTreeSet<FileNumber>,
    in_atomic_group: bool,
    dropped: bool,
    candidate: Option<Candidate>,
}

impl Life {
    fn apply(&mut self, edit: &VersionEdit, is_there: &mut IsThere<'_>) -> Result<()> {
        for (_, number) in &edit.deleted_files {
            self.live.remove(number);
            self.missing.remove(number);
        }
        for (level, file) in &edit.new_files {
            if !is_there(&self.name, file)? {
                self.missing.insert(file.number);
            }
            self.live.insert(file.number, (*level, file.clone()));
        }
        Ok(())
    }

    /// Which files must be left out of the present state, if it will do.
    fn acceptable(&self) -> Option<BTreeSet<FileNumber>> {
        if self.missing.is_empty() || self.in_atomic_group {
            return self.missing.is_empty().then(BTreeSet::new);
        }
        let mut level_0: Vec<&NewFile> =
            self.live.values().filter(|(level, _)| *level == 0).map(|(_, file)| file).collect();
        let age = |file: &NewFile| (file.epoch_number, file.largest_sequence, file.smallest_sequence, file.number);
        level_0.sort_unstable_by_key(|file| std::cmp::Reverse(age(file)));
        let newest_lost = level_0.iter().take_while(|file| self.missing.contains(&file.number)).count();
        (newest_lost == self.missing.len()).then(|| self.missing.clone())
    }
}

/// The edits that lead to the newest complete state, and what was given up, for the info log.
///
/// # Errors
/// Those of looking for files.
pub(super) fn complete_edits(
    mut edits: Vec<VersionEdit>,
    is_there: &mut IsThere<'_>,
) -> Result<(Vec<VersionEdit>, Vec<String>)> {
    let mut lives = vec![Life { name: DEFAULT_COLUMN_FAMILY_NAME.to_owned(), ..Life::default() }];
    let mut current = BTreeMap::from([(DEFAULT_COLUMN_FAMILY_ID, 0)]);
    // The life that each edit is about.
    let mut life_of: Vec<Option<usize>> = Vec::with_capacity(edits.len());
    let (mut log_seen, mut next_file_seen, mut sequence_seen, mut groups_seen) = (false, false, false, false);
    let mut whole = 0;
    for (at, edit) in edits.iter().enumerate() {
        let id = edit.column_family;
        match edit.kind() {
            EditKind::ColumnFamilyAdd => {
                current.insert(id, lives.len());
                let name = edit.column_family_add.clone().unwrap_or_default();
                lives.push(Life { name, ..Life::default() });
            }
            EditKind::ColumnFamilyDrop => {
                if let Some(life) = current.remove(&id).and_then(|life| lives.get_mut(life)) {
                    life.dropped = true;
                }
            }
            EditKind::Ordinary | EditKind::WalAddition | EditKind::WalDeletion => {}
        }
        let about = current.get(&id).copied().filter(|_| edit.kind() == EditKind::Ordinary);
        life_of.push(about);
        if let Some(life) = about.and_then(|life| lives.get_mut(life)) {
            life.apply(edit, is_there)?;
            life.in_atomic_group |= edit.remaining_entries.is_some();
        }
        log_seen |= edit.log_number.is_some();
        next_file_seen |= edit.next_file_number.is_some();
        sequence_seen |= edit.last_sequence.is_some();
        groups_seen |= edit.remaining_entries.is_some();
        if edit.remaining_entries.is_some_and(|remaining| remaining > 0) {
            continue;
        }
        whole = at + 1;
        if log_seen && next_file_seen && sequence_seen {
            note_candidates(&mut lives, at, groups_seen);
        }
    }
    // A group that is cut off never happened.
    edits.truncate(whole);
    let warnings = lives.iter().filter_map(|life| given_up(life, whole)).collect();
    for (at, (edit, about)) in edits.iter_mut().zip(&life_of).enumerate() {
        let Some(life) = about.and_then(|life| lives.get(life)).filter(|life| !life.dropped) else { continue };
        match &life.candidate {
            Some(candidate) if at <= candidate.last_edit => {
                edit.new_files.retain(|(_, file)| !candidate.left_out.contains(&file.number));
            }
            _ => {
                edit.new_files.clear();
                edit.deleted_files.clear();
                edit.compact_cursors.clear();
                edit.blob_file_additions.clear();
                edit.blob_file_garbages.clear();
            }
        }
    }
    Ok((edits, warnings))
}

/// Remembers the present state of the families where it is acceptable; `together`: of all of them or of none.
fn note_candidates(lives: &mut [Life], last_edit: usize, together: bool) {
    let states: Vec<Option<BTreeSet<FileNumber>>> = lives.iter().map(Life::acceptable).collect();
    if together && lives.iter().zip(&states).any(|(life, state)| !life.dropped && state.is_none()) {
        return;
    }
    for (life, state) in lives.iter_mut().zip(states).filter(|(life, _)| !life.dropped) {
        if let Some(left_out) = state {
            life.candidate = Some(Candidate { last_edit, left_out });
        }
    }
}

fn given_up(life: &Life, edits: usize) -> Option<String> {
    let name = &life.name;
    match &life.candidate {
        _ if life.dropped => None,
        None => Some(format!("[{name}] no state has all of its files: it is empty now")),
        Some(candidate) if candidate.last_edit + 1 < edits || !candidate.left_out.is_empty() => Some(format!(
            "[{name}] recovered to edit {} of {edits}, without {} files of level 0",
            candidate.last_edit + 1,
            candidate.left_out.len()
        )),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firn_format::key::SequenceNumber;

    fn file(number: u64) -> NewFile {
        NewFile {
            number: FileNumber(number),
            epoch_number: number,
            largest_sequence: SequenceNumber(number),
            ..NewFile::default()
        }
    }

    fn edit(family: u32, deleted: &[(u32, u64)], added: &[(u32, u64)]) -> VersionEdit {
        VersionEdit {
            column_family: family,
            deleted_files: deleted.iter().map(|(level, number)| (*level, FileNumber(*number))).collect(),
            new_files: added.iter().map(|(level, number)| (*level, file(*number))).collect(),
            ..VersionEdit::default()
        }
    }

    fn start() -> VersionEdit {
        VersionEdit {
            log_number: Some(FileNumber(1)),
            next_file_number: Some(FileNumber(2)),
            last_sequence: Some(SequenceNumber(0)),
            ..VersionEdit::default()
        }
    }

    fn family(id: u32) -> VersionEdit {
        VersionEdit { column_family: id, column_family_add: Some(format!("cf{id}")), ..VersionEdit::default() }
    }

    /// The files that are left, by family.
    fn left(edits: &[VersionEdit], lost: &[u64]) -> Vec<(u32, u64)> {
        let mut is_there = |_: &str, file: &NewFile| Ok(!lost.contains(&file.number.get()));
        let (edits, warnings) = complete_edits(edits.to_vec(), &mut is_there).unwrap();
        assert_eq!(warnings.is_empty(), lost.is_empty());
        let mut files = BTreeSet::new();
        for edit in &edits {
            for (_, number) in &edit.deleted_files {
                files.remove(&(edit.column_family, number.get()));
            }
            files.extend(edit.new_files.iter().map(|(_, file)| (edit.column_family, file.number.get())));
        }
        files.into_iter().collect()
    }

    #[test]
    fn goes_back_to_the_last_state_whose_files_are_all_there() {
        let edits = [
            start(),
            edit(0, &[], &[(0, 10)]),
            edit(0, &[], &[(0, 11)]),
            edit(0, &[(0, 10), (0, 11)], &[(1, 12)]),
            edit(0, &[], &[(0, 13)]),
        ];
        assert_eq!(left(&edits, &[]), [(0, 12), (0, 13)]);
        // The newest of level 0 is left out; a lost file that was deleted later does not matter.
        assert_eq!(left(&edits, &[13, 10]), [(0, 12)]);
        assert_eq!(left(&edits, &[12]), [(0, 10), (0, 11)]);
        assert_eq!(left(&edits, &[12, 11]), [(0, 10)]);
        assert_eq!(left(&edits, &[12, 10]), []);
        // Families stand at points of their own.
        let two = [&edits[..], &[family(1), edit(1, &[], &[(0, 20)])]].concat();
        assert_eq!(left(&two, &[12]), [(0, 10), (0, 11), (1, 20)]);
    }

    #[test]
    fn atomic_groups_go_back_together() {
        let grouped = |remaining, edit: VersionEdit| VersionEdit { remaining_entries: Some(remaining), ..edit };
        let edits = [
            start(),
            family(1),
            edit(0, &[], &[(0, 10)]),
            grouped(1, edit(0, &[], &[(0, 11)])),
            grouped(0, edit(1, &[], &[(0, 21)])),
            edit(1, &[], &[(0, 22)]),
        ];
        assert_eq!(left(&edits, &[]), [(0, 10), (0, 11), (1, 21), (1, 22)]);
        assert_eq!(left(&edits, &[21]), [(0, 10)]);
        assert_eq!(left(&edits, &[22]), [(0, 10), (0, 11), (1, 21)]);
        // What was cut off in the middle of the group is as if it had never been.
        let cut = &edits[..4];
        let (kept, _) = complete_edits(cut.to_vec(), &mut |_, _| Ok(true)).unwrap();
        assert_eq!(kept.len(), 3);
    }
}
