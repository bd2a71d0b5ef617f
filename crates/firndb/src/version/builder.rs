//! From one version to the next: [`VersionBuilder`] applies edits and checks that the result is a tree.
//!
//! Edits are applied one by one; only the difference to the base version is kept until [`finish`](VersionBuilder::finish)
//! merges both. An edit that contradicts the state it is applied to (deletes a file that is not there, adds one that is)
//! is `Corruption`, and so is a result that breaks the order of a level.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use firn_format::comparator::InternalKeyComparator;
use firn_format::key::{FileNumber, InternalKey};
use firn_format::version_edit::{BlobFileAddition, BlobFileGarbage, NewFile, VersionEdit};

use super::version::{StatTotals, VersionParts};
use super::{BlobFileMetaData, FileMetaData, FileStats, SharedBlobFile, Version};
use firn_error::{Error, Result};

/// Loads the numbers that a table's properties tell. Answering `None` is allowed: the file then counts with its size alone.
pub trait FileStatsLoader: Sync {
    /// The numbers of `file`.
    fn load(&self, file: &FileMetaData) -> Option<FileStats>;
}

/// Loads nothing.
pub struct NoFileStats;

impl FileStatsLoader for NoFileStats {
    fn load(&self, _file: &FileMetaData) -> Option<FileStats> {
        None
    }
}

/// Collects edits on top of a base version.
pub struct VersionBuilder {
    base: Arc<Version>,
    /// Where every file of the state reached so far stands; levels at or beyond `num_levels` included.
    places: HashMap<FileNumber, usize>,
    /// Files of the state reached so far that the base does not have at that place, not yet shared.
    added: BTreeMap<FileNumber, (usize, FileMetaData)>,
    /// Files of the base that are gone from their place.
    removed: HashMap<FileNumber, usize>,
    blob_files: BTreeMap<FileNumber, BlobFileMetaData>,
    compact_cursors: Vec<Option<InternalKey>>,
}

fn refuse(message: String) -> Error {
    Error::corruption(format!("VersionBuilder: {message}"))
}

impl VersionBuilder {
    /// A builder that starts from `base`.
    pub fn new(base: Arc<Version>) -> Self {
        let places = base.all_files().map(|(level, file)| (file.number, level)).collect();
        let blob_files = base.blob_files().iter().map(|(number, file)| (*number, (**file).clone())).collect();
        let compact_cursors = (0..base.num_levels()).map(|level| base.compact_cursor(level).cloned()).collect();
        Self { base, places, added: BTreeMap::new(), removed: HashMap::new(), blob_files, compact_cursors }
    }

    /// Applies the files, blob files and cursors of an ordinary edit.
    ///
    /// # Errors
    /// `Corruption` if the edit contradicts the state. The builder must not be used after that.
    pub fn apply(&mut self, edit: &VersionEdit) -> Result<()> {
        for addition in &edit.blob_file_additions {
            self.add_blob_file(addition)?;
        }
        for garbage in &edit.blob_file_garbages {
            self.add_blob_garbage(garbage)?;
        }
        // Deletions first: an edit that deletes a file on one level and adds it on another moves it.
        let mut moved = HashMap::new();
        for (level, number) in &edit.deleted_files {
            if let Some(handle) = self.delete_file(*level as usize, *number)? {
                moved.insert(*number, handle);
            }
        }
        for (level, file) in &edit.new_files {
            self.add_file(*level as usize, file, moved.remove(&file.number))?;
        }
        for (level, key) in &edit.compact_cursors {
            // A cursor of a level that is not configured is dropped.
            if let Some(cursor) = self.compact_cursors.get_mut(*level as usize) {
                *cursor = Some(key.clone());
            }
        }
        Ok(())
    }

    /// Whether a file stands on a level that is not configured.
    pub fn has_files_beyond_levels(&self) -> bool {
        let num_levels = self.base.num_levels();
        self.places.values().any(|level| *level >= num_levels)
    }

