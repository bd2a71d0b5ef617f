//! Incremental universal compaction: where the tree has grown too large, a part of its two oldest runs is merged instead of
//! all of it (`docs/behaviour/compaction.md`, Incremental).
//!
//! A window of neighbouring files slides along the second oldest run; each window with the files of the oldest run that it
//! overlaps is a candidate, and the one that rewrites least of the oldest run for its own size is taken. Always true of the
//! plan: of each run it takes a clean cut, and what is newer than a run's part and lies over it is either taken too or stays
//! above it.

use std::ops::Range;

use super::inputs::{
    PickerInput, PlanDraft, any_busy, clean_overlap, clean_within, slice, total_bytes, widen_to_clean_cut,
};
use super::{CompactionInput, CompactionPlan, CompactionReason};
use crate::version::Version;

/// The part of the two runs that costs least: below `most_cost` bytes of the oldest run for each byte of the other.
/// `levels` are those of the runs below level 0, from the newest to the oldest.
pub(super) fn pick(input: &PickerInput<'_>, levels: &[usize], most_cost: f64) -> Option<CompactionPlan> {
    let [newer @ .., second, last] = levels else { return None };
    let version = input.version;
    let window = cheapest_window(version, *second, *last, input.options.max_compaction_bytes / 2, most_cost)?;
    let window = widen_to_clean_cut(version, *second, window);
    let files = slice(version, *second, window).to_vec();
    let (smallest, largest) = (files.first()?.smallest.clone(), files.last()?.largest.clone());
    let bottom = clean_overlap(version, *last, &smallest, &largest)?;
    let mut inputs = vec![
        CompactionInput { level: *second, files },
        CompactionInput { level: *last, files: slice(version, *last, bottom).to_vec() },
    ];
    // Newer runs may come along as long as nothing of them that lies over the window stays behind.
    for level in newer.iter().rev() {
        let inside = clean_within(version, *level, &smallest, &largest);
        if inside != version.overlapping_range(*level, Some(&smallest), Some(&largest)) {
            break;
        }
        inputs.insert(0, CompactionInput { level: *level, files: slice(version, *level, inside).to_vec() });
    }
    inputs.retain(|level| !level.files.is_empty());
    let all = || inputs.iter().flat_map(|level| &level.files);
    if inputs.iter().any(|level| any_busy(&level.files)) || input.conflicts(all(), *last) {
        return None;
    }
    let start_level = inputs.first()?.level;
    let mut draft = PlanDraft::new(CompactionReason::UniversalSizeAmplification, inputs, start_level, *last);
    draft.score = input.scores.of_level(0);
    draft.into_plan(input)
}

/// The window of files of level `second` that overlaps least of level `last` for its size, of all that are just larger than
/// `enough_bytes` together with what they overlap.
fn cheapest_window(
    version: &Version,
    second: usize,
    last: usize,
    enough_bytes: u64,
    most_cost: f64,
) -> Option<Range<usize>> {
    let count = version.files(second).len();
    let below = |window: Range<usize>| {
        let files = slice(version, second, window);
        let range = version.overlapping_range(last, Some(&files.first()?.smallest), Some(&files.last()?.largest));
        Some(total_bytes(slice(version, last, range)))
    };
    let mut best: Option<(f64, Range<usize>)> = None;
    let mut start = 0;
    for end in 1..=count {
        // Files of the last level that lie between two others would be rewritten for nothing.
        if end - 1 > start && files_between(version, second, last, end - 2) > 1 {
            start = end - 1;
        }
        loop {
            let own = total_bytes(slice(version, second, start..end));
            let overlapped = below(start..end)?;
            let is_enough = own.saturating_add(overlapped) > enough_bytes;
            if own > 0 && (is_enough || end == count) {
                let cost = overlapped as f64 / own as f64;
                if cost < best.as_ref().map_or(most_cost, |(cost, _)| *cost) {
                    best = Some((cost, start..end));
                }
            }
            if !is_enough || start + 1 >= end {
                break;
            }
            start += 1;
        }
    }
    best.map(|(_, window)| window)
}

/// How many files of level `last` lie wholly between the file at `index` of level `second` and the next one.
fn files_between(version: &Version, second: usize, last: usize, index: usize) -> usize {
    let files = version.files(second);
    let (Some(left), Some(right)) = (files.get(index), files.get(index + 1)) else { return 0 };
    let up_to_left = version.overlapping_range(last, None, Some(&left.largest)).end;
    let from_right = version.overlapping_range(last, Some(&right.smallest), None).start;
    from_right.saturating_sub(up_to_left)
}
