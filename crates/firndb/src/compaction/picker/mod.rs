//! What to compact next: pure functions from a version, options and the time to a [`CompactionPlan`].
//!
//! Nothing here opens a file, takes a lock or changes anything: the caller holds the database mutex, asks for a plan, marks
//! its inputs busy ([`CompactionPlan::set_busy`]), runs it, and lets go of it. Each compaction style has its module; what they
//! share (overlaps, clean cuts, conflicts with running plans) is in `inputs`, scores and targets are in `score`.
//!
//! Always true of a plan: its input levels ascend, none of them is empty of files except where a deletion has one level
//! only, no input is part of another running plan, and the inputs of a level ≥ 1 are a clean cut (no neighbour shares a
//! boundary user key).

mod fifo;
mod incremental;
mod inputs;
mod leveled;
mod manual;
mod marking;
mod priority;
pub mod score;
mod settings;
mod universal;

#[cfg(test)]
mod simulation_tests;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use firn_format::compression::CompressionType;
use firn_format::key::InternalKey;

pub use inputs::PickerInput;
pub use manual::{
    ManualCompaction, ManualLevels, ManualStep, MayMove, RangeEnd, files_to_delete_in_range, files_to_promote,
    files_to_suggest, levels_to_push_down, manual_levels, next_manual_level, pick_files, pick_manual, refit_target,
};
pub use score::{LevelScores, LevelTargets};
pub use settings::{FilterUse, PickerOptions};

use crate::options::{CompactionStyle, Temperature};
use crate::version::{FileMetaData, Version};

/// Why a compaction runs. The discriminants are RocksDB's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CompactionReason {
    /// No reason was given.
    #[default]
    Unknown = 0,
    /// Level 0 has too many files.
    LevelL0FilesNum = 1,
    /// A level is larger than its target.
    LevelMaxLevelSize = 2,
    /// Universal: the older data is small beside the newer.
    UniversalSizeAmplification = 3,
    /// Universal: neighbouring runs are of similar size.
    UniversalSizeRatio = 4,
    /// Universal: there are too many runs.
    UniversalSortedRunNum = 5,
    /// FIFO: the files together are too large.
    FifoMaxSize = 6,
    /// FIFO: small files are merged.
    FifoReduceNumFiles = 7,
    /// FIFO: files are too old.
    FifoTtl = 8,
    /// A caller asked for it.
    ManualCompaction = 9,
    /// Files were marked by a collector or by a caller.
    FilesMarkedForCompaction = 10,
    /// Files of the bottommost level hold what no snapshot needs any more.
    BottommostFiles = 11,
    /// Files outlived `ttl`.
    Ttl = 12,
    /// A flush.
    Flush = 13,
    /// The ingestion of external files.
    ExternalSstIngestion = 14,
    /// Files outlived `periodic_compaction_seconds`.
    PeriodicCompaction = 15,
    /// FIFO: a file is to change its temperature.
    ChangeTemperature = 16,
    /// Blob files hold too much garbage.
    ForcedBlobGc = 17,
    /// Files outlived `ttl` under the round-robin priority.
    RoundRobinTtl = 18,
    /// A caller moved files to another level.
    RefitLevel = 19,
    /// Files are read much.
    ReadTriggered = 20,
}

impl CompactionReason {
    /// The name in event-log lines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "Unknown",
            Self::LevelL0FilesNum => "LevelL0FilesNum",
            Self::LevelMaxLevelSize => "LevelMaxLevelSize",
            Self::UniversalSizeAmplification => "UniversalSizeAmplification",
            Self::UniversalSizeRatio => "UniversalSizeRatio",
            Self::UniversalSortedRunNum => "UniversalSortedRunNum",
            Self::FifoMaxSize => "FIFOMaxSize",
            Self::FifoReduceNumFiles => "FIFOReduceNumFiles",
            Self::FifoTtl => "FIFOTtl",
            Self::ManualCompaction => "ManualCompaction",
            Self::FilesMarkedForCompaction => "FilesMarkedForCompaction",
            Self::BottommostFiles => "BottommostFiles",
            Self::Ttl => "Ttl",
            Self::Flush => "Flush",
            Self::ExternalSstIngestion => "ExternalSstIngestion",
            Self::PeriodicCompaction => "PeriodicCompaction",
            Self::ChangeTemperature => "ChangeTemperature",
            Self::ForcedBlobGc => "ForcedBlobGC",
            Self::RoundRobinTtl => "RoundRobinTtl",
            Self::RefitLevel => "RefitLevel",
            Self::ReadTriggered => "ReadTriggered",
        }
    }
}

/// Input files of one level.
#[derive(Clone, Debug)]
pub struct CompactionInput {
    /// The level.
    pub level: usize,
    /// The files, in the order of the level (level 0 newest first).
    pub files: Vec<Arc<FileMetaData>>,
}

impl CompactionInput {
    /// Bytes of the files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.file_size).sum()
    }
}

/// What kind of work carries a plan out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionWork {
    /// Read the inputs, merge them, write outputs.
    Merge,
    /// Hang the input files under the output level as they are.
    TrivialMove,
    /// Drop the input files with all they hold.
    DropFiles,
}

