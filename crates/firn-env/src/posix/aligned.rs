//! A byte buffer whose start lies on a page boundary, as direct I/O demands.
//!
//! It is an ordinary vector with one page to spare and the aligned part of it shown: no `unsafe`, and one extra page.

use super::DIRECT_ALIGNMENT;

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
