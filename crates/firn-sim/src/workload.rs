//! Random workloads: options and steps drawn from a seed.
//!
//! Always true here: a workload is valid (single deletes follow exactly one put, families are used while they exist, options
//! do not contradict each other), so every error of a run without faults is the database's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firn_env::{Env, NullLogger};
use firn_format::compression::CompressionType;
use firndb::merge::StringAppendOperator;
use firndb::options::{CompactionStyle, FilterPolicy, WalRecoveryMode};
use firndb::slice_transform::FixedPrefix;
use firndb::{ColumnFamilyOptions, DbOptions};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// Tells families apart, those of the same name too; 0 is the default family.
pub type FamilyId = usize;

/// One record of a batch.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the fields are named after what they are")]
pub enum Record {
    /// Sets a value.
    Put { family: FamilyId, key: Vec<u8>, value: Vec<u8> },
    /// Removes a key.
    Delete { family: FamilyId, key: Vec<u8> },
    /// Removes a key that was put once.
    SingleDelete { family: FamilyId, key: Vec<u8> },
    /// Removes keys from `begin` to before `end`.
    DeleteRange { family: FamilyId, begin: Vec<u8>, end: Vec<u8> },
    /// Appends to a value.
    Merge { family: FamilyId, key: Vec<u8>, operand: Vec<u8> },
    /// Fills a new family with all that another one has.
    Import { family: FamilyId, from: FamilyId },
}

impl Record {
    /// The family it is about.
    pub fn family(&self) -> FamilyId {
        match self {
            Self::Put { family, .. }
            | Self::Delete { family, .. }
            | Self::SingleDelete { family, .. }
            | Self::DeleteRange { family, .. }
            | Self::Merge { family, .. }
            | Self::Import { family, .. } => *family,
        }
    }
}

/// How an external file gets into the database's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// Its bytes are copied.
    Copy,
    /// It is linked and then loses its old name.
    Move,
    /// It is linked.
    Link,
}

/// A table that is written outside the database.
#[derive(Clone, Debug)]
pub struct ExternalFile {
    /// The family that gets it.
    pub family: FamilyId,
    /// Range deletions first, which take nothing from the same file; then the others by their keys.
    pub records: Vec<Record>,
}

/// External tables that become part of the database, all or none.
#[derive(Clone, Debug)]
pub struct Ingestion {
    /// Tells the files of a run apart.
    pub number: u64,
    /// The tables; where those of a family overlap, a later one is newer.
    pub files: Vec<ExternalFile>,
    /// How they get there.
    pub transfer: Transfer,
    /// Whether their sequence number is written into them.
    pub write_sequence: bool,
}

/// A new family that is made of the exported tables of another one.
#[derive(Clone, Debug)]
pub struct Import {
    /// Tells the exported directories of a run apart.
    pub number: u64,
    /// The family that is exported.
    pub from: FamilyId,
    /// The new family.
    pub family: FamilyId,
    /// Its name.
    pub name: String,
    /// Whether the exported tables are moved.
    pub move_files: bool,
    /// What this does to the new family.
    pub record: Record,
}

/// One call of the database.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the fields are named after what they are")]
pub enum Step {
    /// A batch.
    Write { records: Vec<Record>, sync: bool },
    /// External tables.
    Ingest(Ingestion),
    /// Memtables to tables.
    Flush { families: Vec<FamilyId>, wait: bool },
    /// Everything to the last level.
    Compact { family: FamilyId },
    /// Some tables of one level to the next; `pick` says which.
    CompactFiles { family: FamilyId, pick: usize },
    /// The WAL's buffer to the system, or to the disk.
    FlushWal { sync: bool },
    /// A new family; names are used again.
    CreateFamily { family: FamilyId, name: String },
    /// A new family with the contents of another one.
    Import(Import),
    /// A family goes.
    DropFamily { family: FamilyId },
    /// An option of a family changes.
    SetOptions { family: FamilyId, name: &'static str, value: &'static str },
    /// A copy of the database, after a flush if its WALs have so many bytes.
    Checkpoint { number: u64, log_size_for_flush: u64 },
    /// So many background jobs run.
    Work { jobs: usize },
    /// Background work runs until none is due.
    WaitForCompact,
    /// Close and open.
    Reopen,
}

