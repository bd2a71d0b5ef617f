//! One table under repair: what it is, what can be read of it, and a new table with that.
//!
//! A file flows in; its description for a MANIFEST flows out, and the damages found. Every block is read. Always true here:
//! what is read past damage comes from blocks whose checksums match.

use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

use firn_env::{Env, FileOptions, FileSystem, NullLogger, SstFileManager, SstFileManagerOptions};
use firn_error::{Error, Result};
use firn_format::comparator::{Comparator, InternalKeyComparator};
use firn_format::iterator::InternalIterator;
use firn_format::key::{FileNumber, InternalKey, SequenceNumber, ValueType, extract_footer, extract_user_key};
use firn_format::unique_id::InternalUniqueId;
use firn_format::version_edit::{NewFile, Temperature};
use firn_table::{TableReadOptions, TableReader, TableReaderOptions};

use crate::compaction::output::{OutputSettings, OutputTimes, TableOutput, output_compression};
use crate::compaction::tombstones::OutputTombstone;
use crate::compaction::verify::OutputChecks;
use crate::db::layout::Layout;
use crate::db::open::family_spec;
use crate::options::{ColumnFamilyOptions, DbOptions};
use crate::stats::table_events::TableReporter;
use crate::version::{FamilySpec, FamilyTables, FamilyTablesOptions, OpenTables};

/// Who wrote the tables that a repair writes (`docs/format/directory.md`, Identities).
const REPAIRER_DB_ID: &str = "DB Repairer";

/// Open tables that a repair keeps while it writes.
const OPEN_TABLES: i32 = 16;

/// What the properties of a table say of it.
pub(super) struct Identity {
    /// Id and name of the column family.
    pub(super) family: (u64, String),
    pub(super) comparator: String,
}

/// How much of a table can be read.
pub(super) enum Condition {
    /// All of it.
    Whole,
    /// What its intact blocks hold.
    Damaged(Vec<Error>),
    /// Nothing.
    Unreadable(Error),
}

/// What was found in a table.
pub(super) struct TableFacts {
    /// Its description, with the bounds of what can be read.
    pub(super) file: NewFile,
    pub(super) condition: Condition,
    /// Entries that can be read, range tombstones included.
    pub(super) entries: u64,
    comparator: Option<Arc<dyn Comparator>>,
}

/// Looks through one table.
pub(super) struct TableScanner<'a> {
    pub(super) fs: &'a dyn FileSystem,
    pub(super) path: &'a Path,
    pub(super) number: FileNumber,
    pub(super) path_id: u32,
    pub(super) comparator: Arc<dyn Comparator>,
}

fn open(fs: &dyn FileSystem, path: &Path, comparator: InternalKeyComparator) -> Result<Arc<TableReader>> {
    let source = fs.new_random_access_file(path, &FileOptions::default())?;
    let size = source.size()?;
    let options = TableReaderOptions { comparator, ..TableReaderOptions::default() };
    TableReader::open(source, size, options).map(Arc::new).map_err(|error| error.with_file(path))
}

