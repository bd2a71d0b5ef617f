//! Text: OPTIONS files, option strings, names of files.

use firn_format::compression::CompressionOptions;
use firn_format::filename::{self, FileKind};
use firn_format::filter::FilterPolicy;
use firn_format::options::{ConfigOptions, Dialect, ObjectText, OptionSet, ParsedNumber};
use firn_format::options_text::{
    OptionsFile, OptionsFileVersion, escape, escape_value, join_list, parse_map, split_list, strip_braces, unescape,
};
use firn_format::slice_transform;
use firndb::options::{
    BlockBasedTableOptions, ColumnFamilyOptions, DbOptions, LoadedOptions, TableFactory, change_column_family_options,
    change_db_options, parse_offpeak_time, validate_column_family_options, validate_db_options,
};

use crate::input::flags;

fn config(flags: u8) -> ConfigOptions {
    ConfigOptions {
        ignore_unknown_options: flags & 1 != 0,
        ignore_unsupported_options: flags & 2 != 0,
        input_strings_escaped: flags & 4 != 0,
        mutable_options_only: flags & 8 != 0,
        ..ConfigOptions::default()
    }
}

/// OPTIONS files: what loads prints to a text that loads to the same text.
pub fn options_file(data: &[u8]) {
    let (flags, data) = flags(data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(file) = OptionsFile::parse(text) {
        let printed = file.to_string();
        let again = OptionsFile::parse(&printed).unwrap_or_else(|error| panic!("{error}\n{printed}"));
        assert_eq!(again.sections, file.sections, "{printed}");
    }
    let Ok(loaded) = LoadedOptions::parse(text, &config(flags | 4)) else { return };
    let printed = loaded.print(Dialect::RocksDb11);
    let lenient = ConfigOptions { ignore_unknown_options: true, ..ConfigOptions::default() };
    let again = LoadedOptions::parse(&printed, &lenient).unwrap_or_else(|error| panic!("{error}\n{printed}"));
    assert_eq!(again.print(Dialect::RocksDb11), printed);
    let _ = validate_db_options(&loaded.db);
    for (name, options) in &loaded.column_families {
        let _ = validate_column_family_options(&loaded.db, name, options);
    }
}

/// Option strings and all that may stand in one.
pub fn option_strings(data: &[u8]) {
    let (flags, data) = flags(data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    assert_eq!(unescape(&escape(text)), text);
    let _ = (unescape(text), escape_value(text), strip_braces(text), ParsedNumber::read(text), ObjectText::parse(text));
    if let Ok(elements) = split_list(text) {
        let _ = split_list(&join_list(elements));
    }
    let _ = (OptionsFileVersion::parse("rocksdb_version", text, 3), parse_offpeak_time(text));
    let _ = slice_transform::from_string(text).map(|transform| transform.map(|transform| transform.id()));
    if let Ok(Some(policy)) = FilterPolicy::from_string(text) {
        let printed = policy.to_option_string();
        assert_eq!(FilterPolicy::from_string(&printed).unwrap().unwrap().to_option_string(), printed);
    }
    let config = config(flags);
    let _ = CompressionOptions::from_text(text, &config);
    let _ = DbOptions::from_text(text, &config).map(|options| validate_db_options(&options));
    let _ = ColumnFamilyOptions::from_text(text, &config)
        .map(|options| validate_column_family_options(&DbOptions::default(), "default", &options));
    let _ = BlockBasedTableOptions::from_text(text, &config).map(|options| options.to_text(Dialect::Portable, ";"));
    let _ = firndb::Options::from_string(text);
    if let Ok(map) = parse_map(text) {
        let map: Vec<(&str, &str)> = map.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let _ = change_db_options(&DbOptions::default(), &map);
        let _ = change_column_family_options(&DbOptions::default(), "default", &ColumnFamilyOptions::default(), &map);
        let mut factory = TableFactory::default();
        for (name, value) in map {
            let _ = factory.apply_alias(name, value, &config);
        }
    }
}

/// Names of files.
pub fn file_names(data: &[u8]) {
    let name = String::from_utf8_lossy(data);
    let _ = (filename::is_trash(&name), filename::info_log_prefix(&name));
    let _ = filename::parse_with_info_log_prefix(&name, Some("data_db_LOG"));
    let Some(parsed) = filename::parse(&name) else { return };
    let rebuilt = match parsed.kind {
        FileKind::Wal => filename::wal(parsed.number),
        FileKind::Table => filename::table(parsed.number),
        FileKind::Manifest => filename::manifest(parsed.number),
        FileKind::Blob => filename::blob(parsed.number),
        FileKind::Options => filename::options(parsed.number),
        _ => return,
    };
    let again = filename::parse(&rebuilt).unwrap();
    assert_eq!((again.kind, again.number), (parsed.kind, parsed.number), "{name}");
}
