//! WAL replay at open: what the MANIFEST does not know yet comes back into the memtables.
//!
//! WALs flow in, memtables and level-0 tables flow out, with the edits that tell of them. Nothing is published here: the
//! edits are logged only after a new WAL exists, so that a crash in the middle leaves the database as it was.
//!
//! Always true here: a record is inserted in a column family only if its tables lack it; prepared transactions that were
//! neither committed nor rolled back stay in their WALs, which are then kept. A sound record that needs what is not there,
//! such as a merge operator or transactions of another policy, refuses the open in every recovery mode, and the directory is
//! left as it was.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use firn_env::sync::MutexGuard;
use firn_env::{FileOptions, FileSystem};
use firn_error::{Error, ErrorKind, Result};
use firn_format::batch::{BatchIter, PrepareKind, Record};
use firn_format::filename::{self, FileKind};
use firn_format::key::{FileNumber, SequenceNumber};
use firn_format::log::RecoveryMode;
use firn_format::version_edit::VersionEdit;

use super::flush::{FlushOutput, TableJob};
use super::insert::{FindRules, RecordRules, Target, Targets, check_records, insert_records};
use super::{DbInner, DbState, LiveWal};
use crate::options::{TableCreationReason, WalRecoveryMode};
use crate::write::RecordProtections;
use crate::write::replay::{ReplayBatch, ReplayOptions, ReplayedLog, WalReplay};

/// What WALs are replayed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Nothing on disk changes.
    Read,
    /// The database goes on.
    Write,
    /// No WAL stays, however sound: what is undecided in them goes to the first WAL of this run.
    Repair,
}

/// What a replay found and did.
#[derive(Default)]
pub(crate) struct Replayed {
    /// Edits to log together with the first new MANIFEST.
    pub(crate) edits: Vec<VersionEdit>,
    /// The empty batch that the first new WAL must begin with.
    pub(crate) resume_marker: Option<Vec<u8>>,
    /// Batches of prepared transactions for the first WAL.
    pub(crate) carried: Vec<Vec<u8>>,
    /// Whether what no table has yet stays in memtables.
    keep_in_memory: bool,
    /// WALs that stay alive because what they hold lies in memtables only.
    pub(crate) kept_wals: Vec<LiveWal>,
    /// What the info log should say.
    pub(crate) notices: Vec<String>,
    /// What it should warn of.
    pub(crate) warnings: Vec<String>,
    /// The tables that were written, protected until their edits are logged.
    pub(crate) outputs: Vec<FileNumber>,
    /// The job that replayed; none when there was nothing to replay.
    pub(crate) job: Option<TableJob>,
    /// The WALs that were replayed.
    pub(crate) wals: Vec<FileNumber>,
}

/// A prepared transaction whose fate is not decided yet.
#[derive(Clone)]
pub(crate) struct Prepared {
    records: Arc<[u8]>,
    wal: FileNumber,
}

/// Prepared transactions by name.
pub(crate) type PreparedTransactions = BTreeMap<Vec<u8>, Prepared>;

impl DbInner {
    /// Replays the WALs that some column family still needs.
    ///
    /// # Errors
    /// Damage that the recovery mode does not allow, and what a sound WAL needs and does not find, with file and offset;
    /// nothing on disk has changed then.
    pub(crate) fn replay_wals(&self, state: &mut MutexGuard<'_, DbState>, purpose: Purpose) -> Result<Replayed> {
        let mut replayed = Replayed::default();
        if self.options().best_efforts_recovery {
            return Ok(replayed);
        }
        match self.replay_all(state, purpose, &mut replayed) {
            Ok(()) => Ok(replayed),
            Err(error) => {
                self.remove_tables_of(state, &replayed);
                Err(error)
            }
        }
    }

    /// Removes the tables that a replay wrote before it failed. No MANIFEST names them.
    fn remove_tables_of(&self, state: &DbState, replayed: &Replayed) {
        for edit in &replayed.edits {
            let Some(family) = state.families.get(&edit.column_family) else { continue };
            for (_, file) in &edit.new_files {
                let dirs = &family.data.table_dirs;
                if let Some(dir) = dirs.get(file.path_id as usize).or(dirs.last()) {
                    // One that stays is removed by the next open that succeeds.
                    let _ = self.env.fs().remove_file(&dir.join(filename::table(file.number)));
                }
            }
        }
    }

