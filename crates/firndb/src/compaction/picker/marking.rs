//! Files that ask to be compacted for reasons other than the size of their level.

use std::sync::Arc;

use firn_format::key::SequenceNumber;

use super::inputs::PickerInput;
use super::settings::PickerOptions;
use crate::version::{FileMetaData, Version};

/// A file with its level.
pub(super) type Marked = (usize, Arc<FileMetaData>);

fn free_files(version: &Version) -> impl Iterator<Item = (usize, &Arc<FileMetaData>)> {
    version.all_files().filter(|(_, file)| !file.being_compacted())
}

/// Files that a collector or a caller marked, except on the last level that has files (level 0 always counts).
pub(super) fn marked_for_compaction(version: &Version) -> Vec<Marked> {
    let last = version.num_non_empty_levels().saturating_sub(1);
    free_files(version)
        .filter(|(level, file)| (*level == 0 || *level < last) && file.is_marked_for_compaction())
        .map(|(level, file)| (level, Arc::clone(file)))
        .collect()
}

/// Files whose oldest data is older than `ttl`, except on the last configured level.
pub(super) fn expired(version: &Version, options: &PickerOptions, now_secs: u64) -> Vec<Marked> {
    let Some(limit) = now_secs.checked_sub(options.ttl).filter(|_| options.ttl > 0) else { return Vec::new() };
    free_files(version)
        .filter(|(level, file)| {
            let time = file.try_oldest_ancester_time();
            *level + 1 < version.num_levels() && time > 0 && time < limit
        })
        .map(|(level, file)| (level, Arc::clone(file)))
        .collect()
}

/// Files that were written longer ago than `periodic_compaction_seconds`.
pub(super) fn periodic(version: &Version, options: &PickerOptions, now_secs: u64) -> Vec<Marked> {
    let seconds = options.periodic_compaction_seconds;
    let Some(limit) = now_secs.checked_sub(seconds).filter(|_| seconds > 0) else { return Vec::new() };
    free_files(version)
        .filter(|(_, file)| {
            let written = match file.try_file_creation_time() {
                0 => file.try_oldest_ancester_time(),
                time => time,
            };
            written > 0 && written < limit
        })
        .map(|(level, file)| (level, Arc::clone(file)))
        .collect()
}

/// Files with nothing below them that hold sequence numbers, or versions, which no snapshot needs.
pub(super) fn bottommost(input: &PickerInput<'_>) -> Vec<Marked> {
    let (version, options) = (input.version, input.options);
    if options.allow_ingest_behind || input.oldest_snapshot == SequenceNumber::ZERO {
        return Vec::new();
    }
    let old_enough = |file: &FileMetaData| {
        options.bottommost_file_compaction_delay == 0
            || file.try_file_creation_time().saturating_add(options.bottommost_file_compaction_delay) <= input.now_secs
    };
    free_files(version)
        .filter(|(_, file)| {
            file.largest_sequence != SequenceNumber::ZERO
                && file.largest_sequence < input.oldest_snapshot
                && old_enough(file)
        })
        .filter(|(level, file)| is_bottommost(version, *level, file))
        .map(|(level, file)| (level, Arc::clone(file)))
        .collect()
}

fn is_bottommost(version: &Version, level: usize, file: &FileMetaData) -> bool {
    let level_0_index = (level == 0).then(|| super::inputs::position(version, 0, file)).flatten();
    !version.range_might_exist_after(file.smallest.user_key(), file.largest.user_key(), level, level_0_index)
}
