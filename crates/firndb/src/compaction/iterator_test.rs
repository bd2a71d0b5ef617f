use super::*;
use crate::merge::MergeInput;
use crate::read::testing::VecIterator;
use crate::read::tombstone_cover::TombstoneWindow;
use firn_error::SubCode;
use firn_format::range_tombstone::{FragmentedRangeTombstones, RangeTombstone};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Writes what it merges: full merges as `F(base,operands)`, partial ones as `P(operands)`.
struct Tracing;

impl MergeOperator for Tracing {
    fn name(&self) -> &str {
        "Tracing"
    }
    fn full_merge(&self, input: &MergeInput<'_>, output: &mut Vec<u8>) -> Result<(), crate::merge::MergeFailure> {
        let operands: Vec<_> = input.operands.iter().map(|o| String::from_utf8_lossy(o)).collect();
        if operands.iter().any(|o| o == "fail") {
            return Err(crate::merge::MergeFailure::TryMerge);
        }
        if operands.iter().any(|o| o == "later") {
            return Err(crate::merge::MergeFailure::MustMerge);
        }
        let base = input.existing.map_or("-".into(), String::from_utf8_lossy);
        output.extend_from_slice(format!("F({base},{})", operands.join(",")).as_bytes());
        Ok(())
    }
    fn partial_merge_multi(&self, _key: &[u8], operands: &[&[u8]], output: &mut Vec<u8>) -> bool {
        let operands: Vec<_> = operands.iter().map(|o| String::from_utf8_lossy(o)).collect();
        if operands.iter().any(|o| o == "later" || o == "apart") {
            return false;
        }
        output.extend_from_slice(format!("P({})", operands.join(",")).as_bytes());
        true
    }
}

/// `k P3=x k SD4 ...`: key, letters of the type with the sequence, and a value.
fn parse_entries(text: &str) -> Vec<(String, u64, ValueType, String)> {
    text.split_whitespace()
        .map(|entry| {
            let (key, rest) = entry.split_once(':').unwrap();
            let (rest, value) = rest.split_once('=').unwrap_or((rest, ""));
            let digits = rest.find(|c: char| c.is_ascii_digit()).unwrap();
            let value_type = match &rest[..digits] {
                "P" => ValueType::Value,
                "D" => ValueType::Deletion,
                "SD" => ValueType::SingleDeletion,
                "M" => ValueType::Merge,
                "T" => ValueType::ValuePreferredSeqno,
                other => panic!("{other}"),
            };
            (key.to_owned(), rest[digits..].parse().unwrap(), value_type, value.to_owned())
        })
        .collect()
}

fn letters(value_type: ValueType) -> &'static str {
    match value_type {
        ValueType::Value => "P",
        ValueType::Deletion => "D",
        ValueType::SingleDeletion => "SD",
        ValueType::Merge => "M",
        ValueType::ValuePreferredSeqno => "T",
        other => panic!("{other:?}"),
    }
}

struct Run<'a> {
    rules: DropRules,
    tombstones: &'a [(&'a str, &'a str, u64)],
    deeper: DeeperLevels,
}

fn stripes(snapshots: &[u64]) -> SnapshotStripes {
    SnapshotStripes::new(snapshots.iter().copied().map(SequenceNumber).collect())
}

fn flush(snapshots: &[u64]) -> Run<'static> {
    let rules = DropRules {
        merge_operator: Some(Arc::new(Tracing)),
        ..DropRules::flush(InternalKeyComparator::default(), stripes(snapshots))
    };
    Run { rules, tombstones: &[], deeper: DeeperLevels::unknown() }
}

fn bottommost(snapshots: &[u64]) -> Run<'static> {
    let mut run = flush(snapshots);
    run.rules.is_compaction = true;
    run.rules.bottommost = true;
    run
}

fn compaction(snapshots: &[u64]) -> Run<'static> {
    let mut run = flush(snapshots);
    run.rules.is_compaction = true;
    run
}

