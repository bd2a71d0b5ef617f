//! The description of one table file in an edit: `NewFile4` and its four older forms.

use super::{custom, malformed};
use crate::key::{FileNumber, InternalKey, SequenceNumber};
use crate::varint::{get_length_prefixed, get_varint32, get_varint64, put_length_prefixed, put_varint32, put_varint64};
use crate::{Error, Result};

/// The name under which RocksDB reports that a file has no whole-file checksum.
pub const UNKNOWN_FILE_CHECKSUM_FUNC_NAME: &str = "Unknown";

/// How hot the data of a file is said to be: 0 unknown, 4 hot, 8 warm, 10 cool, 12 cold, 16 ice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Temperature(pub u8);

impl Temperature {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self(0);
    /// One past the last value that is read; files with greater ones count as unknown.
    const LIMIT: u8 = 0x11;

    /// The name RocksDB prints, such as `kHot`.
    pub const fn name(self) -> &'static str {
        match self.0 {
            4 => "kHot",
            8 => "kWarm",
            10 => "kCool",
            12 => "kCold",
            16 => "kIce",
            _ => "kUnknown",
        }
    }
}

/// A table file as a MANIFEST knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile {
    /// The number in the file's name.
    pub number: FileNumber,
    /// Index into the paths of the column family.
    pub path_id: u32,
    /// Exact size of the file in bytes.
    pub file_size: u64,
    /// No entry of the file sorts before this key.
    pub smallest: InternalKey,
    /// No entry of the file sorts after this key; a range sentinel is an exclusive bound.
    pub largest: InternalKey,
    /// The least sequence number in the file; `SequenceNumber::MAX` in LevelDB's records, which do not have it.
    pub smallest_sequence: SequenceNumber,
    /// The greatest sequence number in the file; 0 in LevelDB's records.
    pub largest_sequence: SequenceNumber,
    /// Somebody asked for the file to be compacted soon.
    pub marked_for_compaction: bool,
    /// How hot the data is said to be.
    pub temperature: Temperature,
    /// The lowest blob file that the file refers to; 0 = none.
    pub oldest_blob_file_number: FileNumber,
    /// When the oldest data of the file was written, in unix seconds; 0 = unknown.
    pub oldest_ancester_time: u64,
    /// When the file was written, in unix seconds; 0 = unknown.
    pub file_creation_time: u64,
    /// Whole-file checksum; empty if there is none.
    pub file_checksum: Vec<u8>,
    /// The function that computed the checksum; `Unknown` if there is none.
    pub file_checksum_func_name: String,
    /// The unique id of the table in its internal form, the two words that a MANIFEST keeps; zero = unknown.
    pub unique_id: [u64; 2],
    /// Orders the files of level 0: a greater epoch is newer. 0 = unknown.
    pub epoch_number: u64,
    /// Estimated bytes of deeper levels that the file's range tombstones cover.
    pub compensated_range_deletion_size: u64,
    /// Bytes after the last data block; 0 = unknown.
    pub tail_size: u64,
    /// Whether the keys of the file carry the timestamps of their comparator.
    pub user_defined_timestamps_persisted: bool,
    /// The least user timestamp of the file; empty if unknown.
    pub min_timestamp: Vec<u8>,
    /// The greatest user timestamp of the file; empty if unknown.
    pub max_timestamp: Vec<u8>,
    /// Bytes that the file system wants to see when the file is opened again.
    pub file_open_metadata: Vec<u8>,
}

impl Default for NewFile {
    fn default() -> Self {
        Self {
            number: FileNumber(0),
            path_id: 0,
            file_size: 0,
            smallest: InternalKey::default(),
            largest: InternalKey::default(),
            smallest_sequence: SequenceNumber::MAX,
            largest_sequence: SequenceNumber::ZERO,
            marked_for_compaction: false,
            temperature: Temperature::UNKNOWN,
            oldest_blob_file_number: FileNumber(0),
            oldest_ancester_time: 0,
            file_creation_time: 0,
            file_checksum: Vec::new(),
            file_checksum_func_name: UNKNOWN_FILE_CHECKSUM_FUNC_NAME.to_owned(),
            unique_id: [0, 0],
            epoch_number: 0,
            compensated_range_deletion_size: 0,
            tail_size: 0,
            user_defined_timestamps_persisted: true,
            min_timestamp: Vec::new(),
            max_timestamp: Vec::new(),
            file_open_metadata: Vec::new(),
        }
    }
}

/// Which of the five generations of the record is being read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Generation {
    LevelDb,
    Two,
    Three,
    Four,
}

