//! Which range tombstone, of all those that a scan must respect, covers the key the scan stands on.
//!
//! A scan merges several sources (memtables, tables, levels); each may bring range tombstones ([`TombstoneSource`]).
//! [`TombstoneCover`] looks a key up in all of them at once and remembers the *span* of keys around it for which the answer
//! stays the same, so that a scan looks again only when it leaves the span, and pays one integer comparison per entry
//! otherwise.
//!
//! Tombstones count only within the bounds of the file that holds them: beyond these, another file of the level knows
//! better (its tombstone may be gone because everything under it is).

use std::cmp::Ordering;
use std::sync::Arc;

use firn_format::comparator::InternalKeyComparator;
use firn_format::key::{InternalKey, SequenceNumber, ValueType};
use firn_format::range_tombstone::FragmentedRangeTombstones;

use crate::key_word::KeyWords;

/// A place between user keys: just before `key`, or just after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The user key beside the edge.
    pub key: Vec<u8>,
    /// Whether the edge is after the key.
    pub after: bool,
}

impl Edge {
    /// The edge before `key`.
    pub fn before(key: &[u8]) -> Self {
        Self { key: key.to_vec(), after: false }
    }

    /// The edge after `key`.
    pub fn after(key: &[u8]) -> Self {
        Self { key: key.to_vec(), after: true }
    }

    /// The upper edge of a file whose largest internal key is `largest`.
    pub fn above_largest(largest: &InternalKey) -> Self {
        Self { key: largest.user_key().to_vec(), after: !largest.is_range_sentinel() }
    }

    /// Whether `user_key` is on the left of the edge.
    #[inline]
    pub fn is_right_of(&self, user_key: &[u8], order: &InternalKeyComparator) -> bool {
        match order.compare_user(user_key, &self.key) {
            Ordering::Less => true,
            Ordering::Equal => self.after,
            Ordering::Greater => false,
        }
    }

    fn compare(&self, other: &Self, order: &InternalKeyComparator) -> Ordering {
        order.compare_user(&self.key, &other.key).then(self.after.cmp(&other.after))
    }

    /// The internal key that a seek to this edge starts from, appended to `out`, which is cleared first.
    pub(crate) fn seek_key(&self, out: &mut Vec<u8>) {
        out.clear();
        let (sequence, value_type) = match self.after {
            false => (SequenceNumber::MAX, ValueType::FOR_SEEK),
            true => (SequenceNumber::ZERO, ValueType::FOR_SEEK_FOR_PREV),
        };
        firn_format::key::append_internal_key(out, &self.key, sequence, value_type);
    }
}

/// A part of the key space and the tombstones that count in it. An absent edge means no limit.
#[derive(Clone, Debug, Default)]
pub struct TombstoneWindow {
    /// The tombstones, not cut to the window; `None` where there are none.
    pub tombstones: Option<Arc<FragmentedRangeTombstones>>,
    /// The left end.
    pub from: Option<Edge>,
    /// The right end.
    pub until: Option<Edge>,
}

impl TombstoneWindow {
    /// The tombstones of a table within the bounds of its file.
    pub fn of_table(
        tombstones: &Arc<FragmentedRangeTombstones>,
        smallest: &InternalKey,
        largest: &InternalKey,
    ) -> Self {
        Self {
            tombstones: Some(Arc::clone(tombstones)),
            from: Some(Edge::before(smallest.user_key())),
            until: Some(Edge::above_largest(largest)),
        }
    }

    fn is_left_of(&self, user_key: &[u8], order: &InternalKeyComparator) -> bool {
        self.until.as_ref().is_some_and(|until| !until.is_right_of(user_key, order))
    }

    fn is_right_of(&self, user_key: &[u8], order: &InternalKeyComparator) -> bool {
        self.from.as_ref().is_some_and(|from| from.is_right_of(user_key, order))
    }

    /// The newest tombstone over `user_key` that counts here and that a reader at `snapshot` sees; zero if there is none.
    pub fn max_covering_sequence(
        &self,
        user_key: &[u8],
        snapshot: SequenceNumber,
        order: &InternalKeyComparator,
    ) -> SequenceNumber {
        match &self.tombstones {
            Some(list) if !self.is_left_of(user_key, order) && !self.is_right_of(user_key, order) => {
                list.max_covering_sequence(user_key, snapshot, order)
            }
            _ => SequenceNumber::ZERO,
        }
    }
}

/// Where the tombstones of one source of a scan come from.
#[derive(Clone, Debug)]
pub enum TombstoneSource {
    /// One list for all keys: a memtable's (no edges) or a table's (edges at its bounds).
    Window(TombstoneWindow),
    /// The files of a level that have tombstones, in key order. Neighbours may share a user key, the left one with the
    /// newer versions; each then has tombstones over it that the other may not have, and all of them count.
    Level(Arc<[TombstoneWindow]>),
}

