//! What a database of a race is opened with, the same for every store that has such an option.

use serde::{Deserialize, Serialize};

/// How blocks are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Compression {
    None,
    Lz4,
    Zstd,
}

impl Compression {
    /// The value of RocksDB's option `compression`.
    pub fn option_value(self) -> &'static str {
        match self {
            Self::None => "kNoCompression",
            Self::Lz4 => "kLZ4Compression",
            Self::Zstd => "kZSTD",
        }
    }
}

/// What direct I/O is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Io {
    /// Everything goes through the page cache.
    Cached,
    /// Reads of tables and the work of flushes and compactions go past it.
    Direct,
}

/// The options of a database, in the terms that all stores of the race share.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Config {
    /// Block cache (page cache of a B-tree store), in bytes.
    pub cache_bytes: usize,
    /// Bits per key of Bloom filters; none without.
    pub bloom_bits: Option<f64>,
    /// Compression of the levels from `compressed_from` on.
    pub compression: Compression,
    /// Place in `compression_per_level` from which on blocks are compressed: 0 for everywhere.
    pub compressed_from: usize,
    /// Bytes of a data block.
    pub block_size: usize,
    pub io: Io,
    /// Compactions start by themselves.
    pub auto_compactions: bool,
    /// The last level is filled first and the others are sized after it.
    pub dynamic_levels: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            cache_bytes: 4 << 30,
            bloom_bits: None,
            compression: Compression::Lz4,
            compressed_from: 3,
            block_size: 4096,
            io: Io::Cached,
            auto_compactions: true,
            dynamic_levels: true,
        }
    }
}

impl Config {
    const LEVELS: usize = 7;

    /// Options of the database and its column family in RocksDB's text form, read by Firn and by RocksDB alike.
    /// Table options are not in it: they hold the cache, which is an object.
    pub fn option_string(&self) -> String {
        let kind = self.compression.option_value();
        let levels: Vec<_> = (0..Self::LEVELS)
            .map(|level| if level < self.compressed_from { Compression::None.option_value() } else { kind })
            .collect();
        let levels = levels.join(":");
        format!(
            "create_if_missing=true;max_background_jobs=2;max_open_files=-1;write_buffer_size=67108864;\
             max_write_buffer_number=4;target_file_size_base=67108864;max_bytes_for_level_base=268435456;\
             level_compaction_dynamic_level_bytes={dynamic};compression={kind};compression_per_level={levels};\
             use_direct_reads={direct};use_direct_io_for_flush_and_compaction={direct};\
             disable_auto_compactions={manual}",
            dynamic = self.dynamic_levels,
            direct = self.io == Io::Direct,
            manual = !self.auto_compactions,
        )
    }
}

/// Version of the table format, the newest that both of the compared releases know.
pub const FORMAT_VERSION: i32 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_third_level_is_the_first_compressed_one() {
        let text = Config::default().option_string();
        let levels =
            "compression_per_level=kNoCompression:kNoCompression:kNoCompression:kLZ4Compression:kLZ4Compression:";
        assert!(text.contains(levels), "{text}");
        let everywhere = Config { compression: Compression::Zstd, compressed_from: 0, ..Config::default() };
        assert!(everywhere.option_string().contains("compression_per_level=kZSTD:kZSTD:"));
    }
}