impl TableScanner<'_> {
    /// Reads whose table it is.
    ///
    /// # Errors
    /// What keeps it from being opened.
    pub(super) fn identify(fs: &dyn FileSystem, path: &Path) -> Result<Identity> {
        let table = open(fs, path, InternalKeyComparator::default())?;
        let properties = table.properties();
        Ok(Identity {
            family: (properties.column_family_id, properties.column_family_name.clone()),
            comparator: properties.comparator.clone(),
        })
    }

    /// Reads all of it.
    ///
    /// # Errors
    /// None but those of memory and files that do not concern the table; damage is part of the facts.
    pub(super) fn scan(self) -> Result<TableFacts> {
        let order = InternalKeyComparator::new(Arc::clone(&self.comparator));
        let table = match open(self.fs, self.path, order.clone()) {
            Ok(table) => table,
            Err(error) if !super::is_damage(&error) => return Err(error),
            Err(error) => {
                return Ok(TableFacts {
                    condition: Condition::Unreadable(error),
                    ..TableFacts::unreadable(self.number)
                });
            }
        };
        let mut file = self.describe(&table);
        let mut bounds = Bounds { order: &order, file: &mut file, entries: 0 };
        let mut damages = for_each_readable(&table, &order, &mut |key, _| {
            bounds.add(key);
            Ok(())
        })?;
        for tombstone in table.range_tombstones() {
            let start = InternalKey::new(&tombstone.start, tombstone.sequence, ValueType::RangeDeletion);
            bounds.add(start.encoded());
            bounds.extend(InternalKey::range_sentinel(&tombstone.end));
        }
        let entries = bounds.entries;
        // Filters and other blocks that the entries do not need.
        if damages.is_empty()
            && let Err(error) = table.verify_checksums(&TableReadOptions::default())
        {
            if !super::is_damage(&error) {
                return Err(error.with_file(self.path));
            }
            damages.push(error);
        }
        let condition = if damages.is_empty() { Condition::Whole } else { Condition::Damaged(damages) };
        Ok(TableFacts { file, condition, entries, comparator: Some(self.comparator) })
    }

    fn describe(&self, table: &TableReader) -> NewFile {
        let properties = table.properties();
        let id = InternalUniqueId::for_verification(
            &properties.db_id,
            &properties.db_session_id,
            properties.original_file_number,
        );
        let has_id = !properties.db_id.is_empty() && !properties.db_session_id.is_empty();
        NewFile {
            number: self.number,
            path_id: self.path_id,
            file_size: table.file_size(),
            smallest_sequence: SequenceNumber::MAX,
            largest_sequence: SequenceNumber::ZERO,
            unique_id: if has_id { [id.0[0], id.0[1]] } else { [0, 0] },
            oldest_ancester_time: properties.creation_time,
            file_creation_time: properties.file_creation_time,
            tail_size: table.file_size().saturating_sub(properties.data_size),
            ..NewFile::default()
        }
    }
}

/// Widens the description of a file to what is found in it.
struct Bounds<'a> {
    order: &'a InternalKeyComparator,
    file: &'a mut NewFile,
    entries: u64,
}

impl Bounds<'_> {
    fn add(&mut self, key: &[u8]) {
        self.entries += 1;
        let sequence = SequenceNumber(extract_footer(key) >> 8);
        self.file.smallest_sequence = self.file.smallest_sequence.min(sequence);
        self.file.largest_sequence = self.file.largest_sequence.max(sequence);
        if let Ok(key) = InternalKey::from_encoded(key) {
            self.extend(key);
        }
    }

    fn extend(&mut self, key: InternalKey) {
        let compare = |a: &InternalKey, b: &InternalKey| self.order.compare(a.encoded(), b.encoded());
        if self.file.smallest.is_empty() || compare(&key, &self.file.smallest) == Ordering::Less {
            self.file.smallest = key.clone();
        }
        if self.file.largest.is_empty() || compare(&key, &self.file.largest) == Ordering::Greater {
            self.file.largest = key;
        }
    }
}

/// Takes key and value of an entry.
type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> Result<()> + 'a;

/// Visits all point entries that lie in intact blocks, in order; returns the damages met, one per place.
///
/// # Errors
/// Those of `visit`, and those that are no damage.
fn for_each_readable(
    table: &Arc<TableReader>,
    order: &InternalKeyComparator,
    visit: &mut Visit<'_>,
) -> Result<Vec<Error>> {
    let options = TableReadOptions { total_order_seek: true, fill_cache: false, ..TableReadOptions::default() };
    let mut damages: Vec<Error> = Vec::new();
    let mut note = |error: Error| {
        if !super::is_damage(&error) {
            return Err(error);
        }
        if damages.iter().all(|known| known.offset() != error.offset()) {
            damages.push(error);
        }
        Ok(())
    };
    // The last user key of every block: beyond a damaged block the next one is sought.
    let mut ends = Vec::new();
    if let Err(error) = table.index_entries(&options, &mut |user_key, _| {
        ends.push(user_key.to_vec());
        true
    }) {
        note(error)?;
    }
    let mut last: Vec<u8> = Vec::new();
    let mut entries = table.iter(&options);
    entries.seek_to_first();
    for end in ends.iter().map(Some).chain([None]) {
        while entries.valid() && end.is_none_or(|end| order.compare_user(extract_user_key(entries.key()), end).is_le())
        {
            let is_new = last.is_empty() || order.compare(entries.key(), &last) == Ordering::Greater;
            if is_new {
                visit(entries.key(), entries.value())?;
                last.clear();
                last.extend_from_slice(entries.key());
            }
            entries.next();
        }
        if let Err(error) = entries.status() {
            note(error)?;
            if let Some(end) = end {
                // Behind every entry of that user key.
                entries.seek(InternalKey::new(end, SequenceNumber::ZERO, ValueType::Deletion).encoded());
            }
        }
    }
    Ok(damages)
}