impl TombstoneSource {
    /// The tombstones of a memtable; `None` if it has none.
    pub fn of_memtable(tombstones: Arc<FragmentedRangeTombstones>) -> Option<Self> {
        let window = TombstoneWindow { tombstones: Some(tombstones), from: None, until: None };
        (!window.tombstones.as_ref()?.is_empty()).then_some(Self::Window(window))
    }

    /// The tombstones of a table with these bounds; `None` if it has none.
    pub fn of_table(
        tombstones: &Arc<FragmentedRangeTombstones>,
        smallest: &InternalKey,
        largest: &InternalKey,
    ) -> Option<Self> {
        (!tombstones.is_empty()).then(|| Self::Window(TombstoneWindow::of_table(tombstones, smallest, largest)))
    }

    /// The tombstones of a sorted run of files, those with tombstones in key order; `None` if there are none.
    pub fn of_run(windows: &Arc<[TombstoneWindow]>) -> Option<Self> {
        (!windows.is_empty()).then(|| Self::Level(Arc::clone(windows)))
    }
}

/// A stretch of keys for which a source gives one answer.
#[derive(Clone, Debug, Default)]
struct Span {
    from: Option<Edge>,
    until: Option<Edge>,
    /// The newest visible tombstone over the stretch; zero for none.
    sequence: SequenceNumber,
}

impl Span {
    /// Keeps no more than what lies between two edges.
    fn cut(&mut self, from: Option<Edge>, until: Option<Edge>, order: &InternalKeyComparator) {
        self.from = pick(from, self.from.take(), Ordering::Greater, order);
        self.until = pick(until, self.until.take(), Ordering::Less, order);
    }

    fn contains(&self, user_key: &[u8], order: &InternalKeyComparator) -> bool {
        self.from.as_ref().is_none_or(|from| !from.is_right_of(user_key, order))
            && self.until.as_ref().is_none_or(|until| until.is_right_of(user_key, order))
    }
}

struct SourceState {
    /// Position of the source among the children of the merge, newest first.
    child: usize,
    source: TombstoneSource,
    /// The answer last given.
    span: Option<Span>,
}

impl SourceState {
    fn locate(&mut self, user_key: &[u8], snapshot: SequenceNumber, order: &InternalKeyComparator) -> &Span {
        // Taken out and put back, since a borrow that is returned early would last to the end of the function.
        if let Some(span) = self.span.take_if(|span| span.contains(user_key, order)) {
            return self.span.insert(span);
        }
        let span = match &self.source {
            TombstoneSource::Window(window) => span_in(window, user_key, snapshot, order),
            TombstoneSource::Level(windows) => span_in_level(windows, user_key, snapshot, order),
        };
        self.span.insert(span)
    }
}

/// The stretch around `user_key` in a level with these windows.
fn span_in_level(
    windows: &[TombstoneWindow],
    user_key: &[u8],
    snapshot: SequenceNumber,
    order: &InternalKeyComparator,
) -> Span {
    let at = windows.partition_point(|window| window.is_left_of(user_key, order));
    let (left, rest) = windows.split_at(at);
    let mut span = Span::default();
    span.cut(left.last().and_then(|window| window.until.clone()), None, order);
    for window in rest {
        // The first window that begins behind the key ends the stretch, though the one before may end as far as in it.
        let here = span_in(window, user_key, snapshot, order);
        span.sequence = span.sequence.max(here.sequence);
        span.cut(here.from, here.until, order);
        if window.is_right_of(user_key, order) {
            break;
        }
    }
    span
}

/// The stretch around `user_key` in `window`.
fn span_in(window: &TombstoneWindow, user_key: &[u8], snapshot: SequenceNumber, order: &InternalKeyComparator) -> Span {
    // A table's window does not cover all keys: outside it there are no tombstones.
    if window.is_right_of(user_key, order) {
        return Span { from: None, until: window.from.clone(), sequence: SequenceNumber::ZERO };
    }
    if window.is_left_of(user_key, order) {
        return Span { from: window.until.clone(), until: None, sequence: SequenceNumber::ZERO };
    }
    let whole = Span { from: window.from.clone(), until: window.until.clone(), sequence: SequenceNumber::ZERO };
    let Some(tombstones) = window.tombstones.as_ref().filter(|t| !t.is_empty()) else { return whole };
    let fragments = tombstones.fragments();
    let at = tombstones.position_of(user_key, order);
    let (from, until, sequence) = match fragments.get(at) {
        Some(f) if order.compare_user(&f.start, user_key).is_le() => {
            (Some(&f.start), Some(&f.end), f.newest_visible(snapshot).unwrap_or_default())
        }
        next => (
            at.checked_sub(1).and_then(|before| fragments.get(before)).map(|f| &f.end),
            next.map(|f| &f.start),
            SequenceNumber::ZERO,
        ),
    };
    let edge = |key: Option<&Vec<u8>>| key.map(|key| Edge::before(key));
    Span {
        from: pick(edge(from), whole.from, Ordering::Greater, order),
        until: pick(edge(until), whole.until, Ordering::Less, order),
        sequence,
    }
}

