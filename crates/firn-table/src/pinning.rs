//! The one place that vouches for values in blocks: it ties a value to the block that holds it.

use std::ops::Range;

use crate::block_ref::BlockRef;
use crate::sink::ValueRef;

/// The bytes of `block` at `range` as a value that can be kept without a copy. Empty when the range does not fit.
#[inline]
pub(crate) fn value_in_block(block: &BlockRef, range: Range<usize>) -> ValueRef<'_> {
    let bytes = block.data_view().payload.get(range).unwrap_or_default();
    // SAFETY: the bytes lie in the heap buffer of a data block, which is never changed or moved after it was made, and the
    // keepalive of a `BlockRef` is a counted reference to that very block.
    unsafe { ValueRef::owned_by(bytes, block) }
}
