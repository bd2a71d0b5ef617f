//! The state of one point lookup as it goes from the memtable down the levels.
//!
//! Memtables and tables push the entries of the key, newest first, into a [`GetContext`]; before each of them is asked for
//! points, its range tombstones are consulted with [`GetContext::cover`]. The context stops the search as soon as the
//! answer is final. [`GetContext::finish`] turns what was found into the result.
//!
//! Always true: once [`GetContext::is_done`], nothing older changes the answer.

use std::sync::Arc;

use firn_error::{Error, Result};
use firn_format::key::{ParsedInternalKey, SequenceNumber, ValueType, extract_footer};
use firn_table::{GetControl, GetSink, PinnedSlice, ValueRef};

use super::merge_context::{MergeContext, OperandOrder, missing_operator};
use crate::memtable::MemTable;
use crate::merge::MergeOperator;

/// Values up to this size are copied rather than pinned: a pin changes a reference count that other readers of the same
/// block or memtable change too, which costs more than copying as many bytes.
const COPY_BYTES: usize = 1024;

/// What the lookup is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupMode {
    /// The value.
    Value,
    /// Whether there is a value, and the sequence of the newest entry; values are not kept.
    Existence,
    /// The base value, if there is one, and the merge operands, unmerged.
    MergeOperands,
}

#[derive(Clone, Debug)]
enum State {
    /// No entry so far.
    Searching,
    /// Only merge operands so far.
    Merging,
    Found(PinnedSlice),
    Deleted,
    Failed(Error),
}

/// See the module documentation.
pub struct GetContext<'a> {
    user_key: &'a [u8],
    operator: Option<&'a dyn MergeOperator>,
    mode: LookupMode,
    state: State,
    /// Only made when a merge entry is met.
    operands: Option<MergeContext>,
    max_covering: SequenceNumber,
    newest_sequence: Option<SequenceNumber>,
    /// Range tombstones do not count.
    ignores_tombstones: bool,
}

impl<'a> GetContext<'a> {
    /// A lookup of `user_key`. The sources are asked with the lookup's sequence, so entries that arrive are visible.
    #[inline]
    pub fn new(user_key: &'a [u8], operator: Option<&'a dyn MergeOperator>, mode: LookupMode) -> Self {
        Self {
            user_key,
            operator,
            mode,
            state: State::Searching,
            operands: None,
            max_covering: SequenceNumber::ZERO,
            newest_sequence: None,
            ignores_tombstones: false,
        }
    }

    /// The same lookup, to which range tombstones do not count if `ignore` says so (`ignore_range_deletions`).
    #[inline]
    pub fn ignoring_range_tombstones(mut self, ignore: bool) -> Self {
        self.ignores_tombstones = ignore;
        self
    }

