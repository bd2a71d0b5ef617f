//! Sets of input files: ranges, clean cuts, conflicts with what runs; and the last step from inputs to a plan.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use firn_format::compression::CompressionType;
use firn_format::key::InternalKey;

use super::score::LevelScores;
use super::settings::PickerOptions;
use super::{CompactionInput, CompactionPlan, CompactionReason, CompactionWork};
use crate::options::{CompactionStyle, Temperature};
use crate::version::{FileMetaData, Version};

/// Files in a row.
pub(super) type Files = Vec<Arc<FileMetaData>>;

/// Everything a pick depends on.
#[derive(Clone, Copy)]
pub struct PickerInput<'a> {
    /// The current version.
    pub version: &'a Arc<Version>,
    /// The options.
    pub options: &'a PickerOptions,
    /// The scores of the version.
    pub scores: &'a LevelScores,
    /// The plans of the column family that run now.
    pub running: &'a [Arc<CompactionPlan>],
    /// Wall clock, in unix seconds.
    pub now_secs: u64,
    /// The oldest snapshot when a snapshot was last released, or the sequence published then if none was left; zero if none
    /// was ever released. Files of the bottommost level with older entries only may be rewritten with sequence zero.
    /// (Without any snapshot compactions zero what they can at once, and files that were moved there stay as they are.)
    pub oldest_snapshot: firn_format::key::SequenceNumber,
    /// Breaks ties where no file is better than another; any number.
    pub random: u64,
}

/// The least and the greatest boundary of files, as internal keys.
pub(super) fn key_range<'a>(
    version: &Version,
    files: impl IntoIterator<Item = &'a Arc<FileMetaData>>,
) -> Option<(&'a InternalKey, &'a InternalKey)> {
    let order = version.order();
    files.into_iter().fold(None, |range, file| {
        let (smallest, largest) = range.unwrap_or((&file.smallest, &file.largest));
        let smallest = match order.compare(file.smallest.encoded(), smallest.encoded()) {
            Ordering::Less => &file.smallest,
            _ => smallest,
        };
        let largest = match order.compare(file.largest.encoded(), largest.encoded()) {
            Ordering::Greater => &file.largest,
            _ => largest,
        };
        Some((smallest, largest))
    })
}

pub(super) fn any_busy(files: &[Arc<FileMetaData>]) -> bool {
    files.iter().any(|file| file.being_compacted())
}

pub(super) fn total_bytes(files: &[Arc<FileMetaData>]) -> u64 {
    files.iter().map(|file| file.file_size).sum()
}

pub(super) fn slice(version: &Version, level: usize, range: Range<usize>) -> &[Arc<FileMetaData>] {
    version.files(level).get(range).unwrap_or_default()
}

/// Widens a range of files of a sorted level until no neighbour shares a boundary user key.
pub(super) fn widen_to_clean_cut(version: &Version, level: usize, mut range: Range<usize>) -> Range<usize> {
    loop {
        let files = slice(version, level, range.clone());
        let (Some(first), Some(last)) = (files.first(), files.last()) else { return range };
        let wider = version.overlapping_range(level, Some(&first.smallest), Some(&last.largest));
        if wider == range {
            return range;
        }
        range = wider;
    }
}

/// The position of a file in its level.
pub(super) fn position(version: &Version, level: usize, file: &FileMetaData) -> Option<usize> {
    version.files(level).iter().position(|other| other.number == file.number)
}

/// The clean cut around `range`, or `None` if it has a file that is being compacted. Level 0 needs no cut.
pub(super) fn clean_cut(version: &Version, level: usize, range: Range<usize>) -> Option<Range<usize>> {
    let range = if level == 0 { range } else { widen_to_clean_cut(version, level, range) };
    (!any_busy(slice(version, level, range.clone()))).then_some(range)
}

