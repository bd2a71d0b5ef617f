//! Version edits, whole MANIFESTs and the text of options (`docs/format/manifest.md`, `docs/format/options.md`).

use crate::keys::shown_key;
use crate::page::{Kind, Vector, hex, shown};
use firn_format::log::{LogReader, RecoveryMode, SliceSource};
use firn_format::version_edit::{EditDialect, NewFile, UNKNOWN_FILE_CHECKSUM_FUNC_NAME, VersionEdit};
use firn_format::{Result, options_text};

pub(crate) const KINDS: &[Kind] = &[
    ("version-edit", version_edit),
    ("manifest", manifest),
    ("options-map", options_map),
    ("options-list", |v| {
        Ok(options_text::split_list(&v.input)?.iter().map(|e| format!("`{e}`")).collect::<Vec<_>>().join(" "))
    }),
    ("options-escape", options_escape),
];

/// `name value` for every field that has one.
#[derive(Default)]
struct Fields(Vec<String>);

impl Fields {
    fn add(&mut self, name: &str, value: Option<impl std::fmt::Display>) {
        self.0.extend(value.map(|value| format!("{name} {value}")));
    }

    fn join(&self) -> String {
        self.0.join(", ")
    }
}

/// The value, unless it says that there is none.
fn some<T: PartialEq>(value: T, none: T) -> Option<T> {
    (value != none).then_some(value)
}

fn shown_file(level: u32, file: &NewFile) -> Result<String> {
    let mut fields = Fields::default();
    fields.add("path", some(file.path_id, 0));
    fields.add("ancester time", some(file.oldest_ancester_time, 0));
    fields.add("creation time", some(file.file_creation_time, 0));
    fields.add("epoch", some(file.epoch_number, 0));
    fields.add("checksum", some(hex(&file.file_checksum), String::new()));
    let unknown = UNKNOWN_FILE_CHECKSUM_FUNC_NAME.to_owned();
    fields.add("checksum function", some(file.file_checksum_func_name.clone(), unknown));
    fields.add("temperature", some(file.temperature.0, 0));
    fields.add("oldest blob", some(file.oldest_blob_file_number.0, 0));
    let [low, high] = file.unique_id.map(|word| hex(&word.to_le_bytes()));
    fields.add("id", some(low + &high, "0".repeat(32)));
    fields.add("covers", some(file.compensated_range_deletion_size, 0));
    fields.add("tail", some(file.tail_size, 0));
    fields.add("min ts", some(hex(&file.min_timestamp), String::new()));
    fields.add("max ts", some(hex(&file.max_timestamp), String::new()));
    fields.0.extend(file.marked_for_compaction.then(|| "compact soon".to_owned()));
    fields.0.extend((!file.user_defined_timestamps_persisted).then(|| "timestamps stripped".to_owned()));
    let (smallest, largest) = (shown_key(file.smallest.encoded())?, shown_key(file.largest.encoded())?);
    Ok(format!(
        "AddFile level {level} #{} {} bytes {smallest} .. {largest} seq {}..{} {{{}}}",
        file.number,
        file.file_size,
        file.smallest_sequence,
        file.largest_sequence,
        fields.join()
    ))
}

fn shown_edit(edit: &VersionEdit) -> Result<String> {
    let mut fields = Fields::default();
    fields.add("DbId", edit.db_id.as_ref());
    fields.add("Comparator", edit.comparator.as_ref());
    fields.add("LogNumber", edit.log_number);
    fields.add("PrevLogNumber", edit.prev_log_number);
    fields.add("NextFileNumber", edit.next_file_number);
    fields.add("MaxColumnFamily", edit.max_column_family);
    fields.add("MinLogNumberToKeep", edit.min_log_number_to_keep);
    fields.add("LastSequence", edit.last_sequence);
    for (level, key) in &edit.compact_cursors {
        fields.add("CompactCursor", Some(format!("level {level} {}", shown_key(key.encoded())?)));
    }
    for (level, number) in &edit.deleted_files {
        fields.add("DeleteFile", Some(format!("level {level} #{number}")));
    }
    for (level, file) in &edit.new_files {
        fields.0.push(shown_file(*level, file)?);
    }
    for blob in &edit.blob_file_additions {
        let checksum = format!("{} {}", shown(blob.checksum_method.as_bytes()), shown(&blob.checksum_value));
        let total = format!("#{} count {} bytes {}", blob.number, blob.total_blob_count, blob.total_blob_bytes);
        fields.add("BlobFile", Some(format!("{total} checksum {checksum}")));
    }
    for garbage in &edit.blob_file_garbages {
        let counts = (garbage.garbage_blob_count, garbage.garbage_blob_bytes);
        fields.add("BlobGarbage", Some(format!("#{} count {} bytes {}", garbage.number, counts.0, counts.1)));
    }
    for wal in &edit.wal_additions {
        let size = wal.synced_size_bytes.map_or("created".to_owned(), |size| format!("synced {size}"));
        fields.add("WalAddition", Some(format!("#{} {size}", wal.number)));
    }
    fields.add("WalDeletion below", edit.wal_deletion);
    fields.add("ColumnFamily", some(edit.column_family, 0));
    fields.add("ColumnFamilyAdd", edit.column_family_add.as_ref());
    fields.0.extend(edit.column_family_drop.then(|| "ColumnFamilyDrop".to_owned()));
    fields.add("InAtomicGroup", edit.remaining_entries);
    fields.add("FullHistoryTsLow", edit.full_history_ts_low.as_deref().map(hex));
    fields.add("PersistUserDefinedTimestamps", edit.persist_user_defined_timestamps);
    fields.add("LastCompactedManifestFileSize", edit.last_compacted_manifest_file_size);
    Ok(if fields.0.is_empty() { "nothing".to_owned() } else { fields.join() })
}

/// The generation of writers that made the bytes, by the first version that wrote them so.
fn dialect(vector: &Vector) -> EditDialect {
    match vector.attribute("writer") {
        None | Some("10.0") => EditDialect::Current,
        Some("7.10") => EditDialect::WithChecksums,
        Some("7.8") => EditDialect::WithoutEpochs,
        Some(other) => panic!("{}: no writer {other}", vector.place),
    }
}

fn version_edit(vector: &Vector) -> Result<String> {
    let edit = VersionEdit::decode(&vector.bytes())?;
    let text = shown_edit(&edit)?;
    if !vector.is_read_only() {
        vector.round_trip(&edit.encode_as(dialect(vector))?)?;
    }
    Ok(text)
}

/// The edits of a MANIFEST, a semicolon between them.
fn manifest(vector: &Vector) -> Result<String> {
    let bytes = vector.bytes();
    let mut reader = LogReader::new(SliceSource(&bytes), 0, RecoveryMode::TolerateCorruptedTailRecords);
    let mut edits = Vec::new();
    while reader.advance()? {
        edits.push(shown_edit(&VersionEdit::decode(reader.record())?)?);
    }
    match reader.take_report() {
        Some(report) => Err(report.error),
        None => Ok(edits.join("; ")),
    }
}

fn options_map(vector: &Vector) -> Result<String> {
    let pairs = options_text::parse_map(&vector.input)?;
    Ok(pairs.iter().map(|(name, value)| format!("{name} `{value}`")).collect::<Vec<_>>().join(" "))
}

/// Escaped text to the bytes it stands for.
fn options_escape(vector: &Vector) -> Result<String> {
    let plain = options_text::unescape(&vector.input);
    vector.round_trip_text(&options_text::escape(&plain))?;
    Ok(hex(plain.as_bytes()))
}
