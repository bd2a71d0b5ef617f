//! `db_bench` against RocksDB's own: the same flags give lines of the same form on the same streams.

mod common;

use std::path::Path;

use firndb_testing::rocksdb_tool;

fn ours() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_db_bench"))
}

/// Lines with every number replaced, blanks merged, and without what depends on build, version or speed.
fn form(text: &str, database: &Path) -> Vec<String> {
    const DROPPED: [&str; 6] = ["Assertions are enabled", "... finished", "long op:", "RocksDB:", "CPU", "Date:"];
    let text = text.replace(&database.display().to_string(), "DB").replace('\r', "\n");
    let lines = text.lines().filter(|line| !DROPPED.iter().any(|word| line.contains(word)));
    // RocksDB's shows no numbers of the lists that were merged.
    let lines = lines.map(|line| line.find("List: ").map_or(line, |at| &line[..at]));
    // Rows of histograms depend on how fast the machine is.
    let lines = lines.filter(|line| !line.starts_with(['[', '(']));
    lines
        .map(|line| {
            let mut shown = String::new();
            for c in line.chars() {
                match c {
                    '0'..='9' if shown.ends_with('#') => {}
                    '0'..='9' => shown.push('#'),
                    '.' if shown.ends_with('#') => {}
                    ' ' if shown.ends_with(' ') => {}
                    c => shown.push(c),
                }
            }
            shown
        })
        .collect()
}

fn compare(flags: &[&str]) {
    let Some(theirs) = rocksdb_tool("db_bench") else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let run = |tool: &Path, name: &str| {
        let database = dir.path().join(name);
        let mut arguments = vec![format!("--db={}", database.display()), "--progress_reports=false".to_owned()];
        arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let run = common::run(tool, &arguments);
        let out = form(&String::from_utf8_lossy(&run.out), &database);
        (out, form(&run.err, &database), run.status)
    };
    let (ours, theirs) = (run(ours(), "ours"), run(&theirs, "theirs"));
    let what = format!("db_bench {}", flags.join(" "));
    common::assert_same_lines(&ours.0, &theirs.0, &format!("{what}: stdout"));
    common::assert_same_lines(&ours.1, &theirs.1, &format!("{what}: stderr"));
    assert_eq!(ours.2, theirs.2, "{what}");
}

#[test]
fn writes_and_reads() {
    compare(&[
        "--num=2000",
        "--seed=5",
        "--seek_nexts=3",
        "--benchmarks=fillseq,fillrandom,overwrite,readrandom,readseq,readreverse,readtocache,multireadrandom,seekrandom,\
         readmissing,readrandomfast,readrandomsmall,newiterator,approximatesizerandom,filluniquerandom,fillbatch,\
         fillsync,fill100K,deleteseq,deleterandom,fillseekseq,levelstats,flush,verifychecksum,resetstats,memstats,\
         compact,compactall,levelstats,compact0,compact1",
    ]);
}

#[test]
fn mixed_workloads_with_threads() {
    compare(&[
        "--num=2000",
        "--threads=2",
        "--benchmarks=fillseq,readwhilewriting,seekrandomwhilewriting,newiteratorwhilewriting,readwhilescanning,\
         updaterandom,xorupdaterandom,appendrandom,readrandomwriterandom,randomwithverify",
    ]);
}

#[test]
fn merges_histograms_and_repeats() {
    compare(&[
        "--num=2000",
        "--merge_operator=uint64add",
        "--value_size=8",
        "--histogram",
        "--benchmarks=mergerandom,readrandom[X2-W1],readseq,overwrite[X3]",
    ]);
}

#[test]
fn shapes_of_keys_and_values() {
    compare(&[
        "--num=1000",
        "--key_size=20",
        "--prefix_size=8",
        "--keys_per_prefix=10",
        "--value_size_distribution_type=uniform",
        "--value_size_min=10",
        "--value_size_max=200",
        "--compression_type=zstd",
        "--batch_size=10",
        "--benchmarks=fillrandom,readrandom,multireadrandom",
    ]);
}

#[test]
fn use_of_an_existing_database_and_of_several() {
    compare(&["--num=1000", "--num_multi_db=2", "--benchmarks=fillseq,readrandom,readseq"]);
    compare(&["--num=1000", "--num_column_families=3", "--benchmarks=fillseq,readrandom"]);
    // Where there is no database yet, both make an empty one.
    compare(&["--num=100", "--use_existing_db=1", "--benchmarks=readrandom,readseq"]);
}

