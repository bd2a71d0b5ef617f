//! The nested payloads of an edit: blob files, tracked WALs and the progress of a subcompaction.

use super::new_file::{self, FieldRules, Generation};
use super::{NewFile, custom, malformed, tag};
use crate::key::FileNumber;
use crate::varint::{get_length_prefixed, get_varint32, get_varint64, put_length_prefixed, put_varint32, put_varint64};
use crate::{Error, Result};

/// A blob file that became part of the database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobFileAddition {
    /// The number in the file's name.
    pub number: FileNumber,
    /// Blobs in the file.
    pub total_blob_count: u64,
    /// Bytes of whole records (header, key, value), without the file's header and footer.
    pub total_blob_bytes: u64,
    /// The function of the whole-file checksum; empty if there is none.
    pub checksum_method: String,
    /// The whole-file checksum.
    pub checksum_value: Vec<u8>,
}

/// Garbage that a blob file gained.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobFileGarbage {
    /// The number in the file's name.
    pub number: FileNumber,
    /// Blobs that became garbage, in addition to what is known.
    pub garbage_blob_count: u64,
    /// Bytes that became garbage, in addition to what is known.
    pub garbage_blob_bytes: u64,
}

/// A WAL that was created (no size) or synced up to a size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalAddition {
    /// The number in the WAL's name.
    pub number: FileNumber,
    /// Bytes known to be on disk, if it was synced.
    pub synced_size_bytes: Option<u64>,
}

/// How far one subcompaction got; records in a `COMPACTION_PROGRESS` file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubcompactionProgress {
    /// The encoded internal key to go on from; empty if unknown.
    pub next_internal_key_to_compact: Vec<u8>,
    /// Input records that were processed.
    pub processed_input_records: u64,
    /// What went to the output level.
    pub output_level: SubcompactionProgressPerLevel,
    /// What went to the level above the output level.
    pub proximal_output_level: SubcompactionProgressPerLevel,
}

/// Output of a subcompaction to one level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubcompactionProgressPerLevel {
    /// Records written so far.
    pub processed_output_records: u64,
    /// Files finished since the last record.
    pub output_files: Vec<NewFile>,
}

/// Ends the custom fields of the blob records.
const BLOB_END: u32 = 0;

/// Ends the fields of a WAL addition.
const WAL_TERMINATE: u32 = 1;
/// Field of a WAL addition: bytes that are synced.
const WAL_SYNCED_SIZE: u32 = 2;

const PROGRESS_TERMINATE: u32 = 1;
const PROGRESS_NEXT_KEY: u32 = 2;
const PROGRESS_INPUT_RECORDS: u32 = 3;
const PROGRESS_OUTPUT_LEVEL: u32 = 4;
const PROGRESS_PROXIMAL_LEVEL: u32 = 5;
const PROGRESS_OUTPUT_FILES: u32 = 2;
const PROGRESS_OUTPUT_RECORDS: u32 = 3;
/// A reader that does not know a progress field with this bit skips it.
const PROGRESS_SAFE_IGNORE_MASK: u32 = 1 << 16;
/// The level that files in a progress record name: none.
const PROGRESS_NO_LEVEL: u32 = u32::MAX;

fn skip_blob_custom_fields(input: &mut &[u8], class: &str) -> Result<()> {
    let failed = |what: &str| Error::corruption(format!("{class}: Error decoding custom field {what}"));
    loop {
        let number = get_varint32(input).map_err(|_| failed("tag"))?;
        if number == BLOB_END {
            return Ok(());
        }
        if number & custom::MUST_UNDERSTAND_MASK != 0 {
            return Err(Error::corruption(format!("{class}: Forward incompatible custom field encountered")));
        }
        get_length_prefixed(input).map_err(|_| failed("value"))?;
    }
}

