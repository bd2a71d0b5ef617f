//! The only module of `db_bench` that knows the database: opening, closing, and what benchmarks do to it.
//!
//! In: flags. Out: open databases with their column families, operations with RocksDB's meaning. Wrappers are thin, so
//! that what is measured is the database.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_env::{Env, GenericRateLimiter, Priority, RateLimiter, RateLimiterMode, RateLimiterOptions};
use firn_error::{Error, Result};
use firn_table::BlockCache;
use firn_table::cache::CacheOptions;
use firn_table::options::TableFactory;
use firndb::options::{
    BottommostLevelCompaction, CompactRangeOptions, CompactionOptions, ConfigOptions, OptionSet, load_options_from_file,
};
use firndb::stats::{PerfLevel, Statistics, StatsLevel, perf_context, reset_perf_context, set_perf_level};
use firndb::{
    ColumnFamily, ColumnFamilyDescriptor, Cursor, DEFAULT_COLUMN_FAMILY_NAME, Db, FlushOptions, Options, PinnedSlice,
    SizeApproximation, WriteBatch,
};
pub use firndb::{ReadOptions, WriteOptions};

use super::bench_flags::BenchFlags;
use super::options;
use super::script_form;
use super::setup::Setup;
use super::stats::IntervalText;

/// One open database.
pub struct OpenDb {
    db: Db,
    families: Vec<ColumnFamily>,
    /// Cumulative percentages of `--column_family_distribution`; empty when families are taken in turn.
    distribution: Vec<u64>,
    /// `--target_file_size_base`
    target_file_size: u64,
    path: PathBuf,
}

/// A batch of writes, reused from step to step.
#[derive(Default)]
pub struct Batch(WriteBatch);

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self(WriteBatch::new())
    }

    /// Forgets all entries, keeps the memory.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds a put.
    #[inline]
    pub fn put(&mut self, db: &OpenDb, family: usize, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.put_cf(&db.families[family], key, value)
    }

    /// Adds a merge.
    #[inline]
    pub fn merge(&mut self, db: &OpenDb, family: usize, key: &[u8], operand: &[u8]) -> Result<()> {
        self.0.merge_cf(&db.families[family], key, operand)
    }

    /// Adds a delete.
    #[inline]
    pub fn delete(&mut self, db: &OpenDb, family: usize, key: &[u8]) -> Result<()> {
        self.0.delete_cf(&db.families[family], key)
    }

    /// Adds a range deletion of `[begin, end)`.
    pub fn delete_range(&mut self, db: &OpenDb, family: usize, begin: &[u8], end: &[u8]) -> Result<()> {
        self.0.delete_range_cf(&db.families[family], begin, end)
    }
}

/// A scan that stands nowhere until it is told to; an error while making it shows in [`Scan::status`].
pub struct Scan(Result<Cursor>);

impl Scan {
    /// Moves to the first key at or after `key`.
    #[inline]
    pub fn seek(&mut self, key: &[u8]) {
        if let Ok(cursor) = &mut self.0 {
            cursor.seek(key);
        }
    }

    /// Moves to the first key.
    pub fn seek_to_first(&mut self) {
        if let Ok(cursor) = &mut self.0 {
            cursor.seek_to_first();
        }
    }

    /// Moves to the last key.
    pub fn seek_to_last(&mut self) {
        if let Ok(cursor) = &mut self.0 {
            cursor.seek_to_last();
        }
    }

    /// Moves forward; the scan must be valid.
    #[inline]
    pub fn next(&mut self) {
        if let Ok(cursor) = &mut self.0 {
            cursor.next();
        }
    }

    /// Moves backward; the scan must be valid.
    #[inline]
    pub fn prev(&mut self) {
        if let Ok(cursor) = &mut self.0 {
            cursor.prev();
        }
    }

