//! The block cache: what is referred to stays, what is not may go, and everything is dropped once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use firn_env::thread;
use firn_table::cache::{Cache, CacheKey, CacheOptions, CachePriority};

/// Knows its key, and counts how many of its kind are alive.
struct Tracked {
    number: u64,
    alive: Arc<AtomicUsize>,
}

impl Tracked {
    fn new(number: u64, alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::SeqCst);
        Self { number, alive: Arc::clone(alive) }
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Three threads insert, look up, hold and erase the same three keys in a cache with room for two.
pub(crate) fn holds_and_evicts() {
    let alive = Arc::new(AtomicUsize::new(0));
    let options = CacheOptions { num_shard_bits: 0, estimated_entry_charge: 1, ..CacheOptions::new(20) };
    let cache: Arc<Cache<Tracked>> = Arc::new(Cache::new(&options));
    let threads: Vec<_> = (0..3u64)
        .map(|me| {
            let (cache, alive) = (Arc::clone(&cache), Arc::clone(&alive));
            thread::spawn("cache", move || {
                let mut held = None;
                for round in 0..3 {
                    let number = (me + round) % 3;
                    let key = CacheKey::new(7, number);
                    match cache.lookup(&key) {
                        Some(value) => {
                            assert_eq!(value.number, number);
                            held = Some(value);
                        }
                        None => {
                            let value = Tracked::new(number, &alive);
                            let value = cache.insert(&key, value, 10, CachePriority::Low).unwrap();
                            assert_eq!(value.number, number);
                            if me == 1 {
                                held = Some(value.clone());
                            }
                        }
                    }
                    if me == 2 {
                        cache.erase(&key);
                    }
                }
                assert!(held.as_ref().is_none_or(|value| value.number < 3));
                held
            })
            .unwrap()
        })
        .collect();
    let held: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert!(held.iter().flatten().all(|value| value.number < 3));
    drop(held);
    assert_eq!(cache.pinned_usage_bytes(), 0);
    drop(cache.insert(&CacheKey::new(7, 3), Tracked::new(3, &alive), 10, CachePriority::Low).unwrap());
    assert!(cache.usage_bytes() <= 20, "nothing is referred to, so that an insertion makes room");
    assert_eq!(cache.usage_bytes(), 10 * cache.len());
    assert_eq!(alive.load(Ordering::SeqCst), cache.len());
    drop(cache);
    assert_eq!(alive.load(Ordering::SeqCst), 0, "every value is dropped once");
}
