//! `timeseries`: one thread appends entries to many series, the others read whole series while it does.
//!
//! A key is the number of a series in eight bytes and the time in eight bytes. Time is a counter that every write moves
//! on, so that runs repeat. Readers go on until the writer is done; some of them may delete what is too old.

use std::sync::atomic::Ordering;

use super::harness::{Failure, Worker};
use super::stats::{OpKind, RunStats};

/// Bytes of the series number, and of the time behind it.
const FIELD_BYTES: usize = 8;

/// `timeseries`
pub fn time_series(worker: &mut Worker<'_>) -> Result<(), Failure> {
    if worker.job.setup.keys.key_size < 2 * FIELD_BYTES {
        return Err(Failure("timeseries needs --key_size >= 16".to_owned()));
    }
    if worker.tid > 0 {
        return read_or_delete(worker);
    }
    write(worker)?;
    worker.stats.stop();
    print!("{}", RunStats::merge(std::slice::from_ref(&worker.stats)).text("timeseries write"));
    worker.stats.exclude_from_result();
    Ok(())
}

/// The key of a series at a time.
fn fill(worker: &Worker<'_>, series: u64, time: u64, key: &mut Vec<u8>) {
    worker.fill_key(series, worker.job.setup.num, key);
    if let Some(field) = key.get_mut(FIELD_BYTES..2 * FIELD_BYTES) {
        field.copy_from_slice(&time.to_be_bytes());
    }
}

fn series_count(worker: &Worker<'_>) -> u64 {
    u64::try_from(worker.job.bench.flags.key_id_range).unwrap_or(0).max(1)
}

fn write(worker: &mut Worker<'_>) -> Result<(), Failure> {
    let (bench, setup) = (worker.job.bench, worker.job.setup);
    let write_options = bench.engine.write_options(setup);
    let count = series_count(worker);
    let (mut key, mut bytes) = (Vec::new(), 0_u64);
    let mut limit = worker.limit(setup.writes, true);
    while !limit.is_done(1) {
        let db = worker.select_db();
        let series = worker.random.draw() % count;
        fill(worker, series, worker.job.time.load(Ordering::Relaxed), &mut key);
        let value = worker.values.generate();
        db.put(&write_options, 0, &key, value).map_err(|e| Failure::new("put error", &e))?;
        bytes += (key.len() + value.len()) as u64;
        worker.job.time.fetch_add(1, Ordering::Relaxed);
        worker.stats.finished_ops(1, OpKind::Write);
        if let Some(pacer) = &worker.job.write_pacer {
            pacer.request((key.len() + setup.sizes.max()) as u64);
        }
    }
    worker.stats.add_bytes(bytes);
    Ok(())
}

fn read_or_delete(worker: &mut Worker<'_>) -> Result<(), Failure> {
    let (bench, setup) = (worker.job.bench, worker.job.setup);
    let flags = &bench.flags;
    let deletes =
        flags.expire_style == "delete" && worker.tid <= usize::try_from(flags.num_deletion_threads).unwrap_or(0);
    let (options, write_options) = (bench.engine.read_options(), bench.engine.write_options(setup));
    let count = series_count(worker);
    let (mut key, mut read, mut found, mut bytes) = (Vec::new(), 0_u64, 0_u64, 0_u64);
    while !worker.any_is_done() {
        let db = worker.select_db();
        let series = worker.random.draw() % count;
        fill(worker, series, 0, &mut key);
        let oldest_kept = worker.job.time.load(Ordering::Relaxed).saturating_sub(flags.time_range);
        let mut scan = db.scan(&options, 0);
        scan.seek(&key);
        read += 1;
        while scan.valid() && scan.key().get(..FIELD_BYTES) == key.get(..FIELD_BYTES) {
            let time = scan.key().get(FIELD_BYTES..2 * FIELD_BYTES).and_then(|field| field.try_into().ok());
            let time = u64::from_be_bytes(time.unwrap_or_default());
            if !deletes {
                found += 1;
                bytes += (scan.key().len() + scan.value().len()) as u64;
                worker.stats.finished_ops(1, OpKind::Read);
            } else if time < oldest_kept {
                let doomed = scan.key().to_vec();
                db.delete(&write_options, 0, &doomed).map_err(|e| Failure::new("delete error", &e))?;
                worker.stats.finished_ops(1, OpKind::Delete);
            } else {
                // Later entries are younger.
                break;
            }
            scan.next();
        }
        scan.status().map_err(|e| Failure::new("iterator error", &e))?;
        if read % 256 == 255
            && let Some(pacer) = &worker.job.read_pacer
        {
            pacer.request(256);
        }
    }
    worker.stats.add_bytes(bytes);
    worker.stats.add_message(&format!("({found} of {read} found)"));
    Ok(())
}
