//! The expected state outside the database: what it held when a generation began, and what every thread has done since.
//!
//! A *generation* is the time between two opens of the database. In its directory, `state-N` tells the contents at the start
//! of generation N and how much of its writes a kill may take; `journal-N-T` tells the operations of thread T: a line
//! before each begins, a line after it returned; `closed-N` says that the generation ended with a clean close. Every line is
//! handed to the operating system with one `write`, so what a killed process wrote is there; nothing is synced, since the
//! machine stays up. Always true here: `state-N+1` appears, by a rename, only after the database was verified against
//! generation N, and only then the files of generation N go.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use firn_env::{FileOptions, FileSystem, WritableFile, read_file, write_file};
use firn_error::{Error, Result};

use super::contents::{Contents, Op};

/// What a kill may take of the writes of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// Nothing that returned.
    Everything,
    /// The newest writes, in the order in which they were made (`manual_wal_flush`; no WAL with `atomic_flush`).
    Prefix,
    /// The newest writes of each column family (no WAL).
    PrefixOfEachFamily,
}

impl Survival {
    fn name(self) -> &'static str {
        match self {
            Self::Everything => "everything",
            Self::Prefix => "prefix",
            Self::PrefixOfEachFamily => "prefix-of-each-family",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::Everything, Self::Prefix, Self::PrefixOfEachFamily].into_iter().find(|survival| survival.name() == name)
    }
}

/// What the database held when a generation began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The number of the generation.
    pub generation: u64,
    /// What a kill may take of it.
    pub survival: Survival,
    /// The column families.
    pub families: BTreeMap<String, Contents>,
}

/// An operation of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When it began; stamps order all threads of a generation.
    pub begun: u64,
    /// When it returned; `None` if it may or may not have happened.
    pub done: Option<u64>,
    /// What it was.
    pub op: Op,
}

/// Everything that is known of the last generation.
#[derive(Debug)]
pub struct Known {
    /// Its start.
    pub state: State,
    /// The operations of each thread, in order.
    pub threads: Vec<Vec<Entry>>,
    /// Whether it ended with a clean close.
    pub closed: bool,
}

/// A directory of expected states.
#[derive(Clone, Copy)]
pub struct Store<'a> {
    /// Where files are.
    pub fs: &'a dyn FileSystem,
    /// The directory.
    pub dir: &'a Path,
}

const LIMIT_BYTES: u64 = 1 << 30;

fn damaged(path: &Path, what: &str) -> Error {
    Error::corruption(format!("expected state: {what}")).with_file(path)
}

impl Store<'_> {
    fn state_path(&self, generation: u64) -> PathBuf {
        self.dir.join(format!("state-{generation}"))
    }

    fn closed_path(&self, generation: u64) -> PathBuf {
        self.dir.join(format!("closed-{generation}"))
    }

    fn text(&self, path: &Path) -> Result<String> {
        let bytes = read_file(self.fs, path, LIMIT_BYTES)?;
        String::from_utf8(bytes).map_err(|_| damaged(path, "not text"))
    }

    /// The last generation; `None` when there was none yet.
    ///
    /// # Errors
    /// `IoError` or `Corruption` naming the file.
    pub fn load(&self) -> Result<Option<Known>> {
        let names = self.fs.children(self.dir)?;
        let generations = names.iter().filter_map(|name| name.strip_prefix("state-")?.parse::<u64>().ok());
        let Some(generation) = generations.max() else { return Ok(None) };
        let path = self.state_path(generation);
        let state =
            parse_state(generation, &self.text(&path)?).ok_or_else(|| damaged(&path, "a line does not parse"))?;
        let mut threads = BTreeMap::new();
        for name in &names {
            let Some(thread) = name.strip_prefix(&format!("journal-{generation}-")) else { continue };
            let path = self.dir.join(name);
            let thread: usize = thread.parse().map_err(|_| damaged(&path, "no thread number in the name"))?;
            let entries = parse_journal(&self.text(&path)?).ok_or_else(|| damaged(&path, "a line does not parse"))?;
            threads.insert(thread, entries);
        }
        let count = threads.keys().max().map_or(0, |last| last + 1);
        let threads = (0..count).map(|thread| threads.remove(&thread).unwrap_or_default()).collect();
        let closed = self.fs.file_exists(&self.closed_path(generation))?;
        Ok(Some(Known { state, threads, closed }))
    }

    /// Begins a generation: from now on it is the last one.
    ///
    /// # Errors
    /// `IoError` naming the file.
    pub fn begin(&self, state: &State) -> Result<()> {
        let path = self.state_path(state.generation);
        let temporary = self.dir.join("state.tmp");
        write_file(self.fs, &temporary, print_state(state).as_bytes(), false)?;
        self.fs.rename(&temporary, &path)?;
        for name in self.fs.children(self.dir)? {
            let mut parts = name.split('-').skip(1);
            if parts.next().and_then(|number| number.parse().ok()).is_some_and(|number: u64| number < state.generation)
            {
                self.fs.remove_file(&self.dir.join(&name))?;
            }
        }
        Ok(())
    }

    /// Ends a generation whose database was closed without an error.
    ///
    /// # Errors
    /// `IoError` naming the file.
    pub fn end(&self, generation: u64) -> Result<()> {
        write_file(self.fs, &self.closed_path(generation), b"", false)
    }

    /// The journal of a thread, empty.
    ///
    /// # Errors
    /// `IoError` naming the file.
    pub fn journal(&self, generation: u64, thread: usize) -> Result<Journal> {
        let options = FileOptions { writable_buffer_bytes: 0, ..FileOptions::default() };
        let path = self.dir.join(format!("journal-{generation}-{thread}"));
        Ok(Journal { file: self.fs.new_writable_file(&path, &options)? })
    }
}

