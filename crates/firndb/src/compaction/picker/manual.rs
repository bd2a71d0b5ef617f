//! Compactions and deletions that a caller asks for.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use firn_error::{Error, Result};
use firn_format::filename;
use firn_format::key::{FileNumber, InternalKey, SequenceNumber, ValueType};
use firn_format::version_edit::VersionEdit;

use super::inputs::{
    Files, PickerInput, PlanDraft, any_busy, clean_cut, key_range, slice, total_bytes, widen_to_clean_cut,
};
use super::{CompactionInput, CompactionPlan, CompactionReason, CompactionWork, PickerOptions, leveled, universal};
use crate::options::CompactionStyle;
use crate::version::{FileMetaData, Version};

/// One step of a `compact_range`: files of one level that overlap the range go to another level, or are rewritten.
#[derive(Clone, Debug)]
pub struct ManualCompaction {
    /// Level of the files. Ignored by universal compaction, which takes all levels.
    pub level: usize,
    /// Where they go; equal to `level` to rewrite them. Ignored for level 0 of leveled compaction: its files go to what is the
    /// base level when they are picked, since files may have come above the former one while the step waited.
    pub output_level: usize,
    /// First user key; `None` = from the start.
    pub begin: Option<Vec<u8>>,
    /// Last user key; `None` = to the end.
    pub end: Option<Vec<u8>>,
    /// Where the previous step over the same level left off.
    pub resume: Option<InternalKey>,
    /// Where outputs go; `None` = where the options put them.
    pub output_path_id: Option<u32>,
    /// Rewriting a level: files with this number or a greater one are new and need no rewriting.
    pub ignore_files_from: Option<FileNumber>,
    /// Rewrite files even where moving them would do.
    pub disallow_trivial_move: bool,
    /// Parallel parts; 0 = as the options say.
    pub max_subcompactions: u32,
}

impl ManualCompaction {
    /// A step from `level` to `output_level` over a range of user keys.
    pub fn new(level: usize, output_level: usize, begin: Option<&[u8]>, end: Option<&[u8]>) -> Self {
        Self {
            level,
            output_level,
            begin: begin.map(<[u8]>::to_vec),
            end: end.map(<[u8]>::to_vec),
            resume: None,
            output_path_id: None,
            ignore_files_from: None,
            disallow_trivial_move: false,
            max_subcompactions: 0,
        }
    }
}

/// What a step of a `compact_range` comes to.
#[derive(Clone, Debug)]
pub enum ManualStep {
    /// Run this plan; then, if there is a key to resume from, pick the same step again with it.
    Run {
        /// What to compact.
        plan: Box<CompactionPlan>,
        /// Where the next round begins; `None` if the level is done.
        resume: Option<InternalKey>,
    },
    /// Files that are needed are being compacted: wait for that and pick again.
    Conflict,
    /// Nothing overlaps the range.
    Nothing,
}

/// The levels that a leveled `compact_range` goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManualLevels {
    /// The first level with files in the range.
    pub first: usize,
    /// The level where the data ends up.
    pub last: usize,
}

/// Which levels a leveled `compact_range` goes through; `None` if no file overlaps.
pub fn manual_levels(input: &PickerInput<'_>, begin: Option<&[u8]>, end: Option<&[u8]>) -> Option<ManualLevels> {
    let (version, options) = (input.version, input.options);
    let first = (0..version.num_non_empty_levels()).find(|level| version.overlaps_user_range(*level, begin, end))?;
    let base = input.base_level();
    let last = if options.level_compaction_dynamic_level_bytes {
        version.num_levels() - 1
    } else {
        version.num_non_empty_levels().saturating_sub(1)
    };
    // Data of level 0 always leaves it.
    let last = if first == 0 { last.max(base.min(version.num_levels() - 1)) } else { last.max(first) };
    Some(ManualLevels { first, last })
}

/// The level that follows `level` in a leveled `compact_range`.
pub fn next_manual_level(input: &PickerInput<'_>, level: usize) -> usize {
    if level == 0 { input.base_level() } else { level + 1 }
}

