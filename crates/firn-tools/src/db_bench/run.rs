//! One run of the tool: flags checked, database opened, header printed, then the benchmarks of the list in order.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_env::Env;

use super::bench_flags::BenchFlags;
use super::engine::Engine;
use super::harness::Failure;
use super::registry::Action;
use super::setup::Setup;
use super::stats::{IntervalText, RepeatStats};
use super::{engine, harness, header, list, options, refusals, registry, setup, values};
use crate::ROCKSDB_VERSION;
use crate::flags::{self, Outcome, Program};

/// The tool while it runs.
pub struct Bench {
    /// The command line.
    pub flags: BenchFlags,
    /// Files, clock and threads.
    pub env: Env,
    /// The open databases.
    pub engine: Engine,
    /// Base of all random streams.
    pub seed: u64,
    /// With `--use_existing_keys`: the keys found in the database, ascending.
    pub existing_keys: Option<Vec<Box<[u8]>>>,
    threads_started: AtomicU64,
}

impl Bench {
    /// The seed of the next worker thread: no two threads of a process share one.
    pub fn next_thread_seed(&self) -> u64 {
        self.seed.wrapping_add(self.threads_started.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// What thread 0 adds to its interval reports, when `--stats_per_interval` asks for it.
    pub fn interval_text(&self) -> Option<IntervalText> {
        (self.flags.stats_per_interval != 0).then(|| self.engine.interval_text(self.flags.show_table_properties))
    }

    /// Runs one benchmark with all its repeats.
    fn run_entry(&mut self, entry: &list::ListEntry, default_list: bool) -> Result<(), Failure> {
        let mut setup = Setup::new(&entry.name, &self.flags);
        let Some(action) = registry::find(&mut setup, &self.flags) else {
            return Err(Failure(format!("unknown benchmark '{}'", entry.name)));
        };
        let name = &entry.name;
        match action {
            Action::Skip(reason) => {
                println!("{name:<12} : skipped ({reason})");
                return if default_list { Ok(()) } else { Err(Failure(String::new())) };
            }
            Action::Unsupported(feature) if default_list => {
                println!("{name:<12} : skipped (not supported: {feature})");
                return Ok(());
            }
            Action::Unsupported(feature) => return Err(Failure(format!("{name}: not supported: {feature}"))),
            Action::Measure(_) | Action::Meta(_) => {}
        }
        if default_list && matches!(name.as_str(), "fillsync" | "fill100K") && self.flags.writes < 0 {
            // The help of both says N/1000 writes; by default a million would sync for hours or write 100 GB.
            setup.writes = setup.num;
        }
        if setup.fresh {
            if self.flags.use_existing_db {
                println!("{name:<12} : skipped (--use_existing_db is true)");
                return Ok(());
            }
            print!("{}", options_lines(&self.flags));
            self.engine.recreate().map_err(|e| Failure::new("open error", &e))?;
        }
        match action {
            Action::Meta(operation) => operation(self)?,
            Action::Measure(method) => {
                println!("DB path: [{}]", self.engine.path().display());
                self.measure(entry, &setup, method)?;
            }
            Action::Skip(_) | Action::Unsupported(_) => {}
        }
        let _ = std::io::stdout().flush();
        Ok(())
    }

    fn measure(&self, entry: &list::ListEntry, setup: &Setup, method: harness::Method) -> Result<(), Failure> {
        let name = &entry.name;
        if entry.warm_ups > 0 {
            println!("Warming up benchmark by running {} times", entry.warm_ups);
        }
        for _ in 0..entry.warm_ups {
            print!("{}", harness::run(self, setup, method)?.text(name));
        }
        if entry.repeats > 1 {
            println!("Running benchmark for {} times", entry.repeats);
        }
        let mut repeats = RepeatStats::default();
        for _ in 0..entry.repeats {
            let _ = std::io::stdout().flush();
            let run = harness::run(self, setup, method)?;
            print!("{}", run.text(name));
            repeats.add(&run);
            if let Some(line) = repeats.interim(name, self.flags.confidence_interval_only) {
                print!("{line}");
            }
        }
        if let Some(lines) = repeats.summary(name, self.flags.confidence_interval_only) {
            print!("{lines}");
        }
        Ok(())
    }
}

/// The lines that say where the options come from.
fn options_lines(flags: &BenchFlags) -> String {
    let from_flags = match flags.options_file.is_empty() {
        true => "Initializing RocksDB Options from command-line flags\n",
        false => "",
    };
    format!(
        "Initializing RocksDB Options from the specified file\n{from_flags}Integrated BlobDB: blob cache disabled\n"
    )
}

/// Runs the tool; returns the exit status.
pub fn main(arguments: &[String]) -> i32 {
    let env = Env::shared();
    let program = Program { name: "db_bench", version: ROCKSDB_VERSION, usage: "\nUSAGE:\ndb_bench [OPTIONS]..." };
    let (flags, given) = match flags::parse::<BenchFlags>(program, arguments, &flags::Outside(&env)) {
        Outcome::Run { flags, given } => (*flags, given),
        Outcome::Print { text, status } => {
            print!("{text}");
            return status;
        }
        Outcome::Fail { text } => {
            eprint!("{text}");
            return 1;
        }
    };
    match run(env, flags, &given) {
        Ok(()) => 0,
        Err(Failure(text)) => {
            let _ = std::io::stdout().flush();
            if !text.is_empty() {
                eprintln!("{text}");
            }
            1
        }
    }
}

/// Checks what the parser cannot: combinations of flags, and names.
fn check_flags(flags: &BenchFlags) -> Result<(), Failure> {
    let fail = |text: &str| Err(Failure(text.to_owned()));
    for name in [&flags.compression_type, &flags.wal_compression] {
        if options::compression_type(name).is_none() {
            return Err(Failure(format!("Cannot parse compression type '{name}'")));
        }
    }
    if setup::value_sizes(flags).is_none() {
        return Err(Failure(format!("Cannot parse distribution type '{}'", flags.value_size_distribution_type)));
    }
    if flags.statistics && !flags.statistics_string.is_empty() {
        return fail("Cannot provide both --statistics and --statistics_string.");
    }
    if flags.use_existing_keys && !flags.use_existing_db {
        return fail("`-use_existing_db` must be true for `-use_existing_keys` to be settable");
    }
    if flags.bgwriter_num > flags.num {
        return fail("--bgwriter_num must not exceed --num");
    }
    if flags.prefix_size > flags.key_size {
        return fail("prefix size is larger than key size");
    }
    if flags.keys_per_prefix > flags.num.max(0) {
        return fail("--keys_per_prefix must not exceed --num");
    }
    if !(0.0..=1.0).contains(&flags.compression_ratio) {
        return fail("compression_ratio should be between 0 and 1");
    }
    if flags.seek_missing_prefix && flags.prefix_size <= 8 {
        return fail("prefix_size > 8 required by --seek_missing_prefix");
    }
    match flags.cache_type.as_str() {
        "lru_cache" | "hyper_clock_cache" | "auto_hyper_clock_cache" | "fixed_hyper_clock_cache" => {}
        "clock_cache" => return fail("Old clock cache implementation has been removed."),
        _ => return fail("Cache type not supported."),
    }
    refusals::check(flags).map_err(Failure)
}

fn run(env: Env, mut flags: BenchFlags, given: &BTreeSet<&'static str>) -> Result<(), Failure> {
    if flags.build_info {
        println!(" (RocksDB) {ROCKSDB_VERSION}\n    firn_version: {}", env!("CARGO_PKG_VERSION"));
        return Ok(());
    }
    check_flags(&flags)?;
    flags.use_existing_db |= flags.readonly;
    let seed = match u64::try_from(flags.seed) {
        Ok(0) => {
            let seed = env.clock().now_micros();
            println!("Set seed to {seed} because --seed was 0");
            seed
        }
        Ok(seed) => seed,
        Err(_) => flags.seed as u64,
    };
    if flags.db.is_empty() {
        flags.db = match std::env::var("TEST_TMPDIR") {
            Ok(dir) if !dir.is_empty() => format!("{dir}/dbbench"),
            _ => format!("/tmp/rocksdbtest-{}/dbbench", engine::user_id(&env)),
        };
    }
    let default_list = !given.contains("benchmarks");
    let machine = header::machine(&env);
    print!("{}", options_lines(&flags));
    let start_nanos = env.clock().now_nanos();
    let engine = Engine::open(&env, &flags).map_err(|e| Failure::new("open error", &e))?;
    if flags.report_open_timing {
        println!("OpenDb:     {} milliseconds", (env.clock().now_nanos() - start_nanos) as f64 / 1e6);
    }
    let existing_keys = match flags.use_existing_keys {
        true => Some(engine.all_keys().map_err(|e| Failure::new("read error", &e))?),
        false => None,
    };
    if let Some(keys) = &existing_keys {
        if keys.is_empty() {
            return Err(Failure("--use_existing_keys: the database is empty".to_owned()));
        }
        flags.num = i64::try_from(keys.len()).unwrap_or(i64::MAX);
    }
    let sizes = setup::value_sizes(&flags).unwrap_or(values::SizeDistribution::Fixed(0));
    eprint!("{machine}");
    print!("{}", header::workload(&flags, sizes));
    let mut bench = Bench { flags, env, engine, seed, existing_keys, threads_started: AtomicU64::new(0) };
    let benchmarks = bench.flags.benchmarks.clone();
    for entry in list::split(&benchmarks) {
        let _ = std::io::stdout().flush();
        bench.run_entry(&entry.map_err(Failure)?, default_list)?;
    }
    if let Some(text) = bench.engine.statistics_text() {
        println!("STATISTICS:\n{text}");
    }
    let closed = bench.engine.close();
    closed.map_err(|e| Failure::new("close error", &e))
}
