//! Leveled compaction: which files of which level go down next.
//!
//! Levels are tried in order of their scores. In a level, files are tried in the order of `compaction_pri` until one can be
//! had with everything that must come along: files that share a boundary user key, the files it overlaps on the output
//! level, and on level 0 all files that overlap it. When no level asks for compaction, files that were marked, that nobody
//! needs versions of any more, or that are too old get their turn.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use firn_format::key::InternalKey;

use super::inputs::{
    Files, PickerInput, PlanDraft, any_busy, clean_cut, clean_overlap, clean_within, key_range, position, slice,
    total_bytes, widen_to_clean_cut,
};
use super::{CompactionInput, CompactionPlan, CompactionReason, marking, priority};
use crate::options::CompactionPri;
use crate::version::FileMetaData;

/// More files than this are never moved at once by widening a move.
const MAX_FILES_OF_A_MOVE: usize = 4;

/// A merge of a few newest files of level 0 is worth it from this many on.
const MIN_FILES_OF_INTRA_LEVEL_0: usize = 4;

/// Start-level inputs under construction.
struct Start {
    level: usize,
    output_level: usize,
    reason: CompactionReason,
    score: f64,
    files: Start0,
}

enum Start0 {
    /// A range of a sorted level.
    Range(Range<usize>),
    /// Files of level 0 that others of it may overlap.
    Level0(Files),
    /// Files of level 0 that move to the base level as they are.
    Level0Move(Files),
    /// Files of level 0 that are merged within it.
    IntraLevel0(Files),
}

/// Whether there is anything to pick, running compactions aside.
pub(super) fn needs_compaction(input: &PickerInput<'_>) -> bool {
    let (version, options) = (input.version, input.options);
    input.scores.max() >= 1.0
        || !marking::marked_for_compaction(version).is_empty()
        || !marking::bottommost(input).is_empty()
        || !marking::expired(version, options, input.now_secs).is_empty()
        || !marking::periodic(version, options, input.now_secs).is_empty()
}

/// The next compaction.
pub(super) fn pick(input: &PickerInput<'_>) -> Option<CompactionPlan> {
    if input.version.num_levels() < 2 {
        return None;
    }
    let start = match pick_by_score(input) {
        Some(start) => start,
        None => pick_marked(input)?,
    };
    complete(input, start)
}

fn pick_by_score(input: &PickerInput<'_>) -> Option<Start> {
    let mut level_0_is_blocked = false;
    for &(score, level) in &input.scores.by_urgency {
        if score < 1.0 {
            return None;
        }
        // More work from the base level down would keep level 0 blocked for longer.
        if level_0_is_blocked && level == input.base_level() {
            continue;
        }
        let (output_level, reason) = match level {
            0 => (input.base_level(), CompactionReason::LevelL0FilesNum),
            _ => (level + 1, CompactionReason::LevelMaxLevelSize),
        };
        if let Some(files) = pick_file(input, level, output_level) {
            let output_level = if matches!(files, Start0::IntraLevel0(_)) { 0 } else { output_level };
            return Some(Start { level, output_level, reason, score, files });
        }
        if level == 0 {
            level_0_is_blocked = true;
            if let Some(files) = intra_level_0_by_cost(input) {
                let files = Start0::IntraLevel0(files);
                return Some(Start { level: 0, output_level: 0, reason, score, files });
            }
        }
    }
    None
}

/// The files of `level` to start with.
fn pick_file(input: &PickerInput<'_>, level: usize, output_level: usize) -> Option<Start0> {
    if level == 0 {
        if input.level_0_is_busy() {
            return intra_level_0_by_size(input).map(Start0::IntraLevel0);
        }
        if let Some(files) = level_0_move(input, output_level) {
            return Some(Start0::Level0Move(files));
        }
        if let Some(files) = intra_level_0_by_size(input) {
            return Some(Start0::IntraLevel0(files));
        }
    }
    let version = input.version;
    let round_robin = input.options.compaction_pri == CompactionPri::RoundRobin;
    for index in priority::order_of_files(version, level, input.options, input.now_secs) {
        let Some(file) = version.files(level).get(index) else { continue };
        let picked = if file.being_compacted() { None } else { try_file(input, level, output_level, index) };
        if picked.is_some() {
            return picked;
        }
        if round_robin {
            // The cursor must not jump over a file.
            return None;
        }
    }
    None
}

