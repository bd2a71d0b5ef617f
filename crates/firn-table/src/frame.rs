//! Memory for data blocks: frames of a few sizes, cut from large chunks.
//!
//! Blocks come and go by the hundred thousand, all of about one size. Frames spare them the general allocator and start at
//! a cache line. Chunks are not asked to be huge pages: over 600 MB of cached blocks these save a tenth of a lookup, but
//! clearing them makes the first scan that fills the cache take twice as long.
//!
//! ```text
//! chunk (2 MiB, aligned) = header (64 bytes) | frame | frame | …      all frames of one chunk have one size
//! ```
//!
//! Always true here: the bytes of a frame are initialized, though with whatever was there before; a chunk with no live frame
//! goes back, a few are kept for the next need; the lists of a size class are touched only under its mutex.
//!
//! `unsafe` lives here because frames are raw memory until their owner gives them back; the module gives out nothing but
//! [`Frame`], which owns its bytes like a box.

use std::ops::{Deref, DerefMut};
use std::ptr::{NonNull, null_mut};

use firn_env::pages::{Backing, HUGE_PAGE_BYTES, map_zeroed, unmap};
use firn_env::sync::StaticMutex;

const CHUNK_BYTES: usize = HUGE_PAGE_BYTES;
const HEADER_BYTES: usize = 64;
/// Frames of up to so many bytes are too small, and beyond so many too large, to be worth a size class.
const SMALLEST_POOLED: usize = 1 << 10;
const LARGEST_POOLED: usize = 1 << 16;
/// Size classes per doubling.
const STEPS: usize = 16;
const CLASSES: usize = STEPS * (LARGEST_POOLED / SMALLEST_POOLED).ilog2() as usize;
/// What every frame has beyond its class's round size, so that a full block and its trailer fit.
const SLACK: usize = 64;
/// Empty chunks that are kept.
const KEPT_CHUNKS: usize = 8;
/// From here on, the class of frames that come from the general allocator, plus how many bytes were cut from their end.
const BOXED: u16 = u16::MAX - u8::MAX as u16;

/// The class for frames of `bytes` bytes, if there is one.
fn class_of(bytes: usize) -> Option<usize> {
    let bytes = bytes.saturating_sub(SLACK);
    if bytes <= SMALLEST_POOLED || bytes > LARGEST_POOLED {
        return None;
    }
    let doubling = ((bytes - 1) / SMALLEST_POOLED).ilog2() as usize;
    let start = SMALLEST_POOLED << doubling;
    Some(doubling * STEPS + (bytes - 1 - start) / (start / STEPS))
}

/// Bytes of the frames of a class: a multiple of 64.
const fn class_bytes(class: usize) -> usize {
    let start = SMALLEST_POOLED << (class / STEPS);
    start + (class % STEPS + 1) * (start / STEPS) + SLACK
}

/// At the start of every chunk.
struct Chunk {
    /// Frames given back, linked through their first bytes.
    free: *mut FreeFrame,
    /// Offset of the first frame that was never given out.
    fresh: usize,
    live: usize,
    /// Neighbours in the class's list of chunks with space.
    next: *mut Chunk,
    prev: *mut Chunk,
}

struct FreeFrame {
    next: *mut FreeFrame,
}

const _: () = assert!(size_of::<Chunk>() <= HEADER_BYTES);

/// The chunks of one class that have space.
struct Class {
    with_space: *mut Chunk,
}

// SAFETY: the chunks of a class are reached only through its list, under its mutex, from whatever thread.
unsafe impl Send for Class {}

struct EmptyChunks([*mut Chunk; KEPT_CHUNKS], usize);

// SAFETY: an empty chunk belongs to nobody; the list is under its mutex.
unsafe impl Send for EmptyChunks {}

static POOL: [StaticMutex<Class>; CLASSES] = [const { StaticMutex::new(Class { with_space: null_mut() }) }; CLASSES];
static EMPTY_CHUNKS: StaticMutex<EmptyChunks> = StaticMutex::new(EmptyChunks([null_mut(); KEPT_CHUNKS], 0));

fn new_chunk() -> *mut Chunk {
    let kept = {
        let mut empty = EMPTY_CHUNKS.lock();
        let EmptyChunks(chunks, count) = &mut *empty;
        count.checked_sub(1).and_then(|last| {
            *count = last;
            chunks.get(last).copied()
        })
    };
    let chunk = kept.unwrap_or_else(|| map_zeroed(CHUNK_BYTES, Backing::Plain).as_ptr().cast());
    let header = Chunk { free: null_mut(), fresh: HEADER_BYTES, live: 0, next: null_mut(), prev: null_mut() };
    // SAFETY: nobody else knows the chunk, and its start is large and aligned enough for the header.
    unsafe { chunk.write(header) };
    chunk
}

