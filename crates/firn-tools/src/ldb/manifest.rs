//! MANIFEST files as text: the tree that they describe, and each edit.
//!
//! In: the bytes of a MANIFEST. Out: the lines of `manifest_dump` and `file_checksum_dump`. The edits are folded here
//! without opening the database, so that a database that does not open can still be looked at.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use firn_env::Env;
use firn_error::{Error, Result};
use firn_format::filename::{self, FileKind};
use firn_format::key::FileNumber;
use firn_format::log::{LogReader, RecoveryMode, SliceSource};
use firn_format::unique_id::InternalUniqueId;
use firn_format::version_edit::{BlobFileAddition, DEFAULT_COLUMN_FAMILY_NAME, NewFile, VersionEdit};
use firndb::options::builtin_comparator;

use crate::text::{hex, internal_key};

/// Largest MANIFEST that is read, in bytes.
const MAX_MANIFEST_BYTES: u64 = 4 << 30;

/// Levels that the dump shows, however many the database has.
const SHOWN_LEVELS: u32 = 64;

const DEFAULT_COMPARATOR: &str = "leveldb.BytewiseComparator";

/// One column family as the edits leave it.
#[derive(Debug)]
pub struct FamilyState {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: u32,
    /// Number of the oldest WAL that holds something its tables lack.
    pub log_number: u64,
    /// Name of its comparator.
    pub comparator: String,
    /// Files by level and number.
    pub files: BTreeMap<(u32, FileNumber), NewFile>,
    /// Blob files, and how many of their blobs and bytes are garbage.
    pub blobs: BTreeMap<FileNumber, (BlobFileAddition, u64, u64)>,
}

/// The whole MANIFEST folded.
#[derive(Debug, Default)]
pub struct ManifestState {
    /// Families by id.
    pub families: BTreeMap<u32, FamilyState>,
    next_file_number: u64,
    last_sequence: u64,
    prev_log_number: u64,
    max_column_family: u32,
    min_log_number_to_keep: u64,
}

impl ManifestState {
    fn add_family(&mut self, id: u32, name: &str) {
        let family = FamilyState {
            name: name.to_owned(),
            id,
            log_number: 0,
            comparator: DEFAULT_COMPARATOR.to_owned(),
            files: BTreeMap::new(),
            blobs: BTreeMap::new(),
        };
        self.families.insert(id, family);
    }

    fn apply(&mut self, edit: &VersionEdit) -> Result<()> {
        let number = |slot: &mut u64, value: Option<FileNumber>| {
            if let Some(value) = value {
                *slot = value.0;
            }
        };
        number(&mut self.next_file_number, edit.next_file_number);
        number(&mut self.prev_log_number, edit.prev_log_number);
        if let Some(keep) = edit.min_log_number_to_keep {
            self.min_log_number_to_keep = self.min_log_number_to_keep.max(keep.0);
        }
        if let Some(sequence) = edit.last_sequence {
            self.last_sequence = self.last_sequence.max(sequence.0);
        }
        if let Some(max) = edit.max_column_family {
            self.max_column_family = self.max_column_family.max(max);
        }
        if let Some(name) = &edit.column_family_add {
            self.add_family(edit.column_family, name);
            self.max_column_family = self.max_column_family.max(edit.column_family);
        }
        if edit.column_family_drop {
            self.families.remove(&edit.column_family);
            return Ok(());
        }
        let Some(family) = self.families.get_mut(&edit.column_family) else {
            return Err(Error::corruption(format!("an edit names the unknown column family {}", edit.column_family)));
        };
        if let Some(log_number) = edit.log_number {
            family.log_number = family.log_number.max(log_number.0);
        }
        if let Some(comparator) = &edit.comparator {
            family.comparator.clone_from(comparator);
        }
        for deleted in &edit.deleted_files {
            family.files.remove(deleted);
        }
        for blob in &edit.blob_file_additions {
            family.blobs.insert(blob.number, (blob.clone(), 0, 0));
        }
        for garbage in &edit.blob_file_garbages {
            if let Some((_, count, bytes)) = family.blobs.get_mut(&garbage.number) {
                *count += garbage.garbage_blob_count;
                *bytes += garbage.garbage_blob_bytes;
            }
        }
        for (level, file) in &edit.new_files {
            family.files.insert((*level, file.number), file.clone());
        }
        Ok(())
    }
}

