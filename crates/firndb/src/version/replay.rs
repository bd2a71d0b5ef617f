//! Replaying a MANIFEST: [`ManifestReplay`] folds its edits into the state that a database opens with.
//!
//! Pure: edits flow in one by one, the recovered column families and counters come out of
//! [`finish`](ManifestReplay::finish). Nothing is published before the whole MANIFEST was read and checked, so a MANIFEST
//! that contradicts itself leaves no trace.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use firn_error::{Error, Result};
use firn_format::comparator::InternalKeyComparator;
use firn_format::key::{FileNumber, SequenceNumber};
use firn_format::version_edit::{DEFAULT_COLUMN_FAMILY_ID, DEFAULT_COLUMN_FAMILY_NAME, EditKind, VersionEdit};

use super::builder::{self, ConsistencyChecks, FileStatsLoader, RecoveredEpochs, VersionBuilder};
use super::{Version, WalSet};

/// No file gets such an epoch number: there is one for each flush and compaction.
const EPOCH_NUMBERS_END: u64 = 1 << 62;

/// The column family in which RocksDB keeps its statistics history; it is opened without being asked for.
pub const PERSISTENT_STATS_COLUMN_FAMILY_NAME: &str = "___rocksdb_stats_history___";

/// How the names of comparators with user-defined timestamps end.
const TIMESTAMP_SUFFIX: &str = ".u64ts";

/// What a column family is opened with, as far as its files are concerned.
#[derive(Clone, Debug)]
pub struct FamilySpec {
    /// The name.
    pub name: String,
    /// The order of internal keys.
    pub order: InternalKeyComparator,
    /// Configured number of levels; at least 1.
    pub num_levels: usize,
    /// Check the order of levels whenever files change. Default: true.
    pub force_consistency_checks: bool,
    /// Epoch 1 is kept for files that are ingested behind all others. Default: false.
    pub allow_ingest_behind: bool,
    /// Directories of table files, by path id; ids beyond the last mean the last. Never empty.
    pub paths: Vec<PathBuf>,
}

impl FamilySpec {
    fn checks(&self) -> ConsistencyChecks {
        if self.force_consistency_checks { ConsistencyChecks::Force } else { ConsistencyChecks::Skip }
    }
}

/// Whether the open may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// All column families must be opened.
    ReadWrite,
    /// A subset of the column families is enough.
    ReadOnly,
}

/// A column family as its MANIFEST left it.
#[derive(Debug)]
pub struct RecoveredFamily {
    /// The id.
    pub id: u32,
    /// What it is opened with.
    pub spec: FamilySpec,
    /// Its files.
    pub version: Version,
    /// WALs with smaller numbers hold nothing for it.
    pub log_number: FileNumber,
    /// History of user timestamps below this may be gone.
    pub full_history_ts_low: Option<Vec<u8>>,
    /// Its epoch numbers.
    pub epochs: RecoveredEpochs,
}

/// Everything that a MANIFEST tells.
#[derive(Debug)]
pub struct RecoveredState {
    /// The opened column families in order of their creation, the default one first.
    pub families: Vec<RecoveredFamily>,
    /// Column families that exist and were not asked for.
    pub not_opened: Vec<String>,
    /// The identity of the database, if the MANIFEST has it.
    pub db_id: Option<String>,
    /// The next file number when the last edit was written.
    pub next_file_number: FileNumber,
    /// At least the greatest sequence number in any file.
    pub last_sequence: SequenceNumber,
    /// LevelDB's second WAL.
    pub prev_log_number: FileNumber,
    /// The highest column family id ever used.
    pub max_column_family: u32,
    /// WALs with smaller numbers are obsolete.
    pub min_log_number_to_keep: FileNumber,
    /// Tracked WALs.
    pub wals: WalSet,
    /// Bytes of the snapshot at the head of the MANIFEST, if it tells.
    pub last_compacted_manifest_file_size: Option<u64>,
    /// Things that are wrong but harmless, for the info log.
    pub warnings: Vec<String>,
}

struct Family {
    spec: FamilySpec,
    builder: VersionBuilder,
    log_number: FileNumber,
    full_history_ts_low: Option<Vec<u8>>,
    order_of_creation: usize,
}

impl Family {
    fn new(id: u32, spec: FamilySpec, order_of_creation: usize) -> Self {
        let base = Version::empty(id, spec.order.clone(), spec.num_levels);
        Self {
            spec,
            builder: VersionBuilder::new(Arc::new(base)),
            log_number: FileNumber(0),
            full_history_ts_low: None,
            order_of_creation,
        }
    }
}

