//! Identities of tables: session ids, unique ids and the base of block cache keys.
//!
//! A table is identified by the database that created it, the session (one opening of a database) and its file number at
//! creation. From these three come a 192-bit *internal* unique id, which the MANIFEST keeps, the *public* id that tools
//! print, and the block cache key of every block of the file. All are pure functions of their inputs.

use crate::varint::{get_fixed64, put_fixed64};
use crate::{Error, Result};
use std::fmt;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// Characters of the last part of a session id.
const LOW_DIGITS: usize = 12;
/// Characters of the first part of a session id, as written.
const HIGH_DIGITS: usize = 8;
const LOW_62_BITS: u64 = u64::MAX >> 2;
const PUBLIC_OFFSET_LOW: u64 = 6_417_269_962_128_484_497;
const PUBLIC_OFFSET_HIGH: u64 = 17_391_078_804_906_429_400;

/// The two halves (high, low) of XXH3-128.
fn hash128(data: &[u8], seed: u64) -> (u64, u64) {
    let hash = xxh3_128_with_seed(data, seed);
    ((hash >> 64) as u64, hash as u64)
}

/// The 20 characters of the session id with these words; the low word is kept whole, the high word loses its top bits.
pub fn encode_session_id(high: u64, low: u64) -> String {
    let mut text = [b'0'; HIGH_DIGITS + LOW_DIGITS];
    let mut write = |range: std::ops::Range<usize>, mut value: u64| {
        for digit in text[range].iter_mut().rev() {
            *digit = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[(value % 36) as usize];
            value /= 36;
        }
    };
    write(0..HIGH_DIGITS, (high << 2) | (low >> 62));
    write(HIGH_DIGITS..HIGH_DIGITS + LOW_DIGITS, low & LOW_62_BITS);
    text.iter().map(|&byte| char::from(byte)).collect()
}

/// The words (high, low) of a session id.
///
/// # Errors
/// `NotSupported` when the text is not 13 to 24 base-36 digits.
pub fn decode_session_id(text: &str) -> Result<(u64, u64)> {
    let bytes = text.as_bytes();
    if bytes.is_empty() {
        return Err(Error::not_supported("Missing db_session_id"));
    }
    if bytes.len() <= LOW_DIGITS {
        return Err(Error::not_supported("Too short db_session_id"));
    }
    if bytes.len() > 24 {
        return Err(Error::not_supported("Too long db_session_id"));
    }
    let read = |digits: &[u8]| {
        digits.iter().try_fold(0u64, |value, &byte| {
            let digit =
                char::from(byte).to_digit(36).ok_or_else(|| Error::not_supported("Bad digit in db_session_id"))?;
            Ok::<_, Error>(value.wrapping_mul(36).wrapping_add(u64::from(digit)))
        })
    };
    let (head, tail) = bytes.split_at(bytes.len() - LOW_DIGITS);
    let (a, b) = (read(head)?, read(tail)?);
    Ok((a >> 2, (b & LOW_62_BITS) | (a << 62)))
}

/// The words of a session id, or words hashed from its text when it does not decode.
fn session_words(session_id: &str) -> (u64, u64) {
    decode_session_id(session_id).unwrap_or_else(|_| {
        let (high, low) = hash128(session_id.as_bytes(), 0);
        (high, if low == 0 { high | 1 } else { low })
    })
}

/// The internal unique id of a table: what the MANIFEST stores (its first 128 bits).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct InternalUniqueId(pub [u64; 3]);

/// The public unique id of a table: what the API returns and tools print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PublicUniqueId(pub [u64; 3]);

impl InternalUniqueId {
    /// Bytes of the id in the MANIFEST.
    pub const ENCODED_BYTES: usize = 16;
    /// No id: a file older than unique ids.
    pub const NULL: Self = Self([0; 3]);

    /// The id of the table that session `session_id` of database `db_id` created as file `number`.
    ///
    /// # Errors
    /// `NotSupported` when a part is missing or the session id does not decode.
    pub fn new(db_id: &str, session_id: &str, number: u64) -> Result<Self> {
        if db_id.is_empty() {
            return Err(Error::not_supported("Missing db_id"));
        }
        if number == 0 {
            return Err(Error::not_supported("Missing or bad file number"));
        }
        let words = decode_session_id(session_id)?;
        Ok(Self::from_words(db_id, words, number))
    }

    /// The id that a table is compared by with the MANIFEST: every input has one.
    pub fn for_verification(db_id: &str, session_id: &str, number: u64) -> Self {
        Self::from_words(db_id, session_words(session_id), number)
    }

