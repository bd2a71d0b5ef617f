//! A [`VersionEdit`] to the bytes of a MANIFEST record, in RocksDB's order of fields.

use super::new_file::{self, FieldRules};
use super::{DEFAULT_COLUMN_FAMILY_ID, VersionEdit, tag};
use crate::Result;
use crate::varint::{put_length_prefixed, put_varint32, put_varint64};

/// Which generation of RocksDB's writers the bytes of an edit equal. All of them read each other's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EditDialect {
    /// 10.0 and later: files have epochs, and checksums only where there are any.
    #[default]
    Current,
    /// 7.10 to 9.x: files have epochs, and always a checksum field.
    WithChecksums,
    /// Before 7.10: files have no epoch, and always a checksum field.
    WithoutEpochs,
}

impl VersionEdit {
    /// The record of this edit.
    ///
    /// # Errors
    /// `Corruption` if a file has an invalid boundary key or no epoch number.
    pub fn encode(&self) -> Result<Vec<u8>> {
        self.encode_as(EditDialect::Current)
    }

    /// The record of this edit as writers of another generation lay it out.
    ///
    /// # Errors
    /// As for [`encode`](Self::encode); a missing epoch number is none in a dialect without epochs.
    pub fn encode_as(&self, dialect: EditDialect) -> Result<Vec<u8>> {
        let rules = FieldRules {
            always_checksum: dialect != EditDialect::Current,
            epoch: dialect != EditDialect::WithoutEpochs,
        };
        let mut out = Vec::new();
        self.encode_numbers(&mut out);
        self.encode_files(&mut out, rules)?;
        self.encode_wals(&mut out);
        self.encode_column_family(&mut out, rules)?;
        Ok(out)
    }

    fn encode_numbers(&self, out: &mut Vec<u8>) {
        let text = [(tag::DB_ID, &self.db_id), (tag::COMPARATOR, &self.comparator)];
        for (tag, value) in text {
            if let Some(value) = value {
                put_varint32(out, tag);
                put_length_prefixed(out, value.as_bytes());
            }
        }
        let numbers = [
            (tag::LOG_NUMBER, self.log_number.map(|number| number.0)),
            (tag::PREV_LOG_NUMBER, self.prev_log_number.map(|number| number.0)),
            (tag::NEXT_FILE_NUMBER, self.next_file_number.map(|number| number.0)),
            (tag::MAX_COLUMN_FAMILY, self.max_column_family.map(u64::from)),
            (tag::MIN_LOG_NUMBER_TO_KEEP, self.min_log_number_to_keep.map(|number| number.0)),
            (tag::LAST_SEQUENCE, self.last_sequence.map(|sequence| sequence.0)),
        ];
        for (tag, value) in numbers {
            if let Some(value) = value {
                put_varint32(out, tag);
                put_varint64(out, value);
            }
        }
    }

    fn encode_files(&self, out: &mut Vec<u8>, rules: FieldRules) -> Result<()> {
        for (level, key) in &self.compact_cursors {
            put_varint32(out, tag::COMPACT_CURSOR);
            put_varint32(out, *level);
            put_length_prefixed(out, key.encoded());
        }
        for (level, number) in &self.deleted_files {
            put_varint32(out, tag::DELETED_FILE);
            put_varint32(out, *level);
            put_varint64(out, number.0);
        }
        // Readers of the time before tag 10 find the number inside the first file.
        let mut min_log_number_to_keep = self.min_log_number_to_keep;
        for (level, file) in &self.new_files {
            put_varint32(out, tag::NEW_FILE_4);
            new_file::encode(out, *level, file, min_log_number_to_keep.take(), rules)?;
        }
        for addition in &self.blob_file_additions {
            put_varint32(out, tag::BLOB_FILE_ADDITION);
            addition.encode(out);
        }
        for garbage in &self.blob_file_garbages {
            put_varint32(out, tag::BLOB_FILE_GARBAGE);
            garbage.encode(out);
        }
        Ok(())
    }

    fn encode_wals(&self, out: &mut Vec<u8>) {
        let mut field = Vec::new();
        for addition in &self.wal_additions {
            field.clear();
            addition.encode(&mut field);
            put_varint32(out, tag::WAL_ADDITION_2);
            put_length_prefixed(out, &field);
        }
        if let Some(below) = self.wal_deletion.filter(|below| below.0 != 0) {
            field.clear();
            put_varint64(&mut field, below.0);
            put_varint32(out, tag::WAL_DELETION_2);
            put_length_prefixed(out, &field);
        }
    }

    fn encode_column_family(&self, out: &mut Vec<u8>, rules: FieldRules) -> Result<()> {
        if self.column_family != DEFAULT_COLUMN_FAMILY_ID {
            put_varint32(out, tag::COLUMN_FAMILY);
            put_varint32(out, self.column_family);
        }
        if let Some(name) = &self.column_family_add {
            put_varint32(out, tag::COLUMN_FAMILY_ADD);
            put_length_prefixed(out, name.as_bytes());
        }
        if self.column_family_drop {
            put_varint32(out, tag::COLUMN_FAMILY_DROP);
        }
        if let Some(remaining) = self.remaining_entries {
            put_varint32(out, tag::IN_ATOMIC_GROUP);
            put_varint32(out, remaining);
        }
        if let Some(low) = &self.full_history_ts_low {
            put_varint32(out, tag::FULL_HISTORY_TS_LOW);
            put_length_prefixed(out, low);
        }
        if let Some(persist) = self.persist_user_defined_timestamps {
            put_varint32(out, tag::PERSIST_USER_DEFINED_TIMESTAMPS);
            put_length_prefixed(out, &[u8::from(persist)]);
        }
        if let Some(progress) = &self.subcompaction_progress {
            let mut field = Vec::new();
            progress.encode(&mut field, rules)?;
            put_varint32(out, tag::SUBCOMPACTION_PROGRESS);
            put_length_prefixed(out, &field);
        }
        if let Some(size) = self.last_compacted_manifest_file_size {
            let mut field = Vec::new();
            put_varint64(&mut field, size);
            put_varint32(out, tag::LAST_COMPACTED_MANIFEST_FILE_SIZE);
            put_length_prefixed(out, &field);
        }
        Ok(())
    }
}
