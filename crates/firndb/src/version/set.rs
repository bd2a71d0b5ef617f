//! All versions of all column families, and the MANIFEST that remembers them: [`VersionSet`].
//!
//! # How it is used
//!
//! The set lives inside the state that the database mutex protects.
//!
//! * **New database:** [`create_database`] writes `MANIFEST-000001` and `CURRENT`. Then recover as usual.
//! * **Open:** [`VersionSet::recover`] reads `CURRENT` and the MANIFEST, checks everything, and verifies that the table files
//!   are there with their sizes. It writes nothing.
//! * **Change:** [`VersionSet::log_and_apply`] takes a [`ManifestChange`] (edits of one or several column families) and the
//!   guard of the database mutex, makes the change durable and publishes it. It gives the mutex up while it does I/O and holds
//!   it again when it returns, without a gap between publication and return. It is made of three steps that may also be
//!   called one by one: [`prepare`](VersionSet::prepare) under the mutex, [`PendingWrite::write`] without it,
//!   [`install`](VersionSet::install) under it again. Writes are serialized: between `prepare` and `install` the set
//!   [`is_writing`](VersionSet::is_writing) and no other change can be prepared.
//! * **New column family:** [`VersionSet::new_column_family`] makes the change; **drop:** [`VersionSet::drop_column_family`].
//! * **Obsolete files:** [`VersionSet::obsolete`] hands out files as the last version that has them goes, from whichever
//!   thread drops it. For a scan of the directory, [`live_tables`](VersionSet::live_tables) names what must stay.
//! * **Numbers:** [`VersionSet::numbers`] hands out file numbers without the mutex.
//!
//! # Order of durability
//!
//! New table files and their directory entries are durable before the change is logged (the caller's duty). A record is
//! durable before its version is published. A new MANIFEST is complete and durable before `CURRENT` names it.

use firn_env::sync::atomic::{AtomicU64, Ordering};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use firn_env::FileSystem;
use firn_env::sync::{Condvar, MutexGuard};
use firn_error::{Error, ErrorKind, Result};
use firn_format::filename;
use firn_format::key::{FileNumber, SequenceNumber};
use firn_format::version_edit::{DEFAULT_COLUMN_FAMILY_ID, EditKind, VersionEdit};

use super::manifest::{self, FamilySnapshot, ManifestWriter, Snapshot};
use super::pending::{PendingWrite, WriteOutcome};
use super::{
    FamilySpec, FileMetaData, FileStatsLoader, ManifestReplay, ObsoleteFiles, OpenMode, RecoveredState, Version, WalSet,
};

/// How MANIFESTs are written.
#[derive(Clone)]
pub struct VersionSetOptions {
    /// Where the files are.
    pub fs: Arc<dyn FileSystem>,
    /// The directory of the database.
    pub db_path: PathBuf,
    /// A MANIFEST of this many bytes is replaced by a new one. Default: 1 GiB.
    pub max_manifest_file_size: u64,
    /// A MANIFEST may grow by this percentage of its snapshot even beyond `max_manifest_file_size`. Default: 500.
    pub max_manifest_space_amp_pct: i32,
    /// Keep the identity of the database in the MANIFEST. Default: true.
    pub write_dbid_to_manifest: bool,
    /// Recover the newest state whose files are all there, from whichever MANIFEST, instead of failing. Default: false.
    pub best_efforts: bool,
    /// Loads the properties of new files.
    pub stats: Arc<dyn FileStatsLoader + Send + Sync>,
}

impl VersionSetOptions {
    /// Defaults for the database in `db_path`.
    pub fn new(fs: Arc<dyn FileSystem>, db_path: impl Into<PathBuf>) -> Self {
        Self {
            fs,
            db_path: db_path.into(),
            max_manifest_file_size: 1 << 30,
            max_manifest_space_amp_pct: 500,
            write_dbid_to_manifest: true,
            best_efforts: false,
            stats: Arc::new(super::NoFileStats),
        }
    }
}

/// Hands out file numbers. Thread-safe.
#[derive(Debug)]
pub struct FileNumbers(AtomicU64);

impl FileNumbers {
    /// A number that nobody else has.
    pub fn next(&self) -> FileNumber {
        FileNumber(self.0.fetch_add(1, Ordering::Relaxed))
    }

    /// The number that the next call of [`next`](Self::next) will return.
    pub fn peek(&self) -> FileNumber {
        FileNumber(self.0.load(Ordering::Relaxed))
    }