/// Gives up a chunk without live frames that is in no list.
fn drop_chunk(chunk: *mut Chunk) {
    let mut empty = EMPTY_CHUNKS.lock();
    let EmptyChunks(chunks, count) = &mut *empty;
    if let Some(slot) = chunks.get_mut(*count) {
        *slot = chunk;
        *count += 1;
        return;
    }
    drop(empty);
    if let Some(chunk) = NonNull::new(chunk) {
        // SAFETY: the chunk is a mapping of its own size, and nobody refers to it any more.
        unsafe { unmap(chunk.cast(), CHUNK_BYTES) };
    }
}

impl Class {
    /// # Safety
    /// `chunk` must be a chunk of this class that is in no list.
    unsafe fn link(&mut self, chunk: *mut Chunk) {
        // SAFETY: chunks of the class are touched only under its mutex, which the caller holds through `self`.
        unsafe {
            (*chunk).next = self.with_space;
            (*chunk).prev = null_mut();
            if !self.with_space.is_null() {
                (*self.with_space).prev = chunk;
            }
        }
        self.with_space = chunk;
    }

    /// # Safety
    /// `chunk` must be in this class's list.
    unsafe fn unlink(&mut self, chunk: *mut Chunk) {
        // SAFETY: as in `link`; neighbours of a listed chunk are listed, hence alive.
        unsafe {
            let (next, prev) = ((*chunk).next, (*chunk).prev);
            if !next.is_null() {
                (*next).prev = prev;
            }
            if prev.is_null() {
                self.with_space = next;
            } else {
                (*prev).next = next;
            }
        }
    }

    fn allocate(&mut self, frame_bytes: usize) -> NonNull<u8> {
        if self.with_space.is_null() {
            // SAFETY: the chunk is new.
            unsafe { self.link(new_chunk()) };
        }
        let chunk = self.with_space;
        // SAFETY: a listed chunk is alive, is touched only under the mutex, and has a free frame or room for a fresh one;
        // free frames hold a link since `free` put it there.
        unsafe {
            let frame = if (*chunk).free.is_null() {
                let frame = chunk.cast::<u8>().add((*chunk).fresh);
                (*chunk).fresh += frame_bytes;
                frame
            } else {
                let frame = (*chunk).free;
                (*chunk).free = (*frame).next;
                frame.cast::<u8>()
            };
            (*chunk).live += 1;
            if (*chunk).free.is_null() && (*chunk).fresh + frame_bytes > CHUNK_BYTES {
                self.unlink(chunk);
            }
            NonNull::new_unchecked(frame)
        }
    }

    /// Takes a frame back; returns its chunk if that is empty now.
    ///
    /// # Safety
    /// `frame` must come from [`allocate`](Self::allocate) of this class and not be used any more.
    unsafe fn free(&mut self, frame: NonNull<u8>, frame_bytes: usize) -> Option<*mut Chunk> {
        let chunk = frame.as_ptr().map_addr(|address| address & !(CHUNK_BYTES - 1)).cast::<Chunk>();
        // SAFETY: frames lie in chunks that are aligned to their size, so this is the header of the frame's chunk; it is
        // alive while it has live frames, and touched only under the mutex. A frame is large and aligned enough for a link.
        unsafe {
            let was_full = (*chunk).free.is_null() && (*chunk).fresh + frame_bytes > CHUNK_BYTES;
            let link = frame.as_ptr().cast::<FreeFrame>();
            link.write(FreeFrame { next: (*chunk).free });
            (*chunk).free = link;
            (*chunk).live -= 1;
            if was_full {
                self.link(chunk);
            }
            if (*chunk).live > 0 {
                return None;
            }
            self.unlink(chunk);
        }
        Some(chunk)
    }
}

/// Bytes in a place that is made for blocks. Owns them; like a `Box<[u8]>` in all else.
pub(crate) struct Frame {
    start: NonNull<u8>,
    length: u32,
    class: u16,
}

// SAFETY: a frame owns its bytes alone.
unsafe impl Send for Frame {}
// SAFETY: shared frames give out only shared slices.
unsafe impl Sync for Frame {}

impl Frame {
    /// A frame of `bytes` bytes with unspecified contents; `bytes` must be less than 4 GiB.
    pub(crate) fn new(bytes: usize) -> Self {
        debug_assert!(u32::try_from(bytes).is_ok());
        let length = bytes as u32;
        match class_of(bytes) {
            Some(class) => {
                let start = match POOL.get(class) {
                    Some(pool) => pool.lock().allocate(class_bytes(class)),
                    None => unreachable!("classes end at the largest pooled size"),
                };
                Self { start, length, class: class as u16 }
            }
            None => {
                let boxed = vec![0u8; length as usize].into_boxed_slice();
                let start = NonNull::from(Box::leak(boxed)).cast();
                Self { start, length, class: BOXED }
            }
        }
    }

