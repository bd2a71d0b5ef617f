//! Whole files and directories, opened through the memory file system.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use firn_env::logger::NullLogger;
use firn_env::memory::MemoryFileSystem;
use firn_env::{Env, FileOptions, FileSystem, create_dir_all, write_file};
use firn_error::Error;
use firn_format::checksum::ChecksumType;
use firn_format::comparator::{InternalKeyComparator, ReverseBytewiseComparator};
use firn_format::filter::FilterPolicy;
use firn_format::footer::FOOTER_SIZE;
use firn_format::iterator::InternalIterator;
use firn_format::key::{FileNumber, InternalKey, ParsedInternalKey, SequenceNumber, parse_internal_key};
use firn_format::log::LogFormat;
use firn_format::slice_transform::FixedPrefix;
use firn_format::version_edit::VersionEdit;
use firn_table::options::BlockBasedTableOptions;
use firn_table::{GetControl, GetSink, TableReadOptions, TableReader, TableReaderOptions, ValueRef};
use firndb::options::{ConfigOptions, DbOptions, WalRecoveryMode, load_latest_options};
use firndb::version::{OpenMode, VersionSet, VersionSetOptions, list_column_families};
use firndb::{ColumnFamilyDescriptor, ColumnFamilyOptions, Db, ReadOptions};

use crate::input::{flags, pieces, rarely};
use crate::logs::{LOG_NUMBER, family, framed};

/// Entries after which a scan ends: an index may name one block again and again.
const MOST_ENTRIES: usize = 2000;

/// Every error of an opened file names the file.
fn check(error: &Error) {
    assert!(error.file().is_some(), "no file in {error}");
}

struct Found(usize);

impl GetSink for Found {
    fn accept(&mut self, _key: ParsedInternalKey<'_>, value: ValueRef<'_>) -> GetControl {
        self.0 += value.len();
        GetControl::Stop
    }
}

/// A table as it lies in a file. With the first flag its footer says that blocks have no checksums, so that what lies
/// behind the checksums is reached.
pub fn table(data: &[u8]) {
    let (flags, data) = flags(data);
    let mut bytes = data.to_vec();
    if flags & 1 != 0
        && let Some(at) = bytes.len().checked_sub(FOOTER_SIZE)
    {
        bytes[at] = ChecksumType::NoChecksum as u8;
    }
    if let Err(error) = read_table(&bytes, flags) {
        check(&error);
    }
}

fn read_table(bytes: &[u8], flags: u8) -> firn_error::Result<()> {
    let fs = MemoryFileSystem::new();
    let path = Path::new("/table.sst");
    write_file(&fs as &dyn FileSystem, path, bytes, false)?;
    let open = |comparator| {
        let file = fs.new_random_access_file(path, &FileOptions::default())?;
        let table = BlockBasedTableOptions {
            filter_policy: (flags & 2 != 0).then(|| FilterPolicy::bloom(10.0)),
            ..Default::default()
        };
        let options = TableReaderOptions {
            comparator,
            table,
            prefix_extractor: (flags & 4 != 0).then(|| Arc::new(FixedPrefix::new(3)) as _),
            largest_sequence: (flags & 8 != 0).then_some(5),
            ..Default::default()
        };
        TableReader::open(file, bytes.len() as u64, options)
    };
    let mut table = open(InternalKeyComparator::default())?;
    if table.properties().comparator == "rocksdb.ReverseBytewiseComparator" {
        table = open(InternalKeyComparator::new(Arc::new(ReverseBytewiseComparator)))?;
    }
    let table = Arc::new(table);
    let options = TableReadOptions { total_order_seek: flags & 16 != 0, ..TableReadOptions::default() };
    let mut sought = vec![InternalKey::for_seek(b"k", SequenceNumber::MAX).encoded().to_vec()];
    let mut iterator = table.iter(&options);
    let mut steps = 0;
    iterator.seek_to_first();
    while iterator.valid() && steps < MOST_ENTRIES {
        if parse_internal_key(iterator.key()).is_ok() && (steps < 4 || steps.is_power_of_two()) {
            sought.push(iterator.key().to_vec());
        }
        let _ = iterator.value();
        steps += 1;
        iterator.next();
    }
    let forwards = iterator.status();
    steps = 0;
    iterator.seek_to_last();
    while iterator.valid() && steps < MOST_ENTRIES {
        steps += 1;
        iterator.prev();
    }
    let backwards = iterator.status();
    for key in &sought {
        let _ = table.get(&options, key, &mut Found(0)).inspect_err(check);
        let _ = table.may_contain(&options, key);
        let _ = table.approximate_offset_of(key);
        iterator.seek(key);
        if iterator.valid() {
            iterator.prev();
        }
        iterator.seek_for_prev(key);
        if iterator.valid() {
            iterator.next();
        }
        let _ = iterator.status().inspect_err(check);
    }
    let _ = table.verify_checksums(&options).inspect_err(check);
    let _ = table.anchors(&options).inspect_err(check);
    let _ = table.filter_partitions(&options).inspect_err(check);
    let _ = table.range_tombstones();
    let _ = table.meta_blocks();
    forwards.and(backwards)
}

fn directory_with(fs: &dyn FileSystem, manifest: &[u8]) {
    create_dir_all(fs, Path::new("/db")).unwrap();
    write_file(fs, Path::new("/db/CURRENT"), b"MANIFEST-000005\n", false).unwrap();
    write_file(fs, Path::new("/db/MANIFEST-000005"), manifest, false).unwrap();
}

