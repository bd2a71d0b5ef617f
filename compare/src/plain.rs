//! Direct reads of a store's files without the store: what the kernel and the device take by themselves.

use std::path::Path;

use crate::Fallible;

/// The large files of a store.
pub struct PlainFiles {
    files: Vec<(std::fs::File, u64)>,
    block: usize,
}

/// Direct reads want their memory aligned.
const ALIGNMENT: usize = 4096;
/// Files of fewer blocks are none of the store's tables.
const BLOCKS_MIN: u64 = 64;

impl PlainFiles {
    /// All files of a directory that are large enough.
    pub fn open(path: &Path, block: usize) -> Fallible<Self> {
        use std::os::unix::fs::OpenOptionsExt;
        let mut files = Vec::new();
        for entry in std::fs::read_dir(path)? {
            let entry = entry?;
            let blocks = entry.metadata()?.len() / block as u64;
            let is_log = entry.path().extension().is_some_and(|extension| extension == "log");
            if blocks >= BLOCKS_MIN && entry.file_type()?.is_file() && !is_log {
                let direct = nix::fcntl::OFlag::O_DIRECT.bits();
                let mut options = std::fs::OpenOptions::new();
                files.push((options.read(true).custom_flags(direct).open(entry.path())?, blocks));
            }
        }
        if files.is_empty() {
            return Err("no file is large enough for plain reads".into());
        }
        Ok(Self { files, block })
    }

    /// Memory for reads.
    pub fn buffer(&self) -> Vec<u8> {
        vec![0; self.block + ALIGNMENT]
    }

    /// Reads one block at a random place.
    pub fn read(&self, random: &mut fastrand::Rng, buffer: &mut [u8]) -> Fallible<()> {
        use std::os::unix::fs::FileExt;
        let (file, blocks) = &self.files[random.usize(..self.files.len())];
        let skip = buffer.as_ptr().align_offset(ALIGNMENT);
        let place = random.u64(..*blocks) * self.block as u64;
        file.read_exact_at(&mut buffer[skip..skip + self.block], place)?;
        Ok(())
    }
}
