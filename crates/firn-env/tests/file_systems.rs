//! One conformance suite for every file system and every flavour of file: the contracts of `firn_env::file`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_env::crash::CrashFileSystem;
use firn_env::fault::FaultFileSystem;
use firn_env::memory::MemoryFileSystem;
use firn_env::posix::PosixFileSystem;
use firn_env::{FileOptions, FileSystem, WritableFile, create_dir_all, read_file, write_file};

/// A file system with an empty directory in it; the guard removes it.
struct World {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    _guard: Option<tempfile::TempDir>,
}

fn worlds() -> Vec<World> {
    let guard = tempfile::tempdir().unwrap();
    let memory: Arc<dyn FileSystem> = Arc::new(MemoryFileSystem::new());
    create_dir_all(&*memory, Path::new("/a/b/c")).unwrap();
    let wrapped: Arc<dyn FileSystem> = Arc::new(FaultFileSystem::new(Arc::new(MemoryFileSystem::new())));
    create_dir_all(&*wrapped, Path::new("/w")).unwrap();
    vec![
        World { fs: Arc::new(PosixFileSystem::new()), dir: guard.path().to_path_buf(), _guard: Some(guard) },
        World { fs: memory, dir: PathBuf::from("/a/b/c"), _guard: None },
        World { fs: wrapped, dir: PathBuf::from("/w"), _guard: None },
        World { fs: Arc::new(CrashFileSystem::new()), dir: PathBuf::from("/"), _guard: None },
    ]
}

/// Every flavour of writer; direct I/O only where the file system has it.
fn writers(world: &World) -> Vec<(&'static str, FileOptions)> {
    let base = FileOptions::default();
    let mut all = vec![
        ("buffered", base.clone()),
        ("unbuffered", FileOptions { writable_buffer_bytes: 0, ..base.clone() }),
        ("small buffer", FileOptions { writable_buffer_bytes: 100, ..base.clone() }),
        ("preallocating", FileOptions { preallocate_bytes: 1 << 20, ..base.clone() }),
        (
            "preallocating visibly",
            FileOptions { preallocate_bytes: 1 << 16, fallocate_with_keep_size: false, ..base.clone() },
        ),
        ("early sync", FileOptions { bytes_per_sync: 64 << 10, ..base.clone() }),
        ("strict early sync", FileOptions { bytes_per_sync: 64 << 10, strict_bytes_per_sync: true, ..base.clone() }),
        ("mapped", FileOptions { mapped_log: true, ..base.clone() }),
    ];
    let direct = FileOptions { use_direct_writes: true, use_direct_reads: true, ..base };
    if world.fs.new_writable_file(&world.dir.join("probe"), &direct).is_ok() {
        all.push(("direct", direct));
    }
    all
}

/// Bytes that differ at every offset that matters.
fn pattern(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i.wrapping_mul(31) + i / 251 + seed) as u8).collect()
}

fn contents(world: &World, path: &Path) -> Vec<u8> {
    read_file(&*world.fs, path, u64::MAX).unwrap()
}

fn append_in_pieces(file: &mut dyn WritableFile, data: &[u8]) {
    let mut rest = data;
    let mut size = 1;
    while !rest.is_empty() {
        let (now, later) = rest.split_at(size.min(rest.len()));
        file.append(now).unwrap();
        rest = later;
        size = size * 3 % 70_001 + 1;
    }
}

#[test]
fn what_is_appended_is_read_back_after_close() {
    for world in worlds() {
        for (name, options) in writers(&world) {
            for bytes in [0, 1, 4095, 4096, 4097, 32 << 10, 300_000, 3_000_001] {
                let path = world.dir.join("file");
                let data = pattern(bytes, 1);
                let mut file = world.fs.new_writable_file(&path, &options).unwrap();
                append_in_pieces(&mut *file, &data);
                assert_eq!(file.file_size(), bytes as u64, "{name}");
                file.close().unwrap();
                assert!(file.append(b"x").is_err(), "{name}: a closed file takes no bytes");
                assert_eq!(world.fs.file_size(&path).unwrap(), bytes as u64, "{name}");
                assert!(contents(&world, &path) == data, "{name} {bytes}");
            }
        }
    }
}

