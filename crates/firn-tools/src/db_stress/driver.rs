//! Kills: starts `db_stress` as a process of its own, kills it with `SIGKILL` at a random moment, and starts it again.
//!
//! Half of the kills hit at a moment counted from the start, so that recovery and verification are hit too; the others are
//! counted from the first operation, so that work gets done. Before each start the directories are copied aside: when the
//! process finds something wrong, the copy shows it again and again.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use firn_env::{Env, FileOptions, FileSystem, create_dir_all, thread};
use rand::Rng;

use super::life::{expected_dir, remove_all};
use super::reads::say;
use super::setup::random;
use super::stress_flags::StressFlags;
use crate::flags::FlagSet;

/// A process that has not begun its operations after so long is taken to hang.
const HUNG_MILLIS: u64 = 120_000;
/// How many of the last lines of a failed process are shown.
const SHOWN_LINES: usize = 12;

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Processes killed.
    pub kills: u32,
    /// Of these, killed before their first operation.
    pub during_recovery: u32,
    /// Processes that ended by themselves.
    pub ended: u32,
}

/// The flags of one process as a command line.
pub fn command_line(flags: &StressFlags) -> Vec<String> {
    let defaults = StressFlags::default();
    let specs = StressFlags::specs().iter();
    let changed = specs.filter(|spec| (spec.get)(flags) != (spec.get)(&defaults));
    changed.map(|spec| format!("--{}={}", spec.name, (spec.get)(flags))).collect()
}

fn copy_all(fs: &dyn FileSystem, from: &Path, to: &Path) -> firn_error::Result<()> {
    create_dir_all(fs, to)?;
    for name in fs.children(from)? {
        let (source, target) = (from.join(&name), to.join(&name));
        if fs.is_directory(&source)? {
            copy_all(fs, &source, &target)?;
            continue;
        }
        let mut reader = fs.new_sequential_file(&source, &FileOptions::default())?;
        let mut writer = fs.new_writable_file(&target, &FileOptions::default())?;
        let mut chunk = vec![0; 256 << 10];
        loop {
            let got = reader.read(&mut chunk)?;
            if got == 0 {
                break;
            }
            writer.append(chunk.get(..got).unwrap_or_default())?;
        }
        writer.close()?;
    }
    Ok(())
}

/// Kills and restarts as the flags say; returns what happened.
///
/// # Errors
/// What a process found wrong, in words, with the command that shows it again.
pub fn run(env: &Env, program: &Path, flags: &StressFlags, show: fn(&str)) -> Result<Tally, String> {
    let (db, expected) = (PathBuf::from(&flags.db), expected_dir(flags));
    let copy = |dir: &Path| PathBuf::from(format!("{}.before", dir.display()));
    if flags.destroy_db_initially {
        for dir in [&db, &expected] {
            say("destroy", remove_all(env, dir))?;
        }
    }
    let child = StressFlags { kills: 0, destroy_db_initially: false, duration: 0, ..flags.clone() };
    let mut rng = random(flags.seed, "kills");
    let clock = env.clock();
    let end = clock.now_secs().saturating_add(if flags.duration == 0 { u64::MAX } else { flags.duration });
    let mut tally = Tally::default();
    while tally.kills < flags.kills && clock.now_secs() < end {
        if flags.keep_copy {
            for dir in [&db, &expected] {
                say("copy", remove_all(env, &copy(dir)))?;
                if say("copy", env.fs().file_exists(dir))? {
                    say("copy", copy_all(&**env.fs(), dir, &copy(dir)))?;
                }
            }
        }
        let from_start = rng.random_bool(0.5);
        let micros = rng.random_range(0..=flags.interval.saturating_mul(1000));
        match start(program, &child)?.kill_after(env, micros, from_start) {
            Ok(Ended::Killed { working }) => {
                tally.kills += 1;
                tally.during_recovery += u32::from(!working);
            }
            Ok(Ended::ByItself) => tally.ended += 1,
            Err(text) => {
                let again = StressFlags {
                    db: copy(&db).display().to_string(),
                    expected_values_dir: copy(&expected).display().to_string(),
                    ..child.clone()
                };
                return Err(format!(
                    "after {} kills: {text}\nshow it again with: db_stress {} (on copies of these directories)",
                    tally.kills,
                    command_line(&again).join(" ")
                ));
            }
        }
        if tally.kills.is_multiple_of(100) {
            show(&format!("{} kills, {} of them before the first operation", tally.kills, tally.during_recovery));
        }
    }
    let last = StressFlags { verification_only: true, ..child };
    match start(program, &last)?.kill_after(env, HUNG_MILLIS * 1000, true)? {
        Ended::ByItself => Ok(tally),
        Ended::Killed { .. } => Err("the last verification hangs".to_owned()),
    }
}

/// How a process ended.
enum Ended {
    Killed {
        /// Whether it had begun its operations.
        working: bool,
    },
    ByItself,
}

/// A process and what it says.
struct Process {
    child: Child,
    working: Arc<AtomicBool>,
    lines: thread::JoinHandle<Vec<String>>,
}

fn start(program: &Path, flags: &StressFlags) -> Result<Process, String> {
    let mut command = Command::new(program);
    command.args(command_line(flags)).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    let out = child.stdout.take().ok_or("the process has no stdout")?;
    let working = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&working);
    let body = move || {
        let mut lines = Vec::new();
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if line == "Starting database operations" {
                seen.store(true, Ordering::Release);
            }
            lines.push(line);
        }
        lines
    };
    let lines = say("thread", thread::spawn("stress-output", body))?;
    Ok(Process { child, working, lines })
}

impl Process {
    /// Kills the process after so many microseconds from its start or from its first operation.
    fn kill_after(mut self, env: &Env, micros: u64, from_start: bool) -> Result<Ended, String> {
        let clock = env.clock();
        let begun = clock.now_nanos() / 1000;
        let mut counted_from = from_start.then_some(begun);
        loop {
            if let Some(status) = self.child.try_wait().map_err(|error| error.to_string())? {
                return self.finish(status.success());
            }
            let now = clock.now_nanos() / 1000;
            if counted_from.is_none() && self.working.load(Ordering::Acquire) {
                counted_from = Some(now);
            }
            match counted_from {
                Some(from) if now - from >= micros => break,
                None if now - begun > HUNG_MILLIS * 1000 => {
                    let _ = self.child.kill();
                    let text = self.finish(false).err().unwrap_or_default();
                    return Err(format!("no operation after {HUNG_MILLIS} ms: {text}"));
                }
                _ => clock.sleep_micros(300),
            }
        }
        let working = self.working.load(Ordering::Acquire);
        self.child.kill().map_err(|error| error.to_string())?;
        let status = self.child.wait().map_err(|error| error.to_string())?;
        // It may have failed just before the kill.
        match status.code() {
            None => Ok(Ended::Killed { working }),
            Some(code) => self.finish(code == 0),
        }
    }

    fn finish(mut self, success: bool) -> Result<Ended, String> {
        let mut errors = String::new();
        if let Some(mut stream) = self.child.stderr.take() {
            let _ = stream.read_to_string(&mut errors);
        }
        let _ = self.child.wait();
        let lines = self.lines.join().unwrap_or_default();
        if success && errors.is_empty() {
            return Ok(Ended::ByItself);
        }
        let first = lines.len().saturating_sub(SHOWN_LINES);
        Err(format!("{errors}{}", lines.get(first..).unwrap_or_default().join("\n")))
    }
}
