//! Carrying a plan out: reading the inputs, applying the drop rules, writing outputs.
//!
//! In flows a [`CompactionPlan`] of kind [`Merge`](super::picker::CompactionWork::Merge) and what the database knows
//! (snapshots, options, where files go); out flow the descriptions of new files, durable and in key order, for one
//! version edit. The job holds no lock and changes nothing but its own new files; if it fails they are removed.
//!
//! A plan may be split in ranges of user keys that run at the same time, each with inputs and outputs of its own.
//!
//! Always true here: outputs of one job do not overlap; no user key is in two of them (files that were moved from level 0
//! may share one); every input entry is read once.

use std::sync::Arc;

use firn_env::thread;
use firn_error::{Error, Result};
use firn_format::comparator::InternalKeyComparator;
use firn_format::iterator::InternalIterator;
use firn_format::key::{FileNumber, InternalKey, SequenceNumber, extract_user_key};
use firn_format::range_tombstone::FragmentedRangeTombstones;
use firn_format::version_edit::NewFile;
use firn_table::{ReadAheadOptions, ReadThrottle, TableReadOptions};

use super::bounded::BoundedIterator;
use super::cutter::OutputCutter;
use super::deeper::DeeperLevels;
use super::filter::{
    CompactionFilter, CompactionFilterFactory, FilterContext, TableCreationReason, check_ignores_snapshots,
};
use super::iterator::{CompactionIterator, DropRules, DropStats};
use super::output::{FinishedTable, OutputSettings, OutputTimes, TableOutput};
use super::picker::CompactionPlan;
use super::split;
use super::stop::StopSignals;
use super::tombstones::{
    CompactionTombstones, OutputBounds, OutputTombstones, SnapshotStripes, TombstoneDropRules, output_tombstones,
};
use crate::db::workers::Workers;
use crate::merge::MergeOperator;
use crate::read::MergingIterator;
use crate::read::tombstone_cover::{Edge, TombstoneWindow};
use crate::stats::events::{CompactionJobStats, SubcompactionJobInfo};
use crate::stats::{EventListener, Listeners};
use crate::version::{FileMetaData, LevelIterator, OpenPolicy, RunIterator, TableSource};

/// Everything a job needs beside its plan.
pub(crate) struct CompactionContext<'a> {
    /// Opens the inputs.
    pub(crate) tables: Arc<dyn TableSource>,
    /// Where and how outputs are written.
    pub(crate) settings: OutputSettings,
    /// Live snapshots.
    pub(crate) snapshots: Vec<SequenceNumber>,
    /// The oldest snapshot that guards a transaction; the maximum without one.
    pub(crate) write_conflict_boundary: SequenceNumber,
    /// Combines operands.
    pub(crate) merge_operator: Option<Arc<dyn MergeOperator>>,
    /// Asked about entries; wins over the factory.
    pub(crate) filter: Option<Arc<dyn CompactionFilter>>,
    /// Makes a filter for each part.
    pub(crate) filter_factory: Option<Arc<dyn CompactionFilterFactory>>,
    /// Whether the column family is leveled: outputs align with grandparents, deeper levels can be looked at.
    pub(crate) leveled: bool,
    /// Files may still be ingested below everything.
    pub(crate) allow_ingest_behind: bool,
    /// A single deletion over a deletion fails the job.
    pub(crate) enforce_single_del_contracts: bool,
    /// Compare the number of entries read with what the inputs' properties say.
    pub(crate) verify_record_count: bool,
    /// How much is read ahead of the merge, in bytes (`compaction_readahead_size`).
    pub(crate) readahead_bytes: usize,
    /// No part of a split job gets less than this many bytes (the target size of outputs).
    pub(crate) min_part_bytes: u64,
    /// For round-robin: where outputs of the output level end.
    pub(crate) output_cursor: Option<InternalKey>,
    /// Input files of the output level that outlived half their time to live; they get outputs of their own.
    pub(crate) old_files: Vec<Arc<FileMetaData>>,
    /// Hands out file numbers; the files are protected from the removal of obsolete files until the edit is applied.
    pub(crate) new_file_number: &'a (dyn Fn() -> FileNumber + Sync),
    /// What ends the job early.
    pub(crate) signals: StopSignals<'a>,
    /// Who is told of the parts.
    pub(crate) listeners: Listeners,
    /// What they are told of every part.
    pub(crate) part_info: SubcompactionJobInfo,
    /// Where the threads of parts enter.
    pub(crate) workers: Option<&'a Workers>,
}

