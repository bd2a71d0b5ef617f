//! Commands about the files of a database, done without its engine: copies, damage, counts, and many writes in one line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use firn_env::{Clock, FileSystem, SystemClock, create_dir_all, read_file};

use crate::common::{FS, copy_dir, put_file};
use crate::room::letters;
use crate::words::{Parsed, Words, unescape};
use crate::{Answer, Engine};

/// The directory of one scenario and which of its databases is in use.
pub struct Disk {
    root: PathBuf,
    database: String,
    copies: usize,
}

impl Disk {
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), database: "db".to_owned(), copies: 0 }
    }

    fn dir(&self) -> PathBuf {
        self.root.join(&self.database)
    }

    /// Carries out `command` if it is about files; `None` if it is for the engine.
    pub fn run(&mut self, engine: &mut dyn Engine, command: &str) -> Option<Answer> {
        let (name, rest) = command.split_once(' ').unwrap_or((command, ""));
        let words = Words::parse(rest);
        let lines = match name {
            "fill" => return Some(fill(engine, &words)),
            "crash" => return Some(self.crash(engine)),
            "use" => {
                words.word(0).unwrap_or("db").clone_into(&mut self.database);
                return Some(engine.run(&format!("dir {}", self.database)));
            }
            "files" => Ok(self.count_files(&words)),
            "corrupt" => self.corrupt(&words),
            "zero" => self.zero(&words),
            "truncate" => self.truncate(&words),
            "append" => self.append(&words),
            "remove" => self.remove(&words),
            "replace" => self.replace(&words),
            "copy" => self.copy(&words),
            "sleep" => words.word(0).and_then(|text| {
                let millis: u64 = text.parse().map_err(|_| "no number")?;
                SystemClock::default().sleep_micros(millis * 1000);
                Ok(Vec::new())
            }),
            _ => return None,
        };
        Some(lines.map_or_else(|text| Answer::Broken(vec![format!("!! {text}")]), Answer::Lines))
    }

    /// The database as it would be found had the process been killed now.
    fn crash(&mut self, engine: &mut dyn Engine) -> Answer {
        // A file that goes while the directory is copied is no state of it.
        let _ = engine.run("wait");
        self.copies += 1;
        let copy = format!("crash{}", self.copies);
        copy_dir(&self.dir(), &self.root.join(&copy));
        self.database.clone_from(&copy);
        engine.run(&format!("dir {copy}"))
    }

    /// How many files there are of each kind that was named, or of each.
    fn count_files(&self, words: &Words) -> Vec<String> {
        let wanted = words.words();
        let mut counts: BTreeMap<String, usize> = wanted.iter().map(|kind| ((*kind).to_owned(), 0)).collect();
        for (kind, _) in self.all() {
            match counts.get_mut(&kind) {
                Some(count) => *count += 1,
                None if wanted.is_empty() => {
                    counts.insert(kind, 1);
                }
                None => {}
            }
        }
        if counts.is_empty() {
            return vec!["(none)".to_owned()];
        }
        vec![counts.iter().map(|(kind, count)| format!("{kind} {count}")).collect::<Vec<_>>().join(", ")]
    }

    /// Every file with its kind, by name; those in `archive` and `lost` are of these kinds.
    fn all(&self) -> Vec<(String, PathBuf)> {
        let mut all = Vec::new();
        let mut names = FS.children(&self.dir()).unwrap_or_default();
        names.sort();
        for name in names {
            let path = self.dir().join(&name);
            if FS.is_directory(&path).unwrap_or(false) {
                let inner = FS.children(&path).unwrap_or_default();
                all.extend(inner.into_iter().map(|file| (name.clone(), path.join(file))));
                continue;
            }
            all.push((kind_of(&name), path));
        }
        all
    }

    /// `sst.0` is the first table by number, `log.-1` the last WAL; other words are names.
    fn find(&self, word: &str) -> Parsed<PathBuf> {
        let Some((kind, at)) = word.rsplit_once('.').filter(|(_, at)| at.parse::<i64>().is_ok()) else {
            return Ok(self.dir().join(word));
        };
        let files: Vec<_> = self.all().into_iter().filter(|(of, _)| of == kind).map(|(_, path)| path).collect();
        let at: i64 = at.parse().map_err(|_| "no number")?;
        let at = if at < 0 { files.len() as i64 + at } else { at };
        usize::try_from(at).ok().and_then(|at| files.get(at).cloned()).ok_or_else(|| format!("no file {word}"))
    }

    fn read(&self, words: &Words) -> Parsed<(PathBuf, Vec<u8>)> {
        let path = self.find(words.word(0)?)?;
        let bytes = read_file(&FS, &path, u64::MAX).map_err(|error| error.to_string())?;
        Ok((path, bytes))
    }

    /// `corrupt -at=50% -length=4 sst.0` turns over bytes.
    fn corrupt(&self, words: &Words) -> Parsed<Vec<String>> {
        let (path, mut bytes) = self.read(words)?;
        let at = place(words.text("at").unwrap_or("50%"), written(&path, &bytes))?;
        let length: usize = words.unsigned("length", 1)?;
        let damaged = bytes.get_mut(at..at + length).ok_or("beyond the end of the file")?;
        damaged.iter_mut().for_each(|byte| *byte ^= 0x55);
        put_file(&path, &bytes);
        Ok(Vec::new())
    }

    /// `zero -at=-20 log.-1` makes zeros of the bytes from there on, or of `-length` of them.
    fn zero(&self, words: &Words) -> Parsed<Vec<String>> {
        let (path, mut bytes) = self.read(words)?;
        let at = place(words.text("at").unwrap_or("50%"), written(&path, &bytes))?;
        let rest = bytes.get_mut(at..).ok_or("beyond the end of the file")?;
        let length = words.unsigned("length", rest.len() as i64)?;
        rest.iter_mut().take(length).for_each(|byte| *byte = 0);
        put_file(&path, &bytes);
        Ok(Vec::new())
    }

    /// `truncate -to=50% log.-1`.
    fn truncate(&self, words: &Words) -> Parsed<Vec<String>> {
        let (path, mut bytes) = self.read(words)?;
        bytes.truncate(place(words.text("to").unwrap_or("50%"), written(&path, &bytes))?);
        put_file(&path, &bytes);
        Ok(Vec::new())
    }

    /// `append log.-1 garbage`, `append -zeros=100 log.-1`.
    fn append(&self, words: &Words) -> Parsed<Vec<String>> {
        let (path, mut bytes) = self.read(words)?;
        bytes.truncate(written(&path, &bytes));
        let zeros: usize = words.unsigned("zeros", 0)?;
        bytes.resize(bytes.len() + zeros, 0);
        bytes.extend(unescape(words.word(1).unwrap_or("\"\""))?);
        put_file(&path, &bytes);
        Ok(Vec::new())
    }

    /// `replace CURRENT MANIFEST-000099\x0a`: the whole contents.
    fn replace(&self, words: &Words) -> Parsed<Vec<String>> {
        let path = self.find(words.word(0)?)?;
        create_dir_all(&FS, &self.dir()).map_err(|error| error.to_string())?;
        put_file(&path, &unescape(words.word(1).unwrap_or("\"\""))?);
        Ok(Vec::new())
    }

    fn remove(&self, words: &Words) -> Parsed<Vec<String>> {
        for word in words.words() {
            FS.remove_file(&self.find(word)?).map_err(|error| error.to_string())?;
        }
        Ok(Vec::new())
    }

    /// `copy sst.0 000099.sst`.
    fn copy(&self, words: &Words) -> Parsed<Vec<String>> {
        let (_, bytes) = self.read(words)?;
        put_file(&self.dir().join(words.word(1)?), &bytes);
        Ok(Vec::new())
    }
}

