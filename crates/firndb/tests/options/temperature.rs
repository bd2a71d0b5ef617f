//! How hot the data of tables is said to be, and what ages do to tables.

use std::sync::Arc;

use firn_env::ManualClock;
use firndb::env::Env;
use firndb::options::{
    CompactRangeOptions, CompactionOptions, CompactionStyle, FileTemperatureAge, FlushOptions, Temperature,
};
use firndb::{Db, Options};

use crate::options;

struct Setup {
    db: Db,
    clock: Arc<ManualClock>,
}

impl Setup {
    /// In memory, at second 1000.
    fn new(change: impl FnOnce(&mut Options)) -> Self {
        let clock = Arc::new(ManualClock::new(1000 * 1_000_000));
        let options = options(|o| {
            o.db.env = Env::memory().with_clock(Arc::clone(&clock) as _);
            o.cf.compression = firn_format::compression::CompressionType::None;
            change(o);
        });
        Self { db: Db::open("/temperature", options).unwrap(), clock }
    }

    fn fifo(change: impl FnOnce(&mut Options)) -> Self {
        Self::new(|o| {
            o.cf.compaction_style = CompactionStyle::Fifo;
            o.cf.num_levels = 1;
            o.cf.ttl = 0;
            o.cf.periodic_compaction_seconds = 0;
            change(o);
        })
    }

    fn advance(&self, seconds: u64) {
        self.clock.advance_micros(seconds * 1_000_000);
    }

    /// Writes a table from `key` to `key~` and waits for what follows from it.
    fn flush(&self, key: &str) {
        self.db.put(key, "x".repeat(2000)).unwrap();
        self.db.put(format!("{key}~"), "").unwrap();
        self.db.flush(&FlushOptions::default(), self.db.default_cf()).unwrap();
        self.db.wait_for_compact().unwrap();
    }

    fn compact(&self) {
        self.db.compact_range(&CompactRangeOptions::default(), self.db.default_cf(), None, None).unwrap();
    }

    /// The temperature of every table, the oldest first.
    fn temperatures(&self) -> Vec<Temperature> {
        let mut files = self.db.live_files();
        files.sort_by_key(|file| file.smallest_sequence);
        files.iter().map(|file| file.temperature).collect()
    }

    fn bytes_at(&self, temperature: Temperature) -> u64 {
        let name = format!("rocksdb.live-sst-files-size-at-temperature{}", temperature as u8);
        self.db.property(self.db.default_cf(), &name).unwrap().parse().unwrap()
    }

    fn keys(&self) -> Vec<String> {
        let keys = self.db.iter().map(|entry| String::from_utf8(entry.unwrap().0).unwrap());
        keys.filter(|key| !key.ends_with('~')).collect()
    }
}

#[test]
fn new_files_take_the_temperature_of_their_level() {
    let setup = Setup::new(|o| {
        o.cf.default_write_temperature = Temperature::Warm;
        o.cf.last_level_temperature = Temperature::Cold;
        o.cf.disable_auto_compactions = true;
    });
    setup.flush("a");
    assert_eq!(setup.temperatures(), [Temperature::Warm]);
    assert!(setup.bytes_at(Temperature::Warm) > 2000 && setup.bytes_at(Temperature::Cold) == 0);
    setup.flush("a");
    setup.compact();
    assert_eq!(setup.temperatures(), [Temperature::Cold]);
    assert!(setup.bytes_at(Temperature::Warm) == 0 && setup.bytes_at(Temperature::Cold) > 2000);
    setup.db.set_options(setup.db.default_cf(), &[("default_write_temperature", "kHot")]).unwrap();
    setup.flush("b");
    assert_eq!(setup.temperatures(), [Temperature::Cold, Temperature::Hot]);
}

#[test]
fn default_temperature_counts_files_that_have_none() {
    let setup = Setup::new(|o| o.cf.default_temperature = Temperature::Ice);
    setup.flush("a");
    assert_eq!(setup.temperatures(), [Temperature::Unknown]);
    assert!(setup.bytes_at(Temperature::Ice) > 2000 && setup.bytes_at(Temperature::Unknown) == 0);
}

#[test]
fn compact_files_may_set_another_temperature() {
    let setup = Setup::new(|o| o.cf.disable_auto_compactions = true);
    setup.flush("a");
    setup.flush("a");
    let numbers: Vec<_> = setup.db.live_files().iter().map(|file| file.number).collect();
    let cold = CompactionOptions { output_temperature_override: Temperature::Cold, ..CompactionOptions::default() };
    setup.db.compact_files(&cold, setup.db.default_cf(), &numbers, 6).unwrap();
    assert_eq!(setup.temperatures(), [Temperature::Cold]);
}

