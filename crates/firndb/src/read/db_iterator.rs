//! The cursor that users see: one entry per live key, as of one snapshot.
//!
//! Internal entries flow in from a merged iterator, in internal-key order and without what range tombstones cover. Out
//! come user keys with the value that the snapshot sees: entries newer than the snapshot are passed over, deleted keys
//! left out, older versions skipped, merge operands merged. Bounds and prefixes end the scan.
//!
//! In the forward direction the inner iterator stands on the entry that is shown, whose key and value are given out from
//! where they lie, except after a merge: then the result is in `saved_value` and the inner iterator stands behind the
//! operands. In the backward direction versions come oldest first, so the inner iterator has passed all versions of the
//! key that is shown and stands on an entry of a smaller one (or nowhere); key and value are copies.

use std::ops::Bound;
use std::sync::Arc;

use firn_error::{Error, Result, SubCode};
use firn_format::comparator::InternalKeyComparator;
use firn_format::iterator::InternalIterator;
use firn_format::key::{
    FOOTER_SIZE, SequenceNumber, ValueType, append_internal_key, extract_footer, extract_user_key, pack_footer,
    parse_internal_key,
};
use firn_format::slice_transform::{SliceTransform, prefix_of};

use super::merge_context::{MergeContext, OperandOrder};
use crate::merge::MergeOperator;
use crate::stats::{Statistics, Ticker, record_tick};

/// The footer that comes after those of all other versions of a key.
const LAST_FOOTER: u64 = pack_footer(SequenceNumber::ZERO, ValueType::FOR_SEEK_FOR_PREV);

/// What a [`DbIterator`] must know.
#[derive(Clone)]
pub struct DbIteratorConfig {
    /// The order of keys.
    pub order: InternalKeyComparator,
    /// The snapshot: newer entries are not seen.
    pub sequence: SequenceNumber,
    /// The column family's merge operator.
    pub merge_operator: Option<Arc<dyn MergeOperator>>,
    /// Where the user keys that are shown begin; `iterate_lower_bound` is included.
    pub lower_bound: Bound<Vec<u8>>,
    /// Where they end; `iterate_upper_bound` is excluded.
    pub upper_bound: Bound<Vec<u8>>,
    /// The column family's prefix extractor.
    pub prefix_extractor: Option<Arc<dyn SliceTransform>>,
    /// `prefix_same_as_start`: end when the prefix of the seek key is left. Default false.
    pub prefix_same_as_start: bool,
    /// Seeks leave out keys without the prefix of their target, although nothing keeps the scan within that prefix: what a
    /// prefix extractor does by default. A scan from one end to the other then must not seek. Default false.
    pub seeks_by_prefix: bool,
    /// `max_sequential_skip_in_iterations`: hidden versions of one key that are stepped over before seeking. Default 8.
    pub max_sequential_skip: u64,
    /// `max_skippable_internal_keys`: hidden entries beyond which one call does not go on; 0 for any number. Default 0.
    pub max_skippable_internal_keys: u64,
    /// Where reseeks and failed merges are counted.
    pub statistics: Option<Arc<Statistics>>,
}

impl DbIteratorConfig {
    /// A scan of everything at `sequence`.
    pub fn new(order: InternalKeyComparator, sequence: SequenceNumber) -> Self {
        Self {
            order,
            sequence,
            merge_operator: None,
            lower_bound: Bound::Unbounded,
            upper_bound: Bound::Unbounded,
            prefix_extractor: None,
            prefix_same_as_start: false,
            seeks_by_prefix: false,
            max_sequential_skip: 8,
            max_skippable_internal_keys: 0,
            statistics: None,
        }
    }
}

/// What a scan met; counts since the last [`DbIterator::take_counters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanCounters {
    /// Seeks that replaced long runs of steps (`NUMBER_OF_RESEEKS_IN_ITERATION`).
    pub reseeks: u64,
    /// Entries passed because they are hidden by newer ones, deleted, or newer than the snapshot (`NUMBER_ITER_SKIP`).
    pub skipped: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// Where the value that is shown lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    /// Nothing is shown.
    Nothing,
    /// The inner iterator's entry.
    Inner,
    /// `saved_key` and `saved_value`.
    Saved,
}

/// What a look at one key's versions in backward direction gave.
enum Verdict {
    /// The key is live; its value is in `saved_value`.
    Live,
    /// The snapshot sees no value.
    Hidden,
    /// An error was noted.
    Failed,
}

