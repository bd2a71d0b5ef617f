//! Replaying logs after a crash: which records are applied, where replay stops and where it resumes.
//!
//! [`WalReplay`] goes through the logs of a database in the order of their numbers. Every batch that the recovery mode
//! lets through goes to a sink, which applies it and answers the sequence number after its last record. The rules:
//!
//! - In modes 0 and 1 damage fails the opening. In mode 3, or without `paranoid_checks`, it is reported and skipped.
//! - In mode 2 damage stops the replay: the rest of the log is not used. A later log that begins exactly at the next
//!   sequence number was written after an earlier recovery stopped at this very place, so replay resumes there.
//! - A batch that does not decode, or sequence numbers that run backwards, fail the opening in every mode.
//! - Only `Corruption` is damage. Any other error says that a sound record cannot be read (I/O) or needs what is not there,
//!   such as a merge operator: it fails the opening in every mode, for to skip the record would lose it.
//!
//! Always true here: what is applied is free of holes that the mode does not allow.

use super::wal::open_log;
use firn_env::{FileOptions, FileSystem};
use firn_error::{Error, ErrorKind, Result};
use firn_format::batch;
use firn_format::key::{FileNumber, SequenceNumber};
use firn_format::log::{PredecessorInfo, RecoveryMode};
use std::path::Path;

/// How logs are replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayOptions {
    /// What to do with damage (`wal_recovery_mode`).
    pub mode: RecoveryMode,
    /// Whether damage counts at all (`paranoid_checks`).
    pub paranoid_checks: bool,
    /// Check what each log says about the one before (`track_and_verify_wals`).
    pub verify_predecessors: bool,
    /// Logs below this number may have been deleted as obsolete.
    pub min_number: FileNumber,
}

/// A batch on its way from a log to the memtables.
#[derive(Clone, Copy, Debug)]
pub struct ReplayBatch<'a> {
    /// The log it comes from.
    pub log_number: FileNumber,
    /// The sequence number of its first record.
    pub sequence: SequenceNumber,
    /// Its bytes, which are known to decode.
    pub data: &'a [u8],
    /// The sizes of user timestamps that the log recorded, by column family.
    pub timestamp_sizes: &'a [(u32, u16)],
}

/// Damage that was skipped or that stopped the replay.
#[derive(Clone, Debug)]
pub struct ReplayNotice {
    /// What is wrong.
    pub error: Error,
    /// Bytes dropped, roughly.
    pub dropped_bytes: u64,
    /// Whether replay goes on behind it.
    pub ignored: bool,
}

/// What became of one log.
#[derive(Clone, Debug, Default)]
pub struct ReplayedLog {
    /// Batches applied.
    pub batches: u64,
    /// Damage met.
    pub notices: Vec<ReplayNotice>,
}

/// The most notices kept per log; damage beyond that is counted by the last of them.
const MAX_NOTICES: usize = 64;

/// What was known of the log replayed before.
#[derive(Clone, Copy, Debug)]
struct Previous {
    number: u64,
    last_sequence: u64,
    /// The size of the file.
    size_bytes: u64,
    /// Where its last record ends; what lies behind is space that a writer had reserved when it was killed.
    end_bytes: u64,
}

/// The state of a replay over several logs.
#[derive(Debug)]
pub struct WalReplay {
    options: ReplayOptions,
    next_sequence: Option<SequenceNumber>,
    stopped: bool,
    stopped_at: Option<FileNumber>,
    previous: Option<Previous>,
}

impl WalReplay {
    /// A replay that has seen no log yet.
    pub fn new(options: ReplayOptions) -> Self {
        Self { options, next_sequence: None, stopped: false, stopped_at: None, previous: None }
    }

    /// The sequence number after the last record applied; `None` before the first.
    pub fn next_sequence(&self) -> Option<SequenceNumber> {
        self.next_sequence
    }

    /// The log in which replay last stopped, if it ever did.
    pub fn stopped_at(&self) -> Option<FileNumber> {
        self.stopped_at
    }

    /// Whether replay stopped and no later log resumed it. No column family may then own tables with newer data.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// The empty batch with which the first new log must begin, so that the next recovery can resume there even if
    /// nothing else is written: only after a stop, and only if something was applied.
    pub fn resume_marker(&self) -> Option<[u8; batch::HEADER_SIZE]> {
        self.stopped_at?;
        self.next_sequence.map(|sequence| batch::header(sequence, 0))
    }

