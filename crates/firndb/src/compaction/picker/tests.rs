//! Scripts of trees, options and the compactions that they lead to; see `testdata/picker`.
//!
//! A script is a row of blocks: a command, lines of input, `----`, the expected output, an empty line. Set
//! `FIRN_REWRITE=1` to write what the commands answer into the scripts, and review the difference.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_env::{Env, FileSystem};
use firn_format::compression::CompressionType;
use firn_format::key::{FileNumber, InternalKey, SequenceNumber, ValueType};
use firn_format::version_edit::{NewFile, VersionEdit};

use super::*;
use crate::options::{CompactionPri, CompactionStopStyle};
use crate::version::{ConsistencyChecks, FileStats, FileStatsLoader, NoFileStats, VersionBuilder};

struct Script {
    options: PickerOptions,
    version: Arc<Version>,
    running: Vec<Arc<CompactionPlan>>,
    now_secs: u64,
    oldest_snapshot: u64,
    next_number: u64,
}

impl Default for Script {
    fn default() -> Self {
        let options = PickerOptions {
            level_compaction_dynamic_level_bytes: false,
            max_bytes_for_level_base: 1000,
            target_file_size_base: 100,
            max_compaction_bytes: 2500,
            ttl: 0,
            compression: CompressionType::None,
            ..PickerOptions::default()
        };
        let version = Arc::new(Version::empty(0, Default::default(), 7));
        Self { options, version, running: Vec::new(), now_secs: 1_000_000, oldest_snapshot: 0, next_number: 1 }
    }
}

fn number<T: std::str::FromStr>(text: &str) -> T {
    text.replace('_', "").parse().unwrap_or_else(|_| panic!("{text:?} is not a number"))
}

/// Statistics as the scripts give them.
struct ScriptStats(Vec<(FileNumber, FileStats)>);

impl FileStatsLoader for ScriptStats {
    fn load(&self, file: &FileMetaData) -> Option<FileStats> {
        self.0.iter().find(|(number, _)| *number == file.number).map(|(_, stats)| *stats)
    }
}

impl Script {
    fn set_option(&mut self, name: &str, value: &str) {
        let options = &mut self.options;
        match name {
            "style" => {
                options.compaction_style = match value {
                    "leveled" => CompactionStyle::Level,
                    "universal" => CompactionStyle::Universal,
                    "fifo" => CompactionStyle::Fifo,
                    other => panic!("unknown style {other}"),
                }
            }
            "pri" => {
                options.compaction_pri = match value {
                    "by-size" => CompactionPri::ByCompensatedSize,
                    "oldest-largest" => CompactionPri::OldestLargestSeqFirst,
                    "oldest-smallest" => CompactionPri::OldestSmallestSeqFirst,
                    "overlap" => CompactionPri::MinOverlappingRatio,
                    "round-robin" => CompactionPri::RoundRobin,
                    other => panic!("unknown priority {other}"),
                }
            }
            "levels" => {
                options.num_levels = number(value);
                self.version = Arc::new(Version::empty(0, Default::default(), options.num_levels));
            }
            "dynamic" => options.level_compaction_dynamic_level_bytes = value == "yes",
            "trigger" => options.level0_file_num_compaction_trigger = number(value),
            "base" => options.max_bytes_for_level_base = number(value),
            "mult" => options.max_bytes_for_level_multiplier = number(value),
            "file-size" => options.target_file_size_base = number(value),
            "max-compaction" => options.max_compaction_bytes = number(value),
            "ttl" => options.ttl = number(value),
            "periodic" => options.periodic_compaction_seconds = number(value),
            "write-buffer" => options.write_buffer_size = number(value),
            "bottommost" => options.bottommost_compression = CompressionType::from_option_name(value).unwrap(),
            "max-table-files" => options.compaction_options_fifo.max_table_files_size = number(value),
            "allow-compaction" => options.compaction_options_fifo.allow_compaction = value == "yes",
            "size-ratio" => options.compaction_options_universal.size_ratio = number(value),
            "size-amp" => options.compaction_options_universal.max_size_amplification_percent = number(value),
            "incremental" => options.compaction_options_universal.incremental = value == "yes",
            "similar" => {
                options.compaction_options_universal.stop_style = CompactionStopStyle::SimilarSize;
            }
            "now" => self.now_secs = number(value),
            "oldest-snapshot" => self.oldest_snapshot = number(value),
            other => panic!("unknown option {other}"),
        }
    }

