//! The files that make up the database at one moment: what checkpoints and backups copy.
//!
//! A running database flows in, a list of files with sizes flows out. The list is consistent across column families: tables,
//! the length of the MANIFEST and the lengths of the WALs are taken together while nobody can write, so a directory that
//! holds exactly these files opens as the database was at that moment (writes without WAL that no flush has taken are not
//! in it). Always true here: nothing is promised about the files after deletions are enabled again.

use std::path::PathBuf;
use std::sync::Arc;

use firn_env::FileOptions;
use firn_error::{Error, Result};
use firn_format::batch;
use firn_format::filename::{self, FileKind};
use firn_format::key::{FileNumber, SequenceNumber};
use firn_format::log::RecoveryMode;

use super::handle::Db;
use super::{DbInner, DbState};
use crate::options::FlushOptions;
use crate::write::wal::open_log;

/// How [`Db::live_files_storage_info`] looks at the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveFilesStorageInfoOptions {
    /// Flush all column families first when the live WALs together have at least so many bytes: 0 (the default) always
    /// flushes, `u64::MAX` never does. Databases with two-phase commit always flush.
    pub wal_size_for_flush: u64,
}

/// One file that a copy of the database needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveFileStorageInfo {
    /// Its name, without directory.
    pub name: String,
    /// Where it lies.
    pub directory: PathBuf,
    /// What it is.
    pub kind: FileKind,
    /// The number in its name; 0 for CURRENT.
    pub number: FileNumber,
    /// The bytes that belong to the moment.
    pub size_bytes: u64,
    /// What the copy must contain instead of the file's contents (CURRENT, which may change meanwhile).
    pub replacement_contents: Option<Vec<u8>>,
    /// Whether the file may still change: it must then be copied up to `size_bytes`, not linked.
    pub trim_to_size: bool,
}

/// A WAL with at least one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalFile {
    /// Its name below the WAL directory, with a leading slash as RocksDB has it: `/000012.log`, `/archive/000012.log`.
    pub path_name: String,
    /// The number in its name.
    pub number: FileNumber,
    /// [`FileKind::Wal`] or [`FileKind::ArchivedWal`].
    pub kind: FileKind,
    /// The sequence number of its first record.
    pub start_sequence: SequenceNumber,
    /// Its size in bytes; reserved space behind the records may be counted in while it is being written.
    pub size_bytes: u64,
}

impl Db {
    /// Keeps all files, obsolete ones too, until [`Db::enable_file_deletions`] was called as often as this. When it returns,
    /// no removal is at work any more; so it must not be called by a listener, which a removal waits for. Thread-safe; calls
    /// nest.
    ///
    /// # Errors
    /// `NotSupported` when the database is open for reading only.
    pub fn disable_file_deletions(&self) -> Result<()> {
        self.inner.db.disable_file_deletions()
    }

    /// Takes one [`Db::disable_file_deletions`] back; the last one removes what has become obsolete. Without one it only
    /// does the latter.
    ///
    /// # Errors
    /// As for [`Db::disable_file_deletions`].
    pub fn enable_file_deletions(&self) -> Result<()> {
        self.inner.db.enable_file_deletions()
    }

    /// The files that a copy of the database as of now needs (`docs/behaviour/reads-and-writes.md`, Live files): tables by
    /// column family and level, MANIFEST, CURRENT, OPTIONS, WALs. Deletions should be disabled for as long as the list is
    /// used.
    ///
    /// # Errors
    /// What stops the flush that `options` ask for; `NotSupported` when the database is open for reading only or has several
    /// paths; `IoError`.
    pub fn live_files_storage_info(&self, options: &LiveFilesStorageInfoOptions) -> Result<Vec<LiveFileStorageInfo>> {
        self.inner.db.live_files_storage_info(*options)
    }

