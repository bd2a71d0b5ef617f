//! The names of files in a database directory: building them and recognising them.
//!
//! Builders return the bare name; the caller joins it with the directory. [`parse`] answers `None` for every name that
//! is not a database file, and such files are left alone. Numbers are decimal, padded to six digits when written and of
//! any length when read.

use crate::key::FileNumber;

/// Names the live MANIFEST.
pub const CURRENT: &str = "CURRENT";
/// Holds the identity of the database.
pub const IDENTITY: &str = "IDENTITY";
/// Held locked while the database is open for writing.
pub const LOCK: &str = "LOCK";
/// The info log in the database directory, and the prefix of rotated ones.
pub const INFO_LOG: &str = "LOG";
/// The directory below the WAL directory that keeps archived WALs.
pub const ARCHIVE_DIR: &str = "archive";
/// The end of the name of a file that waits for its deletion.
pub const TRASH_SUFFIX: &str = ".trash";

/// What a file of a database directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileKind {
    /// `NNNNNN.log`: a write-ahead log.
    Wal,
    /// `archive/NNNNNN.log`: a write-ahead log kept for readers of updates.
    ArchivedWal,
    /// `LOCK`.
    Lock,
    /// `NNNNNN.sst`, or `NNNNNN.ldb` as LevelDB writes it.
    Table,
    /// `MANIFEST-NNNNNN`.
    Manifest,
    /// `CURRENT`.
    Current,
    /// `NNNNNN.dbtmp` and the like: being written, to be renamed.
    Temp,
    /// `LOG`, `LOG.old.N`; the number is the time of rotation in microseconds since 1970.
    InfoLog,
    /// `METADB-N`: a legacy meta database.
    MetaDatabase,
    /// `IDENTITY`.
    Identity,
    /// `OPTIONS-NNNNNN`.
    Options,
    /// `NNNNNN.blob`.
    Blob,
    /// `COMPACTION_PROGRESS-N`.
    CompactionProgress,
}

/// A recognised name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParsedName {
    /// What the file is.
    pub kind: FileKind,
    /// The number in its name; 0 for names without one.
    pub number: FileNumber,
}

/// `NNNNNN.log`.
pub fn wal(number: FileNumber) -> String {
    format!("{:06}.log", number.get())
}

/// `archive/NNNNNN.log`.
pub fn archived_wal(number: FileNumber) -> String {
    format!("{ARCHIVE_DIR}/{:06}.log", number.get())
}

/// `NNNNNN.sst`.
pub fn table(number: FileNumber) -> String {
    format!("{:06}.sst", number.get())
}

/// `NNNNNN.ldb`: the name that LevelDB gives a table; tried by readers when the other is missing.
pub fn leveldb_table(number: FileNumber) -> String {
    format!("{:06}.ldb", number.get())
}

/// `NNNNNN.blob`.
pub fn blob(number: FileNumber) -> String {
    format!("{:06}.blob", number.get())
}

/// `MANIFEST-NNNNNN`.
pub fn manifest(number: FileNumber) -> String {
    format!("MANIFEST-{:06}", number.get())
}

/// `OPTIONS-NNNNNN`.
pub fn options(number: FileNumber) -> String {
    format!("OPTIONS-{:06}", number.get())
}

/// `OPTIONS-NNNNNN.dbtmp`.
pub fn temp_options(number: FileNumber) -> String {
    format!("OPTIONS-{:06}.dbtmp", number.get())
}

/// `NNNNNN.dbtmp`; the number is that of the new MANIFEST for CURRENT and 0 for IDENTITY.
pub fn temp(number: FileNumber) -> String {
    format!("{:06}.dbtmp", number.get())
}

/// `<prefix>.old.<micros>`: an info log rotated so many microseconds after 1970.
pub fn old_info_log(prefix: &str, micros: u64) -> String {
    format!("{prefix}.old.{micros}")
}

/// The name that `name` takes while it waits for its deletion; `conflict` counts the names already taken.
pub fn trash(name: &str, conflict: Option<u32>) -> String {
    match conflict {
        None => format!("{name}{TRASH_SUFFIX}"),
        Some(count) => format!("{name}{count}{TRASH_SUFFIX}"),
    }
}

