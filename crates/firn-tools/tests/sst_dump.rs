//! `sst_dump` against RocksDB's own, over all table files of the golden databases that both can read.

mod common;

use std::path::{Path, PathBuf};

use firndb_testing::{golden, rocksdb_tool};

/// Lines that RocksDB 11 prints and 7.8 does not, and the address that differs from run to run.
const NEWER_LINES: [&str; 8] = [
    "options.env is",
    "compression rejected",
    "compression bypassed",
    "# uniform blocks",
    "timestamps persisted",
    "sequence number in file",
    "of newest key",
    "raw dump written",
];

fn tables(databases: &[PathBuf]) -> Vec<PathBuf> {
    let env = firn_env::Env::shared();
    let mut tables = Vec::new();
    for database in databases {
        let names = env.fs().children(database).expect("children");
        tables.extend(names.iter().filter(|name| name.ends_with(".sst")).map(|name| database.join(name)));
    }
    tables.sort();
    tables
}

fn compare(theirs: &Path, table: &Path, arguments: &[&str]) {
    let mut all = vec![format!("--file={}", table.display())];
    all.extend(arguments.iter().map(|argument| (*argument).to_owned()));
    let what = format!("sst_dump {}", all.join(" "));
    let (ours, theirs) = (common::run(Path::new(env!("CARGO_BIN_EXE_sst_dump")), &all), common::run(theirs, &all));
    assert_eq!((&ours.err, ours.status), (&theirs.err, theirs.status), "{what}");
    common::assert_same_lines(
        &common::lines_without(&ours.out, &NEWER_LINES),
        &common::lines_without(&theirs.out, &NEWER_LINES),
        &what,
    );
}

#[test]
fn rows_properties_and_verdicts_are_those_of_rocksdb() {
    let Some(theirs) = rocksdb_tool("sst_dump") else { return };
    let databases = common::databases_of_7_8(&["cuckoo", "plain-table", "timestamps"]);
    for table in tables(&databases) {
        compare(&theirs, &table, &["--command=scan", "--output_hex", "--show_properties"]);
        compare(&theirs, &table, &["--command=verify"]);
    }
}

#[test]
fn ranges_and_raw_text_are_those_of_rocksdb() {
    let Some(theirs) = rocksdb_tool("sst_dump") else { return };
    for kind in ["r7.8-default", "r7.8-delete-range", "r7.8-merge-uint64add", "r7.8-index-partitioned"] {
        for table in tables(&[golden().join(kind).join("db")]) {
            compare(&theirs, &table, &["--command=scan"]);
            compare(&theirs, &table, &["--command=scan", "--from=key00000400", "--to=key00000420"]);
            compare(&theirs, &table, &["--command=scan", "--prefix=key0000004"]);
            compare(
                &theirs,
                &table,
                &["--command=scan", "--input_key_hex", "--from=0x6B6579303030303034", "--read_num=5"],
            );
            compare(&theirs, &table, &["--command=check", "--show_summary"]);
            compare(&theirs, &table, &["--command=identify", "--show_properties"]);
        }
    }
}

#[test]
fn raw_dumps_are_those_of_rocksdb() {
    let Some(theirs) = rocksdb_tool("sst_dump") else { return };
    let env = firn_env::Env::shared();
    let dir = tempfile::tempdir().expect("a directory");
    for kind in ["r7.8-default", "r7.8-delete-range", "r7.8-bloom-10", "r7.8-compression-zlib"] {
        let copy = dir.path().join(kind);
        common::copy(&golden().join(kind).join("db"), &copy);
        for table in tables(&[copy]) {
            let arguments = [format!("--file={}", table.display()), "--command=raw".to_owned()];
            let dump = PathBuf::from(table.to_string_lossy().replace(".sst", "_dump.txt"));
            let read = || firn_env::read_file(&**env.fs(), &dump, 1 << 30).expect("the dump");
            assert_eq!(common::run(Path::new(env!("CARGO_BIN_EXE_sst_dump")), &arguments).status, Some(0));
            let ours = read();
            assert_eq!(common::run(&theirs, &arguments).status, Some(0));
            common::assert_same_lines(
                &common::lines_without(&ours, &NEWER_LINES),
                &common::lines_without(&read(), &NEWER_LINES),
                &dump.display().to_string(),
            );
        }
    }
}

#[test]
fn recompression_reads_back_and_reports() {
    let table = tables(&[golden().join("r7.8-default").join("db")]).remove(0);
    let run = common::run(
        Path::new(env!("CARGO_BIN_EXE_sst_dump")),
        &[
            format!("--file={}", table.display()),
            "--command=recompress".to_owned(),
            "--compression_types=kZSTD,kNoCompression".to_owned(),
        ],
    );
    let lines = common::lines_without(&run.out, &[]);
    assert_eq!((run.status, run.err.as_str()), (Some(0), ""));
    assert!(lines.iter().any(|line| line == "Compression: kZSTD                    Block Size: 16384  Threads: 1"));
    assert_eq!(lines.iter().filter(|line| line.starts_with("Cx level: 32767 Cx size: ")).count(), 2);
}

#[test]
fn lists_of_compression_types_are_taken_as_rocksdb_takes_them() {
    let table = tables(&[golden().join("r7.8-default").join("db")]).remove(0);
    let ours = Path::new(env!("CARGO_BIN_EXE_sst_dump"));
    let arguments = |list: &str| {
        let list = format!("--compression_types={list}");
        [format!("--file={}", table.display()), "--command=recompress".to_owned(), list]
    };
    for list in ["kBogus", "kSnappyCompression,kBogus", "kBogus,", "kNoCompression,,kSnappyCompression"] {
        let run = common::run(ours, &arguments(list));
        assert_eq!((run.status, run.out.as_slice()), (Some(1), &b""[..]), "{list}");
        if let Some(theirs) = rocksdb_tool("sst_dump") {
            assert_eq!(run, common::run(&theirs, &arguments(list)), "{list}");
        }
    }
    for (list, kinds) in [("kNoCompression,", 1), ("kNoCompression,kSnappyCompression", 2), ("", 6)] {
        let run = common::run(ours, &arguments(list));
        assert_eq!(run.status, Some(0), "{list}: {}", run.err);
        let tried =
            common::lines_without(&run.out, &[]).iter().filter(|line| line.starts_with("Compression: ")).count();
        assert!(tried >= kinds, "{list}: {tried}");
    }
}
