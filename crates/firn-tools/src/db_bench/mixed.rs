//! Benchmarks that read and write: the update family, merges, and readers beside a background thread.

use super::engine::Batch;
use super::harness::{Failure, Worker};
use super::reads;
use super::stats::OpKind;

fn get_failure(error: &firn_error::Error) -> Failure {
    Failure(format!("Get returned an error: {error}"))
}

/// `readwhilewriting`, `readwhilemerging`
pub fn read_while_writing(worker: &mut Worker<'_>) -> Result<(), Failure> {
    if worker.tid > 0 { reads::read_random(worker) } else { background_writer(worker) }
}

/// `multireadwhilewriting`
pub fn multi_read_while_writing(worker: &mut Worker<'_>) -> Result<(), Failure> {
    if worker.tid > 0 { reads::multi_read_random(worker) } else { background_writer(worker) }
}

/// `seekrandomwhilewriting`, `seekrandomwhilemerging`
pub fn seek_random_while_writing(worker: &mut Worker<'_>) -> Result<(), Failure> {
    if worker.tid > 0 { reads::seek_random(worker) } else { background_writer(worker) }
}

/// `newiteratorwhilewriting`
pub fn new_iterator_while_writing(worker: &mut Worker<'_>) -> Result<(), Failure> {
    if worker.tid > 0 { reads::new_iterator(worker) } else { background_writer(worker) }
}

/// `readwhilescanning`
pub fn read_while_scanning(worker: &mut Worker<'_>) -> Result<(), Failure> {
    if worker.tid > 0 { reads::read_random(worker) } else { background_scan(worker) }
}

/// Writes random keys until all other threads have ended, or until its own writes are done.
fn background_writer(worker: &mut Worker<'_>) -> Result<(), Failure> {
    let (bench, setup) = (worker.job.bench, worker.job.setup);
    let flags = &bench.flags;
    worker.stats.exclude_from_result();
    let num = u64::try_from(flags.bgwriter_num).ok().filter(|num| *num > 0).unwrap_or(setup.num);
    let write_options = bench.engine.write_options(setup);
    let count = |value: i64| u64::try_from(value).unwrap_or(0);
    let (per_tombstone, max_tombstones) =
        (count(flags.writes_per_range_tombstone), count(flags.max_num_range_tombstones));
    let (mut key, mut end_key) = (Vec::new(), Vec::new());
    let (mut writes, mut tombstones, mut waiting) = (0_u64, 0_u64, true);
    let mut batch = Batch::new();
    loop {
        if worker.others_are_done() {
            if flags.finish_after_writes && writes < setup.writes {
                if waiting {
                    eprintln!("Reads are finished. Have {} more writes to do", setup.writes - writes);
                    waiting = false;
                }
            } else {
                break;
            }
        }
        let db = worker.select_db();
        let number = worker.random.draw() % num;
        worker.fill_key(number, num, &mut key);
        let family = db.family(number);
        batch.clear();
        let value = worker.values.generate();
        let value_bytes = value.len();
        if setup.background_merges { batch.merge(db, family, &key, value) } else { batch.put(db, family, &key, value) }
            .map_err(|e| Failure::new("put or merge error", &e))?;
        writes += 1;
        let past = writes.saturating_sub(count(flags.writes_before_delete_range));
        if past > 0 && tombstones < max_tombstones && past.checked_rem(per_tombstone) == Some(0) {
            tombstones += 1;
            let begin = worker.random.draw() % num;
            let mut range = Vec::new();
            worker.fill_key(begin, num, &mut range);
            worker.fill_key(begin + count(flags.range_tombstone_width), num, &mut end_key);
            batch.delete_range(db, family, &range, &end_key).map_err(|e| Failure::new("deleterange error", &e))?;
        }
        db.write(&write_options, &mut batch).map_err(|e| Failure::new("put or merge error", &e))?;
        worker.stats.finished_ops(1, OpKind::Write);
        if let Some(pacer) = &worker.job.background_pacer {
            pacer.request((key.len() + value_bytes) as u64);
        }
    }
    Ok(())
}

/// Scans the database again and again until all other threads have ended.
fn background_scan(worker: &mut Worker<'_>) -> Result<(), Failure> {
    let (bench, setup) = (worker.job.bench, worker.job.setup);
    let options = bench.engine.read_options();
    let db = worker.select_db();
    let mut scan = db.scan(&options, 0);
    eprintln!("num reads to do {}", setup.reads);
    let (mut steps, mut bytes) = (0_u64, 0_u64);
    let mut limit = worker.limit(setup.reads, true);
    while !limit.is_done(1) {
        if !scan.valid() {
            scan.status().map_err(|e| Failure::new("iterator error", &e))?;
            scan = db.scan(&options, 0);
            scan.seek_to_first();
        } else {
            scan.next();
        }
        if scan.valid() {
            bytes += (scan.key().len() + scan.value().len()) as u64;
        }
        steps += 1;
        worker.stats.finished_ops(1, OpKind::Seek);
        if steps % 1024 == 1023
            && let Some(pacer) = &worker.job.read_pacer
        {
            pacer.request(1024);
        }
    }
    worker.stats.add_bytes(bytes);
    Ok(())
}

