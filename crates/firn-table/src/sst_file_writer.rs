//! Writing a table file outside of any database, to be ingested later.
//!
//! User keys and values flow in, in strictly ascending order; a table file flows out, all of whose entries have sequence
//! number 0 and whose properties mark it as external, so that ingestion can give it one sequence number as a whole.
//!
//! Always true here: a file that [`SstFileWriter::finish`] answered with success is complete and synced.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use firn_env::{Env, FileOptions};
use firn_error::{Error, Result};
use firn_format::key::{SequenceNumber, ValueType, append_internal_key};
use firn_format::properties::names;

use crate::builder::{TableBuilder, TableBuilderOptions};

/// The version of external files written here.
const EXTERNAL_FILE_VERSION: u32 = 2;
/// The database id in the properties of external files.
const EXTERNAL_DB_ID: &str = "SST Writer";

/// What a finished external file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExternalSstFileInfo {
    /// Where the file is.
    pub file_path: PathBuf,
    /// The least user key of point entries; empty when there is none.
    pub smallest_key: Vec<u8>,
    /// The greatest user key of point entries; empty when there is none.
    pub largest_key: Vec<u8>,
    /// The least start of range tombstones; empty when there is none.
    pub smallest_range_del_key: Vec<u8>,
    /// The greatest end of range tombstones; empty when there is none.
    pub largest_range_del_key: Vec<u8>,
    /// The sequence number of all keys.
    pub sequence_number: u64,
    /// Bytes of the file.
    pub file_size: u64,
    /// How many point entries there are.
    pub num_entries: u64,
    /// How many range tombstones there are.
    pub num_range_del_entries: u64,
    /// The version of external files.
    pub version: u32,
}

/// How a writer makes its files; the table options are those of [`TableBuilderOptions`], made anew for each file.
pub type MakeTableOptions = Box<dyn Fn() -> TableBuilderOptions + Send>;

/// Writes external table files, one after another. Not thread-safe; may be sent to another thread.
pub struct SstFileWriter {
    env: Env,
    file_options: FileOptions,
    make_options: MakeTableOptions,
    session_id: String,
    /// How many files were opened; becomes the original file number.
    files: u64,
    current: Option<Current>,
}

struct Current {
    builder: TableBuilder,
    comparator: firn_format::comparator::InternalKeyComparator,
    info: ExternalSstFileInfo,
    last_key: Vec<u8>,
    key_buffer: Vec<u8>,
}

impl std::fmt::Debug for SstFileWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SstFileWriter")
            .field("files", &self.files)
            .field("current", &self.current.as_ref().map(|current| &current.info))
            .finish_non_exhaustive()
    }
}

impl SstFileWriter {
    /// A writer whose tables are laid out as `make_options` says; identity and external marks are added here.
    ///
    /// `session_id` is what tells files of different writers apart: 20 characters as
    /// [`encode_session_id`](firn_format::unique_id::encode_session_id) makes them.
    pub fn new(env: Env, file_options: FileOptions, session_id: String, make_options: MakeTableOptions) -> Self {
        Self { env, file_options, make_options, session_id, files: 0, current: None }
    }

    /// Begins a new file at `path`, replacing what is there. A file that was begun and not finished is given up.
    ///
    /// # Errors
    /// Those of creating the file; `InvalidArgument` for table options that contradict each other.
    pub fn open(&mut self, path: &Path) -> Result<()> {
        self.current = None;
        let mut options = (self.make_options)();
        self.files += 1;
        options.db_id = EXTERNAL_DB_ID.to_owned();
        options.db_session_id.clone_from(&self.session_id);
        options.original_file_number = self.files;
        for (name, value) in [
            (names::EXTERNAL_SST_FILE_VERSION, EXTERNAL_FILE_VERSION.to_le_bytes().to_vec()),
            (names::EXTERNAL_SST_FILE_GLOBAL_SEQNO, 0u64.to_le_bytes().to_vec()),
        ] {
            options.user_properties.push((name.into(), value));
        }
        let comparator = options.comparator.clone();
        let file = self.env.fs().new_writable_file(path, &self.file_options)?;
        let builder = TableBuilder::new(options, file).map_err(|error| error.with_file(path))?;
        let info = ExternalSstFileInfo {
            file_path: path.to_path_buf(),
            version: EXTERNAL_FILE_VERSION,
            ..ExternalSstFileInfo::default()
        };
        self.current = Some(Current { builder, comparator, info, last_key: Vec::new(), key_buffer: Vec::new() });
        Ok(())
    }

    fn current(&mut self) -> Result<&mut Current> {
        self.current.as_mut().ok_or_else(|| Error::invalid_argument("File is not opened"))
    }

