//! Looking many keys up at once: the same step for all of them in a row.
//!
//! A lookup is a chain of cache misses: filter, index, cache, block. One lookup after the other waits for each of them; the
//! same step of many lookups does not depend on each other, so the processor overlaps their misses. Levels are
//! visited as for a single lookup, and a key leaves the batch as soon as its answer is final.

use firn_error::{Error, Result};
use firn_format::key::{SequenceNumber, extract_footer};
use firn_table::{BlockRef, Located, TableReadOptions};

use super::read::{LookupSink, open_policy};
use super::{FileMetaData, TableRef, TableSource, Version};

/// One key of a batch.
pub struct BatchedLookup<'a, S> {
    /// The internal key for seeking at the reader's snapshot.
    pub lookup: &'a [u8],
    /// Takes what is found, and the error that ended the lookup.
    pub sink: S,
    /// The level of the file that ended the lookup.
    pub level: Option<usize>,
}

impl<S: LookupSink> BatchedLookup<'_, S> {
    fn note_level(&mut self, level: usize) {
        if self.level.is_none() && self.sink.is_done() {
            self.level = Some(level);
        }
    }
}

/// A key that has to look into a table.
struct Probe<'t> {
    key: usize,
    index: usize,
    table: TableRef<'t>,
    located: Located,
    block: Option<BlockRef>,
}

