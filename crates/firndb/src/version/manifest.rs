//! The MANIFEST as a file: reading its edits, writing and switching it.
//!
//! Reading hands every record, decoded, to a visitor and adds file and offset to whatever goes wrong. Writing appends whole
//! groups of records and syncs once; a new MANIFEST begins with a snapshot of everything and becomes the current one only
//! by the rename of a synced temporary file over `CURRENT`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_env::{Directory, FileOptions, FileSystem, SequentialFile, WritableFile};
use firn_error::{Error, Result};
use firn_format::filename;
use firn_format::key::{FileNumber, SequenceNumber};
use firn_format::log::{ByteSource, LogEncoder, LogFormat, LogReader, RecoveryMode};
use firn_format::version_edit::{BlobFileGarbage, DEFAULT_COLUMN_FAMILY_ID, VersionEdit};

use super::{Version, WalSet};

/// A `CURRENT` file is never longer than this.
const CURRENT_LIMIT_BYTES: u64 = 256;

/// Adds to an error what a reader of it wants to know first.
pub(crate) fn blame(error: Error, path: &Path, offset: u64) -> Error {
    error.with_file(path).with_offset(offset)
}

/// The number of the MANIFEST that `CURRENT` in `db_path` names.
///
/// # Errors
/// `Corruption` if `CURRENT` is malformed; the file system's error if it cannot be read.
pub fn read_current(fs: &dyn FileSystem, db_path: &Path) -> Result<FileNumber> {
    let path = db_path.join(filename::CURRENT);
    let content = firn_env::read_file(fs, &path, CURRENT_LIMIT_BYTES)?;
    let Some((b'\n', name)) = content.split_last() else {
        let error = Error::corruption("CURRENT file does not end with newline");
        return Err(blame(error, &path, content.len() as u64));
    };
    let corrupted = || blame(Error::corruption("CURRENT file corrupted"), &path, 0);
    let name = std::str::from_utf8(name).map_err(|_| corrupted())?;
    let name = name.strip_prefix('/').unwrap_or(name);
    match filename::parse(name) {
        Some(parsed) if parsed.kind == filename::FileKind::Manifest => Ok(parsed.number),
        _ => Err(corrupted()),
    }
}

/// Makes the MANIFEST with this number the current one: temporary file, sync, rename, sync of the directory.
///
/// # Errors
/// The file system's. After an error of the rename or of the directory sync, either MANIFEST may be the current one.
pub(crate) fn switch_current(
    fs: &dyn FileSystem,
    db_path: &Path,
    directory: &dyn Directory,
    number: FileNumber,
) -> Result<(), SwitchError> {
    let temporary = db_path.join(filename::temp(number));
    firn_env::write_file(fs, &temporary, filename::current_content(number).as_bytes(), true)
        .map_err(SwitchError::Untouched)?;
    // The new MANIFEST's own name must be durable before CURRENT may name it. Journaling file systems keep the order of two
    // changes of one directory, but nothing obliges them to.
    directory.fsync().map_err(SwitchError::Untouched)?;
    fs.rename(&temporary, &db_path.join(filename::CURRENT)).map_err(SwitchError::Uncertain)?;
    directory.fsync().map_err(SwitchError::Uncertain)
}

/// How far a failed switch of `CURRENT` got.
#[derive(Debug)]
pub(crate) enum SwitchError {
    /// `CURRENT` still names the old MANIFEST.
    Untouched(Error),
    /// `CURRENT` may name either.
    Uncertain(Error),
}

struct FileSource(Box<dyn SequentialFile>);

impl ByteSource for FileSource {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        self.0.read(buf)
    }
}

