//! Insert streams: parts of a memtable that go straight to the last level, since nothing lies where they go.
//!
//! Some programs append to several places of the key space at once: a table or a time series each. A flush then holds some
//! keys of every stream, its table spans nearly all keys, and compactions would merge streams that never overlap, again and
//! again. Here a flush looks for *runs*: neighbours in key order that were also written in this order. A run over whose
//! range no table lies becomes a table of its own on the last level, where it never has to be merged; all else goes to
//! level 0 as ever.
//!
//! Frozen memtables and a version flow in, ranges flow out. Always true here: a run that is taken overlaps no table of any
//! level, and is reserved among the running compactions from the choice to the MANIFEST, so that none of them and no
//! ingestion writes a table of the last level over it meanwhile.

use std::cmp::Ordering;
use std::sync::Arc;

use firn_env::sync::MutexGuard;
use firn_format::comparator::InternalKeyComparator;
use firn_format::iterator::InternalIterator;
use firn_format::key::{SequenceNumber, extract_footer, extract_user_key};

use super::DbState;
use super::column_family::ColumnFamilyData;
use crate::compaction::picker::{CompactionPlan, CompactionReason};
use crate::memtable::MemTable;
use crate::options::{CompactionStyle, Temperature};
use crate::read::MergingIterator;

/// A run has at least this share of the target size of a table, so that tables stay few.
const RUNS_PER_TARGET: u64 = 256;
/// And at least so many bytes.
const MIN_RUN_BYTES: u64 = 16 << 10;
/// Runs of so many entries are no coincidence.
const MIN_RUN_ENTRIES: u64 = 64;
/// After so many entries it is clear whether there are runs at all.
const PROBE_ENTRIES: u64 = 1 << 15;
/// Tables that one flush writes beside that of level 0, at most.
const MAX_RUNS: usize = 256;

/// Neighbours in key order that were written in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    /// The first user key.
    pub(crate) smallest: Vec<u8>,
    /// The last user key.
    pub(crate) largest: Vec<u8>,
    entries: u64,
    bytes: u64,
}

/// Runs that a flush may write to the last level, ascending, reserved until [`release`](Self::release).
#[derive(Default)]
pub(crate) struct ReservedRuns {
    plans: Vec<Arc<CompactionPlan>>,
    /// The level they go to.
    pub(crate) level: usize,
    /// The level that level 0 compacts to.
    pub(crate) base_level: usize,
}

impl ReservedRuns {
    /// The ranges of user keys, both ends included, ascending.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.plans.iter().map(|plan| (plan.smallest_user_key.as_slice(), plan.largest_user_key.as_slice()))
    }

    /// Gives the ranges free.
    pub(crate) fn release(&self, state: &mut DbState) {
        state.running.retain(|running| !self.plans.iter().any(|plan| Arc::ptr_eq(plan, running)));
    }
}

/// Whether the tables of a family are such that a flush may write to the last level. Compaction filters must come to see
/// everything, and what is new must not go where only what is old or cold is meant to lie.
pub(crate) fn takes_streams(data: &ColumnFamilyData, memtables: &[Arc<MemTable>]) -> bool {
    let options = data.options();
    options.compaction_style == CompactionStyle::Level
        && options.num_levels > 1
        && !options.disable_auto_compactions
        && !options.has_compaction_filter()
        && options.preclude_last_level_data_seconds == 0
        && options.last_level_temperature == Temperature::Unknown
        && data.table_dirs.len() == 1
        && !memtables.iter().any(|memtable| memtable.has_range_deletions())
}

/// The runs in frozen memtables that are worth a table each; none if there is just one that is everything, which can move
/// as a table of level 0.
pub(crate) fn find_runs(
    order: &InternalKeyComparator,
    memtables: &[Arc<MemTable>],
    target_file_bytes: u64,
) -> Vec<Run> {
    if let [memtable] = memtables
        && memtable.was_filled_in_order()
    {
        return Vec::new();
    }
    let min_bytes = (target_file_bytes / RUNS_PER_TARGET).max(MIN_RUN_BYTES);
    let mut found: Vec<Run> = Vec::new();
    let mut keep = |run: Run| {
        if run.bytes >= min_bytes && run.entries >= MIN_RUN_ENTRIES {
            found.push(run);
        }
    };
    let mut entries = MergingIterator::new(order.clone(), memtables.iter().rev().map(|mem| mem.iter()).collect());
    let (mut run, mut newest) = (Run::default(), SequenceNumber::ZERO);
    let (mut seen, mut in_runs) = (0u64, 0u64);
    entries.seek_to_first();
    while entries.valid() {
        let (user_key, sequence) =
            (extract_user_key(entries.key()), SequenceNumber(extract_footer(entries.key()) >> 8));
        // Versions of a key follow each other from the newest to the oldest.
        let is_new_key = run.entries == 0 || order.compare_user(&run.largest, user_key) != Ordering::Equal;
        if is_new_key {
            if sequence < newest {
                in_runs += if run.entries >= MIN_RUN_ENTRIES { run.entries } else { 0 };
                keep(std::mem::take(&mut run));
            }
            if run.entries == 0 {
                run.smallest.extend_from_slice(user_key);
            }
            run.largest.clear();
            run.largest.extend_from_slice(user_key);
            newest = sequence;
        }
        run.entries += 1;
        run.bytes += (entries.key().len() + entries.value().len()) as u64;
        seen += 1;
        if seen == PROBE_ENTRIES && (in_runs + run.entries) < seen / 8 {
            return Vec::new();
        }
        entries.next();
    }
    if run.entries == seen {
        return Vec::new();
    }
    keep(run);
    found.truncate(MAX_RUNS);
    found
}