    fn replay_all(&self, state: &mut MutexGuard<'_, DbState>, purpose: Purpose, replayed: &mut Replayed) -> Result<()> {
        let options = self.options();
        let writable = purpose != Purpose::Read;
        let mut prepared = PreparedTransactions::new();
        let wals = self.wals_to_replay(state, &mut prepared)?;
        let Some(&last) = wals.last() else {
            return self.undecided_transactions(state, &prepared, purpose, replayed);
        };
        let table_job = TableJob { id: state.new_job_id(), reason: TableCreationReason::Recovery };
        replayed.job = Some(table_job);
        replayed.wals.clone_from(&wals);
        let mut replay = WalReplay::new(ReplayOptions {
            mode: recovery_mode(options.wal_recovery_mode),
            paranoid_checks: options.paranoid_checks,
            verify_predecessors: options.track_and_verify_wals,
            min_number: self.first_wal_to_replay(state),
        });
        let mut flushed: BTreeMap<u32, bool> = BTreeMap::new();
        let mut sizes = Vec::new();
        let mut stopped_offset = 0;
        let mut empty_wals = Vec::new();
        for &number in &wals {
            state.versions.numbers().mark_used(number);
            let path = self.layout.wal(number);
            sizes.push(LiveWal { number, size_bytes: self.env.fs().file_size(&path)? });
            let mut targets = self.replay_targets(state, number);
            let mut full = Vec::new();
            let (expected, mut first) = (replay.next_sequence(), None);
            let log = replay.replay(&**self.env.fs(), &path, number, &mut |batch| {
                if !batch.timestamp_sizes.is_empty() {
                    return Ok(Err(Error::not_supported("WAL records with user-defined timestamps")));
                }
                first.get_or_insert(batch.sequence);
                let applied = apply_batch(batch.data, batch.sequence, number, &targets, &mut prepared)?;
                if writable {
                    full.extend(targets.iter().filter(|target| target.mem.should_flush()).map(|t| t.data.id));
                    for id in full.drain(..) {
                        self.flush_recovered(state, id, table_job, replayed)?;
                        flushed.insert(id, true);
                        targets = self.replay_targets(state, number);
                    }
                }
                Ok(applied)
            })?;
            note(&mut replayed.notices, number, &log);
            match (expected, first) {
                (_, None) => empty_wals.push(number),
                (Some(expected), Some(first)) if first > expected => {
                    note_gap(replayed, (expected, first), &std::mem::take(&mut empty_wals), number);
                }
                _ => empty_wals.clear(),
            }
            let stop = log.notices.iter().rev().find(|notice| !notice.ignored);
            stopped_offset = stop.and_then(|notice| notice.error.offset()).unwrap_or(stopped_offset);
            if let Some(next) = replay.next_sequence() {
                state.versions.set_last_sequence(SequenceNumber(next.get().saturating_sub(1)));
            }
        }
        if let Some(at) = replay.stopped_at().filter(|_| replay.is_stopped()) {
            check_consistency_after_stop(state, at)
                .map_err(|error| error.with_file(self.layout.wal(at)).with_offset(stopped_offset))?;
        }
        replayed.resume_marker = replay.resume_marker().map(|marker| marker.to_vec());
        state.versions.numbers().mark_used(last);
        self.undecided_transactions(state, &prepared, purpose, replayed)?;
        if writable {
            // What stays in memory is read from its WALs again, and would meet the damage again, beyond which other families
            // may have tables by then.
            replayed.keep_in_memory =
                options.avoid_flush_during_recovery && !options.allow_2pc && replay.stopped_at().is_none();
            self.finish_replay(state, (purpose, table_job), last, &flushed, sizes, replayed)?;
        }
        Ok(())
    }

    /// WALs below this hold nothing that the tables lack.
    fn first_wal_to_replay(&self, state: &DbState) -> FileNumber {
        let kept = state.versions.min_log_number_to_keep();
        if self.options().allow_2pc { kept } else { kept.max(state.versions.min_log_number_with_unflushed_data()) }
    }

