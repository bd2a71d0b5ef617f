//! What a memtable checks when its entries are read: that memory still holds what was written.
//!
//! Both checks are off by default and then cost readers one branch. Always true here: an entry that fails a check is not
//! handed out; the reader gets `Corruption`.

use std::cmp::Ordering;

use firn_error::{Error, Result};
use firn_format::comparator::InternalKeyComparator;
use firn_format::key::{extract_user_key, parse_internal_key};
use firn_format::protection::Protection;

use super::entry::Entry;

/// Which checks are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EntryChecks {
    /// Bytes of protection behind each entry: 0, 1, 2, 4 or 8.
    pub(super) protection_bytes: usize,
    /// Compare every key with the one that was read before it.
    pub(super) key_order: bool,
}

/// Which way a reader goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Up,
    Down,
}

impl EntryChecks {
    /// Whether any check is on.
    #[inline]
    pub(super) fn any(self) -> bool {
        self.protection_bytes > 0 || self.key_order
    }

    /// Checks `entry`, which a reader reached from `from`, an internal key, going in `direction`. The keys may be equal:
    /// a search may end at what it looked for.
    ///
    /// # Errors
    /// `Corruption` naming what is wrong.
    ///
    /// # Safety
    /// The arena of the entry must be alive, and its entries have `protection_bytes`.
    pub(super) unsafe fn check(
        self,
        order: &InternalKeyComparator,
        entry: Entry,
        from: Option<(&[u8], Direction)>,
    ) -> Result<()> {
        // SAFETY: the arena is alive (contract).
        let (ikey, value) = unsafe { entry.key_and_value() };
        if self.protection_bytes > 0 {
            // SAFETY: as above; so many bytes follow the value (contract).
            let kept = unsafe { entry.protection(self.protection_bytes) };
            verify(ikey, value, kept)?;
        }
        match from {
            Some((from, direction)) if self.key_order => {
                let wrong = if direction == Direction::Up { Ordering::Less } else { Ordering::Greater };
                if order.compare(ikey, from) == wrong {
                    return Err(Error::corruption("Out-of-order keys found in skiplist."));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Compares an entry with the bytes kept of its protection.
pub(super) fn verify(ikey: &[u8], value: &[u8], kept: &[u8]) -> Result<()> {
    let parsed = parse_internal_key(ikey)?;
    let actual = Protection::of(parsed.value_type, extract_user_key(ikey), value).toggle_sequence(parsed.sequence);
    if actual.matches(kept) {
        return Ok(());
    }
    Err(mismatch())
}

/// An entry is not what it was when its protection was made.
#[cold]
pub(super) fn mismatch() -> Error {
    Error::corruption("ProtectionInfo mismatch")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use firn_format::iterator::InternalIterator;
    use firn_format::key::{InternalKey, ParsedInternalKey, SequenceNumber, ValueType};
    use firn_table::{GetControl, GetSink, ValueRef};

    use super::super::{Ahead, MemTable, MemTableConfig};
    use super::*;

    fn memtable(protection_bytes: usize, check_key_order: bool) -> Arc<MemTable> {
        let config = MemTableConfig { protection_bytes, check_key_order, ..MemTableConfig::new(1 << 20) };
        let memtable = MemTable::new(InternalKeyComparator::default(), &config, SequenceNumber::ZERO, 1);
        for (at, key) in ["a", "b", "c", "d"].iter().enumerate() {
            let sequence = SequenceNumber(at as u64 + 1);
            memtable.add(sequence, ValueType::Value, key.as_bytes(), b"value").unwrap();
        }
        Arc::new(memtable)
    }

    fn lookup(key: &str) -> InternalKey {
        InternalKey::for_seek(key.as_bytes(), SequenceNumber::MAX)
    }

    /// Writes `byte` over the one at `offset` of the user key (or, behind it, the footer and the value) of `key`.
    fn damage(memtable: &MemTable, key: &str, offset: usize, byte: u8) {
        let entry = memtable.index.seek(lookup(key).encoded(), Ahead::Nothing).unwrap().entry();
        // SAFETY: the arena is alive, nobody else looks at it, and the byte lies within the entry. It is reached from the
        // address of the entry, since what a shared slice points to must not be written.
        unsafe {
            let key_start = entry.ikey().as_ptr().addr() - entry.address().addr();
            entry.address().add(key_start + offset).write(byte);
        }
    }

    /// What a lookup and scans from both ends say.
    fn outcomes(memtable: &Arc<MemTable>, key: &str) -> [Result<()>; 3] {
        struct Any;
        impl GetSink for Any {
            fn accept(&mut self, _: ParsedInternalKey<'_>, _: ValueRef<'_>) -> GetControl {
                GetControl::Continue
            }
        }
        let got = memtable.get(lookup(key).encoded(), &mut Any);
        let mut cursor = memtable.iter();
        cursor.seek_to_first();
        while cursor.valid() {
            cursor.next();
        }
        let forward = cursor.status();
        cursor.seek_to_last();
        while cursor.valid() {
            cursor.prev();
        }
        [got, forward, cursor.status()]
    }

    #[test]
    fn values_that_change_are_found_with_protection() {
        for bytes in [0, 1, 2, 4, 8] {
            let memtable = memtable(bytes, false);
            assert!(outcomes(&memtable, "c").iter().all(Result::is_ok));
            damage(&memtable, "c", 1 + 8 + 1, b'V'); // behind the footer and the length of the value
            for outcome in outcomes(&memtable, "c") {
                assert_eq!(outcome.is_err(), bytes > 0, "{bytes} bytes of protection");
            }
            assert!(outcomes(&memtable, "a")[0].is_ok(), "other entries can be read");
        }
    }

    #[test]
    fn keys_out_of_order_are_found() {
        for check in [false, true] {
            let memtable = memtable(0, check);
            damage(&memtable, "c", 0, b'A');
            let [_, forward, backward] = outcomes(&memtable, "c");
            for outcome in [forward, backward] {
                assert_eq!(outcome.is_err(), check);
            }
        }
    }

    #[test]
    fn a_scan_goes_on_after_damage_with_a_new_seek() {
        let memtable = memtable(8, true);
        damage(&memtable, "b", 1 + 8 + 1, b'V');
        let mut cursor = memtable.iter();
        cursor.seek(lookup("b").encoded());
        assert!(!cursor.valid() && cursor.status().is_err());
        cursor.seek(lookup("c").encoded());
        assert!(cursor.valid() && cursor.status().is_ok());
    }

    #[test]
    fn entries_that_are_not_what_was_protected_do_not_get_in() {
        for bytes in [0, 4] {
            let memtable = memtable(bytes, false);
            let sequence = SequenceNumber(9);
            let protection = Protection::of(ValueType::Value, b"k", b"v").toggle_sequence(sequence);
            for (value_type, key, value, sequence) in [
                (ValueType::Value, &b"k"[..], &b"w"[..], sequence),
                (ValueType::Value, b"l", b"v", sequence),
                (ValueType::Merge, b"k", b"v", sequence),
                (ValueType::Value, b"k", b"v", SequenceNumber(10)),
                (ValueType::RangeDeletion, b"k", b"v", sequence),
            ] {
                memtable.add_protected(sequence, value_type, key, value, Some(protection)).unwrap_err();
            }
            assert_eq!(memtable.entry_count(), 4);
            memtable.add_protected(sequence, ValueType::Value, b"k", b"v", Some(protection)).unwrap();
            assert_eq!(memtable.entry_count(), 5);
        }
    }
}
