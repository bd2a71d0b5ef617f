//! A file system that fails on demand: a wrapper over any other, for tests and simulations.
//!
//! Operations flow through to the wrapped file system unless a [`Fault`] picks one out: the N-th of some kinds, on files
//! of some name, once or from then on. It then fails, is delayed, reads less, flips a bit, writes half, or calls the test
//! back. [`FaultFileSystem::limit_space`] fills the disk.
//!
//! Always true here: every operation is counted once, before its fault is looked for and before it is carried out; no
//! lock is held while an operation or a callback runs; without faults nothing differs from the wrapped file system but
//! that files are never mapped for reading.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use firn_error::{Error, Result, SubCode};

use crate::file::{
    AccessPattern, Directory, FileLock, FileOptions, FileSync, FileSystem, RandomAccessFile, SequentialFile,
    WritableFile,
};
use crate::sync::Mutex;

/// What is asked of a file system; faults select by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Opening a file for reading.
    Open,
    /// Creating or emptying a file for writing.
    Create,
    /// Opening a file for appending.
    Reopen,
    /// Renaming a file for writing over it.
    Reuse,
    /// Reading.
    Read,
    /// Appending; a buffering file system may write later.
    Append,
    /// Handing appended bytes to the system.
    Flush,
    /// Making a file's bytes durable.
    Sync,
    /// Starting to write back.
    RangeSync,
    /// Cutting a file, open or not.
    Truncate,
    /// Closing a written file, by call or by dropping it.
    Close,
    /// Removing a file.
    Remove,
    /// Renaming.
    Rename,
    /// Giving a file a second name.
    Link,
    /// Opening a directory for syncing.
    OpenDirectory,
    /// Making the names of a directory durable.
    SyncDirectory,
    /// Creating a directory.
    CreateDirectory,
    /// Removing a directory.
    RemoveDirectory,
    /// Listing a directory.
    List,
    /// Asking about a path: existence, kind, size, time, links, free space.
    Stat,
    /// Taking a lock.
    Lock,
}

impl Operation {
    /// All operations.
    pub const ALL: [Self; 21] = [
        Self::Open,
        Self::Create,
        Self::Reopen,
        Self::Reuse,
        Self::Read,
        Self::Append,
        Self::Flush,
        Self::Sync,
        Self::RangeSync,
        Self::Truncate,
        Self::Close,
        Self::Remove,
        Self::Rename,
        Self::Link,
        Self::OpenDirectory,
        Self::SyncDirectory,
        Self::CreateDirectory,
        Self::RemoveDirectory,
        Self::List,
        Self::Stat,
        Self::Lock,
    ];

    /// Whether the operation changes files or names, or makes changes durable.
    pub fn is_write(self) -> bool {
        !matches!(self, Self::Open | Self::Read | Self::OpenDirectory | Self::List | Self::Stat | Self::Lock)
    }
}

/// Called with the path of the operation, before it is carried out and on its thread.
pub type Callback = Arc<dyn Fn(Operation, &Path) + Send + Sync>;

/// What happens to an operation that a fault picked.
#[derive(Clone)]
pub enum Effect {
    /// Nothing is done and the error is returned, with the path added.
    Fail(Error),
    /// The operation is carried out, and the error returned all the same.
    FailAfter(Error),
    /// An append writes so many bytes and then fails; other operations fail at once.
    Tear(usize, Error),
    /// A read returns at most so many bytes. Other operations are left alone.
    ShortRead(usize),
    /// One bit of the data read or appended is flipped: this one, modulo their length in bits.
    FlipBit(usize),
    /// The operation comes so many microseconds later, in real time.
    Delay(u64),
    /// The test is called back first.
    Call(Callback),
}

impl fmt::Debug for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fail(error) => f.debug_tuple("Fail").field(error).finish(),
            Self::FailAfter(error) => f.debug_tuple("FailAfter").field(error).finish(),
            Self::Tear(bytes, error) => f.debug_tuple("Tear").field(bytes).field(error).finish(),
            Self::ShortRead(bytes) => f.debug_tuple("ShortRead").field(bytes).finish(),
            Self::FlipBit(bit) => f.debug_tuple("FlipBit").field(bit).finish(),
            Self::Delay(micros) => f.debug_tuple("Delay").field(micros).finish(),
            Self::Call(_) => f.write_str("Call"),
        }
    }
}

