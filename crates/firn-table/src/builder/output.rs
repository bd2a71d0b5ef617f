//! Blocks on their way into the file: compression, checksum, trailer, offset.

use std::sync::Arc;

use firn_env::WritableFile;
use firn_error::{Error, Result};
use firn_format::checksum::{ChecksumType, compute_with_last_byte, context_modifier};
use firn_format::compression::{self, CompressionType, Compressor, DecompressionDictionary, SizeFormat};
use firn_format::index::BlockHandle;
use firn_format::unique_id::CacheKeyBase;

use crate::block_ref::{BlockCache, TableBlock};
use crate::cache::{CacheKey, CachePriority};
use crate::data_block::DataBlock;
use crate::frame::Frame;
use crate::reader::count;
use crate::statistics::Statistics;

/// A new table file and how its blocks are written.
#[derive(Debug)]
pub(crate) struct TableOutput {
    file: Box<dyn WritableFile>,
    offset: u64,
    checksum_type: ChecksumType,
    base_context_checksum: u32,
    size_format: SizeFormat,
    verify_compression: bool,
    compressed: Vec<u8>,
    /// Which trailer types were written; index = type byte.
    types_written: [bool; 256],
    warmer: Option<CacheWarmer>,
}

/// Where data blocks go beside the file, for readers to find them in memory.
#[derive(Debug)]
pub(crate) struct CacheWarmer {
    cache: Arc<BlockCache>,
    keys: CacheKeyBase,
    block_protection_bytes_per_key: u8,
    statistics: Option<Arc<Statistics>>,
}

impl CacheWarmer {
    pub(crate) fn new(
        cache: Arc<BlockCache>,
        keys: CacheKeyBase,
        block_protection_bytes_per_key: u8,
        statistics: Option<Arc<Statistics>>,
    ) -> Self {
        Self { cache, keys, block_protection_bytes_per_key, statistics }
    }

    /// Puts a data block into the cache; one that does not fit stays out.
    fn insert(&self, handle: BlockHandle, payload: &[u8]) -> Result<()> {
        let block = DataBlock::with_protection(Frame::from(payload), self.block_protection_bytes_per_key)?;
        let block = TableBlock::Data(block);
        let charge_bytes = block.memory_bytes();
        let key = CacheKey::from(self.keys.block_key(handle.offset));
        let inserted = self.cache.insert(&key, block, charge_bytes, CachePriority::Low);
        count::DATA.inserted(self.statistics.as_ref(), charge_bytes, inserted.is_ok());
        Ok(())
    }
}

/// A payload as it will be stored.
pub(crate) struct StoredBlock<'a> {
    payload: &'a [u8],
    type_byte: CompressionType,
}

impl StoredBlock<'_> {
    pub(crate) fn is_compressed(&self) -> bool {
        self.type_byte != CompressionType::None
    }
}

impl TableOutput {
    pub(crate) fn new(
        file: Box<dyn WritableFile>,
        checksum_type: ChecksumType,
        base_context_checksum: u32,
        format_version: u32,
        verify_compression: bool,
    ) -> Self {
        let offset = file.file_size();
        Self {
            file,
            offset,
            checksum_type,
            base_context_checksum,
            size_format: SizeFormat::of_table(format_version),
            verify_compression,
            compressed: Vec::new(),
            types_written: [false; 256],
            warmer: None,
        }
    }

    /// From now on data blocks go into a cache too.
    pub(crate) fn set_warmer(&mut self, warmer: CacheWarmer) {
        self.warmer = Some(warmer);
    }

    /// Puts the data block that was just written at `handle` into the cache, if it is to be there.
    pub(crate) fn warm(&self, handle: BlockHandle, payload: &[u8]) -> Result<()> {
        self.warmer.as_ref().map_or(Ok(()), |warmer| warmer.insert(handle, payload))
    }

