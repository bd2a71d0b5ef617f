//! Merge operators: what a `merge` write means.
//!
//! A [`MergeOperator`] combines an existing value with operands that were written over it. The database keeps operands as
//! they were written and calls the operator when it reads (full merge), and when compactions and flushes meet several
//! operands of one key (partial merge). The built-in operators carry the names under which RocksDB stores them in
//! OPTIONS files; [`built_in`] finds them by either of their names.
//!
//! Operands always come oldest first. An operator must be deterministic and thread-safe.

use std::sync::Arc;

/// Why a full merge gave no result, and what a compaction that meets it does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MergeFailure {
    /// Reads fail; a compaction that tries the merge fails too.
    #[default]
    TryMerge,
    /// Reads fail; a compaction leaves base and operands as they are.
    MustMerge,
}

/// What a full merge works on.
#[derive(Clone, Copy, Debug)]
pub struct MergeInput<'a> {
    /// The user key.
    pub key: &'a [u8],
    /// The value below the operands; `None` if the key did not exist or was deleted.
    pub existing: Option<&'a [u8]>,
    /// The operands, oldest first, never empty.
    pub operands: &'a [&'a [u8]],
}

/// Combines values with operands; see the module documentation.
pub trait MergeOperator: Send + Sync {
    /// The name under which databases remember the operator.
    fn name(&self) -> &str;

    /// Writes the merged value into `output`, which is empty at the call.
    ///
    /// # Errors
    /// [`MergeFailure`] if the operands make no sense; the reader gets `Corruption` (merge operator failed).
    fn full_merge(&self, input: &MergeInput<'_>, output: &mut Vec<u8>) -> Result<(), MergeFailure>;

    /// Combines two neighbouring operands into one, written into `output` (empty at the call); `left` is the older one.
    /// Returns `false` if they cannot be combined without the base; `output` is then ignored.
    fn partial_merge(&self, key: &[u8], left: &[u8], right: &[u8], output: &mut Vec<u8>) -> bool {
        let _ = (key, left, right, output);
        false
    }

    /// Combines several operands, oldest first, into one, written into `output` (empty at the call). By default folds
    /// [`partial_merge`](Self::partial_merge) from the oldest on.
    fn partial_merge_multi(&self, key: &[u8], operands: &[&[u8]], output: &mut Vec<u8>) -> bool {
        let [first, second, rest @ ..] = operands else { return false };
        if !self.partial_merge(key, first, second, output) {
            return false;
        }
        let mut left = Vec::new();
        for right in rest {
            std::mem::swap(&mut left, output);
            output.clear();
            if !self.partial_merge(key, &left, right, output) {
                return false;
            }
        }
        true
    }

    /// Whether a partial merge may be asked for with a single operand.
    fn allow_single_operand(&self) -> bool {
        false
    }

    /// Whether a point read that has collected these operands (oldest first) should merge them now, without looking for
    /// older ones or the base.
    fn should_merge(&self, operands: &[&[u8]]) -> bool {
        let _ = operands;
        false
    }

    /// The operator's own option string (`delimiter=,`), appended to its name in OPTIONS files; empty if it has none.
    fn option_text(&self) -> String {
        String::new()
    }
}

/// The built-in operator called `name`, by its short or stored name. `delimiter` is for the string-appending ones;
/// `None` means `,`.
pub fn built_in(name: &str, delimiter: Option<&str>) -> Option<Arc<dyn MergeOperator>> {
    let delimiter = || delimiter.unwrap_or(",").as_bytes().to_vec();
    Some(match name {
        "put" | "put_v1" | "PutOperator" => Arc::new(PutOperator),
        "uint64add" | "UInt64AddOperator" => Arc::new(UInt64AddOperator),
        "stringappend" | "StringAppendOperator" => Arc::new(StringAppendOperator::new(delimiter())),
        "stringappendtest" | "StringAppendTESTOperator" => Arc::new(StringAppendTestOperator::new(delimiter())),
        "max" | "MaxOperator" => Arc::new(MaxOperator),
        "bytesxor" | "BytesXOR" => Arc::new(BytesXorOperator),
        "sortlist" | "MergeSortOperator" => Arc::new(SortListOperator),
        _ => return None,
    })
}

/// `put`: the newest operand replaces everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct PutOperator;

impl MergeOperator for PutOperator {
    fn name(&self) -> &str {
        "PutOperator"
    }

