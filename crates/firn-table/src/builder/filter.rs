//! The filter of a new table, whole or in partitions.
//!
//! User keys without timestamp flow in, in table order; filter blocks come out at the end. Partitions are cut by their
//! number of entries alone. The prefixes next to a cut go into both partitions, so that a prefix seek that starts at one
//! side of the cut finds what lies on the other.

use std::sync::Arc;

use firn_error::Result;
use firn_format::block::Sharing;
use firn_format::filter::FilterBuilder;
use firn_format::index::{BlockHandle, IndexBlockBuilder, IndexFormat};
use firn_format::key::{SequenceNumber, ValueType, append_internal_key};
use firn_format::slice_transform::{SliceTransform, prefix_of};

use super::output::TableOutput;

/// How the filter is partitioned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FilterPartitioning {
    /// Target size of a partition in bytes.
    pub(crate) metadata_block_size: u64,
    /// Percent by which a partition may be smaller.
    pub(crate) block_size_deviation: u32,
}

#[derive(Debug)]
pub(crate) struct TableFilterBuilder {
    builder: FilterBuilder,
    prefix_extractor: Option<Arc<dyn SliceTransform>>,
    whole_keys: bool,
    timestamp_size: usize,
    /// Entries after which a partition is cut; `u64::MAX` for one filter.
    keys_per_partition: u64,
    partitioned: bool,
    partitions: Vec<Partition>,
    last_key: Vec<u8>,
    any_key: bool,
    finished_entries: u64,
}

#[derive(Debug)]
struct Partition {
    /// An internal key at or after all keys of the partition.
    bound: Vec<u8>,
    content: Vec<u8>,
}

/// What was written of the filter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrittenFilter {
    pub(crate) handle: BlockHandle,
    pub(crate) size: u64,
}

impl TableFilterBuilder {
    pub(crate) fn new(
        builder: FilterBuilder,
        prefix_extractor: Option<Arc<dyn SliceTransform>>,
        whole_keys: bool,
        timestamp_size: usize,
        partitioning: Option<FilterPartitioning>,
    ) -> Self {
        let keys_per_partition = partitioning.map_or(u64::MAX, |partitioning| {
            builder.keys_per_partition(
                partitioning.metadata_block_size,
                partitioning.block_size_deviation,
                prefix_extractor.is_some(),
            )
        });
        Self {
            builder,
            prefix_extractor,
            whole_keys,
            timestamp_size,
            keys_per_partition,
            partitioned: partitioning.is_some(),
            partitions: Vec::new(),
            last_key: Vec::new(),
            any_key: false,
            finished_entries: 0,
        }
    }

    pub(crate) fn is_partitioned(&self) -> bool {
        self.partitioned
    }

    /// Adds a user key, with its timestamp if it has one.
    #[inline]
    pub(crate) fn add(&mut self, user_key: &[u8]) -> Result<()> {
        let key = user_key.get(..user_key.len().saturating_sub(self.timestamp_size)).unwrap_or_default();
        if self.partitioned {
            // Versions of one user key stay in one partition, so that partitions have distinct bounds.
            if self.builder.entries() as u64 >= self.keys_per_partition && key != self.last_key {
                self.cut(key)?;
            }
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
        }
        self.any_key = true;
        let prefix = self.prefix_extractor.as_deref().and_then(|extractor| prefix_of(extractor, key));
        match (prefix, self.whole_keys) {
            (Some(prefix), true) => self.builder.add_key_and_prefix(key, prefix),
            (Some(prefix), false) => self.builder.add(prefix),
            (None, true) => self.builder.add(key),
            (None, false) => {}
        }
        Ok(())
    }

    /// Ends the current partition before `next`.
    fn cut(&mut self, next: &[u8]) -> Result<()> {
        let extractor = self.prefix_extractor.clone();
        if let Some(prefix) = extractor.as_deref().and_then(|extractor| prefix_of(extractor, next)) {
            if self.whole_keys {
                self.builder.add_key_and_prefix(prefix, prefix);
            } else {
                self.builder.add(prefix);
            }
        }
        self.finish_partition()?;
        if let Some(prefix) = extractor.as_deref().and_then(|extractor| prefix_of(extractor, &self.last_key)) {
            self.builder.add(prefix);
        }
        Ok(())
    }

    fn finish_partition(&mut self) -> Result<()> {
        self.finished_entries += self.builder.entries() as u64;
        let mut user_key = self.last_key.clone();
        user_key.resize(user_key.len() + self.timestamp_size, 0);
        let mut bound = Vec::new();
        append_internal_key(&mut bound, &user_key, SequenceNumber::ZERO, ValueType::Deletion);
        let content = self.builder.finish()?;
        self.partitions.push(Partition { bound, content });
        Ok(())
    }

    /// Entries in all filters.
    pub(crate) fn entries(&self) -> u64 {
        self.finished_entries + self.builder.entries() as u64
    }

    /// Writes the filter in the key form of the file's index; `None` when there is none to write.
    pub(crate) fn write(
        &mut self,
        output: &mut TableOutput,
        index_format: IndexFormat,
        index_restart_interval: usize,
    ) -> Result<Option<WrittenFilter>> {
        if !self.any_key {
            return Ok(None);
        }
        if !self.partitioned {
            if self.builder.entries() == 0 {
                return Ok(None);
            }
            self.finished_entries += self.builder.entries() as u64;
            let content = self.builder.finish()?;
            let handle = output.write_raw(&content)?;
            return Ok(Some(WrittenFilter { handle, size: content.len() as u64 }));
        }
        if self.builder.entries() > 0 {
            self.finish_partition()?;
        }
        if self.partitions.is_empty() {
            return Ok(None);
        }
        let format = IndexFormat { has_first_key: false, ..index_format };
        let mut top_level = IndexBlockBuilder::new(format, index_restart_interval);
        let mut size = 0;
        for partition in &self.partitions {
            let handle = output.write_raw(&partition.content)?;
            size += handle.size;
            top_level.add(&partition.bound, handle, &[], Sharing::Allowed);
        }
        let payload = top_level.finish();
        size += payload.len() as u64;
        Ok(Some(WrittenFilter { handle: output.write_raw(payload)?, size }))
    }
}
