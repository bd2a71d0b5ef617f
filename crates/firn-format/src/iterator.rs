//! The one iterator contract of memtables, blocks, tables, levels and merges.

use crate::Result;

/// A cursor over entries in internal-key order.
///
/// A cursor starts unpositioned, that is not [`valid`](Self::valid). Keys are encoded internal keys, and so are seek
/// targets. `key` and `value` may be called only while valid, and what they return lives until the next move.
/// A cursor that meets an error becomes invalid and keeps the error in [`status`](Self::status) until the next seek.
///
/// There are two kinds of seeks. `seek` and `seek_for_prev` are what the user of a scan asked for; a cursor may then leave
/// entries out that this user does not look at, such as a table whose prefix filter does not know the target's prefix.
/// `reseek` and `reseek_for_prev` are how a scan goes on by itself (over many versions of a key, over a deleted range, in
/// the other direction); their targets say nothing about what the user looks at, so they leave nothing out.
pub trait InternalIterator {
    /// Whether the cursor stands on an entry.
    fn valid(&self) -> bool;
    /// Moves to the first entry.
    fn seek_to_first(&mut self);
    /// Moves to the last entry.
    fn seek_to_last(&mut self);
    /// Moves to the first entry at or after `target`.
    fn seek(&mut self, target: &[u8]);
    /// Moves to the last entry at or before `target`.
    fn seek_for_prev(&mut self, target: &[u8]);
    /// As [`seek`](Self::seek), without leaving anything out.
    fn reseek(&mut self, target: &[u8]);
    /// As [`seek_for_prev`](Self::seek_for_prev), without leaving anything out.
    fn reseek_for_prev(&mut self, target: &[u8]);
    /// Moves to the next entry. The cursor must be valid.
    fn next(&mut self);
    /// Moves to the previous entry. The cursor must be valid.
    fn prev(&mut self);
    /// The encoded internal key. The cursor must be valid.
    fn key(&self) -> &[u8];
    /// The value. The cursor must be valid.
    fn value(&self) -> &[u8];
    /// The error that made the cursor invalid, if one did.
    fn status(&self) -> Result<()>;
}

impl<T: InternalIterator + ?Sized> InternalIterator for Box<T> {
    fn valid(&self) -> bool {
        (**self).valid()
    }
    fn seek_to_first(&mut self) {
        (**self).seek_to_first();
    }
    fn seek_to_last(&mut self) {
        (**self).seek_to_last();
    }
    fn seek(&mut self, target: &[u8]) {
        (**self).seek(target);
    }
    fn seek_for_prev(&mut self, target: &[u8]) {
        (**self).seek_for_prev(target);
    }
    fn reseek(&mut self, target: &[u8]) {
        (**self).reseek(target);
    }
    fn reseek_for_prev(&mut self, target: &[u8]) {
        (**self).reseek_for_prev(target);
    }
    fn next(&mut self) {
        (**self).next();
    }
    fn prev(&mut self) {
        (**self).prev();
    }
    fn key(&self) -> &[u8] {
        (**self).key()
    }
    fn value(&self) -> &[u8] {
        (**self).value()
    }
    fn status(&self) -> Result<()> {
        (**self).status()
    }
}
