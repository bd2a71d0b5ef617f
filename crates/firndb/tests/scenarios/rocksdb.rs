//! RocksDB behind the scenario commands: a C++ program over its library, compiled once a run.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use firn_env::{FileSystem, read_file};
use firn_format::checksum::{crc32c, crc32c_extend};
use firndb_testing::{have_rocksdb_library, skip_interop};

use crate::common::FS;
use crate::{Answer, Engine};

/// The program, unless RocksDB's headers or a C++ compiler are missing. It is kept for later runs under a name that its
/// source and RocksDB's version determine.
pub fn driver() -> Option<&'static Path> {
    static DRIVER: OnceLock<Option<PathBuf>> = OnceLock::new();
    DRIVER.get_or_init(|| have_rocksdb_library().then(built).flatten()).as_deref()
}

fn built() -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios/driver.cc");
    let text = read_file(&FS, &source, u64::MAX).unwrap();
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let version = read_file(&FS, Path::new("/usr/include/rocksdb/version.h"), u64::MAX).unwrap();
    let program = dir.join(format!("scenarios-driver-{:08x}", crc32c_extend(crc32c(&text), &version)));
    if program.exists() {
        return Some(program);
    }
    let unfinished = tempfile::tempdir_in(dir).unwrap();
    let output = unfinished.path().join("driver");
    let built = Command::new("c++")
        .args(["-std=c++17", "-O0", "-Wall", "-Werror", "-o"])
        .arg(&output)
        .arg(source)
        .arg("-lrocksdb")
        .output();
    match built {
        Ok(said) if said.status.success() => {
            FS.rename(&output, &program).unwrap();
            Some(program)
        }
        Ok(said) => panic!("c++ failed: {}", String::from_utf8_lossy(&said.stderr)),
        Err(error) => {
            skip_interop(&format!("there is no C++ compiler: {error}"));
            None
        }
    }
}

/// A running program.
struct Running {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It ends when its input does; a test that fails does not wait for that.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// RocksDB. A program that dies is started again by the next scenario.
pub struct RocksDb {
    driver: &'static Path,
    running: Option<Running>,
}

impl RocksDb {
    pub fn new(driver: &'static Path) -> Self {
        Self { driver, running: None }
    }

    fn ask(&mut self, command: &str) -> Result<Vec<String>, String> {
        let running = match &mut self.running {
            Some(running) => running,
            none => none.insert(start(self.driver)),
        };
        let gone = |error: std::io::Error| error.to_string();
        running.commands.write_all(format!("{command}\n").as_bytes()).map_err(gone)?;
        running.commands.flush().map_err(gone)?;
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if running.answers.read_line(&mut line).map_err(gone)? == 0 {
                return Err(running.child.wait().map_or_else(gone, |status| status.to_string()));
            }
            match line.trim_end_matches('\n').strip_prefix('\t') {
                Some(answer) => lines.push(answer.to_owned()),
                None => return Ok(lines),
            }
        }
    }
}

fn start(driver: &Path) -> Running {
    let mut child = Command::new(driver)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}", driver.display()));
    let commands = child.stdin.take().unwrap();
    let answers = BufReader::new(child.stdout.take().unwrap());
    Running { child, commands, answers }
}

impl Engine for RocksDb {
    fn name(&self) -> &'static str {
        "rocksdb"
    }

    fn run(&mut self, command: &str) -> Answer {
        let answer = self.ask(command);
        if let Err(end) = answer {
            self.running = None;
            return Answer::Died(format!("RocksDB's program ended: {end}"));
        }
        Answer::from(answer)
    }
}
