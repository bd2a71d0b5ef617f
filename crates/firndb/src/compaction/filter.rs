//! Compaction filters: user code that changes or removes entries while compactions rewrite them.
//!
//! A filter sees the newest version of every key and every merge operand that no snapshot holds, and answers with a
//! [`FilterDecision`]. It applies regardless of snapshots: a reader with an old snapshot may see its effect.

use std::sync::Arc;

use firn_error::{Error, Result};

/// What kind of entry a filter is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FilterValueType {
    /// A plain value.
    Value,
    /// A merge operand.
    MergeOperand,
    /// A reference to a blob.
    BlobIndex,
    /// A set of named columns, serialized.
    WideColumnEntity,
}

/// What becomes of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterDecision {
    /// It stays as it is.
    Keep,
    /// It becomes a deletion. A merge operand is dropped.
    Remove,
    /// It becomes a single deletion: for keys that are put once and never overwritten.
    Purge,
    /// It gets another value.
    ChangeValue(Vec<u8>),
    /// It is dropped without a trace, and so are all entries before this key. A key that is not greater keeps the entry.
    RemoveAndSkipUntil(Vec<u8>),
}

/// User code that compactions ask about entries. One filter serves one thread at a time unless it is shared as
/// `compaction_filter`; then it must be thread-safe, which the bounds ask of all.
pub trait CompactionFilter: Send + Sync {
    /// A name for logs.
    fn name(&self) -> &str;

    /// Decides about an entry; `level` is the level that the compaction starts from.
    fn filter(&self, level: usize, user_key: &[u8], value_type: FilterValueType, existing: &[u8]) -> FilterDecision;

    /// Filters that must respect snapshots are refused with `NotSupported`.
    fn ignore_snapshots(&self) -> bool {
        true
    }
}

/// What writes a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TableCreationReason {
    /// A flush.
    Flush,
    /// A compaction.
    Compaction,
    /// Recovery from a log.
    Recovery,
    /// Anything else.
    #[default]
    Misc,
}

/// What a factory knows when it makes a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterContext {
    /// Whether all files of the column family take part.
    pub is_full_compaction: bool,
    /// Whether a caller asked for the compaction.
    pub is_manual_compaction: bool,
    /// The level that inputs come from first.
    pub input_start_level: usize,
    /// The column family.
    pub column_family_id: u32,
    /// What writes the table.
    pub reason: TableCreationReason,
}

/// Makes a filter for every part of a compaction. Thread-safe.
pub trait CompactionFilterFactory: Send + Sync {
    /// A name for logs.
    fn name(&self) -> &str;

    /// Whether tables written for this reason are filtered at all; by default compactions only.
    fn filters(&self, reason: TableCreationReason) -> bool {
        reason == TableCreationReason::Compaction
    }

    /// A filter, or `None` to leave this compaction alone.
    fn create(&self, context: &FilterContext) -> Option<Arc<dyn CompactionFilter>>;
}

/// Refuses a filter that would have to respect snapshots.
///
/// # Errors
/// `NotSupported` for such a filter.
pub(crate) fn check_ignores_snapshots(filter: Option<&Arc<dyn CompactionFilter>>) -> Result<()> {
    if filter.is_some_and(|filter| !filter.ignore_snapshots()) {
        return Err(Error::not_supported("CompactionFilter::IgnoreSnapshots() = false is not supported anymore."));
    }
    Ok(())
}
