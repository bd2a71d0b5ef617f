//! Contents written by RocksDB, rebuilt and queried; crafted and damaged contents.

use super::*;
use crate::checksum::crc32c;
use proptest::prelude::*;

struct Vector {
    policy: &'static str,
    first: usize,
    entries: usize,
    length: usize,
    trailer: &'static str,
    crc: u32,
    false_positives: usize,
    first_false_positives: &'static [usize],
}
#[rustfmt::skip]
const NEW_BLOOM: &[Vector] = &[
    Vector { policy: "bloomfilter:10", first: 0, entries: 1, length: 69, trailer: "ff00060000", crc: 0xc8b19b5a,
        false_positives: 0, first_false_positives: &[] },
    Vector { policy: "bloomfilter:10", first: 0, entries: 3, length: 69, trailer: "ff00060000", crc: 0xaac08bca,
        false_positives: 0, first_false_positives: &[] },
    Vector { policy: "bloomfilter:10", first: 0, entries: 50, length: 69, trailer: "ff00060000", crc: 0xbeca7e29,
        false_positives: 12, first_false_positives: &[27, 63, 364, 810, 968, 1008, 1151, 1183] },
    Vector { policy: "bloomfilter:10", first: 0, entries: 60, length: 133, trailer: "ff00060000", crc: 0xc4d6626e,
        false_positives: 2, first_false_positives: &[998, 1951] },
    Vector { policy: "bloomfilter:5", first: 0, entries: 100, length: 69, trailer: "ff00030000", crc: 0x2cb4b6fb,
        false_positives: 184, first_false_positives: &[26, 28, 34, 51, 53, 61, 69, 79] },
    Vector { policy: "bloomfilter:16", first: 0, entries: 60, length: 133, trailer: "ff00090000", crc: 0xcd9b433c,
        false_positives: 3, first_false_positives: &[546, 961, 1619] },
    Vector { policy: "bloomfilter:2", first: 0, entries: 200, length: 69, trailer: "ff00010000", crc: 0x50340ef9,
        false_positives: 614, first_false_positives: &[0, 1, 5, 12, 14, 15, 16, 17] },
    Vector { policy: "bloomfilter:100", first: 0, entries: 4, length: 69, trailer: "ff00180000", crc: 0x62f75fee,
        false_positives: 0, first_false_positives: &[] },
    Vector { policy: "bloomfilter:9.9", first: 0, entries: 1000, length: 1285, trailer: "ff00060000", crc: 0x3a5efc6e,
        false_positives: 18, first_false_positives: &[40, 53, 212, 440, 533, 553, 557, 782] },
    Vector { policy: "bloomfilter:10", first: 0, entries: 10000, length: 12549, trailer: "ff00060000", crc: 0xd398bb12,
        false_positives: 22, first_false_positives: &[47, 151, 175, 251, 537, 583, 632, 667] },
];

#[rustfmt::skip]
const LEGACY_BLOOM: &[Vector] = &[
    Vector { policy: "bloomfilter:10", first: 0, entries: 3, length: 69, trailer: "0601000000", crc: 0xc64c7331,
        false_positives: 0, first_false_positives: &[] },
    Vector { policy: "bloomfilter:10", first: 0, entries: 60, length: 197, trailer: "0603000000", crc: 0x9544f53b,
        false_positives: 1, first_false_positives: &[1168] },
    Vector { policy: "bloomfilter:10", first: 0, entries: 1000, length: 1349, trailer: "0615000000", crc: 0xb66f4ef1,
        false_positives: 19, first_false_positives: &[64, 108, 134, 368, 374, 474, 559, 587] },
    Vector { policy: "bloomfilter:1", first: 0, entries: 100, length: 69, trailer: "0101000000", crc: 0xd2050c77,
        false_positives: 422, first_false_positives: &[2, 3, 4, 7, 9, 13, 15, 21] },
    Vector { policy: "bloomfilter:100", first: 0, entries: 4, length: 69, trailer: "1e01000000", crc: 0x530f4f74,
        false_positives: 4, first_false_positives: &[473, 1168, 1408, 1673] },
];