/// Which operations go wrong, and how. Built with the `with_` functions from [`Fault::new`], which picks the next
/// operation whatever it is.
#[derive(Clone, Debug)]
pub struct Fault {
    effect: Effect,
    operations: Vec<Operation>,
    path_part: String,
    pass: u64,
    times: u64,
}

impl Fault {
    /// A fault that happens to the next operation.
    pub fn new(effect: Effect) -> Self {
        Self { effect, operations: Vec::new(), path_part: String::new(), pass: 0, times: 1 }
    }

    /// Only operations of these kinds count; an empty list means all.
    #[must_use]
    pub fn with_operations(mut self, operations: impl Into<Vec<Operation>>) -> Self {
        self.operations = operations.into();
        self
    }

    /// Only operations on paths that contain this count.
    #[must_use]
    pub fn with_path(mut self, part: impl Into<String>) -> Self {
        self.path_part = part.into();
        self
    }

    /// So many matching operations pass first.
    #[must_use]
    pub fn with_pass(mut self, operations: u64) -> Self {
        self.pass = operations;
        self
    }

    /// It happens so many times; `u64::MAX` is from then on. Default: once.
    #[must_use]
    pub fn with_times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    fn matches(&self, operation: Operation, path: &Path) -> bool {
        (self.operations.is_empty() || self.operations.contains(&operation))
            && (self.path_part.is_empty() || path.to_string_lossy().contains(&self.path_part))
    }
}

/// An I/O error as injected: not retryable.
pub fn io_error() -> Error {
    Error::io_error("injected fault")
}

/// An I/O error that may pass.
pub fn retryable_error() -> Error {
    Error::io_error("injected retryable fault").with_retryable(true)
}

/// The error of a full disk.
pub fn no_space_error() -> Error {
    Error::io_error("injected: No space left on device").with_subcode(SubCode::NoSpace)
}

#[derive(Default)]
struct Control {
    faults: Vec<Fault>,
    counts: [u64; Operation::ALL.len()],
    fired: Vec<(Operation, PathBuf)>,
    /// Bytes that can still be appended; none is no limit.
    space: Option<u64>,
    trace: Option<Vec<(Operation, PathBuf)>>,
}

impl Control {
    /// Counts an operation and finds what is to happen to it.
    fn meet(&mut self, operation: Operation, path: &Path) -> Option<Effect> {
        if let Some(count) = self.counts.get_mut(operation as usize) {
            *count += 1;
        }
        if let Some(trace) = &mut self.trace {
            trace.push((operation, path.to_path_buf()));
        }
        let mut effect = None;
        for fault in self.faults.iter_mut().filter(|fault| fault.matches(operation, path)) {
            if fault.pass > 0 {
                fault.pass -= 1;
            } else if effect.is_none() {
                fault.times -= u64::from(fault.times != u64::MAX);
                effect = Some(fault.effect.clone());
            }
        }
        self.faults.retain(|fault| fault.times > 0);
        if effect.is_some() {
            self.fired.push((operation, path.to_path_buf()));
        }
        effect
    }
}

/// The wrapper; clones share everything. Thread-safe.
#[derive(Clone)]
pub struct FaultFileSystem {
    inner: Arc<dyn FileSystem>,
    control: Arc<Mutex<Control>>,
}

