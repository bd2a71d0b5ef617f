//! The drop rules: which entries of a merged stream a flush or a compaction writes, and in what form.
//!
//! In flows a stream of internal keys in internal order, and the snapshots that must not notice anything. Out flows the
//! stream without the entries that no snapshot can see: older versions, tombstones with nothing below them, values under
//! range tombstones, merge operands folded together; at the bottom, sequence numbers that nobody compares any more become
//! zero, which compresses better.
//!
//! An entry belongs to the *stripe* of the oldest snapshot that sees it. Of one user key, one entry per stripe suffices,
//! except for merge operands and single deletions, which are paired with what they stand on.
//!
//! Always true here: for every snapshot, and for a reader of the newest state, the output shows the same values as the
//! input on top of the same deeper levels. Per user key one key is copied; values are not.

use firn_env::sync::atomic::AtomicBool;
use std::sync::Arc;

use firn_error::{Error, Result};
use firn_format::comparator::{ComparatorKind, InternalKeyComparator};
use firn_format::iterator::InternalIterator;
use firn_format::key::{
    FOOTER_SIZE, InternalKey, ParsedInternalKey, SequenceNumber, ValueType, extract_user_key, pack_footer,
    parse_internal_key,
};

use super::deeper::DeeperLevels;
use super::filter::{CompactionFilter, FilterDecision, FilterValueType};
use super::stop::StopSignals;
use super::tombstones::{CompactionTombstones, SnapshotStripes};
use crate::merge::MergeOperator;
use crate::read::merge_context::{MergeContext, OperandOrder};
use crate::stats::events::CompactionJobStats;

#[path = "iterator_merge.rs"]
mod merge;

/// What a flush or compaction may drop.
pub(crate) struct DropRules {
    /// User key and sequence order.
    pub(crate) order: InternalKeyComparator,
    /// Live snapshots.
    pub(crate) stripes: SnapshotStripes,
    /// The oldest snapshot that guards a transaction against write conflicts; the maximum without one.
    pub(crate) write_conflict_boundary: SequenceNumber,
    /// Whether this is a compaction; flushes drop no tombstones.
    pub(crate) is_compaction: bool,
    /// Whether no deeper file overlaps the inputs; never for flushes or with `allow_ingest_behind`.
    pub(crate) bottommost: bool,
    /// Whether files may still be ingested below everything (`allow_ingest_behind`).
    pub(crate) allow_ingest_behind: bool,
    /// Whether a single deletion over a deletion fails the compaction.
    pub(crate) enforce_single_del_contracts: bool,
    /// Entries newer than this keep their sequence number at the bottom; normally the oldest snapshot.
    pub(crate) preserve_after: SequenceNumber,
    /// Combines merge operands.
    pub(crate) merge_operator: Option<Arc<dyn MergeOperator>>,
    /// User code that changes or removes entries.
    pub(crate) filter: Option<Arc<dyn CompactionFilter>>,
    /// The level that the filter is told.
    pub(crate) filter_level: usize,
}

impl DropRules {
    /// The rules of a flush.
    pub(crate) fn flush(order: InternalKeyComparator, stripes: SnapshotStripes) -> Self {
        Self {
            order,
            preserve_after: stripes.earliest(),
            stripes,
            write_conflict_boundary: SequenceNumber::MAX,
            is_compaction: false,
            bottommost: false,
            allow_ingest_behind: false,
            enforce_single_del_contracts: true,
            merge_operator: None,
            filter: None,
            filter_level: 0,
        }
    }
}

