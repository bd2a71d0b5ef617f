//! Version edits: the records of a MANIFEST, each a change of the database's metadata.
//!
//! A MANIFEST is a log whose every record is one [`VersionEdit`]: a sequence of tagged fields. Replaying them gives the
//! column families, the files of every level and the counters of the database. Bytes flow in through
//! [`VersionEdit::decode`], which reads the whole record before anything may be applied and refuses what it does not
//! understand unless its tag says that skipping is safe; bytes flow out through [`VersionEdit::encode`] in RocksDB's order
//! of fields, so that an edit of a real file encodes to the same bytes again.
//!
//! Always true here: an absent field is `None` (or an empty list), which is different from a field that is present and zero.

mod decode;
mod encode;
mod nested;
mod new_file;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

pub use encode::EditDialect;
pub use nested::{
    BlobFileAddition, BlobFileGarbage, SubcompactionProgress, SubcompactionProgressPerLevel, WalAddition,
};
pub use new_file::{NewFile, Temperature, UNKNOWN_FILE_CHECKSUM_FUNC_NAME};

use crate::Error;
use crate::key::{FileNumber, InternalKey, SequenceNumber};

/// The field tags of an edit.
mod tag {
    pub(super) const COMPARATOR: u32 = 1;
    pub(super) const LOG_NUMBER: u32 = 2;
    pub(super) const NEXT_FILE_NUMBER: u32 = 3;
    pub(super) const LAST_SEQUENCE: u32 = 4;
    pub(super) const COMPACT_CURSOR: u32 = 5;
    pub(super) const DELETED_FILE: u32 = 6;
    pub(super) const NEW_FILE: u32 = 7;
    pub(super) const PREV_LOG_NUMBER: u32 = 9;
    pub(super) const MIN_LOG_NUMBER_TO_KEEP: u32 = 10;
    pub(super) const NEW_FILE_2: u32 = 100;
    pub(super) const NEW_FILE_3: u32 = 102;
    pub(super) const NEW_FILE_4: u32 = 103;
    pub(super) const COLUMN_FAMILY: u32 = 200;
    pub(super) const COLUMN_FAMILY_ADD: u32 = 201;
    pub(super) const COLUMN_FAMILY_DROP: u32 = 202;
    pub(super) const MAX_COLUMN_FAMILY: u32 = 203;
    pub(super) const IN_ATOMIC_GROUP: u32 = 300;
    pub(super) const BLOB_FILE_ADDITION: u32 = 400;
    pub(super) const BLOB_FILE_GARBAGE: u32 = 401;
    /// A reader that does not know a tag with this bit skips its length-prefixed field.
    pub(super) const SAFE_IGNORE_MASK: u32 = 1 << 13;
    pub(super) const DB_ID: u32 = 8193;
    // 6.13 to 6.17 wrote these four, without the length prefix that their bit promises.
    pub(super) const BLOB_FILE_ADDITION_DEPRECATED: u32 = 8194;
    pub(super) const BLOB_FILE_GARBAGE_DEPRECATED: u32 = 8195;
    pub(super) const WAL_ADDITION: u32 = 8196;
    pub(super) const WAL_DELETION: u32 = 8197;
    pub(super) const FULL_HISTORY_TS_LOW: u32 = 8198;
    pub(super) const WAL_ADDITION_2: u32 = 8199;
    pub(super) const WAL_DELETION_2: u32 = 8200;
    pub(super) const PERSIST_USER_DEFINED_TIMESTAMPS: u32 = 8201;
    pub(super) const SUBCOMPACTION_PROGRESS: u32 = 8202;
    pub(super) const LAST_COMPACTED_MANIFEST_FILE_SIZE: u32 = 8203;
}

/// The numbers of the custom fields of a `NewFile4`.
mod custom {
    pub(super) const TERMINATE: u32 = 1;
    pub(super) const NEED_COMPACTION: u32 = 2;
    pub(super) const MIN_LOG_NUMBER_TO_KEEP: u32 = 3;
    pub(super) const OLDEST_BLOB_FILE_NUMBER: u32 = 4;
    pub(super) const OLDEST_ANCESTER_TIME: u32 = 5;
    pub(super) const FILE_CREATION_TIME: u32 = 6;
    pub(super) const FILE_CHECKSUM: u32 = 7;
    pub(super) const FILE_CHECKSUM_FUNC_NAME: u32 = 8;
    pub(super) const TEMPERATURE: u32 = 9;
    pub(super) const MIN_TIMESTAMP: u32 = 10;
    pub(super) const MAX_TIMESTAMP: u32 = 11;
    pub(super) const UNIQUE_ID: u32 = 12;
    pub(super) const EPOCH_NUMBER: u32 = 13;
    pub(super) const COMPENSATED_RANGE_DELETION_SIZE: u32 = 14;
    pub(super) const TAIL_SIZE: u32 = 15;
    pub(super) const USER_DEFINED_TIMESTAMPS_PERSISTED: u32 = 16;
    pub(super) const FILE_OPEN_METADATA: u32 = 17;
    pub(super) const PATH_ID: u32 = 65;
    /// A reader that does not know a custom field with this bit must refuse the edit.
    pub(super) const MUST_UNDERSTAND_MASK: u32 = 1 << 6;
}

