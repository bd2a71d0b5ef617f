//! From the records of a batch to the memtables of their column families.
//!
//! Used by the write path and by WAL replay. Always true here: every counted record takes one sequence number, whether or
//! not its column family still exists or still needs it.

use std::sync::Arc;

use firn_error::{Error, Result};
use firn_format::batch::{BatchIter, Record};
use firn_format::comparator::InternalKeyComparator;
use firn_format::key::{SequenceNumber, ValueType};
use firn_format::protection::Protection;

use super::DbInner;
use super::column_family::ColumnFamilyData;
use crate::memtable::MemTable;
use crate::write::RecordProtections;

/// A column family that takes inserts.
pub(crate) struct Target {
    /// The family.
    pub(crate) data: Arc<ColumnFamilyData>,
    /// Its mutable memtable.
    pub(crate) mem: Arc<MemTable>,
    /// Whether it has a merge operator.
    pub(crate) can_merge: bool,
    /// So many merge operands of a key in the memtable make the next one a value (`max_successive_merges`); 0 never.
    pub(crate) max_successive_merges: usize,
    /// Replay only: the family already has in its tables what older WALs hold, so that nothing is inserted.
    pub(crate) skip: bool,
}

impl Target {
    #[inline]
    fn rules(&self) -> RecordRules<'_> {
        RecordRules { name: &self.data.name, comparator: &self.data.comparator, can_merge: self.can_merge }
    }

    /// Tells the memtable when its first entries came, and calls `full` if it is full and nobody said so yet.
    #[inline]
    fn after_inserts(&self, db: Option<&DbInner>, full: &mut dyn FnMut()) {
        if self.mem.oldest_key_time_secs() == u64::MAX {
            self.note_key_time(db);
        }
        if self.mem.try_schedule_flush() {
            full();
        }
    }

    #[cold]
    fn note_key_time(&self, db: Option<&DbInner>) {
        if let Some(db) = db {
            self.mem.note_key_time_secs(db.env.clock().now_secs());
        }
    }
}

/// The column families that take inserts, by ascending id.
#[derive(Default)]
pub(crate) struct Targets(Vec<Target>);

impl Targets {
    /// Targets in ascending order of their ids.
    pub(crate) fn new(mut targets: Vec<Target>) -> Self {
        targets.sort_by_key(|target| target.data.id);
        Self(targets)
    }

    /// All targets.
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Target> {
        self.0.iter()
    }

    #[inline]
    fn find(&self, id: u32) -> Option<&Target> {
        // The default column family is always there and always first.
        if let Some(first) = self.0.first().filter(|first| first.data.id == id) {
            return Some(first);
        }
        let at = self.0.binary_search_by_key(&id, |target| target.data.id).ok()?;
        self.0.get(at)
    }
}

/// Inserts `records` under sequence numbers from `first` on; returns the number after the last one. Records of column
/// families that do not exist (any more) are passed over. `full` is called once for every memtable that is full now. `db`
/// reads what merge operands are folded into, and tells the time; without it, as in recovery, operands are kept. Records that come with
/// `protections` are compared with them where they lie in the end.
///
/// # Errors
/// `NotSupported` for a record that this engine does not keep, and what
/// the memtables report. Records before the failing one are inserted.
#[inline]
pub(crate) fn insert_records(
    records: BatchIter<'_>,
    protections: RecordProtections<'_>,
    first: SequenceNumber,
    targets: &Targets,
    db: Option<&DbInner>,
    full: &mut dyn FnMut(),
) -> Result<SequenceNumber> {
    let mut sequence = first;
    let mut last: Option<&Target> = None;
    for record in records {
        let Some((cf, value_type, key, value)) = entry_of(&record?)? else { continue };
        match targets.find(cf) {
            Some(target) if !target.skip => {
                let protection = protections.of_entry(sequence.get() - first.get(), cf, sequence);
                insert_one(target, db, sequence, value_type, key, value, protection)?;
                // Most batches stay in one family, which is then asked once whether it is full.
                if let Some(left) = last.replace(target).filter(|left| !std::ptr::eq(*left, target)) {
                    left.after_inserts(db, full);
                }
            }
            _ => {}
        }
        sequence = sequence.plus(1);
    }
    if let Some(target) = last {
        target.after_inserts(db, full);
    }
    Ok(sequence)
}

