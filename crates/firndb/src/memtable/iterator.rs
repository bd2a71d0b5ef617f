//! The cursor over the point entries of a memtable.

use std::sync::Arc;

use firn_error::Result;
use firn_format::iterator::InternalIterator;

use super::MemTable;
use super::index::{Ahead, Place};

/// A cursor over the point entries of a memtable; keeps the memtable alive. Keys and values stay where they are for as
/// long as the memtable lives.
pub struct MemTableIterator {
    memtable: Arc<MemTable>,
    place: Option<Place>,
    /// Whether seeks ask the filter of prefixes.
    filtered: bool,
}

// SAFETY: a place is pointers into the arena of the memtable, which is `Send + Sync` and kept alive beside it.
unsafe impl Send for MemTableIterator {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for MemTableIterator {}

impl MemTableIterator {
    pub(super) fn new(memtable: Arc<MemTable>, filtered: bool) -> Self {
        Self { memtable, place: None, filtered }
    }

    /// The memtable.
    pub fn memtable(&self) -> &Arc<MemTable> {
        &self.memtable
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
        self.place = self.memtable.index.first();
    }

    fn seek_to_last(&mut self) {
        self.place = self.memtable.index.last();
    }

    #[inline]
    fn seek(&mut self, target: &[u8]) {
        if self.filtered && !self.memtable.may_contain_prefix(target) {
            self.place = None;
            return;
        }
        self.place = self.memtable.index.seek(target, Ahead::Leaf);
    }

    fn seek_for_prev(&mut self, target: &[u8]) {
        if self.filtered && !self.memtable.may_contain_prefix(target) {
            self.place = None;
            return;
        }
        self.place = self.memtable.index.seek_for_prev(target);
    }

    #[inline]
    fn next(&mut self) {
        debug_assert!(self.valid());
        // SAFETY: the place came from the index of this memtable.
        self.place = self.place.as_ref().and_then(|place| unsafe { self.memtable.index.next(place) });
    }

    #[inline]
    fn prev(&mut self) {
        debug_assert!(self.valid());
        // SAFETY: the place came from the index of this memtable.
        self.place = self.place.as_ref().and_then(|place| unsafe { self.memtable.index.prev(place) });
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
        Ok(())
    }
}