/// What a job did.
#[derive(Clone, Debug, Default)]
pub(crate) struct CompactionResult {
    /// New files of the output level, in key order.
    pub(crate) outputs: Vec<FinishedTable>,
    /// What was read and dropped.
    pub(crate) drops: DropStats,
    /// Entries written, range tombstones included.
    pub(crate) output_records: u64,
    /// Ranges that ran at the same time.
    pub(crate) parts: usize,
    /// Processor time of all parts, in microseconds.
    pub(crate) cpu_micros: u64,
}

impl CompactionResult {
    /// The new files for the version edit.
    pub(crate) fn new_files(&self) -> Vec<NewFile> {
        self.outputs.iter().map(|output| output.file.clone()).collect()
    }

    /// Bytes of the new files.
    pub(crate) fn output_bytes(&self) -> u64 {
        self.outputs.iter().map(|output| output.file.file_size).sum()
    }
}

/// Runs the plan.
///
/// # Errors
/// Damage in the inputs, failures of files, what filters and merge operators cause, and raised signals. New files are then
/// removed.
pub(crate) fn run(plan: &CompactionPlan, context: &CompactionContext<'_>) -> Result<CompactionResult> {
    let job = Job::new(plan, context)?;
    let mut starts = vec![None];
    starts.extend(job.part_boundaries()?.into_iter().map(Some));
    let ends = starts.iter().skip(1).cloned().chain([None]).collect::<Vec<_>>();
    let parts: Vec<Part> =
        (0..).zip(starts.into_iter().zip(ends)).map(|(number, (start, end))| Part { number, start, end }).collect();
    let results = job.run_parts(&parts);
    let (mut result, mut first_error) = (CompactionResult { parts: parts.len(), ..CompactionResult::default() }, None);
    for part in results {
        result.outputs.extend(part.outputs);
        result.output_records += part.output_records;
        result.cpu_micros += part.cpu_micros;
        add_drops(&mut result.drops, &part.drops);
        if let Err(error) = part.outcome {
            first_error.get_or_insert(error);
        }
    }
    let outcome = match first_error {
        Some(error) => Err(error),
        None => job.check_record_count(&result.drops).and_then(|()| job.sync_directory(&result)),
    };
    if let Err(error) = outcome {
        for output in &result.outputs {
            let path = context.settings.directory.join(firn_format::filename::table(output.file.number));
            // What stays behind goes with the next removal of obsolete files.
            let _ = context.settings.fs.remove_file(&path);
            context.settings.file_manager.on_delete_file(&path);
        }
        return Err(error);
    }
    Ok(result)
}

fn add_drops(sum: &mut DropStats, part: &DropStats) {
    sum.input_records += part.input_records;
    sum.input_key_bytes += part.input_key_bytes;
    sum.input_value_bytes += part.input_value_bytes;
    sum.input_deletions += part.input_deletions;
    sum.dropped_hidden += part.dropped_hidden;
    sum.dropped_obsolete += part.dropped_obsolete;
    sum.dropped_range_deleted += part.dropped_range_deleted;
    sum.dropped_by_filter += part.dropped_by_filter;
    sum.single_delete_mismatches += part.single_delete_mismatches;
    sum.single_delete_fallthroughs += part.single_delete_fallthroughs;
    sum.merge_failures += part.merge_failures;
    sum.dropped_range_tombstones += part.dropped_range_tombstones;
    sum.filter_skips += part.filter_skips;
}

