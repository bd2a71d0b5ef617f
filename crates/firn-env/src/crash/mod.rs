//! A file system in memory that knows what would survive a crash.
//!
//! It behaves like any other [`FileSystem`], mapped logs with their reserved tail of zeros and recycled files included,
//! and notes every change. [`CrashFileSystem::crash`] tells what a machine would find if it failed now, under a
//! [`LossPolicy`]; [`CrashFileSystem::from_image`] goes on from there. A [`Journal`] of the changes lets one run give the
//! images of all its moments: [`Journal::replay`].
//!
//! Always true here: [`disk`] decides what survives, this module only what a running system sees; operations happen one
//! after the other, so their count names a moment exactly.

mod disk;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use firn_error::{Error, Result, SubCode};

use crate::file::{
    Directory, FileLock, FileOptions, FileSync, FileSystem, RandomAccessFile, SequentialFile, WritableFile,
};
use crate::sync::Mutex;

use disk::{Change, Name, Node, NodeId, ROOT};
pub use disk::{Disk, LossPolicy, Tree};

/// Mapped logs reserve their space in windows of this size, the smallest that the real ones shrink to.
const WINDOW_BYTES: u64 = 64 << 10;
/// Files are written from then on, in seconds since 1970, one second per operation.
const FIRST_SECOND: u64 = 1_700_000_000;

#[derive(Debug)]
struct State {
    live: Tree,
    disk: Disk,
    journal: Option<Journal>,
    operations: u64,
    modified: BTreeMap<NodeId, u64>,
    /// How many writers each file has.
    writers: BTreeMap<NodeId, usize>,
    hazards: Vec<String>,
    locks: BTreeSet<PathBuf>,
}

/// The changes of a run, for going through its moments afterwards.
#[derive(Clone, Debug)]
pub struct Journal {
    start: Tree,
    changes: Vec<Change>,
}

impl Journal {
    /// How many operations it holds.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Goes through the moments, from before the first operation on.
    pub fn replay(&self) -> Replay<'_> {
        Replay { disk: Disk::new(self.start.clone()), changes: &self.changes, at: 0 }
    }

    /// What operation `index` was, for messages.
    pub fn describe(&self, index: usize) -> String {
        let mut names: BTreeMap<NodeId, Name> = BTreeMap::new();
        let mut tree = self.start.clone();
        tree.learn_names(&mut names);
        for change in self.changes.iter().take(index + 1) {
            tree.apply(change);
            if !matches!(change, Change::Write { .. } | Change::Sync { .. }) {
                tree.learn_names(&mut names);
            }
        }
        let name = |node: &NodeId| names.get(node).map_or_else(|| node.to_string(), ToString::to_string);
        match self.changes.get(index) {
            None => "the end".to_owned(),
            Some(Change::Create { name, .. }) => format!("create {name}"),
            Some(Change::Link { name: to, node, .. }) => format!("link {} to {to}", name(node)),
            Some(Change::Remove { name, .. }) => format!("remove {name}"),
            Some(Change::Rename { from, to }) => format!("rename {} to {}", from.1, to.1),
            Some(Change::Write { node, offset, data }) => {
                format!("write {} bytes to {} at {offset}", data.len(), name(node))
            }
            Some(Change::Resize { node, size }) => format!("resize {} to {size}", name(node)),
            Some(Change::Sync { node }) => format!("sync {}", name(node)),
            Some(Change::SyncDirectory { node }) => format!("sync directory {}", name(node)),
        }
    }
}

/// A walk through the moments of a [`Journal`].
#[derive(Debug)]
pub struct Replay<'a> {
    disk: Disk,
    changes: &'a [Change],
    at: usize,
}

impl Replay<'_> {
    /// How many operations were carried out.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The disk at this moment.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Carries out the next operation; `false` at the end.
    pub fn advance(&mut self) -> bool {
        let Some(change) = self.changes.get(self.at) else { return false };
        self.disk.apply(change);
        self.at += 1;
        true
    }

    /// Whether the last operation made something durable and changed nothing else.
    pub fn was_sync(&self) -> bool {
        let last = self.at.checked_sub(1).and_then(|last| self.changes.get(last));
        matches!(last, Some(Change::Sync { .. } | Change::SyncDirectory { .. }))
    }
}

