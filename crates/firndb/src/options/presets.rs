//! Presets: several options at once for a purpose, with RocksDB's exact effects.

use firn_format::compression::CompressionType;
use firn_table::options::{BlockBasedTableOptions, DataBlockIndexType, FilterPolicy, IndexType, TableFactory};

use super::{ColumnFamilyOptions, CompactionPri, CompactionStyle, DbOptions, Options, WalRecoveryMode};

impl DbOptions {
    /// Uses `total_threads` background threads for flushes and compactions.
    pub fn increase_parallelism(&mut self, total_threads: i32) -> &mut Self {
        self.max_background_jobs = total_threads;
        self
    }

    /// Small caches and few files, for databases of up to about a gigabyte.
    pub fn optimize_for_small_db(&mut self) -> &mut Self {
        self.max_file_opening_threads = 1;
        self.max_open_files = 5000;
        self
    }

    /// The defaults of an older RocksDB.
    pub fn old_defaults(&mut self, major: u32, minor: u32) -> &mut Self {
        if (major, minor) < (4, 7) {
            self.max_file_opening_threads = 1;
            self.table_cache_numshardbits = 4;
        }
        if (major, minor) < (5, 2) {
            self.delayed_write_rate = 2 << 20;
        } else if (major, minor) < (5, 6) {
            self.delayed_write_rate = 16 << 20;
        }
        self.max_open_files = 5000;
        self.wal_recovery_mode = WalRecoveryMode::TolerateCorruptedTailRecords;
        self
    }
}

impl ColumnFamilyOptions {
    /// The options of block-based tables, made the format if they were not.
    pub fn block_based_mut(&mut self) -> &mut BlockBasedTableOptions {
        if self.table_factory.block_based().is_none() {
            self.table_factory = TableFactory::default();
        }
        match &mut self.table_factory {
            TableFactory::BlockBased(options) => options,
            // The format was made block-based just above.
            TableFactory::Plain(_) | TableFactory::Cuckoo(_) => unreachable!(),
        }
    }

    /// Whether compactions call a filter.
    pub fn has_compaction_filter(&self) -> bool {
        self.compaction_filter.is_some() || self.compaction_filter_factory.is_some()
    }

    /// Small memtables and files, for databases of up to about a gigabyte.
    pub fn optimize_for_small_db(&mut self) -> &mut Self {
        self.write_buffer_size = 2 << 20;
        self.target_file_size_base = 2 << 20;
        self.max_bytes_for_level_base = 10 << 20;
        self.soft_pending_compaction_bytes_limit = 256 << 20;
        self.hard_pending_compaction_bytes_limit = 1 << 30;
        let table = self.block_based_mut();
        table.cache_index_and_filter_blocks = true;
        table.index_type = IndexType::TwoLevelIndexSearch;
        self
    }

    /// Hash indexes and filters for point lookups. The block cache is set up by the caller.
    pub fn optimize_for_point_lookup(&mut self) -> &mut Self {
        let table = BlockBasedTableOptions {
            data_block_index_type: DataBlockIndexType::BinaryAndHash,
            data_block_hash_table_util_ratio: 0.75,
            filter_policy: Some(FilterPolicy::bloom(10.0)),
            ..BlockBasedTableOptions::default()
        };
        self.table_factory = TableFactory::BlockBased(table);
        self.memtable_prefix_bloom_size_ratio = 0.02;
        self.memtable_whole_key_filtering = true;
        self
    }

    /// Leveled compaction with memtables of `memtable_memory_budget` bytes altogether; 512 MiB is usual.
    pub fn optimize_level_style_compaction(&mut self, memtable_memory_budget: u64) -> &mut Self {
        self.write_buffer_size = usize::try_from(memtable_memory_budget / 4).unwrap_or(usize::MAX);
        self.min_write_buffer_number_to_merge = 2;
        self.max_write_buffer_number = 6;
        self.level0_file_num_compaction_trigger = 2;
        self.target_file_size_base = memtable_memory_budget / 8;
        self.max_bytes_for_level_base = memtable_memory_budget;
        self.compaction_style = CompactionStyle::Level;
        let levels = usize::try_from(self.num_levels).unwrap_or(0);
        self.compression_per_level = (0..levels)
            .map(|level| if level < 2 { CompressionType::None } else { CompressionType::default_for_options() })
            .collect();
        self
    }

