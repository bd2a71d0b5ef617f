//! Ingestion: tables that were written outside the database become part of it, as a whole or not at all.
//!
//! Paths of finished tables flow in; the tables' files in the database's directories, one version edit that places them and
//! a new super version flow out. The steps, and who waits for whom:
//!
//! ```text
//! prepare  every file is opened, checked, and linked or copied under a new number, durably     (writers go on)
//! flush    memtables that overlap the files go to level 0                                      (writers wait)
//! sync     WALs, or a power failure could take writes from before the files and leave these     (writers wait)
//! place    each file gets a level and a sequence number; no compaction of the family starts    (writers wait)
//! commit   one edit in the MANIFEST, then the last sequence and the super version              (writers wait)
//! move     sources of moved files are removed                                                  (writers go on)
//! ```
//!
//! Always true here: a file is durable under its new name before the MANIFEST names it, and its source is removed only
//! after that, so that a crash leaves the files either ingested, or where they were; what was copied in vain is removed
//! now, or as garbage by the next open.

mod place;
mod prepare;
mod transfer;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_env::sync::MutexGuard;
use firn_env::sync::atomic::Ordering;
use firn_env::{log_event, log_info, thread};
use firn_error::{Error, Result};
use firn_format::key::{InternalKey, SequenceNumber, ValueType, extract_footer};
use firn_format::version_edit::VersionEdit;
use firn_table::TableReadOptions;

use super::column_family::ColumnFamilyData;
use super::error_handler::BackgroundErrorReason;
use super::flush::FlushReason;
use super::handle::{ColumnFamily, Db};
use super::report::Retired;
use super::{DbInner, DbState};
use crate::compaction::picker::{CompactionPlan, CompactionReason};
use crate::memtable::MemTable;
use crate::options::{ColumnFamilyOptions, CompactionStyle, IngestExternalFileOptions};
use crate::stats::event_log::ListItem;
use crate::stats::events::ExternalFileIngestionInfo;
use crate::stats::{EventLine, HistogramKind, StopWatch};
use crate::version::{ManifestChange, OpenPolicy, TableSource, VersionSet};
use place::{LevelFacts, Placement};
pub(crate) use prepare::KeyRange;
use prepare::{ExternalFile, Preparation};
pub use transfer::{ExportedColumnFamily, ExportedFile, ImportColumnFamilyOptions};
pub use writer::sst_file_writer;

/// Files that one call adds to one column family.
#[derive(Clone, Debug)]
pub struct IngestExternalFiles<'a> {
    /// The column family.
    pub cf: &'a ColumnFamily,
    /// The files; where they overlap, a later one is newer.
    pub files: Vec<PathBuf>,
    /// The checksums that the files must have, in their order, if the database keeps checksums of whole files
    /// (`file_checksum_gen_factory`); empty when they are not known, and are computed.
    pub checksums: Vec<ExternalFileChecksum>,
    /// How they are added.
    pub options: IngestExternalFileOptions,
}

/// The checksum of a whole file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalFileChecksum {
    /// The bytes of the checksum.
    pub checksum: Vec<u8>,
    /// The name of the function that it is of, such as `FileChecksumCrc32c`.
    pub function: String,
}

impl Db {
    /// Adds tables that [`sst_file_writer`](crate::sst_file_writer) (or RocksDB's `SstFileWriter`) wrote to a column family:
    /// all become visible at once, newer than everything written before; where they overlap each other, a later one is
    /// newer. Each is put on the deepest level where it hides nothing newer.
    ///
    /// Durable when this returns, and with it every write before it that has a WAL; after a crash before that the files are
    /// in the database, all of them, or none. Writers wait while files are placed, and while memtables that overlap them are
    /// flushed. The files are copied, unless the options ask for links.
    ///
    /// # Errors
    /// `InvalidArgument` and `Corruption` for files and options that do not fit, `TryAgain` with
    /// `fail_if_not_bottommost_level`, `IoError`, the background error in force. Nothing is changed then.
    pub fn ingest_external_file<P: AsRef<Path>>(
        &self,
        cf: &ColumnFamily,
        files: &[P],
        options: &IngestExternalFileOptions,
    ) -> Result<()> {
        let files = files.iter().map(|path| path.as_ref().to_path_buf()).collect();
        self.ingest_external_files(&[IngestExternalFiles { cf, files, checksums: Vec::new(), options: *options }])
    }

