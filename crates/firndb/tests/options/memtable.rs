//! Filters of memtables.

use std::sync::Arc;

use firndb::Db;
use firndb::options::ReadOptions;
use firndb::slice_transform::FixedPrefix;
use firndb::stats::{PerfMetric, perf_context};

use crate::options;

/// What the perf context counted of memtable filters while `action` ran: (may match, cannot match).
fn asked(action: impl FnOnce()) -> (u64, u64) {
    let count = || {
        let context = perf_context();
        (context.get(PerfMetric::BloomMemtableHitCount), context.get(PerfMetric::BloomMemtableMissCount))
    };
    let before = count();
    action();
    let after = count();
    (after.0 - before.0, after.1 - before.1)
}

fn seek(db: &Db, read: ReadOptions, key: &str) -> Option<Vec<u8>> {
    let mut cursor = db.cursor(&read, db.default_cf()).unwrap();
    cursor.seek(key);
    cursor.status().unwrap();
    cursor.valid().then(|| cursor.key().to_vec())
}

#[test]
fn memtable_prefix_bloom_size_ratio_answers_seeks_of_absent_prefixes() {
    for ratio in [0.0, 0.1] {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(
            dir.path(),
            options(|o| {
                o.cf.memtable_prefix_bloom_size_ratio = ratio;
                o.cf.prefix_extractor = Some(Arc::new(FixedPrefix::new(3)));
            }),
        )
        .unwrap();
        db.put("aaa1", "").unwrap();
        db.put("ccc1", "").unwrap();
        let same_prefix = || ReadOptions { prefix_same_as_start: true, ..ReadOptions::default() };
        let total_order = || ReadOptions { total_order_seek: true, ..ReadOptions::default() };
        let filtered = asked(|| {
            assert_eq!(seek(&db, same_prefix(), "bbb"), None);
            assert_eq!(seek(&db, same_prefix(), "ccc").as_deref(), Some(&b"ccc1"[..]));
        });
        assert_eq!(filtered, if ratio > 0.0 { (1, 1) } else { (0, 0) });
        let unfiltered = asked(|| assert_eq!(seek(&db, total_order(), "bbb").as_deref(), Some(&b"ccc1"[..])));
        assert_eq!(unfiltered, (0, 0));
        assert_eq!(db.get("ccc1").unwrap().as_deref(), Some(&b""[..]));
    }
}

#[test]
fn memtable_whole_key_filtering_answers_gets_of_absent_keys() {
    for whole_keys in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(
            dir.path(),
            options(|o| {
                o.cf.memtable_prefix_bloom_size_ratio = 0.1;
                o.cf.memtable_whole_key_filtering = whole_keys;
            }),
        )
        .unwrap();
        db.put("here", "value").unwrap();
        let counted = asked(|| {
            assert!(db.get("here").unwrap().is_some());
            assert!(db.get("absent").unwrap().is_none());
        });
        assert_eq!(counted, if whole_keys { (1, 1) } else { (0, 0) });
    }
}
