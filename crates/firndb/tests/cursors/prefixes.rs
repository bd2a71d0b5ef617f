//! Scans with a prefix extractor and prefix filters, in which some tables and memtables have no key of a prefix. Only a
//! seek that the caller asks for may leave those out, never one by which a scan goes on.

use firndb::options::ReadOptions;

use crate::tree::{Tree, entry};

fn read() -> ReadOptions {
    ReadOptions::default()
}

fn bounds(lower: Option<&str>, upper: Option<&str>) -> ReadOptions {
    let bytes = |bound: &str| bound.as_bytes().to_vec();
    ReadOptions { iterate_lower_bound: lower.map(bytes), iterate_upper_bound: upper.map(bytes), ..read() }
}

/// More versions than a scan steps over before it seeks.
fn put_often(tree: &Tree, key: &str) {
    (0..20).for_each(|i| tree.put(key, &format!("{i}")));
}

/// The keys of a scan, without values.
fn keys(entries: &str) -> Vec<&str> {
    entries.split(' ').map(|entry| entry.split('=').next().unwrap_or_default()).collect()
}

/// Runs a test with the versions in the memtable, in a table of level 0, and in one of a deeper level.
fn everywhere(snapshot_too: bool, fill: impl Fn(&Tree), check: impl Fn(&Tree)) {
    for memtable_filter in [false, true] {
        for depth in 0..3 {
            let tree = Tree::with_prefixes(memtable_filter, |_| ());
            // Keeps every version.
            let snapshots: Vec<_> = (0..if snapshot_too { 1 } else { 0 }).map(|_| tree.db.snapshot()).collect();
            fill(&tree);
            if depth > 0 {
                tree.flush();
            }
            if depth > 1 {
                tree.merge_level(0, 3);
            }
            check(&tree);
            drop(snapshots);
        }
    }
}

#[test]
fn a_full_scan_passes_many_versions_of_a_key() {
    let fill = |tree: &Tree| {
        tree.put_all("b1 c1");
        tree.flush();
        tree.merge_level(0, 5);
        put_often(tree, "a1");
        put_often(tree, "d1");
    };
    everywhere(true, fill, |tree| {
        assert_eq!(keys(&tree.forward(&read())), ["a1", "b1", "c1", "d1"]);
        assert_eq!(keys(&tree.backward(&read())), ["d1", "c1", "b1", "a1"]);
    });
}

#[test]
fn a_full_scan_passes_many_versions_that_its_snapshot_does_not_see() {
    for hidden in [["a1", "d1"], ["a2", "d2"]] {
        for depth in 0..3 {
            let tree = Tree::with_prefixes(true, |_| ());
            tree.put_all("b1 c1");
            tree.flush();
            tree.put_all("a1 d1");
            let snapshot = tree.db.snapshot();
            hidden.iter().for_each(|key| {
                (0..20).for_each(|i| {
                    tree.put(key, &format!("{i}"));
                    drop(tree.db.snapshot());
                });
            });
            if depth > 0 {
                tree.flush();
            }
            if depth > 1 {
                tree.merge_level(0, 2);
            }
            let options = ReadOptions { snapshot: Some(snapshot), ..read() };
            assert_eq!(keys(&tree.forward(&options)), ["a1", "b1", "c1", "d1"]);
            assert_eq!(keys(&tree.backward(&options)), ["d1", "c1", "b1", "a1"]);
        }
    }
}

#[test]
fn a_full_scan_goes_over_range_tombstones() {
    let tree = Tree::with_prefixes(true, |_| ());
    tree.put_all("a1 a2 d1");
    tree.flush();
    tree.delete_range("a1", "c");
    tree.put("b", "");
    for _ in 0..2 {
        assert_eq!(keys(&tree.forward(&read())), ["b", "d1"]);
        assert_eq!(keys(&tree.backward(&read())), ["d1", "b"]);
        tree.flush();
    }
    let tree = Tree::with_prefixes(true, |_| ());
    tree.put_all("a1 e1 e2");
    tree.flush();
    tree.delete_range("c", "e2");
    tree.put("d", "");
    for _ in 0..2 {
        assert_eq!(keys(&tree.forward(&read())), ["a1", "d", "e2"]);
        assert_eq!(keys(&tree.backward(&read())), ["e2", "d", "a1"]);
        tree.flush();
    }
}

