//! What the running database says of its work: lines of the event log, and calls of listeners.
//!
//! Jobs flow in, with the state that they are about; lines and calls flow out. Always true here: listeners and the info log
//! are called without the database mutex, on the thread that does the work; nothing is collected for listeners when there
//! are none; flushes and compactions are not told of once the database is closing.

use std::path::PathBuf;
use std::sync::Arc;

use firn_env::sync::MutexGuard;
use firn_env::sync::atomic::Ordering;
use firn_env::{log_event, log_info, thread};
use firn_error::Error;
use firn_format::filename;
use firn_format::key::FileNumber;

use super::column_family::ColumnFamilyData;
use super::flush::{FamilyFlush, FlushReason, FlushRequest};
use super::layout::table_path;
use super::super_version::SuperVersion;
use super::{DbInner, DbState};
use crate::compaction::job::CompactionResult;
use crate::compaction::picker::{CompactionPlan, CompactionWork};
use crate::memtable::MemTable;
use crate::stats::events::{
    CompactionFileInfo, CompactionJobInfo, CompactionJobStats, FlushJobInfo, ManualFlushInfo, MemTableInfo,
    SubcompactionJobInfo, TableCreationReason, WriteStallInfo,
};
use crate::stats::table_events::TableReporter;
use crate::stats::{EventLine, EventListener, Listeners};

/// What goes after a super version was installed, to be dropped without the mutex: the ones that readers saw before, and
/// the news for listeners that writes go differently now.
#[must_use]
#[derive(Default)]
pub(crate) struct Retired {
    super_versions: Vec<Arc<SuperVersion>>,
    listeners: Listeners,
    stall: Vec<WriteStallInfo>,
}

impl Retired {
    /// Super versions that were in force, and what changed for writers.
    pub(crate) fn new(
        super_versions: Vec<Arc<SuperVersion>>,
        listeners: &Listeners,
        stall: Option<WriteStallInfo>,
    ) -> Self {
        Self { super_versions, listeners: listeners.clone(), stall: stall.into_iter().collect() }
    }

    /// Adds what goes after another installation.
    pub(crate) fn absorb(&mut self, mut other: Self) {
        self.super_versions.append(&mut other.super_versions);
        self.stall.append(&mut other.stall);
        self.listeners = std::mem::take(&mut other.listeners);
    }
}

impl Drop for Retired {
    fn drop(&mut self) {
        for info in &self.stall {
            self.listeners.tell_calmly(|listener| listener.on_stall_conditions_changed(info));
        }
    }
}

/// Tells listeners that the last clone of a handle goes.
pub(crate) struct HandleGuard {
    pub(crate) listeners: Listeners,
    pub(crate) data: Arc<ColumnFamilyData>,
}

impl Drop for HandleGuard {
    fn drop(&mut self) {
        let (name, id) = (&self.data.name, self.data.id);
        self.listeners.tell_calmly(|listener| listener.on_column_family_handle_deletion_started(name, id));
    }
}

impl DbInner {
    /// A line of the event log about a job.
    fn line(&self, job: u64, event: &str) -> EventLine {
        EventLine::of_job(self.env.clock().now_micros(), job, event)
    }

    /// Writes a line of the event log.
    fn log_line(&self, line: EventLine) {
        log_event!(self.logger(), "{}", line.finish());
    }

    /// Whether somebody listens to flushes and compactions now.
    fn tells_jobs(&self) -> bool {
        !self.listeners.is_empty() && !self.closing.load(Ordering::Acquire)
    }

    /// Who tells of the tables that a job makes or deletes.
    pub(crate) fn table_reporter(&self, job: u64, reason: TableCreationReason, column_family: &str) -> TableReporter {
        TableReporter {
            listeners: self.listeners.clone(),
            logger: self.logger(),
            clock: Arc::clone(self.env.clock()),
            db_path: self.path.clone(),
            column_family: column_family.to_owned(),
            job,
            reason,
        }
    }

    /// Callers asked for flushes, which are queued now.
    pub(crate) fn report_scheduled_flush(&self, request: &FlushRequest) {
        if self.listeners.is_empty() {
            return;
        }
        let families = self.families.all();
        let wanted = families.iter().filter(|data| request.families.contains(&data.id));
        let infos: Vec<ManualFlushInfo> = wanted
            .map(|data| ManualFlushInfo {
                column_family_id: data.id,
                column_family: data.name.clone(),
                reason: request.reason,
            })
            .collect();
        if !infos.is_empty() {
            self.listeners.tell_calmly(|listener| listener.on_manual_flush_scheduled(&infos));
        }
    }

