//! Scans: the seekable [`Cursor`] and the double-ended [`RangeIterator`].
//!
//! A cursor merges the memtables and sorted runs of one super version as of one sequence number. Always true here: the
//! super version is taken before the sequence is chosen; what a cursor shows does not change under it, except that a
//! tailing cursor looks anew at every seek.

use std::ops::{Bound, RangeBounds};
use std::sync::{Arc, Weak};

use firn_error::{Error, Result};
use firn_format::comparator::ComparatorKind;
use firn_format::iterator::InternalIterator;
use firn_format::key::{InternalKey, SequenceNumber, extract_user_key};
use firn_format::slice_transform::SliceTransform;
use firn_table::{PinnedSlice, ValueRef};

use super::DbInner;
use super::column_family::ColumnFamilyData;
use super::files::PurgeAtEnd;
use super::read::table_read_options;
use super::snapshot::Snapshot;
use super::super_version::SuperVersion;
use crate::memtable::{MemTable, MemTableIterator};
use crate::options::{ReadOptions, ReadTier};
use crate::read::merging_iterator::MergingIterator;
use crate::read::tombstone_cover::TombstoneSource;
use crate::read::{DbIterator, DbIteratorConfig};
use crate::stats::{HistogramKind, Statistics, StopWatch, Ticker};
use crate::version::{RunIterator, TableSource};

/// A source of a scan.
#[expect(clippy::large_enum_variant, reason = "few exist, and a box would cost an indirection per step")]
enum Source {
    Memory(MemTableIterator),
    Run(RunIterator),
}

macro_rules! each {
    ($self:expr, $iterator:ident => $call:expr) => {
        match $self {
            Source::Memory($iterator) => $call,
            Source::Run($iterator) => $call,
        }
    };
}

impl Source {
    fn value_ref(&self) -> ValueRef<'_> {
        each!(self, iterator => iterator.value_ref())
    }
}

impl InternalIterator for Source {
    #[inline]
    fn valid(&self) -> bool {
        each!(self, iterator => iterator.valid())
    }
    fn seek_to_first(&mut self) {
        each!(self, iterator => iterator.seek_to_first());
    }
    fn seek_to_last(&mut self) {
        each!(self, iterator => iterator.seek_to_last());
    }
    fn seek(&mut self, target: &[u8]) {
        each!(self, iterator => iterator.seek(target));
    }
    fn seek_for_prev(&mut self, target: &[u8]) {
        each!(self, iterator => iterator.seek_for_prev(target));
    }
    fn reseek(&mut self, target: &[u8]) {
        each!(self, iterator => iterator.reseek(target));
    }
    fn reseek_for_prev(&mut self, target: &[u8]) {
        each!(self, iterator => iterator.reseek_for_prev(target));
    }
    #[inline]
    fn next(&mut self) {
        each!(self, iterator => iterator.next());
    }
    #[inline]
    fn prev(&mut self) {
        each!(self, iterator => iterator.prev());
    }
    #[inline]
    fn key(&self) -> &[u8] {
        each!(self, iterator => iterator.key())
    }
    #[inline]
    fn value(&self) -> &[u8] {
        each!(self, iterator => iterator.value())
    }
    fn status(&self) -> Result<()> {
        each!(self, iterator => iterator.status())
    }
}

