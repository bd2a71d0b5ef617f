//! What compactions, flushes and stalls of one column family did, and the `cfstats` report about it.
//!
//! Jobs add a [`CompactionStats`] when they end; the write controller counts stalls. The report is a pure function of these
//! sums, of the present shape of the tree and of the time. The sums live under the database mutex.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::{AddAssign, Sub};

use super::numbers::{GB, MB, bytes_text, count_text};

macro_rules! sums {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$doc:meta])+ $field:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$doc])+ pub $field: u64,)*
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                $(self.$field = self.$field.wrapping_add(other.$field);)*
            }
        }

        impl Sub for $name {
            type Output = Self;

            fn sub(self, other: Self) -> Self {
                Self { $($field: self.$field.saturating_sub(other.$field),)* }
            }
        }
    };
}

sums! {
    /// What compactions (or flushes) into one level did, added up.
    pub struct CompactionStats {
        /// Wall time in microseconds.
        micros,
        /// Processor time in microseconds.
        cpu_micros,
        /// Bytes read from levels above the output level.
        bytes_read_non_output,
        /// Bytes read from the output level.
        bytes_read_output,
        /// Bytes read from blob files.
        bytes_read_blob,
        /// Bytes written to tables.
        bytes_written,
        /// Bytes written to tables before compression.
        bytes_written_pre_comp,
        /// Bytes written to blob files.
        bytes_written_blob,
        /// Bytes of files that were moved without rewriting.
        bytes_moved,
        /// Entries read.
        num_input_records,
        /// Entries dropped.
        num_dropped_records,
        /// Files read.
        num_input_files,
        /// Tables written.
        num_output_files,
        /// Number of compactions.
        count,
    }
}

impl CompactionStats {
    fn bytes_read(&self) -> u64 {
        self.bytes_read_non_output.wrapping_add(self.bytes_read_output).wrapping_add(self.bytes_read_blob)
    }

    fn all_bytes_written(&self) -> u64 {
        self.bytes_written.wrapping_add(self.bytes_written_blob)
    }
}

sums! {
    /// How often a re-evaluation of the write stall conditions found which state and cause.
    pub struct StallCounts {
        /// Delays because of level 0 while a compaction of level 0 runs.
        l0_delays_with_ongoing_compaction,
        /// Stops because of level 0 while a compaction of level 0 runs.
        l0_stops_with_ongoing_compaction,
        /// Delays because of level 0.
        l0_delays,
        /// Stops because of level 0.
        l0_stops,
        /// Delays because of memtables.
        memtable_delays,
        /// Stops because of memtables.
        memtable_stops,
        /// Delays because of compaction debt.
        pending_compaction_bytes_delays,
        /// Stops because of compaction debt.
        pending_compaction_bytes_stops,
    }
}

impl StallCounts {
    /// Delays of any cause.
    pub fn total_delays(&self) -> u64 {
        self.l0_delays + self.memtable_delays + self.pending_compaction_bytes_delays
    }

    /// Stops of any cause.
    pub fn total_stops(&self) -> u64 {
        self.l0_stops + self.memtable_stops + self.pending_compaction_bytes_stops
    }

    fn entries(&self) -> [(&'static str, u64); 10] {
        [
            ("cf-l0-file-count-limit-delays-with-ongoing-compaction", self.l0_delays_with_ongoing_compaction),
            ("cf-l0-file-count-limit-stops-with-ongoing-compaction", self.l0_stops_with_ongoing_compaction),
            ("l0-file-count-limit-delays", self.l0_delays),
            ("l0-file-count-limit-stops", self.l0_stops),
            ("memtable-limit-delays", self.memtable_delays),
            ("memtable-limit-stops", self.memtable_stops),
            ("pending-compaction-bytes-delays", self.pending_compaction_bytes_delays),
            ("pending-compaction-bytes-stops", self.pending_compaction_bytes_stops),
            ("total-delays", self.total_delays()),
            ("total-stops", self.total_stops()),
        ]
    }

    /// The counts by name.
    pub fn map(&self) -> BTreeMap<String, String> {
        self.entries().into_iter().map(|(name, count)| (name.to_owned(), count.to_string())).collect()
    }

    /// One line with the counts.
    pub fn text(&self) -> String {
        let entries: Vec<String> = self.entries().iter().map(|(name, count)| format!("{name}: {count}")).collect();
        format!("Write Stall (count): {}\n", entries.join(", "))
    }
}

/// Which pool of threads worked; the order of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum JobPriority {
    /// Compactions into the bottommost level.
    Bottom = 0,
    /// Other compactions.
    Low = 1,
    /// Flushes.
    High = 2,
    /// The user's threads, as at recovery.
    User = 3,
}