/// Folds edits into a state; see the module.
pub struct ManifestReplay {
    requested: HashMap<String, FamilySpec>,
    opened: BTreeMap<u32, Family>,
    not_opened: BTreeMap<u32, String>,
    families_created: usize,
    /// Edits of an atomic group that is not complete yet.
    group: Vec<VersionEdit>,
    db_id: Option<String>,
    log_number_seen: bool,
    next_file_number: Option<FileNumber>,
    last_sequence: Option<SequenceNumber>,
    prev_log_number: FileNumber,
    max_column_family: u32,
    min_log_number_to_keep: FileNumber,
    wals: WalSet,
    last_compacted_manifest_file_size: Option<u64>,
    warnings: BTreeSet<String>,
}

impl ManifestReplay {
    /// A replay for the given column families.
    ///
    /// # Errors
    /// `InvalidArgument` if the default column family is not among them.
    pub fn new(requested: Vec<FamilySpec>) -> Result<Self> {
        let mut requested: HashMap<_, _> = requested.into_iter().map(|spec| (spec.name.clone(), spec)).collect();
        let Some(default) = requested.get(DEFAULT_COLUMN_FAMILY_NAME).cloned() else {
            return Err(Error::invalid_argument("Default column family not specified"));
        };
        requested.entry(PERSISTENT_STATS_COLUMN_FAMILY_NAME.to_owned()).or_insert_with(|| FamilySpec {
            name: PERSISTENT_STATS_COLUMN_FAMILY_NAME.to_owned(),
            order: InternalKeyComparator::default(),
            ..default.clone()
        });
        Ok(Self {
            requested,
            opened: BTreeMap::from([(DEFAULT_COLUMN_FAMILY_ID, Family::new(DEFAULT_COLUMN_FAMILY_ID, default, 0))]),
            not_opened: BTreeMap::new(),
            families_created: 1,
            group: Vec::new(),
            db_id: None,
            log_number_seen: false,
            next_file_number: None,
            last_sequence: None,
            prev_log_number: FileNumber(0),
            max_column_family: 0,
            min_log_number_to_keep: FileNumber(0),
            wals: WalSet::default(),
            last_compacted_manifest_file_size: None,
            warnings: BTreeSet::new(),
        })
    }

    /// Takes the next edit of the MANIFEST. Edits of an atomic group wait until the group is complete.
    ///
    /// # Errors
    /// `Corruption` if the edit contradicts those before it, `InvalidArgument` if a column family has another comparator than
    /// the one it is opened with.
    pub fn add(&mut self, edit: VersionEdit) -> Result<()> {
        let expected = self.group.last().and_then(|last| last.remaining_entries);
        match (expected, edit.remaining_entries) {
            (None, None) => self.apply(&edit),
            (Some(expected), Some(remaining)) if expected != remaining.wrapping_add(1) => {
                Err(Error::corruption("corrupted atomic group"))
            }
            (Some(_), None) => Err(Error::corruption("corrupted atomic group")),
            (_, Some(remaining)) => {
                self.group.push(edit);
                if remaining > 0 {
                    return Ok(());
                }
                std::mem::take(&mut self.group).iter().try_for_each(|edit| self.apply(edit))
            }
        }
    }

    fn apply(&mut self, edit: &VersionEdit) -> Result<()> {
        match edit.kind() {
            EditKind::ColumnFamilyAdd => self.add_column_family(edit)?,
            EditKind::ColumnFamilyDrop => self.drop_column_family(edit)?,
            EditKind::WalAddition => edit.wal_additions.iter().try_for_each(|wal| self.wals.add(wal))?,
            EditKind::WalDeletion => edit.wal_deletion.iter().for_each(|below| self.wals.delete_below(*below)),
            EditKind::Ordinary => self.apply_ordinary(edit)?,
        }
        self.take_numbers(edit);
        Ok(())
    }

    fn take_numbers(&mut self, edit: &VersionEdit) {
        if edit.db_id.is_some() {
            self.db_id.clone_from(&edit.db_id);
        }
        if edit.next_file_number.is_some() {
            self.next_file_number = edit.next_file_number;
        }
        if let Some(sequence) = edit.last_sequence {
            if self.last_sequence.is_some_and(|last| sequence < last) {
                self.warnings.insert("MANIFEST: last sequence numbers in records NOT monotonically increasing".into());
            }
            self.last_sequence = Some(sequence);
        }
        if let Some(number) = edit.prev_log_number {
            self.prev_log_number = number;
        }
        if let Some(id) = edit.max_column_family {
            self.max_column_family = self.max_column_family.max(id);
        }
        if let Some(number) = edit.min_log_number_to_keep {
            self.min_log_number_to_keep = self.min_log_number_to_keep.max(number);
        }
        if edit.last_compacted_manifest_file_size.is_some() {
            self.last_compacted_manifest_file_size = edit.last_compacted_manifest_file_size;
        }
    }

