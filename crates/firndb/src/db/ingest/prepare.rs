//! Looking at external files, and bringing them into the database's directories.
//!
//! Always true here: what is linked or copied is durable when [`Preparation::family`] returns, and is removed again unless
//! [`Preparation::keep`] was called.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_env::{FileOptions, FileSystem};
use firn_error::{Error, ErrorKind, Result};
use firn_format::comparator::InternalKeyComparator;
use firn_format::filename;
use firn_format::iterator::InternalIterator;
use firn_format::key::{FileNumber, InternalKey, SequenceNumber, ValueType, extract_user_key};
use firn_format::properties::{TableProperties, UNKNOWN_COLUMN_FAMILY, names};
use firn_format::range_tombstone::{FragmentedRangeTombstones, TombstoneFragment};
use firn_format::unique_id::InternalUniqueId;
use firn_format::version_edit::NewFile;
use firn_table::{ReadAheadOptions, TableReadOptions, TableReader, TableReaderOptions};

use super::super::checkpoint::copy;
use super::{
    ColumnFamilyData, DbInner, ExternalFileChecksum, FamilyIngestion, IngestExternalFileOptions, IngestExternalFiles,
    MemTable, with_sequence,
};
use crate::file_checksum::{self, FileChecksumGenFactory};

/// The keys that a file has an opinion about: from `smallest` to `largest`, which is exclusive if it is a range sentinel.
#[derive(Clone, Debug)]
pub(crate) struct KeyRange {
    pub(crate) order: InternalKeyComparator,
    pub(crate) smallest: InternalKey,
    pub(crate) largest: InternalKey,
}

impl KeyRange {
    /// Whether a file with these bounds may share keys.
    pub(crate) fn meets(&self, smallest: &InternalKey, largest: &InternalKey) -> bool {
        !self.ends_before(smallest.user_key()) && {
            let order = self.order.compare_user(largest.user_key(), self.smallest.user_key());
            order.is_gt() || (order.is_eq() && !largest.is_range_sentinel())
        }
    }

    /// Whether all keys come before `user_key`.
    fn ends_before(&self, user_key: &[u8]) -> bool {
        let order = self.order.compare_user(self.largest.user_key(), user_key);
        order.is_lt() || (order.is_eq() && self.largest.is_range_sentinel())
    }

    fn meets_tombstone(&self, tombstone: &TombstoneFragment) -> bool {
        !self.ends_before(&tombstone.start) && self.order.compare_user(&tombstone.end, self.smallest.user_key()).is_gt()
    }

    pub(crate) fn meets_tombstone_of(&self, tombstones: &FragmentedRangeTombstones) -> bool {
        tombstones.fragments().iter().any(|tombstone| self.meets_tombstone(tombstone))
    }

    /// Whether `entries` has a key here.
    pub(crate) fn has_point_of(&self, entries: &mut impl InternalIterator) -> Result<bool> {
        entries.seek(InternalKey::for_seek(self.smallest.user_key(), SequenceNumber::MAX).encoded());
        if entries.valid() {
            return Ok(!self.ends_before(extract_user_key(entries.key())));
        }
        entries.status().map(|()| false)
    }

    pub(crate) fn meets_memtable(&self, memtable: &Arc<MemTable>) -> bool {
        // A memtable that cannot be read is said to overlap: its flush will tell.
        self.has_point_of(&mut memtable.iter()).unwrap_or(true)
            || (memtable.has_range_deletions() && self.meets_tombstone_of(&memtable.range_tombstones()))
    }
}

/// The sequence numbers of a file that a database wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OwnSequences {
    pub(super) smallest: SequenceNumber,
    pub(super) largest: SequenceNumber,
}

/// A file that is to be ingested.
pub(super) struct ExternalFile {
    /// Where it came from.
    pub(super) source: PathBuf,
    /// Its number in the database.
    pub(super) number: FileNumber,
    /// Where it is now.
    pub(super) path: PathBuf,
    pub(super) size_bytes: u64,
    pub(super) range: KeyRange,
    pub(super) properties: Arc<TableProperties>,
    /// The sequence number that was written into it before.
    pub(super) stored_sequence: SequenceNumber,
    /// Where it can be written; none in files without such a place.
    pub(super) sequence_offset: Option<u64>,
    /// Set for files that a database wrote: their entries keep their sequence numbers.
    pub(super) own_sequences: Option<OwnSequences>,
    /// The checksum of the whole file, where the caller knew it.
    checksum: Option<ExternalFileChecksum>,
    tail_size: u64,
}

