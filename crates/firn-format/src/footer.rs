//! The last bytes of a table file: which format it is, how it is checked, and where its directory of blocks lies.
//!
//! ```text
//! version 0     handles, zero padding to 40 | fixed64 legacy magic                                             48 bytes
//! versions 1–5  u8 checksum | handles, zero padding to 41 | fixed32 version | fixed64 magic                    53 bytes
//! versions 6–7  u8 checksum | 3e 00 7a 00 | fixed32 footer checksum | fixed32 base context checksum
//!               | fixed32 metaindex size | 24 reserved bytes | fixed32 version | fixed64 magic                 53 bytes
//! ```
//!
//! A decoded [`Footer`] is always consistent: its checksum type is known, its version is one that this crate reads, and
//! its own checksum, where it has one, was verified.

use firn_error::{Error, Result};

use crate::block::BLOCK_TRAILER_SIZE;
use crate::checksum::{ChecksumType, compute, context_modifier};
pub use crate::index::BlockHandle;

/// Magic number of block-based tables, versions 1 and later.
pub const BLOCK_BASED_MAGIC: u64 = 0x88e2_41b7_85f4_cff7;
/// Magic number of block-based tables of version 0, LevelDB's among them.
pub const LEGACY_BLOCK_BASED_MAGIC: u64 = 0xdb47_7524_8b80_fb57;
/// Magic number of plain tables.
pub const PLAIN_TABLE_MAGIC: u64 = 0x8242_2296_63bf_9564;
/// Magic number of old plain tables.
pub const LEGACY_PLAIN_TABLE_MAGIC: u64 = 0x4f34_18eb_7a8f_13b8;
/// Magic number of cuckoo tables.
pub const CUCKOO_TABLE_MAGIC: u64 = 0x9267_89d0_c5f1_7873;

/// Bytes of a footer of version 0.
pub const LEGACY_FOOTER_SIZE: usize = 48;
/// Bytes of a footer of versions 1 and later.
pub const FOOTER_SIZE: usize = 53;
/// The newest version that can be read and written.
pub const LATEST_FORMAT_VERSION: u32 = 7;

const EXTENDED_MAGIC: [u8; 4] = [0x3e, 0x00, 0x7a, 0x00];

/// What a footer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Footer {
    /// The table's `format_version`: 0 to 7.
    pub format_version: u32,
    /// How all blocks are checked.
    pub checksum_type: ChecksumType,
    /// What block checksums are mixed with from version 6 on, not 0 there; 0 before.
    pub base_context_checksum: u32,
    /// The directory of meta blocks.
    pub metaindex: BlockHandle,
    /// The index block; from version 6 on the metaindex names it.
    pub index: Option<BlockHandle>,
}

fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N]> {
    bytes
        .get(at..)
        .and_then(<[u8]>::first_chunk)
        .copied()
        .ok_or_else(|| Error::corruption("file is too short to be an sstable"))
}

fn too_short(file_size: u64) -> Error {
    Error::corruption(format!("file is too short ({file_size} bytes) to be an sstable")).with_offset(0)
}

impl Footer {
    /// Decodes the footer of a file of `file_size` bytes from `tail`, its last 53 bytes or all of it when it is shorter.
    ///
    /// # Errors
    /// Corruption when the bytes are no footer of a table; not supported when they belong to a plain or cuckoo table or
    /// use a feature of the future.
    pub fn decode(tail: &[u8], file_size: u64) -> Result<Self> {
        if file_size < LEGACY_FOOTER_SIZE as u64 || tail.len() < LEGACY_FOOTER_SIZE {
            return Err(too_short(file_size));
        }
        let magic = u64::from_le_bytes(bytes_at(tail, tail.len() - 8)?);
        match magic {
            BLOCK_BASED_MAGIC => {}
            LEGACY_BLOCK_BASED_MAGIC => return Self::decode_legacy(tail),
            PLAIN_TABLE_MAGIC | LEGACY_PLAIN_TABLE_MAGIC => {
                return Err(Error::not_supported("the file is a plain table, which is not supported yet"));
            }
            CUCKOO_TABLE_MAGIC => {
                return Err(Error::not_supported("the file is a cuckoo table, which is not supported yet"));
            }
            other => {
                return Err(Error::corruption(format!(
                    "Bad table magic number: expected {BLOCK_BASED_MAGIC}, found {other}"
                ))
                .with_offset(file_size - 8));
            }
        }
        let start = tail.len().checked_sub(FOOTER_SIZE).ok_or_else(|| too_short(file_size))?;
        let footer: [u8; FOOTER_SIZE] = bytes_at(tail, start)?;
        let footer_offset = file_size.checked_sub(FOOTER_SIZE as u64).ok_or_else(|| too_short(file_size))?;
        Self::decode_modern(&footer, footer_offset).map_err(|error| error.with_offset(footer_offset))
    }