/// Reads the edits of the MANIFEST at `path` in order and hands each to `visit` with the offset of its record. Returns the
/// offset behind the last one. A torn tail is where the MANIFEST ends.
///
/// # Errors
/// `Corruption` with file and offset for damage and for records that do not decode, and whatever `visit` answers.
pub fn read_manifest(
    fs: &dyn FileSystem,
    path: &Path,
    mut visit: impl FnMut(VersionEdit, u64) -> Result<()>,
) -> Result<u64> {
    let file = fs.new_sequential_file(path, &FileOptions::default())?;
    let mut reader = LogReader::new(FileSource(file), 0, RecoveryMode::TolerateCorruptedTailRecords);
    loop {
        let more = reader.advance().map_err(|error| error.with_file(path))?;
        if let Some(report) = reader.take_report() {
            return Err(report.error.with_file(path));
        }
        if !more {
            return Ok(reader.record_end());
        }
        let offset = reader.record_offset();
        VersionEdit::decode(reader.record())
            .and_then(|edit| visit(edit, offset))
            .map_err(|error| blame(error, path, offset))?;
    }
}

/// Writes MANIFEST `to` with the first `records` records of MANIFEST `from`, as they are, and `last` behind them; then makes
/// it the current one.
///
/// # Errors
/// Damage in the old one, with file and offset; the file system's.
pub(crate) fn continue_manifest(
    fs: &dyn FileSystem,
    db_path: &Path,
    (from, records): (FileNumber, usize),
    to: FileNumber,
    last: &VersionEdit,
) -> Result<()> {
    let path = db_path.join(filename::manifest(from));
    let source = FileSource(fs.new_sequential_file(&path, &FileOptions::default())?);
    let mut reader = LogReader::new(source, 0, RecoveryMode::TolerateCorruptedTailRecords);
    let mut writer = ManifestWriter::create(fs, db_path, to)?;
    for _ in 0..records {
        let more = reader.advance().map_err(|error| error.with_file(&path))?;
        if let Some(report) = reader.take_report() {
            return Err(report.error.with_file(&path));
        }
        if !more {
            break;
        }
        let mut framed = Vec::new();
        writer.encoder.append_record(&mut framed, reader.record())?;
        writer.file.append(&framed)?;
    }
    writer.append([last])?;
    writer.make_current(fs, db_path)
}

/// The MANIFEST that is being appended to.
#[derive(Debug)]
pub(crate) struct ManifestWriter {
    file: Box<dyn WritableFile>,
    encoder: LogEncoder,
    number: FileNumber,
    /// Bytes after the snapshot at its head was written.
    compacted_size: u64,
}

impl ManifestWriter {
    /// Starts `MANIFEST-<number>`, replacing a file of this name.
    pub(crate) fn create(fs: &dyn FileSystem, db_path: &Path, number: FileNumber) -> Result<Self> {
        let path = db_path.join(filename::manifest(number));
        let file = fs.new_writable_file(&path, &FileOptions::default())?;
        let encoder = LogEncoder::new(LogFormat::default())?;
        Ok(Self { file, encoder, number, compacted_size: 0 })
    }

    pub(crate) fn number(&self) -> FileNumber {
        self.number
    }

    /// Bytes in the file.
    pub(crate) fn size(&self) -> u64 {
        self.encoder.position()
    }

    pub(crate) fn compacted_size(&self) -> u64 {
        self.compacted_size
    }

    /// Appends one record per edit. They are durable after [`sync`](Self::sync) only.
    pub(crate) fn append<'a>(&mut self, edits: impl IntoIterator<Item = &'a VersionEdit>) -> Result<()> {
        let mut framed = Vec::new();
        for edit in edits {
            self.encoder.append_record(&mut framed, &edit.encode()?)?;
        }
        self.file.append(&framed)
    }

    pub(crate) fn sync(&mut self) -> Result<()> {
        self.file.sync()
    }

    /// Syncs it, and lets `CURRENT` name it.
    pub(crate) fn make_current(mut self, fs: &dyn FileSystem, db_path: &Path) -> Result<()> {
        self.sync()?;
        let directory = fs.new_directory(db_path)?;
        switch_current(fs, db_path, &*directory, self.number).map_err(|error| match error {
            SwitchError::Untouched(error) | SwitchError::Uncertain(error) => error,
        })
    }

    /// Remembers that everything up to here is the snapshot and the edits that came with it.
    pub(crate) fn mark_compacted(&mut self) {
        self.compacted_size = self.size();
    }
}

