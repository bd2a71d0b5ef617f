use super::*;
use crate::compaction::picker::{CompactionInput, CompactionReason, CompactionWork};
use crate::compaction::verify::OutputChecks;
use crate::options::ColumnFamilyOptions;
use crate::stats::table_events::TableReporter;
use crate::version::{
    ConsistencyChecks, FamilySpec, FamilyTables, FamilyTablesOptions, NoFileStats, OpenTable, OpenTables, Version,
    VersionBuilder,
};
use firn_env::{Env, FileOptions, SstFileManager, SstFileManagerOptions};
use firn_format::compression::CompressionType;
use firn_format::key::{ValueType, parse_internal_key};
use firn_format::range_tombstone::RangeTombstone;
use firn_format::version_edit::VersionEdit;
use firn_table::TableReaderOptions;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Write operations of a model: `(sequence, key, operation)`.
#[derive(Clone, Debug)]
enum Operation {
    Put(u8, usize),
    Delete(u8),
    DeleteRange(u8, u8),
}

struct World {
    env: Env,
    next_number: AtomicU64,
    spec: FamilySpec,
    tables: Arc<dyn TableSource>,
}

impl World {
    fn new() -> Self {
        let env = Env::memory();
        env.fs().create_dir_if_missing(&PathBuf::from("/db")).unwrap();
        let spec = FamilySpec {
            name: "default".into(),
            order: InternalKeyComparator::default(),
            num_levels: 7,
            force_consistency_checks: true,
            allow_ingest_behind: false,
            paths: vec![PathBuf::from("/db")],
        };
        let tables = Arc::new(FamilyTables::new(FamilyTablesOptions {
            fs: Arc::clone(env.fs()),
            file_options: FileOptions::default(),
            db_path: PathBuf::from("/db"),
            spec: spec.clone(),
            reader: TableReaderOptions::default(),
            open: Arc::new(OpenTables::new(-1, 4)),
            latencies: None,
            verify_sst_unique_id_in_manifest: true,
        }));
        Self { env, next_number: AtomicU64::new(10), spec, tables }
    }

    fn settings(&self) -> OutputSettings {
        OutputSettings {
            fs: Arc::clone(self.env.fs()),
            file_options: FileOptions::default(),
            use_fsync: false,
            directory: PathBuf::from("/db"),
            path_id: 0,
            comparator: self.spec.order.clone(),
            options: Arc::new(ColumnFamilyOptions::default()),
            family_id: 0,
            family_name: "default".into(),
            db_id: "db".into(),
            session_id: "ABCDEFGHIJKLMNOPQRST".into(),
            host_id: "host".into(),
            level: 1,
            is_flush: false,
            bottommost: false,
            compression: CompressionType::None,
            temperature: Default::default(),
            target_file_size: 0,
            now_secs: 1000,
            tables: Arc::clone(&self.tables),
            checks: OutputChecks { record_count: true, contents: true },
            block_cache: None,
            statistics: None,
            file_checksums: None,
            reporter: TableReporter::silent(),
            file_manager: Arc::new(SstFileManager::new(
                Arc::clone(self.env.fs()),
                Arc::clone(self.env.clock()),
                Arc::new(firn_env::NullLogger),
                SstFileManagerOptions::default(),
            )),
        }
    }

    fn number(&self) -> FileNumber {
        FileNumber(self.next_number.fetch_add(1, Ordering::Relaxed))
    }

