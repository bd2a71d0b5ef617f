//! Knows the table and blob files of the databases that share it: how much space they take, and how fast they go.
//!
//! Files are reported as they appear, move and vanish; totals, limits and the room for a compaction are answered from
//! that. Files to delete flow through the delete scheduler: without a rate they go at once, with one they are renamed
//! to `<name>.trash` and removed by one thread at that rate, large ones piece by piece, so that the file system is not
//! hit by one huge release of blocks.
//!
//! Always true here: a file handed over for deletion is gone, or carries a name ending in `.trash` and is in the queue;
//! left-over trash is picked up again at the next open.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use firn_error::{Error, Result, SubCode};

use crate::clock::Clock;
use crate::file::{FileOptions, FileSystem};
use crate::log_error;
use crate::logger::Logger;
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::thread::{self, JoinHandle};

const TRASH_SUFFIX: &str = ".trash";

/// How an [`SstFileManager`] is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SstFileManagerOptions {
    /// How fast trash is deleted, in bytes per second; 0 (the default) deletes at once.
    pub rate_bytes_per_sec: u64,
    /// While trash takes more than this fraction of all tracked files, deletions are not delayed. Default: 0.25.
    pub max_trash_db_ratio: f64,
    /// Trash files larger than this are cut shorter by so many bytes at a time; 0: never. Default: 64 MiB.
    pub bytes_max_delete_chunk: u64,
    /// The space that all tracked files may take; 0 (the default): unlimited.
    pub max_allowed_space_bytes: u64,
    /// Space to be left for running compactions when a new one is admitted. Default: 0.
    pub compaction_buffer_bytes: u64,
}

impl Default for SstFileManagerOptions {
    fn default() -> Self {
        Self {
            rate_bytes_per_sec: 0,
            max_trash_db_ratio: 0.25,
            bytes_max_delete_chunk: 64 << 20,
            max_allowed_space_bytes: 0,
            compaction_buffer_bytes: 0,
        }
    }
}

/// A file in the trash.
#[derive(Debug)]
struct Trash {
    path: PathBuf,
    directory_to_sync: Option<PathBuf>,
    bytes: u64,
}

#[derive(Debug)]
struct State {
    options: SstFileManagerOptions,
    tracked: BTreeMap<PathBuf, u64>,
    total_bytes: u64,
    reserved_for_compactions: u64,
    queue: VecDeque<Trash>,
    trash_bytes: u64,
    /// The worker deletes at its leisure; counts the file it is at.
    pending: usize,
    errors: BTreeMap<PathBuf, Error>,
    thread: Option<JoinHandle<()>>,
    rate_changes: u64,
    closing: bool,
}

#[derive(Debug)]
struct Shared {
    fs: Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
    logger: Arc<dyn Logger>,
    state: Mutex<State>,
    changed: Condvar,
}

/// Tracks files and deletes them at a rate. Thread-safe. Dropping it stops the thread and leaves the trash in place.
#[derive(Debug)]
pub struct SstFileManager {
    shared: Arc<Shared>,
}

impl SstFileManager {
    /// A manager without files; its thread starts with the first delayed deletion.
    pub fn new(
        fs: Arc<dyn FileSystem>,
        clock: Arc<dyn Clock>,
        logger: Arc<dyn Logger>,
        options: SstFileManagerOptions,
    ) -> Self {
        let state = State {
            options,
            tracked: BTreeMap::new(),
            total_bytes: 0,
            reserved_for_compactions: 0,
            queue: VecDeque::new(),
            trash_bytes: 0,
            pending: 0,
            errors: BTreeMap::new(),
            thread: None,
            rate_changes: 0,
            closing: false,
        };
        Self { shared: Arc::new(Shared { fs, clock, logger, state: Mutex::new(state), changed: Condvar::new() }) }
    }

    /// A file appeared or grew to `bytes`.
    pub fn on_add_file(&self, path: &Path, bytes: u64) {
        self.shared.state.lock().track(path, bytes);
    }

    /// A file vanished.
    pub fn on_delete_file(&self, path: &Path) {
        self.shared.state.lock().untrack(path);
    }

