//! The text of `rocksdb.stats` in the form that benchmark scripts cut apart.
//!
//! Those scripts count the fields of the compaction table as it was before RocksDB 10.3, and look for the stall line as
//! it was before 8.1. In: the newer text. Out: the same without the newer column and with the older line added, so that
//! both the scripts and readers of the newer text find what they look for. Pure.

use std::collections::BTreeMap;

const NEWER_COLUMN: &str = " WPreComp(GB)";
/// Which field of a row the newer column is, from 0: label, files, size, unit, score, four sums, then it.
const NEWER_FIELD: usize = 9;
const NEWER_STALLS: &str = "Write Stall (count): ";

/// Removes the field number `index` of a line with the blanks before it.
fn without_field(line: &str, index: usize) -> String {
    let mut rest = line;
    for _ in 0..index {
        rest = rest.trim_start_matches(' ').trim_start_matches(|c| c != ' ');
    }
    let kept = line.len() - rest.len();
    let after = rest.trim_start_matches(' ').trim_start_matches(|c| c != ' ');
    format!("{}{after}", &line[..kept])
}

/// The older stall line, from the counts of the newer one.
fn older_stalls(counts: &str, interval: &str) -> String {
    let counts: BTreeMap<&str, &str> = counts.split(", ").filter_map(|entry| entry.split_once(": ")).collect();
    let count = |name: &str| counts.get(name).copied().unwrap_or("0");
    format!(
        "Stalls(count): {} level0_slowdown, {} level0_slowdown_with_compaction, {} level0_numfiles, {} \
         level0_numfiles_with_compaction, {} stop for pending_compaction_bytes, {} slowdown for pending_compaction_bytes, \
         {} memtable_compaction, {} memtable_slowdown, interval {interval} total count",
        count("l0-file-count-limit-delays"),
        count("cf-l0-file-count-limit-delays-with-ongoing-compaction"),
        count("l0-file-count-limit-stops"),
        count("cf-l0-file-count-limit-stops-with-ongoing-compaction"),
        count("pending-compaction-bytes-stops"),
        count("pending-compaction-bytes-delays"),
        count("memtable-limit-stops"),
        count("memtable-limit-delays")
    )
}

/// The text in the form that scripts read.
pub fn of_stats(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_table = false;
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.contains(NEWER_COLUMN) {
            in_table = true;
            out.push_str(&line.replacen(NEWER_COLUMN, "", 1));
        } else if in_table && line.starts_with("---") {
            out.push_str(&line[NEWER_COLUMN.len().min(line.len())..]);
        } else if in_table && !line.is_empty() {
            out.push_str(&without_field(line, NEWER_FIELD));
        } else {
            in_table = false;
            out.push_str(line);
            if let Some(counts) = line.strip_prefix(NEWER_STALLS).filter(|counts| counts.starts_with("cf-")) {
                let interval = lines.peek().and_then(|next| next.strip_prefix("interval: "));
                let interval = interval.and_then(|next| next.split(' ').next()).unwrap_or("0");
                out.push('\n');
                out.push_str(&older_stalls(counts, interval));
            }
        }
        out.push('\n');
    }
    if !text.ends_with('\n') {
        out.pop();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_lose_a_column_and_stalls_gain_a_line() {
        let text = "\n** Compaction Stats [default] **\n\
            Level    Files   Size     Score Read(GB)  Rn(GB) Rnp1(GB) Write(GB) WPreComp(GB) Wnew(GB) Moved(GB) W-Amp\n\
            -------------------------------------------------------------\n  \
            L0      4/4      5.86 MB   0.0      0.1     0.2      0.3       0.4       0.5      0.6       0.7   1.0\n\
            \n\
            Write Stall (count): cf-l0-file-count-limit-delays-with-ongoing-compaction: 1, \
            l0-file-count-limit-stops: 2, memtable-limit-stops: 7\n\
            interval: 7 total count\n\n\
            ** DB Stats **\nWrite Stall (count): write-buffer-manager-limit-stops: 0\n";
        let shown = of_stats(text);
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[2].contains("Write(GB) Wnew(GB)"));
        assert_eq!(lines[3].len(), 61 - NEWER_COLUMN.len());
        assert_eq!(
            lines[4],
            "  L0      4/4      5.86 MB   0.0      0.1     0.2      0.3       0.4      0.6       0.7   1.0"
        );
        assert_eq!(
            lines[7],
            "Stalls(count): 0 level0_slowdown, 1 level0_slowdown_with_compaction, 2 level0_numfiles, 0 \
             level0_numfiles_with_compaction, 0 stop for pending_compaction_bytes, 0 slowdown for \
             pending_compaction_bytes, 7 memtable_compaction, 0 memtable_slowdown, interval 7 total count"
        );
        assert_eq!(lines[8], "interval: 7 total count");
        assert_eq!(lines.len(), 12);
        assert!(shown.ends_with("write-buffer-manager-limit-stops: 0\n"));
    }

    #[test]
    fn other_text_stays() {
        for text in ["", "a", "a\nb", "a\n\nb\n", "--- x ---\n"] {
            assert_eq!(of_stats(text), text);
        }
    }
}
