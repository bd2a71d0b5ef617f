//! Parts of tables and filters (`docs/format/table.md`, `docs/format/filters.md`).

use crate::keys::shown_key;
use crate::page::{Kind, Vector, hex, shown};
use firn_format::block::{BlockBuilder, BlockBuilderOptions, BlockIter, BlockView, HashLookup, Sharing};
use firn_format::comparator::{BytewiseComparator, Comparator, ReverseBytewiseComparator};
use firn_format::compression::{CompressionType, SizeFormat, decompress_to_vec};
use firn_format::filter::{FilterContext, FilterKey, FilterPolicy, FilterReader};
use firn_format::footer::Footer;
use firn_format::index::{BlockHandle, IndexBlockBuilder, IndexEntries, IndexFormat};
use firn_format::key::{self, InternalKey, SequenceNumber, ValueType};
use firn_format::seqno_time::SeqnoToTimeMapping;
use firn_format::{Result, checksum};

pub(crate) const KINDS: &[Kind] = &[
    ("footer", footer),
    ("data-block", data_block),
    ("range-deletions", range_deletions),
    ("separator", separator),
    ("successor", successor),
    ("index-block", index_block),
    ("compressed", compressed),
    ("seqno-time-map", seqno_time_map),
    ("filter", filter),
    ("filter-crc", filter_crc),
    ("filter-answer", filter_answer),
];

fn number<T: std::str::FromStr>(vector: &Vector, name: &str) -> Option<T> {
    vector.attribute(name).map(|text| text.parse().ok().unwrap_or_else(|| panic!("{}: {name}", vector.place)))
}

/// A footer at the offset `at`.
fn footer(vector: &Vector) -> Result<String> {
    let at: u64 = number(vector, "at").unwrap();
    let bytes = vector.bytes();
    let footer = Footer::decode(&bytes, at + bytes.len() as u64)?;
    vector.round_trip(&footer.encode(at)?)?;
    let shown = |handle: BlockHandle| format!("{}+{}", handle.offset, handle.size);
    let place = match footer.index {
        Some(index) => format!("index {}", shown(index)),
        None => format!("base {:08x}", footer.base_context_checksum),
    };
    let (version, kind) = (footer.format_version, footer.checksum_type as u8);
    Ok(format!("version {version} checksum {kind} metaindex {} {place}", shown(footer.metaindex)))
}

/// A block of internal keys, read and built again; a hash index must lead to each key.
fn data_block(vector: &Vector) -> Result<String> {
    let bytes = vector.bytes();
    let mut builder = BlockBuilder::new(&BlockBuilderOptions {
        restart_interval: number(vector, "interval").unwrap(),
        separate_values: vector.attribute("values") == Some("apart"),
        hash_index_util_ratio: number(vector, "hash"),
        ..BlockBuilderOptions::default()
    });
    let view = BlockView::parse(&bytes)?;
    let mut entries = Vec::new();
    let mut block = BlockIter::new(&bytes)?;
    while let Some((key, value)) = block.next_entry()? {
        builder.add(key, value);
        let is_missed = matches!(view.hash_lookup(key::extract_user_key(key)), HashLookup::Absent);
        assert!(!is_missed, "{}: the hash index does not know {}", vector.place, shown(key));
        entries.push(format!("{} = {}", shown_key(key)?, shown(value)));
    }
    vector.round_trip(builder.finish())?;
    Ok(if entries.is_empty() { "-".to_owned() } else { entries.join(", ") })
}

fn range_deletions(vector: &Vector) -> Result<String> {
    let bytes = vector.bytes();
    let mut builder = BlockBuilder::new(&BlockBuilderOptions { restart_interval: 1, ..BlockBuilderOptions::default() });
    let mut deletions = Vec::new();
    let mut block = BlockIter::new(&bytes)?;
    while let Some((key, end)) = block.next_entry()? {
        builder.add(key, end);
        deletions.push(format!("{} to {}", shown_key(key)?, shown(end)));
    }
    vector.round_trip(builder.finish())?;
    Ok(deletions.join(", "))
}

fn comparator(vector: &Vector) -> &'static dyn Comparator {
    match vector.attribute("comparator") {
        Some("leveldb.BytewiseComparator") => &BytewiseComparator,
        Some("rocksdb.ReverseBytewiseComparator") => &ReverseBytewiseComparator,
        other => panic!("{}: no comparator {other:?}", vector.place),
    }
}

/// `start | limit`.
fn separator(vector: &Vector) -> Result<String> {
    let (start, limit) = vector.input.split_once('|').unwrap();
    let mut start = vector.bytes_of(start);
    comparator(vector).find_shortest_separator(&mut start, &vector.bytes_of(limit));
    Ok(if start.is_empty() { "-".to_owned() } else { hex(&start) })
}

