use super::*;
use crate::write::WriteBatch;
use crate::write::wal::{WalFormat, WalWriter};
use firn_env::Env;
use firn_format::log::LogCompression;
use std::path::PathBuf;

const MODES: [RecoveryMode; 4] = [
    RecoveryMode::TolerateCorruptedTailRecords,
    RecoveryMode::AbsoluteConsistency,
    RecoveryMode::PointInTime,
    RecoveryMode::SkipAnyCorruptedRecords,
];

fn options(mode: RecoveryMode) -> ReplayOptions {
    ReplayOptions { mode, paranoid_checks: true, ..ReplayOptions::default() }
}

fn path(number: u64) -> PathBuf {
    PathBuf::from(format!("/{number:06}.log"))
}

/// Writes a log with one single-put batch per `(key, sequence)`.
fn write_log(env: &Env, number: u64, batches: &[(&str, u64)]) -> WalWriter {
    let file = env.fs().new_writable_file(&path(number), &FileOptions::default()).unwrap();
    let mut wal = WalWriter::new(file, WalFormat { number: FileNumber(number), ..WalFormat::default() }).unwrap();
    for &(key, sequence) in batches {
        let mut batch = WriteBatch::new();
        if !key.is_empty() {
            batch.put(key, "v").unwrap();
        }
        let parts = std::iter::once(batch.record_bytes());
        wal.append_group(SequenceNumber(sequence), batch.count(), batch.record_bytes().len(), parts).unwrap();
    }
    wal.flush().unwrap();
    wal
}

fn damage(env: &Env, number: u64, change: impl FnOnce(&mut Vec<u8>)) {
    let size = env.fs().file_size(&path(number)).unwrap() as usize;
    let mut bytes = vec![0; size];
    env.fs().new_sequential_file(&path(number), &FileOptions::default()).unwrap().read(&mut bytes).unwrap();
    change(&mut bytes);
    let mut file = env.fs().new_writable_file(&path(number), &FileOptions::default()).unwrap();
    file.append(&bytes).unwrap();
    file.close().unwrap();
}

/// Keys applied, or the message that fails the opening.
fn replay(env: &Env, numbers: &[u64], options: ReplayOptions) -> (Result<String, String>, WalReplay) {
    let mut replay = WalReplay::new(options);
    let mut keys = String::new();
    for &number in numbers {
        let result = replay.replay(&**env.fs(), &path(number), FileNumber(number), &mut |batch| {
            let decoded = WriteBatch::from_data(batch.data).unwrap();
            for record in decoded.records() {
                if let firn_format::batch::Record::Put { key, .. } = record.unwrap() {
                    keys += std::str::from_utf8(key).unwrap();
                }
            }
            Ok(Ok(batch.sequence.plus(u64::from(decoded.count()))))
        });
        if let Err(error) = result {
            assert!(error.file().is_some() && error.offset().is_some(), "{error}");
            return (Err(error.message().to_owned()), replay);
        }
    }
    (Ok(keys), replay)
}

#[test]
fn one_log() {
    let check = |batches: &[(&str, u64)], change: &dyn Fn(&mut Vec<u8>), expected: [Result<&str, &str>; 4]| {
        let env = Env::memory();
        drop(write_log(&env, 4, batches));
        damage(&env, 4, change);
        for (mode, expected) in MODES.into_iter().zip(expected) {
            let (result, _) = replay(&env, &[4], options(mode));
            assert_eq!(result.as_deref().map_err(String::as_str), expected, "{mode:?}");
        }
    };
    let abc = [("a", 1), ("b", 2), ("c", 3)];
    check(&abc, &|_| {}, [Ok("abc"); 4]);
    check(&abc, &Vec::clear, [Ok(""); 4]);
    check(&abc, &|log| log.extend([0; 3]), [Ok("abc"), Err("truncated header"), Ok("abc"), Ok("abc")]);
    check(&abc, &|log| log.truncate(log.len() - 3), [Ok("ab"), Err("truncated record body"), Ok("ab"), Ok("ab")]);
    let flip = |log: &mut Vec<u8>| log[25 + 15] ^= 1;
    check(&abc, &flip, [Err("checksum mismatch"), Err("checksum mismatch"), Ok("a"), Ok("a")]);
    check(&[("a", 1), ("b", 5), ("c", 6)], &|_| {}, [Ok("abc"); 4]);
    let env = Env::memory();
    drop(write_log(&env, 4, &[("a", 5), ("b", 2)]));
    for mode in MODES {
        let (result, _) = replay(&env, &[4], options(mode));
        assert!(result.unwrap_err().starts_with("Sequence number is being set backwards during recovery"));
    }
}

