//! Ranges with ends of every kind, in orders of every kind, from both ends.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use firn_format::comparator::{BytewiseComparator, Comparator, ReverseBytewiseComparator};
use firndb::options::ReadOptions;
use firndb::{Options, RangeIterator};

use crate::tree::{Tree, text};

/// An order over keys of four bytes, as little-endian numbers. It panics over others.
#[derive(Debug)]
struct Numbers;

fn number(key: &[u8]) -> u32 {
    u32::from_le_bytes(key.try_into().expect("keys of this order have four bytes"))
}

impl Comparator for Numbers {
    fn name(&self) -> &str {
        "test.Numbers"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        number(a).cmp(&number(b))
    }
    fn find_shortest_separator(&self, _start: &mut Vec<u8>, _limit: &[u8]) {}
    fn find_short_successor(&self, _key: &mut Vec<u8>) {}
}

/// Bytewise order that takes upper and lower case for the same.
#[derive(Debug)]
struct NoCase;

impl Comparator for NoCase {
    fn name(&self) -> &str {
        "test.NoCase"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
    }
    fn find_shortest_separator(&self, _start: &mut Vec<u8>, _limit: &[u8]) {}
    fn find_short_successor(&self, _key: &mut Vec<u8>) {}
    fn can_keys_with_different_byte_contents_be_equal(&self) -> bool {
        true
    }
}

fn ordered(comparator: impl Comparator + 'static) -> Tree {
    Tree::new(|options: &mut Options| options.cf.comparator = Arc::new(comparator))
}

fn keys(entries: impl Iterator<Item = firndb::Result<firndb::Entry>>) -> Vec<Vec<u8>> {
    entries.map(|entry| entry.unwrap().0).collect()
}

/// Both directions, and taking from both ends in turn.
fn from_both_ends(range: impl Fn() -> RangeIterator) -> Vec<Vec<u8>> {
    let forward = keys(range());
    let mut backward = keys(range().rev());
    backward.reverse();
    assert_eq!(forward, backward);
    let (mut left, mut right, mut both) = (Vec::new(), Vec::new(), range());
    while let Some(entry) = both.next() {
        left.push(entry.unwrap().0);
        right.extend(both.next_back().map(|entry| entry.unwrap().0));
    }
    left.extend(right.into_iter().rev());
    assert_eq!(left, forward);
    forward
}

/// All ranges between two of `edges`, compared with what the order says of `keys`.
fn check_all_ranges(tree: &Tree, comparator: &dyn Comparator, present: &[Vec<u8>], edges: &[Vec<u8>]) {
    let ends = |edge: &Vec<u8>| [Bound::Included(edge.clone()), Bound::Excluded(edge.clone())];
    let bounds: Vec<Bound<Vec<u8>>> = edges.iter().flat_map(ends).chain([Bound::Unbounded]).collect();
    for start in &bounds {
        for end in &bounds {
            let starts = |key: &Vec<u8>| match start {
                Bound::Included(edge) => comparator.compare(key, edge).is_ge(),
                Bound::Excluded(edge) => comparator.compare(key, edge).is_gt(),
                Bound::Unbounded => true,
            };
            let ends = |key: &Vec<u8>| match end {
                Bound::Included(edge) => comparator.compare(key, edge).is_le(),
                Bound::Excluded(edge) => comparator.compare(key, edge).is_lt(),
                Bound::Unbounded => true,
            };
            let mut expected: Vec<_> = present.iter().filter(|key| starts(key) && ends(key)).cloned().collect();
            expected.sort_by(|a, b| comparator.compare(a, b));
            let found = from_both_ends(|| tree.db.range((start.clone(), end.clone())));
            assert_eq!(found, expected, "{start:?} to {end:?} under {}", comparator.name());
        }
    }
}

#[test]
fn ranges_show_what_lies_between_their_ends_in_every_order() {
    let words = |words: &str| words.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
    let (present, edges) = (words("a a\0 ab b b1 c"), words("a a\0 aa ab b b0 c d"));
    for reverse in [false, true] {
        let comparator: &dyn Comparator = if reverse { &ReverseBytewiseComparator } else { &BytewiseComparator };
        let tree = if reverse { ordered(ReverseBytewiseComparator) } else { ordered(BytewiseComparator) };
        for (at, key) in present.iter().enumerate() {
            // Several versions and deletions on both sides of the edges.
            tree.db.put(key, "old").unwrap();
            tree.db.put(key, "new").unwrap();
            tree.db.put([&**key, b"!"].concat(), "").unwrap();
            tree.db.delete([&**key, b"!"].concat()).unwrap();
            if at == 2 {
                tree.flush();
            }
        }
        check_all_ranges(&tree, comparator, &present, &edges);
    }
}

