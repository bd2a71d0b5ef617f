//! Changes whose every file-system operation fails once.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use firn_env::sync::Mutex;
use firn_env::{Directory, Env, FileLock, FileOptions, FileSystem, RandomAccessFile, SequentialFile, WritableFile};
use firn_error::{Error, Result};
use firn_format::filename;
use firn_format::key::{FileNumber, InternalKey, SequenceNumber, ValueType};
use firn_format::version_edit::{NewFile, VersionEdit};

use super::*;

/// Fails the operation at which the counter reaches zero, and all others while it is there.
#[derive(Clone, Debug)]
struct Fuse(Arc<AtomicI64>);

impl Fuse {
    fn burn(&self, operation: &str, path: &Path) -> Result<()> {
        if self.0.fetch_sub(1, Ordering::Relaxed) == 0 {
            return Err(Error::io_error(format!("injected: {operation}")).with_file(path));
        }
        Ok(())
    }

    fn set(&self, operations: i64) {
        self.0.store(operations, Ordering::Relaxed);
    }
}

/// A file system in memory whose writing operations may fail.
#[derive(Debug)]
struct FaultyFileSystem {
    inner: Arc<dyn FileSystem>,
    fuse: Fuse,
}

#[derive(Debug)]
struct FaultyFile {
    inner: Box<dyn WritableFile>,
    fuse: Fuse,
}

#[derive(Debug)]
struct FaultyDirectory {
    inner: Box<dyn Directory>,
    fuse: Fuse,
}

impl WritableFile for FaultyFile {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        let half = data.len() / 2;
        if let Err(error) = self.fuse.burn("append", self.inner.path()) {
            // A failed append may leave a part behind.
            self.inner.append(&data[..half])?;
            return Err(error);
        }
        self.inner.append(data)
    }
    fn flush(&mut self) -> Result<()> {
        self.inner.flush()
    }
    fn sync(&mut self) -> Result<()> {
        self.fuse.burn("sync", self.inner.path())?;
        self.inner.sync()
    }
    fn fsync(&mut self) -> Result<()> {
        self.fuse.burn("fsync", self.inner.path())?;
        self.inner.fsync()
    }
    fn truncate(&mut self, size: u64) -> Result<()> {
        self.inner.truncate(size)
    }
    fn close(&mut self) -> Result<()> {
        self.inner.close()
    }
    fn file_size(&self) -> u64 {
        self.inner.file_size()
    }
    fn path(&self) -> &Path {
        self.inner.path()
    }
}

impl Directory for FaultyDirectory {
    fn fsync(&self) -> Result<()> {
        self.fuse.burn("fsync directory", self.inner.path())?;
        self.inner.fsync()
    }
    fn path(&self) -> &Path {
        self.inner.path()
    }
}

impl FileSystem for FaultyFileSystem {
    fn name(&self) -> &'static str {
        "faulty"
    }
    fn new_sequential_file(&self, path: &Path, options: &FileOptions) -> Result<Box<dyn SequentialFile>> {
        self.inner.new_sequential_file(path, options)
    }
    fn new_random_access_file(&self, path: &Path, options: &FileOptions) -> Result<Arc<dyn RandomAccessFile>> {
        self.inner.new_random_access_file(path, options)
    }
    fn new_writable_file(&self, path: &Path, options: &FileOptions) -> Result<Box<dyn WritableFile>> {
        self.fuse.burn("create", path)?;
        let inner = self.inner.new_writable_file(path, options)?;
        Ok(Box::new(FaultyFile { inner, fuse: self.fuse.clone() }))
    }
    fn reopen_writable_file(&self, path: &Path, options: &FileOptions) -> Result<Box<dyn WritableFile>> {
        self.inner.reopen_writable_file(path, options)
    }
    fn reuse_writable_file(&self, path: &Path, old: &Path, options: &FileOptions) -> Result<Box<dyn WritableFile>> {
        self.inner.reuse_writable_file(path, old, options)
    }
    fn new_directory(&self, path: &Path) -> Result<Box<dyn Directory>> {
        self.fuse.burn("open directory", path)?;
        Ok(Box::new(FaultyDirectory { inner: self.inner.new_directory(path)?, fuse: self.fuse.clone() }))
    }
    fn file_exists(&self, path: &Path) -> Result<bool> {
        self.inner.file_exists(path)
    }
    fn is_directory(&self, path: &Path) -> Result<bool> {
        self.inner.is_directory(path)
    }
    fn children(&self, path: &Path) -> Result<Vec<String>> {
        self.inner.children(path)
    }
    fn remove_file(&self, path: &Path) -> Result<()> {
        self.inner.remove_file(path)
    }
    fn create_dir(&self, path: &Path) -> Result<()> {
        self.inner.create_dir(path)
    }
    fn create_dir_if_missing(&self, path: &Path) -> Result<()> {
        self.inner.create_dir_if_missing(path)
    }
    fn remove_dir(&self, path: &Path) -> Result<()> {
        self.inner.remove_dir(path)
    }
    fn file_size(&self, path: &Path) -> Result<u64> {
        self.inner.file_size(path)
    }
    fn modification_time_secs(&self, path: &Path) -> Result<u64> {
        self.inner.modification_time_secs(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.fuse.burn("rename", to)?;
        self.inner.rename(from, to)
    }
    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.link(from, to)
    }
    fn link_count(&self, path: &Path) -> Result<u64> {
        self.inner.link_count(path)
    }
    fn truncate(&self, path: &Path, size: u64) -> Result<()> {
        self.inner.truncate(path, size)
    }
    fn lock_file(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.inner.lock_file(path)
    }
    fn absolute_path(&self, path: &Path) -> Result<PathBuf> {
        self.inner.absolute_path(path)
    }
    fn free_space_bytes(&self, path: &Path) -> Result<u64> {
        self.inner.free_space_bytes(path)
    }
}

