//! `ldb`: looks into databases and changes them, one command at a time.
//!
//! In: a command line. Out: data on stdout, status messages on stderr (`Failed: …` with exit status 1, or a bare message
//! with 0), as RocksDB's tool prints them. [`manifest`] and [`wal`] read files without opening a database; the other
//! commands open it with the options of its OPTIONS file.

pub mod arguments;
pub mod data;
mod external;
pub mod files;
pub mod help;
pub mod inspect;
pub mod manifest;
pub mod open;
pub mod overrides;
pub mod surgery;
pub mod wal;

use std::io::{BufRead, Write};
use std::path::PathBuf;

use firn_env::Env;

use self::arguments::Arguments;
use self::help::HELP;
use crate::ROCKSDB_VERSION;

/// Why a command ends early.
#[derive(Debug)]
pub enum Stop {
    /// Printed as `Failed: {message}`; exit status 1.
    Failed(String),
    /// The output cannot be written.
    Output(std::io::Error),
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<firn_error::Error> for Stop {
    fn from(error: firn_error::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<String> for Stop {
    fn from(message: String) -> Self {
        Self::Failed(message)
    }
}

/// What a command comes to.
pub type Outcome = Result<(), Stop>;

/// What a command works with.
pub struct Context<'c> {
    /// Files, clock and threads.
    pub env: Env,
    /// The command line.
    pub arguments: Arguments,
    /// Data.
    pub out: &'c mut dyn Write,
    /// Messages.
    pub err: &'c mut dyn Write,
    /// Commands of `query`, pairs of `load`.
    pub input: &'c mut dyn BufRead,
}

impl Context<'_> {
    /// The directory of the database.
    ///
    /// # Errors
    /// When `--db` is missing.
    pub fn db_path(&self) -> Result<PathBuf, Stop> {
        match self.arguments.option("db") {
            Some(path) if !path.is_empty() => Ok(PathBuf::from(path)),
            _ => Err(Stop::Failed("Either db or path must be specified.".to_owned())),
        }
    }
}

/// A command: its name, the options and flags of its own, and what it does.
struct Command {
    name: &'static str,
    options: &'static [&'static str],
    flags: &'static [&'static str],
    run: fn(&mut Context<'_>) -> Outcome,
}

const COMMANDS: &[Command] = &[
    Command { name: "put", options: &["create_if_missing"], flags: &["create_if_missing"], run: data::put },
    Command { name: "get", options: &["read_timestamp"], flags: &[], run: data::get },
    Command { name: "multi_get", options: &["read_timestamp"], flags: &[], run: data::multi_get },
    Command { name: "batchput", options: &["create_if_missing"], flags: &["create_if_missing"], run: data::batch_put },
    Command { name: "delete", options: &[], flags: &[], run: data::delete },
    Command { name: "singledelete", options: &[], flags: &[], run: data::single_delete },
    Command { name: "deleterange", options: &[], flags: &[], run: data::delete_range },
    Command {
        name: "scan",
        options: &["from", "to", "max_keys", "start_time", "end_time", "read_timestamp"],
        flags: &["no_value", "timestamp", "get_write_unix_time"],
        run: data::scan,
    },
    Command {
        name: "dump",
        options: &["from", "to", "max_keys", "count_delim", "bucket", "start_time", "end_time", "path"],
        flags: &["count_only", "count_delim", "stats", "timestamp", "decode_blob_index", "dump_uncompressed_blobs"],
        run: data::dump,
    },
    Command { name: "query", options: &[], flags: &[], run: data::query },
    Command {
        name: "load",
        options: &["create_if_missing", "disable_wal", "bulk_load", "compact"],
        flags: &["create_if_missing", "disable_wal", "bulk_load", "compact"],
        run: data::load,
    },
    Command {
        name: "write_extern_sst",
        options: &["create_if_missing"],
        flags: &["create_if_missing"],
        run: external::write,
    },
    Command {
        name: "ingest_extern_sst",
        options: external::INGEST_OPTIONS,
        flags: external::INGEST_OPTIONS,
        run: external::ingest,
    },
    Command {
        name: "idump",
        options: &["from", "to", "max_keys", "count_delim"],
        flags: &["count_only", "count_delim", "stats", "input_key_hex", "decode_blob_index"],
        run: inspect::internal_dump,
    },
    Command { name: "approxsize", options: &["from", "to"], flags: &[], run: inspect::approximate_size },
    Command { name: "checkconsistency", options: &[], flags: &[], run: inspect::check_consistency },
    Command {
        name: "list_file_range_deletes",
        options: &["max_keys"],
        flags: &[],
        run: inspect::list_file_range_deletes,
    },
    Command { name: "compact", options: &["from", "to"], flags: &[], run: inspect::compact },
    Command { name: "checkpoint", options: &["checkpoint_dir"], flags: &[], run: inspect::checkpoint },
    Command { name: "repair", options: &[], flags: &["verbose"], run: surgery::repair },
    Command {
        name: "reduce_levels",
        options: &["new_levels"],
        flags: &["print_old_levels"],
        run: surgery::reduce_levels,
    },
    Command {
        name: "change_compaction_style",
        options: &["old_compaction_style", "new_compaction_style"],
        flags: &[],
        run: surgery::change_compaction_style,
    },
    Command { name: "unsafe_remove_sst_file", options: &[], flags: &[], run: surgery::unsafe_remove_sst_file },
    Command { name: "update_manifest", options: &[], flags: &["update_temperatures"], run: surgery::update_manifest },
    Command { name: "get_property", options: &[], flags: &[], run: inspect::get_property },
    Command { name: "create_column_family", options: &[], flags: &[], run: inspect::create_column_family },
    Command { name: "drop_column_family", options: &[], flags: &[], run: inspect::drop_column_family },
    Command {
        name: "list_live_files_metadata",
        options: &[],
        flags: &["sort_by_filename"],
        run: inspect::list_live_files_metadata,
    },
    Command { name: "list_column_families", options: &[], flags: &[], run: files::list_column_families },
    Command { name: "manifest_dump", options: &["path"], flags: &["verbose", "json"], run: files::manifest_dump },
    Command {
        name: "dump_live_files",
        options: &[],
        flags: &["decode_blob_index", "dump_uncompressed_blobs"],
        run: files::dump_live_files,
    },
    Command { name: "file_checksum_dump", options: &["path"], flags: &[], run: files::file_checksum_dump },
    Command {
        name: "dump_wal",
        options: &["walfile", "write_committed"],
        flags: &["header", "print_value", "only_print_seqno_gaps"],
        run: files::dump_wal,
    },
];

