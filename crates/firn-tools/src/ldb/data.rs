//! Commands that read and write keys.

use std::io::{BufRead, Write};
use std::path::Path;

use firn_format::filename::{self, FileKind};
use firndb::options::{CompactRangeOptions, ReadOptions, WriteOptions};
use firndb::{Cursor, Entry, WriteBatch};

use super::arguments::HexMode;
use super::open::{Access, Opened, open};
use super::{Context, Outcome, Stop, files};
use firndb::stats::Histogram;

fn failed(message: impl Into<String>) -> Stop {
    Stop::Failed(message.into())
}

fn ok(context: &mut Context<'_>, opened: Opened) -> Outcome {
    opened.db.close()?;
    Ok(writeln!(context.out, "OK")?)
}

/// `put`
pub fn put(context: &mut Context<'_>) -> Outcome {
    let [key, value] = context.arguments.parameters.as_slice() else {
        return Err(failed("<key> and <value> must be specified for the put command"));
    };
    let mode = context.arguments.hex();
    let (key, value) = (mode.key(key)?, mode.value(value)?);
    let opened = open(context, Access::ReadWrite)?;
    opened.db.put_opt(&WriteOptions::default(), &opened.family, &key, &value)?;
    ok(context, opened)
}

/// `batchput`
pub fn batch_put(context: &mut Context<'_>) -> Outcome {
    let parameters = &context.arguments.parameters;
    if parameters.is_empty() {
        return Err(failed("At least one <key> <value> pair must be specified batchput."));
    }
    if !parameters.len().is_multiple_of(2) {
        return Err(failed("Equal number of <key>s and <value>s must be specified for batchput."));
    }
    let mode = context.arguments.hex();
    let pairs: Vec<(Vec<u8>, Vec<u8>)> = parameters
        .chunks_exact(2)
        .map(|pair| Ok((mode.key(&pair[0])?, mode.value(&pair[1])?)))
        .collect::<Result<_, String>>()?;
    let opened = open(context, Access::ReadWrite)?;
    let mut batch = WriteBatch::new();
    for (key, value) in &pairs {
        batch.put_cf(&opened.family, key, value)?;
    }
    opened.db.write_opt(&WriteOptions::default(), &mut batch)?;
    ok(context, opened)
}

/// The one key of a command.
fn one_key(context: &Context<'_>, message: &str) -> Result<Vec<u8>, Stop> {
    match context.arguments.parameters.as_slice() {
        [key] => Ok(context.arguments.hex().key(key)?),
        _ => Err(failed(message)),
    }
}

/// `get`
pub fn get(context: &mut Context<'_>) -> Outcome {
    let key = one_key(context, "<key> must be specified for the get command")?;
    let opened = open(context, Access::ReadOnly)?;
    match opened.db.get_opt(&ReadOptions::default(), &opened.family, &key)? {
        Some(value) => {
            context.out.write_all(&context.arguments.hex().show_value(&value))?;
            writeln!(context.out)?;
        }
        None => writeln!(context.out, "Key not found")?,
    }
    Ok(())
}

/// `multi_get`
pub fn multi_get(context: &mut Context<'_>) -> Outcome {
    if context.arguments.parameters.is_empty() {
        return Err(failed("At least one <key> must be specified for multi_get."));
    }
    let mode = context.arguments.hex();
    let keys: Vec<Vec<u8>> =
        context.arguments.parameters.iter().map(|key| mode.key(key)).collect::<Result<_, String>>()?;
    let opened = open(context, Access::ReadOnly)?;
    let values = opened.db.multi_get_opt(&ReadOptions::default(), &opened.family, &keys);
    let mut failures = 0;
    for (key, value) in keys.iter().zip(values) {
        match value {
            Ok(Some(value)) => pair(context.out, mode, key, Some(&value))?,
            Ok(None) => {
                context.out.write_all(b"Key not found: ")?;
                context.out.write_all(&mode.show_key(key))?;
                writeln!(context.out)?;
            }
            Err(error) => {
                failures += 1;
                writeln!(context.err, "Status for key {}: {error}", String::from_utf8_lossy(&mode.show_key(key)))?;
            }
        }
    }
    if failures > 0 { Err(failed("one or more keys had non-okay status")) } else { Ok(()) }
}

/// `delete`
pub fn delete(context: &mut Context<'_>) -> Outcome {
    let key = one_key(context, "KEY must be specified for the delete command")?;
    let opened = open(context, Access::ReadWrite)?;
    opened.db.delete_opt(&WriteOptions::default(), &opened.family, &key)?;
    ok(context, opened)
}

