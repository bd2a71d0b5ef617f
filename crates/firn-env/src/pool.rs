//! Background job pools: four priorities, each a queue with its own limit of threads.
//!
//! Jobs are closures. They flow in through [`JobPools::schedule`] and run in the order they came, on threads that are
//! started only when there is work for them. A job that waits may be withdrawn by its tag.
//!
//! Always true here: at most `background_threads(p)` jobs of priority `p` run at once; a job runs once or is
//! withdrawn once; a panic in a job does not take its thread from the pool. Pools made with [`JobPools::stepped`] have no
//! threads at all: jobs run where somebody calls [`JobPools::run_one`], which makes a run repeatable.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::sync::{Condvar, Mutex};
use crate::thread::{self, JoinHandle};

/// Which pool a job belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Priority {
    /// Compactions into the last level, when the user gives them threads of their own. 0 threads by default.
    Bottom = 0,
    /// Compactions. 1 thread by default.
    Low = 1,
    /// Flushes. 1 thread by default.
    High = 2,
    /// The user's own jobs. 0 threads by default.
    User = 3,
}

impl Priority {
    /// All priorities, lowest first.
    pub const ALL: [Self; 4] = [Self::Bottom, Self::Low, Self::High, Self::User];

    fn label(self) -> &'static str {
        match self {
            Self::Bottom => "bottom",
            Self::Low => "low",
            Self::High => "high",
            Self::User => "user",
        }
    }
}

type Action = Box<dyn FnOnce() + Send>;

struct Job {
    tag: u64,
    run: Action,
    on_withdrawn: Option<Action>,
}

struct PoolState {
    queue: VecDeque<Job>,
    limit: usize,
    threads: Vec<JoinHandle<()>>,
    started: usize,
    idle: usize,
    running: usize,
    closing: bool,
}

struct Pool {
    priority: Priority,
    has_threads: bool,
    state: Mutex<PoolState>,
    work: Condvar,
    quiet: Condvar,
}

impl Pool {
    fn new(priority: Priority, has_threads: bool) -> Self {
        let limit = usize::from(matches!(priority, Priority::Low | Priority::High));
        Self {
            priority,
            has_threads,
            state: Mutex::new(PoolState {
                queue: VecDeque::new(),
                limit,
                threads: Vec::new(),
                started: 0,
                idle: 0,
                running: 0,
                closing: false,
            }),
            work: Condvar::new(),
            quiet: Condvar::new(),
        }
    }

    /// Starts a thread when there is work that no idle thread will take.
    fn start_threads(self: &Arc<Self>, state: &mut PoolState) {
        while self.has_threads && !state.closing && state.started < state.limit && state.queue.len() > state.idle {
            let pool = Arc::clone(self);
            let name = format!("firn:{}{}", self.priority.label(), state.started);
            // When the system refuses another thread the work waits for one that exists, or for the next attempt.
            let Ok(handle) = thread::spawn(name, move || pool.serve()) else { return };
            state.threads.push(handle);
            state.started += 1;
            // The new thread will take one job: count it as idle until it does.
            state.idle += 1;
        }
    }

    /// A pool thread's life. It was counted as idle by whoever started it.
    fn serve(&self) {
        let mut state = self.state.lock();
        loop {
            if state.closing || state.started > state.limit {
                state.idle -= 1;
                state.started -= 1;
                self.quiet.notify_all();
                return;
            }
            let Some(job) = state.queue.pop_front() else {
                self.work.wait(&mut state);
                continue;
            };
            state.idle -= 1;
            state.running += 1;
            drop(state);
            // The panic hook has reported it; the pool goes on.
            let _ = catch_unwind(AssertUnwindSafe(job.run));
            drop(job.on_withdrawn);
            state = self.state.lock();
            state.running -= 1;
            state.idle += 1;
            if state.running == 0 && state.queue.is_empty() {
                self.quiet.notify_all();
            }
        }
    }
}

/// The background threads of one [`crate::Env`]. Thread-safe.
pub struct JobPools {
    pools: [Arc<Pool>; 4],
}

impl JobPools {
    /// Pools with one thread for flushes and one for compactions; threads start with their first job.
    pub fn new() -> Self {
        Self { pools: Priority::ALL.map(|priority| Arc::new(Pool::new(priority, true))) }
    }

    /// Pools without threads: a job runs when somebody calls [`run_one`](Self::run_one), on the caller's thread.
    pub fn stepped() -> Self {
        Self { pools: Priority::ALL.map(|priority| Arc::new(Pool::new(priority, false))) }
    }

    /// Whether jobs wait for [`run_one`](Self::run_one). Whoever waits for the outcome of a job must then run it.
    pub fn is_stepped(&self) -> bool {
        self.pools.iter().any(|pool| !pool.has_threads)
    }

