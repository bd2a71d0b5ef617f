//! The lock types of the house, in one place so that a model checker can take their place.
//!
//! Mutexes and reader-writer locks do not poison: a panic under a lock is a bug that the tests must find, not a state
//! that every caller handles. Nothing flows through here but names.

pub use parking_lot::{
    Condvar, MappedMutexGuard, Mutex, MutexGuard, Once, RwLock, RwLockReadGuard, RwLockUpgradableReadGuard,
    RwLockWriteGuard, WaitTimeoutResult,
};
pub use std::sync::atomic;
pub use std::sync::{Arc, OnceLock, Weak};
