//! The step of a change that needs no mutex: building the new versions and writing the MANIFEST.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_env::thread;
use firn_error::{Error, Result};
use firn_format::filename;
use firn_format::key::FileNumber;
use firn_format::version_edit::{EditKind, VersionEdit};

use super::builder::{ConsistencyChecks, VersionBuilder};
use super::manifest::{self, ManifestWriter, Snapshot, SwitchError};
use super::{FamilySpec, ObsoleteFiles, Version, VersionSetOptions};

/// A change between its first and its last step; see [`VersionSet::prepare`](super::VersionSet::prepare).
pub struct PendingWrite {
    pub(super) options: VersionSetOptions,
    pub(super) edits: Vec<VersionEdit>,
    pub(super) new_family: Option<FamilySpec>,
    /// The version that each touched column family starts from, and whether its levels are checked.
    pub(super) bases: BTreeMap<u32, (Arc<Version>, bool)>,
    /// The MANIFEST to append to; `None` if a new one is started.
    pub(super) writer: Option<Box<ManifestWriter>>,
    /// Number and head of the new MANIFEST, if one is started.
    pub(super) snapshot: Option<(FileNumber, Snapshot)>,
    pub(super) version_number: u64,
    pub(super) obsolete: Arc<ObsoleteFiles>,
}

/// What came of a [`PendingWrite`]; goes to [`VersionSet::install`](super::VersionSet::install).
pub struct WriteOutcome {
    pub(super) edits: Vec<VersionEdit>,
    pub(super) new_family: Option<FamilySpec>,
    pub(super) result: Result<Written, Failure>,
}

pub(super) struct Written {
    pub(super) writer: Box<ManifestWriter>,
    pub(super) versions: Vec<Arc<Version>>,
    pub(super) new_manifest: bool,
}

pub(super) struct Failure {
    pub(super) error: Error,
    /// Recovery may see the edits.
    pub(super) may_be_durable: bool,
    /// A MANIFEST that `CURRENT` may name now.
    pub(super) uncertain_manifest: Option<FileNumber>,
    /// The MANIFEST, if nothing was done to it and it can go on.
    pub(super) intact_writer: Option<Box<ManifestWriter>>,
}

impl PendingWrite {
    /// Second step of a change, without the mutex: builds the versions, appends and syncs the records.
    pub fn write(mut self) -> WriteOutcome {
        let new_manifest = self.snapshot.as_ref().map(|(number, _)| *number);
        let result = thread::catch_panic("writing the MANIFEST", || Ok(self.build_and_write()));
        let result = result.unwrap_or_else(|error| {
            // Somebody else's file system may panic. How far things went is unknown, so nothing is appended any more.
            let uncertain_manifest = new_manifest;
            Err(Failure { error, may_be_durable: true, uncertain_manifest, intact_writer: None })
        });
        WriteOutcome { edits: self.edits, new_family: self.new_family, result }
    }

    fn build_and_write(&mut self) -> Result<Written, Failure> {
        let versions = match self.build_versions() {
            Ok(versions) => versions,
            Err(error) => {
                // The edits were wrong; the MANIFEST is as it was.
                let intact_writer = self.writer.take();
                return Err(Failure { error, may_be_durable: false, uncertain_manifest: None, intact_writer });
            }
        };
        let new_manifest = self.snapshot.is_some();
        let writer = match (self.snapshot.take(), self.writer.take()) {
            (Some((number, snapshot)), _) => self.write_new_manifest(number, &snapshot)?,
            (None, Some(writer)) => self.append(writer)?,
            (None, None) => {
                return Err(Failure {
                    error: Error::io_error("there is no MANIFEST to append to"),
                    may_be_durable: false,
                    uncertain_manifest: None,
                    intact_writer: None,
                });
            }
        };
        for version in &versions {
            version.track_files(&self.obsolete);
        }
        Ok(Written { writer, versions, new_manifest })
    }

    fn build_versions(&self) -> Result<Vec<Arc<Version>>> {
        let mut builders: BTreeMap<u32, VersionBuilder> =
            self.bases.iter().map(|(id, (base, _))| (*id, VersionBuilder::new(Arc::clone(base)))).collect();
        for edit in self.edits.iter().filter(|edit| edit.kind() == EditKind::Ordinary) {
            if let Some(builder) = builders.get_mut(&edit.column_family) {
                builder.apply(edit)?;
            }
        }
        builders
            .into_iter()
            .map(|(id, builder)| {
                let force = self.bases.get(&id).is_none_or(|(_, force)| *force);
                let checks = if force { ConsistencyChecks::Force } else { ConsistencyChecks::Skip };
                builder.finish(self.version_number, &*self.options.stats, checks).map(Arc::new)
            })
            .collect()
    }

    fn append(&self, mut writer: Box<ManifestWriter>) -> Result<Box<ManifestWriter>, Failure> {
        match writer.append(&self.edits).and_then(|()| writer.sync()) {
            Ok(()) => Ok(writer),
            // What of the records reached the file is unknown, so nothing may be appended behind them.
            Err(error) => Err(Failure { error, may_be_durable: true, uncertain_manifest: None, intact_writer: None }),
        }
    }

    fn write_new_manifest(&self, number: FileNumber, snapshot: &Snapshot) -> Result<Box<ManifestWriter>, Failure> {
        let (fs, db_path) = (&*self.options.fs, self.options.db_path.as_path());
        // CURRENT does not name the file yet: whatever fails, the file can go and nothing has happened.
        let untouched = |error| {
            let _ = fs.remove_file(&db_path.join(filename::manifest(number)));
            let _ = fs.remove_file(&db_path.join(filename::temp(number)));
            Failure { error, may_be_durable: false, uncertain_manifest: None, intact_writer: None }
        };
        let create = || -> Result<Box<ManifestWriter>> {
            let mut writer = Box::new(ManifestWriter::create(fs, db_path, number)?);
            snapshot.write(&mut writer)?;
            writer.append(&self.edits)?;
            writer.sync()?;
            writer.mark_compacted();
            Ok(writer)
        };
        let writer = create().map_err(untouched)?;
        let directory = fs.new_directory(db_path).map_err(untouched)?;
        match manifest::switch_current(fs, db_path, &*directory, number) {
            Ok(()) => Ok(writer),
            Err(SwitchError::Untouched(error)) => Err(untouched(error)),
            Err(SwitchError::Uncertain(error)) => {
                Err(Failure { error, may_be_durable: true, uncertain_manifest: Some(number), intact_writer: None })
            }
        }
    }
}
