//! The life of one process: open, verify what the last generation left, work, close, and again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use firn_check::{Effort, Sight};
use firn_env::{Env, create_dir_all, thread};
use firndb::{Db, DbOptions, ReadOptions};
use rand::Rng;

use super::contents::Contents;
use super::expected::{Known, State, Store};
use super::reads::{Outcome, Reader, say, scan};
use super::setup::{Setup, fixed_families, random};
use super::stress_flags::StressFlags;
use super::verify::{Families, KeyRanges, verify};
use super::worker::{Shared, Worker};

/// One in so many opens waits for compactions and looks for files that nobody needs.
const FILES_CHECKED_ONE_IN: u64 = 8;
/// How long such files may wait for their removal.
const REMOVAL_MILLIS: u64 = 60_000;
/// Gets that cross-check each column family after an open.
const GETS_AFTER_OPEN: u32 = 200;

/// One process and its place.
pub struct Life {
    env: Env,
    flags: StressFlags,
    expected_dir: PathBuf,
    scratch: PathBuf,
    ranges: KeyRanges,
    fixed: Vec<String>,
    /// Where lines for people go.
    say: fn(&str),
}

/// The directory of the expected state.
pub fn expected_dir(flags: &StressFlags) -> PathBuf {
    match flags.expected_values_dir.as_str() {
        "" => PathBuf::from(format!("{}.expected", flags.db)),
        dir => PathBuf::from(dir),
    }
}

/// Removes a directory with all that is in it.
///
/// # Errors
/// `IoError` naming the path.
pub fn remove_all(env: &Env, dir: &Path) -> firn_error::Result<()> {
    let fs = env.fs();
    if !fs.file_exists(dir)? {
        return Ok(());
    }
    for name in fs.children(dir)? {
        let path = dir.join(name);
        if fs.is_directory(&path)? { remove_all(env, &path)? } else { fs.remove_file(&path)? }
    }
    fs.remove_dir(dir)
}

impl Life {
    /// A life with these flags; lines for people go to `say`.
    ///
    /// # Errors
    /// When the directories cannot be made.
    pub fn new(env: Env, flags: StressFlags, say_line: fn(&str)) -> Result<Self, String> {
        let (expected_dir, scratch) = (expected_dir(&flags), PathBuf::from(format!("{}.scratch", flags.db)));
        if flags.destroy_db_initially {
            for dir in [Path::new(&flags.db), &expected_dir] {
                say("destroy", remove_all(&env, dir))?;
            }
        }
        say("clean up", remove_all(&env, &scratch))?;
        for dir in [&expected_dir, &scratch] {
            say("create directory", create_dir_all(&**env.fs(), dir))?;
        }
        let keys_per_thread = (flags.max_key / flags.threads.max(1)).max(64);
        let fixed = fixed_families(flags.column_families);
        Ok(Self { env, flags, expected_dir, scratch, ranges: KeyRanges { keys_per_thread }, fixed, say: say_line })
    }

