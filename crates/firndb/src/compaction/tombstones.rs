//! Range tombstones in flushes and compactions: what they delete on the way, and what of them the outputs keep.
//!
//! Every input brings a [`TombstoneWindow`]: its tombstones and the bounds within which they count. An entry is deleted by
//! a tombstone that is newer and of the same stripe, that is, no snapshot lies between the two. The outputs get
//! one tombstone per fragment and stripe, and their bounds are stretched to hold what part of it falls to them.

use std::cmp::Ordering;

use firn_format::comparator::InternalKeyComparator;
use firn_format::key::{InternalKey, SequenceNumber, ValueType};
use firn_format::range_tombstone::{FragmentedRangeTombstones, RangeTombstone};

use super::deeper::DeeperLevels;
use crate::read::tombstone_cover::{Edge, TombstoneWindow};

/// The stretches of sequence numbers between neighbouring snapshots, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct SnapshotStripes {
    snapshots: Vec<SequenceNumber>,
}

impl SnapshotStripes {
    /// The stripes of live snapshots, given in any order.
    pub(crate) fn new(mut snapshots: Vec<SequenceNumber>) -> Self {
        snapshots.sort_unstable();
        snapshots.dedup();
        Self { snapshots }
    }

    /// The oldest snapshot that sees `sequence`; the maximum if none does.
    #[inline]
    pub(crate) fn stripe(&self, sequence: SequenceNumber) -> SequenceNumber {
        if self.snapshots.is_empty() {
            return SequenceNumber::MAX;
        }
        let at = self.snapshots.partition_point(|&snapshot| snapshot < sequence);
        self.snapshots.get(at).copied().unwrap_or(SequenceNumber::MAX)
    }

    /// The newest snapshot that does not see `sequence`; zero if there is none.
    #[inline]
    pub(crate) fn before(&self, sequence: SequenceNumber) -> SequenceNumber {
        let at = self.snapshots.partition_point(|&snapshot| snapshot < sequence);
        at.checked_sub(1).and_then(|at| self.snapshots.get(at)).copied().unwrap_or(SequenceNumber::ZERO)
    }

    /// The oldest snapshot; the maximum without one.
    pub(crate) fn earliest(&self) -> SequenceNumber {
        self.snapshots.first().copied().unwrap_or(SequenceNumber::MAX)
    }

    /// The newest snapshot; zero without one.
    pub(crate) fn latest(&self) -> SequenceNumber {
        self.snapshots.last().copied().unwrap_or(SequenceNumber::ZERO)
    }
}

/// The range tombstones of all inputs.
#[derive(Debug)]
pub(crate) struct CompactionTombstones {
    order: InternalKeyComparator,
    windows: Vec<TombstoneWindow>,
    /// The sequences of the tombstones over the keys up to `until`, newest first.
    active: Vec<SequenceNumber>,
    until: Option<Edge>,
    located: bool,
}

impl CompactionTombstones {
    /// The tombstones of `windows`, none of which covers keys outside its own edges.
    pub(crate) fn new(order: InternalKeyComparator, mut windows: Vec<TombstoneWindow>) -> Self {
        windows.retain(|window| window.tombstones.as_ref().is_some_and(|list| !list.is_empty()));
        Self { order, windows, active: Vec::new(), until: None, located: false }
    }

    /// Whether a tombstone newer than `sequence` and of the same stripe covers `user_key`. Keys ascend from call to call;
    /// after [`rewind`](Self::rewind) they may start anew.
    #[inline]
    pub(crate) fn deletes(&mut self, user_key: &[u8], sequence: SequenceNumber, stripes: &SnapshotStripes) -> bool {
        if self.windows.is_empty() {
            return false;
        }
        if !self.located || !self.until.as_ref().is_none_or(|until| until.is_right_of(user_key, &self.order)) {
            self.locate(user_key);
        }
        if self.active.is_empty() {
            return false;
        }
        let stripe = stripes.stripe(sequence);
        let newest = self.active.partition_point(|&active| active > stripe);
        self.active.get(newest).is_some_and(|&active| active > sequence)
    }

    /// Lets keys start anew.
    pub(crate) fn rewind(&mut self) {
        self.located = false;
    }

    fn locate(&mut self, user_key: &[u8]) {
        let order = &self.order;
        self.active.clear();
        let mut until: Option<Edge> = None;
        let mut narrow = |edge: Edge| {
            if until.as_ref().is_none_or(|until| edge_before(&edge, until, order)) {
                until = Some(edge);
            }
        };
        for window in &self.windows {
            if let Some(from) = window.from.as_ref().filter(|from| from.is_right_of(user_key, order)) {
                narrow(from.clone());
                continue;
            }
            if window.until.as_ref().is_some_and(|until| !until.is_right_of(user_key, order)) {
                continue;
            }
            window.until.iter().for_each(|until| narrow(until.clone()));
            let Some(list) = &window.tombstones else { continue };
            if let Some(fragment) = list.fragments().get(list.position_of(user_key, order)) {
                if order.compare_user(&fragment.start, user_key).is_le() {
                    self.active.extend_from_slice(&fragment.sequences);
                    narrow(Edge::before(&fragment.end));
                } else {
                    narrow(Edge::before(&fragment.start));
                }
            }
        }
        self.active.sort_unstable_by(|a, b| b.cmp(a));
        self.until = until;
        self.located = true;
    }