    /// Adds files from lines such as `L1 #10 a-c size=300 seq=1-2 busy`.
    fn add_files(&mut self, lines: &[&str]) {
        let mut edit = VersionEdit::default();
        let (mut busy, mut stats) = (Vec::new(), Vec::new());
        for line in lines {
            let mut words = line.split_whitespace();
            let first = words.next().unwrap();
            if let Some(level) = first.strip_prefix("cursor-L") {
                let key = InternalKey::new(words.next().unwrap().as_bytes(), SequenceNumber(5), ValueType::Value);
                edit.compact_cursors.push((number(level), key));
                continue;
            }
            let level: u32 = number(first.strip_prefix('L').unwrap());
            let number_of = FileNumber(number(words.next().unwrap().strip_prefix('#').unwrap()));
            let (from, to) = words.next().unwrap().split_once('-').unwrap();
            let mut file = NewFile {
                number: number_of,
                file_size: 100,
                epoch_number: number_of.0,
                smallest_sequence: SequenceNumber(number_of.0),
                largest_sequence: SequenceNumber(number_of.0),
                ..NewFile::default()
            };
            for word in words {
                match word.split_once('=').unwrap_or((word, "")) {
                    ("size", value) => file.file_size = number(value),
                    ("seq", value) => {
                        let (smallest, largest) = value.split_once('-').unwrap_or((value, value));
                        file.smallest_sequence = SequenceNumber(number(smallest));
                        file.largest_sequence = SequenceNumber(number(largest));
                    }
                    ("born", value) => {
                        file.oldest_ancester_time = number(value);
                        file.file_creation_time = number(value);
                    }
                    ("newest-key", value) => stats.push((
                        number_of,
                        FileStats { newest_key_time: number(value), num_entries: 1, ..FileStats::default() },
                    )),
                    ("deletions", value) => stats.push((
                        number_of,
                        FileStats {
                            num_entries: 100,
                            num_deletions: number(value),
                            raw_key_size: 0,
                            raw_value_size: file.file_size,
                            ..FileStats::default()
                        },
                    )),
                    ("marked", _) => file.marked_for_compaction = true,
                    ("busy", _) => busy.push(number_of),
                    (other, _) => panic!("unknown property {other} of a file"),
                }
            }
            file.smallest = InternalKey::new(from.as_bytes(), file.largest_sequence, ValueType::Value);
            file.largest = match to.strip_suffix(')') {
                Some(to) => InternalKey::range_sentinel(to.as_bytes()),
                None => InternalKey::new(to.as_bytes(), file.smallest_sequence, ValueType::Value),
            };
            self.next_number = self.next_number.max(number_of.0 + 1);
            edit.add_file(level, file);
        }
        self.apply(&edit, &ScriptStats(stats));
        for number in busy {
            self.version.find_file(number).unwrap().1.set_being_compacted(true);
        }
    }

    fn apply(&mut self, edit: &VersionEdit, stats: &dyn FileStatsLoader) {
        let mut builder = VersionBuilder::new(Arc::clone(&self.version));
        builder.apply(edit).unwrap();
        self.version = Arc::new(builder.finish(1, stats, ConsistencyChecks::Force).unwrap());
    }