    fn add_column_family(&mut self, edit: &VersionEdit) -> Result<()> {
        let id = edit.column_family;
        let name = edit.column_family_add.as_deref().unwrap_or_default();
        let known_name = self.opened.values().any(|family| family.spec.name == name)
            || self.not_opened.values().any(|other| other == name);
        if self.opened.contains_key(&id) || self.not_opened.contains_key(&id) || known_name {
            return Err(Error::corruption(format!("MANIFEST adding the same column family twice: {name}")));
        }
        self.max_column_family = self.max_column_family.max(id);
        match self.requested.get(name) {
            Some(spec) => {
                self.opened.insert(id, Family::new(id, spec.clone(), self.families_created));
                self.families_created += 1;
                self.take_family_fields(edit)
            }
            None => {
                self.not_opened.insert(id, name.to_owned());
                Ok(())
            }
        }
    }

    fn drop_column_family(&mut self, edit: &VersionEdit) -> Result<()> {
        let id = edit.column_family;
        if id == DEFAULT_COLUMN_FAMILY_ID {
            return Err(Error::corruption("MANIFEST - dropping the default column family"));
        }
        if self.opened.remove(&id).is_none() && self.not_opened.remove(&id).is_none() {
            return Err(Error::corruption("MANIFEST - dropping non-existing column family"));
        }
        Ok(())
    }

    fn apply_ordinary(&mut self, edit: &VersionEdit) -> Result<()> {
        if self.not_opened.contains_key(&edit.column_family) {
            return Ok(());
        }
        self.take_family_fields(edit)?;
        for (_, file) in &edit.new_files {
            file.number.checked("number of a table")?;
            if file.largest_sequence > SequenceNumber::MAX {
                let (number, sequence) = (file.number, file.largest_sequence);
                return Err(Error::corruption(format!("sequence number {sequence} of table {number} is too large")));
            }
            // The next file gets a greater one; if that fails, tables of this run do not open again.
            if file.epoch_number >= EPOCH_NUMBERS_END {
                let (number, epoch) = (file.number, file.epoch_number);
                return Err(Error::corruption(format!("epoch number {epoch} of table {number} is too large")));
            }
        }
        match self.opened.get_mut(&edit.column_family) {
            Some(family) => family.builder.apply(edit),
            None => Err(Error::corruption("MANIFEST record referencing unknown column family")),
        }
    }

    /// Takes over log number, comparator and timestamp bound of an opened column family.
    fn take_family_fields(&mut self, edit: &VersionEdit) -> Result<()> {
        let Some(family) = self.opened.get_mut(&edit.column_family) else {
            return Err(Error::corruption("MANIFEST record referencing unknown column family"));
        };
        if let Some(number) = edit.log_number {
            self.log_number_seen = true;
            if number < family.log_number {
                self.warnings.insert(
                    "MANIFEST corruption detected, but ignored - Log numbers in records NOT monotonically increasing"
                        .into(),
                );
            } else {
                family.log_number = number;
            }
        }
        if let Some(recorded) = &edit.comparator {
            let configured = family.spec.order.user_comparator().name();
            if recorded != configured {
                if recorded.ends_with(TIMESTAMP_SUFFIX) && !configured.ends_with(TIMESTAMP_SUFFIX) {
                    return Err(Error::not_supported(format!("user-defined timestamps (comparator {recorded})")));
                }
                return Err(Error::invalid_argument(format!(
                    "{configured}: does not match existing comparator {recorded}"
                )));
            }
        }
        if family.spec.order.user_comparator().timestamp_size() > 0
            && edit.new_files.iter().any(|(_, file)| !file.user_defined_timestamps_persisted)
        {
            return Err(Error::not_supported(format!(
                "column family {} has files whose user-defined timestamps are not persisted",
                family.spec.name
            )));
        }
        if edit.full_history_ts_low.is_some() {
            family.full_history_ts_low.clone_from(&edit.full_history_ts_low);
        }
        Ok(())
    }

    /// Numbers that no writer reaches, or that lie in the future: counters would wrap, and WALs of this run would count as
    /// older than what tables hold.
    fn check_numbers(&self, next_file_number: FileNumber, last_sequence: SequenceNumber) -> Result<()> {
        next_file_number.checked("MANIFEST: next file number")?;
        if last_sequence > SequenceNumber::MAX {
            return Err(Error::corruption(format!("MANIFEST: last sequence number {last_sequence} is too large")));
        }
        if let Some(number) = self.wals.last_number() {
            number.checked("MANIFEST: number of a tracked WAL")?;
        }
        let in_future = |what: &str, number: FileNumber| {
            Err(Error::corruption(format!(
                "MANIFEST: {what} {number} is not below the next file number {next_file_number}"
            )))
        };
        if self.min_log_number_to_keep >= next_file_number {
            return in_future("smallest log number to keep", self.min_log_number_to_keep);
        }
        match self.opened.values().find(|family| family.log_number >= next_file_number) {
            Some(family) => {
                in_future(&format!("log number of column family {:?},", family.spec.name), family.log_number)
            }
            None => Ok(()),
        }
    }