#[test]
fn batches_that_do_not_decode_fail_in_every_mode() {
    let env = Env::memory();
    let mut wal = write_log(&env, 4, &[("a", 1)]);
    let mut bad = batch::header(SequenceNumber(2), 1).to_vec();
    bad.push(0x63);
    wal.append_batch(&bad).unwrap();
    wal.flush().unwrap();
    for mode in MODES {
        assert_eq!(replay(&env, &[4], options(mode)).0, Err("unknown WriteBatch tag: 99".to_owned()));
    }
}

#[test]
fn records_too_small_for_a_header() {
    let env = Env::memory();
    let mut wal = write_log(&env, 4, &[("a", 1)]);
    wal.append_batch(b"short").unwrap();
    wal.append_batch(&batch::header(SequenceNumber(1 << 56), 0)).unwrap();
    wal.flush().unwrap();
    let small = || Err("log record too small".to_owned());
    for (mode, expected) in MODES.into_iter().zip([small(), small(), Ok("a".to_owned()), Ok("a".to_owned())]) {
        assert_eq!(replay(&env, &[4], options(mode)).0, expected);
    }
}

#[test]
fn only_corruption_counts_as_damage() {
    let env = Env::memory();
    drop(write_log(&env, 4, &[("a", 1), ("b", 2), ("c", 3)]));
    let run = |mode, outcome: Result<Error>| {
        let mut applied = String::new();
        let result =
            WalReplay::new(options(mode)).replay(&**env.fs(), &path(4), FileNumber(4), &mut |batch| match batch
                .sequence
                .0
            {
                2 => outcome.clone().map(Err),
                sequence => {
                    applied += &sequence.to_string();
                    Ok(Ok(SequenceNumber(sequence + 1)))
                }
            });
        result.map(|_| applied).map_err(|error| error.kind())
    };
    let outcomes = MODES.map(|mode| run(mode, Ok(Error::corruption("the end comes before the start"))));
    let failed = Err(ErrorKind::Corruption);
    assert_eq!(outcomes, [failed.clone(), failed, Ok("1".to_owned()), Ok("13".to_owned())]);
    // The record is sound, and what it needs may be there the next time.
    for wanting in [Error::invalid_argument("no merge operator"), Error::not_supported("prepared"), Error::io_error("")]
    {
        let kind = wanting.kind();
        assert_eq!(MODES.map(|mode| run(mode, Ok(wanting.clone()))), [kind; 4].map(Err));
    }
    let outcomes = MODES.map(|mode| run(mode, Err(Error::corruption("a flush in between"))));
    assert_eq!(outcomes, [const { Err(ErrorKind::Corruption) }; 4], "what failed is not the WAL");
}

#[test]
fn two_logs_with_a_torn_end_of_the_first() {
    let check = |second: &[(&str, u64)], expected: [Result<&str, &str>; 4], still_stopped: bool| {
        let env = Env::memory();
        drop(write_log(&env, 4, &[("a", 1), ("b", 2), ("c", 3)]));
        damage(&env, 4, |log| log.truncate(log.len() - 2));
        drop(write_log(&env, 8, second));
        for (mode, expected) in MODES.into_iter().zip(expected) {
            let (result, replay) = replay(&env, &[4, 8], options(mode));
            assert_eq!(result.as_deref().map_err(String::as_str), expected, "{mode:?}");
            if mode == RecoveryMode::PointInTime {
                assert_eq!((replay.is_stopped(), replay.stopped_at()), (still_stopped, Some(FileNumber(4))));
                let next = replay.next_sequence().unwrap();
                assert_eq!(replay.resume_marker(), Some(batch::header(next, 0)));
            } else {
                assert_eq!(replay.resume_marker(), None);
            }
        }
    };
    let torn = Err("truncated record body");
    check(&[("d", 3), ("e", 4)], [Ok("abde"), torn, Ok("abde"), Ok("abde")], false);
    check(&[("d", 4)], [Ok("abd"), torn, Ok("ab"), Ok("abd")], true);
    check(&[("", 3), ("d", 3)], [Ok("abd"), torn, Ok("abd"), Ok("abd")], false);
}

