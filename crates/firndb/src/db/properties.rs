//! What the database tells of itself: properties by name, size estimates.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_error::{Error, Result};
use firn_format::key::{InternalKey, SequenceNumber};
use firn_table::BlockCache;

use super::DbInner;
use super::column_family::ColumnFamilyData;
use super::super_version::SuperVersion;
use crate::compaction::picker;
use crate::memtable::MemTable;
use crate::stats::report::{AggregatedTableProperties, TableShape, level_stats_text, read_latency_text, tables_text};
use crate::stats::{
    BlobShape, ColumnFamilyShape, Histogram, LevelShape, Property, PropertyQuery, PropertySource, get_int_property,
    get_map_property, get_property,
};
use crate::version::{FileMetaData, OpenPolicy, TableSource, Version};

/// What a size estimate counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeApproximation {
    /// Table files.
    Files,
    /// Memtables.
    MemTables,
    /// Both.
    FilesAndMemTables,
}

/// Answers the properties of one column family, and those of the database.
struct FamilyProperties<'a> {
    db: &'a DbInner,
    data: &'a Arc<ColumnFamilyData>,
}

impl FamilyProperties<'_> {
    fn view(&self) -> Arc<SuperVersion> {
        self.data.super_version.current()
    }

    /// The present shape of the tree.
    fn shape(&self) -> ColumnFamilyShape {
        let state = self.db.state.lock();
        let scores = self.db.scores(&state, self.data.id);
        drop(state);
        let version = Arc::clone(&self.view().version);
        let levels = version.levels().iter().enumerate().map(|(level, files)| LevelShape {
            files: files.len(),
            files_being_compacted: files.iter().filter(|file| file.being_compacted()).count(),
            size_bytes: version.level_bytes(level),
            score: scores.as_ref().map_or(0.0, |scores| scores.of_level(level)),
        });
        ColumnFamilyShape {
            name: self.data.name.clone(),
            levels: levels.collect(),
            pending_compaction_bytes: scores.map_or(0, |scores| scores.pending_compaction_bytes),
            ..ColumnFamilyShape::default()
        }
    }

    fn now_micros(&self) -> u64 {
        self.db.env.clock().now_micros()
    }

    fn family_text(&self) -> String {
        let shape = self.shape();
        self.data.stats.lock().text(&shape, self.now_micros())
    }

    fn read_latency_text(&self) -> String {
        let levels = self.data.tables().options().latencies.as_ref().map(|latencies| latencies.histograms());
        read_latency_text(&self.data.name, &levels.unwrap_or_default(), &Histogram::new())
    }

    /// Bytes of memory that the open tables of a version take outside of the block cache.
    fn table_readers_bytes(&self, version: &Version) -> u64 {
        let tables = self.data.tables();
        let open = version.all_files().filter_map(|(_, file)| tables.table(file, OpenPolicy::MemoryOnly).ok());
        open.map(|table| table.reader.memory_bytes() as u64).sum()
    }

    fn db_text(&self) -> String {
        self.db.log.lock().stats.text(self.now_micros())
    }

    /// The properties of the tables of all levels, or of one, added up. Tables that cannot be opened are left out.
    fn table_properties(&self, level: Option<usize>) -> Option<AggregatedTableProperties> {
        let version = Arc::clone(&self.view().version);
        if level.is_some_and(|level| level >= version.num_levels()) {
            return None;
        }
        let mut sum = AggregatedTableProperties::default();
        for (_, file) in version.all_files().filter(|(of, _)| level.is_none_or(|level| level == *of)) {
            if let Ok(table) = self.data.tables().table(file, OpenPolicy::MayOpen) {
                sum.add(table.reader.properties());
            }
        }
        Some(sum)
    }

    /// Raw bytes by file bytes of a level; -1 when no table tells.
    fn compression_ratio(&self, level: usize) -> Option<f64> {
        let version = Arc::clone(&self.view().version);
        if level >= version.num_levels() {
            return None;
        }
        let known = version.files(level).iter().filter_map(|file| Some((file.stats()?, file.file_size)));
        let (raw, stored) = known.fold((0, 0), |(raw, stored), (stats, size)| {
            (raw + stats.raw_key_size + stats.raw_value_size, stored + size)
        });
        Some(if stored == 0 { -1.0 } else { raw as f64 / stored as f64 })
    }

    fn block_cache(&self) -> Option<&Arc<BlockCache>> {
        self.data.tables().options().reader.block_cache.as_ref()
    }
}