    /// Whether the scan stands on an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.0.as_ref().is_ok_and(Cursor::valid)
    }

    /// The key; the scan must be valid.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.0.as_ref().map(Cursor::key).unwrap_or_default()
    }

    /// The value; the scan must be valid.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.0.as_ref().map(Cursor::value).unwrap_or_default()
    }

    /// The error that ended the scan, if one did.
    pub fn status(&self) -> Result<()> {
        match &self.0 {
            Ok(cursor) => cursor.status(),
            Err(error) => Err(error.clone()),
        }
    }
}

/// What compacting one level came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactedLevel {
    /// The level had no files.
    NoFiles,
    /// No level below this one had files; nothing was done.
    NothingBelow(usize),
    /// Files went from one level to another.
    Moved {
        /// How many.
        files: usize,
        /// From this level.
        from: usize,
        /// To this level.
        to: usize,
    },
}

impl OpenDb {
    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The column family of the key number `number`.
    #[inline]
    pub fn family(&self, number: u64) -> usize {
        if self.families.len() == 1 {
            return 0;
        }
        if self.distribution.is_empty() {
            return (number % self.families.len() as u64) as usize;
        }
        let percent = number % 100;
        self.distribution.iter().position(|bound| percent < *bound).unwrap_or(0).min(self.families.len() - 1)
    }

    /// A point lookup.
    #[inline]
    pub fn get(&self, options: &ReadOptions, family: usize, key: &[u8]) -> Result<Option<PinnedSlice>> {
        self.db.get_opt(options, &self.families[family], key)
    }

    /// What a merge of the key would be given, oldest first.
    pub fn merge_operands(&self, options: &ReadOptions, family: usize, key: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.db.get_merge_operands(options, &self.families[family], key, usize::MAX)
    }

    /// Several point lookups at once.
    pub fn multi_get(
        &self,
        options: &ReadOptions,
        family: usize,
        keys: &[Vec<u8>],
    ) -> Vec<Result<Option<PinnedSlice>>> {
        self.db.multi_get_opt(options, &self.families[family], keys)
    }

    /// Sets a key.
    #[inline]
    pub fn put(&self, options: &WriteOptions, family: usize, key: &[u8], value: &[u8]) -> Result<()> {
        self.db.put_opt(options, &self.families[family], key, value)
    }

    /// Adds a merge operand.
    #[inline]
    pub fn merge(&self, options: &WriteOptions, family: usize, key: &[u8], operand: &[u8]) -> Result<()> {
        self.db.merge_opt(options, &self.families[family], key, operand)
    }

    /// Deletes a key.
    pub fn delete(&self, options: &WriteOptions, family: usize, key: &[u8]) -> Result<()> {
        self.db.delete_opt(options, &self.families[family], key)
    }

    /// Deletes a key that was put once.
    pub fn single_delete(&self, options: &WriteOptions, family: usize, key: &[u8]) -> Result<()> {
        self.db.single_delete_opt(options, &self.families[family], key)
    }

    /// Writes a batch.
    #[inline]
    pub fn write(&self, options: &WriteOptions, batch: &mut Batch) -> Result<()> {
        self.db.write_opt(options, &mut batch.0)
    }

    /// A scan over a family.
    #[inline]
    pub fn scan(&self, options: &ReadOptions, family: usize) -> Scan {
        Scan(self.db.cursor(options, &self.families[family]))
    }

    /// Read options as of now.
    pub fn snapshot_options(&self, options: &ReadOptions) -> ReadOptions {
        ReadOptions { snapshot: Some(self.db.snapshot()), ..options.clone() }
    }

    /// Flushes the memtables of all families and waits.
    pub fn flush(&self) -> Result<()> {
        let families: Vec<&ColumnFamily> = self.families.iter().collect();
        self.db.flush_cfs(&FlushOptions::default(), &families)
    }

    /// Compacts everything to the bottom.
    pub fn compact_range(&self, subcompactions: u32) -> Result<()> {
        let options = CompactRangeOptions {
            bottommost_level_compaction: BottommostLevelCompaction::ForceOptimized,
            max_subcompactions: subcompactions,
            ..Default::default()
        };
        self.families.iter().try_for_each(|family| self.db.compact_range(&options, family, None, None))
    }

