//! The memory of a memtable: a bump allocator that several threads use at once and that frees everything at its end.
//!
//! Bytes are handed out from blocks of `block_bytes` by one atomic addition; only a thread that finds the block full takes
//! a lock, to bring the next one. Blocks are cut from chunks of whole huge pages, since a third of a cache miss on a
//! random access is the page walk. Always true: what was handed out stays at its address until the arena is dropped, and
//! no two allocations overlap.
//!
//! The bytes counted in [`Arena::allocated_bytes`] are those of the rule for a full memtable (spec 07a §2.1): 2048 inline
//! bytes, then whole blocks, then allocations above a quarter block on their own.

use std::alloc::{Layout, handle_alloc_error};

use firn_env::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use firn_env::sync::{Mutex, StaticMutex};

/// Bytes of the first, small block; it serves column families that are hardly written to.
const INLINE_BYTES: usize = 2048;
/// The size of a huge page.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Freed chunks that wait for the next memtable, of all databases of the process; see [`ChunkPool`].
static POOL: ChunkPool =
    ChunkPool { free: StaticMutex::new(Vec::new()), arenas: std::sync::atomic::AtomicUsize::new(0) };

/// Keeps the huge pages of freed memtables for the next ones: a page that the kernel has to clear and map again costs the
/// writer that touches it first some 150 µs, which was a sixth of all time of a random fill. At most
/// [`POOLED_CHUNKS`] are kept, and none once no arena is left.
struct ChunkPool {
    free: StaticMutex<Vec<Chunk>>,
    arenas: std::sync::atomic::AtomicUsize,
}

/// Chunks that the pool keeps at most: 128 MiB, two memtables of the default size.
const POOLED_CHUNKS: usize = 64;

impl ChunkPool {
    fn take(&self) -> Option<Chunk> {
        self.free.lock().pop()
    }

    fn put(&self, chunks: impl Iterator<Item = Chunk>) {
        let last_arena = self.arenas.fetch_sub(1, Ordering::AcqRel) == 1;
        // What does not stay is freed after the lock is released.
        let mut rest = Vec::new();
        {
            let mut free = self.free.lock();
            for chunk in chunks {
                if chunk.is_poolable() && free.len() < POOLED_CHUNKS { free.push(chunk) } else { rest.push(chunk) }
            }
            if last_arena {
                rest.append(&mut free);
            }
        }
        drop(rest);
    }
}

/// A piece of memory from the operating system.
struct Chunk {
    start: *mut u8,
    layout: Layout,
    /// Whether it was mapped from reserved huge pages rather than allocated.
    is_reserved: bool,
}

impl Chunk {
    /// `bytes` of uninitialised memory; whole huge pages are asked for as such if `huge` is set.
    fn new(bytes: usize, huge: bool) -> Self {
        let huge = huge && bytes.is_multiple_of(HUGE_PAGE_BYTES);
        let align = if huge { HUGE_PAGE_BYTES } else { 64 };
        // The size is bounded by options that are clipped to 2 GiB, the alignment is a power of two.
        let layout = Layout::from_size_align(bytes.max(64), align).unwrap_or(Layout::new::<u64>());
        assert!(layout.size() >= bytes, "an arena block is at most 2 GiB");
        // SAFETY: the size is not zero.
        let start = unsafe { std::alloc::alloc(layout) };
        if start.is_null() {
            handle_alloc_error(layout);
        }
        #[cfg(all(target_os = "linux", not(miri)))]
        if huge {
            // SAFETY: the range is the allocation just made; the advice changes no contents. A refusal does no harm.
            unsafe { libc::madvise(start.cast(), layout.size(), libc::MADV_HUGEPAGE) };
        }
        Self { start, layout, is_reserved: false }
    }

