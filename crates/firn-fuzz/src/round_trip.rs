//! What is built reads back: the input decides options and contents, a plain collection is the reference.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use arbitrary::Unstructured;
use firn_env::memory::MemoryFileSystem;
use firn_env::{FileOptions, FileSystem};
use firn_format::batch::Record;
use firn_format::block::{BlockBuilder, BlockBuilderOptions, BlockCursor, BlockView, HashLookup, Sharing};
use firn_format::checksum::ChecksumType;
use firn_format::comparator::InternalKeyComparator;
use firn_format::compression::{
    CompressionOptions, CompressionType, DecompressionDictionary, SizeFormat, compress, decompress_to_vec,
};
use firn_format::filter::{FilterContext, FilterKey, FilterPolicy, FilterReader, PolicyKind};
use firn_format::index::{BlockHandle, IndexBlockBuilder, IndexEntries, IndexFormat};
use firn_format::iterator::InternalIterator;
use firn_format::key::{InternalKey, ParsedInternalKey, SequenceNumber, ValueType, extract_user_key};
use firn_format::log::{LogCompression, LogEncoder, LogFormat, LogReader, RecoveryMode, SliceSource};
use firn_format::range_tombstone::{FragmentedRangeTombstones, RangeTombstone};
use firn_format::slice_transform::FixedPrefix;
use firn_table::options::{
    BlockBasedTableOptions, DataBlockIndexType, FlushBlockPolicy, IndexShorteningMode, IndexType,
};
use firn_table::{
    BlockCache, GetControl, GetSink, IndexBlock, TableBuilder, TableBuilderOptions, TableReadOptions, TableReader,
    TableReaderOptions, ValueRef, cache::CacheOptions,
};
use firndb::write::WriteBatch;

use crate::input::{bytes, choice, number, rarely};

/// Operations that one input makes.
const MOST_STEPS: usize = 200;
/// Entries of a block or table: checks of each walk over its neighbours.
const MOST_ENTRIES: usize = 60;
/// Bytes of a log after which no further record is added: two blocks, and whatever the last one takes.
const LOG_BYTES: usize = 2 * 32_768;
/// Bytes that are compressed at once.
const MOST_RAW_BYTES: usize = 2048;
/// User keys and their versions, sequence number and value, oldest first.
type Contents = BTreeMap<Vec<u8>, Vec<(u64, Vec<u8>)>>;
/// Where tables are built.
const TABLE: &str = "/table.sst";

fn pick<T: Copy>(input: &mut Unstructured<'_>, from: &[T]) -> T {
    from[number(input, from.len() - 1)]
}

/// A value: some bytes of the input, perhaps repeated.
fn value(input: &mut Unstructured<'_>) -> Vec<u8> {
    let piece = bytes(input, 12).to_vec();
    let times = if choice(input) { 1 } else { number(input, 24) };
    piece.repeat(times)
}

