//! Memory for arenas by the chunk, and the pool in which huge pages of freed memtables wait for the next ones.
//!
//! An arena takes chunks from here and gives them back together when its memtable goes. Always true here: the pool holds
//! whole huge pages only, at most [`POOLED_CHUNKS`], none once no arena is left, and none when no arena took one for
//! [`LOOK_MICROS`], so that a database that is written to slowly or not at all keeps what its memtables fill and no more.

use std::alloc::{Layout, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use firn_env::pages::{Backing, HUGE_PAGE_BYTES, map_zeroed, unmap};
use firn_env::sync::StaticMutex;
use firn_env::thread::Elapsed;
use firn_env::{Clock, SystemClock, thread};

/// Chunks that the pool keeps at most: 128 MiB, two memtables of the default size.
const POOLED_CHUNKS: usize = if CAN_WATCH { 64 } else { 0 };
/// The pool is looked at so often, by a thread that exists while there is something in it.
const LOOK_MICROS: u64 = 100_000;
/// Neither Miri nor a model checker wants threads that outlive a test.
const CAN_WATCH: bool = !cfg!(any(miri, feature = "shuttle"));

/// The pool of all databases of the process.
static POOL: ChunkPool = ChunkPool::new(LOOK_MICROS);

/// Tells the pool of an arena that [`give_back`] will end.
pub(super) fn announce_arena() {
    POOL.arenas.fetch_add(1, Ordering::AcqRel);
}

/// Huge pages, from the pool if it has one of this size.
pub(super) fn take_huge(bytes: usize) -> Chunk {
    let pooled = if bytes == HUGE_PAGE_BYTES { POOL.take() } else { None };
    pooled.unwrap_or_else(|| Chunk::huge(bytes))
}

/// Takes the chunks of an arena that goes.
pub(super) fn give_back(chunks: impl Iterator<Item = Chunk>) {
    if POOL.put(chunks) {
        // Without the thread nothing may stay.
        let watched = thread::spawn("firn:memory", || {
            while POOL.is_in_use() {
                SystemClock::new().sleep_micros(LOOK_MICROS);
                POOL.release_idle();
            }
        });
        if watched.is_err() {
            while POOL.is_in_use() {
                POOL.release_idle();
            }
        }
    }
}

/// Keeps the huge pages of freed memtables for the next ones: a page that the kernel has to clear and map again costs the
/// writer that touches it first some 150 µs, which was a sixth of all time of a random fill. Where writers take less than
/// one in a tenth of a second that is not worth the memory; where they take more, what was left over all this time goes
/// by and by.
struct ChunkPool {
    free: StaticMutex<Free>,
    arenas: AtomicUsize,
    /// So long after somebody wanted a chunk others are kept.
    patience_micros: u64,
}

struct Free {
    chunks: Vec<Chunk>,
    /// The fewest chunks since the last look: so many were not needed in this time.
    idle: usize,
    /// Since when nobody wanted one; none if nobody ever did.
    unwanted: Option<Elapsed>,
    /// Whether somebody looks.
    watched: bool,
}

impl ChunkPool {
    const fn new(patience_micros: u64) -> Self {
        Self {
            free: StaticMutex::new(Free { chunks: Vec::new(), idle: 0, unwanted: None, watched: false }),
            arenas: AtomicUsize::new(0),
            patience_micros,
        }
    }

    fn is_wanted(&self, free: &Free) -> bool {
        free.unwanted.is_some_and(|time| time.micros() < self.patience_micros)
    }

    fn take(&self) -> Option<Chunk> {
        let mut free = self.free.lock();
        let chunk = free.chunks.pop();
        free.idle = free.idle.min(free.chunks.len());
        free.unwanted = Some(Elapsed::start());
        chunk
    }

    /// Whether the caller must see to it that somebody looks at the pool from now on.
    fn put(&self, chunks: impl Iterator<Item = Chunk>) -> bool {
        let last_arena = self.arenas.fetch_sub(1, Ordering::AcqRel) == 1;
        // What does not stay goes after the lock is released.
        let mut rest = Vec::new();
        let mut free = self.free.lock();
        let keeps = !last_arena && self.is_wanted(&free);
        for chunk in chunks {
            if keeps && chunk.is_poolable() && free.chunks.len() < POOLED_CHUNKS {
                free.chunks.push(chunk);
            } else {
                rest.push(chunk);
            }
        }
        if last_arena {
            rest.append(&mut free.chunks);
            free.idle = 0;
        }
        let unwatched = !free.watched && !free.chunks.is_empty();
        free.watched |= unwatched;
        drop(free);
        drop(rest);
        unwatched
    }

    /// Frees what nobody needed since the last look.
    fn release_idle(&self) {
        let mut free = self.free.lock();
        let idle = free.idle.min(free.chunks.len());
        let goes = if self.is_wanted(&free) { idle.div_ceil(8) } else { free.chunks.len() };
        // Those at the end were used last: their lines may still be near.
        let rest: Vec<Chunk> = free.chunks.drain(..goes).collect();
        free.idle = free.chunks.len();
        free.watched = free.idle > 0;
        drop(free);
        drop(rest);
    }

    fn is_in_use(&self) -> bool {
        self.free.lock().watched
    }
}

/// A piece of memory from the operating system.
pub(super) struct Chunk {
    start: NonNull<u8>,
    layout: Layout,
    source: Source,
}

/// Where the memory of a chunk is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Allocator,
    /// Whole huge pages, as far as the system has them.
    HugePages,
    /// Huge pages that the administrator reserved.
    #[cfg(all(target_os = "linux", not(miri)))]
    ReservedPages,
}