#[test]
fn what_is_flushed_is_visible_to_readers_and_appending_goes_on() {
    for world in worlds() {
        for (name, options) in writers(&world) {
            let path = world.dir.join("file");
            let data = pattern(520_000, 2);
            let mut file = world.fs.new_writable_file(&path, &options).unwrap();
            let mut at = 0;
            for step in [10, 4096, 5000, 200_000, 294_894 - 4000, 4000] {
                file.append(&data[at..at + step]).unwrap();
                at += step;
                file.flush().unwrap();
                let seen = contents(&world, &path);
                assert!(seen[..at] == data[..at], "{name} after {at}");
                assert!(seen[at..].iter().all(|&b| b == 0), "{name}: only zeros behind the end");
            }
            file.sync().unwrap();
            file.fsync().unwrap();
            file.range_sync(0, at as u64).unwrap();
            if let Some(handle) = file.sync_handle() {
                handle.sync().unwrap();
            }
            drop(file);
            assert!(contents(&world, &path) == data[..at], "{name}");
        }
    }
}

#[test]
fn reopened_files_go_on_behind_what_they_hold() {
    for world in worlds() {
        for (name, options) in writers(&world) {
            for first in [0, 7, 4096, 40_000, 262_144] {
                let path = world.dir.join("file");
                let data = pattern(first + 300_000, 3);
                write_file(&*world.fs, &path, &data[..first], true).unwrap();
                let mut file = world.fs.reopen_writable_file(&path, &options).unwrap();
                assert_eq!(file.file_size(), first as u64, "{name}");
                append_in_pieces(&mut *file, &data[first..]);
                file.close().unwrap();
                assert!(contents(&world, &path) == data, "{name} {first}");
            }
        }
    }
}

#[test]
fn a_recycled_file_keeps_its_old_bytes_until_they_are_overwritten() {
    for world in worlds() {
        for (name, options) in writers(&world) {
            let (old, new) = (world.dir.join("old"), world.dir.join("new"));
            let data = pattern(400_000, 4);
            write_file(&*world.fs, &old, &data, false).unwrap();
            let mut file = world.fs.reuse_writable_file(&new, &old, &options).unwrap();
            assert!(!world.fs.file_exists(&old).unwrap(), "{name}");
            assert_eq!(file.file_size(), 0, "{name}");
            file.append(b"fresh").unwrap();
            file.flush().unwrap();
            let seen = contents(&world, &new);
            assert_eq!(&seen[..5], b"fresh", "{name}");
            if name != "direct" {
                assert!(seen[5..data.len()] == data[5..], "{name}: old bytes still there");
            }
            file.append(&pattern(500_000, 5)).unwrap();
            file.close().unwrap();
            assert_eq!(world.fs.file_size(&new).unwrap(), 500_005, "{name}");
            assert!(contents(&world, &new)[5..] == pattern(500_000, 5), "{name}");
            world.fs.remove_file(&new).unwrap();
        }
    }
}

#[test]
fn truncating_an_open_file_cuts_it_and_appends_go_on_there() {
    for world in worlds() {
        for (name, options) in writers(&world) {
            if options.use_direct_writes {
                continue; // refused before the last page, see `DirectFile`
            }
            let path = world.dir.join("file");
            let data = pattern(600_000, 6);
            let mut file = world.fs.new_writable_file(&path, &options).unwrap();
            file.append(&data).unwrap();
            file.truncate(100_001).unwrap();
            assert_eq!(file.file_size(), 100_001, "{name}");
            file.append(&data[100_001..300_000]).unwrap();
            file.close().unwrap();
            assert!(contents(&world, &path) == data[..300_000], "{name}");
        }
    }
}

