//! OPTIONS files: sections of `name=value` lines under a header that names versions.

use firn_error::{Error, Result};

use super::map::{escape, is_blank, trim, unescape};

const HEADER: &str = "# This is a RocksDB option file.
#
# For detailed file format spec, please refer to the example file
# in examples/rocksdb_option_file_example.ini
#

";

/// A version of the form `major.minor.patch`; missing parts are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OptionsFileVersion {
    /// The part before the first dot.
    pub major: u32,
    /// The part after the first dot.
    pub minor: u32,
    /// The part after the second dot.
    pub patch: u32,
}

impl OptionsFileVersion {
    /// Reads a version called `name` with at most `max_dots` dots.
    pub fn parse(name: &str, text: &str, max_dots: usize) -> Result<Self> {
        let invalid = |what: &str| Error::invalid_argument(format!("A valid {name} {what}"));
        if text.bytes().any(|byte| byte != b'.' && !byte.is_ascii_digit()) {
            return Err(invalid("can only contains dots and numbers."));
        }
        let parts: Vec<&str> = text.split('.').collect();
        if parts.len() > max_dots + 1 {
            return Err(invalid(&format!("can only contains at most {max_dots} dots.")));
        }
        let mut numbers = [0u32; 3];
        for (at, (part, number)) in parts.iter().zip(&mut numbers).enumerate() {
            if part.is_empty() {
                let place = if at + 1 == parts.len() { "after" } else { "before" };
                return Err(invalid(&format!("must have at least one digit {place} each dot.")));
            }
            *number = part.parse().map_err(|_| invalid("can only contains dots and numbers."))?;
        }
        let [major, minor, patch] = numbers;
        Ok(Self { major, minor, patch })
    }
}

impl std::fmt::Display for OptionsFileVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// What a section of an OPTIONS file is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SectionKind {
    /// `[Version]`.
    Version,
    /// `[DBOptions]`.
    Db,
    /// `[CFOptions "<column family>"]`.
    ColumnFamily {
        /// The column family's name.
        name: String,
    },
    /// `[TableOptions/<factory> "<column family>"]`.
    Table {
        /// The name of the table factory.
        factory: String,
        /// The column family's name.
        name: String,
    },
}

/// One section: what it is about, and its names with their raw values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionsSection {
    /// What the section is about.
    pub kind: SectionKind,
    /// Names and values, escaped as in the file, in its order; no name comes twice.
    pub entries: Vec<(String, String)>,
}

impl OptionsSection {
    /// The raw value of `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.entries.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The contents of an OPTIONS file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionsFile {
    /// The version of RocksDB that wrote it; zero when the file does not say.
    pub rocksdb_version: OptionsFileVersion,
    /// The version of the file's grammar; zero when the file does not say.
    pub options_file_version: OptionsFileVersion,
    /// Whether a section followed the version section, so that the versions were known before the options.
    pub version_comes_first: bool,
    /// Every section but the version, in the order of the file: the database's and each column family's, at least the
    /// default one's, are there once.
    pub sections: Vec<OptionsSection>,
}

/// The sections seen so far while a file is read.
#[derive(Default)]
struct Reader {
    file: OptionsFile,
    has_version: bool,
    has_db: bool,
    families: Vec<String>,
    current: Option<OptionsSection>,
}

fn at_line(message: impl std::fmt::Display, line: usize) -> Error {
    Error::invalid_argument(format!("[RocksDBOptionsParser Error] : {message} (at line {line})"))
}

/// `line` without its comment and without blanks at the ends. A `#` behind a backslash starts no comment, a blank behind one
/// is no blank at the end.
fn strip_comment(line: &str) -> &str {
    let bytes = line.as_bytes();
    let comment = (0..bytes.len()).find(|&at| {
        bytes.get(at) == Some(&b'#') && at.checked_sub(1).and_then(|before| bytes.get(before)) != Some(&b'\\')
    });
    let line = comment
        .and_then(|at| line.get(..at))
        .unwrap_or(line)
        .trim_start_matches(|c: char| u8::try_from(c).is_ok_and(is_blank));
    let trimmed = trim(line);
    let escapes_next = trimmed.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1;
    match line.as_bytes().get(trimmed.len()) {
        Some(b' ' | b'\t') if escapes_next => line.get(..trimmed.len() + 1).unwrap_or(trimmed),
        _ => trimmed,
    }
}

impl Reader {
    fn open_section(&mut self, line: &str, number: usize) -> Result<()> {
        let inner = line.get(1..line.len() - 1).unwrap_or_default();
        let (title, argument) = match (inner.find('"'), inner.rfind('"')) {
            (Some(first), Some(last)) if first != last => {
                (inner.get(..first).unwrap_or_default(), unescape(inner.get(first + 1..last).unwrap_or_default()))
            }
            _ => (inner, String::new()),
        };
        let kind = match trim(title) {
            "Version" => SectionKind::Version,
            "DBOptions" => SectionKind::Db,
            "CFOptions" => SectionKind::ColumnFamily { name: argument },
            title => match title.strip_prefix("TableOptions/") {
                Some(factory) if !factory.is_empty() => {
                    SectionKind::Table { factory: factory.to_owned(), name: argument }
                }
                _ => return Err(Error::invalid_argument(format!("Unknown section {line}"))),
            },
        };
        self.check_place(&kind).map_err(|message| at_line(message, number))?;
        self.current = Some(OptionsSection { kind, entries: Vec::new() });
        Ok(())
    }