    /// The key looked up.
    pub fn user_key(&self) -> &'a [u8] {
        self.user_key
    }

    /// Tells of a visible range tombstone over the key; zero means none. Call before the points of the same source.
    #[inline]
    pub fn cover(&mut self, sequence: SequenceNumber) {
        if !self.ignores_tombstones {
            self.max_covering = self.max_covering.max(sequence);
        }
    }

    /// The newest range tombstone over the key so far; zero if there is none.
    #[inline]
    pub fn max_covering(&self) -> SequenceNumber {
        self.max_covering
    }

    /// Whether the answer is final: nothing older than the last source asked needs to be searched.
    #[inline]
    pub fn is_done(&self) -> bool {
        !matches!(self.state, State::Searching | State::Merging) || self.max_covering > SequenceNumber::ZERO
    }

    /// The sequence of the newest entry or range tombstone met.
    pub fn newest_sequence(&self) -> Option<SequenceNumber> {
        let tombstone = (self.max_covering > SequenceNumber::ZERO).then_some(self.max_covering);
        self.newest_sequence.max(tombstone)
    }

    /// Whether any entry or covering range tombstone of the key was met.
    pub fn has_met_entry(&self) -> bool {
        self.newest_sequence().is_some()
    }

    /// Whether a value was found, or merged from operands down to a base.
    #[inline]
    pub fn is_found(&self) -> bool {
        matches!(self.state, State::Found(_))
    }

    /// How many merge operands were met.
    pub fn operand_count(&self) -> usize {
        self.operands.as_ref().map_or(0, MergeContext::len)
    }

    /// Takes an error that a source met; the lookup ends with it.
    pub fn fail(&mut self, error: Error) {
        self.state = State::Failed(error);
    }

    /// Whether an error ended the lookup.
    pub fn is_failed(&self) -> bool {
        matches!(self.state, State::Failed(_))
    }

    #[inline]
    fn found(&mut self, value: ValueRef<'_>) -> GetControl {
        let base = value;
        self.state = match (&mut self.operands, self.mode) {
            (_, LookupMode::Existence) => State::Found(PinnedSlice::from(Vec::new())),
            (None, LookupMode::Value) if base.len() <= COPY_BYTES => State::Found(PinnedSlice::from(&*base)),
            (None, LookupMode::Value) => State::Found(base.pin()),
            (operands, LookupMode::MergeOperands) => {
                operands.get_or_insert_with(|| MergeContext::new(OperandOrder::NewestFirst)).push(&base);
                State::Found(PinnedSlice::from(Vec::new()))
            }
            (Some(operands), LookupMode::Value) => merged(operands, self.operator, self.user_key, Some(&base)),
        };
        GetControl::Stop
    }

    fn deleted(&mut self) -> GetControl {
        self.state = match (&self.operands, self.mode) {
            (None, _) => State::Deleted,
            (Some(operands), LookupMode::Value) => merged(operands, self.operator, self.user_key, None),
            (Some(_), _) => State::Found(PinnedSlice::from(Vec::new())),
        };
        GetControl::Stop
    }

    fn operand(&mut self, operand: ValueRef<'_>) -> GetControl {
        if self.operator.is_none() {
            return self.refuse(missing_operator());
        }
        if self.mode == LookupMode::Existence {
            // With an operator, operands always give a value.
            self.state = State::Found(PinnedSlice::from(Vec::new()));
            return GetControl::Stop;
        }
        self.state = State::Merging;
        let operands = self.operands.get_or_insert_with(|| MergeContext::new(OperandOrder::NewestFirst));
        operands.push(&operand);
        if self.mode == LookupMode::Value && operands.should_merge(self.operator) {
            self.state = merged(operands, self.operator, self.user_key, None);
            return GetControl::Stop;
        }
        GetControl::Continue
    }

    #[cold]
    fn refuse(&mut self, error: Error) -> GetControl {
        self.state = State::Failed(error);
        GetControl::Stop
    }

    /// The value, `None` if the key does not exist. For [`LookupMode::Existence`] the value is empty.
    ///
    /// # Errors
    /// What [`fail`](Self::fail) was told; `Corruption` if the merge operator refuses; `InvalidArgument` if there is none
    /// and operands were met; `NotSupported` for entries of kinds that cannot be read.
    pub fn finish(self) -> Result<Option<PinnedSlice>> {
        let state = match (self.state, &self.operands) {
            // All levels, or all that a range tombstone does not hide, are exhausted.
            (State::Merging, Some(operands)) if self.mode == LookupMode::Value => {
                merged(operands, self.operator, self.user_key, None)
            }
            (State::Merging, _) => State::Found(PinnedSlice::from(Vec::new())),
            (state, _) => state,
        };
        match state {
            State::Found(value) => Ok(Some(value)),
            State::Failed(error) => Err(error),
            State::Searching | State::Deleted | State::Merging => Ok(None),
        }
    }

    /// For [`LookupMode::MergeOperands`]: the base value if there is one, then the operands, oldest first; empty if the key
    /// does not exist.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn finish_operands(self) -> Result<Vec<Vec<u8>>> {
        if let State::Failed(error) = self.state {
            return Err(error);
        }
        Ok(self.operands.map(|o| o.operands().into_iter().map(<[u8]>::to_vec).collect()).unwrap_or_default())
    }
}

/// Asks a memtable: its range tombstones, then its points. `lookup` is the internal key for seeking. Returns whether the
/// answer is final.
#[inline]
pub fn get_from_memtable(memtable: &Arc<MemTable>, lookup: &[u8], context: &mut GetContext<'_>) -> bool {
    if memtable.has_range_deletions() {
        let snapshot = SequenceNumber(extract_footer(lookup) >> 8);
        context.cover(memtable.max_covering_tombstone(context.user_key(), snapshot));
    }
    if let Err(error) = memtable.get_pinnable(lookup, context) {
        context.fail(error);
    }
    context.is_done()
}

#[cold]
fn merged(
    operands: &MergeContext,
    operator: Option<&dyn MergeOperator>,
    user_key: &[u8],
    base: Option<&[u8]>,
) -> State {
    let mut output = Vec::new();
    match operands.merge_over(operator, user_key, base, &mut output) {
        Ok(()) => State::Found(PinnedSlice::from(output)),
        Err(error) => State::Failed(error),
    }
}

