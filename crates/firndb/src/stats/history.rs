//! What the tickers did in the recent past: one entry of differences per period, within a bound of memory.
//!
//! Readings of the tickers flow in, with the time; the differences to the reading before flow out. Always true here: the
//! entries together take no more than the bound that came with the last reading, by estimate; the oldest go first.

use std::collections::{BTreeMap, VecDeque};

use super::Ticker;

/// What the tickers counted in one period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsHistoryEntry {
    /// When the period ended, in seconds since 1970.
    pub time_secs: u64,
    /// What every ticker, by name, counted in the period.
    pub tickers: BTreeMap<&'static str, u64>,
}

impl StatsHistoryEntry {
    /// Memory taken, by estimate.
    fn bytes(&self) -> usize {
        let of_ticker = |name: &&'static str| size_of::<(&str, u64)>() + name.len();
        size_of::<Self>() + self.tickers.keys().map(of_ticker).sum::<usize>()
    }
}

/// The entries, oldest first.
#[derive(Debug, Default)]
pub(crate) struct StatsHistory {
    last: Option<BTreeMap<&'static str, u64>>,
    entries: VecDeque<StatsHistoryEntry>,
    bytes: usize,
}

impl StatsHistory {
    /// Takes a reading; from the second one on there is a difference to keep. Returns how many tickers were kept, and how
    /// many old entries went.
    pub(crate) fn add(
        &mut self,
        time_secs: u64,
        reading: impl Iterator<Item = (Ticker, u64)>,
        limit_bytes: usize,
    ) -> (usize, usize) {
        let reading: BTreeMap<&'static str, u64> = reading.map(|(ticker, count)| (ticker.name(), count)).collect();
        let mut kept = 0;
        if let Some(last) = &self.last {
            // A ticker that was reset starts again.
            let difference = |(name, count): (&&'static str, &u64)| {
                (*name, count.saturating_sub(last.get(name).copied().unwrap_or(0)))
            };
            let entry = StatsHistoryEntry { time_secs, tickers: reading.iter().map(difference).collect() };
            kept = entry.tickers.len();
            self.bytes += entry.bytes();
            self.entries.push_back(entry);
        }
        self.last = Some(reading);
        let before = self.entries.len();
        while self.bytes > limit_bytes
            && let Some(oldest) = self.entries.pop_front()
        {
            self.bytes -= oldest.bytes();
        }
        (kept, before - self.entries.len())
    }

    /// The entries with `start <= time < end`, oldest first.
    pub(crate) fn between(&self, start_secs: u64, end_secs: u64) -> Vec<StatsHistoryEntry> {
        let wanted = self.entries.iter().filter(|entry| (start_secs..end_secs).contains(&entry.time_secs));
        wanted.cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(written: u64) -> impl Iterator<Item = (Ticker, u64)> {
        [(Ticker::BytesWritten, written), (Ticker::BytesRead, 7)].into_iter()
    }

    #[test]
    fn keeps_differences_between_readings_within_its_bound() {
        let mut history = StatsHistory::default();
        assert_eq!(history.add(10, reading(100), usize::MAX), (0, 0));
        assert_eq!(history.add(20, reading(130), usize::MAX), (2, 0));
        assert_eq!(history.add(30, reading(5), usize::MAX), (2, 0));
        let of = |start, end| {
            let entries = history.between(start, end);
            let written = |entry: &StatsHistoryEntry| entry.tickers[Ticker::BytesWritten.name()];
            entries.iter().map(|entry| (entry.time_secs, written(entry))).collect::<Vec<_>>()
        };
        assert_eq!(of(0, u64::MAX), [(20, 30), (30, 0)]);
        assert_eq!(of(20, 30), [(20, 30)]);
        assert_eq!(history.between(0, 31)[0].tickers[Ticker::BytesRead.name()], 0);
        let room_for_two = history.bytes;
        assert_eq!(history.add(40, reading(6), room_for_two), (2, 1));
        assert_eq!(history.between(0, u64::MAX).len(), 2);
        assert_eq!(history.add(50, reading(6), 0), (2, 3));
        assert!(history.between(0, u64::MAX).is_empty() && history.bytes == 0);
    }
}
