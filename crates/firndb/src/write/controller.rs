//! Stall control: when writers must slow down or stop, and by how much.
//!
//! [`stall_condition`], [`has_compaction_pressure`] and [`DelayRate`] are pure: facts of a column family in, decision out.
//! [`WriteController`] collects the decisions of all families; [`CfStall`] is a family's share in it. A writer asks
//! [`WriteController::is_normal`], one relaxed load, and only if that says no takes the slow way.
//!
//! Always true here: a family holds at most one of stop, delay and pressure; the database is stopped as long as any
//! family stops it.

use firn_env::sync::Mutex;
use firn_env::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// Whether a column family lets writes pass; the discriminants are RocksDB's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum WriteStallCondition {
    /// Writes are slowed down.
    Delayed = 0,
    /// Writes wait.
    Stopped = 1,
    /// Writes pass.
    #[default]
    Normal = 2,
}

/// Why writes are slowed down or wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WriteStallCause {
    /// They are not.
    #[default]
    None,
    /// Too many memtables wait for their flush.
    MemtableLimit,
    /// Too many files in level 0.
    L0FileCountLimit,
    /// Compaction is too far behind.
    PendingCompactionBytes,
}

/// The options of a column family that decide about stalls, after sanitising.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StallOptions {
    /// Memtables in memory at most.
    pub max_write_buffer_number: i32,
    /// Memtables that a flush waits for.
    pub min_write_buffer_number_to_merge: i32,
    /// Files in level 0 that start a compaction.
    pub level0_file_num_compaction_trigger: i32,
    /// Files in level 0 that slow writes down; negative never does.
    pub level0_slowdown_writes_trigger: i32,
    /// Files in level 0 that stop writes.
    pub level0_stop_writes_trigger: i32,
    /// Bytes waiting for compaction that slow writes down; 0 never does.
    pub soft_pending_compaction_bytes_limit: u64,
    /// Bytes waiting for compaction that stop writes; 0 never does.
    pub hard_pending_compaction_bytes_limit: u64,
    /// Target size of the base level in bytes.
    pub max_bytes_for_level_base: u64,
    /// Whether compactions start only by hand; only memtables then stall writes.
    pub disable_auto_compactions: bool,
}

impl Default for StallOptions {
    fn default() -> Self {
        Self {
            max_write_buffer_number: 2,
            min_write_buffer_number_to_merge: 1,
            level0_file_num_compaction_trigger: 4,
            level0_slowdown_writes_trigger: 20,
            level0_stop_writes_trigger: 36,
            soft_pending_compaction_bytes_limit: 64 << 30,
            hard_pending_compaction_bytes_limit: 256 << 30,
            max_bytes_for_level_base: 256 << 20,
            disable_auto_compactions: false,
        }
    }
}

/// The state of a column family that decides about stalls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StallFacts {
    /// Immutable memtables not flushed yet.
    pub unflushed_memtables: usize,
    /// Files in level 0; with universal compaction also the non-empty levels below.
    pub l0_files: usize,
    /// Estimate of the bytes waiting for compaction.
    pub pending_compaction_bytes: u64,
    /// Bytes of the bottommost level.
    pub bottommost_bytes: u64,
    /// Files marked for compaction.
    pub files_marked_for_compaction: usize,
}

