//! MANIFESTs and WALs taken apart into records, changed, and framed again with checksums that match.

use firn_format::batch::{self, BatchIter, PrepareKind, Record};
use firn_format::checksum::{crc32c, mask_crc32c};
use firn_format::key::{FileNumber, SequenceNumber};
use firn_format::log::{BLOCK_SIZE, HEADER_SIZE, LogEncoder, LogFormat, LogReader, RecoveryMode, SliceSource};
use firn_format::version_edit::{EditDialect, VersionEdit, WalAddition};

use super::numbers::Dice;

/// The records of a log.
pub(super) fn records(log: &[u8], number: u64) -> Vec<Vec<u8>> {
    let mut reader = LogReader::new(SliceSource(log), number, RecoveryMode::SkipAnyCorruptedRecords);
    let mut records = Vec::new();
    while let Ok(true) = reader.advance() {
        records.push(reader.record().to_vec());
    }
    records
}

/// The records as a log, as the engine writes it.
pub(super) fn framed(records: &[Vec<u8>], format: LogFormat) -> Vec<u8> {
    let mut log = Vec::new();
    let Ok(mut encoder) = LogEncoder::new(format) else { return log };
    encoder.start(&mut log);
    for record in records {
        if encoder.append_record(&mut log, record).is_err() {
            break;
        }
    }
    log
}

/// The records as a log whose fragments have other types, orders or lengths than an engine writes.
fn framed_oddly(records: &[Vec<u8>], number: u64, dice: &mut Dice) -> Vec<u8> {
    let mut fragments = Vec::new();
    for record in records {
        let pieces = 1 + dice.below(4);
        let length = record.len().div_ceil(pieces).clamp(1, BLOCK_SIZE / 2);
        let count = record.len().div_ceil(length).max(1);
        for at in 0..count {
            let kind = match (at, count) {
                (0, 1) => 1,
                (0, _) => 2,
                (at, count) if at + 1 == count => 4,
                _ => 3,
            };
            let piece = record.get(at * length..((at + 1) * length).min(record.len())).unwrap_or_default();
            fragments.push((kind, piece.to_vec()));
        }
    }
    if dice.once_in(2) {
        dice.shuffle(&mut fragments);
    } else if let Some(at) = Some(dice.below(fragments.len())).filter(|at| *at < fragments.len()) {
        fragments[at].0 = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 130, 131, 200, 64][dice.below(16)];
    }
    let mut log: Vec<u8> = Vec::new();
    for (kind, payload) in fragments {
        let header = HEADER_SIZE + if matches!(kind, 5..=8 | 11 | 131) { 4 } else { 0 };
        if BLOCK_SIZE - log.len() % BLOCK_SIZE < header + payload.len() {
            log.resize(log.len().next_multiple_of(BLOCK_SIZE), 0);
        }
        let mut checked = vec![kind];
        if header > HEADER_SIZE {
            let number = if dice.once_in(4) { dice.small(number as u32) } else { number as u32 };
            checked.extend_from_slice(&number.to_le_bytes());
        }
        checked.extend_from_slice(&payload);
        log.extend_from_slice(&mask_crc32c(crc32c(&checked)).to_le_bytes());
        log.extend_from_slice(&(payload.len() as u16).to_le_bytes());
        log.extend_from_slice(&checked);
    }
    log
}

/// Calls `change` with every edit of a MANIFEST and frames what it leaves.
pub(super) fn rewrite_manifest(manifest: &[u8], mut change: impl FnMut(&mut VersionEdit)) -> Vec<u8> {
    let mut all = records(manifest, 0);
    for record in &mut all {
        if let Ok(mut edit) = VersionEdit::decode(record) {
            change(&mut edit);
            if let Ok(encoded) = edit.encode_as(EditDialect::Current) {
                *record = encoded;
            }
        }
    }
    framed(&all, LogFormat::default())
}

