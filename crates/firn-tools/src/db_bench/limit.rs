//! When a run ends, and how fast it may go.
//!
//! [`RunLimit`] decides at the head of each loop whether a thread is done: by count, or by time when `--duration` is
//! set. [`Pacer`] holds threads back to a rate that they share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_env::Clock;

/// The end of one thread's loop.
#[derive(Debug)]
pub struct RunLimit {
    clock: Arc<dyn Clock>,
    start_nanos: u64,
    max_nanos: u64,
    max_ops: u64,
    ops_between_checks: u64,
    ops: u64,
}

impl RunLimit {
    /// Ends after `seconds` when that is positive, otherwise after `max_ops` operations.
    pub fn new(clock: &Arc<dyn Clock>, seconds: i32, max_ops: u64, ops_between_checks: i32) -> Self {
        Self {
            clock: Arc::clone(clock),
            start_nanos: clock.now_nanos(),
            max_nanos: u64::try_from(seconds).unwrap_or(0) * 1_000_000_000,
            max_ops,
            ops_between_checks: u64::try_from(ops_between_checks).unwrap_or(1).max(1),
            ops: 0,
        }
    }

    /// Counts `increment` operations that are about to run; true when they must not run any more.
    #[inline]
    pub fn is_done(&mut self, increment: u64) -> bool {
        let before = self.ops;
        self.ops += increment.max(1);
        if self.max_nanos == 0 {
            return self.ops > self.max_ops;
        }
        // The clock is read only now and then, because reading it costs as much as a fast operation.
        before / self.ops_between_checks != self.ops / self.ops_between_checks
            && self.clock.now_nanos() - self.start_nanos >= self.max_nanos
    }

    /// Operations counted so far.
    pub fn ops(&self) -> u64 {
        self.ops
    }
}

/// Admits units (bytes or operations) at a steady rate to any number of threads.
#[derive(Debug)]
pub struct Pacer {
    clock: Arc<dyn Clock>,
    nanos_per_unit: f64,
    /// When the next unit may go, in the clock's nanoseconds.
    next_nanos: AtomicU64,
}

/// How far behind its schedule a pacer may run before the rest is forgiven: bounds the burst after a pause.
const MAX_LAG_NANOS: u64 = 10_000_000;

impl Pacer {
    /// A pacer of `per_second` units; `None` when that is 0.
    pub fn new(clock: &Arc<dyn Clock>, per_second: u64) -> Option<Self> {
        (per_second > 0).then(|| Self {
            clock: Arc::clone(clock),
            nanos_per_unit: 1e9 / per_second as f64,
            next_nanos: AtomicU64::new(clock.now_nanos()),
        })
    }

    /// Waits until `units` more may go.
    pub fn request(&self, units: u64) {
        let now = self.clock.now_nanos();
        let cost = (units as f64 * self.nanos_per_unit) as u64;
        let mut seen = self.next_nanos.load(Ordering::Relaxed);
        let turn = loop {
            let turn = seen.max(now.saturating_sub(MAX_LAG_NANOS));
            match self.next_nanos.compare_exchange_weak(seen, turn + cost, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break turn,
                Err(current) => seen = current,
            }
        };
        if turn > now {
            self.clock.sleep_micros((turn - now).div_ceil(1000));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firn_env::ManualClock;

    #[test]
    fn counts_end_after_the_last_operation() {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(0));
        let mut limit = RunLimit::new(&clock, 0, 10, 1000);
        assert_eq!((0..).take_while(|_| !limit.is_done(1)).count(), 10);
        let mut limit = RunLimit::new(&clock, 0, 10, 1000);
        assert_eq!((0..).take_while(|_| !limit.is_done(4)).count(), 2);
    }

    #[test]
    fn time_is_looked_at_between_checks_only() {
        let manual = Arc::new(ManualClock::new(0));
        let clock: Arc<dyn Clock> = Arc::clone(&manual) as Arc<dyn Clock>;
        let mut limit = RunLimit::new(&clock, 2, 5, 100);
        manual.advance_micros(1_500_000);
        assert!((0..250).all(|_| !limit.is_done(1)));
        manual.advance_micros(1_000_000);
        assert_eq!((0..).take_while(|_| !limit.is_done(1)).count(), 49);
    }

    #[test]
    fn a_pacer_keeps_its_rate() {
        let manual = Arc::new(ManualClock::new(0));
        let clock: Arc<dyn Clock> = Arc::clone(&manual) as Arc<dyn Clock>;
        let pacer = Pacer::new(&clock, 1000).expect("a rate");
        (0..501).for_each(|_| pacer.request(10));
        let seconds = manual.now_nanos() as f64 / 1e9;
        assert!((4.98..5.02).contains(&seconds), "{seconds}");
        assert!(Pacer::new(&clock, 0).is_none());
    }
}
