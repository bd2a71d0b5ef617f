//! Looking at a finished table once more before any MANIFEST names it.
//!
//! What was added to the table flows in as a [`TableDigest`]; the table is opened the way readers will, and must hold just
//! that. Always true here: an output that cannot be opened, or that lost entries on its way to the disk, fails its job
//! while the inputs are still there.

use firn_error::{Error, Result};
use firn_format::hash::xxph3_64_with_seed;
use firn_format::iterator::InternalIterator;
use firn_format::key::{InternalKey, ValueType};
use firn_format::range_tombstone::RangeTombstone;
use firn_format::version_edit::NewFile;
use firn_table::{ReadAheadOptions, TableReadOptions, TableReader};

use crate::version::{FileMetaData, TableSource};

/// How much of a new table is read again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OutputChecks {
    /// Compare the number of entries in its properties with the number that was added (`flush_verify_memtable_count`,
    /// `compaction_verify_record_count`).
    pub(crate) record_count: bool,
    /// Read all of it and compare a hash of its entries (`paranoid_file_checks`).
    pub(crate) contents: bool,
}

/// What was added to a table, or found in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableDigest {
    /// Entries, range tombstones included.
    entries: u64,
    /// A hash over the keys and values of all points, in their order.
    points: u64,
    /// The sum of the hashes of all range tombstones, whose order means nothing.
    tombstones: u64,
}

impl TableDigest {
    /// Counts an entry; with `hashing` it is also hashed.
    #[inline]
    pub(crate) fn add_point(&mut self, hashing: bool, key: &[u8], value: &[u8]) {
        self.entries += 1;
        if hashing {
            self.points = xxph3_64_with_seed(value, xxph3_64_with_seed(key, self.points));
        }
    }

    /// The same for a range tombstone.
    pub(crate) fn add_tombstone(&mut self, hashing: bool, tombstone: &RangeTombstone) {
        self.entries += 1;
        if hashing {
            let start = InternalKey::new(&tombstone.start, tombstone.sequence, ValueType::RangeDeletion);
            let hash = xxph3_64_with_seed(&tombstone.end, xxph3_64_with_seed(start.encoded(), 0));
            self.tombstones = self.tombstones.wrapping_add(hash);
        }
    }

    fn of_contents(table: &std::sync::Arc<TableReader>) -> Result<Self> {
        let options = TableReadOptions {
            total_order_seek: true,
            // What counts is what the file holds, and it is read once.
            fill_cache: false,
            readahead: ReadAheadOptions { fixed_bytes: 256 << 10, ..ReadAheadOptions::default() },
            ..TableReadOptions::default()
        };
        let mut digest = Self::default();
        let mut entries = table.iter(&options);
        entries.seek_to_first();
        while entries.valid() {
            digest.add_point(true, entries.key(), entries.value());
            entries.next();
        }
        entries.status()?;
        for tombstone in table.range_tombstones() {
            digest.add_tombstone(true, tombstone);
        }
        Ok(digest)
    }
}

/// Opens the finished `file` of `column_family` and compares it with what was `added`.
///
/// # Errors
/// Those of opening and reading it; `Corruption` when it holds something else.
pub(crate) fn verify_output(
    tables: &dyn TableSource,
    column_family: u32,
    file: &NewFile,
    added: &TableDigest,
    checks: OutputChecks,
) -> Result<()> {
    let file = FileMetaData::of_column_family(file.clone(), column_family);
    let table = tables.read_back(&file)?;
    let entries = table.reader.properties().num_entries;
    if checks.record_count && entries != added.entries {
        return Err(Error::corruption(format!(
            "Number of keys in compaction output SST files does not match number of keys added. Expected {} but there are \
             {entries} in output SST files",
            added.entries
        )));
    }
    if checks.contents && TableDigest::of_contents(&table.reader)? != *added {
        return Err(Error::corruption("Paranoid checksums do not match"));
    }
    Ok(())
}
