//! Parameters of universal compaction.

use std::collections::BTreeSet;

use firndb::Db;
use firndb::options::{CompactionOptions, CompactionStyle, FlushOptions};

use crate::options;

/// How many tables of the oldest run are as they were after the tree had grown too large.
fn untouched_tables(incremental: bool) -> usize {
    let dir = tempfile::tempdir().unwrap();
    let options = options(|o| {
        o.cf.compaction_style = CompactionStyle::Universal;
        o.cf.num_levels = 4;
        o.cf.disable_auto_compactions = true;
        o.cf.level0_file_num_compaction_trigger = 2;
        o.cf.max_compaction_bytes = 60_000;
        o.cf.target_file_size_base = 20_000;
        o.cf.compression = firn_format::compression::CompressionType::None;
        o.cf.compaction_options_universal.max_size_amplification_percent = 25;
        o.cf.compaction_options_universal.incremental = incremental;
    });
    let db = Db::open(dir.path(), options).unwrap();
    let run = |step: usize, level: usize| {
        for i in (0..300).step_by(step) {
            db.put(format!("key{i:05}"), format!("{level}{i:0999}")).unwrap();
        }
        db.flush(&FlushOptions::default(), db.default_cf()).unwrap();
        let new: Vec<_> = db.live_files().iter().filter(|file| file.level == 0).map(|file| file.number).collect();
        let how = CompactionOptions { output_file_size_limit: 20_000, ..CompactionOptions::default() };
        db.compact_files(&how, db.default_cf(), &new, level).unwrap();
    };
    run(1, 3);
    let oldest: BTreeSet<_> = db.live_files().iter().map(|file| file.number).collect();
    assert!(oldest.len() > 10, "{}", oldest.len());
    run(3, 2);
    db.set_options(db.default_cf(), &[("disable_auto_compactions", "false")]).unwrap();
    db.wait_for_compact().unwrap();
    for i in 0..300 {
        let newest = if i % 3 == 0 { 2 } else { 3 };
        assert_eq!(db.get(format!("key{i:05}")).unwrap().unwrap()[0], b'0' + newest);
    }
    assert!(
        db.live_files().iter().any(|file| file.level == 3 && !oldest.contains(&file.number)),
        "something was merged"
    );
    db.live_files().iter().filter(|file| oldest.contains(&file.number)).count()
}

#[test]
fn incremental_merges_only_a_part_of_the_oldest_runs() {
    assert_eq!(untouched_tables(false), 0);
    assert!(untouched_tables(true) > 5);
}
