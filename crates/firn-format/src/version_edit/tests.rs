use proptest::prelude::*;

use super::*;
use crate::key::ValueType;

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// Records of real files (`docs/format/manifest.md`, Vectors), with the dialect that their writer spoke.
const VECTORS: &[(EditDialect, &str)] = &[
    (EditDialect::WithoutEpochs, "81402437346163323134332d323334322d343166302d626634662d666635333135336432383037"),
    (
        EditDialect::WithoutEpochs,
        "011a6c6576656c64622e4279746577697365436f6d70617261746f72020403080400c80101c901036f6e65",
    ),
    (EditDialect::WithoutEpochs, "0317cb01030412c80101ca01"),
    (EditDialect::WithoutEpochs, "0900031acb01030412"),
    (EditDialect::WithoutEpochs, "0900030f040088400104"),
    (EditDialect::WithoutEpochs, "0900030f04008740050402930701"),
    (EditDialect::WithoutEpochs, "090003100a0c0403ac0200"),
    (EditDialect::WithoutEpochs, "0900030a04018640080300000000000000"),
    (EditDialect::WithoutEpochs, "02000a130412"),
    (
        EditDialect::WithoutEpochs,
        "0900030d040206010c67030ce307096101000000000000000962010000000000000000000505b6d087d80606\
         05b6d087d80607000807556e6b6e6f776e4101020c10d2bab25ad3f16acaeb0ea29affbc958901",
    ),
    (
        EditDialect::WithoutEpochs,
        "02080900030a0402670009f70709610f02000000000000096d0fffffffffffffff02020505bace87d8060605\
         bace87d80607000807556e6b6e6f776e0c10ac59b5ed133eb677bc6a75088fe15b8301",
    ),
    (
        EditDialect::WithoutEpochs,
        "0900030b040367000ade0709630103000000000000096e010300000000000003030505bace87d8060605bace\
         87d80607000807556e6b6e6f776e0c10af59b5ed133eb67787a608ea9eb5334401",
    ),
    (
        EditDialect::WithoutEpochs,
        "020a0900030c047867000bf8090c6b30303000650000000000000c6b303139007800000000000065780505bace\
         87d8060605bace87d80607000807556e6b6e6f776e0201010c10a159b5ed133eb67777b1b6db71d6804801",
    ),
    (
        EditDialect::WithoutEpochs,
        "020a0a0a040467010ce7070a6b3001000000000000000a6b31010000000000000000000505b9ce87d8060605b9\
         ce87d80607000807556e6b6e6f776e03080a000000000000000c10a959b5ed133eb677665e1a59e2dd7db101",
    ),
    (
        EditDialect::WithoutEpochs,
        "020e09000311040e67000f99080c6b65793011020000000000000c6b657934110e000000000000020e0505b9ce\
         87d8060605b9ce87d80607049a70c6f6081246696c65436865636b73756d4372633332630401100c10ab59b5ed\
         133eb677f170b0786ad385510190031005a8051246696c65436865636b73756d4372633332630458210ec200c80102",
    ),
    (
        EditDialect::WithoutEpochs,
        "09000317041206000f0600146701168a080c6b65793011000000000000000c6b65793411000000000000000000\
         0505b9ce87d8060605b9ce87d80607045b7dbd71081246696c65436865636b73756d4372633332630401100c10\
         ab59b5ed133eb677e870b0786ad385510191031003980300c80102",
    ),
    (EditDialect::WithoutEpochs, "05010d6b303738330100000000000000"),
    (
        EditDialect::Current,
        "020d0900030f040667000ea90a0a6b300f060000000000000a6b390105000000000000050605058edc87d80606\
         058edc87d8060d01030c107d260e472bae83c8946aad1658b8ea6a0f028e0a01",
    ),
    (
        EditDialect::Current,
        "011a6c6576656c64622e4279746577697365436f6d70617261746f72020403080400c80101c901016189400101",
    ),
    (EditDialect::Current, "0900030d0a0a04028840010aac0200"),
    (
        EditDialect::Current,
        "02080900030a0402670009c10a116b05000000000000000101000000000000126b3207000000000000000102000\
         000000000010205058edc87d80606058edc87d8060d01010c107b260e472bae83c84d9353a3fbdef9b30f028a0a\
         0a0805000000000000000b08070000000000000001",
    ),
    (
        EditDialect::Current,
        "02080900030a0402670009d00a09610f02000000000000096b0101000000000000010205058edc87d80606058ed\
         c87d8060d01010c1079260e472bae83c86cfdb4fac82b38750f02b60a10010001",
    ),
    (
        EditDialect::Current,
        "090003130409670012df090a6b310f090000000000000a6b320fffffffffffffff090905058edc87d80606058ed\
         c87d8060d01060201010c1077260e472bae83c86c41c49fba50b47a0f02df0901",
    ),
];

