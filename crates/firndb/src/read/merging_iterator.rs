//! Merging sorted sources into one, and leaving out what range tombstones cover.
//!
//! Children come newest first: memtable, immutable memtables, level-0 tables, levels. A binary heap orders those that are
//! on an entry. Each heap slot carries the eight-byte [word](crate::key_word) of its child's key, so that most
//! comparisons are of integers; and since the heap's top is replaced in place, a scan that stays within one child pays
//! two of them per entry.
//!
//! Where sources have range tombstones, entries older than a tombstone over them are not shown. When the tombstone comes
//! from a newer source than the entry, everything else that it covers in that child is older too, and the child seeks
//! past it.
//!
//! Only a seek to the very target that the caller gave is a `seek` for a child; over deleted ranges and in turns a child
//! is sought anew, with nothing left out.
//!
//! Always true: in the forward direction every child stands on its first entry after the current one (the current child
//! on it), in the backward direction on its last entry before it. A child's error makes the whole iterator invalid.

use firn_error::{Error, Result};
use firn_format::comparator::InternalKeyComparator;
use firn_format::iterator::InternalIterator;
use firn_format::key::{SequenceNumber, extract_footer, extract_user_key};

use super::tombstone_cover::{TombstoneCover, TombstoneSource};
use crate::key_word::KeyWords;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// A child on an entry.
#[derive(Clone, Copy, Debug)]
struct HeapSlot {
    word: u64,
    child: usize,
}

/// See the module documentation.
pub struct MergingIterator<I> {
    order: InternalKeyComparator,
    words: KeyWords,
    children: Vec<I>,
    heap: Vec<HeapSlot>,
    direction: Direction,
    cover: Option<Box<TombstoneCover>>,
    error: Option<Error>,
    /// For seek targets; kept for its memory.
    scratch: Vec<u8>,
    /// By child, where it was last sent past a tombstone since the last seek or turn; empty when it was not.
    sought: Vec<Vec<u8>>,
}

impl<I: InternalIterator> MergingIterator<I> {
    /// Merges `children`, newest first, without range tombstones.
    pub fn new(order: InternalKeyComparator, children: Vec<I>) -> Self {
        Self::with_tombstones(order, children.into_iter().map(|child| (child, None)).collect(), SequenceNumber::MAX)
    }

    /// Merges `children`, newest first, and leaves out entries under their range tombstones as a reader at `snapshot`
    /// sees them.
    pub fn with_tombstones(
        order: InternalKeyComparator,
        children: Vec<(I, Option<TombstoneSource>)>,
        snapshot: SequenceNumber,
    ) -> Self {
        let words = KeyWords::new(order.kind(), b"");
        let mut iterators = Vec::with_capacity(children.len());
        let mut sources = Vec::new();
        for (at, (child, source)) in children.into_iter().enumerate() {
            iterators.push(child);
            sources.extend(source.map(|source| (at, source)));
        }
        let cover = (!sources.is_empty())
            .then(|| Box::new(TombstoneCover::new(order.clone(), words.clone(), snapshot, sources)));
        Self {
            order,
            words,
            heap: Vec::with_capacity(iterators.len()),
            children: iterators,
            direction: Direction::Forward,
            cover,
            error: None,
            scratch: Vec::new(),
            sought: Vec::new(),
        }
    }

    /// The children, newest first.
    pub fn children(&self) -> &[I] {
        &self.children
    }

    /// The child that the iterator stands on.
    #[inline]
    pub fn current(&self) -> Option<&I> {
        self.heap.first().and_then(|top| self.children.get(top.child))
    }

    #[inline]
    fn comes_first<const FORWARD: bool>(&self, a: HeapSlot, b: HeapSlot) -> bool {
        if a.word != b.word {
            return (a.word < b.word) == FORWARD;
        }
        let by_key = self.order.compare(self.children[a.child].key(), self.children[b.child].key());
        // Equal internal keys should not be; if they are, the newer source comes first.
        by_key.then(a.child.cmp(&b.child)).is_lt() == FORWARD
    }

    /// Restores the heap after its slot `at` may have moved away from the top.
    #[inline]
    fn sift_down<const FORWARD: bool>(&mut self, mut at: usize) {
        let slot = self.heap[at];
        loop {
            let mut below = 2 * at + 1;
            if below >= self.heap.len() {
                break;
            }
            if below + 1 < self.heap.len() && self.comes_first::<FORWARD>(self.heap[below + 1], self.heap[below]) {
                below += 1;
            }
            if !self.comes_first::<FORWARD>(self.heap[below], slot) {
                break;
            }
            self.heap[at] = self.heap[below];
            at = below;
        }
        self.heap[at] = slot;
    }

