//! Merge operands on their way to a full merge.
//!
//! A read that meets merge entries collects their operands here until it knows the base, then merges. Operands are copied
//! into one buffer that is kept from key to key, so that scans over merged keys do not allocate per operand.

use firn_error::{Error, Result, SubCode};

use crate::merge::{MergeFailure, MergeInput, MergeOperator};

/// In which order operands are pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperandOrder {
    /// As lookups and forward scans meet them.
    NewestFirst,
    /// As backward scans meet them.
    OldestFirst,
}

/// Collected operands of one key.
#[derive(Clone, Debug)]
pub struct MergeContext {
    order: OperandOrder,
    bytes: Vec<u8>,
    /// Where each operand ends in `bytes`, in the order of pushing.
    ends: Vec<usize>,
}

impl MergeContext {
    /// No operands yet.
    pub fn new(order: OperandOrder) -> Self {
        Self { order, bytes: Vec::new(), ends: Vec::new() }
    }

    /// Forgets the operands and takes new ones in `order`; keeps the memory.
    pub fn reset(&mut self, order: OperandOrder) {
        self.order = order;
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds the next operand.
    pub fn push(&mut self, operand: &[u8]) {
        self.bytes.extend_from_slice(operand);
        self.ends.push(self.bytes.len());
    }

    /// How many operands there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The operands, oldest first.
    pub fn operands(&self) -> Vec<&[u8]> {
        let mut start = 0;
        let mut operands: Vec<&[u8]> = Vec::with_capacity(self.ends.len());
        for &end in &self.ends {
            operands.push(self.bytes.get(start..end).unwrap_or_default());
            start = end;
        }
        if self.order == OperandOrder::NewestFirst {
            operands.reverse();
        }
        operands
    }

    /// Merges the operands over `existing` into `output`, which is cleared first.
    ///
    /// # Errors
    /// As [`full_merge`].
    pub fn merge_over(
        &self,
        operator: Option<&dyn MergeOperator>,
        user_key: &[u8],
        existing: Option<&[u8]>,
        output: &mut Vec<u8>,
    ) -> Result<()> {
        let operator = operator.ok_or_else(missing_operator)?;
        full_merge(operator, user_key, existing, &self.operands(), output)
    }

    /// Whether the operator wants to merge what a point read has collected, without a base.
    pub fn should_merge(&self, operator: Option<&dyn MergeOperator>) -> bool {
        operator.is_some_and(|operator| operator.should_merge(&self.operands()))
    }
}

/// The error of a merge without an operator.
#[cold]
pub fn missing_operator() -> Error {
    Error::invalid_argument("merge_operator is not properly initialized.")
}

/// Merges `operands` (oldest first) over `existing` into `output`, which is cleared first.
///
/// # Errors
/// `Corruption` with sub-code `MergeOperatorFailed` if the operator refuses, `Corruption` if the result exceeds 4 GiB - 1.
/// How a compaction takes a refusal is in the `Err` of [`try_full_merge`].
pub fn full_merge(
    operator: &dyn MergeOperator,
    user_key: &[u8],
    existing: Option<&[u8]>,
    operands: &[&[u8]],
    output: &mut Vec<u8>,
) -> Result<()> {
    try_full_merge(operator, user_key, existing, operands, output).map_err(|(error, _)| error)
}

/// As [`full_merge`], with the scope of a failure beside the error.
///
/// # Errors
/// See [`full_merge`].
pub fn try_full_merge(
    operator: &dyn MergeOperator,
    user_key: &[u8],
    existing: Option<&[u8]>,
    operands: &[&[u8]],
    output: &mut Vec<u8>,
) -> Result<(), (Error, MergeFailure)> {
    output.clear();
    if let Err(failure) = operator.full_merge(&MergeInput { key: user_key, existing, operands }, output) {
        let error = Error::corruption(operator.name()).with_subcode(SubCode::MergeOperatorFailed);
        return Err((error, failure));
    }
    if u32::try_from(output.len()).is_err() {
        return Err((Error::corruption("merged value exceeds 4 GiB - 1"), MergeFailure::TryMerge));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::StringAppendOperator;

    #[test]
    fn operands_come_out_oldest_first_whatever_the_order_in() {
        let mut context = MergeContext::new(OperandOrder::NewestFirst);
        ["c", "b", ""].iter().for_each(|o| context.push(o.as_bytes()));
        assert_eq!(context.operands(), [&b""[..], b"b", b"c"]);
        context.reset(OperandOrder::OldestFirst);
        ["a", "b"].iter().for_each(|o| context.push(o.as_bytes()));
        let mut output = b"old".to_vec();
        context.merge_over(Some(&StringAppendOperator::default()), b"k", Some(b"x"), &mut output).unwrap();
        assert_eq!(output, b"x,a,b");
        assert!(context.merge_over(None, b"k", None, &mut output).is_err());
    }
}
