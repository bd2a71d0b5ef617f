//! Opening, creating, listing and destroying databases.
//!
//! A directory and options flow in, a running [`Db`] flows out. The order of steps is RocksDB's (`docs/format/directory.md`,
//! Opening): everything is read and checked first; then the new WAL is made, then one MANIFEST record set makes the
//! recovered state durable and the old WALs obsolete. Always true here: an open that is refused, for whatever the database
//! or the options ask that Firn does not do or that is not there, has changed nothing in the directory. Only an empty LOCK
//! may be new in it; the info log begins after all that can refuse.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use firn_env::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use firn_env::sync::{Condvar, Mutex, RwLock};
use firn_env::{
    Env, FileLock, FileLogger, FileSystem, InfoLogOptions, LogLevel, Logger, NullLogger, SstFileManager,
    SstFileManagerOptions, create_dir_all, thread,
};
use firn_error::{Error, Result};
use firn_format::comparator::InternalKeyComparator;
use firn_format::filename::{self, FileKind};
use firn_format::key::FileNumber;
use firn_format::unique_id::encode_session_id;
use firn_format::version_edit::VersionEdit;

use super::column_family::{FamilyIdentity, FamilyRegistry, FamilyState};
use super::file_events::ObservedFileSystem;
use super::handle::{ColumnFamilyDescriptor, DEFAULT_COLUMN_FAMILY_NAME, Db};
use super::layout::{DirectoryHandles, Layout};
use super::log_ahead::LogAhead;
use super::recovery::Purpose;
use super::snapshot::SnapshotList;
use super::tables::Tables;
use super::workers::Workers;
use super::write::LogState;
use super::{DbInner, DbState};
use crate::compaction::picker::levels_to_push_down;
use crate::options::{
    ColumnFamilyOptions, DbOptions, Dialect, InfoLogLevel, OptionSet, TableFactory, check_options_text,
    sanitize_column_family_options, sanitize_db_options, validate_column_family_options, validate_db_options,
};
use crate::stats::Listeners;
use crate::version::{
    FamilySpec, ManifestChange, OpenMode, VersionSet, VersionSetOptions, best_efforts_column_families,
    column_families_in_manifest, create_database, manifests,
};
use crate::write::controller::WriteController;
use crate::write::group::WriteThread;

/// Whether the database may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Everything.
    ReadWrite,
    /// Nothing on disk changes, no lock is taken.
    ReadOnly,
    /// As much as recovery changes; then the caller repairs what it found. No OPTIONS file is written and no background work
    /// starts.
    Repair,
}

impl Mode {
    fn writes(self) -> bool {
        self != Self::ReadOnly
    }

    fn purpose(self) -> Purpose {
        match self {
            Self::ReadWrite => Purpose::Write,
            Self::ReadOnly => Purpose::Read,
            Self::Repair => Purpose::Repair,
        }
    }
}

/// Numbers the databases of this process, to tell their handles apart.
static INSTANCES: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);

/// Opens the database at `path`; see [`Db::open_cf`].
pub(crate) fn open(
    path: &Path,
    options: DbOptions,
    mut descriptors: Vec<ColumnFamilyDescriptor>,
    mode: Mode,
) -> Result<Db> {
    let options = sanitize_db_options(&options, path, options.env.open_file_limit(), None);
    validate_db_options(&options)?;
    for descriptor in &mut descriptors {
        descriptor.options = sanitize_column_family_options(&options, &descriptor.options, mode == Mode::ReadOnly);
        refuse_unsupported(&descriptor.name, &descriptor.options)?;
        validate_column_family_options(&options, &descriptor.name, &descriptor.options)?;
    }
    if !descriptors.iter().any(|descriptor| descriptor.name == DEFAULT_COLUMN_FAMILY_NAME) {
        return Err(Error::invalid_argument("Default column family not specified"));
    }
    let mut env = options.env.clone();
    let listeners = Listeners::new(&options.listeners);
    let of_file_io = listeners.of_file_io();
    if !of_file_io.is_empty() {
        let observed = ObservedFileSystem::new(Arc::clone(env.fs()), of_file_io, Arc::clone(env.clock()));
        env = env.over_file_system(Arc::new(observed));
    }
    Opening { layout: Layout::new(path, &options), env, options, descriptors, mode, listeners }.run()
}

