//! Files that nobody needs any more, and what is known of those that are live.
//!
//! Table files arrive here when the last version that has them goes; WALs when the MANIFEST says that their data is in
//! tables; MANIFEST and OPTIONS files when newer ones took their place. Always true here: a file is removed only when
//! neither a version, nor a running job, nor a MANIFEST that CURRENT may name, refers to it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use firn_env::log_info;
use firn_env::sync::atomic::Ordering;
use firn_error::Result;
use firn_format::filename::{self, FileKind};
use firn_format::key::{FileNumber, SequenceNumber};

use super::layout::table_path;
use super::{DbInner, DbState};
use crate::compaction::filter::TableCreationReason;
use crate::options::Temperature;
use crate::stats::table_events::TableReporter;

/// How many of the newest OPTIONS files are kept.
const KEPT_OPTIONS_FILES: usize = 2;

/// A live table file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveFile {
    /// The column family.
    pub column_family: String,
    /// The name of the file, with a leading slash as RocksDB has it.
    pub name: String,
    /// Its directory.
    pub directory: PathBuf,
    /// The number in its name.
    pub number: FileNumber,
    /// The level.
    pub level: usize,
    /// Bytes.
    pub size_bytes: u64,
    /// The least user key.
    pub smallest_key: Vec<u8>,
    /// The greatest user key.
    pub largest_key: Vec<u8>,
    /// The least sequence number.
    pub smallest_sequence: SequenceNumber,
    /// The greatest sequence number.
    pub largest_sequence: SequenceNumber,
    /// Entries, deletions included; 0 when the table was not opened yet.
    pub num_entries: u64,
    /// Deletions.
    pub num_deletions: u64,
    /// Whether a compaction works on it.
    pub being_compacted: bool,
    /// Orders the files of level 0.
    pub epoch_number: u64,
    /// How hot the data is said to be.
    pub temperature: Temperature,
}

/// What is to be removed; collected under the database mutex, removed without it.
#[derive(Default)]
struct Garbage {
    tables: Vec<(FileNumber, PathBuf)>,
    wals: Vec<FileNumber>,
    manifests: Vec<FileNumber>,
}

/// Removes, when it goes, the files that became obsolete with its owner. Declared as the last field of what keeps versions
/// alive: fields are dropped in the order of their declaration.
#[derive(Clone)]
pub(crate) struct PurgeAtEnd(pub(crate) Weak<DbInner>);

impl Drop for PurgeAtEnd {
    fn drop(&mut self) {
        if let Some(db) = self.0.upgrade() {
            db.purge_after_reader();
        }
    }
}

/// Files are being removed.
struct Removing<'a>(&'a DbInner);

impl Drop for Removing<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.removals_running -= 1;
        if state.deletions_disabled > 0 {
            self.0.background.notify_all();
        }
    }
}

impl DbInner {
    /// Removes tables and MANIFESTs that became obsolete and WALs that are no longer needed, as part of a job or as a job of
    /// its own.
    pub(crate) fn purge_obsolete_files(&self, job: Option<u64>) {
        if self.read_only {
            return;
        }
        let mut garbage = Garbage::default();
        let (min_log, _removing) = {
            let mut state = self.state.lock();
            let Some(removing) = self.start_removing(&mut state) else { return };
            self.collect_tables(&mut state, &mut garbage);
            garbage.manifests = state.versions.take_obsolete_manifests();
            (self.min_log_to_keep(&state), removing)
        };
        {
            // The old writer of a WAL must have closed it, which cuts the file, before anybody may write to the file again:
            // a recycled file cut by its former owner would lose records, and its mapping would fault.
            let _one_at_a_time = self.purging.lock();
            self.drop_closed_wals_below(min_log);
            let mut log = self.log.lock();
            let mut state = self.state.lock();
            self.collect_wals(&mut state, min_log, &mut garbage);
            self.measure_wals(&mut log, &state);
        }
        self.remove(&garbage, job);
    }