/// The id of the column family that always exists.
pub const DEFAULT_COLUMN_FAMILY_ID: u32 = 0;

/// The name of the column family that always exists.
pub const DEFAULT_COLUMN_FAMILY_NAME: &str = "default";

/// One record of a MANIFEST.
///
/// An edit has one purpose; a reader looks for it in this order: column family add, column family drop, WAL additions, WAL
/// deletion, and otherwise the files, blob files and cursors of a column family. See [`EditKind`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionEdit {
    /// The identity of the database.
    pub db_id: Option<String>,
    /// The name of the user-key order of the column family.
    pub comparator: Option<String>,
    /// WALs with smaller numbers hold nothing that the tables of the column family lack.
    pub log_number: Option<FileNumber>,
    /// LevelDB's second WAL; always 0.
    pub prev_log_number: Option<FileNumber>,
    /// The next number that was not handed out yet when the edit was written.
    pub next_file_number: Option<FileNumber>,
    /// The highest column family id ever used.
    pub max_column_family: Option<u32>,
    /// WALs with smaller numbers are obsolete for the whole database.
    pub min_log_number_to_keep: Option<FileNumber>,
    /// At least the greatest sequence number of every file referred to so far.
    pub last_sequence: Option<SequenceNumber>,
    /// Where the next round-robin compaction of a level begins: (level, smallest key), in order of insertion.
    pub compact_cursors: Vec<(u32, InternalKey)>,
    /// Files taken out of a level.
    pub deleted_files: BTreeSet<(u32, FileNumber)>,
    /// Files put into a level, in order of insertion.
    pub new_files: Vec<(u32, NewFile)>,
    /// Blob files that became part of the database.
    pub blob_file_additions: Vec<BlobFileAddition>,
    /// Garbage that blob files gained.
    pub blob_file_garbages: Vec<BlobFileGarbage>,
    /// WALs that were created or synced.
    pub wal_additions: Vec<WalAddition>,
    /// All tracked WALs with smaller numbers are gone. 0 means none and is never written.
    pub wal_deletion: Option<FileNumber>,
    /// The column family that the edit is about.
    pub column_family: u32,
    /// The edit creates the column family under this name.
    pub column_family_add: Option<String>,
    /// The edit drops the column family.
    pub column_family_drop: bool,
    /// The edit is part of an atomic group, and this many edits of the group follow.
    pub remaining_entries: Option<u32>,
    /// History of user timestamps below this may be gone.
    pub full_history_ts_low: Option<Vec<u8>>,
    /// Whether user timestamps are kept in tables; absent means they are.
    pub persist_user_defined_timestamps: Option<bool>,
    /// How far a subcompaction got; never in a MANIFEST.
    pub subcompaction_progress: Option<SubcompactionProgress>,
    /// Bytes of the snapshot at the head of this MANIFEST.
    pub last_compacted_manifest_file_size: Option<u64>,
}

/// What an edit is for; fields that belong to another purpose are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditKind {
    /// Creates a column family.
    ColumnFamilyAdd,
    /// Drops a column family.
    ColumnFamilyDrop,
    /// Tracks WALs.
    WalAddition,
    /// Forgets tracked WALs.
    WalDeletion,
    /// Changes the files of a column family, or only numbers of the database.
    Ordinary,
}

impl VersionEdit {
    /// What the edit is for.
    pub fn kind(&self) -> EditKind {
        if self.column_family_add.is_some() {
            EditKind::ColumnFamilyAdd
        } else if self.column_family_drop {
            EditKind::ColumnFamilyDrop
        } else if !self.wal_additions.is_empty() {
            EditKind::WalAddition
        } else if self.wal_deletion.is_some_and(|below| below.0 != 0) {
            EditKind::WalDeletion
        } else {
            EditKind::Ordinary
        }
    }

    /// Whether the edit creates or drops a column family.
    pub fn is_column_family_manipulation(&self) -> bool {
        matches!(self.kind(), EditKind::ColumnFamilyAdd | EditKind::ColumnFamilyDrop)
    }

    /// Takes `number` out of `level`.
    pub fn delete_file(&mut self, level: u32, number: FileNumber) {
        self.deleted_files.insert((level, number));
    }

    /// Puts `file` into `level`.
    pub fn add_file(&mut self, level: u32, file: NewFile) {
        self.new_files.push((level, file));
    }

    /// The greatest sequence number of the files that the edit adds.
    pub fn largest_sequence_of_new_files(&self) -> Option<SequenceNumber> {
        self.new_files.iter().map(|(_, file)| file.largest_sequence).max()
    }
}

#[cold]
fn malformed(what: &str) -> Error {
    Error::corruption(format!("VersionEdit: {what}"))
}
