//! What is done with a mutant: opened for reading, opened for writing, opened again, repaired.

use std::collections::BTreeSet;
use std::sync::Arc;

use firn_env::Env;
use firn_env::memory::MemoryFileSystem;
use firn_format::filter::FilterPolicy;
use firndb::options::{
    BlockBasedTableOptions, CompactRangeOptions, ConfigOptions, FlushOptions, ReadOptions, WalRecoveryMode,
    load_latest_options,
};
use firndb::{ColumnFamily, ColumnFamilyDescriptor, Db, DbOptions, Error, Result};

use super::numbers::Dice;
use super::seeds::{DIRECTORY, Image, db_options, environment, family_options, file_system_of};
use super::{Kind, Mutant};

/// The databases have a few hundred entries; a scan of more does not end.
const MOST_ENTRIES: usize = 100_000;

/// What came of a mutant.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Whether it opened for reading, and for writing.
    pub opened: (bool, bool),
    /// Whether all of it could be read.
    pub scanned: bool,
    /// Whether it could be repaired.
    pub repaired: bool,
    /// The options, where they matter.
    pub options: String,
    /// What must not be.
    pub violations: Vec<String>,
}

struct Driver<'a> {
    image: &'a Image,
    number: u64,
    options: DbOptions,
    table: BlockBasedTableOptions,
    /// Whether the OPTIONS file is worth a look of its own.
    reads_options: bool,
    outcome: Outcome,
}

/// Does all that is to be done with the mutant.
pub fn drive(mutant: &mut Mutant) -> Outcome {
    let dice = &mut mutant.dice;
    let table = BlockBasedTableOptions {
        filter_policy: dice.once_in(2).then(|| FilterPolicy::bloom(10.0)),
        cache_index_and_filter_blocks: dice.once_in(3),
        // Clearing the cache's memory is a third of all work.
        no_block_cache: !dice.once_in(4),
        ..BlockBasedTableOptions::default()
    };
    let mut options = db_options(environment(Arc::new(MemoryFileSystem::new()), mutant.number));
    options.paranoid_checks = !dice.once_in(4);
    options.wal_recovery_mode = match dice.below(6) {
        0 => WalRecoveryMode::AbsoluteConsistency,
        1 => WalRecoveryMode::TolerateCorruptedTailRecords,
        2 => WalRecoveryMode::SkipAnyCorruptedRecords,
        _ => WalRecoveryMode::PointInTimeRecovery,
    };
    options.max_open_files = if dice.once_in(3) { 20 } else { -1 };
    options.best_efforts_recovery = dice.once_in(12);
    options.avoid_flush_during_recovery = dice.once_in(3);
    options.verify_sst_unique_id_in_manifest = !dice.once_in(3);
    let stated = format!(
        "paranoid_checks={} wal_recovery_mode={:?} max_open_files={} best_efforts_recovery={} avoid_flush_during_recovery={}",
        options.paranoid_checks,
        options.wal_recovery_mode,
        options.max_open_files,
        options.best_efforts_recovery,
        options.avoid_flush_during_recovery
    );
    let outcome = Outcome { options: stated, ..Outcome::default() };
    let reads_options = mutant.kinds.contains(&Kind::Options);
    let mut driver = Driver { image: &mutant.image, number: mutant.number, options, table, reads_options, outcome };
    driver.read();
    driver.write(dice, !mutant.kinds.contains(&Kind::Table));
    driver.repair();
    driver.outcome
}

