//! Changes whose every file-system operation fails once.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_env::fault::{Effect, Fault, FaultFileSystem, Operation, io_error};
use firn_env::sync::Mutex;
use firn_env::{Env, FileSystem};
use firn_error::Result;
use firn_format::filename;
use firn_format::key::{FileNumber, InternalKey, SequenceNumber, ValueType};
use firn_format::version_edit::{NewFile, VersionEdit};

use super::*;

/// The operations by which a change gets to the disk.
const OPERATIONS: [Operation; 6] = [
    Operation::Create,
    Operation::Append,
    Operation::Sync,
    Operation::Rename,
    Operation::OpenDirectory,
    Operation::SyncDirectory,
];

struct Holder(VersionSet);

impl HoldsVersions for Holder {
    fn versions(&mut self) -> &mut VersionSet {
        &mut self.0
    }
}

struct Database {
    plain: Arc<dyn FileSystem>,
    faulty: FaultFileSystem,
    set: Mutex<Holder>,
}

impl Database {
    /// A database with table 10 on level 1.
    fn new() -> Self {
        let plain = Env::memory().fs().clone();
        plain.create_dir(Path::new("/db")).unwrap();
        create_database(&*plain, Path::new("/db"), None).unwrap();
        let faulty = FaultFileSystem::new(plain.clone());
        let set = Mutex::new(Holder(recover(Arc::new(faulty.clone())).unwrap()));
        let database = Self { plain, faulty, set };
        database.add_table(10).unwrap();
        database
    }

    fn add_table(&self, number: u64) -> Result<Installed> {
        let path = Path::new("/db").join(filename::table(FileNumber(number)));
        firn_env::write_file(&*self.plain, &path, b"table", true)?;
        let key =
            |text: &str| InternalKey::new(format!("{number}{text}").as_bytes(), SequenceNumber(1), ValueType::Value);
        let mut edit = VersionEdit::default();
        edit.add_file(
            1,
            NewFile {
                number: FileNumber(number),
                file_size: 5,
                smallest: key("a"),
                largest: key("z"),
                smallest_sequence: SequenceNumber(1),
                largest_sequence: SequenceNumber(1),
                epoch_number: 1,
                ..NewFile::default()
            },
        );
        VersionSet::log_and_apply(&mut self.set.lock(), edit.into())
    }

    fn tables(&self) -> Vec<u64> {
        tables_of(&self.set.lock().0)
    }
}

fn recover(fs: Arc<dyn FileSystem>) -> Result<VersionSet> {
    let spec = FamilySpec {
        name: "default".into(),
        order: Default::default(),
        num_levels: 7,
        force_consistency_checks: true,
        allow_ingest_behind: false,
        paths: vec![PathBuf::from("/db")],
    };
    VersionSet::recover(VersionSetOptions::new(fs, "/db"), vec![spec], OpenMode::ReadWrite).map(|(set, _)| set)
}

fn tables_of(set: &VersionSet) -> Vec<u64> {
    set.family(0).unwrap().current().all_files().map(|(_, file)| file.number.0).collect()
}

/// Lets every operation of a change fail once: `reopened` says that the change is the first one after opening, which starts
/// a new MANIFEST. Returns how many operations a change has.
fn fail_each_operation(reopened: bool) -> u64 {
    for operations in 0.. {
        let database = Database::new();
        if reopened {
            database.set.lock().0 = recover(Arc::new(database.faulty.clone())).unwrap();
        }
        // A failed append leaves a part behind.
        let fault = Fault::new(Effect::Tear(20, io_error()));
        database.faulty.inject(fault.with_operations(OPERATIONS).with_pass(operations));
        let result = database.add_table(11);
        database.faulty.heal();
        if result.is_ok() {
            assert_eq!(database.tables(), [10, 11]);
            return operations;
        }
        let error = result.unwrap_err();
        assert!(error.message().contains("injected"), "{error}");
        assert_eq!(database.tables(), [10], "nothing is published after {error}");
        assert!(database.set.lock().0.obsolete().take_tables().is_empty(), "after {error}");

        // A crash now: recovery finds the state before the change or after it, and every file it needs was to be kept.
        let crashed = recover(database.plain.clone()).unwrap_or_else(|late| panic!("after {error}: {late}"));
        let found = tables_of(&crashed);
        assert!(found == [10] || found == [10, 11], "{found:?} after {error}");
        let live = database.set.lock().0.live_tables();
        assert!(found.iter().all(|number| live.contains(&FileNumber(*number))), "{live:?} after {error}");
        let manifest = read_current(&*database.plain, Path::new("/db")).unwrap();
        assert!(!database.set.lock().0.is_manifest_obsolete(manifest), "after {error}");

        // No crash: the next change starts a new MANIFEST and is all that happened.
        assert!(database.add_table(12).unwrap().new_manifest, "after {error}");
        assert_eq!(database.tables(), [10, 12]);
        assert_eq!(tables_of(&recover(database.plain.clone()).unwrap()), [10, 12], "after {error}");
        assert!(!database.set.lock().0.live_tables().contains(&FileNumber(11)));
    }
    0
}

#[test]
fn an_append_that_fails_publishes_nothing_and_is_not_appended_to() {
    assert_eq!(fail_each_operation(false), 2, "append and sync");
}

#[test]
fn a_new_manifest_that_fails_anywhere_leaves_a_database_that_opens() {
    assert!(fail_each_operation(true) >= 8, "create, appends, sync, temporary file, rename, directory");
}
