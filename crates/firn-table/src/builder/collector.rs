//! User-collected properties: what collectors learn from the entries of a table while it is written.

use firn_error::Result;
use firn_format::key::ParsedInternalKey;

/// Watches the entries of one new table and adds properties to it.
pub trait TablePropertiesCollector: Send {
    /// The collector's name, as it stands among the table's properties.
    fn name(&self) -> &str;

    /// Sees one entry, range tombstones included, when the file has `file_size` bytes.
    ///
    /// # Errors
    /// An error is remembered in the log and otherwise ignored; the table is written all the same.
    fn add(&mut self, key: ParsedInternalKey<'_>, value: &[u8], file_size: u64) -> Result<()>;

    /// The properties, as name and value. Called once, after the last entry.
    ///
    /// # Errors
    /// An error leaves the collector's properties out.
    fn finish(&mut self) -> Result<Vec<(Vec<u8>, Vec<u8>)>>;
}
