//! The ordered index of a memtable: a concurrent B-link tree over entries in the arena.
//!
//! ```text
//! node = header | 15 key words | 15 entry addresses | inner nodes only: 15 children
//! header = lock, version, permutation, high word, high entry, next, first child, level
//! ```
//!
//! A node holds up to 15 entries in slots in any order; the *permutation*, one 64-bit word, lists the slots in key order
//! and is what an insert publishes. A search reads the words (the first eight bytes of the user keys as integers, see
//! [`KeyWords`]) and touches an entry only where words are equal, so that it misses the cache about once per level below
//! the top, and the lines of a node are fetched together.
//!
//! Readers take no lock and never wait. An insert into a free slot is invisible until the permutation names the slot. A
//! split moves the upper half to a new right neighbour, then publishes, in this order: an odd version, `next`, the high
//! key, the shortened permutation, the next even version. Slots are reused only after that, so a reader that finds the
//! version unchanged after reading slots has read entries of the node; otherwise it reads the node again. A reader that
//! arrives at a node whose high key is not after its target goes to the right, so parents may learn of a split late.
//! Under an odd version the permutation and the right neighbour may overlap: a scan, which goes by position, then seeks
//! its place again; searches go by key and need not.
//!
//! Writers lock single nodes, at most one at a time except from left to right on one level. Entries are never removed.
//!
//! Always true: entries of a node are at or after its low key and before its high key; a node never becomes empty; the
//! low key of a node other than the leftmost of its level is the key of one of its entries or, in inner nodes, the key
//! under which its parent knows it.

use firn_env::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use firn_env::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64};
use std::cmp::Ordering as KeyOrder;

use firn_env::sync::Mutex;
use firn_format::comparator::InternalKeyComparator;
use firn_format::key::{SequenceNumber, extract_footer, extract_user_key};

use super::arena::Arena;
use super::entry::Entry;
use crate::key_word::KeyWords;

/// Entries of a node: as many four-bit slot numbers as fit beside their count in 64 bits.
const SLOTS: usize = 15;

/// A node; inner nodes are the first part of an [`InnerNode`]. All fields but `level` change while others read.
#[repr(C, align(64))]
struct Node {
    lock: AtomicU32,
    /// Raised by every split as it begins to publish and when it is done: odd in between.
    version: AtomicU32,
    /// See [`Permutation`].
    permutation: AtomicU64,
    /// The word of the high key; `u64::MAX` if there is none.
    high_word: AtomicU64,
    /// The entry whose key is the first one not in this node or its subtree; null at the right edge.
    high: AtomicPtr<u8>,
    /// The right neighbour on the same level; null at the right edge.
    next: AtomicPtr<Node>,
    /// Inner nodes: the child for keys before the first entry.
    first_child: AtomicPtr<Node>,
    /// Inner nodes: the rest of the [`InnerNode`]; null in leaves. Does not change.
    children: *const [AtomicPtr<Node>; SLOTS],
    /// 0 for leaves. Does not change.
    level: u32,
    words: [AtomicU64; SLOTS],
    entries: [AtomicPtr<u8>; SLOTS],
}

/// A node with children: child `i` holds the keys from entry `i` on.
#[repr(C)]
struct InnerNode {
    node: Node,
    children: [AtomicPtr<Node>; SLOTS],
}

/// Releases the lock of a node if a comparator panics; nothing was published then. Forgotten where all goes well.
struct ReleaseOnUnwind<'a>(&'a Node);

impl Drop for ReleaseOnUnwind<'_> {
    fn drop(&mut self) {
        self.0.release_lock();
    }
}

/// The permutation of a node: the count in the low four bits, then slot numbers in key order, then the free slots.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Permutation(u64);

impl Permutation {
    const EMPTY: Self = Self(0xedcb_a987_6543_2100);

    #[inline]
    fn len(self) -> usize {
        (self.0 & 15) as usize
    }