    /// Puts the children that stand on entries into the heap.
    fn build_heap(&mut self, direction: Direction) {
        self.direction = direction;
        self.heap.clear();
        self.sought.iter_mut().for_each(Vec::clear);
        for (child, iterator) in self.children.iter().enumerate() {
            if iterator.valid() {
                self.heap.push(HeapSlot { word: self.words.word(extract_user_key(iterator.key())), child });
            } else if let Err(error) = iterator.status() {
                self.error = Some(error);
            }
        }
        for at in (0..self.heap.len() / 2).rev() {
            match direction {
                Direction::Forward => self.sift_down::<true>(at),
                Direction::Backward => self.sift_down::<false>(at),
            }
        }
        if self.error.is_some() {
            self.heap.clear();
        }
    }

    /// Takes in that the child at the top has moved.
    #[inline]
    fn top_moved<const FORWARD: bool>(&mut self) {
        let child = self.heap[0].child;
        let iterator = &self.children[child];
        if iterator.valid() {
            self.heap[0].word = self.words.word(extract_user_key(iterator.key()));
            if self.heap.len() > 1 {
                self.sift_down::<FORWARD>(0);
            }
        } else {
            self.top_ended::<FORWARD>(child);
        }
    }

    #[cold]
    fn top_ended<const FORWARD: bool>(&mut self, child: usize) {
        if let Err(error) = self.children[child].status() {
            self.error = Some(error);
            self.heap.clear();
            return;
        }
        self.heap.swap_remove(0);
        if self.heap.len() > 1 {
            self.sift_down::<FORWARD>(0);
        }
    }

    /// Moves on, in the current direction, to an entry that no range tombstone covers.
    #[inline]
    fn skip_covered<const FORWARD: bool>(&mut self) {
        if self.cover.is_some() {
            self.skip_covered_slow::<FORWARD>();
        }
    }

    fn skip_covered_slow<const FORWARD: bool>(&mut self) {
        while let (Some(top), Some(cover)) = (self.heap.first().copied(), &mut self.cover) {
            let child = &mut self.children[top.child];
            let key = child.key();
            if SequenceNumber(extract_footer(key) >> 8) >= cover.covering(extract_user_key(key), top.word) {
                return;
            }
            let edge = if FORWARD { cover.end_of_newer(top.child) } else { cover.start_of_newer(top.child) };
            let target = edge.map(|edge| edge.seek_key(&mut self.scratch));
            // A target that is not ahead (a file's bound at this very user key) would not move.
            let ahead = target.is_some() && {
                let order = self.order.compare(&self.scratch, child.key());
                if FORWARD { order.is_gt() } else { order.is_lt() }
            };
            if ahead && !self.goes_on::<FORWARD>(top.child) {
                return;
            }
            let child = &mut self.children[top.child];
            match (ahead, FORWARD) {
                (true, true) => child.reseek(&self.scratch),
                (true, false) => child.reseek_for_prev(&self.scratch),
                (false, true) => child.next(),
                (false, false) => child.prev(),
            }
            self.top_moved::<FORWARD>();
        }
    }

    /// Whether the target in `scratch` lies beyond where `child` was sent before. It does unless the child's keys are out of
    /// order; then the scan fails, since it might send the child to the same place for ever.
    fn goes_on<const FORWARD: bool>(&mut self, child: usize) -> bool {
        if self.sought.len() <= child {
            self.sought.resize(self.children.len(), Vec::new());
        }
        let sought = &mut self.sought[child];
        let goes_on = sought.is_empty() || {
            let order = self.order.compare(&self.scratch, sought);
            if FORWARD { order.is_gt() } else { order.is_lt() }
        };
        sought.clear();
        sought.extend_from_slice(&self.scratch);
        if !goes_on {
            self.error = Some(super::out_of_order());
            self.heap.clear();
        }
        goes_on
    }

    /// Positions all children at `target` with `seek`; children older than a tombstone over it start at the tombstone's far
    /// end.
    fn seek_children<const FORWARD: bool>(&mut self, target: &[u8], seek: impl Fn(&mut I, &[u8])) {
        self.error = None;
        let Some(cover) = &mut self.cover else {
            self.children.iter_mut().for_each(|child| seek(child, target));
            return;
        };
        let mut target = target.to_vec();
        let mut is_moved = false;
        for (at, child) in self.children.iter_mut().enumerate() {
            match (is_moved, FORWARD) {
                (false, _) => seek(child, &target),
                (true, true) => child.reseek(&target),
                (true, false) => child.reseek_for_prev(&target),
            }
            let Some((from, until)) = cover.own_cover(at, extract_user_key(&target)) else { continue };
            let Some(edge) = (if FORWARD { until } else { from }) else { continue };
            edge.seek_key(&mut self.scratch);
            let order = self.order.compare(&self.scratch, &target);
            if if FORWARD { order.is_gt() } else { order.is_lt() } {
                std::mem::swap(&mut target, &mut self.scratch);
                is_moved = true;
            }
        }
    }

