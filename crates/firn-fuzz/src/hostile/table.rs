//! Tables taken apart into blocks and index entries, changed, and put together again with checksums that match.
//!
//! The bytes of a table flow in, those of another one flow out. What is changed is what checksums do not protect from a
//! writer that errs or lies: entries, restart points, index entries and the handles in them, properties, names of meta
//! blocks, filters, range tombstones, compressed sizes, the footer.

use std::borrow::Cow;

use firn_format::block::{BlockBuilder, BlockBuilderOptions, BlockIter, Sharing};
use firn_format::checksum::{ChecksumType, compute_with_last_byte, context_modifier};
use firn_format::compression::{CompressionOptions, CompressionType, SizeFormat, compress, decompress_to_vec};
use firn_format::footer::{FOOTER_SIZE, Footer};
use firn_format::index::{BlockHandle, IndexBlockBuilder, IndexEntries, IndexFormat};
use firn_format::key::{FOOTER_SIZE as KEY_FOOTER_SIZE, InternalKey, SequenceNumber, ValueType};
use firn_format::properties::TableProperties;
use firn_format::varint::put_varint64;

use super::numbers::Dice;

const PROPERTIES: &[u8] = b"rocksdb.properties";
const INDEX: &[u8] = b"rocksdb.index";
const RANGE_DELETIONS: &[u8] = b"rocksdb.range_del";
const FILTER_PARTITIONS: &[u8] = b"partitionedfilter.";
/// What a block of the greatest kind is before it is compressed.
const BOMB_BYTES: usize = 48 << 20;

/// A block before it is stored.
#[derive(Clone, Debug, PartialEq)]
struct Block {
    raw: Vec<u8>,
    compression: u8,
    /// What is stored whatever `raw` is.
    stored: Option<Vec<u8>>,
}

impl Block {
    fn plain(raw: Vec<u8>) -> Self {
        Self { raw, compression: 0, stored: None }
    }

    fn changed(&mut self, raw: Vec<u8>) {
        self.raw = raw;
        self.stored = None;
    }

    fn payload(&mut self, sizes: SizeFormat) -> Cow<'_, [u8]> {
        if let Some(stored) = &self.stored {
            return Cow::Borrowed(stored);
        }
        let kind = CompressionType::from_u8(self.compression).unwrap_or_default();
        if kind == CompressionType::None {
            return Cow::Borrowed(&self.raw);
        }
        let mut out = Vec::new();
        let options = CompressionOptions { max_compressed_bytes_per_kb: 1023, ..CompressionOptions::default() };
        match compress(kind, &options, sizes, &[], &self.raw, &mut out) {
            Ok(CompressionType::None) | Err(_) => {
                self.compression = 0;
                Cow::Borrowed(&self.raw)
            }
            Ok(_) => Cow::Owned(out),
        }
    }
}

/// What an index entry names.
#[derive(Clone, Copy, Debug)]
enum Target {
    Data(usize),
    Meta(usize),
    /// The index or index partition at hand, as far as its place is known.
    Itself,
    Stated(BlockHandle),
    /// The data block, with its offset and size changed by so many bytes.
    Shifted(usize, i64, i64),
}

#[derive(Clone, Debug)]
struct Entry {
    /// With eight bytes behind it where the index has user keys.
    key: Vec<u8>,
    first_key: Vec<u8>,
    target: Target,
}

/// A table in parts.
pub struct Table {
    footer: Footer,
    format: IndexFormat,
    partitioned: bool,
    data: Vec<Block>,
    /// The partitions of the index, or the only one.
    index: Vec<Vec<Entry>>,
    /// The key of each partition in the top-level index.
    top: Vec<Vec<u8>>,
    filter_partitions: Vec<(Vec<u8>, Block)>,
    metas: Vec<(Vec<u8>, Block)>,
    properties: TableProperties,
    /// Number names in the encoded properties that are replaced, by position.
    property_values: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Key, first key and handle.
type StoredEntry = (Vec<u8>, Vec<u8>, BlockHandle);

struct Reader<'a> {
    bytes: &'a [u8],
    sizes: SizeFormat,
}

