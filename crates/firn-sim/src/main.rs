//! Long runs and replays of the simulations.
//!
//! `firn-sim crash --seeds 0..100 [--steps 60] [--every 1] [--all-modes]` crashes at every operation of each seed's
//! workload; `--seed S --operation N --policy P --mode M` looks at one point again.
//! `firn-sim faults --seeds 0..100 [--steps 25] [--every 1]` lets every operation fail; `--operation N --kind K` replays.
//! `firn-sim list --seed S [--steps 60]` prints the changes of files that a workload makes, by number.

use std::collections::HashMap;
use std::process::ExitCode;

use firn_env::crash::LossPolicy;
use firn_env::{Clock, SystemClock};
use firn_sim::crash::{Figures, MODES, Plan, Point, check_point, explore};
use firn_sim::faults::Kind;
use firn_sim::workload::Workload;
use firn_sim::{Violation, run};

struct Arguments(HashMap<String, String>);

impl Arguments {
    fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name).map(|text| text.parse().unwrap_or_else(|_| usage(&format!("--{name} wants a number"))))
    }

    fn steps(&self, default: usize) -> usize {
        self.number("steps").and_then(|steps| usize::try_from(steps).ok()).unwrap_or(default)
    }
}

fn usage(problem: &str) -> ! {
    eprintln!("{problem}\nusage: firn-sim crash [--seeds A..B | --seed S] [--steps N] [--every N] [--all-modes]");
    eprintln!("       firn-sim crash --seed S --steps N --operation N --policy P --mode M");
    eprintln!("       firn-sim faults [--seeds A..B | --seed S] [--steps N] [--every N]");
    eprintln!("       firn-sim faults --seed S --steps N --operation N --kind K");
    eprintln!("       firn-sim list --seed S [--steps N]");
    std::process::exit(2)
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_default();
    let mut arguments = HashMap::new();
    while let Some(word) = words.next() {
        let Some(name) = word.strip_prefix("--") else { usage(&format!("what is {word}?")) };
        let value = if name == "all-modes" { String::new() } else { words.next().unwrap_or_default() };
        arguments.insert(name.to_owned(), value);
    }
    let arguments = Arguments(arguments);
    let seeds = match arguments.0.get("seeds").and_then(|text| text.split_once("..")) {
        Some((from, to)) => match (from.parse(), to.parse()) {
            (Ok(from), Ok(to)) => from..to,
            _ => usage("--seeds wants A..B"),
        },
        None => {
            let seed = arguments.number("seed").unwrap_or_default();
            seed..seed + 1
        }
    };
    match command.as_str() {
        "crash" => crash(seeds, &arguments),
        "faults" => faults(seeds, &arguments),
        "list" => list(seeds.start, &arguments),
        other => usage(&format!("no command {other:?}")),
    }
}

/// Violations in so many seeds are enough to look at.
const MOST_VIOLATIONS: usize = 20;

/// Looks at each seed until there are too many violations, and says now and then how far it has come.
fn each_seed<T>(
    seeds: std::ops::Range<u64>,
    say_every: u64,
    total: &mut T,
    mut look: impl FnMut(u64, &mut T) -> Result<(), Violation>,
    say: impl Fn(&T) -> String,
) -> ExitCode {
    let clock = SystemClock::new();
    let seconds = || clock.now_nanos() as f64 / 1e9;
    let mut violations = 0;
    for seed in seeds {
        if let Err(violation) = look(seed, total) {
            println!("VIOLATION (seed {seed}): {violation}");
            violations += 1;
        }
        if violations >= MOST_VIOLATIONS {
            break;
        }
        if seed % say_every == say_every - 1 {
            println!("seed {seed}: {}, {:.1} s", say(total), seconds());
        }
    }
    println!("{}, {violations} violations, {:.1} s", say(total), seconds());
    if violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn crash(seeds: std::ops::Range<u64>, arguments: &Arguments) -> ExitCode {
    let steps = arguments.steps(60);
    let every = arguments.number("every").and_then(|every| usize::try_from(every).ok()).unwrap_or(1);
    let plan = Plan { every, all_modes: arguments.0.contains_key("all-modes") };
    let look = |seed, total: &mut Figures| {
        let history = run::run(Workload::draw(seed, steps))?;
        total.add(match arguments.number("operation") {
            Some(at) => check_point(&history, Point { at, policy: policy(arguments), mode: mode(arguments) })?,
            None => explore(&history, plan)?,
        });
        Ok(())
    };
    each_seed(seeds, 50, &mut Figures::default(), look, |total| {
        format!(
            "{} operations, {} crash points and {} second crashes ({} refused), {} checkpoints",
            total.operations, total.points, total.second_points, total.refused, total.checkpoints
        )
    })
}

fn faults(seeds: std::ops::Range<u64>, arguments: &Arguments) -> ExitCode {
    let steps = arguments.steps(25);
    let every = arguments.number("every").unwrap_or(1);
    let look = |seed, total: &mut firn_sim::faults::Figures| {
        total.add(match arguments.number("operation") {
            Some(operation) => firn_sim::faults::check(seed, steps, operation, kind(arguments))?,
            None => firn_sim::faults::explore(seed, steps, every)?,
        });
        Ok(())
    };
    each_seed(seeds, 10, &mut firn_sim::faults::Figures::default(), look, |total| format!("{total:?}"))
}

fn list(seed: u64, arguments: &Arguments) -> ExitCode {
    let history = match run::run(Workload::draw(seed, arguments.steps(60))) {
        Ok(history) => history,
        Err(violation) => {
            println!("VIOLATION (seed {seed}): {violation}");
            return ExitCode::FAILURE;
        }
    };
    let mut writes = history.writes.iter().enumerate().peekable();
    for index in 0..history.journal.len() {
        while let Some((number, span)) = writes.next_if(|(_, span)| span.start <= index as u64) {
            println!("        write {number}, until operation {}", span.end);
        }
        println!("{:6}  {}", index + 1, history.journal.describe(index));
    }
    ExitCode::SUCCESS
}

fn kind(arguments: &Arguments) -> Kind {
    let wanted = arguments.0.get("kind").map(String::as_str).unwrap_or("Io");
    let found = Kind::ALL.into_iter().find(|kind| format!("{kind:?}") == wanted);
    found.unwrap_or_else(|| usage("--kind wants one of the kinds of faults"))
}

fn policy(arguments: &Arguments) -> LossPolicy {
    let wanted = arguments.0.get("policy").map(String::as_str).unwrap_or("KeepAll");
    let found = LossPolicy::ALL.into_iter().find(|policy| format!("{policy:?}") == wanted);
    found.unwrap_or_else(|| usage("--policy wants one of the loss policies"))
}

fn mode(arguments: &Arguments) -> firndb::options::WalRecoveryMode {
    let wanted = arguments.0.get("mode").map(String::as_str).unwrap_or("point-in-time");
    let found = MODES.iter().find(|(_, name)| *name == wanted);
    found.map_or_else(|| usage("--mode wants one of the recovery modes"), |(mode, _)| *mode)
}