/// Batches: the same list of records comes back, also after going back to save points.
pub fn batch_round_trip(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let mut batch = WriteBatch::new();
    let mut expected: Vec<(u8, u32, Vec<u8>, Vec<u8>)> = Vec::new();
    let mut save_points = Vec::new();
    for _ in 0..MOST_STEPS {
        if input.is_empty() {
            break;
        }
        let (kind, cf) = (number(&mut input, 9) as u8, pick(&mut input, &[0, 0, 1, 200, u32::MAX]));
        let (key, value) = (bytes(&mut input, 20).to_vec(), value(&mut input));
        match kind {
            0 => batch.put_cf(cf, &key, &value).unwrap(),
            1 => batch.delete_cf(cf, &key).unwrap(),
            2 => batch.single_delete_cf(cf, &key).unwrap(),
            3 => batch.delete_range_cf(cf, &key, &value).unwrap(),
            4 => batch.merge_cf(cf, &key, &value).unwrap(),
            5 => batch.put_log_data(&value).unwrap(),
            6 => {
                batch.set_save_point();
                save_points.push(expected.len());
                continue;
            }
            7 => {
                assert_eq!(batch.rollback_to_save_point().is_ok(), !save_points.is_empty());
                expected.truncate(save_points.pop().unwrap_or(expected.len()));
                continue;
            }
            8 => {
                assert_eq!(batch.pop_save_point().is_ok(), save_points.pop().is_some());
                continue;
            }
            _ => {
                if expected.len() < 50 {
                    let copy = batch.clone();
                    batch.append(&copy).unwrap();
                    expected.extend_from_within(..);
                }
                continue;
            }
        }
        let value = if matches!(kind, 1 | 2) { Vec::new() } else { value };
        expected.push(if kind == 5 { (5, 0, Vec::new(), value) } else { (kind, cf, key, value) });
    }
    let copy = WriteBatch::from_data(batch.data()).unwrap();
    assert_eq!(copy.count() as usize, expected.iter().filter(|(kind, ..)| *kind != 5).count());
    let read: Vec<_> = copy
        .records()
        .map(|record| match record.unwrap() {
            Record::Put { cf, key, value } => (0, cf, key.to_vec(), value.to_vec()),
            Record::Delete { cf, key } => (1, cf, key.to_vec(), Vec::new()),
            Record::SingleDelete { cf, key } => (2, cf, key.to_vec(), Vec::new()),
            Record::DeleteRange { cf, begin, end } => (3, cf, begin.to_vec(), end.to_vec()),
            Record::Merge { cf, key, value } => (4, cf, key.to_vec(), value.to_vec()),
            Record::LogData(blob) => (5, 0, Vec::new(), blob.to_vec()),
            other => panic!("{other:?} was never added"),
        })
        .collect();
    assert_eq!(read, expected);
}

fn internal_entries(input: &mut Unstructured<'_>) -> Contents {
    let mut entries = Contents::new();
    let mut key = Vec::new();
    for sequence in 1..=MOST_ENTRIES as u64 {
        if input.is_empty() {
            break;
        }
        // Keys share prefixes with those before.
        key.truncate(number(input, 10));
        key.extend_from_slice(bytes(input, 10));
        entries.entry(key.clone()).or_default().push((sequence, value(input)));
    }
    entries
}

/// The entries in the order of a table: user keys ascending, their versions newest first.
fn in_order(entries: &Contents) -> Vec<(Vec<u8>, Vec<u8>)> {
    entries
        .iter()
        .flat_map(|(key, versions)| {
            versions.iter().rev().map(|(sequence, value)| {
                let key = InternalKey::new(key, SequenceNumber(*sequence), ValueType::Value);
                (key.encoded().to_vec(), value.clone())
            })
        })
        .collect()
}

/// Data blocks in every layout.
pub fn block_round_trip(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let options = BlockBuilderOptions {
        restart_interval: pick(&mut input, &[1, 2, 3, 16, 1000]),
        use_delta_encoding: choice(&mut input),
        use_value_delta_encoding: false,
        separate_values: choice(&mut input),
        hash_index_util_ratio: choice(&mut input).then_some(0.75),
    };
    let order = InternalKeyComparator::default();
    let entries = in_order(&internal_entries(&mut input));
    let mut builder = BlockBuilder::new(&options);
    for (key, value) in &entries {
        let estimate = builder.estimate_after(key.len(), value.len());
        builder.add(key, value);
        assert!(options.hash_index_util_ratio.is_some() || builder.current_size() <= estimate);
    }
    let estimate = builder.current_size();
    let payload = builder.finish().to_vec();
    assert!(payload.len() <= estimate, "{} bytes, estimated {estimate}", payload.len());
    let view = BlockView::parse(&payload).unwrap();
    let mut cursor = BlockCursor::new();
    let mut there = cursor.seek_to_first(view).unwrap();
    for (key, value) in &entries {
        assert!(there);
        assert_eq!((cursor.key(), cursor.value(view)), (key.as_slice(), value.as_slice()));
        there = cursor.next(view).unwrap();
    }
    assert!(!there);
    let mut there = cursor.seek_to_last(view).unwrap();
    for (key, value) in entries.iter().rev() {
        assert!(there);
        assert_eq!((cursor.key(), cursor.value(view)), (key.as_slice(), value.as_slice()));
        there = cursor.prev(view).unwrap();
    }
    assert!(!there);
    for (at, (key, _)) in entries.iter().enumerate() {
        assert!(cursor.seek(view, |other| order.compare(other, key)).unwrap());
        assert_eq!(cursor.key(), key);
        assert_eq!(cursor.prev(view).unwrap(), at > 0);
        assert!(cursor.seek_for_prev(view, |other| order.compare(other, key)).unwrap());
        assert_eq!(cursor.key(), key);
        assert_eq!(cursor.next(view).unwrap(), at + 1 < entries.len());
        match view.hash_lookup(extract_user_key(key)) {
            HashLookup::Absent => panic!("the hash index denies {}", key.escape_ascii()),
            HashLookup::Restart(restart) => {
                assert!(cursor.seek_from_restart(view, restart, |other| order.compare(other, key)).unwrap());
                assert_eq!(cursor.key(), key);
            }
            HashLookup::Collision => {}
        }
    }
}

