//! What is run with `db_bench` programs: sequences of starts on one database, by name.

/// One start of a program.
pub struct Start {
    /// Benchmarks that share the process, each with its line in the report; those without a line prepare others.
    pub run: &'static [(&'static str, &'static str)],
    pub flags: Flags,
}

/// Flags in groups, later ones before earlier ones where both set the same.
pub type Flags = &'static [&'static [&'static str]];

/// Starts on one database, in order.
pub struct Scenario {
    pub name: &'static str,
    pub about: &'static str,
    pub flags: &'static [&'static str],
    pub starts: &'static [Start],
    /// Part of a run without names.
    pub standard: bool,
}

const fn start(run: &'static [(&'static str, &'static str)], flags: Flags) -> Start {
    Start { run, flags }
}

const EXISTING: &str = "--use_existing_db=1";
const NEXTS: &str = "--seek_nexts=10";
const BATCH: &str = "--batch_size=16";
/// Of the writer beside readers, in bytes a second.
const WRITER_RATE: &str = "--benchmark_write_rate_limit=2000000";

/// The field's sequence. A process begins with an empty cache, which unreported reads fill.
const SEQUENCE: &[Start] = &[
    start(
        &[("fillseq", "fillseq"), ("waitforcompaction", ""), ("readseq", "readseq"), ("readreverse", "readreverse")],
        &[],
    ),
    start(&[("readrandom", ""), ("seekrandom", "revrange")], &[&[EXISTING, NEXTS, "--reverse_iterator=true"]]),
    start(&[("readrandom", ""), ("seekrandom", "fwdrange")], &[&[EXISTING, NEXTS]]),
    start(
        &[("readrandom", ""), ("readrandom", "readrandom"), ("multireadrandom", "multireadrandom")],
        &[&[EXISTING, BATCH]],
    ),
    start(&[("readrandom", ""), ("readwhilewriting", "readwhilewriting")], &[&[EXISTING, WRITER_RATE]]),
    start(
        &[("readrandom", ""), ("seekrandomwhilewriting", "fwdrangewhilewriting")],
        &[&[EXISTING, NEXTS, WRITER_RATE]],
    ),
    start(
        &[
            ("overwrite", "overwrite"),
            ("waitforcompaction", ""),
            ("readrandom", ""),
            ("readrandom", "readrandom after overwrite"),
            ("multireadrandom", "multireadrandom after overwrite"),
            ("seekrandom", "fwdrange after overwrite"),
        ],
        &[&[EXISTING, NEXTS, BATCH]],
    ),
];
const RANDOM_FILL: &[Start] = &[
    start(&[("fillrandom", "fillrandom, 1 thr"), ("waitforcompaction", "")], &[]),
    start(&[("fillrandom", "fillrandom, 2 thr"), ("waitforcompaction", "")], &[&["--threads=2"]]),
];
/// Random puts with six tables in level 0 and a memtable at the end, then each level merged into the next.
const SHAPED: &[Start] = &[start(
    &[
        ("fillrandom", ""),
        ("readrandom", ""),
        ("readrandom", "readrandom, memtable and L0"),
        ("seekrandom", "fwdrange, memtable and L0"),
        ("flush", ""),
        ("readrandom", ""),
        ("readrandom", "readrandom, L0"),
        ("seekrandom", "fwdrange, L0"),
        ("compact0", ""),
        ("readrandom", ""),
        ("readrandom", "readrandom, after L0"),
        ("seekrandom", "fwdrange, after L0"),
        ("compact1", ""),
        ("readrandom", ""),
        ("readrandom", "readrandom, after L1"),
        ("seekrandom", "fwdrange, after L1"),
        ("compactall", ""),
        ("readrandom", ""),
        ("readrandom", "readrandom, one run"),
        ("seekrandom", "fwdrange, one run"),
    ],
    &[&[
        "--disable_auto_compactions=1",
        "--level_compaction_dynamic_level_bytes=false",
        NEXTS,
        "--level0_slowdown_writes_trigger=1000",
        "--level0_stop_writes_trigger=1000",
    ]],
)];
/// Few operations: each waits for the device, which may take milliseconds.
const SYNCED: &[Start] = &[
    start(&[("fillsync", "fillsync, 1 thr")], &[&["--num=1000", "--threads=1"]]),
    start(&[("fillsync", "fillsync, 4 thr")], &[&["--num=500", "--threads=4"]]),
    start(&[("fillsync", "fillsync, 8 thr")], &[&["--num=250", "--threads=8"]]),
];
/// The mix of operations and the sizes of values and scans, as published for one of Facebook's stores (FAST 2020).
const MIX: &[&str] = &[
    EXISTING,
    "--value_k=0.2615",
    "--value_sigma=25.45",
    "--iter_k=2.517",
    "--iter_sigma=14.236",
    "--mix_get_ratio=0.83",
    "--mix_put_ratio=0.14",
    "--mix_seek_ratio=0.03",
];
const HOT_KEYS: &[&str] = &["--key_dist_a=0.002312", "--key_dist_b=0.3467"];
const ONE_RANGE: &[&str] = &["--keyrange_num=1"];
const HOT_RANGES: &[&str] = &[
    "--keyrange_num=30",
    "--keyrange_dist_a=14.18",
    "--keyrange_dist_b=-2.917",
    "--keyrange_dist_c=0.0164",
    "--keyrange_dist_d=-0.08082",
];
const MIXES: &[Start] = &[
    start(&[("fillrandom", ""), ("waitforcompaction", "")], &[]),
    start(&[("mixgraph", "mixgraph all_random")], &[MIX, ONE_RANGE]),
    start(&[("mixgraph", "mixgraph all_dist")], &[MIX, ONE_RANGE, HOT_KEYS]),
    start(&[("mixgraph", "mixgraph prefix_random")], &[MIX, HOT_RANGES]),
    start(&[("mixgraph", "mixgraph prefix_dist")], &[MIX, HOT_RANGES, HOT_KEYS]),
    start(&[("mixgraph", "mixgraph prefix_dist, 4 thr")], &[MIX, HOT_RANGES, HOT_KEYS, &["--threads=4"]]),
];