    /// Where the next byte goes.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    pub(crate) fn file_mut(&mut self) -> &mut Box<dyn WritableFile> {
        &mut self.file
    }

    pub(crate) fn into_file(self) -> Box<dyn WritableFile> {
        self.file
    }

    /// The compressed types of blocks so far, ascending.
    pub(crate) fn types_written(&self) -> impl Iterator<Item = u8> + '_ {
        (1..=u8::MAX).filter(|&number| self.types_written.get(usize::from(number)) == Some(&true))
    }

    /// Writes an uncompressed block.
    pub(crate) fn write_raw(&mut self, payload: &[u8]) -> Result<BlockHandle> {
        self.write_stored(&StoredBlock { payload, type_byte: CompressionType::None })
    }

    /// Writes a block, compressed if that pays. `before` may ask for padding once it knows the stored size.
    pub(crate) fn write_block(
        &mut self,
        payload: &[u8],
        compressor: Option<&mut Compressor>,
        dictionary: Option<&DecompressionDictionary>,
        before: impl FnOnce(u64, usize) -> usize,
    ) -> Result<WrittenBlock> {
        let Some(compressor) = compressor else {
            let padding = self.pad(before(self.offset, payload.len()))?;
            return Ok(WrittenBlock { handle: self.write_raw(payload)?, padded: padding, compressed: false });
        };
        let mut compressed = std::mem::take(&mut self.compressed);
        let type_byte = compressor.compress(payload, &mut compressed);
        let stored = if type_byte == CompressionType::None {
            StoredBlock { payload, type_byte }
        } else {
            if self.verify_compression {
                self.check_compression(payload, &compressed, type_byte, dictionary)?;
            }
            StoredBlock { payload: &compressed, type_byte }
        };
        let padded = self.pad(before(self.offset, stored.payload.len()))?;
        let is_compressed = stored.is_compressed();
        let handle = self.write_stored(&stored)?;
        self.compressed = compressed;
        Ok(WrittenBlock { handle, padded, compressed: is_compressed })
    }

    fn check_compression(
        &self,
        payload: &[u8],
        compressed: &[u8],
        kind: CompressionType,
        dictionary: Option<&DecompressionDictionary>,
    ) -> Result<()> {
        let back = compression::decompress_to_vec(
            kind,
            self.size_format,
            dictionary,
            compressed,
            compression::MAX_RAW_BLOCK_BYTES,
        )?;
        if back != payload {
            return Err(Error::corruption("Decompressed block did not match pre-compression block"));
        }
        Ok(())
    }

    fn write_stored(&mut self, block: &StoredBlock<'_>) -> Result<BlockHandle> {
        let handle = BlockHandle { offset: self.offset, size: block.payload.len() as u64 };
        let type_byte = block.type_byte as u8;
        if let Some(written) = self.types_written.get_mut(usize::from(type_byte)) {
            *written = true;
        }
        let word = compute_with_last_byte(self.checksum_type, block.payload, type_byte)
            .wrapping_add(context_modifier(self.base_context_checksum, self.offset));
        let [a, b, c, d] = word.to_le_bytes();
        self.append(block.payload)?;
        self.append(&[type_byte, a, b, c, d])?;
        Ok(handle)
    }

    /// Writes zeros; returns whether there were any.
    pub(crate) fn pad(&mut self, mut bytes: usize) -> Result<bool> {
        const ZEROS: [u8; 512] = [0; 512];
        let any = bytes > 0;
        while bytes > 0 {
            let step = bytes.min(ZEROS.len());
            self.append(ZEROS.get(..step).unwrap_or_default())?;
            bytes -= step;
        }
        Ok(any)
    }

    /// Writes bytes that are no block.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.append(bytes)?;
        self.offset += bytes.len() as u64;
        Ok(())
    }
}

/// A block that was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrittenBlock {
    pub(crate) handle: BlockHandle,
    /// Whether zeros were put before it.
    pub(crate) padded: bool,
    pub(crate) compressed: bool,
}
