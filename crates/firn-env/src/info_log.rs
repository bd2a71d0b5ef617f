//! The info log as a file: RocksDB's names, line format and rotation.
//!
//! Messages flow in through [`Logger`]; lines flow out to `LOG`, which at open, by size or by age is renamed to
//! `LOG.old.<micros>` and begun anew with the header lines repeated. [`LogBuffer`] holds messages back that arise
//! where nothing slow may happen, such as under the database mutex.
//!
//! Always true here: a line is `YYYY/MM/DD-HH:MM:SS.uuuuuu <thread> <message>`; failures to log are swallowed, since a
//! store must not stop because its log cannot be written.

use std::ffi::OsString;
use std::fmt::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use firn_error::Result;

use crate::clock::Clock;
use crate::file::{FileOptions, FileSystem, WritableFile};
use crate::logger::{LogLevel, Logger};
use crate::posix::local_time;
use crate::sync::Mutex;
use crate::thread;

/// Longer messages are cut.
const LONGEST_MESSAGE_BYTES: usize = 64 << 10;
/// An idle buffer is handed to the system with the first message after so long.
const FLUSH_EVERY_MICROS: u64 = 5_000_000;
/// Header lines repeated in every new log: enough for every option of many column families.
const MOST_HEADERS: usize = 100_000;

/// How an info log is kept.
#[derive(Clone, Debug)]
pub struct InfoLogOptions {
    /// The lowest level that is written. Default: info.
    pub level: LogLevel,
    /// Begin a new file when the current one has so many bytes; 0 (the default): never by size.
    pub max_log_file_size: u64,
    /// Begin a new file when the current one is so many seconds old; 0 (the default): never by age.
    pub log_file_time_to_roll: u64,
    /// How many files are kept, the current one included. Default: 1000.
    pub keep_log_file_num: usize,
}

impl Default for InfoLogOptions {
    fn default() -> Self {
        Self { level: LogLevel::Info, max_log_file_size: 0, log_file_time_to_roll: 0, keep_log_file_num: 1000 }
    }
}

#[derive(Debug)]
struct State {
    file: Option<Box<dyn WritableFile>>,
    headers: Vec<String>,
    opened_secs: u64,
    flushed_micros: u64,
    line: String,
    /// The date and time text of the second that was formatted last.
    stamp: (u64, String),
}

/// A logger that writes a `LOG` file. Thread-safe.
#[derive(Debug)]
pub struct FileLogger {
    fs: Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
    path: PathBuf,
    options: InfoLogOptions,
    level: AtomicU8,
    state: Mutex<State>,
}

impl FileLogger {
    /// Begins the log at `path` (such as `<db>/LOG`); an existing one becomes `<path>.old.<micros>`.
    pub fn open(fs: Arc<dyn FileSystem>, clock: Arc<dyn Clock>, path: &Path, options: InfoLogOptions) -> Result<Self> {
        let logger = Self {
            level: AtomicU8::new(options.level as u8),
            options,
            state: Mutex::new(State {
                file: None,
                headers: Vec::new(),
                opened_secs: 0,
                flushed_micros: 0,
                line: String::new(),
                stamp: (u64::MAX, String::new()),
            }),
            fs,
            clock,
            path: path.to_path_buf(),
        };
        logger.begin_file(&mut logger.state.lock())?;
        Ok(logger)
    }

    /// The current log file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Puts an existing file aside, removes the oldest ones and begins a new one with the headers.
    fn begin_file(&self, state: &mut State) -> Result<()> {
        if let Some(mut file) = state.file.take() {
            let _ = file.close();
        }
        if self.fs.file_exists(&self.path)? {
            let mut micros = self.clock.now_micros();
            while self.fs.file_exists(&self.old_path(micros))? {
                micros += 1;
            }
            self.fs.rename(&self.path, &self.old_path(micros))?;
            self.remove_oldest();
        }
        let options = FileOptions { writable_buffer_bytes: 64 << 10, ..FileOptions::default() };
        state.file = Some(self.fs.new_writable_file(&self.path, &options)?);
        state.opened_secs = self.clock.now_secs();
        let headers = std::mem::take(&mut state.headers);
        for header in &headers {
            self.append_line(state, LogLevel::Header, format_args!("{header}"));
        }
        state.headers = headers;
        Ok(())
    }

    fn old_path(&self, micros: u64) -> PathBuf {
        let mut name = OsString::from(&self.path);
        name.push(format!(".old.{micros}"));
        PathBuf::from(name)
    }

