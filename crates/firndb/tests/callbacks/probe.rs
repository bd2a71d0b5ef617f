//! Every callback there is, wired to one probe that misbehaves in the one that it was told.

#![allow(unreachable_pub, reason = "a part of one test binary")]

use std::cmp::Ordering as KeyOrder;
use std::fmt;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use firn_format::comparator::{Comparator, ComparatorKind};
use firndb::compaction::filter::{
    CompactionFilter, CompactionFilterFactory, FilterContext, FilterDecision, FilterValueType,
};
use firndb::env::fault::{Callback, Operation};
use firndb::env::{Clock, IoKind, IoPriority, LogLevel, Logger, RateLimiter, SystemClock};
use firndb::merge::{MergeFailure, MergeInput, MergeOperator};
use firndb::slice_transform::SliceTransform;
use firndb::stats::EventListener;
use firndb::stats::events::{
    CompactionJobInfo, ErrorRecoveryInfo, ExternalFileIngestionInfo, FileOperationInfo, FlushJobInfo, ManualFlushInfo,
    MemTableInfo, SubcompactionJobInfo, TableFileCreationInfo, TableFileDeletionInfo, WriteStallInfo,
};
use firndb::{BackgroundErrorReason, Db, Error};

/// What a callback does, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Panic,
    Block,
    /// Drops the last handle, once the test has dropped its own.
    DropLast,
    /// Reads, with the handle that the probe holds.
    Read,
    /// Writes.
    Write,
    /// Asks to close the database.
    Close,
}

/// What misbehaves, and where; shared by all callbacks of a database.
pub struct Probe {
    place: &'static str,
    action: Action,
    armed: AtomicBool,
    /// How often the place was reached.
    reached: AtomicUsize,
    /// A handle for the callback.
    pub db: Mutex<Option<Db>>,
    /// Whether the test has dropped its handles.
    pub alone: AtomicBool,
}

impl Probe {
    pub fn new(place: &'static str, action: Action) -> Arc<Self> {
        Arc::new(Self {
            place,
            action,
            armed: AtomicBool::new(false),
            reached: AtomicUsize::new(0),
            db: Mutex::new(None),
            alone: AtomicBool::new(false),
        })
    }

    pub fn arm(&self) {
        self.armed.store(true, Ordering::SeqCst);
    }

    pub fn was_reached(&self) -> bool {
        self.reached.load(Ordering::SeqCst) > 0
    }

    fn at(&self, place: &str) {
        if place != self.place || !self.armed.swap(false, Ordering::SeqCst) {
            return;
        }
        self.reached.fetch_add(1, Ordering::SeqCst);
        let clock = SystemClock::new();
        let handle = || self.db.lock().unwrap().clone();
        match self.action {
            // Without the panic hook, which would fill the test's output.
            Action::Panic => resume_unwind(Box::new("expected by the test")),
            Action::Block => clock.sleep_micros(30_000),
            Action::DropLast => {
                // Where the test itself waits for this callback, its handle is not the last one.
                for _ in 0..200 {
                    if self.alone.load(Ordering::SeqCst) {
                        break;
                    }
                    clock.sleep_micros(5_000);
                }
                let last = self.db.lock().unwrap().take();
                drop(last);
            }
            Action::Read => {
                if let Some(db) = handle() {
                    let _ = db.get("key 3");
                    let _ = db.iter().count();
                }
            }
            Action::Write => {
                if let Some(db) = handle() {
                    let _ = db.put("from a callback", "value");
                }
            }
            Action::Close => {
                if let Some(db) = handle() {
                    let _ = db.close();
                }
            }
        }
    }
}

/// Plays the part of every callback.
#[derive(Clone)]
pub struct Everything(pub Arc<Probe>);

impl fmt::Debug for Everything {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Everything")
    }
}

impl Everything {
    /// Called by the file system, for tables, WALs and MANIFESTs.
    pub fn file_system(&self) -> Callback {
        let probe = Arc::clone(&self.0);
        Arc::new(move |operation, path: &Path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let kind = match &*name {
                name if name.ends_with(".sst") => "table",
                name if name.ends_with(".log") => "WAL",
                name if name.starts_with("MANIFEST") => "MANIFEST",
                _ => return,
            };
            let verb = match operation {
                Operation::Create => "creating",
                Operation::Append => "appending to",
                Operation::Sync => "syncing",
                Operation::Read => "reading",
                Operation::Remove => "removing",
                _ => return,
            };
            probe.at(&format!("{verb} a {kind}"));
        })
    }
}

