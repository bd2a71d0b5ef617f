//! Where the output files of a compaction end.
//!
//! Keys flow in one by one with the size of the open output; out comes whether the output must end before the key. Outputs
//! are cut along the boundaries of the files one level deeper (the grandparents), so that a later compaction of an output
//! reads few files it does not need. A pure decision: nothing here touches a file.
//!
//! Always true here: keys arrive in internal order; level 0 is never cut.

use std::cmp::Ordering;
use std::sync::Arc;

use firn_format::comparator::InternalKeyComparator;
use firn_format::key::{InternalKey, extract_user_key};

use super::picker::CompactionPlan;
use crate::version::FileMetaData;

/// What decides where outputs end; taken from the plan.
#[derive(Clone, Debug)]
pub(crate) struct CutRules {
    /// False for level 0, whose output is one file.
    pub(crate) may_cut: bool,
    /// Size in bytes that outputs are meant to have.
    pub(crate) target_bytes: u64,
    /// Size in bytes that ends an output wherever it stands.
    pub(crate) max_bytes: u64,
    /// Most bytes of grandparents that an output may overlap.
    pub(crate) max_overlap_bytes: u64,
    /// Leveled style: outputs are aligned with grandparents also when they are smaller than the target.
    pub(crate) align: bool,
    /// Round-robin priority: outputs end at the output level's cursor.
    pub(crate) cursor: Option<InternalKey>,
}

/// A walk along sorted, disjoint files that counts how many of their boundaries the keys cross.
#[derive(Debug)]
struct BoundaryWalk {
    files: Vec<Arc<FileMetaData>>,
    /// The file that the last key lies in or before.
    at: usize,
    inside: bool,
}

/// What one step of a walk passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Crossed {
    boundaries: usize,
    /// Bytes of the files that begin and end between two keys.
    skipped_bytes: u64,
    /// Bytes of the files that were entered.
    entered_bytes: u64,
}

impl BoundaryWalk {
    fn new(files: Vec<Arc<FileMetaData>>) -> Self {
        Self { files, at: 0, inside: false }
    }

    fn advance(&mut self, user_key: &[u8], order: &InternalKeyComparator) -> Crossed {
        let mut crossed = Crossed::default();
        let mut entered_now = false;
        while let Some(file) = self.files.get(self.at) {
            if !self.inside {
                if order.compare_user(user_key, file.smallest.user_key()) == Ordering::Less {
                    break;
                }
                self.inside = true;
                entered_now = true;
                crossed.entered_bytes += file.file_size;
            } else {
                let beyond = match order.compare_user(user_key, file.largest.user_key()) {
                    Ordering::Less => false,
                    Ordering::Equal => file.largest.is_range_sentinel(),
                    Ordering::Greater => true,
                };
                if !beyond {
                    break;
                }
                if entered_now {
                    crossed.skipped_bytes += file.file_size;
                }
                self.inside = false;
                entered_now = false;
                self.at += 1;
            }
            crossed.boundaries += 1;
        }
        crossed
    }

    /// Bytes of the file that the last key lies in.
    fn current_bytes(&self) -> u64 {
        self.files.get(self.at).filter(|_| self.inside).map_or(0, |file| file.file_size)
    }
}

/// Decides where the outputs of one subcompaction end.
#[derive(Debug)]
pub(crate) struct OutputCutter {
    rules: CutRules,
    order: InternalKeyComparator,
    grandparents: BoundaryWalk,
    old_files: BoundaryWalk,
    overlapped_bytes: u64,
    boundaries_in_output: usize,
    cursor_passed: bool,
}

impl OutputCutter {
    /// A cutter for `rules`; `grandparents` and `old_files` (input files of the output level that outlived half their time
    /// to live, which get outputs of their own) are sorted by key.
    pub(crate) fn new(
        rules: CutRules,
        order: InternalKeyComparator,
        grandparents: Vec<Arc<FileMetaData>>,
        old_files: Vec<Arc<FileMetaData>>,
    ) -> Self {
        Self {
            rules,
            order,
            grandparents: BoundaryWalk::new(grandparents),
            old_files: BoundaryWalk::new(old_files),
            overlapped_bytes: 0,
            boundaries_in_output: 0,
            cursor_passed: false,
        }
    }

    /// The rules of `plan`, which outputs of leveled compactions align with its grandparents.
    pub(crate) fn rules_of(plan: &CompactionPlan, leveled: bool, cursor: Option<InternalKey>) -> CutRules {
        CutRules {
            may_cut: plan.output_level > 0,
            target_bytes: plan.target_output_file_size_bytes,
            max_bytes: plan.max_output_file_size_bytes,
            max_overlap_bytes: plan.max_compaction_bytes,
            align: leveled,
            cursor,
        }
    }

    /// Whether the open output, `output_bytes` long, must end before `key`. Every key must be shown once, also the first
    /// of an output; `output_bytes` is `None` when no output is open.
    pub(crate) fn must_end_before(&mut self, key: &[u8], output_bytes: Option<u64>) -> bool {
        if !self.rules.may_cut {
            return false;
        }
        let user_key = extract_user_key(key);
        let crossed_old = self.old_files.advance(user_key, &self.order).boundaries > 0;
        let passed_cursor = self.passes_cursor(key);
        let crossed = self.grandparents.advance(user_key, &self.order);
        self.overlapped_bytes += crossed.entered_bytes;
        self.boundaries_in_output += crossed.boundaries;
        let cut = output_bytes.is_some_and(|bytes| {
            crossed_old || bytes >= self.rules.max_bytes || passed_cursor || self.boundary_says_cut(&crossed, bytes)
        });
        if cut || output_bytes.is_none() {
            self.overlapped_bytes = self.grandparents.current_bytes();
            self.boundaries_in_output = 0;
        }
        cut
    }

