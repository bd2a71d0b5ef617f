//! A cursor beside the list of entries that it must show: every move is compared.
//!
//! Read options flow in with the list; out comes what is wrong, in words, with the moves that led there. How much a cursor
//! promises depends on its options:
//!
//! | options | what must be shown |
//! | --- | --- |
//! | no prefix extractor; `total_order_seek`; `auto_prefix_mode` | every entry within the bounds |
//! | a prefix extractor, nothing else | after a seek: every entry with the prefix of the target, and nothing is promised beyond it; after a move to either end that no bound turns into a seek: every entry, turns included |
//! | `prefix_same_as_start` | every entry with the prefix of the target, and nothing beyond it |
//!
//! A target that has no prefix asks no filter, so after it everything is promised.

use std::collections::VecDeque;
use std::ops::Range;

use firndb::{Cursor, ReadOptions};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::{Outcome, Sight, head, say};

/// How many of the last moves a failure shows.
const SHOWN_MOVES: usize = 10;

/// One move of a cursor.
#[derive(Clone, Debug)]
pub enum Move {
    /// To the first entry.
    First,
    /// To the last entry.
    Last,
    /// One on.
    Next,
    /// One back.
    Prev,
    /// To the first entry at or after a key.
    Seek(Vec<u8>),
    /// To the last entry at or before a key.
    SeekForPrev(Vec<u8>),
}

impl Move {
    fn text(&self) -> String {
        match self {
            Self::First => "first".to_owned(),
            Self::Last => "last".to_owned(),
            Self::Next => "next".to_owned(),
            Self::Prev => "prev".to_owned(),
            Self::Seek(key) => format!("seek {}", head(key)),
            Self::SeekForPrev(key) => format!("seek_for_prev {}", head(key)),
        }
    }
}

/// How far a seek binds the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Promise {
    Everything,
    /// The prefix of the target; what comes behind it is open.
    Prefix,
    /// The prefix of the target; the cursor ends behind it.
    PrefixAlone,
}

/// Where the cursor must stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Entry(usize),
    Nowhere,
    /// Nothing is promised until the next seek.
    Open,
}

/// A cursor, the entries it must show, and where it must stand.
pub struct Walk {
    cursor: Cursor,
    sight: Sight,
    promise: Promise,
    forward_only: bool,
    lower: Option<Vec<u8>>,
    upper: Option<Vec<u8>>,
    /// The entries within the bounds.
    within: Range<usize>,
    /// Of these, those that the last positioning promises.
    window: Range<usize>,
    /// Where the cursor is when it leaves the window.
    beyond: At,
    at: At,
    moves: VecDeque<String>,
    text: String,
}

impl Walk {
    /// A cursor with `options`, which must show `sight`: the snapshot in the options must be that of the sight.
    ///
    /// # Errors
    /// When there is no cursor.
    pub fn new(sight: &Sight, options: &ReadOptions) -> Result<Self, String> {
        let cursor = say("cursor", sight.db().cursor(options, sight.cf()))?;
        let promise = if sight.prefixes().is_none() || options.total_order_seek || options.auto_prefix_mode {
            Promise::Everything
        } else if options.prefix_same_as_start {
            Promise::PrefixAlone
        } else if sight.prefix_seek_opt_in_only() {
            Promise::Everything
        } else {
            Promise::Prefix
        };
        let from = options.iterate_lower_bound.as_ref().map_or(0, |lower| sight.before(lower));
        let to = options.iterate_upper_bound.as_ref().map_or(sight.entries().len(), |upper| sight.before(upper));
        let within = from..to.max(from);
        Ok(Self {
            cursor,
            sight: sight.clone(),
            promise,
            forward_only: options.tailing,
            lower: options.iterate_lower_bound.clone(),
            upper: options.iterate_upper_bound.clone(),
            window: within.clone(),
            within,
            beyond: At::Nowhere,
            at: At::Nowhere,
            moves: VecDeque::new(),
            text: describe(options),
        })
    }

    /// Every entry from the front, then every entry from the back.
    ///
    /// # Errors
    /// The first step that goes wrong.
    pub fn ends(&mut self) -> Outcome {
        self.go(&Move::First)?;
        while matches!(self.at, At::Entry(_)) {
            self.go(&Move::Next)?;
        }
        if self.forward_only {
            return Ok(());
        }
        self.go(&Move::Last)?;
        while matches!(self.at, At::Entry(_)) {
            self.go(&Move::Prev)?;
        }
        Ok(())
    }

