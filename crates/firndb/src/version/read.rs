//! Looking into the files of a version: point lookups, iterators over its sorted runs, size estimates.

use std::cmp::Ordering;
use std::sync::Arc;

use firn_error::{Error, Result};
use firn_format::key::{InternalKey, SequenceNumber, extract_footer};
use firn_table::{GetSink, TableReadOptions};

use super::level_iterator::{LevelIterator, RunIterator};
use super::search::Place;
use super::{FileMetaData, OpenPolicy, TableRef, TableSource, Version};
use crate::read::GetContext;
use crate::read::tombstone_cover::TombstoneWindow;

/// What a lookup in a version feeds: entries, range tombstones, and the question whether the search may end.
pub trait LookupSink: GetSink {
    /// The user key looked up.
    fn user_key(&self) -> &[u8];
    /// Tells of a visible range tombstone over the key; zero means none.
    fn cover(&mut self, sequence: SequenceNumber);
    /// Whether nothing older changes the answer.
    fn is_done(&self) -> bool;
    /// Takes the error that ends the lookup.
    fn fail(&mut self, error: Error);
    /// Whether an error ended the lookup.
    fn is_failed(&self) -> bool;
}

impl LookupSink for GetContext<'_> {
    #[inline]
    fn user_key(&self) -> &[u8] {
        GetContext::user_key(self)
    }
    #[inline]
    fn cover(&mut self, sequence: SequenceNumber) {
        GetContext::cover(self, sequence);
    }
    #[inline]
    fn is_done(&self) -> bool {
        GetContext::is_done(self)
    }
    fn fail(&mut self, error: Error) {
        GetContext::fail(self, error);
    }
    fn is_failed(&self) -> bool {
        GetContext::is_failed(self)
    }
}

/// A file of level 0 or a deeper level, to be merged with others.
pub struct SortedRun {
    /// The points of the run.
    pub iterator: RunIterator,
    /// The range tombstones of the run, file by file, each to count within the boundaries of its file; for
    /// [`TombstoneSource::of_run`](crate::read::tombstone_cover::TombstoneSource::of_run). Usually empty.
    pub tombstones: Arc<[TombstoneWindow]>,
    /// The level.
    pub level: usize,
}

pub(super) fn open_policy(options: &TableReadOptions) -> OpenPolicy {
    if options.cache_only { OpenPolicy::MemoryOnly } else { OpenPolicy::MayOpen }
}

impl Version {
    /// Looks for the key of `lookup`, an internal key for seeking at the reader's snapshot: level 0 from the newest file to
    /// the oldest, then level by level, until `sink` is done. Returns the level of the file that ended the search; none if
    /// all were asked.
    ///
    /// # Errors
    /// Those of reading tables.
    pub fn get<S: LookupSink>(
        &self,
        tables: &dyn TableSource,
        options: &TableReadOptions,
        lookup: &[u8],
        sink: &mut S,
    ) -> Result<Option<usize>> {
        let order = self.order();
        for level in 0..self.num_non_empty_levels() {
            let (files, Some(search)) = (self.files(level), self.search(level)) else { continue };
            if files.is_empty() {
                continue;
            }
            let place = search.place(sink.user_key());
            if level == 0 {
                for (index, file) in files.iter().enumerate() {
                    if search.may_contain(files, index, sink.user_key(), place, order)
                        && self.get_from_file(file, tables, options, lookup, sink)?
                    {
                        return Ok(Some(level));
                    }
                }
                continue;
            }
            let mut index = search.first_not_before(files, lookup, place, order);
            // The next file may go on with the same user key.
            while let Some(file) = self.candidate(level, index, sink.user_key(), place) {
                if self.get_from_file(file, tables, options, lookup, sink)? {
                    return Ok(Some(level));
                }
                index += 1;
            }
        }
        Ok(None)
    }

    #[inline]
    pub(super) fn candidate(
        &self,
        level: usize,
        index: usize,
        user_key: &[u8],
        place: Place,
    ) -> Option<&Arc<FileMetaData>> {
        let (files, search) = (self.files(level), self.search(level)?);
        files.get(index).filter(|_| !search.is_before_file(files, index, user_key, place, self.order()))
    }

    /// Asks one file; `true` if the search is over.
    #[inline]
    pub(super) fn get_from_file<S: LookupSink>(
        &self,
        file: &FileMetaData,
        tables: &dyn TableSource,
        options: &TableReadOptions,
        lookup: &[u8],
        sink: &mut S,
    ) -> Result<bool> {
        // The pinned table is looked at here, since a call through the trait object would not be inlined.
        let table = match file.handle().pinned_table() {
            Some(table) => TableRef::Pinned(table),
            None => tables.table(file, open_policy(options))?,
        };
        if let Some(tombstones) = &table.tombstones {
            let snapshot = SequenceNumber(extract_footer(lookup) >> 8);
            sink.cover(tombstones.max_covering_sequence(sink.user_key(), snapshot, self.order()));
        }
        table.reader.get(options, lookup, sink)?;
        Ok(sink.is_done())
    }