    /// Never hands out `number` or a smaller one from now on.
    pub fn mark_used(&self, number: FileNumber) {
        self.0.fetch_max(number.0.saturating_add(1), Ordering::Relaxed);
    }
}

/// The chain of versions of one column family.
#[derive(Debug)]
pub struct FamilyVersions {
    pub(super) id: u32,
    pub(super) spec: FamilySpec,
    pub(super) current: Arc<Version>,
    pub(super) log_number: FileNumber,
    pub(super) recorded_log_number: FileNumber,
    pub(super) full_history_ts_low: Option<Vec<u8>>,
    pub(super) next_epoch_number: u64,
}

impl FamilyVersions {
    /// The id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// What the column family was opened with.
    pub fn spec(&self) -> &FamilySpec {
        &self.spec
    }

    /// The newest version.
    pub fn current(&self) -> &Arc<Version> {
        &self.current
    }

    /// WALs with smaller numbers hold nothing that the tables of the column family lack.
    pub fn log_number(&self) -> FileNumber {
        self.log_number
    }

    /// The log number that the MANIFEST has. Smaller than [`log_number`](Self::log_number) where the column family has had
    /// nothing in memory since: the WALs between hold nothing of it, but they may not be synced, and recovery takes tables
    /// of a column family that needs none of them for newer than what a damaged one held.
    pub fn recorded_log_number(&self) -> FileNumber {
        self.recorded_log_number
    }

    /// History of user timestamps below this may be gone.
    pub fn full_history_ts_low(&self) -> Option<&[u8]> {
        self.full_history_ts_low.as_deref()
    }

    /// A new epoch number, for the output of a flush, a recovery or an ingestion.
    pub fn new_epoch_number(&mut self) -> u64 {
        let number = self.next_epoch_number;
        self.next_epoch_number += 1;
        number
    }

    /// The epoch number that would be handed out next.
    pub fn next_epoch_number(&self) -> u64 {
        self.next_epoch_number
    }
}

/// A change to be logged and published.
#[derive(Debug, Default)]
pub struct ManifestChange {
    /// The edits, in order. Edits of column families that were dropped meanwhile are left out.
    pub edits: Vec<VersionEdit>,
    /// Recovery applies all edits or none.
    pub atomic: bool,
    /// What the column family that the one edit creates is opened with.
    pub new_family: Option<FamilySpec>,
    /// Start a new MANIFEST even if the current one is small.
    pub new_manifest: bool,
}

impl From<VersionEdit> for ManifestChange {
    fn from(edit: VersionEdit) -> Self {
        Self { edits: vec![edit], ..Self::default() }
    }
}

/// What a change published.
#[derive(Clone, Debug, Default)]
pub struct Installed {
    /// The new current version of every column family whose files the change touched, and of a new column family.
    pub versions: Vec<Arc<Version>>,
    /// Whether a new MANIFEST was started; the old one may be deleted.
    pub new_manifest: bool,
}

/// Whoever keeps a [`VersionSet`] behind a mutex.
pub trait HoldsVersions {
    /// The set.
    fn versions(&mut self) -> &mut VersionSet;
}

/// What is known besides the set itself after a recovery.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// The identity of the database, if the MANIFEST has it.
    pub db_id: Option<String>,
    /// Column families that exist and were not asked for (read-only opens).
    pub not_opened: Vec<String>,
    /// For the info log.
    pub warnings: Vec<String>,
}

/// All versions of all column families; see the module.
pub struct VersionSet {
    pub(super) options: VersionSetOptions,
    pub(super) families: BTreeMap<u32, FamilyVersions>,
    /// Ids in order of creation, the default column family first.
    pub(super) creation_order: Vec<u32>,
    numbers: Arc<FileNumbers>,
    /// The greatest sequence number that readers may see.
    last_sequence: Arc<AtomicU64>,
    /// At least the greatest sequence number in any record of the MANIFEST.
    logged_sequence: SequenceNumber,
    prev_log_number: FileNumber,
    min_log_number_to_keep: FileNumber,
    max_column_family: u32,
    db_id: Option<String>,
    wals: WalSet,
    manifest_number: FileNumber,
    manifest_size: u64,
    /// MANIFESTs that `CURRENT` may name after a switch that failed halfway.
    uncertain_manifests: BTreeSet<FileNumber>,
    /// MANIFESTs that `CURRENT` named before, or might have, until somebody takes them to remove them.
    obsolete_manifests: Vec<FileNumber>,
    /// Table files that records mention which may or may not have become durable.
    quarantined: BTreeSet<FileNumber>,
    writer: Option<Box<ManifestWriter>>,
    /// Bytes of the current MANIFEST just after it was started.
    last_compacted_size: u64,
    writing: bool,
    idle: Arc<Condvar>,
    obsolete: Arc<ObsoleteFiles>,
    /// Versions that somebody may still hold.
    alive: Vec<Weak<Version>>,
    next_version_number: u64,
}

