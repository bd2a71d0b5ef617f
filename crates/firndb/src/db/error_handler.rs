//! Background errors: how bad a failure of a flush, a compaction, the WAL or the MANIFEST is, and what it stops.
//!
//! Failures flow in from background jobs and from the write path; a severity flows out, and the most severe error is kept
//! until the database resumes or closes. Always true here: a stored error is replaced only by a more severe one, reads are
//! never stopped by it, and writes are stopped from [`Severity::Hard`] on.

use firn_error::{Error, ErrorKind, Severity, SubCode};

/// What the engine was doing when a background error arose; the discriminants are RocksDB's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum BackgroundErrorReason {
    /// Syncing the WALs before a flush, or completing one.
    Flush = 0,
    /// A compaction.
    Compaction = 1,
    /// Appending to or syncing the WAL for a writer.
    WriteCallback = 2,
    /// Inserting in the memtable after the WAL was written, or switching memtables.
    MemTable = 3,
    /// Writing the MANIFEST.
    ManifestWrite = 4,
    /// Writing the table of a flush.
    FlushNoWal = 5,
    /// Writing the MANIFEST for a flush.
    ManifestWriteNoWal = 6,
}

/// How the engine may go on by itself after a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AutoRecovery {
    /// It may not: somebody calls `resume` or opens the database again.
    #[default]
    None,
    /// It tries again, after a pause.
    Retry,
    /// It waits for space to come back.
    WhenSpaceReturns,
}

/// What follows from a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// How bad it is; `None` means that nothing is stored.
    pub(crate) severity: Severity,
    /// Whether background work stops although writes go on: the flushes that failed are to be tried again first.
    pub(crate) stops_background: bool,
    /// What the engine may do about it.
    pub(crate) recovery: AutoRecovery,
}

impl Verdict {
    fn new(severity: Severity, recovery: AutoRecovery) -> Self {
        Self { severity, stops_background: false, recovery }
    }
}

/// What in the options makes failures worse.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strictness {
    /// `paranoid_checks`.
    pub(crate) paranoid_checks: bool,
    /// `manual_wal_flush`.
    pub(crate) manual_wal_flush: bool,
    /// `allow_2pc`.
    pub(crate) allow_2pc: bool,
}

/// Whether the error says that space ran out: the disk's, or that which the database may take.
pub(crate) fn is_out_of_space(error: &Error) -> bool {
    matches!(error.subcode(), SubCode::NoSpace | SubCode::SpaceLimit)
}

/// Decides how bad `error` is when it arose for `reason` (`docs/behaviour/background.md`, How bad).
///
/// In two cases it is milder than RocksDB, since Firn can recover where RocksDB must be opened again or would lose records:
/// a full disk when a memtable is switched (nothing was switched then), and without `paranoid_checks` a failed WAL write
/// (RocksDB goes on behind what may be half a record, which hides the rest from recovery).
pub(crate) fn judge(reason: BackgroundErrorReason, error: &Error, strictness: Strictness) -> Verdict {
    use BackgroundErrorReason as R;
    let io = error.kind() == ErrorKind::IoError;
    let of_wal = reason == R::WriteCallback || reason == R::Flush && error.subcode() != SubCode::SpaceLimit;
    if strictness.manual_wal_flush && of_wal && io {
        // The lost user-space buffer may hold acknowledged records: nothing but a reopen can tell.
        return Verdict::new(Severity::Fatal, AutoRecovery::None);
    }
    if error.is_retryable() && error.subcode() != SubCode::NoSpace {
        return match reason {
            R::Compaction => Verdict::new(Severity::None, AutoRecovery::None),
            R::FlushNoWal | R::ManifestWriteNoWal => {
                Verdict { stops_background: true, ..Verdict::new(Severity::Soft, AutoRecovery::Retry) }
            }
            _ => Verdict::new(Severity::Hard, AutoRecovery::Retry),
        };
    }
    let severity = match (reason, error.kind(), error.subcode()) {
        (R::MemTable, _, SubCode::NoSpace) => Severity::Hard,
        (R::MemTable, ..) => Severity::Fatal,
        (R::ManifestWrite | R::ManifestWriteNoWal, _, SubCode::NoSpace) => Severity::Hard,
        (R::ManifestWrite | R::ManifestWriteNoWal, ..) => Severity::Fatal,
        (_, _, SubCode::IoFenced) => Severity::Fatal,
        (R::WriteCallback, _, SubCode::NoSpace) => Severity::Hard,
        (R::FlushNoWal, kind, subcode)
            if !matches!(kind, ErrorKind::IoError | ErrorKind::Corruption)
                && !matches!(subcode, SubCode::NoSpace | SubCode::SpaceLimit) =>
        {
            Severity::Fatal
        }
        (R::WriteCallback, kind, _) if !matches!(kind, ErrorKind::IoError | ErrorKind::Corruption) => Severity::Fatal,
        (R::WriteCallback, ErrorKind::IoError, _) if !strictness.paranoid_checks => {
            return Verdict::new(Severity::Hard, AutoRecovery::Retry);
        }
        _ if !strictness.paranoid_checks => Severity::None,
        (_, ErrorKind::Corruption, _) => Severity::Unrecoverable,
        (R::Compaction, _, SubCode::NoSpace) => Severity::Soft,
        (R::Flush | R::FlushNoWal | R::Compaction, _, SubCode::NoSpace | SubCode::SpaceLimit) => Severity::Hard,
        _ => Severity::Fatal,
    };
    if !is_out_of_space(error) || severity >= Severity::Fatal || severity == Severity::None {
        return Verdict::new(severity, AutoRecovery::None);
    }
    if strictness.allow_2pc && severity <= Severity::Soft {
        return Verdict::new(Severity::Fatal, AutoRecovery::None);
    }
    Verdict::new(severity, AutoRecovery::WhenSpaceReturns)
}

