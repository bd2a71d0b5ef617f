//! What survives which crash.

use super::*;
use crate::file::{read_file, write_file};

fn names(tree: &Tree) -> Vec<String> {
    tree.files().into_iter().map(|(path, _)| path).collect()
}

fn content(tree: &Tree, path: &str) -> Option<Vec<u8>> {
    tree.files().into_iter().find(|(name, _)| name == path).map(|(_, bytes)| bytes.to_vec())
}

fn sync_root(fs: &CrashFileSystem) {
    fs.new_directory(Path::new("/")).unwrap().fsync().unwrap();
}

/// A file `a` that holds `old`, durably.
fn with_old() -> CrashFileSystem {
    let fs = CrashFileSystem::new();
    write_file(&fs, Path::new("/a"), b"old", true).unwrap();
    sync_root(&fs);
    fs
}

#[test]
fn data_needs_a_sync_and_a_name_needs_one_of_its_directory() {
    let fs = CrashFileSystem::new();
    write_file(&fs, Path::new("/a"), b"data", true).unwrap();
    assert_eq!(names(&fs.crash(LossPolicy::DropAll, 0)), Vec::<String>::new());
    assert_eq!(content(&fs.crash(LossPolicy::DropData, 0), "a").unwrap(), b"data");
    sync_root(&fs);
    write_file(&fs, Path::new("/b"), b"data", false).unwrap();
    assert_eq!(names(&fs.crash(LossPolicy::DropAll, 0)), ["a"]);
    assert_eq!(content(&fs.crash(LossPolicy::DropData, 0), "b").unwrap(), b"");
    assert_eq!(content(&fs.crash(LossPolicy::KeepAll, 0), "b").unwrap(), b"data");
}

#[test]
fn a_buffer_is_lost_even_when_only_the_process_dies() {
    let fs = CrashFileSystem::new();
    let mut file = fs.new_writable_file(Path::new("/a"), &FileOptions::default()).unwrap();
    file.append(b"one").unwrap();
    assert_eq!(content(&fs.crash(LossPolicy::KeepAll, 0), "a").unwrap(), b"");
    file.flush().unwrap();
    assert_eq!(content(&fs.crash(LossPolicy::KeepAll, 0), "a").unwrap(), b"one");
}

#[test]
fn a_rename_is_there_or_not_but_never_half() {
    for policy in LossPolicy::ALL {
        for seed in 0..50 {
            let fs = with_old();
            write_file(&fs, Path::new("/tmp"), b"new", true).unwrap();
            fs.rename(Path::new("/tmp"), Path::new("/a")).unwrap();
            let found = content(&fs.crash(policy, seed), "a").unwrap();
            assert!(found == b"old" || found == b"new", "{policy:?} {seed}: {found:?}");
        }
    }
}

#[test]
fn scattered_names_keep_what_they_rest_on_and_differ_otherwise() {
    let fs = CrashFileSystem::new();
    for name in ["/x", "/y"] {
        write_file(&fs, Path::new(name), b"1", true).unwrap();
        fs.rename(Path::new(name), &Path::new(name).with_extension("new")).unwrap();
    }
    let found: BTreeSet<Vec<String>> = (0..200).map(|seed| names(&fs.crash(LossPolicy::Scatter, seed))).collect();
    assert_eq!(found.len(), 9, "each of two files: not there, under the old name, under the new one: {found:?}");
    let torn: BTreeSet<Vec<String>> = (0..200).map(|seed| names(&fs.crash(LossPolicy::TearEach, seed))).collect();
    assert_eq!(torn.len(), 5, "prefixes of four changes: {torn:?}");
}

#[test]
fn unsynced_data_tears_at_any_byte_or_by_sectors() {
    let fs = with_old();
    let mut file = fs.reopen_writable_file(Path::new("/a"), &FileOptions::default()).unwrap();
    file.append(b"+more").unwrap();
    file.flush().unwrap();
    let torn: BTreeSet<usize> =
        (0..200).map(|seed| content(&fs.crash(LossPolicy::Tear, seed), "a").unwrap().len()).collect();
    assert_eq!(torn, (3..=8).collect());
    let appended = (0..200).all(|seed| {
        let found = content(&fs.crash(LossPolicy::Scatter, seed), "a").unwrap();
        b"old+more".starts_with(found.as_slice()) && found.len() >= 3
    });
    assert!(appended, "no zeros in the place of lost data that was appended");
    fs.truncate(Path::new("/a"), 4000).unwrap();
    let mut file = fs.reuse_writable_file(Path::new("/b"), Path::new("/a"), &FileOptions::default()).unwrap();
    file.append(&[7; 2000]).unwrap();
    file.flush().unwrap();
    sync_root(&fs);
    let holes = (0..200).any(|seed| {
        let found = content(&fs.crash(LossPolicy::Scatter, seed), "b").unwrap();
        found.len() > 1024 && found[512..1024] == [0; 512] && found[1024..].contains(&7)
    });
    assert!(holes, "a lost sector before a kept one, in reserved space");
}

