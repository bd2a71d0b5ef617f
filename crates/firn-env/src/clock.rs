//! Wall-clock and monotonic time, and sleeping.
//!
//! The engine never asks the system for the time itself; it asks a [`Clock`]. [`SystemClock`] is the real one,
//! [`ManualClock`] stands still until told to advance (sleeping advances it), which makes timed behaviour testable.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A source of time. Thread-safe.
pub trait Clock: Send + Sync + Debug {
    /// Microseconds of wall-clock time since 1970-01-01 UTC. May jump.
    fn now_micros(&self) -> u64;

    /// Nanoseconds of a monotonic clock with an arbitrary start, for durations.
    fn now_nanos(&self) -> u64;

    /// Seconds of wall-clock time since 1970-01-01 UTC.
    fn now_secs(&self) -> u64 {
        self.now_micros() / 1_000_000
    }

    /// Blocks the caller for about `micros` microseconds.
    fn sleep_micros(&self, micros: u64);

    /// Whether time moves only when somebody advances it. Timed waits on condition variables must then use
    /// [`Clock::sleep_micros`] instead, because real time tells nothing.
    fn is_manual(&self) -> bool {
        false
    }
}

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock whose monotonic side starts at zero now.
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now_micros(&self) -> u64 {
        // A clock set before 1970 reads as zero.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    }

    fn now_nanos(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn sleep_micros(&self, micros: u64) {
        std::thread::sleep(Duration::from_micros(micros));
    }
}

/// A clock that moves only when told to: by [`ManualClock::advance_micros`], or by somebody sleeping on it.
#[derive(Debug)]
pub struct ManualClock {
    nanos: AtomicU64,
}

impl ManualClock {
    /// A clock that shows `micros` microseconds since 1970 until it is advanced.
    pub fn new(micros: u64) -> Self {
        Self { nanos: AtomicU64::new(micros.saturating_mul(1000)) }
    }

    /// Moves time forward.
    pub fn advance_micros(&self, micros: u64) {
        self.nanos.fetch_add(micros.saturating_mul(1000), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_micros(&self) -> u64 {
        self.now_nanos() / 1000
    }

    fn now_nanos(&self) -> u64 {
        self.nanos.load(Ordering::SeqCst)
    }

    fn sleep_micros(&self, micros: u64) {
        self.advance_micros(micros);
        crate::thread::yield_now();
    }

    fn is_manual(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_time_is_after_2020_and_monotonic_time_does_not_go_back() {
        let clock = SystemClock::new();
        assert!(clock.now_secs() > 1_577_836_800);
        let before = clock.now_nanos();
        clock.sleep_micros(200);
        assert!(clock.now_nanos() >= before + 200_000);
    }

    #[test]
    fn manual_time_moves_by_sleeping_only() {
        let clock = ManualClock::new(5_000_000);
        assert_eq!((clock.now_micros(), clock.now_secs()), (5_000_000, 5));
        clock.sleep_micros(7);
        assert_eq!(clock.now_micros(), 5_000_007);
    }
}
