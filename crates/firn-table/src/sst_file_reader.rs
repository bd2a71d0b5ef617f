//! Reading one table file outside of any database.
//!
//! A path flows in; properties, entries and verdicts about the file's soundness flow out. Entries come as they stand in the
//! file: internal keys, all versions, tombstones included.

use std::path::Path;
use std::sync::Arc;

use firn_env::{Env, FileOptions};
use firn_error::{Error, Result};
use firn_format::iterator::InternalIterator;
use firn_format::properties::TableProperties;

use crate::iterator::TableIterator;
use crate::reader::{TableReadOptions, TableReader, TableReaderOptions};

/// An open table file. Cheap to clone, thread-safe.
#[derive(Clone, Debug)]
pub struct SstFileReader {
    table: Arc<TableReader>,
}

impl SstFileReader {
    /// Opens the table at `path`.
    ///
    /// # Errors
    /// Those of the file; `Corruption` or `NotSupported`, with file and offset, when it is no readable table.
    pub fn open(env: &Env, path: &Path, file_options: &FileOptions, options: TableReaderOptions) -> Result<Self> {
        let file = env.fs().new_random_access_file(path, file_options)?;
        let size = file.size()?;
        Ok(Self { table: Arc::new(TableReader::open(file, size, options)?) })
    }

    /// The reader below.
    pub fn table(&self) -> &Arc<TableReader> {
        &self.table
    }

    /// The properties of the table.
    pub fn table_properties(&self) -> &Arc<TableProperties> {
        self.table.properties()
    }

    /// An iterator over the point entries.
    pub fn iter(&self, options: &TableReadOptions) -> TableIterator {
        self.table.iter(options)
    }

    /// Compares every block with its checksum.
    ///
    /// # Errors
    /// `Corruption` that names file and offset; errors of the file.
    pub fn verify_checksums(&self, options: &TableReadOptions) -> Result<()> {
        self.table.verify_checksums(options)
    }

    /// Reads all entries and compares their number with the properties.
    ///
    /// # Errors
    /// `Corruption` when the numbers differ or a block is damaged.
    pub fn verify_num_entries(&self, options: &TableReadOptions) -> Result<()> {
        let mut iterator = self.iter(options);
        let mut found = self.table.range_tombstones().len() as u64;
        iterator.seek_to_first();
        while iterator.valid() {
            found += 1;
            iterator.next();
        }
        iterator.status()?;
        let expected = self.table.properties().num_entries;
        if found == expected {
            return Ok(());
        }
        Err(Error::corruption(format!(
            "Table property says {expected} entries while {found} entries were found in the file"
        )))
    }
}
