//! Benchmarks that only read: point lookups, batches of them, and scans.

use super::engine::{OpenDb, ReadOptions, Scan};
use super::harness::{Failure, Worker};
use super::random::skewed_key;
use super::stats::OpKind;

/// How many reads are asked of the read pacer at once.
const PACED_READS: u64 = 256;

pub(super) fn read_failure(what: &str, error: &firn_error::Error) -> Failure {
    Failure(format!("{what} returned an error: {error}"))
}

/// `readseq`
pub fn read_sequential(worker: &mut Worker<'_>) -> Result<(), Failure> {
    for db in worker.job.bench.engine.databases() {
        scan_all(worker, db, false)?;
    }
    Ok(())
}

/// `readreverse`
pub fn read_reverse(worker: &mut Worker<'_>) -> Result<(), Failure> {
    for db in worker.job.bench.engine.databases() {
        scan_all(worker, db, true)?;
    }
    Ok(())
}

fn scan_all(worker: &mut Worker<'_>, db: &OpenDb, reverse: bool) -> Result<(), Failure> {
    let options = worker.job.bench.engine.read_options();
    let mut scan = db.scan(&options, 0);
    if reverse {
        scan.seek_to_last()
    } else {
        scan.seek_to_first()
    };
    let (mut entries, mut bytes) = (0, 0_u64);
    while entries < worker.job.setup.reads && scan.valid() {
        bytes += (scan.key().len() + scan.value().len()) as u64;
        worker.stats.finished_ops(1, OpKind::Read);
        entries += 1;
        if entries % 1024 == 1023
            && let Some(pacer) = &worker.job.read_pacer
        {
            pacer.request(1024);
        }
        if reverse {
            scan.prev()
        } else {
            scan.next()
        };
    }
    scan.status().map_err(|e| read_failure("iterator", &e))?;
    worker.stats.add_bytes(bytes);
    Ok(())
}

/// `readtorowcache`: one get for each existing key.
pub fn read_to_row_cache(worker: &mut Worker<'_>) -> Result<(), Failure> {
    let bench = worker.job.bench;
    let options = bench.engine.read_options();
    let Some(keys) = &bench.existing_keys else {
        return Err(Failure("readtorowcache needs --use_existing_keys".to_owned()));
    };
    let (mut found, mut bytes) = (0_u64, 0_u64);
    for (number, key) in keys.iter().enumerate() {
        let db = worker.select_db();
        if let Some(value) = db.get(&options, db.family(number as u64), key).map_err(|e| read_failure("Get", &e))? {
            found += 1;
            bytes += (key.len() + value.len()) as u64;
        }
        worker.stats.finished_ops(1, OpKind::Read);
    }
    worker.stats.add_bytes(bytes);
    worker.stats.add_message(&format!("({found} of {} found)\n", keys.len()));
    Ok(())
}

/// Draws the next key to look up: evenly or with `--read_random_exp_range`.
#[inline]
fn draw_key(worker: &mut Worker<'_>) -> u64 {
    let draw = worker.random.draw();
    skewed_key(draw, worker.job.setup.num, worker.job.bench.flags.read_random_exp_range)
}

/// `readrandom`, `readmissing`, `readrandomsmall`
pub fn read_random(worker: &mut Worker<'_>) -> Result<(), Failure> {
    read_random_with(worker, |db, options, family, key| {
        let value = db.get(options, family, key).map_err(|e| read_failure("Get", &e))?;
        Ok(value.map(|value| value.len()))
    })
}

/// `readrandomoperands`: lookups that take a key's merge operands as they are.
pub fn read_random_operands(worker: &mut Worker<'_>) -> Result<(), Failure> {
    read_random_with(worker, |db, options, family, key| {
        let operands = db.merge_operands(options, family, key).map_err(|e| read_failure("GetMergeOperands", &e))?;
        Ok((!operands.is_empty()).then(|| operands.iter().map(Vec::len).sum()))
    })
}