    /// Adds a value. With a comparator that has timestamps the key ends with one.
    ///
    /// # Errors
    /// `InvalidArgument` when no file is open or the key is not greater than all before; errors of the file.
    pub fn put(&mut self, user_key: &[u8], value: &[u8]) -> Result<()> {
        self.current()?.add(user_key, value, ValueType::Value)
    }

    /// Adds an operand for the merge operator.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn merge(&mut self, user_key: &[u8], operand: &[u8]) -> Result<()> {
        self.current()?.add(user_key, operand, ValueType::Merge)
    }

    /// Adds an encoded wide-column entity.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn put_entity(&mut self, user_key: &[u8], entity: &[u8]) -> Result<()> {
        self.current()?.add(user_key, entity, ValueType::WideColumnEntity)
    }

    /// Adds a tombstone.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn delete(&mut self, user_key: &[u8]) -> Result<()> {
        let current = self.current()?;
        let timestamps = current.comparator.user_comparator().timestamp_size() > 0;
        let kind = if timestamps { ValueType::DeletionWithTimestamp } else { ValueType::Deletion };
        current.add(user_key, b"", kind)
    }

    /// Adds a tombstone of all keys from `start` up to and not including `end`. Range tombstones may come in any order.
    /// Nothing is added for equal bounds.
    ///
    /// # Errors
    /// `InvalidArgument` when no file is open or `end` comes before `start`; errors of the file.
    pub fn delete_range(&mut self, start: &[u8], end: &[u8]) -> Result<()> {
        self.current()?.delete_range(start, end)
    }

    /// Bytes of the file so far; 0 when none is open.
    pub fn file_size(&self) -> u64 {
        self.current.as_ref().map_or(0, |current| current.builder.file_size())
    }

    /// Completes, syncs and closes the file.
    ///
    /// # Errors
    /// `InvalidArgument` when no file is open or nothing was added; errors of the file. After an error the file is no
    /// table; when nothing was added, it is removed.
    pub fn finish(&mut self) -> Result<ExternalSstFileInfo> {
        self.current()?;
        let Some(Current { mut builder, mut info, last_key, .. }) = self.current.take() else {
            return Err(Error::invalid_argument("File is not opened"));
        };
        if builder.is_empty() {
            builder.abandon();
            self.env.fs().remove_file(&info.file_path)?;
            return Err(Error::invalid_argument("Cannot create sst file with no entries"));
        }
        let summary = builder.finish().map_err(|error| error.with_file(&info.file_path))?;
        let mut file = builder.into_file();
        file.sync()?;
        file.close()?;
        info.largest_key = last_key;
        info.file_size = summary.file_size;
        Ok(info)
    }
}

impl Current {
    fn add(&mut self, user_key: &[u8], value: &[u8], kind: ValueType) -> Result<()> {
        let user = self.comparator.user_comparator();
        if user_key.len() < user.timestamp_size() {
            return Err(Error::invalid_argument("Timestamp size mismatch"));
        }
        if self.info.num_entries == 0 {
            self.info.smallest_key = user_key.to_vec();
        } else if user.compare(user_key, &self.last_key) != Ordering::Greater {
            return Err(Error::invalid_argument("Keys must be added in strict ascending order."));
        }
        self.key_buffer.clear();
        append_internal_key(&mut self.key_buffer, user_key, SequenceNumber::ZERO, kind);
        self.builder.add(&self.key_buffer, value)?;
        self.last_key.clear();
        self.last_key.extend_from_slice(user_key);
        self.info.num_entries += 1;
        Ok(())
    }

    fn delete_range(&mut self, start: &[u8], end: &[u8]) -> Result<()> {
        let user = self.comparator.user_comparator();
        match user.compare(start, end) {
            Ordering::Greater => {
                return Err(Error::invalid_argument("end key comes before start key"));
            }
            Ordering::Equal => return Ok(()),
            Ordering::Less => {}
        }
        self.key_buffer.clear();
        append_internal_key(&mut self.key_buffer, start, SequenceNumber::ZERO, ValueType::RangeDeletion);
        self.builder.add(&self.key_buffer, end)?;
        let info = &mut self.info;
        if info.num_range_del_entries == 0 || user.compare(start, &info.smallest_range_del_key) == Ordering::Less {
            info.smallest_range_del_key = start.to_vec();
        }
        if info.num_range_del_entries == 0 || user.compare(end, &info.largest_range_del_key) == Ordering::Greater {
            info.largest_range_del_key = end.to_vec();
        }
        info.num_range_del_entries += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
