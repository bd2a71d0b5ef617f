//! Integers, checksums and hashes (`docs/format/README.md`).

use crate::page::{Kind, Vector, hex, shown};
use firn_format::checksum::{self, ChecksumType};
use firn_format::{Error, Result, hash, unique_id, varint};

pub(crate) const KINDS: &[Kind] = &[
    ("fixed16", |v| integer(v, |i| varint::get_fixed16(i).map(u64::from), |o, n| varint::put_fixed16(o, n as u16))),
    ("fixed32", |v| integer(v, |i| varint::get_fixed32(i).map(u64::from), |o, n| varint::put_fixed32(o, n as u32))),
    ("fixed64", |v| integer(v, varint::get_fixed64, varint::put_fixed64)),
    ("varint32", |v| integer(v, |i| varint::get_varint32(i).map(u64::from), |o, n| varint::put_varint32(o, n as u32))),
    ("varint64", |v| integer(v, varint::get_varint64, varint::put_varint64)),
    ("varsigned64", |v| integer(v, varint::get_varsigned64, varint::put_varsigned64)),
    ("slice", slice),
    ("crc32c", crc32c),
    ("checksum", block_checksum),
    ("hash32", hash32),
    ("murmur64a", |v| Ok(format!("{:016x}", hash::murmur64a(&v.bytes(), number(v, "seed") as u32)))),
    ("xxph3", |v| Ok(format!("{:016x}", hash::xxph3_64_with_seed(&v.bytes(), number(v, "seed"))))),
    ("xxh3-64", |v| Ok(format!("{:016x}", hash::xxh3_64_with_seed(&v.bytes(), number(v, "seed"))))),
    ("xxh3-128", xxh3_128),
    ("session-id", session_id),
    ("unique-id", table_unique_id),
];

/// A numeric attribute of the block; 0 when it is absent.
fn number(vector: &Vector, name: &str) -> u64 {
    vector.attribute(name).map_or(0, |text| text.parse().unwrap())
}

/// An integer with nothing behind it, read and written again.
fn integer<T: std::fmt::Display>(
    vector: &Vector,
    read: impl Fn(&mut &[u8]) -> Result<T>,
    write: impl Fn(&mut Vec<u8>, T),
) -> Result<String> {
    let bytes = vector.bytes();
    let mut rest = bytes.as_slice();
    let value = read(&mut rest)?;
    if !rest.is_empty() {
        return Err(Error::corruption(format!("{} bytes are left", rest.len())));
    }
    let text = value.to_string();
    let mut encoded = Vec::new();
    write(&mut encoded, value);
    vector.round_trip(&encoded)?;
    Ok(text)
}

fn slice(vector: &Vector) -> Result<String> {
    let bytes = vector.bytes();
    let mut rest = bytes.as_slice();
    let value = varint::get_length_prefixed(&mut rest)?;
    let mut encoded = Vec::new();
    varint::put_length_prefixed(&mut encoded, value);
    encoded.extend_from_slice(rest);
    vector.round_trip(&encoded)?;
    Ok(format!("{}, {} left", shown(value), rest.len()))
}

/// The CRC as a number, and the bytes that stand in a file.
fn crc32c(vector: &Vector) -> Result<String> {
    let crc = checksum::crc32c(&vector.bytes());
    let masked = checksum::mask_crc32c(crc);
    assert_eq!(checksum::unmask_crc32c(masked), crc);
    Ok(format!("{crc:08x} stored {}", hex(&masked.to_le_bytes())))
}

/// The four bytes after a block, for every algorithm that is not "none".
fn block_checksum(vector: &Vector) -> Result<String> {
    let modifier = checksum::context_modifier(number(vector, "base") as u32, number(vector, "offset"));
    let words = ChecksumType::ALL.iter().skip(1).map(|kind| {
        let word = checksum::compute(*kind, &vector.bytes()).wrapping_add(modifier);
        format!("{} {}", *kind as u8, hex(&word.to_le_bytes()))
    });
    Ok(words.collect::<Vec<_>>().join(", "))
}

fn hash32(vector: &Vector) -> Result<String> {
    let seed = u32::from_str_radix(vector.attribute("seed").unwrap(), 16).unwrap();
    Ok(format!("{:08x}", hash::hash32(&vector.bytes(), seed)))
}

fn xxh3_128(vector: &Vector) -> Result<String> {
    let (high, low) = hash::xxh3_128(&vector.bytes(), number(vector, "seed"));
    Ok(format!("{high:016x} {low:016x}"))
}

fn session_id(vector: &Vector) -> Result<String> {
    let (high, low) = unique_id::decode_session_id(&vector.input)?;
    if !vector.is_read_only() {
        assert_eq!(unique_id::encode_session_id(high, low), vector.input, "{}", vector.place);
    }
    Ok(format!("{high:016x} {low:016x}"))
}

/// `database id, session id, file number` to the bytes in a MANIFEST and the public id.
fn table_unique_id(vector: &Vector) -> Result<String> {
    let parts: Vec<&str> = vector.input.split(", ").collect();
    let [db_id, session_id, number] = parts.as_slice() else { panic!("{}: three parts", vector.place) };
    let id = unique_id::InternalUniqueId::new(db_id, session_id, number.parse().unwrap())?;
    let mut stored = Vec::new();
    id.encode(&mut stored);
    Ok(format!("{} public {}", hex(&stored), hex(&id.to_public().to_bytes())))
}