    /// [`Db::ingest_external_file`] for several column families, which all get their files or none.
    ///
    /// # Errors
    /// As for [`Db::ingest_external_file`].
    pub fn ingest_external_files(&self, ingestions: &[IngestExternalFiles<'_>]) -> Result<()> {
        self.inner.db.ingest(ingestions)
    }
}

/// What is about to be added to one column family.
struct FamilyIngestion {
    data: Arc<ColumnFamilyData>,
    options: IngestExternalFileOptions,
    files: Vec<ExternalFile>,
    /// Whether some of the files overlap.
    files_overlap: bool,
}

impl FamilyIngestion {
    fn ranges(&self) -> impl Iterator<Item = &KeyRange> {
        self.files.iter().map(|file| &file.range)
    }

    /// The least and the greatest user key of all files.
    fn bounds(&self) -> (Vec<u8>, Vec<u8>) {
        let order = &self.data.comparator;
        let smallest = self.ranges().map(|range| range.smallest.user_key()).min_by(|a, b| order.compare_user(a, b));
        let largest = self.ranges().map(|range| range.largest.user_key()).max_by(|a, b| order.compare_user(a, b));
        (smallest.unwrap_or_default().to_vec(), largest.unwrap_or_default().to_vec())
    }
}

impl DbInner {
    fn ingest(&self, ingestions: &[IngestExternalFiles<'_>]) -> Result<()> {
        self.check_writable()?;
        if ingestions.is_empty() || ingestions.iter().any(|ingestion| ingestion.files.is_empty()) {
            return Err(Error::invalid_argument("The list of files is empty"));
        }
        for (at, ingestion) in ingestions.iter().enumerate() {
            let data = &ingestion.cf.data;
            self.check_owner(data)?;
            data.check_live()?;
            if ingestions.iter().skip(at + 1).any(|other| other.cf.data.id == data.id) {
                return Err(Error::invalid_argument("ingesting twice into one column family in one call"));
            }
            self.check_ingest_options(&data.options(), &ingestion.options)?;
        }
        let mut preparation = Preparation::new(self);
        let prepared = {
            let _watch = self.watch(HistogramKind::IngestExternalFilePrepareMicros);
            let one = |ingestion: &IngestExternalFiles<'_>| preparation.family(ingestion);
            ingestions.iter().map(one).collect::<Result<Vec<_>>>()
        };
        let outcome = prepared.and_then(|families| {
            let _watch = self.watch(HistogramKind::IngestExternalFileRunMicros);
            self.commit_ingestion(&families, &mut preparation).map(|()| families)
        });
        outcome.map(|families| self.remove_sources(&families))
    }

    fn watch(&self, histogram: HistogramKind) -> Option<StopWatch<'_>> {
        Some(StopWatch::start(self.statistics.as_ref(), &**self.env.clock(), histogram))
    }

    fn check_ingest_options(&self, cf: &ColumnFamilyOptions, options: &IngestExternalFileOptions) -> Result<()> {
        if options.move_files && options.link_files {
            return Err(Error::invalid_argument("`move_files` and `link_files` can not both be true."));
        }
        if options.ingest_behind && !self.allows_ingest_behind(cf) {
            return Err(Error::invalid_argument("can't ingest_behind file in DB with allow_ingest_behind=false"));
        }
        if options.allow_db_generated_files && options.write_global_seqno {
            return Err(Error::not_supported(
                "write_global_seqno is deprecated and does not work with files generated by DB",
            ));
        }
        Ok(())
    }

    /// Whether the last level is kept for files that are ingested behind.
    pub(crate) fn allows_ingest_behind(&self, cf: &ColumnFamilyOptions) -> bool {
        cf.cf_allow_ingest_behind || self.options().allow_ingest_behind
    }

    /// Makes prepared files part of the database. Leads the write queue meanwhile.
    fn commit_ingestion(&self, families: &[FamilyIngestion], preparation: &mut Preparation<'_>) -> Result<()> {
        // Most of it now, since writers wait for what is left.
        self.flush_wal(true)?;
        let front = self.writers.enter_exclusive();
        self.flush_what_overlaps(families)?;
        self.flush_wal(true)?;
        let mut state = self.state.lock();
        if state.errors.is_stopped()
            && let Some(error) = state.errors.error()
        {
            return Err(error.clone());
        }
        for family in families {
            family.data.check_live()?;
        }
        // From here to the end no compaction of these families starts: it could not know of the files yet.
        let plans: Vec<Arc<CompactionPlan>> =
            families.iter().filter_map(|family| self.ingestion_plan(&state, family)).map(Arc::new).collect();
        let others: Vec<Arc<CompactionPlan>> = state.running.clone();
        state.running.extend(plans.iter().map(Arc::clone));
        let place = || self.place_and_log(&mut state, families, &plans, &others, preparation);
        let outcome = thread::catch_panic("the ingestion", place);
        state.running.retain(|running| !plans.iter().any(|plan| Arc::ptr_eq(plan, running)));
        let mut retired = Retired::default();
        families.iter().for_each(|family| retired.absorb(self.install_super_version(&mut state, family.data.id)));
        self.background.notify_all();
        let last = families.last().and_then(|family| state.versions.family(family.data.id));
        let counts: Vec<usize> =
            last.map(|versions| versions.current().levels().iter().map(Vec::len).collect()).unwrap_or_default();
        drop(state);
        // Listeners may write.
        drop(front);
        drop(retired);
        outcome.map(|placements| self.report_ingestion(families, &placements, &counts))
    }

