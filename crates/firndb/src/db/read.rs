//! Point reads: get, multi-get, key-may-exist.
//!
//! A key flows in, a pinned value flows out. The way of a lookup is mutable memtable, immutable memtables from the newest
//! to the oldest, level 0 from the newest file to the oldest, then level by level, until the answer is final. Always true
//! here: the super version is taken before the read sequence is chosen, and a lookup writes to no memory that other
//! threads read.

use std::sync::Arc;

use firn_env::sync::atomic::Ordering;
use firn_env::{IoPriority, thread};
use firn_error::{Error, ErrorKind, Result, SubCode};
use firn_format::key::{FOOTER_SIZE, SequenceNumber, ValueType, pack_footer};
use firn_table::{PinnedSlice, ReadAheadOptions, ReadThrottle, TableReadOptions};

use super::DbInner;
use super::column_family::ColumnFamilyData;
use super::super_version::SuperVersion;
use crate::options::{ReadOptions, ReadTier};
use crate::read::merge_context::full_merge;
use crate::read::{GetContext, LookupMode, get_from_memtable};
use crate::stats::{HistogramKind, Statistics, StopWatch, Ticker, record_tick};
use crate::version::BatchedLookup;

/// So many keys of a multi-get go through the levels together.
const MULTI_GET_BATCH: usize = 32;

/// User keys up to this length are looked up without an allocation.
const SHORT_KEY_BYTES: usize = 240;

/// The internal key from which a lookup starts, on the stack where it fits.
#[expect(clippy::large_enum_variant, reason = "it lives on the stack of one lookup")]
enum LookupKey {
    Short { bytes: [u8; SHORT_KEY_BYTES + FOOTER_SIZE], len: usize },
    Long(Vec<u8>),
}

impl LookupKey {
    #[inline]
    fn new(user_key: &[u8], sequence: SequenceNumber) -> Self {
        let footer = pack_footer(sequence, ValueType::FOR_SEEK).to_le_bytes();
        let mut bytes = [0; SHORT_KEY_BYTES + FOOTER_SIZE];
        let len = user_key.len() + FOOTER_SIZE;
        if let Some(to) = bytes.get_mut(..len)
            && let Some((key, end)) = to.split_at_mut_checked(user_key.len())
        {
            key.copy_from_slice(user_key);
            end.copy_from_slice(&footer);
            return Self::Short { bytes, len };
        }
        Self::Long([user_key, &footer].concat())
    }

    #[inline]
    fn encoded(&self) -> &[u8] {
        match self {
            Self::Short { bytes, len } => bytes.get(..*len).unwrap_or_default(),
            Self::Long(bytes) => bytes,
        }
    }
}

/// What the table floor needs to know of the options of a read.
pub(crate) fn table_read_options(db: &DbInner, options: &ReadOptions) -> TableReadOptions {
    let priority = options.rate_limiter_priority;
    let limiter = db.rate_limiter.as_ref().filter(|_| priority != IoPriority::Unlimited);
    let readahead = ReadAheadOptions { fixed_bytes: options.readahead_size, ..ReadAheadOptions::default() };
    TableReadOptions {
        verify_checksums: options.verify_checksums,
        fill_cache: options.fill_cache,
        cache_only: options.read_tier == ReadTier::BlockCache,
        total_order_seek: options.total_order_seek,
        auto_prefix_mode: options.auto_prefix_mode,
        prefix_same_as_start: options.prefix_same_as_start,
        iterate_upper_bound: options.iterate_upper_bound.as_deref().map(Arc::from),
        readahead,
        throttle: limiter.map(|limiter| ReadThrottle { limiter: Arc::clone(limiter), priority }),
        ..TableReadOptions::default()
    }
}

/// Counts what a get returned.
fn count_get(statistics: &Statistics, found: &Result<Option<PinnedSlice>>) {
    statistics.record_tick(Ticker::NumberKeysRead, 1);
    count_merge_failure(statistics, found);
    if let Ok(found) = found {
        let bytes = found.as_ref().map_or(0, |value| value.len() as u64);
        statistics.record_tick(Ticker::BytesRead, bytes);
        statistics.record_in_histogram(HistogramKind::BytesPerRead, bytes);
    }
}

