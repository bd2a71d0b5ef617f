//! Which level needs compaction most: targets, scores, and the bytes that compaction is behind.

use super::settings::{PickerOptions, multiply_checked};
use super::{fifo, universal};
use crate::options::CompactionStyle;
use crate::version::Version;

/// How large levels are meant to be.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelTargets {
    /// The level that level 0 compacts to.
    pub base_level: usize,
    /// Bytes per level; `u64::MAX` where nothing is meant to be or no target applies.
    pub target_bytes: Vec<u64>,
    /// Dynamic targets: this level and those above it (≥ 1) are to be emptied.
    pub lowest_unnecessary_level: Option<usize>,
}

/// Where compaction is needed.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelScores {
    /// How large levels are meant to be.
    pub targets: LevelTargets,
    /// (score, level), most urgent first; 1.0 and above asks for a compaction.
    pub by_urgency: Vec<(f64, usize)>,
    /// Estimated bytes that compaction has to rewrite until every level is within its target.
    pub pending_compaction_bytes: u64,
}

impl LevelScores {
    /// The score of `level`; 0 if it has none.
    pub fn of_level(&self, level: usize) -> f64 {
        self.by_urgency.iter().find(|(_, other)| *other == level).map_or(0.0, |(score, _)| *score)
    }

    /// The highest score.
    pub fn max(&self) -> f64 {
        self.by_urgency.first().map_or(0.0, |(score, _)| *score)
    }
}

/// Targets for a version.
pub fn targets(version: &Version, options: &PickerOptions) -> LevelTargets {
    let sizes: Vec<u64> = (0..options.num_levels).map(|level| version.level_bytes(level)).collect();
    if options.compaction_style != CompactionStyle::Level {
        return LevelTargets {
            base_level: 1.min(options.num_levels - 1),
            target_bytes: vec![u64::MAX; options.num_levels],
            lowest_unnecessary_level: None,
        };
    }
    if options.level_compaction_dynamic_level_bytes && options.num_levels > 1 {
        dynamic_targets(&sizes, options)
    } else {
        static_targets(options)
    }
}

fn static_targets(options: &PickerOptions) -> LevelTargets {
    let mut target_bytes = vec![u64::MAX];
    let mut target = options.max_bytes_for_level_base;
    for level in 1..options.num_levels {
        if level > 1 {
            let additional = options.max_bytes_for_level_multiplier_additional.get(level - 1).copied().unwrap_or(1);
            target = multiply_checked(
                multiply_checked(target, options.max_bytes_for_level_multiplier),
                f64::from(additional),
            );
        }
        target_bytes.push(target);
    }
    LevelTargets { base_level: 1.min(options.num_levels - 1), target_bytes, lowest_unnecessary_level: None }
}

fn dynamic_targets(sizes: &[u64], options: &PickerOptions) -> LevelTargets {
    let num_levels = sizes.len();
    let multiplier = options.max_bytes_for_level_multiplier;
    let base_max = options.max_bytes_for_level_base;
    let base_min = (base_max as f64 / multiplier) as u64;
    let mut target_bytes = vec![u64::MAX; num_levels];
    let mut lowest_unnecessary_level = None;
    let first_non_empty = (1..num_levels).find(|level| sizes.get(*level).is_some_and(|size| *size > 0));
    let largest = sizes.iter().skip(1).copied().max().unwrap_or(0);
    let Some(first_non_empty) = first_non_empty else {
        return LevelTargets { base_level: num_levels - 1, target_bytes, lowest_unnecessary_level };
    };
    let mut current = largest;
    for level in (first_non_empty..num_levels - 1).rev() {
        current = (current as f64 / multiplier) as u64;
        let may_be_unnecessary = options.preclude_last_level_data_seconds == 0 || level < num_levels - 2;
        if lowest_unnecessary_level.is_none() && current <= base_min && may_be_unnecessary {
            lowest_unnecessary_level = Some(level);
        }
    }
    let mut base_level = first_non_empty;
    let base_size = if current <= base_min {
        base_min + 1
    } else {
        while base_level > 1 && current > base_max {
            base_level -= 1;
            current = (current as f64 / multiplier) as u64;
        }
        if current > base_max { base_max } else { current.max(1) }
    };
    let mut size = base_size;
    for (level, target) in target_bytes.iter_mut().enumerate().skip(base_level) {
        if level > base_level {
            size = multiply_checked(size, multiplier);
        }
        *target = size.max(base_max);
    }
    LevelTargets { base_level, target_bytes, lowest_unnecessary_level }
}

