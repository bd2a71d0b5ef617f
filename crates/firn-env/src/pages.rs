//! Zeroed memory straight from the system, aligned to huge pages and, where asked for, backed by them.
//!
//! For what is large and goes back to the system as a whole, which a general allocator may put off: chunks of frames, the
//! slots of the block cache, the arenas of memtables.
//!
//! `unsafe` lives here because mappings are raw memory; callers own what they get until they give it back.

use std::alloc::{Layout, handle_alloc_error};
use std::ptr::NonNull;

/// The size of a huge page; mappings are multiples of it and start at one.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// What memory is backed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// Pages as they come: cheap to touch for the first time.
    Plain,
    /// Huge pages, where the system has them: a touch costs less of a page walk, but the first one clears two megabytes.
    HugePages,
}

/// [`map_zeroed`] by the general allocator, for Miri, which knows no part of a mapping.
#[cfg(miri)]
pub fn map_zeroed(bytes: usize, _backing: Backing) -> NonNull<u8> {
    let Ok(layout) = Layout::from_size_align(bytes, HUGE_PAGE_BYTES) else { handle_alloc_error(Layout::new::<u64>()) };
    // SAFETY: the size is not zero.
    NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

/// [`unmap`] for Miri.
///
/// # Safety
/// As for the other.
#[cfg(miri)]
pub unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
    if let Ok(layout) = Layout::from_size_align(bytes, HUGE_PAGE_BYTES) {
        // SAFETY: allocated with this layout; the caller vouches for the rest.
        unsafe { std::alloc::dealloc(start.as_ptr(), layout) };
    }
}

/// `bytes` zero bytes, a multiple of [`HUGE_PAGE_BYTES`], aligned to it and not touched yet. Does not return when there is no
/// memory, as allocation in general.
#[cfg(not(miri))]
pub fn map_zeroed(bytes: usize, backing: Backing) -> NonNull<u8> {
    debug_assert!(bytes > 0 && bytes.is_multiple_of(HUGE_PAGE_BYTES));
    let no_memory =
        || handle_alloc_error(Layout::from_size_align(bytes, HUGE_PAGE_BYTES).unwrap_or(Layout::new::<u64>()));
    let Some(reserved) = bytes.checked_add(HUGE_PAGE_BYTES) else { no_memory() };
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new anonymous mapping; the system chooses where.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), reserved, access, kind, -1, 0) };
    if start == libc::MAP_FAILED {
        no_memory();
    }
    let before = start.cast::<u8>().align_offset(HUGE_PAGE_BYTES);
    // SAFETY: `bytes` aligned bytes lie within what was mapped; what lies around them is given back, and only that. The
    // advice, which may be refused, changes how the memory is backed, not what it holds.
    unsafe {
        let aligned = start.cast::<u8>().add(before);
        if before > 0 {
            libc::munmap(start, before);
        }
        if before < HUGE_PAGE_BYTES {
            libc::munmap(aligned.add(bytes).cast(), HUGE_PAGE_BYTES - before);
        }
        #[cfg(target_os = "linux")]
        if backing == Backing::HugePages {
            libc::madvise(aligned.cast(), bytes, libc::MADV_HUGEPAGE);
        }
        NonNull::new(aligned).unwrap_or_else(|| no_memory())
    }
}

/// Gives memory back.
///
/// # Safety
/// `start` must come from [`map_zeroed`] with the same `bytes`, and nobody may use it any more.
#[cfg(not(miri))]
pub unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller vouches that this is a whole mapping of its own.
    unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_aligned_zeroed_and_writable() {
        for (pages, backing) in [(1, Backing::Plain), (3, Backing::HugePages)] {
            let bytes = pages * HUGE_PAGE_BYTES;
            let start = map_zeroed(bytes, backing);
            assert_eq!(start.as_ptr() as usize % HUGE_PAGE_BYTES, 0);
            // SAFETY: the mapping is ours and so long.
            let memory = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), bytes) };
            assert!(memory.iter().step_by(4096).all(|&byte| byte == 0));
            memory[bytes - 1] = 7;
            assert_eq!(memory[bytes - 1], 7);
            // SAFETY: from `map_zeroed`, and not used below.
            unsafe { unmap(start, bytes) };
        }
    }
}
