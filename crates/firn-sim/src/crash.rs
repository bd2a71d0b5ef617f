//! Crashes after every operation of a run.
//!
//! For each operation and loss policy the image of the disk is made, opened under each recovery mode and judged: what was
//! promised is there, what is there is a prefix of what was issued, families are those that were created, writes are
//! accepted and durable, and a second crash, during the recovery or after it, changes nothing. Checkpoints that were made
//! are whole, and stay as they are ([`checkpoints`](crate::checkpoints)).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::RangeInclusive;

use firn_env::crash::{CrashFileSystem, Disk, LossPolicy, Tree};
use firn_env::entropy::{Entropy, SeededEntropy};
use firn_error::Error;
use firndb::options::WalRecoveryMode;

use crate::Violation;
use crate::agreement;
use crate::checkpoints::{self, Checkpoints};
use crate::history::{History, Presence, State};
use crate::model::difference;
use crate::recovered;
use crate::run::{Session, is_independent};
use crate::workload::{FamilyId, Record};

/// The recovery modes with their names on the command line.
pub const MODES: [(WalRecoveryMode, &str); 4] = [
    (WalRecoveryMode::PointInTimeRecovery, "point-in-time"),
    (WalRecoveryMode::TolerateCorruptedTailRecords, "tolerate-tail"),
    (WalRecoveryMode::AbsoluteConsistency, "absolute"),
    (WalRecoveryMode::SkipAnyCorruptedRecords, "skip-any"),
];

/// The name of a mode.
pub fn mode_name(mode: WalRecoveryMode) -> &'static str {
    MODES.iter().find(|(known, _)| *known == mode).map_or("", |(_, name)| name)
}

/// Which moments are looked at.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Every so many operations.
    pub every: usize,
    /// All recovery modes at each image; otherwise one, in turns.
    pub all_modes: bool,
}

/// What was looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Operations of the runs.
    pub operations: u64,
    /// Images opened after a crash in a run.
    pub points: u64,
    /// Images opened after a second crash, during a recovery or after it.
    pub second_points: u64,
    /// Opens that were refused as the recovery mode has it.
    pub refused: u64,
    /// Checkpoints that were opened after a crash.
    pub checkpoints: u64,
}

impl Figures {
    /// Adds up.
    pub fn add(&mut self, other: Self) {
        self.operations += other.operations;
        self.points += other.points;
        self.second_points += other.second_points;
        self.refused += other.refused;
        self.checkpoints += other.checkpoints;
    }
}

/// One crash.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Operations that were done.
    pub at: u64,
    /// What survives.
    pub policy: LossPolicy,
    /// How it is recovered.
    pub mode: WalRecoveryMode,
}

/// Goes through the moments of a run.
///
/// # Errors
/// The first violation.
pub fn explore(history: &History, plan: Plan) -> Result<Figures, Violation> {
    let judge = Judge::new(history);
    let mut figures = Figures { operations: history.journal.len() as u64, ..Figures::default() };
    let mut replay = history.journal.replay();
    let mut last_files = BTreeMap::new();
    let mut checkpoints = Checkpoints::new(history);
    let mut turn = usize::try_from(history.workload.seed % 4).unwrap_or_default();
    loop {
        let at = replay.at() as u64;
        if replay.at().is_multiple_of(plan.every.max(1)) {
            for policy in LossPolicy::ALL {
                let image = Image::of(replay.disk(), policy, judge.policy_seed(at));
                let bounds = judge.bounds(at, policy);
                let files = image.tree.files();
                let mode = MODES.get(turn).map_or(WalRecoveryMode::PointInTimeRecovery, |(mode, _)| *mode);
                figures.checkpoints += checkpoints
                    .check(at, &image.tree, &files)
                    .map_err(|message| judge.violation(Point { at, policy, mode }, &message))?;
                // The same files with the same promises need no second look.
                if last_files.get(&policy) == Some(&(bounds.clone(), files.clone())) {
                    continue;
                }
                last_files.insert(policy, (bounds, files));
                let modes = if plan.all_modes { 0..MODES.len() } else { turn..turn + 1 };
                turn = (turn + 1) % MODES.len();
                for (mode, _) in modes.filter_map(|index| MODES.get(index)) {
                    judge.check(Point { at, policy, mode: *mode }, &image, &mut figures)?;
                }
            }
        }
        if !replay.advance() {
            return Ok(figures);
        }
    }
}

