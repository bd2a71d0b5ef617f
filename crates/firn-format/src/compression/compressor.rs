//! From raw blocks to stored payloads.
//!
//! A [`Compressor`] belongs to one writer thread and keeps its algorithm's context from block to block. It decides by
//! itself whether the result is worth storing.
//!
//! Always true here: the output buffer holds either a payload with its size prefix, or nothing and the answer is
//! [`CompressionType::None`].

use super::{CompressionOptions, CompressionType, MAX_RAW_BLOCK_BYTES, SizeFormat};
#[cfg(feature = "zstd")]
use crate::Error;
use crate::Result;
#[cfg(feature = "lz4")]
use crate::varint::put_fixed64;
#[cfg(any(feature = "zlib", feature = "bzip2", feature = "lz4", feature = "zstd"))]
use crate::varint::put_varint32;

/// Compresses block after block with one algorithm, one set of options and at most one dictionary.
pub struct Compressor {
    kind: CompressionType,
    size_format: SizeFormat,
    options: CompressionOptions,
    #[cfg_attr(not(any(feature = "zlib", feature = "lz4")), allow(dead_code))]
    dictionary: Vec<u8>,
    engine: Engine,
}

/// The context of the algorithm in use. One per writer, so its size does not matter.
#[allow(clippy::large_enum_variant)]
enum Engine {
    None,
    #[cfg(feature = "snappy")]
    Snappy(snap::raw::Encoder),
    #[cfg(feature = "zlib")]
    Zlib(flate2::Compress),
    #[cfg(feature = "bzip2")]
    Bzip2,
    #[cfg(feature = "lz4")]
    Lz4Fast {
        acceleration: i32,
    },
    #[cfg(feature = "lz4")]
    Lz4High {
        level: i32,
    },
    #[cfg(feature = "zstd")]
    Zstd(zstd::zstd_safe::CCtx<'static>),
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compressor")
            .field("kind", &self.kind)
            .field("size_format", &self.size_format)
            .field("dictionary_bytes", &self.dictionary.len())
            .finish_non_exhaustive()
    }
}

impl Compressor {
    /// A compressor of type `kind`; `dictionary` may be empty.
    ///
    /// # Errors
    /// `NotSupported` when the type cannot be written by this build; `InvalidArgument` when ZSTD refuses the dictionary
    /// or the parameters.
    pub fn new(
        kind: CompressionType,
        options: &CompressionOptions,
        size_format: SizeFormat,
        dictionary: &[u8],
    ) -> Result<Self> {
        let engine = Engine::new(kind, options, dictionary)?;
        let dictionary = if kind.uses_dictionary() { dictionary.to_vec() } else { Vec::new() };
        Ok(Self { kind, size_format, options: options.clone(), dictionary, engine })
    }

    /// The configured type.
    pub fn kind(&self) -> CompressionType {
        self.kind
    }

    /// Compresses `raw` into `out` (cleared first) and returns the type byte to store beside it.
    ///
    /// Returns [`CompressionType::None`] with `out` empty when the block is better stored as it is.
    pub fn compress(&mut self, raw: &[u8], out: &mut Vec<u8>) -> CompressionType {
        out.clear();
        let limit = self.options.max_compressed_bytes(raw.len());
        // Five bytes and fewer cannot hold a size prefix and data.
        if limit <= 5 || raw.len() > MAX_RAW_BLOCK_BYTES {
            return CompressionType::None;
        }
        match self.run(raw, limit, out) {
            Some(kind) if !out.is_empty() && out.len() <= limit => kind,
            _ => {
                out.clear();
                CompressionType::None
            }
        }
    }