#[test]
fn in_order_a_later_file_survives_only_behind_an_earlier_one() {
    let fs = CrashFileSystem::new();
    for name in ["/1", "/2"] {
        write_file(&fs, Path::new(name), b"", false).unwrap();
    }
    sync_root(&fs);
    for name in ["/1", "/2"] {
        write_file(&fs, Path::new(name), b"data", false).unwrap();
    }
    let sizes = |policy, seed| {
        let image = fs.crash(policy, seed);
        (content(&image, "1").unwrap().len(), content(&image, "2").unwrap().len())
    };
    assert!((0..200).all(|seed| matches!(sizes(LossPolicy::Tear, seed), (4, _) | (_, 0))));
    assert!((0..200).any(|seed| sizes(LossPolicy::TearEach, seed) == (0, 4)));
    assert_eq!(fs.state.lock().disk.unsynced_files(|name| name == "2"), 1);
}

#[test]
fn a_file_may_be_lost_with_its_data_until_its_name_is_synced() {
    let fs = CrashFileSystem::new();
    let unsynced = || fs.state.lock().disk.unsynced_files(|name| name == "1");
    write_file(&fs, Path::new("/1"), b"", true).unwrap();
    assert_eq!(unsynced(), 0, "there is nothing to lose");
    write_file(&fs, Path::new("/1"), b"data", true).unwrap();
    assert_eq!(unsynced(), 1);
    assert!((0..50).any(|seed| content(&fs.crash(LossPolicy::Scatter, seed), "1").is_none()));
    sync_root(&fs);
    assert_eq!(unsynced(), 0);
}

#[test]
fn removals_and_truncations_come_back() {
    let fs = with_old();
    fs.truncate(Path::new("/a"), 1).unwrap();
    assert_eq!(content(&fs.crash(LossPolicy::DropAll, 0), "a").unwrap(), b"old");
    fs.remove_file(Path::new("/a")).unwrap();
    assert_eq!(names(&fs.crash(LossPolicy::DropAll, 0)), ["a"]);
    sync_root(&fs);
    assert_eq!(names(&fs.crash(LossPolicy::DropAll, 0)), Vec::<String>::new());
}

#[test]
fn a_mapped_log_has_a_tail_of_zeros_and_a_recycled_one_old_bytes() {
    let fs = CrashFileSystem::new();
    let options = FileOptions { mapped_log: true, ..FileOptions::default() };
    let mut file = fs.new_writable_file(Path::new("/1.log"), &options).unwrap();
    file.append(b"record").unwrap();
    let killed = content(&fs.crash(LossPolicy::KeepAll, 0), "1.log").unwrap();
    assert_eq!(killed.len() as u64, WINDOW_BYTES, "no flush was needed");
    assert!(killed.starts_with(b"record\0\0"));
    file.close().unwrap();
    assert_eq!(fs.file_size(Path::new("/1.log")).unwrap(), 6);
    sync_root(&fs);
    let mut file = fs.reuse_writable_file(Path::new("/2.log"), Path::new("/1.log"), &options).unwrap();
    file.append(b"new").unwrap();
    assert!(content(&fs.crash(LossPolicy::KeepAll, 0), "2.log").unwrap().starts_with(b"neword"));
    assert_eq!(names(&fs.crash(LossPolicy::DropAll, 0)), ["1.log"], "the rename was not synced");
    assert_eq!(fs.hazards(), Vec::<String>::new());
    let _second = fs.reopen_writable_file(Path::new("/2.log"), &options).unwrap();
    assert_eq!(fs.hazards().len(), 1, "two writers of one file");
}

#[test]
fn a_journal_gives_the_images_of_all_its_moments() {
    let fs = with_old();
    fs.start_journal();
    let mut images = vec![fs.crash(LossPolicy::Scatter, 0).files()];
    let steps: [&dyn Fn(); 4] = [
        &|| fs.link(Path::new("/a"), Path::new("/l")).unwrap(),
        &|| fs.create_dir(Path::new("/d")).unwrap(),
        &|| fs.truncate(Path::new("/a"), 1).unwrap(),
        &|| sync_root(&fs),
    ];
    for (step, seed) in steps.iter().zip(1..) {
        step();
        images.push(fs.crash(LossPolicy::Scatter, seed).files());
    }
    let journal = fs.take_journal();
    let mut replay = journal.replay();
    for (image, seed) in images.iter().zip(0..) {
        assert_eq!(&replay.disk().image(LossPolicy::Scatter, seed).files(), image);
        replay.advance();
    }
    assert!(!replay.advance() && replay.at() == 4 && replay.was_sync());
    assert_eq!(journal.describe(2), "resize a to 1");
    let again = CrashFileSystem::from_image(fs.crash(LossPolicy::DropAll, 0));
    assert_eq!(read_file(&again, Path::new("/l"), 10).unwrap(), b"old");
}