/// The background error in force, and whether a recovery from it runs.
#[derive(Debug, Default)]
pub(crate) struct ErrorHandler {
    error: Option<Error>,
    stops_background: bool,
    recovery: AutoRecovery,
    recovering: bool,
}

impl ErrorHandler {
    /// Keeps `error` unless one at least as severe is in force.
    pub(crate) fn store(&mut self, error: Error, verdict: Verdict) {
        if verdict.severity > self.severity() {
            self.error = Some(error.with_severity(verdict.severity));
            self.recovery = verdict.recovery;
        }
        if verdict.stops_background && self.severity() == Severity::Soft {
            // Also behind a soft error that lets background work go on: only a recovery tries the flush again.
            self.stops_background = true;
            self.recovery = verdict.recovery;
        }
    }

    /// The error in force.
    pub(crate) fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// The severity of the error in force.
    pub(crate) fn severity(&self) -> Severity {
        self.error.as_ref().map_or(Severity::None, Error::severity)
    }

    /// Whether writes must stop, and background work with them.
    pub(crate) fn is_stopped(&self) -> bool {
        self.severity() >= Severity::Hard
    }

    /// Whether flushes and compactions must stop, but for those of a recovery.
    pub(crate) fn stops_background_work(&self) -> bool {
        self.stops_background || self.is_stopped()
    }

    /// What may be done about the error in force.
    pub(crate) fn recovery(&self) -> AutoRecovery {
        self.recovery
    }

    /// Whether a recovery runs.
    pub(crate) fn is_recovering(&self) -> bool {
        self.recovering
    }

    /// Notes that a recovery begins or has failed.
    pub(crate) fn set_recovering(&mut self, recovering: bool) {
        self.recovering = recovering;
    }

    /// Whether a recovery whose attempt failed with `error` should make another one; then [`recovery`](Self::recovery)
    /// says when.
    pub(crate) fn is_worth_another_attempt(&mut self, error: &Error) -> bool {
        self.recovery = if is_out_of_space(error) {
            AutoRecovery::WhenSpaceReturns
        } else if error.is_retryable() {
            AutoRecovery::Retry
        } else {
            AutoRecovery::None
        };
        self.severity() < Severity::Fatal && self.recovery != AutoRecovery::None
    }

    /// Forgets the error in force and the recovery, after what it was about was repaired.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use BackgroundErrorReason as R;

    fn severity(reason: R, error: Error, paranoid_checks: bool) -> Severity {
        judge(reason, &error, Strictness { paranoid_checks, manual_wal_flush: false, allow_2pc: false }).severity
    }