    fn delete_file(&mut self, level: usize, number: FileNumber) -> Result<Option<Arc<super::FileHandle>>> {
        match self.places.get(&number) {
            Some(place) if *place == level => {}
            Some(place) => {
                return Err(refuse(format!(
                    "Cannot delete table file #{number} from level {level} since it is on level {place}"
                )));
            }
            None => {
                return Err(refuse(format!(
                    "Cannot delete table file #{number} from level {level} since it is not in the LSM tree"
                )));
            }
        }
        self.places.remove(&number);
        let (oldest_blob, handle) = match self.added.remove(&number) {
            Some((_, file)) => (file.oldest_blob_file_number, Arc::clone(file.handle())),
            None => {
                self.removed.insert(number, level);
                match self.base.files(level).iter().find(|file| file.number == number) {
                    Some(file) => (file.oldest_blob_file_number, Arc::clone(file.handle())),
                    None => return Ok(None),
                }
            }
        };
        if let Some(blob) = self.blob_files.get_mut(&oldest_blob) {
            blob.linked_tables.remove(&number);
        }
        Ok(Some(handle))
    }

    fn add_file(&mut self, level: usize, file: &NewFile, handle: Option<Arc<super::FileHandle>>) -> Result<()> {
        let number = file.number;
        if let Some(place) = self.places.get(&number) {
            return Err(refuse(format!(
                "Cannot add table file #{number} to level {level} since it is already in the LSM tree on level {place}"
            )));
        }
        self.places.insert(number, level);
        let mut meta = match handle {
            Some(handle) => FileMetaData::with_handle(file.clone(), handle),
            None => FileMetaData::of_column_family(file.clone(), self.base.column_family()),
        };
        meta.set_level(i32::try_from(level).unwrap_or(-1));
        if let Some(blob) = self.blob_files.get_mut(&file.oldest_blob_file_number) {
            blob.linked_tables.insert(number);
        }
        self.added.insert(number, (level, meta));
        Ok(())
    }

    fn add_blob_file(&mut self, addition: &BlobFileAddition) -> Result<()> {
        let number = addition.number;
        if self.blob_files.contains_key(&number) {
            return Err(refuse(format!("Blob file #{number} already added")));
        }
        let shared = Arc::new(SharedBlobFile::new(addition.clone()));
        let meta =
            BlobFileMetaData { shared, linked_tables: BTreeSet::new(), garbage_blob_count: 0, garbage_blob_bytes: 0 };
        self.blob_files.insert(number, meta);
        Ok(())
    }

    fn add_blob_garbage(&mut self, garbage: &BlobFileGarbage) -> Result<()> {
        let number = garbage.number;
        let Some(blob) = self.blob_files.get_mut(&number) else {
            return Err(refuse(format!("Blob file #{number} not found")));
        };
        let overflow = || refuse(format!("Garbage overflow for blob file #{number}"));
        let total = blob.shared.addition();
        let count = blob.garbage_blob_count.checked_add(garbage.garbage_blob_count).ok_or_else(overflow)?;
        let bytes = blob.garbage_blob_bytes.checked_add(garbage.garbage_blob_bytes).ok_or_else(overflow)?;
        if count > total.total_blob_count || bytes > total.total_blob_bytes {
            return Err(overflow());
        }
        blob.garbage_blob_count = count;
        blob.garbage_blob_bytes = bytes;
        Ok(())
    }

