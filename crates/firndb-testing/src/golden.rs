//! The golden databases: packed in `testdata/golden.tar.zst`, unpacked below the target directory by the first test that asks.
//!
//! The folder they are unpacked to bears the archive's hash in its name, so a changed archive is unpacked anew and a folder
//! that is there is whole: it gets its name only when all of it is written. Nobody writes there; tests copy first.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The folder of the golden databases, each in a folder of its own; `testdata/README.md` tells what is in them.
///
/// # Panics
/// If the archive cannot be read or unpacked.
pub fn golden() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/golden.tar.zst");
        let target = crate::target_directory().join("golden");
        unpacked(&archive, &target).unwrap_or_else(|error| {
            panic!("{} cannot be unpacked to {}: {error}", archive.display(), target.display());
        })
    })
}

/// The directory `db` of every golden database, sorted.
///
/// # Panics
/// If the archive cannot be read or unpacked.
pub fn golden_databases() -> Vec<PathBuf> {
    let folder = golden();
    let entries = std::fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = entries.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut databases: Vec<_> = entries.iter().map(|entry| entry.path().join("db")).collect();
    databases.sort();
    databases
}

/// The name of a golden database, such as `r7.8-default`.
///
/// # Panics
/// If `database` is none of [`golden_databases`].
pub fn golden_name(database: &Path) -> &str {
    let name = database.parent().and_then(Path::file_name).and_then(std::ffi::OsStr::to_str);
    name.unwrap_or_else(|| panic!("{} is no golden database", database.display()))
}

/// Where in `target` the archive is unpacked; unpacks it unless that was done before.
///
/// Many processes may do so at once. Each unpacks to a folder of its own, and the first to give it its name wins.
fn unpacked(archive: &Path, target: &Path) -> io::Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let bytes = std::fs::read(archive)?;
    let folder = target.join(format!("{:016x}", xxhash_rust::xxh3::xxh3_64(&bytes)));
    if folder.is_dir() {
        return Ok(folder);
    }
    let unnamed = target.join(format!(".{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    // A process of the same number may have been killed at this.
    remove(&unnamed)?;
    std::fs::create_dir_all(&unnamed)?;
    let mut files = tar::Archive::new(zstd::Decoder::new(&*bytes)?);
    files.set_preserve_mtime(false);
    files.unpack(&unnamed)?;
    match std::fs::rename(&unnamed, &folder) {
        Err(_) if folder.is_dir() => remove(&unnamed)?,
        renamed => renamed?,
    }
    Ok(folder)
}

fn remove(folder: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes an archive with one file.
    fn pack(archive: &Path, contents: &[u8]) {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_ustar();
        header.set_size(contents.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, "kind/db/CURRENT", contents).unwrap();
        let packed = zstd::encode_all(&*builder.into_inner().unwrap(), 1).unwrap();
        std::fs::write(archive, packed).unwrap();
    }

    #[test]
    fn many_unpack_at_once_and_all_see_the_whole() {
        let directory = tempfile::tempdir().unwrap();
        let (archive, target) = (directory.path().join("archive"), directory.path().join("target"));
        pack(&archive, b"MANIFEST-000001\n");
        let folders: Vec<PathBuf> = std::thread::scope(|scope| {
            let unpack = || {
                let folder = unpacked(&archive, &target).unwrap();
                assert_eq!(std::fs::read(folder.join("kind/db/CURRENT")).unwrap(), b"MANIFEST-000001\n");
                folder
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(unpack)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(folders.iter().all(|folder| folder == &folders[0]), "{folders:?}");
        assert_eq!(std::fs::read_dir(&target).unwrap().count(), 1, "what lost the race is gone");
    }

    #[test]
    fn another_archive_is_unpacked_to_another_folder() {
        let directory = tempfile::tempdir().unwrap();
        let (archive, target) = (directory.path().join("archive"), directory.path().join("target"));
        pack(&archive, b"one");
        let one = unpacked(&archive, &target).unwrap();
        pack(&archive, b"two");
        let two = unpacked(&archive, &target).unwrap();
        assert_eq!(std::fs::read(one.join("kind/db/CURRENT")).unwrap(), b"one");
        assert_eq!(std::fs::read(two.join("kind/db/CURRENT")).unwrap(), b"two");
    }

    #[test]
    fn an_archive_cut_short_leaves_no_folder_of_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let (archive, target) = (directory.path().join("archive"), directory.path().join("target"));
        pack(&archive, &[b'v'; 10_000]);
        let bytes = std::fs::read(&archive).unwrap();
        std::fs::write(&archive, &bytes[..bytes.len() - 5]).unwrap();
        assert!(unpacked(&archive, &target).is_err());
        assert!(unpacked(&archive, &target).is_err(), "the second time too");
    }

    #[test]
    fn every_golden_database_has_its_files() {
        let databases = golden_databases();
        assert_eq!(databases.len(), 177);
        for database in databases {
            assert!(database.join("CURRENT").is_file(), "{}", database.display());
            assert!(database.with_file_name("expected.tsv").is_file(), "{}", database.display());
        }
    }
}