/// Writes the MANIFEST and `CURRENT` of a database without contents into `db_path`, which exists.
///
/// # Errors
/// The file system's.
pub fn create_database(fs: &dyn FileSystem, db_path: &Path, db_id: Option<&str>) -> Result<()> {
    let number = FileNumber(1);
    let edit = VersionEdit {
        db_id: db_id.map(str::to_owned),
        log_number: Some(FileNumber(0)),
        next_file_number: Some(FileNumber(number.0 + 1)),
        last_sequence: Some(SequenceNumber(0)),
        ..VersionEdit::default()
    };
    start_from(fs, db_path, number, &[edit])
}

/// Writes a MANIFEST that holds `edits` and makes it the current one.
///
/// # Errors
/// The file system's.
pub(crate) fn start_from(fs: &dyn FileSystem, db_path: &Path, number: FileNumber, edits: &[VersionEdit]) -> Result<()> {
    let mut writer = ManifestWriter::create(fs, db_path, number)?;
    writer.append(edits)?;
    writer.make_current(fs, db_path)
}

/// The names of the column families of the database in `db_path`, by ascending id.
///
/// # Errors
/// `Corruption` with file and offset; the file system's errors.
pub fn list_column_families(fs: &dyn FileSystem, db_path: &Path) -> Result<Vec<String>> {
    column_families_in_manifest(fs, db_path).map(super::ColumnFamilyNames::into_names)
}

/// The names and ids of the column families of the database in `db_path`.
///
/// # Errors
/// As for [`list_column_families`].
pub fn column_families_in_manifest(fs: &dyn FileSystem, db_path: &Path) -> Result<super::ColumnFamilyNames> {
    let number = manifest::read_current(fs, db_path)?;
    let mut names = super::ColumnFamilyNames::default();
    manifest::read_manifest(fs, &db_path.join(filename::manifest(number)), |edit, _| names.add(&edit))?;
    Ok(names)
}

/// The same from the newest MANIFEST that can be read, whatever `CURRENT` says.
///
/// # Errors
/// `Corruption` if there is none; the file system's errors.
pub fn best_efforts_column_families(fs: &dyn FileSystem, db_path: &Path) -> Result<super::ColumnFamilyNames> {
    for number in super::manifests(fs, db_path)? {
        let mut names = super::ColumnFamilyNames::default();
        let path = db_path.join(filename::manifest(number));
        if manifest::read_manifest(fs, &path, |edit, _| names.add(&edit)).is_ok() {
            return Ok(names);
        }
    }
    Err(no_manifest(db_path))
}

#[cold]
fn no_manifest(db_path: &Path) -> Error {
    Error::corruption(format!("Cannot locate MANIFEST file in {}", db_path.display()))
}

impl VersionSet {
    /// Reads the state of the database from its `CURRENT` and MANIFEST, or with `best_efforts` what is left of it. Writes
    /// nothing.
    ///
    /// # Errors
    /// `Corruption` with file and offset for a MANIFEST that is damaged, contradicts itself or names table files that are
    /// missing or of another size; `InvalidArgument` for a comparator or number of levels that does not fit, and for
    /// column families that a read-write open did not ask for.
    pub fn recover(
        options: VersionSetOptions,
        requested: Vec<FamilySpec>,
        mode: OpenMode,
    ) -> Result<(Self, Recovered)> {
        if options.best_efforts {
            return Self::recover_best_efforts(&options, &requested, mode);
        }
        let manifest_number = manifest::read_current(&*options.fs, &options.db_path)?;
        let path = options.db_path.join(filename::manifest(manifest_number));
        let mut replay = ManifestReplay::new(requested)?;
        let manifest_size = manifest::read_manifest(&*options.fs, &path, |edit, _| replay.add(edit))?;
        let state = replay.finish(mode, &*options.stats).map_err(|error| {
            let error = error.with_file(&path);
            // What the MANIFEST lacks, it lacks at its end.
            if error.is_corruption() { error.with_offset(manifest_size) } else { error }
        })?;
        check_table_files(&options, &state)?;
        Ok(Self::from_state(options, state, manifest_number, manifest_size))
    }

