//! Decoders of small things: numbers, keys, footers, properties, filters, compressed payloads, ids, edits and batches.

use firn_error::ErrorKind;
use firn_format::batch::{self, BatchIter, Record};
use firn_format::comparator::{BytewiseComparator, Comparator, InternalKeyComparator, ReverseBytewiseComparator};
use firn_format::compression::{CompressionType, DecompressionDictionary, SizeFormat, decompress_to_vec};
use firn_format::filter::{FilterKey, FilterReader};
use firn_format::footer::Footer;
use firn_format::index::{BlockHandle, IndexShortening, separator};
use firn_format::key::{InternalKey, SequenceNumber, ValueType, parse_internal_key};
use firn_format::log::{LogCompression, PredecessorInfo, decode_timestamp_sizes, encode_timestamp_sizes};
use firn_format::properties::{CompressionUse, TableProperties, find_value_range, names};
use firn_format::seqno_time::SeqnoToTimeMapping;
use firn_format::unique_id::{self, CacheKeyBase, InternalUniqueId};
use firn_format::varint::*;
use firn_format::version_edit::{EditDialect, VersionEdit};
use firndb::write::WriteBatch;
use std::cmp::Ordering;
use std::fmt::Debug;

use crate::input::{flags, pieces};

/// Decodes, encodes what came out, and decodes that: the same must come out again.
fn survives<T: PartialEq + Debug>(
    data: &[u8],
    decode: impl Fn(&mut &[u8]) -> firn_error::Result<T>,
    encode: impl Fn(&mut Vec<u8>, &T),
) {
    let mut rest = data;
    let Ok(value) = decode(&mut rest) else { return };
    assert!(data.ends_with(rest), "a decoder must take bytes off the front");
    let mut encoded = Vec::new();
    encode(&mut encoded, &value);
    assert!(encoded.len() <= data.len() - rest.len(), "the encoder's form must be the shortest");
    let mut encoded = encoded.as_slice();
    assert_eq!(decode(&mut encoded).unwrap(), value);
    assert!(encoded.is_empty());
}

/// Fixed and variable-length numbers, length-prefixed bytes, block handles, and what log records of other kinds hold.
pub fn varint(data: &[u8]) {
    survives(data, get_fixed16, |out, value| put_fixed16(out, *value));
    survives(data, get_fixed32, |out, value| put_fixed32(out, *value));
    survives(data, get_fixed64, |out, value| put_fixed64(out, *value));
    survives(data, get_varint32, |out, value| put_varint32(out, *value));
    survives(data, get_varint64, |out, value| put_varint64(out, *value));
    survives(data, get_varsigned64, |out, value| put_varsigned64(out, *value));
    survives(data, BlockHandle::decode_from, |out, handle| handle.encode_to(out));
    survives(
        data,
        |input| get_length_prefixed(input).map(<[u8]>::to_vec),
        |out, value| put_length_prefixed(out, value),
    );
    if let Ok(value) = get_varint64(&mut { data }) {
        let (encoded, length) = encode_varint64(value);
        let mut expected = Vec::new();
        put_varint64(&mut expected, value);
        assert_eq!(encoded[..length], expected);
        assert_eq!(varint_length(value), length);
    }
    if let Ok(sizes) = decode_timestamp_sizes(data) {
        assert_eq!(decode_timestamp_sizes(&encode_timestamp_sizes(&sizes)).unwrap(), sizes);
    }
    if let Ok(info) = PredecessorInfo::decode(data) {
        assert_eq!(PredecessorInfo::decode(&info.encode()).unwrap(), info);
    }
    if let Ok(compression) = LogCompression::decode(data) {
        assert_eq!(LogCompression::decode(&compression.encode()).unwrap(), compression);
    }
}

