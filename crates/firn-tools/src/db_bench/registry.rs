//! The names of all benchmarks: what each runs, and how it changes the settings.

use super::bench_flags::BenchFlags;
use super::harness::Method;
use super::meta::Meta;
use super::setup::Setup;
use super::values::SizeDistribution;
use super::{compute, meta, mixed, mixgraph, operands, reads, timeseries, writes};

/// What a name stands for.
#[derive(Clone, Copy)]
pub enum Action {
    /// A method for all threads, with a result line.
    Measure(Method),
    /// An operation of the main thread, without one.
    Meta(Meta),
    /// Known, but Firn lacks the feature.
    Unsupported(&'static str),
    /// Known, but the flags exclude it; the text follows `skipped (`.
    Skip(&'static str),
}

/// Finds the benchmark called `setup.name` and adapts the settings to it; `None` when there is none of that name.
pub fn find(setup: &mut Setup, flags: &BenchFlags) -> Option<Action> {
    let name = setup.name.clone();
    let action = match name.as_str() {
        "fillseq" => fresh(setup, writes::write_sequential),
        "fillbatch" => {
            setup.batch_size = 1000;
            fresh(setup, writes::write_sequential)
        }
        "fillrandom" => fresh(setup, writes::write_random),
        "filluniquerandom" | "fillanddeleteuniquerandom" => {
            if setup.threads > 1 {
                eprintln!("filluniquerandom and fillanddeleteuniquerandom multithreaded not supported, use 1 thread");
                setup.threads = 1;
            }
            fresh(setup, writes::write_unique_random)
        }
        "overwrite" => Action::Measure(writes::write_random),
        "fillsync" => {
            setup.sync = true;
            setup.num = (setup.num / 1000).max(1);
            fresh(setup, writes::write_random)
        }
        "fill100K" => {
            setup.num = (setup.num / 1000).max(1);
            setup.sizes = SizeDistribution::Fixed(100_000);
            fresh(setup, writes::write_random)
        }
        "deleteseq" => Action::Measure(writes::delete_sequential),
        "deleterandom" => Action::Measure(writes::delete_random),
        "readseq" => Action::Measure(reads::read_sequential),
        "readreverse" => Action::Measure(reads::read_reverse),
        "readtocache" => {
            setup.threads = 1;
            setup.reads = u64::try_from(flags.num).unwrap_or(0);
            Action::Measure(reads::read_sequential)
        }
        "readtorowcache" if !flags.use_existing_keys || flags.row_cache_size == 0 => {
            Action::Skip("it needs --use_existing_keys and --row_cache_size")
        }
        "readtorowcache" => {
            setup.threads = 1;
            Action::Measure(reads::read_to_row_cache)
        }
        "readrandom" => Action::Measure(reads::read_random),
        "readhot" => Action::Measure(reads::read_hot),
        "readmissing" => {
            setup.keys.key_size += 1;
            Action::Measure(reads::read_random)
        }
        "readrandomsmall" => {
            setup.reads /= 1000;
            Action::Measure(reads::read_random)
        }
        "readrandomfast" => Action::Measure(reads::read_random_fast),
        "multireadrandom" => Action::Measure(reads::multi_read_random),
        "seekrandom" => Action::Measure(reads::seek_random),
        "newiterator" => Action::Measure(reads::new_iterator),
        "multiscan" => Action::Measure(reads::multi_scan),
        "approximatesizerandom" => Action::Measure(reads::approximate_size_random),
        "fillseekseq" => Action::Measure(reads::fill_seek_sequential),
        "verifychecksum" => Action::Measure(reads::verify_checksum),
        "verifyfilechecksums" => Action::Measure(reads::verify_file_checksums),
        "readwhilewriting" => beside(setup, false, mixed::read_while_writing),
        "multireadwhilewriting" => beside(setup, false, mixed::multi_read_while_writing),
        "seekrandomwhilewriting" => beside(setup, false, mixed::seek_random_while_writing),
        "newiteratorwhilewriting" => beside(setup, false, mixed::new_iterator_while_writing),
        "readwhilemerging" => merging(flags, beside(setup, true, mixed::read_while_writing)),
        "seekrandomwhilemerging" => merging(flags, beside(setup, true, mixed::seek_random_while_writing)),
        "readwhilescanning" => beside(setup, false, mixed::read_while_scanning),
        "readrandomwriterandom" => Action::Measure(mixed::read_random_write_random),
        "updaterandom" => Action::Measure(mixed::update_random),
        "xorupdaterandom" => Action::Measure(mixed::xor_update_random),
        "appendrandom" => Action::Measure(mixed::append_random),
        "mergerandom" => merging(flags, Action::Measure(mixed::merge_random)),
        "readrandommergerandom" => merging(flags, Action::Measure(mixed::read_random_merge_random)),
        "randomwithverify" => Action::Measure(mixed::random_with_verify),
        "randomreplacekeys" => fresh(setup, mixed::random_replace_keys),
        "mixgraph" => Action::Measure(mixgraph::mix_graph),
        "crc32c" => Action::Measure(compute::crc32c),
        "xxhash" => Action::Measure(compute::xxhash),
        "xxhash64" => Action::Measure(compute::xxhash64),
        "xxh3" => Action::Measure(compute::xxh3),
        "compress" => Action::Measure(compute::compress),
        "uncompress" => Action::Measure(compute::uncompress),
        "acquireload" => Action::Measure(compute::acquire_load),
        "compact" => Action::Measure(meta::compact),
        "compactall" => Action::Meta(meta::compact_all),
        "compact0" => Action::Meta(meta::compact_level_0),
        "compact1" => Action::Meta(meta::compact_level_1),
        "flush" => Action::Meta(meta::flush),
        "waitforcompaction" => Action::Meta(meta::wait_for_compaction),
        "stats" => Action::Meta(|bench| meta::print_property(bench, "rocksdb.stats")),
        "levelstats" => Action::Meta(|bench| meta::print_property(bench, "rocksdb.levelstats")),
        "sstables" => Action::Meta(|bench| meta::print_property(bench, "rocksdb.sstables")),
        "block_cache_entry_stats" => {
            Action::Meta(|bench| meta::print_property(bench, "rocksdb.block-cache-entry-stats"))
        }
        "memstats" => Action::Meta(meta::memory_stats),
        "resetstats" => Action::Meta(meta::reset_stats),
        "cache_report_problems" => Action::Meta(|_| Ok(())),
        "fillseqdeterministic" | "filluniquerandomdeterministic" => {
            Action::Unsupported("building a given shape of the tree")
        }
        "randomtransaction" => Action::Unsupported("transactions"),
        "timeseries" if flags.expire_style == "compaction_filter" => Action::Unsupported("compaction filters by flag"),
        "timeseries" => fresh(setup, timeseries::time_series),
        "getmergeoperands" if flags.merge_operator != operands::SORT_LIST => {
            Action::Skip("it needs --merge_operator=sortlist")
        }
        "getmergeoperands" => Action::Measure(operands::get_merge_operands),
        "readrandomoperands" => Action::Measure(reads::read_random_operands),
        "backup" | "restore" => Action::Unsupported("backups"),
        "openandcompact" => Action::Unsupported("remote compaction"),
        "multiscanrandom" => Action::Unsupported("multi-range scans"),
        "approximatememtablestats" => Action::Unsupported("approximate memtable statistics"),
        "readrandomentity" | "multireadentity" | "fillembeddedentity" | "fillembeddedblob" => {
            Action::Unsupported("wide-column entities")
        }
        "readrandomcoroutine" | "multireadrandomcoroutine" => Action::Unsupported("asynchronous reads"),
        "ingestexternalfile" => Action::Unsupported("ingestion"),
        "compressreject" => Action::Unsupported("compression with an output limit"),
        "replay" => Action::Unsupported("workload traces"),
        "stats_history" => Action::Unsupported("statistics history"),
        "verify" => Action::Unsupported("verification against another database"),
        "heapprofile" => Action::Unsupported("heap profiles"),
        _ => return None,
    };
    Some(action)
}

fn fresh(setup: &mut Setup, method: Method) -> Action {
    setup.fresh = true;
    Action::Measure(method)
}

/// One more thread runs in the background.
fn beside(setup: &mut Setup, merges: bool, method: Method) -> Action {
    setup.background = true;
    setup.background_merges = merges;
    Action::Measure(method)
}

fn merging(flags: &BenchFlags, action: Action) -> Action {
    if flags.merge_operator.is_empty() { Action::Skip("--merge_operator is unknown") } else { action }
}

#[cfg(test)]
mod tests {
    use super::super::bench_flags::DEFAULT_BENCHMARKS;
    use super::*;

    #[test]
    fn every_name_of_the_default_list_is_known() {
        let flags = BenchFlags::default();
        for name in DEFAULT_BENCHMARKS.split(',') {
            assert!(find(&mut Setup::new(name, &flags), &flags).is_some(), "{name}");
        }
        assert!(find(&mut Setup::new("nonsense", &flags), &flags).is_none());
    }

    #[test]
    fn small_benchmarks_shrink_the_key_space_but_not_the_writes() {
        let flags = BenchFlags { num: 5000, ..Default::default() };
        let mut setup = Setup::new("fillsync", &flags);
        find(&mut setup, &flags);
        assert_eq!((setup.num, setup.writes, setup.sync, setup.fresh), (5, 5000, true, true));
    }
}
