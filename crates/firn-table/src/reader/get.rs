//! Point lookups in one table.

use std::cmp::Ordering;

use firn_error::{Error, Result};
use firn_format::block::{BlockCursor, HashLookup};
use firn_format::comparator::ComparatorKind;
use firn_format::index::BlockHandle;
use firn_format::key::{
    ParsedInternalKey, SequenceNumber, ValueType, extract_footer, extract_user_key, pack_footer, parse_internal_key,
};

use super::{TableReadOptions, TableReader};
use crate::block_ref::BlockRef;
use crate::data_block::{DataBlock, Found};
use crate::index_block::IndexBlock;
use crate::pinning::value_in_block;
use crate::sink::{GetControl, GetSink};

/// What a lookup knows after one data block.
enum Outcome {
    /// The sink has its answer, or the file has no more entries of the key.
    Done,
    /// Entries of the key may follow in the next block.
    NextBlock,
}

/// Where a lookup begins in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Located {
    /// The table has no entry of the key.
    Nowhere,
    /// In this data block.
    Block {
        /// The block's position in the index.
        position: usize,
        /// Where the block lies.
        handle: BlockHandle,
    },
    /// The index has partitions: use [`TableReader::get`].
    Partitioned,
}

/// Which entries of the user key are handed over.
#[derive(Clone, Copy)]
enum After {
    /// Those at and after the lookup key.
    Lookup,
    /// Those older than the entry with this footer, which the sink has already.
    Footer(u64),
}

impl TableReader {
    /// Hands the entries of the user key of `lookup`, an internal key, at or before its sequence to `sink`, newest first,
    /// until it has seen enough. Range tombstones are not considered.
    ///
    /// # Errors
    /// Corruption, with file and offset, when the file is damaged; `Incomplete` when only memory may be used and a block is
    /// not there.
    pub fn get<S: GetSink>(&self, options: &TableReadOptions, lookup: &[u8], sink: &mut S) -> Result<()> {
        if !self.may_have_key(options, lookup) {
            return Ok(());
        }
        let hold = self.index(options)?;
        let Some(top) = hold.index() else {
            return Ok(());
        };
        if !self.is_partitioned() {
            let position = self.place_index_error(top.seek(lookup))?;
            return self.get_in(top, position, options, lookup, sink).map(|_| ());
        }
        let mut partition = self.place_index_error(top.seek(lookup))?;
        while let Some(handle) = self.place_index_error(top.entry(partition))? {
            let block = self.index_partition(handle, options)?;
            let Some(index) = block.index() else {
                return Ok(());
            };
            let position = self.place_index_error(index.seek(lookup))?;
            if let Outcome::Done = self.get_in(index, position, options, lookup, sink)? {
                return Ok(());
            }
            partition += 1;
        }
        Ok(())
    }

    /// Whether the table may have point entries of the user key of `lookup`, as far as its filter tells.
    #[inline]
    pub fn may_contain(&self, options: &TableReadOptions, lookup: &[u8]) -> bool {
        self.may_have_key(options, lookup)
    }

    /// The first step of a lookup behind the filter: where its first data block lies. A lookup may be taken step by step
    /// ([`locate`](Self::locate), [`load`](Self::load), [`get_from`](Self::get_from)), so that the same step of many lookups
    /// is done in a row and their cache misses overlap.
    ///
    /// # Errors
    /// Those of reading the index.
    #[inline]
    pub fn locate(&self, options: &TableReadOptions, lookup: &[u8]) -> Result<Located> {
        if self.is_partitioned() {
            return Ok(Located::Partitioned);
        }
        let hold = self.index(options)?;
        let Some(index) = hold.index() else { return Ok(Located::Nowhere) };
        let position = self.place_index_error(index.seek(lookup))?;
        Ok(match index.handle(position) {
            Some(handle) if self.may_begin_at(index, position, lookup) => Located::Block { position, handle },
            _ => Located::Nowhere,
        })
    }

    /// The second step of a lookup: the data block at `handle`.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    #[inline]
    pub fn load(&self, options: &TableReadOptions, handle: BlockHandle) -> Result<BlockRef> {
        self.data_block(handle, options, None)
    }

    /// Between the first and the second step: asks the processor for the place of the block in the cache.
    #[inline]
    pub fn prefetch_block(&self, handle: BlockHandle) {
        if let Some(cache) = &self.block_cache {
            cache.prefetch(&self.cache_key(handle));
        }
    }

    /// Between the second and the last step: asks the processor for what will be read of the block.
    #[inline]
    pub fn prefetch_entries(&self, block: &BlockRef, lookup: &[u8]) {
        if self.comparator().kind() == ComparatorKind::Bytewise
            && let Some(data) = block.data()
        {
            data.prefetch_find(extract_user_key(lookup));
        }
    }