impl ExternalFile {
    /// The file for the MANIFEST.
    pub(super) fn describe(&self, sequence: SequenceNumber, now_secs: u64) -> NewFile {
        let properties = &self.properties;
        let InternalUniqueId([first, second, _]) = InternalUniqueId::for_verification(
            &properties.db_id,
            &properties.db_session_id,
            properties.original_file_number,
        );
        let (smallest_sequence, largest_sequence) = match self.own_sequences {
            Some(own) => (own.smallest, own.largest),
            None => (sequence, sequence),
        };
        let bound = |key: &InternalKey| match self.own_sequences {
            Some(_) => key.clone(),
            None => with_sequence(key, sequence),
        };
        NewFile {
            number: self.number,
            file_size: self.size_bytes,
            smallest: bound(&self.range.smallest),
            largest: bound(&self.range.largest),
            smallest_sequence,
            largest_sequence,
            // One tombstone and nothing else: the sooner it is compacted away, with all that it covers, the better.
            marked_for_compaction: properties.num_entries == 1 && properties.num_range_deletions == 1,
            oldest_ancester_time: now_secs,
            file_creation_time: now_secs,
            unique_id: [first, second],
            tail_size: self.tail_size,
            ..NewFile::default()
        }
    }

    /// Adds the checksum of the whole file to its description; `written` says that the file is no longer what it was.
    pub(super) fn add_checksum(
        &self,
        described: &mut NewFile,
        fs: &dyn FileSystem,
        factory: &dyn FileChecksumGenFactory,
        written: bool,
    ) -> Result<()> {
        let known = self.checksum.as_ref().filter(|_| !written);
        let checksum = match known {
            Some(known) => Some((known.checksum.clone(), known.function.clone())),
            None => file_checksum::compute(fs, &self.path, factory)?,
        };
        if let Some((checksum, function)) = checksum {
            described.file_checksum = checksum;
            described.file_checksum_func_name = function;
        }
        Ok(())
    }

    /// Writes the sequence number into the file, where that is asked for or another one stands there. The file is
    /// replaced, not changed: it may be a link to a file of somebody else. Returns whether it was written.
    pub(super) fn write_sequence(&self, fs: &dyn FileSystem, sequence: SequenceNumber, asked: bool) -> Result<bool> {
        let stale = self.stored_sequence != SequenceNumber::ZERO;
        let Some(offset) = self.sequence_offset.filter(|_| sequence != self.stored_sequence && (asked || stale)) else {
            return Ok(false);
        };
        let mut bytes = firn_env::read_file(fs, &self.path, self.size_bytes)?;
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        match bytes.get_mut(at..at.saturating_add(8)) {
            Some(place) => place.copy_from_slice(&sequence.get().to_le_bytes()),
            None => return Err(Error::corruption("the file is shorter than it was").with_file(&self.path)),
        }
        let temporary = self.path.with_extension("dbtmp");
        firn_env::write_file(fs, &temporary, &bytes, true)?;
        fs.rename(&temporary, &self.path)?;
        if let Some(directory) = self.path.parent() {
            fs.new_directory(directory)?.fsync()?;
        }
        Ok(true)
    }
}

/// Files that were brought in and are not part of the database yet.
pub(super) struct Preparation<'a> {
    db: &'a DbInner,
    numbers: Vec<FileNumber>,
    paths: Vec<PathBuf>,
    kept: bool,
}

impl<'a> Preparation<'a> {
    pub(super) fn new(db: &'a DbInner) -> Self {
        Self { db, numbers: Vec::new(), paths: Vec::new(), kept: false }
    }

    /// The files belong to the database now, or are left to the removal of obsolete files.
    pub(super) fn keep(&mut self) {
        self.kept = true;
    }

    /// Checks the files of one family and brings them in.
    pub(super) fn family(&mut self, ingestion: &IngestExternalFiles<'_>) -> Result<FamilyIngestion> {
        let (data, options) = (&ingestion.cf.data, &ingestion.options);
        let one = |source: &PathBuf| self.read(data, source, options);
        let mut files = ingestion.files.iter().map(one).collect::<Result<Vec<_>>>()?;
        self.take_checksums(&mut files, &ingestion.checksums, options)?;
        let overlaps = |(at, file): (usize, &ExternalFile)| {
            let later = files.get(at + 1..).unwrap_or_default();
            later.iter().any(|other| file.range.meets(&other.range.smallest, &other.range.largest))
        };
        let files_overlap = files.iter().enumerate().any(overlaps);
        if files_overlap && options.ingest_behind {
            return Err(Error::not_supported(
                "Files with overlapping ranges cannot be ingested with ingestion behind mode.",
            ));
        }
        if files_overlap && !options.allow_global_seqno {
            return Err(Error::invalid_argument("Global seqno is required, but disabled"));
        }
        for file in &mut files {
            self.bring_in(data, file, options)?;
        }
        if let Some(directory) = data.table_dirs.first() {
            self.db.env.fs().new_directory(directory)?.fsync()?;
        }
        Ok(FamilyIngestion { data: Arc::clone(data), options: *options, files, files_overlap })
    }

