//! The map from sequence numbers to times, as tables and the MANIFEST keep it for tiering and age-based compaction.
//!
//! Samples flow in as (sequence, time) pairs: at that time the newest assigned sequence number was that one. So entries up
//! to the sequence were written at or before the time, later entries at or after it. Encoded form: varint64 count, then
//! per pair varint64 differences to the pair before.
//!
//! Always true here: both numbers increase strictly from pair to pair.

use crate::key::SequenceNumber;
use crate::varint::{get_varint64, put_varint64};
use crate::{Error, Result};

/// The most pairs that one table stores.
pub const MAX_PAIRS_PER_TABLE: usize = 100;

/// A strictly increasing list of (sequence number, unix time in seconds) samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeqnoToTimeMapping {
    pairs: Vec<(SequenceNumber, u64)>,
}

impl SeqnoToTimeMapping {
    /// A map without samples.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there is no sample.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The samples, in order.
    pub fn pairs(&self) -> &[(SequenceNumber, u64)] {
        &self.pairs
    }

    /// Adds a sample after all others; returns whether it was taken.
    ///
    /// One that repeats the last sequence or the last time replaces it; one that goes back in either is dropped, as is
    /// sequence 0. With more than `max_pairs` samples the oldest is dropped.
    pub fn append(&mut self, sequence: SequenceNumber, time_secs: u64, max_pairs: usize) -> bool {
        if sequence == SequenceNumber::ZERO || max_pairs == 0 {
            return false;
        }
        if let Some(last) = self.pairs.last_mut() {
            if sequence < last.0 || time_secs < last.1 {
                return false;
            }
            if sequence == last.0 || time_secs == last.1 {
                *last = (sequence, time_secs);
                return true;
            }
        }
        self.pairs.push((sequence, time_secs));
        if self.pairs.len() > max_pairs {
            self.pairs.drain(..self.pairs.len() - max_pairs);
        }
        true
    }

    /// The latest sampled time that lies before the write of `sequence`; `None` when unknown.
    pub fn time_before_sequence(&self, sequence: SequenceNumber) -> Option<u64> {
        let after = self.pairs.partition_point(|pair| pair.0 < sequence);
        after.checked_sub(1).and_then(|i| self.pairs.get(i)).map(|pair| pair.1)
    }

    /// The greatest sequence known to be written at or before `time_secs`; `None` when unknown.
    pub fn sequence_at_time(&self, time_secs: u64) -> Option<SequenceNumber> {
        let after = self.pairs.partition_point(|pair| pair.1 <= time_secs);
        after.checked_sub(1).and_then(|i| self.pairs.get(i)).map(|pair| pair.0)
    }

    /// The samples that say something about sequences in `smallest..=largest`, at most `max_pairs`, their times as evenly
    /// spread as the samples allow: those inside, and the closest earlier one.
    #[must_use]
    pub fn range(&self, smallest: SequenceNumber, largest: SequenceNumber, max_pairs: usize) -> Self {
        let from = self.pairs.partition_point(|pair| pair.0 < smallest).saturating_sub(1);
        let to = self.pairs.partition_point(|pair| pair.0 <= largest);
        let chosen = self.pairs.get(from..to).unwrap_or_default();
        Self { pairs: thin(chosen, max_pairs) }
    }

    /// The encoded form; empty for an empty map.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.pairs.is_empty() {
            return out;
        }
        put_varint64(&mut out, self.pairs.len() as u64);
        let mut before = (0, 0);
        for &(sequence, time) in &self.pairs {
            put_varint64(&mut out, sequence.get() - before.0);
            put_varint64(&mut out, time - before.1);
            before = (sequence.get(), time);
        }
        out
    }

    /// Reads the encoded form.
    ///
    /// # Errors
    /// `Corruption` for truncated or trailing bytes, or pairs that do not increase.
    pub fn decode(mut input: &[u8]) -> Result<Self> {
        let mut map = Self::new();
        if input.is_empty() {
            return Ok(map);
        }
        let count = get_varint64(&mut input)?;
        // A pair takes two bytes at least; a greater count is damage, not a wish for memory.
        if count > input.len() as u64 / 2 {
            return Err(Error::corruption("Invalid sequence number time size"));
        }
        map.pairs.reserve_exact(count as usize);
        let (mut sequence, mut time) = (0u64, 0u64);
        for i in 0..count {
            let (sequence_step, time_step) = (get_varint64(&mut input)?, get_varint64(&mut input)?);
            let next = sequence.checked_add(sequence_step).zip(time.checked_add(time_step));
            match next {
                Some(next) if sequence_step > 0 && (time_step > 0 || i == 0) => (sequence, time) = next,
                _ => return Err(Error::corruption("Invalid sequence number time")),
            }
            map.pairs.push((SequenceNumber(sequence), time));
        }
        if !input.is_empty() {
            return Err(Error::corruption("Extra bytes at end of sequence number time mapping"));
        }
        Ok(map)
    }
}

