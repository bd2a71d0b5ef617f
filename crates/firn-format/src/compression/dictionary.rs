//! Making a compression dictionary from samples.
//!
//! Samples (pieces of raw blocks, one after another) flow in; the dictionary to store in the table and to give to the
//! [`Compressor`](super::Compressor) flows out. Sampling itself is the table writer's.

use super::{CompressionOptions, CompressionType};

/// The dictionary for a table written with `kind`; empty when none should be stored.
///
/// `samples` is the concatenation of pieces of the lengths `sample_lengths`. For ZSTD with `zstd_max_train_bytes` > 0 and
/// `use_zstd_dict_trainer` the dictionary is trained, and a failed training gives none; otherwise the samples
/// themselves, up to `max_dict_bytes`, are the dictionary.
pub fn build_dictionary(
    kind: CompressionType,
    options: &CompressionOptions,
    samples: &[u8],
    sample_lengths: &[usize],
) -> Vec<u8> {
    let max_bytes = options.max_dict_bytes as usize;
    if max_bytes == 0 || samples.is_empty() {
        return Vec::new();
    }
    if kind == CompressionType::Zstd && options.zstd_max_train_bytes > 0 && options.use_zstd_dict_trainer {
        return train_zstd(samples, sample_lengths, max_bytes);
    }
    samples.get(..max_bytes).unwrap_or(samples).to_vec()
}

#[cfg(feature = "zstd")]
fn train_zstd(samples: &[u8], sample_lengths: &[usize], max_bytes: usize) -> Vec<u8> {
    let total = sample_lengths.iter().try_fold(0usize, |total, &length| total.checked_add(length));
    if total != Some(samples.len()) {
        return Vec::new();
    }
    let mut dictionary = Vec::with_capacity(max_bytes);
    match zstd::zstd_safe::train_from_buffer(&mut dictionary, samples, sample_lengths) {
        Ok(_) => dictionary,
        Err(_) => Vec::new(),
    }
}

#[cfg(not(feature = "zstd"))]
fn train_zstd(_samples: &[u8], _sample_lengths: &[usize], _max_bytes: usize) -> Vec<u8> {
    Vec::new()
}
