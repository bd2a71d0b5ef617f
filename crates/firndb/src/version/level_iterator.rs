//! One cursor over the files of a sorted level: [`LevelIterator`], and [`RunIterator`] over any sorted run.
//!
//! Tables are opened when the cursor comes to them. Files do not overlap, so at any time one table cursor is enough;
//! versions of one user key may go on from one file to the next. That keys go on in order from file to file is checked when
//! the cursor changes files.

use std::cmp::Ordering;
use std::sync::Arc;

use firn_error::{Error, Result};
use firn_format::comparator::InternalKeyComparator;
use firn_format::iterator::InternalIterator;
use firn_format::key::extract_user_key;
use firn_table::{TableIterator, TableReadOptions, ValueRef};

use super::read::open_policy;
use super::search::LevelSearch;
use super::{FileMetaData, TableSource, Version};

/// The files that a [`LevelIterator`] goes over.
enum Files {
    Level { version: Arc<Version>, level: usize },
    List { files: Vec<Arc<FileMetaData>>, search: LevelSearch },
}

impl Files {
    fn get(&self) -> &[Arc<FileMetaData>] {
        match self {
            Self::Level { version, level } => version.files(*level),
            Self::List { files, .. } => files,
        }
    }

    fn first_not_before(&self, target: &[u8], order: &InternalKeyComparator) -> usize {
        let (files, search) = match self {
            Self::Level { version, level } => match version.search(*level) {
                Some(search) => (version.files(*level), search),
                None => return 0,
            },
            Self::List { files, search } => (files.as_slice(), search),
        };
        search.first_not_before(files, target, search.place(extract_user_key(target)), order)
    }
}

/// A cursor over files in key order that do not overlap. See [`InternalIterator`].
pub struct LevelIterator {
    files: Files,
    order: InternalKeyComparator,
    tables: Arc<dyn TableSource>,
    options: TableReadOptions,
    /// Which file `table` is over; `files.len()` if there is none.
    index: usize,
    table: Option<TableIterator>,
    error: Option<Error>,
}

impl LevelIterator {
    /// A cursor over a level ≥ 1 of `version`.
    pub fn of_version(
        version: Arc<Version>,
        level: usize,
        tables: Arc<dyn TableSource>,
        options: TableReadOptions,
    ) -> Self {
        debug_assert!(level > 0);
        let order = version.order().clone();
        Self { files: Files::Level { version, level }, order, tables, options, index: 0, table: None, error: None }
    }

    /// A cursor over some files of one level ≥ 1, in the order of the level.
    pub fn of_files(
        files: Vec<Arc<FileMetaData>>,
        order: InternalKeyComparator,
        tables: Arc<dyn TableSource>,
        options: TableReadOptions,
    ) -> Self {
        let search = LevelSearch::new(&files, &order);
        Self { files: Files::List { files, search }, order, tables, options, index: 0, table: None, error: None }
    }

    /// The file that the cursor is in.
    pub fn current_file(&self) -> Option<&Arc<FileMetaData>> {
        self.table.as_ref().and_then(|_| self.files.get().get(self.index))
    }

    /// The value, with its block as owner. The cursor must be valid.
    pub fn value_ref(&self) -> ValueRef<'_> {
        self.table.as_ref().map_or(ValueRef::borrowed(&[]), TableIterator::value_ref)
    }

    /// Goes to the file at `index` without a position in it. `false` if there is none or it cannot be opened.
    fn enter(&mut self, index: usize) -> bool {
        if self.table.is_some() && self.index == index {
            return true;
        }
        self.table = None;
        let Some(file) = self.files.get().get(index) else { return false };
        match self.tables.table(file, open_policy(&self.options)) {
            Ok(table) => {
                self.table = Some(table.reader.iter(&self.options));
                self.index = index;
                true
            }
            Err(error) => {
                self.error = Some(error);
                false
            }
        }
    }

    /// While the cursor ran off the end of a file without an error: on to the start of the next one.
    fn skip_forward(&mut self) {
        let mut left = Vec::new();
        while let Some(table) = &mut self.table {
            if table.valid() {
                if left.is_empty() {
                    return;
                }
                table.require_order(Ordering::Greater, &std::mem::take(&mut left));
                continue;
            }
            if let Err(error) = table.status() {
                return self.fail(error);
            }
            if left.is_empty() {
                left = table.take_left();
            }
            if !self.enter(self.index + 1) {
                return;
            }
            if let Some(table) = &mut self.table {
                table.seek_to_first();
            }
        }
    }

    /// While the cursor ran off the start of a file without an error: on to the end of the one before.
    fn skip_backward(&mut self) {
        let mut left = Vec::new();
        while let Some(table) = &mut self.table {
            if table.valid() {
                if left.is_empty() {
                    return;
                }
                table.require_order(Ordering::Less, &std::mem::take(&mut left));
                continue;
            }
            if let Err(error) = table.status() {
                return self.fail(error);
            }
            if left.is_empty() {
                left = table.take_left();
            }
            let Some(before) = self.index.checked_sub(1) else {
                self.table = None;
                return;
            };
            if !self.enter(before) {
                return;
            }
            if let Some(table) = &mut self.table {
                table.seek_to_last();
            }
        }
    }

    /// Seeks forward, in the file that the target falls into by `seek`.
    #[inline]
    fn seek_by(&mut self, target: &[u8], seek: impl Fn(&mut TableIterator, &[u8])) {
        self.error = None;
        let index = self.files.first_not_before(target, &self.order);
        if self.enter(index)
            && let Some(table) = &mut self.table
        {
            seek(table, target);
            self.skip_forward();
        }
    }

    /// Seeks backward, in the file that the target falls into by `seek`.
    #[inline]
    fn seek_for_prev_by(&mut self, target: &[u8], seek: impl Fn(&mut TableIterator, &[u8])) {
        self.error = None;
        let mut index = self.files.first_not_before(target, &self.order);
        let files = self.files.get();
        let begins_after = files
            .get(index)
            .is_none_or(|file| self.order.compare(file.smallest.encoded(), target) == Ordering::Greater);
        if begins_after {
            let Some(before) = index.checked_sub(1) else {
                self.table = None;
                return;
            };
            index = before;
        }
        if self.enter(index)
            && let Some(table) = &mut self.table
        {
            seek(table, target);
            self.skip_backward();
        }
    }

    #[cold]
    fn fail(&mut self, error: Error) {
        self.error = Some(error);
        self.table = None;
    }
}

