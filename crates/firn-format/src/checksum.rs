//! Checksums of blocks, footers and log records.
//!
//! Bytes flow in, a 32-bit word as it stands on disk flows out; or a stored word flows in and a verdict flows out. A
//! block's checksum covers its payload and the compression-type byte after it. From `format_version` 6 on, a modifier
//! derived from the file's base context checksum and the block's offset is added, so that a block cannot pass for
//! another one.
//!
//! Always true here: crc32c words are masked when they stand on disk and plain when they are printed.

use crate::{Error, Result};
use xxhash_rust::{xxh3, xxh32, xxh64};

/// How blocks of a table are checked; the discriminants stand in footers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ChecksumType {
    /// No check; the stored word is 0 (before the context modifier).
    NoChecksum = 0,
    /// Masked CRC-32C.
    Crc32c = 1,
    /// XXH32.
    XxHash = 2,
    /// The low half of XXH64.
    XxHash64 = 3,
    /// The low half of the released XXH3-64 of all but the last byte, XOR a multiple of the last byte. The default.
    #[default]
    Xxh3 = 4,
}

impl ChecksumType {
    /// All types, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::NoChecksum, Self::Crc32c, Self::XxHash, Self::XxHash64, Self::Xxh3];

    /// The type with this number.
    ///
    /// # Errors
    /// `Corruption` for an unknown number.
    pub fn from_u8(number: u8) -> Result<Self> {
        Self::ALL
            .get(usize::from(number))
            .copied()
            .ok_or_else(|| Error::corruption(format!("Corrupt or unsupported checksum type: {number}")))
    }

    /// The name in option strings.
    pub const fn option_name(self) -> &'static str {
        match self {
            Self::NoChecksum => "kNoChecksum",
            Self::Crc32c => "kCRC32c",
            Self::XxHash => "kxxHash",
            Self::XxHash64 => "kxxHash64",
            Self::Xxh3 => "kXXH3",
        }
    }

    /// The type with this name in option strings.
    pub fn from_option_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.option_name() == name)
    }
}

const MASK_DELTA: u32 = 0xa282_ead8;

/// The form in which crc32c values are stored, so that the crc of bytes that hold crcs stays sound.
#[inline]
pub const fn mask_crc32c(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(MASK_DELTA)
}

/// The inverse of [`mask_crc32c`].
#[inline]
pub const fn unmask_crc32c(masked: u32) -> u32 {
    masked.wrapping_sub(MASK_DELTA).rotate_left(15)
}

/// CRC-32C of `data`, not masked.
#[inline]
pub fn crc32c(data: &[u8]) -> u32 {
    ::crc32c::crc32c(data)
}

/// CRC-32C of a string whose beginning has the crc `crc` and whose rest is `data`; not masked.
#[inline]
pub fn crc32c_extend(crc: u32, data: &[u8]) -> u32 {
    ::crc32c::crc32c_append(crc, data)
}

/// CRC-32C of the concatenation of two strings with the crcs `first` and `second`, the second `second_bytes` long.
pub fn crc32c_combine(first: u32, second: u32, second_bytes: usize) -> u32 {
    ::crc32c::crc32c_combine(first, second, second_bytes)
}

const XXH3_LAST_BYTE: u32 = 0x6b90_83d9;

/// The checksum word of `data`, whose last byte, for a block, is the compression type.
#[inline]
pub fn compute(kind: ChecksumType, data: &[u8]) -> u32 {
    match kind {
        ChecksumType::NoChecksum => 0,
        ChecksumType::Crc32c => mask_crc32c(crc32c(data)),
        ChecksumType::XxHash => xxh32::xxh32(data, 0),
        ChecksumType::XxHash64 => xxh64::xxh64(data, 0) as u32,
        ChecksumType::Xxh3 => match data.split_last() {
            None => 0,
            Some((&last, rest)) => xxh3::xxh3_64(rest) as u32 ^ u32::from(last).wrapping_mul(XXH3_LAST_BYTE),
        },
    }
}

/// The checksum word of a block whose payload and compression-type byte do not lie side by side.
#[inline]
pub fn compute_with_last_byte(kind: ChecksumType, payload: &[u8], last: u8) -> u32 {
    match kind {
        ChecksumType::NoChecksum => 0,
        ChecksumType::Crc32c => mask_crc32c(crc32c_extend(crc32c(payload), &[last])),
        ChecksumType::XxHash => {
            let mut state = xxh32::Xxh32::new(0);
            state.update(payload);
            state.update(&[last]);
            state.digest()
        }
        ChecksumType::XxHash64 => {
            let mut state = xxh64::Xxh64::new(0);
            state.update(payload);
            state.update(&[last]);
            state.digest() as u32
        }
        ChecksumType::Xxh3 => xxh3::xxh3_64(payload) as u32 ^ u32::from(last).wrapping_mul(XXH3_LAST_BYTE),
    }
}

/// What is added to the checksum of the block at `offset` in a file with this base context checksum; 0 for base 0
/// (`format_version` < 6).
#[inline]
pub const fn context_modifier(base_context_checksum: u32, offset: u64) -> u32 {
    if base_context_checksum == 0 {
        return 0;
    }
    base_context_checksum ^ (offset as u32).wrapping_add((offset >> 32) as u32)
}

