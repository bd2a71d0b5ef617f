//! One table file being written by a flush or a compaction.
//!
//! Entries flow in, in internal-key order, and range tombstones; a synced file and its description for the MANIFEST flow
//! out. Always true here: when [`TableOutput::finish`] returns a description, the file is durable, was opened once more and
//! holds what was added; an output that is dropped unfinished removes its file.

use std::cmp::Ordering;
use std::path::PathBuf;
use std::sync::Arc;

use firn_env::{FileOptions, FileSystem, SstFileManager};
use firn_error::{Error, Result, SubCode};
use firn_format::comparator::InternalKeyComparator;
use firn_format::compression::{CompressionOptions, CompressionType};
use firn_format::filter::FilterContext;
use firn_format::key::{FileNumber, InternalKey, SequenceNumber, ValueType, extract_footer};
use firn_format::properties::TableProperties;
use firn_format::unique_id::InternalUniqueId;
use firn_format::version_edit::{NewFile, Temperature};
use firn_table::options::PrepopulateBlockCache;
use firn_table::{BlockCache, TableBuilder, TableBuilderOptions};

use super::tombstones::OutputTombstone;
use super::verify::{OutputChecks, TableDigest, verify_output};
use crate::file_checksum::{self, FileChecksumGenFactory, RunningChecksum};
use crate::options::{ColumnFamilyOptions, CompactionStyle, TableFactory};
use crate::stats::Statistics;
use crate::stats::table_events::TableReporter;
use crate::version::TableSource;

/// What all outputs of a job have in common.
#[derive(Clone)]
pub(crate) struct OutputSettings {
    /// Where files are written.
    pub(crate) fs: Arc<dyn FileSystem>,
    /// How files are written.
    pub(crate) file_options: FileOptions,
    /// Sync with all metadata (`use_fsync`).
    pub(crate) use_fsync: bool,
    /// The directory of the outputs.
    pub(crate) directory: PathBuf,
    /// Its path id.
    pub(crate) path_id: u32,
    /// The order of keys.
    pub(crate) comparator: InternalKeyComparator,
    /// The options of the column family.
    pub(crate) options: Arc<ColumnFamilyOptions>,
    /// The id of the column family.
    pub(crate) family_id: u32,
    /// The name of the column family.
    pub(crate) family_name: String,
    /// The identity of the database.
    pub(crate) db_id: String,
    /// The session that writes.
    pub(crate) session_id: String,
    /// The machine that writes.
    pub(crate) host_id: String,
    /// The level that the outputs are for.
    pub(crate) level: usize,
    /// Whether a flush writes.
    pub(crate) is_flush: bool,
    /// Whether nothing lies below the outputs.
    pub(crate) bottommost: bool,
    /// How blocks are compressed.
    pub(crate) compression: CompressionType,
    /// How hot the data is said to be.
    pub(crate) temperature: Temperature,
    /// The size in bytes at which outputs are meant to end; 0 when unknown.
    pub(crate) target_file_size: u64,
    /// Now, in unix seconds.
    pub(crate) now_secs: u64,
    /// Opens finished outputs, to see whether readers can.
    pub(crate) tables: Arc<dyn TableSource>,
    /// What is compared then.
    pub(crate) checks: OutputChecks,
    /// The block cache of the column family.
    pub(crate) block_cache: Option<Arc<BlockCache>>,
    /// Counts what goes into the block cache.
    pub(crate) statistics: Option<Arc<Statistics>>,
    /// Makes the checksums of whole files (`file_checksum_gen_factory`).
    pub(crate) file_checksums: Option<Arc<dyn FileChecksumGenFactory>>,
    /// Who is told of the outputs.
    pub(crate) reporter: TableReporter,
    /// Who counts the space that outputs take.
    pub(crate) file_manager: Arc<SstFileManager>,
}