    /// The state that the edits lead to. A group that is not complete is left out, as the crash that cut it off left it out.
    ///
    /// # Errors
    /// `Corruption` if the MANIFEST lacks what every one has or its files do not form a tree; `InvalidArgument` if column
    /// families exist that a read-write open did not ask for, or more levels than are configured.
    pub fn finish(self, mode: OpenMode, stats: &dyn FileStatsLoader) -> Result<RecoveredState> {
        let missing: Vec<&str> = [
            (self.log_number_seen, "log_file_number"),
            (self.next_file_number.is_some(), "next_file_number"),
            (self.last_sequence.is_some(), "last_sequence"),
        ]
        .into_iter()
        .filter_map(|(seen, name)| (!seen).then_some(name))
        .collect();
        let (true, Some(next_file_number), Some(last_sequence)) =
            (missing.is_empty(), self.next_file_number, self.last_sequence)
        else {
            return Err(Error::corruption(format!("no {} entry in MANIFEST", missing.join(", "))));
        };
        self.check_numbers(next_file_number, last_sequence)?;
        let not_opened: Vec<String> = self.not_opened.into_values().collect();
        if mode == OpenMode::ReadWrite && !not_opened.is_empty() {
            return Err(Error::invalid_argument(format!("Column families not opened: {}", not_opened.join(", "))));
        }
        let mut warnings: Vec<String> = self.warnings.into_iter().collect();
        let mut families = Vec::with_capacity(self.opened.len());
        for (id, family) in self.opened {
            let checks = family.spec.checks();
            let version = family.builder.finish(1, stats, checks).map_err(|error| {
                if error.is_corruption() {
                    error.with_context(format!("column family {}", family.spec.name))
                } else {
                    error
                }
            })?;
            let (version, epochs) = builder::recover_epochs(version, u64::from(family.spec.allow_ingest_behind));
            if epochs.inferred {
                warnings.push(format!("[{}] CF's epoch numbers are inferred based on seqno", family.spec.name));
            }
            let recovered = RecoveredFamily {
                id,
                spec: family.spec,
                version,
                log_number: family.log_number,
                full_history_ts_low: family.full_history_ts_low,
                epochs,
            };
            families.push((family.order_of_creation, recovered));
        }
        families.sort_by_key(|(order, _)| *order);
        Ok(RecoveredState {
            families: families.into_iter().map(|(_, family)| family).collect(),
            not_opened,
            db_id: self.db_id,
            next_file_number,
            last_sequence,
            prev_log_number: self.prev_log_number,
            max_column_family: self.max_column_family,
            min_log_number_to_keep: self.min_log_number_to_keep,
            wals: self.wals,
            last_compacted_manifest_file_size: self.last_compacted_manifest_file_size,
            warnings,
        })
    }
}

/// The names of the column families that a MANIFEST tells of, by ascending id. Edits are only decoded, not checked.
#[derive(Debug)]
pub struct ColumnFamilyNames(BTreeMap<u32, String>);

impl Default for ColumnFamilyNames {
    fn default() -> Self {
        Self(BTreeMap::from([(DEFAULT_COLUMN_FAMILY_ID, DEFAULT_COLUMN_FAMILY_NAME.to_owned())]))
    }
}

impl ColumnFamilyNames {
    /// Takes the next edit of the MANIFEST.
    ///
    /// # Errors
    /// `Corruption` if a column family is added twice, or dropped without being there.
    pub fn add(&mut self, edit: &VersionEdit) -> Result<()> {
        match edit.kind() {
            EditKind::ColumnFamilyAdd => {
                let name = edit.column_family_add.clone().unwrap_or_default();
                if self.0.insert(edit.column_family, name).is_some() {
                    return Err(Error::corruption("Manifest adding the same column family twice"));
                }
            }
            EditKind::ColumnFamilyDrop => {
                let dropped = self.0.remove(&edit.column_family);
                if dropped.is_none() || edit.column_family == DEFAULT_COLUMN_FAMILY_ID {
                    return Err(Error::corruption("Manifest - dropping non-existing column family"));
                }
            }
            EditKind::WalAddition | EditKind::WalDeletion | EditKind::Ordinary => {}
        }
        Ok(())
    }

    /// The id of the column family called `name`.
    pub fn id_of(&self, name: &str) -> Option<u32> {
        self.0.iter().find(|(_, known)| *known == name).map(|(id, _)| *id)
    }

    /// The names, by ascending id.
    pub fn into_names(self) -> Vec<String> {
        self.0.into_values().collect()
    }
}
