//! A table's properties as text, one per line, in RocksDB's order.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use firn_format::properties::{TableProperties, UNKNOWN_COLUMN_FAMILY};
use firn_format::seqno_time::SeqnoToTimeMapping;
use firn_format::unique_id::InternalUniqueId;
use firn_format::varint::put_varint64;

use crate::text::hex;

fn average(sum: u64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum as f64 / count as f64 }
}

fn or_na(text: &str) -> &str {
    if text.is_empty() { "N/A" } else { text }
}

/// The properties, each as `{indent}{name}{assign}{value}\n`.
pub fn text(properties: &TableProperties, indent: &str, assign: &str) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(out, "{indent}{name}{assign}{value}");
    };
    let p = properties;
    line("# data blocks", p.num_data_blocks.to_string());
    line("# data blocks compression rejected", p.num_data_blocks_compression_rejected.to_string());
    line("# data blocks compression bypassed", p.num_data_blocks_compression_bypassed.to_string());
    line("# uniform blocks", p.num_uniform_blocks.to_string());
    line("# entries", p.num_entries.to_string());
    line("# deletions", p.num_deletions.to_string());
    line("# merge operands", p.num_merge_operands.to_string());
    line("# range deletions", p.num_range_deletions.to_string());
    line("raw key size", p.raw_key_size.to_string());
    line("raw average key size", format!("{:.6}", average(p.raw_key_size, p.num_entries)));
    line("raw value size", p.raw_value_size.to_string());
    line("raw average value size", format!("{:.6}", average(p.raw_value_size, p.num_entries)));
    line("data block size", p.data_size.to_string());
    line(
        &format!(
            "index block size (user-key? {}, delta-value? {})",
            p.index_key_is_user_key, p.index_value_is_delta_encoded
        ),
        p.index_size.to_string(),
    );
    if p.index_partitions != 0 {
        line("# index partitions", p.index_partitions.to_string());
        line("top-level index size", p.top_level_index_size.to_string());
    }
    line("filter block size", p.filter_size.to_string());
    line("# entries for filter", p.num_filter_entries.to_string());
    line("(estimated) table size", (p.data_size + p.index_size + p.filter_size).to_string());
    line("filter policy name", or_na(&p.filter_policy_name).to_owned());
    line("prefix extractor name", or_na(&p.prefix_extractor_name).to_owned());
    let family =
        if p.column_family_id == UNKNOWN_COLUMN_FAMILY { "N/A".to_owned() } else { p.column_family_id.to_string() };
    line("column family ID", family);
    line("column family name", or_na(&p.column_family_name).to_owned());
    line("comparator name", or_na(&p.comparator).to_owned());
    line(
        "user defined timestamps persisted",
        if p.user_defined_timestamps_persisted == 0 { "false" } else { "true" }.to_owned(),
    );
    line("largest sequence number in file", p.key_largest_seqno.to_string());
    line("smallest sequence number in file", p.key_smallest_seqno.to_string());
    line("merge operator name", or_na(&p.merge_operator_name).to_owned());
    line("property collectors names", or_na(&p.property_collectors_names).to_owned());
    line("SST file compression algo", or_na(&p.compression_name).to_owned());
    line("SST file compression options", or_na(&p.compression_options).to_owned());
    line("creation time", p.creation_time.to_string());
    line("time stamp of earliest key", p.oldest_key_time.to_string());
    line("time stamp of newest key", p.newest_key_time.to_string());
    line("file creation time", p.file_creation_time.to_string());
    line("slow compression estimated data size", p.slow_compression_estimated_data_size.to_string());
    line("fast compression estimated data size", p.fast_compression_estimated_data_size.to_string());
    line("DB identity", p.db_id.clone());
    line("DB session identity", p.db_session_id.clone());
    line("DB host id", p.db_host_id.clone());
    line("original file number", p.original_file_number.to_string());
    let unique_id = match InternalUniqueId::new(&p.db_id, &p.db_session_id, p.original_file_number) {
        Ok(id) => id.to_public().to_string(),
        Err(_) => "N/A".to_owned(),
    };
    line("unique ID", unique_id);
    line("Sequence number to time mapping", mapping_text(&p.seqno_to_time_mapping));
    out
}

fn mapping_text(encoded: &[u8]) -> String {
    match SeqnoToTimeMapping::decode(encoded) {
        Ok(mapping) => mapping.pairs().iter().map(|(sequence, time)| format!("{}->{time},", sequence.0)).collect(),
        Err(error) => error.to_string(),
    }
}

/// The properties that are not built in, as `  # {name}: 0x{HEX}\n`. RocksDB counts the two counters among them.
pub fn user_collected_text(properties: &TableProperties) -> String {
    let mut all: BTreeMap<Vec<u8>, Vec<u8>> = properties.user_collected.clone();
    for (name, count) in
        [("rocksdb.deleted.keys", properties.num_deletions), ("rocksdb.merge.operands", properties.num_merge_operands)]
    {
        let mut value = Vec::new();
        put_varint64(&mut value, count);
        all.insert(name.into(), value);
    }
    all.iter().map(|(name, value)| format!("  # {}: 0x{}\n", String::from_utf8_lossy(name), hex(value))).collect()
}