impl OutputSettings {
    fn builder_options(&self, number: FileNumber, times: OutputTimes) -> Result<TableBuilderOptions> {
        let TableFactory::BlockBased(table) = &self.options.table_factory else {
            return Err(Error::not_supported(format!("writing {} files", self.options.table_factory.name())));
        };
        Ok(TableBuilderOptions {
            comparator: self.comparator.clone(),
            table: table.clone(),
            compression: self.compression,
            compression_options: self.compression_options(),
            prefix_extractor: self.options.prefix_extractor.clone(),
            skip_filters: self.bottommost && self.options.optimize_filters_for_hits,
            filter_context: FilterContext {
                leveled: self.options.compaction_style == CompactionStyle::Level,
                is_flush: self.is_flush,
                level: u32::try_from(self.level).ok(),
                ..FilterContext::default()
            },
            target_file_size: if self.target_file_size == u64::MAX { 0 } else { self.target_file_size },
            column_family_id: u64::from(self.family_id),
            column_family_name: self.family_name.clone(),
            merge_operator_name: self.options.merge_operator.as_ref().map(|operator| operator.name().to_owned()),
            creation_time: times.oldest_ancester_time,
            oldest_key_time: times.oldest_key_time,
            newest_key_time: times.newest_key_time,
            file_creation_time: self.now_secs,
            db_id: self.db_id.clone(),
            db_session_id: self.session_id.clone(),
            db_host_id: self.host_id.clone(),
            original_file_number: number.get(),
            warm_cache: self.block_cache.clone().filter(|_| match table.prepopulate_block_cache {
                PrepopulateBlockCache::Disable => false,
                PrepopulateBlockCache::FlushOnly => self.is_flush,
                PrepopulateBlockCache::FlushAndCompaction => true,
            }),
            block_protection_bytes_per_key: self.options.block_protection_bytes_per_key,
            statistics: self.statistics.clone(),
            ..TableBuilderOptions::default()
        })
    }

    fn compression_options(&self) -> CompressionOptions {
        let bottommost = &self.options.bottommost_compression_opts;
        if self.bottommost && !self.is_flush && bottommost.enabled {
            return bottommost.clone();
        }
        self.options.compression_opts.clone()
    }
}

/// The ages that an output inherits, in unix seconds; 0 when unknown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OutputTimes {
    /// When the oldest data in it was flushed.
    pub(crate) oldest_ancester_time: u64,
    /// When the oldest key in it was written.
    pub(crate) oldest_key_time: u64,
    /// When the newest key in it was written.
    pub(crate) newest_key_time: u64,
}

/// A table file that was written.
#[derive(Clone, Debug)]
pub(crate) struct FinishedTable {
    /// Its description for the MANIFEST.
    pub(crate) file: NewFile,
    /// What it says about itself.
    pub(crate) properties: Arc<TableProperties>,
}

/// A table file being written.
pub(crate) struct TableOutput {
    settings: OutputSettings,
    path: PathBuf,
    builder: Option<TableBuilder>,
    file: NewFile,
    /// Point entries, as for the keys of the file.
    has_points: bool,
    last_key: Vec<u8>,
    digest: TableDigest,
    checksum: Option<RunningChecksum>,
}

impl TableOutput {
    /// Starts the table with `number`. Its outputs will be told to be of `epoch_number`.
    ///
    /// # Errors
    /// `IoError` when the file cannot be created; what the options contradict.
    pub(crate) fn create(
        settings: &OutputSettings,
        number: FileNumber,
        epoch_number: u64,
        times: OutputTimes,
    ) -> Result<Self> {
        let path = settings.directory.join(firn_format::filename::table(number));
        let description = NewFile {
            number,
            path_id: settings.path_id,
            smallest_sequence: SequenceNumber::MAX,
            largest_sequence: SequenceNumber::ZERO,
            epoch_number,
            oldest_ancester_time: times.oldest_ancester_time,
            file_creation_time: settings.now_secs,
            unique_id: unique_id(settings, number),
            temperature: settings.temperature,
            ..NewFile::default()
        };
        settings.reporter.started(&path);
        let begin = || {
            let options = settings.builder_options(number, times)?;
            let file = settings.fs.new_writable_file(&path, &settings.file_options)?;
            let (file, checksum) = file_checksum::observe(file, settings.file_checksums.as_deref());
            let builder = TableBuilder::new(options, file).map_err(|error| {
                let _ = settings.fs.remove_file(&path);
                error.with_file(&path)
            })?;
            Ok((builder, checksum))
        };
        match begin() {
            Ok((builder, checksum)) => Ok(Self {
                settings: settings.clone(),
                path,
                builder: Some(builder),
                file: description,
                has_points: false,
                last_key: Vec::new(),
                digest: TableDigest::default(),
                checksum,
            }),
            Err(error) => {
                settings.reporter.failed(&path, &description, &error);
                Err(error)
            }
        }
    }

