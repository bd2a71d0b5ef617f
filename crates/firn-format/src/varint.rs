//! Primitive integers: fixed-width little-endian numbers, base-128 varints, zigzag numbers and length-prefixed slices.
//!
//! Writers append to a `Vec<u8>` and always emit the shortest form. Readers take `&mut &[u8]`, advance it past what they
//! read, and leave it untouched when they fail. Readers accept over-long varints whose last byte comes within five
//! (32-bit) or ten (64-bit) bytes and drop the bits that do not fit, as RocksDB does.

use firn_error::{Error, Result};

/// The most bytes a 32-bit varint takes.
pub const MAX_VARINT32_BYTES: usize = 5;
/// The most bytes a 64-bit varint takes.
pub const MAX_VARINT64_BYTES: usize = 10;

#[cold]
fn bad_varint(width: u32, input: &[u8]) -> Error {
    let limit = if width == 32 { MAX_VARINT32_BYTES } else { MAX_VARINT64_BYTES };
    if input.len() < limit {
        Error::corruption(format!("truncated varint{width}"))
    } else {
        Error::corruption(format!("unterminated varint{width}"))
    }
}

#[cold]
fn truncated(what: &str) -> Error {
    Error::corruption(format!("truncated {what}"))
}

/// Appends `value` as two little-endian bytes.
#[inline]
pub fn put_fixed16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends `value` as four little-endian bytes.
#[inline]
pub fn put_fixed32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends `value` as eight little-endian bytes.
#[inline]
pub fn put_fixed64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends `value` in one to five bytes.
#[inline]
pub fn put_varint32(out: &mut Vec<u8>, value: u32) {
    put_varint64(out, u64::from(value));
}

/// Appends `value` in one to ten bytes.
#[inline]
pub fn put_varint64(out: &mut Vec<u8>, value: u64) {
    if value < 0x80 {
        out.push(value as u8);
        return;
    }
    let (bytes, length) = encode_varint64(value);
    out.extend_from_slice(&bytes[..length]);
}

/// The bytes of the varint of `value` and how many of them count.
#[inline]
pub fn encode_varint64(mut value: u64) -> ([u8; MAX_VARINT64_BYTES], usize) {
    let mut bytes = [0u8; MAX_VARINT64_BYTES];
    let mut length = 0;
    while value >= 0x80 {
        bytes[length] = value as u8 | 0x80;
        value >>= 7;
        length += 1;
    }
    bytes[length] = value as u8;
    (bytes, length + 1)
}

/// Appends `value` as the varint of its zigzag form.
#[inline]
pub fn put_varsigned64(out: &mut Vec<u8>, value: i64) {
    put_varint64(out, zigzag_encode(value));
}

