//! Finding the one file of a sorted level that may hold a key: [`LevelSearch`].
//!
//! A lookup asks every level for "the first file whose largest key is not before this key". Comparing with the boundary
//! keys themselves touches one cold cache line per step. So the search keeps, in one array per level, eight bytes of every
//! file's largest user key as a big-endian number, taken after the prefix that all boundaries of the level share; only files
//! whose number equals the key's are compared in full. Orders other than the two built-in ones always compare in full.

use std::cmp::Ordering;
use std::sync::Arc;

use firn_format::comparator::{ComparatorKind, InternalKeyComparator};

use super::FileMetaData;

/// The search structure of one level whose files are in key order.
#[derive(Debug, Default)]
pub(crate) struct LevelSearch {
    /// What all boundary user keys of the level begin with.
    common_prefix: Vec<u8>,
    /// Per file, the eight bytes of its largest user key after the common prefix; descending under the reverse order.
    largest: Vec<u64>,
    /// Per file, the eight bytes of its smallest user key after the common prefix.
    smallest: Vec<u64>,
}

/// Where a user key stands relative to what all boundaries of a level begin with; found once per lookup and level.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    Before,
    Word(u64),
    After,
}

fn word_of(key: &[u8], skip: usize) -> u64 {
    let rest = key.get(skip..).unwrap_or_default();
    match rest.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            u64::from_be_bytes(bytes)
        }
    }
}

fn common_prefix_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

impl LevelSearch {
    /// The search structure of `files`, which are in key order and do not overlap.
    pub(crate) fn new(files: &[Arc<FileMetaData>], order: &InternalKeyComparator) -> Self {
        let (Some(first), Some(last)) = (files.first(), files.last()) else { return Self::default() };
        Self::between(first.smallest.user_key(), last.largest.user_key(), files, order)
    }

    /// The search structure of files in any order that may overlap; only [`may_contain`](Self::may_contain) makes sense then.
    pub(crate) fn unsorted(files: &[Arc<FileMetaData>], order: &InternalKeyComparator) -> Self {
        let least = files.iter().map(|file| file.smallest.user_key()).min_by(|a, b| order.compare_user(a, b));
        let greatest = files.iter().map(|file| file.largest.user_key()).max_by(|a, b| order.compare_user(a, b));
        match (least, greatest) {
            (Some(least), Some(greatest)) => Self::between(least, greatest, files, order),
            _ => Self::default(),
        }
    }

    fn between(least: &[u8], greatest: &[u8], files: &[Arc<FileMetaData>], order: &InternalKeyComparator) -> Self {
        if order.kind() == ComparatorKind::Custom {
            return Self::default();
        }
        // Under either built-in order every key between two keys begins with what the two have in common.
        let len = common_prefix_len(least, greatest);
        let words = |pick: fn(&FileMetaData) -> &[u8]| files.iter().map(|file| word_of(pick(file), len)).collect();
        Self {
            common_prefix: least.get(..len).unwrap_or_default().to_vec(),
            largest: words(|file| file.largest.user_key()),
            smallest: words(|file| file.smallest.user_key()),
        }
    }

    /// Where `user_key` stands, in ascending byte order.
    #[inline]
    pub(crate) fn place(&self, user_key: &[u8]) -> Place {
        let prefix = self.common_prefix.as_slice();
        if prefix.is_empty() {
            return Place::Word(word_of(user_key, 0));
        }
        match user_key.get(..prefix.len()).unwrap_or(user_key).cmp(prefix) {
            Ordering::Less => Place::Before,
            Ordering::Equal => Place::Word(word_of(user_key, prefix.len())),
            Ordering::Greater => Place::After,
        }
    }

    /// The index of the first of `files` whose largest key is at or after `ikey`, whose user key stands at `place`;
    /// `files.len()` if there is none.
    #[inline]
    pub(crate) fn first_not_before(
        &self,
        files: &[Arc<FileMetaData>],
        ikey: &[u8],
        place: Place,
        order: &InternalKeyComparator,
    ) -> usize {
        let is_before = |file: &Arc<FileMetaData>| order.compare(file.largest.encoded(), ikey) == Ordering::Less;
        let reverse = match order.kind() {
            ComparatorKind::Bytewise => false,
            ComparatorKind::ReverseBytewise => true,
            ComparatorKind::Custom => return files.partition_point(is_before),
        };
        debug_assert_eq!(self.largest.len(), files.len());
        let word = match (place, reverse) {
            (Place::Before, false) | (Place::After, true) => return 0,
            (Place::After, false) | (Place::Before, true) => return files.len(),
            (Place::Word(word), _) => word,
        };
        let first = if reverse {
            self.largest.partition_point(|largest| *largest > word)
        } else {
            self.largest.partition_point(|largest| *largest < word)
        };
        let behind = first + run_of(&self.largest, first, word);
        // Only the files whose word equals the key's are undecided.
        first + files.get(first..behind).map_or(0, |ties| ties.partition_point(is_before))
    }

