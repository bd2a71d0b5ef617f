//! The one error type of Firn.
//!
//! Every floor of the house reports failures with [`Error`]. Its [`ErrorKind`] maps one to one to the status codes of
//! RocksDB, its [`SubCode`] to the sub-codes, its [`Severity`] to the severities of background errors, so that the
//! C ABI and the tools can print and return what programs written for RocksDB expect. Beside the message it carries,
//! where known, the file and the byte offset that the failure is about.
//!
//! Always true here: an `Error` is one pointer wide, cheap to move and to clone, and never means success.

#![forbid(unsafe_code)]

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A result with Firn's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of failure this is; the discriminants are RocksDB's status codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ErrorKind {
    /// The key, file or column family does not exist.
    NotFound = 1,
    /// Stored bytes contradict their format or checksum.
    Corruption = 2,
    /// The request or the on-disk feature is known and refused.
    NotSupported = 3,
    /// The caller's argument or option is wrong.
    InvalidArgument = 4,
    /// The environment (disk, file system) failed.
    IoError = 5,
    /// A merge operation is in progress.
    MergeInProgress = 6,
    /// The answer would need I/O, waiting or resources that the caller forbade.
    Incomplete = 7,
    /// The database is closing.
    ShutdownInProgress = 8,
    /// A deadline passed.
    TimedOut = 9,
    /// The operation was aborted.
    Aborted = 10,
    /// A resource or lock is busy.
    Busy = 11,
    /// A transaction or lease expired.
    Expired = 12,
    /// The operation failed for now and may be tried again.
    TryAgain = 13,
    /// A compaction needs more space than it may use.
    CompactionTooLarge = 14,
    /// The column family was dropped.
    ColumnFamilyDropped = 15,
}

impl ErrorKind {
    /// The prefix that RocksDB prints before the message of this kind, without the colon.
    pub const fn label(self) -> &'static str {
        match self {
            Self::NotFound => "NotFound",
            Self::Corruption => "Corruption",
            Self::NotSupported => "Not implemented",
            Self::InvalidArgument => "Invalid argument",
            Self::IoError => "IO error",
            Self::MergeInProgress => "Merge in progress",
            Self::Incomplete => "Result incomplete",
            Self::ShutdownInProgress => "Shutdown in progress",
            Self::TimedOut => "Operation timed out",
            Self::Aborted => "Operation aborted",
            Self::Busy => "Resource busy",
            Self::Expired => "Operation expired",
            Self::TryAgain => "Operation failed. Try again.",
            Self::CompactionTooLarge => "Compaction too large",
            Self::ColumnFamilyDropped => "Column family dropped",
        }
    }
}

/// A refinement of [`ErrorKind`]; the discriminants are RocksDB's sub-codes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SubCode {
    /// No refinement.
    #[default]
    None = 0,
    /// Timeout acquiring a mutex.
    MutexTimeout = 1,
    /// Timeout waiting to lock a key.
    LockTimeout = 2,
    /// The maximum number of locks was reached.
    LockLimit = 3,
    /// No space left on the device.
    NoSpace = 4,
    /// A deadlock was found.
    Deadlock = 5,
    /// The file handle went stale.
    StaleFile = 6,
    /// The memory limit was reached.
    MemoryLimit = 7,
    /// The space limit was reached.
    SpaceLimit = 8,
    /// A path does not exist.
    PathNotFound = 9,
    /// The caller's merge operand buffer is too small.
    MergeOperandsInsufficientCapacity = 10,
    /// Manual compactions are paused.
    ManualCompactionPaused = 11,
    /// The value was overwritten.
    Overwritten = 12,
    /// The transaction is not prepared.
    TxnNotPrepared = 13,
    /// The file system fenced this process off.
    IoFenced = 14,
    /// The merge operator failed.
    MergeOperatorFailed = 15,
    /// More merge operands than the threshold were merged.
    MergeOperandThresholdExceeded = 16,
}

