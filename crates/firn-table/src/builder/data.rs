//! Data blocks on their way into the file: straight through, or held back until a compression dictionary is made.

use firn_error::Result;
use firn_format::block::Sharing;
use firn_format::compression::{
    CompressionOptions, CompressionType, Compressor, DecompressionDictionary, SizeFormat, build_dictionary,
};

use super::index::IndexCollector;
use super::options::TableBuilderOptions;
use super::output::TableOutput;

/// How blocks fared.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DataCounts {
    pub(crate) blocks: u64,
    pub(crate) compression_bypassed: u64,
    pub(crate) compression_rejected: u64,
}

pub(crate) struct DataBlocks {
    kind: CompressionType,
    compression_options: CompressionOptions,
    size_format: SizeFormat,
    compressor: Option<Compressor>,
    index: IndexCollector,
    padding: Padding,
    counts: DataCounts,
    held_back: Option<HeldBack>,
    dictionary: Option<DecompressionDictionary>,
}

/// Blocks that wait for the dictionary.
struct HeldBack {
    blocks: Vec<HeldBlock>,
    bytes: u64,
    limit_bytes: u64,
}

struct HeldBlock {
    payload: Vec<u8>,
    first: Vec<u8>,
    last: Vec<u8>,
}

/// Where zeros are put between blocks.
#[derive(Clone, Copy, Debug)]
enum Padding {
    None,
    /// After every block, up to the next multiple.
    After {
        alignment: u64,
    },
    /// Before a block that would cross a multiple, if that takes few enough bytes.
    Before {
        alignment: u64,
        max_bytes: u64,
    },
}

impl DataBlocks {
    pub(crate) fn new(options: &TableBuilderOptions, index: IndexCollector) -> Result<Self> {
        let table = &options.table;
        let kind = options.compression;
        let size_format = SizeFormat::of_table(table.format_version);
        let with_dictionary = kind != CompressionType::None && options.compression_options.max_dict_bytes > 0;
        let held_back = with_dictionary.then(|| {
            let limits = [options.target_file_size, options.compression_options.max_dict_buffer_bytes];
            let limit_bytes = limits.into_iter().filter(|&limit| limit > 0).min().unwrap_or(u64::MAX);
            HeldBack { blocks: Vec::new(), bytes: 0, limit_bytes }
        });
        let compressor = match kind {
            CompressionType::None => None,
            kind => Some(Compressor::new(kind, &options.compression_options, size_format, &[])?),
        };
        let super_block = table.super_block_alignment_size as u64;
        let padding = if table.block_align {
            Padding::After { alignment: table.block_size.min(4096) }
        } else if super_block > 0 && table.super_block_alignment_space_overhead_ratio > 0 {
            let max_bytes = super_block / table.super_block_alignment_space_overhead_ratio as u64;
            Padding::Before { alignment: super_block, max_bytes }
        } else {
            Padding::None
        };
        Ok(Self {
            kind,
            compression_options: options.compression_options.clone(),
            size_format,
            compressor,
            index,
            padding,
            counts: DataCounts::default(),
            held_back,
            dictionary: None,
        })
    }

    pub(crate) fn index(&self) -> &IndexCollector {
        &self.index
    }

    pub(crate) fn counts(&self) -> DataCounts {
        self.counts
    }

    /// Data blocks so far, held back or written.
    pub(crate) fn blocks_finished(&self) -> u32 {
        (self.index.len() + self.held_back.as_ref().map_or(0, |held| held.blocks.len())) as u32
    }

    /// Bytes of the blocks that are held back.
    pub(crate) fn buffered_bytes(&self) -> u64 {
        self.held_back.as_ref().map_or(0, |held| held.bytes)
    }

    /// The dictionary that data blocks were compressed with.
    pub(crate) fn dictionary(&self) -> Option<&[u8]> {
        self.dictionary.as_ref().map(DecompressionDictionary::bytes)
    }

