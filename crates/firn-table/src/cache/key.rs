//! The keys of the block cache.

/// 128 bits that name a block: a word shared by all blocks of a file, and a word that tells its blocks apart.
///
/// Made by `firn_format::unique_id::CacheKeyBase` from the file's unique id, so that a block has the same key after
/// reopening, copying or ingesting its file. Keys with file word 0 are free for other uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheKey {
    pub(super) file: u64,
    pub(super) block: u64,
}

impl CacheKey {
    /// The key of these two words.
    #[inline]
    pub const fn new(file: u64, block: u64) -> Self {
        Self { file, block }
    }

    /// The sixteen bytes that RocksDB shows, in traces for instance.
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.file.to_le_bytes());
        bytes[8..].copy_from_slice(&self.block.to_le_bytes());
        bytes
    }

    /// A hash whose every bit depends on both words; block words of one file differ in few low bits.
    #[inline]
    pub(super) const fn hash(&self) -> u64 {
        let a = (self.file ^ 0x9e37_79b9_7f4a_7c15) as u128;
        let b = (self.block ^ 0xc2b2_ae3d_27d4_eb4f) as u128;
        let product = a * b;
        let mixed = (product as u64) ^ ((product >> 64) as u64);
        mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (mixed >> 29)
    }
}

impl From<(u64, u64)> for CacheKey {
    fn from((file, block): (u64, u64)) -> Self {
        Self::new(file, block)
    }
}
