//! What can be seen from outside: files by level, properties, counters, events.

use firn_env::sync::Mutex;
use firn_env::{IoPriority, RateLimiter};
use firndb::stats::events::{CompactionJobInfo, ExternalFileIngestionInfo, FlushJobInfo, WriteStallInfo};
use firndb::stats::{EventListener, HistogramKind, Ticker, perf_context};
use firndb::{BackgroundErrorReason, Error};

use super::{Done, Firn, error_text};
use crate::words::{Words, bounds, show};

/// Keeps what happened in the background.
#[derive(Default)]
pub struct Events(Mutex<Vec<String>>);

impl Events {
    pub fn take(&self) -> Vec<String> {
        let mut lines = std::mem::take(&mut *self.0.lock());
        // Flushes and the compactions that they cause tell of their end in any order.
        lines.sort_by(|a, b| a.split(' ').next().cmp(&b.split(' ').next()));
        lines
    }

    fn add(&self, line: String) {
        self.0.lock().push(line);
    }
}

impl EventListener for Events {
    fn on_flush_completed(&self, info: &FlushJobInfo) {
        self.add(format!("flush {}: {}", info.column_family, info.reason.name()));
    }

    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        let (from, to) = (info.base_input_level, info.output_level);
        let (inputs, outputs) = (info.input_files.len(), info.output_files.len());
        let error = info.error.as_ref().map_or(String::new(), |error| format!(" {}", error_text(error, false)));
        let family = &info.column_family;
        self.add(format!("compaction {family}: {:?} L{from}->L{to} files {inputs}->{outputs}{error}", info.reason));
    }

    fn on_external_file_ingested(&self, info: &ExternalFileIngestionInfo) {
        self.add(format!("ingestion {}: sequence {}", info.column_family, info.global_sequence));
    }

    fn on_stall_conditions_changed(&self, info: &WriteStallInfo) {
        let text = format!("stall {}: {:?} to {:?}", info.column_family, info.previous, info.current);
        self.add(text.to_lowercase());
    }

    fn on_background_error(&self, reason: BackgroundErrorReason, error: &mut Option<Error>) {
        if let Some(error) = error {
            self.add(format!("background {}: {}", reason as u8, error_text(error, false)));
        }
    }
}

fn count_text(words: &Words, name: &str, count: u64) -> String {
    match words.has("positive") {
        true if count > 0 => format!("{name} positive"),
        true => format!("{name} zero"),
        false => format!("{name}={count}"),
    }
}

impl Firn {
    pub(super) fn levels(&mut self, words: &Words) -> Done {
        let levels = self.files_of(words)?;
        if words.has("counts") {
            let counts: Vec<_> = levels.iter().map(|files| files.len().to_string()).collect();
            self.say(counts.join(","));
            return Ok(());
        }
        for (level, files) in levels.iter().enumerate().filter(|(_, files)| !files.is_empty()) {
            let mut line = format!("L{level}:");
            for file in files {
                line.push_str(&format!(" [{}..{}", show(&file.smallest_key), show(&file.largest_key)));
                if words.has("entries") {
                    line.push_str(&format!(" entries {} deletions {}", file.num_entries, file.num_deletions));
                }
                if words.has("sequences") {
                    line.push_str(&format!(" {}-{}", file.smallest_sequence, file.largest_sequence));
                }
                line.push(']');
            }
            self.say(line);
        }
        if self.answer.is_empty() {
            self.say("(empty)");
        }
        Ok(())
    }

    pub(super) fn property(&mut self, words: &Words) -> Done {
        let (db, family) = (self.db(), self.family(words)?);
        for name in words.words() {
            let full = format!("rocksdb.{name}");
            if let Some(wanted) = words.text("map") {
                match db.property_map(&family, &full) {
                    Some(map) => {
                        let wanted = map.iter().filter(|(key, _)| wanted == "true" || *key == wanted);
                        wanted.for_each(|(key, text)| self.say(format!("{key}={text}")));
                    }
                    None => self.say(format!("{name} none")),
                }
                continue;
            }
            match db.property(&family, &full) {
                Some(value) if words.has("positive") => {
                    let number: u64 = value.parse().map_err(|_| format!("{name} is no number"))?;
                    self.say(format!("{name}={}", if number > 0 { "positive" } else { "zero" }));
                }
                Some(value) if value.is_empty() => self.say(format!("{name}=")),
                Some(value) => {
                    let lines = value.split('\n').map(|line| line.trim_matches(' ')).filter(|line| !line.is_empty());
                    lines.for_each(|line| self.say(format!("{name}={line}")));
                }
                None => self.say(format!("{name} none")),
            }
        }
        Ok(())
    }

