//! Repair: making a database of what its directory still holds.
//!
//! Tables and WALs flow in, and what a damaged MANIFEST still tells; a database that opens flows out, as
//! `docs/behaviour/background.md`, Repair, has it: every table that can be read becomes part of level 0, WALs become tables,
//! and whatever was damaged or was replaced lies in `lost/`. Tables that can be read in parts are rewritten with what can be
//! read.
//!
//! Always true here: all is read, and everything that could be refused is refused, before anything is changed. Only what was
//! read and is wrong is damage: a file that cannot be opened or read is an error, and so is one that is sound and needs what
//! is not there. No table, WAL or MANIFEST that was there is deleted, it goes to `lost/`. `CURRENT` names the old MANIFEST
//! until the new one is complete, and what the old one needs is moved only afterwards, so that a repair that was interrupted
//! can be repeated. What an interrupted repair had made, and had no time to put into a MANIFEST, is told by a record in `lost/`
//! and never counts beside what it was made of. The repaired database was opened once before a repair says that it is done.

mod old_manifest;
mod remove;
mod table;
mod unfinished;
mod wals;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_env::{Env, FileSystem, create_dir_all};
use firn_error::{Error, ErrorKind, Result};
use firn_format::comparator::{Comparator, InternalKeyComparator};
use firn_format::filename::{self, FileKind};
use firn_format::key::{FileNumber, SequenceNumber};
use firn_format::properties::UNKNOWN_COLUMN_FAMILY;
use firn_format::unique_id::encode_session_id;
use firn_format::version_edit::{NewFile, VersionEdit};

use crate::db::layout::Layout;
use crate::db::open::{self, Mode};
use crate::options::{
    BottommostLevelCompaction, ColumnFamilyOptions, CompactRangeOptions, DbOptions, Options, WalRecoveryMode,
    builtin_comparator, sanitize_column_family_options, sanitize_db_options,
};
use crate::version::{read_current, start_from};
use crate::{ColumnFamilyDescriptor, DEFAULT_COLUMN_FAMILY_NAME};
use old_manifest::OldManifest;
pub use remove::unsafe_remove_table;
use table::{Condition, TableFacts, TableScanner};
use unfinished::Record;

/// Where what is replaced or damaged goes, below the directory of the database or of its paths.
const LOST_DIR: &str = "lost";

/// What a repair did.
#[derive(Clone, Debug, Default)]
pub struct RepairReport {
    /// Tables that were whole.
    pub whole_tables: Vec<FileNumber>,
    /// Tables that were rewritten with what could be read of them, and the numbers of the new ones, which take their place.
    pub rewritten_tables: Vec<(FileNumber, FileNumber)>,
    /// Tables of which nothing could be read.
    pub lost_tables: Vec<FileNumber>,
    /// Tables that an interrupted repair had replaced, or made of what is still there.
    pub leftover_tables: Vec<FileNumber>,
    /// WALs that became tables.
    pub wals: Vec<FileNumber>,
    /// What was wrong, one error per place.
    pub damages: Vec<Error>,
}

/// Repairs the database at `path`; its column families, and all that turn up on the way, get the options of `options.cf`.
/// Nobody else may have the database open.
///
/// # Errors
/// `Corruption` when there is nothing to repair; `InvalidArgument` when a family needs a comparator that `options` do not
/// give; `NotSupported` for databases with blob files; `IoError`.
pub fn repair(path: impl AsRef<Path>, options: &Options) -> Result<RepairReport> {
    repair_cf(path, &options.db, &[], Some(&options.cf))
}

/// [`repair`] with options for each column family; `unknown` is for families that are not among them.
///
/// # Errors
/// As for [`repair`], and `Corruption` when a family is found for which there are no options.
pub fn repair_cf(
    path: impl AsRef<Path>,
    options: &DbOptions,
    families: &[ColumnFamilyDescriptor],
    unknown: Option<&ColumnFamilyOptions>,
) -> Result<RepairReport> {
    let path = path.as_ref();
    let options = sanitize_db_options(options, path, None, None);
    let mut repair = Repair {
        layout: Layout::new(path, &options),
        env: options.env.clone(),
        options,
        descriptors: families,
        unknown,
        old: OldManifest::default(),
        families: BTreeMap::new(),
        report: RepairReport::default(),
    };
    repair.run()?;
    Ok(repair.report)
}

