//! What writers of one database did, and the `dbstats` report about it.
//!
//! Leaders of write groups count under the lock of the log, which they hold anyway; the report is a function of the sums and
//! of the time.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::numbers::{GB, MB, count_text, fixed_duration_text};

macro_rules! db_counters {
    ($($(#[$doc:meta])+ $field:ident,)*) => {
        /// Sums of the whole database at one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct DbCounters {
            $($(#[$doc])+ pub $field: u64,)*
        }

        impl DbCounters {
            fn since(self, earlier: Self) -> Self {
                Self { $($field: self.$field.saturating_sub(earlier.$field),)* }
            }
        }
    };
}

db_counters! {
    /// Bytes written to WALs.
    wal_bytes,
    /// Syncs of WALs.
    wal_syncs,
    /// Bytes of batches.
    bytes_written,
    /// Keys written.
    keys_written,
    /// Writes done by the leader of their group.
    writes_by_other,
    /// Writes that led a group.
    writes_by_self,
    /// Writes with a WAL.
    writes_with_wal,
    /// Microseconds that writes were slowed down or stopped.
    stall_micros,
    /// Stops by the write buffer manager.
    write_buffer_manager_stops,
}

/// What happened in a database since it was opened.
#[derive(Clone, Debug, Default)]
pub struct DbStats {
    /// The sums so far.
    pub counters: DbCounters,
    started_micros: u64,
    /// The sums at the beginning of the interval, and when that was.
    baseline: (DbCounters, u64),
}

impl DbStats {
    /// Empty sums of a database that was opened at this time.
    pub fn new(now_micros: u64) -> Self {
        let baseline = (DbCounters::default(), now_micros);
        Self { counters: DbCounters::default(), started_micros: now_micros, baseline }
    }

    /// Starts from nothing again.
    pub fn reset(&mut self, now_micros: u64) {
        *self = Self::new(now_micros);
    }

    /// The text of `rocksdb.dbstats`, after which a new interval begins.
    pub fn text(&mut self, now_micros: u64) -> String {
        let total = self.counters;
        let (earlier, interval_start) = std::mem::replace(&mut self.baseline, (total, now_micros));
        let seconds = |since: u64| now_micros.saturating_sub(since) as f64 / 1e6;
        let (up, interval_up) = (seconds(self.started_micros), seconds(interval_start));
        let mut text = format!("\n** DB Stats **\nUptime(secs): {up:.1} total, {interval_up:.1} interval\n");
        // Writing to a string cannot fail.
        let _ = total.write(&mut text, "Cumulative", up, |bytes| format!("{:.2} GB", bytes as f64 / GB));
        let interval = total.since(earlier);
        let _ = interval.write(&mut text, "Interval", interval_up, |bytes| format!("{:.2} MB", bytes as f64 / MB));
        text.push_str(&self.stall_text());
        text
    }

    /// The map of `rocksdb.dbstats`.
    pub fn map(&self, now_micros: u64) -> BTreeMap<String, String> {
        let total = self.counters;
        let mut map = self.stall_map();
        for (name, value) in [
            ("db.wal_bytes_written", total.wal_bytes),
            ("db.wal_syncs", total.wal_syncs),
            ("db.user_bytes_written", total.bytes_written),
            ("db.user_keys_written", total.keys_written),
            ("db.user_writes_by_other", total.writes_by_other),
            ("db.user_writes_by_self", total.writes_by_self),
            ("db.user_writes_with_wal", total.writes_with_wal),
            ("db.user_write_stall_micros", total.stall_micros),
        ] {
            map.insert(name.into(), value.to_string());
        }
        let up = now_micros.saturating_sub(self.started_micros) as f64 / 1e6;
        map.insert("db.uptime".into(), format!("{up:.6}"));
        map
    }

    /// The text of `rocksdb.db-write-stall-stats`.
    pub fn stall_text(&self) -> String {
        let stops = self.counters.write_buffer_manager_stops;
        format!("Write Stall (count): write-buffer-manager-limit-stops: {stops}\n")
    }

    /// The map of `rocksdb.db-write-stall-stats`.
    pub fn stall_map(&self) -> BTreeMap<String, String> {
        let stops = self.counters.write_buffer_manager_stops;
        BTreeMap::from([("write-buffer-manager-limit-stops".into(), stops.to_string())])
    }
}

impl DbCounters {
    fn write(&self, text: &mut String, name: &str, seconds: f64, ingested: impl Fn(u64) -> String) -> std::fmt::Result {
        let seconds = seconds.max(0.001);
        let rate = |bytes: u64| bytes as f64 / MB / seconds;
        let (groups, writes) = (self.writes_by_self, self.writes_by_self + self.writes_by_other);
        let count = |count: u64| count_text(i64::try_from(count).unwrap_or(i64::MAX));
        write!(text, "{name} writes: {} writes, {} keys, ", count(writes), count(self.keys_written))?;
        write!(text, "{} commit groups, ", count(groups))?;
        write!(text, "{:.1} writes per commit group, ", writes as f64 / groups.max(1) as f64)?;
        writeln!(text, "ingest: {}, {:.2} MB/s", ingested(self.bytes_written), rate(self.bytes_written))?;
        write!(text, "{name} WAL: {} writes, {} syncs, ", count(self.writes_with_wal), count(self.wal_syncs))?;
        write!(text, "{:.2} writes per sync, ", self.writes_with_wal as f64 / self.wal_syncs.max(1) as f64)?;
        writeln!(text, "written: {:.2} GB, {:.2} MB/s", self.wal_bytes as f64 / GB, rate(self.wal_bytes))?;
        let percent = self.stall_micros as f64 / 1e4 / seconds;
        writeln!(text, "{name} stall: {}, {percent:.1} percent", fixed_duration_text(self.stall_micros))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_is_rocksdbs() {
        let mut stats = DbStats::new(0);
        stats.counters = DbCounters {
            writes_by_self: 24_000,
            keys_written: 24_000,
            writes_with_wal: 24_000,
            bytes_written: 3_743_000,
            wal_bytes: 3_743_000,
            stall_micros: 557_000,
            ..DbCounters::default()
        };
        assert_eq!(
            stats.text(1_693_000),
            "\n** DB Stats **\nUptime(secs): 1.7 total, 1.7 interval\n\
             Cumulative writes: 24K writes, 24K keys, 24K commit groups, 1.0 writes per commit group, ingest: 0.00 GB, 2.11 MB/s\n\
             Cumulative WAL: 24K writes, 0 syncs, 24000.00 writes per sync, written: 0.00 GB, 2.11 MB/s\n\
             Cumulative stall: 00:00:0.557 H:M:S, 32.9 percent\n\
             Interval writes: 24K writes, 24K keys, 24K commit groups, 1.0 writes per commit group, ingest: 3.57 MB, 2.11 MB/s\n\
             Interval WAL: 24K writes, 0 syncs, 24000.00 writes per sync, written: 0.00 GB, 2.11 MB/s\n\
             Interval stall: 00:00:0.557 H:M:S, 32.9 percent\n\
             Write Stall (count): write-buffer-manager-limit-stops: 0\n"
        );
        assert!(stats.text(2_693_000).contains("Uptime(secs): 2.7 total, 1.0 interval\n"));
        let map = stats.map(2_000_000);
        assert_eq!(map.get("db.uptime").map(String::as_str), Some("2.000000"));
        assert_eq!(map.get("db.user_writes_by_self").map(String::as_str), Some("24000"));
        stats.reset(5);
        assert_eq!(stats.counters, DbCounters::default());
    }
}
