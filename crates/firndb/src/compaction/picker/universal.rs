//! Universal compaction: whole sorted runs are merged when there are many of them or the newer ones outgrow the oldest.
//!
//! A sorted run is one file of level 0 or a whole deeper level. Runs are looked at from the newest to the oldest, and only
//! neighbours are merged, so that the order of ages stays as it is.

use std::cmp::Ordering;
use std::ops::RangeInclusive;
use std::sync::Arc;

use firn_format::compression::CompressionType;

use super::inputs::{PickerInput, PlanDraft, any_busy, clean_cut, key_range, position, slice};
use super::settings::PickerOptions;
use super::{CompactionInput, CompactionPlan, CompactionReason, CompactionWork, incremental, leveled, marking};
use crate::options::CompactionStopStyle;
use crate::version::{FileMetaData, Version};

/// A part may rewrite so many times the share of the oldest run that the whole would.
const INCREMENTAL_GAIN: f64 = 1.8;

/// A file of level 0 or a deeper level.
struct SortedRun<'a> {
    level: usize,
    files: &'a [Arc<FileMetaData>],
    bytes: u64,
    compensated_bytes: u64,
    busy: bool,
}

impl<'a> SortedRun<'a> {
    fn new(level: usize, files: &'a [Arc<FileMetaData>]) -> Self {
        Self {
            level,
            files,
            bytes: files.iter().map(|file| file.file_size).sum(),
            compensated_bytes: files.iter().map(|file| file.compensated_file_size()).sum(),
            busy: any_busy(files),
        }
    }
}

/// The deepest level that compactions write to.
pub(super) fn max_output_level(options: &PickerOptions) -> usize {
    options.num_levels - if options.allow_ingest_behind && options.num_levels > 2 { 2 } else { 1 }
}

fn sorted_runs<'a>(version: &'a Version, options: &PickerOptions) -> Vec<SortedRun<'a>> {
    let level_0 = version.files(0).iter().map(|file| SortedRun::new(0, std::slice::from_ref(file)));
    let deeper = (1..=max_output_level(options))
        .filter(|level| !version.files(*level).is_empty())
        .map(|level| SortedRun::new(level, version.files(level)));
    level_0.chain(deeper).collect()
}

/// The score of level 0: the number of free runs over the trigger.
pub(super) fn score(version: &Version, options: &PickerOptions) -> f64 {
    let files = version.files(0).iter().filter(|file| !file.being_compacted()).count();
    let levels = (1..=max_output_level(options))
        .filter(|level| version.files(*level).first().is_some_and(|file| !file.being_compacted()))
        .count();
    (files + levels) as f64 / options.level0_file_num_compaction_trigger as f64
}

/// Whether there is anything to pick, running compactions aside.
pub(super) fn needs_compaction(input: &PickerInput<'_>) -> bool {
    input.scores.max() >= 1.0
        || !marking::periodic(input.version, input.options, input.now_secs).is_empty()
        || !marking::marked_for_compaction(input.version).is_empty()
}

/// Neighbouring runs to merge, and why.
struct Pick {
    runs: RangeInclusive<usize>,
    reason: CompactionReason,
}

/// The next compaction.
pub(super) fn pick(input: &PickerInput<'_>) -> Option<CompactionPlan> {
    let options = input.options;
    let runs = sorted_runs(input.version, options);
    let many = runs.len() >= options.level0_file_num_compaction_trigger;
    let periodic = pick_periodic(input, &runs);
    let amplified = if many && periodic.is_none() { pick_for_size_amplification(options, &runs) } else { None };
    if options.compaction_options_universal.incremental
        && let Some(plan) = amplified.as_ref().and_then(|pick| pick_a_part(input, &runs, pick))
    {
        return Some(plan);
    }
    let picked = periodic.or_else(|| {
        let picked = many.then(|| {
            amplified
                .or_else(|| {
                    let universal = &options.compaction_options_universal;
                    let width = usize::try_from(universal.max_merge_width).unwrap_or(usize::MAX);
                    pick_similar(
                        options,
                        &runs,
                        u64::from(universal.size_ratio),
                        width,
                        CompactionReason::UniversalSizeRatio,
                    )
                })
                .or_else(|| pick_to_reduce_runs(options, &runs))
        });
        picked.flatten()
    });
    match picked {
        Some(pick) => merge_runs(input, &runs, pick),
        None => pick_marked(input, &runs),
    }
}