/// Targets, scores and pending bytes of a version, with the files busy as they are marked now.
pub fn compute(version: &Version, options: &PickerOptions, now_secs: u64) -> LevelScores {
    let targets = targets(version, options);
    let mut by_urgency: Vec<(f64, usize)> = match options.compaction_style {
        CompactionStyle::Level => leveled_scores(version, options, &targets),
        CompactionStyle::Universal => vec![(universal::score(version, options), 0)],
        CompactionStyle::Fifo => vec![(fifo::score(version, options, now_secs), 0)],
        CompactionStyle::None => Vec::new(),
    };
    by_urgency.sort_by(|a, b| b.0.total_cmp(&a.0));
    let pending_compaction_bytes = match options.compaction_style {
        CompactionStyle::Level => pending_bytes(version, options, &targets),
        _ => 0,
    };
    LevelScores { targets, by_urgency, pending_compaction_bytes }
}

/// Compensated bytes of the files of `level` that no compaction has.
fn free_bytes(version: &Version, level: usize) -> u64 {
    let free = version.files(level).iter().filter(|file| !file.being_compacted());
    free.map(|file| file.compensated_file_size()).sum()
}

fn compensated_bytes(version: &Version, level: usize) -> u64 {
    version.files(level).iter().map(|file| file.compensated_file_size()).sum()
}

fn ratio(bytes: u64, of: u64) -> f64 {
    if of == 0 { f64::from(u8::from(bytes > 0)) * f64::MAX.sqrt() } else { bytes as f64 / of as f64 }
}

fn leveled_scores(version: &Version, options: &PickerOptions, targets: &LevelTargets) -> Vec<(f64, usize)> {
    let dynamic = options.level_compaction_dynamic_level_bytes;
    let target_of = |level: usize| targets.target_bytes.get(level).copied().unwrap_or(u64::MAX);
    let mut scores = Vec::new();
    // Bytes that still have to come down through the levels looked at so far.
    let mut down = version.level_bytes(0);
    for level in 0..options.num_levels.saturating_sub(1) {
        let free = free_bytes(version, level);
        if level == 0 {
            scores.push((level_0_score(version, options, targets, free), 0));
            continue;
        }
        let target = target_of(level);
        let unnecessary = targets.lowest_unnecessary_level.filter(|lowest| level <= *lowest);
        let mut score = if !dynamic || free < target {
            ratio(free, target)
        } else {
            ratio(free, target.saturating_add(down)) * 10.0
        };
        if let Some(lowest) = unnecessary.filter(|_| dynamic && free > 0) {
            score = score.max(10.0 * (1.001 + 0.001 * (lowest - level) as f64));
        }
        let all = version.level_bytes(level);
        down = down.saturating_add(if unnecessary.is_some() { all } else { all.saturating_sub(target) });
        scores.push((score, level));
    }
    scores
}

fn level_0_score(version: &Version, options: &PickerOptions, targets: &LevelTargets, size: u64) -> f64 {
    let count = version.files(0).iter().filter(|file| !file.being_compacted()).count();
    let mut score = count as f64 / options.level0_file_num_compaction_trigger as f64;
    if !options.level_compaction_dynamic_level_bytes {
        return score.max(ratio(size, options.max_bytes_for_level_base));
    }
    if size >= options.max_bytes_for_level_base {
        score = score.max(1.01);
    }
    let base_target = targets.target_bytes.get(targets.base_level).copied().unwrap_or(u64::MAX);
    if size > base_target {
        score = score.max(ratio(size, compensated_bytes(version, targets.base_level).max(base_target)));
    }
    // Beyond the threshold the dynamic levels are scaled, so that they may compete with each other.
    if score > 1.0 { score * 10.0 } else { score }
}

fn pending_bytes(version: &Version, options: &PickerOptions, targets: &LevelTargets) -> u64 {
    let level_0_bytes = version.level_bytes(0);
    let last = options.num_levels - 1;
    let (mut estimate, mut carry) = (0u64, 0u64);
    if version.files(0).len() >= options.level0_file_num_compaction_trigger
        || level_0_bytes >= options.max_bytes_for_level_base
    {
        estimate = level_0_bytes;
        carry = level_0_bytes;
        if targets.base_level < last {
            estimate = estimate.saturating_add(version.level_bytes(targets.base_level));
        }
    }
    for level in targets.base_level.max(1)..last {
        let size = version.level_bytes(level).saturating_add(carry);
        let target = targets.target_bytes.get(level).copied().unwrap_or(u64::MAX);
        carry = size.saturating_sub(target);
        let next = version.level_bytes(level + 1);
        if carry > 0 && next > 0 {
            let rewritten = carry as f64 * (next as f64 / size as f64 + 1.0);
            estimate = estimate.saturating_add(rewritten as u64);
        }
    }
    estimate
}