/// What Firn does not act on, although RocksDB does, and cannot ignore without changing what the database means.
pub(crate) fn refuse_unsupported(name: &str, options: &ColumnFamilyOptions) -> Result<()> {
    let refuse = |what: &str| Err(Error::not_supported(format!("{what} (column family {name:?})")));
    match &options.table_factory {
        TableFactory::BlockBased(_) => {}
        TableFactory::Plain(_) => return refuse("plain tables"),
        TableFactory::Cuckoo(_) => return refuse("cuckoo tables"),
    }
    if options.comparator.timestamp_size() > 0 {
        return refuse("user-defined timestamps");
    }
    if options.inplace_update_support {
        return refuse("in-place updates");
    }
    Ok(())
}

/// What names the database and this run of it.
struct Identity {
    db_id: String,
    session_id: String,
}

/// Families to open that exist, with their ids.
type Existing<'a> = Vec<(u32, &'a ColumnFamilyDescriptor)>;

/// Families to open that are to be created.
type Missing<'a> = Vec<&'a ColumnFamilyDescriptor>;

/// An open in progress.
struct Opening {
    layout: Layout,
    env: Env,
    options: DbOptions,
    descriptors: Vec<ColumnFamilyDescriptor>,
    mode: Mode,
    listeners: Listeners,
}

impl Opening {
    fn fs(&self) -> &Arc<dyn FileSystem> {
        self.env.fs()
    }

    fn run(self) -> Result<Db> {
        let exists = if self.options.best_efforts_recovery {
            !manifests(&**self.fs(), &self.layout.db_dir)?.is_empty()
        } else {
            self.fs().file_exists(&self.layout.db_dir.join(filename::CURRENT))?
        };
        self.check_existence(exists)?;
        self.check_options(exists)?;
        let lock = match self.mode {
            Mode::ReadOnly => None,
            Mode::ReadWrite | Mode::Repair => {
                create_dir_all(&**self.fs(), &self.layout.db_dir)?;
                Some(self.fs().lock_file(&self.layout.db_dir.join(filename::LOCK))?)
            }
        };
        // The lock file stays whatever becomes of the open: others may have opened it meanwhile, and to lock a file that has
        // no name any more keeps nobody out.
        if exists { self.open_existing(lock) } else { self.create_and_open(lock) }
    }

    /// Refuses options that cannot be written to an OPTIONS file and read back, before anything is changed.
    fn check_options(&self, exists: bool) -> Result<()> {
        if self.mode != Mode::ReadWrite {
            return Ok(());
        }
        let unknown = |descriptor: &ColumnFamilyDescriptor| descriptor.options.kept.0.get("comparator").cloned();
        if !exists && let Some(name) = self.descriptors.iter().find_map(unknown) {
            // For a database that exists the MANIFEST tells.
            return Err(Error::not_supported(format!("Could not load Comparator: {name}")));
        }
        let mut families: Vec<_> =
            self.descriptors.iter().map(|family| (family.name.as_str(), &family.options)).collect();
        // The order of the file.
        families.sort_by_key(|(name, _)| *name != DEFAULT_COLUMN_FAMILY_NAME);
        check_options_text(&self.options, families.iter().copied())
    }

    fn check_existence(&self, exists: bool) -> Result<()> {
        let db = self.layout.db_dir.display();
        if exists && self.options.error_if_exists && self.mode.writes() {
            return Err(Error::invalid_argument(format!("{db}: exists (error_if_exists is true)")));
        }
        if !exists && (self.mode == Mode::ReadOnly || !self.options.create_if_missing) {
            return Err(Error::invalid_argument(format!("{db}/CURRENT: does not exist (create_if_missing is false)")));
        }
        Ok(())
    }

    /// Writes the files of an empty database, then opens it.
    fn create_and_open(self, lock: Option<Box<dyn FileLock>>) -> Result<Db> {
        let fs = self.fs();
        for dir in self.directories() {
            create_dir_all(&**fs, &dir)?;
        }
        let leftover = fs
            .children(&self.layout.wal_dir)?
            .into_iter()
            .find(|name| filename::parse(name).is_some_and(|parsed| parsed.kind == FileKind::Wal));
        if let Some(name) = leftover {
            return Err(Error::corruption(format!(
                "While creating a new Db, wal_dir contains existing log file: : {name}"
            )));
        }
        let db_id = self.env.generate_uuid();
        if self.options.write_identity_file {
            write_identity(&**fs, &self.layout.db_dir, &db_id)?;
        }
        let in_manifest = self.options.write_dbid_to_manifest.then_some(db_id.as_str());
        create_database(&**fs, &self.layout.db_dir, in_manifest)?;
        self.open_existing(lock)
    }