    /// The WALs to read, ascending. Older ones that are there for prepared transactions only are looked through for these.
    fn wals_to_replay(&self, state: &DbState, prepared: &mut PreparedTransactions) -> Result<Vec<FileNumber>> {
        let options = self.options();
        let from = self.first_wal_to_replay(state);
        let kept = state.versions.min_log_number_to_keep();
        let names = match self.env.fs().children(&self.layout.wal_dir) {
            Ok(names) => names,
            Err(error) if error.is_path_not_found() => Vec::new(),
            Err(error) => return Err(error),
        };
        let mut wals: Vec<FileNumber> = names
            .iter()
            .filter_map(|name| filename::parse(name))
            .filter(|parsed| parsed.kind == FileKind::Wal)
            .map(|parsed| parsed.number)
            .filter(|number| *number >= kept)
            .collect();
        wals.sort_unstable();
        if let Some(last) = wals.last() {
            last.checked("number of a WAL").map_err(|error| error.with_file(self.layout.wal(*last)))?;
        }
        let older = wals.partition_point(|number| *number < from);
        for number in wals.drain(..older) {
            collect_prepared(&**self.env.fs(), &self.layout.wal(number), number, prepared)?;
        }
        if options.track_and_verify_wals_in_manifest {
            let size = |number| self.env.fs().file_size(&self.layout.wal(number)).ok();
            state.versions.wals().check(size)?;
        }
        Ok(wals)
    }

    fn replay_targets(&self, state: &DbState, wal: FileNumber) -> Targets {
        let target = |family: &super::column_family::FamilyState| Target {
            data: Arc::clone(&family.data),
            mem: Arc::clone(&family.mem),
            can_merge: family.data.options().merge_operator.is_some(),
            max_successive_merges: 0,
            skip: state.versions.family(family.data.id).is_some_and(|versions| versions.log_number() > wal),
        };
        Targets::new(state.families.values().map(target).collect())
    }

    /// Writes the memtable of a family to level 0 and gives it an empty one. The edit is kept for later.
    fn flush_recovered(
        &self,
        state: &mut MutexGuard<'_, DbState>,
        id: u32,
        table_job: TableJob,
        replayed: &mut Replayed,
    ) -> Result<()> {
        let earliest = state.versions.last_sequence();
        let epoch = state.versions.family_mut(id).map_or(0, |family| family.new_epoch_number());
        let Some(family) = state.families.get_mut(&id) else { return Ok(()) };
        let fresh = family.new_memtable(earliest);
        let full = std::mem::replace(&mut family.mem, fresh);
        let data = Arc::clone(&family.data);
        let number = state.versions.new_file_number();
        replayed.outputs.push(number);
        let output = FlushOutput { number, epoch_number: epoch, snapshots: Vec::new(), job: table_job };
        let mut edit = VersionEdit { column_family: id, ..VersionEdit::default() };
        let table = self.write_level_0(state, &data, &[full], &output)?;
        if let Some(file) = table {
            edit.add_file(0, file.file);
        }
        replayed.edits.push(edit);
        Ok(())
    }

    /// Decides for every family what is flushed and which WALs are still needed.
    fn finish_replay(
        &self,
        state: &mut MutexGuard<'_, DbState>,
        (purpose, table_job): (Purpose, TableJob),
        last: FileNumber,
        flushed: &BTreeMap<u32, bool>,
        wals: Vec<LiveWal>,
        replayed: &mut Replayed,
    ) -> Result<()> {
        let options = self.options();
        let ids: Vec<u32> = state.families.keys().copied().collect();
        let next_log = FileNumber(last.0 + 1);
        let mut any_kept = false;
        for id in ids {
            let needs_logs = state.versions.family(id).is_some_and(|family| family.log_number() <= last);
            let Some(family) = state.families.get(&id).filter(|_| needs_logs) else { continue };
            let was_flushed = flushed.contains_key(&id);
            if !family.mem.is_empty() {
                if replayed.keep_in_memory && !was_flushed {
                    any_kept = true;
                    continue;
                }
                self.flush_recovered(state, id, table_job, replayed)?;
            }
            replayed.edits.push(VersionEdit {
                column_family: id,
                log_number: Some(next_log),
                ..VersionEdit::default()
            });
        }
        let undecided = state.oldest_prepared_wal;
        if any_kept || undecided.is_some() {
            self.sync_replayed_wals(&wals)?;
            replayed.kept_wals = wals;
        }
        let keeps_prepared = options.allow_2pc && purpose != Purpose::Repair;
        if !any_kept && !keeps_prepared && undecided.is_none() {
            // The replayed WALs are going to be deleted: a MANIFEST that tracks them must forget them in the same breath.
            let wal_deletion = options.track_and_verify_wals_in_manifest.then_some(next_log);
            replayed.edits.push(VersionEdit {
                min_log_number_to_keep: Some(next_log),
                wal_deletion,
                ..VersionEdit::default()
            });
        }
        Ok(())
    }