    /// Universal compaction with memtables of `memtable_memory_budget` bytes altogether; 512 MiB is usual.
    pub fn optimize_universal_style_compaction(&mut self, memtable_memory_budget: u64) -> &mut Self {
        self.write_buffer_size = usize::try_from(memtable_memory_budget / 4).unwrap_or(usize::MAX);
        self.min_write_buffer_number_to_merge = 2;
        self.max_write_buffer_number = 6;
        self.compaction_style = CompactionStyle::Universal;
        self.compaction_options_universal.compression_size_percent = 80;
        self
    }

    /// The defaults of an older RocksDB.
    pub fn old_defaults(&mut self, major: u32, minor: u32) -> &mut Self {
        if (major, minor) <= (5, 18) {
            self.compaction_pri = CompactionPri::ByCompensatedSize;
        }
        if (major, minor) < (4, 7) {
            self.write_buffer_size = 4 << 20;
            self.target_file_size_base = 2 << 20;
            self.max_bytes_for_level_base = 10 << 20;
            self.soft_pending_compaction_bytes_limit = 0;
            self.hard_pending_compaction_bytes_limit = 0;
        }
        if (major, minor) < (5, 0) {
            self.level0_stop_writes_trigger = 24;
        } else if (major, minor) < (5, 2) {
            self.level0_stop_writes_trigger = 30;
        }
        self
    }
}

impl Options {
    /// Loads as fast as possible: no automatic compaction, no stalls; compact when done.
    pub fn prepare_for_bulk_load(&mut self) -> &mut Self {
        self.cf.level0_file_num_compaction_trigger = 1 << 30;
        self.cf.level0_slowdown_writes_trigger = 1 << 30;
        self.cf.level0_stop_writes_trigger = 1 << 30;
        self.cf.soft_pending_compaction_bytes_limit = 0;
        self.cf.hard_pending_compaction_bytes_limit = 0;
        self.cf.disable_auto_compactions = true;
        self.cf.max_compaction_bytes = 1 << 60;
        self.cf.num_levels = 2;
        self.cf.max_write_buffer_number = 6;
        self.cf.min_write_buffer_number_to_merge = 1;
        self.db.max_background_flushes = 4;
        self.db.max_background_compactions = 2;
        self.cf.target_file_size_base = 256 << 20;
        self
    }

    /// Small caches, memtables and files, for databases of up to about a gigabyte.
    pub fn optimize_for_small_db(&mut self) -> &mut Self {
        self.db.optimize_for_small_db();
        self.cf.optimize_for_small_db();
        self
    }

    /// Leaves out the checks of the tree's consistency on every change.
    pub fn disable_extra_checks(&mut self) -> &mut Self {
        self.cf.force_consistency_checks = false;
        self
    }

    /// The defaults of an older RocksDB.
    pub fn old_defaults(&mut self, major: u32, minor: u32) -> &mut Self {
        self.db.old_defaults(major, minor);
        self.cf.old_defaults(major, minor);
        self
    }

    /// Reads an option string `name=value;...` over default options: names of the database first, the others of the column
    /// family. All failures are `InvalidArgument`.
    pub fn from_string(text: &str) -> firn_format::Result<Self> {
        let mut options = Self::default();
        options.apply_string(text)?;
        Ok(options)
    }

    /// Reads an option string over the present options; on failure they are unchanged.
    pub fn apply_string(&mut self, text: &str) -> firn_format::Result<()> {
        use firn_format::options::{ConfigOptions, OptionSet};
        let config = ConfigOptions { input_strings_escaped: false, ..ConfigOptions::default() };
        let mut changed = self.clone();
        for (name, value) in firn_format::options_text::parse_map(text)? {
            let result = if DbOptions::knows(&name) {
                changed.db.set_text(&name, &value, &config)
            } else {
                changed.cf.set_text(&name, &value, &config)
            };
            result.map_err(|error| firn_format::Error::invalid_argument(error.message()))?;
        }
        *self = changed;
        Ok(())
    }
}
