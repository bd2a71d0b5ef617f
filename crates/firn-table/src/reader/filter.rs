//! Asking a table's filter before its index is touched.
//!
//! A filter answers "not here" or "perhaps". Whatever is wrong with a filter (it cannot be read, it was made by a prefix
//! extractor that is not known) the answer is "perhaps": a file is readable without its filter.

use std::sync::Arc;

use firn_error::Result;
use firn_format::filter::{BUILTIN_COMPATIBILITY_NAME, FilterKey, FilterLayout, FilterReader};
use firn_format::index::{BlockHandle, IndexFormat};
use firn_format::key::extract_user_key;
use firn_format::properties::TableProperties;
use firn_format::slice_transform::{self, SliceTransform, prefix_of};

use super::{Hold, TableReadOptions, TableReader, count};
use crate::block_ref::{BlockRef, TableBlock};

/// A full filter or a filter partition in memory.
#[derive(Debug)]
pub struct FilterBlock {
    layout: FilterLayout,
    content: Vec<u8>,
}

impl FilterBlock {
    /// Takes the payload of a filter block.
    pub fn new(content: Vec<u8>) -> Self {
        Self { layout: FilterLayout::parse(&content), content }
    }

    #[inline]
    pub(crate) fn may_match(&self, key: &FilterKey<'_>) -> bool {
        FilterReader::with_layout(self.layout, &self.content).may_match(key)
    }

    /// Bytes of memory that the block takes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.content.capacity()
    }
}

/// The filter of a table and what may be asked of it.
#[derive(Debug)]
pub(crate) struct TableFilter {
    pub(super) kind: FilterKind,
    whole_keys: bool,
    prefixes: PrefixFiltering,
}

/// How the filter is stored. The block is held where it does not live in the cache.
#[derive(Debug)]
pub(super) enum FilterKind {
    None,
    Full { handle: BlockHandle, held: Option<BlockRef> },
    Partitioned { handle: BlockHandle, held: Option<BlockRef> },
}

#[derive(Debug)]
struct PrefixFiltering {
    /// Whether the file's filter has prefixes.
    supported: bool,
    /// The extractor that is configured now.
    current: Option<Arc<dyn SliceTransform>>,
    /// The extractor that the file was written with, where it can be had.
    of_table: Option<Arc<dyn SliceTransform>>,
    /// Whether the two may differ.
    changed: bool,
}

/// Which way an iterator seeks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeekDirection {
    Forward,
    Backward,
}

impl TableFilter {
    /// The filter block, where the table holds it.
    pub(super) fn held(&self) -> Option<&BlockRef> {
        match &self.kind {
            FilterKind::None => None,
            FilterKind::Full { held, .. } | FilterKind::Partitioned { held, .. } => held.as_ref(),
        }
    }

    pub(super) fn new(
        kind: FilterKind,
        properties: &TableProperties,
        whole_key_filtering: bool,
        prefix_extractor: Option<Arc<dyn SliceTransform>>,
    ) -> Self {
        let recorded = properties.prefix_extractor_name.as_str();
        let of_table = match &prefix_extractor {
            Some(current) if current.id() == recorded => Some(Arc::clone(current)),
            _ => slice_transform::from_string(recorded).ok().flatten(),
        };
        let changed = prefix_extractor.as_ref().is_none_or(|current| recorded.is_empty() || current.id() != recorded);
        Self {
            kind,
            whole_keys: whole_key_filtering && properties.has_whole_key_filtering(),
            prefixes: PrefixFiltering {
                supported: properties.has_prefix_filtering(),
                current: prefix_extractor,
                of_table,
                changed,
            },
        }
    }
}