impl Generation {
    fn malformed(self) -> Error {
        malformed(match self {
            Self::LevelDb => "new-file entry",
            Self::Two => "new-file2 entry",
            Self::Three => "new-file3 entry",
            Self::Four => "new-file4 entry",
        })
    }
}

fn get_internal_key(input: &mut &[u8]) -> Result<InternalKey> {
    InternalKey::from_encoded(get_length_prefixed(input)?)
}

/// Reads one new-file record after its tag: level, file, and the `MinLogNumberToKeep` that custom field 3 carries.
pub(super) fn decode(input: &mut &[u8], generation: Generation) -> Result<(u32, NewFile, Option<FileNumber>)> {
    let mut file = NewFile::default();
    let level = decode_fixed_part(input, generation, &mut file).map_err(|_| generation.malformed())?;
    let min_log = if generation == Generation::Four { decode_custom_fields(input, &mut file)? } else { None };
    Ok((level, file, min_log))
}

fn decode_fixed_part(input: &mut &[u8], generation: Generation, file: &mut NewFile) -> Result<u32> {
    let level = get_varint32(input)?;
    file.number = FileNumber(get_varint64(input)?);
    if generation == Generation::Three {
        file.path_id = get_varint32(input)?;
    }
    file.file_size = get_varint64(input)?;
    file.smallest = get_internal_key(input)?;
    file.largest = get_internal_key(input)?;
    if generation != Generation::LevelDb {
        file.smallest_sequence = SequenceNumber(get_varint64(input)?);
        file.largest_sequence = SequenceNumber(get_varint64(input)?);
    }
    Ok(level)
}

fn decode_custom_fields(input: &mut &[u8], file: &mut NewFile) -> Result<Option<FileNumber>> {
    let mut min_log_number_to_keep = None;
    loop {
        let number = get_varint32(input).map_err(|_| malformed("new-file4 custom field"))?;
        if number == custom::TERMINATE {
            return Ok(min_log_number_to_keep);
        }
        let mut field =
            get_length_prefixed(input).map_err(|_| malformed("new-file4 custom field length prefixed slice error"))?;
        let varint64 = |field: &mut &[u8], message: &str| get_varint64(field).map_err(|_| malformed(message));
        match number {
            custom::PATH_ID => match *field {
                [id @ 0..=3] => file.path_id = u32::from(id),
                [_] => return Err(malformed("path_id wrong vaue")),
                _ => return Err(malformed("path_id field wrong size")),
            },
            custom::NEED_COMPACTION => match *field {
                [flag] => file.marked_for_compaction = flag == 1,
                _ => return Err(malformed("need_compaction field wrong size")),
            },
            custom::MIN_LOG_NUMBER_TO_KEEP => match field.first_chunk::<8>() {
                Some(bytes) => min_log_number_to_keep = Some(FileNumber(u64::from_le_bytes(*bytes))),
                None => return Err(malformed("deleted log number malformatted")),
            },
            custom::OLDEST_BLOB_FILE_NUMBER => {
                file.oldest_blob_file_number = FileNumber(varint64(&mut field, "invalid oldest blob file number")?);
            }
            custom::OLDEST_ANCESTER_TIME => {
                file.oldest_ancester_time = varint64(&mut field, "invalid oldest ancester time")?;
            }
            custom::FILE_CREATION_TIME => {
                file.file_creation_time = varint64(&mut field, "invalid file creation time")?;
            }
            custom::FILE_CHECKSUM => file.file_checksum = field.to_vec(),
            custom::FILE_CHECKSUM_FUNC_NAME => {
                file.file_checksum_func_name = std::str::from_utf8(field)
                    .map_err(|_| malformed("file checksum function name is not UTF-8"))?
                    .to_owned();
            }
            custom::TEMPERATURE => match *field {
                [value] if value < Temperature::LIMIT => file.temperature = Temperature(value),
                [_] => {}
                _ => return Err(malformed("temperature field wrong size")),
            },
            custom::MIN_TIMESTAMP => file.min_timestamp = field.to_vec(),
            custom::MAX_TIMESTAMP => file.max_timestamp = field.to_vec(),
            custom::UNIQUE_ID => {
                let Some((low, high)) = field.split_first_chunk::<8>() else {
                    return Err(malformed("invalid unique id"));
                };
                let high = <[u8; 8]>::try_from(high).map_err(|_| malformed("invalid unique id"))?;
                file.unique_id = [u64::from_le_bytes(*low), u64::from_le_bytes(high)];
            }
            custom::EPOCH_NUMBER => file.epoch_number = varint64(&mut field, "invalid epoch number")?,
            custom::COMPENSATED_RANGE_DELETION_SIZE => {
                file.compensated_range_deletion_size = varint64(&mut field, "Invalid compensated range deletion size")?;
            }
            custom::TAIL_SIZE => file.tail_size = varint64(&mut field, "invalid tail start offset")?,
            custom::USER_DEFINED_TIMESTAMPS_PERSISTED => match *field {
                [flag] => file.user_defined_timestamps_persisted = flag == 1,
                _ => return Err(malformed("user-defined timestamps persisted field wrong size")),
            },
            custom::FILE_OPEN_METADATA => file.file_open_metadata = field.to_vec(),
            unknown if unknown & custom::MUST_UNDERSTAND_MASK != 0 => {
                return Err(malformed("new-file4 custom field not supported"));
            }
            _ => {}
        }
    }
}