    /// Recovers from the newest MANIFEST that leads to anything.
    fn recover_best_efforts(
        options: &VersionSetOptions,
        requested: &[FamilySpec],
        mode: OpenMode,
    ) -> Result<(Self, Recovered)> {
        let mut warnings = Vec::new();
        for number in super::manifests(&*options.fs, &options.db_path)? {
            match Self::recover_what_is_there(options, requested, mode, number) {
                Ok((set, mut recovered)) => {
                    recovered.warnings.append(&mut warnings);
                    return Ok((set, recovered));
                }
                // What the caller asked for is wrong; an older MANIFEST would only hide that.
                Err(error) if matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::NotSupported) => {
                    return Err(error);
                }
                Err(error) => warnings.push(format!("MANIFEST {number} is of no use: {error}")),
            }
        }
        Err(no_manifest(&options.db_path))
    }

    fn recover_what_is_there(
        options: &VersionSetOptions,
        requested: &[FamilySpec],
        mode: OpenMode,
        number: FileNumber,
    ) -> Result<(Self, Recovered)> {
        let path = options.db_path.join(filename::manifest(number));
        let mut edits = Vec::new();
        let size = manifest::read_manifest(&*options.fs, &path, |edit, _| {
            edits.push(edit);
            Ok(())
        })?;
        let (edits, mut warnings) = super::best_efforts::complete_edits(edits, &mut |family, file| {
            let Some(spec) = requested.iter().find(|spec| spec.name == family) else { return Ok(true) };
            let directory = spec_directory(spec, file.path_id, &options.db_path);
            let table = manifest::table_path(&*options.fs, directory, file.number)?;
            Ok(options.fs.file_size(&table).is_ok_and(|size| size == file.file_size))
        })?;
        let mut replay = ManifestReplay::new(requested.to_vec())?;
        edits.into_iter().try_for_each(|edit| replay.add(edit)).map_err(|error| error.with_file(&path))?;
        let mut state = replay.finish(mode, &*options.stats).map_err(|error| error.with_file(&path))?;
        state.warnings.append(&mut warnings);
        check_table_files(options, &state)?;
        Ok(Self::from_state(options.clone(), state, number, size))
    }

    fn from_state(
        options: VersionSetOptions,
        state: RecoveredState,
        manifest_number: FileNumber,
        manifest_size: u64,
    ) -> (Self, Recovered) {
        let recovered =
            Recovered { db_id: state.db_id.clone(), not_opened: state.not_opened, warnings: state.warnings };
        let obsolete = Arc::new(ObsoleteFiles::default());
        let mut alive = Vec::new();
        let mut creation_order = Vec::new();
        let mut families = BTreeMap::new();
        for family in state.families {
            let current = Arc::new(family.version);
            current.track_files(&obsolete);
            alive.push(Arc::downgrade(&current));
            creation_order.push(family.id);
            families.insert(
                family.id,
                FamilyVersions {
                    id: family.id,
                    spec: family.spec,
                    current,
                    log_number: family.log_number,
                    recorded_log_number: family.log_number,
                    full_history_ts_low: family.full_history_ts_low,
                    next_epoch_number: family.epochs.next,
                },
            );
        }
        // The counter itself may have been handed out by the writer of the last edit without being recorded.
        let numbers = FileNumbers(AtomicU64::new(state.next_file_number.0.saturating_add(1)));
        let set = Self {
            options,
            families,
            creation_order,
            numbers: Arc::new(numbers),
            last_sequence: Arc::new(AtomicU64::new(state.last_sequence.0)),
            logged_sequence: state.last_sequence,
            prev_log_number: state.prev_log_number,
            min_log_number_to_keep: state.min_log_number_to_keep,
            max_column_family: state.max_column_family,
            db_id: state.db_id,
            wals: state.wals,
            manifest_number,
            manifest_size,
            uncertain_manifests: BTreeSet::new(),
            obsolete_manifests: Vec::new(),
            quarantined: BTreeSet::new(),
            writer: None,
            last_compacted_size: state.last_compacted_manifest_file_size.unwrap_or(0),
            writing: false,
            idle: Arc::new(Condvar::new()),
            obsolete,
            alive,
            next_version_number: 2,
        };
        (set, recovered)
    }

    /// How MANIFESTs are written.
    pub fn options(&self) -> &VersionSetOptions {
        &self.options
    }

    /// Changes how large a MANIFEST may grow.
    pub fn set_manifest_limits(&mut self, max_manifest_file_size: u64, max_manifest_space_amp_pct: i32) {
        self.options.max_manifest_file_size = max_manifest_file_size;
        self.options.max_manifest_space_amp_pct = max_manifest_space_amp_pct;
    }

    /// Hands out file numbers, with or without the mutex.
    pub fn numbers(&self) -> &Arc<FileNumbers> {
        &self.numbers
    }

    /// A file number that nobody else has.
    pub fn new_file_number(&self) -> FileNumber {
        self.numbers.next()
    }

    /// The greatest sequence number that readers may see; shared with the write path.
    pub fn last_sequence_cell(&self) -> &Arc<AtomicU64> {
        &self.last_sequence
    }

    /// The greatest sequence number that readers may see.
    pub fn last_sequence(&self) -> SequenceNumber {
        SequenceNumber(self.last_sequence.load(Ordering::Acquire))
    }

    /// Publishes a new last sequence number; it never goes back.
    pub fn set_last_sequence(&self, sequence: SequenceNumber) {
        self.last_sequence.fetch_max(sequence.0, Ordering::AcqRel);
    }

    /// The column family with this id, unless it was dropped.
    pub fn family(&self, id: u32) -> Option<&FamilyVersions> {
        self.families.get(&id)
    }

    /// The column family with this id, unless it was dropped.
    pub fn family_mut(&mut self, id: u32) -> Option<&mut FamilyVersions> {
        self.families.get_mut(&id)
    }

    /// The column family with this name, unless it was dropped.
    pub fn family_by_name(&self, name: &str) -> Option<&FamilyVersions> {
        self.families.values().find(|family| family.spec.name == name)
    }

    /// All column families in order of creation, the default one first.
    pub fn families(&self) -> impl Iterator<Item = &FamilyVersions> {
        self.creation_order.iter().filter_map(|id| self.families.get(id))
    }

    /// The identity of the database, if the MANIFEST has it.
    pub fn db_id(&self) -> Option<&str> {
        self.db_id.as_deref()
    }

    /// Sets the identity that the next MANIFEST tells (with `write_dbid_to_manifest`).
    pub fn set_db_id(&mut self, db_id: impl Into<String>) {
        self.db_id = Some(db_id.into());
    }

    /// LevelDB's second WAL; 0 if there is none.
    pub fn prev_log_number(&self) -> FileNumber {
        self.prev_log_number
    }

    /// WALs with smaller numbers are obsolete for the whole database, as far as the MANIFEST tells.
    pub fn min_log_number_to_keep(&self) -> FileNumber {
        self.min_log_number_to_keep
    }

    /// WALs with smaller numbers hold nothing that any column family needs: the least log number of all of them.
    pub fn min_log_number_with_unflushed_data(&self) -> FileNumber {
        self.families.values().map(|family| family.log_number).min().unwrap_or_default()
    }

    /// The same without the column families in `except`, which are about to get greater log numbers.
    pub fn min_log_number_with_unflushed_data_except(&self, except: &[u32]) -> Option<FileNumber> {
        self.families.values().filter(|family| !except.contains(&family.id)).map(|family| family.log_number).min()
    }

    /// Tells that a column family without anything in memory needs no WAL below `number`. In memory only: the next flush of
    /// the family writes it down, when the WALs below are synced.
    pub fn raise_log_number(&mut self, id: u32, number: FileNumber) {
        if let Some(family) = self.families.get_mut(&id) {
            family.log_number = family.log_number.max(number);
        }
    }

    /// The highest column family id ever used.
    pub fn max_column_family(&self) -> u32 {
        self.max_column_family
    }

    /// Tracked WALs.
    pub fn wals(&self) -> &WalSet {
        &self.wals
    }

    /// The number of the MANIFEST that `CURRENT` names.
    pub fn manifest_number(&self) -> FileNumber {
        self.manifest_number
    }

    /// Bytes of the current MANIFEST.
    pub fn manifest_size(&self) -> u64 {
        self.manifest_size
    }

    /// Whether a MANIFEST with this number may be deleted: it is older than the current one, and `CURRENT` cannot name it.
    pub fn is_manifest_obsolete(&self, number: FileNumber) -> bool {
        number < self.manifest_number && !self.uncertain_manifests.contains(&number)
    }

    /// The MANIFESTs that became obsolete since the last call.
    pub fn take_obsolete_manifests(&mut self) -> Vec<FileNumber> {
        std::mem::take(&mut self.obsolete_manifests)
    }

    /// Where files arrive that no version has any more.
    pub fn obsolete(&self) -> &Arc<ObsoleteFiles> {
        &self.obsolete
    }

    /// The path of a table file of the column family (`.sst`, or LevelDB's `.ldb` where only that exists).
    ///
    /// # Errors
    /// The file system's.
    pub fn table_path(&self, spec: &FamilySpec, file: &FileMetaData) -> Result<PathBuf> {
        manifest::table_path(&*self.options.fs, spec_directory(spec, file.path_id, &self.options.db_path), file.number)
    }

    /// The numbers of all table files that some version, held by anybody, has, and of those that a failed write may have
    /// recorded.
    pub fn live_tables(&self) -> HashSet<FileNumber> {
        let mut live: HashSet<FileNumber> = self.quarantined.iter().copied().collect();
        for version in self.alive.iter().filter_map(Weak::upgrade) {
            live.extend(version.all_files().map(|(_, file)| file.number));
        }
        live
    }

    /// The numbers of all blob files that some version, held by anybody, has.
    pub fn live_blobs(&self) -> HashSet<FileNumber> {
        let versions = self.alive.iter().filter_map(Weak::upgrade);
        versions.flat_map(|version| version.blob_files().keys().copied().collect::<Vec<_>>()).collect()
    }

    /// Number of versions that somebody holds, for the property of that name.
    pub fn num_live_versions(&self, column_family: u32) -> usize {
        self.alive.iter().filter_map(Weak::upgrade).filter(|version| version.column_family() == column_family).count()
    }

    /// The change that creates a column family; `log_number` is the WAL that its first write goes to.
    ///
    /// # Errors
    /// `InvalidArgument` if the name is taken or empty.
    pub fn new_column_family(&self, spec: FamilySpec, log_number: FileNumber) -> Result<ManifestChange> {
        if spec.name.is_empty() {
            return Err(Error::invalid_argument("Column family name cannot be the empty string"));
        }
        if self.family_by_name(&spec.name).is_some() {
            return Err(Error::invalid_argument("Column family already exists"));
        }
        let edit = VersionEdit {
            comparator: Some(spec.order.user_comparator().name().to_owned()),
            persist_user_defined_timestamps: Some(true),
            log_number: Some(log_number),
            // The id is settled when the change is prepared, since other changes may come before it.
            column_family_add: Some(spec.name.clone()),
            ..VersionEdit::default()
        };
        Ok(ManifestChange { edits: vec![edit], new_family: Some(spec), ..ManifestChange::default() })
    }

    /// The change that drops a column family.
    ///
    /// # Errors
    /// `InvalidArgument` for the default column family and for one that does not exist.
    pub fn drop_column_family(&self, id: u32) -> Result<ManifestChange> {
        if id == DEFAULT_COLUMN_FAMILY_ID {
            return Err(Error::invalid_argument("Can't drop default column family"));
        }
        if !self.families.contains_key(&id) {
            return Err(Error::invalid_argument("Column family already dropped!\n"));
        }
        Ok(VersionEdit { column_family: id, column_family_drop: true, ..VersionEdit::default() }.into())
    }

    /// Whether a change is between `prepare` and `install`.
    pub fn is_writing(&self) -> bool {
        self.writing
    }

    /// Signalled (by [`log_and_apply`](Self::log_and_apply)) whenever a change is installed or given up.
    pub fn idle(&self) -> &Arc<Condvar> {
        &self.idle
    }

    /// Makes a change durable and publishes it. Gives the mutex up during I/O; changes of several callers follow each other.
    ///
    /// # Errors
    /// `ColumnFamilyDropped` if all edits are of dropped column families; `Corruption` if the edits contradict the state;
    /// the file system's errors, after which nothing was published, the next change starts a new MANIFEST, and recovery may
    /// or may not see the change.
    pub fn log_and_apply<T: HoldsVersions>(guard: &mut MutexGuard<'_, T>, change: ManifestChange) -> Result<Installed> {
        let idle = Arc::clone(&guard.versions().idle);
        while guard.versions().writing {
            idle.wait(guard);
        }
        let pending = guard.versions().prepare(change)?;
        let outcome = MutexGuard::unlocked(guard, || pending.write());
        let installed = guard.versions().install(outcome);
        idle.notify_all();
        installed
    }

    /// First step of a change, under the mutex: stamps the edits with the counters and notes what they start from.
    ///
    /// # Errors
    /// `ColumnFamilyDropped` if all edits are of dropped column families, `Busy` if another change is not installed yet.
    pub fn prepare(&mut self, change: ManifestChange) -> Result<PendingWrite> {
        if self.writing {
            return Err(Error::busy("another change of the MANIFEST is being written"));
        }
        let ManifestChange { mut edits, atomic, new_family, new_manifest } = change;
        let had_edits = !edits.is_empty();
        edits.retain(|edit| edit.column_family_add.is_some() || self.families.contains_key(&edit.column_family));
        if had_edits && edits.is_empty() {
            return Err(Error::column_family_dropped("the column family was dropped"));
        }
        let start_new =
            new_manifest || self.writer.as_ref().is_none_or(|writer| writer.size() >= self.manifest_limit());
        let snapshot = start_new.then(|| (self.numbers.next(), self.snapshot()));
        self.stamp(&mut edits, atomic, snapshot.is_some());
        let bases = edits
            .iter()
            .filter(|edit| edit.kind() == EditKind::Ordinary)
            .filter_map(|edit| self.families.get(&edit.column_family))
            .map(|family| (family.id, (Arc::clone(&family.current), family.spec.force_consistency_checks)))
            .collect();
        self.writing = true;
        let writer = if snapshot.is_some() { None } else { self.writer.take() };
        self.next_version_number += 1;
        Ok(PendingWrite {
            options: self.options.clone(),
            edits,
            new_family,
            bases,
            writer,
            snapshot,
            version_number: self.next_version_number,
            obsolete: Arc::clone(&self.obsolete),
        })
    }

    fn manifest_limit(&self) -> u64 {
        let percent = 100 + u128::from(self.options.max_manifest_space_amp_pct.max(0).unsigned_abs());
        let grown = u128::from(self.last_compacted_size) * percent / 100;
        self.options.max_manifest_file_size.max(u64::try_from(grown).unwrap_or(u64::MAX))
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            db_id: self.db_id.clone().filter(|_| self.options.write_dbid_to_manifest),
            wals: self.wals.clone(),
            min_log_number_to_keep: self.min_log_number_to_keep,
            last_sequence: self.logged_sequence,
            families: self
                .families()
                .map(|family| FamilySnapshot {
                    id: family.id,
                    name: family.spec.name.clone(),
                    comparator: family.spec.order.user_comparator().name().to_owned(),
                    log_number: family.recorded_log_number,
                    full_history_ts_low: family.full_history_ts_low.clone(),
                    version: Arc::clone(&family.current),
                })
                .collect(),
        }
    }

    /// Gives the edits the counters that every record carries.
    fn stamp(&mut self, edits: &mut [VersionEdit], atomic: bool, new_manifest: bool) {
        let count = edits.len();
        let mut last_sequence = self.logged_sequence;
        let next_file_number = self.numbers.peek();
        for (at, edit) in edits.iter_mut().enumerate() {
            if edit.column_family_add.is_some() {
                edit.column_family = self.max_column_family + 1;
            }
            if edit.column_family_drop || (new_manifest && at == 0 && self.max_column_family > 0) {
                edit.max_column_family = Some(self.max_column_family);
            }
            if !edit.is_column_family_manipulation() && edit.prev_log_number.is_none() {
                edit.prev_log_number = Some(self.prev_log_number);
            }
            edit.next_file_number = Some(next_file_number);
            // Along a MANIFEST this never goes back: readers take the last one they see.
            last_sequence = [edit.last_sequence, edit.largest_sequence_of_new_files()]
                .into_iter()
                .flatten()
                .fold(last_sequence, Ord::max);
            edit.last_sequence = Some(last_sequence);
            edit.remaining_entries = atomic.then(|| u32::try_from(count - 1 - at).unwrap_or(u32::MAX));
        }
        self.logged_sequence = last_sequence;
    }

    /// Last step of a change, under the mutex: publishes what was written, or takes note of the failure.
    ///
    /// # Errors
    /// The error of the write. Nothing is published then.
    pub fn install(&mut self, outcome: WriteOutcome) -> Result<Installed> {
        debug_assert!(self.writing);
        self.writing = false;
        let WriteOutcome { edits, new_family, result } = outcome;
        let written = match result {
            Ok(written) => written,
            Err(failure) => {
                // Whether the records became durable is unknown; what they mention must survive until a MANIFEST is
                // complete that either has it or not.
                if failure.may_be_durable {
                    self.quarantined.extend(edits.iter().flat_map(|e| e.new_files.iter().map(|(_, f)| f.number)));
                }
                self.uncertain_manifests.extend(failure.uncertain_manifest);
                if failure.uncertain_manifest.is_some() {
                    self.uncertain_manifests.insert(self.manifest_number);
                }
                self.writer = failure.intact_writer;
                return Err(failure.error);
            }
        };
        if written.new_manifest {
            self.last_compacted_size = written.writer.compacted_size();
            self.obsolete_manifests.push(self.manifest_number);
            self.obsolete_manifests.extend(std::mem::take(&mut self.uncertain_manifests));
            self.quarantined.clear();
        }
        self.manifest_number = written.writer.number();
        self.manifest_size = written.writer.size();
        self.writer = Some(written.writer);
        let mut versions = Vec::new();
        for version in written.versions {
            if let Some(family) = self.families.get_mut(&version.column_family()) {
                family.current = Arc::clone(&version);
                versions.push(version);
            }
        }
        for edit in &edits {
            self.take_numbers(edit);
            match edit.kind() {
                EditKind::ColumnFamilyAdd => {
                    if let Some(spec) = &new_family {
                        versions.push(self.add_family(edit, spec.clone()));
                    }
                }
                EditKind::ColumnFamilyDrop => {
                    self.families.remove(&edit.column_family);
                    self.creation_order.retain(|id| *id != edit.column_family);
                }
                EditKind::WalAddition => edit.wal_additions.iter().try_for_each(|wal| self.wals.add(wal))?,
                EditKind::WalDeletion | EditKind::Ordinary => {}
            }
        }
        self.alive.retain(|version| version.strong_count() > 0);
        self.alive.extend(versions.iter().map(Arc::downgrade));
        Ok(Installed { versions, new_manifest: written.new_manifest })
    }

    fn take_numbers(&mut self, edit: &VersionEdit) {
        if let Some(number) = edit.min_log_number_to_keep {
            self.min_log_number_to_keep = self.min_log_number_to_keep.max(number);
        }
        if let Some(below) = edit.wal_deletion {
            self.wals.delete_below(below);
        }
        if let Some(db_id) = &edit.db_id {
            self.db_id = Some(db_id.clone());
        }
        if let Some(family) = self.families.get_mut(&edit.column_family) {
            if let Some(number) = edit.log_number {
                family.recorded_log_number = family.recorded_log_number.max(number);
                family.log_number = family.log_number.max(number);
            }
            if edit.full_history_ts_low.is_some() {
                family.full_history_ts_low.clone_from(&edit.full_history_ts_low);
            }
        }
    }

    fn add_family(&mut self, edit: &VersionEdit, spec: FamilySpec) -> Arc<Version> {
        let id = edit.column_family;
        self.max_column_family = self.max_column_family.max(id);
        let current = Arc::new(Version::empty(id, spec.order.clone(), spec.num_levels));
        let family = FamilyVersions {
            id,
            spec,
            current: Arc::clone(&current),
            log_number: edit.log_number.unwrap_or_default(),
            recorded_log_number: edit.log_number.unwrap_or_default(),
            full_history_ts_low: None,
            next_epoch_number: 1,
        };
        self.families.insert(id, family);
        self.creation_order.push(id);
        current
    }
}

