//! The memory of a memtable: a bump allocator that several threads use at once and that frees everything at its end.
//!
//! Bytes are handed out from blocks of `block_bytes` by one atomic addition; only a thread that finds the block full takes
//! a lock, to bring the next one. Blocks are cut from chunks of whole huge pages, since a third of a cache miss on a
//! random access is the page walk ([`chunks`]). Always true: what was handed out stays at its address until the arena is dropped, and
//! no two allocations overlap.
//!
//! The bytes counted in [`Arena::allocated_bytes`] are those of the rule for a full memtable
//! (`docs/behaviour/reads-and-writes.md`, When a memtable is full): 2048 inline bytes, then whole blocks, then allocations
//! above a quarter block on their own.

use firn_env::pages::HUGE_PAGE_BYTES;
use firn_env::sync::Mutex;
use firn_env::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::chunks::{self, Chunk};

/// Bytes of the first, small block; it serves column families that are hardly written to.
const INLINE_BYTES: usize = 2048;
/// Bytes of a cache line.
const LINE_BYTES: usize = 64;
/// The longest run that [`Arena::allocate_lines`] takes at a time, in bytes.
const LONGEST_RUN_BYTES: usize = 16 << 10;

/// The block that is being handed out; on a cache line of its own, since every insert writes to it.
#[repr(align(128))]
struct Block {
    start: *mut u8,
    len: usize,
    /// Bytes handed out; beyond `len` once some thread found the block full.
    used: AtomicUsize,
}

struct Growth {
    chunks: Vec<Chunk>,
    /// Boxes by their addresses, since `current` points to one of them while the vector grows; freed with the arena.
    blocks: Vec<*mut Block>,
    /// What of the last chunk has not become a block yet.
    free_start: *mut u8,
    free_bytes: usize,
}

/// Whole cache lines that were taken from the blocks and not handed out yet.
struct Lines {
    start: *mut u8,
    bytes: usize,
    /// How many bytes to take next: each time twice as many, so that a small memtable takes little.
    next_bytes: usize,
}

impl Drop for Growth {
    fn drop(&mut self) {
        chunks::give_back(self.chunks.drain(..));
        for &block in &self.blocks {
            // SAFETY: made by `Box::into_raw`, freed once; nobody refers to it when the arena is dropped.
            drop(unsafe { Box::from_raw(block) });
        }
    }
}

/// See the module documentation.
pub(crate) struct Arena {
    current: AtomicPtr<Block>,
    allocated: AtomicUsize,
    block_bytes: usize,
    huge_pages: bool,
    /// Reserved huge pages are taken in multiples of so many bytes; 0 takes none.
    reserved_page_bytes: usize,
    /// Locked before `growth`, if both are.
    lines: Mutex<Lines>,
    growth: Mutex<Growth>,
}

