//! The write group: concurrent writers queue up, the first leads, and writes for all that wait behind it.
//!
//! # For the caller
//!
//! [`WriteThread::write`] takes a batch and a [`GroupExecutor`], which holds what the steps of a write do to the database:
//!
//! ```text
//! queue up ──► leader:  prepare   (stalls, memtable switch; alone in the queue's front)
//!     │                 form the group
//!     │                 log       (one WAL record, sync; hands out the first sequence number)
//!     │                 insert    (every batch, by the leader or by all members at once)
//!     │                 publish   (or failed)
//!     └── followers ◄── completed with the group's result; the oldest writer outside the group leads next
//! ```
//!
//! Whoever needs the front of the queue without a batch (a memtable switch, a change of options) takes
//! [`WriteThread::enter_exclusive`] and holds the guard meanwhile.
//!
//! # How it works
//!
//! Writers are nodes on their callers' stacks, linked newest to oldest from one atomic pointer. A writer that links itself
//! to nothing leads; a single writer thus costs two atomic operations. The leader alone follows and changes the links,
//! except that pushing a node sets its own. A waiting writer spins, yields and then parks; a node lives until its
//! state became final, because its caller waits for that.
//!
//! Always true here: batches of a group take effect in queue order; a member returns only when its fate is decided; a
//! writer that asks for a sync never joins a leader that does not sync.
#![allow(unsafe_code)]

use super::batch::{ContentFlags, WriteBatch};
use super::company::Company;
use firn_env::sync::Mutex;
use firn_env::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use firn_env::thread;
use firn_error::{Error, Result};
use firn_format::key::SequenceNumber;
use std::cell::Cell;
use std::ptr;

/// What a writer asks of its write; writers of one group agree on it, except for `sync`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteFlags {
    /// The log is durable before the write returns.
    pub sync: bool,
    /// The write is not logged.
    pub disable_wal: bool,
    /// The write fails instead of waiting for a stall.
    pub no_slowdown: bool,
}

/// Whether a writer may join a group whose leader has these flags.
const fn may_join(leader: WriteFlags, candidate: WriteFlags) -> bool {
    (leader.sync || !candidate.sync)
        && leader.disable_wal == candidate.disable_wal
        && leader.no_slowdown == candidate.no_slowdown
}

/// The most bytes a group may have whose leader's batch has `leader_bytes`: a small write is not held up by a large group.
const fn max_group_bytes(leader_bytes: usize, limit: usize) -> usize {
    if leader_bytes > limit / 8 { limit } else { leader_bytes.saturating_add(limit / 8) }
}

/// Who inserts the batches of a group into the memtables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insertion {
    /// The leader, one batch after the other.
    ByLeader,
    /// Every member its own, at once. The memtables must allow it, and no batch may have merges when
    /// `max_successive_merges` is set.
    ByMembers,
}

/// What logging a group decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedGroup {
    /// The sequence number of the first record of the first batch.
    pub first_sequence: SequenceNumber,
    /// Who inserts.
    pub insertion: Insertion,
}