    /// Stands for the ingestion among the running compactions.
    fn ingestion_plan(&self, state: &DbState, family: &FamilyIngestion) -> Option<CompactionPlan> {
        let version = Arc::clone(state.versions.family(family.data.id)?.current());
        let base_level = self.targets(state, family.data.id)?.base_level;
        let plan = CompactionPlan::reservation(version, CompactionReason::ExternalSstIngestion, 0, family.bounds());
        Some(CompactionPlan { base_level, ..plan })
    }

    /// Chooses levels and sequence numbers, writes the MANIFEST and publishes.
    fn place_and_log(
        &self,
        state: &mut MutexGuard<'_, DbState>,
        families: &[FamilyIngestion],
        plans: &[Arc<CompactionPlan>],
        others: &[Arc<CompactionPlan>],
        preparation: &mut Preparation<'_>,
    ) -> Result<Vec<Vec<Placement>>> {
        let has_snapshots = self.snapshots.oldest().is_some();
        let mut last_sequence = self.visible_sequence();
        let checksums = self.options().file_checksum_gen_factory.clone();
        let mut edits = Vec::new();
        let placements = MutexGuard::unlocked(state, || {
            let now_secs = self.env.clock().now_secs();
            let mut placements = Vec::new();
            for (family, plan) in families.iter().zip(plans) {
                let placed = self.place(family, plan, others, has_snapshots, &mut last_sequence)?;
                let mut edit = VersionEdit { column_family: family.data.id, ..VersionEdit::default() };
                for (file, placement) in family.files.iter().zip(&placed) {
                    let level = u32::try_from(placement.level).unwrap_or(u32::MAX);
                    let written =
                        file.write_sequence(&**self.env.fs(), placement.sequence, family.options.write_global_seqno)?;
                    let mut described = file.describe(placement.sequence, now_secs);
                    if let Some(factory) = &checksums {
                        file.add_checksum(&mut described, &**self.env.fs(), &**factory, written)?;
                    }
                    edit.add_file(level, described);
                }
                edits.push(edit);
                placements.push(placed);
            }
            Ok::<_, Error>(placements)
        })?;
        for (family, edit) in families.iter().zip(&mut edits) {
            for (_, file) in &mut edit.new_files {
                file.epoch_number = match state.versions.family_mut(family.data.id) {
                    Some(versions) if !family.options.ingest_behind => versions.new_epoch_number(),
                    // Kept free for what comes from behind.
                    _ => 1,
                };
            }
        }
        let atomic = edits.len() > 1;
        // From here on a MANIFEST may name the files, even if writing it fails.
        preparation.keep();
        VersionSet::log_and_apply(state, ManifestChange { edits, atomic, ..ManifestChange::default() })
            .inspect_err(|error| self.set_background_error(state, BackgroundErrorReason::ManifestWrite, error))?;
        // Nobody else hands out sequence numbers: this thread leads the writers.
        self.visible.fetch_max(last_sequence.get(), Ordering::AcqRel);
        Ok(placements)
    }

