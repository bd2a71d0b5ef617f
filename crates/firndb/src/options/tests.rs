use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use firn_env::Env;
use firn_format::options_text::OptionsFile;

use super::*;

fn sections(text: &str) -> Vec<(String, BTreeSet<String>)> {
    let file = OptionsFile::parse(text).expect("a valid OPTIONS file");
    let line = |(name, value): &(String, String)| format!("{name}={value}");
    file.sections
        .iter()
        .map(|section| (format!("{:?}", section.kind), section.entries.iter().map(line).collect()))
        .collect()
}

/// A struct's fields come in any order: sorts them.
fn with_sorted_fields(line: &str) -> String {
    match line.split_once("={") {
        Some((name, value)) if value.ends_with(";}") && !value.contains("id=") => {
            let mut fields: Vec<&str> = value.trim_end_matches(";}").split(';').collect();
            fields.sort_unstable();
            format!("{name}={{{};}}", fields.join(";"))
        }
        _ => line.to_owned(),
    }
}

#[test]
fn every_golden_options_file_survives() {
    let fs = Env::shared().fs().clone();
    let mut count = 0;
    for dir in firndb_testing::golden_databases() {
        let name = firndb_testing::golden_name(&dir);
        let Ok(path) = latest_options_file(&*fs, &dir) else { continue };
        let text = String::from_utf8(firn_env::read_file(&*fs, &path, 1 << 20).unwrap()).unwrap();
        let loaded = LoadedOptions::parse(&text, &ConfigOptions::default())
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let printed = loaded.print(Dialect::of_version(loaded.rocksdb_version.major));
        assert!(printed.starts_with(&format!("{}\n[DBOptions]\n  ", text.split("\n[DBOptions]").next().unwrap())));
        let (before, after) = (sections(&text), sections(&printed));
        for ((kind, before), (printed_kind, after)) in before.iter().zip(&after) {
            assert_eq!(kind, printed_kind, "{name}");
            let sort =
                |lines: &BTreeSet<String>| lines.iter().map(|line| with_sorted_fields(line)).collect::<BTreeSet<_>>();
            let (before, after) = (sort(before), sort(after));
            let lost: Vec<_> = before.difference(&after).collect();
            let added: Vec<_> = after.difference(&before).collect();
            assert!(lost.is_empty() && added.is_empty(), "{name} {kind}: lost {lost:?}, added {added:?}");
        }
        assert_eq!(before.len(), after.len(), "{name}");
        // What is written by default is read back by itself.
        let portable = loaded.print(Dialect::Portable);
        let again = LoadedOptions::parse(&portable, &ConfigOptions::default()).unwrap();
        assert_eq!(sections(&portable), sections(&again.print(Dialect::Portable)), "{name}");
        count += 1;
    }
    assert!(count > 150, "only {count} OPTIONS files");
}

#[test]
fn a_default_database_writes_what_rocksdb_writes() {
    assert_eq!(DbOptions::default().to_text(Dialect::RocksDb11, ";").matches('=').count(), 97);
    let cf = ColumnFamilyOptions::default();
    let written = cf.entries(Dialect::RocksDb11).iter().filter(|(_, value)| !value.is_empty()).count();
    assert_eq!(written, 89);
}

/// An empty text is left out, and so becomes the default when it is read: only where the default is empty too may it be.
#[test]
fn an_empty_text_stays_empty_where_the_default_is_another() {
    let db = DbOptions { db_host_id: String::new(), ..DbOptions::default() };
    let families = [("default", &ColumnFamilyOptions::default())];
    let text = print_options(&db, families, Dialect::RocksDb11, ROCKSDB_VERSION);
    assert!(text.contains("\n  db_host_id=\n") && !text.contains("wal_dir"), "{text}");
    assert_eq!(LoadedOptions::parse(&text, &ConfigOptions::default()).unwrap().db.db_host_id, "");
    let text = db.to_text(Dialect::RocksDb11, ";");
    assert_eq!(DbOptions::from_text(&text, &ConfigOptions::default()).unwrap().db_host_id, "");
}

