//! Protection of the records of a batch, from the caller's hand to the memtable (`docs/format/write-batch.md`, Protection of
//! records).
//!
//! A protected batch keeps 8 bytes per counted record, computed from what the caller gave. They are compared with the
//! encoded records before the log gets them, and with the entry in the memtable after the insert. Always true here: a
//! protected batch has one protection per counted record, in the same order.

use firn_error::{Error, Result};
use firn_format::key::{SequenceNumber, ValueType};
use firn_format::protection::Protection;

use super::WriteBatch;

/// The protection of one record: column family, type, key, value.
#[inline]
pub(super) fn of_entry((cf, value_type, key, value): (u32, ValueType, &[u8], &[u8])) -> Protection {
    Protection::of(value_type, key, value).toggle_family(cf)
}

impl WriteBatch {
    /// An empty batch that keeps 8 bytes with each update, to notice when one changes on its way to the memtable.
    ///
    /// ```
    /// let mut batch = firndb::WriteBatch::protected();
    /// batch.put("key", "value")?;
    /// batch.verify_protection()?;
    /// # Ok::<(), firndb::Error>(())
    /// ```
    pub fn protected() -> Self {
        Self { protections: Some(Vec::new()), ..Self::new() }
    }

    /// Bytes kept with each update: 0 or 8.
    pub fn protection_bytes_per_key(&self) -> usize {
        if self.protections.is_some() { size_of::<Protection>() } else { 0 }
    }

    /// Protects the batch from now on, what it holds already included. Does nothing for one that is protected.
    ///
    /// # Errors
    /// `Corruption` when the batch is malformed.
    pub fn protect(&mut self) -> Result<()> {
        if self.protections.is_none() {
            self.protections = Some(self.computed_protections()?);
        }
        Ok(())
    }

    /// Compares every update with its protection, and their number with the count; nothing to do for an unprotected batch.
    ///
    /// # Errors
    /// `Corruption` when the batch is not what was put into it.
    #[inline]
    pub fn verify_protection(&self) -> Result<()> {
        match &self.protections {
            None => Ok(()),
            Some(protections) => self.compare_protections(protections),
        }
    }

    #[cold]
    fn compare_protections(&self, protections: &[Protection]) -> Result<()> {
        if self.computed_protections()? == protections {
            return Ok(());
        }
        Err(Error::corruption("ProtectionInfo mismatch"))
    }

    fn computed_protections(&self) -> Result<Vec<Protection>> {
        let mut protections = Vec::with_capacity(self.count as usize);
        for record in self.records() {
            protections.extend(record?.entry().map(of_entry));
        }
        Ok(protections)
    }

    /// Takes the protections of records that were appended from `other`.
    pub(super) fn append_protections(&mut self, other: &Self) -> Result<()> {
        if let Some(protections) = &mut self.protections {
            match &other.protections {
                Some(others) => protections.extend_from_slice(others),
                None => protections.extend(other.computed_protections()?),
            }
        }
        Ok(())
    }

    /// The protections of the updates, without those of column families; empty for an unprotected batch.
    #[inline]
    pub(crate) fn protections(&self) -> RecordProtections<'_> {
        RecordProtections(self.protections.as_deref().unwrap_or_default())
    }
}

/// The protections of records that are being inserted; none for records that come without.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RecordProtections<'a>(&'a [Protection]);