/// The steps of a write. All writers of a database pass equivalent executors, since any of them may lead.
pub trait GroupExecutor {
    /// First step of a leader, before it gathers its group: stalls, background errors, memtable switches.
    ///
    /// # Errors
    /// Fail this writer alone; the next one leads.
    fn prepare(&self, leader: &Leadership<'_>, flags: WriteFlags) -> Result<()>;

    /// Hands out sequence numbers and writes the log: one record with the records of all batches in order.
    ///
    /// # Errors
    /// Fail the whole group.
    fn log(&self, group: &WriteGroup<'_>) -> Result<LoggedGroup>;

    /// Inserts a batch whose first record has `sequence`. May run at the same time for batches of one group.
    ///
    /// # Errors
    /// Fail the whole group; [`failed`](Self::failed) follows.
    fn insert(&self, batch: &WriteBatch, sequence: SequenceNumber) -> Result<()>;

    /// Makes everything up to `last` visible. Runs once per group, after all insertions, before any member returns.
    fn publish(&self, last: SequenceNumber);

    /// Learns that an insertion failed although the group was logged.
    fn failed(&self, error: &Error);
}

const WAITING: u8 = 0;
const PARKED: u8 = 1;
const LEADER: u8 = 2;
const INSERTING: u8 = 3;
const COMPLETED: u8 = 4;

/// About a microsecond of spinning, then some yields, before a writer parks: a group is often done by then.
const SPINS: u32 = if cfg!(feature = "shuttle") { 1 } else { 200 };
const YIELDS: u32 = if cfg!(feature = "shuttle") { 1 } else { 24 };
/// Yields that others made long use of, after which a writer parks: a thread that is woken comes before those that yield.
const LONG_YIELDS: u32 = 2;

/// A writer in the queue. The cells are touched by its own thread until it is pushed, then only by the leader, and by
/// its own thread again when its state became final; `waiter` belongs to its thread except while the state is `PARKED`.
struct Node {
    /// Null for a writer that only wants the front of the queue.
    batch: *const WriteBatch,
    flags: WriteFlags,
    state: AtomicU8,
    older: Cell<*const Node>,
    newer: Cell<*const Node>,
    sequence: Cell<SequenceNumber>,
    error: Cell<Option<Error>>,
    parallel: Cell<*const ParallelInsertion>,
    waiter: Cell<Option<thread::Thread>>,
}

/// Shared by the members of a group that insert at once; lies on the leader's stack until all of them are done.
struct ParallelInsertion {
    leader: *const Node,
    last: *const Node,
    running: AtomicUsize,
    error: Mutex<Option<Error>>,
    last_sequence: SequenceNumber,
}

impl Node {
    fn new(batch: *const WriteBatch, flags: WriteFlags) -> Self {
        Self {
            batch,
            flags,
            state: AtomicU8::new(WAITING),
            older: Cell::new(ptr::null()),
            newer: Cell::new(ptr::null()),
            sequence: Cell::new(SequenceNumber::ZERO),
            error: Cell::new(None),
            parallel: Cell::new(ptr::null()),
            waiter: Cell::new(None),
        }
    }

    /// Waits until the state is no longer `from`; called by the node's own thread.
    fn wait_while(&self, from: u8) -> u8 {
        // A sync takes longer than it is worth waiting awake for.
        let (yields, mut long_yields) = (if self.flags.sync { 0 } else { YIELDS }, 0);
        for attempt in 0..SPINS + yields {
            let state = self.state.load(Ordering::Acquire);
            if state != from {
                return state;
            }
            if attempt < SPINS {
                firn_env::sync::spin_loop();
            } else if !thread::yield_briefly() {
                long_yields += 1;
                if long_yields == LONG_YIELDS {
                    break;
                }
            }
        }
        self.waiter.set(Some(thread::current()));
        match self.state.compare_exchange(from, PARKED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => loop {
                thread::park();
                let state = self.state.load(Ordering::Acquire);
                if state != PARKED {
                    return state;
                }
            },
            Err(state) => state,
        }
    }

    /// Gives the node at `this` its next state and wakes its thread.
    ///
    /// # Safety
    /// `this` is a node whose thread waits, or that of the caller. If `state` is final, `this` may dangle on return.
    unsafe fn wake(this: *const Self, state: u8) {
        // SAFETY: the node lives until a final state is stored, and nobody else stores one.
        let node = unsafe { &*this };
        let mut seen = node.state.load(Ordering::Acquire);
        while seen != PARKED {
            match node.state.compare_exchange(seen, state, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
        // The handle is taken before the store: after it the node may be gone.
        let waiter = node.waiter.take();
        node.state.store(state, Ordering::Release);
        if let Some(waiter) = waiter {
            waiter.unpark();
        }
    }
}

/// Ends the process when it is dropped by a panic, in a step of a leader or an inserting member that let one out: other
/// threads hold pointers into its stack, and the group can be neither undone nor completed.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        std::process::abort();
    }
}

/// The queue of the writers of a database. Thread-safe.
#[derive(Debug)]
pub struct WriteThread {
    newest: AtomicPtr<Node>,
    stalled: AtomicBool,
    max_group_bytes: usize,
    previous_group_bytes: AtomicU64,
    company: Company,
}

/// Proof of being at the front of the queue: nobody else is preparing, logging or inserting.
pub struct Leadership<'a> {
    queue: &'a WriteThread,
    node: *const Node,
}

/// The batches that a leader writes together, in order.
pub struct WriteGroup<'a> {
    leadership: &'a Leadership<'a>,
    last: *const Node,
    length: usize,
    bytes: usize,
    count: u64,
    flags: ContentFlags,
}