/// Reads a MANIFEST, hands each edit to `visit`, and returns what they add up to.
///
/// # Errors
/// Corruption naming the file, and errors of the file.
pub fn read(env: &Env, path: &Path, visit: &mut dyn FnMut(&VersionEdit)) -> Result<ManifestState> {
    let bytes = firn_env::read_file(&**env.fs(), path, MAX_MANIFEST_BYTES)?;
    let mut reader = LogReader::new(SliceSource(&bytes), 0, RecoveryMode::AbsoluteConsistency);
    let mut state = ManifestState::default();
    state.add_family(0, DEFAULT_COLUMN_FAMILY_NAME);
    while reader.advance()? {
        let edit = VersionEdit::decode(reader.record())
            .map_err(|error| error.with_file(path).with_offset(reader.record_offset()))?;
        visit(&edit);
        state.apply(&edit).map_err(|error| error.with_file(path).with_offset(reader.record_offset()))?;
    }
    match reader.take_report() {
        Some(report) => Err(report.error.with_file(path)),
        None => Ok(state),
    }
}

/// The one MANIFEST in a directory.
///
/// # Errors
/// The message when there is none, or more than one.
pub fn find(env: &Env, directory: &Path) -> std::result::Result<PathBuf, String> {
    let names = env.fs().children(directory).map_err(|error| error.to_string())?;
    let mut manifests = names
        .iter()
        .filter(|name| filename::parse(name).is_some_and(|parsed| matches!(parsed.kind, FileKind::Manifest)));
    match (manifests.next(), manifests.next()) {
        (Some(name), None) => Ok(directory.join(name)),
        (Some(_), Some(_)) => Err("Multiple MANIFEST files found; use --path to select one".to_owned()),
        _ => Err(format!("No MANIFEST found in {}", directory.display())),
    }
}

/// The MANIFEST that CURRENT names.
///
/// # Errors
/// Corruption when CURRENT names none; errors of the file.
pub fn current(env: &Env, directory: &Path) -> Result<PathBuf> {
    let path = directory.join(filename::CURRENT);
    let bytes = firn_env::read_file(&**env.fs(), &path, 4096)?;
    let text = String::from_utf8_lossy(&bytes);
    // With a slash before it the name is the same one, and still lies in this directory.
    match text.strip_suffix('\n').map(|name| name.strip_prefix('/').unwrap_or(name)) {
        Some(name) if filename::parse(name).is_some_and(|parsed| matches!(parsed.kind, FileKind::Manifest)) => {
            Ok(directory.join(name))
        }
        _ => Err(Error::corruption("CURRENT file does not name a MANIFEST").with_file(path)),
    }
}

/// What `manifest_dump` prints beside the final state.
#[derive(Clone, Copy, Debug)]
pub struct DumpOptions {
    /// Each edit.
    pub edits: bool,
    /// A line before and behind everything, with the path.
    pub frame: bool,
    /// Keys in hex.
    pub as_hex: bool,
}

/// `manifest_dump`
///
/// # Errors
/// As [`read`]; the outer error is that of the output.
pub fn dump(env: &Env, path: &Path, options: DumpOptions, out: &mut dyn Write) -> std::io::Result<Result<()>> {
    let as_hex = options.as_hex;
    if options.frame {
        writeln!(out, "Processing Manifest file {}", path.display())?;
    }
    let mut edits = Vec::new();
    let state = match read(env, path, &mut |edit| {
        if options.edits {
            edits.extend_from_slice(&edit_text(edit, as_hex));
            edits.push(b'\n');
        }
    }) {
        Ok(state) => state,
        Err(error) => {
            out.write_all(&edits)?;
            return Ok(Err(error));
        }
    };
    out.write_all(&edits)?;
    // Each family had a first, empty version before.
    let families = state.families.len();
    for (index, family) in state.families.values().enumerate() {
        family_lines(family, (families + index) as u64, as_hex, out)?;
    }
    writeln!(
        out,
        "next_file_number {} last_sequence {}  prev_log_number {} max_column_family {} min_log_number_to_keep {}",
        state.next_file_number + 1,
        state.last_sequence,
        state.prev_log_number,
        state.max_column_family,
        state.min_log_number_to_keep
    )?;
    if options.frame {
        writeln!(out, "Processing Manifest file {} done", path.display())?;
    }
    Ok(Ok(()))
}