impl Step {
    /// What it writes, in order; nothing for steps that are no writes.
    pub fn records(&self) -> Vec<&Record> {
        match self {
            Self::Write { records, .. } => records.iter().collect(),
            Self::Ingest(ingestion) => ingestion.files.iter().flat_map(|file| &file.records).collect(),
            Self::Import(import) => vec![&import.record],
            _ => Vec::new(),
        }
    }

    /// Whether all families that it needs are among those of which `exists` is true.
    pub fn is_possible(&self, exists: impl Fn(&FamilyId) -> bool) -> bool {
        match self {
            Self::Flush { families, .. } => families.iter().all(exists),
            Self::Compact { family }
            | Self::CompactFiles { family, .. }
            | Self::DropFamily { family }
            | Self::SetOptions { family, .. } => exists(family),
            Self::Import(import) => exists(&import.from),
            _ => self.records().iter().all(|record| exists(&record.family())),
        }
    }
}

/// Whether writes go to the WAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logging {
    /// All do.
    All,
    /// None do.
    None,
}

/// The options of a workload's database, those that matter for what survives.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Whether writes go to the WAL.
    pub logging: Logging,
    /// Obsolete WALs that are used again.
    pub recycle: usize,
    /// Whether records wait in a buffer.
    pub manual_wal_flush: bool,
    /// Whether replayed data stays in memtables.
    pub avoid_flush_during_recovery: bool,
    /// Whether closing leaves unlogged data behind.
    pub avoid_flush_during_shutdown: bool,
    /// Whether families are flushed together.
    pub atomic_flush: bool,
    /// Whether the MANIFEST knows synced WALs.
    pub track_wals_in_manifest: bool,
    /// Whether WALs know their predecessors.
    pub verify_wals: bool,
    /// Whether WAL records are compressed.
    pub wal_compression: bool,
    /// Whether the MANIFEST is rewritten often.
    pub small_manifest: bool,
    /// Whether WALs lie elsewhere.
    pub wal_dir: bool,
    /// Whether obsolete WALs are kept for a while.
    pub archive: bool,
    /// Whether WALs are mapped; the buffered writer otherwise.
    pub mapped_wal: bool,
    /// Whether syncs are `fsync`.
    pub use_fsync: bool,
    /// Whether compactions are universal.
    pub universal: bool,
    /// Tables of level 0 that start a compaction.
    pub level0_trigger: i32,
    /// Bytes of a table.
    pub target_file_size: u64,
    /// Bytes of all WALs that force flushes; 0 is the default.
    pub max_total_wal_size: u64,
    /// Whether memtables wait for each other before they are flushed.
    pub merge_memtables: bool,
    /// Bytes of the prefixes that tables have filters for; 0 is none.
    pub prefix_bytes: usize,
}

impl Setup {
    fn draw(rng: &mut StdRng) -> Self {
        let logging = if rng.random_bool(0.15) { Logging::None } else { Logging::All };
        let archive = rng.random_bool(0.1);
        let recycle =
            if logging == Logging::All && !archive && rng.random_bool(0.35) { rng.random_range(1..4) } else { 0 };
        Self {
            logging,
            recycle,
            manual_wal_flush: rng.random_bool(0.2),
            avoid_flush_during_recovery: rng.random_bool(0.3),
            avoid_flush_during_shutdown: logging == Logging::All && rng.random_bool(0.3),
            atomic_flush: rng.random_bool(if logging == Logging::None { 0.7 } else { 0.2 }),
            track_wals_in_manifest: rng.random_bool(0.2),
            verify_wals: recycle == 0 && rng.random_bool(0.2),
            wal_compression: rng.random_bool(0.15),
            small_manifest: rng.random_bool(0.2),
            wal_dir: rng.random_bool(0.15),
            archive,
            mapped_wal: rng.random_bool(0.7),
            use_fsync: rng.random_bool(0.1),
            universal: rng.random_bool(0.15),
            level0_trigger: *[2, 3, 4].choose(rng).unwrap_or(&4),
            target_file_size: *[4_000, 20_000, 1 << 20].choose(rng).unwrap_or(&20_000),
            max_total_wal_size: *[0, 0, 30_000].choose(rng).unwrap_or(&0),
            merge_memtables: rng.random_bool(0.15),
            prefix_bytes: 0,
        }
    }