/// What the state of a family demands; the first matching rule decides.
pub fn stall_condition(facts: &StallFacts, options: &StallOptions) -> (WriteStallCondition, WriteStallCause) {
    use WriteStallCause as Cause;
    use WriteStallCondition::{Delayed, Normal, Stopped};
    let memtables = i64::try_from(facts.unflushed_memtables).unwrap_or(i64::MAX);
    let l0 = i64::try_from(facts.l0_files).unwrap_or(i64::MAX);
    let pending = facts.pending_compaction_bytes;
    let auto = !options.disable_auto_compactions;
    let max_memtables = i64::from(options.max_write_buffer_number);
    let slowdown = i64::from(options.level0_slowdown_writes_trigger);
    let reached = |limit: u64| limit > 0 && pending >= limit;
    if memtables >= max_memtables {
        (Stopped, Cause::MemtableLimit)
    } else if auto && l0 >= i64::from(options.level0_stop_writes_trigger) {
        (Stopped, Cause::L0FileCountLimit)
    } else if auto && reached(options.hard_pending_compaction_bytes_limit) {
        (Stopped, Cause::PendingCompactionBytes)
    } else if max_memtables > 3
        && memtables >= max_memtables - 1
        && memtables > i64::from(options.min_write_buffer_number_to_merge)
    {
        (Delayed, Cause::MemtableLimit)
    } else if auto && slowdown >= 0 && l0 >= slowdown {
        (Delayed, Cause::L0FileCountLimit)
    } else if auto && reached(options.soft_pending_compaction_bytes_limit) {
        (Delayed, Cause::PendingCompactionBytes)
    } else {
        (Normal, Cause::None)
    }
}

/// Whether a family that does not stall writes still wants more compactions to run at once.
pub fn has_compaction_pressure(facts: &StallFacts, options: &StallOptions) -> bool {
    let trigger = i64::from(options.level0_file_num_compaction_trigger);
    let slowdown = i64::from(options.level0_slowdown_writes_trigger);
    let l0 = i64::try_from(facts.l0_files).unwrap_or(i64::MAX);
    if trigger >= 0 && l0 >= (2 * trigger).min(trigger + (slowdown - trigger) / 4) {
        return true;
    }
    let soft = options.soft_pending_compaction_bytes_limit;
    if soft == 0 {
        return true;
    }
    let mut threshold = soft / 4;
    if facts.bottommost_bytes > 0 {
        threshold = threshold.min((facts.bottommost_bytes / 8).max(options.max_bytes_for_level_base.saturating_mul(2)));
    }
    facts.pending_compaction_bytes >= threshold || facts.files_marked_for_compaction >= 2
}

/// Whether a delayed family is close to a stop.
fn is_near_stop(cause: WriteStallCause, facts: &StallFacts, options: &StallOptions) -> bool {
    match cause {
        WriteStallCause::L0FileCountLimit => {
            let l0 = i64::try_from(facts.l0_files).unwrap_or(i64::MAX);
            l0 >= i64::from(options.level0_stop_writes_trigger) - 2
        }
        WriteStallCause::PendingCompactionBytes => {
            let (soft, hard) =
                (options.soft_pending_compaction_bytes_limit, options.hard_pending_compaction_bytes_limit);
            hard > 0 && facts.pending_compaction_bytes.saturating_sub(soft) > hard.saturating_sub(soft) / 4 * 3
        }
        WriteStallCause::MemtableLimit | WriteStallCause::None => false,
    }
}

/// The rate at which delayed writes pass; it persists from one delay to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayRate {
    max_bytes_per_sec: u64,
    bytes_per_sec: u64,
}

/// The rate never sinks below this by itself.
const MIN_RATE_BYTES_PER_SEC: u64 = 16 << 10;

impl DelayRate {
    /// Starts at the greatest rate, in bytes per second; 0 counts as 1.
    pub fn new(max_bytes_per_sec: u64) -> Self {
        let max = max_bytes_per_sec.max(1);
        Self { max_bytes_per_sec: max, bytes_per_sec: max }
    }

    /// The current rate in bytes per second.
    pub fn bytes_per_sec(&self) -> u64 {
        self.bytes_per_sec
    }

    fn set(&mut self, bytes_per_sec: u64) {
        self.bytes_per_sec = bytes_per_sec.clamp(1, self.max_bytes_per_sec);
    }