    /// The slot at `rank`, which is below 15.
    #[inline]
    fn slot(self, rank: usize) -> usize {
        debug_assert!(rank < SLOTS);
        (self.0 >> (4 + 4 * rank) & 15) as usize
    }

    /// With the first free slot moved to `rank`; also that slot.
    #[inline]
    fn insert(self, rank: usize) -> (Self, usize) {
        let len = self.len();
        debug_assert!(len < SLOTS && rank <= len);
        let slot = self.slot(len);
        let below = (1u64 << (4 + 4 * rank)) - 1;
        let through = u64::MAX >> (64 - (8 + 4 * len));
        let moved = (self.0 & through & !below & !(15 << (4 + 4 * len))) << 4;
        (Self(((self.0 & (below | !through)) | moved | (slot as u64) << (4 + 4 * rank)) + 1), slot)
    }

    /// Only the first `len` entries.
    #[inline]
    fn truncate(self, len: usize) -> Self {
        Self(self.0 & !15 | len as u64)
    }
}

/// What a search looks for.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    word: u64,
    user_key: &'a [u8],
    footer: u64,
}

/// Which of the entries beside a target a search counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Count {
    /// Those before it.
    Before,
    /// Those before it and the one equal to it.
    BeforeOrEqual,
}

/// A leaf that was right for some target when it was found.
pub(crate) struct LeafRef<'a>(&'a Node);

/// The internal key is in the index already (the type is not looked at).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Duplicate;

/// See the module documentation.
pub(crate) struct Index {
    order: InternalKeyComparator,
    words: KeyWords,
    root: AtomicPtr<Node>,
    /// The leftmost leaf; stays so.
    first_leaf: *const Node,
    /// A leaf that was the rightmost when stored: appends in key order start here.
    last_leaf: AtomicPtr<Node>,
    /// Whether a full leaf was split because a key belonged into it, and not after all others.
    is_scattered: AtomicBool,
    /// Held while the tree gains a level.
    growing: Mutex<()>,
}

// SAFETY: `first_leaf` points to a node in the arena that lives beside the index; nodes are only changed through atomics.
unsafe impl Send for Index {}
// SAFETY: as above.
unsafe impl Sync for Index {}

impl Node {
    #[inline]
    fn prefetch(this: *const Node, bytes: usize) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        for offset in (0..bytes).step_by(64) {
            // SAFETY: a prefetch is a hint and touches nothing.
            unsafe {
                use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                _mm_prefetch::<_MM_HINT_T0>(this.cast::<i8>().wrapping_add(offset));
            }
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = (this, bytes);
    }

    #[inline]
    fn load_permutation(&self) -> Permutation {
        Permutation(self.permutation.load(Acquire))
    }

    /// The entry in `slot`. The permutation that named the slot was loaded from this node.
    #[inline]
    fn entry(&self, slot: usize) -> Entry {
        // SAFETY: slots named by a permutation hold entries of this index; acquire orders their bytes before this.
        unsafe { Entry::from_address(self.entries[slot].load(Acquire)) }
    }

    fn acquire_lock(&self) {
        let mut spins = 0u32;
        while self.lock.compare_exchange_weak(0, 1, Acquire, Relaxed).is_err() {
            spins += 1;
            if spins.is_multiple_of(64) {
                firn_env::thread::yield_now();
            } else {
                firn_env::sync::spin_loop();
            }
        }
    }

    fn release_lock(&self) {
        self.lock.store(0, Release);
    }

    /// Writes entry and word into `slot`, which no permutation names yet.
    fn fill(&self, slot: usize, word: u64, entry: Entry) {
        self.words[slot].store(word, Release);
        self.entries[slot].store(entry.address(), Release);
    }

    /// The children of an inner node.
    #[inline]
    fn children(&self) -> &[AtomicPtr<Node>; SLOTS] {
        debug_assert!(self.level > 0);
        // SAFETY: set by `new_node` for nodes above level 0, to memory that lives as long as the node.
        unsafe { &*self.children }
    }
}

