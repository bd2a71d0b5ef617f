//! Building key/value blocks.

use crate::data_block_hash::DataBlockHashIndexBuilder;
use crate::key::FOOTER_SIZE;
use crate::varint::{put_fixed32, put_varint32, varint_length};

use super::{HASH_INDEX_BIT, MAX_HASH_INDEXED_PAYLOAD, SEPARATED_VALUES_BIT, UNIFORM_KEYS_BIT};

/// How a block is laid out.
#[derive(Clone, Debug)]
pub struct BlockBuilderOptions {
    /// Entries from one whole key to the next; at least 1.
    pub restart_interval: usize,
    /// Whether keys between restart points leave out what they share with the key before.
    pub use_delta_encoding: bool,
    /// Whether values are index values that stand without a length, as deltas where keys share bytes.
    pub use_value_delta_encoding: bool,
    /// Whether values stand apart from keys.
    pub separate_values: bool,
    /// Keys per bucket of the data-block hash index; `None` for no such index. Keys must then be internal keys.
    pub hash_index_util_ratio: Option<f64>,
}

impl Default for BlockBuilderOptions {
    fn default() -> Self {
        Self {
            restart_interval: 16,
            use_delta_encoding: true,
            use_value_delta_encoding: false,
            separate_values: false,
            hash_index_util_ratio: None,
        }
    }
}

/// Builds one block after the other. Keys must come in strictly increasing order within a block.
#[derive(Debug)]
pub struct BlockBuilder {
    restart_interval: usize,
    use_delta_encoding: bool,
    use_value_delta_encoding: bool,
    buffer: Vec<u8>,
    values: Option<Vec<u8>>,
    restarts: Vec<u32>,
    entries_since_restart: usize,
    last_key: Vec<u8>,
    hash_index: Option<DataBlockHashIndexBuilder>,
    estimate: usize,
    uniform_keys: bool,
}

impl BlockBuilder {
    /// An empty block.
    pub fn new(options: &BlockBuilderOptions) -> Self {
        let mut builder = Self {
            restart_interval: options.restart_interval.max(1),
            use_delta_encoding: options.use_delta_encoding,
            use_value_delta_encoding: options.use_value_delta_encoding,
            buffer: Vec::new(),
            values: options.separate_values.then(Vec::new),
            restarts: Vec::new(),
            entries_since_restart: 0,
            last_key: Vec::new(),
            hash_index: options.hash_index_util_ratio.map(DataBlockHashIndexBuilder::new),
            estimate: 0,
            uniform_keys: false,
        };
        builder.reset();
        builder
    }

    /// Starts the next block.
    pub fn reset(&mut self) {
        self.buffer.clear();
        if let Some(values) = &mut self.values {
            values.clear();
        }
        self.restarts.clear();
        self.restarts.push(0);
        self.entries_since_restart = 0;
        self.last_key.clear();
        if let Some(hash_index) = &mut self.hash_index {
            hash_index.reset();
        }
        // One restart point and the footer word, and the start of the values where they stand apart.
        self.estimate = 8 + if self.values.is_some() { 4 } else { 0 };
        self.uniform_keys = false;
    }

    /// Whether nothing was added since the last reset.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// The key added last; empty when there is none.
    pub fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// The size that [`finish`](Self::finish) would give now, as the writer's cutting rules count it.
    pub fn current_size(&self) -> usize {
        self.estimate + self.hash_index.as_ref().map_or(0, DataBlockHashIndexBuilder::estimated_size)
    }

    /// An upper estimate of [`current_size`](Self::current_size) after adding an entry of these lengths.
    pub fn estimate_after(&self, key_length: usize, value_length: usize) -> usize {
        let at_restart = self.entries_since_restart >= self.restart_interval;
        let mut estimate = self.current_size() + key_length + 4 + varint_length(key_length as u64);
        if self.use_value_delta_encoding && !at_restart {
            estimate += value_length / 2;
        } else {
            estimate += value_length + varint_length(value_length as u64);
        }
        if at_restart {
            estimate += 4;
            if let Some(values) = &self.values {
                estimate += varint_length(values.len() as u64);
            }
        }
        estimate
    }

