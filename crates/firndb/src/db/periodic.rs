//! Work that comes with time: dumps of statistics, their history, a look for compactions that are due by age, for files that
//! nobody needs, and the info log's buffer.
//!
//! A thread per open database sleeps until the next task is due by the options in force. Always true here: tasks run one
//! after the other and without the database mutex; closing the database ends the thread at once, but for a task that runs.
//! There is no such thread over a clock that stands still until somebody moves it.

use std::fmt::Write;
use std::time::Duration;

use firn_env::sync::MutexGuard;
use firn_env::sync::atomic::{AtomicU64, Ordering};
use firn_env::{log_info, log_warn, thread};

use super::DbInner;
use crate::options::DbOptions;
use crate::stats::history::StatsHistoryEntry;

/// How often the info log's buffer is written.
const FLUSH_INFO_LOG_MICROS: u64 = 10_000_000;

/// Spreads the first runs of the databases of a process over time, as RocksDB does.
static STATISTICS_TASKS: AtomicU64 = AtomicU64::new(0);

/// What is done from time to time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    /// Reports go to the info log.
    DumpStats,
    /// Tickers go to the history.
    PersistStats,
    /// The info log goes to the system.
    FlushInfoLog,
    /// Compactions may have become due by the age of files.
    TriggerCompactions,
    /// All directories are searched for files that nobody needs.
    PurgeObsoleteFiles,
}

impl Task {
    const ALL: [Self; 5] =
        [Self::DumpStats, Self::PersistStats, Self::FlushInfoLog, Self::TriggerCompactions, Self::PurgeObsoleteFiles];

    /// How often it is done, in microseconds; none is never.
    fn period_micros(self, options: &DbOptions, shortest_age_secs: Option<u64>) -> Option<u64> {
        let secs = |secs: u64| (secs > 0).then(|| secs.saturating_mul(1_000_000));
        match self {
            Self::DumpStats => secs(u64::from(options.stats_dump_period_sec)),
            Self::PersistStats => secs(u64::from(options.stats_persist_period_sec)),
            Self::FlushInfoLog => Some(FLUSH_INFO_LOG_MICROS),
            Self::TriggerCompactions => {
                let stats = [options.stats_dump_period_sec, options.stats_persist_period_sec].map(u64::from);
                let limits = stats.into_iter().filter(|period| *period > 0);
                let limits = limits.chain([options.max_compaction_trigger_wakeup_seconds, shortest_age_secs? / 5]);
                secs(limits.min().unwrap_or(0).max(1))
            }
            Self::PurgeObsoleteFiles => Some(options.delete_obsolete_files_period_micros).filter(|micros| *micros > 0),
        }
    }

    /// How long after the open it is done first.
    fn first_delay_micros(self, period_micros: u64) -> u64 {
        match self {
            Self::DumpStats | Self::PersistStats => {
                let turn = STATISTICS_TASKS.fetch_add(1, Ordering::Relaxed);
                turn.saturating_mul(1_000_000).checked_rem(period_micros).unwrap_or(0)
            }
            Self::FlushInfoLog | Self::TriggerCompactions | Self::PurgeObsoleteFiles => period_micros,
        }
    }
}

/// When a task is due next.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    task: Task,
    period_micros: Option<u64>,
    next_micros: u64,
}

impl Schedule {
    fn new(task: Task) -> Self {
        Self { task, period_micros: None, next_micros: u64::MAX }
    }

    /// Follows the options; a new period begins now.
    fn follow(&mut self, period_micros: Option<u64>, now_micros: u64, is_first: bool) {
        if period_micros == self.period_micros {
            return;
        }
        self.period_micros = period_micros;
        let delay = |period| if is_first { self.task.first_delay_micros(period) } else { period };
        self.next_micros = period_micros.map_or(u64::MAX, |period| now_micros.saturating_add(delay(period)));
    }
}

impl DbInner {
    /// Starts the thread that does what comes with time.
    pub(crate) fn start_periodic_work(&self) {
        let Some(db) = self.this.upgrade().filter(|_| !self.env.clock().is_manual()) else { return };
        self.state.lock().own_threads += 1;
        if let Err(error) = thread::spawn("firn:periodic", move || db.run_periodic_work()) {
            self.state.lock().own_threads -= 1;
            log_warn!(self.logger(), "No periodic work: {error}");
        }
    }