impl PropertySource for FamilyProperties<'_> {
    fn integer(&self, query: PropertyQuery) -> Option<u64> {
        use Property as P;
        let (db, data) = (self.db, self.data);
        let view = self.view();
        let bytes = |mem: &Arc<MemTable>| mem.memory_bytes() as u64;
        let version_bytes = || view.version.all_files().map(|(_, file)| file.file_size).sum();
        match query.property {
            P::BlockCacheCapacity => return self.block_cache().map(|cache| cache.capacity_bytes() as u64),
            P::BlockCacheUsage => return self.block_cache().map(|cache| cache.usage_bytes() as u64),
            P::BlockCachePinnedUsage => return self.block_cache().map(|cache| cache.pinned_usage_bytes() as u64),
            _ => {}
        }
        let state = db.state.lock();
        let family = state.families.get(&data.id);
        Some(match query.property {
            P::NumImmutableMemTable => view.imm.len() as u64,
            P::NumImmutableMemTableFlushed => 0,
            P::MemTableFlushPending => u64::from(family?.is_flush_pending()),
            P::NumRunningFlushes => state.flushes_running as u64,
            // Due, whether or not one may run by itself.
            P::CompactionPending => u64::from(db.with_picker_input(&state, data.id, picker::needs_compaction)?),
            P::NumRunningCompactions => state.running.iter().filter(|plan| !plan.inputs.is_empty()).count() as u64,
            P::NumUnscheduledCompactions => state.compaction_queue.len() as u64,
            P::BackgroundErrors => state.background_errors,
            P::CurSizeActiveMemTable => bytes(&view.mem),
            P::CurSizeAllMemTables | P::SizeAllMemTables => {
                std::iter::once(&view.mem).chain(&view.imm).map(bytes).sum()
            }
            P::NumEntriesActiveMemTable => view.mem.entry_count(),
            P::NumEntriesImmMemTables => view.imm.iter().map(|mem| mem.entry_count()).sum(),
            P::NumDeletesActiveMemTable => view.mem.delete_count(),
            P::NumDeletesImmMemTables => view.imm.iter().map(|mem| mem.delete_count()).sum(),
            P::EstimateNumKeys => estimated_keys(&view.version, &view.mem, &view.imm),
            P::IsFileDeletionsEnabled => u64::from(state.deletions_disabled == 0),
            P::NumSnapshots => db.snapshots.count(),
            P::OldestSnapshotTime => db.snapshots.oldest().map_or(0, |(_, time)| time),
            P::OldestSnapshotSequence => db.snapshots.oldest().map_or(0, |(sequence, _)| sequence.get()),
            P::NumLiveVersions => state.versions.num_live_versions(data.id) as u64,
            P::CurrentSuperVersionNumber => view.number,
            P::MinObsoleteSstNumberToKeep => state.pending_outputs.first().map_or(u64::MAX, |number| number.get()),
            P::MinLogNumberToKeep => state.versions.min_log_number_to_keep().get(),
            P::TotalSstFilesSize | P::LiveSstFilesSize | P::EstimateLiveDataSize => version_bytes(),
            P::BaseLevel => db.targets(&state, data.id)?.base_level as u64,
            P::EstimatePendingCompactionBytes => family?.stall_facts.pending_compaction_bytes,
            P::ActualDelayedWriteRate => state.controller.actual_delayed_write_rate(),
            P::IsWriteStopped => u64::from(state.controller.is_stopped()),
            P::EstimateTableReadersMem => self.table_readers_bytes(&view.version),
            P::NumBlobFiles | P::TotalBlobFileSize | P::LiveBlobFileSize | P::LiveBlobFileGarbageSize => 0,
            _ => return None,
        })
    }

    fn text(&self, query: PropertyQuery) -> Option<String> {
        use Property as P;
        let argument = || usize::try_from(query.argument?).ok();
        Some(match query.property {
            P::NumFilesAtLevel => {
                let (level, version) = (argument()?, Arc::clone(&self.view().version));
                (level < version.num_levels()).then(|| version.files(level).len().to_string())?
            }
            P::CompressionRatioAtLevel => format!("{:.6}", self.compression_ratio(argument()?)?),
            P::LiveSstFilesSizeAtTemperature => {
                let (wanted, default) = (argument()?, self.data.options().default_temperature as u8);
                let version = Arc::clone(&self.view().version);
                let temperature = |file: &FileMetaData| match file.temperature.0 {
                    0 => default,
                    known => known,
                };
                let files = version.all_files().map(|(_, file)| file);
                let bytes = files.filter(|file| usize::from(temperature(file)) == wanted).map(|file| file.file_size);
                bytes.sum::<u64>().to_string()
            }
            P::Stats => self.family_text() + &self.read_latency_text() + &self.db_text(),
            P::CfStats => self.family_text() + &self.read_latency_text(),
            P::CfStatsNoFileHistogram => self.family_text(),
            P::CfFileHistogram => self.read_latency_text(),
            P::CfStatsPeriodic => {
                let shape = self.shape();
                self.data.stats.lock().periodic_text(&shape, self.now_micros())
            }
            P::CfWriteStallStats => self.data.stats.lock().stalls.text(),
            P::DbWriteStallStats => self.db.log.lock().stats.stall_text(),
            P::DbStats => self.db_text(),
            P::LevelStats => level_stats_text(&self.shape().levels),
            P::SsTables => {
                let version = Arc::clone(&self.view().version);
                let levels: Vec<Vec<TableShape>> =
                    version.levels().iter().map(|files| files.iter().map(|file| table_shape(file)).collect()).collect();
                tables_text(version.number(), &levels)
            }
            P::AggregatedTableProperties => self.table_properties(None)?.text(),
            P::AggregatedTablePropertiesAtLevel => self.table_properties(Some(argument()?))?.text(),
            P::OptionsStatistics => self.db.statistics.as_ref()?.to_text(),
            P::BlobStats => BlobShape::default().text(),
            _ => return None,
        })
    }

    fn map(&self, query: PropertyQuery) -> Option<BTreeMap<String, String>> {
        use Property as P;
        Some(match query.property {
            P::CfStats => {
                let shape = self.shape();
                self.data.stats.lock().map(&shape)
            }
            P::CfWriteStallStats => self.data.stats.lock().stalls.map(),
            P::DbWriteStallStats => self.db.log.lock().stats.stall_map(),
            P::DbStats => self.db.log.lock().stats.map(self.now_micros()),
            P::AggregatedTableProperties => self.table_properties(None)?.map(),
            P::AggregatedTablePropertiesAtLevel => {
                self.table_properties(Some(usize::try_from(query.argument?).ok()?))?.map()
            }
            _ => return None,
        })
    }
}

