//! Disks that fill up while the database writes: on ext4, XFS, btrfs and tmpfs a full disk is an error and never a signal,
//! nothing acknowledged is lost, no batch is torn, and the database goes on by itself once there is space again.
//!
//! Each test makes small file systems in files and mounts them, which takes root, loop devices, and the packages e2fsprogs,
//! xfsprogs and btrfs-progs. The writing is done by a child process, so that a signal is seen as what it is.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firn_env::{Clock, FileOptions, FileSystem, SystemClock, WritableFile, read_file, thread};
use firndb::{ColumnFamilyDescriptor, Db, DbOptions, Options, SubCode, WriteBatch, WriteOptions};

use common::FS;

/// What a child may take before it counts as hanging.
const WATCHDOG: Duration = Duration::from_secs(300);
/// What is free when a child begins to write.
const FREE_BYTES: u64 = 20 << 20;
/// What is given back to it later.
const BALLAST_BYTES: u64 = 16 << 20;
const THREADS: usize = 2;
/// Entries of a batch, over two families.
const BATCH: usize = 4;

/// A small file system, mounted until it is dropped.
struct Disk {
    name: String,
    mount: PathBuf,
    _temp: tempfile::TempDir,
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.mount).status();
    }
}

fn say_on_failure(command: &mut Command) -> std::result::Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

impl Disk {
    fn new(name: &str, make: &[&str], megabytes: u64) -> std::result::Result<Self, String> {
        let temp = tempfile::tempdir().unwrap();
        let (image, mount) = (temp.path().join("image"), temp.path().join("mount"));
        FS.create_dir(&mount).unwrap();
        if let Some((program, arguments)) = make.split_first() {
            FS.new_writable_file(&image, &FileOptions::default()).unwrap().truncate(megabytes << 20).unwrap();
            say_on_failure(Command::new(program).args(arguments).arg(&image))?;
            say_on_failure(Command::new("mount").args(["-o", "loop"]).args([&image, &mount]))?;
        } else {
            let size = format!("size={megabytes}m");
            say_on_failure(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&mount))?;
        }
        Ok(Self { name: name.to_owned(), mount, _temp: temp })
    }

    /// One of every kind that this machine can make.
    fn all() -> Vec<Self> {
        let kinds: [(&str, &[&str], u64); 5] = [
            ("tmpfs", &[], 48),
            ("ext4", &["mkfs.ext4", "-q", "-F"], 64),
            ("xfs", &["mkfs.xfs", "-q", "-f"], 320),
            ("xfs without shared blocks", &["mkfs.xfs", "-q", "-f", "-m", "reflink=0"], 320),
            ("btrfs", &["mkfs.btrfs", "-q", "-f"], 160),
        ];
        let mut disks = Vec::new();
        for (name, make, megabytes) in kinds {
            match Self::new(name, make, megabytes) {
                Ok(disk) => disks.push(disk),
                // Neither root nor loop devices can be installed, so this is never a failure.
                Err(error) => firndb_testing::skip(&format!("full disks on {name}: {error}")),
            }
        }
        disks
    }

    /// Takes all space but `FREE_BYTES`, of which `BALLAST_BYTES` can be had back.
    fn leave_little_space(&self) {
        let free = FS.free_space_bytes(&self.mount).unwrap();
        fill(&self.mount.join("filler"), free.saturating_sub(FREE_BYTES + BALLAST_BYTES));
        fill(&self.mount.join("ballast"), BALLAST_BYTES);
    }
}

/// Writes a file of so many bytes, or as many as there is room for.
fn fill(path: &Path, bytes: u64) {
    let options = FileOptions { writable_buffer_bytes: 0, ..FileOptions::default() };
    let mut file = FS.new_writable_file(path, &options).unwrap();
    let mut left = bytes;
    for step in [1 << 20, 64 << 10, 4 << 10, 512] {
        let chunk = vec![0x5a; step];
        while left >= step as u64 && file.append(&chunk).is_ok() {
            left -= step as u64;
        }
        let _ = file.sync();
    }
}

/// A child that plays one of the roles below, with what it prints.
struct Player {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Player {
    fn start(role: &str, dir: &Path, mode: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", role, "--nocapture", "--test-threads=1"])
            .env("FIRN_FULL_DISK_DIR", dir)
            .env("FIRN_FULL_DISK_MODE", mode)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn("lines", move || {
            output.lines().map_while(|line| line.ok()).all(|line| sender.send(line).is_ok());
        })
        .unwrap();
        Self { child, lines }
    }

    /// The lines up to one that ends with `last`, or all if it ends before.
    fn read_until(&mut self, last: &str) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            match self.lines.recv_timeout(WATCHDOG) {
                Ok(line) if line.ends_with(last) => return lines,
                Ok(line) => lines.push(line),
                Err(mpsc::RecvTimeoutError::Disconnected) => return lines,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    self.child.kill().unwrap();
                    panic!("the child hangs before {last:?}: {:?}", lines.last());
                }
            }
        }
    }

    fn end(mut self) -> (ExitStatus, Vec<String>) {
        let rest = self.read_until("(it says nothing like this)");
        (self.child.wait().unwrap(), rest)
    }
}