    fn decode_legacy(tail: &[u8]) -> Result<Self> {
        let footer: [u8; LEGACY_FOOTER_SIZE] = bytes_at(tail, tail.len() - LEGACY_FOOTER_SIZE)?;
        let (metaindex, index) = decode_handles(footer.get(..40).unwrap_or_default())?;
        Ok(Self {
            format_version: 0,
            checksum_type: ChecksumType::Crc32c,
            base_context_checksum: 0,
            metaindex,
            index: Some(index),
        })
    }

    fn decode_modern(footer: &[u8; FOOTER_SIZE], footer_offset: u64) -> Result<Self> {
        let format_version = u32::from_le_bytes(bytes_at(footer, 41)?);
        if format_version == 0 || format_version > LATEST_FORMAT_VERSION {
            return Err(Error::corruption(format!(
                "Corrupt or unsupported format_version {format_version} for magic {BLOCK_BASED_MAGIC}"
            )));
        }
        let checksum_type = ChecksumType::from_u8(footer[0])?;
        if format_version < 6 {
            let (metaindex, index) = decode_handles(footer.get(1..41).unwrap_or_default())?;
            return Ok(Self { format_version, checksum_type, base_context_checksum: 0, metaindex, index: Some(index) });
        }
        let extended: [u8; 4] = bytes_at(footer, 1)?;
        if extended != EXTENDED_MAGIC {
            let found = u32::from_le_bytes(extended);
            return Err(Error::corruption(format!("Bad extended magic number: {found:#x}")));
        }
        let stored = u32::from_le_bytes(bytes_at(footer, 5)?);
        let base_context_checksum = u32::from_le_bytes(bytes_at(footer, 9)?);
        if base_context_checksum == 0 {
            return Err(Error::corruption("Invalid base context checksum"));
        }
        if stored != footer_checksum(footer, checksum_type, base_context_checksum, footer_offset) {
            return Err(Error::corruption(format!("Footer at {footer_offset} checksum mismatch")));
        }
        if u64::from_le_bytes(bytes_at(footer, 33)?) != 0 {
            return Err(Error::not_supported("File uses a future feature not supported in this version"));
        }
        let size = u64::from(u32::from_le_bytes(bytes_at(footer, 13)?));
        let offset = footer_offset
            .checked_sub(size + BLOCK_TRAILER_SIZE as u64)
            .ok_or_else(|| Error::corruption("bad block handle"))?;
        Ok(Self {
            format_version,
            checksum_type,
            base_context_checksum,
            metaindex: BlockHandle { offset, size },
            index: None,
        })
    }

    /// Encodes the footer that stands at `footer_offset`.
    ///
    /// # Errors
    /// Not supported when the metaindex is too large for version 6; invalid argument when the parts do not suit the
    /// version.
    pub fn encode(&self, footer_offset: u64) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(FOOTER_SIZE);
        let index = || self.index.ok_or_else(|| Error::invalid_argument("footers before version 6 name the index"));
        if self.format_version == 0 {
            if self.checksum_type != ChecksumType::Crc32c {
                return Err(Error::invalid_argument("format_version 0 has no checksum but crc32c"));
            }
            self.metaindex.encode_to(&mut out);
            index()?.encode_to(&mut out);
            out.resize(40, 0);
            out.extend_from_slice(&LEGACY_BLOCK_BASED_MAGIC.to_le_bytes());
            return Ok(out);
        }
        if self.format_version > LATEST_FORMAT_VERSION {
            return Err(Error::invalid_argument(
                "Unsupported BlockBasedTable format_version. Please check include/rocksdb/table.h for more info",
            ));
        }
        out.push(self.checksum_type as u8);
        if self.format_version < 6 {
            self.metaindex.encode_to(&mut out);
            index()?.encode_to(&mut out);
            out.resize(41, 0);
        } else {
            let size = u32::try_from(self.metaindex.size)
                .map_err(|_| Error::not_supported("Metaindex block size too large for the footer"))?;
            debug_assert!(self.base_context_checksum != 0);
            debug_assert_eq!(self.metaindex.offset + self.metaindex.size + BLOCK_TRAILER_SIZE as u64, footer_offset);
            out.extend_from_slice(&EXTENDED_MAGIC);
            out.extend_from_slice(&[0; 4]);
            out.extend_from_slice(&self.base_context_checksum.to_le_bytes());
            out.extend_from_slice(&size.to_le_bytes());
            out.resize(41, 0);
        }
        out.extend_from_slice(&self.format_version.to_le_bytes());
        out.extend_from_slice(&BLOCK_BASED_MAGIC.to_le_bytes());
        if self.format_version >= 6 {
            let footer: [u8; FOOTER_SIZE] = bytes_at(&out, 0)?;
            let checksum = footer_checksum(&footer, self.checksum_type, self.base_context_checksum, footer_offset);
            if let Some(slot) = out.get_mut(5..9) {
                slot.copy_from_slice(&checksum.to_le_bytes());
            }
        }
        Ok(out)
    }
}

