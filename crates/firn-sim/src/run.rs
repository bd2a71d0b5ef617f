//! Carrying a workload out.
//!
//! One thread does everything: the calls, and the background jobs when a step says so or when a call waits for them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_env::FileSystem;
use firn_env::crash::CrashFileSystem;
use firn_error::{Error, Result};
use firndb::options::{
    CompactRangeOptions, CompactionOptions, FlushOptions, IngestExternalFileOptions, WalRecoveryMode,
};
use firndb::{
    ColumnFamily, ColumnFamilyDescriptor, Db, ImportColumnFamilyOptions, IngestExternalFiles, WriteBatch, WriteOptions,
    sst_file_writer,
};

use crate::Violation;
use crate::agreement::{self, Held};
use crate::history::{CheckpointMade, FamilyLife, History, Span, State};
use crate::workload::{ExternalFile, FamilyId, Import, Ingestion, Logging, Record, Setup, Step, Transfer, Workload};
use crate::world::{checkpoint_path, db_path, environment, export_path, external_path};

/// An open database with its families under their ids.
pub struct Session {
    /// The handle.
    pub db: Db,
    /// The families.
    pub families: BTreeMap<FamilyId, ColumnFamily>,
}

impl Session {
    /// Opens the database with these families, which must be all.
    ///
    /// # Errors
    /// Those of the open.
    pub fn open(
        fs: Arc<dyn FileSystem>,
        setup: &Setup,
        names: &BTreeMap<FamilyId, String>,
        mode: WalRecoveryMode,
        seed: u64,
    ) -> Result<Self> {
        let options = setup.db_options(environment(fs, seed), mode);
        Self::open_with(setup, names, |descriptors| Db::open_cf(db_path(), options, descriptors))
    }

    /// Opens a database with these families in another way.
    ///
    /// # Errors
    /// Those of the open.
    pub fn open_with(
        setup: &Setup,
        names: &BTreeMap<FamilyId, String>,
        open: impl FnOnce(Vec<ColumnFamilyDescriptor>) -> Result<Db>,
    ) -> Result<Self> {
        let descriptors = names.values().map(|name| ColumnFamilyDescriptor::new(name, setup.family_options()));
        let db = open(descriptors.collect())?;
        let families = names.iter().filter_map(|(id, name)| Some((*id, db.cf(name)?))).collect();
        Ok(Self { db, families })
    }

    fn family(&self, family: FamilyId) -> Result<&ColumnFamily> {
        self.families
            .get(&family)
            .ok_or_else(|| Error::invalid_argument(format!("the workload has no family {family}")))
    }

    /// The batch of some records.
    ///
    /// # Errors
    /// Unknown families.
    pub fn batch(&self, records: &[Record]) -> Result<WriteBatch> {
        let mut batch = WriteBatch::new();
        for record in records {
            let family = self.family(record.family())?;
            match record {
                Record::Put { key, value, .. } => batch.put_cf(family, key, value)?,
                Record::Delete { key, .. } => batch.delete_cf(family, key)?,
                Record::SingleDelete { key, .. } => batch.single_delete_cf(family, key)?,
                Record::DeleteRange { begin, end, .. } => batch.delete_range_cf(family, begin, end)?,
                Record::Merge { key, operand, .. } => batch.merge_cf(family, key, operand)?,
                Record::Import { .. } => return Err(Error::not_supported("an import in a batch")),
            }
        }
        Ok(batch)
    }

