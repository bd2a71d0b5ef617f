//! A database whose files a test lays by hand, and what its readers show.

use std::sync::Arc;

use firndb::merge::StringAppendOperator;
use firndb::options::{BlockBasedTableOptions, CompactRangeOptions, CompactionOptions, FilterPolicy, FlushOptions};
use firndb::options::{ReadOptions, TableFactory};
use firndb::slice_transform::FixedPrefix;
use firndb::{ColumnFamily, Cursor, Db, FileNumber, Options, Snapshot};

/// A database in a folder of its own. Nothing is compacted unless the test says so.
pub(crate) struct Tree {
    pub(crate) db: Db,
    pub(crate) options: Options,
    dir: tempfile::TempDir,
}

impl Tree {
    pub(crate) fn new(change: impl FnOnce(&mut Options)) -> Self {
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.cf.disable_auto_compactions = true;
        options.cf.level_compaction_dynamic_level_bytes = false;
        options.cf.merge_operator = Some(Arc::new(StringAppendOperator::default()));
        change(&mut options);
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path().join("db"), options.clone()).unwrap();
        Self { db, options, dir }
    }

    /// Prefixes of one byte, in filters of tables and, with `memtable`, of memtables.
    pub(crate) fn with_prefixes(memtable: bool, change: impl FnOnce(&mut Options)) -> Self {
        Self::new(|options| {
            options.cf.prefix_extractor = Some(Arc::new(FixedPrefix::new(1)));
            options.cf.memtable_prefix_bloom_size_ratio = if memtable { 0.1 } else { 0.0 };
            let filter_policy = Some(FilterPolicy::bloom(10.0));
            let table = BlockBasedTableOptions { filter_policy, ..BlockBasedTableOptions::default() };
            options.cf.table_factory = TableFactory::BlockBased(table);
            change(options);
        })
    }

    pub(crate) fn cf(&self) -> &ColumnFamily {
        self.db.default_cf()
    }

    pub(crate) fn put(&self, key: &str, value: &str) {
        self.db.put(key, value).unwrap();
    }

    pub(crate) fn put_all(&self, keys: &str) {
        keys.split(' ').for_each(|key| self.put(key, ""));
    }

    pub(crate) fn merge(&self, key: &str, operand: &str) {
        self.db.merge(key, operand).unwrap();
    }

    pub(crate) fn delete_range(&self, start: &str, end: &str) {
        self.db.delete_range(start, end).unwrap();
    }

    pub(crate) fn flush(&self) {
        self.db.flush(&FlushOptions::default(), self.cf()).unwrap();
    }

    pub(crate) fn compact(&self) {
        self.db.compact_range(&CompactRangeOptions::default(), self.cf(), None, None).unwrap();
    }

    /// Merges all files of a level into another level.
    pub(crate) fn merge_level(&self, from: usize, to: usize) {
        let options = CompactionOptions { output_file_size_limit: u64::MAX, ..CompactionOptions::default() };
        self.db.compact_files(&options, self.cf(), &self.files_at(from), to).unwrap();
    }

    /// Lets automatic compactions run until nothing is left to do.
    pub(crate) fn settle(&self) {
        self.db.set_options(self.cf(), &[("disable_auto_compactions", "false")]).unwrap();
        self.db.wait_for_compact().unwrap();
        self.db.set_options(self.cf(), &[("disable_auto_compactions", "true")]).unwrap();
    }

    pub(crate) fn files_at(&self, level: usize) -> Vec<FileNumber> {
        self.db.live_files().iter().filter(|file| file.level == level).map(|file| file.number).collect()
    }

    /// How many files each level has.
    pub(crate) fn levels(&self) -> Vec<usize> {
        (0..7).map(|level| self.files_at(level).len()).collect()
    }

    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("db")
    }

    pub(crate) fn cursor(&self, options: &ReadOptions) -> Cursor {
        self.db.cursor(options, self.cf()).unwrap()
    }

    pub(crate) fn get(&self, key: &str, snapshot: Option<&Snapshot>) -> Option<String> {
        let options = ReadOptions { snapshot: snapshot.cloned(), ..ReadOptions::default() };
        self.db.get_opt(&options, self.cf(), key).unwrap().map(|value| text(&value))
    }

    /// All entries as a cursor with these options shows them from the first one on, as `key=value`.
    pub(crate) fn forward(&self, options: &ReadOptions) -> String {
        let mut cursor = self.cursor(options);
        let mut shown = Vec::new();
        cursor.seek_to_first();
        while cursor.valid() {
            shown.push(entry(&cursor));
            cursor.next();
        }
        cursor.status().unwrap();
        shown.join(" ")
    }

    /// All entries from the last one on, in the order in which they are shown.
    pub(crate) fn backward(&self, options: &ReadOptions) -> String {
        let mut cursor = self.cursor(options);
        let mut shown = Vec::new();
        cursor.seek_to_last();
        while cursor.valid() {
            shown.push(entry(&cursor));
            cursor.prev();
        }
        cursor.status().unwrap();
        shown.join(" ")
    }

    /// All entries, once it is sure that all ways to them agree: both directions, and a get and two seeks per key.
    pub(crate) fn contents(&self, snapshot: Option<&Snapshot>) -> String {
        let options = ReadOptions { snapshot: snapshot.cloned(), ..ReadOptions::default() };
        let forward = self.forward(&options);
        let backward = self.backward(&options);
        let entries: Vec<_> = forward.split(' ').filter(|entry| !entry.is_empty()).collect();
        let reversed: Vec<_> = entries.iter().rev().copied().collect();
        assert_eq!(backward, reversed.join(" "));
        let mut cursor = self.cursor(&options);
        for shown in entries {
            let (key, value) = shown.split_once('=').unwrap();
            assert_eq!(self.get(key, snapshot).as_deref(), Some(value), "{key}");
            cursor.seek(key);
            assert_eq!(entry(&cursor), shown);
            cursor.seek_for_prev(key);
            assert_eq!(entry(&cursor), shown);
        }
        forward
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Where a cursor stands: `key=value`, or `-`.
pub(crate) fn entry(cursor: &Cursor) -> String {
    cursor.status().unwrap();
    if cursor.valid() { format!("{}={}", text(cursor.key()), text(cursor.value())) } else { "-".to_owned() }
}
