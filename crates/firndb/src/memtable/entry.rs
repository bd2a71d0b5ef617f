//! One entry of a memtable, as it lies in the arena.
//!
//! ```text
//! entry = varint32 length of the internal key | internal key | varint32 length of the value | value | protection
//! ```
//!
//! The protection is absent unless the memtable keeps one; its length is the memtable's to know.
//!
//! Entries are written once, before the index publishes their address, and never change afterwards.

use firn_error::Result;
use firn_format::key::{FOOTER_SIZE, SequenceNumber, ValueType, pack_footer};
use firn_format::protection::Protection;

use super::arena::Arena;
use super::checks::verify;

/// Bytes that `number` takes as a varint.
const fn varint_bytes(number: u32) -> usize {
    (38 - (number | 1).leading_zeros() as usize) / 7
}

/// Space for one entry, not yet written.
pub(crate) struct Reservation {
    start: *mut u8,
    total: usize,
}

impl Reservation {
    /// Writes the entry. Key, value and protection must be as long as was said when the space was taken.
    #[inline]
    pub(crate) fn write(
        self,
        user_key: &[u8],
        sequence: SequenceNumber,
        value_type: ValueType,
        value: &[u8],
        protection: &[u8],
    ) -> Entry {
        let Self { start, total } = self;
        let ikey_bytes = user_key.len() + FOOTER_SIZE;
        let plain = varint_bytes(ikey_bytes as u32) + ikey_bytes + varint_bytes(value.len() as u32) + value.len();
        let needed = plain + protection.len();
        assert!(needed <= total, "an entry fits its reservation");
        // SAFETY: the arena handed out `total` bytes at `start` to this reservation alone; the pieces written below add up
        // to `needed`. The sources are not in those bytes, since those are new.
        unsafe {
            let at = put_varint(start, ikey_bytes as u32);
            std::ptr::copy_nonoverlapping(user_key.as_ptr(), at, user_key.len());
            let at = at.add(user_key.len());
            let footer = pack_footer(sequence, value_type).to_le_bytes();
            std::ptr::copy_nonoverlapping(footer.as_ptr(), at, FOOTER_SIZE);
            let at = put_varint(at.add(FOOTER_SIZE), value.len() as u32);
            std::ptr::copy_nonoverlapping(value.as_ptr(), at, value.len());
            let at = at.add(value.len());
            if !protection.is_empty() {
                std::ptr::copy_nonoverlapping(protection.as_ptr(), at, protection.len());
            }
            debug_assert_eq!(at.add(protection.len()), start.add(needed));
        }
        Entry(start)
    }
}

/// The address of a complete entry in an arena that is still alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry(*const u8);

impl Entry {
    /// Takes the space for an entry of these sizes from `arena`.
    ///
    /// The caller has checked that key and value are shorter than 4 GiB - 9.
    #[inline]
    pub(crate) fn reserve(
        arena: &Arena,
        user_key_bytes: usize,
        value_bytes: usize,
        protection_bytes: usize,
    ) -> Reservation {
        let ikey_bytes = user_key_bytes + FOOTER_SIZE;
        let plain = varint_bytes(ikey_bytes as u32) + ikey_bytes + varint_bytes(value_bytes as u32) + value_bytes;
        let total = plain + protection_bytes;
        Reservation { start: arena.allocate(total, 1), total }
    }

    /// Takes back an address that [`address`](Self::address) gave.
    ///
    /// # Safety
    /// `address` came from an entry whose arena is still alive, and everything written to the entry happened before.
    #[inline]
    pub(crate) unsafe fn from_address(address: *mut u8) -> Self {
        Self(address)
    }

    /// The address of the entry.
    #[inline]
    pub(crate) fn address(self) -> *mut u8 {
        self.0.cast_mut()
    }

