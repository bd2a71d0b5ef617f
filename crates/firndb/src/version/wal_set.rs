//! The WALs that a MANIFEST tracks, with what is known to be synced of them.

use std::collections::BTreeMap;

use firn_error::{Error, Result};
use firn_format::key::FileNumber;
use firn_format::version_edit::WalAddition;

/// Tracked WALs by number, each with its synced size in bytes where known.
///
/// Numbers below the floor are gone for good: additions of them are ignored, since an edit that tells of a sync may come
/// after the one that tells of the deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalSet {
    wals: BTreeMap<FileNumber, Option<u64>>,
    floor: FileNumber,
}

impl WalSet {
    /// Notes that a WAL was created or synced.
    ///
    /// # Errors
    /// `Corruption` if a WAL is created twice.
    pub fn add(&mut self, addition: &WalAddition) -> Result<()> {
        let number = addition.number;
        if number < self.floor {
            return Ok(());
        }
        match (self.wals.get_mut(&number), addition.synced_size_bytes) {
            (None, size) => {
                self.wals.insert(number, size);
            }
            (Some(_), None) => {
                return Err(Error::corruption(format!("WalSet::AddWal: WAL {number} is created more than once")));
            }
            (Some(known), Some(size)) => {
                if known.is_none_or(|known| known < size) {
                    *known = Some(size);
                }
            }
        }
        Ok(())
    }

    /// Forgets all WALs with smaller numbers.
    pub fn delete_below(&mut self, number: FileNumber) {
        if number > self.floor {
            self.floor = number;
            self.wals = self.wals.split_off(&number);
        }
    }

    /// Whether no WAL is tracked.
    pub fn is_empty(&self) -> bool {
        self.wals.is_empty()
    }

    /// The greatest tracked number.
    pub fn last_number(&self) -> Option<FileNumber> {
        self.wals.keys().next_back().copied()
    }

    /// The tracked WALs, ascending.
    pub fn iter(&self) -> impl Iterator<Item = WalAddition> + '_ {
        self.wals.iter().map(|(number, size)| WalAddition { number: *number, synced_size_bytes: *size })
    }

    /// Compares with what is on disk: `size_of` tells the size in bytes of a WAL, `None` if it is missing.
    ///
    /// # Errors
    /// `Corruption` if a WAL with a known synced size is missing or shorter.
    pub fn check(&self, mut size_of: impl FnMut(FileNumber) -> Option<u64>) -> Result<()> {
        for (number, synced) in self.wals.iter().filter_map(|(number, size)| size.map(|size| (*number, size))) {
            match size_of(number) {
                None => return Err(Error::corruption(format!("Missing WAL with log number: {number}."))),
                Some(actual) if actual < synced => {
                    return Err(Error::corruption(format!(
                        "Size mismatch: WAL (log number: {number}) in MANIFEST is {synced} bytes , \
                         but actually is {actual} bytes on disk."
                    )));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addition(number: u64, synced_size_bytes: Option<u64>) -> WalAddition {
        WalAddition { number: FileNumber(number), synced_size_bytes }
    }

    #[test]
    fn sizes_grow_and_deleted_wals_stay_away() {
        let mut set = WalSet::default();
        set.add(&addition(4, None)).unwrap();
        set.add(&addition(4, Some(100))).unwrap();
        set.add(&addition(4, Some(50))).unwrap();
        assert_eq!(set.iter().collect::<Vec<_>>(), [addition(4, Some(100))]);
        assert!(set.add(&addition(4, None)).unwrap_err().is_corruption());
        set.delete_below(FileNumber(5));
        set.add(&addition(4, Some(200))).unwrap();
        assert!(set.is_empty());
    }

    #[test]
    fn missing_and_short_wals_are_found() {
        let mut set = WalSet::default();
        set.add(&addition(4, None)).unwrap();
        set.add(&addition(5, Some(10))).unwrap();
        assert!(set.check(|number| (number.0 == 5).then_some(10)).is_ok());
        assert!(set.check(|_| None).unwrap_err().message().contains("Missing WAL with log number: 5."));
        assert!(set.check(|_| Some(9)).unwrap_err().message().contains("is 10 bytes , but actually is 9 bytes"));
    }
}