impl Run<'_> {
    fn result(mut self, input: &str) -> Result<String> {
        let entries = parse_entries(input);
        let entries: Vec<_> = entries.iter().map(|(k, s, t, v)| (k.as_str(), *s, *t, v.as_str())).collect();
        let order = InternalKeyComparator::default();
        let list = self
            .tombstones
            .iter()
            .map(|&(start, end, sequence)| RangeTombstone {
                start: start.into(),
                end: end.into(),
                sequence: SequenceNumber(sequence),
            })
            .collect();
        let window = TombstoneWindow {
            tombstones: Some(Arc::new(FragmentedRangeTombstones::new(list, &order))),
            from: None,
            until: None,
        };
        let mut tombstones = CompactionTombstones::new(order, vec![window]);
        let mut iterator =
            CompactionIterator::new(VecIterator::of(&entries), self.rules, &mut tombstones, &mut self.deeper, None);
        let mut output = Vec::new();
        iterator.seek_to_first();
        while iterator.valid() {
            let parsed = parse_internal_key(iterator.key()).unwrap();
            assert_eq!((parsed.sequence, parsed.value_type), (iterator.sequence, iterator.value_type));
            let (key, value) = (extract_user_key(iterator.key()), iterator.value());
            let mut text =
                format!("{}:{}{}", String::from_utf8_lossy(key), letters(parsed.value_type), parsed.sequence);
            if !value.is_empty() {
                text += &format!("={}", String::from_utf8_lossy(value));
            }
            output.push(text);
            iterator.next();
        }
        iterator.status()?;
        assert_eq!(iterator.stats().input_records, entries.len() as u64);
        Ok(output.join(" "))
    }
}

#[track_caller]
fn check(run: Run<'_>, input: &str, expected: &str) {
    assert_eq!(run.result(input).unwrap(), expected, "input {input}");
}

/// The table of the specification: a flush, then a bottommost compaction with the snapshot, then one without it.
#[test]
fn vectors() {
    struct Vector {
        snapshots: &'static [u64],
        input: &'static str,
        flushed: &'static str,
        compacted: &'static str,
        released: &'static str,
    }
    let vectors = [
        Vector {
            snapshots: &[2],
            input: "a:P1=1 a:P2=2 a:P3=3 a:P4=4 b:D5 c:P6=6 c:D7",
            flushed: "a:P4=4 a:P2=2 b:D5 c:D7",
            compacted: "a:P4=4 a:P0=2",
            released: "a:P0=4",
        },
        Vector { snapshots: &[], input: "a:P1=1 a:SD2", flushed: "", compacted: "", released: "" },
        Vector { snapshots: &[4], input: "a:P1=1 a:SD2", flushed: "", compacted: "", released: "" },
        Vector { snapshots: &[4], input: "b:SD3", flushed: "b:SD3", compacted: "", released: "" },
        Vector {
            snapshots: &[4],
            input: "c:P4=4 c:SD5",
            flushed: "c:SD5 c:P4=4",
            compacted: "c:SD5 c:P0=4",
            released: "",
        },
        Vector { snapshots: &[4], input: "d:P6=6 d:P7=7 d:SD8", flushed: "", compacted: "", released: "" },
        Vector { snapshots: &[4], input: "e:SD9 e:SD10", flushed: "e:SD9", compacted: "e:SD9", released: "" },
        Vector {
            snapshots: &[],
            input: "m:M1=1 m:M2=2 m:M3=3",
            flushed: "m:M3=P(1,2,3)",
            compacted: "m:P0=F(-,P(1,2,3))",
            released: "m:P0=F(-,P(1,2,3))",
        },
        Vector {
            snapshots: &[],
            input: "b:P4=0 b:M5=1 b:M6=2",
            flushed: "b:P6=F(0,1,2)",
            compacted: "b:P0=F(0,1,2)",
            released: "b:P0=F(0,1,2)",
        },
        Vector {
            snapshots: &[],
            input: "d:D8 d:M9=1",
            flushed: "d:P9=F(-,1)",
            compacted: "d:P0=F(-,1)",
            released: "d:P0=F(-,1)",
        },
        Vector {
            snapshots: &[10],
            input: "s:P10=0 s:M11=1 s:M12=2",
            flushed: "s:M12=P(1,2) s:P10=0",
            compacted: "s:M12=P(1,2) s:P0=0",
            released: "s:P0=F(0,P(1,2))",
        },
    ];
    for Vector { snapshots, input, flushed, compacted, released } in vectors {
        check(flush(snapshots), input, flushed);
        check(bottommost(snapshots), flushed, compacted);
        check(bottommost(&[]), flushed, released);
    }
}

