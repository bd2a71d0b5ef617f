//! Iterating over one table in both directions.
//!
//! A [`TableIterator`] is two cursors, one in the index and one in a data block. The key is kept in a buffer that is
//! reused from entry to entry, the value stays where it lies in the block. The iterator keeps its table and the blocks it
//! stands on in memory, and so has no lifetime.
//!
//! Always true here: a move from one block to another goes on in the order of the keys, or it is Corruption. An index may
//! name blocks twice or in any order, with valid checksums; a scan over such a table ends with an error.

use std::cmp::Ordering;
use std::sync::Arc;

use firn_error::{Error, Result};
use firn_format::block::BlockCursor;
use firn_format::comparator::ComparatorKind;
use firn_format::index::BlockHandle;
use firn_format::iterator::InternalIterator;
use firn_format::key::{FOOTER_SIZE, extract_user_key};

use crate::block_ref::BlockRef;
use crate::data_block::DataBlock;
use crate::index_block::IndexBlock;
use crate::readahead::ReadAhead;
use crate::reader::filter::SeekDirection;
use crate::reader::{TableReadOptions, TableReader};
use crate::sink::ValueRef;

/// A position among the data blocks of a table.
#[derive(Debug, Default)]
struct IndexCursor {
    /// The index block or top-level index.
    top: Option<BlockRef>,
    /// Position in the top-level index; unused where the index is not partitioned.
    partition: usize,
    /// The partition at that position, once it is needed.
    partition_block: Option<BlockRef>,
    /// Position in the index block or partition.
    position: usize,
}

impl IndexCursor {
    /// Brings in the index block or top-level index.
    fn open(&mut self, table: &TableReader, options: &TableReadOptions) -> Result<()> {
        if self.top.is_none() {
            self.top = Some(BlockRef::clone(&*table.index(options)?));
        }
        Ok(())
    }

    fn top(&self) -> Option<&IndexBlock> {
        self.top.as_ref()?.index()
    }

    fn block(&self, table: &TableReader) -> Option<&IndexBlock> {
        if table.is_partitioned() { self.partition_block.as_ref()?.index() } else { self.top() }
    }

    fn handle(&self, table: &TableReader) -> Result<Option<BlockHandle>> {
        let entry = self.block(table).map_or(Ok(None), |block| block.entry(self.position));
        table.place_index_error(entry)
    }

    /// Loads the partition at `partition`; none beyond the last one.
    fn load(&mut self, table: &TableReader, options: &TableReadOptions, partition: usize) -> Result<()> {
        if self.partition_block.is_none() || self.partition != partition {
            self.partition_block = None;
            let entry = self.top().map_or(Ok(None), |top| top.entry(partition));
            self.partition_block = match table.place_index_error(entry)? {
                Some(handle) => Some(table.index_partition(handle, options)?),
                None => None,
            };
            self.partition = partition;
        }
        Ok(())
    }

    fn seek_to_first(&mut self, table: &TableReader, options: &TableReadOptions) -> Result<()> {
        self.open(table, options)?;
        if table.is_partitioned() {
            self.load(table, options, 0)?;
        }
        self.position = 0;
        Ok(())
    }

    fn seek_to_last(&mut self, table: &TableReader, options: &TableReadOptions) -> Result<()> {
        self.open(table, options)?;
        if table.is_partitioned() {
            let last = self.top().map_or(0, |top| top.len().saturating_sub(1));
            self.load(table, options, last)?;
        }
        self.position = self.block(table).map_or(0, |block| block.len().saturating_sub(1));
        Ok(())
    }

    fn seek(&mut self, table: &TableReader, options: &TableReadOptions, target: &[u8]) -> Result<()> {
        self.open(table, options)?;
        if table.is_partitioned() {
            let partition = table.place_index_error(self.top().map_or(Ok(0), |top| top.seek(target)))?;
            self.load(table, options, partition)?;
        }
        self.position = table.place_index_error(self.block(table).map_or(Ok(0), |block| block.seek(target)))?;
        Ok(())
    }

