use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::key::{InternalKey, SequenceNumber, ValueType};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn ikey(user_key: &str) -> Vec<u8> {
    InternalKey::new(user_key.as_bytes(), SequenceNumber(0), ValueType::Value).encoded().to_vec()
}

fn build(options: &BlockBuilderOptions, entries: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = BlockBuilder::new(options);
    for (key, value) in entries {
        builder.add(&ikey(key), value.as_bytes());
    }
    let estimate = builder.current_size();
    let block = builder.finish().to_vec();
    assert_eq!(estimate, block.len());
    block
}

const FRUIT: [(&str, &str); 4] = [("app", "1"), ("apple", "22"), ("apply", "3"), ("b", "4")];

fn entries_of(block: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let view = BlockView::parse(block).unwrap();
    let mut cursor = BlockCursor::new();
    let mut entries = Vec::new();
    let mut valid = cursor.seek_to_first(view).unwrap();
    while valid {
        entries.push((cursor.key().to_vec(), cursor.value(view).to_vec()));
        valid = cursor.next(view).unwrap();
    }
    entries
}

fn expected(entries: &[(&str, &str)]) -> Vec<(Vec<u8>, Vec<u8>)> {
    entries.iter().map(|(key, value)| (ikey(key), value.as_bytes().to_vec())).collect()
}