impl SubCode {
    /// The text that RocksDB prints for this sub-code; empty for [`SubCode::None`].
    pub const fn label(self) -> &'static str {
        match self {
            Self::None => "",
            Self::MutexTimeout => "Timeout Acquiring Mutex",
            Self::LockTimeout => "Timeout waiting to lock key",
            Self::LockLimit => "Failed to acquire lock due to max_num_locks limit",
            Self::NoSpace => "No space left on device",
            Self::Deadlock => "Deadlock",
            Self::StaleFile => "Stale file handle",
            Self::MemoryLimit => "Memory limit reached",
            Self::SpaceLimit => "Space limit reached",
            Self::PathNotFound => "No such file or directory",
            Self::MergeOperandsInsufficientCapacity => "Insufficient capacity for merge operands",
            Self::ManualCompactionPaused => "Manual compaction paused",
            Self::Overwritten => " (overwritten)",
            Self::TxnNotPrepared => "Txn not prepared",
            Self::IoFenced => "IO fenced off",
            Self::MergeOperatorFailed => "Merge operator failed",
            Self::MergeOperandThresholdExceeded => "Number of operands merged exceeded threshold",
        }
    }
}

/// How bad a background error is; the discriminants are RocksDB's severities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Severity {
    /// Not a background error.
    #[default]
    None = 0,
    /// Writes go on; some background work may pause.
    Soft = 1,
    /// Writes stop until the database resumes.
    Hard = 2,
    /// Writes stop until the database is reopened.
    Fatal = 3,
    /// Data may have been lost.
    Unrecoverable = 4,
}

/// A failure: kind, sub-code, severity, message, and where known the file and the offset in it.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    kind: ErrorKind,
    subcode: SubCode,
    severity: Severity,
    retryable: bool,
    message: String,
    file: Option<PathBuf>,
    offset: Option<u64>,
}

macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident => $kind:ident;)*) => {
        $($(#[$doc])*
        #[cold]
        pub fn $name(message: impl Into<String>) -> Self { Self::new(ErrorKind::$kind, message) })*
    };
}

