//! LMDB through heed: a memory-mapped B-tree. Each put is a transaction of its own, not synced unless asked.

use std::ops::Bound;
use std::path::Path;

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions};

use super::{Direction, Store, touch};
use crate::Fallible;
use crate::config::Config;
use crate::keys::Key;

pub struct Heed {
    env: Env,
    tree: Database<Bytes, Bytes>,
}

impl Heed {
    pub fn open(path: &Path, _config: &Config) -> Fallible<Self> {
        std::fs::create_dir_all(path)?;
        let mut options = EnvOpenOptions::new();
        options.map_size(64 << 30);
        // SAFETY: the directory was made for this process alone, and syncs are asked for where a step wants them.
        let env = unsafe { options.flags(EnvFlags::NO_SYNC).open(path)? };
        let mut creation = env.write_txn()?;
        let tree = env.create_database(&mut creation, None)?;
        creation.commit()?;
        Ok(Self { env, tree })
    }
}

impl Store for Heed {
    fn put(&self, key: &Key, value: &[u8], sync: bool) -> Fallible<()> {
        let mut transaction = self.env.write_txn()?;
        self.tree.put(&mut transaction, key, value)?;
        transaction.commit()?;
        if sync {
            self.env.force_sync()?;
        }
        Ok(())
    }

    fn get(&self, key: &Key) -> Fallible<Option<usize>> {
        let transaction = self.env.read_txn()?;
        Ok(self.tree.get(&transaction, key)?.map(touch))
    }

    fn multi_get(&self, keys: &[Key]) -> Fallible<usize> {
        let transaction = self.env.read_txn()?;
        let mut found = 0;
        for key in keys {
            found += usize::from(self.tree.get(&transaction, key)?.is_some_and(|value| touch(value) > 0));
        }
        Ok(found)
    }

    fn scan(&self, from: Option<&Key>, limit: usize, direction: Direction) -> Fallible<usize> {
        let transaction = self.env.read_txn()?;
        let mut seen = 0;
        let mut step = |entry: heed::Result<(&[u8], &[u8])>| -> Fallible<()> {
            let (key, value) = entry?;
            touch(key);
            touch(value);
            seen += 1;
            Ok(())
        };
        match (direction, from) {
            (Direction::Forward, Some(key)) => {
                let range = self.tree.range(&transaction, &(Bound::Included(key.as_slice()), Bound::Unbounded))?;
                range.take(limit).try_for_each(&mut step)?;
            }
            (Direction::Forward, None) => self.tree.iter(&transaction)?.take(limit).try_for_each(&mut step)?,
            (Direction::Backward, Some(key)) => {
                let range = self.tree.rev_range(&transaction, &(Bound::Unbounded, Bound::Included(key.as_slice())))?;
                range.take(limit).try_for_each(&mut step)?;
            }
            (Direction::Backward, None) => self.tree.rev_iter(&transaction)?.take(limit).try_for_each(&mut step)?,
        }
        Ok(seen)
    }

    fn flush(&self) -> Fallible<()> {
        Ok(self.env.force_sync()?)
    }

    fn settle(&self) -> Fallible<()> {
        Ok(())
    }

    fn compact_all(&self) -> Fallible<()> {
        Ok(())
    }

    fn shape(&self) -> String {
        String::new()
    }
}
