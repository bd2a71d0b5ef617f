//! redb: a copy-on-write B-tree in Rust. Each put is a transaction of its own, not made durable unless asked.

use std::path::Path;

use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};

use super::{Direction, Store, touch};
use crate::Fallible;
use crate::config::Config;
use crate::keys::Key;

const TABLE: TableDefinition<&[u8], &[u8]> = TableDefinition::new("default");

pub struct Redb {
    db: Database,
}

impl Redb {
    pub fn open(path: &Path, config: &Config) -> Fallible<Self> {
        std::fs::create_dir_all(path)?;
        let db = Database::builder().set_cache_size(config.cache_bytes).create(path.join("redb"))?;
        let creation = db.begin_write()?;
        creation.open_table(TABLE)?;
        creation.commit()?;
        Ok(Self { db })
    }
}

impl Store for Redb {
    fn put(&self, key: &Key, value: &[u8], sync: bool) -> Fallible<()> {
        let mut transaction = self.db.begin_write()?;
        transaction.set_durability(if sync { Durability::Immediate } else { Durability::None })?;
        transaction.open_table(TABLE)?.insert(key.as_slice(), value)?;
        Ok(transaction.commit()?)
    }

    fn get(&self, key: &Key) -> Fallible<Option<usize>> {
        let table = self.db.begin_read()?.open_table(TABLE)?;
        Ok(table.get(key.as_slice())?.map(|value| touch(value.value())))
    }

    fn multi_get(&self, keys: &[Key]) -> Fallible<usize> {
        let table = self.db.begin_read()?.open_table(TABLE)?;
        let mut found = 0;
        for key in keys {
            found += usize::from(table.get(key.as_slice())?.is_some_and(|value| touch(value.value()) > 0));
        }
        Ok(found)
    }

    fn scan(&self, from: Option<&Key>, limit: usize, direction: Direction) -> Fallible<usize> {
        let table = self.db.begin_read()?.open_table(TABLE)?;
        let mut range = match (direction, from) {
            (Direction::Forward, Some(key)) => table.range::<&[u8]>(key.as_slice()..)?,
            (Direction::Backward, Some(key)) => table.range::<&[u8]>(..=key.as_slice())?,
            (_, None) => table.iter()?,
        };
        let mut seen = 0;
        while seen < limit {
            let entry = match direction {
                Direction::Forward => range.next(),
                Direction::Backward => range.next_back(),
            };
            let Some(entry) = entry else { break };
            let (key, value) = entry?;
            touch(key.value());
            touch(value.value());
            seen += 1;
        }
        Ok(seen)
    }

    fn flush(&self) -> Fallible<()> {
        Ok(self.db.begin_write()?.commit()?)
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