impl Reader<'_> {
    fn block(&self, handle: BlockHandle) -> Option<Block> {
        let start = usize::try_from(handle.offset).ok()?;
        let end = start.checked_add(usize::try_from(handle.size).ok()?)?;
        let payload = self.bytes.get(start..end)?;
        let compression = *self.bytes.get(end)?;
        let kind = CompressionType::from_u8(compression).ok()?;
        let raw = match kind {
            CompressionType::None => payload.to_vec(),
            kind => decompress_to_vec(kind, self.sizes, None, payload, 1 << 20).ok()?,
        };
        Some(Block { raw, compression, stored: (compression != 0).then(|| payload.to_vec()) })
    }

    fn index(&self, handle: BlockHandle, format: IndexFormat) -> Option<Vec<StoredEntry>> {
        let block = self.block(handle)?;
        let mut entries = IndexEntries::new(&block.raw, format).ok()?;
        let mut found = Vec::new();
        while entries.advance().ok()? {
            let mut key = entries.key().to_vec();
            if format.key_is_user_key {
                key.extend_from_slice(&[0; KEY_FOOTER_SIZE]);
            }
            found.push((key, entries.first_key().to_vec(), entries.handle()));
        }
        Some(found)
    }
}

impl Table {
    /// Takes a table apart; `None` for what this module does not cover: old versions, dictionaries, damage.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let tail = bytes.get(bytes.len().saturating_sub(FOOTER_SIZE)..)?;
        let footer = Footer::decode(tail, bytes.len() as u64).ok().filter(|footer| footer.format_version >= 2)?;
        let reader = Reader { bytes, sizes: SizeFormat::of_table(footer.format_version) };
        let metaindex = reader.block(footer.metaindex)?;
        let mut names = Vec::new();
        let mut entries = BlockIter::new(&metaindex.raw).ok()?;
        while let Some((name, mut handle)) = entries.next_entry().ok()? {
            names.push((name.to_vec(), BlockHandle::decode_from(&mut handle).ok()?));
        }
        let find = |wanted: &[u8]| names.iter().find(|(name, _)| name == wanted).map(|(_, handle)| *handle);
        let properties = TableProperties::decode(&reader.block(find(PROPERTIES)?)?.raw).ok()?;
        let partitioned = properties.index_type() == Some(2);
        let format = IndexFormat {
            key_is_user_key: properties.index_key_is_user_key != 0,
            value_is_delta_encoded: properties.index_value_is_delta_encoded != 0,
            has_first_key: properties.index_type() == Some(3),
        };
        let top_format = IndexFormat { has_first_key: false, ..format };
        let index_handle = footer.index.or_else(|| find(INDEX))?;
        let top = reader.index(index_handle, if partitioned { top_format } else { format })?;
        let partitions = if partitioned {
            top.iter().map(|(_, _, handle)| reader.index(*handle, format)).collect::<Option<Vec<_>>>()?
        } else {
            vec![top.clone()]
        };
        let (mut data, mut index) = (Vec::new(), Vec::new());
        for partition in partitions {
            let mut entries = Vec::new();
            for (key, first_key, handle) in partition {
                entries.push(Entry { key, first_key, target: Target::Data(data.len()) });
                data.push(reader.block(handle)?);
            }
            index.push(entries);
        }
        let (mut filter_partitions, mut metas) = (Vec::new(), Vec::new());
        for (name, handle) in names.iter().filter(|(name, _)| name != PROPERTIES && name != INDEX) {
            if name.starts_with(FILTER_PARTITIONS) {
                for (key, _, handle) in reader.index(*handle, top_format)? {
                    filter_partitions.push((key, reader.block(handle)?));
                }
                metas.push((name.clone(), Block::plain(Vec::new())));
            } else {
                metas.push((name.clone(), reader.block(*handle)?));
            }
        }
        let top = top.into_iter().map(|(key, ..)| key).collect();
        let property_values = Vec::new();
        Some(Self {
            footer,
            format,
            partitioned,
            data,
            index,
            top,
            filter_partitions,
            metas,
            properties,
            property_values,
        })
    }

    /// The table as bytes, every block with its checksum.
    pub fn assemble(&mut self) -> Vec<u8> {
        // The second time, the index knows where it lies.
        let (_, place) = self.lay_out(BlockHandle::NULL);
        self.lay_out(place).0
    }

    fn lay_out(&mut self, itself: BlockHandle) -> (Vec<u8>, BlockHandle) {
        let mut out = Writer { bytes: Vec::new(), footer: self.footer.clone() };
        let data: Vec<_> = self.data.iter_mut().map(|block| out.block(block)).collect();
        let top_format = IndexFormat { has_first_key: false, ..self.format };
        let mut parts = IndexBlockBuilder::new(top_format, 1);
        let mut last = BlockHandle::NULL;
        for (key, block) in &mut self.filter_partitions {
            let handle = out.block(block);
            add(&mut parts, key, handle, &[], &mut last);
        }
        let filter_index = parts.finish().to_vec();
        let mut metaindex = Vec::new();
        for (name, block) in &mut self.metas {
            if name.starts_with(FILTER_PARTITIONS) && block.raw.is_empty() {
                metaindex.push((name.clone(), out.block(&mut Block::plain(filter_index.clone()))));
            } else {
                metaindex.push((name.clone(), out.block(block)));
            }
        }
        let handle_of = |target: Target| match target {
            Target::Data(n) => data.get(n).copied().unwrap_or_default(),
            Target::Meta(n) => metaindex.get(n).map_or(itself, |(_, handle)| *handle),
            Target::Itself => itself,
            Target::Stated(handle) => handle,
            Target::Shifted(n, offset, size) => data.get(n).map_or(itself, |handle| BlockHandle {
                offset: handle.offset.saturating_add_signed(offset),
                size: handle.size.saturating_add_signed(size),
            }),
        };
        let mut partitions = Vec::new();
        for entries in &self.index {
            let mut builder = IndexBlockBuilder::new(self.format, 1);
            let mut last = BlockHandle::NULL;
            for entry in entries {
                add(&mut builder, &entry.key, handle_of(entry.target), &entry.first_key, &mut last);
            }
            partitions.push(out.block(&mut Block::plain(builder.finish().to_vec())));
        }
        let mut place = partitions.first().copied().unwrap_or_default();
        let mut index_handle = place;
        if self.partitioned {
            let mut builder = IndexBlockBuilder::new(top_format, 1);
            let mut last = BlockHandle::NULL;
            for (key, handle) in self.top.iter().zip(partitions) {
                add(&mut builder, key, handle, &[], &mut last);
            }
            index_handle = out.block(&mut Block::plain(builder.finish().to_vec()));
            if itself.offset.is_multiple_of(2) {
                place = index_handle;
            }
        }
        let properties = self.encoded_properties();
        metaindex.push((PROPERTIES.to_vec(), out.block(&mut Block::plain(properties))));
        if out.footer.format_version >= 6 {
            metaindex.push((INDEX.to_vec(), index_handle));
        } else {
            out.footer.index = Some(index_handle);
        }
        metaindex.sort_by(|a, b| a.0.cmp(&b.0));
        let mut builder =
            BlockBuilder::new(&BlockBuilderOptions { restart_interval: 1, ..BlockBuilderOptions::default() });
        for (name, handle) in metaindex {
            let mut value = Vec::new();
            handle.encode_to(&mut value);
            builder.add(&name, &value);
        }
        out.footer.metaindex = out.block(&mut Block::plain(builder.finish().to_vec()));
        let offset = out.bytes.len() as u64;
        let footer = out.footer.encode(offset).unwrap_or_default();
        out.bytes.extend_from_slice(&footer);
        (out.bytes, place)
    }

    fn encoded_properties(&self) -> Vec<u8> {
        let encoded = self.properties.encode();
        if self.property_values.is_empty() {
            return encoded;
        }
        let mut builder =
            BlockBuilder::new(&BlockBuilderOptions { restart_interval: 1, ..BlockBuilderOptions::default() });
        let Ok(mut entries) = BlockIter::new(&encoded) else { return encoded };
        while let Ok(Some((name, value))) = entries.next_entry() {
            let replaced = self.property_values.iter().find(|(replaced, _)| replaced == name);
            builder.add(name, replaced.map_or(value, |(_, value)| value));
        }
        builder.finish().to_vec()
    }

    /// Changes one thing; says what.
    pub fn mutate(&mut self, dice: &mut Dice) -> String {
        match dice.below(16) {
            0..4 => self.change_data_block(dice),
            4..8 => self.change_index(dice),
            8..10 => self.change_properties(dice),
            10..12 => self.change_metas(dice),
            12 => self.change_tombstones(dice),
            13..15 => self.change_compression(dice),
            _ => self.change_footer(dice),
        }
    }

    fn change_data_block(&mut self, dice: &mut Dice) -> String {
        let at = dice.below(self.data.len());
        let Some(block) = self.data.get_mut(at) else { return "no data block".into() };
        let what = change_block(block, dice);
        format!("data block {at}: {what}")
    }

    fn change_index(&mut self, dice: &mut Dice) -> String {
        if self.partitioned && dice.once_in(4) {
            return match dice.below(3) {
                0 => format!("top-level keys: {}", dice.shuffle(&mut self.top)),
                1 => format!("partitions: {}", dice.shuffle(&mut self.index)),
                _ => {
                    let key = dice.internal_key().encoded().to_vec();
                    let at = dice.below(self.top.len());
                    if let Some(top) = self.top.get_mut(at) {
                        *top = key;
                    }
                    format!("another top-level key {at}")
                }
            };
        }
        let partition = dice.below(self.index.len());
        let (blocks, metas) = (self.data.len(), self.metas.len());
        let Some(entries) = self.index.get_mut(partition) else { return "no index".into() };
        if dice.once_in(2) {
            return format!("index partition {partition}: {}", dice.shuffle(entries));
        }
        let at = dice.below(entries.len());
        let Some(entry) = entries.get_mut(at) else { return "no index entry".into() };
        match dice.below(9) {
            0 => entry.target = Target::Data(dice.below(blocks)),
            1 => entry.target = Target::Meta(dice.below(metas)),
            2 => entry.target = Target::Itself,
            3 => {
                let handle = BlockHandle { offset: dice.number(0), size: dice.number(100) };
                entry.target = Target::Stated(handle);
            }
            4 => {
                let (offset, size) = (dice.below(40) as i64 - 20, dice.below(40) as i64 - 20);
                entry.target = Target::Shifted(at, offset, size);
            }
            5 => entry.key = dice.internal_key().encoded().to_vec(),
            6 => entry.first_key = dice.internal_key().encoded().to_vec(),
            7 => entry.first_key = dice.scribble(&entry.first_key),
            _ => {
                let mut key = dice.scribble(&entry.key);
                key.resize(key.len().max(KEY_FOOTER_SIZE), 0);
                entry.key = key;
            }
        }
        format!("index partition {partition}, entry {at}: {entry:?}")
    }

    fn change_properties(&mut self, dice: &mut Dice) -> String {
        let p = &mut self.properties;
        let numbers: [&mut u64; 17] = [
            &mut p.num_entries,
            &mut p.num_deletions,
            &mut p.num_range_deletions,
            &mut p.raw_key_size,
            &mut p.raw_value_size,
            &mut p.data_size,
            &mut p.index_size,
            &mut p.num_data_blocks,
            &mut p.index_key_is_user_key,
            &mut p.index_value_is_delta_encoded,
            &mut p.index_partitions,
            &mut p.key_largest_seqno,
            &mut p.key_smallest_seqno,
            &mut p.column_family_id,
            &mut p.tail_start_offset,
            &mut p.format_version,
            &mut p.creation_time,
        ];
        let at = dice.below(24);
        if let Some(number) = numbers.into_iter().nth(at) {
            *number = dice.number(*number);
            return format!("property number {at} is {number}");
        }
        let texts: [&mut String; 6] = [
            &mut p.comparator,
            &mut p.compression_name,
            &mut p.merge_operator_name,
            &mut p.prefix_extractor_name,
            &mut p.column_family_name,
            &mut p.db_session_id,
        ];
        let at = dice.below(10);
        if let Some(text) = texts.into_iter().nth(at) {
            let choices = [
                "",
                "nullptr",
                "ZSTD",
                "Snappy",
                "NoCompression",
                "rocksdb.FixedPrefix.3",
                "leveldb.BytewiseComparator",
            ];
            *text = choices[dice.below(choices.len())].to_owned();
            return format!("property text {at} is {text}");
        }
        if dice.once_in(2) {
            let mut names: Vec<_> = p.user_collected.keys().cloned().collect();
            names.push(b"rocksdb.external_sst_file.version".to_vec());
            names.push(b"rocksdb.external_sst_file.global_seqno".to_vec());
            names.push(b"rocksdb.block.based.table.index.type".to_vec());
            let name = names.swap_remove(dice.below(names.len()));
            let value = if dice.once_in(2) {
                dice.small(2).to_le_bytes().to_vec()
            } else {
                dice.number(2).to_le_bytes().to_vec()
            };
            let what = format!("property {} is {value:?}", String::from_utf8_lossy(&name));
            p.user_collected.insert(name, value);
            return what;
        }
        let mut value = Vec::new();
        put_varint64(&mut value, dice.number(1));
        value.truncate(dice.below(11));
        self.property_values.push((b"rocksdb.num.entries".to_vec(), value));
        "a property that does not decode".into()
    }

    fn change_metas(&mut self, dice: &mut Dice) -> String {
        match dice.below(6) {
            0 if !self.filter_partitions.is_empty() => {
                return format!("filter partitions: {}", dice.shuffle(&mut self.filter_partitions));
            }
            1 if !self.filter_partitions.is_empty() => {
                let at = dice.below(self.filter_partitions.len());
                let block = &mut self.filter_partitions[at].1;
                let raw = change_filter(&block.raw, dice);
                block.changed(raw);
                return format!("filter partition {at} of {} bytes", block.raw.len());
            }
            2 => return format!("metas: {}", dice.shuffle(&mut self.metas)),
            3 => {
                let names = [
                    "fullfilter.rocksdb.BuiltinBloomFilter",
                    "partitionedfilter.rocksdb.BuiltinBloomFilter",
                    "rocksdb.compression_dict",
                    "rocksdb.range_del",
                    "filter.rocksdb.BuiltinBloomFilter",
                    "rocksdb.hashindex.prefixes",
                    "x",
                ];
                let name = names[dice.below(names.len())];
                let raw = if dice.once_in(2) {
                    self.data.first().map(|block| block.raw.clone()).unwrap_or_default()
                } else {
                    vec![1; dice.below(90)]
                };
                self.metas.push((name.into(), Block::plain(raw)));
                return format!("another meta block {name}");
            }
            _ => {}
        }
        let at = dice.below(self.metas.len());
        let Some((name, block)) = self.metas.get_mut(at) else { return "no meta block".into() };
        let raw =
            if name.starts_with(b"fullfilter") { change_filter(&block.raw, dice) } else { dice.scribble(&block.raw) };
        block.changed(raw);
        format!("meta block {} of {} bytes", String::from_utf8_lossy(name), block.raw.len())
    }

    fn change_tombstones(&mut self, dice: &mut Dice) -> String {
        let mut builder =
            BlockBuilder::new(&BlockBuilderOptions { restart_interval: 1, ..BlockBuilderOptions::default() });
        let count = [1, 3, 40, 2000][dice.below(4)];
        for _ in 0..count {
            let sequence = SequenceNumber(dice.number(50) & ((1 << 56) - 1));
            let kind = if dice.once_in(20) { ValueType::Value } else { ValueType::RangeDeletion };
            let start = InternalKey::new(&dice.user_key(), sequence, kind);
            let keep = if dice.once_in(50) { dice.below(8) } else { start.encoded().len() };
            let end = dice.user_key();
            builder.add(start.encoded().get(..keep).unwrap_or(start.encoded()), &end);
        }
        self.metas.retain(|(name, _)| name != RANGE_DELETIONS);
        self.metas.push((RANGE_DELETIONS.to_vec(), Block::plain(builder.finish().to_vec())));
        format!("{count} range tombstones")
    }

    fn change_compression(&mut self, dice: &mut Dice) -> String {
        let sizes = SizeFormat::of_table(self.footer.format_version);
        let at = dice.below(self.data.len());
        let Some(block) = self.data.get_mut(at) else { return "no data block".into() };
        let kinds = [1u8, 2, 3, 4, 5, 7, 0, 6, 0x40, 0x80, 0xff];
        let kind = kinds[dice.below(kinds.len())];
        if dice.once_in(3) {
            self.properties.compression_name =
                CompressionType::from_u8(kind).map_or("?", CompressionType::property_name).into();
        }
        match dice.below(8) {
            0 => {
                block.stored = Some(block.payload(sizes).into_owned());
                block.compression = kind;
                format!("data block {at} says it is of type {kind}")
            }
            1 | 2 => {
                block.changed(block.raw.clone());
                block.compression = [1, 2, 3, 4, 7][dice.below(5)];
                let mut stored = block.payload(sizes).into_owned();
                let size = dice.number(block.raw.len() as u64);
                let mut prefix = Vec::new();
                put_varint64(&mut prefix, size);
                let skip = stored.iter().take_while(|byte| **byte >= 0x80).count() + 1;
                stored.splice(..skip.min(stored.len()), prefix);
                block.stored = Some(stored);
                self.properties.compression_name =
                    CompressionType::from_u8(block.compression).map_or("?", CompressionType::property_name).into();
                format!("data block {at} of type {} claims {size} bytes", block.compression)
            }
            3 if dice.once_in(40) => {
                let bytes = BOMB_BYTES >> dice.below(6);
                block.changed(bomb(bytes));
                block.compression = [2, 7][dice.below(2)];
                if dice.once_in(2) {
                    self.properties.raw_value_size = bytes as u64;
                }
                self.properties.compression_name =
                    CompressionType::from_u8(block.compression).map_or("?", CompressionType::property_name).into();
                format!("data block {at} decompresses to {bytes} bytes")
            }
            3 | 4 => {
                block.changed(block.raw.clone());
                block.compression = kind;
                let stored = dice.scribble(&block.payload(sizes));
                block.stored = Some(stored);
                format!("data block {at}: scribbled over what type {kind} made of it")
            }
            _ => {
                block.changed(block.raw.clone());
                block.compression = kind;
                format!("data block {at} is stored as type {kind}")
            }
        }
    }

    fn change_footer(&mut self, dice: &mut Dice) -> String {
        match dice.below(3) {
            0 => {
                let kinds = [
                    ChecksumType::NoChecksum,
                    ChecksumType::Crc32c,
                    ChecksumType::XxHash,
                    ChecksumType::XxHash64,
                    ChecksumType::Xxh3,
                ];
                self.footer.checksum_type = kinds[dice.below(kinds.len())];
            }
            1 => self.footer.format_version = 2 + dice.below(6) as u32,
            _ => self.footer.base_context_checksum = dice.small(7),
        }
        if self.footer.format_version < 6 {
            self.footer.base_context_checksum = 0;
        } else {
            self.footer.base_context_checksum = self.footer.base_context_checksum.max(1);
            self.footer.index = None;
        }
        format!("{:?}", self.footer)
    }

    /// Names the first data block that `times` times over in the index, with valid checksums.
    pub fn repeat_index_entry(&mut self, at: usize, times: usize) {
        if let Some(entries) = self.index.first_mut()
            && let Some(entry) = entries.get(at).cloned()
        {
            entries.splice(at..at, std::iter::repeat_n(entry, times));
        }
    }

    /// Makes the first data block one that ZSTD decompresses to `bytes` bytes; the properties tell the truth if `honest`.
    pub fn plant_bomb(&mut self, bytes: usize, honest: bool) {
        if let Some(block) = self.data.first_mut() {
            block.changed(bomb(bytes));
            block.compression = CompressionType::Zstd as u8;
        }
        self.properties.compression_name = CompressionType::Zstd.property_name().into();
        if honest {
            self.properties.raw_value_size = bytes as u64;
        }
    }
}