fn decode_handles(mut bytes: &[u8]) -> Result<(BlockHandle, BlockHandle)> {
    let metaindex = BlockHandle::decode_from(&mut bytes)?;
    let index = BlockHandle::decode_from(&mut bytes)?;
    Ok((metaindex, index))
}

/// The checksum of a footer, counted with zeros in its own place.
fn footer_checksum(footer: &[u8; FOOTER_SIZE], kind: ChecksumType, base: u32, footer_offset: u64) -> u32 {
    let mut bytes = *footer;
    bytes[5..9].fill(0);
    compute(kind, &bytes).wrapping_add(context_modifier(base, footer_offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    }

    #[test]
    fn old_footers_match_the_vectors() {
        let zeros = "00".repeat(35);
        for (version, kind, metaindex, index, head, tail) in [
            (0, ChecksumType::Crc32c, (890, 32), (26, 22), "fa06201a16", "57fb808b247547db"),
            (1, ChecksumType::Crc32c, (890, 32), (26, 22), "01fa06201a16", "01000000f7cff485b741e288"),
            (2, ChecksumType::Crc32c, (890, 32), (26, 22), "01fa06201a16", "02000000f7cff485b741e288"),
            (5, ChecksumType::Xxh3, (881, 32), (26, 13), "04f106201a0d", "05000000f7cff485b741e288"),
        ] {
            let bytes = hex(&format!("{head}{zeros}{tail}"));
            let footer = Footer {
                format_version: version,
                checksum_type: kind,
                base_context_checksum: 0,
                metaindex: BlockHandle { offset: metaindex.0, size: metaindex.1 },
                index: Some(BlockHandle { offset: index.0, size: index.1 }),
            };
            assert_eq!(footer.encode(1000).unwrap(), bytes);
            assert_eq!(Footer::decode(&bytes, 1000 + bytes.len() as u64).unwrap(), footer);
        }
    }

    #[test]
    fn new_footers_match_the_vectors() {
        let zeros = "00".repeat(24);
        for (version, kind, base, offset, head) in [
            (6, 0, 0x331d_fbab, 1200u64, "003e007a001bff1d33abfb1d3336000000"),
            (6, 1, 0x7575_b1c4, 1200, "013e007a0019ae080bc4b1757536000000"),
            (6, 4, 0x01e9_f71b, 1200, "043e007a009e2f86921bf7e90136000000"),
            (7, 0, 0x275e_0e98, 1189, "003e007a003d0a5e27980e5e2736000000"),
            (7, 1, 0x1010_3159, 1189, "013e007a00c2693ef85931101036000000"),
            (7, 4, 0x1717_d24c, 1189, "043e007a00e0fd8df24cd2171736000000"),
        ] {
            let bytes = hex(&format!("{head}{zeros}0{version}000000f7cff485b741e288"));
            let footer = Footer {
                format_version: version,
                checksum_type: ChecksumType::from_u8(kind).unwrap(),
                base_context_checksum: base,
                metaindex: BlockHandle { offset: offset - 59, size: 54 },
                index: None,
            };
            assert_eq!(footer.encode(offset).unwrap(), bytes);
            assert_eq!(Footer::decode(&bytes, offset + 53).unwrap(), footer);
            // The same footer at another place is refused, and so is any flipped bit before the version.
            assert!(Footer::decode(&bytes, offset + 54).unwrap_err().is_corruption());
            for bit in (0..41 * 8).filter(|_| kind != 0) {
                let mut damaged = bytes.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(Footer::decode(&damaged, offset + 53).is_err(), "bit {bit}");
            }
        }
    }

    #[test]
    fn other_files_are_refused() {
        assert!(Footer::decode(&[], 0).unwrap_err().is_corruption());
        assert!(Footer::decode(&[0; 53], 53).unwrap_err().message().contains("Bad table magic number"));
        for magic in [PLAIN_TABLE_MAGIC, LEGACY_PLAIN_TABLE_MAGIC, CUCKOO_TABLE_MAGIC] {
            let mut bytes = vec![0; 45];
            bytes.extend_from_slice(&magic.to_le_bytes());
            assert!(Footer::decode(&bytes, 100).unwrap_err().kind() == firn_error::ErrorKind::NotSupported);
        }
        let mut bytes = vec![1; 45];
        bytes[41..45].copy_from_slice(&8u32.to_le_bytes());
        bytes.extend_from_slice(&BLOCK_BASED_MAGIC.to_le_bytes());
        assert!(Footer::decode(&bytes, 100).unwrap_err().message().contains("format_version 8"));
        bytes[41..45].copy_from_slice(&2u32.to_le_bytes());
        bytes[0] = 9;
        assert!(Footer::decode(&bytes, 100).unwrap_err().message().contains("checksum type: 9"));
        bytes[0] = 1;
        bytes[1..41].fill(0xff);
        assert!(Footer::decode(&bytes, 100).unwrap_err().is_corruption());
    }
}
