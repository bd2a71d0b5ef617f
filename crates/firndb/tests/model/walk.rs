//! A cursor beside the list of entries that it must show: every step is compared.

use firndb::Cursor;
use rand::Rng;
use rand::rngs::StdRng;

use super::reference::Family;
use crate::common::Entries;

/// A cursor, the entries it must show in its order, and where it must stand.
pub struct Walk {
    cursor: Cursor,
    entries: Entries,
    order: Family,
    at: Option<usize>,
}

impl Walk {
    pub fn new(cursor: Cursor, entries: Entries, order: Family) -> Self {
        Self { cursor, entries, order, at: None }
    }

    fn first_at_or_after(&self, key: &[u8]) -> Option<usize> {
        let index = self.entries.partition_point(|(k, _)| self.order.compare(k, key).is_lt());
        (index < self.entries.len()).then_some(index)
    }

    fn last_at_or_before(&self, key: &[u8]) -> Option<usize> {
        self.entries.partition_point(|(k, _)| self.order.compare(k, key).is_le()).checked_sub(1)
    }

    /// A random walk; `key` draws targets.
    pub fn steps(
        &mut self,
        rng: &mut StdRng,
        count: usize,
        mut key: impl FnMut(&mut StdRng) -> Vec<u8>,
    ) -> Result<(), String> {
        for _ in 0..count {
            let what = self.step(rng, &mut key);
            self.compare().map_err(|text| format!("after {what}: {text}"))?;
        }
        Ok(())
    }

    fn step(&mut self, rng: &mut StdRng, key: &mut impl FnMut(&mut StdRng) -> Vec<u8>) -> String {
        match (rng.random_range(0..12), self.at) {
            (0, _) => {
                self.cursor.seek_to_first();
                self.at = (!self.entries.is_empty()).then_some(0);
                "seek_to_first".to_owned()
            }
            (1, _) => {
                self.cursor.seek_to_last();
                self.at = self.entries.len().checked_sub(1);
                "seek_to_last".to_owned()
            }
            (2..=5, Some(at)) => {
                self.cursor.next();
                self.at = (at + 1 < self.entries.len()).then_some(at + 1);
                format!("next from entry {at}")
            }
            (6..=9, Some(at)) => {
                self.cursor.prev();
                self.at = at.checked_sub(1);
                format!("prev from entry {at}")
            }
            (10, _) => {
                let target = key(rng);
                self.cursor.seek_for_prev(&target);
                self.at = self.last_at_or_before(&target);
                format!("seek_for_prev {:?}", target.escape_ascii().to_string())
            }
            _ => {
                let target = key(rng);
                self.cursor.seek(&target);
                self.at = self.first_at_or_after(&target);
                format!("seek {:?}", target.escape_ascii().to_string())
            }
        }
    }

    fn compare(&self) -> Result<(), String> {
        self.cursor.status().map_err(|error| format!("status {error}"))?;
        let wanted = self.at.and_then(|at| self.entries.get(at));
        let got = self.cursor.valid().then(|| (self.cursor.key(), self.cursor.value()));
        match (got, wanted) {
            (None, None) => Ok(()),
            (Some((key, value)), Some((k, v))) if key == k.as_slice() && value == v.as_slice() => Ok(()),
            (Some((key, _)), Some((k, _))) if key == k.as_slice() => {
                Err(format!("key {:?} has a wrong value", key.escape_ascii().to_string()))
            }
            (got, wanted) => Err(format!(
                "stands at {:?} instead of {:?}",
                got.map(|(key, _)| key.escape_ascii().to_string()),
                wanted.map(|(key, _)| key.escape_ascii().to_string())
            )),
        }
    }
}