#[test]
fn file_temperature_age_thresholds_cool_files_down() {
    use Temperature::{Cold, Unknown, Warm};
    let age = |age, temperature| FileTemperatureAge { temperature, age };
    let setup = Setup::fifo(|o| {
        o.cf.compaction_options_fifo.file_temperature_age_thresholds = vec![age(100, Warm), age(500, Cold)];
    });
    setup.flush("a");
    setup.advance(60);
    setup.flush("b");
    assert_eq!(setup.temperatures(), [Unknown, Unknown]);
    setup.advance(60);
    setup.flush("c");
    assert_eq!(setup.temperatures(), [Warm, Unknown, Unknown]);
    setup.advance(430);
    setup.flush("d");
    assert_eq!(setup.temperatures(), [Cold, Warm, Warm, Unknown]);
    setup.advance(100_000);
    setup.flush("e");
    assert_eq!(setup.temperatures(), [Cold, Cold, Cold, Cold, Unknown]);
    assert_eq!(setup.keys(), ["a", "b", "c", "d", "e"]);
}

#[test]
fn a_merged_file_is_as_young_as_its_newest_key() {
    let setup = Setup::fifo(|o| {
        o.cf.ttl = 100;
        o.cf.compaction_options_fifo.allow_compaction = true;
        o.cf.level0_file_num_compaction_trigger = 4;
    });
    for key in ["a", "b", "c", "d"] {
        setup.flush(key);
        setup.advance(25);
    }
    assert_eq!(setup.temperatures().len(), 1, "small files were merged");
    // The oldest key has outlived its time, the newest has not.
    setup.advance(50);
    setup.flush("e");
    assert_eq!(setup.keys(), ["a", "b", "c", "d", "e"]);
    setup.advance(60);
    setup.flush("f");
    assert_eq!(setup.keys(), ["e", "f"]);
}

#[test]
fn fifo_parameters_change_while_the_database_is_open() {
    let setup = Setup::fifo(|_| ());
    for key in ["a", "b", "c", "d"] {
        setup.flush(key);
    }
    assert_eq!(setup.keys().len(), 4);
    let change = &[("compaction_options_fifo", "{max_table_files_size=8000}")];
    setup.db.set_options(setup.db.default_cf(), change).unwrap();
    setup.flush("e");
    assert_eq!(setup.keys(), ["d", "e"]);
}

#[test]
fn ttl_and_periodic_compaction_seconds_rewrite_old_files() {
    for (ttl, periodic) in [(0, 0), (100, 0), (0, 100)] {
        let setup = Setup::new(|o| {
            o.cf.ttl = ttl;
            o.cf.periodic_compaction_seconds = periodic;
            o.cf.level_compaction_dynamic_level_bytes = false;
        });
        // Of the last level that has files, none outlives its time to live.
        setup.flush("c");
        setup.compact();
        setup.flush("a");
        let first = setup.db.live_files().iter().map(|file| file.number).max().unwrap();
        setup.advance(200);
        setup.flush("z");
        setup.db.wait_for_compact().unwrap();
        let same = setup.db.live_files().iter().any(|file| file.number == first && file.level == 0);
        assert_eq!(same, ttl + periodic == 0, "ttl {ttl}, periodic {periodic}");
        assert_eq!(setup.keys(), ["a", "c", "z"]);
    }
}

#[test]
fn ttl_counts_from_the_write_and_not_from_the_flush() {
    for (before_flush, is_rewritten) in [(90, true), (10, false)] {
        let setup = Setup::new(|o| {
            o.cf.ttl = 100;
            o.cf.level_compaction_dynamic_level_bytes = false;
        });
        setup.flush("c");
        setup.compact();
        setup.db.put("a", "written before the clock moves").unwrap();
        setup.advance(before_flush);
        setup.flush("a");
        let first = setup.db.live_files().iter().map(|file| file.number).max().unwrap();
        setup.advance(20);
        setup.flush("z");
        setup.db.wait_for_compact().unwrap();
        let same = setup.db.live_files().iter().any(|file| file.number == first && file.level == 0);
        assert_eq!(same, !is_rewritten, "written {before_flush} s before the flush");
    }
}
