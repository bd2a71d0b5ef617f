//! The lock types of the house, in one place so that a model checker can take their place.
//!
//! Mutexes and reader-writer locks do not poison: a panic under a lock is a bug that the tests must find, not a state
//! that every caller handles. Nothing flows through here but names.
//!
//! With the feature `shuttle`, which only the models in `firndb/tests/shuttle` turn on, the names stand for types that hand
//! control to a scheduler at every operation; see `model.rs`. What is `static` outlives one run of such a scheduler and
//! therefore takes [`StaticMutex`] and the atomics of `std`, and is held for a few instructions without any other lock.

#[cfg(feature = "shuttle")]
pub mod model;

#[cfg(feature = "shuttle")]
pub use model::{
    Condvar, Mutex, MutexGuard, PerThread, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult, atomic,
    spin_loop,
};
#[cfg(not(feature = "shuttle"))]
pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult};
#[cfg(not(feature = "shuttle"))]
pub use std::{hint::spin_loop, sync::atomic};
/// A value for each thread, which all threads can go through.
#[cfg(not(feature = "shuttle"))]
pub use thread_local::ThreadLocal as PerThread;

/// The mutex of `static` state.
pub use parking_lot::Mutex as StaticMutex;
pub use std::sync::{Arc, OnceLock, Weak};