fn is_same(a: &Option<Arc<dyn SliceTransform>>, b: &Option<Arc<dyn SliceTransform>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a.id() == b.id(),
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// Whether seeks may leave out keys whose prefix is not that of the key they seek.
fn by_prefix(options: &ReadOptions) -> bool {
    !options.total_order_seek && !options.auto_prefix_mode
}

type Merged = MergingIterator<Source>;

/// Which keys a scan shows.
#[derive(Clone)]
struct KeyBounds {
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
}

impl KeyBounds {
    fn of_options(options: &ReadOptions) -> Self {
        Self {
            lower: options.iterate_lower_bound.clone().map_or(Bound::Unbounded, Bound::Included),
            upper: options.iterate_upper_bound.clone().map_or(Bound::Unbounded, Bound::Excluded),
        }
    }
}

/// What scans of one moment share.
#[derive(Clone)]
struct View {
    super_version: Arc<SuperVersion>,
    sequence: SequenceNumber,
}

impl DbInner {
    fn view(&self, options: &ReadOptions, data: &ColumnFamilyData) -> View {
        let super_version = data.super_version.current();
        let sequence = if options.tailing { SequenceNumber::MAX } else { self.read_sequence(options) };
        View { super_version, sequence }
    }

    fn merged(&self, options: &ReadOptions, data: &ColumnFamilyData, view: &View) -> Result<Merged> {
        let super_version = &view.super_version;
        let mut sources = Vec::new();
        let prefixes_now = &super_version.options.prefix_extractor;
        let prefixes = prefixes_now.as_ref().filter(|_| by_prefix(options));
        let memory = |memtable: &Arc<MemTable>| {
            let tombstones = (memtable.has_range_deletions() && !options.ignore_range_deletions)
                .then(|| TombstoneSource::of_memtable(memtable.range_tombstones()))
                .flatten();
            let iterator = match prefixes {
                Some(extractor) => memtable.prefix_iter(&**extractor),
                None => memtable.iter(),
            };
            (Source::Memory(iterator), tombstones)
        };
        sources.push(memory(&super_version.mem));
        sources.extend(super_version.imm.iter().map(memory));
        if options.read_tier != ReadTier::Memtable {
            let tables: Arc<dyn TableSource> = Arc::clone(data.tables()) as _;
            let mut read = table_read_options(self, options);
            // Tables were opened with the extractor of that time. One that the options got later asks for other prefixes.
            read.skip_filters = !is_same(&data.tables().options().reader.prefix_extractor, prefixes_now);
            for run in super_version.version.sorted_runs(&tables, &read)? {
                let tombstones =
                    if options.ignore_range_deletions { None } else { TombstoneSource::of_run(&run.tombstones) };
                sources.push((Source::Run(run.iterator), tombstones));
            }
        }
        Ok(MergingIterator::with_tombstones(data.comparator.clone(), sources, view.sequence))
    }

    /// Every stored version of the keys in `[from, to)`; see
    /// [`Db::for_each_internal_entry`](crate::Db::for_each_internal_entry).
    ///
    /// # Errors
    /// Those of opening and reading tables.
    pub(crate) fn for_each_internal_entry(
        &self,
        data: &Arc<ColumnFamilyData>,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        self.check_owner(data)?;
        self.check_open()?;
        let options = ReadOptions { total_order_seek: true, ..ReadOptions::default() };
        let view = self.view(&options, data);
        let mut merged = self.merged(&options, data, &view)?;
        match from {
            Some(key) => merged.seek(InternalKey::for_seek(key, SequenceNumber::MAX).encoded()),
            None => merged.seek_to_first(),
        }
        let order = data.comparator.user_comparator();
        while merged.valid() {
            let past_end = to.is_some_and(|to| order.compare(extract_user_key(merged.key()), to).is_ge());
            if past_end || !visit(merged.key(), merged.value()) {
                return Ok(());
            }
            merged.next();
        }
        merged.status()
    }

    /// A cursor; see [`Db::cursor`](crate::Db::cursor).
    ///
    /// # Errors
    /// `NotSupported` or `InvalidArgument` for options that do not fit; those of opening tables.
    pub(crate) fn cursor(self: &Arc<Self>, mut options: ReadOptions, data: &Arc<ColumnFamilyData>) -> Result<Cursor> {
        self.check_owner(data)?;
        self.check_open()?;
        self.check_snapshot(&options)?;
        if options.read_tier == ReadTier::Persisted {
            return Err(Error::not_supported("ReadTier::kPersistedData is not yet supported in iterators."));
        }
        if options.timestamp.is_some() || options.iter_start_ts.is_some() {
            return Err(Error::invalid_argument("the column family has no user-defined timestamps"));
        }
        if self.options().prefix_seek_opt_in_only && !options.prefix_same_as_start && !options.auto_prefix_mode {
            options.total_order_seek = true;
        }
        let view = self.view(&options, data);
        let bounds = KeyBounds::of_options(&options);
        self.cursor_at(options, bounds, data, view)
    }

    fn cursor_at(
        self: &Arc<Self>,
        options: ReadOptions,
        bounds: KeyBounds,
        data: &Arc<ColumnFamilyData>,
        view: View,
    ) -> Result<Cursor> {
        // Before the children are made: what comes between counts as not seen.
        let tombstones_in_memory = view.super_version.mem.range_deletion_count();
        let merged = self.merged(&options, data, &view)?;
        let cf = &view.super_version.options;
        let config = DbIteratorConfig {
            merge_operator: cf.merge_operator.clone(),
            lower_bound: bounds.lower,
            upper_bound: bounds.upper,
            prefix_extractor: cf.prefix_extractor.clone(),
            prefix_same_as_start: options.prefix_same_as_start,
            seeks_by_prefix: by_prefix(&options) && !options.prefix_same_as_start,
            max_sequential_skip: cf.max_sequential_skip_in_iterations,
            max_skippable_internal_keys: options.max_skippable_internal_keys,
            statistics: self.statistics.clone(),
            ..DbIteratorConfig::new(data.comparator.clone(), view.sequence)
        };
        Ok(Cursor {
            iterator: DbIterator::new(merged, config),
            error: None,
            options,
            data: Arc::clone(data),
            super_version_number: view.super_version.number,
            tombstones_in_memory,
            super_version: view.super_version,
            counts: self.statistics.clone().map(CursorCounts::new),
            db: Arc::clone(self),
            _purge: PurgeAtEnd(Weak::clone(&self.this)),
        })
    }
}

/// A seekable cursor over the live keys of a column family, as of the moment it was made (or of the snapshot in its
/// options). It starts unpositioned.
///
/// `key` and `value` borrow from where the entry lies, until the next move. Errors end a scan: [`valid`](Self::valid)
/// turns false and [`status`](Self::status) tells; check it when a scan ends. May be sent to another thread, not shared.
/// A cursor keeps memtables and files in use alive: do not hold one longer than needed.
pub struct Cursor {
    iterator: DbIterator<Merged>,
    /// An error of the cursor itself, not of its iterator.
    error: Option<Error>,
    options: ReadOptions,
    data: Arc<ColumnFamilyData>,
    super_version: Arc<SuperVersion>,
    super_version_number: u64,
    /// How many range deletions the memtable had; only tailing cursors ask.
    tombstones_in_memory: u64,
    /// What the cursor did, where there are statistics.
    counts: Option<CursorCounts>,
    db: Arc<DbInner>,
    // The iterator holds blocks and files, the super version those of its version, `data` those of a dropped family.
    _purge: PurgeAtEnd,
}

/// What a cursor did; goes into the statistics when the cursor ends.
struct CursorCounts {
    statistics: Arc<Statistics>,
    next: u64,
    next_found: u64,
    prev: u64,
    prev_found: u64,
    bytes_read: u64,
    skipped: u64,
}

impl CursorCounts {
    fn new(statistics: Arc<Statistics>) -> Self {
        statistics.record_tick(Ticker::NumIteratorCreated, 1);
        Self { statistics, next: 0, next_found: 0, prev: 0, prev_found: 0, bytes_read: 0, skipped: 0 }
    }

    fn read(&mut self, entry: &DbIterator<Merged>) {
        self.bytes_read += (entry.key().len() + entry.value().len()) as u64;
    }

    fn sought(&mut self, iterator: &DbIterator<Merged>) {
        self.statistics.record_tick(Ticker::NumberDbSeek, 1);
        if iterator.valid() {
            self.statistics.record_tick(Ticker::NumberDbSeekFound, 1);
            self.read(iterator);
        }
    }
}

impl Drop for CursorCounts {
    fn drop(&mut self) {
        for (ticker, count) in [
            (Ticker::NumberDbNext, self.next),
            (Ticker::NumberDbNextFound, self.next_found),
            (Ticker::NumberDbPrev, self.prev),
            (Ticker::NumberDbPrevFound, self.prev_found),
            (Ticker::DbIterBytesRead, self.bytes_read),
            (Ticker::NumberIterSkip, self.skipped),
            (Ticker::NumIteratorDeleted, 1),
        ] {
            self.statistics.record_tick(ticker, count);
        }
    }
}

impl Cursor {
    /// Whether the cursor stands on an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.error.is_none() && self.iterator.valid()
    }

    /// The error that ended the scan, if one did.
    ///
    /// # Errors
    /// That error.
    pub fn status(&self) -> Result<()> {
        match &self.error {
            Some(error) => Err(error.clone()),
            None => self.iterator.status(),
        }
    }

    /// The key; empty when not valid.
    #[inline]
    pub fn key(&self) -> &[u8] {
        if self.iterator.valid() { self.iterator.key() } else { &[] }
    }

    /// The value; empty when not valid.
    #[inline]
    pub fn value(&self) -> &[u8] {
        if self.iterator.valid() { self.iterator.value() } else { &[] }
    }

    /// The value, to be kept beyond the next move and beyond the cursor: without a copy where it lies in a block or a
    /// memtable, which it then keeps in memory. Values that were merged, and those shown on the way backward, are copied.
    /// Empty when not valid.
    pub fn pinned_value(&self) -> PinnedSlice {
        match self.pinnable_value() {
            Some(value) => value.pin(),
            None => PinnedSlice::from(self.value()),
        }
    }

    /// The value where it lies, if that can be kept alive.
    fn pinnable_value(&self) -> Option<ValueRef<'_>> {
        let source = Some(&self.iterator).filter(|_| self.valid())?.shown_by_inner()?.current()?;
        // A timed put carries its time behind the value.
        Some(source.value_ref().truncated(self.value().len())).filter(ValueRef::is_pinnable)
    }

    /// Moves to the first key (at or after the lower bound).
    pub fn seek_to_first(&mut self) {
        self.positioned(DbIterator::seek_to_first);
    }

    /// Moves to the last key (before the upper bound).
    pub fn seek_to_last(&mut self) {
        if self.refuses_backward("ForwardIterator::SeekToLast()") {
            return;
        }
        self.positioned(DbIterator::seek_to_last);
    }

    /// Moves to the first key at or after `key`.
    #[inline]
    pub fn seek(&mut self, key: impl AsRef<[u8]>) {
        self.positioned(|iterator| iterator.seek(key.as_ref()));
    }

    /// Moves to the last key at or before `key`.
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) {
        if self.refuses_backward("ForwardIterator::SeekForPrev()") {
            return;
        }
        self.positioned(|iterator| iterator.seek_for_prev(key.as_ref()));
    }

    /// Moves to the next key; does nothing when not valid.
    #[inline]
    pub fn next(&mut self) {
        if self.iterator.valid() {
            self.iterator.next();
            if let Some(counts) = &mut self.counts {
                counts.next += 1;
                if self.iterator.valid() {
                    counts.next_found += 1;
                    counts.read(&self.iterator);
                }
            }
        }
    }

    /// Moves to the previous key; does nothing when not valid.
    #[inline]
    pub fn prev(&mut self) {
        if self.refuses_backward("ForwardIterator::Prev") {
            return;
        }
        if self.iterator.valid() {
            self.iterator.prev();
            if let Some(counts) = &mut self.counts {
                counts.prev += 1;
                if self.iterator.valid() {
                    counts.prev_found += 1;
                    counts.read(&self.iterator);
                }
            }
        }
    }

    /// Looks at what is visible now, also where the cursor looked at a snapshot before; the cursor becomes unpositioned.
    ///
    /// # Errors
    /// `NotSupported` for tailing cursors, which do so at every seek, and for databases opened for reading only.
    pub fn refresh(&mut self) -> Result<()> {
        self.refresh_to(None)
    }

    /// Looks at what `snapshot` sees; the cursor becomes unpositioned.
    ///
    /// # Errors
    /// As [`refresh`](Self::refresh).
    pub fn refresh_at(&mut self, snapshot: &Snapshot) -> Result<()> {
        self.refresh_to(Some(snapshot.clone()))
    }

    fn refresh_to(&mut self, snapshot: Option<Snapshot>) -> Result<()> {
        if self.options.tailing || self.db.read_only {
            return Err(Error::not_supported("Refresh() is not supported"));
        }
        *self = self.db.cursor(ReadOptions { snapshot, ..self.options.clone() }, &self.data)?;
        Ok(())
    }

    /// A property of the cursor: `rocksdb.iterator.super-version-number`, `rocksdb.iterator.is-key-pinned`,
    /// `rocksdb.iterator.is-value-pinned` or `rocksdb.iterator.internal-key`.
    ///
    /// # Errors
    /// `InvalidArgument` for others.
    pub fn property(&self, name: &str) -> Result<Vec<u8>> {
        match name {
            "rocksdb.iterator.super-version-number" => Ok(self.super_version_number.to_string().into_bytes()),
            // Keys are put together from their prefixes and lie nowhere.
            "rocksdb.iterator.is-key-pinned" => Ok(b"0".to_vec()),
            "rocksdb.iterator.is-value-pinned" => {
                let pinned = self.options.pin_data && self.pinnable_value().is_some();
                Ok(if pinned { b"1".to_vec() } else { b"0".to_vec() })
            }
            // After "Too many internal keys skipped" it tells from where to go on.
            "rocksdb.iterator.internal-key" => Ok(self.iterator.position().to_vec()),
            _ => Err(Error::invalid_argument("Unidentified property.")),
        }
    }

    fn renew(&mut self) -> Result<()> {
        let fresh = self.db.cursor(self.options.clone(), &self.data)?;
        *self = fresh;
        Ok(())
    }

    #[inline]
    fn positioned(&mut self, seek: impl FnOnce(&mut DbIterator<Merged>)) {
        self.error = None;
        if self.options.tailing
            && self.is_outdated()
            && let Err(error) = self.renew()
        {
            self.error = Some(error);
            return;
        }
        let _watch = StopWatch::start(self.db.statistics.as_ref(), &**self.db.env.clock(), HistogramKind::DbSeekMicros);
        seek(&mut self.iterator);
        if let Some(counts) = &mut self.counts {
            counts.sought(&self.iterator);
        }
    }

    /// Whether there is something that the inner iterators of a tailing cursor do not see: they walk through entries that are
    /// added to the memtable, but its range deletions are those of the moment when they were made.
    fn is_outdated(&self) -> bool {
        self.data.super_version.number() != self.super_version_number
            || self.tombstones_in_memory != self.super_version.mem.range_deletion_count()
    }

    /// A tailing cursor only goes forward.
    fn refuses_backward(&mut self, what: &str) -> bool {
        if self.options.tailing {
            self.error = Some(Error::not_supported(what));
        }
        self.options.tailing
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        if let Some(counts) = &mut self.counts {
            counts.skipped = self.iterator.take_counters().skipped;
        }
    }
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor")
            .field("valid", &self.valid())
            .field("key", &self.key().escape_ascii().to_string())
            .finish()
    }
}

