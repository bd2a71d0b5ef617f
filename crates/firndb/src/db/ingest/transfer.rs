//! Column families that move between databases: export of one's tables, and creation of another from them.
//!
//! Unlike ingestion, tables keep their levels and their entries their sequence numbers. Always true here: an exported
//! directory appears under its name only when it is complete and durable; an imported family has all its tables, or none and
//! is dropped; a crash between its creation and the import leaves it empty.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_env::sync::atomic::Ordering;
use firn_env::{FileSystem, log_info};
use firn_error::{Error, ErrorKind, Result};
use firn_format::filename;
use firn_format::key::{FileNumber, InternalKey, SequenceNumber};
use firn_format::unique_id::InternalUniqueId;
use firn_format::version_edit::{NewFile, VersionEdit};

use super::super::checkpoint::copy;
use super::super::handle::{ColumnFamily, Db};
use super::super::layout::table_path;
use super::prepare::link_or_copy;
use super::{ColumnFamilyData, DbInner};
use crate::options::{ColumnFamilyOptions, FlushOptions};
use crate::version::{FileMetaData, OpenPolicy, TableSource, VersionSet};

/// What was exported of a column family; all that [`Db::create_cf_with_import`] needs beside the files. No file holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportedColumnFamily {
    /// The name of the comparator.
    pub comparator: String,
    /// The tables.
    pub files: Vec<ExportedFile>,
}

/// One exported table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedFile {
    /// The name of the file, with a leading slash as RocksDB has it.
    pub name: String,
    /// Where it is.
    pub directory: PathBuf,
    /// The level that it is on.
    pub level: usize,
    /// Bytes.
    pub size_bytes: u64,
    /// The least internal key, encoded.
    pub smallest: Vec<u8>,
    /// The greatest internal key, encoded.
    pub largest: Vec<u8>,
    /// The least sequence number.
    pub smallest_sequence: SequenceNumber,
    /// The greatest sequence number.
    pub largest_sequence: SequenceNumber,
    /// Orders the files of level 0.
    pub epoch_number: u64,
}

/// How [`Db::create_cf_with_import`] takes files over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportColumnFamilyOptions {
    /// Move the files instead of copying them. Default: false.
    pub move_files: bool,
}

impl Db {
    /// Flushes a column family and puts its tables, as links where that works, into `dir`, which must not exist.
    ///
    /// # Errors
    /// `InvalidArgument` ("Specified export_dir exists"); `IoError`. Nothing stays behind then.
    pub fn export_cf(&self, cf: &ColumnFamily, dir: impl AsRef<Path>) -> Result<ExportedColumnFamily> {
        self.inner.db.export(&cf.data, dir.as_ref())
    }

    /// Creates a column family out of exported ones, whose keys must not overlap. The comparator must be theirs. All of it is
    /// durable when this returns, and with it every write before it that has a WAL; if it fails there is no such column
    /// family, and after a crash meanwhile it may be there and be empty.
    ///
    /// # Errors
    /// `InvalidArgument` when comparators differ, ranges overlap or the name is taken; `Corruption` and `IoError` of the
    /// files.
    pub fn create_cf_with_import(
        &self,
        name: &str,
        options: ColumnFamilyOptions,
        import: &[ExportedColumnFamily],
        how: ImportColumnFamilyOptions,
    ) -> Result<ColumnFamily> {
        self.inner.db.import(name, options, import, how).map(|data| ColumnFamily::new(&self.inner.db, data))
    }
}