    /// Adds a point entry behind the last one.
    ///
    /// # Errors
    /// `IoError` naming the file; `Corruption` when keys are out of order.
    #[inline]
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let Some(builder) = &mut self.builder else { return Err(Error::aborted("the table is finished")) };
        builder.add(key, value).map_err(|error| error.with_file(&self.path))?;
        if !self.has_points {
            self.file.smallest = InternalKey::from_encoded(key)?;
            self.has_points = true;
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.note_sequence(SequenceNumber(extract_footer(key) >> 8));
        self.digest.add_point(self.settings.checks.contents, key, value);
        Ok(())
    }

    /// Adds a range tombstone and makes the boundaries of the file include what it means in it.
    ///
    /// # Errors
    /// `IoError` naming the file.
    pub(crate) fn add_range_tombstone(&mut self, output: OutputTombstone) -> Result<()> {
        let OutputTombstone { tombstone, smallest, largest } = output;
        let start = InternalKey::new(&tombstone.start, tombstone.sequence, ValueType::RangeDeletion);
        let Some(builder) = &mut self.builder else { return Err(Error::aborted("the table is finished")) };
        builder.add(start.encoded(), &tombstone.end).map_err(|error| error.with_file(&self.path))?;
        self.extend(smallest, largest);
        self.note_sequence(tombstone.sequence);
        self.digest.add_tombstone(self.settings.checks.contents, &tombstone);
        Ok(())
    }

    /// Makes the boundaries of the file include these.
    fn extend(&mut self, smallest: InternalKey, largest: InternalKey) {
        let order = &self.settings.comparator;
        if self.file.smallest.is_empty()
            || order.compare(smallest.encoded(), self.file.smallest.encoded()) == Ordering::Less
        {
            self.file.smallest = smallest;
        }
        if self.file.largest.is_empty()
            || order.compare(largest.encoded(), self.file.largest.encoded()) == Ordering::Greater
        {
            self.file.largest = largest;
        }
    }

    #[inline]
    fn note_sequence(&mut self, sequence: SequenceNumber) {
        self.file.smallest_sequence = self.file.smallest_sequence.min(sequence);
        self.file.largest_sequence = self.file.largest_sequence.max(sequence);
    }

    /// Bytes so far, without the block that is being built.
    #[inline]
    pub(crate) fn file_size(&self) -> u64 {
        self.builder.as_ref().map_or(0, TableBuilder::file_size)
    }

    /// Entries so far, range tombstones included.
    pub(crate) fn num_entries(&self) -> u64 {
        self.builder.as_ref().map_or(0, TableBuilder::num_entries)
    }

    /// Completes and syncs the file, and looks whether readers can open it. `None` if nothing was added; the file is gone
    /// then.
    ///
    /// The directory is not synced: one sync after the last output of a job serves all.
    ///
    /// # Errors
    /// `IoError` naming the file; `Corruption` when the file does not hold what was added. The file is removed then.
    pub(crate) fn finish(mut self) -> Result<Option<FinishedTable>> {
        let Some(builder) = self.builder.take() else { return Ok(None) };
        if builder.is_empty() {
            self.builder = Some(builder);
            self.give_up(&Error::aborted("Empty SST file not kept"));
            return Ok(None);
        }
        match self.complete(builder) {
            Ok(finished) => {
                self.settings.file_manager.on_add_file(&self.path, finished.file.file_size);
                self.settings.reporter.created(&self.path, &finished.file, &finished.properties);
                Ok(Some(finished))
            }
            Err(error) => {
                let error = error.with_file(&self.path);
                let _ = self.settings.fs.remove_file(&self.path);
                self.settings.reporter.failed(&self.path, &self.file, &error);
                Err(error)
            }
        }
    }

