//! `sst_dump`: shows what is in table files and whether they are sound.
//!
//! In: files or directories and a command. Out: rows, properties and status messages as RocksDB's tool prints them;
//! what goes to stdout and what to stderr is part of that. Files are read through `firn-table` only; a damaged file
//! gives a message and never stops the files after it.

pub mod arguments;
pub mod properties;
pub mod raw;
pub mod recompress;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_env::{Env, FileOptions};
use firn_error::{Error, Result};
use firn_format::comparator::InternalKeyComparator;
use firn_format::iterator::InternalIterator;
use firn_format::key::{InternalKey, SequenceNumber, extract_user_key, parse_internal_key};
use firn_table::{TableReadOptions, TableReader, TableReaderOptions};
use firndb::options::builtin_comparator;

use self::arguments::{Arguments, Command, HELP, Parsed};
use crate::ROCKSDB_VERSION;
use crate::text::{c_string, hex, parsed_key, unhex_prefixed};

const RULE: &str = "------------------------------";

/// Runs the tool; returns the exit status.
pub fn main(arguments: &[String]) -> i32 {
    let (mut out, mut err) = (std::io::BufWriter::new(std::io::stdout().lock()), std::io::stderr().lock());
    let status = run(arguments, &mut out, &mut err);
    let _ = out.flush();
    status
}

/// Runs the tool with the given streams; returns the exit status.
pub fn run(arguments: &[String], out: &mut dyn Write, err: &mut dyn Write) -> i32 {
    let arguments = match arguments::parse(arguments) {
        Parsed::Run(arguments) => *arguments,
        Parsed::Help(status) => {
            let _ = write!(err, "{HELP}");
            return status;
        }
        Parsed::Version => {
            let _ = writeln!(out, "sst_dump (RocksDB) {ROCKSDB_VERSION}");
            return 0;
        }
        Parsed::Fail { message, with_help } => {
            let _ = writeln!(err, "{message}");
            if with_help {
                let _ = write!(err, "{HELP}");
            }
            return 1;
        }
    };
    if let Some(text) = &arguments.parse_internal_key {
        let decoded = unhex_prefixed(text).map_err(|e| e.message().to_owned());
        return match decoded.and_then(|bytes| raw::parse_internal_key_text(&bytes)) {
            Ok(line) => {
                let _ = writeln!(out, "{line}");
                0
            }
            Err(message) => {
                let _ = writeln!(err, "{message}");
                255
            }
        };
    }
    let mut dump =
        Dump { env: Env::shared(), arguments, out, err, totals: Totals::default(), rows: 0, range_shown: false };
    // An error here means that nobody reads the output any more.
    dump.run().unwrap_or(1)
}

/// Sums for `--show_summary`.
#[derive(Default)]
struct Totals {
    files: u64,
    data_blocks: u64,
    data_size: u64,
    index_size: u64,
    filter_size: u64,
}

struct Dump<'o> {
    env: Env,
    arguments: Arguments,
    out: &'o mut dyn Write,
    err: &'o mut dyn Write,
    totals: Totals,
    /// Rows shown so far, over all files.
    rows: u64,
    range_shown: bool,
}

