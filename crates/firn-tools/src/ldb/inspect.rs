//! Commands about the database as a whole: its files, properties and families.

use firn_format::key::parse_internal_key;
use firndb::options::{ColumnFamilyOptions, CompactRangeOptions};
use firndb::{LiveFile, SizeApproximation};

use super::data::PrefixCounter;
use super::open::{Access, Opened, open};
use super::{Context, Outcome, Stop};
use crate::text::{c_string, hex, parsed_key, unhex_prefixed};

fn failed(message: impl Into<String>) -> Stop {
    Stop::Failed(message.into())
}

/// The keys of `--from` and `--to`.
type Bounds = (Option<Vec<u8>>, Option<Vec<u8>>);

fn bounds(context: &Context<'_>) -> Result<Bounds, Stop> {
    let mode = context.arguments.hex();
    let key = |name| context.arguments.option(name).map(|text| mode.key(text)).transpose();
    Ok((key("from")?, key("to")?))
}

/// `compact`
pub fn compact(context: &mut Context<'_>) -> Outcome {
    let (from, to) = bounds(context)?;
    let opened = open(context, Access::ReadWrite)?;
    let options = CompactRangeOptions::default();
    opened.db.compact_range(&options, &opened.family, from.as_deref(), to.as_deref())?;
    Ok(opened.db.close()?)
}

/// `approxsize`
pub fn approximate_size(context: &mut Context<'_>) -> Outcome {
    let (Some(from), Some(to)) = bounds(context)? else {
        return Err(failed("from and to must be specified for the approxsize command"));
    };
    let opened = open(context, Access::ReadOnly)?;
    let sizes = opened.db.approximate_sizes(&opened.family, &[(&from, &to)], SizeApproximation::Files)?;
    Ok(writeln!(context.out, "{}", sizes.iter().sum::<u64>())?)
}

/// `checkconsistency`: opening checks everything.
pub fn check_consistency(context: &mut Context<'_>) -> Outcome {
    let opened = open(context, Access::ReadOnly)?;
    check_files(context, &opened)?;
    Ok(writeln!(context.out, "OK")?)
}