    /// Compacts level 0 (`label` 0), or the first level below it that has files (`label` 1), into the next level that
    /// has files.
    pub fn compact_level(&self, label: usize) -> Result<CompactedLevel> {
        let family = &self.families[0];
        let files: Vec<_> =
            self.db.live_files().into_iter().filter(|file| file.column_family == family.name()).collect();
        let first_at_or_below =
            |level: usize| files.iter().map(|file| file.level).filter(|found| *found >= level).min();
        let from = match label {
            0 => 0,
            _ => match first_at_or_below(1) {
                Some(level) => level,
                None => return Ok(CompactedLevel::NoFiles),
            },
        };
        let inputs: Vec<_> = files.iter().filter(|file| file.level == from).collect();
        if inputs.is_empty() {
            return Ok(CompactedLevel::NoFiles);
        }
        let Some(to) = first_at_or_below(from + 1) else {
            return Ok(CompactedLevel::NothingBelow(from));
        };
        let numbers: Vec<_> = inputs.iter().map(|file| file.number).collect();
        let options = CompactionOptions { output_file_size_limit: self.target_file_size, ..Default::default() };
        self.db.compact_files(&options, family, &numbers, to)?;
        Ok(CompactedLevel::Moved { files: inputs.len(), from, to })
    }

    /// Waits until no flush or compaction is running or due.
    pub fn wait_for_compact(&self) -> Result<()> {
        self.db.wait_for_compact()
    }

    /// A property of the database or its default family.
    pub fn property(&self, name: &str) -> Option<String> {
        self.db.property(&self.families[0], name)
    }

    /// Forgets the internal counters behind `rocksdb.stats`.
    pub fn reset_stats(&self) {
        self.db.reset_stats();
    }

    /// Checks all table files.
    pub fn verify_checksum(&self) -> Result<()> {
        self.db.verify_checksum()
    }

    /// Compares all table files with their checksums in the MANIFEST.
    pub fn verify_file_checksums(&self) -> Result<()> {
        self.db.verify_file_checksums()
    }

    /// Estimated bytes in files of key ranges.
    pub fn approximate_sizes(&self, family: usize, ranges: &[(Vec<u8>, Vec<u8>)]) -> Result<Vec<u64>> {
        let ranges: Vec<(&[u8], &[u8])> = ranges.iter().map(|(a, b)| (a.as_slice(), b.as_slice())).collect();
        self.db.approximate_sizes(&self.families[family], &ranges, SizeApproximation::Files)
    }
}

/// All databases of the run, and what they are opened with.
pub struct Engine {
    databases: Vec<OpenDb>,
    options: Options,
    statistics: Option<Arc<Statistics>>,
    flags: BenchFlags,
}

impl Engine {
    /// Opens the databases that the flags describe; without `--use_existing_db` what is there is destroyed first.
    ///
    /// # Errors
    /// Options that do not fit; whatever keeps a database from being opened.
    pub fn open(env: &Env, flags: &BenchFlags) -> Result<Self> {
        let statistics = flags.statistics.then(|| {
            let level = u8::try_from(flags.stats_level).unwrap_or(u8::MAX);
            Arc::new(Statistics::new(StatsLevel::from_number(level)))
        });
        set_pools(env, flags);
        let options = objects(env, flags, statistics.clone())?;
        let mut engine = Self { databases: Vec::new(), options, statistics, flags: flags.clone() };
        if !flags.use_existing_db {
            engine.destroy()?;
        }
        engine.open_all()?;
        Ok(engine)
    }

    /// The open databases, at least one.
    #[inline]
    pub fn databases(&self) -> &[OpenDb] {
        &self.databases
    }

    /// `--db`
    pub fn path(&self) -> &Path {
        Path::new(&self.flags.db)
    }