/// Everything from the oldest run up to the newest free one, if a file among them is too old.
fn pick_periodic(input: &PickerInput<'_>, runs: &[SortedRun<'_>]) -> Option<Pick> {
    let old = marking::periodic(input.version, input.options, input.now_secs);
    let last = runs.len().checked_sub(1)?;
    if old.is_empty() {
        return None;
    }
    let first = last + 1 - runs.iter().rev().take_while(|run| !run.busy).count();
    let oldest = runs.get(last)?;
    let is_old = |file: &Arc<FileMetaData>| old.iter().any(|(_, other)| other.number == file.number);
    let pays = first < last || (first == last && oldest.files.iter().any(is_old));
    pays.then_some(Pick { runs: first..=last, reason: CompactionReason::PeriodicCompaction })
}

fn pick_for_size_amplification(options: &PickerOptions, runs: &[SortedRun<'_>]) -> Option<Pick> {
    let universal = &options.compaction_options_universal;
    let mut base = runs.len().checked_sub(1)?;
    if options.preclude_last_level_data_seconds > 0
        && options.num_levels > 2
        && base > 0
        && runs.get(base).is_some_and(|run| run.level == options.num_levels - 1)
    {
        base -= 1;
    }
    let base_run = runs.get(base).filter(|run| !run.busy)?;
    let newer = runs.get(..base)?;
    let free = newer.iter().rev().take_while(|run| !run.busy).count();
    let first = base - free;
    let candidates = newer.get(first..)?;
    let bytes: u64 = candidates.iter().map(|run| run.compensated_bytes).sum();
    let amplified = |bytes: u64| {
        u128::from(bytes) * 100 >= u128::from(universal.max_size_amplification_percent) * u128::from(base_run.bytes)
    };
    if candidates.is_empty() || !amplified(bytes) {
        return None;
    }
    let first = first + newest_to_exclude(options, candidates, bytes, amplified);
    Some(Pick { runs: first..=base, reason: CompactionReason::UniversalSizeAmplification })
}

/// A part of the runs of `pick` if that costs clearly less for its size than all of it.
fn pick_a_part(input: &PickerInput<'_>, runs: &[SortedRun<'_>], pick: &Pick) -> Option<CompactionPlan> {
    let picked = runs.get(pick.runs.clone())?;
    let (base, newer) = picked.split_last()?;
    let bytes: u64 = newer.iter().map(|run| run.compensated_bytes).sum();
    let levels: Vec<usize> =
        runs.get(..=*pick.runs.end())?.iter().map(|run| run.level).filter(|level| *level > 0).collect();
    incremental::pick(input, &levels, base.bytes as f64 / bytes.max(1) as f64 * INCREMENTAL_GAIN)
}