    /// Seeks each target from both sides, and turns around there.
    ///
    /// # Errors
    /// The first step that goes wrong.
    pub fn seeks(&mut self, rng: &mut StdRng, targets: &[Vec<u8>]) -> Outcome {
        for target in targets {
            self.go(&Move::Seek(target.clone()))?;
            for _ in 0..rng.random_range(0..4) {
                self.go(&if rng.random_bool(0.5) { Move::Next } else { Move::Prev })?;
            }
            self.go(&Move::SeekForPrev(target.clone()))?;
            for _ in 0..rng.random_range(0..4) {
                self.go(&if rng.random_bool(0.5) { Move::Next } else { Move::Prev })?;
            }
        }
        Ok(())
    }

    /// A random walk.
    ///
    /// # Errors
    /// The first step that goes wrong.
    pub fn steps(&mut self, rng: &mut StdRng, count: usize, targets: &[Vec<u8>]) -> Outcome {
        for _ in 0..count {
            let target = targets.choose(rng).cloned().unwrap_or_default();
            let next = match rng.random_range(0..14) {
                0 => Move::First,
                1 => Move::Last,
                2..=6 => Move::Next,
                7..=11 => Move::Prev,
                12 => Move::SeekForPrev(target),
                _ => Move::Seek(target),
            };
            // A step from nowhere does nothing.
            let next = match (next, self.at) {
                (Move::Next | Move::Prev, At::Nowhere) => {
                    if rng.random_bool(0.5) {
                        Move::First
                    } else {
                        Move::Last
                    }
                }
                (next, _) => next,
            };
            self.go(&next)?;
        }
        Ok(())
    }

    /// Makes one move, and compares.
    ///
    /// # Errors
    /// Where the cursor stands instead.
    pub fn go(&mut self, to: &Move) -> Outcome {
        let backward = matches!(to, Move::Last | Move::Prev | Move::SeekForPrev(_));
        if backward && self.forward_only {
            return Ok(());
        }
        if self.moves.len() == SHOWN_MOVES {
            self.moves.pop_front();
        }
        self.moves.push_back(to.text());
        match to {
            Move::First => self.cursor.seek_to_first(),
            Move::Last => self.cursor.seek_to_last(),
            Move::Next => self.cursor.next(),
            Move::Prev => self.cursor.prev(),
            Move::Seek(key) => self.cursor.seek(key),
            Move::SeekForPrev(key) => self.cursor.seek_for_prev(key),
        }
        self.expect(to);
        self.compare()
    }

    /// Works out where the move must lead.
    fn expect(&mut self, to: &Move) {
        let within = self.within.clone();
        match to {
            Move::Next => self.step(|at| Some(at + 1)),
            Move::Prev => self.step(|at| at.checked_sub(1)),
            Move::Seek(key) => {
                let start = self.later(key, self.lower.as_deref()).to_vec();
                self.positioned(key, &start, Some(self.sight.before(key).max(within.start)));
            }
            Move::SeekForPrev(key) => {
                let start = self.earlier(key, self.upper.as_deref()).to_vec();
                self.positioned(key, &start, self.sight.behind(key).min(within.end).checked_sub(1));
            }
            Move::First => match self.lower.clone() {
                Some(lower) => self.positioned(&lower, &lower, Some(within.start)),
                None => self.at_an_end(Some(within.start)),
            },
            Move::Last => match self.upper.clone() {
                // Which prefix such a scan has, the bound's or that of the entry, is not asked here.
                Some(_) if self.promise == Promise::PrefixAlone => self.at = At::Open,
                Some(upper) => self.positioned(&upper, &upper, within.end.checked_sub(1)),
                None => self.at_an_end(within.end.checked_sub(1)),
            },
        }
    }

    fn step(&mut self, by: impl Fn(usize) -> Option<usize>) {
        if let At::Entry(at) = self.at {
            self.at = self.place(by(at));
        }
    }

    /// Where a cursor is that went to this entry.
    fn place(&self, at: Option<usize>) -> At {
        at.filter(|at| self.window.contains(at)).map_or(self.beyond, At::Entry)
    }

    /// `key`, or the lower bound where that comes later.
    fn later<'k>(&self, key: &'k [u8], bound: Option<&'k [u8]>) -> &'k [u8] {
        bound.filter(|bound| self.sight.compare(key, bound).is_lt()).unwrap_or(key)
    }

    /// `key`, or the upper bound where that comes earlier.
    fn earlier<'k>(&self, key: &'k [u8], bound: Option<&'k [u8]>) -> &'k [u8] {
        bound.filter(|bound| self.sight.compare(key, bound).is_ge()).unwrap_or(key)
    }

