//! Taking an input apart: flags first, then lists of byte strings, whatever the input is.

use arbitrary::Unstructured;

/// Takes the first byte off as flags; 0 when there is none.
pub fn flags(data: &[u8]) -> (u8, &[u8]) {
    data.split_first().map_or((0, data), |(&flags, rest)| (flags, rest))
}

/// True for one input in `every`, by the sum of its bytes, for what takes much longer than the rest. A flag would not do:
/// inputs that reach more are kept and varied more often.
pub fn rarely(data: &[u8], every: u8) -> bool {
    data.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)).is_multiple_of(every)
}

/// Splits `data` into pieces, each after its length as two little-endian bytes; the last one may be cut short.
pub fn pieces(mut data: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = data.split_first_chunk::<2>()?;
        let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
        let (piece, rest) = rest.split_at(length);
        data = rest;
        Some(piece)
    })
}

/// The input of which [`pieces`] gives `pieces`, those that are too long left out.
pub fn join_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut joined = Vec::new();
    for piece in pieces {
        if let Ok(length) = u16::try_from(piece.len()) {
            joined.extend_from_slice(&length.to_le_bytes());
            joined.extend_from_slice(piece);
        }
    }
    joined
}

/// A number in `0..=max`; 0 when the input is used up.
pub fn number(input: &mut Unstructured<'_>, max: usize) -> usize {
    input.int_in_range(0..=max).unwrap_or_default()
}

/// One of two; `false` when the input is used up.
pub fn choice(input: &mut Unstructured<'_>) -> bool {
    input.arbitrary::<u8>().unwrap_or_default() & 1 == 1
}

/// Up to `max` bytes.
pub fn bytes<'a>(input: &mut Unstructured<'a>, max: usize) -> &'a [u8] {
    let length = number(input, max).min(input.len());
    input.bytes(length).unwrap_or_default()
}