#[test]
fn random_access_reads_any_range_and_stops_at_the_end() {
    for world in worlds() {
        let path = world.dir.join("table");
        let data = pattern(100_003, 7);
        write_file(&*world.fs, &path, &data, true).unwrap();
        let mut flavours = vec![
            FileOptions::default(),
            FileOptions { use_mmap_reads: true, access_pattern: firn_env::AccessPattern::Random, ..Default::default() },
        ];
        let direct = FileOptions { use_direct_reads: true, ..Default::default() };
        if world.fs.new_random_access_file(&path, &direct).is_ok() {
            flavours.push(direct);
        }
        for options in flavours {
            let file = world.fs.new_random_access_file(&path, &options).unwrap();
            assert_eq!(file.size().unwrap(), data.len() as u64);
            for (offset, wanted) in [(0, 10), (1, 4096), (4095, 2), (8192, 4096), (100_000, 3), (5, 99_998)] {
                let mut buffer = vec![0; wanted];
                assert_eq!(file.read_at(offset as u64, &mut buffer).unwrap(), wanted);
                assert!(buffer == data[offset..offset + wanted], "{options:?} at {offset}");
            }
            let mut buffer = [0; 100];
            assert_eq!(file.read_at(100_000, &mut buffer).unwrap(), 3);
            assert_eq!(file.read_at(100_003, &mut buffer).unwrap(), 0);
            assert_eq!(file.read_at(1 << 40, &mut buffer).unwrap(), 0);
            let short = file.read_exact_at(100_000, &mut buffer).unwrap_err();
            assert!(short.is_corruption() && short.file() == Some(&*path) && short.offset() == Some(100_000));
            assert_eq!(
                file.as_mapped().map(<[u8]>::len),
                options.use_mmap_reads.then_some(data.len()).filter(|_| world.fs.name() == "posix")
            );
            file.prefetch(0, 4096).unwrap();
            file.hint(firn_env::AccessPattern::Sequential);
        }
    }
}

#[test]
fn sequential_files_read_and_skip() {
    for world in worlds() {
        let path = world.dir.join("log");
        let data = pattern(10_000, 8);
        write_file(&*world.fs, &path, &data, false).unwrap();
        let mut file = world.fs.new_sequential_file(&path, &FileOptions::default()).unwrap();
        let mut buffer = [0; 3000];
        assert_eq!(file.read(&mut buffer).unwrap(), 3000);
        file.skip(4000).unwrap();
        assert_eq!(file.read(&mut buffer).unwrap(), 3000);
        assert!(buffer[..] == data[7000..]);
        assert_eq!(file.read(&mut buffer).unwrap(), 0);
        file.skip(u64::MAX).unwrap();
        assert_eq!(file.read(&mut buffer).unwrap(), 0);
    }
}

#[test]
fn names_behave() {
    for world in worlds() {
        let fs = &*world.fs;
        let at = |name: &str| world.dir.join(name);
        assert!(!fs.file_exists(&at("x")).unwrap());
        write_file(fs, &at("x"), b"one", true).unwrap();
        write_file(fs, &at("y"), b"two!", true).unwrap();
        fs.link(&at("x"), &at("x2")).unwrap();
        assert_eq!(fs.link_count(&at("x")).unwrap(), 2);
        assert!(fs.link(&at("x"), &at("y")).is_err());
        fs.rename(&at("y"), &at("x")).unwrap();
        assert_eq!(contents(&world, &at("x")), b"two!");
        assert_eq!(contents(&world, &at("x2")), b"one");
        assert_eq!(fs.link_count(&at("x2")).unwrap(), 1);
        fs.truncate(&at("x"), 2).unwrap();
        assert_eq!(contents(&world, &at("x")), b"tw");

        fs.create_dir(&at("d")).unwrap();
        assert!(fs.create_dir(&at("d")).is_err());
        fs.create_dir_if_missing(&at("d")).unwrap();
        assert!(fs.create_dir_if_missing(&at("x")).is_err(), "a file in the place of a directory");
        assert!(fs.is_directory(&at("d")).unwrap() && !fs.is_directory(&at("x")).unwrap());
        write_file(fs, &at("d/inner"), b"", false).unwrap();
        assert!(fs.remove_dir(&at("d")).is_err());
        fs.rename(&at("d"), &at("e")).unwrap();
        assert_eq!(fs.children(&at("e")).unwrap(), ["inner"]);
        fs.new_directory(&at("e")).unwrap().fsync().unwrap();
        fs.remove_file(&at("e/inner")).unwrap();
        fs.remove_dir(&at("e")).unwrap();
        let mut names = fs.children(&world.dir).unwrap();
        names.sort();
        assert_eq!(names, ["x", "x2"]);

        create_dir_all(fs, &at("p/q/r")).unwrap();
        assert!(fs.is_directory(&at("p/q/r")).unwrap());
        assert!(fs.modification_time_secs(&at("x")).unwrap() > 1_577_836_800);
        assert!(fs.free_space_bytes(&world.dir).unwrap() > 0);
        assert!(fs.absolute_path(&at("x")).unwrap().is_absolute());
        assert!(read_file(fs, &at("x2"), 2).unwrap_err().is_corruption());
    }
}

