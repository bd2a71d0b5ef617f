//! Two files of a level that share a user key, as files have that were moved from level 0: each has tombstones over the
//! key that the other does not know.

use crate::tree::Tree;

/// Moves what is in level 0 to level 1, where the two files then share the key `k`.
fn move_to_level_1(tree: &Tree) {
    assert_eq!(tree.levels()[..2], [2, 0]);
    tree.settle();
    assert_eq!(tree.levels()[..2], [0, 2], "the files were not moved");
}

fn tree() -> Tree {
    Tree::new(|options| options.cf.level0_file_num_compaction_trigger = 2)
}

#[test]
fn a_tombstone_of_the_older_file_counts_at_the_shared_key() {
    let tree = tree();
    tree.put("k", "base");
    tree.flush();
    tree.merge_level(0, 6);
    tree.delete_range("k", "m");
    tree.put("l", "1");
    tree.flush();
    tree.delete_range("a", "c");
    tree.put("b", "1");
    tree.merge("k", "x");
    tree.flush();
    assert_eq!(tree.contents(None), "b=1 k=x l=1");
    move_to_level_1(&tree);
    assert_eq!(tree.contents(None), "b=1 k=x l=1");
    tree.compact();
    assert_eq!(tree.contents(None), "b=1 k=x l=1");
}

#[test]
fn a_tombstone_of_the_older_file_counts_at_the_shared_key_under_a_snapshot() {
    let tree = tree();
    tree.put("k", "base");
    tree.put("ka", "base");
    let before = tree.db.snapshot();
    tree.flush();
    tree.merge_level(0, 6);
    tree.delete_range("k", "m");
    tree.put("l", "1");
    tree.flush();
    let between = tree.db.snapshot();
    tree.delete_range("a", "c");
    tree.put("b", "1");
    tree.put("k", "new");
    tree.flush();
    move_to_level_1(&tree);
    assert_eq!(tree.contents(Some(&before)), "k=base ka=base");
    assert_eq!(tree.contents(Some(&between)), "l=1");
    assert_eq!(tree.contents(None), "b=1 k=new l=1");
}

/// The newer file ends at the shared key, so that what it says of the keys before must not reach into the other file.
#[test]
fn a_tombstone_of_the_newer_file_ends_at_the_shared_key() {
    let tree = tree();
    tree.put_all("j j1 k k1");
    tree.flush();
    tree.merge_level(0, 6);
    tree.delete_range("k1", "k2");
    tree.put("k", "old");
    tree.flush();
    tree.delete_range("j", "k");
    tree.put("k", "new");
    tree.flush();
    move_to_level_1(&tree);
    assert_eq!(tree.contents(None), "k=new");
    let mut cursor = tree.cursor(&firndb::options::ReadOptions::default());
    for seek in ["a", "j", "j0", "j1", "j2", "k"] {
        cursor.seek(seek);
        assert_eq!(crate::tree::entry(&cursor), "k=new", "{seek}");
        cursor.prev();
        assert_eq!(crate::tree::entry(&cursor), "-", "{seek}");
    }
    for seek in ["k", "k0", "k1", "k2", "z"] {
        cursor.seek_for_prev(seek);
        assert_eq!(crate::tree::entry(&cursor), "k=new", "{seek}");
        cursor.next();
        assert_eq!(crate::tree::entry(&cursor), "-", "{seek}");
    }
}

/// Three files, all with the key `k`, the one in the middle with nothing else.
#[test]
fn a_file_between_two_that_holds_the_shared_key_alone() {
    let tree = Tree::new(|options| options.cf.level0_file_num_compaction_trigger = 3);
    tree.put_all("j k l");
    tree.flush();
    tree.merge_level(0, 6);
    tree.delete_range("k", "m");
    tree.put("l", "1");
    tree.flush();
    tree.merge("k", "1");
    tree.flush();
    tree.delete_range("a", "c");
    tree.delete_range("j", "j1");
    tree.merge("k", "2");
    tree.flush();
    tree.settle();
    assert_eq!(tree.levels()[..2], [0, 3], "the files were not moved");
    assert_eq!(tree.contents(None), "k=1,2 l=1");
}
