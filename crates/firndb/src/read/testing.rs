//! Test support: an iterator over a vector, and the checks that every [`InternalIterator`] must pass.

use firn_error::{Error, Result};
use firn_format::comparator::InternalKeyComparator;
use firn_format::iterator::InternalIterator;
use firn_format::key::{InternalKey, SequenceNumber, ValueType, extract_user_key};

/// An [`InternalIterator`] over sorted entries in a vector; can be told to fail at an entry.
#[derive(Clone, Debug)]
pub(crate) struct VecIterator {
    order: InternalKeyComparator,
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    at: Option<usize>,
    fail_at: Option<usize>,
    failed: bool,
}

impl VecIterator {
    /// Over `entries` (encoded internal keys and values), which are sorted here.
    pub(crate) fn new(mut entries: Vec<(Vec<u8>, Vec<u8>)>, order: InternalKeyComparator) -> Self {
        entries.sort_by(|a, b| order.compare(&a.0, &b.0));
        Self { order, entries, at: None, fail_at: None, failed: false }
    }

    /// Over entries written as (user key, sequence, type, value), in bytewise order.
    pub(crate) fn of(entries: &[(&str, u64, ValueType, &str)]) -> Self {
        let encode = |&(key, sequence, value_type, value): &(&str, u64, ValueType, &str)| {
            let key = InternalKey::new(key.as_bytes(), SequenceNumber(sequence), value_type);
            (key.encoded().to_vec(), value.as_bytes().to_vec())
        };
        Self::new(entries.iter().map(encode).collect(), InternalKeyComparator::default())
    }

    /// The same, failing with `Corruption` when it reaches entry `at`.
    pub(crate) fn failing_at(mut self, at: usize) -> Self {
        self.fail_at = Some(at);
        self
    }

    fn go(&mut self, at: Option<usize>) {
        self.failed = at.is_some() && at == self.fail_at;
        self.at = at.filter(|&at| at < self.entries.len() && !self.failed);
    }
}

impl InternalIterator for VecIterator {
    fn valid(&self) -> bool {
        self.at.is_some()
    }
    fn seek_to_first(&mut self) {
        self.go(Some(0));
    }
    fn seek_to_last(&mut self) {
        self.go(self.entries.len().checked_sub(1));
    }
    fn seek(&mut self, target: &[u8]) {
        self.go(Some(self.entries.partition_point(|e| self.order.compare(&e.0, target).is_lt())));
    }
    fn seek_for_prev(&mut self, target: &[u8]) {
        self.go(self.entries.partition_point(|e| self.order.compare(&e.0, target).is_le()).checked_sub(1));
    }
    fn reseek(&mut self, target: &[u8]) {
        self.seek(target);
    }
    fn reseek_for_prev(&mut self, target: &[u8]) {
        self.seek_for_prev(target);
    }
    fn next(&mut self) {
        assert!(self.valid());
        self.go(self.at.map(|at| at + 1));
    }
    fn prev(&mut self) {
        assert!(self.valid());
        self.go(self.at.and_then(|at| at.checked_sub(1)));
    }
    fn key(&self) -> &[u8] {
        &self.entries[self.at.expect("valid")].0
    }
    fn value(&self) -> &[u8] {
        &self.entries[self.at.expect("valid")].1
    }
    fn status(&self) -> Result<()> {
        if self.failed { Err(Error::corruption("told to fail")) } else { Ok(()) }
    }
}

/// Where a cursor stands, for comparisons.
fn here<I: InternalIterator>(cursor: &I) -> Option<(Vec<u8>, Vec<u8>)> {
    cursor.valid().then(|| (cursor.key().to_vec(), cursor.value().to_vec()))
}

/// The conformance suite: `cursor` must show exactly `expected`, sorted entries, from everywhere and in both directions.
pub(crate) fn check_iterator<I: InternalIterator>(
    cursor: &mut I,
    expected: &[(Vec<u8>, Vec<u8>)],
    order: &InternalKeyComparator,
) {
    assert!(expected.windows(2).all(|pair| order.compare(&pair[0].0, &pair[1].0).is_lt()), "the model is sorted");
    // Forward and backward.
    cursor.seek_to_first();
    for entry in expected {
        assert_eq!(here(cursor).as_ref(), Some(entry));
        cursor.next();
    }
    assert_eq!(here(cursor), None);
    cursor.status().expect("no error at the end");
    cursor.seek_to_last();
    for entry in expected.iter().rev() {
        assert_eq!(here(cursor).as_ref(), Some(entry));
        cursor.prev();
    }
    assert_eq!(here(cursor), None);
    cursor.status().expect("no error at the start");
    // Seeks to every entry, just before and after every user key, then a step in each direction.
    let mut targets: Vec<Vec<u8>> = expected.iter().map(|e| e.0.clone()).collect();
    for (key, _) in expected {
        let user_key = extract_user_key(key);
        targets.push(InternalKey::for_seek(user_key, SequenceNumber::MAX).encoded().to_vec());
        targets.push(InternalKey::new(user_key, SequenceNumber::ZERO, ValueType::Deletion).encoded().to_vec());
        let longer = [user_key, b"\0"].concat();
        targets.push(InternalKey::for_seek(&longer, SequenceNumber::MAX).encoded().to_vec());
    }
    targets.push(InternalKey::for_seek(b"", SequenceNumber::MAX).encoded().to_vec());
    targets.push(InternalKey::for_seek(&[0xff; 20], SequenceNumber::MAX).encoded().to_vec());
    for target in &targets {
        let at = expected.partition_point(|e| order.compare(&e.0, target).is_lt());
        cursor.seek(target);
        assert_eq!(here(cursor).as_ref(), expected.get(at), "seek to {}", target.escape_ascii());
        if cursor.valid() {
            cursor.prev();
            assert_eq!(here(cursor).as_ref(), at.checked_sub(1).and_then(|at| expected.get(at)), "prev after seek");
            if cursor.valid() {
                cursor.next();
                assert_eq!(here(cursor).as_ref(), expected.get(at), "next after prev");
            }
        }
        cursor.reseek(target);
        assert_eq!(here(cursor).as_ref(), expected.get(at), "reseek to {}", target.escape_ascii());
        let after = expected.partition_point(|e| order.compare(&e.0, target).is_le());
        let last = after.checked_sub(1).and_then(|at| expected.get(at));
        cursor.reseek_for_prev(target);
        assert_eq!(here(cursor).as_ref(), last, "reseek_for_prev to {}", target.escape_ascii());
        cursor.seek_for_prev(target);
        assert_eq!(here(cursor).as_ref(), last, "seek_for_prev to {}", target.escape_ascii());
        if cursor.valid() {
            cursor.next();
            assert_eq!(here(cursor).as_ref(), expected.get(after), "next after seek_for_prev");
            if cursor.valid() {
                cursor.prev();
                assert_eq!(here(cursor).as_ref(), last, "prev after next");
            }
        }
    }
}

#[test]
fn the_vector_iterator_conforms() {
    let iterator = VecIterator::of(&[
        ("a", 3, ValueType::Value, "x"),
        ("a", 1, ValueType::Deletion, ""),
        ("", 2, ValueType::Value, "y"),
        ("c", 9, ValueType::Merge, "z"),
    ]);
    let expected = iterator.entries.clone();
    check_iterator(&mut iterator.clone(), &expected, &iterator.order);
    let mut failing = iterator.failing_at(1);
    failing.seek_to_first();
    failing.next();
    assert!(!failing.valid() && failing.status().is_err());
}
