//! A backup by snapshot: one database is copied into another while writers go on; the copy is the state of one moment.
//!
//! `cargo run --release -p firndb --example snapshot_backup [directory]`

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use firndb::env::thread;
use firndb::{Db, Options, ReadOptions, WriteBatch, WriteOptions};

/// Entries per batch written to the copy.
const BATCH_ENTRIES: u32 = 1000;

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options
}

fn main() -> firndb::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "/tmp/firn-snapshot-backup".to_owned());
    let (live_path, backup_path) = (format!("{path}-live"), format!("{path}-backup"));
    Db::destroy(&backup_path, &options())?;
    let live = Db::open(&live_path, options())?;
    for account in 0..10_000_u32 {
        live.put(account.to_be_bytes(), 100_i64.to_le_bytes())?;
    }

    // Somebody moves money around all the time; the sum never changes.
    let stop = Arc::new(AtomicBool::new(false));
    let mover = {
        let (live, stop) = (live.clone(), Arc::clone(&stop));
        thread::spawn("mover", move || move_money(&live, &stop))?
    };

    let snapshot = live.snapshot();
    let backup = Db::open(&backup_path, options())?;
    let view = ReadOptions { snapshot: Some(snapshot.clone()), fill_cache: false, ..ReadOptions::default() };
    // The copy can be made again: its batches need no log, the flush at the end makes it durable.
    let unlogged = WriteOptions { disable_wal: true, ..WriteOptions::default() };
    let mut batch = WriteBatch::new();
    for entry in live.range_opt::<&[u8], _>(view, live.default_cf(), ..) {
        let (account, balance) = entry?;
        batch.put(&account, &balance)?;
        if batch.count() == BATCH_ENTRIES {
            backup.write_opt(&unlogged, &mut batch)?;
            batch.clear();
        }
    }
    backup.write_opt(&unlogged, &mut batch)?;
    backup.flush(&Default::default(), backup.default_cf())?;

    stop.store(true, Ordering::Relaxed);
    let moves = match mover.join() {
        Ok(moves) => moves?,
        Err(panic) => std::panic::resume_unwind(panic),
    };
    println!("{moves} transfers meanwhile; live sum {}, backup sum {}", sum(&live)?, sum(&backup)?);
    backup.close()?;
    live.close()
}

fn balance(bytes: &[u8]) -> i64 {
    bytes.first_chunk().map_or(0, |bytes| i64::from_le_bytes(*bytes))
}

fn sum(db: &Db) -> firndb::Result<i64> {
    db.iter().map(|entry| Ok(balance(&entry?.1))).sum()
}

fn move_money(db: &Db, stop: &AtomicBool) -> firndb::Result<u64> {
    let mut moves = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        let from = (moves * 7919 % 10_000) as u32;
        let to = (moves * 104_729 % 10_000) as u32;
        if from != to {
            let read = |account: u32| -> firndb::Result<i64> {
                Ok(db.get(account.to_be_bytes())?.map_or(0, |bytes| balance(&bytes)))
            };
            let (a, b) = (read(from)?, read(to)?);
            let mut batch = WriteBatch::new();
            batch.put(from.to_be_bytes(), (a - 1).to_le_bytes())?;
            batch.put(to.to_be_bytes(), (b + 1).to_le_bytes())?;
            db.write(&mut batch)?;
        }
        moves += 1;
    }
    Ok(moves)
}