    /// Carries out one step but [`Step::Reopen`].
    ///
    /// # Errors
    /// What the database answers.
    pub fn step(&mut self, setup: &Setup, step: &Step) -> Result<()> {
        match step {
            Step::Write { records, sync } => {
                let disable_wal = setup.logging == Logging::None;
                let options = WriteOptions { sync: *sync, disable_wal, ..WriteOptions::default() };
                self.db.write_opt(&options, &mut self.batch(records)?)
            }
            Step::Ingest(ingestion) => self.ingest(ingestion),
            Step::Flush { families, wait } => {
                let options = FlushOptions { wait: *wait, allow_write_stall: true, ..FlushOptions::default() };
                let families = families.iter().map(|id| self.family(*id)).collect::<Result<Vec<_>>>()?;
                self.db.flush_cfs(&options, &families)
            }
            Step::Compact { family } => {
                self.db.compact_range(&CompactRangeOptions::default(), self.family(*family)?, None, None)
            }
            Step::CompactFiles { family, pick } => self.compact_files(*family, *pick),
            Step::FlushWal { sync } => self.db.flush_wal(*sync),
            Step::CreateFamily { family, name } => {
                let created = self.db.create_cf(name, setup.family_options())?;
                self.families.insert(*family, created);
                Ok(())
            }
            Step::Import(import) => self.import(setup, import),
            Step::DropFamily { family } => {
                self.db.drop_cf(self.family(*family)?)?;
                self.families.remove(family);
                Ok(())
            }
            Step::SetOptions { family, name, value } => self.db.set_options(self.family(*family)?, &[(name, value)]),
            Step::Checkpoint { number, log_size_for_flush } => {
                self.db.checkpoint_with_wal(checkpoint_path(*number), *log_size_for_flush).map(drop)
            }
            Step::Work { jobs } => {
                let options = self.db.options(self.db.default_cf());
                (0..*jobs).for_each(|_| {
                    options.db.env.pools().run_one();
                });
                Ok(())
            }
            Step::WaitForCompact => self.db.wait_for_compact(),
            Step::Reopen => Err(Error::not_supported("reopening is the runner's business")),
        }
    }

    /// Writes the external files and adds them.
    fn ingest(&self, ingestion: &Ingestion) -> Result<()> {
        let mut of_families: BTreeMap<FamilyId, Vec<PathBuf>> = BTreeMap::new();
        for (index, file) in ingestion.files.iter().enumerate() {
            let path = external_path(ingestion.number, index);
            self.write_external(file, &path)?;
            of_families.entry(file.family).or_default().push(path);
        }
        let options = IngestExternalFileOptions {
            move_files: ingestion.transfer == Transfer::Move,
            link_files: ingestion.transfer == Transfer::Link,
            write_global_seqno: ingestion.write_sequence,
            ..IngestExternalFileOptions::default()
        };
        let one = |(family, files)| {
            let cf = self.family(family)?;
            Ok(IngestExternalFiles { cf, files, checksums: Vec::new(), options })
        };
        self.db.ingest_external_files(&of_families.into_iter().map(one).collect::<Result<Vec<_>>>()?)
    }

    fn write_external(&self, file: &ExternalFile, path: &Path) -> Result<()> {
        let options = self.db.options(self.family(file.family)?);
        if let Some(directory) = path.parent() {
            options.db.env.fs().create_dir_if_missing(directory)?;
        }
        let mut writer = sst_file_writer(&options);
        writer.open(path)?;
        for record in &file.records {
            match record {
                Record::Put { key, value, .. } => writer.put(key, value)?,
                Record::Merge { key, operand, .. } => writer.merge(key, operand)?,
                Record::DeleteRange { begin, end, .. } => writer.delete_range(begin, end)?,
                Record::Delete { key, .. } | Record::SingleDelete { key, .. } => writer.delete(key)?,
                Record::Import { .. } => return Err(Error::not_supported("an import in a file")),
            }
        }
        writer.finish().map(drop)
    }

    /// Exports a family and makes another of its tables; of none, if there are none.
    fn import(&mut self, setup: &Setup, import: &Import) -> Result<()> {
        let exported = self.db.export_cf(self.family(import.from)?, export_path(import.number))?;
        let how = ImportColumnFamilyOptions { move_files: import.move_files };
        let created = if exported.files.is_empty() {
            // As an import does, which cannot be of nothing.
            self.db.flush_wal(true)?;
            self.db.create_cf(&import.name, setup.family_options())?
        } else {
            self.db.create_cf_with_import(&import.name, setup.family_options(), &[exported], how)?
        };
        self.families.insert(import.family, created);
        Ok(())
    }