/// Index blocks in every format.
pub fn index_round_trip(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let format = IndexFormat {
        key_is_user_key: choice(&mut input),
        value_is_delta_encoded: choice(&mut input),
        has_first_key: choice(&mut input),
    };
    let restart_interval = pick(&mut input, &[1, 1, 2, 16]);
    let keys: BTreeSet<Vec<u8>> = internal_entries(&mut input).into_keys().collect();
    let mut builder = IndexBlockBuilder::new(format, restart_interval);
    let mut offset = 0;
    let mut expected = Vec::new();
    for key in &keys {
        let internal = InternalKey::new(key, SequenceNumber(key.len() as u64 + 1), ValueType::Value);
        // An entry whose block does not start where the one before ended must say so.
        let sharing = if choice(&mut input) {
            offset += 7;
            Sharing::Forbidden
        } else {
            Sharing::Allowed
        };
        let handle = BlockHandle { offset, size: number(&mut input, 70_000) as u64 };
        offset = handle.checked_end().unwrap();
        builder.add(internal.encoded(), handle, internal.encoded(), sharing);
        let stored = if format.key_is_user_key { key.clone() } else { internal.encoded().to_vec() };
        expected.push((stored, handle, internal.encoded().to_vec()));
    }
    let payload = builder.finish().to_vec();
    let mut entries = IndexEntries::new(&payload, format).unwrap();
    let block = IndexBlock::decode(&payload, format, &InternalKeyComparator::default()).unwrap();
    assert_eq!(block.len(), expected.len());
    for (at, (key, handle, first_key)) in expected.iter().enumerate() {
        assert!(entries.advance().unwrap());
        assert_eq!((entries.key(), entries.handle()), (key.as_slice(), *handle));
        assert_eq!((block.key(at), block.handle(at)), (key.as_slice(), Some(*handle)));
        if format.has_first_key {
            assert_eq!(entries.first_key(), first_key);
            assert_eq!(block.first_key(at), Some(first_key.as_slice()));
        }
        // The separator was made from this very key, so a search for the newest version of it ends here.
        let newest = InternalKey::for_seek(extract_user_key(first_key), SequenceNumber::MAX);
        assert_eq!(block.lower_bound(newest.encoded()), at);
        assert_eq!(block.lower_bound(first_key), at);
    }
    assert!(!entries.advance().unwrap());
}

struct Versions(Vec<(u64, Vec<u8>)>);

impl GetSink for Versions {
    fn accept(&mut self, key: ParsedInternalKey<'_>, value: ValueRef<'_>) -> GetControl {
        self.0.push((key.sequence.get(), value.to_vec()));
        GetControl::Continue
    }
}