/// Not a test of its own: the process of [`a_full_disk_is_an_error_of_an_open_log`].
#[test]
fn child_that_fills_the_disk_under_a_log() {
    let Ok(dir) = std::env::var("FIRN_FULL_DISK_DIR").map(PathBuf::from) else { return };
    let options = FileOptions { mapped_log: true, writable_buffer_bytes: 0, ..FileOptions::default() };
    let path = dir.join("000001.log");
    let mut log = FS.new_writable_file(&path, &options).unwrap();
    let record = [7; 1000];
    let mut appended = 0;
    let append = |log: &mut dyn WritableFile, count: &mut u64| {
        let done = log.append(&record).and_then(|()| log.flush());
        *count += u64::from(done.is_ok());
        done
    };
    append(&mut *log, &mut appended).unwrap();
    // Where files can share blocks, these do from now on, and writing to either needs new ones.
    let copied = Command::new("cp").arg("--reflink=auto").arg(&path).arg(dir.join("copy")).status().unwrap();
    assert!(copied.success());
    fill(&dir.join("ballast"), u64::MAX);
    let error = loop {
        if let Err(error) = append(&mut *log, &mut appended) {
            break error;
        }
        assert!(appended < 64 << 10, "this disk is never full");
    };
    assert_eq!(error.subcode(), SubCode::NoSpace, "{error}");
    assert!(error.to_string().contains("000001.log"), "{error}");
    FS.remove_file(&dir.join("ballast")).unwrap();
    let _ = log.close();
    let bytes = read_file(&FS, &path, u64::MAX).unwrap();
    let whole = bytes.chunks(record.len()).take_while(|part| *part == record).count() as u64;
    assert!(whole >= appended, "{whole} of {appended} records");
    println!("appended {appended} records");
}

#[test]
fn a_full_disk_is_an_error_of_an_open_log() {
    for disk in Disk::all() {
        let (status, lines) = Player::start("child_that_fills_the_disk_under_a_log", &disk.mount, "").end();
        assert!(status.success(), "{}: {status}: {lines:?}", disk.name);
    }
}

fn options(mode: &str) -> (DbOptions, Vec<ColumnFamilyDescriptor>) {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.create_missing_column_families = true;
    options.db.bgerror_resume_retry_interval = 20_000;
    options.db.recycle_log_file_num = if mode.contains("recycled") { 2 } else { 0 };
    options.db.atomic_flush = mode.contains("atomic");
    options.cf.write_buffer_size = 512 << 10;
    options.cf.target_file_size_base = 512 << 10;
    options.cf.max_bytes_for_level_base = 2 << 20;
    let families = ["default", "other"].map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
    (options.db, families.into())
}

fn value_of(writer: usize, batch: u64, part: usize) -> Vec<u8> {
    // Does not compress, and differs from entry to entry.
    let mut state = (writer as u64) << 48 | batch << 8 | part as u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..1500).map(|_| next()).collect()
}

fn key_of(writer: usize, batch: u64, part: usize) -> Vec<u8> {
    format!("{writer}-{:04}-{batch:08}-{part}", batch * 7919 % 1000).into_bytes()
}

/// Checks that every batch of a writer up to the last acknowledged one is there, and that none is there in part.
fn verify(db: &Db, acknowledged: &[u64]) -> common::Outcome {
    let families = db.column_families();
    for (writer, &last) in acknowledged.iter().enumerate() {
        // Behind it there may be one more, which the writer heard nothing good of.
        for batch in 0..last + 2 {
            let mut found = 0;
            for part in 0..BATCH {
                let key = key_of(writer, batch, part);
                let got = common::say("get", db.get_opt(&Default::default(), &families[part % 2], key))?;
                if let Some(got) = got {
                    found += 1;
                    if *got != *value_of(writer, batch, part) {
                        return Err(format!("batch {batch} of writer {writer} has another value"));
                    }
                }
            }
            if found != BATCH && (found != 0 || batch < last) {
                return Err(format!("batch {batch} of writer {writer} ({last} acknowledged): {found} of {BATCH}"));
            }
        }
    }
    Ok(())
}

fn write_batch(db: &Db, writer: usize, batch: u64, sync: bool) -> firndb::Result<()> {
    let families = db.column_families();
    let mut records = WriteBatch::new();
    for part in 0..BATCH {
        records.put_cf(&families[part % 2], key_of(writer, batch, part), value_of(writer, batch, part))?;
    }
    db.write_opt(&WriteOptions { sync, ..WriteOptions::default() }, &mut records)
}