fn try_file(input: &PickerInput<'_>, level: usize, output_level: usize, index: usize) -> Option<Start0> {
    let version = input.version;
    let range = clean_cut(version, level, index..index + 1)?;
    let files = slice(version, level, range.clone());
    if input.conflicts(files, output_level) {
        return None;
    }
    let (smallest, largest) = key_range(version, files)?;
    let overlapped = version.overlapping_range(output_level, Some(smallest), Some(largest));
    if level == 0 {
        clean_cut(version, output_level, overlapped)?;
        return Some(Start0::Level0(files.to_vec()));
    }
    if overlapped.is_empty() {
        return Some(Start0::Range(widen_move(input, level, output_level, range)));
    }
    clean_cut(version, output_level, overlapped)?;
    Some(Start0::Range(range))
}

/// More files beside one that overlaps nothing below, so that they move together.
fn widen_move(input: &PickerInput<'_>, level: usize, output_level: usize, range: Range<usize>) -> Range<usize> {
    let (version, options) = (input.version, input.options);
    if range.len() != 1 || !options.has_one_path() || !options.compression_per_level.is_empty() {
        return range;
    }
    let files = version.files(level);
    let Some(initial) = files.get(range.start) else { return range };
    let order = version.order();
    let overlaps_below = |smallest: &InternalKey, largest: &InternalKey| {
        !version.overlapping_range(output_level, Some(smallest), Some(largest)).is_empty()
    };
    let shares_key = |left: &FileMetaData, right: &FileMetaData| {
        order.compare_user(left.largest.user_key(), right.smallest.user_key()) == Ordering::Equal
    };
    let mut wide = range.clone();
    let mut bytes = initial.file_size;
    while let Some(next) = files.get(wide.end).filter(|_| wide.len() < MAX_FILES_OF_A_MOVE) {
        let cut_is_clean = files.get(wide.end + 1).is_none_or(|after| !shares_key(next, after));
        if next.being_compacted() || overlaps_below(&initial.smallest, &next.largest) || !cut_is_clean {
            break;
        }
        // A file that is refused for its size still counts on the other side.
        bytes = bytes.saturating_add(next.file_size);
        if bytes > options.max_compaction_bytes {
            break;
        }
        wide.end += 1;
    }
    if options.compaction_pri == CompactionPri::RoundRobin {
        return wide;
    }
    while let Some(next) =
        wide.start.checked_sub(1).and_then(|before| files.get(before)).filter(|_| wide.len() < MAX_FILES_OF_A_MOVE)
    {
        let before = wide.start.checked_sub(2).and_then(|before| files.get(before));
        let cut_is_clean = before.is_none_or(|before| !shares_key(before, next));
        if next.being_compacted() || overlaps_below(&next.smallest, &initial.largest) || !cut_is_clean {
            break;
        }
        bytes = bytes.saturating_add(next.file_size);
        if bytes > options.max_compaction_bytes {
            break;
        }
        wide.start -= 1;
    }
    wide
}

/// The oldest files of level 0 that overlap neither each other nor the base level: they can move down as they are.
fn level_0_move(input: &PickerInput<'_>, output_level: usize) -> Option<Files> {
    let (version, options) = (input.version, input.options);
    if output_level == 0
        || !options.compression_per_level.is_empty()
        || !options.has_one_path()
        || version.files(output_level).is_empty()
    {
        return None;
    }
    let order = version.order();
    let mut picked: Files = Vec::new();
    let mut range: Option<(&InternalKey, &InternalKey)> = None;
    for file in version.files(0).iter().rev() {
        let (smallest, largest) = match range {
            None => (&file.smallest, &file.largest),
            Some((smallest, largest)) => {
                if order.compare(file.largest.encoded(), smallest.encoded()) == Ordering::Less {
                    (&file.smallest, largest)
                } else if order.compare(file.smallest.encoded(), largest.encoded()) == Ordering::Greater {
                    (smallest, &file.largest)
                } else {
                    break;
                }
            }
        };
        let overlaps = !version.overlapping_range(output_level, Some(smallest), Some(largest)).is_empty();
        if overlaps || file.being_compacted() {
            break;
        }
        range = Some((smallest, largest));
        picked.push(Arc::clone(file));
    }
    if picked.is_empty() || input.conflicts(&picked, output_level) {
        return None;
    }
    picked.sort_by(|a, b| order.compare(a.smallest.encoded(), b.smallest.encoded()));
    Some(picked)
}