/// Three files of a level, each with one prefix; with and without other sources beside it.
#[test]
fn turns_leave_nothing_out() {
    for memory in ["", "x1", "a0 a9 b5 c5"] {
        let tree = Tree::with_prefixes(true, |_| ());
        for keys in ["a1 a2 a3", "b1 b2 b3", "c1 c2 c3"] {
            tree.put_all(keys);
            tree.flush();
        }
        tree.compact();
        let mut all = vec!["a1", "a2", "a3", "b1", "b2", "b3", "c1", "c2", "c3"];
        if !memory.is_empty() {
            tree.put_all(memory);
            all.extend(memory.split(' '));
            all.sort_unstable();
        }
        for turn in 1..all.len() {
            let mut cursor = tree.cursor(&read());
            let at = |position: usize| format!("{}=", all[position]);
            cursor.seek_to_first();
            (0..turn).for_each(|_| cursor.next());
            assert_eq!(entry(&cursor), at(turn));
            for back in (0..turn).rev() {
                cursor.prev();
                assert_eq!(entry(&cursor), at(back), "{memory:?}, turned at {}", all[turn]);
            }
            for there in 1..all.len() {
                cursor.next();
                assert_eq!(entry(&cursor), at(there), "{memory:?}, turned at {}", all[turn]);
            }
            cursor.next();
            assert_eq!(entry(&cursor), "-");
        }
    }
}

/// A scan between bounds is as little a seek for their prefixes as a scan without.
#[test]
fn a_scan_from_bound_to_bound_sees_all_between() {
    let tree = Tree::with_prefixes(true, |_| ());
    for keys in ["a1 a5", "b1 b5", "c1 c5"] {
        tree.put_all(keys);
        tree.flush();
    }
    tree.put_all("d1 d5");
    let options = bounds(Some("a3"), Some("d3"));
    let between = ["a5", "b1", "b5", "c1", "c5", "d1"];
    assert_eq!(keys(&tree.forward(&options)), between);
    let mut reversed = between;
    reversed.reverse();
    assert_eq!(keys(&tree.backward(&options)), reversed);
    // A bound in a prefix that no key has.
    let options = bounds(Some("aa"), Some("cc"));
    assert_eq!(keys(&tree.forward(&options)), ["b1", "b5", "c1", "c5"]);
    assert_eq!(keys(&tree.backward(&options)), ["c5", "c1", "b5", "b1"]);
    let mut cursor = tree.cursor(&options);
    cursor.seek("1");
    assert_eq!(entry(&cursor), "b1=");
    cursor.seek_for_prev("z");
    assert_eq!(entry(&cursor), "c5=");
}

/// A seek finds all keys of its prefix, however it gets over hidden versions and deleted ranges, in every mode.
#[test]
fn a_seek_finds_all_keys_of_its_prefix() {
    let tree = Tree::with_prefixes(true, |_| ());
    tree.put_all("a1 b1 b4 b7 c1");
    tree.flush();
    tree.put_all("a2 c2");
    tree.flush();
    tree.merge_level(0, 4);
    tree.put_all("b2 b3 b5 b9");
    tree.flush();
    put_often(&tree, "b6");
    put_often(&tree, "c0");
    tree.flush();
    tree.delete_range("b3", "b5");
    tree.delete_range("b7", "b8");
    for mode in 0..4 {
        let mut options = read();
        match mode {
            0 => options.prefix_same_as_start = true,
            1 => options = ReadOptions { auto_prefix_mode: true, ..bounds(None, Some("c")) },
            2 => options.total_order_seek = true,
            _ => {}
        }
        let mut cursor = tree.cursor(&options);
        cursor.seek("b");
        let mut seen = Vec::new();
        while cursor.valid() && cursor.key().starts_with(b"b") {
            seen.push(String::from_utf8(cursor.key().to_vec()).unwrap());
            cursor.next();
        }
        cursor.status().unwrap();
        assert_eq!(seen, ["b1", "b2", "b5", "b6", "b9"], "mode {mode}");
        cursor.seek_for_prev("b99");
        let mut seen = Vec::new();
        while cursor.valid() && cursor.key().starts_with(b"b") {
            seen.push(String::from_utf8(cursor.key().to_vec()).unwrap());
            cursor.prev();
        }
        cursor.status().unwrap();
        assert_eq!(seen, ["b9", "b6", "b5", "b2", "b1"], "mode {mode}");
    }
}

#[test]
fn a_tailing_scan_passes_many_versions_of_a_key() {
    let tree = Tree::with_prefixes(true, |_| ());
    tree.put_all("b1 c1");
    tree.flush();
    let mut cursor = tree.cursor(&ReadOptions { tailing: true, ..read() });
    for round in 0..3 {
        put_often(&tree, "a1");
        cursor.seek_to_first();
        let mut seen = Vec::new();
        while cursor.valid() {
            seen.push(String::from_utf8(cursor.key().to_vec()).unwrap());
            cursor.next();
        }
        cursor.status().unwrap();
        assert_eq!(seen, ["a1", "b1", "c1"], "round {round}");
        if round == 1 {
            tree.flush();
        }
    }
}
