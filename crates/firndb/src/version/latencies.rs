//! How long reads of table files take, by level.
//!
//! Tables are opened over an observed file when there is a statistics object that measures times; every read from the file
//! (not from memory) adds its microseconds to the histogram of the level that the table was opened for and to
//! `rocksdb.sst.read.micros`.

use std::path::Path;
use std::sync::Arc;

use firn_env::sync::Mutex;
use firn_env::{AccessPattern, Clock, RandomAccessFile};
use firn_error::Result;
use firn_table::statistics::{Histogram, HistogramKind, Statistics};

/// The histograms of one column family. Thread-safe.
#[derive(Debug)]
pub struct ReadLatencies {
    clock: Arc<dyn Clock>,
    statistics: Arc<Statistics>,
    levels: Vec<Mutex<Histogram>>,
}

impl ReadLatencies {
    /// Empty histograms for so many levels.
    pub fn new(clock: Arc<dyn Clock>, statistics: Arc<Statistics>, num_levels: usize) -> Self {
        let levels = (0..num_levels).map(|_| Mutex::new(Histogram::new())).collect();
        Self { clock, statistics, levels }
    }

    /// The file of a table of `level`, with its reads measured.
    pub fn observe(self: &Arc<Self>, inner: Arc<dyn RandomAccessFile>, level: i32) -> Arc<dyn RandomAccessFile> {
        Arc::new(ObservedFile { inner, latencies: Arc::clone(self), level: usize::try_from(level).unwrap_or(0) })
    }

    /// The histograms so far, in microseconds.
    pub fn histograms(&self) -> Vec<Histogram> {
        self.levels.iter().map(|histogram| histogram.lock().clone()).collect()
    }

    fn add(&self, level: usize, micros: u64) {
        self.statistics.report_time(HistogramKind::SstReadMicros, micros);
        if let Some(histogram) = self.levels.get(level) {
            histogram.lock().add(micros);
        }
    }
}

#[derive(Debug)]
struct ObservedFile {
    inner: Arc<dyn RandomAccessFile>,
    latencies: Arc<ReadLatencies>,
    level: usize,
}

impl RandomAccessFile for ObservedFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        if !self.latencies.statistics.measures(HistogramKind::SstReadMicros) {
            return self.inner.read_at(offset, buffer);
        }
        let start = self.latencies.clock.now_nanos();
        let got = self.inner.read_at(offset, buffer);
        self.latencies.add(self.level, self.latencies.clock.now_nanos().saturating_sub(start) / 1000);
        got
    }
    fn size(&self) -> Result<u64> {
        self.inner.size()
    }
    fn path(&self) -> &Path {
        self.inner.path()
    }
    fn prefetch(&self, offset: u64, bytes: usize) -> Result<bool> {
        self.inner.prefetch(offset, bytes)
    }
    fn hint(&self, pattern: AccessPattern) {
        self.inner.hint(pattern);
    }
    fn as_mapped(&self) -> Option<&[u8]> {
        self.inner.as_mapped()
    }
    fn required_alignment(&self) -> usize {
        self.inner.required_alignment()
    }
    fn is_direct(&self) -> bool {
        self.inner.is_direct()
    }
}