/// How many of the newest files may stay out so that they can be merged among themselves meanwhile: few enough that the
/// compaction still does what it is for.
fn newest_to_exclude(
    options: &PickerOptions,
    candidates: &[SortedRun<'_>],
    bytes: u64,
    amplified: impl Fn(u64) -> bool,
) -> usize {
    let universal = &options.compaction_options_universal;
    let picked = candidates.len() + 1;
    let level_0 = candidates.iter().filter(|run| run.level == 0).count();
    let most = level_0.saturating_sub(1).min(picked.saturating_sub(2));
    let room = options.level0_stop_writes_trigger.saturating_sub(picked);
    let width = |width: u32| usize::try_from(width).unwrap_or(usize::MAX).saturating_sub(room).min(most);
    let mut excluded = 0;
    for count in width(universal.min_merge_width)..=width(universal.max_merge_width) {
        let without: u64 = candidates.iter().skip(count).map(|run| run.compensated_bytes).sum();
        if !amplified(without) || without < bytes / 10 * 9 {
            break;
        }
        excluded = count;
    }
    excluded
}

/// The newest neighbouring runs none of which is much larger than those before it together.
fn pick_similar(
    options: &PickerOptions,
    runs: &[SortedRun<'_>],
    size_ratio: u64,
    max_runs: usize,
    reason: CompactionReason,
) -> Option<Pick> {
    let universal = &options.compaction_options_universal;
    let grown = |bytes: u64| bytes as f64 * (100.0 + size_ratio as f64) / 100.0;
    let least = usize::try_from(universal.min_merge_width).unwrap_or(usize::MAX).max(2);
    for (first, start) in runs.iter().enumerate().filter(|(_, run)| !run.busy) {
        let mut bytes = start.compensated_bytes;
        let mut count = 1;
        for next in runs.iter().skip(first + 1) {
            if count >= max_runs || next.busy || grown(bytes) < next.bytes as f64 {
                break;
            }
            match universal.stop_style {
                CompactionStopStyle::SimilarSize => {
                    if grown(next.bytes) < bytes as f64 {
                        break;
                    }
                    bytes = next.compensated_bytes;
                }
                CompactionStopStyle::TotalSize => bytes = bytes.saturating_add(next.compensated_bytes),
            }
            count += 1;
        }
        if count >= least {
            return Some(Pick { runs: first..=first + count - 1, reason });
        }
    }
    None
}

/// As many of the newest runs as it takes to come down to the allowed number.
fn pick_to_reduce_runs(options: &PickerOptions, runs: &[SortedRun<'_>]) -> Option<Pick> {
    let universal = &options.compaction_options_universal;
    let limit = match universal.max_read_amp {
        0 => runs_of_a_full_tree(options, runs),
        given => usize::try_from(given).unwrap_or(options.level0_file_num_compaction_trigger),
    };
    let free = runs.iter().filter(|run| !run.busy).count();
    if free <= limit {
        return None;
    }
    let reason = CompactionReason::UniversalSortedRunNum;
    pick_similar(options, runs, u64::from(u32::MAX), free - limit + 1, reason)
}

/// How many runs there are when each is as large as its size ratio to the newer ones demands.
fn runs_of_a_full_tree(options: &PickerOptions, runs: &[SortedRun<'_>]) -> usize {
    let universal = &options.compaction_options_universal;
    if universal.stop_style != CompactionStopStyle::TotalSize {
        return options.level0_file_num_compaction_trigger;
    }
    let largest = runs.iter().map(|run| run.bytes).max().unwrap_or(0) as f64;
    let (mut count, mut current, mut total) = (1, options.write_buffer_size as f64, 0.0);
    // At least linear growth: the bound only guards against a write buffer of nothing.
    while current < largest && count < 10_000 {
        total += current;
        current = (100.0 + f64::from(universal.size_ratio)) / 100.0 * total;
        count += 1;
    }
    count
}

fn merge_runs(input: &PickerInput<'_>, runs: &[SortedRun<'_>], pick: Pick) -> Option<CompactionPlan> {
    let options = input.options;
    let picked = runs.get(pick.runs.clone())?;
    let output_level = match runs.get(pick.runs.end() + 1) {
        None => max_output_level(options),
        Some(older) => older.level.saturating_sub(1),
    };
    let start_level = picked.first()?.level;
    let mut inputs: Vec<CompactionInput> = Vec::new();
    for run in picked {
        match inputs.last_mut().filter(|input| input.level == run.level) {
            Some(level) => level.files.extend_from_slice(run.files),
            None => inputs.push(CompactionInput { level: run.level, files: run.files.to_vec() }),
        }
    }
    let bytes = picked.iter().map(|run| run.bytes).sum();
    let disjoint = inputs_are_disjoint(input.version, &inputs);
    let mut draft = PlanDraft::new(pick.reason, inputs, start_level, output_level);
    draft.score = input.scores.of_level(0);
    draft.output_path_id = Some(path_id_for_bytes(options, bytes));
    if !compresses(options, runs, &pick) {
        draft.compression = Some(CompressionType::None);
    }
    let moves = options.compaction_options_universal.allow_trivial_move
        && pick.reason != CompactionReason::PeriodicCompaction
        && output_level > 0
        && disjoint;
    draft.work = Some(if moves { CompactionWork::TrivialMove } else { CompactionWork::Merge });
    draft.into_plan(input)
}

/// Whether no input file overlaps another.
fn inputs_are_disjoint(version: &Version, inputs: &[CompactionInput]) -> bool {
    let order = version.order();
    let mut files: Vec<&Arc<FileMetaData>> = inputs.iter().flat_map(|input| &input.files).collect();
    files.sort_by(|a, b| order.compare(a.smallest.encoded(), b.smallest.encoded()));
    files
        .iter()
        .zip(files.iter().skip(1))
        .all(|(a, b)| order.compare_user(a.largest.user_key(), b.smallest.user_key()) == Ordering::Less)
}

/// Small young data may stay uncompressed, since it will be rewritten soon.
fn compresses(options: &PickerOptions, runs: &[SortedRun<'_>], pick: &Pick) -> bool {
    let percent = options.compaction_options_universal.compression_size_percent;
    let by_size = matches!(pick.reason, CompactionReason::UniversalSizeRatio | CompactionReason::UniversalSortedRunNum);
    let Ok(percent) = u128::try_from(percent) else { return true };
    if !by_size {
        return true;
    }
    let total: u128 = runs.iter().map(|run| u128::from(run.bytes)).sum();
    let older: u128 = runs.iter().skip(pick.runs.end() + 1).map(|run| u128::from(run.bytes)).sum();
    older * 100 < total * percent
}

/// The first path with room for the output and for what will be merged with it.
fn path_id_for_bytes(options: &PickerOptions, bytes: u64) -> u32 {
    let targets = &options.path_target_sizes;
    let last = targets.len().saturating_sub(1);
    let ratio = u128::from(options.compaction_options_universal.size_ratio.min(100));
    let future = u128::from(bytes) * (100 - ratio) / 100;
    let mut accumulated = 0u128;
    for (path, target) in targets.iter().enumerate().take(last) {
        if *target > bytes && accumulated + u128::from(target - bytes) > future {
            return u32::try_from(path).unwrap_or(0);
        }
        accumulated += u128::from(*target);
    }
    u32::try_from(last).unwrap_or(0)
}

/// Files that a collector or a caller marked.
fn pick_marked(input: &PickerInput<'_>, runs: &[SortedRun<'_>]) -> Option<CompactionPlan> {
    let (version, options) = (input.version, input.options);
    let reason = CompactionReason::FilesMarkedForCompaction;
    let mut marked = marking::marked_for_compaction(version);
    if marked.is_empty() {
        return None;
    }
    if options.num_levels == 1 {
        let first = runs.iter().position(|run| run.files.iter().any(|file| file.is_marked_for_compaction()))?;
        let files = slice(version, 0, first..version.files(0).len()).to_vec();
        if any_busy(&files) {
            return None;
        }
        return PlanDraft::new(reason, vec![CompactionInput { level: 0, files }], 0, 0).into_plan(input);
    }
    let first = usize::try_from(input.random % marked.len() as u64).unwrap_or(0);
    let first = marked.remove(first);
    marked.insert(0, first);
    marked.iter().find_map(|(level, file)| {
        let level = *level;
        if level == 0 && input.level_0_is_busy() {
            return None;
        }
        let below = (level + 1..=max_output_level(options)).find(|below| !version.files(*below).is_empty());
        let output_level = match (below, level) {
            (Some(below), _) => below,
            (None, 0) => max_output_level(options),
            (None, _) => return None,
        };
        let inputs = if level == 0 {
            let files = version.overlapping_files(0, Some(&file.smallest), Some(&file.largest));
            let (smallest, largest) = key_range(version, &files)?;
            let output = super::inputs::clean_overlap(version, output_level, smallest, largest)?;
            let output = slice(version, output_level, output).to_vec();
            vec![CompactionInput { level: 0, files }, CompactionInput { level: output_level, files: output }]
        } else {
            let index = position(version, level, file)?;
            let range = clean_cut(version, level, index..index + 1)?;
            leveled::with_output_level(input, level, output_level, reason, range)?
        };
        let all = || inputs.iter().flat_map(|input| &input.files);
        if all().any(|file| file.being_compacted()) || input.conflicts(all(), output_level) {
            return None;
        }
        PlanDraft::new(reason, inputs, level, output_level).into_plan(input)
    })
}
