//! The report of a race: Markdown for people, CSV for programs, an HTML page with plots. All are made of what was kept.

use std::fmt::Write;
use std::path::Path;

use crate::bars::{self, Verdict};
use crate::kept::{Kept, Line};
use crate::outcome::Outcome;
use crate::stores::Kind;
use crate::tables::{Ratio, Table, median, short, spread};
use crate::{Fallible, keys, plots};

fn middle(outcomes: &[Outcome], figure: impl Fn(&Outcome) -> f64) -> f64 {
    median(&outcomes.iter().map(figure).collect::<Vec<_>>())
}

/// The median of a figure that not all outcomes have.
fn middle_of_some(outcomes: &[Outcome], figure: impl Fn(&Outcome) -> Option<f64>) -> String {
    let list: Option<Vec<f64>> = outcomes.iter().map(figure).collect();
    list.map_or_else(String::new, |list| format!("{:.2}", median(&list)))
}

fn micros(nanos: f64) -> String {
    if nanos >= 1e6 { format!("{:.0}", nanos / 1e3) } else { format!("{:.2}", nanos / 1e3) }
}

/// The stores of all that was kept, in the order of the first race.
fn stores(kept: &[Kept]) -> Vec<Kind> {
    let mut list = Vec::new();
    for kind in kept.iter().flat_map(|kept| &kept.parameters.stores) {
        if !list.contains(kind) {
            list.push(*kind);
        }
    }
    list
}

/// Lines with the scenario that they are of.
fn lines(kept: &[Kept]) -> impl Iterator<Item = (&str, &Line)> {
    kept.iter().flat_map(|kept| kept.lines.iter().map(|line| (kept.scenario.as_str(), line)))
}

fn markdown(kept: &[Kept]) -> String {
    let stores = stores(kept);
    let mut out = format!(
        "Keys and values of {}+{} bytes. Every store runs in a process of its own, allocates through jemalloc and is built by \
         `cargo build --release` in `compare/` (thin LTO, one codegen unit, x86-64-v3 with pclmulqdq); steps are run in turn.\n\n",
        keys::KEY_BYTES,
        keys::VALUE_BYTES,
    );
    out += &conditions(kept);
    if let [first, bar, ..] = stores[..] {
        out += &bar_tables(&bars::judge(kept, first, bar), first, bar);
    }
    if let Some(&first) = stores.first() {
        out += &speed_table(kept, &stores, first);
    }
    out + &latency_table(kept) + &resource_table(kept) + &merge_table(kept) + &option_list(kept)
}

/// Under what conditions scenarios were run, those with the same ones together.
fn conditions(kept: &[Kept]) -> String {
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for one in kept {
        let parameters = &one.parameters;
        let text = format!(
            "{} keys, {} reads a thread, seed {}, {} rounds, commit {}, on {}",
            parameters.num, parameters.reads, parameters.seed, one.rounds, parameters.commit, one.machine
        );
        match groups.iter_mut().find(|(known, _)| *known == text) {
            Some((_, names)) => names.push(&one.scenario),
            None => groups.push((text, vec![&one.scenario])),
        }
    }
    let list: String = groups.iter().map(|(text, names)| format!("- {text}: {}\n", names.join(", "))).collect();
    list + "\n"
}

/// The bars: first each with the line that is nearest to it, then all lines that miss.
fn bar_tables(verdicts: &[Verdict], first: Kind, bar: Kind) -> String {
    let mut table = Table::new(&["bar", "", "tightest line"], &["bound", "reached"]);
    for verdict in verdicts {
        let state = match verdict.holds() {
            Some(true) => "holds",
            Some(false) => "**does not hold**",
            None => "not measured",
        };
        let empty = [String::new(), String::new(), String::new()];
        let [what, bound, reached] =
            verdict.tightest().map_or(empty, |check| [check.what.clone(), check.bound.clone(), check.reached.clone()]);
        table.row([verdict.bar, state, &what, &bound, &reached]);
    }
    let mut out = format!("The bars, {first} ÷ {bar}: ratio of medians with the lowest and highest of a round.\n\n");
    out += &table.end();
    let missed: Vec<_> = verdicts
        .iter()
        .flat_map(|verdict| verdict.checks.iter().filter(|check| !check.holds).map(|check| (verdict.bar, check)))
        .collect();
    if !missed.is_empty() {
        let mut table = Table::new(&["bar", "line"], &["bound", "reached"]);
        for (bar, check) in missed {
            table.row([bar, &check.what, &check.bound, &check.reached]);
        }
        out += "Lines that miss their bar:\n\n";
        out += &table.end();
    }
    out
}

