//! One thread of a generation: random operations on keys of its own, each noted in the journal before it begins and after it
//! returned, each answer compared with what the thread knows.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use firn_check::{Effort, Sight, shapes};
use firndb::options::{BottommostLevelCompaction, CompactRangeOptions, CompactionOptions, IngestExternalFileOptions};
use firndb::{
    ColumnFamily, Db, ErrorKind, FlushOptions, LiveFilesStorageInfoOptions, Snapshot, WriteBatch, WriteOptions,
};
use rand::Rng;
use rand::rngs::StdRng;

use super::contents::{Change, Contents, Op, SINGLE_SHARE};
use super::contents::{key, key_number, part};
use super::expected::{Journal, Survival};
use super::reads::{Outcome, Reader, say};
use super::setup::Setup;
use super::stress_flags::StressFlags;

/// A value is merged at most so often before it is put anew.
const MAX_PARTS: usize = 6;
/// Snapshots that a thread holds at once.
const MAX_SNAPSHOTS: usize = 4;
/// Column families that a thread has of its own at once.
const MAX_OWN_FAMILIES: usize = 2;

type View = BTreeMap<String, Arc<Contents>>;

/// What the threads of a generation share.
pub struct Shared {
    /// The flags.
    pub flags: StressFlags,
    /// The database.
    pub db: Db,
    /// The options of this generation.
    pub setup: Setup,
    /// The number of this generation.
    pub generation: u64,
    /// The families that every open creates when they are missing.
    pub fixed: Vec<String>,
    /// Orders what threads begin and finish.
    pub stamps: AtomicU64,
    /// Tells all threads to end.
    pub stop: AtomicBool,
    /// Where checkpoints go.
    pub scratch: PathBuf,
}

/// One thread.
pub struct Worker {
    shared: Arc<Shared>,
    number: usize,
    range: Range<u32>,
    rng: StdRng,
    journal: Journal,
    /// What the range of this thread holds now.
    view: View,
    snapshots: Vec<(Snapshot, View)>,
    next_id: u64,
    /// Keys of the ordinary kind of this thread at which files began or ended when last looked at.
    edges: Vec<u32>,
    /// Numbers the files and directories that this thread makes outside the database.
    files: u32,
}

impl Worker {
    /// A thread that knows that the database holds `view` within `range`.
    pub fn new(
        shared: Arc<Shared>,
        number: usize,
        range: Range<u32>,
        rng: StdRng,
        journal: Journal,
        view: View,
    ) -> Self {
        let next_id = shared.generation << 32 | 1;
        Self { shared, number, range, rng, journal, view, snapshots: Vec::new(), next_id, edges: Vec::new(), files: 0 }
    }

