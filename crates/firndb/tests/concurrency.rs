//! Writers and readers at once, with flushes and compactions running: nothing acknowledged is lost, no batch is torn, time
//! does not run backwards; after a clean reopen and after the process was killed.
//!
//! Every writer follows a script: step `i` writes one batch that is a function of writer and `i`. Whatever step the
//! database shows as a writer's last, its contents must be exactly those of the script up to that step: no hole, no half.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use firn_env::{Clock, SystemClock, thread};
use firndb::options::{ConfigOptions, OptionSet};
use firndb::{Db, Options, ReadOptions, WriteBatch, WriteOptions};

/// How long writers and readers run together, at least.
const SECONDS: u64 = 1;
/// Steps of all writers together, at least.
const LEAST_STEPS: u64 = 3000;
/// Keys per writer that the script writes over and over.
const SLOTS: u64 = 300;

fn options(variant: usize) -> Options {
    let mut options = Options::default();
    let config = ConfigOptions::default();
    options.db.create_if_missing = true;
    let cf = [
        ("write_buffer_size", "65536"),
        ("target_file_size_base", "30000"),
        ("max_bytes_for_level_base", "100000"),
        ("level0_file_num_compaction_trigger", "2"),
        ("merge_operator", "uint64add"),
    ];
    options.cf.apply_map(cf, &config).unwrap();
    let db: &[(&str, &str)] = match variant % 4 {
        0 => &[],
        1 => &[("enable_pipelined_write", "true"), ("max_background_jobs", "4")],
        2 => &[("recycle_log_file_num", "2"), ("max_subcompactions", "2")],
        _ => &[("allow_concurrent_memtable_write", "false"), ("wal_compression", "kZSTD")],
    };
    options.db.apply_map(db.iter().copied(), &config).unwrap();
    options
}

fn slot_key(writer: usize, part: char, slot: u64) -> Vec<u8> {
    format!("writer-{writer:02}-{part}-{slot:05}").into_bytes()
}

fn last_key(writer: usize) -> Vec<u8> {
    format!("writer-{writer:02}-last").into_bytes()
}

fn counter_key(writer: usize) -> Vec<u8> {
    format!("writer-{writer:02}-steps").into_bytes()
}

/// The slot of a step, and whether the step deletes it.
fn script(step: u64) -> (u64, bool) {
    let mixed = step.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    (mixed % SLOTS, mixed.is_multiple_of(11))
}

fn value(step: u64) -> Vec<u8> {
    let mut value = step.to_le_bytes().to_vec();
    value.resize(8 + (step % 90) as usize, b'v');
    value
}

fn step_of(value: &[u8]) -> u64 {
    u64::from_le_bytes(value[..8].try_into().unwrap())
}

/// Writes step `step` of a writer as one batch: two slots that change together, a counter, and the step number.
fn write_step(db: &Db, writer: usize, step: u64) -> firndb::Result<()> {
    let (slot, deletes) = script(step);
    let mut batch = WriteBatch::new();
    for part in ['a', 'z'] {
        let key = slot_key(writer, part, slot);
        if deletes { batch.delete(&key)? } else { batch.put(&key, value(step))? }
    }
    batch.merge(counter_key(writer), 1_u64.to_le_bytes())?;
    batch.put(last_key(writer), step.to_le_bytes())?;
    let sync = step.is_multiple_of(200);
    db.write_opt(&WriteOptions { sync, ..WriteOptions::default() }, &mut batch)
}

/// What the database must hold of a writer after `steps` steps.
fn state_after(writer: usize, steps: u64) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut state = BTreeMap::new();
    if steps == 0 {
        return state;
    }
    for step in 1..=steps {
        let (slot, deletes) = script(step);
        for part in ['a', 'z'] {
            let key = slot_key(writer, part, slot);
            if deletes {
                state.remove(&key)
            } else {
                state.insert(key, value(step))
            };
        }
    }
    state.insert(counter_key(writer), steps.to_le_bytes().to_vec());
    state.insert(last_key(writer), steps.to_le_bytes().to_vec());
    state
}

