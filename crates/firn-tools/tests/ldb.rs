//! The commands of `ldb` that open a database, against RocksDB's own over copies of the golden databases.

mod common;

use std::path::{Path, PathBuf};

use firn_format::filename;
use firn_format::log::{LogEncoder, LogFormat};
use firn_format::version_edit::VersionEdit;
use firndb_testing::{golden, rocksdb_tool};

/// Kinds that Firn refuses.
const REFUSED: [&str; 5] = ["blob", "cuckoo", "plain-table", "timestamps", "wide-columns"];

fn ours() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_ldb"))
}

fn arguments(database: &Path, words: &[&str]) -> Vec<String> {
    let mut arguments = vec![format!("--db={}", database.display())];
    arguments.extend(words.iter().map(|word| (*word).to_owned()));
    arguments
}

/// The output with the separator of RocksDB 8.7 and later.
fn lines(out: &[u8]) -> Vec<String> {
    common::lines_without(out, &[]).iter().map(|line| line.replacen(" : ", " ==> ", 1)).collect()
}

fn compare(theirs: &Path, database: &Path, words: &[&str]) {
    let arguments = arguments(database, words);
    let what = format!("ldb {}", arguments.join(" "));
    let (ours, theirs) = (common::run(ours(), &arguments), common::run(theirs, &arguments));
    assert_eq!((&ours.err, ours.status), (&theirs.err, theirs.status), "{what}");
    common::assert_same_lines(&lines(&ours.out), &lines(&theirs.out), &what);
}

/// A writable copy of each golden database that both tools read.
fn copies(to: &Path, without: &[&str]) -> Vec<PathBuf> {
    let without: Vec<&str> = REFUSED.iter().chain(without).copied().collect();
    let mut copies = Vec::new();
    for database in common::databases_of_7_8(&without) {
        let name = database.parent().and_then(Path::file_name).expect("a name").to_owned();
        let copy = to.join(name);
        common::copy(&database, &copy);
        copies.push(copy);
    }
    copies
}

#[test]
fn every_golden_database_shows_the_same() {
    let Some(theirs) = rocksdb_tool("ldb") else { return };
    let dir = tempfile::tempdir().expect("a directory");
    // Undecided transactions are told apart by their write policy, which RocksDB's tool does not know here.
    for database in copies(dir.path(), &["txn-"]) {
        for words in [
            &["scan", "--hex"][..],
            &["dump", "--max_keys=100"],
            &["idump", "--hex"],
            &["dump", "--count_only"],
            &["list_live_files_metadata"],
            &["list_file_range_deletes"],
            &["checkconsistency"],
            &["get_property", "rocksdb.levelstats"],
        ] {
            compare(&theirs, &database, words);
        }
    }
}

#[test]
fn ranges_counts_and_families_show_the_same() {
    let Some(theirs) = rocksdb_tool("ldb") else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let copy = dir.path().join("cf");
    common::copy(&golden().join("r7.8-column-families").join("db"), &copy);
    for words in [
        &["scan", "--from=key00000010", "--to=key00000020"][..],
        &["scan", "--max_keys=0"],
        &["scan", "--max_keys=3", "--no_value"],
        &["scan", "--column_family=zstd-append"],
        &["scan", "--column_family=nonesuch"],
        &["dump", "--count_delim=5"],
        &["idump", "--count_delim=5", "--max_keys=70"],
        &["idump", "--count_only"],
        &["get", "key00000012"],
        &["get"],
        &["approxsize", "--from=key0", "--to=key3"],
        &["list_live_files_metadata", "--sort_by_filename"],
        &["get_property", "rocksdb.nonesuch"],
        &["put", "a"],
        &["batchput"],
        &["batchput", "a", "b", "c"],
        &["deleterange", "a"],
        &["delete"],
    ] {
        compare(&theirs, &copy, words);
    }
}