    /// Writes a table of entries and range tombstones.
    fn table(&self, epoch: u64, entries: &[(Vec<u8>, Vec<u8>)], tombstones: &[RangeTombstone]) -> Option<NewFile> {
        let times = OutputTimes { oldest_ancester_time: 100 + epoch, oldest_key_time: 0, newest_key_time: 0 };
        let mut table = TableOutput::create(&self.settings(), self.number(), epoch, times).unwrap();
        let mut entries = entries.to_vec();
        entries.sort_by(|a, b| self.spec.order.compare(&a.0, &b.0));
        for (key, value) in &entries {
            table.add(key, value).unwrap();
        }
        let fragments = FragmentedRangeTombstones::new(tombstones.to_vec(), &self.spec.order);
        for tombstone in fragments.iter() {
            table
                .add_range_tombstone(crate::compaction::tombstones::OutputTombstone {
                    smallest: InternalKey::new(&tombstone.start, tombstone.sequence, ValueType::RangeDeletion),
                    largest: InternalKey::range_sentinel(&tombstone.end),
                    tombstone,
                })
                .unwrap();
        }
        table.finish().unwrap().map(|finished| finished.file)
    }

    fn version(&self, levels: &[(usize, Vec<NewFile>)]) -> Arc<Version> {
        let base = Arc::new(Version::empty(0, self.spec.order.clone(), 7));
        let mut builder = VersionBuilder::new(base);
        let mut edit = VersionEdit::default();
        for (level, files) in levels {
            for file in files {
                edit.add_file(*level as u32, file.clone());
            }
        }
        builder.apply(&edit).unwrap();
        Arc::new(builder.finish(1, &NoFileStats, ConsistencyChecks::Force).unwrap())
    }

    fn run(
        &self,
        plan: &CompactionPlan,
        snapshots: &[u64],
        change: impl FnOnce(&mut CompactionContext<'_>),
    ) -> Result<CompactionResult> {
        let new_file_number = || self.number();
        let mut context = CompactionContext {
            tables: Arc::clone(&self.tables),
            settings: self.settings(),
            snapshots: snapshots.iter().copied().map(SequenceNumber).collect(),
            write_conflict_boundary: SequenceNumber::MAX,
            merge_operator: None,
            filter: None,
            filter_factory: None,
            leveled: true,
            allow_ingest_behind: false,
            enforce_single_del_contracts: true,
            verify_record_count: true,
            readahead_bytes: 0,
            min_part_bytes: 1,
            output_cursor: None,
            old_files: Vec::new(),
            new_file_number: &new_file_number,
            signals: StopSignals::default(),
            listeners: Listeners::default(),
            part_info: SubcompactionJobInfo::default(),
            workers: None,
        };
        change(&mut context);
        super::run(plan, &context)
    }

    /// What a reader at `snapshot` sees in the files of all levels.
    fn visible(&self, version: &Arc<Version>, snapshot: u64) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut newest: BTreeMap<Vec<u8>, (u64, ValueType, Vec<u8>)> = BTreeMap::new();
        let mut runs = version.sorted_runs(&self.tables, &TableReadOptions::default()).unwrap();
        for run in &mut runs {
            run.iterator.seek_to_first();
            while run.iterator.valid() {
                let parsed = parse_internal_key(run.iterator.key()).unwrap();
                if parsed.sequence.0 <= snapshot {
                    let found = (parsed.sequence.0, parsed.value_type, run.iterator.value().to_vec());
                    let known = newest.entry(parsed.user_key.to_vec()).or_insert_with(|| found.clone());
                    if known.0 < found.0 {
                        *known = found;
                    }
                }
                run.iterator.next();
            }
        }
        newest.retain(|key, (sequence, value_type, _)| {
            let order = &self.spec.order;
            let covering = runs.iter().flat_map(|run| run.tombstones.iter()).map(|window| {
                let inside = window.from.as_ref().is_none_or(|from| !from.is_right_of(key, order))
                    && window.until.as_ref().is_none_or(|until| until.is_right_of(key, order));
                let list = window.tombstones.as_ref().filter(|_| inside);
                list.map_or(0, |list| list.max_covering_sequence(key, SequenceNumber(snapshot), order).0)
            });
            *value_type == ValueType::Value && covering.max().unwrap_or(0) <= *sequence
        });
        newest.into_iter().map(|(key, (_, _, value))| (key, value)).collect()
    }
}