const PRIORITY_NAMES: [&str; 4] = ["Bottom", "Low", "High", "User"];

sums! {
    /// What came into the column family from above.
    pub struct IngestStats {
        /// Bytes of tables and blob files that flushes wrote.
        bytes_flushed,
        /// Bytes of external files.
        bytes_ingested,
        /// External files.
        files_ingested,
        /// External files that went to level 0.
        level0_files_ingested,
        /// Keys in external files.
        keys_ingested,
    }
}

/// The sums at the beginning of an interval.
#[derive(Clone, Copy, Debug, Default)]
struct Baseline {
    compactions: CompactionStats,
    ingest: IngestStats,
    stalls: StallCounts,
    at_micros: u64,
}

/// What happened in one column family since it was opened.
#[derive(Clone, Debug)]
pub struct ColumnFamilyStats {
    levels: Vec<CompactionStats>,
    priorities: [CompactionStats; 4],
    /// What came in from above.
    pub ingest: IngestStats,
    /// How often writes stalled.
    pub stalls: StallCounts,
    started_micros: u64,
    baseline: Baseline,
    /// How many times in a row the periodic report found nothing new.
    unchanged_reports: u32,
}

/// The present shape of a level.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LevelShape {
    /// Tables.
    pub files: usize,
    /// Tables that are being compacted.
    pub files_being_compacted: usize,
    /// Bytes of the tables.
    pub size_bytes: u64,
    /// The compaction score; 0 where there is none.
    pub score: f64,
}

/// The present blob files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlobShape {
    /// Blob files.
    pub files: usize,
    /// Their bytes.
    pub total_bytes: u64,
    /// Bytes of garbage in them.
    pub garbage_bytes: u64,
}

impl BlobShape {
    /// By how much garbage enlarges the blob files.
    pub fn space_amplification(&self) -> f64 {
        match self.total_bytes.checked_sub(self.garbage_bytes) {
            None | Some(0) => 0.0,
            Some(live) => self.total_bytes as f64 / live as f64,
        }
    }

    /// The text of `rocksdb.blob-stats`.
    pub fn text(&self) -> String {
        format!(
            "Number of blob files: {}\nTotal size of blob files: {}\nTotal size of garbage in blob files: {}\n\
             Blob file space amplification: {}\n",
            self.files,
            self.total_bytes,
            self.garbage_bytes,
            super::numbers::general_text(self.space_amplification(), 6),
        )
    }
}

/// The present shape of a column family.
#[derive(Clone, Debug, Default)]
pub struct ColumnFamilyShape {
    /// Its name.
    pub name: String,
    /// Its levels.
    pub levels: Vec<LevelShape>,
    /// Its blob files.
    pub blobs: BlobShape,
    /// Bytes that compactions have to rewrite until the tree has its shape.
    pub pending_compaction_bytes: u64,
}

/// One row of the compaction table.
struct Row {
    name: String,
    shape: LevelShape,
    write_amplification: f64,
    stats: CompactionStats,
}

impl Row {
    fn new(name: impl Into<String>, shape: LevelShape, input_bytes: u64, stats: CompactionStats) -> Self {
        let write_amplification =
            if input_bytes == 0 { 0.0 } else { stats.all_bytes_written() as f64 / input_bytes as f64 };
        Self { name: name.into(), shape, write_amplification, stats }
    }

    fn seconds(&self) -> f64 {
        self.stats.micros as f64 / 1e6
    }

    fn rate_seconds(&self) -> f64 {
        (self.stats.micros + 1) as f64 / 1e6
    }

    fn new_bytes(&self) -> f64 {
        self.stats.bytes_written as f64 - self.stats.bytes_read_output as f64
    }

