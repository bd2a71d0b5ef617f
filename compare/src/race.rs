//! The race in process: one worker a store, steps in turn.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::kept::{Kept, Parameters};
use crate::outcome::Outcome;
use crate::scenario::{self, Scenario};
use crate::stores::Kind;
use crate::worker::{Answer, Order};
use crate::{Fallible, RaceArguments, options, report};

/// A store's process. It is gone when this is.
struct Worker {
    kind: Kind,
    child: Child,
    orders: ChildStdin,
    answers: Receiver<std::io::Result<String>>,
    limit: Duration,
}

impl Worker {
    fn start(kind: Kind, limit: Duration) -> Fallible<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("worker")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let orders = child.stdin.take().ok_or("the worker has no input")?;
        let output = child.stdout.take().ok_or("the worker has no output")?;
        let (sender, answers) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self { kind, child, orders, answers, limit })
    }

    fn tell(&mut self, order: &Order) -> Fallible<Answer> {
        let mut line = serde_json::to_vec(order)?;
        line.push(b'\n');
        self.orders.write_all(&line)?;
        self.orders.flush()?;
        let answer = match self.answers.recv_timeout(self.limit) {
            Ok(answer) => answer?,
            Err(RecvTimeoutError::Timeout) => {
                return Err(format!("{}: no answer in {} s", self.kind, self.limit.as_secs()).into());
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(format!("{}: the worker ended: {}", self.kind, self.child.wait()?).into());
            }
        };
        match serde_json::from_str(&answer)? {
            Answer::Failed(text) => Err(format!("{}: {text}", self.kind).into()),
            answer => Ok(answer),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It has nothing to lose: its directory is removed before the next use. An error says that it ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the scenarios that were asked for, and reports. A scenario that fails is named at the end, and does not keep
/// the others from running.
pub fn run(arguments: &RaceArguments) -> Fallible<()> {
    let names = &arguments.scenarios;
    let all = scenario::all(arguments.num);
    if let Some(unknown) = names.iter().find(|name| all.iter().all(|scenario| scenario.name != *name)) {
        return Err(format!("no scenario is called {unknown}; `list` names them").into());
    }
    if let Some(absent) = arguments.stores.iter().find(|kind| !kind.is_built()) {
        return Err(format!("this program was built without the cargo feature {absent}").into());
    }
    let dir = arguments.dir.clone().unwrap_or_else(|| arguments.out.join("databases"));
    let start = Instant::now();
    let mut failed = Vec::new();
    for scenario in all.iter().filter(|one| names.is_empty() || names.iter().any(|name| one.name == name)) {
        if let Err(error) = run_scenario(arguments, scenario, &dir) {
            eprintln!("{} failed: {error}", scenario.name);
            failed.push(scenario.name);
        }
        for kind in &arguments.stores {
            let _ = std::fs::remove_dir_all(dir.join(kind.to_string()));
        }
        // After each scenario: whoever looks meanwhile, or stops the run, has a report.
        report::write(&arguments.out)?;
    }
    println!("{}", report::write(&arguments.out)?);
    eprintln!("{:.0} minutes; the report is in {}", start.elapsed().as_secs_f64() / 60.0, arguments.out.display());
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", ")).into()) }
}

/// Runs the rounds of a scenario that are still to be run.
fn run_scenario(arguments: &RaceArguments, scenario: &Scenario, dir: &Path) -> Fallible<()> {
    let parameters = Parameters::of(arguments);
    let earlier = Kept::load(&arguments.out, scenario.name)?;
    let mut kept = earlier
        .filter(|kept| !arguments.again && kept.parameters == parameters)
        .unwrap_or_else(|| Kept::new(scenario.name, parameters));
    if kept.rounds >= arguments.rounds {
        eprintln!("{}: {} rounds are there (--again measures anew)", scenario.name, kept.rounds);
    }
    while kept.rounds < arguments.rounds {
        let (outcomes, differences) = run_round(arguments, scenario, dir, kept.rounds)?;
        kept.add_round(outcomes);
        kept.option_differences = differences;
        kept.save(&arguments.out)?;
    }
    Ok(())
}

/// Outcomes by step and store, in order, and how the options of the first two stores differ.
type Round = (Vec<(String, Kind, Outcome)>, Vec<String>);

fn run_round(arguments: &RaceArguments, scenario: &Scenario, dir: &Path, round: u32) -> Fallible<Round> {
    let mut workers = Vec::new();
    let mut option_files = Vec::new();
    for &kind in arguments.stores.iter().filter(|&&kind| scenario.suits(kind)) {
        let mut worker = Worker::start(kind, Duration::from_secs(arguments.limit))?;
        let path = dir.join(kind.to_string());
        let Answer::Opened(options) = worker.tell(&Order::Open { kind, path, config: scenario.config.clone() })? else {
            return Err(format!("{kind}: the worker did not open").into());
        };
        option_files.push(options);
        workers.push(worker);
    }
    let differences = match option_files.as_slice() {
        [Some(ours), Some(theirs), ..] => options::differences(ours, theirs),
        _ => Vec::new(),
    };
    // Who goes first changes from round to round.
    let count = workers.len().max(1);
    workers.rotate_left(round as usize % count);
    let mut outcomes = Vec::new();
    for (place, step) in scenario.steps.iter().enumerate() {
        let seed = arguments.seed + u64::from(round) * 1000 + place as u64;
        for worker in &mut workers {
            let order = Order::Run { step: step.clone(), num: arguments.num, reads: arguments.reads, seed };
            let at = |error| format!("{:?} (step {}): {error}", step.work, place + 1);
            let Answer::Ran(outcome) = worker.tell(&order).map_err(at)? else {
                return Err(format!("{}: the worker did not run", worker.kind).into());
            };
            let name = if step.reported { step.name.clone() } else { format!("({:?})", step.work) };
            eprintln!(
                "{}, round {}, {name}, {}: {:.3} us/op, {:.1} s, settled after {:.1} s",
                scenario.name,
                round + 1,
                worker.kind,
                1e6 / outcome.speed(),
                outcome.seconds,
                outcome.settled_seconds,
            );
            if step.reported {
                outcomes.push((name, worker.kind, *outcome));
            }
        }
    }
    for worker in &mut workers {
        worker.tell(&Order::Remove)?;
    }
    Ok((outcomes, differences))
}