    /// Up to two neighbours of one level go to the next one.
    fn compact_files(&self, family: FamilyId, pick: usize) -> Result<()> {
        let family = self.family(family)?;
        let mut files = self.db.live_files();
        files.retain(|file| file.column_family == family.name());
        files.sort_by_key(|file| file.number);
        let Some(first) = files.get(pick % files.len().max(1)) else { return Ok(()) };
        let of_level = files.iter().filter(|file| file.level == first.level && file.number >= first.number);
        let numbers: Vec<_> = of_level.take(2).map(|file| file.number).collect();
        let last_level = usize::try_from(self.db.options(family).cf.num_levels - 1).unwrap_or_default();
        let output_level = (first.level + 1).min(last_level);
        self.db.compact_files(&CompactionOptions::default(), family, &numbers, output_level)
    }
}

/// Whether a family's data does not depend on other families': unlogged, and flushed on its own.
pub fn is_independent(setup: &Setup) -> bool {
    setup.logging == Logging::None && !setup.atomic_flush
}

/// Runs a workload without faults and notes everything.
///
/// # Errors
/// Any error of the database is a violation.
pub fn run(workload: Workload) -> std::result::Result<History, Violation> {
    let seed = workload.seed;
    let steps = workload.steps.len();
    let mut runner = Runner::new(workload);
    let outcome = runner.run();
    let hazards = runner.fs.hazards();
    if !hazards.is_empty() {
        let message = format!("files at risk: {}", hazards.join(", "));
        return Err(Violation { replay: format!("crash --seed {seed} --steps {steps}"), message });
    }
    match outcome {
        Ok(()) => Ok(runner.finish()),
        Err((step, error)) => Err(Violation {
            replay: format!("crash --seed {seed} --steps {steps}"),
            message: format!("step {step} failed without a fault: {error}"),
        }),
    }
}

struct Runner {
    fs: CrashFileSystem,
    history: History,
    /// The last write of each family.
    last_write: BTreeMap<FamilyId, usize>,
    sessions: u64,
}

impl Runner {
    fn new(workload: Workload) -> Self {
        let fs = CrashFileSystem::new();
        let history = History::new(workload, fs.take_journal());
        fs.start_journal();
        Self { fs, history, last_write: BTreeMap::new(), sessions: 0 }
    }

    fn finish(self) -> History {
        self.history.finish(self.fs.take_journal())
    }

    fn open(&mut self, names: &BTreeMap<FamilyId, String>) -> Result<Session> {
        self.sessions += 1;
        let seed = self.history.workload.seed.wrapping_mul(1000) + self.sessions;
        let fs = Arc::new(self.fs.clone());
        Session::open(fs, &self.history.workload.setup, names, WalRecoveryMode::PointInTimeRecovery, seed)
    }

    fn run(&mut self) -> std::result::Result<(), (usize, Error)> {
        let steps = self.history.workload.steps.clone();
        let setup = self.history.workload.setup.clone();
        let mut names = BTreeMap::from([(0, "default".to_owned())]);
        let start = self.fs.operations();
        let mut session = self.open(&names).map_err(|error| (0, error))?;
        let created = Span { start, end: self.fs.operations() };
        self.history.families.push(FamilyLife { family: 0, name: "default".to_owned(), created, dropped: None });
        let mut held = Held::default();
        for (i, step) in steps.iter().enumerate() {
            let start = self.fs.operations();
            if matches!(step, Step::Reopen) {
                held.clear();
                session.db.close().map_err(|error| (i, error))?;
                drop(session);
                session = self.open(&names).map_err(|error| (i, error))?;
                self.note_reopen(&setup);
                continue;
            }
            session.step(&setup, step).map_err(|error| (i, error))?;
            let span = Span { start, end: self.fs.operations() };
            self.note(&setup, step, span, &mut names);
            if let Some(rng) = agreement::chance(self.history.workload.seed, i as u64) {
                let state = State { writes: self.history.writes.len(), loose: 0 };
                let model = self.history.model(state);
                held.look(&session, rng, model).map_err(|text| (i, Error::corruption(text)))?;
            }
        }
        Ok(())
    }

