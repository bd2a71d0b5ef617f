//! The cursor over the point entries of a memtable.

use std::sync::Arc;

use firn_error::{Error, Result};
use firn_format::iterator::InternalIterator;
use firn_table::ValueRef;

use super::MemTable;
use super::checks::Direction;
use super::index::{Ahead, Place};

/// A cursor over the point entries of a memtable; keeps the memtable alive. Keys and values stay where they are for as
/// long as the memtable lives.
pub struct MemTableIterator {
    memtable: Arc<MemTable>,
    place: Option<Place>,
    /// Whether seeks ask the filter of prefixes.
    filtered: bool,
    /// What a check found.
    error: Option<Error>,
}

// SAFETY: a place is pointers into the arena of the memtable, which is `Send + Sync` and kept alive beside it.
unsafe impl Send for MemTableIterator {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for MemTableIterator {}

impl MemTableIterator {
    /// The value, with the memtable as its owner, so that it can be kept without a copy. The cursor must be valid.
    pub fn value_ref(&self) -> ValueRef<'_> {
        // SAFETY: the value lies in the arena of the memtable that the owner keeps alive, and never changes.
        unsafe { ValueRef::owned_by(self.entry().1, &self.memtable) }
    }

    pub(super) fn new(memtable: Arc<MemTable>, filtered: bool) -> Self {
        Self { memtable, place: None, filtered, error: None }
    }

    /// The memtable.
    pub fn memtable(&self) -> &Arc<MemTable> {
        &self.memtable
    }

    /// Moves to `place`, which was reached from the key `from` in a direction.
    #[inline]
    fn land(&mut self, place: Option<Place>, from: Option<(&[u8], Direction)>) {
        self.place = place;
        if self.memtable.checks.any() {
            self.check(from);
        }
    }

    #[cold]
    fn check(&mut self, from: Option<(&[u8], Direction)>) {
        self.error = None;
        let Some(place) = &self.place else { return };
        let MemTable { checks, order, .. } = &*self.memtable;
        // SAFETY: the entry is in the arena of the memtable that `self` keeps alive, which also has the checks.
        if let Err(error) = unsafe { checks.check(order, place.entry(), from) } {
            self.error = Some(error);
            self.place = None;
        }
    }

    /// One step on from where it stands.
    #[inline]
    fn step(&mut self, direction: Direction) {
        debug_assert!(self.valid());
        let Some(place) = &self.place else { return };
        let index = &self.memtable.index;
        // SAFETY: the place came from the index of this memtable, which `self` keeps alive.
        let next = unsafe { if direction == Direction::Up { index.next(place) } else { index.prev(place) } };
        if !self.memtable.checks.any() {
            self.place = next;
            return;
        }
        // SAFETY: as above; the key stays where it is in the arena.
        let from = unsafe { place.entry().ikey() };
        self.land(next, Some((from, direction)));
    }

    /// Key and value.
    #[inline]
    fn entry(&self) -> (&[u8], &[u8]) {
        match &self.place {
            // SAFETY: the entry is in the arena of the memtable that `self` keeps alive.
            Some(place) => unsafe { place.entry().key_and_value() },
            None => (&[], &[]),
        }
    }
}

impl InternalIterator for MemTableIterator {
    #[inline]
    fn valid(&self) -> bool {
        self.place.is_some()
    }

    fn seek_to_first(&mut self) {
        self.land(self.memtable.index.first(), None);
    }

    fn seek_to_last(&mut self) {
        self.land(self.memtable.index.last(), None);
    }

    #[inline]
    fn seek(&mut self, target: &[u8]) {
        if self.filtered && !self.memtable.may_contain_prefix(target) {
            self.land(None, None);
            return;
        }
        self.reseek(target);
    }

    fn seek_for_prev(&mut self, target: &[u8]) {
        if self.filtered && !self.memtable.may_contain_prefix(target) {
            self.land(None, None);
            return;
        }
        self.reseek_for_prev(target);
    }

    #[inline]
    fn reseek(&mut self, target: &[u8]) {
        self.land(self.memtable.index.seek(target, Ahead::Leaf), Some((target, Direction::Up)));
    }

    fn reseek_for_prev(&mut self, target: &[u8]) {
        self.land(self.memtable.index.seek_for_prev(target), Some((target, Direction::Down)));
    }

    #[inline]
    fn next(&mut self) {
        self.step(Direction::Up);
    }

    #[inline]
    fn prev(&mut self) {
        self.step(Direction::Down);
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.entry().0
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.entry().1
    }

    fn status(&self) -> Result<()> {
        self.error.clone().map_or(Ok(()), Err)
    }
}