impl InternalIterator for LevelIterator {
    #[inline]
    fn valid(&self) -> bool {
        self.table.as_ref().is_some_and(InternalIterator::valid)
    }

    fn seek_to_first(&mut self) {
        self.error = None;
        if self.enter(0)
            && let Some(table) = &mut self.table
        {
            table.seek_to_first();
            self.skip_forward();
        }
    }

    fn seek_to_last(&mut self) {
        self.error = None;
        let last = self.files.get().len().checked_sub(1);
        if last.is_some_and(|last| self.enter(last))
            && let Some(table) = &mut self.table
        {
            table.seek_to_last();
            self.skip_backward();
        }
    }

    #[inline]
    fn seek(&mut self, target: &[u8]) {
        self.seek_by(target, TableIterator::seek);
    }

    #[inline]
    fn seek_for_prev(&mut self, target: &[u8]) {
        self.seek_for_prev_by(target, TableIterator::seek_for_prev);
    }

    fn reseek(&mut self, target: &[u8]) {
        self.seek_by(target, TableIterator::reseek);
    }

    fn reseek_for_prev(&mut self, target: &[u8]) {
        self.seek_for_prev_by(target, TableIterator::reseek_for_prev);
    }

    #[inline]
    fn next(&mut self) {
        if let Some(table) = &mut self.table {
            table.next();
            if !table.valid() {
                self.skip_forward();
            }
        }
    }

    #[inline]
    fn prev(&mut self) {
        if let Some(table) = &mut self.table {
            table.prev();
            if !table.valid() {
                self.skip_backward();
            }
        }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.table.as_ref().map_or(&[], InternalIterator::key)
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.table.as_ref().map_or(&[], InternalIterator::value)
    }

    fn status(&self) -> Result<()> {
        match (&self.error, &self.table) {
            (Some(error), _) => Err(error.clone()),
            (None, Some(table)) => table.status(),
            (None, None) => Ok(()),
        }
    }
}

/// A cursor over a sorted run: one table or one level.
#[allow(clippy::large_enum_variant, reason = "both are cursors; boxing one would cost a miss per step")]
pub enum RunIterator {
    /// One file.
    Table(TableIterator),
    /// The files of a level.
    Level(LevelIterator),
}

impl RunIterator {
    /// The value, with its block as owner. The cursor must be valid.
    pub fn value_ref(&self) -> ValueRef<'_> {
        match self {
            Self::Table(iterator) => iterator.value_ref(),
            Self::Level(iterator) => iterator.value_ref(),
        }
    }
}

macro_rules! either {
    ($self:ident, $iterator:ident => $call:expr) => {
        match $self {
            Self::Table($iterator) => $call,
            Self::Level($iterator) => $call,
        }
    };
}

impl InternalIterator for RunIterator {
    #[inline]
    fn valid(&self) -> bool {
        either!(self, iterator => iterator.valid())
    }
    fn seek_to_first(&mut self) {
        either!(self, iterator => iterator.seek_to_first());
    }
    fn seek_to_last(&mut self) {
        either!(self, iterator => iterator.seek_to_last());
    }
    fn seek(&mut self, target: &[u8]) {
        either!(self, iterator => iterator.seek(target));
    }
    fn seek_for_prev(&mut self, target: &[u8]) {
        either!(self, iterator => iterator.seek_for_prev(target));
    }
    fn reseek(&mut self, target: &[u8]) {
        either!(self, iterator => iterator.reseek(target));
    }
    fn reseek_for_prev(&mut self, target: &[u8]) {
        either!(self, iterator => iterator.reseek_for_prev(target));
    }
    #[inline]
    fn next(&mut self) {
        either!(self, iterator => iterator.next());
    }
    #[inline]
    fn prev(&mut self) {
        either!(self, iterator => iterator.prev());
    }
    #[inline]
    fn key(&self) -> &[u8] {
        either!(self, iterator => iterator.key())
    }
    #[inline]
    fn value(&self) -> &[u8] {
        either!(self, iterator => iterator.value())
    }
    fn status(&self) -> Result<()> {
        either!(self, iterator => iterator.status())
    }
}
