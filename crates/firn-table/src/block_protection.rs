//! Protection of the entries of data blocks while they lie in memory (`block_protection_bytes_per_key`,
//! `docs/format/write-batch.md`, Protection of records). Index blocks keep theirs themselves
//! ([`IndexBlock`](crate::IndexBlock)).
//!
//! A payload whose checksum was compared flows into [`protect`], which puts behind it what its entries are; whoever found an
//! entry asks [`BlockProtection::check_entry`] whether it is still the one; [`BlockProtection::seek`] searches and checks all
//! that leads to its answer.
//!
//! ```text
//! payload | per restart point: fixed32 entries before it | per entry: 1, 2, 4 or 8 bytes of its protection | fixed64 seal | fixed32 payload length
//! ```
//!
//! The seal covers the restart array, with the hash index behind it, and the counts. Always true here: bytes of the block that
//! changed after [`protect`] are reported as corruption by the check of whatever was read from them.

use std::cmp::Ordering;

use firn_error::{Error, Result};
use firn_format::block::{BlockCursor, BlockLayout, BlockView, EntryHeader, bad_entry};
use firn_format::hash::xxph3_64_with_seed;
use firn_format::protection::Protection;

use crate::frame::Frame;

const COUNT_BYTES: usize = 4;
const SEAL_BYTES: usize = 8;
const LENGTH_BYTES: usize = 4;
const SEAL_SEED: u64 = 0x9E6C_63D0_873B_51A7;

/// The block in `payload` with so many bytes of protection for each entry behind it.
///
/// # Errors
/// Corruption when the payload does not decode.
pub(crate) fn protect(payload: &[u8], layout: BlockLayout, bytes_per_key: u8) -> Result<Frame> {
    let view = BlockView { payload, layout };
    let (mut counts, mut kept) = (Vec::new(), Vec::new());
    let (mut entries, mut restarts) = (0u32, 0u32);
    let mut cursor = BlockCursor::new();
    let mut found = cursor.seek_to_first(view)?;
    while found {
        if restarts < layout.num_restarts && view.restart_offset(restarts)? == cursor.entry_start() {
            counts.extend_from_slice(&entries.to_le_bytes());
            restarts += 1;
        }
        let protection = Protection::of_stored(cursor.key(), cursor.value(view)).to_bytes();
        kept.extend(truncated(u64::from_le_bytes(protection), bytes_per_key));
        entries += 1;
        found = cursor.next(view)?;
    }
    let length = u32::try_from(payload.len()).ok().filter(|_| restarts == layout.num_restarts).ok_or_else(bad_entry)?;
    let sealed = [payload.get(layout.restarts_offset as usize..).unwrap_or_default(), &counts].concat();
    let seal = xxph3_64_with_seed(&sealed, SEAL_SEED).to_le_bytes();
    let parts = [payload, &counts, &kept, &seal, &length.to_le_bytes()];
    let total: usize = parts.iter().map(|part| part.len()).sum();
    u32::try_from(total).map_err(|_| Error::not_supported("a block of this size with protection of its entries"))?;
    let mut frame = Frame::new(total);
    let mut rest = &mut *frame;
    for part in parts {
        let (target, behind) = rest.split_at_mut(part.len());
        target.copy_from_slice(part);
        rest = behind;
    }
    Ok(frame)
}

/// The parts of a protected block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockProtection<'a> {
    view: BlockView<'a>,
    counts: &'a [u8],
    kept: &'a [u8],
    seal: [u8; SEAL_BYTES],
    bytes_per_key: usize,
}

impl<'a> BlockProtection<'a> {
    /// Of a block that [`protect`] made.
    ///
    /// # Errors
    /// Corruption when its parts do not fit together any more.
    pub(crate) fn of(frame: &'a [u8], layout: BlockLayout, bytes_per_key: u8) -> Result<Self> {
        Self::split(frame, layout, bytes_per_key.into()).ok_or_else(|| changed_at(0))
    }

