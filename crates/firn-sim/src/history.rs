//! What a run issued, and what it was promised, at which operation of the file system.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use firn_env::crash::Journal;

use crate::model::{Model, fingerprint};
use crate::workload::{FamilyId, Step, Workload};

/// From before the first operation of a call to behind its last one.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Operations before the call.
    pub start: u64,
    /// Operations when it returned.
    pub end: u64,
}

impl Span {
    /// Whether the call may have had an effect when so many operations were done.
    pub fn is_issued(self, at: u64) -> bool {
        self.start < at || self.end <= at
    }

    /// Whether it returned.
    pub fn is_over(self, at: u64) -> bool {
        self.end <= at
    }
}

/// The life of a column family.
#[derive(Clone, Debug)]
pub struct FamilyLife {
    /// Its id.
    pub family: FamilyId,
    /// Its name.
    pub name: String,
    /// Its creation.
    pub created: Span,
    /// Its end.
    pub dropped: Option<Span>,
}

impl FamilyLife {
    /// Whether the family must, may or must not exist when so many operations were done.
    pub fn presence(&self, at: u64) -> Presence {
        match self.dropped {
            Some(dropped) if dropped.is_over(at) => Presence::Gone,
            Some(dropped) if dropped.is_issued(at) => Presence::Open,
            _ if self.created.is_over(at) => Presence::There,
            _ if self.created.is_issued(at) => Presence::Open,
            _ => Presence::Gone,
        }
    }
}

/// What is known of whether something exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It must exist.
    There,
    /// Either.
    Open,
    /// It must not exist.
    Gone,
}

/// How many of the first writes must be there, from an operation on.
#[derive(Clone, Debug, Default)]
pub struct Floor(Vec<(u64, usize)>);

impl Floor {
    /// From `at` on, the first `writes` writes must be there.
    pub fn raise(&mut self, at: u64, writes: usize) {
        let last = self.0.last().map_or(0, |(_, writes)| *writes);
        if writes > last {
            self.0.push((at, writes));
        }
    }

    /// How many must be there when so many operations were done.
    pub fn at(&self, at: u64) -> usize {
        let known = self.0.partition_point(|(since, _)| *since <= at);
        known.checked_sub(1).and_then(|last| self.0.get(last)).map_or(0, |(_, writes)| *writes)
    }
}

/// What a database may be found to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// So many of the first writes.
    pub writes: usize,
    /// So many of the first ingestions that do not need the writes before them, beside those among `writes`.
    pub loose: usize,
}

/// A checkpoint that was asked for.
#[derive(Clone, Debug)]
pub struct CheckpointMade {
    /// Where it lies.
    pub path: PathBuf,
    /// When it was made.
    pub made: Span,
    /// How many of the first writes are in it.
    pub writes: usize,
    /// The families that are in it.
    pub families: BTreeMap<FamilyId, String>,
}

/// A run, as it is judged afterwards.
#[derive(Debug)]
pub struct History {
    /// What was run.
    pub workload: Workload,
    /// All changes of files.
    pub journal: Journal,
    /// The writes, ingestions among them, in their order.
    pub writes: Vec<Span>,
    /// Which writes are ingestions that survive without the writes before them: those into unlogged databases.
    pub loose: Vec<usize>,
    /// The fingerprints of the families after so many writes, and then with one loose ingestion more each.
    fingerprints: Vec<Vec<BTreeMap<FamilyId, u64>>>,
    /// What a power failure leaves.
    pub durable: Floor,
    /// What a kill of the process leaves.
    pub flushed: Floor,
    /// What either leaves of one family, where families are independent of each other.
    pub durable_of: BTreeMap<FamilyId, Floor>,
    /// The column families.
    pub families: Vec<FamilyLife>,
    /// The checkpoints.
    pub checkpoints: Vec<CheckpointMade>,
}

impl History {
    /// The history of a run that has not begun.
    pub fn new(workload: Workload, journal: Journal) -> Self {
        Self {
            workload,
            journal,
            writes: Vec::new(),
            loose: Vec::new(),
            fingerprints: Vec::new(),
            durable: Floor::default(),
            flushed: Floor::default(),
            durable_of: BTreeMap::new(),
            families: Vec::new(),
            checkpoints: Vec::new(),
        }
    }

    /// The history with the journal of the whole run.
    pub fn finish(mut self, journal: Journal) -> Self {
        self.journal = journal;
        let mut model = Model::default();
        let writes: Vec<&Step> = self.workload.writes().collect();
        for count in 0..=self.writes.len() {
            if let Some(step) = count.checked_sub(1).and_then(|last| writes.get(last)) {
                step.records().into_iter().for_each(|record| model.apply(record));
            }
            let mut states = vec![model.fingerprints()];
            let mut ahead = model.clone();
            for write in self.loose.iter().filter(|write| **write >= count) {
                let records = writes.get(*write).map(|step| step.records()).unwrap_or_default();
                records.into_iter().for_each(|record| ahead.apply(record));
                states.push(ahead.fingerprints());
            }
            self.fingerprints.push(states);
        }
        self
    }

    /// How many loose ingestions must, and may be there when so many operations were done.
    pub fn loose(&self, at: u64) -> RangeInclusive<usize> {
        let span = |write: &usize| self.writes.get(*write);
        let over = self.loose.iter().filter(|write| span(write).is_some_and(|span| span.is_over(at))).count();
        let issued = self.loose.iter().filter(|write| span(write).is_some_and(|span| span.is_issued(at))).count();
        over..=issued
    }

    fn loose_beyond(&self, state: State) -> &[usize] {
        let within = self.loose.partition_point(|write| *write < state.writes);
        self.loose.get(within..state.loose.max(within)).unwrap_or_default()
    }

    /// What the families hold in a state.
    pub fn model(&self, state: State) -> Model {
        let mut model = Model::default();
        let is_there = |write: &usize| *write < state.writes || self.loose_beyond(state).contains(write);
        let steps = self.workload.writes().enumerate().filter(|(write, _)| is_there(write));
        steps.flat_map(|(_, step)| step.records()).for_each(|record| model.apply(record));
        model
    }

    /// How many writes may be there when so many operations were done.
    pub fn issued(&self, at: u64) -> usize {
        self.writes.partition_point(|span| span.is_issued(at))
    }

    /// The fingerprint of a family in a state.
    pub fn fingerprint(&self, state: State, family: FamilyId) -> u64 {
        let states = self.fingerprints.get(state.writes);
        let found = states.and_then(|states| states.get(self.loose_beyond(state).len())?.get(&family).copied());
        found.unwrap_or_else(|| fingerprint(&BTreeMap::new()))
    }
}