    /// A file changed its name.
    pub fn on_move_file(&self, from: &Path, to: &Path) {
        let mut state = self.shared.state.lock();
        if let Some(bytes) = state.untrack(from) {
            state.track(to, bytes);
        }
    }

    /// Bytes of all tracked files.
    pub fn total_bytes(&self) -> u64 {
        self.shared.state.lock().total_bytes
    }

    /// The tracked files and their sizes.
    pub fn tracked_files(&self) -> BTreeMap<PathBuf, u64> {
        self.shared.state.lock().tracked.clone()
    }

    /// The space that all tracked files may take; 0: unlimited.
    pub fn max_allowed_space_bytes(&self) -> u64 {
        self.shared.state.lock().options.max_allowed_space_bytes
    }

    /// Space set aside for the compactions that run.
    pub fn reserved_for_compactions_bytes(&self) -> u64 {
        self.shared.state.lock().reserved_for_compactions
    }

    /// Changes the space that all tracked files may take; 0: unlimited.
    pub fn set_max_allowed_space_bytes(&self, bytes: u64) {
        self.shared.state.lock().options.max_allowed_space_bytes = bytes;
    }

    /// Changes the space left for running compactions.
    pub fn set_compaction_buffer_bytes(&self, bytes: u64) {
        self.shared.state.lock().options.compaction_buffer_bytes = bytes;
    }

    /// Whether the tracked files take all the space they may.
    pub fn is_max_allowed_space_reached(&self) -> bool {
        let state = self.shared.state.lock();
        let most = state.options.max_allowed_space_bytes;
        most > 0 && state.total_bytes >= most
    }

    /// Whether the tracked files and what running compactions may add take all the space they may.
    pub fn is_max_allowed_space_reached_including_compactions(&self) -> bool {
        let state = self.shared.state.lock();
        let most = state.options.max_allowed_space_bytes;
        most > 0 && state.total_bytes.saturating_add(state.reserved_for_compactions) >= most
    }

    /// Admits a compaction that reads `input_bytes`, and sets so much aside until [`SstFileManager::on_compaction_end`].
    /// `free_bytes_needed_in`: after a full disk, also ask for that much free space where this path lies.
    pub fn enough_room_for_compaction(&self, input_bytes: u64, free_bytes_needed_in: Option<&Path>) -> bool {
        let free = free_bytes_needed_in.map(|path| self.shared.fs.free_space_bytes(path).unwrap_or(u64::MAX));
        let mut state = self.shared.state.lock();
        let needed = state
            .reserved_for_compactions
            .saturating_add(input_bytes)
            .saturating_add(state.options.compaction_buffer_bytes);
        let most = state.options.max_allowed_space_bytes;
        if most > 0 && needed.saturating_add(state.total_bytes) > most {
            return false;
        }
        if free.is_some_and(|free| free < needed) {
            return false;
        }
        state.reserved_for_compactions += input_bytes;
        true
    }

    /// A compaction that was admitted with `input_bytes` ended.
    pub fn on_compaction_end(&self, input_bytes: u64) {
        let mut state = self.shared.state.lock();
        state.reserved_for_compactions = state.reserved_for_compactions.saturating_sub(input_bytes);
    }

    /// How fast trash is deleted, in bytes per second; 0: at once.
    pub fn delete_rate_bytes_per_sec(&self) -> u64 {
        self.shared.state.lock().options.rate_bytes_per_sec
    }

    /// Changes how fast trash is deleted.
    pub fn set_delete_rate_bytes_per_sec(&self, rate: u64) {
        let mut state = self.shared.state.lock();
        state.options.rate_bytes_per_sec = rate;
        state.rate_changes += 1;
        self.shared.changed.notify_all();
    }

    /// Changes the fraction of trash above which deletions are not delayed.
    pub fn set_max_trash_db_ratio(&self, ratio: f64) {
        self.shared.state.lock().options.max_trash_db_ratio = ratio;
    }

    /// Bytes of the files in the trash.
    pub fn total_trash_bytes(&self) -> u64 {
        self.shared.state.lock().trash_bytes
    }