    fn directories(&self) -> Vec<PathBuf> {
        let mut dirs = self.layout.all_dirs(self.descriptors.iter().map(|descriptor| &descriptor.options));
        if self.layout.has_own_wal_dir() {
            dirs.push(self.layout.wal_dir.clone());
        }
        if self.options.wal_ttl_seconds > 0 || self.options.wal_size_limit_mb > 0 {
            dirs.push(self.layout.archive_dir());
        }
        dirs
    }

    fn open_existing(self, lock: Option<Box<dyn FileLock>>) -> Result<Db> {
        let fs = Arc::clone(self.fs());
        let tables = Arc::new(Tables::new(&self.options));
        let entropy = self.env.entropy();
        let session_id = encode_session_id(entropy.next_u64(), entropy.next_u64());
        let set_options = VersionSetOptions {
            max_manifest_file_size: self.options.max_manifest_file_size,
            max_manifest_space_amp_pct: self.options.max_manifest_space_amp_pct,
            write_dbid_to_manifest: self.options.write_dbid_to_manifest,
            best_efforts: self.options.best_efforts_recovery,
            stats: Arc::clone(&tables) as _,
            ..VersionSetOptions::new(Arc::clone(&fs), &self.layout.db_dir)
        };
        let (here, missing) = self.split_by_existence()?;
        let specs = here.iter().map(|(_, descriptor)| self.family_spec(descriptor)).collect();
        for (id, descriptor) in &here {
            let spec = self.family_spec(descriptor);
            tables.set_family(*id, spec, &descriptor.options, &self.options, &fs, &self.layout.db_dir, &session_id);
        }
        let mode = match self.mode {
            Mode::ReadWrite | Mode::Repair => OpenMode::ReadWrite,
            Mode::ReadOnly => OpenMode::ReadOnly,
        };
        let (mut versions, recovered) = VersionSet::recover(set_options, specs, mode)?;
        refuse_unsupported_files(&versions)?;
        let db_id = match self.identity(&versions)? {
            Some(id) => id,
            None => self.env.generate_uuid(),
        };
        if versions.db_id().is_none() {
            versions.set_db_id(db_id.clone());
        }
        self.skip_existing_numbers(&versions)?;
        let db = self.build(versions, tables, Identity { db_id, session_id }, lock)?;
        let mut state = db.state.lock();
        db.tables.preload(&state.versions, &self.options)?;
        let mut replayed = db.replay_wals(&mut state, self.mode.purpose())?;
        if self.mode.writes() {
            for dir in self.directories() {
                create_dir_all(&*fs, &dir)?;
            }
            db.set_logger(self.logger()?);
            self.log_start(&db);
            if let Some(job) = replayed.job {
                db.report_recovery_begin(job.id, &replayed.wals);
            }
            for line in &replayed.warnings {
                firn_env::log_warn!(db.logger(), "{line}");
            }
            for line in recovered.warnings.iter().chain(&replayed.notices) {
                firn_env::log_info!(db.logger(), "{line}");
            }
            db.set_directories(DirectoryHandles::open(&*fs, &self.layout)?);
            let first_batches: Vec<&[u8]> =
                replayed.resume_marker.iter().chain(&replayed.carried).map(Vec::as_slice).collect();
            db.start_first_wal(&mut state, &first_batches)?;
            if !replayed.carried.is_empty() {
                state.oldest_prepared_wal = Some(state.first_own_wal);
            }
            let mut edits = std::mem::take(&mut replayed.edits);
            if !self.options.track_and_verify_wals_in_manifest
                && let Some(last) = state.versions.wals().last_number()
            {
                edits.push(VersionEdit { wal_deletion: Some(FileNumber(last.0 + 1)), ..VersionEdit::default() });
            }
            edits.extend(state.versions.families().filter_map(|family| {
                let options = db.picker_options(&state, family.id())?;
                levels_to_push_down(family.current(), &options)
            }));
            let first_new = state.first_own_wal;
            if self.options.best_efforts_recovery {
                edits.extend(Self::without_wals(&state, first_new));
            }
            if edits.is_empty() {
                edits.push(VersionEdit::default());
            }
            for wal in std::mem::take(&mut replayed.kept_wals).into_iter().rev() {
                state.live_wals.push_front(wal);
            }
            let change = ManifestChange { edits, new_manifest: true, ..ManifestChange::default() };
            VersionSet::log_and_apply(&mut state, change)?;
            state.release_outputs(&replayed.outputs);
            if self.options.best_efforts_recovery {
                self.set_wals_aside(first_new)?;
            }
            if let Some(job) = replayed.job {
                db.report_recovery_end(job.id);
            }
            if self.options.write_identity_file {
                self.repair_identity(&db)?;
            }
        } else {
            for line in replayed.notices.iter().chain(&replayed.warnings) {
                firn_env::log_info!(db.logger(), "{line}");
            }
        }
        db.install_all_super_versions(&mut state);
        drop(state);
        for descriptor in missing {
            db.create_column_family(&descriptor.name, descriptor.options.clone())?;
        }
        db.opened.store(self.mode != Mode::Repair, Ordering::Release);
        if self.mode == Mode::ReadWrite {
            db.write_options_file()?;
            db.track_files();
            db.purge_all_obsolete_files();
            db.start_background_work();
        } else if self.mode == Mode::Repair {
            db.purge_all_obsolete_files();
        }
        let default = db.families.by_name(DEFAULT_COLUMN_FAMILY_NAME);
        let default = default.ok_or_else(|| Error::corruption("the database has no default column family"))?;
        if self.mode == Mode::ReadWrite {
            db.start_periodic_work();
        }
        Ok(Db::from_inner(db, default))
    }

