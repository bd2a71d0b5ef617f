//! `max_skippable_internal_keys`: which calls end with "Too many internal keys skipped", and where they say they stopped.
//! The table holds what RocksDB 7.8.3 answers.

use firndb::options::ReadOptions;

use crate::tree::{Tree, text};

/// What is written (`-k` deletes, `kv` puts the value `v`, `|` takes the snapshot to read at), the moves (`F`irst, `L`ast,
/// `S`eek, `P` seek for prev, `>` and `<`), and for limits from 1 on where the cursor is after each (`!k`: stopped at `k`).
const CASES: [(&str, &str, &[&str]); 7] = [
    (
        "a -b -b -b c d",
        "F > > > L < < Sb Pb Pbb",
        &[
            "a= !b !b !b d= c= !b !b !b !b",
            "a= !b !b !b d= c= !b !b !b !b",
            "a= c= d= - d= c= a= c= a= a=",
            "a= c= d= - d= c= a= c= a= a=",
        ],
    ),
    (
        "a b1 b2 b3 c",
        "F > > > L < < < Sb > Pb <",
        &["a= b=3 !b !b c= !b !b !b b=3 !b !b !b", "a= b=3 c= - c= b=3 a= - b=3 c= b=3 a="],
    ),
    ("a -b -b -b", "F > L < Sb Pb", &["a= !b !b !b !b !b", "a= - !b !b - !b", "a= - a= - - a=", "a= - a= - - a="]),
    ("-a -a -a b", "F L < Sa Pa", &["!a b= !a !a !a", "!a b= !a !a !a", "b= b= - b= -", "b= b= - b= -"]),
    (
        "a b | b1 b2 b3 c c1 d",
        "F > > L < < Sb Pb Pc Sc",
        &[
            "a= !b !b !c !c !c b= !b !c -",
            "a= !b !b !c !c !c b= !b !b -",
            "a= b= - !b !b !b b= b= !b -",
            "a= b= - !b !b !b b= b= !b -",
            "a= b= - !b !b !b b= b= b= -",
        ],
    ),
    ("a1 a2 a3", "F > L <", &["a=3 - !a !a", "a=3 - a=3 -"]),
    (
        "b | a1 a2 -a b1 c1 c2",
        "F > L < Sa Pa Pc",
        &["!a !a !c !c b= !a !c", "!a !a !b !b b= !a !b", "!b !b b= - b= - b=", "b= - b= - b= - b="],
    ),
];

#[test]
fn calls_end_where_they_end_in_rocksdb() {
    for (writes, moves, expected) in CASES {
        let tree = Tree::new(|_| ());
        let mut snapshot = None;
        for write in writes.split(' ') {
            match (write, write.strip_prefix('-')) {
                ("|", _) => snapshot = Some(tree.db.snapshot()),
                (_, Some(key)) => tree.db.delete(key).unwrap(),
                _ => tree.put(&write[..1], &write[1..]),
            }
        }
        for (limit, expected) in (1..).zip(expected) {
            let options = ReadOptions {
                snapshot: snapshot.clone(),
                max_skippable_internal_keys: limit,
                ..ReadOptions::default()
            };
            let mut cursor = tree.cursor(&options);
            let mut found = Vec::new();
            for step in moves.split(' ') {
                match step.split_at(1) {
                    ("F", _) => cursor.seek_to_first(),
                    ("L", _) => cursor.seek_to_last(),
                    ("S", key) => cursor.seek(key),
                    ("P", key) => cursor.seek_for_prev(key),
                    (">", _) => cursor.next(),
                    _ => cursor.prev(),
                }
                found.push(match cursor.status() {
                    Ok(()) => crate::tree::entry(&cursor),
                    Err(error) => {
                        assert_eq!(error.to_string(), "Result incomplete: Too many internal keys skipped.");
                        format!("!{}", text(&cursor.property("rocksdb.iterator.internal-key").unwrap()))
                    }
                });
            }
            assert_eq!(found.join(" "), *expected, "{writes}, at most {limit}, {moves}");
        }
    }
}
