//! Bodies of the fuzz targets, as plain functions of bytes.
//!
//! Any bytes flow in; nothing flows out: a target panics when what it exercises breaks a promise, and a fuzzer, or the
//! replay in `tests/replay.rs`, notices. Beside "no panic, no endless loop, no memory that the input merely asks for",
//! targets check what must hold for *every* input: what was decoded encodes to something that decodes to the same, a
//! walk backwards ends, what was built reads back. [`TARGETS`] lists them; `fuzz/` holds one libFuzzer program for each
//! and the inputs that once failed, [`seeds`] makes the first inputs from the golden databases.
//!
//! Always true here: a target is a pure function of its input, so that one file replays a failure.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a target fails by panicking")]

pub mod blocks;
pub mod codecs;
pub mod files;
pub mod hostile;
pub mod input;
pub mod logs;
pub mod mutate;
pub mod round_trip;
pub mod seeds;
pub mod text;

use seeds::{Golden, Seeds};

/// One fuzz target.
#[derive(Clone, Copy)]
pub struct Target {
    /// The name: of the program in `fuzz/fuzz_targets`, of the corpus and of the folder of regressions.
    pub name: &'static str,
    /// Runs one input; panics on a failure.
    pub run: fn(&[u8]),
    /// The first inputs.
    pub seeds: fn(&Golden) -> Seeds,
}

macro_rules! targets {
    ($($name:ident: $module:ident, $seeds:ident;)*) => {
        /// All targets.
        pub const TARGETS: &[Target] = &[
            $(Target { name: stringify!($name), run: $module::$name, seeds: seeds::$seeds },)*
        ];
    };
}

targets! {
    varint: codecs, numbers;
    keys: codecs, keys;
    footer: codecs, footers;
    properties: codecs, properties;
    filter: codecs, filters;
    decompress: codecs, compressed;
    seqno_time: codecs, seqno_times;
    unique_id: codecs, ids;
    version_edit: codecs, edits;
    write_batch: codecs, batches;
    data_block: blocks, data_blocks;
    index_block: blocks, index_blocks;
    log: logs, logs;
    log_fragments: logs, fragments;
    manifest_fold: logs, edit_lists;
    wal_replay: logs, wals;
    options_file: text, options_files;
    option_strings: text, option_strings;
    file_names: text, file_names;
    table: files, tables;
    manifest: files, manifests;
    database: files, databases;
    batch_round_trip: round_trip, noise;
    block_round_trip: round_trip, noise;
    index_round_trip: round_trip, noise;
    table_round_trip: round_trip, noise;
    log_round_trip: round_trip, noise;
    filter_round_trip: round_trip, noise;
    compression_round_trip: round_trip, noise;
    tombstones_round_trip: round_trip, noise;
}

/// The target called `name`.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
