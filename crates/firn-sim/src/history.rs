//! What a run issued, and what it was promised, at which operation of the file system.

use std::collections::BTreeMap;

use firn_env::crash::Journal;

use crate::workload::{FamilyId, Workload};

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

/// A run, as it is judged afterwards.
#[derive(Debug)]
pub struct History {
    /// What was run.
    pub workload: Workload,
    /// All changes of files.
    pub journal: Journal,
    /// The writes, in their order.
    pub writes: Vec<Span>,
    /// The fingerprints of the families after so many writes.
    pub fingerprints: Vec<BTreeMap<FamilyId, u64>>,
    /// What a power failure leaves.
    pub durable: Floor,
    /// What a kill of the process leaves.
    pub flushed: Floor,
    /// What either leaves of one family, where families are independent of each other.
    pub durable_of: BTreeMap<FamilyId, Floor>,
    /// The column families.
    pub families: Vec<FamilyLife>,
}

impl History {
    /// How many writes may be there when so many operations were done.
    pub fn issued(&self, at: u64) -> usize {
        self.writes.partition_point(|span| span.is_issued(at))
    }

    /// The fingerprint of a family after so many writes.
    pub fn fingerprint(&self, writes: usize, family: FamilyId) -> Option<u64> {
        self.fingerprints.get(writes)?.get(&family).copied()
    }
}