// SAFETY: the raw pointers are to memory that the arena owns; all shared state behind them is atomic or under the lock.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// An arena that grows by `block_bytes` (clipped to [4096, 2 GiB], rounded up to 16). With `reserved_page_bytes` above 0
    /// it takes huge pages that the administrator reserved, in multiples of that, while there are any.
    pub(crate) fn new(block_bytes: usize, huge_pages: bool, reserved_page_bytes: usize) -> Self {
        let block_bytes = block_bytes.clamp(4096, 2 << 30).next_multiple_of(16);
        chunks::announce_arena();
        let chunk = Chunk::allocate(INLINE_BYTES);
        let first = Block { start: chunk.start(), len: INLINE_BYTES, used: AtomicUsize::new(0) };
        let first = Box::into_raw(Box::new(first));
        Self {
            current: AtomicPtr::new(first),
            allocated: AtomicUsize::new(INLINE_BYTES),
            block_bytes,
            huge_pages,
            reserved_page_bytes,
            lines: Mutex::new(Lines { start: std::ptr::null_mut(), bytes: 0, next_bytes: 0 }),
            growth: Mutex::new(Growth {
                chunks: vec![chunk],
                blocks: vec![first],
                free_start: std::ptr::null_mut(),
                free_bytes: 0,
            }),
        }
    }

    /// `bytes` of uninitialised memory at a multiple of `align` (a power of two up to 64).
    #[inline]
    pub(crate) fn allocate(&self, bytes: usize, align: usize) -> *mut u8 {
        debug_assert!(align.is_power_of_two() && align <= LINE_BYTES && bytes > 0);
        let padded = bytes + align - 1;
        if padded <= self.block_bytes / 4 {
            // SAFETY: `current` always points to a block in `growth.blocks`, none of which is freed before the arena.
            let block = unsafe { &*self.current.load(Ordering::Acquire) };
            let at = block.used.fetch_add(padded, Ordering::Relaxed);
            if at + padded <= block.len {
                // SAFETY: `at + padded` is inside the block, and the addition gave this range to this call alone.
                let start = unsafe { block.start.add(at) };
                prefetch_for_write(start.wrapping_add(padded + 64));
                return align_up(start, align);
            }
        }
        self.allocate_slow(padded, align)
    }

    /// `bytes`, a multiple of a cache line, of uninitialised memory that starts at one. They come from longer runs, since
    /// the bytes up to the next line would otherwise be lost each time.
    pub(crate) fn allocate_lines(&self, bytes: usize) -> *mut u8 {
        debug_assert!(bytes.is_multiple_of(LINE_BYTES));
        let mut lines = self.lines.lock();
        if lines.bytes < bytes {
            let run_bytes = lines.next_bytes.max(bytes);
            lines.start = self.allocate(run_bytes, LINE_BYTES);
            lines.bytes = run_bytes;
            // A run above a quarter block would not come from the blocks.
            let longest = (self.block_bytes / 4 - (LINE_BYTES - 1)).min(LONGEST_RUN_BYTES);
            lines.next_bytes = (2 * run_bytes).min(longest / LINE_BYTES * LINE_BYTES);
        }
        let start = lines.start;
        lines.bytes -= bytes;
        // SAFETY: at least `bytes` were left of the run after `start`; the result is at most one past its end.
        lines.start = unsafe { start.add(bytes) };
        start
    }

    #[cold]
    fn allocate_slow(&self, padded: usize, align: usize) -> *mut u8 {
        let mut growth = self.growth.lock();
        if padded > self.block_bytes / 4 {
            let chunk = Chunk::allocate(padded);
            self.allocated.fetch_add(padded, Ordering::Relaxed);
            let start = chunk.start();
            growth.chunks.push(chunk);
            return align_up(start, align);
        }
        loop {
            // SAFETY: as in `allocate`.
            let block = unsafe { &*self.current.load(Ordering::Acquire) };
            let at = block.used.fetch_add(padded, Ordering::Relaxed);
            if at + padded <= block.len {
                // SAFETY: as in `allocate`.
                return align_up(unsafe { block.start.add(at) }, align);
            }
            let start = self.take_block_memory(&mut growth);
            let next = Block { start, len: self.block_bytes, used: AtomicUsize::new(0) };
            let next = Box::into_raw(Box::new(next));
            growth.blocks.push(next);
            self.allocated.fetch_add(self.block_bytes, Ordering::Relaxed);
            self.current.store(next, Ordering::Release);
        }
    }

    fn take_block_memory(&self, growth: &mut Growth) -> *mut u8 {
        if growth.free_bytes < self.block_bytes {
            // The first chunk stays with small pages: a memtable that holds a few keys should not take a huge page.
            let huge = self.huge_pages && growth.blocks.len() > 1 && self.block_bytes >= 64 << 10;
            let chunk = self.take_reserved().unwrap_or_else(|| match huge {
                true => chunks::take_huge(self.block_bytes.next_multiple_of(HUGE_PAGE_BYTES)),
                false => Chunk::allocate(self.block_bytes),
            });
            growth.free_start = chunk.start();
            growth.free_bytes = chunk.len();
            growth.chunks.push(chunk);
        }
        let start = growth.free_start;
        growth.free_bytes -= self.block_bytes;
        // SAFETY: at least `block_bytes` were free after `free_start`; the result is at most one past the chunk's end.
        growth.free_start = unsafe { start.add(self.block_bytes) };
        start
    }

    /// Reserved huge pages for at least one block, where they are asked for and there are any.
    fn take_reserved(&self) -> Option<Chunk> {
        let bytes = self.block_bytes.checked_next_multiple_of(self.reserved_page_bytes)?;
        Chunk::reserved(bytes)
    }

    /// Bytes taken from the system for blocks (`docs/behaviour/reads-and-writes.md`, When a memtable is full: "A" without
    /// the memtable structure itself).
    #[inline]
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.allocated.load(Ordering::Relaxed)
    }

    /// Bytes of the current block that are not handed out yet.
    #[inline]
    pub(crate) fn unused_bytes(&self) -> usize {
        // SAFETY: as in `allocate`.
        let block = unsafe { &*self.current.load(Ordering::Acquire) };
        block.len.saturating_sub(block.used.load(Ordering::Relaxed))
    }

    /// The size of a block in bytes.
    #[inline]
    pub(crate) fn block_bytes(&self) -> usize {
        self.block_bytes
    }
}

