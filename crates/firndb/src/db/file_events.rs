//! A file system that tells listeners of every operation on tables, write-ahead logs and MANIFESTs.
//!
//! The database puts it between itself and the real one when a listener asks to be notified of file I/O, and only then.
//! Calls flow through unchanged; what they did, how long they took and what became of them flows to the listeners. Always
//! true here: a listener hears of an operation after it ended, on the thread that did it. Other files, and what is read
//! through memory mappings, pass unobserved.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_env::{
    AccessPattern, Clock, Directory, FileLock, FileOptions, FileSpace, FileSync, FileSystem, RandomAccessFile,
    SequentialFile, WritableFile,
};
use firn_error::Result;
use firn_format::filename::{self, FileKind};

use crate::stats::Listeners;
use crate::stats::events::{FileOperation, FileOperationInfo};

/// Tells of operations.
#[derive(Clone, Debug)]
struct Observer {
    listeners: Listeners,
    clock: Arc<dyn Clock>,
}

impl Observer {
    /// Runs an operation on `path` at `offset`; `length` says from the result how many bytes it was about.
    fn observe<T>(
        &self,
        (operation, path, offset): (FileOperation, &Path, u64),
        length: impl FnOnce(&T) -> u64,
        run: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let (start_micros, start) = (self.clock.now_micros(), self.clock.now_nanos());
        let result = run();
        let info = FileOperationInfo {
            operation,
            path: path.to_path_buf(),
            offset,
            length: result.as_ref().map_or(0, length),
            start_micros,
            duration_nanos: self.clock.now_nanos().saturating_sub(start),
            error: result.as_ref().err().cloned(),
        };
        self.listeners.tell_calmly(|listener| listener.on_file_operation_finished(&info));
        if info.error.is_some() {
            self.listeners.tell_calmly(|listener| listener.on_io_error(&info));
        }
        result
    }
}

/// The file system; see the module.
#[derive(Debug)]
pub(crate) struct ObservedFileSystem {
    inner: Arc<dyn FileSystem>,
    observer: Observer,
}

impl ObservedFileSystem {
    /// `inner`, with `listeners` told of what happens on it.
    pub(crate) fn new(inner: Arc<dyn FileSystem>, listeners: Listeners, clock: Arc<dyn Clock>) -> Self {
        Self { inner, observer: Observer { listeners, clock } }
    }

    /// Opens a file that listeners hear of, or one that they do not.
    fn open<T>(&self, path: &Path, open: impl FnOnce() -> Result<T>, wrap: impl FnOnce(T, Observer) -> T) -> Result<T> {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let observed = filename::parse(&name)
            .is_some_and(|parsed| matches!(parsed.kind, FileKind::Table | FileKind::Wal | FileKind::Manifest));
        if !observed {
            return open();
        }
        let file = self.observer.observe((FileOperation::Open, path, 0), |_| 0, open)?;
        Ok(wrap(file, self.observer.clone()))
    }

    fn writable(
        &self,
        path: &Path,
        open: impl FnOnce() -> Result<Box<dyn WritableFile>>,
    ) -> Result<Box<dyn WritableFile>> {
        self.open(path, open, |inner, observer| Box::new(ObservedWriter { inner, observer }))
    }
}

#[derive(Debug)]
struct ObservedSequential {
    inner: Box<dyn SequentialFile>,
    observer: Observer,
    offset: u64,
}

impl SequentialFile for ObservedSequential {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let path = self.inner.path().to_path_buf();
        let place = (FileOperation::Read, path.as_path(), self.offset);
        let got = self.observer.observe(place, |&got| got as u64, || self.inner.read(buffer))?;
        self.offset += got as u64;
        Ok(got)
    }
    fn skip(&mut self, bytes: u64) -> Result<()> {
        self.offset += bytes;
        self.inner.skip(bytes)
    }
    fn path(&self) -> &Path {
        self.inner.path()
    }
}

#[derive(Debug)]
struct ObservedReader {
    inner: Arc<dyn RandomAccessFile>,
    observer: Observer,
}