    fn average_seconds(&self) -> f64 {
        if self.stats.count == 0 { 0.0 } else { self.seconds() / self.stats.count as f64 }
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let (shape, stats) = (&self.shape, &self.stats);
        let gb = |bytes: u64| bytes as f64 / GB;
        write!(text, "{:>4} {:>6}/{:<3} ", self.name, shape.files, shape.files_being_compacted)?;
        write!(text, "{:>10} {:>5.1} ", bytes_text(shape.size_bytes), shape.score)?;
        write!(text, "{:>8.1} {:>7.1} ", gb(stats.bytes_read()), gb(stats.bytes_read_non_output))?;
        write!(text, "{:>8.1} {:>9.1} ", gb(stats.bytes_read_output), gb(stats.bytes_written))?;
        write!(text, "{:>9.1} {:>8.1} ", gb(stats.bytes_written_pre_comp), self.new_bytes() / GB)?;
        write!(text, "{:>9.1} {:>5.1} ", gb(stats.bytes_moved), self.write_amplification)?;
        write!(text, "{:>8.1} ", stats.bytes_read() as f64 / MB / self.rate_seconds())?;
        write!(text, "{:>8.1} ", stats.all_bytes_written() as f64 / MB / self.rate_seconds())?;
        write!(text, "{:>9.2} {:>17.2} ", self.seconds(), stats.cpu_micros as f64 / 1e6)?;
        write!(text, "{:>9} {:>8.3} ", stats.count, self.average_seconds())?;
        write!(text, "{:>7} ", count_text(stats.num_input_records as i64))?;
        write!(text, "{:>6} ", count_text(stats.num_dropped_records as i64))?;
        writeln!(text, "{:>9.1} {:>9.1}", gb(stats.bytes_read_blob), gb(stats.bytes_written_blob))
    }

    fn entries(&self) -> [(&'static str, f64); 22] {
        let (shape, stats) = (&self.shape, &self.stats);
        let gb = |bytes: u64| bytes as f64 / GB;
        [
            ("NumFiles", shape.files as f64),
            ("CompactedFiles", shape.files_being_compacted as f64),
            ("SizeBytes", shape.size_bytes as f64),
            ("Score", shape.score),
            ("ReadGB", gb(stats.bytes_read())),
            ("RnGB", gb(stats.bytes_read_non_output)),
            ("Rnp1GB", gb(stats.bytes_read_output)),
            ("WriteGB", gb(stats.bytes_written)),
            ("WPreCompGB", gb(stats.bytes_written_pre_comp)),
            ("WnewGB", self.new_bytes() / GB),
            ("MovedGB", gb(stats.bytes_moved)),
            ("WriteAmp", self.write_amplification),
            ("ReadMBps", stats.bytes_read() as f64 / MB / self.rate_seconds()),
            ("WriteMBps", stats.all_bytes_written() as f64 / MB / self.rate_seconds()),
            ("CompSec", self.seconds()),
            ("CompMergeCPU", stats.cpu_micros as f64 / 1e6),
            ("CompCount", stats.count as f64),
            ("AvgSec", self.average_seconds()),
            ("KeyIn", stats.num_input_records as f64),
            ("KeyDrop", stats.num_dropped_records as f64),
            ("RblobGB", gb(stats.bytes_read_blob)),
            ("WblobGB", gb(stats.bytes_written_blob)),
        ]
    }
}

const COLUMNS: &str = "    Files   Size     Score Read(GB)  Rn(GB) Rnp1(GB) Write(GB) WPreComp(GB) Wnew(GB) Moved(GB) W-Amp \
    Rd(MB/s) Wr(MB/s) Comp(sec) CompMergeCPU(sec) Comp(cnt) Avg(sec) KeyIn KeyDrop Rblob(GB) Wblob(GB)";

fn write_header(text: &mut String, family: &str, group: &str) -> std::fmt::Result {
    let header = format!("{group}{COLUMNS}");
    writeln!(text, "\n** Compaction Stats [{family}] **\n{header}\n{}", "-".repeat(header.len() + 1))
}

impl ColumnFamilyStats {
    /// Empty sums of a column family with so many levels, opened at this time.
    pub fn new(num_levels: usize, now_micros: u64) -> Self {
        Self {
            levels: vec![CompactionStats::default(); num_levels],
            priorities: Default::default(),
            ingest: IngestStats::default(),
            stalls: StallCounts::default(),
            started_micros: now_micros,
            baseline: Baseline { at_micros: now_micros, ..Baseline::default() },
            unchanged_reports: 0,
        }
    }

