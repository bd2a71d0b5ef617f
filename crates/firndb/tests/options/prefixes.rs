//! Prefix extractors.

use std::sync::Arc;

use firndb::Db;
use firndb::options::{BlockBasedTableOptions, FilterPolicy, FlushOptions, ReadOptions, TableFactory};
use firndb::slice_transform::FixedPrefix;

use crate::options;

#[test]
fn a_prefix_extractor_that_was_changed_asks_no_filter_of_other_prefixes() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(
        dir.path(),
        options(|o| {
            o.cf.prefix_extractor = Some(Arc::new(FixedPrefix::new(4)));
            o.cf.memtable_prefix_bloom_size_ratio = 0.1;
            o.cf.table_factory = TableFactory::BlockBased(BlockBasedTableOptions {
                filter_policy: Some(FilterPolicy::bloom(10.0)),
                ..BlockBasedTableOptions::default()
            });
        }),
    )
    .unwrap();
    db.put("abxx1", "in a table").unwrap();
    db.flush(&FlushOptions::default(), db.default_cf()).unwrap();
    db.put("abyy1", "in the memtable").unwrap();
    let found = || {
        let read = ReadOptions { prefix_same_as_start: true, ..ReadOptions::default() };
        let mut cursor = db.cursor(&read, db.default_cf()).unwrap();
        cursor.seek("abcd1");
        let mut keys = Vec::new();
        while cursor.valid() {
            keys.push(String::from_utf8(cursor.key().to_vec()).unwrap());
            cursor.next();
        }
        cursor.status().unwrap();
        keys
    };
    assert_eq!(found(), [""; 0]);
    db.set_options(db.default_cf(), &[("prefix_extractor", "fixed:2")]).unwrap();
    assert_eq!(found(), ["abxx1", "abyy1"]);
}