/// Looks up random keys; `lookup` returns how many bytes are stored under a key.
#[inline]
fn read_random_with(
    worker: &mut Worker<'_>,
    lookup: impl Fn(&OpenDb, &ReadOptions, usize, &[u8]) -> Result<Option<usize>, Failure>,
) -> Result<(), Failure> {
    let (bench, setup) = (worker.job.bench, worker.job.setup);
    let options = bench.engine.read_options();
    let stride = u64::try_from(bench.flags.multiread_stride).unwrap_or(0);
    let strided = setup.batch_size > 1 && stride > 0;
    let (mut read, mut found, mut bytes) = (0_u64, 0_u64, 0_u64);
    let (mut key, mut number, mut in_group) = (Vec::new(), 0, 0);
    let mut limit = worker.limit(setup.reads, true);
    while !limit.is_done(1) {
        let db = worker.select_db();
        if strided && in_group > 0 {
            in_group -= 1;
            number += stride;
        } else {
            number = draw_key(worker);
            if strided {
                let span = (setup.batch_size - 1) * stride;
                number = number.min(setup.num.saturating_sub(span + 1));
                in_group = setup.batch_size - 1;
            }
        }
        worker.fill_key(number, setup.num, &mut key);
        read += 1;
        if let Some(length) = lookup(db, &options, db.family(number), &key)? {
            found += 1;
            bytes += (key.len() + length) as u64;
        }
        if read % PACED_READS == PACED_READS - 1
            && let Some(pacer) = &worker.job.read_pacer
        {
            pacer.request(PACED_READS);
        }
        worker.stats.finished_ops(1, OpKind::Read);
    }
    worker.stats.add_bytes(bytes);
    worker.stats.add_message(&format!("({found} of {read} found)\n"));
    Ok(())
}

/// `readhot`: lookups among the first hundredth of the key space.
pub fn read_hot(worker: &mut Worker<'_>) -> Result<(), Failure> {
    let (bench, setup) = (worker.job.bench, worker.job.setup);
    let options = bench.engine.read_options();
    let hot = setup.num.div_ceil(100);
    let (mut read, mut found, mut bytes) = (0_u64, 0_u64, 0_u64);
    let mut key = Vec::new();
    let mut limit = worker.limit(setup.reads, true);
    while !limit.is_done(1) {
        let db = worker.select_db();
        let number = worker.random.draw() % hot;
        worker.fill_key(number, setup.num, &mut key);
        read += 1;
        if let Some(value) = db.get(&options, db.family(number), &key).map_err(|e| read_failure("Get", &e))? {
            found += 1;
            bytes += (key.len() + value.len()) as u64;
        }
        worker.stats.finished_ops(1, OpKind::Read);
    }
    worker.stats.add_bytes(bytes);
    worker.stats.add_message(&format!("({found} of {read} found)\n"));
    Ok(())
}

/// `readrandomfast`: a hundred lookups per step, keys drawn with a mask.
pub fn read_random_fast(worker: &mut Worker<'_>) -> Result<(), Failure> {
    let (bench, setup) = (worker.job.bench, worker.job.setup);
    let options = bench.engine.read_options();
    let mask = setup.num.next_power_of_two() - 1;
    let (mut read, mut found, mut absent) = (0_u64, 0_u64, 0_u64);
    let mut key = Vec::new();
    let mut limit = worker.limit(setup.reads, true);
    let db = worker.select_db();
    loop {
        for _ in 0..100 {
            let number = worker.random.draw() & mask;
            worker.fill_key(number, setup.num, &mut key);
            read += 1;
            found +=
                u64::from(db.get(&options, db.family(number), &key).map_err(|e| read_failure("Get", &e))?.is_some());
            absent += u64::from(number >= setup.num);
        }
        if let Some(pacer) = &worker.job.read_pacer {
            pacer.request(100);
        }
        worker.stats.finished_ops(100, OpKind::Read);
        if limit.is_done(100) {
            break;
        }
    }
    worker.stats.add_message(&format!("({found} of {read} found, issued {absent} non-exist keys)\n"));
    Ok(())
}

