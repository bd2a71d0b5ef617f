//! Checksums of whole table files, kept in the MANIFEST (`docs/format/manifest.md`, Files).
//!
//! A generator sees every byte that is appended to a new table; its result goes to the MANIFEST with the name of the
//! function. Later the same function over the whole file must give the same bytes. Always true here: the bytes are looked
//! at on their way to the file, so damage done behind that point is found.

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use firn_env::sync::Mutex;
use firn_env::{FileOptions, FileSync, FileSystem, WritableFile};
use firn_error::{Error, Result};
use firn_format::checksum::crc32c_extend;
use firn_format::version_edit::UNKNOWN_FILE_CHECKSUM_FUNC_NAME;

/// Bytes read at once when a file is verified.
const READ_BYTES: usize = 256 << 10;

/// Computes the checksum of one file from its bytes, front to back.
pub trait FileChecksumGenerator: Send + Debug {
    /// Takes the next bytes.
    fn update(&mut self, bytes: &[u8]);
    /// The checksum of all bytes taken.
    fn checksum(&self) -> Vec<u8>;
    /// The name of the function, which the MANIFEST keeps beside the checksum.
    fn name(&self) -> &str;
}

/// What a factory is told of a file.
#[derive(Clone, Copy, Debug)]
pub struct FileChecksumGenContext<'a> {
    /// The path of the file.
    pub file: &'a Path,
    /// The name of the function whose checksum is to be verified; empty for a new file, when the factory chooses.
    pub requested_function: &'a str,
}

/// Makes a generator for each file (`file_checksum_gen_factory`). Thread-safe.
pub trait FileChecksumGenFactory: Send + Sync + Debug {
    /// The name in option strings.
    fn name(&self) -> &str;
    /// A generator; `None` when the function asked for is not known.
    fn create(&self, context: &FileChecksumGenContext<'_>) -> Option<Box<dyn FileChecksumGenerator>>;
}

/// RocksDB's built-in factory: CRC32C over the whole file, four bytes in big-endian order, named `FileChecksumCrc32c`.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileChecksumGenCrc32cFactory;

/// The name of the function of [`FileChecksumGenCrc32cFactory`].
const CRC32C_FUNCTION: &str = "FileChecksumCrc32c";

#[derive(Debug)]
struct Crc32c(u32);

impl FileChecksumGenerator for Crc32c {
    fn update(&mut self, bytes: &[u8]) {
        self.0 = crc32c_extend(self.0, bytes);
    }

    fn checksum(&self) -> Vec<u8> {
        self.0.to_be_bytes().to_vec()
    }

    fn name(&self) -> &str {
        CRC32C_FUNCTION
    }
}

impl FileChecksumGenFactory for FileChecksumGenCrc32cFactory {
    fn name(&self) -> &str {
        "FileChecksumGenCrc32cFactory"
    }

