//! One immutable state of a column family's files: [`Version`].
//!
//! Built by the [`VersionBuilder`](super::VersionBuilder), published by the [`VersionSet`](super::VersionSet), shared by
//! readers and jobs through an `Arc` and never changed after that (but for the marks in [`FileMetaData`]).
//!
//! Always true here: level 0 is ordered newest first; every deeper level is ordered by smallest key and its files do not
//! overlap; there is one entry per configured level, empty ones included.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use firn_format::comparator::InternalKeyComparator;
use firn_format::key::{FileNumber, InternalKey, SequenceNumber};

use super::search::LevelSearch;
use super::{BlobFileMetaData, FileMetaData, ObsoleteFiles};
use crate::read::tombstone_cover::TombstoneWindow;

/// Running totals over the files ever added to a chain of versions; the average value size comes from them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatTotals {
    /// Bytes of the files.
    pub file_size: u64,
    /// Bytes of their keys before compression.
    pub raw_key_size: u64,
    /// Bytes of their values before compression.
    pub raw_value_size: u64,
    /// Entries that are no deletions.
    pub num_non_deletions: u64,
    /// Deletions.
    pub num_deletions: u64,
    /// Files that were counted.
    pub num_samples: u64,
}

impl StatTotals {
    pub(crate) fn add(&mut self, file_size: u64, stats: &super::FileStats) {
        self.file_size = self.file_size.saturating_add(file_size);
        self.raw_key_size = self.raw_key_size.saturating_add(stats.raw_key_size);
        self.raw_value_size = self.raw_value_size.saturating_add(stats.raw_value_size);
        self.num_non_deletions =
            self.num_non_deletions.saturating_add(stats.num_entries.saturating_sub(stats.num_deletions));
        self.num_deletions = self.num_deletions.saturating_add(stats.num_deletions);
        self.num_samples += 1;
    }

    /// Average bytes of a value as it lies in a file; 0 if nothing is known.
    pub fn average_value_size(&self) -> u64 {
        let raw = u128::from(self.raw_key_size) + u128::from(self.raw_value_size);
        if self.num_non_deletions == 0 || raw == 0 {
            return 0;
        }
        let average = u128::from(self.raw_value_size / self.num_non_deletions) * u128::from(self.file_size) / raw;
        u64::try_from(average).unwrap_or(u64::MAX)
    }

    /// Estimated number of live keys: entries that are no deletions, less one for each deletion.
    pub fn estimated_live_keys(&self) -> u64 {
        self.num_non_deletions.saturating_sub(self.num_deletions)
    }
}

/// What a version is made of; see [`Version`].
pub(crate) struct VersionParts {
    pub(crate) column_family: u32,
    pub(crate) number: u64,
    pub(crate) order: InternalKeyComparator,
    pub(crate) levels: Vec<Vec<Arc<FileMetaData>>>,
    pub(crate) compact_cursors: Vec<Option<InternalKey>>,
    pub(crate) blob_files: BTreeMap<FileNumber, Arc<BlobFileMetaData>>,
    pub(crate) totals: StatTotals,
}

/// An immutable state of a column family's files.
pub struct Version {
    parts: VersionParts,
    searches: Vec<LevelSearch>,
    num_non_empty_levels: usize,
    /// The range tombstones of every sorted run, found when the first iterator asks.
    pub(super) run_tombstones: OnceLock<Vec<Arc<[TombstoneWindow]>>>,
}

impl Version {
    pub(crate) fn new(mut parts: VersionParts) -> Self {
        let searches = parts
            .levels
            .iter()
            .enumerate()
            .map(|(level, files)| match level {
                0 => LevelSearch::unsorted(files, &parts.order),
                _ => LevelSearch::new(files, &parts.order),
            })
            .collect();
        parts.compact_cursors.resize(parts.levels.len(), None);
        let num_non_empty_levels = parts.levels.iter().rposition(|files| !files.is_empty()).map_or(0, |last| last + 1);
        Self { parts, searches, num_non_empty_levels, run_tombstones: OnceLock::new() }
    }

    /// A version without files.
    pub fn empty(column_family: u32, order: InternalKeyComparator, num_levels: usize) -> Self {
        Self::new(VersionParts {
            column_family,
            number: 0,
            order,
            levels: vec![Vec::new(); num_levels.max(1)],
            compact_cursors: Vec::new(),
            blob_files: BTreeMap::new(),
            totals: StatTotals::default(),
        })
    }

