//! What readers keep alive, what they see anew, what they count; and manual compactions that need not do all they could.

use std::sync::Arc;

use firndb::merge::{MergeFailure, MergeInput, MergeOperator};
use firndb::options::{CompactRangeOptions, CompactionOptions, FlushOptions, ReadOptions};
use firndb::stats::{Statistics, Ticker};

use crate::tree::{Tree, entry};

fn count_of_tables(tree: &Tree) -> usize {
    firndb::env::FileSystem::children(&firndb::env::posix::PosixFileSystem, &tree.path())
        .unwrap()
        .iter()
        .filter(|name| name.ends_with(".sst"))
        .count()
}

/// The last of what can read a dropped column family takes its tables along.
#[test]
fn tables_of_a_dropped_column_family_go_with_its_last_reader() {
    for last in 0..4 {
        let tree = Tree::new(|_| ());
        let cf = tree.db.create_cf("x", tree.options.cf.clone()).unwrap();
        tree.db.put_opt(&Default::default(), &cf, "a", "b").unwrap();
        tree.db.flush(&FlushOptions::default(), &cf).unwrap();
        let cursor = tree.db.cursor(&ReadOptions::default(), &cf).unwrap();
        let mut entries = tree.db.range_opt::<&str, _>(ReadOptions::default(), &cf, ..);
        let unread = tree.db.range_opt::<&str, _>(ReadOptions::default(), &cf, ..);
        assert_eq!(entries.next().unwrap().unwrap().0, b"a");
        tree.db.drop_cf(&cf).unwrap();
        let mut readers: Vec<Box<dyn std::any::Any>> =
            vec![Box::new(cf), Box::new(cursor), Box::new(entries), Box::new(unread)];
        let last = readers.remove(last);
        drop(readers);
        assert_eq!(count_of_tables(&tree), 1);
        drop(last);
        assert_eq!(count_of_tables(&tree), 0);
    }
}

#[test]
fn a_cursor_sees_what_is_new_or_a_snapshot_when_it_is_refreshed() {
    let tree = Tree::new(|_| ());
    tree.put("a", "1");
    let first = tree.db.snapshot();
    tree.put("a", "2");
    let second = tree.db.snapshot();
    tree.put("a", "3");
    tree.flush();
    let mut cursor = tree.cursor(&ReadOptions { snapshot: Some(first.clone()), ..ReadOptions::default() });
    let mut shown = |refresh: &dyn Fn(&mut firndb::Cursor)| {
        refresh(&mut cursor);
        assert!(!cursor.valid());
        cursor.seek_to_first();
        entry(&cursor)
    };
    assert_eq!(shown(&|_| ()), "a=1");
    assert_eq!(shown(&|cursor| cursor.refresh_at(&second).unwrap()), "a=2");
    assert_eq!(shown(&|cursor| cursor.refresh().unwrap()), "a=3");
    tree.put("a", "4");
    assert_eq!(shown(&|cursor| cursor.refresh().unwrap()), "a=4");
    assert_eq!(shown(&|cursor| cursor.refresh_at(&first).unwrap()), "a=1");
}

#[test]
fn a_scan_keeps_to_the_prefix_of_its_start_in_every_mode() {
    let tree = Tree::with_prefixes(false, |_| ());
    tree.put_all("a1 a2 b1");
    tree.flush();
    let within = || ReadOptions { prefix_same_as_start: true, ..ReadOptions::default() };
    let mut cursor = tree.cursor(&ReadOptions { total_order_seek: true, ..within() });
    cursor.seek("a1");
    cursor.next();
    assert_eq!(entry(&cursor), "a2=");
    cursor.next();
    assert_eq!(entry(&cursor), "-");
    // From the last key before the upper bound it is the prefix of the bound that counts.
    let mut cursor = tree.cursor(&ReadOptions { iterate_upper_bound: Some(b"b".to_vec()), ..within() });
    cursor.seek_to_last();
    assert_eq!(entry(&cursor), "-");
    let mut cursor = tree.cursor(&ReadOptions { iterate_upper_bound: Some(b"a3".to_vec()), ..within() });
    cursor.seek_to_last();
    assert_eq!(entry(&cursor), "a2=");
    cursor.prev();
    cursor.prev();
    assert_eq!(entry(&cursor), "-");
}

#[test]
fn a_manual_compaction_flushes_only_what_its_range_has_in_memory() {
    let tree = Tree::new(|_| ());
    tree.put("b", "1");
    tree.flush();
    tree.put("m", "1");
    tree.delete_range("s", "u");
    let entries = || tree.db.property_int(tree.cf(), "rocksdb.num-entries-active-mem-table").unwrap();
    let compact = |begin: Option<&str>, end: Option<&str>| {
        let options = CompactRangeOptions::default();
        let (begin, end) = (begin.map(str::as_bytes), end.map(str::as_bytes));
        tree.db.compact_range(&options, tree.cf(), begin, end).unwrap();
        entries()
    };
    for (begin, end) in [("x", "z"), ("a", "c"), ("n", "r"), ("u", "v")] {
        assert_eq!(compact(Some(begin), Some(end)), 2, "{begin} to {end}");
    }
    for (begin, end) in [(Some("a"), Some("m")), (Some("t"), Some("t")), (Some("x"), None), (None, Some("a"))] {
        tree.put("m", "2");
        tree.delete_range("s", "u");
        assert_eq!(compact(begin, end), 0, "{begin:?} to {end:?}");
    }
}

