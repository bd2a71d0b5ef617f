//! Questions about the whole of a table: where keys lie in it, how it may be divided, whether all of it is sound.

use firn_error::Result;
use firn_format::index::BlockHandle;

use super::meta::{COMPRESSION_DICTIONARY, INDEX, PROPERTIES, RANGE_DELETIONS, verify_properties};
use super::{TableReadOptions, TableReader};
use crate::block_ref::BlockRef;
use crate::index_block::IndexBlock;
use crate::table_file::{BlockKind, Verify};

/// A point that divides a table: the keys after the anchor before, up to this one, take about so many bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// The last user key of the range.
    pub user_key: Vec<u8>,
    /// Bytes of the file in the range.
    pub range_size: u64,
}

/// The most anchors a table is divided by.
const MAX_ANCHORS: usize = 128;

impl TableReader {
    /// Calls `visit` with every index block that names data blocks, in order, until it returns `false`.
    fn for_each_index(
        &self,
        options: &TableReadOptions,
        visit: &mut dyn FnMut(&IndexBlock) -> Result<bool>,
    ) -> Result<()> {
        let hold = self.index(options)?;
        let Some(top) = hold.index() else {
            return Ok(());
        };
        if !self.is_partitioned() {
            return visit(top).map(|_| ());
        }
        let mut partition = 0;
        while let Some(handle) = top.handle(partition) {
            let block: BlockRef = self.index_partition(handle, options)?;
            if let Some(index) = block.index()
                && !visit(index)?
            {
                return Ok(());
            }
            partition += 1;
        }
        Ok(())
    }

    /// The file offset of the data block that holds `target`, an internal key, or would; `None` behind the last one.
    fn data_offset_of(&self, target: &[u8]) -> Option<u64> {
        let options = TableReadOptions::default();
        // An estimate is not worth failing for: where the index cannot be read, the file's middle will do.
        let middle = Some(self.data_size() / 2);
        let Ok(hold) = self.index(&options) else {
            return middle;
        };
        let top = hold.index()?;
        let handle = top.handle(top.lower_bound(target))?;
        if !self.is_partitioned() {
            return Some(handle.offset);
        }
        match self.index_partition(handle, &options) {
            Ok(block) => block.index().and_then(|index| Some(index.handle(index.lower_bound(target))?.offset)),
            Err(_) => middle,
        }
    }

    /// Bytes of data blocks; half the file where the properties do not tell.
    fn data_size(&self) -> u64 {
        match self.properties().data_size {
            0 => self.file_size() / 2,
            size => size,
        }
    }

    /// About where in the file the entries at and after the internal key `target` start, index and filter counted in
    /// proportion. Does not fail; a damaged file gives a poor estimate.
    pub fn approximate_offset_of(&self, target: &[u8]) -> u64 {
        let data_size = self.data_size();
        let offset = self.data_offset_of(target).unwrap_or(data_size).min(data_size);
        scale(offset, data_size, self.file_size())
    }

    /// About how many bytes of the file the entries in `[start, end)` take; both are internal keys.
    pub fn approximate_size(&self, start: &[u8], end: &[u8]) -> u64 {
        let data_size = self.data_size();
        let offset = |key| self.data_offset_of(key).unwrap_or(data_size).min(data_size);
        scale(offset(end).saturating_sub(offset(start)), data_size, self.file_size())
    }

    /// Points that divide the table into at most 128 ranges of about the same size, in key order.
    ///
    /// # Errors
    /// Corruption when an index partition is damaged.
    pub fn anchors(&self, options: &TableReadOptions) -> Result<Vec<Anchor>> {
        let target_bytes = (self.data_size() / MAX_ANCHORS as u64).max(1);
        let mut anchors: Vec<Anchor> = Vec::new();
        let mut range_size = 0;
        let mut last_key = Vec::new();
        self.for_each_index(options, &mut |index| {
            for position in 0..index.len() {
                range_size += index.handle(position).map_or(0, |handle| handle.size);
                last_key = index.user_key(position).to_vec();
                if range_size >= target_bytes && anchors.len() + 1 < MAX_ANCHORS {
                    anchors.push(Anchor { user_key: std::mem::take(&mut last_key), range_size });
                    range_size = 0;
                }
            }
            Ok(true)
        })?;
        if range_size > 0 {
            anchors.push(Anchor { user_key: last_key, range_size });
        }
        Ok(anchors)
    }

    /// Reads every block of the file and compares it with its checksum.
    ///
    /// # Errors
    /// Corruption, with file and offset, at the first block that fails.
    pub fn verify_checksums(&self, options: &TableReadOptions) -> Result<()> {
        for (name, handle) in self.metaindex.iter() {
            let kind = match name {
                _ if name == INDEX.as_bytes() => continue, // read and verified when the table was opened
                _ if name == PROPERTIES.as_bytes() => BlockKind::Properties,
                _ if name == RANGE_DELETIONS.as_bytes() => BlockKind::RangeDeletion,
                _ if name == COMPRESSION_DICTIONARY.as_bytes() => BlockKind::CompressionDictionary,
                _ if name.starts_with(b"partitionedfilter.") => BlockKind::FilterPartitionIndex,
                _ if name.starts_with(b"fullfilter.") || name.starts_with(b"filter.") => BlockKind::Filter,
                _ if name.starts_with(b"rocksdb.hashindex.") => BlockKind::HashIndexMetadata,
                _ => BlockKind::UserDefinedIndex,
            };
            let mut stored = self.file.read_with_trailer(handle, kind)?;
            if kind == BlockKind::Properties {
                verify_properties(&self.file, handle, &mut stored)?;
            } else {
                self.file.verify_stored(&stored, handle, kind)?;
            }
            if kind == BlockKind::FilterPartitionIndex {
                self.verify_filter_partitions(handle)?;
            }
        }
        let mut readahead = crate::readahead::ReadAhead::new(options.readahead);
        let mut read = |handle| {
            self.file
                .read_data_block(handle, self.dictionary.as_ref(), Verify::Checksum, Some(&mut readahead))
                .map(|_| ())
        };
        self.for_each_index(options, &mut |index| {
            for position in 0..index.len() {
                if let Some(handle) = index.handle(position) {
                    read(handle)?;
                }
            }
            Ok(true)
        })
    }

    fn verify_filter_partitions(&self, handle: BlockHandle) -> Result<()> {
        let block = self.load_filter_partition_index(handle, &TableReadOptions::default(), false)?;
        let Some(index) = block.index() else { return Ok(()) };
        // A partition without any key has no block.
        for partition in (0..index.len()).filter_map(|position| index.handle(position)).filter(|part| part.size > 0) {
            let stored = self.file.read_with_trailer(partition, BlockKind::Filter)?;
            self.file.verify_stored(&stored, partition, BlockKind::Filter)?;
        }
        Ok(())
    }

    /// The user keys that end each data block's range, for tools that show the index.
    ///
    /// # Errors
    /// Corruption when an index partition is damaged.
    pub fn index_entries(
        &self,
        options: &TableReadOptions,
        visit: &mut dyn FnMut(&[u8], BlockHandle) -> bool,
    ) -> Result<()> {
        self.for_each_index(options, &mut |index| {
            for position in 0..index.len() {
                if let Some(handle) = index.handle(position)
                    && !visit(index.user_key(position), handle)
                {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }
}

fn scale(part: u64, whole: u64, total: u64) -> u64 {
    if whole == 0 {
        return 0;
    }
    (part as f64 / whole as f64 * total as f64) as u64
}