    /// Memtables take no more writes. The mutex is given up meanwhile, if anybody listens.
    pub(crate) fn report_sealed(&self, state: &mut MutexGuard<'_, DbState>, families: &[u32]) {
        if self.listeners.is_empty() {
            return;
        }
        let sealed = families.iter().filter_map(|id| state.families.get(id));
        let infos: Vec<MemTableInfo> = sealed
            .filter_map(|family| family.imm.first().map(|mem| (family, mem)))
            .map(|(family, mem)| MemTableInfo {
                column_family: family.data.name.clone(),
                first_sequence: mem.first_sequence().get(),
                earliest_sequence: mem.earliest_sequence().get(),
                num_entries: mem.entry_count(),
                num_deletes: mem.delete_count(),
            })
            .collect();
        MutexGuard::unlocked(state, || {
            infos.iter().for_each(|info| self.listeners.tell_calmly(|listener| listener.on_memtable_sealed(info)));
        });
    }

    /// A flush begins. Called without the mutex.
    pub(crate) fn report_flush_begin(&self, job: u64, parts: &[FamilyFlush], reason: FlushReason) {
        for part in parts {
            let sum = |number: fn(&MemTable) -> u64| part.memtables.iter().map(|mem| number(mem)).sum::<u64>();
            log_info!(
                self.logger(),
                "[{}] [JOB {job}] Flushing {} memtables, table #{} started",
                part.data.name,
                part.memtables.len(),
                part.output.number
            );
            self.log_line(
                self.line(job, "flush_started")
                    .number("num_memtables", part.memtables.len() as u64)
                    .number("total_num_input_entries", sum(MemTable::entry_count))
                    .number("num_deletes", sum(MemTable::delete_count))
                    .number("total_data_size", sum(MemTable::data_bytes))
                    .number("memory_usage", sum(|mem| mem.memory_bytes() as u64))
                    .number("num_range_deletes", sum(MemTable::range_deletion_count))
                    .text("flush_reason", reason.name()),
            );
            if self.tells_jobs() {
                let info = flush_info(job, part, reason);
                self.listeners.tell(|listener| listener.on_flush_begin(&info));
            }
        }
    }

    /// A flush has ended well and readers see its table. The mutex is given up meanwhile.
    pub(crate) fn report_flush_end(
        &self,
        state: &mut MutexGuard<'_, DbState>,
        job: u64,
        parts: &[FamilyFlush],
        reason: FlushReason,
    ) {
        let lines: Vec<EventLine> = parts
            .iter()
            .map(|part| {
                self.report_runs(job, part);
                self.line(job, "flush_finished")
                    .text("output_compression", part.data.options().compression.property_name())
                    .numbers("lsm_state", lsm_state(state, part.data.id))
                    .number(
                        "immutable_memtables",
                        state.families.get(&part.data.id).map_or(0, |family| family.imm.len()) as u64,
                    )
            })
            .collect();
        MutexGuard::unlocked(state, || {
            lines.into_iter().for_each(|line| self.log_line(line));
            if !self.tells_jobs() {
                return;
            }
            for part in parts {
                let mut info = flush_info(job, part, reason);
                if let Some(table) = part.tables.iter().next() {
                    info.file_number = table.file.number.get();
                    info.file_path = table_path(&part.data.table_dirs, table.file.path_id, table.file.number);
                    info.smallest_sequence = table.file.smallest_sequence.get();
                    info.largest_sequence = table.file.largest_sequence.get();
                    info.table_properties = Some(Arc::clone(&table.properties));
                }
                self.listeners.tell(|listener| listener.on_flush_completed(&info));
            }
        });
    }

    fn report_runs(&self, job: u64, part: &FamilyFlush) {
        let runs = &part.tables.runs;
        if !runs.is_empty() {
            let bytes: u64 = runs.iter().map(|table| table.file.file_size).sum();
            let (name, level) = (&part.data.name, part.runs.level);
            log_info!(
                self.logger(),
                "[{name}] [JOB {job}] Flushed {} insert streams of {bytes} bytes to level-{level}",
                runs.len()
            );
        }
    }

    /// What listeners are told of a compaction before its result is known.
    fn compaction_info(&self, data: &ColumnFamilyData, job: u64, plan: &CompactionPlan) -> CompactionJobInfo {
        let file = |level: usize, path_id: u32, number: FileNumber| CompactionFileInfo {
            file_path: table_path(&data.table_dirs, path_id, number),
            level: level_number(level),
            file_number: number.get(),
        };
        let at_output = plan.files_of_level(plan.output_level).len() as u64;
        CompactionJobInfo {
            column_family_id: data.id,
            column_family: data.name.clone(),
            thread_id: thread::system_id(),
            job,
            num_l0_files: plan.version.files(0).len(),
            base_input_level: level_number(plan.start_level),
            output_level: level_number(plan.output_level),
            input_files: plan.input_files().map(|(level, meta)| file(level, meta.path_id, meta.number)).collect(),
            reason: plan.reason,
            compression: plan.output_compression,
            stats: CompactionJobStats {
                num_input_files: plan.num_input_files() as u64,
                num_input_files_at_output_level: at_output,
                is_manual_compaction: plan.is_manual,
                total_input_bytes: plan.input_bytes(),
                ..CompactionJobStats::default()
            },
            ..CompactionJobInfo::default()
        }
    }