/// The file system; clones share everything. Thread-safe.
#[derive(Clone, Debug)]
pub struct CrashFileSystem {
    state: Arc<Mutex<State>>,
}

impl Default for CrashFileSystem {
    fn default() -> Self {
        Self::new()
    }
}

impl CrashFileSystem {
    /// An empty file system.
    pub fn new() -> Self {
        Self::from_image(Tree::new())
    }

    /// A file system on which everything in `image` is durable.
    pub fn from_image(image: Tree) -> Self {
        let state = State {
            live: image.clone(),
            disk: Disk::new(image),
            journal: None,
            operations: 0,
            modified: BTreeMap::new(),
            writers: BTreeMap::new(),
            hazards: Vec::new(),
            locks: BTreeSet::new(),
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Notes all changes from now on. What is not durable at this moment counts as durable.
    pub fn start_journal(&self) {
        let mut state = self.state.lock();
        state.journal = Some(Journal { start: state.live.clone(), changes: Vec::new() });
    }

    /// The journal since [`start_journal`](Self::start_journal), which ends; an empty one if there was none.
    pub fn take_journal(&self) -> Journal {
        let mut state = self.state.lock();
        let journal = state.journal.take();
        journal.unwrap_or_else(|| Journal { start: state.live.clone(), changes: Vec::new() })
    }

    /// How many operations there were: each one that changed something or made something durable.
    pub fn operations(&self) -> u64 {
        self.state.lock().operations
    }

    /// What is found after a crash now.
    pub fn crash(&self, policy: LossPolicy, seed: u64) -> Tree {
        self.state.lock().disk.image(policy, seed)
    }

    /// What went wrong although a file system cannot refuse it: files that were opened for writing again, or emptied,
    /// while an earlier writer was open.
    pub fn hazards(&self) -> Vec<String> {
        self.state.lock().hazards.clone()
    }

    fn open_writer(
        &self,
        state: &mut State,
        node: NodeId,
        path: PathBuf,
        start: u64,
        options: &FileOptions,
    ) -> Box<dyn WritableFile> {
        let writers = state.writers.entry(node).or_default();
        *writers += 1;
        if *writers > 1 {
            state.hazards.push(format!("{} is written by {writers} at once", path.display()));
        }
        let mut file = CrashWritableFile {
            state: Arc::clone(&self.state),
            node,
            path,
            buffer: Vec::new(),
            buffer_limit: if options.mapped_log { 0 } else { options.writable_buffer_bytes },
            mapped: options.mapped_log,
            written: start,
            closed: false,
        };
        file.reserve(state);
        Box::new(file)
    }
}

impl State {
    fn change(&mut self, change: Change) {
        self.operations += 1;
        if let Change::Write { node, .. } | Change::Resize { node, .. } | Change::Create { node, .. } = &change {
            self.modified.insert(*node, FIRST_SECOND + self.operations);
        }
        self.live.apply(&change);
        self.disk.apply(&change);
        if let Some(journal) = &mut self.journal {
            journal.changes.push(change);
        }
    }

    fn find(&self, path: &Path) -> Option<NodeId> {
        let mut at = ROOT;
        for component in path.components() {
            if let Component::Normal(name) = component {
                at = *self.live.entries(at)?.get(name.to_string_lossy().as_ref())?;
            }
        }
        Some(at)
    }

    fn file(&self, operation: &str, path: &Path) -> Result<NodeId> {
        let node = self.find(path).ok_or_else(|| missing(operation, path))?;
        match self.live.node(node) {
            Some(Node::File(_)) => Ok(node),
            _ => Err(failure(operation, "Is a directory", path)),
        }
    }

    fn directory(&self, operation: &str, path: &Path) -> Result<NodeId> {
        let node = self.find(path).ok_or_else(|| missing(operation, path))?;
        match self.live.node(node) {
            Some(Node::Directory(_)) => Ok(node),
            _ => Err(failure(operation, "Not a directory", path)),
        }
    }

    fn is_directory(&self, path: &Path) -> bool {
        self.find(path).is_some_and(|node| self.live.entries(node).is_some())
    }

    /// The place of a name whose directory must exist.
    fn place(&self, operation: &str, path: &Path) -> Result<(NodeId, Name)> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(failure(operation, "Is a directory", path));
        };
        match self.find(parent) {
            Some(directory) if self.live.entries(directory).is_some() => {
                Ok((directory, Name::from(name.to_string_lossy().as_ref())))
            }
            _ => Err(missing(operation, path)),
        }
    }

