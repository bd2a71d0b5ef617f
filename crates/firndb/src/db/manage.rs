//! Column families that come and go, options that change.

use std::sync::Arc;

use firn_env::log_info;
use firn_env::sync::MutexGuard;
use firn_error::{Error, Result};

use super::DbInner;
use super::column_family::{ColumnFamilyData, FamilyIdentity, FamilyState};
use super::open::{family_spec, refuse_unsupported};
use crate::options::{
    ColumnFamilyOptions, Options, change_column_family_options, change_db_options, sanitize_column_family_options,
    validate_column_family_options,
};
use crate::version::VersionSet;

impl DbInner {
    /// Creates a column family; see [`Db::create_cf`](crate::Db::create_cf).
    ///
    /// # Errors
    /// `InvalidArgument` for a name that is taken or options that contradict each other; `NotSupported`; `IoError`.
    pub(crate) fn create_column_family(
        &self,
        name: &str,
        options: ColumnFamilyOptions,
    ) -> Result<Arc<ColumnFamilyData>> {
        self.check_writable()?;
        let db = self.options();
        let options = sanitize_column_family_options(&db, &options, false);
        refuse_unsupported(name, &options)?;
        validate_column_family_options(&db, name, &options)?;
        let spec = family_spec(name, &options, &db, &self.layout);
        for dir in &spec.paths {
            firn_env::create_dir_all(&**self.env.fs(), dir)?;
        }
        let created = self.alone(|log, state| {
            let change = state.versions.new_column_family(spec.clone(), log.current_number())?;
            let installed = VersionSet::log_and_apply(state, change)?;
            let Some(version) = installed.versions.into_iter().next() else {
                return Err(Error::aborted("the column family was not created"));
            };
            let id = version.column_family();
            let tables =
                self.tables.set_family(id, spec.clone(), &options, &db, self.env.fs(), &self.path, &self.session_id);
            let identity = FamilyIdentity {
                id,
                name: name.to_owned(),
                owner: self.instance,
                table_dirs: spec.paths.clone(),
                opened_micros: self.env.clock().now_micros(),
            };
            let controller = Arc::clone(&state.controller);
            let earliest = self.visible_sequence();
            let family = FamilyState::new(identity, Arc::new(options.clone()), tables, version, earliest, &controller);
            let data = Arc::clone(&family.data);
            state.families.insert(id, family);
            self.families.add(&data);
            self.refresh_log(log, state);
            Ok(data)
        })?;
        log_info!(self.logger(), "Created column family [{name}] (ID {})", created.id);
        self.write_options_file()?;
        Ok(created)
    }

    /// Drops a column family; see [`Db::drop_cf`](crate::Db::drop_cf).
    ///
    /// # Errors
    /// `InvalidArgument` for the default family or one that was dropped before; `IoError`.
    pub(crate) fn drop_column_family(&self, data: &Arc<ColumnFamilyData>) -> Result<()> {
        self.check_writable()?;
        self.check_owner(data)?;
        self.alone(|log, state| {
            let change = state.versions.drop_column_family(data.id)?;
            VersionSet::log_and_apply(state, change)?;
            data.set_dropped();
            let dropped = state.families.remove(&data.id);
            state.compaction_queue.retain(|id| *id != data.id);
            self.families.remove(data);
            self.refresh_log(log, state);
            self.update_attention(state);
            self.background.notify_all();
            MutexGuard::unlocked(state, || drop(dropped));
            Ok(())
        })?;
        log_info!(self.logger(), "Dropped column family [{}] (ID {})", data.name, data.id);
        self.write_options_file()?;
        self.purge_obsolete_files(None);
        Ok(())
    }

    /// Changes mutable options of a column family; see [`Db::set_options`](crate::Db::set_options).
    ///
    /// # Errors
    /// `InvalidArgument` when an option is unknown, immutable or malformed, `ColumnFamilyDropped`; nothing is changed then.
    pub(crate) fn set_options(&self, data: &Arc<ColumnFamilyData>, changes: &[(&str, &str)]) -> Result<()> {
        self.check_writable()?;
        self.check_owner(data)?;
        if changes.is_empty() {
            return Err(Error::invalid_argument("empty input"));
        }
        self.alone(|log, state| {
            data.check_live()?;
            let db = self.options();
            let changed = change_column_family_options(&db, &data.name, &data.options(), changes)?;
            refuse_unsupported(&data.name, &changed)?;
            data.tables().set_block_protection_bytes_per_key(changed.block_protection_bytes_per_key);
            if let Some(family) = state.families.get(&data.id) {
                family.mem.set_full_bytes(changed.write_buffer_size);
            }
            data.set_options(Arc::new(changed));
            let retired = self.install_super_version(state, data.id);
            self.refresh_log(log, state);
            MutexGuard::unlocked(state, || drop(retired));
            Ok(())
        })?;
        for (name, value) in changes {
            log_info!(self.logger(), "[{}] SetOptions: {name}={value}", data.name);
        }
        self.write_options_file()
    }

    /// Changes mutable options of the database; see [`Db::set_db_options`](crate::Db::set_db_options).
    ///
    /// # Errors
    /// As for [`set_options`](Self::set_options).
    pub(crate) fn set_db_options(&self, changes: &[(&str, &str)]) -> Result<()> {
        self.check_writable()?;
        if changes.is_empty() {
            return Err(Error::invalid_argument("empty input"));
        }
        self.alone(|log, state| {
            let Some(changed) = change_db_options(&self.options(), changes)? else { return Ok(()) };
            state.controller.set_max_rate(changed.delayed_write_rate);
            state.versions.set_manifest_limits(changed.max_manifest_file_size, changed.max_manifest_space_amp_pct);
            self.tables.set_max_open_files(changed.max_open_files);
            *self.options.write() = Arc::new(changed);
            self.refresh_log(log, state);
            Ok(())
        })?;
        self.start_background_work();
        {
            // Not before the periodic thread either sleeps or has seen the new options.
            let _state = self.state.lock();
            self.periodic.notify_all();
        }
        self.write_options_file()
    }

    /// The options in force; see [`Db::options`](crate::Db::options).
    pub(crate) fn options_of(&self, data: &ColumnFamilyData) -> Options {
        Options { db: (*self.options()).clone(), cf: (*data.options()).clone() }
    }
}
