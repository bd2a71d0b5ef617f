//! What listeners and the event log are told: which events, in which order, with what in them, and under which locks.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use firndb::env::fault::{Effect, Fault, FaultFileSystem, Operation, io_error};
use firndb::env::{Env, read_file};
use firndb::options::{CompactRangeOptions, FlushOptions};
use firndb::stats::EventListener;
use firndb::stats::events::*;
use firndb::{BackgroundErrorReason, ColumnFamilyOptions, Db, Error, Options, Severity};

/// Writes down what it is told. With a database to call back, it asks it something each time, which would hang if the
/// caller held the database mutex.
#[derive(Default)]
struct Recorder {
    lines: Mutex<Vec<String>>,
    flushes: Mutex<Vec<FlushJobInfo>>,
    compactions: Mutex<Vec<CompactionJobInfo>>,
    created: Mutex<Vec<TableFileCreationInfo>>,
    deleted: Mutex<Vec<TableFileDeletionInfo>>,
    stalls: Mutex<Vec<WriteStallInfo>>,
    files: Mutex<Vec<FileOperationInfo>>,
    wants_file_io: bool,
    forgives: bool,
    db: OnceLock<Db>,
}

impl Recorder {
    fn note(&self, line: impl Into<String>) {
        if let Some(db) = self.db.get() {
            assert!(db.property_int(db.default_cf(), "rocksdb.num-immutable-mem-table").is_some());
            db.get("some key").unwrap();
        }
        self.lines.lock().unwrap().push(line.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines.lock().unwrap())
    }
}

impl EventListener for Recorder {
    fn name(&self) -> &str {
        "recorder"
    }
    fn on_flush_begin(&self, info: &FlushJobInfo) {
        assert_eq!((info.file_number, info.table_properties.is_none()), (0, true));
        assert!(info.file_path.ends_with("000000.sst"));
        self.note("flush begin");
    }
    fn on_flush_completed(&self, info: &FlushJobInfo) {
        self.note("flush completed");
        self.flushes.lock().unwrap().push(info.clone());
    }
    fn on_manual_flush_scheduled(&self, flushes: &[ManualFlushInfo]) {
        assert!(flushes.iter().all(|info| info.reason == FlushReason::ManualFlush && info.column_family == "default"));
    }
    fn on_memtable_sealed(&self, info: &MemTableInfo) {
        self.note(format!("sealed {} entries, {} deletes", info.num_entries, info.num_deletes));
    }
    fn on_compaction_begin(&self, info: &CompactionJobInfo) {
        assert!(info.output_files.is_empty() && info.error.is_none());
        self.note("compaction begin");
    }
    fn on_compaction_pre_commit(&self, info: &CompactionJobInfo) {
        assert!(!info.output_files.is_empty() && info.error.is_none());
    }
    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        self.note("compaction completed");
        self.compactions.lock().unwrap().push(info.clone());
    }
    fn on_subcompaction_begin(&self, info: &SubcompactionJobInfo) {
        self.note(format!("subcompaction {} begin", info.subcompaction_job));
    }
    fn on_subcompaction_completed(&self, info: &SubcompactionJobInfo) {
        self.note(format!("subcompaction {} completed", info.subcompaction_job));
    }
    fn on_table_file_creation_started(&self, info: &TableFileCreationInfo) {
        self.note(format!("table started {:?}", info.reason));
    }
    fn on_table_file_created(&self, info: &TableFileCreationInfo) {
        self.note(format!("table created {:?}", info.reason));
        self.created.lock().unwrap().push(info.clone());
    }
    fn on_table_file_deleted(&self, info: &TableFileDeletionInfo) {
        self.note("table deleted");
        self.deleted.lock().unwrap().push(info.clone());
    }
    fn on_column_family_handle_deletion_started(&self, column_family: &str, _id: u32) {
        self.note(format!("handle of {column_family} goes"));
    }
    fn on_background_error(&self, reason: BackgroundErrorReason, error: &mut Option<Error>) {
        let told = error.as_ref().unwrap();
        self.note(format!("background error {reason:?} {:?}", told.severity()));
        if self.forgives {
            *error = None;
        }
    }
    fn on_stall_conditions_changed(&self, info: &WriteStallInfo) {
        self.note("stall");
        self.stalls.lock().unwrap().push(info.clone());
    }
    fn should_be_notified_on_file_io(&self) -> bool {
        self.wants_file_io
    }
    fn on_file_operation_finished(&self, info: &FileOperationInfo) {
        self.files.lock().unwrap().push(info.clone());
    }
    fn on_db_shutdown_begin(&self) {
        self.note("shutdown");
    }
}