/// What a run dropped and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DropStats {
    /// Entries read.
    pub(crate) input_records: u64,
    /// Bytes of their keys.
    pub(crate) input_key_bytes: u64,
    /// Bytes of their values.
    pub(crate) input_value_bytes: u64,
    /// Deletions read, of all kinds.
    pub(crate) input_deletions: u64,
    /// Entries dropped because a newer one hides them.
    pub(crate) dropped_hidden: u64,
    /// Tombstones dropped because nothing lies below them.
    pub(crate) dropped_obsolete: u64,
    /// Entries dropped because a range tombstone covers them.
    pub(crate) dropped_range_deleted: u64,
    /// Entries dropped by the filter.
    pub(crate) dropped_by_filter: u64,
    /// Single deletions that met something they should not.
    pub(crate) single_delete_mismatches: u64,
    /// Single deletions that were dropped without a partner.
    pub(crate) single_delete_fallthroughs: u64,
    /// Merges that the operator refused, without an end of the job.
    pub(crate) merge_failures: u64,
    /// Range tombstones dropped because nothing lies below them; they are among `dropped_obsolete` too.
    pub(crate) dropped_range_tombstones: u64,
    /// How often a filter had entries skipped unread, so that `input_records` is no measure of the inputs.
    pub(crate) filter_skips: u64,
}

impl DropStats {
    /// What listeners are told of it.
    pub(crate) fn as_job_stats(&self) -> CompactionJobStats {
        CompactionJobStats {
            num_input_records: self.input_records,
            num_records_replaced: self.dropped_hidden,
            total_input_raw_key_bytes: self.input_key_bytes,
            total_input_raw_value_bytes: self.input_value_bytes,
            num_input_deletion_records: self.input_deletions,
            num_expired_deletion_records: self.dropped_obsolete,
            num_single_del_fallthru: self.single_delete_fallthroughs,
            num_single_del_mismatch: self.single_delete_mismatches,
            ..CompactionJobStats::default()
        }
    }
}

/// Where the value of the current output lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueSource {
    /// The input stands on it.
    Input,
    /// The input stands on it, but for this many bytes at the end.
    InputWithout(usize),
    /// In the value buffer.
    Buffer,
    /// It is empty.
    Empty,
    /// The merge output at this place.
    Merged(usize),
}

/// What the rules say about an entry.
enum Verdict {
    /// Write it.
    Output,
    /// Drop it; the input still stands on it.
    Drop,
    /// Drop it, or it was dealt with; the input already stands on what comes next.
    Advanced,
}

/// Applies the drop rules to `input`; see the module documentation.
pub(crate) struct CompactionIterator<'a, I> {
    input: I,
    rules: DropRules,
    tombstones: &'a mut CompactionTombstones,
    deeper: &'a mut DeeperLevels,
    signals: StopSignals<'a>,
    earliest: SequenceNumber,
    bytes_equal_keys: bool,

    /// The current user key and the footer of the entry looked at; empty before the first.
    key: Vec<u8>,
    has_key: bool,
    value_type: ValueType,
    sequence: SequenceNumber,
    value_source: ValueSource,
    value_buffer: Vec<u8>,
    valid: bool,
    /// The input already stands behind the current output.
    at_next: bool,
    error: Option<Error>,

    /// The stripe of the newer entry of the same user key that was last seen.
    newer_stripe: Option<SequenceNumber>,
    /// Whether an entry of the user key was written.
    key_written: bool,
    /// Whether the last one written had its sequence zeroed.
    key_zeroed: bool,
    /// A single deletion was written for the sake of transactions; its partner follows without its value.
    clear_next_value: bool,

    operands: MergeContext,
    operand_footers: Vec<u64>,
    merged: Vec<merge::MergedEntry>,
    merged_bytes: Vec<u8>,
    next_merged: usize,

    stats: DropStats,
}