    /// The file of this name, created when missing.
    fn file_or_new(&mut self, operation: &str, path: &Path) -> Result<NodeId> {
        if self.find(path).is_some() {
            return self.file(operation, path);
        }
        let (directory, name) = self.place(operation, path)?;
        let node = self.live.next_node();
        self.change(Change::Create { directory, name, node, is_directory: false });
        Ok(node)
    }

    fn size(&self, node: NodeId) -> u64 {
        self.live.file(node).map_or(0, |bytes| bytes.len() as u64)
    }

    fn read(&self, node: NodeId, offset: u64, buffer: &mut [u8]) -> usize {
        let Some(bytes) = self.live.file(node) else { return 0 };
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let available = bytes.get(from..).unwrap_or_default();
        let count = available.len().min(buffer.len());
        if let (Some(target), Some(source)) = (buffer.get_mut(..count), available.get(..count)) {
            target.copy_from_slice(source);
        }
        count
    }

    fn rename(&mut self, from: &Path, to: &Path) -> Result<()> {
        self.find(from).ok_or_else(|| missing("rename", from))?;
        let old = self.place("rename", from)?;
        let new = self.place("rename", to)?;
        if self.is_directory(to) {
            return Err(failure("rename", "Is a directory", to));
        }
        self.change(Change::Rename { from: old, to: new });
        Ok(())
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
    failure(operation, "No such file or directory", path).with_subcode(SubCode::PathNotFound)
}

fn failure(operation: &str, reason: &str, path: &Path) -> Error {
    Error::io_error(format!("{operation}: {reason}")).with_file(path)
}

impl FileSystem for CrashFileSystem {
    fn name(&self) -> &'static str {
        "crash"
    }

    fn new_sequential_file(&self, path: &Path, _options: &FileOptions) -> Result<Box<dyn SequentialFile>> {
        let path = normalize(path);
        let node = self.state.lock().file("open", &path)?;
        Ok(Box::new(CrashSequentialFile { state: Arc::clone(&self.state), node, path, offset: 0 }))
    }

    fn new_random_access_file(&self, path: &Path, _options: &FileOptions) -> Result<Arc<dyn RandomAccessFile>> {
        let path = normalize(path);
        let node = self.state.lock().file("open", &path)?;
        Ok(Arc::new(CrashRandomAccessFile { state: Arc::clone(&self.state), node, path }))
    }

    fn new_writable_file(&self, path: &Path, options: &FileOptions) -> Result<Box<dyn WritableFile>> {
        let path = normalize(path);
        let mut state = self.state.lock();
        let node = state.file_or_new("create", &path)?;
        if state.size(node) > 0 {
            state.change(Change::Resize { node, size: 0 });
        }
        Ok(self.open_writer(&mut state, node, path, 0, options))
    }

    fn reopen_writable_file(&self, path: &Path, options: &FileOptions) -> Result<Box<dyn WritableFile>> {
        let path = normalize(path);
        let mut state = self.state.lock();
        let node = state.file_or_new("open", &path)?;
        let size = state.size(node);
        Ok(self.open_writer(&mut state, node, path, size, options))
    }

    fn reuse_writable_file(&self, path: &Path, old: &Path, options: &FileOptions) -> Result<Box<dyn WritableFile>> {
        let path = normalize(path);
        let mut state = self.state.lock();
        state.rename(&normalize(old), &path)?;
        let node = state.file("open", &path)?;
        Ok(self.open_writer(&mut state, node, path, 0, options))
    }

    fn new_directory(&self, path: &Path) -> Result<Box<dyn Directory>> {
        let path = normalize(path);
        let node = self.state.lock().directory("open directory", &path)?;
        Ok(Box::new(CrashDirectory { state: Arc::clone(&self.state), node, path }))
    }