    /// The directories of the databases.
    fn paths(&self) -> Vec<PathBuf> {
        match self.flags.num_multi_db {
            count if count > 1 => (0..count).map(|index| self.path().join(index.to_string())).collect(),
            _ => vec![self.path().to_path_buf()],
        }
    }

    /// Options of the database at `path`.
    fn options_at(&self, path: &Path) -> Options {
        let mut options = self.options.clone();
        if self.flags.num_multi_db > 1
            && !options.db.wal_dir.is_empty()
            && let Some(name) = path.file_name()
        {
            options.db.wal_dir = Path::new(&options.db.wal_dir).join(name).to_string_lossy().into_owned();
        }
        options
    }

    fn destroy(&self) -> Result<()> {
        self.paths().iter().try_for_each(|path| Db::destroy(path, &self.options_at(path)))
    }

    fn open_all(&mut self) -> Result<()> {
        let env = self.options.db.env.clone();
        for path in self.paths() {
            firn_env::create_dir_all(&**env.fs(), &path)?;
            let options = self.options_at(&path);
            let names = family_names(&self.flags);
            let families: Vec<_> =
                names.iter().map(|name| ColumnFamilyDescriptor::new(name.clone(), options.cf.clone())).collect();
            let db = match self.flags.readonly {
                true => Db::open_cf_read_only(&path, options.db, families)?,
                false => Db::open_cf(&path, options.db, families)?,
            };
            let families = names.iter().map(|name| {
                db.cf(name).ok_or_else(|| Error::invalid_argument(format!("the column family {name} is not open")))
            });
            let families = families.collect::<Result<Vec<_>>>()?;
            let distribution = distribution(&self.flags.column_family_distribution, families.len())?;
            let target_file_size = self.options.cf.target_file_size_base;
            self.databases.push(OpenDb { db, families, distribution, target_file_size, path });
        }
        Ok(())
    }

    /// Closes and destroys the databases and opens empty ones.
    ///
    /// # Errors
    /// Those of closing, destroying and opening.
    pub fn recreate(&mut self) -> Result<()> {
        self.close()?;
        self.destroy()?;
        self.open_all()
    }

    /// Closes the databases.
    ///
    /// # Errors
    /// The first one's.
    pub fn close(&mut self) -> Result<()> {
        self.databases.drain(..).try_for_each(|open| open.db.close())
    }

    /// Read options as the flags describe them.
    pub fn read_options(&self) -> ReadOptions {
        let flags = &self.flags;
        ReadOptions {
            verify_checksums: flags.verify_checksum,
            total_order_seek: flags.total_order_seek,
            prefix_same_as_start: flags.prefix_same_as_start,
            tailing: flags.use_tailing_iterator,
            readahead_size: usize::try_from(flags.readahead_size).unwrap_or(0),
            adaptive_readahead: flags.adaptive_readahead,
            async_io: flags.async_io,
            optimize_multiget_for_io: flags.optimize_multiget_for_io,
            auto_readahead_size: flags.auto_readahead_size,
            auto_prefix_mode: flags.auto_prefix_mode,
            ..Default::default()
        }
    }

    /// The same with bounds for iterators.
    pub fn read_options_within(&self, lower: Option<Vec<u8>>, upper: Option<Vec<u8>>) -> ReadOptions {
        ReadOptions { iterate_lower_bound: lower, iterate_upper_bound: upper, ..self.read_options() }
    }

    /// Write options of a benchmark.
    pub fn write_options(&self, setup: &Setup) -> WriteOptions {
        WriteOptions { sync: setup.sync, disable_wal: setup.disable_wal, ..Default::default() }
    }