/// `singledelete`
pub fn single_delete(context: &mut Context<'_>) -> Outcome {
    let key = one_key(context, "KEY must be specified for the single delete command")?;
    let opened = open(context, Access::ReadWrite)?;
    opened.db.single_delete_opt(&WriteOptions::default(), &opened.family, &key)?;
    ok(context, opened)
}

/// `deleterange`
pub fn delete_range(context: &mut Context<'_>) -> Outcome {
    let [begin, end] = context.arguments.parameters.as_slice() else {
        return Err(failed("begin and end keys must be specified for the delete command"));
    };
    let mode = context.arguments.hex();
    let (begin, end) = (mode.key(begin)?, mode.key(end)?);
    let opened = open(context, Access::ReadWrite)?;
    opened.db.delete_range_opt(&WriteOptions::default(), &opened.family, &begin, &end)?;
    ok(context, opened)
}

/// `{key} ==> {value}`, or the key alone.
fn pair(out: &mut dyn Write, mode: HexMode, key: &[u8], value: Option<&[u8]>) -> std::io::Result<()> {
    out.write_all(&mode.show_key(key))?;
    if let Some(value) = value {
        out.write_all(b" ==> ")?;
        out.write_all(&mode.show_value(value))?;
    }
    out.write_all(b"\n")
}

/// A cursor over the range of `--from` and `--to`, standing on its first key.
fn range_cursor(context: &Context<'_>, opened: &Opened) -> Result<Cursor, Stop> {
    let mode = context.arguments.hex();
    let key = |name| context.arguments.option(name).map(|text| mode.key(text)).transpose();
    let options = ReadOptions {
        iterate_upper_bound: key("to")?,
        // Every key is wanted, whatever the prefix extractor makes of the bounds.
        total_order_seek: true,
        ..Default::default()
    };
    let mut cursor = opened.db.cursor(&options, &opened.family)?;
    match key("from")? {
        Some(from) => cursor.seek(&from),
        None => cursor.seek_to_first(),
    }
    Ok(cursor)
}

/// Refuses what only databases with expiry have.
fn refuse_ttl_options(context: &Context<'_>) -> Result<(), Stop> {
    for name in ["timestamp", "start_time", "end_time", "bucket", "read_timestamp", "get_write_unix_time"] {
        if context.arguments.flags.contains(name) || context.arguments.option(name).is_some() {
            return Err(failed(format!("Not implemented: --{name}")));
        }
    }
    Ok(())
}

/// `scan`
pub fn scan(context: &mut Context<'_>) -> Outcome {
    refuse_ttl_options(context)?;
    let max_keys = context.arguments.number::<i64>("max_keys")?;
    let no_value = context.arguments.flags.contains("no_value");
    let mode = context.arguments.hex();
    let opened = open(context, Access::ReadOnly)?;
    let mut cursor = range_cursor(context, &opened)?;
    let mut shown = 0;
    while cursor.valid() {
        pair(context.out, mode, cursor.key(), (!no_value).then(|| cursor.value()))?;
        shown += 1;
        // The count is looked at after the row: 0 shows one key.
        if max_keys.is_some_and(|max| max >= 0 && shown >= max) {
            break;
        }
        cursor.next();
    }
    Ok(cursor.status()?)
}

/// Groups consecutive keys by the text before a delimiter.
pub(super) struct PrefixCounter {
    delimiter: u8,
    mode: HexMode,
    prefix: Option<Vec<u8>>,
    count: u64,
    bytes: u64,
}

impl PrefixCounter {
    /// The counter that `--count_delim` asks for.
    pub(super) fn new(context: &Context<'_>) -> Option<Self> {
        let delimiter = match context.arguments.option("count_delim") {
            Some(text) => text.bytes().next().unwrap_or(b'.'),
            None if context.arguments.flags.contains("count_delim") => b'.',
            None => return None,
        };
        Some(Self { delimiter, mode: HexMode::default(), prefix: None, count: 0, bytes: 0 })
    }

    /// Counts one entry; a finished group is printed.
    pub(super) fn add(&mut self, out: &mut dyn Write, key: &[u8], value_bytes: usize) -> std::io::Result<()> {
        let prefix = key.split(|byte| *byte == self.delimiter).next().unwrap_or(key);
        // An empty prefix is none: its entries count with the group after it.
        if self.prefix.as_deref().is_some_and(|current| !current.is_empty() && current != prefix) {
            self.finish(out)?;
        }
        if self.prefix.as_deref() != Some(prefix) {
            self.prefix = Some(prefix.to_vec());
        }
        self.count += 1;
        self.bytes += (key.len() + value_bytes) as u64;
        Ok(())
    }