    fn file_exists(&self, path: &Path) -> Result<bool> {
        Ok(self.state.lock().find(&normalize(path)).is_some())
    }

    fn is_directory(&self, path: &Path) -> Result<bool> {
        Ok(self.state.lock().is_directory(&normalize(path)))
    }

    fn children(&self, path: &Path) -> Result<Vec<String>> {
        let path = normalize(path);
        let state = self.state.lock();
        let node = state.directory("list directory", &path)?;
        Ok(state.live.entries(node).into_iter().flatten().map(|(name, _)| name.to_string()).collect())
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        let path = normalize(path);
        let mut state = self.state.lock();
        state.file("unlink", &path)?;
        let (directory, name) = state.place("unlink", &path)?;
        state.change(Change::Remove { directory, name });
        Ok(())
    }

    fn create_dir(&self, path: &Path) -> Result<()> {
        let path = normalize(path);
        let mut state = self.state.lock();
        if state.find(&path).is_some() {
            return Err(failure("mkdir", "File exists", &path));
        }
        let (directory, name) = state.place("mkdir", &path)?;
        let node = state.live.next_node();
        state.change(Change::Create { directory, name, node, is_directory: true });
        Ok(())
    }

    fn create_dir_if_missing(&self, path: &Path) -> Result<()> {
        if self.is_directory(path)? { Ok(()) } else { self.create_dir(path) }
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        let path = normalize(path);
        let mut state = self.state.lock();
        let node = state.directory("rmdir", &path)?;
        if state.live.entries(node).is_some_and(|entries| !entries.is_empty()) {
            return Err(failure("rmdir", "Directory not empty", &path));
        }
        let (directory, name) = state.place("rmdir", &path)?;
        state.change(Change::Remove { directory, name });
        Ok(())
    }

    fn file_size(&self, path: &Path) -> Result<u64> {
        let path = normalize(path);
        let state = self.state.lock();
        Ok(state.size(state.file("stat", &path)?))
    }

    fn modification_time_secs(&self, path: &Path) -> Result<u64> {
        let path = normalize(path);
        let state = self.state.lock();
        let node = state.file("stat", &path)?;
        Ok(state.modified.get(&node).copied().unwrap_or(FIRST_SECOND))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.state.lock().rename(&normalize(from), &normalize(to))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        let (from, to) = (normalize(from), normalize(to));
        let mut state = self.state.lock();
        let node = state.file("link", &from)?;
        let (directory, name) = state.place("link", &to)?;
        if state.find(&to).is_some() {
            return Err(failure("link", "File exists", &to));
        }
        state.change(Change::Link { directory, name, node });
        Ok(())
    }

    fn link_count(&self, path: &Path) -> Result<u64> {
        let path = normalize(path);
        let state = self.state.lock();
        Ok(state.live.link_count(state.file("stat", &path)?) as u64)
    }

    fn truncate(&self, path: &Path, size: u64) -> Result<()> {
        let path = normalize(path);
        let mut state = self.state.lock();
        let node = state.file("truncate", &path)?;
        state.change(Change::Resize { node, size });
        Ok(())
    }

    fn lock_file(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        let path = normalize(path);
        let mut state = self.state.lock();
        state.file_or_new("lock", &path)?;
        if !state.locks.insert(path.clone()) {
            let shown = path.display();
            return Err(Error::io_error(format!("lock hold by current process: {shown}: No locks available")));
        }
        Ok(Box::new(CrashLock { state: Arc::clone(&self.state), path }))
    }

    fn absolute_path(&self, path: &Path) -> Result<PathBuf> {
        Ok(normalize(path))
    }

    fn free_space_bytes(&self, _path: &Path) -> Result<u64> {
        Ok(u64::MAX)
    }
}

#[derive(Debug)]
struct CrashSequentialFile {
    state: Arc<Mutex<State>>,
    node: NodeId,
    path: PathBuf,
    offset: u64,
}