#[rustfmt::skip]
const RIBBON: &[Vector] = &[
    Vector { policy: "ribbonfilter:1:-1", first: 0, entries: 200, length: 37, trailer: "feec020000", crc: 0x75a8c67f,
        false_positives: 997, first_false_positives: &[2, 4, 6, 11, 14, 15, 18, 20] },
    Vector { policy: "ribbonfilter:3:-1", first: 0, entries: 200, length: 101, trailer: "feec020000", crc: 0x9e04d5d9,
        false_positives: 256, first_false_positives: &[6, 23, 25, 32, 33, 56, 65, 73] },
    Vector { policy: "ribbonfilter:5:-1", first: 0, entries: 240, length: 133, trailer: "feec020000", crc: 0xc9dcb46e,
        false_positives: 111, first_false_positives: &[0, 11, 26, 33, 40, 42, 82, 89] },
    Vector { policy: "ribbonfilter:6:-1", first: 0, entries: 330, length: 229, trailer: "feec030000", crc: 0x0936d739,
        false_positives: 115, first_false_positives: &[16, 60, 99, 114, 119, 120, 130, 140] },
    Vector { policy: "ribbonfilter:10:-1", first: 0, entries: 200, length: 229, trailer: "feec020000", crc: 0x7d6ece7f,
        false_positives: 12, first_false_positives: &[373, 375, 438, 518, 644, 744, 1183, 1397] },
    Vector { policy: "ribbonfilter:10:-1", first: 0, entries: 100, length: 133, trailer: "ff00060000", crc: 0xc6101864,
        false_positives: 12, first_false_positives: &[32, 892, 961, 998, 1007, 1135, 1183, 1287] },
    Vector { policy: "ribbonfilter:10:-1", first: 0, entries: 1000, length: 885, trailer: "feec080000", crc: 0x1d5e06e4,
        false_positives: 13, first_false_positives: &[280, 358, 455, 563, 642, 1063, 1116, 1141] },
    Vector { policy: "ribbonfilter:10:-1", first: 7024, entries: 1001, length: 885, trailer: "fe0a080000", crc: 0x26bd52d6,
        false_positives: 24, first_false_positives: &[145, 252, 341, 347, 396, 461, 497, 511] },
    Vector { policy: "ribbonfilter:10:-1", first: 8840, entries: 3755, length: 3269, trailer: "fee31e0000", crc: 0x85ebe365,
        false_positives: 28, first_false_positives: &[31, 269, 317, 322, 505, 531, 696, 754] },
    Vector { policy: "ribbonfilter:20:-1", first: 0, entries: 5000, length: 8085, trailer: "feec280000", crc: 0x0597915a,
        false_positives: 0, first_false_positives: &[] },
    Vector { policy: "ribbonfilter:100:-1", first: 0, entries: 300, length: 1541, trailer: "feec030000", crc: 0x940d34fb,
        false_positives: 0, first_false_positives: &[] },
    Vector { policy: "ribbonfilter:7.5:-1", first: 0, entries: 100000, length: 66789, trailer: "feec290300", crc: 0xf7c309d9,
        false_positives: 48, first_false_positives: &[168, 170, 189, 220, 234, 250, 283, 411] },
];

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}

fn context(format_version: u32) -> FilterContext {
    FilterContext { format_version, optimize_filters_for_memory: false, ..FilterContext::default() }
}