/// Fetches the lines that the next allocations will be written to. Without this their first bytes wait for memory, and so
/// does every atomic operation behind them.
#[inline]
fn prefetch_for_write(start: *mut u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for offset in [0, 64, 128] {
        // SAFETY: a prefetch is a hint and touches nothing.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_ET0>(start.cast::<i8>().wrapping_add(offset));
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = start;
}

#[inline]
fn align_up(pointer: *mut u8, align: usize) -> *mut u8 {
    let offset = pointer.align_offset(align);
    debug_assert!(offset < align);
    pointer.wrapping_add(offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_inline_bytes_then_blocks_then_large_allocations() {
        let arena = Arena::new(4096, false, 0);
        assert_eq!(arena.allocated_bytes(), 2048);
        arena.allocate(1024, 1);
        assert_eq!(arena.allocated_bytes(), 2048);
        arena.allocate(1024, 1);
        arena.allocate(1, 1);
        assert_eq!(arena.allocated_bytes(), 2048 + 4096);
        arena.allocate(1025, 1);
        assert_eq!(arena.allocated_bytes(), 2048 + 4096 + 1025);
    }

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn reserved_huge_pages_are_taken_while_there_are_any() {
        let meminfo =
            firn_env::read_file(&firn_env::posix::PosixFileSystem, "/proc/meminfo".as_ref(), 1 << 20).unwrap();
        let meminfo = String::from_utf8(meminfo).unwrap();
        let free = meminfo.lines().find_map(|line| line.strip_prefix("HugePages_Free:"));
        let free: usize = free.and_then(|count| count.trim().parse().ok()).unwrap_or(0);
        let arena = Arena::new(64 << 10, false, HUGE_PAGE_BYTES);
        let reserved = || arena.growth.lock().chunks.iter().filter(|chunk| chunk.is_reserved()).count();
        for _ in 0..40 {
            let pointer = arena.allocate(16 << 10, 8);
            // SAFETY: the bytes were just handed out.
            unsafe { std::ptr::write_bytes(pointer, 1, 16 << 10) };
        }
        // 640 KiB fit one huge page; where none is reserved, ordinary memory does.
        assert!(reserved() == 1 || (free == 0 && reserved() == 0), "{} reserved, {free} free", reserved());
        assert!(Chunk::reserved(HUGE_PAGE_BYTES + 4096).is_none(), "not whole pages");
    }

    #[test]
    fn allocations_are_aligned_and_do_not_overlap() {
        let arena = Arena::new(4096, true, 0);
        let mut taken: Vec<(usize, usize)> = Vec::new();
        for i in 1..200_usize {
            let (bytes, align) = (i * 7 % 300 + 1, 1 << (i % 7));
            let (bytes, pointer) = match i % 3 {
                0 => (i % 8 * 64 + 64, arena.allocate_lines(i % 8 * 64 + 64)),
                _ => (bytes, arena.allocate(bytes, align)),
            };
            let align = if i % 3 == 0 { 64 } else { align };
            // SAFETY: `bytes` were just handed out at `pointer`.
            unsafe { std::ptr::write_bytes(pointer, i as u8, bytes) };
            assert_eq!(pointer.addr() % align, 0);
            taken.push((pointer.addr(), pointer.addr() + bytes));
        }
        taken.sort_unstable();
        assert!(taken.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    }
}
