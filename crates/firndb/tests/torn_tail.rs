//! A process killed in the middle of an append to a mapped WAL: the file is longer than what was written, and ends in zeros
//! behind half a record. All recovery modes but the one that refuses any damage take what is whole.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{FS, Outcome, for_all, say};
use firn_env::FileSystem;
use firndb::options::WalRecoveryMode;
use firndb::{Db, ErrorKind, Options};

/// Logs are made of blocks of so many bytes.
const LOG_BLOCK_BYTES: usize = 32 << 10;

const MODES: [WalRecoveryMode; 4] = [
    WalRecoveryMode::TolerateCorruptedTailRecords,
    WalRecoveryMode::AbsoluteConsistency,
    WalRecoveryMode::PointInTimeRecovery,
    WalRecoveryMode::SkipAnyCorruptedRecords,
];

fn check(mode: WalRecoveryMode, value_bytes: usize) -> Outcome {
    let temp = tempfile::tempdir().unwrap();
    let (dir, copy) = (temp.path().join("db"), temp.path().join("copy"));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    let db = say("open", Db::open(&dir, options.clone()))?;
    for number in 0..20 {
        say("put", db.put(format!("key {number:02}"), vec![b'v'; 300]))?;
    }
    let whole = common::read_dir(&dir);
    let name = whole.keys().find(|name| name.ends_with(".log")).unwrap().clone();
    let used = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let before = used(&whole[&name]);
    say("put", db.put("torn", vec![b't'; value_bytes]))?;
    let bytes = common::read_dir(&dir)[&name].clone();
    let end = used(&bytes);
    if bytes.len() < end + 100 {
        return Err(format!("the WAL is not mapped: {} bytes, {end} used", bytes.len()));
    }
    // A copy reaches any byte, and the start of any block.
    let blocks = (before..end).filter(|at| at % LOG_BLOCK_BYTES == 0);
    let cuts = [before + 1, before + 5, before + 6, before + 7, before + 30, (before + end) / 2, end - 1];
    for cut in cuts.into_iter().chain(blocks) {
        common::copy_dir(&dir, &copy);
        let mut torn = bytes.clone();
        torn[cut..].fill(0);
        common::put_file(&copy.join(&name), &torn);
        options.db.wal_recovery_mode = mode;
        match Db::open(&copy, options.clone()) {
            Err(error) if mode == WalRecoveryMode::AbsoluteConsistency => {
                if error.kind() != ErrorKind::Corruption {
                    return Err(format!("cut at {}: {error}", cut - before));
                }
            }
            opened => {
                let db = say(
                    &format!("open of a WAL cut {} bytes into its last record of {}", cut - before, end - before),
                    opened,
                )?;
                let count = db.iter().count();
                if count != 20 {
                    return Err(format!("cut at {}: {count} entries", cut - before));
                }
                say("put", db.put("goes", "on"))?;
                say("close", db.close())?;
            }
        }
        for name in FS.children(&copy).unwrap() {
            FS.remove_file(&copy.join(name)).unwrap();
        }
        FS.remove_dir(&copy).unwrap();
    }
    Ok(())
}

/// What is damaged before the tail is damage in this mode, whatever follows.
#[test]
fn damage_before_further_records_is_no_torn_write() {
    let temp = tempfile::tempdir().unwrap();
    let (dir, copy) = (temp.path().join("db"), temp.path().join("copy"));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.wal_recovery_mode = WalRecoveryMode::TolerateCorruptedTailRecords;
    let db = Db::open(&dir, options.clone()).unwrap();
    for number in 0..200 {
        db.put(format!("key {number:03}"), vec![0; 1000]).unwrap();
    }
    let bytes = common::read_dir(&dir);
    let (name, wal) = bytes.iter().find(|(name, _)| name.ends_with(".log")).unwrap();
    // In the first block, whose rest is zeros then; more records follow in the next ones.
    let mut damaged = wal.clone();
    damaged[20_000..LOG_BLOCK_BYTES].fill(0);
    common::copy_dir(&dir, &copy);
    common::put_file(&copy.join(name), &damaged);
    assert_eq!(Db::open(&copy, options).unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn half_a_record_before_zeros_is_a_torn_write() {
    let cases = MODES.iter().flat_map(|mode| [100, 20_000, 100_000].map(|bytes| (*mode, bytes)));
    for_all(cases, |case| format!("{case:?}"), |(mode, bytes)| check(*mode, *bytes));
}