#[test]
fn nothing_replayed_before_the_damage_leaves_no_place_to_resume() {
    let env = Env::memory();
    drop(write_log(&env, 4, &[("a", 1)]));
    damage(&env, 4, |log| log[8] ^= 1);
    drop(write_log(&env, 8, &[("b", 2)]));
    let (result, replay) = replay(&env, &[4, 8], options(RecoveryMode::PointInTime));
    assert_eq!(result, Ok(String::new()));
    assert!(replay.is_stopped() && replay.resume_marker().is_none());
}

#[test]
fn without_paranoid_checks_damage_is_skipped() {
    let env = Env::memory();
    let mut wal = write_log(&env, 4, &[("a", 1)]);
    wal.append_batch(b"short").unwrap();
    wal.append_batch(write_batch(2).data()).unwrap();
    wal.flush().unwrap();
    let lax = ReplayOptions { paranoid_checks: false, ..options(RecoveryMode::PointInTime) };
    assert_eq!(replay(&env, &[4], lax).0, Ok("ak".to_owned()));
}

fn write_batch(sequence: u64) -> WriteBatch {
    let mut data = batch::header(SequenceNumber(sequence), 1).to_vec();
    batch::append_put(&mut data, 0, b"k", b"v");
    WriteBatch::from_data(data).unwrap()
}

#[test]
fn predecessors_are_checked() {
    let check_reserved =
        |change: &dyn Fn(&mut PredecessorInfo), numbers: &[u64], expected: Result<&str, &str>, reserved: bool| {
            let env = Env::memory();
            let mut info = write_log(&env, 4, &[("a", 1), ("b", 2)]).as_predecessor();
            let reserved_bytes = if reserved { 65536 } else { info.size_bytes };
            change(&mut info);
            let file = env.fs().new_writable_file(&path(8), &FileOptions::default()).unwrap();
            let mut wal = WalWriter::new(file, WalFormat { number: FileNumber(8), ..WalFormat::default() }).unwrap();
            wal.append_predecessor(&info).unwrap();
            wal.append_batch(write_batch(3).data()).unwrap();
            wal.flush().unwrap();
            // A kill leaves the space that the writer of the first log had reserved.
            env.fs().truncate(&path(4), reserved_bytes).unwrap();
            let absolute = ReplayOptions { verify_predecessors: true, ..options(RecoveryMode::AbsoluteConsistency) };
            let (result, _) = replay_numbers(&env, numbers, absolute);
            match (&result, expected) {
                (Err(message), Err(start)) => assert!(message.starts_with(start), "{message}"),
                _ => assert_eq!(result.as_deref().map_err(String::as_str), expected),
            }
            let ignoring = ReplayOptions { verify_predecessors: false, ..absolute };
            assert!(replay_numbers(&env, numbers, ignoring).0.is_ok());
            if expected.is_err() {
                let stopping = ReplayOptions { mode: RecoveryMode::PointInTime, ..absolute };
                let (_, replay) = replay_numbers(&env, numbers, stopping);
                assert_eq!(replay.stopped_at(), Some(FileNumber(info.log_number)));
            }
        };
    let check = |change: &dyn Fn(&mut PredecessorInfo), numbers: &[u64], expected: Result<&str, &str>| {
        check_reserved(change, numbers, expected, false);
        check_reserved(change, numbers, expected, true);
    };
    check(&|_| {}, &[4, 8], Ok("abk"));
    check(&|_| {}, &[8], Err("Missing WAL of log number 4"));
    check(&|info| info.log_number = 3, &[4, 8], Err("Mismatched predecessor log number of WAL file"));
    check(&|info| info.last_sequence = 1, &[4, 8], Err("Mismatched last sequence number recorded in the WAL"));
    check(&|info| info.size_bytes += 1, &[4, 8], Err("Mismatched size of the WAL of log number 4"));
}

