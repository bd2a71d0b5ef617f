//! Merge operands in flushes and compactions: folded with their base where it is at hand, else with one another.

use std::ops::Range;

use firn_error::{Error, Result};
use firn_format::iterator::InternalIterator;
use firn_format::key::{SequenceNumber, ValueType, extract_user_key, pack_footer, parse_internal_key};

use super::{CompactionIterator, ValueSource, Verdict, lies_behind};
use crate::compaction::filter::{FilterDecision, FilterValueType};
use crate::merge::MergeFailure;
use crate::read::merge_context::{OperandOrder, missing_operator, try_full_merge};

/// An entry that merging produced.
#[derive(Clone, Debug)]
pub(super) struct MergedEntry {
    footer: u64,
    /// Its value, in the buffer of merged values.
    pub(super) value: Range<usize>,
}

/// Why collecting operands ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The key has no older entry in the input.
    WholeKey,
    /// A snapshot lies between the operands and the next entry.
    Stripe,
    /// The input stands on an entry of another kind: the base.
    Base,
    /// The filter skipped the rest of the key, and more.
    Skipped,
}

impl<I: InternalIterator> CompactionIterator<'_, I> {
    /// Starts at a merge entry, takes in what can be folded, and shows the first entry that comes of it.
    pub(super) fn merge_operands(&mut self) -> Result<Verdict> {
        let operator = self.rules.merge_operator.clone().ok_or_else(missing_operator)?;
        self.operands.reset(OperandOrder::NewestFirst);
        self.operand_footers.clear();
        self.merged.clear();
        self.merged_bytes.clear();
        self.next_merged = 0;
        let before = self.rules.stripes.before(self.sequence);
        let end = self.collect_operands(before)?;
        if end == End::Skipped {
            return Ok(Verdict::Advanced);
        }
        let Some(&newest) = self.operand_footers.first() else {
            // Nothing is left of the operands: what follows stands for itself.
            self.has_key = false;
            return Ok(Verdict::Advanced);
        };
        let newest = SequenceNumber(newest >> 8);
        let mut output = std::mem::take(&mut self.value_buffer);
        let user_key = extract_user_key(&self.key).to_vec();
        let full = match end {
            End::Base => {
                let base = parse_internal_key(self.input.key())?;
                let covered = self.tombstones.deletes(&user_key, base.sequence, &self.rules.stripes);
                let existing = match base.value_type {
                    _ if covered => None,
                    ValueType::Value => Some(self.input.value()),
                    ValueType::ValuePreferredSeqno => {
                        Some(firn_format::batch::unpack_timed_value(self.input.value())?.0)
                    }
                    ValueType::Deletion | ValueType::SingleDeletion => None,
                    other => {
                        return Err(Error::not_supported(format!("merge over an entry of type {:#04x}", other as u8)));
                    }
                };
                Some(try_full_merge(&*operator, &user_key, existing, &self.operands.operands(), &mut output))
            }
            End::WholeKey if self.rules.bottommost => {
                Some(try_full_merge(&*operator, &user_key, None, &self.operands.operands(), &mut output))
            }
            End::WholeKey | End::Stripe | End::Skipped => None,
        };
        match full {
            Some(Ok(())) => {
                if end == End::Base {
                    self.advance_input();
                }
                self.add_merged(pack_footer(newest, ValueType::Value), &output);
            }
            Some(Err((_, MergeFailure::MustMerge))) => {
                self.stats.merge_failures += 1;
                self.add_operands();
                // The base, if there is one, is still needed below them.
                self.newer_stripe = None;
            }
            Some(Err((error, MergeFailure::TryMerge))) => return Err(error),
            None => {
                output.clear();
                let enough = self.operands.len() >= if operator.allow_single_operand() { 1 } else { 2 };
                if enough && operator.partial_merge_multi(&user_key, &self.operands.operands(), &mut output) {
                    self.add_merged(pack_footer(newest, ValueType::Merge), &output);
                } else {
                    self.add_operands();
                }
            }
        }
        self.value_buffer = output;
        self.show_merged();
        Ok(Verdict::Advanced)
    }

    /// Takes operands off the input, newest first, down to the base, the snapshot `before` or the end of the key.
    fn collect_operands(&mut self, before: SequenceNumber) -> Result<End> {
        loop {
            let operand = parse_internal_key(self.input.key())?;
            let (sequence, footer) = (operand.sequence, pack_footer(operand.sequence, ValueType::Merge));
            let user_key = extract_user_key(&self.key);
            if self.tombstones.deletes(user_key, sequence, &self.rules.stripes) {
                self.stats.dropped_range_deleted += 1;
            } else {
                let decision = match &self.rules.filter {
                    Some(filter) if sequence > self.rules.stripes.latest() => filter.filter(
                        self.rules.filter_level,
                        user_key,
                        FilterValueType::MergeOperand,
                        self.input.value(),
                    ),
                    _ => FilterDecision::Keep,
                };
                match decision {
                    FilterDecision::Keep => {
                        self.operands.push(self.input.value());
                        self.operand_footers.push(footer);
                    }
                    FilterDecision::ChangeValue(value) => {
                        self.operands.push(&value);
                        self.operand_footers.push(footer);
                    }
                    FilterDecision::RemoveAndSkipUntil(until)
                        if self.rules.order.compare_user(&until, user_key).is_gt() =>
                    {
                        self.stats.dropped_by_filter += 1;
                        self.skip_until(&until);
                        return Ok(End::Skipped);
                    }
                    FilterDecision::Remove | FilterDecision::Purge | FilterDecision::RemoveAndSkipUntil(_) => {
                        self.stats.dropped_by_filter += 1;
                    }
                }
            }
            self.advance_input();
            if !self.input.valid() {
                // An error of the input must not pass for the end of the key.
                self.input.status()?;
                return Ok(End::WholeKey);
            }
            if !self.input_has_same_key() {
                return Ok(End::WholeKey);
            }
            let next = parse_internal_key(self.input.key())?;
            if lies_behind(before, next.sequence) {
                return Ok(End::Stripe);
            }
            if next.value_type != ValueType::Merge {
                return Ok(End::Base);
            }
        }
    }

    fn add_merged(&mut self, footer: u64, value: &[u8]) {
        let start = self.merged_bytes.len();
        self.merged_bytes.extend_from_slice(value);
        self.merged.push(MergedEntry { footer, value: start..self.merged_bytes.len() });
    }

    /// The operands as they are, newest first.
    fn add_operands(&mut self) {
        let oldest_first = self.operands.operands();
        for (footer, operand) in self.operand_footers.iter().zip(oldest_first.iter().rev()) {
            let start = self.merged_bytes.len();
            self.merged_bytes.extend_from_slice(operand);
            self.merged.push(MergedEntry { footer: *footer, value: start..self.merged_bytes.len() });
        }
    }

    /// Makes the next merged entry the output.
    pub(super) fn show_merged(&mut self) {
        let at = self.next_merged;
        let Some(entry) = self.merged.get(at) else { return };
        let value_type = ValueType::from_u8(entry.footer as u8).unwrap_or(ValueType::Merge);
        self.set_footer(SequenceNumber(entry.footer >> 8), value_type);
        self.value_source = ValueSource::Merged(at);
        self.next_merged += 1;
        self.at_next = true;
        self.write_current();
    }
}