impl fmt::Debug for FaultFileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultFileSystem").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl FaultFileSystem {
    /// Wraps a file system, without faults.
    pub fn new(inner: Arc<dyn FileSystem>) -> Self {
        Self { inner, control: Arc::default() }
    }

    /// Adds a fault. Faults are looked at in the order they came; each operation suffers one at most.
    pub fn inject(&self, fault: Fault) {
        self.control.lock().faults.push(fault);
    }

    /// Takes all faults away, and the limit of space.
    pub fn heal(&self) {
        let mut control = self.control.lock();
        control.faults.clear();
        control.space = None;
    }

    /// Lets so many bytes more be appended before the disk is full; none is no limit. Nothing gives space back.
    pub fn limit_space(&self, bytes: Option<u64>) {
        self.control.lock().space = bytes;
    }

    /// How many operations of a kind there were.
    pub fn count(&self, operation: Operation) -> u64 {
        self.control.lock().counts.get(operation as usize).copied().unwrap_or_default()
    }

    /// The operations that suffered a fault so far, space limit excluded.
    pub fn fired(&self) -> Vec<(Operation, PathBuf)> {
        self.control.lock().fired.clone()
    }

    /// Starts (again) to write operations down.
    pub fn start_trace(&self) {
        self.control.lock().trace = Some(Vec::new());
    }

    /// The operations since [`FaultFileSystem::start_trace`]; writing down ends.
    pub fn take_trace(&self) -> Vec<(Operation, PathBuf)> {
        self.control.lock().trace.take().unwrap_or_default()
    }

    fn hook(&self, path: &Path) -> Hook {
        Hook { control: Arc::clone(&self.control), path: path.to_path_buf() }
    }

    fn run<R>(&self, operation: Operation, path: &Path, action: impl FnOnce() -> Result<R>) -> Result<R> {
        let effect = self.control.lock().meet(operation, path);
        around(effect, operation, path, action)
    }
}

/// What goes before and after an operation that moves no data.
fn around<R>(
    effect: Option<Effect>,
    operation: Operation,
    path: &Path,
    action: impl FnOnce() -> Result<R>,
) -> Result<R> {
    match effect {
        Some(Effect::Fail(error) | Effect::Tear(_, error)) => return Err(error.with_file(path)),
        Some(Effect::FailAfter(error)) => {
            action()?;
            return Err(error.with_file(path));
        }
        Some(Effect::Delay(micros)) => std::thread::sleep(Duration::from_micros(micros)),
        Some(Effect::Call(callback)) => callback(operation, path),
        Some(Effect::ShortRead(_) | Effect::FlipBit(_)) | None => {}
    }
    action()
}

/// What an open file needs to ask for its faults.
#[derive(Clone)]
struct Hook {
    control: Arc<Mutex<Control>>,
    path: PathBuf,
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hook").field(&self.path).finish()
    }
}

impl Hook {
    fn meet(&self, operation: Operation) -> Option<Effect> {
        self.control.lock().meet(operation, &self.path)
    }

    fn run<R>(&self, operation: Operation, action: impl FnOnce() -> Result<R>) -> Result<R> {
        around(self.meet(operation), operation, &self.path, action)
    }

    fn read(&self, buffer: &mut [u8], read: impl FnOnce(&mut [u8]) -> Result<usize>) -> Result<usize> {
        match self.meet(Operation::Read) {
            Some(Effect::ShortRead(bytes)) => {
                let end = bytes.min(buffer.len());
                read(buffer.get_mut(..end).unwrap_or_default())
            }
            Some(Effect::FlipBit(bit)) => {
                let got = read(buffer)?;
                flip_bit(buffer.get_mut(..got).unwrap_or_default(), bit);
                Ok(got)
            }
            effect => around(effect, Operation::Read, &self.path, || read(buffer)),
        }
    }

    fn append(&self, data: &[u8], mut append: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let effect = self.meet(Operation::Append);
        if !self.take_space(data.len()) {
            return Err(no_space_error().with_file(&self.path));
        }
        match effect {
            Some(Effect::Tear(bytes, error)) => {
                append(data.get(..bytes).unwrap_or(data))?;
                Err(error.with_file(&self.path))
            }
            Some(Effect::FlipBit(bit)) => {
                let mut changed = data.to_vec();
                flip_bit(&mut changed, bit);
                append(&changed)
            }
            effect => around(effect, Operation::Append, &self.path, || append(data)),
        }
    }

    fn take_space(&self, bytes: usize) -> bool {
        let mut control = self.control.lock();
        let Some(space) = &mut control.space else { return true };
        match space.checked_sub(bytes as u64) {
            Some(left) => {
                *space = left;
                true
            }
            None => false,
        }
    }
}