/// As [`replay`], for errors that are about a whole file.
fn replay_numbers(env: &Env, numbers: &[u64], options: ReplayOptions) -> (Result<String, String>, WalReplay) {
    let mut replay = WalReplay::new(options);
    let mut keys = String::new();
    for &number in numbers {
        let result = replay.replay(&**env.fs(), &path(number), FileNumber(number), &mut |batch| {
            for record in WriteBatch::from_data(batch.data)?.records() {
                if let firn_format::batch::Record::Put { key, .. } = record? {
                    keys += std::str::from_utf8(key).unwrap();
                }
            }
            Ok(Ok(batch.sequence.plus(1)))
        });
        if let Err(error) = result {
            return (Err(error.message().to_owned()), replay);
        }
    }
    (Ok(keys), replay)
}

#[test]
fn groups_round_trip_through_every_format() {
    for compression in [LogCompression::None, LogCompression::Zstd] {
        for recyclable in [false, true] {
            let env = Env::memory();
            let file = env.fs().new_writable_file(&path(4), &FileOptions::default()).unwrap();
            let mut wal = WalWriter::new(file, WalFormat { number: FileNumber(4), recyclable, compression }).unwrap();
            assert!(wal.is_empty());
            wal.append_timestamp_sizes(&[(1, 0), (2, 8)]).unwrap();
            let size = wal.size_bytes();
            wal.append_timestamp_sizes(&[(2, 8)]).unwrap();
            assert_eq!(wal.size_bytes(), size, "a size is recorded once");
            let mut sequence = SequenceNumber(1);
            for round in 0..50u32 {
                let mut batches = [WriteBatch::new(), WriteBatch::new(), WriteBatch::new()];
                for (index, batch) in batches.iter_mut().enumerate() {
                    batch.put(format!("{round}-{index}"), vec![7u8; 997 * (round as usize % 40)]).unwrap();
                }
                let bytes = batches.iter().map(|batch| batch.record_bytes().len()).sum();
                wal.append_group(sequence, 3, bytes, batches.iter().map(WriteBatch::record_bytes)).unwrap();
                sequence = sequence.plus(3);
            }
            assert_eq!(wal.last_sequence(), SequenceNumber(148));
            wal.sync(false).unwrap();
            wal.close().unwrap();
            let mut count = 0;
            let mut replay = WalReplay::new(options(RecoveryMode::AbsoluteConsistency));
            let log = replay
                .replay(&**env.fs(), &path(4), FileNumber(4), &mut |batch| {
                    assert_eq!(batch.timestamp_sizes, [(2, 8)]);
                    count += batch::count(batch.data);
                    Ok(Ok(batch.sequence.plus(3)))
                })
                .unwrap();
            assert_eq!((log.batches, count, replay.next_sequence()), (50, 150, Some(sequence)));
        }
    }
}

/// Reads every log of the golden databases in every mode.
#[test]
fn golden_logs() {
    let env = Env::posix();
    let mut logs = 0;
    for directory in firndb_testing::golden_databases() {
        let kind = firndb_testing::golden_name(&directory);
        for name in env.fs().children(&directory).unwrap() {
            let Some(parsed) = firn_format::filename::parse(&name) else { continue };
            if parsed.kind != firn_format::filename::FileKind::Wal {
                continue;
            }
            for mode in MODES {
                let mut replay = WalReplay::new(options(mode));
                let log = replay
                    .replay(&**env.fs(), &directory.join(&name), parsed.number, &mut |batch| {
                        // Sequences by batch (write-prepared transactions) advance by less than the count.
                        Ok(Ok(batch.sequence))
                    })
                    .unwrap_or_else(|error| panic!("{kind}: {mode:?}: {error}"));
                assert!(log.notices.is_empty(), "{kind}: {mode:?}: {:?}", log.notices);
                if kind.contains("wal-") {
                    assert!(log.batches > 0, "{kind}/{name}");
                }
            }
            logs += 1;
        }
    }
    assert!(logs > 100, "{logs}");
}
