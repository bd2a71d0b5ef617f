use super::*;
use crate::checksum::{crc32c, mask_crc32c};
use proptest::prelude::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

const MODES: [RecoveryMode; 4] = [
    RecoveryMode::TolerateCorruptedTailRecords,
    RecoveryMode::AbsoluteConsistency,
    RecoveryMode::PointInTime,
    RecoveryMode::SkipAnyCorruptedRecords,
];

fn legacy() -> LogFormat {
    LogFormat { log_number: 4, ..LogFormat::default() }
}

fn recyclable() -> LogFormat {
    LogFormat { recyclable: true, ..legacy() }
}

fn encode(format: LogFormat, records: &[Vec<u8>]) -> Vec<u8> {
    let mut encoder = LogEncoder::new(format).unwrap();
    let mut out = Vec::new();
    encoder.start(&mut out);
    for record in records {
        encoder.append_record(&mut out, record).unwrap();
    }
    assert_eq!(encoder.position(), out.len() as u64);
    out
}

/// Reads as an owner does: until the end or, except when skipping, the first report.
fn read(log: &[u8], mode: RecoveryMode) -> (Vec<Vec<u8>>, Option<String>) {
    let mut reader = LogReader::new(SliceSource(log), 4, mode);
    let (mut records, mut first) = (Vec::new(), None);
    loop {
        let more = reader.advance().unwrap();
        if let Some(report) = reader.take_report()
            && mode != RecoveryMode::SkipAnyCorruptedRecords
        {
            first = Some(report.error.message().to_owned());
            break;
        }
        if !more {
            break;
        }
        records.push(reader.record().to_vec());
        assert!(reader.record_end() > reader.record_offset());
    }
    (records, first)
}

fn physical(number: u8, payload: &[u8]) -> Vec<u8> {
    let mut covered = vec![number];
    if matches!(number, 5..=8 | 11 | 131) {
        covered.extend_from_slice(&4u32.to_le_bytes());
    }
    covered.extend_from_slice(payload);
    let mut record = mask_crc32c(crc32c(&covered)).to_le_bytes().to_vec();
    record.extend_from_slice(&(payload.len() as u16).to_le_bytes());
    record.extend_from_slice(&covered);
    record
}