/// A range of user keys, `[start, end)`.
struct Part {
    number: u32,
    start: Option<Vec<u8>>,
    end: Option<Vec<u8>>,
}

/// What became of a part; its outputs exist also when it failed.
struct PartResult {
    outputs: Vec<FinishedTable>,
    drops: DropStats,
    output_records: u64,
    cpu_micros: u64,
    outcome: Result<()>,
}

struct Job<'a> {
    plan: &'a CompactionPlan,
    context: &'a CompactionContext<'a>,
    order: InternalKeyComparator,
    stripes: SnapshotStripes,
    bottommost: bool,
    windows: Vec<TombstoneWindow>,
    /// All range tombstones in fragments, for the outputs.
    fragments: FragmentedRangeTombstones,
}

impl<'a> Job<'a> {
    fn new(plan: &'a CompactionPlan, context: &'a CompactionContext<'a>) -> Result<Self> {
        check_ignores_snapshots(context.filter.as_ref())?;
        let order = plan.version.order().clone();
        let mut windows = Vec::new();
        for input in &plan.inputs {
            for (index, file) in input.files.iter().enumerate() {
                let table = context.tables.table(file, OpenPolicy::MayOpen)?;
                if let Some(tombstones) = &table.tombstones {
                    let unit =
                        if input.level == 0 { index..index + 1 } else { atomic_unit(&input.files, index, &order) };
                    let (Some(first), Some(last)) = (input.files.get(unit.start), input.files.get(unit.end - 1)) else {
                        continue;
                    };
                    windows.push(TombstoneWindow {
                        tombstones: Some(Arc::clone(tombstones)),
                        from: Some(Edge::before(first.smallest.user_key())),
                        until: Some(Edge::above_largest(&last.largest)),
                    });
                }
            }
        }
        let fragments = CompactionTombstones::new(order.clone(), windows.clone()).fragments();
        Ok(Self {
            plan,
            context,
            stripes: SnapshotStripes::new(context.snapshots.clone()),
            bottommost: plan.bottommost && !context.allow_ingest_behind,
            order,
            windows,
            fragments,
        })
    }

    fn read_options(&self) -> TableReadOptions {
        let files = &self.context.settings.file_options;
        let throttle = |limiter| ReadThrottle { limiter, priority: files.rate_limiter_priority };
        TableReadOptions {
            throttle: files.rate_limiter.clone().map(throttle),
            total_order_seek: true,
            // Blocks that are about to be rewritten would only push others out.
            fill_cache: false,
            readahead: ReadAheadOptions { fixed_bytes: self.context.readahead_bytes, ..ReadAheadOptions::default() },
            ..TableReadOptions::default()
        }
    }

    fn part_boundaries(&self) -> Result<Vec<Vec<u8>>> {
        if self.plan.max_subcompactions < 2 {
            return Ok(Vec::new());
        }
        let options = self.read_options();
        let mut anchors = Vec::new();
        for (_, file) in self.plan.input_files() {
            let table = self.context.tables.table(file, OpenPolicy::MayOpen)?;
            anchors.extend(table.reader.anchors(&options)?);
        }
        Ok(split::boundaries(anchors, self.plan.max_subcompactions, self.context.min_part_bytes, &self.order))
    }

    /// Runs the parts, the first in this thread.
    fn run_parts(&self, parts: &[Part]) -> Vec<PartResult> {
        let Some((first, others)) = parts.split_first() else { return Vec::new() };
        if others.is_empty() {
            return vec![self.run_part(first)];
        }
        thread::scope(|scope| {
            let handles: Vec<_> = others.iter().map(|part| scope.spawn(move || self.run_part(part))).collect();
            let mut results = vec![self.run_part(first)];
            for handle in handles {
                results.push(handle.join().unwrap_or_else(|_| PartResult {
                    outputs: Vec::new(),
                    drops: DropStats::default(),
                    output_records: 0,
                    cpu_micros: 0,
                    outcome: Err(Error::aborted("a part of the compaction panicked")),
                }));
            }
            results
        })
    }