/// Level 0 merged within itself because the base level is so large that compacting into it would rewrite too much.
fn intra_level_0_by_size(input: &PickerInput<'_>) -> Option<Files> {
    let (version, options) = (input.version, input.options);
    let files = version.files(0);
    let least = options.level0_file_num_compaction_trigger.max(2);
    if files.len() < least {
        return None;
    }
    let weigh = |files: &[Arc<FileMetaData>]| -> u64 { files.iter().map(|file| file.compensated_file_size()).sum() };
    let factor = options.max_bytes_for_level_multiplier.max(10.0) * 2.0;
    let base_bytes = weigh(version.files(input.base_level())) as f64;
    if base_bytes <= weigh(files) as f64 * factor {
        return None;
    }
    let picked: Files = files.iter().take_while(|file| !file.being_compacted()).cloned().collect();
    (picked.len() >= least).then_some(picked)
}

/// Level 0 merged within itself because the way to the base level is blocked: the newest files, as long as each one more
/// makes the merge cheaper per file that goes away.
fn intra_level_0_by_cost(input: &PickerInput<'_>) -> Option<Files> {
    let options = input.options;
    let files = input.version.files(0);
    if files.len() < options.level0_file_num_compaction_trigger + 2 {
        return None;
    }
    cheapest_newest_files(files, MIN_FILES_OF_INTRA_LEVEL_0, u64::MAX, options.max_compaction_bytes)
}

/// The newest files, taken while they are free, their bytes stay within `max_bytes`, and the bytes per file that a merge
/// gets rid of do not grow and stay within `max_bytes_per_removed_file`.
pub(super) fn cheapest_newest_files(
    files: &[Arc<FileMetaData>],
    min_files: usize,
    max_bytes_per_removed_file: u64,
    max_bytes: u64,
) -> Option<Files> {
    let first = files.first().filter(|file| !file.being_compacted())?;
    let mut bytes = first.file_size;
    let mut cost = u64::MAX;
    let mut count = 1;
    for (removed, file) in (1u64..).zip(files.iter().skip(1)) {
        bytes = bytes.saturating_add(file.file_size);
        let next_cost = bytes / removed;
        if file.being_compacted() || next_cost > cost || bytes > max_bytes {
            break;
        }
        cost = next_cost;
        count += 1;
    }
    let good = count >= min_files.max(2) && cost <= max_bytes_per_removed_file;
    good.then(|| files.get(..count).unwrap_or_default().to_vec())
}

/// Whether files go one level down or are rewritten where they stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goal {
    /// Down.
    NextLevel,
    /// Down; files of the last level with files are left alone.
    NextLevelExceptLast,
    /// Down; files of the last level with files are rewritten there.
    NextLevelOrLast,
    /// Rewritten where they are.
    SameLevel,
}

fn pick_marked(input: &PickerInput<'_>) -> Option<Start> {
    let (version, options, now) = (input.version, input.options, input.now_secs);
    let mut marked = marking::marked_for_compaction(version);
    if !marked.is_empty() {
        // Start at random, so that one file which cannot be had does not keep the others waiting.
        let first = usize::try_from(input.random % marked.len() as u64).unwrap_or(0);
        let first = marked.remove(first);
        marked.insert(0, first);
    }
    let expired = marking::expired(version, options, now);
    let periodic_goal =
        if options.level_compaction_dynamic_level_bytes { Goal::NextLevelOrLast } else { Goal::SameLevel };
    pick_from(input, &marked, Goal::NextLevel, CompactionReason::FilesMarkedForCompaction)
        .or_else(|| pick_from(input, &marking::bottommost(input), Goal::SameLevel, CompactionReason::BottommostFiles))
        .or_else(|| pick_expired_by_cursor(input, &expired))
        .or_else(|| pick_from(input, &expired, Goal::NextLevelExceptLast, CompactionReason::Ttl))
        .or_else(|| {
            let files = marking::periodic(version, options, now);
            pick_from(input, &files, periodic_goal, CompactionReason::PeriodicCompaction)
        })
}

/// Round robin lets the cursor choose the file of the lowest level that has expired ones.
fn pick_expired_by_cursor(input: &PickerInput<'_>, expired: &[marking::Marked]) -> Option<Start> {
    let level = expired.first().map(|(level, _)| *level)?;
    if input.options.compaction_pri != CompactionPri::RoundRobin || level == 0 {
        return None;
    }
    let files = pick_file(input, level, level + 1)?;
    let reason = CompactionReason::RoundRobinTtl;
    Some(Start { level, output_level: level + 1, reason, score: -1.0, files })
}