/// Picks one step of a `compact_range`.
pub fn pick_manual(input: &PickerInput<'_>, manual: &ManualCompaction) -> ManualStep {
    if input.options.compaction_style == CompactionStyle::Universal {
        return pick_everything(input, manual);
    }
    let version = input.version;
    let begin = match (&manual.resume, &manual.begin) {
        (Some(resume), _) => Some(resume.clone()),
        (None, Some(begin)) => Some(InternalKey::for_seek(begin, SequenceNumber::MAX)),
        (None, None) => None,
    };
    let end = manual.end.as_ref().map(|end| InternalKey::new(end, SequenceNumber::ZERO, ValueType::Deletion));
    if manual.level == 0 {
        return pick_level_0(input, manual, begin.as_ref(), end.as_ref());
    }
    let mut range = version.overlapping_range(manual.level, begin.as_ref(), end.as_ref());
    let all_end = range.end;
    if let Some(limit) = manual.ignore_files_from {
        let is_new = |file: &Arc<FileMetaData>| file.number >= limit;
        let files = slice(version, manual.level, range.clone());
        range.start += files.iter().take_while(|file| is_new(file)).count();
        let old = slice(version, manual.level, range.clone()).iter().take_while(|file| !is_new(file)).count();
        range.end = range.start + old;
    }
    if range.is_empty() {
        return ManualStep::Nothing;
    }
    // A large range is done in several rounds, each about as large as an automatic compaction.
    let mut bytes = 0u64;
    for (index, file) in (range.start..).zip(slice(version, manual.level, range.clone())) {
        let below = if manual.output_level == manual.level {
            0
        } else {
            let range = version.overlapping_range(manual.output_level, Some(&file.smallest), Some(&file.largest));
            total_bytes(slice(version, manual.output_level, range))
        };
        bytes = bytes.saturating_add(file.file_size).saturating_add(below);
        if bytes > input.options.max_compaction_bytes && index > range.start {
            range.end = index;
            break;
        }
    }
    let Some(range) = clean_cut(version, manual.level, range) else { return ManualStep::Conflict };
    let resume = if range.end < all_end {
        version.files(manual.level).get(range.end).map(|file| file.smallest.clone())
    } else {
        None
    };
    let reason = CompactionReason::ManualCompaction;
    let Some(inputs) = leveled::with_output_level(input, manual.level, manual.output_level, reason, range) else {
        return ManualStep::Conflict;
    };
    finish(input, manual, inputs, resume)
}

fn pick_level_0(
    input: &PickerInput<'_>,
    manual: &ManualCompaction,
    begin: Option<&InternalKey>,
    end: Option<&InternalKey>,
) -> ManualStep {
    let version = input.version;
    let files = version.overlapping_files(0, begin, end);
    let Some((smallest, largest)) = key_range(version, &files) else { return ManualStep::Nothing };
    if input.level_0_is_busy() || any_busy(&files) {
        return ManualStep::Conflict;
    }
    let manual = ManualCompaction { output_level: input.base_level(), ..manual.clone() };
    let output = version.overlapping_range(manual.output_level, Some(smallest), Some(largest));
    let Some(output) = clean_cut(version, manual.output_level, output) else { return ManualStep::Conflict };
    let below = slice(version, manual.output_level, output).to_vec();
    let inputs =
        vec![CompactionInput { level: 0, files }, CompactionInput { level: manual.output_level, files: below }];
    finish(input, &manual, inputs, None)
}

/// Universal: all files go to the deepest level that compactions write to.
fn pick_everything(input: &PickerInput<'_>, manual: &ManualCompaction) -> ManualStep {
    let version = input.version;
    let output_level = universal::max_output_level(input.options);
    let inputs: Vec<CompactionInput> = version
        .levels()
        .iter()
        .enumerate()
        .take(output_level + 1)
        .filter(|(_, files)| !files.is_empty())
        .map(|(level, files)| CompactionInput { level, files: files.clone() })
        .collect();
    let Some(first) = inputs.first() else { return ManualStep::Nothing };
    if inputs.iter().any(|input| any_busy(&input.files)) || !input.running.is_empty() {
        return ManualStep::Conflict;
    }
    let manual = ManualCompaction { level: first.level, output_level, disallow_trivial_move: true, ..manual.clone() };
    finish(input, &manual, inputs, None)
}

