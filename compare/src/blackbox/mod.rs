//! The race of whole `db_bench` programs: the same flags, fresh directories, in turn. A program's own lines say how fast
//! it was; what it used is the kernel's account of its process.

mod program;
mod scenarios;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::tables::{Ratio, Table, median, spread};
use crate::{BlackboxArguments, Fallible};
use program::{Result, Used};
use scenarios::{Scenario, Start};

/// The scenarios by name, for the command line.
pub fn listing() -> String {
    let mut text = String::from("blackbox:\n");
    for scenario in scenarios::ALL {
        let _ = writeln!(text, "  {:14} {}", scenario.name, scenario.about);
    }
    text
}

/// A program that races.
struct Racer {
    name: String,
    path: PathBuf,
}

/// What is said of one line or one start: for each program one figure a round.
type ByProgram<T> = BTreeMap<String, Vec<T>>;

/// What a scenario came to.
struct Run {
    scenario: &'static Scenario,
    /// By line of the report, in order.
    lines: Vec<(String, ByProgram<Result>)>,
    /// By start, in order.
    starts: Vec<(String, ByProgram<Used>)>,
    /// Why it was not run to the end.
    failure: Option<String>,
}

fn entry<'a, T>(list: &'a mut Vec<(String, ByProgram<T>)>, name: &str, program: &str) -> &'a mut Vec<T> {
    let place = list.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
        list.push((name.to_owned(), BTreeMap::new()));
        list.len() - 1
    });
    list[place].1.entry(program.to_owned()).or_default()
}

/// Runs the scenarios that were asked for, and reports.
pub fn run(arguments: &BlackboxArguments) -> Fallible<()> {
    let names = &arguments.scenarios;
    if let Some(unknown) = names.iter().find(|name| scenarios::ALL.iter().all(|one| one.name != *name)) {
        return Err(format!("no scenario is called {unknown}; `list` names them").into());
    }
    let racers = racers(arguments)?;
    let dir = arguments.dir.clone().unwrap_or_else(|| arguments.out.join("databases"));
    std::fs::create_dir_all(&dir)?;
    let start = Instant::now();
    let mut runs: Vec<Run> = scenarios::ALL
        .iter()
        .filter(|one| match names.is_empty() {
            true => one.standard,
            false => names.iter().any(|name| name == one.name),
        })
        .map(|scenario| Run { scenario, lines: Vec::new(), starts: Vec::new(), failure: None })
        .collect();
    // Round by round, so that a run that takes too long still has all lines.
    for round in 0..arguments.rounds {
        let begun = Instant::now();
        for run in runs.iter_mut().filter(|run| run.failure.is_none()) {
            if let Err(error) = run_scenario(arguments, run, &racers, &dir, round) {
                eprintln!("{} failed: {error}", run.scenario.name);
                run.failure = Some(error.to_string());
            }
            remove_databases(&racers, &dir);
        }
        write(arguments, &racers, &runs)?;
        if start.elapsed() + begun.elapsed() > Duration::from_secs(60 * arguments.minutes) {
            eprintln!("another round would not fit into {} minutes", arguments.minutes);
            break;
        }
    }
    println!("{}", write(arguments, &racers, &runs)?);
    eprintln!("{:.1} minutes; the report is in {}", start.elapsed().as_secs_f64() / 60.0, arguments.out.display());
    let failed: Vec<_> = runs.iter().filter(|run| run.failure.is_some()).map(|run| run.scenario.name).collect();
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", ")).into()) }
}

fn racers(arguments: &BlackboxArguments) -> Fallible<Vec<Racer>> {
    let firn = arguments.firn.clone().map_or_else(build_firn, Ok)?;
    let mut racers = vec![Racer { name: "firn".to_owned(), path: firn }];
    for peer in &arguments.peers {
        let (name, path) = peer.split_once('=').ok_or("--peer wants name=path")?;
        if racers.iter().any(|racer| racer.name == name) {
            return Err(format!("two programs are called {name}").into());
        }
        racers.push(Racer { name: name.to_owned(), path: PathBuf::from(path) });
    }
    match racers.iter().find(|racer| !racer.path.is_file()) {
        Some(Racer { name, path }) => {
            Err(format!("{name}: there is no {} (Debian's is in the package rocksdb-tools)", path.display()).into())
        }
        None => Ok(racers),
    }
}

/// Builds Firn's program as its own workspace says, and tells where it is.
fn build_firn() -> Fallible<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("the source tree has no root")?;
    // This program's flags are for the race in process; the workspace's own ones are what users get.
    let status = std::process::Command::new("cargo")
        .args(["build", "--release", "--locked", "--bin", "db_bench", "--target-dir", "target"])
        .current_dir(root)
        .env_remove("CARGO_TARGET_DIR")
        .status()?;
    if !status.success() {
        return Err(format!("building Firn's db_bench ended with {status}").into());
    }
    Ok(root.join("target/release/db_bench"))
}