    /// What listeners are told of every part of a compaction.
    pub(crate) fn subcompaction_info(
        &self,
        data: &ColumnFamilyData,
        job: u64,
        plan: &CompactionPlan,
    ) -> SubcompactionJobInfo {
        SubcompactionJobInfo {
            column_family_id: data.id,
            column_family: data.name.clone(),
            job,
            base_input_level: level_number(plan.start_level),
            output_level: level_number(plan.output_level),
            reason: plan.reason,
            compression: plan.output_compression,
            ..SubcompactionJobInfo::default()
        }
    }

    /// A compaction begins. Called without the mutex.
    pub(crate) fn report_compaction_begin(&self, data: &ColumnFamilyData, job: u64, plan: &CompactionPlan) {
        if plan.work == CompactionWork::Merge {
            log_info!(
                self.logger(),
                "[{}] [JOB {job}] Compacting {} files to L{}, score {:.2}",
                data.name,
                counts_at_levels(plan),
                plan.output_level,
                plan.score
            );
            let oldest = self.snapshots.sequences().first().map_or(-1, |sequence| i128::from(sequence.get()));
            let mut line = self
                .line(job, "compaction_started")
                .text("cf_name", &data.name)
                .text("compaction_reason", plan.reason.name());
            for input in &plan.inputs {
                let numbers = input.files.iter().map(|file| file.number.get());
                line = line.numbers(&format!("files_L{}", input.level), numbers);
            }
            self.log_line(
                line.float("score", plan.score)
                    .number("input_data_size", plan.input_bytes())
                    .number("oldest_snapshot_seqno", oldest),
            );
        }
        if self.tells_jobs() {
            let info = self.compaction_info(data, job, plan);
            self.listeners.tell(|listener| listener.on_compaction_begin(&info));
        }
    }

    /// A compaction has written its outputs, which no reader sees yet. Called without the mutex.
    pub(crate) fn report_compaction_written(&self, data: &ColumnFamilyData, job: u64, done: &CompactionReport<'_>) {
        self.tell_compaction(data, job, done, |listener, info| listener.on_compaction_pre_commit(info));
    }

    /// A compaction has ended. The mutex is given up meanwhile.
    pub(crate) fn report_compaction_end(
        &self,
        state: &mut MutexGuard<'_, DbState>,
        data: &ColumnFamilyData,
        job: u64,
        done: &CompactionReport<'_>,
    ) {
        let levels = lsm_state(state, data.id);
        MutexGuard::unlocked(state, || {
            if let Ok(result) = done.outcome {
                self.log_compaction_end(data, job, done, result, levels);
            }
            self.tell_compaction(data, job, done, |listener, info| listener.on_compaction_completed(info));
        });
    }

    fn log_compaction_end(
        &self,
        data: &ColumnFamilyData,
        job: u64,
        done: &CompactionReport<'_>,
        result: &CompactionResult,
        levels: Vec<u64>,
    ) {
        let plan = done.plan;
        let (files, bytes) = (plan.num_input_files(), plan.input_bytes());
        match plan.work {
            CompactionWork::Merge => {
                log_info!(
                    self.logger(),
                    "[{}] [JOB {job}] Compacted {} files to L{} => {} bytes",
                    data.name,
                    counts_at_levels(plan),
                    plan.output_level,
                    result.output_bytes()
                );
                self.log_line(
                    self.line(job, "compaction_finished")
                        .number("compaction_time_micros", done.elapsed_micros)
                        .number("compaction_time_cpu_micros", result.cpu_micros)
                        .number("output_level", plan.output_level as u64)
                        .number("num_output_files", result.outputs.len() as u64)
                        .number("total_output_size", result.output_bytes())
                        .number("num_input_records", result.drops.input_records)
                        .number("num_output_records", result.output_records)
                        .number("num_subcompactions", result.parts as u64)
                        .text("output_compression", plan.output_compression.property_name())
                        .number("num_single_delete_mismatches", result.drops.single_delete_mismatches)
                        .number("num_single_delete_fallthrough", result.drops.single_delete_fallthroughs)
                        .numbers("lsm_state", levels),
                );
            }
            CompactionWork::TrivialMove => {
                log_info!(
                    self.logger(),
                    "[{}] Moved #{files} files to level-{} {bytes} bytes OK",
                    data.name,
                    plan.output_level
                );
                self.log_line(
                    self.line(job, "trivial_move")
                        .number("destination_level", plan.output_level as u64)
                        .number("files", files as u64)
                        .number("total_files_size", bytes),
                );
            }
            CompactionWork::DropFiles => log_info!(self.logger(), "[{}] Deleted {files} files", data.name),
        }
    }