/// What was zeroed at the bottom by an earlier compaction is in the stripe of what is written over it.
#[test]
fn bases_with_zeroed_sequences() {
    check(bottommost(&[]), "a:M9=x a:M8=y a:P0=b c:P0=z", "a:P0=F(b,y,x) c:P0=z");
    check(bottommost(&[]), "a:D9 a:P0=b", "");
    check(bottommost(&[]), "a:SD9 a:P0=b", "");
    check(bottommost(&[5]), "a:M9=x a:P0=b", "a:M9=x a:P0=b");
    check(bottommost(&[5]), "a:D9 a:P0=b", "a:D9 a:P0=b");
    check(compaction(&[]), "a:M9=x a:P0=b", "a:P9=F(b,x)");
}

#[test]
fn range_tombstones_delete_what_is_older() {
    let with = |run: Run<'static>| Run { tombstones: &[("a", "c", 4)], ..run };
    check(with(flush(&[])), "a:P1=1 b:P2=2 c:P3=3 b:P5=5", "b:P5=5 c:P3=3");
    check(with(bottommost(&[])), "b:P5=5 c:P3=3", "b:P0=5 c:P0=3");
    check(with(flush(&[2])), "a:P1=1 a:P3=3", "a:P1=1");
    check(with(flush(&[])), "a:P1=1 a:M2=2", "");
    check(with(flush(&[])), "a:P1=1 a:M2=2 a:M5=5", "a:P5=F(-,5)");
    check(with(compaction(&[])), "b:D2", "");
}

#[test]
fn tombstones_stay_while_something_may_lie_below() {
    check(compaction(&[]), "k:D4 zz:D5", "k:D4 zz:D5");
    check(flush(&[]), "k:D4", "k:D4");
    let mut behind = compaction(&[]);
    behind.rules.allow_ingest_behind = true;
    check(behind, "k:D4 l:SD5", "k:D4 l:SD5");
}

#[test]
fn single_deletions() {
    // The partner's type does not matter, except that deletions break the contract.
    check(flush(&[]), "a:M1=1 a:SD2", "");
    let error = flush(&[]).result("a:D1 a:SD2").unwrap_err();
    assert!(error.is_corruption() && error.message().starts_with("Found SD and type: 0 on the same key, violating"));
    let mut lax = flush(&[]);
    lax.rules.enforce_single_del_contracts = false;
    check(lax, "a:D1 a:SD2", "a:D1");
    // A transaction that watches the key must find that it changed.
    let mut guarded = flush(&[3]);
    guarded.rules.write_conflict_boundary = SequenceNumber(3);
    check(guarded, "a:P5=5 a:SD6", "a:SD6 a:P5");
    // After a zeroed entry the pair below is nobody's concern.
    check(bottommost(&[]), "a:P5=5 a:SD4 a:P3=3", "a:P0=5");
}

#[test]
fn operands_that_cannot_be_folded_stay_apart() {
    check(flush(&[]), "a:M1=1 a:M2=apart a:M3=3", "a:M3=3 a:M2=apart a:M1=1");
    check(flush(&[]), "a:M1=1", "a:M1=1");
    check(flush(&[]), "a:P1=0 a:M2=later a:M3=3", "a:M3=3 a:M2=later a:P1=0");
    check(bottommost(&[]), "a:M2=later b:P3=3", "a:M2=later b:P0=3");
    let error = flush(&[]).result("a:P1=0 a:M2=fail").unwrap_err();
    assert_eq!(error.subcode(), SubCode::MergeOperatorFailed);
    let mut without = flush(&[]);
    without.rules.merge_operator = None;
    assert!(without.result("a:M2=2").is_err());
}

struct Script(fn(&[u8], FilterValueType, &[u8]) -> FilterDecision);

impl CompactionFilter for Script {
    fn name(&self) -> &str {
        "Script"
    }
    fn filter(&self, level: usize, key: &[u8], value_type: FilterValueType, existing: &[u8]) -> FilterDecision {
        assert_eq!(level, 3);
        (self.0)(key, value_type, existing)
    }
}

