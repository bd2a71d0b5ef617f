//! What a running database tells of itself: properties, reports, statistics.

use std::sync::Arc;

use firndb::env::Env;
use firndb::options::{
    BlockBasedTableOptions, CompactRangeOptions, CompactionFilter, FilterDecision, FilterValueType, FlushOptions,
    ReadOptions, TableFactory,
};
use firndb::stats::{HistogramKind, PROPERTIES, PropertyShape, Statistics, Ticker};
use firndb::{Db, Options};

fn options() -> Options {
    let mut options = Options::default();
    options.db.env = Env::memory();
    options.db.create_if_missing = true;
    options.db.statistics = Some(Arc::new(Statistics::default()));
    options.cf.write_buffer_size = 1 << 20;
    options
}

fn filled(options: Options) -> (Db, Arc<Statistics>) {
    let statistics = options.db.statistics.clone().expect("statistics");
    let db = Db::open("/properties", options).expect("an open database");
    for round in 0..2 {
        for number in 0..500u32 {
            db.put(format!("key{number:05}"), format!("value{round}")).expect("a write");
        }
        db.flush(&FlushOptions::default(), db.default_cf()).expect("a flush");
    }
    (db, statistics)
}

#[test]
fn every_integer_property_has_its_value() {
    let (db, _) = filled(options());
    let cf = db.default_cf();
    let int = |name: &str| db.property_int(cf, name);
    assert_eq!(int("rocksdb.num-snapshots"), Some(0));
    assert_eq!(int("rocksdb.num-entries-active-mem-table"), Some(0));
    assert_eq!(db.property(cf, "rocksdb.num-files-at-level0").as_deref(), Some("2"));
    assert_eq!(db.property(cf, "rocksdb.num-files-at-level99"), None);
    assert_eq!(int("rocksdb.nonsense"), None);
    let unanswered: Vec<_> = PROPERTIES
        .iter()
        .filter(|property| property.shape == PropertyShape::Integer && int(property.name).is_none())
        .map(|property| property.name)
        .collect();
    // What depends on features that are not there has no value.
    let expected = [
        "rocksdb.num-running-compaction-sorted-runs",
        "rocksdb.compaction-abort-count",
        "rocksdb.obsolete-sst-files-size",
        "rocksdb.estimate-oldest-key-time",
        "rocksdb.blob-cache-capacity",
        "rocksdb.blob-cache-usage",
        "rocksdb.blob-cache-pinned-usage",
    ];
    assert_eq!(unanswered, expected);
}

#[test]
fn reports_tell_of_flushes_compactions_and_writes() {
    let (db, statistics) = filled(options());
    let cf = db.default_cf();
    let flushed = statistics.ticker_count(Ticker::FlushWriteBytes);
    assert!(flushed > 0);
    db.compact_range(&CompactRangeOptions::default(), cf, None, None).expect("a compaction");
    let stats = db.property(cf, "rocksdb.stats").expect("a report");
    for line in
        ["** Compaction Stats [default] **", "  L0 ", " Sum ", "High ", "** DB Stats **", "Cumulative WAL: 1000 writes"]
    {
        assert!(stats.contains(line), "{line} in {stats}");
    }
    let map = db.property_map(cf, "rocksdb.cfstats").expect("a map");
    assert_eq!(map.get("compaction.L0.CompCount").map(String::as_str), Some("2.000000"));
    assert_eq!(map.get("compaction.Sum.KeyIn").map(String::as_str), Some("2000.000000"));
    assert_eq!(map.get("compaction.Sum.KeyDrop").map(String::as_str), Some("500.000000"));
    let map = db.property_map(cf, "rocksdb.dbstats").expect("a map");
    assert_eq!(map.get("db.user_keys_written").map(String::as_str), Some("1000"));
    let tables = db.property(cf, "rocksdb.sstables").expect("a report");
    assert!(tables.contains("['6B65793030303030' seq:"), "{tables}");
    let sum = db.property_map(cf, "rocksdb.aggregated-table-properties").expect("a map");
    assert_eq!(sum.get("num_entries").map(String::as_str), Some("500"));
    db.reset_stats();
    let map = db.property_map(cf, "rocksdb.dbstats").expect("a map");
    assert_eq!(map.get("db.user_keys_written").map(String::as_str), Some("0"));
}

#[test]
fn statistics_count_reads_and_writes() {
    let (db, statistics) = filled(options());
    db.put("k", "vvv").expect("a write");
    assert!(db.get("k").expect("a read").is_some());
    assert!(db.get("key00001").expect("a read").is_some());
    assert!(db.get("missing").expect("a read").is_none());
    let counts = [
        Ticker::NumberKeysWritten,
        Ticker::WriteSelf,
        Ticker::WriteWal,
        Ticker::NumberKeysRead,
        Ticker::BytesRead,
        Ticker::MemtableHit,
        Ticker::MemtableMiss,
        Ticker::CompactionKeyDropNew,
    ]
    .map(|ticker| statistics.ticker_count(ticker));
    assert_eq!(counts, [1001, 1001, 1001, 3, 9, 1, 2, 0]);
    assert_eq!(statistics.histogram_data(HistogramKind::DbGetMicros).count, 3);
    assert_eq!(statistics.histogram_data(HistogramKind::DbWriteMicros).count, 1001);
    let text = db.property(db.default_cf(), "rocksdb.options-statistics").expect("a report");
    assert!(text.contains("rocksdb.number.keys.read COUNT : 3\n"));
}

