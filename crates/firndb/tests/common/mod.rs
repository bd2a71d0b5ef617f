//! What the tests of the whole store share: golden databases, copies of directories, scans, and RocksDB's own tools.
//!
//! A test that needs RocksDB beside it is skipped with a notice where that is missing, unless `FIRN_REQUIRE_INTEROP` is
//! set: then it fails.

#![allow(dead_code, unreachable_pub, reason = "every test binary uses its own part")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use firn_env::posix::PosixFileSystem;
use firn_env::{FileSystem, create_dir_all, read_file, write_file};
use firndb::options::{ConfigOptions, LoadedOptions, load_latest_options};
use firndb::{ColumnFamily, ColumnFamilyDescriptor, ColumnFamilyOptions, Db, DbOptions, ReadOptions, Result};

/// The entries of one column family in iterator order.
pub type Entries = Vec<(Vec<u8>, Vec<u8>)>;
/// The entries of every column family by name.
pub type Contents = BTreeMap<String, Entries>;

pub const FS: PosixFileSystem = PosixFileSystem;

/// A golden database.
#[derive(Clone, Debug)]
pub struct Golden {
    /// Such as `r7.8-default`.
    pub name: String,
    /// The folder that holds `db/` and `expected.tsv`.
    pub dir: PathBuf,
}

impl Golden {
    /// Why databases of this kind are refused, if they are.
    pub fn refused(&self) -> bool {
        let kind = self.name.split_once('-').map_or(&*self.name, |(_, kind)| kind);
        ["blob", "wide-columns", "plain-table", "cuckoo-table", "timestamps", "txn-write-prepared"]
            .iter()
            .any(|k| kind.starts_with(k))
    }

    pub fn db(&self) -> PathBuf {
        self.dir.join("db")
    }

    /// What RocksDB read from it.
    pub fn expected(&self) -> Contents {
        let bytes = read_file(&FS, &self.dir.join("expected.tsv"), u64::MAX).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let mut contents = Contents::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let mut fields = line.split('\t');
            let mut field = || fields.next().unwrap_or_else(|| panic!("{}: short line {line:?}", self.name));
            let (cf, key, value) = (field(), from_hex(field()), from_hex(field()));
            contents.entry(cf.to_owned()).or_default().push((key, value));
        }
        contents
    }
}

/// All golden databases whose names start with `prefix`, sorted.
pub fn goldens(prefix: &str) -> Vec<Golden> {
    let root = firndb_testing::golden();
    let mut all: Vec<Golden> = FS
        .children(root)
        .unwrap()
        .into_iter()
        .filter(|name| name.starts_with(prefix))
        .map(|name| Golden { dir: root.join(&name), name })
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(!all.is_empty(), "no golden database starts with {prefix}");
    all
}