    fn next(&mut self, table: &TableReader, options: &TableReadOptions) -> Result<()> {
        self.position += 1;
        if table.is_partitioned() && self.block(table).is_some_and(|block| self.position >= block.len()) {
            self.load(table, options, self.partition + 1)?;
            self.position = 0;
        }
        Ok(())
    }

    /// Moves back; `false` at the first block.
    fn prev(&mut self, table: &TableReader, options: &TableReadOptions) -> Result<bool> {
        if self.position > 0 {
            self.position -= 1;
            return Ok(true);
        }
        if !table.is_partitioned() || self.partition == 0 {
            return Ok(false);
        }
        self.load(table, options, self.partition - 1)?;
        self.position = self.block(table).map_or(0, |block| block.len().saturating_sub(1));
        Ok(true)
    }
}

/// A cursor over the entries of a table. See [`InternalIterator`].
#[derive(Debug)]
pub struct TableIterator {
    table: Arc<TableReader>,
    options: TableReadOptions,
    index: IndexCursor,
    block: Option<BlockRef>,
    block_handle: BlockHandle,
    cursor: BlockCursor,
    /// The key as it counts, where that differs from the stored one.
    rewritten_key: Vec<u8>,
    rewrites_keys: bool,
    /// Whether entries must be checked or their keys rewritten before they are handed out.
    takes_care: bool,
    /// While the cursor goes from block to block: the key that it left or that was sought, which the next entry must lie
    /// beyond. Empty when any entry will do.
    left: Vec<u8>,
    error: Option<Error>,
    readahead: ReadAhead,
}

impl TableIterator {
    pub(crate) fn new(table: Arc<TableReader>, options: TableReadOptions) -> Self {
        let rewrites_keys = table.global_sequence().is_some();
        let readahead = ReadAhead::new(options.readahead);
        Self {
            table,
            options,
            index: IndexCursor::default(),
            block: None,
            block_handle: BlockHandle::NULL,
            cursor: BlockCursor::new(),
            rewritten_key: Vec::new(),
            rewrites_keys,
            takes_care: rewrites_keys,
            left: Vec::new(),
            error: None,
            readahead,
        }
    }

    /// The table that is iterated over.
    pub fn table(&self) -> &Arc<TableReader> {
        &self.table
    }