/// Counts a get that found its value in a table, by level.
fn count_hit(statistics: &Statistics, level: Option<usize>, context: &GetContext<'_>) {
    let Some(level) = level.filter(|_| context.is_found()) else { return };
    let ticker = match level {
        0 => Ticker::L0Hit,
        1 => Ticker::L1Hit,
        _ => Ticker::L2andupHit,
    };
    statistics.record_tick(ticker, 1);
}

fn count_merge_failure(statistics: &Statistics, found: &Result<Option<PinnedSlice>>) {
    if found.as_ref().is_err_and(|error| error.subcode() == SubCode::MergeOperatorFailed) {
        statistics.record_tick(Ticker::NumberMergeFailures, 1);
    }
}

fn over_soft_limit() -> Error {
    Error::aborted("value_size_soft_limit was reached")
}

impl DbInner {
    /// The sequence that a read with `options` sees. Called with the super version in hand.
    #[inline]
    pub(crate) fn read_sequence(&self, options: &ReadOptions) -> SequenceNumber {
        match &options.snapshot {
            Some(snapshot) => snapshot.sequence(),
            None => self.visible_sequence(),
        }
    }

    /// The newest value of `key`; see [`Db::get_opt`](crate::Db::get_opt).
    ///
    /// # Errors
    /// Those of reading tables; `InvalidArgument` for options that do not fit.
    #[inline]
    pub(crate) fn get(
        &self,
        options: &ReadOptions,
        data: &ColumnFamilyData,
        key: &[u8],
    ) -> Result<Option<PinnedSlice>> {
        self.check_read(options, data)?;
        let tables = table_read_options(self, options);
        let _watch = StopWatch::start(self.statistics.as_ref(), &**self.env.clock(), HistogramKind::DbGetMicros);
        let found = data.super_version.read(|super_version| {
            let sequence = self.read_sequence(options);
            self.lookup(options, &tables, data, super_version, sequence, key, LookupMode::Value)
        });
        if let Some(statistics) = &self.statistics {
            count_get(statistics, &found);
        }
        found
    }

    #[inline]
    pub(crate) fn check_snapshot(&self, options: &ReadOptions) -> Result<()> {
        match &options.snapshot {
            Some(snapshot) if !snapshot.is_of(&self.snapshots) => {
                Err(Error::invalid_argument("the snapshot is of another database"))
            }
            _ => Ok(()),
        }
    }

    fn check_read(&self, options: &ReadOptions, data: &ColumnFamilyData) -> Result<()> {
        self.check_owner(data)?;
        self.check_open()?;
        self.check_snapshot(options)?;
        if options.timestamp.is_some() || options.iter_start_ts.is_some() {
            return Err(Error::invalid_argument("the column family has no user-defined timestamps"));
        }
        Ok(())
    }

    /// The newest value of `key`, and the sub-code of success; see
    /// [`Db::get_with_subcode`](crate::Db::get_with_subcode).
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub(crate) fn get_with_subcode(
        &self,
        options: &ReadOptions,
        data: &ColumnFamilyData,
        key: &[u8],
    ) -> Result<(Option<PinnedSlice>, SubCode)> {
        self.check_read(options, data)?;
        let super_version = data.super_version.current();
        let sequence = self.read_sequence(options);
        let context = self.search(options, data, &super_version, sequence, key, LookupMode::Value)?;
        let merged = context.operand_count();
        let exceeded = options.merge_operand_count_threshold.is_some_and(|threshold| merged > threshold);
        let subcode = if exceeded { SubCode::MergeOperandThresholdExceeded } else { SubCode::None };
        Ok((context.finish()?, subcode))
    }

    /// What a merge of `key` would be given; see [`Db::get_merge_operands`](crate::Db::get_merge_operands).
    ///
    /// # Errors
    /// As for [`get`](Self::get); `Incomplete` if there are more than `limit`.
    pub(crate) fn get_merge_operands(
        &self,
        options: &ReadOptions,
        data: &ColumnFamilyData,
        key: &[u8],
        limit: usize,
    ) -> Result<Vec<Vec<u8>>> {
        self.check_read(options, data)?;
        let super_version = data.super_version.current();
        let sequence = self.read_sequence(options);
        let context = self.search(options, data, &super_version, sequence, key, LookupMode::MergeOperands)?;
        let operands = context.finish_operands()?;
        if operands.len() > limit {
            return Err(Error::incomplete(format!("the key has {} merge operands, more than {limit}", operands.len()))
                .with_subcode(SubCode::MergeOperandsInsufficientCapacity));
        }
        Ok(operands)
    }