impl<'a, I: InternalIterator> CompactionIterator<'a, I> {
    /// Over `input`, which need not be positioned. Nothing is read before [`seek_to_first`](Self::seek_to_first) or
    /// [`start`](Self::start).
    pub(crate) fn new(
        input: I,
        rules: DropRules,
        tombstones: &'a mut CompactionTombstones,
        deeper: &'a mut DeeperLevels,
        cancelled: Option<&'a AtomicBool>,
    ) -> Self {
        debug_assert!(!rules.bottommost || (rules.is_compaction && !rules.allow_ingest_behind));
        let earliest = rules.stripes.earliest();
        let bytes_equal_keys = rules.order.kind() != ComparatorKind::Custom;
        tombstones.rewind();
        Self {
            input,
            rules,
            tombstones,
            deeper,
            signals: StopSignals { cancelled, ..StopSignals::default() },
            earliest,
            bytes_equal_keys,
            key: Vec::new(),
            has_key: false,
            value_type: ValueType::Value,
            sequence: SequenceNumber::ZERO,
            value_source: ValueSource::Empty,
            value_buffer: Vec::new(),
            valid: false,
            at_next: false,
            error: None,
            newer_stripe: None,
            key_written: false,
            key_zeroed: false,
            clear_next_value: false,
            operands: MergeContext::new(OperandOrder::NewestFirst),
            operand_footers: Vec::new(),
            merged: Vec::new(),
            merged_bytes: Vec::new(),
            next_merged: 0,
            stats: DropStats::default(),
        }
    }

    /// The same, ending also when one of `signals` is raised.
    pub(crate) fn with_signals(mut self, signals: StopSignals<'a>) -> Self {
        self.signals = signals;
        self
    }

    /// Moves to the first output.
    pub(crate) fn seek_to_first(&mut self) {
        self.input.seek_to_first();
        self.start();
    }

    /// Moves to the first output at or behind where the input stands.
    pub(crate) fn start(&mut self) {
        self.count_input();
        self.find_output();
    }

    /// Whether it stands on an output.
    #[inline]
    pub(crate) fn valid(&self) -> bool {
        self.valid
    }