#[test]
fn compaction_filters_of_the_options_are_asked() {
    struct DropOdd;
    impl CompactionFilter for DropOdd {
        fn name(&self) -> &str {
            "DropOdd"
        }
        fn filter(&self, _: usize, key: &[u8], _: FilterValueType, _: &[u8]) -> FilterDecision {
            if key.last().is_some_and(|digit| digit % 2 == 1) { FilterDecision::Remove } else { FilterDecision::Keep }
        }
    }
    let mut options = options();
    options.cf.compaction_filter = Some(Arc::new(DropOdd));
    options.cf.table_factory = TableFactory::BlockBased(BlockBasedTableOptions::default());
    let (db, statistics) = filled(options);
    db.compact_range(&CompactRangeOptions::default(), db.default_cf(), None, None).expect("a compaction");
    assert!(db.get("key00001").expect("a read").is_none());
    assert!(db.get("key00002").expect("a read").is_some());
    assert_eq!(statistics.ticker_count(Ticker::CompactionKeyDropUser), 250);
}

#[test]
fn statistics_count_scans_caches_and_filters() {
    let mut options = options();
    options.cf.block_based_mut().filter_policy = Some(firndb::options::FilterPolicy::bloom(10.0));
    let (db, statistics) = filled(options);
    let count = |ticker: Ticker| statistics.ticker_count(ticker);
    let mut cursor = db.cursor(&ReadOptions::default(), db.default_cf()).expect("a cursor");
    cursor.seek("key00010");
    for _ in 0..5 {
        cursor.next();
    }
    cursor.prev();
    drop(cursor);
    let scans = [Ticker::NumberDbSeek, Ticker::NumberDbSeekFound, Ticker::NumberDbNext, Ticker::NumberDbPrevFound];
    assert_eq!(scans.map(count), [1, 1, 5, 1]);
    assert_eq!(count(Ticker::DbIterBytesRead), 7 * 14);
    assert_eq!(count(Ticker::NumIteratorCreated), count(Ticker::NumIteratorDeleted));
    assert!(db.get("key00001").expect("a read").is_some());
    let (hits, positives) = (count(Ticker::BlockCacheDataHit), count(Ticker::BloomFilterFullPositive));
    assert!(db.get("key00001").expect("a read").is_some());
    assert_eq!(count(Ticker::BlockCacheDataHit), hits + 1);
    assert_eq!(count(Ticker::BloomFilterFullPositive), positives + 1);
    for number in 0..100 {
        assert!(db.get(format!("key00001x{number}")).expect("a read").is_none());
    }
    assert!(count(Ticker::BloomFilterUseful) > 150);
    assert_eq!(count(Ticker::BlockCacheMiss), count(Ticker::BlockCacheAdd));
}

#[test]
fn reads_of_files_and_memory_of_open_tables_are_measured() {
    let (db, statistics) = filled(options());
    let cf = db.default_cf();
    assert_eq!(db.get("key00007").expect("a read").as_deref(), Some(&b"value1"[..]));
    let text = db.property(cf, "rocksdb.cf-file-histogram").expect("a text");
    assert!(text.contains("** File Read Latency Histogram By Level [default] **\n** Level 0 read latency"), "{text}");
    assert!(db.property(cf, "rocksdb.cfstats").expect("a text").ends_with(&text));
    assert!(statistics.histogram_data(HistogramKind::SstReadMicros).count > 0);
    let two_tables = db.property_int(cf, "rocksdb.estimate-table-readers-mem").expect("a number");
    assert!(two_tables > 0);
    let options = CompactRangeOptions::default();
    db.compact_range(&options, cf, None, None).expect("a compaction");
    let one_table = db.property_int(cf, "rocksdb.estimate-table-readers-mem").expect("a number");
    assert!(one_table > 0 && one_table < two_tables, "{one_table} {two_tables}");
}

#[test]
fn the_estimate_of_keys_takes_every_deletion_for_one_key_less() {
    let mut options = options();
    options.cf.disable_auto_compactions = true;
    let db = Db::open("/estimate", options).expect("an open database");
    let estimate = || db.property_int(db.default_cf(), "rocksdb.estimate-num-keys").expect("an estimate");
    let flush = || db.flush(&FlushOptions::default(), db.default_cf()).expect("a flush");
    for number in 0..5 {
        db.put(format!("k{number}"), "v").expect("a write");
    }
    assert_eq!(estimate(), 5);
    flush();
    assert_eq!(estimate(), 5);
    db.delete("k0").expect("a write");
    assert_eq!(estimate(), 4, "a deletion in memory");
    flush();
    assert_eq!(estimate(), 4, "a deletion in a table of its own");
    db.put("z", "z").expect("a write");
    db.delete_range("k1", "k2").expect("a write");
    assert_eq!(estimate(), 6, "a range deletion in memory counts as an entry");
    flush();
    assert_eq!(estimate(), 4, "a range deletion in a table counts as a deletion");
    for number in 0..9 {
        db.delete(format!("q{number}")).expect("a write");
    }
    assert_eq!(estimate(), 0);
    flush();
    assert_eq!(estimate(), 0);
}
