//! FIFO compaction: old files are dropped, small ones may be merged.

use std::sync::Arc;

use super::inputs::{Files, PickerInput, PlanDraft, any_busy};
use super::settings::PickerOptions;
use super::{CompactionInput, CompactionPlan, CompactionReason, CompactionWork, leveled};
use crate::options::Temperature;
use crate::version::{FileMetaData, Version};

/// Merges of small files give up when they would write more than this over a memtable per file that goes away.
const MAX_COST_OVER_WRITE_BUFFER: f64 = 1.1;

/// The limit of all files together in bytes.
fn limit_bytes(options: &PickerOptions) -> u64 {
    let fifo = &options.compaction_options_fifo;
    if fifo.max_data_files_size > 0 { fifo.max_data_files_size } else { fifo.max_table_files_size }
}

/// Bytes of the blob files, where they count.
fn blob_bytes(version: &Version, options: &PickerOptions) -> u64 {
    if options.compaction_options_fifo.max_data_files_size == 0 {
        return 0;
    }
    version.blob_files().values().map(|blob| blob.shared.addition().total_blob_bytes).sum()
}

/// When the newest entry of a file was written, as far as known.
fn newest_time(file: &FileMetaData) -> u64 {
    let stats = file.stats().copied().unwrap_or_default();
    if stats.newest_key_time > 0 { stats.newest_key_time } else { stats.creation_time }
}

/// The oldest files whose newest entry has outlived `ttl`, oldest first.
fn expired(version: &Version, options: &PickerOptions, now_secs: u64) -> Files {
    let Some(limit) = now_secs.checked_sub(options.ttl).filter(|_| options.ttl > 0) else { return Vec::new() };
    let is_expired = |file: &&Arc<FileMetaData>| (1..limit).contains(&newest_time(file));
    version.files(0).iter().rev().take_while(is_expired).cloned().collect()
}

/// The oldest file that has reached another temperature, and which (`file_temperature_age_thresholds`).
fn due_for_temperature(
    version: &Version,
    options: &PickerOptions,
    now_secs: u64,
) -> Option<(Arc<FileMetaData>, Temperature)> {
    let ages = &options.compaction_options_fifo.file_temperature_age_thresholds;
    if ages.is_empty() || version.num_levels() > 1 {
        return None;
    }
    let files = version.files(0);
    for (index, file) in files.iter().enumerate().rev() {
        // A file does not always say how old its newest key is; but it is older than the file after it.
        let next_newer = index.checked_sub(1).and_then(|newer| files.get(newer));
        let newest = match file.stats().map_or(0, |stats| stats.newest_key_time) {
            0 => next_newer.map_or(0, |newer| newer.try_oldest_ancester_time()),
            time => time,
        };
        if newest == 0 {
            continue;
        }
        let reached = ages.iter().rev().find(|age| now_secs.checked_sub(age.age).is_some_and(|limit| newest <= limit));
        // Newer files are no older.
        let reached = reached?;
        if file.temperature.0 != reached.temperature as u8 {
            return Some((Arc::clone(file), reached.temperature));
        }
    }
    None
}

/// The score of level 0.
pub(super) fn score(version: &Version, options: &PickerOptions, now_secs: u64) -> f64 {
    let free = || version.files(0).iter().filter(|file| !file.being_compacted());
    let bytes: u64 = free().map(|file| file.compensated_file_size()).sum::<u64>();
    let deeper: u64 = (1..version.num_levels()).map(|level| version.level_bytes(level)).sum();
    let total = bytes.saturating_add(deeper).saturating_add(blob_bytes(version, options));
    let mut score = total as f64 / limit_bytes(options).max(1) as f64;
    if score < 1.0 && options.compaction_options_fifo.allow_compaction {
        score = score.max(free().count() as f64 / options.level0_file_num_compaction_trigger as f64);
    }
    if score < 1.0 {
        score = score.max(expired(version, options, now_secs).len() as f64);
    }
    if score < 1.0 && due_for_temperature(version, options, now_secs).is_some() {
        score = 1.1;
    }
    score
}