#[test]
fn files_are_written_loaded_and_removed() {
    let env = Env::memory();
    let fs = env.fs();
    let dir = Path::new("/db");
    fs.create_dir_if_missing(dir).unwrap();
    assert!(load_latest_options(&**fs, dir, &ConfigOptions::default()).unwrap_err().is_not_found());
    let db = DbOptions { max_open_files: 99, ..DbOptions::default() };
    let mut cf = ColumnFamilyOptions::default();
    cf.apply_string("prefix_extractor=fixed:3;write_buffer_size=1M", &ConfigOptions::default()).unwrap();
    cf.block_based_mut().filter_policy = Some(FilterPolicy::ribbon(9.9, 0));
    let name = "odd: #\"name]\\\n";
    for number in [5, 7, 9] {
        let families = [("default", &cf), (name, &cf)];
        write_options_file(&**fs, dir, number - 1, number, &db, families).unwrap();
    }
    remove_old_options_files(&**fs, dir).unwrap();
    let mut children = fs.children(dir).unwrap();
    children.sort();
    assert_eq!(children, ["OPTIONS-000007", "OPTIONS-000009"]);
    let loaded = load_latest_options(&**fs, dir, &ConfigOptions::default()).unwrap();
    assert_eq!(loaded.db.max_open_files, 99);
    let names: Vec<_> = loaded.column_families.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["default", name]);
    let family = loaded.column_family(name).unwrap();
    assert_eq!(family.write_buffer_size, 1 << 20);
    assert_eq!(family.table_factory.block_based().unwrap().filter_policy, Some(FilterPolicy::ribbon(9.9, 0)));
    cf.write_buffer_size = 2 << 20;
    let error = check_same_options(&loaded, &db, [("default", &cf)], SanityLevel::ExactMatch).unwrap_err();
    assert!(error.message().contains("same number of column family names"));
    let error = check_same_options(&loaded, &db, [("default", &cf), (name, &cf)], SanityLevel::ExactMatch).unwrap_err();
    assert_eq!(
        error.message(),
        "[RocksDBOptionsParser]: failed the verification on ColumnFamilyOptions::write_buffer_size--- The specified one is \
         2097152 while the persisted one is 1048576.\n"
    );
    check_same_options(&loaded, &db, [("default", &cf), (name, &cf)], SanityLevel::LooselyCompatible).unwrap();
}

#[test]
fn unknown_names_are_ignored_in_newer_files_only() {
    let text = |version: &str| {
        format!(
            "[Version]\nrocksdb_version={version}\n[DBOptions]\nfuture=1\nmax_open_files=x\nmax_background_jobs=7\n[CFOptions \"default\"]\n"
        )
    };
    let ignoring = ConfigOptions { ignore_unknown_options: true, ..ConfigOptions::default() };
    let loaded = LoadedOptions::parse(&text("99.0.0"), &ignoring).unwrap();
    assert_eq!((loaded.db.max_open_files, loaded.db.max_background_jobs), (-1, 7));
    let error = LoadedOptions::parse(&text("11.9.0"), &ignoring).unwrap_err();
    assert_eq!(error.message(), "Extra option not recognized: future");
    LoadedOptions::parse(&text("99.0.0"), &ConfigOptions::default()).unwrap_err();
}