    /// Starts from nothing again.
    pub fn reset(&mut self, now_micros: u64) {
        *self = Self::new(self.levels.len(), now_micros);
    }

    /// Adds a compaction, or a flush, into `output_level`.
    pub fn add_compaction(&mut self, output_level: usize, priority: JobPriority, stats: CompactionStats) {
        if output_level >= self.levels.len() {
            self.levels.resize(output_level + 1, CompactionStats::default());
        }
        self.levels[output_level] += stats;
        self.priorities[priority as usize] += stats;
    }

    /// Adds files that were moved into `output_level` without rewriting.
    pub fn add_moved(&mut self, output_level: usize, bytes: u64) {
        if output_level >= self.levels.len() {
            self.levels.resize(output_level + 1, CompactionStats::default());
        }
        self.levels[output_level].bytes_moved += bytes;
    }

    /// What happened on a level so far.
    pub fn level(&self, level: usize) -> CompactionStats {
        self.levels.get(level).copied().unwrap_or_default()
    }

    fn sum(&self) -> CompactionStats {
        let mut sum = CompactionStats::default();
        self.levels.iter().for_each(|level| sum += *level);
        sum
    }

    fn level_rows(&self, shape: &ColumnFamilyShape) -> Vec<Row> {
        let came_in = self.ingest.bytes_flushed + self.ingest.bytes_ingested;
        let levels = self.levels.len().max(shape.levels.len());
        let mut rows = Vec::new();
        let mut all = LevelShape::default();
        for level in 0..levels {
            let (stats, shape) = (self.level(level), shape.levels.get(level).copied().unwrap_or_default());
            all.files += shape.files;
            all.files_being_compacted += shape.files_being_compacted;
            all.size_bytes += shape.size_bytes;
            if shape.files > 0 || stats.micros > 0 {
                let input = if level == 0 { came_in } else { stats.bytes_read_non_output + stats.bytes_read_blob };
                rows.push(Row::new(format!("L{level}"), shape, input, stats));
            }
        }
        rows.push(Row::new("Sum", all, came_in, self.sum()));
        rows
    }

    /// The text of `rocksdb.cfstats-no-file-histogram`.
    pub fn text(&self, shape: &ColumnFamilyShape, now_micros: u64) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_tables(&mut text, shape);
        let _ = self.write_totals(&mut text, shape, now_micros);
        text
    }

    fn write_tables(&self, text: &mut String, shape: &ColumnFamilyShape) -> std::fmt::Result {
        write_header(text, &shape.name, "Level")?;
        for row in self.level_rows(shape) {
            row.write(text)?;
        }
        let ingest = self.ingest - self.baseline.ingest;
        let came_in = ingest.bytes_flushed + ingest.bytes_ingested + 1;
        let interval = self.sum() - self.baseline.compactions;
        Row::new("Int", LevelShape::default(), came_in, interval).write(text)?;
        write_header(text, &shape.name, "Priority")?;
        for (name, stats) in PRIORITY_NAMES.iter().zip(self.priorities).filter(|(_, stats)| stats.micros > 0) {
            Row::new(*name, LevelShape::default(), 0, stats).write(text)?;
        }
        Ok(())
    }