    fn place(
        &self,
        family: &FamilyIngestion,
        plan: &CompactionPlan,
        others: &[Arc<CompactionPlan>],
        has_snapshots: bool,
        last_sequence: &mut SequenceNumber,
    ) -> Result<Vec<Placement>> {
        let options = family.data.options();
        let running: Vec<&CompactionPlan> =
            others.iter().filter(|other| other.column_family == family.data.id).map(|other| &**other).collect();
        let facts = LevelFacts {
            version: &plan.version,
            base_level: plan.base_level,
            running: &running,
            is_fifo: options.compaction_style == CompactionStyle::Fifo,
            reserves_last_level: self.allows_ingest_behind(&options),
            forces_sequence: family.options.snapshot_consistency && has_snapshots,
            files_overlap: family.files_overlap,
        };
        let read = TableReadOptions {
            total_order_seek: true,
            fill_cache: family.options.fill_cache,
            ..TableReadOptions::default()
        };
        let mut has_keys = |level: usize, range: &KeyRange| -> Result<bool> {
            for file in plan.version.files(level).iter().filter(|file| range.meets(&file.smallest, &file.largest)) {
                let table = family.data.tables().table(file, OpenPolicy::MayOpen)?;
                let mut entries = table.reader.iter(&read);
                if range.has_point_of(&mut entries)?
                    || table.tombstones.as_ref().is_some_and(|tombstones| range.meets_tombstone_of(tombstones))
                {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        place::place(&facts, &family.files, &family.options, last_sequence, &mut has_keys)
    }

    /// Flushes the memtables that hold keys between those of the files. The caller leads the write queue.
    fn flush_what_overlaps(&self, families: &[FamilyIngestion]) -> Result<()> {
        let overlapping: Vec<&FamilyIngestion> = {
            let state = self.state.lock();
            let overlaps = |family: &&FamilyIngestion| {
                state.families.get(&family.data.id).is_some_and(|memory| {
                    let memtables = std::iter::once(&memory.mem).chain(&memory.imm);
                    memtables.into_iter().any(|memtable| family.ranges().any(|range| range.meets_memtable(memtable)))
                })
            };
            families.iter().filter(overlaps).collect()
        };
        if overlapping.is_empty() {
            return Ok(());
        }
        if overlapping.iter().any(|family| !family.options.allow_blocking_flush) {
            return Err(Error::invalid_argument("External file requires flush"));
        }
        let mut ids: Vec<u32> = overlapping.iter().map(|family| family.data.id).collect();
        if self.options().atomic_flush {
            ids = self.families.all().iter().map(|data| data.id).collect();
        }
        let targets = {
            let mut log = self.log.lock();
            let mut state = self.state.lock();
            self.request_flush(&mut log, &mut state, &ids, FlushReason::ExternalFileIngestion)?
        };
        self.wait_for_flush(&targets)
    }

    fn report_ingestion(&self, families: &[FamilyIngestion], placements: &[Vec<Placement>], counts: &[usize]) {
        let mut files = Vec::new();
        for (family, placements) in families.iter().zip(placements) {
            for (file, placement) in family.files.iter().zip(placements) {
                {
                    let ingest = &mut family.data.stats.lock().ingest;
                    ingest.files_ingested += 1;
                    ingest.level0_files_ingested += u64::from(placement.level == 0);
                    ingest.bytes_ingested += file.size_bytes;
                    ingest.keys_ingested += file.properties.num_entries;
                }
                log_info!(
                    self.logger(),
                    "[{}] Ingested {} as table #{} on level {} with sequence number {}",
                    family.data.name,
                    file.source.display(),
                    file.number,
                    placement.level,
                    placement.sequence.get()
                );
                self.file_manager.on_add_file(&file.path, file.size_bytes);
                files.extend([
                    ListItem::Text("file".to_owned()),
                    ListItem::Text(file.path.display().to_string()),
                    ListItem::Text("level".to_owned()),
                    ListItem::Number(placement.level as u64),
                ]);
            }
        }
        let line = EventLine::new(self.env.clock().now_micros())
            .text("event", "ingest_finished")
            .list("files_ingested", files)
            .numbers("lsm_state", counts.iter().map(|&count| count as u64));
        log_event!(self.logger(), "{}", line.finish());
        if self.listeners.is_empty() {
            return;
        }
        for (family, placements) in families.iter().zip(placements) {
            for (file, placement) in family.files.iter().zip(placements) {
                let info = ExternalFileIngestionInfo {
                    column_family: family.data.name.clone(),
                    external_file_path: file.source.clone(),
                    internal_file_path: file.path.clone(),
                    global_sequence: placement.sequence.get(),
                    table_properties: Some(Arc::clone(&file.properties)),
                };
                self.listeners.tell_calmly(|listener| listener.on_external_file_ingested(&info));
            }
        }
    }

    /// The last step of moving files. Failures cost nothing but disk space.
    fn remove_sources(&self, families: &[FamilyIngestion]) {
        for family in families.iter().filter(|family| family.options.move_files) {
            for file in &family.files {
                if let Err(error) = self.env.fs().remove_file(&file.source) {
                    log_info!(self.logger(), "{} was ingested but not removed: {error}", file.source.display());
                }
            }
        }
    }
}

/// `key` with `sequence`, unless it is a bound that is no key.
fn with_sequence(key: &InternalKey, sequence: SequenceNumber) -> InternalKey {
    if key.is_range_sentinel() {
        return key.clone();
    }
    let value_type = ValueType::from_u8(extract_footer(key.encoded()) as u8).unwrap_or(ValueType::FOR_SEEK);
    InternalKey::new(key.user_key(), sequence, value_type)
}

impl DbState {
    /// Whether files are being ingested into family `id`, so that no compaction of it may start.
    pub(crate) fn is_ingesting(&self, id: u32) -> bool {
        let is_ingestion = |plan: &Arc<CompactionPlan>| plan.reason == CompactionReason::ExternalSstIngestion;
        self.running.iter().any(|plan| plan.column_family == id && is_ingestion(plan))
    }
}