    fn split(frame: &'a [u8], layout: BlockLayout, bytes_per_key: usize) -> Option<Self> {
        let (rest, length) = frame.split_last_chunk::<LENGTH_BYTES>()?;
        let (rest, seal) = rest.split_last_chunk::<SEAL_BYTES>()?;
        let (payload, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let (counts, kept) = rest.split_at_checked((layout.num_restarts as usize).checked_mul(COUNT_BYTES)?)?;
        Some(Self { view: BlockView { payload, layout }, counts, kept, seal: *seal, bytes_per_key })
    }

    /// Whether the entry that `cursor` stands on is what it was.
    ///
    /// # Errors
    /// Corruption.
    pub(crate) fn check_entry(&self, cursor: &BlockCursor) -> Result<()> {
        let at = cursor.entry_start();
        let (restart, mut offset) = self.restart_up_to(at)?;
        let mut index = self.entries_before(restart)?;
        let layout = self.view.layout;
        while offset < at {
            // Only restart entries tell where their value lies, and only the first one here is one.
            let tells_value = layout.separated_values && self.view.restart_offset(restart)? == offset;
            let header = EntryHeader::decode(self.view.entries(), offset, tells_value).ok_or_else(bad_entry)?;
            let value_bytes = if layout.separated_values { 0 } else { header.value_length as usize };
            offset = header.key_start + header.non_shared as usize + value_bytes;
            index += 1;
        }
        if offset != at {
            return Err(changed_at(at));
        }
        self.compare(index, cursor)
    }

    /// Moves to the first entry whose key is not less than the target; `compare(key)` orders a key against the target. All
    /// that the answer rests on is checked: the restart array, and every entry from the restart point where the scan begins.
    /// That restart point comes before the target, or the check of its entry fails, so that nothing is passed over.
    ///
    /// # Errors
    /// Corruption.
    pub(crate) fn seek(&self, cursor: &mut BlockCursor, compare: impl Fn(&[u8]) -> Ordering) -> Result<bool> {
        let layout = self.view.layout;
        let restarts = self.view.payload.get(layout.restarts_offset as usize..).unwrap_or_default();
        if xxph3_64_with_seed(&[restarts, self.counts].concat(), SEAL_SEED).to_le_bytes() != self.seal {
            return Err(changed_at(layout.restarts_offset as usize));
        }
        cursor.reset();
        if layout.is_empty() {
            return Ok(false);
        }
        let (mut low, mut high) = (0, layout.num_restarts);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if compare(self.view.restart_key(middle)?) == Ordering::Less {
                low = middle;
            } else {
                high = middle;
            }
        }
        let mut index = self.entries_before(low)?;
        let mut found = cursor.seek_from_restart(self.view, low, |_| Ordering::Equal)?;
        while found {
            self.compare(index, cursor)?;
            if compare(cursor.key()) != Ordering::Less {
                return Ok(true);
            }
            index += 1;
            found = cursor.next(self.view)?;
        }
        Ok(false)
    }

    /// The last restart point up to `offset`, and where it lies.
    fn restart_up_to(&self, offset: usize) -> Result<(u32, usize)> {
        let (mut low, mut high) = (0, self.view.layout.num_restarts);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.view.restart_offset(middle)? <= offset {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok((low, self.view.restart_offset(low)?))
    }

    fn entries_before(&self, restart: u32) -> Result<usize> {
        let count = self.counts.get(restart as usize * COUNT_BYTES..).and_then(<[u8]>::first_chunk);
        count.map(|count| u32::from_le_bytes(*count) as usize).ok_or_else(bad_entry)
    }

    fn compare(&self, index: usize, cursor: &BlockCursor) -> Result<()> {
        let start = index.saturating_mul(self.bytes_per_key);
        let kept = self.kept.get(start..).and_then(|kept| kept.get(..self.bytes_per_key));
        let protection = Protection::of_stored(cursor.key(), cursor.value(self.view));
        if kept.is_some_and(|kept| protection.matches(kept)) { Ok(()) } else { Err(changed_at(cursor.entry_start())) }
    }
}

/// The first bytes of a protection.
pub(crate) fn truncated(protection: u64, bytes_per_key: u8) -> impl Iterator<Item = u8> {
    protection.to_le_bytes().into_iter().take(bytes_per_key.into())
}

#[cold]
fn changed_at(offset: usize) -> Error {
    changed(format_args!("Offset in the block: {offset}"))
}

/// The error of an entry that is not what it was.
pub(crate) fn changed(place: std::fmt::Arguments<'_>) -> Error {
    Error::corruption(format!("Corrupted block entry: per key-value checksum verification failed. {place}."))
}

#[cfg(test)]
mod tests;
