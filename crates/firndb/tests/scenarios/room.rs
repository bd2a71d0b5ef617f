//! Running the scenarios of a room: each on a directory of its own, answers compared or written back.
//!
//! Files flow in, a report of every answer that is not the expected one flows out. Commands about files on disk are carried
//! out here, so that they do the same for both engines.

use std::path::{Path, PathBuf};

use firn_env::{FileSystem, read_file};

use crate::common::{FS, put_file};
use crate::disk::Disk;
use crate::script::{self, Item, Scenario, Step};
use crate::words::Words;
use crate::{Answer, Engine};

/// What every scenario's options start from: where the defaults of RocksDB 7.8 and 11.9 differ they are stated here, and so
/// is what would make answers depend on time or on the machine.
const BASE_OPTIONS: &str = "create_if_missing=true;level_compaction_dynamic_level_bytes=false;compression=kNoCompression;\
    stats_dump_period_sec=0;stats_persist_period_sec=0;max_open_files=-1;periodic_compaction_seconds=0;ttl=0";
/// The same for the options of tables.
const BASE_TABLE_OPTIONS: &str = "format_version=5";

/// What to do with answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewrite {
    /// Compare them.
    Nothing,
    /// Write down what RocksDB answers.
    RocksDb,
    /// Write down what Firn answers where it is said to differ.
    Firn,
}

/// A directory in memory where there is one: scenarios flush a lot, and nothing here asks what survives a power failure.
fn scratch() -> tempfile::TempDir {
    let in_memory = Path::new("/dev/shm");
    if in_memory.is_dir() { tempfile::tempdir_in(in_memory) } else { tempfile::tempdir() }.unwrap()
}

/// The files of a room in the order of their names.
pub fn files(room: &str) -> Vec<PathBuf> {
    let dir = data_dir().join(room);
    let mut names = FS.children(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    names.retain(|name| name.ends_with(".txt"));
    names.sort();
    names.into_iter().map(|name| dir.join(name)).collect()
}

pub fn data_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios/data")
}

pub fn read(path: &Path) -> Vec<Item> {
    let bytes = read_file(&FS, path, u64::MAX).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    script::parse(&text).unwrap_or_else(|what| panic!("{}: {what}", path.display()))
}

/// Runs the scenarios of a room whose names contain `filter`; returns how many there were, and what was wrong.
pub fn run(room: &str, engine: &mut dyn Engine, filter: &str, rewrite: Rewrite) -> (usize, Vec<String>) {
    let (mut count, mut failures) = (0, Vec::new());
    for path in files(room) {
        let file = path.file_stem().unwrap().to_string_lossy().into_owned();
        let mut items = read(&path);
        let mut changed = false;
        for scenario in script::scenarios(&items) {
            let name = format!("{room}/{file}: {}", scenario.name);
            if !name.contains(filter) {
                continue;
            }
            count += 1;
            let answers = perform(engine, &scenario);
            changed |= put_answers(engine, &mut items, &scenario, &answers, rewrite);
            if let Some(report) = compare(engine, &items, &scenario, &answers) {
                failures.push(format!("{name}\n{report}{}", replay(engine, &name)));
            }
        }
        if changed {
            put_file(&path, script::print(&items).as_bytes());
        }
    }
    (count, failures)
}

fn replay(engine: &dyn Engine, name: &str) -> String {
    format!("replay: FIRN_SCENARIOS='{name}' cargo test -p firndb --test scenarios on_{}\n", engine.name())
}

/// The answers of an engine to the commands of a scenario; fewer than commands when it died or a command was broken.
fn perform(engine: &mut dyn Engine, scenario: &Scenario) -> Vec<Answer> {
    let root = scratch();
    let mut disk = Disk::new(root.path());
    let base = format!("{BASE_OPTIONS};block_based_table_factory={{{BASE_TABLE_OPTIONS}}}");
    let mut answers = Vec::new();
    if let Answer::Died(text) = engine.run(&format!("start {} {base}", root.path().display())) {
        return vec![Answer::Died(text)];
    }
    let mut table_options = BASE_TABLE_OPTIONS.to_owned();
    for step in &scenario.steps {
        let command = expand(&step.command, &mut table_options);
        let answer = match has_late_flag(&command) {
            true => Answer::Broken(vec!["!! flags and families come first".to_owned()]),
            false => disk.run(engine, &command).unwrap_or_else(|| engine.run(&command)),
        };
        let goes_on = matches!(answer, Answer::Lines(_));
        answers.push(answer);
        if !goes_on {
            break;
        }
    }
    // What the engine holds of the directory goes with the next `start`, or now.
    let _ = engine.run("close");
    answers
}

/// Whether a flag stands where it would be taken for a key.
fn has_late_flag(command: &str) -> bool {
    let (_, rest) = command.split_once(' ').unwrap_or((command, ""));
    let words = Words::parse(rest);
    words.words().iter().any(|word| word.len() > 1 && word.starts_with('-'))
}