/// Not a test of its own: the process of the tests of whole databases.
#[test]
fn child_that_writes_until_the_disk_is_full() {
    let Ok(dir) = std::env::var("FIRN_FULL_DISK_DIR").map(PathBuf::from) else { return };
    let mode = std::env::var("FIRN_FULL_DISK_MODE").unwrap();
    let (db_options, families) = options(&mode);
    let db = Db::open_cf(dir.join("db"), db_options, families).unwrap();
    let acknowledged = Arc::new(Mutex::new(vec![0_u64; THREADS]));
    let writers: Vec<_> = (0..THREADS)
        .map(|writer| {
            let (db, acknowledged, sync) = (db.clone(), Arc::clone(&acknowledged), mode.contains("synced"));
            let body = move || {
                for batch in 0.. {
                    if let Err(error) = write_batch(&db, writer, batch, sync) {
                        // A write that was held by a stall quotes the error that ended the stall.
                        assert!(error.to_string().contains("No space left on device"), "{error}");
                        return;
                    }
                    acknowledged.lock().unwrap()[writer] = batch + 1;
                    let line = format!("acknowledged {writer} {}\n", batch + 1);
                    let _ = std::io::stdout().write_all(line.as_bytes());
                }
            };
            thread::spawn("writer", body).unwrap()
        })
        .collect();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    println!("it is full");
    // The parent makes room and says so.
    std::io::stdin().lock().read_line(&mut String::new()).unwrap();
    let clock = SystemClock::new();
    let mut acknowledged = acknowledged.lock().unwrap().clone();
    // What failed may be there or not; it is not written again.
    for batch in 0..200 {
        while write_batch(&db, THREADS, batch, false).is_err() {
            clock.sleep_micros(10_000);
        }
        if batch == 0 {
            acknowledged.push(0);
        }
        acknowledged[THREADS] = batch + 1;
    }
    verify(&db, &acknowledged).unwrap();
    db.close().unwrap();
    println!("acknowledged {THREADS} {}", acknowledged[THREADS]);
}

/// The last batch of each writer that lines tell of.
fn acknowledged_in(lines: &[String]) -> Vec<u64> {
    let mut last = BTreeMap::new();
    for line in lines {
        let Some((_, numbers)) = line.split_once("acknowledged ") else { continue };
        let Some((writer, batch)) = numbers.split_once(' ') else { continue };
        if let (Ok(writer), Ok(batch)) = (writer.parse::<usize>(), batch.parse::<u64>()) {
            let slot = last.entry(writer).or_insert(0);
            *slot = batch.max(*slot);
        }
    }
    (0..=THREADS).map(|writer| last.get(&writer).copied().unwrap_or(0)).collect()
}

/// Opens a database on a disk that had space freed; btrfs hands it out only some time later.
fn open_patiently(dir: &Path, options: &DbOptions, families: &[ColumnFamilyDescriptor]) -> firndb::Result<Db> {
    let mut attempts = 0;
    loop {
        match Db::open_cf(dir, options.clone(), families.to_vec()) {
            Err(error) if error.subcode() == SubCode::NoSpace && attempts < 600 => {
                attempts += 1;
                SystemClock::new().sleep_micros(100_000);
            }
            other => return other,
        }
    }
}

/// Fills every kind of disk; `killed` says whether the child is killed on the full disk or goes on when there is space.
fn fill_with_a_database(mode: &str, killed: bool) {
    for disk in Disk::all() {
        let what = format!("{}, {mode}, killed {killed}", disk.name);
        disk.leave_little_space();
        let mut child = Player::start("child_that_writes_until_the_disk_is_full", &disk.mount, mode);
        let mut lines = child.read_until("it is full");
        if killed {
            child.child.kill().unwrap();
        }
        FS.remove_file(&disk.mount.join("ballast")).unwrap();
        if !killed {
            let told = child.child.stdin.as_mut().unwrap().write_all(b"go on\n");
            told.unwrap_or_else(|error| panic!("{what}: the child is gone ({error}): {:?}", lines.last()));
        }
        let (status, rest) = child.end();
        assert!(killed || status.success(), "{what}: {status}: {rest:?}");
        lines.extend(rest);
        let acknowledged = acknowledged_in(&lines);
        println!("{what}: {acknowledged:?} batches");
        assert!(acknowledged.iter().take(THREADS).all(|&batches| batches > 20), "{what}: {acknowledged:?}");
        assert!(killed || acknowledged[THREADS] == 200, "{what}: {lines:?}");
        let (db_options, families) = options(mode);
        let db = open_patiently(&disk.mount.join("db"), &db_options, &families);
        let db = db.unwrap_or_else(|error| panic!("{what}: {error}"));
        verify(&db, &acknowledged).unwrap_or_else(|text| panic!("{what}: {text}"));
    }
}

#[test]
fn a_database_goes_on_when_there_is_space_again() {
    for mode in ["plain", "recycled synced", "atomic"] {
        fill_with_a_database(mode, false);
    }
}

#[test]
fn a_database_killed_on_a_full_disk_has_all_it_acknowledged() {
    for mode in ["plain", "recycled"] {
        fill_with_a_database(mode, true);
    }
}