    /// Lets the files of this version, now published, become obsolete when the last version that has them goes.
    pub(crate) fn track_files(&self, obsolete: &Arc<ObsoleteFiles>) {
        self.all_files().for_each(|(_, file)| file.handle().track(obsolete));
        self.parts.blob_files.values().for_each(|blob| blob.shared.track(obsolete));
    }

    pub(crate) fn into_parts(self) -> VersionParts {
        self.parts
    }

    /// The id of the column family.
    pub fn column_family(&self) -> u32 {
        self.parts.column_family
    }

    /// A number that later versions exceed.
    pub fn number(&self) -> u64 {
        self.parts.number
    }

    /// The order of internal keys.
    pub fn order(&self) -> &InternalKeyComparator {
        &self.parts.order
    }

    /// How many levels the column family is configured for.
    pub fn num_levels(&self) -> usize {
        self.parts.levels.len()
    }

    /// One past the deepest level that has files; 0 if there is none.
    pub fn num_non_empty_levels(&self) -> usize {
        self.num_non_empty_levels
    }

    /// The files of `level`: newest first on level 0, by key elsewhere. Empty if there is no such level.
    pub fn files(&self, level: usize) -> &[Arc<FileMetaData>] {
        self.parts.levels.get(level).map_or(&[], Vec::as_slice)
    }

    /// All levels with their files.
    pub fn levels(&self) -> &[Vec<Arc<FileMetaData>>] {
        &self.parts.levels
    }

    /// Every file with its level, in order.
    pub fn all_files(&self) -> impl Iterator<Item = (usize, &Arc<FileMetaData>)> {
        self.parts.levels.iter().enumerate().flat_map(|(level, files)| files.iter().map(move |file| (level, file)))
    }

    /// Where the next round-robin compaction of `level` begins.
    pub fn compact_cursor(&self, level: usize) -> Option<&InternalKey> {
        self.parts.compact_cursors.get(level)?.as_ref()
    }

    /// The blob files of the version, by number.
    pub fn blob_files(&self) -> &BTreeMap<FileNumber, Arc<BlobFileMetaData>> {
        &self.parts.blob_files
    }

    /// Totals over the files ever added.
    pub fn totals(&self) -> &StatTotals {
        &self.parts.totals
    }

    /// Bytes of the files of `level`.
    pub fn level_bytes(&self, level: usize) -> u64 {
        self.files(level).iter().map(|file| file.file_size).sum()
    }

    /// Number of files on all levels.
    pub fn num_files(&self) -> usize {
        self.parts.levels.iter().map(Vec::len).sum()
    }

    /// Where the file with this number stands.
    pub fn find_file(&self, number: FileNumber) -> Option<(usize, &Arc<FileMetaData>)> {
        self.all_files().find(|(_, file)| file.number == number)
    }

    /// The greatest sequence number of any file.
    pub fn largest_sequence(&self) -> SequenceNumber {
        self.all_files().map(|(_, file)| file.largest_sequence).max().unwrap_or_default()
    }

    pub(crate) fn search(&self, level: usize) -> Option<&LevelSearch> {
        self.searches.get(level)
    }

    /// Orders two file boundaries by user key; at equal user keys an exclusive boundary sorts first.
    pub fn compare_boundaries(&self, a: &InternalKey, b: &InternalKey) -> Ordering {
        compare_boundaries(&self.parts.order, a, b)
    }

    /// The indexes of the files of a sorted level (≥ 1) that overlap `[begin, end]`; `None` is unbounded.
    pub fn overlapping_range(
        &self,
        level: usize,
        begin: Option<&InternalKey>,
        end: Option<&InternalKey>,
    ) -> Range<usize> {
        debug_assert!(level > 0, "level 0 is not sorted");
        let files = self.files(level);
        let first = begin.map_or(0, |begin| {
            files.partition_point(|file| self.compare_boundaries(&file.largest, begin) == Ordering::Less)
        });
        let behind = end.map_or(files.len(), |end| {
            files.partition_point(|file| self.compare_boundaries(&file.smallest, end) != Ordering::Greater)
        });
        first..behind.max(first)
    }