    fn write_totals(&self, text: &mut String, shape: &ColumnFamilyShape, now_micros: u64) -> std::fmt::Result {
        let gb = |bytes: u64| bytes as f64 / GB;
        let seconds = |since: u64| now_micros.saturating_sub(since) as f64 / 1e6;
        let (up, interval_up) = (seconds(self.started_micros), seconds(self.baseline.at_micros));
        let (blobs, ingest) = (&shape.blobs, self.ingest - self.baseline.ingest);
        write!(text, "\nBlob file count: {}, total size: {:.1} GB, ", blobs.files, gb(blobs.total_bytes))?;
        let amplification = blobs.space_amplification();
        write!(text, "garbage size: {:.1} GB, space amp: {amplification:.1}\n\n", gb(blobs.garbage_bytes))?;
        writeln!(text, "Uptime(secs): {up:.1} total, {interval_up:.1} interval")?;
        let line =
            |name: &str, total: String, interval: String| format!("{name}: cumulative {total}, interval {interval}\n");
        let three = |bytes: u64| format!("{:.3}", gb(bytes));
        let total = self.ingest;
        text.push_str(&line("Flush(GB)", three(total.bytes_flushed), three(ingest.bytes_flushed)));
        text.push_str(&line("AddFile(GB)", three(total.bytes_ingested), three(ingest.bytes_ingested)));
        for (name, total, interval) in [
            ("AddFile(Total Files)", total.files_ingested, ingest.files_ingested),
            ("AddFile(L0 Files)", total.level0_files_ingested, ingest.level0_files_ingested),
            ("AddFile(Keys)", total.keys_ingested, ingest.keys_ingested),
        ] {
            text.push_str(&line(name, total.to_string(), interval.to_string()));
        }
        let mut compaction = |name: &str, stats: CompactionStats, seconds: f64| {
            let rate = |bytes: u64| bytes as f64 / MB / seconds.max(0.001);
            let (written, read) = (stats.all_bytes_written(), stats.bytes_read());
            write!(text, "{name} compaction: {:.2} GB write, {:.2} MB/s write, ", gb(written), rate(written))?;
            write!(text, "{:.2} GB read, {:.2} MB/s read, ", gb(read), rate(read))?;
            writeln!(text, "{:.1} seconds", stats.micros as f64 / 1e6)
        };
        let sum = self.sum();
        compaction("Cumulative", sum, up)?;
        compaction("Interval", sum - self.baseline.compactions, interval_up)?;
        writeln!(text, "Estimated pending compaction bytes: {}", shape.pending_compaction_bytes)?;
        text.push_str(&self.stalls.text());
        if self.stalls.total_delays() + self.stalls.total_stops() > 0 {
            let interval = self.stalls - self.baseline.stalls;
            writeln!(text, "interval: {} total count", interval.total_delays() + interval.total_stops())?;
        }
        Ok(())
    }

    /// The map of `rocksdb.cfstats`.
    pub fn map(&self, shape: &ColumnFamilyShape) -> BTreeMap<String, String> {
        let mut map = self.stalls.map();
        for row in self.level_rows(shape) {
            for (name, value) in row.entries() {
                map.insert(format!("compaction.{}.{name}", row.name), format!("{value:.6}"));
            }
        }
        map
    }

    /// The text of `rocksdb.cfstats.periodic`, after which a new interval begins. Empty when nothing happened since the last
    /// one, except for the first such time and every eighth after it.
    pub fn periodic_text(&mut self, shape: &ColumnFamilyShape, now_micros: u64) -> String {
        let unchanged = self.sum() == self.baseline.compactions
            && self.ingest == self.baseline.ingest
            && self.stalls == self.baseline.stalls;
        self.unchanged_reports = if unchanged { self.unchanged_reports + 1 } else { 0 };
        if self.unchanged_reports > 0 && self.unchanged_reports % 8 != 1 {
            return String::new();
        }
        let text = self.text(shape, now_micros);
        self.begin_interval(now_micros);
        text
    }