    /// Runs until it has done its operations or is told to stop.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn run(mut self) -> Outcome {
        for _ in 0..self.shared.flags.ops_per_thread {
            if self.shared.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            self.step()?;
        }
        self.check_all()
    }

    fn step(&mut self) -> Outcome {
        let flags = self.shared.flags.clone();
        let mut percent = self.rng.random_range(0..100);
        let mut is = |share: u32| {
            let hit = percent < share;
            percent = percent.saturating_sub(share);
            hit
        };
        if is(flags.writepercent) {
            self.write()
        } else if is(flags.readpercent) {
            self.read()
        } else if is(flags.prefixpercent) {
            let key = self.key();
            self.with_reader(|reader, _| reader.prefix(key))
        } else if is(flags.delpercent) {
            let change = self.deletion();
            self.commit(vec![change])
        } else if is(flags.delrangepercent) {
            let (a, b) = (self.key(), self.key());
            let length = if self.rng.random_bool(0.9) { 40 } else { u32::MAX };
            let (from, to) = (a.min(b), a.max(b).min(a.min(b).saturating_add(length)));
            let change = (self.family(), Change::DeleteRange(from, to));
            self.commit(vec![change])
        } else if is(flags.iterpercent) {
            self.with_reader(|reader, rng| reader.walk(rng, 20))
        } else if is(flags.customopspercent) {
            self.custom(&flags)
        } else {
            Ok(())
        }
    }

    fn one_in(&mut self, odds: u32) -> bool {
        odds > 0 && self.rng.random_range(0..odds) == 0
    }

    /// A random key of the ordinary kind: never in the last part of the range, where only single deletes delete.
    fn key(&mut self) -> u32 {
        if !self.edges.is_empty() && self.rng.random_bool(0.1) {
            return self.edges[self.rng.random_range(0..self.edges.len())];
        }
        self.rng.random_range(self.range.start..self.ordinary_end())
    }

    fn look_for_edges(&mut self, cf: &ColumnFamily) {
        let ordinary = self.range.start..self.ordinary_end();
        let edges = shapes::boundaries(&self.shared.db, cf).into_iter().filter_map(|key| key_number(&key));
        let edges = edges.flat_map(|number| [number.saturating_sub(1), number, number.saturating_add(1)]);
        self.edges = edges.filter(|number| ordinary.contains(number)).collect();
    }

    /// Where keys of the ordinary kind end and those for single deletes begin.
    fn ordinary_end(&self) -> u32 {
        self.range.end - (self.range.end - self.range.start) / SINGLE_SHARE
    }

    /// A random key of the kind that is put when absent and removed by single deletes.
    fn single_key(&mut self) -> u32 {
        self.rng.random_range(self.ordinary_end()..self.range.end)
    }

    fn family(&mut self) -> String {
        let index = self.rng.random_range(0..self.view.len());
        self.view.keys().nth(index).cloned().unwrap_or_else(|| "default".to_owned())
    }

    fn handle(&self, family: &str) -> Result<ColumnFamily, String> {
        self.shared.db.cf(family).ok_or_else(|| format!("column family {family} is gone"))
    }

    // Writing.

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn deletion(&mut self) -> (String, Change) {
        let family = self.family();
        if self.rng.random_bool(0.3) {
            let key = self.single_key();
            if self.view[&family].contains_key(&key) {
                return (family, Change::SingleDelete(key));
            }
            let id = self.id();
            return (family, Change::Put(key, id));
        }
        (family, Change::Delete(self.key()))
    }

    fn write(&mut self) -> Outcome {
        let count = match self.rng.random_range(0..100) {
            0..60 => 1,
            60..98 => self.rng.random_range(2..20),
            98 => return self.many_versions(),
            _ => 200,
        };
        let mut changes: Vec<(String, Change)> = Vec::new();
        for _ in 0..count {
            if self.rng.random_bool(0.1) {
                let deletion = self.deletion();
                // A batch touches a single-delete key once at most: the contract counts puts.
                let touches = |change: &Change| match change {
                    Change::Put(key, _) | Change::SingleDelete(key) => Some(*key),
                    _ => None,
                };
                if !changes
                    .iter()
                    .any(|(family, change)| *family == deletion.0 && touches(change) == touches(&deletion.1))
                {
                    changes.push(deletion);
                }
                continue;
            }
            let (family, key, id) = (self.family(), self.key(), self.id());
            let parts = self.view[&family].get(&key).map_or(0, Vec::len)
                + changes.iter().filter(|(_, change)| matches!(change, Change::Merge(k, _) if *k == key)).count();
            let merge = self.shared.flags.use_merge && parts < MAX_PARTS && self.rng.random_bool(0.3);
            changes.push((family, if merge { Change::Merge(key, id) } else { Change::Put(key, id) }));
        }
        if changes.is_empty() { Ok(()) } else { self.commit(changes) }
    }

    /// More versions of one key than a cursor steps over one by one.
    fn many_versions(&mut self) -> Outcome {
        let (family, key) = (self.family(), self.key());
        let versions = self.rng.random_range(5..40);
        let changes = (0..versions).map(|_| (family.clone(), Change::Put(key, self.id()))).collect();
        self.commit(changes)
    }

    /// Writes the changes as a batch, or as a single call when there is one.
    fn commit(&mut self, changes: Vec<(String, Change)>) -> Outcome {
        let sync = !self.shared.setup.disable_wal && self.rng.random_bool(0.005);
        let options = WriteOptions { sync, disable_wal: self.shared.setup.disable_wal, ..WriteOptions::default() };
        let db = self.shared.db.clone();
        let handles: BTreeMap<String, ColumnFamily> = changes
            .iter()
            .map(|(family, _)| Ok((family.clone(), self.handle(family)?)))
            .collect::<Result<_, String>>()?;
        let single = changes.len() == 1 && self.rng.random_bool(0.7);
        self.note(&Op::Write(changes.clone()))?;
        let written = if let ([(family, change)], true) = (changes.as_slice(), single) {
            let cf = &handles[family];
            match *change {
                Change::Put(number, id) => db.put_opt(&options, cf, key(number), part(id)),
                Change::Merge(number, id) => db.merge_opt(&options, cf, key(number), part(id)),
                Change::Delete(number) => db.delete_opt(&options, cf, key(number)),
                Change::SingleDelete(number) => db.single_delete_opt(&options, cf, key(number)),
                Change::DeleteRange(from, to) => db.delete_range_opt(&options, cf, key(from), key(to)),
            }
        } else {
            batch(&changes, &handles).and_then(|mut batch| db.write_opt(&options, &mut batch))
        };
        say("write", written)?;
        self.noted()?;
        self.apply(&changes);
        Ok(())
    }

    /// Notes in the view what was written.
    fn apply(&mut self, changes: &[(String, Change)]) {
        for (family, change) in changes {
            if let Some(contents) = self.view.get_mut(family) {
                change.apply(Arc::make_mut(contents));
            }
        }
    }

    fn note(&mut self, op: &Op) -> Outcome {
        let stamp = self.shared.stamps.fetch_add(1, Ordering::SeqCst);
        say("journal", self.journal.begin(stamp, op))
    }

    fn noted(&mut self) -> Outcome {
        let stamp = self.shared.stamps.fetch_add(1, Ordering::SeqCst);
        say("journal", self.journal.done(stamp))
    }

    // Reading.

    /// Calls `check` for a family, now or at a snapshot that this thread holds.
    fn with_reader(&mut self, check: impl FnOnce(&Reader<'_>, &mut StdRng) -> Outcome) -> Outcome {
        let held = (!self.snapshots.is_empty() && self.rng.random_bool(0.3))
            .then(|| self.rng.random_range(0..self.snapshots.len()));
        let family = self.family();
        let (snapshot, view) = match held.and_then(|index| self.snapshots.get(index)) {
            Some((snapshot, view)) => (Some(snapshot.clone()), view),
            None => (None, &self.view),
        };
        // The family may be younger than the snapshot.
        let Some(contents) = view.get(&family).cloned() else { return Ok(()) };
        let cf = self.handle(&family)?;
        let reader = Reader { db: &self.shared.db, cf: &cf, contents: &contents, range: self.range.clone(), snapshot };
        check(&reader, &mut self.rng)
    }

    fn read(&mut self) -> Outcome {
        let range = self.range.clone();
        self.with_reader(|reader, rng| {
            if rng.random_bool(0.6) {
                return reader.get(rng.random_range(range));
            }
            let numbers: Vec<u32> = (0..rng.random_range(1..30)).map(|_| rng.random_range(range.clone())).collect();
            reader.multi_get(&numbers)
        })
    }

    fn check_view(&self, view: &View, snapshot: Option<&Snapshot>, backwards: bool) -> Outcome {
        for (family, contents) in view {
            let Some(cf) = self.shared.db.cf(family) else { continue };
            let (range, snapshot) = (self.range.clone(), snapshot.cloned());
            Reader { db: &self.shared.db, cf: &cf, contents, range, snapshot }.everything(backwards)?;
        }
        Ok(())
    }

    fn check_all(&self) -> Outcome {
        for (snapshot, view) in &self.snapshots {
            self.check_view(view, Some(snapshot), false)?;
        }
        self.check_view(&self.view, None, false)
    }

    // Everything else.

    fn custom(&mut self, flags: &StressFlags) -> Outcome {
        if self.one_in(flags.acquire_snapshot_one_in) {
            self.snapshot()?;
        }
        if self.one_in(flags.flush_one_in) {
            self.flush()?;
        }
        if self.one_in(flags.sync_wal_one_in) {
            self.sync_wal()?;
        }
        if self.one_in(flags.compact_range_one_in) {
            self.compact_range()?;
        }
        if self.one_in(flags.compact_files_one_in) {
            self.compact_files()?;
        }
        if self.one_in(flags.set_options_one_in) {
            self.set_options()?;
        }
        if self.one_in(flags.clear_column_family_one_in) {
            self.change_families()?;
        }
        if self.one_in(flags.ingest_external_file_one_in) {
            self.ingest()?;
        }
        if self.one_in(flags.checkpoint_one_in) {
            self.checkpoint()?;
        }
        if self.one_in(flags.verify_checksum_one_in) {
            say("verify_checksum", self.shared.db.verify_checksum())?;
        }
        if self.one_in(flags.get_live_files_apis_one_in) {
            self.live_files()?;
        }
        if self.one_in(flags.get_property_one_in) {
            self.properties()?;
        }
        if self.one_in(flags.verify_db_one_in) {
            let backwards = self.rng.random_bool(0.5);
            let view = self.view.clone();
            self.check_view(&view, None, backwards)?;
            self.check_agreement()?;
        }
        Ok(())
    }

    /// All ways of reading agree on all keys, those of other threads too, which write meanwhile: at a snapshot.
    fn check_agreement(&mut self) -> Outcome {
        let family = self.family();
        let cf = self.handle(&family)?;
        self.look_for_edges(&cf);
        let held = self.snapshots.first().filter(|_| self.rng.random_bool(0.5));
        let snapshot = held.map_or_else(|| self.shared.db.snapshot(), |(snapshot, _)| snapshot.clone());
        Sight::learn(&self.shared.db, &cf, Some(snapshot))?.check(&mut self.rng, Effort::SHORT, &[])
    }

    fn snapshot(&mut self) -> Outcome {
        if self.snapshots.len() < MAX_SNAPSHOTS && self.rng.random_bool(0.6) {
            self.snapshots.push((self.shared.db.snapshot(), self.view.clone()));
        } else if !self.snapshots.is_empty() {
            let index = self.rng.random_range(0..self.snapshots.len());
            let (snapshot, view) = self.snapshots.swap_remove(index);
            let backwards = self.rng.random_bool(0.3);
            self.check_view(&view, Some(&snapshot), backwards)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Outcome {
        let db = self.shared.db.clone();
        let wait = self.rng.random_bool(0.6);
        let options = FlushOptions { wait, allow_write_stall: true, ..FlushOptions::default() };
        if self.rng.random_bool(0.6) {
            let family = self.family();
            return say("flush", db.flush(&options, &self.handle(&family)?));
        }
        let families = db.column_families();
        // A family that another thread drops meanwhile needs no flush, and a drop is no failure.
        let flushed = if wait {
            self.note(&Op::Persist)?;
            let flushed = db.flush_cfs(&options, &families.iter().collect::<Vec<_>>());
            if flushed.is_ok() {
                self.noted()?;
            }
            flushed
        } else {
            db.flush_cfs(&options, &families.iter().collect::<Vec<_>>())
        };
        match flushed {
            Err(error) if error.kind() == ErrorKind::ColumnFamilyDropped => Ok(()),
            other => say("flush of all families", other),
        }
    }

    fn sync_wal(&mut self) -> Outcome {
        let sync = self.rng.random_bool(0.3);
        if self.shared.setup.disable_wal {
            return say("flush_wal", if sync { self.shared.db.sync_wal() } else { self.shared.db.flush_wal(false) });
        }
        self.note(&Op::Persist)?;
        say("flush_wal", self.shared.db.flush_wal(sync))?;
        self.noted()
    }

    fn compact_range(&mut self) -> Outcome {
        use BottommostLevelCompaction::{Force, ForceOptimized, IfHaveCompactionFilter, Skip};
        let family = self.family();
        let (a, b) = (self.key(), self.key());
        let begin = self.rng.random_bool(0.7).then(|| key(a.min(b)));
        let end = self.rng.random_bool(0.7).then(|| key(a.max(b)));
        let options = CompactRangeOptions {
            exclusive_manual_compaction: self.rng.random_bool(0.3),
            max_subcompactions: self.rng.random_range(0..4),
            bottommost_level_compaction: [Force, ForceOptimized, IfHaveCompactionFilter, Skip]
                [self.rng.random_range(0..4)],
            ..CompactRangeOptions::default()
        };
        let cf = self.handle(&family)?;
        let compacted = self.shared.db.compact_range(&options, &cf, begin.as_deref(), end.as_deref());
        say("compact_range", compacted)
    }

    fn compact_files(&mut self) -> Outcome {
        let family = self.family();
        let cf = self.handle(&family)?;
        let mut files = self.shared.db.live_files();
        files.retain(|file| file.column_family == family);
        if files.is_empty() {
            return Ok(());
        }
        let first = self.rng.random_range(0..files.len());
        let chosen: Vec<_> = files.iter().skip(first).take(self.rng.random_range(1..4)).collect();
        let lowest = chosen.iter().map(|file| file.level).max().unwrap_or(0);
        let levels = usize::try_from(self.shared.db.options(&cf).cf.num_levels).unwrap_or(1);
        let level = self.rng.random_range(lowest..=(lowest + 1).min(levels - 1));
        let numbers: Vec<_> = chosen.iter().map(|file| file.number).collect();
        match self.shared.db.compact_files(&CompactionOptions::default(), &cf, &numbers, level) {
            // The files may be gone or taken by the time.
            Err(error) if matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::Aborted) => Ok(()),
            other => say("compact_files", other),
        }
    }

    fn set_options(&mut self) -> Outcome {
        const CHOICES: [&[(&str, &str)]; 5] = [
            &[("disable_auto_compactions", "false")],
            &[("level0_file_num_compaction_trigger", "3"), ("target_file_size_base", "9000")],
            &[("write_buffer_size", "100000")],
            &[("max_bytes_for_level_base", "50000")],
            &[("disable_auto_compactions", "true"), ("level0_slowdown_writes_trigger", "20")],
        ];
        let choice = CHOICES[self.rng.random_range(0..CHOICES.len())];
        let family = self.family();
        say("set_options", self.shared.db.set_options(&self.handle(&family)?, choice))
    }

    fn change_families(&mut self) -> Outcome {
        let own: Vec<String> = self.view.keys().filter(|name| !self.shared.fixed.contains(name)).cloned().collect();
        if own.len() < MAX_OWN_FAMILIES && (own.is_empty() || self.rng.random_bool(0.5)) {
            let id = self.id();
            let name = format!("own-{}-{id}", self.number);
            self.note(&Op::CreateFamily(name.clone()))?;
            let (options, _) = self.shared.setup.column_family(&name);
            say("create_cf", self.shared.db.create_cf(&name, options))?;
            self.noted()?;
            self.view.insert(name, Arc::default());
            return Ok(());
        }
        let name = own[self.rng.random_range(0..own.len())].clone();
        let cf = self.handle(&name)?;
        self.note(&Op::DropFamily(name.clone()))?;
        say("drop_cf", self.shared.db.drop_cf(&cf))?;
        self.noted()?;
        self.view.remove(&name);
        // A handle reads on after the drop.
        drop(cf);
        Ok(())
    }

    /// Writes a table outside the database and ingests it. Ingested data is durable at once, so it would overtake writes
    /// that a kill may take: only where it takes none.
    fn ingest(&mut self) -> Outcome {
        if self.shared.setup.survival != Survival::Everything {
            return Ok(());
        }
        let family = self.family();
        let cf = self.handle(&family)?;
        let first = self.key();
        let last = first.saturating_add(self.rng.random_range(1..40)).min(self.ordinary_end());
        let mut changes = Vec::new();
        if self.rng.random_bool(0.2) {
            changes.push((family.clone(), Change::DeleteRange(first, last)));
        }
        for number in first..last {
            match self.rng.random_range(0..4) {
                0 => changes.push((family.clone(), Change::Delete(number))),
                1 | 2 => changes.push((family.clone(), Change::Put(number, self.id()))),
                _ => {}
            }
        }
        if changes.is_empty() {
            return Ok(());
        }
        self.files += 1;
        let path = self.shared.scratch.join(format!("ingested-{}-{}.sst", self.number, self.files));
        let db = self.shared.db.clone();
        let mut writer = firndb::sst_file_writer(&db.options(&cf));
        let written = writer.open(&path).and_then(|()| {
            for (_, change) in &changes {
                match *change {
                    Change::DeleteRange(from, to) => writer.delete_range(&key(from), &key(to))?,
                    Change::Put(number, id) => writer.put(&key(number), &part(id))?,
                    Change::Delete(number) | Change::SingleDelete(number) => writer.delete(&key(number))?,
                    Change::Merge(number, id) => writer.merge(&key(number), &part(id))?,
                }
            }
            writer.finish()
        });
        say("external file", written)?;
        let options =
            IngestExternalFileOptions { move_files: self.rng.random_bool(0.5), ..IngestExternalFileOptions::default() };
        self.note(&Op::Write(changes.clone()))?;
        say("ingest_external_file", db.ingest_external_file(&cf, &[&path], &options))?;
        self.noted()?;
        self.apply(&changes);
        if !options.move_files {
            let fs = Arc::clone(db.options(&cf).db.env.fs());
            say("removal of an external file", fs.remove_file(&path))?;
        }
        Ok(())
    }

    /// Makes a checkpoint, opens it and compares what this thread has written.
    fn checkpoint(&mut self) -> Outcome {
        self.files += 1;
        let dir = self.shared.scratch.join(format!("checkpoint-{}-{}", self.number, self.files));
        let wal_size = if self.shared.setup.disable_wal || self.rng.random_bool(0.5) { 0 } else { u64::MAX };
        match self.shared.db.checkpoint_with_wal(&dir, wal_size) {
            // Another thread dropped a family while all were flushed.
            Err(error) if error.kind() == ErrorKind::ColumnFamilyDropped => return Ok(()),
            made => _ = say("checkpoint", made)?,
        }
        let options = self.shared.setup.db.clone();
        let names = say("families of a checkpoint", Db::list_column_families(&dir, &options))?;
        let copy =
            say("open of a checkpoint", Db::open_cf(&dir, options.clone(), self.shared.setup.descriptors(&names)))?;
        for (family, contents) in &self.view {
            let cf = copy.cf(family).ok_or_else(|| format!("a checkpoint lacks column family {family}"))?;
            let reader = Reader { db: &copy, cf: &cf, contents, range: self.range.clone(), snapshot: None };
            reader.everything(false).map_err(|text| format!("checkpoint: {text}"))?;
        }
        say("close of a checkpoint", copy.close())?;
        drop(copy);
        let all = firndb::Options { db: options, ..firndb::Options::default() };
        say("removal of a checkpoint", Db::destroy(&dir, &all))
    }

    fn live_files(&self) -> Outcome {
        let db = &self.shared.db;
        say("disable_file_deletions", db.disable_file_deletions())?;
        let looked = (|| {
            let options = LiveFilesStorageInfoOptions { wal_size_for_flush: u64::MAX };
            let fs = Arc::clone(db.options(db.default_cf()).db.env.fs());
            for file in say("live_files_storage_info", db.live_files_storage_info(&options))? {
                let path = file.directory.join(&file.name);
                let size = say("live file", fs.file_size(&path))?;
                if size < file.size_bytes {
                    return Err(format!("{} has {size} bytes instead of {}", path.display(), file.size_bytes));
                }
            }
            say("sorted_wal_files", db.sorted_wal_files()).map(drop)
        })();
        say("enable_file_deletions", db.enable_file_deletions())?;
        looked
    }

    fn properties(&mut self) -> Outcome {
        let family = self.family();
        let cf = self.handle(&family)?;
        for name in ["rocksdb.stats", "rocksdb.levelstats", "rocksdb.sstables", "rocksdb.estimate-num-keys"] {
            if self.shared.db.property(&cf, name).is_none() {
                return Err(format!("property {name} is missing"));
            }
        }
        if self.shared.db.property(&cf, "rocksdb.background-errors").as_deref() != Some("0") {
            return Err("there was a background error".to_owned());
        }
        Ok(())
    }
}

fn batch(changes: &[(String, Change)], handles: &BTreeMap<String, ColumnFamily>) -> firndb::Result<WriteBatch> {
    let mut batch = WriteBatch::new();
    for (family, change) in changes {
        let cf = &handles[family];
        match *change {
            Change::Put(number, id) => batch.put_cf(cf, key(number), part(id))?,
            Change::Merge(number, id) => batch.merge_cf(cf, key(number), part(id))?,
            Change::Delete(number) => batch.delete_cf(cf, key(number))?,
            Change::SingleDelete(number) => batch.single_delete_cf(cf, key(number))?,
            Change::DeleteRange(from, to) => batch.delete_range_cf(cf, key(from), key(to))?,
        }
    }
    Ok(batch)
}