/// Appends the length of `bytes` as a 32-bit varint, then `bytes`.
///
/// The caller has checked that the length fits 32 bits; formats limit keys and values to less than that.
#[inline]
pub fn put_length_prefixed(out: &mut Vec<u8>, bytes: &[u8]) {
    debug_assert!(u32::try_from(bytes.len()).is_ok());
    put_varint64(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// How many bytes the varint of `value` takes: 1 to 10.
#[inline]
pub const fn varint_length(value: u64) -> usize {
    // Seven bits per byte, and at least one byte for zero.
    ((63 - (value | 1).leading_zeros()) / 7 + 1) as usize
}

/// Maps signed to unsigned so that small magnitudes stay small: 0, -1, 1, -2 become 0, 1, 2, 3.
#[inline]
pub const fn zigzag_encode(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The inverse of [`zigzag_encode`].
#[inline]
pub const fn zigzag_decode(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Takes two little-endian bytes off `input`.
///
/// # Errors
/// Corruption when `input` is too short.
#[inline]
pub fn get_fixed16(input: &mut &[u8]) -> Result<u16> {
    let (head, rest) = input.split_first_chunk().ok_or_else(|| truncated("fixed16"))?;
    *input = rest;
    Ok(u16::from_le_bytes(*head))
}

/// Takes four little-endian bytes off `input`.
///
/// # Errors
/// Corruption when `input` is too short.
#[inline]
pub fn get_fixed32(input: &mut &[u8]) -> Result<u32> {
    let (head, rest) = input.split_first_chunk().ok_or_else(|| truncated("fixed32"))?;
    *input = rest;
    Ok(u32::from_le_bytes(*head))
}

/// Takes eight little-endian bytes off `input`.
///
/// # Errors
/// Corruption when `input` is too short.
#[inline]
pub fn get_fixed64(input: &mut &[u8]) -> Result<u64> {
    let (head, rest) = input.split_first_chunk().ok_or_else(|| truncated("fixed64"))?;
    *input = rest;
    Ok(u64::from_le_bytes(*head))
}

/// Takes a 32-bit varint off `input`.
///
/// # Errors
/// Corruption when no terminating byte comes within five bytes.
#[inline]
pub fn get_varint32(input: &mut &[u8]) -> Result<u32> {
    if let Some((&byte, rest)) = input.split_first()
        && byte < 0x80
    {
        *input = rest;
        return Ok(u32::from(byte));
    }
    let (value, length) = decode_varint(input, MAX_VARINT32_BYTES).ok_or_else(|| bad_varint(32, input))?;
    *input = &input[length..];
    Ok(value as u32)
}

/// Takes a 64-bit varint off `input`.
///
/// # Errors
/// Corruption when no terminating byte comes within ten bytes.
#[inline]
pub fn get_varint64(input: &mut &[u8]) -> Result<u64> {
    if let Some((&byte, rest)) = input.split_first()
        && byte < 0x80
    {
        *input = rest;
        return Ok(u64::from(byte));
    }
    let (value, length) = decode_varint(input, MAX_VARINT64_BYTES).ok_or_else(|| bad_varint(64, input))?;
    *input = &input[length..];
    Ok(value)
}

/// Takes a zigzag varint off `input`.
///
/// # Errors
/// Corruption when no terminating byte comes within ten bytes.
#[inline]
pub fn get_varsigned64(input: &mut &[u8]) -> Result<i64> {
    get_varint64(input).map(zigzag_decode)
}

/// Takes a slice with a 32-bit varint length before it off `input`.
///
/// # Errors
/// Corruption when the length does not decode or exceeds what is left.
#[inline]
pub fn get_length_prefixed<'a>(input: &mut &'a [u8]) -> Result<&'a [u8]> {
    let mut rest = *input;
    let length = get_varint32(&mut rest)? as usize;
    let (slice, rest) = rest.split_at_checked(length).ok_or_else(|| truncated("length-prefixed slice"))?;
    *input = rest;
    Ok(slice)
}

/// The value of the varint at the start of `input` and its length in bytes.
#[inline]
fn decode_varint(input: &[u8], limit: usize) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (index, &byte) in input.iter().take(limit).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return Some((value, index + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    }

    #[test]
    fn varint32_vectors() {
        for (value, text) in [
            (0, "00"),
            (127, "7F"),
            (128, "8001"),
            (300, "AC02"),
            (16383, "FF7F"),
            (16384, "808001"),
            (2_097_151, "FFFF7F"),
            (2_097_152, "80808001"),
            (268_435_455, "FFFFFF7F"),
            (268_435_456, "8080808001"),
            (u32::MAX, "FFFFFFFF0F"),
        ] {
            let mut out = Vec::new();
            put_varint32(&mut out, value);
            assert_eq!(out, hex(text));
            assert_eq!(varint_length(u64::from(value)), out.len());
            let mut input = out.as_slice();
            assert_eq!(get_varint32(&mut input).unwrap(), value);
            assert!(input.is_empty());
        }
    }

    #[test]
    fn varint64_vectors() {
        for (value, text) in [
            ((1u64 << 35) - 1, "FFFFFFFF7F"),
            (1 << 35, "808080808001"),
            ((1 << 63) - 1, "FFFFFFFFFFFFFFFF7F"),
            (1 << 63, "80808080808080808001"),
            (u64::MAX, "FFFFFFFFFFFFFFFFFF01"),
        ] {
            let mut out = Vec::new();
            put_varint64(&mut out, value);
            assert_eq!(out, hex(text));
            assert_eq!(get_varint64(&mut out.as_slice()).unwrap(), value);
        }
    }

    #[test]
    fn varsigned64_vectors() {
        for (value, text) in [
            (0, "00"),
            (-1, "01"),
            (1, "02"),
            (-2, "03"),
            (63, "7E"),
            (-64, "7F"),
            (64, "8001"),
            (-65, "8101"),
            (i64::MAX, "FEFFFFFFFFFFFFFFFF01"),
            (i64::MIN, "FFFFFFFFFFFFFFFFFF01"),
        ] {
            let mut out = Vec::new();
            put_varsigned64(&mut out, value);
            assert_eq!(out, hex(text));
            assert_eq!(get_varsigned64(&mut out.as_slice()).unwrap(), value);
        }
    }

    #[test]
    fn fixed_and_slice_vectors() {
        let mut out = Vec::new();
        put_fixed16(&mut out, 0x1234);
        put_fixed32(&mut out, 0x1234_5678);
        put_fixed64(&mut out, 0x1234_5678_9abc_def0);
        put_length_prefixed(&mut out, b"abc");
        put_length_prefixed(&mut out, b"");
        assert_eq!(out, hex("3412 78563412 F0DEBC9A78563412 03616263 00"));
        let mut input = out.as_slice();
        assert_eq!(get_fixed16(&mut input).unwrap(), 0x1234);
        assert_eq!(get_fixed32(&mut input).unwrap(), 0x1234_5678);
        assert_eq!(get_fixed64(&mut input).unwrap(), 0x1234_5678_9abc_def0);
        assert_eq!(get_length_prefixed(&mut input).unwrap(), b"abc");
        assert_eq!(get_length_prefixed(&mut input).unwrap(), b"");
        assert!(input.is_empty());
    }

    #[test]
    fn over_long_varints_are_read_and_bits_that_do_not_fit_are_dropped() {
        let bytes = hex("FFFFFFFF7F");
        assert_eq!(get_varint32(&mut bytes.as_slice()).unwrap(), u32::MAX);
        let bytes = hex("81800055");
        let mut input = bytes.as_slice();
        assert_eq!(get_varint32(&mut input).unwrap(), 1);
        assert_eq!(input, [0x55]);
        let bytes = hex("FFFFFFFFFFFFFFFFFF7F");
        assert_eq!(get_varint64(&mut bytes.as_slice()).unwrap(), u64::MAX);
    }

    #[test]
    fn damaged_input_is_refused_and_left_in_place() {
        for text in ["", "80", "808080808000", "8080808080"] {
            let bytes = hex(text);
            let mut input = bytes.as_slice();
            assert!(get_varint32(&mut input).unwrap_err().is_corruption());
            assert_eq!(input, bytes);
        }
        let bytes = [0x80; 11];
        assert!(get_varint64(&mut bytes.as_slice()).unwrap_err().is_corruption());
        for text in ["03 6162", "FFFFFFFF0F 61", ""] {
            let bytes = hex(text);
            let mut input = bytes.as_slice();
            assert!(get_length_prefixed(&mut input).unwrap_err().is_corruption());
            assert_eq!(input, bytes);
        }
        assert!(get_fixed16(&mut [1u8].as_slice()).is_err());
        assert!(get_fixed32(&mut [1u8; 3].as_slice()).is_err());
        assert!(get_fixed64(&mut [1u8; 7].as_slice()).is_err());
    }

    proptest! {
        #[test]
        fn round_trip(a: u64, b: u32, c: i64, shift in 0u32..64, bytes: Vec<u8>) {
            let mut out = Vec::new();
            put_varint64(&mut out, a >> shift);
            prop_assert_eq!(out.len(), varint_length(a >> shift));
            put_varint32(&mut out, b >> (shift % 32));
            put_varsigned64(&mut out, c >> shift);
            put_length_prefixed(&mut out, &bytes);
            let mut input = out.as_slice();
            prop_assert_eq!(get_varint64(&mut input).unwrap(), a >> shift);
            prop_assert_eq!(get_varint32(&mut input).unwrap(), b >> (shift % 32));
            prop_assert_eq!(get_varsigned64(&mut input).unwrap(), c >> shift);
            prop_assert_eq!(get_length_prefixed(&mut input).unwrap(), &bytes[..]);
            prop_assert!(input.is_empty());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = get_varint32(&mut bytes.as_slice());
            let _ = get_varint64(&mut bytes.as_slice());
            let _ = get_length_prefixed(&mut bytes.as_slice());
        }
    }
}
