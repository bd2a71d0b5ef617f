//! When a block that is being built is full.

use firn_format::block::BLOCK_TRAILER_SIZE;

/// The rule by which data blocks and index partitions are closed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlushPolicy {
    block_size: usize,
    /// A block at least this full is closed rather than overflowed; 0 when the rule is off.
    nearly_full: usize,
    block_align: bool,
    every_key: bool,
}

impl FlushPolicy {
    pub(crate) fn by_size(block_size: u64, deviation_percent: i32, block_align: bool) -> Self {
        let deviation = if (0..=100).contains(&deviation_percent) { deviation_percent as u64 } else { 0 };
        let block_size = block_size.clamp(1, u64::from(u32::MAX));
        Self {
            block_size: block_size as usize,
            nearly_full: ((block_size * (100 - deviation)).div_ceil(100)) as usize,
            block_align,
            every_key: false,
        }
    }

    pub(crate) fn every_key() -> Self {
        Self { every_key: true, ..Self::by_size(1, 0, false) }
    }

    /// Whether a block of `current_size`, not empty, is closed before an entry that would bring it to `size_after`.
    #[inline]
    pub(crate) fn is_full(&self, current_size: usize, size_after: impl FnOnce() -> usize) -> bool {
        if self.every_key || current_size >= self.block_size {
            return true;
        }
        if self.nearly_full == 0 {
            return false;
        }
        if self.block_align {
            return size_after() + BLOCK_TRAILER_SIZE > self.block_size;
        }
        current_size > self.nearly_full && size_after() > self.block_size
    }
}
