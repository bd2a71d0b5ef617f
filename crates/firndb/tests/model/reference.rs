//! The model: what the public API means, over ordered maps.
//!
//! A family is a map of what is visible now; merges are applied at once, range deletions remove at once. A view is a cheap copy
//! of all families, as a snapshot or an iterator sees it.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::Entries;
use firn_check::recipe::Merge;

/// One change of one family.
#[derive(Clone, Debug)]
pub enum Change {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    SingleDelete(Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
    Merge(Vec<u8>, Vec<u8>),
}

pub type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// One column family.
#[derive(Clone, Debug)]
pub struct Family {
    pub map: Arc<Map>,
    pub merge: Merge,
    pub reversed: bool,
}

impl Family {
    pub fn new(merge: Merge, reversed: bool) -> Self {
        Self { map: Arc::default(), merge, reversed }
    }

    /// The order of keys.
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        if self.reversed { b.cmp(a) } else { a.cmp(b) }
    }

    pub fn apply(&mut self, change: &Change) {
        let (merge, reversed) = (self.merge, self.reversed);
        let map = Arc::make_mut(&mut self.map);
        match change {
            Change::Put(key, value) => {
                map.insert(key.clone(), value.clone());
            }
            Change::Delete(key) | Change::SingleDelete(key) => {
                map.remove(key);
            }
            Change::DeleteRange(begin, end) => {
                map.retain(|key, _| {
                    let inside = if reversed { key <= begin && key > end } else { key >= begin && key < end };
                    !inside
                });
            }
            Change::Merge(key, operand) => {
                let merged = merge.apply(map.get(key).map(Vec::as_slice), operand);
                map.insert(key.clone(), merged);
            }
        }
    }

    /// The entries in iterator order.
    pub fn entries(&self) -> Entries {
        let copy = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), value.clone());
        if self.reversed { self.map.iter().rev().map(copy).collect() } else { self.map.iter().map(copy).collect() }
    }
}

/// All families at one moment.
pub type View = BTreeMap<String, Family>;
