//! Files are written to memory and read back.

use super::*;
use crate::{GetControl, GetSink, SstFileReader, TableReadOptions, TableReaderOptions, ValueRef};
use firn_format::iterator::InternalIterator;
use firn_format::key::{InternalKey, ParsedInternalKey, parse_internal_key};

fn writer(env: &Env) -> SstFileWriter {
    SstFileWriter::new(
        env.clone(),
        FileOptions::default(),
        "ABCDEFGHIJKLMNOPQRST".into(),
        Box::new(TableBuilderOptions::default),
    )
}

fn reader(env: &Env, path: &Path, largest_sequence: Option<u64>) -> Result<SstFileReader> {
    let options = TableReaderOptions { largest_sequence, ..TableReaderOptions::default() };
    SstFileReader::open(env, path, &FileOptions::default(), options)
}

struct First(Option<(u64, Vec<u8>)>);

impl GetSink for First {
    fn accept(&mut self, key: ParsedInternalKey<'_>, value: ValueRef<'_>) -> GetControl {
        self.0 = Some((key.sequence.get(), value.to_vec()));
        GetControl::Stop
    }
}

#[test]
fn what_was_written_is_read_with_the_sequence_of_ingestion() {
    let env = Env::memory();
    let path = Path::new("/external.sst");
    let mut writer = writer(&env);
    writer.open(path).unwrap();
    for i in 0..1000 {
        let key = format!("key{i:04}");
        match i % 10 {
            3 => writer.delete(key.as_bytes()).unwrap(),
            4 => writer.merge(key.as_bytes(), b"operand").unwrap(),
            _ => writer.put(key.as_bytes(), format!("value{i}").as_bytes()).unwrap(),
        }
    }
    writer.delete_range(b"x", b"y").unwrap();
    writer.delete_range(b"a", b"b").unwrap();
    writer.delete_range(b"c", b"c").unwrap();
    assert!(writer.delete_range(b"d", b"c").is_err());
    assert!(writer.file_size() > 0);
    let info = writer.finish().unwrap();
    let expected = ExternalSstFileInfo {
        file_path: path.to_path_buf(),
        smallest_key: b"key0000".to_vec(),
        largest_key: b"key0999".to_vec(),
        smallest_range_del_key: b"a".to_vec(),
        largest_range_del_key: b"y".to_vec(),
        sequence_number: 0,
        file_size: env.fs().file_size(path).unwrap(),
        num_entries: 1000,
        num_range_del_entries: 2,
        version: 2,
    };
    assert_eq!(info, expected);

    for (largest, sequence) in [(None, 0), (Some(77), 77)] {
        let reader = reader(&env, path, largest).unwrap();
        let options = TableReadOptions::default();
        reader.verify_checksums(&options).unwrap();
        reader.verify_num_entries(&options).unwrap();
        assert_eq!(reader.table_properties().db_id, "SST Writer");
        assert_eq!(reader.table_properties().original_file_number, 1);
        let mut iterator = reader.iter(&options);
        iterator.seek_to_first();
        for i in 0..1000 {
            let key = parse_internal_key(iterator.key()).unwrap();
            assert_eq!((key.user_key, key.sequence.get()), (format!("key{i:04}").as_bytes(), sequence));
            iterator.next();
        }
        assert!(!iterator.valid());
        let mut first = First(None);
        let lookup = InternalKey::new(b"key0001", SequenceNumber::MAX, ValueType::FOR_SEEK);
        reader.table().get(&options, lookup.encoded(), &mut first).unwrap();
        assert_eq!(first.0, Some((sequence, b"value1".to_vec())));
    }
}

#[test]
fn wrong_use_is_refused() {
    let env = Env::memory();
    let path = Path::new("/external.sst");
    let mut writer = writer(&env);
    assert!(writer.put(b"a", b"1").is_err() && writer.finish().is_err());
    writer.open(path).unwrap();
    assert!(writer.finish().is_err(), "no entries");
    assert!(!env.fs().file_exists(path).unwrap());
    writer.open(path).unwrap();
    writer.put(b"b", b"1").unwrap();
    for key in [b"a", b"b"] {
        let error = writer.put(key, b"2").unwrap_err();
        assert_eq!(error.message(), "Keys must be added in strict ascending order.");
    }
    writer.put(b"c", b"3").unwrap();
    assert_eq!(writer.finish().unwrap().num_entries, 2);
    assert!(writer.put(b"d", b"4").is_err());
    // A second file of the same writer has a number, and so a unique id, of its own.
    writer.open(Path::new("/second.sst")).unwrap();
    writer.delete_range(b"a", b"b").unwrap();
    let info = writer.finish().unwrap();
    assert_eq!((info.num_entries, info.num_range_del_entries, info.smallest_key.len()), (0, 1, 0));
    let reader = reader(&env, Path::new("/second.sst"), None).unwrap();
    assert_eq!(reader.table_properties().original_file_number, 3);
}