    /// The encoded internal key of the output.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The value of the output.
    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        match self.value_source {
            ValueSource::Input => self.input.value(),
            ValueSource::InputWithout(bytes) => {
                let value = self.input.value();
                value.get(..value.len().saturating_sub(bytes)).unwrap_or(&[])
            }
            ValueSource::Buffer => &self.value_buffer,
            ValueSource::Empty => &[],
            ValueSource::Merged(at) => {
                self.merged.get(at).and_then(|entry| self.merged_bytes.get(entry.value.clone())).unwrap_or(&[])
            }
        }
    }

    /// The error that ended the run, if one did.
    pub(crate) fn status(&self) -> Result<()> {
        match &self.error {
            Some(error) => Err(error.clone()),
            None if self.valid => Ok(()),
            None => self.input.status(),
        }
    }

    /// What was dropped so far.
    pub(crate) fn stats(&self) -> &DropStats {
        &self.stats
    }

    /// Moves to the next output.
    pub(crate) fn next(&mut self) {
        debug_assert!(self.valid);
        self.valid = false;
        if self.next_merged < self.merged.len() {
            self.show_merged();
            return;
        }
        if !self.at_next {
            self.advance_input();
        }
        self.at_next = false;
        self.find_output();
    }

    #[inline]
    fn advance_input(&mut self) {
        self.input.next();
        self.count_input();
    }

    #[inline]
    fn count_input(&mut self) {
        if self.input.valid() {
            self.stats.input_records += 1;
            self.stats.input_key_bytes += self.input.key().len() as u64;
            self.stats.input_value_bytes += self.input.value().len() as u64;
        }
    }

    #[cold]
    fn fail(&mut self, error: Error) {
        self.valid = false;
        self.error = Some(error);
    }

    /// Whether snapshot `snapshot` sees `sequence`.
    #[inline]
    fn is_seen_by(sequence: SequenceNumber, snapshot: SequenceNumber) -> bool {
        sequence <= snapshot
    }

    /// Whether nothing of the current user key can lie below the output.
    #[inline]
    fn nothing_below(&mut self) -> bool {
        self.rules.bottommost || self.deeper.excludes_key(extract_user_key(&self.key), &self.rules.order)
    }

    /// Whether the input stands on another entry of the current user key.
    #[inline]
    fn input_has_same_key(&self) -> bool {
        self.input.valid() && self.is_current_key(extract_user_key(self.input.key()))
    }

    #[inline]
    fn is_current_key(&self, user_key: &[u8]) -> bool {
        let current = extract_user_key(&self.key);
        if self.bytes_equal_keys {
            user_key == current
        } else {
            self.rules.order.compare_user(user_key, current).is_eq()
        }
    }

    fn set_footer(&mut self, sequence: SequenceNumber, value_type: ValueType) {
        self.sequence = sequence;
        self.value_type = value_type;
        if let Some(footer) = self.key.last_chunk_mut::<FOOTER_SIZE>() {
            *footer = pack_footer(sequence, value_type).to_le_bytes();
        }
    }

    /// Goes on from where the input stands to the next entry that is written.
    fn find_output(&mut self) {
        while !self.valid && self.input.valid() {
            if self.signals.any()
                && let Err(error) = self.signals.check()
            {
                return self.fail(error);
            }
            let parsed = match parse_internal_key(self.input.key()) {
                Ok(parsed) => parsed,
                Err(error) => return self.fail(error),
            };
            let ParsedInternalKey { user_key, sequence, value_type } = parsed;
            let same = self.has_key && {
                let current = extract_user_key(&self.key);
                if self.bytes_equal_keys {
                    user_key == current
                } else {
                    self.rules.order.compare_user(user_key, current).is_eq()
                }
            };
            if same {
                self.set_footer(sequence, value_type);
            } else {
                self.key.clear();
                self.key.extend_from_slice(self.input.key());
                self.has_key = true;
                self.sequence = sequence;
                self.value_type = value_type;
                self.newer_stripe = None;
                self.key_written = false;
                self.key_zeroed = false;
                self.clear_next_value = false;
            }
            self.value_source = ValueSource::Input;
            if matches!(value_type, ValueType::Deletion | ValueType::SingleDeletion | ValueType::DeletionWithTimestamp)
            {
                self.stats.input_deletions += 1;
            }
            if !same && self.rules.filter.is_some() && !self.ask_filter() {
                continue;
            }
            match self.judge() {
                Ok(Verdict::Output) => self.write_current(),
                Ok(Verdict::Drop) => self.advance_input(),
                Ok(Verdict::Advanced) => {}
                Err(error) => return self.fail(error),
            }
        }
    }

    /// Asks the filter about the newest version of a key; `false` when the input was moved and the entry is gone.
    fn ask_filter(&mut self) -> bool {
        let Some(filter) = &self.rules.filter else { return true };
        let kind = match self.value_type {
            ValueType::Value => FilterValueType::Value,
            ValueType::BlobIndex => FilterValueType::BlobIndex,
            ValueType::WideColumnEntity => FilterValueType::WideColumnEntity,
            _ => return true,
        };
        let user_key = extract_user_key(&self.key);
        match filter.filter(self.rules.filter_level, user_key, kind, self.input.value()) {
            FilterDecision::Keep => {}
            FilterDecision::Remove => {
                self.stats.dropped_by_filter += 1;
                self.set_footer(self.sequence, ValueType::Deletion);
                self.value_source = ValueSource::Empty;
            }
            FilterDecision::Purge => {
                self.stats.dropped_by_filter += 1;
                self.set_footer(self.sequence, ValueType::SingleDeletion);
                self.value_source = ValueSource::Empty;
            }
            FilterDecision::ChangeValue(value) => {
                self.value_buffer = value;
                self.value_source = ValueSource::Buffer;
                self.set_footer(self.sequence, ValueType::Value);
            }
            FilterDecision::RemoveAndSkipUntil(until) => {
                if self.rules.order.compare_user(&until, user_key).is_gt() {
                    self.stats.dropped_by_filter += 1;
                    self.skip_until(&until);
                    return false;
                }
            }
        }
        true
    }

    fn skip_until(&mut self, user_key: &[u8]) {
        self.has_key = false;
        self.stats.filter_skips += 1;
        self.input.seek(InternalKey::for_seek(user_key, SequenceNumber::MAX).encoded());
        self.count_input();
    }

    /// Applies the rules to the current entry.
    fn judge(&mut self) -> Result<Verdict> {
        let stripe = self.rules.stripes.stripe(self.sequence);
        let newer_stripe = self.newer_stripe.replace(stripe);
        if self.clear_next_value {
            // The partner of a single deletion that a transaction may still compare with: its value is of no use.
            debug_assert!(self.key_written);
            self.clear_next_value = false;
            self.value_source = ValueSource::Empty;
            if matches!(
                self.value_type,
                ValueType::BlobIndex | ValueType::WideColumnEntity | ValueType::ValuePreferredSeqno
            ) {
                self.set_footer(self.sequence, ValueType::Value);
            }
            return Ok(Verdict::Output);
        }
        if self.value_type == ValueType::SingleDeletion {
            return self.judge_single_deletion(newer_stripe);
        }
        if newer_stripe.is_some_and(|newer| newer <= stripe) {
            self.stats.dropped_hidden += 1;
            return Ok(Verdict::Drop);
        }
        match self.value_type {
            ValueType::Deletion => return self.judge_deletion(),
            ValueType::ValuePreferredSeqno => return self.judge_timed_put(),
            ValueType::Merge => return self.merge_operands(),
            ValueType::DeletionWithTimestamp => {
                return Err(Error::not_supported("user-defined timestamps are not supported"));
            }
            _ => {}
        }
        Ok(self.judge_by_range_tombstones())
    }

    fn judge_by_range_tombstones(&mut self) -> Verdict {
        let user_key = extract_user_key(&self.key);
        if self.tombstones.deletes(user_key, self.sequence, &self.rules.stripes) {
            self.stats.dropped_range_deleted += 1;
            return Verdict::Drop;
        }
        Verdict::Output
    }

    fn judge_deletion(&mut self) -> Result<Verdict> {
        let may_drop = self.rules.is_compaction && !self.rules.allow_ingest_behind;
        if may_drop && Self::is_seen_by(self.sequence, self.earliest) && self.nothing_below() {
            self.stats.dropped_obsolete += 1;
            return Ok(Verdict::Drop);
        }
        if !self.rules.bottommost {
            return Ok(self.judge_by_range_tombstones());
        }
        // At the bottom a tombstone is of use only to an older entry of its key that an older snapshot sees.
        let before = self.rules.stripes.before(self.sequence);
        self.advance_input();
        while self.input_has_same_key() && !lies_behind(before, parse_internal_key(self.input.key())?.sequence) {
            self.stats.dropped_hidden += 1;
            self.advance_input();
        }
        if self.input_has_same_key() {
            self.value_source = ValueSource::Empty;
            self.at_next = true;
            return Ok(Verdict::Output);
        }
        self.stats.dropped_obsolete += 1;
        Ok(Verdict::Advanced)
    }

    fn judge_single_deletion(&mut self, newer_stripe: Option<SequenceNumber>) -> Result<Verdict> {
        let sequence = self.sequence;
        let before = self.rules.stripes.before(sequence);
        self.value_source = ValueSource::Empty;
        self.advance_input();
        self.at_next = true;
        if !self.input_has_same_key() {
            let may_drop = self.rules.is_compaction
                && !self.rules.allow_ingest_behind
                && Self::is_seen_by(sequence, self.earliest);
            if (may_drop && self.nothing_below()) || self.key_zeroed {
                self.stats.dropped_obsolete += 1;
                self.stats.single_delete_fallthroughs += u64::from(!self.rules.bottommost);
                return Ok(self.dropped_single_deletion());
            }
            return Ok(Verdict::Output);
        }
        let partner = parse_internal_key(self.input.key())?;
        let (partner_type, partner_sequence) = (partner.value_type, partner.sequence);
        if self.key_zeroed {
            self.stats.dropped_hidden += 1;
            self.stats.dropped_obsolete += 1;
            self.advance_input();
            return Ok(self.dropped_single_deletion());
        }
        if lies_behind(before, partner_sequence) {
            // A snapshot lies between the two.
            return Ok(Verdict::Output);
        }
        match partner_type {
            ValueType::SingleDeletion | ValueType::Deletion => {
                if partner_type == ValueType::Deletion && self.rules.enforce_single_del_contracts {
                    return Err(Error::corruption(
                        "Found SD and type: 0 on the same key, violating the contract of SingleDelete. Check your \
                         application to make sure the application does not mix SingleDelete and Delete for the same \
                         key. If you are using write-prepared/write-unprepared transactions, and use SingleDelete to \
                         delete certain keys, then make sure TransactionDBOptions::rollback_deletion_type_callback is \
                         configured properly. Mixing SD and DEL can lead to undefined behaviors",
                    ));
                }
                self.stats.dropped_obsolete += 1;
                self.stats.single_delete_mismatches += 1;
                // The partner is judged as if the single deletion had not been there.
                self.newer_stripe = newer_stripe;
                Ok(self.dropped_single_deletion())
            }
            _ => {
                let boundary = self.rules.write_conflict_boundary;
                let pair_is_settled = self.key_written
                    || Self::is_seen_by(sequence, boundary)
                    || (self.earliest < boundary && Self::is_seen_by(sequence, self.earliest));
                if !pair_is_settled {
                    self.clear_next_value = true;
                    return Ok(Verdict::Output);
                }
                self.stats.dropped_hidden += 1;
                self.stats.dropped_obsolete += 1;
                self.advance_input();
                Ok(self.dropped_single_deletion())
            }
        }
    }

    fn dropped_single_deletion(&mut self) -> Verdict {
        self.at_next = false;
        Verdict::Advanced
    }

    /// A value that wants to look older than it is, so that it may go to the last level.
    fn judge_timed_put(&mut self) -> Result<Verdict> {
        if !Self::is_seen_by(self.sequence, self.earliest) || !self.nothing_below() {
            return Ok(self.judge_by_range_tombstones());
        }
        let (_, preferred) = firn_format::batch::unpack_timed_value(self.input.value())?;
        let user_key = extract_user_key(&self.key);
        if self.tombstones.deletes(user_key, self.sequence, &self.rules.stripes) {
            self.stats.dropped_range_deleted += 1;
            return Ok(Verdict::Drop);
        }
        let preferred = SequenceNumber(preferred).min(self.sequence);
        if !self.tombstones.deletes(user_key, preferred, &self.rules.stripes) {
            self.set_footer(preferred, ValueType::Value);
            self.value_source = ValueSource::InputWithout(8);
        }
        Ok(Verdict::Output)
    }

    /// Makes the current entry the output.
    fn write_current(&mut self) {
        self.valid = true;
        self.key_written = true;
        let is_value = matches!(
            self.value_type,
            ValueType::Value | ValueType::BlobIndex | ValueType::WideColumnEntity | ValueType::ValuePreferredSeqno
        );
        self.key_zeroed = self.rules.bottommost
            && is_value
            && Self::is_seen_by(self.sequence, self.earliest)
            && self.sequence <= self.rules.preserve_after;
        if self.key_zeroed {
            self.set_footer(SequenceNumber::ZERO, self.value_type);
        }
    }
}

/// Whether an entry lies behind the snapshot `before`; zero stands for no snapshot, and nothing lies behind it, not even
/// an entry whose sequence number was zeroed at the bottom.
#[inline]
fn lies_behind(before: SequenceNumber, sequence: SequenceNumber) -> bool {
    before > SequenceNumber::ZERO && sequence <= before
}

#[cfg(test)]
#[path = "iterator_test.rs"]
mod tests;