    /// Takes a complete block with the keys from `first` to `last`, followed by one that starts with `next`.
    pub(crate) fn add_block(
        &mut self,
        output: &mut TableOutput,
        payload: &[u8],
        first: &[u8],
        last: &[u8],
        next: Option<&[u8]>,
    ) -> Result<()> {
        let Some(held) = &mut self.held_back else {
            return self.write(output, payload, first, last, next);
        };
        held.bytes += payload.len() as u64;
        held.blocks.push(HeldBlock { payload: payload.to_vec(), first: first.to_vec(), last: last.to_vec() });
        if held.bytes > held.limit_bytes { self.release(output, next) } else { Ok(()) }
    }

    /// Writes what is held back. No block follows.
    pub(crate) fn finish(&mut self, output: &mut TableOutput) -> Result<()> {
        self.release(output, None)
    }

    /// Makes the dictionary and writes what was held back for it.
    fn release(&mut self, output: &mut TableOutput, next: Option<&[u8]>) -> Result<()> {
        let Some(held) = self.held_back.take() else {
            return Ok(());
        };
        let (samples, lengths) = sample(&held.blocks, self.kind, &self.compression_options);
        let dictionary = build_dictionary(self.kind, &self.compression_options, &samples, &lengths);
        if !dictionary.is_empty() {
            self.compressor =
                Some(Compressor::new(self.kind, &self.compression_options, self.size_format, &dictionary)?);
            self.dictionary = Some(DecompressionDictionary::new(dictionary)?);
        }
        let mut blocks = held.blocks.into_iter().peekable();
        while let Some(block) = blocks.next() {
            let following = blocks.peek().map(|block| block.first.clone());
            let next = following.as_deref().or(next);
            self.write(output, &block.payload, &block.first, &block.last, next)?;
        }
        Ok(())
    }

    fn write(
        &mut self,
        output: &mut TableOutput,
        payload: &[u8],
        first: &[u8],
        last: &[u8],
        next: Option<&[u8]>,
    ) -> Result<()> {
        let padding = self.padding;
        let block = output.write_block(
            payload,
            self.compressor.as_mut(),
            self.dictionary.as_ref(),
            |offset, stored_bytes| padding.before(offset, stored_bytes),
        )?;
        output.warm(block.handle, payload)?;
        output.pad(padding.after(output.offset()))?;
        self.counts.blocks += 1;
        match &self.compressor {
            None => self.counts.compression_bypassed += 1,
            Some(_) if !block.compressed => self.counts.compression_rejected += 1,
            Some(_) => {}
        }
        let sharing = if block.padded { Sharing::Forbidden } else { Sharing::Allowed };
        self.index.add_block(first, last, next, block.handle, sharing);
        Ok(())
    }
}

impl Padding {
    fn before(self, offset: u64, stored_bytes: usize) -> usize {
        let Self::Before { alignment, max_bytes } = self else {
            return 0;
        };
        let end = offset + stored_bytes as u64;
        if offset / alignment == end / alignment {
            return 0;
        }
        let padding = alignment - offset % alignment;
        if padding < max_bytes { padding as usize } else { 0 }
    }

    fn after(self, offset: u64) -> usize {
        match self {
            Self::After { alignment } => (offset.next_multiple_of(alignment) - offset) as usize,
            _ => 0,
        }
    }
}

/// Pieces of the blocks for the dictionary, one after the other, and their lengths.
///
/// Blocks are visited in a scattered order that depends on their number alone, so that the same input gives the same file.
fn sample(blocks: &[HeldBlock], kind: CompressionType, options: &CompressionOptions) -> (Vec<u8>, Vec<usize>) {
    const STRIDE: u64 = 545_055_921_143;
    let wanted = if kind == CompressionType::Zstd && options.zstd_max_train_bytes > 0 {
        options.zstd_max_train_bytes
    } else {
        options.max_dict_bytes
    } as usize;
    let (mut samples, mut lengths) = (Vec::new(), Vec::new());
    let count = blocks.len();
    if count == 0 {
        return (samples, lengths);
    }
    let stride = (STRIDE % count as u64) as usize;
    let mut at = count / 2;
    for _ in 0..count {
        let remaining = wanted.saturating_sub(samples.len());
        if remaining == 0 {
            break;
        }
        if let Some(block) = blocks.get(at) {
            let piece = block.payload.get(..remaining).unwrap_or(&block.payload);
            samples.extend_from_slice(piece);
            lengths.push(piece.len());
        }
        at = (at + stride) % count;
    }
    (samples, lengths)
}