#[test]
fn records_of_real_files_encode_to_the_same_bytes() {
    for (dialect, record) in VECTORS {
        let record = unhex(record);
        let edit = VersionEdit::decode(&record).unwrap();
        assert_eq!(edit.encode_as(*dialect).unwrap(), record, "{edit:#?}");
    }
}

#[test]
fn an_ingested_tombstone_file_reads_as_its_description_says() {
    let edit = VersionEdit::decode(&unhex(VECTORS.last().unwrap().1)).unwrap();
    let (level, file) = &edit.new_files[0];
    assert_eq!((*level, file.number, file.file_size), (0, FileNumber(18), 1247));
    assert_eq!(file.smallest, InternalKey::new(b"k1", SequenceNumber(9), ValueType::RangeDeletion));
    assert!(file.largest.is_range_sentinel());
    assert_eq!(file.largest.user_key(), b"k2");
    assert!(file.marked_for_compaction);
    assert_eq!((file.tail_size, file.epoch_number), (1247, 6));
    assert_eq!(file.file_checksum_func_name, UNKNOWN_FILE_CHECKSUM_FUNC_NAME);
    assert_eq!((edit.next_file_number, edit.last_sequence), (Some(FileNumber(19)), Some(SequenceNumber(9))));
}

#[test]
fn the_first_new_file_repeats_the_min_log_number() {
    let edit = VersionEdit::decode(&unhex(VECTORS[13].1)).unwrap();
    assert_eq!(edit.min_log_number_to_keep, Some(FileNumber(10)));
    assert_eq!(edit.kind(), EditKind::Ordinary);
}

#[test]
fn an_empty_record_is_an_edit_without_fields() {
    assert_eq!(VersionEdit::decode(b"").unwrap(), VersionEdit::default());
    assert_eq!(VersionEdit { wal_deletion: Some(FileNumber(0)), ..Default::default() }.encode().unwrap(), b"");
}

fn message_of(record: &[u8]) -> String {
    let error = VersionEdit::decode(record).unwrap_err();
    assert!(error.is_corruption(), "{error}");
    error.message().to_owned()
}

#[test]
fn unknown_tags_are_skipped_only_where_bit_13_allows() {
    // 24581 = 0x6005 has the bit; 16384 has not.
    let mut record = vec![0x85, 0xc0, 0x01, 0x02, 0xaa, 0xbb];
    record.extend(unhex("0900"));
    assert_eq!(VersionEdit::decode(&record).unwrap().prev_log_number, Some(FileNumber(0)));
    assert_eq!(message_of(&unhex("80800100")), "VersionEdit: unknown tag");
    assert_eq!(message_of(&[8, 0]), "VersionEdit: unknown tag");
    assert_eq!(message_of(&unhex("85c00105aa")), "VersionEdit: safely ignoreable tag length error");
    assert_eq!(message_of(&[0xff]), "VersionEdit: invalid tag");
}

