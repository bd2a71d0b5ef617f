//! What is raced: sequences of steps on one database, by name.

use serde::{Deserialize, Serialize};

use crate::config::{Compression, Config, Io};
use crate::stores::{Direction, Kind};

/// What the threads of a step do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Work {
    /// Puts of ascending keys.
    FillSequential,
    /// Puts of random keys.
    FillRandom,
    /// Puts of random keys, each synced.
    FillSync,
    /// Puts from this many ascending streams, one after the other in turn.
    Streams(u64),
    /// Gets of random keys.
    ReadRandom,
    /// Gets of this many random keys at a time.
    MultiRead(usize),
    /// A cursor to a random key and this many steps.
    Seek { nexts: usize, direction: Direction },
    /// One walk over everything.
    Scan(Direction),
    /// Reads as the inner work says, while one more thread writes random keys at this many a second.
    WhileWriting(Box<Work>, u64),
    /// Direct reads of this many bytes at random places of the largest tables, without any store: what the kernel takes.
    PlainReads(usize),
    /// The memtable written to a table.
    Flush,
    /// Everything merged into one run.
    CompactAll,
    /// Everything merged into one run in the last level but so many.
    CompactTo(u32),
    /// A level merged into the next.
    MergeDown(u32),
}

impl Work {
    /// Whether the threads of the step itself put entries.
    pub fn puts(&self) -> bool {
        matches!(self, Self::FillSequential | Self::FillRandom | Self::FillSync | Self::Streams(_))
    }
}

/// How many operations a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Count {
    /// So many in all threads together.
    Keys(u64),
    /// The race's `--reads` in each thread, divided by this.
    Reads(u64),
}

/// One line of the report, or what prepares one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Step {
    /// Its name in the report.
    pub name: String,
    /// What is done.
    pub work: Work,
    /// Threads that do it.
    pub threads: usize,
    /// How much of it.
    pub count: Count,
    /// The clock runs until no background work is left.
    pub to_the_end: bool,
    /// It is a line of the report.
    pub reported: bool,
}

impl Step {
    fn until_settled(self) -> Self {
        Self { to_the_end: true, ..self }
    }

    fn silent(self) -> Self {
        Self { reported: false, ..self }
    }
}

/// Steps on one database.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// What the database is opened with.
    pub config: Config,
    /// What is done to it, in order.
    pub steps: Vec<Step>,
    /// It takes what only trees with levels can do.
    pub levels: bool,
}

impl Scenario {
    /// Whether a store can run it.
    pub fn suits(&self, kind: Kind) -> bool {
        !self.levels || kind.has_levels()
    }
}

fn step(name: impl Into<String>, work: Work, threads: usize, count: Count) -> Step {
    Step { name: name.into(), work, threads, count, to_the_end: false, reported: true }
}

fn whole(work: Work) -> Step {
    step("", work, 1, Count::Keys(0)).silent()
}

/// A walk over everything, so that what fits is in the caches.
fn warm(num: u64) -> Step {
    step("", Work::Scan(Direction::Forward), 1, Count::Keys(num)).silent()
}

fn seek(nexts: usize, direction: Direction) -> Work {
    Work::Seek { nexts, direction }
}

/// Entries a second of the writer beside readers: 2.3 MB.
const WRITER_RATE: u64 = 20_000;
/// Steps of a cursor after a seek.
const NEXTS: usize = 10;

/// The reads without a writer. `share` divides the number of reads.
fn reads(suffix: &str, share: u64) -> Vec<Step> {
    vec![
        step(format!("revrange{suffix}"), seek(NEXTS, Direction::Backward), 1, Count::Reads(4 * share)),
        step(format!("fwdrange{suffix}"), seek(NEXTS, Direction::Forward), 1, Count::Reads(4 * share)),
        step(format!("readrandom, 1 thr{suffix}"), Work::ReadRandom, 1, Count::Reads(share)),
        step(format!("readrandom, 2 thr{suffix}"), Work::ReadRandom, 2, Count::Reads(share)),
        step(format!("multireadrandom{suffix}"), Work::MultiRead(16), 1, Count::Reads(share)),
    ]
}