fn options(env: &Env, recorder: &Arc<Recorder>) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = env.clone();
    options.db.listeners = vec![Arc::clone(recorder) as Arc<dyn EventListener>];
    options
}

fn flush(db: &Db) {
    db.flush(&FlushOptions::default(), db.default_cf()).unwrap();
}

fn compact(db: &Db) {
    db.compact_range(&CompactRangeOptions::default(), db.default_cf(), None, None).unwrap();
}

/// The lines of the event log, after checking that each is one object with a time first.
fn event_log(env: &Env) -> Vec<String> {
    let log = String::from_utf8(read_file(&**env.fs(), Path::new("/db/LOG"), 1 << 20).unwrap()).unwrap();
    let lines = log.lines().filter_map(|line| line.split_once("EVENT_LOG_v1 ").map(|(_, line)| line.to_owned()));
    lines.inspect(|line| assert!(line.starts_with("{\"time_micros\": ") && line.ends_with('}'), "{line}")).collect()
}

#[test]
fn events_come_in_rocksdbs_order_and_say_what_happened() {
    let (env, recorder) = (Env::memory(), Arc::new(Recorder::default()));
    let db = Db::open("/db", options(&env, &recorder)).unwrap();
    assert!(recorder.db.set(db.clone()).is_ok());
    recorder.take();
    for round in ["one", "two"] {
        db.put("key", round).unwrap();
        db.delete("other").unwrap();
        flush(&db);
    }
    // The last event of a flush comes after those who wait for the flush were woken.
    db.wait_for_compact().unwrap();
    let one_flush =
        ["sealed 2 entries, 1 deletes", "flush begin", "table started Flush", "table created Flush", "flush completed"];
    assert_eq!(recorder.take(), [one_flush, one_flush].concat());
    compact(&db);
    assert_eq!(
        recorder.take(),
        [
            "compaction begin",
            "subcompaction 0 begin",
            "table started Compaction",
            "table created Compaction",
            "subcompaction 0 completed",
            "compaction completed",
            "table deleted",
            "table deleted",
        ]
    );

    let flushes = recorder.flushes.lock().unwrap().clone();
    let [first, second] = flushes.as_slice() else { panic!("{flushes:?}") };
    assert_eq!((first.smallest_sequence, first.largest_sequence), (1, 2));
    assert_eq!((second.smallest_sequence, second.largest_sequence), (3, 4));
    assert!(first.job < second.job && first.thread_id > 0 && first.reason == FlushReason::ManualFlush);
    let properties = second.table_properties.as_ref().unwrap();
    assert_eq!((properties.num_entries, properties.num_deletions), (2, 1));

    let compactions = recorder.compactions.lock().unwrap().clone();
    let [compaction] = compactions.as_slice() else { panic!("{compactions:?}") };
    assert_eq!(compaction.reason, CompactionReason::ManualCompaction);
    assert_eq!((compaction.base_input_level, compaction.num_l0_files), (0, 2));
    let numbers = |files: &[CompactionFileInfo]| files.iter().map(|file| file.file_number).collect::<Vec<_>>();
    assert_eq!(numbers(&compaction.input_files), [second.file_number, first.file_number]);
    assert_eq!(compaction.input_files[1].file_path, first.file_path);
    let [output] = compaction.output_files.as_slice() else { panic!("{compaction:?}") };
    assert_eq!(output.level, compaction.output_level);
    assert_eq!(compaction.table_properties[&output.file_path].num_entries, 1);
    let stats = compaction.stats;
    assert_eq!((stats.num_input_files, stats.num_output_files), (2, 1));
    assert_eq!((stats.num_input_records, stats.num_output_records), (4, 1));
    assert_eq!((stats.num_input_deletion_records, stats.is_manual_compaction), (2, true));

    let created = recorder.created.lock().unwrap().clone();
    assert_eq!(created.len(), 3);
    assert!(created.iter().all(|info| info.error.is_none() && info.file_size > 0 && info.db_path == Path::new("/db")));
    assert_eq!(created[0].file_path, first.file_path);
    let deleted = recorder.deleted.lock().unwrap().clone();
    assert!(deleted.iter().all(|info| info.error.is_none() && info.job == compaction.job), "{deleted:?}");

    let log = event_log(&env);
    let events: Vec<&str> =
        log.iter().filter_map(|line| line.split("\"event\": \"").nth(1)?.split('"').next()).collect();
    let of_flush = ["flush_started", "table_file_creation", "flush_finished"];
    let of_compaction = ["compaction_started", "table_file_creation", "compaction_finished"];
    let deletions = ["table_file_deletion"; 2];
    assert_eq!(events, [&of_flush[..], &of_flush, &of_compaction, &deletions].concat());
    let started = &log[6];
    let (a, b) = (second.file_number, first.file_number);
    let members = format!(
        "\"job\": {}, \"event\": \"compaction_started\", \"cf_name\": \"default\", \"compaction_reason\": \
         \"ManualCompaction\", \"files_L0\": [{a}, {b}], \"score\": -1, \"input_data_size\": {}, \
         \"oldest_snapshot_seqno\": -1}}",
        compaction.job, stats.total_input_bytes
    );
    assert!(started.ends_with(&members), "{started}\n{members}");
    assert!(log[7].contains("\"num_entries\": 1,") && log[7].ends_with("\"status\": \"OK\"}"), "{}", log[7]);
    let finished = format!("\"output_level\": {}, \"num_output_files\": 1, ", compaction.output_level);
    assert!(log[8].contains(&finished) && log[8].contains("\"lsm_state\": [0, "), "{}", log[8]);
}