/// The next compaction. Only one runs at a time.
pub(super) fn pick(input: &PickerInput<'_>) -> Option<CompactionPlan> {
    if !input.running.is_empty() {
        return None;
    }
    pick_expired(input)
        .or_else(|| pick_for_size(input))
        .or_else(|| pick_small(input))
        .or_else(|| pick_for_temperature(input))
}

fn drop_files(
    input: &PickerInput<'_>,
    reason: CompactionReason,
    inputs: Vec<CompactionInput>,
) -> Option<CompactionPlan> {
    if inputs.iter().any(|level| any_busy(&level.files)) {
        return None;
    }
    let start_level = inputs.first()?.level;
    let mut draft = PlanDraft::new(reason, inputs, start_level, 0);
    draft.work = Some(CompactionWork::DropFiles);
    draft.score = input.scores.of_level(0);
    draft.into_plan(input)
}

fn pick_expired(input: &PickerInput<'_>) -> Option<CompactionPlan> {
    let (version, options) = (input.version, input.options);
    let mut files = expired(version, options, input.now_secs);
    let all: u64 = version.all_files().map(|(_, file)| file.file_size).sum();
    let gone: u64 = files.iter().map(|file| file.file_size).sum();
    // Where dropping by age is not enough, dropping by size does both.
    if files.is_empty() || all.saturating_sub(gone).saturating_add(blob_bytes(version, options)) > limit_bytes(options)
    {
        return None;
    }
    files.reverse();
    drop_files(input, CompactionReason::FifoTtl, vec![CompactionInput { level: 0, files }])
}

fn pick_for_size(input: &PickerInput<'_>) -> Option<CompactionPlan> {
    let (version, options) = (input.version, input.options);
    let limit = limit_bytes(options);
    let blobs = blob_bytes(version, options);
    let all: u64 = version.all_files().map(|(_, file)| file.file_size).sum();
    let mut total = all.saturating_add(blobs);
    if total <= limit {
        return None;
    }
    // Blob bytes go away with the tables that refer to them; each table is taken to have the same share.
    let share = blobs.checked_div(version.num_files() as u64).unwrap_or(0);
    let deepest = version.num_non_empty_levels().saturating_sub(1);
    let mut files: Files = Vec::new();
    let oldest_first: Vec<_> = match deepest {
        0 => version.files(0).iter().rev().collect(),
        // Left from another compaction style: the deepest level is the oldest.
        deepest => version.files(deepest).iter().collect(),
    };
    for file in oldest_first {
        if total <= limit {
            break;
        }
        total = total.saturating_sub(file.file_size.saturating_add(share));
        files.push(Arc::clone(file));
    }
    if deepest == 0 {
        files.reverse();
    }
    drop_files(input, CompactionReason::FifoMaxSize, vec![CompactionInput { level: deepest, files }])
}

fn pick_small(input: &PickerInput<'_>) -> Option<CompactionPlan> {
    let (version, options) = (input.version, input.options);
    if !options.compaction_options_fifo.allow_compaction {
        return None;
    }
    let max_cost = (options.write_buffer_size as f64 * MAX_COST_OVER_WRITE_BUFFER) as u64;
    let files = leveled::cheapest_newest_files(
        version.files(0),
        options.level0_file_num_compaction_trigger,
        max_cost,
        options.max_compaction_bytes,
    )?;
    let inputs = vec![CompactionInput { level: 0, files }];
    let mut draft = PlanDraft::new(CompactionReason::FifoReduceNumFiles, inputs, 0, 0);
    draft.score = input.scores.of_level(0);
    draft.work = Some(CompactionWork::Merge);
    draft.into_plan(input)
}

/// A file that is written again, as it is, with another temperature.
fn pick_for_temperature(input: &PickerInput<'_>) -> Option<CompactionPlan> {
    let (file, temperature) = due_for_temperature(input.version, input.options, input.now_secs)?;
    if file.being_compacted() {
        return None;
    }
    let inputs = vec![CompactionInput { level: 0, files: vec![file] }];
    let mut draft = PlanDraft::new(CompactionReason::ChangeTemperature, inputs, 0, 0);
    draft.score = input.scores.of_level(0);
    draft.output_temperature = Some(temperature);
    draft.work = Some(CompactionWork::Merge);
    draft.into_plan(input)
}