/// What one thread does, line by line.
#[derive(Debug)]
pub struct Journal {
    file: Box<dyn WritableFile>,
}

impl Journal {
    /// Notes that an operation is about to begin.
    ///
    /// # Errors
    /// `IoError` naming the file.
    pub fn begin(&mut self, stamp: u64, op: &Op) -> Result<()> {
        self.file.append(format!("> {stamp} {}\n", op.to_text()).as_bytes())
    }

    /// Notes that the operation returned success.
    ///
    /// # Errors
    /// `IoError` naming the file.
    pub fn done(&mut self, stamp: u64) -> Result<()> {
        self.file.append(format!("< {stamp}\n").as_bytes())
    }
}

/// The lines of a journal; a last line without end was cut by the kill and says nothing.
fn parse_journal(text: &str) -> Option<Vec<Entry>> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut entries: Vec<Entry> = Vec::new();
    for line in whole.lines() {
        if let Some(rest) = line.strip_prefix("> ") {
            let (stamp, op) = rest.split_once(' ')?;
            entries.push(Entry { begun: stamp.parse().ok()?, done: None, op: Op::from_text(op)? });
        } else {
            entries.last_mut()?.done = Some(line.strip_prefix("< ")?.parse().ok()?);
        }
    }
    Some(entries)
}

fn print_state(state: &State) -> String {
    let mut text = format!("survival {}\n", state.survival.name());
    for (name, contents) in &state.families {
        let _ = writeln!(text, "family {name}");
        for (key, ids) in contents {
            let ids: Vec<String> = ids.iter().map(u64::to_string).collect();
            let _ = writeln!(text, "{key} {}", ids.join(" "));
        }
    }
    text
}

fn parse_state(generation: u64, text: &str) -> Option<State> {
    let mut lines = text.lines();
    let survival = Survival::from_name(lines.next()?.strip_prefix("survival ")?)?;
    let mut families: BTreeMap<String, Contents> = BTreeMap::new();
    let mut family = None;
    for line in lines {
        if let Some(name) = line.strip_prefix("family ") {
            family = Some(families.entry(name.to_owned()).or_default());
            continue;
        }
        let mut numbers = line.split(' ');
        let key = numbers.next()?.parse().ok()?;
        let ids = numbers.map(|id| id.parse().ok()).collect::<Option<Vec<u64>>>()?;
        family.as_mut()?.insert(key, ids);
    }
    Some(State { generation, survival, families })
}

#[cfg(test)]
mod tests {
    use super::super::contents::Change;
    use super::*;
    use firn_env::memory::MemoryFileSystem;

    #[test]
    fn a_generation_is_read_back_also_when_its_last_line_is_cut() {
        let fs = MemoryFileSystem::new();
        let dir = Path::new("/expected");
        firn_env::create_dir_all(&fs, dir).expect("directory");
        let store = Store { fs: &fs, dir };
        assert!(store.load().expect("load").is_none());
        let families = BTreeMap::from([("default".to_owned(), Contents::from([(3, vec![1, 2])]))]);
        let mut state = State { generation: 4, survival: Survival::Prefix, families };
        store.begin(&state).expect("begin");
        let mut journal = store.journal(4, 1).expect("journal");
        let op = Op::Write(vec![("default".to_owned(), Change::Put(5, 6))]);
        journal.begin(1, &op).expect("begin");
        journal.done(2).expect("done");
        journal.begin(3, &Op::Persist).expect("begin");
        journal.file.append(b"< 1").expect("half a line");
        drop(journal);
        let known = store.load().expect("load").expect("a generation");
        assert_eq!((&known.state, known.closed), (&state, false));
        let wanted = [Entry { begun: 1, done: Some(2), op }, Entry { begun: 3, done: None, op: Op::Persist }];
        assert_eq!(known.threads, [vec![], wanted.to_vec()]);
        store.end(4).expect("end");
        assert!(store.load().expect("load").expect("a generation").closed);
        state.generation = 5;
        store.begin(&state).expect("begin");
        assert_eq!(fs.children(dir).expect("children"), ["state-5"]);
    }
}
