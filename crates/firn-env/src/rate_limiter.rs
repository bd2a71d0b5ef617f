//! Limits how many bytes per second background work may read or write.
//!
//! A token bucket that is refilled every period. Requests flow in with a priority; a request that the bucket cannot
//! serve waits in the queue of its priority, and every refill serves the queues in an order that favours the higher
//! ones without starving the lower ones. With auto-tuning the rate follows the demand between a twentieth of the limit
//! and the limit.
//!
//! Always true here: between two refills at most the refill's bytes are granted; within one priority, requests are
//! served first come, first served.

use crate::sync::atomic::{AtomicU64, Ordering};
use std::collections::VecDeque;
use std::fmt::{self, Debug};
use std::sync::Arc;
use std::time::Duration;

use firn_error::{Error, Result};

use crate::clock::Clock;
use crate::entropy::{Entropy, SystemEntropy};
use crate::sync::{Condvar, Mutex, MutexGuard};

/// Who asks for bandwidth; the discriminants are RocksDB's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum IoPriority {
    /// Compactions.
    Low = 0,
    /// Between compactions and flushes.
    Mid = 1,
    /// Flushes.
    High = 2,
    /// Work that a user waits for.
    User = 3,
    /// Not limited at all.
    #[default]
    Unlimited = 4,
}

/// What the bytes are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoKind {
    /// Reading.
    Read,
    /// Writing.
    Write,
}

/// Which kinds of I/O a limiter limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RateLimiterMode {
    /// Reads only.
    ReadsOnly,
    /// Writes only: the default.
    #[default]
    WritesOnly,
    /// Both.
    AllIo,
}

/// Something that makes background I/O wait. Thread-safe.
pub trait RateLimiter: Send + Sync + Debug {
    /// Waits until `bytes` bytes of `kind` may be transferred. Kinds outside the limiter's mode and
    /// [`IoPriority::Unlimited`] never wait. Requests above the burst are served in parts.
    fn request(&self, bytes: u64, priority: IoPriority, kind: IoKind);

    /// The current rate in bytes per second.
    fn bytes_per_second(&self) -> u64;

    /// Changes the rate (with auto-tuning: the limit that the rate stays below).
    ///
    /// # Errors
    /// `InvalidArgument` for 0.
    fn set_bytes_per_second(&self, bytes_per_second: u64) -> Result<()>;

    /// The most bytes one request is granted at once.
    fn single_burst_bytes(&self) -> u64;

    /// Bytes granted to a priority so far; to all of them for [`IoPriority::Unlimited`].
    fn total_bytes_through(&self, priority: IoPriority) -> u64;

    /// Requests of a priority so far; of all of them for [`IoPriority::Unlimited`].
    fn total_requests(&self, priority: IoPriority) -> u64;

    /// Whether I/O of this kind is limited.
    fn limits(&self, kind: IoKind) -> bool;
}

/// How a [`GenericRateLimiter`] is made.
#[derive(Clone, Copy, Debug)]
pub struct RateLimiterOptions {
    /// The limit in bytes per second; at least 1.
    pub bytes_per_second: u64,
    /// How often the bucket is refilled, in microseconds. Default: 100,000.
    pub refill_period_micros: u64,
    /// Once in so many refills a lower priority is served before a higher one. Default: 10.
    pub fairness: u32,
    /// What is limited. Default: writes.
    pub mode: RateLimiterMode,
    /// Follow the demand between 1/20 of the limit and the limit. Default: false.
    pub auto_tuned: bool,
    /// The most bytes one request is granted at once; 0 (the default) takes what one refill brings.
    pub single_burst_bytes: u64,
}

impl Default for RateLimiterOptions {
    fn default() -> Self {
        Self {
            bytes_per_second: u64::MAX,
            refill_period_micros: 100_000,
            fairness: 10,
            mode: RateLimiterMode::WritesOnly,
            auto_tuned: false,
            single_burst_bytes: 0,
        }
    }
}

const LANES: usize = 4;
const TUNE_EVERY_PERIODS: u64 = 100;

/// A request that waits; `missing` changes under the limiter's mutex only.
struct Waiter {
    missing: AtomicU64,
    wake: Condvar,
}