#[test]
fn merge_operands_are_read_unmerged() {
    compare(&["--num=100", "--merge_operator=stringappend", "--benchmarks=mergerandom,readrandomoperands,readrandom"]);
    compare(&["--num=100", "--merge_operator=sortlist", "--benchmarks=getmergeoperands"]);
    let dir = tempfile::tempdir().expect("a directory");
    let database = format!("--db={}", dir.path().join("db").display());
    let flags = ["--merge_operator=sortlist".to_owned(), "--benchmarks=getmergeoperands".to_owned()];
    let run = common::run(ours(), &[std::slice::from_ref(&database), &flags[..]].concat());
    let text = String::from_utf8_lossy(&run.out);
    assert_eq!(run.status, Some(0), "{}", run.err);
    assert!(text.contains("Sample data from Get API call: 1,2,3,4,5,\n"), "{text}");
    assert!(text.contains("List: 1 : 101,102,103,104,105\n"), "{text}");
    let run = common::run(ours(), &[database, flags[1].clone()]);
    let text = String::from_utf8_lossy(&run.out);
    assert!(text.contains("getmergeoperands : skipped (it needs --merge_operator=sortlist)"), "{text}");
    assert_eq!(run.status, Some(1));
}

#[test]
fn mistakes() {
    for flags in [
        &["--benchmarks=fillseq,nonsense", "--num=10"][..],
        &["--benchmarks=readrandom]", "--num=10"],
        &["--compression_type=nonsense"],
        &["--num=1e3", "--nonsense", "--sync=perhaps"],
        &["--readwritepercent=0"],
        &["--benchmarks="],
    ] {
        compare(flags);
    }
}

#[test]
fn keys_and_counts_are_those_of_the_specification() {
    let Some(theirs) = rocksdb_tool("ldb") else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let database = dir.path().join("db");
    let arguments = [
        format!("--db={}", database.display()),
        "--benchmarks=fillrandom".to_owned(),
        "--num=20".to_owned(),
        "--seed=5".to_owned(),
        "--value_size=8".to_owned(),
        "--writes=10".to_owned(),
        "--format_version=5".to_owned(),
    ];
    assert_eq!(common::run(ours(), &arguments).status, Some(0));
    let scan = ["scan", "--hex", "--no_value"].map(str::to_owned);
    let scan = [vec![format!("--db={}", database.display())], scan.to_vec()].concat();
    let keys = common::lines_without(&common::run(&theirs, &scan).out, &[]);
    let numbers: Vec<u8> = keys.iter().map(|key| u8::from_str_radix(&key[16..18], 16).expect("hex")).collect();
    // 15 14 6 7 0 8 4 5 6 17 in the order written
    assert_eq!(numbers, [0, 4, 5, 6, 7, 8, 14, 15, 17]);
}

#[test]
fn the_same_seed_reads_and_writes_the_same_keys() {
    let (Some(theirs), Some(ldb)) = (rocksdb_tool("db_bench"), rocksdb_tool("ldb")) else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let benchmarks = "fillrandom,readrandom,multireadrandom,seekrandom,readmissing,updaterandom,appendrandom,\
         readrandomwriterandom,xorupdaterandom,mergerandom,readrandommergerandom,randomwithverify,readrandomfast,\
         deleterandom,readrandom,readseq,readreverse,mixgraph,filluniquerandom,overwrite,readrandom,fillseekseq,fillrandom,\
         overwrite,deleterandom";
    let run = |tool: &Path, name: &str| {
        let database = dir.path().join(name);
        let arguments = [
            &format!("--db={}", database.display()),
            &format!("--benchmarks={benchmarks}"),
            "--num=3000",
            "--seed=9",
            "--seek_nexts=2",
            "--batch_size=4",
            "--merge_operator=put",
            "--format_version=5",
            "--mix_put_ratio=0.3",
            "--mix_get_ratio=0.5",
            "--mix_seek_ratio=0.2",
            "--key_dist_a=0.002312",
            "--key_dist_b=0.3467",
        ]
        .map(str::to_owned);
        let out = common::run(tool, &arguments).out;
        // Name, operations and message: everything but what depends on speed.
        let results = common::lines_without(&out, &[]).into_iter().filter_map(|line| {
            let (name, rest) = line.split_once(':')?;
            let (_, counts) = rest.split_once(" seconds ")?;
            let counts: Vec<&str> =
                counts.split(' ').filter(|word| !word.is_empty() && !word.contains("MB/s")).collect();
            let is_rate = |word: &&str| word.parse::<f64>().is_err() || !word.contains('.');
            let counts: Vec<&str> = counts.into_iter().filter(is_rate).collect();
            Some(format!("{name}{}", counts.join(" ")))
        });
        let results: Vec<String> = results.collect();
        assert_eq!(results.len(), benchmarks.split(',').count());
        let scan = ["scan", "--hex", "--no_value"].map(str::to_owned);
        let scan = [vec![format!("--db={}", database.display())], scan.to_vec()].concat();
        (results, common::lines_without(&common::run(&ldb, &scan).out, &[]))
    };
    let (ours, theirs) = (run(ours(), "ours"), run(&theirs, "theirs"));
    common::assert_same_lines(&ours.0, &theirs.0, "counts and messages");
    common::assert_same_lines(&ours.1, &theirs.1, "keys");
    assert!(!ours.1.is_empty());
}