#[test]
fn malformed_fields_are_refused_by_name() {
    let cases = [
        ("01", "VersionEdit: comparator name"),
        ("02", "VersionEdit: log number"),
        ("0a", "VersionEdit: min log number to kee"),
        ("0600", "VersionEdit: deleted file"),
        ("0700", "VersionEdit: new-file entry"),
        ("6400", "VersionEdit: new-file2 entry"),
        ("6600", "VersionEdit: new-file3 entry"),
        ("6700", "VersionEdit: new-file4 entry"),
        ("864000", "VersionEdit: full_history_ts_low: empty"),
        ("8940020101", "VersionEdit: persist_user_defined_timestamps field wrong size"),
        ("874003050301", "WalAddition: Unknown tag 3"),
        ("9003 01 02 03 00 00 40", "BlobFileAddition: Forward incompatible custom field encountered"),
        ("9103 01", "BlobFileGarbage: Error decoding garbage blob count"),
    ];
    for (record, message) in cases {
        assert_eq!(message_of(&unhex(record)), message, "{record}");
    }
}

/// A `NewFile4` with the given custom fields after its fixed part.
fn new_file_4(custom_fields: &str) -> Vec<u8> {
    let mut record = unhex("670009f707 096101 02000000000000 096d01 02000000000000 0202");
    record.extend(unhex(custom_fields));
    record
}

#[test]
fn custom_fields_are_checked_and_unknown_ones_skipped_only_where_allowed() {
    assert!(VersionEdit::decode(&new_file_4("01")).is_ok());
    assert!(VersionEdit::decode(&new_file_4("800102aabb01")).is_ok(), "128 may be skipped");
    assert!(VersionEdit::decode(&new_file_4("090111 01")).is_ok(), "unknown temperatures are ignored");
    let cases = [
        ("", "VersionEdit: new-file4 custom field"),
        ("05", "VersionEdit: new-file4 custom field length prefixed slice error"),
        ("4000 01", "VersionEdit: new-file4 custom field not supported"),
        ("c00100 01", "VersionEdit: new-file4 custom field not supported"),
        ("410104 01", "VersionEdit: path_id wrong vaue"),
        ("41020000 01", "VersionEdit: path_id field wrong size"),
        ("02020101 01", "VersionEdit: need_compaction field wrong size"),
        ("0301aa 01", "VersionEdit: deleted log number malformatted"),
        ("0501ff 01", "VersionEdit: invalid oldest ancester time"),
        ("0c01aa 01", "VersionEdit: invalid unique id"),
        ("0d00 01", "VersionEdit: invalid epoch number"),
        ("0f00 01", "VersionEdit: invalid tail start offset"),
        ("1000 01", "VersionEdit: user-defined timestamps persisted field wrong size"),
    ];
    for (fields, message) in cases {
        assert_eq!(message_of(&new_file_4(fields)), message, "{fields}");
    }
}

#[test]
fn boundaries_must_be_internal_keys() {
    // Type 0x1a is a bound that some writers leave; 0x19 is none.
    for (value_type, accepted) in [("18", true), ("1a", true), ("19", false), ("03", false)] {
        let record = unhex(&format!("670009f707 0961{value_type}02000000000000 096d01 02000000000000 0202 01"));
        assert_eq!(VersionEdit::decode(&record).is_ok(), accepted, "{value_type}");
    }
    assert_eq!(message_of(&unhex("6700090107aabbccddeeff00")), "VersionEdit: new-file4 entry");
}

#[test]
fn older_new_file_records_are_read() {
    let leveldb = VersionEdit::decode(&unhex("07 02 09 f707 096101 02000000000000 096d01 02000000000000")).unwrap();
    let (level, file) = &leveldb.new_files[0];
    assert_eq!((*level, file.number.0, file.file_size), (2, 9, 1015));
    assert_eq!((file.smallest_sequence, file.largest_sequence), (SequenceNumber::MAX, SequenceNumber::ZERO));
    let two = VersionEdit::decode(&unhex("64 02 09 f707 096101 02000000000000 096d01 02000000000000 01 02")).unwrap();
    assert_eq!(two.new_files[0].1.largest_sequence, SequenceNumber(2));
    let three =
        VersionEdit::decode(&unhex("66 02 09 03 f707 096101 02000000000000 096d01 02000000000000 01 02")).unwrap();
    assert_eq!(three.new_files[0].1.path_id, 3);
}