fn speed_table(kept: &[Kept], stores: &[Kind], first: Kind) -> String {
    let others = || stores.iter().filter(|&&kind| kind != first);
    let columns: Vec<String> =
        stores.iter().map(Kind::to_string).chain(others().map(|kind| format!("{first} ÷ {kind}"))).collect();
    let mut table = Table::new(&["scenario".to_owned(), "step".to_owned()], &columns);
    let speeds = |line: &Line, kind: &Kind| -> Vec<f64> {
        line.outcomes.get(kind).map(|list| list.iter().map(Outcome::speed).collect()).unwrap_or_default()
    };
    for (scenario, line) in lines(kept) {
        let mut cells = vec![scenario.to_owned(), line.step.clone()];
        cells.extend(stores.iter().map(|kind| spread(&speeds(line, kind), short)));
        cells.extend(others().map(|kind| match (speeds(line, &first), speeds(line, kind)) {
            (ours, theirs) if ours.is_empty() || theirs.is_empty() => String::new(),
            (ours, theirs) => Ratio::of(&ours, &theirs).to_string(),
        }));
        table.row(cells);
    }
    "Operations a second (medians with the lowest and highest), and ratios of medians with the lowest and highest of a \
     round. Walks and merges count entries.\n\n"
        .to_owned()
        + &table.end()
}

fn latency_table(kept: &[Kept]) -> String {
    let numbers = ["p50", "p99", "p99.9", "p99.99", "max", "stalled %", "no progress ms"];
    let mut table = Table::new(&["scenario", "step", "store"][..], &numbers[..]);
    for (scenario, line) in lines(kept) {
        for (kind, outcomes) in &line.outcomes {
            if outcomes.iter().any(|outcome| outcome.latency_ns.is_none()) {
                continue;
            }
            let at = |place: usize| {
                micros(middle(outcomes, |outcome| outcome.latency_ns.map_or(f64::NAN, |list| list[place] as f64)))
            };
            let mut cells = vec![scenario.to_owned(), line.step.clone(), kind.to_string()];
            cells.extend((0..5).map(at));
            cells.push(format!("{:.1}", middle(outcomes, |outcome| outcome.timeline.stall_percent())));
            cells.push(middle_of_some(outcomes, |outcome| outcome.no_progress_ms));
            table.row(cells);
        }
    }
    "Latencies in microseconds, of whole batches for multireadrandom. Stalled: share of 50 ms slices with less than a tenth \
     of the median slice's operations. No progress: the longest time in which no thread finished an operation; what is \
     below 1 ms is an upper bound.\n\n"
        .to_owned()
        + &table.end()
}

fn resource_table(kept: &[Kept]) -> String {
    let numbers =
        ["user µs/op", "system µs/op", "settled s", "tables ÷ put", "device ÷ put", "space ÷ live", "peak RSS"];
    let mut table = Table::new(&["scenario", "step", "store"][..], &numbers[..]);
    for (scenario, line) in lines(kept) {
        for (kind, outcomes) in &line.outcomes {
            table.row([
                scenario.to_owned(),
                line.step.clone(),
                kind.to_string(),
                format!("{:.2}", middle(outcomes, |outcome| outcome.user_us as f64 / outcome.operations as f64)),
                format!("{:.2}", middle(outcomes, |outcome| outcome.system_us as f64 / outcome.operations as f64)),
                format!("{:.1}", middle(outcomes, |outcome| outcome.settled_seconds)),
                middle_of_some(outcomes, Outcome::table_amplification),
                middle_of_some(outcomes, Outcome::device_amplification),
                format!("{:.2}", middle(outcomes, Outcome::space_amplification)),
                short(middle(outcomes, |outcome| outcome.peak_memory_bytes as f64)),
            ]);
        }
    }
    "Until background work ended: processor time for an operation (all threads of the process), seconds. Tables: bytes of \
     finished table files for each byte put; device: bytes made dirty \
     or written directly by the process, logs included, without what was deleted before it was written back \
     (`/proc/self/io`, `write_bytes` less `cancelled_write_bytes`). Space: bytes of the directory for each live byte.\n\n"
        .to_owned()
        + &table.end()
}