/// `multireadrandom`
pub fn multi_read_random(worker: &mut Worker<'_>) -> Result<(), Failure> {
    let (bench, setup) = (worker.job.bench, worker.job.setup);
    let options = bench.engine.read_options();
    let batch_size = setup.batch_size;
    eprintln!("entries_per_batch = {batch_size}");
    let stride = u64::try_from(bench.flags.multiread_stride).unwrap_or(0);
    let mut keys: Vec<Vec<u8>> = vec![Vec::new(); batch_size as usize];
    let (mut read, mut found, mut bytes, mut batches) = (0_u64, 0_u64, 0_u64, 0_u64);
    let mut limit = worker.limit(setup.reads, true);
    while !limit.is_done(batch_size) {
        let db = worker.select_db();
        let mut number = draw_key(worker);
        if stride > 0 {
            let span = (batch_size - 1) * stride;
            number = number.min(setup.num.saturating_sub(span + 1));
        }
        for (index, key) in keys.iter_mut().enumerate() {
            if index > 0 {
                number = if stride > 0 { number + stride } else { draw_key(worker) };
            }
            worker.fill_key(number, setup.num, key);
        }
        for (key, result) in keys.iter().zip(db.multi_get(&options, 0, &keys)) {
            if let Some(value) = result.map_err(|e| read_failure("MultiGet", &e))? {
                found += 1;
                bytes += (key.len() + value.len()) as u64;
            }
        }
        read += batch_size;
        batches += 1;
        if batches % PACED_READS == PACED_READS - 1
            && let Some(pacer) = &worker.job.read_pacer
        {
            pacer.request(PACED_READS * batch_size);
        }
        worker.stats.finished_ops(batch_size, OpKind::Read);
    }
    worker.stats.add_bytes(bytes);
    worker.stats.add_message(&format!("({found} of {read} found)"));
    Ok(())
}

/// The bounds of a scan that starts at `position`, as `--max_scan_distance` and `--auto_prefix_mode` ask.
fn bounded_options(worker: &Worker<'_>, position: u64, key: &[u8]) -> Option<ReadOptions> {
    let (bench, setup) = (worker.job.bench, worker.job.setup);
    let flags = &bench.flags;
    let mut bound = Vec::new();
    if let Ok(distance @ 1..) = u64::try_from(flags.max_scan_distance) {
        if flags.reverse_iterator {
            worker.fill_key(position.saturating_sub(distance), setup.num, &mut bound);
            return Some(bench.engine.read_options_within(Some(bound), None));
        }
        worker.fill_key((position + distance).min(setup.num), setup.num, &mut bound);
        return Some(bench.engine.read_options_within(None, Some(bound)));
    }
    if flags.auto_prefix_mode && setup.keys.prefix_size > 0 && !flags.reverse_iterator {
        // The first key behind all keys with this prefix.
        bound.extend_from_slice(key.get(..setup.keys.prefix_size)?);
        while let Some(byte) = bound.pop() {
            if byte != u8::MAX {
                bound.push(byte + 1);
                return Some(bench.engine.read_options_within(None, Some(bound)));
            }
        }
    }
    None
}