    fn remove_oldest(&self) {
        let (Some(dir), Some(name)) = (self.path.parent(), self.path.file_name()) else { return };
        let prefix = format!("{}.old.", name.to_string_lossy());
        let Ok(names) = self.fs.children(dir) else { return };
        let number = |name: &String| name.strip_prefix(&prefix).and_then(|digits| digits.parse::<u64>().ok());
        let mut old: Vec<(u64, &String)> = names.iter().filter_map(|name| Some((number(name)?, name))).collect();
        old.sort_unstable();
        let kept = self.options.keep_log_file_num.max(1) - 1;
        let excess = old.len().saturating_sub(kept);
        for (_, name) in old.into_iter().take(excess) {
            let _ = self.fs.remove_file(&dir.join(name));
        }
    }

    fn must_roll(&self, state: &State) -> bool {
        let Some(file) = &state.file else { return false };
        let (size, age) = (self.options.max_log_file_size, self.options.log_file_time_to_roll);
        (size > 0 && file.file_size() >= size)
            || (age > 0 && self.clock.now_secs().saturating_sub(state.opened_secs) >= age)
    }

    fn append_line(&self, state: &mut State, level: LogLevel, message: fmt::Arguments<'_>) {
        let now = self.clock.now_micros();
        let mut line = std::mem::take(&mut state.line);
        line.clear();
        write_stamp(&mut line, &mut state.stamp, now);
        let _ = write!(line, " {} ", thread::system_id());
        let start = line.len();
        let _ = write!(line, "{}{message}", level.tag());
        cut(&mut line, start + LONGEST_MESSAGE_BYTES);
        if !line.ends_with('\n') {
            line.push('\n');
        }
        if let Some(file) = &mut state.file {
            let _ = file.append(line.as_bytes());
            let due = now.saturating_sub(state.flushed_micros) >= FLUSH_EVERY_MICROS;
            if due || matches!(level, LogLevel::Warn | LogLevel::Error | LogLevel::Fatal) {
                let _ = file.flush();
                state.flushed_micros = now;
            }
        }
        state.line = line;
    }
}

/// Cuts a string to at most `bytes` bytes at a character boundary.
fn cut(line: &mut String, bytes: usize) {
    let mut end = bytes.min(line.len());
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    line.truncate(end);
}

/// Appends `YYYY/MM/DD-HH:MM:SS.uuuuuu`; the text of the last second is kept, since converting to local time is slow.
fn write_stamp(line: &mut String, stamp: &mut (u64, String), micros: u64) {
    let second = micros / 1_000_000;
    if stamp.0 != second {
        let t = local_time(second);
        stamp.0 = second;
        stamp.1 = format!("{:04}/{:02}/{:02}-{:02}:{:02}:{:02}", t.year, t.month, t.day, t.hour, t.minute, t.second);
    }
    let _ = write!(line, "{}.{:06}", stamp.1, micros % 1_000_000);
}

/// A moment as the info log prints it: local time, `YYYY/MM/DD-HH:MM:SS.uuuuuu`.
pub fn format_log_time(micros: u64) -> String {
    let mut text = String::new();
    write_stamp(&mut text, &mut (u64::MAX, String::new()), micros);
    text
}

impl Logger for FileLogger {
    fn level(&self) -> LogLevel {
        LogLevel::from_u8(self.level.load(Ordering::Relaxed)).unwrap_or_default()
    }

    fn set_level(&self, level: LogLevel) {
        self.level.store(level as u8, Ordering::Relaxed);
    }

    fn write(&self, level: LogLevel, message: fmt::Arguments<'_>) {
        let mut state = self.state.lock();
        if self.must_roll(&state) {
            // Without a file messages are dropped until the next attempt to roll, at the next open.
            let _ = self.begin_file(&mut state);
        }
        self.append_line(&mut state, level, message);
        if level == LogLevel::Header && state.headers.len() < MOST_HEADERS {
            state.headers.push(message.to_string());
        }
    }

    fn flush(&self) {
        if let Some(file) = &mut self.state.lock().file {
            let _ = file.flush();
        }
    }

    fn close(&self) {
        if let Some(mut file) = self.state.lock().file.take() {
            let _ = file.close();
        }
    }
}

/// Messages held back until it is safe to write them. Each carries its original time.
#[derive(Debug)]
pub struct LogBuffer {
    logger: Arc<dyn Logger>,
    clock: Arc<dyn Clock>,
    messages: Vec<(LogLevel, u64, String)>,
}

impl LogBuffer {
    /// An empty buffer in front of `logger`.
    pub fn new(logger: Arc<dyn Logger>, clock: Arc<dyn Clock>) -> Self {
        Self { logger, clock, messages: Vec::new() }
    }

    /// Keeps a message if its level is enabled.
    pub fn add(&mut self, level: LogLevel, message: fmt::Arguments<'_>) {
        if self.logger.is_enabled(level) {
            self.messages.push((level, self.clock.now_micros(), message.to_string()));
        }
    }

    /// Whether no message is held back.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Writes all messages in order.
    pub fn flush(&mut self) {
        for (level, micros, message) in self.messages.drain(..) {
            let time = format_log_time(micros);
            self.logger.write(level, format_args!("(Original Log Time {time}) {message}"));
        }
    }
}

