//! What can be learned about a running database: counters, properties, reports, events.
//!
//! Every room counts into [`Statistics`] and the thread's [`PerfContext`]; the database room answers [`properties`] and hands
//! plain values to the [`report`]s; [`events`] tell listeners and the event log what happened. Everything here is values in,
//! text out: nothing looks at the database itself.

pub use firn_table::statistics::{
    BUCKET_LIMITS, BUCKETS, Histogram, HistogramData, HistogramKind, IoMetric, IoStatsContext, PerfContext, PerfLevel,
    PerfMetric, PerfTimer, Statistics, StatsLevel, StopWatch, Ticker, io_stats, perf_add, perf_context, perf_level,
    record_tick, reset_io_stats, reset_perf_context, set_perf_level,
};
