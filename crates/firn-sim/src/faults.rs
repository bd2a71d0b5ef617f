//! Faults at every operation of a run.
//!
//! The workload is run once to count its file-system operations, and then once for each of them, which fails. The
//! workload goes on behind the error, after [`Db::resume`](firndb::Db::resume) where writes were stopped, or after closing
//! and opening where that does not help. In the end the database is opened again: all writes that returned are there, none
//! that returned an error is; no file is missing and none is left over; checkpoints that were made are whole. One thing is left open: when the database was
//! closed before it was resumed, a write that failed may be found by the next open, as a whole and in its place.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use firn_env::FileSystem;
use firn_env::crash::{CrashFileSystem, LossPolicy};
use firn_env::fault::{Effect, Fault, FaultFileSystem, Operation, io_error, no_space_error, retryable_error};
use firn_error::{Error, Result};
use firn_format::filename::{self, FileKind};
use firndb::Db;
use firndb::options::WalRecoveryMode;

use crate::Violation;
use crate::agreement;
use crate::checkpoints;
use crate::model::{Model, difference};
use crate::recovered;
use crate::run::Session;
use crate::workload::{FamilyId, Import, Logging, Record, Setup, Step, Workload};
use crate::world::{checkpoint_path, db_path, environment};

/// How an operation goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It fails for good.
    Io,
    /// It fails and may succeed later.
    Retryable,
    /// The disk is full.
    NoSpace,
    /// It is carried out and reported as failed.
    Late,
    /// An append writes a part of its bytes.
    Torn,
    /// The disk is full from here on, for some steps.
    Full,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 6] = [Self::Io, Self::Retryable, Self::NoSpace, Self::Late, Self::Torn, Self::Full];

    fn effect(self) -> Effect {
        match self {
            Self::Io => Effect::Fail(io_error()),
            Self::Retryable => Effect::Fail(retryable_error()),
            Self::NoSpace | Self::Full => Effect::Fail(no_space_error()),
            Self::Late => Effect::FailAfter(io_error()),
            Self::Torn => Effect::Tear(5, io_error()),
        }
    }

    fn fault(self, operation: u64) -> Fault {
        let fault = Fault::new(self.effect()).with_pass(operation);
        if self == Self::Full {
            let writes = [Operation::Append, Operation::Create, Operation::Reuse, Operation::CreateDirectory];
            return Fault::new(self.effect()).with_operations(writes).with_pass(operation / 8).with_times(u64::MAX);
        }
        fault
    }
}

/// After so many failed steps the full disk has space again.
const STEPS_WITHOUT_SPACE: usize = 4;

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Runs with a fault.
    pub faults: u64,
    /// Runs in which some call returned an error.
    pub noticed: u64,
    /// Runs that had to close and open the database.
    pub reopened: u64,
}

impl Figures {
    /// Adds up.
    pub fn add(&mut self, other: Self) {
        self.faults += other.faults;
        self.noticed += other.noticed;
        self.reopened += other.reopened;
    }
}

/// The workload of a seed, without what loses acknowledged writes by itself.
fn workload(seed: u64, steps: usize) -> Workload {
    let mut workload = Workload::draw(seed, steps);
    workload.setup.logging = Logging::All;
    workload.setup.manual_wal_flush = false;
    workload
}

/// Lets every `every`-th operation of a workload fail, in one way each.
///
/// # Errors
/// The first violation.
pub fn explore(seed: u64, steps: usize, every: u64) -> std::result::Result<Figures, Violation> {
    let mut figures = Figures::default();
    let operations =
        Runner::run(workload(seed, steps), None).map_err(|message| violation(seed, steps, None, message))?;
    let first = seed % every.max(1);
    for operation in (first..operations.1).step_by(usize::try_from(every.max(1)).unwrap_or(1)) {
        let kind = Kind::ALL[((operation / every.max(1) + seed) % Kind::ALL.len() as u64) as usize];
        figures.add(check(seed, steps, operation, kind)?);
    }
    Ok(figures)
}

