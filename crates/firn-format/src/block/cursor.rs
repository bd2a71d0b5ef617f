//! Walking the entries of a block in both directions.
//!
//! A [`BlockCursor`] holds a position and the key there, but not the block, so that its owner may keep the block in
//! whatever way pins it; every move takes the [`BlockView`]. [`BlockIter`] is the two together, for blocks that are
//! simply borrowed.

use std::cmp::Ordering;
use std::ops::Range;

use firn_error::Result;

use super::{BlockView, EntryHeader, bad_entry};

/// A position in a block. All moves must be given the same block until the next [`reset`](Self::reset).
///
/// Moves return whether the cursor stands on an entry afterwards. After an error it does not.
#[derive(Clone, Debug, Default)]
pub struct BlockCursor {
    valid: bool,
    key: Vec<u8>,
    value_start: usize,
    value_end: usize,
    entry_start: usize,
    next_entry: usize,
    /// Index of the next restart point; kept only for blocks with separated values.
    next_restart: u32,
    /// Entries of the restart interval before the current one, oldest first; filled by moves backwards.
    behind: Vec<Behind>,
    /// What of each of their keys the next entry does not share, one behind the other: never more than the block holds,
    /// however long the keys are.
    behind_keys: Vec<u8>,
    /// What the entry that was read last shares with the key before; kept only while entries are noted.
    noted_shared: u32,
}

/// Offsets in the payload, which has less than 4 GiB.
#[derive(Clone, Copy, Debug)]
struct Behind {
    entry_start: u32,
    next_entry: u32,
    /// Bytes of the key that the next entry's key begins with.
    shared: u32,
    /// Where the others start in `behind_keys`.
    key_start: u32,
    value_start: u32,
    value_end: u32,
}

/// Room for the entries of a usual restart interval, reserved at once.
const USUAL_INTERVAL: usize = 16;

/// Appends `bytes`. Keys and their ends are short, and copies of a fixed size need no call.
#[inline(always)]
fn append(to: &mut Vec<u8>, bytes: &[u8]) {
    if let (Some(head), Some(tail)) = (bytes.first_chunk::<16>(), bytes.last_chunk::<16>())
        && bytes.len() <= 32
    {
        append_overlapping(to, bytes.len(), head, tail);
    } else if let (Some(head), Some(tail)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>())
        && bytes.len() <= 16
    {
        append_overlapping(to, bytes.len(), head, tail);
    } else {
        to.extend_from_slice(bytes);
    }
}

/// Appends `len` bytes that begin with `head` and end with `tail`.
#[inline(always)]
fn append_overlapping<const N: usize>(to: &mut Vec<u8>, len: usize, head: &[u8; N], tail: &[u8; N]) {
    to.extend_from_slice(head);
    to.truncate(to.len() + len - 2 * N);
    to.extend_from_slice(tail);
}

impl BlockCursor {
    /// A cursor that stands nowhere.
    pub fn new() -> Self {
        Self::default()
    }

    /// Leaves the block; buffers are kept.
    pub fn reset(&mut self) {
        self.valid = false;
        self.behind.clear();
    }

    /// Whether the cursor stands on an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// The key; empty while not valid.
    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Where the value lies in the payload.
    #[inline]
    pub fn value_range(&self) -> Range<usize> {
        self.value_start..self.value_end
    }

