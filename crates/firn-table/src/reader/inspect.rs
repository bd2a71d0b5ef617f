//! What tools that show a table's insides ask of it: its meta blocks, and the entries of one data block.

use firn_error::Result;
use firn_format::block::{BLOCK_TRAILER_SIZE, BlockCursor};
use firn_format::index::BlockHandle;
use firn_format::properties::{find_value_range, names};

use super::{TableReadOptions, TableReader};
use crate::table_file::BlockKind;

impl TableReader {
    /// The names and places of the meta blocks, in the order of the metaindex.
    pub fn meta_blocks(&self) -> Vec<(Vec<u8>, BlockHandle)> {
        self.metaindex.iter().map(|(name, handle)| (name.to_vec(), handle)).collect()
    }

    /// Where in the file the sequence number of an ingested file is stored, as eight bytes; `None` in other files.
    ///
    /// # Errors
    /// Corruption, with file and offset, when the properties are damaged, or when their checksum was made with a sequence
    /// number other than 0, so that the number cannot be changed; errors of the file.
    pub fn global_sequence_offset(&self) -> Result<Option<u64>> {
        let Some(handle) = self.metaindex.properties() else { return Ok(None) };
        let mut stored = self.file.read_with_trailer(handle, BlockKind::Properties)?;
        let payload = stored.get(..stored.len().saturating_sub(BLOCK_TRAILER_SIZE)).unwrap_or_default();
        let range = find_value_range(payload, names::EXTERNAL_SST_FILE_GLOBAL_SEQNO)
            .map_err(|error| self.file.locate(error, handle.offset))?;
        let Some(range) = range.filter(|range| range.len() == 8) else { return Ok(None) };
        let offset = handle.offset + range.start as u64;
        // The checksum must hold with zeros there: with any other number in it, it would not hold for the next one.
        if let Some(bytes) = stored.get_mut(range) {
            bytes.fill(0);
        }
        self.file.verify_stored(&stored, handle, BlockKind::Properties)?;
        Ok(Some(offset))
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