/// `readrandomwriterandom`: cycles of a hundred, gets first.
pub fn read_random_write_random(worker: &mut Worker<'_>) -> Result<(), Failure> {
    let (bench, setup) = (worker.job.bench, worker.job.setup);
    let (options, write_options) = (bench.engine.read_options(), bench.engine.write_options(setup));
    let percent = u64::try_from(bench.flags.readwritepercent).unwrap_or(90);
    let (mut gets, mut puts, mut found) = (0_u64, 0_u64, 0_u64);
    let (mut get_weight, mut put_weight) = (0, 0);
    let mut key = Vec::new();
    let mut limit = worker.limit(setup.readwrites, true);
    while !limit.is_done(1) {
        let db = worker.select_db();
        let number = worker.random.draw() % setup.num;
        worker.fill_key(number, setup.num, &mut key);
        if get_weight == 0 && put_weight == 0 {
            (get_weight, put_weight) = (percent, 100 - percent);
        }
        if get_weight > 0 {
            found += u64::from(db.get(&options, 0, &key).map_err(|e| get_failure(&e))?.is_some());
            get_weight -= 1;
            gets += 1;
            worker.stats.finished_ops(1, OpKind::Read);
        } else {
            let value = worker.values.generate();
            db.put(&write_options, 0, &key, value).map_err(|e| Failure::new("put error", &e))?;
            put_weight -= 1;
            puts += 1;
            worker.stats.finished_ops(1, OpKind::Write);
        }
    }
    worker.stats.add_message(&format!("( reads:{gets} writes:{puts} total:{} found:{found})", setup.readwrites));
    Ok(())
}

/// `updaterandom`: get, then put a new value.
pub fn update_random(worker: &mut Worker<'_>) -> Result<(), Failure> {
    let (bench, setup) = (worker.job.bench, worker.job.setup);
    let (options, write_options) = (bench.engine.read_options(), bench.engine.write_options(setup));
    let (mut found, mut bytes) = (0_u64, 0_u64);
    let mut key = Vec::new();
    let mut limit = worker.limit(setup.readwrites, true);
    while !limit.is_done(1) {
        let db = worker.select_db();
        let number = worker.random.draw() % setup.num;
        worker.fill_key(number, setup.num, &mut key);
        if let Some(old) = db.get(&options, 0, &key).map_err(|e| get_failure(&e))? {
            found += 1;
            bytes += (key.len() + old.len()) as u64;
        }
        let value = worker.values.generate();
        if let Some(pacer) = &worker.job.write_pacer {
            pacer.request((key.len() + value.len()) as u64);
        }
        db.put(&write_options, 0, &key, value).map_err(|e| Failure::new("put error", &e))?;
        bytes += (key.len() + value.len()) as u64;
        worker.stats.finished_ops(1, OpKind::Update);
    }
    worker.stats.add_bytes(bytes);
    worker.stats.add_message(&format!("( updates:{} found:{found})", setup.readwrites));
    Ok(())
}

/// `xorupdaterandom`: get, then put the old value combined with generated bytes.
pub fn xor_update_random(worker: &mut Worker<'_>) -> Result<(), Failure> {
    let (bench, setup) = (worker.job.bench, worker.job.setup);
    let (options, write_options) = (bench.engine.read_options(), bench.engine.write_options(setup));
    let mut found = 0_u64;
    let (mut key, mut new_value, mut last_len) = (Vec::new(), Vec::new(), 0);
    let mut limit = worker.limit(setup.readwrites, true);
    while !limit.is_done(1) {
        let db = worker.select_db();
        let number = worker.random.draw() % setup.num;
        worker.fill_key(number, setup.num, &mut key);
        let old = db.get(&options, 0, &key).map_err(|e| get_failure(&e))?;
        if let Some(old) = &old {
            found += 1;
            last_len = old.len();
        }
        new_value.clear();
        new_value.extend_from_slice(worker.values.generate_sized(last_len));
        if let Some(old) = &old {
            for (new, old) in new_value.iter_mut().zip(old.iter()) {
                *new ^= old;
            }
        }
        db.put(&write_options, 0, &key, &new_value).map_err(|e| Failure::new("put error", &e))?;
        worker.stats.finished_ops(1, OpKind::Other);
    }
    worker.stats.add_message(&format!("( updates:{} found:{found})", setup.readwrites));
    Ok(())
}