impl BlobFileAddition {
    pub(super) fn decode(input: &mut &[u8]) -> Result<Self> {
        let failed =
            |what: &'static str| move |_: Error| Error::corruption(format!("BlobFileAddition: Error decoding {what}"));
        let number = FileNumber(get_varint64(input).map_err(failed("blob file number"))?);
        let total_blob_count = get_varint64(input).map_err(failed("total blob count"))?;
        let total_blob_bytes = get_varint64(input).map_err(failed("total blob bytes"))?;
        let method = get_length_prefixed(input).map_err(failed("checksum method"))?;
        let checksum_method = std::str::from_utf8(method)
            .map_err(|_| Error::corruption("BlobFileAddition: Error decoding checksum method"))?
            .to_owned();
        let checksum_value = get_length_prefixed(input).map_err(failed("checksum value"))?.to_vec();
        skip_blob_custom_fields(input, "BlobFileAddition")?;
        Ok(Self { number, total_blob_count, total_blob_bytes, checksum_method, checksum_value })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint64(out, self.number.0);
        put_varint64(out, self.total_blob_count);
        put_varint64(out, self.total_blob_bytes);
        put_length_prefixed(out, self.checksum_method.as_bytes());
        put_length_prefixed(out, &self.checksum_value);
        put_varint32(out, BLOB_END);
    }
}

impl BlobFileGarbage {
    pub(super) fn decode(input: &mut &[u8]) -> Result<Self> {
        let failed =
            |what: &'static str| move |_: Error| Error::corruption(format!("BlobFileGarbage: Error decoding {what}"));
        let number = FileNumber(get_varint64(input).map_err(failed("blob file number"))?);
        let garbage_blob_count = get_varint64(input).map_err(failed("garbage blob count"))?;
        let garbage_blob_bytes = get_varint64(input).map_err(failed("garbage blob bytes"))?;
        skip_blob_custom_fields(input, "BlobFileGarbage")?;
        Ok(Self { number, garbage_blob_count, garbage_blob_bytes })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint64(out, self.number.0);
        put_varint64(out, self.garbage_blob_count);
        put_varint64(out, self.garbage_blob_bytes);
        put_varint32(out, BLOB_END);
    }
}

