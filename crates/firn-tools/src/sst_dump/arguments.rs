//! The command line of `sst_dump`: `--name=value` and `--name` only, plus positional files. Pure.

use firn_error::Result;
use firn_format::compression::CompressionType;

use crate::text::unhex;

/// What is to be done with each file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Command {
    /// Read everything, report errors.
    #[default]
    Check,
    /// Print entries.
    Scan,
    /// Write the whole content beside the file.
    Raw,
    /// Verify all checksums.
    Verify,
    /// Measure other compressions.
    Recompress,
    /// Say which files are valid.
    Identify,
    /// Any other word: files are only opened.
    Other,
}

/// The parsed command line.
#[derive(Clone, Debug, Default)]
pub struct Arguments {
    /// Files and directories.
    pub paths: Vec<String>,
    /// `--command`
    pub command: Command,
    /// `--output_hex`
    pub output_hex: bool,
    /// `--from`, decoded.
    pub from: Option<Vec<u8>>,
    /// `--to`, decoded.
    pub to: Option<Vec<u8>>,
    /// `--prefix`, decoded; excludes `from`.
    pub prefix: Option<Vec<u8>>,
    /// `--read_num`; 0 is all.
    pub read_num: u64,
    /// `--verify_checksum`
    pub verify_checksum: bool,
    /// `--show_properties`
    pub show_properties: bool,
    /// `--show_summary`
    pub show_summary: bool,
    /// `--list_meta_blocks`
    pub list_meta_blocks: bool,
    /// `--set_block_size`
    pub block_size: Option<u64>,
    /// `--compression_types`
    pub compression_types: Vec<CompressionType>,
    /// `--compression_level_from`
    pub level_from: Option<i32>,
    /// `--compression_level_to`
    pub level_to: Option<i32>,
    /// `--compression_max_dict_bytes`
    pub max_dict_bytes: u32,
    /// `--compression_zstd_max_train_bytes`
    pub zstd_max_train_bytes: u32,
    /// `--compression_max_dict_buffer_bytes`
    pub max_dict_buffer_bytes: u64,
    /// `--compression_use_zstd_finalize_dict`
    pub finalize_dict: bool,
    /// `--parse_internal_key`
    pub parse_internal_key: Option<String>,
}

/// What the command line asks for.
#[derive(Debug)]
pub enum Parsed {
    /// Run with these arguments.
    Run(Box<Arguments>),
    /// Print the help (stderr) and exit with the status.
    Help(i32),
    /// Print the version (stdout) and exit with 0.
    Version,
    /// Print the message and, when asked for, the help (stderr), and exit with 1.
    Fail {
        /// The message.
        message: String,
        /// Whether the help follows.
        with_help: bool,
    },
}

/// The help text.
pub const HELP: &str = "
sst_dump --file=<data_dir_OR_sst_file> [--command=check|scan|raw|verify|recompress|identify] [<file>...]
    --file=<data_dir_OR_sst_file>
      A table file, or a directory of which all files ending in .sst are taken

    --command=check|scan|raw|verify|recompress|identify
        check: read all entries and report errors (the default)
        scan: print the entries
        raw: write everything in the file to <file_name>_dump.txt
        verify: compare every block with its checksum
        recompress: report the size with other compression types
        identify: say which files are valid

    --output_hex
      Print keys and values in hex

    --from=<user_key>, --to=<user_key>
      The range of check and scan; the end is not part of it

    --prefix=<user_key>
      Only keys with this prefix; not together with --from

    --read_num=<num>
      Read at most this many entries

    --input_key_hex
      --from, --to and --prefix are given in hex

    --verify_checksum
      Verify checksums in check and scan

    --show_properties, --show_summary, --list_meta_blocks
      Print the properties of each file, totals over all files, the meta blocks

    --set_block_size=<bytes>, --compression_types=<kA,kB>, --compression_level_from=<n>, --compression_level_to=<n>,
    --compression_max_dict_bytes=<n>, --compression_zstd_max_train_bytes=<n>, --compression_max_dict_buffer_bytes=<n>,
    --compression_use_zstd_finalize_dict
      What recompress tries

    --parse_internal_key=<0xKEY>
      Only decode this internal key
