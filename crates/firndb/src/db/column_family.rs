//! Column families as the database keeps them: what never changes, what readers load, what the mutex guards.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use firn_env::sync::atomic::{AtomicBool, Ordering};
use firn_env::sync::{Mutex, RwLock};
use firn_error::{Error, Result};
use firn_format::comparator::InternalKeyComparator;
use firn_format::key::SequenceNumber;

use super::pace::FlushPace;
use super::super_version::{SuperVersion, SuperVersionCell};
use super::workers::Failures;
use crate::memtable::{MemTable, MemTableConfig, PrefixFilterConfig};
use crate::options::ColumnFamilyOptions;
use crate::stats::ColumnFamilyStats;
use crate::version::{FamilyTables, Version};
use crate::write::controller::{
    CfStall, StallFacts, StallOptions, WriteController, WriteStallCause, WriteStallCondition,
};

/// One column family: everything that may be looked at without the database mutex.
pub(crate) struct ColumnFamilyData {
    /// The id that WALs and the MANIFEST know it by.
    pub(crate) id: u32,
    /// The name that users know it by.
    pub(crate) name: String,
    /// The database that it belongs to; see [`DbInner::instance`](super::DbInner).
    pub(crate) owner: u64,
    /// The order of its keys.
    pub(crate) comparator: InternalKeyComparator,
    /// Where its tables lie, by path id.
    pub(crate) table_dirs: Vec<PathBuf>,
    /// Its open tables.
    tables: Arc<FamilyTables>,
    /// What readers see.
    pub(crate) super_version: SuperVersionCell,
    options: RwLock<Arc<ColumnFamilyOptions>>,
    /// `disallow_memtable_writes`.
    takes_only_files: bool,
    dropped: AtomicBool,
    /// How fast writers go while its memtables are flushed.
    pub(crate) flush_pace: FlushPace,
    /// What flushes, compactions and stalls did.
    pub(crate) stats: Mutex<ColumnFamilyStats>,
}

impl ColumnFamilyData {
    /// Its open tables.
    #[inline]
    pub(crate) fn tables(&self) -> &Arc<FamilyTables> {
        &self.tables
    }

    /// The options in force.
    pub(crate) fn options(&self) -> Arc<ColumnFamilyOptions> {
        Arc::clone(&self.options.read())
    }

    /// Replaces the options; takes effect for readers with the next super version.
    pub(crate) fn set_options(&self, options: Arc<ColumnFamilyOptions>) {
        *self.options.write() = options;
    }

    /// Whether it was dropped. Its handles stay readable.
    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    /// Raised when it is dropped.
    pub(crate) fn dropped_flag(&self) -> &AtomicBool {
        &self.dropped
    }

    /// Marks it dropped.
    pub(crate) fn set_dropped(&self) {
        self.dropped.store(true, Ordering::Release);
    }

    /// Refuses a column family that takes no writes: a dropped one, or one that takes only external files
    /// (`disallow_memtable_writes`).
    #[inline]
    pub(crate) fn check_takes_writes(&self) -> Result<()> {
        if self.takes_only_files {
            return Err(Error::invalid_argument(format!(
                "column family {:?} has disallow_memtable_writes and takes only ingested files",
                self.name
            )));
        }
        self.check_live()
    }

    /// Refuses a dropped column family.
    pub(crate) fn check_live(&self) -> Result<()> {
        if self.is_dropped() {
            return Err(Error::column_family_dropped(format!("column family {:?} was dropped", self.name)));
        }
        Ok(())
    }
}

/// The memtables and marks of one column family; guarded by the database mutex.
pub(crate) struct FamilyState {
    /// The part that needs no mutex.
    pub(crate) data: Arc<ColumnFamilyData>,
    /// The memtable that takes writes. Replaced only by whoever also leads the write queue.
    pub(crate) mem: Arc<MemTable>,
    /// Memtables that wait for their flush, newest first.
    pub(crate) imm: Vec<Arc<MemTable>>,
    /// How many of the oldest `imm` a running flush has taken.
    pub(crate) flushing: usize,
    /// Flushes of it that listeners are still being told of.
    pub(crate) reporting: usize,
    /// Whether a flush of several families together has claimed it: no other takes its memtables.
    pub(crate) in_group: bool,
    /// Flushes that failed without a background error.
    pub(crate) failed_flushes: Failures,
    /// Whether somebody asked for a flush whatever the number of memtables.
    pub(crate) flush_requested: bool,
    /// Whether a flush request of this family is queued.
    pub(crate) queued_for_flush: bool,
    /// Whether the family is queued for a compaction.
    pub(crate) queued_for_compaction: bool,
    /// What the family demands of writers.
    stall: CfStall,
    /// What the stall condition was last computed from.
    pub(crate) stall_facts: StallFacts,
    next_mem_id: u64,
    next_super_version: u64,
}

