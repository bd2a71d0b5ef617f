//! Random trees under random options with several compactions running at once: whatever is picked, every key keeps its
//! newest entry in front, levels stay in order, and compaction comes to rest.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use firn_format::key::{FileNumber, InternalKey, SequenceNumber, ValueType};
use firn_format::version_edit::{NewFile, VersionEdit};
use proptest::prelude::*;

use super::*;
use crate::options::{CompactionPri, CompactionStopStyle};
use crate::version::{ConsistencyChecks, NoFileStats, VersionBuilder};

const ENTRY_BYTES: u64 = 10;

/// The entries of a file: (key, sequence), in internal-key order, one per key.
type Entries = BTreeMap<u16, u64>;

struct Simulation {
    options: PickerOptions,
    version: Arc<Version>,
    contents: HashMap<FileNumber, Entries>,
    newest: Entries,
    running: Vec<Arc<CompactionPlan>>,
    sequence: u64,
    next_number: u64,
    next_epoch: u64,
}

fn user_key(key: u16) -> Vec<u8> {
    format!("key{key:05}").into_bytes()
}

impl Simulation {
    fn new(options: PickerOptions) -> Self {
        let version = Arc::new(Version::empty(0, Default::default(), options.num_levels));
        Self {
            options,
            version,
            contents: HashMap::new(),
            newest: Entries::new(),
            running: Vec::new(),
            sequence: 0,
            next_number: 1,
            next_epoch: 1,
        }
    }

    fn file(&mut self, entries: Entries, epoch_number: u64) -> NewFile {
        let number = FileNumber(self.next_number);
        self.next_number += 1;
        let boundary = |entry: Option<(&u16, &u64)>| {
            let (key, sequence) = entry.unwrap();
            InternalKey::new(&user_key(*key), SequenceNumber(*sequence), ValueType::Value)
        };
        let file = NewFile {
            number,
            file_size: entries.len() as u64 * ENTRY_BYTES,
            smallest: boundary(entries.first_key_value()),
            largest: boundary(entries.last_key_value()),
            smallest_sequence: SequenceNumber(*entries.values().min().unwrap()),
            largest_sequence: SequenceNumber(*entries.values().max().unwrap()),
            epoch_number,
            ..NewFile::default()
        };
        self.contents.insert(number, entries);
        file
    }

    fn flush(&mut self, keys: &[u16]) {
        let mut entries = Entries::new();
        for key in keys {
            self.sequence += 1;
            entries.insert(*key, self.sequence);
            self.newest.insert(*key, self.sequence);
        }
        self.next_epoch += 1;
        let file = self.file(entries, self.next_epoch);
        let mut edit = VersionEdit::default();
        edit.add_file(0, file);
        self.apply(&edit);
    }

    fn apply(&mut self, edit: &VersionEdit) {
        let mut builder = VersionBuilder::new(Arc::clone(&self.version));
        builder.apply(edit).unwrap();
        self.version = Arc::new(builder.finish(1, &NoFileStats, ConsistencyChecks::Force).unwrap());
    }

    fn pick(&mut self, random: u64) -> bool {
        let scores = score::compute(&self.version, &self.options, 1000);
        let input = PickerInput {
            version: &self.version,
            options: &self.options,
            scores: &scores,
            running: &self.running,
            now_secs: 1000,
            oldest_snapshot: SequenceNumber::ZERO,
            random,
        };
        let Some(plan) = pick(&input) else { return false };
        self.check_plan(&plan);
        plan.set_busy(true);
        self.running.push(Arc::new(plan));
        true
    }

    /// What every plan must keep to, whatever led to it.
    fn check_plan(&self, plan: &CompactionPlan) {
        assert!(plan.num_input_files() > 0);
        assert!(plan.output_level < self.options.num_levels);
        assert!(plan.input_files().all(|(_, file)| !file.being_compacted()), "{plan:?}");
        for input in plan.inputs.iter().filter(|input| input.level > 0) {
            let files = self.version.files(input.level);
            let numbers: Vec<_> = input.files.iter().map(|file| file.number).collect();
            let first = files.iter().position(|file| file.number == numbers[0]).unwrap();
            let same = files[first..].iter().map(|file| file.number).take(numbers.len()).collect::<Vec<_>>();
            assert_eq!(same, numbers, "inputs of a level are neighbours");
        }
        if plan.work == CompactionWork::Merge && plan.output_level > 0 {
            // Whatever overlaps on the output level takes part.
            let begin = InternalKey::for_seek(&plan.smallest_user_key, SequenceNumber::MAX);
            let end = InternalKey::new(&plan.largest_user_key, SequenceNumber::ZERO, ValueType::Deletion);
            let overlapped = self.version.overlapping_files(plan.output_level, Some(&begin), Some(&end));
            assert!(
                overlapped.iter().all(|file| plan.input_files().any(|(_, input)| input.number == file.number)),
                "{plan:?} leaves out files of its output level"
            );
        }
    }

