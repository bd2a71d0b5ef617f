//! Point lookups, and walks over all that is stored.

use firndb::options::ReadOptions;

use crate::tree::{Tree, text};

#[test]
fn lookups_ignore_range_deletions_where_they_are_told_to() {
    // The entry and the tombstone in the memtable, in one table, in two tables, and in two levels.
    for place in 0..5 {
        let tree = Tree::new(|_| ());
        tree.put("key", "old");
        tree.put("merged", "old");
        // Flushes and compactions keep what the snapshot sees.
        let _snapshot = tree.db.snapshot();
        if place >= 2 {
            tree.flush();
        }
        if place == 4 {
            tree.merge_level(0, 5);
        }
        tree.delete_range("a", "z");
        tree.merge("merged", "new");
        if place >= 1 {
            tree.flush();
        }
        if place == 3 {
            tree.merge_level(0, 5);
            tree.delete_range("a", "z");
        }
        let told = ReadOptions { ignore_range_deletions: true, ..ReadOptions::default() };
        let keys = ["key", "merged", "none"];
        let get = |options: &ReadOptions| {
            keys.map(|key| tree.db.get_opt(options, tree.cf(), key).unwrap().map(|value| text(&value)))
        };
        let multi_get = |options: &ReadOptions| {
            let found = tree.db.multi_get_opt(options, tree.cf(), &keys);
            found.into_iter().map(|value| value.unwrap().map(|value| text(&value))).collect::<Vec<_>>()
        };
        let shown = tree.forward(&told);
        let found: Vec<_> = get(&told).into_iter().collect();
        let expected = [Some("old".to_owned()), Some("old,new".to_owned()), None];
        assert_eq!(found, expected, "place {place}");
        assert_eq!(multi_get(&told), expected, "place {place}");
        assert_eq!(shown, "key=old merged=old,new");
        let heeded = [None, (place != 3).then(|| "new".to_owned()), None];
        assert_eq!(get(&ReadOptions::default()), heeded, "place {place}");
        assert_eq!(multi_get(&ReadOptions::default()), heeded, "place {place}");
    }
}

/// A walk over all stored versions that begins at a key asks no prefix filter.
#[test]
fn a_walk_over_stored_entries_sees_every_prefix() {
    let tree = Tree::with_prefixes(true, |_| ());
    tree.put_all("b1 c1");
    tree.flush();
    tree.put_all("a1 a1");
    let mut keys = Vec::new();
    let visit = &mut |key: &[u8], _: &[u8]| {
        keys.push(text(&key[..key.len() - 8]));
        true
    };
    tree.db.for_each_internal_entry(tree.cf(), Some(b"a1"), None, visit).unwrap();
    assert_eq!(keys, ["a1", "a1", "b1", "c1"]);
}