";

fn fail(message: impl Into<String>) -> Parsed {
    Parsed::Fail { message: message.into(), with_help: true }
}

/// Parses the arguments behind the program's name.
pub fn parse(arguments: &[String]) -> Parsed {
    let mut parsed = Arguments::default();
    let mut input_hex = false;
    let (mut from, mut to, mut prefix) = (None, None, None);
    for argument in arguments {
        let Some(body) = argument.strip_prefix("--") else {
            parsed.paths.push(argument.clone());
            continue;
        };
        let (name, value) = match body.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (body, None),
        };
        match (name, value) {
            ("help", None) => return Parsed::Help(0),
            ("version", None) => return Parsed::Version,
            ("file", Some(path)) => parsed.paths.push(path.to_owned()),
            ("env_uri" | "fs_uri", Some(_)) => return fail(format!("--{name} is not supported")),
            ("output_hex", None) => parsed.output_hex = true,
            ("input_key_hex", None) => input_hex = true,
            ("command", Some(command)) => {
                parsed.command = match command {
                    "check" => Command::Check,
                    "scan" => Command::Scan,
                    "raw" => Command::Raw,
                    "verify" => Command::Verify,
                    "recompress" => Command::Recompress,
                    "identify" => Command::Identify,
                    _ => Command::Other,
                }
            }
            ("verify_checksum", None) => parsed.verify_checksum = true,
            // Neither blob files nor an alternative form of rows are there to be shown.
            (
                "decode_blob_index" | "show_sequence_number_type" | "enable_index_compression" | "verify_compression",
                None,
            ) => {}
            ("from", Some(text)) => from = Some(text.to_owned()),
            ("to", Some(text)) => to = Some(text.to_owned()),
            ("prefix", Some(text)) => prefix = Some(text.to_owned()),
            ("show_properties", None) => parsed.show_properties = true,
            ("show_summary", None) => parsed.show_summary = true,
            ("list_meta_blocks", None) => parsed.list_meta_blocks = true,
            ("compression_types", Some(list)) => {
                parsed.compression_types = match compression_types(list) {
                    Ok(kinds) => kinds,
                    Err(message) => return Parsed::Fail { message, with_help: false },
                };
            }
            ("parse_internal_key", Some(text)) => parsed.parse_internal_key = Some(text.to_owned()),
            ("compression_use_zstd_finalize_dict", None) => parsed.finalize_dict = true,
            (_, Some(number)) => match set_number(&mut parsed, name, number) {
                Some(true) => {}
                Some(false) => return fail(format!("Invalid value for --{name}: {number}")),
                None => return fail(format!("Unrecognized argument '{argument}'")),
            },
            _ => return fail(format!("Unrecognized argument '{argument}'")),
        }
    }
    let decode = |text: Option<String>| -> Result<Option<Vec<u8>>> {
        match text {
            // The digits may carry the prefix that other tools print.
            Some(text) if input_hex => unhex(text.strip_prefix("0x").unwrap_or(&text)).map(Some),
            text => Ok(text.map(String::into_bytes)),
        }
    };
    let keys = (|| Ok::<_, firn_error::Error>((decode(from)?, decode(to)?, decode(prefix)?)))();
    (parsed.from, parsed.to, parsed.prefix) = match keys {
        Ok(keys) => keys,
        Err(error) => return Parsed::Fail { message: error.message().to_owned(), with_help: false },
    };
    if parsed.from.is_some() && parsed.prefix.is_some() {
        return fail("Cannot specify --prefix and --from");
    }
    if parsed.level_from.is_some() != parsed.level_to.is_some() {
        return fail("Specify both --compression_level_from and --compression_level_to.");
    }
    if parsed.level_from.is_some() && parsed.compression_types.len() != 1 {
        return fail("Specify exactly one compression type with --compression_level_from and --compression_level_to.");
    }
    if parsed.paths.is_empty() && parsed.parse_internal_key.is_none() {
        return fail("file or directory must be specified.");
    }
    Parsed::Run(Box::new(parsed))
}

