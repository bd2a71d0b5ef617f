//! Small databases that mutants are made of: different layouts of tables, several column families, levels and WALs.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use firn_env::entropy::SeededEntropy;
use firn_env::memory::MemoryFileSystem;
use firn_env::{Env, FileSystem, JobPools, ManualClock, NullLogger, create_dir_all, read_file, write_file};
use firn_format::checksum::ChecksumType;
use firn_format::compression::CompressionType;
use firn_format::filter::FilterPolicy;
use firn_format::slice_transform::FixedPrefix;
use firn_table::options::{DataBlockIndexType, IndexType};
use firndb::merge::StringAppendOperator;
use firndb::options::{BlockBasedTableOptions, CompactRangeOptions, FlushOptions, TableFactory};
use firndb::{ColumnFamilyOptions, Db, DbOptions, Options, WriteOptions};

/// Where databases lie.
pub const DIRECTORY: &str = "/db";

/// The files of a database by name.
pub type Image = BTreeMap<String, Vec<u8>>;

/// A world of its own, in memory and with its own clock, whose background jobs run when somebody waits for them: what
/// happens in it depends on nothing else.
pub fn environment(fs: Arc<MemoryFileSystem>, seed: u64) -> Env {
    Env::with_file_system(fs)
        .with_clock(Arc::new(ManualClock::new(1_700_000_000_000_000)))
        .with_pools(Arc::new(JobPools::stepped()))
        .with_entropy(Arc::new(SeededEntropy::new(seed)))
}

/// The options of databases in `env`.
pub fn db_options(env: Env) -> DbOptions {
    DbOptions {
        env,
        info_log: Some(Arc::new(NullLogger)),
        max_background_jobs: 1,
        stats_dump_period_sec: 0,
        stats_persist_period_sec: 0,
        ..DbOptions::default()
    }
}

/// The options of column families with tables of this kind.
pub fn family_options(table: BlockBasedTableOptions) -> ColumnFamilyOptions {
    ColumnFamilyOptions {
        write_buffer_size: 64 << 10,
        merge_operator: Some(Arc::new(StringAppendOperator::new(":"))),
        table_factory: TableFactory::BlockBased(table),
        disable_auto_compactions: true,
        ..ColumnFamilyOptions::default()
    }
}

/// The files below [`DIRECTORY`].
pub fn image_of(fs: &MemoryFileSystem) -> Image {
    let names = fs.children(Path::new(DIRECTORY)).unwrap_or_default();
    let read = |name: &String| read_file(fs, &Path::new(DIRECTORY).join(name), 1 << 24).ok();
    names.into_iter().filter_map(|name| Some((name.clone(), read(&name)?))).collect()
}

/// A file system that has the files.
pub fn file_system_of(image: &Image) -> Arc<MemoryFileSystem> {
    let fs = Arc::new(MemoryFileSystem::new());
    create_dir_all(&*fs, Path::new(DIRECTORY)).unwrap();
    for (name, bytes) in image {
        write_file(&*fs as &dyn FileSystem, &Path::new(DIRECTORY).join(name), bytes, false).unwrap();
    }
    fs
}

fn layouts() -> Vec<(CompressionType, BlockBasedTableOptions)> {
    let table = |change: fn(&mut BlockBasedTableOptions)| {
        // The newest version that all of RocksDB's releases in use read.
        let mut table =
            BlockBasedTableOptions { block_size: 200, format_version: 5, ..BlockBasedTableOptions::default() };
        change(&mut table);
        table
    };
    let bloom = || Some(FilterPolicy::bloom(10.0));
    let mut layouts = vec![
        (CompressionType::None, table(|_| ())),
        (CompressionType::Snappy, table(|t| t.block_restart_interval = 2)),
        (CompressionType::Lz4, table(|t| t.format_version = 7)),
        (CompressionType::Zstd, table(|t| t.format_version = 6)),
        (CompressionType::Zlib, table(|t| t.format_version = 2)),
        (CompressionType::None, table(|t| t.index_type = IndexType::BinarySearchWithFirstKey)),
        (CompressionType::Lz4, table(|t| t.data_block_index_type = DataBlockIndexType::BinaryAndHash)),
        (CompressionType::None, table(|t| t.checksum = ChecksumType::Crc32c)),
        (CompressionType::None, table(|t| t.checksum = ChecksumType::NoChecksum)),
    ];
    for partition_filters in [false, true] {
        let mut partitioned = table(|t| {
            t.index_type = IndexType::TwoLevelIndexSearch;
            t.metadata_block_size = 60;
        });
        partitioned.filter_policy = bloom();
        partitioned.partition_filters = partition_filters;
        layouts.push((CompressionType::None, partitioned));
    }
    let mut filtered = table(|t| t.cache_index_and_filter_blocks = true);
    filtered.filter_policy = bloom();
    layouts.push((CompressionType::Lz4hc, filtered));
    layouts
}

/// The databases. The same ones whenever it is called.
pub fn databases() -> Vec<Image> {
    layouts()
        .into_iter()
        .enumerate()
        .map(|(n, (compression, table))| {
            let mut family = family_options(table);
            family.compression = compression;
            if n % 3 == 2 {
                family.prefix_extractor = Some(Arc::new(FixedPrefix::new(4)));
            }
            make(n as u64, &family).unwrap()
        })
        .collect()
}

fn make(seed: u64, family: &ColumnFamilyOptions) -> firndb::Result<Image> {
    let fs = Arc::new(MemoryFileSystem::new());
    let mut db = db_options(environment(Arc::clone(&fs), seed));
    db.create_if_missing = true;
    db.recycle_log_file_num = if seed % 4 == 1 { 2 } else { 0 };
    let db = Db::open(DIRECTORY, Options { db, cf: family.clone() })?;
    let one = db.create_cf("one", family.clone())?;
    let two = if seed.is_multiple_of(2) { Some(db.create_cf("two", family.clone())?) } else { None };
    let write = WriteOptions::default();
    for round in 0..4u32 {
        for n in (0..80u32).filter(|n| (n + round) % 3 > 0 || round == 0) {
            let key = format!("key{n:03}");
            match (n + round) % 9 {
                7 => db.merge(&key, format!("{round}"))?,
                8 if round > 0 => db.delete(&key)?,
                _ => db.put(&key, format!("value {n} of round {round}"))?,
            }
            if n % 2 == 0 {
                db.put_opt(&write, &one, &key, "one")?;
            }
        }
        if round > 0 {
            db.delete_range(format!("key{:03}", 10 * round), format!("key{:03}", 10 * round + 5))?;
        }
        if let Some(two) = two.as_ref().filter(|_| round == 1) {
            db.put_opt(&write, two, "key000", "two")?;
        }
        if round < 3 {
            // What stays in memory is in the WAL alone.
            db.flush(&FlushOptions::default(), db.default_cf())?;
            if round == 1 {
                db.compact_range(&CompactRangeOptions::default(), db.default_cf(), None, None)?;
                db.flush(&FlushOptions::default(), &one)?;
            }
        }
    }
    if seed % 5 == 3
        && let Some(two) = &two
    {
        db.drop_cf(two)?;
    }
    drop((one, two));
    db.close()?;
    drop(db);
    let mut image = image_of(&fs);
    image.remove("LOCK");
    Ok(image)
}
