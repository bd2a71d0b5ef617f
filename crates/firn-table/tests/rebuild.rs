//! Tables of RocksDB, read and written again with the same options, come out with the same data and index blocks.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_env::{Env, FileOptions};
use firn_format::compression::CompressionType;
use firn_format::filter::FilterPolicy;
use firn_format::iterator::InternalIterator;
use firn_format::key::{InternalKey, SequenceNumber, ValueType};
use firn_format::slice_transform::FixedPrefix;
use firn_table::options::{BlockBasedTableOptions, DataBlockIndexType, IndexShorteningMode, IndexType};
use firn_table::{TableBuilder, TableBuilderOptions, TableReadOptions, TableReader, TableReaderOptions};
use firndb_testing::golden;

fn open(env: &Env, path: &Path) -> Arc<TableReader> {
    let file = env.fs().new_random_access_file(path, &FileOptions::default()).unwrap();
    let size = file.size().unwrap();
    Arc::new(TableReader::open(file, size, TableReaderOptions::default()).unwrap())
}

/// The option `name` of the table factory in the OPTIONS file of a golden database.
fn table_option(options_file: &str, name: &str) -> Option<String> {
    let line = options_file.lines().find(|line| line.trim().starts_with(&format!("{name}=")))?;
    Some(line.trim().split_once('=')?.1.to_owned())
}

#[test]
fn data_and_index_blocks_are_those_of_rocksdb() {
    let (posix, memory) = (Env::shared(), Env::memory());
    let mut rebuilt = 0;
    for kind in [
        "compression-none",
        "block-align",
        "data-block-hash-index",
        "restart-interval-3",
        "index-no-delta",
        "index-no-shortening",
        "index-shorten-both",
        "index-first-key",
        "index-partitioned",
        "checksum-crc32c",
        "checksum-xxhash64",
    ] {
        for release in ["r7.8", "r11.9"] {
            let directory = golden().join(format!("{release}-{kind}")).join("db");
            let mut paths: Vec<PathBuf> =
                std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
            paths.sort();
            let options_path =
                paths.iter().rfind(|path| path.display().to_string().contains("OPTIONS-")).unwrap().clone();
            let options_text = std::fs::read_to_string(options_path).unwrap();
            for path in paths.iter().filter(|path| path.extension().is_some_and(|extension| extension == "sst")) {
                let table = open(&posix, path);
                let properties = table.properties();
                if properties.num_range_deletions > 0 || properties.num_entries == 0 {
                    continue;
                }
                let number = |name: &str| table_option(&options_text, name).and_then(|text| text.parse::<i64>().ok());
                let is = |name: &str, value: &str| table_option(&options_text, name).as_deref() == Some(value);
                // Compressors of other releases give other bytes: such tables are compared block by block, uncompressed.
                let compressed =
                    !matches!(properties.compression_name.as_str(), "NoCompression" | ";;" | "BuiltinV2;;");
                if compressed {
                    continue;
                }
                let table_options = BlockBasedTableOptions {
                    format_version: table.footer().format_version,
                    checksum: table.footer().checksum_type,
                    block_size: number("block_size").unwrap() as u64,
                    block_size_deviation: number("block_size_deviation").unwrap() as i32,
                    block_restart_interval: number("block_restart_interval").unwrap() as i32,
                    index_block_restart_interval: number("index_block_restart_interval").unwrap() as i32,
                    metadata_block_size: number("metadata_block_size").unwrap() as u64,
                    block_align: is("block_align", "true"),
                    index_type: table.index_type(),
                    data_block_index_type: if is("data_block_index_type", "kDataBlockBinaryAndHash") {
                        DataBlockIndexType::BinaryAndHash
                    } else {
                        DataBlockIndexType::BinarySearch
                    },
                    index_shortening: match table_option(&options_text, "index_shortening").as_deref() {
                        Some("kNoShortening") => IndexShorteningMode::NoShortening,
                        Some("kShortenSeparatorsAndSuccessor") => IndexShorteningMode::ShortenSeparatorsAndSuccessor,
                        _ => IndexShorteningMode::ShortenSeparators,
                    },
                    ..Default::default()
                };
                let copy = Path::new("/copy.sst");
                let file = memory.fs().new_writable_file(copy, &FileOptions::default()).unwrap();
                let options = TableBuilderOptions {
                    table: table_options,
                    compression: CompressionType::None,
                    ..Default::default()
                };
                let mut builder = TableBuilder::new(options, file).unwrap();
                let mut iterator = table.iter(&TableReadOptions::default());
                iterator.seek_to_first();
                while iterator.valid() {
                    builder.add(iterator.key(), iterator.value()).unwrap();
                    iterator.next();
                }
                builder.finish().unwrap();
                let again = open(&memory, copy);
                let name = path.display();
                let index = |table: &TableReader| {
                    let mut entries = Vec::new();
                    table
                        .index_entries(&TableReadOptions::default(), &mut |key, handle| {
                            entries.push((key.to_vec(), handle));
                            true
                        })
                        .unwrap();
                    entries
                };
                assert_eq!(index(&again), index(&table), "{name}: index");
                let (a, b) = (again.properties(), properties);
                assert_eq!(a.data_size, b.data_size, "{name}");
                assert_eq!((a.num_data_blocks, a.num_deletions), (b.num_data_blocks, b.num_deletions), "{name}");
                assert_eq!((a.raw_key_size, a.raw_value_size), (b.raw_key_size, b.raw_value_size), "{name}");
                assert_eq!(a.index_size, b.index_size, "{name}");
                assert_eq!(a.index_partitions, b.index_partitions, "{name}");
                assert_eq!(a.index_key_is_user_key, b.index_key_is_user_key, "{name}");
                assert_eq!(a.index_value_is_delta_encoded, b.index_value_is_delta_encoded, "{name}");
                if table.footer().format_version < 6 {
                    // Without a context in the checksums all data must be the same, byte for byte.
                    let original = std::fs::read(path).unwrap();
                    let copied = firn_env::read_file(&**memory.fs(), copy, 1 << 30).unwrap();
                    let data = b.data_size as usize;
                    assert!(original[..data] == copied[..data], "{name}: data blocks differ");
                }
                rebuilt += 1;
            }
        }
    }
    eprintln!("{rebuilt} tables rebuilt");
    assert!(rebuilt > 20, "only {rebuilt}");
}