impl WalAddition {
    pub(super) fn decode(input: &mut &[u8]) -> Result<Self> {
        let failed =
            |what: &'static str| move |_: Error| Error::corruption(format!("WalAddition: Error decoding {what}"));
        let number = FileNumber(get_varint64(input).map_err(failed("WAL log number"))?);
        let mut synced_size_bytes = None;
        loop {
            match get_varint32(input).map_err(failed("tag"))? {
                WAL_SYNCED_SIZE => {
                    synced_size_bytes = Some(get_varint64(input).map_err(failed("WAL file size"))?);
                }
                WAL_TERMINATE => return Ok(Self { number, synced_size_bytes }),
                other => return Err(Error::corruption(format!("WalAddition: Unknown tag {other}"))),
            }
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint64(out, self.number.0);
        if let Some(size) = self.synced_size_bytes {
            put_varint32(out, WAL_SYNCED_SIZE);
            put_varint64(out, size);
        }
        put_varint32(out, WAL_TERMINATE);
    }
}

pub(super) fn decode_wal_deletion(input: &mut &[u8]) -> Result<FileNumber> {
    get_varint64(input).map(FileNumber).map_err(|_| Error::corruption("WalDeletion: Error decoding log number"))
}

fn progress_error(what: &str) -> Error {
    Error::corruption(format!("SubcompactionProgress: Error decoding {what}"))
}

/// Reads `{tag, length-prefixed field}` up to the terminator and hands each to `take`, which says whether it knows the tag.
fn for_each_progress_field<'a>(
    input: &mut &'a [u8],
    mut take: impl FnMut(u32, &mut &'a [u8]) -> Result<bool>,
) -> Result<()> {
    loop {
        let number = get_varint32(input).map_err(|_| progress_error("tag"))?;
        if number == PROGRESS_TERMINATE {
            return Ok(());
        }
        let mut field = get_length_prefixed(input).map_err(|_| progress_error("field"))?;
        if !take(number, &mut field)? && number & PROGRESS_SAFE_IGNORE_MASK == 0 {
            return Err(Error::not_supported(format!(
                "SubcompactionProgress: unknown custom field {number} that must be understood"
            )));
        }
    }
}

impl SubcompactionProgress {
    pub(super) fn decode(mut input: &[u8]) -> Result<Self> {
        let mut progress = Self::default();
        for_each_progress_field(&mut input, |number, field| {
            match number {
                PROGRESS_NEXT_KEY => progress.next_internal_key_to_compact = field.to_vec(),
                PROGRESS_INPUT_RECORDS => {
                    progress.processed_input_records =
                        get_varint64(field).map_err(|_| progress_error("number of processed input records"))?;
                }
                PROGRESS_OUTPUT_LEVEL => progress.output_level = SubcompactionProgressPerLevel::decode(field)?,
                PROGRESS_PROXIMAL_LEVEL => {
                    progress.proximal_output_level = SubcompactionProgressPerLevel::decode(field)?;
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(progress)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>, rules: FieldRules) -> Result<()> {
        if !self.next_internal_key_to_compact.is_empty() {
            put_varint32(out, PROGRESS_NEXT_KEY);
            put_length_prefixed(out, &self.next_internal_key_to_compact);
        }
        let mut records = Vec::new();
        put_varint64(&mut records, self.processed_input_records);
        put_varint32(out, PROGRESS_INPUT_RECORDS);
        put_length_prefixed(out, &records);
        for (number, level) in
            [(PROGRESS_OUTPUT_LEVEL, &self.output_level), (PROGRESS_PROXIMAL_LEVEL, &self.proximal_output_level)]
        {
            let mut field = Vec::new();
            level.encode(&mut field, rules)?;
            put_varint32(out, number);
            put_length_prefixed(out, &field);
        }
        put_varint32(out, PROGRESS_TERMINATE);
        Ok(())
    }
}

impl SubcompactionProgressPerLevel {
    fn decode(input: &mut &[u8]) -> Result<Self> {
        let mut level = Self::default();
        for_each_progress_field(input, |number, field| {
            match number {
                PROGRESS_OUTPUT_RECORDS => {
                    level.processed_output_records =
                        get_varint64(field).map_err(|_| progress_error("number of processed output records"))?;
                }
                PROGRESS_OUTPUT_FILES => {
                    let count = get_varint32(field).map_err(|_| progress_error("number of output files"))?;
                    for _ in 0..count {
                        let mut file = get_length_prefixed(field).map_err(|_| progress_error("output file"))?;
                        if get_varint32(&mut file).map_err(|_| progress_error("output file"))? != tag::NEW_FILE_4 {
                            return Err(malformed("new-file4 entry"));
                        }
                        level.output_files.push(new_file::decode(&mut file, Generation::Four)?.1);
                    }
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(level)
    }

    fn encode(&self, out: &mut Vec<u8>, rules: FieldRules) -> Result<()> {
        if self.processed_output_records > 0 {
            let mut records = Vec::new();
            put_varint64(&mut records, self.processed_output_records);
            put_varint32(out, PROGRESS_OUTPUT_RECORDS);
            put_length_prefixed(out, &records);
        }
        if !self.output_files.is_empty() {
            let count = u32::try_from(self.output_files.len())
                .map_err(|_| Error::invalid_argument("too many output files in a subcompaction progress record"))?;
            let mut field = Vec::new();
            put_varint32(&mut field, count);
            for file in &self.output_files {
                let mut bytes = Vec::new();
                put_varint32(&mut bytes, tag::NEW_FILE_4);
                new_file::encode(&mut bytes, PROGRESS_NO_LEVEL, file, None, rules)?;
                put_length_prefixed(&mut field, &bytes);
            }
            put_varint32(out, PROGRESS_OUTPUT_FILES);
            put_length_prefixed(out, &field);
        }
        put_varint32(out, PROGRESS_TERMINATE);
        Ok(())
    }
}
