//! Commands that read a database's files without opening it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use firn_format::filename;

use super::overrides::Overrides;
use super::{Context, Outcome, Stop, manifest, wal};
use crate::sst_dump;

/// The MANIFEST that `--path` names, or the one in the database's directory.
fn manifest_path(context: &Context<'_>) -> Result<PathBuf, Stop> {
    match context.arguments.option("path") {
        Some(path) if !path.is_empty() => Ok(PathBuf::from(path)),
        _ => {
            let directory = context.db_path()?;
            manifest::find(&context.env, &directory).map_err(Stop::Failed)
        }
    }
}

/// `manifest_dump`
pub fn manifest_dump(context: &mut Context<'_>) -> Outcome {
    let path = manifest_path(context)?;
    dump_manifest_file(context, &path)
}

pub(super) fn dump_manifest_file(context: &mut Context<'_>, path: &Path) -> Outcome {
    let verbose = context.arguments.flags.contains("verbose");
    // RocksDB 7.8 prints the edits as text with --json too.
    let edits = verbose || context.arguments.flags.contains("json");
    let options = manifest::DumpOptions { edits, frame: verbose, as_hex: context.arguments.hex().keys };
    manifest::dump(&context.env, path, options, context.out)?
        .map_err(|error| Stop::Failed(format!("Error in processing file {} {error}", path.display())))
}

/// `file_checksum_dump`
pub fn file_checksum_dump(context: &mut Context<'_>) -> Outcome {
    let path = match context.arguments.option("path") {
        Some(path) if !path.is_empty() => PathBuf::from(path),
        _ => manifest::current(&context.env, &context.db_path()?)?,
    };
    let state = manifest::read(&context.env, &path, &mut |_| {})?;
    Ok(manifest::checksum_lines(&state, context.out)?)
}

/// Between a heading of `dump_live_files` and what it is over.
const HEADING_RULE: &str = "==============================";

/// `dump_live_files`: the MANIFEST, every live table and the live WALs, one after the other.
pub fn dump_live_files(context: &mut Context<'_>) -> Outcome {
    let directory = context.db_path()?;
    // RocksDB's tool opens the database for this, and so refuses what no open takes.
    Overrides::of(&context.arguments)?;
    let manifest_path = manifest::current(&context.env, &directory)?;
    let state = manifest::read(&context.env, &manifest_path, &mut |_| {})?;
    if let Some(name) = context.arguments.option("column_family")
        && !state.families.values().any(|family| family.name == name)
    {
        return Err(Stop::Failed(format!("Non-existing column family {name}")));
    }
    writeln!(context.out, "Manifest File\n{HEADING_RULE}\n{}", manifest_path.display())?;
    dump_manifest_file(context, &manifest_path)?;
    writeln!(context.out)?;
    let hex = context.arguments.hex();
    for family in state.families.values() {
        writeln!(context.out, "Column family name: {}\n{HEADING_RULE}\n", family.name)?;
        writeln!(context.out, "SST Files\n{HEADING_RULE}")?;
        let levels: BTreeSet<u32> = family.files.keys().map(|(level, _)| *level).collect();
        for level in levels {
            for file in manifest::level_files(family, level) {
                let path = directory.join(filename::table(file.number));
                writeln!(context.out, "{} level:{level}\n------------------------------", path.display())?;
                sst_dump::show(&context.env, &path, hex.keys || hex.values, context.out)?;
                writeln!(context.out)?;
            }
        }
        writeln!(context.out, "Blob Files\n{HEADING_RULE}")?;
    }
    writeln!(context.out, "\nWrite Ahead Log Files\n{HEADING_RULE}")?;
    let oldest = state.families.values().map(|family| family.log_number).min().unwrap_or(0);
    for path in wal::files(&context.env, &directory)? {
        let name = path.file_name().and_then(|name| name.to_str()).and_then(filename::parse);
        let is_empty = context.env.fs().file_size(&path)? == 0;
        if is_empty || name.is_none_or(|parsed| parsed.number.get() < oldest) {
            continue;
        }
        writeln!(context.out, "{}", path.display())?;
        let options = wal::WalDumpOptions { header: true, print_value: true, only_gaps: false };
        wal::dump(&context.env, &path, options, None, context.out)??;
    }
    Ok(())
}

/// `list_column_families`: an error is told, but the exit status stays 0.
pub fn list_column_families(context: &mut Context<'_>) -> Outcome {
    let directory = context.db_path()?;
    let state =
        manifest::current(&context.env, &directory).and_then(|path| manifest::read(&context.env, &path, &mut |_| {}));
    match state {
        Ok(state) => {
            let names: Vec<&str> = state.families.values().map(|family| family.name.as_str()).collect();
            writeln!(context.out, "Column families in {}: \n{{{}}}", directory.display(), names.join(", "))?;
        }
        Err(error) => {
            writeln!(context.err, "Error in processing db {} {error}", directory.display())?;
        }
    }
    Ok(())
}

/// `dump_wal`
pub fn dump_wal(context: &mut Context<'_>) -> Outcome {
    let Some(path) = context.arguments.option("walfile").map(PathBuf::from) else {
        return Err(Stop::Failed("Argument walfile must be specified.".to_owned()));
    };
    let flags = &context.arguments.flags;
    let options = wal::WalDumpOptions {
        header: flags.contains("header"),
        print_value: flags.contains("print_value"),
        only_gaps: flags.contains("only_print_seqno_gaps"),
    };
    dump_wal_path(context, &path, options)
}

pub(super) fn dump_wal_path(context: &mut Context<'_>, path: &Path, options: wal::WalDumpOptions) -> Outcome {
    // The families are known when the database is named, too.
    let known = match context.arguments.option("db") {
        Some(directory) if !directory.is_empty() => {
            let manifest = manifest::current(&context.env, Path::new(directory))?;
            let state = manifest::read(&context.env, &manifest, &mut |_| {})?;
            Some(state.families.keys().copied().collect())
        }
        _ => None,
    };
    let open_failure = |error: firn_error::Error| Stop::Failed(format!("Failed to open WAL file {error}"));
    let files = wal::files(&context.env, path).map_err(open_failure)?;
    let many = files.len() != 1 || files.first().is_some_and(|file| file != path);
    for file in files {
        if many {
            writeln!(context.out, "Checking wal file: {}", file.display())?;
        }
        wal::dump(&context.env, &file, options, known.as_ref(), context.out)?.map_err(|error| {
            if error.is_path_not_found() { open_failure(error) } else { Stop::Failed(error.to_string()) }
        })?;
    }
    Ok(())
}