/// Looks at one point of a run.
///
/// # Errors
/// The violation, if there is one.
pub fn check_point(history: &History, point: Point) -> Result<Figures, Violation> {
    let mut replay = history.journal.replay();
    while (replay.at() as u64) < point.at && replay.advance() {}
    let judge = Judge::new(history);
    let mut figures = Figures::default();
    let image = Image::of(replay.disk(), point.policy, judge.policy_seed(point.at));
    let checked = Checkpoints::new(history).check(point.at, &image.tree, &image.tree.files());
    figures.checkpoints = checked.map_err(|message| judge.violation(point, &message))?;
    judge.check(point, &image, &mut figures)?;
    Ok(figures)
}

/// What a crash leaves.
struct Image {
    tree: Tree,
    /// WALs that held unsynced data, or whose names were unsynced.
    unsynced_wals: usize,
}

impl Image {
    fn of(disk: &Disk, policy: LossPolicy, seed: u64) -> Self {
        let unsynced_wals = disk.unsynced_files(|name| name.ends_with(".log"));
        Self { tree: disk.image(policy, seed), unsynced_wals }
    }
}

/// What must, and may be there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bounds {
    /// How many of the first writes.
    writes: RangeInclusive<usize>,
    /// How many of the loose ingestions.
    loose: RangeInclusive<usize>,
}

impl Bounds {
    fn states(&self) -> impl DoubleEndedIterator<Item = State> + use<> {
        let loose = self.loose.clone();
        self.writes.clone().flat_map(move |writes| loose.clone().map(move |loose| State { writes, loose }))
    }
}

struct Judge<'a> {
    history: &'a History,
    /// All values ever put and all operands ever merged, by family and key.
    known_values: BTreeMap<(FamilyId, &'a [u8]), Vec<&'a [u8]>>,
}

/// The outcome of an open.
enum Opened {
    Session(Session),
    /// The mode refuses such damage.
    Refused,
}

impl<'a> Judge<'a> {
    fn new(history: &'a History) -> Self {
        let mut known_values: BTreeMap<(FamilyId, &[u8]), Vec<&[u8]>> = BTreeMap::new();
        for record in history.workload.writes().flat_map(|step| step.records()) {
            match record {
                Record::Put { family, key, value } | Record::Merge { family, key, operand: value } => {
                    known_values.entry((*family, key)).or_default().push(value);
                }
                Record::Import { family, from } => {
                    let copied: Vec<_> = known_values.iter().filter(|((of, _), _)| of == from).collect();
                    let copied: Vec<_> =
                        copied.into_iter().map(|((_, key), values)| ((*family, *key), values.clone())).collect();
                    known_values.extend(copied);
                }
                _ => {}
            }
        }
        Self { history, known_values }
    }

    fn policy_seed(&self, at: u64) -> u64 {
        SeededEntropy::new(self.history.workload.seed ^ (at << 20)).next_u64()
    }

    fn bounds(&self, at: u64, policy: LossPolicy) -> Bounds {
        let floor = if policy == LossPolicy::KeepAll { &self.history.flushed } else { &self.history.durable };
        Bounds { writes: floor.at(at)..=self.history.issued(at), loose: self.history.loose(at) }
    }

    /// The family that a name means at a moment.
    fn identify(&self, at: u64, name: &str) -> Option<FamilyId> {
        let named = self.history.families.iter().filter(|life| life.name == name);
        let mut possible = named.filter(|life| life.presence(at) != Presence::Gone);
        // The open creates the default family of a database that was never there.
        possible.next().map(|life| life.family).or((name == "default").then_some(0))
    }

    fn check(&self, point: Point, image: &Image, figures: &mut Figures) -> Result<(), Violation> {
        figures.points += 1;
        self.judge(point, image, figures).map_err(|message| self.violation(point, &message))
    }

    fn violation(&self, point: Point, message: &str) -> Violation {
        let at = usize::try_from(point.at).unwrap_or(usize::MAX);
        let last = at.checked_sub(1).map_or_else(|| "nothing".to_owned(), |i| self.history.journal.describe(i));
        let setup = &self.history.workload.setup;
        Violation {
            replay: format!(
                "crash --seed {} --steps {} --operation {} --policy {:?} --mode {}",
                self.history.workload.seed,
                self.history.workload.steps.len(),
                point.at,
                point.policy,
                mode_name(point.mode)
            ),
            message: format!("after {last}: {message}\n  {setup:?}"),
        }
    }

