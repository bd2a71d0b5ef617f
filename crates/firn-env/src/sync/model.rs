//! The lock types over the scheduler of shuttle, for models.
//!
//! Every operation is a point at which the scheduler may go on with another thread. Orderings weaker than sequential
//! consistency are not modelled, and a wait with a timeout may end at any time. Nothing here works outside of a model.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{OnceLock, TryLockError};
use std::time::Duration;

pub use shuttle::sync::atomic;

/// A spin is a look at another thread's progress, which only comes when that thread runs.
pub fn spin_loop() {
    shuttle::thread::yield_now();
}

/// As `parking_lot::Mutex`.
#[derive(Default)]
pub struct Mutex<T: ?Sized>(shuttle::sync::Mutex<T>);

/// As `parking_lot::MutexGuard`. The inner guard is away only while a condition is waited for.
pub struct MutexGuard<'a, T: ?Sized> {
    lock: &'a Mutex<T>,
    held: Option<shuttle::sync::MutexGuard<'a, T>>,
}

const HELD: &str = "a guard holds its lock whenever anybody sees it";

impl<T> Mutex<T> {
    /// A mutex around `value`.
    pub const fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(|poison| poison.into_inner())
    }
}

impl<T: ?Sized> Mutex<T> {
    fn acquire(&self) -> shuttle::sync::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard { lock: self, held: Some(self.acquire()) }
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(held) => Some(MutexGuard { lock: self, held: Some(held) }),
            Err(TryLockError::Poisoned(poison)) => Some(MutexGuard { lock: self, held: Some(poison.into_inner()) }),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The value, which nobody else can see.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(|poison| poison.into_inner())
    }
}

impl<T: ?Sized> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mutex { .. }")
    }
}

impl<T: ?Sized> MutexGuard<'_, T> {
    /// Runs `action` without the lock.
    pub fn unlocked<R>(guard: &mut Self, action: impl FnOnce() -> R) -> R {
        drop(guard.held.take());
        let result = action();
        guard.held = Some(guard.lock.acquire());
        result
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.as_ref().expect(HELD)
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect(HELD)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// As `parking_lot::Condvar`.
#[derive(Default)]
pub struct Condvar(shuttle::sync::Condvar);

/// As `parking_lot::WaitTimeoutResult`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether the time ran out.
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    /// A condition that nobody waits for.
    pub const fn new() -> Self {
        Self(shuttle::sync::Condvar::new())
    }

    /// Gives up the lock until notified.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.held.take().expect(HELD);
        guard.held = Some(self.0.wait(held).unwrap_or_else(|poison| poison.into_inner()));
    }

    /// Gives up the lock for a moment, of which the scheduler decides how long it is.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _: Duration) -> WaitTimeoutResult {
        MutexGuard::unlocked(guard, shuttle::thread::yield_now);
        WaitTimeoutResult(true)
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) -> bool {
        self.0.notify_one();
        true
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) -> usize {
        self.0.notify_all();
        0
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Condvar { .. }")
    }
}

/// As `parking_lot::RwLock`.
#[derive(Default)]
pub struct RwLock<T: ?Sized>(shuttle::sync::RwLock<T>);

/// As `parking_lot::RwLockReadGuard`.
pub type RwLockReadGuard<'a, T> = shuttle::sync::RwLockReadGuard<'a, T>;

/// As `parking_lot::RwLockWriteGuard`.
pub type RwLockWriteGuard<'a, T> = shuttle::sync::RwLockWriteGuard<'a, T>;

impl<T> RwLock<T> {
    /// A lock around `value`.
    pub const fn new(value: T) -> Self {
        Self(shuttle::sync::RwLock::new(value))
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(|poison| poison.into_inner())
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits for the lock, shared.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(|poison| poison.into_inner())
    }

    /// Waits for the lock, alone.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(|poison| poison.into_inner())
    }

    /// The value, which nobody else can see.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(|poison| poison.into_inner())
    }
}

impl<T: ?Sized> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RwLock { .. }")
    }
}

/// Threads of a model that may have a value of their own.
const MOST_THREADS: usize = 16;

/// As `thread_local::ThreadLocal`; the threads of a model all run on one thread of the system.
pub struct PerThread<T>([OnceLock<(shuttle::thread::ThreadId, T)>; MOST_THREADS]);

impl<T: Default> PerThread<T> {
    /// No values yet.
    pub const fn new() -> Self {
        Self([const { OnceLock::new() }; MOST_THREADS])
    }

    /// The value of the calling thread.
    pub fn get_or_default(&self) -> &T {
        let me = shuttle::thread::current().id();
        let own = self.0.iter().map(|slot| slot.get_or_init(|| (me, T::default()))).find(|(owner, _)| *owner == me);
        &own.expect("more threads than a model may have").1
    }

    /// The values of all threads.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().filter_map(|slot| slot.get().map(|(_, value)| value))
    }
}

impl<T: Default> Default for PerThread<T> {
    fn default() -> Self {
        Self::new()
    }
}