impl WriteThread {
    /// A queue whose groups have at most so many bytes (`max_write_batch_group_size_bytes`, by default 1 MiB).
    pub fn new(max_write_batch_group_size_bytes: usize) -> Self {
        Self {
            newest: AtomicPtr::new(ptr::null_mut()),
            stalled: AtomicBool::new(false),
            max_group_bytes: max_write_batch_group_size_bytes,
            previous_group_bytes: AtomicU64::new(0),
            company: Company::default(),
        }
    }

    /// Writes a batch, as a leader or in the group of one. Returns when it is visible or failed.
    ///
    /// # Errors
    /// What the executor's steps return; `Incomplete` for a writer with `no_slowdown` during a stall.
    pub fn write<E: GroupExecutor>(&self, batch: &WriteBatch, flags: WriteFlags, executor: &E) -> Result<()> {
        if flags.no_slowdown && self.stalled.load(Ordering::Relaxed) {
            return Err(write_stall());
        }
        let node = Node::new(ptr::from_ref(batch), flags);
        let guard = AbortOnUnwind;
        let state = if self.push(&node) { LEADER } else { node.wait_while(WAITING) };
        let result = match state {
            LEADER => self.lead(&node, executor),
            INSERTING => {
                let result = executor.insert(batch, node.sequence.get());
                self.inserted(&node, result, executor)
            }
            _ => {
                debug_assert_eq!(state, COMPLETED);
                node.error.take().map_or(Ok(()), Err)
            }
        };
        // A write that went well within the unwinding of somebody else's panic is no reason.
        std::mem::forget(guard);
        result
    }

