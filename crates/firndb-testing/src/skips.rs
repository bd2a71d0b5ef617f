//! What was skipped, said at once and once more when all tests have run.
//!
//! The test harness keeps what a passing test prints, so a notice goes to standard error past it. All test binaries of one
//! `cargo test` have the same parent process; each notice is also a line of a file named by that process, which the last
//! binary, `tests/summary.rs`, prints and removes.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;

/// Says that the running test, or a part of it, cannot run here.
pub fn skip(reason: &str) {
    let program = std::env::current_exe().ok();
    let stem = program.as_deref().and_then(|program| program.file_stem()).unwrap_or_default().to_string_lossy();
    let binary = stem.rsplit_once('-').map_or(&*stem, |(name, _hash)| name);
    let thread = std::thread::current();
    let test = thread.name().filter(|name| *name != "main").unwrap_or("a test");
    let line = format!("{reason}\t{binary}: {test}\n");
    // A notice that cannot be recorded has been printed all the same.
    let _ = io::stderr().write_all(format!("SKIPPED {binary}: {test}: {reason}\n").as_bytes());
    let path = record();
    let _ = path.parent().map(std::fs::create_dir_all);
    let _ =
        OpenOptions::new().create(true).append(true).open(path).and_then(|mut file| file.write_all(line.as_bytes()));
}

/// [`skip`]s a test that needs RocksDB beside it.
///
/// # Panics
/// If `FIRN_REQUIRE_INTEROP` is set: then such a test is to run.
pub fn skip_interop(reason: &str) {
    assert!(std::env::var_os("FIRN_REQUIRE_INTEROP").is_none(), "FIRN_REQUIRE_INTEROP is set, but {reason}");
    skip(reason);
}

/// What the test binaries run before by the same `cargo test` skipped, in words; forgets it.
pub fn summary() -> String {
    let path = record();
    let lines = std::fs::read_to_string(&path).unwrap_or_default();
    let _ = std::fs::remove_file(&path);
    in_words(&lines)
}

/// The lines of a record by reason, each test once.
fn in_words(record: &str) -> String {
    let mut tests_of: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (reason, test) in record.lines().filter_map(|line| line.split_once('\t')) {
        let tests = tests_of.entry(reason).or_default();
        if !tests.contains(&test) {
            tests.push(test);
        }
    }
    if tests_of.is_empty() {
        return "No test was skipped.\n".to_owned();
    }
    let mut text = String::new();
    for (reason, tests) in tests_of {
        text += &format!("SKIPPED {} for this reason: {reason}\n", tests.len());
        for test in tests {
            text += &format!("    {test}\n");
        }
    }
    text
}

/// The file of this run, named by the parent process and the time it started at, since numbers of processes come again.
fn record() -> PathBuf {
    let parent = std::os::unix::process::parent_id();
    let status = std::fs::read_to_string(format!("/proc/{parent}/stat")).unwrap_or_default();
    // The name of the program, which may hold spaces, ends at the last parenthesis; the time is the twentieth field behind it.
    let fields = status.rsplit_once(')').map_or("", |(_, fields)| fields);
    let started = fields.split_whitespace().nth(19).unwrap_or("0");
    crate::target_directory().join("skipped").join(format!("{parent}-{started}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_names_each_reason_with_its_tests() {
        let record = "no tools\tinterop: a\nno tools\tinterop: b\nno tools\tinterop: a\nno library\tmetamorphic: c\n";
        let words = "SKIPPED 1 for this reason: no library\n    metamorphic: c\n\
                     SKIPPED 2 for this reason: no tools\n    interop: a\n    interop: b\n";
        assert_eq!(in_words(record), words);
        assert_eq!(in_words(""), "No test was skipped.\n");
    }

    #[test]
    fn a_record_is_named_by_the_parent_process() {
        let name = record().file_name().unwrap().to_string_lossy().into_owned();
        let (parent, started) = name.split_once('-').unwrap();
        assert_eq!(parent, std::os::unix::process::parent_id().to_string());
        assert!(started.parse::<u64>().unwrap() > 0);
    }
}