    /// Prints the last group.
    pub(super) fn finish(&mut self, out: &mut dyn Write) -> std::io::Result<()> {
        if let Some(prefix) = self.prefix.take() {
            out.write_all(&self.mode.show_key(&prefix))?;
            writeln!(out, " => count:{}\tsize:{}", self.count, self.bytes)?;
        }
        (self.count, self.bytes) = (0, 0);
        Ok(())
    }
}

/// `--path`: a file of the kind that its name says.
fn dump_file(context: &mut Context<'_>, path: &Path) -> Outcome {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match filename::parse(&name).map(|parsed| parsed.kind) {
        Some(FileKind::Wal | FileKind::ArchivedWal) => {
            let all = super::wal::WalDumpOptions { header: true, print_value: true, only_gaps: false };
            files::dump_wal_path(context, path, all)
        }
        Some(FileKind::Manifest) => files::dump_manifest_file(context, path),
        Some(FileKind::Table) => {
            let mut arguments = vec![format!("--file={}", path.display()), "--command=scan".to_owned()];
            if context.arguments.hex().keys {
                arguments.push("--output_hex".to_owned());
            }
            crate::sst_dump::run(&arguments, context.out, context.err);
            Ok(())
        }
        Some(FileKind::Blob) => Err(failed("Not implemented: blob files")),
        _ => Err(failed(format!("{}: unknown file type", path.display()))),
    }
}

/// A row of `dump`. It is one C string: a NUL in the key hides the value, too.
fn dump_row(out: &mut dyn Write, mode: HexMode, key: &[u8], value: &[u8]) -> std::io::Result<()> {
    let shown = mode.show_key(key);
    out.write_all(&shown)?;
    if mode.keys || shown.len() == key.len() {
        out.write_all(b" ==> ")?;
        out.write_all(&mode.show_value(value))?;
    }
    out.write_all(b"\n")
}

/// `dump`
pub fn dump(context: &mut Context<'_>) -> Outcome {
    refuse_ttl_options(context)?;
    if let Some(path) = context.arguments.option("path").map(Path::new).map(Path::to_path_buf) {
        return dump_file(context, &path);
    }
    let max_keys = context.arguments.number::<u64>("max_keys")?;
    let count_only = context.arguments.flags.contains("count_only");
    let mode = context.arguments.hex();
    let opened = open(context, Access::ReadOnly)?;
    if context.arguments.flags.contains("stats")
        && let Some(stats) = opened.db.property(&opened.family, "rocksdb.stats")
    {
        writeln!(context.out, "{stats}")?;
    }
    let mut counter = PrefixCounter::new(context);
    let mut sizes = Histogram::default();
    let mut cursor = range_cursor(context, &opened)?;
    let mut count = 0;
    while cursor.valid() && max_keys.is_none_or(|max| count < max) {
        count += 1;
        match &mut counter {
            Some(counter) => counter.add(context.out, cursor.key(), cursor.value().len())?,
            None if count_only => sizes.add(cursor.value().len() as u64),
            None => dump_row(context.out, mode, cursor.key(), cursor.value())?,
        }
        cursor.next();
    }
    cursor.status()?;
    match &mut counter {
        Some(counter) => counter.finish(context.out)?,
        None => writeln!(context.out, "Keys in range: {count}")?,
    }
    if count_only && counter.is_none() {
        writeln!(context.out, "Value size distribution: \n{}", sizes.to_text())?;
    }
    Ok(())
}

/// Longest line that `query` and `load` take, in bytes.
const MAX_LINE_BYTES: usize = 1 << 30;

/// The next line without its end; `None` at the end of the input.
fn read_line(input: &mut dyn BufRead) -> std::io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let taken = std::io::Read::take(&mut *input, MAX_LINE_BYTES as u64).read_until(b'\n', &mut line)?;
    if taken == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    Ok(Some(line))
}

