//! What readers must see of one column family at one moment, and the check that all ways of reading show it.
//!
//! The entries come from a model, or from one scan when there is none ([`Sight::learn`]): then all ways are compared with
//! each other. Nothing may be written to the moment while it is checked: it is a snapshot, or the present while nobody writes.

use std::ops::{Bound, Range};
use std::sync::Arc;

use firndb::slice_transform::{SliceTransform, prefix_of};
use firndb::{ColumnFamily, Db, ReadOptions, Snapshot};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};

use crate::walk::Walk;
use crate::{Entries, Outcome, head, say, shapes};

/// The order of keys.
type Order = Arc<dyn firn_format::comparator::Comparator>;

/// How many files a failure shows.
const SHOWN_FILES: usize = 12;

/// How much one check does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Keys that are looked up and sought.
    pub probes: usize,
    /// Cursors beside the one with default options, each with options drawn anew.
    pub cursors: usize,
    /// Steps of each cursor's random walk.
    pub steps: usize,
}

impl Effort {
    /// For random moments, of which there are many.
    pub const SHORT: Self = Self { probes: 8, cursors: 1, steps: 20 };
    /// For moments that matter.
    pub const LONG: Self = Self { probes: 40, cursors: 4, steps: 80 };
}

/// One column family at one moment.
#[derive(Clone)]
pub struct Sight {
    db: Db,
    cf: ColumnFamily,
    snapshot: Option<Snapshot>,
    entries: Arc<Entries>,
    order: Order,
    prefixes: Option<Arc<dyn SliceTransform>>,
    prefix_seek_opt_in_only: bool,
}

impl Sight {
    /// The entries that `cf` must show now, or at the snapshot.
    pub fn new(db: &Db, cf: &ColumnFamily, snapshot: Option<Snapshot>, entries: impl Into<Arc<Entries>>) -> Self {
        let options = db.options(cf);
        Self {
            db: db.clone(),
            cf: cf.clone(),
            snapshot,
            entries: entries.into(),
            order: options.cf.comparator,
            prefixes: options.cf.prefix_extractor,
            prefix_seek_opt_in_only: options.db.prefix_seek_opt_in_only,
        }
    }

    /// The entries that a scan shows, for want of a model.
    ///
    /// # Errors
    /// Those of the scan, and keys that are out of order.
    pub fn learn(db: &Db, cf: &ColumnFamily, snapshot: Option<Snapshot>) -> Result<Self, String> {
        let mut sight = Self::new(db, cf, snapshot, Entries::new());
        let options = ReadOptions { total_order_seek: true, ..sight.options() };
        let mut cursor = say("cursor", db.cursor(&options, cf))?;
        let mut entries = Entries::new();
        cursor.seek_to_first();
        while cursor.valid() {
            if entries.last().is_some_and(|(last, _)| sight.order.compare(last, cursor.key()).is_ge()) {
                return Err(sight.wrong("a scan shows keys out of order", &[cursor.key()]));
            }
            entries.push((cursor.key().to_vec(), cursor.value().to_vec()));
            cursor.next();
        }
        say("scan", cursor.status())?;
        sight.entries = Arc::new(entries);
        Ok(sight)
    }

    /// What must be shown.
    pub fn entries(&self) -> &Entries {
        &self.entries
    }

    pub(crate) fn db(&self) -> &Db {
        &self.db
    }

    pub(crate) fn cf(&self) -> &ColumnFamily {
        &self.cf
    }

    pub(crate) fn prefixes(&self) -> Option<&Arc<dyn SliceTransform>> {
        self.prefixes.as_ref()
    }

    pub(crate) fn prefix_seek_opt_in_only(&self) -> bool {
        self.prefix_seek_opt_in_only
    }

    /// Default read options at this moment.
    pub fn options(&self) -> ReadOptions {
        ReadOptions { snapshot: self.snapshot.clone(), ..ReadOptions::default() }
    }

