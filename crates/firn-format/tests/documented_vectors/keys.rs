//! Internal keys and file names (`docs/format/keys.md`, `docs/format/directory.md`), and the protection of entries.

use crate::page::{Kind, Vector, shown};
use firn_format::comparator::{BytewiseComparator, Comparator, InternalKeyComparator, ReverseBytewiseComparator};
use firn_format::key::{self, InternalKey, SequenceNumber, ValueType};
use firn_format::protection::Protection;
use firn_format::{Error, Result, filename};
use std::sync::Arc;

pub(crate) const KINDS: &[Kind] = &[
    ("internal-key", internal_key),
    ("key-order", key_order),
    ("file-name", file_name),
    ("info-log-name", |v| Ok(filename::info_log_prefix(&v.input))),
    ("protection", protection),
];

/// An internal key as pages show it: `"user key" @sequence:type`, the type in hex.
pub(crate) fn shown_key(encoded: &[u8]) -> Result<String> {
    let parsed = key::parse_internal_key(encoded)?;
    let sequence = match parsed.sequence {
        SequenceNumber::MAX => "max".to_owned(),
        SequenceNumber(number) => number.to_string(),
    };
    Ok(format!("{}@{sequence}:{:02x}", shown(parsed.user_key), parsed.value_type as u8))
}

fn internal_key(vector: &Vector) -> Result<String> {
    let bytes = vector.bytes();
    let parsed = key::parse_internal_key(&bytes)?;
    let again = InternalKey::new(parsed.user_key, parsed.sequence, parsed.value_type);
    vector.round_trip(again.encoded())?;
    shown_key(&bytes)
}

/// Two internal keys, `|` between them, and how they compare.
fn key_order(vector: &Vector) -> Result<String> {
    let (first, second) = vector.input.split_once('|').unwrap();
    let user: Arc<dyn Comparator> = match vector.attribute("comparator") {
        Some("rocksdb.ReverseBytewiseComparator") => Arc::new(ReverseBytewiseComparator),
        _ => Arc::new(BytewiseComparator),
    };
    let order = InternalKeyComparator::new(user).compare(&vector.bytes_of(first), &vector.bytes_of(second));
    Ok(format!("{order:?}").to_lowercase())
}

fn file_name(vector: &Vector) -> Result<String> {
    match filename::parse(&vector.input) {
        Some(parsed) => Ok(format!("{:?} {}", parsed.kind, parsed.number)),
        None => Err(Error::corruption("not a file of a database")),
    }
}

/// `type | key | value`, of a column family or at a sequence number.
fn protection(vector: &Vector) -> Result<String> {
    let parts: Vec<Vec<u8>> = vector.input.split('|').map(|part| vector.bytes_of(part)).collect();
    let [value_type, key, value] = parts.as_slice() else { panic!("{}: three parts", vector.place) };
    let plain = Protection::of(ValueType::from_u8(value_type[0]).unwrap(), key, value);
    let number = |name| vector.attribute(name).map(|text| text.parse::<u64>().unwrap());
    let whole = match (number("family"), number("sequence")) {
        (Some(family), None) => plain.toggle_family(family as u32),
        (None, Some(sequence)) => plain.toggle_sequence(SequenceNumber(sequence)),
        _ => plain,
    };
    Ok(format!("{:016x}", whole.0))
}