    /// The names of the tables, CURRENT, the MANIFEST and the OPTIONS file, each with a leading slash, and how many bytes
    /// of the MANIFEST belong to them. WALs are not among them: see [`Db::sorted_wal_files`].
    ///
    /// # Errors
    /// As for [`Db::live_files_storage_info`]; with `flush`, all column families are flushed first.
    pub fn live_file_names(&self, flush: bool) -> Result<(Vec<String>, u64)> {
        let options = LiveFilesStorageInfoOptions { wal_size_for_flush: if flush { 0 } else { u64::MAX } };
        let files = self.inner.db.live_files_storage_info(options)?;
        let manifest = files.iter().find(|file| file.kind == FileKind::Manifest);
        let manifest_size_bytes = manifest.map_or(0, |file| file.size_bytes);
        let names = files.iter().filter(|file| file.kind != FileKind::Wal).map(|file| format!("/{}", file.name));
        Ok((names.collect(), manifest_size_bytes))
    }

    /// The WALs with records, archived ones included, in the order of their numbers.
    ///
    /// # Errors
    /// `IoError` or `Corruption` naming the file.
    pub fn sorted_wal_files(&self) -> Result<Vec<WalFile>> {
        self.inner.db.sorted_wal_files()
    }
}

impl DbInner {
    fn live_files_storage_info(&self, options: LiveFilesStorageInfoOptions) -> Result<Vec<LiveFileStorageInfo>> {
        self.check_writable()?;
        self.check_single_path()?;
        if self.must_flush(options.wal_size_for_flush) {
            self.flush(&FlushOptions { allow_write_stall: true, ..FlushOptions::default() }, &self.families.all())?;
        }
        let (mut files, mut wals) = self.collect_live_files()?;
        files.extend(self.newest_options_file()?);
        files.append(&mut wals);
        Ok(files)
    }

    fn check_single_path(&self) -> Result<()> {
        let several = |data: &Arc<super::column_family::ColumnFamilyData>| data.table_dirs.len() > 1;
        if self.layout.db_paths.len() > 1 || self.families.all().iter().any(several) {
            return Err(Error::not_supported("db_paths / cf_paths not supported for Checkpoint nor BackupEngine"));
        }
        Ok(())
    }

    fn must_flush(&self, wal_size_for_flush: u64) -> bool {
        if self.options().allow_2pc || wal_size_for_flush == 0 {
            return true;
        }
        if wal_size_for_flush == u64::MAX {
            return false;
        }
        let current = self.log.lock().open_wals().last().map_or(0, |wal| wal.size_bytes());
        let closed: u64 = self.state.lock().live_wals.iter().map(|wal| wal.size_bytes).sum();
        current + closed >= wal_size_for_flush
    }

    /// Tables, MANIFEST and CURRENT, and apart from them the WALs. With log and state locked together nobody appends to a
    /// WAL or publishes a version, so all of it belongs to one moment.
    fn collect_live_files(&self) -> Result<(Vec<LiveFileStorageInfo>, Vec<LiveFileStorageInfo>)> {
        let mut log = self.log.lock();
        log.flush_current()?;
        let state = self.state.lock();
        let mut files = self.tables_of(&state);
        let manifest = state.versions.manifest_number();
        let in_db_dir = |name: String, kind, number, size_bytes| LiveFileStorageInfo {
            name,
            directory: self.layout.db_dir.clone(),
            kind,
            number,
            size_bytes,
            replacement_contents: None,
            trim_to_size: false,
        };
        files.push(LiveFileStorageInfo {
            trim_to_size: true,
            ..in_db_dir(filename::manifest(manifest), FileKind::Manifest, manifest, state.versions.manifest_size())
        });
        let current = filename::current_content(manifest).into_bytes();
        files.push(LiveFileStorageInfo {
            replacement_contents: Some(current.clone()),
            ..in_db_dir(filename::CURRENT.to_owned(), FileKind::Current, FileNumber(0), current.len() as u64)
        });
        let min_log = self.min_log_to_keep(&state);
        let wals = state.live_wals.iter().filter(|wal| wal.number >= min_log).filter_map(|wal| {
            let open = log.open_wals().find(|open| open.number() == wal.number);
            let size_bytes = open.map_or(wal.size_bytes, |open| open.size_bytes());
            (size_bytes > 0).then(|| LiveFileStorageInfo {
                directory: self.layout.wal_dir.clone(),
                // An open WAL grows, a recycled one changes, and what an earlier process left may not be durable.
                trim_to_size: true,
                ..in_db_dir(filename::wal(wal.number), FileKind::Wal, wal.number, size_bytes)
            })
        });
        let wals = wals.collect();
        Ok((files, wals))
    }

