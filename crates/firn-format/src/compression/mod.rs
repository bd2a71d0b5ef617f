//! Block compression: the algorithms, their names and numbers, and the framing that RocksDB puts around their output.
//!
//! Raw blocks flow in and stored payloads flow out of a [`Compressor`]; stored payloads flow in and raw blocks flow out
//! of [`decompress`]. The payload of most algorithms starts with the size of the raw block; how that size is written
//! depends on the table's `format_version` ([`SizeFormat`]).
//!
//! Each algorithm is a cargo feature of this crate (`snappy`, `zlib`, `bzip2`, `lz4`, `zstd`), all on by default. A type
//! that is switched off, reserved or not implemented (Xpress) is `NotSupported`.
//!
//! Always true here: no memory is taken on the word of a length field alone, and contexts are reused, so that a block
//! costs no context setup.

mod compressor;
#[cfg_attr(
    not(all(feature = "snappy", feature = "zlib", feature = "bzip2", feature = "lz4", feature = "zstd")),
    allow(dead_code, unused_imports)
)]
mod decompress;
mod dictionary;

pub use compressor::{Compressor, compress};
pub use decompress::{DecompressionDictionary, decompress, decompress_to_vec};
pub use dictionary::build_dictionary;

use crate::{Error, Result};

/// The greatest size of a block before compression; greater ones are not attempted and not believed.
pub const MAX_RAW_BLOCK_BYTES: usize = i32::MAX as usize - 1;

/// How a block is compressed; the discriminants are the type bytes of block trailers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum CompressionType {
    /// Stored as is.
    #[default]
    None = 0x00,
    /// Snappy, raw format.
    Snappy = 0x01,
    /// Raw deflate.
    Zlib = 0x02,
    /// One bzip2 stream.
    Bzip2 = 0x03,
    /// One LZ4 block by the fast compressor.
    Lz4 = 0x04,
    /// One LZ4 block by the high-compression compressor.
    Lz4hc = 0x05,
    /// Windows Xpress; known, not supported.
    Xpress = 0x06,
    /// One Zstandard frame.
    Zstd = 0x07,
    /// Zstandard in very old files; readable only.
    ZstdNotFinal = 0x40,
    /// Option value only ("not set"); never on disk.
    DisableOption = 0xff,
}

impl CompressionType {
    /// All types, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::None,
        Self::Snappy,
        Self::Zlib,
        Self::Bzip2,
        Self::Lz4,
        Self::Lz4hc,
        Self::Xpress,
        Self::Zstd,
        Self::ZstdNotFinal,
        Self::DisableOption,
    ];

    /// The type of a block trailer.
    ///
    /// # Errors
    /// `NotSupported`, with RocksDB's name of the number, when no built-in type has it.
    pub fn from_u8(number: u8) -> Result<Self> {
        Self::from_number(number).filter(|kind| *kind != Self::DisableOption).ok_or_else(|| {
            Error::not_supported(format!("Compression type not supported or not built-in: {}", type_byte_name(number)))
        })
    }

    const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0x00 => Self::None,
            0x01 => Self::Snappy,
            0x02 => Self::Zlib,
            0x03 => Self::Bzip2,
            0x04 => Self::Lz4,
            0x05 => Self::Lz4hc,
            0x06 => Self::Xpress,
            0x07 => Self::Zstd,
            0x40 => Self::ZstdNotFinal,
            0xff => Self::DisableOption,
            _ => return None,
        })
    }

    /// The name in OPTIONS files and option strings, such as `kSnappyCompression`.
    pub const fn option_name(self) -> &'static str {
        match self {
            Self::None => "kNoCompression",
            Self::Snappy => "kSnappyCompression",
            Self::Zlib => "kZlibCompression",
            Self::Bzip2 => "kBZip2Compression",
            Self::Lz4 => "kLZ4Compression",
            Self::Lz4hc => "kLZ4HCCompression",
            Self::Xpress => "kXpressCompression",
            Self::Zstd => "kZSTD",
            Self::ZstdNotFinal => "kZSTDNotFinalCompression",
            Self::DisableOption => "kDisableCompressionOption",
        }
    }

    /// The type with this name in option strings.
    pub fn from_option_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.option_name() == name)
    }

    /// The name in the table property `rocksdb.compression` (up to `format_version` 6) and in log lines.
    pub const fn property_name(self) -> &'static str {
        match self {
            Self::None => "NoCompression",
            Self::Snappy => "Snappy",
            Self::Zlib => "Zlib",
            Self::Bzip2 => "BZip2",
            Self::Lz4 => "LZ4",
            Self::Lz4hc => "LZ4HC",
            Self::Xpress => "Xpress",
            Self::Zstd => "ZSTD",
            Self::ZstdNotFinal => "ZSTDNotFinal",
            Self::DisableOption => "DisableOption",
        }
    }

    /// The type with this name in the table property `rocksdb.compression`.
    pub fn from_property_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.property_name() == name)
    }

    /// Whether this build can compress and decompress with the type.
    pub const fn is_supported(self) -> bool {
        match self {
            Self::None => true,
            Self::Snappy => cfg!(feature = "snappy"),
            Self::Zlib => cfg!(feature = "zlib"),
            Self::Bzip2 => cfg!(feature = "bzip2"),
            Self::Lz4 | Self::Lz4hc => cfg!(feature = "lz4"),
            Self::Zstd | Self::ZstdNotFinal => cfg!(feature = "zstd"),
            Self::Xpress | Self::DisableOption => false,
        }
    }

    /// Whether a compression dictionary changes what the type writes; the others ignore it.
    pub const fn uses_dictionary(self) -> bool {
        matches!(self, Self::Zlib | Self::Lz4 | Self::Lz4hc | Self::Zstd | Self::ZstdNotFinal)
    }

    /// The type RocksDB 11 takes for new column families in this build: LZ4, else Snappy, else none.
    pub const fn default_for_options() -> Self {
        if Self::Lz4.is_supported() {
            Self::Lz4
        } else if Self::Snappy.is_supported() {
            Self::Snappy
        } else {
            Self::None
        }
    }

    #[cold]
    pub(crate) fn unsupported(self) -> Error {
        Error::not_supported(format!("Compression type {} not supported in this build", self.property_name()))
    }
}