/// The user's part of a stored value: a timed put carries eight bytes more.
#[inline]
fn base_value(footer: u64, stored: &[u8]) -> &[u8] {
    const TIMED: u8 = ValueType::ValuePreferredSeqno as u8;
    if footer as u8 == TIMED { stored.get(..stored.len().saturating_sub(8)).unwrap_or_default() } else { stored }
}

/// See the module documentation. Not thread-safe; may be sent between threads if the inner iterator may.
pub struct DbIterator<I> {
    inner: I,
    config: DbIteratorConfig,
    direction: Direction,
    shown: Shown,
    error: Option<Error>,
    /// Forward: the user key whose remaining versions are to be passed. Backward, or after a merge: the key shown.
    saved_key: Vec<u8>,
    saved_value: Vec<u8>,
    operands: MergeContext,
    /// With `prefix_same_as_start`: the prefix of the seek key.
    prefix: Option<Vec<u8>>,
    target: Vec<u8>,
    /// The last target that the iterator sought by itself since the caller's last seek or turn; empty when it did not.
    reseek_target: Vec<u8>,
    /// Entries passed in this call.
    skipped_in_call: u64,
    equal_is_same_bytes: bool,
    counters: ScanCounters,
}

impl<I: InternalIterator> DbIterator<I> {
    /// An unpositioned cursor over `inner`.
    pub fn new(inner: I, config: DbIteratorConfig) -> Self {
        Self {
            equal_is_same_bytes: !config.order.user_comparator().can_keys_with_different_byte_contents_be_equal(),
            inner,
            config,
            direction: Direction::Forward,
            shown: Shown::Nothing,
            error: None,
            saved_key: Vec::new(),
            saved_value: Vec::new(),
            operands: MergeContext::new(OperandOrder::NewestFirst),
            prefix: None,
            target: Vec::new(),
            reseek_target: Vec::new(),
            skipped_in_call: 0,
            counters: ScanCounters::default(),
        }
    }