    /// An evaluation that came out as delayed. `already_delayed` tells whether the database was delayed before it,
    /// `penalize` whether it was stopped or is near a stop, `debt_before` and `debt` are the bytes waiting for compaction.
    pub fn on_delayed(
        &mut self,
        already_delayed: bool,
        penalize: bool,
        debt_before: u64,
        debt: u64,
        disable_auto_compactions: bool,
    ) {
        let scaled = |factor: f64| (self.bytes_per_sec as f64 * factor) as u64;
        if disable_auto_compactions {
            self.set(self.max_bytes_per_sec);
        } else if already_delayed && self.max_bytes_per_sec > MIN_RATE_BYTES_PER_SEC {
            if penalize {
                self.set(scaled(0.6).max(MIN_RATE_BYTES_PER_SEC));
            } else if debt_before > 0 && debt_before <= debt {
                self.set(scaled(0.8).max(MIN_RATE_BYTES_PER_SEC));
            } else if debt_before > debt {
                self.set(scaled(1.25));
            }
        }
    }

    /// An evaluation that came out as normal while the database was delayed. Returns the rate for low-priority writes.
    pub fn on_recovered(&mut self) -> u64 {
        let low_priority = self.bytes_per_sec / 4;
        self.set((self.bytes_per_sec as f64 * 1.4) as u64);
        low_priority
    }
}

/// Hands out bytes at a rate, refilled every millisecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenBucket {
    credit_bytes: u64,
    next_refill_micros: u64,
}

impl TokenBucket {
    const REFILL_MICROS: u64 = 1000;

    /// How many microseconds a writer of `bytes` bytes waits at `bytes_per_sec`, `now_micros` on a monotonic clock.
    pub fn delay_micros(&mut self, bytes: u64, bytes_per_sec: u64, now_micros: u64) -> u64 {
        if self.credit_bytes >= bytes {
            self.credit_bytes -= bytes;
            return 0;
        }
        let rate = bytes_per_sec.max(1) as f64;
        if self.next_refill_micros == 0 {
            self.next_refill_micros = now_micros;
        }
        if self.next_refill_micros <= now_micros {
            let elapsed = now_micros - self.next_refill_micros + Self::REFILL_MICROS;
            self.credit_bytes += (elapsed as f64 / 1e6 * rate + 0.999_999) as u64;
            self.next_refill_micros = now_micros + Self::REFILL_MICROS;
            if self.credit_bytes >= bytes {
                self.credit_bytes -= bytes;
                return 0;
            }
        }
        let needed = ((bytes - self.credit_bytes) as f64 / rate * 1e6) as u64;
        self.credit_bytes = 0;
        self.next_refill_micros += needed;
        (self.next_refill_micros.saturating_sub(now_micros)).max(Self::REFILL_MICROS)
    }
}

#[derive(Debug)]
struct State {
    rate: DelayRate,
    bucket: TokenBucket,
    low_priority_bytes_per_sec: u64,
    stopped: u32,
    delayed: u32,
    pressure: u32,
}

/// Collects what the column families of a database demand. Thread-safe.
#[derive(Debug)]
pub struct WriteController {
    state: Mutex<State>,
    /// Stops in the high half, delays in the low half: writers look only at whether it is zero.
    stalls: AtomicU64,
    pressure: AtomicU64,
}

impl WriteController {
    /// The rate of delayed writes when neither `delayed_write_rate` nor a rate limiter gives one: 16 MiB/s.
    pub const DEFAULT_RATE_BYTES_PER_SEC: u64 = 16 << 20;

