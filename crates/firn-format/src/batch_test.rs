use super::*;
use proptest::prelude::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn encode(records: &[Record<'_>]) -> Vec<u8> {
    let mut batch = EMPTY.to_vec();
    for record in records {
        record.encode(&mut batch);
    }
    set_count(&mut batch, records.iter().filter(|record| record.is_counted()).count() as u32);
    batch
}

fn h(count: u32, records: &str) -> Vec<u8> {
    let mut bytes = header(SequenceNumber(0), count).to_vec();
    bytes.extend(hex(records));
    bytes
}

#[test]
fn vectors_encode_and_decode() {
    use PrepareKind::{WriteCommitted, WritePrepared, WriteUnprepared};
    use Record::*;
    let entity = hex("01030004026331020263320264666C7476317632");
    let put = Put { cf: 0, key: b"k", value: b"v" };
    let (key, value) = (&b"key"[..], &b"value"[..]);
    let table: Vec<(Vec<Record<'_>>, u32, &str)> = vec![
        (vec![], 0, ""),
        (vec![Put { cf: 0, key, value }], 1, "01036B65790576616C7565"),
        (vec![Put { cf: 0, key: b"", value: b"" }], 1, "010000"),
        (vec![Put { cf: 300, key, value }], 1, "05AC02036B65790576616C7565"),
        (vec![Delete { cf: 0, key }, Delete { cf: 2, key }], 2, "00036B6579 0402036B6579"),
        (vec![SingleDelete { cf: 0, key }, SingleDelete { cf: 2, key }], 2, "07036B6579 0802036B6579"),
        (
            vec![Merge { cf: 0, key, value: b"op" }, Merge { cf: 2, key, value: b"op" }],
            2,
            "02036B6579026F70 0602036B6579026F70",
        ),
        (
            vec![DeleteRange { cf: 0, begin: b"a", end: b"z" }, DeleteRange { cf: 2, begin: b"a", end: b"z" }],
            2,
            "0F0161017A 0E020161017A",
        ),
        (vec![LogData(b"blob")], 0, "0304626C6F62"),
        (
            vec![BlobIndex { cf: 0, key, value: b"idx" }, BlobIndex { cf: 2, key, value: b"idx" }],
            2,
            "11036B657903696478 1002036B657903696478",
        ),
        (vec![PutEntity { cf: 0, key, value: &entity }], 1, "16036B657914 01030004026331020263320264666C7476317632"),
        (vec![PutEntity { cf: 2, key, value: &entity[..8] }], 1, "1702036B657908 0103000402633102"),
        (vec![Noop, put], 1, "0D 01016B0176"),
        (vec![BeginPrepare(WriteCommitted), put, EndPrepare { xid: b"xid1" }], 1, "09 01016B0176 0A0478696431"),
        (vec![BeginPrepare(WritePrepared), put, EndPrepare { xid: b"xid1" }], 1, "12 01016B0176 0A0478696431"),
        (vec![BeginPrepare(WriteUnprepared), put, EndPrepare { xid: b"xid1" }], 1, "13 01016B0176 0A0478696431"),
        (vec![Commit { xid: b"xid1" }], 0, "0B0478696431"),
        (
            vec![CommitWithTimestamp { timestamp: b"\x07\0\0\0\0\0\0\0", xid: b"xid1" }],
            0,
            "1508 0700000000000000 0478696431",
        ),
        (vec![Rollback { xid: b"xid1" }], 0, "0C0478696431"),
        (vec![TimedPut { cf: 0, key: b"tk", packed: b"tv\xe8\x03\0\0\0\0\0\0" }], 1, "1802746B0A7476 E803000000000000"),
    ];
    for (records, count, text) in table {
        let batch = encode(&records);
        assert_eq!(batch, h(count, text), "{records:?}");
        let decoded: Vec<_> = BatchIter::new(&batch).unwrap().map(Result::unwrap).collect();
        assert_eq!(decoded, records);
    }
}

#[test]
fn header_fields() {
    let mut batch = encode(&[Record::Put { cf: 0, key: b"a", value: b"1" }]);
    set_sequence(&mut batch, SequenceNumber(0x0102_0304_0506_0708));
    assert_eq!(batch, hex("0807060504030201 01000000 0101610131"));
    append_delete(&mut batch, 0, b"b");
    set_count(&mut batch, 2);
    assert_eq!(batch, hex("0807060504030201 02000000 0101610131 000162"));
    assert_eq!((sequence(&batch), count(&batch)), (SequenceNumber(0x0102_0304_0506_0708), 2));
}

#[test]
fn a_timed_put_without_a_time_is_a_put() {
    let (mut timed, mut plain) = (Vec::new(), Vec::new());
    append_timed_put(&mut timed, 1, b"k", b"v", UNKNOWN_WRITE_TIME_SECS);
    append_put(&mut plain, 1, b"k", b"v");
    assert_eq!(timed, plain);
    assert_eq!(unpack_timed_value(b"tv\xe8\x03\0\0\0\0\0\0").unwrap(), (&b"tv"[..], 1000));
    assert!(unpack_timed_value(b"1234567").unwrap_err().is_corruption());
}

#[test]
fn damaged_batches_are_refused_with_the_known_words() {
    let refused = |batch: &[u8], words: &str| {
        let error = validate(batch).unwrap_err();
        assert!(error.is_corruption());
        assert_eq!(error.message(), words);
    };
    refused(&[0; 11], "malformed WriteBatch (too small)");
    for tag in [0x63, 0x7f, 0x80, 0x1a, 0xff] {
        refused(&h(0, &format!("{tag:02x}")), &format!("unknown WriteBatch tag: {tag}"));
    }
    refused(&h(0, "140161"), "unknown WriteBatch tag: 20");
    refused(&h(1, ""), "WriteBatch has wrong count");
    refused(&h(0, "010000"), "WriteBatch has wrong count");
    refused(&h(0, "01036162"), "bad WriteBatch Put");
    refused(&h(0, "00"), "bad WriteBatch Delete");
    refused(&h(0, "0580"), "bad WriteBatch Put");
    refused(&h(0, "0f0161"), "bad WriteBatch DeleteRange");
    refused(&h(0, "020161"), "bad WriteBatch Merge");
    refused(&h(0, "110161"), "bad WriteBatch BlobIndex");
    refused(&h(0, "0305"), "bad WriteBatch Blob");
    refused(&h(0, "160161"), "bad WriteBatch PutEntity");
    refused(&h(1, "180161 0162"), "bad WriteBatch TimedPut");
    refused(&h(0, "0A05"), "bad EndPrepare XID");
    refused(&h(0, "0B05"), "bad Commit XID");
    refused(&h(0, "1508"), "bad commit timestamp");
    refused(&h(0, "150161 05"), "bad Commit XID");
    refused(&h(0, "0C"), "bad Rollback XID");
}

#[test]
fn every_truncation_of_a_batch_is_refused_or_has_the_wrong_count() {
    let batch = encode(&[
        Record::Put { cf: 300, key: b"key", value: b"value" },
        Record::DeleteRange { cf: 0, begin: b"a", end: b"b" },
        Record::Merge { cf: 1, key: b"key", value: b"op" },
    ]);
    for length in 0..batch.len() {
        assert!(validate(&batch[..length]).is_err(), "{length}");
    }
}

#[derive(Clone, Debug)]
struct Fields(u8, u32, Vec<u8>, Vec<u8>);

impl Fields {
    fn record(&self) -> Record<'_> {
        let Self(kind, cf, key, value) = self;
        let (cf, key, value) = (*cf, key.as_slice(), value.as_slice());
        match kind {
            0 => Record::Put { cf, key, value },
            1 => Record::Delete { cf, key },
            2 => Record::SingleDelete { cf, key },
            3 => Record::DeleteRange { cf, begin: key, end: value },
            4 => Record::Merge { cf, key, value },
            5 => Record::BlobIndex { cf, key, value },
            6 => Record::PutEntity { cf, key, value },
            7 => Record::LogData(value),
            8 => Record::Noop,
            9 => Record::BeginPrepare(PrepareKind::WritePrepared),
            10 => Record::EndPrepare { xid: key },
            11 => Record::Commit { xid: key },
            12 => Record::CommitWithTimestamp { timestamp: value, xid: key },
            _ => Record::Rollback { xid: key },
        }
    }
}

proptest! {
    #[test]
    fn round_trip(fields in prop::collection::vec(
        (0u8..14, prop_oneof![Just(0u32), any::<u32>()], any::<Vec<u8>>(), any::<Vec<u8>>())
            .prop_map(|(kind, cf, key, value)| Fields(kind, cf, key, value)),
        0..12,
    )) {
        let records: Vec<_> = fields.iter().map(Fields::record).collect();
        let batch = encode(&records);
        let decoded: Vec<_> = BatchIter::new(&batch).unwrap().map(Result::unwrap).collect();
        prop_assert_eq!(decoded, records);
    }

    #[test]
    fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(records) = BatchIter::new(&bytes) {
            prop_assert!(records.count() <= bytes.len());
        }
    }
}