fn flip_bit(data: &mut [u8], bit: usize) {
    if !data.is_empty() {
        let bit = bit % (data.len() * 8);
        if let Some(byte) = data.get_mut(bit / 8) {
            *byte ^= 1 << (bit % 8);
        }
    }
}

impl FileSystem for FaultFileSystem {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn new_sequential_file(&self, path: &Path, options: &FileOptions) -> Result<Box<dyn SequentialFile>> {
        let inner = self.run(Operation::Open, path, || self.inner.new_sequential_file(path, options))?;
        Ok(Box::new(FaultSequentialFile { inner, hook: self.hook(path) }))
    }

    fn new_random_access_file(&self, path: &Path, options: &FileOptions) -> Result<Arc<dyn RandomAccessFile>> {
        let inner = self.run(Operation::Open, path, || self.inner.new_random_access_file(path, options))?;
        Ok(Arc::new(FaultRandomAccessFile { inner, hook: self.hook(path) }))
    }

    fn new_writable_file(&self, path: &Path, options: &FileOptions) -> Result<Box<dyn WritableFile>> {
        let inner = self.run(Operation::Create, path, || self.inner.new_writable_file(path, options))?;
        Ok(Box::new(FaultWritableFile { inner, hook: self.hook(path), closed: false }))
    }

    fn reopen_writable_file(&self, path: &Path, options: &FileOptions) -> Result<Box<dyn WritableFile>> {
        let inner = self.run(Operation::Reopen, path, || self.inner.reopen_writable_file(path, options))?;
        Ok(Box::new(FaultWritableFile { inner, hook: self.hook(path), closed: false }))
    }

    fn reuse_writable_file(&self, path: &Path, old: &Path, options: &FileOptions) -> Result<Box<dyn WritableFile>> {
        // The fault is looked for under the old name: that is the file at stake.
        let inner = self.run(Operation::Reuse, old, || self.inner.reuse_writable_file(path, old, options))?;
        Ok(Box::new(FaultWritableFile { inner, hook: self.hook(path), closed: false }))
    }

    fn new_directory(&self, path: &Path) -> Result<Box<dyn Directory>> {
        let inner = self.run(Operation::OpenDirectory, path, || self.inner.new_directory(path))?;
        Ok(Box::new(FaultDirectory { inner, hook: self.hook(path) }))
    }

    fn file_exists(&self, path: &Path) -> Result<bool> {
        self.run(Operation::Stat, path, || self.inner.file_exists(path))
    }

    fn is_directory(&self, path: &Path) -> Result<bool> {
        self.run(Operation::Stat, path, || self.inner.is_directory(path))
    }

    fn children(&self, path: &Path) -> Result<Vec<String>> {
        self.run(Operation::List, path, || self.inner.children(path))
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        self.run(Operation::Remove, path, || self.inner.remove_file(path))
    }

    fn create_dir(&self, path: &Path) -> Result<()> {
        self.run(Operation::CreateDirectory, path, || self.inner.create_dir(path))
    }

    fn create_dir_if_missing(&self, path: &Path) -> Result<()> {
        self.run(Operation::CreateDirectory, path, || self.inner.create_dir_if_missing(path))
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        self.run(Operation::RemoveDirectory, path, || self.inner.remove_dir(path))
    }

    fn file_size(&self, path: &Path) -> Result<u64> {
        self.run(Operation::Stat, path, || self.inner.file_size(path))
    }