/// Internal keys, the orders of keys, and the keys between keys that indexes hold.
pub fn keys(data: &[u8]) {
    let (flags, data) = flags(data);
    let user: std::sync::Arc<dyn Comparator> = if flags & 1 == 0 {
        std::sync::Arc::new(BytewiseComparator)
    } else {
        std::sync::Arc::new(ReverseBytewiseComparator)
    };
    let order = InternalKeyComparator::new(user.clone());
    let mut parsed = Vec::new();
    for piece in pieces(data).take(8) {
        if let Ok(key) = parse_internal_key(piece) {
            let again = InternalKey::new(key.user_key, key.sequence, key.value_type);
            assert_eq!(again.encoded(), piece);
            parsed.push(piece);
        }
        let _ =
            InternalKey::from_encoded(piece).map(|key| (key.user_key().len(), key.sequence(), key.is_range_sentinel()));
        let mut successor = piece.to_vec();
        user.find_short_successor(&mut successor);
        assert_ne!(user.compare(&successor, piece), Ordering::Less, "a successor comes no earlier");
    }
    parsed.sort_by(|a, b| order.compare(a, b));
    for pair in parsed.windows(2) {
        let (last, next) = (pair[0], pair[1]);
        assert_eq!(order.compare(next, last), order.compare(last, next).reverse());
        if order.compare(last, next) != Ordering::Less {
            continue;
        }
        for shortening in [
            IndexShortening::NoShortening,
            IndexShortening::ShortenSeparators,
            IndexShortening::ShortenSeparatorsAndSuccessor,
        ] {
            let key = separator(&order, shortening, last, Some(next));
            assert_ne!(order.compare(&key, last), Ordering::Less, "{shortening:?}");
            assert_eq!(order.compare(&key, next), Ordering::Less, "{shortening:?}");
            let key = separator(&order, shortening, last, None);
            assert_ne!(order.compare(&key, last), Ordering::Less, "{shortening:?}");
        }
    }
}

/// Footers: the first eight bytes are the size of the file.
pub fn footer(data: &[u8]) {
    let mut tail = data;
    let Ok(size) = get_fixed64(&mut tail) else { return };
    for size in [size, tail.len() as u64, tail.len() as u64 + (size & 0xffff)] {
        let Ok(footer) = Footer::decode(tail, size) else { continue };
        let length = if footer.format_version == 0 { 48 } else { 53 };
        let Ok(encoded) = footer.encode(size - length) else { continue };
        assert_eq!(Footer::decode(&encoded, size).unwrap(), footer);
    }
}

/// Properties blocks.
pub fn properties(data: &[u8]) {
    let _ = find_value_range(data, names::EXTERNAL_SST_FILE_GLOBAL_SEQNO);
    if let Ok(text) = std::str::from_utf8(data) {
        for version in [2, 7] {
            let _ = CompressionUse::parse(text, version).map(|allowed| allowed.allows(7));
        }
    }
    let Ok(properties) = TableProperties::decode(data) else { return };
    let _ = properties.global_sequence(Some(7));
    let _ = properties.global_sequence(None);
    let _ = (properties.index_type(), properties.has_whole_key_filtering(), properties.has_prefix_filtering());
    let _ = SeqnoToTimeMapping::decode(&properties.seqno_to_time_mapping);
    let encoded = properties.encode();
    assert_eq!(TableProperties::decode(&encoded).unwrap(), properties);
    assert_eq!(
        find_value_range(&encoded, "rocksdb.data.size").unwrap().map(|range| encoded[range].is_empty()),
        Some(false)
    );
}

/// Filter contents of all kinds.
pub fn filter(data: &[u8]) {
    let reader = FilterReader::new(data);
    let asked: Vec<&[u8]> =
        [b"".as_slice(), b"a", b"key00042", data].into_iter().chain(data.chunks(9).take(4)).collect();
    let asked: Vec<FilterKey<'_>> = asked.into_iter().map(FilterKey::new).collect();
    let mut answers = vec![false; asked.len()];
    reader.may_match_batch(&asked, &mut answers);
    for (key, answer) in asked.iter().zip(answers) {
        assert_eq!(reader.may_match(key), answer);
        assert!(reader.prepare(key).is_none_or(|offset| offset <= data.len()));
    }
}

