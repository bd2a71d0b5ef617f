//! What one step on one store came to, as it is kept on disk and put into reports.

use serde::{Deserialize, Serialize};

use crate::measure::Timeline;

/// The figures of a step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// Operations done.
    pub operations: u64,
    /// Entries found or walked over; for puts as many as operations.
    pub entries: u64,
    /// Seconds until the last operation returned or, for steps to the end, until background work ended.
    pub seconds: f64,
    /// Seconds until background work ended.
    pub settled_seconds: f64,
    /// Processor time of the process until background work ended.
    pub user_us: i64,
    pub system_us: i64,
    /// Nanoseconds at 50, 99, 99.9, 99.99 and 100 percent; none for walks and merges.
    pub latency_ns: Option<[u64; 5]>,
    /// Quantile and nanoseconds, for plots.
    pub curve: Vec<(f64, u64)>,
    pub timeline: Timeline,
    /// The longest time in which no thread finished an operation.
    pub no_progress_ms: Option<f64>,
    /// Bytes that the process sent to the device, as the kernel counts them: made dirty or written directly, without
    /// those that were deleted before they were written back.
    pub device_bytes: i64,
    /// Bytes of table files that flushes and compactions finished, of stores with tables.
    pub table_bytes: Option<u64>,
    /// Bytes of keys and values that were put.
    pub user_bytes: u64,
    /// Bytes that the store's directory takes on disk at the end.
    pub space_bytes: u64,
    /// Bytes of keys and values that are alive at the end, as expected for random keys.
    pub live_bytes: u64,
    pub peak_memory_bytes: u64,
    /// The tree at the end.
    pub shape: String,
}

impl Outcome {
    /// Operations a second.
    pub fn speed(&self) -> f64 {
        self.operations as f64 / self.seconds
    }

    /// Seconds of processor time.
    pub fn processor_s(&self) -> f64 {
        (self.user_us + self.system_us) as f64 / 1e6
    }

    /// Microseconds of processor time for an operation.
    pub fn processor_us_per_operation(&self) -> f64 {
        (self.user_us + self.system_us) as f64 / self.operations as f64
    }

    /// Bytes sent to the device for each byte put; none where nothing was put.
    pub fn device_amplification(&self) -> Option<f64> {
        (self.user_bytes > 0).then(|| self.device_bytes as f64 / self.user_bytes as f64)
    }

    /// Bytes of tables written for each byte put: the write amplification of flushes and compactions.
    pub fn table_amplification(&self) -> Option<f64> {
        self.table_bytes.filter(|_| self.user_bytes > 0).map(|bytes| bytes as f64 / self.user_bytes as f64)
    }

    /// Bytes on disk for each live byte.
    pub fn space_amplification(&self) -> f64 {
        self.space_bytes as f64 / self.live_bytes.max(1) as f64
    }
}