struct State {
    limit: u64,
    rate: u64,
    refill_bytes: u64,
    available: u64,
    next_refill_micros: u64,
    queues: [VecDeque<Arc<Waiter>>; LANES],
    /// Whether some waiter sleeps until the next refill on behalf of all.
    refiller_sleeps: bool,
    total_bytes: [u64; LANES],
    total_requests: [u64; LANES],
    drains: u64,
    tuned_micros: u64,
}

/// The token bucket. Thread-safe.
pub struct GenericRateLimiter {
    options: RateLimiterOptions,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    state: Mutex<State>,
}

fn refill_bytes(rate: u64, period_micros: u64) -> u64 {
    let bytes = u128::from(rate) * u128::from(period_micros) / 1_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX).max(1)
}

/// The rate for the next stretch of time, given how often in 100 refill periods the bucket ran dry.
fn tuned_rate(limit: u64, rate: u64, drained_percent: u64) -> u64 {
    let least = (limit / 20).max(1);
    match drained_percent {
        0 => least,
        1..50 => least.max((u128::from(rate) * 100 / 105).try_into().unwrap_or(limit)),
        91.. => limit.min((u128::from(rate) * 105 / 100).try_into().unwrap_or(limit)),
        _ => rate,
    }
}

impl GenericRateLimiter {
    /// A limiter over the given clock.
    ///
    /// # Errors
    /// `InvalidArgument` when the rate, the period or the fairness is 0.
    pub fn new(options: RateLimiterOptions, clock: Arc<dyn Clock>) -> Result<Self> {
        Self::with_entropy(options, clock, Arc::new(SystemEntropy))
    }

    /// A limiter whose fairness draws from `entropy`, so that a simulation repeats.
    ///
    /// # Errors
    /// As [`GenericRateLimiter::new`].
    pub fn with_entropy(options: RateLimiterOptions, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Result<Self> {
        if options.bytes_per_second == 0 || options.refill_period_micros == 0 || options.fairness == 0 {
            return Err(Error::invalid_argument("rate limiter: rate, refill period and fairness must not be 0"));
        }
        let limit = options.bytes_per_second;
        let rate = if options.auto_tuned { (limit / 2).max(1) } else { limit };
        let now = clock.now_nanos() / 1000;
        let state = State {
            limit,
            rate,
            refill_bytes: refill_bytes(rate, options.refill_period_micros),
            available: 0,
            next_refill_micros: now,
            queues: Default::default(),
            refiller_sleeps: false,
            total_bytes: [0; LANES],
            total_requests: [0; LANES],
            drains: 0,
            tuned_micros: now,
        };
        Ok(Self { options, clock, entropy, state: Mutex::new(state) })
    }

    fn now_micros(&self) -> u64 {
        self.clock.now_nanos() / 1000
    }

    fn burst(&self, state: &State) -> u64 {
        if self.options.single_burst_bytes > 0 { self.options.single_burst_bytes } else { state.refill_bytes }
    }

    fn tune(&self, state: &mut State) {
        let now = self.now_micros();
        let period = self.options.refill_period_micros;
        let elapsed = now.saturating_sub(state.tuned_micros);
        if !self.options.auto_tuned || elapsed < period.saturating_mul(TUNE_EVERY_PERIODS) {
            return;
        }
        let percent = state.drains.saturating_mul(100) / elapsed.div_ceil(period);
        state.rate = tuned_rate(state.limit, state.rate, percent);
        state.refill_bytes = refill_bytes(state.rate, period);
        state.drains = 0;
        state.tuned_micros = now;
    }

    fn request_part(&self, bytes: u64, lane: usize) -> u64 {
        let mut state = self.state.lock();
        self.tune(&mut state);
        let bytes = bytes.min(self.burst(&state));
        if let (Some(count), Some(total)) = (state.total_requests.get(lane), state.total_bytes.get(lane)) {
            let (count, total) = (count + 1, total.saturating_add(bytes));
            state.total_requests[lane] = count;
            state.total_bytes[lane] = total;
        }
        let at_once = bytes.min(state.available);
        state.available -= at_once;
        if at_once < bytes {
            let waiter = Arc::new(Waiter { missing: AtomicU64::new(bytes - at_once), wake: Condvar::new() });
            state.queues[lane].push_back(Arc::clone(&waiter));
            self.wait(state, &waiter);
        }
        bytes
    }

    /// Waits until the waiter was served; one of all waiters sleeps until the refill is due and refills for everybody.
    fn wait(&self, mut state: MutexGuard<'_, State>, waiter: &Arc<Waiter>) {
        while waiter.missing.load(Ordering::Relaxed) > 0 {
            if state.refiller_sleeps {
                waiter.wake.wait(&mut state);
                continue;
            }
            let now = self.now_micros();
            if now < state.next_refill_micros {
                let pause = state.next_refill_micros - now;
                state.refiller_sleeps = true;
                state.drains += 1;
                if self.clock.is_manual() {
                    MutexGuard::unlocked(&mut state, || self.clock.sleep_micros(pause));
                } else {
                    waiter.wake.wait_for(&mut state, Duration::from_micros(pause));
                }
                state.refiller_sleeps = false;
            } else {
                self.refill(&mut state, now);
            }
        }
        // Somebody has to take over waiting for the next refill.
        if !state.refiller_sleeps
            && let Some(next) = state.queues.iter().rev().find_map(VecDeque::front)
        {
            next.wake.notify_one();
        }
    }

    fn refill(&self, state: &mut State, now: u64) {
        state.next_refill_micros = now + self.options.refill_period_micros;
        // Left-overs do not add up: what nobody took in a period is gone.
        state.available = state.refill_bytes;
        for lane in self.serving_order() {
            while let Some(head) = state.queues[lane].front() {
                let missing = head.missing.load(Ordering::Relaxed);
                if missing > state.available {
                    head.missing.store(missing - state.available, Ordering::Relaxed);
                    state.available = 0;
                    break;
                }
                state.available -= missing;
                head.missing.store(0, Ordering::Relaxed);
                head.wake.notify_one();
                state.queues[lane].pop_front();
            }
        }
    }

    /// The lanes in the order of this refill: user first; the others by priority, but each of the two lower steps is
    /// turned around once in `fairness` times, so that nobody starves.
    fn serving_order(&self) -> [usize; LANES] {
        let (low, mid, high, user) = (0, 1, 2, 3);
        let one_in = |entropy: &dyn Entropy| entropy.next_u64().is_multiple_of(u64::from(self.options.fairness));
        let high_last = one_in(&*self.entropy);
        let low_before_mid = one_in(&*self.entropy);
        let (third, fourth) = if low_before_mid { (low, mid) } else { (mid, low) };
        if high_last { [user, third, fourth, high] } else { [user, high, third, fourth] }
    }
}

impl RateLimiter for GenericRateLimiter {
    fn request(&self, bytes: u64, priority: IoPriority, kind: IoKind) {
        if priority == IoPriority::Unlimited || !self.limits(kind) {
            return;
        }
        let mut left = bytes;
        while left > 0 {
            left -= self.request_part(left, priority as usize);
        }
    }