    /// Runs the first waiting job of the highest priority that has one and is allowed another; `false` without any. For
    /// stepped pools. A panic of the job is the caller's.
    pub fn run_one(&self) -> bool {
        for pool in self.pools.iter().rev() {
            let mut state = pool.state.lock();
            if state.running >= state.limit {
                continue;
            }
            if let Some(job) = state.queue.pop_front() {
                state.running += 1;
                drop(state);
                (job.run)();
                pool.state.lock().running -= 1;
                return true;
            }
        }
        false
    }

    fn pool(&self, priority: Priority) -> &Arc<Pool> {
        let [bottom, low, high, user] = &self.pools;
        match priority {
            Priority::Bottom => bottom,
            Priority::Low => low,
            Priority::High => high,
            Priority::User => user,
        }
    }

    /// Sets how many jobs of a priority may run at once. Threads above a lowered limit end after their current job.
    pub fn set_background_threads(&self, priority: Priority, threads: usize) {
        let pool = self.pool(priority);
        let mut state = pool.state.lock();
        state.limit = threads;
        pool.start_threads(&mut state);
        pool.work.notify_all();
    }

    /// Raises the limit of a priority to at least `threads`.
    pub fn increase_background_threads(&self, priority: Priority, threads: usize) {
        let pool = self.pool(priority);
        let mut state = pool.state.lock();
        state.limit = state.limit.max(threads);
        pool.start_threads(&mut state);
    }

    /// How many jobs of a priority may run at once.
    pub fn background_threads(&self, priority: Priority) -> usize {
        self.pool(priority).state.lock().limit
    }

    /// Queues a job. It waits as long as the priority has no threads.
    pub fn schedule(&self, priority: Priority, job: impl FnOnce() + Send + 'static) {
        self.enqueue(priority, Job { tag: 0, run: Box::new(job), on_withdrawn: None });
    }

    /// Queues a job that [`JobPools::unschedule`] can withdraw by `tag` (not 0); `on_withdrawn` then runs in its place.
    pub fn schedule_tagged(
        &self,
        priority: Priority,
        tag: u64,
        job: impl FnOnce() + Send + 'static,
        on_withdrawn: impl FnOnce() + Send + 'static,
    ) {
        self.enqueue(priority, Job { tag, run: Box::new(job), on_withdrawn: Some(Box::new(on_withdrawn)) });
    }

    fn enqueue(&self, priority: Priority, job: Job) {
        let pool = self.pool(priority);
        let mut state = pool.state.lock();
        if state.closing {
            drop(state);
            if let Some(withdrawn) = job.on_withdrawn {
                withdrawn();
            }
            return;
        }
        state.queue.push_back(job);
        pool.start_threads(&mut state);
        pool.work.notify_one();
    }

    /// Withdraws the waiting jobs of a priority that carry `tag` and runs their withdrawal closures on the calling
    /// thread. Jobs that already run are left alone. Returns how many were withdrawn.
    pub fn unschedule(&self, priority: Priority, tag: u64) -> usize {
        let pool = self.pool(priority);
        let mut state = pool.state.lock();
        let (withdrawn, kept): (Vec<Job>, VecDeque<Job>) = {
            let queue = std::mem::take(&mut state.queue);
            let mut withdrawn = Vec::new();
            let mut kept = VecDeque::new();
            for job in queue {
                if tag != 0 && job.tag == tag { withdrawn.push(job) } else { kept.push_back(job) }
            }
            (withdrawn, kept)
        };
        state.queue = kept;
        if state.running == 0 && state.queue.is_empty() {
            pool.quiet.notify_all();
        }
        drop(state);
        let count = withdrawn.len();
        for job in withdrawn {
            drop(job.run);
            if let Some(closure) = job.on_withdrawn {
                closure();
            }
        }
        count
    }

    /// How many jobs of a priority wait.
    pub fn queue_len(&self, priority: Priority) -> usize {
        self.pool(priority).state.lock().queue.len()
    }

    /// How many jobs of a priority run.
    pub fn running(&self, priority: Priority) -> usize {
        self.pool(priority).state.lock().running
    }

    /// Waits until no job of a priority runs or waits. Must not be called from a job of that priority. Jobs of a
    /// priority without threads never run, so waiting for them would not end.
    pub fn wait_idle(&self, priority: Priority) {
        let pool = self.pool(priority);
        while self.is_stepped() && self.queue_len(priority) > 0 && self.run_one() {}
        let mut state = pool.state.lock();
        while state.running > 0 || !state.queue.is_empty() {
            pool.quiet.wait(&mut state);
        }
    }