impl SequentialFile for CrashSequentialFile {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let count = self.state.lock().read(self.node, self.offset, buffer);
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
struct CrashRandomAccessFile {
    state: Arc<Mutex<State>>,
    node: NodeId,
    path: PathBuf,
}

impl RandomAccessFile for CrashRandomAccessFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        Ok(self.state.lock().read(self.node, offset, buffer))
    }

    fn size(&self) -> Result<u64> {
        Ok(self.state.lock().size(self.node))
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// A writer: buffered as the real one, or going straight to the page cache as a mapped log does.
#[derive(Debug)]
struct CrashWritableFile {
    state: Arc<Mutex<State>>,
    node: NodeId,
    path: PathBuf,
    buffer: Vec<u8>,
    buffer_limit: usize,
    mapped: bool,
    /// Bytes that reached the system; the buffer comes behind them.
    written: u64,
    closed: bool,
}

impl CrashWritableFile {
    fn check_open(&self) -> Result<()> {
        if self.closed { Err(failure("write", "file is closed", &self.path)) } else { Ok(()) }
    }

    /// A mapped log reaches over its whole window.
    fn reserve(&mut self, state: &mut State) {
        let end = (self.written / WINDOW_BYTES + 1) * WINDOW_BYTES;
        if self.mapped && state.size(self.node) < end {
            state.change(Change::Resize { node: self.node, size: end });
        }
    }

    fn write(&mut self, data: Vec<u8>) {
        if data.is_empty() {
            return;
        }
        let state = Arc::clone(&self.state);
        let mut state = state.lock();
        let bytes = data.len() as u64;
        if state.writers.get(&self.node).copied().unwrap_or(0) == 0 {
            state.hazards.push(format!("{} is written after it was closed", self.path.display()));
        }
        state.change(Change::Write { node: self.node, offset: self.written, data: data.into() });
        self.written += bytes;
        self.reserve(&mut state);
    }

    fn write_buffer(&mut self) {
        let buffered = std::mem::take(&mut self.buffer);
        self.write(buffered);
    }
}

impl WritableFile for CrashWritableFile {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.check_open()?;
        self.buffer.extend_from_slice(data);
        if self.buffer.len() > self.buffer_limit {
            self.write_buffer();
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.check_open()?;
        self.write_buffer();
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.flush()?;
        self.state.lock().change(Change::Sync { node: self.node });
        Ok(())
    }

    fn fsync(&mut self) -> Result<()> {
        self.sync()
    }

    fn truncate(&mut self, size: u64) -> Result<()> {
        self.flush()?;
        self.state.lock().change(Change::Resize { node: self.node, size });
        self.written = size;
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        if self.closed {
            return Ok(());
        }
        self.write_buffer();
        self.closed = true;
        let mut state = self.state.lock();
        if state.size(self.node) != self.written {
            state.change(Change::Resize { node: self.node, size: self.written });
        }
        if let Some(writers) = state.writers.get_mut(&self.node) {
            *writers = writers.saturating_sub(1);
        }
        Ok(())
    }

    fn file_size(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn sync_handle(&self) -> Option<Arc<dyn FileSync>> {
        Some(Arc::new(CrashSync { state: Arc::clone(&self.state), node: self.node }))
    }
}

impl Drop for CrashWritableFile {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

#[derive(Debug)]
struct CrashSync {
    state: Arc<Mutex<State>>,
    node: NodeId,
}

impl FileSync for CrashSync {
    fn sync(&self) -> Result<()> {
        self.state.lock().change(Change::Sync { node: self.node });
        Ok(())
    }
}

#[derive(Debug)]
struct CrashDirectory {
    state: Arc<Mutex<State>>,
    node: NodeId,
    path: PathBuf,
}

impl Directory for CrashDirectory {
    fn fsync(&self) -> Result<()> {
        self.state.lock().change(Change::SyncDirectory { node: self.node });
        Ok(())
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

#[derive(Debug)]
struct CrashLock {
    state: Arc<Mutex<State>>,
    path: PathBuf,
}

impl FileLock for CrashLock {
    fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for CrashLock {
    fn drop(&mut self) {
        self.state.lock().locks.remove(&self.path);
    }
}

#[cfg(test)]
mod tests;
