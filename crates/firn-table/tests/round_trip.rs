//! Tables written with every option combination read back as they were written, here and by RocksDB's `sst_dump`.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use firn_env::{Env, FileOptions};
use firn_format::checksum::ChecksumType;
use firn_format::compression::CompressionType;
use firn_format::filter::{FilterPolicy, PolicyKind};
use firn_format::iterator::InternalIterator;
use firn_format::key::{InternalKey, ParsedInternalKey, SequenceNumber, ValueType};
use firn_format::slice_transform::FixedPrefix;
use firn_table::cache::CacheOptions;
use firn_table::options::{
    BlockBasedTableOptions, DataBlockIndexType, FlushBlockPolicy, IndexShorteningMode, IndexType,
};
use firn_table::{
    BlockCache, GetControl, GetSink, TableBuilder, TableBuilderOptions, TableReadOptions, TableReader,
    TableReaderOptions, ValueRef,
};

type Entries = Vec<(InternalKey, Vec<u8>)>;

/// Keys with shared prefixes, several versions of some, all kinds of values; in order.
fn entries(count: u64) -> Entries {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut all = Entries::new();
    for n in 0..count {
        let user_key = format!("key{:05}-{n:08}", n / 20);
        let versions = if random() % 10 == 0 { 1 + random() % 40 } else { 1 };
        for version in (0..versions).rev() {
            let kind = match random() % 8 {
                0 => ValueType::Deletion,
                1 => ValueType::Merge,
                2 => ValueType::SingleDeletion,
                _ => ValueType::Value,
            };
            let length = if matches!(kind, ValueType::Value | ValueType::Merge) { random() % 200 } else { 0 };
            let value = (0..length).map(|at| b'a' + ((n + at / 7) % 26) as u8).collect();
            all.push((InternalKey::new(user_key.as_bytes(), SequenceNumber(n * 50 + version + 1), kind), value));
        }
    }
    all
}

struct Case {
    name: String,
    options: TableBuilderOptions,
    entries: Entries,
}

fn case(name: impl Into<String>, change: impl FnOnce(&mut TableBuilderOptions)) -> Case {
    let mut options = TableBuilderOptions {
        table: BlockBasedTableOptions {
            format_version: 5,
            verify_compression: true,
            filter_policy: Some(FilterPolicy::bloom(10.0)),
            ..Default::default()
        },
        db_id: "db".into(),
        db_session_id: "ABCDEFGHIJKLMNOPQRST".into(),
        db_host_id: "host".into(),
        column_family_id: 0,
        column_family_name: "default".into(),
        original_file_number: 7,
        ..Default::default()
    };
    change(&mut options);
    Case { name: name.into(), options, entries: entries(800) }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for version in 2..=7 {
        for index_type in [
            IndexType::BinarySearch,
            IndexType::HashSearch,
            IndexType::TwoLevelIndexSearch,
            IndexType::BinarySearchWithFirstKey,
        ] {
            for restart in [1, 5] {
                cases.push(case(format!("version {version} {index_type:?} restart {restart}"), |options| {
                    options.table.format_version = version;
                    options.table.index_type = index_type;
                    options.table.index_block_restart_interval = restart;
                    options.table.partition_filters = true;
                    options.table.metadata_block_size = 512;
                    options.prefix_extractor = Some(Arc::new(FixedPrefix::new(8)));
                    options.compression = CompressionType::Snappy;
                }));
            }
        }
    }
    for checksum in ChecksumType::ALL {
        for version in [4, 5, 6, 7] {
            cases.push(case(format!("checksum {checksum:?} version {version}"), |options| {
                options.table.checksum = checksum;
                options.table.format_version = version;
            }));
        }
    }
    for compression in [
        CompressionType::None,
        CompressionType::Snappy,
        CompressionType::Zlib,
        CompressionType::Bzip2,
        CompressionType::Lz4,
        CompressionType::Lz4hc,
        CompressionType::Zstd,
    ] {
        for (dictionary, train) in [(0, 0), (4096, 0), (4096, 65536)] {
            for version in [2, 5, 7] {
                cases.push(case(
                    format!("{compression:?} dictionary {dictionary} train {train} v{version}"),
                    |options| {
                        options.compression = compression;
                        options.compression_options.max_dict_bytes = dictionary;
                        options.compression_options.zstd_max_train_bytes = train;
                        options.table.format_version = version;
                        options.target_file_size = if train == 0 { 60_000 } else { 0 };
                    },
                ));
            }
        }
    }
    for (name, policy) in [
        ("no filter", None),
        ("ribbon", Some(FilterPolicy::new(PolicyKind::Standard128Ribbon, 10.0))),
        ("legacy bloom", Some(FilterPolicy::new(PolicyKind::LegacyBloom, 10.0))),
    ] {
        for partitioned in [false, true] {
            for whole in [false, true] {
                cases.push(case(format!("{name} partitioned {partitioned} whole {whole}"), |options| {
                    options.table.filter_policy = policy.clone();
                    options.table.partition_filters = partitioned;
                    options.table.whole_key_filtering = whole;
                    options.table.metadata_block_size = 600;
                    options.table.index_type =
                        if partitioned { IndexType::TwoLevelIndexSearch } else { IndexType::BinarySearch };
                    options.prefix_extractor = Some(Arc::new(FixedPrefix::new(8)));
                }));
            }
        }
    }
    cases.push(case("block_align", |options| options.table.block_align = true));
    cases.push(case("super block alignment", |options| {
        options.table.super_block_alignment_size = 16384;
        options.table.super_block_alignment_space_overhead_ratio = 4;
        options.table.index_block_restart_interval = 8;
    }));
    cases.push(case("data block hash index", |options| {
        options.table.data_block_index_type = DataBlockIndexType::BinaryAndHash;
    }));
    cases.push(case("data block hash index, restart 2, big blocks", |options| {
        options.table.data_block_index_type = DataBlockIndexType::BinaryAndHash;
        options.table.block_restart_interval = 2;
        options.table.block_size = 32768;
    }));
    for mode in [IndexShorteningMode::NoShortening, IndexShorteningMode::ShortenSeparatorsAndSuccessor] {
        cases.push(case(format!("{mode:?}"), |options| options.table.index_shortening = mode));
    }
    cases.push(case("every key a block", |options| {
        options.table.flush_block_policy_factory = FlushBlockPolicy::EveryKey;
    }));
    cases.push(case("no delta encoding", |options| options.table.use_delta_encoding = false));
    cases.push(case("raw index", |options| {
        options.compression = CompressionType::Zstd;
        options.table.enable_index_compression = false;
    }));
    let mut unique = case("user keys in the index", |_| {});
    unique.entries.dedup_by(|(a, _), (b, _)| a.user_key() == b.user_key());
    cases.push(unique);
    let mut one = case("one entry", |_| {});
    one.entries.truncate(1);
    cases.push(one);
    let mut none = case("only a range tombstone", |_| {});
    none.entries.clear();
    cases.push(none);
    cases
}

