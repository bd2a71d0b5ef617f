//! Commands for tables outside of a database: `write_extern_sst` and `ingest_extern_sst`.

use std::path::Path;

use firndb::options::IngestExternalFileOptions;
use firndb::sst_file_writer;

use super::data::read_pair;
use super::open::{Access, open};
use super::{Context, Outcome, Stop};

/// What `ingest_extern_sst` accepts, as options and as flags.
pub(super) const INGEST_OPTIONS: &[&str] = &[
    "create_if_missing",
    "move_files",
    "snapshot_consistency",
    "allow_global_seqno",
    "allow_blocking_flush",
    "ingest_behind",
    "write_global_seqno",
];

fn failed(message: impl Into<String>) -> Stop {
    Stop::Failed(message.into())
}

/// `write_extern_sst`: pairs in the form of `dump`, in key order, into a table that fits the database.
pub(super) fn write(context: &mut Context<'_>) -> Outcome {
    let [path] = context.arguments.parameters.as_slice() else {
        return Err(failed("output SST file path must be specified"));
    };
    let path = path.clone();
    let mode = context.arguments.hex();
    let opened = open(context, Access::ReadWrite)?;
    let mut writer = sst_file_writer(&opened.db.options(&opened.family));
    let with = |what: &'static str| move |error: firn_error::Error| failed(format!("{what}: {error}"));
    writer.open(Path::new(&path)).map_err(with("failed to open SST file"))?;
    let mut bad = 0;
    while let Some((key, value)) = read_pair(context.input, mode, &mut bad)? {
        writer.put(&key, &value).map_err(with("failed to write record to file"))?;
    }
    writer.finish().map_err(with("Failed to finish writing to file"))?;
    opened.db.close()?;
    if bad > 0 {
        writeln!(context.err, "Warning: {bad} bad lines ignored.")?;
    }
    Ok(writeln!(context.err, "external SST file written to {path}")?)
}

/// `ingest_extern_sst`
pub(super) fn ingest(context: &mut Context<'_>) -> Outcome {
    let arguments = &context.arguments;
    let [path] = arguments.parameters.as_slice() else {
        return Err(failed("input SST path must be specified"));
    };
    let path = path.clone();
    let options = IngestExternalFileOptions {
        move_files: arguments.boolean("move_files", false)?,
        snapshot_consistency: arguments.boolean("snapshot_consistency", true)?,
        allow_global_seqno: arguments.boolean("allow_global_seqno", true)?,
        allow_blocking_flush: arguments.boolean("allow_blocking_flush", true)?,
        ingest_behind: arguments.boolean("ingest_behind", false)?,
        write_global_seqno: arguments.boolean("write_global_seqno", true)?,
        ..IngestExternalFileOptions::default()
    };
    if options.allow_global_seqno && !options.write_global_seqno {
        writeln!(
            context.err,
            "Warning: not writing global_seqno to the ingested SST can\nprevent older versions of RocksDB from being able to \
             open it"
        )?;
    } else if !options.allow_global_seqno && options.write_global_seqno {
        return Err(failed("ldb cannot write global_seqno to the ingested SST when global_seqno is not allowed"));
    }
    let opened = open(context, Access::ReadWrite)?;
    opened
        .db
        .ingest_external_file(&opened.family, &[&path], &options)
        .map_err(|error| failed(format!("failed to ingest external SST: {error}")))?;
    opened.db.close()?;
    Ok(writeln!(context.err, "external SST files ingested")?)
}