/// Lets one operation fail.
///
/// # Errors
/// The violation, if there is one.
pub fn check(seed: u64, steps: usize, operation: u64, kind: Kind) -> std::result::Result<Figures, Violation> {
    let outcome = Runner::run(workload(seed, steps), Some(kind.fault(operation)));
    outcome.map(|(figures, _)| figures).map_err(|message| violation(seed, steps, Some((operation, kind)), message))
}

fn violation(seed: u64, steps: usize, fault: Option<(u64, Kind)>, message: String) -> Violation {
    let fault = fault.map(|(operation, kind)| format!(" --operation {operation} --kind {kind:?}")).unwrap_or_default();
    let setup = Workload::draw(seed, 0).setup;
    Violation {
        replay: format!("faults --seed {seed} --steps {steps}{fault}"),
        message: format!("{message}\n  {setup:?}"),
    }
}

struct Runner {
    disk: CrashFileSystem,
    fs: FaultFileSystem,
    setup: Setup,
    seed: u64,
    sessions: u64,
    model: Model,
    /// The writes since the first that failed and may be in a WAL all the same; whether they returned.
    tail: Vec<(Vec<Record>, bool)>,
    names: BTreeMap<FamilyId, String>,
    /// Families that were dropped or whose creation failed: they may be there.
    uncertain: Vec<String>,
    /// The checkpoints that were made, with the families and the contents of then.
    checkpoints: Vec<(PathBuf, BTreeMap<FamilyId, String>, Model)>,
    figures: Figures,
}

impl Runner {
    fn run(workload: Workload, fault: Option<Fault>) -> std::result::Result<(Figures, u64), String> {
        let disk = CrashFileSystem::new();
        let fs = FaultFileSystem::new(Arc::new(disk.clone()));
        let mut runner = Self {
            disk,
            fs,
            setup: workload.setup.clone(),
            seed: workload.seed,
            sessions: 0,
            model: Model::default(),
            tail: Vec::new(),
            names: BTreeMap::from([(0, "default".to_owned())]),
            uncertain: Vec::new(),
            checkpoints: Vec::new(),
            figures: Figures { faults: u64::from(fault.is_some()), ..Figures::default() },
        };
        let has_fault = fault.is_some();
        if let Some(fault) = fault {
            runner.fs.inject(fault);
        }
        runner.steps(&workload.steps, has_fault).and_then(|()| runner.judge()).map_err(|message| {
            let fired: Vec<String> =
                runner.fs.fired().iter().take(3).map(|(what, path)| format!("{what:?} {}", path.display())).collect();
            format!("after the fault at {}: {message}", fired.join(", "))
        })?;
        let operations = Operation::ALL.into_iter().map(|operation| runner.fs.count(operation)).sum();
        Ok((runner.figures, operations))
    }

    fn open(&mut self) -> Result<Session> {
        self.sessions += 1;
        let mode = WalRecoveryMode::PointInTimeRecovery;
        let seed = self.seed.wrapping_mul(1000) + self.sessions;
        let mut options = self.setup.db_options(environment(Arc::new(self.fs.clone()), seed), mode);
        // Nothing may happen behind the back of the one thread.
        options.max_bgerror_resume_count = 0;
        let mut names = self.names.clone();
        if let Ok(all) = Db::list_column_families(db_path(), &options) {
            for (name, id) in self.uncertain.iter().zip(1_000_000..) {
                if all.contains(name) && !names.values().any(|known| known == name) {
                    names.insert(id, name.clone());
                }
            }
        }
        let open = |families| Db::open_cf(db_path(), options, families);
        let mut session = Session::open_with(&self.setup, &names, open)?;
        // What came to be although its creation failed has no place in the workload.
        for (id, name) in &names {
            if !self.names.contains_key(id) {
                session.families.remove(id);
                if let Some(family) = session.db.cf(name)
                    && session.db.drop_cf(&family).is_err()
                {
                    self.uncertain.push(name.clone());
                }
            }
        }
        Ok(session)
    }

    /// Opens until it works; a fault that lasts is healed. Settles what failed before.
    fn open_again(&mut self) -> std::result::Result<Session, String> {
        let mut opened = self.open();
        for _ in 0..3 {
            if opened.is_err() {
                self.figures.noticed = 1;
                self.fs.heal();
                opened = self.open();
            }
        }
        let session = opened.map_err(|error| format!("the database does not open any more: {error}"))?;
        self.settle(&session)?;
        Ok(session)
    }