    /// The database's options under a recovery mode.
    pub fn db_options(&self, env: Env, mode: WalRecoveryMode) -> DbOptions {
        DbOptions {
            env,
            create_if_missing: true,
            info_log: Some(Arc::new(NullLogger)),
            wal_recovery_mode: mode,
            recycle_log_file_num: self.recycle,
            manual_wal_flush: self.manual_wal_flush,
            avoid_flush_during_recovery: self.avoid_flush_during_recovery,
            avoid_flush_during_shutdown: self.avoid_flush_during_shutdown,
            atomic_flush: self.atomic_flush,
            track_and_verify_wals_in_manifest: self.track_wals_in_manifest,
            track_and_verify_wals: self.verify_wals,
            wal_compression: if self.wal_compression { CompressionType::Zstd } else { CompressionType::None },
            max_manifest_file_size: if self.small_manifest { 1000 } else { 1 << 30 },
            max_manifest_space_amp_pct: if self.small_manifest { 0 } else { 500 },
            wal_dir: if self.wal_dir { "/wal".to_owned() } else { String::new() },
            wal_ttl_seconds: if self.archive { 1000 } else { 0 },
            allow_fallocate: self.mapped_wal,
            use_fsync: self.use_fsync,
            max_total_wal_size: self.max_total_wal_size,
            max_background_jobs: 2,
            ..DbOptions::default()
        }
    }

    /// The options of each family.
    pub fn family_options(&self) -> ColumnFamilyOptions {
        let mut options = ColumnFamilyOptions {
            write_buffer_size: 64 << 10,
            max_write_buffer_number: 8,
            min_write_buffer_number_to_merge: if self.merge_memtables { 2 } else { 1 },
            level0_file_num_compaction_trigger: self.level0_trigger,
            target_file_size_base: self.target_file_size,
            max_bytes_for_level_base: 40_000,
            compaction_style: if self.universal { CompactionStyle::Universal } else { CompactionStyle::Level },
            merge_operator: Some(Arc::new(StringAppendOperator::new(","))),
            compression: CompressionType::None,
            prefix_extractor: (self.prefix_bytes > 0).then(|| Arc::new(FixedPrefix::new(self.prefix_bytes)) as _),
            ..ColumnFamilyOptions::default()
        };
        if let Some(table) = options.table_factory.block_based_mut() {
            // Images of one moment hold different files under the same names: nothing may be shared between opens.
            table.no_block_cache = true;
            table.block_cache = None;
            table.block_size = 1000;
            table.filter_policy = (self.prefix_bytes > 0).then(|| FilterPolicy::bloom(10.0));
        }
        options
    }
}

/// Options and steps.
#[derive(Clone, Debug)]
pub struct Workload {
    /// What it was drawn from.
    pub seed: u64,
    /// The options.
    pub setup: Setup,
    /// The calls, in order.
    pub steps: Vec<Step>,
}

impl Workload {
    /// The steps that write, in order.
    pub fn writes(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|step| matches!(step, Step::Write { .. } | Step::Ingest(_) | Step::Import(_)))
    }

    /// The workload of a seed, with so many steps.
    pub fn draw(seed: u64, steps: usize) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut setup = Setup::draw(&mut rng);
        // From a source of its own, so that a seed stands for the steps that it always stood for.
        let prefixes = &mut StdRng::seed_from_u64(!seed);
        setup.prefix_bytes = *[0, 0, 1, 2].choose(prefixes).unwrap_or(&0);
        let mut drawer = Drawer {
            rng,
            logging: setup.logging,
            sync_chance: 0.0,
            live: BTreeMap::from([(0, "default".to_owned())]),
            next_family: 1,
            once: BTreeSet::new(),
            written: 0,
            outside: 0,
        };
        drawer.sync_chance = *[0.0, 0.1, 0.4, 1.0].choose(&mut drawer.rng).unwrap_or(&0.1);
        let steps = (0..steps).map(|_| drawer.step()).collect();
        Self { seed, setup, steps }
    }
}