    /// The value in `block`, which must be the block of the last move.
    #[inline]
    pub fn value<'a>(&self, block: BlockView<'a>) -> &'a [u8] {
        block.payload.get(self.value_start..self.value_end).unwrap_or_default()
    }

    /// Where the entry starts in the payload.
    #[inline]
    pub fn entry_start(&self) -> usize {
        self.entry_start
    }

    /// Stands just before restart point `index`: the next [`advance`](Self::advance) reads the entry there.
    fn rewind_to_restart(&mut self, block: BlockView<'_>, index: u32) -> Result<()> {
        self.valid = false;
        self.next_entry = block.restart_offset(index)?;
        self.next_restart = index;
        self.key.clear();
        self.value_end = 0;
        Ok(())
    }

    /// Reads the entry at `next_entry`, which must not be the end.
    #[inline(always)]
    fn advance(&mut self, block: BlockView<'_>) -> Result<()> {
        self.read_entry::<false>(block)
    }

    /// As [`advance`](Self::advance); with `NOTE`, what is lost of the key before goes to `behind_keys`.
    #[inline(always)]
    fn read_entry<const NOTE: bool>(&mut self, block: BlockView<'_>) -> Result<()> {
        let entries = block.entries();
        let at = self.next_entry;
        let mut at_restart = false;
        self.valid = false;
        if block.layout.separated_values {
            at_restart =
                self.next_restart < block.layout.num_restarts && block.restart_offset(self.next_restart)? == at;
        }
        let Some(entry) = EntryHeader::decode(entries, at, at_restart) else {
            return Err(bad_entry());
        };
        let key_end = entry.key_start + entry.non_shared as usize;
        let Some(delta) = entries.get(entry.key_start..key_end) else {
            return Err(bad_entry());
        };
        if entry.shared as usize > self.key.len() {
            return Err(bad_entry());
        }
        if block.layout.separated_values {
            let values_start = block.layout.entries_end as usize;
            if at_restart {
                self.next_restart += 1;
                self.value_start = values_start + entry.value_offset as usize;
            } else {
                self.value_start = self.value_end.max(values_start);
            }
            self.value_end = self.value_start + entry.value_length as usize;
            self.next_entry = key_end;
            if self.value_end > block.layout.restarts_offset as usize {
                return Err(bad_entry());
            }
        } else {
            self.value_start = key_end;
            self.value_end = key_end + entry.value_length as usize;
            self.next_entry = self.value_end;
            if self.value_end > entries.len() {
                return Err(bad_entry());
            }
        }
        if NOTE {
            append(&mut self.behind_keys, self.key.get(entry.shared as usize..).unwrap_or_default());
            self.noted_shared = entry.shared;
        }
        self.key.truncate(entry.shared as usize);
        append(&mut self.key, delta);
        self.entry_start = at;
        self.valid = true;
        Ok(())
    }

    /// Moves to the first entry.
    ///
    /// # Errors
    /// Corruption, for this and all other moves, when an entry on the way does not decode.
    pub fn seek_to_first(&mut self, block: BlockView<'_>) -> Result<bool> {
        self.reset();
        if block.layout.is_empty() {
            return Ok(false);
        }
        self.rewind_to_restart(block, 0)?;
        self.advance(block)?;
        Ok(true)
    }

    /// Moves to the last entry.
    ///
    /// # Errors
    /// As [`seek_to_first`](Self::seek_to_first).
    pub fn seek_to_last(&mut self, block: BlockView<'_>) -> Result<bool> {
        self.reset();
        if block.layout.is_empty() {
            return Ok(false);
        }
        self.read_interval(block, block.layout.num_restarts - 1, block.layout.entries_end as usize)?;
        Ok(self.valid)
    }

    /// Moves to the next entry. The cursor must be valid.
    ///
    /// # Errors
    /// As [`seek_to_first`](Self::seek_to_first).
    #[inline]
    pub fn next(&mut self, block: BlockView<'_>) -> Result<bool> {
        debug_assert!(self.valid);
        if !self.behind.is_empty() {
            self.leave_behind(block)?;
        }
        if self.next_entry >= block.layout.entries_end as usize {
            self.valid = false;
            return Ok(false);
        }
        self.advance(block)?;
        Ok(true)
    }

    /// Turns round after `prev`: finds out again what only forward moves track.
    fn leave_behind(&mut self, block: BlockView<'_>) -> Result<()> {
        self.behind.clear();
        if block.layout.separated_values {
            let restart = self.restart_before(block, self.entry_start + 1);
            self.next_restart = restart.inspect_err(|_| self.valid = false)? + 1;
        }
        Ok(())
    }

    /// The last restart point before `offset`.
    fn restart_before(&self, block: BlockView<'_>, offset: usize) -> Result<u32> {
        let (mut low, mut high) = (0, block.layout.num_restarts);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if block.restart_offset(middle)? < offset {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Moves to the previous entry. The cursor must be valid.
    ///
    /// # Errors
    /// As [`seek_to_first`](Self::seek_to_first).
    pub fn prev(&mut self, block: BlockView<'_>) -> Result<bool> {
        debug_assert!(self.valid);
        if self.behind.is_empty() {
            let end = self.entry_start;
            if end == 0 {
                self.valid = false;
                return Ok(false);
            }
            let restart = self.restart_before(block, end).inspect_err(|_| self.valid = false)?;
            self.read_interval(block, restart, end)?;
        } else {
            self.step_back(block)?;
        }
        Ok(self.valid)
    }

    /// Moves to the last entry before `end` and notes those from restart point `restart` to there: they can only be read
    /// forwards, so they are read once and handed out from the end.
    fn read_interval(&mut self, block: BlockView<'_>, restart: u32, end: usize) -> Result<()> {
        self.rewind_to_restart(block, restart)?;
        self.behind.clear();
        self.behind.reserve(USUAL_INTERVAL);
        self.behind_keys.clear();
        let offset = |at: usize| u32::try_from(at).map_err(|_| bad_entry());
        while self.next_entry < end {
            let has_before = self.valid;
            let before = Behind {
                entry_start: offset(self.entry_start)?,
                next_entry: offset(self.next_entry)?,
                shared: 0,
                key_start: offset(self.behind_keys.len())?,
                value_start: offset(self.value_start)?,
                value_end: offset(self.value_end)?,
            };
            self.read_entry::<true>(block)?;
            if has_before {
                self.behind.push(Behind { shared: self.noted_shared, ..before });
            }
        }
        Ok(())
    }

    /// Moves to the last of the entries that were noted, of which there must be some.
    fn step_back(&mut self, block: BlockView<'_>) -> Result<()> {
        let Some(entry) = self.behind.pop() else {
            self.valid = false;
            return Ok(());
        };
        let key_start = entry.key_start as usize;
        self.key.truncate(entry.shared as usize);
        append(&mut self.key, self.behind_keys.get(key_start..).unwrap_or_default());
        self.behind_keys.truncate(key_start);
        self.entry_start = entry.entry_start as usize;
        self.next_entry = entry.next_entry as usize;
        (self.value_start, self.value_end) = (entry.value_start as usize, entry.value_end as usize);
        self.valid = true;
        if self.behind.is_empty() {
            self.leave_behind(block)?;
        }
        Ok(())
    }

    /// Moves to the first entry whose key is not less than the target; `compare(key)` orders a key against the target.
    ///
    /// # Errors
    /// As [`seek_to_first`](Self::seek_to_first).
    #[inline]
    pub fn seek(&mut self, block: BlockView<'_>, compare: impl Fn(&[u8]) -> Ordering) -> Result<bool> {
        self.reset();
        if block.layout.is_empty() {
            return Ok(false);
        }
        let (mut low, mut high) = (0, block.layout.num_restarts);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if compare(block.restart_key(middle)?) == Ordering::Less {
                low = middle;
            } else {
                high = middle;
            }
        }
        self.rewind_to_restart(block, low)?;
        self.scan_forward(block, compare)
    }

    /// As [`seek`](Self::seek), for a target known to be in or after restart interval `restart`.
    ///
    /// # Errors
    /// As [`seek_to_first`](Self::seek_to_first).
    pub fn seek_from_restart(
        &mut self,
        block: BlockView<'_>,
        restart: u32,
        compare: impl Fn(&[u8]) -> Ordering,
    ) -> Result<bool> {
        self.reset();
        if block.layout.is_empty() {
            return Ok(false);
        }
        self.rewind_to_restart(block, restart)?;
        self.scan_forward(block, compare)
    }

    #[inline]
    fn scan_forward(&mut self, block: BlockView<'_>, compare: impl Fn(&[u8]) -> Ordering) -> Result<bool> {
        while self.next_entry < block.layout.entries_end as usize {
            self.advance(block)?;
            if compare(&self.key) != Ordering::Less {
                return Ok(true);
            }
        }
        self.valid = false;
        Ok(false)
    }

    /// Moves to the last entry whose key is not greater than the target; `compare(key)` orders a key against the target.
    ///
    /// # Errors
    /// As [`seek_to_first`](Self::seek_to_first).
    pub fn seek_for_prev(&mut self, block: BlockView<'_>, compare: impl Fn(&[u8]) -> Ordering) -> Result<bool> {
        if !self.seek(block, &compare)? {
            return self.seek_to_last(block);
        }
        if compare(&self.key) == Ordering::Greater {
            return self.prev(block);
        }
        Ok(true)
    }
}

