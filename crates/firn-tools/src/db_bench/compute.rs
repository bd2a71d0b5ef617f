//! Benchmarks that touch no database: checksums, compression, atomic loads.

use std::sync::atomic::{AtomicPtr, Ordering};

use firn_format::checksum::{self, ChecksumType};
use firn_format::compression::{self, CompressionOptions, CompressionType, Compressor, SizeFormat};

use super::harness::{Failure, Worker};
use super::options::compression_type;
use super::stats::OpKind;

/// Bytes that the checksum benchmarks read in all.
const CHECKSUM_BYTES: u64 = 5000 << 20;
/// Bytes that `compress` compresses.
const COMPRESS_BYTES: u64 = 3 << 30;
/// Bytes that `uncompress` makes.
const UNCOMPRESS_BYTES: u64 = 20 << 30;

fn block_bytes(worker: &Worker<'_>) -> usize {
    usize::try_from(worker.job.bench.flags.block_size).unwrap_or(0).max(1)
}

fn checksum(worker: &mut Worker<'_>, kind: ChecksumType, op: OpKind) -> Result<(), Failure> {
    let size = block_bytes(worker);
    let block = vec![b'x'; size];
    let (mut bytes, mut value) = (0_u64, 0_u32);
    while bytes < CHECKSUM_BYTES {
        value = match kind {
            ChecksumType::Crc32c => checksum::crc32c(&block),
            _ => checksum::compute(kind, &block),
        };
        worker.stats.finished_ops(1, op);
        bytes += size as u64;
    }
    eprint!("... val=0x{value:x}\r");
    worker.stats.add_bytes(bytes);
    worker.stats.add_message(&format!("({size} per op)"));
    Ok(())
}

/// `crc32c`
pub fn crc32c(worker: &mut Worker<'_>) -> Result<(), Failure> {
    checksum(worker, ChecksumType::Crc32c, OpKind::Crc)
}

/// `xxhash`
pub fn xxhash(worker: &mut Worker<'_>) -> Result<(), Failure> {
    checksum(worker, ChecksumType::XxHash, OpKind::Hash)
}

/// `xxhash64`
pub fn xxhash64(worker: &mut Worker<'_>) -> Result<(), Failure> {
    checksum(worker, ChecksumType::XxHash64, OpKind::Hash)
}

/// `xxh3`
pub fn xxh3(worker: &mut Worker<'_>) -> Result<(), Failure> {
    checksum(worker, ChecksumType::Xxh3, OpKind::Hash)
}

/// A compressor as the flags ask for, or the message that says why there is none.
fn compressor(worker: &Worker<'_>) -> Result<Compressor, String> {
    let flags = &worker.job.bench.flags;
    let kind = compression_type(&flags.compression_type).unwrap_or(CompressionType::None);
    if kind == CompressionType::None {
        return Err("(compression type not supported)".to_owned());
    }
    // Blocks count as compressed whatever they shrink to.
    let options =
        CompressionOptions { level: flags.compression_level, max_compressed_bytes_per_kb: 1024, ..Default::default() };
    Compressor::new(kind, &options, SizeFormat::of_table(6), &[]).map_err(|e| format!("(compression failure: {e})"))
}

/// `compress`
pub fn compress(worker: &mut Worker<'_>) -> Result<(), Failure> {
    let size = block_bytes(worker);
    let input = worker.values.generate_sized(size).to_vec();
    let mut compressor = match compressor(worker) {
        Ok(compressor) => compressor,
        Err(message) => {
            worker.stats.add_message(&message);
            return Ok(());
        }
    };
    let mut out = Vec::new();
    let (mut bytes, mut produced) = (0_u64, 0_u64);
    while bytes < COMPRESS_BYTES {
        if compressor.compress(&input, &mut out) == CompressionType::None {
            worker.stats.add_message("(compression failure: the block does not shrink)");
            return Ok(());
        }
        produced += out.len() as u64;
        bytes += input.len() as u64;
        worker.stats.finished_ops(1, OpKind::Compress);
    }
    worker.stats.add_bytes(bytes);
    worker.stats.add_message(&format!("(output: {:.1}%)", produced as f64 * 100.0 / bytes as f64));
    Ok(())
}

/// `uncompress`
pub fn uncompress(worker: &mut Worker<'_>) -> Result<(), Failure> {
    let size = block_bytes(worker);
    let input = worker.values.generate_sized(size).to_vec();
    let mut compressor = match compressor(worker) {
        Ok(compressor) => compressor,
        Err(message) => {
            worker.stats.add_message(&message);
            return Ok(());
        }
    };
    let mut packed = Vec::new();
    let kind = compressor.compress(&input, &mut packed);
    if kind == CompressionType::None {
        worker.stats.add_message("(compression failure: the block does not shrink)");
        return Ok(());
    }
    let mut out = Vec::new();
    let mut bytes = 0_u64;
    while bytes < UNCOMPRESS_BYTES {
        if let Err(error) = compression::decompress(kind, SizeFormat::of_table(6), None, &packed, size, &mut out) {
            worker.stats.add_message(&format!("(compression failure: {error})"));
            return Ok(());
        }
        bytes += out.len() as u64;
        worker.stats.finished_ops(1, OpKind::Uncompress);
    }
    worker.stats.add_bytes(bytes);
    Ok(())
}

/// `acquireload`
pub fn acquire_load(worker: &mut Worker<'_>) -> Result<(), Failure> {
    const OPS: u32 = 100_000;
    const LOADS_PER_OP: u32 = 1000;
    let mut target = 0_i32;
    let pointer = AtomicPtr::new(&raw mut target);
    let mut seen = std::ptr::null_mut();
    for _ in 0..OPS {
        for _ in 0..LOADS_PER_OP {
            seen = std::hint::black_box(&pointer).load(Ordering::Acquire);
        }
        worker.stats.finished_ops(1, OpKind::Other);
    }
    debug_assert_eq!(seen, pointer.load(Ordering::Relaxed));
    worker.stats.add_message(&format!("(each op is {LOADS_PER_OP} loads)"));
    Ok(())
}