fn plan(version: &Arc<Version>, inputs: &[usize], output_level: usize, target: u64, parts: u32) -> CompactionPlan {
    let inputs: Vec<_> = inputs
        .iter()
        .map(|&level| CompactionInput { level, files: version.files(level).to_vec() })
        .filter(|input| !input.files.is_empty())
        .collect();
    let grandparents = version.files(output_level + 1).to_vec();
    CompactionPlan {
        column_family: 0,
        version: Arc::clone(version),
        reason: CompactionReason::ManualCompaction,
        score: 0.0,
        work: CompactionWork::Merge,
        start_level: inputs.first().map_or(0, |input| input.level),
        bottommost: (output_level + 1..7).all(|level| version.files(level).is_empty()),
        inputs,
        output_level,
        output_path_id: 0,
        target_output_file_size_bytes: target,
        max_output_file_size_bytes: target,
        max_compaction_bytes: target.saturating_mul(25),
        output_compression: CompressionType::None,
        output_temperature: None,
        grandparents,
        is_manual: true,
        max_subcompactions: parts,
        base_level: 1,
        next_cursor: None,
        smallest_user_key: Vec::new(),
        largest_user_key: Vec::new(),
    }
}

fn user_key(key: u8) -> Vec<u8> {
    format!("key{key:03}").into_bytes()
}

fn value_of(sequence: u64, length: usize) -> Vec<u8> {
    format!("{sequence}-{}", "v".repeat(length)).into_bytes()
}

/// Writes operations as tables of `per_table` each, oldest first; the oldest ones go to the given deeper levels.
fn write(world: &World, operations: &[Operation], per_table: usize) -> Vec<NewFile> {
    let mut files = Vec::new();
    for (index, chunk) in operations.chunks(per_table).enumerate() {
        let (mut entries, mut tombstones) = (Vec::new(), Vec::new());
        for (at, operation) in chunk.iter().enumerate() {
            let sequence = SequenceNumber((index * per_table + at) as u64 + 1);
            let mut point = |key: u8, value_type, value| {
                entries.push((InternalKey::new(&user_key(key), sequence, value_type).encoded().to_vec(), value));
            };
            match *operation {
                Operation::Put(key, length) => point(key, ValueType::Value, value_of(sequence.0, length)),
                Operation::Delete(key) => point(key, ValueType::Deletion, Vec::new()),
                Operation::DeleteRange(from, to) => {
                    tombstones.push(RangeTombstone { start: user_key(from), end: user_key(to), sequence });
                }
            }
        }
        files.extend(world.table(index as u64 + 1, &entries, &tombstones));
    }
    files
}

fn apply(world: &World, version: &Arc<Version>, plan: &CompactionPlan, outputs: &[NewFile]) -> Arc<Version> {
    let mut levels: Vec<(usize, Vec<NewFile>)> = Vec::new();
    for level in 0..7 {
        let inputs = plan.files_of_level(level);
        let kept = version.files(level).iter().filter(|file| !inputs.iter().any(|input| input.number == file.number));
        levels.push((level, kept.map(|file| file.to_new_file()).collect()));
    }
    levels.push((plan.output_level, outputs.to_vec()));
    // Building the version checks that the outputs do not overlap.
    world.version(&levels)
}