/// All scenarios.
pub const ALL: &[Scenario] = &[
    Scenario {
        name: "cached",
        about: "the field's sequence, cached by the store",
        flags: &["--cache_size=4000000000", "--bloom_bits=10"],
        starts: SEQUENCE,
        standard: true,
    },
    Scenario {
        name: "fillrandom",
        about: "random puts into an empty database",
        flags: &["--bloom_bits=10"],
        starts: RANDOM_FILL,
        standard: true,
    },
    Scenario { name: "fillsync", about: "synced puts", flags: &[], starts: SYNCED, standard: true },
    Scenario {
        name: "mixgraph",
        about: "the social graph's mix in four configurations, one with four threads",
        flags: &["--cache_size=268435456", "--key_size=48", "--num=1000000", "--reads=100000"],
        starts: MIXES,
        standard: true,
    },
    Scenario {
        name: "codecs",
        about: "checksums of 4 KB and compression",
        flags: &["--num=100000"],
        starts: &[
            start(&[("crc32c", "crc32c"), ("xxhash", "xxhash"), ("xxhash64", "xxhash64"), ("xxh3", "xxh3")], &[]),
            start(&[("compress", "compress, lz4"), ("uncompress", "uncompress, lz4")], &[&["--compression_type=lz4"]]),
            start(
                &[("compress", "compress, zstd"), ("uncompress", "uncompress, zstd")],
                &[&["--compression_type=zstd"]],
            ),
        ],
        standard: true,
    },
    Scenario {
        name: "system",
        about: "the field's sequence, cached by the operating system",
        flags: &["--cache_size=67108864", "--bloom_bits=10"],
        starts: SEQUENCE,
        standard: false,
    },
    Scenario {
        name: "direct",
        about: "the field's sequence with direct reads and a small cache",
        flags: &["--cache_size=67108864", "--bloom_bits=10", "--use_direct_reads=true", "--block_size=8192"],
        starts: SEQUENCE,
        standard: false,
    },
    Scenario {
        name: "shapes",
        about: "reads in each shape of the tree, no filters",
        flags: &["--cache_size=4000000000"],
        starts: SHAPED,
        standard: false,
    },
    Scenario {
        name: "shapes-filter",
        about: "the same with Bloom filters",
        flags: &["--cache_size=4000000000", "--bloom_bits=10"],
        starts: SHAPED,
        standard: false,
    },
];