fn finish(
    input: &PickerInput<'_>,
    manual: &ManualCompaction,
    inputs: Vec<CompactionInput>,
    resume: Option<InternalKey>,
) -> ManualStep {
    if input.conflicts(inputs.iter().flat_map(|level| &level.files), manual.output_level) {
        return ManualStep::Conflict;
    }
    let mut draft = PlanDraft::new(CompactionReason::ManualCompaction, inputs, manual.level, manual.output_level);
    draft.is_manual = true;
    draft.output_path_id = manual.output_path_id;
    draft.max_subcompactions = manual.max_subcompactions;
    if manual.disallow_trivial_move {
        draft.work = Some(CompactionWork::Merge);
    }
    match draft.into_plan(input) {
        Some(plan) => ManualStep::Run { plan: Box::new(plan), resume },
        None => ManualStep::Nothing,
    }
}

/// Whether files may be hung under the output level as they are, where nothing of that level comes in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MayMove {
    /// They may.
    Yes,
    /// They are rewritten.
    No,
}

/// Picks a `compact_files`: the named files, with everything that must come along, to `output_level`.
///
/// # Errors
/// `InvalidArgument` for unknown files and impossible levels, `Aborted` if a file is being compacted or the range of the
/// files is being written to the output level.
pub fn pick_files(
    input: &PickerInput<'_>,
    numbers: &[FileNumber],
    output_level: usize,
    output_path_id: u32,
    family_name: &str,
    moves: MayMove,
) -> Result<CompactionPlan> {
    let version = input.version;
    let last_level = version.num_levels() - 1;
    if output_level > last_level {
        return Err(Error::invalid_argument(format!(
            "Output level for column family {family_name} must between [0, {last_level}]."
        )));
    }
    if output_path_id as usize >= input.options.path_target_sizes.len().max(1) {
        return Err(Error::invalid_argument("Invalid output path ID"));
    }
    if numbers.is_empty() {
        return Err(Error::invalid_argument("A compaction must contain at least one file."));
    }
    let mut chosen = vec![BTreeSet::new(); version.num_levels()];
    for number in numbers {
        let name = || filename::table(*number);
        let Some((level, file)) = version.find_file(*number) else {
            return Err(Error::invalid_argument(format!(
                "Specified compaction input file /{} does not exist in column family {family_name}.",
                name()
            )));
        };
        if level > output_level {
            return Err(Error::invalid_argument(format!(
                "Cannot compact file to up level, input file: /{} level {level} > output level {output_level}",
                name()
            )));
        }
        if let (Some(index), Some(indexes)) = (super::inputs::position(version, level, file), chosen.get_mut(level)) {
            indexes.insert(index);
        }
    }
    let inputs = with_files_between(version, &chosen, output_level);
    for file in inputs.iter().flat_map(|input| &input.files) {
        if file.being_compacted() {
            return Err(Error::aborted(format!(
                "Necessary compaction input file /{} is currently being compacted.",
                filename::table(file.number)
            )));
        }
    }
    let start_level = inputs.first().map_or(0, |input| input.level);
    if (start_level == 0 && input.level_0_is_busy())
        || input.conflicts(inputs.iter().flat_map(|input| &input.files), output_level)
    {
        return Err(Error::aborted(
            "A running compaction is writing to the same output level in an overlapping key range",
        ));
    }
    let mut draft = PlanDraft::new(CompactionReason::ManualCompaction, inputs, start_level, output_level);
    draft.is_manual = true;
    draft.output_path_id = Some(output_path_id);
    draft.work = (moves == MayMove::No).then_some(CompactionWork::Merge);
    draft.into_plan(input).ok_or_else(|| Error::invalid_argument("A compaction must contain at least one file."))
}