    /// Makes WALs that stay durable: what was read from them may so far be in the page cache only, and synced writes of this
    /// run come behind it in another WAL.
    fn sync_replayed_wals(&self, wals: &[LiveWal]) -> Result<()> {
        let fs = self.env.fs();
        for wal in wals {
            let mut file = fs.reopen_writable_file(&self.layout.wal(wal.number), &FileOptions::default())?;
            file.fsync()?;
            file.close()?;
        }
        fs.new_directory(&self.layout.wal_dir)?.fsync()
    }

    /// Remembers the oldest WAL that holds an undecided prepared transaction; such WALs are never deleted.
    fn undecided_transactions(
        &self,
        state: &mut MutexGuard<'_, DbState>,
        prepared: &PreparedTransactions,
        purpose: Purpose,
        replayed: &mut Replayed,
    ) -> Result<()> {
        if prepared.is_empty() {
            return Ok(());
        }
        if !self.options().allow_2pc {
            return refuse_undecided(prepared);
        }
        if purpose == Purpose::Repair {
            let sequence = state.versions.last_sequence().plus(1);
            let batches = prepared.iter().map(|(xid, transaction)| prepared_batch(xid, &transaction.records, sequence));
            replayed.carried = batches.collect::<Result<_>>()?;
            return Ok(());
        }
        state.oldest_prepared_wal = prepared.values().map(|transaction| transaction.wal).min();
        for (xid, transaction) in prepared {
            replayed.notices.push(format!(
                "prepared transaction {} in WAL {} is undecided; its WAL is kept",
                xid.escape_ascii(),
                transaction.wal
            ));
        }
        Ok(())
    }
}

/// Prepared transactions that nobody keeps would be lost.
pub(crate) fn refuse_undecided(prepared: &PreparedTransactions) -> Result<()> {
    match prepared.values().next() {
        None => Ok(()),
        Some(_) => Err(Error::not_supported(
            "the WAL holds prepared transactions that are neither committed nor rolled back; open with allow_2pc to keep \
             them",
        )),
    }
}

/// A prepared transaction as it was logged.
fn prepared_batch(xid: &[u8], records: &[u8], sequence: SequenceNumber) -> Result<Vec<u8>> {
    let count = firn_format::batch::count(&as_batch(records)?);
    let mut batch = firn_format::batch::header(sequence, count).to_vec();
    firn_format::batch::append_begin_prepare(&mut batch, PrepareKind::WriteCommitted);
    batch.extend_from_slice(records);
    firn_format::batch::append_end_prepare(&mut batch, xid);
    Ok(batch)
}

/// Inserts a batch, setting prepared sections aside until their commit record comes: all of it or, with the inner error,
/// nothing.
fn apply_batch(
    data: &[u8],
    sequence: SequenceNumber,
    wal: FileNumber,
    targets: &Targets,
    prepared: &mut PreparedTransactions,
) -> Result<Result<SequenceNumber>> {
    if holds_transaction_markers(data)? {
        let mut changed = prepared.clone();
        let (insertions, next) = match insertions_of(data, sequence, wal, targets, &mut changed) {
            Ok(planned) => planned,
            Err(error) => return Ok(Err(error)),
        };
        *prepared = changed;
        for (batch, first) in insertions {
            insert_batch(&batch, first, targets)?;
        }
        return Ok(Ok(next));
    }
    match check_batch(data, sequence, targets) {
        Ok(_) => insert_batch(data, sequence, targets).map(Ok),
        Err(error) => Ok(Err(error)),
    }
}