fn table_shape(file: &FileMetaData) -> TableShape {
    TableShape {
        number: file.number.get(),
        size_bytes: file.file_size,
        smallest_sequence: file.smallest_sequence.get(),
        largest_sequence: file.largest_sequence.get(),
        smallest_key: file.smallest.encoded().to_vec(),
        largest_key: file.largest.encoded().to_vec(),
        oldest_blob_file: file.oldest_blob_file_number.get(),
        sampled_reads: file.sampled_reads(),
    }
}

impl DbInner {
    /// A property as text; see [`Db::property`](crate::Db::property).
    pub(crate) fn property(&self, data: &Arc<ColumnFamilyData>, name: &str) -> Option<String> {
        get_property(&FamilyProperties { db: self, data }, name)
    }

    /// A property as a number; see [`Db::property_int`](crate::Db::property_int).
    pub(crate) fn property_int(&self, data: &Arc<ColumnFamilyData>, name: &str) -> Option<u64> {
        get_int_property(&FamilyProperties { db: self, data }, name)
    }

    /// A property as a map; see [`Db::property_map`](crate::Db::property_map).
    pub(crate) fn property_map(&self, data: &Arc<ColumnFamilyData>, name: &str) -> Option<BTreeMap<String, String>> {
        get_map_property(&FamilyProperties { db: self, data }, name)
    }

    /// Starts the sums behind `rocksdb.stats` again; see [`Db::reset_stats`](crate::Db::reset_stats).
    pub(crate) fn reset_stats(&self) {
        let now = self.env.clock().now_micros();
        self.column_families().iter().for_each(|data| data.stats.lock().reset(now));
        self.log.lock().stats.reset(now);
    }

    /// Estimated bytes of key ranges; see [`Db::approximate_sizes`](crate::Db::approximate_sizes).
    ///
    /// # Errors
    /// Those of opening tables.
    pub(crate) fn approximate_sizes(
        &self,
        data: &Arc<ColumnFamilyData>,
        ranges: &[(&[u8], &[u8])],
        include: SizeApproximation,
    ) -> Result<Vec<u64>> {
        self.check_owner(data)?;
        let view = data.super_version.current();
        let size = |&(begin, end): &(&[u8], &[u8])| {
            let begin = InternalKey::for_seek(begin, SequenceNumber::MAX);
            let end = InternalKey::for_seek(end, SequenceNumber::MAX);
            let mut bytes = 0;
            if include != SizeApproximation::MemTables {
                bytes += view.version.approximate_size(&**data.tables(), &begin, &end, 0)?;
            }
            if include != SizeApproximation::Files {
                let memory =
                    |mem: &Arc<crate::memtable::MemTable>| mem.approximate_stats(begin.encoded(), end.encoded()).1;
                bytes += std::iter::once(&view.mem).chain(&view.imm).map(memory).sum::<u64>();
            }
            Ok::<u64, Error>(bytes)
        };
        ranges.iter().map(size).collect()
    }
}

/// How many keys there are, by RocksDB's rule: every deletion is taken to hide one entry. A table that was not looked into
/// counts as the average of the others.
fn estimated_keys(version: &Version, mem: &crate::memtable::MemTable, imm: &[Arc<crate::memtable::MemTable>]) -> u64 {
    let (mut files, mut looked_into, mut others, mut deletions) = (0u64, 0u64, 0u64, 0u64);
    for (_, file) in version.all_files() {
        files += 1;
        if let Some(stats) = file.stats() {
            looked_into += 1;
            others = others.saturating_add(stats.num_entries.saturating_sub(stats.num_deletions));
            deletions = deletions.saturating_add(stats.num_deletions);
        }
    }
    let mut tables = others.saturating_sub(deletions);
    if looked_into < files {
        tables = (tables as f64 * files as f64 / looked_into.max(1) as f64) as u64;
    }
    let memtables = || imm.iter().map(|mem| &**mem).chain([mem]);
    let entries: u64 = memtables().map(crate::memtable::MemTable::entry_count).sum();
    let deletes: u64 = memtables().map(crate::memtable::MemTable::delete_count).sum();
    tables.saturating_add(entries).saturating_sub(deletes.saturating_mul(2))
}