fn successor(vector: &Vector) -> Result<String> {
    let mut key = vector.bytes();
    comparator(vector).find_short_successor(&mut key);
    Ok(if key.is_empty() { "-".to_owned() } else { hex(&key) })
}

fn index_block(vector: &Vector) -> Result<String> {
    let bytes = vector.bytes();
    let values = vector.attribute("values").unwrap();
    let format = IndexFormat {
        key_is_user_key: vector.attribute("keys") == Some("user"),
        value_is_delta_encoded: values.starts_with("delta"),
        has_first_key: values.ends_with("first-key"),
    };
    let mut builder = IndexBlockBuilder::new(format, number(vector, "interval").unwrap());
    let mut entries = IndexEntries::new(&bytes, format)?;
    let mut texts = Vec::new();
    while entries.advance()? {
        let BlockHandle { offset, size } = entries.handle();
        let (key, separator) = if format.key_is_user_key {
            let whole = InternalKey::new(entries.key(), SequenceNumber::MAX, ValueType::FOR_SEEK);
            (shown(entries.key()), whole.encoded().to_vec())
        } else {
            (shown_key(entries.key())?, entries.key().to_vec())
        };
        builder.add(&separator, entries.handle(), entries.first_key(), Sharing::Allowed);
        let first = if format.has_first_key { format!(" {}", shown_key(entries.first_key())?) } else { String::new() };
        texts.push(format!("{key} {offset}+{size}{first}"));
    }
    vector.round_trip(builder.finish())?;
    Ok(texts.join(", "))
}

/// A stored block with its compression type behind it; what comes out stands as bytes on the page.
fn compressed(vector: &Vector) -> Result<String> {
    let bytes = vector.bytes();
    let (kind, payload) = bytes.split_last().unwrap();
    let format = SizeFormat::of_table(number(vector, "version").unwrap());
    let raw = decompress_to_vec(CompressionType::from_u8(*kind)?, format, None, payload, 1 << 20)?;
    Ok(format!("{} bytes, crc {:08x}", raw.len(), checksum::crc32c(&raw)))
}

fn seqno_time_map(vector: &Vector) -> Result<String> {
    let map = SeqnoToTimeMapping::decode(&vector.bytes())?;
    vector.round_trip(&map.encode())?;
    let pairs = map.pairs().iter().map(|(sequence, time)| format!("{} {time}", sequence.0));
    Ok(pairs.collect::<Vec<_>>().join(", "))
}

/// The filter of the keys `key%08d` that `first N count N` names.
fn filter_content(vector: &Vector) -> Result<Vec<u8>> {
    let words: Vec<&str> = vector.input.split_whitespace().collect();
    let ["first", first, "count", count] = words.as_slice() else { panic!("{}: first and count", vector.place) };
    let (first, count): (u64, u64) = (first.parse().unwrap(), count.parse().unwrap());
    let bits = vector.attribute("bits").unwrap();
    let (text, format_version) = match vector.attribute("policy").unwrap() {
        "legacy-bloom" => (format!("bloomfilter:{bits}"), 4),
        "ribbonfilter" => (format!("ribbonfilter:{bits}:-1"), 6),
        name => (format!("{name}:{bits}"), 6),
    };
    let policy = FilterPolicy::from_string(&text)?.unwrap();
    let context = FilterContext { format_version, optimize_filters_for_memory: false, ..FilterContext::default() };
    let mut builder = policy.builder(&context).unwrap();
    let keys: Vec<String> = (first..first + count).map(|number| format!("key{number:08}")).collect();
    keys.iter().for_each(|key| builder.add(key.as_bytes()));
    let content = builder.finish()?;
    let reader = FilterReader::new(&content);
    assert!(
        keys.iter().all(|key| reader.may_match(&FilterKey::new(key.as_bytes()))),
        "{}: a key is lost",
        vector.place
    );
    Ok(content)
}

fn filter(vector: &Vector) -> Result<String> {
    Ok(hex(&filter_content(vector)?))
}

fn filter_crc(vector: &Vector) -> Result<String> {
    let content = filter_content(vector)?;
    let trailer = hex(content.last_chunk::<5>().unwrap());
    Ok(format!("{} bytes, trailer {trailer}, crc {:08x}", content.len(), checksum::crc32c(&content)))
}

/// Whether a filter of these bytes may hold `key00000000`.
fn filter_answer(vector: &Vector) -> Result<String> {
    let may = FilterReader::new(&vector.bytes()).may_match(&FilterKey::new(b"key00000000"));
    Ok(if may { "may" } else { "no" }.to_owned())
}