    fn begin_interval(&mut self, now_micros: u64) {
        self.baseline =
            Baseline { compactions: self.sum(), ingest: self.ingest, stalls: self.stalls, at_micros: now_micros };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (ColumnFamilyStats, ColumnFamilyShape) {
        let mut stats = ColumnFamilyStats::new(7, 0);
        let flush = CompactionStats {
            micros: 91_000,
            cpu_micros: 42_000,
            bytes_written: 1_730_000,
            num_input_records: 23_530,
            count: 31,
            ..CompactionStats::default()
        };
        stats.add_compaction(0, JobPriority::High, flush);
        let compaction = CompactionStats {
            micros: 80_000,
            cpu_micros: 70_000,
            bytes_read_non_output: 424_000,
            bytes_read_output: 835_000,
            bytes_written: 983_000,
            num_input_records: 75_700,
            num_dropped_records: 10_300,
            count: 8,
            ..CompactionStats::default()
        };
        stats.add_compaction(6, JobPriority::Low, compaction);
        stats.ingest.bytes_flushed = 1_730_000;
        stats.stalls.memtable_stops = 10;
        let level = |size_bytes, score| LevelShape { files: 1, files_being_compacted: 0, size_bytes, score };
        let mut levels = vec![LevelShape::default(); 7];
        levels[0] = level(27_177, 0.25);
        levels[6] = level(123_453, 0.0);
        let shape = ColumnFamilyShape {
            name: "default".into(),
            levels,
            blobs: BlobShape { files: 11, total_bytes: 660_579, garbage_bytes: 51_697 },
            pending_compaction_bytes: 0,
        };
        (stats, shape)
    }

    #[test]
    fn the_table_has_rocksdbs_layout() {
        let (stats, shape) = sample();
        let text = stats.text(&shape, 700_000);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "");
        assert_eq!(lines[1], "** Compaction Stats [default] **");
        assert!(
            lines[2].starts_with(
                "Level    Files   Size     Score Read(GB)  Rn(GB) Rnp1(GB) Write(GB) WPreComp(GB) Wnew(GB)"
            )
        );
        assert_eq!(lines[3], "-".repeat(lines[2].len() + 1));
        assert_eq!(
            lines[4],
            "  L0      1/0     26.54 KB   0.2      0.0     0.0      0.0       0.0       0.0      0.0       0.0   1.0      0.0     18.1      0.09              0.04        31    0.003     23K      0       0.0       0.0"
        );
        assert!(lines[5].starts_with("  L6      1/0    120.56 KB   0.0      0.0"), "{}", lines[5]);
        assert!(lines[6].starts_with(" Sum      2/0    147.10 KB   0.0"), "{}", lines[6]);
        assert!(lines[7].starts_with(" Int      0/0      0.00 KB   0.0"), "{}", lines[7]);
        assert!(lines[10].starts_with("Priority    Files   Size "));
        assert_eq!(lines[11].len(), lines[10].len() + 1);
        assert!(lines[12].starts_with(" Low      0/0 ") && lines[13].starts_with("High      0/0 "));
        assert_eq!(lines[15], "Blob file count: 11, total size: 0.0 GB, garbage size: 0.0 GB, space amp: 1.1");
        assert_eq!(lines[17], "Uptime(secs): 0.7 total, 0.7 interval");
        assert_eq!(lines[18], "Flush(GB): cumulative 0.002, interval 0.002");
        assert_eq!(lines[22], "AddFile(Keys): cumulative 0, interval 0");
        assert_eq!(
            lines[23],
            "Cumulative compaction: 0.00 GB write, 3.70 MB/s write, 0.00 GB read, 1.72 MB/s read, 0.2 seconds"
        );
        assert_eq!(lines[25], "Estimated pending compaction bytes: 0");
        assert!(
            lines[26].starts_with("Write Stall (count): cf-l0-file-count-limit-delays-with-ongoing-compaction: 0, ")
        );
        assert!(lines[26].ends_with("total-delays: 0, total-stops: 10"));
        assert_eq!(lines[27], "interval: 10 total count");
        assert_eq!(lines.len(), 28);
    }

    #[test]
    fn the_map_has_rocksdbs_names() {
        let (stats, shape) = sample();
        let map = stats.map(&shape);
        assert_eq!(map.get("compaction.L0.NumFiles").map(String::as_str), Some("1.000000"));
        assert_eq!(map.get("compaction.Sum.CompCount").map(String::as_str), Some("39.000000"));
        assert_eq!(map.get("memtable-limit-stops").map(String::as_str), Some("10"));
        assert_eq!(map.len(), 3 * 22 + 10);
    }

    #[test]
    fn periods_without_news_are_silent_but_every_eighth() {
        let (mut stats, shape) = sample();
        let printed: Vec<bool> = (0..12).map(|_| !stats.periodic_text(&shape, 900_000).is_empty()).collect();
        let expected = [true, true, false, false, false, false, false, false, false, true, false, false];
        assert_eq!(printed, expected);
        stats.ingest.bytes_flushed += 1;
        assert!(!stats.periodic_text(&shape, 1_000_000).is_empty());
    }

    #[test]
    fn blob_stats_have_rocksdbs_text() {
        let (_, shape) = sample();
        assert_eq!(
            shape.blobs.text(),
            "Number of blob files: 11\nTotal size of blob files: 660579\nTotal size of garbage in blob files: 51697\n\
             Blob file space amplification: 1.0849\n"
        );
    }
}
