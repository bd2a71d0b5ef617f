//! What the comparisons with RocksDB's own tools share.

#![allow(dead_code)] // no test file uses all of it

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Golden databases written by RocksDB 7.8, which its tools of that version read, without the kinds named.
pub(crate) fn databases_of_7_8(without: &[&str]) -> Vec<PathBuf> {
    let mut databases = firndb_testing::golden_databases();
    databases.retain(|database| {
        let name = firndb_testing::golden_name(database);
        name.starts_with("r7.8-") && !without.iter().any(|kind| name.contains(kind))
    });
    databases
}

/// Copies a database to a place where it may be written.
pub(crate) fn copy(from: &Path, to: &Path) {
    let env = firn_env::Env::shared();
    firn_env::create_dir_all(&**env.fs(), to).expect("create");
    for name in env.fs().children(from).expect("children") {
        let bytes = firn_env::read_file(&**env.fs(), &from.join(&name), 1 << 30).expect("read");
        firn_env::write_file(&**env.fs(), &to.join(&name), &bytes, false).expect("write");
    }
}

/// What a command printed, and its exit status.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Bytes on stdout.
    pub(crate) out: Vec<u8>,
    /// Text on stderr.
    pub(crate) err: String,
    /// Exit status.
    pub(crate) status: Option<i32>,
}

/// Runs a tool.
pub(crate) fn run(tool: &Path, arguments: &[String]) -> Run {
    let output = Command::new(tool).args(arguments).output().expect("the tool runs");
    Run { out: output.stdout, err: String::from_utf8_lossy(&output.stderr).into_owned(), status: output.status.code() }
}

/// Runs a tool that reads `input`.
pub(crate) fn run_with_input(tool: &Path, arguments: &[String], input: &str) -> Run {
    let mut command = Command::new(tool);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the tool starts");
    // A tool that fails early reads nothing.
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    let output = child.wait_with_output().expect("the tool ends");
    Run { out: output.stdout, err: String::from_utf8_lossy(&output.stderr).into_owned(), status: output.status.code() }
}

/// The lines of an output, without those that `drop` names.
pub(crate) fn lines_without(out: &[u8], drop: &[&str]) -> Vec<String> {
    let text = String::from_utf8_lossy(out);
    let keep = |line: &&str| !drop.iter().any(|word| line.contains(word));
    text.lines().filter(keep).map(str::to_owned).collect()
}

/// Fails with the first line that differs.
pub(crate) fn assert_same_lines(ours: &[String], theirs: &[String], what: &str) {
    for (number, (our, their)) in ours.iter().zip(theirs).enumerate() {
        assert_eq!(our, their, "{what}: line {}", number + 1);
    }
    assert_eq!(ours.len(), theirs.len(), "{what}: number of lines");
}