    /// `None` when the algorithm gave up, mostly because the output would exceed `limit`.
    #[allow(unused_variables, clippy::needless_pass_by_ref_mut)]
    fn run(&mut self, raw: &[u8], limit: usize, out: &mut Vec<u8>) -> Option<CompressionType> {
        match &mut self.engine {
            Engine::None => None,
            #[cfg(feature = "snappy")]
            Engine::Snappy(encoder) => {
                out.resize(snap::raw::max_compress_len(raw.len()), 0);
                let written = encoder.compress(raw, out).ok()?;
                out.truncate(written);
                Some(CompressionType::Snappy)
            }
            #[cfg(feature = "zlib")]
            Engine::Zlib(stream) => {
                if self.size_format == SizeFormat::V2 {
                    put_varint32(out, raw.len() as u32);
                }
                out.reserve(limit);
                stream.reset();
                if !self.dictionary.is_empty() {
                    stream.set_dictionary(&self.dictionary).ok()?;
                }
                let status = stream.compress_vec(raw, out, flate2::FlushCompress::Finish).ok()?;
                (status == flate2::Status::StreamEnd).then_some(CompressionType::Zlib)
            }
            #[cfg(feature = "bzip2")]
            Engine::Bzip2 => {
                if self.size_format == SizeFormat::V2 {
                    put_varint32(out, raw.len() as u32);
                }
                out.reserve(limit);
                let mut stream = bzip2::Compress::new(bzip2::Compression::new(1), 30);
                let status = stream.compress_vec(raw, out, bzip2::Action::Finish).ok()?;
                (status == bzip2::Status::StreamEnd).then_some(CompressionType::Bzip2)
            }
            #[cfg(feature = "lz4")]
            Engine::Lz4Fast { acceleration } => {
                put_lz4_size(self.size_format, raw.len(), out);
                if self.dictionary.is_empty() {
                    lzzzz::lz4::compress_to_vec(raw, out, *acceleration).ok()?;
                } else {
                    // The library chains blocks within one stream, so each independent block takes its own.
                    let mut stream = lzzzz::lz4::Compressor::with_dict(self.dictionary.as_slice()).ok()?;
                    stream.next_to_vec(raw, out, *acceleration).ok()?;
                }
                Some(CompressionType::Lz4)
            }
            #[cfg(feature = "lz4")]
            Engine::Lz4High { level } => {
                put_lz4_size(self.size_format, raw.len(), out);
                if self.dictionary.is_empty() {
                    lzzzz::lz4_hc::compress_to_vec(raw, out, *level).ok()?;
                } else {
                    let mut stream = lzzzz::lz4_hc::Compressor::with_dict(self.dictionary.as_slice(), *level).ok()?;
                    stream.next_to_vec(raw, out).ok()?;
                }
                Some(CompressionType::Lz4hc)
            }
            #[cfg(feature = "zstd")]
            Engine::Zstd(context) => {
                put_varint32(out, raw.len() as u32);
                out.reserve(limit);
                let start = out.len() as u64;
                let mut frame = std::io::Cursor::new(&mut *out);
                frame.set_position(start);
                context.compress2(&mut frame, raw).ok()?;
                Some(CompressionType::Zstd)
            }
        }
    }
}

impl Engine {
    #[allow(unused_variables)]
    fn new(kind: CompressionType, options: &CompressionOptions, dictionary: &[u8]) -> Result<Self> {
        let level = (options.level != CompressionOptions::DEFAULT_LEVEL).then_some(options.level);
        Ok(match kind {
            CompressionType::None => Self::None,
            #[cfg(feature = "snappy")]
            CompressionType::Snappy => Self::Snappy(snap::raw::Encoder::new()),
            #[cfg(feature = "zlib")]
            CompressionType::Zlib => {
                let level = match level {
                    None | Some(..=-1) => flate2::Compression::default(),
                    Some(level) => flate2::Compression::new(level.clamp(0, 9) as u32),
                };
                let window_bits = options.window_bits.unsigned_abs().clamp(9, 14) as u8;
                Self::Zlib(flate2::Compress::new_with_window_bits(level, false, window_bits))
            }
            #[cfg(feature = "bzip2")]
            CompressionType::Bzip2 => Self::Bzip2,
            #[cfg(feature = "lz4")]
            CompressionType::Lz4 | CompressionType::Lz4hc => match (kind, level) {
                (CompressionType::Lz4, None) => Self::Lz4Fast { acceleration: 1 },
                (_, None) => Self::Lz4High { level: 9 },
                (_, Some(level @ 1..)) => Self::Lz4High { level: level.min(12) },
                (_, Some(level)) => Self::Lz4Fast { acceleration: level.saturating_neg().max(1) },
            },
            #[cfg(feature = "zstd")]
            CompressionType::Zstd => {
                use zstd::zstd_safe::{CCtx, CParameter};
                let refused = |code| {
                    Error::invalid_argument(format!("ZSTD compression: {}", zstd::zstd_safe::get_error_name(code)))
                };
                let mut context =
                    CCtx::try_create().ok_or_else(|| Error::incomplete("no memory for a ZSTD compression context"))?;
                let level = match level {
                    None => 3,
                    Some(0) => -1,
                    Some(level) => level,
                };
                context.set_parameter(CParameter::CompressionLevel(level)).map_err(refused)?;
                context.set_parameter(CParameter::ChecksumFlag(options.checksum)).map_err(refused)?;
                if !dictionary.is_empty() {
                    context.load_dictionary(dictionary).map_err(refused)?;
                }
                Self::Zstd(context)
            }
            _ => return Err(kind.unsupported()),
        })
    }
}

#[cfg(feature = "lz4")]
fn put_lz4_size(size_format: SizeFormat, raw_bytes: usize, out: &mut Vec<u8>) {
    match size_format {
        SizeFormat::V1 => put_fixed64(out, raw_bytes as u64),
        SizeFormat::V2 => put_varint32(out, raw_bytes as u32),
    }
}

/// Compresses one block with a context of its own; for more than one block keep a [`Compressor`].
///
/// # Errors
/// As [`Compressor::new`].
pub fn compress(
    kind: CompressionType,
    options: &CompressionOptions,
    size_format: SizeFormat,
    dictionary: &[u8],
    raw: &[u8],
    out: &mut Vec<u8>,
) -> Result<CompressionType> {
    Ok(Compressor::new(kind, options, size_format, dictionary)?.compress(raw, out))
}