impl std::fmt::Debug for VersionSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VersionSet")
            .field("manifest_number", &self.manifest_number)
            .field("numbers", &self.numbers)
            .field("families", &self.families)
            .finish_non_exhaustive()
    }
}

/// The directory of table files with this path id.
pub(crate) fn spec_directory<'a>(spec: &'a FamilySpec, path_id: u32, db_path: &'a Path) -> &'a Path {
    spec.paths.get(path_id as usize).or(spec.paths.last()).map_or(db_path, PathBuf::as_path)
}

/// Verifies that every table file is there with the size that the MANIFEST tells.
fn check_table_files(options: &VersionSetOptions, state: &RecoveredState) -> Result<()> {
    for family in &state.families {
        for (_, file) in family.version.all_files() {
            let directory = spec_directory(&family.spec, file.path_id, &options.db_path);
            let path = manifest::table_path(&*options.fs, directory, file.number)?;
            let actual = options.fs.file_size(&path).map_err(|error| {
                if error.is_path_not_found() {
                    manifest::blame(Error::corruption(error.to_string()), &path, 0)
                } else {
                    error
                }
            })?;
            if actual != file.file_size {
                let error = Error::corruption(format!(
                    "Sst file size mismatch between expected {} and file system {actual} sstable: {}",
                    file.file_size,
                    path.display()
                ));
                return Err(manifest::blame(error, &path, actual.min(file.file_size)));
            }
        }
    }
    Ok(())
}