/// The field's sequence: a fill in order, reads, reads beside a writer, random puts, and reads of what these left.
fn sequence(num: u64, share: u64) -> Vec<Step> {
    let beside = |name: &str, work: Work, share: u64| {
        step(name, Work::WhileWriting(Box::new(work), WRITER_RATE), 1, Count::Reads(share))
    };
    let mut steps = vec![
        step("fillseq", Work::FillSequential, 1, Count::Keys(num)),
        step("readseq", Work::Scan(Direction::Forward), 1, Count::Keys(num)),
        step("readseq, again", Work::Scan(Direction::Forward), 1, Count::Keys(num)),
        step("readreverse", Work::Scan(Direction::Backward), 1, Count::Keys(num)),
    ];
    steps.extend(reads("", share));
    steps.push(beside("readwhilewriting", Work::ReadRandom, share));
    steps.push(beside("fwdrangewhilewriting", seek(NEXTS, Direction::Forward), 4 * share));
    steps.push(beside("seekrandomwhilewriting", seek(0, Direction::Forward), 2 * share));
    steps.push(step("overwrite of half", Work::FillRandom, 1, Count::Keys(num / 2)));
    steps.push(warm(num));
    steps.extend(reads(" after overwrite", share));
    steps
}

/// The shapes that a tree goes through, read in each: a full memtable above five files of level 0, six such files, these
/// merged into level 1, that merged into level 2, and everything in one run.
fn shapes(num: u64) -> Vec<Step> {
    // A part stays below the 64 MiB of a memtable, which 116-byte entries fill with some 450,000.
    let part = (num / 20).min(350_000);
    let fill = |count: u64| step("", Work::FillRandom, 1, Count::Keys(count)).silent();
    let mut steps = vec![
        step("", Work::FillSequential, 1, Count::Keys(num)).silent(),
        whole(Work::CompactTo(3)),
        fill(num / 10),
        whole(Work::Flush),
        whole(Work::MergeDown(0)),
        whole(Work::MergeDown(1)),
    ];
    for _ in 0..5 {
        steps.extend([fill(part), whole(Work::Flush)]);
    }
    steps.push(fill(part));
    let stages = [
        ("memtable full", None),
        ("L0 with 6 files", Some(Work::Flush)),
        ("after L0", Some(Work::MergeDown(0))),
        ("after L1", Some(Work::MergeDown(1))),
        ("one run", Some(Work::CompactAll)),
    ];
    for (name, change) in stages {
        steps.extend(change.map(whole));
        steps.push(warm(num));
        steps.push(step(format!("readrandom, {name}"), Work::ReadRandom, 1, Count::Reads(2)));
        steps.push(step(format!("fwdrange, {name}"), seek(NEXTS, Direction::Forward), 1, Count::Reads(8)));
    }
    steps
}

fn scenario(name: &'static str, about: &'static str, config: Config, steps: Vec<Step>) -> Scenario {
    Scenario { name, about, config, steps, levels: false }
}

fn fills(num: u64, plain: &Config) -> Vec<Scenario> {
    let overwrite = step("overwrite to the end", Work::FillRandom, 1, Count::Keys(num)).until_settled();
    let mut list = vec![scenario(
        "fill",
        "ascending puts, then random ones over them until compactions end",
        plain.clone(),
        vec![step("fillseq", Work::FillSequential, 1, Count::Keys(num)), overwrite],
    )];
    for (name, threads) in [("fillrandom1", 1), ("fillrandom2", 2), ("fillrandom4", 4)] {
        let fill = step(format!("fillrandom, {threads} thr"), Work::FillRandom, threads, Count::Keys(num));
        list.push(scenario(name, "random puts into an empty database", plain.clone(), vec![fill]));
    }
    let sync = |threads: usize| {
        let count = Count::Keys(num.min(2_000 * threads as u64));
        step(format!("fillsync, {threads} thr"), Work::FillSync, threads, count)
    };
    list.push(scenario("fillsync", "synced puts", plain.clone(), vec![sync(1), sync(4), sync(8)]));
    list
}

