//! One run of a `db_bench` program: what it printed and what its process used.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::resource::UsageWho;

use crate::Fallible;
use crate::measure::{self, Processor};

/// Flags of all scenarios; where a flag comes again, the last one counts.
pub const COMMON_FLAGS: &[&str] =
    &["--key_size=16", "--value_size=100", "--compression_type=none", "--format_version=5"];

/// How a program is called.
pub struct Command {
    pub path: PathBuf,
    pub flags: Vec<String>,
    /// Where its database is.
    pub database: PathBuf,
}

/// What it said of a benchmark.
#[derive(Clone, Debug, PartialEq)]
pub struct Result {
    /// Microseconds an operation.
    pub micros: f64,
    /// What else there is to say, where it is not known from the flags.
    pub note: String,
}

/// What its process used.
#[derive(Clone, Debug)]
pub struct Used {
    pub processor_s: f64,
    pub peak_memory: u64,
    /// Bytes to the device, as the kernel counts them.
    pub written: i64,
    /// Bytes of the database's directory at the end.
    pub space: u64,
}

/// How often the process is looked at. What it does after the last look is not in its memory and its writes.
const PAUSE: Duration = Duration::from_millis(10);

/// Runs a program to its end: results by benchmark in order, and what was used.
pub fn run(command: &Command) -> Fallible<(Vec<(String, Result)>, Used)> {
    let before = Processor::of(UsageWho::RUSAGE_CHILDREN)?;
    let out = tempfile::NamedTempFile::new()?;
    let mut child = std::process::Command::new(&command.path)
        .args(&command.flags)
        .stdin(Stdio::null())
        .stdout(Stdio::from(out.reopen()?))
        .stderr(Stdio::null())
        .spawn()?;
    let process = child.id().to_string();
    let (mut peak_memory, mut written) = (0, 0);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        // A process that has just ended has no figures any more.
        peak_memory = peak_memory.max(measure::peak_memory(&process).unwrap_or(0));
        written = written.max(measure::bytes_written(&process).unwrap_or(0));
        std::thread::sleep(PAUSE);
    };
    if !status.success() {
        return Err(format!("{} {} ended with {status}", command.path.display(), command.flags.join(" ")).into());
    }
    let after = Processor::of(UsageWho::RUSAGE_CHILDREN)?;
    let micros = after.user_us + after.system_us - before.user_us - before.system_us;
    let used =
        Used { processor_s: micros as f64 / 1e6, peak_memory, written, space: measure::space(&command.database) };
    let text = String::from_utf8_lossy(&std::fs::read(out.path())?).into_owned();
    Ok((text.split(['\n', '\r']).filter_map(result).collect(), used))
}

/// `name : 2.857 micros/op ...`, as all versions of the program print it. What mixgraph adds in parentheses is kept.
fn result(line: &str) -> Option<(String, Result)> {
    let (name, rest) = line.split_once(':')?;
    let (micros, rest) = rest.split_once("micros/op")?;
    let note = rest.split_once("( Gets:").and_then(|(_, note)| note.split_once(')'));
    let note = note.map(|(note, _)| format!("Gets:{note}")).unwrap_or_default();
    Some((name.trim().to_owned(), Result { micros: micros.trim().parse().ok()?, note }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_results_are_found_among_others() {
        let line = "fillseq      :       2.857 micros/op 350017 ops/sec 14.285 seconds 5000000 operations;   38.7 MB/s";
        assert_eq!(result(line), Some(("fillseq".to_owned(), Result { micros: 2.857, note: String::new() })));
        assert_eq!(result("Keys:       16 bytes each (+ 0 bytes user-defined timestamp)"), None);
        let mixed = "mixgraph : 5.5 micros/op 1 ops/sec; ( Gets:830 Puts:140 Seek:30, reads 1 in 2 found, avg size: \
                     37.1 value, 12.3 scan)";
        let (_, mixed) = result(mixed).expect("it is a result");
        assert_eq!(mixed.note, "Gets:830 Puts:140 Seek:30, reads 1 in 2 found, avg size: 37.1 value, 12.3 scan");
    }
}
