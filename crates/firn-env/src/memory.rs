//! A file system in memory: a map from paths to contents.
//!
//! For tests, simulations and databases that need no disk. Paths are taken as absolute (`a/b` is `/a/b`), `.` and `..`
//! are resolved. Contents live as long as a name or an open file refers to them, as on a real file system.
//!
//! Always true here: a directory exists before the names in it; open files keep working after their name is gone.

use crate::sync::atomic::{AtomicU64, Ordering};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use firn_error::{Error, Result, SubCode};

use crate::file::{
    Directory, FileLock, FileOptions, FileSync, FileSystem, RandomAccessFile, SequentialFile, WritableFile,
};
use crate::sync::{Mutex, RwLock};

/// Files and directories in memory. Thread-safe.
#[derive(Debug, Default)]
pub struct MemoryFileSystem {
    tree: Mutex<Tree>,
    locks: Arc<Mutex<BTreeSet<PathBuf>>>,
}

#[derive(Debug, Default)]
struct Tree {
    files: BTreeMap<PathBuf, Arc<Contents>>,
    directories: BTreeSet<PathBuf>,
}

#[derive(Debug, Default)]
struct Contents {
    bytes: RwLock<Vec<u8>>,
    modified_secs: AtomicU64,
    links: AtomicU64,
}

impl Contents {
    fn new() -> Arc<Self> {
        let contents = Self::default();
        contents.touch();
        contents.links.store(1, Ordering::Relaxed);
        Arc::new(contents)
    }

    fn touch(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        self.modified_secs.store(now, Ordering::Relaxed);
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let bytes = self.bytes.read();
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let available = bytes.get(from..).unwrap_or_default();
        let count = available.len().min(buffer.len());
        let (Some(target), Some(source)) = (buffer.get_mut(..count), available.get(..count)) else { return 0 };
        target.copy_from_slice(source);
        count
    }
}

