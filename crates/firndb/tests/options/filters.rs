//! Filters of tables.

use std::sync::Arc;

use firndb::Db;
use firndb::options::{BlockBasedTableOptions, CompactRangeOptions, FilterPolicy, FlushOptions, TableFactory};
use firndb::stats::{Statistics, Ticker};

use crate::options;

/// A database with one filtered table of `keys` keys, its counters, and its directory.
fn filled(
    keys: usize,
    change: impl FnOnce(&mut firndb::ColumnFamilyOptions, &mut BlockBasedTableOptions),
) -> (Db, Arc<Statistics>, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let statistics = Arc::new(Statistics::default());
    let options = options(|o| {
        o.db.statistics = Some(Arc::clone(&statistics));
        let mut table = BlockBasedTableOptions {
            filter_policy: Some(FilterPolicy::bloom(10.0)),
            ..BlockBasedTableOptions::default()
        };
        change(&mut o.cf, &mut table);
        o.cf.table_factory = TableFactory::BlockBased(table);
    });
    let db = Db::open(dir.path(), options).unwrap();
    for i in 0..keys {
        db.put(format!("key{i:05}"), "value").unwrap();
    }
    db.flush(&FlushOptions::default(), db.default_cf()).unwrap();
    (db, statistics, dir)
}

#[test]
fn optimize_filters_for_hits_leaves_filters_of_the_last_level_out() {
    for optimize in [false, true] {
        let (db, statistics, _dir) = filled(100, |cf, _| cf.optimize_filters_for_hits = optimize);
        let useful = || {
            let before = statistics.ticker_count(Ticker::BloomFilterUseful);
            assert!((0..100).all(|i| db.get(format!("key{i:05}x")).unwrap().is_none()));
            statistics.ticker_count(Ticker::BloomFilterUseful) - before
        };
        assert!(useful() > 90, "tables of level 0 have filters");
        // Overlapping, so that it is no move.
        db.put("key00000", "").unwrap();
        db.put("key00099", "").unwrap();
        db.flush(&FlushOptions::default(), db.default_cf()).unwrap();
        db.compact_range(&CompactRangeOptions::default(), db.default_cf(), None, None).unwrap();
        assert_eq!(useful() == 0, optimize);
    }
}