    /// What failed in the background, by file.
    pub fn background_errors(&self) -> BTreeMap<PathBuf, Error> {
        self.shared.state.lock().errors.clone()
    }

    /// Deletes a file, now or later. `directory_to_sync` is made durable after the deletion. With `force_background`
    /// the ratio of trash does not hurry the deletion; a rate of 0 does.
    ///
    /// # Errors
    /// Of a deletion that happens now.
    pub fn delete_file(&self, path: &Path, directory_to_sync: Option<&Path>, force_background: bool) -> Result<()> {
        {
            let state = self.shared.state.lock();
            let allowed = state.total_bytes as f64 * state.options.max_trash_db_ratio;
            let too_much_trash = !force_background && state.trash_bytes as f64 > allowed;
            if state.options.rate_bytes_per_sec == 0 || too_much_trash {
                drop(state);
                return self.delete_now(path, directory_to_sync);
            }
        }
        let bytes = self.shared.fs.file_size(path).unwrap_or_default();
        match self.move_to_trash(path) {
            Ok(trash) => {
                self.enqueue(Trash { path: trash, directory_to_sync: directory_to_sync.map(Path::to_path_buf), bytes })
            }
            Err(error) => {
                log_error!(&self.shared.logger, "Failed to mark {} as trash -- {error}", path.display());
                return self.delete_now(path, directory_to_sync);
            }
        }
        self.on_delete_file(path);
        Ok(())
    }

    fn delete_now(&self, path: &Path, directory_to_sync: Option<&Path>) -> Result<()> {
        self.shared.fs.remove_file(path)?;
        self.on_delete_file(path);
        match directory_to_sync {
            Some(dir) => self.shared.fs.new_directory(dir)?.fsync(),
            None => Ok(()),
        }
    }

    fn move_to_trash(&self, path: &Path) -> Result<PathBuf> {
        let text = path.as_os_str();
        if text.to_string_lossy().ends_with(TRASH_SUFFIX) {
            return Ok(path.to_path_buf());
        }
        // One directory holds few trash files of the same name; the limit only keeps a broken file system from
        // holding us here.
        for attempt in 0..1000 {
            let mut name = OsString::from(text);
            if attempt > 0 {
                name.push((attempt - 1).to_string());
            }
            name.push(TRASH_SUFFIX);
            let target = PathBuf::from(name);
            if !self.shared.fs.file_exists(&target)? {
                self.shared.fs.rename(path, &target)?;
                return Ok(target);
            }
        }
        Err(Error::io_error("no free name for the trash").with_file(path))
    }

    fn enqueue(&self, trash: Trash) {
        let mut state = self.shared.state.lock();
        state.trash_bytes += trash.bytes;
        state.pending += 1;
        state.queue.push_back(trash);
        if state.thread.is_none() && !state.closing {
            let shared = Arc::clone(&self.shared);
            match thread::spawn("firn:delete", move || shared.serve()) {
                Ok(handle) => state.thread = Some(handle),
                Err(error) => log_error!(&self.shared.logger, "Trash is not deleted: {error}"),
            }
        }
        self.shared.changed.notify_all();
    }