/// The files that were found.
#[derive(Default)]
struct Found {
    /// Number, path id (by position in the directories), path.
    tables: BTreeMap<FileNumber, (usize, PathBuf)>,
    wals: BTreeMap<FileNumber, PathBuf>,
    manifests: BTreeMap<FileNumber, PathBuf>,
    largest: FileNumber,
}

/// A column family that the repaired database has.
struct Family {
    name: String,
    options: ColumnFamilyOptions,
    order: InternalKeyComparator,
    /// Whether a table of it was lost or only partly read, so that all that WALs hold counts.
    lost_data: bool,
}

/// Paths of new tables and of those whose places they take.
type Replacements = Vec<(PathBuf, PathBuf)>;

/// A table that becomes part of the repaired database.
struct Kept {
    family: u32,
    file: NewFile,
}

struct Repair<'a> {
    layout: Layout,
    env: Env,
    options: DbOptions,
    descriptors: &'a [ColumnFamilyDescriptor],
    unknown: Option<&'a ColumnFamilyOptions>,
    old: OldManifest,
    families: BTreeMap<u32, Family>,
    report: RepairReport,
}

impl Repair<'_> {
    fn fs(&self) -> Arc<dyn FileSystem> {
        Arc::clone(self.env.fs())
    }

    fn run(&mut self) -> Result<()> {
        let fs = self.fs();
        let lock = fs.lock_file(&self.layout.db_dir.join(filename::LOCK))?;
        let mut found = self.find()?;
        let record = Record::new(self.layout.db_dir.join(LOST_DIR));
        let unfinished = record.read(&*fs)?;
        self.old = OldManifest::read(&*fs, &self.layout.db_dir, &found.manifests, unfinished)?;
        let leftovers = self.take_leftovers(&mut found, unfinished);
        self.report.damages.extend(self.old.damage.take());
        self.add_family(0, DEFAULT_COLUMN_FAMILY_NAME)?;
        for (id, name) in self.old.families.clone() {
            self.add_family(id, &name)?;
        }
        let scanned = self.scan(&found)?;
        let nameless = wals::check(self, &found.wals)?;
        self.report.damages.extend(nameless);
        // Above the log numbers too, which a MANIFEST may not have in the future.
        let logs = self.old.log_numbers.values().copied().max().unwrap_or_default();
        let mut next = FileNumber(found.largest.max(logs).0 + 1);
        // From here on files change. Leftovers go while the record still tells that they are; then new ones are added, which
        // nobody knows.
        for path in &leftovers {
            self.move_to_lost(path)?;
        }
        let (kept, rewritten) = self.rewrite_damaged(scanned, &found, &mut next)?;
        for (number, path) in &found.wals {
            self.keep_copy_in_lost(path)?;
            self.report.wals.push(*number);
        }
        for (new, old) in &rewritten {
            self.replace(old, new)?;
        }
        let is_kept = |number: &FileNumber| kept.iter().any(|kept| kept.file.number == *number);
        let lost: Vec<&PathBuf> =
            found.tables.iter().filter(|(number, _)| !is_kept(number)).map(|(_, (_, path))| path).collect();
        self.lost_dir_in(&self.layout.db_dir)?;
        record.write(&*fs, next)?;
        self.write_manifest(kept, next)?;
        // Nothing needs them any more, and the next open would delete them.
        for path in found.manifests.values().chain(lost) {
            self.move_to_lost(path)?;
        }
        drop(lock);
        self.convert_wals(&record)?;
        self.verify()?;
        self.forget_what_was_deleted()?;
        record.remove(&*fs)
    }

    /// Takes out the tables that an interrupted repair left, if there was one.
    fn take_leftovers(&mut self, found: &mut Found, unfinished: Option<FileNumber>) -> Vec<PathBuf> {
        let mut leftovers = Vec::new();
        if unfinished.is_some() && self.old.whole_and_current == unfinished {
            let (places, report) = (&self.old.places, &mut self.report);
            found.tables.retain(|number, (_, path)| {
                let is_leftover = !places.contains_key(number);
                if is_leftover {
                    report.leftover_tables.push(*number);
                    leftovers.push(std::mem::take(path));
                }
                !is_leftover
            });
        }
        leftovers
    }

    fn find(&self) -> Result<Found> {
        let fs = self.fs();
        let mut found = Found::default();
        let mut dirs = self.layout.db_paths.clone();
        let family_options = self.descriptors.iter().map(|descriptor| &descriptor.options).chain(self.unknown);
        dirs.extend(self.layout.all_dirs(family_options));
        dirs.push(self.layout.wal_dir.clone());
        let mut seen = BTreeSet::new();
        for (position, dir) in dirs.iter().enumerate() {
            if !seen.insert(dir.clone()) {
                continue;
            }
            let names = match fs.children(dir) {
                Ok(names) => names,
                Err(error) if error.is_path_not_found() && *dir != self.layout.db_dir => continue,
                Err(error) => return Err(error),
            };
            for name in names {
                let Some(parsed) = filename::parse(&name) else { continue };
                let path = dir.join(&name);
                if parsed.kind != FileKind::InfoLog {
                    parsed.number.checked("file number").map_err(|error| error.with_file(&path))?;
                }
                match parsed.kind {
                    FileKind::Table => {
                        found.tables.insert(parsed.number, (position, path));
                    }
                    FileKind::Wal => {
                        found.wals.insert(parsed.number, path);
                    }
                    FileKind::Manifest => {
                        found.manifests.insert(parsed.number, path);
                    }
                    FileKind::Blob => {
                        return Err(Error::not_supported("repairing databases with blob files").with_file(path));
                    }
                    // The number of an info log is a time.
                    FileKind::InfoLog => continue,
                    _ => {}
                }
                found.largest = found.largest.max(parsed.number);
            }
            // No new file may come to lie over another there.
            for name in fs.children(&dir.join(LOST_DIR)).unwrap_or_default() {
                let number =
                    filename::parse(&name).filter(|parsed| parsed.kind != FileKind::InfoLog).map(|file| file.number);
                let usable = number.filter(|number| number.checked("file number").is_ok());
                found.largest = found.largest.max(usable.unwrap_or_default());
            }
        }
        if found.tables.is_empty() && found.wals.is_empty() && found.manifests.is_empty() {
            return Err(Error::corruption("repair found no files").with_file(&self.layout.db_dir));
        }
        Ok(found)
    }

    /// Makes family `id` known, with its options.
    fn add_family(&mut self, id: u32, name: &str) -> Result<()> {
        if self.families.contains_key(&id) {
            return Ok(());
        }
        let given = self.descriptors.iter().find(|descriptor| descriptor.name == name);
        let Some(options) = given.map(|descriptor| &descriptor.options).or(self.unknown) else {
            return Err(Error::corruption(format!("Encountered unknown column family with name={name}, id={id}"))
                .with_file(&self.layout.db_dir));
        };
        let mut options = sanitize_column_family_options(&self.options, options, false);
        let stored = self.old.comparators.get(&id).map(String::as_str);
        options.comparator = comparator_for(stored, &options, name)?;
        open::refuse_unsupported(name, &options)?;
        let order = InternalKeyComparator::new(Arc::clone(&options.comparator));
        self.families.insert(id, Family { name: name.to_owned(), options, order, lost_data: false });
        Ok(())
    }

    /// Looks through all tables.
    fn scan(&mut self, found: &Found) -> Result<Vec<(u32, TableFacts)>> {
        let fs = self.fs();
        let mut scanned = Vec::new();
        let missing = self.old.places.iter().filter(|(number, _)| !found.tables.contains_key(number));
        for family in missing.map(|(_, place)| place.family).collect::<BTreeSet<_>>() {
            self.mark_lost(family);
        }
        for (number, (position, path)) in &found.tables {
            let identity = match TableScanner::identify(&*fs, path) {
                Ok(identity) => identity,
                Err(error) if !is_damage(&error) => return Err(error.with_file(path)),
                Err(error) => {
                    // Nobody knows whose data it had: the old MANIFEST may.
                    let family = self.old.places.get(number).map(|place| place.family);
                    self.lose(*number, family, error);
                    scanned.push((family.unwrap_or(0), TableFacts::unreadable(*number)));
                    continue;
                }
            };
            let (id, name) = match identity.family {
                (UNKNOWN_COLUMN_FAMILY, _) => (0, DEFAULT_COLUMN_FAMILY_NAME.to_owned()),
                (id, name) => (u32::try_from(id).unwrap_or(0), name),
            };
            let name = if id == 0 { DEFAULT_COLUMN_FAMILY_NAME } else { name.as_str() };
            self.add_family(id, name)?;
            let Some(family) = self.families.get(&id) else { continue };
            let comparator = comparator_for(Some(&identity.comparator), &family.options, name)?;
            let path_id = u32::try_from(*position).unwrap_or(0);
            let facts = TableScanner { fs: &*fs, path, number: *number, path_id, comparator }.scan()?;
            // An interrupted repair may have put what could be read in its place.
            if self.old.places.get(number).is_some_and(|place| place.size_bytes != facts.file.file_size) {
                self.mark_lost(id);
            }
            match &facts.condition {
                Condition::Whole => self.report.whole_tables.push(*number),
                Condition::Damaged(damages) => {
                    self.report.damages.extend(damages.iter().cloned());
                    self.mark_lost(id);
                }
                Condition::Unreadable(error) => self.lose(*number, Some(id), error.clone()),
            }
            scanned.push((id, facts));
        }
        Ok(scanned)
    }

    fn lose(&mut self, number: FileNumber, family: Option<u32>, error: Error) {
        self.report.lost_tables.push(number);
        self.report.damages.push(error);
        match family {
            Some(family) => self.mark_lost(family),
            None => self.families.values_mut().for_each(|family| family.lost_data = true),
        }
    }

    fn mark_lost(&mut self, family: u32) {
        if let Some(family) = self.families.get_mut(&family) {
            family.lost_data = true;
        }
    }

    /// Writes what can be read of damaged tables to new ones in `lost/`; also gives their paths and those of the old ones,
    /// whose names and numbers they are going to take. On failure none of them is left.
    fn rewrite_damaged(
        &mut self,
        scanned: Vec<(u32, TableFacts)>,
        found: &Found,
        next: &mut FileNumber,
    ) -> Result<(Vec<Kept>, Replacements)> {
        let mut new = Replacements::new();
        match self.try_rewrite_damaged(scanned, found, next, &mut new) {
            Ok(kept) => Ok((kept, new)),
            Err(error) => {
                for (path, _) in new {
                    let _ = self.fs().remove_file(&path);
                }
                Err(error)
            }
        }
    }

    fn try_rewrite_damaged(
        &mut self,
        scanned: Vec<(u32, TableFacts)>,
        found: &Found,
        next: &mut FileNumber,
        new: &mut Replacements,
    ) -> Result<Vec<Kept>> {
        let fs = self.fs();
        let entropy = self.env.entropy();
        let session_id = encode_session_id(entropy.next_u64(), entropy.next_u64());
        let mut kept = Vec::new();
        for (id, facts) in scanned {
            let Some((_, path)) = found.tables.get(&facts.file.number) else { continue };
            let old = facts.file.number;
            match &facts.condition {
                Condition::Whole => kept.push(Kept { family: id, file: facts.file }),
                Condition::Damaged(_) if facts.entries > 0 => {
                    let lost = self.lost_dir_of(path)?;
                    let Some(family) = self.families.get(&id) else { continue };
                    let settings = table::RewriteSettings {
                        env: &self.env,
                        db: &self.options,
                        layout: &self.layout,
                        family_id: id,
                        family_name: &family.name,
                        family: &family.options,
                        session_id: &session_id,
                    };
                    new.push((lost.join(filename::table(*next)), path.clone()));
                    let file = facts.rewrite(&*fs, path, &settings, (&lost, *next))?;
                    self.report.rewritten_tables.push((old, old));
                    *next = FileNumber(next.0 + 1);
                    kept.push(Kept { family: id, file: NewFile { number: old, ..file } });
                }
                Condition::Damaged(_) => self.report.lost_tables.push(old),
                Condition::Unreadable(_) => {}
            }
        }
        Ok(kept)
    }

    fn lost_dir_of(&self, path: &Path) -> Result<PathBuf> {
        self.lost_dir_in(path.parent().unwrap_or(&self.layout.db_dir))
    }

    fn lost_dir_in(&self, dir: &Path) -> Result<PathBuf> {
        let lost = dir.join(LOST_DIR);
        create_dir_all(&*self.fs(), &lost)?;
        // What is put there lasts no longer than its name.
        self.fs().new_directory(dir)?.fsync()?;
        Ok(lost)
    }

    fn move_to_lost(&self, path: &Path) -> Result<()> {
        let lost = self.lost_dir_of(path)?;
        let name = path.file_name().unwrap_or_default();
        let fs = self.fs();
        fs.rename(path, &lost.join(name))?;
        // First where it is new: it must not be in neither.
        fs.new_directory(&lost)?.fsync()?;
        fs.new_directory(path.parent().unwrap_or(&self.layout.db_dir))?.fsync()
    }

    /// Puts `new` in the place of `old`, which stays in `lost/`. At every moment the name has one of them.
    fn replace(&self, old: &Path, new: &Path) -> Result<()> {
        let fs = self.fs();
        self.keep_copy_in_lost(old)?;
        fs.rename(new, old)?;
        fs.new_directory(old.parent().unwrap_or(&self.layout.db_dir))?.fsync()
    }

    /// Leaves a second name, or a copy, of the file in `lost/`.
    fn keep_copy_in_lost(&self, path: &Path) -> Result<()> {
        let fs = self.fs();
        let lost = self.lost_dir_of(path)?;
        let copy = lost.join(path.file_name().unwrap_or_default());
        if fs.file_exists(&copy)? {
            fs.remove_file(&copy)?;
        }
        if fs.link(path, &copy).is_err() {
            let contents = firn_env::read_file(&*fs, path, u64::MAX)?;
            firn_env::write_file(&*fs, &copy, &contents, true)?;
        }
        fs.new_directory(&lost)?.fsync()
    }

    /// Writes a MANIFEST that names the tables, and makes it the current one.
    fn write_manifest(&self, mut kept: Vec<Kept>, next: FileNumber) -> Result<()> {
        let fs = self.fs();
        // Deeper data is older; within a level, and for files that the old MANIFEST does not tell of, sequence numbers tell.
        kept.sort_by_key(|kept| {
            let place = self.old.places.get(&kept.file.number);
            let depth = place.map_or(0, |place| place.level);
            let epoch = place.map_or(u64::MAX, |place| place.epoch_number);
            let sequences = (kept.file.largest_sequence, kept.file.smallest_sequence);
            (std::cmp::Reverse(depth), if depth == 0 { epoch } else { 0 }, sequences, kept.file.number)
        });
        let last_sequence = kept.iter().map(|kept| kept.file.largest_sequence).max().unwrap_or_default();
        let last_sequence = last_sequence.max(self.old.last_sequence);
        let number = next;
        let mut edits = vec![VersionEdit {
            db_id: self.old.db_id.clone(),
            comparator: self.families.get(&0).map(|family| family.options.comparator.name().to_owned()),
            log_number: Some(self.log_number(0)),
            next_file_number: Some(FileNumber(number.0 + 1)),
            last_sequence: Some(last_sequence),
            max_column_family: self.families.keys().next_back().copied(),
            ..VersionEdit::default()
        }];
        for (id, family) in self.families.iter().filter(|(id, _)| **id != 0) {
            edits.push(VersionEdit {
                column_family: *id,
                column_family_add: Some(family.name.clone()),
                comparator: Some(family.options.comparator.name().to_owned()),
                log_number: Some(self.log_number(*id)),
                ..VersionEdit::default()
            });
        }
        let mut by_family: BTreeMap<u32, VersionEdit> = BTreeMap::new();
        for (kept, epoch) in kept.into_iter().zip(1u64..) {
            let edit = by_family
                .entry(kept.family)
                .or_insert_with(|| VersionEdit { column_family: kept.family, ..VersionEdit::default() });
            edit.add_file(0, NewFile { epoch_number: epoch, ..kept.file });
        }
        edits.extend(by_family.into_values());
        start_from(&*fs, &self.layout.db_dir, number, &edits)
    }

    /// WALs below this hold nothing of the family that its tables lack.
    fn log_number(&self, id: u32) -> FileNumber {
        match self.families.get(&id) {
            Some(family) if family.lost_data => FileNumber(0),
            _ => self.old.log_numbers.get(&id).copied().unwrap_or(FileNumber(0)),
        }
    }

    /// Opens the database as its user will.
    fn verify(&self) -> Result<()> {
        let mut options = self.options.clone();
        options.create_if_missing = false;
        let family = |family: &Family| ColumnFamilyDescriptor::new(&family.name, family.options.clone());
        let families = self.families.values().map(family).collect();
        open::open(&self.layout.db_dir, options, families, Mode::ReadOnly)?.close()
    }

    /// Makes it durable which tables are gone: one that came back would count as a part of the database.
    fn forget_what_was_deleted(&self) -> Result<()> {
        let fs = self.fs();
        for dir in self.layout.all_dirs(self.families.values().map(|family| &family.options)) {
            if fs.file_exists(&dir)? {
                fs.new_directory(&dir)?.fsync()?;
            }
        }
        Ok(())
    }

    /// Opens the database, which turns WALs into tables, and merges what could be read in the wrong order.
    fn convert_wals(&mut self, record: &Record) -> Result<()> {
        let mut options = self.options.clone();
        options.create_if_missing = false;
        options.error_if_exists = false;
        options.wal_recovery_mode = WalRecoveryMode::SkipAnyCorruptedRecords;
        options.avoid_flush_during_recovery = false;
        options.track_and_verify_wals = false;
        // The record names one MANIFEST.
        options.max_manifest_file_size = u64::MAX;
        let descriptors = self
            .families
            .values()
            .map(|family| ColumnFamilyDescriptor::new(&family.name, family.options.clone()))
            .collect();
        let db = open::open(&self.layout.db_dir, options, descriptors, Mode::Repair)?;
        // The open made a MANIFEST of its own. Nothing is left over at this moment; a compaction may leave something.
        record.write(&*self.fs(), read_current(&*self.fs(), &self.layout.db_dir)?)?;
        // Families of which nothing was found but the name that the caller knows.
        for descriptor in self.descriptors.iter().filter(|descriptor| db.cf(&descriptor.name).is_none()) {
            db.create_cf(&descriptor.name, descriptor.options.clone())?;
        }
        for cf in db.column_families() {
            let mut files = db.live_files();
            files.retain(|file| file.column_family == cf.name());
            if order_is_unclear(&files, &*db.options(&cf).cf.comparator) {
                let rewrite = CompactRangeOptions {
                    bottommost_level_compaction: BottommostLevelCompaction::Skip,
                    // Many files of level 0 would stall writes, and nobody writes.
                    allow_write_stall: true,
                    ..CompactRangeOptions::default()
                };
                db.compact_range(&rewrite, &cf, None, None)?;
            }
        }
        db.close()
    }
}