fn normalize(path: &Path) -> PathBuf {
    let mut result = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => result.push(name),
            Component::ParentDir => {
                result.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    result
}

fn missing(operation: &str, path: &Path) -> Error {
    Error::io_error(format!("{operation}: No such file or directory"))
        .with_subcode(SubCode::PathNotFound)
        .with_file(path)
}

fn failure(operation: &str, reason: &str, path: &Path) -> Error {
    Error::io_error(format!("{operation}: {reason}")).with_file(path)
}

impl Tree {
    fn has_directory(&self, path: &Path) -> bool {
        path == Path::new("/") || self.directories.contains(path)
    }

    fn file(&self, operation: &str, path: &Path) -> Result<&Arc<Contents>> {
        self.files.get(path).ok_or_else(|| missing(operation, path))
    }

    /// The parent of a name about to be created must exist and the name must not be a directory.
    fn check_new_name(&self, operation: &str, path: &Path) -> Result<()> {
        if self.has_directory(path) {
            return Err(failure(operation, "Is a directory", path));
        }
        match path.parent() {
            Some(parent) if self.has_directory(parent) => Ok(()),
            _ => Err(missing(operation, path)),
        }
    }

    fn put(&mut self, path: PathBuf, contents: Arc<Contents>) {
        if let Some(old) = self.files.insert(path, contents) {
            old.links.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl MemoryFileSystem {
    /// An empty file system with only the root directory.
    pub fn new() -> Self {
        Self::default()
    }
}

impl FileSystem for MemoryFileSystem {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn new_sequential_file(&self, path: &Path, _options: &FileOptions) -> Result<Box<dyn SequentialFile>> {
        let path = normalize(path);
        let contents = Arc::clone(self.tree.lock().file("open", &path)?);
        Ok(Box::new(MemorySequentialFile { path, contents, offset: 0 }))
    }

    fn new_random_access_file(&self, path: &Path, _options: &FileOptions) -> Result<Arc<dyn RandomAccessFile>> {
        let path = normalize(path);
        let contents = Arc::clone(self.tree.lock().file("open", &path)?);
        Ok(Arc::new(MemoryRandomAccessFile { path, contents }))
    }

    fn new_writable_file(&self, path: &Path, _options: &FileOptions) -> Result<Box<dyn WritableFile>> {
        let path = normalize(path);
        let mut tree = self.tree.lock();
        tree.check_new_name("create", &path)?;
        let contents = match tree.files.get(&path) {
            Some(existing) => {
                existing.bytes.write().clear();
                Arc::clone(existing)
            }
            None => {
                let contents = Contents::new();
                tree.put(path.clone(), Arc::clone(&contents));
                contents
            }
        };
        Ok(Box::new(MemoryWritableFile { path, contents, size: 0, closed: false }))
    }

    fn reopen_writable_file(&self, path: &Path, _options: &FileOptions) -> Result<Box<dyn WritableFile>> {
        let path = normalize(path);
        let mut tree = self.tree.lock();
        tree.check_new_name("open", &path)?;
        let contents = match tree.files.get(&path) {
            Some(existing) => Arc::clone(existing),
            None => {
                let contents = Contents::new();
                tree.put(path.clone(), Arc::clone(&contents));
                contents
            }
        };
        let size = contents.bytes.read().len() as u64;
        Ok(Box::new(MemoryWritableFile { path, contents, size, closed: false }))
    }

    fn reuse_writable_file(&self, path: &Path, old: &Path, _options: &FileOptions) -> Result<Box<dyn WritableFile>> {
        self.rename(old, path)?;
        let path = normalize(path);
        let contents = Arc::clone(self.tree.lock().file("open", &path)?);
        Ok(Box::new(MemoryWritableFile { path, contents, size: 0, closed: false }))
    }

    fn new_directory(&self, path: &Path) -> Result<Box<dyn Directory>> {
        let path = normalize(path);
        if !self.tree.lock().has_directory(&path) {
            return Err(missing("open directory", &path));
        }
        Ok(Box::new(MemoryDirectory { path }))
    }

    fn file_exists(&self, path: &Path) -> Result<bool> {
        let path = normalize(path);
        let tree = self.tree.lock();
        Ok(tree.files.contains_key(&path) || tree.has_directory(&path))
    }

    fn is_directory(&self, path: &Path) -> Result<bool> {
        Ok(self.tree.lock().has_directory(&normalize(path)))
    }

    fn children(&self, path: &Path) -> Result<Vec<String>> {
        let path = normalize(path);
        let tree = self.tree.lock();
        if !tree.has_directory(&path) {
            return Err(missing("list directory", &path));
        }
        let names = tree.files.keys().chain(&tree.directories).filter(|name| name.parent() == Some(&path));
        Ok(names.filter_map(|name| Some(name.file_name()?.to_string_lossy().into_owned())).collect())
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        let path = normalize(path);
        let removed = self.tree.lock().files.remove(&path).ok_or_else(|| missing("unlink", &path))?;
        removed.links.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }

    fn create_dir(&self, path: &Path) -> Result<()> {
        let path = normalize(path);
        let mut tree = self.tree.lock();
        if tree.has_directory(&path) || tree.files.contains_key(&path) {
            return Err(failure("mkdir", "File exists", &path));
        }
        tree.check_new_name("mkdir", &path)?;
        tree.directories.insert(path);
        Ok(())
    }

    fn create_dir_if_missing(&self, path: &Path) -> Result<()> {
        if self.is_directory(path)? {
            return Ok(());
        }
        self.create_dir(path)
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        let path = normalize(path);
        if !self.children(&path)?.is_empty() {
            return Err(failure("rmdir", "Directory not empty", &path));
        }
        self.tree.lock().directories.remove(&path);
        Ok(())
    }

    fn file_size(&self, path: &Path) -> Result<u64> {
        let path = normalize(path);
        Ok(self.tree.lock().file("stat", &path)?.bytes.read().len() as u64)
    }

    fn modification_time_secs(&self, path: &Path) -> Result<u64> {
        let path = normalize(path);
        Ok(self.tree.lock().file("stat", &path)?.modified_secs.load(Ordering::Relaxed))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let (from, to) = (normalize(from), normalize(to));
        let mut tree = self.tree.lock();
        if tree.directories.contains(&from) {
            return rename_directory(&mut tree, &from, &to);
        }
        let contents = Arc::clone(tree.file("rename", &from)?);
        tree.check_new_name("rename", &to)?;
        tree.files.remove(&from);
        tree.put(to, contents);
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        let (from, to) = (normalize(from), normalize(to));
        let mut tree = self.tree.lock();
        let contents = Arc::clone(tree.file("link", &from)?);
        tree.check_new_name("link", &to)?;
        if tree.files.contains_key(&to) {
            return Err(failure("link", "File exists", &to));
        }
        contents.links.fetch_add(1, Ordering::Relaxed);
        tree.put(to, contents);
        Ok(())
    }

    fn link_count(&self, path: &Path) -> Result<u64> {
        let path = normalize(path);
        Ok(self.tree.lock().file("stat", &path)?.links.load(Ordering::Relaxed))
    }

    fn truncate(&self, path: &Path, size: u64) -> Result<()> {
        let path = normalize(path);
        let contents = Arc::clone(self.tree.lock().file("truncate", &path)?);
        contents.bytes.write().resize(memory_size(size, &path)?, 0);
        Ok(())
    }

    fn lock_file(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        let path = normalize(path);
        {
            let mut tree = self.tree.lock();
            tree.check_new_name("lock", &path)?;
            if !tree.files.contains_key(&path) {
                tree.put(path.clone(), Contents::new());
            }
        }
        if !self.locks.lock().insert(path.clone()) {
            let shown = path.display();
            return Err(Error::io_error(format!("lock hold by current process: {shown}: No locks available")));
        }
        Ok(Box::new(MemoryLock { path, locks: Arc::clone(&self.locks) }))
    }

    fn absolute_path(&self, path: &Path) -> Result<PathBuf> {
        Ok(normalize(path))
    }

    fn free_space_bytes(&self, _path: &Path) -> Result<u64> {
        Ok(u64::MAX)
    }
}

fn rename_directory(tree: &mut Tree, from: &Path, to: &Path) -> Result<()> {
    tree.check_new_name("rename", to)?;
    let moved = |path: &Path| path.strip_prefix(from).ok().map(|rest| to.join(rest));
    let files = std::mem::take(&mut tree.files);
    tree.files = files.into_iter().map(|(path, file)| (moved(&path).unwrap_or(path), file)).collect();
    let directories = std::mem::take(&mut tree.directories);
    // Joining an empty rest would leave a trailing separator, which compares equal but is not shown alike.
    tree.directories = directories.into_iter().map(|path| normalize(&moved(&path).unwrap_or(path))).collect();
    Ok(())
}

fn memory_size(size: u64, path: &Path) -> Result<usize> {
    usize::try_from(size).map_err(|_| failure("resize", "File too large", path))
}

#[derive(Debug)]
struct MemorySequentialFile {
    path: PathBuf,
    contents: Arc<Contents>,
    offset: u64,
}

impl SequentialFile for MemorySequentialFile {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let count = self.contents.read(self.offset, buffer);
        self.offset += count as u64;
        Ok(count)
    }

    fn skip(&mut self, bytes: u64) -> Result<()> {
        self.offset = self.offset.saturating_add(bytes);
        Ok(())
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

#[derive(Debug)]
struct MemoryRandomAccessFile {
    path: PathBuf,
    contents: Arc<Contents>,
}

impl RandomAccessFile for MemoryRandomAccessFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        Ok(self.contents.read(offset, buffer))
    }

    fn size(&self) -> Result<u64> {
        Ok(self.contents.bytes.read().len() as u64)
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

#[derive(Debug)]
struct MemoryWritableFile {
    path: PathBuf,
    contents: Arc<Contents>,
    size: u64,
    closed: bool,
}

impl MemoryWritableFile {
    fn check_open(&self) -> Result<()> {
        if self.closed { Err(failure("write", "file is closed", &self.path)) } else { Ok(()) }
    }
}

impl WritableFile for MemoryWritableFile {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.check_open()?;
        let at = memory_size(self.size, &self.path)?;
        let mut bytes = self.contents.bytes.write();
        if bytes.len() < at {
            bytes.resize(at, 0); // somebody else shortened the file
        }
        let overwritten = data.len().min(bytes.len() - at);
        let (over, behind) = data.split_at(overwritten);
        if let Some(target) = bytes.get_mut(at..at + overwritten) {
            target.copy_from_slice(over);
        }
        bytes.extend_from_slice(behind);
        self.size += data.len() as u64;
        drop(bytes);
        self.contents.touch();
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.check_open()
    }

    fn sync(&mut self) -> Result<()> {
        self.check_open()
    }

    fn fsync(&mut self) -> Result<()> {
        self.check_open()
    }

    fn truncate(&mut self, size: u64) -> Result<()> {
        self.check_open()?;
        self.contents.bytes.write().resize(memory_size(size, &self.path)?, 0);
        self.size = size;
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        self.closed = true;
        Ok(())
    }

    fn file_size(&self) -> u64 {
        self.size
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn sync_handle(&self) -> Option<Arc<dyn FileSync>> {
        Some(Arc::new(MemorySync))
    }
}

#[derive(Debug)]
struct MemorySync;

impl FileSync for MemorySync {
    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct MemoryDirectory {
    path: PathBuf,
}

impl Directory for MemoryDirectory {
    fn fsync(&self) -> Result<()> {
        Ok(())
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

#[derive(Debug)]
struct MemoryLock {
    path: PathBuf,
    locks: Arc<Mutex<BTreeSet<PathBuf>>>,
}

impl FileLock for MemoryLock {
    fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.locks.lock().remove(&self.path);
    }
}