#[test]
fn outputs_are_cut_and_described() {
    let world = World::new();
    let operations: Vec<_> = (0..200u32).map(|at| Operation::Put((at % 100) as u8, 500)).collect();
    let files = write(&world, &operations, 50);
    let version = world.version(&[(0, files)]);
    let before = world.visible(&version, u64::MAX >> 8);
    let plan = plan(&version, &[0], 1, 10_000, 1);
    let result = world.run(&plan, &[], |_| {}).unwrap();
    assert!(result.outputs.len() >= 4, "{}", result.outputs.len());
    assert_eq!((result.drops.input_records, result.drops.dropped_hidden, result.output_records), (200, 100, 100));
    for file in &result.new_files() {
        assert_eq!((file.epoch_number, file.oldest_ancester_time, file.file_creation_time), (1, 101, 1000));
        assert_eq!((file.smallest_sequence.0, file.largest_sequence.0), (0, 0), "zeroed at the bottom");
        assert!(file.file_size > 0 && file.unique_id != [0, 0]);
        assert_eq!(
            world.env.fs().file_size(&PathBuf::from(format!("/db/{:06}.sst", file.number.0))).unwrap(),
            file.file_size
        );
    }
    let after = apply(&world, &version, &plan, &result.new_files());
    assert_eq!(world.visible(&after, u64::MAX >> 8), before);
}

/// Gives the open table of one file where another is asked for, as a disk does that lost a write.
struct Swapped {
    tables: Arc<dyn TableSource>,
    shown: NewFile,
}

impl TableSource for Swapped {
    fn open(&self, file: &FileMetaData, policy: OpenPolicy) -> Result<Arc<OpenTable>> {
        self.tables.open(file, policy)
    }

    fn read_back(&self, _: &FileMetaData) -> Result<Arc<OpenTable>> {
        self.tables.read_back(&FileMetaData::new(self.shown.clone()))
    }
}

#[test]
fn outputs_that_do_not_hold_what_was_added_fail_the_job() {
    let world = World::new();
    let put = |sequence: u64, value: &str| {
        let key = InternalKey::new(b"key", SequenceNumber(sequence), ValueType::Value);
        (key.encoded().to_vec(), value.as_bytes().to_vec())
    };
    let deletion = |end: &[u8]| RangeTombstone { start: b"a".to_vec(), end: end.to_vec(), sequence: SequenceNumber(9) };
    let input = world.table(1, &[put(5, "five"), put(4, "four")], &[deletion(b"d")]).unwrap();
    let below = world.version(&[(0, vec![input]), (3, vec![world.table(2, &[put(1, "old")], &[]).unwrap()])]);
    let swapped = |shown: &NewFile, checks| {
        // The bottommost level would change sequence numbers and drop the range deletion.
        let plan = plan(&below, &[0], 1, 10_000, 1);
        let shown = Swapped { tables: Arc::clone(&world.tables), shown: shown.clone() };
        world.run(&plan, &[4], |context| {
            context.settings.tables = Arc::new(shown);
            context.settings.checks = checks;
        })
    };
    let (none, count) = (OutputChecks::default(), OutputChecks { record_count: true, contents: false });
    let contents = OutputChecks { record_count: false, contents: true };
    let both = [put(5, "five"), put(4, "four")];
    let same = world.table(3, &both, &[deletion(b"d")]).unwrap();
    let fewer = world.table(3, &both[..1], &[deletion(b"d")]).unwrap();
    let other_value = world.table(3, &[put(5, "five"), put(4, "fOur")], &[deletion(b"d")]).unwrap();
    let other_key = world.table(3, &[put(5, "five"), put(3, "four")], &[deletion(b"d")]).unwrap();
    let other_deletion = world.table(3, &both, &[deletion(b"e")]).unwrap();
    for (shown, checks, message) in [
        (&same, OutputChecks { record_count: true, contents: true }, None),
        (&fewer, none, None),
        (&fewer, count, Some("Expected 3 but there are 2")),
        (&other_value, count, None),
        (&other_value, contents, Some("Paranoid checksums do not match")),
        (&other_key, contents, Some("Paranoid checksums do not match")),
        (&other_deletion, contents, Some("Paranoid checksums do not match")),
    ] {
        let files = world.env.fs().children(&PathBuf::from("/db")).unwrap().len();
        match (swapped(shown, checks), message) {
            (Ok(_), None) => {}
            (Err(error), Some(message)) => {
                assert_eq!(error.kind(), firn_error::ErrorKind::Corruption);
                assert!(error.to_string().contains(message), "{error}");
                assert!(error.file().is_some(), "{error}");
                assert_eq!(world.env.fs().children(&PathBuf::from("/db")).unwrap().len(), files, "the output is gone");
            }
            (outcome, message) => panic!("{message:?} expected, not {outcome:?}"),
        }
    }
}

