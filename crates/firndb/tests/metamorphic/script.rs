//! Histories as text: one operation per line, keys and values in hex (`-` is none). Drawn once, run by every store.
//!
//! | line | operation |
//! | --- | --- |
//! | `p F K V`, `m F K V`, `d F K`, `s F K`, `r F K K` | adds a put, merge, delete, single delete, range delete of family F to the batch |
//! | `w` | writes the batch |
//! | `g F S K` | gets K at snapshot S |
//! | `i F S L U D N` | walks over at most N entries between L and U, forwards (`f`) or backwards (`b`) |
//! | `+ S`, `- S` | takes, releases snapshot S |
//! | `f F`, `c F L U` | flushes, compacts |
//! | `N F`, `X F` | creates, drops family F |
//! | `o` | closes and opens again |
//!
//! `g` and `i` answer with a line each.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use firn_check::shapes::{self, Laid};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// Bytes as text.
pub fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() { "-".to_owned() } else { bytes.iter().map(|byte| format!("{byte:02x}")).collect() }
}

/// The bytes that [`hex`] wrote.
pub fn unhex(text: &str) -> Vec<u8> {
    if text == "-" {
        return Vec::new();
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

struct Author {
    rng: StdRng,
    keys: usize,
    families: BTreeSet<String>,
    born: u32,
    /// Families in which single keys exist that were put once and not deleted.
    singles: Vec<(String, u32)>,
    next_single: u32,
    snapshots: BTreeSet<u32>,
    next_snapshot: u32,
    text: String,
}

/// A history of about `operations` operations.
pub fn draw(seed: u64, operations: usize) -> String {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut author = Author {
        keys: *[15, 100, 600].choose(&mut rng).unwrap(),
        rng,
        families: BTreeSet::from(["default".to_owned()]),
        born: 0,
        singles: Vec::new(),
        next_single: 0,
        snapshots: BTreeSet::new(),
        next_snapshot: 0,
        text: String::new(),
    };
    for _ in 0..operations {
        author.operation();
    }
    for snapshot in std::mem::take(&mut author.snapshots) {
        author.line(format_args!("- {snapshot}"));
    }
    author.text
}

impl Author {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{line}").unwrap();
    }

    fn family(&mut self) -> String {
        let index = self.rng.random_range(0..self.families.len());
        self.families.iter().nth(index).unwrap().clone()
    }

    fn key_bytes(&mut self) -> Vec<u8> {
        let number = self.rng.random_range(0..self.keys);
        format!("{:02}-{number:04}", number % 13).into_bytes()
    }

    fn key(&mut self) -> String {
        hex(&self.key_bytes())
    }

    fn value(&mut self) -> String {
        let length = match self.rng.random_range(0..60) {
            0 => 5000,
            1..6 => 400,
            _ => self.rng.random_range(1..60),
        };
        let first: u8 = self.rng.random_range(b'a'..=b'z');
        hex(&(0..length).map(|at| if at % 3 == 0 { self.rng.random() } else { first }).collect::<Vec<u8>>())
    }

    fn snapshot(&mut self) -> String {
        let taken: Vec<u32> = self.snapshots.iter().copied().collect();
        match taken.choose(&mut self.rng) {
            Some(snapshot) if self.rng.random_bool(0.4) => snapshot.to_string(),
            _ => "-".to_owned(),
        }
    }

    fn operation(&mut self) {
        match self.rng.random_range(0..100) {
            0..43 => self.batch(),
            43..44 => self.touching_files(),
            44..45 => self.many_versions(),
            45..62 => {
                let (family, snapshot, key) = (self.family(), self.snapshot(), self.key());
                self.line(format_args!("g {family} {snapshot} {key}"));
            }
            62..78 => self.walk(),
            78..83 => self.take_snapshot(),
            83..87 => {
                if let Some(snapshot) = self.snapshots.pop_first() {
                    self.line(format_args!("- {snapshot}"));
                }
            }
            87..93 => {
                let family = self.family();
                self.line(format_args!("f {family}"));
            }
            93..96 => {
                let family = self.family();
                let (from, to) = (self.key(), self.key());
                let (from, to) = if self.rng.random_bool(0.5) { ("-".to_owned(), "-".to_owned()) } else { (from, to) };
                let (low, high) = if from <= to { (from, to) } else { (to, from) };
                self.line(format_args!("c {family} {low} {high}"));
            }
            96..98 => self.families(),
            _ => {
                // A snapshot does not outlive the open database.
                self.snapshots.clear();
                self.line(format_args!("o"));
            }
        }
    }

    fn batch(&mut self) {
        let count = if self.rng.random_bool(0.05) { 100 } else { self.rng.random_range(1..8) };
        for _ in 0..count {
            let (family, key) = (self.family(), self.key());
            match self.rng.random_range(0..100) {
                0..55 => {
                    let value = self.value();
                    self.line(format_args!("p {family} {key} {value}"));
                }
                55..70 => self.line(format_args!("d {family} {key}")),
                70..85 => {
                    let operand = hex(format!("{}", self.rng.random_range(0..100_000)).as_bytes());
                    self.line(format_args!("m {family} {key} {operand}"));
                }
                85..90 => {
                    let other = self.key();
                    let (low, high) = if key <= other { (key, other) } else { (other, key) };
                    self.line(format_args!("r {family} {low} {high}"));
                }
                _ => self.single(family),
            }
        }
        self.line(format_args!("w"));
    }

    /// Files that meet at one user key, and perhaps snapshots between them.
    fn touching_files(&mut self) {
        let family = self.family();
        let mut keys: Vec<Vec<u8>> = (0..self.rng.random_range(4..20)).map(|_| self.key_bytes()).collect();
        keys.sort();
        keys.dedup();
        if self.rng.random_bool(0.5) {
            self.line(format_args!("c {family} - -"));
        }
        for file in shapes::touching_files(&mut self.rng, &keys) {
            if self.rng.random_bool(0.3) {
                self.take_snapshot();
            }
            for write in file {
                match write {
                    Laid::Put(key) => {
                        let value = self.value();
                        self.line(format_args!("p {family} {} {value}", hex(&key)));
                    }
                    Laid::Merge(key) => {
                        let operand = hex(format!("{}", self.rng.random_range(0..100_000)).as_bytes());
                        self.line(format_args!("m {family} {} {operand}", hex(&key)));
                    }
                    Laid::Delete(key) => self.line(format_args!("d {family} {}", hex(&key))),
                    Laid::DeleteRange(from, to) => {
                        self.line(format_args!("r {family} {} {}", hex(&from), hex(&to)));
                    }
                }
            }
            self.line(format_args!("w"));
            self.line(format_args!("f {family}"));
        }
        if self.rng.random_bool(0.5) {
            self.line(format_args!("c {family} - -"));
        }
        let newest = self.snapshots.last().map(u32::to_string);
        for snapshot in newest.into_iter().chain(["-".to_owned()]) {
            self.line(format_args!("i {family} {snapshot} - - f 100000"));
            self.line(format_args!("i {family} {snapshot} - - b 100000"));
        }
    }

    /// More versions of one key than a cursor steps over one by one.
    fn many_versions(&mut self) {
        let (family, key) = (self.family(), self.key());
        for _ in 0..self.rng.random_range(3..30) {
            if self.rng.random_bool(0.3) {
                let operand = hex(format!("{}", self.rng.random_range(0..100_000)).as_bytes());
                self.line(format_args!("m {family} {key} {operand}"));
            } else {
                let value = self.value();
                self.line(format_args!("p {family} {key} {value}"));
            }
        }
        self.line(format_args!("w"));
    }

    fn take_snapshot(&mut self) {
        self.next_snapshot += 1;
        let snapshot = self.next_snapshot;
        self.snapshots.insert(snapshot);
        self.line(format_args!("+ {snapshot}"));
    }

    /// Puts a key that is never put again, or deletes such a key by a single delete: its contract.
    fn single(&mut self, family: String) {
        if self.rng.random_bool(0.5)
            && let Some((family, number)) = self.singles.pop()
        {
            self.line(format_args!("s {family} {}", hex(format!("single-{number:05}").as_bytes())));
            return;
        }
        self.next_single += 1;
        let (number, value) = (self.next_single, self.value());
        self.line(format_args!("p {family} {} {value}", hex(format!("single-{number:05}").as_bytes())));
        self.singles.push((family, number));
    }

    fn walk(&mut self) {
        let (family, snapshot, low, high) = (self.family(), self.snapshot(), self.key(), self.key());
        let (low, high) = if low <= high { (low, high) } else { (high, low) };
        let low = if self.rng.random_bool(0.4) { low } else { "-".to_owned() };
        let high = if self.rng.random_bool(0.4) { high } else { "-".to_owned() };
        let direction = if self.rng.random_bool(0.5) { 'f' } else { 'b' };
        let count = if self.rng.random_bool(0.2) { 100_000 } else { self.rng.random_range(1..30) };
        self.line(format_args!("i {family} {snapshot} {low} {high} {direction} {count}"));
    }

    /// Families come and go while no snapshot is held: what one of them shows of a younger family is nobody's contract.
    fn families(&mut self) {
        for snapshot in std::mem::take(&mut self.snapshots) {
            self.line(format_args!("- {snapshot}"));
        }
        if self.families.len() < 4 && self.rng.random_bool(0.7) {
            self.born += 1;
            let name = format!("family{}", self.born);
            self.line(format_args!("N {name}"));
            self.families.insert(name);
        } else if let Some(name) = self.families.iter().find(|name| *name != "default").cloned() {
            self.line(format_args!("X {name}"));
            self.families.remove(&name);
            self.singles.retain(|(family, _)| *family != name);
        }
    }
}
