//! What Firn must reach against RocksDB, and whether a run reached it.

use crate::kept::{Kept, Line};
use crate::outcome::Outcome;
use crate::stores::Kind;
use crate::tables::{Ratio, median};

/// A demand on a figure.
#[derive(Clone, Copy)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Bound {
    fn holds(self, figure: f64) -> bool {
        match self {
            Self::AtLeast(bound) => figure >= bound,
            Self::AtMost(bound) => figure <= bound,
        }
    }

    /// How far a figure is within the bound: below 1 it is not.
    fn margin(self, figure: f64) -> f64 {
        match self {
            Self::AtLeast(bound) => figure / bound,
            Self::AtMost(bound) => bound / figure,
        }
    }
}

impl std::fmt::Display for Bound {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtLeast(bound) => write!(out, "≥ {bound}"),
            Self::AtMost(bound) => write!(out, "≤ {bound}"),
        }
    }
}

/// What one line came to under a bar.
pub struct Check {
    /// Scenario and step, and the figure where it is not obvious.
    pub what: String,
    pub bound: String,
    pub reached: String,
    pub holds: bool,
    margin: f64,
}

impl Check {
    fn new(what: String, bound: Bound, figure: f64, reached: String) -> Self {
        // A figure that is not a number holds nothing.
        Self { what, bound: bound.to_string(), reached, holds: bound.holds(figure), margin: bound.margin(figure) }
    }
}

/// A demand with all lines that it is for.
pub struct Verdict {
    pub bar: &'static str,
    pub checks: Vec<Check>,
}

impl Verdict {
    /// Whether all of its lines hold; none where nothing was measured.
    pub fn holds(&self) -> Option<bool> {
        (!self.checks.is_empty()).then(|| self.checks.iter().all(|check| check.holds))
    }

    /// The line that is nearest to the bound, or furthest beyond it.
    pub fn tightest(&self) -> Option<&Check> {
        self.checks.iter().min_by(|one, other| one.margin.total_cmp(&other.margin))
    }
}

/// Figures of one step in all rounds, of both stores.
struct Pair<'a> {
    scenario: &'a str,
    step: &'a str,
    ours: &'a [Outcome],
    theirs: &'a [Outcome],
}

impl Pair<'_> {
    /// Checks the ratio of a figure; none where one of the stores has no such figure, or neither did any of it
    /// in most rounds.
    fn check(&self, bound: Bound, note: &str, figure: impl Fn(&Outcome) -> Option<f64>) -> Option<Check> {
        let list = |outcomes: &[Outcome]| outcomes.iter().map(&figure).collect::<Option<Vec<f64>>>();
        let (ours, theirs) = (list(self.ours)?, list(self.theirs)?);
        if median(&ours) == 0.0 && median(&theirs) == 0.0 {
            return None;
        }
        let ratio = Ratio::of(&ours, &theirs);
        let reached = match bound {
            Bound::AtLeast(_) => ratio.to_string(),
            Bound::AtMost(_) => format!("{ratio:.3}"),
        };
        Some(Check::new(format!("{}: {}{note}", self.scenario, self.step), bound, ratio.median, reached))
    }

    fn speed(&self, bound: f64) -> Option<Check> {
        self.check(Bound::AtLeast(bound), "", |outcome| Some(outcome.speed()))
    }

    fn is_cached(&self) -> bool {
        self.scenario == "cached" || self.scenario == "cached-filter"
    }

    fn is_step(&self, beginnings: &[&str]) -> bool {
        beginnings.iter().any(|beginning| self.step.starts_with(beginning))
    }

    fn has_streams(&self) -> bool {
        ["streams2", "streams8", "streams64"].contains(&self.scenario)
    }

    /// What is measured without a store is nobody's.
    fn is_plain(&self) -> bool {
        self.is_step(&["plain reads"])
    }
}

/// One bar over all lines that belong to it.
fn verdict<'a>(bar: &'static str, pairs: &[Pair<'a>], check: impl Fn(&Pair<'a>) -> Vec<Option<Check>>) -> Verdict {
    Verdict { bar, checks: pairs.iter().flat_map(check).flatten().collect() }
}

/// A bar on the operations a second of some lines.
fn speed<'a>(bar: &'static str, pairs: &[Pair<'a>], bound: f64, belongs: impl Fn(&Pair<'a>) -> bool) -> Verdict {
    verdict(bar, pairs, |pair| vec![belongs(pair).then(|| pair.speed(bound)).flatten()])
}