/// `appendrandom`: get, then put the old value with a comma and a new one behind it.
pub fn append_random(worker: &mut Worker<'_>) -> Result<(), Failure> {
    let (bench, setup) = (worker.job.bench, worker.job.setup);
    let (options, write_options) = (bench.engine.read_options(), bench.engine.write_options(setup));
    let (mut found, mut bytes) = (0_u64, 0_u64);
    let (mut key, mut new_value) = (Vec::new(), Vec::new());
    let mut limit = worker.limit(setup.readwrites, true);
    while !limit.is_done(1) {
        let db = worker.select_db();
        let number = worker.random.draw() % setup.num;
        worker.fill_key(number, setup.num, &mut key);
        new_value.clear();
        if let Some(old) = db.get(&options, 0, &key).map_err(|e| get_failure(&e))? {
            found += 1;
            bytes += (key.len() + old.len()) as u64;
            if !old.is_empty() {
                new_value.extend_from_slice(&old);
                new_value.push(b',');
            }
        }
        new_value.extend_from_slice(worker.values.generate());
        db.put(&write_options, 0, &key, &new_value).map_err(|e| Failure::new("put error", &e))?;
        bytes += (key.len() + new_value.len()) as u64;
        worker.stats.finished_ops(1, OpKind::Update);
    }
    worker.stats.add_bytes(bytes);
    worker.stats.add_message(&format!("( updates:{} found:{found})", setup.readwrites));
    Ok(())
}

/// `mergerandom`
pub fn merge_random(worker: &mut Worker<'_>) -> Result<(), Failure> {
    let (bench, setup) = (worker.job.bench, worker.job.setup);
    let write_options = bench.engine.write_options(setup);
    let mut bytes = 0_u64;
    let mut key = Vec::new();
    let mut limit = worker.limit(setup.readwrites, true);
    while !limit.is_done(1) {
        let db = worker.select_db();
        let number = worker.random.draw() % setup.merge_keys;
        worker.fill_key(number, setup.merge_keys, &mut key);
        let value = worker.values.generate();
        db.merge(&write_options, db.family(number), &key, value).map_err(|e| Failure::new("merge error", &e))?;
        bytes += (key.len() + value.len()) as u64;
        worker.stats.finished_ops(1, OpKind::Merge);
    }
    worker.stats.add_bytes(bytes);
    worker.stats.add_message(&format!("( updates:{})", setup.readwrites));
    Ok(())
}

/// `readrandommergerandom`: each step a merge with probability `--mergereadpercent`, otherwise a get.
pub fn read_random_merge_random(worker: &mut Worker<'_>) -> Result<(), Failure> {
    let (bench, setup) = (worker.job.bench, worker.job.setup);
    let (options, write_options) = (bench.engine.read_options(), bench.engine.write_options(setup));
    let percent = u64::try_from(bench.flags.mergereadpercent).unwrap_or(70);
    let (mut gets, mut merges, mut hits, mut longest) = (0_u64, 0_u64, 0_u64, 0);
    let mut key = Vec::new();
    let mut limit = worker.limit(setup.readwrites, true);
    while !limit.is_done(1) {
        let db = worker.select_db();
        let number = worker.random.draw() % setup.merge_keys;
        worker.fill_key(number, setup.merge_keys, &mut key);
        if worker.random.percent(percent) {
            let value = worker.values.generate();
            db.merge(&write_options, 0, &key, value).map_err(|e| Failure::new("merge error", &e))?;
            merges += 1;
            worker.stats.finished_ops(1, OpKind::Merge);
        } else {
            if let Some(value) = db.get(&options, 0, &key).map_err(|e| get_failure(&e))? {
                hits += 1;
                longest = longest.max(value.len());
            }
            gets += 1;
            worker.stats.finished_ops(1, OpKind::Read);
        }
    }
    worker.stats.add_message(&format!(
        "(reads:{gets} merges:{merges} total:{} hits:{hits} maxlength:{longest})",
        setup.readwrites
    ));
    Ok(())
}

/// The three keys that `randomwithverify` keeps equal.
fn triple(key: &[u8]) -> [Vec<u8>; 3] {
    [b'0', b'1', b'2'].map(|suffix| key.iter().copied().chain([suffix]).collect())
}

