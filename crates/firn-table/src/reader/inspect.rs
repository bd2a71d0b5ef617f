//! What tools that show a table's insides ask of it: its meta blocks, and the entries of one data block.

use firn_error::Result;
use firn_format::block::BlockCursor;
use firn_format::index::BlockHandle;

use super::{TableReadOptions, TableReader};

impl TableReader {
    /// The names and places of the meta blocks, in the order of the metaindex.
    pub fn meta_blocks(&self) -> Vec<(Vec<u8>, BlockHandle)> {
        self.metaindex.iter().map(|(name, handle)| (name.to_vec(), handle)).collect()
    }

    /// Hands every entry (internal key as stored, value) of the data block at `handle` to `visit`.
    ///
    /// # Errors
    /// Corruption, with file and offset, when the block is damaged.
    pub fn for_each_entry_of_block(
        &self,
        handle: BlockHandle,
        options: &TableReadOptions,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let block = self.data_block(handle, options, None)?;
        let view = block.data_view();
        let mut cursor = BlockCursor::new();
        let locate = |error| self.file.locate(error, handle.offset);
        let mut more = cursor.seek_to_first(view).map_err(locate)?;
        while more {
            visit(cursor.key(), cursor.value(view));
            more = cursor.next(view).map_err(locate)?;
        }
        Ok(())
    }
}
