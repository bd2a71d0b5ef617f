//! Numbers and bytes that are likely to be handled badly.

use firn_format::key::{InternalKey, SequenceNumber, ValueType};
use rand::{Rng, rngs::StdRng};

/// The random source of a mutant.
pub struct Dice(pub StdRng);

impl Dice {
    /// A number below `end`, which must not be 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.0.random_range(0..end.max(1))
    }

    /// True once in `every` times.
    pub fn once_in(&mut self, every: usize) -> bool {
        self.below(every) == 0
    }

    /// One of `choices`.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        if choices.is_empty() { None } else { choices.get(self.below(choices.len())) }
    }

    /// A number for a place where `old` stands: an edge of some range, or something near `old`.
    pub fn number(&mut self, old: u64) -> u64 {
        const EDGES: [u64; 16] = [
            0,
            1,
            2,
            8,
            127,
            255,
            1 << 14,
            (1 << 31) - 1,
            1 << 31,
            (1 << 32) - 1,
            1 << 40,
            (1 << 56) - 1,
            1 << 62,
            (1 << 63) - 1,
            1 << 63,
            u64::MAX,
        ];
        match self.below(8) {
            0 => old.wrapping_add(1),
            1 => old.wrapping_sub(1),
            2 => old.wrapping_mul(2),
            3 => old / 2,
            4 => old.wrapping_add(self.below(1000) as u64),
            5 => u64::MAX - self.below(3) as u64,
            _ => EDGES[self.below(EDGES.len())],
        }
    }

    /// As [`number`](Self::number) for 32 bits.
    pub fn small(&mut self, old: u32) -> u32 {
        self.number(old.into()) as u32
    }

    /// A user key: one that the databases have, near one, or none.
    pub fn user_key(&mut self) -> Vec<u8> {
        match self.below(8) {
            0 => Vec::new(),
            1 => vec![0xff; self.below(40)],
            2 => vec![0],
            3 => format!("key{:03}x", self.below(80)).into_bytes(),
            _ => format!("key{:03}", self.below(80)).into_bytes(),
        }
    }

    /// An internal key of any type and number.
    pub fn internal_key(&mut self) -> InternalKey {
        const TYPES: [ValueType; 8] = [
            ValueType::Value,
            ValueType::Deletion,
            ValueType::SingleDeletion,
            ValueType::Merge,
            ValueType::RangeDeletion,
            ValueType::BlobIndex,
            ValueType::WideColumnEntity,
            ValueType::ValuePreferredSeqno,
        ];
        let sequence = SequenceNumber(self.number(60) & ((1 << 56) - 1));
        InternalKey::new(&self.user_key(), sequence, TYPES[self.below(TYPES.len())])
    }

    /// One to four small changes of bytes, wherever.
    pub fn scribble(&mut self, bytes: &[u8]) -> Vec<u8> {
        crate::mutate::mutate(&mut self.0, bytes, bytes)
    }

    /// Changes the order, number or choice of `items`; says how.
    pub fn shuffle<T: Clone>(&mut self, items: &mut Vec<T>) -> String {
        if items.is_empty() {
            return "nothing to shuffle".into();
        }
        let (at, other) = (self.below(items.len()), self.below(items.len()));
        match self.below(6) {
            0 => {
                items.remove(at);
                format!("drop item {at}")
            }
            1 => {
                let item = items[at].clone();
                items.insert(other, item);
                format!("copy item {at} before item {other}")
            }
            2 => {
                items.swap(at, other);
                format!("swap items {at} and {other}")
            }
            3 => {
                let times = [2, 20, 300][self.below(3)];
                let item = items[at].clone();
                items.splice(at..at, std::iter::repeat_n(item, times));
                format!("repeat item {at} {times} times")
            }
            4 => {
                items.truncate(at);
                format!("end before item {at}")
            }
            _ => {
                items.reverse();
                "reverse all items".into()
            }
        }
    }
}
