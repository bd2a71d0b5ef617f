//! Reading blocks of one table file: bytes in, verified and uncompressed payloads out.
//!
//! A [`TableFile`] knows how the file's blocks are checked and compressed. It checks every handle against the file's size
//! before it allocates, every block against its checksum before it decompresses, what a block claims to decompress to against
//! what the table says of its contents, and names file and offset in errors.

use std::cell::RefCell;
use std::sync::Arc;

use firn_env::RandomAccessFile;
use firn_error::{Error, Result};
use firn_format::block::BLOCK_TRAILER_SIZE;
use firn_format::checksum::{self, ChecksumType};
use firn_format::compression::{self, CompressionType, DecompressionDictionary, SizeFormat};
use firn_format::footer::Footer;
use firn_format::index::BlockHandle;
use firn_format::properties::{CompressionUse, TableProperties};

use crate::frame::Frame;
use crate::readahead::ReadAhead;

/// What a block of a table is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// Entries.
    Data,
    /// A full filter or one filter partition.
    Filter,
    /// The index of filter partitions.
    FilterPartitionIndex,
    /// Table properties.
    Properties,
    /// The compression dictionary.
    CompressionDictionary,
    /// Range tombstones.
    RangeDeletion,
    /// Prefixes of the hash index.
    HashIndexPrefixes,
    /// Metadata of the hash index.
    HashIndexMetadata,
    /// The directory of meta blocks.
    MetaIndex,
    /// An index block, an index partition or the top-level index.
    Index,
    /// An index of the user's own.
    UserDefinedIndex,
}

impl BlockKind {
    /// The name in error messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Data => "Data",
            Self::Filter => "Filter",
            Self::FilterPartitionIndex => "FilterPartitionIndex",
            Self::Properties => "Properties",
            Self::CompressionDictionary => "CompressionDictionary",
            Self::RangeDeletion => "RangeDeletion",
            Self::HashIndexPrefixes => "HashIndexPrefixes",
            Self::HashIndexMetadata => "HashIndexMetadata",
            Self::MetaIndex => "MetaIndex",
            Self::Index => "Index",
            Self::UserDefinedIndex => "UserDefinedIndex",
        }
    }

    /// Whether blocks of this kind may be compressed.
    const fn may_be_compressed(self) -> bool {
        matches!(self, Self::Data | Self::Index | Self::HashIndexPrefixes | Self::HashIndexMetadata)
    }
}

/// Whether a block is compared with its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verify {
    /// Compare.
    Checksum,
    /// Trust the bytes.
    Nothing,
}

impl Verify {
    pub(crate) const fn from_option(verify_checksums: bool) -> Self {
        if verify_checksums { Self::Checksum } else { Self::Nothing }
    }
}

/// Buffers of a thread that reads compressed blocks.
#[derive(Default)]
struct Scratch {
    stored: Vec<u8>,
    raw: Vec<u8>,
}

/// Scratch beyond this is given back after use.
const SCRATCH_BYTES_MAX: usize = 1 << 20;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

#[cold]
fn bad_type() -> Error {
    Error::corruption("compression type contradicts property rocksdb.compression")
}

/// One open table file.
#[derive(Debug)]
pub(crate) struct TableFile {
    file: Arc<dyn RandomAccessFile>,
    file_size: u64,
    checksum_type: ChecksumType,
    base_context_checksum: u32,
    size_format: SizeFormat,
    compression: CompressionUse,
    /// What a block may decompress to.
    most_raw_bytes: usize,
}

/// What a block has beside its keys and values, generously: bytes for each entry, and for the block.
const ENTRY_OVERHEAD_BYTES: u64 = 64;
const BLOCK_OVERHEAD_BYTES: u64 = 1 << 20;

/// The most bytes that a block of a table with these properties can have before compression: all keys twice (an index may
/// hold first keys, too) and all values. A table that does not tell its sizes sets no limit of its own.
fn most_raw_bytes(properties: &TableProperties) -> usize {
    if properties.num_entries == 0 || properties.raw_key_size == 0 {
        return compression::MAX_RAW_BLOCK_BYTES;
    }
    let bytes = (properties.raw_key_size.saturating_mul(2))
        .saturating_add(properties.raw_value_size)
        .saturating_add(properties.num_entries.saturating_mul(ENTRY_OVERHEAD_BYTES))
        .saturating_add(BLOCK_OVERHEAD_BYTES);
    usize::try_from(bytes).unwrap_or(usize::MAX).min(compression::MAX_RAW_BLOCK_BYTES)
}