    fn seek_forward(&mut self, target: &[u8], seek: impl Fn(&mut I, &[u8])) {
        self.seek_children::<true>(target, seek);
        self.build_heap(Direction::Forward);
        self.skip_covered::<true>();
    }

    fn seek_backward(&mut self, target: &[u8], seek: impl Fn(&mut I, &[u8])) {
        self.seek_children::<false>(target, seek);
        self.build_heap(Direction::Backward);
        self.skip_covered::<false>();
    }

    /// Turns around: every child but the current one goes to the other side of the current key.
    #[cold]
    fn turn(&mut self, direction: Direction) {
        let Some(top) = self.heap.first().copied() else { return };
        self.scratch.clear();
        self.scratch.extend_from_slice(self.children[top.child].key());
        for (at, child) in self.children.iter_mut().enumerate() {
            if at == top.child {
                continue;
            }
            match direction {
                Direction::Forward => {
                    child.reseek(&self.scratch);
                    if child.valid() && child.key() == self.scratch {
                        child.next();
                    }
                }
                Direction::Backward => {
                    child.reseek_for_prev(&self.scratch);
                    if child.valid() && child.key() == self.scratch {
                        child.prev();
                    }
                }
            }
        }
        match direction {
            Direction::Forward => self.children[top.child].next(),
            Direction::Backward => self.children[top.child].prev(),
        }
        self.build_heap(direction);
    }
}

impl<I: InternalIterator> InternalIterator for MergingIterator<I> {
    #[inline]
    fn valid(&self) -> bool {
        !self.heap.is_empty()
    }

    fn seek_to_first(&mut self) {
        self.error = None;
        self.children.iter_mut().for_each(I::seek_to_first);
        self.build_heap(Direction::Forward);
        self.skip_covered::<true>();
    }

    fn seek_to_last(&mut self) {
        self.error = None;
        self.children.iter_mut().for_each(I::seek_to_last);
        self.build_heap(Direction::Backward);
        self.skip_covered::<false>();
    }

    fn seek(&mut self, target: &[u8]) {
        self.seek_forward(target, I::seek);
    }

    fn seek_for_prev(&mut self, target: &[u8]) {
        self.seek_backward(target, I::seek_for_prev);
    }

    fn reseek(&mut self, target: &[u8]) {
        self.seek_forward(target, I::reseek);
    }

    fn reseek_for_prev(&mut self, target: &[u8]) {
        self.seek_backward(target, I::reseek_for_prev);
    }

    #[inline]
    fn next(&mut self) {
        debug_assert!(self.valid());
        if self.direction == Direction::Forward {
            let top = self.heap[0].child;
            self.children[top].next();
            self.top_moved::<true>();
        } else {
            self.turn(Direction::Forward);
        }
        self.skip_covered::<true>();
    }

    #[inline]
    fn prev(&mut self) {
        debug_assert!(self.valid());
        if self.direction == Direction::Backward {
            let top = self.heap[0].child;
            self.children[top].prev();
            self.top_moved::<false>();
        } else {
            self.turn(Direction::Backward);
        }
        self.skip_covered::<false>();
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.current().map_or(&[], I::key)
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.current().map_or(&[], I::value)
    }

