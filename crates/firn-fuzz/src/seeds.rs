//! First inputs: what the golden databases hold, taken apart into the form that each target reads.
//!
//! Golden files flow in, inputs flow out; the same files give the same inputs.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use firn_env::memory::MemoryFileSystem;
use firn_env::posix::PosixFileSystem;
use firn_env::{FileOptions, FileSystem, read_file, write_file};
use firn_format::batch;
use firn_format::compression::{CompressionType, SizeFormat, decompress_to_vec};
use firn_format::filename::{self, FileKind};
use firn_format::filter::{FilterContext, FilterPolicy, PolicyKind};
use firn_format::index::BlockHandle;
use firn_format::iterator::InternalIterator;
use firn_format::key::SequenceNumber;
use firn_format::log::{LogFormat, LogReader, RecoveryMode, SliceSource};
use firn_format::varint::{put_fixed64, put_length_prefixed, put_varint64};
use firn_format::version_edit::VersionEdit;
use firn_table::{TableReadOptions, TableReader, TableReaderOptions};
use firndb::WriteBatch;
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::input::join_pieces;
use crate::logs::{LOG_NUMBER, framed};
use crate::round_trip::table_bytes;

/// First inputs of a target.
pub type Seeds = Vec<Vec<u8>>;

/// Greater inputs slow a fuzzer down more than they teach it.
const MOST_BYTES: usize = 8 << 10;

/// Golden files hold much of the same; so many of a kind are enough.
const MOST_SEEDS: usize = 400;

/// A golden table with the properties that say what its blocks are.
struct GoldenTable {
    bytes: Vec<u8>,
    reader: Arc<TableReader>,
}

/// The golden files by kind.
#[derive(Default)]
pub struct Golden {
    tables: Vec<GoldenTable>,
    wals: Vec<Vec<u8>>,
    manifests: Vec<Vec<u8>>,
    options: Vec<Vec<u8>>,
    names: BTreeSet<String>,
}

impl Golden {
    /// Reads the golden databases.
    pub fn load() -> Self {
        let fs = PosixFileSystem::new();
        let mut golden = Self::default();
        for directory in firndb_testing::golden_databases() {
            let Ok(mut names) = fs.children(&directory) else { continue };
            names.sort();
            for name in names {
                let Ok(bytes) = read_file(&fs, &directory.join(&name), 1 << 20) else { continue };
                golden.add(&name, bytes);
            }
        }
        golden
    }

    fn add(&mut self, name: &str, bytes: Vec<u8>) {
        match filename::parse(name).map(|parsed| parsed.kind) {
            Some(FileKind::Table) => {
                if let Some(reader) = open_table(&bytes) {
                    self.tables.push(GoldenTable { bytes, reader });
                }
            }
            Some(FileKind::Wal) => self.wals.push(bytes),
            Some(FileKind::Manifest) => self.manifests.push(bytes),
            Some(FileKind::Options) => self.options.push(bytes),
            _ => {}
        }
        self.names.insert(name.to_owned());
    }

    fn batches(&self) -> Seeds {
        let mut batches: Seeds = self.wals.iter().flat_map(|log| records(log)).collect();
        let mut batch = WriteBatch::new();
        for n in 0..3 {
            batch.put_cf(n, b"key", b"value").unwrap();
            batch.delete_range_cf(n, b"a", b"b").unwrap();
        }
        batches.push(batch.data().to_vec());
        tidy(batches)
    }

    fn edits(&self) -> Seeds {
        let mut edits: Seeds = self.manifests.iter().flat_map(|log| records(log)).collect();
        let first = VersionEdit {
            log_number: Some(firn_format::key::FileNumber(0)),
            next_file_number: Some(firn_format::key::FileNumber(9)),
            last_sequence: Some(SequenceNumber(0)),
            ..VersionEdit::default()
        };
        edits.extend(first.encode());
        tidy(edits)
    }

    /// Every block of the tables that the index or the metaindex names, as it is stored.
    fn blocks(&self) -> impl Iterator<Item = (&GoldenTable, String, u8, &[u8])> {
        self.tables.iter().flat_map(|table| {
            let meta = table.reader.meta_blocks().into_iter();
            let meta = meta.map(|(name, handle)| (String::from_utf8_lossy(&name).into_owned(), handle));
            let index = table.reader.footer().index.into_iter().map(|handle| ("rocksdb.index".to_owned(), handle));
            let mut data = Vec::new();
            let _ = table.reader.index_entries(&TableReadOptions::default(), &mut |_, handle| {
                data.push(("data".to_owned(), handle));
                data.len() < 2
            });
            meta.chain(index).chain(data).filter_map(move |(name, handle)| {
                let (kind, payload) = stored(&table.bytes, handle)?;
                Some((table, name, kind, payload))
            })
        })
    }