#[test]
fn what_one_tool_writes_the_other_reads() {
    let Some(theirs) = rocksdb_tool("ldb") else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let database = dir.path().join("db");
    let run = |tool: &Path, words: &[&str]| {
        let run = common::run(tool, &arguments(&database, words));
        assert_eq!(run.status, Some(0), "{words:?}: {}", run.err);
        lines(&run.out)
    };
    // RocksDB 7.8 creates the database, so that its options name a table format that both write.
    assert_eq!(run(&theirs, &["put", "--create_if_missing", "a", "0"]), ["OK"]);
    assert_eq!(run(ours(), &["put", "a", "1"]), ["OK"]);
    assert_eq!(run(&theirs, &["batchput", "b", "2", "c", "3"]), ["OK"]);
    assert_eq!(run(ours(), &["batchput", "--hex", "0x64", "0x34", "0x65", "0x00"]), ["OK"]);
    assert_eq!(run(ours(), &["delete", "b"]), ["OK"]);
    assert_eq!(run(ours(), &["deleterange", "c", "d"]), ["OK"]);
    assert_eq!(run(ours(), &["create_column_family", "more"]), ["OK"]);
    assert_eq!(run(ours(), &["--column_family=more", "put", "x", "y"]), ["OK"]);
    for tool in [ours(), &theirs] {
        assert_eq!(run(tool, &["scan", "--hex"]), ["0x61 ==> 0x31", "0x64 ==> 0x34", "0x65 ==> 0x00"]);
        assert_eq!(run(tool, &["scan", "--column_family=more"]), ["x ==> y"]);
        assert_eq!(run(tool, &["checkconsistency"]), ["OK"]);
    }
    assert_eq!(run(ours(), &["multi_get", "a", "b"]), ["a ==> 1", "Key not found: b"]);
    assert_eq!(run(ours(), &["get", "b"]), ["Key not found"]);
    assert_eq!(run(ours(), &["drop_column_family", "more"]), ["OK"]);
    let families = run(&theirs, &["list_column_families"]);
    assert_eq!(families.last().map(String::as_str), Some("{default}"));
}

#[test]
fn load_and_query_take_their_input() {
    let dir = tempfile::tempdir().expect("a directory");
    let database = format!("--db={}", dir.path().join("db").display());
    let run = |words: &[&str], input: &str| {
        let mut arguments = vec![database.clone()];
        arguments.extend(words.iter().map(|word| (*word).to_owned()));
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let status = firn_tools::ldb::run(&arguments, &mut out, &mut err, &mut input.as_bytes());
        assert_eq!((status, String::from_utf8_lossy(&err).as_ref()), (0, ""));
        String::from_utf8_lossy(&out).into_owned()
    };
    let dumped = "a ==> 1\nb ==> 2 ==> 3\nnonsense\nKeys in range: 2\n";
    assert_eq!(run(&["load", "--create_if_missing"], dumped), "Warning: 1 bad lines ignored.\n");
    assert_eq!(run(&["dump"], ""), "a ==> 1\nb ==> 2 ==> 3\nKeys in range: 2\n");
    assert_eq!(
        run(&["query"], "get a\nput c 4\ndelete a\nget a\ncount\ncount --from=c\nput c\nbogus\n"),
        "a ==> 1\nput c => 4 succeeded\ndelete a succeeded\nget a status: NotFound: \n2\n1\nput gets invalid arguments\n\
         Unknown command bogus\n"
    );
}

#[test]
fn checkpoints_are_made_and_refused_as_rocksdb_does() {
    let Some(theirs) = rocksdb_tool("ldb") else { return };
    let dir = tempfile::tempdir().expect("a directory");
    for (number, database) in copies(dir.path(), &["txn-"]).into_iter().step_by(5).enumerate() {
        let copy = dir.path().join(format!("checkpoint-{number}"));
        let flag = format!("--checkpoint_dir={}", copy.display());
        let said = |run: common::Run| (String::from_utf8_lossy(&run.out).into_owned(), run.err, run.status);
        let made = said(common::run(ours(), &arguments(&database, &["checkpoint", &flag])));
        assert_eq!(made, ("OK\n".to_owned(), String::new(), Some(0)), "{}", database.display());
        // Both refuse the second one, and one without a directory, with the same words.
        compare(&theirs, &database, &["checkpoint", &flag]);
        compare(&theirs, &database, &["checkpoint"]);
        let scan = |path: &Path| common::run(&theirs, &arguments(path, &["--try_load_options", "dump", "--hex"]));
        assert_eq!(scan(&copy), scan(&database), "{}", database.display());
    }
}