    fn complete(&mut self, mut builder: TableBuilder) -> Result<FinishedTable> {
        let summary = builder.finish()?;
        let mut file = builder.into_file();
        if self.settings.use_fsync {
            file.fsync()?;
        } else {
            file.sync()?;
        }
        file.close()?;
        if self.has_points {
            let last = InternalKey::from_encoded(std::mem::take(&mut self.last_key))?;
            let first = self.file.smallest.clone();
            self.extend(first, last);
        }
        self.file.file_size = summary.file_size;
        self.file.tail_size = summary.tail_size;
        if let Some(checksum) = &self.checksum {
            (self.file.file_checksum, self.file.file_checksum_func_name) = checksum.current();
        }
        let settings = &self.settings;
        verify_output(&*settings.tables, settings.family_id, &self.file, &self.digest, settings.checks)?;
        let manager = &settings.file_manager;
        let most = manager.max_allowed_space_bytes();
        // A flush must not fail for that: what it writes frees memory and a WAL.
        if most > 0 && !settings.is_flush && manager.total_bytes().saturating_add(self.file.file_size) >= most {
            return Err(max_allowed_space_reached());
        }
        Ok(FinishedTable { file: std::mem::take(&mut self.file), properties: Arc::new(summary.properties) })
    }

    /// Removes the file of a job that failed with `error`.
    pub(crate) fn abandon(mut self, error: &Error) {
        self.give_up(error);
    }

    fn give_up(&mut self, error: &Error) {
        if self.builder.take().is_some() {
            let _ = self.settings.fs.remove_file(&self.path);
            self.settings.reporter.failed(&self.path, &self.file, error);
        }
    }
}

impl Drop for TableOutput {
    fn drop(&mut self) {
        self.give_up(&Error::aborted("the table was given up"));
    }
}

/// The tables take all the space that they may.
#[cold]
pub(crate) fn max_allowed_space_reached() -> Error {
    Error::io_error("Max allowed space was reached").with_subcode(SubCode::SpaceLimit)
}

fn unique_id(settings: &OutputSettings, number: FileNumber) -> [u64; 2] {
    match InternalUniqueId::new(&settings.db_id, &settings.session_id, number.get()) {
        Ok(InternalUniqueId([first, second, _])) => [first, second],
        Err(_) => [0, 0],
    }
}

/// The temperature of outputs at `level` of a family (`docs/behaviour/compaction.md`, Metadata).
pub(crate) fn output_temperature(options: &ColumnFamilyOptions, level: usize) -> Temperature {
    let is_last = level > 0 && usize::try_from(options.num_levels).is_ok_and(|levels| level + 1 == levels);
    match options.last_level_temperature {
        temperature if is_last && temperature != crate::options::Temperature::Unknown => Temperature(temperature as u8),
        _ => Temperature(options.default_write_temperature as u8),
    }
}

/// The compression of outputs at `level` of a family (`docs/behaviour/compaction.md`, Metadata).
pub(crate) fn output_compression(
    options: &ColumnFamilyOptions,
    level: usize,
    base_level: usize,
    bottommost: bool,
) -> CompressionType {
    if bottommost && options.bottommost_compression != CompressionType::DisableOption {
        return options.bottommost_compression;
    }
    if options.compression_per_level.is_empty() {
        return options.compression;
    }
    let index = if level == 0 { 0 } else { (level + 1).saturating_sub(base_level) };
    let last = options.compression_per_level.len() - 1;
    options.compression_per_level.get(index.min(last)).copied().unwrap_or(options.compression)
}
