//! `--command=raw`: everything in a table as text, written beside it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use firn_env::{Env, FileOptions};
use firn_error::Result;
use firn_format::footer::BLOCK_BASED_MAGIC;
use firn_format::index::BlockHandle;
use firn_format::key::{InternalKey, parse_internal_key};
use firn_table::{TableReadOptions, TableReader};

use super::properties;
use crate::text::hex;

const RULE: &str = "--------------------------------------";

/// Writes `<path without .sst>_dump.txt` and returns its path.
///
/// # Errors
/// When the table is damaged or the dump cannot be written.
pub fn dump(env: &Env, path: &Path, table: &TableReader) -> Result<PathBuf> {
    let text_path = path.to_string_lossy();
    let stem = text_path.strip_suffix(".sst").unwrap_or(&text_path);
    let out_path = PathBuf::from(format!("{stem}_dump.txt"));
    let mut out = env.fs().new_writable_file(&out_path, &FileOptions::default())?;
    out.append(summary(table)?.as_bytes())?;
    let options = TableReadOptions::default();
    let mut blocks = Vec::new();
    table.index_entries(&options, &mut |_, handle| {
        blocks.push(handle);
        true
    })?;
    let mut sizes = Vec::with_capacity(blocks.len());
    for (number, handle) in blocks.iter().enumerate() {
        let mut text = format!("Data Block # {} @ {}\n{RULE}\n", number + 1, handle_hex(*handle));
        table.for_each_entry_of_block(*handle, &options, &mut |key, value| {
            // A key that is none still shows its bytes.
            let user_key = parse_internal_key(key).map_or(key, |parsed| parsed.user_key);
            text.push_str(&pair(user_key, value));
        })?;
        text.push('\n');
        out.append(text.as_bytes())?;
        sizes.push(handle.size);
    }
    let mut text = format!("Data Block Summary:\n{RULE}\n");
    let _ = writeln!(text, "  # data blocks: {}", sizes.len());
    let _ = writeln!(text, "  min data block size: {}", sizes.iter().min().copied().unwrap_or(0));
    let _ = writeln!(text, "  max data block size: {}", sizes.iter().max().copied().unwrap_or(0));
    let average = sizes.iter().sum::<u64>() as f64 / sizes.len().max(1) as f64;
    let _ = writeln!(text, "  avg data block size: {average:.6}");
    out.append(text.as_bytes())?;
    out.close()?;
    Ok(out_path)
}

fn handle_hex(handle: BlockHandle) -> String {
    let mut bytes = Vec::new();
    handle.encode_to(&mut bytes);
    hex(&bytes)
}

/// The bytes as characters, each followed by a blank.
fn spaced(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| [char::from(*byte), ' ']).collect()
}

fn pair(key: &[u8], value: &[u8]) -> String {
    format!("  HEX    {}: {}\n  ASCII  {}: {}\n  ------\n", hex(key), hex(value), spaced(key), spaced(value))
}

/// The name by which the dump calls a meta block.
fn meta_label(name: &[u8]) -> Option<&'static str> {
    if name.starts_with(b"fullfilter.") || name.starts_with(b"filter.") || name.starts_with(b"partitionedfilter.") {
        return Some("Filter block handle");
    }
    Some(match name {
        b"rocksdb.properties" => "Properties block handle",
        b"rocksdb.compression_dict" => "Compression dictionary block handle",
        b"rocksdb.range_del" => "Range deletion block handle",
        _ => return None,
    })
}

/// Everything before the data blocks.
fn summary(table: &TableReader) -> Result<String> {
    let footer = table.footer();
    let mut text = format!("Footer Details:\n{RULE}\n");
    let _ = writeln!(text, "  metaindex handle: {}", handle_hex(footer.metaindex));
    let meta_blocks = table.meta_blocks();
    let index = footer
        .index
        .or_else(|| meta_blocks.iter().find(|(name, _)| name == b"rocksdb.index").map(|(_, handle)| *handle));
    if let Some(index) = index {
        let _ = writeln!(text, "  index handle: {}", handle_hex(index));
    }
    let _ = writeln!(text, "  table_magic_number: {BLOCK_BASED_MAGIC}");
    let _ = writeln!(text, "  format version: {}\n  ", footer.format_version);
    let _ = writeln!(text, "Metaindex Details:\n{RULE}");
    for (name, handle) in &meta_blocks {
        if let Some(label) = meta_label(name) {
            let _ = writeln!(text, "  {label}: {}", handle_hex(*handle));
        }
    }
    let _ = writeln!(text, "\nTable Properties:\n{RULE}");
    text.push_str(&properties::text(table.properties(), "  ", ": "));
    let _ = writeln!(text, "  \nIndex Details:\n{RULE}");
    text.push_str("  Block key hex dump: Data block handle\n  Block key ascii\n\n");
    table.index_entries(&TableReadOptions::default(), &mut |key, handle| {
        let _ = writeln!(text, "  HEX    {}: {}", hex(key), handle_hex(handle));
        let _ = writeln!(text, "  ASCII  {}\n  ------", spaced(key));
        true
    })?;
    let _ = writeln!(text);
    let tombstones = table.range_tombstones();
    if !tombstones.is_empty() {
        let _ = writeln!(text, "Range deletions:\n{RULE}");
        for tombstone in tombstones {
            text.push_str(&pair(&tombstone.start, &tombstone.end));
        }
        text.push('\n');
    }
    Ok(text)
}

/// A key given on the command line, decoded.
pub fn parse_internal_key_text(bytes: &[u8]) -> std::result::Result<String, String> {
    match InternalKey::from_encoded(bytes) {
        Ok(key) if parse_internal_key(key.encoded()).is_ok() => {
            let text = crate::text::internal_key(&key, true);
            Ok(format!("key={}", String::from_utf8_lossy(&text)))
        }
        _ => Err(format!("Corrupted Key: Internal Key too small. Size={}. ", bytes.len())),
    }
}
