//! Blocks of entries: any payload, walked in every direction.

use arbitrary::Unstructured;
use firn_format::block::{BlockCursor, BlockIter, BlockView, HashLookup};
use firn_format::comparator::InternalKeyComparator;
use firn_format::index::{IndexEntries, IndexFormat};
use firn_format::key::FOOTER_SIZE;
use firn_table::{DataBlock, IndexBlock};

use crate::input::{choice, flags, number};

/// Moves that one input makes; more teach nothing and cost time.
const MOST_MOVES: usize = 64;

/// Data blocks: the first bytes are moves of a cursor, the rest is the payload.
pub fn data_block(data: &[u8]) {
    let (moves, data) = flags(data);
    let (moves, payload) = data.split_at(usize::from(moves).min(MOST_MOVES).min(data.len()));
    let Ok(view) = BlockView::parse(payload) else {
        assert!(DataBlock::new(payload).is_err() && BlockIter::new(payload).is_err());
        return;
    };
    let _ = DataBlock::new(payload);
    let mut cursor = BlockCursor::new();
    let mut keys: Vec<Vec<u8>> = Vec::new();
    let mut there = cursor.seek_to_first(view);
    while let Ok(true) = there {
        assert!(cursor.valid() && cursor.value_range().end <= payload.len());
        let _ = cursor.value(view);
        keys.push(cursor.key().to_vec());
        assert!(keys.len() <= payload.len(), "more entries than bytes");
        there = cursor.next(view);
    }
    let mut steps = 0;
    let mut there = cursor.seek_to_last(view);
    while let Ok(true) = there {
        steps += 1;
        assert!(steps <= payload.len(), "endless walk backwards");
        there = cursor.prev(view);
    }
    for &chosen in moves {
        let target: &[u8] = match keys.get(usize::from(chosen >> 3) % keys.len().max(1)) {
            Some(key) => key,
            None => payload,
        };
        let moved = match chosen & 7 {
            0 => cursor.seek_to_first(view),
            1 => cursor.seek_to_last(view),
            2 | 3 if cursor.valid() => cursor.next(view),
            4 | 5 if cursor.valid() => cursor.prev(view),
            6 => cursor.seek_for_prev(view, |key| key.cmp(target)),
            _ => cursor.seek(view, |key| key.cmp(target)),
        };
        assert_eq!(moved.unwrap_or(false), cursor.valid());
        assert!(!cursor.valid() || cursor.value_range().end <= payload.len());
        if let HashLookup::Restart(restart) = view.hash_lookup(target) {
            let _ = cursor.seek_from_restart(view, restart, |key| key.cmp(target));
        }
    }
    if let Ok(mut iterator) = BlockIter::new(payload) {
        let _ = iterator.find(b"rocksdb.data.size");
    }
}

/// Index blocks in all formats.
pub fn index_block(data: &[u8]) {
    let (flags, payload) = flags(data);
    let format = IndexFormat {
        key_is_user_key: flags & 1 != 0,
        value_is_delta_encoded: flags & 2 != 0,
        has_first_key: flags & 4 != 0,
    };
    let mut count = 0;
    if let Ok(mut entries) = IndexEntries::new(payload, format) {
        while let Ok(true) = entries.advance() {
            count += 1;
            assert!(count <= payload.len(), "more entries than bytes");
            let _ = (entries.key(), entries.handle().checked_end(), entries.first_key(), entries.uniform_keys());
        }
    }
    let Ok(block) = IndexBlock::decode(payload, format, &InternalKeyComparator::default()) else { return };
    assert_eq!(block.len(), count);
    let mut input = Unstructured::new(payload);
    for _ in 0..8 {
        let position = number(&mut input, block.len() + 1);
        let _ = (block.handle(position), block.user_key(position), block.first_key(position), block.memory_bytes());
        let target = if choice(&mut input) { block.key(position).to_vec() } else { payload.to_vec() };
        if target.len() >= FOOTER_SIZE {
            assert!(block.lower_bound(&target) <= block.len());
        }
    }
}
