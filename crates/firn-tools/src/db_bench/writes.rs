//! Benchmarks that only write: the fill family, overwrite and the deletes.
//!
//! All of them build one batch per step from keys in an order and values from the pool, and hand it to the database.

use std::collections::VecDeque;

use super::engine::Batch;
use super::harness::{Failure, Worker};
use super::random::{MersenneTwister64, Permutation};
use super::stats::OpKind;

/// In which order keys are written.
enum KeyOrder {
    Sequential(u64),
    Random,
    Unique(Box<UniqueKeys>),
}

/// Every key once, in random order; with some probability a recent key again.
struct UniqueKeys {
    order: Permutation,
    recent: VecDeque<u64>,
    window: usize,
    overwrite_probability: f64,
    random: MersenneTwister64,
    inserted: u64,
    overwrites: u64,
}

impl UniqueKeys {
    fn next(&mut self) -> u64 {
        if self.overwrite_probability > 0.0
            && !self.recent.is_empty()
            && self.random.fraction() < self.overwrite_probability
        {
            self.overwrites += 1;
            let index = self.random.draw() % self.recent.len() as u64;
            return self.recent[index as usize];
        }
        // After the last key the order starts again, which only happens when overwrites were asked for.
        let key = self.order.next().unwrap_or(0);
        self.inserted += 1;
        if self.overwrite_probability > 0.0 {
            if self.recent.len() >= self.window {
                self.recent.pop_front();
            }
            self.recent.push_back(key);
        }
        key
    }
}

impl KeyOrder {
    fn next(&mut self, random: &mut MersenneTwister64, num: u64) -> u64 {
        match self {
            Self::Sequential(next) => {
                *next += 1;
                *next - 1
            }
            Self::Random => random.draw() % num,
            Self::Unique(keys) => keys.next(),
        }
    }
}

/// `fillseq`, `fillbatch`
pub fn write_sequential(worker: &mut Worker<'_>) -> Result<(), Failure> {
    do_write(worker, |_| KeyOrder::Sequential(0))
}

/// `fillrandom`, `overwrite`, `fillsync`, `fill100K`
pub fn write_random(worker: &mut Worker<'_>) -> Result<(), Failure> {
    do_write(worker, |_| KeyOrder::Random)
}

/// `filluniquerandom`
pub fn write_unique_random(worker: &mut Worker<'_>) -> Result<(), Failure> {
    do_write(worker, |worker| {
        let flags = &worker.job.bench.flags;
        let seed = worker.job.bench.seed;
        KeyOrder::Unique(Box::new(UniqueKeys {
            order: Permutation::new(worker.job.setup.num, seed),
            recent: VecDeque::new(),
            window: (flags.overwrite_window_size as usize).max(1),
            overwrite_probability: flags.overwrite_probability,
            random: MersenneTwister64::new(seed ^ 0x5eed),
            inserted: 0,
            overwrites: 0,
        }))
    })
}

/// When range tombstones go between the writes.
struct RangeTombstones {
    after_writes: u64,
    per_writes: u64,
    width: u64,
    max: u64,
    written: u64,
}

impl RangeTombstones {
    fn is_due(&self, writes: u64) -> bool {
        self.per_writes > 0
            && self.written < self.max
            && writes > self.after_writes
            && (writes - self.after_writes).is_multiple_of(self.per_writes)
    }
}