/// Changes one thing of a MANIFEST; says what.
pub(super) fn change_manifest(manifest: &[u8], dice: &mut Dice) -> (Vec<u8>, String) {
    let mut all = records(manifest, 0);
    let mut what = String::new();
    match dice.below(10) {
        0 => what = dice.shuffle(&mut all),
        1 => return (framed_oddly(&all, 0, dice), "fragments".into()),
        2 => {
            let at = dice.below(all.len());
            if let Some(record) = all.get_mut(at) {
                *record = dice.scribble(record);
                what = format!("scribbled over record {at}");
            }
        }
        _ => {
            for _ in 0..1 + dice.below(2) {
                let at = dice.below(all.len());
                let Some(record) = all.get_mut(at) else { break };
                let Ok(mut edit) = VersionEdit::decode(record) else { break };
                what += &format!("record {at}: {}; ", change_edit(&mut edit, dice));
                if let Ok(encoded) = edit.encode_as(EditDialect::Current) {
                    *record = encoded;
                }
            }
        }
    }
    (framed(&all, LogFormat::default()), what)
}

fn change_edit(edit: &mut VersionEdit, dice: &mut Dice) -> String {
    let file_number =
        |dice: &mut Dice, old: Option<FileNumber>| Some(FileNumber(dice.number(old.map_or(9, FileNumber::get))));
    match dice.below(20) {
        0 => edit.log_number = file_number(dice, edit.log_number),
        1 => edit.prev_log_number = file_number(dice, edit.prev_log_number),
        2 => edit.next_file_number = file_number(dice, edit.next_file_number),
        3 => edit.min_log_number_to_keep = file_number(dice, edit.min_log_number_to_keep),
        4 => edit.last_sequence = Some(SequenceNumber(dice.number(edit.last_sequence.map_or(50, SequenceNumber::get)))),
        5 => edit.max_column_family = Some(dice.small(edit.max_column_family.unwrap_or(1))),
        6 => edit.column_family = dice.small(edit.column_family),
        7 => edit.column_family_drop = !edit.column_family_drop,
        8 => {
            let names = ["default", "", "one", "two", "a\nb"];
            edit.column_family_add = Some(names[dice.below(names.len())].to_owned());
        }
        9 => edit.remaining_entries = Some(dice.small(1)),
        10 => {
            let names = ["leveldb.BytewiseComparator", "rocksdb.ReverseBytewiseComparator", "", "mine"];
            edit.comparator = Some(names[dice.below(names.len())].to_owned());
        }
        11 => edit.delete_file(dice.small(1) % 70, FileNumber(dice.number(10))),
        12 => {
            let size = if dice.once_in(2) { None } else { Some(dice.number(100)) };
            edit.wal_additions.push(WalAddition { number: FileNumber(dice.number(10)), synced_size_bytes: size });
        }
        13 => edit.wal_deletion = file_number(dice, edit.wal_deletion),
        14 => return format!("new files: {}", dice.shuffle(&mut edit.new_files)),
        _ => {
            let at = dice.below(edit.new_files.len());
            let Some((level, file)) = edit.new_files.get_mut(at) else {
                edit.db_id = Some("another".into());
                return "another db id".into();
            };
            match dice.below(12) {
                0 => *level = if dice.once_in(3) { dice.small(*level) } else { dice.below(8) as u32 },
                1 => file.number = FileNumber(dice.number(file.number.get())),
                2 => file.path_id = dice.small(file.path_id),
                3 => file.file_size = dice.number(file.file_size),
                4 => file.smallest = dice.internal_key(),
                5 => file.largest = dice.internal_key(),
                6 => std::mem::swap(&mut file.smallest, &mut file.largest),
                7 => file.smallest_sequence = SequenceNumber(dice.number(file.smallest_sequence.get())),
                8 => file.largest_sequence = SequenceNumber(dice.number(file.largest_sequence.get())),
                9 => file.epoch_number = dice.number(file.epoch_number),
                10 => file.oldest_blob_file_number = FileNumber(dice.number(3)),
                _ => {
                    file.file_creation_time = dice.number(file.file_creation_time);
                    file.oldest_ancester_time = dice.number(file.oldest_ancester_time);
                    file.marked_for_compaction = true;
                }
            }
            return format!("new file {at}: level {level}, {file:?}");
        }
    }
    format!("{edit:?}")
}