/// All bars on `first` against `bar`, measured or not.
pub fn judge(kept: &[Kept], first: Kind, bar: Kind) -> Vec<Verdict> {
    let pairs: Vec<Pair<'_>> = kept
        .iter()
        .flat_map(|kept| kept.lines.iter().map(move |line| (kept, line)))
        .filter_map(|(kept, Line { step, outcomes })| {
            let (ours, theirs) = (outcomes.get(&first)?, outcomes.get(&bar)?);
            Some(Pair { scenario: &kept.scenario, step, ours, theirs })
        })
        .collect();
    let mut list = speeds(&pairs);
    list.push(beyond_plain_reads(&pairs));
    list.push(verdict("CPU seconds per GB compacted, none/lz4/zstd", &pairs, |pair| {
        let merged = pair.is_step(&["compact all"]);
        vec![merged.then(|| pair.check(Bound::AtMost(0.7), "", |outcome| Some(outcome.processor_s()))).flatten()]
    }));
    list.push(two_threads(&pairs));
    list.push(verdict("write amplification (tables) with 2, 8 and 64 insert streams", &pairs, streams));
    list.push(verdict("longest stall and p99.9 in overwrite at full speed", &pairs, |pair| {
        if pair.step != "overwrite to the end" {
            return Vec::new();
        }
        vec![
            pair.check(Bound::AtMost(0.5), ", longest time without progress", |outcome| outcome.no_progress_ms),
            pair.check(Bound::AtMost(0.5), ", p99.9", |outcome| Some(outcome.latency_ns?[2] as f64)),
        ]
    }));
    list.extend(resources(&pairs));
    list
}

