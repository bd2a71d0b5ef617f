//! The compressed form of a logical record: one zstd frame with its content size and checksum.
//!
//! Without the `zstd` feature both directions answer `NotSupported` before anything is written or read.

#[cfg(feature = "zstd")]
pub(super) use with_zstd::{Compressor, Decompressor};
#[cfg(not(feature = "zstd"))]
pub(super) use without_zstd::{Compressor, Decompressor};

#[cfg(feature = "zstd")]
mod with_zstd {
    use crate::log::BLOCK_SIZE;
    use crate::{Error, Result};
    use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

    /// The greatest size of a decompressed record: what a write batch can be.
    const MAX_RECORD_BYTES: usize = u32::MAX as usize;

    /// Makes the frame of one logical record.
    pub(in crate::log) struct Compressor {
        zstd: zstd::bulk::Compressor<'static>,
        /// The record before compression; filled by the owner.
        pub(in crate::log) plain: Vec<u8>,
        /// Its frame, after [`compress`](Self::compress).
        pub(in crate::log) frame: Vec<u8>,
    }

    impl Compressor {
        pub(in crate::log) fn new() -> Result<Self> {
            let setup = || {
                let mut zstd = zstd::bulk::Compressor::new(zstd::DEFAULT_COMPRESSION_LEVEL)?;
                zstd.include_checksum(true)?;
                zstd.include_contentsize(true)?;
                Ok(zstd)
            };
            let zstd = setup().map_err(|error: std::io::Error| {
                Error::invalid_argument(format!("zstd compressor for the WAL: {error}"))
            })?;
            Ok(Self { zstd, plain: Vec::new(), frame: Vec::new() })
        }

        pub(in crate::log) fn compress(&mut self) -> Result<()> {
            self.frame.clear();
            self.frame.reserve(zstd::zstd_safe::compress_bound(self.plain.len()));
            match self.zstd.compress_to_buffer(&self.plain, &mut self.frame) {
                Ok(_) => Ok(()),
                Err(error) => Err(Error::io_error(format!("compressing a WAL record: {error}"))),
            }
        }
    }

    /// Decompresses the frame of one logical record, fragment by fragment.
    pub(in crate::log) struct Decompressor {
        zstd: Decoder<'static>,
        /// What was decompressed since [`begin`](Self::begin).
        pub(in crate::log) output: Vec<u8>,
        scratch: Box<[u8]>,
    }

    impl Decompressor {
        pub(in crate::log) fn new() -> Result<Self> {
            let zstd = Decoder::new().map_err(|error| Error::corruption(format!("zstd decompressor: {error}")))?;
            Ok(Self { zstd, output: Vec::new(), scratch: vec![0; BLOCK_SIZE].into_boxed_slice() })
        }

        pub(in crate::log) fn begin(&mut self) {
            self.output.clear();
            // A failure here shows again when the frame is fed.
            let _ = self.zstd.reinit();
        }

        pub(in crate::log) fn feed(&mut self, fragment: &[u8]) -> Result<()> {
            let mut input = InBuffer::around(fragment);
            loop {
                let mut output = OutBuffer::around(&mut self.scratch[..]);
                let hint = self.zstd.run(&mut input, &mut output);
                let produced = output.pos();
                if let Err(error) = hint {
                    return Err(Error::corruption(format!("could not decompress a record: {error}")));
                }
                if self.output.len() + produced > MAX_RECORD_BYTES {
                    return Err(Error::corruption("compressed record is too large"));
                }
                self.output.extend_from_slice(self.scratch.get(..produced).unwrap_or(&[]));
                // A full scratch buffer may mean that more output waits although the input is used up.
                if input.pos() == fragment.len() && produced < self.scratch.len() {
                    return Ok(());
                }
            }
        }
    }
}

#[cfg(not(feature = "zstd"))]
mod without_zstd {
    use crate::{Error, Result};

    fn unavailable() -> Error {
        Error::not_supported("WAL compression needs the feature zstd")
    }

    pub(in crate::log) struct Compressor {
        pub(in crate::log) plain: Vec<u8>,
        pub(in crate::log) frame: Vec<u8>,
    }

    impl Compressor {
        pub(in crate::log) fn new() -> Result<Self> {
            Err(unavailable())
        }

        pub(in crate::log) fn compress(&mut self) -> Result<()> {
            Err(unavailable())
        }
    }

    pub(in crate::log) struct Decompressor {
        pub(in crate::log) output: Vec<u8>,
    }

    impl Decompressor {
        pub(in crate::log) fn new() -> Result<Self> {
            Err(unavailable())
        }

        pub(in crate::log) fn begin(&mut self) {}

        pub(in crate::log) fn feed(&mut self, _fragment: &[u8]) -> Result<()> {
            Err(unavailable())
        }
    }
}
