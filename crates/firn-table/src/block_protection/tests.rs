//! Blocks whose bytes change in memory.

use std::path::Path;
use std::sync::Arc;

use firn_env::{Env, FileOptions};
use firn_format::block::{BlockBuilder, BlockBuilderOptions};
use firn_format::comparator::InternalKeyComparator;
use firn_format::iterator::InternalIterator;
use firn_format::key::{InternalKey, ParsedInternalKey, SequenceNumber, ValueType};

use super::*;
use crate::block_ref::{BlockCache, TableBlock};
use crate::cache::{CacheOptions, CachePriority};
use crate::data_block::DataBlock;
use crate::{
    GetControl, GetSink, SstFileWriter, TableBuilderOptions, TableReadOptions, TableReader, TableReaderOptions,
    ValueRef,
};

fn key(number: u32) -> Vec<u8> {
    InternalKey::new(format!("key{number:03}").as_bytes(), SequenceNumber(9), ValueType::Value).encoded().to_vec()
}

fn payload(options: &BlockBuilderOptions) -> Vec<u8> {
    let mut builder = BlockBuilder::new(options);
    (0..20).for_each(|number| builder.add(&key(number * 2), &[number as u8; 5][..number as usize % 5]));
    builder.finish().to_vec()
}

/// What a search for `target` finds in a block, checked.
fn search(block: &DataBlock, target: &[u8]) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
    let order = InternalKeyComparator::default();
    let mut cursor = BlockCursor::new();
    let found = block.checked_seek(&mut cursor, |key| order.compare(key, target))?;
    Ok(found.then(|| (cursor.key().to_vec(), cursor.value(block.view()).to_vec())))
}

/// All entries, checked.
fn scan(block: &DataBlock) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut cursor = BlockCursor::new();
    let mut entries = Vec::new();
    let mut found = cursor.seek_to_first(block.view())?;
    while found {
        block.check_entry(&cursor)?;
        entries.push((cursor.key().to_vec(), cursor.value(block.view()).to_vec()));
        found = cursor.next(block.view())?;
    }
    Ok(entries)
}

#[test]
fn no_search_and_no_scan_gives_a_wrong_answer_whatever_bit_turns() {
    for (restart_interval, separate_values) in [(1, false), (4, false), (16, false), (4, true)] {
        let options = BlockBuilderOptions { restart_interval, separate_values, ..BlockBuilderOptions::default() };
        let payload = payload(&options);
        let make = || DataBlock::with_protection(Frame::from(payload.as_slice()), 8).unwrap();
        let sound = make();
        let entries = scan(&sound).unwrap();
        assert_eq!(entries.len(), 20);
        let (mut refused, mut harmless) = (0, 0);
        for bit in 0..payload.len() * 8 {
            let mut damaged = make();
            damaged.turn_bit(bit);
            match scan(&damaged) {
                Ok(found) => assert_eq!(found, entries, "bit {bit}"),
                Err(error) => assert!(error.is_corruption(), "bit {bit}: {error}"),
            }
            for number in 0..41 {
                match search(&damaged, &key(number)) {
                    Ok(found) => {
                        harmless += 1;
                        assert_eq!(found, search(&sound, &key(number)).unwrap(), "bit {bit}, key {number}");
                    }
                    Err(error) => {
                        refused += 1;
                        assert!(error.is_corruption(), "bit {bit}: {error}");
                    }
                }
            }
        }
        assert!(refused > 0 && harmless > 0, "{refused} {harmless}");
    }
}

#[test]
fn protection_takes_as_many_bytes_as_asked_for_and_finds_what_it_can() {
    let options = BlockBuilderOptions::default();
    let payload = payload(&options);
    let plain = DataBlock::with_protection(Frame::from(payload.as_slice()), 0).unwrap();
    assert!(!plain.is_protected());
    for bytes in [1, 2, 4, 8] {
        let mut block = DataBlock::with_protection(Frame::from(payload.as_slice()), bytes).unwrap();
        assert!(block.is_protected());
        let counts = block.view().layout.num_restarts as usize * COUNT_BYTES;
        let protected = payload.len() + counts + 20 * usize::from(bytes) + SEAL_BYTES + LENGTH_BYTES;
        assert_eq!(block.view().payload.len(), protected);
        block.turn_bit(8 * 40);
        let error = scan(&block).unwrap_err().to_string();
        assert!(error.contains("per key-value checksum verification failed"), "{error}");
    }
    let empty = BlockBuilder::new(&options).finish().to_vec();
    let empty = DataBlock::with_protection(Frame::from(empty.as_slice()), 4).unwrap();
    assert_eq!((search(&empty, &key(1)).unwrap(), scan(&empty).unwrap().len()), (None, 0));
}