    #[test]
    fn follows_the_decision_table() {
        let no_space = || Error::io_error("x").with_subcode(SubCode::NoSpace);
        let limit = || Error::io_error("x").with_subcode(SubCode::SpaceLimit);
        let rows = [
            (R::Compaction, no_space(), Severity::Soft, Severity::None),
            (R::Compaction, limit(), Severity::Hard, Severity::None),
            (R::Flush, Error::corruption("x"), Severity::Unrecoverable, Severity::None),
            (R::FlushNoWal, Error::io_error("x"), Severity::Fatal, Severity::None),
            (R::Flush, Error::aborted("x"), Severity::Fatal, Severity::None),
            (R::FlushNoWal, Error::aborted("x"), Severity::Fatal, Severity::Fatal),
            (R::FlushNoWal, no_space(), Severity::Hard, Severity::None),
            (R::WriteCallback, no_space(), Severity::Hard, Severity::Hard),
            (R::WriteCallback, Error::corruption("x"), Severity::Unrecoverable, Severity::None),
            (R::WriteCallback, Error::io_error("x"), Severity::Fatal, Severity::Hard),
            (R::WriteCallback, Error::aborted("x"), Severity::Fatal, Severity::Fatal),
            (R::ManifestWrite, no_space(), Severity::Hard, Severity::Hard),
            (R::ManifestWrite, Error::corruption("x"), Severity::Fatal, Severity::Fatal),
            (R::MemTable, Error::aborted("x"), Severity::Fatal, Severity::Fatal),
        ];
        for (reason, error, paranoid, relaxed) in rows {
            assert_eq!(severity(reason, error.clone(), true), paranoid, "{reason:?} {error}");
            assert_eq!(severity(reason, error.clone(), false), relaxed, "{reason:?} {error}");
        }
    }

    #[test]
    fn keeps_the_most_severe_error() {
        let mut handler = ErrorHandler::default();
        let verdict = |severity| Verdict::new(severity, AutoRecovery::None);
        handler.store(Error::io_error("soft"), verdict(Severity::Soft));
        assert!(!handler.stops_background_work());
        handler.store(Error::io_error("flush"), Verdict { stops_background: true, ..verdict(Severity::Soft) });
        assert!(handler.stops_background_work() && !handler.is_stopped());
        assert_eq!(handler.error().map(Error::message), Some("soft"));
        handler.store(Error::io_error("hard"), verdict(Severity::Hard));
        handler.store(Error::io_error("later"), verdict(Severity::Soft));
        assert_eq!(handler.error().map(Error::message), Some("hard"));
        assert!(handler.is_stopped());
        handler.clear();
        assert!(handler.error().is_none());
    }

    #[test]
    fn knows_after_which_failures_the_engine_goes_on_by_itself() {
        let no_space = || Error::io_error("x").with_subcode(SubCode::NoSpace);
        let retryable = || Error::io_error("x").with_retryable(true);
        let plain = Strictness { paranoid_checks: true, manual_wal_flush: false, allow_2pc: false };
        let rows = [
            (R::WriteCallback, retryable(), Severity::Hard, false, AutoRecovery::Retry),
            (R::Flush, retryable(), Severity::Hard, false, AutoRecovery::Retry),
            (R::FlushNoWal, retryable(), Severity::Soft, true, AutoRecovery::Retry),
            (R::ManifestWriteNoWal, retryable(), Severity::Soft, true, AutoRecovery::Retry),
            (R::ManifestWrite, retryable(), Severity::Hard, false, AutoRecovery::Retry),
            (R::Compaction, retryable(), Severity::None, false, AutoRecovery::None),
            (R::Compaction, no_space(), Severity::Soft, false, AutoRecovery::WhenSpaceReturns),
            (R::FlushNoWal, no_space().with_retryable(true), Severity::Hard, false, AutoRecovery::WhenSpaceReturns),
            (R::MemTable, no_space(), Severity::Hard, false, AutoRecovery::WhenSpaceReturns),
            (R::FlushNoWal, Error::io_error("x"), Severity::Fatal, false, AutoRecovery::None),
        ];
        for (reason, error, severity, stops_background, recovery) in rows {
            let verdict = judge(reason, &error, plain);
            assert_eq!(verdict, Verdict { severity, stops_background, recovery }, "{reason:?} {error}");
        }
        let two_phases = Strictness { allow_2pc: true, ..plain };
        assert_eq!(judge(R::Compaction, &no_space(), two_phases), Verdict::new(Severity::Fatal, AutoRecovery::None));
        let manual = Strictness { manual_wal_flush: true, ..plain };
        for reason in [R::WriteCallback, R::Flush] {
            assert_eq!(judge(reason, &retryable(), manual), Verdict::new(Severity::Fatal, AutoRecovery::None));
        }
    }
}
