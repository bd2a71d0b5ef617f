//! Keys, values and what the database should hold: pure arithmetic and text.
//!
//! A key is a number, a value is a list of ids: one for a put, one more for every merge since. Both directions are here, so
//! that whatever is read tells exactly which writes it comes from. Changes have a text form, which is what journals hold.

use std::collections::BTreeMap;

/// One in so many keys of a thread is put when absent and removed by `single_delete` only, its contract: the last ones of its
/// range.
pub const SINGLE_SHARE: u32 = 16;

/// Bytes of a key that carry its number; the rest only makes lengths differ.
const KEY_NUMBER_BYTES: usize = 4;

/// What separates the parts of a merged value (`stringappend`).
const SEPARATOR: u8 = b',';

/// The contents of one column family: the ids that each key's value is made of, oldest first.
pub type Contents = BTreeMap<u32, Vec<u64>>;

/// The key with this number; numbers and keys have the same order.
pub fn key(number: u32) -> Vec<u8> {
    let mut key = number.to_be_bytes().to_vec();
    key.resize(KEY_NUMBER_BYTES + (number % 8) as usize, b'x');
    key
}

/// The number of a key; `None` for bytes that no key has.
pub fn key_number(bytes: &[u8]) -> Option<u32> {
    let number = u32::from_be_bytes(*bytes.first_chunk::<KEY_NUMBER_BYTES>()?);
    (bytes == key(number)).then_some(number)
}

/// How long the part of a value with this id is.
fn part_bytes(id: u64) -> usize {
    let mixed = id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    8 + match mixed % 1000 {
        0 => 20_000,
        1..10 => 3000,
        10..100 => 300,
        short => (short % 3) as usize * 12,
    }
}

fn pattern(id: u64, at: usize) -> u8 {
    // Half of it compresses.
    if at.is_multiple_of(2) { id as u8 } else { (id.wrapping_mul(31).wrapping_add(at as u64 * 17) >> 3) as u8 }
}

/// The value that a put or merge with this id writes.
pub fn part(id: u64) -> Vec<u8> {
    let mut part = id.to_le_bytes().to_vec();
    part.extend((8..part_bytes(id)).map(|at| pattern(id, at)));
    part
}

/// The value that the writes with these ids leave.
pub fn value(ids: &[u64]) -> Vec<u8> {
    ids.iter().map(|id| part(*id)).collect::<Vec<_>>().join(&SEPARATOR)
}

/// The ids that a value is made of; `None` for bytes that no writes leave.
pub fn ids_of(mut bytes: &[u8]) -> Option<Vec<u64>> {
    let mut ids = Vec::new();
    loop {
        let id = u64::from_le_bytes(*bytes.first_chunk()?);
        let (head, rest) = bytes.split_at_checked(part_bytes(id))?;
        if head != part(id) {
            return None;
        }
        ids.push(id);
        match rest.split_first() {
            None => return Some(ids),
            Some((&SEPARATOR, rest)) => bytes = rest,
            Some(_) => return None,
        }
    }
}

/// One change of one column family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Key and id of the value.
    Put(u32, u64),
    /// Key and id of the operand.
    Merge(u32, u64),
    /// Key.
    Delete(u32),
    /// Key.
    SingleDelete(u32),
    /// First key, and the key behind the last one.
    DeleteRange(u32, u32),
}

impl Change {
    /// Carries the change out; returns the keys whose contents may have changed.
    pub fn apply(&self, contents: &mut Contents) -> Vec<u32> {
        match *self {
            Self::Put(key, id) => {
                contents.insert(key, vec![id]);
                vec![key]
            }
            Self::Merge(key, id) => {
                contents.entry(key).or_default().push(id);
                vec![key]
            }
            Self::Delete(key) | Self::SingleDelete(key) => {
                contents.remove(&key);
                vec![key]
            }
            Self::DeleteRange(from, to) => {
                let keys: Vec<u32> = contents.range(from..to.max(from)).map(|(key, _)| *key).collect();
                for key in &keys {
                    contents.remove(key);
                }
                keys
            }
        }
    }