impl Index {
    /// An empty index whose nodes live in `arena`.
    pub(crate) fn new(arena: &Arena, order: InternalKeyComparator, words: KeyWords) -> Self {
        let leaf = new_node(arena, 0);
        Self {
            order,
            words,
            root: AtomicPtr::new(leaf),
            first_leaf: leaf,
            last_leaf: AtomicPtr::new(leaf),
            is_scattered: AtomicBool::new(false),
            growing: Mutex::new(()),
        }
    }

    /// A target at the encoded internal key `ikey`.
    #[inline]
    pub(crate) fn target<'a>(&self, ikey: &'a [u8]) -> Target<'a> {
        let user_key = extract_user_key(ikey);
        Target { word: self.words.word(user_key), user_key, footer: extract_footer(ikey) }
    }

    /// Where `target` stands relative to `entry`.
    #[inline]
    fn compare(&self, target: &Target<'_>, entry: Entry) -> KeyOrder {
        // SAFETY: the arena lives as long as the index.
        let (user_key, footer) = unsafe { entry.key_parts() };
        self.order.compare_user(target.user_key, user_key).then_with(|| footer.cmp(&target.footer))
    }

    /// How many entries of `node`, as `permutation` lists them, come before `target`.
    #[inline]
    fn rank(&self, node: &Node, permutation: Permutation, target: &Target<'_>, count: Count) -> usize {
        let mut rank = Self::rank_of_word(node, permutation, target.word);
        // Among entries of equal words the keys decide.
        let mut end = rank;
        while end < permutation.len() && node.words[permutation.slot(end)].load(Acquire) == target.word {
            end += 1;
        }
        while rank < end {
            let middle = rank + (end - rank) / 2;
            let order = self.compare(target, node.entry(permutation.slot(middle)));
            if order == KeyOrder::Greater || (order == KeyOrder::Equal && count == Count::BeforeOrEqual) {
                rank = middle + 1;
            } else {
                end = middle;
            }
        }
        rank
    }

    /// How many entries of `node`, as `permutation` lists them, have a word less than `word`.
    #[inline]
    fn rank_of_word(node: &Node, permutation: Permutation, word: u64) -> usize {
        // Counting over all slots has no branch to mispredict. Free slots do not count: their words are the greatest one,
        // or those of entries that a split moved to the right. A slot that is being filled may count by mistake, and so may
        // all where the target belongs to the right, hence the check.
        let rank: usize = node.words.iter().map(|other| usize::from(other.load(Acquire) < word)).sum();
        let less = |rank: usize| node.words[permutation.slot(rank)].load(Acquire) < word;
        let len = permutation.len();
        if rank <= len && (rank == 0 || less(rank - 1)) && (rank == len || !less(rank)) {
            return rank;
        }
        (0..len).take_while(|&rank| less(rank)).count()
    }

    /// Whether the search for `target` belongs to the right of `node`. Load the permutation before calling this.
    #[inline]
    fn is_right_of(&self, node: &Node, target: &Target<'_>, count: Count) -> bool {
        if target.word < node.high_word.load(Acquire) {
            return false;
        }
        let high = node.high.load(Acquire);
        if high.is_null() {
            return false;
        }
        // SAFETY: a high key is an entry of this index.
        match self.compare(target, unsafe { Entry::from_address(high) }) {
            KeyOrder::Less => false,
            KeyOrder::Equal => count == Count::BeforeOrEqual,
            KeyOrder::Greater => true,
        }
    }

    /// The node on `level` where the search for `target` ends.
    #[inline]
    fn descend(&self, target: &Target<'_>, count: Count, level: u32) -> &Node {
        // SAFETY: the root and everything reached from it are nodes in the arena, which lives as long as the index.
        let mut node = unsafe { &*self.root.load(Acquire) };
        loop {
            let version = node.version.load(Acquire);
            let permutation = node.load_permutation();
            let step = if self.is_right_of(node, target, count) {
                node.next.load(Acquire)
            } else if node.level == level {
                return node;
            } else {
                match self.rank(node, permutation, target, count) {
                    0 => node.first_child.load(Acquire),
                    rank => node.children()[permutation.slot(rank - 1)].load(Acquire),
                }
            };
            if node.version.load(Acquire) == version {
                Node::prefetch(step, if node.level > 1 { size_of::<InnerNode>() } else { size_of::<Node>() });
                // SAFETY: as above; a step read under an unchanged version is a node of this tree.
                node = unsafe { &*step };
            }
        }
    }

    /// The target at which an entry of these parts is inserted.
    #[inline]
    pub(crate) fn insert_target<'a>(&self, user_key: &'a [u8], sequence: SequenceNumber) -> Target<'a> {
        // With the greatest type, so that an entry of the same sequence comes at or after the target.
        Target { word: self.words.word(user_key), user_key, footer: sequence.0 << 8 | 0xff }
    }

    /// Whether keys came in ascending order, but for some that arrived late by less than a leaf.
    pub(super) fn was_filled_in_order(&self) -> bool {
        !self.is_scattered.load(Relaxed)
    }

    /// The leaf in which to insert at `target`; others may split it meanwhile.
    #[inline]
    pub(crate) fn find_leaf(&self, target: &Target<'_>) -> LeafRef<'_> {
        // SAFETY: nodes live as long as the index.
        let last = unsafe { &*self.last_leaf.load(Acquire) };
        if last.next.load(Acquire).is_null() && self.is_append(last, target) {
            return LeafRef(last);
        }
        LeafRef(self.descend(target, Count::BeforeOrEqual, 0))
    }

    /// Whether `target` comes after all entries of `leaf`.
    #[inline]
    fn is_append(&self, leaf: &Node, target: &Target<'_>) -> bool {
        let permutation = leaf.load_permutation();
        let Some(last) = permutation.len().checked_sub(1) else { return true };
        let slot = permutation.slot(last);
        match target.word.cmp(&leaf.words[slot].load(Acquire)) {
            KeyOrder::Less => false,
            KeyOrder::Greater => true,
            KeyOrder::Equal => self.compare(target, leaf.entry(slot)) == KeyOrder::Greater,
        }
    }

    /// Adds `entry`, for which `target` was made and `leaf` found.
    ///
    /// # Errors
    /// [`Duplicate`] if an entry with the same user key and sequence is there.
    #[inline]
    pub(crate) fn insert(
        &self,
        arena: &Arena,
        leaf: LeafRef<'_>,
        target: &Target<'_>,
        entry: Entry,
    ) -> Result<(), Duplicate> {
        let leaf = self.lock_right(leaf.0, target);
        let unlock = ReleaseOnUnwind(leaf);
        let permutation = leaf.load_permutation();
        let rank = self.rank(leaf, permutation, target, Count::Before);
        let is_duplicate = self.is_duplicate(leaf, permutation, rank, target);
        std::mem::forget(unlock);
        if is_duplicate {
            leaf.release_lock();
            return Err(Duplicate);
        }
        self.insert_locked(arena, leaf, rank, target.word, entry, None);
        Ok(())
    }

    /// Locks `node`, or the neighbour to its right to which `target` belongs by now.
    #[inline]
    fn lock_right<'a>(&'a self, mut node: &'a Node, target: &Target<'_>) -> &'a Node {
        node.acquire_lock();
        let mut unlock = ReleaseOnUnwind(node);
        while self.is_right_of(node, target, Count::BeforeOrEqual) {
            // SAFETY: a node with a high key has a right neighbour.
            let right = unsafe { &*node.next.load(Acquire) };
            right.acquire_lock();
            node.release_lock();
            node = right;
            unlock.0 = node;
        }
        std::mem::forget(unlock);
        node
    }

    fn is_duplicate(&self, leaf: &Node, permutation: Permutation, rank: usize, target: &Target<'_>) -> bool {
        let (word, address) = if rank < permutation.len() {
            let slot = permutation.slot(rank);
            (leaf.words[slot].load(Acquire), leaf.entries[slot].load(Acquire))
        } else {
            (leaf.high_word.load(Acquire), leaf.high.load(Acquire))
        };
        if word != target.word || address.is_null() {
            return false;
        }
        // SAFETY: slots and high keys hold entries of this index.
        let (user_key, footer) = unsafe { Entry::from_address(address).key_parts() };
        footer >> 8 == target.footer >> 8 && self.order.compare_user(user_key, target.user_key) == KeyOrder::Equal
    }

    /// Puts `entry` (in inner nodes: with the `child` right of it) at `rank` of the locked `node`, splits if it is full,
    /// and releases the lock.
    fn insert_locked(
        &self,
        arena: &Arena,
        node: &Node,
        rank: usize,
        word: u64,
        entry: Entry,
        child: Option<*mut Node>,
    ) {
        let permutation = node.load_permutation();
        if permutation.len() < SLOTS {
            put(node, permutation, rank, word, entry, child);
            node.release_lock();
            return;
        }
        let split = self.split(arena, node, permutation, rank, word, entry, child);
        node.release_lock();
        self.insert_in_parent(arena, node, split.0, split.1, split.2);
    }

    /// Splits the full, locked `node` and inserts. Returns word, entry and address under which the parent must learn of
    /// the new right neighbour.
    #[expect(clippy::too_many_arguments, reason = "the parts of one insertion")]
    fn split(
        &self,
        arena: &Arena,
        node: &Node,
        permutation: Permutation,
        rank: usize,
        word: u64,
        entry: Entry,
        child: Option<*mut Node>,
    ) -> (u64, Entry, *mut Node) {
        let right_pointer = new_node(arena, node.level);
        // SAFETY: a new node, not shared yet.
        let right = unsafe { &*right_pointer };
        right.high_word.store(node.high_word.load(Relaxed), Relaxed);
        right.high.store(node.high.load(Relaxed), Relaxed);
        right.next.store(node.next.load(Relaxed), Relaxed);
        let is_append = rank == SLOTS && node.next.load(Relaxed).is_null();
        if !is_append && node.level == 0 {
            self.is_scattered.store(true, Relaxed);
        }
        // Keys that arrive in order leave full nodes behind; others leave halves.
        let keep = if is_append { SLOTS } else { SLOTS / 2 + 1 };
        let (low_word, low) = match child {
            None if is_append => {
                put(right, Permutation::EMPTY, 0, word, entry, None);
                (word, entry)
            }
            None => {
                move_upper(node, permutation, keep, right);
                let slot = permutation.slot(keep);
                (node.words[slot].load(Relaxed), node.entry(slot))
            }
            Some(child) if is_append => {
                right.first_child.store(child, Relaxed);
                (word, entry)
            }
            Some(_) => {
                // The entry at `keep` moves up; its child becomes the first of the new node.
                let slot = permutation.slot(keep);
                right.first_child.store(node.children()[slot].load(Relaxed), Relaxed);
                move_upper(node, permutation, keep + 1, right);
                (node.words[slot].load(Relaxed), node.entry(slot))
            }
        };
        // In an inner node the entry that moved up separates; `rank == keep` is before it in both kinds.
        let goes_right = !is_append && rank > keep;
        if goes_right {
            let first = if child.is_some() { keep + 1 } else { keep };
            put(right, right.load_permutation(), rank - first, word, entry, child);
        }
        // Who sees the new neighbour below sees this too.
        node.version.fetch_add(1, Relaxed);
        node.next.store(right_pointer, Release);
        node.high.store(low.address(), Release);
        node.high_word.store(low_word, Release);
        let kept = permutation.truncate(keep);
        node.permutation.store(kept.0, Release);
        node.version.fetch_add(1, Release);
        if !is_append && !goes_right {
            put(node, kept, rank, word, entry, child);
        }
        if node.level == 0 && right.next.load(Relaxed).is_null() {
            self.last_leaf.store(right_pointer, Release);
        }
        (low_word, low, right_pointer)
    }

    /// Tells the parent of `left` that `right` begins at `low`.
    fn insert_in_parent(&self, arena: &Arena, left: &Node, word: u64, low: Entry, right: *mut Node) {
        // SAFETY: the arena lives as long as the index.
        let (user_key, footer) = unsafe { low.key_parts() };
        let target = Target { word, user_key, footer };
        let level = left.level + 1;
        // SAFETY: the root is a node of this tree.
        if unsafe { &*self.root.load(Acquire) }.level < level {
            let growing = self.growing.lock();
            let old_root = self.root.load(Acquire);
            // SAFETY: as above.
            if unsafe { &*old_root }.level < level {
                // The first split of the root's level: `left` is the root. A later one on this level that comes here
                // first could be of a right neighbour; the root, leftmost of its level, is the first child in any case.
                let root_pointer = new_node(arena, level);
                // SAFETY: a new node, not shared yet.
                let root = unsafe { &*root_pointer };
                root.first_child.store(old_root, Relaxed);
                put(root, Permutation::EMPTY, 0, word, low, Some(right));
                self.root.store(root_pointer, Release);
                return;
            }
            drop(growing);
        }
        let parent = self.lock_right(self.descend(&target, Count::BeforeOrEqual, level), &target);
        let unlock = ReleaseOnUnwind(parent);
        let rank = self.rank(parent, parent.load_permutation(), &target, Count::Before);
        std::mem::forget(unlock);
        self.insert_locked(arena, parent, rank, word, low, Some(right));
    }

    /// The share of entries before `target`, estimated from its path through the tree.
    pub(crate) fn fraction_before(&self, ikey: &[u8]) -> f64 {
        let target = self.target(ikey);
        // SAFETY: as in `descend`.
        let mut node = unsafe { &*self.root.load(Acquire) };
        let (mut fraction, mut width) = (0.0, 1.0);
        loop {
            let version = node.version.load(Acquire);
            let permutation = node.load_permutation();
            let rank = self.rank(node, permutation, &target, Count::Before);
            let (parts, step) = if node.level == 0 {
                (permutation.len().max(1), std::ptr::null_mut())
            } else if rank == 0 {
                (permutation.len() + 1, node.first_child.load(Acquire))
            } else {
                (permutation.len() + 1, node.children()[permutation.slot(rank - 1)].load(Acquire))
            };
            if node.version.load(Acquire) != version {
                continue;
            }
            width /= parts as f64;
            fraction += width * rank as f64;
            if step.is_null() {
                return fraction.min(1.0);
            }
            // SAFETY: as in `descend`.
            node = unsafe { &*step };
        }
    }
}