    /// Whoever disables deletions waits until what this returns is dropped; `None` when they are disabled already.
    fn start_removing<'a>(&'a self, state: &mut DbState) -> Option<Removing<'a>> {
        if state.deletions_disabled > 0 {
            return None;
        }
        state.removals_running += 1;
        Some(Removing(self))
    }

    /// Keeps all files from now on, until [`enable_file_deletions`](Self::enable_file_deletions) was called as often as this.
    /// When it returns, no removal that began before is still at work.
    pub(crate) fn disable_file_deletions(&self) -> Result<()> {
        self.check_writable()?;
        let mut state = self.state.lock();
        state.deletions_disabled += 1;
        while state.removals_running > 0 {
            self.wait_for_background(&mut state);
        }
        Ok(())
    }

    /// Takes one [`disable_file_deletions`](Self::disable_file_deletions) back; the last one removes what has piled up.
    pub(crate) fn enable_file_deletions(&self) -> Result<()> {
        self.check_writable()?;
        let enabled = {
            let mut state = self.state.lock();
            state.deletions_disabled = state.deletions_disabled.saturating_sub(1);
            state.deletions_disabled == 0
        };
        if enabled {
            self.purge_all_obsolete_files();
        }
        Ok(())
    }

    /// Makes the file manager know the live tables, and deletes what an earlier life left in the trash.
    pub(crate) fn track_files(&self) {
        self.for_each_table(|path, bytes| self.file_manager.on_add_file(path, bytes));
        let families = self.families.all();
        let options: Vec<_> = families.iter().map(|data| data.options()).collect();
        let mut dirs = self.layout.all_dirs(options.iter().map(AsRef::as_ref));
        if self.layout.has_own_wal_dir() {
            dirs.push(self.layout.wal_dir.clone());
        }
        for dir in dirs {
            if let Err(error) = self.file_manager.clean_up_directory(&dir) {
                log_info!(self.logger(), "Could not empty the trash of {}: {error}", dir.display());
            }
        }
    }

    /// Makes the file manager, which may be that of other databases too, forget the tables.
    pub(crate) fn untrack_files(&self) {
        self.for_each_table(|path, _| self.file_manager.on_delete_file(path));
    }

    fn for_each_table(&self, visit: impl Fn(&Path, u64)) {
        for data in self.families.all() {
            let version = Arc::clone(&data.super_version.current().version);
            for (_, file) in version.all_files() {
                visit(&table_path(&data.table_dirs, file.path_id, file.number), file.file_size);
            }
        }
    }

    /// Removes what became obsolete with a reader that has just gone, if anything did.
    #[inline]
    pub(crate) fn purge_after_reader(&self) {
        if self.obsolete.is_pending() && !self.closing.load(Ordering::Acquire) {
            self.purge_obsolete_files(None);
        }
    }

    fn collect_tables(&self, state: &mut DbState, garbage: &mut Garbage) {
        let obsolete = Arc::clone(state.versions.obsolete());
        if !obsolete.is_pending() {
            return;
        }
        for file in obsolete.take_tables() {
            let Ok(tables) = self.tables.family(file.column_family) else { continue };
            tables.evict(file.number);
            let dirs = &tables.options().spec.paths;
            garbage.tables.push((file.number, table_path(dirs, file.path_id, file.number)));
        }
    }

    /// WALs below this hold nothing that is still needed.
    pub(crate) fn min_log_to_keep(&self, state: &DbState) -> FileNumber {
        let min_log = state.versions.min_log_number_to_keep();
        state.oldest_prepared_wal.map_or(min_log, |prepared| min_log.min(prepared))
    }

    /// Takes WALs below `min_log`, whose writers are gone, off the list; those that are to be used again stay on disk.
    fn collect_wals(&self, state: &mut DbState, min_log: FileNumber, garbage: &mut Garbage) {
        let keep = self.options().recycle_log_file_num;
        while state.live_wals.len() > 1
            && let Some(wal) = state.live_wals.front().filter(|wal| wal.number < min_log)
        {
            let number = wal.number;
            state.live_wals.pop_front();
            if state.recycled_wals.len() < keep && number >= state.first_own_wal {
                state.recycled_wals.push_back(number);
            } else {
                garbage.wals.push(number);
            }
        }
    }

    fn remove(&self, garbage: &Garbage, job: Option<u64>) {
        if !garbage.tables.is_empty() {
            let reporter = self.deletion_reporter(job);
            for (number, path) in &garbage.tables {
                let leveldb = path.with_extension("ldb");
                let is_leveldb = !self.env.fs().file_exists(path).unwrap_or(true)
                    && self.env.fs().file_exists(&leveldb).unwrap_or(false);
                self.remove_table(&reporter, *number, if is_leveldb { &leveldb } else { path });
            }
        }
        for number in &garbage.wals {
            self.remove_wal(*number);
        }
        for number in &garbage.manifests {
            self.remove_file(&self.layout.db_dir.join(filename::manifest(*number)));
        }
    }

    fn remove_wal(&self, number: FileNumber) {
        let options = self.options();
        let path = self.layout.wal(number);
        if options.wal_ttl_seconds == 0 && options.wal_size_limit_mb == 0 {
            let manager = &self.file_manager;
            // Beside the tables a WAL is deleted at their rate, but never hurried by the amount of trash.
            let removed = if self.layout.has_own_wal_dir() {
                self.env.fs().remove_file(&path)
            } else {
                manager.delete_file(&path, None, true)
            };
            // What stays behind goes with the next look through the directories.
            let _ = self.unless_missing(&path, removed);
            return;
        }
        let archived = self.layout.archive_dir().join(filename::wal(number));
        if let Err(error) = self.env.fs().rename(&path, &archived) {
            log_info!(self.logger(), "Could not archive WAL {number}: {error}");
        }
        self.purge_archive();
    }

    /// Removes archived WALs that are too old or too many.
    fn purge_archive(&self) {
        let options = self.options();
        let (fs, dir) = (self.env.fs(), self.layout.archive_dir());
        let mut wals: Vec<(FileNumber, PathBuf)> = fs
            .children(&dir)
            .unwrap_or_default()
            .iter()
            .filter_map(|name| filename::parse(name).map(|parsed| (parsed.number, dir.join(name))))
            .collect();
        wals.sort();
        let now = self.env.clock().now_secs();
        if options.wal_ttl_seconds > 0 {
            wals.retain(|(_, path)| {
                let written = fs.modification_time_secs(path).unwrap_or(now);
                let expired = now.saturating_sub(written) > options.wal_ttl_seconds;
                if expired {
                    self.remove_file(path);
                }
                !expired
            });
        }
        if options.wal_size_limit_mb > 0 {
            let sizes: Vec<u64> = wals.iter().map(|(_, path)| fs.file_size(path).unwrap_or(0)).collect();
            let largest = sizes.iter().copied().max().unwrap_or(0);
            if let Some(keep) = (options.wal_size_limit_mb << 20).checked_div(largest) {
                let surplus = wals.len().saturating_sub(usize::try_from(keep).unwrap_or(usize::MAX));
                wals.iter().take(surplus).for_each(|(_, path)| self.remove_file(path));
            }
        }
    }

    fn deletion_reporter(&self, job: Option<u64>) -> TableReporter {
        let job = job.unwrap_or_else(|| self.state.lock().new_job_id());
        self.table_reporter(job, TableCreationReason::Misc, "")
    }

    fn remove_table(&self, reporter: &TableReporter, number: FileNumber, path: &Path) {
        let removed = self.unless_missing(path, self.file_manager.delete_file(path, None, false));
        if removed.is_ok() {
            self.file_manager.on_delete_file(path);
        }
        reporter.deleted(path, number.get(), removed.as_ref().err());
    }

    fn remove_file(&self, path: &Path) {
        // What stays behind goes with the next look through the directories.
        let _ = self.unless_missing(path, self.env.fs().remove_file(path));
    }

    /// What came of removing a file; one that is not there is as good as removed.
    fn unless_missing(&self, path: &Path, removed: Result<()>) -> Result<()> {
        match removed {
            Err(error) if !error.is_path_not_found() => {
                log_info!(self.logger(), "Could not delete {}: {error}", path.display());
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// Looks through all directories for files that nobody refers to, and removes them.
    pub(crate) fn purge_all_obsolete_files(&self) {
        self.purge_obsolete_files(None);
        let names = self.list_directories();
        let (live, pending, min_log, current, wals, first_of_run, _removing) = {
            let mut state = self.state.lock();
            let Some(removing) = self.start_removing(&mut state) else { return };
            let wals: HashSet<FileNumber> =
                state.live_wals.iter().map(|wal| wal.number).chain(state.recycled_wals.iter().copied()).collect();
            (
                state.versions.live_tables(),
                // Numbers handed out after the directories were listed belong to files that are not in the lists.
                state.pending_outputs.first().copied().unwrap_or(FileNumber(u64::MAX)),
                state.versions.min_log_number_to_keep(),
                state.versions.manifest_number(),
                wals,
                state.first_own_wal,
                removing,
            )
        };
        let mut options_files: Vec<(FileNumber, PathBuf)> = Vec::new();
        let mut reporter = None;
        for (dir, name) in names {
            let path = dir.join(&name);
            let Some(parsed) = filename::parse(&name) else { continue };
            let number = parsed.number;
            let garbage = match parsed.kind {
                FileKind::Table => !live.contains(&number) && number < pending,
                FileKind::Wal => number < min_log && !wals.contains(&number),
                FileKind::Manifest => number < current,
                // Those of this run may be being written: OPTIONS by anybody, CURRENT by a change of the MANIFEST.
                FileKind::Temp => number < first_of_run,
                FileKind::Options => {
                    options_files.push((number, path.clone()));
                    false
                }
                _ => false,
            };
            if garbage {
                match parsed.kind {
                    FileKind::Wal => self.remove_wal(number),
                    FileKind::Table => {
                        let reporter = reporter.get_or_insert_with(|| self.deletion_reporter(None));
                        self.remove_table(reporter, number, &path);
                    }
                    FileKind::Manifest if !self.state.lock().versions.is_manifest_obsolete(number) => {}
                    _ => self.remove_file(&path),
                }
            }
        }
        self.remove_surplus_options_files(options_files);
    }

    fn list_directories(&self) -> Vec<(PathBuf, String)> {
        let families = self.families.all();
        let options: Vec<_> = families.iter().map(|data| data.options()).collect();
        let mut dirs = self.layout.all_dirs(options.iter().map(AsRef::as_ref));
        if self.layout.has_own_wal_dir() {
            dirs.push(self.layout.wal_dir.clone());
        }
        let list = |dir: PathBuf| {
            let names = self.env.fs().children(&dir).unwrap_or_default();
            names.into_iter().map(move |name| (dir.clone(), name)).collect::<Vec<_>>()
        };
        dirs.into_iter().flat_map(list).collect()
    }

    /// What is known of every live table file.
    pub(crate) fn live_files(&self) -> Vec<LiveFile> {
        let mut live = Vec::new();
        for data in self.families.all() {
            let version = Arc::clone(&data.super_version.current().version);
            for (level, file) in version.all_files() {
                let stats = file.stats().copied().unwrap_or_default();
                let directory = data.table_dirs.get(file.path_id as usize).or(data.table_dirs.first()).cloned();
                live.push(LiveFile {
                    column_family: data.name.clone(),
                    name: format!("/{}", filename::table(file.number)),
                    directory: directory.unwrap_or_default(),
                    number: file.number,
                    level,
                    size_bytes: file.file_size,
                    smallest_key: file.smallest.user_key().to_vec(),
                    largest_key: file.largest.user_key().to_vec(),
                    smallest_sequence: file.smallest_sequence,
                    largest_sequence: file.largest_sequence,
                    num_entries: stats.num_entries,
                    num_deletions: stats.num_deletions,
                    being_compacted: file.being_compacted(),
                    epoch_number: file.epoch_number,
                    temperature: Temperature::from_number(file.temperature.0).unwrap_or_default(),
                });
            }
        }
        live
    }

    /// Writes the OPTIONS file of what is in force now: temporary file, sync, rename, directory sync.
    ///
    /// # Errors
    /// `IoError` naming the file.
    pub(crate) fn write_options_file(&self) -> Result<()> {
        if !self.opened.load(Ordering::Acquire) || self.read_only {
            return Ok(());
        }
        let families = self.families.all();
        let cf_options: Vec<_> = families.iter().map(|data| (data.name.clone(), data.options())).collect();
        let (temporary, last) = {
            let state = self.state.lock();
            (state.versions.new_file_number(), state.versions.new_file_number())
        };
        let db = self.options();
        let names = cf_options.iter().map(|(name, options)| (name.as_str(), &**options));
        crate::options::write_options_file(&**self.env.fs(), &self.path, temporary.get(), last.get(), &db, names)?;
        self.remove_old_options_files();
        Ok(())
    }

    /// Removes the OPTIONS files before the newest ones, unless nothing may be removed now.
    fn remove_old_options_files(&self) {
        let Some(_removing) = self.start_removing(&mut self.state.lock()) else { return };
        let names = self.env.fs().children(&self.path).unwrap_or_default();
        let of_options = |name: &String| filename::parse(name).filter(|parsed| parsed.kind == FileKind::Options);
        let files = names.iter().filter_map(|name| Some((of_options(name)?.number, self.path.join(name))));
        self.remove_surplus_options_files(files.collect());
    }

    fn remove_surplus_options_files(&self, mut files: Vec<(FileNumber, PathBuf)>) {
        files.sort();
        let surplus = files.len().saturating_sub(KEPT_OPTIONS_FILES);
        files.iter().take(surplus).for_each(|(_, path)| self.remove_file(path));
    }
}