    fn store(&self) -> Store<'_> {
        Store { fs: &**self.env.fs(), dir: &self.expected_dir }
    }

    /// All generations of this process.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn run(&self) -> Outcome {
        let clock = self.env.clock();
        let end =
            clock.now_secs().saturating_add(if self.flags.duration == 0 { u64::MAX } else { self.flags.duration });
        for _ in 0..=self.flags.reopen {
            self.generation(end)?;
            if self.flags.verification_only || clock.now_secs() >= end {
                break;
            }
        }
        Ok(())
    }

    fn generation(&self, end: u64) -> Outcome {
        let known = say("expected state", self.store().load())?;
        let generation = known.as_ref().map_or(1, |known| known.state.generation + 1);
        let setup = Setup::draw(self.flags.seed, generation, known.as_ref().is_none_or(|known| known.closed));
        (self.say)(&format!("Generation {generation}, {:?} survives a kill: {}", setup.survival, setup.text));
        let db = self.open(&setup, known.is_none())?;
        let found = self.verify(&db, known.as_ref())?;
        if generation.is_multiple_of(FILES_CHECKED_ONE_IN) || self.flags.verification_only {
            self.check_files(&db)?;
        }
        (self.say)("Crash-recovery verification passed :)");
        if self.flags.verification_only {
            return say("close", db.close());
        }
        let families = found.into_iter().collect();
        let state = State { generation, survival: setup.survival, families };
        say("expected state", self.store().begin(&state))?;
        (self.say)("Starting database operations");
        self.work(db.clone(), setup, &state, end)?;
        say("close", db.close())?;
        drop(db);
        say("expected state", self.store().end(generation))?;
        (self.say)("Verification successful");
        Ok(())
    }

    fn open(&self, setup: &Setup, first: bool) -> Result<Db, String> {
        let dir = Path::new(&self.flags.db);
        let mut names = match Db::list_column_families(dir, &DbOptions::default()) {
            Err(error) if first && error.is_path_not_found() => Vec::new(),
            names => say("list_column_families", names)?,
        };
        let missing: Vec<String> = self.fixed.iter().filter(|name| !names.contains(name)).cloned().collect();
        names.extend(missing);
        say("open", Db::open_cf(dir, setup.db.clone(), setup.descriptors(&names)))
    }

    /// Compares the whole database with what is known; returns what it holds.
    fn verify(&self, db: &Db, known: Option<&Known>) -> Result<Families, String> {
        let mut found = Families::new();
        for cf in db.column_families() {
            let options = ReadOptions { total_order_seek: true, ..ReadOptions::default() };
            found.insert(cf.name().to_owned(), scan(db, &cf, &options, false)?);
        }
        if let Some(known) = known {
            verify(known, &found, self.ranges, &self.fixed).map_err(|text| {
                format!("after generation {} (closed: {}): {text}", known.state.generation, known.closed)
            })?;
        }
        // Other ways of reading must agree with the scan.
        let generation = known.map_or(0, |known| known.state.generation);
        let mut rng = random(self.flags.seed, ("verify", generation));
        for cf in db.column_families() {
            let contents = &found[cf.name()];
            let range = 0..self.ranges.keys_per_thread.saturating_mul(self.flags.threads);
            let reader = Reader { db, cf: &cf, contents, range: range.clone(), snapshot: None };
            reader.everything(true)?;
            for _ in 0..GETS_AFTER_OPEN {
                reader.get(rng.random_range(range.clone()))?;
            }
            Sight::learn(db, &cf, None)?.check(&mut rng, Effort::LONG, &[])?;
        }
        Ok(found)
    }

    /// What killed processes left is removed: the directory has no table that the database does not have.
    fn check_files(&self, db: &Db) -> Outcome {
        for _ in 0..REMOVAL_MILLIS / 10 {
            say("wait_for_compact", db.wait_for_compact())?;
            let names = say("children", self.env.fs().children(Path::new(&self.flags.db)))?;
            let live: BTreeSet<String> = db.live_files().into_iter().map(|file| file.name).collect();
            if names.iter().all(|name| !name.ends_with(".sst") || live.contains(&format!("/{name}"))) {
                return Ok(());
            }
            self.env.clock().sleep_micros(10_000);
        }
        Err("the directory has tables that nobody needs".to_owned())
    }

    fn work(&self, db: Db, setup: Setup, state: &State, end: u64) -> Outcome {
        let generation = state.generation;
        let shared = Arc::new(Shared {
            flags: self.flags.clone(),
            db,
            setup,
            generation,
            fixed: self.fixed.clone(),
            stamps: AtomicU64::new(1),
            stop: AtomicBool::new(false),
            scratch: self.scratch.clone(),
        });
        let mut threads = Vec::new();
        for number in 0..self.flags.threads as usize {
            let range = self.ranges.of(number);
            let own = |name: &str| name.strip_prefix("own-").and_then(|rest| rest.split('-').next()?.parse().ok());
            let view = state
                .families
                .iter()
                .filter(|(name, _)| own(name).is_none_or(|owner: usize| owner == number))
                .map(|(name, contents)| {
                    let part = contents.range(range.clone()).map(|(key, ids)| (*key, ids.clone()));
                    (name.clone(), Arc::new(part.collect::<Contents>()))
                })
                .collect();
            let journal = say("journal", self.store().journal(generation, number))?;
            let rng = random(self.flags.seed, ("thread", generation, number));
            let worker = Worker::new(Arc::clone(&shared), number, range, rng, journal, view);
            let stop = Arc::clone(&shared);
            let body = move || {
                let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| worker.run()));
                let outcome = outcome.unwrap_or_else(|_| Err("a thread panicked".to_owned()));
                if outcome.is_err() {
                    stop.stop.store(true, Ordering::Relaxed);
                }
                outcome
            };
            threads.push(say("thread", thread::spawn(format!("stress{number}"), body))?);
        }
        while !threads.iter().all(|thread| thread.is_finished()) {
            self.env.clock().sleep_micros(5000);
            if self.env.clock().now_secs() >= end {
                shared.stop.store(true, Ordering::Relaxed);
            }
        }
        for (number, thread) in threads.into_iter().enumerate() {
            let outcome = thread.join().unwrap_or_else(|_| Err("a thread panicked".to_owned()));
            outcome.map_err(|text| format!("generation {generation}, thread {number}: {text}"))?;
        }
        Ok(())
    }
}