    fn full_merge(&self, input: &MergeInput<'_>, output: &mut Vec<u8>) -> Result<(), MergeFailure> {
        output.extend_from_slice(input.operands.last().ok_or(MergeFailure::TryMerge)?);
        Ok(())
    }

    fn partial_merge(&self, _key: &[u8], _left: &[u8], right: &[u8], output: &mut Vec<u8>) -> bool {
        output.extend_from_slice(right);
        true
    }

    fn partial_merge_multi(&self, _key: &[u8], operands: &[&[u8]], output: &mut Vec<u8>) -> bool {
        let Some(newest) = operands.last() else { return false };
        output.extend_from_slice(newest);
        true
    }
}

/// `uint64add`: adds little-endian 64-bit counters, wrapping. A value of another size counts as zero.
#[derive(Clone, Copy, Debug, Default)]
pub struct UInt64AddOperator;

fn counter(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

impl MergeOperator for UInt64AddOperator {
    fn name(&self) -> &str {
        "UInt64AddOperator"
    }

    fn full_merge(&self, input: &MergeInput<'_>, output: &mut Vec<u8>) -> Result<(), MergeFailure> {
        let base = input.existing.map_or(0, counter);
        let sum = input.operands.iter().fold(base, |sum, operand| sum.wrapping_add(counter(operand)));
        output.extend_from_slice(&sum.to_le_bytes());
        Ok(())
    }

    fn partial_merge(&self, _key: &[u8], left: &[u8], right: &[u8], output: &mut Vec<u8>) -> bool {
        output.extend_from_slice(&counter(left).wrapping_add(counter(right)).to_le_bytes());
        true
    }
}

fn append_all(existing: Option<&[u8]>, operands: &[&[u8]], delimiter: &[u8], output: &mut Vec<u8>) {
    for (at, part) in existing.iter().chain(operands).enumerate() {
        if at > 0 {
            output.extend_from_slice(delimiter);
        }
        output.extend_from_slice(part);
    }
}

/// `stringappend`: appends operands with a delimiter between them.
#[derive(Clone, Debug)]
pub struct StringAppendOperator {
    delimiter: Vec<u8>,
}

impl StringAppendOperator {
    /// Appends with `delimiter` in between; the usual one is `,`.
    pub fn new(delimiter: impl Into<Vec<u8>>) -> Self {
        Self { delimiter: delimiter.into() }
    }
}

impl Default for StringAppendOperator {
    fn default() -> Self {
        Self::new(",")
    }
}

impl MergeOperator for StringAppendOperator {
    fn name(&self) -> &str {
        "StringAppendOperator"
    }

    fn full_merge(&self, input: &MergeInput<'_>, output: &mut Vec<u8>) -> Result<(), MergeFailure> {
        append_all(input.existing, input.operands, &self.delimiter, output);
        Ok(())
    }

    fn partial_merge(&self, _key: &[u8], left: &[u8], right: &[u8], output: &mut Vec<u8>) -> bool {
        append_all(None, &[left, right], &self.delimiter, output);
        true
    }

    fn partial_merge_multi(&self, _key: &[u8], operands: &[&[u8]], output: &mut Vec<u8>) -> bool {
        append_all(None, operands, &self.delimiter, output);
        true
    }

    fn option_text(&self) -> String {
        format!("delimiter={}", String::from_utf8_lossy(&self.delimiter))
    }
}

/// `stringappendtest`: as [`StringAppendOperator`], but operands are never combined before a full merge.
#[derive(Clone, Debug)]
pub struct StringAppendTestOperator {
    delimiter: Vec<u8>,
}

impl StringAppendTestOperator {
    /// Appends with `delimiter` in between; the usual one is `,`.
    pub fn new(delimiter: impl Into<Vec<u8>>) -> Self {
        Self { delimiter: delimiter.into() }
    }
}

impl MergeOperator for StringAppendTestOperator {
    fn name(&self) -> &str {
        "StringAppendTESTOperator"
    }

    fn full_merge(&self, input: &MergeInput<'_>, output: &mut Vec<u8>) -> Result<(), MergeFailure> {
        append_all(input.existing, input.operands, &self.delimiter, output);
        Ok(())
    }

    fn option_text(&self) -> String {
        format!("delimiter={}", String::from_utf8_lossy(&self.delimiter))
    }
}

/// `max`: keeps the greatest value in byte order.
#[derive(Clone, Copy, Debug, Default)]
pub struct MaxOperator;

impl MergeOperator for MaxOperator {
    fn name(&self) -> &str {
        "MaxOperator"
    }

    fn full_merge(&self, input: &MergeInput<'_>, output: &mut Vec<u8>) -> Result<(), MergeFailure> {
        let greatest = input.operands.iter().copied().chain(input.existing).max().unwrap_or_default();
        output.extend_from_slice(greatest);
        Ok(())
    }

    fn partial_merge(&self, _key: &[u8], left: &[u8], right: &[u8], output: &mut Vec<u8>) -> bool {
        output.extend_from_slice(left.max(right));
        true
    }

    fn partial_merge_multi(&self, _key: &[u8], operands: &[&[u8]], output: &mut Vec<u8>) -> bool {
        output.extend_from_slice(operands.iter().copied().max().unwrap_or_default());
        true
    }
}

/// `bytesxor`: exclusive or of all values; a shorter one counts as filled with zeros.
#[derive(Clone, Copy, Debug, Default)]
pub struct BytesXorOperator;

fn xor_into(output: &mut Vec<u8>, bytes: &[u8]) {
    if output.len() < bytes.len() {
        output.resize(bytes.len(), 0);
    }
    output.iter_mut().zip(bytes).for_each(|(to, from)| *to ^= from);
}

impl MergeOperator for BytesXorOperator {
    fn name(&self) -> &str {
        "BytesXOR"
    }

    fn full_merge(&self, input: &MergeInput<'_>, output: &mut Vec<u8>) -> Result<(), MergeFailure> {
        input.existing.iter().chain(input.operands).for_each(|part| xor_into(output, part));
        Ok(())
    }

    fn partial_merge(&self, _key: &[u8], left: &[u8], right: &[u8], output: &mut Vec<u8>) -> bool {
        xor_into(output, left);
        xor_into(output, right);
        true
    }
}

/// `sortlist`: values are comma-separated ascending lists of decimal 32-bit integers; merges them into one such list.
#[derive(Clone, Copy, Debug, Default)]
pub struct SortListOperator;

impl SortListOperator {
    /// Appends the numbers of `list` to `numbers`. Text that is no number counts as zero.
    fn parse(list: &[u8], numbers: &mut Vec<i32>) {
        let number = |part: &[u8]| std::str::from_utf8(part).ok().and_then(|t| t.trim().parse().ok()).unwrap_or(0);
        numbers.extend(list.split(|&byte| byte == b',').map(number));
    }

    fn merge<'a>(lists: impl Iterator<Item = &'a [u8]>, output: &mut Vec<u8>) {
        let mut numbers: Vec<i32> = Vec::new();
        lists.for_each(|list| Self::parse(list, &mut numbers));
        numbers.sort_unstable(); // the lists are sorted runs already, which the sort finds
        for (at, number) in numbers.iter().enumerate() {
            if at > 0 {
                output.push(b',');
            }
            output.extend_from_slice(number.to_string().as_bytes());
        }
    }
}

impl MergeOperator for SortListOperator {
    fn name(&self) -> &str {
        "MergeSortOperator"
    }