#[test]
fn a_missing_path_is_said_so_with_its_name() {
    for world in worlds() {
        let path = world.dir.join("nowhere/file");
        let options = FileOptions::default();
        let errors = [
            world.fs.new_sequential_file(&path, &options).err(),
            world.fs.new_random_access_file(&path, &options).err(),
            world.fs.new_writable_file(&path, &options).err(),
            world.fs.reopen_writable_file(&path, &options).err(),
            world.fs.new_directory(&path).err(),
            world.fs.children(&path).err(),
            world.fs.remove_file(&path).err(),
            world.fs.create_dir(&path).err(),
            world.fs.file_size(&path).err(),
            world.fs.truncate(&path, 0).err(),
            world.fs.rename(&path, &world.dir.join("z")).err(),
            world.fs.modification_time_secs(&path).err(),
        ];
        for (i, error) in errors.into_iter().enumerate() {
            let error = error.unwrap();
            assert!(error.is_path_not_found(), "{} {i}: {error}", world.fs.name());
            assert_eq!(error.file(), Some(&*path));
        }
    }
}

#[test]
fn the_lock_is_held_once_per_process_and_given_back() {
    for world in worlds() {
        let path = world.dir.join("LOCK");
        let lock = world.fs.lock_file(&path).unwrap();
        assert!(world.fs.file_exists(&path).unwrap());
        let error = world.fs.lock_file(&path).unwrap_err().to_string();
        assert!(error.starts_with("IO error: lock hold by current process"), "{error}");
        assert!(error.ends_with(&format!("{}: No locks available", path.display())), "{error}");
        drop(lock);
        drop(world.fs.lock_file(&path).unwrap());
    }
}

#[test]
fn the_lock_keeps_other_processes_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let fs = PosixFileSystem::new();
    let _lock = fs.lock_file(&path).unwrap();
    // Any tool that takes POSIX record locks will do for the other side.
    let script = "import fcntl,sys\nf=open(sys.argv[1],'r+')\ntry:\n fcntl.lockf(f,fcntl.LOCK_EX|fcntl.LOCK_NB)\nexcept OSError:\n sys.exit(42)\n";
    match std::process::Command::new("python3").arg("-c").arg(script).arg(&path).status() {
        Ok(status) => assert_eq!(status.code(), Some(42)),
        Err(error) => firndb_testing::skip(&format!("there is no python3 to play the other process: {error}")),
    }
}

#[test]
fn an_open_mapped_log_reserves_blocks_and_gives_them_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("000001.log");
    let fs = PosixFileSystem::new();
    let options = FileOptions { mapped_log: true, ..Default::default() };
    let mut file = fs.new_writable_file(&path, &options).unwrap();
    if file.space_handle().is_none() {
        firndb_testing::skip(&format!("logs are not mapped on the file system of {}", dir.path().display()));
        return;
    }
    file.append(b"record").unwrap();
    let visible = fs.file_size(&path).unwrap();
    assert!(visible > 6 && visible.is_multiple_of(32 << 10), "{visible}");
    file.close().unwrap();
    assert_eq!(fs.file_size(&path).unwrap(), 6);
    use std::os::unix::fs::MetadataExt;
    assert!(std::fs::metadata(&path).unwrap().blocks() * 512 <= 64 << 10);
}