    fn bytes_per_second(&self) -> u64 {
        self.state.lock().rate
    }

    fn set_bytes_per_second(&self, bytes_per_second: u64) -> Result<()> {
        if bytes_per_second == 0 {
            return Err(Error::invalid_argument("rate limiter: the rate must not be 0"));
        }
        let mut state = self.state.lock();
        state.limit = bytes_per_second;
        state.rate = if self.options.auto_tuned { (bytes_per_second / 2).max(1) } else { bytes_per_second };
        state.refill_bytes = refill_bytes(state.rate, self.options.refill_period_micros);
        Ok(())
    }

    fn single_burst_bytes(&self) -> u64 {
        self.burst(&self.state.lock())
    }

    fn total_bytes_through(&self, priority: IoPriority) -> u64 {
        let state = self.state.lock();
        state.total_bytes.get(priority as usize).copied().unwrap_or_else(|| state.total_bytes.iter().sum())
    }

    fn total_requests(&self, priority: IoPriority) -> u64 {
        let state = self.state.lock();
        state.total_requests.get(priority as usize).copied().unwrap_or_else(|| state.total_requests.iter().sum())
    }

    fn limits(&self, kind: IoKind) -> bool {
        match self.options.mode {
            RateLimiterMode::ReadsOnly => kind == IoKind::Read,
            RateLimiterMode::WritesOnly => kind == IoKind::Write,
            RateLimiterMode::AllIo => true,
        }
    }
}

impl fmt::Debug for GenericRateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GenericRateLimiter {{ {} bytes/s, {:?} }}", self.bytes_per_second(), self.options.mode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{ManualClock, SystemClock};
    use crate::thread;