    fn deeper(&self) -> DeeperLevels {
        if self.context.leveled && self.plan.output_level > 0 && !self.context.allow_ingest_behind {
            DeeperLevels::below(&self.plan.version, self.plan.output_level)
        } else {
            DeeperLevels::unknown()
        }
    }

    fn rules(&self) -> Result<DropRules> {
        let context = self.context;
        let filter = match (&context.filter, &context.filter_factory) {
            (Some(filter), _) => Some(Arc::clone(filter)),
            (None, Some(factory)) if factory.filters(TableCreationReason::Compaction) => {
                factory.create(&FilterContext {
                    is_full_compaction: self.plan.is_full_compaction(),
                    is_manual_compaction: self.plan.is_manual,
                    input_start_level: self.plan.start_level,
                    column_family_id: self.plan.column_family,
                    reason: TableCreationReason::Compaction,
                })
            }
            _ => None,
        };
        check_ignores_snapshots(filter.as_ref())?;
        Ok(DropRules {
            order: self.order.clone(),
            stripes: self.stripes.clone(),
            write_conflict_boundary: context.write_conflict_boundary,
            is_compaction: true,
            bottommost: self.bottommost,
            allow_ingest_behind: context.allow_ingest_behind,
            enforce_single_del_contracts: context.enforce_single_del_contracts,
            preserve_after: self.stripes.earliest(),
            merge_operator: context.merge_operator.clone(),
            filter,
            filter_level: self.plan.start_level,
        })
    }

    /// The merged inputs; newer runs come first.
    fn input(&self, part: &Part) -> Result<impl InternalIterator + use<>> {
        let options = self.read_options();
        let mut runs = Vec::new();
        for input in &self.plan.inputs {
            if input.level == 0 {
                for file in input.files.iter().filter(|file| self.overlaps(file, part)) {
                    let table = self.context.tables.table(file, OpenPolicy::MayOpen)?;
                    runs.push(RunIterator::Table(table.reader.iter(&options)));
                }
            } else {
                let files: Vec<_> =
                    input.files.iter().filter(|file| self.overlaps(file, part)).map(Arc::clone).collect();
                let tables = Arc::clone(&self.context.tables);
                runs.push(RunIterator::Level(LevelIterator::of_files(
                    files,
                    self.order.clone(),
                    tables,
                    options.clone(),
                )));
            }
        }
        let merged = MergingIterator::new(self.order.clone(), runs);
        Ok(BoundedIterator::new(merged, self.order.clone(), part.start.clone(), part.end.clone()))
    }

    fn overlaps(&self, file: &FileMetaData, part: &Part) -> bool {
        let starts_before_end =
            part.end.as_ref().is_none_or(|end| self.order.compare_user(file.smallest.user_key(), end).is_lt());
        let ends_after_start =
            part.start.as_ref().is_none_or(|start| self.order.compare_user(file.largest.user_key(), start).is_ge());
        starts_before_end && ends_after_start
    }

    fn run_part(&self, part: &Part) -> PartResult {
        let _at_work = self.context.workers.map(Workers::enter);
        let mut writer = PartWriter {
            job: self,
            part,
            times: self.times(part),
            cutter: OutputCutter::new(
                OutputCutter::rules_of(self.plan, self.context.leveled, self.context.output_cursor.clone()),
                self.order.clone(),
                self.plan.grandparents.clone(),
                self.context.old_files.clone(),
            ),
            deeper: self.deeper(),
            open: None,
            last_user_key: Vec::new(),
            next_fragment: self.first_fragment(part),
            outputs: Vec::new(),
            output_records: 0,
            dropped_tombstones: 0,
        };
        let mut drops = DropStats::default();
        self.tell(part, |listener, info| listener.on_subcompaction_begin(info), |_| ());
        let cpu_start = thread::cpu_nanos();
        let outcome = self.merge_part(part, &mut writer, &mut drops);
        let cpu_micros = thread::cpu_nanos().saturating_sub(cpu_start) / 1000;
        if let (Err(error), Some(open)) = (&outcome, writer.open.take()) {
            open.table.abandon(error);
        }
        let PartWriter { outputs, output_records, .. } = writer;
        self.tell(
            part,
            |listener, info| listener.on_subcompaction_completed(info),
            |info| {
                info.error = outcome.as_ref().err().cloned();
                info.stats = CompactionJobStats {
                    cpu_micros,
                    num_output_files: outputs.len() as u64,
                    num_output_records: output_records,
                    total_output_bytes: outputs.iter().map(|output| output.file.file_size).sum(),
                    ..drops.as_job_stats()
                };
            },
        );
        PartResult { outputs, drops, output_records, cpu_micros, outcome }
    }