/// One end of a [`RangeIterator`].
enum End {
    /// Not asked for yet.
    Unopened,
    Open(Box<Cursor>),
    Finished,
}

/// The entries of a range, from both ends, as owned pairs; see [`Db::range`](crate::Db::range).
///
/// Both ends look at the same moment. After an error the iterator ends.
pub struct RangeIterator {
    db: Arc<DbInner>,
    data: Arc<ColumnFamilyData>,
    options: ReadOptions,
    bounds: KeyBounds,
    /// Only keys that start with this are given out, where bounds cannot tell.
    prefix: Option<Vec<u8>>,
    view: View,
    front: End,
    back: End,
    /// The last key given out at each end; the other end stops before it.
    front_key: Option<Vec<u8>>,
    back_key: Option<Vec<u8>>,
    _purge: PurgeAtEnd,
}

/// A key and its value, owned.
pub type Entry = (Vec<u8>, Vec<u8>);

impl RangeIterator {
    pub(crate) fn new<K: AsRef<[u8]>, R: RangeBounds<K>>(
        db: &Arc<DbInner>,
        mut options: ReadOptions,
        data: &Arc<ColumnFamilyData>,
        range: R,
    ) -> Self {
        let owned = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
        let mut bounds = KeyBounds::of_options(&options);
        match owned(range.start_bound()) {
            Bound::Unbounded => {}
            bound => bounds.lower = bound,
        }
        match owned(range.end_bound()) {
            Bound::Unbounded => {}
            bound => bounds.upper = bound,
        }
        // Prefix filters are told where the scan ends, if it ends before a key.
        options.iterate_upper_bound = match &bounds.upper {
            Bound::Excluded(key) => Some(key.clone()),
            Bound::Included(_) | Bound::Unbounded => None,
        };
        // A range means all its keys, whatever prefix they have: filters are asked where they cannot change what is shown.
        options.auto_prefix_mode |= options.prefix_same_as_start && !options.total_order_seek;
        options.prefix_same_as_start = false;
        options.total_order_seek |= !options.auto_prefix_mode;
        let view = db.view(&options, data);
        Self {
            db: Arc::clone(db),
            data: Arc::clone(data),
            options,
            bounds,
            prefix: None,
            view,
            front: End::Unopened,
            back: End::Unopened,
            front_key: None,
            back_key: None,
            _purge: PurgeAtEnd(Weak::clone(&db.this)),
        }
    }