/// Processor time of whole merges.
fn merge_table(kept: &[Kept]) -> String {
    let mut table = Table::new(&["step", "store"], &["CPU seconds per GB of entries", "seconds per GB"]);
    let mut merges = false;
    for (_, line) in lines(kept).filter(|(_, line)| line.step.starts_with("compact all")) {
        for (kind, outcomes) in &line.outcomes {
            let per_gigabyte =
                |outcome: &Outcome, seconds: f64| seconds * 1e9 / (outcome.entries * keys::ENTRY_BYTES) as f64;
            merges = true;
            table.row([
                line.step.clone(),
                kind.to_string(),
                format!("{:.2}", middle(outcomes, |outcome| per_gigabyte(outcome, outcome.processor_s()))),
                format!("{:.2}", middle(outcomes, |outcome| per_gigabyte(outcome, outcome.seconds))),
            ]);
        }
    }
    if merges { table.end() } else { String::new() }
}

/// How the options of the first two stores differ, scenarios with the same differences together.
fn option_list(kept: &[Kept]) -> String {
    let mut groups: Vec<(&[String], Vec<&str>)> = Vec::new();
    for one in kept.iter().filter(|one| !one.option_differences.is_empty()) {
        match groups.iter_mut().find(|(known, _)| *known == one.option_differences) {
            Some((_, names)) => names.push(&one.scenario),
            None => groups.push((&one.option_differences, vec![&one.scenario])),
        }
    }
    let mut out = String::new();
    for (differences, names) in groups {
        let _ = writeln!(out, "Options that the first two stores wrote differently, in {}:\n", names.join(", "));
        differences.iter().for_each(|difference| out += &format!("- {difference}\n"));
        out.push('\n');
    }
    out
}

/// One line for each outcome, with everything that was measured but curves and timelines.
fn csv(kept: &[Kept]) -> String {
    let mut out = String::from(
        "scenario,step,store,round,operations,entries,seconds,settled_seconds,user_us,system_us,p50_ns,p99_ns,p999_ns,\
         p9999_ns,max_ns,stalled_percent,no_progress_ms,device_bytes,table_bytes,user_bytes,space_bytes,live_bytes,\
         peak_memory_bytes,shape\n",
    );
    let some = |figure: Option<String>| figure.unwrap_or_default();
    for (scenario, line) in lines(kept) {
        for (kind, outcomes) in &line.outcomes {
            for (round, one) in outcomes.iter().enumerate() {
                let latencies = (0..5).map(|place| some(one.latency_ns.map(|list| list[place].to_string())));
                let cells = [
                    scenario.to_owned(),
                    format!("\"{}\"", line.step),
                    kind.to_string(),
                    (round + 1).to_string(),
                    one.operations.to_string(),
                    one.entries.to_string(),
                    one.seconds.to_string(),
                    one.settled_seconds.to_string(),
                    one.user_us.to_string(),
                    one.system_us.to_string(),
                ];
                let rest = [
                    one.timeline.stall_percent().to_string(),
                    some(one.no_progress_ms.map(|figure| figure.to_string())),
                    one.device_bytes.to_string(),
                    some(one.table_bytes.map(|figure| figure.to_string())),
                    one.user_bytes.to_string(),
                    one.space_bytes.to_string(),
                    one.live_bytes.to_string(),
                    one.peak_memory_bytes.to_string(),
                    format!("\"{}\"", one.shape.replace('"', "'").trim().replace('\n', "; ")),
                ];
                out += &cells.into_iter().chain(latencies).chain(rest).collect::<Vec<_>>().join(",");
                out.push('\n');
            }
        }
    }
    out
}

/// Writes all three forms of what was kept into the directory of results; the Markdown is given back.
pub fn write(out: &Path) -> Fallible<String> {
    let kept = Kept::load_all(out)?;
    std::fs::create_dir_all(out)?;
    let text = markdown(&kept);
    std::fs::write(out.join("race.md"), &text)?;
    std::fs::write(out.join("race.csv"), csv(&kept))?;
    std::fs::write(out.join("race.html"), plots::page(&text, &kept)?)?;
    Ok(text)
}