    /// Whether the cursor stands on an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.shown != Shown::Nothing
    }

    /// The user key. The cursor must be valid.
    #[inline]
    pub fn key(&self) -> &[u8] {
        debug_assert!(self.valid());
        match self.shown {
            Shown::Inner => extract_user_key(self.inner.key()),
            _ => &self.saved_key,
        }
    }

    /// The value. The cursor must be valid.
    #[inline]
    pub fn value(&self) -> &[u8] {
        debug_assert!(self.valid());
        match self.shown {
            Shown::Inner => base_value(extract_footer(self.inner.key()), self.inner.value()),
            _ => &self.saved_value,
        }
    }

    /// The inner iterator, when it stands on the entry whose value is shown; its value may be longer than that.
    pub fn shown_by_inner(&self) -> Option<&I> {
        (self.shown == Shown::Inner).then_some(&self.inner)
    }

    /// The error that ended the scan, if one did.
    ///
    /// # Errors
    /// What an inner iterator or the merge operator met; `Incomplete` after too many hidden entries.
    pub fn status(&self) -> Result<()> {
        match &self.error {
            Some(error) => Err(error.clone()),
            None if self.valid() => Ok(()),
            None => self.inner.status(),
        }
    }

    /// The user key that is shown, or where the scan stopped.
    pub fn position(&self) -> &[u8] {
        if self.valid() { self.key() } else { &self.saved_key }
    }

    /// The internal key of the entry shown; `None` where the cursor does not stand on one (after merges, and backward).
    pub fn internal_key(&self) -> Option<&[u8]> {
        (self.shown == Shown::Inner).then(|| self.inner.key())
    }

    /// The snapshot.
    pub fn sequence(&self) -> SequenceNumber {
        self.config.sequence
    }

    /// The counters, which start again at zero.
    pub fn take_counters(&mut self) -> ScanCounters {
        std::mem::take(&mut self.counters)
    }

    /// The inner iterator.
    pub fn inner(&self) -> &I {
        &self.inner
    }

    /// Takes a new inner iterator and snapshot (refresh, tailing); the cursor is unpositioned afterwards.
    pub fn replace_inner(&mut self, inner: I, sequence: SequenceNumber) -> I {
        self.config.sequence = sequence;
        self.shown = Shown::Nothing;
        self.error = None;
        std::mem::replace(&mut self.inner, inner)
    }

    /// Moves to the first key.
    pub fn seek_to_first(&mut self) {
        if let Bound::Included(lower) | Bound::Excluded(lower) = &self.config.lower_bound {
            self.prefix = self.prefix_of_start(lower);
            return self.seek_from_lower_bound();
        }
        self.begin(Direction::Forward);
        self.inner.seek_to_first();
        self.prefix = None;
        self.find_next(false);
        self.adopt_prefix();
    }

    /// Moves to the last key.
    pub fn seek_to_last(&mut self) {
        self.begin(Direction::Backward);
        if let Bound::Included(upper) | Bound::Excluded(upper) = &self.config.upper_bound {
            self.prefix = self.prefix_of_start(upper);
            self.seek_to_upper_bound();
            return self.find_prev();
        }
        self.inner.seek_to_last();
        self.prefix = None;
        self.find_prev();
        self.adopt_prefix();
    }

    /// Moves the inner iterator to the last entry that the upper bound, which there is, allows.
    fn seek_to_upper_bound(&mut self) {
        self.target.clear();
        match &self.config.upper_bound {
            Bound::Excluded(upper) => {
                append_internal_key(&mut self.target, upper, SequenceNumber::MAX, ValueType::FOR_SEEK);
            }
            Bound::Included(upper) => {
                append_internal_key(&mut self.target, upper, SequenceNumber::ZERO, ValueType::FOR_SEEK_FOR_PREV);
            }
            Bound::Unbounded => {}
        }
        if self.config.seeks_by_prefix {
            self.inner.reseek_for_prev(&self.target);
        } else {
            self.inner.seek_for_prev(&self.target);
        }
    }

    /// Moves to the first key at or after `target`.
    #[inline]
    pub fn seek(&mut self, target: &[u8]) {
        self.prefix = self.prefix_of_start(target);
        if self.is_before_lower_bound(target) {
            return self.seek_from_lower_bound();
        }
        self.begin(Direction::Forward);
        self.target.clear();
        append_internal_key(&mut self.target, target, self.config.sequence, ValueType::FOR_SEEK);
        self.inner.seek(&self.target);
        self.find_next(false);
    }

    /// Moves to the first key that the lower bound, which there is, allows. The caller of this seek did not name it.
    fn seek_from_lower_bound(&mut self) {
        self.begin(Direction::Forward);
        self.target.clear();
        match &self.config.lower_bound {
            Bound::Included(lower) => {
                append_internal_key(&mut self.target, lower, self.config.sequence, ValueType::FOR_SEEK);
            }
            Bound::Excluded(lower) => {
                append_internal_key(&mut self.target, lower, SequenceNumber::ZERO, ValueType::FOR_SEEK_FOR_PREV);
            }
            Bound::Unbounded => {}
        }
        if self.config.seeks_by_prefix {
            self.inner.reseek(&self.target);
        } else {
            self.inner.seek(&self.target);
        }
        self.find_next(false);
    }

    /// Whether the lower bound keeps `user_key` from being shown.
    #[inline]
    fn is_before_lower_bound(&self, user_key: &[u8]) -> bool {
        match &self.config.lower_bound {
            Bound::Unbounded => false,
            Bound::Included(lower) => self.config.order.compare_user(user_key, lower).is_lt(),
            Bound::Excluded(lower) => self.config.order.compare_user(user_key, lower).is_le(),
        }
    }

    /// Whether the upper bound keeps `user_key` from being shown.
    #[inline]
    fn is_behind_upper_bound(&self, user_key: &[u8]) -> bool {
        match &self.config.upper_bound {
            Bound::Unbounded => false,
            Bound::Included(upper) => self.config.order.compare_user(user_key, upper).is_gt(),
            Bound::Excluded(upper) => self.config.order.compare_user(user_key, upper).is_ge(),
        }
    }

    /// Moves to the last key at or before `target`.
    pub fn seek_for_prev(&mut self, target: &[u8]) {
        self.prefix = self.prefix_of_start(target);
        self.begin(Direction::Backward);
        if self.is_behind_upper_bound(target) {
            self.seek_to_upper_bound();
        } else {
            self.target.clear();
            append_internal_key(&mut self.target, target, SequenceNumber::ZERO, ValueType::FOR_SEEK_FOR_PREV);
            self.inner.seek_for_prev(&self.target);
        }
        self.find_prev();
    }

    /// Moves to the next key. The cursor must be valid.
    #[inline]
    pub fn next(&mut self) {
        debug_assert!(self.valid());
        self.skipped_in_call = 0;
        if self.shown == Shown::Inner {
            let key = extract_user_key(self.inner.key());
            self.saved_key.clear();
            self.saved_key.extend_from_slice(key);
            self.inner.next();
        } else if self.direction == Direction::Backward {
            self.turn_forward();
        }
        // After a merge the inner iterator stands behind the operands already.
        self.find_next(true);
    }

    /// Moves to the previous key. The cursor must be valid.
    pub fn prev(&mut self) {
        debug_assert!(self.valid());
        self.skipped_in_call = 0;
        if self.direction == Direction::Backward || self.turn_backward() {
            self.find_prev();
        }
    }

    fn begin(&mut self, direction: Direction) {
        self.direction = direction;
        self.shown = Shown::Nothing;
        self.error = None;
        self.skipped_in_call = 0;
        self.reseek_target.clear();
    }

    /// Whether `target` lies beyond what was sought before. It does unless the keys below are out of order; then the scan
    /// fails, since it might seek the same place for ever.
    fn goes_on(&mut self) -> bool {
        let goes_on = self.reseek_target.is_empty() || {
            let order = self.config.order.compare(&self.target, &self.reseek_target);
            if self.direction == Direction::Forward { order.is_gt() } else { order.is_lt() }
        };
        self.reseek_target.clone_from(&self.target);
        if !goes_on {
            self.fail(super::out_of_order());
        }
        goes_on
    }

    /// The prefix that a scan from `start` stays within, if there is one.
    #[inline]
    fn prefix_of_start(&self, start: &[u8]) -> Option<Vec<u8>> {
        let extractor = self.config.prefix_extractor.as_ref().filter(|_| self.config.prefix_same_as_start)?;
        prefix_of(extractor.as_ref(), start).map(<[u8]>::to_vec)
    }

    /// A scan that began at an end stays within the prefix of the first key it shows.
    fn adopt_prefix(&mut self) {
        if self.config.prefix_same_as_start && self.valid() {
            self.prefix = self.prefix_of_start(self.key());
        }
    }

    /// Whether `user_key` lies beyond the prefix of the scan.
    #[inline]
    fn leaves_prefix(&self, user_key: &[u8]) -> bool {
        match (&self.prefix, &self.config.prefix_extractor) {
            (Some(prefix), Some(extractor)) => prefix_of(extractor.as_ref(), user_key) != Some(prefix.as_slice()),
            _ => false,
        }
    }

    #[inline]
    fn is_saved_key(&self, user_key: &[u8]) -> bool {
        if self.equal_is_same_bytes {
            return self.saved_key == user_key;
        }
        self.config.order.compare_user(&self.saved_key, user_key).is_eq()
    }

    #[cold]
    fn fail(&mut self, error: Error) {
        self.error = Some(error);
        self.shown = Shown::Nothing;
    }

    /// Counts an entry that is passed.
    #[inline]
    fn count_skipped(&mut self) {
        self.counters.skipped += 1;
        self.skipped_in_call += 1;
    }

    /// Whether this call passed so many entries that it must not look at a further one.
    #[inline]
    fn skipped_too_many(&self) -> bool {
        let limit = self.config.max_skippable_internal_keys;
        limit > 0 && self.skipped_in_call > limit
    }

    #[cold]
    fn fail_as_incomplete(&mut self) {
        self.fail(Error::incomplete("Too many internal keys skipped."));
    }

    /// Counts an entry that a call backward looks at, whether it is passed or not; `false` if that is one too many.
    fn count_backward(&mut self) -> bool {
        if self.skipped_too_many() {
            self.fail_as_incomplete();
            return false;
        }
        self.count_skipped();
        true
    }

    #[cold]
    fn fail_to_merge(&mut self, error: Error) {
        if error.subcode() == SubCode::MergeOperatorFailed {
            record_tick(self.config.statistics.as_ref(), Ticker::NumberMergeFailures, 1);
        }
        self.fail(error);
    }

    #[cold]
    fn count_reseek(&mut self) {
        self.counters.reseeks += 1;
        record_tick(self.config.statistics.as_ref(), Ticker::NumberReseeksIteration, 1);
    }

    /// Goes on forward from these parts; `false` if that led to an error.
    #[cold]
    fn reseek(&mut self, user_key_is_saved: bool, sequence: SequenceNumber, value_type: ValueType) -> bool {
        self.target.clear();
        let user_key = if user_key_is_saved { &self.saved_key } else { extract_user_key(self.inner.key()) };
        append_internal_key(&mut self.target, user_key, sequence, value_type);
        if self.direction == Direction::Forward && !self.goes_on() {
            return false;
        }
        self.inner.reseek(&self.target);
        self.count_reseek();
        true
    }

    /// From the inner iterator's entry on, finds the first key that is live at the snapshot. With `skipping`, remaining
    /// versions of `saved_key` are passed first.
    #[inline]
    fn find_next(&mut self, mut skipping: bool) {
        self.shown = Shown::Nothing;
        let mut run = 0;
        let mut too_many = false;
        while self.inner.valid() {
            let key = self.inner.key();
            let Some((user_key, footer)) = key.split_last_chunk::<FOOTER_SIZE>() else {
                let error = parse_internal_key(key).err();
                return self.fail(error.unwrap_or_else(|| Error::corruption("malformed internal key")));
            };
            let footer = u64::from_le_bytes(*footer);
            let sequence = SequenceNumber(footer >> 8);
            if self.is_behind_upper_bound(user_key) {
                return;
            }
            if self.prefix.is_some() && self.leaves_prefix(user_key) {
                return;
            }
            if too_many {
                return self.fail_as_incomplete();
            }
            if sequence > self.config.sequence {
                if !self.pass_newer(&mut run, skipping) {
                    return;
                }
                too_many = self.skipped_too_many();
                continue;
            }
            if skipping && self.is_saved_key(user_key) {
                self.count_skipped();
                too_many = self.skipped_too_many();
                run += 1;
                // The last of all possible versions, a deletion without a number as ingested tables have them, is where
                // a seek would end.
                if run > self.config.max_sequential_skip && footer > LAST_FOOTER {
                    run = 0;
                    if !self.reseek(true, SequenceNumber::ZERO, ValueType::FOR_SEEK_FOR_PREV) {
                        return;
                    }
                } else {
                    self.inner.next();
                }
                continue;
            }
            const VALUE: u8 = ValueType::Value as u8;
            if footer as u8 == VALUE {
                self.shown = Shown::Inner;
                return;
            }
            run = 0;
            match ValueType::from_u8(footer as u8) {
                Some(ValueType::Deletion | ValueType::SingleDeletion | ValueType::DeletionWithTimestamp) => {
                    self.saved_key.clear();
                    self.saved_key.extend_from_slice(user_key);
                    skipping = true;
                    self.count_skipped();
                    too_many = self.skipped_too_many();
                    self.inner.next();
                }
                Some(ValueType::Merge) => return self.merge_forward(),
                Some(ValueType::ValuePreferredSeqno) => {
                    if self.inner.value().len() < 8 {
                        return self.fail(Error::corruption("value with preferred sequence number is too short"));
                    }
                    self.shown = Shown::Inner;
                    return;
                }
                other => return self.refuse(other, footer),
            }
        }
    }

    /// Passes an entry that is newer than the snapshot. `run` counts such entries in a row. `false` if that led to an error.
    #[cold]
    fn pass_newer(&mut self, run: &mut u64, skipping: bool) -> bool {
        self.count_skipped();
        let of_saved_key = skipping && self.is_saved_key(extract_user_key(self.inner.key()));
        if self.skipped_too_many() {
            // The call ends here, if anything follows.
            self.saved_key.clear();
            self.saved_key.extend_from_slice(extract_user_key(self.inner.key()));
        }
        *run += 1;
        if *run > self.config.max_sequential_skip {
            *run = 0;
            return if of_saved_key {
                self.reseek(true, SequenceNumber::ZERO, ValueType::FOR_SEEK_FOR_PREV)
            } else {
                self.reseek(false, self.config.sequence, ValueType::FOR_SEEK)
            };
        }
        self.inner.next();
        true
    }

    #[cold]
    fn refuse(&mut self, value_type: Option<ValueType>, footer: u64) {
        self.fail(match value_type {
            Some(ValueType::BlobIndex) => Error::not_supported("values in blob files cannot be read yet"),
            Some(ValueType::WideColumnEntity) => Error::not_supported("wide columns cannot be read yet"),
            _ => Error::corruption(format!("Corrupted Key: type {:#04x} is not a key type", footer as u8)),
        });
    }

    /// Merges the operands from the inner iterator's entry on into `saved_value`.
    fn merge_forward(&mut self) {
        self.saved_key.clear();
        self.saved_key.extend_from_slice(extract_user_key(self.inner.key()));
        self.operands.reset(OperandOrder::NewestFirst);
        self.operands.push(self.inner.value());
        let mut has_base = false;
        loop {
            self.inner.next();
            if !self.inner.valid() {
                if let Err(error) = self.inner.status() {
                    return self.fail(error);
                }
                break;
            }
            let key = self.inner.key();
            if !self.is_saved_key(extract_user_key(key)) {
                break;
            }
            let footer = extract_footer(key);
            match ValueType::from_u8(footer as u8) {
                Some(ValueType::Merge) => self.operands.push(self.inner.value()),
                Some(ValueType::Value | ValueType::ValuePreferredSeqno) => {
                    has_base = true;
                    break;
                }
                Some(ValueType::Deletion | ValueType::SingleDeletion | ValueType::DeletionWithTimestamp) => break,
                other => return self.refuse(other, footer),
            }
        }
        let base = if has_base { Some(base_value(extract_footer(self.inner.key()), self.inner.value())) } else { None };
        let operator = self.config.merge_operator.as_deref();
        match self.operands.merge_over(operator, &self.saved_key, base, &mut self.saved_value) {
            Ok(()) => self.shown = Shown::Saved,
            Err(error) => self.fail_to_merge(error),
        }
    }

    /// From the backward position behind `saved_key` to the forward position at its versions' end.
    #[cold]
    fn turn_forward(&mut self) {
        self.direction = Direction::Forward;
        self.reseek_target.clear();
        self.target.clear();
        append_internal_key(&mut self.target, &self.saved_key, SequenceNumber::ZERO, ValueType::FOR_SEEK_FOR_PREV);
        self.inner.reseek(&self.target);
    }

    /// From the forward position on or behind the key that is shown to the last entry of the key before it; `false` if that
    /// led to an error.
    #[cold]
    fn turn_backward(&mut self) -> bool {
        self.direction = Direction::Backward;
        self.reseek_target.clear();
        if self.shown == Shown::Inner {
            self.saved_key.clear();
            self.saved_key.extend_from_slice(extract_user_key(self.inner.key()));
        }
        self.skip_back_over_saved_key(self.shown == Shown::Saved)
    }

    /// Moves the inner iterator back to an entry before all versions of `saved_key`; `false` if that led to an error.
    fn skip_back_over_saved_key(&mut self, seek_at_once: bool) -> bool {
        let mut run = 0;
        while !seek_at_once && self.inner.valid() && self.is_saved_key(extract_user_key(self.inner.key())) {
            if !self.count_backward() {
                return false;
            }
            run += 1;
            if run > self.config.max_sequential_skip {
                break;
            }
            self.inner.prev();
        }
        if seek_at_once || run > self.config.max_sequential_skip {
            self.target.clear();
            append_internal_key(&mut self.target, &self.saved_key, SequenceNumber::MAX, ValueType::FOR_SEEK);
            if !self.goes_on() {
                return false;
            }
            self.inner.reseek_for_prev(&self.target);
            if !seek_at_once {
                self.count_reseek();
            }
        }
        true
    }

    /// From the inner iterator's entry backward, finds the last key that is live at the snapshot.
    fn find_prev(&mut self) {
        self.shown = Shown::Nothing;
        while self.inner.valid() {
            let key = self.inner.key();
            if key.len() < FOOTER_SIZE {
                return self.fail(Error::corruption("malformed internal key"));
            }
            let user_key = extract_user_key(key);
            if self.is_before_lower_bound(user_key) {
                return;
            }
            if self.prefix.is_some() && self.leaves_prefix(user_key) {
                return;
            }
            self.saved_key.clear();
            self.saved_key.extend_from_slice(user_key);
            match self.resolve_backward() {
                Verdict::Live => {
                    self.shown = Shown::Saved;
                    // One of the versions that were counted is shown.
                    self.counters.skipped = self.counters.skipped.saturating_sub(1);
                    return;
                }
                Verdict::Hidden if self.skipped_too_many() => return self.fail_as_incomplete(),
                Verdict::Hidden => {}
                Verdict::Failed => return,
            }
        }
    }

    /// Looks through the versions of `saved_key`, oldest first, from the inner iterator's entry on; leaves the inner
    /// iterator on the next smaller key. The value, if there is one, goes to `saved_value`.
    fn resolve_backward(&mut self) -> Verdict {
        let mut last = None;
        let mut visible = 0;
        self.operands.reset(OperandOrder::OldestFirst);
        let mut has_base = false;
        while self.inner.valid() {
            let key = self.inner.key();
            let user_key = extract_user_key(key);
            if !self.is_saved_key(user_key) {
                break;
            }
            let footer = extract_footer(key);
            if SequenceNumber(footer >> 8) > self.config.sequence {
                // This and all that follow of the key are too new.
                if !self.skip_back_over_saved_key(false) {
                    return Verdict::Failed;
                }
                break;
            }
            if !self.count_backward() {
                return Verdict::Failed;
            }
            visible += 1;
            if visible > self.config.max_sequential_skip {
                return self.resolve_by_seek();
            }
            let value_type = ValueType::from_u8(footer as u8);
            match value_type {
                Some(ValueType::Value | ValueType::ValuePreferredSeqno) => {
                    let value = base_value(footer, self.inner.value());
                    self.saved_value.clear();
                    self.saved_value.extend_from_slice(value);
                    has_base = true;
                    if !self.operands.is_empty() {
                        self.operands.reset(OperandOrder::OldestFirst);
                    }
                }
                Some(ValueType::Deletion | ValueType::SingleDeletion | ValueType::DeletionWithTimestamp) => {
                    has_base = false;
                    self.operands.reset(OperandOrder::OldestFirst);
                }
                Some(ValueType::Merge) => self.operands.push(self.inner.value()),
                other => {
                    self.refuse(other, footer);
                    return Verdict::Failed;
                }
            }
            last = value_type;
            self.inner.prev();
        }
        if !self.inner.valid()
            && let Err(error) = self.inner.status()
        {
            self.fail(error);
            return Verdict::Failed;
        }
        match last {
            None | Some(ValueType::Deletion | ValueType::SingleDeletion | ValueType::DeletionWithTimestamp) => {
                Verdict::Hidden
            }
            Some(ValueType::Merge) => {
                let base = std::mem::take(&mut self.saved_value);
                let operator = self.config.merge_operator.as_deref();
                let base_value = has_base.then_some(base.as_slice());
                match self.operands.merge_over(operator, &self.saved_key, base_value, &mut self.saved_value) {
                    Ok(()) => Verdict::Live,
                    Err(error) => {
                        self.fail_to_merge(error);
                        Verdict::Failed
                    }
                }
            }
            Some(_) => Verdict::Live,
        }
    }

    /// As [`resolve_backward`](Self::resolve_backward) for a key with many versions: seeks to the newest visible one.
    #[cold]
    fn resolve_by_seek(&mut self) -> Verdict {
        // A look ahead within the key; the way back is what is checked.
        if !self.reseek(true, self.config.sequence, ValueType::FOR_SEEK) {
            return Verdict::Failed;
        }
        let verdict = self.resolve_at_newest();
        if matches!(verdict, Verdict::Failed) {
            return verdict;
        }
        if !self.skip_back_over_saved_key(true) {
            return Verdict::Failed;
        }
        if !self.inner.valid()
            && let Err(error) = self.inner.status()
        {
            self.fail(error);
            return Verdict::Failed;
        }
        verdict
    }

    /// The verdict on `saved_key` where the inner iterator stands on its newest visible version.
    fn resolve_at_newest(&mut self) -> Verdict {
        if !self.inner.valid() || !self.is_saved_key(extract_user_key(self.inner.key())) {
            if let Err(error) = self.inner.status() {
                self.fail(error);
                return Verdict::Failed;
            }
            return Verdict::Hidden;
        }
        let footer = extract_footer(self.inner.key());
        match ValueType::from_u8(footer as u8) {
            Some(ValueType::Value | ValueType::ValuePreferredSeqno) => {
                let value = base_value(footer, self.inner.value());
                self.saved_value.clear();
                self.saved_value.extend_from_slice(value);
                Verdict::Live
            }
            Some(ValueType::Merge) => {
                self.merge_forward();
                if self.shown == Shown::Saved { Verdict::Live } else { Verdict::Failed }
            }
            Some(ValueType::Deletion | ValueType::SingleDeletion | ValueType::DeletionWithTimestamp) => Verdict::Hidden,
            other => {
                self.refuse(other, footer);
                Verdict::Failed
            }
        }
    }
}