struct Drawer {
    rng: StdRng,
    logging: Logging,
    sync_chance: f64,
    live: BTreeMap<FamilyId, String>,
    next_family: FamilyId,
    /// Keys that were put once since they did not exist, for single deletes.
    once: BTreeSet<(FamilyId, Vec<u8>)>,
    /// Counts values, so that no two are alike.
    written: u64,
    /// Counts what lies outside the database: external files and checkpoints.
    outside: u64,
}

/// Keys that batches write end before this number, those of external files may lie behind it.
const NUMBERS_OF_BATCHES: u64 = 30;

impl Drawer {
    fn step(&mut self) -> Step {
        match self.rng.random_range(0..100) {
            0..50 => self.write(),
            50..56 => self.ingest(),
            56..65 => {
                let all = self.rng.random_bool(0.3);
                let families = if all { self.live.keys().copied().collect() } else { vec![self.family()] };
                Step::Flush { families, wait: self.rng.random_bool(0.5) }
            }
            65..69 => Step::Compact { family: self.family() },
            69..71 => Step::CompactFiles { family: self.family(), pick: self.rng.random_range(0..100) },
            71..76 if self.logging == Logging::All => Step::FlushWal { sync: self.rng.random_bool(0.6) },
            76..80 if self.live.len() < 4 => {
                let family = self.next_family;
                self.next_family += 1;
                let name = (0..4).map(|i| format!("cf{i}")).find(|name| !self.live.values().any(|used| used == name));
                let name = name.unwrap_or_default();
                let step = if self.rng.random_bool(0.3) {
                    self.import(family, name.clone())
                } else {
                    Step::CreateFamily { family, name: name.clone() }
                };
                self.live.insert(family, name);
                step
            }
            80..83 if self.live.len() > 1 => {
                let family = self.live.keys().copied().skip(1).collect::<Vec<_>>().choose(&mut self.rng).copied();
                let family = family.unwrap_or_default();
                self.live.remove(&family);
                self.once.retain(|(id, _)| *id != family);
                Step::DropFamily { family }
            }
            83..85 => {
                let (name, value) = *[
                    ("level0_file_num_compaction_trigger", "2"),
                    ("target_file_size_base", "3000"),
                    ("disable_auto_compactions", "true"),
                    ("disable_auto_compactions", "false"),
                ]
                .choose(&mut self.rng)
                .unwrap_or(&("disable_auto_compactions", "false"));
                Step::SetOptions { family: self.family(), name, value }
            }
            85..91 => Step::Work { jobs: self.rng.random_range(1..3) },
            91..93 => Step::WaitForCompact,
            93..96 => Step::Reopen,
            96..100 => {
                // What is in no WAL gets into a checkpoint by a flush only.
                let sizes = if self.logging == Logging::All { &[0, 2_000, u64::MAX][..] } else { &[0] };
                let log_size_for_flush = sizes.choose(&mut self.rng).copied().unwrap_or(0);
                Step::Checkpoint { number: self.next_outside(), log_size_for_flush }
            }
            _ => self.write(),
        }
    }

    fn next_outside(&mut self) -> u64 {
        self.outside += 1;
        self.outside
    }

    fn import(&mut self, family: FamilyId, name: String) -> Step {
        let from = self.family();
        let once: Vec<_> =
            self.once.iter().filter(|(of, _)| *of == from).map(|(_, key)| (family, key.clone())).collect();
        self.once.extend(once);
        Step::Import(Import {
            number: self.next_outside(),
            from,
            family,
            name,
            move_files: self.rng.random_bool(0.5),
            record: Record::Import { family, from },
        })
    }

    fn ingest(&mut self) -> Step {
        let count = *[1, 1, 1, 2, 3].choose(&mut self.rng).unwrap_or(&1);
        let files = (0..count).map(|_| self.external_file()).collect();
        Step::Ingest(Ingestion {
            number: self.next_outside(),
            files,
            transfer: *[Transfer::Copy, Transfer::Move, Transfer::Link]
                .choose(&mut self.rng)
                .unwrap_or(&Transfer::Copy),
            write_sequence: self.rng.random_bool(0.2),
        })
    }

