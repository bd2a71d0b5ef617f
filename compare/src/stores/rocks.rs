//! RocksDB through the `rocksdb` crate: the bar. Its cache is the hyper clock cache, its faster one.

use std::path::Path;

use rocksdb::{
    BlockBasedOptions, Cache, CompactOptions, DB, DEFAULT_COLUMN_FAMILY_NAME, Options, ReadOptions,
    WaitForCompactOptions, WriteOptions,
};

use super::{Direction, MERGED_DOWN, Store, merging_down, touch};
use crate::Fallible;
use crate::config::{Config, FORMAT_VERSION};
use crate::keys::Key;

pub struct Rocks {
    db: DB,
    synced: WriteOptions,
    unsynced: WriteOptions,
    reading: ReadOptions,
}

impl Rocks {
    pub fn open(path: &Path, config: &Config) -> Fallible<Self> {
        let mut options = Options::default().get_options_from_string(config.option_string())?;
        let mut table = BlockBasedOptions::default();
        table.set_block_size(config.block_size);
        table.set_block_cache(&Cache::new_hyper_clock_cache(config.cache_bytes, 0));
        table.set_format_version(FORMAT_VERSION);
        if let Some(bits) = config.bloom_bits {
            table.set_bloom_filter(bits, false);
        }
        options.set_block_based_table_factory(&table);
        // By name, so that the crate keeps the handle that batched reads take.
        let db = DB::open_cf_with_opts(&options, path, [(DEFAULT_COLUMN_FAMILY_NAME, options.clone())])?;
        let mut synced = WriteOptions::default();
        synced.set_sync(true);
        Ok(Self { db, synced, unsynced: WriteOptions::default(), reading: ReadOptions::default() })
    }
}

impl Store for Rocks {
    fn put(&self, key: &Key, value: &[u8], sync: bool) -> Fallible<()> {
        Ok(self.db.put_opt(key, value, if sync { &self.synced } else { &self.unsynced })?)
    }

    fn get(&self, key: &Key) -> Fallible<Option<usize>> {
        Ok(self.db.get_pinned_opt(key, &self.reading)?.map(|value| touch(&value)))
    }

    fn multi_get(&self, keys: &[Key]) -> Fallible<usize> {
        let family = self.db.cf_handle(DEFAULT_COLUMN_FAMILY_NAME).ok_or("no default column family")?;
        let mut found = 0;
        for value in self.db.batched_multi_get_cf_opt(family, keys, false, &self.reading) {
            found += usize::from(value?.is_some_and(|value| touch(&value) > 0));
        }
        Ok(found)
    }

    fn scan(&self, from: Option<&Key>, limit: usize, direction: Direction) -> Fallible<usize> {
        let mut cursor = self.db.raw_iterator_opt(ReadOptions::default());
        match (direction, from) {
            (Direction::Forward, Some(key)) => cursor.seek(key),
            (Direction::Forward, None) => cursor.seek_to_first(),
            (Direction::Backward, Some(key)) => cursor.seek_for_prev(key),
            (Direction::Backward, None) => cursor.seek_to_last(),
        }
        let mut seen = 0;
        while seen < limit {
            let Some((key, value)) = cursor.item() else { break };
            touch(key);
            touch(value);
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
        Ok(self.db.flush()?)
    }

    fn settle(&self) -> Fallible<()> {
        Ok(self.db.wait_for_compact(&WaitForCompactOptions::default())?)
    }

    fn compact_all(&self) -> Fallible<()> {
        self.db.compact_range(None::<&[u8]>, None::<&[u8]>);
        Ok(())
    }

    fn compact_to(&self, level: u32) -> Fallible<()> {
        let mut options = CompactOptions::default();
        options.set_change_level(true);
        options.set_target_level(i32::try_from(level)?);
        self.db.compact_range_opt(None::<&[u8]>, None::<&[u8]>, &options);
        Ok(())
    }

    fn merge_down(&self, level: u32) -> Fallible<()> {
        self.db.set_options(merging_down(level)?)?;
        self.settle()?;
        Ok(self.db.set_options(MERGED_DOWN)?)
    }

    fn shape(&self) -> String {
        self.db.property_value("rocksdb.levelstats").ok().flatten().unwrap_or_default()
    }
}