/// `query`: commands from the standard input until it ends.
pub fn query(context: &mut Context<'_>) -> Outcome {
    let opened = open(context, Access::ReadWrite)?;
    let mode = context.arguments.hex();
    while let Some(line) = read_line(context.input)? {
        let line = String::from_utf8_lossy(&line).into_owned();
        let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
        match words.as_slice() {
            [] => continue,
            ["help"] => {
                writeln!(context.out, "get <key>\nput <key> <value>\ndelete <key>\ncount [--from=<key>] [--to=<key>]")?;
            }
            ["get", key] => match opened.db.get_opt(&ReadOptions::default(), &opened.family, mode.key(key)?) {
                Ok(Some(value)) => pair(context.out, mode, &mode.key(key)?, Some(&value))?,
                Ok(None) => writeln!(context.out, "get {key} status: NotFound: ")?,
                Err(error) => writeln!(context.out, "get {key} status: {error}")?,
            },
            ["put", key, value] => {
                let (raw_key, raw_value) = (mode.key(key)?, mode.value(value)?);
                match opened.db.put_opt(&WriteOptions::default(), &opened.family, raw_key, raw_value) {
                    Ok(()) => writeln!(context.out, "put {key} => {value} succeeded")?,
                    Err(error) => writeln!(context.out, "put {key} status: {error}")?,
                }
            }
            ["delete", key] => match opened.db.delete_opt(&WriteOptions::default(), &opened.family, mode.key(key)?) {
                Ok(()) => writeln!(context.out, "delete {key} succeeded")?,
                Err(error) => writeln!(context.out, "delete {key} status: {error}")?,
            },
            ["count", bounds @ ..] => count_range(context, &opened, mode, bounds)?,
            [command @ ("get" | "put" | "delete"), ..] => writeln!(context.out, "{command} gets invalid arguments")?,
            _ => writeln!(context.out, "Unknown command {line}")?,
        }
        context.out.flush()?;
    }
    Ok(opened.db.close()?)
}

fn count_range(context: &mut Context<'_>, opened: &Opened, mode: HexMode, bounds: &[&str]) -> Outcome {
    let (mut from, mut options) = (None, ReadOptions { total_order_seek: true, ..Default::default() });
    for bound in bounds {
        if let Some(key) = bound.strip_prefix("--from=") {
            from = Some(mode.key(key)?);
        } else if let Some(key) = bound.strip_prefix("--to=") {
            options.iterate_upper_bound = Some(mode.key(key)?);
        } else {
            return Ok(writeln!(context.out, "count gets invalid arguments")?);
        }
    }
    let mut cursor = opened.db.cursor(&options, &opened.family)?;
    match from {
        Some(from) => cursor.seek(&from),
        None => cursor.seek_to_first(),
    }
    let mut count = 0_u64;
    while cursor.valid() {
        count += 1;
        cursor.next();
    }
    cursor.status()?;
    Ok(writeln!(context.out, "{count}")?)
}

/// Entries that `load` puts into one batch.
const LOAD_BATCH_ENTRIES: usize = 1000;

/// The next pair in the form of `dump`; other lines are passed over, and counted unless `dump` prints such lines too.
pub(super) fn read_pair(input: &mut dyn BufRead, mode: HexMode, bad: &mut u64) -> Result<Option<Entry>, Stop> {
    while let Some(line) = read_line(input)? {
        const DELIMITER: &[u8] = b" ==> ";
        let Some(at) = line.windows(DELIMITER.len()).position(|part| part == DELIMITER) else {
            if !line.starts_with(b"Keys in range:") && !line.starts_with(b"Created bg thread 0x") {
                *bad += 1;
            }
            continue;
        };
        let (key, value) = (&line[..at], &line[at + DELIMITER.len()..]);
        let key = if mode.keys { mode.key(&String::from_utf8_lossy(key))? } else { key.to_vec() };
        let value = if mode.values {
            HexMode { keys: true, values: true }.value(&String::from_utf8_lossy(value))?
        } else {
            value.to_vec()
        };
        return Ok(Some((key, value)));
    }
    Ok(None)
}

/// `load`: pairs in the form of `dump`.
pub fn load(context: &mut Context<'_>) -> Outcome {
    let mode = context.arguments.hex();
    let disable_wal = context.arguments.boolean("disable_wal", false)?;
    let compact = context.arguments.boolean("compact", false)?;
    let opened = open(context, Access::ReadWrite)?;
    let options = WriteOptions { disable_wal, ..Default::default() };
    let (mut batch, mut entries, mut bad) = (WriteBatch::new(), 0, 0_u64);
    while let Some((key, value)) = read_pair(context.input, mode, &mut bad)? {
        batch.put_cf(&opened.family, key, value)?;
        entries += 1;
        if entries == LOAD_BATCH_ENTRIES {
            opened.db.write_opt(&options, &mut batch)?;
            batch.clear();
            entries = 0;
        }
    }
    if entries > 0 {
        opened.db.write_opt(&options, &mut batch)?;
    }
    if bad > 0 {
        writeln!(context.out, "Warning: {bad} bad lines ignored.")?;
    }
    if compact {
        opened.db.compact_range(&CompactRangeOptions::default(), &opened.family, None, None)?;
    }
    Ok(opened.db.close()?)
}
