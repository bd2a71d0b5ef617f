//! Threads with names: the only way in the house to start one.
//!
//! Callers hand in a closure and get a [`JoinHandle`]; the operating system shows the name (at most 15 bytes of it).

#[cfg(feature = "shuttle")]
pub use shuttle::thread::{Builder, JoinHandle, Thread, ThreadId, current, park, scope, yield_now};
#[cfg(not(feature = "shuttle"))]
pub use std::thread::{Builder, JoinHandle, Thread, ThreadId, current, park, scope, yield_now};

use firn_error::{Error, Result};

/// Starts a thread called `name`.
///
/// # Errors
/// `IoError` when the system refuses another thread.
pub fn spawn<T: Send + 'static>(
    name: impl Into<String>,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    let name = name.into();
    Builder::new()
        .name(name.clone())
        .spawn(body)
        .map_err(|e| Error::io_error(format!("cannot start thread {name}: {e}")))
}

/// Runs `body` and turns a panic in it into an error, for work whose results are thrown away then.
///
/// # Errors
/// Those of `body`; `Aborted` when it panicked.
pub fn catch_panic<T>(what: &str, body: impl FnOnce() -> Result<T>) -> Result<T> {
    // Whoever calls this gives up what a half-done `body` left behind.
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(body))
        .unwrap_or_else(|_| Err(Error::aborted(format!("{what} panicked"))))
}

/// Real time that passes, for waits within this process that are so short that they take no clock from their callers.
#[derive(Clone, Copy, Debug)]
pub struct Elapsed(std::time::Instant);

impl Elapsed {
    /// Nothing yet.
    pub fn start() -> Self {
        Self(std::time::Instant::now())
    }

    /// Microseconds since the start.
    pub fn micros(self) -> u64 {
        u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// Lets other threads run. Whether none did for long: a yield that nobody needs takes less than a microsecond, on a busy
/// processor one takes as long as others may run.
pub fn yield_briefly() -> bool {
    const LONG_MICROS: u64 = 4;
    let time = Elapsed::start();
    yield_now();
    cfg!(feature = "shuttle") || time.micros() < LONG_MICROS
}

/// Lets other threads run until `done` says so or so many microseconds have passed.
pub fn yield_until(micros: u64, mut done: impl FnMut() -> bool) {
    let time = Elapsed::start();
    while !done() && time.micros() < micros {
        yield_now();
    }
}

/// How many threads can run at once on this machine; 1 when unknown.
pub fn available_parallelism() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Processor time that the calling thread has used so far, in nanoseconds; 0 where the system does not tell.
pub fn cpu_nanos() -> u64 {
    crate::posix::thread_cpu_nanos()
}

/// The operating system's id of the calling thread, as the info log prints it.
pub fn system_id() -> u64 {
    thread_local!(static ID: u64 = crate::posix::thread_id());
    ID.with(|id| *id)
}