    fn check_place(&mut self, kind: &SectionKind) -> Result<(), String> {
        match kind {
            SectionKind::Version if std::mem::replace(&mut self.has_version, true) => {
                Err("More than one Version section found in the option config file.".into())
            }
            SectionKind::Db if std::mem::replace(&mut self.has_db, true) => {
                Err("More than one DBOption section found in the option config file".into())
            }
            SectionKind::ColumnFamily { name } => {
                if self.families.is_empty() && name != "default" {
                    let message = "Default column family must be the first CFOptions section in the option config file";
                    return Err(message.into());
                }
                if self.families.contains(name) {
                    return Err(if name == "default" {
                        "Default column family must be the first CFOptions section in the optio/n config file".into()
                    } else {
                        "Two identical column families found in option config file".into()
                    });
                }
                self.families.push(name.clone());
                Ok(())
            }
            SectionKind::Table { name, .. } if !self.families.contains(name) => {
                let message = "Does not find a matched column family name in TableOptions section.";
                Err(format!("{message}  Column Family Name:{name}"))
            }
            _ => Ok(()),
        }
    }

    fn read_statement(&mut self, line: &str, number: usize) -> Result<()> {
        let Some((name, value)) = line.split_once('=') else {
            return Err(at_line("A valid statement must have a '='.", number));
        };
        let (name, value) = (trim(name), strip_comment(value));
        if name.is_empty() {
            return Err(at_line("A valid statement must have a variable name.", number));
        }
        if let Some(section) = &mut self.current
            && section.get(name).is_none()
        {
            section.entries.push((name.to_owned(), value.to_owned()));
        }
        Ok(())
    }

    fn close_section(&mut self, another_follows: bool) -> Result<()> {
        let Some(section) = self.current.take() else { return Ok(()) };
        if section.kind != SectionKind::Version {
            self.file.sections.push(section);
            return Ok(());
        }
        for (name, value) in &section.entries {
            match name.as_str() {
                "rocksdb_version" => self.file.rocksdb_version = OptionsFileVersion::parse(name, value, 2)?,
                "options_file_version" => {
                    self.file.options_file_version = OptionsFileVersion::parse(name, value, 1)?;
                    if self.file.options_file_version.major < 1 {
                        let message = "A valid options_file_version must be at least 1.";
                        return Err(Error::invalid_argument(message));
                    }
                }
                _ => {}
            }
        }
        self.file.version_comes_first = another_follows && self.file.sections.is_empty();
        Ok(())
    }
}

impl OptionsFile {
    /// Reads the text of an OPTIONS file. Errors name the line.
    pub fn parse(text: &str) -> Result<Self> {
        let mut reader = Reader::default();
        for (at, line) in text.split('\n').enumerate() {
            let line = strip_comment(line);
            if line.is_empty() {
                continue;
            }
            if line.len() >= 2 && line.starts_with('[') && line.ends_with(']') {
                reader.close_section(true)?;
                reader.open_section(line, at + 1)?;
            } else {
                reader.read_statement(line, at + 1)?;
            }
        }
        reader.close_section(false)?;
        if !reader.has_db {
            return Err(Error::corruption("A RocksDB Option file must have a single DBOptions section"));
        }
        if reader.families.is_empty() {
            return Err(Error::corruption("A RocksDB Option file must have a single CFOptions:default section"));
        }
        Ok(reader.file)
    }

    /// The section of the database's options.
    pub fn db(&self) -> Option<&OptionsSection> {
        self.sections.iter().find(|section| section.kind == SectionKind::Db)
    }

    /// The sections of column families, in the order of the file.
    pub fn column_families(&self) -> impl Iterator<Item = (&str, &OptionsSection)> {
        self.sections.iter().filter_map(|section| match &section.kind {
            SectionKind::ColumnFamily { name } => Some((name.as_str(), section)),
            _ => None,
        })
    }

    /// The name of the table factory of a column family, and the section of its options.
    pub fn table(&self, column_family: &str) -> Option<(&str, &OptionsSection)> {
        self.sections.iter().find_map(|section| match &section.kind {
            SectionKind::Table { factory, name } if name == column_family => Some((factory.as_str(), section)),
            _ => None,
        })
    }
}

/// Prints the file as RocksDB lays it out; entries with an empty value are left out.
impl std::fmt::Display for OptionsFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(HEADER)?;
        let current = OptionsFileVersion { major: 1, minor: 1, patch: 0 };
        let grammar = if self.options_file_version.major == 0 { current } else { self.options_file_version };
        writeln!(f, "[Version]\n  rocksdb_version={}", self.rocksdb_version)?;
        writeln!(f, "  options_file_version={}.{}", grammar.major, grammar.minor)?;
        for section in &self.sections {
            match &section.kind {
                SectionKind::Version => continue,
                SectionKind::Db => f.write_str("\n[DBOptions]")?,
                SectionKind::ColumnFamily { name } => write!(f, "\n[CFOptions \"{}\"]", escape(name))?,
                SectionKind::Table { factory, name } => write!(f, "[TableOptions/{factory} \"{}\"]", escape(name))?,
            }
            f.write_str("\n  ")?;
            for (name, value) in &section.entries {
                write!(f, "{name}={value}\n  ")?;
            }
            f.write_str("\n")?;
        }
        Ok(())
    }
}