#[test]
fn external_files_go_from_one_tool_to_the_other() {
    let Some(theirs) = rocksdb_tool("ldb") else { return };
    for (writer, reader) in [(ours(), theirs.as_path()), (&theirs, ours())] {
        let dir = tempfile::tempdir().expect("a directory");
        let (database, file) = (dir.path().join("db"), dir.path().join("external.sst"));
        let file = file.to_str().expect("text");
        let run = |tool: &Path, words: &[&str], input: &str| {
            common::run_with_input(tool, &arguments(&database, words), input)
        };
        let created = run(&theirs, &["put", "--create_if_missing", "b", "old"], "");
        assert_eq!(created.status, Some(0), "{}", created.err);
        let written = run(writer, &["write_extern_sst", file], "a ==> 1\nb ==> 2\nnonsense\nKeys in range: 2\n");
        let said = format!("Warning: 1 bad lines ignored.\nexternal SST file written to {file}\n");
        assert_eq!((written.err, written.out.len(), written.status), (said, 0, Some(0)));
        let ingested = run(reader, &["ingest_extern_sst", file, "--move_files"], "");
        assert_eq!((ingested.err.as_str(), ingested.status), ("external SST files ingested\n", Some(0)));
        assert!(!Path::new(file).exists(), "it was moved");
        for tool in [ours(), &theirs] {
            assert_eq!(lines(&run(tool, &["scan"], "").out), ["a ==> 1", "b ==> 2"]);
            assert_eq!(lines(&run(tool, &["checkconsistency"], "").out), ["OK"]);
        }
    }
}

#[test]
fn refused_external_files_are_told_alike() {
    let Some(theirs) = rocksdb_tool("ldb") else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let database = dir.path().join("db");
    let file = dir.path().join("external.sst");
    let file = file.to_str().expect("text");
    let run =
        |tool: &Path, words: &[&str], input: &str| common::run_with_input(tool, &arguments(&database, words), input);
    run(&theirs, &["put", "--create_if_missing", "b", "old"], "");
    for (words, input) in [
        (&["write_extern_sst"][..], ""),
        (&["write_extern_sst", file], "b ==> 1\na ==> 1\n"),
        (&["write_extern_sst", file], ""),
        (&["ingest_extern_sst"], ""),
        (&["ingest_extern_sst", file, "--allow_global_seqno=false"], ""),
        (&["write_extern_sst", file], "b ==> 1\n"),
        (&["ingest_extern_sst", file, "--allow_global_seqno=false", "--write_global_seqno=false"], ""),
        (&["ingest_extern_sst", file, "--ingest_behind"], ""),
        (&["ingest_extern_sst", file, "--write_global_seqno=false"], ""),
    ] {
        let (ours, theirs) = (run(ours(), words, input), run(&theirs, words, input));
        assert_eq!((ours.err, ours.status), (theirs.err, theirs.status), "{words:?}");
    }
}

fn tell_options(database: &Path, from: &str, to: &str) {
    let env = firn_env::Env::shared();
    let names = env.fs().children(database).expect("children");
    let name = names.into_iter().filter(|name| name.starts_with("OPTIONS")).max().expect("an OPTIONS file");
    let text = firn_env::read_file(&**env.fs(), &database.join(&name), 1 << 20).expect("read");
    let text = String::from_utf8(text).expect("text");
    let line = text.lines().find(|line| line.trim().starts_with(from)).expect("the option").to_owned();
    let text = text.replace(&line, &format!("  {to}"));
    firn_env::write_file(&**env.fs(), &database.join(name), text.as_bytes(), false).expect("write");
}