/// The one of two edges that compares as `wanted` to the other; an absent edge never wins against a present one.
fn pick(a: Option<Edge>, b: Option<Edge>, wanted: Ordering, order: &InternalKeyComparator) -> Option<Edge> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if a.compare(&b, order) == wanted { a } else { b }),
        (a, b) => a.or(b),
    }
}

/// See the module documentation.
pub(crate) struct TombstoneCover {
    order: InternalKeyComparator,
    words: KeyWords,
    snapshot: SequenceNumber,
    sources: Vec<SourceState>,
    /// Where the answer last given holds.
    span: Span,
    /// The words of the span's ends: words strictly between them are in the span for sure.
    from_word: u64,
    until_word: u64,
    located: bool,
}

impl TombstoneCover {
    /// Over `sources`, each with the position of its points among the children of the merge (newest first).
    pub(crate) fn new(
        order: InternalKeyComparator,
        words: KeyWords,
        snapshot: SequenceNumber,
        sources: Vec<(usize, TombstoneSource)>,
    ) -> Self {
        let state = |(child, source)| SourceState { child, source, span: None };
        Self {
            order,
            words,
            snapshot,
            sources: sources.into_iter().map(state).collect(),
            span: Span::default(),
            from_word: 0,
            until_word: 0,
            located: false,
        }
    }

    /// The newest visible tombstone over `user_key` (whose word is `word`); zero if there is none.
    #[inline]
    pub(crate) fn covering(&mut self, user_key: &[u8], word: u64) -> SequenceNumber {
        if self.located && self.from_word < word && word < self.until_word {
            return self.span.sequence;
        }
        self.covering_slow(user_key)
    }

    fn covering_slow(&mut self, user_key: &[u8]) -> SequenceNumber {
        if self.located && self.span.contains(user_key, &self.order) {
            return self.span.sequence;
        }
        let mut all = Span::default();
        for source in &mut self.sources {
            let span = source.locate(user_key, self.snapshot, &self.order);
            all.sequence = all.sequence.max(span.sequence);
            all.cut(span.from.clone(), span.until.clone(), &self.order);
        }
        debug_assert!(all.contains(user_key, &self.order));
        // Without an edge no word is on the outer side of it; a custom order has one word for all keys and never passes
        // the quick test.
        self.from_word = all.from.as_ref().map_or(0, |edge| self.words.word(&edge.key));
        self.until_word = all.until.as_ref().map_or(u64::MAX, |edge| self.words.word(&edge.key));
        self.span = all;
        self.located = true;
        self.span.sequence
    }

    /// The farthest end of a tombstone from a source newer than `child` over the key that [`covering`](Self::covering)
    /// was last asked for. Every entry of `child` from that key to this end is deleted.
    pub(crate) fn end_of_newer(&self, child: usize) -> Option<&Edge> {
        let mut farthest: Option<&Edge> = None;
        for span in self.covering_newer(child) {
            let until = span.until.as_ref()?;
            if farthest.is_none_or(|f| f.compare(until, &self.order).is_lt()) {
                farthest = Some(until);
            }
        }
        farthest
    }

    /// As [`end_of_newer`](Self::end_of_newer), towards smaller keys.
    pub(crate) fn start_of_newer(&self, child: usize) -> Option<&Edge> {
        let mut farthest: Option<&Edge> = None;
        for span in self.covering_newer(child) {
            let from = span.from.as_ref()?;
            if farthest.is_none_or(|f| f.compare(from, &self.order).is_gt()) {
                farthest = Some(from);
            }
        }
        farthest
    }

    fn covering_newer(&self, child: usize) -> impl Iterator<Item = &Span> {
        let newer = self.sources.iter().filter(move |source| source.child < child);
        newer.filter_map(|source| source.span.as_ref()).filter(|span| span.sequence > SequenceNumber::ZERO)
    }