impl FamilyState {
    /// The state of a family that holds `version` and nothing in memory.
    pub(crate) fn new(
        identity: FamilyIdentity,
        options: Arc<ColumnFamilyOptions>,
        tables: Arc<FamilyTables>,
        version: Arc<Version>,
        earliest: SequenceNumber,
        controller: &Arc<WriteController>,
    ) -> Self {
        let comparator = InternalKeyComparator::new(Arc::clone(&options.comparator));
        let mem = Arc::new(MemTable::new(comparator.clone(), &memtable_config(&options, &[]), earliest, 1));
        let first =
            SuperVersion { mem: Arc::clone(&mem), imm: Vec::new(), version, options: Arc::clone(&options), number: 1 };
        let data = ColumnFamilyData {
            id: identity.id,
            name: identity.name,
            owner: identity.owner,
            comparator,
            tables,
            table_dirs: identity.table_dirs,
            super_version: SuperVersionCell::new(Arc::new(first)),
            stats: Mutex::new(ColumnFamilyStats::new(
                usize::try_from(options.num_levels).unwrap_or(1),
                identity.opened_micros,
            )),
            takes_only_files: options.disallow_memtable_writes,
            options: RwLock::new(options),
            dropped: AtomicBool::new(false),
            flush_pace: FlushPace::default(),
        };
        Self {
            data: Arc::new(data),
            mem,
            imm: Vec::new(),
            flushing: 0,
            reporting: 0,
            in_group: false,
            failed_flushes: Failures::default(),
            flush_requested: false,
            queued_for_flush: false,
            queued_for_compaction: false,
            stall: CfStall::new(Arc::clone(controller)),
            stall_facts: StallFacts::default(),
            next_mem_id: 2,
            next_super_version: 2,
        }
    }

    /// Freezes the memtable and puts an empty one in its place; the WALs from `next_log_number` on hold what comes next.
    pub(crate) fn switch_memtable(&mut self, earliest: SequenceNumber, next_log_number: u64) {
        let fresh = self.new_memtable(earliest);
        let full = std::mem::replace(&mut self.mem, fresh);
        full.set_next_log_number(next_log_number);
        self.imm.insert(0, full);
    }

    /// An empty memtable with the next id, laid out for keys like those of the current one.
    pub(crate) fn new_memtable(&mut self, earliest: SequenceNumber) -> Arc<MemTable> {
        let id = self.next_mem_id;
        self.next_mem_id += 1;
        let config = memtable_config(&self.data.options(), &self.mem.common_stem());
        Arc::new(MemTable::new(self.data.comparator.clone(), &config, earliest, id))
    }

    /// Memtables that no flush has taken yet.
    pub(crate) fn unflushed(&self) -> usize {
        self.imm.len() - self.flushing
    }

    /// Whether a flush is due: asked for, or enough memtables wait.
    pub(crate) fn is_flush_pending(&self) -> bool {
        let enough = usize::try_from(self.data.options().min_write_buffer_number_to_merge).unwrap_or(1).max(1);
        self.unflushed() > 0 && (self.flush_requested || self.unflushed() >= enough)
    }

    /// Tells the pace of writers whether memtables are to be flushed or being flushed, and returns it.
    pub(crate) fn tell_pace(&self) -> bool {
        let under_way = self.flushing > 0 || self.is_flush_pending();
        self.data.flush_pace.set_under_way(under_way);
        under_way
    }

    /// Whether nothing lies in memory.
    pub(crate) fn is_empty(&self) -> bool {
        self.mem.is_empty() && self.imm.is_empty()
    }

    /// What the family demands of writers now.
    pub(crate) fn stall_condition(&self) -> WriteStallCondition {
        self.stall.condition()
    }

    /// Evaluates the stall condition anew.
    pub(crate) fn recalculate_stall(&mut self, facts: StallFacts) -> WriteStallCondition {
        self.stall_facts = facts;
        let condition = self.stall.recalculate(&facts, &stall_options(&self.data.options()));
        self.count_stall(condition);
        condition
    }

    /// Counts what an evaluation of the stall condition found.
    fn count_stall(&self, condition: WriteStallCondition) {
        use WriteStallCause as Cause;
        use WriteStallCondition::{Delayed, Stopped};
        if condition == WriteStallCondition::Normal {
            return;
        }
        let stalls = &mut self.data.stats.lock().stalls;
        let counter = match (condition, self.stall.cause()) {
            (Delayed, Cause::MemtableLimit) => &mut stalls.memtable_delays,
            (Stopped, Cause::MemtableLimit) => &mut stalls.memtable_stops,
            (Delayed, Cause::L0FileCountLimit) => &mut stalls.l0_delays,
            (Stopped, Cause::L0FileCountLimit) => &mut stalls.l0_stops,
            (Delayed, Cause::PendingCompactionBytes) => &mut stalls.pending_compaction_bytes_delays,
            (Stopped, Cause::PendingCompactionBytes) => &mut stalls.pending_compaction_bytes_stops,
            _ => return,
        };
        *counter += 1;
    }

