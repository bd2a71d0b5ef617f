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

/// What follows from a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// How bad it is; `None` means that nothing is stored.
    pub(crate) severity: Severity,
    /// Whether the engine may try to recover by itself.
    pub(crate) auto_recovery: bool,
}

/// Whether the options make failures stricter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strictness {
    /// `paranoid_checks`.
    pub(crate) paranoid_checks: bool,
    /// `manual_wal_flush`.
    pub(crate) manual_wal_flush: bool,
}

/// Decides how bad `error` is when it arose for `reason`.
pub(crate) fn judge(reason: BackgroundErrorReason, error: &Error, strictness: Strictness) -> Verdict {
    use BackgroundErrorReason as R;
    let io = error.kind() == ErrorKind::IoError;
    if strictness.manual_wal_flush && reason == R::WriteCallback && io {
        // The lost user-space buffer may hold acknowledged records: nothing but a reopen can tell.
        return Verdict { severity: Severity::Fatal, auto_recovery: false };
    }
    if error.is_retryable() && error.subcode() != SubCode::NoSpace {
        let severity = match reason {
            R::Compaction => Severity::None,
            R::FlushNoWal | R::ManifestWriteNoWal => Severity::Soft,
            _ => Severity::Hard,
        };
        return Verdict { severity, auto_recovery: reason != R::Compaction };
    }
    let severity = match (reason, error.kind(), error.subcode()) {
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
        _ if !strictness.paranoid_checks => Severity::None,
        (_, ErrorKind::Corruption, _) => Severity::Unrecoverable,
        (R::Compaction, _, SubCode::NoSpace) => Severity::Soft,
        (R::Flush | R::FlushNoWal | R::Compaction, _, SubCode::NoSpace | SubCode::SpaceLimit) => Severity::Hard,
        _ => Severity::Fatal,
    };
    Verdict { severity, auto_recovery: error.subcode() == SubCode::NoSpace && severity < Severity::Fatal }
}

/// The background error in force.
#[derive(Debug, Default)]
pub(crate) struct ErrorHandler {
    error: Option<Error>,
}

impl ErrorHandler {
    /// Keeps `error` with `severity` unless one at least as severe is in force; returns the error in force.
    pub(crate) fn store(&mut self, error: Error, severity: Severity) -> Option<&Error> {
        if severity > self.severity() {
            self.error = Some(error.with_severity(severity));
        }
        self.error.as_ref()
    }

    /// The error in force.
    pub(crate) fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// The severity of the error in force.
    pub(crate) fn severity(&self) -> Severity {
        self.error.as_ref().map_or(Severity::None, Error::severity)
    }

    /// Whether writes, flushes and compactions must stop.
    pub(crate) fn is_stopped(&self) -> bool {
        self.severity() >= Severity::Hard
    }

    /// Forgets the error in force, after what it was about was repaired.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use BackgroundErrorReason as R;

    fn severity(reason: R, error: Error, paranoid_checks: bool) -> Severity {
        judge(reason, &error, Strictness { paranoid_checks, manual_wal_flush: false }).severity
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
            (R::WriteCallback, Error::io_error("x"), Severity::Fatal, Severity::None),
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
        handler.store(Error::io_error("soft"), Severity::Soft);
        assert!(!handler.is_stopped());
        handler.store(Error::io_error("hard"), Severity::Hard);
        handler.store(Error::io_error("later"), Severity::Soft);
        assert_eq!(handler.error().map(Error::message), Some("hard"));
        assert!(handler.is_stopped());
        handler.clear();
        assert!(handler.error().is_none());
    }
}