impl TableReader {
    fn user_key_without_timestamp<'a>(&self, ikey: &'a [u8]) -> &'a [u8] {
        let user_key = extract_user_key(ikey);
        let timestamp_size = self.comparator().user_comparator().timestamp_size();
        user_key.get(..user_key.len().saturating_sub(timestamp_size)).unwrap_or_default()
    }

    /// Whether the file may have point entries of the user key of `lookup`.
    #[inline]
    pub(super) fn may_have_key(&self, options: &TableReadOptions, lookup: &[u8]) -> bool {
        if matches!(self.filter.kind, FilterKind::None) || options.skip_filters {
            return true;
        }
        let key =
            if self.timestamp_size == 0 { extract_user_key(lookup) } else { self.user_key_without_timestamp(lookup) };
        if self.filter.whole_keys {
            let may_match = self.filter_may_match(options, lookup, key);
            count::whole_key_filter_asked(self.statistics.as_ref(), may_match);
            return may_match;
        }
        let prefixes = &self.filter.prefixes;
        match &prefixes.current {
            Some(extractor) if !prefixes.changed && prefixes.supported => {
                prefix_of(&**extractor, key).is_none_or(|prefix| {
                    let may_match = self.filter_may_match(options, lookup, prefix);
                    count::prefix_filter_asked(self.statistics.as_ref(), may_match);
                    may_match
                })
            }
            _ => true,
        }
    }

    /// Whether an iterator that seeks `target`, an internal key, may find an entry that its caller cares for.
    pub(crate) fn may_have_prefix(&self, options: &TableReadOptions, target: &[u8], direction: SeekDirection) -> bool {
        let prefixes = &self.filter.prefixes;
        if matches!(self.filter.kind, FilterKind::None) || options.skip_filters || !prefixes.supported {
            return true;
        }
        let Some(current) = &prefixes.current else {
            return true;
        };
        if options.total_order_seek && !options.auto_prefix_mode && !options.prefix_same_as_start {
            return true;
        }
        let bounded = options.auto_prefix_mode || prefixes.changed;
        if bounded && direction == SeekDirection::Backward {
            return true;
        }
        let extractor = match &prefixes.of_table {
            Some(of_table) => of_table,
            None if bounded => return true,
            None => current,
        };
        let Some(prefix) = prefix_of(&**extractor, self.user_key_without_timestamp(target)) else {
            return true;
        };
        if bounded && !self.bound_ends_with_prefix(options, &**extractor, prefix) {
            return true;
        }
        self.filter_may_match(options, target, prefix)
    }

    /// Whether the upper bound keeps the iterator within the keys of `prefix`.
    fn bound_ends_with_prefix(
        &self,
        options: &TableReadOptions,
        extractor: &dyn SliceTransform,
        prefix: &[u8],
    ) -> bool {
        let Some(bound) = &options.iterate_upper_bound else {
            return false;
        };
        let Some(bound_prefix) = prefix_of(extractor, bound) else {
            return false;
        };
        bound_prefix == prefix
            || (extractor.full_length() == Some(bound.len())
                && self.comparator().user_comparator().is_same_length_immediate_successor(prefix, bound))
    }

    /// Asks the filter for `entry`, a key or prefix; `lookup` tells which partition is asked.
    fn filter_may_match(&self, options: &TableReadOptions, lookup: &[u8], entry: &[u8]) -> bool {
        match &self.filter.kind {
            FilterKind::None => true,
            FilterKind::Full { handle, held } => {
                let block = match held {
                    Some(block) => Hold::Borrowed(block),
                    None => match self.filter_block(*handle, options) {
                        Ok(block) => Hold::Owned(block),
                        Err(_) => return true,
                    },
                };
                match block.get() {
                    TableBlock::Filter(filter) => filter.may_match(&FilterKey::new(entry)),
                    _ => true,
                }
            }
            FilterKind::Partitioned { handle, held } => {
                let block = match held {
                    Some(block) => Hold::Borrowed(block),
                    None => match self.filter_partition_index(*handle, options) {
                        Ok(block) => Hold::Owned(block),
                        Err(_) => return true,
                    },
                };
                let Some(index) = block.index() else {
                    return true;
                };
                // Beyond the last bound there may still be keys of the last partition.
                let bound = index.seek(lookup).map(|position| position.min(index.len().saturating_sub(1)));
                let Ok(Some(partition)) = bound.and_then(|position| index.entry(position)) else {
                    return true;
                };
                if partition.size == 0 {
                    return false;
                }
                match self.filter_block(partition, options) {
                    Ok(block) => match block.get() {
                        TableBlock::Filter(filter) => filter.may_match(&FilterKey::new(entry)),
                        _ => true,
                    },
                    Err(_) => true,
                }
            }
        }
    }

    /// The bounds of the filter's partitions, in the form of the file's index keys, for tools; empty when the filter is not
    /// partitioned.
    ///
    /// # Errors
    /// Corruption when the index of partitions is damaged.
    pub fn filter_partitions(&self, options: &TableReadOptions) -> Result<Vec<Vec<u8>>> {
        let name = format!("partitionedfilter.{BUILTIN_COMPATIBILITY_NAME}");
        let Some(handle) = self.metaindex.find(&name) else {
            return Ok(Vec::new());
        };
        let block = self.filter_partition_index(handle, options)?;
        let bounds = block.index().map(|index| (0..index.len()).map(|position| index.key(position).to_vec()).collect());
        Ok(bounds.unwrap_or_default())
    }

    /// The format of the index of filter partitions: that of the file's index, without first keys.
    pub(super) fn filter_index_format(&self) -> IndexFormat {
        IndexFormat { has_first_key: false, ..self.index_format }
    }
}
