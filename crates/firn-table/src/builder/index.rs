//! The index of a new table.
//!
//! Separators and handles are collected while data blocks are written; only at the end is it known whether user keys
//! suffice as index keys, and then the index blocks are built. Where the index is partitioned, builders in both key forms
//! run along to tell where partitions end.

use firn_error::Result;
use firn_format::block::{BLOCK_TRAILER_SIZE, Sharing};
use firn_format::comparator::InternalKeyComparator;
use firn_format::compression::Compressor;
use firn_format::index::{BlockHandle, IndexBlockBuilder, IndexFormat, IndexShortening, separator};
use firn_format::key::extract_user_key;
use firn_format::varint::varint_length;

use super::flush_policy::FlushPolicy;
use super::output::TableOutput;

#[derive(Debug)]
struct Entry {
    /// Where the separator ends in `keys`; it starts where the entry before ended.
    separator_end: usize,
    /// Where the first key ends in `keys`; it follows the separator.
    first_key_end: usize,
    handle: BlockHandle,
    sharing: Sharing,
    starts_partition: bool,
}

/// How the index is written.
#[derive(Clone, Debug)]
pub(crate) struct IndexOptions {
    pub(crate) comparator: InternalKeyComparator,
    pub(crate) shortening: IndexShortening,
    pub(crate) restart_interval: usize,
    pub(crate) format_version: u32,
    pub(crate) value_is_delta_encoded: bool,
    pub(crate) has_first_key: bool,
    /// When partitions are cut; `None` for one index block.
    pub(crate) partitions: Option<FlushPolicy>,
}

#[derive(Debug)]
pub(crate) struct IndexCollector {
    options: IndexOptions,
    entries: Vec<Entry>,
    keys: Vec<u8>,
    needs_internal_keys: bool,
    probes: Option<Probes>,
}

/// The current partition in both key forms, to see when it is full.
#[derive(Debug)]
struct Probes {
    policy: FlushPolicy,
    user_keys: IndexBlockBuilder,
    internal_keys: IndexBlockBuilder,
}

/// What was written of the index.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WrittenIndex {
    pub(crate) handle: BlockHandle,
    pub(crate) raw_size: u64,
    pub(crate) partitions: u64,
    pub(crate) top_level_size: u64,
}

impl IndexCollector {
    pub(crate) fn new(options: IndexOptions) -> Self {
        let probes = options.partitions.map(|policy| {
            let probe = |key_is_user_key| {
                let format = IndexFormat {
                    key_is_user_key,
                    value_is_delta_encoded: options.value_is_delta_encoded,
                    has_first_key: false,
                };
                IndexBlockBuilder::new(format, options.restart_interval)
            };
            Probes { policy, user_keys: probe(true), internal_keys: probe(false) }
        });
        let needs_internal_keys = options.format_version < 3;
        Self { options, entries: Vec::new(), keys: Vec::new(), needs_internal_keys, probes }
    }

    /// The form that the index will have if nothing more is added.
    pub(crate) fn format(&self) -> IndexFormat {
        IndexFormat {
            key_is_user_key: !self.needs_internal_keys,
            value_is_delta_encoded: self.options.value_is_delta_encoded,
            has_first_key: self.options.has_first_key,
        }
    }

    /// Number of data blocks so far.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds the data block at `handle` with the keys from `first` to `last`, followed by one that starts with `next`.
    pub(crate) fn add_block(
        &mut self,
        first: &[u8],
        last: &[u8],
        next: Option<&[u8]>,
        handle: BlockHandle,
        sharing: Sharing,
    ) {
        let comparator = &self.options.comparator;
        let key = separator(comparator, self.options.shortening, last, next);
        if let Some(next) = next
            && comparator.compare_user(extract_user_key(last), extract_user_key(next)).is_eq()
        {
            self.needs_internal_keys = true;
        }
        let mut starts_partition = self.entries.is_empty();
        if let Some(probes) = &mut self.probes {
            let probe = if self.needs_internal_keys { &probes.internal_keys } else { &probes.user_keys };
            let value_length = varint_length(handle.offset) + varint_length(handle.size);
            if next.is_some()
                && !probe.is_empty()
                && probes.policy.is_full(probe.current_size(), || probe.estimate_after(last.len(), value_length))
            {
                probes.user_keys.reset();
                probes.internal_keys.reset();
                starts_partition = true;
            }
            probes.user_keys.add(&key, handle, &[], sharing);
            probes.internal_keys.add(&key, handle, &[], sharing);
        }
        self.keys.extend_from_slice(&key);
        let separator_end = self.keys.len();
        if self.options.has_first_key {
            self.keys.extend_from_slice(first);
        }
        self.entries.push(Entry { separator_end, first_key_end: self.keys.len(), handle, sharing, starts_partition });
    }

    /// Writes the index behind what the file has.
    pub(crate) fn write(
        &self,
        output: &mut TableOutput,
        mut compressor: Option<&mut Compressor>,
    ) -> Result<WrittenIndex> {
        let mut builder = IndexBlockBuilder::new(self.format(), self.options.restart_interval);
        let mut top_level = IndexBlockBuilder::new(
            IndexFormat { has_first_key: false, ..self.format() },
            self.options.restart_interval,
        );
        let mut written = WrittenIndex::default();
        let mut start = 0;
        let mut last_separator: &[u8] = &[];
        for entry in &self.entries {
            let key = self.keys.get(start..entry.separator_end).unwrap_or_default();
            let first_key = self.keys.get(entry.separator_end..entry.first_key_end).unwrap_or_default();
            start = entry.first_key_end;
            if self.probes.is_some() && entry.starts_partition && !builder.is_empty() {
                let handle = write_index_block(&mut builder, output, compressor.as_deref_mut(), &mut written)?;
                top_level.add(last_separator, handle, &[], Sharing::Allowed);
                written.partitions += 1;
            }
            builder.add(key, entry.handle, first_key, entry.sharing);
            last_separator = key;
        }
        if self.probes.is_none() {
            written.handle = write_index_block(&mut builder, output, compressor, &mut written)?;
        } else {
            if !builder.is_empty() {
                let handle = write_index_block(&mut builder, output, compressor.as_deref_mut(), &mut written)?;
                top_level.add(last_separator, handle, &[], Sharing::Allowed);
                written.partitions += 1;
            }
            let partitions_size = written.raw_size;
            written.handle = write_index_block(&mut top_level, output, compressor, &mut written)?;
            written.top_level_size = written.raw_size - partitions_size;
        }
        written.raw_size += BLOCK_TRAILER_SIZE as u64;
        Ok(written)
    }
}

fn write_index_block(
    builder: &mut IndexBlockBuilder,
    output: &mut TableOutput,
    compressor: Option<&mut Compressor>,
    written: &mut WrittenIndex,
) -> Result<BlockHandle> {
    let payload = builder.finish();
    written.raw_size += payload.len() as u64;
    let block = output.write_block(payload, compressor, None, |_, _| 0)?;
    builder.reset();
    Ok(block.handle)
}