/// The files of a level that overlap `[begin, end]`, widened to a clean cut; `None` if one of them is being compacted.
pub(super) fn clean_overlap(
    version: &Version,
    level: usize,
    begin: &InternalKey,
    end: &InternalKey,
) -> Option<Range<usize>> {
    clean_cut(version, level, version.overlapping_range(level, Some(begin), Some(end)))
}

/// The largest run of files of a sorted level that lie wholly in `[begin, end]` and share no boundary user key with a
/// neighbour outside.
pub(super) fn clean_within(version: &Version, level: usize, begin: &InternalKey, end: &InternalKey) -> Range<usize> {
    let files = version.files(level);
    let mut range = version.overlapping_range(level, Some(begin), Some(end));
    let order = version.order();
    let starts_inside = |file: &FileMetaData| version.compare_boundaries(&file.smallest, begin) != Ordering::Less;
    let ends_inside = |file: &FileMetaData| version.compare_boundaries(&file.largest, end) != Ordering::Greater;
    let touches = |left: &FileMetaData, right: &FileMetaData| {
        order.compare_user(left.largest.user_key(), right.smallest.user_key()) == Ordering::Equal
            && !left.largest.is_range_sentinel()
    };
    while let Some(first) = files.get(range.start).filter(|_| !range.is_empty()) {
        let left = range.start.checked_sub(1).and_then(|before| files.get(before));
        if starts_inside(first) && !left.is_some_and(|left| touches(left, first)) {
            break;
        }
        range.start += 1;
    }
    while let Some(last) = range.end.checked_sub(1).and_then(|last| files.get(last)).filter(|_| !range.is_empty()) {
        if ends_inside(last) && !files.get(range.end).is_some_and(|right| touches(last, right)) {
            break;
        }
        range.end -= 1;
    }
    range
}

impl PickerInput<'_> {
    /// Whether a running plan writes to `output_level` keys of `[smallest, largest]`.
    pub(super) fn range_conflicts(&self, smallest: &[u8], largest: &[u8], output_level: usize) -> bool {
        let order = self.version.order();
        self.running.iter().any(|plan| {
            plan.output_level == output_level
                && order.compare_user(smallest, &plan.largest_user_key) != Ordering::Greater
                && order.compare_user(largest, &plan.smallest_user_key) != Ordering::Less
        })
    }

    /// Whether a running plan writes to `output_level` keys between the boundaries of `files`.
    pub(super) fn conflicts<'f>(
        &self,
        files: impl IntoIterator<Item = &'f Arc<FileMetaData>>,
        output_level: usize,
    ) -> bool {
        key_range(self.version, files).is_some_and(|(smallest, largest)| {
            self.range_conflicts(smallest.user_key(), largest.user_key(), output_level)
        })
    }

    /// Whether a compaction that starts on level 0 runs.
    pub(super) fn level_0_is_busy(&self) -> bool {
        self.running.iter().any(|plan| plan.start_level == 0)
    }

    /// The level that level 0 compacts to.
    pub(super) fn base_level(&self) -> usize {
        self.scores.targets.base_level
    }
}

/// What a picker decided; [`PlanDraft::into_plan`] works the rest out.
pub(super) struct PlanDraft {
    pub(super) reason: CompactionReason,
    pub(super) inputs: Vec<CompactionInput>,
    pub(super) start_level: usize,
    pub(super) output_level: usize,
    pub(super) score: f64,
    /// The inputs are files of level 0 that may be moved although others of that level overlap each other.
    pub(super) is_level_0_move: bool,
    pub(super) is_manual: bool,
    pub(super) next_cursor: Option<InternalKey>,
    /// Overrides the path that the sizes of levels suggest.
    pub(super) output_path_id: Option<u32>,
    /// Overrides the compression that options ask for.
    pub(super) compression: Option<CompressionType>,
    pub(super) output_temperature: Option<Temperature>,
    /// Overrides what kind of work it is.
    pub(super) work: Option<CompactionWork>,
    /// Outputs are not cut.
    pub(super) one_output: bool,
    /// Overrides the target size of outputs.
    pub(super) target_output_file_size_bytes: Option<u64>,
    /// Parallel parts that a caller allows; 0 = as the options say.
    pub(super) max_subcompactions: u32,
}