/// What a rewritten table is told.
pub(super) struct RewriteSettings<'a> {
    pub(super) env: &'a Env,
    pub(super) db: &'a DbOptions,
    pub(super) layout: &'a Layout,
    pub(super) family_id: u32,
    pub(super) family_name: &'a str,
    pub(super) family: &'a ColumnFamilyOptions,
    pub(super) session_id: &'a str,
}

impl TableFacts {
    /// A table of which nothing is known.
    pub(super) fn unreadable(number: FileNumber) -> Self {
        let error = Error::corruption("the table cannot be opened");
        let file = NewFile { number, ..NewFile::default() };
        Self { file, condition: Condition::Unreadable(error), entries: 0, comparator: None }
    }

    /// Writes what can be read of the table at `path` to a new one with this number in this directory.
    ///
    /// # Errors
    /// `IoError` naming the file.
    pub(super) fn rewrite(
        &self,
        fs: &dyn FileSystem,
        path: &Path,
        settings: &RewriteSettings<'_>,
        (directory, number): (&Path, FileNumber),
    ) -> Result<NewFile> {
        let comparator = self.comparator.clone().unwrap_or_else(|| Arc::clone(&settings.family.comparator));
        let order = InternalKeyComparator::new(comparator);
        let table = open(fs, path, order.clone())?;
        let properties = table.properties();
        let times = OutputTimes {
            oldest_ancester_time: self.file.oldest_ancester_time,
            oldest_key_time: properties.oldest_key_time,
            newest_key_time: properties.newest_key_time,
        };
        let outputs = settings.outputs(&order, self.file.path_id, directory);
        let mut output = TableOutput::create(&outputs, number, 0, times)?;
        for_each_readable(&table, &order, &mut |key, value| output.add(key, value))?;
        for tombstone in table.range_tombstones() {
            let smallest = InternalKey::new(&tombstone.start, tombstone.sequence, ValueType::RangeDeletion);
            let largest = InternalKey::range_sentinel(&tombstone.end);
            output.add_range_tombstone(OutputTombstone { smallest, largest, tombstone: tombstone.clone() })?;
        }
        let finished = output.finish()?;
        fs.new_directory(&outputs.directory)?.fsync()?;
        let finished = finished.ok_or_else(|| Error::corruption("nothing could be read any more").with_file(path))?;
        Ok(finished.file)
    }
}

impl RewriteSettings<'_> {
    fn outputs(&self, order: &InternalKeyComparator, path_id: u32, directory: &Path) -> OutputSettings {
        let spec = family_spec(self.family_name, self.family, self.db, self.layout);
        let tables = FamilyTables::new(FamilyTablesOptions {
            fs: Arc::clone(self.env.fs()),
            file_options: FileOptions::default(),
            db_path: self.layout.db_dir.clone(),
            spec: FamilySpec { paths: vec![directory.to_path_buf()], ..spec },
            reader: TableReaderOptions { comparator: order.clone(), ..TableReaderOptions::default() },
            open: Arc::new(OpenTables::new(OPEN_TABLES, 0)),
            latencies: None,
            verify_sst_unique_id_in_manifest: true,
        });
        OutputSettings {
            fs: Arc::clone(self.env.fs()),
            file_options: FileOptions::default(),
            use_fsync: self.db.use_fsync,
            directory: directory.to_path_buf(),
            path_id,
            comparator: order.clone(),
            options: Arc::new(self.family.clone()),
            family_id: self.family_id,
            family_name: self.family_name.to_owned(),
            db_id: REPAIRER_DB_ID.to_owned(),
            session_id: self.session_id.to_owned(),
            host_id: self.env.host_name(),
            level: 0,
            is_flush: true,
            bottommost: false,
            compression: output_compression(self.family, 0, 0, false),
            temperature: Temperature::default(),
            target_file_size: 0,
            now_secs: self.env.clock().now_secs(),
            tables: Arc::new(tables),
            checks: OutputChecks { record_count: true, contents: true },
            file_checksums: self.db.file_checksum_gen_factory.clone(),
            block_cache: None,
            statistics: None,
            reporter: TableReporter::silent(),
            file_manager: Arc::new(SstFileManager::new(
                Arc::clone(self.env.fs()),
                Arc::clone(self.env.clock()),
                Arc::new(NullLogger),
                SstFileManagerOptions::default(),
            )),
        }
    }
}
