use super::*;
use proptest::prelude::*;
use std::sync::Arc;

fn list(tombstones: &[(&str, &str, u64)]) -> Arc<FragmentedRangeTombstones> {
    let tombstones = tombstones
        .iter()
        .map(|&(start, end, sequence)| RangeTombstone {
            start: start.into(),
            end: end.into(),
            sequence: SequenceNumber(sequence),
        })
        .collect();
    Arc::new(FragmentedRangeTombstones::new(tombstones, &InternalKeyComparator::default()))
}

fn window(tombstones: &[(&str, &str, u64)], from: Option<Edge>, until: Option<Edge>) -> TombstoneWindow {
    TombstoneWindow { tombstones: Some(list(tombstones)), from, until }
}

fn stripes(snapshots: &[u64]) -> SnapshotStripes {
    SnapshotStripes::new(snapshots.iter().copied().map(SequenceNumber).collect())
}

#[test]
fn stripes_lie_between_snapshots() {
    let s = stripes(&[5, 2, 5]);
    let at = |sequence| (s.stripe(SequenceNumber(sequence)).0, s.before(SequenceNumber(sequence)).0);
    let max = SequenceNumber::MAX.0;
    assert_eq!([at(1), at(2), at(3), at(5), at(6)], [(2, 0), (2, 0), (5, 2), (5, 2), (max, 5)]);
    assert_eq!((s.earliest().0, s.latest().0), (2, 5));
    let none = stripes(&[]);
    assert_eq!((none.stripe(SequenceNumber(7)), none.before(SequenceNumber(7)).0), (SequenceNumber::MAX, 0));
    assert_eq!((none.earliest(), none.latest().0), (SequenceNumber::MAX, 0));
}

#[test]
fn only_newer_tombstones_of_the_same_stripe_delete() {
    let mut all =
        CompactionTombstones::new(InternalKeyComparator::default(), vec![window(&[("b", "f", 10)], None, None)]);
    let none = stripes(&[]);
    let between = stripes(&[8]);
    let mut at =
        |key: &str, sequence, stripes: &SnapshotStripes| all.deletes(key.as_bytes(), SequenceNumber(sequence), stripes);
    assert!(!at("a", 1, &none));
    assert!(at("b", 9, &none) && !at("b", 10, &none) && !at("b", 11, &none));
    assert!(at("c", 9, &between) && !at("c", 8, &between) && !at("c", 3, &between));
    assert!(!at("f", 1, &none));
}

#[test]
fn a_window_limits_its_tombstones() {
    let order = InternalKeyComparator::default();
    let bounded = window(&[("a", "z", 10)], Some(Edge::before(b"c")), Some(Edge::after(b"m")));
    let mut all = CompactionTombstones::new(order, vec![bounded, window(&[("x", "y", 7)], None, None)]);
    let none = stripes(&[]);
    let deleted: String =
        "abcdmnwxyz".chars().filter(|key| all.deletes(key.to_string().as_bytes(), SequenceNumber(1), &none)).collect();
    assert_eq!(deleted, "cdmx");
    let fragments: Vec<_> = all
        .fragments()
        .iter()
        .map(|t| (String::from_utf8(t.start).unwrap(), String::from_utf8(t.end).unwrap()))
        .collect();
    assert_eq!(fragments, [("c".to_owned(), "m".to_owned()), ("x".to_owned(), "y".to_owned())]);
}

fn show(kept: &[OutputTombstone]) -> Vec<String> {
    let text = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
    let bound = |key: &InternalKey| match key.sequence() {
        SequenceNumber::MAX => format!("{}@max", text(key.user_key())),
        sequence => format!("{}@{sequence}", text(key.user_key())),
    };
    kept.iter()
        .map(|kept| {
            let RangeTombstone { start, end, sequence } = &kept.tombstone;
            format!("{}-{}@{sequence} [{}, {}]", text(start), text(end), bound(&kept.smallest), bound(&kept.largest))
        })
        .collect()
}

