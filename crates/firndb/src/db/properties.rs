//! What the database tells of itself: properties by name, size estimates.

use std::fmt::Write;
use std::sync::Arc;

use firn_error::{Error, Result};
use firn_format::key::{InternalKey, SequenceNumber};

use super::DbInner;
use super::column_family::ColumnFamilyData;
use crate::version::Version;

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

impl DbInner {
    /// A property as text; see [`Db::property`](crate::Db::property).
    pub(crate) fn property(&self, data: &Arc<ColumnFamilyData>, name: &str) -> Option<String> {
        let rest = name.strip_prefix("rocksdb.")?;
        let version = || Arc::clone(&data.super_version.current().version);
        match rest {
            "levelstats" => Some(level_stats(&version())),
            "sstables" => Some(tables_by_level(&version())),
            _ => match rest.strip_prefix("num-files-at-level") {
                Some(level) => {
                    let level: usize = level.parse().ok()?;
                    let version = version();
                    (level < version.num_levels()).then(|| version.files(level).len().to_string())
                }
                None => self.property_int(data, name).map(|number| number.to_string()),
            },
        }
    }

    /// A property as a number; see [`Db::property_int`](crate::Db::property_int).
    pub(crate) fn property_int(&self, data: &Arc<ColumnFamilyData>, name: &str) -> Option<u64> {
        let rest = name.strip_prefix("rocksdb.")?;
        let view = data.super_version.current();
        let memory = |memtables: &mut dyn Iterator<Item = u64>| Some(memtables.sum::<u64>());
        let bytes = |mem: &Arc<crate::memtable::MemTable>| mem.memory_bytes() as u64;
        let state = self.state.lock();
        let family = state.families.get(&data.id);
        match rest {
            "num-immutable-mem-table" => Some(view.imm.len() as u64),
            "num-immutable-mem-table-flushed" => Some(0),
            "mem-table-flush-pending" => Some(u64::from(family?.is_flush_pending())),
            "num-running-flushes" => Some(state.flushes_running as u64),
            "compaction-pending" => Some(u64::from(family?.queued_for_compaction)),
            "num-running-compactions" => Some(state.running.len() as u64),
            "background-errors" => Some(u64::from(state.errors.error().is_some())),
            "cur-size-active-mem-table" => Some(bytes(&view.mem)),
            "cur-size-all-mem-tables" | "size-all-mem-tables" => {
                memory(&mut std::iter::once(&view.mem).chain(&view.imm).map(bytes))
            }
            "num-entries-active-mem-table" => Some(view.mem.entry_count()),
            "num-entries-imm-mem-tables" => memory(&mut view.imm.iter().map(|mem| mem.entry_count())),
            "num-deletes-active-mem-table" => Some(view.mem.delete_count()),
            "num-deletes-imm-mem-tables" => memory(&mut view.imm.iter().map(|mem| mem.delete_count())),
            "estimate-num-keys" => Some(estimated_keys(&view.version, &view.mem, &view.imm)),
            "is-file-deletions-enabled" => Some(u64::from(state.deletions_disabled == 0)),
            "num-snapshots" => Some(self.snapshots.count()),
            "oldest-snapshot-time" => Some(self.snapshots.oldest().map_or(0, |(_, time)| time)),
            "oldest-snapshot-sequence" => Some(self.snapshots.oldest().map_or(0, |(sequence, _)| sequence.get())),
            "num-live-versions" => Some(state.versions.num_live_versions(data.id) as u64),
            "current-super-version-number" => Some(view.number),
            "min-log-number-to-keep" => Some(state.versions.min_log_number_to_keep().get()),
            "total-sst-files-size" | "live-sst-files-size" => {
                Some(view.version.all_files().map(|(_, file)| file.file_size).sum())
            }
            "estimate-live-data-size" => Some(view.version.all_files().map(|(_, file)| file.file_size).sum()),
            "base-level" => self.targets(&state, data.id).map(|targets| targets.base_level as u64),
            "estimate-pending-compaction-bytes" => Some(family?.stall_facts.pending_compaction_bytes),
            "actual-delayed-write-rate" => Some(state.controller.actual_delayed_write_rate()),
            "is-write-stopped" => Some(u64::from(state.controller.is_stopped())),
            "estimate-table-readers-mem" => Some(0),
            _ => None,
        }
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

fn estimated_keys(version: &Version, mem: &crate::memtable::MemTable, imm: &[Arc<crate::memtable::MemTable>]) -> u64 {
    let tables: u64 = version
        .all_files()
        .filter_map(|(_, file)| file.stats())
        .map(|stats| stats.num_entries.saturating_sub(2 * stats.num_deletions))
        .sum();
    let memory = |mem: &crate::memtable::MemTable| mem.entry_count().saturating_sub(2 * mem.delete_count());
    tables + memory(mem) + imm.iter().map(|mem| memory(mem)).sum::<u64>()
}

/// The report of `rocksdb.levelstats`.
fn level_stats(version: &Version) -> String {
    let mut text = String::from("Level Files Size(MB)\n--------------------\n");
    for (level, files) in version.levels().iter().enumerate() {
        let megabytes = version.level_bytes(level) as f64 / f64::from(1 << 20);
        let _ = writeln!(text, "{level:>3} {:>8} {megabytes:>8.0}", files.len());
    }
    text
}

/// The report of `rocksdb.sstables`.
fn tables_by_level(version: &Version) -> String {
    let mut text = String::new();
    for (level, files) in version.levels().iter().enumerate() {
        let _ = writeln!(text, "--- level {level} --- version# {} ---", version.number());
        for file in files {
            let _ = writeln!(
                text,
                " {}:{}[{} .. {}]['{}' seq:{}, type:{} .. '{}' seq:{}, type:{}]",
                file.number,
                file.file_size,
                file.smallest_sequence,
                file.largest_sequence,
                file.smallest.user_key().escape_ascii(),
                file.smallest.sequence(),
                firn_format::key::extract_footer(file.smallest.encoded()) & 0xff,
                file.largest.user_key().escape_ascii(),
                file.largest.sequence(),
                firn_format::key::extract_footer(file.largest.encoded()) & 0xff,
            );
        }
    }
    text
}