    fn run_periodic_work(&self) {
        let _at_work = self.workers.enter();
        let now_micros = || self.env.clock().now_nanos() / 1000;
        let mut schedules = Task::ALL.map(Schedule::new);
        let mut is_first = true;
        let mut state = self.state.lock();
        while !self.closing.load(Ordering::Acquire) {
            let (options, age) = (self.options(), self.shortest_age_secs());
            for schedule in &mut schedules {
                schedule.follow(schedule.task.period_micros(&options, age), now_micros(), is_first);
            }
            is_first = false;
            let Some(next) = schedules.iter_mut().min_by_key(|schedule| schedule.next_micros) else { break };
            let now = now_micros();
            if next.next_micros > now {
                let pause = Duration::from_micros(next.next_micros - now);
                self.periodic.wait_for(&mut state, pause.min(Duration::from_secs(3600)));
                continue;
            }
            next.next_micros = now.saturating_add(next.period_micros.unwrap_or(u64::MAX));
            let task = next.task;
            // Whatever a task calls that is not ours: what comes with time comes again.
            let run = || {
                self.run_task(task);
                Ok(())
            };
            let _ = MutexGuard::unlocked(&mut state, || thread::catch_panic("periodic work", run));
        }
        state.own_threads -= 1;
        self.background.notify_all();
        // The guard goes before the thread's reference to the database does.
        drop(state);
    }

    fn run_task(&self, task: Task) {
        match task {
            Task::DumpStats => self.dump_stats(),
            Task::PersistStats => self.persist_stats(),
            Task::FlushInfoLog => self.logger().flush(),
            Task::TriggerCompactions => {
                let retired = self.look_at_all_families(&mut self.state.lock());
                drop(retired);
            }
            Task::PurgeObsoleteFiles => self.purge_all_obsolete_files(),
        }
    }

    /// The shortest time after which files of some family are compacted for their age; none when there is none.
    fn shortest_age_secs(&self) -> Option<u64> {
        let ages = |options: &crate::options::ColumnFamilyOptions| {
            [options.ttl, options.periodic_compaction_seconds, options.bottommost_file_compaction_delay.into()]
        };
        let all = self.families.all();
        all.iter().flat_map(|data| ages(&data.options())).filter(|age| (1..u64::MAX - 1).contains(age)).min()
    }

    /// Writes the reports to the info log.
    fn dump_stats(&self) {
        let families = self.families.all();
        let Some(first) = families.first() else { return };
        let mut text = String::from("\n");
        text += &self.property(first, "rocksdb.dbstats").unwrap_or_default();
        for name in ["rocksdb.cfstats-no-file-histogram", "rocksdb.cf-file-histogram"] {
            for data in &families {
                text += &self.property(data, name).unwrap_or_default();
            }
        }
        if let Some(statistics) = &self.statistics {
            // Writing to a string cannot fail.
            let _ = write!(text, "STATISTICS:\n {}", statistics.to_text());
        }
        log_info!(self.logger(), "------- DUMPING STATS -------");
        log_info!(self.logger(), "{text}");
    }

    /// Adds what the tickers did since the last time to the history.
    fn persist_stats(&self) {
        let Some(statistics) = &self.statistics else { return };
        let now_secs = self.env.clock().now_secs();
        let limit_bytes = self.options().stats_history_buffer_size;
        log_info!(self.logger(), "------- PERSISTING STATS -------");
        let (kept, dropped) = self.stats_history.lock().add(now_secs, statistics.ticker_map(), limit_bytes);
        if kept > 0 {
            log_info!(
                self.logger(),
                "Storing {kept} stats with timestamp {now_secs} to in-memory stats history ({dropped} old entries dropped)"
            );
        }
    }

    /// What the tickers did; see [`Db::get_stats_history`](crate::Db::get_stats_history).
    pub(crate) fn get_stats_history(&self, start_secs: u64, end_secs: u64) -> Vec<StatsHistoryEntry> {
        self.stats_history.lock().between(start_secs, end_secs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_follow_the_options() {
        let mut options = DbOptions::default();
        let period = |task: Task, options: &DbOptions, age| task.period_micros(options, age);
        assert_eq!(period(Task::DumpStats, &options, None), Some(600_000_000));
        assert_eq!(period(Task::TriggerCompactions, &options, None), None);
        assert_eq!(period(Task::TriggerCompactions, &options, Some(100_000)), Some(600_000_000));
        assert_eq!(period(Task::TriggerCompactions, &options, Some(50)), Some(10_000_000));
        assert_eq!(period(Task::TriggerCompactions, &options, Some(1)), Some(1_000_000));
        options.stats_dump_period_sec = 0;
        options.stats_persist_period_sec = 0;
        options.delete_obsolete_files_period_micros = 0;
        for task in [Task::DumpStats, Task::PersistStats, Task::PurgeObsoleteFiles] {
            assert_eq!(period(task, &options, None), None);
        }
        assert_eq!(period(Task::TriggerCompactions, &options, Some(u64::MAX / 2)), Some(43_200_000_000));
    }

    #[test]
    fn a_schedule_keeps_its_time_until_the_period_changes() {
        let mut schedule = Schedule::new(Task::PurgeObsoleteFiles);
        schedule.follow(Some(50), 1000, true);
        assert_eq!(schedule.next_micros, 1050);
        schedule.follow(Some(50), 1040, false);
        assert_eq!(schedule.next_micros, 1050);
        schedule.follow(Some(20), 1040, false);
        assert_eq!(schedule.next_micros, 1060);
        schedule.follow(None, 1040, false);
        assert_eq!(schedule.next_micros, u64::MAX);
    }
}