    fn judge(&self, point: Point, image: &Image, figures: &mut Figures) -> Result<(), String> {
        let setup = &self.history.workload.setup;
        let fs = CrashFileSystem::from_image(image.tree.clone());
        fs.start_journal();
        let session = match self.open(&fs, point, point.policy, 1)? {
            Opened::Session(session) => session,
            Opened::Refused => {
                figures.refused += 1;
                let point = Point { mode: WalRecoveryMode::PointInTimeRecovery, ..point };
                return self.judge(point, image, figures);
            }
        };
        let found = recovered::fingerprints(&session).map_err(|error| format!("scan: {error}"))?;
        self.check_families(point.at, &session)?;
        self.check_contents(point, image, &session, &found)?;
        let recovery_operations = fs.operations();
        if let Some(mut rng) = agreement::chance(self.history.workload.seed, point.at) {
            agreement::check(&session, &mut rng)?;
        }
        let value = point.at.to_string().into_bytes();
        recovered::write_marker(&session, setup, &value).map_err(|error| format!("write after recovery: {error}"))?;
        let after = fs.crash(LossPolicy::DropAll, 0);
        let journal = fs.take_journal();
        drop(session);
        if let Some(hazard) = fs.hazards().first() {
            return Err(hazard.clone());
        }
        if checkpoints::files(&image.tree.files()) != checkpoints::files(&after.files()) {
            return Err("the recovery changed a checkpoint".to_owned());
        }

        figures.second_points += 1;
        let second = CrashFileSystem::from_image(after);
        match self.open(&second, point, LossPolicy::DropAll, 2).map_err(|error| format!("after recovery: {error}"))? {
            Opened::Session(session) => {
                let again = recovered::fingerprints(&session).map_err(|error| format!("second scan: {error}"))?;
                self.same(&found, &again, &session, "a crash after the recovery")?;
                recovered::check_marker(&session, &value).map_err(|error| error.to_string())?;
            }
            Opened::Refused => return Err("a durable database was refused after its recovery".to_owned()),
        }

        figures.second_points += 1;
        let chance = SeededEntropy::new(self.policy_seed(point.at) ^ 1);
        let until = chance.next_u64() % (recovery_operations + 1);
        let policies = LossPolicy::ALL;
        let policy = policies.get((chance.next_u64() % policies.len() as u64) as usize).copied();
        let policy = policy.unwrap_or(LossPolicy::Scatter);
        let mut replay = journal.replay();
        while (replay.at() as u64) < until && replay.advance() {}
        let during = CrashFileSystem::from_image(replay.disk().image(policy, chance.next_u64()));
        let place = || {
            let last = usize::try_from(until).unwrap_or_default().checked_sub(1);
            let last = last.map_or_else(|| "nothing".to_owned(), |index| journal.describe(index));
            format!("second crash during the recovery ({policy:?} after its operation {until}, {last})")
        };
        match self.open(&during, point, policy, 3).map_err(|error| format!("{}: {error}", place()))? {
            Opened::Session(session) => {
                let again = recovered::fingerprints(&session).map_err(|error| format!("{}: {error}", place()))?;
                self.same(&found, &again, &session, &place())?;
            }
            Opened::Refused => figures.refused += 1,
        }
        Ok(())
    }

    fn open(&self, fs: &CrashFileSystem, point: Point, policy: LossPolicy, life: u64) -> Result<Opened, String> {
        let setup = &self.history.workload.setup;
        let seed = self.policy_seed(point.at).wrapping_mul(31).wrapping_add(point.policy as u64 * 8 + life);
        match recovered::open(fs, setup, point.mode, seed, |name| self.identify(point.at, name)) {
            Ok(session) => Ok(Opened::Session(session)),
            Err(error) if self.may_refuse(point.mode, policy, &error) => Ok(Opened::Refused),
            Err(error) => Err(format!("open: {error}")),
        }
    }

    /// Whether a mode may refuse to open what a policy leaves: torn records, and left-overs of recycled files.
    fn may_refuse(&self, mode: WalRecoveryMode, policy: LossPolicy, error: &Error) -> bool {
        let strict =
            matches!(mode, WalRecoveryMode::AbsoluteConsistency | WalRecoveryMode::TolerateCorruptedTailRecords);
        let damaged = policy.is_random() || self.history.workload.setup.recycle > 0;
        strict && damaged && error.is_corruption()
    }

    fn check_families(&self, at: u64, session: &Session) -> Result<(), String> {
        for life in &self.history.families {
            if life.presence(at) == Presence::There && !session.families.contains_key(&life.family) {
                return Err(format!("column family {} is gone", life.name));
            }
        }
        Ok(())
    }