#[test]
fn deprecated_tags_without_a_length_are_read() {
    let edit =
        VersionEdit::decode(&unhex("8240 07 01 02 00 00 00  8340 07 01 01 00  8440 05 02 0a 01  8540 04")).unwrap();
    assert_eq!(edit.blob_file_additions[0].number, FileNumber(7));
    assert_eq!(edit.blob_file_garbages[0].garbage_blob_bytes, 1);
    assert_eq!(edit.wal_additions[0], WalAddition { number: FileNumber(5), synced_size_bytes: Some(10) });
    assert_eq!(edit.wal_deletion, Some(FileNumber(4)));
}

#[test]
fn files_that_readers_would_refuse_are_not_written() {
    let mut edit = VersionEdit::default();
    edit.add_file(0, NewFile { epoch_number: 1, ..NewFile::default() });
    assert!(edit.encode().unwrap_err().message().starts_with("Unable to encode VersionEdit"));
    let key = InternalKey::new(b"k", SequenceNumber(1), ValueType::Value);
    edit.new_files[0].1 = NewFile { smallest: key.clone(), largest: key, ..NewFile::default() };
    assert!(edit.encode().is_err(), "no epoch number");
    assert!(edit.encode_as(EditDialect::WithoutEpochs).is_ok());
}

fn key() -> impl Strategy<Value = InternalKey> {
    let types = prop_oneof![Just(ValueType::Value), Just(ValueType::Deletion), Just(ValueType::RangeDeletion)];
    (prop::collection::vec(any::<u8>(), 0..12), 0..=SequenceNumber::MAX.0, types)
        .prop_map(|(user_key, sequence, value_type)| InternalKey::new(&user_key, SequenceNumber(sequence), value_type))
}

prop_compose! {
    fn new_file()(
        numbers in any::<[u64; 9]>(),
        keys in (key(), key()),
        small in (0u32..4, any::<bool>(), 0u8..0x11, any::<bool>()),
        texts in ("[a-zA-Z]{0,8}", any::<[u64; 2]>()),
        bytes in prop::array::uniform4(prop::collection::vec(any::<u8>(), 0..10)),
    ) -> NewFile {
        let [file_checksum, min_timestamp, max_timestamp, file_open_metadata] = bytes;
        NewFile {
            number: FileNumber(numbers[0]),
            path_id: small.0,
            file_size: numbers[1],
            smallest: keys.0,
            largest: keys.1,
            smallest_sequence: SequenceNumber(numbers[2]),
            largest_sequence: SequenceNumber(numbers[3]),
            marked_for_compaction: small.1,
            temperature: Temperature(small.2),
            oldest_blob_file_number: FileNumber(numbers[4]),
            oldest_ancester_time: numbers[5],
            file_creation_time: numbers[6],
            file_checksum,
            file_checksum_func_name: texts.0,
            unique_id: texts.1,
            epoch_number: numbers[7].max(1),
            compensated_range_deletion_size: numbers[8],
            tail_size: numbers[8] / 2,
            user_defined_timestamps_persisted: small.3,
            min_timestamp,
            max_timestamp,
            file_open_metadata,
        }
    }
}