/// A place in an index: an entry and where it was found. Stays good while others insert.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    leaf: *const Node,
    version: u32,
    permutation: Permutation,
    rank: usize,
    entry: Entry,
}

impl Place {
    /// The entry.
    #[inline]
    pub(crate) fn entry(&self) -> Entry {
        self.entry
    }
}

/// Which way a scan is going; decides which entries are fetched ahead.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// A point lookup: none.
    Nothing,
    /// A scan: those of the leaf.
    Leaf,
}

impl Index {
    /// The entry at `rank` of `leaf`; `None` if the leaf was split since `version` was read.
    #[inline]
    fn place_at(&self, leaf: &Node, version: u32, permutation: Permutation, rank: usize) -> Option<Place> {
        let entry = leaf.entry(permutation.slot(rank));
        (leaf.version.load(Acquire) == version).then_some(Place { leaf, version, permutation, rank, entry })
    }

    fn prefetch_entries(leaf: &Node, permutation: Permutation, ahead: Ahead) {
        if ahead == Ahead::Nothing {
            return;
        }
        for rank in 0..permutation.len() {
            let address = leaf.entries[permutation.slot(rank)].load(Relaxed);
            Node::prefetch(address.cast(), 128);
        }
    }

    /// The first entry at or after the internal key `ikey`.
    #[inline]
    pub(crate) fn seek(&self, ikey: &[u8], ahead: Ahead) -> Option<Place> {
        self.seek_target(&self.target(ikey), Count::Before, ahead)
    }

