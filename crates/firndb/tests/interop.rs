//! What Firn wrote, RocksDB reads: its `ldb checkconsistency`, `ldb scan` and `sst_dump --command=verify` accept databases that
//! Firn changed or created, and show the same contents.
//!
//! RocksDB 7.8 is the judge, so new tables get at most `format_version` 5 here.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::path::Path;

use common::{
    Contents, Golden, Outcome, contents_difference, for_all, goldens, have_tools, rocksdb_accepts, say, scan_all,
};
use firndb::options::{
    BlockBasedTableOptions, BottommostLevelCompaction, CompactRangeOptions, CompactionStyle, ConfigOptions, OptionSet,
    TableFactory,
};
use firndb::{
    ColumnFamilyDescriptor, ColumnFamilyOptions, Db, DbOptions, FlushOptions, Options, ReadOptions, WriteBatch,
};

/// The newest table format that the judge reads.
const JUDGE_FORMAT_VERSION: u32 = 5;

fn cap_format_version(families: &mut [ColumnFamilyDescriptor]) {
    for family in families {
        if let TableFactory::BlockBased(table) = &mut family.options.table_factory {
            table.format_version = table.format_version.min(JUDGE_FORMAT_VERSION);
        }
    }
}

/// Rewrites every table.
fn compact_everything(db: &Db) -> Outcome {
    let options = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    for cf in db.column_families() {
        say("compact_range", db.compact_range(&options, &cf, None, None))?;
    }
    Ok(())
}

fn names(db: &Db) -> Vec<String> {
    db.column_families().iter().map(|cf| cf.name().to_owned()).collect()
}

/// Writes to a copy, flushes and compacts it, and asks RocksDB.
fn check_golden(golden: &Golden) -> Outcome {
    let temp = tempfile::tempdir().map_err(|e| e.to_string())?;
    let dir = temp.path().join("db");
    common::copy_dir(&golden.db(), &dir);
    let open = || common::open_with(&dir, |_, families| cap_format_version(families));
    let db = say("open", open())?;
    for cf in db.column_families() {
        change(&db, &cf, &golden.expected())?;
    }
    let written = say("scan", scan_all(&db))?;
    for cf in db.column_families() {
        say("flush", db.flush(&FlushOptions::default(), &cf))?;
    }
    same("after the flush", &db, &written)?;
    compact_everything(&db)?;
    same("after the compaction", &db, &written)?;
    let families = names(&db);
    let rewrites = db.options(db.default_cf()).cf.compaction_style != CompactionStyle::Fifo;
    say("close", db.close())?;
    drop(db);
    if !rewrites && golden.name.starts_with("r11") {
        // FIFO compactions rewrite nothing: the old tables are still too new for the judge.
        return Ok(());
    }
    rocksdb_accepts(&dir, &written, &families)?;
    // And back: RocksDB's tools may have written something themselves (a new MANIFEST).
    let db = say("open after RocksDB", open())?;
    same("after RocksDB opened it", &db, &written)
}

fn same(when: &str, db: &Db, wanted: &Contents) -> Outcome {
    match contents_difference(&say("scan", scan_all(db))?, wanted) {
        Some(text) => Err(format!("{when}: {text}")),
        None => Ok(()),
    }
}

/// Overwrites, deletes and adds keys of a column family.
fn change(db: &Db, cf: &firndb::ColumnFamily, expected: &Contents) -> Outcome {
    let keys: Vec<&[u8]> =
        expected.get(cf.name()).map(|list| list.iter().map(|(k, _)| &**k).collect()).unwrap_or_default();
    let mut batch = WriteBatch::new();
    for (i, key) in keys.iter().enumerate() {
        match i % 5 {
            0 => say("put", batch.put_cf(cf, key, 12_345_678_u64.to_le_bytes()))?,
            1 => say("delete", batch.delete_cf(cf, key))?,
            _ => {}
        }
    }
    for i in 0..200 {
        say("put", batch.put_cf(cf, format!("zz-firn-{i:06}"), format!("{i:0100}")))?;
    }
    say("write", db.write(&mut batch))?;
    let reversed = db.options(cf).cf.comparator.name().contains("Reverse");
    let (begin, end) = ("zz-firn-000050", "zz-firn-000060");
    let (begin, end) = if reversed { (end, begin) } else { (begin, end) };
    say("delete_range", db.delete_range_opt(&Default::default(), cf, begin, end))
}

#[test]
fn rocksdb_accepts_changed_databases_of_7_8() {
    if have_tools() {
        for_all(goldens("r7.8-").into_iter().filter(|g| !g.refused()), |g| g.name.clone(), check_golden);
    }
}

#[test]
fn rocksdb_accepts_changed_databases_of_11_9() {
    if have_tools() {
        for_all(goldens("r11.9-").into_iter().filter(|g| !g.refused()), |g| g.name.clone(), check_golden);
    }
}