    fn external_file(&mut self) -> ExternalFile {
        let family = self.family();
        let first = self.rng.random_range(0..NUMBERS_OF_BATCHES + 20);
        let step = self.rng.random_range(1..4);
        let numbers = (first..).step_by(step).take(self.rng.random_range(1..8));
        let mut records = Vec::new();
        if self.rng.random_bool(0.2) {
            let (begin, end) = (first + 1, first + self.rng.random_range(2..9));
            let key = |number| format!("k{number:02}").into_bytes();
            records.push(Record::DeleteRange { family, begin: key(begin), end: key(end) });
        }
        for number in numbers {
            let key = format!("k{number:02}").into_bytes();
            if self.rng.random_bool(0.8) {
                records.push(Record::Put { family, key, value: self.value() });
            } else {
                records.push(Record::Delete { family, key });
            }
        }
        if self.rng.random_bool(0.3) {
            let key = format!("m{first:02}").into_bytes();
            records.push(Record::Merge { family, key, operand: format!("{}", self.next()).into_bytes() });
        }
        ExternalFile { family, records }
    }

    fn family(&mut self) -> FamilyId {
        let ids: Vec<FamilyId> = self.live.keys().copied().collect();
        ids.choose(&mut self.rng).copied().unwrap_or_default()
    }

    fn write(&mut self) -> Step {
        let count = match self.rng.random_range(0..20) {
            0..10 => 1,
            10..17 => self.rng.random_range(2..6),
            17..19 => self.rng.random_range(6..20),
            _ => 0,
        };
        let records = if count == 0 { self.append() } else { (0..count).map(|_| self.record()).collect() };
        let sync = self.logging == Logging::All && self.rng.random_bool(self.sync_chance);
        Step::Write { records, sync }
    }

    fn record(&mut self) -> Record {
        let family = self.family();
        let number = self.rng.random_range(0..NUMBERS_OF_BATCHES);
        let key = |prefix: char| format!("{prefix}{number:02}").into_bytes();
        match self.rng.random_range(0..20) {
            0..10 => Record::Put { family, key: key('k'), value: self.value() },
            10..12 => Record::Delete { family, key: key('k') },
            12..15 => {
                // A key of this kind is put once and then deleted once.
                let key = key('s');
                if self.once.remove(&(family, key.clone())) {
                    return Record::SingleDelete { family, key };
                }
                self.once.insert((family, key.clone()));
                Record::Put { family, key, value: self.value() }
            }
            15..16 => {
                let end = format!("k{:02}", number + self.rng.random_range(1..8)).into_bytes();
                Record::DeleteRange { family, begin: key('k'), end }
            }
            16..19 => Record::Merge { family, key: key('m'), operand: format!("{}", self.next()).into_bytes() },
            _ => Record::Delete { family, key: key('m') },
        }
    }

    /// New keys behind all that one of three streams has: what a flush may put on the last level.
    fn append(&mut self) -> Vec<Record> {
        let (family, stream) = (self.family(), self.rng.random_range(0..3));
        let records = (0..66).map(|_| {
            let key = format!("t{stream}{:06}", self.next()).into_bytes();
            Record::Put { family, key, value: self.value_of(250) }
        });
        records.collect()
    }

    fn next(&mut self) -> u64 {
        self.written += 1;
        self.written
    }

    fn value(&mut self) -> Vec<u8> {
        let bytes = match self.rng.random_range(0..40) {
            0..30 => self.rng.random_range(0..60),
            30..38 => self.rng.random_range(60..1500),
            38 => self.rng.random_range(4000..9000),
            _ => self.rng.random_range(30_000..36_000),
        };
        self.value_of(bytes)
    }

    fn value_of(&mut self, bytes: u64) -> Vec<u8> {
        let number = self.next();
        let mut value = format!("v{number}:").into_bytes();
        value.extend((0..bytes).map(|i| b'a' + ((i * 7 + i / 13 + number) % 26) as u8));
        value
    }
}