impl Chunk {
    /// `bytes` of uninitialised memory from the general allocator, at a cache line.
    pub(super) fn allocate(bytes: usize) -> Self {
        let layout = layout(bytes.max(64), 64);
        // SAFETY: the size is not zero.
        let start = unsafe { std::alloc::alloc(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout));
        Self { start, layout, source: Source::Allocator }
    }

    /// `bytes` of memory, a multiple of the size of huge pages.
    fn huge(bytes: usize) -> Self {
        let start = map_zeroed(bytes, Backing::HugePages);
        Self { start, layout: layout(bytes, HUGE_PAGE_BYTES), source: Source::HugePages }
    }

    /// `bytes` of memory from the huge pages that the administrator reserved; `None` when they are used up, when there are
    /// none, or when `bytes` is not a multiple of their size.
    pub(super) fn reserved(bytes: usize) -> Option<Self> {
        #[cfg(all(target_os = "linux", not(miri)))]
        {
            let layout = Layout::from_size_align(bytes, 64).ok()?;
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB;
            // SAFETY: a new mapping at an address that the kernel chooses; nothing that exists is touched. The pages are
            // set aside by this call, so that touching them later cannot fail.
            let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
            if start == libc::MAP_FAILED {
                return None;
            }
            Some(Self { start: NonNull::new(start.cast())?, layout, source: Source::ReservedPages })
        }
        #[cfg(not(all(target_os = "linux", not(miri))))]
        {
            let _ = bytes;
            None
        }
    }

    /// Where it starts, at a multiple of 64.
    pub(super) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Its size in bytes.
    pub(super) fn len(&self) -> usize {
        self.layout.size()
    }

    /// Whether it came from [`reserved`](Self::reserved).
    #[cfg(all(test, target_os = "linux", not(miri)))]
    pub(super) fn is_reserved(&self) -> bool {
        self.source == Source::ReservedPages
    }

    /// Whether it is one huge page.
    fn is_poolable(&self) -> bool {
        self.source == Source::HugePages && self.len() == HUGE_PAGE_BYTES
    }
}

/// The layout of a chunk. Sizes are bounded by options that are clipped to 2 GiB, and alignments are powers of two.
fn layout(bytes: usize, align: usize) -> Layout {
    let layout = Layout::from_size_align(bytes, align).unwrap_or(Layout::new::<u64>());
    assert!(layout.size() >= bytes, "an arena block is at most 2 GiB");
    layout
}

// SAFETY: a chunk owns its memory, which any thread may use and free.
unsafe impl Send for Chunk {}

impl Drop for Chunk {
    fn drop(&mut self) {
        match self.source {
            // SAFETY: allocated in `allocate` with this layout, freed once.
            Source::Allocator => unsafe { std::alloc::dealloc(self.start.as_ptr(), self.layout) },
            // SAFETY: mapped in `huge` with this size, unmapped once.
            Source::HugePages => unsafe { unmap(self.start, self.layout.size()) },
            #[cfg(all(target_os = "linux", not(miri)))]
            // SAFETY: mapped in `reserved` with this size, unmapped once.
            Source::ReservedPages => unsafe {
                libc::munmap(self.start.as_ptr().cast(), self.layout.size());
            },
        }
    }
}

#[cfg(all(test, not(miri), not(feature = "shuttle")))]
mod tests {
    use super::*;

    fn pages(count: usize) -> impl Iterator<Item = Chunk> {
        (0..count).map(|_| Chunk::huge(HUGE_PAGE_BYTES))
    }

    /// A pool that somebody took from a moment ago.
    fn pool_of(arenas: usize) -> ChunkPool {
        let pool = ChunkPool::new(u64::MAX);
        pool.arenas.store(arenas, Ordering::Relaxed);
        assert!(pool.take().is_none());
        pool
    }

    fn kept(pool: &ChunkPool) -> usize {
        pool.free.lock().chunks.len()
    }

    #[test]
    fn the_pool_keeps_huge_pages_while_there_are_arenas() {
        let pool = pool_of(2);
        let (page, small) = (Chunk::huge(HUGE_PAGE_BYTES), Chunk::allocate(4096));
        let address = page.start();
        assert!(pool.put([page, small].into_iter()), "somebody has to look from now on");
        let page = pool.take().expect("one page was kept");
        assert_eq!(page.start(), address);
        assert!(pool.take().is_none(), "small chunks are freed");
        assert!(!pool.put([page].into_iter()));
        assert!(pool.take().is_none(), "the last arena takes all with it");
    }

    #[test]
    fn the_pool_is_bounded() {
        let pool = pool_of(2);
        pool.put(pages(POOLED_CHUNKS + 3));
        assert_eq!(kept(&pool), POOLED_CHUNKS);
    }

    #[test]
    fn what_nobody_needs_between_two_looks_goes() {
        let mut pool = pool_of(6);
        pool.put(pages(10));
        pool.release_idle();
        assert_eq!(kept(&pool), 10, "they came since the last look");
        let taken: Vec<_> = std::iter::repeat_with(|| pool.take()).take(6).flatten().collect();
        assert_eq!(taken.len(), 6);
        pool.put(taken.into_iter());
        pool.release_idle();
        assert_eq!(kept(&pool), 9, "four were not needed by writers that go on: of these one goes");
        assert!(pool.is_in_use());
        pool.patience_micros = 0;
        pool.release_idle();
        assert_eq!(kept(&pool), 0, "nobody wants any");
        assert!(!pool.is_in_use(), "nobody looks at an empty pool");
        assert!(!pool.put(pages(1)));
        assert_eq!(kept(&pool), 0, "still nobody does");
        pool.patience_micros = u64::MAX;
        assert!(pool.put(pages(1)), "the next one is told to look");
    }
}