    /// Checks the checksums that the caller supplied, if the database keeps any.
    fn take_checksums(
        &self,
        files: &mut [ExternalFile],
        checksums: &[ExternalFileChecksum],
        options: &IngestExternalFileOptions,
    ) -> Result<()> {
        let db = self.db.options();
        let Some(factory) = &db.file_checksum_gen_factory else { return Ok(()) };
        if checksums.is_empty() {
            return Ok(());
        }
        if checksums.len() != files.len() {
            return Err(Error::invalid_argument(
                "The checksum information of ingested sst files are nonempty and incomplete",
            ));
        }
        for (file, given) in files.iter_mut().zip(checksums) {
            let ExternalFileChecksum { checksum, function } = given;
            if options.verify_file_checksum {
                file_checksum::verify_file(&**self.db.env.fs(), &file.source, &**factory, checksum, function)?;
            } else if !file_checksum::knows(&**factory, &file.source, function) {
                return Err(Error::invalid_argument(format!("Checksum function {function} is not known"))
                    .with_file(&file.source));
            }
            file.checksum = Some(given.clone());
        }
        Ok(())
    }

    /// Opens a file and finds out what has to be known of it.
    fn read(
        &self,
        data: &ColumnFamilyData,
        source: &Path,
        options: &IngestExternalFileOptions,
    ) -> Result<ExternalFile> {
        let file = self.db.env.fs().new_random_access_file(source, &FileOptions::default())?;
        let size_bytes = file.size()?;
        let reader = TableReaderOptions { comparator: data.comparator.clone(), ..TableReaderOptions::default() };
        let table = Arc::new(TableReader::open(file, size_bytes, reader)?);
        let outcome = self.describe(data, source, &table, size_bytes, options);
        outcome.map_err(|error| error.with_file(source))
    }

    fn describe(
        &self,
        data: &ColumnFamilyData,
        source: &Path,
        table: &Arc<TableReader>,
        size_bytes: u64,
        options: &IngestExternalFileOptions,
    ) -> Result<ExternalFile> {
        let properties = Arc::clone(table.properties());
        let version = properties.user_fixed32(names::EXTERNAL_SST_FILE_VERSION);
        let stored = properties.user_fixed64(names::EXTERNAL_SST_FILE_GLOBAL_SEQNO);
        let is_external = properties.user_collected.contains_key(names::EXTERNAL_SST_FILE_VERSION.as_bytes());
        match version {
            Some(1) => {}
            Some(2) if stored.is_none() => {
                return Err(Error::corruption("External file global sequence number not found"));
            }
            Some(2) => {}
            _ if is_external => return Err(Error::invalid_argument("External file version is not supported")),
            _ if options.allow_db_generated_files => {}
            _ => return Err(Error::corruption("External file version not found")),
        }
        // Read in another order its keys would be found damaged only when the file is already part of the database.
        let (theirs, ours) = (&properties.comparator, data.comparator.user_comparator().name());
        if !theirs.is_empty() && theirs != ours {
            return Err(Error::invalid_argument(format!(
                "the file is in the order of {theirs}, the family in that of {ours}"
            )));
        }
        let family = properties.column_family_id;
        if family != UNKNOWN_COLUMN_FAMILY && family != u64::from(data.id) && is_external {
            return Err(Error::invalid_argument("External file column family id don't match"));
        }
        if is_external && !matches!(properties.key_largest_seqno, 0 | u64::MAX) {
            return Err(Error::corruption("External file has non zero sequence number"));
        }
        if options.verify_checksums_before_ingest {
            let readahead = ReadAheadOptions {
                fixed_bytes: options.verify_checksums_readahead_size,
                ..ReadAheadOptions::default()
            };
            table.verify_checksums(&TableReadOptions { readahead, ..TableReadOptions::default() })?;
        }
        let range = key_range(table)?.ok_or_else(|| Error::invalid_argument("File contain no entries"))?;
        let own_sequences = if is_external { None } else { Some(own_sequences(table)?) };
        Ok(ExternalFile {
            source: source.to_path_buf(),
            number: FileNumber(0),
            path: PathBuf::new(),
            size_bytes,
            range,
            stored_sequence: SequenceNumber(stored.unwrap_or(0)),
            sequence_offset: table.global_sequence_offset()?,
            own_sequences,
            checksum: None,
            tail_size: size_bytes.saturating_sub(properties.data_size),
            properties,
        })
    }