/// The chosen files, on level 0 with whatever is older, and on every deeper level down to the output level all files
/// between the boundaries of what is chosen there and above: an output may reach from the first of these keys to the last.
fn with_files_between(version: &Version, chosen: &[BTreeSet<usize>], output_level: usize) -> Vec<CompactionInput> {
    let mut inputs: Vec<CompactionInput> = Vec::new();
    for (level, indexes) in chosen.iter().enumerate().take(output_level + 1) {
        let mut range = match (indexes.first(), indexes.last()) {
            (Some(first), Some(_)) if level == 0 && output_level > 0 => *first..version.files(0).len(),
            (Some(first), Some(last)) => *first..*last + 1,
            _ => 0..0,
        };
        if level > 0 {
            let above = inputs.iter().flat_map(|input| &input.files);
            let all = above.chain(slice(version, level, range.clone()));
            if let Some((smallest, largest)) = key_range(version, all) {
                range = version.overlapping_range(level, Some(smallest), Some(largest));
            }
            range = widen_to_clean_cut(version, level, range);
        }
        let files = slice(version, level, range).to_vec();
        if !files.is_empty() {
            inputs.push(CompactionInput { level, files });
        }
    }
    inputs
}

/// Whether a file that ends exactly at the end of a range is inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeEnd {
    /// It is.
    Inclusive,
    /// It is not.
    Exclusive,
}

/// The files of levels ≥ 1 that lie wholly in the range, share no user key with a neighbour outside and are not busy: what
/// `delete_files_in_range` deletes. `None` is unbounded.
pub fn files_to_delete_in_range(
    version: &Version,
    begin: Option<&[u8]>,
    end: Option<&[u8]>,
    range_end: RangeEnd,
) -> Vec<(usize, Arc<FileMetaData>)> {
    let order = version.order();
    let mut found = Vec::new();
    for level in 1..version.num_non_empty_levels() {
        let files = version.files(level);
        let inside = |file: &FileMetaData| {
            let starts =
                begin.is_none_or(|begin| order.compare_user(file.smallest.user_key(), begin) != Ordering::Less);
            let ends = end.is_none_or(|end| match order.compare_user(file.largest.user_key(), end) {
                Ordering::Less => true,
                Ordering::Equal => range_end == RangeEnd::Inclusive || file.largest.is_range_sentinel(),
                Ordering::Greater => false,
            });
            starts && ends
        };
        let touches = |left: &FileMetaData, right: &FileMetaData| {
            order.compare_user(left.largest.user_key(), right.smallest.user_key()) == Ordering::Equal
                && !left.largest.is_range_sentinel()
        };
        let mut first = files.iter().position(|file| inside(file)).unwrap_or(files.len());
        let mut behind = first + files.iter().skip(first).take_while(|file| inside(file)).count();
        while first < behind && first > 0 && touches(&files[first - 1], &files[first]) {
            first += 1;
        }
        while first < behind && behind < files.len() && touches(&files[behind - 1], &files[behind]) {
            behind -= 1;
        }
        let free = slice(version, level, first..behind).iter().filter(|file| !file.being_compacted());
        found.extend(free.map(|file| (level, Arc::clone(file))));
    }
    found
}

/// The files that `suggest_compact_range` marks: those that overlap the range on all levels but the last one with files.
pub fn files_to_suggest(version: &Version, begin: Option<&[u8]>, end: Option<&[u8]>) -> Files {
    let begin = begin.map(|key| InternalKey::for_seek(key, SequenceNumber::MAX));
    let end = end.map(|key| InternalKey::new(key, SequenceNumber::ZERO, ValueType::Deletion));
    (0..version.num_non_empty_levels().saturating_sub(1))
        .flat_map(|level| version.overlapping_files(level, begin.as_ref(), end.as_ref()))
        .collect()
}

