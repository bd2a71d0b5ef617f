//! Bytes of a MANIFEST record to a [`VersionEdit`].

use super::new_file::{self, Generation};
use super::{
    BlobFileAddition, BlobFileGarbage, SubcompactionProgress, VersionEdit, WalAddition, malformed, nested, tag,
};
use crate::Result;
use crate::key::{FileNumber, InternalKey, SequenceNumber};
use crate::varint::{get_length_prefixed, get_varint32, get_varint64};

impl VersionEdit {
    /// Reads a whole record. An empty record is an edit without any field.
    ///
    /// A scalar field that appears twice keeps its last value; lists accumulate. A tag that is unknown is skipped if its
    /// bit 13 says that this is safe.
    ///
    /// # Errors
    /// `Corruption` for malformed fields and for unknown tags that may not be skipped.
    pub fn decode(record: &[u8]) -> Result<Self> {
        let mut edit = Self::default();
        let mut input = record;
        while !input.is_empty() {
            let tag = get_varint32(&mut input).map_err(|_| malformed("invalid tag"))?;
            edit.decode_field(tag, &mut input)?;
        }
        Ok(edit)
    }

    fn decode_field(&mut self, tag: u32, input: &mut &[u8]) -> Result<()> {
        match tag {
            tag::DB_ID => self.db_id = Some(text(input, "db id")?),
            tag::COMPARATOR => self.comparator = Some(text(input, "comparator name")?),
            tag::LOG_NUMBER => self.log_number = Some(file_number(input, "log number")?),
            tag::PREV_LOG_NUMBER => self.prev_log_number = Some(file_number(input, "previous log number")?),
            tag::NEXT_FILE_NUMBER => self.next_file_number = Some(file_number(input, "next file number")?),
            tag::MAX_COLUMN_FAMILY => self.max_column_family = Some(number32(input, "max column family")?),
            tag::MIN_LOG_NUMBER_TO_KEEP => {
                self.min_log_number_to_keep = Some(file_number(input, "min log number to kee")?);
            }
            tag::LAST_SEQUENCE => {
                self.last_sequence = Some(SequenceNumber(number64(input, "last sequence number")?));
            }
            tag::COMPACT_CURSOR => self.compact_cursors.push(compact_cursor(input)?),
            tag::DELETED_FILE => {
                let level = number32(input, "deleted file")?;
                self.deleted_files.insert((level, file_number(input, "deleted file")?));
            }
            tag::NEW_FILE => self.decode_new_file(input, Generation::LevelDb)?,
            tag::NEW_FILE_2 => self.decode_new_file(input, Generation::Two)?,
            tag::NEW_FILE_3 => self.decode_new_file(input, Generation::Three)?,
            tag::NEW_FILE_4 => self.decode_new_file(input, Generation::Four)?,
            tag::BLOB_FILE_ADDITION | tag::BLOB_FILE_ADDITION_DEPRECATED => {
                self.blob_file_additions.push(BlobFileAddition::decode(input)?);
            }
            tag::BLOB_FILE_GARBAGE | tag::BLOB_FILE_GARBAGE_DEPRECATED => {
                self.blob_file_garbages.push(BlobFileGarbage::decode(input)?);
            }
            tag::WAL_ADDITION => self.wal_additions.push(WalAddition::decode(input)?),
            tag::WAL_ADDITION_2 => {
                let mut field = field(input, "WalAddition not prefixed by length")?;
                self.wal_additions.push(WalAddition::decode(&mut field)?);
            }
            tag::WAL_DELETION => self.wal_deletion = Some(nested::decode_wal_deletion(input)?),
            tag::WAL_DELETION_2 => {
                let mut field = field(input, "WalDeletion not prefixed by length")?;
                self.wal_deletion = Some(nested::decode_wal_deletion(&mut field)?);
            }
            tag::COLUMN_FAMILY => self.column_family = number32(input, "set column family id")?,
            tag::COLUMN_FAMILY_ADD => self.column_family_add = Some(text(input, "column family add")?),
            tag::COLUMN_FAMILY_DROP => self.column_family_drop = true,
            tag::IN_ATOMIC_GROUP => self.remaining_entries = Some(number32(input, "remaining entries")?),
            tag::FULL_HISTORY_TS_LOW => {
                let low = field(input, "full_history_ts_low")?;
                if low.is_empty() {
                    return Err(malformed("full_history_ts_low: empty"));
                }
                self.full_history_ts_low = Some(low.to_vec());
            }
            tag::PERSIST_USER_DEFINED_TIMESTAMPS => match *field(input, "persist_user_defined_timestamps")? {
                [flag] => self.persist_user_defined_timestamps = Some(flag == 1),
                _ => return Err(malformed("persist_user_defined_timestamps field wrong size")),
            },
            tag::SUBCOMPACTION_PROGRESS => {
                let field = field(input, "SubcompactionProgress not prefixed by length")?;
                self.subcompaction_progress = Some(SubcompactionProgress::decode(field)?);
            }
            tag::LAST_COMPACTED_MANIFEST_FILE_SIZE => {
                let message = "last compacted manifest file size";
                let mut field = field(input, message)?;
                self.last_compacted_manifest_file_size = Some(number64(&mut field, message)?);
            }
            _ if tag & tag::SAFE_IGNORE_MASK != 0 => {
                field(input, "safely ignoreable tag length error")?;
            }
            _ => return Err(malformed("unknown tag")),
        }
        Ok(())
    }

    fn decode_new_file(&mut self, input: &mut &[u8], generation: Generation) -> Result<()> {
        let (level, file, min_log_number_to_keep) = new_file::decode(input, generation)?;
        if min_log_number_to_keep.is_some() {
            self.min_log_number_to_keep = min_log_number_to_keep;
        }
        self.new_files.push((level, file));
        Ok(())
    }
}

fn compact_cursor(input: &mut &[u8]) -> Result<(u32, InternalKey)> {
    let level = number32(input, "compaction cursor")?;
    let key = field(input, "compaction cursor")?;
    Ok((level, InternalKey::from_encoded(key).map_err(|_| malformed("compaction cursor"))?))
}

fn number32(input: &mut &[u8], message: &str) -> Result<u32> {
    get_varint32(input).map_err(|_| malformed(message))
}

fn number64(input: &mut &[u8], message: &str) -> Result<u64> {
    get_varint64(input).map_err(|_| malformed(message))
}

fn file_number(input: &mut &[u8], message: &str) -> Result<FileNumber> {
    number64(input, message).map(FileNumber)
}

fn field<'a>(input: &mut &'a [u8], message: &str) -> Result<&'a [u8]> {
    get_length_prefixed(input).map_err(|_| malformed(message))
}

fn text(input: &mut &[u8], message: &str) -> Result<String> {
    let bytes = field(input, message)?;
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| malformed(&format!("{message} is not UTF-8")))
}
