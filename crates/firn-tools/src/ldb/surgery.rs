//! Commands that change what a database is made of.

use firndb::repair_cf;

use super::open::repair_options;
use super::{Context, Outcome};

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