    /// Ends all threads after their current jobs; jobs that wait are withdrawn, later ones too. Dropping does the same.
    pub fn shutdown(&self) {
        for pool in &self.pools {
            let (threads, jobs) = {
                let mut state = pool.state.lock();
                state.closing = true;
                pool.work.notify_all();
                (std::mem::take(&mut state.threads), std::mem::take(&mut state.queue))
            };
            for job in jobs {
                drop(job.run);
                if let Some(closure) = job.on_withdrawn {
                    closure();
                }
            }
            let me = thread::current().id();
            for thread in threads {
                // The last owner may be a job itself: a thread cannot wait for its own end.
                if thread.thread().id() != me {
                    let _ = thread.join();
                }
            }
            pool.quiet.notify_all();
        }
    }
}

impl Default for JobPools {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for JobPools {
    fn drop(&mut self) {
        self.shutdown();
    }
}

impl fmt::Debug for JobPools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("JobPools");
        for pool in &self.pools {
            let state = pool.state.lock();
            out.field(
                pool.priority.label(),
                &format_args!("{} running, {} waiting, limit {}", state.running, state.queue.len(), state.limit),
            );
        }
        out.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn runs_every_job_once_within_the_thread_limit() {
        let pools = JobPools::new();
        pools.set_background_threads(Priority::Low, 3);
        let (done, now, most) =
            (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        for _ in 0..200 {
            let (done, now, most) = (Arc::clone(&done), Arc::clone(&now), Arc::clone(&most));
            pools.schedule(Priority::Low, move || {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                thread::yield_now();
                now.fetch_sub(1, Ordering::SeqCst);
                done.fetch_add(1, Ordering::SeqCst);
            });
        }
        pools.wait_idle(Priority::Low);
        assert_eq!(done.load(Ordering::SeqCst), 200);
        assert!(most.load(Ordering::SeqCst) <= 3);
    }

    #[test]
    fn jobs_without_threads_wait_and_can_be_withdrawn() {
        let pools = JobPools::new();
        let count = Arc::new(AtomicUsize::new(0));
        for tag in [7, 8, 7] {
            let (ran, withdrawn) = (Arc::clone(&count), Arc::clone(&count));
            pools.schedule_tagged(
                Priority::Bottom,
                tag,
                move || {
                    ran.fetch_add(100, Ordering::SeqCst);
                },
                move || {
                    withdrawn.fetch_add(1, Ordering::SeqCst);
                },
            );
        }
        assert_eq!(pools.queue_len(Priority::Bottom), 3);
        assert_eq!(pools.unschedule(Priority::Bottom, 7), 2);
        assert_eq!(count.load(Ordering::SeqCst), 2);
        pools.set_background_threads(Priority::Bottom, 1);
        pools.wait_idle(Priority::Bottom);
        assert_eq!(count.load(Ordering::SeqCst), 102);
    }

    #[test]
    fn a_panicking_job_leaves_the_pool_alive() {
        let pools = JobPools::new();
        pools.schedule(Priority::High, || std::panic::resume_unwind(Box::new("expected by the test")));
        let (sender, receiver) = std::sync::mpsc::channel();
        pools.schedule(Priority::High, move || sender.send(1).unwrap());
        assert_eq!(receiver.recv(), Ok(1));
    }

    #[test]
    fn stepped_jobs_run_one_by_one_on_the_caller_highest_priority_first() {
        let pools = JobPools::stepped();
        let order = Arc::new(Mutex::new(Vec::new()));
        for (priority, name) in [(Priority::Low, 1), (Priority::Low, 2), (Priority::High, 3)] {
            let order = Arc::clone(&order);
            let caller = thread::current().id();
            pools.schedule(priority, move || {
                assert_eq!(thread::current().id(), caller);
                order.lock().push(name);
            });
        }
        assert!(order.lock().is_empty() && pools.is_stepped());
        assert!(pools.run_one());
        pools.wait_idle(Priority::Low);
        assert!(!pools.run_one());
        assert_eq!(*order.lock(), [3, 1, 2]);
    }

    #[test]
    fn shutdown_withdraws_what_waits() {
        let pools = JobPools::new();
        let withdrawn = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&withdrawn);
        pools.schedule_tagged(
            Priority::User,
            1,
            || (),
            move || {
                counter.fetch_add(1, Ordering::SeqCst);
            },
        );
        pools.shutdown();
        let counter = Arc::clone(&withdrawn);
        pools.schedule_tagged(
            Priority::User,
            1,
            || (),
            move || {
                counter.fetch_add(1, Ordering::SeqCst);
            },
        );
        assert_eq!(withdrawn.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn a_lowered_limit_ends_threads_and_a_raised_one_starts_them_again() {
        let pools = JobPools::new();
        pools.set_background_threads(Priority::Low, 4);
        for _ in 0..8 {
            pools.schedule(Priority::Low, || ());
        }
        pools.wait_idle(Priority::Low);
        pools.set_background_threads(Priority::Low, 1);
        pools.increase_background_threads(Priority::Low, 2);
        assert_eq!(pools.background_threads(Priority::Low), 2);
        pools.schedule(Priority::Low, || ());
        pools.wait_idle(Priority::Low);
    }
}