    fn status(&self) -> Result<()> {
        self.error.clone().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::testing::{VecIterator, check_iterator};
    use crate::read::tombstone_cover::{Edge, TombstoneWindow};
    use firn_format::key::{InternalKey, ValueType};
    use firn_format::range_tombstone::{FragmentedRangeTombstones, RangeTombstone};
    use proptest::prelude::*;
    use std::sync::Arc;

    fn key(user_key: u8, sequence: u64) -> Vec<u8> {
        InternalKey::new(&[user_key], SequenceNumber(sequence), ValueType::Value).encoded().to_vec()
    }

    proptest! {
        #[test]
        fn merges_like_one_sorted_list(
            entries in prop::collection::vec((0u8..20, 0usize..4), 0..60),
            long_keys in any::<bool>(),
        ) {
            let order = InternalKeyComparator::default();
            let mut children = vec![Vec::new(); 4];
            let mut all = Vec::new();
            for (at, &(user_key, child)) in entries.iter().enumerate() {
                let user_key = if long_keys { [&b"a long stem"[..], &[user_key]].concat() } else { vec![user_key] };
                let encoded = InternalKey::new(&user_key, SequenceNumber(at as u64), ValueType::Value);
                children[child].push((encoded.encoded().to_vec(), vec![at as u8]));
                all.push((encoded.encoded().to_vec(), vec![at as u8]));
            }
            all.sort_by(|a, b| order.compare(&a.0, &b.0));
            let children = children.into_iter().map(|c| VecIterator::new(c, order.clone())).collect();
            check_iterator(&mut MergingIterator::new(order.clone(), children), &all, &order);
        }

        /// Sources hold entries and tombstones of descending ages, as the memtables and tables of a database do; each
        /// source's tombstones count within its bounds only.
        #[test]
        fn leaves_out_what_tombstones_cover(
            sources in prop::collection::vec(
                (
                    prop::collection::vec((0u8..9, 0u64..100), 0..12),
                    prop::collection::vec((0u8..9, 0u8..9, 0u64..100), 0..4),
                    prop::option::of((0u8..9, 0u8..9, any::<bool>())),
                ),
                1..5,
            ),
            snapshot in 0u64..500,
        ) {
            let order = InternalKeyComparator::default();
            let count = sources.len() as u64;
            let mut children = Vec::new();
            let mut points = Vec::new();
            let mut tombstones = Vec::new();
            for (at, (entries, ranges, bounds)) in sources.iter().enumerate() {
                let base = (count - at as u64) * 100;
                let mut entries: Vec<_> =
                    entries.iter().map(|&(user_key, age)| (key(user_key, base + age), vec![at as u8])).collect();
                entries.sort();
                entries.dedup();
                points.extend(entries.iter().cloned());
                let list: Vec<_> = ranges
                    .iter()
                    .map(|&(a, b, age)| RangeTombstone {
                        start: vec![a],
                        end: vec![b],
                        sequence: SequenceNumber(base + age),
                    })
                    .collect();
                // Without bounds a memtable; with them a table; and half of those a level of two files that share the key
                // in the middle, where only one of the two has a given tombstone.
                let windows: Vec<_> = match *bounds {
                    None => vec![(None, None)],
                    Some((a, b, after)) => {
                        let (from, until) = (Edge::before(&[a.min(b)]), Edge { key: vec![a.max(b)], after });
                        match after {
                            false => vec![(Some(from), Some(until))],
                            true => {
                                let middle = [a.midpoint(b)];
                                let left = (Some(from), Some(Edge::after(&middle)));
                                vec![left, (Some(Edge::before(&middle)), Some(until))]
                            }
                        }
                    }
                };
                let mut lists = vec![Vec::new(); windows.len()];
                for (nth, tombstone) in list.into_iter().enumerate() {
                    lists[nth % windows.len()].push(tombstone);
                }
                let window = |((from, until), list): ((Option<Edge>, Option<Edge>), Vec<RangeTombstone>)| {
                    for tombstone in &list {
                        for k in 0..9_u8 {
                            let inside = from.as_ref().is_none_or(|e| !e.is_right_of(&[k], &order))
                                && until.as_ref().is_none_or(|e| e.is_right_of(&[k], &order));
                            let covers = tombstone.start[0] <= k && k < tombstone.end[0];
                            if inside && covers && tombstone.sequence.0 <= snapshot {
                                tombstones.push((k, tombstone.sequence.0));
                            }
                        }
                    }
                    let list = Arc::new(FragmentedRangeTombstones::new(list, &order));
                    TombstoneWindow { tombstones: Some(list), from, until }
                };
                let mut windows: Vec<_> = windows.into_iter().zip(lists).map(window).collect();
                let source = match windows.len() {
                    1 => TombstoneSource::Window(windows.remove(0)),
                    _ => TombstoneSource::Level(windows.into()),
                };
                children.push((VecIterator::new(entries, order.clone()), Some(source)));
            }
            let covered = |key: &[u8]| {
                let sequence = extract_footer(key) >> 8;
                tombstones.iter().any(|&(k, s)| k == key[0] && s > sequence)
            };
            points.retain(|(key, _)| !covered(key));
            points.sort_by(|a, b| order.compare(&a.0, &b.0));
            let mut merged = MergingIterator::with_tombstones(order.clone(), children, SequenceNumber(snapshot));
            check_iterator(&mut merged, &points, &order);
        }
    }

    #[test]
    fn an_error_of_a_child_ends_the_scan_until_the_next_seek() {
        let order = InternalKeyComparator::default();
        let good = VecIterator::new(vec![(key(1, 1), vec![]), (key(4, 1), vec![])], order.clone());
        let bad = VecIterator::new(vec![(key(2, 1), vec![]), (key(3, 1), vec![])], order.clone()).failing_at(1);
        let mut merged = MergingIterator::new(order, vec![good, bad]);
        merged.seek_to_first();
        merged.next();
        assert_eq!(merged.key(), key(2, 1));
        merged.next();
        assert!(!merged.valid() && merged.status().is_err());
        merged.seek_to_first();
        assert!(merged.valid() && merged.status().is_ok());
    }
}