    /// Tells listeners of a part, after `fill` completed what they are told.
    fn tell(
        &self,
        part: &Part,
        call: impl Fn(&dyn EventListener, &SubcompactionJobInfo),
        fill: impl FnOnce(&mut SubcompactionJobInfo),
    ) {
        let context = self.context;
        if context.listeners.is_empty() || context.signals.is_closing() {
            return;
        }
        let mut info = SubcompactionJobInfo {
            subcompaction_job: part.number,
            thread_id: thread::system_id(),
            ..context.part_info.clone()
        };
        fill(&mut info);
        context.listeners.tell(|listener| call(listener, &info));
    }

    /// The first fragment of the range tombstones that starts in the part.
    fn first_fragment(&self, part: &Part) -> usize {
        let fragments = self.fragments.fragments();
        let before = |start: &Vec<u8>| fragments.partition_point(|f| self.order.compare_user(&f.start, start).is_lt());
        part.start.as_ref().map_or(0, before)
    }

    fn merge_part(&self, part: &Part, writer: &mut PartWriter<'_, '_>, drops: &mut DropStats) -> Result<()> {
        let mut tombstones = CompactionTombstones::new(self.order.clone(), self.windows.clone());
        let mut deeper = self.deeper();
        let input = self.input(part)?;
        let mut entries = CompactionIterator::new(input, self.rules()?, &mut tombstones, &mut deeper, None)
            .with_signals(self.context.signals);
        entries.seek_to_first();
        while entries.valid() {
            writer.add(entries.key(), entries.value())?;
            entries.next();
        }
        *drops = *entries.stats();
        entries.status()?;
        self.context.signals.check()?;
        writer.end()?;
        drops.dropped_range_tombstones = writer.dropped_tombstones;
        drops.dropped_obsolete += writer.dropped_tombstones;
        Ok(())
    }

    /// The age of the part's outputs: from that of its oldest input to that of its newest key.
    fn times(&self, part: &Part) -> OutputTimes {
        let now = self.context.settings.now_secs;
        let inputs = || self.plan.input_files().map(|(_, file)| file).filter(|file| self.overlaps(file, part));
        let oldest = inputs().map(|file| file.try_oldest_ancester_time()).filter(|&time| time > 0).min();
        // Unknown as soon as one input does not know.
        let newest = inputs().map(|file| file.stats().map_or(0, |stats| stats.newest_key_time));
        let newest = newest.reduce(|a, b| if a == 0 || b == 0 { 0 } else { a.max(b) });
        OutputTimes {
            oldest_ancester_time: oldest.unwrap_or(now),
            oldest_key_time: 0,
            newest_key_time: newest.unwrap_or(0),
        }
    }

    fn check_record_count(&self, drops: &DropStats) -> Result<()> {
        let context = self.context;
        if !context.verify_record_count || drops.filter_skips > 0 {
            return Ok(());
        }
        let mut expected = 0u64;
        for (_, file) in self.plan.input_files() {
            let table = context.tables.table(file, OpenPolicy::MayOpen)?;
            let properties = table.reader.properties();
            if properties.num_entries == 0 {
                // A file of LevelDB or of an old RocksDB does not say how many entries it has.
                return Ok(());
            }
            // Numbers of a damaged file may be any.
            expected = expected.saturating_add(properties.num_entries.saturating_sub(properties.num_range_deletions));
        }
        if drops.input_records == expected {
            return Ok(());
        }
        Err(Error::corruption(format!(
            "Compaction number of input keys does not match number of keys processed. Expected {expected} but processed \
             {}. Compaction: {:?}",
            drops.input_records, self.plan
        )))
    }