impl PlanDraft {
    pub(super) fn new(
        reason: CompactionReason,
        inputs: Vec<CompactionInput>,
        start_level: usize,
        output_level: usize,
    ) -> Self {
        Self {
            reason,
            inputs,
            start_level,
            output_level,
            score: -1.0,
            is_level_0_move: false,
            is_manual: false,
            next_cursor: None,
            output_path_id: None,
            compression: None,
            output_temperature: None,
            work: None,
            one_output: output_level == 0,
            target_output_file_size_bytes: None,
            max_subcompactions: 0,
        }
    }

    /// The plan; `None` if there is no input.
    pub(super) fn into_plan(mut self, input: &PickerInput<'_>) -> Option<CompactionPlan> {
        let (version, options) = (input.version, input.options);
        self.inputs.retain(|level| !level.files.is_empty());
        let all = || self.inputs.iter().flat_map(|level| &level.files);
        let (smallest, largest) = key_range(version, all())?;
        let (smallest_user_key, largest_user_key) = (smallest.user_key().to_vec(), largest.user_key().to_vec());
        let grandparents = self.grandparents(version, options, smallest, largest);
        let bottommost = !options.allow_ingest_behind && self.is_bottommost(version, smallest, largest);
        let base_level = input.base_level();
        let compression_base = if options.compaction_style == CompactionStyle::Level { base_level } else { 1 };
        let compression_of =
            |level| options.compression_for_level(level, compression_base, version.num_non_empty_levels());
        let output_compression = self.compression.unwrap_or_else(|| compression_of(self.output_level));
        let output_path_id = self.output_path_id.unwrap_or_else(|| path_id_for_level(options, self.output_level));
        let target = if self.one_output {
            u64::MAX
        } else {
            self.target_output_file_size_bytes
                .unwrap_or_else(|| options.max_file_size_for_level(self.output_level, base_level))
        };
        let aligned = !bottommost && !grandparents.is_empty() && self.target_output_file_size_bytes.is_none();
        let work = self.work.unwrap_or_else(|| {
            let moves = options.compaction_style == CompactionStyle::Level
                && self.may_move(input, output_path_id)
                && compression_of(self.start_level) == output_compression;
            if moves { CompactionWork::TrivialMove } else { CompactionWork::Merge }
        });
        Some(CompactionPlan {
            column_family: version.column_family(),
            version: Arc::clone(version),
            reason: self.reason,
            score: self.score,
            work,
            start_level: self.start_level,
            output_level: self.output_level,
            output_path_id,
            target_output_file_size_bytes: target,
            max_output_file_size_bytes: if aligned { target.saturating_mul(2) } else { target },
            max_compaction_bytes: match options.compaction_style {
                // Incremental compactions merge parts of runs: an output over much of the next run would join those parts.
                CompactionStyle::Universal => options.target_file_size_base.saturating_mul(3) / 2,
                _ => options.max_compaction_bytes,
            },
            output_compression,
            output_temperature: self.output_temperature,
            grandparents,
            bottommost,
            is_manual: self.is_manual,
            max_subcompactions: self.subcompactions(options),
            base_level,
            next_cursor: self.next_cursor,
            inputs: self.inputs,
            smallest_user_key,
            largest_user_key,
        })
    }

    /// Overlapping files of the first level below the output that has any.
    fn grandparents(
        &self,
        version: &Version,
        options: &PickerOptions,
        smallest: &InternalKey,
        largest: &InternalKey,
    ) -> Files {
        // Universal compaction rewrites whole runs: what an output overlaps below does not matter.
        let universal_unbounded =
            options.compaction_style == CompactionStyle::Universal && !options.compaction_options_universal.incremental;
        if self.one_output || universal_unbounded {
            return Vec::new();
        }
        (self.output_level + 1..version.num_levels())
            .map(|level| version.overlapping_files(level, Some(smallest), Some(largest)))
            .find(|files| !files.is_empty())
            .unwrap_or_default()
    }