    fn passes_cursor(&mut self, key: &[u8]) -> bool {
        let Some(cursor) = self.rules.cursor.as_ref().filter(|_| !self.cursor_passed) else { return false };
        self.cursor_passed = self.order.compare(key, cursor.encoded()) != Ordering::Less;
        self.cursor_passed
    }

    fn boundary_says_cut(&self, crossed: &Crossed, output_bytes: u64) -> bool {
        if crossed.boundaries == 0 {
            return false;
        }
        if self.overlapped_bytes.saturating_add(output_bytes) > self.rules.max_overlap_bytes {
            return true;
        }
        if !self.rules.align {
            return false;
        }
        // A whole grandparent lies between two keys: with a cut here, a later compaction need not read it.
        let needed = if self.grandparents.inside { 3 } else { 2 };
        if crossed.boundaries >= needed && crossed.skipped_bytes > self.rules.target_bytes / 8 {
            return true;
        }
        // The more grandparents an output already covers, the larger it must be before a boundary is worth a cut.
        let percent = 50 + (5 * self.boundaries_in_output as u64).min(40);
        output_bytes >= self.rules.target_bytes.div_ceil(100).saturating_mul(percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firn_format::key::{FileNumber, SequenceNumber, ValueType};
    use firn_format::version_edit::NewFile;

    fn key(n: u64) -> InternalKey {
        InternalKey::new(format!("{n:08}").as_bytes(), SequenceNumber(1), ValueType::Value)
    }

    fn file(number: u64, first: u64, last: u64, bytes: u64) -> Arc<FileMetaData> {
        Arc::new(FileMetaData::new(NewFile {
            number: FileNumber(number),
            file_size: bytes,
            smallest: key(first),
            largest: key(last),
            ..NewFile::default()
        }))
    }

    fn rules() -> CutRules {
        CutRules {
            may_cut: true,
            target_bytes: 1_000_000,
            max_bytes: 2_000_000,
            max_overlap_bytes: 25_000_000,
            align: true,
            cursor: None,
        }
    }

    /// Writes 100-byte entries and returns how many grandparents each output but the last covers.
    fn grandparents_per_output(kilobytes: u64, files: u64) -> Vec<u64> {
        let per_file = kilobytes * 10;
        let grandparents =
            (0..files).map(|i| file(i + 1, i * per_file, (i + 1) * per_file - 1, kilobytes * 10_000)).collect();
        let mut cutter = OutputCutter::new(rules(), InternalKeyComparator::default(), grandparents, Vec::new());
        let (mut covered, mut start) = (Vec::new(), None::<u64>);
        for n in 0..files * per_file {
            // What is in the block being built (up to 4 KiB) is not counted.
            let bytes = start.map(|start| (n - start) * 100 / 4096 * 4096);
            if cutter.must_end_before(key(n).encoded(), bytes) {
                covered.push((n - start.unwrap()).div_ceil(per_file));
                start = None;
            }
            start.get_or_insert(n);
        }
        covered
    }

    #[test]
    fn outputs_end_at_grandparent_boundaries() {
        for (kilobytes, expected) in [(300, 3), (520, 2), (620, 1), (100, 10)] {
            let covered = grandparents_per_output(kilobytes, 40);
            assert!(!covered.is_empty() && covered.iter().all(|n| *n == expected), "{kilobytes} KB: {covered:?}");
        }
    }

    #[test]
    fn without_grandparents_only_the_size_ends_an_output() {
        let mut cutter = OutputCutter::new(rules(), InternalKeyComparator::default(), Vec::new(), Vec::new());
        assert!(!cutter.must_end_before(key(1).encoded(), None));
        assert!(!cutter.must_end_before(key(2).encoded(), Some(1_999_999)));
        assert!(cutter.must_end_before(key(3).encoded(), Some(2_000_000)));
    }

    #[test]
    fn level_0_is_never_cut() {
        let rules = CutRules { may_cut: false, ..rules() };
        let mut cutter = OutputCutter::new(rules, InternalKeyComparator::default(), Vec::new(), Vec::new());
        assert!(!cutter.must_end_before(key(3).encoded(), Some(u64::MAX)));
    }

    #[test]
    fn a_skipped_grandparent_ends_the_output() {
        let mut cutter =
            OutputCutter::new(rules(), InternalKeyComparator::default(), vec![file(1, 10, 20, 200_000)], Vec::new());
        assert!(!cutter.must_end_before(key(5).encoded(), None));
        assert!(cutter.must_end_before(key(30).encoded(), Some(100)));
    }

    #[test]
    fn an_old_file_gets_an_output_of_its_own() {
        let mut cutter =
            OutputCutter::new(rules(), InternalKeyComparator::default(), Vec::new(), vec![file(1, 10, 20, 900_000)]);
        assert!(!cutter.must_end_before(key(5).encoded(), None));
        assert!(cutter.must_end_before(key(12).encoded(), Some(100)));
        assert!(!cutter.must_end_before(key(19).encoded(), Some(200)));
        assert!(cutter.must_end_before(key(21).encoded(), Some(300)));
    }
}
