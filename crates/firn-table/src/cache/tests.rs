//! One thread at a time, then many.

use super::*;
use firn_env::sync::atomic::AtomicUsize;
use firn_env::{Clock, SystemClock};

fn cache<V: Send + Sync>(capacity: usize, shard_bits: i32) -> Cache<V> {
    Cache::new(&CacheOptions { num_shard_bits: shard_bits, estimated_entry_charge: 1, ..CacheOptions::new(capacity) })
}

fn key(i: u64) -> CacheKey {
    CacheKey::new(i / 100 + 1, i % 100)
}

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

#[test]
fn finds_what_was_inserted() {
    let cache = cache(1000, 0);
    assert!(cache.lookup(&key(1)).is_none() && cache.is_empty());
    let one = cache.insert(&key(1), "one".to_string(), 10, CachePriority::Low).unwrap();
    drop(cache.insert(&key(2), "two".to_string(), 20, CachePriority::High).unwrap());
    assert_eq!((&**one, one.charge_bytes()), ("one", 10));
    assert_eq!(**cache.lookup(&key(2)).unwrap(), *"two");
    assert_eq!((cache.len(), cache.usage_bytes(), cache.pinned_usage_bytes()), (2, 30, 10));
    let mut seen = Vec::new();
    cache.for_each(|key, value, charge| seen.push((key, value.clone(), charge)));
    seen.sort_by_key(|entry| entry.2);
    assert_eq!(seen, [(key(1), "one".to_string(), 10), (key(2), "two".to_string(), 20)]);
    drop(one);
    assert_eq!(cache.pinned_usage_bytes(), 0);
}

#[test]
fn a_new_value_replaces_the_old_one_which_lives_while_referred_to() {
    let cache = cache(1000, 0);
    let old = cache.insert(&key(1), 1, 10, CachePriority::Low).unwrap();
    let new = cache.insert(&key(1), 2, 10, CachePriority::Low).unwrap();
    assert_eq!((*old, *new, *cache.lookup(&key(1)).unwrap()), (1, 2, 2));
    assert_eq!((cache.len(), cache.usage_bytes()), (2, 20));
    drop(old);
    assert_eq!((cache.len(), cache.usage_bytes()), (1, 10));
    let again = new.clone();
    cache.erase(&key(1));
    cache.erase(&key(1));
    assert!(cache.lookup(&key(1)).is_none());
    drop(new);
    assert_eq!((*again, cache.len()), (2, 1));
    drop(again);
    assert_eq!((cache.len(), cache.usage_bytes()), (0, 0));
}

#[test]
fn stays_within_its_capacity_and_keeps_what_is_used() {
    for shard_bits in [0, 3] {
        let cache = cache(10_000, shard_bits);
        for i in 0..50 {
            drop(cache.insert(&key(i), i, 100, CachePriority::Low).unwrap());
        }
        for i in 1000..if cfg!(miri) { 1120 } else { 3000 } {
            for hot in 0..50 {
                drop(cache.lookup(&key(hot)));
            }
            drop(cache.insert(&key(i), i, 100, CachePriority::Bottom).unwrap());
            assert!(cache.usage_bytes() <= 10_000);
        }
        let kept = (0..50).filter(|&i| cache.lookup(&key(i)).is_some()).count();
        assert!(kept >= 45, "{kept} of 50 used values are left after a scan");
    }
}

#[test]
fn pinned_values_exceed_a_soft_limit_and_not_a_strict_one() {
    let cache = cache(100, 0);
    let pinned: Vec<_> = (0..20).map(|i| cache.insert(&key(i), i, 10, CachePriority::Low).unwrap()).collect();
    assert_eq!((cache.usage_bytes(), cache.pinned_usage_bytes()), (200, 200));
    cache.set_strict_capacity_limit(true);
    let error = cache.insert(&key(99), 99, 10, CachePriority::Low).unwrap_err();
    assert_eq!(error.subcode(), SubCode::MemoryLimit);
    assert!(cache.charge(1).is_err());
    assert_eq!(cache.usage_bytes(), 200);
    drop(pinned);
    cache.insert(&key(99), 99, 10, CachePriority::Low).unwrap();
    assert!(cache.usage_bytes() <= 100);
}

#[test]
fn charges_count_and_make_room() {
    let cache = cache(1000, 1);
    for i in 0..100 {
        drop(cache.insert(&key(i), i, 10, CachePriority::Low).unwrap());
    }
    let charge = cache.charge(600).unwrap();
    assert_eq!(charge.bytes(), 600);
    assert!(cache.len() <= 40 && cache.usage_bytes() <= 1000);
    drop(charge);
    assert!(cache.usage_bytes() <= 400);
    assert_ne!(cache.new_unique_key(), cache.new_unique_key());
}