impl Dump<'_> {
    fn run(&mut self) -> std::io::Result<i32> {
        let here = std::ptr::from_ref(&self.env);
        writeln!(self.out, "options.env is {here:p}")?;
        let mut valid = Vec::new();
        let paths = std::mem::take(&mut self.arguments.paths);
        for path in &paths {
            let files = match self.files(Path::new(path)) {
                Ok(files) => files,
                Err(message) => {
                    writeln!(self.err, "{message}")?;
                    return Ok(1);
                }
            };
            let from_directory = files.len() != 1 || files.first().is_some_and(|file| file != Path::new(path));
            let mut valid_here = Vec::new();
            for file in files {
                if self.file(&file)? {
                    valid_here.push(file);
                }
                if self.arguments.read_num > 0 && self.rows >= self.arguments.read_num {
                    break;
                }
            }
            if valid_here.is_empty() {
                // Nothing could be read at all.
                if from_directory {
                    writeln!(self.out, "{RULE}")?;
                }
                writeln!(self.err, "{path} is not a valid SST file")?;
            } else if self.arguments.command == Command::Identify {
                self.identified(path, from_directory, &valid_here)?;
            }
            valid.append(&mut valid_here);
        }
        if self.arguments.show_summary {
            let totals = &self.totals;
            writeln!(self.out, "total number of files: {}", totals.files)?;
            writeln!(self.out, "total number of data blocks: {}", totals.data_blocks)?;
            writeln!(self.out, "total data block size: {}", totals.data_size)?;
            writeln!(self.out, "total index block size: {}", totals.index_size)?;
            writeln!(self.out, "total filter block size: {}", totals.filter_size)?;
        }
        Ok(i32::from(valid.is_empty()))
    }

    /// The files that a path stands for: itself, or the tables of the directory in order of their names.
    fn files(&self, path: &Path) -> std::result::Result<Vec<PathBuf>, String> {
        let fs = self.env.fs();
        let missing = |_| format!("NotFound: {}: No such file or directory", path.display());
        if !fs.file_exists(path).map_err(|e| e.to_string())? {
            return Err(missing(()));
        }
        if !fs.is_directory(path).map_err(|e| e.to_string())? {
            return Ok(vec![path.to_path_buf()]);
        }
        let mut names = fs.children(path).map_err(|e| e.to_string())?;
        names.retain(|name| name.ends_with(".sst"));
        names.sort_unstable();
        // The original joins with a slash of its own; one at the end of the path is not doubled here.
        Ok(names.iter().map(|name| path.join(name)).collect())
    }

    fn identified(&mut self, path: &str, from_directory: bool, valid: &[PathBuf]) -> std::io::Result<()> {
        if !from_directory {
            return writeln!(self.out, "{path} is a valid SST file");
        }
        writeln!(self.out, "{RULE}\nList of valid SST files found in {path}:")?;
        for file in valid {
            writeln!(self.out, "{}", file.display())?;
        }
        writeln!(self.out, "Number of valid SST files: {}", valid.len())
    }

    /// Treats one file; true when it could be opened.
    fn file(&mut self, path: &Path) -> std::io::Result<bool> {
        writeln!(self.out, "Process {}", path.display())?;
        let table = match open(&self.env, path) {
            Ok(table) => table,
            Err(error) => {
                writeln!(self.err, "{}: {error}", path.display())?;
                return Ok(false);
            }
        };
        writeln!(self.out, "Sst file format: block-based")?;
        match self.arguments.command {
            Command::Raw => match raw::dump(&self.env, path, &table) {
                Ok(text_path) => writeln!(self.out, "raw dump written to file {}", text_path.display())?,
                Err(error) => writeln!(self.err, "{}: {error}", path.display())?,
            },
            Command::Verify => match table.verify_checksums(&TableReadOptions::default()) {
                Ok(()) => writeln!(self.out, "The file is ok")?,
                Err(error) => writeln!(self.out, "{} is corrupted: {error}", path.display())?,
            },
            Command::Recompress => {
                if let Err(error) = recompress::run(&self.env, &self.arguments, &table, self.out)? {
                    writeln!(self.err, "{}: {error}", path.display())?;
                }
            }
            Command::Check | Command::Scan => self.entries(path, &table)?,
            Command::Identify | Command::Other => {}
        }
        // Those three say all they have to say themselves.
        if !matches!(self.arguments.command, Command::Raw | Command::Verify | Command::Recompress) {
            self.about(&table)?;
        }
        Ok(true)
    }

    /// What is said about a table after its entries.
    fn about(&mut self, table: &TableReader) -> std::io::Result<()> {
        let properties = table.properties();
        if self.arguments.list_meta_blocks {
            writeln!(self.out, "Meta Blocks:\n{RULE}")?;
            for (name, handle) in table.meta_blocks() {
                writeln!(self.out, "  {}: {} {}", String::from_utf8_lossy(&name), handle.offset, handle.size)?;
            }
        }
        if self.arguments.show_properties {
            writeln!(self.out, "Table Properties:\n{RULE}")?;
            write!(self.out, "{}", properties::text(properties, "  ", ": "))?;
            writeln!(self.out, "  Raw user collected properties\n{RULE}")?;
            write!(self.out, "{}", properties::user_collected_text(properties))?;
        }
        self.totals.files += 1;
        self.totals.data_blocks += properties.num_data_blocks;
        self.totals.data_size += properties.data_size;
        self.totals.index_size += properties.index_size;
        self.totals.filter_size += properties.filter_size;
        Ok(())
    }

    /// `check` and `scan`.
    fn entries(&mut self, path: &Path, table: &Arc<TableReader>) -> std::io::Result<()> {
        let start = self.arguments.from.clone().or_else(|| self.arguments.prefix.clone());
        if !self.range_shown {
            self.range_shown = true;
            let text = |key: &Option<Vec<u8>>| hex(key.as_deref().unwrap_or_default());
            writeln!(self.out, "from [{}] to [{}]", text(&start), text(&self.arguments.to))?;
        }
        match self.iterate(table, start.as_deref())? {
            Ok(seen) => {
                let properties = table.properties();
                let expected = properties.num_entries - properties.num_range_deletions.min(properties.num_entries);
                let everything = start.is_none() && self.arguments.to.is_none() && self.arguments.read_num == 0;
                if everything && properties.num_entries > 0 && seen != expected {
                    let error = Error::corruption(format!(
                        "Table property expects {expected} entries when excluding range deletions, but scanning the \
                         table returned {seen} entries"
                    ));
                    writeln!(self.err, "{}: {error}", path.display())?;
                }
            }
            Err(error) => writeln!(self.err, "{}: {error}", path.display())?,
        }
        Ok(())
    }

    /// Walks the range and returns how many entries were in it.
    fn iterate(&mut self, table: &Arc<TableReader>, start: Option<&[u8]>) -> std::io::Result<Result<u64>> {
        let arguments = &self.arguments;
        // Reading without verification would print damaged bytes as data.
        let mut iter = table.iter(&TableReadOptions { fill_cache: false, ..Default::default() });
        match start {
            Some(key) => iter.seek(InternalKey::for_seek(key, SequenceNumber::MAX).encoded()),
            None => iter.seek_to_first(),
        }
        let order = table.comparator().user_comparator();
        let mut seen = 0;
        while iter.valid() {
            if arguments.read_num > 0 && self.rows >= arguments.read_num {
                break;
            }
            let user_key = extract_user_key(iter.key());
            if arguments.prefix.as_ref().is_some_and(|prefix| !user_key.starts_with(prefix))
                || arguments.to.as_ref().is_some_and(|to| order.compare(user_key, to).is_ge())
            {
                break;
            }
            let parsed = match parse_internal_key(iter.key()) {
                Ok(parsed) => parsed,
                Err(error) => return Ok(Err(error)),
            };
            seen += 1;
            self.rows += 1;
            if arguments.command == Command::Scan {
                let key = parsed_key(&parsed, arguments.output_hex);
                self.out.write_all(c_string(&key))?;
                self.out.write_all(b" => ")?;
                if arguments.output_hex {
                    self.out.write_all(hex(iter.value()).as_bytes())?;
                } else {
                    self.out.write_all(c_string(iter.value()))?;
                }
                self.out.write_all(b"\n")?;
            }
            iter.next();
        }
        Ok(iter.status().map(|()| seen))
    }
}

