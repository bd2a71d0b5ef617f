//! What lies below the output level of a compaction: whether a tombstone may still be needed there.
//!
//! Keys are asked for in ascending order, so that each level keeps its place and a question costs one or two comparisons
//! per level.

use std::cmp::Ordering;
use std::sync::Arc;

use firn_format::comparator::InternalKeyComparator;

use crate::version::{FileMetaData, Version};

/// The files of the levels deeper than the output level.
#[derive(Debug, Default)]
pub(crate) struct DeeperLevels {
    levels: Vec<Walk>,
    /// Without knowledge of the levels nothing can be ruled out.
    known: bool,
}

#[derive(Debug)]
struct Walk {
    files: Vec<Arc<FileMetaData>>,
    at: usize,
}

impl DeeperLevels {
    /// Nothing is known: every key may exist deeper. For flushes, level 0 and styles other than leveled.
    pub(crate) fn unknown() -> Self {
        Self::default()
    }

    /// The levels of `version` deeper than `output_level`, which is at least 1.
    pub(crate) fn below(version: &Version, output_level: usize) -> Self {
        debug_assert!(output_level > 0);
        let files = version.levels().iter().skip(output_level + 1).filter(|files| !files.is_empty());
        Self { levels: files.map(|files| Walk { files: files.clone(), at: 0 }).collect(), known: true }
    }

    /// Whether no deeper file has a range that contains `user_key`. Keys ascend from call to call.
    pub(crate) fn excludes_key(&mut self, user_key: &[u8], order: &InternalKeyComparator) -> bool {
        self.known
            && self.levels.iter_mut().all(|level| match level.first_not_before(user_key, order) {
                Some(file) => order.compare_user(user_key, file.smallest.user_key()) == Ordering::Less,
                None => true,
            })
    }

    /// Whether no deeper file overlaps `[start, end)`. Independent of the other questions.
    pub(crate) fn excludes_range(&self, start: &[u8], end: &[u8], order: &InternalKeyComparator) -> bool {
        self.known
            && self.levels.iter().all(|level| {
                let at = level.files.partition_point(|file| ends_before(file, start, order));
                level.files.get(at).is_none_or(|file| order.compare_user(end, file.smallest.user_key()).is_le())
            })
    }
}

/// Whether all of `file` is left of `user_key`.
fn ends_before(file: &FileMetaData, user_key: &[u8], order: &InternalKeyComparator) -> bool {
    match order.compare_user(file.largest.user_key(), user_key) {
        Ordering::Less => true,
        Ordering::Equal => file.largest.is_range_sentinel(),
        Ordering::Greater => false,
    }
}

impl Walk {
    fn first_not_before(&mut self, user_key: &[u8], order: &InternalKeyComparator) -> Option<&Arc<FileMetaData>> {
        while self.files.get(self.at).is_some_and(|file| ends_before(file, user_key, order)) {
            self.at += 1;
        }
        self.files.get(self.at)
    }
}