fn check(vector: &Vector, format_version: u32) {
    let name = format!("{} {} {}", vector.policy, vector.first, vector.entries);
    let policy = FilterPolicy::from_string(vector.policy).unwrap().unwrap();
    let mut builder = policy.builder(&context(format_version)).unwrap();
    builder.set_detect_corruption(true);
    let keys: Vec<String> = (vector.first..vector.first + vector.entries).map(|i| format!("key{i:08}")).collect();
    keys.iter().for_each(|key| builder.add(key.as_bytes()));
    assert_eq!(builder.entries(), vector.entries);
    let content = builder.finish().unwrap();
    assert_eq!(content.len(), vector.length, "{name}");
    assert_eq!(content[content.len() - 5..], unhex(vector.trailer), "{name}");
    assert_eq!(crc32c(&content), vector.crc, "{name}");
    let reader = FilterReader::new(&content);
    assert!(keys.iter().all(|key| reader.may_match(&FilterKey::new(key.as_bytes()))), "{name}");
    let others: Vec<String> = (0..2000).map(|i| format!("other{i:06}")).collect();
    let others: Vec<FilterKey> = others.iter().map(|key| FilterKey::new(key.as_bytes())).collect();
    let mut answers = vec![false; others.len()];
    reader.may_match_batch(&others, &mut answers);
    let hits: Vec<usize> = (0..2000).filter(|&i| answers[i]).collect();
    assert_eq!(hits.len(), vector.false_positives, "{name}");
    assert!(hits.starts_with(vector.first_false_positives), "{name}");
    for (key, answer) in others.iter().zip(answers) {
        assert_eq!(reader.may_match(key), answer);
        assert!(reader.prepare(key).is_some_and(|offset| offset < content.len()));
    }
    assert!(builder.finish().unwrap().is_empty(), "a second filter of the same builder starts empty");
}

#[test]
fn optimize_filters_for_memory_makes_use_of_rounded_up_space() {
    let build = |optimize_filters_for_memory| {
        let context = FilterContext { optimize_filters_for_memory, ..context(5) };
        let mut builder = FilterPolicy::bloom(10.0).builder(&context).unwrap();
        let keys = ["a", "b", "c"];
        keys.iter().for_each(|key| builder.add(key.as_bytes()));
        let content = builder.finish().unwrap();
        let reader = FilterReader::new(&content);
        assert!(keys.iter().all(|key| reader.may_match(&FilterKey::new(key.as_bytes()))));
        // The third byte of the trailer is the number of probes; see the vectors.
        (content.len(), content[content.len() - 3])
    };
    let ((plain_bytes, plain_probes), (bytes, probes)) = (build(false), build(true));
    assert_eq!(plain_bytes, bytes);
    assert!(probes > plain_probes, "{probes} {plain_probes}");
}

#[test]
fn new_bloom_vectors() {
    NEW_BLOOM.iter().for_each(|vector| check(vector, 5));
}

#[test]
fn legacy_bloom_vectors() {
    LEGACY_BLOOM.iter().for_each(|vector| check(vector, 4));
}

#[test]
fn ribbon_vectors() {
    RIBBON.iter().for_each(|vector| check(vector, 5));
}

#[test]
fn probes_follow_the_real_density_when_optimizing_for_memory() {
    let mut builder = FilterPolicy::bloom(10.0).builder(&FilterContext::default()).unwrap();
    (0..1000).for_each(|i| builder.add(format!("key{i:08}").as_bytes()));
    let content = builder.finish().unwrap();
    assert_eq!((content.len(), content[content.len() - 3]), (1285, 7));
}