/// The comparator is never shown a key that nobody wrote or asked for.
#[test]
fn ranges_under_an_order_over_keys_of_one_size() {
    let tree = ordered(Numbers);
    let encode = |numbers: &[u32]| numbers.iter().map(|number| number.to_le_bytes().to_vec()).collect::<Vec<_>>();
    let present = encode(&[1, 256, 257, 300, 70_000]);
    for key in &present {
        tree.db.put(key, "").unwrap();
    }
    check_all_ranges(&tree, &Numbers, &present, &encode(&[0, 1, 256, 258, 70_000, 80_000]));
}

#[test]
fn ranges_under_an_order_that_takes_different_keys_for_equal() {
    let tree = ordered(NoCase);
    for key in ["A", "b", "C", "d"] {
        tree.put(key, "");
    }
    let show = |range: (Bound<&str>, Bound<&str>)| {
        from_both_ends(|| tree.db.range::<&str, _>(range)).iter().map(|key| text(key)).collect::<Vec<_>>()
    };
    assert_eq!(show((Bound::Included("a"), Bound::Included("c"))), ["A", "b", "C"]);
    assert_eq!(show((Bound::Excluded("a"), Bound::Excluded("c"))), ["b"]);
    assert_eq!(show((Bound::Excluded("B"), Bound::Included("D"))), ["C", "d"]);
}

#[test]
fn all_keys_with_a_prefix_in_every_order() {
    for (order, comparator) in
        [Arc::new(BytewiseComparator) as Arc<dyn Comparator>, Arc::new(ReverseBytewiseComparator), Arc::new(NoCase)]
            .into_iter()
            .enumerate()
    {
        let tree = Tree::new(|options: &mut Options| options.cf.comparator = Arc::clone(&comparator));
        let mut present = vec![b"a".to_vec(), b"aB".to_vec(), b"ab".to_vec(), b"abc".to_vec(), b"ac".to_vec()];
        present.extend([b"b".to_vec(), b"\xff".to_vec(), b"\xff\xff".to_vec(), b"\xff\xff1".to_vec()]);
        if order == 2 {
            present.retain(|key| key != b"aB");
        }
        for key in &present {
            tree.db.put(key, "").unwrap();
        }
        present.sort_by(|a, b| comparator.compare(a, b));
        for prefix in [&b""[..], b"a", b"ab", b"abc", b"abcd", b"b", b"\xff", b"\xff\xff"] {
            let expected: Vec<_> = present.iter().filter(|key| key.starts_with(prefix)).cloned().collect();
            let found = from_both_ends(|| tree.db.prefix(prefix));
            assert_eq!(found, expected, "{:?} under {}", prefix.escape_ascii().to_string(), comparator.name());
        }
    }
}

/// A range means all its keys: `prefix_same_as_start` does not cut it, from either end.
#[test]
fn ranges_with_prefix_filters_show_all_their_keys() {
    let tree = Tree::with_prefixes(true, |_| ());
    for keys in ["a1 a2", "b1", "d1 d2"] {
        tree.put_all(keys);
        tree.flush();
    }
    let modes = [
        ReadOptions::default(),
        ReadOptions { prefix_same_as_start: true, ..ReadOptions::default() },
        ReadOptions { auto_prefix_mode: true, ..ReadOptions::default() },
    ];
    for options in modes {
        let range = |from: Bound<&str>, to: Bound<&str>| {
            let found = from_both_ends(|| tree.db.range_opt::<&str, _>(options.clone(), tree.cf(), (from, to)));
            found.iter().map(|key| text(key)).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(range(Bound::Excluded("a1"), Bound::Included("d1")), "a2 b1 d1");
        assert_eq!(range(Bound::Included("a1"), Bound::Excluded("b")), "a1 a2");
        assert_eq!(range(Bound::Included("c"), Bound::Included("d")), "");
        assert_eq!(range(Bound::Included("c"), Bound::Included("d1")), "d1");
        let prefix = |prefix: &str| {
            let found = from_both_ends(|| tree.db.prefix_opt(options.clone(), tree.cf(), prefix));
            found.iter().map(|key| text(key)).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(["a", "b", "c", "d", "d2"].map(prefix), ["a1 a2", "b1", "", "d1 d2", "d2"]);
    }
}