    /// The first entry that `count` does not count.
    #[inline]
    fn seek_target(&self, target: &Target<'_>, count: Count, ahead: Ahead) -> Option<Place> {
        let mut leaf = self.descend(target, Count::BeforeOrEqual, 0);
        loop {
            let version = leaf.version.load(Acquire);
            let permutation = leaf.load_permutation();
            let rank = self.rank(leaf, permutation, target, count);
            if rank < permutation.len() {
                if let Some(place) = self.place_at(leaf, version, permutation, rank) {
                    Self::prefetch_entries(leaf, permutation, ahead);
                    return Some(place);
                }
                continue;
            }
            let next = leaf.next.load(Acquire);
            if leaf.version.load(Acquire) == version {
                // SAFETY: neighbours are nodes of this tree.
                leaf = unsafe { next.as_ref()? };
            }
        }
    }

    /// The last entry that `count` counts.
    fn seek_back(&self, target: &Target<'_>, count: Count, ahead: Ahead) -> Option<Place> {
        loop {
            let mut leaf = self.descend(target, count, 0);
            loop {
                let version = leaf.version.load(Acquire);
                let permutation = leaf.load_permutation();
                if self.is_right_of(leaf, target, count) {
                    // SAFETY: a node with a high key has a right neighbour.
                    leaf = unsafe { &*leaf.next.load(Acquire) };
                    continue;
                }
                // Rank 0 means the left end: any other leaf holds its low key, which the descent counted.
                let rank = self.rank(leaf, permutation, target, count).checked_sub(1);
                if leaf.version.load(Acquire) != version {
                    continue;
                }
                let place = self.place_at(leaf, version, permutation, rank?);
                match place {
                    Some(place) => {
                        Self::prefetch_entries(leaf, permutation, ahead);
                        return Some(place);
                    }
                    None => break,
                }
            }
        }
    }