#[test]
fn failing_jobs_leave_no_file() {
    let world = World::new();
    let operations: Vec<_> = (0..100u8).map(|at| Operation::Put(at, 500)).collect();
    let version = world.version(&[(0, write(&world, &operations, 50))]);
    let plan = plan(&version, &[0], 1, 10_000, 1);
    let files = || world.env.fs().children(&PathBuf::from("/db")).unwrap().len();
    let before = files();
    static CLOSING: AtomicBool = AtomicBool::new(true);
    let signals = StopSignals { closing: Some(&CLOSING), ..StopSignals::default() };
    let error = world.run(&plan, &[], |context| context.signals = signals).unwrap_err();
    assert_eq!((error.kind(), files()), (firn_error::ErrorKind::ShutdownInProgress, before));
}

#[test]
fn tombstones_alone_make_an_output_only_where_they_are_needed() {
    let world = World::new();
    let old = write(&world, &[Operation::Put(10, 5), Operation::Put(20, 5)], 2);
    let tombstone = RangeTombstone { start: user_key(5), end: user_key(15), sequence: SequenceNumber(9) };
    let new = world.table(7, &[], std::slice::from_ref(&tombstone)).unwrap();
    let version = world.version(&[(0, vec![new.clone()]), (3, old)]);
    let to_1 = plan(&version, &[0], 1, 10_000, 1);
    let result = world.run(&to_1, &[], |_| {}).unwrap();
    let [file] = &result.new_files()[..] else { panic!("{:?}", result.outputs) };
    assert_eq!(file.smallest, InternalKey::new(&user_key(5), SequenceNumber(9), ValueType::RangeDeletion));
    assert_eq!(file.largest, InternalKey::range_sentinel(&user_key(15)));
    let after = apply(&world, &version, &to_1, &result.new_files());
    assert_eq!(world.visible(&after, 100).len(), 1);
    let bare = world.version(&[(0, vec![new])]);
    assert!(world.run(&plan(&bare, &[0], 1, 10_000, 1), &[], |_| {}).unwrap().outputs.is_empty());
}