    fn with_input<R>(&self, use_input: impl FnOnce(&PickerInput<'_>) -> R) -> R {
        let scores = score::compute(&self.version, &self.options, self.now_secs);
        use_input(&PickerInput {
            version: &self.version,
            options: &self.options,
            scores: &scores,
            running: &self.running,
            now_secs: self.now_secs,
            oldest_snapshot: SequenceNumber(self.oldest_snapshot),
            random: 0,
        })
    }

    fn pick(&self) -> Option<CompactionPlan> {
        self.with_input(|input| {
            let plan = pick(input);
            assert!(plan.is_none() || needs_compaction(input), "a pick that nobody would have asked for");
            plan
        })
    }

    /// Does what a job would do: one output for all inputs of a merge.
    fn carry_out(&mut self, plan: &CompactionPlan) {
        let mut edit = VersionEdit::default();
        let mut merged = NewFile { epoch_number: plan.output_epoch_number(), ..NewFile::default() };
        for (level, file) in plan.input_files() {
            edit.delete_file(level as u32, file.number);
            if plan.work == CompactionWork::TrivialMove {
                edit.add_file(plan.output_level as u32, file.to_new_file());
            }
            merged.file_size += file.file_size;
            merged.smallest_sequence = merged.smallest_sequence.min(file.smallest_sequence);
            merged.largest_sequence = merged.largest_sequence.max(file.largest_sequence);
        }
        if plan.work == CompactionWork::Merge {
            merged.number = FileNumber(self.next_number);
            self.next_number += 1;
            merged.smallest = InternalKey::new(&plan.smallest_user_key, merged.largest_sequence, ValueType::Value);
            merged.largest = InternalKey::new(&plan.largest_user_key, merged.smallest_sequence, ValueType::Value);
            edit.add_file(plan.output_level as u32, merged);
        }
        if let Some(cursor) = &plan.next_cursor {
            edit.compact_cursors.push((plan.start_level as u32, cursor.clone()));
        }
        plan.set_busy(false);
        self.apply(&edit, &NoFileStats);
    }

    fn execute(&mut self, command: &str, arguments: &[(&str, &str)], lines: &[&str]) -> String {
        match command {
            "define" => {
                *self = Self::default();
                arguments.iter().for_each(|(name, value)| self.set_option(name, value));
                self.add_files(lines);
                String::new()
            }
            "set" => {
                arguments.iter().for_each(|(name, value)| self.set_option(name, value));
                String::new()
            }
            "add" => {
                self.add_files(lines);
                String::new()
            }
            "scores" => self.scores(),
            "pick" => match self.pick() {
                None => "nothing\n".into(),
                Some(plan) => {
                    plan.set_busy(true);
                    let text = show_plan(&plan);
                    self.running.push(Arc::new(plan));
                    text
                }
            },
            "run" => {
                let mut text = String::new();
                // A script that never comes to rest would be a bug of the picker.
                for _ in 0..50 {
                    let Some(plan) = self.pick() else { break };
                    text += &show_plan(&plan);
                    self.carry_out(&plan);
                }
                text + &self.show_tree()
            }
            "finish" => {
                let plan = self.running.remove(0);
                self.carry_out(&plan);
                self.show_tree()
            }
            "open" => {
                if let Some(edit) = levels_to_push_down(&self.version, &self.options) {
                    self.apply(&edit, &NoFileStats);
                }
                self.show_tree()
            }
            "flushes" => self.flushes(lines),
            "manual" => self.manual(arguments),
            "compact-files" => self.compact_files(arguments),
            "delete-in-range" => {
                let argument = |name| arguments.iter().find(|(other, _)| *other == name).map(|(_, v)| v.as_bytes());
                let end = if argument("exclusive").is_some() { RangeEnd::Exclusive } else { RangeEnd::Inclusive };
                let files = files_to_delete_in_range(&self.version, argument("begin"), argument("end"), end);
                files.iter().map(|(level, file)| format!("L{level} #{}\n", file.number)).collect()
            }
            other => panic!("unknown command {other}"),
        }
    }

    fn scores(&self) -> String {
        let scores = score::compute(&self.version, &self.options, self.now_secs);
        let mut text = format!("base L{}", scores.targets.base_level);
        if let Some(level) = scores.targets.lowest_unnecessary_level {
            let _ = write!(text, ", unnecessary up to L{level}");
        }
        for (level, target) in scores.targets.target_bytes.iter().enumerate().filter(|(_, t)| **t != u64::MAX) {
            let _ = write!(text, "{} L{level}={target}", if text.contains("targets") { "" } else { "\ntargets" });
        }
        for (score, level) in scores.by_urgency.iter().filter(|(score, _)| *score > 0.0) {
            let _ = write!(text, "\nL{level} {score:.3}");
        }
        text + &format!("\npending {}\n", scores.pending_compaction_bytes)
    }

    /// Flushes one run after the other, compacting until nothing is to do, and shows the sizes of the runs after each.
    fn flushes(&mut self, lines: &[&str]) -> String {
        let sizes: Vec<&str> = lines.iter().flat_map(|line| line.split_whitespace()).collect();
        let mut text = String::new();
        for size in sizes {
            let number_of = self.next_number;
            self.add_files(&[&format!("L0 #{number_of} a-z size={size} born={}", self.now_secs)]);
            for _ in 0..50 {
                let Some(plan) = self.pick() else { break };
                self.carry_out(&plan);
            }
            let level_0 = self.version.files(0).iter().map(|file| file.file_size.to_string());
            let deeper = (1..self.version.num_levels())
                .filter(|level| !self.version.files(*level).is_empty())
                .map(|level| format!("L{level}:{}", self.version.level_bytes(level)));
            let runs: Vec<String> = level_0.chain(deeper).collect();
            text += &(runs.join(" ") + "\n");
        }
        text
    }

    fn manual(&mut self, arguments: &[(&str, &str)]) -> String {
        let argument = |name| arguments.iter().find(|(other, _)| *other == name).map(|(_, value)| *value);
        let (begin, end) = (argument("begin").map(str::as_bytes), argument("end").map(str::as_bytes));
        let mut text = String::new();
        let Some(levels) = self.with_input(|input| manual_levels(input, begin, end)) else {
            return "nothing overlaps\n".into();
        };
        let mut level = levels.first;
        let force = argument("force").is_some();
        let first_new_file = FileNumber(self.next_number);
        while level < levels.last || (force && level == levels.last) {
            let output = match level == levels.last {
                true => level,
                false => self.with_input(|input| next_manual_level(input, level)),
            };
            let mut step = ManualCompaction::new(level, output, begin, end);
            if level == output {
                step.ignore_files_from = Some(first_new_file);
                step.disallow_trivial_move = true;
            }
            loop {
                match self.with_input(|input| pick_manual(input, &step)) {
                    ManualStep::Nothing => break,
                    ManualStep::Conflict => {
                        text += "conflict\n";
                        break;
                    }
                    ManualStep::Run { plan, resume } => {
                        text += &show_plan(&plan);
                        self.carry_out(&plan);
                        step.resume = resume;
                        if step.resume.is_none() {
                            break;
                        }
                    }
                }
            }
            if level == output {
                break;
            }
            level = output;
        }
        text + &self.show_tree()
    }

    fn compact_files(&mut self, arguments: &[(&str, &str)]) -> String {
        let argument = |name| arguments.iter().find(|(other, _)| *other == name).map_or("", |(_, value)| *value);
        let numbers: Vec<FileNumber> =
            argument("files").split(',').filter(|n| !n.is_empty()).map(|n| FileNumber(number(n))).collect();
        let output = number(argument("output"));
        match self.with_input(|input| pick_files(input, &numbers, output, 0, "default", MayMove::No)) {
            Ok(plan) => show_plan(&plan),
            Err(error) => format!("{error}\n"),
        }
    }

    fn show_tree(&self) -> String {
        let mut text = String::new();
        for (level, files) in self.version.levels().iter().enumerate().filter(|(_, files)| !files.is_empty()) {
            let _ = write!(text, "L{level}:");
            for file in files {
                let end = String::from_utf8_lossy(file.largest.user_key()).into_owned();
                let start = String::from_utf8_lossy(file.smallest.user_key()).into_owned();
                let _ = write!(text, " #{} {start}-{end}", file.number);
            }
            text.push('\n');
        }
        text
    }
}

fn show_plan(plan: &CompactionPlan) -> String {
    let work = match plan.work {
        CompactionWork::Merge => "merge",
        CompactionWork::TrivialMove => "move",
        CompactionWork::DropFiles => "drop",
    };
    let mut text = format!("{} {work}", plan.reason.name());
    for input in &plan.inputs {
        let numbers: Vec<String> = input.files.iter().map(|file| format!("#{}", file.number)).collect();
        let _ = write!(text, " L{} {}", input.level, numbers.join(" "));
    }
    if plan.work != CompactionWork::DropFiles {
        let _ = write!(text, " -> L{}", plan.output_level);
    }
    if plan.bottommost && plan.work == CompactionWork::Merge {
        text += " bottommost";
    }
    if !plan.grandparents.is_empty() && plan.work == CompactionWork::Merge {
        let numbers: Vec<String> = plan.grandparents.iter().map(|file| format!("#{}", file.number)).collect();
        let _ = write!(text, " along {}", numbers.join(" "));
    }
    if let Some(cursor) = &plan.next_cursor {
        let _ = write!(text, " then from {}", cursor.user_key().escape_ascii());
    }
    text + "\n"
}

fn run_script(fs: &dyn FileSystem, path: &Path) -> Result<(), String> {
    let text = String::from_utf8(firn_env::read_file(fs, path, 1 << 20).unwrap()).unwrap();
    let mut script = Script::default();
    let (mut rewritten, mut failures) = (String::new(), String::new());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim().is_empty() || line.starts_with('#') {
            rewritten += &format!("{line}\n");
            continue;
        }
        let mut words = line.split_whitespace();
        let command = words.next().unwrap_or_default();
        let arguments: Vec<(&str, &str)> = words.map(|word| word.split_once('=').unwrap_or((word, "yes"))).collect();
        let input: Vec<&str> = std::iter::from_fn(|| lines.next_if(|line| *line != "----")).collect();
        assert_eq!(lines.next(), Some("----"), "{}: {line}", path.display());
        let expected: String =
            std::iter::from_fn(|| lines.next_if(|line| !line.is_empty())).map(|line| format!("{line}\n")).collect();
        let actual = script.execute(command, &arguments, &input);
        if actual != expected {
            failures += &format!("{}: {line}\nexpected:\n{expected}actual:\n{actual}\n", path.display());
        }
        rewritten += &format!("{line}\n");
        input.iter().for_each(|line| rewritten += &format!("{line}\n"));
        rewritten += &format!("----\n{actual}");
    }
    if std::env::var_os("FIRN_REWRITE").is_some() {
        firn_env::write_file(fs, path, rewritten.as_bytes(), false).unwrap();
        return Ok(());
    }
    if failures.is_empty() { Ok(()) } else { Err(failures) }
}