/// Whether the file waits for its deletion.
pub fn is_trash(name: &str) -> bool {
    name.ends_with(TRASH_SUFFIX)
}

/// What CURRENT contains: the name of the MANIFEST and a newline.
pub fn current_content(manifest_number: FileNumber) -> String {
    format!("{}\n", manifest(manifest_number))
}

/// The name of the info log of the database at `absolute_db_path` in a separate directory for info logs.
///
/// Characters outside `[0-9A-Za-z._-]` become `_`, a leading one is dropped, repeated slashes count once.
pub fn info_log_prefix(absolute_db_path: &str) -> String {
    const SUFFIX: &str = "_LOG";
    const MAX_BYTES: usize = 259;
    let mut name = String::new();
    let mut previous_slash = false;
    for (index, byte) in absolute_db_path.bytes().enumerate() {
        if name.len() == MAX_BYTES - SUFFIX.len() {
            break;
        }
        let slash = byte == b'/';
        if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-') {
            name.push(char::from(byte));
        } else if index > 0 && !(slash && previous_slash) {
            name.push('_');
        }
        previous_slash = slash;
    }
    name.push_str(SUFFIX);
    name
}

/// Recognises a name in the database or WAL directory, with [`INFO_LOG`] as the prefix of info logs.
pub fn parse(name: &str) -> Option<ParsedName> {
    parse_with_info_log_prefix(name, Some(INFO_LOG))
}

/// Recognises a name; info logs only when their prefix is given.
pub fn parse_with_info_log_prefix(name: &str, info_log_prefix: Option<&str>) -> Option<ParsedName> {
    let name = name.strip_prefix('/').unwrap_or(name);
    let unnumbered = |kind| Some(ParsedName { kind, number: FileNumber(0) });
    let numbered = |kind, number| Some(ParsedName { kind, number: FileNumber(number) });
    match name {
        IDENTITY => return unnumbered(FileKind::Identity),
        CURRENT => return unnumbered(FileKind::Current),
        LOCK => return unnumbered(FileKind::Lock),
        _ => {}
    }
    if let Some(rest) = info_log_prefix.filter(|prefix| !prefix.is_empty()).and_then(|prefix| name.strip_prefix(prefix))
    {
        return match rest {
            "" | ".old" => unnumbered(FileKind::InfoLog),
            _ => match take_number(rest.strip_prefix(".old.")?)? {
                (micros, "") => numbered(FileKind::InfoLog, micros),
                _ => None,
            },
        };
    }
    if let Some(rest) = name.strip_prefix("MANIFEST-") {
        return whole_number(rest).and_then(|number| numbered(FileKind::Manifest, number));
    }
    if let Some(rest) = name.strip_prefix("METADB-") {
        return whole_number(rest).and_then(|number| numbered(FileKind::MetaDatabase, number));
    }
    if let Some(rest) = name.strip_prefix("COMPACTION_PROGRESS-") {
        return match take_number(rest)? {
            (number, "") => numbered(FileKind::CompactionProgress, number),
            (number, ".dbtmp") => numbered(FileKind::Temp, number),
            _ => None,
        };
    }
    if let Some(rest) = name.strip_prefix("OPTIONS-") {
        let (number, suffix) = take_number(rest)?;
        let kind = if suffix == ".dbtmp" { FileKind::Temp } else { FileKind::Options };
        return numbered(kind, number);
    }
    let (name, archived) = match name.strip_prefix(ARCHIVE_DIR).and_then(|rest| rest.strip_prefix('/')) {
        Some(rest) => (rest, true),
        None => (name, false),
    };
    let (number, suffix) = take_number(name)?;
    match suffix {
        ".log" if archived => numbered(FileKind::ArchivedWal, number),
        _ if archived => None,
        ".log" => numbered(FileKind::Wal, number),
        ".sst" | ".ldb" => numbered(FileKind::Table, number),
        ".blob" => numbered(FileKind::Blob, number),
        ".dbtmp" => numbered(FileKind::Temp, number),
        _ => None,
    }
}

/// The decimal number at the start of `text` and what follows; `None` without digits or beyond 64 bits.
fn take_number(text: &str) -> Option<(u64, &str)> {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    digits.parse().ok().map(|number| (number, rest))
}

