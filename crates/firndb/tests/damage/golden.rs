//! Copies of golden databases with one file cut short, emptied, zeroed or with a bit turned open to the contents that
//! RocksDB read, or to those of a write-ahead log that ends where the damage is, or are refused with an error that names
//! a file; never a panic, never other contents, never an endless read.

use std::collections::BTreeMap;
use std::path::Path;

use firn_env::Env;
use firndb::ErrorKind;
use firndb::Result;
use firndb::options::{LoadedOptions, WalRecoveryMode};
use firndb_testing::golden_databases;

use super::{Access, Contents, Damage, Files, check_error, loaded_options, put_files, read_all};

/// The default first: it is taken most often.
const MODES: [WalRecoveryMode; 4] = [
    WalRecoveryMode::PointInTimeRecovery,
    WalRecoveryMode::AbsoluteConsistency,
    WalRecoveryMode::TolerateCorruptedTailRecords,
    WalRecoveryMode::SkipAnyCorruptedRecords,
];

fn read_files(directory: &Path) -> Files {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| path.is_file());
    files.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(&path).unwrap())).collect()
}

/// Which damages a file gets, by a generator so that a failure can be replayed.
fn damages(length: usize, random: &mut impl FnMut() -> usize, rounds: usize) -> Vec<Damage> {
    let mut damages = vec![Damage::Cut(0)];
    if length == 0 {
        return damages;
    }
    for _ in 0..rounds {
        damages.push(Damage::Cut(random() % length));
        damages.push(Damage::Flip(random() % length));
        damages.push(Damage::Flip(length - 1 - random() % length.min(300)));
    }
    damages.push(Damage::Zero);
    damages
}

/// What the write-ahead log that is damaged at `start`, and those after it, leave: everything before the damage.
fn prefix_of_log(files: &Files, name: &str, start: usize, options: &LoadedOptions) -> Result<Contents> {
    let mut files = files.clone();
    files.retain(|other, _| !other.ends_with(".log") || other.as_str() <= name);
    files.get_mut(name).unwrap().truncate(start);
    read_all(&files, options, Access::ReadOnly, false)
}

#[test]
fn damaged_databases_are_refused_or_unharmed() {
    let rounds: usize = std::env::var("FIRN_DAMAGE_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize >> 8
    };
    let mut unplaced = BTreeMap::<String, usize>::new();
    let (mut databases, mut copies, mut refused) = (0, 0, 0);
    for directory in golden_databases() {
        let files = read_files(&directory);
        let env = Env::memory();
        put_files(&**env.fs(), &files);
        let options = loaded_options(&env).unwrap();
        // Kinds that are not supported are refused as a whole, which other tests see to.
        let Ok(original) = read_all(&files, &options, Access::ReadOnly, false) else { continue };
        let is_unchecked = directory.to_string_lossy().contains("checksum-none");
        databases += 1;
        let tables = files.keys().filter(|name| name.ends_with(".sst") || name.ends_with(".ldb")).count();
        for (name, bytes) in &files {
            let is_table = name.ends_with(".sst") || name.ends_with(".ldb");
            // Tables alone are damaged more thoroughly below this level; here a few of each database are enough.
            if is_table && rounds == 1 && random() % tables > 1 {
                continue;
            }
            for damage in damages(bytes.len(), &mut random, rounds) {
                let mode = MODES[if random() % 3 == 0 { random() % MODES.len() } else { 0 }];
                let context = format!("{}/{name} {damage}, {mode:?}", directory.display());
                let mut options = options.clone();
                options.db.wal_recovery_mode = mode;
                let mut damaged = files.clone();
                damaged.insert(name.clone(), damage.apply(bytes));
                let access = if random() % 2 == 0 { Access::ReadOnly } else { Access::ReadWrite };
                copies += 1;
                match read_all(&damaged, &options, access, is_unchecked) {
                    Ok(contents) if contents == original => {}
                    // A log without any record may as well be one that nobody wrote to; those after it count then.
                    Ok(_) if name.ends_with(".log") && matches!(damage, Damage::Cut(0) | Damage::Zero) => {}
                    // These modes promise less: records after the damage may be there, or none of it is noticed.
                    Ok(_)
                        if name.ends_with(".log")
                            && matches!(
                                mode,
                                WalRecoveryMode::SkipAnyCorruptedRecords
                                    | WalRecoveryMode::TolerateCorruptedTailRecords
                            ) => {}
                    Ok(contents) if name.ends_with(".log") => {
                        options.db.wal_recovery_mode = WalRecoveryMode::PointInTimeRecovery;
                        let prefix = prefix_of_log(&files, name, damage.start(), &options).unwrap();
                        assert!(contents == prefix, "{context}: neither all nor the prefix, {access:?}");
                    }
                    // The MANIFEST is a log too: one that ends early describes an earlier state of the database.
                    Ok(_) if name.starts_with("MANIFEST") && !matches!(damage, Damage::Flip(_)) => {}
                    // Nothing in these tables tells whether they are whole.
                    Ok(_) if is_table && is_unchecked => {}
                    Ok(_) => panic!("{context}: other contents, {access:?}"),
                    Err(error) => {
                        refused += 1;
                        check_error(&error, &context);
                        // A file that is not there has no places.
                        let has_place = error.offset().is_some() || error.kind() == ErrorKind::IoError;
                        if error.file().is_none() || !has_place {
                            let kind = name.trim_matches(|c: char| c.is_ascii_digit() || c == '-');
                            *unplaced.entry(format!("{kind}: {error}")).or_default() += 1;
                        }
                    }
                }
                if name.starts_with("OPTIONS") {
                    let env = Env::memory();
                    put_files(&**env.fs(), &damaged);
                    let _ = loaded_options(&env);
                }
            }
        }
    }
    println!("{copies} damaged copies of {databases} databases, {refused} refused");
    assert!(unplaced.is_empty(), "errors that name no file or no place in it: {unplaced:#?}");
}