/// A block of one entry whose value takes so many bytes.
fn bomb(bytes: usize) -> Vec<u8> {
    let mut builder = BlockBuilder::new(&BlockBuilderOptions::default());
    builder.add(InternalKey::new(b"key000", SequenceNumber(3), ValueType::Value).encoded(), &vec![0; bytes]);
    builder.finish().to_vec()
}

fn add(builder: &mut IndexBlockBuilder, key: &[u8], handle: BlockHandle, first_key: &[u8], last: &mut BlockHandle) {
    let follows = !builder.is_empty() && last.checked_end() == Some(handle.offset);
    builder.add(key, handle, first_key, if follows { Sharing::Allowed } else { Sharing::Forbidden });
    *last = handle;
}

fn change_filter(raw: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut raw = raw.to_vec();
    match dice.below(5) {
        0 => raw.truncate(dice.below(raw.len() + 1)),
        1 => raw.extend(std::iter::repeat_n(0, dice.below(300))),
        2 => {
            // The last five bytes tell the kind of filter and its parameters.
            let at = raw.len().saturating_sub(1 + dice.below(5));
            if let Some(byte) = raw.get_mut(at) {
                *byte = dice.number(u64::from(*byte)) as u8;
            }
        }
        3 => raw.clear(),
        _ => return dice.scribble(&raw),
    }
    raw
}