    fn check_contents(
        &self,
        point: Point,
        image: &Image,
        session: &Session,
        found: &BTreeMap<FamilyId, u64>,
    ) -> Result<(), String> {
        let bounds = self.bounds(point.at, point.policy);
        // Without a record of its predecessor, a WAL does not tell that the one before it lost its end.
        let unordered = matches!(point.policy, LossPolicy::TearEach | LossPolicy::Scatter)
            && image.unsynced_wals > 1
            && !self.history.workload.setup.verify_wals;
        let skips = match point.mode {
            WalRecoveryMode::SkipAnyCorruptedRecords | WalRecoveryMode::TolerateCorruptedTailRecords => {
                point.policy.is_random()
            }
            _ => unordered,
        };
        if skips {
            return self.check_plausible(session);
        }
        if is_independent(&self.history.workload.setup) {
            for (family, fingerprint) in found {
                let floor = self.history.durable_of.get(family).map_or(0, |floor| floor.at(point.at));
                let bounds = Bounds { writes: floor..=*bounds.writes.end(), loose: bounds.loose.clone() };
                if !bounds.states().any(|state| self.history.fingerprint(state, *family) == *fingerprint) {
                    return Err(self.explain(&BTreeMap::from([(*family, *fingerprint)]), &bounds, session));
                }
            }
            return Ok(());
        }
        let is_there = bounds.states().any(|state| self.matching(state, found) == found.len());
        if is_there { Ok(()) } else { Err(self.explain(found, &bounds, session)) }
    }

    /// How many families are as they are meant to be in a state.
    fn matching(&self, state: State, found: &BTreeMap<FamilyId, u64>) -> usize {
        found.iter().filter(|(family, found)| self.history.fingerprint(state, **family) == **found).count()
    }

    /// No value that nobody wrote.
    fn check_plausible(&self, session: &Session) -> Result<(), String> {
        for family in session.families.keys() {
            for (key, value) in recovered::contents(session, *family).map_err(|error| error.to_string())? {
                let known = self.known_values.get(&(*family, key.as_slice())).map_or(&[][..], Vec::as_slice);
                let is_known = |part: &[u8]| known.contains(&part);
                let merged = key.starts_with(b"m") && value.split(|byte| *byte == b',').all(is_known);
                if !merged && !is_known(&value) {
                    return Err(format!("family {family}: nobody ever wrote the value of {}", key.escape_ascii()));
                }
            }
        }
        Ok(())
    }

    fn same(
        &self,
        first: &BTreeMap<FamilyId, u64>,
        again: &BTreeMap<FamilyId, u64>,
        session: &Session,
        when: &str,
    ) -> Result<(), String> {
        if first == again {
            return Ok(());
        }
        let families: Vec<_> = first.keys().filter(|family| first.get(*family) != again.get(*family)).collect();
        let mut message = format!("{when} changed families {families:?}");
        let mut states = self.all_states().states();
        if let Some(state) = states.find(|state| self.matching(*state, first) == first.len()) {
            let _ = write!(message, "; before there was {state:?}: {}", self.differences(state, session));
        }
        Err(message)
    }

    /// Whatever may have been there at any time.
    fn all_states(&self) -> Bounds {
        Bounds { writes: 0..=self.history.writes.len(), loose: 0..=self.history.loose.len() }
    }

    fn explain(&self, found: &BTreeMap<FamilyId, u64>, bounds: &Bounds, session: &Session) -> String {
        let mut message = format!("{bounds:?} are meant to be there; ");
        let all = self.all_states();
        if let Some(state) = all.states().find(|state| self.matching(*state, found) == found.len()) {
            let _ = write!(message, "found exactly {state:?}");
        } else {
            let _ = write!(message, "what is there is no prefix:");
            for (family, print) in found {
                let is_like = |state: &State| self.history.fingerprint(*state, *family) == *print;
                let range = all.states().find(is_like).zip(all.states().rfind(is_like));
                let range = range.map(|(first, last)| format!("{first:?} to {last:?}"));
                let _ = write!(message, " family {family} as in {};", range.unwrap_or("no state".into()));
            }
        }
        let nearest = bounds.states().max_by_key(|state| self.matching(*state, found));
        let nearest = nearest.unwrap_or(State { writes: *bounds.writes.start(), loose: *bounds.loose.start() });
        let _ = write!(message, "; compared with {nearest:?}: {}", self.differences(nearest, session));
        message
    }

    fn differences(&self, state: State, session: &Session) -> String {
        let model = self.history.model(state);
        let mut text = String::new();
        for family in session.families.keys() {
            match recovered::contents(session, *family) {
                Ok(map) if map == model.family(*family) => {}
                Ok(map) => {
                    let _ = write!(text, "family {family}: {}; ", difference(&model.family(*family), &map));
                }
                Err(error) => {
                    let _ = write!(text, "family {family}: {error}; ");
                }
            }
        }
        text
    }
}