impl Error {
    /// An error of the given kind.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Arc::new(Inner {
            kind,
            subcode: SubCode::None,
            severity: Severity::None,
            retryable: false,
            message: message.into(),
            file: None,
            offset: None,
        }))
    }

    constructors! {
        /// A key, file or column family does not exist.
        not_found => NotFound;
        /// Stored bytes contradict their format or checksum.
        corruption => Corruption;
        /// The request or on-disk feature is known and refused.
        not_supported => NotSupported;
        /// The caller's argument or option is wrong.
        invalid_argument => InvalidArgument;
        /// The environment failed.
        io_error => IoError;
        /// A merge is in progress.
        merge_in_progress => MergeInProgress;
        /// The answer would need what the caller forbade.
        incomplete => Incomplete;
        /// The database is closing.
        shutdown_in_progress => ShutdownInProgress;
        /// A deadline passed.
        timed_out => TimedOut;
        /// The operation was aborted.
        aborted => Aborted;
        /// A resource is busy.
        busy => Busy;
        /// A transaction or lease expired.
        expired => Expired;
        /// The operation may be tried again.
        try_again => TryAgain;
        /// A compaction needs too much space.
        compaction_too_large => CompactionTooLarge;
        /// The column family was dropped.
        column_family_dropped => ColumnFamilyDropped;
    }

    /// An I/O failure while doing `operation` (such as `"open"`) on `file`.
    #[cold]
    pub fn from_io(source: &std::io::Error, operation: &str, file: impl AsRef<Path>) -> Self {
        let subcode = match source.raw_os_error() {
            Some(28 | 122) => SubCode::NoSpace, // ENOSPC, EDQUOT
            Some(116) => SubCode::StaleFile,    // ESTALE
            Some(2) => SubCode::PathNotFound,   // ENOENT
            _ => match source.kind() {
                std::io::ErrorKind::NotFound => SubCode::PathNotFound,
                std::io::ErrorKind::StorageFull => SubCode::NoSpace,
                _ => SubCode::None,
            },
        };
        Self::io_error(format!("{operation}: {source}")).with_subcode(subcode).with_file(file.as_ref())
    }

    fn edit(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// The same error with a sub-code.
    #[must_use]
    pub fn with_subcode(self, subcode: SubCode) -> Self {
        self.edit(|inner| inner.subcode = subcode)
    }

    /// The same error with a severity.
    #[must_use]
    pub fn with_severity(self, severity: Severity) -> Self {
        self.edit(|inner| inner.severity = severity)
    }

    /// The same error, marked as one that a later attempt may not meet again.
    #[must_use]
    pub fn with_retryable(self, retryable: bool) -> Self {
        self.edit(|inner| inner.retryable = retryable)
    }

    /// The same error about `file`; a file already named is kept, since it is nearer to the cause.
    #[must_use]
    pub fn with_file(self, file: impl AsRef<Path>) -> Self {
        if self.0.file.is_some() {
            return self;
        }
        self.edit(|inner| inner.file = Some(file.as_ref().to_path_buf()))
    }

    /// The same error at byte `offset`; an offset already given is kept.
    #[must_use]
    pub fn with_offset(self, offset: u64) -> Self {
        if self.0.offset.is_some() {
            return self;
        }
        self.edit(|inner| inner.offset = Some(offset))
    }

    /// The same error with `prefix` and `": "` before its message.
    #[must_use]
    pub fn with_context(self, prefix: impl fmt::Display) -> Self {
        self.edit(|inner| inner.message = format!("{prefix}: {}", inner.message))
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The refinement of the kind.
    pub fn subcode(&self) -> SubCode {
        self.0.subcode
    }

    /// How bad this is as a background error.
    pub fn severity(&self) -> Severity {
        self.0.severity
    }

    /// Whether a later attempt may succeed without any change.
    pub fn is_retryable(&self) -> bool {
        self.0.retryable
    }

    /// The message without kind, file and offset.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The file that the failure is about.
    pub fn file(&self) -> Option<&Path> {
        self.0.file.as_deref()
    }

    /// The byte offset in the file.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// Whether the kind is [`ErrorKind::NotFound`].
    pub fn is_not_found(&self) -> bool {
        self.kind() == ErrorKind::NotFound
    }

    /// Whether the kind is [`ErrorKind::Corruption`].
    pub fn is_corruption(&self) -> bool {
        self.kind() == ErrorKind::Corruption
    }

    /// Whether an I/O failure means that the path does not exist.
    pub fn is_path_not_found(&self) -> bool {
        self.kind() == ErrorKind::IoError && self.subcode() == SubCode::PathNotFound
    }
}

/// Prints what RocksDB's status prints (`Kind: subcode: message`), then the file and the offset where known.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.kind.label())?;
        f.write_str(": ")?;
        if self.0.subcode != SubCode::None {
            f.write_str(self.0.subcode.label())?;
            f.write_str(": ")?;
        }
        f.write_str(&self.0.message)?;
        match (&self.0.file, self.0.offset) {
            (Some(file), Some(offset)) => write!(f, " in file {} at offset {offset}", file.display()),
            (Some(file), None) => write!(f, " in file {}", file.display()),
            (None, Some(offset)) => write!(f, " at offset {offset}"),
            (None, None) => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_kind_subcode_message_and_place() {
        let error = Error::io_error("write").with_subcode(SubCode::NoSpace).with_file("000001.log").with_offset(7);
        assert_eq!(error.to_string(), "IO error: No space left on device: write in file 000001.log at offset 7");
        let again = error.with_file("other").with_offset(9);
        assert_eq!((again.file(), again.offset()), (Some(Path::new("000001.log")), Some(7)));
    }

    #[test]
    fn is_one_pointer_wide() {
        assert_eq!(size_of::<Result<()>>(), size_of::<usize>());
    }
}