fn remove_databases(racers: &[Racer], dir: &Path) {
    for racer in racers {
        // What is not there need not be removed.
        let _ = std::fs::remove_dir_all(dir.join(&racer.name));
    }
}

/// One round of a scenario.
fn run_scenario(
    arguments: &BlackboxArguments,
    run: &mut Run,
    racers: &[Racer],
    dir: &Path,
    round: u32,
) -> Fallible<()> {
    remove_databases(racers, dir);
    for start in run.scenario.starts {
        // Who goes first changes from round to round.
        for place in 0..racers.len() {
            let racer = &racers[(place + round as usize) % racers.len()];
            let (results, used) = program::run(&command(arguments, run.scenario, start, round, racer, dir))
                .map_err(|error| format!("{}: {error}", racer.name))?;
            for (line, result) in reported(start, results)? {
                let scenario = run.scenario.name;
                eprintln!("{scenario}, round {}, {line}, {}: {} us/op", round + 1, racer.name, result.micros);
                entry(&mut run.lines, line, &racer.name).push(result);
            }
            entry(&mut run.starts, &label(start), &racer.name).push(used);
        }
    }
    Ok(())
}

fn command(
    arguments: &BlackboxArguments,
    scenario: &Scenario,
    start: &Start,
    round: u32,
    racer: &Racer,
    dir: &Path,
) -> program::Command {
    let database = dir.join(&racer.name);
    let benchmarks: Vec<_> = start.run.iter().map(|(benchmark, _)| *benchmark).collect();
    let mut flags = vec![
        format!("--db={}", database.display()),
        format!("--num={}", arguments.num),
        format!("--reads={}", arguments.reads),
        format!("--seed={}", arguments.seed + u64::from(round)),
        format!("--benchmarks={}", benchmarks.join(",")),
    ];
    let groups = [program::COMMON_FLAGS, scenario.flags].into_iter().chain(start.flags.iter().copied());
    flags.extend(groups.flatten().map(|&flag| flag.to_owned()));
    flags.extend_from_slice(&arguments.flags);
    program::Command { path: racer.path.clone(), flags, database }
}

/// What a start is called among those of its scenario.
fn label(start: &Start) -> String {
    let lines: Vec<_> = start.run.iter().filter(|(_, line)| !line.is_empty()).map(|(_, line)| *line).collect();
    if lines.is_empty() { "(preparation)".to_owned() } else { lines.join("; ") }
}

/// Gives results, which come in the order of the benchmarks, to their lines. Benchmarks that report nothing are passed by.
fn reported(start: &Start, results: Vec<(String, Result)>) -> Fallible<Vec<(&'static str, Result)>> {
    let mut lines = Vec::new();
    let mut benchmarks = start.run.iter();
    for (name, result) in results {
        let (_, line) = benchmarks
            .find(|(benchmark, _)| *benchmark == name)
            .ok_or_else(|| format!("a result of {name} that was not asked for"))?;
        if !line.is_empty() {
            lines.push((*line, result));
        }
    }
    let expected = start.run.iter().filter(|(_, line)| !line.is_empty()).count();
    if lines.len() == expected { Ok(lines) } else { Err(format!("a result of {} is missing", label(start)).into()) }
}

/// A program's figures, one a round.
fn by_round<T>(figures: &ByProgram<T>, racer: &Racer, figure: impl Fn(&T) -> f64) -> Vec<f64> {
    figures.get(&racer.name).map(|list| list.iter().map(figure).collect()).unwrap_or_default()
}

/// A line's cells: microseconds of each program, and ratios of the peers' to the first one's.
fn cells(figures: &ByProgram<Result>, racers: &[Racer]) -> Vec<String> {
    let micros: Vec<_> = racers.iter().map(|racer| by_round(figures, racer, |result| result.micros)).collect();
    let spreads = micros.iter().map(|list| spread(list, |number| format!("{number:.2}")));
    let ratios = micros.iter().skip(1).map(|theirs| Ratio::of(theirs, &micros[0]).to_string());
    spreads.chain(ratios).collect()
}