    /// The names of the new files are durable before any edit refers to them.
    fn sync_directory(&self, result: &CompactionResult) -> Result<()> {
        if result.outputs.is_empty() {
            return Ok(());
        }
        let settings = &self.context.settings;
        settings.fs.new_directory(&settings.directory)?.fsync()
    }
}

/// The files around `index` that share boundary user keys with their neighbours: the tombstones of one count in all.
fn atomic_unit(files: &[Arc<FileMetaData>], index: usize, order: &InternalKeyComparator) -> std::ops::Range<usize> {
    let joined = |left: usize, right: usize| match (files.get(left), files.get(right)) {
        (Some(left), Some(right)) => {
            !left.largest.is_range_sentinel()
                && order.compare_user(left.largest.user_key(), right.smallest.user_key()).is_eq()
        }
        _ => false,
    };
    let (mut start, mut end) = (index, index + 1);
    while start > 0 && joined(start - 1, start) {
        start -= 1;
    }
    while joined(end - 1, end) {
        end += 1;
    }
    start..end
}

/// Writes the outputs of one part.
struct PartWriter<'j, 'a> {
    job: &'j Job<'a>,
    part: &'j Part,
    times: OutputTimes,
    cutter: OutputCutter,
    deeper: DeeperLevels,
    open: Option<OpenOutput>,
    last_user_key: Vec<u8>,
    /// The first fragment of the range tombstones that the cutter has not seen.
    next_fragment: usize,
    outputs: Vec<FinishedTable>,
    output_records: u64,
    /// Range tombstones that no output has, since nothing lies below them.
    dropped_tombstones: u64,
}

struct OpenOutput {
    table: TableOutput,
    /// Where its range tombstones begin; `None` for the first of a job.
    lower: Option<InternalKey>,
}

