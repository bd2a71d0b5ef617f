//! Range tombstones and their fragments.
//!
//! A [`RangeTombstone`] deletes every key in `[start, end)` that is older than it. Tombstones overlap as they please;
//! [`FragmentedRangeTombstones`] cuts a set of them into fragments that do not, each with the sequence numbers of all
//! tombstones over it, newest first. From then on "which tombstone covers this key at this snapshot" is one binary search.
//!
//! Always true of a fragmented list: fragments are in user-key order, none is empty, none overlaps its neighbour, and the
//! sequences of a fragment descend strictly.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::comparator::InternalKeyComparator;
use crate::key::SequenceNumber;

/// The deletion of all keys in `[start, end)` that were written before `sequence`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTombstone {
    /// The first user key deleted.
    pub start: Vec<u8>,
    /// The first user key not deleted any more.
    pub end: Vec<u8>,
    /// When the deletion was written.
    pub sequence: SequenceNumber,
}

/// A part of the key space and the tombstones that cover all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TombstoneFragment {
    /// The first user key of the fragment.
    pub start: Vec<u8>,
    /// The first user key after it.
    pub end: Vec<u8>,
    /// The sequences of the tombstones over it, strictly descending, never empty.
    pub sequences: Vec<SequenceNumber>,
}

impl TombstoneFragment {
    /// The newest tombstone that a reader at `snapshot` sees; `None` if all are newer.
    #[inline]
    pub fn newest_visible(&self, snapshot: SequenceNumber) -> Option<SequenceNumber> {
        let from = self.sequences.partition_point(|&sequence| sequence > snapshot);
        self.sequences.get(from).copied()
    }
}

/// Range tombstones cut into non-overlapping fragments; immutable, cheap to search.
#[derive(Clone, Debug, Default)]
pub struct FragmentedRangeTombstones {
    fragments: Vec<TombstoneFragment>,
    tombstone_count: usize,
}

/// An active tombstone during the sweep, ordered so that the heap yields the nearest end first.
struct Active<'a> {
    end: &'a [u8],
    sequence: SequenceNumber,
    order: &'a InternalKeyComparator,
}

impl PartialEq for Active<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Active<'_> {}
impl PartialOrd for Active<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Active<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order.compare_user(other.end, self.end).then(self.sequence.cmp(&other.sequence))
    }
}

impl FragmentedRangeTombstones {
    /// Cuts `tombstones`, given in any order, into fragments. Tombstones whose range is empty are left out.
    pub fn new(mut tombstones: Vec<RangeTombstone>, order: &InternalKeyComparator) -> Self {
        tombstones.retain(|t| order.compare_user(&t.start, &t.end) == Ordering::Less);
        tombstones.sort_by(|a, b| order.compare_user(&a.start, &b.start));
        let mut fragments = Vec::new();
        let mut active: BinaryHeap<Active<'_>> = BinaryHeap::new();
        let mut position: &[u8] = &[];
        for tombstone in &tombstones {
            close_until(&mut active, &mut position, Some(&tombstone.start), order, &mut fragments);
            position = &tombstone.start;
            active.push(Active { end: &tombstone.end, sequence: tombstone.sequence, order });
        }
        close_until(&mut active, &mut position, None, order, &mut fragments);
        Self { fragments, tombstone_count: tombstones.len() }
    }

    /// Whether there is no fragment.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    /// The fragments, in key order.
    pub fn fragments(&self) -> &[TombstoneFragment] {
        &self.fragments
    }

    /// How many tombstones went in (empty ranges not counted).
    pub fn tombstone_count(&self) -> usize {
        self.tombstone_count
    }

    /// The position of the first fragment whose end is after `user_key`; it covers the key if its start is not after it.
    #[inline]
    pub fn position_of(&self, user_key: &[u8], order: &InternalKeyComparator) -> usize {
        self.fragments.partition_point(|f| order.compare_user(&f.end, user_key) != Ordering::Greater)
    }

    /// The sequence of the newest tombstone over `user_key` that a reader at `snapshot` sees; zero if there is none.
    #[inline]
    pub fn max_covering_sequence(
        &self,
        user_key: &[u8],
        snapshot: SequenceNumber,
        order: &InternalKeyComparator,
    ) -> SequenceNumber {
        if self.fragments.is_empty() {
            return SequenceNumber::ZERO;
        }
        match self.fragments.get(self.position_of(user_key, order)) {
            Some(fragment) if order.compare_user(&fragment.start, user_key) != Ordering::Greater => {
                fragment.newest_visible(snapshot).unwrap_or(SequenceNumber::ZERO)
            }
            _ => SequenceNumber::ZERO,
        }
    }

