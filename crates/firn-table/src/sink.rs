//! How a point lookup hands over what it finds: [`GetSink`], [`ValueRef`] and [`PinnedSlice`].
//!
//! A table or memtable pushes the entries of one user key, newest first, into a [`GetSink`] until the sink has seen
//! enough. The value arrives as a [`ValueRef`]: borrowed bytes, and where the bytes live in something that can be kept
//! alive, the means to do so. A sink that wants the value beyond the call turns it into a [`PinnedSlice`], which copies
//! only when nothing can be pinned.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use firn_format::key::ParsedInternalKey;

use crate::block_ref::TableBlock;
use crate::cache::CacheRef;

/// Whether a lookup should go on to older entries of the same user key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GetControl {
    /// The next older entry may matter.
    Continue,
    /// The sink has its answer.
    Stop,
}

/// Receives the entries of one user key, newest first.
pub trait GetSink {
    /// Takes one entry. The entry belongs to the user key looked up and is visible at the lookup's sequence.
    fn accept(&mut self, key: ParsedInternalKey<'_>, value: ValueRef<'_>) -> GetControl;
}

/// Keeps bytes alive and in place for as long as it exists. Making one allocates nothing.
#[derive(Clone)]
pub enum Keepalive {
    /// A block in the cache.
    Cached(CacheRef<TableBlock>),
    /// Anything else that is counted, such as a memtable or a block that no cache knows.
    Shared(Arc<dyn Any + Send + Sync>),
}

/// The owner of a borrowed value, asked only when somebody wants to keep the value.
pub trait PinSource {
    /// A handle that keeps the owner's bytes alive and in place until it is dropped.
    fn keepalive(&self) -> Keepalive;
}

impl<T: Send + Sync + 'static> PinSource for Arc<T> {
    fn keepalive(&self) -> Keepalive {
        Keepalive::Shared(Arc::clone(self) as _)
    }
}

/// A borrowed value that may know how to stay alive.
#[derive(Clone, Copy)]
pub struct ValueRef<'a> {
    bytes: &'a [u8],
    owner: Option<&'a dyn PinSource>,
}

impl<'a> ValueRef<'a> {
    /// A value that nothing can keep alive; pinning it copies.
    #[inline]
    pub fn borrowed(bytes: &'a [u8]) -> Self {
        Self { bytes, owner: None }
    }

    /// A value that lives in `owner`.
    ///
    /// # Safety
    /// `bytes` must stay valid and unchanged at its address for as long as any handle that `owner.keepalive()` returns.
    #[inline]
    pub unsafe fn owned_by(bytes: &'a [u8], owner: &'a dyn PinSource) -> Self {
        Self { bytes, owner: Some(owner) }
    }

    /// The bytes, with the lifetime of the borrow.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether [`pin`](Self::pin) works without a copy.
    pub fn is_pinnable(&self) -> bool {
        self.owner.is_some()
    }

    /// The same value cut to `bytes[..len]`; all of it if it is shorter.
    #[must_use]
    pub fn truncated(self, len: usize) -> Self {
        Self { bytes: self.bytes.get(..len).unwrap_or(self.bytes), owner: self.owner }
    }

    /// Keeps the value: without a copy if the owner can be kept alive, else by copying.
    #[inline]
    pub fn pin(self) -> PinnedSlice {
        match self.owner {
            Some(owner) => PinnedSlice {
                repr: Repr::Pinned { start: self.bytes.as_ptr(), len: self.bytes.len(), _owner: owner.keepalive() },
            },
            None => PinnedSlice::from(self.bytes),
        }
    }
}

impl Deref for ValueRef<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

impl fmt::Debug for ValueRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ValueRef({} bytes, pinnable: {})", self.bytes.len(), self.is_pinnable())
    }
}

/// Bytes that stay where they are until this is dropped: pinned in a block or an arena, or owned.
///
/// May be sent to and shared with other threads. Holding one keeps its owner (a cached block, a memtable) in memory.
#[derive(Clone)]
pub struct PinnedSlice {
    repr: Repr,
}

#[derive(Clone)]
enum Repr {
    Owned(Vec<u8>),
    Pinned { start: *const u8, len: usize, _owner: Keepalive },
}

// SAFETY: the pointer is to bytes that nobody changes while the owner lives (contract of `ValueRef::owned_by`), and the
// owner itself is `Send + Sync`.
unsafe impl Send for PinnedSlice {}
// SAFETY: as for `Send`; only shared reads of the bytes are given out.
unsafe impl Sync for PinnedSlice {}

impl PinnedSlice {
    /// The owned bytes; copies if they were pinned.
    pub fn into_vec(self) -> Vec<u8> {
        match self.repr {
            Repr::Owned(bytes) => bytes,
            Repr::Pinned { .. } => self.to_vec(),
        }
    }

    /// Whether the bytes lie in somebody else's memory that this slice keeps alive.
    pub fn is_pinned(&self) -> bool {
        matches!(self.repr, Repr::Pinned { .. })
    }
}

impl Deref for PinnedSlice {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.repr {
            Repr::Owned(bytes) => bytes,
            // SAFETY: `ValueRef::owned_by` promised that the bytes stay valid and unchanged while the owner lives, and the
            // owner is a field of this variant.
            Repr::Pinned { start, len, .. } => unsafe { std::slice::from_raw_parts(*start, *len) },
        }
    }
}

impl AsRef<[u8]> for PinnedSlice {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<Vec<u8>> for PinnedSlice {
    fn from(bytes: Vec<u8>) -> Self {
        Self { repr: Repr::Owned(bytes) }
    }
}

impl From<&[u8]> for PinnedSlice {
    fn from(bytes: &[u8]) -> Self {
        Self { repr: Repr::Owned(bytes.to_vec()) }
    }
}

impl From<PinnedSlice> for Vec<u8> {
    fn from(slice: PinnedSlice) -> Self {
        slice.into_vec()
    }
}

impl<T: AsRef<[u8]> + ?Sized> PartialEq<T> for PinnedSlice {
    fn eq(&self, other: &T) -> bool {
        self.deref() == other.as_ref()
    }
}

impl Eq for PinnedSlice {}

impl fmt::Debug for PinnedSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinning_keeps_the_owner_alive_without_a_copy() {
        let owner: Arc<Vec<u8>> = Arc::new(b"hello world".to_vec());
        let address = owner.as_ptr();
        // SAFETY: the vector behind the `Arc` is never changed.
        let value = unsafe { ValueRef::owned_by(&owner[..5], &owner) };
        let pinned = value.pin();
        assert_eq!(Arc::strong_count(&owner), 2);
        drop(owner);
        assert_eq!((pinned.as_ptr(), &*pinned), (address, &b"hello"[..]));
        assert!(pinned.is_pinned());
    }

    #[test]
    fn borrowed_values_are_copied() {
        let pinned = ValueRef::borrowed(b"abc").truncated(2).pin();
        assert!(!pinned.is_pinned());
        assert_eq!(pinned.into_vec(), b"ab");
    }
}