/// Whether an error tells of damage. Others come of the file system, or of a table that is sound and of a kind that is not
/// supported.
fn is_damage(error: &Error) -> bool {
    !matches!(error.kind(), ErrorKind::IoError | ErrorKind::NotSupported)
}

/// Whether two files share keys and neither is wholly newer than the other: a lookup that asks one first may be wrong.
fn order_is_unclear(files: &[crate::LiveFile], order: &dyn Comparator) -> bool {
    let mixed = |a: &crate::LiveFile, b: &crate::LiveFile| {
        let share_sequences = a.smallest_sequence <= b.largest_sequence && b.smallest_sequence <= a.largest_sequence;
        let share_keys = order.compare(&a.smallest_key, &b.largest_key).is_le()
            && order.compare(&b.smallest_key, &a.largest_key).is_le();
        let settled = a.largest_sequence == SequenceNumber::ZERO && b.largest_sequence == SequenceNumber::ZERO;
        share_sequences && share_keys && !settled
    };
    files.iter().enumerate().any(|(at, a)| files.iter().skip(at + 1).any(|b| mixed(a, b)))
}

/// The comparator for tables that were written with the one called `stored`.
fn comparator_for(stored: Option<&str>, options: &ColumnFamilyOptions, family: &str) -> Result<Arc<dyn Comparator>> {
    match stored {
        None | Some("") => Ok(Arc::clone(&options.comparator)),
        Some(name) if name == options.comparator.name() => Ok(Arc::clone(&options.comparator)),
        Some(name) => builtin_comparator(name).ok_or_else(|| {
            Error::invalid_argument(format!("column family {family:?} needs the comparator {name}, which is not given"))
        }),
    }
}