/// What decides whether a column family can take a record.
pub(crate) struct RecordRules<'a> {
    /// The name of the column family.
    pub(crate) name: &'a str,
    /// The order of its keys.
    pub(crate) comparator: &'a InternalKeyComparator,
    /// Whether it has a merge operator.
    pub(crate) can_merge: bool,
}

/// Knows the rules of the column families into which records go.
pub(crate) trait FindRules {
    /// The rules of family `id`; none where its records are passed over.
    fn rules(&self, id: u32) -> Option<RecordRules<'_>>;
}

impl FindRules for Targets {
    fn rules(&self, id: u32) -> Option<RecordRules<'_>> {
        self.find(id).filter(|target| !target.skip).map(Target::rules)
    }
}

/// Whether [`insert_records`] can insert all of `records`: of a batch that it cannot, it inserts a part.
///
/// # Errors
/// `Corruption` for records that make no sense; any other kind for sound ones that need what is not there.
pub(crate) fn check_records(records: BatchIter<'_>, families: &impl FindRules) -> Result<()> {
    for record in records {
        if let Some((cf, value_type, key, value)) = entry_of(&record?)?
            && let Some(rules) = families.rules(cf)
        {
            check_entry(&rules, value_type, key, value)?;
        }
    }
    Ok(())
}

/// Column family, type, key and value.
type EntryParts<'a> = (u32, ValueType, &'a [u8], &'a [u8]);

/// The parts of a record that goes to a memtable; none of other records.
#[inline]
fn entry_of<'a>(record: &Record<'a>) -> Result<Option<EntryParts<'a>>> {
    match record {
        Record::BlobIndex { .. } => Err(not_kept("blob index")),
        Record::PutEntity { .. } => Err(not_kept("wide-column entity")),
        Record::TimedPut { .. } => Err(not_kept("timed put")),
        Record::CommitWithTimestamp { .. } => Err(not_kept("commit with timestamp")),
        record => Ok(record.entry()),
    }
}

/// Refuses what a memtable cannot make sense of.
#[inline]
fn check_entry(rules: &RecordRules<'_>, value_type: ValueType, key: &[u8], value: &[u8]) -> Result<()> {
    match value_type {
        ValueType::Merge if !rules.can_merge => Err(Error::invalid_argument(format!(
            "Merge operator is not set for column family {:?}, which has merge operands",
            rules.name
        ))),
        // Writers refuse it before it is logged.
        ValueType::RangeDeletion if rules.comparator.compare_user(key, value).is_gt() => {
            Err(Error::corruption("end key comes before start key"))
        }
        _ => Ok(()),
    }
}

#[inline]
fn insert_one(
    target: &Target,
    db: Option<&DbInner>,
    sequence: SequenceNumber,
    value_type: ValueType,
    key: &[u8],
    value: &[u8],
    protection: Option<Protection>,
) -> Result<()> {
    check_entry(&target.rules(), value_type, key, value)?;
    match value_type {
        ValueType::Merge if target.max_successive_merges > 0 => {
            let limit = target.max_successive_merges;
            if let Some(db) = db
                && target.mem.count_merge_operands(key, limit)? >= limit
                && let Some(merged) = db.merged_at_write(&target.data, sequence, key, value)
            {
                return target.mem.add(sequence, ValueType::Value, key, &merged);
            }
        }
        // An empty range deletes nothing.
        ValueType::RangeDeletion if target.data.comparator.compare_user(key, value).is_eq() => return Ok(()),
        _ => {}
    }
    target.mem.add_protected(sequence, value_type, key, value, protection)
}

fn not_kept(what: &str) -> Error {
    Error::not_supported(format!("{what} records are not supported"))
}