#[test]
fn rocksdb_accepts_upgraded_databases_of_leveldb() {
    if have_tools() {
        for_all(goldens("leveldb-"), |g| g.name.clone(), check_golden);
    }
}

/// One way to create a database: column family options and table options as text.
#[derive(Clone, Debug, Default)]
struct Recipe {
    cf: Vec<(&'static str, &'static str)>,
    table: Vec<(&'static str, &'static str)>,
}

impl Recipe {
    fn name(&self) -> String {
        let all = self.cf.iter().chain(&self.table);
        all.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(";")
    }

    fn options(&self) -> Options {
        let config = ConfigOptions { input_strings_escaped: false, ..ConfigOptions::default() };
        let mut cf = ColumnFamilyOptions::default();
        cf.apply_map(self.cf.iter().copied(), &config).unwrap();
        let mut table = BlockBasedTableOptions {
            format_version: JUDGE_FORMAT_VERSION,
            block_size: 512,
            ..BlockBasedTableOptions::default()
        };
        table.apply_map(self.table.iter().copied(), &config).unwrap();
        cf.table_factory = TableFactory::BlockBased(table);
        cf.write_buffer_size = 64 << 10;
        cf.target_file_size_base = 16 << 10;
        cf.max_bytes_for_level_base = 64 << 10;
        Options { db: DbOptions { create_if_missing: true, ..DbOptions::default() }, cf }
    }
}

/// Every value of every dimension, each against two partners of the others, so that pairs meet without the whole product.
fn recipes() -> Vec<Recipe> {
    const COMPRESSIONS: [&[(&str, &str)]; 9] = [
        &[("compression", "kNoCompression")],
        &[("compression", "kSnappyCompression")],
        &[("compression", "kZlibCompression")],
        &[("compression", "kBZip2Compression")],
        &[("compression", "kLZ4Compression")],
        &[("compression", "kLZ4HCCompression")],
        &[("compression", "kZSTD")],
        &[
            ("compression", "kZSTD"),
            ("compression_opts", "{max_dict_bytes=4096;zstd_max_train_bytes=65536;window_bits=-14;level=3;strategy=0}"),
        ],
        &[
            ("compression", "kLZ4Compression"),
            ("compression_opts", "{max_dict_bytes=2048;level=1;window_bits=-14;strategy=0}"),
        ],
    ];
    const CHECKSUMS: [&str; 5] = ["kNoChecksum", "kCRC32c", "kxxHash", "kxxHash64", "kXXH3"];
    const VERSIONS: [&str; 4] = ["2", "3", "4", "5"];
    const INDEXES: [&[(&str, &str)]; 6] = [
        &[("index_type", "kBinarySearch")],
        &[
            ("index_type", "kBinarySearch"),
            ("index_block_restart_interval", "8"),
            ("index_shortening", "kNoShortening"),
        ],
        &[("index_type", "kBinarySearch"), ("index_shortening", "kShortenSeparatorsAndSuccessor")],
        &[("index_type", "kTwoLevelIndexSearch"), ("metadata_block_size", "128")],
        &[("index_type", "kBinarySearchWithFirstKey")],
        &[("index_type", "kHashSearch")],
    ];
    const FILTERS: [&[(&str, &str)]; 7] = [
        &[],
        &[("filter_policy", "bloomfilter:10:false")],
        &[("filter_policy", "bloomfilter:15.5:false"), ("whole_key_filtering", "false")],
        &[("filter_policy", "rocksdb.internal.LegacyBloomFilter:10")],
        &[("filter_policy", "ribbonfilter:10:-1")],
        &[
            ("filter_policy", "bloomfilter:10:false"),
            ("partition_filters", "true"),
            ("index_type", "kTwoLevelIndexSearch"),
            ("metadata_block_size", "128"),
        ],
        &[
            ("filter_policy", "ribbonfilter:8:-1"),
            ("partition_filters", "true"),
            ("index_type", "kTwoLevelIndexSearch"),
            ("metadata_block_size", "256"),
        ],
    ];
    const EXTRAS: [&[(&str, &str)]; 5] = [
        &[],
        &[("data_block_index_type", "kDataBlockBinaryAndHash")],
        &[("block_restart_interval", "1")],
        &[("use_delta_encoding", "false")],
        &[("enable_index_compression", "false")],
    ];
    let mut all = Vec::new();
    // The numbers of values are 9, 5, 4, 6, 7, 5: stepping through them at once meets most pairs in few steps.
    for i in 0..45 {
        let index = INDEXES[i % INDEXES.len()];
        let filter = FILTERS[(i + i / 7) % FILTERS.len()];
        let mut recipe = Recipe::default();
        recipe.cf.extend(COMPRESSIONS[(i + i / 9) % COMPRESSIONS.len()]);
        if index[0].1 == "kHashSearch" || i % 4 == 3 {
            recipe.cf.push(("prefix_extractor", "fixed:4"));
        }
        recipe.table.push(("format_version", VERSIONS[(i + i / 4) % VERSIONS.len()]));
        recipe.table.push(("checksum", CHECKSUMS[(i + i / 5) % CHECKSUMS.len()]));
        recipe.table.extend(index);
        recipe.table.extend(filter);
        recipe.table.extend(EXTRAS[(i / 3) % EXTRAS.len()]);
        all.push(recipe);
    }
    let align = [("block_align", "true"), ("block_size", "1024")];
    all.push(Recipe { cf: vec![("compression", "kNoCompression")], table: align.to_vec() });
    all.push(Recipe { cf: vec![("comparator", "rocksdb.ReverseBytewiseComparator")], table: Vec::new() });
    all.push(Recipe { cf: vec![("merge_operator", "stringappend")], table: Vec::new() });
    all.push(Recipe { cf: vec![("merge_operator", "uint64add"), ("num_levels", "3")], table: Vec::new() });
    all
}