    /// The version that the edits lead to, numbered `number`.
    ///
    /// # Errors
    /// `InvalidArgument` if a file stands on a level that is not configured, `Corruption` if the result breaks the order of a
    /// level and `checks` asks for that to be found.
    pub fn finish(mut self, number: u64, stats: &dyn FileStatsLoader, checks: ConsistencyChecks) -> Result<Version> {
        if self.has_files_beyond_levels() {
            return Err(Error::invalid_argument("db has more levels than options.num_levels"));
        }
        let order = self.base.order().clone();
        let totals = self.load_stats(stats);
        let mut levels: Vec<Vec<Arc<FileMetaData>>> = (0..self.base.num_levels())
            .map(|level| {
                let kept = self.base.files(level).iter().filter(|file| !self.removed.contains_key(&file.number));
                kept.cloned().collect()
            })
            .collect();
        for (_, (level, file)) in std::mem::take(&mut self.added) {
            if let Some(files) = levels.get_mut(level) {
                files.push(Arc::new(file));
            }
        }
        sort_levels(&mut levels, &order);
        if checks == ConsistencyChecks::Force {
            check_levels(&levels, &order)
                .and_then(|()| check_blob_files(&levels, &self.blob_files))
                .map_err(|error| error.with_context("force_consistency_checks"))?;
        }
        let blob_files = live_blob_files(std::mem::take(&mut self.blob_files));
        Ok(Version::new(VersionParts {
            column_family: self.base.column_family(),
            number,
            order,
            levels,
            compact_cursors: std::mem::take(&mut self.compact_cursors),
            blob_files,
            totals,
        }))
    }

    /// Adds the new files to the running totals and computes what they weigh for compaction.
    fn load_stats(&mut self, loader: &dyn FileStatsLoader) -> StatTotals {
        let mut totals = *self.base.totals();
        for (_, file) in self.added.values() {
            if file.stats().is_none()
                && let Some(stats) = loader.load(file)
            {
                file.handle().set_stats(stats);
            }
            if let Some(stats) = file.stats() {
                totals.add(file.file_size, stats);
            }
        }
        let average_value_size = totals.average_value_size();
        for (_, file) in self.added.values_mut() {
            let compensated = compensated_size(file, average_value_size);
            file.set_compensated_file_size(compensated);
        }
        totals
    }
}

/// Bytes that a file weighs for compaction: where at least half of its entries are point deletions, each one beyond half
/// counts as twice an average value, since compacting it frees space further down.
fn compensated_size(file: &FileMetaData, average_value_size: u64) -> u64 {
    let deletions = file.stats().map_or(0, |stats| {
        let doubled = stats.num_deletions.saturating_sub(stats.num_range_deletions).saturating_mul(2);
        match doubled.checked_sub(stats.num_entries) {
            Some(beyond) => beyond.saturating_mul(average_value_size).saturating_mul(2),
            None => 0,
        }
    });
    file.file_size.saturating_add(deletions).saturating_add(file.compensated_range_deletion_size)
}

/// Whether a finished version is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsistencyChecks {
    /// Check, and answer violations with `Corruption` (`force_consistency_checks`, the default).
    Force,
    /// Trust the MANIFEST.
    Skip,
}

/// Whether all of `files` have an epoch number, so that it decides their order.
fn all_have_epochs(files: &[Arc<FileMetaData>]) -> bool {
    files.iter().all(|file| file.epoch_number != 0)
}

/// The order of level 0 by sequence numbers: newest first.
fn newest_first_by_sequence(a: &FileMetaData, b: &FileMetaData) -> Ordering {
    // LevelDB's records tell no sequence numbers; among them the file number decides, and any other file is newer.
    let key = |file: &FileMetaData| {
        let known = !file.has_unknown_sequences();
        (file.largest_sequence, if known { file.smallest_sequence.0 } else { 0 }, file.number)
    };
    key(b).cmp(&key(a))
}

/// The order of level 0: newest first, by epoch where all files have one.
pub(crate) fn sort_level_0(files: &mut [Arc<FileMetaData>]) {
    if all_have_epochs(files) {
        files.sort_by(|a, b| b.epoch_number.cmp(&a.epoch_number).then_with(|| newest_first_by_sequence(a, b)));
    } else {
        files.sort_by(|a, b| newest_first_by_sequence(a, b));
    }
}