    pub(crate) fn with_prefix(
        db: &Arc<DbInner>,
        mut options: ReadOptions,
        data: &Arc<ColumnFamilyData>,
        prefix: &[u8],
    ) -> Self {
        // The first key behind the prefix, in bytewise order: its last byte that is not 0xff, one up. All 0xff: there is
        // none.
        let last = prefix.iter().rposition(|byte| *byte != 0xff);
        let behind = last.and_then(|last| {
            let mut end = prefix.get(..=last)?.to_vec();
            *end.last_mut()? += 1;
            Some(end)
        });
        let first = Bound::Included(prefix.to_vec());
        let behind = behind.map_or(Bound::Unbounded, Bound::Excluded);
        let range = match data.comparator.kind() {
            ComparatorKind::Bytewise => (first, behind),
            ComparatorKind::ReverseBytewise => (behind, first),
            ComparatorKind::Custom => {
                let everything = Self::new::<Vec<u8>, _>(db, options, data, ..);
                return Self { prefix: Some(prefix.to_vec()), ..everything };
            }
        };
        (options.iterate_lower_bound, options.iterate_upper_bound) = (None, None);
        Self::new(db, options, data, range)
    }

    /// Opens an end, also when the database was closed meanwhile: the view keeps what it shows.
    fn open(&self) -> Result<Cursor> {
        self.db.check_owner(&self.data)?;
        self.db.check_snapshot(&self.options)?;
        self.db.cursor_at(self.options.clone(), self.bounds.clone(), &self.data, self.view.clone())
    }