/// Checks that every writer's contents are those of its script up to a step, and that this step was reached.
fn verify(dir: &Path, variant: usize, acknowledged: &[u64]) {
    let db = Db::open(dir, options(variant)).unwrap();
    let mut wanted = common::Entries::new();
    for (writer, &least) in acknowledged.iter().enumerate() {
        let last = db.get(last_key(writer)).unwrap().map_or(0, |bytes| step_of(&bytes));
        assert!(last >= least, "writer {writer}: step {least} was acknowledged, but {last} is the last one there");
        assert!(last <= least + 1, "writer {writer}: step {last} was never finished before {least} was");
        wanted.extend(state_after(writer, last));
    }
    let got = common::scan(&db, db.default_cf()).unwrap();
    if let Some(text) = common::difference(&got, &wanted) {
        panic!("after reopening: {text}");
    }
    for (key, value) in &wanted {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(&**value), "get of {}", key.escape_ascii());
    }
    db.close().unwrap();
}

/// Reads one slot of one writer in several ways until told to stop: both halves agree, and steps never go back.
fn read_until(db: &Db, writers: usize, reader: usize, stop: &AtomicBool) -> u64 {
    let mut seen = vec![0_u64; writers];
    let mut rounds = 0;
    while !stop.load(Ordering::Relaxed) {
        let writer = (reader + rounds as usize) % writers;
        let last = db.get(last_key(writer)).unwrap().map_or(0, |bytes| step_of(&bytes));
        assert!(last >= seen[writer], "writer {writer} went back from step {} to {last}", seen[writer]);
        seen[writer] = last;
        let snapshot = db.snapshot();
        let options = ReadOptions { snapshot: Some(snapshot.clone()), ..ReadOptions::default() };
        let get = |key: Vec<u8>| db.get_opt(&options, db.default_cf(), key).unwrap().map(|value| value.to_vec());
        let slot = rounds % SLOTS;
        let (a, z) = (get(slot_key(writer, 'a', slot)), get(slot_key(writer, 'z', slot)));
        assert_eq!(a, z, "a torn batch at writer {writer}, slot {slot}");
        let at = get(last_key(writer)).map_or(0, |bytes| step_of(&bytes));
        let counted = get(counter_key(writer)).map_or(0, |bytes| step_of(&bytes));
        assert_eq!(counted, at, "the counter of writer {writer} is not at its step");
        assert!(at >= last, "a snapshot older than what was read before it");
        if rounds % 64 == 0 {
            check_scan(db, &options, writer, at);
        }
        rounds += 1;
    }
    rounds
}

/// A scan under a snapshot shows exactly the script up to the snapshot's step.
fn check_scan(db: &Db, options: &ReadOptions, writer: usize, at: u64) {
    let mut got = common::Entries::new();
    let mut cursor = db.cursor(options, db.default_cf()).unwrap();
    let prefix = format!("writer-{writer:02}-").into_bytes();
    cursor.seek(&prefix);
    while cursor.valid() && cursor.key().starts_with(&prefix) {
        got.push((cursor.key().to_vec(), cursor.value().to_vec()));
        cursor.next();
    }
    cursor.status().unwrap();
    let wanted: common::Entries = state_after(writer, at).into_iter().collect();
    if let Some(text) = common::difference(&got, &wanted) {
        panic!("scan at step {at} of writer {writer}: {text}");
    }
}

/// Lets writers write until told to stop; the steps that were acknowledged.
fn write_until(
    db: &Db,
    writers: usize,
    stop: &Arc<AtomicBool>,
    on_acknowledged: impl Fn(usize, u64) + Sync,
) -> Vec<u64> {
    let on_acknowledged = &on_acknowledged;
    thread::scope(|scope| {
        let handles: Vec<_> = (0..writers)
            .map(|writer| {
                let (db, stop) = (db.clone(), Arc::clone(stop));
                scope.spawn(move || {
                    let mut step = 0;
                    while !stop.load(Ordering::Relaxed) {
                        write_step(&db, writer, step + 1).unwrap();
                        step += 1;
                        on_acknowledged(writer, step);
                    }
                    step
                })
            })
            .collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect()
    })
}

