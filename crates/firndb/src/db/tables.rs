//! The open tables of all column families, found by family id.
//!
//! The version room asks for the numbers of a file by its description alone; this directory knows which family's
//! [`FamilyTables`] opens it.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_env::sync::RwLock;
use firn_env::{AccessPattern, FileOptions, FileSystem};
use firn_error::{Error, ErrorKind, Result};
use firn_table::cache::CacheOptions;
use firn_table::{BlockCache, TableReaderOptions};

use crate::options::{BlockBasedTableOptions, ColumnFamilyOptions, DbOptions, TableFactory};
use crate::stats::Statistics;
use crate::version::{
    FamilySpec, FamilyTables, FamilyTablesOptions, FileMetaData, FileStats, FileStatsLoader, OpenPolicy, OpenTables,
    ReadLatencies, TableSource, VersionSet,
};

/// Which tables belong to which family. Thread-safe.
pub(crate) struct Tables {
    /// Which of them are open.
    open: Arc<OpenTables>,
    families: RwLock<BTreeMap<u32, Arc<FamilyTables>>>,
}

impl Tables {
    /// No families; `options` limit the open tables of all families together.
    pub(crate) fn new(options: &DbOptions) -> Self {
        let shard_bits = u32::try_from(options.table_cache_numshardbits).unwrap_or(0);
        Self { open: Arc::new(OpenTables::new(options.max_open_files, shard_bits)), families: RwLock::default() }
    }

    /// Changes how many tables may be open.
    pub(crate) fn set_max_open_files(&self, max_open_files: i32) {
        self.open.set_max_open_files(max_open_files);
    }

    /// Tells how the tables of family `id` are opened from now on.
    #[expect(clippy::too_many_arguments, reason = "all of it describes one family")]
    pub(crate) fn set_family(
        &self,
        id: u32,
        spec: FamilySpec,
        cf: &ColumnFamilyOptions,
        db: &DbOptions,
        fs: &Arc<dyn FileSystem>,
        db_path: &std::path::Path,
        session_id: &str,
    ) -> Arc<FamilyTables> {
        let measured = |statistics: &Arc<Statistics>| {
            Arc::new(ReadLatencies::new(Arc::clone(db.env.clock()), Arc::clone(statistics), spec.num_levels))
        };
        let latencies = db.statistics.as_ref().map(measured);
        let access_pattern = if db.advise_random_on_open { AccessPattern::Random } else { AccessPattern::Normal };
        let family = Arc::new(FamilyTables::new(FamilyTablesOptions {
            fs: Arc::clone(fs),
            file_options: FileOptions {
                use_direct_reads: db.use_direct_reads,
                use_mmap_reads: db.allow_mmap_reads,
                access_pattern,
                ..FileOptions::default()
            },
            db_path: db_path.to_path_buf(),
            reader: TableReaderOptions { statistics: db.statistics.clone(), ..reader_options(&spec, cf, session_id) },
            spec,
            open: Arc::clone(&self.open),
            latencies,
            verify_sst_unique_id_in_manifest: db.verify_sst_unique_id_in_manifest,
        }));
        self.families.write().insert(id, Arc::clone(&family));
        family
    }

    /// The tables of family `id`, also after it was dropped: its files become obsolete later.
    pub(crate) fn family(&self, id: u32) -> Result<Arc<FamilyTables>> {
        let found = self.families.read().get(&id).cloned();
        found.ok_or_else(|| Error::invalid_argument(format!("column family {id} is not open")))
    }

    /// Opens tables ahead of their first use: all of them without a limit of open files, some with one.
    ///
    /// # Errors
    /// What opening a table reports; damage only with `paranoid_checks`.
    pub(crate) fn preload(&self, versions: &VersionSet, options: &DbOptions) -> Result<()> {
        let mut left = usize::try_from(options.max_open_files).map_or(usize::MAX, |limit| (limit / 4).min(16));
        for family in versions.families() {
            let tables = self.family(family.id())?;
            for (_, file) in family.current().all_files().take(left) {
                left -= 1;
                match tables.open(file, OpenPolicy::MayOpen) {
                    Err(error) if options.paranoid_checks || error.kind() == ErrorKind::NotSupported => {
                        return Err(error);
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

impl FileStatsLoader for Tables {
    fn load(&self, file: &FileMetaData) -> Option<FileStats> {
        self.family(file.column_family()).ok()?.load(file)
    }
}

/// The capacity in bytes of the block cache that a column family gets when its options name none.
const DEFAULT_BLOCK_CACHE_BYTES: usize = 32 << 20;

fn reader_options(spec: &FamilySpec, cf: &ColumnFamilyOptions, session_id: &str) -> TableReaderOptions {
    let table = match &cf.table_factory {
        TableFactory::BlockBased(table) => table.clone(),
        TableFactory::Plain(_) | TableFactory::Cuckoo(_) => BlockBasedTableOptions::default(),
    };
    let block_cache = match &table.block_cache {
        _ if table.no_block_cache => None,
        Some(cache) => Some(Arc::clone(cache)),
        None => Some(Arc::new(BlockCache::new(&CacheOptions::new(DEFAULT_BLOCK_CACHE_BYTES)))),
    };
    TableReaderOptions {
        comparator: spec.order.clone(),
        prefix_extractor: cf.prefix_extractor.clone(),
        block_cache,
        table,
        max_flushed_file_bytes: (cf.write_buffer_size as u64).saturating_mul(3) / 2,
        session_id: session_id.to_owned(),
        block_protection_bytes_per_key: cf.block_protection_bytes_per_key,
        ..TableReaderOptions::default()
    }
}
