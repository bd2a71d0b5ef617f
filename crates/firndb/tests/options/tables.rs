//! Which tables are open.

#![allow(clippy::disallowed_methods, reason = "a test may look at the files of its process")]

use std::path::Path;

use firndb::env::Env;
use firndb::options::{BlockBasedTableOptions, FlushOptions, ReadOptions, TableFactory};
use firndb::{ColumnFamilyOptions, Db, DbOptions, WriteOptions};

use crate::options;

/// How many tables below `dir` this process has open.
fn open_tables(dir: &Path) -> usize {
    let files =
        std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    files.filter(|path| path.starts_with(dir) && path.extension().is_some_and(|extension| extension == "sst")).count()
}

#[test]
fn max_open_files_limits_the_tables_of_all_families_together() {
    let dir = tempfile::tempdir().unwrap();
    let limited = |limit| {
        options(|o| {
            o.db.max_open_files = limit;
            o.cf.disable_auto_compactions = true;
        })
    };
    let db = Db::open(dir.path(), limited(20)).unwrap();
    let other = ColumnFamilyOptions { disable_auto_compactions: true, ..ColumnFamilyOptions::default() };
    let other = db.create_cf("other", other).unwrap();
    let families = [db.default_cf(), &other];
    for cf in families {
        for i in 0..12 {
            db.put_opt(&WriteOptions::default(), cf, format!("key{i:02}"), "value").unwrap();
            db.flush(&FlushOptions::default(), cf).unwrap();
        }
    }
    let read_all = || {
        for cf in families {
            (0..12).for_each(|i| {
                assert!(db.get_opt(&ReadOptions::default(), cf, format!("key{i:02}")).unwrap().is_some())
            });
        }
    };
    read_all();
    assert_eq!(open_tables(dir.path()), 10);
    db.set_db_options(&[("max_open_files", "26")]).unwrap();
    read_all();
    assert_eq!(open_tables(dir.path()), 16);
    db.set_db_options(&[("max_open_files", "-1")]).unwrap();
    read_all();
    assert_eq!(open_tables(dir.path()), 24);
}

#[test]
fn max_open_files_is_at_most_what_the_system_allows() {
    let dir = tempfile::tempdir().unwrap();
    let system = Env::shared().open_file_limit().unwrap();
    for (asked, expected) in [(i32::MAX, i32::try_from(system).unwrap_or(4 << 20)), (3, 20), (-1, -1)] {
        let db = Db::open(dir.path(), options(|o| o.db.max_open_files = asked)).unwrap();
        assert_eq!(db.options(db.default_cf()).db.max_open_files, expected);
    }
    assert_eq!(DbOptions::default().max_open_files, -1);
}

#[test]
fn tables_are_written_with_every_block_size_and_hash_table_ratio_that_an_open_takes() {
    let cases: [(u64, f64, &str); 3] = [(0, 0.75, "50"), (4096, 0.0, "1"), (4096, -1.0, "1")];
    for (block_size, ratio, blocks) in cases {
        let options = options(|o| {
            o.db.env = Env::memory();
            let table = BlockBasedTableOptions {
                block_size,
                data_block_hash_table_util_ratio: ratio,
                ..BlockBasedTableOptions::default()
            };
            o.cf.table_factory = TableFactory::BlockBased(table);
        });
        let db = Db::open("/tables", options.clone()).unwrap();
        for i in 0..50 {
            db.put(format!("key{i:02}"), "value").unwrap();
        }
        db.flush(&FlushOptions::default(), db.default_cf()).unwrap();
        let properties = db.property_map(db.default_cf(), "rocksdb.aggregated-table-properties").unwrap();
        assert_eq!(properties.get("num_data_blocks").map(String::as_str), Some(blocks), "{properties:?}");
        db.close().unwrap();
        drop(db);
        let db = Db::open("/tables", options).unwrap();
        assert_eq!(db.get("key49").unwrap().as_deref(), Some(b"value".as_slice()));
    }
}
