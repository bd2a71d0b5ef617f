use firn_format::options::{ConfigOptions, Dialect, OptionCodec, OptionSet};

use super::*;

fn parse(text: &str) -> BlockBasedTableOptions {
    BlockBasedTableOptions::from_text(text, &ConfigOptions::default()).expect("valid text")
}

#[test]
fn filter_policies_have_rocksdbs_ids() {
    for (text, id) in [
        ("bloomfilter:0.4", "bloomfilter:0:false"),
        ("bloomfilter:0.5", "bloomfilter:1:false"),
        ("bloomfilter:9.7:true", "bloomfilter:9.7:false"),
        ("bloomfilter:12.345", "bloomfilter:12.345:false"),
        ("bloomfilter:12.3456", "bloomfilter:12.346:false"),
        ("bloomfilter:99.9999", "bloomfilter:100:false"),
        ("rocksdb.BloomFilter:10", "bloomfilter:10:false"),
        ("ribbonfilter:10", "ribbonfilter:10:0"),
        ("ribbonfilter:15.5:-1", "ribbonfilter:15.5:-1"),
        ("rocksdb.internal.LegacyBloomFilter:5", "rocksdb.internal.LegacyBloomFilter:5"),
        ("rocksdb.BuiltinBloomFilter", "rocksdb.BuiltinBloomFilter"),
    ] {
        let options = parse(&format!("filter_policy={text}"));
        assert_eq!(options.filter_policy.map(|policy| policy.to_option_string()).as_deref(), Some(id), "{text}");
    }
    for text in ["bloomfilter", "bloomfilter:8k", "ribbonfilter:10:x", "other:10"] {
        assert!(FilterPolicy::from_string(text).is_err(), "{text}");
    }
    let ribbon = parse("filter_policy={id=ribbonfilter:10:0;bloom_before_level=3;}");
    assert_eq!(ribbon.filter_policy, Some(FilterPolicy::ribbon(10.0, 3)));
    assert_eq!(
        ribbon.to_text(Dialect::RocksDb11, ";").matches("{id=ribbonfilter:10:3;bloom_before_level=3;}").count(),
        1
    );
    assert!(ribbon.to_text(Dialect::RocksDb7, ";").contains("filter_policy=ribbonfilter:10:3;"));
}

#[test]
fn unknown_objects_survive_as_text() {
    let options = parse("filter_policy=mine:1;user_defined_index_factory=trie_index");
    assert_eq!(options.filter_policy, None);
    let text = options.to_text(Dialect::RocksDb11, ";");
    assert!(
        text.contains("filter_policy=mine:1;") && text.contains("user_defined_index_factory=trie_index;"),
        "{text}"
    );
    let strict = ConfigOptions { ignore_unsupported_options: false, ..ConfigOptions::default() };
    let error = BlockBasedTableOptions::from_text("filter_policy=mine:1", &strict).unwrap_err();
    assert_eq!(error.message(), "Could not load FilterPolicy: mine:1");
}

#[test]
fn old_files_hold_eight_bytes_of_which_four_were_meant() {
    assert_eq!(parse("read_amp_bytes_per_bit=4294967299").read_amp_bytes_per_bit, 3);
}

#[test]
fn writes_as_many_names_as_rocksdb() {
    let options = BlockBasedTableOptions::default();
    assert_eq!(options.entries(Dialect::RocksDb11).len(), 41);
}

#[test]
fn factories_are_addressed_by_name_and_by_alias() {
    let config = ConfigOptions::default();
    let mut factory = TableFactory::default();
    TableFactoryCodec::parse(&mut factory, "table_factory", "{id=BlockBasedTable;block_size=8k}", &config).unwrap();
    TableFactoryCodec::parse_field(&mut factory, "table_factory", "checksum", "kCRC32c", &config).unwrap();
    TableFactoryCodec::parse_field(&mut factory, "table_factory", "BlockBasedTable.block_align", "1", &config).unwrap();
    factory.apply_alias("block_based_table_factory", "{format_version=4}", &config).unwrap();
    let options = factory.block_based().unwrap();
    assert_eq!((options.block_size, options.format_version, options.block_align), (8192, 4, true));
    assert_eq!(options.checksum, ChecksumType::Crc32c);
    let error = factory.apply_alias("plain_table_factory", "{}", &config).unwrap_err();
    assert_eq!(error.message(), "Cannot modify BlockBasedTable as plain_table_factory");
    TableFactoryCodec::parse(&mut factory, "table_factory", "PlainTable", &config).unwrap();
    assert_eq!(factory.name(), "PlainTable");
}