    /// What thread 0 adds to its interval reports.
    pub fn interval_text(&self, _show_table_properties: bool) -> IntervalText {
        let databases: Vec<Vec<(Db, ColumnFamily)>> = self
            .databases
            .iter()
            .map(|open| open.families.iter().map(|family| (open.db.clone(), family.clone())).collect())
            .collect();
        Arc::new(move || {
            let mut text = String::new();
            for families in &databases {
                let property = if families.len() > 1 { "rocksdb.cfstats" } else { "rocksdb.stats" };
                for (db, family) in families {
                    if let Some(stats) = db.property(family, property) {
                        text.push_str(&script_form::of_stats(&stats));
                        text.push('\n');
                    }
                }
                if let Some((db, family)) = families.first() {
                    let count = |name: &str| db.property_int(family, &format!("rocksdb.{name}")).unwrap_or(0);
                    text.push_str(&format!(
                        "num-running-compactions: {}\nnum-running-flushes: {}\n\n",
                        count("num-running-compactions"),
                        count("num-running-flushes")
                    ));
                }
            }
            text
        })
    }

    /// All keys of the first database, ascending.
    ///
    /// # Errors
    /// What ended the scan.
    pub fn all_keys(&self) -> Result<Vec<Box<[u8]>>> {
        let mut keys = Vec::new();
        let options = ReadOptions { total_order_seek: true, ..Default::default() };
        for db in self.databases.iter().take(1) {
            let mut scan = db.scan(&options, 0);
            scan.seek_to_first();
            while scan.valid() {
                keys.push(scan.key().into());
                scan.next();
            }
            scan.status()?;
        }
        Ok(keys)
    }

    /// The text of `--statistics`.
    pub fn statistics_text(&self) -> Option<String> {
        self.statistics.as_ref().map(|statistics| statistics.to_text())
    }
}

/// Sets what the calling thread counts to `--perf_level` and starts at zero; false when that is nothing.
pub fn start_perf_context(level: i32) -> bool {
    let level = match level {
        i32::MIN..=1 => PerfLevel::Disable,
        2 => PerfLevel::EnableCount,
        3 => PerfLevel::EnableWait,
        4 => PerfLevel::EnableTimeExceptForMutex,
        5 => PerfLevel::EnableTimeAndCpuTimeExceptForMutex,
        _ => PerfLevel::EnableTime,
    };
    set_perf_level(level);
    reset_perf_context();
    level > PerfLevel::Disable
}

/// The calling thread's counters, `name = value` separated by commas.
pub fn perf_context_text() -> String {
    perf_context().to_text(false)
}

/// Sizes the background pools as the flags ask; 0 leaves them to the options.
fn set_pools(env: &Env, flags: &BenchFlags) {
    for (priority, threads) in [
        (Priority::High, flags.num_high_pri_threads),
        (Priority::Low, flags.num_low_pri_threads),
        (Priority::Bottom, flags.num_bottom_pri_threads),
    ] {
        if let Ok(threads @ 1..) = usize::try_from(threads) {
            env.pools().set_background_threads(priority, threads);
        }
    }
}