    /// What `operand`, which is about to be written under `sequence`, makes of the present value of `key`; `None` where
    /// that cannot be told (from memory, unless `strict_max_successive_merges` allows reading files).
    pub(crate) fn merged_at_write(
        &self,
        data: &ColumnFamilyData,
        sequence: SequenceNumber,
        key: &[u8],
        operand: &[u8],
    ) -> Option<Vec<u8>> {
        // A merge operator that panics here, at the head of the write queue, has told nothing: the operand is kept.
        let merged = thread::catch_panic("the merge operator", || Ok(self.merged_now(data, sequence, key, operand)));
        merged.ok().flatten()
    }

    fn merged_now(
        &self,
        data: &ColumnFamilyData,
        sequence: SequenceNumber,
        key: &[u8],
        operand: &[u8],
    ) -> Option<Vec<u8>> {
        let super_version = data.super_version.current();
        let strict = super_version.options.strict_max_successive_merges;
        let read_tier = if strict { ReadTier::All } else { ReadTier::BlockCache };
        let options = ReadOptions { read_tier, ..ReadOptions::default() };
        let context = self.search(&options, data, &super_version, sequence, key, LookupMode::Value).ok()?;
        let existing = context.finish().ok()?;
        let operator = super_version.options.merge_operator.as_deref()?;
        let mut merged = Vec::new();
        full_merge(operator, key, existing.as_deref(), &[operand], &mut merged).ok()?;
        Some(merged)
    }

    #[inline]
    #[expect(clippy::too_many_arguments, reason = "the state of one lookup, split only on paper otherwise")]
    fn lookup(
        &self,
        options: &ReadOptions,
        tables: &TableReadOptions,
        data: &ColumnFamilyData,
        super_version: &SuperVersion,
        sequence: SequenceNumber,
        key: &[u8],
        mode: LookupMode,
    ) -> Result<Option<PinnedSlice>> {
        let mut context = GetContext::new(key, super_version.options.merge_operator.as_deref(), mode)
            .ignoring_range_tombstones(options.ignore_range_deletions);
        self.search_sources(options, tables, data, super_version, sequence, &mut context)?;
        context.finish()
    }