#[test]
fn a_split_compaction_tells_of_every_part_and_a_trivial_move_of_none() {
    let (env, recorder) = (Env::memory(), Arc::new(Recorder::default()));
    let mut options = options(&env, &recorder);
    options.cf.target_file_size_base = 16 << 10;
    options.cf.compression = firn_format::compression::CompressionType::None;
    let db = Db::open("/db", options).unwrap();
    for _ in 0..2 {
        for i in 0..2000 {
            db.put(format!("key{i:06}"), [b'v'; 100]).unwrap();
        }
        flush(&db);
    }
    recorder.take();
    let split = CompactRangeOptions { max_subcompactions: 3, ..CompactRangeOptions::default() };
    db.compact_range(&split, db.default_cf(), None, None).unwrap();
    let lines = recorder.take();
    let count = |text: &str| lines.iter().filter(|line| line.starts_with(text)).count();
    assert!(count("subcompaction 2 begin") == 1 && count("subcompaction 2 completed") == 1, "{lines:?}");
    db.put("zzz", "beyond all others").unwrap();
    flush(&db);
    recorder.take();
    compact(&db);
    let lines = recorder.take();
    let moved = recorder.compactions.lock().unwrap().iter().filter(|info| info.stats.num_output_records == 0).count();
    assert!(moved > 0 && lines.iter().all(|line| line.starts_with("compaction ")), "{lines:?}");
    let moved = recorder.compactions.lock().unwrap().last().unwrap().clone();
    assert_eq!(moved.output_files.len(), moved.input_files.len());
    assert!(event_log(&env).iter().any(|line| line.contains("\"event\": \"trivial_move\", \"destination_level\": ")));
}

#[test]
fn stalls_handles_and_the_shutdown_are_told() {
    let (env, recorder) = (Env::memory(), Arc::new(Recorder::default()));
    let mut options = options(&env, &recorder);
    options.cf.disable_auto_compactions = false;
    options.cf.level0_file_num_compaction_trigger = 2;
    options.cf.level0_slowdown_writes_trigger = 2;
    options.cf.level0_stop_writes_trigger = 4;
    let db = Db::open("/db", options).unwrap();
    let other = db.create_cf("other", ColumnFamilyOptions::default()).unwrap();
    let clone = other.clone();
    recorder.take();
    drop(other);
    assert!(recorder.take().is_empty());
    drop(clone);
    assert_eq!(recorder.take(), ["handle of other goes"]);
    for round in 0..2 {
        db.put("key", round.to_string()).unwrap();
        flush(&db);
    }
    db.wait_for_compact().unwrap();
    let stalls = recorder.stalls.lock().unwrap().clone();
    let conditions: Vec<_> = stalls.iter().map(|info| (info.previous, info.current)).collect();
    use WriteStallCondition::{Delayed, Normal};
    assert_eq!(conditions, [(Normal, Delayed), (Delayed, Normal)]);
    assert_eq!(stalls[0].column_family, "default");
    recorder.take();
    drop(db);
    assert_eq!(recorder.take(), ["shutdown", "handle of default goes"]);
}