/// Collects the prepared transactions that a WAL leaves undecided. All else in it is in tables already, so that damage to it
/// does not matter.
///
/// # Errors
/// `NotSupported` for transactions of other policies than write-committed; the file system's.
fn collect_prepared(
    fs: &dyn FileSystem,
    path: &Path,
    number: FileNumber,
    prepared: &mut PreparedTransactions,
) -> Result<()> {
    let mut replay = WalReplay::new(ReplayOptions {
        mode: RecoveryMode::SkipAnyCorruptedRecords,
        min_number: number,
        ..ReplayOptions::default()
    });
    let mut sink =
        |batch: ReplayBatch<'_>| Ok(check_wal_batch(batch.data, batch.sequence, number, &NoFamilies, prepared));
    match replay.replay(fs, path, number, &mut sink) {
        Err(error) if !error.is_corruption() => Err(error),
        _ => Ok(()),
    }
}

/// Passes over all records.
struct NoFamilies;

impl FindRules for NoFamilies {
    fn rules(&self, _id: u32) -> Option<RecordRules<'_>> {
        None
    }
}

/// Whether a batch of a WAL can be inserted; gives the sequence number after its records.
///
/// # Errors
/// `Corruption` if the batch is damaged; any other kind if it is sound and needs what is not there.
pub(crate) fn check_wal_batch(
    data: &[u8],
    sequence: SequenceNumber,
    wal: FileNumber,
    families: &impl FindRules,
    prepared: &mut PreparedTransactions,
) -> Result<SequenceNumber> {
    if !holds_transaction_markers(data)? {
        return check_batch(data, sequence, families);
    }
    insertions_of(data, sequence, wal, families, prepared).map(|(_, next)| next)
}

/// Batches to insert, each with the number of its first record.
type Insertions = Vec<(Vec<u8>, SequenceNumber)>;

/// What a batch with transaction markers puts into memtables, which was checked, and the number after those that it takes.
fn insertions_of(
    data: &[u8],
    sequence: SequenceNumber,
    wal: FileNumber,
    families: &impl FindRules,
    prepared: &mut PreparedTransactions,
) -> Result<(Insertions, SequenceNumber)> {
    let mut insertions = Insertions::new();
    let mut next = sequence;
    let mut section: Option<Vec<u8>> = None;
    for record in BatchIter::new(data)? {
        let record = record?;
        match (&record, &mut section) {
            (Record::BeginPrepare(_) | Record::Commit { .. } | Record::Rollback { .. }, Some(_)) => {
                return Err(unpaired());
            }
            (Record::BeginPrepare(PrepareKind::WriteCommitted), None) => section = Some(Vec::new()),
            (Record::BeginPrepare(kind), _) => {
                // What these prepared may be in tables already, decided or not: only who knows the undecided ones can tell
                // what of the tables counts.
                return Err(Error::not_supported(format!(
                    "transactions of the {} policy, which the WAL holds",
                    if matches!(kind, PrepareKind::WritePrepared) { "write-prepared" } else { "write-unprepared" }
                )));
            }
            (Record::EndPrepare { xid }, open) => {
                let records = open.take().ok_or_else(unpaired)?;
                prepared.insert(xid.to_vec(), Prepared { records: records.into(), wal });
            }
            (Record::Commit { xid }, _) => {
                if let Some(Prepared { records, .. }) = prepared.remove(*xid) {
                    let batch = as_batch(&records)?;
                    let first = next;
                    next = check_batch(&batch, first, families)?;
                    insertions.push((batch, first));
                }
            }
            (Record::Rollback { xid }, _) => {
                prepared.remove(*xid);
            }
            (record, Some(section)) => record.encode(section),
            (record, None) => {
                let mut one = Vec::new();
                record.encode(&mut one);
                let batch = as_batch(&one)?;
                let first = next;
                next = check_batch(&batch, first, families)?;
                insertions.push((batch, first));
            }
        }
    }
    if section.is_some() { Err(unpaired()) } else { Ok((insertions, next)) }
}

#[cold]
fn unpaired() -> Error {
    Error::corruption("a batch with one end of a prepared section and not the other")
}

