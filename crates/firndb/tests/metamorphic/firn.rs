//! Runs a history on Firn, with options drawn at every open.

use std::collections::BTreeMap;
use std::path::Path;

use firn_check::recipe::{self, Fixed, Merge};
use firn_check::{Effort, Sight};
use firndb::options::{CompactRangeOptions, TableFactory};
use firndb::{
    ColumnFamilyDescriptor, ColumnFamilyOptions, Db, DbOptions, FlushOptions, ReadOptions, Snapshot, WriteBatch,
};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::common::{Outcome, say};
use crate::script::{hex, unhex};

/// Where options come from.
#[derive(Clone, Copy, Debug)]
pub enum Recipes {
    /// Defaults, and `stringappend` as everywhere.
    Plain,
    /// Drawn from this seed, at every open anew.
    Drawn(u64),
}

/// The newest table format that RocksDB 7.8 reads.
const ROCKSDB_FORMAT_VERSION: u32 = 5;
/// Behind one in so many lines all ways of reading are compared.
const LINES_A_CHECK: u32 = 60;

struct Runner<'a> {
    dir: &'a Path,
    recipes: Recipes,
    rng: StdRng,
    /// When and how to check; nothing else hangs on it, so that all runs of a script draw the same options.
    checks: StdRng,
    db: Option<Db>,
    snapshots: BTreeMap<String, Snapshot>,
    batch: WriteBatch,
    answers: String,
}

/// Runs `script` in `dir` and returns its answers; the database is closed then.
///
/// # Errors
/// The first failed operation, in words.
pub fn run(script: &str, dir: &Path, recipes: Recipes) -> Result<String, String> {
    let seed = if let Recipes::Drawn(seed) = recipes { seed } else { 0 };
    let mut runner = Runner {
        dir,
        recipes,
        rng: StdRng::seed_from_u64(seed),
        checks: StdRng::seed_from_u64(seed ^ script.len() as u64),
        db: None,
        snapshots: BTreeMap::new(),
        batch: WriteBatch::new(),
        answers: String::new(),
    };
    runner.open()?;
    for (number, line) in script.lines().enumerate() {
        let words: Vec<&str> = line.split(' ').collect();
        let outcome = runner.step(&words).and_then(|()| runner.check_now_and_then());
        outcome.map_err(|text| format!("line {}: {line}: {text}", number + 1))?;
    }
    runner.check_everything()?;
    runner.close()?;
    Ok(runner.answers)
}