#[test]
fn files_that_are_compacted_by_hand_may_be_moved() {
    let tree = Tree::new(|_| ());
    for keys in ["a b", "c d"] {
        tree.put_all(keys);
        tree.flush();
    }
    let options = |allow_trivial_move| CompactionOptions { allow_trivial_move, ..CompactionOptions::default() };
    let compact = |from: usize, to: usize, moves: bool| {
        let before = tree.files_at(from);
        tree.db.compact_files(&options(moves), tree.cf(), &before, to).unwrap();
        let (mut before, mut after) = (before, tree.files_at(to));
        before.sort_unstable();
        after.sort_unstable();
        before == after
    };
    assert!(compact(0, 2, true));
    assert!(compact(2, 3, true));
    assert!(!compact(3, 4, false));
    assert_eq!(tree.contents(None), "a= b= c= d=");
    // Where something lies in between, the files are merged.
    tree.put_all("b c");
    tree.flush();
    assert!(!compact(0, 4, true));
    assert_eq!(tree.levels(), [0, 0, 0, 0, 1, 0, 0]);
    assert_eq!(tree.contents(None), "a= b= c= d=");
}

/// Merges nothing that begins with "bad".
#[derive(Debug)]
struct Picky;

impl MergeOperator for Picky {
    fn name(&self) -> &str {
        "test.Picky"
    }
    fn full_merge(&self, input: &MergeInput<'_>, output: &mut Vec<u8>) -> Result<(), MergeFailure> {
        if input.key.starts_with(b"bad") {
            return Err(MergeFailure::MustMerge);
        }
        output.extend_from_slice(input.operands.concat().as_slice());
        Ok(())
    }
}

#[test]
fn readers_and_compactions_count_what_they_did() {
    let statistics = Arc::new(Statistics::default());
    let tree = Tree::new(|options| {
        options.db.statistics = Some(Arc::clone(&statistics));
        options.cf.merge_operator = Some(Arc::new(Picky));
    });
    let since = |ticker: Ticker, act: &dyn Fn()| {
        let before = statistics.ticker_count(ticker);
        act();
        statistics.ticker_count(ticker) - before
    };
    let get = |key: &str| tree.db.get(key).map(|value| value.is_some());
    // Which level answers.
    for (key, level) in [("k2", 2), ("k1", 1), ("k0", 0)] {
        tree.put(key, "v");
        tree.flush();
        if level > 0 {
            tree.merge_level(0, level);
        }
    }
    for (ticker, key) in [(Ticker::L0Hit, "k0"), (Ticker::L1Hit, "k1"), (Ticker::L2andupHit, "k2")] {
        assert_eq!(since(ticker, &|| assert!(get(key).unwrap())), 1, "{key}");
        assert_eq!(since(ticker, &|| assert!(!get("none").unwrap())), 0);
        let keys = ["k0", "k1", "k2", "none"];
        assert_eq!(since(ticker, &|| assert_eq!(tree.db.multi_get(&keys).len(), 4)), 1, "{key}");
    }
    // Scans over hidden versions.
    (0..30).for_each(|i| tree.put("k3", &i.to_string()));
    tree.put("k4", "v");
    let scan = || assert_eq!(tree.forward(&ReadOptions::default()).split(' ').count(), 5);
    assert_eq!(since(Ticker::NumberReseeksIteration, &scan), 1);
    assert!((1..29).contains(&since(Ticker::NumberIterSkip, &scan)));
    tree.flush();
    assert_eq!(since(Ticker::NumberIterSkip, &scan), 0);
    // Merges that fail.
    tree.merge("bad", "1");
    tree.merge("good", "1");
    assert_eq!(since(Ticker::NumberMergeFailures, &|| assert!(get("good").unwrap())), 0);
    assert_eq!(since(Ticker::NumberMergeFailures, &|| assert!(get("bad").is_err())), 1);
    assert_eq!(since(Ticker::NumberMergeFailures, &|| assert!(tree.db.multi_get(&["bad"])[0].is_err())), 1);
    let fail = |backward: bool| {
        let mut cursor = tree.cursor(&ReadOptions::default());
        if backward {
            cursor.seek_for_prev("bad")
        } else {
            cursor.seek("bad")
        }
        assert!(cursor.status().is_err());
    };
    assert_eq!(since(Ticker::NumberMergeFailures, &|| fail(false)), 1);
    assert_eq!(since(Ticker::NumberMergeFailures, &|| fail(true)), 1);
    tree.flush();
    tree.put("bad", "base");
    tree.merge("bad", "2");
    assert_eq!(since(Ticker::NumberMergeFailures, &|| tree.flush()), 1);
    // Range tombstones that nothing lies below any more.
    tree.delete_range("k0", "k2");
    tree.delete_range("x", "y");
    tree.flush();
    let drops = || tree.merge_level(0, 6);
    assert_eq!(since(Ticker::CompactionRangeDelDropObsolete, &drops), 2);
    assert_eq!(tree.db.property_int(tree.cf(), "rocksdb.min-obsolete-sst-number-to-keep"), Some(u64::MAX));
}