fn table_options(input: &mut Unstructured<'_>) -> TableBuilderOptions {
    let policies = [None, Some(PolicyKind::Bloom), Some(PolicyKind::Standard128Ribbon), Some(PolicyKind::LegacyBloom)];
    let table = BlockBasedTableOptions {
        format_version: pick(input, &[2, 3, 4, 5, 6, 7]),
        checksum: pick(input, &ChecksumType::ALL),
        block_size: pick(input, &[1, 64, 300, 4096]),
        block_restart_interval: pick(input, &[1, 2, 16]),
        index_block_restart_interval: pick(input, &[1, 4]),
        metadata_block_size: pick(input, &[64, 300, 4096]),
        index_type: pick(
            input,
            &[
                IndexType::BinarySearch,
                IndexType::HashSearch,
                IndexType::TwoLevelIndexSearch,
                IndexType::BinarySearchWithFirstKey,
            ],
        ),
        partition_filters: choice(input),
        filter_policy: pick(input, &policies).map(|kind| FilterPolicy::new(kind, 10.0)),
        whole_key_filtering: choice(input),
        optimize_filters_for_memory: choice(input),
        data_block_index_type: pick(input, &[DataBlockIndexType::BinarySearch, DataBlockIndexType::BinaryAndHash]),
        separate_key_value_in_data_block: choice(input),
        index_shortening: pick(
            input,
            &[
                IndexShorteningMode::NoShortening,
                IndexShorteningMode::ShortenSeparators,
                IndexShorteningMode::ShortenSeparatorsAndSuccessor,
            ],
        ),
        flush_block_policy_factory: pick(input, &[FlushBlockPolicy::BySize, FlushBlockPolicy::EveryKey]),
        use_delta_encoding: choice(input),
        enable_index_compression: choice(input),
        verify_compression: true,
        ..Default::default()
    };
    let mut options = TableBuilderOptions {
        table,
        compression: pick(
            input,
            &[CompressionType::None, CompressionType::Snappy, CompressionType::Lz4, CompressionType::Zstd],
        ),
        db_id: "db".into(),
        db_session_id: "ABCDEFGHIJKLMNOPQRST".into(),
        original_file_number: 7,
        column_family_name: "default".into(),
        prefix_extractor: choice(input).then(|| Arc::new(FixedPrefix::new(3)) as _),
        ..Default::default()
    };
    options.compression_options.max_dict_bytes = pick(input, &[0, 0, 512]);
    options.target_file_size = pick(input, &[0, 2000]);
    options
}

/// The table that `input` asks for, its contents and how to open it; `None` where the options contradict each other.
fn build(input: &mut Unstructured<'_>) -> Option<(MemoryFileSystem, Contents, TableReaderOptions)> {
    let options = table_options(input);
    let reader_options = TableReaderOptions {
        table: BlockBasedTableOptions { cache_index_and_filter_blocks: choice(input), ..options.table.clone() },
        block_cache: Some(Arc::new(BlockCache::new(&CacheOptions::new(1 << 20)))),
        prefix_extractor: options.prefix_extractor.clone(),
        ..Default::default()
    };
    let entries = internal_entries(input);
    let fs = MemoryFileSystem::new();
    let file = fs.new_writable_file(Path::new(TABLE), &FileOptions::default()).unwrap();
    let mut builder = TableBuilder::new(options, file).ok()?;
    for (key, value) in in_order(&entries) {
        builder.add(&key, &value).unwrap();
    }
    let tombstone = InternalKey::new(b"from", SequenceNumber(3), ValueType::RangeDeletion);
    builder.add(tombstone.encoded(), b"to").unwrap();
    builder.finish().unwrap();
    Some((fs, entries, reader_options))
}

/// The bytes of the table that `data` asks for.
pub fn table_bytes(data: &[u8]) -> Option<Vec<u8>> {
    let (fs, ..) = build(&mut Unstructured::new(data))?;
    firn_env::read_file(&fs, Path::new(TABLE), 1 << 20).ok()
}