/// What to compact, decided. Plain data; the job reads it, nothing changes it.
#[derive(Clone)]
pub struct CompactionPlan {
    /// The column family.
    pub column_family: u32,
    /// The version that the inputs were chosen from.
    pub version: Arc<Version>,
    /// Why.
    pub reason: CompactionReason,
    /// The score of the start level when the plan was made; negative if no score led to it.
    pub score: f64,
    /// What kind of work it is.
    pub work: CompactionWork,
    /// Input files, levels ascending. Levels without files are left out.
    pub inputs: Vec<CompactionInput>,
    /// The first level that inputs come from.
    pub start_level: usize,
    /// The level that outputs go to.
    pub output_level: usize,
    /// Index into the paths of the column family where outputs go.
    pub output_path_id: u32,
    /// Size in bytes at which outputs of this level are meant to end; `u64::MAX` = one file.
    pub target_output_file_size_bytes: u64,
    /// Size in bytes at which an output is cut wherever it stands: the target, or twice that where cuts are aligned with
    /// [`grandparents`](Self::grandparents).
    pub max_output_file_size_bytes: u64,
    /// Outputs should not overlap more bytes than this of [`grandparents`](Self::grandparents), and a compaction should not
    /// read more.
    pub max_compaction_bytes: u64,
    /// Compression of the outputs.
    pub output_compression: CompressionType,
    /// Temperature of the outputs, where the plan is about it; else their level decides.
    pub output_temperature: Option<Temperature>,
    /// Files of the first level below the output level that has any overlap, by key; outputs are cut along them.
    pub grandparents: Vec<Arc<FileMetaData>>,
    /// Whether no file deeper than the output level overlaps the inputs, so that tombstones and sequence numbers may go.
    pub bottommost: bool,
    /// Whether a caller asked for it.
    pub is_manual: bool,
    /// Into how many parallel parts the job may split it; at least 1.
    pub max_subcompactions: u32,
    /// The level that level 0 compacts to.
    pub base_level: usize,
    /// Round-robin priority: the cursor to remember for the start level when the plan is done.
    pub next_cursor: Option<InternalKey>,
    /// The least user key of all inputs.
    pub smallest_user_key: Vec<u8>,
    /// The greatest user key of all inputs.
    pub largest_user_key: Vec<u8>,
}

impl CompactionPlan {
    /// Stands among the running compactions for something else that is about to hang files under `output_level` between
    /// these user keys. Has no inputs.
    pub(crate) fn reservation(
        version: Arc<Version>,
        reason: CompactionReason,
        output_level: usize,
        (smallest_user_key, largest_user_key): (Vec<u8>, Vec<u8>),
    ) -> Self {
        Self {
            column_family: version.column_family(),
            version,
            reason,
            score: -1.0,
            work: CompactionWork::TrivialMove,
            inputs: Vec::new(),
            start_level: output_level,
            output_level,
            output_path_id: 0,
            target_output_file_size_bytes: u64::MAX,
            max_output_file_size_bytes: u64::MAX,
            max_compaction_bytes: u64::MAX,
            output_compression: CompressionType::None,
            output_temperature: None,
            grandparents: Vec::new(),
            bottommost: false,
            is_manual: false,
            max_subcompactions: 1,
            base_level: output_level,
            next_cursor: None,
            smallest_user_key,
            largest_user_key,
        }
    }

    /// All input files with their level.
    pub fn input_files(&self) -> impl Iterator<Item = (usize, &Arc<FileMetaData>)> {
        self.inputs.iter().flat_map(|input| input.files.iter().map(move |file| (input.level, file)))
    }

    /// Number of input files.
    pub fn num_input_files(&self) -> usize {
        self.inputs.iter().map(|input| input.files.len()).sum()
    }

    /// Bytes of all input files.
    pub fn input_bytes(&self) -> u64 {
        self.inputs.iter().map(CompactionInput::bytes).sum()
    }

    /// Input files of `level`.
    pub fn files_of_level(&self, level: usize) -> &[Arc<FileMetaData>] {
        self.inputs.iter().find(|input| input.level == level).map_or(&[], |input| input.files.as_slice())
    }

    /// Marks every input as being compacted, or as free again. The caller holds the database mutex.
    pub fn set_busy(&self, busy: bool) {
        self.input_files().for_each(|(_, file)| file.set_being_compacted(busy));
    }

    /// The epoch number of the outputs: the least of the inputs', so that a file of level 0 sorts where its inputs stood.
    pub fn output_epoch_number(&self) -> u64 {
        self.input_files().map(|(_, file)| file.epoch_number).filter(|epoch| *epoch != 0).min().unwrap_or(0)
    }

    /// Whether the whole column family is compacted.
    pub fn is_full_compaction(&self) -> bool {
        self.num_input_files() == self.version.num_files()
    }
}

impl fmt::Debug for CompactionPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}:", self.reason.name(), self.work)?;
        for input in &self.inputs {
            write!(f, " L{} {:?}", input.level, input.files)?;
        }
        write!(f, " -> L{}", self.output_level)
    }
}

/// Whether the column family should be queued for compaction: there is something to pick, running compactions aside.
pub fn needs_compaction(input: &PickerInput<'_>) -> bool {
    match input.options.compaction_style {
        CompactionStyle::Level => leveled::needs_compaction(input),
        CompactionStyle::Universal => universal::needs_compaction(input),
        CompactionStyle::Fifo => input.scores.max() >= 1.0,
        CompactionStyle::None => false,
    }
}

/// The next compaction, or `None` if nothing is needed or all that is needed is blocked by what runs.
pub fn pick(input: &PickerInput<'_>) -> Option<CompactionPlan> {
    match input.options.compaction_style {
        CompactionStyle::Level => leveled::pick(input),
        CompactionStyle::Universal => universal::pick(input),
        CompactionStyle::Fifo => fifo::pick(input),
        CompactionStyle::None => None,
    }
}
