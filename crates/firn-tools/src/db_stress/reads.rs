//! Reading the database beside the contents that it must show: every answer is compared.
//!
//! All reads stay within a range of keys that nobody else writes to, so the expected answer is exact while other threads
//! write to theirs.

use std::ops::Range;

use firndb::slice_transform::prefix_of;
use firndb::{ColumnFamily, Db, ReadOptions, Result as DbResult, Snapshot};
use rand::Rng;
use rand::rngs::StdRng;

use super::contents::{Contents, ids_of, key, key_number, value};

/// What is wrong, in words.
pub type Outcome = Result<(), String>;

/// Turns an error of the database into words.
pub fn say<T>(what: &str, result: DbResult<T>) -> Result<T, String> {
    result.map_err(|error| format!("{what}: {error}"))
}

/// A column family with what it must hold.
pub struct Reader<'a> {
    /// The database.
    pub db: &'a Db,
    /// The column family.
    pub cf: &'a ColumnFamily,
    /// Its contents within `range`.
    pub contents: &'a Contents,
    /// The keys that may be looked at.
    pub range: Range<u32>,
    /// The moment; `None` is now.
    pub snapshot: Option<Snapshot>,
}

impl Reader<'_> {
    fn options(&self) -> ReadOptions {
        ReadOptions { snapshot: self.snapshot.clone(), total_order_seek: true, ..ReadOptions::default() }
    }

    fn wrong(&self, what: &str, number: u32, got: Option<&[u8]>) -> String {
        let at = self.snapshot.as_ref().map(|snapshot| snapshot.sequence().get());
        let found = got.map(|bytes| ids_of(bytes).ok_or_else(|| format!("{} bytes that nobody wrote", bytes.len())));
        format!(
            "Verification failed for column family {} key {} ({number}): {what} at snapshot {at:?} gave {found:?} instead of {:?}",
            self.cf.name(),
            key(number).escape_ascii(),
            self.contents.get(&number)
        )
    }

    fn check(&self, what: &str, number: u32, got: Option<&[u8]>) -> Outcome {
        let wanted = self.contents.get(&number);
        let same = match (got, wanted) {
            (None, None) => true,
            (Some(got), Some(ids)) => got == value(ids),
            _ => false,
        };
        if same { Ok(()) } else { Err(self.wrong(what, number, got)) }
    }

    /// A point lookup, and whether the key may exist.
    pub fn get(&self, number: u32) -> Outcome {
        let options = self.options();
        let got = say("get", self.db.get_opt(&options, self.cf, key(number)))?;
        self.check("get", number, got.as_deref())?;
        if self.contents.contains_key(&number) && !self.db.key_may_exist(&options, self.cf, key(number)) {
            return Err(self.wrong("key_may_exist", number, None));
        }
        Ok(())
    }

    /// Point lookups of several keys at once.
    pub fn multi_get(&self, numbers: &[u32]) -> Outcome {
        let keys: Vec<Vec<u8>> = numbers.iter().map(|number| key(*number)).collect();
        let got = self.db.multi_get_opt(&self.options(), self.cf, &keys);
        if got.len() != numbers.len() {
            return Err(format!("multi_get of {} keys gave {} answers", numbers.len(), got.len()));
        }
        for (number, got) in numbers.iter().zip(got) {
            self.check("multi_get", *number, say("multi_get", got)?.as_deref())?;
        }
        Ok(())
    }

    /// All keys from `number` on that share its prefix, as the column family cuts prefixes.
    pub fn prefix(&self, number: u32) -> Outcome {
        let extractor = self.db.options(self.cf).cf.prefix_extractor;
        let prefix_of = |number: u32| {
            let key = key(number);
            extractor.as_ref().map(|extractor| prefix_of(&**extractor, &key).map(<[u8]>::to_vec))
        };
        // From a key that has no prefix nothing is promised.
        if prefix_of(number) == Some(None) {
            return Ok(());
        }
        let to = number.saturating_add(300).min(self.range.end);
        let options = ReadOptions {
            total_order_seek: false,
            prefix_same_as_start: true,
            iterate_upper_bound: Some(key(to)),
            ..self.options()
        };
        let mut cursor = say("cursor", self.db.cursor(&options, self.cf))?;
        cursor.seek(key(number));
        let mut wanted = self.contents.range(number..to).take_while(|(key, _)| prefix_of(**key) == prefix_of(number));
        while cursor.valid() {
            let stands = key_number(cursor.key()).ok_or("an iterator shows a key that nobody wrote")?;
            match wanted.next() {
                Some((key, ids)) if *key == stands && cursor.value() == value(ids) => {}
                next => {
                    return Err(format!(
                        "prefix scan of {} stands at key {stands} instead of {next:?}",
                        self.cf.name()
                    ));
                }
            }
            cursor.next();
        }
        say("prefix scan", cursor.status())?;
        match wanted.next() {
            Some(missed) => Err(format!("prefix scan of {} from {number} misses {missed:?}", self.cf.name())),
            None => Ok(()),
        }
    }

    /// A walk of an iterator with random bounds, in both directions.
    pub fn walk(&self, rng: &mut StdRng, steps: usize) -> Outcome {
        let (mut from, mut to) = (self.range.start, self.range.end);
        if rng.random_bool(0.3) {
            from = rng.random_range(self.range.clone());
        }
        if rng.random_bool(0.3) {
            to = rng.random_range(from..=to);
        }
        let options = ReadOptions {
            iterate_lower_bound: Some(key(from)),
            iterate_upper_bound: Some(key(to)),
            readahead_size: if rng.random_bool(0.1) { 20_000 } else { 0 },
            pin_data: rng.random_bool(0.1),
            fill_cache: rng.random_bool(0.8),
            ..self.options()
        };
        let mut cursor = say("cursor", self.db.cursor(&options, self.cf))?;
        let bounded = || self.contents.range(from..to);
        let mut at: Option<u32> = None;
        for _ in 0..steps {
            let target = rng.random_range(self.range.clone());
            let what = match (rng.random_range(0..10), at) {
                (0, _) => {
                    cursor.seek_to_first();
                    at = bounded().next().map(|(key, _)| *key);
                    "seek_to_first"
                }
                (1, _) => {
                    cursor.seek_to_last();
                    at = bounded().next_back().map(|(key, _)| *key);
                    "seek_to_last"
                }
                (2..=5, Some(stands)) => {
                    cursor.next();
                    at = bounded().map(|(key, _)| *key).find(|key| *key > stands);
                    "next"
                }
                (6..=8, Some(stands)) => {
                    cursor.prev();
                    at = self.contents.range(from..stands.max(from)).next_back().map(|(key, _)| *key);
                    "prev"
                }
                (9, _) => {
                    cursor.seek_for_prev(key(target));
                    let end = target.saturating_add(1).clamp(from, to);
                    at = self.contents.range(from..end).next_back().map(|(key, _)| *key);
                    "seek_for_prev"
                }
                _ => {
                    cursor.seek(key(target));
                    let start = target.clamp(from, to);
                    at = self.contents.range(start..to).next().map(|(key, _)| *key);
                    "seek"
                }
            };
            say(what, cursor.status())?;
            let stands = if cursor.valid() { key_number(cursor.key()) } else { None };
            if cursor.valid() != at.is_some() || stands != at {
                return Err(format!(
                    "iterator over {from}..{to} of {} after {what} ({target}) stands at {stands:?} (valid: {}) instead of {at:?}",
                    self.cf.name(),
                    cursor.valid()
                ));
            }
            if let Some(number) = at {
                self.check(what, number, Some(cursor.value()))?;
            }
        }
        Ok(())
    }

    /// Every key of the range, forwards or backwards.
    pub fn everything(&self, backwards: bool) -> Outcome {
        let options = ReadOptions {
            iterate_lower_bound: Some(key(self.range.start)),
            iterate_upper_bound: Some(key(self.range.end)),
            ..self.options()
        };
        let found = scan(self.db, self.cf, &options, backwards)?;
        let missing = self.contents.keys().find(|key| !found.contains_key(key));
        let different = found.iter().find(|(key, ids)| self.contents.get(key) != Some(ids)).map(|(key, _)| key);
        match missing.or(different) {
            None => Ok(()),
            Some(number) => {
                let got = found.get(number).map(|ids| value(ids));
                Err(self.wrong(if backwards { "backward scan" } else { "scan" }, *number, got.as_deref()))
            }
        }
    }
}

/// All that an iterator with `options` shows.
///
/// # Errors
/// Keys or values that nobody wrote, and keys out of order, in words.
pub fn scan(db: &Db, cf: &ColumnFamily, options: &ReadOptions, backwards: bool) -> Result<Contents, String> {
    let mut cursor = say("cursor", db.cursor(options, cf))?;
    let mut contents = Contents::new();
    if backwards {
        cursor.seek_to_last()
    } else {
        cursor.seek_to_first()
    }
    let mut last: Option<u32> = None;
    while cursor.valid() {
        let number = key_number(cursor.key())
            .ok_or_else(|| format!("{} has a key that nobody wrote: {}", cf.name(), cursor.key().escape_ascii()))?;
        let ids = ids_of(cursor.value())
            .ok_or_else(|| format!("{} key {number} has a value that nobody wrote", cf.name()))?;
        if last.is_some_and(|last| if backwards { number >= last } else { number <= last }) {
            return Err(format!("{}: key {number} comes after {last:?}", cf.name()));
        }
        last = Some(number);
        contents.insert(number, ids);
        if backwards { cursor.prev() } else { cursor.next() }
    }
    say("scan", cursor.status())?;
    Ok(contents)
}
