//! A forward cursor that ends before a user key: the input of one part of a compaction.

use firn_error::Result;
use firn_format::comparator::InternalKeyComparator;
use firn_format::iterator::InternalIterator;
use firn_format::key::{InternalKey, SequenceNumber, extract_user_key};

/// Shows the entries of `inner` whose user keys lie in `[start, end)`. Only forward moves are meant to be used; backward
/// ones ignore the start.
pub(crate) struct BoundedIterator<I> {
    inner: I,
    order: InternalKeyComparator,
    start: Option<Vec<u8>>,
    end: Option<Vec<u8>>,
    inside: bool,
}

impl<I: InternalIterator> BoundedIterator<I> {
    /// Without an end on either side where it is `None`.
    pub(crate) fn new(inner: I, order: InternalKeyComparator, start: Option<Vec<u8>>, end: Option<Vec<u8>>) -> Self {
        Self { inner, order, start, end, inside: false }
    }

    #[inline]
    fn look(&mut self) {
        self.inside = self.inner.valid()
            && self
                .end
                .as_ref()
                .is_none_or(|end| self.order.compare_user(extract_user_key(self.inner.key()), end).is_lt());
    }
}

impl<I: InternalIterator> InternalIterator for BoundedIterator<I> {
    #[inline]
    fn valid(&self) -> bool {
        self.inside
    }

    fn seek_to_first(&mut self) {
        match &self.start {
            Some(start) => self.inner.seek(InternalKey::for_seek(start, SequenceNumber::MAX).encoded()),
            None => self.inner.seek_to_first(),
        }
        self.look();
    }

    fn seek_to_last(&mut self) {
        match &self.end {
            Some(end) => self.inner.seek_for_prev(InternalKey::for_seek(end, SequenceNumber::MAX).encoded()),
            None => self.inner.seek_to_last(),
        }
        self.look();
    }

    fn seek(&mut self, target: &[u8]) {
        self.inner.seek(target);
        self.look();
    }

    fn seek_for_prev(&mut self, target: &[u8]) {
        self.inner.seek_for_prev(target);
        self.look();
    }

    fn reseek(&mut self, target: &[u8]) {
        self.inner.reseek(target);
        self.look();
    }

    fn reseek_for_prev(&mut self, target: &[u8]) {
        self.inner.reseek_for_prev(target);
        self.look();
    }

    #[inline]
    fn next(&mut self) {
        self.inner.next();
        self.look();
    }

    fn prev(&mut self) {
        self.inner.prev();
        self.look();
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.inner.key()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.inner.value()
    }

    fn status(&self) -> Result<()> {
        self.inner.status()
    }
}