/// `seekrandom`
pub fn seek_random(worker: &mut Worker<'_>) -> Result<(), Failure> {
    let (bench, setup) = (worker.job.bench, worker.job.setup);
    let flags = &bench.flags;
    let options = bench.engine.read_options();
    let nexts = u64::try_from(flags.seek_nexts).unwrap_or(0);
    let to_delete = u64::try_from(flags.seek_nexts_to_delete).unwrap_or(0);
    let write_options = bench.engine.write_options(setup);
    let (mut read, mut found, mut bytes) = (0_u64, 0_u64, 0_u64);
    let mut key = Vec::new();
    let mut tailing: Vec<Scan> = match flags.use_tailing_iterator {
        true => bench.engine.databases().iter().map(|db| db.scan(&options, 0)).collect(),
        false => Vec::new(),
    };
    let mut limit = worker.limit(setup.reads, true);
    while !limit.is_done(1) {
        let databases = bench.engine.databases();
        let index = if databases.len() > 1 { (worker.random.draw() % databases.len() as u64) as usize } else { 0 };
        let number = worker.random.draw() % setup.num;
        worker.fill_key(number, setup.num, &mut key);
        if flags.seek_missing_prefix
            && let Some(byte) = key.get_mut(8)
        {
            *byte = b'1';
        }
        let mut own;
        let scan = match tailing.get_mut(index) {
            Some(scan) => scan,
            None => {
                own = match bounded_options(worker, number, &key) {
                    Some(bounded) => databases[index].scan(&bounded, 0),
                    None => databases[index].scan(&options, 0),
                };
                &mut own
            }
        };
        scan.seek(&key);
        read += 1;
        found += u64::from(scan.valid() && scan.key() == key.as_slice());
        let mut steps = 0;
        while steps < nexts && scan.valid() {
            bytes += (scan.key().len() + scan.value().len()) as u64;
            if flags.reverse_iterator {
                scan.prev()
            } else {
                scan.next()
            };
            steps += 1;
        }
        scan.status().map_err(|e| read_failure("iterator", &e))?;
        for _ in 0..to_delete {
            if !scan.valid() {
                break;
            }
            let doomed = scan.key().to_vec();
            scan.next();
            databases[index].delete(&write_options, 0, &doomed).map_err(|e| Failure::new("del error", &e))?;
        }
        if read % PACED_READS == PACED_READS - 1
            && let Some(pacer) = &worker.job.read_pacer
        {
            pacer.request(PACED_READS);
        }
        worker.stats.finished_ops(1, OpKind::Seek);
    }
    worker.stats.add_bytes(bytes);
    worker.stats.add_message(&format!("({found} of {read} found)\n"));
    Ok(())
}

/// `newiterator`
pub fn new_iterator(worker: &mut Worker<'_>) -> Result<(), Failure> {
    let options = worker.job.bench.engine.read_options();
    let mut limit = worker.limit(worker.job.setup.reads, true);
    while !limit.is_done(1) {
        let db = worker.select_db();
        drop(db.scan(&options, 0));
        worker.stats.finished_ops(1, OpKind::Other);
    }
    Ok(())
}

/// `multiscan`: several ranges, `--multiscan_stride` keys apart.
pub fn multi_scan(worker: &mut Worker<'_>) -> Result<(), Failure> {
    let (bench, setup) = (worker.job.bench, worker.job.setup);
    let flags = &bench.flags;
    let options = bench.engine.read_options();
    let ranges = u64::try_from(flags.multiscan_size).unwrap_or(0).max(1);
    let stride = u64::try_from(flags.multiscan_stride).unwrap_or(0);
    let nexts = if flags.seek_nexts > 0 { u64::try_from(flags.seek_nexts).unwrap_or(50) } else { 50 };
    let span = ranges * (stride + nexts);
    let (mut scans, mut bytes) = (0_u64, 0_u64);
    let mut key = Vec::new();
    let mut limit = worker.limit(setup.reads, true);
    while !limit.is_done(1) {
        let db = worker.select_db();
        let mut start = worker.random.draw() % setup.num.saturating_sub(span).max(1);
        let mut scan = db.scan(&options, 0);
        for _ in 0..ranges {
            worker.fill_key(start, setup.num, &mut key);
            scan.seek(&key);
            let mut steps = 0;
            while steps < nexts && scan.valid() {
                bytes += (scan.key().len() + scan.value().len()) as u64;
                scan.next();
                steps += 1;
            }
            start += nexts + stride;
        }
        scan.status().map_err(|e| read_failure("iterator", &e))?;
        scans += 1;
        worker.stats.finished_ops(1, OpKind::MultiScan);
    }
    worker.stats.add_bytes(bytes);
    worker.stats.add_message(&format!("(multiscans:{scans})"));
    Ok(())
}