    fn to_text(&self, family: &str) -> String {
        match self {
            Self::Put(key, id) => format!("p:{family}:{key}:{id}"),
            Self::Merge(key, id) => format!("m:{family}:{key}:{id}"),
            Self::Delete(key) => format!("d:{family}:{key}"),
            Self::SingleDelete(key) => format!("s:{family}:{key}"),
            Self::DeleteRange(from, to) => format!("r:{family}:{from}:{to}"),
        }
    }

    fn from_text(text: &str) -> Option<(String, Self)> {
        let mut fields = text.split(':');
        let (kind, family, key) = (fields.next()?, fields.next()?.to_owned(), fields.next()?.parse().ok()?);
        let mut number = || fields.next()?.parse::<u64>().ok();
        let change = match kind {
            "p" => Self::Put(key, number()?),
            "m" => Self::Merge(key, number()?),
            "d" => Self::Delete(key),
            "s" => Self::SingleDelete(key),
            "r" => Self::DeleteRange(key, u32::try_from(number()?).ok()?),
            _ => return None,
        };
        Some((family, change))
    }
}

/// An operation that changes what the database should hold, or how much of it must survive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// A batch, with the column family of each change.
    Write(Vec<(String, Change)>),
    /// Creates the column family.
    CreateFamily(String),
    /// Drops the column family.
    DropFamily(String),
    /// Once done, everything that was done before it began survives.
    Persist,
}

impl Op {
    /// One line, without its end.
    pub fn to_text(&self) -> String {
        match self {
            Self::Write(changes) => {
                let changes: Vec<String> = changes.iter().map(|(family, change)| change.to_text(family)).collect();
                format!("w {}", changes.join(" "))
            }
            Self::CreateFamily(name) => format!("c {name}"),
            Self::DropFamily(name) => format!("x {name}"),
            Self::Persist => "f".to_owned(),
        }
    }

    /// Reads what [`to_text`](Self::to_text) wrote.
    pub fn from_text(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(' ').unwrap_or((text, ""));
        match kind {
            "w" => rest.split(' ').map(Change::from_text).collect::<Option<_>>().map(Self::Write),
            "c" => Some(Self::CreateFamily(rest.to_owned())),
            "x" => Some(Self::DropFamily(rest.to_owned())),
            "f" => Some(Self::Persist),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_the_order_of_their_numbers() {
        for number in 0..2000 {
            assert!(key(number) < key(number + 1));
            assert_eq!(key_number(&key(number)), Some(number));
        }
        assert_eq!(key_number(b"12345678901x"), None);
        assert_eq!(key_number(&key(3)[..5]), None);
    }

    #[test]
    fn values_tell_the_writes_they_come_from() {
        for ids in [vec![7], vec![1, 2, 3], (0..40).map(|n| n << 32 | 5).collect()] {
            assert_eq!(ids_of(&value(&ids)), Some(ids.clone()));
            let mut damaged = value(&ids);
            *damaged.last_mut().expect("not empty") ^= 1;
            assert_ne!(ids_of(&damaged), Some(ids));
        }
        assert_eq!(ids_of(b""), None);
        assert_eq!(ids_of(&value(&[1, 2])[..60.min(value(&[1, 2]).len() - 1)]), None);
    }

    #[test]
    fn operations_survive_their_text() {
        let changes = [
            Change::Put(1, 2),
            Change::Merge(3, 4 << 32),
            Change::Delete(5),
            Change::SingleDelete(6),
            Change::DeleteRange(7, 9),
        ];
        let write = Op::Write(changes.into_iter().map(|change| ("default".to_owned(), change)).collect());
        for op in [write, Op::CreateFamily("a".to_owned()), Op::DropFamily("a".to_owned()), Op::Persist] {
            assert_eq!(Op::from_text(&op.to_text()), Some(op));
        }
        assert_eq!(Op::from_text("w p:default:1"), None);
    }
}
