//! One life of one database: random operations, each mirrored in the model, each answer compared.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;

use firn_check::recipe::{self, Fixed, Merge};
use firn_check::shapes::{self, Laid};
use firn_check::{Effort, Sight, Walk};
use firn_env::FileSystem;
use firndb::options::{BottommostLevelCompaction, CompactRangeOptions, IngestExternalFileOptions};
use firndb::{
    ColumnFamily, ColumnFamilyDescriptor, Db, FlushOptions, ReadOptions, Snapshot, WriteBatch, WriteOptions,
    sst_file_writer,
};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::Status;
use super::reference::{Change, Family, View};
use crate::common::{self, FS};

type Outcome = Result<(), String>;

/// How many operations are shown when a life fails.
const SHOWN_OPERATIONS: usize = 40;
/// Keys with this prefix are put once and then deleted by `single_delete`, never otherwise: its contract.
const SINGLE: &[u8] = b"zz-single-";
/// Keys beside others grow by a byte; they end here.
const LONGEST_KEY: usize = 60;
/// How many ends of files are remembered.
const EDGES: usize = 40;

struct Life {
    rng: StdRng,
    temp: tempfile::TempDir,
    dir: PathBuf,
    db: Option<Db>,
    view: View,
    fixed: BTreeMap<String, Fixed>,
    snapshots: Vec<(Snapshot, View)>,
    walks: Vec<Walk>,
    log: VecDeque<String>,
    options_text: String,
    keys: usize,
    key_style: u32,
    singles: u64,
    /// Files that meet are laid all the time.
    lays_files: bool,
    /// Keys at which files began or ended when last looked at.
    edges: Vec<Vec<u8>>,
    copies: u32,
    born_families: u32,
    recycles: bool,
    manual_wal_flush: bool,
    may_skip_wal: bool,
    /// Some writes are in no WAL.
    unlogged: bool,
    status: Status,
    seed: u64,
    count: u64,
}

/// Runs the life that `seed` stands for.
pub fn live(seed: u64, status: Status) -> Outcome {
    let mut rng = StdRng::seed_from_u64(seed);
    let temp = tempfile::tempdir().map_err(|e| e.to_string())?;
    let dir = temp.path().join("db0");
    let mut life = Life {
        dir,
        temp,
        db: None,
        view: View::new(),
        fixed: BTreeMap::new(),
        snapshots: Vec::new(),
        walks: Vec::new(),
        log: VecDeque::new(),
        options_text: String::new(),
        keys: *[20, 200, 1000].choose(&mut rng).unwrap(),
        key_style: rng.random_range(0..4),
        singles: 0,
        lays_files: rng.random_bool(0.25),
        edges: Vec::new(),
        copies: 0,
        born_families: 0,
        recycles: rng.random_bool(0.3),
        manual_wal_flush: false,
        may_skip_wal: false,
        unlogged: false,
        status,
        seed,
        count: 0,
        rng,
    };
    let outcome = life.run();
    if outcome.is_err() && std::env::var_os("FIRN_MODEL_KEEP").is_some() {
        life.temp.disable_cleanup(true);
    }
    let log = life.log.iter().map(String::as_str).collect::<Vec<_>>().join("\n  ");
    outcome.map_err(|text| format!("{text}\noptions: {}\nlast operations:\n  {log}", life.options_text))
}

