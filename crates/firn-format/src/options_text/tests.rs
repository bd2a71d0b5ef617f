use super::*;

#[test]
fn reads_maps_as_rocksdb_does() {
    let map = |text: &str| {
        let pairs = parse_map(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        pairs.iter().map(|(name, value)| format!("{name}=`{value}`")).collect::<Vec<_>>().join(" ")
    };
    for text in ["a=1;b=2", " a = 1 ; b = 2 ; ", "{a=1;b=2}"] {
        assert_eq!(map(text), "a=`1` b=`2`", "{text}");
    }
    assert_eq!(map("{{a=1}}"), "a=`1`");
    assert_eq!(map("a={b=1;c={d=2}};e=3"), "a=`b=1;c={d=2}` e=`3`");
    assert_eq!(map("a=;b=2"), "a=`` b=`2`");
    assert_eq!(map("a={};b=1"), "a=`` b=`1`");
    assert_eq!(map("a=b=c;d=1"), "a=`b=c` d=`1`");
    assert_eq!(map("a=1}"), "a=`1}`");
    assert_eq!(map("a=1;a=2"), "a=`2`");
    assert_eq!(map(""), "");
}

#[test]
fn refuses_what_is_no_map() {
    for (text, message) in [
        ("a", "Mismatched key value pair, '=' expected"),
        ("a;b=1", "Unexpected char in key"),
        (";a=1", "Unexpected char in key"),
        ("a=1;;b=2", "Unexpected char in key"),
        ("{a=1};{b=2}", "Unexpected char in key"),
        ("=1", "Empty key found"),
        ("a={x", "Mismatched curly braces for nested options"),
        ("a={x} y;b=1", "Unexpected chars after nested options"),
        ("a={1}:{2};b=3", "Unexpected chars after nested options"),
    ] {
        assert_eq!(parse_map(text).expect_err(text).message(), message, "{text}");
    }
}

#[test]
fn escapes_round_trip() {
    assert_eq!(escape("a\\b#c:d\ne\rf\"=;{}"), "a\\\\b\\#c\\:d\\ne\\rf\"=;{}");
    assert_eq!(unescape("a\\\\b\\#c\\:d\\ne\\rf\\x\\"), "a\\b#c:d\ne\rfx");
}

#[test]
fn lists_protect_their_elements() {
    assert_eq!(split_list("1:2:3").unwrap(), ["1", "2", "3"]);
    assert_eq!(split_list("1:2:").unwrap(), ["1", "2"]);
    assert_eq!(split_list("1::2").unwrap(), ["1", "", "2"]);
    assert_eq!(split_list(" {a:b} : c ").unwrap(), ["a:b", "c"]);
    assert!(split_list("").unwrap().is_empty());
    let join = |elements: &[&str]| join_list(elements.iter().map(|element| (*element).to_owned()));
    assert_eq!(join(&["1", "2"]), "1:2");
    assert_eq!(join(&["a:b", "c"]), "{{a:b}:c}");
    assert_eq!(join(&["{id=C;n=1;}"]), "{{id=C;n=1;}}");
    assert_eq!(strip_braces(" {a} "), "a");
    assert_eq!(strip_braces("{a}:{b}"), "{a}:{b}");
    assert_eq!(strip_braces("{"), "{");
}

const SMALL: &str = "[Version]\n rocksdb_version=7.8.3\n[DBOptions]\n a=1 # comment\n\ta = 2\n b=x\\#y\n\
    [CFOptions \"default\"]\n[TableOptions/BlockBasedTable \"default\"]\r\n block_size = 9\r\n\
    [CFOptions \"a\"b]\\n\"]\n";

#[test]
fn reads_files() {
    let file = OptionsFile::parse(SMALL).unwrap();
    assert_eq!(file.rocksdb_version, OptionsFileVersion { major: 7, minor: 8, patch: 3 });
    assert!(file.version_comes_first);
    assert_eq!(file.db().unwrap().entries, [("a".into(), "1".into()), ("b".into(), "x\\#y".into())]);
    let families: Vec<_> = file.column_families().map(|(name, _)| name).collect();
    assert_eq!(families, ["default", "a\"b]\n"]);
    let (factory, table) = file.table("default").unwrap();
    assert_eq!((factory, table.get("block_size")), ("BlockBasedTable", Some("9")));
    assert_eq!(OptionsFile::parse(&file.to_string()).unwrap().sections, file.sections);
}

#[test]
fn refuses_damaged_files() {
    let head = "[DBOptions]\n[CFOptions \"default\"]\n";
    for (text, message) in [
        ("[Version]\n[Version]\n".into(), "More than one Version section found in the option config file. (at line 2)"),
        (
            "[DBOptions]\n[DBOptions]".into(),
            "More than one DBOption section found in the option config file (at line 2)",
        ),
        (
            "[CFOptions \"x\"]".into(),
            "Default column family must be the first CFOptions section in the option config file (at line 1)",
        ),
        (
            format!("{head}[CFOptions \"default\"]"),
            "Default column family must be the first CFOptions section in the optio/n config file (at line 3)",
        ),
        (
            format!("{head}[CFOptions \"x\"]\n[CFOptions \"x\"]"),
            "Two identical column families found in option config file (at line 4)",
        ),
        (
            format!("{head}[TableOptions/PlainTable \"x\"]"),
            "Does not find a matched column family name in TableOptions section.  Column Family Name:x (at line 3)",
        ),
        (format!("{head}x"), "A valid statement must have a '='. (at line 3)"),
        (format!("{head}=x"), "A valid statement must have a variable name. (at line 3)"),
    ] {
        let error = OptionsFile::parse(&text).expect_err(&text);
        assert_eq!(error.message(), format!("[RocksDBOptionsParser Error] : {message}"));
    }
    for (text, message) in [
        ("[Other]", "Unknown section [Other]"),
        ("[TableOptions/]", "Unknown section [TableOptions/]"),
        ("[Version]\nrocksdb_version=1.2.3.4", "A valid rocksdb_version can only contains at most 2 dots."),
        ("[Version]\nrocksdb_version=1.x", "A valid rocksdb_version can only contains dots and numbers."),
        ("[Version]\nrocksdb_version=.1", "A valid rocksdb_version must have at least one digit before each dot."),
        ("[Version]\nrocksdb_version=1.", "A valid rocksdb_version must have at least one digit after each dot."),
        ("[Version]\noptions_file_version=0.9", "A valid options_file_version must be at least 1."),
    ] {
        assert_eq!(OptionsFile::parse(text).expect_err(text).message(), message);
    }
    let error = OptionsFile::parse("[Version]\noptions_file_version=9.9").unwrap_err();
    assert!(error.is_corruption());
    assert_eq!(error.message(), "A RocksDB Option file must have a single DBOptions section");
    let error = OptionsFile::parse("[DBOptions]").unwrap_err();
    assert_eq!(error.message(), "A RocksDB Option file must have a single CFOptions:default section");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    #[test]
    fn escapes_of_any_text_round_trip(text in ".*") {
        proptest::prop_assert_eq!(unescape(&escape(&text)), text);
    }

    #[test]
    fn no_text_panics(text in "[\\[\\]{}=;:#\\\\\"a\n]{0,40}") {
        let _ = parse_map(&text);
        let _ = split_list(&text);
        let _ = OptionsFile::parse(&text);
    }
}

#[test]
fn blanks_at_the_ends_of_values_survive() {
    for value in [" a", "a ", "\t a b \t ", "  ", "a\\", "a\\ ", ""] {
        let line = format!("[DBOptions]\n  x={}\n[CFOptions \"default\"]\n", escape_value(value));
        let file = OptionsFile::parse(&line).unwrap();
        assert_eq!(unescape(file.db().unwrap().get("x").unwrap()), value, "{line:?}");
    }
}