/// Commands of RocksDB's tool that need what Firn lacks, and what that is.
const MISSING: &[(&str, &str)] = &[
    ("backup", "backups"),
    ("restore", "backups"),
    ("put_entity", "wide-column entities"),
    ("get_entity", "wide-column entities"),
    ("multi_get_entity", "wide-column entities"),
    ("compaction_progress_dump", "compaction progress files"),
    ("remote_compaction_primary", "remote compaction"),
    ("remote_compaction_worker", "remote compaction"),
];

/// Options that ask for what Firn lacks, when they are given.
const UNSUPPORTED_OPTIONS: &[&str] = &["env_uri", "fs_uri", "secondary_path", "leader_path", "ttl", "use_txn"];

/// Runs the tool; returns the exit status.
pub fn main(arguments: &[String]) -> i32 {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut err = std::io::stderr().lock();
    let mut input = std::io::stdin().lock();
    let status = run(arguments, &mut out, &mut err, &mut input);
    let _ = out.flush();
    status
}

/// Runs the tool with the given streams; returns the exit status.
pub fn run(arguments: &[String], out: &mut dyn Write, err: &mut dyn Write, input: &mut dyn BufRead) -> i32 {
    match arguments {
        [only] if only == "--version" => {
            let _ = writeln!(out, "ldb from RocksDB {ROCKSDB_VERSION}");
            return 0;
        }
        [only] if only == "--help" => {
            let _ = write!(out, "{HELP}");
            return 0;
        }
        [] | [_] => {
            let _ = writeln!(err, "{HELP}");
            return 1;
        }
        _ => {}
    }
    let arguments = Arguments::split(arguments);
    let Some(name) = arguments.command.clone() else {
        let _ = writeln!(err, "Command not specified!");
        return 1;
    };
    if let Some((_, feature)) = MISSING.iter().find(|(missing, _)| *missing == name) {
        let _ = writeln!(err, "Failed: Not implemented: {feature}");
        return 1;
    }
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        let _ = writeln!(err, "Unknown command\n{HELP}");
        return 1;
    };
    if let Some(message) = arguments.unknown(command.options, command.flags) {
        let _ = writeln!(err, "{message}");
        return 1;
    }
    for option in UNSUPPORTED_OPTIONS {
        if arguments.option(option).is_some() || arguments.flags.contains(*option) {
            let _ = writeln!(err, "Failed: Not implemented: --{option}");
            return 1;
        }
    }
    let mut context = Context { env: Env::shared(), arguments, out, err, input };
    match (command.run)(&mut context) {
        Ok(()) => 0,
        Err(Stop::Failed(message)) => {
            // Data before the message, also when both go to one place.
            let _ = context.out.flush();
            let _ = writeln!(context.err, "Failed: {message}");
            1
        }
        Err(Stop::Output(_)) => 1,
    }
}