    /// After an open: which of the writes that failed are there.
    fn settle(&mut self, session: &Session) -> std::result::Result<(), String> {
        let scan = || -> Result<BTreeMap<_, _>> {
            self.names.keys().map(|family| Ok((*family, recovered::contents(session, *family)?))).collect()
        };
        // The fault may strike here: a read that failed once succeeds the second time.
        let found = scan().or_else(|_| scan()).map_err(|error| format!("scan: {error}"))?;
        let tail = std::mem::take(&mut self.tail);
        let in_doubt = tail.iter().filter(|(_, returned)| !returned).count().min(10);
        for choice in 0..1_u32 << in_doubt {
            let mut model = self.model.clone();
            let mut doubtful = 0;
            for (records, returned) in &tail {
                let chosen = !returned && doubtful < in_doubt && choice & (1 << doubtful) != 0;
                doubtful += usize::from(!returned);
                if *returned || chosen {
                    records.iter().for_each(|record| model.apply(record));
                }
            }
            if found.iter().all(|(family, map)| model.family(*family) == *map) {
                self.model = model;
                return Ok(());
            }
        }
        tail.iter()
            .filter(|(_, returned)| *returned)
            .flat_map(|(records, _)| records)
            .for_each(|r| self.model.apply(r));
        let (family, map) = found
            .iter()
            .find(|(family, map)| self.model.family(**family) != **map)
            .ok_or("families do not fit together")?;
        let writes = if in_doubt > 0 { format!(" (with some of {in_doubt} failed writes)") } else { String::new() };
        Err(format!("family {family}{writes}: {}", difference(&self.model.family(*family), map)))
    }

    /// After a resume: writes that failed are gone.
    fn forget_failed(&mut self) {
        let tail = std::mem::take(&mut self.tail);
        tail.iter()
            .filter(|(_, returned)| *returned)
            .flat_map(|(records, _)| records)
            .for_each(|r| self.model.apply(r));
    }

    fn steps(&mut self, steps: &[Step], has_fault: bool) -> std::result::Result<(), String> {
        let mut failed = 0;
        let mut session = match self.open() {
            Ok(session) => session,
            Err(error) if !has_fault => return Err(format!("open: {error}")),
            Err(_) => self.open_again()?,
        };
        for step in steps {
            if matches!(step, Step::Reopen) {
                let closed = session.db.close();
                drop(session);
                if let (Err(error), false) = (&closed, has_fault) {
                    return Err(format!("close: {error}"));
                }
                session = self.open_again()?;
                continue;
            }
            let step = match self.adapt(step, failed > 0) {
                Some(step) => step,
                None => continue,
            };
            let outcome = session.step(&self.setup, &step);
            self.note(&step, &outcome);
            let Err(error) = outcome else { continue };
            if !has_fault {
                return Err(format!("{step:?}: {error}"));
            }
            failed += 1;
            self.figures.noticed = 1;
            if failed >= STEPS_WITHOUT_SPACE {
                self.fs.heal();
            }
            if session.db.resume().is_ok() {
                self.forget_failed();
            } else if failed >= STEPS_WITHOUT_SPACE {
                self.figures.reopened = 1;
                let _ = session.db.close();
                drop(session);
                session = self.open_again()?;
            }
        }
        self.fs.heal();
        if session.db.resume().is_ok() {
            self.forget_failed();
        }
        let _ = session.db.close();
        Ok(())
    }

    /// The step as far as its families exist; behind a failed write, deletes that do not rest on what failed.
    fn adapt(&self, step: &Step, failed: bool) -> Option<Step> {
        let exists = |family: &FamilyId| self.names.contains_key(family);
        let possible = match step {
            Step::CreateFamily { name, .. } => !self.names.values().any(|known| known == name),
            // While some write is in doubt nobody can say what a copy of a family holds.
            Step::Import(import) => {
                step.is_possible(exists)
                    && self.tail.is_empty()
                    && !self.names.values().any(|name| *name == import.name)
            }
            _ => step.is_possible(exists),
        };
        let mut step = possible.then(|| step.clone())?;
        if let Step::Write { records, .. } = &mut step
            && failed
        {
            for record in records {
                if let Record::SingleDelete { family, key } = record {
                    *record = Record::Delete { family: *family, key: std::mem::take(key) };
                }
            }
        }
        Some(step)
    }