/// Where `change_level` moves the files of `level`: `target`, or without one the smallest level they fit on.
///
/// # Errors
/// `InvalidArgument` for a level that does not exist, `NotSupported` if files stand between, `Aborted` for several files
/// that would share level 0.
pub fn refit_target(input: &PickerInput<'_>, level: usize, target: Option<usize>) -> Result<usize> {
    let version = input.version;
    if target.is_some_and(|target| target >= version.num_levels()) {
        return Err(Error::invalid_argument("Target level exceeds number of levels"));
    }
    let target = target.unwrap_or_else(|| smallest_fitting_level(input, level));
    if target == level {
        return Ok(level);
    }
    if level == 0 && target > 0 {
        return Err(Error::not_supported("Cannot change from level 0 to other levels."));
    }
    if target == 0 && version.files(level).len() > 1 {
        return Err(Error::aborted("Moving more than 1 file from a level to level 0 is not allowed."));
    }
    let between = if target > level { level + 1..target + 1 } else { target.max(1)..level };
    if between.into_iter().any(|level| !version.files(level).is_empty()) {
        return Err(Error::not_supported("Levels between source and target are not empty for a move."));
    }
    Ok(target)
}

fn smallest_fitting_level(input: &PickerInput<'_>, level: usize) -> usize {
    let version = input.version;
    let bytes = version.level_bytes(level);
    let mut fitting = level;
    for candidate in (1..level).rev() {
        if !version.files(candidate).is_empty() {
            break;
        }
        let target = input.scores.targets.target_bytes.get(candidate).copied().unwrap_or(u64::MAX);
        if target < bytes {
            break;
        }
        fitting = candidate;
    }
    fitting
}

/// The files of level 0 that `promote_l0` moves to `target_level`, by key.
///
/// # Errors
/// `InvalidArgument` if they overlap or are busy, if a level up to the target has files, or if the target is impossible.
pub fn files_to_promote(version: &Version, target_level: usize) -> Result<Files> {
    if target_level == 0 {
        return Err(Error::invalid_argument("Invalid target level"));
    }
    if target_level >= version.num_levels() {
        return Err(Error::invalid_argument("Target level does not exist"));
    }
    let order = version.order();
    let mut files = version.files(0).to_vec();
    files.sort_by(|a, b| order.compare(a.smallest.encoded(), b.smallest.encoded()));
    if any_busy(&files) {
        return Err(Error::invalid_argument("PromoteL0 called during L0 compaction"));
    }
    let overlap = files
        .iter()
        .zip(files.iter().skip(1))
        .any(|(a, b)| order.compare(a.largest.encoded(), b.smallest.encoded()) != Ordering::Less);
    if overlap {
        return Err(Error::invalid_argument("L0 has overlapping files"));
    }
    if (1..=target_level).any(|level| !version.files(level).is_empty()) {
        return Err(Error::invalid_argument("All levels up to target_level must be empty"));
    }
    Ok(files)
}

/// At opening, with dynamic level targets: an edit that moves whole levels down, so that they fill from the last one (or the
/// last but one, where the last is reserved) upward. `None` if they do already.
pub fn levels_to_push_down(version: &Version, options: &PickerOptions) -> Option<VersionEdit> {
    if !options.level_compaction_dynamic_level_bytes || options.disable_auto_compactions {
        return None;
    }
    let reserved = options.allow_ingest_behind || options.preclude_last_level_data_seconds > 0;
    let mut edit = VersionEdit { column_family: version.column_family(), ..VersionEdit::default() };
    let last = version.num_levels() - 1;
    let mut target = if reserved && version.files(last).is_empty() { last.checked_sub(1)? } else { last };
    for level in (1..=target).rev().filter(|level| !version.files(*level).is_empty()) {
        if level < target {
            for file in version.files(level) {
                edit.delete_file(u32::try_from(level).ok()?, file.number);
                edit.add_file(u32::try_from(target).ok()?, file.to_new_file());
            }
        }
        target -= 1;
    }
    (!edit.new_files.is_empty()).then_some(edit)
}