    /// After a seek to `key`, which leads to the entry `at` if that is promised. With bounds, sources are asked for `start`.
    fn positioned(&mut self, key: &[u8], start: &[u8], at: Option<usize>) {
        (self.window, self.beyond) = (self.within.clone(), At::Nowhere);
        if self.promise != Promise::Everything {
            match self.sight.group(if self.promise == Promise::Prefix { start } else { key }) {
                Some(group) => {
                    let from = group.start.max(self.within.start);
                    self.window = from..group.end.min(self.within.end).max(from);
                    if self.promise == Promise::Prefix {
                        self.beyond = At::Open;
                    }
                }
                // What a scan with `prefix_same_as_start` does from a key that has no prefix is nobody's promise.
                None if self.promise == Promise::PrefixAlone => {
                    self.at = At::Open;
                    return;
                }
                None => {}
            }
        }
        self.at = self.place(at);
    }

    /// After a move to the first or the last entry, which no bound turned into a seek.
    fn at_an_end(&mut self, at: Option<usize>) {
        (self.window, self.beyond) = (self.within.clone(), At::Nowhere);
        let entry = at.filter(|at| self.within.contains(at)).and_then(|at| self.sight.entries().get(at));
        if let (Promise::PrefixAlone, Some((key, _))) = (self.promise, entry) {
            let key = key.clone();
            return self.positioned(&key, &key, at);
        }
        self.at = self.place(at);
    }

    fn compare(&self) -> Outcome {
        self.cursor.status().map_err(|error| self.wrong(&format!("status {error}"), &[]))?;
        let got = self.cursor.valid().then(|| (self.cursor.key(), self.cursor.value()));
        let wanted = match self.at {
            At::Open => return Ok(()),
            At::Nowhere => None,
            At::Entry(at) => self.sight.entries().get(at),
        };
        match (got, wanted) {
            (None, None) => Ok(()),
            (Some((key, value)), Some((k, v))) if key == k.as_slice() && value == v.as_slice() => Ok(()),
            (Some((key, value)), Some((k, v))) if key == k.as_slice() => {
                Err(self.wrong(&format!("{} is {} instead of {}", head(key), head(value), head(v)), &[key]))
            }
            (got, wanted) => {
                let show = |key: Option<&[u8]>| key.map_or("nowhere".to_owned(), |key| format!("at {}", head(key)));
                let (got, wanted) = (got.map(|(key, _)| key), wanted.map(|(key, _)| key.as_slice()));
                let keys: Vec<&[u8]> = [got, wanted].into_iter().flatten().collect();
                Err(self.wrong(&format!("stands {} instead of {}", show(got), show(wanted)), &keys))
            }
        }
    }

    fn wrong(&self, what: &str, keys: &[&[u8]]) -> String {
        let moves: Vec<&str> = self.moves.iter().map(String::as_str).collect();
        let text = format!("cursor ({}) after {}: {what}", self.text, moves.join(", "));
        self.sight.wrong(&text, keys)
    }
}

/// The options that matter to a cursor, those that are not as by default.
fn describe(options: &ReadOptions) -> String {
    let default = ReadOptions::default();
    let mut parts = Vec::new();
    let mut flag = |name: &str, value: bool, default: bool| {
        if value != default {
            parts.push(format!("{name}={value}"));
        }
    };
    flag("total_order_seek", options.total_order_seek, default.total_order_seek);
    flag("auto_prefix_mode", options.auto_prefix_mode, default.auto_prefix_mode);
    flag("prefix_same_as_start", options.prefix_same_as_start, default.prefix_same_as_start);
    flag("tailing", options.tailing, default.tailing);
    flag("fill_cache", options.fill_cache, default.fill_cache);
    flag("verify_checksums", options.verify_checksums, default.verify_checksums);
    flag("pin_data", options.pin_data, default.pin_data);
    flag("adaptive_readahead", options.adaptive_readahead, default.adaptive_readahead);
    flag("auto_readahead_size", options.auto_readahead_size, default.auto_readahead_size);
    if options.readahead_size != default.readahead_size {
        parts.push(format!("readahead_size={}", options.readahead_size));
    }
    for (name, bound) in [("lower", &options.iterate_lower_bound), ("upper", &options.iterate_upper_bound)] {
        if let Some(bound) = bound {
            parts.push(format!("{name}={}", head(bound)));
        }
    }
    if parts.is_empty() { "default options".to_owned() } else { parts.join(", ") }
}