#[test]
fn scripts_lead_to_the_expected_compactions() {
    let fs = Env::shared().fs().clone();
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/picker");
    let mut names = fs.children(&directory).unwrap();
    names.sort();
    let failures: String = names.iter().filter_map(|name| run_script(&*fs, &directory.join(name)).err()).collect();
    assert!(failures.is_empty(), "{failures}\nreplay with: FIRN_REWRITE=1 cargo test -p firndb picker");
}

/// A `compact_range` may wait for a `compact_files` that puts older files above what was the base level.
#[test]
fn level_0_goes_to_the_base_level_of_the_moment() {
    let mut script = Script::default();
    script.execute("define", &[("trigger", "100"), ("dynamic", "yes")], &["L0 #2 a-m seq=9", "L6 #1 a-z seq=1"]);
    assert_eq!(script.with_input(|input| next_manual_level(input, 0)), 6);
    let step = ManualCompaction::new(0, 6, None, None);
    script.execute("add", &[], &["L1 #3 c-d seq=5"]);
    match script.with_input(|input| pick_manual(input, &step)) {
        ManualStep::Run { plan, .. } => {
            assert_eq!(show_plan(&plan).trim(), "ManualCompaction merge L0 #2 L1 #3 -> L1 along #1")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn file_sizes_grow_with_the_level_from_the_base_level_on() {
    let mut options = PickerOptions { target_file_size_multiplier: 2, ..Script::default().options };
    let sizes = |options: &PickerOptions, base| (0..5).map(|l| options.max_file_size_for_level(l, base)).collect();
    let fixed: Vec<u64> = sizes(&options, 1);
    assert_eq!(fixed, [100, 100, 200, 400, 800]);
    options.level_compaction_dynamic_level_bytes = true;
    let dynamic: Vec<u64> = sizes(&options, 3);
    assert_eq!(dynamic[3..], [100, 100]);
}

#[test]
fn compression_follows_the_level() {
    let mut options = Script::default().options;
    options.compression = CompressionType::Lz4;
    let of = |options: &PickerOptions, level| options.compression_for_level(level, 2, 5);
    assert_eq!(of(&options, 4), CompressionType::Lz4);
    options.bottommost_compression = CompressionType::Zstd;
    assert_eq!((of(&options, 4), of(&options, 3)), (CompressionType::Zstd, CompressionType::Lz4));
    options.compression_per_level = vec![CompressionType::None, CompressionType::Snappy, CompressionType::Zlib];
    let levels: Vec<_> = (0..5).map(|level| of(&options, level)).collect();
    assert_eq!(
        levels,
        [
            CompressionType::None,
            CompressionType::None,
            CompressionType::Snappy,
            CompressionType::Zlib,
            CompressionType::Zstd
        ]
    );
}