/// A directory with CURRENT, a MANIFEST, raw or framed here, and an OPTIONS file with its raw bytes.
pub fn manifest(data: &[u8]) {
    let (flags, data) = flags(data);
    let fs = Arc::new(MemoryFileSystem::new());
    if flags & 2 != 0 {
        create_dir_all(&*fs, Path::new("/db")).unwrap();
        write_file(&*fs as &dyn FileSystem, Path::new("/db/CURRENT"), data, false).unwrap();
        write_file(&*fs as &dyn FileSystem, Path::new("/db/OPTIONS-000007"), data, false).unwrap();
        let _ = list_column_families(&*fs, Path::new("/db")).inspect_err(check);
        let _ = load_latest_options(&*fs, Path::new("/db"), &ConfigOptions::default()).inspect_err(check);
        return;
    }
    let bytes = if flags & 1 == 0 { data.to_vec() } else { framed(data, LogFormat::default()) };
    directory_with(&*fs, &bytes);
    // Files that the MANIFEST names are there, so that more than their absence is looked at.
    if flags & 1 != 0 {
        for (_, file) in
            pieces(data).filter_map(|piece| VersionEdit::decode(piece).ok()).flat_map(|edit| edit.new_files)
        {
            let path = Path::new("/db").join(firn_format::filename::table(file.number));
            if file.file_size <= 4096 {
                write_file(&*fs as &dyn FileSystem, &path, &vec![0; file.file_size as usize], false).unwrap();
            }
        }
    }
    let names = list_column_families(&*fs, Path::new("/db")).inspect_err(check).unwrap_or_default();
    let mut families: Vec<_> = names.iter().take(16).map(|name| family(name)).collect();
    if !names.iter().any(|name| name == "default") {
        families.push(family("default"));
    }
    let mode = if flags & 4 == 0 { OpenMode::ReadWrite } else { OpenMode::ReadOnly };
    match VersionSet::recover(VersionSetOptions::new(fs, "/db"), families, mode) {
        Ok((set, _)) => assert!(set.numbers().next() > FileNumber(0)),
        Err(error) => {
            assert!(error.file().is_some() || error.kind() == firn_error::ErrorKind::InvalidArgument, "{error}")
        }
    }
}

/// Column family, key and value.
type Entry = (String, Vec<u8>, Vec<u8>);

thread_local! {
    /// Databases of one thread share background threads; starting some for each would be most of the work.
    static ENV: RefCell<Option<Env>> = const { RefCell::new(None) };
}

/// A database that has a MANIFEST and one or two WALs, opened and read; one input in eight also writes to it, and some of
/// these open it again.
///
/// The input is pieces: a MANIFEST and the WALs as they lie in files, or, with the first flag, the WALs as pieces of
/// pieces that are framed here. An open for writing flushes and writes an OPTIONS file, which takes ten times as long as
/// the recovery before it.
pub fn database(data: &[u8]) {
    let (flags, data) = flags(data);
    let env = ENV.with_borrow_mut(|env| env.get_or_insert_with(Env::memory).clone());
    let fs = Arc::new(MemoryFileSystem::new());
    let env = Env::with_file_system(fs.clone()).with_pools(env.pools().clone());
    let mut parts = pieces(data);
    directory_with(&*fs, parts.next().unwrap_or_default());
    for (number, part) in (LOG_NUMBER..).zip(parts.take(2)) {
        let format = LogFormat { log_number: number, ..Default::default() };
        let log = if flags & 1 == 0 { part.to_vec() } else { framed(part, format) };
        let path = Path::new("/db").join(firn_format::filename::wal(FileNumber(number)));
        write_file(&*fs as &dyn FileSystem, &path, &log, false).unwrap();
    }
    let options = DbOptions {
        env,
        wal_recovery_mode: match flags >> 1 & 3 {
            0 => WalRecoveryMode::PointInTimeRecovery,
            1 => WalRecoveryMode::AbsoluteConsistency,
            2 => WalRecoveryMode::TolerateCorruptedTailRecords,
            _ => WalRecoveryMode::SkipAnyCorruptedRecords,
        },
        max_background_jobs: 1,
        info_log: Some(Arc::new(NullLogger)),
        ..DbOptions::default()
    };
    let Ok(names) = Db::list_column_families("/db", &options).inspect_err(check) else { return };
    let families = || {
        let family = ColumnFamilyOptions { write_buffer_size: 64 << 10, ..ColumnFamilyOptions::default() };
        names.iter().take(8).map(|name| ColumnFamilyDescriptor::new(name.clone(), family.clone())).collect::<Vec<_>>()
    };
    let scan = |db: &Db| -> firndb::Result<Vec<Entry>> {
        let mut seen = Vec::new();
        for cf in db.column_families() {
            let mut cursor = db.cursor(&ReadOptions::default(), &cf)?;
            cursor.seek_to_first();
            while cursor.valid() && seen.len() < MOST_ENTRIES {
                seen.push((cf.name().to_owned(), cursor.key().to_vec(), cursor.value().to_vec()));
                cursor.next();
            }
            cursor.status()?;
        }
        Ok(seen)
    };
    let Ok(read_only) = Db::open_cf_read_only("/db", options.clone(), families()) else { return };
    let before = scan(&read_only);
    drop(read_only);
    if !rarely(data, 8) {
        return;
    }
    let Ok(db) = Db::open_cf("/db", options.clone(), families()) else { return };
    if let (Ok(before), Ok(now)) = (before, scan(&db)) {
        assert!(before == now, "a read-only and a read-write open differ: {before:?} and {now:?}");
    }
    if flags & 8 != 0 && db.put("written after", "the recovery").is_ok() {
        db.close().unwrap();
        let db = Db::open_cf("/db", options, families()).expect("what was just recovered and written opens again");
        assert_eq!(db.get("written after").unwrap().as_deref(), Some(b"the recovery".as_slice()));
    }
}