struct Holder(VersionSet);

impl HoldsVersions for Holder {
    fn versions(&mut self) -> &mut VersionSet {
        &mut self.0
    }
}

struct Database {
    plain: Arc<dyn FileSystem>,
    faulty: Arc<dyn FileSystem>,
    fuse: Fuse,
    set: Mutex<Holder>,
}

impl Database {
    /// A database with table 10 on level 1.
    fn new() -> Self {
        let plain = Env::memory().fs().clone();
        plain.create_dir(Path::new("/db")).unwrap();
        create_database(&*plain, Path::new("/db"), None).unwrap();
        let fuse = Fuse(Arc::new(AtomicI64::new(-1)));
        let faulty: Arc<dyn FileSystem> = Arc::new(FaultyFileSystem { inner: plain.clone(), fuse: fuse.clone() });
        let set = Mutex::new(Holder(recover(&faulty).unwrap()));
        let database = Self { plain, faulty, fuse, set };
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

fn recover(fs: &Arc<dyn FileSystem>) -> Result<VersionSet> {
    let spec = FamilySpec {
        name: "default".into(),
        order: Default::default(),
        num_levels: 7,
        force_consistency_checks: true,
        allow_ingest_behind: false,
        paths: vec![PathBuf::from("/db")],
    };
    VersionSet::recover(VersionSetOptions::new(fs.clone(), "/db"), vec![spec], OpenMode::ReadWrite).map(|(set, _)| set)
}

fn tables_of(set: &VersionSet) -> Vec<u64> {
    set.family(0).unwrap().current().all_files().map(|(_, file)| file.number.0).collect()
}

/// Lets every operation of a change fail once: `reopened` says that the change is the first one after opening, which starts
/// a new MANIFEST. Returns how many operations a change has.
fn fail_each_operation(reopened: bool) -> i64 {
    for operations in 0.. {
        let database = Database::new();
        if reopened {
            database.set.lock().0 = recover(&database.faulty).unwrap();
        }
        database.fuse.set(operations);
        let result = database.add_table(11);
        database.fuse.set(-1);
        if result.is_ok() {
            assert_eq!(database.tables(), [10, 11]);
            return operations;
        }
        let error = result.unwrap_err();
        assert!(error.message().contains("injected"), "{error}");
        assert_eq!(database.tables(), [10], "nothing is published after {error}");
        assert!(database.set.lock().0.obsolete().take_tables().is_empty(), "after {error}");

        // A crash now: recovery finds the state before the change or after it, and every file it needs was to be kept.
        let crashed = recover(&database.plain).unwrap_or_else(|late| panic!("after {error}: {late}"));
        let found = tables_of(&crashed);
        assert!(found == [10] || found == [10, 11], "{found:?} after {error}");
        let live = database.set.lock().0.live_tables();
        assert!(found.iter().all(|number| live.contains(&FileNumber(*number))), "{live:?} after {error}");
        let manifest = read_current(&*database.plain, Path::new("/db")).unwrap();
        assert!(!database.set.lock().0.is_manifest_obsolete(manifest), "after {error}");

        // No crash: the next change starts a new MANIFEST and is all that happened.
        assert!(database.add_table(12).unwrap().new_manifest, "after {error}");
        assert_eq!(database.tables(), [10, 12]);
        assert_eq!(tables_of(&recover(&database.plain).unwrap()), [10, 12], "after {error}");
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