/// The files of one level, as a version orders them: level 0 newest first, others by their keys.
pub(super) fn level_files(family: &FamilyState, level: u32) -> Vec<&NewFile> {
    let range = (level, FileNumber(0))..=(level, FileNumber(u64::MAX));
    let mut files: Vec<&NewFile> = family.files.range(range).map(|(_, file)| file).collect();
    if level == 0 {
        files.sort_by_key(|file| {
            std::cmp::Reverse((file.epoch_number, file.largest_sequence, file.smallest_sequence, file.number))
        });
        return files;
    }
    // Without the comparator the order is bytewise, or the reverse of it where the first file shows that.
    match builtin_comparator(&family.comparator) {
        Some(order) => files.sort_by(|a, b| {
            order
                .compare(a.smallest.user_key(), b.smallest.user_key())
                .then(b.smallest.sequence().cmp(&a.smallest.sequence()))
        }),
        None => files.sort_by(|a, b| a.smallest.user_key().cmp(b.smallest.user_key())),
    }
    files
}

fn family_lines(family: &FamilyState, version: u64, as_hex: bool, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "--------------- Column family \"{}\"  (ID {}) --------------", family.name, family.id)?;
    writeln!(out, "log number: {}", family.log_number)?;
    // The dump compares with the default order only, and says so of any other.
    if family.comparator == DEFAULT_COMPARATOR {
        writeln!(out, "comparator: {}", family.comparator)?;
    } else {
        writeln!(out, "comparator: <{}>, but the comparator object is not available.", family.comparator)?;
    }
    let deepest = family.files.keys().map(|(level, _)| *level).max().unwrap_or(0);
    for level in 0..SHOWN_LEVELS.max(deepest + 1) {
        writeln!(out, "--- level {level} --- version# {version} ---")?;
        for file in level_files(family, level) {
            let range = format!(
                " {}:{}[{} .. {}][",
                file.number.0, file.file_size, file.smallest_sequence.0, file.largest_sequence.0
            );
            let mut line = range.into_bytes();
            line.extend_from_slice(&internal_key(&file.smallest, as_hex));
            line.extend_from_slice(b" .. ");
            line.extend_from_slice(&internal_key(&file.largest, as_hex));
            line.push(b']');
            if file.oldest_blob_file_number.0 != 0 {
                line.extend_from_slice(format!(" blob_file:{}", file.oldest_blob_file_number.0).as_bytes());
            }
            line.push(b'\n');
            out.write_all(&line)?;
        }
    }
    // A version forgets a blob file that is all garbage and that no table refers to.
    let links = |number: FileNumber| family.files.values().filter(move |file| file.oldest_blob_file_number == number);
    let is_live = |(blob, garbage, _): &&(BlobFileAddition, u64, u64)| {
        *garbage < blob.total_blob_count || links(blob.number).next().is_some()
    };
    if family.blobs.values().any(|blob| is_live(&blob)) {
        writeln!(out, "--- blob files --- version# {version} ---")?;
    }
    for (blob, garbage_count, garbage_bytes) in family.blobs.values().filter(is_live) {
        let linked: String = links(blob.number).map(|file| format!("{} ", file.number.0)).collect();
        writeln!(
            out,
            "{} linked_ssts: {{ {linked}}} garbage_blob_count: {garbage_count} garbage_blob_bytes: {garbage_bytes}",
            blob_text(blob)
        )?;
    }
    writeln!(
        out,
        "By default, manifest file dump prints LSM trees as if {SHOWN_LEVELS} levels were configured, which is not \
         necessarily true for the column family (CF) this manifest is associated with. Please consult other DB files, \
         such as the OPTIONS file, to confirm."
    )
}