fn kind_of(name: &str) -> String {
    // Not to be taken for a WAL.
    if name == "LOG" || name.starts_with("LOG.old") {
        return "info".to_owned();
    }
    match name.split_once('.') {
        Some((_, kind)) if kind.bytes().all(|byte| byte.is_ascii_alphabetic()) => kind.to_owned(),
        _ => name.split('-').next().unwrap_or(name).trim_end_matches(".old").to_lowercase(),
    }
}

/// How much of a file was written: engines keep room behind the end of a WAL, which is zeros.
fn written(path: &Path, bytes: &[u8]) -> usize {
    match path.extension().is_some_and(|kind| kind == "log") {
        true => bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1),
        false => bytes.len(),
    }
}

/// A place in a file: `12`, `-12` from its end, or `50%`.
fn place(text: &str, length: usize) -> Parsed<usize> {
    let wrong = || format!("{text} is no place in a file of {length} bytes");
    let at = match text.strip_suffix('%') {
        Some(percent) => length as i64 * percent.parse::<i64>().map_err(|_| wrong())? / 100,
        None => text.parse().map_err(|_| wrong())?,
    };
    usize::try_from(if at < 0 { length as i64 + at } else { at }).map_err(|_| wrong())
}

/// `fill k 0..100 -size=50`: `k0000` to `k0099`, each with a value of 50 letters that its number determines.
/// `-step=2` leaves every other one out; `-delete` and `-merge` do that instead.
fn fill(engine: &mut dyn Engine, words: &Words) -> Answer {
    let plan = || -> Parsed<(String, u64, u64, u64, usize, u64)> {
        let range = words.word(1)?;
        let (from, to) = range.split_once("..").ok_or("no range")?;
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{text} is no number"));
        let (step, size) = (words.unsigned("step", 1)?, words.unsigned("size", 10)?);
        Ok((words.word(0)?.to_owned(), number(from)?, number(to)?, step, size, words.unsigned("seed", 0)?))
    };
    let (prefix, from, to, step, size, seed) = match plan() {
        Ok(plan) => plan,
        Err(text) => return Answer::Broken(vec![format!("!! {text}")]),
    };
    let mut command = match words {
        _ if words.has("delete") => "delete".to_owned(),
        _ if words.has("merge") => "merge".to_owned(),
        _ => "put".to_owned(),
    };
    let is_delete = command == "delete";
    words.families.iter().for_each(|family| command.push_str(&format!(" @{family}")));
    if words.has("disable_wal") {
        command.push_str(" -disable_wal");
    }
    for number in (from..to).step_by(usize::try_from(step).unwrap_or(1).max(1)) {
        command.push_str(&format!(" {prefix}{number:04}"));
        if !is_delete {
            command.push_str(&format!("={}", letters(size, number + seed * 1_000_003)));
        }
    }
    engine.run(&command)
}