/// Creates a database in several flushes with overwrites and deletions, closes it and asks RocksDB.
fn check_recipe(recipe: &Recipe) -> Outcome {
    let temp = tempfile::tempdir().map_err(|e| e.to_string())?;
    let dir = temp.path().join("db");
    let options = recipe.options();
    let merges = options.cf.merge_operator.is_some();
    let reversed = options.cf.comparator.name().contains("Reverse");
    let db = say("create", Db::open(&dir, options.clone()))?;
    for round in 0..3_u32 {
        for i in 0..700_u32 {
            let n = (i * 7 + round * 131) % 1000;
            let key = format!("{:04}-key-{n:06}", n % 17);
            if merges {
                let operand =
                    if i % 10 == 0 { db.put(&key, 5_u64.to_le_bytes()) } else { db.merge(&key, 3_u64.to_le_bytes()) };
                say("merge", operand)?;
            } else if i % 9 == 0 {
                say("delete", db.delete(&key))?;
            } else {
                say(
                    "put",
                    db.put(&key, format!("value {n} of round {round} {}", "pattern ".repeat((n % 20) as usize))),
                )?;
            }
        }
        let (begin, end) = if reversed { ("0008-key", "0007-key") } else { ("0007-key", "0008-key") };
        if round == 1 {
            say("delete_range", db.delete_range(begin, end))?;
        }
        say("flush", db.flush(&FlushOptions::default(), db.default_cf()))?;
    }
    say("put", db.put("in the log only", b"12345678"))?;
    let written = say("scan", scan_all(&db))?;
    check_gets(&db, &written)?;
    say("close", db.close())?;
    drop(db);
    judge("after flushes", &dir, &written)?;
    let db = say("open", Db::open(&dir, options))?;
    compact_everything(&db)?;
    same("after the compaction", &db, &written)?;
    check_gets(&db, &written)?;
    say("close", db.close())?;
    drop(db);
    judge("after the compaction", &dir, &written)
}

fn judge(when: &str, dir: &Path, written: &Contents) -> Outcome {
    rocksdb_accepts(dir, written, &["default".to_owned()]).map_err(|text| format!("{when}: {text}"))
}

fn check_gets(db: &Db, written: &Contents) -> Outcome {
    let options = ReadOptions::default();
    for (key, value) in written.values().flatten() {
        let got = say("get", db.get_opt(&options, db.default_cf(), key))?;
        if got.as_deref() != Some(&**value) {
            return Err(format!("get of {} is wrong", key.escape_ascii()));
        }
    }
    Ok(())
}

#[test]
fn rocksdb_accepts_created_databases() {
    if have_tools() {
        for_all(recipes(), Recipe::name, check_recipe);
    }
}

/// What RocksDB creates with its own tools opens here, and what the two write in turn accumulates.
#[test]
fn both_write_in_turn() {
    if !have_tools() {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("db");
    let db_flag = format!("--db={}", dir.display());
    let mut wanted = Contents::new();
    for round in 0..4 {
        let key = format!("rocksdb-{round}");
        common::run("ldb", &[&db_flag, "--create_if_missing", "put", &key, "from RocksDB"]).unwrap();
        let db = common::open_with(&dir, |_, families| cap_format_version(families)).unwrap();
        db.put(format!("firn-{round}"), b"from Firn").unwrap();
        if round % 2 == 0 {
            db.flush(&FlushOptions::default(), db.default_cf()).unwrap();
        }
        wanted = scan_all(&db).unwrap();
        db.close().unwrap();
    }
    assert_eq!(wanted["default"].len(), 8);
    rocksdb_accepts(&dir, &wanted, &["default".to_owned()]).unwrap();
}