/// One edit in the form `VersionEdit {\n  Label: value\n}`.
pub fn edit_text(edit: &VersionEdit, as_hex: bool) -> Vec<u8> {
    let mut text = b"VersionEdit {".to_vec();
    let mut line = |label: &str, value: &[u8]| {
        text.extend_from_slice(b"\n  ");
        text.extend_from_slice(label.as_bytes());
        text.extend_from_slice(value);
    };
    let number = |value: u64| value.to_string().into_bytes();
    if let Some(id) = &edit.db_id {
        line("DB ID: ", id.as_bytes());
    }
    if let Some(name) = &edit.comparator {
        line("Comparator: ", name.as_bytes());
    }
    if let Some(persist) = edit.persist_user_defined_timestamps {
        line("PersistUserDefinedTimestamps: ", persist.to_string().as_bytes());
    }
    let numbers = [
        ("LogNumber: ", edit.log_number.map(|n| n.0)),
        ("PrevLogNumber: ", edit.prev_log_number.map(|n| n.0)),
        ("NextFileNumber: ", edit.next_file_number.map(|n| n.0)),
        ("MaxColumnFamily: ", edit.max_column_family.map(u64::from)),
        ("MinLogNumberToKeep: ", edit.min_log_number_to_keep.map(|n| n.0)),
        ("LastSeq: ", edit.last_sequence.map(|n| n.0)),
    ];
    for (label, value) in numbers {
        if let Some(value) = value {
            line(label, &number(value));
        }
    }
    for (level, key) in &edit.compact_cursors {
        line("CompactCursor: ", &[number(u64::from(*level)), b" ".to_vec(), internal_key(key, as_hex)].concat());
    }
    for (level, file) in &edit.deleted_files {
        line("DeleteFile: ", format!("{level} {}", file.0).as_bytes());
    }
    for (level, file) in &edit.new_files {
        line("AddFile: ", &new_file_text(*level, file, as_hex));
    }
    for blob in &edit.blob_file_additions {
        line("BlobFileAddition: ", blob_text(blob).as_bytes());
    }
    for garbage in &edit.blob_file_garbages {
        let text = format!(
            "blob_file_number: {} garbage_blob_count: {} garbage_blob_bytes: {}",
            garbage.number.0, garbage.garbage_blob_count, garbage.garbage_blob_bytes
        );
        line("BlobFileGarbage: ", text.as_bytes());
    }
    for wal in &edit.wal_additions {
        let size = wal.synced_size_bytes.unwrap_or(0);
        line("WalAddition: ", format!("log_number: {} synced_size_in_bytes: {size}", wal.number.0).as_bytes());
    }
    if let Some(below) = edit.wal_deletion {
        line("WalDeletion: ", format!("log_number: {}", below.0).as_bytes());
    }
    line("ColumnFamily: ", &number(u64::from(edit.column_family)));
    if let Some(name) = &edit.column_family_add {
        line("ColumnFamilyAdd: ", name.as_bytes());
    }
    if edit.column_family_drop {
        line("ColumnFamilyDrop", b"");
    }
    if let Some(remaining) = edit.remaining_entries {
        line("AtomicGroup: ", format!("{remaining} entries remains").as_bytes());
    }
    if let Some(low) = &edit.full_history_ts_low {
        line("FullHistoryTsLow: ", hex(low).as_bytes());
    }
    text.extend_from_slice(b"\n}");
    text
}

fn blob_text(blob: &BlobFileAddition) -> String {
    format!(
        "blob_file_number: {} total_blob_count: {} total_blob_bytes: {} checksum_method: {} checksum_value: {}",
        blob.number.0,
        blob.total_blob_count,
        blob.total_blob_bytes,
        blob.checksum_method,
        hex(&blob.checksum_value)
    )
}

fn new_file_text(level: u32, file: &NewFile, as_hex: bool) -> Vec<u8> {
    let mut text = format!("{level} {} {} ", file.number.0, file.file_size).into_bytes();
    text.extend_from_slice(&internal_key(&file.smallest, as_hex));
    text.extend_from_slice(b" .. ");
    text.extend_from_slice(&internal_key(&file.largest, as_hex));
    let mut more = |part: String| text.extend_from_slice(part.as_bytes());
    if file.oldest_blob_file_number.0 != 0 {
        more(format!(" blob_file:{}", file.oldest_blob_file_number.0));
    }
    more(format!(" oldest_ancester_time:{}", file.oldest_ancester_time));
    more(format!(" file_creation_time:{}", file.file_creation_time));
    more(format!(" epoch_number:{}", file.epoch_number));
    more(format!(" file_checksum:{}", hex(&file.file_checksum)));
    more(format!(" file_checksum_func_name: {}", file.file_checksum_func_name));
    if file.temperature.0 != 0 {
        more(format!(" temperature: {}", file.temperature.0));
    }
    if file.unique_id != [0; 2] {
        let id = InternalUniqueId([file.unique_id[0], file.unique_id[1], 0]);
        more(format!(" unique_id(internal): {id} public_unique_id: {}", id.to_public()));
    }
    if file.tail_size != 0 {
        more(format!(" tail size: {}", file.tail_size));
    }
    more(format!(" User-defined timestamps persisted: {}", file.user_defined_timestamps_persisted));
    text
}

/// `file_checksum_dump`: one line per live file.
pub fn checksum_lines(state: &ManifestState, out: &mut dyn Write) -> std::io::Result<()> {
    let mut files: Vec<&NewFile> = state.families.values().flat_map(|family| family.files.values()).collect();
    files.sort_by_key(|file| file.number);
    for file in files {
        writeln!(out, "{}, {}, {}", file.number.0, file.file_checksum_func_name, hex(&file.file_checksum))?;
    }
    writeln!(out, "Print SST file checksum information finished ")
}
