//! The CSV of throughput over time (`--report_interval_seconds`, `--report_file`).
//!
//! A thread of its own writes one line per interval while a run lasts; workers only add to a counter.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use firn_env::sync::{Condvar, Mutex};
use firn_env::{Env, FileOptions, WritableFile, thread};
use firn_error::{Error, Result};

struct Shared {
    ops: Arc<AtomicU64>,
    stopped: Mutex<bool>,
    wake: Condvar,
}

/// A running report; dropping it ends the thread and closes the file.
pub struct ReportAgent {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<Result<()>>>,
}

impl ReportAgent {
    /// Creates `file` anew and starts writing a line every `interval_seconds` (at least 1).
    ///
    /// # Errors
    /// When the file cannot be created or written.
    pub fn start(env: &Env, file: &Path, interval_seconds: u64) -> Result<Self> {
        let mut out =
            env.fs().new_writable_file(file, &FileOptions { writable_buffer_bytes: 0, ..Default::default() })?;
        out.append(b"secs_elapsed,interval_qps\n")?;
        out.flush()?;
        let shared =
            Arc::new(Shared { ops: Arc::new(AtomicU64::new(0)), stopped: Mutex::new(false), wake: Condvar::new() });
        let (inner, env) = (Arc::clone(&shared), env.clone());
        let thread = thread::spawn("db_bench_report", move || write_lines(&env, &inner, out, interval_seconds.max(1)))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// The counter that workers add their operations to.
    pub fn counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.shared.ops)
    }

    /// Ends the thread.
    ///
    /// # Errors
    /// The first error in writing the file.
    pub fn stop(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        *self.shared.stopped.lock() = true;
        self.shared.wake.notify_all();
        match self.thread.take().map(thread::JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(Error::aborted("the report thread ended unexpectedly")),
            None => Ok(()),
        }
    }
}

impl Drop for ReportAgent {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn write_lines(env: &Env, shared: &Shared, mut out: Box<dyn WritableFile>, interval_seconds: u64) -> Result<()> {
    let start = env.clock().now_nanos();
    let mut previous = 0;
    let mut stopped = shared.stopped.lock();
    while !*stopped {
        if !shared.wake.wait_for(&mut stopped, Duration::from_secs(interval_seconds)).timed_out() {
            continue;
        }
        let elapsed = (env.clock().now_nanos() - start + 500_000_000) / 1_000_000_000;
        let total = shared.ops.load(Ordering::Relaxed);
        out.append(format!("{elapsed},{}\n", total - previous).as_bytes())?;
        out.flush()?;
        previous = total;
    }
    out.close()
}
