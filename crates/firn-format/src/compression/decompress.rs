//! From stored payloads to raw blocks.
//!
//! Payload, type, dictionary and a limit flow in; the raw bytes or an error flow out. A size prefix is believed only as
//! far as the algorithm could have reached from the payload's length and as the caller's limit allows, and memory beyond
//! that is touched only as output really arrives.
//!
//! Always true here: on success the output is exactly as long as the prefix says; contexts live per thread.

use super::{CompressionType, MAX_RAW_BLOCK_BYTES, SizeFormat};
use crate::varint::{get_fixed64, get_varint64};
use crate::{Error, Result};

/// The dictionary of a table in the form its blocks' readers need; cheap to share behind an `Arc`.
pub struct DecompressionDictionary {
    bytes: Vec<u8>,
    /// Digested on first use by a ZSTD block; `None` inside when ZSTD refuses the bytes.
    #[cfg(feature = "zstd")]
    zstd: std::sync::OnceLock<Option<zstd::zstd_safe::DDict<'static>>>,
}

impl DecompressionDictionary {
    /// Takes the payload of the table's dictionary block.
    ///
    /// # Errors
    /// `Corruption` when it is empty.
    pub fn new(bytes: Vec<u8>) -> Result<Self> {
        if bytes.is_empty() {
            return Err(Error::corruption("Decompression dictionary is empty"));
        }
        Ok(Self {
            bytes,
            #[cfg(feature = "zstd")]
            zstd: std::sync::OnceLock::new(),
        })
    }

    /// The dictionary as it stands in the table.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of memory this takes, for accounting.
    pub fn memory_bytes(&self) -> usize {
        let digested = {
            #[cfg(feature = "zstd")]
            {
                self.zstd.get().and_then(Option::as_ref).map_or(0, zstd::zstd_safe::DDict::sizeof)
            }
            #[cfg(not(feature = "zstd"))]
            {
                0
            }
        };
        size_of::<Self>() + self.bytes.capacity() + digested
    }

    #[cfg(feature = "zstd")]
    fn zstd(&self) -> Result<&zstd::zstd_safe::DDict<'static>> {
        self.zstd
            .get_or_init(|| zstd::zstd_safe::DDict::try_create(&self.bytes))
            .as_ref()
            .ok_or_else(|| Error::corruption("Decompression dictionary refused by ZSTD"))
    }
}

impl std::fmt::Debug for DecompressionDictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DecompressionDictionary").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

#[cold]
fn corrupt(kind: CompressionType, what: impl std::fmt::Display) -> Error {
    Error::corruption(format!("Corrupted compressed block contents: {}: {what}", kind.property_name()))
}

/// Decompresses `payload` into `out`, whose bytes it replaces and whose capacity it keeps for the next block.
///
/// `max_bytes` bounds the raw size; pass [`MAX_RAW_BLOCK_BYTES`] when nothing better is known. On error `out` holds
/// unspecified bytes.
///
/// # Errors
/// `NotSupported` when this build cannot read the type; `Corruption` when the payload is damaged, its size prefix is
/// not plausible, or the output would exceed `max_bytes`.
pub fn decompress(
    kind: CompressionType,
    size_format: SizeFormat,
    dictionary: Option<&DecompressionDictionary>,
    payload: &[u8],
    max_bytes: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    // Snappy and LZ4 write over all of the old bytes: no need to clear as many again.
    if !matches!(kind, CompressionType::Snappy | CompressionType::Lz4 | CompressionType::Lz4hc) {
        out.clear();
    }
    let max_bytes = max_bytes.min(MAX_RAW_BLOCK_BYTES);
    match kind {
        CompressionType::None => {
            if payload.len() > max_bytes {
                return Err(corrupt(kind, "block exceeds the size limit"));
            }
            out.extend_from_slice(payload);
            Ok(())
        }
        #[cfg(feature = "snappy")]
        CompressionType::Snappy => snappy(payload, max_bytes, out),
        #[cfg(feature = "zlib")]
        CompressionType::Zlib => zlib(size_format, dictionary, payload, max_bytes, out),
        #[cfg(feature = "bzip2")]
        CompressionType::Bzip2 => bzip2(size_format, payload, max_bytes, out),
        #[cfg(feature = "lz4")]
        CompressionType::Lz4 | CompressionType::Lz4hc => lz4(size_format, dictionary, payload, max_bytes, out),
        #[cfg(feature = "zstd")]
        CompressionType::Zstd | CompressionType::ZstdNotFinal => zstd(dictionary, payload, max_bytes, out),
        #[allow(unreachable_patterns)]
        _ => {
            let _ = (size_format, dictionary);
            Err(kind.unsupported())
        }
    }
}