impl PartWriter<'_, '_> {
    #[inline]
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let user_key = extract_user_key(key);
        // Versions of one user key stay together, so that neighbouring files never share one.
        if self.open.is_none() || !self.job.order.compare_user(user_key, &self.last_user_key).is_eq() {
            if self.next_fragment < self.job.fragments.fragments().len() {
                self.pass_tombstones_before(Some(user_key))?;
            }
            let bytes = self.open.as_ref().map(|open| open.table.file_size());
            if self.cutter.must_end_before(key, bytes) {
                self.close(Some(InternalKey::range_sentinel(user_key)))?;
            }
            self.last_user_key.clear();
            self.last_user_key.extend_from_slice(user_key);
        }
        if self.open.is_none() {
            let lower = if self.outputs.is_empty() { self.part_start() } else { Some(InternalKey::from_encoded(key)?) };
            self.open = Some(self.create(lower)?);
        }
        let Some(open) = &mut self.open else { return Err(Error::aborted("no output is open")) };
        open.table.add(key, value)
    }

    /// Lets outputs end before range tombstones that start before `user_key`, or before the part's end, as before keys:
    /// a tombstone over much of the next level should not bind all of it to one file. What the bottommost level keeps binds
    /// nothing.
    #[cold]
    fn pass_tombstones_before(&mut self, user_key: Option<&[u8]>) -> Result<()> {
        let job = self.job;
        let order = &job.order;
        let limit = user_key.or(self.part.end.as_deref());
        while let Some(fragment) = job.fragments.fragments().get(self.next_fragment) {
            let start = fragment.start.as_slice();
            if limit.is_some_and(|limit| order.compare_user(start, limit).is_ge()) {
                return Ok(());
            }
            self.next_fragment += 1;
            // Before a key that the open output has there is no end any more.
            let is_passed = self.open.is_some() && order.compare_user(start, &self.last_user_key).is_le();
            if job.bottommost || job.plan.output_level == 0 || is_passed {
                continue;
            }
            let bound = InternalKey::range_sentinel(start);
            let bytes = self.open.as_ref().map(|open| open.table.file_size());
            if self.cutter.must_end_before(bound.encoded(), bytes) {
                self.close(Some(bound.clone()))?;
            }
            if self.open.is_none() {
                let lower = if self.outputs.is_empty() { self.part_start() } else { Some(bound) };
                self.open = Some(self.create(lower)?);
            }
            self.last_user_key.clear();
            self.last_user_key.extend_from_slice(start);
        }
        Ok(())
    }

    fn part_start(&self) -> Option<InternalKey> {
        self.part.start.as_ref().map(|start| InternalKey::range_sentinel(start))
    }

    fn create(&self, lower: Option<InternalKey>) -> Result<OpenOutput> {
        let number = (self.job.context.new_file_number)();
        let epoch = self.job.plan.output_epoch_number();
        Ok(OpenOutput { table: TableOutput::create(&self.job.context.settings, number, epoch, self.times)?, lower })
    }

    /// Ends the last output of the part.
    fn end(&mut self) -> Result<()> {
        self.pass_tombstones_before(None)?;
        let upper = self.part.end.as_ref().map(|end| InternalKey::range_sentinel(end));
        if self.open.is_none() && self.outputs.is_empty() {
            // No point is left; tombstones may be.
            let bounds = OutputBounds { lower: self.part_start(), upper: upper.clone(), upper_is_point: false };
            let tombstones = self.tombstones_within(&bounds);
            if tombstones.kept.is_empty() {
                self.dropped_tombstones += tombstones.dropped;
                return Ok(());
            }
            self.open = Some(self.create(bounds.lower)?);
        }
        self.close(upper)
    }

    fn tombstones_within(&self, bounds: &OutputBounds) -> OutputTombstones {
        if self.job.fragments.is_empty() {
            return OutputTombstones::default();
        }
        let rules = TombstoneDropRules {
            order: &self.job.order,
            stripes: &self.job.stripes,
            bottommost: self.job.bottommost,
            deeper: &self.deeper,
        };
        output_tombstones(&self.job.fragments, bounds, &rules)
    }

    fn close(&mut self, upper: Option<InternalKey>) -> Result<()> {
        let Some(OpenOutput { mut table, lower }) = self.open.take() else { return Ok(()) };
        let bounds = OutputBounds { lower, upper, upper_is_point: false };
        let tombstones = self.tombstones_within(&bounds);
        self.dropped_tombstones += tombstones.dropped;
        let mut covered_bytes = 0u64;
        let mut last_start: Option<InternalKey> = None;
        for output in tombstones.kept {
            if !self.job.bottommost && last_start.as_ref().is_none_or(|last| last.user_key() != output.tombstone.start)
            {
                covered_bytes = covered_bytes.saturating_add(self.bytes_below(&output.smallest, &output.largest)?);
                last_start = Some(InternalKey::range_sentinel(&output.tombstone.start));
            }
            table.add_range_tombstone(output)?;
        }
        let records = table.num_entries();
        if let Some(mut finished) = table.finish()? {
            finished.file.compensated_range_deletion_size = covered_bytes;
            self.output_records += records;
            self.outputs.push(finished);
        }
        Ok(())
    }

    /// Roughly the bytes of deeper levels that a tombstone with these bounds gets rid of.
    fn bytes_below(&self, smallest: &InternalKey, largest: &InternalKey) -> Result<u64> {
        let plan = self.job.plan;
        let begin = InternalKey::for_seek(smallest.user_key(), SequenceNumber::MAX);
        let end = InternalKey::for_seek(largest.user_key(), SequenceNumber::MAX);
        plan.version.approximate_size(&*self.job.context.tables, &begin, &end, plan.output_level + 1)
    }
}

#[cfg(test)]
#[path = "job_test.rs"]
mod tests;