    /// Replays one log. Logs come in the order of their numbers. `sink` applies a batch and gives the sequence number after
    /// it. Its inner error says that it applied nothing of the batch, which then counts as damage if it is `Corruption`; the
    /// outer one ends the replay.
    ///
    /// # Errors
    /// What fails the opening, with file and offset.
    pub fn replay(
        &mut self,
        fs: &dyn FileSystem,
        path: &Path,
        number: FileNumber,
        sink: &mut dyn FnMut(ReplayBatch<'_>) -> Result<Result<SequenceNumber>>,
    ) -> Result<ReplayedLog> {
        let file = fs.new_sequential_file(path, &FileOptions::default())?;
        let size_bytes = fs.file_size(path)?;
        let mut log = ReplayedLog::default();
        let mut last_sequence = 0;
        let mut reader = open_log(file, number, self.options.mode);
        loop {
            let more = reader.advance().map_err(|error| error.with_file(path))?;
            if let Some(info) = reader.take_predecessor()
                && let Some(error) = self.check_predecessor(&info, path)
            {
                // The damage is in the log before: what it lost is what is missing here.
                let before = FileNumber(info.log_number);
                if !self.verdict(&mut log, error, 0, before)? {
                    break;
                }
            }
            if let Some(report) = reader.take_report()
                && !self.verdict(&mut log, report.error.with_file(path), report.dropped_bytes, number)?
            {
                break;
            }
            if !more {
                break;
            }
            let place = |error: Error| error.with_file(path).with_offset(reader.record_offset());
            let data = reader.record();
            let dropped = data.len() as u64;
            if data.len() < batch::HEADER_SIZE {
                if !self.verdict(&mut log, place(Error::corruption("log record too small")), dropped, number)? {
                    break;
                }
                continue;
            }
            batch::validate(data).map_err(place)?;
            let sequence = batch::sequence(data);
            if sequence > SequenceNumber::MAX {
                let error = Error::corruption(format!("sequence {sequence} is too large"));
                if !self.verdict(&mut log, place(error), dropped, number)? {
                    break;
                }
                continue;
            }
            if self.stopped && self.next_sequence == Some(sequence) {
                self.stopped = false;
            }
            if self.stopped {
                break;
            }
            last_sequence = sequence.get();
            let timestamp_sizes = reader.timestamp_sizes();
            match sink(ReplayBatch { log_number: number, sequence, data, timestamp_sizes }).map_err(place)? {
                Ok(next) => {
                    if let Some(before) = self.next_sequence.filter(|&before| next < before) {
                        return Err(place(Error::corruption(format!(
                            "Sequence number is being set backwards during recovery, this is likely an error in DB: \
                             was {before}, would be {next}"
                        ))));
                    }
                    self.next_sequence = Some(next);
                    log.batches += 1;
                }
                Err(error) => {
                    if !self.verdict(&mut log, place(error), dropped, number)? {
                        break;
                    }
                }
            }
        }
        if reader.old_record_seen() && self.options.mode == RecoveryMode::PointInTime {
            self.stop(number);
        }
        if !self.stopped {
            let end_bytes = reader.record_end();
            self.previous = Some(Previous { number: number.get(), last_sequence, size_bytes, end_bytes });
        }
        Ok(log)
    }

    fn stop(&mut self, number: FileNumber) {
        self.stopped = true;
        self.stopped_at = Some(number);
    }

    /// What damage means: `Ok(true)` goes on behind it, `Ok(false)` leaves the log, an error fails the opening.
    fn verdict(&mut self, log: &mut ReplayedLog, error: Error, dropped_bytes: u64, number: FileNumber) -> Result<bool> {
        if error.kind() != ErrorKind::Corruption {
            return Err(error);
        }
        let ignored = !self.options.paranoid_checks || self.options.mode == RecoveryMode::SkipAnyCorruptedRecords;
        if !ignored {
            if self.options.mode != RecoveryMode::PointInTime {
                return Err(error);
            }
            self.stop(number);
        }
        if log.notices.len() < MAX_NOTICES {
            log.notices.push(ReplayNotice { error, dropped_bytes, ignored });
        } else if let Some(last) = log.notices.last_mut() {
            last.dropped_bytes += dropped_bytes;
        }
        Ok(ignored)
    }

    fn check_predecessor(&self, info: &PredecessorInfo, path: &Path) -> Option<Error> {
        if !self.options.verify_predecessors
            || self.stopped
            || self.options.mode == RecoveryMode::SkipAnyCorruptedRecords
        {
            return None;
        }
        let PredecessorInfo { log_number, size_bytes, last_sequence } = *info;
        let message = match self.previous {
            None if log_number >= self.options.min_number.get() => format!("Missing WAL of log number {log_number}"),
            None => return None,
            Some(seen) if seen.number != log_number => format!(
                "Mismatched predecessor log number of WAL file {} Recorded {log_number}. Observed {}",
                path.display(),
                seen.number
            ),
            Some(seen) if seen.last_sequence != last_sequence => format!(
                "Mismatched last sequence number recorded in the WAL of log number {log_number}. Recorded \
                 {last_sequence}. Observed {}. (Last sequence number equal to 0 indicates no WAL records)",
                seen.last_sequence
            ),
            Some(seen) if seen.size_bytes != size_bytes && seen.end_bytes != size_bytes => format!(
                "Mismatched size of the WAL of log number {log_number}. Recorded {size_bytes} bytes. Observed {} bytes.",
                seen.size_bytes
            ),
            Some(_) => return None,
        };
        Some(Error::corruption(message).with_file(path))
    }
}

#[cfg(test)]
#[path = "replay_test.rs"]
mod tests;
