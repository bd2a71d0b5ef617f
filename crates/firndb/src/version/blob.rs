//! Blob files as a version knows them.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use firn_format::key::FileNumber;
use firn_format::version_edit::BlobFileAddition;

use super::file_meta::ObsoleteFiles;

/// What belongs to a blob file in every version; when the last one goes, the file joins the obsolete ones.
#[derive(Debug)]
pub struct SharedBlobFile {
    addition: BlobFileAddition,
    /// Set once a published version has the file.
    obsolete: OnceLock<Arc<ObsoleteFiles>>,
}

impl SharedBlobFile {
    pub(crate) fn new(addition: BlobFileAddition) -> Self {
        Self { addition, obsolete: OnceLock::new() }
    }

    /// From now on the file joins `obsolete` when no version has it any more.
    pub(crate) fn track(&self, obsolete: &Arc<ObsoleteFiles>) {
        if self.obsolete.get().is_none() {
            let _ = self.obsolete.set(Arc::clone(obsolete));
        }
    }

    /// The durable description.
    pub fn addition(&self) -> &BlobFileAddition {
        &self.addition
    }
}

impl Drop for SharedBlobFile {
    fn drop(&mut self) {
        if let Some(obsolete) = self.obsolete.get() {
            obsolete.add_blob(self.addition.number);
        }
    }
}

/// A blob file in one version.
#[derive(Clone, Debug)]
pub struct BlobFileMetaData {
    /// What never changes.
    pub shared: Arc<SharedBlobFile>,
    /// Tables whose oldest blob reference is to this file.
    pub linked_tables: BTreeSet<FileNumber>,
    /// Blobs that no table refers to any more.
    pub garbage_blob_count: u64,
    /// Bytes of those blobs.
    pub garbage_blob_bytes: u64,
}