    fn modification_time_secs(&self, path: &Path) -> Result<u64> {
        self.run(Operation::Stat, path, || self.inner.modification_time_secs(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.run(Operation::Rename, from, || self.inner.rename(from, to))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.run(Operation::Link, from, || self.inner.link(from, to))
    }

    fn link_count(&self, path: &Path) -> Result<u64> {
        self.run(Operation::Stat, path, || self.inner.link_count(path))
    }

    fn truncate(&self, path: &Path, size: u64) -> Result<()> {
        self.run(Operation::Truncate, path, || self.inner.truncate(path, size))
    }

    fn lock_file(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.run(Operation::Lock, path, || self.inner.lock_file(path))
    }

    fn absolute_path(&self, path: &Path) -> Result<PathBuf> {
        self.inner.absolute_path(path)
    }

    fn free_space_bytes(&self, path: &Path) -> Result<u64> {
        let free = self.run(Operation::Stat, path, || self.inner.free_space_bytes(path))?;
        Ok(self.control.lock().space.map_or(free, |space| space.min(free)))
    }
}

#[derive(Debug)]
struct FaultSequentialFile {
    inner: Box<dyn SequentialFile>,
    hook: Hook,
}

impl SequentialFile for FaultSequentialFile {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let inner = &mut self.inner;
        self.hook.read(buffer, |buffer| inner.read(buffer))
    }

    fn skip(&mut self, bytes: u64) -> Result<()> {
        self.inner.skip(bytes)
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }
}

#[derive(Debug)]
struct FaultRandomAccessFile {
    inner: Arc<dyn RandomAccessFile>,
    hook: Hook,
}

impl RandomAccessFile for FaultRandomAccessFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.hook.read(buffer, |buffer| self.inner.read_at(offset, buffer))
    }

    fn size(&self) -> Result<u64> {
        self.hook.run(Operation::Stat, || self.inner.size())
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn prefetch(&self, offset: u64, bytes: usize) -> Result<bool> {
        self.inner.prefetch(offset, bytes)
    }

    fn hint(&self, pattern: AccessPattern) {
        self.inner.hint(pattern);
    }

    fn required_alignment(&self) -> usize {
        self.inner.required_alignment()
    }

    fn is_direct(&self) -> bool {
        self.inner.is_direct()
    }
}

#[derive(Debug)]
struct FaultWritableFile {
    inner: Box<dyn WritableFile>,
    hook: Hook,
    closed: bool,
}

impl WritableFile for FaultWritableFile {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        let inner = &mut self.inner;
        self.hook.append(data, |data| inner.append(data))
    }

    fn flush(&mut self) -> Result<()> {
        let inner = &mut self.inner;
        self.hook.run(Operation::Flush, || inner.flush())
    }

    fn sync(&mut self) -> Result<()> {
        let inner = &mut self.inner;
        self.hook.run(Operation::Sync, || inner.sync())
    }

    fn fsync(&mut self) -> Result<()> {
        let inner = &mut self.inner;
        self.hook.run(Operation::Sync, || inner.fsync())
    }

    fn range_sync(&mut self, offset: u64, bytes: u64) -> Result<()> {
        let inner = &mut self.inner;
        self.hook.run(Operation::RangeSync, || inner.range_sync(offset, bytes))
    }

    fn truncate(&mut self, size: u64) -> Result<()> {
        let inner = &mut self.inner;
        self.hook.run(Operation::Truncate, || inner.truncate(size))
    }

    fn close(&mut self) -> Result<()> {
        if self.closed {
            return Ok(());
        }
        self.closed = true;
        let inner = &mut self.inner;
        let closed = self.hook.run(Operation::Close, || inner.close());
        // Whatever was reported: the descriptor is gone afterwards, as with close(2).
        let _ = self.inner.close();
        closed
    }

    fn file_size(&self) -> u64 {
        self.inner.file_size()
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn sync_handle(&self) -> Option<Arc<dyn FileSync>> {
        let inner = self.inner.sync_handle()?;
        Some(Arc::new(FaultSync { inner, hook: self.hook.clone() }))
    }
}