fn do_write(worker: &mut Worker<'_>, order: fn(&Worker<'_>) -> KeyOrder) -> Result<(), Failure> {
    let (bench, setup) = (worker.job.bench, worker.job.setup);
    let flags = &bench.flags;
    let count = |value: i64| u64::try_from(value).unwrap_or(0);
    if count(flags.num) != setup.num {
        worker.stats.add_message(&format!("({} ops)", setup.num));
    }
    let databases = bench.engine.databases();
    let mut orders: Vec<KeyOrder> = databases.iter().map(|_| order(worker)).collect();
    let sequential = matches!(orders.first(), Some(KeyOrder::Sequential(_)));
    let timed = matches!(orders.first(), Some(KeyOrder::Random));
    let ops = if setup.writes == 0 { setup.num } else { setup.writes };
    let max_ops = if sequential { ops * databases.len() as u64 } else { ops };
    let mut tombstones = RangeTombstones {
        after_writes: count(flags.writes_before_delete_range),
        per_writes: count(flags.writes_per_range_tombstone),
        width: count(flags.range_tombstone_width),
        max: count(flags.max_num_range_tombstones),
        written: 0,
    };
    let num = setup.num + tombstones.max;
    let write_options = bench.engine.write_options(setup);
    let mut batch = Batch::new();
    let (mut key, mut end_key) = (Vec::new(), Vec::new());
    let (mut bytes, mut entries) = (0_u64, 0_u64);
    let mut limit = worker.limit(max_ops, timed);
    while !limit.is_done(setup.batch_size) {
        let index = if sequential {
            ((entries / ops.max(1)) as usize).min(databases.len() - 1)
        } else {
            (worker.random.draw() % databases.len() as u64) as usize
        };
        let (db, order) = (&databases[index], &mut orders[index]);
        batch.clear();
        let mut batch_bytes = 0;
        for _ in 0..setup.batch_size {
            let number = order.next(&mut worker.random, num);
            worker.fill_key(number, num, &mut key);
            let value = worker.values.generate();
            batch.put(db, db.family(number), &key, value).map_err(|e| Failure::new("put error", &e))?;
            batch_bytes += (key.len() + value.len()) as u64;
            entries += 1;
            if tombstones.is_due(entries) {
                tombstones.written += 1;
                let begin = order.next(&mut worker.random, num);
                let family = db.family(begin);
                if flags.expand_range_tombstones {
                    for offset in 0..tombstones.width {
                        worker.fill_key(begin + offset, num, &mut key);
                        batch.delete(db, family, &key).map_err(|e| Failure::new("batchdel error", &e))?;
                    }
                } else {
                    worker.fill_key(begin, num, &mut key);
                    worker.fill_key(begin + tombstones.width, num, &mut end_key);
                    batch
                        .delete_range(db, family, &key, &end_key)
                        .map_err(|e| Failure::new("deleterange error", &e))?;
                }
            }
        }
        if let Some(pacer) = &worker.job.write_pacer {
            pacer.request(batch_bytes);
            // Waiting for permission is not the operation's time.
            worker.stats.reset_last_op_time();
        }
        db.write(&write_options, &mut batch).map_err(|e| Failure::new("put error", &e))?;
        bytes += batch_bytes;
        worker.stats.finished_ops(setup.batch_size, OpKind::Write);
    }
    if let Some(KeyOrder::Unique(keys)) = orders.first()
        && keys.overwrite_probability > 0.0
    {
        println!("Number of unique keys inserted: {}.\nNumber of overwrites: {}", keys.inserted, keys.overwrites);
    }
    if tombstones.written > 0 {
        println!("Number of range deletions: {}", tombstones.written);
    }
    worker.stats.add_bytes(bytes);
    Ok(())
}

/// `deleteseq`
pub fn delete_sequential(worker: &mut Worker<'_>) -> Result<(), Failure> {
    do_delete(worker, true)
}

/// `deleterandom`
pub fn delete_random(worker: &mut Worker<'_>) -> Result<(), Failure> {
    do_delete(worker, false)
}

fn do_delete(worker: &mut Worker<'_>, sequential: bool) -> Result<(), Failure> {
    let (bench, setup) = (worker.job.bench, worker.job.setup);
    let write_options = bench.engine.write_options(setup);
    let mut batch = Batch::new();
    let mut key = Vec::new();
    let mut next = 0;
    let mut limit = worker.limit(setup.deletes, !sequential);
    while !limit.is_done(setup.batch_size) {
        let db = worker.select_db();
        batch.clear();
        for _ in 0..setup.batch_size {
            let number = if sequential { next } else { worker.random.draw() % setup.num };
            next += 1;
            worker.fill_key(number, setup.num, &mut key);
            batch.delete(db, db.family(number), &key).map_err(|e| Failure::new("del error", &e))?;
        }
        db.write(&write_options, &mut batch).map_err(|e| Failure::new("del error", &e))?;
        worker.stats.finished_ops(setup.batch_size, OpKind::Delete);
    }
    Ok(())
}