    /// Waits for the front of the queue without a batch. Writers wait until the guard is dropped.
    pub fn enter_exclusive(&self) -> ExclusiveGuard<'_> {
        // On the heap, because the guard moves; not in a box meanwhile, since a box that moves vouches that nobody else
        // points to what is in it.
        let node = Box::into_raw(Box::new(Node::new(ptr::null(), WriteFlags::default())));
        let guard = ExclusiveGuard { leadership: Leadership { queue: self, node } };
        // SAFETY: the guard frees the node when it goes.
        let node = unsafe { &*node };
        if !self.push(node) {
            let state = node.wait_while(WAITING);
            debug_assert_eq!(state, LEADER);
        }
        guard
    }

    /// Links a node in; whether it leads at once. The node must stay in place until its state is final or it left as a
    /// leader.
    fn push(&self, node: &Node) -> bool {
        let mut newest = self.newest.load(Ordering::Relaxed);
        loop {
            node.older.set(newest);
            let pushed = ptr::from_ref(node).cast_mut();
            // Release publishes the node; acquire takes over what the last leader left when the queue was empty.
            match self.newest.compare_exchange_weak(newest, pushed, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return newest.is_null(),
                Err(now) => newest = now,
            }
        }
    }

    fn lead<E: GroupExecutor>(&self, node: &Node, executor: &E) -> Result<()> {
        let leadership = Leadership { queue: self, node };
        if let Err(error) = executor.prepare(&leadership, node.flags) {
            self.leave(node, node, None);
            return Err(error);
        }
        let gather_and_log = || {
            let group = leadership.gather();
            self.previous_group_bytes.store(group.bytes as u64, Ordering::Relaxed);
            (executor.log(&group), group)
        };
        let (logged, group) = if node.flags.sync {
            let sync = || {
                let (logged, group) = gather_and_log();
                let length = group.length;
                ((logged, group), length)
            };
            self.company.sync(|| leadership.queue_length(), sync)
        } else {
            gather_and_log()
        };
        let last = group.last;
        let logged = match logged {
            Ok(logged) => logged,
            Err(error) => {
                self.leave(node, last, Some(&error));
                return Err(error);
            }
        };
        let mut next = logged.first_sequence;
        for member in group.nodes() {
            member.sequence.set(next);
            next = next.plus(member.count());
        }
        let last_sequence = SequenceNumber(next.get().saturating_sub(1));
        if logged.insertion == Insertion::ByMembers && group.length > 1 {
            let parallel = ParallelInsertion {
                leader: node,
                last,
                running: AtomicUsize::new(group.length),
                error: Mutex::new(None),
                last_sequence,
            };
            // The links are read before a member is woken: it may push on, but it stays until all are done.
            for member in group.nodes() {
                member.parallel.set(&parallel);
                if ptr::eq(member, node) {
                    node.state.store(INSERTING, Ordering::Relaxed);
                } else {
                    // SAFETY: members wait for the leader.
                    unsafe { Node::wake(member, INSERTING) };
                }
            }
            let result = group.leader_batch().map_or(Ok(()), |batch| executor.insert(batch, node.sequence.get()));
            return self.inserted(node, result, executor);
        }
        let mut result = Ok(());
        for member in group.nodes() {
            // SAFETY: a member's batch is borrowed by its caller, which waits.
            if let Some(batch) = unsafe { member.batch.as_ref() } {
                result = executor.insert(batch, member.sequence.get());
                if result.is_err() {
                    break;
                }
            }
        }
        match &result {
            Ok(()) => executor.publish(last_sequence),
            Err(error) => executor.failed(error),
        }
        self.leave(node, last, result.as_ref().err());
        result
    }

    /// Ends a member's part in a parallel insertion; the last one publishes and completes the group.
    fn inserted<E: GroupExecutor>(&self, node: &Node, result: Result<()>, executor: &E) -> Result<()> {
        // SAFETY: the leader keeps it until the last member is done, and this one is not.
        let parallel = unsafe { &*node.parallel.get() };
        if let Err(error) = result {
            parallel.error.lock().get_or_insert(error);
        }
        if parallel.running.fetch_sub(1, Ordering::AcqRel) > 1 {
            node.wait_while(INSERTING);
            return node.error.take().map_or(Ok(()), Err);
        }
        let (leader, last) = (parallel.leader, parallel.last);
        let error = parallel.error.lock().take();
        match &error {
            None => executor.publish(parallel.last_sequence),
            Some(error) => executor.failed(error),
        }
        self.leave(leader, last, error.as_ref());
        if !ptr::eq(leader, node) {
            // SAFETY: the leader waits for its own completion; it goes last because it holds `parallel`.
            unsafe {
                (*leader).error.set(error.clone());
                Node::wake(leader, COMPLETED);
            }
        }
        error.map_or(Ok(()), Err)
    }

    /// Makes the writer behind `last` the leader, and completes all from `last` back to, but without, `first`.
    fn leave(&self, first: *const Node, last: *const Node, error: Option<&Error>) {
        let only = self.newest.compare_exchange(last.cast_mut(), ptr::null_mut(), Ordering::AcqRel, Ordering::Acquire);
        if let Err(newest) = only {
            // SAFETY: nodes from the newest back to `first` wait or are ours; the caller is at the front of the queue.
            unsafe {
                link_newer(newest);
                let next = (*last).newer.get();
                debug_assert!(!next.is_null());
                (*next).older.set(ptr::null());
                Node::wake(next, LEADER);
            }
        }
        let mut member = last;
        while !ptr::eq(member, first) {
            // SAFETY: members wait until they are completed here; the link is read before.
            unsafe {
                let older = (*member).older.get();
                (*member).error.set(error.cloned());
                Node::wake(member, COMPLETED);
                member = older;
            }
        }
    }
}