fn holds_transaction_markers(data: &[u8]) -> Result<bool> {
    for record in BatchIter::new(data)? {
        let marker = matches!(
            record?,
            Record::BeginPrepare(_) | Record::EndPrepare { .. } | Record::Commit { .. } | Record::Rollback { .. }
        );
        if marker {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Refuses a batch that cannot be inserted to its end; gives the sequence number after its records.
fn check_batch(batch: &[u8], first: SequenceNumber, families: &impl FindRules) -> Result<SequenceNumber> {
    check_records(BatchIter::new(batch)?, families)?;
    after(first, firn_format::batch::count(batch).into())
}

/// Inserts a batch that was checked.
fn insert_batch(batch: &[u8], first: SequenceNumber, targets: &Targets) -> Result<SequenceNumber> {
    insert_records(BatchIter::new(batch)?, RecordProtections::default(), first, targets, None, &mut || {})
}

/// The sequence number `count` after `first`.
fn after(first: SequenceNumber, count: u64) -> Result<SequenceNumber> {
    first.checked_plus(count).ok_or_else(|| {
        Error::corruption(format!("the sequence numbers of {count} records from {first} on are too large"))
    })
}

/// Puts a header before encoded records.
fn as_batch(records: &[u8]) -> Result<Vec<u8>> {
    let mut rest = records;
    let mut count = 0;
    while !rest.is_empty() {
        count += u32::from(Record::decode(&mut rest)?.is_counted());
    }
    let mut batch = firn_format::batch::header(SequenceNumber::ZERO, count).to_vec();
    batch.extend_from_slice(records);
    Ok(batch)
}

/// After a stop, no family may own tables with data that is newer than the stop: that would be a hole.
fn check_consistency_after_stop(state: &DbState, stopped_at: FileNumber) -> Result<()> {
    for family in state.versions.families() {
        let has_data = family.current().all_files().any(|(_, file)| file.file_size > 0);
        if family.log_number() > stopped_at && has_data {
            return Err(Error::new(
                ErrorKind::Corruption,
                format!(
                    "Column family inconsistency: SST file contains data beyond the point of corruption in CF {}. WAL \
                     recovery stopped at corruption point, but SST files contain newer data.",
                    family.spec().name
                ),
            ));
        }
    }
    Ok(())
}

fn recovery_mode(mode: WalRecoveryMode) -> RecoveryMode {
    match mode {
        WalRecoveryMode::TolerateCorruptedTailRecords => RecoveryMode::TolerateCorruptedTailRecords,
        WalRecoveryMode::AbsoluteConsistency => RecoveryMode::AbsoluteConsistency,
        WalRecoveryMode::PointInTimeRecovery => RecoveryMode::PointInTime,
        WalRecoveryMode::SkipAnyCorruptedRecords => RecoveryMode::SkipAnyCorruptedRecords,
    }
}

/// Says that sequence numbers from `gap.0` to before `gap.1` are in no WAL. Neither RocksDB nor Firn refuses that in any
/// recovery mode, since writes without a WAL leave such gaps too; but where a WAL in between is empty it is suspicious.
fn note_gap(replayed: &mut Replayed, gap: (SequenceNumber, SequenceNumber), empty: &[FileNumber], before: FileNumber) {
    let missing = format!("Sequence numbers {} to {} are in no WAL before {before}", gap.0.get(), gap.1.get() - 1);
    if empty.is_empty() {
        replayed.notices.push(format!("{missing}; writes without a WAL leave such gaps"));
        return;
    }
    let empty: Vec<String> = empty.iter().map(FileNumber::to_string).collect();
    replayed.warnings.push(format!(
        "{missing}, and nothing is in WAL {}: unless these were writes without a WAL, they are lost. With \
         track_and_verify_wals such a database is refused",
        empty.join(", ")
    ));
}

fn note(notices: &mut Vec<String>, number: FileNumber, log: &ReplayedLog) {
    notices.push(format!("Recovered {} batches from WAL {number}", log.batches));
    for notice in &log.notices {
        let what = if notice.ignored { "ignored" } else { "stopped at" };
        notices.push(format!("{what} damage, {} bytes dropped: {}", notice.dropped_bytes, notice.error));
    }
}