impl TableFile {
    /// The file that `footer` was read from. Until [`set_compression`](Self::set_compression), blocks may have any type.
    pub(crate) fn new(file: Arc<dyn RandomAccessFile>, file_size: u64, footer: &Footer) -> Self {
        Self {
            file,
            file_size,
            checksum_type: footer.checksum_type,
            base_context_checksum: footer.base_context_checksum,
            size_format: SizeFormat::of_table(footer.format_version),
            compression: CompressionUse::Any,
            most_raw_bytes: compression::MAX_RAW_BLOCK_BYTES,
        }
    }

    /// Limits the compression types that blocks may have.
    pub(crate) fn set_compression(&mut self, compression: CompressionUse) {
        self.compression = compression;
    }

    /// Limits what blocks decompress to by what the table says of its contents.
    pub(crate) fn set_contents(&mut self, properties: &TableProperties) {
        self.most_raw_bytes = most_raw_bytes(properties);
    }

    /// What a block may decompress to, and what the keys of an index may come to.
    pub(crate) fn most_raw_bytes(&self) -> usize {
        self.most_raw_bytes
    }

    pub(crate) fn file_size(&self) -> u64 {
        self.file_size
    }

    /// Adds the file's name and, unless it is known better, `offset` to an error.
    #[cold]
    pub(crate) fn locate(&self, error: Error, offset: u64) -> Error {
        error.with_file(self.file.path()).with_offset(offset)
    }

    #[cold]
    fn locate_block(&self, error: Error, handle: BlockHandle, kind: BlockKind) -> Error {
        error
            .with_context(format_args!("{} block of {} bytes", kind.name(), handle.size))
            .with_file(self.file.path())
            .with_offset(handle.offset)
    }

    /// Bytes of the block with its trailer, checked against the size of the file.
    fn stored_length(&self, handle: BlockHandle, kind: BlockKind) -> Result<usize> {
        match handle.checked_end() {
            Some(end) if end <= self.file_size && handle.size <= firn_format::block::MAX_BLOCK_PAYLOAD => {
                Ok(handle.size as usize + BLOCK_TRAILER_SIZE)
            }
            _ => Err(self.locate_block(
                Error::corruption(format!("block handle points beyond the file's {} bytes", self.file_size)),
                handle,
                kind,
            )),
        }
    }

    /// Fills `stored` with the stored block and its trailer; the checksum is not compared yet.
    fn read_stored(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        readahead: Option<&mut ReadAhead>,
        stored: &mut [u8],
    ) -> Result<()> {
        let length = stored.len();
        let got = if let Some(mapped) = self.file.as_mapped() {
            let start = handle.offset as usize;
            match mapped.get(start..start + length) {
                Some(bytes) => {
                    stored.copy_from_slice(bytes);
                    length
                }
                None => 0,
            }
        } else {
            match readahead {
                Some(readahead) => readahead.read(&*self.file, self.file_size, handle.offset, stored)?,
                None => self.file.read_at(handle.offset, stored)?,
            }
        };
        if got != length {
            let error = Error::corruption(format!("truncated block read: wanted {length} bytes, got {got}"));
            return Err(self.locate_block(error, handle, kind));
        }
        Ok(())
    }

    /// Compares a stored block with its checksum.
    pub(crate) fn verify_stored(&self, stored: &[u8], handle: BlockHandle, kind: BlockKind) -> Result<()> {
        let outcome = match stored.split_last_chunk::<4>() {
            Some((data, word)) => checksum::verify(
                self.checksum_type,
                data,
                u32::from_le_bytes(*word),
                self.base_context_checksum,
                handle.offset,
            ),
            None => Err(Error::corruption("truncated block read")),
        };
        outcome.map_err(|error| self.locate_block(error, handle, kind))
    }

    /// The stored payload of a block that is never compressed, followed by its 5 trailer bytes.
    pub(crate) fn read_with_trailer(&self, handle: BlockHandle, kind: BlockKind) -> Result<Vec<u8>> {
        let mut stored = vec![0; self.stored_length(handle, kind)?];
        self.read_stored(handle, kind, None, &mut stored)?;
        Ok(stored)
    }

