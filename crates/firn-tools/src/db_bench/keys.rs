//! Key layout: how a number becomes the bytes of a key.
//!
//! A number's low-order bytes stand big-endian behind an optional prefix and are followed by `0` characters. Pure.

/// Layout of all keys of one benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyLayout {
    /// Total bytes of a key.
    pub key_size: usize,
    /// Bytes of the prefix, 0 for none; matters only when `keys_per_prefix` is positive.
    pub prefix_size: usize,
    /// How many numbers share a prefix; 0 when keys carry no prefix.
    pub keys_per_prefix: u64,
}

/// Writes the low-order `out.len()` bytes of `value`, big-endian. `out` holds at most 8 bytes.
#[inline]
fn put_big_endian(value: u64, out: &mut [u8]) {
    let bytes = value.to_be_bytes();
    let skip = bytes.len() - out.len();
    out.copy_from_slice(&bytes[skip..]);
}

impl KeyLayout {
    /// Fills `out` (of `key_size` bytes) with the key of `value`; `num` is the size of the key space.
    #[inline]
    pub fn fill(&self, value: u64, num: u64, out: &mut [u8]) {
        debug_assert_eq!(out.len(), self.key_size);
        let mut position = 0;
        if let Some(prefixes) = num.checked_div(self.keys_per_prefix) {
            let prefixes = prefixes.max(1);
            let prefix_size = self.prefix_size.min(out.len());
            let (prefix, _) = out.split_at_mut(prefix_size);
            let (number, padding) = prefix.split_at_mut(prefix_size.min(8));
            put_big_endian(value % prefixes, number);
            padding.fill(b'0');
            position = prefix_size;
        }
        let rest = &mut out[position..];
        let digits = rest.len().min(8);
        let (number, padding) = rest.split_at_mut(digits);
        put_big_endian(value, number);
        padding.fill(b'0');
    }

    /// The key of `value` as a new vector.
    pub fn key(&self, value: u64, num: u64) -> Vec<u8> {
        let mut out = vec![0; self.key_size];
        self.fill(value, num, &mut out);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    #[test]
    fn vectors() {
        let rows: &[(usize, u64, usize, u64, u64, &str)] = &[
            (16, 0, 0, 1, 0, "00000000000000003030303030303030"),
            (16, 0, 0, 1, 258, "00000000000001023030303030303030"),
            (4, 0, 0, 1, 2, "00000002"),
            (20, 2, 10, 6, 0, "0000000000000000303000000000000000003030"),
            (20, 2, 10, 6, 4, "0000000000000001303000000000000000043030"),
            (20, 2, 10, 6, 5, "0000000000000002303000000000000000053030"),
        ];
        for &(key_size, keys_per_prefix, prefix_size, num, value, expected) in rows {
            let layout = KeyLayout { key_size, prefix_size, keys_per_prefix };
            assert_eq!(hex(&layout.key(value, num)), expected);
        }
    }

    #[test]
    fn any_sizes_fit() {
        for key_size in 0..24 {
            for prefix_size in 0..12 {
                let layout = KeyLayout { key_size, prefix_size, keys_per_prefix: 3 };
                assert_eq!(layout.key(u64::MAX, 2).len(), key_size);
            }
        }
    }
}