impl RandomAccessFile for ObservedReader {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let place = (FileOperation::Read, self.inner.path(), offset);
        self.observer.observe(place, |&got| got as u64, || self.inner.read_at(offset, buffer))
    }
    fn size(&self) -> Result<u64> {
        self.inner.size()
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
    fn as_mapped(&self) -> Option<&[u8]> {
        self.inner.as_mapped()
    }
    fn required_alignment(&self) -> usize {
        self.inner.required_alignment()
    }
    fn is_direct(&self) -> bool {
        self.inner.is_direct()
    }
}

#[derive(Debug)]
struct ObservedWriter {
    inner: Box<dyn WritableFile>,
    observer: Observer,
}

impl ObservedWriter {
    fn observe(
        &mut self,
        operation: FileOperation,
        (offset, length): (u64, u64),
        run: impl FnOnce(&mut dyn WritableFile) -> Result<()>,
    ) -> Result<()> {
        let path: PathBuf = self.inner.path().to_path_buf();
        self.observer.observe((operation, &path, offset), |()| length, || run(&mut *self.inner))
    }
}

impl WritableFile for ObservedWriter {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        let place = (self.inner.file_size(), data.len() as u64);
        self.observe(FileOperation::Append, place, |file| file.append(data))
    }
    fn flush(&mut self) -> Result<()> {
        self.observe(FileOperation::Flush, (0, 0), |file| file.flush())
    }
    fn sync(&mut self) -> Result<()> {
        self.observe(FileOperation::Sync, (0, 0), |file| file.sync())
    }
    fn fsync(&mut self) -> Result<()> {
        self.observe(FileOperation::Fsync, (0, 0), |file| file.fsync())
    }
    fn range_sync(&mut self, offset: u64, bytes: u64) -> Result<()> {
        self.observe(FileOperation::RangeSync, (offset, bytes), |file| file.range_sync(offset, bytes))
    }
    fn truncate(&mut self, size: u64) -> Result<()> {
        self.observe(FileOperation::Truncate, (0, size), |file| file.truncate(size))
    }
    fn close(&mut self) -> Result<()> {
        self.observe(FileOperation::Close, (0, 0), |file| file.close())
    }
    fn file_size(&self) -> u64 {
        self.inner.file_size()
    }
    fn path(&self) -> &Path {
        self.inner.path()
    }
    fn sync_handle(&self) -> Option<Arc<dyn FileSync>> {
        self.inner.sync_handle()
    }
    fn space_handle(&self) -> Option<Arc<dyn FileSpace>> {
        self.inner.space_handle()
    }
}

impl FileSystem for ObservedFileSystem {
    fn name(&self) -> &'static str {
        self.inner.name()
    }
    fn new_sequential_file(&self, path: &Path, options: &FileOptions) -> Result<Box<dyn SequentialFile>> {
        self.open(
            path,
            || self.inner.new_sequential_file(path, options),
            |inner, observer| Box::new(ObservedSequential { inner, observer, offset: 0 }),
        )
    }
    fn new_random_access_file(&self, path: &Path, options: &FileOptions) -> Result<Arc<dyn RandomAccessFile>> {
        self.open(
            path,
            || self.inner.new_random_access_file(path, options),
            |inner, observer| Arc::new(ObservedReader { inner, observer }),
        )
    }
    fn new_writable_file(&self, path: &Path, options: &FileOptions) -> Result<Box<dyn WritableFile>> {
        self.writable(path, || self.inner.new_writable_file(path, options))
    }
    fn reopen_writable_file(&self, path: &Path, options: &FileOptions) -> Result<Box<dyn WritableFile>> {
        self.writable(path, || self.inner.reopen_writable_file(path, options))
    }
    fn reuse_writable_file(&self, path: &Path, old: &Path, options: &FileOptions) -> Result<Box<dyn WritableFile>> {
        self.writable(path, || self.inner.reuse_writable_file(path, old, options))
    }
    fn new_directory(&self, path: &Path) -> Result<Box<dyn Directory>> {
        self.inner.new_directory(path)
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