    /// Best-efforts recovery reads no WAL, since what they hold may not fit what is left of the tables: these edits say that
    /// no family needs them.
    fn without_wals(state: &DbState, first_new: FileNumber) -> Vec<VersionEdit> {
        let of_family = |family: &crate::version::FamilyVersions| VersionEdit {
            column_family: family.id(),
            log_number: Some(first_new),
            ..VersionEdit::default()
        };
        let mut edits: Vec<VersionEdit> = state.versions.families().map(of_family).collect();
        edits.push(VersionEdit { min_log_number_to_keep: Some(first_new), ..VersionEdit::default() });
        edits
    }

    /// Moves WALs that were not read to the archive, for whoever wants to look into them: no open does.
    fn set_wals_aside(&self, first_new: FileNumber) -> Result<()> {
        let (fs, archive) = (self.fs(), self.layout.archive_dir());
        for name in fs.children(&self.layout.wal_dir)? {
            let old = filename::parse(&name).filter(|parsed| parsed.kind == FileKind::Wal && parsed.number < first_new);
            if old.is_some() {
                create_dir_all(&**fs, &archive)?;
                fs.rename(&self.layout.wal_dir.join(&name), &archive.join(&name))?;
            }
        }
        Ok(())
    }

    fn file_manager(&self) -> Arc<SstFileManager> {
        let own = || {
            let (fs, clock) = (Arc::clone(self.fs()), Arc::clone(self.env.clock()));
            Arc::new(SstFileManager::new(fs, clock, Arc::new(NullLogger), SstFileManagerOptions::default()))
        };
        self.options.sst_file_manager.clone().unwrap_or_else(own)
    }

    /// The descriptors of families that exist, and of those that are to be created.
    fn split_by_existence(&self) -> Result<(Existing<'_>, Missing<'_>)> {
        let existing = if self.options.best_efforts_recovery {
            best_efforts_column_families(&**self.fs(), &self.layout.db_dir)?
        } else {
            column_families_in_manifest(&**self.fs(), &self.layout.db_dir)?
        };
        let (mut here, mut missing) = (Vec::new(), Vec::new());
        for descriptor in &self.descriptors {
            match existing.id_of(&descriptor.name) {
                Some(id) => here.push((id, descriptor)),
                None => missing.push(descriptor),
            }
        }
        if let Some(first) = missing.first()
            && (!self.options.create_missing_column_families || self.mode == Mode::ReadOnly)
        {
            return Err(Error::invalid_argument(format!("Column family not found: {}", first.name)));
        }
        Ok((here, missing))
    }

    fn family_spec(&self, descriptor: &ColumnFamilyDescriptor) -> FamilySpec {
        family_spec(&descriptor.name, &descriptor.options, &self.options, &self.layout)
    }