/// Compressed payloads of all types, with and without a dictionary.
pub fn decompress(data: &[u8]) {
    const LIMIT: usize = 1 << 20;
    let Some((&[kind, flags, dictionary_bytes], data)) = data.split_first_chunk() else { return };
    let Ok(kind) = CompressionType::from_u8(kind) else { return };
    let format = if flags & 1 == 0 { SizeFormat::V2 } else { SizeFormat::V1 };
    let (dictionary, payload) = data.split_at(usize::from(dictionary_bytes).min(data.len()));
    let dictionary = DecompressionDictionary::new(dictionary.to_vec()).ok();
    match decompress_to_vec(kind, format, dictionary.as_ref(), payload, LIMIT) {
        Ok(raw) => assert!(raw.len() <= LIMIT),
        Err(error) => assert!(matches!(error.kind(), ErrorKind::Corruption | ErrorKind::NotSupported), "{error}"),
    }
}

/// Mappings of sequence numbers to times.
pub fn seqno_time(data: &[u8]) {
    let Ok(map) = SeqnoToTimeMapping::decode(data) else { return };
    assert_eq!(SeqnoToTimeMapping::decode(&map.encode()).unwrap().pairs(), map.pairs());
    for &(sequence, time) in map.pairs().iter().take(16) {
        let _ = map.time_before_sequence(sequence);
        let _ = map.sequence_at_time(time);
        let _ = map.range(sequence, SequenceNumber::MAX, 3);
    }
}

/// Ids of sessions and of files.
pub fn unique_id(data: &[u8]) {
    if let Ok(id) = InternalUniqueId::decode(data) {
        let mut encoded = Vec::new();
        id.encode(&mut encoded);
        assert_eq!(encoded, data);
        let _ = (id.to_public().extended_text(), id.to_string(), CacheKeyBase::from_unique_id(&id).block_key(7));
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    // Longer texts than writers make hold more bits than are kept.
    if let Ok((high, low)) = unique_id::decode_session_id(text)
        && text.len() <= 20
    {
        assert_eq!(unique_id::decode_session_id(&unique_id::encode_session_id(high, low)).unwrap(), (high, low));
    }
    let _ = InternalUniqueId::new(text, text, data.len() as u64);
    let _ = CacheKeyBase::new(text, text, 1).block_key(u64::MAX);
}

/// Records of the MANIFEST.
pub fn version_edit(data: &[u8]) {
    let Ok(edit) = VersionEdit::decode(data) else { return };
    let _ = (edit.kind(), edit.largest_sequence_of_new_files());
    for dialect in [EditDialect::Current, EditDialect::WithChecksums, EditDialect::WithoutEpochs] {
        let Ok(encoded) = edit.encode_as(dialect) else { continue };
        let again = VersionEdit::decode(&encoded).unwrap();
        if dialect == EditDialect::Current {
            assert_eq!(again.encode().unwrap(), encoded, "{edit:#?}");
        }
    }
}

/// Write batches, as the WAL holds them and as callers hand them over.
pub fn write_batch(data: &[u8]) {
    let valid = batch::validate(data).is_ok();
    let mut read = Vec::new();
    if let Ok(records) = BatchIter::new(data) {
        let mut rebuilt = data[..batch::HEADER_SIZE].to_vec();
        for record in records {
            let Ok(record) = record else {
                assert!(!valid);
                break;
            };
            if let Record::TimedPut { packed, .. } = record {
                let _ = batch::unpack_timed_value(packed);
            }
            record.encode(&mut rebuilt);
            read.push(record);
        }
        let counted = read.iter().filter(|record| record.is_counted()).count() as u32;
        batch::set_count(&mut rebuilt, counted);
        let again: Vec<_> = BatchIter::new(&rebuilt).unwrap().map(Result::unwrap).collect();
        assert_eq!(again, read);
        assert_eq!(batch::sequence(&rebuilt), batch::sequence(data));
    }
    let Ok(mut batch) = WriteBatch::from_data(data) else { return };
    struct Ignore;
    impl firndb::write::BatchHandler for Ignore {}
    let _ = batch.iterate(&mut Ignore);
    let other = batch.clone();
    let _ = batch.append(&other);
    assert_eq!(valid, batch::validate(other.data()).is_ok());
    let _ = ValueType::from_u8(batch.count() as u8);
}