impl Drop for FaultWritableFile {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

#[derive(Debug)]
struct FaultSync {
    inner: Arc<dyn FileSync>,
    hook: Hook,
}

impl FileSync for FaultSync {
    fn sync(&self) -> Result<()> {
        self.hook.run(Operation::Sync, || self.inner.sync())
    }
}

#[derive(Debug)]
struct FaultDirectory {
    inner: Box<dyn Directory>,
    hook: Hook,
}

impl Directory for FaultDirectory {
    fn fsync(&self) -> Result<()> {
        self.hook.run(Operation::SyncDirectory, || self.inner.fsync())
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{read_file, write_file};
    use crate::memory::MemoryFileSystem;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn world() -> FaultFileSystem {
        FaultFileSystem::new(Arc::new(MemoryFileSystem::new()))
    }

    fn write(fs: &FaultFileSystem, path: &str) -> Result<()> {
        write_file(fs, Path::new(path), b"0123456789", true)
    }

    #[test]
    fn the_chosen_operation_fails_once_and_nothing_else_does() {
        let fs = world();
        fs.inject(Fault::new(Effect::Fail(io_error())).with_operations([Operation::Sync]).with_path("/b").with_pass(1));
        write(&fs, "/a").unwrap();
        write(&fs, "/b").unwrap();
        let error = write(&fs, "/b").unwrap_err();
        assert_eq!(error.file(), Some(Path::new("/b")));
        write(&fs, "/b").unwrap();
        assert_eq!(fs.fired(), [(Operation::Sync, PathBuf::from("/b"))]);
        assert_eq!(fs.count(Operation::Sync), 4);
    }

    #[test]
    fn a_fault_may_last_until_it_is_healed() {
        let fs = world();
        fs.inject(
            Fault::new(Effect::Fail(retryable_error())).with_operations([Operation::Create]).with_times(u64::MAX),
        );
        assert!((0..3).all(|_| write(&fs, "/a").is_err_and(|error| error.is_retryable())));
        fs.heal();
        write(&fs, "/a").unwrap();
    }

    #[test]
    fn reads_come_short_and_bits_flip() {
        let fs = world();
        write(&fs, "/a").unwrap();
        let file = fs.new_random_access_file(Path::new("/a"), &FileOptions::default()).unwrap();
        let mut buffer = [0; 10];
        fs.inject(Fault::new(Effect::ShortRead(3)));
        assert_eq!(file.read_at(0, &mut buffer).unwrap(), 3);
        fs.inject(Fault::new(Effect::FlipBit(8 * 9)));
        assert_eq!(file.read_at(0, &mut buffer).unwrap(), 10);
        assert_eq!(&buffer, b"0123456788");
        assert_eq!(file.read_at(0, &mut buffer).unwrap(), 10);
        assert_eq!(&buffer, b"0123456789");
    }

    #[test]
    fn appends_tear_and_errors_come_late() {
        let fs = world();
        let mut file = fs.new_writable_file(Path::new("/a"), &FileOptions::default()).unwrap();
        fs.inject(Fault::new(Effect::Tear(4, no_space_error())));
        assert_eq!(file.append(b"0123456789").unwrap_err().subcode(), SubCode::NoSpace);
        fs.inject(Fault::new(Effect::FailAfter(io_error())));
        assert!(file.append(b"x").is_err());
        drop(file);
        assert_eq!(read_file(&fs, Path::new("/a"), 100).unwrap(), b"0123x");
    }

    #[test]
    fn a_full_disk_takes_no_more_until_space_returns() {
        let fs = world();
        fs.limit_space(Some(15));
        write(&fs, "/a").unwrap();
        assert_eq!(fs.free_space_bytes(Path::new("/")).unwrap(), 5);
        assert_eq!(write(&fs, "/b").unwrap_err().subcode(), SubCode::NoSpace);
        fs.limit_space(None);
        write(&fs, "/b").unwrap();
    }

    #[test]
    fn callbacks_see_closes_by_drop_and_traces_everything() {
        let fs = world();
        let closes = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&closes);
        let count: Callback = Arc::new(move |operation, path| {
            assert_eq!((operation, path), (Operation::Close, Path::new("/a")));
            counter.fetch_add(1, Ordering::SeqCst);
        });
        fs.inject(Fault::new(Effect::Call(count)).with_operations([Operation::Close]).with_times(u64::MAX));
        fs.inject(Fault::new(Effect::Delay(10)).with_operations([Operation::Create]));
        fs.start_trace();
        drop(fs.new_writable_file(Path::new("/a"), &FileOptions::default()).unwrap());
        assert_eq!(closes.load(Ordering::SeqCst), 1);
        let kinds: Vec<Operation> = fs.take_trace().into_iter().map(|(operation, _)| operation).collect();
        assert_eq!(kinds, [Operation::Create, Operation::Close]);
    }
}
