//! RocksDB's own `ldb` ingests what the stand-alone writer wrote, and reads it back.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use firn_env::{Env, FileOptions};
use firn_format::compression::CompressionType;
use firn_format::filter::FilterPolicy;
use firn_format::unique_id::encode_session_id;
use firn_table::options::BlockBasedTableOptions;
use firn_table::{SstFileWriter, TableBuilderOptions};
use firndb_testing::rocksdb_tool;

fn ldb(arguments: &[&str]) -> Option<String> {
    let output = Command::new(rocksdb_tool("ldb")?).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{arguments:?}: {text} {}", String::from_utf8_lossy(&output.stderr));
    Some(text)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn rocksdb_ingests_external_files() {
    let directory = tempfile::tempdir().unwrap();
    let (db, sst) = (directory.path().join("db"), directory.path().join("external.sst"));
    let db_argument = format!("--db={}", text(&db));
    if ldb(&[&db_argument, "--create_if_missing", "put", "key0500", "old"]).is_none() {
        return;
    }
    let mut writer = SstFileWriter::new(
        Env::posix(),
        FileOptions::default(),
        encode_session_id(0x1234, 0x5678),
        Box::new(|| TableBuilderOptions {
            table: BlockBasedTableOptions {
                format_version: 5,
                filter_policy: Some(FilterPolicy::bloom(10.0)),
                ..BlockBasedTableOptions::default()
            },
            compression: CompressionType::Snappy,
            ..TableBuilderOptions::default()
        }),
    );
    writer.open(&sst).unwrap();
    for i in 0..1000 {
        if i != 3 {
            writer.put(format!("key{i:04}").as_bytes(), format!("value{i}").as_bytes()).unwrap();
        }
    }
    assert_eq!(writer.finish().unwrap().num_entries, 999);
    ldb(&[&db_argument, "ingest_extern_sst", text(&sst)]).unwrap();
    let expected: String = (0..1000).filter(|i| *i != 3).map(|i| format!("key{i:04} : value{i}\n")).collect();
    assert_eq!(ldb(&[&db_argument, "scan"]).unwrap(), expected);
}