    pub(crate) fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        self.order.compare(a, b)
    }

    /// How many entries come before `key`.
    pub(crate) fn before(&self, key: &[u8]) -> usize {
        self.entries.partition_point(|(k, _)| self.order.compare(k, key).is_lt())
    }

    /// How many entries come before `key` or are its own.
    pub(crate) fn behind(&self, key: &[u8]) -> usize {
        self.entries.partition_point(|(k, _)| self.order.compare(k, key).is_le())
    }

    /// The entries with the prefix of `key`, if it has one: neighbours, wherever there are any.
    pub(crate) fn group(&self, key: &[u8]) -> Option<Range<usize>> {
        let extractor = self.prefixes.as_deref()?;
        let prefix = prefix_of(extractor, key)?;
        let belongs = |at: usize| self.entries.get(at).is_some_and(|(k, _)| prefix_of(extractor, k) == Some(prefix));
        let (mut from, mut to) = (self.before(key), self.before(key));
        while from.checked_sub(1).is_some_and(belongs) {
            from -= 1;
        }
        while belongs(to) {
            to += 1;
        }
        Some(from..to)
    }

    /// The value that a lookup must find.
    fn value(&self, key: &[u8]) -> Option<&[u8]> {
        let (k, value) = self.entries.get(self.before(key))?;
        self.order.compare(k, key).is_eq().then_some(value.as_slice())
    }

    /// Asks every way of reading and compares; `also` are keys that are worth a look, beside those that are drawn.
    ///
    /// # Errors
    /// The first answer that is wrong.
    pub fn check(&self, rng: &mut StdRng, effort: Effort, also: &[Vec<u8>]) -> Outcome {
        let probes = self.probes(rng, effort.probes, also);
        self.lookups(rng, &probes)?;
        self.ranges(rng, &probes)?;
        for cursor in 0..=effort.cursors {
            let options = if cursor == 0 { self.options() } else { self.draw_options(rng, &probes) };
            let mut walk = Walk::new(self, &options)?;
            walk.ends()?;
            walk.seeks(rng, &probes)?;
            walk.steps(rng, effort.steps, &probes)?;
        }
        Ok(())
    }

    /// Keys that are there, that lie near them, and at which files begin or end.
    pub fn probes(&self, rng: &mut StdRng, count: usize, also: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let boundaries = shapes::boundaries(&self.db, &self.cf);
        let mut probes: Vec<Vec<u8>> = Vec::with_capacity(count);
        for _ in 0..count {
            let entry = self.entries.choose(rng).map(|(key, _)| key);
            let key = match rng.random_range(0..4) {
                0 => boundaries.choose(rng).or(entry),
                1 => also.choose(rng).or(entry),
                _ => entry,
            };
            let key = key.cloned().unwrap_or_default();
            probes.push(if rng.random_bool(0.4) { shapes::near(rng, &key) } else { key });
        }
        probes
    }

    /// Read options of a cursor, drawn from all that a cursor knows.
    pub fn draw_options(&self, rng: &mut StdRng, bounds: &[Vec<u8>]) -> ReadOptions {
        let mut options = self.options();
        match rng.random_range(0..10) {
            0..=2 => {}
            3 | 4 => options.total_order_seek = true,
            5 | 6 => options.auto_prefix_mode = true,
            7 | 8 => options.prefix_same_as_start = self.prefixes.is_some(),
            _ => options.tailing = self.snapshot.is_none(),
        }
        if rng.random_bool(0.3) {
            options.iterate_lower_bound = bounds.choose(rng).cloned();
        }
        if rng.random_bool(0.3) {
            options.iterate_upper_bound = bounds.choose(rng).cloned();
        }
        options.readahead_size = if rng.random_bool(0.1) { 10_000 } else { 0 };
        options.fill_cache = rng.random_bool(0.8);
        options.verify_checksums = rng.random_bool(0.9);
        options.pin_data = rng.random_bool(0.1);
        options.adaptive_readahead = rng.random_bool(0.1);
        options.auto_readahead_size = rng.random_bool(0.8);
        options
    }

    /// `get`, `multi_get` and `key_may_exist`.
    fn lookups(&self, rng: &mut StdRng, probes: &[Vec<u8>]) -> Outcome {
        let options =
            ReadOptions { fill_cache: rng.random_bool(0.8), verify_checksums: rng.random_bool(0.9), ..self.options() };
        let mut keys = probes.to_vec();
        for key in &keys {
            let got = self.db.get_opt(&options, &self.cf, key);
            let got = got.map_err(|error| self.wrong(&format!("get of {}: {error}", head(key)), &[key]))?;
            self.same("get", key, got.as_deref())?;
            if got.is_some() && !self.db.key_may_exist(&options, &self.cf, key) {
                return Err(self.wrong(&format!("key_may_exist denies {}", head(key)), &[key]));
            }
        }
        keys.shuffle(rng);
        let mut rest = keys.as_slice();
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rng.random_range(1..=rest.len()));
            rest = later;
            let got = self.db.multi_get_opt(&options, &self.cf, now);
            if got.len() != now.len() {
                return Err(self.wrong(&format!("multi_get of {} keys gave {} answers", now.len(), got.len()), &[]));
            }
            for (key, got) in now.iter().zip(got) {
                let got = got.map_err(|error| self.wrong(&format!("multi_get of {}: {error}", head(key)), &[key]))?;
                self.same("multi_get", key, got.as_deref())?;
            }
        }
        Ok(())
    }

    fn same(&self, what: &str, key: &[u8], got: Option<&[u8]>) -> Outcome {
        let wanted = self.value(key);
        if got == wanted {
            return Ok(());
        }
        let show = |value: Option<&[u8]>| value.map_or("nothing".to_owned(), head);
        Err(self.wrong(&format!("{what} of {} is {} instead of {}", head(key), show(got), show(wanted)), &[key]))
    }

    /// The double-ended iterators, between two keys of which each may be in or out.
    fn ranges(&self, rng: &mut StdRng, keys: &[Vec<u8>]) -> Outcome {
        for _ in 0..2 {
            let mut ends =
                [keys.choose(rng).cloned().unwrap_or_default(), keys.choose(rng).cloned().unwrap_or_default()];
            ends.sort_by(|a, b| self.order.compare(a, b));
            let [low, high] = ends;
            let mut bound = |key: Vec<u8>| match rng.random_range(0..5) {
                0 => Bound::Unbounded,
                1 | 2 => Bound::Included(key),
                _ => Bound::Excluded(key),
            };
            let bounds = (bound(low), bound(high));
            let from = match &bounds.0 {
                Bound::Unbounded => 0,
                Bound::Included(key) => self.before(key),
                Bound::Excluded(key) => self.behind(key),
            };
            let to = match &bounds.1 {
                Bound::Unbounded => self.entries.len(),
                Bound::Included(key) => self.behind(key),
                Bound::Excluded(key) => self.before(key),
            };
            self.range(rng, bounds, from..to.max(from))?;
        }
        Ok(())
    }

    fn range(&self, rng: &mut StdRng, bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>), wanted: Range<usize>) -> Outcome {
        let text = format!("range {} .. {}", show_bound(&bounds.0), show_bound(&bounds.1));
        let mut range = self.db.range_opt(self.options(), &self.cf, bounds);
        let mut left = wanted;
        let from_back = *[0.0, 0.5, 1.0].choose(rng).unwrap_or(&0.5);
        loop {
            let back = rng.random_bool(from_back);
            let item = if back { range.next_back() } else { range.next() };
            let entry = item.transpose().map_err(|error| self.wrong(&format!("{text}: {error}"), &[]))?;
            let at = if back { left.next_back() } else { left.next() };
            let wanted = at.and_then(|at| self.entries.get(at));
            if entry.as_ref() != wanted {
                let show = |entry: Option<&firndb::Entry>| {
                    entry.map_or("nothing".to_owned(), |(key, value)| format!("{} = {}", head(key), head(value)))
                };
                let keys: Vec<&[u8]> = [entry.as_ref(), wanted].into_iter().flatten().map(|e| e.0.as_slice()).collect();
                let end = if back { "back" } else { "front" };
                let (got, wanted) = (show(entry.as_ref()), show(wanted));
                return Err(self.wrong(&format!("{text} gives {got} at the {end} instead of {wanted}"), &keys));
            }
            if entry.is_none() {
                return Ok(());
            }
        }
    }

    /// A failure with its place: family, moment, and the files that hold the keys in question.
    pub(crate) fn wrong(&self, what: &str, keys: &[&[u8]]) -> String {
        let moment = match &self.snapshot {
            Some(snapshot) => format!("snapshot {}", snapshot.sequence().get()),
            None => "the newest state".to_owned(),
        };
        let holds = |file: &&firndb::LiveFile| {
            let within = |key: &&[u8]| {
                self.order.compare(&file.smallest_key, key).is_le()
                    && self.order.compare(key, &file.largest_key).is_le()
            };
            file.column_family == self.cf.name() && keys.iter().any(within)
        };
        let files = self.db.live_files();
        let files: Vec<String> = files
            .iter()
            .filter(holds)
            .take(SHOWN_FILES)
            .map(|file| {
                let (from, to) = (head(&file.smallest_key), head(&file.largest_key));
                let (number, oldest, newest) = (file.number, file.smallest_sequence, file.largest_sequence);
                format!("level {} #{number:?} {from} to {to}, {oldest:?} to {newest:?}", file.level)
            })
            .collect();
        let files = if files.is_empty() { String::new() } else { format!("\n  files there: {}", files.join("; ")) };
        format!("column family {} at {moment}: {what}{files}", self.cf.name())
    }
}

fn show_bound(bound: &Bound<Vec<u8>>) -> String {
    match bound {
        Bound::Unbounded => "unbounded".to_owned(),
        Bound::Included(key) => format!("including {}", head(key)),
        Bound::Excluded(key) => format!("excluding {}", head(key)),
    }
}