    /// The identity of the database: the MANIFEST's, else the IDENTITY file's.
    fn identity(&self, versions: &VersionSet) -> Result<Option<String>> {
        if let Some(id) = versions.db_id() {
            return Ok(Some(id.to_owned()));
        }
        read_identity(&**self.fs(), &self.layout.db_dir)
    }

    fn repair_identity(&self, db: &DbInner) -> Result<()> {
        if read_identity(&**self.fs(), &self.layout.db_dir)?.as_deref() == Some(db.db_id.as_str()) {
            return Ok(());
        }
        write_identity(&**self.fs(), &self.layout.db_dir, &db.db_id)
    }

    /// Never hands out the number of a file that lies in a directory, known to the MANIFEST or not.
    ///
    /// # Errors
    /// `Corruption` naming a file with a number that is too large; the file system's.
    fn skip_existing_numbers(&self, versions: &VersionSet) -> Result<()> {
        for dir in self.layout.all_dirs(self.descriptors.iter().map(|descriptor| &descriptor.options)) {
            let names = match self.fs().children(&dir) {
                Ok(names) => names,
                Err(error) if error.is_path_not_found() => continue,
                Err(error) => return Err(error),
            };
            // The number of an old info log is a time, not a file number.
            let numbered = names.iter().filter_map(|name| Some((name, filename::parse(name)?)));
            for (name, parsed) in numbered.filter(|(_, parsed)| parsed.kind != FileKind::InfoLog) {
                // The next number after it would come round to the smallest.
                let number = parsed.number.checked("file number").map_err(|error| error.with_file(dir.join(name)))?;
                versions.numbers().mark_used(number);
            }
        }
        Ok(())
    }

    fn logger(&self) -> Result<Arc<dyn Logger>> {
        if let Some(logger) = &self.options.info_log {
            return Ok(calm(logger));
        }
        let level = match self.options.info_log_level {
            InfoLogLevel::Debug => LogLevel::Debug,
            InfoLogLevel::Info => LogLevel::Info,
            InfoLogLevel::Warn => LogLevel::Warn,
            InfoLogLevel::Error => LogLevel::Error,
            InfoLogLevel::Fatal => LogLevel::Fatal,
            InfoLogLevel::Header => LogLevel::Header,
        };
        let options = InfoLogOptions {
            level,
            max_log_file_size: self.options.max_log_file_size as u64,
            log_file_time_to_roll: self.options.log_file_time_to_roll as u64,
            keep_log_file_num: self.options.keep_log_file_num,
        };
        let path = if self.options.db_log_dir.is_empty() {
            self.layout.db_dir.join(filename::INFO_LOG)
        } else {
            let db = self.fs().absolute_path(&self.layout.db_dir)?;
            let prefix = filename::info_log_prefix(&db.to_string_lossy());
            let dir = PathBuf::from(&self.options.db_log_dir);
            create_dir_all(&**self.fs(), &dir)?;
            dir.join(prefix)
        };
        let logger = FileLogger::open(Arc::clone(self.fs()), Arc::clone(self.env.clock()), &path, options)?;
        Ok(Arc::new(logger))
    }

    fn log_start(&self, db: &DbInner) {
        if !db.logger().is_enabled(firn_env::LogLevel::Header) {
            return;
        }
        // Benchmark scripts look for these two lines, the version and the commit in the fifth word.
        let follows = crate::options::ROCKSDB_VERSION;
        firn_env::log_header!(db.logger(), "RocksDB version: {}.{}.{}", follows.major, follows.minor, follows.patch);
        firn_env::log_header!(db.logger(), "Git sha 0");
        firn_env::log_header!(db.logger(), "Firn version: {}", env!("CARGO_PKG_VERSION"));
        firn_env::log_header!(db.logger(), "DB SUMMARY");
        firn_env::log_header!(db.logger(), "Host name (Env):  {}", self.env.host_name());
        firn_env::log_header!(db.logger(), "DB Session ID:  {}", db.session_id);
        firn_env::log_header!(db.logger(), "DB ID:  {}", db.db_id);
        let log_options = |entries: Vec<(String, String)>| {
            for (name, text) in entries {
                firn_env::log_header!(db.logger(), "{:>48}: {text}", format!("Options.{name}"));
            }
        };
        let warn = |place: &str, ineffective: Vec<(String, String)>| {
            for (name, text) in ineffective {
                firn_env::log_warn!(db.logger(), "{place}{name}={text} has no effect");
            }
        };
        log_options(self.options.entries(Dialect::RocksDb11));
        warn("", self.options.ineffective());
        for descriptor in &self.descriptors {
            let (name, options) = (&descriptor.name, &descriptor.options);
            firn_env::log_header!(db.logger(), "--------------- Options for column family [{name}]:");
            log_options(options.entries(Dialect::RocksDb11));
            log_options(options.table_factory.entries(Dialect::RocksDb11));
            warn(&format!("[{name}] "), options.ineffective());
            if let Some(table) = options.table_factory.block_based() {
                warn(&format!("[{name}] "), table.ineffective());
            }
        }
    }