fn filtered(mut run: Run<'static>, script: fn(&[u8], FilterValueType, &[u8]) -> FilterDecision) -> Run<'static> {
    run.rules.filter = Some(Arc::new(Script(script)));
    run.rules.filter_level = 3;
    run
}

#[test]
fn filters_see_the_newest_version() {
    let remove: fn(&[u8], FilterValueType, &[u8]) -> FilterDecision = |_, _, value| match value {
        b"bad" => FilterDecision::Remove,
        b"once" => FilterDecision::Purge,
        b"old" => FilterDecision::ChangeValue(b"new".to_vec()),
        _ => FilterDecision::Keep,
    };
    let input = "a:P1=bad b:P2=ok b:P1=bad c:P4=bad c:P3=x d:P5=old e:P7=once e:P6=x f:D8";
    check(filtered(compaction(&[]), remove), input, "a:D1 b:P2=ok c:D4 d:P5=new f:D8");
    check(filtered(bottommost(&[]), remove), input, "b:P0=ok d:P0=new");
    check(filtered(bottommost(&[3]), remove), "c:P4=bad c:P3=x", "c:D4 c:P0=x");
    check(filtered(flush(&[]), remove), "m:M1=1 m:M2=bad m:M3=old", "m:M3=P(1,new)");
    check(filtered(flush(&[2]), remove), "m:M1=bad m:M2=bad m:M3=bad", "m:M2=P(bad,bad)");
    check(filtered(flush(&[]), remove), "m:P1=1 m:M2=bad", "m:P1=1");
}

#[test]
fn filters_skip_ahead() {
    let skip: fn(&[u8], FilterValueType, &[u8]) -> FilterDecision = |key, _, _| match key {
        b"b" => FilterDecision::RemoveAndSkipUntil(b"e".to_vec()),
        b"g" => FilterDecision::RemoveAndSkipUntil(b"a".to_vec()),
        _ => FilterDecision::Keep,
    };
    // Skipped entries are not read, so this does not go through `check`.
    let run = |input: &str| {
        let entries = parse_entries(input);
        let entries: Vec<_> = entries.iter().map(|(k, s, t, v)| (k.as_str(), *s, *t, v.as_str())).collect();
        let mut tombstones = CompactionTombstones::new(InternalKeyComparator::default(), Vec::new());
        let (rules, mut deeper) = (filtered(compaction(&[]), skip).rules, DeeperLevels::unknown());
        let mut iterator =
            CompactionIterator::new(VecIterator::of(&entries), rules, &mut tombstones, &mut deeper, None);
        iterator.seek_to_first();
        let mut keys = String::new();
        while iterator.valid() {
            keys += std::str::from_utf8(extract_user_key(iterator.key())).unwrap();
            iterator.next();
        }
        iterator.status().unwrap();
        keys
    };
    assert_eq!(run("a:P1 b:P2 b:P1 c:P3 d:D4 e:P5 g:P6"), "aeg");
    assert_eq!(run("b:M2=x c:P3 f:P1"), "f");
}

#[test]
fn timed_puts_age_at_the_bottom() {
    let entry = |preferred: u64| {
        let mut value = b"v".to_vec();
        value.extend_from_slice(&preferred.to_le_bytes());
        (InternalKey::new(b"t", SequenceNumber(9), ValueType::ValuePreferredSeqno).encoded().to_vec(), value)
    };
    let run = |preferred, run: Run<'_>| {
        let input = VecIterator::new(vec![entry(preferred)], InternalKeyComparator::default());
        let mut tombstones = CompactionTombstones::new(InternalKeyComparator::default(), Vec::new());
        let mut deeper = run.deeper;
        let mut iterator = CompactionIterator::new(input, run.rules, &mut tombstones, &mut deeper, None);
        iterator.seek_to_first();
        (iterator.value_type, iterator.sequence.0, iterator.value().len())
    };
    assert_eq!(run(5, flush(&[])), (ValueType::ValuePreferredSeqno, 9, 9));
    assert_eq!(run(5, bottommost(&[])), (ValueType::Value, 0, 1));
    let mut kept = bottommost(&[]);
    kept.rules.preserve_after = SequenceNumber(4);
    assert_eq!(run(5, kept), (ValueType::Value, 5, 1));
}

