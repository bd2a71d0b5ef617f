//! In which order the files of a level are considered: `compaction_pri`.

use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

use super::settings::PickerOptions;
use crate::options::CompactionPri;
use crate::version::{FileMetaData, Version};

/// Indexes of the files of `level` in the order in which they should be compacted.
pub(super) fn order_of_files(version: &Version, level: usize, options: &PickerOptions, now_secs: u64) -> Vec<usize> {
    let files = version.files(level);
    let mut order: Vec<usize> = (0..files.len()).collect();
    let file = |at: &usize| files.get(*at);
    match options.compaction_pri {
        CompactionPri::ByCompensatedSize => {
            order.sort_by_key(|at| Reverse(file(at).map(|file| file.compensated_file_size())));
        }
        CompactionPri::OldestLargestSeqFirst => order.sort_by_key(|at| file(at).map(|file| file.largest_sequence)),
        CompactionPri::OldestSmallestSeqFirst => order.sort_by_key(|at| file(at).map(|file| file.smallest_sequence)),
        CompactionPri::MinOverlappingRatio => {
            let costs = overlap_costs(version, level, options, now_secs);
            let smallest = |at: &usize| file(at).map_or(&[][..], |file| file.smallest.encoded());
            order.sort_by(|a, b| {
                let marked = |at: &usize| file(at).is_some_and(|file| file.is_marked_for_compaction());
                marked(b)
                    .cmp(&marked(a))
                    .then_with(|| costs.get(*a).cmp(&costs.get(*b)))
                    .then_with(|| version.order().compare(smallest(a), smallest(b)))
            });
        }
        CompactionPri::RoundRobin if level == 0 => {
            order.sort_by_key(|at| file(at).map(|file| file.smallest_sequence));
        }
        CompactionPri::RoundRobin => rotate_to_cursor(version, level, &mut order),
    }
    order
}

/// Starts at the first file not before the cursor of the level.
fn rotate_to_cursor(version: &Version, level: usize, order: &mut [usize]) {
    let Some(cursor) = version.compact_cursor(level) else { return };
    let first = version
        .files(level)
        .partition_point(|file| version.order().compare(file.smallest.encoded(), cursor.encoded()) == Ordering::Less);
    if first < order.len() {
        order.rotate_left(first);
    }
}

/// Bytes of the next level that compacting a file would rewrite per byte of it, times 1024, less the older the file is.
fn overlap_costs(version: &Version, level: usize, options: &PickerOptions, now_secs: u64) -> Vec<u64> {
    let order = version.order();
    let below = version.files(level + 1);
    let mut pointer = 0;
    version
        .files(level)
        .iter()
        .map(|file| {
            let mut overlap = 0u64;
            // One pass over both levels; the pointer never goes back, as level 0 shows.
            while below
                .get(pointer)
                .is_some_and(|next| order.compare(next.largest.encoded(), file.smallest.encoded()) == Ordering::Less)
            {
                pointer += 1;
            }
            while let Some(next) = below.get(pointer) {
                if order.compare(next.smallest.encoded(), file.largest.encoded()) != Ordering::Less {
                    break;
                }
                overlap = overlap.saturating_add(next.file_size);
                if order.compare(next.largest.encoded(), file.largest.encoded()) == Ordering::Greater {
                    break;
                }
                pointer += 1;
            }
            let ratio = u128::from(overlap) * 1024 / u128::from(file.compensated_file_size().max(1));
            u64::try_from(ratio).unwrap_or(u64::MAX) / age_boost(version, level, file, options, now_secs)
        })
        .collect()
}

/// How much sooner a file goes because it comes near its `ttl`: the deeper the level, the later this begins.
fn age_boost(version: &Version, level: usize, file: &Arc<FileMetaData>, options: &PickerOptions, now_secs: u64) -> u64 {
    let last = version.num_non_empty_levels().saturating_sub(1);
    if options.ttl == 0 || level == 0 || level >= last {
        return 1;
    }
    let half = options.ttl / 2;
    let shift = (version.num_non_empty_levels() - level - 1).min(63);
    let range = ((options.ttl / 32) * 31).saturating_sub(half) >> shift;
    let start = half + range;
    let step = (range / 16).max(1);
    let born = file.try_oldest_ancester_time();
    if born == 0 {
        return 1; // nobody knows its age
    }
    let age = now_secs.saturating_sub(born);
    if age > start { (age - start) / step + 1 } else { 1 }
}