/// Changes the entries of a key/value block, or its restart points.
fn change_block(block: &mut Block, dice: &mut Dice) -> String {
    let mut entries = Vec::new();
    if let Ok(mut walk) = BlockIter::new(&block.raw) {
        while let Ok(Some((key, value))) = walk.next_entry() {
            entries.push((key.to_vec(), value.to_vec()));
        }
    }
    let at = dice.below(entries.len());
    let what = match dice.below(8) {
        0..3 => dice.shuffle(&mut entries),
        3 if at < entries.len() => {
            let key = dice.internal_key();
            entries[at].0 = key.encoded().to_vec();
            format!("entry {at} is {key:?}")
        }
        4 if at < entries.len() => {
            let keep = dice.below(9);
            entries[at].0.truncate(keep);
            format!("entry {at} has a key of {keep} bytes")
        }
        5 if at < entries.len() => {
            entries[at].1 = vec![7; [0, 1, 8, 5000][dice.below(4)]];
            format!("entry {at} has a value of {} bytes", entries[at].1.len())
        }
        6 => {
            let mut raw = block.raw.clone();
            let restarts = raw.len().saturating_sub(4 * (1 + dice.below(8)));
            let number = dice.small(raw.len() as u32).to_le_bytes();
            if let Some(place) = raw.get_mut(restarts..restarts + 4) {
                place.copy_from_slice(&number);
            }
            block.changed(raw);
            return "another restart point or number of them".into();
        }
        _ => {
            let raw = dice.scribble(&block.raw);
            block.changed(raw);
            return "scribbled".into();
        }
    };
    let options = BlockBuilderOptions { restart_interval: [1, 2, 16][dice.below(3)], ..BlockBuilderOptions::default() };
    let mut builder = BlockBuilder::new(&options);
    for (key, value) in &entries {
        builder.add(key, value);
    }
    block.changed(builder.finish().to_vec());
    what
}

struct Writer {
    bytes: Vec<u8>,
    footer: Footer,
}

impl Writer {
    fn block(&mut self, block: &mut Block) -> BlockHandle {
        let offset = self.bytes.len() as u64;
        let payload = block.payload(SizeFormat::of_table(self.footer.format_version)).into_owned();
        let checksum = compute_with_last_byte(self.footer.checksum_type, &payload, block.compression)
            .wrapping_add(context_modifier(self.footer.base_context_checksum, offset));
        self.bytes.extend_from_slice(&payload);
        self.bytes.push(block.compression);
        self.bytes.extend_from_slice(&checksum.to_le_bytes());
        BlockHandle { offset, size: payload.len() as u64 }
    }
}