#[test]
fn capacity_changes_and_bulk_erasure() {
    // Slots are made for the capacity, and Miri walks slowly over many.
    let cache = cache(if cfg!(miri) { 1 << 14 } else { 1 << 20 }, 2);
    let pinned = cache.insert(&key(5000), 5000, 10, CachePriority::Low).unwrap();
    for i in 0..1000 {
        drop(cache.insert(&key(i), i, 10, CachePriority::High).unwrap());
    }
    cache.set_capacity(500);
    assert!(cache.usage_bytes() <= 500 && cache.usage_bytes() > 300);
    cache.erase_unreferenced();
    assert_eq!((cache.len(), cache.usage_bytes(), *pinned), (1, 10, 5000));
    cache.set_capacity(0);
    drop(cache.insert(&key(7), 7, 10, CachePriority::Low).unwrap());
    drop(pinned);
    cache.erase_unreferenced();
    assert!(cache.is_empty());
}

#[test]
fn grows_with_values_that_cannot_move() {
    let alive = Arc::new(AtomicUsize::new(0));
    let count = if cfg!(miri) { 500 } else { 20_000 };
    let cache = Cache::new(&CacheOptions {
        num_shard_bits: 0,
        estimated_entry_charge: usize::MAX,
        ..CacheOptions::new(usize::MAX)
    });
    let mut pinned = Vec::new();
    for i in 0..count {
        let reference = cache.insert(&key(i), Tracked::new(i, &alive), 1, CachePriority::Low).unwrap();
        if i % 7 == 0 {
            pinned.push(reference);
        }
    }
    for i in 0..count {
        assert_eq!(cache.lookup(&key(i)).map(|value| value.number), Some(i));
    }
    assert!(cache.lookup(&key(count)).is_none());
    assert_eq!(alive.load(Ordering::SeqCst), count as usize);
    drop(cache);
    assert_eq!(alive.load(Ordering::SeqCst), pinned.len());
    assert!(pinned.iter().enumerate().all(|(i, value)| value.number == 7 * i as u64));
    drop(pinned);
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}

#[test]
fn references_outlive_the_cache() {
    let alive = Arc::new(AtomicUsize::new(0));
    let cache = cache(1000, 1);
    let visible = cache.insert(&key(1), Tracked::new(1, &alive), 10, CachePriority::Low).unwrap();
    let erased = cache.insert(&key(2), Tracked::new(2, &alive), 10, CachePriority::Low).unwrap();
    drop(cache.insert(&key(3), Tracked::new(3, &alive), 10, CachePriority::Low).unwrap());
    cache.erase(&key(2));
    drop(cache);
    assert_eq!(alive.load(Ordering::SeqCst), 2);
    let (a, b) = (visible.clone(), erased.clone());
    let thread = firn_env::thread::spawn("cache-test", move || {
        assert_eq!((a.number, b.number), (1, 2));
    });
    assert_eq!((visible.number, erased.number), (1, 2));
    drop((visible, erased));
    thread.unwrap().join().unwrap();
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}

/// A small generator, so that every thread has its own sequence and a failure can be replayed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}

#[test]
fn many_threads_insert_look_up_erase_and_hold() {
    let alive = Arc::new(AtomicUsize::new(0));
    let cache = Arc::new(Cache::new(&CacheOptions {
        num_shard_bits: 1,
        estimated_entry_charge: usize::MAX,
        ..CacheOptions::new(3000)
    }));
    let rounds = if cfg!(miri) { 300 } else { 100_000 };
    let threads: Vec<_> = (0..4)
        .map(|seed| {
            let (cache, alive) = (Arc::clone(&cache), Arc::clone(&alive));
            firn_env::thread::spawn("cache-stress", move || {
                let mut random = Random(seed);
                let mut held: Vec<CacheRef<Tracked>> = Vec::new();
                for round in 0..rounds {
                    // Few keys, so that threads meet at the same ones.
                    let number = random.next() % 500;
                    match random.next() % 16 {
                        0 => cache.erase(&key(number)),
                        1..=5 => {
                            let value = Tracked::new(number, &alive);
                            held.push(cache.insert(&key(number), value, 10, CachePriority::Low).unwrap());
                        }
                        6 => held.extend(held.last().cloned()),
                        7 if round % 1000 == 0 => cache.erase_unreferenced(),
                        8 if round % 500 == 0 => cache.for_each(|at, value, charge| {
                            assert_eq!((at, charge), (key(value.number), 10));
                        }),
                        9 if round % 1000 == 0 => assert!(cache.pinned_usage_bytes() <= 100_000),
                        _ => {
                            if let Some(value) = cache.lookup(&key(number)) {
                                assert_eq!(value.number, number);
                                if random.next().is_multiple_of(4) {
                                    held.push(value);
                                }
                            }
                        }
                    }
                    if held.len() > 20 {
                        held.swap_remove(random.next() as usize % held.len());
                        held.pop();
                    }
                }
                // Some references go before the cache, some after.
                drop(cache);
                assert!(held.iter().all(|value| value.number < 500));
            })
            .unwrap()
        })
        .collect();
    drop(cache);
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(alive.load(Ordering::SeqCst), 0, "every value was dropped once");
}