    /// The files of `level` that overlap `[begin, end]`. On level 0 the range grows to that of every file found, until no
    /// further file overlaps.
    pub fn overlapping_files(
        &self,
        level: usize,
        begin: Option<&InternalKey>,
        end: Option<&InternalKey>,
    ) -> Vec<Arc<FileMetaData>> {
        if level > 0 {
            let range = self.overlapping_range(level, begin, end);
            return self.files(level).get(range).map(<[_]>::to_vec).unwrap_or_default();
        }
        let (mut begin, mut end) = (begin, end);
        let mut chosen = vec![false; self.files(0).len()];
        loop {
            let mut grew = false;
            for (file, chosen) in self.files(0).iter().zip(&mut chosen) {
                let outside = begin
                    .is_some_and(|begin| self.compare_boundaries(&file.largest, begin) == Ordering::Less)
                    || end.is_some_and(|end| self.compare_boundaries(&file.smallest, end) == Ordering::Greater);
                if *chosen || outside {
                    continue;
                }
                *chosen = true;
                grew = true;
                begin = begin.map(|begin| match self.compare_boundaries(&file.smallest, begin) {
                    Ordering::Less => &file.smallest,
                    _ => begin,
                });
                end = end.map(|end| match self.compare_boundaries(&file.largest, end) {
                    Ordering::Greater => &file.largest,
                    _ => end,
                });
            }
            if !grew {
                break;
            }
        }
        self.files(0).iter().zip(chosen).filter(|(_, chosen)| *chosen).map(|(file, _)| Arc::clone(file)).collect()
    }

    /// Whether a file of `level` overlaps the user keys `[begin, end]`; `None` is unbounded.
    pub fn overlaps_user_range(&self, level: usize, begin: Option<&[u8]>, end: Option<&[u8]>) -> bool {
        let order = &self.parts.order;
        let overlaps = |file: &Arc<FileMetaData>| {
            let before_begin = begin.is_some_and(|begin| match order.compare_user(file.largest.user_key(), begin) {
                Ordering::Less => true,
                Ordering::Equal => file.largest.is_range_sentinel(),
                Ordering::Greater => false,
            });
            let after_end =
                end.is_some_and(|end| order.compare_user(file.smallest.user_key(), end) == Ordering::Greater);
            !before_begin && !after_end
        };
        if level == 0 {
            return self.files(0).iter().any(overlaps);
        }
        let begin_key = begin.map(|key| InternalKey::for_seek(key, SequenceNumber::MAX));
        let first = begin_key.map_or(0, |begin| {
            self.files(level).partition_point(|file| self.compare_boundaries(&file.largest, &begin) == Ordering::Less)
        });
        self.files(level).get(first).is_some_and(overlaps)
    }

    /// Whether a key of `[smallest, largest]` may exist on a level deeper than `level` or, for level 0, in a file of level 0
    /// other than the oldest one, which stands at `last_level_0_index`.
    pub fn range_might_exist_after(
        &self,
        smallest_user_key: &[u8],
        largest_user_key: &[u8],
        level: usize,
        last_level_0_index: Option<usize>,
    ) -> bool {
        if level == 0 {
            // Files of level 0 overlap and are never proved disjoint here: only the oldest one has nothing below it.
            let is_oldest = last_level_0_index.is_some_and(|index| index + 1 == self.files(0).len());
            if !is_oldest || self.parts.levels.iter().skip(1).any(|files| !files.is_empty()) {
                return true;
            }
            return false;
        }
        (level + 1..self.num_levels())
            .any(|deeper| self.overlaps_user_range(deeper, Some(smallest_user_key), Some(largest_user_key)))
    }
}

/// Orders two file boundaries by user key; at equal user keys an exclusive boundary sorts first.
pub(crate) fn compare_boundaries(order: &InternalKeyComparator, a: &InternalKey, b: &InternalKey) -> Ordering {
    order.compare_user(a.user_key(), b.user_key()).then_with(|| b.is_range_sentinel().cmp(&a.is_range_sentinel()))
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "version {} of column family {}", self.number(), self.column_family())?;
        for (level, files) in self.parts.levels.iter().enumerate().filter(|(_, files)| !files.is_empty()) {
            writeln!(f, "  L{level}: {files:?}")?;
        }
        Ok(())
    }
}