    /// Forgets up to `bytes` bytes at the end.
    pub(crate) fn cut(&mut self, bytes: u8) {
        let bytes = bytes.min(u8::try_from(self.length).unwrap_or(u8::MAX));
        if self.class >= BOXED {
            // The allocator will want the whole length back.
            let Some(class) = self.class.checked_add(bytes.into()) else {
                return;
            };
            self.class = class;
        }
        self.length -= u32::from(bytes);
    }

    /// Bytes of memory that the frame takes.
    pub(crate) fn capacity(&self) -> usize {
        match self.class.checked_sub(BOXED) {
            Some(cut) => self.length as usize + usize::from(cut),
            None => class_bytes(self.class.into()),
        }
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        if self.class >= BOXED {
            let bytes = std::ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.capacity());
            // SAFETY: this is the box that `new` leaked; what was cut from its length is remembered in the class.
            drop(unsafe { Box::from_raw(bytes) });
            return;
        }
        let class = usize::from(self.class);
        let Some(pool) = POOL.get(class) else {
            return;
        };
        // SAFETY: the frame came from this class and ends here.
        let empty = unsafe { pool.lock().free(self.start, class_bytes(class)) };
        if let Some(chunk) = empty {
            drop_chunk(chunk);
        }
    }
}

impl Deref for Frame {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the frame owns so many initialized bytes.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length as usize) }
    }
}

impl DerefMut for Frame {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and the frame is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length as usize) }
    }
}

impl From<Vec<u8>> for Frame {
    /// Takes the bytes as they are; for blocks too large for a pool. There must be less than 4 GiB of them.
    fn from(bytes: Vec<u8>) -> Self {
        debug_assert!(u32::try_from(bytes.len()).is_ok());
        let length = bytes.len() as u32;
        let start = NonNull::from(Box::leak(bytes.into_boxed_slice())).cast();
        Self { start, length, class: BOXED }
    }
}

impl From<&[u8]> for Frame {
    fn from(bytes: &[u8]) -> Self {
        let mut frame = Self::new(bytes.len());
        frame.copy_from_slice(bytes);
        frame
    }
}

impl std::fmt::Debug for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Frame({} bytes)", self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_fit_and_waste_little() {
        for bytes in 1..LARGEST_POOLED + 200 {
            if let Some(class) = class_of(bytes) {
                assert!(class < CLASSES && class_bytes(class) >= bytes, "{bytes}");
                assert!(class_bytes(class) <= bytes + bytes / 15 + SLACK + 1, "{bytes}: {}", class_bytes(class));
                assert_eq!(class_bytes(class) % 64, 0);
            }
        }
        assert_eq!(class_of(4096 + 5).map(class_bytes), Some(4160));
        assert_eq!((class_of(100), class_of(LARGEST_POOLED + SLACK + 1)), (None, None));
    }

    #[test]
    fn frames_keep_their_bytes_while_others_come_and_go() {
        let mut state = 7u32;
        let mut random = move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as usize
        };
        let mut frames: Vec<(Frame, u8)> = Vec::new();
        for round in 0..if cfg!(miri) { 60 } else { 20_000 } {
            if frames.len() > 1500 || (random() % 3 == 0 && !frames.is_empty()) {
                let at = random() % frames.len();
                let (frame, byte) = frames.swap_remove(at);
                assert!(frame.iter().all(|&other| other == byte));
            } else {
                let mut frame = Frame::new(match random() % 3 {
                    0 => random() % 6000,
                    1 => 4101,
                    _ => random() % (LARGEST_POOLED + 5000),
                });
                assert!(frame.capacity() >= frame.len());
                let byte = round as u8;
                frame.fill(byte);
                frames.push((frame, byte));
            }
        }
        for (frame, byte) in &mut frames {
            assert!(frame.iter().all(|other| other == byte));
            let (length, capacity) = (frame.len(), frame.capacity());
            frame.cut(5);
            assert_eq!((frame.len(), frame.capacity()), (length.saturating_sub(5), capacity));
        }
    }

    #[test]
    fn frames_move_between_threads() {
        let frames: Vec<Frame> =
            (0..if cfg!(miri) { 40 } else { 2000 }).map(|n: usize| Frame::from(&[n as u8; 4101][..])).collect();
        let other = firn_env::thread::spawn("frames", move || {
            for (n, frame) in frames.into_iter().enumerate() {
                assert_eq!(frame[4100], n as u8);
            }
        });
        other.unwrap().join().unwrap();
        assert_eq!(Frame::from(&b""[..]).len(), 0);
    }
}