    /// Whether `user_key`, which stands at `place`, is before the smallest user key of the file at `index`.
    #[inline]
    pub(crate) fn is_before_file(
        &self,
        files: &[Arc<FileMetaData>],
        index: usize,
        user_key: &[u8],
        place: Place,
        order: &InternalKeyComparator,
    ) -> bool {
        if let (Some(&smallest), Place::Word(word)) = (self.smallest.get(index), place)
            && smallest != word
        {
            return (word < smallest) != (order.kind() == ComparatorKind::ReverseBytewise);
        }
        files.get(index).is_none_or(|file| order.compare_user(user_key, file.smallest.user_key()) == Ordering::Less)
    }

    /// Whether `user_key`, which stands at `place`, is behind the largest user key of the file at `index`.
    #[inline]
    fn is_behind_file(
        &self,
        files: &[Arc<FileMetaData>],
        index: usize,
        user_key: &[u8],
        place: Place,
        order: &InternalKeyComparator,
    ) -> bool {
        if let (Some(&largest), Place::Word(word)) = (self.largest.get(index), place)
            && largest != word
        {
            return (word > largest) != (order.kind() == ComparatorKind::ReverseBytewise);
        }
        files.get(index).is_none_or(|file| order.compare_user(user_key, file.largest.user_key()) == Ordering::Greater)
    }

    /// Whether `user_key`, which stands at `place`, is between the boundaries of the file at `index`.
    #[inline]
    pub(crate) fn may_contain(
        &self,
        files: &[Arc<FileMetaData>],
        index: usize,
        user_key: &[u8],
        place: Place,
        order: &InternalKeyComparator,
    ) -> bool {
        !self.is_before_file(files, index, user_key, place, order)
            && !self.is_behind_file(files, index, user_key, place, order)
    }
}

/// How many words from `first` on equal `word`.
#[inline]
fn run_of(words: &[u64], first: usize, word: u64) -> usize {
    words.get(first..).map_or(0, |rest| rest.partition_point(|other| *other == word))
}

#[cfg(test)]
mod tests {
    use firn_format::comparator::{BytewiseComparator, Comparator, ReverseBytewiseComparator};
    use firn_format::key::{FileNumber, InternalKey, SequenceNumber, ValueType};
    use firn_format::version_edit::NewFile;
    use proptest::prelude::*;

    use super::*;

    struct Custom;
    impl Comparator for Custom {
        fn name(&self) -> &str {
            "custom"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
            a.cmp(b)
        }
    }

    fn user_key() -> impl Strategy<Value = Vec<u8>> {
        // Few bytes and a likely common prefix, so that words tie and keys are shorter than a word.
        (any::<bool>(), prop::collection::vec(prop_oneof![Just(0u8), Just(b'a'), Just(0xff)], 0..14))
            .prop_map(|(prefixed, tail)| if prefixed { [b"prefix".as_slice(), &tail].concat() } else { tail })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn agrees_with_full_comparison(
            keys in prop::collection::vec((user_key(), 0u64..4), 2..40),
            probes in prop::collection::vec((user_key(), 0u64..5), 1..20),
            kind in 0..3,
        ) {
            let user: Arc<dyn Comparator> = match kind {
                0 => Arc::new(BytewiseComparator),
                1 => Arc::new(ReverseBytewiseComparator),
                _ => Arc::new(Custom),
            };
            let order = InternalKeyComparator::new(user);
            let key = |(user, sequence): &(Vec<u8>, u64)| {
                InternalKey::new(user, SequenceNumber(*sequence), ValueType::Value)
            };
            let mut sorted: Vec<InternalKey> = keys.iter().map(key).collect();
            sorted.sort_by(|a, b| order.compare(a.encoded(), b.encoded()));
            sorted.dedup();
            let files: Vec<Arc<FileMetaData>> = sorted
                .chunks_exact(2)
                .enumerate()
                .map(|(at, pair)| {
                    Arc::new(FileMetaData::new(NewFile {
                        number: FileNumber(at as u64),
                        smallest: pair[0].clone(),
                        largest: pair[1].clone(),
                        ..NewFile::default()
                    }))
                })
                .collect();
            let search = LevelSearch::new(&files, &order);
            for probe in &probes {
                let ikey = key(probe);
                let expected = files
                    .iter()
                    .position(|file| order.compare(file.largest.encoded(), ikey.encoded()) != Ordering::Less)
                    .unwrap_or(files.len());
                let place = search.place(&probe.0);
                prop_assert_eq!(search.first_not_before(&files, ikey.encoded(), place, &order), expected);
                for (at, file) in files.iter().enumerate() {
                    let before = order.compare_user(&probe.0, file.smallest.user_key()) == Ordering::Less;
                    prop_assert_eq!(search.is_before_file(&files, at, &probe.0, place, &order), before);
                    let behind = order.compare_user(&probe.0, file.largest.user_key()) == Ordering::Greater;
                    let unsorted = LevelSearch::unsorted(&files, &order);
                    let place = unsorted.place(&probe.0);
                    prop_assert_eq!(unsorted.may_contain(&files, at, &probe.0, place, &order), !before && !behind);
                }
            }
        }
    }
}