fn pick_from(
    input: &PickerInput<'_>,
    marked: &[marking::Marked],
    goal: Goal,
    reason: CompactionReason,
) -> Option<Start> {
    let version = input.version;
    let last = version.num_non_empty_levels().saturating_sub(1);
    marked.iter().find_map(|(level, file)| {
        let level = *level;
        if (goal == Goal::NextLevelExceptLast && level == last) || (level == 0 && input.level_0_is_busy()) {
            return None;
        }
        let goes_down = match goal {
            Goal::NextLevel | Goal::NextLevelExceptLast => true,
            Goal::NextLevelOrLast => level < last,
            Goal::SameLevel => false,
        };
        let output_level = match (goes_down, level) {
            (false, level) => level,
            (true, 0) => input.base_level(),
            (true, level) => level + 1,
        };
        if output_level >= version.num_levels() {
            return None;
        }
        let index = position(version, level, file)?;
        let range = clean_cut(version, level, index..index + 1)?;
        let files = match level {
            0 => Start0::Level0(slice(version, 0, range).to_vec()),
            _ => Start0::Range(range),
        };
        Some(Start { level, output_level, reason, score: -1.0, files })
    })
}

/// Adds what the start-level files need to come along and makes the plan.
fn complete(input: &PickerInput<'_>, start: Start) -> Option<CompactionPlan> {
    let Start { level, output_level, reason, score, files } = start;
    let version = input.version;
    let (inputs, is_level_0_move) = match files {
        Start0::IntraLevel0(files) => (vec![CompactionInput { level: 0, files }], false),
        Start0::Level0Move(files) => (vec![CompactionInput { level: 0, files }], true),
        Start0::Level0(files) => (with_level_0_overlaps(input, files, output_level)?, false),
        Start0::Range(range) => {
            let range = expand_round_robin(input, level, output_level, reason, range);
            (with_output_level(input, level, output_level, reason, range)?, false)
        }
    };
    let is_intra_level_0 = output_level == 0;
    if !is_intra_level_0
        && !is_level_0_move
        && input.conflicts(inputs.iter().flat_map(|level| &level.files), output_level)
    {
        return None;
    }
    let next_cursor = next_cursor(input, level, reason, &inputs);
    let mut draft = PlanDraft::new(reason, inputs, level, output_level);
    draft.score = score;
    draft.is_level_0_move = is_level_0_move;
    draft.next_cursor = next_cursor;
    debug_assert!(version.num_levels() > output_level);
    draft.into_plan(input)
}

/// All files of level 0 that overlap the picked ones, and what they overlap on the output level.
fn with_level_0_overlaps(input: &PickerInput<'_>, picked: Files, output_level: usize) -> Option<Vec<CompactionInput>> {
    let version = input.version;
    if output_level == 0 {
        // A file of level 0 rewritten in its place: nothing else has to come along.
        return (!any_busy(&picked)).then(|| vec![CompactionInput { level: 0, files: picked }]);
    }
    let (smallest, largest) = key_range(version, &picked)?;
    let files = version.overlapping_files(0, Some(smallest), Some(largest));
    if any_busy(&files) {
        return None;
    }
    let (smallest, largest) = key_range(version, &files)?;
    let output = clean_overlap(version, output_level, smallest, largest)?;
    let (files, output) = grow_level_0(input, files, output_level, output);
    Some(vec![
        CompactionInput { level: 0, files },
        CompactionInput { level: output_level, files: slice(version, output_level, output).to_vec() },
    ])
}

/// Takes more files of level 0 along when that needs no more files of the output level.
fn grow_level_0(
    input: &PickerInput<'_>,
    files: Files,
    output_level: usize,
    output: Range<usize>,
) -> (Files, Range<usize>) {
    let version = input.version;
    let output_files = slice(version, output_level, output.clone());
    if output_files.is_empty() {
        return (files, output);
    }
    let Some((smallest, largest)) = key_range(version, files.iter().chain(output_files)) else {
        return (files, output);
    };
    let grown = version.overlapping_files(0, Some(smallest), Some(largest));
    let limit = input.options.max_compaction_bytes.saturating_mul(2);
    let fits = total_bytes(output_files).saturating_add(total_bytes(&grown)) < limit;
    if grown.len() <= files.len() || any_busy(&grown) || !fits {
        return (files, output);
    }
    let needed = key_range(version, &grown)
        .and_then(|(smallest, largest)| clean_overlap(version, output_level, smallest, largest));
    if needed.as_ref() == Some(&output) { (grown, output) } else { (files, output) }
}