/// 16.4 of the filter specification: how filters are cut into partitions.
#[test]
fn filter_partitions_match_the_vectors() {
    let env = Env::memory();
    let build =
        |count: u64, metadata_block_size: u64, version: u32, prefix: Option<usize>, whole: bool, ribbon: bool| {
            let path = Path::new("/filters.sst");
            let file = env.fs().new_writable_file(path, &FileOptions::default()).unwrap();
            let policy = if ribbon { FilterPolicy::ribbon(10.0, -1) } else { FilterPolicy::bloom(10.0) };
            let options = TableBuilderOptions {
                table: BlockBasedTableOptions {
                    format_version: version,
                    filter_policy: Some(policy),
                    partition_filters: true,
                    index_type: IndexType::TwoLevelIndexSearch,
                    metadata_block_size,
                    whole_key_filtering: whole,
                    optimize_filters_for_memory: false,
                    ..Default::default()
                },
                prefix_extractor: prefix.map(|length| Arc::new(FixedPrefix::new(length)) as Arc<_>),
                ..Default::default()
            };
            let mut builder = TableBuilder::new(options, file).unwrap();
            for n in 0..count {
                let key = format!("{:04}-{n:04}", n / 7);
                let key = InternalKey::new(key.as_bytes(), SequenceNumber(1), ValueType::Value);
                builder.add(key.encoded(), b"v").unwrap();
            }
            let entries = builder.finish().unwrap().properties.num_filter_entries;
            let reader = open(&env, path);
            let bounds = reader.filter_partitions(&TableReadOptions::default()).unwrap();
            let first: Vec<String> = bounds
                .iter()
                .take(2)
                .map(|key| String::from_utf8_lossy(&key[..9.min(key.len())]).into_owned())
                .collect();
            (bounds.len(), entries, first.join(", "))
        };
    let row = |partitions, entries, keys: &str| (partitions, entries, keys.to_owned());
    assert_eq!(build(2000, 256, 5, None, true, false), row(14, 2000, "0021-0152, 0043-0305"));
    assert_eq!(build(2000, 256, 5, Some(4), true, false), row(16, 2302, "0018-0132, 0037-0264"));
    assert_eq!(build(2000, 256, 5, Some(4), false, false), row(2, 287, "0151-1057, 0285-1999"));
    assert_eq!(build(2000, 256, 2, None, true, false).0, 14);
    assert_eq!(build(2000, 256, 5, Some(40), false, false), row(0, 0, ""));
    assert_eq!(build(6000, 1024, 5, None, true, true), row(6, 6000, "0142-1000, 0285-2001"));
}