prop_compose! {
    fn edit()(
        texts in prop::array::uniform3(prop::option::of("[a-z]{0,12}")),
        numbers in prop::array::uniform6(prop::option::of(any::<u64>())),
        small in (prop::option::of(any::<u32>()), prop::option::of(any::<u32>()), any::<u32>(), any::<bool>()),
        cursors in prop::collection::vec((any::<u32>(), key()), 0..3),
        deleted in prop::collection::btree_set((any::<u32>(), any::<u64>().prop_map(FileNumber)), 0..5),
        files in prop::collection::vec((any::<u32>(), new_file()), 0..4),
        blobs in prop::collection::vec((any::<[u64; 3]>(), "[a-z]{0,4}", any::<[u8; 4]>()), 0..3),
        wals in prop::collection::vec((any::<u64>(), prop::option::of(any::<u64>())), 0..3),
        late in (prop::option::of(prop::collection::vec(any::<u8>(), 1..9)), prop::option::of(any::<bool>())),
        progress in prop::option::of((key(), any::<[u64; 2]>(), prop::collection::vec(new_file(), 0..3))),
    ) -> VersionEdit {
        let number = |at: usize| numbers[at].map(FileNumber);
        VersionEdit {
            db_id: texts[0].clone(),
            comparator: texts[1].clone(),
            column_family_add: texts[2].clone(),
            log_number: number(0),
            prev_log_number: number(1),
            next_file_number: number(2),
            min_log_number_to_keep: number(3),
            last_sequence: numbers[4].map(SequenceNumber),
            last_compacted_manifest_file_size: numbers[5],
            max_column_family: small.0,
            remaining_entries: small.1,
            column_family: small.2,
            column_family_drop: small.3,
            compact_cursors: cursors,
            deleted_files: deleted,
            new_files: files,
            blob_file_garbages: blobs
                .iter()
                .map(|([a, b, c], _, _)| BlobFileGarbage {
                    number: FileNumber(*a),
                    garbage_blob_count: *b,
                    garbage_blob_bytes: *c,
                })
                .collect(),
            blob_file_additions: blobs
                .into_iter()
                .map(|([number, total_blob_count, total_blob_bytes], checksum_method, value)| BlobFileAddition {
                    number: FileNumber(number),
                    total_blob_count,
                    total_blob_bytes,
                    checksum_method,
                    checksum_value: value.to_vec(),
                })
                .collect(),
            wal_additions: wals
                .iter()
                .map(|(number, size)| WalAddition { number: FileNumber(*number), synced_size_bytes: *size })
                .collect(),
            wal_deletion: wals.first().map(|(number, _)| FileNumber((*number).max(1))),
            full_history_ts_low: late.0,
            persist_user_defined_timestamps: late.1,
            subcompaction_progress: progress.map(|(key, records, files)| SubcompactionProgress {
                next_internal_key_to_compact: key.encoded().to_vec(),
                processed_input_records: records[0],
                output_level: SubcompactionProgressPerLevel {
                    processed_output_records: records[1],
                    output_files: files.clone(),
                },
                proximal_output_level: SubcompactionProgressPerLevel {
                    processed_output_records: 0,
                    output_files: files,
                },
            }),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_edit_survives_a_round_trip(edit in edit()) {
        let record = edit.encode_as(EditDialect::WithChecksums).unwrap();
        let decoded = VersionEdit::decode(&record).unwrap();
        let mut expected = edit;
        if !expected.new_files.is_empty() && expected.min_log_number_to_keep.is_none() {
            prop_assert_eq!(decoded.min_log_number_to_keep, None);
        }
        // Zero is the default of this field and cannot be told from absence.
        expected.wal_deletion = expected.wal_deletion.filter(|number| number.0 != 0);
        prop_assert_eq!(decoded, expected);
    }

    #[test]
    fn damaged_records_are_refused_or_read_without_panic(
        at in any::<prop::sample::Index>(), flip in 1u8.., vector in any::<prop::sample::Index>(),
    ) {
        let mut record = unhex(vector.get(VECTORS).1);
        let at = at.index(record.len());
        record[at] ^= flip;
        let _ = VersionEdit::decode(&record);
        record.truncate(at);
        let _ = VersionEdit::decode(&record);
    }
}