fn say<T>(result: firndb::Result<T>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

impl Life {
    fn run(&mut self) -> Outcome {
        let fixed = Fixed::draw(&mut self.rng);
        self.add_family("default", fixed);
        self.open()?;
        let operations = *[300, 1500, 4000].choose(&mut self.rng).unwrap();
        for _ in 0..operations {
            self.step()?;
        }
        self.reopen()?;
        self.close()
    }

    fn note(&mut self, text: String) {
        if self.log.len() == SHOWN_OPERATIONS {
            self.log.pop_front();
        }
        self.count += 1;
        *self.status.lock() = format!("seed {}, operation {}: {text}", self.seed, self.count);
        if std::env::var_os("FIRN_MODEL_TRACE").is_some() {
            println!("{} {text}", self.count);
        }
        self.log.push_back(text);
    }

    fn db(&self) -> Db {
        self.db.clone().expect("open")
    }

    fn add_family(&mut self, name: &str, fixed: Fixed) {
        self.view.insert(name.to_owned(), Family::new(fixed.merge, fixed.reversed));
        self.fixed.insert(name.to_owned(), fixed);
    }

    // Opening and closing.

    fn open(&mut self) -> Outcome {
        let (options, mut text) = recipe::database(&mut self.rng, self.recycles);
        self.manual_wal_flush = options.manual_wal_flush;
        self.may_skip_wal = !options.avoid_flush_during_shutdown && options.recycle_log_file_num == 0;
        let mut families = Vec::new();
        for (name, fixed) in &self.fixed {
            let (cf, cf_text) = recipe::column_family(&mut self.rng, fixed);
            text.push_str(&format!("\n  {name}: {cf_text}"));
            families.push(ColumnFamilyDescriptor::new(name.clone(), cf));
        }
        self.options_text = text;
        let mut names = match Db::list_column_families(&self.dir, &options) {
            Ok(names) => names,
            Err(error) if error.is_path_not_found() => vec!["default".to_owned()],
            Err(error) => return Err(format!("list_column_families: {error}")),
        };
        names.sort();
        if !names.iter().eq(self.fixed.keys()) {
            return Err(format!("column families {names:?}, wanted {:?}", self.fixed.keys()));
        }
        self.db = Some(Db::open_cf(&self.dir, options, families).map_err(|error| format!("open: {error}"))?);
        self.unlogged = false;
        self.check_everything().map_err(|text| format!("right after open: {text}"))
    }

    fn close(&mut self) -> Outcome {
        self.walks.clear();
        self.snapshots.clear();
        let db = self.db.take().expect("open");
        say(db.close()).map_err(|text| format!("close: {text}"))
    }

    fn reopen(&mut self) -> Outcome {
        match self.rng.random_range(0..3) {
            0 => {
                self.note("close and reopen".to_owned());
                self.close()?;
            }
            1 => {
                self.note("drop and reopen".to_owned());
                self.walks.clear();
                self.snapshots.clear();
                self.db = None;
            }
            _ => self.reopen_a_copy()?,
        }
        if self.rng.random_bool(0.25) {
            self.open_without_an_operator()?;
        }
        self.open()
    }

    /// Somebody forgets a merge operator. Refused or not, that open may take nothing away; refused, it changes no file.
    fn open_without_an_operator(&mut self) -> Outcome {
        let forgotten = self.fixed.iter().filter(|(_, fixed)| fixed.merge != Merge::None).map(|(name, _)| name);
        let Some(forgotten) = forgotten.cloned().collect::<Vec<_>>().choose(&mut self.rng).cloned() else {
            return Ok(());
        };
        let (options, _) = recipe::database(&mut self.rng, self.recycles);
        let mut families = Vec::new();
        for (name, fixed) in &self.fixed {
            let merge = if *name == forgotten { Merge::None } else { fixed.merge };
            let (cf, _) = recipe::column_family(&mut self.rng, &Fixed { merge, ..fixed.clone() });
            families.push(ColumnFamilyDescriptor::new(name.clone(), cf));
        }
        // The info log tells of every open.
        let files = || -> Vec<_> {
            common::read_dir(&self.dir).into_iter().filter(|(name, _)| !name.starts_with("LOG")).collect()
        };
        let before = files();
        let opened = Db::open_cf(&self.dir, options, families);
        let refused = opened.is_err();
        // A compaction may have met operands, which is an error of the background and nothing else.
        let _ = opened.map(|db| db.close());
        let changed = refused && files() != before;
        self.note(format!("open without the merge operator of {forgotten}, refused: {refused}"));
        if changed { Err("an open that was refused changed files".to_owned()) } else { Ok(()) }
    }

    /// Goes on with a copy of the directory as it is while the database is open: what a killed process leaves.
    fn reopen_a_copy(&mut self) -> Outcome {
        self.note("kill and reopen".to_owned());
        let db = self.db();
        if self.unlogged {
            let families = db.column_families();
            say(db.flush_cfs(&FlushOptions::default(), &families.iter().collect::<Vec<_>>()))?;
        }
        if self.manual_wal_flush {
            say(db.flush_wal(false))?;
        }
        say(db.wait_for_compact()).map_err(|text| format!("wait_for_compact: {text}"))?;
        self.copies += 1;
        let copy = self.temp.path().join(format!("db{}", self.copies));
        say(firn_env::create_dir_all(&FS, &copy))?;
        for name in say(FS.children(&self.dir))? {
            // A file may be deleted as obsolete meanwhile; then nobody needs it.
            if !say(FS.is_directory(&self.dir.join(&name)))? {
                let _ = std::fs::copy(self.dir.join(&name), copy.join(&name));
            }
        }
        self.walks.clear();
        self.snapshots.clear();
        self.db = None;
        drop(db);
        for (name, _) in common::read_dir(&self.dir) {
            let _ = FS.remove_file(&self.dir.join(name));
        }
        self.dir = copy;
        Ok(())
    }

    // One operation.

    fn step(&mut self) -> Outcome {
        if self.lays_files && self.rng.random_bool(0.08) {
            return self.lay_files();
        }
        match self.rng.random_range(0..1000) {
            0..394 => self.write_one(),
            394..400 => self.ingest(),
            400..550 => self.write_batch(),
            550..700 => self.check_get(),
            700..740 => self.check_multi_get(),
            740..804 => self.check_walk(),
            804..816 => self.lay_files(),
            816..824 => self.many_versions(),
            824..830 => self.check_agreement(),
            830..870 => self.hold_walk(),
            870..920 => self.go_on_walking(),
            920..945 => self.take_snapshot(),
            945..965 => self.release_snapshot(),
            965..978 => self.flush(),
            978..985 => self.compact(),
            985..989 => self.reopen(),
            989..992 => self.change_families(),
            992..994 => self.set_options(),
            994..996 => {
                self.note("wait_for_compact".to_owned());
                say(self.db().wait_for_compact())
            }
            _ => self.check_everything(),
        }
    }

    /// A key of this life; now and then one at which a file begins or ends, or one beside it.
    fn key(&mut self) -> Vec<u8> {
        if self.rng.random_bool(0.15)
            && let Some(edge) = self.edges.choose(&mut self.rng)
        {
            let near = self.rng.random_bool(0.4).then(|| shapes::near(&mut self.rng, edge));
            let key = near.unwrap_or_else(|| edge.clone());
            if key.as_slice() < SINGLE && key.len() < LONGEST_KEY {
                return key;
            }
        }
        let number = self.rng.random_range(0..self.keys);
        key(self.key_style, number)
    }

    fn value(&mut self, merge: Merge) -> Vec<u8> {
        if merge == Merge::UInt64Add {
            return self.rng.random_range(0..1000_u64).to_le_bytes().to_vec();
        }
        let length = match self.rng.random_range(0..100) {
            0 => self.rng.random_range(0..40_000),
            1..8 => self.rng.random_range(0..3000),
            _ => self.rng.random_range(0..100),
        };
        let seed: u8 = self.rng.random();
        // Half compressible.
        (0..length).map(|i| if i % 2 == 0 { seed } else { self.rng.random_range(b'a'..=b'z') }).collect()
    }

    fn operand(&mut self, merge: Merge) -> Vec<u8> {
        let mut operand = self.value(merge);
        // Appended values stay small, or every merge would copy megabytes.
        if merge == Merge::StringAppend {
            operand.truncate(30);
        }
        operand
    }

    fn family(&mut self) -> (String, ColumnFamily) {
        let names: Vec<&String> = self.view.keys().collect();
        let name = (*names.choose(&mut self.rng).unwrap()).clone();
        let cf = self.db().cf(&name).unwrap_or_else(|| panic!("column family {name} is gone"));
        (name, cf)
    }

    fn change(&mut self, family: &str) -> Change {
        let merge = self.view[family].merge;
        loop {
            match self.rng.random_range(0..100) {
                0..60 => return Change::Put(self.key(), self.value(merge)),
                60..72 => return Change::Delete(self.key()),
                72..76 => {
                    let (a, b) = (self.key(), self.key());
                    let in_order = self.view[family].compare(&a, &b).is_le();
                    return if in_order { Change::DeleteRange(a, b) } else { Change::DeleteRange(b, a) };
                }
                76..84 => return self.single(family, merge),
                _ if merge != Merge::None => {
                    return Change::Merge(self.key(), self.operand(merge));
                }
                _ => {}
            }
        }
    }

    /// Puts a new single key or single-deletes a live one.
    fn single(&mut self, family: &str, merge: Merge) -> Change {
        let live: Vec<Vec<u8>> =
            self.view[family].map.keys().filter(|key| key.starts_with(SINGLE)).take(20).cloned().collect();
        if let Some(key) = live.choose(&mut self.rng)
            && (live.len() > 10 || self.rng.random_bool(0.5))
        {
            return Change::SingleDelete(key.clone());
        }
        self.singles += 1;
        let mut key = SINGLE.to_vec();
        // Now and then a key that was used and deleted before.
        let number = if self.rng.random_bool(0.7) { self.singles } else { self.rng.random_range(0..self.singles) };
        key.extend(number.to_be_bytes());
        if self.view[family].map.contains_key(&key) {
            return Change::SingleDelete(key);
        }
        Change::Put(key, self.value(merge))
    }

    fn write_options(&mut self) -> WriteOptions {
        let sync = self.rng.random_bool(0.01) && !self.manual_wal_flush;
        let disable_wal = !sync && self.may_skip_wal && self.rng.random_bool(0.02);
        self.unlogged |= disable_wal;
        let protection_bytes_per_key = 8 * usize::from(self.rng.random_bool(0.1));
        WriteOptions { sync, disable_wal, protection_bytes_per_key, ..WriteOptions::default() }
    }

    fn write_one(&mut self) -> Outcome {
        let (name, cf) = self.family();
        let change = self.change(&name);
        self.write_change(&name, &cf, change)
    }

    fn write_change(&mut self, name: &str, cf: &ColumnFamily, change: Change) -> Outcome {
        let options = self.write_options();
        self.note(format!("{name}: {}", show(&change)));
        let db = self.db();
        say(match &change {
            Change::Put(key, value) => db.put_opt(&options, cf, key, value),
            Change::Delete(key) => db.delete_opt(&options, cf, key),
            Change::SingleDelete(key) => db.single_delete_opt(&options, cf, key),
            Change::DeleteRange(begin, end) => db.delete_range_opt(&options, cf, begin, end),
            Change::Merge(key, operand) => db.merge_opt(&options, cf, key, operand),
        })
        .map_err(|text| format!("write: {text}"))?;
        self.view.get_mut(name).unwrap().apply(&change);
        Ok(())
    }

    // Shapes.

    fn look_for_edges(&mut self, cf: &ColumnFamily) {
        self.edges = shapes::boundaries(&self.db(), cf);
        self.edges.truncate(EDGES);
    }

    /// Files that meet at one user key, one flush each, and perhaps moved down side by side.
    fn lay_files(&mut self) -> Outcome {
        let (name, cf) = self.family();
        let there: Vec<Vec<u8>> = self.view[&name].map.keys().filter(|key| key.as_slice() < SINGLE).cloned().collect();
        let count = self.rng.random_range(4..24);
        let key = |life: &mut Self| match there.choose(&mut life.rng) {
            Some(key) if life.rng.random_bool(0.7) => key.clone(),
            _ => life.key(),
        };
        let mut keys: Vec<Vec<u8>> = (0..count).map(|_| key(self)).collect();
        let view = &self.view[&name];
        keys.sort_by(|a, b| view.compare(a, b));
        keys.dedup();
        let files = shapes::touching_files(&mut self.rng, &keys);
        let db = self.db();
        let all = CompactRangeOptions::default();
        // What was there lies deeper than what comes.
        if self.rng.random_bool(0.7) {
            self.note(format!("{name}: compact all"));
            say(db.compact_range(&all, &cf, None, None))?;
        }
        // The last flush lets all of them be moved, where they overlap neither each other nor the next level.
        let moved = self.rng.random_bool(0.5);
        if moved {
            let trigger = files.len().max(2).to_string();
            let texts =
                [("disable_auto_compactions", "false"), ("level0_file_num_compaction_trigger", trigger.as_str())];
            self.note(format!("set_options {name} {texts:?}"));
            say(db.set_options(&cf, &texts))?;
        }
        for file in files {
            if self.rng.random_bool(0.3) {
                self.take_snapshot()?;
            }
            for laid in file {
                let change = self.laid(&name, laid);
                self.write_change(&name, &cf, change)?;
            }
            self.note(format!("flush {name}"));
            say(db.flush(&FlushOptions { allow_write_stall: true, ..FlushOptions::default() }, &cf))?;
        }
        let way = if moved { 1 } else { self.rng.random_range(0..3) };
        self.note(format!("{name}: settle {way}"));
        say(match way {
            0 => db.compact_range(&all, &cf, None, None),
            1 => db.wait_for_compact(),
            _ => Ok(()),
        })?;
        self.look_for_edges(&cf);
        let sight = Sight::new(&db, &cf, None, self.view[&name].entries());
        sight.check(&mut self.rng, Effort::SHORT, &keys)?;
        self.check_snapshots(&name, &cf, &keys)
    }

    fn laid(&mut self, family: &str, laid: Laid) -> Change {
        let merge = self.view[family].merge;
        match laid {
            Laid::Merge(key) if merge != Merge::None => Change::Merge(key, self.operand(merge)),
            Laid::Put(key) | Laid::Merge(key) => Change::Put(key, self.value(merge)),
            Laid::Delete(key) => Change::Delete(key),
            Laid::DeleteRange(begin, end) => Change::DeleteRange(begin, end),
        }
    }

    /// More versions of one key than a cursor steps over one by one.
    fn many_versions(&mut self) -> Outcome {
        let (name, cf) = self.family();
        let (key, merge) = (self.key(), self.view[&name].merge);
        for _ in 0..self.rng.random_range(3..40) {
            let change = match self.rng.random_range(0..10) {
                0 => Change::Delete(key.clone()),
                1..4 if merge != Merge::None => Change::Merge(key.clone(), self.operand(merge)),
                _ => Change::Put(key.clone(), self.value(merge)),
            };
            self.write_change(&name, &cf, change)?;
            if self.rng.random_bool(0.03) {
                self.take_snapshot()?;
            }
        }
        if self.rng.random_bool(0.3) { self.check_agreement() } else { Ok(()) }
    }

    fn write_batch(&mut self) -> Outcome {
        let before = self.view.clone();
        let mut batch = WriteBatch::new();
        let mut save_points = Vec::new();
        let count = if self.rng.random_bool(0.05) { 200 } else { self.rng.random_range(0..20) };
        self.note(format!("batch of {count}"));
        for _ in 0..count {
            if self.rng.random_bool(0.05) {
                batch.set_save_point();
                save_points.push(self.view.clone());
            }
            if self.rng.random_bool(0.03) && !save_points.is_empty() {
                say(batch.rollback_to_save_point())?;
                self.view = save_points.pop().unwrap();
            }
            if self.rng.random_bool(0.02) {
                say(batch.put_log_data(b"not data"))?;
            }
            let (name, cf) = self.family();
            let change = self.change(&name);
            self.note(format!("  {name}: {}", show(&change)));
            say(match &change {
                Change::Put(key, value) => batch.put_cf(&cf, key, value),
                Change::Delete(key) => batch.delete_cf(&cf, key),
                Change::SingleDelete(key) => batch.single_delete_cf(&cf, key),
                Change::DeleteRange(begin, end) => batch.delete_range_cf(&cf, begin, end),
                Change::Merge(key, operand) => batch.merge_cf(&cf, key, operand),
            })?;
            self.view.get_mut(&name).unwrap().apply(&change);
        }
        if self.rng.random_bool(0.05) {
            // A batch that is never written changes nothing.
            self.view = before;
            return Ok(());
        }
        let options = self.write_options();
        say(self.db().write_opt(&options, &mut batch)).map_err(|text| format!("write: {text}"))
    }

    // Reading.

    /// Adds one to three external files, which may overlap each other and everything else.
    fn ingest(&mut self) -> Outcome {
        let (name, cf) = self.family();
        let options = self.db().options(&cf);
        let mut files = Vec::new();
        let mut all = Vec::new();
        for _ in 0..self.rng.random_range(1..4) {
            let changes = self.external_changes(&name);
            if changes.is_empty() {
                continue;
            }
            let path = self.temp.path().join(format!("external{}", files.len()));
            let mut writer = sst_file_writer(&options);
            say(writer.open(&path))?;
            for change in &changes {
                say(match change {
                    Change::Put(key, value) => writer.put(key, value),
                    Change::Delete(key) => writer.delete(key),
                    Change::Merge(key, operand) => writer.merge(key, operand),
                    Change::DeleteRange(begin, end) => writer.delete_range(begin, end),
                    Change::SingleDelete(_) => unreachable!(),
                })?;
            }
            say(writer.finish())?;
            files.push(path);
            all.extend(changes);
        }
        let how = IngestExternalFileOptions {
            move_files: self.rng.random_bool(0.3),
            write_global_seqno: self.rng.random_bool(0.3),
            verify_checksums_before_ingest: self.rng.random_bool(0.3),
            fill_cache: self.rng.random_bool(0.5),
            ..IngestExternalFileOptions::default()
        };
        self.note(format!(
            "{name}: ingest {} files, {}",
            files.len(),
            all.iter().map(show).collect::<Vec<_>>().join("; ")
        ));
        if files.is_empty() {
            return Ok(());
        }
        say(self.db().ingest_external_file(&cf, &files, &how)).map_err(|text| format!("ingest: {text}"))?;
        let view = self.view.get_mut(&name).unwrap();
        all.iter().for_each(|change| view.apply(change));
        Ok(())
    }

    /// What an external file may hold: range deletions, which cover none of the file's own keys, then points in key order.
    fn external_changes(&mut self, family: &str) -> Vec<Change> {
        let (mut ranges, mut points): (Vec<Change>, Vec<(Vec<u8>, Change)>) = (Vec::new(), Vec::new());
        for _ in 0..self.rng.random_range(1..40) {
            match self.change(family) {
                // An empty range leaves nothing in the file.
                Change::DeleteRange(begin, end) if begin != end => ranges.push(Change::DeleteRange(begin, end)),
                Change::DeleteRange(..) | Change::SingleDelete(_) => {}
                // Keys for single deletions have rules of their own.
                Change::Put(key, _) if key.starts_with(SINGLE) => self.singles += 1,
                change @ (Change::Put(..) | Change::Delete(_) | Change::Merge(..)) => {
                    let key = match &change {
                        Change::Put(key, _) | Change::Delete(key) | Change::Merge(key, _) => key.clone(),
                        Change::DeleteRange(..) | Change::SingleDelete(_) => unreachable!(),
                    };
                    points.push((key, change));
                }
            }
        }
        ranges.truncate(2);
        let view = &self.view[family];
        points.sort_by(|a, b| view.compare(&a.0, &b.0));
        points.dedup_by(|a, b| a.0 == b.0);
        ranges.into_iter().chain(points.into_iter().map(|(_, change)| change)).collect()
    }

    /// The present or a snapshot.
    fn some_view(&mut self) -> (ReadOptions, View) {
        let options = ReadOptions { total_order_seek: true, ..ReadOptions::default() };
        if self.rng.random_bool(0.4)
            && let Some((snapshot, view)) = self.snapshots.choose(&mut self.rng)
        {
            return (ReadOptions { snapshot: Some(snapshot.clone()), ..options }, view.clone());
        }
        (options, self.view.clone())
    }

    /// A family of a view that still exists.
    fn family_of(&mut self, view: &View) -> (Family, ColumnFamily, String) {
        loop {
            let (name, cf) = self.family();
            if let Some(family) = view.get(&name) {
                return (family.clone(), cf, name);
            }
        }
    }

    fn check_get(&mut self) -> Outcome {
        let (options, view) = self.some_view();
        let (family, cf, name) = self.family_of(&view);
        let key = self.key();
        let got = say(self.db().get_opt(&options, &cf, &key))?;
        let wanted = family.map.get(&key);
        if got.as_deref() != wanted.map(Vec::as_slice) {
            let sequence = options.snapshot.as_ref().map(Snapshot::sequence);
            return Err(format!(
                "get of {} in {name} at snapshot {sequence:?}: {:?} instead of {:?}",
                key.escape_ascii(),
                got.as_deref().map(head),
                wanted.map(|value| head(value))
            ));
        }
        if wanted.is_some() && !self.db().key_may_exist(&options, &cf, &key) {
            return Err(format!("key_may_exist denies {}", key.escape_ascii()));
        }
        Ok(())
    }

    fn check_multi_get(&mut self) -> Outcome {
        let (options, view) = self.some_view();
        let (family, cf, name) = self.family_of(&view);
        let count = self.rng.random_range(0..40);
        let keys: Vec<Vec<u8>> = (0..count).map(|_| self.key()).collect();
        let got = self.db().multi_get_opt(&options, &cf, &keys);
        if got.len() != keys.len() {
            return Err("multi_get gave a wrong number of answers".to_owned());
        }
        for (got, key) in got.into_iter().zip(&keys) {
            if say(got)?.as_deref() != family.map.get(key).map(Vec::as_slice) {
                return Err(format!("multi_get of {} in {name} is wrong", key.escape_ascii()));
            }
        }
        Ok(())
    }

    /// What must be shown of a family, at a random moment.
    fn sight(&mut self) -> Sight {
        let (options, view) = self.some_view();
        let (family, cf, _) = self.family_of(&view);
        Sight::new(&self.db(), &cf, options.snapshot, family.entries())
    }

    /// A cursor with random options over a random view.
    fn new_walk(&mut self) -> Result<Walk, String> {
        let sight = self.sight();
        let bounds = [self.key(), self.key()];
        // A tailing cursor shows what comes, so it cannot be held.
        let options = ReadOptions { tailing: false, ..sight.draw_options(&mut self.rng, &bounds) };
        Walk::new(&sight, &options)
    }

    fn check_walk(&mut self) -> Outcome {
        let mut walk = self.new_walk()?;
        self.walk(&mut walk)
    }

    fn walk(&mut self, walk: &mut Walk) -> Outcome {
        let mut targets: Vec<Vec<u8>> = (0..10).map(|_| self.key()).collect();
        let between: Vec<Vec<u8>> = targets.iter().take(4).map(|key| shapes::near(&mut self.rng, key)).collect();
        targets.extend(between);
        walk.steps(&mut self.rng, 30, &targets)
    }

    fn hold_walk(&mut self) -> Outcome {
        if self.walks.len() < 5 {
            self.note("hold an iterator".to_owned());
            let walk = self.new_walk()?;
            self.walks.push(walk);
        }
        Ok(())
    }

    /// Iterators show the moment of their creation, whatever was written since.
    fn go_on_walking(&mut self) -> Outcome {
        if self.walks.is_empty() {
            return Ok(());
        }
        let index = self.rng.random_range(0..self.walks.len());
        let mut walk = self.walks.swap_remove(index);
        self.walk(&mut walk).map_err(|text| format!("held {text}"))?;
        if self.rng.random_bool(0.6) {
            self.walks.push(walk);
        }
        Ok(())
    }

    /// All ways of reading agree, at one random moment.
    fn check_agreement(&mut self) -> Outcome {
        let sight = self.sight();
        let also: Vec<Vec<u8>> = (0..6).map(|_| self.key()).collect();
        sight.check(&mut self.rng, Effort::SHORT, &also)
    }

    /// All ways of reading agree, on all families, now and at every snapshot.
    fn check_everything(&mut self) -> Outcome {
        let db = self.db();
        let names: Vec<String> = self.view.keys().cloned().collect();
        for name in &names {
            let cf = db.cf(name).ok_or(format!("column family {name} is gone"))?;
            let also: Vec<Vec<u8>> = (0..10).map(|_| self.key()).collect();
            let family = &self.view[name];
            let sight = Sight::new(&db, &cf, None, family.entries());
            sight.check(&mut self.rng, Effort::LONG, &also)?;
            for (key, value) in &*family.map {
                if say(db.get_opt(&ReadOptions::default(), &cf, key))?.as_deref() != Some(&**value) {
                    return Err(format!("get of {} in {name} is wrong", key.escape_ascii()));
                }
            }
            self.check_snapshots(name, &cf, &also)?;
        }
        Ok(())
    }

    fn check_snapshots(&mut self, name: &str, cf: &ColumnFamily, also: &[Vec<u8>]) -> Outcome {
        let db = self.db();
        for (snapshot, view) in &self.snapshots {
            let Some(family) = view.get(name) else { continue };
            let sight = Sight::new(&db, cf, Some(snapshot.clone()), family.entries());
            sight.check(&mut self.rng, Effort::SHORT, also)?;
        }
        Ok(())
    }

    // Everything else.

    fn take_snapshot(&mut self) -> Outcome {
        if self.snapshots.len() < 5 {
            let snapshot = self.db().snapshot();
            self.note(format!("snapshot {:?}", snapshot.sequence()));
            self.snapshots.push((snapshot, self.view.clone()));
        }
        Ok(())
    }

    fn release_snapshot(&mut self) -> Outcome {
        if !self.snapshots.is_empty() {
            let index = self.rng.random_range(0..self.snapshots.len());
            let (snapshot, _) = self.snapshots.swap_remove(index);
            self.note(format!("release {:?}", snapshot.sequence()));
        }
        Ok(())
    }

    fn flush(&mut self) -> Outcome {
        let (name, cf) = self.family();
        let wait = self.rng.random_bool(0.7);
        self.note(format!("flush {name}, wait {wait}"));
        let options = FlushOptions { wait, allow_write_stall: true, ..FlushOptions::default() };
        let outcome = if self.rng.random_bool(0.3) {
            let families = self.db().column_families();
            self.db().flush_cfs(&options, &families.iter().collect::<Vec<_>>())
        } else {
            self.db().flush(&options, &cf)
        };
        self.look_for_edges(&cf);
        say(outcome).map_err(|text| format!("flush: {text}"))
    }

    fn compact(&mut self) -> Outcome {
        let (name, cf) = self.family();
        let family = self.view[&name].clone();
        let mut begin = self.rng.random_bool(0.5).then(|| self.key());
        let mut end = self.rng.random_bool(0.5).then(|| self.key());
        if let (Some(b), Some(e)) = (&begin, &end)
            && family.compare(b, e).is_gt()
        {
            std::mem::swap(&mut begin, &mut end);
        }
        use BottommostLevelCompaction::{Force, ForceOptimized, IfHaveCompactionFilter, Skip};
        let options = CompactRangeOptions {
            exclusive_manual_compaction: self.rng.random_bool(0.5),
            max_subcompactions: self.rng.random_range(0..4),
            bottommost_level_compaction: *[Force, ForceOptimized, IfHaveCompactionFilter, Skip]
                .choose(&mut self.rng)
                .unwrap(),
            ..CompactRangeOptions::default()
        };
        self.note(format!("compact {name} {:?}", options.bottommost_level_compaction));
        let outcome = self.db().compact_range(&options, &cf, begin.as_deref(), end.as_deref());
        self.look_for_edges(&cf);
        say(outcome).map_err(|text| format!("compact_range: {text}"))
    }

    fn change_families(&mut self) -> Outcome {
        let others: Vec<String> = self.view.keys().filter(|name| *name != "default").cloned().collect();
        if others.len() < 3 && (others.is_empty() || self.rng.random_bool(0.5)) {
            self.born_families += 1;
            let name = format!("family {}", self.born_families);
            let fixed = Fixed::draw(&mut self.rng);
            let (options, text) = recipe::column_family(&mut self.rng, &fixed);
            self.note(format!("create {name}: {text}"));
            say(self.db().create_cf(&name, options)).map_err(|text| format!("create_cf: {text}"))?;
            self.add_family(&name, fixed);
            return Ok(());
        }
        let name = others.choose(&mut self.rng).unwrap().clone();
        self.note(format!("drop {name}"));
        let cf = self.db().cf(&name).unwrap();
        say(self.db().drop_cf(&cf)).map_err(|text| format!("drop_cf: {text}"))?;
        self.view.remove(&name);
        self.fixed.remove(&name);
        Ok(())
    }

    fn set_options(&mut self) -> Outcome {
        let (name, cf) = self.family();
        let choices: [&[(&str, &str)]; 4] = [
            &[("disable_auto_compactions", "false")],
            &[("level0_file_num_compaction_trigger", "3"), ("target_file_size_base", "9000")],
            &[("write_buffer_size", "100000")],
            &[("max_bytes_for_level_base", "50000")],
        ];
        let choice = *choices.choose(&mut self.rng).unwrap();
        self.note(format!("set_options {name} {choice:?}"));
        say(self.db().set_options(&cf, choice)).map_err(|text| format!("set_options: {text}"))
    }
}

/// Key number `number` in one of four styles; below [`SINGLE`] in bytewise order.
fn key(style: u32, number: usize) -> Vec<u8> {
    match style {
        0 => format!("{number:06}").into_bytes(),
        // Few prefixes, many keys each.
        1 => format!("p{}-{number:05}", number % 7).into_bytes(),
        // Lengths from 0 up, zero and high bytes, keys that are prefixes of others.
        2 => {
            let mut bytes = Vec::new();
            let mut rest = number;
            while rest > 0 {
                bytes.push([0x00, 0x01, 0x61, 0x79][rest % 4]);
                rest /= 4;
            }
            bytes
        }
        _ => {
            let mut bytes = b"a-common-prefix-longer-than-a-word-".to_vec();
            bytes.extend((number as u16).to_be_bytes());
            bytes
        }
    }
}

fn head(value: &[u8]) -> String {
    format!("{} ({} bytes)", value[..value.len().min(20)].escape_ascii(), value.len())
}

fn show(change: &Change) -> String {
    match change {
        Change::Put(key, value) => format!("put {} = {}", key.escape_ascii(), head(value)),
        Change::Delete(key) => format!("delete {}", key.escape_ascii()),
        Change::SingleDelete(key) => format!("single_delete {}", key.escape_ascii()),
        Change::DeleteRange(begin, end) => format!("delete_range {} .. {}", begin.escape_ascii(), end.escape_ascii()),
        Change::Merge(key, operand) => format!("merge {} + {}", key.escape_ascii(), head(operand)),
    }
}