    /// The value, with the block as its owner, so that it can be kept without a copy. The cursor must be valid.
    pub fn value_ref(&self) -> ValueRef<'_> {
        match &self.block {
            Some(block) => crate::pinning::value_in_block(block, self.cursor.value_range()),
            None => ValueRef::borrowed(&[]),
        }
    }

    /// What the cursor came from when it ran off an end of the table: the last key before that, or what was sought. Empty
    /// when it came from nowhere.
    pub fn take_left(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.left)
    }

    /// Makes the cursor, which must be valid, fail unless its key lies on the side of `left` that `order` names.
    pub fn require_order(&mut self, order: Ordering, left: &[u8]) {
        if self.table.order().comparator.compare(self.key(), left) != order {
            self.fail(out_of_order());
        }
    }

    fn fail(&mut self, error: Error) {
        self.cursor.reset();
        self.error = Some(self.table.file().locate(error, self.block_handle.offset));
    }

    /// Runs a move; an error makes the cursor invalid.
    #[inline]
    fn settle(&mut self, outcome: Result<()>) {
        match outcome {
            Err(error) => self.fail(error),
            Ok(()) if self.cursor.valid() => {
                if self.cursor.key().len() < FOOTER_SIZE {
                    let message = format!("Corrupted Key: Internal Key too small. Size={}. ", self.cursor.key().len());
                    self.fail(Error::corruption(message));
                } else if self.takes_care {
                    self.prepare_entry();
                }
            }
            Ok(()) => {}
        }
    }

    /// Checks the entry if its block is protected, and gives its key the file's sequence number if it has one.
    fn prepare_entry(&mut self) {
        let protected = self.block.as_ref().and_then(BlockRef::data).filter(|data| data.is_protected());
        if let Some(Err(error)) = protected.map(|data| data.check_entry(&self.cursor)) {
            self.fail(error);
        } else if self.rewrites_keys {
            self.table.order().rewrite(self.cursor.key(), &mut self.rewritten_key);
        }
    }

    fn start(&mut self) {
        self.error = None;
        self.left.clear();
        self.cursor.reset();
    }

    /// Remembers where the cursor comes from before it goes to another block.
    fn leave(&mut self, target: Option<&[u8]>) {
        self.left.clear();
        let key = if self.rewrites_keys { &self.rewritten_key } else { self.cursor.key() };
        self.left.extend_from_slice(target.unwrap_or(key));
    }

    /// Whether the entry that the cursor came to in another block lies on the side of where it came from that `order` names.
    fn check_crossing(&self, order: Ordering) -> Result<()> {
        if !self.cursor.valid() || self.left.is_empty() || self.cursor.key().len() < FOOTER_SIZE {
            return Ok(());
        }
        match self.table.order().compare(self.cursor.key(), &self.left) == order {
            true => Ok(()),
            false => Err(out_of_order()),
        }
    }

    /// Brings in the block the index cursor stands on; `false` when it stands beyond the last.
    fn load_block(&mut self) -> Result<bool> {
        let Some(handle) = self.index.handle(&self.table)? else {
            self.block = None;
            self.cursor.reset();
            return Ok(false);
        };
        if self.block.is_none() || self.block_handle != handle {
            self.block = None;
            self.block_handle = handle;
            let block = self.table.data_block(handle, &self.options, Some(&mut self.readahead))?;
            self.takes_care = self.rewrites_keys || block.data().is_some_and(DataBlock::is_protected);
            self.block = Some(block);
        }
        Ok(true)
    }

    /// From the end of a block to the first entry of the next one that has any.
    fn skip_empty_forward(&mut self) -> Result<()> {
        while !self.cursor.valid() {
            self.index.next(&self.table, &self.options)?;
            if !self.load_block()? {
                return Ok(());
            }
            if let Some(block) = &self.block {
                self.cursor.seek_to_first(block.data_view())?;
            }
        }
        self.check_crossing(Ordering::Greater)
    }

    /// From the start of a block to the last entry of the one before that has any.
    fn skip_empty_backward(&mut self) -> Result<()> {
        while !self.cursor.valid() {
            if !self.index.prev(&self.table, &self.options)? || !self.load_block()? {
                self.cursor.reset();
                return Ok(());
            }
            if let Some(block) = &self.block {
                self.cursor.seek_to_last(block.data_view())?;
            }
        }
        self.check_crossing(Ordering::Less)
    }

    fn try_seek_to_first(&mut self) -> Result<()> {
        self.index.seek_to_first(&self.table, &self.options)?;
        if self.load_block()? {
            if let Some(block) = &self.block {
                self.cursor.seek_to_first(block.data_view())?;
            }
            self.skip_empty_forward()?;
        }
        Ok(())
    }

    fn try_seek_to_last(&mut self) -> Result<()> {
        self.index.seek_to_last(&self.table, &self.options)?;
        if self.load_block()? {
            if let Some(block) = &self.block {
                self.cursor.seek_to_last(block.data_view())?;
            }
            self.skip_empty_backward()?;
        }
        Ok(())
    }

    fn try_seek(&mut self, target: &[u8]) -> Result<()> {
        self.index.seek(&self.table, &self.options, target)?;
        if !self.load_block()? {
            self.leave(Some(target));
        } else if !self.seek_in_block(target)? {
            self.leave(Some(target));
            self.skip_empty_forward()?;
        }
        Ok(())
    }

    /// Moves to the first entry of the block at or after `target`.
    fn seek_in_block(&mut self, target: &[u8]) -> Result<bool> {
        let Some(block) = &self.block else {
            return Ok(false);
        };
        let order = self.table.order();
        let view = block.data_view();
        if let Some(data) = block.data().filter(|data| data.is_protected()) {
            return data.checked_seek(&mut self.cursor, |key| order.compare(key, target));
        }
        if order.comparator.kind() == ComparatorKind::Bytewise
            && !view.layout.is_empty()
            && let Some(data) = block.data()
        {
            let (restart, offset) = data.restart_for(extract_user_key(target))?;
            data.prefetch_scan(offset);
            return self.cursor.seek_from_restart(view, restart, |key| order.compare(key, target));
        }
        self.cursor.seek(view, |key| order.compare(key, target))
    }

    fn try_seek_for_prev(&mut self, target: &[u8]) -> Result<()> {
        self.index.seek(&self.table, &self.options, target)?;
        if !self.load_block()? {
            self.leave(Some(target));
            return self.try_seek_to_last();
        }
        if let Some(block) = &self.block {
            let order = self.table.order();
            let compare = |key: &[u8]| order.compare(key, target);
            if let Some(data) = block.data().filter(|data| data.is_protected()) {
                data.checked_seek(&mut self.cursor, compare)?;
            }
            self.cursor.seek_for_prev(block.data_view(), compare)?;
        }
        if !self.cursor.valid() {
            self.leave(Some(target));
            self.skip_empty_backward()?;
        }
        Ok(())
    }

    #[inline]
    fn try_next(&mut self) -> Result<()> {
        if let Some(block) = &self.block
            && !self.cursor.next(block.data_view())?
        {
            self.leave(None);
            self.skip_empty_forward()?;
        }
        Ok(())
    }

    fn try_prev(&mut self) -> Result<()> {
        if let Some(block) = &self.block
            && !self.cursor.prev(block.data_view())?
        {
            self.leave(None);
            self.skip_empty_backward()?;
        }
        Ok(())
    }
}

