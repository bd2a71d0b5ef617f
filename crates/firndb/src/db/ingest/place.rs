//! Where ingested files go: level and sequence number.
//!
//! A pure decision over one version, what compactions are writing, and one question that takes I/O: whether a level has keys
//! in a range. Always true of its answer: a file is above everything that it overlaps, and overlaps no file of its level
//! (`docs/behaviour/reads-and-writes.md`, Place and sequence of a file).

use firn_error::{Error, Result};
use firn_format::key::SequenceNumber;

use super::prepare::{ExternalFile, KeyRange};
use crate::compaction::picker::CompactionPlan;
use crate::db::write::sequence_numbers_used_up;
use crate::options::IngestExternalFileOptions;
use crate::version::Version;

/// What the decision looks at, beside the files.
pub(super) struct LevelFacts<'a> {
    pub(super) version: &'a Version,
    /// The level that level 0 compacts to; those between are empty and stay so.
    pub(super) base_level: usize,
    /// Compactions of the family that run.
    pub(super) running: &'a [&'a CompactionPlan],
    /// Everything lies on level 0.
    pub(super) is_fifo: bool,
    /// The last level is kept for files that are ingested behind.
    pub(super) reserves_last_level: bool,
    /// Every file gets a new sequence number, to be hidden from snapshots.
    pub(super) forces_sequence: bool,
    /// Some of the files overlap each other, so that all get sequence numbers.
    pub(super) files_overlap: bool,
}

/// Where a file goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placement {
    pub(super) level: usize,
    /// Of all its entries.
    pub(super) sequence: SequenceNumber,
}

impl LevelFacts<'_> {
    fn last_level(&self) -> usize {
        self.version.num_levels() - 1
    }

    /// Whether a running compaction writes to `level` among keys of `range`.
    fn is_written(&self, level: usize, range: &KeyRange) -> bool {
        let order = self.version.order();
        self.running.iter().any(|plan| {
            plan.output_level == level
                && order.compare_user(&plan.smallest_user_key, range.largest.user_key()).is_le()
                && order.compare_user(&plan.largest_user_key, range.smallest.user_key()).is_ge()
        })
    }

    /// Whether a file over `range` would lie between the files of `level`.
    fn fits(&self, level: usize, range: &KeyRange) -> bool {
        let overlaps = |level| self.version.files(level).iter().any(|file| range.meets(&file.smallest, &file.largest));
        level == 0 || (!overlaps(level) && !self.is_written(level, range))
    }
}

/// Places `files` in their order; `last_sequence` grows with every sequence number that is used up. `has_keys` tells whether
/// a level has keys in a range.
///
/// # Errors
/// `InvalidArgument` or `TryAgain` when the options do not allow what would have to be done; those of `has_keys`.
pub(super) fn place(
    facts: &LevelFacts<'_>,
    files: &[ExternalFile],
    options: &IngestExternalFileOptions,
    last_sequence: &mut SequenceNumber,
    has_keys: &mut dyn FnMut(usize, &KeyRange) -> Result<bool>,
) -> Result<Vec<Placement>> {
    if options.ingest_behind {
        return files.iter().map(|file| place_behind(facts, file)).collect();
    }
    let mut placements: Vec<Placement> = Vec::with_capacity(files.len());
    // Files of a batch do not overlap. Every batch goes above the one before, since its files may overlap those.
    let (mut batch_start, mut levels_below) = (0, facts.version.num_levels());
    for (at, file) in files.iter().enumerate() {
        let batch = files.get(batch_start..at).unwrap_or_default();
        if batch.iter().any(|other| file.range.meets(&other.range.smallest, &other.range.largest)) {
            let placed = placements.get(batch_start..at).unwrap_or_default();
            levels_below = placed.iter().map(|placement| placement.level).min().unwrap_or(levels_below);
            batch_start = at;
        }
        let (level, overlaps) = deepest_level(facts, file, levels_below, has_keys)?;
        let needs_sequence = facts.forces_sequence || facts.files_overlap || facts.is_fifo || overlaps;
        if options.fail_if_not_bottommost_level && level != facts.last_level() {
            return Err(Error::try_again(
                "Files cannot be ingested to Lmax. Please make sure key range of Lmax does not overlap with files to ingest.",
            ));
        }
        placements.push(Placement { level, sequence: sequence_of(file, needs_sequence, options, last_sequence)? });
    }
    Ok(placements)
}

/// The sequence number of a file; the database's last one grows to it.
fn sequence_of(
    file: &ExternalFile,
    is_needed: bool,
    options: &IngestExternalFileOptions,
    last_sequence: &mut SequenceNumber,
) -> Result<SequenceNumber> {
    if let Some(own) = file.own_sequences {
        if is_needed {
            return Err(Error::invalid_argument(
                "An ingested file overlaps with existing data in the DB or with another one, which is not allowed for files \
                 generated by a DB.",
            ));
        }
        *last_sequence = (*last_sequence).max(own.largest);
        return Ok(own.largest);
    }
    let sequence = if is_needed {
        last_sequence.checked_plus(1).ok_or_else(sequence_numbers_used_up)?
    } else {
        SequenceNumber::ZERO
    };
    if sequence != file.stored_sequence {
        if !options.allow_global_seqno {
            return Err(Error::invalid_argument("Global seqno is required, but disabled"));
        }
        if file.sequence_offset.is_none() {
            return Err(Error::invalid_argument(
                "Trying to set global seqno for a file that don't have a global seqno field",
            ));
        }
    }
    *last_sequence = (*last_sequence).max(sequence);
    Ok(sequence)
}

/// The deepest level below which nothing overlaps the file and in which it fits, and whether anything overlaps it at all.
fn deepest_level(
    facts: &LevelFacts<'_>,
    file: &ExternalFile,
    levels_below: usize,
    has_keys: &mut dyn FnMut(usize, &KeyRange) -> Result<bool>,
) -> Result<(usize, bool)> {
    if facts.is_fifo {
        return Ok((0, true));
    }
    let mut deepest = 0;
    for level in 0..levels_below {
        if level > 0 && level < facts.base_level {
            continue;
        }
        if facts.is_written(level, &file.range) || has_keys(level, &file.range)? {
            return Ok((deepest, true));
        }
        let is_reserved = facts.reserves_last_level && level == facts.last_level();
        if !is_reserved && facts.fits(level, &file.range) {
            deepest = level;
        }
    }
    Ok((deepest, false))
}

/// Below everything else.
fn place_behind(facts: &LevelFacts<'_>, file: &ExternalFile) -> Result<Placement> {
    let level = facts.last_level();
    if !facts.fits(level, &file.range) {
        return Err(Error::invalid_argument("Can't ingest_behind file as it doesn't fit at the bottommost level!"));
    }
    let zero = |(at, meta): (usize, &std::sync::Arc<crate::version::FileMetaData>)| {
        at < level && meta.smallest_sequence == SequenceNumber::ZERO
    };
    if facts.version.all_files().any(zero) {
        return Err(Error::invalid_argument(
            "Can't ingest_behind file as despite allow_ingest_behind=true there are files with 0 seqno in database at upper \
             levels!",
        ));
    }
    Ok(Placement { level, sequence: SequenceNumber::ZERO })
}