/// `randomwithverify`: triples of keys are written together and must read equal.
pub fn random_with_verify(worker: &mut Worker<'_>) -> Result<(), Failure> {
    let (bench, setup) = (worker.job.bench, worker.job.setup);
    let flags = &bench.flags;
    let write_options = bench.engine.write_options(setup);
    let num = u64::try_from(flags.numdistinct).unwrap_or(0).max(1);
    let get_percent = i64::from(flags.readwritepercent);
    let delete_percent = i64::from(flags.deletepercent);
    let (mut gets, mut puts, mut deletes, mut found) = (0_u64, 0_u64, 0_u64, 0_u64);
    let (mut get_weight, mut put_weight, mut delete_weight) = (0, 0, 0);
    let (mut key, mut batch) = (Vec::new(), Batch::new());
    for _ in 0..setup.readwrites {
        let db = worker.select_db();
        let number = worker.random.draw() % num;
        worker.fill_key(number, num, &mut key);
        let keys = triple(&key);
        if get_weight <= 0 && put_weight <= 0 && delete_weight <= 0 {
            (get_weight, delete_weight) = (get_percent, delete_percent);
            put_weight = (100 - get_percent - delete_percent).max(0);
        }
        batch.clear();
        if get_weight > 0 {
            let options = db.snapshot_options(&bench.engine.read_options());
            let mut values = Vec::with_capacity(3);
            for key in &keys {
                values.push(db.get(&options, 0, key).map_err(|e| get_failure(&e))?.map(|value| value.to_vec()));
            }
            found += u64::from(values.iter().all(Option::is_some));
            if values.windows(2).any(|pair| pair[0] != pair[1]) {
                eprintln!("inconsistent values for key {}", String::from_utf8_lossy(&key));
            }
            get_weight -= 1;
            gets += 1;
            worker.stats.finished_ops(1, OpKind::Read);
        } else if put_weight > 0 {
            let value = worker.values.generate();
            for key in &keys {
                batch.put(db, 0, key, value).map_err(|e| Failure::new("putmany error", &e))?;
            }
            db.write(&write_options, &mut batch).map_err(|e| Failure::new("putmany error", &e))?;
            put_weight -= 1;
            puts += 1;
            worker.stats.finished_ops(1, OpKind::Write);
        } else {
            for key in &keys {
                batch.delete(db, 0, key).map_err(|e| Failure::new("deletemany error", &e))?;
            }
            db.write(&write_options, &mut batch).map_err(|e| Failure::new("deletemany error", &e))?;
            delete_weight -= 1;
            deletes += 1;
            worker.stats.finished_ops(1, OpKind::Delete);
        }
    }
    worker
        .stats
        .add_message(&format!("( get:{gets} put:{puts} del:{deletes} total:{} found:{found})", setup.readwrites));
    Ok(())
}

/// `randomreplacekeys`: each step moves one of `--numdistinct` entries to a new key.
pub fn random_replace_keys(worker: &mut Worker<'_>) -> Result<(), Failure> {
    /// Keys that one entry moves among.
    const KEYS_PER_ENTRY: u64 = 50;
    let (bench, setup) = (worker.job.bench, worker.job.setup);
    let flags = &bench.flags;
    let write_options = bench.engine.write_options(setup);
    let entries = u64::try_from(flags.numdistinct).unwrap_or(0).max(1);
    let mut counters = vec![0_u64; usize::try_from(entries).unwrap_or(1)];
    let db = worker.select_db();
    let mut key = Vec::new();
    let put_error = |e| Failure::new("put error", &e);
    for entry in 0..entries {
        worker.fill_key(entry * KEYS_PER_ENTRY, setup.num, &mut key);
        let value = worker.values.generate();
        db.put(&write_options, 0, &key, value).map_err(put_error)?;
    }
    worker.stats.start();
    let mut limit = worker.limit(setup.num, true);
    while !limit.is_done(1) {
        let entry = loop {
            let entry = (entries as f64 / 2.0 + worker.random.normal() * flags.stddev).floor();
            if (0.0..entries as f64).contains(&entry) {
                break entry as usize;
            }
        };
        let base = entry as u64 * KEYS_PER_ENTRY;
        worker.fill_key(base + counters[entry], setup.num, &mut key);
        if flags.use_single_deletes {
            db.single_delete(&write_options, 0, &key)
        } else {
            db.delete(&write_options, 0, &key)
        }
        .map_err(|e| Failure::new("del error", &e))?;
        counters[entry] = (counters[entry] + 1) % KEYS_PER_ENTRY;
        worker.fill_key(base + counters[entry], setup.num, &mut key);
        db.put(&write_options, 0, &key, b"").map_err(put_error)?;
        worker.stats.finished_ops(1, OpKind::Other);
    }
    worker.stats.add_message(&format!(
        "use single deletes: {}, standard deviation: {:.6}\n",
        u8::from(flags.use_single_deletes),
        flags.stddev
    ));
    Ok(())
}