    /// The uncompressed payload of a block other than a data block.
    pub(crate) fn read_block(&self, handle: BlockHandle, kind: BlockKind, verify: Verify) -> Result<Vec<u8>> {
        debug_assert!(kind != BlockKind::Data);
        let mut stored = self.read_with_trailer(handle, kind)?;
        if verify == Verify::Checksum {
            self.verify_stored(&stored, handle, kind)?;
        }
        let payload_size = handle.size as usize;
        let type_byte = stored.get(payload_size).copied().unwrap_or_default();
        if type_byte == 0 {
            stored.truncate(payload_size);
            return Ok(stored);
        }
        let mut raw = Vec::new();
        let payload = stored.get(..payload_size).unwrap_or_default();
        self.decompress(payload, type_byte, kind, None, &mut raw)
            .map_err(|error| self.locate_block(error, handle, kind))?;
        Ok(raw)
    }

    /// The uncompressed payload of a data block.
    pub(crate) fn read_data_block(
        &self,
        handle: BlockHandle,
        dictionary: Option<&DecompressionDictionary>,
        verify: Verify,
        readahead: Option<&mut ReadAhead>,
    ) -> Result<Frame> {
        let kind = BlockKind::Data;
        let length = self.stored_length(handle, kind)?;
        if self.compression == CompressionUse::None {
            // What is read is what is kept: read it where it will stay.
            let mut stored = Frame::new(length);
            self.read_stored(handle, kind, readahead, &mut stored)?;
            if verify == Verify::Checksum {
                self.verify_stored(&stored, handle, kind)?;
            }
            let type_byte = stored.get(handle.size as usize).copied().unwrap_or_default();
            if type_byte != 0 {
                let error = self.decompress(&[], type_byte, kind, None, &mut Vec::new()).err();
                return Err(self.locate_block(error.unwrap_or_else(bad_type), handle, kind));
            }
            stored.cut(BLOCK_TRAILER_SIZE as u8);
            return Ok(stored);
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let frame = self.read_compressed(handle, length, dictionary, (verify, readahead), scratch);
            if scratch.raw.capacity() + scratch.stored.capacity() > SCRATCH_BYTES_MAX {
                *scratch = Scratch::default();
            }
            frame
        })
    }

    /// The payload of a data block that may be compressed, by way of memory that is used again.
    fn read_compressed(
        &self,
        handle: BlockHandle,
        length: usize,
        dictionary: Option<&DecompressionDictionary>,
        (verify, readahead): (Verify, Option<&mut ReadAhead>),
        Scratch { stored, raw }: &mut Scratch,
    ) -> Result<Frame> {
        let kind = BlockKind::Data;
        // All of it is read over: only what was never used has to be cleared.
        if stored.len() < length {
            stored.resize(length, 0);
        }
        let stored = stored.get_mut(..length).unwrap_or_default();
        self.read_stored(handle, kind, readahead, stored)?;
        if verify == Verify::Checksum {
            self.verify_stored(stored, handle, kind)?;
        }
        let payload = stored.get(..handle.size as usize).unwrap_or_default();
        match stored.get(handle.size as usize).copied().unwrap_or_default() {
            0 => Ok(Frame::from(payload)),
            type_byte => {
                self.decompress(payload, type_byte, kind, dictionary, raw)
                    .map_err(|error| self.locate_block(error, handle, kind))?;
                if raw.len() > SCRATCH_BYTES_MAX {
                    // Too large to be copied, and to be kept for the next block.
                    return Ok(Frame::from(std::mem::take(raw)));
                }
                Ok(Frame::from(raw.as_slice()))
            }
        }
    }

    fn decompress(
        &self,
        payload: &[u8],
        type_byte: u8,
        kind: BlockKind,
        dictionary: Option<&DecompressionDictionary>,
        raw: &mut Vec<u8>,
    ) -> Result<()> {
        if !kind.may_be_compressed() {
            return Err(Error::corruption(format!("compression type {type_byte} on a block that is never compressed")));
        }
        let compression = CompressionType::from_u8(type_byte)?;
        if !self.compression.allows(type_byte) {
            return Err(Error::corruption(format!(
                "compression type {type_byte} contradicts property rocksdb.compression"
            )));
        }
        let dictionary = if kind == BlockKind::Data { dictionary } else { None };
        compression::decompress(compression, self.size_format, dictionary, payload, self.most_raw_bytes, raw)
    }
}