    fn raw_blocks(&self, wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = (&GoldenTable, Vec<u8>)> {
        self.blocks().filter(move |(_, name, ..)| wanted(name)).filter_map(|(table, _, kind, payload)| {
            let format = SizeFormat::of_table(table.reader.footer().format_version);
            let kind = CompressionType::from_u8(kind).ok()?;
            Some((table, decompress_to_vec(kind, format, None, payload, 1 << 20).ok()?))
        })
    }
}

fn open_table(bytes: &[u8]) -> Option<Arc<TableReader>> {
    let fs = MemoryFileSystem::new();
    let path = Path::new("/table.sst");
    write_file(&fs as &dyn FileSystem, path, bytes, false).ok()?;
    let file = fs.new_random_access_file(path, &FileOptions::default()).ok()?;
    TableReader::open(file, bytes.len() as u64, TableReaderOptions::default()).ok().map(Arc::new)
}

fn stored(bytes: &[u8], handle: BlockHandle) -> Option<(u8, &[u8])> {
    let (start, size) = (usize::try_from(handle.offset).ok()?, usize::try_from(handle.size).ok()?);
    let (payload, trailer) = bytes.get(start..)?.split_at_checked(size)?;
    Some((*trailer.first()?, payload))
}

fn records(log: &[u8]) -> Seeds {
    let mut reader = LogReader::new(SliceSource(log), 0, RecoveryMode::SkipAnyCorruptedRecords);
    let mut records = Seeds::new();
    while let Ok(true) = reader.advance() {
        let _ = reader.take_report();
        records.push(reader.record().to_vec());
    }
    records
}

/// Drops what is too long or there already, and of too many takes some from everywhere.
fn tidy(seeds: impl IntoIterator<Item = Vec<u8>>) -> Seeds {
    let unique: BTreeSet<Vec<u8>> = seeds.into_iter().filter(|seed| seed.len() <= MOST_BYTES).collect();
    let step = unique.len().div_ceil(MOST_SEEDS).max(1);
    unique.into_iter().step_by(step).collect()
}

fn with_flags(flags: &[u8], seeds: impl IntoIterator<Item = Vec<u8>>) -> Seeds {
    let seeds = seeds.into_iter().zip(flags.iter().cycle());
    tidy(seeds.map(|(seed, flags)| [&[*flags], seed.as_slice()].concat()))
}

/// Lists of up to eight neighbours, each list as pieces.
fn lists(seeds: &[Vec<u8>]) -> Seeds {
    seeds.chunks(8).map(|chunk| join_pieces(chunk.iter().map(Vec::as_slice))).collect()
}

/// For targets that take decisions from their input: noise of several lengths, the same every time.
pub fn noise(_: &Golden) -> Seeds {
    let mut random = StdRng::seed_from_u64(1);
    (0..40)
        .map(|n| {
            let mut seed = vec![0; 16 << (n % 7)];
            random.fill(seed.as_mut_slice());
            // Small numbers, so that lengths and choices are not all extreme.
            seed.iter_mut().skip(n % 3).step_by(2).for_each(|byte| *byte %= 24);
            seed
        })
        .collect()
}

/// Numbers of every length.
pub fn numbers(_: &Golden) -> Seeds {
    let values = [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX];
    let varints = values.iter().map(|&value| {
        let mut out = Vec::new();
        put_varint64(&mut out, value);
        put_varint64(&mut out, !value);
        out
    });
    let mut prefixed = Vec::new();
    put_length_prefixed(&mut prefixed, b"prefixed");
    tidy(varints.chain([prefixed, b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02".to_vec()]))
}

/// Neighbouring keys.
pub fn keys(golden: &Golden) -> Seeds {
    let lists = golden.tables.iter().map(|table| {
        let mut iterator = table.reader.iter(&TableReadOptions::default());
        iterator.seek_to_first();
        let mut keys = Vec::new();
        while iterator.valid() && keys.len() < 6 {
            keys.push(iterator.key().to_vec());
            iterator.next();
        }
        join_pieces(keys.iter().map(Vec::as_slice))
    });
    with_flags(&[0, 1], tidy(lists))
}

/// The last bytes of tables, after the size of the file.
pub fn footers(golden: &Golden) -> Seeds {
    tidy(golden.tables.iter().map(|table| {
        let mut seed = Vec::new();
        put_fixed64(&mut seed, table.bytes.len() as u64);
        seed.extend_from_slice(&table.bytes[table.bytes.len().saturating_sub(53)..]);
        seed
    }))
}

/// Properties blocks.
pub fn properties(golden: &Golden) -> Seeds {
    tidy(golden.raw_blocks(|name| name == "rocksdb.properties").map(|(_, block)| block))
}

/// Filters, those of all policies made up too.
pub fn filters(golden: &Golden) -> Seeds {
    let mut filters: Seeds =
        golden.raw_blocks(|name| name.starts_with("fullfilter.")).map(|(_, block)| block).collect();
    for kind in [PolicyKind::Bloom, PolicyKind::LegacyBloom, PolicyKind::Standard128Ribbon] {
        for count in [1, 50, 400] {
            let Some(mut builder) = FilterPolicy::new(kind, 10.0).builder(&FilterContext::default()) else { continue };
            (0..count).for_each(|n| builder.add(format!("key{n:05}").as_bytes()));
            filters.extend(builder.finish());
        }
    }
    tidy(filters)
}

/// Payloads as tables store them, after type, flags and the length of a dictionary.
pub fn compressed(golden: &Golden) -> Seeds {
    tidy(golden.blocks().filter(|(_, _, kind, _)| *kind != 0).map(|(table, _, kind, payload)| {
        let v1 = SizeFormat::of_table(table.reader.footer().format_version) == SizeFormat::V1;
        [&[kind, u8::from(v1), 0], payload].concat()
    }))
}

/// Mappings of sequence numbers to times.
pub fn seqno_times(golden: &Golden) -> Seeds {
    let mut made_up = firn_format::seqno_time::SeqnoToTimeMapping::new();
    for n in 1..20 {
        made_up.append(SequenceNumber(n * 100), n * 60, 100);
    }
    let found = golden.tables.iter().map(|table| table.reader.properties().seqno_to_time_mapping.clone());
    tidy(found.chain([made_up.encode()]))
}

/// Ids of sessions and files.
pub fn ids(golden: &Golden) -> Seeds {
    let found = golden.tables.iter().map(|table| table.reader.properties().db_session_id.clone().into_bytes());
    tidy(found.chain([b"ABCDEFGHIJKLMNOPQRST".to_vec(), (0..16).collect()]))
}

/// Records of MANIFESTs.
pub fn edits(golden: &Golden) -> Seeds {
    golden.edits()
}

/// Records of WALs.
pub fn batches(golden: &Golden) -> Seeds {
    golden.batches()
}

/// Data blocks after some moves.
pub fn data_blocks(golden: &Golden) -> Seeds {
    let moves: Vec<u8> = [16].into_iter().chain((0..16u8).map(|n| n.wrapping_mul(83))).collect();
    tidy(
        golden
            .raw_blocks(|name| name == "data" || name == "rocksdb.range_del")
            .map(|(_, block)| [&moves, &*block].concat()),
    )
}

/// Index blocks after their format.
pub fn index_blocks(golden: &Golden) -> Seeds {
    tidy(golden.raw_blocks(|name| name == "rocksdb.index").map(|(table, block)| {
        let properties = table.reader.properties();
        let format = u8::from(properties.index_key_is_user_key != 0)
            | u8::from(properties.index_value_is_delta_encoded != 0) << 1
            | u8::from(properties.index_type() == Some(3)) << 2;
        [&[format], &*block].concat()
    }))
}

/// Logs as they lie in files.
pub fn logs(golden: &Golden) -> Seeds {
    with_flags(&[0, 1, 2, 3], golden.wals.iter().chain(&golden.manifests).cloned())
}

/// Fragments.
pub fn fragments(golden: &Golden) -> Seeds {
    let lists = golden
        .batches()
        .chunks(4)
        .map(|chunk| {
            let kinds = [[1, 1, 1, 1], [2, 3, 3, 4], [5, 5, 5, 5], [6, 7, 7, 8]][chunk[0].len() % 4];
            let fragments: Seeds = chunk.iter().zip(kinds).map(|(batch, kind)| [&[kind], &**batch].concat()).collect();
            join_pieces(fragments.iter().map(Vec::as_slice))
        })
        .collect::<Seeds>();
    let special: [&[u8]; 5] =
        [b"\x09\x07\x00\x00\x00", b"\x0a\x01\x00\x00\x00\x08\x00", b"", b"\x82\x01\x01\x01", b"\x01record"];
    with_flags(&[0, 1, 2, 3], lists.into_iter().chain([join_pieces(special)]))
}

/// Lists of MANIFEST records.
pub fn edit_lists(golden: &Golden) -> Seeds {
    let whole = golden.manifests.iter().map(|log| join_pieces(records(log).iter().map(Vec::as_slice)));
    with_flags(&[0, 1], whole.chain(lists(&golden.edits())))
}

/// WALs, raw and as pieces.
pub fn wals(golden: &Golden) -> Seeds {
    let raw = with_flags(&[8, 9, 10, 11], golden.wals.iter().cloned());
    let pieces = with_flags(&[72, 73, 74, 75, 106, 78], lists(&golden.batches()));
    raw.into_iter().chain(pieces).collect()
}

/// OPTIONS files.
pub fn options_files(golden: &Golden) -> Seeds {
    let shorter = golden.options.iter().map(|text| text[..text.len() / 3].to_vec());
    with_flags(&[2, 3], tidy(golden.options.iter().cloned().chain(shorter)))
}

/// Lines of OPTIONS files, alone and together.
pub fn option_strings(golden: &Golden) -> Seeds {
    let lines: BTreeSet<Vec<u8>> = golden
        .options
        .iter()
        .flat_map(|text| text.split(|byte| *byte == b'\n'))
        .filter(|line| line.contains(&b'='))
        .map(|line| line.trim_ascii().to_vec())
        .collect();
    let lines: Seeds = lines.into_iter().collect();
    let together = lines.chunks(12).map(|chunk| chunk.join(b";".as_slice())).collect::<Seeds>();
    let values = lines.iter().filter_map(|line| line.splitn(2, |byte| *byte == b'=').nth(1)).map(<[u8]>::to_vec);
    with_flags(&[6, 2, 14], values.chain(lines.clone()).chain(together))
}

/// Names of files.
pub fn file_names(golden: &Golden) -> Seeds {
    let known = ["LOG.old.1700000000000000", "archive/000003.log", "000012.sst.trash", "METADB-7", "000009.dbtmp"];
    tidy(golden.names.iter().map(String::as_str).chain(known).map(|name| name.as_bytes().to_vec()))
}

/// Small tables in many layouts, and the golden ones that are small.
pub fn tables(golden: &Golden) -> Seeds {
    let mut random = StdRng::seed_from_u64(2);
    let made_up = (0..120).filter_map(|n| {
        let mut wish = vec![0; 60 + n];
        random.fill(wish.as_mut_slice());
        wish.iter_mut().skip(36).for_each(|byte| *byte %= 16);
        table_bytes(&wish)
    });
    let made_up: Seeds = made_up.filter(|table| table.len() < 3000).collect();
    let found = golden.tables.iter().map(|table| table.bytes.clone()).filter(|table| table.len() < 4096);
    with_flags(&[1, 0, 3, 7, 19, 11], made_up.into_iter().chain(found))
}

/// MANIFESTs, raw and framed, and files that name or describe them.
pub fn manifests(golden: &Golden) -> Seeds {
    let raw = with_flags(&[0, 4], golden.manifests.iter().cloned());
    let lists = golden.manifests.iter().map(|log| join_pieces(records(log).iter().map(Vec::as_slice)));
    let framed = with_flags(&[1, 5], lists);
    let small = golden.options.iter().take(3).cloned().chain([b"MANIFEST-000005\n".to_vec()]);
    raw.into_iter().chain(framed).chain(with_flags(&[2], small)).collect()
}

/// Databases that have nothing but WALs.
pub fn databases(golden: &Golden) -> Seeds {
    let fs = MemoryFileSystem::new();
    let directory = Path::new("/db");
    firn_env::create_dir_all(&fs, directory).unwrap();
    firndb::version::create_database(&fs, directory, None).unwrap();
    let path = directory.join(filename::manifest(firn_format::key::FileNumber(1)));
    let manifest = read_file(&fs, &path, 1 << 20).unwrap();
    let lists = lists(&tidy(golden.batches().into_iter().map(|mut record| {
        // All in one sequence, so that logs follow each other.
        batch::set_sequence(&mut record, SequenceNumber(1));
        record
    })));
    let format = LogFormat { log_number: LOG_NUMBER, ..LogFormat::default() };
    let as_pieces = lists.iter().map(|list| join_pieces([manifest.as_slice(), list]));
    let raw = lists.iter().map(|list| join_pieces([manifest.as_slice(), &framed(list, format)]));
    let as_pieces = with_flags(&[1, 9, 11, 13, 15], as_pieces);
    as_pieces.into_iter().chain(with_flags(&[0, 8], raw)).collect()
}