/// Compares the word stored after a block with the one its bytes give.
///
/// `data` is the payload and the compression-type byte, `offset` the place of its first byte in the file.
///
/// # Errors
/// `Corruption` that names both words and the offset; the caller adds the file and the kind of block.
#[inline]
pub fn verify(kind: ChecksumType, data: &[u8], stored: u32, base_context_checksum: u32, offset: u64) -> Result<()> {
    let modifier = context_modifier(base_context_checksum, offset);
    let computed = compute(kind, data);
    if computed.wrapping_add(modifier) == stored {
        return Ok(());
    }
    Err(mismatch(kind, stored.wrapping_sub(modifier), computed, modifier != 0).with_offset(offset))
}

#[cold]
fn mismatch(kind: ChecksumType, stored: u32, computed: u32, context_removed: bool) -> Error {
    let plain = |word| if kind == ChecksumType::Crc32c { unmask_crc32c(word) } else { word };
    let context = if context_removed { "(context removed)" } else { "" };
    Error::corruption(format!(
        "block checksum mismatch: stored{context} = {}, computed = {}, type = {}",
        plain(stored),
        plain(computed),
        kind as u8
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VECTORS: &[(u8, usize, u32, u32)] = &[
        (1, 0, 0xa282_ead8, 0x2b20_16a7),
        (1, 1, 0x11f7_f846, 0xf593_8404),
        (1, 17, 0x39f8_aed9, 0xdf6b_84bd),
        (1, 100, 0x5139_bd90, 0x7665_a51d),
        (1, 300, 0xfeb9_3dd6, 0x50eb_230b),
        (2, 0, 0x02cc_5d05, 0xebc0_cebc),
        (2, 1, 0x002e_0d32, 0xca08_d73b),
        (2, 17, 0x1c63_fdc5, 0x4d91_2be3),
        (2, 100, 0xcc7d_31ef, 0x0d1d_31a7),
        (2, 300, 0x8813_03c3, 0xe1db_f295),
        (3, 0, 0x51d8_e999, 0xd69d_6732),
        (3, 1, 0xe858_bbb7, 0x3161_fce6),
        (3, 17, 0xf23b_5fe1, 0x6fd3_e805),
        (3, 100, 0xd3dc_2d8f, 0xa960_8d9d),
        (3, 300, 0x9b5c_a10e, 0x5c97_d29e),
        (4, 0, 0x0000_0000, 0x9691_9ba6),
        (4, 1, 0xc820_0e2d, 0x7eb6_8e7b),
        (4, 17, 0xd0e6_5bc7, 0xfe60_df15),
        (4, 100, 0x9733_8fef, 0xc302_9cb1),
        (4, 300, 0x6659_2177, 0x628c_7aaa),
    ];

    #[test]
    fn vectors() {
        for &(kind, n, plain, with_type) in VECTORS {
            let kind = ChecksumType::from_u8(kind).unwrap();
            let mut data: Vec<u8> = (0..n).map(|i| (131 * i + 7) as u8).collect();
            assert_eq!(compute(kind, &data), plain, "{kind:?} {n}");
            assert_eq!(compute_with_last_byte(kind, &data, 4), with_type, "{kind:?} {n}");
            data.push(4);
            assert_eq!(compute(kind, &data), with_type, "{kind:?} {n}");
            for (base, offset) in [(0, 77), (0x331d_fbab, 0), (0x331d_fbab, 0x1_0000_001a)] {
                let stored = with_type.wrapping_add(context_modifier(base, offset));
                verify(kind, &data, stored, base, offset).unwrap();
                let error = verify(kind, &data, stored ^ 1, base, offset).unwrap_err();
                assert!(error.is_corruption() && error.offset() == Some(offset), "{error}");
            }
        }
    }

    #[test]
    fn crc_extends_combines_and_masks() {
        assert_eq!(crc32c(b"hello "), 0x7e62_7e58);
        assert_eq!(crc32c(b"world"), 0x31aa_814e);
        assert_eq!(crc32c_extend(crc32c(b"hello "), b"world"), 0xc994_65aa);
        assert_eq!(crc32c_combine(0x7e62_7e58, 0x31aa_814e, 5), 0xc994_65aa);
        assert_eq!((mask_crc32c(0), unmask_crc32c(0xa282_ead8)), (0xa282_ead8, 0));
        assert_eq!(unmask_crc32c(mask_crc32c(0x1234_5678)), 0x1234_5678);
    }

    #[test]
    fn context_modifier_of_footers() {
        assert_eq!(context_modifier(0, 99), 0);
        assert_eq!(context_modifier(0x331d_fbab, 26), 0x331d_fbb1);
    }

    #[test]
    fn unknown_types_are_refused() {
        assert!(ChecksumType::from_u8(5).unwrap_err().is_corruption());
        for kind in ChecksumType::ALL {
            assert_eq!(ChecksumType::from_option_name(kind.option_name()), Some(kind));
        }
        assert_eq!(ChecksumType::from_option_name("crc32c"), None);
    }
}