fn write(case: Case, path: &Path) -> Entries {
    let Case { name, options, entries } = case;
    let fs = Arc::clone(Env::shared().fs());
    let file = fs.new_writable_file(path, &FileOptions::default()).unwrap();
    let mut builder = TableBuilder::new(options, file).unwrap();
    for (n, (key, value)) in entries.iter().enumerate() {
        builder.add(key.encoded(), value).unwrap();
        if n == 5 {
            // Range tombstones may come between.
            let start = InternalKey::new(b"zz", SequenceNumber(3), ValueType::RangeDeletion);
            builder.add(start.encoded(), b"zzz").unwrap();
        }
    }
    if entries.is_empty() {
        let start = InternalKey::new(b"a", SequenceNumber(3), ValueType::RangeDeletion);
        builder.add(start.encoded(), b"b").unwrap();
    }
    let summary = builder.finish().unwrap();
    builder.file_mut().close().unwrap();
    assert_eq!(summary.file_size, std::fs::metadata(path).unwrap().len(), "{name}");
    assert_eq!(summary.largest, entries.last().map_or(Vec::new(), |(key, _)| key.encoded().to_vec()));
    entries
}

struct Versions(Vec<(SequenceNumber, ValueType, Vec<u8>)>);

impl GetSink for Versions {
    fn accept(&mut self, key: ParsedInternalKey<'_>, value: ValueRef<'_>) -> GetControl {
        self.0.push((key.sequence, key.value_type, value.to_vec()));
        GetControl::Continue
    }
}

fn read_back(name: &str, path: &Path, prefix: bool, entries: &Entries) {
    for metadata_in_cache in [false, true] {
        let cache = Arc::new(BlockCache::new(&CacheOptions::new(1 << 20)));
        let table = BlockBasedTableOptions {
            filter_policy: Some(FilterPolicy::bloom(10.0)),
            cache_index_and_filter_blocks: metadata_in_cache,
            pin_top_level_index_and_filter: false,
            ..Default::default()
        };
        let options = TableReaderOptions {
            table,
            block_cache: Some(Arc::clone(&cache)),
            prefix_extractor: if prefix { Some(Arc::new(FixedPrefix::new(8))) } else { None },
            ..Default::default()
        };
        read_back_with(name, path, options, entries);
        assert_eq!(cache.pinned_usage_bytes(), 0);
        assert!(entries.is_empty() || !cache.is_empty());
    }
}