fn speeds(pairs: &[Pair<'_>]) -> Vec<Verdict> {
    vec![
        speed("fillseq, 1 thread, WAL on", pairs, 2.2, |pair| pair.scenario == "fill" && pair.step == "fillseq"),
        speed("fillrandom, 1, 2 and 4 threads", pairs, 1.6, |pair| pair.is_step(&["fillrandom"])),
        speed("overwrite, 1 thread, to the end of compaction", pairs, 1.5, |pair| pair.step == "overwrite to the end"),
        speed("fillsync, 4 writers", pairs, 1.2, |pair| pair.step == "fillsync, 4 thr"),
        speed("readrandom cached, 1 and 2 threads, with and without filters", pairs, 1.8, |pair| {
            pair.is_cached() && pair.is_step(&["readrandom"])
        }),
        speed("multireadrandom (batched) cached", pairs, 1.8, |pair| {
            pair.is_cached() && pair.is_step(&["multireadrandom"])
        }),
        speed("seekrandom (10 nexts), forward and reverse, cached, before and after overwrite", pairs, 1.6, |pair| {
            pair.is_cached() && (pair.step == "fwdrange" || pair.is_step(&["fwdrange after", "revrange"]))
        }),
        speed("readseq, readreverse", pairs, 1.3, |pair| pair.is_cached() && pair.is_step(&["readseq", "readreverse"])),
        speed("readwhilewriting, seekrandomwhilewriting", pairs, 1.5, |pair| {
            pair.is_cached() && pair.step.ends_with("whilewriting")
        }),
        speed("no line below 1.0", pairs, 1.0, |pair| !pair.is_plain()),
    ]
}

/// Processor time of a read from the device beyond what the plain loop of reads takes.
fn beyond_plain_reads(pairs: &[Pair<'_>]) -> Verdict {
    let find = |step: &str| pairs.iter().find(|pair| pair.scenario == "direct-blocks" && pair.is_step(&[step]));
    let check = |reads: &Pair<'_>, plain: &Pair<'_>| {
        let middle = |outcomes: &[Outcome]| {
            median(&outcomes.iter().map(Outcome::processor_us_per_operation).collect::<Vec<_>>())
        };
        let ours = middle(reads.ours) - middle(plain.ours);
        let theirs = middle(reads.theirs) - middle(plain.theirs);
        let what = format!("{}: {}, µs beyond the plain loop", reads.scenario, reads.step);
        let reached = format!("{:.3} ({ours:.2} against {theirs:.2})", ours / theirs);
        let mut check = Check::new(what, Bound::AtMost(0.4), ours / theirs, reached);
        // Where the other is not slower than the loop there is nothing to be a part of.
        check.holds &= theirs > 0.0;
        check
    };
    let checks = find("readrandom").zip(find("plain reads")).map(|(reads, plain)| check(reads, plain));
    Verdict {
        bar: "CPU per block read beyond a plain pread loop's, direct reads of 8 KB blocks",
        checks: checks.into_iter().collect(),
    }
}

/// Two threads against one, of the first store alone.
fn two_threads(pairs: &[Pair<'_>]) -> Verdict {
    let checks =
        pairs.iter().filter(|pair| pair.is_cached() && pair.is_step(&["readrandom, 1 thr"])).filter_map(|one| {
            let name = one.step.replace("1 thr", "2 thr");
            let two = pairs.iter().find(|pair| pair.scenario == one.scenario && pair.step == name)?;
            let speeds = |pair: &Pair<'_>| pair.ours.iter().map(Outcome::speed).collect::<Vec<_>>();
            let ratio = Ratio::of(&speeds(two), &speeds(one));
            let what = format!("{}: {name}", one.scenario);
            Some(Check::new(what, Bound::AtLeast(1.9), ratio.median, ratio.to_string()))
        });
    Verdict { bar: "2-thread ÷ 1-thread readrandom, cached", checks: checks.collect() }
}

/// Write amplification of interleaved streams: by itself, and against the other store.
fn streams(pair: &Pair<'_>) -> Vec<Option<Check>> {
    if !pair.has_streams() {
        return Vec::new();
    }
    let ours: Option<Vec<f64>> = pair.ours.iter().map(Outcome::table_amplification).collect();
    let alone = ours.map(|list| {
        let what = format!("{}: {}, by itself", pair.scenario, pair.step);
        Check::new(what, Bound::AtMost(2.0), median(&list), format!("{:.3}", median(&list)))
    });
    vec![alone, pair.check(Bound::AtMost(0.5), ", ratio", Outcome::table_amplification)]
}

fn resources(pairs: &[Pair<'_>]) -> Vec<Verdict> {
    let at_most_one = |pair: &Pair<'_>, note: &str, figure: fn(&Outcome) -> Option<f64>| {
        pair.check(Bound::AtMost(1.0), note, figure).filter(|_| !pair.is_plain())
    };
    vec![
        verdict("peak RSS", pairs, |pair| {
            vec![at_most_one(pair, "", |outcome| Some(outcome.peak_memory_bytes as f64))]
        }),
        verdict("write amplification elsewhere (tables; all bytes to the device)", pairs, |pair| {
            let tables = at_most_one(pair, ", tables", Outcome::table_amplification).filter(|_| !pair.has_streams());
            vec![tables, at_most_one(pair, ", device", Outcome::device_amplification)]
        }),
        verdict("space amplification", pairs, |pair| {
            vec![at_most_one(pair, "", |outcome| Some(outcome.space_amplification()))]
        }),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::kept::Parameters;
    use crate::measure::Timeline;

    fn outcome(seconds: f64) -> Outcome {
        Outcome {
            operations: 1000,
            entries: 1000,
            seconds,
            settled_seconds: seconds,
            user_us: 10,
            system_us: 0,
            latency_ns: Some([1, 2, 3, 4, 5]),
            curve: Vec::new(),
            timeline: Timeline::default(),
            no_progress_ms: Some(1.0),
            device_bytes: 200,
            table_bytes: Some(150),
            user_bytes: 100,
            space_bytes: 100,
            live_bytes: 100,
            peak_memory_bytes: 1,
            shape: String::new(),
        }
    }

    fn kept(scenario: &str, step: &str, ours: f64, theirs: f64) -> Kept {
        let stores = vec![Kind::Firn, Kind::Rocksdb];
        let parameters = Parameters { stores, num: 1, reads: 1, seed: 1, commit: String::new() };
        let outcomes = BTreeMap::from([(Kind::Firn, vec![outcome(ours)]), (Kind::Rocksdb, vec![outcome(theirs)])]);
        let mut kept = Kept::new(scenario, parameters);
        kept.lines.push(Line { step: step.to_owned(), outcomes });
        kept
    }

    fn holds(kept: &[Kept], bar: &str) -> Option<bool> {
        let verdicts = judge(kept, Kind::Firn, Kind::Rocksdb);
        verdicts.iter().find(|verdict| verdict.bar.starts_with(bar)).expect("there is such a bar").holds()
    }

    #[test]
    fn a_bar_holds_from_its_bound_on() {
        assert_eq!(holds(&[kept("fill", "fillseq", 1.0, 2.2)], "fillseq"), Some(true));
        assert_eq!(holds(&[kept("fill", "fillseq", 1.0, 2.1)], "fillseq"), Some(false));
        assert_eq!(holds(&[kept("fill", "fillseq", 1.0, 2.1)], "no line"), Some(true));
        assert_eq!(holds(&[kept("system", "fillseq", 1.0, 0.9)], "no line"), Some(false));
        assert_eq!(holds(&[kept("system", "fillseq", 1.0, 0.9)], "fillseq"), None);
    }

    #[test]
    fn amplification_of_streams_is_bounded_twice() {
        let verdicts = judge(&[kept("streams8", "insert", 1.0, 1.0)], Kind::Firn, Kind::Rocksdb);
        let streams = verdicts.iter().find(|verdict| verdict.bar.contains("streams")).expect("the bar is there");
        assert_eq!(streams.checks.iter().map(|check| check.holds).collect::<Vec<_>>(), [true, false]);
        assert_eq!(streams.tightest().map(|check| check.reached.as_str()), Some("1.000 (1.000–1.000)"));
    }

    #[test]
    fn what_neither_did_in_most_rounds_is_not_compared() {
        let mut kept = kept("cached", "readwhilewriting", 1.0, 1.0);
        for outcomes in kept.lines[0].outcomes.values_mut() {
            let idle = Outcome { table_bytes: Some(0), device_bytes: 0, ..outcome(1.0) };
            outcomes.extend([idle.clone(), idle]);
        }
        assert_eq!(holds(&[kept], "write amplification elsewhere"), None);
    }

    #[test]
    fn one_line_that_misses_is_enough() {
        let list = [kept("cached", "fwdrange", 1.0, 3.0), kept("cached-filter", "revrange after overwrite", 1.0, 1.5)];
        assert_eq!(holds(&list, "seekrandom"), Some(false));
        assert_eq!(holds(&list[..1], "seekrandom"), Some(true));
    }
}