    fn from_words(db_id: &str, (high, low): (u64, u64), number: u64) -> Self {
        let (x, y) = hash128(db_id.as_bytes(), high);
        Self([low, x ^ number, y])
    }

    /// Whether the 128 bits that the MANIFEST keeps say "no id".
    pub fn is_null(&self) -> bool {
        self.0[0] == 0 && self.0[1] == 0
    }

    /// Whether the 128 bits that the MANIFEST keeps are the same.
    pub fn matches(&self, other: &Self) -> bool {
        self.0[..2] == other.0[..2]
    }

    /// Appends the 16 bytes that the MANIFEST keeps.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_fixed64(out, self.0[0]);
        put_fixed64(out, self.0[1]);
    }

    /// Reads the 16 bytes that the MANIFEST keeps; the third word becomes 0.
    ///
    /// # Errors
    /// Corruption when `bytes` has another length.
    pub fn decode(mut bytes: &[u8]) -> Result<Self> {
        if bytes.len() != Self::ENCODED_BYTES {
            return Err(Error::corruption("invalid unique id"));
        }
        Ok(Self([get_fixed64(&mut bytes)?, get_fixed64(&mut bytes)?, 0]))
    }

    /// The public form. The map of the first 128 bits is a bijection.
    pub fn to_public(self) -> PublicUniqueId {
        let mut bytes = Vec::with_capacity(16);
        put_fixed64(&mut bytes, self.0[0].wrapping_add(PUBLIC_OFFSET_LOW));
        put_fixed64(&mut bytes, self.0[1].wrapping_add(PUBLIC_OFFSET_HIGH));
        let (high, low) = hash128(&bytes, 0);
        PublicUniqueId([low, high, self.0[2].wrapping_add(low).wrapping_add(high)])
    }
}

/// Prints `{w0,w1}` in decimal, as the MANIFEST dump does.
impl fmt::Display for InternalUniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{},{}}}", self.0[0], self.0[1])
    }
}

impl PublicUniqueId {
    /// The 24 bytes of the extended id; the first 16 are the short one.
    pub fn to_bytes(self) -> [u8; 24] {
        let mut bytes = [0; 24];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(self.0) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The 192-bit text: three groups of 16 upper-case digits.
    pub fn extended_text(&self) -> String {
        hex_groups(&self.to_bytes())
    }
}

/// Prints the 128-bit text: two groups of 16 upper-case digits.
impl fmt::Display for PublicUniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex_groups(&self.to_bytes()[..16]))
    }
}

fn hex_groups(bytes: &[u8]) -> String {
    let groups: Vec<String> =
        bytes.chunks(8).map(|group| group.iter().map(|byte| format!("{byte:02X}")).collect()).collect();
    groups.join("-")
}

/// The base of the block cache keys of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheKeyBase {
    /// The first word, shared by all blocks of the file.
    pub file: u64,
    /// The second word before the offset is mixed in.
    pub offset_base: u64,
}

impl CacheKeyBase {
    /// The base for the file that session `session_id` of database `db_id` created as `number`.
    ///
    /// For a table the three come from its properties, so that the keys survive reopening, copying and ingestion; a table
    /// without them uses the database id `unknown`, the current session and the current number.
    pub fn new(db_id: &str, session_id: &str, number: u64) -> Self {
        let (high, low) = session_words(session_id);
        let (a, _) = hash128(db_id.as_bytes(), high);
        Self::from_words(low, a ^ number)
    }

    /// The base for the table with this unique id.
    pub fn from_unique_id(id: &InternalUniqueId) -> Self {
        Self::from_words(id.0[0], id.0[1])
    }

    fn from_words(low: u64, n: u64) -> Self {
        let low = if low == 0 { n } else { low };
        let (file, offset_base) = (downward_involution(low) ^ n.reverse_bits(), low.reverse_bits());
        if file == 0 { Self { file: offset_base, offset_base: file } } else { Self { file, offset_base } }
    }

    /// The key of the block at byte `offset` of a table.
    #[inline]
    pub const fn block_key(&self, offset: u64) -> (u64, u64) {
        (self.file, self.offset_base ^ (offset >> 2))
    }

    /// The key of the value at byte `offset` of a blob file.
    pub const fn blob_value_key(&self, offset: u64) -> (u64, u64) {
        (self.file, self.offset_base ^ offset)
    }
}