fn read_back_with(name: &str, path: &Path, options: TableReaderOptions, entries: &Entries) {
    let fs = Arc::clone(Env::shared().fs());
    let file = fs.new_random_access_file(path, &FileOptions::default()).unwrap();
    let size = file.size().unwrap();
    let table = Arc::new(TableReader::open(file, size, options).unwrap());
    assert_eq!(
        table.properties().num_entries,
        entries.len() as u64 + u64::from(entries.len() > 5 || entries.is_empty())
    );
    let options = TableReadOptions::default();
    let mut iterator = table.iter(&options);
    iterator.seek_to_first();
    for (key, value) in entries {
        assert!(iterator.valid(), "{name}: {:?}", iterator.status());
        assert_eq!((iterator.key(), iterator.value()), (key.encoded(), value.as_slice()), "{name}");
        iterator.next();
    }
    assert!(!iterator.valid());
    iterator.status().unwrap();
    iterator.seek_to_last();
    for (key, value) in entries.iter().rev() {
        assert_eq!((iterator.key(), iterator.value()), (key.encoded(), value.as_slice()), "{name}");
        iterator.prev();
    }
    let mut previous: Option<&[u8]> = None;
    for (n, (key, _)) in entries.iter().enumerate() {
        if previous == Some(key.user_key()) || n % 7 != 0 {
            continue;
        }
        previous = Some(key.user_key());
        let mut found = Versions(Vec::new());
        table.get(&options, InternalKey::for_seek(key.user_key(), SequenceNumber::MAX).encoded(), &mut found).unwrap();
        let expected: Vec<_> = entries
            .iter()
            .filter(|(other, _)| other.user_key() == key.user_key())
            .map(|(key, value)| {
                (key.sequence(), ValueType::from_u8(key.encoded()[key.encoded().len() - 8]).unwrap(), value.clone())
            })
            .collect();
        assert_eq!(found.0, expected, "{name}: {}", key.user_key().escape_ascii());
        let absent = [key.user_key(), b"x"].concat();
        let mut found = Versions(Vec::new());
        table.get(&options, InternalKey::for_seek(&absent, SequenceNumber::MAX).encoded(), &mut found).unwrap();
        assert!(found.0.is_empty());
    }
    table.verify_checksums(&options).unwrap();
}

fn check_with_sst_dump(tool: &Path, name: &str, path: &Path, entries: &Entries) {
    let sst_dump = |arguments: &[&str]| {
        let output = Command::new(tool).arg(format!("--file={}", path.display())).args(arguments).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    let text = sst_dump(&["--command=verify", "--verify_checksum"]);
    assert!(text.contains("The file is ok"), "{name}: {text}");
    let text = sst_dump(&["--command=scan", "--show_properties", "--output_hex"]);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
    let expected: Vec<String> = entries
        .iter()
        .map(|(key, value)| {
            let footer = key.encoded()[key.encoded().len() - 8];
            format!("'{}' seq:{}, type:{footer} => {}", hex(key.user_key()), key.sequence(), hex(value))
        })
        .collect();
    let found: Vec<&str> = text.lines().filter(|line| line.contains(" seq:") && !line.contains("type:15")).collect();
    assert_eq!(found, expected, "{name}: {text}");
}

#[test]
fn every_option_combination_round_trips() {
    let directory = tempfile::tempdir().unwrap();
    let mut accepted = 0;
    let tool = firndb_testing::rocksdb_tool("sst_dump");
    for (n, case) in cases().into_iter().enumerate() {
        let path: PathBuf = directory.path().join(format!("{n:06}.sst"));
        let (name, prefix) = (case.name.clone(), case.options.prefix_extractor.is_some());
        let version = case.options.table.format_version;
        let entries = write(case, &path);
        read_back(&name, &path, prefix, &entries);
        if let Some(tool) = tool.as_deref().filter(|_| version <= 5) {
            check_with_sst_dump(tool, &name, &path, &entries);
            accepted += 1;
        }
    }
    eprintln!("sst_dump accepted {accepted} tables");
}

#[test]
fn tables_that_do_not_tell_their_maker_share_a_cache_without_mixing() {
    let env = Env::memory();
    let cache = Arc::new(BlockCache::new(&CacheOptions::new(1 << 20)));
    let tables: Vec<_> = ["first", "second"]
        .into_iter()
        .map(|value| {
            let path = Path::new("/table.sst");
            let file = env.fs().new_writable_file(path, &FileOptions::default()).unwrap();
            let mut builder = TableBuilder::new(TableBuilderOptions::default(), file).unwrap();
            let key = InternalKey::new(b"key", SequenceNumber(1), ValueType::Value);
            builder.add(key.encoded(), value.as_bytes()).unwrap();
            builder.finish().unwrap();
            let file = env.fs().new_random_access_file(path, &FileOptions::default()).unwrap();
            let size = file.size().unwrap();
            let options = TableReaderOptions { block_cache: Some(Arc::clone(&cache)), ..Default::default() };
            // Read at once: the file is written again for the next table.
            let table = TableReader::open(file, size, options).unwrap();
            let mut found = Versions(Vec::new());
            let lookup = InternalKey::for_seek(b"key", SequenceNumber::MAX);
            table.get(&TableReadOptions::default(), lookup.encoded(), &mut found).unwrap();
            assert_eq!(found.0[0].2, value.as_bytes());
            table
        })
        .collect();
    assert_eq!((tables.len(), cache.len()), (2, 2));
}