    /// The last entry at or before the internal key `ikey`.
    pub(crate) fn seek_for_prev(&self, ikey: &[u8]) -> Option<Place> {
        self.seek_back(&self.target(ikey), Count::BeforeOrEqual, Ahead::Leaf)
    }

    /// The first entry.
    pub(crate) fn first(&self) -> Option<Place> {
        // SAFETY: the first leaf lives as long as the index.
        self.first_of(unsafe { &*self.first_leaf })
    }

    /// The first entry of `leaf`, which is empty only if the index is.
    #[inline]
    fn first_of(&self, leaf: &Node) -> Option<Place> {
        loop {
            let version = leaf.version.load(Acquire);
            let permutation = leaf.load_permutation();
            if permutation.len() == 0 {
                return None;
            }
            if let Some(place) = self.place_at(leaf, version, permutation, 0) {
                Self::prefetch_entries(leaf, permutation, Ahead::Leaf);
                return Some(place);
            }
        }
    }

    /// The last entry.
    pub(crate) fn last(&self) -> Option<Place> {
        // SAFETY: as in `descend`.
        let mut node = unsafe { &*self.root.load(Acquire) };
        loop {
            let version = node.version.load(Acquire);
            let permutation = node.load_permutation();
            let next = node.next.load(Acquire);
            let step = match permutation.len().checked_sub(1) {
                _ if !next.is_null() => next,
                None if node.level == 0 => return None,
                None => node.first_child.load(Acquire),
                Some(last) if node.level > 0 => node.children()[permutation.slot(last)].load(Acquire),
                Some(last) => match self.place_at(node, version, permutation, last) {
                    Some(place) => {
                        Self::prefetch_entries(node, permutation, Ahead::Leaf);
                        return Some(place);
                    }
                    None => continue,
                },
            };
            if node.version.load(Acquire) == version {
                // SAFETY: as in `descend`.
                node = unsafe { &*step };
            }
        }
    }

