//! Asking the processor for a cache line ahead of time.

/// Starts to bring the cache line of `bytes[at]` near, if there is such a byte. Changes nothing else.
#[inline(always)]
pub(crate) fn prefetch_byte(bytes: &[u8], at: usize) {
    let Some(byte) = bytes.get(at) else {
        return;
    };
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: prefetching reads nothing that a program could see, from whatever address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(std::ptr::from_ref(byte).cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = byte;
}