impl Version {
    /// Looks for every key of `batch` that is not done yet, as [`get`](Self::get) does for one. Errors go to the sinks.
    pub fn multi_get<S: LookupSink>(
        &self,
        tables: &dyn TableSource,
        options: &TableReadOptions,
        batch: &mut [BatchedLookup<'_, S>],
    ) {
        let mut probes = Vec::with_capacity(batch.len());
        for level in 0..self.num_non_empty_levels() {
            if level == 0 {
                for index in 0..self.files(0).len() {
                    self.choose_level_0(index, tables, options, batch, &mut probes);
                    run_steps(options, batch, &mut probes);
                    for probe in probes.drain(..) {
                        batch[probe.key].note_level(level);
                    }
                }
                continue;
            }
            self.choose(level, tables, options, batch, &mut probes);
            run_steps(options, batch, &mut probes);
            for probe in probes.drain(..) {
                self.continue_level(level, probe.index + 1, tables, options, &mut batch[probe.key]);
                batch[probe.key].note_level(level);
            }
        }
    }

    /// The keys that the file of level 0 at `index` may have.
    fn choose_level_0<'t, S: LookupSink>(
        &'t self,
        index: usize,
        tables: &dyn TableSource,
        options: &TableReadOptions,
        batch: &mut [BatchedLookup<'_, S>],
        probes: &mut Vec<Probe<'t>>,
    ) {
        let (files, Some(search)) = (self.files(0), self.search(0)) else { return };
        let Some(file) = files.get(index) else { return };
        for (key, entry) in batch.iter_mut().enumerate().filter(|(_, entry)| !entry.sink.is_done()) {
            let place = search.place(entry.sink.user_key());
            if search.may_contain(files, index, entry.sink.user_key(), place, self.order()) {
                self.add_probe(key, index, file, tables, options, entry, probes);
            }
        }
    }

    /// For every key the file of a sorted level that may have it.
    fn choose<'t, S: LookupSink>(
        &'t self,
        level: usize,
        tables: &dyn TableSource,
        options: &TableReadOptions,
        batch: &mut [BatchedLookup<'_, S>],
        probes: &mut Vec<Probe<'t>>,
    ) {
        let (files, Some(search)) = (self.files(level), self.search(level)) else { return };
        for (key, entry) in batch.iter_mut().enumerate().filter(|(_, entry)| !entry.sink.is_done()) {
            let place = search.place(entry.sink.user_key());
            let index = search.first_not_before(files, entry.lookup, place, self.order());
            if let Some(file) = self.candidate(level, index, entry.sink.user_key(), place) {
                self.add_probe(key, index, file, tables, options, entry, probes);
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "what two loops share")]
    fn add_probe<'t, S: LookupSink>(
        &self,
        key: usize,
        index: usize,
        file: &'t FileMetaData,
        tables: &dyn TableSource,
        options: &TableReadOptions,
        entry: &mut BatchedLookup<'_, S>,
        probes: &mut Vec<Probe<'t>>,
    ) {
        let table = match file.handle().pinned_table() {
            Some(table) => TableRef::Pinned(table),
            None => match tables.table(file, open_policy(options)) {
                Ok(table) => table,
                Err(error) => return entry.sink.fail(error),
            },
        };
        if let Some(tombstones) = &table.tombstones {
            let snapshot = SequenceNumber(extract_footer(entry.lookup) >> 8);
            entry.sink.cover(tombstones.max_covering_sequence(entry.sink.user_key(), snapshot, self.order()));
        }
        probes.push(Probe { key, index, table, located: Located::Nowhere, block: None });
    }

    /// The next files of a level may go on with the same user key; that is rare enough to be done one by one.
    fn continue_level<S: LookupSink>(
        &self,
        level: usize,
        mut index: usize,
        tables: &dyn TableSource,
        options: &TableReadOptions,
        entry: &mut BatchedLookup<'_, S>,
    ) {
        let Some(search) = self.search(level) else { return };
        while !entry.sink.is_done() {
            let place = search.place(entry.sink.user_key());
            let Some(file) = self.candidate(level, index, entry.sink.user_key(), place) else { return };
            if let Err(error) = self.get_from_file(file, tables, options, entry.lookup, &mut entry.sink) {
                return entry.sink.fail(error);
            }
            index += 1;
        }
    }
}

/// Asks filter, index, cache and block, each for all probes in a row.
fn run_steps<S: LookupSink>(options: &TableReadOptions, batch: &mut [BatchedLookup<'_, S>], probes: &mut [Probe<'_>]) {
    if let [probe] = probes {
        let Some(entry) = batch.get_mut(probe.key) else { return };
        if let Err(error) = probe.table.reader.get(options, entry.lookup, &mut entry.sink) {
            entry.sink.fail(error);
        }
        return;
    }
    // Until it is located a probe counts as partitioned, which the last step takes for "do it at once".
    for probe in probes.iter_mut() {
        let Some(entry) = batch.get(probe.key) else { continue };
        let may_contain = probe.table.reader.may_contain(options, entry.lookup);
        probe.located = if may_contain { Located::Partitioned } else { Located::Nowhere };
    }
    for probe in probes.iter_mut().filter(|probe| probe.located != Located::Nowhere) {
        let Some(entry) = batch.get_mut(probe.key) else { continue };
        settle(probe.table.reader.locate(options, entry.lookup), &mut entry.sink, |located| probe.located = located);
        if let Located::Block { handle, .. } = probe.located {
            probe.table.reader.prefetch_block(handle);
        }
    }
    for probe in probes.iter_mut() {
        let Some(entry) = batch.get_mut(probe.key) else { continue };
        if let Located::Block { handle, .. } = probe.located {
            let loaded = probe.table.reader.load(options, handle);
            settle(loaded, &mut entry.sink, |block| probe.block = Some(block));
        }
    }
    for probe in probes.iter() {
        if let (Some(entry), Some(block)) = (batch.get(probe.key), &probe.block) {
            probe.table.reader.prefetch_entries(block, entry.lookup);
        }
    }
    for probe in probes.iter_mut() {
        let Some(entry) = batch.get_mut(probe.key) else { continue };
        let reader = &probe.table.reader;
        let result = match (probe.located, &probe.block) {
            _ if entry.sink.is_failed() => continue,
            (Located::Block { position, handle }, Some(block)) => {
                reader.get_from(options, entry.lookup, (position, handle), block, &mut entry.sink)
            }
            (Located::Partitioned, _) => reader.get(options, entry.lookup, &mut entry.sink),
            _ => continue,
        };
        settle(result, &mut entry.sink, |()| ());
    }
}

fn settle<T, S: LookupSink>(result: Result<T, Error>, sink: &mut S, then: impl FnOnce(T)) {
    match result {
        Ok(value) => then(value),
        Err(error) => sink.fail(error),
    }
}
