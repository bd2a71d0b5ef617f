//! Why a running job may have to end early.

use firn_env::sync::atomic::{AtomicBool, Ordering};

use firn_error::{Error, Result, SubCode};

/// Flags that others raise to end a job; looked at once per entry.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StopSignals<'a> {
    /// The database is closing.
    pub(crate) closing: Option<&'a AtomicBool>,
    /// The column family was dropped.
    pub(crate) dropped: Option<&'a AtomicBool>,
    /// The caller of a manual compaction gave up, or manual compactions are paused.
    pub(crate) cancelled: Option<&'a AtomicBool>,
}

fn raised(flag: Option<&AtomicBool>) -> bool {
    flag.is_some_and(|flag| flag.load(Ordering::Relaxed))
}

impl StopSignals<'_> {
    /// Whether any flag is up.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        raised(self.closing) || raised(self.dropped) || raised(self.cancelled)
    }

    /// Whether the database is closing.
    pub(crate) fn is_closing(&self) -> bool {
        raised(self.closing)
    }

    /// Fails if any flag is up.
    ///
    /// # Errors
    /// `ShutdownInProgress`, `ColumnFamilyDropped` or `Incomplete`.
    pub(crate) fn check(&self) -> Result<()> {
        if raised(self.closing) {
            return Err(Error::shutdown_in_progress("Database shutdown"));
        }
        if raised(self.dropped) {
            return Err(Error::column_family_dropped("Column family dropped"));
        }
        if raised(self.cancelled) {
            return Err(Error::incomplete("").with_subcode(SubCode::ManualCompactionPaused));
        }
        Ok(())
    }
}