    fn full_merge(&self, input: &MergeInput<'_>, output: &mut Vec<u8>) -> Result<(), MergeFailure> {
        Self::merge(input.existing.into_iter().chain(input.operands.iter().copied()), output);
        Ok(())
    }

    fn partial_merge(&self, _key: &[u8], left: &[u8], right: &[u8], output: &mut Vec<u8>) -> bool {
        Self::merge([left, right].into_iter(), output);
        true
    }

    fn partial_merge_multi(&self, _key: &[u8], operands: &[&[u8]], output: &mut Vec<u8>) -> bool {
        Self::merge(operands.iter().copied(), output);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(name: &str, existing: Option<&str>, operands: &[&str]) -> String {
        let operator = built_in(name, None).expect(name);
        let operands: Vec<&[u8]> = operands.iter().map(|o| o.as_bytes()).collect();
        let input = MergeInput { key: b"k", existing: existing.map(str::as_bytes), operands: &operands };
        let mut output = Vec::new();
        operator.full_merge(&input, &mut output).expect("merges");
        String::from_utf8(output).expect("text")
    }

    fn partial(name: &str, operands: &[&str]) -> Option<String> {
        let operator = built_in(name, None).expect(name);
        let operands: Vec<&[u8]> = operands.iter().map(|o| o.as_bytes()).collect();
        let mut output = Vec::new();
        operator.partial_merge_multi(b"k", &operands, &mut output).then(|| String::from_utf8(output).expect("text"))
    }

    #[test]
    fn the_built_in_operators_merge() {
        assert_eq!(full("put", Some("a"), &["b", "c"]), "c");
        assert_eq!(full("stringappend", Some("a"), &["b", "c"]), "a,b,c");
        assert_eq!(full("stringappend", None, &["b"]), "b");
        assert_eq!(full("stringappendtest", Some(""), &["b"]), ",b");
        assert_eq!(full("max", Some("b"), &["a", "ab"]), "b");
        assert_eq!(full("bytesxor", Some("ab"), &["  "]), "AB");
        assert_eq!(full("sortlist", Some("1,5,9"), &["2,7", "3"]), "1,2,3,5,7,9");
        assert_eq!(full("uint64add", Some("12345678"), &["\0\0\0\0\0\0\0\0", "short"]), "12345678");
    }

    #[test]
    fn partial_merges_fold_from_the_oldest() {
        assert_eq!(partial("put_v1", &["a", "b", "c"]).as_deref(), Some("c"));
        assert_eq!(partial("StringAppendOperator", &["a", "b", "c"]).as_deref(), Some("a,b,c"));
        assert_eq!(partial("stringappendtest", &["a", "b"]), None);
        assert_eq!(partial("bytesxor", &["a", "\0b", "\0\0c"]).as_deref(), Some("abc"));
        assert_eq!(partial("sortlist", &["2", "1", "3,4"]).as_deref(), Some("1,2,3,4"));
        assert_eq!(partial("uint64add", &["a"]), None);
    }

    #[test]
    fn names_are_the_stored_ones() {
        for (short, stored) in [
            ("put", "PutOperator"),
            ("put_v1", "PutOperator"),
            ("uint64add", "UInt64AddOperator"),
            ("stringappend", "StringAppendOperator"),
            ("stringappendtest", "StringAppendTESTOperator"),
            ("max", "MaxOperator"),
            ("bytesxor", "BytesXOR"),
            ("sortlist", "MergeSortOperator"),
        ] {
            assert_eq!(built_in(short, None).expect(short).name(), stored);
            assert_eq!(built_in(stored, None).expect(stored).name(), stored);
        }
        assert!(built_in("cassandra", None).is_none());
    }
}