/// Tables under any options: scans both ways, seeks and lookups give what was added.
pub fn table_round_trip(data: &[u8]) {
    let Some((fs, entries, options)) = build(&mut Unstructured::new(data)) else { return };
    let ordered = in_order(&entries);
    let path = Path::new(TABLE);
    let file = fs.new_random_access_file(path, &FileOptions::default()).unwrap();
    let size = file.size().unwrap();
    let table = Arc::new(TableReader::open(file, size, options).unwrap());
    assert_eq!(table.properties().num_entries, ordered.len() as u64 + 1);
    let options = TableReadOptions { total_order_seek: true, ..Default::default() };
    let mut iterator = table.iter(&options);
    iterator.seek_to_first();
    for (key, value) in &ordered {
        assert!(iterator.valid(), "{:?}", iterator.status());
        assert_eq!((iterator.key(), iterator.value()), (key.as_slice(), value.as_slice()));
        iterator.next();
    }
    assert!(!iterator.valid());
    iterator.seek_to_last();
    for (key, value) in ordered.iter().rev() {
        assert!(iterator.valid(), "{:?}", iterator.status());
        assert_eq!((iterator.key(), iterator.value()), (key.as_slice(), value.as_slice()));
        iterator.prev();
    }
    assert!(!iterator.valid());
    for (key, versions) in &entries {
        let lookup = InternalKey::for_seek(key, SequenceNumber::MAX);
        let mut found = Versions(Vec::new());
        table.get(&options, lookup.encoded(), &mut found).unwrap();
        found.0.reverse();
        assert_eq!(&found.0, versions);
        iterator.seek(lookup.encoded());
        assert_eq!(extract_user_key(iterator.key()), key.as_slice());
        let mut absent = key.clone();
        absent.push(0);
        if !entries.contains_key(&absent) {
            let mut found = Versions(Vec::new());
            let lookup = InternalKey::for_seek(&absent, SequenceNumber::MAX);
            table.get(&options, lookup.encoded(), &mut found).unwrap();
            assert!(found.0.is_empty());
        }
    }
    iterator.status().unwrap();
    table.verify_checksums(&options).unwrap();
    assert_eq!(table.range_tombstones().len(), 1);
}

/// Logs of every kind: all records come back, and of a log that is cut anywhere a prefix does.
pub fn log_round_trip(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let format = LogFormat {
        log_number: 7,
        recyclable: choice(&mut input),
        compression: if rarely(data, 16) { LogCompression::Zstd } else { LogCompression::None },
    };
    let cut = input.arbitrary::<u32>().unwrap_or_default() as usize;
    let mut encoder = LogEncoder::new(format).unwrap();
    let (mut log, mut records) = (Vec::new(), Vec::new());
    encoder.start(&mut log);
    while !input.is_empty() && records.len() < MOST_STEPS && log.len() < LOG_BYTES {
        // Lengths around those that fill a block are the interesting ones.
        let length = match number(&mut input, 3) {
            0 => number(&mut input, 200),
            1 => number(&mut input, 34_000),
            2 => (32_768 - log.len() % 32_768 + number(&mut input, 40)).saturating_sub(20),
            _ => 0,
        };
        let filler = input.arbitrary::<u8>().unwrap_or_default();
        let mut record = vec![filler; length];
        record.iter_mut().step_by(509).enumerate().for_each(|(at, byte)| *byte ^= at as u8);
        encoder.append_record(&mut log, &record).unwrap();
        assert_eq!(encoder.position(), log.len() as u64);
        records.push((record, log.len()));
    }
    let read = |bytes: &[u8]| {
        let mut reader = LogReader::new(SliceSource(bytes), 7, RecoveryMode::PointInTime);
        let mut read = Vec::new();
        while reader.advance().unwrap() {
            read.push(reader.record().to_vec());
        }
        (read, reader.take_report())
    };
    let (all, report) = read(&log);
    assert!(report.is_none(), "{report:?}");
    assert!(all.iter().eq(records.iter().map(|(record, _)| record)));
    let cut = cut % (log.len() + 1);
    let (some, _) = read(&log[..cut]);
    let whole = records.iter().take_while(|(_, end)| *end <= cut).map(|(record, _)| record);
    assert!(some.iter().eq(whole), "cut at {cut}");
}