    /// The running state, with empty memtables and nothing started.
    fn build(
        &self,
        versions: VersionSet,
        tables: Arc<Tables>,
        identity: Identity,
        lock: Option<Box<dyn FileLock>>,
    ) -> Result<Arc<DbInner>> {
        let instance = INSTANCES.fetch_add(1, Ordering::Relaxed);
        let families = FamilyRegistry::default();
        let controller = WriteController::new(self.options.delayed_write_rate);
        let mut states = BTreeMap::new();
        for family in versions.families() {
            let Some(descriptor) = self.descriptors.iter().find(|d| d.name == family.spec().name) else { continue };
            let family_identity = FamilyIdentity {
                id: family.id(),
                name: descriptor.name.clone(),
                owner: instance,
                table_dirs: self.layout.table_dirs(&descriptor.options),
                opened_micros: self.env.clock().now_micros(),
            };
            let options = Arc::new(descriptor.options.clone());
            let version = Arc::clone(family.current());
            let open_tables = tables.family(family.id())?;
            let earliest = versions.last_sequence();
            let state = FamilyState::new(family_identity, options, open_tables, version, earliest, &controller);
            families.add(&state.data);
            states.insert(family.id(), state);
        }
        Ok(Arc::new_cyclic(|this: &Weak<DbInner>| {
            let visible = Arc::clone(versions.last_sequence_cell());
            DbInner {
                this: Weak::clone(this),
                instance,
                path: self.layout.db_dir.clone(),
                layout: self.layout.clone(),
                env: self.env.clone(),
                read_only: self.mode == Mode::ReadOnly,
                db_id: identity.db_id,
                session_id: identity.session_id,
                options: RwLock::new(Arc::new(self.options.clone())),
                logger: RwLock::new(self.options.info_log.as_ref().map_or_else(|| Arc::new(NullLogger) as _, calm)),
                directories: RwLock::new(None),
                tables,
                families,
                snapshots: Arc::new(SnapshotList::default()),
                purging: Mutex::new(()),
                obsolete: Arc::clone(versions.obsolete()),
                visible,
                writers: WriteThread::new(
                    usize::try_from(self.options.max_write_batch_group_size_bytes).unwrap_or(usize::MAX),
                ),
                log: Mutex::new(LogState::default()),
                log_ahead: LogAhead::default(),
                attention: AtomicU32::new(0),
                unlooked_bytes: AtomicU64::new(0),
                state: Mutex::new(DbState::new(versions, states, controller)),
                background: Condvar::new(),
                periodic: Condvar::new(),
                stats_history: Mutex::default(),
                opened: AtomicBool::new(false),
                workers: Workers::default(),
                has_unlogged_data: AtomicBool::new(false),
                closing: AtomicBool::new(false),
                lock: Mutex::new(lock),
                statistics: self.options.statistics.clone(),
                listeners: self.listeners.clone(),
                file_manager: self.file_manager(),
                rate_limiter: self.options.rate_limiter.clone(),
            }
        }))
    }
}

/// What the versions of a family are opened with.
pub(crate) fn family_spec(name: &str, cf: &ColumnFamilyOptions, db: &DbOptions, layout: &Layout) -> FamilySpec {
    FamilySpec {
        name: name.to_owned(),
        order: InternalKeyComparator::new(Arc::clone(&cf.comparator)),
        num_levels: usize::try_from(cf.num_levels).unwrap_or(1).max(1),
        force_consistency_checks: cf.force_consistency_checks,
        allow_ingest_behind: db.allow_ingest_behind || cf.cf_allow_ingest_behind,
        paths: layout.table_dirs(cf),
    }
}