fn sort_levels(levels: &mut [Vec<Arc<FileMetaData>>], order: &InternalKeyComparator) {
    let Some((level_0, deeper)) = levels.split_first_mut() else { return };
    sort_level_0(level_0);
    for files in deeper {
        files.sort_by(|a, b| {
            order.compare(a.smallest.encoded(), b.smallest.encoded()).then_with(|| a.number.cmp(&b.number))
        });
    }
}

fn debug_key(key: &InternalKey) -> String {
    format!(
        "'{}' seq:{}, type:{}",
        key.user_key().escape_ascii(),
        key.sequence(),
        firn_format::key::extract_footer(key.encoded()) as u8
    )
}

fn check_levels(levels: &[Vec<Arc<FileMetaData>>], order: &InternalKeyComparator) -> Result<()> {
    let Some((level_0, deeper)) = levels.split_first() else { return Ok(()) };
    let by_epoch = all_have_epochs(level_0);
    for (a, b) in level_0.iter().zip(level_0.iter().skip(1)) {
        if by_epoch { check_epoch_order(a, b, order)? } else { check_sequence_order(a, b)? }
    }
    for files in deeper {
        for (a, b) in files.iter().zip(files.iter().skip(1)) {
            if order.compare(a.smallest.encoded(), b.smallest.encoded()) == Ordering::Greater {
                return Err(refuse(format!("Ln files are not sorted properly: files #{}, #{}", a.number, b.number)));
            }
            if order.compare(a.largest.encoded(), b.smallest.encoded()) != Ordering::Less {
                return Err(refuse(format!(
                    "Ln has overlapping ranges: file #{} largest key: {} vs. file #{} smallest key: {}",
                    a.number,
                    debug_key(&a.largest),
                    b.number,
                    debug_key(&b.smallest)
                )));
            }
        }
    }
    for file in levels.iter().flatten() {
        if order.compare(file.smallest.encoded(), file.largest.encoded()) == Ordering::Greater {
            return Err(refuse(format!(
                "file #{} ends before it begins: smallest key: {}, largest key: {}",
                file.number,
                debug_key(&file.smallest),
                debug_key(&file.largest)
            )));
        }
    }
    Ok(())
}

/// `a` stands before `b` on level 0, and all files there have epochs.
fn check_epoch_order(a: &FileMetaData, b: &FileMetaData, order: &InternalKeyComparator) -> Result<()> {
    if a.epoch_number < b.epoch_number {
        return Err(refuse(format!(
            "L0 files are not sorted properly: files #{} with epoch number {}, #{} with epoch number {}",
            a.number, a.epoch_number, b.number, b.epoch_number
        )));
    }
    let disjoint = order.compare(a.largest.encoded(), b.smallest.encoded()) == Ordering::Less
        || order.compare(b.largest.encoded(), a.smallest.encoded()) == Ordering::Less;
    if a.epoch_number == b.epoch_number && !disjoint {
        let describe = |file: &FileMetaData| {
            format!(
                "#{} , smallest key: {} , largest key: {} , epoch number: {}",
                file.number,
                debug_key(&file.smallest),
                debug_key(&file.largest),
                file.epoch_number
            )
        };
        return Err(refuse(format!(
            "L0 files of same epoch number but overlapping range {} vs. file {}",
            describe(a),
            describe(b)
        )));
    }
    Ok(())
}

/// `a` stands before `b` on level 0, and sequence numbers decide.
fn check_sequence_order(a: &FileMetaData, b: &FileMetaData) -> Result<()> {
    // A file with one sequence number may have been ingested: it must be older than everything in the file before it.
    let in_order = a.has_unknown_sequences()
        || b.has_unknown_sequences()
        || if b.smallest_sequence == b.largest_sequence {
            b.largest_sequence < a.largest_sequence || b.largest_sequence.0 == 0
        } else {
            a.smallest_sequence > b.smallest_sequence
        };
    if in_order {
        return Ok(());
    }
    Err(refuse(format!(
        "L0 files are not sorted properly: files #{} with seqnos (largest, smallest) {} , {}, \
         #{} with seqnos (largest, smallest) {} , {}",
        a.number, a.largest_sequence, a.smallest_sequence, b.number, b.largest_sequence, b.smallest_sequence
    )))
}

