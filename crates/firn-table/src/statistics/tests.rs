use super::*;

#[test]
fn names_and_numbers_are_rocksdbs() {
    assert_eq!((Ticker::COUNT, HistogramKind::COUNT), (267, 80));
    assert_eq!(Ticker::from_number(0), Some(Ticker::BlockCacheMiss));
    assert_eq!(Ticker::NumberKeysWritten.number(), 58);
    assert_eq!(Ticker::from_name("rocksdb.stall.micros"), Some(Ticker::StallMicros));
    assert_eq!(Ticker::BlobdbLazyPartialBytesSaved.number(), 266);
    assert_eq!(HistogramKind::DbGetMicros.number(), 0);
    assert_eq!(HistogramKind::from_number(79).unwrap().name(), "rocksdb.open.and.compact.db.open.micros");
    assert_eq!(HistogramKind::from_number(80), None);
}

#[test]
fn levels_decide_what_is_recorded() {
    let statistics = Statistics::new(StatsLevel::DisableAll);
    let record = || {
        statistics.record_tick(Ticker::BytesRead, 1);
        statistics.record_in_histogram(HistogramKind::BytesPerRead, 1);
        statistics.report_time(HistogramKind::DbGetMicros, 1);
        statistics.report_time(HistogramKind::CompressionTimesNanos, 1);
        let counts = [HistogramKind::BytesPerRead, HistogramKind::DbGetMicros, HistogramKind::CompressionTimesNanos]
            .map(|kind| statistics.histogram(kind).count());
        (statistics.take_ticker_count(Ticker::BytesRead), counts)
    };
    let mut seen = Vec::new();
    for level in 0..=5 {
        statistics.set_level(StatsLevel::from_number(level));
        seen.push(record());
    }
    assert_eq!(seen, [(0, [0, 0, 0]), (1, [0, 0, 0]), (1, [1, 0, 0]), (1, [2, 1, 0]), (1, [3, 2, 1]), (1, [4, 3, 2])]);
}

#[test]
fn counts_of_many_threads_add_up() {
    let statistics = Arc::new(Statistics::default());
    let threads: Vec<_> = (0..80)
        .map(|number| {
            let statistics = statistics.clone();
            firn_env::thread::spawn(format!("counter-{number}"), move || {
                for value in 0..1000 {
                    statistics.record_tick(Ticker::NumberKeysRead, 2);
                    statistics.record_in_histogram(HistogramKind::BytesPerRead, value);
                }
            })
            .expect("a thread")
        })
        .collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
    assert_eq!(statistics.ticker_count(Ticker::NumberKeysRead), 160_000);
    let histogram = statistics.histogram(HistogramKind::BytesPerRead);
    assert_eq!((histogram.count(), histogram.sum()), (80_000, 80 * 499_500));
    assert_eq!((histogram.min(), histogram.max()), (0, 999));
}

#[test]
fn resets_start_from_zero() {
    let statistics = Statistics::default();
    statistics.record_tick(Ticker::WalBytes, 7);
    statistics.record_in_histogram(HistogramKind::BytesPerWrite, 70);
    assert_eq!(statistics.take_ticker_count(Ticker::WalBytes), 7);
    statistics.record_tick(Ticker::WalBytes, 1);
    assert_eq!(statistics.ticker_count(Ticker::WalBytes), 1);
    statistics.set_ticker_count(Ticker::WalBytes, 100);
    statistics.record_tick(Ticker::WalBytes, 1);
    assert_eq!(statistics.ticker_count(Ticker::WalBytes), 101);
    statistics.reset();
    assert_eq!(statistics.ticker_count(Ticker::WalBytes), 0);
    assert_eq!(statistics.histogram_data(HistogramKind::BytesPerWrite), HistogramData::default());
    statistics.record_in_histogram(HistogramKind::BytesPerWrite, 5);
    let data = statistics.histogram_data(HistogramKind::BytesPerWrite);
    assert_eq!((data.count, data.sum, data.median), (1, 5, 5.0));
}

#[test]
fn the_text_is_rocksdbs() {
    let statistics = Statistics::default();
    statistics.record_tick(Ticker::BlockCacheMiss, 2417);
    statistics.report_time(HistogramKind::DbGetMicros, 5);
    let text = statistics.to_text();
    assert!(text.starts_with("rocksdb.block.cache.miss COUNT : 2417\nrocksdb.block.cache.hit COUNT : 0\n"));
    let line = "rocksdb.db.get.micros P50 : 5.000000 P95 : 5.000000 P99 : 5.000000 P100 : 5.000000 COUNT : 1 SUM : 5\n";
    assert!(text.contains(line));
    assert!(
        text.contains(
            "rocksdb.blobdb.seek.micros P50 : 0.000000 P95 : 0.000000 P99 : 0.000000 P100 : 0.000000 COUNT : 0"
        )
    );
    assert_eq!(text.lines().count(), 347);
}

#[test]
fn stop_watches_measure_by_the_clock() {
    let clock = firn_env::ManualClock::new(0);
    let statistics = Arc::new(Statistics::default());
    let watch = StopWatch::start(Some(&statistics), &clock, HistogramKind::DbWriteMicros);
    clock.advance_micros(9);
    drop(watch);
    StopWatch::start(Some(&statistics), &clock, HistogramKind::DbWriteMicros).cancel();
    let data = statistics.histogram_data(HistogramKind::DbWriteMicros);
    assert_eq!((data.count, data.sum), (1, 9));
}

#[test]
fn perf_contexts_count_by_level() {
    reset_perf_context();
    set_perf_level(PerfLevel::EnableCount);
    perf_add(PerfMetric::BlockReadCount, 2);
    let clock = firn_env::ManualClock::new(0);
    let timer = PerfTimer::start(PerfMetric::BlockReadTime, &clock);
    clock.advance_micros(3);
    drop(timer);
    assert_eq!(perf_context().to_text(true), "block_read_count = 2");
    set_perf_level(PerfLevel::EnableTimeExceptForMutex);
    let timer = PerfTimer::start(PerfMetric::BlockReadTime, &clock);
    clock.advance_micros(3);
    drop(timer);
    assert_eq!(perf_context().get(PerfMetric::BlockReadTime), 3000);
    set_perf_level(PerfLevel::Disable);
    perf_add(PerfMetric::BlockReadCount, 2);
    assert_eq!(perf_context().to_text(true), "block_read_count = 2, block_read_time = 3000");
    let text = perf_context().to_text(false);
    assert!(text.starts_with("user_key_comparison_count = 0, block_cache_hit_count = 0, block_read_count = 2, "));
    assert!(text.ends_with("multiscan_io_coalesced_nonadjacent = 0"));
    assert_eq!(PerfMetric::from_c_id(76), Some(PerfMetric::BlockReadCpuTime));
    set_perf_level(PerfLevel::EnableCount);
    reset_perf_context();
    assert_eq!(perf_context().to_text(true), "");
}

#[test]
fn io_stats_have_rocksdbs_text() {
    reset_io_stats();
    IoMetric::BytesRead.add(697_607);
    IoMetric::ReadNanos.add(5);
    assert_eq!(io_stats().to_text(true), "thread_pool_id = 4, bytes_read = 697607, read_nanos = 5");
    reset_io_stats();
    assert_eq!(io_stats().to_text(true), "thread_pool_id = 4");
}