impl GetSink for GetContext<'_> {
    #[inline]
    fn accept(&mut self, key: ParsedInternalKey<'_>, value: ValueRef<'_>) -> GetControl {
        debug_assert!(matches!(self.state, State::Searching | State::Merging), "the search went on after its end");
        if self.newest_sequence.is_none() {
            self.newest_sequence = Some(key.sequence);
        }
        if key.sequence < self.max_covering {
            return self.deleted();
        }
        match key.value_type {
            ValueType::Value => self.found(value),
            ValueType::Deletion | ValueType::SingleDeletion | ValueType::DeletionWithTimestamp => self.deleted(),
            ValueType::Merge => self.operand(value),
            ValueType::ValuePreferredSeqno => match value.len().checked_sub(8) {
                Some(len) => self.found(value.truncated(len)),
                None => self.refuse(Error::corruption("value with preferred sequence number is too short")),
            },
            ValueType::BlobIndex => self.refuse(Error::not_supported("values in blob files cannot be read yet")),
            ValueType::WideColumnEntity => self.refuse(Error::not_supported("wide columns cannot be read yet")),
            other => self.refuse(Error::corruption(format!("unexpected entry of type {other:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::StringAppendOperator;
    use firn_error::{ErrorKind, SubCode};

    type Entry = (u64, ValueType, &'static str);
    use ValueType::{Deletion, Merge, SingleDeletion, Value, ValuePreferredSeqno};

    fn run(entries: &[Entry], cover: u64, mode: LookupMode, with_operator: bool) -> (Result<Option<String>>, usize) {
        let operator = StringAppendOperator::default();
        let mut context = GetContext::new(b"k", with_operator.then_some(&operator as &dyn MergeOperator), mode);
        context.cover(SequenceNumber(cover));
        let mut taken = 0;
        for &(sequence, value_type, value) in entries {
            taken += 1;
            let key = ParsedInternalKey { user_key: b"k", sequence: SequenceNumber(sequence), value_type };
            if context.accept(key, ValueRef::borrowed(value.as_bytes())) == GetControl::Stop {
                assert!(context.is_done());
                break;
            }
        }
        (context.finish().map(|v| v.map(|v| String::from_utf8(v.into_vec()).unwrap())), taken)
    }

    fn value(entries: &[Entry], cover: u64) -> Option<String> {
        run(entries, cover, LookupMode::Value, true).0.unwrap()
    }

    #[test]
    fn the_newest_entry_decides() {
        assert_eq!(value(&[], 0), None);
        assert_eq!(value(&[(5, Value, "v"), (4, Value, "w")], 0).as_deref(), Some("v"));
        assert_eq!(value(&[(5, Deletion, ""), (4, Value, "w")], 0), None);
        assert_eq!(value(&[(5, SingleDeletion, ""), (4, Value, "w")], 0), None);
        assert_eq!(value(&[(5, ValuePreferredSeqno, "v12345678")], 0).as_deref(), Some("v"));
    }

    #[test]
    fn operands_are_merged_over_what_lies_below() {
        let merges = [(9, Merge, "c"), (8, Merge, "b")];
        assert_eq!(value(&merges, 0).as_deref(), Some("b,c"));
        assert_eq!(value(&[&merges[..], &[(7, Value, "a")]].concat(), 0).as_deref(), Some("a,b,c"));
        assert_eq!(value(&[&merges[..], &[(7, Deletion, "")]].concat(), 0).as_deref(), Some("b,c"));
    }

    #[test]
    fn range_tombstones_hide_what_is_older_but_not_their_own_sequence() {
        assert_eq!(value(&[(5, Value, "v")], 6), None);
        assert_eq!(value(&[(5, Value, "v")], 5).as_deref(), Some("v"));
        assert_eq!(value(&[(9, Merge, "c"), (5, Value, "v")], 6).as_deref(), Some("c"));
    }

    #[test]
    fn existence_and_operands_do_not_merge() {
        assert_eq!(run(&[(9, Merge, "c")], 0, LookupMode::Existence, true).0.unwrap().as_deref(), Some(""));
        let operator = StringAppendOperator::default();
        let mut context = GetContext::new(b"k", Some(&operator), LookupMode::MergeOperands);
        for (sequence, value_type, value) in [(9, Merge, "c"), (8, Merge, "b"), (7, Value, "a")] {
            let key = ParsedInternalKey { user_key: b"k", sequence: SequenceNumber(sequence), value_type };
            context.accept(key, ValueRef::borrowed(value.as_bytes()));
        }
        assert_eq!(context.newest_sequence(), Some(SequenceNumber(9)));
        assert_eq!(context.finish_operands().unwrap(), [b"a", b"b", b"c"]);
    }

    #[test]
    fn failures_are_told_apart() {
        let error = run(&[(9, Merge, "c")], 0, LookupMode::Value, false).0.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let error = run(&[(9, ValueType::BlobIndex, "c")], 0, LookupMode::Value, true).0.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSupported);
        let error = run(&[(9, ValuePreferredSeqno, "c")], 0, LookupMode::Value, true).0.unwrap_err();
        assert_eq!((error.kind(), error.subcode()), (ErrorKind::Corruption, SubCode::None));
    }
}
