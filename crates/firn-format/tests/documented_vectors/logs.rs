//! Write batches and logs (`docs/format/write-batch.md`, `docs/format/wal.md`).

use crate::page::{Kind, Vector, shown};
use firn_format::batch::{self, BatchIter, PrepareKind, Record};
use firn_format::key::ValueType;
use firn_format::log::{self, LogCompression, LogEncoder, LogFormat, LogReader, RecoveryMode, SliceSource};
use firn_format::{Error, Result};

pub(crate) const KINDS: &[Kind] =
    &[("write-batch", write_batch), ("log", whole_log), ("log-layout", log_layout), ("recovery", recovery)];

/// One record of a batch as pages show it.
fn shown_record(record: &Record<'_>) -> String {
    if let Some((family, value_type, key, value)) = record.entry() {
        let name = match value_type {
            ValueType::Value => "Put",
            ValueType::Deletion => "Delete",
            ValueType::SingleDeletion => "SingleDelete",
            ValueType::RangeDeletion => "DeleteRange",
            ValueType::WideColumnEntity => "PutEntity",
            ValueType::ValuePreferredSeqno => "TimedPut",
            ValueType::Merge => "Merge",
            _ => "BlobIndex",
        };
        let family = if family == 0 { String::new() } else { format!("cf {family} ") };
        return match record {
            Record::Delete { .. } | Record::SingleDelete { .. } => format!("{name}({family}{})", shown(key)),
            _ => format!("{name}({family}{} {})", shown(key), shown(value)),
        };
    }
    match record {
        Record::LogData(blob) => format!("LogData({})", shown(blob)),
        Record::Noop => "Noop".into(),
        Record::BeginPrepare(PrepareKind::WriteCommitted) => "BeginPrepare".into(),
        Record::BeginPrepare(PrepareKind::WritePrepared) => "BeginPersistedPrepare".into(),
        Record::BeginPrepare(PrepareKind::WriteUnprepared) => "BeginUnprepare".into(),
        Record::EndPrepare { xid } => format!("EndPrepare({})", shown(xid)),
        Record::Commit { xid } => format!("Commit({})", shown(xid)),
        Record::CommitWithTimestamp { timestamp, xid } => {
            format!("CommitWithTimestamp({} {})", shown(timestamp), shown(xid))
        }
        Record::Rollback { xid } => format!("Rollback({})", shown(xid)),
        other => format!("{other:?}"),
    }
}

fn shown_batch(bytes: &[u8]) -> Result<String> {
    let mut text = String::new();
    let records = BatchIter::new(bytes)?.collect::<Result<Vec<_>>>()?;
    for record in &records {
        text.push_str(&format!(" {}", shown_record(record)));
    }
    Ok(format!("seq {} count {}:{text}", batch::sequence(bytes), batch::count(bytes)))
}

fn write_batch(vector: &Vector) -> Result<String> {
    let bytes = vector.bytes();
    let text = shown_batch(&bytes)?;
    let mut again = batch::header(batch::sequence(&bytes), batch::count(&bytes)).to_vec();
    for record in BatchIter::new(&bytes)? {
        record?.encode(&mut again);
    }
    vector.round_trip(&again)?;
    Ok(text)
}

/// The number of the log that a vector is read as.
fn log_number(vector: &Vector) -> u64 {
    vector.attribute("log").map_or(0, |text| text.parse().unwrap())
}

/// Everything a reader finds in a log, with the strictest of the modes.
fn whole_log(vector: &Vector) -> Result<String> {
    let bytes = vector.bytes();
    let mut reader = LogReader::new(SliceSource(&bytes), log_number(vector), RecoveryMode::AbsoluteConsistency);
    let mut parts = Vec::new();
    loop {
        let found = reader.advance()?;
        if let Some(report) = reader.take_report() {
            return Err(report.error);
        }
        if let Some(info) = reader.take_predecessor() {
            parts.push(format!("predecessor {} {} {}", info.log_number, info.size_bytes, info.last_sequence));
        }
        if !found {
            break;
        }
        parts.push(shown_batch(reader.record())?);
    }
    for (family, size) in reader.timestamp_sizes() {
        parts.push(format!("timestamps cf {family} {size} bytes"));
    }
    Ok(parts.join("; "))
}

/// Lengths of logical records to the physical records of a writer: offset, type and length of each.
fn log_layout(vector: &Vector) -> Result<String> {
    let recyclable = vector.attribute("header") == Some("11");
    let mut encoder = LogEncoder::new(LogFormat { log_number: 4, recyclable, compression: LogCompression::None })?;
    let mut bytes = Vec::new();
    for length in vector.input.split_whitespace() {
        encoder.append_record(&mut bytes, &vec![b'x'; length.parse().unwrap()])?;
    }
    let header = if recyclable { log::RECYCLABLE_HEADER_SIZE } else { log::HEADER_SIZE };
    let (mut at, mut parts) = (0, Vec::new());
    while at < bytes.len() {
        let left = log::BLOCK_SIZE - at % log::BLOCK_SIZE;
        if left < header {
            parts.push(format!("{at} zeros {left}"));
            at += left;
            continue;
        }
        let length = usize::from(u16::from_le_bytes([bytes[at + 4], bytes[at + 5]]));
        parts.push(format!("{at} type {} length {length}", bytes[at + 6]));
        at += header + length;
    }
    Ok(parts.join(", "))
}

/// What opening a database makes of one WAL under each of the four modes: the keys that are there afterwards, or why the
/// opening fails. `stop` says that a point-in-time recovery stopped before the end.
fn recovery(vector: &Vector) -> Result<String> {
    let bytes = vector.bytes();
    let outcomes = (0..4).map(|number| {
        let mode = RecoveryMode::from_u8(number).unwrap();
        let outcome = replay(&bytes, log_number(vector), mode);
        format!("{number} {}", outcome.unwrap_or_else(|error| format!("fails: {}", error.message())))
    });
    Ok(outcomes.collect::<Vec<_>>().join(" | "))
}

fn replay(bytes: &[u8], number: u64, mode: RecoveryMode) -> Result<String> {
    let mut reader = LogReader::new(SliceSource(bytes), number, mode);
    let mut keys = String::new();
    loop {
        let found = reader.advance()?;
        let mut damage = reader.take_report().map(|report| report.error);
        if damage.is_none() && found && reader.record().len() < batch::HEADER_SIZE {
            damage = Some(Error::corruption("log record too small"));
        }
        let skipped = damage.is_some();
        match (damage, mode) {
            (Some(_), RecoveryMode::PointInTime) => return Ok(format!("{keys} stop")),
            (Some(error), RecoveryMode::TolerateCorruptedTailRecords | RecoveryMode::AbsoluteConsistency) => {
                return Err(error);
            }
            _ => {}
        }
        if !found {
            let stopped = mode == RecoveryMode::PointInTime && reader.old_record_seen();
            return Ok(if stopped { format!("{keys} stop") } else { keys });
        }
        if skipped && reader.record().len() < batch::HEADER_SIZE {
            continue;
        }
        for record in BatchIter::new(reader.record())? {
            let (_, _, key, _) = record?.entry().unwrap();
            keys.push_str(&String::from_utf8_lossy(key));
        }
    }
}