fn markdown(arguments: &BlackboxArguments, racers: &[Racer], runs: &[Run]) -> String {
    let names: Vec<_> = racers.iter().map(|racer| racer.name.clone()).collect();
    let figures = runs.iter().flat_map(|run| &run.lines).flat_map(|(_, figures)| figures.values());
    let rounds = figures.map(Vec::len).max().unwrap_or(0);
    let mut out = format!(
        "{} keys, {} reads a thread, {rounds} rounds in turn, fresh directories; `{}` and each scenario's flags (`src/blackbox/\
         scenarios.rs`). Microseconds an operation: medians with the lowest and highest; ratios of medians with the \
         lowest and highest of a round, above 1 where Firn is faster.\n\n",
        arguments.num,
        arguments.reads,
        program::COMMON_FLAGS
            .iter()
            .copied()
            .chain(arguments.flags.iter().map(String::as_str))
            .collect::<Vec<_>>()
            .join(" "),
    );
    let ratio_names = || names.iter().skip(1).map(|name| format!("{name} ÷ firn"));
    let columns: Vec<_> = names.iter().cloned().chain(ratio_names()).collect();
    for run in runs {
        let mut table = Table::new(&[run.scenario.name.to_owned()], &columns);
        for (line, figures) in &run.lines {
            table.row([line.clone()].into_iter().chain(cells(figures, racers)));
        }
        out += &table.end();
        if let Some(failure) = &run.failure {
            let _ = writeln!(out, "- failed: {failure}");
        }
        for (line, figures) in &run.lines {
            for (name, results) in figures {
                let notes = results.last().map(|result| result.note.as_str()).filter(|note| !note.is_empty());
                notes.into_iter().for_each(|note| out += &format!("- {line}, {name}: {note}\n"));
            }
        }
        out.push('\n');
    }
    out + &usage(racers, runs)
}

/// A figure of what a process used.
type Figure = fn(&Used) -> f64;

/// What processes used, by name and unit.
const USED: [(&str, Figure); 4] = [
    ("CPU s", |used| used.processor_s),
    ("peak MB", |used| used.peak_memory as f64 / 1e6),
    ("written MB", |used| used.written as f64 / 1e6),
    ("space MB", |used| used.space as f64 / 1e6),
];

/// What the processes used, one table for all scenarios.
fn usage(racers: &[Racer], runs: &[Run]) -> String {
    let columns: Vec<_> =
        USED.iter().flat_map(|(name, _)| racers.iter().map(move |racer| format!("{} {name}", racer.name))).collect();
    let mut table = Table::new(&["scenario".to_owned(), "process".to_owned()], &columns);
    for run in runs {
        for (start, figures) in &run.starts {
            let medians = USED.iter().flat_map(|(_, figure)| {
                racers.iter().map(move |racer| format!("{:.1}", median(&by_round(figures, racer, figure))))
            });
            table.row([run.scenario.name.to_owned(), start.clone()].into_iter().chain(medians));
        }
    }
    "Medians of what each process used: processor time, peak resident memory, bytes sent to the device, space at the end. \
     Unreported reads that fill the cache are in it.\n\n"
        .to_owned()
        + &table.end()
}

/// One line for each result.
fn csv(runs: &[Run]) -> String {
    let mut out = String::from("scenario,line,program,round,micros\n");
    for run in runs {
        for (line, figures) in &run.lines {
            for (name, results) in figures {
                for (round, result) in results.iter().enumerate() {
                    let _ = writeln!(out, "{},\"{line}\",{name},{},{}", run.scenario.name, round + 1, result.micros);
                }
            }
        }
    }
    out
}

/// Writes the report into the directory of results; the Markdown is given back.
fn write(arguments: &BlackboxArguments, racers: &[Racer], runs: &[Run]) -> Fallible<String> {
    let text = markdown(arguments, racers, runs);
    std::fs::create_dir_all(&arguments.out)?;
    std::fs::write(arguments.out.join("blackbox.md"), &text)?;
    std::fs::write(arguments.out.join("blackbox.csv"), csv(runs))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Start = Start {
        run: &[("fillseq", "fill"), ("waitforcompaction", ""), ("readrandom", ""), ("readrandom", "warm")],
        flags: &[],
    };

    fn result(name: &str, micros: f64) -> (String, Result) {
        (name.to_owned(), Result { micros, note: String::new() })
    }

    #[test]
    fn results_find_their_lines() {
        let results = vec![result("fillseq", 1.0), result("readrandom", 2.0), result("readrandom", 3.0)];
        let lines = reported(&START, results).expect("all are there");
        assert_eq!(
            lines.iter().map(|(line, result)| (*line, result.micros)).collect::<Vec<_>>(),
            [("fill", 1.0), ("warm", 3.0)]
        );
    }

    #[test]
    fn a_missing_result_is_an_error() {
        assert!(reported(&START, vec![result("fillseq", 1.0), result("readrandom", 2.0)]).is_err());
        assert!(reported(&START, vec![result("overwrite", 1.0)]).is_err());
    }

    #[test]
    fn lines_of_a_scenario_have_different_names() {
        for scenario in scenarios::ALL {
            let lines = scenario.starts.iter().flat_map(|start| start.run).filter(|(_, line)| !line.is_empty());
            let mut names: Vec<_> = lines.map(|(_, line)| line).collect();
            let count = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), count, "{}", scenario.name);
        }
    }
}
