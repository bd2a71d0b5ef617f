//! Runs a history on RocksDB, through a small C program over its C library, compiled when a test needs it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use firndb_testing::{have_rocksdb_library, skip_interop};

/// The program, unless RocksDB's header or a C compiler is missing.
pub fn driver() -> Option<&'static Path> {
    static DRIVER: OnceLock<Option<(tempfile::TempDir, PathBuf)>> = OnceLock::new();
    let built = DRIVER.get_or_init(|| {
        if !have_rocksdb_library() {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("run_history");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/metamorphic/run_history.c");
        let built = Command::new("cc")
            .args(["-O1", "-Wall", "-Werror", "-o"])
            .arg(&program)
            .arg(source)
            .arg("-lrocksdb")
            .output();
        match built {
            Ok(output) if output.status.success() => Some((dir, program)),
            Ok(output) => panic!("cc failed: {}", String::from_utf8_lossy(&output.stderr)),
            Err(error) => {
                skip_interop(&format!("there is no C compiler: {error}"));
                None
            }
        }
    });
    built.as_ref().map(|(_, program)| program.as_path())
}

/// Which options RocksDB opens the database with.
pub enum With<'a> {
    /// Those of the newest OPTIONS file in the directory.
    Stated,
    /// These, for every column family.
    Text(&'a str),
}

/// Runs the history in the file `script` in `dir`; returns its answers.
///
/// # Errors
/// What RocksDB said.
pub fn run(driver: &Path, script: &Path, dir: &Path, with: &With<'_>) -> Result<String, String> {
    let text = match with {
        With::Stated => "",
        With::Text(text) => text,
    };
    let output = Command::new(driver).arg(dir).arg(script).arg(text).output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return String::from_utf8(output.stdout).map_err(|error| error.to_string());
    }
    Err(format!("RocksDB ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr)))
}