#[test]
fn crafted_contents() {
    let always = |content: &[u8]| {
        let reader = FilterReader::new(content);
        let answers: Vec<bool> =
            (0..200).map(|i| reader.may_match(&FilterKey::new(format!("{i}").as_bytes()))).collect();
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{content:x?}");
        answers[0]
    };
    assert!(always(b""));
    for length in 1..=5 {
        assert!(!always(&[0xff; 5][..length]));
    }
    assert!(always(&[0; 6]));
    for trailer in [
        "ff00000000",
        "ff001f0000",
        "ff01060000",
        "ff00260000",
        "ff00060100",
        "ff00060001",
        "fe05000000",
        "fe05010000",
        "fd00060000",
        "8000000000",
        "0000000000",
        "0600000000",
        "0603000000",
    ] {
        let mut content = vec![0; 64];
        content.extend(unhex(trailer));
        assert!(always(&content), "{trailer}");
    }
    let mut content = vec![0; 64];
    content.extend(unhex("ff001e0000"));
    assert!(!always(&content));
    // Bodies shorter than a line must not be read beyond their end.
    for body in [1usize, 15, 63] {
        for trailer in ["ff00060000", "fe00020000", "0602000000"] {
            let mut content = vec![0; body];
            content.extend(unhex(trailer));
            // Three segments are enough for a Ribbon filter of two blocks, so that one may deny.
            if body < 16 || !trailer.starts_with("fe") {
                assert!(always(&content), "{body} {trailer}");
            }
        }
    }
}

#[test]
fn equal_neighbours_count_once() {
    let entries = |adds: &[(&str, Option<&str>)]| {
        let mut builder = FilterPolicy::bloom(10.0).builder(&FilterContext::default()).unwrap();
        for (key, prefix) in adds {
            match prefix {
                Some(prefix) => builder.add_key_and_prefix(key.as_bytes(), prefix.as_bytes()),
                None => builder.add(key.as_bytes()),
            }
        }
        builder.entries()
    };
    assert_eq!(entries(&[("a", None), ("a", None), ("b", None), ("a", None)]), 3);
    assert_eq!(entries(&[("ab1", Some("ab")), ("ab2", Some("ab")), ("ac1", Some("ac"))]), 5);
    assert_eq!(entries(&[("ab", Some("ab")), ("ab", Some("ab")), ("ab1", Some("ab"))]), 2);
}

#[test]
fn partition_sizes() {
    let keys = |policy: &str, version, block, extractor| {
        let policy = FilterPolicy::from_string(policy).unwrap().unwrap();
        policy.builder(&context(version)).unwrap().keys_per_partition(block, 10, extractor)
    };
    assert_eq!(keys("bloomfilter:10", 5, 4096, false), 2918);
    assert_eq!(keys("bloomfilter:10", 5, 256, false), 153);
    assert_eq!(keys("bloomfilter:10", 5, 256, true), 152);
    assert_eq!(keys("bloomfilter:10", 2, 256, false), 153);
    assert_eq!(keys("ribbonfilter:10:-1", 5, 1024, false), 1001);
    assert!(keys("bloomfilter:10", 2, 1, false) >= 1);
}

fn any_policy() -> impl Strategy<Value = (FilterPolicy, u32)> {
    (0usize..3, 1.0f64..30.0).prop_map(|(kind, bits)| match kind {
        0 => (FilterPolicy::bloom(bits), 5),
        1 => (FilterPolicy::bloom(bits), 4),
        _ => (FilterPolicy::ribbon(bits, -1), 5),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn added_keys_always_match((policy, version) in any_policy(),
                               keys in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 1..400)) {
        let mut builder = policy.builder(&context(version)).unwrap();
        keys.iter().for_each(|key| builder.add(key));
        let content = builder.finish().unwrap();
        let reader = FilterReader::new(&content);
        for key in &keys {
            prop_assert!(reader.may_match(&FilterKey::new(key)));
        }
    }

    #[test]
    fn noise_never_panics(mut content in proptest::collection::vec(any::<u8>(), 0..400), kind in 0u8..4) {
        if let Some(at) = content.len().checked_sub(5) {
            match kind {
                0 => content[at..at + 2].copy_from_slice(&[0xff, 0]),
                1 => { content[at] = 0xfe; content[at + 3..].fill(0); }
                2 => { content[at] &= 0x7f; content[at + 2..].fill(0); }
                _ => {}
            }
        }
        let reader = FilterReader::new(&content);
        for i in 0..20u8 {
            let key = [i];
            let key = FilterKey::new(&key);
            let _ = (reader.may_match(&key), reader.prepare(&key));
        }
    }
}
