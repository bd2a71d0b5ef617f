//! The reference pages under `docs/` say what the declarations in the code say.
//!
//! Each page is made from the declared tables and compared with the file. `FIRN_BLESS=1 cargo test -p firndb --test
//! reference_pages` rewrites the files.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use firn_env::{Env, read_file, write_file};
use firn_format::compression::CompressionOptions;
use firn_format::options::{Dialect, OptionDescriptor, OptionSet, ValueKind};
use firn_table::options::{BlockBasedTableOptions, MetadataCacheOptions};
use firndb::options::{ColumnFamilyOptions, CompactionOptionsFifo, CompactionOptionsUniversal, DbOptions};
use firndb::stats::{HistogramKind, PROPERTIES, PropertyShape, Ticker};

const NOTICE: &str =
    "<!-- Made from the declarations in the code by `crates/firndb/tests/reference_pages.rs`; do not edit. -->\n";

fn check(page: &str, text: &str) {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let env = Env::shared();
    if std::env::var_os("FIRN_BLESS").is_some() {
        write_file(&**env.fs(), &path, text.as_bytes(), false).expect("docs is writable");
    }
    let found = read_file(&**env.fs(), &path, 8 << 20).expect("the page is there");
    let same = found == text.as_bytes();
    assert!(same, "docs/{page} is out of date; run FIRN_BLESS=1 cargo test -p firndb --test reference_pages");
}

fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn kind(descriptor: &OptionDescriptor) -> String {
    let choices = (descriptor.choices)();
    match descriptor.kind {
        ValueKind::Bool => "boolean".into(),
        ValueKind::Int => "integer".into(),
        ValueKind::Uint => "unsigned integer".into(),
        ValueKind::Double => "number".into(),
        ValueKind::Text => "text".into(),
        ValueKind::Enum => choices.iter().map(|choice| format!("`{choice}`")).collect::<Vec<_>>().join(", "),
        ValueKind::List => "list".into(),
        ValueKind::Struct => "structure".into(),
        ValueKind::Object => "object".into(),
        ValueKind::Memory => "in memory only".into(),
    }
}

fn option_table<S: OptionSet>(page: &mut String, title: &str, introduction: &str) {
    let _ = write!(page, "\n## {title}\n\n{introduction}\n\n");
    page.push_str(
        "| Option | Default | Changeable | Effect | Values | Meaning |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    let default = S::default();
    for field in S::FIELDS {
        let descriptor = &field.descriptor;
        if descriptor.field == "kept" {
            continue;
        }
        let text = (field.print)(&default, Dialect::RocksDb11).filter(|text| text.len() <= 40);
        let value = match text {
            Some(text) if text.is_empty() => "empty".into(),
            Some(text) => format!("`{text}`"),
            None if descriptor.kind == ValueKind::Struct => "see below".into(),
            None => "none".into(),
        };
        let changeable = if descriptor.flags.mutable { "yes" } else { "no" };
        let effect = if descriptor.flags.inert { "none yet" } else { "yes" };
        let (name, values, doc) = (descriptor.name, kind(descriptor), cell(descriptor.doc));
        let _ = writeln!(page, "| `{name}` | {value} | {changeable} | {effect} | {values} | {doc} |");
    }
    if !S::RETIRED.is_empty() {
        let names: Vec<String> = S::RETIRED.iter().map(|name| format!("`{name}`")).collect();
        let _ = write!(page, "\nRetired names, read with any value and kept: {}.\n", names.join(", "));
    }
}

#[test]
fn options() {
    let mut page = String::from("# Options\n\n");
    page.push_str(NOTICE);
    page.push_str(
        "\nNames, defaults and strings are those of RocksDB 11.9; `format_version` defaults to 6. Defaults are those of a new \
         structure; opening a database moves values into their ranges and fills in derived ones. \"Changeable\" options can be \
         set while the database is open. Options whose effect is \"none yet\" are read, kept, written \
         and named in the info log when they are set.\n",
    );
    option_table::<DbOptions>(&mut page, "Of a database: `DbOptions`", "Section `[DBOptions]` of OPTIONS files.");
    option_table::<ColumnFamilyOptions>(
        &mut page,
        "Of a column family: `ColumnFamilyOptions`",
        "Sections `[CFOptions \"<name>\"]`.",
    );
    option_table::<BlockBasedTableOptions>(
        &mut page,
        "Of tables: `BlockBasedTableOptions`",
        "Sections `[TableOptions/BlockBasedTable \"<name>\"]`; changes hold for new files.",
    );
    option_table::<CompressionOptions>(
        &mut page,
        "Of compression: `CompressionOptions`",
        "Fields of `compression_opts`, `bottommost_compression_opts` and `blob_compression_opts`.",
    );
    option_table::<CompactionOptionsUniversal>(
        &mut page,
        "Of universal compaction: `CompactionOptionsUniversal`",
        "Fields of `compaction_options_universal`.",
    );
    option_table::<CompactionOptionsFifo>(
        &mut page,
        "Of FIFO compaction: `CompactionOptionsFifo`",
        "Fields of `compaction_options_fifo`.",
    );
    option_table::<MetadataCacheOptions>(
        &mut page,
        "Of pinned metadata: `MetadataCacheOptions`",
        "Fields of `metadata_cache_options`.",
    );
    check("options.md", &page);
}

#[test]
fn statistics() {
    let mut page = String::from("# Statistics and properties\n\n");
    page.push_str(NOTICE);
    page.push_str("\nNames and numbers are those of RocksDB 11.9.\n\n## Properties\n\n| Property | Answer | Meaning |\n| --- | --- | --- |\n");
    for property in PROPERTIES {
        let shape = match property.shape {
            PropertyShape::Integer => "integer",
            PropertyShape::Text => "text",
            PropertyShape::TextAndMap => "text, map",
        };
        let argument = if property.has_argument { "`<n>`" } else { "" };
        let _ = writeln!(page, "| `{}`{argument} | {shape} | {} |", property.name, cell(property.doc));
    }
    let _ = write!(page, "\n## Tickers\n\n| Number | Name |\n| --- | --- |\n");
    for ticker in Ticker::ALL {
        let _ = writeln!(page, "| {} | `{}` |", ticker.number(), ticker.name());
    }
    let _ = write!(page, "\n## Histograms\n\n| Number | Name |\n| --- | --- |\n");
    for histogram in HistogramKind::ALL {
        let _ = writeln!(page, "| {} | `{}` |", histogram.number(), histogram.name());
    }
    check("statistics.md", &page);
}