fn whole_number(text: &str) -> Option<u64> {
    take_number(text).filter(|(_, rest)| rest.is_empty()).map(|(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_round_trip() {
        let n = FileNumber(7);
        for (name, text, kind) in [
            (wal(n), "000007.log", FileKind::Wal),
            (archived_wal(n), "archive/000007.log", FileKind::ArchivedWal),
            (table(n), "000007.sst", FileKind::Table),
            (leveldb_table(n), "000007.ldb", FileKind::Table),
            (blob(n), "000007.blob", FileKind::Blob),
            (manifest(n), "MANIFEST-000007", FileKind::Manifest),
            (options(n), "OPTIONS-000007", FileKind::Options),
            (temp_options(n), "OPTIONS-000007.dbtmp", FileKind::Temp),
            (temp(n), "000007.dbtmp", FileKind::Temp),
            (old_info_log(INFO_LOG, 7), "LOG.old.7", FileKind::InfoLog),
        ] {
            assert_eq!(name, text);
            assert_eq!(parse(text), Some(ParsedName { kind, number: n }), "{text}");
        }
        assert_eq!(current_content(n), "MANIFEST-000007\n");
        assert_eq!(table(FileNumber(12_345_678)), "12345678.sst");
    }

    #[test]
    fn recognised_names() {
        for (name, kind, number) in [
            ("CURRENT", FileKind::Current, 0),
            ("/CURRENT", FileKind::Current, 0),
            ("IDENTITY", FileKind::Identity, 0),
            ("LOCK", FileKind::Lock, 0),
            ("LOG", FileKind::InfoLog, 0),
            ("LOG.old", FileKind::InfoLog, 0),
            ("LOG.old.1795288590123456", FileKind::InfoLog, 1_795_288_590_123_456),
            ("0.sst", FileKind::Table, 0),
            ("18446744073709551615.log", FileKind::Wal, u64::MAX),
            ("METADB-3", FileKind::MetaDatabase, 3),
            ("COMPACTION_PROGRESS-12", FileKind::CompactionProgress, 12),
            ("COMPACTION_PROGRESS-12.dbtmp", FileKind::Temp, 12),
            ("OPTIONS-000009.bak", FileKind::Options, 9),
        ] {
            assert_eq!(parse(name), Some(ParsedName { kind, number: FileNumber(number) }), "{name}");
        }
    }

    #[test]
    fn foreign_names_are_left_alone() {
        for name in [
            "",
            "foo",
            "foo-dx-100.log",
            ".log",
            "100",
            "100.",
            "100.lop",
            "manifest",
            "CURREN",
            "CURRENTX",
            "MANIFEST",
            "MANIFEST-",
            "XMANIFEST-3",
            "MANIFEST-3x",
            "METADB-3x",
            "LOC",
            "LOCKx",
            "LOG.oldx",
            "LOG.old.x",
            "18446744073709551616.log",
            "184467440737095516150.log",
            "000007.sst.trash",
            "000007.log0.trash",
            "archive/000007.sst",
            "archive/",
            "OPTIONS-",
            "-1.log",
            "+1.log",
        ] {
            assert_eq!(parse(name), None, "{name}");
        }
        assert_eq!(parse_with_info_log_prefix("LOG", None), None);
    }

    #[test]
    fn info_logs_elsewhere() {
        assert_eq!(info_log_prefix("/data/x y+z"), "data_x_y_z_LOG");
        assert_eq!(info_log_prefix("//data//db"), "_data_db_LOG".trim_start_matches('_'));
        assert_eq!(info_log_prefix(&"a".repeat(400)).len(), 259);
        let parsed = parse_with_info_log_prefix("data_db_LOG.old.5", Some("data_db_LOG"));
        assert_eq!(parsed, Some(ParsedName { kind: FileKind::InfoLog, number: FileNumber(5) }));
    }

    #[test]
    fn trash_names() {
        assert_eq!(trash("000007.sst", None), "000007.sst.trash");
        assert_eq!(trash("000007.sst", Some(0)), "000007.sst0.trash");
        assert!(is_trash("000007.sst0.trash") && !is_trash("000007.sst"));
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_left_alone(name in "(archive/|MANIFEST-|OPTIONS-|LOG)?[0-9]{0,22}.{0,8}") {
            let _ = parse(&name);
        }
    }
}
