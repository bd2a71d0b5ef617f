//! `db_stress` kills itself and survives, and notices what it should.

mod common;

use std::path::Path;

fn stress(db: &Path, flags: &[&str]) -> common::Run {
    let mut arguments = vec![format!("--db={}", db.display())];
    arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
    common::run(Path::new(env!("CARGO_BIN_EXE_db_stress")), &arguments)
}

fn ldb(db: &Path, words: &[&str]) {
    let mut arguments = vec![format!("--db={}", db.display()), "--try_load_options".to_owned()];
    arguments.extend(words.iter().map(|word| (*word).to_owned()));
    let ran = common::run(Path::new(env!("CARGO_BIN_EXE_ldb")), &arguments);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
}

/// `FIRN_STRESS_KILLS` sets the number of kills and takes the limit of time away; `FIRN_STRESS_SEED` repeats a seed.
#[test]
fn kills_lose_nothing() {
    let variable = |name: &str| std::env::var(name).ok();
    let dir = tempfile::tempdir().expect("a directory");
    let seed = variable("FIRN_STRESS_SEED").unwrap_or_else(|| firn_env::Env::shared().entropy().next_u64().to_string());
    let kills = variable("FIRN_STRESS_KILLS");
    let flags = [
        format!("--seed={seed}"),
        format!("--duration={}", if kills.is_some() { 0 } else { 20 }),
        format!("--kills={}", kills.as_deref().unwrap_or("1000")),
        "--interval=600".to_owned(),
        "--ops_per_thread=1000000".to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let ran = stress(&dir.path().join("db"), &flags);
    let out = String::from_utf8_lossy(&ran.out);
    assert_eq!(ran.status, Some(0), "db_stress {}:\n{out}{}", flags.join(" "), ran.err);
    assert!(ran.err.is_empty() && out.contains("no violation"), "{out}{}", ran.err);
    println!("{out}");
}

/// What somebody else writes or deletes is found by the next verification.
#[test]
fn a_change_behind_its_back_is_noticed() {
    let dir = tempfile::tempdir().expect("a directory");
    for (words, complaint) in [
        (&["put", "nobody", "wrote this"][..], "a key that nobody wrote"),
        (&["deleterange", "--hex", "0x00000000", "0x00000400"], "differences"),
        (&["drop_column_family", "cf1"], "differences, such as cf1 key"),
    ] {
        let db = dir.path().join(words[0]);
        // Without deletions by the tool itself, something is there to be deleted.
        let calm = ["--reopen=0", "--ops_per_thread=300", "--threads=2", "--delrangepercent=0", "--writepercent=50"];
        let ran = stress(&db, &calm);
        assert_eq!(ran.status, Some(0), "{}", ran.err);
        assert_eq!(stress(&db, &["--verification_only", "--threads=2"]).status, Some(0));
        ldb(&db, words);
        let ran = stress(&db, &["--verification_only", "--threads=2"]);
        assert_eq!(ran.status, Some(1), "{words:?}");
        assert!(ran.err.contains(complaint) && ran.err.contains("Verification failed :("), "{words:?}: {}", ran.err);
    }
}
