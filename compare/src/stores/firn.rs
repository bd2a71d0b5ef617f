//! Firn.

use std::path::Path;
use std::sync::Arc;

use firndb::options::{
    BlockBasedTableOptions, BlockCache, CacheOptions, CompactRangeOptions, FilterPolicy, TableFactory,
};
use firndb::{Db, FlushOptions, Options, ReadOptions, WriteOptions};

use super::{Direction, MERGED_DOWN, Store, merging_down, touch};
use crate::Fallible;
use crate::config::{Config, FORMAT_VERSION};
use crate::keys::Key;

pub struct Firn {
    db: Db,
    synced: WriteOptions,
    unsynced: WriteOptions,
    reading: ReadOptions,
}

impl Firn {
    /// Opens a database with the options of the race.
    pub fn open(path: &Path, config: &Config) -> Fallible<Self> {
        let mut options = Options::from_string(&config.option_string())?;
        let mut table = BlockBasedTableOptions { block_size: config.block_size as u64, ..Default::default() };
        table.format_version = FORMAT_VERSION as u32;
        table.filter_policy = config.bloom_bits.map(FilterPolicy::bloom);
        table.block_cache = Some(Arc::new(BlockCache::new(&CacheOptions::new(config.cache_bytes))));
        options.cf.table_factory = TableFactory::BlockBased(table);
        let db = Db::open(path, options)?;
        let synced = WriteOptions { sync: true, ..Default::default() };
        Ok(Self { db, synced, unsynced: WriteOptions::default(), reading: ReadOptions::default() })
    }
}

impl Store for Firn {
    fn put(&self, key: &Key, value: &[u8], sync: bool) -> Fallible<()> {
        let options = if sync { &self.synced } else { &self.unsynced };
        Ok(self.db.put_opt(options, self.db.default_cf(), key, value)?)
    }

    fn get(&self, key: &Key) -> Fallible<Option<usize>> {
        Ok(self.db.get(key)?.map(|value| touch(&value)))
    }

    fn multi_get(&self, keys: &[Key]) -> Fallible<usize> {
        let mut found = 0;
        for value in self.db.multi_get(keys) {
            found += usize::from(value?.is_some_and(|value| touch(&value) > 0));
        }
        Ok(found)
    }

    fn scan(&self, from: Option<&Key>, limit: usize, direction: Direction) -> Fallible<usize> {
        let mut cursor = self.db.cursor(&self.reading, self.db.default_cf())?;
        match (direction, from) {
            (Direction::Forward, Some(key)) => cursor.seek(key),
            (Direction::Forward, None) => cursor.seek_to_first(),
            (Direction::Backward, Some(key)) => cursor.seek_for_prev(key),
            (Direction::Backward, None) => cursor.seek_to_last(),
        }
        let mut seen = 0;
        while seen < limit && cursor.valid() {
            touch(cursor.key());
            touch(cursor.value());
            seen += 1;
            match direction {
                Direction::Forward => cursor.next(),
                Direction::Backward => cursor.prev(),
            }
        }
        cursor.status()?;
        Ok(seen)
    }

    fn flush(&self) -> Fallible<()> {
        Ok(self.db.flush(&FlushOptions::default(), self.db.default_cf())?)
    }

    fn settle(&self) -> Fallible<()> {
        Ok(self.db.wait_for_compact()?)
    }

    fn compact_all(&self) -> Fallible<()> {
        Ok(self.db.compact_range(&CompactRangeOptions::default(), self.db.default_cf(), None, None)?)
    }

    fn compact_to(&self, level: u32) -> Fallible<()> {
        let target_level = i32::try_from(level)?;
        let options = CompactRangeOptions { change_level: true, target_level, ..Default::default() };
        Ok(self.db.compact_range(&options, self.db.default_cf(), None, None)?)
    }

    fn merge_down(&self, level: u32) -> Fallible<()> {
        self.db.set_options(self.db.default_cf(), merging_down(level)?)?;
        self.db.wait_for_compact()?;
        Ok(self.db.set_options(self.db.default_cf(), MERGED_DOWN)?)
    }

    fn shape(&self) -> String {
        self.db.property(self.db.default_cf(), "rocksdb.levelstats").unwrap_or_default()
    }
}
