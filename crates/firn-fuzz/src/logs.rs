//! Logs, raw and framed by the target itself: a fuzzer does not find the checksums of records by chance.

use std::path::Path;

use firn_env::memory::MemoryFileSystem;
use firn_env::{FileSystem, write_file};
use firn_format::batch;
use firn_format::checksum::{crc32c, mask_crc32c};
use firn_format::comparator::InternalKeyComparator;
use firn_format::key::FileNumber;
use firn_format::log::{LogEncoder, LogFormat, LogReader, RecoveryMode, SliceSource};
use firn_format::version_edit::VersionEdit;
use firndb::version::{ColumnFamilyNames, FamilySpec, ManifestReplay, NoFileStats, OpenMode};
use firndb::write::replay::{ReplayOptions, WalReplay};

use crate::input::{flags, pieces};

/// The number that targets give to the log they read.
pub const LOG_NUMBER: u64 = 7;

const MODES: [RecoveryMode; 4] = [
    RecoveryMode::TolerateCorruptedTailRecords,
    RecoveryMode::AbsoluteConsistency,
    RecoveryMode::PointInTime,
    RecoveryMode::SkipAnyCorruptedRecords,
];

fn read_log(data: &[u8], log_number: u64, mode: RecoveryMode) {
    let mut reader = LogReader::new(SliceSource(data), log_number, mode);
    let (mut records, mut last_end) = (0, 0);
    loop {
        let more = reader.advance();
        let report = reader.take_report();
        assert!(report.is_none_or(|report| report.error.offset().is_some_and(|offset| offset <= data.len() as u64)));
        let _ = (reader.take_predecessor(), reader.timestamp_sizes(), reader.is_recycled(), reader.old_record_seen());
        match more {
            Ok(true) => {
                assert!(last_end <= reader.record_offset() && reader.record_offset() <= reader.record_end());
                assert!(reader.record_end() <= data.len() as u64);
                last_end = reader.record_end();
                records += 1;
                // Damage is reported between records, so that there are at most twice as many steps as headers.
                assert!(records <= data.len(), "more records than bytes");
            }
            Ok(false) => return,
            Err(error) => {
                assert!(error.offset().is_some(), "no offset in {error}");
                return;
            }
        }
    }
}

/// A log as it lies in a file, under each recovery mode.
pub fn log(data: &[u8]) {
    let (flags, data) = flags(data);
    let number = if flags & 4 == 0 { LOG_NUMBER } else { 0 };
    read_log(data, number, MODES[usize::from(flags & 3)]);
}

/// Fragments with checksums that match: each piece is a record type and a payload.
pub fn log_fragments(data: &[u8]) {
    let (flags, data) = flags(data);
    let mut log = Vec::new();
    for piece in pieces(data) {
        let Some((&kind, payload)) = piece.split_first() else {
            // An empty piece moves to the next block, as writers do.
            log.resize(log.len().next_multiple_of(firn_format::log::BLOCK_SIZE), 0);
            continue;
        };
        let mut checked = vec![kind];
        // The types whose headers carry the number of the log.
        if matches!(kind, 5..=8 | 11 | 131) {
            checked.extend_from_slice(&(LOG_NUMBER as u32 + u32::from(flags >> 7)).to_le_bytes());
        }
        checked.extend_from_slice(payload);
        log.extend_from_slice(&mask_crc32c(crc32c(&checked)).to_le_bytes());
        log.extend_from_slice(&(payload.len() as u16).to_le_bytes());
        log.extend_from_slice(&checked);
    }
    read_log(&log, LOG_NUMBER, MODES[usize::from(flags & 3)]);
}

/// Pieces framed as the records of a log.
pub fn framed(data: &[u8], format: LogFormat) -> Vec<u8> {
    let mut log = Vec::new();
    let mut encoder = LogEncoder::new(format).unwrap();
    encoder.start(&mut log);
    for piece in pieces(data) {
        encoder.append_record(&mut log, piece).unwrap();
    }
    log
}

/// A column family as it is opened with when nothing is configured.
pub fn family(name: &str) -> FamilySpec {
    FamilySpec {
        name: name.to_owned(),
        order: InternalKeyComparator::default(),
        num_levels: 7,
        force_consistency_checks: true,
        allow_ingest_behind: false,
        paths: vec!["/db".into()],
    }
}

/// Records of a MANIFEST, folded into a state.
pub fn manifest_fold(data: &[u8]) {
    let (flags, data) = flags(data);
    let mode = if flags & 1 == 0 { OpenMode::ReadWrite } else { OpenMode::ReadOnly };
    let mut replay = ManifestReplay::new(vec![family("default"), family("one"), family("two")]).unwrap();
    let mut names = ColumnFamilyNames::default();
    for piece in pieces(data) {
        let Ok(edit) = VersionEdit::decode(piece) else { return };
        let _ = names.add(&edit);
        if replay.add(edit).is_err() {
            return;
        }
    }
    let Ok(state) = replay.finish(mode, &NoFileStats) else { return };
    assert_eq!(state.families[0].id, 0, "the default column family comes first");
    let _ = names.into_names();
}

/// The replay of one or two WALs: raw, or batches that are framed here.
pub fn wal_replay(data: &[u8]) {
    let (flags, data) = flags(data);
    let fs = MemoryFileSystem::new();
    let (first, second) = if flags & 4 == 0 {
        (data, None)
    } else {
        let (first, second) = data.split_at(data.len() / 2);
        (first, Some(second))
    };
    let mut replay = WalReplay::new(ReplayOptions {
        mode: MODES[usize::from(flags & 3)],
        paranoid_checks: flags & 8 != 0,
        verify_predecessors: flags & 16 != 0,
        min_number: FileNumber(0),
    });
    let mut expected = None;
    for (number, data) in [(LOG_NUMBER, Some(first)), (LOG_NUMBER + 1, second)] {
        let Some(data) = data else { break };
        let format = LogFormat { log_number: number, recyclable: flags & 32 != 0, ..Default::default() };
        let log = if flags & 64 == 0 { data.to_vec() } else { framed(data, format) };
        let path = Path::new("/log");
        write_file(&fs as &dyn FileSystem, path, &log, false).unwrap();
        let replayed = replay.replay(&fs, path, FileNumber(number), &mut |batch| {
            batch::validate(batch.data).expect("only batches that decode are handed on");
            let next = batch.sequence.plus(batch::count(batch.data).into());
            expected = Some(next);
            Ok(Ok(next))
        });
        if let Err(error) = replayed {
            assert!(error.file().is_some(), "no file in {error}");
            return;
        }
        assert_eq!(replay.next_sequence(), expected);
    }
    let _ = (replay.stopped_at(), replay.is_stopped(), replay.resume_marker());
}