/// Completes the links from older to newer nodes, from `newest` back to the first that has one.
///
/// # Safety
/// The caller is at the front of the queue and `newest` was loaded from it.
unsafe fn link_newer(newest: *const Node) {
    let mut node = newest;
    loop {
        // SAFETY: all nodes of the queue wait; the oldest is the caller's own or one of its group.
        unsafe {
            let older = (*node).older.get();
            if older.is_null() || !(*older).newer.get().is_null() {
                return;
            }
            (*older).newer.set(node);
            node = older;
        }
    }
}

impl Node {
    fn count(&self) -> u64 {
        // SAFETY: the batch is borrowed by the caller of the writer, which waits.
        unsafe { self.batch.as_ref() }.map_or(0, |batch| u64::from(batch.count()))
    }
}

#[cold]
fn write_stall() -> Error {
    Error::incomplete("Write stall")
}

impl<'a> Leadership<'a> {
    /// Bytes of the group written before; what a delay is charged for.
    pub fn previous_group_bytes(&self) -> u64 {
        self.queue.previous_group_bytes.load(Ordering::Relaxed)
    }

    /// Starts a stall: writers with `no_slowdown` fail at once, those waiting and those to come, until the guard goes.
    pub fn begin_stall(&self) -> StallGuard<'a> {
        self.queue.stalled.store(true, Ordering::Relaxed);
        self.reject_no_slowdown();
        StallGuard { queue: self.queue }
    }

    /// Takes waiting writers with `no_slowdown` out of the queue and fails them.
    fn reject_no_slowdown(&self) {
        let mut newer: *const Node = ptr::null();
        let mut node: *const Node = self.queue.newest.load(Ordering::Acquire);
        // Taking out a node links its neighbours, and a link means that all older ones are there.
        // SAFETY: the caller is at the front of the queue.
        unsafe { link_newer(node) };
        while !ptr::eq(node, self.node) {
            // SAFETY: everybody behind the leader waits, and only the leader changes links; a node taken out is not
            // reachable any more when it is woken.
            unsafe {
                let older = (*node).older.get();
                if (*node).flags.no_slowdown && !(*node).batch.is_null() {
                    if newer.is_null() {
                        let swap = self.queue.newest.compare_exchange(
                            node.cast_mut(),
                            older.cast_mut(),
                            Ordering::AcqRel,
                            Ordering::Acquire,
                        );
                        if let Err(newest) = swap {
                            // Somebody queued up behind it meanwhile.
                            newer = newest;
                            while !ptr::eq((*newer).older.get(), node) {
                                newer = (*newer).older.get();
                            }
                        }
                    }
                    if !newer.is_null() {
                        (*newer).older.set(older);
                    }
                    (*older).newer.set(newer);
                    (*node).error.set(Some(write_stall()));
                    Node::wake(node, COMPLETED);
                } else {
                    newer = node;
                }
                node = older;
            }
        }
    }

    /// How many writers are in the queue, the leader included.
    fn queue_length(&self) -> usize {
        let mut node: *const Node = self.queue.newest.load(Ordering::Acquire);
        let mut length = 1;
        while !ptr::eq(node, self.node) {
            // SAFETY: nodes from the newest back to the leader's wait, and only the leader changes links.
            node = unsafe { (*node).older.get() };
            length += 1;
        }
        length
    }

    /// Gathers the writers behind the leader that may join it, up to the first that may not.
    fn gather(&'a self) -> WriteGroup<'a> {
        // SAFETY: the leader's node is the caller's; followers wait; links are changed by the leader alone.
        unsafe {
            let leader = &*self.node;
            let leader_batch = leader.batch.as_ref();
            let mut group = WriteGroup {
                leadership: self,
                last: self.node,
                length: 1,
                bytes: leader_batch.map_or(0, WriteBatch::data_size),
                count: leader.count(),
                flags: leader_batch.map_or_else(ContentFlags::default, WriteBatch::flags),
            };
            let newest: *const Node = self.queue.newest.load(Ordering::Acquire);
            if ptr::eq(newest, self.node) {
                return group;
            }
            link_newer(newest);
            let max_bytes = max_group_bytes(group.bytes, self.queue.max_group_bytes);
            while !ptr::eq(group.last, newest) {
                let candidate = &*(*group.last).newer.get();
                let Some(batch) = candidate.batch.as_ref() else { break };
                let bytes = group.bytes + batch.data_size();
                if !may_join(leader.flags, candidate.flags) || bytes > max_bytes {
                    break;
                }
                group.last = candidate;
                group.length += 1;
                group.bytes = bytes;
                group.count += u64::from(batch.count());
                group.flags = group.flags.with(batch.flags());
            }
            group
        }
    }
}