    fn step(&mut self, forward: bool) -> Option<Result<Entry>> {
        loop {
            let entry = self.step_in_bounds(forward)?;
            match (&entry, &self.prefix) {
                (Ok((key, _)), Some(prefix)) if !key.starts_with(prefix) => {}
                _ => return Some(entry),
            }
        }
    }

    fn step_in_bounds(&mut self, forward: bool) -> Option<Result<Entry>> {
        let end = std::mem::replace(if forward { &mut self.front } else { &mut self.back }, End::Finished);
        let cursor = match end {
            End::Finished => return None,
            End::Open(mut cursor) => {
                if forward {
                    cursor.next()
                } else {
                    cursor.prev()
                };
                cursor
            }
            End::Unopened => match self.open() {
                Ok(cursor) => {
                    let mut cursor = Box::new(cursor);
                    if forward {
                        cursor.seek_to_first()
                    } else {
                        cursor.seek_to_last()
                    };
                    cursor
                }
                Err(error) => return Some(Err(error)),
            },
        };
        if !cursor.valid() {
            return cursor.status().err().map(Err);
        }
        let other = if forward { &self.back_key } else { &self.front_key };
        let order = &self.data.comparator;
        let met = other.as_ref().is_some_and(|other| {
            let order = order.compare_user(cursor.key(), other);
            if forward { order.is_ge() } else { order.is_le() }
        });
        if met {
            return None;
        }
        let entry = (cursor.key().to_vec(), cursor.value().to_vec());
        let (end, key) =
            if forward { (&mut self.front, &mut self.front_key) } else { (&mut self.back, &mut self.back_key) };
        *key = Some(entry.0.clone());
        *end = End::Open(cursor);
        Some(Ok(entry))
    }
}

impl Iterator for RangeIterator {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(true)
    }
}

impl DoubleEndedIterator for RangeIterator {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(false)
    }
}
