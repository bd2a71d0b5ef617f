//! The whole database on a file system in memory: writers, readers, flushes and compactions at once, then a crash.

use std::path::Path;
use std::sync::Arc;

use firn_env::crash::{CrashFileSystem, LossPolicy};
use firn_env::entropy::SeededEntropy;
use firn_env::{Env, FileSystem, ManualClock, thread};
use firndb::options::{CompactRangeOptions, DbOptions};
use firndb::{ColumnFamilyDescriptor, ColumnFamilyOptions, Db, FlushOptions, ReadOptions, WriteBatch, WriteOptions};

const FAMILIES: [&str; 2] = ["default", "other"];

fn open(fs: Arc<dyn FileSystem>) -> Db {
    let env = Env::with_file_system(fs)
        .with_clock(Arc::new(ManualClock::new(1_700_000_000_000_000)))
        .with_entropy(Arc::new(SeededEntropy::new(1)));
    let options = DbOptions {
        env,
        create_if_missing: true,
        create_missing_column_families: true,
        max_background_jobs: 2,
        stats_dump_period_sec: 0,
        stats_persist_period_sec: 0,
        ..DbOptions::default()
    };
    let family = ColumnFamilyOptions { level0_file_num_compaction_trigger: 2, ..ColumnFamilyOptions::default() };
    let families = FAMILIES.map(|name| ColumnFamilyDescriptor::new(name, family.clone()));
    Db::open_cf(Path::new("/db"), options, families.to_vec()).unwrap()
}

/// The number under `key` in the default family; 0 when there is none.
fn number(db: &Db, key: &str) -> u64 {
    let value = db.get(key).unwrap();
    value.map_or(0, |value| u64::from_le_bytes(value[..].try_into().unwrap()))
}

/// Two keys that change together are never seen apart, by no reader and under no super version, and what is counted up
/// never counts down.
pub(crate) fn writes_flushes_and_reads() {
    let fs = Arc::new(CrashFileSystem::new());
    let db = open(fs.clone());
    let writer = {
        let db = db.clone();
        thread::spawn("writer", move || {
            for i in 1..=4u64 {
                let mut batch = WriteBatch::new();
                batch.put("left", i.to_le_bytes()).unwrap();
                batch.put("right", i.to_le_bytes()).unwrap();
                db.write(&mut batch).unwrap();
            }
        })
        .unwrap()
    };
    let flusher = {
        let db = db.clone();
        thread::spawn("flusher", move || {
            for _ in 0..2 {
                db.put("flushed", "").unwrap();
                db.flush(&FlushOptions::default(), db.default_cf()).unwrap();
            }
            db.compact_range(&CompactRangeOptions::default(), db.default_cf(), None, None).unwrap();
        })
        .unwrap()
    };
    let mut last = 0;
    for _ in 0..3 {
        let (left, right) = (number(&db, "left"), number(&db, "right"));
        assert!(last <= left && left <= right, "{last}, then {left} and {right}");
        last = left;
        let mut cursor = db.cursor(&ReadOptions::default(), db.default_cf()).unwrap();
        cursor.seek("left");
        let seen: Vec<(Vec<u8>, Vec<u8>)> = std::iter::from_fn(|| {
            let entry = cursor.valid().then(|| (cursor.key().to_vec(), cursor.value().to_vec()))?;
            cursor.next();
            Some(entry)
        })
        .collect();
        cursor.status().unwrap();
        assert!(seen.is_empty() || seen.len() == 2 && seen[0].1 == seen[1].1, "half a batch: {seen:?}");
        let now = seen.first().map_or(0, |(_, value)| u64::from_le_bytes(value[..].try_into().unwrap()));
        assert!(now >= last, "{last}, then {now}");
    }
    writer.join().unwrap();
    flusher.join().unwrap();
    assert_eq!((number(&db, "left"), number(&db, "right")), (4, 4));
    assert_eq!(db.get("flushed").unwrap().as_deref(), Some(&b""[..]));
    db.close().unwrap();
}

/// Logs are switched by flushes of either family while synced and unsynced writes come in; then the power fails. All synced
/// writes are there, and of what each writer wrote a prefix is.
pub(crate) fn switches_logs_under_writers() {
    let fs = Arc::new(CrashFileSystem::new());
    let db = open(fs.clone());
    let writers: Vec<_> = (0..2usize)
        .map(|writer| {
            let db = db.clone();
            thread::spawn("writer", move || {
                let cf = db.cf(FAMILIES[writer]).unwrap();
                for i in 0..3u8 {
                    let options = WriteOptions { sync: i == 1, ..WriteOptions::default() };
                    db.put_opt(&options, &cf, [b'a' + i], [writer as u8]).unwrap();
                }
            })
            .unwrap()
        })
        .collect();
    for name in FAMILIES {
        db.flush(&FlushOptions::default(), &db.cf(name).unwrap()).unwrap();
    }
    for writer in writers {
        writer.join().unwrap();
    }
    let image = fs.crash(LossPolicy::DropAll, 1);
    // The process goes on and closes; what it writes from now on does not reach the image.
    db.close().unwrap();
    drop(db);
    let db = open(Arc::new(CrashFileSystem::from_image(image)));
    for name in FAMILIES {
        let cf = db.cf(name).unwrap();
        let there = [b"a", b"b", b"c"].map(|key| db.get_opt(&ReadOptions::default(), &cf, key).unwrap().is_some());
        assert!(there[0] && there[1], "{name}: a write that a sync covered is lost: {there:?}");
    }
    db.put("after", "the crash").unwrap();
    db.close().unwrap();
}