/// The start-level files, what they overlap on the output level, and more start-level files where they come for free.
pub(super) fn with_output_level(
    input: &PickerInput<'_>,
    level: usize,
    output_level: usize,
    reason: CompactionReason,
    range: Range<usize>,
) -> Option<Vec<CompactionInput>> {
    let version = input.version;
    let of_level = |level, range| CompactionInput { level, files: slice(version, level, range).to_vec() };
    if level == output_level {
        return Some(vec![of_level(level, range)]);
    }
    let (smallest, largest) = key_range(version, slice(version, level, range.clone()))?;
    let output = clean_overlap(version, output_level, smallest, largest)?;
    let range = grow(input, level, output_level, reason, range, &output);
    Some(vec![of_level(level, range), of_level(output_level, output)])
}

fn grow(
    input: &PickerInput<'_>,
    level: usize,
    output_level: usize,
    reason: CompactionReason,
    range: Range<usize>,
    output: &Range<usize>,
) -> Range<usize> {
    let version = input.version;
    let output_files = slice(version, output_level, output.clone());
    if output_files.is_empty() {
        return range;
    }
    let start_files = slice(version, level, range.clone());
    let Some((union_smallest, union_largest)) = key_range(version, start_files.iter().chain(output_files)) else {
        return range;
    };
    let limit = input.options.max_compaction_bytes.saturating_mul(2);
    let affordable = |wider: &Range<usize>| {
        let files = slice(version, level, wider.clone());
        wider.len() > range.len()
            && !any_busy(files)
            && total_bytes(output_files).saturating_add(total_bytes(files)) < limit
    };
    // Round robin goes to the right only, so that the cursor passes over nothing.
    let only_right =
        input.options.compaction_pri == CompactionPri::RoundRobin && reason == CompactionReason::LevelMaxLevelSize;
    let from = match start_files.first() {
        Some(first) if only_right => &first.smallest,
        _ => union_smallest,
    };
    let wide = widen_to_clean_cut(version, level, version.overlapping_range(level, Some(from), Some(union_largest)));
    if affordable(&wide) {
        let needed = key_range(version, slice(version, level, wide.clone()))
            .and_then(|(smallest, largest)| clean_overlap(version, output_level, smallest, largest));
        if needed.is_some_and(|needed| needed.len() == output.len()) {
            return wide;
        }
    }
    let within = clean_within(version, level, union_smallest, union_largest);
    let keeps_all = within.start <= range.start && within.end >= range.end;
    if affordable(&within) && keeps_all { within } else { range }
}

/// Round robin: takes files to the right until the level would be within its target.
fn expand_round_robin(
    input: &PickerInput<'_>,
    level: usize,
    output_level: usize,
    reason: CompactionReason,
    mut range: Range<usize>,
) -> Range<usize> {
    let (version, options) = (input.version, input.options);
    if options.compaction_pri != CompactionPri::RoundRobin
        || reason != CompactionReason::LevelMaxLevelSize
        || level == 0
    {
        return range;
    }
    let target = input.scores.targets.target_bytes.get(level).copied().unwrap_or(u64::MAX);
    let free: u64 = version.files(level).iter().filter(|file| !file.being_compacted()).map(|file| file.file_size).sum();
    let excess = free.saturating_sub(target);
    let first_bytes = version.files(level).get(range.start).map_or(u64::MAX, |file| file.file_size);
    if first_bytes >= excess {
        return range;
    }
    while range.end < version.files(level).len() {
        let Some(wider) = clean_cut(version, level, range.start..range.end + 1) else { break };
        let files = slice(version, level, wider.clone());
        let Some((smallest, largest)) = key_range(version, files) else { break };
        if wider.start < range.start || input.conflicts(files, output_level) {
            break;
        }
        let Some(output) = clean_overlap(version, output_level, smallest, largest) else { break };
        let start_bytes = total_bytes(files);
        let output_bytes = total_bytes(slice(version, output_level, output));
        if start_bytes.saturating_add(output_bytes) > options.max_compaction_bytes {
            break;
        }
        range = wider;
        if start_bytes > excess {
            break;
        }
    }
    range
}

/// Where round robin goes on after this compaction.
fn next_cursor(
    input: &PickerInput<'_>,
    level: usize,
    reason: CompactionReason,
    inputs: &[CompactionInput],
) -> Option<InternalKey> {
    let moves_cursor = matches!(reason, CompactionReason::LevelMaxLevelSize | CompactionReason::RoundRobinTtl);
    if input.options.compaction_pri != CompactionPri::RoundRobin || level == 0 || !moves_cursor {
        return None;
    }
    let version = input.version;
    let order = priority::order_of_files(version, level, input.options, input.now_secs);
    let taken = inputs.first().map_or(0, |start| start.files.len());
    let next = order.get(taken).or(order.first())?;
    version.files(level).get(*next).map(|file| file.smallest.clone())
}