    /// Iterators over all sorted runs, from the newest to the oldest: each file of level 0, then each deeper level that has
    /// files.
    ///
    /// # Errors
    /// Those of opening tables.
    pub fn sorted_runs(
        self: &Arc<Self>,
        tables: &Arc<dyn TableSource>,
        options: &TableReadOptions,
    ) -> Result<Vec<SortedRun>> {
        let mut tombstones = self.run_tombstones(&**tables, options)?.iter().cloned();
        let mut runs = Vec::with_capacity(self.files(0).len() + self.num_non_empty_levels());
        for file in self.files(0) {
            let table = tables.table(file, open_policy(options))?;
            runs.push(SortedRun {
                iterator: RunIterator::Table(table.reader.iter(options)),
                tombstones: tombstones.next().unwrap_or_default(),
                level: 0,
            });
        }
        for level in 1..self.num_non_empty_levels() {
            let tombstones = tombstones.next().unwrap_or_default();
            if !self.files(level).is_empty() {
                let iterator = LevelIterator::of_version(Arc::clone(self), level, Arc::clone(tables), options.clone());
                runs.push(SortedRun { iterator: RunIterator::Level(iterator), tombstones, level });
            }
        }
        Ok(runs)
    }

    /// The range tombstones of every file of level 0 and of every deeper level, in the order of the sorted runs (levels
    /// without files included). Found once per version.
    fn run_tombstones(
        &self,
        tables: &dyn TableSource,
        options: &TableReadOptions,
    ) -> Result<&[Arc<[TombstoneWindow]>]> {
        if let Some(found) = self.run_tombstones.get() {
            return Ok(found);
        }
        let mut found = Vec::new();
        for file in self.files(0) {
            found.push(self.tombstones_of(std::slice::from_ref(file), tables, options)?);
        }
        for level in 1..self.num_non_empty_levels() {
            found.push(self.tombstones_of(self.files(level), tables, options)?);
        }
        Ok(self.run_tombstones.get_or_init(|| found))
    }

    fn tombstones_of(
        &self,
        files: &[Arc<FileMetaData>],
        tables: &dyn TableSource,
        options: &TableReadOptions,
    ) -> Result<Arc<[TombstoneWindow]>> {
        let mut windows = Vec::new();
        for file in files {
            // What is known of a file spares opening it.
            if file.stats().is_some_and(|stats| stats.num_range_deletions == 0) {
                continue;
            }
            let table = tables.table(file, open_policy(options))?;
            if let Some(tombstones) = &table.tombstones {
                windows.push(TombstoneWindow::of_table(tombstones, &file.smallest, &file.largest));
            }
        }
        Ok(windows.into())
    }

    /// Estimated bytes of the files of levels `first_level..` that hold keys in `[begin, end)`.
    ///
    /// # Errors
    /// Those of opening tables.
    pub fn approximate_size(
        &self,
        tables: &dyn TableSource,
        begin: &InternalKey,
        end: &InternalKey,
        first_level: usize,
    ) -> Result<u64> {
        let order = self.order();
        let mut bytes = 0u64;
        if order.compare(begin.encoded(), end.encoded()) != Ordering::Less {
            return Ok(0);
        }
        for level in first_level..self.num_non_empty_levels() {
            let files = match level {
                0 => self.files(0),
                _ => self.files(level).get(self.overlapping_range(level, Some(begin), Some(end))).unwrap_or_default(),
            };
            for file in files {
                let begins_before = order.compare(file.smallest.encoded(), begin.encoded()) == Ordering::Less;
                let ends_after = order.compare(file.largest.encoded(), end.encoded()) != Ordering::Less;
                let outside = order.compare(file.largest.encoded(), begin.encoded()) == Ordering::Less
                    || order.compare(file.smallest.encoded(), end.encoded()) != Ordering::Less;
                let part = if outside {
                    0
                } else if begins_before || ends_after {
                    let table = tables.table(file, OpenPolicy::MayOpen)?;
                    table.reader.approximate_size(begin.encoded(), end.encoded()).min(file.file_size)
                } else {
                    file.file_size
                };
                bytes = bytes.saturating_add(part);
            }
        }
        Ok(bytes)
    }

    /// Opens all tables, so that damage is found and lookups need not open anything.
    ///
    /// # Errors
    /// The first error of opening a table.
    pub fn open_all(&self, tables: &dyn TableSource) -> Result<()> {
        self.all_files().try_for_each(|(_, file)| tables.table(file, OpenPolicy::MayOpen).map(drop)).map_err(
            |error: Error| if error.is_path_not_found() { Error::corruption(error.to_string()) } else { error },
        )
    }
}
