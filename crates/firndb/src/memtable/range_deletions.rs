//! The range deletions of a memtable.
//!
//! Writers append tombstones; readers want fragments. Fragments are built when a scan asks for them and kept until the
//! next tombstone. A point lookup searches the fragments that exist and looks through the few tombstones that came since,
//! so that a workload that mixes range deletions with lookups does not rebuild the fragments for each.

use firn_env::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use firn_env::sync::RwLock;
use firn_error::Result;
use firn_format::comparator::InternalKeyComparator;
use firn_format::key::{SequenceNumber, ValueType};
use firn_format::protection::Protection;
use firn_format::range_tombstone::{FragmentedRangeTombstones, RangeTombstone};

use super::checks::mismatch;

/// Tombstones beyond the fragments that a lookup goes through one by one before it rebuilds them, if the fragments are
/// not many more themselves.
const TAIL_LIMIT: usize = 32;

/// See the module documentation.
pub(super) struct RangeDeletions {
    order: InternalKeyComparator,
    count: AtomicUsize,
    lists: RwLock<Lists>,
}

struct Lists {
    tombstones: Vec<RangeTombstone>,
    /// The exclusive or of the protections of all tombstones, if they are protected.
    protection: u64,
    is_protected: bool,
    /// Made of the first `fragmented` tombstones.
    fragments: Arc<FragmentedRangeTombstones>,
    fragmented: usize,
}

impl Lists {
    fn fragment(&mut self, order: &InternalKeyComparator) {
        if self.fragmented < self.tombstones.len() {
            self.fragments = Arc::new(FragmentedRangeTombstones::new(self.tombstones.clone(), order));
            self.fragmented = self.tombstones.len();
        }
    }

    fn tail(&self) -> &[RangeTombstone] {
        self.tombstones.get(self.fragmented..).unwrap_or_default()
    }
}

impl RangeDeletions {
    pub(super) fn new(order: InternalKeyComparator) -> Self {
        let lists = Lists {
            tombstones: Vec::new(),
            protection: 0,
            is_protected: false,
            fragments: Arc::default(),
            fragmented: 0,
        };
        Self { order, count: AtomicUsize::new(0), lists: RwLock::new(lists) }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.count() == 0
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Adds a tombstone; `protect` says whether [`verify`](Self::verify) shall notice when it changes, for all alike.
    pub(super) fn add(&self, tombstone: RangeTombstone, protect: bool) {
        let mut lists = self.lists.write();
        lists.is_protected = protect;
        if protect {
            lists.protection ^= protection_of(&tombstone).0;
        }
        lists.tombstones.push(tombstone);
        self.count.store(lists.tombstones.len(), Ordering::Release);
    }

    /// Checks that the tombstones are still what was added.
    ///
    /// # Errors
    /// `Corruption` when they are not.
    pub(super) fn verify(&self) -> Result<()> {
        let lists = self.lists.read();
        let actual = || lists.tombstones.iter().fold(0, |sum, tombstone| sum ^ protection_of(tombstone).0);
        if lists.is_protected && actual() != lists.protection {
            return Err(mismatch());
        }
        Ok(())
    }

    pub(super) fn fragments(&self) -> Arc<FragmentedRangeTombstones> {
        let lists = self.lists.read();
        if lists.tail().is_empty() {
            return Arc::clone(&lists.fragments);
        }
        drop(lists);
        let mut lists = self.lists.write();
        lists.fragment(&self.order);
        Arc::clone(&lists.fragments)
    }

    pub(super) fn max_covering_sequence(&self, user_key: &[u8], snapshot: SequenceNumber) -> SequenceNumber {
        let lists = self.lists.read();
        if lists.tail().len() > TAIL_LIMIT.max(lists.fragmented / 8) {
            drop(lists);
            return self.fragments().max_covering_sequence(user_key, snapshot, &self.order);
        }
        let covers = |t: &&RangeTombstone| {
            t.sequence <= snapshot
                && self.order.compare_user(&t.start, user_key).is_le()
                && self.order.compare_user(user_key, &t.end).is_lt()
        };
        let in_tail = lists.tail().iter().filter(covers).map(|t| t.sequence).max().unwrap_or_default();
        in_tail.max(lists.fragments.max_covering_sequence(user_key, snapshot, &self.order))
    }
}

/// The protection of a tombstone as an entry of a memtable.
pub(super) fn protection_of(tombstone: &RangeTombstone) -> Protection {
    Protection::of(ValueType::RangeDeletion, &tombstone.start, &tombstone.end).toggle_sequence(tombstone.sequence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookups_see_every_tombstone_with_and_without_fragments() {
        let deletions = RangeDeletions::new(InternalKeyComparator::default());
        for i in 0..200_u8 {
            deletions.add(
                RangeTombstone { start: vec![i], end: vec![i + 2], sequence: SequenceNumber(u64::from(i) + 1) },
                true,
            );
            if i == 50 {
                assert_eq!(deletions.fragments().tombstone_count(), 51);
            }
            let at = |key: u8, snapshot| deletions.max_covering_sequence(&[key], SequenceNumber(snapshot)).0;
            assert_eq!(at(i, 1000), u64::from(i) + 1);
            assert_eq!(at(i, u64::from(i)), u64::from(i));
            assert_eq!(at(i + 2, 1000), 0);
        }
        assert_eq!(deletions.count(), 200);
        deletions.verify().unwrap();
    }

    #[test]
    fn a_tombstone_that_changes_is_noticed() {
        for protect in [false, true] {
            let deletions = RangeDeletions::new(InternalKeyComparator::default());
            let tombstone =
                |end: &[u8]| RangeTombstone { start: b"a".to_vec(), end: end.to_vec(), sequence: SequenceNumber(7) };
            deletions.add(tombstone(b"m"), protect);
            deletions.verify().unwrap();
            deletions.lists.write().tombstones[0] = tombstone(b"n");
            assert_eq!(deletions.verify().is_err(), protect);
        }
    }
}
