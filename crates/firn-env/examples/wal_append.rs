//! Measures what one log append costs: `write` per record against the mapped log, on new and on recycled files.
//!
//! `cargo run --release -p firn-env --example wal_append [directory] [megabytes]`. The figures in
//! `docs/performance.md` come from here.

use std::path::Path;

use firn_env::posix::PosixFileSystem;
use firn_env::{Clock, FileOptions, FileSystem, SystemClock, WritableFile};

const RECORD_BYTES: usize = 150;

fn main() -> firn_env::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().unwrap_or_else(|| std::env::temp_dir().to_string_lossy().into_owned());
    let megabytes: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(64);
    let fs = PosixFileSystem::new();
    let (log, old) = (Path::new(&dir).join("wal_append.log"), Path::new(&dir).join("wal_append.old"));
    let write = FileOptions { writable_buffer_bytes: 64 << 10, ..FileOptions::default() };
    let mapped = FileOptions { mapped_log: true, ..write.clone() };
    println!("{megabytes} MB of {RECORD_BYTES}-byte records in {dir}; nanoseconds per append");
    for round in 0..3 {
        for (name, options) in [("write + flush", &write), ("mapped", &mapped)] {
            let mut file = fs.new_writable_file(&log, options)?;
            let fresh = fill(&mut *file, megabytes)?;
            file.close()?;
            fs.rename(&log, &old)?;
            let mut file = fs.reuse_writable_file(&log, &old, options)?;
            let recycled = fill(&mut *file, megabytes)?;
            file.close()?;
            fs.remove_file(&log)?;
            println!("round {round} {name:>14}: new file {fresh:7.1} recycled {recycled:7.1}");
        }
    }
    Ok(())
}

/// Appends and flushes records as a WAL writer does; the mean cost of one in nanoseconds.
fn fill(file: &mut dyn WritableFile, megabytes: u64) -> firn_env::Result<f64> {
    let clock = SystemClock::new();
    let record = [0xa5; RECORD_BYTES];
    let count = (megabytes << 20) / RECORD_BYTES as u64;
    let start = clock.now_nanos();
    for _ in 0..count {
        file.append(&record)?;
        file.flush()?;
    }
    Ok((clock.now_nanos() - start) as f64 / count as f64)
}