impl EventListener for Everything {
    fn on_flush_begin(&self, _: &FlushJobInfo) {
        self.0.at("flush begin");
    }
    fn on_flush_completed(&self, _: &FlushJobInfo) {
        self.0.at("flush completed");
    }
    fn on_manual_flush_scheduled(&self, _: &[ManualFlushInfo]) {
        self.0.at("manual flush scheduled");
    }
    fn on_memtable_sealed(&self, _: &MemTableInfo) {
        self.0.at("memtable sealed");
    }
    fn on_compaction_begin(&self, _: &CompactionJobInfo) {
        self.0.at("compaction begin");
    }
    fn on_compaction_pre_commit(&self, _: &CompactionJobInfo) {
        self.0.at("compaction pre-commit");
    }
    fn on_compaction_completed(&self, _: &CompactionJobInfo) {
        self.0.at("compaction completed");
    }
    fn on_subcompaction_begin(&self, _: &SubcompactionJobInfo) {
        self.0.at("subcompaction begin");
    }
    fn on_subcompaction_completed(&self, _: &SubcompactionJobInfo) {
        self.0.at("subcompaction completed");
    }
    fn on_table_file_creation_started(&self, _: &TableFileCreationInfo) {
        self.0.at("table creation started");
    }
    fn on_table_file_created(&self, _: &TableFileCreationInfo) {
        self.0.at("table created");
    }
    fn on_table_file_deleted(&self, _: &TableFileDeletionInfo) {
        self.0.at("table deleted");
    }
    fn on_column_family_handle_deletion_started(&self, _: &str, _: u32) {
        self.0.at("handle deletion started");
    }
    fn on_external_file_ingested(&self, _: &ExternalFileIngestionInfo) {
        self.0.at("external file ingested");
    }
    fn on_background_error(&self, _: BackgroundErrorReason, _: &mut Option<Error>) {
        self.0.at("background error");
    }
    fn on_error_recovery_begin(&self, _: BackgroundErrorReason, _: &Error) -> bool {
        self.0.at("error recovery begin");
        true
    }
    fn on_error_recovery_end(&self, _: &ErrorRecoveryInfo) {
        self.0.at("error recovery end");
    }
    fn should_be_notified_on_file_io(&self) -> bool {
        true
    }
    fn on_file_operation_finished(&self, _: &FileOperationInfo) {
        self.0.at("file operation finished");
    }
    fn on_io_error(&self, _: &FileOperationInfo) {
        self.0.at("I/O error");
    }
    fn on_stall_conditions_changed(&self, _: &WriteStallInfo) {
        self.0.at("stall conditions changed");
    }
    fn on_db_shutdown_begin(&self) {
        self.0.at("shutdown begin");
    }
}

impl MergeOperator for Everything {
    fn name(&self) -> &str {
        "test.Everything"
    }
    fn full_merge(&self, input: &MergeInput<'_>, output: &mut Vec<u8>) -> Result<(), MergeFailure> {
        self.0.at("full merge");
        output.extend_from_slice(input.existing.unwrap_or_default());
        input.operands.iter().for_each(|operand| output.extend_from_slice(operand));
        Ok(())
    }
    fn partial_merge(&self, _: &[u8], left: &[u8], right: &[u8], output: &mut Vec<u8>) -> bool {
        self.0.at("partial merge");
        output.extend_from_slice(left);
        output.extend_from_slice(right);
        true
    }
}

impl CompactionFilter for Everything {
    fn name(&self) -> &str {
        "test.Everything"
    }
    fn filter(&self, _: usize, _: &[u8], _: FilterValueType, _: &[u8]) -> FilterDecision {
        self.0.at("compaction filter");
        FilterDecision::Keep
    }
}

impl CompactionFilterFactory for Everything {
    fn name(&self) -> &str {
        "test.Everything"
    }
    fn create(&self, _: &FilterContext) -> Option<Arc<dyn CompactionFilter>> {
        self.0.at("compaction filter factory");
        Some(Arc::new(self.clone()))
    }
}

impl Comparator for Everything {
    fn name(&self) -> &str {
        "test.Everything"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> KeyOrder {
        let is_background = firn_env::thread::current().name().is_some_and(|name| name.starts_with("firn:"));
        self.0.at(if is_background { "comparator in the background" } else { "comparator in a call" });
        a.cmp(b)
    }
    fn kind(&self) -> ComparatorKind {
        ComparatorKind::Custom
    }
}

impl SliceTransform for Everything {
    fn name(&self) -> &str {
        "test.Everything"
    }
    fn in_domain(&self, _: &[u8]) -> bool {
        self.0.at("prefix extractor");
        true
    }
    fn transform<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        &key[..key.len().min(3)]
    }
}

impl RateLimiter for Everything {
    fn request(&self, _: u64, _: IoPriority, _: IoKind) {
        self.0.at("rate limiter");
    }
    fn bytes_per_second(&self) -> u64 {
        1 << 30
    }
    fn set_bytes_per_second(&self, _: u64) -> firndb::Result<()> {
        Ok(())
    }
    fn single_burst_bytes(&self) -> u64 {
        1 << 20
    }
    fn total_bytes_through(&self, _: IoPriority) -> u64 {
        0
    }
    fn total_requests(&self, _: IoPriority) -> u64 {
        0
    }
    fn limits(&self, _: IoKind) -> bool {
        true
    }
}

impl Logger for Everything {
    fn level(&self) -> LogLevel {
        LogLevel::Info
    }
    fn set_level(&self, _: LogLevel) {}
    fn write(&self, _: LogLevel, _: fmt::Arguments<'_>) {
        self.0.at("logger");
    }
}