    fn manual(options: RateLimiterOptions) -> (Arc<ManualClock>, GenericRateLimiter) {
        let clock = Arc::new(ManualClock::new(1_000_000));
        let shared: Arc<dyn Clock> = Arc::clone(&clock) as _;
        (clock, GenericRateLimiter::new(options, shared).unwrap())
    }

    #[test]
    fn a_second_of_work_takes_a_second() {
        let (clock, limiter) =
            manual(RateLimiterOptions { bytes_per_second: 1_000_000, ..RateLimiterOptions::default() });
        assert_eq!(limiter.single_burst_bytes(), 100_000);
        let start = clock.now_micros();
        for _ in 0..20 {
            limiter.request(60_000, IoPriority::Low, IoKind::Write);
        }
        let elapsed = clock.now_micros() - start;
        assert!((1_100_000..=1_300_000).contains(&elapsed), "{elapsed}");
        assert_eq!(limiter.total_bytes_through(IoPriority::Low), 1_200_000);
        assert_eq!(limiter.total_bytes_through(IoPriority::Unlimited), 1_200_000);
        limiter.request(u64::MAX, IoPriority::Unlimited, IoKind::Write);
        limiter.request(u64::MAX, IoPriority::User, IoKind::Read);
        assert_eq!(limiter.total_requests(IoPriority::Unlimited), 20);
    }

    #[test]
    fn auto_tuning_follows_the_published_steps() {
        let (clock, limiter) = manual(RateLimiterOptions {
            bytes_per_second: 1_000_000,
            refill_period_micros: 1000,
            auto_tuned: true,
            ..RateLimiterOptions::default()
        });
        assert_eq!((limiter.bytes_per_second(), limiter.single_burst_bytes()), (500_000, 500));
        clock.advance_micros(101_000);
        limiter.request(1, IoPriority::High, IoKind::Write);
        assert_eq!(limiter.bytes_per_second(), 50_000);
        let mut rates = vec![50_000];
        while rates.len() < 5 {
            limiter.request(limiter.single_burst_bytes(), IoPriority::High, IoKind::Write);
            let rate = limiter.bytes_per_second();
            if rates.last() != Some(&rate) {
                rates.push(rate);
            }
        }
        assert_eq!(rates, [50_000, 52_500, 55_125, 57_881, 60_775]);
    }

    #[test]
    fn tuning_rules() {
        assert_eq!(tuned_rate(1000, 500, 0), 50);
        assert_eq!(tuned_rate(1000, 500, 49), 476);
        assert_eq!(tuned_rate(1000, 51, 10), 50);
        assert_eq!(tuned_rate(1000, 500, 50), 500);
        assert_eq!(tuned_rate(1000, 500, 90), 500);
        assert_eq!(tuned_rate(1000, 500, 91), 525);
        assert_eq!(tuned_rate(1000, 990, 100), 1000);
    }

    #[test]
    fn bad_settings_are_refused() {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let none = RateLimiterOptions { bytes_per_second: 0, ..RateLimiterOptions::default() };
        assert!(GenericRateLimiter::new(none, Arc::clone(&clock)).is_err());
        let limiter = GenericRateLimiter::new(RateLimiterOptions::default(), clock).unwrap();
        assert!(limiter.set_bytes_per_second(0).is_err());
        limiter.set_bytes_per_second(7).unwrap();
        assert_eq!(limiter.bytes_per_second(), 7);
    }

    #[test]
    fn concurrent_requests_of_all_priorities_are_all_served() {
        let limiter = GenericRateLimiter::new(
            RateLimiterOptions { bytes_per_second: 50_000_000, refill_period_micros: 1000, ..Default::default() },
            Arc::new(SystemClock::new()),
        )
        .unwrap();
        thread::scope(|scope| {
            for priority in [IoPriority::Low, IoPriority::Mid, IoPriority::High, IoPriority::User] {
                for _ in 0..2 {
                    let limiter = &limiter;
                    scope.spawn(move || (0..100).for_each(|_| limiter.request(10_000, priority, IoKind::Write)));
                }
            }
        });
        assert_eq!(limiter.total_bytes_through(IoPriority::Unlimited), 8_000_000);
        assert_eq!(limiter.total_requests(IoPriority::Mid), 200);
    }
}