    pub(super) fn int_property(&mut self, words: &Words) -> Done {
        let (db, family) = (self.db(), self.family(words)?);
        for name in words.words() {
            match db.property_int(&family, &format!("rocksdb.{name}")) {
                Some(value) => self.say(format!("{name}={value}")),
                None => self.say(format!("{name} none")),
            }
        }
        Ok(())
    }

    pub(super) fn tickers(&mut self, words: &Words) -> Done {
        for name in words.words() {
            let ticker = Ticker::from_name(&format!("rocksdb.{name}")).ok_or_else(|| format!("no ticker {name}"))?;
            self.say(count_text(words, name, self.statistics.ticker_count(ticker)));
        }
        Ok(())
    }

    pub(super) fn histograms(&mut self, words: &Words) -> Done {
        for name in words.words() {
            let kind = HistogramKind::from_name(&format!("rocksdb.{name}"));
            let histogram = self.statistics.histogram(kind.ok_or_else(|| format!("no histogram {name}"))?);
            if words.has("sums") {
                self.say(format!("{name} count {} sum {}", histogram.count(), histogram.sum()));
            } else {
                self.say(count_text(words, name, histogram.count()));
            }
        }
        Ok(())
    }

    pub(super) fn perf(&mut self, words: &Words) -> Done {
        let text = perf_context().to_text(false);
        let counts: Vec<_> = text.split(", ").filter_map(|part| part.trim().split_once(" = ")).collect();
        for name in words.words() {
            let found = counts.iter().find(|(known, _)| known == &name);
            let (_, count) = found.ok_or_else(|| format!("no perf counter {name}"))?;
            let count = count.trim_end_matches(',').parse().map_err(|_| format!("{name} is no number"))?;
            self.say(count_text(words, name, count));
        }
        Ok(())
    }

    pub(super) fn take_events(&mut self, words: &Words) -> Done {
        if self.db.is_some() {
            self.wait()?;
        }
        let wanted = words.words().first().map_or("", |word| word).to_owned();
        for line in self.events.take().into_iter().filter(|line| line.starts_with(&wanted)) {
            self.say(line);
        }
        if self.answer.is_empty() {
            self.say("(none)");
        }
        Ok(())
    }

    pub(super) fn sequence(&mut self) -> Done {
        let sequence = self.db().latest_sequence_number();
        self.say(sequence.to_string());
        Ok(())
    }

    pub(super) fn size_of(&mut self, words: &Words) -> Done {
        let include = match (words.flag("files", true), words.flag("memtables", false)) {
            (true, true) => firndb::SizeApproximation::FilesAndMemTables,
            (false, _) => firndb::SizeApproximation::MemTables,
            (true, false) => firndb::SizeApproximation::Files,
        };
        for word in words.words() {
            let (from, to) = bounds(word)?;
            let sizes = self.db().approximate_sizes(&self.family(words)?, &[(&from, &to)], include)?;
            let positive = sizes.first().is_some_and(|size| *size > 0);
            self.say(format!("{word} {}", if positive { "positive" } else { "zero" }));
        }
        Ok(())
    }

    pub(super) fn show_limiter(&mut self) -> Done {
        let limiter = self.limiter.clone().ok_or_else(|| "no rate limiter".to_owned())?;
        let all = [
            ("low", IoPriority::Low),
            ("mid", IoPriority::Mid),
            ("high", IoPriority::High),
            ("user", IoPriority::User),
        ];
        for (name, priority) in all {
            if limiter.total_bytes_through(priority) > 0 {
                self.say(format!("{name} used"));
            }
        }
        if self.answer.is_empty() {
            self.say("(none)");
        }
        Ok(())
    }
}