    /// The user key and the footer.
    ///
    /// # Safety
    /// The arena must outlive `'a`.
    #[inline]
    pub(crate) unsafe fn key_parts<'a>(self) -> (&'a [u8], u64) {
        // SAFETY: a complete entry starts here and its arena is alive (contract).
        unsafe {
            let ikey = self.ikey();
            let user_bytes = ikey.len() - FOOTER_SIZE;
            let footer = ikey.as_ptr().add(user_bytes).cast::<u64>().read_unaligned();
            (ikey.get_unchecked(..user_bytes), u64::from_le(footer))
        }
    }

    /// The encoded internal key.
    ///
    /// # Safety
    /// The arena must outlive `'a`.
    #[inline]
    pub(crate) unsafe fn ikey<'a>(self) -> &'a [u8] {
        // SAFETY: a complete entry starts here and its arena is alive (contract).
        unsafe {
            let (bytes, at) = get_varint(self.0);
            std::slice::from_raw_parts(at, bytes)
        }
    }

    /// The encoded internal key and the value.
    ///
    /// # Safety
    /// The arena must outlive `'a`.
    #[inline]
    pub(crate) unsafe fn key_and_value<'a>(self) -> (&'a [u8], &'a [u8]) {
        // SAFETY: as for `ikey`; the value follows the key.
        unsafe {
            let (key_bytes, key) = get_varint(self.0);
            let (value_bytes, value) = get_varint(key.add(key_bytes));
            (std::slice::from_raw_parts(key, key_bytes), std::slice::from_raw_parts(value, value_bytes))
        }
    }

    /// The protection that was written behind the value.
    ///
    /// # Safety
    /// The arena must outlive `'a`, and the entry have been written with so many `bytes` of protection.
    #[inline]
    pub(crate) unsafe fn protection<'a>(self, bytes: usize) -> &'a [u8] {
        // SAFETY: as for `key_and_value`; the protection follows the value (contract). It is reached from the address of
        // the entry: what a slice of the value points to ends with the value.
        unsafe {
            let (key_bytes, key) = get_varint(self.0);
            let (value_bytes, value) = get_varint(key.add(key_bytes));
            std::slice::from_raw_parts(value.add(value_bytes), bytes)
        }
    }

    /// Compares key and value, as they lie in the arena, with `protection`.
    ///
    /// # Errors
    /// `Corruption` when they are not what it was made of.
    ///
    /// # Safety
    /// The arena must be alive.
    pub(crate) unsafe fn check_protection(self, protection: Protection) -> Result<()> {
        // SAFETY: the arena is alive (contract).
        let (ikey, value) = unsafe { self.key_and_value() };
        verify(ikey, value, &protection.to_bytes())
    }
}

/// Writes `number` at `at` and returns the address after it.
///
/// # Safety
/// `varint_bytes(number)` bytes at `at` must be the caller's to write.
#[inline]
unsafe fn put_varint(mut at: *mut u8, mut number: u32) -> *mut u8 {
    // SAFETY: writes `varint_bytes(number)` bytes (contract).
    unsafe {
        while number >= 0x80 {
            at.write(number as u8 | 0x80);
            number >>= 7;
            at = at.add(1);
        }
        at.write(number as u8);
        at.add(1)
    }
}

/// Reads a varint at `at`; returns it and the address after it.
///
/// # Safety
/// A varint written by [`put_varint`] must start at `at`.
#[inline]
unsafe fn get_varint(at: *const u8) -> (usize, *const u8) {
    // SAFETY: stays inside the varint, whose last byte has its top bit clear (contract).
    unsafe {
        let first = at.read();
        if first < 0x80 {
            return (usize::from(first), at.add(1));
        }
        let (mut number, mut shift, mut at) = (usize::from(first & 0x7f), 7, at.add(1));
        loop {
            let byte = at.read();
            at = at.add(1);
            number |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return (number, at);
            }
            shift += 7;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_read_back() {
        let arena = Arena::new(4096, false, 0);
        for (key_bytes, value_bytes) in [(0, 0), (1, 127), (119, 128), (120, 300), (5000, 20_000)] {
            let (key, value) = (vec![7; key_bytes], vec![9; value_bytes]);
            let reservation = Entry::reserve(&arena, key_bytes, value_bytes, 2);
            let entry = reservation.write(&key, SequenceNumber(77), ValueType::Merge, &value, b"pp");
            // SAFETY: the arena is alive, and two bytes of protection were written.
            assert_eq!(unsafe { entry.protection(2) }, b"pp");
            // SAFETY: the arena is alive.
            let ((user_key, footer), (ikey, read)) = unsafe { (entry.key_parts(), entry.key_and_value()) };
            assert_eq!((user_key, footer), (&key[..], pack_footer(SequenceNumber(77), ValueType::Merge)));
            assert_eq!((ikey.len(), read), (key_bytes + 8, &value[..]));
        }
    }

    #[test]
    fn varint_sizes() {
        for (number, bytes) in [(0, 1), (127, 1), (128, 2), (16_383, 2), (16_384, 3), (u32::MAX, 5)] {
            assert_eq!(varint_bytes(number), bytes);
        }
    }
}
