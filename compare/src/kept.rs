//! What a race measured, kept on disk after each round of each scenario: a run that was cut short goes on where it was,
//! and reports are made of what is there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;
use crate::stores::Kind;
use crate::{Fallible, RaceArguments, scenario};

/// What figures depend on: those of two runs with the same parameters may lie beside each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameters {
    pub stores: Vec<Kind>,
    pub num: u64,
    pub reads: u64,
    pub seed: u64,
    /// Of Firn's source, where git knows it.
    pub commit: String,
}

impl Parameters {
    pub fn of(arguments: &RaceArguments) -> Self {
        Self {
            stores: arguments.stores.clone(),
            num: arguments.num,
            reads: arguments.reads,
            seed: arguments.seed,
            commit: commit(),
        }
    }
}

/// The commit of the source tree, with a mark when it was changed since.
fn commit() -> String {
    let arguments = ["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"];
    let directory = env!("CARGO_MANIFEST_DIR");
    let described = std::process::Command::new("git").args(arguments).current_dir(directory).output();
    match described {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        _ => "unknown".to_owned(),
    }
}

/// A step of a scenario: for each store one outcome a round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    pub step: String,
    pub outcomes: BTreeMap<Kind, Vec<Outcome>>,
}

/// A scenario as far as it was run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Kept {
    pub scenario: String,
    pub parameters: Parameters,
    /// The machine it was run on.
    pub machine: String,
    /// Rounds that are whole; no line has figures of others.
    pub rounds: u32,
    pub lines: Vec<Line>,
    /// How the options of the first two stores differ, by their OPTIONS files.
    pub option_differences: Vec<String>,
}

impl Kept {
    /// A scenario of which nothing was run.
    pub fn new(scenario: &str, parameters: Parameters) -> Self {
        let (scenario, machine) = (scenario.to_owned(), machine());
        Self { scenario, parameters, machine, rounds: 0, lines: Vec::new(), option_differences: Vec::new() }
    }

    fn file(out: &Path, scenario: &str) -> PathBuf {
        out.join("race").join(format!("{scenario}.json"))
    }

    /// What was kept of a scenario; none if nothing was.
    pub fn load(out: &Path, scenario: &str) -> Fallible<Option<Self>> {
        let path = Self::file(out, scenario);
        match std::fs::read(&path) {
            Ok(bytes) => {
                Ok(Some(serde_json::from_slice(&bytes).map_err(|error| format!("{}: {error}", path.display()))?))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("{}: {error}", path.display()).into()),
        }
    }

    /// All that was kept, in the order of the scenarios.
    pub fn load_all(out: &Path) -> Fallible<Vec<Self>> {
        let mut list = Vec::new();
        for scenario in scenario::all(1) {
            list.extend(Self::load(out, scenario.name)?.filter(|kept| kept.rounds > 0));
        }
        Ok(list)
    }

    /// Keeps it, in place of what was kept before.
    pub fn save(&self, out: &Path) -> Fallible<()> {
        let path = Self::file(out, &self.scenario);
        std::fs::create_dir_all(out.join("race"))?;
        // Under another name first: whoever stops the run here leaves the old figures.
        let unfinished = path.with_extension("tmp");
        std::fs::write(&unfinished, serde_json::to_vec(self)?)?;
        Ok(std::fs::rename(unfinished, path)?)
    }

    /// Adds a round: the outcomes of all lines of one scenario.
    pub fn add_round(&mut self, round: Vec<(String, Kind, Outcome)>) {
        for (step, kind, outcome) in round {
            let place = self.lines.iter().position(|line| line.step == step).unwrap_or_else(|| {
                self.lines.push(Line { step, outcomes: BTreeMap::new() });
                self.lines.len() - 1
            });
            self.lines[place].outcomes.entry(kind).or_default().push(outcome);
        }
        self.rounds += 1;
    }
}

/// Processor, memory and kernel in one line.
fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let (processors, memory) = (read("/proc/cpuinfo"), read("/proc/meminfo"));
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_once(':').map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
    };
    let count = std::thread::available_parallelism().map_or(0, usize::from);
    let kilobytes: f64 = field(&memory, "MemTotal").trim_end_matches("kB").trim().parse().unwrap_or_default();
    format!(
        "{count} × {}, {:.0} GiB, Linux {}",
        field(&processors, "model name"),
        kilobytes / (1 << 20) as f64,
        read("/proc/sys/kernel/osrelease").trim(),
    )
}