impl Driver<'_> {
    fn violation(&mut self, what: impl Into<String>) {
        self.outcome.violations.push(what.into());
    }

    /// Passes an answer on. Errors are welcome, unless they tell of a panic.
    fn heed<T>(&mut self, answer: Result<T>) -> Option<T> {
        match answer {
            Ok(value) => Some(value),
            Err(error) => {
                if error.to_string().contains("panicked") {
                    self.violation(error.to_string());
                }
                None
            }
        }
    }

    fn in_world(&self, fs: &Arc<MemoryFileSystem>, round: u64) -> (DbOptions, Env) {
        let env = environment(Arc::clone(fs), self.number.wrapping_mul(8).wrapping_add(round));
        (DbOptions { env: env.clone(), ..self.options.clone() }, env)
    }

    fn families(&mut self, options: &DbOptions) -> Option<Vec<ColumnFamilyDescriptor>> {
        let names = Db::list_column_families(DIRECTORY, options);
        let names = self.heed(names)?;
        let family = family_options(self.table.clone());
        Some(names.into_iter().take(6).map(|name| ColumnFamilyDescriptor::new(name, family.clone())).collect())
    }

    /// Reads everything in both directions and some keys one by one.
    fn scan(&mut self, db: &Db) -> bool {
        let mut whole = true;
        for cf in db.column_families() {
            let keys = self.scan_family(db, &cf);
            let keys = self.heed(keys);
            whole &= keys.is_some();
            let mut keys: Vec<_> = keys.unwrap_or_default().into_iter().collect();
            keys.extend([b"key000".to_vec(), b"key033".to_vec(), b"key079".to_vec(), Vec::new(), b"z".to_vec()]);
            for key in &keys {
                let answer = db.get_opt(&ReadOptions::default(), &cf, key);
                whole &= self.heed(answer).is_some();
            }
            for answer in db.multi_get_opt(&ReadOptions::default(), &cf, &keys) {
                whole &= self.heed(answer).is_some();
            }
            let _ = db.property(&cf, "rocksdb.estimate-num-keys");
            let _ = db.property(&cf, "rocksdb.stats");
        }
        whole
    }

    fn scan_family(&mut self, db: &Db, cf: &ColumnFamily) -> Result<BTreeSet<Vec<u8>>> {
        let mut some = BTreeSet::new();
        let total_order = ReadOptions { total_order_seek: true, ..ReadOptions::default() };
        let mut cursor = db.cursor(&total_order, cf)?;
        let mut steps = 0;
        cursor.seek_to_first();
        while cursor.valid() && steps < MOST_ENTRIES {
            if steps % 13 == 0 {
                some.insert(cursor.key().to_vec());
            }
            let _ = cursor.value().len();
            steps += 1;
            cursor.next();
        }
        let forward = cursor.status();
        cursor.seek_to_last();
        while cursor.valid() && steps < 2 * MOST_ENTRIES {
            let _ = cursor.value().len();
            steps += 1;
            cursor.prev();
        }
        let backward = cursor.status();
        if steps >= MOST_ENTRIES {
            self.violation(format!("a scan of {} does not end", cf.name()));
        }
        for key in some.iter().take(12) {
            cursor.seek(key);
            if cursor.valid() {
                cursor.prev();
            }
            cursor.seek_for_prev(key);
            if cursor.valid() {
                cursor.next();
            }
        }
        forward.and(backward).map(|()| some.into_iter().take(12).collect())
    }

    fn read(&mut self) {
        let fs = file_system_of(self.image);
        let (options, _) = self.in_world(&fs, 0);
        if self.reads_options {
            let loaded = load_latest_options(&*fs, DIRECTORY.as_ref(), &ConfigOptions::default());
            self.heed(loaded);
        }
        let Some(families) = self.families(&options) else { return };
        let db = Db::open_cf_read_only(DIRECTORY, options, families);
        let Some(db) = self.heed(db) else { return };
        self.outcome.opened.0 = true;
        self.outcome.scanned = self.scan(&db);
    }

    /// Opens for writing, writes, compacts, and opens again. With `keeps`, what was written must be there.
    fn write(&mut self, dice: &mut Dice, keeps: bool) {
        let fs = file_system_of(self.image);
        let (options, _) = self.in_world(&fs, 1);
        let Some(families) = self.families(&options) else { return };
        let db = Db::open_cf(DIRECTORY, options, families);
        let Some(db) = self.heed(db) else { return };
        self.outcome.opened.1 = true;
        let written = db.put("written after", "the damage");
        let written = self.heed(written).is_some();
        if dice.once_in(2) {
            let answer = db.delete_range("key020", "key030");
            self.heed(answer);
        }
        self.scan(&db);
        for cf in db.column_families() {
            if dice.below(3) > 0 {
                let answer = db.flush(&FlushOptions::default(), &cf);
                self.heed(answer);
            }
            if dice.once_in(2) {
                let answer = db.compact_range(&CompactRangeOptions::default(), &cf, None, None);
                self.heed(answer);
            }
        }
        let is_kept = |db: &Db| db.get("written after").map(|value| value.as_deref() == Some(b"the damage".as_slice()));
        if keeps && written && matches!(is_kept(&db), Ok(false)) {
            self.violation("an acknowledged write is gone at once");
        }
        let closed = db.close();
        let closed = self.heed(closed).is_some();
        drop(db);
        let (mut options, _) = self.in_world(&fs, 2);
        // This does not look at WALs, and is for those who lost files.
        options.best_efforts_recovery = false;
        let Some(families) = self.families(&options) else { return };
        match Db::open_cf(DIRECTORY, options, families) {
            Ok(db) => {
                self.scan(&db);
                if keeps && written && closed && matches!(is_kept(&db), Ok(false)) {
                    self.violation("an acknowledged write is gone after the database was closed and opened");
                }
            }
            Err(error) if keeps && written && closed => {
                self.violation(format!("what was opened, written and closed does not open again: {error}"));
            }
            Err(error) => drop(self.heed(Err::<(), Error>(error))),
        }
    }

    fn repair(&mut self) {
        let fs = file_system_of(self.image);
        let (options, _) = self.in_world(&fs, 3);
        let family = family_options(self.table.clone());
        let report = firndb::repair_cf(DIRECTORY, &options, &[], Some(&family));
        if self.heed(report).is_none() {
            return;
        }
        self.outcome.repaired = true;
        let (mut options, _) = self.in_world(&fs, 4);
        options.wal_recovery_mode = WalRecoveryMode::PointInTimeRecovery;
        options.best_efforts_recovery = false;
        let Some(families) = self.families(&options) else {
            return self.violation("the column families of a repaired database cannot be listed");
        };
        match Db::open_cf(DIRECTORY, options, families) {
            Ok(db) => {
                self.scan(&db);
            }
            // The old MANIFEST may tell of another order that is built in, which the caller then has to name.
            Err(error) if error.message().contains("does not match existing comparator") => {}
            Err(error) => self.violation(format!("a repaired database does not open: {error}")),
        }
    }
}