#[test]
fn outputs_keep_what_reaches_into_them() {
    let order = InternalKeyComparator::default();
    let fragments = list(&[("a", "c", 5), ("b", "k", 9), ("b", "k", 3), ("p", "t", 7)]);
    let (none, deeper) = (stripes(&[]), DeeperLevels::unknown());
    let rules = |stripes, bottommost| TombstoneDropRules { order: &order, stripes, bottommost, deeper: &deeper };
    let whole = OutputBounds::default();
    let kept = output_tombstones(&fragments, &whole, &rules(&none, false)).kept;
    assert_eq!(show(&kept), ["a-b@5 [a@5, b@max]", "b-c@9 [b@9, c@max]", "c-k@9 [c@9, k@max]", "p-t@7 [p@7, t@max]"]);
    let snapshot = stripes(&[4]);
    let kept = output_tombstones(&fragments, &whole, &rules(&snapshot, true)).kept;
    assert_eq!(
        show(&kept),
        ["a-b@5 [a@5, b@max]", "b-c@9 [b@9, c@max]", "c-k@9 [c@9, k@max]", "p-t@7 [p@7, t@max]"],
        "the one at 3 is below the snapshot and gone"
    );
    let nothing = output_tombstones(&fragments, &whole, &rules(&none, true));
    assert!(nothing.kept.is_empty());
    assert!(nothing.dropped > 0);
    let middle = OutputBounds {
        lower: Some(InternalKey::new(b"d", SequenceNumber(20), ValueType::Value)),
        upper: Some(InternalKey::range_sentinel(b"q")),
        upper_is_point: false,
    };
    let kept = output_tombstones(&fragments, &middle, &rules(&none, false)).kept;
    assert_eq!(show(&kept), ["c-k@9 [d@9, k@max]", "p-t@7 [p@7, q@max]"]);
    let until_k = OutputBounds { upper: Some(InternalKey::range_sentinel(b"b")), ..OutputBounds::default() };
    assert_eq!(show(&output_tombstones(&fragments, &until_k, &rules(&none, false)).kept), ["a-b@5 [a@5, b@max]"]);
    let point = OutputBounds {
        lower: None,
        upper: Some(InternalKey::new(b"b", SequenceNumber(12), ValueType::Value)),
        upper_is_point: true,
    };
    let kept = output_tombstones(&fragments, &point, &rules(&none, false)).kept;
    assert_eq!(show(&kept), ["a-b@5 [a@5, b@max]", "b-c@9 [b@9, b@12]"]);
}

proptest! {
    #[test]
    fn deletes_agrees_with_a_linear_search(
        ranges in prop::collection::vec((0u8..20, 0u8..20, 1u64..30), 0..12),
        snapshots in prop::collection::vec(1u64..30, 0..4),
        sequence in 0u64..30,
    ) {
        let order = InternalKeyComparator::default();
        let s = stripes(&snapshots);
        // Two windows that share the tombstones.
        let all: Vec<_> = ranges
            .iter()
            .map(|&(a, b, n)| RangeTombstone { start: vec![a], end: vec![b], sequence: SequenceNumber(n) })
            .collect();
        let (left, right) = all.split_at(all.len() / 2);
        let windows = [left, right]
            .map(|part| TombstoneWindow {
                tombstones: Some(Arc::new(FragmentedRangeTombstones::new(part.to_vec(), &order))),
                from: None,
                until: None,
            });
        let mut tombstones = CompactionTombstones::new(order, windows.to_vec());
        for key in 0u8..20 {
            let stripe = s.stripe(SequenceNumber(sequence));
            let expected = ranges.iter().any(|&(a, b, n)| a <= key && key < b && n > sequence && n <= stripe.0);
            prop_assert_eq!(tombstones.deletes(&[key], SequenceNumber(sequence), &s), expected);
        }
    }
}