#[test]
fn plain_data_block_matches_the_vector() {
    let options = BlockBuilderOptions { restart_interval: 3, ..Default::default() };
    let block = build(&options, &FRUIT);
    let vector = hex("000b01 617070 0100000000000000 31   030a02 6c65 0100000000000000 3232
         040901 79 0100000000000000 33       000901 62 0100000000000000 34
         00000000 2b000000  02000000");
    assert_eq!(block, vector);
    assert_eq!(entries_of(&vector), expected(&FRUIT));
}

#[test]
fn separated_values_match_the_vectors() {
    let mut options = BlockBuilderOptions { restart_interval: 3, separate_values: true, ..Default::default() };
    let plain = hex("000b0100 617070 0100000000000000    030a02 6c65 0100000000000000
         040901 79 0100000000000000          00090104 62 0100000000000000
         31323233 34   00000000 28000000   35000000  02000010");
    assert_eq!(build(&options, &FRUIT), plain);
    assert_eq!(entries_of(&plain), expected(&FRUIT));
    options.hash_index_util_ratio = Some(0.75);
    let hashed = hex("000b0100 617070 0100000000000000    030a02 6c65 0100000000000000
         040901 79 0100000000000000          00090104 62 0100000000000000
         31323233 34   00000000 28000000  ff01000000 0500  35000000  02000090");
    assert_eq!(build(&options, &FRUIT), hashed);
    assert_eq!(entries_of(&hashed), expected(&FRUIT));
}

#[test]
fn hash_index_matches_the_vector() {
    let entries = [("apple", "1"), ("banana", "2"), ("cherry", "3"), ("date", "4"), ("elder", "5")];
    let options = BlockBuilderOptions { restart_interval: 2, hash_index_util_ratio: Some(0.75), ..Default::default() };
    let vector = hex("000d01 6170706c65 0100000000000000 31   000e01 62616e616e61 0100000000000000 32
         000e01 636865727279 0100000000000000 33 000c01 64617465 0100000000000000 34
         000d01 656c646572 0100000000000000 35
         00000000 23000000 45000000   feff01ffff00ff 0700   03000080");
    assert_eq!(build(&options, &entries), vector);
    let view = BlockView::parse(&vector).unwrap();
    for (index, (key, _)) in entries.iter().enumerate() {
        let found = view.hash_lookup(key.as_bytes());
        assert!(found == HashLookup::Restart(index as u32 / 2) || found == HashLookup::Collision, "{key}");
    }
    assert!((0..100u32).any(|n| view.hash_lookup(&n.to_le_bytes()) == HashLookup::Absent));
}

#[test]
fn range_deletion_block_matches_the_vector() {
    let vector = hex("000e077264303030300f3f0800000000007264303030307a000e077264303030310f400800000000007264303030317a
         000e077264303030320f410800000000007264303030327a000e077264303030330f420800000000007264303030337a
         0000000018000000300000004800000004000000");
    let mut builder = BlockBuilder::new(&BlockBuilderOptions { restart_interval: 1, ..Default::default() });
    for n in 0..4u64 {
        let start = format!("rd{n:04}");
        let key = InternalKey::new(start.as_bytes(), SequenceNumber(2111 + n), ValueType::RangeDeletion);
        builder.add(key.encoded(), format!("{start}z").as_bytes());
    }
    assert_eq!(builder.finish(), vector);
}

#[test]
fn empty_block_has_one_restart_and_no_entry() {
    let mut builder = BlockBuilder::new(&BlockBuilderOptions::default());
    assert_eq!(builder.finish(), hex("00000000 01000000"));
    let view = BlockView::parse(builder.finish().get(..8).unwrap()).unwrap();
    let mut cursor = BlockCursor::new();
    assert!(!cursor.seek_to_first(view).unwrap());
    assert!(!cursor.seek_to_last(view).unwrap());
    assert!(!cursor.seek(view, |key| key.cmp(b"x")).unwrap());
    assert!(!cursor.seek_for_prev(view, |key| key.cmp(b"x")).unwrap());
    assert!(entries_of(&hex("00000000 00000000")).is_empty());
}

#[test]
fn damaged_blocks_are_refused() {
    for (text, message) in [
        ("", "Block too small"),
        ("000000", "Block too small"),
        ("01000000", "bad block contents"),
        ("0000000001000040", "reserved bits"),
        ("0000000002000000", "bad block contents"),
        ("00000000ffffff0f", "bad block contents"),
        ("0000000001000080", "bad block contents"),
        ("0000 00000000 01000080", "bad block contents"),
        ("00000000 09000000 01000010", "bad block contents"),
    ] {
        let error = BlockLayout::parse(&hex(text)).unwrap_err();
        assert!(error.is_corruption() && error.message().contains(message), "{text}: {error}");
    }
    // Lengths that overrun, a shared prefix without a predecessor, a varint without an end.
    for text in ["00ff01 61", "000901", "050101 61 31", "ffffffffffff", "00ffffffff0f01 61"] {
        let block = [hex(text), hex("00000000 01000000")].concat();
        let view = BlockView::parse(&block).unwrap();
        assert!(BlockCursor::new().seek_to_first(view).unwrap_err().is_corruption(), "{text}");
    }
}

fn check_against_model(entries: &BTreeMap<Vec<u8>, Vec<u8>>, probes: &[Vec<u8>], options: &BlockBuilderOptions) {
    let mut builder = BlockBuilder::new(options);
    for (key, value) in entries {
        assert!(builder.is_empty() || builder.last_key() < key.as_slice());
        builder.add(key, value);
    }
    let block = builder.finish().to_vec();
    let view = BlockView::parse(&block).unwrap();
    let model: Vec<_> = entries.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    assert_eq!(entries_of(&block), model);

    let mut cursor = BlockCursor::new();
    let mut backwards = Vec::new();
    let mut valid = cursor.seek_to_last(view).unwrap();
    while valid {
        backwards.push((cursor.key().to_vec(), cursor.value(view).to_vec()));
        valid = cursor.prev(view).unwrap();
    }
    backwards.reverse();
    assert_eq!(backwards, model);

    for probe in probes.iter().chain(entries.keys()) {
        let at = model.partition_point(|(key, _)| key < probe);
        assert_eq!(cursor.seek(view, |key| key.cmp(probe)).unwrap(), at < model.len());
        if let Some((key, value)) = model.get(at) {
            assert_eq!((cursor.key(), cursor.value(view)), (key.as_slice(), value.as_slice()));
            // Turn round twice in place.
            if at > 0 {
                assert!(cursor.prev(view).unwrap());
                assert_eq!(
                    (cursor.key(), cursor.value(view)),
                    (model[at - 1].0.as_slice(), model[at - 1].1.as_slice())
                );
                assert!(cursor.next(view).unwrap());
                assert_eq!((cursor.key(), cursor.value(view)), (key.as_slice(), value.as_slice()));
            }
            if cursor.next(view).unwrap() {
                assert_eq!(cursor.value(view), model[at + 1].1);
            }
        }
        let upto = model.partition_point(|(key, _)| key <= probe);
        assert_eq!(cursor.seek_for_prev(view, |key| key.cmp(probe)).unwrap(), upto > 0);
        if upto > 0 {
            assert_eq!(
                (cursor.key(), cursor.value(view)),
                (model[upto - 1].0.as_slice(), model[upto - 1].1.as_slice())
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn blocks_round_trip(
        entries in prop::collection::btree_map(
            prop::collection::vec(prop::sample::select(vec![0u8, 1, 0x61, 0x62, 0xff]), 8..14),
            prop::collection::vec(any::<u8>(), 0..200),
            0..60,
        ),
        probes in prop::collection::vec(prop::collection::vec(prop::sample::select(vec![0u8, 1, 0x61, 0x62, 0xff]), 0..14), 0..20),
        restart_interval in 1usize..20,
        use_delta_encoding: bool,
        separate_values: bool,
        hashed: bool,
    ) {
        let options = BlockBuilderOptions {
            restart_interval,
            use_delta_encoding,
            separate_values,
            hash_index_util_ratio: hashed.then_some(0.75),
            ..Default::default()
        };
        check_against_model(&entries, &probes, &options);
    }

    #[test]
    fn damage_never_panics(
        mut block in prop::collection::vec(any::<u8>(), 0..300),
        restarts in 0u32..8,
        flags in 0u32..8,
    ) {
        block.extend_from_slice(&(restarts | (flags & 1) << 31 | (flags & 2) << 27 | (flags & 4) << 27).to_le_bytes());
        if let Ok(view) = BlockView::parse(&block) {
            let mut cursor = BlockCursor::new();
            let _ = cursor.seek_to_last(view).and_then(|valid| if valid { cursor.prev(view) } else { Ok(false) });
            let _ = cursor.seek(view, |key| key.cmp(b"a"));
            let _ = cursor.seek_for_prev(view, |key| key.cmp(b"a"));
            if matches!(cursor.seek_to_first(view), Ok(true)) {
                while let Ok(true) = cursor.next(view) {}
            }
        }
    }
}