impl Runner<'_> {
    fn family_options(&mut self, name: &str) -> ColumnFamilyOptions {
        let mut options = match self.recipes {
            Recipes::Plain => ColumnFamilyOptions {
                merge_operator: firndb::merge::built_in("stringappend", None),
                ..ColumnFamilyOptions::default()
            },
            Recipes::Drawn(seed) => {
                // What must stay follows from the name, the rest is new at every open.
                let of_name = name.bytes().fold(seed, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
                let drawn = Fixed::draw(&mut StdRng::seed_from_u64(of_name));
                let fixed = Fixed { merge: Merge::StringAppend, reversed: false, ..drawn };
                recipe::column_family(&mut self.rng, &fixed).0
            }
        };
        if let TableFactory::BlockBased(table) = &mut options.table_factory {
            table.format_version = table.format_version.min(ROCKSDB_FORMAT_VERSION);
        }
        options
    }

    fn open(&mut self) -> Outcome {
        let mut options = match self.recipes {
            Recipes::Plain => DbOptions { create_if_missing: true, ..DbOptions::default() },
            Recipes::Drawn(seed) => recipe::database(&mut self.rng, seed.is_multiple_of(4)).0,
        };
        options.create_if_missing = true;
        // Not every directory in memory takes direct I/O.
        options.use_direct_reads = false;
        options.use_direct_io_for_flush_and_compaction = false;
        let names = Db::list_column_families(self.dir, &options).unwrap_or_else(|_| vec!["default".to_owned()]);
        let families = names
            .into_iter()
            .map(|name| ColumnFamilyDescriptor::new(name.clone(), self.family_options(&name)))
            .collect();
        self.db = Some(say("open", Db::open_cf(self.dir, options, families))?);
        Ok(())
    }

    fn close(&mut self) -> Outcome {
        self.snapshots.clear();
        self.db.take().map_or(Ok(()), |db| say("close", db.close()))
    }

    /// All ways of reading agree, on some family at some moment.
    fn check_now_and_then(&mut self) -> Outcome {
        if self.checks.random_ratio(LINES_A_CHECK - 1, LINES_A_CHECK) {
            return Ok(());
        }
        let db = self.db.clone().ok_or("closed")?;
        let families = db.column_families();
        let moments: Vec<Option<&Snapshot>> = self.snapshots.values().map(Some).chain([None]).collect();
        let (Some(cf), Some(moment)) = (families.choose(&mut self.checks), moments.choose(&mut self.checks)) else {
            return Ok(());
        };
        Sight::learn(&db, cf, moment.cloned())?.check(&mut self.checks, Effort::SHORT, &[])
    }

    fn check_everything(&mut self) -> Outcome {
        let db = self.db.clone().ok_or("closed")?;
        for cf in db.column_families() {
            Sight::learn(&db, &cf, None)?.check(&mut self.checks, Effort::LONG, &[])?;
        }
        Ok(())
    }

    fn step(&mut self, words: &[&str]) -> Outcome {
        let db = self.db.clone().ok_or("closed")?;
        let cf = |name: &str| db.cf(name).ok_or_else(|| format!("no family {name}"));
        match *words {
            ["p", f, k, v] => say("put", self.batch.put_cf(&cf(f)?, unhex(k), unhex(v))),
            ["m", f, k, v] => say("merge", self.batch.merge_cf(&cf(f)?, unhex(k), unhex(v))),
            ["d", f, k] => say("delete", self.batch.delete_cf(&cf(f)?, unhex(k))),
            ["s", f, k] => say("single_delete", self.batch.single_delete_cf(&cf(f)?, unhex(k))),
            ["r", f, from, to] => say("delete_range", self.batch.delete_range_cf(&cf(f)?, unhex(from), unhex(to))),
            ["w"] => {
                let written = db.write(&mut self.batch);
                self.batch.clear();
                say("write", written)
            }
            ["g", f, s, k] => {
                let got = say("get", db.get_opt(&self.read_options(s), &cf(f)?, unhex(k)))?;
                self.answers.push_str(&got.map_or("none".to_owned(), |value| hex(&value)));
                self.answers.push('\n');
                Ok(())
            }
            ["i", f, s, low, high, direction, count] => {
                let mut options = self.read_options(s);
                options.iterate_lower_bound = (low != "-").then(|| unhex(low));
                options.iterate_upper_bound = (high != "-").then(|| unhex(high));
                let mut cursor = say("cursor", db.cursor(&options, &cf(f)?))?;
                let forwards = direction == "f";
                if forwards {
                    cursor.seek_to_first()
                } else {
                    cursor.seek_to_last()
                }
                let mut left: u64 = count.parse().map_err(|_| "no count")?;
                while cursor.valid() && left > 0 {
                    self.answers.push_str(&format!("{}={} ", hex(cursor.key()), hex(cursor.value())));
                    if forwards {
                        cursor.next()
                    } else {
                        cursor.prev()
                    }
                    left -= 1;
                }
                self.answers.push('\n');
                say("cursor", cursor.status())
            }
            ["+", s] => {
                self.snapshots.insert(s.to_owned(), db.snapshot());
                Ok(())
            }
            ["-", s] => {
                self.snapshots.remove(s);
                Ok(())
            }
            ["f", f] => {
                let options = FlushOptions { allow_write_stall: true, ..FlushOptions::default() };
                say("flush", db.flush(&options, &cf(f)?))
            }
            ["c", f, low, high] => {
                let bound = |text: &str| (text != "-").then(|| unhex(text));
                let (low, high) = (bound(low), bound(high));
                let options = CompactRangeOptions::default();
                say("compact", db.compact_range(&options, &cf(f)?, low.as_deref(), high.as_deref()))
            }
            ["N", f] => {
                let options = self.family_options(f);
                say("create", db.create_cf(f, options)).map(drop)
            }
            ["X", f] => say("drop", db.drop_cf(&cf(f)?)),
            ["o"] => {
                drop(db);
                self.close()?;
                self.open()
            }
            _ => Err("not an operation".to_owned()),
        }
    }

    fn read_options(&self, snapshot: &str) -> ReadOptions {
        ReadOptions {
            snapshot: self.snapshots.get(snapshot).cloned(),
            total_order_seek: true,
            ..ReadOptions::default()
        }
    }
}