impl DbInner {
    fn export(&self, data: &Arc<ColumnFamilyData>, dir: &Path) -> Result<ExportedColumnFamily> {
        let fs = &**self.env.fs();
        let target: PathBuf = dir.components().collect();
        let Some(name) = target.file_name() else {
            return Err(Error::invalid_argument("Specified export_dir invalid"));
        };
        if fs.file_exists(&target)? {
            return Err(Error::invalid_argument("Specified export_dir exists"));
        }
        let mut temporary = name.to_os_string();
        temporary.push(".tmp");
        let temporary = target.with_file_name(temporary);
        self.flush(&FlushOptions::default(), std::slice::from_ref(data))?;
        // Neither a compaction nor its end takes a file away meanwhile: the version keeps them.
        let version = Arc::clone(&data.super_version.current().version);
        let export = || -> Result<Vec<ExportedFile>> {
            remove_directory(fs, &temporary)?;
            fs.create_dir(&temporary)?;
            let mut files = Vec::new();
            for (level, file) in version.all_files() {
                if file.oldest_blob_file_number != FileNumber(0) {
                    return Err(Error::not_supported("exporting tables that refer to blob files"));
                }
                let name = filename::table(file.number);
                let mut source = table_path(&data.table_dirs, file.path_id, file.number);
                if !fs.file_exists(&source)? {
                    source.set_extension("ldb");
                }
                match fs.link(&source, &temporary.join(&name)) {
                    Err(error) if error.kind() == ErrorKind::NotSupported => {
                        copy(fs, &source, &temporary.join(&name), file.file_size)?;
                    }
                    linked => linked?,
                }
                files.push(described(level, file, &name, &target));
            }
            fs.new_directory(&temporary)?.fsync()?;
            fs.rename(&temporary, &target)?;
            let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty());
            fs.new_directory(parent.unwrap_or_else(|| Path::new(".")))?.fsync()?;
            Ok(files)
        };
        let files = export().inspect_err(|_| drop(remove_directory(fs, &temporary)))?;
        log_info!(self.logger(), "[{}] Exported {} tables to {}", data.name, files.len(), target.display());
        Ok(ExportedColumnFamily { comparator: data.comparator.user_comparator().name().to_owned(), files })
    }

    fn import(
        &self,
        name: &str,
        options: ColumnFamilyOptions,
        import: &[ExportedColumnFamily],
        how: ImportColumnFamilyOptions,
    ) -> Result<Arc<ColumnFamilyData>> {
        self.check_writable()?;
        let comparator = options.comparator.name();
        if import.iter().any(|exported| exported.comparator != comparator) {
            return Err(Error::invalid_argument("Comparator name mismatch"));
        }
        if import.iter().all(|exported| exported.files.is_empty()) {
            return Err(Error::invalid_argument("The list of files is empty"));
        }
        let data = self.create_column_family(name, options)?;
        match self.import_files(&data, import, how) {
            Ok(()) => {
                if how.move_files {
                    for file in import.iter().flat_map(|exported| &exported.files) {
                        // It lies in the database now; what is left here costs disk space only.
                        let _ = self.env.fs().remove_file(&source_of(file));
                    }
                }
                Ok(data)
            }
            Err(error) => {
                self.drop_column_family(&data)?;
                Err(error)
            }
        }
    }

    fn import_files(
        &self,
        data: &Arc<ColumnFamilyData>,
        import: &[ExportedColumnFamily],
        how: ImportColumnFamilyOptions,
    ) -> Result<()> {
        let fs = &**self.env.fs();
        let mut all: Vec<&ExportedFile> = Vec::new();
        let mut ranges: Vec<(InternalKey, InternalKey)> = Vec::new();
        let order = &data.comparator;
        for exported in import.iter().filter(|exported| !exported.files.is_empty()) {
            let mut range: Option<(InternalKey, InternalKey)> = None;
            for file in &exported.files {
                let smallest = InternalKey::from_encoded(file.smallest.clone())?;
                let largest = InternalKey::from_encoded(file.largest.clone())?;
                range = Some(match range {
                    None => (smallest, largest),
                    Some((least, greatest)) => (
                        if order.compare(smallest.encoded(), least.encoded()).is_lt() { smallest } else { least },
                        if order.compare(largest.encoded(), greatest.encoded()).is_gt() { largest } else { greatest },
                    ),
                });
                all.push(file);
            }
            ranges.extend(range);
        }
        ranges.sort_by(|a, b| order.compare(a.0.encoded(), b.0.encoded()));
        let overlap = |pair: &[(InternalKey, InternalKey)]| match pair {
            [before, after] => order.compare_user(before.1.user_key(), after.0.user_key()).is_ge(),
            _ => false,
        };
        if ranges.windows(2).any(overlap) {
            return Err(Error::invalid_argument("CFs have overlapping ranges"));
        }
        // New epochs in the order of the old ones keep the order of level 0.
        all.sort_by_key(|file| (file.epoch_number, file.largest_sequence));
        let levels = usize::try_from(data.options().num_levels).unwrap_or(1);
        if let Some(deep) = all.iter().find(|file| file.level >= levels) {
            return Err(Error::invalid_argument(format!(
                "{} was on level {}, and the column family has {levels} levels",
                deep.name, deep.level
            )));
        }
        let numbers: Vec<FileNumber> = {
            let mut state = self.state.lock();
            all.iter().map(|_| state.new_output()).collect()
        };
        let brought = self.bring_in(data, &all, &numbers, how);
        if brought.is_err() {
            for number in &numbers {
                // What stays behind goes with the next removal of obsolete files.
                let directory = data.table_dirs.first().cloned().unwrap_or_default();
                let _ = fs.remove_file(&directory.join(filename::table(*number)));
            }
        }
        let outcome = brought.and_then(|edit| self.log_import(data, edit));
        self.state.lock().release_outputs(&numbers);
        outcome
    }

    /// Links or copies the files, durably, and describes them.
    fn bring_in(
        &self,
        data: &Arc<ColumnFamilyData>,
        all: &[&ExportedFile],
        numbers: &[FileNumber],
        how: ImportColumnFamilyOptions,
    ) -> Result<VersionEdit> {
        let fs = &**self.env.fs();
        let directory = data.table_dirs.first().cloned().unwrap_or_default();
        let now_secs = self.env.clock().now_secs();
        let mut edit = VersionEdit { column_family: data.id, ..VersionEdit::default() };
        for (file, number) in all.iter().zip(numbers) {
            let path = directory.join(filename::table(*number));
            link_or_copy(fs, &source_of(file), &path, file.size_bytes, how.move_files, true)?;
            let mut described = NewFile {
                number: *number,
                file_size: file.size_bytes,
                smallest: InternalKey::from_encoded(file.smallest.clone())?,
                largest: InternalKey::from_encoded(file.largest.clone())?,
                smallest_sequence: file.smallest_sequence,
                largest_sequence: file.largest_sequence,
                oldest_ancester_time: now_secs,
                file_creation_time: now_secs,
                ..NewFile::default()
            };
            // A file that readers cannot open must not get into the MANIFEST.
            let mut meta = FileMetaData::of_column_family(described.clone(), data.id);
            meta.set_level(i32::try_from(file.level).unwrap_or(-1));
            let table = data.tables().open(&meta, OpenPolicy::MayOpen)?;
            let properties = table.reader.properties();
            let InternalUniqueId([first, second, _]) = InternalUniqueId::for_verification(
                &properties.db_id,
                &properties.db_session_id,
                properties.original_file_number,
            );
            described.unique_id = [first, second];
            edit.add_file(u32::try_from(file.level).unwrap_or(u32::MAX), described);
        }
        fs.new_directory(&directory)?.fsync()?;
        Ok(edit)
    }

    /// Makes files that were brought in part of the column family.
    fn log_import(&self, data: &ColumnFamilyData, mut edit: VersionEdit) -> Result<()> {
        let count = edit.new_files.len();
        let last_sequence = edit.new_files.iter().map(|(_, file)| file.largest_sequence).max().unwrap_or_default();
        // As for ingested files: a power failure must not take writes before the import and leave that.
        self.flush_wal(true)?;
        let _front = self.writers.enter_exclusive();
        self.flush_wal(true)?;
        let mut state = self.state.lock();
        for (_, file) in &mut edit.new_files {
            if let Some(versions) = state.versions.family_mut(data.id) {
                file.epoch_number = versions.new_epoch_number();
            }
        }
        VersionSet::log_and_apply(&mut state, edit.into())?;
        self.visible.fetch_max(last_sequence.get(), Ordering::AcqRel);
        let retired = self.install_super_version(&mut state, data.id);
        drop(state);
        drop(retired);
        log_info!(self.logger(), "[{}] Imported {} tables", data.name, count);
        Ok(())
    }
}

fn source_of(file: &ExportedFile) -> PathBuf {
    file.directory.join(file.name.trim_start_matches('/'))
}

fn described(level: usize, file: &FileMetaData, name: &str, directory: &Path) -> ExportedFile {
    ExportedFile {
        name: format!("/{name}"),
        directory: directory.to_path_buf(),
        level,
        size_bytes: file.file_size,
        smallest: file.smallest.encoded().to_vec(),
        largest: file.largest.encoded().to_vec(),
        smallest_sequence: file.smallest_sequence,
        largest_sequence: file.largest_sequence,
        epoch_number: file.epoch_number,
    }
}

/// Removes what an earlier, interrupted attempt may have left.
fn remove_directory(fs: &dyn FileSystem, directory: &Path) -> Result<()> {
    if !fs.file_exists(directory)? {
        return Ok(());
    }
    for name in fs.children(directory)? {
        fs.remove_file(&directory.join(name))?;
    }
    fs.remove_dir(directory)
}
