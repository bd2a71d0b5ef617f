//! fjall: an LSM tree in Rust.

use std::path::Path;

use fjall::config::{BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry};
use fjall::{CompressionType, Database, Guard, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::{Direction, Store, touch};
use crate::Fallible;
use crate::config::{Compression, Config};
use crate::keys::Key;

pub struct Fjall {
    db: Database,
    tree: Keyspace,
}

impl Fjall {
    pub fn open(path: &Path, config: &Config) -> Fallible<Self> {
        let db = Database::builder(path).cache_size(config.cache_bytes as u64).open()?;
        let filter = match config.bloom_bits {
            Some(bits) => FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(bits as f32)),
            None => FilterPolicyEntry::None,
        };
        // It has no zstd: lz4 stands in.
        let kind = if config.compression == Compression::None { CompressionType::None } else { CompressionType::Lz4 };
        let options = || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(64 << 20)
                .data_block_size_policy(BlockSizePolicy::all(config.block_size as u32))
                .filter_policy(FilterPolicy::all(filter))
                .data_block_compression_policy(CompressionPolicy::new([
                    CompressionType::None,
                    CompressionType::None,
                    CompressionType::None,
                    kind,
                ]))
        };
        let tree = db.keyspace("default", options)?;
        Ok(Self { db, tree })
    }
}

impl Store for Fjall {
    fn put(&self, key: &Key, value: &[u8], sync: bool) -> Fallible<()> {
        self.tree.insert(key.as_slice(), value)?;
        if sync {
            self.db.persist(PersistMode::SyncData)?;
        }
        Ok(())
    }

    fn get(&self, key: &Key) -> Fallible<Option<usize>> {
        Ok(self.tree.get(key)?.map(|value| touch(&value)))
    }

    fn multi_get(&self, keys: &[Key]) -> Fallible<usize> {
        let mut found = 0;
        for key in keys {
            found += usize::from(self.get(key)?.is_some());
        }
        Ok(found)
    }

    fn scan(&self, from: Option<&Key>, limit: usize, direction: Direction) -> Fallible<usize> {
        let take = |entry: Guard| -> Fallible<()> {
            let (key, value) = entry.into_inner()?;
            touch(&key);
            touch(&value);
            Ok(())
        };
        let mut seen = 0;
        let step = |seen: &mut usize, entry: Guard| take(entry).map(|()| *seen += 1);
        match (direction, from) {
            (Direction::Forward, Some(key)) => {
                self.tree.range(key.as_slice()..).take(limit).try_for_each(|entry| step(&mut seen, entry))?;
            }
            (Direction::Forward, None) => {
                self.tree.iter().take(limit).try_for_each(|entry| step(&mut seen, entry))?;
            }
            (Direction::Backward, Some(key)) => {
                let walk = self.tree.range(..=key.as_slice()).rev();
                walk.take(limit).try_for_each(|entry| step(&mut seen, entry))?;
            }
            (Direction::Backward, None) => {
                self.tree.iter().rev().take(limit).try_for_each(|entry| step(&mut seen, entry))?;
            }
        }
        Ok(seen)
    }

    fn flush(&self) -> Fallible<()> {
        Ok(self.tree.rotate_memtable_and_wait()?)
    }

    fn settle(&self) -> Fallible<()> {
        while self.db.outstanding_flushes() > 0 || self.db.active_compactions() > 0 {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Ok(())
    }

    fn compact_all(&self) -> Fallible<()> {
        Ok(self.tree.major_compact()?)
    }

    fn shape(&self) -> String {
        format!("{} tables, {} of them in level 0", self.tree.table_count(), self.tree.l0_table_count())
    }
}
