//! Where the files of a database lie.
//!
//! The database directory holds CURRENT, MANIFEST, OPTIONS, IDENTITY, LOCK and LOG; WALs lie there too or in `wal_dir`;
//! tables lie in the database directory or in the paths of the database or column family, chosen by path id.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_env::{Directory, FileSystem};
use firn_error::Result;
use firn_format::filename;
use firn_format::key::FileNumber;

use crate::options::{ColumnFamilyOptions, DbOptions};

/// The directories of a database.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// The database directory.
    pub(crate) db_dir: PathBuf,
    /// Where WALs lie.
    pub(crate) wal_dir: PathBuf,
    /// Where tables lie, by path id; never empty.
    pub(crate) db_paths: Vec<PathBuf>,
}

impl Layout {
    /// The directories that `options` describe for the database at `db_dir`.
    pub(crate) fn new(db_dir: &Path, options: &DbOptions) -> Self {
        let wal_dir = match options.wal_dir.as_str() {
            "" => db_dir.to_path_buf(),
            dir => PathBuf::from(dir),
        };
        let mut db_paths: Vec<PathBuf> = options.db_paths.iter().map(|path| PathBuf::from(&path.path)).collect();
        if db_paths.is_empty() {
            db_paths.push(db_dir.to_path_buf());
        }
        Self { db_dir: db_dir.to_path_buf(), wal_dir, db_paths }
    }

    /// Whether WALs lie in a directory of their own.
    pub(crate) fn has_own_wal_dir(&self) -> bool {
        self.wal_dir != self.db_dir
    }

    /// Where the tables of a column family with `options` lie, by path id.
    pub(crate) fn table_dirs(&self, options: &ColumnFamilyOptions) -> Vec<PathBuf> {
        if options.cf_paths.is_empty() {
            return self.db_paths.clone();
        }
        options.cf_paths.iter().map(|path| PathBuf::from(&path.path)).collect()
    }

    /// The path of a WAL.
    pub(crate) fn wal(&self, number: FileNumber) -> PathBuf {
        self.wal_dir.join(filename::wal(number))
    }

    /// The directory of archived WALs.
    pub(crate) fn archive_dir(&self) -> PathBuf {
        self.wal_dir.join(filename::ARCHIVE_DIR)
    }

    /// Every directory that may hold files of the database, without repetition.
    pub(crate) fn all_dirs<'a>(&self, families: impl Iterator<Item = &'a ColumnFamilyOptions>) -> Vec<PathBuf> {
        let mut dirs = vec![self.db_dir.clone()];
        let others = self.db_paths.iter().cloned().chain(families.flat_map(|options| self.table_dirs(options)));
        for dir in others {
            if !dirs.contains(&dir) {
                dirs.push(dir);
            }
        }
        dirs
    }
}

/// The path of a table file in `dirs`, chosen by `path_id`; the first directory stands in for an unknown id.
pub(crate) fn table_path(dirs: &[PathBuf], path_id: u32, number: FileNumber) -> PathBuf {
    let dir = dirs.get(path_id as usize).or_else(|| dirs.first());
    dir.map_or_else(PathBuf::new, |dir| dir.join(filename::table(number)))
}

/// The directories that are synced when names in them change.
#[derive(Clone, Debug)]
pub(crate) struct DirectoryHandles {
    /// The directory of the WALs.
    pub(crate) wal: Arc<dyn Directory>,
}

impl DirectoryHandles {
    /// Opens the directories of `layout`.
    pub(crate) fn open(fs: &dyn FileSystem, layout: &Layout) -> Result<Self> {
        Ok(Self { wal: Arc::from(fs.new_directory(&layout.wal_dir)?) })
    }
}