/// Nothing is lost: what is still held back is written.
impl Drop for LogBuffer {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::file::read_file;
    use crate::memory::MemoryFileSystem;
    use crate::{log_event, log_header, log_info, log_warn};

    struct World {
        fs: Arc<dyn FileSystem>,
        clock: Arc<ManualClock>,
    }

    impl World {
        fn new() -> Self {
            let fs: Arc<dyn FileSystem> = Arc::new(MemoryFileSystem::new());
            fs.create_dir(Path::new("/db")).unwrap();
            Self { fs, clock: Arc::new(ManualClock::new(1_795_286_811_678_384)) }
        }

        fn open(&self, options: InfoLogOptions) -> FileLogger {
            let clock: Arc<dyn Clock> = Arc::clone(&self.clock) as _;
            FileLogger::open(Arc::clone(&self.fs), clock, Path::new("/db/LOG"), options).unwrap()
        }

        fn text(&self, name: &str) -> String {
            String::from_utf8(read_file(&*self.fs, &Path::new("/db").join(name), 1 << 20).unwrap()).unwrap()
        }

        fn names(&self) -> Vec<String> {
            let mut names = self.fs.children(Path::new("/db")).unwrap();
            names.sort();
            names
        }
    }

    #[test]
    fn lines_have_the_format_that_scripts_parse() {
        let world = World::new();
        let logger = world.open(InfoLogOptions::default());
        log_info!(&logger, "[{}] [JOB {}] Flushing", "default", 2);
        log_warn!(&logger, "slow");
        log_event!(&logger, "EVENT_LOG_v1 {}", "{\"job\": 2}");
        crate::log_debug!(&logger, "not written");
        logger.flush();
        let text = world.text("LOG");
        let lines: Vec<&str> = text.lines().collect();
        let prefix = format!("{} {} ", format_log_time(1_795_286_811_678_384), thread::system_id());
        assert!(format_log_time(1_795_286_811_678_384).ends_with(":51.678384"));
        assert_eq!(lines.len(), 3, "{text}");
        let first = lines[0].strip_prefix(&prefix).unwrap();
        assert!(first.starts_with("[info_log.rs:") && first.ends_with("] [default] [JOB 2] Flushing"), "{first}");
        assert!(lines[1].strip_prefix(&prefix).unwrap().starts_with("[WARN] [info_log.rs:"));
        assert_eq!(lines[2].strip_prefix(&prefix), Some("EVENT_LOG_v1 {\"job\": 2}"));
    }

    #[test]
    fn opening_puts_the_old_log_aside_and_keeps_so_many() {
        let world = World::new();
        for i in 0..5 {
            let logger = world.open(InfoLogOptions { keep_log_file_num: 3, ..InfoLogOptions::default() });
            log_info!(&logger, "open {i}");
            logger.close();
            world.clock.advance_micros(10);
        }
        let names = world.names();
        assert_eq!(names, ["LOG", "LOG.old.1795286811678414", "LOG.old.1795286811678424"]);
        assert!(world.text("LOG.old.1795286811678414").contains("open 2"));
    }

    #[test]
    fn rolls_by_size_and_by_age_and_repeats_the_headers() {
        let world = World::new();
        let options =
            InfoLogOptions { max_log_file_size: 2000, log_file_time_to_roll: 100, ..InfoLogOptions::default() };
        let logger = world.open(options);
        log_header!(&logger, "Options.x: 1");
        for i in 0..20 {
            log_info!(&logger, "{i} {}", "x".repeat(100));
            world.clock.advance_micros(1);
        }
        assert_eq!(world.names().len(), 2);
        world.clock.advance_micros(100_000_000);
        log_info!(&logger, "late");
        logger.close();
        assert_eq!(world.names().len(), 3);
        let text = world.text("LOG");
        assert!(text.lines().next().unwrap().ends_with(" Options.x: 1"), "{text}");
        assert!(text.contains("late") && text.lines().count() == 2);
    }

    #[test]
    fn long_messages_are_cut_and_buffered_ones_carry_their_time() {
        let world = World::new();
        let logger: Arc<dyn Logger> = Arc::new(world.open(InfoLogOptions::default()));
        let clock: Arc<dyn Clock> = Arc::clone(&world.clock) as _;
        let mut buffer = LogBuffer::new(Arc::clone(&logger), clock);
        buffer.add(LogLevel::Info, format_args!("later"));
        buffer.add(LogLevel::Debug, format_args!("never"));
        log_info!(&logger, "{}", "é".repeat(100_000));
        drop(buffer);
        logger.close();
        log_info!(&logger, "dropped");
        let text = world.text("LOG");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].len() < 66_000 && lines[0].len() > 65_000);
        assert!(lines[1].contains("(Original Log Time ") && lines[1].ends_with(") later"));
    }
}