    /// Every (fragment, sequence) pair as a tombstone of its own, in order of start, newest first.
    pub fn iter(&self) -> impl Iterator<Item = RangeTombstone> + '_ {
        self.fragments.iter().flat_map(|f| {
            f.sequences.iter().map(|&sequence| RangeTombstone { start: f.start.clone(), end: f.end.clone(), sequence })
        })
    }
}

/// Emits the fragments between `position` and `limit` that the `active` tombstones leave, dropping those that end there.
fn close_until<'a>(
    active: &mut BinaryHeap<Active<'a>>,
    position: &mut &'a [u8],
    limit: Option<&'a [u8]>,
    order: &InternalKeyComparator,
    fragments: &mut Vec<TombstoneFragment>,
) {
    while let Some(nearest) = active.peek() {
        let nearest_end = nearest.end;
        let end = match limit {
            Some(limit) if order.compare_user(limit, nearest_end) == Ordering::Less => limit,
            _ => nearest_end,
        };
        if order.compare_user(position, end) == Ordering::Less {
            let mut sequences: Vec<_> = active.iter().map(|a| a.sequence).collect();
            sequences.sort_unstable_by(|a, b| b.cmp(a));
            sequences.dedup();
            fragments.push(TombstoneFragment { start: position.to_vec(), end: end.to_vec(), sequences });
            *position = end;
        }
        while active.peek().is_some_and(|a| order.compare_user(a.end, end) != Ordering::Greater) {
            active.pop();
        }
        if limit.is_some_and(|limit| order.compare_user(limit, end) == Ordering::Equal) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tombstone(start: &str, end: &str, sequence: u64) -> RangeTombstone {
        RangeTombstone { start: start.into(), end: end.into(), sequence: SequenceNumber(sequence) }
    }

    fn show(list: &FragmentedRangeTombstones) -> String {
        let part = |f: &TombstoneFragment| {
            let sequences: Vec<_> = f.sequences.iter().map(|s| s.0.to_string()).collect();
            let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
            format!("{}-{}@{}", text(&f.start), text(&f.end), sequences.join(","))
        };
        list.fragments().iter().map(part).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn overlapping_tombstones_become_fragments() {
        let order = InternalKeyComparator::default();
        let list = FragmentedRangeTombstones::new(
            vec![tombstone("c", "i", 10), tombstone("a", "e", 5), tombstone("c", "g", 8), tombstone("j", "n", 4)],
            &order,
        );
        assert_eq!(show(&list), "a-c@5 c-e@10,8,5 e-g@10,8 g-i@10 j-n@4");
        let at = |key: &str, snapshot| list.max_covering_sequence(key.as_bytes(), SequenceNumber(snapshot), &order).0;
        assert_eq!([at("b", 9), at("c", 9), at("c", 7), at("i", 99), at("j", 3), at("j", 4)], [5, 8, 5, 0, 0, 4]);
    }

    #[test]
    fn empty_ranges_and_duplicates_vanish() {
        let order = InternalKeyComparator::default();
        let list = FragmentedRangeTombstones::new(
            vec![tombstone("b", "a", 1), tombstone("c", "c", 2), tombstone("a", "b", 3), tombstone("a", "b", 3)],
            &order,
        );
        assert_eq!(show(&list), "a-b@3");
        assert_eq!(list.tombstone_count(), 2);
    }

    proptest! {
        #[test]
        fn agrees_with_a_linear_search(
            ranges in prop::collection::vec((0u8..20, 0u8..20, 1u64..30), 0..20),
            key in 0u8..20,
            snapshot in 0u64..31,
        ) {
            let order = InternalKeyComparator::default();
            let all: Vec<_> = ranges
                .iter()
                .map(|&(a, b, s)| RangeTombstone { start: vec![a], end: vec![b], sequence: SequenceNumber(s) })
                .collect();
            let expected = ranges
                .iter()
                .filter(|&&(a, b, s)| a <= key && key < b && s <= snapshot)
                .map(|r| r.2)
                .max()
                .unwrap_or(0);
            let list = FragmentedRangeTombstones::new(all, &order);
            prop_assert_eq!(list.max_covering_sequence(&[key], SequenceNumber(snapshot), &order).0, expected);
            for pair in list.fragments().windows(2) {
                prop_assert!(pair[0].start < pair[0].end && pair[0].end <= pair[1].start);
            }
        }
    }
}