    /// `bytes` of memory from the huge pages that the administrator reserved; `None` when they are used up, when there are
    /// none, or when `bytes` is not a multiple of their size.
    fn reserved(bytes: usize) -> Option<Self> {
        #[cfg(all(target_os = "linux", not(miri)))]
        {
            let layout = Layout::from_size_align(bytes, 64).ok()?;
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB;
            // SAFETY: a new mapping at an address that the kernel chooses; nothing that exists is touched. The pages are
            // set aside by this call, so that touching them later cannot fail.
            let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
            (start != libc::MAP_FAILED).then_some(Self { start: start.cast(), layout, is_reserved: true })
        }
        #[cfg(not(all(target_os = "linux", not(miri))))]
        {
            let _ = bytes;
            None
        }
    }

    /// Whether it is one huge page.
    fn is_poolable(&self) -> bool {
        !self.is_reserved && self.layout.size() == HUGE_PAGE_BYTES && self.layout.align() == HUGE_PAGE_BYTES
    }
}

// SAFETY: a chunk owns its memory, which any thread may use and free.
unsafe impl Send for Chunk {}

impl Drop for Chunk {
    fn drop(&mut self) {
        #[cfg(all(target_os = "linux", not(miri)))]
        if self.is_reserved {
            // SAFETY: mapped in `reserved` with this size, unmapped once.
            unsafe { libc::munmap(self.start.cast(), self.layout.size()) };
            return;
        }
        // SAFETY: allocated in `new` with this layout, freed once.
        unsafe { std::alloc::dealloc(self.start, self.layout) };
    }
}

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

impl Drop for Growth {
    fn drop(&mut self) {
        POOL.put(self.chunks.drain(..));
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
        POOL.arenas.fetch_add(1, Ordering::AcqRel);
        let chunk = Chunk::new(INLINE_BYTES, false);
        let first = Block { start: chunk.start, len: INLINE_BYTES, used: AtomicUsize::new(0) };
        let first = Box::into_raw(Box::new(first));
        Self {
            current: AtomicPtr::new(first),
            allocated: AtomicUsize::new(INLINE_BYTES),
            block_bytes,
            huge_pages,
            reserved_page_bytes,
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
        debug_assert!(align.is_power_of_two() && align <= 64 && bytes > 0);
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

    #[cold]
    fn allocate_slow(&self, padded: usize, align: usize) -> *mut u8 {
        let mut growth = self.growth.lock();
        if padded > self.block_bytes / 4 {
            let chunk = Chunk::new(padded, false);
            self.allocated.fetch_add(padded, Ordering::Relaxed);
            let start = chunk.start;
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
            let bytes = match huge {
                true => self.block_bytes.next_multiple_of(HUGE_PAGE_BYTES),
                false => self.block_bytes,
            };
            let chunk = self.take_reserved().unwrap_or_else(|| {
                let pooled = if bytes == HUGE_PAGE_BYTES && huge { POOL.take() } else { None };
                pooled.unwrap_or_else(|| Chunk::new(bytes, huge))
            });
            growth.free_start = chunk.start;
            growth.free_bytes = chunk.layout.size();
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

    /// Bytes taken from the system for blocks (spec 07a §2.1, "A" without the memtable structure itself).
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
    fn the_pool_keeps_huge_pages_while_there_are_arenas() {
        let pool = ChunkPool { free: Mutex::new(Vec::new()), arenas: AtomicUsize::new(2) };
        let (page, small) = (Chunk::new(HUGE_PAGE_BYTES, true), Chunk::new(4096, true));
        let address = page.start;
        pool.put([page, small].into_iter());
        let page = pool.take().expect("one page was kept");
        assert_eq!(page.start, address);
        assert!(pool.take().is_none(), "small chunks are freed");
        pool.put([page].into_iter());
        assert!(pool.take().is_none(), "the last arena takes all with it");
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
        let reserved = || arena.growth.lock().chunks.iter().filter(|chunk| chunk.is_reserved).count();
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
            let pointer = arena.allocate(bytes, align);
            // SAFETY: `bytes` were just handed out at `pointer`.
            unsafe { std::ptr::write_bytes(pointer, i as u8, bytes) };
            assert_eq!(pointer.addr() % align, 0);
            taken.push((pointer.addr(), pointer.addr() + bytes));
        }
        taken.sort_unstable();
        assert!(taken.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    }
}