/// A borrowed block with a cursor over it, for keys that order bytewise or are not searched for.
#[derive(Clone, Debug)]
pub struct BlockIter<'a> {
    block: BlockView<'a>,
    cursor: BlockCursor,
}

impl<'a> BlockIter<'a> {
    /// An iterator over `payload` that stands nowhere.
    ///
    /// # Errors
    /// Corruption when the payload is no block.
    pub fn new(payload: &'a [u8]) -> Result<Self> {
        Ok(Self { block: BlockView::parse(payload)?, cursor: BlockCursor::new() })
    }

    /// The next entry, the first one to begin with; `None` at the end.
    ///
    /// # Errors
    /// Corruption when an entry does not decode.
    pub fn next_entry(&mut self) -> Result<Option<(&[u8], &'a [u8])>> {
        let moved =
            if self.cursor.valid() { self.cursor.next(self.block)? } else { self.cursor.seek_to_first(self.block)? };
        Ok(moved.then(|| (self.cursor.key(), self.cursor.value(self.block))))
    }

    /// The value under `key`, in a block whose keys order bytewise, such as the metaindex.
    ///
    /// # Errors
    /// Corruption when an entry does not decode.
    pub fn find(&mut self, key: &[u8]) -> Result<Option<&'a [u8]>> {
        let found = self.cursor.seek(self.block, |entry| entry.cmp(key))? && self.cursor.key() == key;
        Ok(found.then(|| self.cursor.value(self.block)))
    }

    /// Where the value of the entry that the last move reached lies in the payload.
    pub fn value_range(&self) -> Range<usize> {
        self.cursor.value_range()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BlockBuilder, BlockBuilderOptions};
    use super::*;

    #[test]
    fn a_walk_back_over_long_keys_that_share_almost_all_takes_no_more_than_the_block() {
        let options = BlockBuilderOptions { restart_interval: 1 << 20, ..BlockBuilderOptions::default() };
        let mut builder = BlockBuilder::new(&options);
        let stem = vec![b'k'; 50_000];
        let key = |n: u32| [stem.as_slice(), &n.to_be_bytes()].concat();
        for n in 0..2000 {
            builder.add(&key(n), b"value");
        }
        let payload = builder.finish().to_vec();
        let view = BlockView::parse(&payload).unwrap();
        let mut cursor = BlockCursor::new();
        assert!(cursor.seek_to_last(view).unwrap());
        for n in (0..2000).rev() {
            assert!(cursor.key() == key(n), "entry {n}");
            assert_eq!(cursor.value(view), b"value");
            assert_eq!(cursor.prev(view).unwrap(), n > 0);
        }
        assert!(cursor.behind_keys.capacity() < 2 * payload.len(), "{} bytes", cursor.behind_keys.capacity());
    }
}