fn check_blob_files(
    levels: &[Vec<Arc<FileMetaData>>],
    blob_files: &BTreeMap<FileNumber, BlobFileMetaData>,
) -> Result<()> {
    let mut links: HashMap<FileNumber, BTreeSet<FileNumber>> = HashMap::new();
    for file in levels.iter().flatten().filter(|file| file.oldest_blob_file_number.0 != 0) {
        links.entry(file.oldest_blob_file_number).or_default().insert(file.number);
    }
    let none = BTreeSet::new();
    for (number, blob) in blob_files {
        if links.get(number).unwrap_or(&none) != &blob.linked_tables {
            return Err(refuse(format!("Links are inconsistent between table files and blob file #{number}")));
        }
        if !blob.linked_tables.is_empty() && blob.garbage_blob_count >= blob.shared.addition().total_blob_count {
            return Err(refuse(format!("Blob file #{number} consists entirely of garbage")));
        }
    }
    Ok(())
}

/// The blob files that belong to a version: from the first one with a linked table on, all that hold more than garbage.
fn live_blob_files(blob_files: BTreeMap<FileNumber, BlobFileMetaData>) -> BTreeMap<FileNumber, Arc<BlobFileMetaData>> {
    let Some(first) = blob_files.iter().find(|(_, blob)| !blob.linked_tables.is_empty()).map(|(number, _)| *number)
    else {
        return BTreeMap::new();
    };
    blob_files
        .into_iter()
        .filter(|(number, blob)| {
            let only_garbage = blob.garbage_blob_count >= blob.shared.addition().total_blob_count;
            *number >= first && !(blob.linked_tables.is_empty() && only_garbage)
        })
        .map(|(number, blob)| (number, Arc::new(blob)))
        .collect()
}

/// How a recovered version got its epoch numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveredEpochs {
    /// The next epoch number to hand out.
    pub next: u64,
    /// Whether some file had none, so that all were assigned anew from the sequence numbers.
    pub inferred: bool,
}

/// Gives every file an epoch number if some have none: one per deeper level from the last up, then one per file of level 0
/// from the oldest to the newest. `reserved` is the greatest epoch that may not be handed out.
pub(crate) fn recover_epochs(version: Version, reserved: u64) -> (Version, RecoveredEpochs) {
    let mut next = reserved + 1;
    if version.levels().iter().all(|files| all_have_epochs(files)) {
        let greatest = version.all_files().map(|(_, file)| file.epoch_number).max().unwrap_or(0);
        return (version, RecoveredEpochs { next: next.max(greatest.saturating_add(1)), inferred: false });
    }
    let mut parts = version.into_parts();
    let with_epoch = |file: &Arc<FileMetaData>, epoch: u64| {
        let mut renewed = FileMetaData::with_handle(file.to_new_file(), Arc::clone(file.handle()));
        renewed.set_compensated_file_size(file.compensated_file_size());
        renewed.set_epoch_number(epoch);
        renewed.set_level(file.level());
        Arc::new(renewed)
    };
    let mut sequence_order: Vec<Arc<FileMetaData>> = Vec::new();
    for (level, files) in parts.levels.iter_mut().enumerate().rev() {
        if level == 0 {
            sequence_order.append(files);
        } else if !files.is_empty() {
            files.iter_mut().for_each(|file| *file = with_epoch(file, next));
            next += 1;
        }
    }
    sequence_order.sort_by(|a, b| newest_first_by_sequence(a, b));
    let mut level_0: Vec<_> = Vec::with_capacity(sequence_order.len());
    for file in sequence_order.iter().rev() {
        level_0.push(with_epoch(file, next));
        next += 1;
    }
    level_0.reverse();
    if let Some(files) = parts.levels.first_mut() {
        *files = level_0;
    }
    (Version::new(parts), RecoveredEpochs { next, inferred: true })
}