/// [`decompress`] into a new vector.
///
/// # Errors
/// As [`decompress`].
pub fn decompress_to_vec(
    kind: CompressionType,
    size_format: SizeFormat,
    dictionary: Option<&DecompressionDictionary>,
    payload: &[u8],
    max_bytes: usize,
) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    decompress(kind, size_format, dictionary, payload, max_bytes, &mut out)?;
    Ok(out)
}

/// Checks a claimed raw size against the limit and against the most that `payload_bytes` could expand to.
fn check_size(kind: CompressionType, claimed: u64, payload_bytes: usize, max_bytes: usize) -> Result<usize> {
    let max_expansion: u64 = match kind {
        CompressionType::Snappy => 32,
        CompressionType::Lz4 | CompressionType::Lz4hc => 255,
        CompressionType::Zlib => 1032,
        // These repeat almost for free; their output buffers are reserved, not touched, ahead of the data.
        _ => u64::MAX,
    };
    let reachable = (payload_bytes as u64).saturating_mul(max_expansion).saturating_add(64);
    if claimed > max_bytes as u64 || claimed > reachable {
        return Err(corrupt(kind, format_args!("size prefix {claimed} for {payload_bytes} bytes is not plausible")));
    }
    Ok(claimed as usize)
}

/// Raw sizes up to so many bytes are reserved on the word of a size prefix.
const TRUSTED_BYTES: usize = 1 << 20;

/// Splits the size prefix off `payload`.
fn read_size(kind: CompressionType, fixed: bool, payload: &mut &[u8], max_bytes: usize) -> Result<usize> {
    let claimed = if fixed { get_fixed64(payload) } else { get_varint64(payload) };
    let claimed = claimed.map_err(|_| corrupt(kind, "truncated size prefix"))?;
    check_size(kind, claimed, payload.len(), max_bytes)
}

fn reserve(kind: CompressionType, out: &mut Vec<u8>, bytes: usize) -> Result<()> {
    out.try_reserve_exact(bytes).map_err(|_| corrupt(kind, format_args!("no memory for {bytes} bytes")))
}

fn check_length(kind: CompressionType, produced: usize, expected: usize) -> Result<()> {
    if produced == expected {
        Ok(())
    } else {
        Err(corrupt(kind, format_args!("decompressed to {produced} bytes instead of {expected}")))
    }
}

#[cfg(feature = "snappy")]
fn snappy(payload: &[u8], max_bytes: usize, out: &mut Vec<u8>) -> Result<()> {
    let kind = CompressionType::Snappy;
    let claimed = snap::raw::decompress_len(payload).map_err(|error| corrupt(kind, error))?;
    let expected = check_size(kind, claimed as u64, payload.len(), max_bytes)?;
    out.resize(expected, 0);
    let produced = snap::raw::Decoder::new().decompress(payload, out).map_err(|error| corrupt(kind, error))?;
    check_length(kind, produced, expected)
}

#[cfg(feature = "lz4")]
fn lz4(
    size_format: SizeFormat,
    dictionary: Option<&DecompressionDictionary>,
    mut payload: &[u8],
    max_bytes: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    let kind = CompressionType::Lz4;
    let expected = read_size(kind, size_format == SizeFormat::V1, &mut payload, max_bytes)?;
    if payload.len() > i32::MAX as usize {
        return Err(corrupt(kind, "payload too long"));
    }
    out.resize(expected, 0);
    let produced = match dictionary {
        None => lzzzz::lz4::decompress(payload, out),
        Some(dictionary) => lzzzz::lz4::decompress_with_dict(payload, out, dictionary.bytes()),
    }
    .map_err(|error| corrupt(kind, error))?;
    check_length(kind, produced, expected)
}

