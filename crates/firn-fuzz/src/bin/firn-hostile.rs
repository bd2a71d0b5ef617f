//! Hostile databases in numbers: `firn-hostile [--from N] [--count N] [--seconds N] [--memory-mb N]`.
//!
//! `firn-hostile --number N` runs one mutant and says what was changed and what came of it; with `--write DIR` its files are
//! written there. `firn-hostile --compare DIR [--from N] [--count N]` compares what RocksDB's `ldb` reads from mutants with
//! what is read here. `FIRN_HOSTILE_MUTANTS` is the default of `--count`.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a tool that stops at the first error of its own")]

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, ExitCode};

use firn_env::memory::MemoryFileSystem;
use firn_env::posix::PosixFileSystem;
use firn_env::{Clock, FileSystem, SystemClock, create_dir_all, write_file};
use firn_fuzz::hostile::mutant;
use firn_fuzz::hostile::seeds::{DIRECTORY, Image, databases, db_options, environment, family_options, file_system_of};
use firn_fuzz::hostile::watch::{Figures, Limits, run, run_one};
use firndb::options::{BlockBasedTableOptions, ReadOptions};
use firndb::{ColumnFamilyDescriptor, Db};

struct Arguments(HashMap<String, String>);

impl Arguments {
    fn parse() -> Self {
        let mut words = std::env::args().skip(1);
        let mut arguments = HashMap::new();
        while let Some(word) = words.next() {
            let name = word.strip_prefix("--").unwrap_or_else(|| panic!("what is {word}?")).to_owned();
            arguments.insert(name, words.next().expect("every option has a value"));
        }
        Self(arguments)
    }

    fn number(&self, name: &str, default: u64) -> u64 {
        self.0.get(name).map_or(default, |text| text.parse().expect("a number"))
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let databases = databases();
    if let Some(number) = arguments.0.get("number") {
        return one(&databases, number.parse().expect("a number"), arguments.0.get("write").map(Path::new));
    }
    let from = arguments.number("from", 0);
    let count = std::env::var("FIRN_HOSTILE_MUTANTS").map_or(1000, |text| text.parse().expect("a number"));
    let numbers = from..from + arguments.number("count", count);
    if let Some(directory) = arguments.0.get("compare") {
        return compare(&databases, numbers, Path::new(directory));
    }
    let limits =
        Limits { seconds: arguments.number("seconds", 20), memory_bytes: arguments.number("memory-mb", 1024) << 20 };
    let clock = SystemClock::new();
    let start = clock.now_micros();
    let (mut told, mut last) = (0, start);
    let figures = run(databases, numbers, limits, &mut |figures: &Figures| {
        for (number, what) in figures.violations.iter().skip(told) {
            println!("mutant {number}: {what}");
        }
        told = figures.violations.len();
        if clock.now_micros() > last + 10_000_000 {
            last = clock.now_micros();
            println!("{} mutants in {} s", figures.runs, (last - start) / 1_000_000);
        }
    });
    for (number, what) in figures.violations.iter().skip(told) {
        println!("mutant {number}: {what}");
    }
    println!(
        "{} mutants in {} s: {} opened for reading, {} read whole, {} opened for writing, {} repaired; the slowest took {} ms \
         (mutant {}); {} MB of memory; {} violations",
        figures.runs,
        (clock.now_micros() - start) / 1_000_000,
        figures.opened_for_reading,
        figures.scanned,
        figures.opened_for_writing,
        figures.repaired,
        figures.slowest.1 / 1000,
        figures.slowest.0,
        figures.memory_bytes >> 20,
        figures.violations.len(),
    );
    println!("one again: cargo run --release -p firn-fuzz --bin firn-hostile -- --number N");
    if figures.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn one(databases: &[Image], number: u64, directory: Option<&Path>) -> ExitCode {
    let mutant = mutant(databases, number);
    for change in &mutant.changes {
        println!("{change}");
    }
    if let Some(directory) = directory {
        write(&mutant.image, directory);
    }
    let (outcome, _) = run_one(databases, number);
    println!("{outcome:#?}");
    if outcome.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn write(image: &Image, directory: &Path) {
    let fs = PosixFileSystem::new();
    create_dir_all(&fs, directory).unwrap();
    for (name, bytes) in image {
        write_file(&fs as &dyn FileSystem, &directory.join(name), bytes, false).unwrap();
    }
}

/// The default column family as `ldb scan --hex` prints it, up to the first error.
fn scan(image: &Image) -> (Vec<String>, String) {
    let fs = file_system_of(image);
    let read = |fs: &std::sync::Arc<MemoryFileSystem>| -> firndb::Result<(Vec<String>, String)> {
        let options = db_options(environment(std::sync::Arc::clone(fs), 0));
        let names = Db::list_column_families(DIRECTORY, &options)?;
        let family = family_options(BlockBasedTableOptions::default());
        let families = names.into_iter().map(|name| ColumnFamilyDescriptor::new(name, family.clone())).collect();
        let db = Db::open_cf_read_only(DIRECTORY, options, families)?;
        let mut cursor = db.cursor(&ReadOptions::default(), db.default_cf())?;
        let mut lines = Vec::new();
        cursor.seek_to_first();
        while cursor.valid() {
            let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
            lines.push(format!("0x{} : 0x{}", hex(cursor.key()), hex(cursor.value())));
            cursor.next();
        }
        Ok((lines, cursor.status().err().map(|error| error.to_string()).unwrap_or_default()))
    };
    read(&fs).unwrap_or_else(|error| (Vec::new(), error.to_string()))
}

fn compare(databases: &[Image], numbers: std::ops::Range<u64>, directory: &Path) -> ExitCode {
    let (mut same, mut different) = (0, 0);
    for number in numbers {
        let mutant = mutant(databases, number);
        let place = directory.join("db");
        let _ = std::fs::remove_dir_all(&place);
        write(&mutant.image, &place);
        let output = Command::new("timeout")
            .args(["20", "/usr/bin/ldb", "scan", "--hex"])
            .arg(format!("--db={}", place.display()))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let theirs: Vec<_> =
            text.lines().filter(|line| line.starts_with("0x")).map(|line| line.replace(" ==> ", " : ")).collect();
        let (ours, error) = scan(&mutant.image);
        if ours == theirs {
            same += 1;
            continue;
        }
        different += 1;
        let common = ours.iter().zip(&theirs).take_while(|(a, b)| a == b).count();
        println!("mutant {number}: {} entries here, {} of ldb, the first {common} the same", ours.len(), theirs.len());
        println!("  changed: {}", mutant.changes.join(" | ").chars().take(300).collect::<String>());
        println!("  here: {error}");
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned()
            + text.lines().rfind(|line| !line.starts_with("0x")).unwrap_or("");
        println!("  ldb ({}): {}", output.status, complaint.chars().take(300).collect::<String>().replace('\n', " "));
        println!("  here next: {:?}, ldb next: {:?}", ours.get(common), theirs.get(common));
    }
    println!("{same} the same, {different} different");
    ExitCode::SUCCESS
}