/// Merge operands of an operator that the tool does not know are joined with `:`, and nothing of the WAL is lost.
#[test]
fn operands_of_unknown_operators_are_kept_and_shown_alike() {
    let Some(theirs) = rocksdb_tool("ldb") else { return };
    let dir = tempfile::tempdir().expect("a directory");
    for (name, operator, more) in [
        ("r7.8-merge-uint64add", "merge_operator=my.CustomOperator", None),
        ("r7.8-merge-max", "merge_operator=nullptr", None),
        ("r7.8-merge-stringappend", "merge_operator=nullptr", Some("--try_load_options=false")),
    ] {
        let database = golden().join(name).join("db");
        if !database.is_dir() {
            continue;
        }
        let copies = ["ours", "theirs"].map(|whose| dir.path().join(format!("{whose}-{name}")));
        for copy in &copies {
            common::copy(&database, copy);
            tell_options(copy, "merge_operator=", operator);
        }
        for words in
            [&["scan", "--hex"][..], &["put", "new", "value"], &["scan", "--hex"], &["compact"], &["scan", "--hex"]]
        {
            let words: Vec<&str> = words.iter().copied().chain(more).collect();
            let said = [(ours(), &copies[0]), (theirs.as_path(), &copies[1])]
                .map(|(tool, copy)| common::run(tool, &arguments(copy, &words)));
            assert_eq!((&said[0].err, said[0].status), (&said[1].err, said[1].status), "{name}: {words:?}");
            common::assert_same_lines(&lines(&said[0].out), &lines(&said[1].out), &format!("{name}: {words:?}"));
        }
    }
}

/// `CURRENT` may name the MANIFEST with a slash before it.
#[test]
fn current_may_begin_with_a_slash() {
    let dir = tempfile::tempdir().expect("a directory");
    let copy = dir.path().join("db");
    common::copy(&golden().join("r7.8-column-families").join("db"), &copy);
    let scan = arguments(&copy, &["scan", "--hex"]);
    let before = common::run(ours(), &scan);
    let env = firn_env::Env::shared();
    let current = copy.join("CURRENT");
    let name = firn_env::read_file(&**env.fs(), &current, 100).expect("read");
    firn_env::write_file(&**env.fs(), &current, &[&b"/"[..], &name].concat(), false).expect("write");
    let after = common::run(ours(), &scan);
    assert_eq!((after.status, &after.out), (Some(0), &before.out), "{}", after.err);
}

/// A name that the MANIFEST has twice is damage of the MANIFEST, whatever is to be done.
#[test]
fn a_family_that_is_added_twice_is_blamed_on_the_manifest() {
    let dir = tempfile::tempdir().expect("a directory");
    let copy = dir.path().join("db");
    let mut options = firndb::Options::default();
    options.db.create_if_missing = true;
    let db = firndb::Db::open(&copy, options.clone()).expect("open");
    drop(db.create_cf("other", options.cf).expect("a family"));
    db.close().expect("close");
    drop(db);
    let env = firn_env::Env::shared();
    let number = firndb::version::read_current(&**env.fs(), &copy).expect("CURRENT");
    let path = copy.join(filename::manifest(number));
    let mut encoder = LogEncoder::new(LogFormat::default()).expect("an encoder");
    let (mut bytes, mut added) = (Vec::new(), VersionEdit::default());
    encoder.start(&mut bytes);
    firndb::version::read_manifest(&**env.fs(), &path, |edit, _| {
        encoder.append_record(&mut bytes, &edit.encode()?)?;
        if edit.column_family_add.is_some() {
            added = edit;
        }
        Ok(())
    })
    .expect("the MANIFEST");
    added.column_family += 100;
    encoder.append_record(&mut bytes, &added.encode().expect("an edit")).expect("a record");
    firn_env::write_file(&**env.fs(), &path, &bytes, false).expect("write");
    for words in [&["scan"][..], &["put", "key", "value"], &["put", "key", "value", "--try_load_options=false"]] {
        let said = common::run(ours(), &arguments(&copy, words));
        assert_eq!(said.status, Some(1), "{words:?}");
        for part in ["Corruption", "the same column family twice", "MANIFEST-"] {
            assert!(said.err.contains(part), "{words:?}: {}", said.err);
        }
    }
}