/// Shows one table to other tools: what it is, its entries, and its properties without indentation.
///
/// # Errors
/// What the stream says; damage is told in the text.
pub fn show(env: &Env, path: &Path, output_hex: bool, out: &mut dyn Write) -> std::io::Result<()> {
    let arguments = Arguments { command: Command::Scan, output_hex, ..Arguments::default() };
    let mut err = Vec::new();
    let mut dump = Dump {
        env: env.clone(),
        arguments,
        out: &mut *out,
        err: &mut err,
        totals: Totals::default(),
        rows: 0,
        range_shown: true,
    };
    writeln!(dump.out, "Process {}", path.display())?;
    match open(env, path) {
        Ok(table) => {
            writeln!(dump.out, "Sst file format: block-based")?;
            dump.entries(path, &table)?;
            writeln!(dump.out, "\nTable Properties:\n{}", properties::text(table.properties(), "", "="))?;
        }
        Err(error) => writeln!(dump.out, "{error}")?,
    }
    out.write_all(&err)
}

/// Opens a table with the comparator it was written with.
///
/// # Errors
/// When the file is no table, damaged, or ordered by a comparator that is not built in.
pub fn open(env: &Env, path: &Path) -> Result<Arc<TableReader>> {
    let file = env.fs().new_random_access_file(path, &FileOptions::default())?;
    let size = file.size()?;
    let options = TableReaderOptions::default();
    let table = TableReader::open(Arc::clone(&file), size, options.clone())?;
    let name = &table.properties().comparator;
    if name.is_empty() || name == table.comparator().user_comparator().name() {
        return Ok(Arc::new(table));
    }
    let comparator = builtin_comparator(name)
        .ok_or_else(|| Error::not_supported(format!("the comparator {name} is not built in")).with_file(path))?;
    let comparator = InternalKeyComparator::new(comparator);
    Ok(Arc::new(TableReader::open(file, size, TableReaderOptions { comparator, ..options })?))
}
