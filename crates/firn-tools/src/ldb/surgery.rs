//! Commands that change what a database is made of.

use firn_format::key::FileNumber;
use firn_format::version_edit::DEFAULT_COLUMN_FAMILY_NAME;
use firndb::options::{BottommostLevelCompaction, CompactRangeOptions, DbOptions};
use firndb::{ColumnFamilyDescriptor, Db, repair_cf, unsafe_remove_table};

use super::open::{Access, Opened, open, open_changed, repair_options};
use super::{Context, Outcome, Stop};

/// `repair`: `OK` on stdout; what was damaged on stderr, and what was kept too with `--verbose`.
pub fn repair(context: &mut Context<'_>) -> Outcome {
    let path = context.db_path()?;
    let (options, families, unknown) = repair_options(context, &path)?;
    let report = repair_cf(&path, &options, &families, Some(&unknown))?;
    for damage in &report.damages {
        writeln!(context.err, "{damage}")?;
    }
    if context.arguments.flags.contains("verbose") {
        for number in &report.whole_tables {
            writeln!(context.err, "Table #{number}: kept")?;
        }
        for (old, new) in &report.rewritten_tables {
            writeln!(context.err, "Table #{old}: what can be read is in #{new}")?;
        }
        for number in &report.lost_tables {
            writeln!(context.err, "Table #{number}: lost")?;
        }
        for number in &report.wals {
            writeln!(context.err, "Log #{number}: turned into tables")?;
        }
    }
    Ok(writeln!(context.out, "OK")?)
}

fn failed(message: impl Into<String>) -> Stop {
    Stop::Failed(message.into())
}

/// What becomes of further families when the default one is worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    /// They are opened and left alone.
    Open,
    /// They make the open fail.
    Refuse,
}

/// Opens the database for a compaction of its default family.
fn open_default(context: &mut Context<'_>, target_file_size: Option<u64>, others: Others) -> Result<Opened, Stop> {
    let is_default = |family: &ColumnFamilyDescriptor| family.name == DEFAULT_COLUMN_FAMILY_NAME;
    open_changed(context, Access::ReadWrite, |families: &mut Vec<ColumnFamilyDescriptor>| {
        families.retain(|family| others == Others::Open || is_default(family));
        for family in families.iter_mut().filter(|family| is_default(family)) {
            let options = &mut family.options;
            options.disable_auto_compactions = true;
            if let Some(bytes) = target_file_size {
                options.target_file_size_base = bytes;
                options.target_file_size_multiplier = 1;
            }
            options.max_bytes_for_level_base = 1 << 50;
            options.max_bytes_for_level_multiplier = 1.0;
        }
    })
}

/// Merges everything and puts it on `level`.
fn compact_to(db: &Db, level: i32) -> Result<(), Stop> {
    let options = CompactRangeOptions {
        change_level: true,
        target_level: level,
        bottommost_level_compaction: BottommostLevelCompaction::IfHaveCompactionFilter,
        ..CompactRangeOptions::default()
    };
    Ok(db.compact_range(&options, db.default_cf(), None, None)?)
}

/// Files of the default family, by level.
fn files_per_level(db: &Db) -> Vec<usize> {
    let levels = usize::try_from(db.options(db.default_cf()).cf.num_levels).unwrap_or(1);
    let mut counts = vec![0; levels];
    for file in db.live_files().iter().filter(|file| file.column_family == DEFAULT_COLUMN_FAMILY_NAME) {
        if let Some(count) = counts.get_mut(file.level) {
            *count += 1;
        }
    }
    counts
}

fn joined(counts: &[usize]) -> String {
    counts.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

/// `reduce_levels`: all data into the last of `--new_levels` levels.
pub fn reduce_levels(context: &mut Context<'_>) -> Outcome {
    let levels = context.arguments.number::<i32>("new_levels")?.filter(|levels| *levels > 0);
    let Some(levels) = levels else { return Err(failed(" Use --new_levels to specify a new level number")) };
    if levels < 2 {
        return Err(failed("Invalid number of levels."));
    }
    let opened = open_default(context, None, Others::Refuse)?;
    let old = files_per_level(&opened.db).iter().rposition(|count| *count > 0).map_or(1, |level| level as i32 + 1);
    if context.arguments.flags.contains("print_old_levels") {
        writeln!(context.out, "The old number of levels in use is {old}")?;
    }
    if old > levels {
        writeln!(context.out, "Compacting the db...")?;
        compact_to(&opened.db, levels - 1)?;
    }
    Ok(opened.db.close()?)
}

/// `change_compaction_style`: one file on level 0, which universal compaction can go on from.
pub fn change_compaction_style(context: &mut Context<'_>) -> Outcome {
    let style = |name: &str, context: &Context<'_>| -> Result<i32, Stop> {
        let kind = name.split('_').next().unwrap_or_default();
        let number = context.arguments.number::<i32>(name)?.filter(|style| (0..=1).contains(style));
        number.ok_or_else(|| {
            failed(format!(
                "Use --{name} to specify {kind} compaction style. Check ldb help for proper compaction style value.\n"
            ))
        })
    };
    let (old, new) = (style("old_compaction_style", context)?, style("new_compaction_style", context)?);
    if old == new {
        return Err(failed("Old compaction style is the same as new compaction style. Nothing to do.\n"));
    }
    if old == 1 {
        return Err(failed("Convert from universal compaction to level compaction. Nothing to do.\n"));
    }
    // One file, if it can be.
    let opened = open_default(context, Some(i32::MAX as u64), Others::Open)?;
    writeln!(context.out, "files per level before compaction: {}", joined(&files_per_level(&opened.db)))?;
    compact_to(&opened.db, 0)?;
    let counts = files_per_level(&opened.db);
    match counts.split_first() {
        Some((1, deeper)) if deeper.iter().all(|count| *count == 0) => {}
        Some((1, deeper)) => {
            let (level, count) = (1..).zip(deeper).find(|(_, count)| **count > 0).unwrap_or((1, &0));
            return Err(failed(format!("Number of db files at level {level} after compaction is {count}, not 0.\n")));
        }
        first => {
            let count = first.map_or(0, |(count, _)| *count);
            return Err(failed(format!("Number of db files at level 0 after compaction is {count}, not 1.\n")));
        }
    }
    writeln!(context.out, "files per level after compaction: {}", joined(&counts))?;
    Ok(opened.db.close()?)
}

/// `unsafe_remove_sst_file`: takes a file out of the MANIFEST, with all that it holds.
pub fn unsafe_remove_sst_file(context: &mut Context<'_>) -> Outcome {
    let Some(text) = context.arguments.parameters.first() else {
        return Err(failed("SST file number must be specified"));
    };
    let Ok(number) = text.parse::<u64>() else {
        return Err(failed(format!("Failed to parse SST file number {text}")));
    };
    let path = context.db_path()?;
    let options = DbOptions { env: context.env.clone(), ..DbOptions::default() };
    unsafe_remove_table(&path, &options, FileNumber(number))
        .map_err(|error| failed(format!("failed to unsafely remove SST file: {error}")))?;
    Ok(writeln!(context.err, "unsafely removed SST file")?)
}

/// `update_manifest`: no file system here tells temperatures, so that there is never anything to update.
pub fn update_manifest(context: &mut Context<'_>) -> Outcome {
    if !context.arguments.flags.contains("update_temperatures") {
        return Err(failed("No action like --update_temperatures specified for update_manifest"));
    }
    open(context, Access::ReadOnly)?;
    Ok(writeln!(context.err, "Manifest updates successful")?)
}