    fn finish(&mut self, at: usize) {
        let plan = self.running.remove(at % self.running.len());
        let mut edit = VersionEdit::default();
        let mut merged = Entries::new();
        for (level, file) in plan.input_files() {
            edit.delete_file(level as u32, file.number);
            if plan.work == CompactionWork::TrivialMove {
                edit.add_file(plan.output_level as u32, file.to_new_file());
            }
            for (key, sequence) in &self.contents[&file.number] {
                let newest = merged.entry(*key).or_insert(*sequence);
                *newest = (*newest).max(*sequence);
            }
        }
        if plan.work == CompactionWork::Merge {
            let per_file = if plan.output_level == 0 {
                usize::MAX
            } else {
                usize::try_from((plan.max_output_file_size_bytes / ENTRY_BYTES).max(1)).unwrap_or(usize::MAX)
            };
            let all: Vec<(u16, u64)> = merged.into_iter().collect();
            for part in all.chunks(per_file.min(all.len())) {
                let file = self.file(part.iter().copied().collect(), plan.output_epoch_number());
                edit.add_file(plan.output_level as u32, file);
            }
        }
        if let Some(cursor) = &plan.next_cursor {
            edit.compact_cursors.push((plan.start_level as u32, cursor.clone()));
        }
        plan.set_busy(false);
        self.apply(&edit);
    }

    /// Looks every key up as a reader does: the first file that has it must have its newest entry.
    fn check_reads(&self) {
        for (key, expected) in &self.newest {
            let target = user_key(*key);
            let found = self.version.levels().iter().flatten().find_map(|file| {
                let inside =
                    file.smallest.user_key() <= target.as_slice() && target.as_slice() <= file.largest.user_key();
                self.contents[&file.number].get(key).filter(|_| inside)
            });
            assert_eq!(found, Some(expected), "key {key} in {:?}", self.version);
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Flush(Vec<u16>),
    Pick(u64),
    Finish(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let keys = (0u16..60, 1u16..30, 1usize..12)
        .prop_map(|(from, stride, count)| (0..count as u16).map(|at| (from + at * stride) % 400).collect());
    prop_oneof![3 => keys.prop_map(Step::Flush), 3 => any::<u64>().prop_map(Step::Pick), 2 => any::<usize>().prop_map(Step::Finish)]
}

fn options() -> impl Strategy<Value = PickerOptions> {
    let styles = prop_oneof![3 => Just(CompactionStyle::Level), 2 => Just(CompactionStyle::Universal)];
    let priorities = prop_oneof![
        Just(CompactionPri::ByCompensatedSize),
        Just(CompactionPri::OldestLargestSeqFirst),
        Just(CompactionPri::OldestSmallestSeqFirst),
        Just(CompactionPri::MinOverlappingRatio),
        Just(CompactionPri::RoundRobin),
    ];
    (
        styles,
        priorities,
        any::<bool>(),
        2usize..7,
        1usize..5,
        100u64..600,
        10u64..100,
        50u64..3000,
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(style, pri, dynamic, levels, trigger, base, file, max_bytes, similar, incremental)| {
            let mut options = PickerOptions {
                compaction_style: style,
                compaction_pri: pri,
                level_compaction_dynamic_level_bytes: dynamic && style == CompactionStyle::Level,
                num_levels: levels,
                level0_file_num_compaction_trigger: trigger,
                max_bytes_for_level_base: base,
                max_bytes_for_level_multiplier: 3.0,
                target_file_size_base: file,
                max_compaction_bytes: max_bytes,
                ..PickerOptions::default()
            };
            if incremental {
                // Too large soon, and merged in small parts.
                options.compaction_options_universal.incremental = true;
                options.compaction_options_universal.max_size_amplification_percent = 25;
            }
            if similar {
                options.compaction_options_universal.stop_style = CompactionStopStyle::SimilarSize;
            }
            options
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_key_keeps_its_newest_entry_in_front(
        options in options(), steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut simulation = Simulation::new(options);
        for step in steps {
            match step {
                Step::Flush(keys) => simulation.flush(&keys),
                Step::Pick(random) => {
                    simulation.pick(random);
                }
                Step::Finish(at) if !simulation.running.is_empty() => simulation.finish(at),
                Step::Finish(_) => {}
            }
            simulation.check_reads();
        }
        let mut rounds = 0;
        while !simulation.running.is_empty() || simulation.pick(0) {
            simulation.finish(0);
            rounds += 1;
            prop_assert!(rounds < 2000, "compaction does not come to rest: {:?}", simulation.version);
        }
        simulation.check_reads();
    }
}