/// Whether a file that `dialect` describes always has its checksum and lacks its epoch.
#[derive(Clone, Copy)]
pub(super) struct FieldRules {
    pub(super) always_checksum: bool,
    pub(super) epoch: bool,
}

/// Appends level and file as a `NewFile4` without its tag.
pub(super) fn encode(
    out: &mut Vec<u8>,
    level: u32,
    file: &NewFile,
    min_log_number_to_keep: Option<FileNumber>,
    rules: FieldRules,
) -> Result<()> {
    let refuse = |why: &str| Error::corruption(format!("Unable to encode VersionEdit: file #{} {why}", file.number));
    for boundary in [&file.smallest, &file.largest] {
        crate::key::parse_internal_key(boundary.encoded()).map_err(|_| refuse("has an invalid boundary key"))?;
    }
    if rules.epoch && file.epoch_number == 0 {
        return Err(refuse("has no epoch number"));
    }
    put_varint32(out, level);
    put_varint64(out, file.number.0);
    put_varint64(out, file.file_size);
    put_length_prefixed(out, file.smallest.encoded());
    put_length_prefixed(out, file.largest.encoded());
    put_varint64(out, file.smallest_sequence.0);
    put_varint64(out, file.largest_sequence.0);

    let mut field = |number: u32, bytes: &[u8]| {
        put_varint32(out, number);
        put_length_prefixed(out, bytes);
    };
    let varint = |value: u64| {
        let mut bytes = Vec::with_capacity(10);
        put_varint64(&mut bytes, value);
        bytes
    };
    field(custom::OLDEST_ANCESTER_TIME, &varint(file.oldest_ancester_time));
    field(custom::FILE_CREATION_TIME, &varint(file.file_creation_time));
    if rules.epoch {
        field(custom::EPOCH_NUMBER, &varint(file.epoch_number));
    }
    if rules.always_checksum || file.file_checksum_func_name != UNKNOWN_FILE_CHECKSUM_FUNC_NAME {
        field(custom::FILE_CHECKSUM, &file.file_checksum);
        field(custom::FILE_CHECKSUM_FUNC_NAME, file.file_checksum_func_name.as_bytes());
    }
    if file.path_id != 0 {
        let id =
            u8::try_from(file.path_id).ok().filter(|id| *id <= 3).ok_or_else(|| refuse("has a path id above 3"))?;
        field(custom::PATH_ID, &[id]);
    }
    if file.temperature != Temperature::UNKNOWN {
        field(custom::TEMPERATURE, &[file.temperature.0]);
    }
    if file.marked_for_compaction {
        field(custom::NEED_COMPACTION, &[1]);
    }
    if let Some(number) = min_log_number_to_keep {
        field(custom::MIN_LOG_NUMBER_TO_KEEP, &number.0.to_le_bytes());
    }
    if file.oldest_blob_file_number.0 != 0 {
        field(custom::OLDEST_BLOB_FILE_NUMBER, &varint(file.oldest_blob_file_number.0));
    }
    if file.unique_id != [0, 0] {
        let [low, high] = file.unique_id.map(u64::to_le_bytes);
        field(custom::UNIQUE_ID, &[low, high].concat());
    }
    if file.compensated_range_deletion_size != 0 {
        field(custom::COMPENSATED_RANGE_DELETION_SIZE, &varint(file.compensated_range_deletion_size));
    }
    if file.tail_size != 0 {
        field(custom::TAIL_SIZE, &varint(file.tail_size));
    }
    if !file.user_defined_timestamps_persisted {
        field(custom::USER_DEFINED_TIMESTAMPS_PERSISTED, &[0]);
    }
    let optional = [
        (custom::MIN_TIMESTAMP, &file.min_timestamp),
        (custom::MAX_TIMESTAMP, &file.max_timestamp),
        (custom::FILE_OPEN_METADATA, &file.file_open_metadata),
    ];
    for (number, bytes) in optional {
        if !bytes.is_empty() {
            field(number, bytes);
        }
    }
    put_varint32(out, custom::TERMINATE);
    Ok(())
}