struct Value(Option<Vec<u8>>);

impl GetSink for Value {
    fn accept(&mut self, _key: ParsedInternalKey<'_>, value: ValueRef<'_>) -> GetControl {
        self.0 = Some(value.to_vec());
        GetControl::Stop
    }
}

#[test]
fn lookups_and_iterators_report_a_cached_block_that_changed_with_file_and_offset() {
    let env = Env::memory();
    let path = Path::new("/table.sst");
    let make = Box::new(TableBuilderOptions::default);
    let mut writer = SstFileWriter::new(env.clone(), FileOptions::default(), "ABCDEFGHIJKLMNOPQRST".into(), make);
    writer.open(path).unwrap();
    (0..50).for_each(|number| writer.put(format!("key{number:03}").as_bytes(), &[7; 20]).unwrap());
    writer.finish().unwrap();
    let cache = Arc::new(BlockCache::new(&CacheOptions::new(1 << 20)));
    let options = TableReaderOptions {
        block_cache: Some(Arc::clone(&cache)),
        block_protection_bytes_per_key: 2,
        largest_sequence: Some(0),
        ..TableReaderOptions::default()
    };
    let file = env.fs().new_random_access_file(path, &FileOptions::default()).unwrap();
    let size = file.size().unwrap();
    let table = Arc::new(TableReader::open(file, size, options).unwrap());
    let read = TableReadOptions::default();
    let get = |key: &str| {
        let lookup = InternalKey::for_seek(key.as_bytes(), SequenceNumber(100));
        let mut value = Value(None);
        table.get(&read, lookup.encoded(), &mut value).map(|()| value.0)
    };
    assert_eq!(get("key020").unwrap().as_deref(), Some(&[7; 20][..]));
    assert_eq!(get("key048z").unwrap(), None);
    let mut entries = table.iter(&read);
    entries.seek_to_first();
    let handle = table.index(&read).unwrap().index().unwrap().handle(0).unwrap();

    // The block as the cache has it, but for one bit in the value of the last entry.
    let sound = table.data_block(handle, &read, None).unwrap();
    let end = sound.data_view().layout.entries_end as usize;
    let stored = sound.data_view().payload.get(..handle.size as usize).unwrap();
    let mut damaged = DataBlock::with_protection(Frame::from(stored), 2).unwrap();
    damaged.turn_bit(end * 8 - 3);
    cache.insert(&table.cache_key(handle), TableBlock::Data(damaged), 1000, CachePriority::Low).unwrap();

    let check = |error: Error| {
        assert!(error.is_corruption() && error.to_string().contains("per key-value checksum"), "{error}");
        assert_eq!((error.file(), error.offset()), (Some(path), Some(handle.offset)));
    };
    assert!(get("key000").unwrap().is_some(), "what did not change is read");
    check(get("key049").unwrap_err());
    check(get("key048z").unwrap_err());
    let mut entries = table.iter(&read);
    entries.seek_to_first();
    let mut seen = 0;
    while entries.valid() {
        seen += 1;
        entries.next();
    }
    assert_eq!(seen, 49);
    check(entries.status().unwrap_err());
    entries.seek_to_last();
    assert!(!entries.valid());
    check(entries.status().unwrap_err());
    for target in ["key048z", "key049"] {
        let target = InternalKey::for_seek(target.as_bytes(), SequenceNumber(100));
        entries.seek(target.encoded());
        check(entries.status().unwrap_err());
        entries.seek_for_prev(target.encoded());
        check(entries.status().unwrap_err());
    }
}