#[test]
fn totals_agree_after_concurrent_use() {
    let cache = Arc::new(cache::<u64>(5000, 2));
    let rounds = if cfg!(miri) { 400 } else { 20_000 };
    let threads: Vec<_> = (0..3)
        .map(|seed| {
            let cache = Arc::clone(&cache);
            firn_env::thread::spawn("cache-totals", move || {
                let mut random = Random(seed);
                for _ in 0..rounds {
                    let number = random.next() % 2000;
                    if cache.lookup(&key(number)).is_none() {
                        drop(cache.insert(&key(number), number, 10, CachePriority::Low).unwrap());
                    }
                }
            })
            .unwrap()
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let (mut entries, mut bytes) = (0, 0);
    cache.for_each(|_, _, charge| {
        entries += 1;
        bytes += charge;
    });
    assert_eq!((cache.len(), cache.usage_bytes(), cache.pinned_usage_bytes()), (entries, bytes, 0));
    assert!(bytes <= 5000 && bytes > 4000);
    cache.erase_unreferenced();
    assert_eq!((cache.len(), cache.usage_bytes()), (0, 0));
}

/// `cargo test --release -p firn-table cache -- --ignored --nocapture` prints nanoseconds per hit.
#[test]
#[ignore = "a measurement"]
fn measure_hits() {
    let clock = SystemClock::default();
    for (entries, hot) in [(100_000u64, 1000u64), (100_000, 100_000), (1_000_000, 1_000_000)] {
        let cache = Cache::new(&CacheOptions::new(entries as usize * 4096 * 2));
        for i in 0..entries {
            drop(cache.insert(&key(i), i, 4096, CachePriority::Low).unwrap());
        }
        let mut random = Random(7);
        let keys: Vec<CacheKey> = (0..1 << 20).map(|_| key(random.next() % hot)).collect();
        let mut found = 0;
        for round in 0..3 {
            let start = clock.now_nanos();
            for key in &keys {
                found += u64::from(cache.lookup(key).is_some());
            }
            let nanos = clock.now_nanos() - start;
            if round == 2 {
                println!("{entries} entries, {hot} used: {:.1} ns per hit", nanos as f64 / keys.len() as f64);
            }
        }
        assert_eq!(found, 3 * keys.len() as u64);
    }
}

/// How many of `high` values of high priority are left after a stream of others, in a cache for 100.
fn high_values_left(high: u64, high_pri_pool_ratio: f64) -> usize {
    let options =
        CacheOptions { num_shard_bits: 0, estimated_entry_charge: 1, high_pri_pool_ratio, ..CacheOptions::new(100) };
    let cache = Cache::new(&options);
    for i in 0..high {
        drop(cache.insert(&key(i), "high", 1, CachePriority::High).unwrap());
    }
    for i in high..high + 2000 {
        drop(cache.insert(&key(i), "low", 1, CachePriority::Low).unwrap());
        assert!(cache.usage_bytes() <= 100);
    }
    (0..high).filter(|i| cache.lookup(&key(*i)).is_some()).count()
}

#[test]
fn values_of_high_priority_stay_while_they_fit_their_pool() {
    assert_eq!(high_values_left(10, 0.2), 10);
    assert_eq!(high_values_left(10, 0.0), 0);
    assert_eq!(high_values_left(90, 0.2), 20);
    // One made room for the first of the others, which then make room for each other.
    assert_eq!(high_values_left(200, 1.0), 99);
}

#[test]
fn the_pool_of_high_priority_gives_way_to_what_is_in_use() {
    let options = CacheOptions { num_shard_bits: 0, estimated_entry_charge: 1, ..CacheOptions::new(100) };
    let options = CacheOptions { strict_capacity_limit: true, ..options };
    let cache = Cache::new(&options);
    for i in 0..50 {
        drop(cache.insert(&key(i), i, 1, CachePriority::High).unwrap());
    }
    let held: Vec<_> = (50..150).map(|i| cache.insert(&key(i), i, 1, CachePriority::Low).unwrap()).collect();
    assert!(cache.insert(&key(150), 150, 1, CachePriority::Low).is_err());
    drop(held);
    for i in 0..50 {
        drop(cache.insert(&key(i), i, 1, CachePriority::High).unwrap());
    }
    assert_eq!(cache.totals.high_bytes.load(Ordering::Relaxed), 50);
    cache.erase_unreferenced();
    assert_eq!((cache.usage_bytes(), cache.totals.high_bytes.load(Ordering::Relaxed)), (0, 0));
}
