//! Insert streams: what a flush puts on the last level at once is never merged again, is read as ever, and RocksDB reads it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{Entries, have_tools, rocksdb_accepts, scan, scan_all, scan_backward};
use firndb::options::{
    BlockBasedTableOptions, CompactRangeOptions, IngestExternalFileOptions, TableFactory, Temperature,
};
use firndb::stats::{Statistics, StatsLevel, Ticker};
use firndb::{ColumnFamilyOptions, Db, DbOptions, FlushOptions, Options, WriteBatch};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

fn options() -> Options {
    let statistics = Arc::new(Statistics::new(StatsLevel::ExceptDetailedTimers));
    let table = BlockBasedTableOptions { format_version: 5, ..BlockBasedTableOptions::default() };
    Options {
        db: DbOptions { create_if_missing: true, statistics: Some(statistics), ..DbOptions::default() },
        cf: ColumnFamilyOptions {
            write_buffer_size: 256 << 10,
            target_file_size_base: 1 << 20,
            max_bytes_for_level_base: 1 << 20,
            level0_file_num_compaction_trigger: 2,
            table_factory: TableFactory::BlockBased(table),
            ..ColumnFamilyOptions::default()
        },
    }
}

fn key(stream: u32, number: u32) -> Vec<u8> {
    [stream.to_be_bytes(), number.to_be_bytes()].concat()
}

fn tick(options: &Options, ticker: Ticker) -> u64 {
    options.db.statistics.as_ref().map_or(0, |statistics| statistics.ticker_count(ticker))
}

#[test]
fn streams_are_flushed_once_and_never_merged() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("db");
    let options = options();
    let db = Db::open(&dir, options.clone()).unwrap();
    let mut random = StdRng::seed_from_u64(1);
    let mut wanted = Entries::new();
    for number in 0..3000 {
        for stream in 0..8 {
            let mut value = [0; 100];
            random.fill(&mut value);
            db.put(key(stream, number), value).unwrap();
            wanted.push((key(stream, number), value.to_vec()));
        }
    }
    wanted.sort();
    db.flush(&FlushOptions::default(), db.default_cf()).unwrap();
    db.wait_for_compact().unwrap();
    let (flushed, compacted) = (tick(&options, Ticker::FlushWriteBytes), tick(&options, Ticker::CompactWriteBytes));
    assert!(flushed > 2 << 20 && compacted * 10 < flushed, "flushed {flushed} bytes, merged {compacted}");
    let levels: Vec<usize> = db.live_files().iter().map(|file| file.level).collect();
    assert!(levels.iter().filter(|level| **level == 6).count() > 8, "{levels:?}");
    assert_eq!(common::difference(&scan(&db, db.default_cf()).unwrap(), &wanted), None);
    db.close().unwrap();
    drop(db);
    let db = Db::open(&dir, options).unwrap();
    assert_eq!(common::difference(&scan(&db, db.default_cf()).unwrap(), &wanted), None);
    let mut backward = scan_backward(&db, db.default_cf()).unwrap();
    backward.reverse();
    assert_eq!(common::difference(&backward, &wanted), None);
    let contents = scan_all(&db).unwrap();
    db.close().unwrap();
    drop(db);
    if have_tools() {
        rocksdb_accepts(&dir, &contents, &["default".to_owned()]).unwrap();
    }
}

/// What compaction filters or temperatures have a say in goes through level 0.
#[test]
fn streams_go_the_usual_way_where_compactions_have_a_say() {
    let write = |change: fn(&mut ColumnFamilyOptions)| {
        let temp = tempfile::tempdir().unwrap();
        let mut options = options();
        options.cf.level0_file_num_compaction_trigger = 100;
        change(&mut options.cf);
        let db = Db::open(temp.path().join("db"), options).unwrap();
        for number in 0..100 {
            (0..8).for_each(|stream| db.put(key(stream, number), [b'v'; 200]).unwrap());
        }
        db.flush(&FlushOptions::default(), db.default_cf()).unwrap();
        let levels: Vec<usize> = db.live_files().iter().map(|file| file.level).collect();
        db.close().unwrap();
        levels
    };
    assert_eq!(write(|_| ()), [6; 8]);
    assert_eq!(write(|cf| cf.last_level_temperature = Temperature::Cold), [0]);
    assert_eq!(write(|cf| cf.preclude_last_level_data_seconds = 3600), [0]);
    assert_eq!(write(|cf| cf.disable_auto_compactions = true), [0]);
}

/// Streams with deletions, second thoughts and random keys between them, beside compactions of ranges and ingestion.
#[test]
fn streams_beside_everything_else_lose_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("db");
    let db = Db::open(&dir, options()).unwrap();
    let seed = firn_env::Env::shared().entropy().next_u64();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let clock = Arc::clone(firn_env::Env::shared().clock());
    let stop = Arc::new(AtomicBool::new(false));
    let (other, stopped, mut theirs) = (db.clone(), Arc::clone(&stop), StdRng::seed_from_u64(seed ^ 1));
    let beside = firn_env::thread::spawn("beside", move || {
        while !stopped.load(Ordering::Relaxed) {
            let (from, to) = (theirs.random_range(0..12), theirs.random_range(0..12));
            let (from, to) = (key(from.min(to), 0), key(from.max(to), u32::MAX));
            other.compact_range(&CompactRangeOptions::default(), other.default_cf(), Some(&from), Some(&to)).unwrap();
            clock.sleep_micros(theirs.random_range(0..30_000));
        }
    })
    .unwrap();
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut next = [0u32; 10];
    for round in 0..20_000u32 {
        let mut batch = WriteBatch::new();
        for _ in 0..random.random_range(1..4) {
            let stream = random.random_range(0..next.len());
            let (key, value) = match random.random_range(0..100) {
                0..2 => (key(random.random_range(0..12), random.random_range(0..2000)), None),
                2..4 => (key(random.random_range(0..12), random.random_range(0..2000)), Some(b"again".to_vec())),
                _ => {
                    next[stream] += 1;
                    (key(stream as u32, next[stream]), Some(vec![b'v'; random.random_range(20..200)]))
                }
            };
            match value {
                Some(value) => {
                    batch.put(&key, &value).unwrap();
                    model.insert(key, value);
                }
                None => {
                    batch.delete(&key).unwrap();
                    model.remove(&key);
                }
            }
        }
        db.write(&mut batch).unwrap();
        if round.is_multiple_of(2000) {
            // Over the place where a stream is about to arrive.
            let stream = random.random_range(0..10);
            let ahead = next[stream as usize] + 20;
            let path = temp.path().join(format!("{round}.sst"));
            let mut writer = firndb::sst_file_writer(&options());
            writer.open(&path).unwrap();
            for key in [key(stream, ahead), key(stream, ahead + 300)] {
                writer.put(&key, b"ingested").unwrap();
                model.insert(key, b"ingested".to_vec());
            }
            writer.finish().unwrap();
            db.ingest_external_file(db.default_cf(), &[&path], &IngestExternalFileOptions::default()).unwrap();
        }
    }
    stop.store(true, Ordering::Relaxed);
    beside.join().unwrap();
    let wanted: Entries = model.into_iter().collect();
    assert_eq!(common::difference(&scan(&db, db.default_cf()).unwrap(), &wanted), None);
    for (key, value) in wanted.iter().step_by(17) {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(value.as_slice()));
    }
    db.close().unwrap();
    drop(db);
    let db = Db::open(&dir, options()).unwrap();
    assert_eq!(common::difference(&scan(&db, db.default_cf()).unwrap(), &wanted), None);
    db.close().unwrap();
}