    /// Links or copies the file under a number of the database.
    fn bring_in(
        &mut self,
        data: &ColumnFamilyData,
        file: &mut ExternalFile,
        options: &IngestExternalFileOptions,
    ) -> Result<()> {
        let fs = &**self.db.env.fs();
        let directory = data.table_dirs.first().cloned().unwrap_or_default();
        file.number = self.db.state.lock().new_output();
        self.numbers.push(file.number);
        file.path = directory.join(filename::table(file.number));
        self.paths.push(file.path.clone());
        let links = options.move_files || options.link_files;
        link_or_copy(fs, &file.source, &file.path, file.size_bytes, links, options.failed_move_fall_back_to_copy)
    }
}

/// Makes the first `bytes` of `source` durable under `target`, as a link if `links` says so; where linking does not work, as a
/// copy if `may_copy`.
pub(super) fn link_or_copy(
    fs: &dyn FileSystem,
    source: &Path,
    target: &Path,
    bytes: u64,
    links: bool,
    may_copy: bool,
) -> Result<()> {
    if links {
        match fs.link(source, target) {
            Ok(()) => {
                // Whoever wrote it may not have synced it.
                let mut linked = fs.reopen_writable_file(target, &FileOptions::default())?;
                linked.sync()?;
                return linked.close();
            }
            Err(error) if error.kind() == ErrorKind::NotSupported && may_copy => {}
            Err(error) => return Err(error),
        }
    }
    copy(fs, source, target, bytes)
}

impl Drop for Preparation<'_> {
    fn drop(&mut self) {
        if !self.kept {
            for path in &self.paths {
                // What stays behind goes with the next removal of obsolete files.
                let _ = self.db.env.fs().remove_file(path);
            }
        }
        self.db.state.lock().release_outputs(&self.numbers);
    }
}

fn whole_file() -> TableReadOptions {
    TableReadOptions { total_order_seek: true, fill_cache: false, ..TableReadOptions::default() }
}

/// From the first to the last entry, range tombstones included; `None` for a file without any.
fn key_range(table: &Arc<TableReader>) -> Result<Option<KeyRange>> {
    let order = table.comparator().clone();
    let mut entries = table.iter(&whole_file());
    let mut bounds: Option<(InternalKey, InternalKey)> = None;
    let mut extend = |smallest: InternalKey, largest: InternalKey| {
        let (least, greatest) = bounds.take().unwrap_or_else(|| (smallest.clone(), largest.clone()));
        let before = order.compare(smallest.encoded(), least.encoded()).is_lt();
        let behind = order.compare(largest.encoded(), greatest.encoded()).is_gt();
        bounds = Some((if before { smallest } else { least }, if behind { largest } else { greatest }));
    };
    entries.seek_to_first();
    if entries.valid() {
        let first = InternalKey::from_encoded(entries.key())?;
        entries.seek_to_last();
        let last = if entries.valid() { InternalKey::from_encoded(entries.key())? } else { first.clone() };
        extend(first, last);
    }
    entries.status()?;
    for tombstone in table.range_tombstones() {
        let start = InternalKey::new(&tombstone.start, tombstone.sequence, ValueType::RangeDeletion);
        extend(start, InternalKey::range_sentinel(&tombstone.end));
    }
    Ok(bounds.map(|(smallest, largest)| KeyRange { order, smallest, largest }))
}

/// The least and the greatest sequence number, from all entries.
fn own_sequences(table: &Arc<TableReader>) -> Result<OwnSequences> {
    let mut own = OwnSequences { smallest: SequenceNumber::MAX, largest: SequenceNumber::ZERO };
    let mut count = |sequence: SequenceNumber| {
        own = OwnSequences { smallest: own.smallest.min(sequence), largest: own.largest.max(sequence) };
    };
    let mut entries = table.iter(&whole_file());
    entries.seek_to_first();
    while entries.valid() {
        count(firn_format::key::parse_internal_key(entries.key())?.sequence);
        entries.next();
    }
    entries.status()?;
    table.range_tombstones().iter().for_each(|tombstone| count(tombstone.sequence));
    Ok(own)
}