    fn tell_compaction(
        &self,
        data: &ColumnFamilyData,
        job: u64,
        done: &CompactionReport<'_>,
        call: impl Fn(&dyn EventListener, &CompactionJobInfo),
    ) {
        if !self.tells_jobs() {
            return;
        }
        let plan = done.plan;
        let mut info = self.compaction_info(data, job, plan);
        info.stats.elapsed_micros = done.elapsed_micros;
        match done.outcome {
            Err(error) => info.error = Some(error.clone()),
            Ok(_) if plan.work == CompactionWork::TrivialMove => {
                info.output_files = info.input_files.clone();
                info.output_files.iter_mut().for_each(|file| file.level = info.output_level);
            }
            Ok(result) => {
                info.stats = CompactionJobStats {
                    elapsed_micros: done.elapsed_micros,
                    cpu_micros: result.cpu_micros,
                    num_output_records: result.output_records,
                    num_output_files: result.outputs.len() as u64,
                    total_output_bytes: result.output_bytes(),
                    num_input_files: info.stats.num_input_files,
                    num_input_files_at_output_level: info.stats.num_input_files_at_output_level,
                    is_manual_compaction: info.stats.is_manual_compaction,
                    total_input_bytes: info.stats.total_input_bytes,
                    ..result.drops.as_job_stats()
                };
                for output in &result.outputs {
                    let file_path = table_path(&data.table_dirs, output.file.path_id, output.file.number);
                    info.table_properties.insert(file_path.clone(), Arc::clone(&output.properties));
                    info.output_files.push(CompactionFileInfo {
                        file_path,
                        level: info.output_level,
                        file_number: output.file.number.get(),
                    });
                }
            }
        }
        self.listeners.tell(|listener| call(listener, &info));
    }

    /// The replay of WALs begins.
    pub(crate) fn report_recovery_begin(&self, job: u64, wals: &[FileNumber]) {
        self.log_line(self.line(job, "recovery_started").numbers("wal_files", wals.iter().map(|wal| wal.get())));
    }

    /// The replay of WALs has ended well.
    pub(crate) fn report_recovery_end(&self, job: u64) {
        self.log_line(self.line(job, "recovery_finished").text("status", "OK"));
    }
}

/// What a compaction came to.
pub(crate) struct CompactionReport<'a> {
    /// What it was to do.
    pub(crate) plan: &'a CompactionPlan,
    /// Wall time in microseconds.
    pub(crate) elapsed_micros: u64,
    /// What it did.
    pub(crate) outcome: Result<&'a CompactionResult, &'a Error>,
}

/// Files per level.
fn lsm_state(state: &DbState, id: u32) -> Vec<u64> {
    let family = state.versions.family(id);
    family.map(|family| family.current().levels().iter().map(|files| files.len() as u64).collect()).unwrap_or_default()
}

/// Input files per level, as `2@0 + 1@6`.
fn counts_at_levels(plan: &CompactionPlan) -> String {
    let counts: Vec<String> =
        plan.inputs.iter().map(|input| format!("{}@{}", input.files.len(), input.level)).collect();
    counts.join(" + ")
}

/// What listeners are told of a flush before its table is there.
fn flush_info(job: u64, part: &FamilyFlush, reason: FlushReason) -> FlushJobInfo {
    let options = part.data.options();
    let l0_files = i64::try_from(part.data.super_version.current().version.files(0).len()).unwrap_or(i64::MAX);
    let unknown = PathBuf::from(filename::table(FileNumber(0)));
    FlushJobInfo {
        column_family_id: part.data.id,
        column_family: part.data.name.clone(),
        file_path: part.data.table_dirs.first().map_or(unknown.clone(), |dir| dir.join(unknown)),
        thread_id: thread::system_id(),
        job,
        triggered_writes_slowdown: l0_files >= i64::from(options.level0_slowdown_writes_trigger),
        triggered_writes_stop: l0_files >= i64::from(options.level0_stop_writes_trigger),
        reason,
        ..FlushJobInfo::default()
    }
}

/// Levels as listeners count them.
fn level_number(level: usize) -> i32 {
    i32::try_from(level).unwrap_or(i32::MAX)
}