/// The types of a list; an empty list means all types.
fn compression_types(list: &str) -> std::result::Result<Vec<CompressionType>, String> {
    if list.is_empty() {
        return Ok(Vec::new());
    }
    let names = list.strip_suffix(',').unwrap_or(list).split(',');
    let kind =
        |name| CompressionType::from_option_name(name).ok_or_else(|| format!("{name} is not a valid CompressionType"));
    names.map(kind).collect()
}

/// Sets a numeric option: `None` when there is none of that name, `Some(false)` when the value is no number.
fn set_number(parsed: &mut Arguments, name: &str, text: &str) -> Option<bool> {
    fn store<T: std::str::FromStr>(slot: &mut T, text: &str) -> bool {
        text.parse().map(|value| *slot = value).is_ok()
    }
    fn store_some<T: std::str::FromStr>(slot: &mut Option<T>, text: &str) -> bool {
        text.parse().map(|value| *slot = Some(value)).is_ok()
    }
    Some(match name {
        "read_num" => store(&mut parsed.read_num, text),
        "set_block_size" | "block_size" => store_some(&mut parsed.block_size, text),
        "compression_level_from" => store_some(&mut parsed.level_from, text),
        "compression_level_to" => store_some(&mut parsed.level_to, text),
        "compression_level" => store_some(&mut parsed.level_from, text) && store_some(&mut parsed.level_to, text),
        "compression_max_dict_bytes" => store(&mut parsed.max_dict_bytes, text),
        "compression_zstd_max_train_bytes" => store(&mut parsed.zstd_max_train_bytes, text),
        "compression_max_dict_buffer_bytes" => store(&mut parsed.max_dict_buffer_bytes, text),
        // One thread is enough for one file.
        "compression_parallel_threads" | "readahead_size" => text.parse::<u64>().is_ok(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(arguments: &[&str]) -> Arguments {
        match parse(&arguments.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>()) {
            Parsed::Run(arguments) => *arguments,
            other => panic!("{other:?}"),
        }
    }

    fn failure(arguments: &[&str]) -> String {
        match parse(&arguments.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>()) {
            Parsed::Fail { message, .. } => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_and_positional_files() {
        let parsed = run(&["--file=a", "b", "--command=scan", "--from=k", "--read_num=3", "--output_hex"]);
        assert_eq!(parsed.paths, ["a", "b"]);
        assert_eq!(parsed.command, Command::Scan);
        assert_eq!((parsed.from.as_deref(), parsed.read_num), (Some(&b"k"[..]), 3));
        assert_eq!(run(&["--file=a", "--input_key_hex", "--to=6B00"]).to.as_deref(), Some(&b"k\0"[..]));
        assert_eq!(run(&["--file=a", "--input_key_hex", "--to=0x6B"]).to.as_deref(), Some(&b"k"[..]));
        assert_eq!(run(&["--file=a", "--command=nonsense"]).command, Command::Other);
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(failure(&["--bogus"]), "Unrecognized argument '--bogus'");
        assert_eq!(failure(&[]), "file or directory must be specified.");
        assert_eq!(failure(&["--file=a", "--from=a", "--prefix=b"]), "Cannot specify --prefix and --from");
        assert_eq!(failure(&["--file=a", "--read_num=x"]), "Invalid value for --read_num: x");
        assert_eq!(failure(&["--file=a", "--from=6", "--input_key_hex"]), "Invalid hex input 6");
    }
}
