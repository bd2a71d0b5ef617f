//! The meta blocks of a table: the directory of them, properties, range tombstones, dictionary.

use std::collections::BTreeMap;

use firn_error::{Error, Result};
use firn_format::block::{BLOCK_TRAILER_SIZE, BlockIter};
use firn_format::compression::DecompressionDictionary;
use firn_format::footer::Footer;
use firn_format::index::BlockHandle;
use firn_format::key::{ValueType, parse_internal_key};
use firn_format::properties::{TableProperties, find_value_range, names};
use firn_format::range_tombstone::RangeTombstone;

use crate::key_order::KeyOrder;
use crate::table_file::{BlockKind, TableFile, Verify};

pub(crate) const PROPERTIES: &str = "rocksdb.properties";
/// What very old files call the properties.
const OLD_PROPERTIES: &str = "rocksdb.stats";
pub(crate) const COMPRESSION_DICTIONARY: &str = "rocksdb.compression_dict";
pub(crate) const RANGE_DELETIONS: &str = "rocksdb.range_del";
pub(crate) const INDEX: &str = "rocksdb.index";
pub(crate) const HASH_INDEX_PREFIXES: &str = "rocksdb.hashindex.prefixes";
pub(crate) const HASH_INDEX_METADATA: &str = "rocksdb.hashindex.metadata";

/// The directory of meta blocks.
#[derive(Debug)]
pub(crate) struct MetaIndex {
    blocks: BTreeMap<Vec<u8>, BlockHandle>,
}

impl MetaIndex {
    pub(crate) fn read(file: &TableFile, handle: BlockHandle) -> Result<Self> {
        let payload = file.read_block(handle, BlockKind::MetaIndex, Verify::Checksum)?;
        Self::decode(&payload).map_err(|error| file.locate(error, handle.offset))
    }

    fn decode(payload: &[u8]) -> Result<Self> {
        let mut blocks = BTreeMap::new();
        let mut entries = BlockIter::new(payload)?;
        while let Some((name, mut value)) = entries.next_entry()? {
            blocks.insert(name.to_vec(), BlockHandle::decode_from(&mut value)?);
        }
        Ok(Self { blocks })
    }

    pub(crate) fn find(&self, name: &str) -> Option<BlockHandle> {
        self.blocks.get(name.as_bytes()).copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], BlockHandle)> {
        self.blocks.iter().map(|(name, handle)| (name.as_slice(), *handle))
    }

    pub(crate) fn properties(&self) -> Option<BlockHandle> {
        self.find(PROPERTIES).or_else(|| self.find(OLD_PROPERTIES))
    }
}

/// Reads the properties. Only LevelDB's tables may have none.
pub(crate) fn read_properties(file: &TableFile, metaindex: &MetaIndex, footer: &Footer) -> Result<TableProperties> {
    let Some(handle) = metaindex.properties() else {
        if footer.format_version == 0 {
            return Ok(TableProperties::default());
        }
        let error = Error::corruption("Cannot find Properties block from file.");
        return Err(file.locate(error, footer.metaindex.offset));
    };
    let mut stored = file.read_with_trailer(handle, BlockKind::Properties)?;
    verify_properties(file, handle, &mut stored)?;
    let payload = stored.get(..stored.len() - BLOCK_TRAILER_SIZE).unwrap_or_default();
    TableProperties::decode(payload).map_err(|error| file.locate(error, handle.offset))
}

/// Compares the properties block with its checksum. Ingestion may have written a sequence number into it without
/// touching the checksum, which was computed with zeros in that place.
pub(crate) fn verify_properties(file: &TableFile, handle: BlockHandle, stored: &mut [u8]) -> Result<()> {
    let Err(mismatch) = file.verify_stored(stored, handle, BlockKind::Properties) else {
        return Ok(());
    };
    let payload = stored.get(..handle.size as usize).unwrap_or_default();
    let global_sequence = find_value_range(payload, names::EXTERNAL_SST_FILE_GLOBAL_SEQNO).ok().flatten();
    let Some(bytes) = global_sequence.filter(|range| range.len() == 8).and_then(|range| stored.get_mut(range)) else {
        return Err(mismatch);
    };
    let kept = bytes.to_vec();
    bytes.fill(0);
    let outcome = file.verify_stored(stored, handle, BlockKind::Properties);
    if let Ok(Some(range)) =
        find_value_range(stored.get(..handle.size as usize).unwrap_or_default(), names::EXTERNAL_SST_FILE_GLOBAL_SEQNO)
        && let Some(bytes) = stored.get_mut(range)
    {
        bytes.copy_from_slice(&kept);
    }
    outcome
}

/// Reads the range tombstones; those that cover nothing are left out.
pub(crate) fn read_range_tombstones(
    file: &TableFile,
    metaindex: &MetaIndex,
    order: &KeyOrder,
) -> Result<Vec<RangeTombstone>> {
    let Some(handle) = metaindex.find(RANGE_DELETIONS) else {
        return Ok(Vec::new());
    };
    let payload = file.read_block(handle, BlockKind::RangeDeletion, Verify::Checksum)?;
    decode_range_tombstones(&payload, order).map_err(|error| file.locate(error, handle.offset))
}

fn decode_range_tombstones(payload: &[u8], order: &KeyOrder) -> Result<Vec<RangeTombstone>> {
    let mut tombstones = Vec::new();
    let mut entries = BlockIter::new(payload)?;
    let mut key = Vec::new();
    while let Some((stored, end)) = entries.next_entry()? {
        order.rewrite(stored, &mut key);
        let parsed = parse_internal_key(&key)?;
        if parsed.value_type != ValueType::RangeDeletion {
            return Err(Error::corruption("entry of the range-deletion block is no range tombstone"));
        }
        if order.comparator.compare_user(parsed.user_key, end).is_lt() {
            tombstones.push(RangeTombstone {
                start: parsed.user_key.to_vec(),
                end: end.to_vec(),
                sequence: parsed.sequence,
            });
        }
    }
    Ok(tombstones)
}

/// Reads the compression dictionary.
pub(crate) fn read_dictionary(file: &TableFile, handle: BlockHandle) -> Result<Option<DecompressionDictionary>> {
    let payload = file.read_block(handle, BlockKind::CompressionDictionary, Verify::Checksum)?;
    DecompressionDictionary::new(payload).map(Some).map_err(|error| file.locate(error, handle.offset))
}