/// Reserves the runs that overlap no table and nothing that is being written to the last level.
pub(crate) fn reserve(state: &mut MutexGuard<'_, DbState>, data: &ColumnFamilyData, runs: &[Run]) -> ReservedRuns {
    let options = data.options();
    let (Some(family), false) = (state.versions.family(data.id), runs.is_empty()) else {
        return ReservedRuns::default();
    };
    let version = Arc::clone(family.current());
    let last = version.num_levels() - 1;
    let level = if options.level_compaction_dynamic_level_bytes {
        last
    } else {
        version.num_non_empty_levels().saturating_sub(1).max(1)
    };
    let running: Vec<_> = state.running.iter().filter(|plan| plan.column_family == data.id).map(Arc::clone).collect();
    let reserved = |plan: &Arc<CompactionPlan>| plan.reason == CompactionReason::ExternalSstIngestion;
    if level > last || running.iter().any(reserved) {
        return ReservedRuns::default();
    }
    let order = version.order();
    let is_free = |run: &&Run| {
        let (smallest, largest) = (run.smallest.as_slice(), run.largest.as_slice());
        let is_written = running.iter().any(|plan| {
            plan.output_level == level
                && order.compare_user(smallest, &plan.largest_user_key) != Ordering::Greater
                && order.compare_user(largest, &plan.smallest_user_key) != Ordering::Less
        });
        let mut levels = 0..version.num_levels();
        !is_written && !levels.any(|level| version.overlaps_user_range(level, Some(smallest), Some(largest)))
    };
    let plans: Vec<Arc<CompactionPlan>> = runs
        .iter()
        .filter(is_free)
        .map(|run| {
            let keys = (run.smallest.clone(), run.largest.clone());
            Arc::new(CompactionPlan::reservation(Arc::clone(&version), CompactionReason::Flush, level, keys))
        })
        .collect();
    state.running.extend(plans.iter().map(Arc::clone));
    ReservedRuns { plans, level, base_level: level }
}

#[cfg(test)]
mod tests {
    use firn_format::comparator::{BytewiseComparator, InternalKeyComparator};
    use firn_format::key::ValueType;

    use super::*;
    use crate::memtable::MemTableConfig;

    fn memtable(keys: impl IntoIterator<Item = (u32, u32)>) -> (InternalKeyComparator, Vec<Arc<MemTable>>) {
        let order = InternalKeyComparator::new(Arc::new(BytewiseComparator));
        let memtable = MemTable::new(order.clone(), &MemTableConfig::default(), SequenceNumber::ZERO, 1);
        for (sequence, (stream, number)) in (1..).zip(keys) {
            let key = [stream.to_be_bytes(), number.to_be_bytes()].concat();
            memtable.add(SequenceNumber(sequence), ValueType::Value, &key, &[b'v'; 100]).expect("an insert");
        }
        (order, vec![Arc::new(memtable)])
    }

    fn streams(runs: &[Run]) -> Vec<(u32, u64)> {
        let stream = |key: &[u8]| u32::from_be_bytes(*key.first_chunk().expect("a key"));
        assert!(runs.iter().all(|run| stream(&run.smallest) == stream(&run.largest)));
        runs.iter().map(|run| (stream(&run.smallest), run.entries)).collect()
    }

    #[test]
    fn streams_that_take_turns_are_runs_of_their_own() {
        let (order, memtables) = memtable((0..1000).flat_map(|number| (1..=4).map(move |stream| (stream, number))));
        assert_eq!(streams(&find_runs(&order, &memtables, 0)), [(1, 1000), (2, 1000), (3, 1000), (4, 1000)]);
        assert_eq!(find_runs(&order, &memtables, 256 << 20), [], "too small for a table each");
    }

    #[test]
    fn what_is_one_run_or_none_stays_together() {
        let (order, memtables) = memtable((0..5000).map(|number| (1, number)));
        assert_eq!(find_runs(&order, &memtables, 0), []);
        let (order, memtables) = memtable((0..50_000).map(|number: u32| (1, number.wrapping_mul(0x9e37_79b1))));
        assert_eq!(find_runs(&order, &memtables, 0), []);
    }

    #[test]
    fn versions_of_a_key_end_no_run_but_an_old_key_written_late_does() {
        let twice = (0..1000).flat_map(|number| [(1, number), (2, number), (2, number)]);
        let (order, memtables) = memtable(twice.chain([(1, 300)]));
        // Key 300 of the first stream was written last: what follows it in key order is older.
        assert_eq!(streams(&find_runs(&order, &memtables, 0)), [(1, 302), (1, 699), (2, 2000)]);
    }
}