#[test]
fn a_listener_is_told_of_errors_and_may_take_them_away() {
    for forgives in [false, true] {
        let fs = Arc::new(FaultFileSystem::new(Arc::clone(Env::memory().fs())));
        let env = Env::with_file_system(Arc::clone(&fs) as Arc<_>);
        let recorder = Arc::new(Recorder { forgives, ..Recorder::default() });
        let db = Db::open("/db", options(&env, &recorder)).unwrap();
        db.put("key", "value").unwrap();
        recorder.take();
        let fault = Fault::new(Effect::Fail(io_error())).with_operations([Operation::Append]).with_path(".sst");
        fs.inject(fault);
        let flushed = db.flush(&FlushOptions { wait: !forgives, ..FlushOptions::default() }, db.default_cf());
        if forgives {
            flushed.unwrap();
            while !recorder.lines.lock().unwrap().iter().any(|line| line.starts_with("background error")) {
                env.clock().sleep_micros(1000);
            }
            db.put("key", "goes on").unwrap();
        } else {
            assert_eq!(flushed.unwrap_err().severity(), Severity::Fatal);
            assert!(db.put("key", "goes on").is_err());
        }
        let lines = recorder.take();
        assert!(lines.contains(&"background error FlushNoWal Fatal".to_owned()), "{lines:?}");
        let failed = recorder.created.lock().unwrap().clone();
        assert!(failed[0].error.is_some() && failed[0].file_size == 0);
        assert!(event_log(&env).iter().any(|line| line.contains("\"status\": \"IO error: ")));
    }
}

/// Panics where it is told to.
struct Panicking(&'static str);

impl EventListener for Panicking {
    fn on_flush_begin(&self, _: &FlushJobInfo) {
        assert_ne!(self.0, "flush begin");
    }
    fn on_flush_completed(&self, _: &FlushJobInfo) {
        assert_ne!(self.0, "flush completed");
    }
    fn on_table_file_created(&self, info: &TableFileCreationInfo) {
        assert!(self.0 != "table created" || info.reason != TableCreationReason::Compaction);
    }
}

#[test]
fn a_database_whose_listener_panics_still_closes_and_keeps_what_it_has() {
    for place in ["flush begin", "flush completed", "table created"] {
        let env = Env::memory();
        let mut options = options(&env, &Arc::default());
        options.db.listeners = vec![Arc::new(Panicking(place)) as Arc<dyn EventListener>];
        options.cf.level0_file_num_compaction_trigger = 2;
        let db = Db::open("/db", options.clone()).unwrap();
        for round in 0..3 {
            // Two keys: tables that hold one could be moved without a compaction.
            if db.put("key", "value").and_then(|()| db.put("other", "value")).is_err() {
                assert!(round > 0);
                break;
            }
            let flushed = db.flush(&FlushOptions::default(), db.default_cf());
            assert!(flushed.is_ok() || place != "table created" || round > 0, "{place}: {flushed:?}");
        }
        // The job that panicked has ended as far as anybody can see, and its error stays.
        let waited = db.wait_for_compact();
        let error = waited.expect_err(place);
        assert!(error.message().ends_with("panicked"), "{place}: {error}");
        drop(db);
        options.db.listeners.clear();
        assert!(Db::open("/db", options).unwrap().get("key").unwrap().is_some(), "{place}");
    }
}

#[test]
fn operations_on_files_are_told_when_wanted() {
    let (env, recorder) = (Env::memory(), Arc::new(Recorder { wants_file_io: true, ..Recorder::default() }));
    let db = Db::open("/db", options(&env, &recorder)).unwrap();
    db.put("key", "value").unwrap();
    flush(&db);
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    db.close().unwrap();
    let files = recorder.files.lock().unwrap().clone();
    let has = |operation, part: &str| {
        files.iter().any(|info| info.operation == operation && info.path.to_string_lossy().contains(part))
    };
    for (operation, part) in [
        (FileOperation::Append, ".log"),
        (FileOperation::Append, "MANIFEST"),
        (FileOperation::Append, ".sst"),
        (FileOperation::Sync, ".sst"),
        (FileOperation::Close, ".sst"),
        (FileOperation::Read, ".sst"),
    ] {
        assert!(has(operation, part), "{operation:?} of {part}");
    }
    assert!(!files.iter().any(|info| info.path.ends_with("LOG")));
    assert!(files.iter().all(|info| info.error.is_none() && info.start_micros > 0));
    let quiet = Arc::new(Recorder::default());
    let weak: Weak<Recorder> = Arc::downgrade(&quiet);
    drop(Db::open("/db", options(&env, &quiet)).unwrap());
    assert!(quiet.files.lock().unwrap().is_empty());
    drop(quiet);
    for _ in 0..3000 {
        if weak.strong_count() == 0 {
            return;
        }
        // A thread of the database may be about to let go.
        env.clock().sleep_micros(1000);
    }
    panic!("a closed database keeps its listeners");
}