#[cold]
fn out_of_order() -> Error {
    Error::corruption("keys out of order: the block's keys do not continue those of its neighbour")
}

impl InternalIterator for TableIterator {
    #[inline]
    fn valid(&self) -> bool {
        self.cursor.valid()
    }

    fn seek_to_first(&mut self) {
        self.start();
        let outcome = self.try_seek_to_first();
        self.settle(outcome);
    }

    fn seek_to_last(&mut self) {
        self.start();
        let outcome = self.try_seek_to_last();
        self.settle(outcome);
    }

    fn seek(&mut self, target: &[u8]) {
        if self.table.may_have_prefix(&self.options, target, SeekDirection::Forward) {
            self.reseek(target);
        } else {
            self.start();
        }
    }

    fn seek_for_prev(&mut self, target: &[u8]) {
        if self.table.may_have_prefix(&self.options, target, SeekDirection::Backward) {
            self.reseek_for_prev(target);
        } else {
            self.start();
        }
    }

    fn reseek(&mut self, target: &[u8]) {
        self.start();
        let outcome = self.try_seek(target);
        self.settle(outcome);
    }

    fn reseek_for_prev(&mut self, target: &[u8]) {
        self.start();
        let outcome = self.try_seek_for_prev(target);
        self.settle(outcome);
    }

    #[inline]
    fn next(&mut self) {
        debug_assert!(self.valid());
        let outcome = self.try_next();
        self.settle(outcome);
    }

    fn prev(&mut self) {
        debug_assert!(self.valid());
        let outcome = self.try_prev();
        self.settle(outcome);
    }

    #[inline]
    fn key(&self) -> &[u8] {
        if self.rewrites_keys { &self.rewritten_key } else { self.cursor.key() }
    }

    #[inline]
    fn value(&self) -> &[u8] {
        match &self.block {
            Some(block) => self.cursor.value(block.data_view()),
            None => &[],
        }
    }

    fn status(&self) -> Result<()> {
        match &self.error {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }
}
