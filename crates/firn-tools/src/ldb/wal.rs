//! Write-ahead logs as text: one row per batch.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use firn_env::Env;
use firn_error::{Error, Result};
use firn_format::batch::{self, BatchIter, PrepareKind, Record};
use firn_format::filename::{self, FileKind};
use firn_format::log::{LogReader, RecoveryMode, SliceSource};

use crate::text::hex;

/// Largest WAL that is read, in bytes.
const MAX_WAL_BYTES: u64 = 16 << 30;

/// What the rows show.
#[derive(Clone, Copy, Debug, Default)]
pub struct WalDumpOptions {
    /// A line of column names first.
    pub header: bool,
    /// Values beside the keys.
    pub print_value: bool,
    /// Only rows where a sequence number is missing before the batch.
    pub only_gaps: bool,
}

/// The WAL files that a path stands for: itself, or those of a directory in order of their numbers.
///
/// # Errors
/// Errors of the file system.
pub fn files(env: &Env, path: &Path) -> Result<Vec<PathBuf>> {
    if !env.fs().is_directory(path)? {
        return Ok(vec![path.to_path_buf()]);
    }
    let is_wal = |name: &String| filename::parse(name).is_some_and(|parsed| matches!(parsed.kind, FileKind::Wal));
    let mut names: Vec<String> = env.fs().children(path)?.into_iter().filter(is_wal).collect();
    names.sort();
    Ok(names.iter().map(|name| path.join(name)).collect())
}

/// Prints the batches of one WAL.
///
/// # Errors
/// The inner error is the log's, after the rows before the damage; the outer one that of the output.
pub fn dump(
    env: &Env,
    path: &Path,
    options: WalDumpOptions,
    known_families: Option<&BTreeSet<u32>>,
    out: &mut dyn Write,
) -> std::io::Result<Result<()>> {
    let bytes = match firn_env::read_file(&**env.fs(), path, MAX_WAL_BYTES) {
        Ok(bytes) => bytes,
        Err(error) => return Ok(Err(error)),
    };
    if options.header {
        write!(out, "Sequence,Count,ByteSize,Physical Offset,Key(s)")?;
        writeln!(out, "{}", if options.print_value { " : value " } else { "" })?;
    }
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let number = filename::parse(&name).map_or(0, |parsed| parsed.number.0);
    let mut reader = LogReader::new(SliceSource(&bytes), number, RecoveryMode::TolerateCorruptedTailRecords);
    let mut expected_sequence = None;
    loop {
        match reader.advance() {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => return Ok(Err(error.with_file(path))),
        }
        let record = reader.record();
        if record.len() < batch::HEADER_SIZE {
            let error = Error::corruption("log record too small");
            return Ok(Err(error.with_file(path).with_offset(reader.record_offset())));
        }
        let (sequence, count) = (batch::sequence(record), batch::count(record));
        let gap = expected_sequence.is_some_and(|expected| expected != sequence.0);
        expected_sequence = Some(sequence.0 + u64::from(count));
        if options.only_gaps && !gap {
            continue;
        }
        write!(out, "{},{count},{},{},", sequence.0, record.len(), reader.record_offset())?;
        if let Err(error) = row(record, options.print_value, known_families, out)? {
            writeln!(out)?;
            return Ok(Err(error.with_file(path).with_offset(reader.record_offset())));
        }
        writeln!(out)?;
    }
    Ok(reader.take_report().map_or(Ok(()), |report| Err(report.error.with_file(path))))
}

/// The records of one batch, each followed by a blank.
fn row(
    record: &[u8],
    print_value: bool,
    known: Option<&BTreeSet<u32>>,
    out: &mut dyn Write,
) -> std::io::Result<Result<()>> {
    let items = match BatchIter::new(record) {
        Ok(items) => items,
        Err(error) => return Ok(Err(error)),
    };
    let mut unknown = BTreeSet::new();
    for item in items {
        let item = match item {
            Ok(item) => item,
            Err(error) => return Ok(Err(error)),
        };
        write!(out, "{} ", item_text(&item, print_value))?;
        if let (Some(known), Some(cf)) = (known, item.column_family())
            && !known.contains(&cf)
        {
            unknown.insert(cf);
        }
    }
    if !unknown.is_empty() {
        let ids: Vec<String> = unknown.iter().map(u32::to_string).collect();
        write!(
            out,
            "(Column family id: [{}] contained in WAL are not opened in DB. Applied default hex formatting for user \
             key. Specify --db=<db_path> to open DB for better user key formatting if it contains timestamp.)",
            ids.join(", ")
        )?;
    }
    Ok(Ok(()))
}

fn item_text(record: &Record<'_>, print_value: bool) -> String {
    let with_value = |label: &str, cf: u32, key: &[u8], value: &[u8]| {
        let value = if print_value { format!(" : 0x{}", hex(value)) } else { String::new() };
        format!("{label}({cf}) : 0x{}{value}", hex(key))
    };
    match *record {
        Record::Put { cf, key, value } => with_value("PUT", cf, key, value),
        Record::Merge { cf, key, value } => with_value("MERGE", cf, key, value),
        Record::PutEntity { cf, key, value } => with_value("PUT_ENTITY", cf, key, value),
        Record::BlobIndex { cf, key, value } => with_value("PUT_BLOB_INDEX", cf, key, value),
        Record::TimedPut { cf, key, packed } => match batch::unpack_timed_value(packed) {
            Ok((value, time)) => format!("{} : {time}", with_value("TIMED_PUT", cf, key, value)),
            Err(_) => with_value("TIMED_PUT", cf, key, packed),
        },
        Record::Delete { cf, key } => format!("DELETE({cf}) : 0x{}", hex(key)),
        Record::SingleDelete { cf, key } => format!("SINGLE_DELETE({cf}) : 0x{}", hex(key)),
        Record::DeleteRange { cf, begin, end } => format!("DELETE_RANGE({cf}) : 0x{} 0x{}", hex(begin), hex(end)),
        Record::LogData(_) => "LOG_DATA".to_owned(),
        Record::Noop => "NOOP".to_owned(),
        Record::BeginPrepare(kind) => {
            format!("BEGIN_PREPARE({})", kind == PrepareKind::WriteUnprepared)
        }
        Record::EndPrepare { xid } => format!("END_PREPARE(0x{})", hex(xid)),
        Record::Commit { xid } => format!("COMMIT(0x{})", hex(xid)),
        Record::CommitWithTimestamp { timestamp, xid } => {
            format!("COMMIT_WITH_TIMESTAMP(0x{} : 0x{})", hex(xid), hex(timestamp))
        }
        Record::Rollback { xid } => format!("ROLLBACK(0x{})", hex(xid)),
    }
}