fn from_hex(text: &str) -> Vec<u8> {
    if text == "-" {
        return Vec::new();
    }
    assert!(text.len().is_multiple_of(2), "odd hex {text:?}");
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

/// Copies a directory and everything below it.
pub fn copy_dir(from: &Path, to: &Path) {
    create_dir_all(&FS, to).unwrap();
    for name in FS.children(from).unwrap() {
        let (source, target) = (from.join(&name), to.join(&name));
        if FS.is_directory(&source).unwrap() {
            copy_dir(&source, &target);
        } else {
            std::fs::copy(&source, &target).unwrap();
        }
    }
}

/// Every file of a directory and its bytes.
pub fn read_dir(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for name in FS.children(dir).unwrap() {
        let path = dir.join(&name);
        if FS.is_directory(&path).unwrap() {
            for (inner, bytes) in read_dir(&path) {
                files.insert(format!("{name}/{inner}"), bytes);
            }
        } else {
            let bytes = read_file(&FS, &path, u64::MAX).unwrap();
            files.insert(name, bytes);
        }
    }
    files
}

/// The options that the newest OPTIONS file of a database states; defaults when it has none (LevelDB).
pub fn stated_options(dir: &Path) -> Result<LoadedOptions> {
    let config = ConfigOptions { ignore_unknown_options: true, ..ConfigOptions::default() };
    match load_latest_options(&FS, dir, &config) {
        Err(error) if error.is_not_found() => Ok(LoadedOptions::default()),
        other => other,
    }
}

/// Opens every column family of a database with the options that its OPTIONS file states, changed by `change`.
pub fn open_with(dir: &Path, change: impl Fn(&mut DbOptions, &mut Vec<ColumnFamilyDescriptor>)) -> Result<Db> {
    let (mut options, mut families) = descriptors(dir)?;
    change(&mut options, &mut families);
    Db::open_cf(dir, options, families)
}

/// The options and column families to open a database with.
pub fn descriptors(dir: &Path) -> Result<(DbOptions, Vec<ColumnFamilyDescriptor>)> {
    let loaded = stated_options(dir)?;
    let names = Db::list_column_families(dir, &loaded.db)?;
    let families = names
        .into_iter()
        .map(|name| {
            let options = loaded.column_family(&name).cloned().unwrap_or_else(ColumnFamilyOptions::default);
            ColumnFamilyDescriptor::new(name, options)
        })
        .collect();
    Ok((loaded.db, families))
}

/// Opens every column family of a database with the options that its OPTIONS file states.
pub fn open(dir: &Path) -> Result<Db> {
    open_with(dir, |_, _| ())
}

/// The entries of a column family, front to back.
pub fn scan(db: &Db, cf: &ColumnFamily) -> Result<Entries> {
    let options = ReadOptions { total_order_seek: true, ..ReadOptions::default() };
    let mut cursor = db.cursor(&options, cf)?;
    let mut entries = Entries::new();
    cursor.seek_to_first();
    while cursor.valid() {
        entries.push((cursor.key().to_vec(), cursor.value().to_vec()));
        cursor.next();
    }
    cursor.status()?;
    Ok(entries)
}

/// The entries of a column family, back to front.
pub fn scan_backward(db: &Db, cf: &ColumnFamily) -> Result<Entries> {
    let options = ReadOptions { total_order_seek: true, ..ReadOptions::default() };
    let mut cursor = db.cursor(&options, cf)?;
    let mut entries = Entries::new();
    cursor.seek_to_last();
    while cursor.valid() {
        entries.push((cursor.key().to_vec(), cursor.value().to_vec()));
        cursor.prev();
    }
    cursor.status()?;
    Ok(entries)
}

/// The entries of every column family; those without entries are left out, as in `expected.tsv`.
pub fn scan_all(db: &Db) -> Result<Contents> {
    let mut contents = Contents::new();
    for cf in db.column_families() {
        let entries = scan(db, &cf)?;
        if !entries.is_empty() {
            contents.insert(cf.name().to_owned(), entries);
        }
    }
    Ok(contents)
}

/// Where two lists of entries first differ, in words.
pub fn difference(got: &Entries, wanted: &Entries) -> Option<String> {
    for (i, (g, w)) in got.iter().zip(wanted).enumerate() {
        if g != w {
            return Some(format!("entry {i}: got {}, wanted {}", show(g), show(w)));
        }
    }
    match got.len().cmp(&wanted.len()) {
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Less => {
            Some(format!("{} of {} entries; missing {}", got.len(), wanted.len(), show(&wanted[got.len()])))
        }
        std::cmp::Ordering::Greater => {
            Some(format!("{} entries for {}; extra {}", got.len(), wanted.len(), show(&got[wanted.len()])))
        }
    }
}

fn show((key, value): &(Vec<u8>, Vec<u8>)) -> String {
    let head = &value[..value.len().min(24)];
    format!("{:?} => {:?} ({} bytes)", key.escape_ascii().to_string(), head.escape_ascii().to_string(), value.len())
}

/// The first difference of two databases, in words.
pub fn contents_difference(got: &Contents, wanted: &Contents) -> Option<String> {
    let none = Entries::new();
    for name in got.keys().chain(wanted.keys()) {
        let (g, w) = (got.get(name).unwrap_or(&none), wanted.get(name).unwrap_or(&none));
        if let Some(text) = difference(g, w) {
            return Some(format!("column family {name}: {text}"));
        }
    }
    None
}

/// Runs a check over many cases and reports all failures at the end, not only the first.
pub fn for_all<T>(cases: impl IntoIterator<Item = T>, name: impl Fn(&T) -> String, check: impl Fn(&T) -> Outcome) {
    let mut failures = Vec::new();
    let mut count = 0;
    for case in cases {
        count += 1;
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&case)));
        match outcome {
            Ok(Ok(())) => {}
            Ok(Err(message)) => failures.push(format!("{}: {message}", name(&case))),
            Err(_) => failures.push(format!("{}: panicked", name(&case))),
        }
    }
    assert!(failures.is_empty(), "{} of {count} failed:\n{}", failures.len(), failures.join("\n"));
}

