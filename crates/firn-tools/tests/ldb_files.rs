//! The commands of `ldb` that read files without opening a database, against RocksDB's own over the golden databases.

mod common;

use std::path::{Path, PathBuf};

use firndb_testing::rocksdb_tool;

fn ours() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_ldb"))
}

/// Removes what RocksDB 11 prints in the description of a file and 7.8 does not.
fn without_newer_fields(line: &str) -> String {
    let mut line = line.to_owned();
    for label in [" epoch_number:", " tail size: ", " User-defined timestamps persisted: "] {
        if let Some(start) = line.find(label) {
            let value = start + label.len();
            let end = line[value..].find(' ').map_or(line.len(), |length| value + length);
            line.replace_range(start..end, "");
        }
    }
    line
}

fn compare(theirs: &Path, arguments: &[String]) {
    let what = format!("ldb {}", arguments.join(" "));
    let (ours, theirs) = (common::run(ours(), arguments), common::run(theirs, arguments));
    assert_eq!((&ours.err, ours.status), (&theirs.err, theirs.status), "{what}");
    let clean = |out: &[u8]| -> Vec<String> {
        let lines = common::lines_without(out, &["By default, manifest file dump"]);
        lines.iter().map(|line| without_newer_fields(line)).collect()
    };
    common::assert_same_lines(&clean(&ours.out), &clean(&theirs.out), &what);
}

fn names_with(database: &Path, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let names = firn_env::Env::shared().fs().children(database).expect("children");
    names.iter().filter(|name| wanted(name)).map(|name| database.join(name)).collect()
}

#[test]
fn manifests_read_as_rocksdb_reads_them() {
    let Some(theirs) = rocksdb_tool("ldb") else { return };
    for database in common::databases_of_7_8(&[]) {
        for manifest in names_with(&database, |name| name.starts_with("MANIFEST-")) {
            let path = format!("--path={}", manifest.display());
            compare(&theirs, &["manifest_dump".to_owned(), path.clone()]);
            compare(&theirs, &["manifest_dump".to_owned(), path.clone(), "--json".to_owned()]);
            compare(&theirs, &["manifest_dump".to_owned(), path, "--verbose".to_owned(), "--hex".to_owned()]);
        }
        compare(&theirs, &["list_column_families".to_owned(), format!("--db={}", database.display())]);
    }
}

#[test]
fn logs_read_as_rocksdb_reads_them() {
    let Some(theirs) = rocksdb_tool("ldb") else { return };
    // RocksDB 7.8 does not print log data, stops at entities and at write-prepared batches, and gives the offset of a
    // block's unusable tail instead of the record's.
    let without = ["wal-batches-logdata", "wal-compressed", "wide-columns", "txn-write-prepared"];
    for database in common::databases_of_7_8(&without) {
        for log in names_with(&database, |name| name.ends_with(".log")) {
            let path = format!("--walfile={}", log.display());
            compare(&theirs, &["dump_wal".to_owned(), path.clone()]);
            compare(&theirs, &["dump_wal".to_owned(), path, "--header".to_owned(), "--print_value".to_owned()]);
        }
    }
}

#[test]
fn mistakes_are_answered_as_rocksdb_answers_them() {
    let Some(theirs) = rocksdb_tool("ldb") else { return };
    for arguments in [
        vec!["--db=/nonexistent/db", "list_column_families", "--frob=1"],
        vec!["--db=/nonexistent/db", "list_column_families", "--frob"],
    ] {
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let first_line = |run: common::Run| (run.err.lines().next().map(str::to_owned), run.status);
        let what = arguments.join(" ");
        assert_eq!(first_line(common::run(ours(), &arguments)), first_line(common::run(&theirs, &arguments)), "{what}");
    }
}