#[cfg(feature = "zlib")]
fn zlib(
    size_format: SizeFormat,
    dictionary: Option<&DecompressionDictionary>,
    mut payload: &[u8],
    max_bytes: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    use std::cell::RefCell;
    thread_local! {
        static STREAM: RefCell<flate2::Decompress> = RefCell::new(flate2::Decompress::new(false));
    }
    let kind = CompressionType::Zlib;
    let expected = match size_format {
        SizeFormat::V1 => None,
        SizeFormat::V2 => Some(read_size(kind, false, &mut payload, max_bytes)?),
    };
    let limit = expected.unwrap_or(max_bytes);
    STREAM.with(|stream| {
        let stream = &mut *stream.borrow_mut();
        stream.reset(false);
        if let Some(dictionary) = dictionary {
            stream.set_dictionary(dictionary.bytes()).map_err(|error| corrupt(kind, error))?;
        }
        grow_until_end(kind, expected, limit, payload.len(), out, |out| {
            let done = payload.get(stream.total_in() as usize..).unwrap_or_default();
            match stream.decompress_vec(done, out, flate2::FlushDecompress::None) {
                Ok(status) => Ok(status == flate2::Status::StreamEnd),
                Err(error) => Err(corrupt(kind, error)),
            }
        })
    })
}

#[cfg(feature = "bzip2")]
fn bzip2(size_format: SizeFormat, mut payload: &[u8], max_bytes: usize, out: &mut Vec<u8>) -> Result<()> {
    let kind = CompressionType::Bzip2;
    let expected = match size_format {
        SizeFormat::V1 => None,
        SizeFormat::V2 => Some(read_size(kind, false, &mut payload, max_bytes)?),
    };
    let limit = expected.unwrap_or(max_bytes);
    let mut stream = bzip2::Decompress::new(false);
    grow_until_end(kind, expected, limit, payload.len(), out, |out| {
        let rest = payload.get(stream.total_in() as usize..).unwrap_or_default();
        match stream.decompress_vec(rest, out) {
            Ok(status) => Ok(status == bzip2::Status::StreamEnd),
            Err(error) => Err(corrupt(kind, error)),
        }
    })
}

/// Calls `step` until it reports the end of the stream, with more output space each time the last was used up.
///
/// One byte more than expected is offered, so that a stream that is too long shows itself.
#[cfg(any(feature = "zlib", feature = "bzip2"))]
fn grow_until_end(
    kind: CompressionType,
    expected: Option<usize>,
    limit: usize,
    payload_bytes: usize,
    out: &mut Vec<u8>,
    mut step: impl FnMut(&mut Vec<u8>) -> Result<bool>,
) -> Result<()> {
    let likely = payload_bytes.saturating_mul(if expected.is_some() { 32 } else { 4 }).clamp(4096, limit.max(4096));
    let first = expected.unwrap_or(likely).min(likely.max(TRUSTED_BYTES));
    reserve(kind, out, first.saturating_add(1))?;
    loop {
        let before = out.len();
        let ended = step(out)?;
        if out.len() > limit {
            return Err(corrupt(kind, format_args!("decompressed to more than {limit} bytes")));
        }
        if ended {
            return check_length(kind, out.len(), expected.unwrap_or(out.len()));
        }
        if out.len() == out.capacity() {
            let more = out.capacity().min(limit - out.len()).saturating_add(1);
            reserve(kind, out, more)?;
        } else if out.len() == before {
            return Err(corrupt(kind, "truncated"));
        }
    }
}

#[cfg(feature = "zstd")]
fn zstd(
    dictionary: Option<&DecompressionDictionary>,
    mut payload: &[u8],
    max_bytes: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    use std::cell::RefCell;
    use zstd::zstd_safe::{DCtx, get_error_name};
    thread_local! {
        static CONTEXT: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
    }
    let kind = CompressionType::Zstd;
    let expected = read_size(kind, false, &mut payload, max_bytes)?;
    // The frame tells its size, too: a prefix that claims more than that is refused before it costs memory.
    if expected > TRUSTED_BYTES
        && let Ok(Some(size)) = zstd::zstd_safe::get_frame_content_size(payload)
    {
        check_length(kind, usize::try_from(size).unwrap_or(usize::MAX), expected)?;
    }
    reserve(kind, out, expected)?;
    CONTEXT.with(|context| {
        let context = &mut *context.borrow_mut();
        let context = match context {
            Some(context) => context,
            None => context
                .insert(DCtx::try_create().ok_or_else(|| corrupt(kind, "no memory for a decompression context"))?),
        };
        let produced = match dictionary {
            None => context.decompress(out, payload),
            Some(dictionary) => context.decompress_using_ddict(out, payload, dictionary.zstd()?),
        }
        .map_err(|code| corrupt(kind, get_error_name(code)))?;
        check_length(kind, produced, expected)
    })
}