/// Changes one thing of a WAL; says what.
pub(super) fn change_wal(log: &[u8], number: u64, dice: &mut Dice) -> (Vec<u8>, String) {
    let mut all = records(log, number);
    let format = LogFormat { log_number: number, recyclable: dice.once_in(4), ..LogFormat::default() };
    let what = match dice.below(10) {
        0 => dice.shuffle(&mut all),
        1 | 2 => return (framed_oddly(&all, number, dice), "fragments".into()),
        3 => {
            let at = dice.below(all.len());
            match all.get_mut(at) {
                Some(record) => *record = dice.scribble(record),
                None => all.push(vec![0; dice.below(30)]),
            }
            format!("scribbled over record {at}")
        }
        4 => {
            let other = LogFormat { log_number: dice.number(number), recyclable: true, ..format };
            return (framed(&all, other), format!("of log {}", other.log_number));
        }
        _ => {
            if all.is_empty() {
                all.push(batch::header(SequenceNumber(100), 0).to_vec());
            }
            let at = dice.below(all.len());
            format!("batch {at}: {}", change_batch(&mut all[at], dice))
        }
    };
    (framed(&all, format), what)
}

fn change_batch(data: &mut Vec<u8>, dice: &mut Dice) -> String {
    if data.len() < batch::HEADER_SIZE || dice.once_in(4) {
        data.resize(data.len().max(batch::HEADER_SIZE), 0);
        return if dice.once_in(2) {
            let sequence = dice.number(batch::sequence(data).get());
            batch::set_sequence(data, SequenceNumber(sequence));
            format!("sequence {sequence}")
        } else {
            let count = dice.small(batch::count(data));
            batch::set_count(data, count);
            format!("count {count}")
        };
    }
    let sequence = batch::sequence(data);
    // Keys of the batch itself go on in the changed one.
    let old = data.clone();
    let mut all: Vec<Record<'_>> =
        BatchIter::new(&old).map(|walk| walk.map_while(Result::ok).collect()).unwrap_or_default();
    let (key, end, family) = (dice.user_key(), dice.user_key(), dice.small(1));
    let at = dice.below(all.len() + 1);
    let what = match dice.below(16) {
        0..3 => dice.shuffle(&mut all),
        kind => {
            let kinds = [PrepareKind::WriteCommitted, PrepareKind::WritePrepared, PrepareKind::WriteUnprepared];
            let family = if dice.once_in(2) { family } else { dice.below(3) as u32 };
            let record = match kind {
                3 => Record::Put { cf: family, key: &key, value: &end },
                4 => Record::Delete { cf: family, key: &key },
                5 => Record::SingleDelete { cf: family, key: &key },
                6 | 7 => Record::DeleteRange { cf: family, begin: &key, end: &end },
                8 => Record::Merge { cf: family, key: &key, value: &end },
                9 => Record::BlobIndex { cf: family, key: &key, value: &end },
                10 => Record::PutEntity { cf: family, key: &key, value: &end },
                11 => Record::BeginPrepare(kinds[dice.below(kinds.len())]),
                12 => Record::EndPrepare { xid: b"x1" },
                13 => Record::Commit { xid: b"x1" },
                14 => Record::Rollback { xid: b"x1" },
                _ => Record::Noop,
            };
            all.insert(at, record);
            if kind == 11 && dice.once_in(2) {
                all.push(Record::EndPrepare { xid: b"x1" });
            }
            format!("{record:?} before record {at}")
        }
    };
    let counted = all.iter().filter(|record| record.is_counted()).count() as u32;
    let count = if dice.once_in(5) { dice.small(counted) } else { counted };
    *data = batch::header(sequence, count).to_vec();
    for record in &all {
        record.encode(data);
    }
    what
}