#[test]
fn space_reserved_ahead_is_invisible_and_given_back() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("000001.log");
    let blocks = || std::fs::metadata(&path).unwrap().blocks() * 512;
    let fs = PosixFileSystem::new();
    let options = FileOptions { mapped_log: true, ..Default::default() };
    // Closed within its first window, at its end, and behind what was reserved.
    for records in [1, 64, 3000] {
        let mut file = fs.new_writable_file(&path, &options).unwrap();
        let record = pattern(4096, 5);
        file.append(&record).unwrap();
        let Some(space) = file.space_handle() else {
            firndb_testing::skip(&format!("logs are not mapped on the file system of {}", dir.path().display()));
            return;
        };
        let visible = fs.file_size(&path).unwrap();
        space.reserve(9 << 20);
        assert!(blocks() >= 9 << 20, "{}", blocks());
        assert_eq!(fs.file_size(&path).unwrap(), visible, "readers see nothing of it");
        (1..records).for_each(|_| file.append(&record).unwrap());
        file.close().unwrap();
        let size = records * record.len() as u64;
        assert_eq!(fs.file_size(&path).unwrap(), size);
        assert!(blocks() <= size + (64 << 10), "{} of {size} bytes", blocks());
        space.reserve(9 << 20);
        assert!(blocks() <= size + (64 << 10), "the log was closed");
        assert!(read_file(&fs, &path, u64::MAX).unwrap().chunks(record.len()).all(|part| part == record));
    }
    // More than the disk has to spare is not even tried.
    let mut file = fs.new_writable_file(&path, &options).unwrap();
    let before = blocks();
    file.space_handle().unwrap().reserve(fs.free_space_bytes(dir.path()).unwrap() / 4);
    assert_eq!(blocks(), before);
    file.append(b"record").unwrap();
}

#[test]
#[cfg(target_os = "linux")]
fn an_open_mapped_log_keeps_little_of_itself_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("000001.log");
    let fs = PosixFileSystem::new();
    let options = FileOptions { mapped_log: true, ..Default::default() };
    let mut file = fs.new_writable_file(&path, &options).unwrap();
    if file.space_handle().is_none() {
        firndb_testing::skip(&format!("logs are not mapped on the file system of {}", dir.path().display()));
        return;
    }
    let resident = || {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut lines = maps.lines().skip_while(|line| !line.ends_with(path.to_str().unwrap()));
        let line = lines.find_map(|line| line.strip_prefix("Rss:")).expect("the log is mapped");
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
    };
    let record = pattern(5000, 3);
    let mut most = 0;
    for count in 0..6000 {
        file.append(&record).unwrap();
        if count % 20 == 0 {
            most = most.max(resident());
        }
    }
    assert!(most > 100 << 10 && most <= 2 << 20, "{most} of {} bytes", 6000 * record.len());
    file.close().unwrap();
    let written = read_file(&fs, &path, u64::MAX).unwrap();
    assert_eq!(written.len(), 6000 * record.len());
    assert!(written.chunks(record.len()).all(|part| part == record), "what left the process is in the file");
}

#[test]
fn a_direct_file_reads_back_what_it_wrote() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("direct");
    let fs = PosixFileSystem::new();
    let options = FileOptions { use_direct_reads: true, use_direct_writes: true, ..Default::default() };
    let Ok(mut file) = fs.new_writable_file(&path, &options) else {
        firndb_testing::skip("this file system has no direct I/O");
        return;
    };
    let data = pattern(20_000, 9);
    file.append(&data).unwrap();
    file.sync().unwrap();
    file.truncate(19_999).unwrap();
    file.close().unwrap();
    assert!(read_file(&fs, &path, u64::MAX).unwrap() == data[..19_999]);
    let random = fs.new_random_access_file(&path, &options).unwrap();
    let align = random.required_alignment();
    assert!(align.is_power_of_two() && random.is_direct());
    for (offset, bytes) in
        [(0, 1), (511, 2), (512, 512), (align - 1, align + 2), (3000, 9000), (4096, 8192), (19_990, 20)]
    {
        let mut buffer = vec![0; bytes];
        let got = random.read_at(offset as u64, &mut buffer).unwrap();
        assert!(buffer[..got] == data[offset..19_999.min(offset + bytes)], "{bytes} bytes at {offset}");
    }
    let mut sequential = fs.new_sequential_file(&path, &options).unwrap();
    let mut buffer = vec![0; 30_000];
    assert_eq!(sequential.read(&mut buffer).unwrap(), 19_999);
}