#[test]
fn damage_and_cancellation_end_the_run() {
    let bad = VecIterator::new(vec![(vec![1; 4], vec![])], InternalKeyComparator::default());
    let mut tombstones = CompactionTombstones::new(InternalKeyComparator::default(), Vec::new());
    let mut deeper = DeeperLevels::unknown();
    let mut iterator = CompactionIterator::new(bad, flush(&[]).rules, &mut tombstones, &mut deeper, None);
    iterator.seek_to_first();
    assert!(!iterator.valid() && iterator.status().unwrap_err().is_corruption());

    let failing = VecIterator::of(&[("a", 1, ValueType::Merge, "x"), ("b", 2, ValueType::Value, "y")]).failing_at(1);
    let mut iterator = CompactionIterator::new(failing, bottommost(&[]).rules, &mut tombstones, &mut deeper, None);
    iterator.seek_to_first();
    assert!(!iterator.valid() && iterator.status().is_err());

    let cancelled = std::sync::atomic::AtomicBool::new(true);
    let input = VecIterator::of(&[("a", 1, ValueType::Value, "x")]);
    let mut iterator = CompactionIterator::new(input, flush(&[]).rules, &mut tombstones, &mut deeper, Some(&cancelled));
    iterator.seek_to_first();
    assert_eq!(iterator.status().unwrap_err().subcode(), SubCode::ManualCompactionPaused);
}

/// What a reader at `snapshot` sees of one key's entries, newest first; merges appended to the base.
fn visible(entries: &[(u64, ValueType, String)], snapshot: u64) -> Option<String> {
    let mut operands = Vec::new();
    let mut base = None;
    for (sequence, value_type, value) in entries.iter().filter(|entry| entry.0 <= snapshot) {
        let _ = sequence;
        match value_type {
            ValueType::Merge => operands.push(value.clone()),
            ValueType::Value => {
                base = Some(value.clone());
                break;
            }
            _ => break,
        }
    }
    if operands.is_empty() {
        return base;
    }
    let parts: Vec<String> = base.into_iter().chain(operands.into_iter().rev()).collect();
    Some(parts.join(","))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Every snapshot and the newest reader see the same before and after.
    #[test]
    fn nobody_notices(
        operations in prop::collection::vec((0u8..4, 0u8..10), 1..40),
        snapshots in prop::collection::vec(0u64..40, 0..4),
        kind in 0u8..3,
    ) {
        let mut history: BTreeMap<String, Vec<(u64, ValueType, String)>> = BTreeMap::new();
        let mut input = Vec::new();
        for (at, (key, operation)) in operations.iter().enumerate() {
            let sequence = at as u64 + 1;
            let key = char::from(b'a' + key).to_string();
            let value_type = match operation {
                0..=4 => ValueType::Value,
                5..=6 => ValueType::Deletion,
                _ => ValueType::Merge,
            };
            let value = if value_type == ValueType::Deletion { String::new() } else { sequence.to_string() };
            history.entry(key.clone()).or_default().insert(0, (sequence, value_type, value.clone()));
            input.push((key, sequence, value_type, value));
        }
        let run = match kind {
            0 => flush(&snapshots),
            1 => compaction(&snapshots),
            _ => bottommost(&snapshots),
        };
        let mut rules = run.rules;
        rules.merge_operator = Some(Arc::new(crate::merge::StringAppendOperator::default()));
        let entries: Vec<_> = input.iter().map(|(k, s, t, v)| (k.as_str(), *s, *t, v.as_str())).collect();
        let mut tombstones = CompactionTombstones::new(InternalKeyComparator::default(), Vec::new());
        let mut deeper = DeeperLevels::unknown();
        let mut iterator =
            CompactionIterator::new(VecIterator::of(&entries), rules, &mut tombstones, &mut deeper, None);
        let mut after: BTreeMap<String, Vec<(u64, ValueType, String)>> = BTreeMap::new();
        let mut previous: Option<Vec<u8>> = None;
        iterator.seek_to_first();
        while iterator.valid() {
            if let Some(previous) = &previous {
                prop_assert!(InternalKeyComparator::default().compare(previous, iterator.key()).is_lt());
            }
            previous = Some(iterator.key().to_vec());
            let key = String::from_utf8(extract_user_key(iterator.key()).to_vec()).unwrap();
            let value = String::from_utf8(iterator.value().to_vec()).unwrap();
            after.entry(key).or_default().push((iterator.sequence.0, iterator.value_type, value));
            iterator.next();
        }
        iterator.status().unwrap();
        for (key, entries) in &history {
            let kept = after.get(key).map_or(&[][..], Vec::as_slice);
            prop_assert!(kept.len() <= entries.len());
            for &snapshot in snapshots.iter().filter(|&&snapshot| snapshot > 0).chain([&u64::MAX]) {
                prop_assert_eq!(visible(entries, snapshot), visible(kept, snapshot), "{} at {}", key, snapshot);
            }
        }
    }
}
