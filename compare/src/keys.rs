//! Keys and values, the same streams for every store: 16-byte keys as `db_bench` lays them out, and values that
//! compress to half.

/// Bytes of a key.
pub const KEY_BYTES: usize = 16;
/// Bytes of a value.
pub const VALUE_BYTES: usize = 100;
/// Bytes of an entry, the unit of amplifications.
pub const ENTRY_BYTES: u64 = (KEY_BYTES + VALUE_BYTES) as u64;

/// A key.
pub type Key = [u8; KEY_BYTES];

/// The key of a number: big-endian, then zeros in ASCII.
pub fn key(number: u64) -> Key {
    let mut key = [b'0'; KEY_BYTES];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

/// Values cut out of a pool in which every second half is a repetition.
pub struct Values {
    pool: Vec<u8>,
    at: usize,
}

impl Values {
    /// The values of one thread.
    pub fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut pool = Vec::with_capacity(1 << 20);
        while pool.len() < 1 << 20 {
            let half: Vec<u8> = std::iter::repeat_with(|| random.u8(b' '..=b'~')).take(VALUE_BYTES / 2).collect();
            pool.extend_from_slice(&half);
            pool.extend_from_slice(&half);
        }
        Self { pool, at: 0 }
    }

    /// The next value.
    pub fn next(&mut self) -> &[u8] {
        if self.at + VALUE_BYTES > self.pool.len() {
            self.at = 0;
        }
        let value = &self.pool[self.at..self.at + VALUE_BYTES];
        self.at += VALUE_BYTES;
        value
    }
}
