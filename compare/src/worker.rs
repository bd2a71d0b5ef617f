//! One store in a process of its own: memory and processor time are then its alone. Orders come as lines of JSON on
//! standard input, and each is answered by a line on standard output.

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::drive::{self, Live, Place, Scale};
use crate::finished::FinishedTables;
use crate::outcome::Outcome;
use crate::scenario::Step;
use crate::stores::{self, Kind, Store};
use crate::{Fallible, measure};

/// What a worker can be told.
#[derive(Debug, Serialize, Deserialize)]
pub enum Order {
    /// Open an empty database.
    Open { kind: Kind, path: PathBuf, config: Config },
    /// Run a step on it.
    Run { step: Step, num: u64, reads: u64, seed: u64 },
    /// Close it and remove it.
    Remove,
}

/// What it answers.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The options file that the store wrote, if it writes one.
    Opened(Option<String>),
    Ran(Box<Outcome>),
    Removed,
    Failed(String),
}

/// A database that is open.
struct Open {
    store: Box<dyn Store>,
    path: PathBuf,
    tables: Option<FinishedTables>,
    live: Live,
}

/// Follows orders until there are no more.
pub fn run() -> Fallible<()> {
    let mut open: Option<Open> = None;
    for line in std::io::stdin().lock().lines() {
        let answer =
            follow(serde_json::from_str(&line?)?, &mut open).unwrap_or_else(|error| Answer::Failed(error.to_string()));
        let mut out = std::io::stdout().lock();
        serde_json::to_writer(&mut out, &answer)?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    Ok(())
}

fn follow(order: Order, open: &mut Option<Open>) -> Fallible<Answer> {
    match order {
        Order::Open { kind, path, config } => {
            if path.exists() {
                std::fs::remove_dir_all(&path)?;
            }
            std::fs::create_dir_all(&path)?;
            let tables = kind.has_levels().then(|| FinishedTables::watch(&path)).transpose()?;
            let store = stores::open(kind, &path, &config)?;
            let options = options_file(&path)?;
            *open = Some(Open { store, path, tables, live: Live::default() });
            Ok(Answer::Opened(options))
        }
        Order::Run { step, num, reads, seed } => {
            let Open { store, path, tables, live } = open.as_mut().ok_or("no database is open")?;
            let count = || tables.as_ref().map(FinishedTables::bytes).transpose();
            let before = count()?;
            let place = Place { store: store.as_ref(), path };
            let mut outcome = drive::run(place, &step, Scale { num, reads }, seed, live)?;
            outcome.table_bytes = count()?.zip(before).map(|(after, before)| after - before);
            measure::write_back(path)?;
            Ok(Answer::Ran(Box::new(outcome)))
        }
        Order::Remove => {
            if let Some(Open { store, path, .. }) = open.take() {
                drop(store);
                std::fs::remove_dir_all(path)?;
            }
            Ok(Answer::Removed)
        }
    }
}

/// The newest OPTIONS file of a directory.
fn options_file(path: &Path) -> Fallible<Option<String>> {
    let mut newest: Option<PathBuf> = None;
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_options = name.to_str().is_some_and(|name| name.starts_with("OPTIONS-") && !name.ends_with("dbtmp"));
        if is_options && newest.as_ref().is_none_or(|known| *known < entry.path()) {
            newest = Some(entry.path());
        }
    }
    Ok(newest.map(std::fs::read_to_string).transpose()?)
}