/// Only who knows the operator can merge operands for good.
#[test]
fn repair_keeps_operands_of_unknown_operators_as_they_are() {
    let dir = tempfile::tempdir().expect("a directory");
    let database = dir.path().join("db");
    let mut options = firndb::Options::default();
    options.db.create_if_missing = true;
    options.cf.merge_operator = firndb::merge::built_in("uint64add", None);
    let number = |number: u64| number.to_le_bytes();
    let db = firndb::Db::open(&database, options.clone()).expect("open");
    db.put("in a table", number(1)).expect("put");
    db.flush(&firndb::FlushOptions::default(), db.default_cf()).expect("flush");
    db.put("in the log", number(1)).expect("put");
    for operand in 2..5 {
        for key in ["in a table", "in the log", "without a base"] {
            db.merge(key, number(operand)).expect("merge");
        }
    }
    db.close().expect("close");
    drop(db);
    tell_options(&database, "merge_operator=", "merge_operator=my.CustomOperator");
    let said = common::run(ours(), &arguments(&database, &["repair"]));
    assert_eq!((said.status, said.err.as_str()), (Some(0), ""));
    let db = firndb::Db::open(&database, options).expect("open");
    for (key, sum) in [("in a table", 10), ("in the log", 10), ("without a base", 9)] {
        assert_eq!(db.get(key).expect("get").as_deref(), Some(&number(sum)[..]), "{key}");
    }
}

/// What is refused stays as it was, whatever the command.
#[test]
fn refused_databases_are_left_as_they_were() {
    let dir = tempfile::tempdir().expect("a directory");
    let env = firn_env::Env::shared();
    let files = |database: &Path| -> Vec<(String, Vec<u8>)> {
        let mut names = env.fs().children(database).expect("children");
        names.sort();
        names.retain(|name| name != "LOCK");
        let read = |name: &String| firn_env::read_file(&**env.fs(), &database.join(name), 1 << 30).expect("read");
        names.iter().map(|name| (name.clone(), read(name))).collect()
    };
    for name in
        ["r7.8-txn-write-prepared", "r11.9-txn-write-prepared", "r7.8-blob", "r7.8-wide-columns", "r7.8-plain-table"]
    {
        let database = golden().join(name).join("db");
        if !database.is_dir() {
            continue;
        }
        let copy = dir.path().join(name);
        common::copy(&database, &copy);
        let before = files(&copy);
        for words in [
            &["scan"][..],
            &["get", "a"],
            &["put", "a", "b"],
            &["compact"],
            &["repair"],
            &["put", "a", "b", "--try_load_options=false"],
        ] {
            let said = common::run(ours(), &arguments(&copy, words));
            assert_eq!(said.status, Some(1), "{name}: {words:?}: {}", said.err);
            assert!(files(&copy) == before, "{name}: {words:?} changed something: {}", said.err);
        }
    }
}

#[test]
fn the_compaction_style_changes_beside_further_families() {
    let dir = tempfile::tempdir().expect("a directory");
    let copy = dir.path().join("cf");
    common::copy(&golden().join("r7.8-column-families").join("db"), &copy);
    let before = lines(&common::run(ours(), &arguments(&copy, &["scan", "--hex"])).out);
    let words = ["change_compaction_style", "--old_compaction_style=0", "--new_compaction_style=1"];
    let said = common::run(ours(), &arguments(&copy, &words));
    assert_eq!(said.status, Some(0), "{}", said.err);
    assert_eq!(lines(&common::run(ours(), &arguments(&copy, &["scan", "--hex"])).out), before);
}

/// Databases without MANIFEST and CURRENT, repaired by Firn's tool, show RocksDB's what they showed before.
#[test]
#[allow(clippy::disallowed_methods, reason = "a test changes files")]
fn rocksdb_reads_what_repair_saved() {
    let Some(theirs) = rocksdb_tool("ldb") else { return };
    let dir = tempfile::tempdir().expect("a directory");
    for name in ["r7.8-column-families", "r7.8-merge-stringappend", "r7.8-compression-zstd"] {
        let database = golden().join(name).join("db");
        if !database.is_dir() {
            continue;
        }
        let copy = dir.path().join(name);
        common::copy(&database, &copy);
        let scan = arguments(&copy, &["scan", "--hex"]);
        let before = lines(&common::run(&theirs, &scan).out);
        for file in std::fs::read_dir(&copy).expect("a directory").map(|entry| entry.expect("an entry").path()) {
            let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name == "CURRENT" || name.starts_with("MANIFEST") {
                std::fs::remove_file(&file).expect("a removal");
            }
        }
        let repaired = common::run(ours(), &arguments(&copy, &["repair", "--verbose"]));
        assert_eq!(
            (String::from_utf8_lossy(&repaired.out).trim(), repaired.status),
            ("OK", Some(0)),
            "{}",
            repaired.err
        );
        assert!(repaired.err.contains("kept") || repaired.err.contains("turned into tables"), "{}", repaired.err);
        assert_eq!(lines(&common::run(&theirs, &scan).out), before, "{name}");
    }
}