    /// Makes memtables and `version` what readers see. The returned super versions are to be dropped without locks.
    pub(crate) fn install(&mut self, version: Arc<Version>) -> Vec<Arc<SuperVersion>> {
        let number = self.next_super_version;
        self.next_super_version += 1;
        self.data.super_version.install(Arc::new(SuperVersion {
            mem: Arc::clone(&self.mem),
            imm: self.imm.clone(),
            version,
            options: self.data.options(),
            number,
        }))
    }
}

/// What names a column family.
pub(crate) struct FamilyIdentity {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) owner: u64,
    pub(crate) table_dirs: Vec<PathBuf>,
    /// When it was opened, in microseconds since the epoch.
    pub(crate) opened_micros: u64,
}

/// The options of a family that decide about stalls.
pub(crate) fn stall_options(options: &ColumnFamilyOptions) -> StallOptions {
    StallOptions {
        max_write_buffer_number: options.max_write_buffer_number,
        min_write_buffer_number_to_merge: options.min_write_buffer_number_to_merge,
        level0_file_num_compaction_trigger: options.level0_file_num_compaction_trigger,
        level0_slowdown_writes_trigger: options.level0_slowdown_writes_trigger,
        level0_stop_writes_trigger: options.level0_stop_writes_trigger,
        soft_pending_compaction_bytes_limit: options.soft_pending_compaction_bytes_limit,
        hard_pending_compaction_bytes_limit: options.hard_pending_compaction_bytes_limit,
        max_bytes_for_level_base: options.max_bytes_for_level_base,
        disable_auto_compactions: options.disable_auto_compactions,
    }
}

fn memtable_config(options: &ColumnFamilyOptions, key_stem: &[u8]) -> MemTableConfig {
    let mut config = MemTableConfig::new(options.write_buffer_size);
    config.arena_block_bytes = options.arena_block_size;
    config.max_range_deletions = u64::from(options.memtable_max_range_deletions);
    config.key_stem = key_stem.to_vec();
    config.reserved_page_bytes = options.memtable_huge_page_size;
    // The ratio is sanitized to [0, 0.25].
    let filter_bytes = (options.write_buffer_size as f64 * options.memtable_prefix_bloom_size_ratio) as usize;
    if filter_bytes > 0 {
        if options.memtable_whole_key_filtering {
            config.filter_bytes = filter_bytes;
            config.filter_requested = true;
        }
        config.prefix_filter = options
            .prefix_extractor
            .as_ref()
            .map(|extractor| PrefixFilterConfig { extractor: Arc::clone(extractor), bytes: filter_bytes });
    }
    config.protection_bytes = options.memtable_protection_bytes_per_key as usize;
    config.check_key_order = options.paranoid_memory_checks;
    config
}

/// The open column families by id and by name, for lookups that do not hold the database mutex.
#[derive(Default)]
pub(crate) struct FamilyRegistry {
    by_name: RwLock<HashMap<String, Arc<ColumnFamilyData>>>,
    /// By ascending id; replaced as a whole.
    order: Mutex<Arc<Vec<Arc<ColumnFamilyData>>>>,
}

impl FamilyRegistry {
    /// Adds a family.
    pub(crate) fn add(&self, data: &Arc<ColumnFamilyData>) {
        self.by_name.write().insert(data.name.clone(), Arc::clone(data));
        let mut order = self.order.lock();
        let order = Arc::make_mut(&mut order);
        order.push(Arc::clone(data));
        order.sort_by_key(|data| data.id);
    }

    /// Removes a dropped family.
    pub(crate) fn remove(&self, data: &ColumnFamilyData) {
        let mut by_name = self.by_name.write();
        if by_name.get(&data.name).is_some_and(|found| found.id == data.id) {
            by_name.remove(&data.name);
        }
        Arc::make_mut(&mut self.order.lock()).retain(|other| other.id != data.id);
    }

    /// The family called `name`.
    pub(crate) fn by_name(&self, name: &str) -> Option<Arc<ColumnFamilyData>> {
        self.by_name.read().get(name).cloned()
    }

    /// All families by ascending id.
    pub(crate) fn all(&self) -> Vec<Arc<ColumnFamilyData>> {
        self.sorted().to_vec()
    }

    /// The same, shared: for those who look up some of them.
    pub(crate) fn sorted(&self) -> Arc<Vec<Arc<ColumnFamilyData>>> {
        Arc::clone(&self.order.lock())
    }
}