    /// If a tombstone of `child` itself covers `user_key`: where it begins and where it ends.
    pub(crate) fn own_cover(&mut self, child: usize, user_key: &[u8]) -> Option<(Option<&Edge>, Option<&Edge>)> {
        self.located = false;
        let source = self.sources.iter_mut().find(|source| source.child == child)?;
        let span = source.locate(user_key, self.snapshot, &self.order);
        (span.sequence > SequenceNumber::ZERO).then_some((span.from.as_ref(), span.until.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firn_format::range_tombstone::RangeTombstone;

    fn list(tombstones: &[(&str, &str, u64)]) -> Arc<FragmentedRangeTombstones> {
        let tombstone = |&(start, end, sequence): &(&str, &str, u64)| RangeTombstone {
            start: start.into(),
            end: end.into(),
            sequence: SequenceNumber(sequence),
        };
        let order = InternalKeyComparator::default();
        Arc::new(FragmentedRangeTombstones::new(tombstones.iter().map(tombstone).collect(), &order))
    }

    #[test]
    fn answers_combine_all_sources_and_respect_the_bounds_of_files() {
        let order = InternalKeyComparator::default();
        let words = KeyWords::new(order.kind(), b"");
        let key = |key: &str, sequence| InternalKey::new(key.as_bytes(), SequenceNumber(sequence), ValueType::Value);
        let table = TombstoneSource::of_table(&list(&[("a", "z", 50)]), &key("c", 9), &key("m", 9));
        let sentinel = InternalKey::range_sentinel(b"x");
        let other = TombstoneSource::of_table(&list(&[("p", "z", 40)]), &key("p", 9), &sentinel);
        let sources = vec![
            (0, TombstoneSource::of_memtable(list(&[("d", "f", 70), ("k", "n", 90)])).unwrap()),
            (1, table.unwrap()),
            (2, other.unwrap()),
        ];
        let mut cover = TombstoneCover::new(order.clone(), words.clone(), SequenceNumber(80), sources);
        let at = |cover: &mut TombstoneCover, key: &str| cover.covering(key.as_bytes(), words.word(key.as_bytes())).0;
        let answers = "abcdefgklmmnopqwxy".chars().map(|c| at(&mut cover, &c.to_string())).collect::<Vec<_>>();
        assert_eq!(answers, [0, 0, 50, 70, 70, 50, 50, 50, 50, 50, 50, 0, 0, 40, 40, 40, 0, 0]);
        for key in ["x", "d", "c", "b", "m", "ma", "e", "w"] {
            let expected = [("x", 0), ("d", 70), ("c", 50), ("b", 0), ("m", 50), ("ma", 0), ("e", 70), ("w", 40)];
            assert_eq!(at(&mut cover, key), expected.iter().find(|e| e.0 == key).unwrap().1);
        }
        at(&mut cover, "e");
        assert_eq!(cover.end_of_newer(0), None);
        assert_eq!(cover.end_of_newer(1), Some(&Edge::before(b"f")));
        assert_eq!(cover.end_of_newer(2), Some(&Edge::after(b"m")));
        assert_eq!(cover.start_of_newer(2), Some(&Edge::before(b"c")));
    }

    #[test]
    fn at_a_user_key_that_files_of_a_level_share_the_tombstones_of_all_count() {
        let order = InternalKeyComparator::default();
        let words = KeyWords::new(order.kind(), b"");
        let key = |key: &str, sequence| InternalKey::new(key.as_bytes(), SequenceNumber(sequence), ValueType::Value);
        let file = |tombstones: &[(&str, &str, u64)], smallest: (&str, u64), largest: (&str, u64)| {
            TombstoneWindow::of_table(&list(tombstones), &key(smallest.0, smallest.1), &key(largest.0, largest.1))
        };
        let level: Arc<[_]> = Arc::from([
            file(&[("a", "c", 90), ("j", "m", 40)], ("a", 90), ("k", 80)),
            file(&[("k", "l", 70)], ("k", 79), ("k", 71)),
            file(&[("k", "m", 60)], ("k", 70), ("p", 50)),
            file(&[("r", "s", 30)], ("r", 30), ("t", 20)),
        ]);
        let expected =
            [("b", 90), ("j", 40), ("jz", 40), ("k", 70), ("ka", 60), ("l", 60), ("m", 0), ("q", 0), ("r", 30)];
        let source = || vec![(0, TombstoneSource::of_run(&level).unwrap())];
        for first in 0..expected.len() {
            let mut cover = TombstoneCover::new(order.clone(), words.clone(), SequenceNumber(100), source());
            for (key, sequence) in expected.iter().skip(first).chain(&expected) {
                let found = cover.covering(key.as_bytes(), words.word(key.as_bytes()));
                assert_eq!(found.0, *sequence, "{key} after {}", expected[first].0);
            }
        }
        let mut cover = TombstoneCover::new(order.clone(), words.clone(), SequenceNumber(100), source());
        let (before, after) = (Edge::before(b"k"), Edge::after(b"k"));
        assert_eq!(cover.own_cover(0, b"jz"), Some((Some(&Edge::before(b"j")), Some(&before))));
        assert_eq!(cover.own_cover(0, b"k"), Some((Some(&before), Some(&after))));
        assert_eq!(cover.own_cover(0, b"ka"), Some((Some(&after), Some(&Edge::before(b"m")))));
    }
}