/// The options of the flags, with the objects that live as long as the process.
fn objects(env: &Env, flags: &BenchFlags, statistics: Option<Arc<Statistics>>) -> Result<Options> {
    let mut options = match flags.options_file.as_str() {
        "" => options::from_flags(flags)?,
        path => from_file(env, Path::new(path), flags)?,
    };
    options.db.env = env.clone();
    options.db.statistics = statistics;
    if flags.rate_limiter_bytes_per_sec > 0 {
        let limiter = GenericRateLimiter::new(
            RateLimiterOptions {
                bytes_per_second: flags.rate_limiter_bytes_per_sec,
                refill_period_micros: u64::try_from(flags.rate_limiter_refill_period_us).unwrap_or(100_000).max(1),
                mode: if flags.rate_limit_bg_reads { RateLimiterMode::ReadsOnly } else { RateLimiterMode::WritesOnly },
                auto_tuned: flags.rate_limiter_auto_tuned,
                single_burst_bytes: u64::try_from(flags.rate_limiter_single_burst_bytes).unwrap_or(0),
                ..Default::default()
            },
            Arc::clone(env.clock()),
        )?;
        options.db.rate_limiter = Some(Arc::new(limiter) as Arc<dyn RateLimiter>);
    }
    let config = ConfigOptions { ignore_unsupported_options: false, ..Default::default() };
    let from_flags = flags.options_file.is_empty();
    if from_flags && !flags.merge_operator.is_empty() {
        options.cf.set_text("merge_operator", &flags.merge_operator, &config)?;
    }
    if from_flags && flags.prefix_size > 0 {
        options.cf.set_text("prefix_extractor", &format!("rocksdb.FixedPrefix.{}", flags.prefix_size), &config)?;
    }
    if from_flags && flags.memtable_insert_with_hint_prefix_size > 0 {
        let text = format!("rocksdb.CappedPrefix.{}", flags.memtable_insert_with_hint_prefix_size);
        options.cf.set_text("memtable_insert_with_hint_prefix_extractor", &text, &config)?;
    }
    if let TableFactory::BlockBased(table) = &mut options.cf.table_factory
        && let Ok(capacity @ 1..) = usize::try_from(flags.cache_size)
    {
        let cache = CacheOptions {
            num_shard_bits: flags.cache_numshardbits,
            high_pri_pool_ratio: flags.cache_high_pri_pool_ratio,
            ..CacheOptions::new(capacity)
        };
        table.block_cache = Some(Arc::new(BlockCache::new(&cache)));
    }
    Ok(options)
}

/// The options of an OPTIONS file; of the flags only what names places holds beside it.
fn from_file(env: &Env, path: &Path, flags: &BenchFlags) -> Result<Options> {
    let loaded = load_options_from_file(&**env.fs(), path, &ConfigOptions::default())?;
    let cf = loaded.column_family(DEFAULT_COLUMN_FAMILY_NAME).cloned().unwrap_or_default();
    let mut options = Options { db: loaded.db, cf };
    options.db.create_if_missing = true;
    options.db.create_missing_column_families = true;
    if !flags.wal_dir.is_empty() {
        options.db.wal_dir.clone_from(&flags.wal_dir);
    }
    Ok(options)
}

/// `default`, then `column_family_name_000001` and so on.
fn family_names(flags: &BenchFlags) -> Vec<String> {
    let others = (1..flags.num_column_families).map(|index| format!("column_family_name_{index:06}"));
    std::iter::once(DEFAULT_COLUMN_FAMILY_NAME.to_owned()).chain(others).collect()
}

/// The cumulative percentages of a list such as `10,90`.
fn distribution(text: &str, families: usize) -> Result<Vec<u64>> {
    let mut sum = 0;
    let mut bounds = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let percent: u64 = part
            .trim()
            .parse()
            .map_err(|_| Error::invalid_argument(format!("--column_family_distribution: '{part}' is no percentage")))?;
        sum += percent;
        bounds.push(sum);
    }
    if bounds.is_empty() || (sum == 100 && bounds.len() == families) {
        return Ok(bounds);
    }
    Err(Error::invalid_argument("column_family_distribution items must match the number of families and sum to 100"))
}

/// The user's number, for the default database directory.
pub fn user_id(env: &Env) -> u32 {
    let status = firn_env::read_file(&**env.fs(), Path::new("/proc/self/status"), 1 << 20).unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    line.and_then(|ids| ids.split_whitespace().next()).and_then(|id| id.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_follow_the_distribution() {
        assert_eq!(distribution("10,30,60", 3).expect("valid"), [10, 40, 100]);
        assert!(distribution("10,30", 2).is_err());
        assert!(distribution("40,60", 3).is_err());
        assert!(distribution("a", 1).is_err());
        assert_eq!(distribution("", 3).expect("none"), Vec::<u64>::new());
    }

    #[test]
    fn names_of_families() {
        let flags = BenchFlags { num_column_families: 3, ..Default::default() };
        assert_eq!(family_names(&flags), ["default", "column_family_name_000001", "column_family_name_000002"]);
    }
}