    /// A controller without stalls; `max_rate_bytes_per_sec` is the greatest rate of delayed writes.
    pub fn new(max_rate_bytes_per_sec: u64) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                rate: DelayRate::new(max_rate_bytes_per_sec),
                bucket: TokenBucket::default(),
                low_priority_bytes_per_sec: 1 << 20,
                stopped: 0,
                delayed: 0,
                pressure: 0,
            }),
            stalls: AtomicU64::new(0),
            pressure: AtomicU64::new(0),
        })
    }

    /// Whether no family stops or delays writes.
    #[inline]
    pub fn is_normal(&self) -> bool {
        self.stalls.load(Ordering::Relaxed) == 0
    }

    /// Whether some family stops writes.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.stalls.load(Ordering::Relaxed) >> 32 != 0
    }

    /// Whether some family delays writes.
    #[inline]
    pub fn needs_delay(&self) -> bool {
        self.stalls.load(Ordering::Relaxed) as u32 != 0
    }

    /// Whether more compactions should run at once.
    pub fn needs_speedup(&self) -> bool {
        !self.is_normal() || self.pressure.load(Ordering::Relaxed) != 0
    }

    /// The rate of delayed writes in bytes per second while writes are delayed, else 0
    /// (`rocksdb.actual-delayed-write-rate`).
    pub fn actual_delayed_write_rate(&self) -> u64 {
        if self.is_stopped() || !self.needs_delay() { 0 } else { self.state.lock().rate.bytes_per_sec() }
    }

    /// The rate for low-priority writes in bytes per second.
    pub fn low_priority_rate(&self) -> u64 {
        self.state.lock().low_priority_bytes_per_sec
    }

    /// Changes the greatest rate of delayed writes and goes back to it.
    pub fn set_max_rate(&self, bytes_per_sec: u64) {
        self.state.lock().rate = DelayRate::new(bytes_per_sec);
    }

    /// How many microseconds a writer of `bytes` bytes waits; 0 unless writes are delayed and not stopped.
    pub fn delay_micros(&self, bytes: u64, now_micros: u64) -> u64 {
        if self.is_stopped() || !self.needs_delay() {
            return 0;
        }
        let state = &mut *self.state.lock();
        state.bucket.delay_micros(bytes, state.rate.bytes_per_sec(), now_micros)
    }

    fn publish(&self, state: &State) {
        self.stalls.store(u64::from(state.stopped) << 32 | u64::from(state.delayed), Ordering::Relaxed);
        self.pressure.store(u64::from(state.pressure), Ordering::Relaxed);
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Token {
    #[default]
    None,
    Stop,
    Delay,
    Pressure,
}

impl State {
    fn count(&mut self, token: Token) -> Option<&mut u32> {
        match token {
            Token::None => None,
            Token::Stop => Some(&mut self.stopped),
            Token::Delay => Some(&mut self.delayed),
            Token::Pressure => Some(&mut self.pressure),
        }
    }

    fn release(&mut self, token: Token) {
        if let Some(count) = self.count(token) {
            debug_assert!(*count > 0);
            *count -= 1;
        }
    }

    fn acquire(&mut self, token: Token) {
        if token == Token::Delay && self.delayed == 0 {
            // A new delay starts without credit from the last.
            self.bucket = TokenBucket::default();
        }
        if let Some(count) = self.count(token) {
            *count += 1;
        }
    }
}

/// The share of one column family in the controller; dropping it, as when the family is dropped, gives it back.
#[derive(Debug)]
pub struct CfStall {
    controller: Arc<WriteController>,
    token: Token,
    condition: WriteStallCondition,
    cause: WriteStallCause,
    debt_before: u64,
}

impl CfStall {
    /// A family that demands nothing yet.
    pub fn new(controller: Arc<WriteController>) -> Self {
        Self {
            controller,
            token: Token::None,
            condition: WriteStallCondition::Normal,
            cause: WriteStallCause::None,
            debt_before: 0,
        }
    }

    /// What the last evaluation found.
    pub fn condition(&self) -> WriteStallCondition {
        self.condition
    }

    /// Why the last evaluation found it.
    pub fn cause(&self) -> WriteStallCause {
        self.cause
    }

    /// Evaluates the family anew: after every installation of a super version, under the database mutex.
    pub fn recalculate(&mut self, facts: &StallFacts, options: &StallOptions) -> WriteStallCondition {
        let (condition, cause) = stall_condition(facts, options);
        let debt = facts.pending_compaction_bytes;
        let controller = Arc::clone(&self.controller);
        let state = &mut *controller.state.lock();
        let (was_stopped, was_delayed) = (state.stopped > 0, state.delayed > 0);
        let token = match condition {
            WriteStallCondition::Stopped => Token::Stop,
            WriteStallCondition::Delayed => {
                let penalize = was_stopped || is_near_stop(cause, facts, options);
                let manual = options.disable_auto_compactions;
                state.rate.on_delayed(was_delayed, penalize, self.debt_before, debt, manual);
                Token::Delay
            }
            WriteStallCondition::Normal => {
                if was_delayed {
                    state.low_priority_bytes_per_sec = state.rate.on_recovered().max(1);
                }
                if has_compaction_pressure(facts, options) { Token::Pressure } else { Token::None }
            }
        };
        // The new share first: a delay that goes on must not lose the credit of its bucket.
        state.acquire(token);
        state.release(self.token);
        controller.publish(state);
        self.token = token;
        self.debt_before = debt;
        self.condition = condition;
        self.cause = cause;
        condition
    }
}

impl Drop for CfStall {
    fn drop(&mut self) {
        let state = &mut *self.controller.state.lock();
        state.release(self.token);
        self.controller.publish(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use WriteStallCause as Cause;
    use WriteStallCondition::{Delayed, Normal, Stopped};

    fn facts(memtables: usize, l0_files: usize, pending: u64) -> StallFacts {
        StallFacts {
            unflushed_memtables: memtables,
            l0_files,
            pending_compaction_bytes: pending,
            ..StallFacts::default()
        }
    }

    #[test]
    fn the_first_matching_rule_decides() {
        let mut options = StallOptions::default();
        let at = |options: &StallOptions, m, l0, p| stall_condition(&facts(m, l0, p), options);
        assert_eq!(at(&options, 1, 19, (64 << 30) - 1), (Normal, Cause::None));
        assert_eq!(at(&options, 2, 36, 256 << 30), (Stopped, Cause::MemtableLimit));
        assert_eq!(at(&options, 1, 36, 256 << 30), (Stopped, Cause::L0FileCountLimit));
        assert_eq!(at(&options, 1, 35, 256 << 30), (Stopped, Cause::PendingCompactionBytes));
        assert_eq!(at(&options, 1, 20, 64 << 30), (Delayed, Cause::L0FileCountLimit));
        assert_eq!(at(&options, 1, 19, 64 << 30), (Delayed, Cause::PendingCompactionBytes));
        options.max_write_buffer_number = 4;
        assert_eq!(at(&options, 3, 20, 0), (Delayed, Cause::MemtableLimit));
        assert_eq!(at(&options, 2, 0, 0), (Normal, Cause::None));
        options.min_write_buffer_number_to_merge = 3;
        assert_eq!(at(&options, 3, 0, 0), (Normal, Cause::None));
        options.disable_auto_compactions = true;
        assert_eq!(at(&options, 3, 99, u64::MAX), (Normal, Cause::None));
        assert_eq!(at(&options, 4, 99, u64::MAX), (Stopped, Cause::MemtableLimit));
        let off = StallOptions {
            level0_slowdown_writes_trigger: -1,
            soft_pending_compaction_bytes_limit: 0,
            hard_pending_compaction_bytes_limit: 0,
            ..StallOptions::default()
        };
        assert_eq!(at(&off, 0, 35, u64::MAX), (Normal, Cause::None));
    }

    #[test]
    fn pressure() {
        let options = StallOptions::default();
        assert!(!has_compaction_pressure(&facts(0, 7, 0), &options));
        assert!(has_compaction_pressure(&facts(0, 8, 0), &options));
        assert!(has_compaction_pressure(&facts(0, 0, 16 << 30), &options));
        let small_bottom = StallFacts { bottommost_bytes: 8 << 30, ..facts(0, 0, 1 << 30) };
        assert!(has_compaction_pressure(&small_bottom, &options));
        let marked = StallFacts { files_marked_for_compaction: 2, ..facts(0, 0, 0) };
        assert!(has_compaction_pressure(&marked, &options));
    }

    /// Two evaluations per flush, compactions blocked: the rates that RocksDB reports.
    #[test]
    fn the_rate_falls_with_every_file() {
        let controller = WriteController::new(16 << 20);
        let mut family = CfStall::new(Arc::clone(&controller));
        let options = StallOptions {
            level0_file_num_compaction_trigger: 2,
            level0_slowdown_writes_trigger: 4,
            level0_stop_writes_trigger: 9,
            ..StallOptions::default()
        };
        let mut rates = Vec::new();
        for files in 1..=9usize {
            family.recalculate(&facts(1, files - 1, (files - 1) as u64 * 1000), &options);
            family.recalculate(&facts(0, files, files as u64 * 1000), &options);
            rates.push(controller.actual_delayed_write_rate());
        }
        assert_eq!(rates, [0, 0, 0, 16_777_216, 10_737_417, 6_871_946, 3_298_533, 1_187_471, 0]);
        assert!(controller.is_stopped() && !controller.needs_delay());
        family.recalculate(&facts(0, 1, 1000), &options);
        assert!(controller.is_normal());
    }

    #[test]
    fn the_rate_recovers() {
        let mut rate = DelayRate::new(1_000_000);
        rate.on_delayed(true, true, 0, 0, false);
        assert_eq!(rate.bytes_per_sec(), 600_000);
        rate.on_delayed(true, false, 10, 5, false);
        assert_eq!(rate.bytes_per_sec(), 750_000);
        rate.on_delayed(true, false, 0, 5, false);
        assert_eq!(rate.bytes_per_sec(), 750_000);
        assert_eq!(rate.on_recovered(), 187_500);
        assert_eq!(rate.bytes_per_sec(), 1_000_000);
        for _ in 0..100 {
            rate.on_delayed(true, true, 0, 0, false);
        }
        assert_eq!(rate.bytes_per_sec(), MIN_RATE_BYTES_PER_SEC);
        rate.on_delayed(true, true, 0, 0, true);
        assert_eq!(rate.bytes_per_sec(), 1_000_000);
    }

    #[test]
    fn a_family_that_goes_takes_its_stall_along() {
        let controller = WriteController::new(WriteController::DEFAULT_RATE_BYTES_PER_SEC);
        let (mut a, mut b) = (CfStall::new(Arc::clone(&controller)), CfStall::new(Arc::clone(&controller)));
        let options = StallOptions::default();
        assert_eq!(a.recalculate(&facts(2, 0, 0), &options), Stopped);
        assert_eq!(b.recalculate(&facts(0, 20, 0), &options), Delayed);
        assert!(controller.is_stopped() && controller.needs_delay());
        assert_eq!(controller.delay_micros(1, 1), 0, "stopped writers wait for another signal");
        drop(a);
        assert!(!controller.is_stopped() && controller.needs_delay());
        drop(b);
        assert!(controller.is_normal() && !controller.needs_speedup());
    }

    #[test]
    fn the_bucket_hands_out_bytes_at_the_rate() {
        let mut bucket = TokenBucket::default();
        // One millisecond's worth at 1 MB/s is there at once.
        assert_eq!(bucket.delay_micros(1000, 1_000_000, 5_000), 0);
        assert_eq!(bucket.delay_micros(1000, 1_000_000, 5_000), 2000);
        assert_eq!(bucket.delay_micros(10_000, 1_000_000, 5_000), 12_000);
        // Over a long time the delays add up to the bytes.
        let (mut bucket, mut now) = (TokenBucket::default(), 1_000_000);
        for _ in 0..1000 {
            now += bucket.delay_micros(5_000, 1_000_000, now);
        }
        let elapsed = now - 1_000_000;
        assert!((4_900_000..=5_100_000).contains(&elapsed), "{elapsed}");
    }
}