/// `approximatesizerandom`
pub fn approximate_size_random(worker: &mut Worker<'_>) -> Result<(), Failure> {
    let setup = worker.job.setup;
    eprintln!("entries_per_batch = {}", setup.batch_size);
    let (mut calls, mut total) = (0_u64, 0_u64);
    let mut limit = worker.limit(setup.reads, true);
    while !limit.is_done(1) {
        let db = worker.select_db();
        let mut ranges = Vec::with_capacity(setup.batch_size as usize);
        for _ in 0..setup.batch_size {
            let (a, b) = (worker.random.draw() % setup.num, worker.random.draw() % setup.num);
            let (mut from, mut to) = (Vec::new(), Vec::new());
            worker.fill_key(a.min(b), setup.num, &mut from);
            worker.fill_key(a.max(b), setup.num, &mut to);
            ranges.push((from, to));
        }
        let sizes = db.approximate_sizes(0, &ranges).map_err(|e| read_failure("GetApproximateSizes", &e))?;
        total += sizes.iter().sum::<u64>();
        calls += setup.batch_size;
        worker.stats.finished_ops(setup.batch_size, OpKind::Other);
    }
    worker.stats.add_message(&format!("(Avg approx size={})", six_digits(total as f64 / calls.max(1) as f64)));
    Ok(())
}

/// The number with six significant digits, as C's `%g` prints numbers of everyday size.
fn six_digits(value: f64) -> String {
    if value >= 1e6 {
        let exponent = value.log10().floor();
        let mantissa = format!("{:.5}", value / 10_f64.powf(exponent));
        return format!("{}e+{exponent:02}", mantissa.trim_end_matches('0').trim_end_matches('.'));
    }
    let whole_digits = (value.max(1.0).log10().floor() as usize) + 1;
    let text = format!("{value:.*}", 6_usize.saturating_sub(whole_digits));
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// `fillseekseq`: fills in order, then times seeks and nexts to neighbouring keys.
pub fn fill_seek_sequential(worker: &mut Worker<'_>) -> Result<(), Failure> {
    super::writes::write_sequential(worker)?;
    let (bench, setup) = (worker.job.bench, worker.job.setup);
    worker.stats.start();
    let flags = &bench.flags;
    let options = bench.engine.read_options();
    let nexts = u64::try_from(flags.seek_nexts).unwrap_or(0);
    let db = worker.select_db();
    let mut scan = db.scan(&options, 0);
    let (mut key, mut position) = (Vec::new(), 0);
    while position < setup.num {
        worker.fill_key(position, setup.num, &mut key);
        scan.seek(&key);
        check_position(&scan, &key)?;
        worker.stats.finished_ops(1, OpKind::Seek);
        for _ in 0..nexts {
            if position + 1 >= setup.num {
                break;
            }
            position += 1;
            scan.next();
            worker.fill_key(position, setup.num, &mut key);
            check_position(&scan, &key)?;
            worker.stats.finished_ops(1, OpKind::Seek);
        }
        scan.seek(&key);
        check_position(&scan, &key)?;
        worker.stats.finished_ops(1, OpKind::Seek);
        position += 1;
    }
    Ok(())
}

fn check_position(scan: &Scan, key: &[u8]) -> Result<(), Failure> {
    scan.status().map_err(|e| read_failure("iterator", &e))?;
    if scan.valid() && scan.key() == key {
        return Ok(());
    }
    Err(Failure(format!("the iterator does not stand at key {key:02x?}")))
}

/// `verifychecksum`
pub fn verify_checksum(worker: &mut Worker<'_>) -> Result<(), Failure> {
    let db = worker.select_db();
    db.verify_checksum().map_err(|e| Failure(format!("VerifyChecksum() failed: {e}")))
}

/// `verifyfilechecksums`
pub fn verify_file_checksums(worker: &mut Worker<'_>) -> Result<(), Failure> {
    let db = worker.select_db();
    db.verify_file_checksums().map_err(|e| Failure(format!("VerifyFileChecksums() failed: {e}")))
}

#[cfg(test)]
mod tests {
    use super::six_digits;

    #[test]
    fn six_significant_digits() {
        for (value, text) in
            [(0.0, "0"), (624_364.585, "624365"), (1234.5678, "1234.57"), (12.0, "12"), (1_234_567.0, "1.23457e+06")]
        {
            assert_eq!(six_digits(value), text);
        }
    }
}