impl RecordProtections<'_> {
    /// That of the counted record `index`, of family `cf`, as an entry with `sequence`.
    #[inline]
    pub(crate) fn of_entry(self, index: u64, cf: u32, sequence: SequenceNumber) -> Option<Protection> {
        let protection = self.0.get(usize::try_from(index).ok()?)?;
        Some(protection.toggle_family(cf).toggle_sequence(sequence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled() -> WriteBatch {
        let mut batch = WriteBatch::protected();
        batch.put("key", "value").unwrap();
        batch.put_cf(7, "other", "").unwrap();
        batch.delete_cf(2, "key").unwrap();
        batch.put_log_data("blob").unwrap();
        batch.single_delete("s").unwrap();
        batch.delete_range("a", "b").unwrap();
        batch.merge("m", "operand").unwrap();
        batch.timed_put_cf(0, "t", "value", 99).unwrap();
        batch
    }

    #[test]
    fn values_are_those_of_the_reference() {
        let batch = filled();
        let protections = batch.protections.as_ref().unwrap();
        assert_eq!((protections[0].0, protections[2].0), (0x054c_2407_8592_b0df, 0xd919_b91b_55f3_586a));
        let moved = batch.protections().of_entry(0, 0, SequenceNumber(7)).unwrap();
        assert_eq!(moved.0, 0xfd0c_682c_2559_ebac);
    }

    #[test]
    fn every_byte_of_a_protected_batch_counts() {
        let batch = filled();
        batch.verify_protection().unwrap();
        let log_data = batch.bytes.windows(4).position(|bytes| bytes == b"blob").unwrap();
        for at in super::super::HEADER_SIZE - 4..batch.bytes.len() {
            let mut damaged = batch.clone();
            damaged.bytes[at] ^= 0x20;
            let is_log_data = (log_data..log_data + 4).contains(&at);
            assert_eq!(damaged.verify_protection().is_ok(), is_log_data, "byte {at}");
        }
    }

    #[test]
    fn protections_follow_the_records() {
        let mut batch = filled();
        let all = batch.protections.clone().unwrap();
        batch.set_save_point();
        batch.put("more", "x").unwrap();
        batch.rollback_to_save_point().unwrap();
        assert_eq!(batch.protections.as_deref(), Some(&all[..]));
        let mut plain = WriteBatch::new();
        plain.put("plain", "x").unwrap();
        assert_eq!(plain.protection_bytes_per_key(), 0);
        batch.append(&plain).unwrap();
        batch.append(&filled()).unwrap();
        batch.verify_protection().unwrap();
        plain.append(&filled()).unwrap();
        plain.protect().unwrap();
        plain.verify_protection().unwrap();
        batch.set_max_bytes(batch.data_size());
        batch.put("too", "much").unwrap_err();
        batch.verify_protection().unwrap();
        batch.clear();
        batch.verify_protection().unwrap();
        assert_eq!(batch.protection_bytes_per_key(), 8);
    }
    /// Damage is refused before the log has it, and only the damaged batch is.
    #[test]
    fn a_damaged_batch_reaches_neither_log_nor_memtable() {
        use crate::{Db, Options, WriteOptions};

        let mut options = Options::default();
        options.db.env = firn_env::Env::memory();
        options.db.create_if_missing = true;
        options.cf.memtable_protection_bytes_per_key = 4;
        let open = || Db::open("/db", options.clone()).unwrap();
        let db = open();
        let mut batch = WriteBatch::protected();
        batch.put("key", "value").unwrap();
        let last = batch.bytes.len() - 1;
        batch.bytes[last] ^= 1;
        let error = db.write(&mut batch).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Corruption);
        assert_eq!(db.get("key").unwrap(), None);
        batch.bytes[last] ^= 1;
        db.write(&mut batch).unwrap();
        let protected = WriteOptions { protection_bytes_per_key: 8, ..WriteOptions::default() };
        db.put_opt(&protected, db.default_cf(), "other", "value").unwrap();
        let mut plain = WriteBatch::new();
        plain.put("third", "value").unwrap();
        db.write_opt(&protected, &mut plain).unwrap();
        assert_eq!(plain.protection_bytes_per_key(), 8);
        db.put("fourth", "value").unwrap();
        db.close().unwrap();
        let db = open();
        for key in ["key", "other", "third", "fourth"] {
            assert_eq!(db.get(key).unwrap().as_deref(), Some(&b"value"[..]), "{key}");
        }
    }
}