    /// A lookup whose context is the answer.
    fn search<'a>(
        &self,
        options: &ReadOptions,
        data: &ColumnFamilyData,
        super_version: &'a SuperVersion,
        sequence: SequenceNumber,
        key: &'a [u8],
        mode: LookupMode,
    ) -> Result<GetContext<'a>> {
        let mut context = GetContext::new(key, super_version.options.merge_operator.as_deref(), mode)
            .ignoring_range_tombstones(options.ignore_range_deletions);
        let tables = table_read_options(self, options);
        self.search_sources(options, &tables, data, super_version, sequence, &mut context)?;
        Ok(context)
    }

    /// Asks memtables and tables, from the newest to the oldest, until the answer is final.
    #[inline]
    fn search_sources(
        &self,
        options: &ReadOptions,
        tables: &TableReadOptions,
        data: &ColumnFamilyData,
        super_version: &SuperVersion,
        sequence: SequenceNumber,
        context: &mut GetContext<'_>,
    ) -> Result<()> {
        let lookup = LookupKey::new(context.user_key(), sequence);
        let skip_memtables = options.read_tier == ReadTier::Persisted && self.has_unlogged_data.load(Ordering::Acquire);
        if !skip_memtables {
            for memtable in std::iter::once(&super_version.mem).chain(&super_version.imm) {
                if get_from_memtable(memtable, lookup.encoded(), context) {
                    record_tick(self.statistics.as_ref(), Ticker::MemtableHit, 1);
                    return Ok(());
                }
            }
            record_tick(self.statistics.as_ref(), Ticker::MemtableMiss, 1);
        }
        if options.read_tier != ReadTier::Memtable {
            let level = super_version.version.get(&**data.tables(), tables, lookup.encoded(), context)?;
            if let Some(statistics) = self.statistics.as_deref() {
                count_hit(statistics, level, context);
            }
        }
        Ok(())
    }

    /// The newest values of `keys`, all as of one moment; see [`Db::multi_get_opt`](crate::Db::multi_get_opt).
    pub(crate) fn multi_get<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        data: &Arc<ColumnFamilyData>,
        keys: &[K],
    ) -> Vec<Result<Option<PinnedSlice>>> {
        if let Err(error) = self.check_read(options, data) {
            return keys.iter().map(|_| Err(error.clone())).collect();
        }
        let tables = table_read_options(self, options);
        let statistics = self.statistics.as_ref();
        let _watch = StopWatch::start(statistics, &**self.env.clock(), HistogramKind::DbMultigetMicros);
        data.super_version.read(|super_version| {
            let sequence = self.read_sequence(options);
            let mut value_bytes = 0u64;
            let mut found = Vec::with_capacity(keys.len());
            for keys in keys.chunks(MULTI_GET_BATCH) {
                if value_bytes > options.value_size_soft_limit {
                    found.extend(keys.iter().map(|_| Err(over_soft_limit())));
                    continue;
                }
                for value in self.lookup_batch(options, &tables, data, super_version, sequence, keys) {
                    if value_bytes > options.value_size_soft_limit {
                        found.push(Err(over_soft_limit()));
                        continue;
                    }
                    if let Ok(Some(value)) = &value {
                        value_bytes += value.len() as u64;
                    }
                    found.push(value);
                }
            }
            if let Some(statistics) = statistics {
                statistics.record_tick(Ticker::NumberMultigetGet, 1);
                statistics.record_tick(Ticker::NumberMultigetKeysRead, keys.len() as u64);
                let found = found.iter().filter(|found| matches!(found, Ok(Some(_)))).count() as u64;
                statistics.record_tick(Ticker::NumberMultigetKeysFound, found);
                statistics.record_tick(Ticker::NumberMultigetBytesRead, value_bytes);
                statistics.record_in_histogram(HistogramKind::BytesPerMultiget, value_bytes);
            }
            found
        })
    }

    /// Looks a few keys up together.
    fn lookup_batch<K: AsRef<[u8]>>(
        &self,
        options: &ReadOptions,
        tables: &TableReadOptions,
        data: &ColumnFamilyData,
        super_version: &SuperVersion,
        sequence: SequenceNumber,
        keys: &[K],
    ) -> Vec<Result<Option<PinnedSlice>>> {
        let lookups: Vec<LookupKey> = keys.iter().map(|key| LookupKey::new(key.as_ref(), sequence)).collect();
        let operator = super_version.options.merge_operator.as_deref();
        let mut batch: Vec<_> = keys
            .iter()
            .zip(&lookups)
            .map(|(key, lookup)| BatchedLookup {
                lookup: lookup.encoded(),
                sink: GetContext::new(key.as_ref(), operator, LookupMode::Value)
                    .ignoring_range_tombstones(options.ignore_range_deletions),
                level: None,
            })
            .collect();
        let skip_memtables = options.read_tier == ReadTier::Persisted && self.has_unlogged_data.load(Ordering::Acquire);
        if !skip_memtables {
            for memtable in std::iter::once(&super_version.mem).chain(&super_version.imm) {
                for entry in batch.iter_mut().filter(|entry| !entry.sink.is_done()) {
                    get_from_memtable(memtable, entry.lookup, &mut entry.sink);
                }
            }
            if let Some(statistics) = self.statistics.as_ref() {
                let hits = batch.iter().filter(|entry| entry.sink.is_done()).count() as u64;
                statistics.record_tick(Ticker::MemtableHit, hits);
                statistics.record_tick(Ticker::MemtableMiss, batch.len() as u64 - hits);
            }
        }
        if options.read_tier != ReadTier::Memtable {
            super_version.version.multi_get(&**data.tables(), tables, &mut batch);
        }
        let statistics = self.statistics.as_deref();
        let finish = |entry: BatchedLookup<'_, GetContext<'_>>| {
            if let Some(statistics) = statistics {
                count_hit(statistics, entry.level, &entry.sink);
            }
            let found = entry.sink.finish();
            if let Some(statistics) = statistics {
                count_merge_failure(statistics, &found);
            }
            found
        };
        batch.into_iter().map(finish).collect()
    }

    /// Whether `key` may exist, from memory alone.
    pub(crate) fn key_may_exist(&self, options: &ReadOptions, data: &ColumnFamilyData, key: &[u8]) -> bool {
        let options = ReadOptions { read_tier: ReadTier::BlockCache, ..options.clone() };
        match self.get(&options, data, key) {
            Ok(found) => found.is_some(),
            Err(error) => error.kind() == ErrorKind::Incomplete,
        }
    }
}