impl<'a> WriteGroup<'a> {
    fn nodes(&self) -> impl Iterator<Item = &'a Node> + use<'a> {
        let last = self.last;
        let mut next = self.leadership.node;
        std::iter::from_fn(move || {
            // SAFETY: members wait while the leader has the group.
            let node = unsafe { next.as_ref() }?;
            next = if ptr::eq(node, last) { ptr::null() } else { node.newer.get() };
            Some(node)
        })
    }

    fn leader_batch(&self) -> Option<&'a WriteBatch> {
        self.batches().next()
    }

    /// The batches in the order in which they take effect.
    pub fn batches(&self) -> impl Iterator<Item = &'a WriteBatch> + use<'a> {
        // SAFETY: a member's batch is borrowed by its caller, which waits while the leader has the group.
        self.nodes().filter_map(|node| unsafe { node.batch.as_ref() })
    }

    /// The proof that the caller leads.
    pub fn leadership(&self) -> &Leadership<'a> {
        self.leadership
    }

    /// What the leader asked for; all members agree except that some may not need the sync.
    pub fn flags(&self) -> WriteFlags {
        // SAFETY: the leader's node is the caller's.
        unsafe { (*self.leadership.node).flags }
    }

    /// Number of batches.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Never: a group has its leader's batch.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Size of the batches in bytes, headers included.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of updates.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Which kinds of records there are.
    pub fn content(&self) -> ContentFlags {
        self.flags
    }

    /// Whether the batches are large enough that waking their writers to insert them pays.
    pub fn is_worth_parallel_insertion(&self) -> bool {
        /// An insertion costs about a microsecond or two, waking a thread several.
        const MIN_UPDATES_PER_MEMBER: u64 = 16;
        self.length > 1 && self.count >= MIN_UPDATES_PER_MEMBER * self.length as u64
    }
}

/// Keeps writers with `no_slowdown` failing while a stall lasts.
pub struct StallGuard<'a> {
    queue: &'a WriteThread,
}

impl Drop for StallGuard<'_> {
    fn drop(&mut self) {
        self.queue.stalled.store(false, Ordering::Relaxed);
    }
}

/// Holds the front of the queue; dropping it lets the next writer lead. Stays on the thread that entered.
pub struct ExclusiveGuard<'a> {
    leadership: Leadership<'a>,
}

impl<'a> ExclusiveGuard<'a> {
    /// The proof that the caller leads.
    pub fn leadership(&self) -> &Leadership<'a> {
        &self.leadership
    }
}

impl Drop for ExclusiveGuard<'_> {
    fn drop(&mut self) {
        let node = self.leadership.node;
        self.leadership.queue.leave(node, node, None);
        // SAFETY: `enter_exclusive` made it of a box; nobody knows it any more since it left the queue.
        drop(unsafe { Box::from_raw(node.cast_mut()) });
    }
}

#[cfg(test)]
#[path = "group_test.rs"]
mod tests;