fn sequences(num: u64, plain: &Config, filters: &Config) -> Vec<Scenario> {
    let system = Config { cache_bytes: 64 << 20, ..filters.clone() };
    let direct = Config { cache_bytes: 64 << 20, block_size: 8192, io: Io::Direct, ..filters.clone() };
    // Every get finds its key in a block that is read for it, since next to nothing stays in the cache: what is beyond a
    // plain read is the store's.
    let uncached = Config { cache_bytes: 1 << 20, ..direct.clone() };
    let blocks = vec![
        step("", Work::FillSequential, 1, Count::Keys(num)).silent(),
        whole(Work::CompactAll),
        step("readrandom of 8 KB blocks", Work::ReadRandom, 1, Count::Reads(20)),
        step("plain reads of 8 KB", Work::PlainReads(8192), 1, Count::Reads(20)),
    ];
    vec![
        scenario("cached", "the field's sequence in the store's cache, no filters", plain.clone(), sequence(num, 1)),
        scenario("cached-filter", "the same with Bloom filters", filters.clone(), sequence(num, 1)),
        scenario("system", "the same from the operating system's cache", system, sequence(num, 2)),
        scenario("direct", "the same with direct I/O and a small cache", direct, sequence(num, 20)),
        scenario("direct-blocks", "processor time of direct reads against plain ones", uncached, blocks),
    ]
}

/// All scenarios over `num` keys.
pub fn all(num: u64) -> Vec<Scenario> {
    let plain = Config::default();
    let filters = Config { bloom_bits: Some(10.0), ..plain.clone() };
    let mut list = fills(num, &plain);
    list.extend(sequences(num, &plain, &filters));
    for (name, config) in [("shapes", &plain), ("shapes-filter", &filters)] {
        let config = Config { auto_compactions: false, dynamic_levels: false, ..config.clone() };
        let shapes = scenario(name, "reads in each shape of the tree, from the store's cache", config, shapes(num));
        list.push(Scenario { levels: true, ..shapes });
    }
    for (name, compression) in
        [("compact-none", Compression::None), ("compact-lz4", Compression::Lz4), ("compact-zstd", Compression::Zstd)]
    {
        let config = Config { compression, compressed_from: 0, auto_compactions: false, ..plain.clone() };
        let fill = step("", Work::FillRandom, 1, Count::Keys(num / 2)).silent();
        let compact = step(format!("compact all, {compression:?}"), Work::CompactAll, 1, Count::Keys(num / 2));
        let steps = vec![fill, whole(Work::Flush), compact];
        let merge = scenario(name, "everything merged at once, all levels compressed alike", config, steps);
        list.push(Scenario { levels: true, ..merge });
    }
    for (name, streams) in [("streams1", 1), ("streams2", 2), ("streams8", 8), ("streams64", 64)] {
        let fill =
            step(format!("insert, {streams} streams"), Work::Streams(streams), 1, Count::Keys(num)).until_settled();
        list.push(scenario(name, "ascending streams of inserts, interleaved", plain.clone(), vec![fill]));
    }
    list
}

/// The scenarios by name, for the command line.
pub fn listing() -> String {
    let mut text = String::from("race:\n");
    for scenario in all(10_000_000) {
        text += &format!("  {:14} {}\n", scenario.name, scenario.about);
        for step in scenario.steps.iter().filter(|step| step.reported) {
            text += &format!("      {}\n", step.name);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_of_lines_are_found_again() {
        let list = all(1000);
        let names: HashSet<_> = list.iter().map(|scenario| scenario.name).collect();
        assert_eq!(names.len(), list.len());
        for scenario in list {
            let reported: Vec<_> = scenario.steps.iter().filter(|step| step.reported).collect();
            let names: HashSet<_> = reported.iter().map(|step| &step.name).collect();
            assert_eq!(names.len(), reported.len(), "{}", scenario.name);
            assert!(!names.contains(&String::new()), "{}", scenario.name);
        }
    }
}