/// A check's verdict: what is wrong, in words.
pub type Outcome = std::result::Result<(), String>;

/// Turns an error of the store into words.
pub fn say<T>(what: &str, result: Result<T>) -> std::result::Result<T, String> {
    result.map_err(|error| format!("{what}: {error}"))
}

/// Whether RocksDB's tools are installed; says so if not.
pub fn have_tools() -> bool {
    ["ldb", "sst_dump"].iter().all(|tool| firndb_testing::rocksdb_tool(tool).is_some())
}

/// Runs a tool; its standard output, or everything it said when it failed.
pub fn run(tool: &str, arguments: &[&str]) -> std::result::Result<String, String> {
    let output = Command::new(tool).args(arguments).output().map_err(|e| format!("{tool}: {e}"))?;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let said_failure = ["Failed:", "Corruption:", "IO error:", "is not a valid"].iter().any(|text| err.contains(text));
    if output.status.success() && !said_failure {
        return Ok(out.into_owned());
    }
    Err(format!("{tool} {} ended with {}: {out}{err}", arguments.join(" "), output.status))
}

/// Lets RocksDB judge a closed database: consistent, every table verified, and the same contents.
pub fn rocksdb_accepts(dir: &Path, wanted: &Contents, families: &[String]) -> Outcome {
    let path = dir.to_str().ok_or("the path is not text")?;
    let db = format!("--db={path}");
    let said = run("ldb", &[&db, "--try_load_options", "--ignore_unknown_options", "checkconsistency"])?;
    if said.trim() != "OK" {
        return Err(format!("ldb checkconsistency said {said:?}"));
    }
    for cf in families {
        let got = rocksdb_scan(dir, cf)?;
        let none = Entries::new();
        if let Some(text) = difference(&got, wanted.get(cf).unwrap_or(&none)) {
            return Err(format!("ldb scan of {cf} (got = RocksDB, wanted = Firn): {text}"));
        }
    }
    for name in FS.children(dir).unwrap().iter().filter(|name| name.ends_with(".sst")) {
        let file = format!("--file={path}/{name}");
        let said = run("sst_dump", &[&file, "--command=verify"])?;
        if !said.contains("The file is ok") {
            return Err(format!("sst_dump verify of {name} said {said:?}"));
        }
    }
    Ok(())
}

/// What RocksDB reads of a column family.
pub fn rocksdb_scan(dir: &Path, family: &str) -> std::result::Result<Entries, String> {
    let (db, family) = (format!("--db={}", dir.display()), format!("--column_family={family}"));
    parse_scan(&run("ldb", &[&db, "--try_load_options", "--ignore_unknown_options", &family, "--hex", "scan"])?)
}

/// The lines `0xKEY : 0xVALUE` (7.8) or `0xKEY ==> 0xVALUE` (newer) of `ldb --hex scan`.
fn parse_scan(text: &str) -> std::result::Result<Entries, String> {
    let mut entries = Entries::new();
    for line in text.lines() {
        let (key, value) =
            line.split_once(" ==> ").or_else(|| line.split_once(" : ")).ok_or(format!("line {line:?}"))?;
        let strip = |text: &str| text.strip_prefix("0x").map(str::to_owned).ok_or(format!("line {line:?}"));
        entries.push((from_hex(&strip(key)?), from_hex(&strip(value)?)));
    }
    Ok(entries)
}

/// Writes a file, for tests that damage something.
pub fn put_file(path: &Path, bytes: &[u8]) {
    write_file(&FS, path, bytes, false).unwrap();
}