/// A table of range deletions over much of the level below would otherwise bind all of it in one file.
#[test]
fn outputs_end_before_range_deletions_too() {
    let world = World::new();
    let below: Vec<NewFile> = (0..10u8)
        .map(|at| write(&world, &[Operation::Put(at * 10, 5000), Operation::Put(at * 10 + 9, 5)], 2).remove(0))
        .collect();
    let tombstones: Vec<_> = (0..10u8)
        .map(|at| RangeTombstone {
            start: user_key(at * 10 + 2),
            end: user_key(at * 10 + 12),
            sequence: SequenceNumber(100 + u64::from(at)),
        })
        .collect();
    let new = world.table(7, &[], &tombstones).unwrap();
    let version = world.version(&[(0, vec![new]), (2, below)]);
    let before = world.visible(&version, u64::MAX >> 8);
    let mut cut = plan(&version, &[0], 1, 1 << 20, 1);
    cut.max_compaction_bytes = 20_000;
    let result = world.run(&cut, &[], |_| {}).unwrap();
    assert!((3..=6).contains(&result.outputs.len()), "{:?}", result.new_files());
    for file in result.new_files() {
        let bytes: u64 =
            version.overlapping_files(2, Some(&file.smallest), Some(&file.largest)).iter().map(|f| f.file_size).sum();
        assert!(bytes <= 30_000, "{file:?} lies over {bytes} bytes");
    }
    let after = apply(&world, &version, &cut, &result.new_files());
    assert_eq!(world.visible(&after, u64::MAX >> 8), before);
    // Where nothing lies below, a compaction drops them all and leaves no file.
    let bare = world.version(&[(0, vec![world.table(8, &[], &tombstones).unwrap()])]);
    assert!(world.run(&plan(&bare, &[0], 1, 1 << 20, 1), &[], |_| {}).unwrap().outputs.is_empty());
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        8 => (0u8..60, 0usize..300).prop_map(|(key, length)| Operation::Put(key, length)),
        3 => (0u8..60).prop_map(Operation::Delete),
        1 => (0u8..60, 1u8..20).prop_map(|(from, width)| Operation::DeleteRange(from, from + width)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Compactions level by level, with snapshots, splits and small outputs, change nothing for any reader.
    #[test]
    fn readers_notice_nothing(
        operations in prop::collection::vec(operation(), 1..250),
        per_table in 5usize..60,
        snapshots in prop::collection::vec(1u64..250, 0..3),
        target in 500u64..6000,
        parts in 1u32..4,
    ) {
        let world = World::new();
        let files = write(&world, &operations, per_table);
        let mut version = world.version(&[(0, files)]);
        let readers: Vec<u64> = snapshots.iter().copied().chain([1 << 40]).collect();
        let before: Vec<_> = readers.iter().map(|&at| world.visible(&version, at)).collect();
        for (inputs, output) in [(&[0usize, 2][..], 2), (&[2, 3][..], 3), (&[3, 6][..], 6), (&[6][..], 6)] {
            // The newest files stay behind the first time.
            let plan = plan(&version, inputs, output, target, parts);
            if plan.inputs.is_empty() {
                continue;
            }
            let result = world.run(&plan, &snapshots, |_| {}).unwrap();
            version = apply(&world, &version, &plan, &result.new_files());
            for (reader, before) in readers.iter().zip(&before) {
                prop_assert_eq!(&world.visible(&version, *reader), before, "reader {} level {}", reader, output);
            }
        }
    }

    /// As above, with older data left below that the compaction must not uncover.
    #[test]
    fn deleted_data_below_stays_deleted(
        old in prop::collection::vec(operation(), 1..100),
        new in prop::collection::vec(operation(), 1..100),
        snapshots in prop::collection::vec(1u64..200, 0..3),
        target in 500u64..6000,
        parts in 1u32..4,
        // Right below the output its files are grandparents, which cut it.
        bottom in 3usize..5,
        max_overlap in 1u64..20,
    ) {
        let world = World::new();
        let all: Vec<_> = old.iter().chain(&new).cloned().collect();
        let split = old.len().next_multiple_of(10);
        let files = write(&world, &all, 10);
        let below = split / 10;
        let below_files = files.iter().take(below.min(files.len())).cloned().collect::<Vec<_>>();
        let above_files = files.iter().skip(below).cloned().collect::<Vec<_>>();
        // Old files go to the bottom through a compaction of their own.
        let old_version = world.version(&[(0, below_files)]);
        let old_plan = plan(&old_version, &[0], 4, target, 1);
        let sunk = world.run(&old_plan, &snapshots, |_| {}).unwrap().new_files();
        let version = world.version(&[(0, above_files), (bottom, sunk)]);
        let readers: Vec<u64> = snapshots.iter().copied().chain([1 << 40]).collect();
        let mut plan = plan(&version, &[0], 2, target, parts);
        plan.max_compaction_bytes = target * max_overlap;
        if !plan.inputs.is_empty() {
            let before: Vec<_> = readers.iter().map(|&at| world.visible(&version, at)).collect();
            let result = world.run(&plan, &snapshots, |_| {}).unwrap();
            let after = apply(&world, &version, &plan, &result.new_files());
            for (reader, before) in readers.iter().zip(&before) {
                prop_assert_eq!(&world.visible(&after, *reader), before, "reader {}", reader);
            }
        }
    }
}