    /// Marks the keys of this block as evenly spaced; a hint for index blocks.
    pub fn set_uniform_keys(&mut self, uniform: bool) {
        self.uniform_keys = uniform;
    }

    /// Adds an entry.
    ///
    /// Key and value must be shorter than 4 GiB, and the block smaller than 2 GiB; the table writer sees to it.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        self.add_entry(key, value, value, Sharing::Allowed);
    }

    /// Adds an index entry: `delta` is stored where the key shares bytes with the one before, `full` elsewhere.
    /// With [`Sharing::Forbidden`] the whole key and the full value are stored.
    pub fn add_index_entry(&mut self, key: &[u8], full: &[u8], delta: &[u8], sharing: Sharing) {
        self.add_entry(key, full, delta, sharing);
    }

    fn add_entry(&mut self, key: &[u8], full: &[u8], delta: &[u8], sharing: Sharing) {
        let mut shared = 0;
        let mut at_restart = self.buffer.is_empty();
        if self.entries_since_restart >= self.restart_interval {
            self.restarts.push(self.buffer.len() as u32);
            self.estimate += 4;
            self.entries_since_restart = 0;
            at_restart = true;
        } else if self.use_delta_encoding && sharing == Sharing::Allowed {
            shared = common_prefix(&self.last_key, key);
        }
        debug_assert!(!at_restart || shared == 0);
        let non_shared = key.get(shared..).unwrap_or_default();
        let before = self.buffer.len();
        put_varint32(&mut self.buffer, shared as u32);
        put_varint32(&mut self.buffer, non_shared.len() as u32);
        let value = if self.use_value_delta_encoding {
            if shared == 0 { full } else { delta }
        } else {
            put_varint32(&mut self.buffer, full.len() as u32);
            full
        };
        match &mut self.values {
            Some(values) => {
                if at_restart {
                    put_varint32(&mut self.buffer, values.len() as u32);
                }
                self.buffer.extend_from_slice(non_shared);
                values.extend_from_slice(value);
                self.estimate += value.len();
            }
            None => {
                self.buffer.extend_from_slice(non_shared);
                self.buffer.extend_from_slice(value);
            }
        }
        self.estimate += self.buffer.len() - before;
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(non_shared);
        self.entries_since_restart += 1;
        if let Some(hash_index) = &mut self.hash_index
            && hash_index.is_usable()
        {
            let user_key = key.get(..key.len().saturating_sub(FOOTER_SIZE)).unwrap_or_default();
            hash_index.add(user_key, self.restarts.len() as u32 - 1);
        }
    }

    /// Completes the block and returns its payload, which stays until [`reset`](Self::reset).
    pub fn finish(&mut self) -> &[u8] {
        let with_hash_index = self.hash_index.as_ref().is_some_and(DataBlockHashIndexBuilder::is_usable)
            && self.current_size() <= MAX_HASH_INDEXED_PAYLOAD;
        let mut word = self.restarts.len() as u32;
        let values_start = self.buffer.len() as u32;
        if let Some(values) = &self.values {
            self.buffer.extend_from_slice(values);
        }
        for &restart in &self.restarts {
            put_fixed32(&mut self.buffer, restart);
        }
        if with_hash_index && let Some(hash_index) = &self.hash_index {
            hash_index.finish(&mut self.buffer);
            word |= HASH_INDEX_BIT;
        }
        if self.values.is_some() {
            put_fixed32(&mut self.buffer, values_start);
            word |= SEPARATED_VALUES_BIT;
        }
        if self.uniform_keys {
            word |= UNIFORM_KEYS_BIT;
        }
        put_fixed32(&mut self.buffer, word);
        &self.buffer
    }
}

/// Whether an index entry may leave out what its key shares with the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// As the block's options say.
    Allowed,
    /// The entry stands for itself, as after padding between blocks.
    Forbidden,
}

/// How many leading bytes two keys have in common.
#[inline]
pub fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let limit = a.len().min(b.len());
    let mut at = 0;
    while let (Some(x), Some(y)) =
        (a.get(at..).and_then(<[u8]>::first_chunk), b.get(at..).and_then(<[u8]>::first_chunk))
    {
        let difference = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if difference != 0 {
            return at + difference.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while at < limit && a.get(at) == b.get(at) {
        at += 1;
    }
    at
}
