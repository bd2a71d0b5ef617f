//! The command line of `ldb`: `--name=value` options, `--name` flags, and words; the first word is the command. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::text::{c_string, hex, unhex_prefixed};

/// Options that every command accepts.
const COMMON_OPTIONS: &[&str] = &[
    "db",
    "env_uri",
    "fs_uri",
    "secondary_path",
    "leader_path",
    "column_family",
    "try_load_options",
    "bloom_bits",
    "fix_prefix_len",
    "compression_type",
    "compression_max_dict_bytes",
    "block_size",
    "auto_compaction",
    "db_write_buffer_size",
    "write_buffer_size",
    "file_size",
    "min_blob_size",
    "blob_file_size",
    "blob_compression_type",
    "blob_garbage_collection_age_cutoff",
    "blob_garbage_collection_force_threshold",
    "blob_compaction_readahead_size",
    "blob_file_starting_level",
    "prepopulate_blob_cache",
    "uniform_cv_threshold",
    "txn_write_policy",
    "enable_blob_files",
    "enable_blob_garbage_collection",
    "ignore_unknown_options",
    "disable_consistency_checks",
    "key_hex",
    "value_hex",
    "hex",
    "ttl",
];

/// Flags that every command accepts.
const COMMON_FLAGS: &[&str] = &[
    "key_hex",
    "value_hex",
    "hex",
    "ttl",
    "try_load_options",
    "ignore_unknown_options",
    "disable_consistency_checks",
    "enable_blob_files",
    "enable_blob_garbage_collection",
    "use_txn",
];

/// The split command line.
#[derive(Clone, Debug, Default)]
pub struct Arguments {
    /// `--name=value`
    pub options: BTreeMap<String, String>,
    /// `--name`
    pub flags: BTreeSet<String>,
    /// The words behind the command.
    pub parameters: Vec<String>,
    /// The command.
    pub command: Option<String>,
}

impl Arguments {
    /// Splits the arguments behind the program's name.
    pub fn split(arguments: &[String]) -> Self {
        let mut split = Self::default();
        for argument in arguments {
            match argument.strip_prefix("--") {
                Some(body) => match body.split_once('=') {
                    Some((name, value)) => {
                        split.options.insert(name.to_owned(), value.to_owned());
                    }
                    None => {
                        split.flags.insert(body.to_owned());
                    }
                },
                None if split.command.is_none() => split.command = Some(argument.clone()),
                None => split.parameters.push(argument.clone()),
            }
        }
        split
    }

    /// The first option or flag that neither the command nor all commands know, as a message.
    pub fn unknown(&self, options: &[&str], flags: &[&str]) -> Option<String> {
        let option = |name: &&String| !COMMON_OPTIONS.contains(&name.as_str()) && !options.contains(&name.as_str());
        let flag = |name: &&String| !COMMON_FLAGS.contains(&name.as_str()) && !flags.contains(&name.as_str());
        if let Some(name) = self.options.keys().find(option) {
            return Some(format!("Invalid command-line option {name}"));
        }
        self.flags.iter().find(flag).map(|name| format!("Invalid command-line flag {name}"))
    }

    /// An option's value.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.get(name).map(String::as_str)
    }

    /// Whether a flag is there, or an option of that name says `true`.
    ///
    /// # Errors
    /// The message about a value that is neither `true` nor `false`.
    pub fn boolean(&self, name: &str, default: bool) -> Result<bool, String> {
        if self.flags.contains(name) {
            return Ok(true);
        }
        match self.option(name) {
            None => Ok(default),
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(other) => Err(format!("{name} has a value that is neither true nor false: {other}")),
        }
    }

    /// An option that is a number.
    ///
    /// # Errors
    /// The message about a value that is none.
    pub fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, String> {
        match self.option(name) {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| format!("{name} has an invalid value.")),
        }
    }

    /// How keys and values are written on the command line and in the output.
    pub fn hex(&self) -> HexMode {
        let both = self.boolean("hex", false).unwrap_or(false);
        HexMode {
            keys: both || self.boolean("key_hex", false).unwrap_or(false),
            values: both || self.boolean("value_hex", false).unwrap_or(false),
        }
    }
}

/// Which of keys and values are hexadecimal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HexMode {
    /// `--key_hex` or `--hex`
    pub keys: bool,
    /// `--value_hex` or `--hex`
    pub values: bool,
}

fn decode(text: &str, as_hex: bool) -> Result<Vec<u8>, String> {
    if as_hex { unhex_prefixed(text).map_err(|error| error.message().to_owned()) } else { Ok(text.as_bytes().to_vec()) }
}

fn encode(bytes: &[u8], as_hex: bool) -> Vec<u8> {
    if as_hex { format!("0x{}", hex(bytes)).into_bytes() } else { c_string(bytes).to_vec() }
}

impl HexMode {
    /// A key of the command line.
    ///
    /// # Errors
    /// The message about digits that are none.
    pub fn key(self, text: &str) -> Result<Vec<u8>, String> {
        decode(text, self.keys)
    }

    /// A value of the command line.
    ///
    /// # Errors
    /// As [`HexMode::key`].
    pub fn value(self, text: &str) -> Result<Vec<u8>, String> {
        decode(text, self.values)
    }

    /// A key for the output.
    pub fn show_key(self, key: &[u8]) -> Vec<u8> {
        encode(key, self.keys)
    }

    /// A value for the output.
    pub fn show_value(self, value: &[u8]) -> Vec<u8> {
        encode(value, self.values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(arguments: &[&str]) -> Arguments {
        Arguments::split(&arguments.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn options_flags_and_words_in_any_order() {
        let split = split(&["--db=/x=y", "put", "k", "--hex", "v", "--from="]);
        assert_eq!(split.option("db"), Some("/x=y"));
        assert_eq!(split.option("from"), Some(""));
        assert_eq!(split.command.as_deref(), Some("put"));
        assert_eq!(split.parameters, ["k", "v"]);
        assert_eq!(split.hex(), HexMode { keys: true, values: true });
    }

    #[test]
    fn unknown_names_are_reported() {
        let split = split(&["--db=x", "--frob=1", "scan"]);
        assert_eq!(split.unknown(&["from"], &[]).as_deref(), Some("Invalid command-line option frob"));
        assert_eq!(self::split(&["--frob"]).unknown(&[], &[]).as_deref(), Some("Invalid command-line flag frob"));
        assert_eq!(self::split(&["--from=a", "--ttl"]).unknown(&["from"], &[]), None);
    }

    #[test]
    fn booleans_and_numbers() {
        let split = split(&["--a", "--b=false", "--c=1", "--n=12", "--m=x"]);
        assert_eq!(split.boolean("a", false), Ok(true));
        assert_eq!(split.boolean("b", true), Ok(false));
        assert_eq!(split.boolean("z", true), Ok(true));
        assert!(split.boolean("c", false).is_err());
        assert_eq!(split.number::<u64>("n"), Ok(Some(12)));
        assert!(split.number::<u64>("m").is_err());
    }

    #[test]
    fn keys_and_values_convert_both_ways() {
        let mode = HexMode { keys: true, values: false };
        assert_eq!(mode.key("0x6B00").expect("digits"), b"k\0");
        assert_eq!(mode.key("k").expect_err("no digits"), "Invalid hex input k.  Must start with 0x");
        assert_eq!(mode.show_key(b"k\0"), b"0x6B00");
        assert_eq!(mode.show_value(b"v\0w"), b"v");
    }
}
