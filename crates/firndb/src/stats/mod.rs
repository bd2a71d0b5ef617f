//! What can be learned about a running database: counters, properties, reports, events.
//!
//! Every room counts into [`Statistics`] and the thread's [`PerfContext`]; the database room answers [`properties`] and hands
//! plain values to the reports ([`compaction_stats`], [`db_stats`], [`report`]); [`events`] tell listeners and the event log
//! what happened. Everything here is values in, text out: nothing looks at the database itself.

pub mod compaction_stats;
pub mod db_stats;
pub mod event_log;
pub mod events;
pub mod history;
pub mod numbers;
pub mod properties;
pub mod report;
pub(crate) mod table_events;

pub use compaction_stats::{
    BlobShape, ColumnFamilyShape, ColumnFamilyStats, CompactionStats, IngestStats, JobPriority, LevelShape, StallCounts,
};
pub use db_stats::{DbCounters, DbStats};
pub use event_log::EventLine;
pub use events::{EventListener, FlushReason, Listeners};
pub use firn_table::statistics::{
    BUCKET_LIMITS, BUCKETS, Histogram, HistogramData, HistogramKind, IoMetric, IoStatsContext, PerfContext, PerfLevel,
    PerfMetric, PerfTimer, Statistics, StatsLevel, StopWatch, Ticker, io_stats, perf_add, perf_context, perf_level,
    record_tick, reset_io_stats, reset_perf_context, set_perf_level,
};
pub use history::StatsHistoryEntry;
pub use properties::{
    PROPERTIES, Property, PropertyDescriptor, PropertyQuery, PropertyShape, PropertySource, get_int_property,
    get_map_property, get_property,
};