fn write_and_read(writers: usize) {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("db");
    let variant = writers.ilog2() as usize;
    let db = Db::open(&dir, options(variant)).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let rounds = Arc::new(AtomicU64::new(0));
    let readers: Vec<_> = (0..writers)
        .map(|reader| {
            let (db, stop, rounds) = (db.clone(), Arc::clone(&stop), Arc::clone(&rounds));
            let body = move || {
                rounds.fetch_add(read_until(&db, writers, reader, &stop), Ordering::Relaxed);
            };
            thread::spawn(format!("reader{reader}"), body).unwrap()
        })
        .collect();
    let clock = SystemClock::new();
    let steps = AtomicU64::new(0);
    // At least so long, and on a busy machine until enough was written for several flushes.
    let acknowledged = write_until(&db, writers, &stop, |_, _| {
        let enough = steps.fetch_add(1, Ordering::Relaxed) > LEAST_STEPS;
        if enough && clock.now_nanos() > SECONDS * 1_000_000_000 {
            stop.store(true, Ordering::Relaxed);
        }
    });
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    println!("{writers} writers: {acknowledged:?} steps, {} reader rounds", rounds.load(Ordering::Relaxed));
    assert!(acknowledged.iter().all(|&steps| steps > 0));
    assert!(!db.live_files().is_empty(), "nothing was flushed: the test is too small");
    drop(db);
    verify(&dir, variant, &acknowledged);
}

#[test]
fn one_writer_and_reader() {
    write_and_read(1);
}

#[test]
fn two_writers_and_readers() {
    write_and_read(2);
}

#[test]
fn four_writers_and_readers() {
    write_and_read(4);
}

#[test]
fn eight_writers_and_readers() {
    write_and_read(8);
}

/// Not a test of its own: the process that [`what_was_acknowledged_survives_a_kill`] starts and kills.
#[test]
fn child_that_writes_until_killed() {
    let Ok(dir) = std::env::var("FIRN_KILL_TEST_DIR") else { return };
    let writers: usize = std::env::var("FIRN_KILL_TEST_WRITERS").unwrap().parse().unwrap();
    let db = Db::open(dir, options(writers.ilog2() as usize)).unwrap();
    let never = Arc::new(AtomicBool::new(false));
    write_until(&db, writers, &never, |writer, step| {
        // One write per line, so that a kill leaves whole lines but perhaps the last.
        let _ = std::io::stdout().write_all(format!("acknowledged {writer} {step}\n").as_bytes());
    });
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    for writers in [1, 2, 4, 8] {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("db");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_writes_until_killed", "--nocapture", "--test-threads=1"])
            .env("FIRN_KILL_TEST_DIR", &dir)
            .env("FIRN_KILL_TEST_WRITERS", writers.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let reader = thread::spawn("acknowledged", move || {
            let mut steps = vec![0_u64; writers];
            for line in output.lines().map_while(|line| line.ok()) {
                let mut words = line.rsplit(' ');
                if let (Some(step), Some(writer)) = (words.next(), words.next())
                    && line.contains("acknowledged ")
                    && let (Ok(step), Ok(writer)) = (step.parse::<u64>(), writer.parse::<usize>())
                    && let Some(slot) = steps.get_mut(writer)
                    // A line cut by the kill would show a smaller number.
                    && step == *slot + 1
                {
                    *slot = step;
                }
            }
            steps
        })
        .unwrap();
        SystemClock::new().sleep_micros(1_000_000);
        child.kill().unwrap();
        child.wait().unwrap();
        let acknowledged = reader.join().unwrap();
        println!("{writers} writers killed after {acknowledged:?} steps");
        assert!(acknowledged.iter().sum::<u64>() > 0, "the child wrote nothing");
        verify(&dir, writers.ilog2() as usize, &acknowledged);
    }
}