    /// All tombstones, each cut to its window, in fragments.
    pub(crate) fn fragments(&self) -> FragmentedRangeTombstones {
        let mut all = Vec::new();
        for window in &self.windows {
            let Some(list) = &window.tombstones else { continue };
            for mut tombstone in list.iter() {
                if let Some(from) = &window.from
                    && self.order.compare_user(&tombstone.start, &from.key).is_lt()
                {
                    tombstone.start.clone_from(&from.key);
                }
                // A file whose last key is a point holds no more of its tombstones than up to there.
                if let Some(until) = &window.until
                    && self.order.compare_user(&until.key, &tombstone.end).is_lt()
                {
                    tombstone.end.clone_from(&until.key);
                }
                all.push(tombstone);
            }
        }
        FragmentedRangeTombstones::new(all, &self.order)
    }
}

fn edge_before(a: &Edge, b: &Edge, order: &InternalKeyComparator) -> bool {
    order.compare_user(&a.key, &b.key).then(a.after.cmp(&b.after)) == Ordering::Less
}

/// Between which bounds an output file takes range tombstones.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutputBounds {
    /// The first key of the file, or of the subcompaction for its first file; `None` = no bound.
    pub(crate) lower: Option<InternalKey>,
    /// Where the file ends, exclusive as a user key unless [`upper_is_point`](Self::upper_is_point); `None` = no bound.
    pub(crate) upper: Option<InternalKey>,
    /// The upper bound is the file's last point key: the next file goes on with older entries of the same user key.
    pub(crate) upper_is_point: bool,
}

/// A tombstone for an output file, and how it stretches the file's bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutputTombstone {
    /// What is written; not cut to the file.
    pub(crate) tombstone: RangeTombstone,
    /// The least internal key that the file holds because of it.
    pub(crate) smallest: InternalKey,
    /// The greatest internal key that the file holds because of it.
    pub(crate) largest: InternalKey,
}

/// What becomes of the tombstones within the bounds of an output.
#[derive(Debug, Default)]
pub(crate) struct OutputTombstones {
    /// Those that are written.
    pub(crate) kept: Vec<OutputTombstone>,
    /// How many are not written since nothing lies below them.
    pub(crate) dropped: u64,
}

/// What decides which tombstones an output keeps.
pub(crate) struct TombstoneDropRules<'a> {
    /// User key and sequence order.
    pub(crate) order: &'a InternalKeyComparator,
    /// The snapshots to respect.
    pub(crate) stripes: &'a SnapshotStripes,
    /// Whether no deeper level overlaps the compaction.
    pub(crate) bottommost: bool,
    /// The levels below the output.
    pub(crate) deeper: &'a DeeperLevels,
}

/// The tombstones of `fragments` that the output within `bounds` keeps: per fragment the newest of each stripe.
pub(crate) fn output_tombstones(
    fragments: &FragmentedRangeTombstones,
    bounds: &OutputBounds,
    rules: &TombstoneDropRules<'_>,
) -> OutputTombstones {
    let order = rules.order;
    let earliest = rules.stripes.earliest();
    let (mut kept, mut dropped) = (Vec::new(), 0);
    let first = bounds.lower.as_ref().map_or(0, |lower| fragments.position_of(lower.user_key(), order));
    for fragment in fragments.fragments().get(first..).unwrap_or(&[]) {
        if let Some(upper) = &bounds.upper {
            let beyond = order.compare_user(&fragment.start, upper.user_key());
            // A point as upper bound still holds the tombstone's effect on that very user key.
            if beyond.is_gt() || (beyond.is_eq() && !bounds.upper_is_point) {
                break;
            }
        }
        let start = match &bounds.lower {
            Some(lower) if order.compare_user(&fragment.start, lower.user_key()).is_lt() => lower.user_key(),
            _ => &fragment.start,
        };
        let end = match &bounds.upper {
            Some(upper) if order.compare_user(upper.user_key(), &fragment.end).is_lt() => upper.user_key(),
            _ => &fragment.end,
        };
        let mut last_stripe = None;
        for &sequence in &fragment.sequences {
            let stripe = rules.stripes.stripe(sequence);
            if last_stripe.replace(stripe) == Some(stripe) {
                continue;
            }
            let unneeded = rules.bottommost || rules.deeper.excludes_range(start, end, order);
            if sequence <= earliest && unneeded {
                dropped += 1;
                continue;
            }
            let mut smallest = InternalKey::new(start, sequence, ValueType::RangeDeletion);
            if let Some(lower) = &bounds.lower
                && order.compare_user(&fragment.start, lower.user_key()).is_ge()
                && order.compare(smallest.encoded(), lower.encoded()).is_lt()
            {
                smallest = lower.clone();
            }
            let mut largest = InternalKey::range_sentinel(&fragment.end);
            if let Some(upper) = &bounds.upper
                && order.compare(upper.encoded(), largest.encoded()).is_lt()
            {
                largest = upper.clone();
            }
            let tombstone = RangeTombstone { start: fragment.start.clone(), end: fragment.end.clone(), sequence };
            kept.push(OutputTombstone { tombstone, smallest, largest });
        }
    }
    OutputTombstones { kept, dropped }
}

#[cfg(test)]
#[path = "tombstones_test.rs"]
mod tests;