    /// Deletes or queues the `.trash` files that an earlier life left in a directory. A missing directory has none.
    pub fn clean_up_directory(&self, dir: &Path) -> Result<()> {
        let names = match self.shared.fs.children(dir) {
            Ok(names) => names,
            Err(error) if error.subcode() == SubCode::PathNotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        for name in names.iter().filter(|name| name.ends_with(TRASH_SUFFIX)) {
            let path = dir.join(name);
            // Left-over trash counts as part of the database, so that the ratio does not hurry it out at once.
            self.on_add_file(&path, self.shared.fs.file_size(&path).unwrap_or_default());
            self.delete_file(&path, None, false)?;
        }
        Ok(())
    }

    /// Waits until the trash is empty.
    pub fn wait_for_empty_trash(&self) {
        let mut state = self.shared.state.lock();
        while state.pending > 0 && !state.closing {
            self.shared.changed.wait(&mut state);
        }
    }
}

impl Drop for SstFileManager {
    fn drop(&mut self) {
        let thread = {
            let mut state = self.shared.state.lock();
            state.closing = true;
            self.shared.changed.notify_all();
            state.thread.take()
        };
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl State {
    fn track(&mut self, path: &Path, bytes: u64) {
        let before = self.tracked.insert(path.to_path_buf(), bytes).unwrap_or_default();
        self.total_bytes = self.total_bytes - before + bytes;
    }

    fn untrack(&mut self, path: &Path) -> Option<u64> {
        let bytes = self.tracked.remove(path)?;
        self.total_bytes -= bytes;
        Some(bytes)
    }
}

/// What one step on a trash file did.
enum Progress {
    Cut(u64),
    Gone,
}

impl Shared {
    fn serve(&self) {
        let mut state = self.state.lock();
        while !state.closing {
            if state.queue.is_empty() {
                self.changed.wait(&mut state);
                continue;
            }
            self.drain(&mut state);
        }
    }

    /// Works through the queue until it is empty, at the rate counted from its start.
    fn drain(&self, state: &mut MutexGuard<'_, State>) {
        let (mut start, mut deleted_bytes, mut seen_changes) = (self.now_micros(), 0u64, state.rate_changes);
        while !state.closing
            && let Some(trash) = state.queue.pop_front()
        {
            if state.rate_changes != seen_changes {
                (start, deleted_bytes, seen_changes) = (self.now_micros(), 0, state.rate_changes);
            }
            let chunk = state.options.bytes_max_delete_chunk;
            let outcome = MutexGuard::unlocked(state, || self.step(&trash, chunk));
            match outcome {
                Ok(Progress::Cut(bytes)) => {
                    deleted_bytes += bytes;
                    state.trash_bytes = state.trash_bytes.saturating_sub(bytes);
                    state.queue.push_front(Trash { bytes: trash.bytes.saturating_sub(bytes), ..trash });
                }
                other => {
                    deleted_bytes += trash.bytes;
                    state.trash_bytes = state.trash_bytes.saturating_sub(trash.bytes);
                    if let Err(error) = other {
                        log_error!(&self.logger, "Failed to delete {}: {error}", trash.path.display());
                        state.errors.insert(trash.path, error);
                    }
                    state.pending -= 1;
                    self.changed.notify_all();
                }
            }
            let rate = state.options.rate_bytes_per_sec;
            if rate > 0 {
                let micros = u128::from(deleted_bytes) * 1_000_000 / u128::from(rate);
                let due = start.saturating_add(u64::try_from(micros).unwrap_or(u64::MAX));
                self.wait_until(state, due, seen_changes);
            }
        }
    }

    /// Sleeps until `due`, the end, or a changed rate.
    fn wait_until(&self, state: &mut MutexGuard<'_, State>, due: u64, seen_changes: u64) {
        while !state.closing && state.rate_changes == seen_changes {
            let now = self.now_micros();
            if now >= due {
                return;
            }
            if self.clock.is_manual() {
                MutexGuard::unlocked(state, || self.clock.sleep_micros(due - now));
            } else {
                self.changed.wait_for(state, Duration::from_micros(due - now));
            }
        }
    }

    fn now_micros(&self) -> u64 {
        self.clock.now_nanos() / 1000
    }

    /// Deletes a trash file, or cuts a piece off a large one that has no other name.
    fn step(&self, trash: &Trash, chunk: u64) -> Result<Progress> {
        let size = self.fs.file_size(&trash.path)?;
        if chunk > 0 && size > chunk && self.fs.link_count(&trash.path)? == 1 {
            let mut file = self.fs.reopen_writable_file(&trash.path, &FileOptions::default())?;
            file.truncate(size - chunk)?;
            file.fsync()?;
            file.close()?;
            return Ok(Progress::Cut(chunk));
        }
        self.fs.remove_file(&trash.path)?;
        if let Some(dir) = &trash.directory_to_sync {
            self.fs.new_directory(dir)?.fsync()?;
        }
        Ok(Progress::Gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::file::write_file;
    use crate::logger::NullLogger;
    use crate::memory::MemoryFileSystem;

    struct World {
        fs: Arc<dyn FileSystem>,
        clock: Arc<ManualClock>,
        manager: SstFileManager,
    }

    fn world(options: SstFileManagerOptions) -> World {
        let fs: Arc<dyn FileSystem> = Arc::new(MemoryFileSystem::new());
        fs.create_dir(Path::new("/db")).unwrap();
        let clock = Arc::new(ManualClock::new(1_000_000));
        let shared: Arc<dyn Clock> = Arc::clone(&clock) as _;
        let manager = SstFileManager::new(Arc::clone(&fs), shared, Arc::new(NullLogger), options);
        World { fs, clock, manager }
    }

    impl World {
        fn add(&self, name: &str, bytes: usize) -> PathBuf {
            let path = Path::new("/db").join(name);
            write_file(&*self.fs, &path, &vec![1; bytes], false).unwrap();
            self.manager.on_add_file(&path, bytes as u64);
            path
        }
    }

    #[test]
    fn without_a_rate_files_go_at_once() {
        let world = world(SstFileManagerOptions::default());
        let path = world.add("000001.sst", 1000);
        assert_eq!(world.manager.total_bytes(), 1000);
        world.manager.delete_file(&path, Some(Path::new("/db")), false).unwrap();
        assert!(world.fs.children(Path::new("/db")).unwrap().is_empty());
        assert_eq!(world.manager.total_bytes(), 0);
        assert!(world.manager.delete_file(&path, None, false).unwrap_err().is_path_not_found());
    }

    #[test]
    fn with_a_rate_files_go_through_the_trash_in_time() {
        let options = SstFileManagerOptions {
            rate_bytes_per_sec: 1000,
            bytes_max_delete_chunk: 400,
            max_trash_db_ratio: 10.0,
            ..SstFileManagerOptions::default()
        };
        let world = world(options);
        let start = world.clock.now_micros();
        for i in 0..3 {
            let path = world.add(&format!("{i:06}.sst"), 1000);
            world.manager.delete_file(&path, None, true).unwrap();
            assert!(!world.fs.file_exists(&path).unwrap());
        }
        world.manager.wait_for_empty_trash();
        assert!(world.fs.children(Path::new("/db")).unwrap().is_empty());
        assert_eq!(world.manager.total_trash_bytes(), 0);
        assert!(world.clock.now_micros() - start >= 2_000_000, "{}", world.clock.now_micros() - start);
        assert!(world.manager.background_errors().is_empty());
    }

    #[test]
    fn left_over_trash_is_cleaned_and_taken_names_are_avoided() {
        let world = world(SstFileManagerOptions::default());
        world.add("000001.sst.trash", 10);
        world.add("000002.sst", 10);
        world.manager.clean_up_directory(Path::new("/db")).unwrap();
        world.manager.clean_up_directory(Path::new("/elsewhere")).unwrap();
        assert_eq!(world.fs.children(Path::new("/db")).unwrap(), ["000002.sst"]);
        world.add("000002.sst.trash", 1);
        let target = world.manager.move_to_trash(Path::new("/db/000002.sst")).unwrap();
        assert_eq!(target, Path::new("/db/000002.sst0.trash"));
    }

    #[test]
    fn limits_count_files_and_admitted_compactions() {
        let world = world(SstFileManagerOptions { max_allowed_space_bytes: 3000, ..Default::default() });
        let path = world.add("000001.sst", 1000);
        assert!(!world.manager.is_max_allowed_space_reached());
        assert!(world.manager.enough_room_for_compaction(1000, None));
        assert!(!world.manager.enough_room_for_compaction(1001, Some(Path::new("/db"))));
        assert!(world.manager.enough_room_for_compaction(1000, None));
        assert!(world.manager.is_max_allowed_space_reached_including_compactions());
        world.manager.on_compaction_end(1000);
        world.manager.on_move_file(&path, Path::new("/db/000009.sst"));
        assert_eq!(world.manager.tracked_files().keys().next().unwrap(), Path::new("/db/000009.sst"));
        world.manager.set_max_allowed_space_bytes(1000);
        assert!(world.manager.is_max_allowed_space_reached());
    }
}