    fn is_bottommost(&self, version: &Version, smallest: &InternalKey, largest: &InternalKey) -> bool {
        let last_level_0_index = self
            .inputs
            .iter()
            .filter(|input| input.level == 0)
            .flat_map(|input| &input.files)
            .filter_map(|file| position(version, 0, file))
            .max();
        !version.range_might_exist_after(smallest.user_key(), largest.user_key(), self.output_level, last_level_0_index)
    }

    /// Whether the inputs may be hung under the output level as they are, compression aside.
    fn may_move(&self, input: &PickerInput<'_>, output_path_id: u32) -> bool {
        let (version, options) = (input.version, input.options);
        let [CompactionInput { files, .. }] = self.inputs.as_slice() else { return false };
        let level_0_overlaps =
            self.start_level == 0 && !self.is_level_0_move && files.len() > 1 && level_0_has_overlap(version);
        if level_0_overlaps
            || (self.is_manual && options.filtered)
            || self.start_level == self.output_level
            || self.reason == CompactionReason::ChangeTemperature
            || files.iter().any(|file| file.path_id != output_path_id)
        {
            return false;
        }
        // A file that overlaps much of the level below would make a later compaction expensive.
        let below = self.output_level + 1;
        below >= version.num_levels()
            || files.iter().all(|file| {
                let range = version.overlapping_range(below, Some(&file.smallest), Some(&file.largest));
                let bytes = file.file_size.saturating_add(total_bytes(slice(version, below, range)));
                bytes <= options.max_compaction_bytes
            })
    }

    fn subcompactions(&self, options: &PickerOptions) -> u32 {
        let may_split = self.output_level > 0
            && match options.compaction_style {
                CompactionStyle::Level => self.start_level == 0 || self.is_manual,
                CompactionStyle::Universal => options.num_levels > 1,
                CompactionStyle::Fifo | CompactionStyle::None => false,
            };
        match (may_split, self.max_subcompactions) {
            (false, _) => 1,
            (true, 0) => options.max_subcompactions.max(1),
            (true, asked) => asked,
        }
    }
}

/// Whether two files of level 0 overlap. They do not where the newer one ends with the user key that the older one begins
/// with: moved down together, they share that key.
pub(super) fn level_0_has_overlap(version: &Version) -> bool {
    let order = version.order();
    let mut files: Vec<&Arc<FileMetaData>> = version.files(0).iter().collect();
    files.sort_by(|a, b| order.compare(a.smallest.encoded(), b.smallest.encoded()));
    files
        .iter()
        .zip(files.iter().skip(1))
        .any(|(a, b)| order.compare(a.largest.encoded(), b.smallest.encoded()) != Ordering::Less)
}

/// The first path whose target size holds the level, when the levels above fill the paths before it.
fn path_id_for_level(options: &PickerOptions, level: usize) -> u32 {
    let targets = &options.path_target_sizes;
    let last = targets.len().saturating_sub(1);
    let mut path = 0;
    let mut left = targets.first().copied().unwrap_or(0);
    // Level 0 is taken to be as large as level 1.
    let mut level_bytes = options.max_bytes_for_level_base;
    let mut current = 0;
    while path < last {
        if level_bytes <= left {
            if current == level {
                break;
            }
            left -= level_bytes;
            if current > 0 {
                level_bytes = super::settings::multiply_checked(level_bytes, options.max_bytes_for_level_multiplier);
            }
            current += 1;
        } else {
            path += 1;
            left = targets.get(path).copied().unwrap_or(0);
        }
    }
    u32::try_from(path).unwrap_or(u32::MAX)
}