const fn downward_involution(mut r: u64) -> u64 {
    r ^= r >> 32;
    r ^= (r & 0xffff_0000_ffff_0000) >> 16;
    r ^= (r & 0xff00_ff00_ff00_ff00) >> 8;
    r ^= (r & 0xf0f0_f0f0_f0f0_f0f0) >> 4;
    r ^= (r & 0xcccc_cccc_cccc_cccc) >> 2;
    r ^= (r & 0xaaaa_aaaa_aaaa_aaaa) >> 1;
    r
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DB: &str = "d7718af5-36e6-480e-a8d8-21fb57145bd5";
    const SESSION: &str = "7N59FC7GEEIITJKV92Y4";

    #[test]
    fn cache_key_vectors() {
        for (db, session, number, file, offset_base) in [
            (DB, SESSION, 1, 0x8a10_049c_c4ca_e401, 0x346c_d081_e784_f258),
            (DB, SESSION, 2, 0x4a10_049c_c4ca_e401, 0x346c_d081_e784_f258),
            (DB, SESSION, 1_234_567, 0xeb7b_4c9c_c4ca_e401, 0x346c_d081_e784_f258),
            ("SST Writer", SESSION, 1, 0x332d_0c1b_9efa_a80d, 0x346c_d081_e784_f258),
            ("", SESSION, 1, 0x9504_6b1c_e706_2ff6, 0x346c_d081_e784_f258),
            ("", "not-a-session", 5, 0xa44d_e5b0_dbad_29e9, 0x01d2_e3e0_746c_525f),
        ] {
            assert_eq!(CacheKeyBase::new(db, session, number), CacheKeyBase { file, offset_base }, "{db} {session}");
        }
        let id = InternalUniqueId::new(DB, SESSION, 1).unwrap();
        let base = CacheKeyBase::from_unique_id(&id);
        assert_eq!(base, CacheKeyBase::new(DB, SESSION, 1));
        assert_eq!(base.block_key(8), (base.file, base.offset_base ^ 2));
    }

    #[test]
    fn hash_vectors() {
        assert_eq!(hash128(b"SST Writer", 0), (0x9689_2f69_d34f_0dfb, 0x61bd_316d_2db1_367c));
        assert_eq!(hash128(b"SST Writer", 0x1_2345_6789), (0x8f36_a364_4ff7_6463, 0x0ca8_5e97_b572_c53b));
        assert_eq!(hash128(b"", 0), (0x99aa_06d3_0147_98d8, 0x6001_c324_468d_497f));
    }

    #[test]
    fn public_form_vectors() {
        let id = InternalUniqueId([18_384_897_573_380_234_408, 9_211_316_900_621_391_948, 0]);
        assert_eq!(id.to_string(), "{18384897573380234408,9211316900621391948}");
        assert_eq!(id.to_public().to_string(), "E949F8847BB714AC-5584DFA6BD2CEFEE");
        assert_eq!(InternalUniqueId::NULL.to_public().0[..2], [0, 0]);
    }

    #[test]
    fn missing_parts_have_no_id() {
        assert!(InternalUniqueId::new("", SESSION, 1).is_err());
        assert!(InternalUniqueId::new(DB, SESSION, 0).is_err());
        for session in ["", "123456789012", "1234567890123456789012345", "7N59FC7GEEIITJKV92Y-"] {
            assert!(InternalUniqueId::new(DB, session, 1).is_err(), "{session}");
        }
        assert!(!InternalUniqueId::for_verification("", "", 1).is_null());
        assert!(InternalUniqueId::decode(&[0; 15]).unwrap_err().is_corruption());
    }

    proptest! {
        #[test]
        fn session_ids_keep_the_low_word(high: u64, low: u64) {
            let text = encode_session_id(high, low);
            prop_assert_eq!(text.len(), 20);
            let (decoded_high, decoded_low) = decode_session_id(&text).unwrap();
            // 36^8 is a multiple of four, so cutting the first part to eight digits keeps its two bits of the low word.
            prop_assert_eq!(decoded_low, low);
            prop_assert_eq!(decode_session_id(&text.to_lowercase()).unwrap(), (decoded_high, decoded_low));
            prop_assert_eq!(encode_session_id(decoded_high, decoded_low), text);
        }

        #[test]
        fn manifest_form_round_trips(a: u64, b: u64) {
            let mut bytes = Vec::new();
            InternalUniqueId([a, b, 7]).encode(&mut bytes);
            prop_assert_eq!(InternalUniqueId::decode(&bytes).unwrap(), InternalUniqueId([a, b, 0]));
        }
    }
}