/// Every live file must be there with the size that the MANIFEST gives.
fn check_files(context: &Context<'_>, opened: &Opened) -> Result<(), Stop> {
    let mut problems = Vec::new();
    for file in opened.db.live_files() {
        let path = file.directory.join(file.name.trim_start_matches('/'));
        match context.env.fs().file_size(&path) {
            Ok(size) if size == file.size_bytes => {}
            Ok(size) => problems.push(format!(
                "Sst file size mismatch: {}. Size recorded in manifest {}, actual size {size}\n",
                path.display(),
                file.size_bytes
            )),
            Err(error) => problems.push(format!("Can't access {}: {error}\n", file.name)),
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(failed(format!("Corruption: {}", problems.concat()))) }
}

/// `get_property`
pub fn get_property(context: &mut Context<'_>) -> Outcome {
    let [name] = context.arguments.parameters.as_slice() else {
        return Err(failed("property name must be specified"));
    };
    let name = name.clone();
    let opened = open(context, Access::ReadOnly)?;
    if let Some(map) = opened.db.property_map(&opened.family, &name) {
        if map.is_empty() {
            writeln!(context.out, "{name}: <empty map>")?;
        }
        for (key, value) in map {
            writeln!(context.out, "{name}.{key}: {value}")?;
        }
        return Ok(());
    }
    match opened.db.property(&opened.family, &name) {
        Some(value) => Ok(writeln!(context.out, "{name}: {value}")?),
        None => Err(failed(format!("failed to get property: {name}"))),
    }
}

/// The one family name of a command.
fn family_name(context: &Context<'_>, message: &str) -> Result<String, Stop> {
    match context.arguments.parameters.as_slice() {
        [name] => Ok(name.clone()),
        _ => Err(failed(message)),
    }
}

/// `checkpoint`
pub fn checkpoint(context: &mut Context<'_>) -> Outcome {
    let dir = context.arguments.option("checkpoint_dir").unwrap_or_default().to_owned();
    let opened = open(context, Access::ReadWrite)?;
    opened.db.checkpoint(dir)?;
    opened.db.close()?;
    Ok(writeln!(context.out, "OK")?)
}

/// `create_column_family`
pub fn create_column_family(context: &mut Context<'_>) -> Outcome {
    let name = family_name(context, "new column family name must be specified")?;
    let opened = open(context, Access::ReadWrite)?;
    opened
        .db
        .create_cf(&name, ColumnFamilyOptions::default())
        .map_err(|error| failed(format!("Fail to create new column family: {error}")))?;
    opened.db.close()?;
    Ok(writeln!(context.out, "OK")?)
}

/// `drop_column_family`
pub fn drop_column_family(context: &mut Context<'_>) -> Outcome {
    let name = family_name(context, "The name of column family to drop must be specified")?;
    let opened = open(context, Access::ReadWrite)?;
    let Some(family) = opened.db.cf(&name) else {
        return Err(failed(format!("Column family: {name} doesn't exist in db.")));
    };
    opened.db.drop_cf(&family).map_err(|error| failed(format!("Fail to drop column family: {error}")))?;
    opened.db.close()?;
    Ok(writeln!(context.out, "OK")?)
}

/// The path of a live file as the tool shows it: below the directory of the command line.
fn shown_path(opened: &Opened, file: &LiveFile) -> String {
    format!("{}/{}", opened.path.display(), file.name.trim_start_matches('/'))
}

/// `list_live_files_metadata`
pub fn list_live_files_metadata(context: &mut Context<'_>) -> Outcome {
    let opened = open(context, Access::ReadOnly)?;
    let files = opened.db.live_files();
    if context.arguments.flags.contains("sort_by_filename") {
        writeln!(context.out, "Live SST and Blob Files:")?;
        let mut files: Vec<&LiveFile> = files.iter().collect();
        files.sort_by(|a, b| a.name.cmp(&b.name));
        for file in files {
            let path = shown_path(&opened, file);
            writeln!(context.out, "{path} : level {}, column family '{}'", file.level, file.column_family)?;
        }
    } else {
        for family in opened.db.column_families() {
            writeln!(context.out, "===== Column Family: {} =====\nLive SST Files:", family.name())?;
            let levels = usize::try_from(opened.db.options(&family).cf.num_levels).unwrap_or(0);
            for level in 0..levels {
                writeln!(context.out, "---------- level {level} ----------")?;
                let here = |file: &&LiveFile| file.column_family == family.name() && file.level == level;
                for file in files.iter().filter(here) {
                    writeln!(context.out, "{}", shown_path(&opened, file))?;
                }
            }
            writeln!(context.out, "Live Blob Files:")?;
        }
    }
    Ok(writeln!(context.out, "------------------------------")?)
}

/// `list_file_range_deletes`
pub fn list_file_range_deletes(context: &mut Context<'_>) -> Outcome {
    let mut left = context.arguments.number::<i64>("max_keys")?.filter(|max| *max >= 0).unwrap_or(1000);
    let opened = open(context, Access::ReadOnly)?;
    for file in opened.db.live_files().iter().filter(|file| file.column_family == opened.family.name()) {
        if left == 0 {
            break;
        }
        writeln!(context.out, "=== file : {} ===", shown_path(&opened, file))?;
        let path = file.directory.join(file.name.trim_start_matches('/'));
        let table = crate::sst_dump::open(&context.env, &path)?;
        for tombstone in table.range_tombstones() {
            if left == 0 {
                break;
            }
            left -= 1;
            writeln!(
                context.out,
                "start: {} end: {} seq: {}",
                hex(&tombstone.start),
                hex(&tombstone.end),
                tombstone.sequence.0
            )?;
        }
    }
    Ok(writeln!(context.out)?)
}

/// `idump`: every version of every key.
pub fn internal_dump(context: &mut Context<'_>) -> Outcome {
    let arguments = &context.arguments;
    let as_hex = arguments.hex().keys;
    let key_hex = arguments.flags.contains("input_key_hex") || as_hex;
    let bound = |name: &str| -> Result<Option<Vec<u8>>, Stop> {
        match arguments.option(name) {
            Some(text) if key_hex => Ok(Some(unhex_prefixed(text).map_err(|e| failed(e.message()))?)),
            text => Ok(text.map(|text| text.as_bytes().to_vec())),
        }
    };
    let (from, to) = (bound("from")?, bound("to")?);
    let max_keys = arguments.number::<u64>("max_keys")?.filter(|max| *max > 0);
    let count_only = arguments.flags.contains("count_only");
    let opened = open(context, Access::ReadOnly)?;
    if context.arguments.flags.contains("stats")
        && let Some(stats) = opened.db.property(&opened.family, "rocksdb.stats")
    {
        writeln!(context.out, "{stats}")?;
    }
    let mut counter = PrefixCounter::new(context);
    let mut count = 0_u64;
    let mut failure = None;
    let mut output = Ok(());
    let out = &mut *context.out;
    opened.db.for_each_internal_entry(&opened.family, from.as_deref(), to.as_deref(), &mut |key, value| {
        let parsed = match parse_internal_key(key) {
            Ok(parsed) => parsed,
            Err(error) => {
                failure = Some(error);
                return false;
            }
        };
        count += 1;
        output = match &mut counter {
            Some(counter) => counter.add(out, parsed.user_key, value.len()),
            None if count_only => Ok(()),
            None => (|| {
                out.write_all(c_string(&parsed_key(&parsed, as_hex)))?;
                out.write_all(b" => ")?;
                out.write_all(&if as_hex { hex(value).into_bytes() } else { c_string(value).to_vec() })?;
                out.write_all(b"\n")
            })(),
        };
        output.is_ok() && max_keys.is_none_or(|max| count < max)
    })?;
    output?;
    if let Some(error) = failure {
        return Err(error.into());
    }
    match &mut counter {
        Some(counter) => counter.finish(context.out)?,
        None => writeln!(context.out, "Internal keys in range: {count}")?,
    }
    Ok(())
}