#[test]
fn file_vectors() {
    let log = hex("e99f7819 1100 01 0100000000000000 01000000 0101610131
        8f72bc7a 1100 01 0200000000000000 01000000 0101620132
        d55dfde6 1100 01 0300000000000000 01000000 0101630132
        3fe5a0e9 1200 01 0400000000000000 01000000 050101780131");
    for mode in MODES {
        let (records, report) = read(&log, mode);
        assert_eq!((records.len(), report), (4, None));
        assert_eq!(encode(legacy(), &records), log);
    }
    let log = hex("fc7d4058 1300 05 08000000 1f00000000000000 01000000 01036d69640178");
    let format = LogFormat { log_number: 8, ..recyclable() };
    assert_eq!(encode(format, &[log[11..].to_vec()]), log);
    assert_eq!(encode(legacy(), &[hex("0400000000000000 00000000")]), hex("757d053d0c0001040000000000000000000000"));
    assert_eq!(encode(legacy(), &[vec![]]), hex("052b2843000001"));
}

#[test]
fn special_record_vectors() {
    let special = |format, act: &dyn Fn(&mut LogEncoder, &mut Vec<u8>)| {
        let (mut encoder, mut out) = (LogEncoder::new(format).unwrap(), Vec::new());
        act(&mut encoder, &mut out);
        out
    };
    let sizes = |encoder: &mut LogEncoder, out: &mut Vec<u8>| encoder.append_timestamp_sizes(out, &[(0, 8)]).unwrap();
    assert_eq!(special(legacy(), &sizes), hex("da5ab0bc06000a000000000800"));
    assert_eq!(special(recyclable(), &sizes), hex("a8f4f4b906000b04000000000000000800"));
    let ten = LogFormat { log_number: 10, ..legacy() };
    let mut info = PredecessorInfo { log_number: 4, size_bytes: 49, last_sequence: 2 };
    let plain = special(ten, &|encoder, out| encoder.append_predecessor(out, &info));
    assert_eq!(plain, hex("e53230e3180082 0400000000000000 3100000000000000 0200000000000000"));
    info.size_bytes = 57;
    let recycled =
        special(LogFormat { recyclable: true, ..ten }, &|encoder, out| encoder.append_predecessor(out, &info));
    assert_eq!(recycled, hex("95d5fb7f1800830a000000 0400000000000000 3900000000000000 0200000000000000"));

    let mut reader = LogReader::new(SliceSource(&recycled), 10, RecoveryMode::PointInTime);
    assert!(!reader.advance().unwrap());
    assert_eq!(reader.take_predecessor(), Some(info));
    let log = special(legacy(), &sizes);
    let mut reader = LogReader::new(SliceSource(&log), 4, RecoveryMode::PointInTime);
    assert!(!reader.advance().unwrap());
    assert_eq!(reader.timestamp_sizes(), [(0, 8)]);
    assert!(reader.take_report().is_none());
}

#[test]
fn compressed_vector() {
    let log = hex("e12c08f8 0400 09 07000000
        5ab88c84 1f00 05 11000000 28b52ffd24129100000b000000000000000100000001026634017aa5a2677e");
    let mut reader = LogReader::new(SliceSource(&log), 17, RecoveryMode::AbsoluteConsistency);
    assert!(reader.advance().unwrap());
    assert_eq!(reader.record(), hex("0b00000000000000 01000000 01026634017a"));
    assert!(!reader.advance().unwrap());
    assert!(reader.take_report().is_none());
    let format = LogFormat { log_number: 17, recyclable: true, compression: LogCompression::Zstd };
    let ours = encode(format, &[hex("0b00000000000000 01000000 01026634017a")]);
    assert_eq!(ours[..11], log[..11]);
    assert_eq!(ours, log);
}

#[test]
fn fragmentation_vector() {
    let records: Vec<Vec<u8>> =
        [19, 32735, 21, 100_021, 100_020, 19].iter().map(|&length: &usize| vec![7u8; length]).collect();
    let log = encode(legacy(), &records);
    let mut layout = Vec::new();
    let mut at = 0;
    while at < log.len() {
        if BLOCK_SIZE - at % BLOCK_SIZE < HEADER_SIZE {
            at = at.next_multiple_of(BLOCK_SIZE);
        }
        let length = usize::from(u16::from_le_bytes([log[at + 4], log[at + 5]]));
        layout.push((at, log[at + 6], length));
        at += HEADER_SIZE + length;
    }
    let expected = [
        (0, 1, 19),
        (26, 1, 32735),
        (32768, 1, 21),
        (32796, 2, 32733),
        (65536, 3, 32761),
        (98304, 3, 32761),
        (131_072, 4, 1766),
        (132_845, 2, 30988),
        (163_840, 3, 32761),
        (196_608, 3, 32761),
        (229_376, 4, 3510),
        (232_893, 1, 19),
    ];
    assert_eq!(layout, expected);
    assert_eq!(read(&log, RecoveryMode::AbsoluteConsistency), (records, None));
}

#[test]
fn block_ends() {
    for (format, header) in [(legacy(), HEADER_SIZE), (recyclable(), RECYCLABLE_HEADER_SIZE)] {
        for left in 0..=header + 2 {
            let records = vec![vec![1; BLOCK_SIZE - header - left], vec![2; 5], vec![]];
            let log = encode(format, &records);
            let second = &log[BLOCK_SIZE - left..];
            if left < header {
                assert!(second[..left].iter().all(|&byte| byte == 0));
            } else {
                assert_eq!(usize::from(second[4]), left - header, "a First as long as the room");
            }
            for mode in MODES {
                assert_eq!(read(&log, mode), (records.clone(), None), "{left} left");
            }
        }
    }
}

/// Three records a, b, c as in the specification's table of recovery results.
struct Case {
    name: &'static str,
    log: Vec<u8>,
    /// Per mode: records as text, and the report.
    expected: [(&'static str, Option<&'static str>); 4],
}

#[test]
fn recovery_modes() {
    let (a, b, c) = (physical(1, b"aaaaaaaaaaaaa"), physical(1, b"bbbbbbbbbbbbb"), physical(1, b"ccccccccccccc"));
    let (ra, rb) = (physical(5, b"aaaaaaaaaaaaa"), physical(5, b"bbbbbbbbbbbbb"));
    let old = |number| {
        let mut covered = vec![number, 3, 0, 0, 0];
        covered.extend_from_slice(b"ooooooooooooo");
        let mut record = mask_crc32c(crc32c(&covered)).to_le_bytes().to_vec();
        record.extend_from_slice(&13u16.to_le_bytes());
        record.extend_from_slice(&covered);
        record
    };
    let cat = |parts: &[&[u8]]| parts.concat();
    let bad = |record: &[u8]| {
        let mut record = record.to_vec();
        record[12] ^= 1;
        record
    };
    let to_block_end = |log: Vec<u8>, fill: u8| {
        let mut log = log;
        log.resize(BLOCK_SIZE, fill);
        log
    };
    let all = |records| [(records, None); 4];
    let reported = |tolerate, keep, report, skip| {
        [(tolerate, Some(report)), (keep, Some(report)), (keep, Some(report)), (skip, None)]
    };
    let torn = |keep, report| [(keep, None), (keep, Some(report)), (keep, Some(report)), (keep, None)];
    let first_of_block = physical(2, &vec![b'f'; BLOCK_SIZE - 2 * 20 - 7]);
    let cases = [
        Case { name: "clean", log: cat(&[&a, &b, &c]), expected: all("abc") },
        Case { name: "empty", log: vec![], expected: all("") },
        Case { name: "torn header", log: cat(&[&a, &b, &c, &[9, 9, 9]]), expected: torn("abc", "truncated header") },
        Case { name: "five zeros", log: cat(&[&a, &b, &c, &[0; 5]]), expected: torn("abc", "truncated header") },
        Case { name: "torn payload", log: cat(&[&a, &b, &c[..15]]), expected: torn("ab", "truncated record body") },
        Case { name: "header only", log: cat(&[&a, &b, &c[..7]]), expected: torn("ab", "truncated record body") },
        Case {
            name: "First, then the end at a block end",
            log: cat(&[&a, &b, &first_of_block]),
            expected: torn("ab", "error reading trailing data due to encountering EOF"),
        },
        Case {
            // RocksDB reports this and the next two in the first mode too. Here they are what a killed process leaves of
            // an append through a mapping, and so a torn tail.
            name: "First, then zeros",
            log: cat(&[&a, &b, &physical(2, b"xyz"), &[0; 3000]]),
            expected: torn("ab", "error in middle of record"),
        },
        Case {
            name: "half a record, then zeros",
            log: cat(&[&a, &b, &c[..15], &[0; 3000]]),
            expected: torn("ab", "checksum mismatch"),
        },
        Case {
            name: "half a record, then zeros beyond the block",
            log: cat(&[&a, &b, &c[..15], &[0; 3 * BLOCK_SIZE]]),
            expected: torn("ab", "checksum mismatch"),
        },
        Case {
            name: "a bad record that was written to its end, then zeros",
            log: cat(&[&a, &b, &bad(&c), &[0; 3000]]),
            expected: reported("ab", "ab", "checksum mismatch", "ab"),
        },
        Case {
            name: "half a record, zeros to the end of the block, a record",
            log: cat(&[&to_block_end(cat(&[&a, &b, &c[..15]]), 0), &c]),
            expected: reported("ab", "ab", "checksum mismatch", "abc"),
        },
        Case {
            name: "bad checksum at the end",
            log: cat(&[&a, &b, &bad(&c)]),
            expected: reported("ab", "ab", "checksum mismatch", "ab"),
        },
        Case {
            name: "bad checksum in the middle of a block",
            log: cat(&[&a, &bad(&b), &c]),
            expected: reported("a", "a", "checksum mismatch", "a"),
        },
        Case {
            name: "bad checksum, good record in the next block",
            log: cat(&[&to_block_end(cat(&[&a, &bad(&b)]), 9), &c]),
            expected: reported("a", "a", "checksum mismatch", "ac"),
        },
        Case { name: "100 zeros", log: cat(&[&a, &b, &c, &[0; 100]]), expected: all("abc") },
        Case { name: "40000 zeros", log: cat(&[&a, &b, &c, &[0; 40000]]), expected: all("abc") },
        Case { name: "zeros hide the rest of a block", log: cat(&[&a, &[0; 50], &b]), expected: all("a") },
        Case {
            name: "zeros to the end of a block",
            log: cat(&[&to_block_end(a.clone(), 0), &b, &c]),
            expected: all("abc"),
        },
        Case {
            name: "garbage with a bad length",
            log: cat(&[&a, &b, &c, &[0xee; 300]]),
            expected: torn("abc", "truncated record body"),
        },
        Case {
            name: "unknown type 64",
            log: cat(&[&a, &physical(64, b"?"), &b, &c]),
            expected: reported("a", "a", "unknown record type 64", "abc"),
        },
        Case { name: "unknown type 200", log: cat(&[&a, &physical(200, b"?"), &b, &c]), expected: all("abc") },
        Case {
            name: "unknown type 200 inside a record",
            log: cat(&[&a, &physical(2, b"bb"), &physical(200, b"?"), &physical(4, b"bb"), &c]),
            expected: reported("a", "a", "missing start of fragmented record(2)", "ac"),
        },
        Case {
            name: "stray Middle",
            log: cat(&[&a, &physical(3, b"?"), &b, &c]),
            expected: reported("a", "a", "missing start of fragmented record(1)", "abc"),
        },
        Case {
            name: "stray Last",
            log: cat(&[&a, &physical(4, b"?"), &b, &c]),
            expected: reported("a", "a", "missing start of fragmented record(2)", "abc"),
        },
        Case {
            name: "stray First",
            log: cat(&[&a, &physical(2, b"?"), &b, &c]),
            expected: reported("a", "a", "partial record without end(1)", "abc"),
        },
        Case { name: "empty First", log: cat(&[&a, &physical(2, b""), &b, &c]), expected: all("abc") },
        Case {
            name: "length beyond the block",
            log: cat(&[&to_block_end(cat(&[&a, &[0xff; 7]]), 9), &c]),
            expected: reported("a", "a", "bad record length", "ac"),
        },
        Case { name: "another WAL's record first", log: old(5), expected: all("") },
        Case { name: "old record", log: cat(&[&ra, &old(5)]), expected: all("a") },
        Case {
            name: "old record in between",
            log: cat(&[&ra, &old(5), &rb]),
            expected: [("a", None), ("a", None), ("a", None), ("ab", None)],
        },
        Case {
            name: "old record inside a record",
            log: cat(&[&ra, &physical(6, b"bb"), &old(8)]),
            expected: torn("a", "error reading trailing data due to encountering old record"),
        },
        Case {
            name: "stale garbage in a recycled log",
            log: cat(&[&to_block_end(cat(&[&ra, &bad(&rb)]), 9), &ra]),
            expected: [("a", None), ("a", Some("checksum mismatch")), ("a", Some("checksum mismatch")), ("aa", None)],
        },
        Case { name: "recyclable, then legacy", log: cat(&[&ra, &b]), expected: all("ab") },
        Case {
            name: "legacy, then recyclable",
            log: cat(&[&a, &rb]),
            expected: reported("a", "a", "recyclable record after legacy records", "a"),
        },
    ];
    for Case { name, log, expected } in cases {
        for (mode, (records, report)) in MODES.into_iter().zip(expected) {
            let (read, found) = read(&log, mode);
            let read: String = read.iter().map(|record| char::from(record[0])).collect();
            assert_eq!((read.as_str(), found.as_deref()), (records, report), "{name}, {mode:?}");
        }
    }
}

#[test]
fn old_record_flag_only_where_replay_stops() {
    let log = [physical(5, b"a"), encode(LogFormat { log_number: 3, ..recyclable() }, &[vec![1]])].concat();
    for mode in MODES {
        let mut reader = LogReader::new(SliceSource(&log), 4, mode);
        while reader.advance().unwrap() {}
        let flagged = matches!(mode, RecoveryMode::AbsoluteConsistency | RecoveryMode::PointInTime);
        assert_eq!(reader.old_record_seen(), flagged);
    }
}

#[test]
fn a_hole_inside_a_recyclable_compressed_record_loses_nothing() {
    // A frame cut at a place that leaves 7 to 10 bytes in the block, as RocksDB 11 writes it.
    for hole in 7..=10 {
        let mut plain = vec![0u8; 40_000];
        let mut state = 1u64;
        for byte in &mut plain {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (state >> 56) as u8;
        }
        let frame = zstd::bulk::compress(&plain, 3).unwrap();
        let mut log = hex("e12c08f804000907000000");
        let room = BLOCK_SIZE - log.len() - RECYCLABLE_HEADER_SIZE - hole;
        log.extend(physical(6, &frame[..room]));
        log.resize(BLOCK_SIZE, 0);
        log.extend(physical(8, &frame[room..]));
        log.extend(physical(5, &zstd::bulk::compress(b"next", 3).unwrap()));
        for mode in MODES {
            assert_eq!(read(&log, mode), (vec![plain.clone(), b"next".to_vec()], None), "{hole} {mode:?}");
        }
    }
}

/// Readers of RocksDB 7.0 to 7.10 depend on it.
#[test]
fn neighbouring_fragments_of_a_frame_begin_at_different_places() {
    let mut state = 1u64;
    let mut noise = vec![0u8; 300_000];
    for byte in &mut noise {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        *byte = (state >> 56) as u8;
    }
    for kind in [2, 3] {
        let log = encode(format_of(kind), std::slice::from_ref(&noise));
        let header = if kind == 3 { RECYCLABLE_HEADER_SIZE } else { HEADER_SIZE };
        let (mut at, mut previous) = (11, None);
        while at < log.len() {
            assert_ne!(previous.replace(at % BLOCK_SIZE), Some(at % BLOCK_SIZE));
            assert!(log[at + 6] != 0, "no hole at {at}");
            at += header + usize::from(u16::from_le_bytes([log[at + 4], log[at + 5]]));
        }
    }
}

#[test]
fn damaged_compression_is_reported() {
    let good = hex("e12c08f804000907000000");
    let report = |log: &[u8]| read(log, RecoveryMode::PointInTime).1;
    assert_eq!(
        report(&[&good[..], &physical(5, b"no frame")].concat()).unwrap().split(':').next(),
        Some("could not decompress a record")
    );
    let twice = "read multiple SetCompressionType records";
    assert_eq!(report(&[&good[..], &good].concat()).as_deref(), Some(twice));
    let late = "SetCompressionType not the first record";
    let (records, second) = read(&[&physical(1, b"a")[..], &good].concat(), RecoveryMode::AbsoluteConsistency);
    assert_eq!((records.len(), second.as_deref()), (1, Some(late)));
    let undecodable = "could not decode SetCompressionType record";
    assert_eq!(report(&[&physical(9, &[4, 0, 0, 0])[..], &physical(1, b"a")].concat()).as_deref(), Some(undecodable));
    assert_eq!(report(&physical(9, &[7, 0, 0])).as_deref(), Some(undecodable));
    assert!(report(&physical(10, &[0; 5])).is_some());
    assert!(report(&physical(130, &[0; 23])).is_some());
}

#[test]
fn every_truncation_keeps_a_prefix() {
    for compression in [LogCompression::None, LogCompression::Zstd] {
        for format in [legacy(), recyclable()] {
            let records: Vec<Vec<u8>> = (0..6).map(|index| vec![index; 10 + 9000 * usize::from(index % 3)]).collect();
            let log = encode(LogFormat { compression, ..format }, &records);
            for length in (0..log.len()).step_by(if log.len() > 4000 { 97 } else { 1 }) {
                for mode in MODES {
                    let (read, _) = read(&log[..length], mode);
                    assert!(read.len() < records.len() && read[..] == records[..read.len()], "{length} {mode:?}");
                }
            }
        }
    }
}

fn format_of(kind: u8) -> LogFormat {
    let compression = if kind & 2 == 0 { LogCompression::None } else { LogCompression::Zstd };
    LogFormat { recyclable: kind & 1 == 1, compression, ..legacy() }
}

/// Lengths around the places where fragmentation changes.
fn lengths() -> impl Strategy<Value = Vec<u8>> {
    let length = prop_oneof![0usize..40, 32_700usize..32_800, 65_000usize..66_000, Just(100_000usize)];
    (length, any::<u8>()).prop_map(|(length, seed)| {
        (0..length).map(|index| (index as u8).wrapping_mul(seed).wrapping_add((index >> 7) as u8)).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn round_trip(kind in 0u8..4, records in prop::collection::vec(lengths(), 0..8)) {
        let log = encode(format_of(kind), &records);
        for mode in MODES {
            let (read, report) = read(&log, mode);
            prop_assert!(report.is_none());
            prop_assert!(read == records);
        }
    }

    #[test]
    fn parts_are_framed_as_their_concatenation(kind in 0u8..4, parts in prop::collection::vec(lengths(), 0..6)) {
        let whole = parts.concat();
        let (mut encoder, mut out) = (LogEncoder::new(format_of(kind)).unwrap(), Vec::new());
        encoder.start(&mut out);
        encoder.append_record_parts(&mut out, whole.len(), parts.iter().map(Vec::as_slice)).unwrap();
        prop_assert!(out == encode(format_of(kind), &[whole]));
    }

    #[test]
    fn a_flipped_bit_never_changes_a_record(
        kind in 0u8..4,
        records in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 1..8),
        place: prop::sample::Index,
        bit in 0u8..8,
    ) {
        let mut log = encode(format_of(kind), &records);
        let at = place.index(log.len());
        log[at] ^= 1 << bit;
        for mode in MODES {
            let (read, _) = read(&log, mode);
            let mut originals = records.iter();
            for record in &read {
                prop_assert!(originals.any(|original| original == record), "{:?}", mode);
            }
        }
    }

    #[test]
    fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..600), zeros in 0usize..70_000) {
        let mut log = vec![0; zeros];
        log.extend(bytes);
        for mode in MODES {
            let _ = read(&log, mode);
        }
    }
}

/// A length that grows over the end of the log looks like a torn write, but the record is all there.
#[test]
fn a_damaged_length_is_no_torn_write() {
    for format in [legacy(), recyclable()] {
        let records = [b"first".to_vec(), b"second record".to_vec(), vec![7; 300]];
        let log = encode(format, &records);
        let starts = [0, 1, 2].map(|count| encode(format, &records[..count]).len());
        for (at, reserved) in starts.into_iter().flat_map(|start| [(start, 0), (start, 100)]) {
            let mut damaged = log.clone();
            damaged.resize(log.len() + reserved, 0);
            damaged[at + 5] ^= 0x40;
            for mode in MODES {
                let (read, report) = read(&damaged, mode);
                assert!(read.len() <= starts.iter().position(|start| *start == at).unwrap());
                let is_stale_tail = format.recyclable && mode == RecoveryMode::TolerateCorruptedTailRecords;
                let is_reported = mode != RecoveryMode::SkipAnyCorruptedRecords && !is_stale_tail;
                let message = report.as_deref();
                assert_eq!(message == Some("bad record length"), is_reported, "{at} {mode:?} {message:?}");
            }
            // Torn within the record: all that is left is as it was written.
            let torn = &damaged[..damaged.len().min(at + 14)];
            assert_eq!(read(torn, RecoveryMode::TolerateCorruptedTailRecords).1, None, "{at}");
        }
    }
}
