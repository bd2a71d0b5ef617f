//! `--command=recompress`: the size of a table under other compression types.
//!
//! The table is rewritten in memory once per type and level, then read back once.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use firn_env::memory::MemoryFileSystem;
use firn_env::{Env, FileOptions, FileSystem};
use firn_error::Result;
use firn_format::compression::{CompressionOptions, CompressionType};
use firn_format::iterator::InternalIterator;
use firn_table::options::BlockBasedTableOptions;
use firn_table::{TableBuilder, TableBuilderOptions, TableReadOptions, TableReader, TableReaderOptions};

use super::arguments::Arguments;

const DEFAULT_BLOCK_BYTES: u64 = 16384;

/// What one rewrite gave.
struct Outcome {
    file_bytes: u64,
    raw_bytes: u64,
    blocks: u64,
    rejected: u64,
    bypassed: u64,
    write_micros: u64,
    read_micros: u64,
}

/// Rewrites the table with each wanted compression type and level, and prints what comes out.
///
/// # Errors
/// The outer error is the output stream's; the inner one says what is wrong with the table.
pub fn run(
    env: &Env,
    arguments: &Arguments,
    table: &Arc<TableReader>,
    out: &mut dyn Write,
) -> std::io::Result<Result<()>> {
    let block_bytes = arguments.block_size.unwrap_or(DEFAULT_BLOCK_BYTES);
    for kind in kinds(arguments) {
        writeln!(out, "Compression: {:<24} Block Size: {block_bytes}  Threads: 1", kind.option_name())?;
        let levels = match (arguments.level_from, arguments.level_to) {
            (Some(from), Some(to)) => from..=to,
            _ => CompressionOptions::DEFAULT_LEVEL..=CompressionOptions::DEFAULT_LEVEL,
        };
        for level in levels {
            let outcome = match rewrite(env, arguments, table, kind, level, block_bytes) {
                Ok(outcome) => outcome,
                Err(error) => return Ok(Err(error)),
            };
            writeln!(out, "{}", line(level, &outcome))?;
        }
    }
    Ok(Ok(()))
}

fn kinds(arguments: &Arguments) -> Vec<CompressionType> {
    // Types that this build lacks are passed over.
    let supported = |kind: &CompressionType| kind.is_supported();
    if !arguments.compression_types.is_empty() {
        return arguments.compression_types.iter().copied().filter(supported).collect();
    }
    let writable =
        |kind: &CompressionType| !matches!(kind, CompressionType::ZstdNotFinal | CompressionType::DisableOption);
    CompressionType::ALL.into_iter().filter(supported).filter(writable).collect()
}

fn rewrite(
    env: &Env,
    arguments: &Arguments,
    table: &Arc<TableReader>,
    kind: CompressionType,
    level: i32,
    block_bytes: u64,
) -> Result<Outcome> {
    let memory = MemoryFileSystem::new();
    let path = Path::new("recompressed.sst");
    let options = TableBuilderOptions {
        comparator: table.comparator().clone(),
        table: BlockBasedTableOptions { block_size: block_bytes, ..Default::default() },
        compression: kind,
        compression_options: CompressionOptions {
            level,
            max_dict_bytes: arguments.max_dict_bytes,
            zstd_max_train_bytes: arguments.zstd_max_train_bytes,
            max_dict_buffer_bytes: arguments.max_dict_buffer_bytes,
            use_zstd_dict_trainer: !arguments.finalize_dict,
            ..Default::default()
        },
        ..Default::default()
    };
    let file = memory.new_writable_file(path, &FileOptions::default())?;
    let start = env.clock().now_nanos();
    let mut builder = TableBuilder::new(options, file)?;
    let mut iter = table.iter(&TableReadOptions::default());
    iter.seek_to_first();
    while iter.valid() {
        builder.add(iter.key(), iter.value())?;
        iter.next();
    }
    iter.status()?;
    let summary = builder.finish()?;
    builder.into_file().close()?;
    let written = env.clock().now_nanos();
    let file = memory.new_random_access_file(path, &FileOptions::default())?;
    let reader_options = TableReaderOptions { comparator: table.comparator().clone(), ..Default::default() };
    let copy = Arc::new(TableReader::open(file, summary.file_size, reader_options)?);
    let mut iter = copy.iter(&TableReadOptions::default());
    iter.seek_to_first();
    while iter.valid() {
        iter.next();
    }
    iter.status()?;
    let read = env.clock().now_nanos();
    let properties = &summary.properties;
    Ok(Outcome {
        file_bytes: summary.file_size,
        raw_bytes: properties.raw_key_size + properties.raw_value_size,
        blocks: properties.num_data_blocks,
        rejected: properties.num_data_blocks_compression_rejected,
        bypassed: properties.num_data_blocks_compression_bypassed,
        write_micros: (written - start) / 1000,
        read_micros: (read - written) / 1000,
    })
}

fn line(level: i32, outcome: &Outcome) -> String {
    let blocks = outcome.blocks.max(1) as f64;
    let share = |count: u64| format!("{count:6} ({:5.1}%)", count as f64 * 100.0 / blocks);
    let compressed = outcome.blocks.saturating_sub(outcome.rejected + outcome.bypassed);
    format!(
        "Cx level: {level} Cx size: {:10} Uncx size: {:10} Ratio: {:.4} Write usec: {:10} Read usec: {:10} Cx count: {} \
         Not cx for ratio: {} Not cx otherwise: {}",
        outcome.file_bytes,
        outcome.raw_bytes,
        outcome.raw_bytes as f64 / outcome.file_bytes.max(1) as f64,
        outcome.write_micros,
        outcome.read_micros,
        share(compressed),
        share(outcome.rejected),
        share(outcome.bypassed)
    )
}