    fn note(&mut self, step: &Step, outcome: &Result<()>) {
        match step {
            Step::Write { .. } | Step::Ingest(_) if outcome.is_ok() && self.tail.is_empty() => {
                step.records().into_iter().for_each(|record| self.model.apply(record));
            }
            Step::Write { .. } | Step::Ingest(_) => {
                self.tail.push((step.records().into_iter().cloned().collect(), outcome.is_ok()));
            }
            // While some write is in doubt nobody can say what a checkpoint holds.
            Step::Checkpoint { number, .. } if outcome.is_ok() && self.tail.is_empty() => {
                self.checkpoints.push((checkpoint_path(*number), self.names.clone(), self.model.clone()));
            }
            Step::CreateFamily { family, name } if outcome.is_ok() => {
                self.names.insert(*family, name.clone());
            }
            Step::Import(import) if outcome.is_ok() => {
                self.names.insert(import.family, import.name.clone());
                self.model.apply(&import.record);
            }
            Step::CreateFamily { name, .. } | Step::Import(Import { name, .. }) => self.uncertain.push(name.clone()),
            Step::DropFamily { family } => {
                // Done or in doubt: the workload leaves it alone, and the next open sees whether it is there.
                self.uncertain.extend(self.names.remove(family));
            }
            _ => {}
        }
    }

    /// Opens without faults and compares.
    fn judge(&mut self) -> std::result::Result<(), String> {
        let session = self.open().map_err(|error| format!("the last open: {error}"))?;
        self.settle(&session)?;
        if let Some(mut rng) = agreement::chance(self.seed, self.disk.operations()) {
            agreement::check_model(&session, &mut rng, &self.model)?;
        }
        recovered::write_marker(&session, &self.setup, b"again").map_err(|error| format!("last write: {error}"))?;
        session.db.wait_for_compact().map_err(|error| format!("last compactions: {error}"))?;
        session.db.check_consistency().map_err(|error| format!("last check: {error}"))?;
        session.db.verify_checksum().map_err(|error| format!("last checksums: {error}"))?;
        self.check_files(&session)?;
        self.check_checkpoints()?;
        match self.disk.hazards().first() {
            Some(hazard) => Err(hazard.clone()),
            None => Ok(()),
        }
    }

    /// Every checkpoint that was made holds what it held, beside families whose creation or end failed before.
    fn check_checkpoints(&self) -> std::result::Result<(), String> {
        let tree = self.disk.crash(LossPolicy::DropAll, 0);
        for (path, families, model) in &self.checkpoints {
            let names = |found: Vec<String>| {
                let unknown = found.into_iter().filter(|name| !families.values().any(|known| known == name));
                Ok(families.clone().into_iter().chain((1_000_000..).zip(unknown)).collect())
            };
            let judge = |session: &Session| {
                for family in families.keys() {
                    let found = recovered::contents(session, *family)?;
                    if found != model.family(*family) {
                        let difference = difference(&model.family(*family), &found);
                        return Err(Error::corruption(format!("family {family}: {difference}")));
                    }
                }
                Ok(())
            };
            let opened = checkpoints::open(&tree, &self.setup, path, names, judge);
            opened.map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }

    /// No table, MANIFEST or temporary file without need.
    fn check_files(&self, session: &Session) -> std::result::Result<(), String> {
        let live: Vec<_> = session.db.live_files().iter().map(|file| file.number).collect();
        let names = self.fs.children(db_path()).map_err(|error: Error| error.to_string())?;
        let mut manifests = 0;
        for name in names {
            let Some(parsed) = filename::parse(&name) else { continue };
            let is_left_over = match parsed.kind {
                FileKind::Table => !live.contains(&parsed.number),
                FileKind::Temp => true,
                FileKind::Manifest => {
                    manifests += 1;
                    manifests > 1
                }
                _ => false,
            };
            if is_left_over {
                return Err(format!("{name} is left over"));
            }
        }
        Ok(())
    }
}