    /// After a close and an open, everything is there that was there before.
    fn note_reopen(&mut self, setup: &Setup) {
        let (now, writes) = (self.fs.operations(), self.history.writes.len());
        let everything = setup.logging == Logging::All || !setup.avoid_flush_during_shutdown;
        if everything {
            self.history.flushed.raise(now, writes);
        }
        // A recovery that flushes makes durable what it recovered, and so does a close of what has no WAL.
        if everything && (setup.logging == Logging::None || !setup.avoid_flush_during_recovery) {
            self.raise_durable(now, writes);
        }
    }

    fn raise_durable(&mut self, at: u64, writes: usize) {
        self.history.durable.raise(at, writes);
        self.history.flushed.raise(at, writes);
        for (family, last) in &self.last_write {
            self.history.durable_of.entry(*family).or_default().raise(at, (*last).min(writes));
        }
    }

    fn note(&mut self, setup: &Setup, step: &Step, span: Span, names: &mut BTreeMap<FamilyId, String>) {
        let issued = self.history.writes.len();
        match step {
            Step::Write { .. } | Step::Ingest(_) | Step::Import(_) => {
                if let Step::Import(Import { from, family, name, .. }) = step {
                    self.note_flushed(setup, span.end, &[*from]);
                    self.note_created(span, *family, name, names);
                }
                for record in step.records() {
                    self.last_write.insert(record.family(), issued + 1);
                }
                self.history.writes.push(span);
                let is_outside = matches!(step, Step::Ingest(_) | Step::Import(_));
                if is_outside && setup.logging == Logging::None {
                    self.history.loose.push(issued);
                } else if is_outside || matches!(step, Step::Write { sync: true, .. }) {
                    self.raise_durable(span.end, issued + 1);
                } else if setup.logging == Logging::All && !setup.manual_wal_flush {
                    self.history.flushed.raise(span.end, issued + 1);
                }
            }
            Step::Flush { families, wait: true } => {
                let ids: Vec<FamilyId> =
                    if setup.atomic_flush { names.keys().copied().collect() } else { families.clone() };
                self.note_flushed(setup, span.end, &ids);
            }
            Step::Compact { family } => self.note_flushed(setup, span.end, &[*family]),
            Step::FlushWal { sync: true } => self.raise_durable(span.end, issued),
            Step::FlushWal { sync: false } => self.history.flushed.raise(span.end, issued),
            Step::Checkpoint { number, log_size_for_flush } => {
                if *log_size_for_flush == 0 {
                    let all: Vec<FamilyId> = names.keys().copied().collect();
                    self.note_flushed(setup, span.end, &all);
                }
                let path = checkpoint_path(*number);
                let checkpoint = CheckpointMade { path, made: span, writes: issued, families: names.clone() };
                self.history.checkpoints.push(checkpoint);
            }
            Step::CreateFamily { family, name } => self.note_created(span, *family, name, names),
            Step::DropFamily { family } => {
                names.remove(family);
                self.last_write.remove(family);
                if let Some(life) = self.history.families.iter_mut().find(|life| life.family == *family) {
                    life.dropped = Some(span);
                }
            }
            _ => {}
        }
    }

    fn note_created(&mut self, created: Span, family: FamilyId, name: &str, names: &mut BTreeMap<FamilyId, String>) {
        names.insert(family, name.to_owned());
        self.history.families.push(FamilyLife { family, name: name.to_owned(), created, dropped: None });
    }

    /// What the flushed families hold is durable, and with it everything before.
    fn note_flushed(&mut self, setup: &Setup, at: u64, families: &[FamilyId]) {
        let lasts: Vec<(FamilyId, usize)> =
            families.iter().filter_map(|family| Some((*family, *self.last_write.get(family)?))).collect();
        for (family, last) in &lasts {
            self.history.durable_of.entry(*family).or_default().raise(at, *last);
        }
        if !is_independent(setup)
            && let Some(last) = lasts.iter().map(|(_, last)| *last).max()
        {
            self.history.durable.raise(at, last);
            self.history.flushed.raise(at, last);
        }
    }
}