/// Files that Firn cannot read although the MANIFEST is fine.
fn refuse_unsupported_files(versions: &VersionSet) -> Result<()> {
    for family in versions.families() {
        if let Some(number) = family.current().blob_files().keys().next() {
            let name = &family.spec().name;
            return Err(Error::not_supported(format!("blob files, such as {number} (column family {name:?})")));
        }
    }
    Ok(())
}

/// The contents of the IDENTITY file, unless it is missing or empty.
fn read_identity(fs: &dyn FileSystem, db_dir: &Path) -> Result<Option<String>> {
    let path = db_dir.join(filename::IDENTITY);
    if !fs.file_exists(&path)? {
        return Ok(None);
    }
    let bytes = firn_env::read_file(fs, &path, 64 << 10)?;
    let text = String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned();
    Ok((!text.is_empty()).then_some(text))
}

/// Replaces the IDENTITY file: temporary file, sync, rename, directory sync.
fn write_identity(fs: &dyn FileSystem, db_dir: &Path, id: &str) -> Result<()> {
    let temporary = db_dir.join(filename::temp(FileNumber(0)));
    firn_env::write_file(fs, &temporary, id.as_bytes(), true)?;
    fs.rename(&temporary, &db_dir.join(filename::IDENTITY))?;
    fs.new_directory(db_dir)?.fsync()
}

/// The names of the column families; see [`Db::list_column_families`].
pub(crate) fn list_column_families(path: &Path, options: &DbOptions) -> Result<Vec<String>> {
    crate::version::list_column_families(&**options.env.fs(), path)
}

/// Deletes the files of the database at `path`; see [`Db::destroy`].
pub(crate) fn destroy(path: &Path, options: &DbOptions) -> Result<()> {
    let fs = options.env.fs();
    if !fs.file_exists(path)? {
        return Ok(());
    }
    let lock_path = path.join(filename::LOCK);
    let lock = fs.lock_file(&lock_path)?;
    let layout = Layout::new(path, options);
    let mut dirs = layout.all_dirs(std::iter::empty());
    dirs.extend([layout.wal_dir.clone(), layout.archive_dir()]);
    let prefix = filename::info_log_prefix(&fs.absolute_path(path)?.to_string_lossy());
    let mut first_error = None;
    for dir in &dirs {
        for name in fs.children(dir).unwrap_or_default() {
            let ours = filename::parse(&name).is_some_and(|parsed| parsed.kind != FileKind::Lock)
                || filename::parse_with_info_log_prefix(&name, Some(&prefix)).is_some()
                || filename::is_trash(&name);
            if ours && name != filename::LOCK {
                first_error = first_error.or(fs.remove_file(&dir.join(&name)).err());
            }
        }
    }
    drop(lock);
    let _ = fs.remove_file(&lock_path);
    for dir in dirs.iter().rev() {
        // Fails where strangers left files, and those are not ours to delete.
        let _ = fs.remove_dir(dir);
    }
    first_error.map_or(Ok(()), Err)
}

/// A logger that keeps its panics to itself: messages are written everywhere, under locks too.
fn calm(logger: &Arc<dyn Logger>) -> Arc<dyn Logger> {
    Arc::new(CalmLogger(Arc::clone(logger)))
}

#[derive(Debug)]
struct CalmLogger(Arc<dyn Logger>);

impl CalmLogger {
    fn calmly<T>(&self, call: impl FnOnce(&dyn Logger) -> T) -> Option<T> {
        thread::catch_panic("the logger", || Ok(call(&*self.0))).ok()
    }
}

impl Logger for CalmLogger {
    fn level(&self) -> LogLevel {
        self.calmly(|logger| logger.level()).unwrap_or_default()
    }
    fn set_level(&self, level: LogLevel) {
        self.calmly(|logger| logger.set_level(level));
    }
    fn write(&self, level: LogLevel, message: std::fmt::Arguments<'_>) {
        self.calmly(|logger| logger.write(level, message));
    }
    fn flush(&self) {
        self.calmly(|logger| logger.flush());
    }
    fn close(&self) {
        self.calmly(|logger| logger.close());
    }
    fn is_enabled(&self, level: LogLevel) -> bool {
        self.calmly(|logger| logger.is_enabled(level)).unwrap_or_default()
    }
}