    fn tables_of(&self, state: &DbState) -> Vec<LiveFileStorageInfo> {
        let mut files = Vec::new();
        for family in state.versions.families() {
            let dirs = &family.spec().paths;
            for (_, file) in family.current().all_files() {
                files.push(LiveFileStorageInfo {
                    name: filename::table(file.number),
                    directory: dirs.first().unwrap_or(&self.layout.db_dir).clone(),
                    kind: FileKind::Table,
                    number: file.number,
                    size_bytes: file.file_size,
                    replacement_contents: None,
                    trim_to_size: false,
                });
            }
        }
        files
    }

    /// The OPTIONS file with the greatest number; none when the database could not write one.
    fn newest_options_file(&self) -> Result<Option<LiveFileStorageInfo>> {
        let names = self.env.fs().children(&self.layout.db_dir)?;
        let parsed = names.iter().filter_map(|name| filename::parse(name));
        let newest = parsed.filter(|parsed| parsed.kind == FileKind::Options).map(|parsed| parsed.number).max();
        let Some(number) = newest else { return Ok(None) };
        let name = filename::options(number);
        let size_bytes = self.env.fs().file_size(&self.layout.db_dir.join(&name))?;
        Ok(Some(LiveFileStorageInfo {
            name,
            directory: self.layout.db_dir.clone(),
            kind: FileKind::Options,
            number,
            size_bytes,
            replacement_contents: None,
            trim_to_size: false,
        }))
    }

    fn sorted_wal_files(&self) -> Result<Vec<WalFile>> {
        self.check_open()?;
        let fs = self.env.fs();
        let mut wals = Vec::new();
        let places = [
            (self.layout.archive_dir(), FileKind::ArchivedWal, "/archive/"),
            (self.layout.wal_dir.clone(), FileKind::Wal, "/"),
        ];
        for (directory, kind, prefix) in places {
            let names = match fs.children(&directory) {
                Err(error) if error.is_path_not_found() => continue,
                names => names?,
            };
            for name in names {
                let Some(parsed) = filename::parse(&name).filter(|parsed| parsed.kind == FileKind::Wal) else {
                    continue;
                };
                let path = directory.join(&name);
                // A WAL may be archived or removed while we look; then it is found in the archive or not needed.
                let (size_bytes, start_sequence) = match self.first_sequence_of(&path, parsed.number) {
                    Ok(Some(found)) => found,
                    Ok(None) => continue,
                    Err(error) if error.is_path_not_found() => continue,
                    Err(error) => return Err(error),
                };
                let path_name = format!("{prefix}{name}");
                wals.push(WalFile { path_name, number: parsed.number, kind, start_sequence, size_bytes });
            }
        }
        wals.sort_by_key(|wal| (wal.number, wal.kind != FileKind::ArchivedWal));
        wals.dedup_by_key(|wal| wal.number);
        Ok(wals)
    }

    /// The size of a WAL and the sequence number of its first batch; `None` when it has no batch.
    fn first_sequence_of(&self, path: &std::path::Path, number: FileNumber) -> Result<Option<(u64, SequenceNumber)>> {
        let fs = self.env.fs();
        let size_bytes = fs.file_size(path)?;
        let file = fs.new_sequential_file(path, &FileOptions::default())?;
        let mut reader = open_log(file, number, RecoveryMode::TolerateCorruptedTailRecords);
        if !reader.advance().map_err(|error| error.with_file(path))? {
            return Ok(None);
        }
        if reader.record().len() < batch::HEADER_SIZE {
            let error = Error::corruption("log record too small").with_file(path);
            return Err(error.with_offset(reader.record_offset()));
        }
        Ok(Some((size_bytes, batch::sequence(reader.record()))))
    }
}
