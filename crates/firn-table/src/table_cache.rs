//! The table cache: which tables are open.
//!
//! File numbers flow in, open tables flow out. Tables used last stay open, up to a number of files; one that leaves the
//! cache is closed when its last user is done with it. A hit takes no lock; of several threads that miss the same table,
//! one opens it.
//!
//! Always true here: errors are not remembered, so that a file which could not be opened is tried again.

use crate::cache::{Cache, CacheKey, CacheOptions, CachePriority};
use firn_env::sync::{Arc, Mutex};
use firn_error::Result;
use firn_format::key::FileNumber;

/// As many open files as anyone can have.
const UNLIMITED_FILES: usize = 4 << 20;
/// Files kept for other uses than tables when their number is limited.
const RESERVED_FILES: usize = 10;
const OPENING_STRIPES: usize = 64;

/// Keeps tables open, by file number; `T` is what an open table is to the user. Share it behind an `Arc`.
#[derive(Debug)]
pub struct TableCache<T: Send + Sync + 'static> {
    tables: Cache<Arc<T>>,
    /// Held while a table is opened, so that only one thread does it.
    opening: Box<[Mutex<()>]>,
}

impl<T: Send + Sync + 'static> TableCache<T> {
    /// A cache of `capacity_files` open tables in 2^`shard_bits` parts.
    pub fn new(capacity_files: usize, shard_bits: u32) -> Self {
        let capacity_files = capacity_files.clamp(1, UNLIMITED_FILES);
        let options = CacheOptions {
            num_shard_bits: i32::try_from(shard_bits).unwrap_or(0),
            estimated_entry_charge: (capacity_files >> 10).max(1),
            ..CacheOptions::new(capacity_files)
        };
        let opening = (0..OPENING_STRIPES).map(|_| Mutex::new(())).collect();
        Self { tables: Cache::new(&options), opening }
    }

    /// How many tables the option `max_open_files` leaves room for; negative means all.
    pub fn capacity_for(max_open_files: i32) -> usize {
        match usize::try_from(max_open_files) {
            Ok(files) => files.saturating_sub(RESERVED_FILES).max(1),
            Err(_) => UNLIMITED_FILES,
        }
    }

    const fn key(number: FileNumber) -> CacheKey {
        CacheKey::new(0, number.get())
    }

    /// The table, if it is open.
    #[inline]
    pub fn get(&self, number: FileNumber) -> Option<Arc<T>> {
        self.tables.lookup(&Self::key(number)).map(|table| Arc::clone(&table))
    }

    /// The table, opened by `open` if it is not open.
    ///
    /// # Errors
    /// Those of `open`.
    #[inline]
    pub fn get_or_open(&self, number: FileNumber, open: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        match self.get(number) {
            Some(table) => Ok(table),
            None => self.open(number, open),
        }
    }

    #[cold]
    fn open(&self, number: FileNumber, open: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        let _opening = self.opening[number.get() as usize % OPENING_STRIPES].lock();
        if let Some(table) = self.get(number) {
            return Ok(table);
        }
        let table = Arc::new(open()?);
        // One open file is one unit of charge; the limit is not strict, so this succeeds.
        drop(self.tables.insert(&Self::key(number), Arc::clone(&table), 1, CachePriority::Low)?);
        Ok(table)
    }

    /// Forgets a table, whose file is about to be deleted; those who use it may go on.
    pub fn evict(&self, number: FileNumber) {
        self.tables.erase(&Self::key(number));
    }

    /// Closes all tables that nobody uses.
    pub fn clear(&self) {
        self.tables.erase_unreferenced();
    }

    /// How many tables are kept open.
    pub fn len(&self) -> usize {
        self.tables.len()
    }

    /// Whether no table is kept open.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// How many tables may be kept open.
    pub fn capacity_files(&self) -> usize {
        self.tables.capacity_bytes()
    }

    /// Changes how many tables may be kept open.
    pub fn set_capacity_files(&self, files: usize) {
        self.tables.set_capacity(files.clamp(1, UNLIMITED_FILES));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firn_env::sync::atomic::{AtomicUsize, Ordering};
    use firn_error::Error;

    #[test]
    fn opens_once_and_keeps_what_is_used() {
        let cache = TableCache::new(20, 0);
        let opened = AtomicUsize::new(0);
        let get = |number: u64| {
            cache.get_or_open(FileNumber(number), || {
                opened.fetch_add(1, Ordering::SeqCst);
                Ok(number)
            })
        };
        assert!(cache.get(FileNumber(3)).is_none());
        for number in 0..20 {
            assert_eq!((*get(number).unwrap(), *get(number).unwrap()), (number, number));
        }
        assert_eq!((opened.load(Ordering::SeqCst), cache.len()), (20, 20));
        for number in 100..200 {
            let _ = get(7).unwrap();
            let _ = get(number).unwrap();
        }
        assert!(cache.get(FileNumber(7)).is_some() && cache.len() <= 20);
        let held = get(7).unwrap();
        cache.evict(FileNumber(7));
        assert!(cache.get(FileNumber(7)).is_none());
        assert_eq!(*held, 7);
        cache.set_capacity_files(5);
        assert!(cache.len() <= 5);
        cache.clear();
        assert!(cache.is_empty());
    }

    #[test]
    fn failures_are_tried_again() {
        let cache = TableCache::new(20, 2);
        assert!(cache.get_or_open(FileNumber(1), || Err::<u8, _>(Error::corruption("damaged"))).is_err());
        assert_eq!(*cache.get_or_open(FileNumber(1), || Ok(5)).unwrap(), 5);
    }

    #[test]
    fn threads_that_miss_together_open_once() {
        let cache = Arc::new(TableCache::new(TableCache::<u64>::capacity_for(-1), 6));
        let opened = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (cache, opened) = (Arc::clone(&cache), Arc::clone(&opened));
                firn_env::thread::spawn("table-cache", move || {
                    for number in 0..2000 {
                        let table = cache.get_or_open(FileNumber(number), || {
                            opened.fetch_add(1, Ordering::SeqCst);
                            Ok(number)
                        });
                        assert_eq!(*table.unwrap(), number);
                    }
                })
                .unwrap()
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(opened.load(Ordering::SeqCst), 2000);
        assert_eq!(TableCache::<u64>::capacity_for(50), 40);
        assert_eq!(TableCache::<u64>::capacity_for(3), 1);
    }
}