    /// The entry after `place`.
    ///
    /// # Safety
    /// `place` must come from this index.
    #[inline]
    pub(crate) unsafe fn next(&self, place: &Place) -> Option<Place> {
        // SAFETY: the leaf of a place of this index (contract).
        let leaf = unsafe { &*place.leaf };
        let rank = place.rank + 1;
        if rank < place.permutation.len() {
            if let Some(next) = self.place_at(leaf, place.version, place.permutation, rank) {
                return Some(next);
            }
        } else {
            let next = leaf.next.load(Acquire);
            let is_splitting = !place.version.is_multiple_of(2);
            if leaf.version.load(Acquire) == place.version && !is_splitting {
                // Entries that came into the old leaf since are newer than what the scan may see, or the scan is one that
                // seeks again to see them.
                // SAFETY: neighbours are nodes of this tree.
                return self.first_of(unsafe { next.as_ref()? });
            }
        }
        // The leaf was or is being split: look the place up again.
        // SAFETY: the arena lives as long as the index.
        let target = self.target(unsafe { place.entry.ikey() });
        self.seek_target(&target, Count::BeforeOrEqual, Ahead::Leaf)
    }

    /// The entry before `place`.
    ///
    /// # Safety
    /// `place` must come from this index.
    #[inline]
    pub(crate) unsafe fn prev(&self, place: &Place) -> Option<Place> {
        if let Some(rank) = place.rank.checked_sub(1) {
            // SAFETY: the leaf of a place of this index (contract).
            let leaf = unsafe { &*place.leaf };
            if let Some(prev) = self.place_at(leaf, place.version, place.permutation, rank) {
                return Some(prev);
            }
        }
        // SAFETY: the arena lives as long as the index.
        let target = self.target(unsafe { place.entry.ikey() });
        self.seek_back(&target, Count::Before, Ahead::Leaf)
    }
}