/// What changes the tree or the MANIFEST says and does what RocksDB's tool does.
#[test]
#[allow(clippy::disallowed_methods, reason = "a test changes files")]
fn surgery_is_done_alike() {
    let Some(theirs) = rocksdb_tool("ldb") else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let deep = golden().join("r7.8-dynamic-levels").join("db");
    let original = dir.path().join("original");
    for round in 0..3 {
        let run = |words: &[&str], input: &str| common::run_with_input(&theirs, &arguments(&original, words), input);
        let loaded =
            run(&["load", "--create_if_missing", "--disable_wal"], &format!("a ==> {round}\nb{round} ==> {round}\n"));
        assert_eq!(loaded.status, Some(0), "{}", loaded.err);
        if round == 0 {
            assert_eq!(run(&["compact"], "").status, Some(0));
        }
    }
    let live = |database: &Path| lines(&common::run(&theirs, &arguments(database, &["list_live_files_metadata"])).out);
    let file = live(&original).iter().find_map(|line| {
        let number = line.split(".sst").next()?.rsplit('/').next()?;
        line.contains(".sst").then(|| number.to_owned())
    });
    let file = file.expect("a table");
    for words in [
        &["reduce_levels"][..],
        &["reduce_levels", "--new_levels=0"],
        &["reduce_levels", "--new_levels=4", "--print_old_levels"],
        &["reduce_levels", "--new_levels=1", "--print_old_levels"],
        &["reduce_levels", "--new_levels=3", "--print_old_levels"],
        &["change_compaction_style"],
        &["change_compaction_style", "--old_compaction_style=0"],
        &["change_compaction_style", "--old_compaction_style=0", "--new_compaction_style=0"],
        &["change_compaction_style", "--old_compaction_style=1", "--new_compaction_style=0"],
        &["change_compaction_style", "--old_compaction_style=0", "--new_compaction_style=1"],
        &["unsafe_remove_sst_file"],
        &["unsafe_remove_sst_file", "nine"],
        &["unsafe_remove_sst_file", "999"],
        &["unsafe_remove_sst_file", &file],
        &["update_manifest"],
        &["update_manifest", "--update_temperatures"],
    ] {
        let (for_ours, for_theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
        let source = if words.contains(&"--new_levels=3") { &deep } else { &original };
        for copy in [&for_ours, &for_theirs] {
            let _ = std::fs::remove_dir_all(copy);
            common::copy(source, copy);
        }
        let (our, their) =
            (common::run(ours(), &arguments(&for_ours, words)), common::run(&theirs, &arguments(&for_theirs, words)));
        let said = |err: &str| {
            let lines = err.lines().filter(|line| !line.contains("[WARN]") && !line.is_empty());
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(
            (lines(&our.out), said(&our.err), our.status),
            (lines(&their.out), said(&their.err), their.status),
            "{words:?}"
        );
        let show = |tool: &Path, database: &Path| lines(&common::run(tool, &arguments(database, &["scan"])).out);
        let shown = show(&theirs, &for_theirs);
        assert_eq!(show(&theirs, &for_ours), shown, "{words:?}");
        assert_eq!(show(ours(), &for_ours), shown, "{words:?}");
        let levels = |database: &Path| {
            lines(&common::run(&theirs, &arguments(database, &["get_property", "rocksdb.levelstats"])).out)
        };
        let used_levels = |database: &Path| {
            let rows = levels(database);
            // How many files there are depends on where outputs are cut.
            let used = |row: &String| {
                let mut words = row.split_whitespace();
                let level = words.next()?.parse::<u32>().ok()?;
                words.next().filter(|count| *count != "0").map(|_| level)
            };
            rows.iter().filter_map(used).collect::<Vec<_>>()
        };
        assert_eq!(used_levels(&for_ours), used_levels(&for_theirs), "{words:?}");
    }
}

/// The same files, entries and records; properties and the names of MANIFESTs differ with the version.
#[test]
fn live_files_are_dumped_alike() {
    let Some(theirs) = rocksdb_tool("ldb") else { return };
    let dir = tempfile::tempdir().expect("a directory");
    for name in ["r7.8-column-families", "r7.8-merge-stringappend", "r7.8-dynamic-levels"] {
        let copy = dir.path().join(name);
        common::copy(&golden().join(name).join("db"), &copy);
        let words = arguments(&copy, &["dump_live_files"]);
        let (ours, theirs) = (common::run(ours(), &words), common::run(&theirs, &words));
        assert_eq!(ours.status, theirs.status, "{name}: {}", ours.err);
        let shown = |out: &[u8]| {
            let mut in_properties = false;
            let mut shown = Vec::new();
            for line in lines(out) {
                in_properties = (in_properties || line == "Table Properties:") && !line.is_empty();
                let is_newer = line.starts_with("By default, manifest file dump");
                if !in_properties && !is_newer && !line.contains("MANIFEST-") {
                    shown.push(line);
                }
            }
            shown
        };
        common::assert_same_lines(&shown(&ours.out), &shown(&theirs.out), name);
        assert!(lines(&ours.out).iter().any(|line| line.starts_with("# entries=")), "{name}");
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a test looks at files")]
fn a_wal_that_is_named_by_its_path_is_dumped_with_header_and_values() {
    let dir = tempfile::tempdir().expect("a directory");
    let database = dir.path().join("db");
    let put = common::run(ours(), &arguments(&database, &["--create_if_missing", "put", "a", "b"]));
    assert_eq!(put.status, Some(0), "{:?}", put.err);
    let wal = std::fs::read_dir(&database)
        .expect("a database")
        .map(|entry| entry.expect("an entry").path())
        .find(|path| path.extension().is_some_and(|extension| extension == "log"))
        .expect("a WAL");
    let dumped = common::run(ours(), &["dump".to_owned(), format!("--path={}", wal.display())]);
    let expected = "Sequence,Count,ByteSize,Physical Offset,Key(s) : value \n1,1,17,0,PUT(0) : 0x61 : 0x62 \n";
    assert_eq!((String::from_utf8_lossy(&dumped.out).as_ref(), dumped.status), (expected, Some(0)));
}

/// Options of the command line whose values RocksDB's tool refuses.
const REFUSED_VALUES: [&str; 40] = [
    "--bloom_bits=-1",
    "--bloom_bits=0",
    "--bloom_bits=x",
    "--bloom_bits=inf",
    "--fix_prefix_len=0",
    "--fix_prefix_len=-1",
    "--compression_type=nosuch",
    "--compression_type=none",
    "--blob_compression_type=none",
    "--compression_max_dict_bytes=-1",
    "--block_size=-1",
    "--block_size=0",
    "--block_size=x",
    "--block_size=99999999999",
    "--block_size=-99999999999",
    "--write_buffer_size=-1",
    "--write_buffer_size=0",
    "--write_buffer_size=99999999999",
    "--file_size=-1",
    "--file_size=0",
    "--file_size=99999999999",
    "--min_blob_size=-1",
    "--min_blob_size=x",
    "--min_blob_size=99999999999",
    "--blob_file_size=-1",
    "--blob_file_size=0",
    "--blob_compression_type=nosuch",
    "--blob_garbage_collection_age_cutoff=-0.5",
    "--blob_garbage_collection_age_cutoff=2",
    "--blob_garbage_collection_age_cutoff=nan",
    "--blob_garbage_collection_age_cutoff=x",
    "--blob_garbage_collection_force_threshold=-1",
    "--blob_garbage_collection_force_threshold=x",
    "--blob_compaction_readahead_size=-1",
    "--blob_compaction_readahead_size=0",
    "--blob_file_starting_level=-9",
    "--blob_file_starting_level=x",
    "--prepopulate_blob_cache=7",
    "--prepopulate_blob_cache=-1",
    "--prepopulate_blob_cache=x",
];

#[test]
fn values_that_rocksdb_refuses_are_refused_before_the_database_is_touched() {
    let dir = tempfile::tempdir().expect("a directory");
    let new = dir.path().join("new");
    for option in REFUSED_VALUES.iter().chain(&["--txn_write_policy=9", "--db_write_buffer_size=-1"]) {
        let put = common::run(ours(), &arguments(&new, &[option, "--create_if_missing", "put", "a", "b"]));
        assert_eq!((put.status, put.out.as_slice()), (Some(1), &b""[..]), "{option}: {}", put.err);
        let name = option.trim_start_matches('-').split('=').next().expect("a name");
        assert!(put.err.contains(name) || put.err.contains("compression algorithm"), "{option}: {}", put.err);
        assert!(!firn_env::Env::shared().fs().file_exists(&new).expect("a look"), "{option}");
    }
    let Some(theirs) = rocksdb_tool("ldb") else { return };
    let database = dir.path().join("db");
    assert_eq!(common::run(&theirs, &arguments(&database, &["--create_if_missing", "put", "a", "b"])).status, Some(0));
    for option in REFUSED_VALUES {
        compare(&theirs, &database, &[option, "get", "a"]);
    }
    for command in [
        &["put", "c", "d"][..],
        &["scan"],
        &["idump"],
        &["dump_live_files"],
        &["compact"],
        &["reduce_levels", "--new_levels=3"],
        &["list_column_families"],
        &["file_checksum_dump"],
    ] {
        compare(&theirs, &database, &[&["--fix_prefix_len=0"], command].concat());
    }
    for accepted in [
        "--min_blob_size=0",
        "--compression_type=",
        "--compression_max_dict_bytes=0",
        "--bloom_bits=9.9",
        "--compression_type=no",
    ] {
        compare(&theirs, &database, &[accepted, "get", "a"]);
    }
    compare(&theirs, &database, &["dump_live_files", "--column_family=nope"]);
    compare(&theirs, &database, &["drop_column_family", "nosuch"]);
    compare(&theirs, &database, &["drop_column_family", "default"]);
}

#[test]
fn blob_files_are_refused_before_a_database_is_made() {
    let dir = tempfile::tempdir().expect("a directory");
    let database = dir.path().join("db");
    for flag in ["--enable_blob_files", "--enable_blob_files=true"] {
        let run = common::run(ours(), &arguments(&database, &[flag, "--create_if_missing", "put", "a", "b"]));
        assert_eq!(run.err, "Failed: Not implemented: blob files (--enable_blob_files)\n");
        assert_eq!(run.status, Some(1));
        assert!(!firn_env::Env::shared().fs().file_exists(&database).expect("a look"));
    }
}

/// The lines about blob files in the newest OPTIONS file.
fn blob_options(database: &Path) -> Vec<String> {
    let env = firn_env::Env::shared();
    let mut names = env.fs().children(database).expect("children");
    names.retain(|name| name.starts_with("OPTIONS-"));
    names.sort();
    let newest = database.join(names.last().expect("an OPTIONS file"));
    let bytes = firn_env::read_file(&**env.fs(), &newest, 1 << 20).expect("read");
    let text = String::from_utf8_lossy(&bytes).into_owned();
    text.lines().filter(|line| line.contains("blob")).map(|line| line.trim().to_owned()).collect()
}

#[test]
fn options_of_blob_files_reach_the_options_file_as_with_rocksdb() {
    let Some(theirs) = rocksdb_tool("ldb") else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let words = [
        "--min_blob_size=7",
        "--blob_file_size=70000",
        "--blob_compression_type=zstd",
        "--enable_blob_garbage_collection",
        "--blob_garbage_collection_age_cutoff=0.5",
        "--blob_garbage_collection_force_threshold=0.75",
        "--blob_compaction_readahead_size=4096",
        "--blob_file_starting_level=2",
        "--prepopulate_blob_cache=1",
        "--create_if_missing",
        "put",
        "a",
        "b",
    ];
    let written = |tool: &Path, name: &str| {
        let database = dir.path().join(name);
        let run = common::run(tool, &arguments(&database, &words));
        assert_eq!(run.status, Some(0), "{}", run.err);
        blob_options(&database)
    };
    let (ours, theirs) = (written(ours(), "ours"), written(&theirs, "theirs"));
    assert_eq!(theirs.len(), 10, "{theirs:?}");
    for line in theirs {
        assert!(ours.contains(&line), "{line} is not in {ours:?}");
    }
}
