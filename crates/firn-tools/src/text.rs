//! Keys and values as the dump tools print them.
//!
//! Raw mode prints bytes as a C string, that is up to the first NUL; hex mode prints upper-case digits. Both are what
//! scripts on top of RocksDB's tools expect.

use firn_error::{Error, Result};
use firn_format::key::{InternalKey, ParsedInternalKey, parse_internal_key};

/// Upper-case hexadecimal digits without `0x`.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    out
}

/// Reads hexadecimal digits of either case.
///
/// # Errors
/// `InvalidArgument` when there is an odd number of digits or another character.
pub fn unhex(text: &str) -> Result<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let bytes = text.as_bytes();
    let pairs = bytes.chunks(2).map(|pair| match *pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    });
    pairs.collect::<Option<_>>().ok_or_else(|| Error::invalid_argument(format!("Invalid hex input {text}")))
}

/// Reads `0x` and hexadecimal digits.
///
/// # Errors
/// `InvalidArgument` without the prefix, or when the digits are wrong.
pub fn unhex_prefixed(text: &str) -> Result<Vec<u8>> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => unhex(digits),
        None => Err(Error::invalid_argument(format!("Invalid hex input {text}.  Must start with 0x"))),
    }
}

/// The part of the bytes that C would print: up to the first NUL.
pub fn c_string(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    &bytes[..end]
}

/// `'{user key}' seq:{n}, type:{n}`, raw (NULs included) or hex.
pub fn parsed_key(key: &ParsedInternalKey<'_>, as_hex: bool) -> Vec<u8> {
    let mut out = vec![b'\''];
    if as_hex {
        out.extend_from_slice(hex(key.user_key).as_bytes());
    } else {
        out.extend_from_slice(key.user_key);
    }
    out.extend_from_slice(format!("' seq:{}, type:{}", key.sequence.0, key.value_type as u8).as_bytes());
    out
}

/// [`parsed_key`] of an encoded key, or `(bad){key}` when it is none.
pub fn internal_key(key: &InternalKey, as_hex: bool) -> Vec<u8> {
    match parse_internal_key(key.encoded()) {
        Ok(parsed) => parsed_key(&parsed, as_hex),
        Err(_) => [b"(bad)".to_vec(), if as_hex { hex(key.encoded()).into() } else { key.encoded().to_vec() }].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firn_format::key::{SequenceNumber, ValueType};

    #[test]
    fn hex_both_ways() {
        assert_eq!(hex(b"a\x00\xff"), "6100FF");
        assert_eq!(unhex("6100fF").expect("digits"), b"a\x00\xff");
        assert_eq!(unhex_prefixed("0x61").expect("digits"), b"a");
        for bad in ["6", "0x6", "zz", "é"] {
            assert!(unhex(bad).is_err(), "{bad}");
        }
        let message = unhex_prefixed("61").expect_err("no prefix").message().to_owned();
        assert_eq!(message, "Invalid hex input 61.  Must start with 0x");
    }

    #[test]
    fn keys_print_like_rocksdbs() {
        let key = InternalKey::new(b"k\x00", SequenceNumber(7), ValueType::Value);
        assert_eq!(internal_key(&key, false), b"'k\x00' seq:7, type:1");
        assert_eq!(internal_key(&key, true), b"'6B00' seq:7, type:1");
        assert_eq!(c_string(b"k\x00b"), b"k");
        assert_eq!(c_string(b""), b"");
    }
}