/// RocksDB's name of any trailer byte, also of reserved and custom ones.
fn type_byte_name(number: u8) -> String {
    match (CompressionType::from_number(number), number) {
        (Some(kind), _) => kind.property_name().to_string(),
        (None, 0x80..) => format!("Custom{number:02X}"),
        (None, _) => format!("Reserved{number:02X}"),
    }
}

/// How the size of the raw block stands before the compressed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeFormat {
    /// `format_version` 0 and 1: fixed64 for LZ4, varint32 for ZSTD, absent for zlib and bzip2.
    V1,
    /// `format_version` 2 and later, blob files, WAL: varint32 for all but Snappy.
    V2,
}

impl SizeFormat {
    /// The form used by tables of this `format_version`.
    pub const fn of_table(format_version: u32) -> Self {
        if format_version < 2 { Self::V1 } else { Self::V2 }
    }
}

/// Parameters of compression, with RocksDB's names and defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressionOptions {
    /// Zlib window as a negative power of two; default -14. Windows beyond 2^14 are clamped, since readers use that.
    pub window_bits: i32,
    /// Level; default [`CompressionOptions::DEFAULT_LEVEL`] means the algorithm's own default.
    pub level: i32,
    /// Zlib strategy; default 0. Accepted and recorded; the default strategy is used.
    pub strategy: i32,
    /// Size limit of the compression dictionary in bytes; default 0 = none.
    pub max_dict_bytes: u32,
    /// Training data for ZSTD dictionaries in bytes; default 0 = untrained.
    pub zstd_max_train_bytes: u32,
    /// Compression threads per job; default 1.
    pub parallel_threads: u32,
    /// For bottommost options: use them at all; default false.
    pub enabled: bool,
    /// Limit of the buffer that collects dictionary samples, in bytes; default 0 = none.
    pub max_dict_buffer_bytes: u64,
    /// Train ZSTD dictionaries rather than only finalize the samples; default true.
    pub use_zstd_dict_trainer: bool,
    /// A block is stored compressed only when 1024 * compressed ≤ raw * this; default 896 (7/8). 0 or less: never.
    pub max_compressed_bytes_per_kb: i32,
    /// Add ZSTD's frame checksum; default false.
    pub checksum: bool,
}

impl CompressionOptions {
    /// The level that stands for "the algorithm's default".
    pub const DEFAULT_LEVEL: i32 = 32767;

    /// The text of the table property `rocksdb.compression_options`, as RocksDB 7.8 writes it.
    pub fn to_property_string(&self) -> String {
        format!(
            "window_bits={}; level={}; strategy={}; max_dict_bytes={}; zstd_max_train_bytes={}; enabled={}; \
             max_dict_buffer_bytes={}; use_zstd_dict_trainer={}; ",
            self.window_bits,
            self.level,
            self.strategy,
            self.max_dict_bytes,
            self.zstd_max_train_bytes,
            u8::from(self.enabled),
            self.max_dict_buffer_bytes,
            u8::from(self.use_zstd_dict_trainer),
        )
    }

    /// The most bytes that the compressed form of `raw_bytes` may take to be worth storing.
    pub fn max_compressed_bytes(&self, raw_bytes: usize) -> usize {
        let per_kb = self.max_compressed_bytes_per_kb.clamp(0, 1023) as u64;
        (per_kb * raw_bytes as u64 / 1024) as usize
    }
}

impl Default for CompressionOptions {
    fn default() -> Self {
        Self {
            window_bits: -14,
            level: Self::DEFAULT_LEVEL,
            strategy: 0,
            max_dict_bytes: 0,
            zstd_max_train_bytes: 0,
            parallel_threads: 1,
            enabled: false,
            max_dict_buffer_bytes: 0,
            use_zstd_dict_trainer: true,
            max_compressed_bytes_per_kb: 896,
            checksum: false,
        }
    }
}

#[cfg(test)]
mod tests;
