//! What the database is meant to hold: ordered maps, and fingerprints of them at every moment.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};

use crate::workload::{FamilyId, Record};

/// One column family.
pub type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// All column families that ever were.
#[derive(Clone, Debug, Default)]
pub struct Model {
    families: BTreeMap<FamilyId, Map>,
}

impl Model {
    /// Applies one record.
    pub fn apply(&mut self, record: &Record) {
        let map = self.families.entry(record.family()).or_default();
        match record {
            Record::Put { key, value, .. } => {
                map.insert(key.clone(), value.clone());
            }
            Record::Delete { key, .. } | Record::SingleDelete { key, .. } => {
                map.remove(key);
            }
            Record::DeleteRange { begin, end, .. } => map.retain(|key, _| key < begin || key >= end),
            Record::Merge { key, operand, .. } => {
                let merged = match map.get(key) {
                    Some(existing) => [existing.as_slice(), b",", operand].concat(),
                    None => operand.clone(),
                };
                map.insert(key.clone(), merged);
            }
            Record::Import { from, family } => {
                let copy = self.family(*from);
                self.families.insert(*family, copy);
            }
        }
    }

    /// A family; empty when nothing was ever written to it.
    pub fn family(&self, family: FamilyId) -> Map {
        self.families.get(&family).cloned().unwrap_or_default()
    }

    /// The fingerprints of all families that were written to.
    pub fn fingerprints(&self) -> BTreeMap<FamilyId, u64> {
        self.families.iter().map(|(family, map)| (*family, fingerprint(map))).collect()
    }
}

/// A number that tells contents apart; entries are added in the order of their keys.
#[derive(Default)]
pub struct Fingerprint(DefaultHasher);

impl Fingerprint {
    /// Adds an entry.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        self.0.write_usize(key.len());
        self.0.write(key);
        self.0.write_usize(value.len());
        self.0.write(value);
    }

    /// The number.
    pub fn finish(&self) -> u64 {
        self.0.finish()
    }
}

/// The fingerprint of a whole family.
pub fn fingerprint(map: &Map) -> u64 {
    let mut fingerprint = Fingerprint::default();
    map.iter().for_each(|(key, value)| fingerprint.add(key, value));
    fingerprint.finish()
}

/// In which keys two families differ, in few words.
pub fn difference(expected: &Map, found: &Map) -> String {
    let show = |value: Option<&Vec<u8>>| match value {
        None => "nothing".to_owned(),
        Some(value) => {
            let head = value.get(..24).unwrap_or(value).escape_ascii().to_string();
            if value.len() > 24 { format!("{head}… ({} bytes)", value.len()) } else { head }
        }
    };
    let keys: std::collections::BTreeSet<&Vec<u8>> = expected.keys().chain(found.keys()).collect();
    let differing = keys.into_iter().filter(|key| expected.get(*key) != found.get(*key));
    let lines: Vec<String> = differing
        .take(6)
        .map(|key| {
            format!("{}: expected {}, found {}", key.escape_ascii(), show(expected.get(key)), show(found.get(key)))
        })
        .collect();
    lines.join("; ")
}