/// Keeps the first and last pair and, between them, those nearest to evenly spaced times.
fn thin(pairs: &[(SequenceNumber, u64)], max_pairs: usize) -> Vec<(SequenceNumber, u64)> {
    let (Some(first), Some(last)) = (pairs.first(), pairs.last()) else { return Vec::new() };
    if pairs.len() <= max_pairs {
        return pairs.to_vec();
    }
    if max_pairs < 2 {
        return pairs.iter().rev().take(max_pairs).copied().collect();
    }
    let span = u128::from(last.1 - first.1);
    let mut kept = vec![*first];
    let mut index = 1;
    for slot in 1..max_pairs - 1 {
        let ideal = first.1 + (span * slot as u128 / (max_pairs as u128 - 1)) as u64;
        // Leave one pair for each slot still to come.
        let end = pairs.len() - (max_pairs - 1 - slot);
        let mut at = index;
        while at + 1 < end && pairs[at].1 < ideal && pairs[at + 1].1.abs_diff(ideal) <= pairs[at].1.abs_diff(ideal) {
            at += 1;
        }
        kept.push(pairs[at]);
        index = at + 1;
    }
    kept.push(*last);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn map(pairs: &[(u64, u64)]) -> SeqnoToTimeMapping {
        let mut map = SeqnoToTimeMapping::new();
        for &(sequence, time) in pairs {
            assert!(map.append(SequenceNumber(sequence), time, usize::MAX));
        }
        map
    }

    #[test]
    fn vector_of_a_real_file() {
        let bytes = [0x05, 0x0a, 0xf7, 0xd0, 0x87, 0xd8, 0x06, 0x0a, 0x02, 0x0a, 0x04, 0x0a, 0x02, 0x0a, 0x04];
        let expected = map(&[(10, 1795287159), (20, 1795287161), (30, 1795287165), (40, 1795287167), (50, 1795287171)]);
        assert_eq!(SeqnoToTimeMapping::decode(&bytes).unwrap(), expected);
        assert_eq!(expected.encode(), bytes);
    }

    #[test]
    fn lookups() {
        let map = map(&[(10, 100), (20, 200)]);
        assert_eq!(map.time_before_sequence(SequenceNumber(10)), None);
        assert_eq!(map.time_before_sequence(SequenceNumber(11)), Some(100));
        assert_eq!(map.time_before_sequence(SequenceNumber(99)), Some(200));
        assert_eq!(map.sequence_at_time(99), None);
        assert_eq!(map.sequence_at_time(100), Some(SequenceNumber(10)));
        assert_eq!(map.sequence_at_time(999), Some(SequenceNumber(20)));
    }

    #[test]
    fn append_keeps_order() {
        let mut map = map(&[(10, 100)]);
        assert!(!map.append(SequenceNumber(9), 200, 9));
        assert!(!map.append(SequenceNumber(11), 99, 9));
        assert!(map.append(SequenceNumber(12), 100, 9));
        assert_eq!(map.pairs(), [(SequenceNumber(12), 100)]);
        assert!(map.append(SequenceNumber(13), 101, 1));
        assert_eq!(map.pairs(), [(SequenceNumber(13), 101)]);
    }

    #[test]
    fn range_covers_and_thins() {
        let pairs: Vec<(u64, u64)> = (1..=1000).map(|i| (10 * i, 60 * i)).collect();
        let map = map(&pairs);
        let part = map.range(SequenceNumber(105), SequenceNumber(131), 100);
        let sequences: Vec<u64> = part.pairs().iter().map(|pair| pair.0.get()).collect();
        assert_eq!(sequences, [100, 110, 120, 130]);
        let thinned = map.range(SequenceNumber(0), SequenceNumber::MAX, 100);
        assert_eq!(thinned.pairs().len(), 100);
        let gaps = thinned.pairs().windows(2).map(|pair| pair[1].1 - pair[0].1);
        assert!(gaps.clone().max().unwrap() <= 720 && gaps.min().unwrap() >= 540);
        assert!(map.range(SequenceNumber(0), SequenceNumber(5), 100).is_empty());
    }

    #[test]
    fn damage_is_refused() {
        for bytes in
            [&[1][..], &[1, 1], &[1, 0, 1], &[2, 1, 1, 1, 0], &[1, 1, 1, 1], &[0xff, 0xff, 0xff, 0xff, 0x0f, 1, 1]]
        {
            assert!(SeqnoToTimeMapping::decode(bytes).unwrap_err().is_corruption(), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn round_trips(steps in proptest::collection::vec((1u64..1000, 1u64..1000), 0..150), limit in 0usize..120) {
            let mut map = SeqnoToTimeMapping::new();
            let (mut sequence, mut time) = (0, 0);
            for (a, b) in steps {
                (sequence, time) = (sequence + a, time + b);
                map.append(SequenceNumber(sequence), time, usize::MAX);
            }
            prop_assert_eq!(&SeqnoToTimeMapping::decode(&map.encode()).unwrap(), &map);
            let thinned = map.range(SequenceNumber(0), SequenceNumber::MAX, limit);
            prop_assert_eq!(thinned.pairs().len(), limit.min(map.pairs().len()));
            prop_assert!(thinned.pairs().windows(2).all(|pair| pair[0] < pair[1]));
        }

        #[test]
        fn noise_never_panics(noise in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = SeqnoToTimeMapping::decode(&noise);
        }
    }
}