    fn create(&self, context: &FileChecksumGenContext<'_>) -> Option<Box<dyn FileChecksumGenerator>> {
        matches!(context.requested_function, "" | CRC32C_FUNCTION).then(|| Box::new(Crc32c(0)) as _)
    }
}

/// The checksum of a file that is being written, complete once the file is.
#[derive(Clone, Debug)]
pub(crate) struct RunningChecksum(Arc<Mutex<Box<dyn FileChecksumGenerator>>>);

impl RunningChecksum {
    /// The checksum of what was written so far, and the name of the function.
    pub(crate) fn current(&self) -> (Vec<u8>, String) {
        let generator = self.0.lock();
        (generator.checksum(), generator.name().to_owned())
    }
}

/// Lets a generator of `factory` see what is appended to the new, empty `file`. Without a factory, or when it declines, the
/// file is given back as it is.
pub(crate) fn observe(
    file: Box<dyn WritableFile>,
    factory: Option<&dyn FileChecksumGenFactory>,
) -> (Box<dyn WritableFile>, Option<RunningChecksum>) {
    let context = FileChecksumGenContext { file: file.path(), requested_function: "" };
    let Some(generator) = factory.and_then(|factory| factory.create(&context)) else { return (file, None) };
    let checksum = RunningChecksum(Arc::new(Mutex::new(generator)));
    (Box::new(ObservedFile { file, checksum: checksum.clone() }), Some(checksum))
}

/// Reads the file at `path` and compares it with the checksum in the MANIFEST. A file that has none passes.
///
/// # Errors
/// `Corruption` naming the file when they differ; `InvalidArgument` when the factory does not know the function; `IoError`.
pub(crate) fn verify_file(
    fs: &dyn FileSystem,
    path: &Path,
    factory: &dyn FileChecksumGenFactory,
    checksum: &[u8],
    function: &str,
) -> Result<()> {
    if checksum.is_empty() || function == UNKNOWN_FILE_CHECKSUM_FUNC_NAME {
        return Ok(());
    }
    let context = FileChecksumGenContext { file: path, requested_function: function };
    let Some(mut generator) = factory.create(&context).filter(|generator| generator.name() == function) else {
        let factory = factory.name();
        return Err(Error::invalid_argument(format!("{factory} does not know the checksum function {function}"))
            .with_file(path));
    };
    let actual = digest(fs, path, &mut *generator)?;
    if actual == checksum {
        return Ok(());
    }
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
    let message =
        format!("{} file checksum mismatch: expecting {}, but actual {}", path.display(), hex(checksum), hex(&actual));
    // No place is known: the checksum is of the whole file.
    Err(Error::corruption(message).with_file(path).with_offset(0))
}

/// Whether the factory can compute `function`.
pub(crate) fn knows(factory: &dyn FileChecksumGenFactory, path: &Path, function: &str) -> bool {
    let context = FileChecksumGenContext { file: path, requested_function: function };
    factory.create(&context).is_some_and(|generator| generator.name() == function)
}

/// The checksum of the file at `path` and the name of its function; `None` when the factory declines.
///
/// # Errors
/// `IoError`.
pub(crate) fn compute(
    fs: &dyn FileSystem,
    path: &Path,
    factory: &dyn FileChecksumGenFactory,
) -> Result<Option<(Vec<u8>, String)>> {
    let context = FileChecksumGenContext { file: path, requested_function: "" };
    let Some(mut generator) = factory.create(&context) else { return Ok(None) };
    let checksum = digest(fs, path, &mut *generator)?;
    Ok(Some((checksum, generator.name().to_owned())))
}

/// The checksum of all bytes of the file at `path`.
fn digest(fs: &dyn FileSystem, path: &Path, generator: &mut dyn FileChecksumGenerator) -> Result<Vec<u8>> {
    let mut file = fs.new_sequential_file(path, &FileOptions::default())?;
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(generator.checksum());
        }
        generator.update(buffer.get(..read).unwrap_or_default());
    }
}

/// A file whose appends a generator sees first.
#[derive(Debug)]
struct ObservedFile {
    file: Box<dyn WritableFile>,
    checksum: RunningChecksum,
}

impl WritableFile for ObservedFile {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.checksum.0.lock().update(data);
        self.file.append(data)
    }

    fn flush(&mut self) -> Result<()> {
        self.file.flush()
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync()
    }

    fn fsync(&mut self) -> Result<()> {
        self.file.fsync()
    }

    fn range_sync(&mut self, offset: u64, bytes: u64) -> Result<()> {
        self.file.range_sync(offset, bytes)
    }

    /// The generator cannot forget bytes.
    fn truncate(&mut self, size: u64) -> Result<()> {
        let _ = size;
        Err(Error::not_supported("cutting a file whose checksum is computed").with_file(self.file.path()))
    }

    fn close(&mut self) -> Result<()> {
        self.file.close()
    }

    fn file_size(&self) -> u64 {
        self.file.file_size()
    }

    fn path(&self) -> &Path {
        self.file.path()
    }

    fn sync_handle(&self) -> Option<Arc<dyn FileSync>> {
        self.file.sync_handle()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firn_env::Env;

    #[test]
    fn files_are_summed_while_they_are_written_and_verified_by_reading() {
        let env = Env::memory();
        let path = Path::new("/000010.sst");
        let file = env.fs().new_writable_file(path, &FileOptions::default()).unwrap();
        let (mut file, checksum) = observe(file, Some(&FileChecksumGenCrc32cFactory));
        file.append(b"12345").unwrap();
        file.append(b"6789").unwrap();
        file.close().unwrap();
        let (checksum, function) = checksum.unwrap().current();
        // The check value of CRC-32C.
        assert_eq!((&checksum[..], function.as_str()), (&[0xe3, 0x06, 0x92, 0x83][..], "FileChecksumCrc32c"));
        let verify = |checksum: &[u8], function: &str| {
            verify_file(&**env.fs(), path, &FileChecksumGenCrc32cFactory, checksum, function)
        };
        verify(&checksum, &function).unwrap();
        verify(&[], "").unwrap();
        verify(b"junk", UNKNOWN_FILE_CHECKSUM_FUNC_NAME).unwrap();
        let error = verify(&[0xe3, 0x06, 0x92, 0x84], &function).unwrap_err();
        assert!(error.to_string().contains("expecting E3069284, but actual E3069283"), "{error}");
        assert_eq!(error.file(), Some(path));
        assert_eq!(verify(&checksum, "md5").unwrap_err().kind(), firn_error::ErrorKind::InvalidArgument);
    }
}