/// Whether an item changed.
fn put_answers(
    engine: &dyn Engine,
    items: &mut [Item],
    scenario: &Scenario,
    answers: &[Answer],
    rewrite: Rewrite,
) -> bool {
    let writes = match rewrite {
        Rewrite::Nothing => false,
        Rewrite::RocksDb => engine.name() == "rocksdb",
        Rewrite::Firn => engine.name() == "firn",
    };
    let mut changed = false;
    for (answer, item) in answers.iter().zip(&scenario.items) {
        let Item::Step(step) = &mut items[*item] else { continue };
        let lines = answer.lines();
        let place = match (&mut step.otherwise, rewrite) {
            (Some(otherwise), Rewrite::RocksDb) => &mut otherwise.answer,
            (None, Rewrite::Firn) => continue,
            _ => &mut step.answer,
        };
        if writes && *place != lines {
            *place = lines;
            changed = true;
        }
    }
    changed
}

/// What was wrong, as a difference with its commands around; nothing if all answers are the expected ones.
fn compare(engine: &dyn Engine, items: &[Item], scenario: &Scenario, answers: &[Answer]) -> Option<String> {
    let mut report = String::new();
    let mut is_wrong = false;
    for (at, item) in scenario.items.iter().enumerate() {
        let Item::Step(step) = &items[*item] else { continue };
        let Some(answer) = answers.get(at) else { break };
        let got = answer.lines();
        let wanted = wanted(engine, step);
        report.push_str(&format!("  {}\n", step.command));
        if got == *wanted && !answer.is_broken() {
            got.iter().for_each(|line| report.push_str(&format!("    {line}\n")));
        } else {
            is_wrong = true;
            wanted.iter().for_each(|line| report.push_str(&format!("-   {line}\n")));
            got.iter().for_each(|line| report.push_str(&format!("+   {line}\n")));
        }
        if step.otherwise.as_ref().is_some_and(|otherwise| otherwise.answer == step.answer) {
            is_wrong = true;
            report.push_str("!   both engines answer the same here: take the difference out\n");
        }
        if step.otherwise.as_ref().is_some_and(|otherwise| otherwise.reason.is_empty()) {
            is_wrong = true;
            report.push_str("!   a difference needs its reason\n");
        }
    }
    is_wrong.then_some(report)
}

fn wanted<'a>(engine: &dyn Engine, step: &'a Step) -> &'a Vec<String> {
    match &step.otherwise {
        Some(otherwise) if engine.name() == "rocksdb" => &otherwise.answer,
        _ => &step.answer,
    }
}

/// A command as engines know it: `reopen` is `open -again`, values such as `x*1000` are written out, and `table.name=value`
/// becomes part of the table's options.
fn expand(command: &str, table_options: &mut String) -> String {
    let (name, rest) = command.split_once(' ').unwrap_or((command, ""));
    let (mut base_and_own, mut own) = (table_options.clone(), String::new());
    let table = match name {
        "open" => {
            BASE_TABLE_OPTIONS.clone_into(table_options);
            Some(with_table_options(rest, table_options))
        }
        "reopen" => Some(with_table_options(rest, table_options)),
        "options" | "create_family" => Some(with_table_options(rest, &mut base_and_own)),
        "set_options" => Some(with_table_options(rest, &mut own)),
        _ => None,
    };
    match (name, table) {
        ("reopen", Some(rest)) => format!("open -again {rest}").trim_end().to_owned(),
        (_, Some(rest)) => format!("{name} {rest}").trim_end().to_owned(),
        ("walk" | "get" | "scan" | "levels", None) => command.to_owned(),
        _ => command.split(' ').map(written_out).collect::<Vec<_>>().join(" "),
    }
}

/// Moves the options `table.name=value` of an option string into `table`, and that into the string.
fn with_table_options(text: &str, table: &mut String) -> String {
    let (head, options) = match text.rsplit_once(' ') {
        Some((head, options)) => (format!("{head} "), options),
        None => (String::new(), text),
    };
    if !options.contains("table.") {
        return text.to_owned();
    }
    let mut others = Vec::new();
    for option in options.split(';') {
        match option.strip_prefix("table.") {
            Some(of_table) if table.is_empty() => table.push_str(of_table),
            Some(of_table) => *table = format!("{table};{of_table}"),
            None => others.push(option.to_owned()),
        }
    }
    others.push(format!("block_based_table_factory={{{table}}}"));
    format!("{head}{}", others.join(";"))
}

/// A word with its value written out: `x*1000` is a thousand `x`, `~1000` a thousand letters without a pattern, `~1000.7`
/// others.
fn written_out(word: &str) -> String {
    let (key, value) = match word.split_once('=') {
        Some((key, value)) if !word.starts_with('-') => (format!("{key}="), value),
        _ => (String::new(), word),
    };
    if let [letter, b'*', ..] = value.as_bytes()
        && let Ok(count) = value[2..].parse::<usize>()
    {
        return key + &char::from(*letter).to_string().repeat(count);
    }
    if let Some((count, seed)) = value.strip_prefix('~').map(|text| text.split_once('.').unwrap_or((text, "0")))
        && let (Ok(count), Ok(seed)) = (count.parse::<usize>(), seed.parse::<u64>())
    {
        return key + &letters(count, seed);
    }
    word.to_owned()
}

pub fn letters(count: usize, seed: u64) -> String {
    let mut state = seed.wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'a' + ((state >> 33) % 26) as u8)
    };
    (0..count).map(|_| next()).collect()
}