    /// The last step of a lookup: hands over the entries, beginning in the block at `position` of the index, which
    /// [`locate`](Self::locate) and [`load`](Self::load) gave.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    #[inline]
    pub fn get_from<S: GetSink>(
        &self,
        options: &TableReadOptions,
        lookup: &[u8],
        (position, handle): (usize, BlockHandle),
        block: &BlockRef,
        sink: &mut S,
    ) -> Result<()> {
        let outcome =
            self.get_in_block(block, lookup, sink).map_err(|error| self.file().locate(error, handle.offset))?;
        if let Outcome::Done = outcome {
            return Ok(());
        }
        let hold = self.index(options)?;
        match hold.index() {
            Some(index) => self.get_in(index, position + 1, options, lookup, sink).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Whether the block at `position` may begin at or before the user key of `lookup`.
    #[inline]
    fn may_begin_at(&self, index: &IndexBlock, position: usize, lookup: &[u8]) -> bool {
        index.first_key(position).is_none_or(|first_key| {
            self.comparator().compare_user(extract_user_key(first_key), extract_user_key(lookup)) != Ordering::Greater
        })
    }

    fn get_in<S: GetSink>(
        &self,
        index: &IndexBlock,
        mut position: usize,
        options: &TableReadOptions,
        lookup: &[u8],
        sink: &mut S,
    ) -> Result<Outcome> {
        while let Some(handle) = self.place_index_error(index.entry(position))? {
            if !self.may_begin_at(index, position, lookup) {
                return Ok(Outcome::Done);
            }
            let block = self.data_block(handle, options, None)?;
            let outcome =
                self.get_in_block(&block, lookup, sink).map_err(|error| self.file().locate(error, handle.offset))?;
            if let Outcome::Done = outcome {
                return Ok(Outcome::Done);
            }
            position += 1;
        }
        Ok(Outcome::NextBlock)
    }

    fn get_in_block<S: GetSink>(&self, block: &BlockRef, lookup: &[u8], sink: &mut S) -> Result<Outcome> {
        let bytewise = self.comparator().kind() == ComparatorKind::Bytewise && self.global_sequence().is_none();
        let is_plain = |data: &&DataBlock| data.view().layout.hash_buckets == 0 && !data.is_protected();
        let Some(data) = block.data().filter(|data| bytewise && is_plain(data)) else {
            return self.get_by_cursor(block, lookup, After::Lookup, sink);
        };
        let user_key = extract_user_key(lookup);
        match data.find(user_key, extract_footer(lookup))? {
            Found::OtherKey => Ok(Outcome::Done),
            Found::EndOfBlock => Ok(Outcome::NextBlock),
            Found::Undecided => self.get_by_cursor(block, lookup, After::Lookup, sink),
            Found::Entry { footer, value } => {
                let Some(value_type) = ValueType::from_u8(footer as u8).filter(|kind| kind.is_key_type()) else {
                    return Err(Error::corruption(format!(
                        "Corrupted Key: type {:#04x} is not a key type",
                        footer as u8
                    )));
                };
                let parsed = ParsedInternalKey { user_key, sequence: SequenceNumber(footer >> 8), value_type };
                match sink.accept(parsed, value_in_block(block, value)) {
                    GetControl::Stop => Ok(Outcome::Done),
                    GetControl::Continue => self.get_by_cursor(block, lookup, After::Footer(footer), sink),
                }
            }
        }
    }

    /// As [`get_in_block`](Self::get_in_block), for any order and any block.
    fn get_by_cursor<S: GetSink>(
        &self,
        block: &BlockRef,
        lookup: &[u8],
        after: After,
        sink: &mut S,
    ) -> Result<Outcome> {
        let view = block.data_view();
        let user_key = extract_user_key(lookup);
        let order = self.order();
        let mut cursor = BlockCursor::new();
        let protected = block.data().filter(|data| data.is_protected());
        let found = match (protected, view.hash_lookup(user_key)) {
            // The hash index would pass over what has to be checked.
            (Some(data), _) => data.checked_seek(&mut cursor, |key| order.compare(key, lookup))?,
            (None, HashLookup::Collision) => cursor.seek(view, |key| order.compare(key, lookup))?,
            (None, HashLookup::Restart(restart)) => {
                cursor.seek_from_restart(view, restart, |key| order.compare(key, lookup))?
            }
            // A key that is not in this block may be in the next one, if all keys here come before it.
            (None, HashLookup::Absent) if view.layout.is_empty() => false,
            (None, HashLookup::Absent) => {
                let last = view.layout.num_restarts - 1;
                if cursor.seek_from_restart(view, last, |key| order.compare(key, lookup))? {
                    return Ok(Outcome::Done);
                }
                false
            }
        };
        if !found {
            return Ok(Outcome::NextBlock);
        }
        loop {
            let stored = parse_internal_key(cursor.key())?;
            if self.comparator().compare_user(stored.user_key, user_key) != Ordering::Equal {
                return Ok(Outcome::Done);
            }
            let footer = order.footer(pack_footer(stored.sequence, stored.value_type));
            let is_new = match after {
                After::Lookup => true,
                After::Footer(handed_over) => footer < handed_over,
            };
            let parsed = ParsedInternalKey { sequence: SequenceNumber(footer >> 8), ..stored };
            if is_new && sink.accept(parsed, value_in_block(block, cursor.value_range())) == GetControl::Stop {
                return Ok(Outcome::Done);
            }
            if !cursor.next(view)? {
                return Ok(Outcome::NextBlock);
            }
            if let Some(data) = protected {
                data.check_entry(&cursor)?;
            }
        }
    }
}