/// Filters of all kinds: no key that was added is denied.
pub fn filter_round_trip(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let kind = pick(&mut input, &[PolicyKind::Bloom, PolicyKind::LegacyBloom, PolicyKind::Standard128Ribbon]);
    let bits = number(&mut input, 400) as f64 / 10.0;
    let context = FilterContext { optimize_filters_for_memory: choice(&mut input), ..FilterContext::default() };
    let Some(mut builder) = FilterPolicy::new(kind, bits).builder(&context) else { return };
    builder.set_detect_corruption(choice(&mut input));
    let many = number(&mut input, 3000);
    let mut keys: BTreeSet<Vec<u8>> = BTreeSet::new();
    while !input.is_empty() && keys.len() < MOST_STEPS {
        keys.insert(bytes(&mut input, 16).to_vec());
    }
    if rarely(data, 16) {
        keys.extend((0..many).map(|n| format!("key{n:07}").into_bytes()));
    }
    for key in &keys {
        builder.add(key);
    }
    let content = builder.finish().unwrap();
    let reader = FilterReader::new(&content);
    for key in &keys {
        assert!(reader.may_match(&FilterKey::new(key)), "{kind:?} at {bits} bits denies {}", key.escape_ascii());
    }
}

/// Compression of all types, with and without a dictionary.
pub fn compression_round_trip(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let quick = [
        CompressionType::Snappy,
        CompressionType::Zlib,
        CompressionType::Lz4,
        CompressionType::Lz4hc,
        CompressionType::Zstd,
    ];
    let quick = pick(&mut input, &quick);
    let kind = if rarely(data, 16) { CompressionType::Bzip2 } else { quick };
    let format = if choice(&mut input) { SizeFormat::V1 } else { SizeFormat::V2 };
    let options = CompressionOptions {
        level: pick(&mut input, &[CompressionOptions::DEFAULT_LEVEL, -1, 0, 1, 3]),
        checksum: choice(&mut input),
        max_compressed_bytes_per_kb: 1023,
        ..CompressionOptions::default()
    };
    let dictionary = bytes(&mut input, 60).to_vec();
    let mut raw = Vec::new();
    for _ in 0..8 {
        raw.extend(value(&mut input));
    }
    raw.extend_from_slice(input.take_rest());
    raw.truncate(MOST_RAW_BYTES);
    let mut compressed = Vec::new();
    let kind = compress(kind, &options, format, &dictionary, &raw, &mut compressed).unwrap();
    if kind == CompressionType::None {
        return;
    }
    let dictionary = DecompressionDictionary::new(dictionary).ok();
    assert_eq!(decompress_to_vec(kind, format, dictionary.as_ref(), &compressed, raw.len()).unwrap(), raw);
    if let Some(limit) = raw.len().checked_sub(1) {
        assert!(decompress_to_vec(kind, format, dictionary.as_ref(), &compressed, limit).is_err());
    }
}

/// Fragments of range tombstones cover what the tombstones themselves cover, at every snapshot.
pub fn tombstones_round_trip(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let order = InternalKeyComparator::default();
    let mut tombstones = Vec::new();
    while !input.is_empty() && tombstones.len() < 12 {
        tombstones.push(RangeTombstone {
            start: bytes(&mut input, 3).to_vec(),
            end: bytes(&mut input, 3).to_vec(),
            sequence: SequenceNumber(number(&mut input, 20) as u64),
        });
    }
    let fragmented = FragmentedRangeTombstones::new(tombstones.clone(), &order);
    for pair in fragmented.fragments().windows(2) {
        assert!(pair[0].start < pair[0].end && pair[0].end <= pair[1].start);
    }
    let mut keys: BTreeSet<Vec<u8>> = BTreeSet::from([Vec::new()]);
    for tombstone in &tombstones {
        keys.extend([tombstone.start.clone(), tombstone.end.clone(), [&tombstone.start[..], &[0]].concat()]);
    }
    for key in &keys {
        for snapshot in [0, 7, 13, u64::MAX >> 8] {
            let covering = tombstones
                .iter()
                .filter(|t| &t.start <= key && key < &t.end && t.sequence.get() <= snapshot)
                .map(|t| t.sequence)
                .max();
            let found = fragmented.max_covering_sequence(key, SequenceNumber(snapshot), &order);
            assert_eq!(found, covering.unwrap_or(SequenceNumber(0)), "{} at {snapshot}", key.escape_ascii());
        }
    }
}
