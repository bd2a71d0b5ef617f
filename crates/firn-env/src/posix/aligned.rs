//! A byte buffer whose start lies on a page boundary, as direct I/O demands.
//!
//! It is an ordinary vector with one page to spare and the aligned part of it shown: no `unsafe`, and one extra page. Each
//! thread keeps one for its reads ([`with_buffer`]): to allocate and clear it costs as much as to read a block into it.

use std::cell::RefCell;

use super::DIRECT_ALIGNMENT;

/// A thread's buffer that is larger goes after its use.
const KEPT_BYTES_MAX: usize = 256 << 10;

thread_local! {
    static KEPT: RefCell<AlignedBuffer> = RefCell::new(AlignedBuffer::new(0));
}

/// Calls `run` with `bytes` bytes, aligned, of any contents.
pub(super) fn with_buffer<T>(bytes: usize, run: impl FnOnce(&mut [u8]) -> T) -> T {
    if bytes > KEPT_BYTES_MAX {
        return run(AlignedBuffer::new(bytes).as_mut_slice());
    }
    KEPT.with_borrow_mut(|kept| {
        if kept.bytes < bytes {
            *kept = AlignedBuffer::new(bytes.next_power_of_two());
        }
        run(kept.as_mut_slice().get_mut(..bytes).unwrap_or_default())
    })
}

#[derive(Debug)]
pub(super) struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl AlignedBuffer {
    /// A zeroed buffer of `bytes` bytes.
    pub(super) fn new(bytes: usize) -> Self {
        let memory = vec![0; bytes + DIRECT_ALIGNMENT];
        let misaligned = memory.as_ptr().addr() % DIRECT_ALIGNMENT;
        Self { memory, start: (DIRECT_ALIGNMENT - misaligned) % DIRECT_ALIGNMENT, bytes }
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        self.memory.get(self.start..self.start + self.bytes).unwrap_or_default()
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [u8] {
        self.memory.get_mut(self.start..self.start + self.bytes).unwrap_or_default()
    }
}