/// What the snapshot at the head of a MANIFEST tells of one column family.
#[derive(Clone)]
pub(crate) struct FamilySnapshot {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) comparator: String,
    pub(crate) log_number: FileNumber,
    pub(crate) full_history_ts_low: Option<Vec<u8>>,
    pub(crate) version: Arc<Version>,
}

/// Everything that the head of a new MANIFEST tells.
pub(crate) struct Snapshot {
    pub(crate) db_id: Option<String>,
    pub(crate) wals: WalSet,
    pub(crate) min_log_number_to_keep: FileNumber,
    pub(crate) last_sequence: SequenceNumber,
    pub(crate) families: Vec<FamilySnapshot>,
}

/// Bytes that the record of the snapshot's size itself adds to it.
const SIZE_RECORD_BYTES: u64 = 15;

impl Snapshot {
    /// The records of the snapshot but for the one that tells its size.
    pub(crate) fn edits(&self) -> Vec<VersionEdit> {
        let mut edits = Vec::new();
        if self.db_id.is_some() {
            edits.push(VersionEdit { db_id: self.db_id.clone(), ..VersionEdit::default() });
        }
        if !self.wals.is_empty() {
            edits.push(VersionEdit { wal_additions: self.wals.iter().collect(), ..VersionEdit::default() });
        }
        edits.push(VersionEdit { wal_deletion: Some(self.min_log_number_to_keep), ..VersionEdit::default() });
        for family in &self.families {
            edits.push(family.head());
            edits.push(self.body(family));
        }
        edits
    }

    fn body(&self, family: &FamilySnapshot) -> VersionEdit {
        let version = &family.version;
        let is_default = family.id == DEFAULT_COLUMN_FAMILY_ID;
        let mut edit = VersionEdit {
            column_family: family.id,
            log_number: Some(family.log_number),
            last_sequence: Some(self.last_sequence),
            min_log_number_to_keep: (is_default && self.min_log_number_to_keep.0 != 0)
                .then_some(self.min_log_number_to_keep),
            full_history_ts_low: family.full_history_ts_low.clone(),
            ..VersionEdit::default()
        };
        for level in 0..version.num_levels() {
            let level_number = u32::try_from(level).unwrap_or(u32::MAX);
            if let Some(cursor) = version.compact_cursor(level) {
                edit.compact_cursors.push((level_number, cursor.clone()));
            }
            for file in version.files(level) {
                edit.add_file(level_number, file.to_new_file());
            }
        }
        for (number, blob) in version.blob_files() {
            edit.blob_file_additions.push(blob.shared.addition().clone());
            if blob.garbage_blob_count > 0 {
                edit.blob_file_garbages.push(BlobFileGarbage {
                    number: *number,
                    garbage_blob_count: blob.garbage_blob_count,
                    garbage_blob_bytes: blob.garbage_blob_bytes,
                });
            }
        }
        edit
    }

    /// Writes the snapshot at the head of `writer`.
    pub(crate) fn write(&self, writer: &mut ManifestWriter) -> Result<()> {
        writer.append(&self.edits())?;
        let size = writer.size() + SIZE_RECORD_BYTES;
        writer.append([&VersionEdit { last_compacted_manifest_file_size: Some(size), ..VersionEdit::default() }])
    }
}

impl FamilySnapshot {
    fn head(&self) -> VersionEdit {
        VersionEdit {
            comparator: Some(self.comparator.clone()),
            persist_user_defined_timestamps: Some(true),
            column_family: self.id,
            column_family_add: (self.id != DEFAULT_COLUMN_FAMILY_ID).then(|| self.name.clone()),
            ..VersionEdit::default()
        }
    }
}

/// The path of a table file: `.sst`, or LevelDB's `.ldb` if only that exists.
pub fn table_path(fs: &dyn FileSystem, directory: &Path, number: FileNumber) -> Result<PathBuf> {
    let path = directory.join(filename::table(number));
    if fs.file_exists(&path)? {
        return Ok(path);
    }
    let leveldb = directory.join(filename::leveldb_table(number));
    Ok(if fs.file_exists(&leveldb)? { leveldb } else { path })
}
