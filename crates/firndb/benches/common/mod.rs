//! What the benchmarks share: keys in a fixed random order, and the processor time of the thread as what criterion measures,
//! which a busy machine disturbs less than the clock on the wall.

use std::time::Duration;

use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{BenchmarkGroup, Criterion};

static FORMAT: WallTime = WallTime;

/// Processor time of the calling thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadTime;

fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills the structure it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

impl Measurement for ThreadTime {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        thread_time()
    }
    fn end(&self, start: Duration) -> Duration {
        thread_time() - start
    }
    fn add(&self, first: &Duration, second: &Duration) -> Duration {
        *first + *second
    }
    fn zero(&self) -> Duration {
        Duration::ZERO
    }
    fn to_f64(&self, value: &Duration) -> f64 {
        value.as_nanos() as f64
    }
    fn formatter(&self) -> &dyn ValueFormatter {
        FORMAT.formatter()
    }
}

/// Few samples, since each is a pass over hundreds of thousands of entries.
pub(crate) fn criterion() -> Criterion<ThreadTime> {
    let criterion = Criterion::default().with_measurement(ThreadTime).sample_size(10);
    criterion.warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_secs(1)).configure_from_args()
}

/// Measures `work`, each call of which is a pass of so many operations. Figures are per operation.
pub(crate) fn bench(group: &mut BenchmarkGroup<'_, ThreadTime>, name: &str, operations: u64, mut work: impl FnMut()) {
    group.bench_function(name, |bencher| {
        bencher.iter_custom(|iterations| {
            let passes = iterations.div_ceil(operations);
            let start = thread_time();
            (0..passes).for_each(|_| work());
            (thread_time() - start).mul_f64(iterations as f64 / (passes * operations) as f64)
        });
    });
}

/// The `number`-th of numbers that differ and come in no order.
pub(crate) fn shuffle(number: u64) -> u64 {
    let mut x = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^= x >> 32;
    x.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 20
}

/// A key of 16 bytes behind `prefix`; keys order as their numbers.
pub(crate) fn key(number: u64, prefix: &str) -> Vec<u8> {
    let mut key = prefix.as_bytes().to_vec();
    key.extend_from_slice(&number.to_be_bytes());
    key.resize(prefix.len() + 16, b'0');
    key
}