fn sanitized(text: &str) -> (DbOptions, ColumnFamilyOptions) {
    let options = Options::from_string(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let db = sanitize_db_options(&options.db, Path::new("/db"), Some(1024), None);
    let cf = sanitize_column_family_options(&db, &options.cf, false);
    (db, cf)
}

#[test]
fn sanitizes_as_rocksdb_does() {
    let (db, cf) = sanitized("");
    assert_eq!((db.delayed_write_rate, db.db_paths.len()), (16 << 20, 1));
    assert_eq!((cf.arena_block_size, cf.max_compaction_bytes), (1 << 20, 1_677_721_600));
    assert_eq!((cf.ttl, cf.periodic_compaction_seconds), (2_592_000, 0));
    assert!(cf.level_compaction_dynamic_level_bytes);
    for (given, expected) in [("0", 20), ("-7", 20), ("-1", -1), ("5000", 1024)] {
        assert_eq!(sanitized(&format!("max_open_files={given}")).0.max_open_files, expected);
    }
    for (bytes, arena) in [(65536, 8192), (100_000, 16384), (67_108_864, 1 << 20)] {
        assert_eq!(sanitized(&format!("write_buffer_size={bytes}")).1.arena_block_size, arena);
    }
    assert_eq!(sanitized("write_buffer_size=1").1.write_buffer_size, 65536);
    let (_, cf) = sanitized("max_write_buffer_number=1;min_write_buffer_number_to_merge=3");
    assert_eq!((cf.max_write_buffer_number, cf.min_write_buffer_number_to_merge), (2, 1));
    let (_, cf) = sanitized("compaction_style=kCompactionStyleUniversal;ttl=100");
    assert_eq!((cf.periodic_compaction_seconds, cf.level_compaction_dynamic_level_bytes), (100, false));
    let (_, cf) = sanitized("compaction_style=kCompactionStyleFIFO");
    assert_eq!((cf.level0_stop_writes_trigger, cf.num_levels), (i32::MAX, 7));
    let (_, cf) = sanitized("level0_file_num_compaction_trigger=50;soft_pending_compaction_bytes_limit=0");
    assert_eq!((cf.level0_slowdown_writes_trigger, cf.level0_stop_writes_trigger), (50, 50));
    assert_eq!(cf.soft_pending_compaction_bytes_limit, cf.hard_pending_compaction_bytes_limit);
    let (_, cf) = sanitized("memtable_factory=prefix_hash:5;num_levels=1;max_write_buffer_size_to_maintain=-1");
    assert_eq!((cf.memtable_factory.name(), cf.num_levels), ("SkipListFactory", 2));
    assert_eq!(cf.max_write_buffer_size_to_maintain, 2 * (64 << 20));
    let (db, _) =
        sanitized("recycle_log_file_num=4;wal_recovery_mode=kAbsoluteConsistency;wal_compression=kLZ4Compression");
    assert_eq!((db.recycle_log_file_num, db.wal_compression.option_name()), (0, "kNoCompression"));
    assert_eq!(sanitized("recycle_log_file_num=4").0.recycle_log_file_num, 4);
    let (_, cf) =
        sanitized("block_based_table_factory={block_restart_interval=0;partition_filters=true;format_version=0}");
    let table = cf.table_factory.block_based().unwrap();
    assert_eq!((table.block_restart_interval, table.partition_filters, table.format_version), (1, false, 2));
}

#[test]
fn splits_background_jobs() {
    let limits = |text: &str| BackgroundJobLimits::of(&sanitized(text).0, true);
    assert_eq!(limits("max_background_jobs=8"), BackgroundJobLimits { max_flushes: 2, max_compactions: 6 });
    assert_eq!(limits(""), BackgroundJobLimits { max_flushes: 1, max_compactions: 1 });
    assert_eq!(limits("max_background_flushes=3"), BackgroundJobLimits { max_flushes: 3, max_compactions: 1 });
}

#[test]
fn refuses_contradictions_with_rocksdbs_words() {
    let refusal = |text: &str| {
        let options = Options::from_string(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let checked = validate_db_options(&options.db)
            .and_then(|()| validate_column_family_options(&options.db, "default", &options.cf));
        checked.expect_err(text).to_string()
    };
    for (text, message) in [
        ("compression=kXpressCompression", "Invalid argument: Compression type Xpress is not linked with the binary."),
        (
            "compression=kDisableCompressionOption",
            "Invalid argument: kDisableCompressionOption not permitted for option: compression",
        ),
        ("keep_log_file_num=0", "Invalid argument: keep_log_file_num must be greater than 0"),
        (
            "unordered_write=true;max_successive_merges=2",
            "Invalid argument: max_successive_merges larger than 0 is currently inconsistent with unordered_write",
        ),
        (
            "memtable_factory=prefix_hash",
            "Invalid argument: Memtable doesn't allow concurrent writes (allow_concurrent_memtable_write)",
        ),
        (
            "memtable_protection_bytes_per_key=3",
            "Not implemented: Memtable per key-value checksum protection only supports 0, 1, 2, 4 or 8 bytes per key.",
        ),
        (
            "block_based_table_factory={index_type=kHashSearch}",
            "Invalid argument: Hash index is specified for block-based table, but prefix_extractor is not given",
        ),
        (
            "block_based_table_factory={block_align=true}",
            "Invalid argument: Enable block_align, but compression enabled",
        ),
        ("table_factory=PlainTable", "Not implemented: Table format PlainTable is not supported"),
        (
            "daily_offpeak_time_utc=23:00-24:00",
            "Invalid argument: daily_offpeak_time_utc should be set in the format HH:mm-HH:mm (e.g. 04:30-07:30)",
        ),
        ("daily_offpeak_time_utc=3:0-03:00", "Invalid argument: start_time and end_time cannot be the same"),
    ] {
        assert_eq!(refusal(text), message, "{text}");
    }
    let options = Options::from_string("daily_offpeak_time_utc=3:0-5:00").unwrap();
    validate_db_options(&options.db).unwrap();
    validate_column_family_options(&options.db, "default", &options.cf).unwrap();
}

#[test]
fn changes_mutable_options_only() {
    let (db, cf) = sanitized("");
    let change = |map: &[(&str, &str)]| change_column_family_options(&db, "default", &cf, map);
    let changed = change(&[
        ("write_buffer_size", "1"),
        ("compression_opts.level", "5"),
        ("table_factory.block_size", "8k"),
        ("block_based_table_factory", "{block_restart_interval=4}"),
        ("comparator", "leveldb.BytewiseComparator"),
    ])
    .unwrap();
    assert_eq!((changed.write_buffer_size, changed.compression_opts.level), (1, 5));
    let table = changed.table_factory.block_based().unwrap();
    assert_eq!((table.block_size, table.block_restart_interval), (8192, 4));
    assert_eq!(change(&[]).unwrap_err().message(), "empty input");
    assert_eq!(change(&[("num_levels", "7")]).unwrap_err().message(), "Option not changeable: num_levels");
    let error = change(&[("table_factory", "PlainTable")]).unwrap_err();
    assert_eq!(error.message(), "TTL is only supported in Block-Based Table format. ");
    change(&[("nonsense", "7")]).unwrap_err();
    let changed = change_db_options(&db, &[("max_background_jobs", "6")]).unwrap().unwrap();
    assert_eq!((changed.max_background_jobs, changed.bytes_per_sync), (6, 1 << 20));
    let error = change_db_options(&db, &[("create_if_missing", "true")]).unwrap_err();
    assert_eq!(error.to_string(), "NotFound: Unrecognized option: create_if_missing");
}

#[test]
fn presets_have_rocksdbs_effects() {
    let mut cf = ColumnFamilyOptions::default();
    cf.optimize_level_style_compaction(512 << 20);
    assert_eq!((cf.write_buffer_size, cf.target_file_size_base), (128 << 20, 64 << 20));
    assert_eq!(cf.get_text("compression_per_level").unwrap().split(':').count(), 7);
    let mut options = Options::default();
    options.prepare_for_bulk_load().old_defaults(4, 6);
    assert_eq!((options.cf.num_levels, options.db.delayed_write_rate), (2, 2 << 20));
    assert_eq!(options.cf.compaction_pri, CompactionPri::ByCompensatedSize);
}

#[test]
fn legacy_and_unknown_objects() {
    let options = Options::from_string("compaction_options_fifo=123;compaction_filter=Mine").unwrap();
    assert_eq!(options.cf.compaction_options_fifo.max_table_files_size, 123);
    assert!(!options.cf.has_compaction_filter());
    let text = options.cf.to_text(Dialect::Portable, ";");
    assert!(text.contains("compaction_filter=Mine;"), "{text}");
    let error = Options::from_string("memtable=cuckoo").unwrap_err();
    assert_eq!(error.message(), "cuckoo hash memtable is not supported anymore.");
}

/// The delimiters of the string-appending operator: in memory, in the file, and after a load.
#[test]
fn delimiters_survive_as_far_as_in_rocksdb() {
    use crate::merge::built_in;
    for (delimiter, printed, loaded) in [
        (",", "delimiter=,", ","),
        ("a:b", "delimiter=a\\:b", "a:b"),
        ("#", "delimiter=\\#", "#"),
        ("}", "delimiter=}", "}"),
        ("\\", "delimiter=\\\\", ""),
        ("\n", "delimiter=\\n", ""),
        (" ", "delimiter= ", ""),
    ] {
        let cf = ColumnFamilyOptions {
            merge_operator: built_in("stringappend", Some(delimiter)),
            ..ColumnFamilyOptions::default()
        };
        let text = print_options(&DbOptions::default(), [("default", &cf)], Dialect::RocksDb11, ROCKSDB_VERSION);
        assert!(text.contains(&format!("merge_operator={{id=StringAppendOperator;{printed};}}")), "{delimiter:?}");
        let again = LoadedOptions::parse(&text, &ConfigOptions::default()).unwrap();
        let operator = again.column_family("default").unwrap().merge_operator.clone().expect("an operator");
        assert_eq!(operator.option_text(), format!("delimiter={loaded}"), "{delimiter:?}");
    }
}

#[test]
fn a_comparator_of_the_applications_own_survives_by_name() {
    struct Own;
    impl firn_format::comparator::Comparator for Own {
        fn name(&self) -> &str {
            "own.Comparator"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
            a.cmp(b)
        }
    }
    let env = Env::memory();
    let dir = Path::new("/db");
    env.fs().create_dir_if_missing(dir).unwrap();
    let cf = ColumnFamilyOptions { comparator: Arc::new(Own), ..ColumnFamilyOptions::default() };
    write_options_file(&**env.fs(), dir, 1, 2, &DbOptions::default(), [("default", &cf)]).unwrap();
    let loaded = load_latest_options(&**env.fs(), dir, &ConfigOptions::default()).unwrap();
    assert!(loaded.print(Dialect::Portable).contains("  comparator=own.Comparator\n"));
}

/// Options that were read from the file of a newer RocksDB can be written and read again.
#[test]
fn options_ignored_in_a_newer_file_do_not_spoil_the_next_one() {
    let env = Env::memory();
    let dir = Path::new("/db");
    firn_env::create_dir_all(&**env.fs(), dir).unwrap();
    let text = "[Version]\nrocksdb_version=99.1.0\noptions_file_version=1.1\n[DBOptions]\nfrom_the_future=1\n\
                max_open_files=many\n[CFOptions \"default\"]\nalso_new={a=b}\n";
    let config = ConfigOptions { ignore_unknown_options: true, ..ConfigOptions::default() };
    let loaded = LoadedOptions::parse(text, &config).unwrap();
    let families = loaded.column_families.iter().map(|(name, options)| (name.as_str(), options));
    write_options_file(&**env.fs(), dir, 1, 2, &loaded.db, families).unwrap();
    load_latest_options(&**env.fs(), dir, &ConfigOptions::default()).unwrap();
}