/// A new, empty node on `level`.
fn new_node(arena: &Arena, level: u32) -> *mut Node {
    let node = |children| Node {
        lock: AtomicU32::new(0),
        version: AtomicU32::new(0),
        permutation: AtomicU64::new(Permutation::EMPTY.0),
        high_word: AtomicU64::new(u64::MAX),
        high: AtomicPtr::default(),
        next: AtomicPtr::default(),
        first_child: AtomicPtr::default(),
        children,
        level,
        words: [const { AtomicU64::new(u64::MAX) }; SLOTS],
        entries: [const { AtomicPtr::new(std::ptr::null_mut()) }; SLOTS],
    };
    if level == 0 {
        let start = arena.allocate_lines(size_of::<Node>()).cast::<Node>();
        // SAFETY: new memory of the right size and alignment.
        unsafe { start.write(node(std::ptr::null())) };
        return start;
    }
    let start = arena.allocate_lines(size_of::<InnerNode>()).cast::<InnerNode>();
    // SAFETY: new memory of the right size and alignment; both fields are written before anybody reads them.
    unsafe {
        let children = &raw mut (*start).children;
        children.write([const { AtomicPtr::new(std::ptr::null_mut()) }; SLOTS]);
        (&raw mut (*start).node).write(node(children));
    }
    start.cast()
}

/// Publishes `entry` at `rank` of the locked (or not yet shared) `node`, which has a free slot.
fn put(node: &Node, permutation: Permutation, rank: usize, word: u64, entry: Entry, child: Option<*mut Node>) {
    let (published, slot) = permutation.insert(rank);
    node.fill(slot, word, entry);
    if let Some(child) = child {
        node.children()[slot].store(child, Release);
    }
    node.permutation.store(published.0, Release);
}

/// Copies the entries from rank `from` on into `right`, which is new and empty.
fn move_upper(node: &Node, permutation: Permutation, from: usize, right: &Node) {
    for (to, rank) in (from..permutation.len()).enumerate() {
        let slot = permutation.slot(rank);
        let child = (node.level > 0).then(|| node.children()[slot].load(Relaxed));
        put(right, right.load_permutation(), to, node.words[slot].load(Relaxed), node.entry(slot), child);
    }
}
