//! Lines of the event log: one JSON object each, in RocksDB's form, which tools read.
//!
//! Members flow in, in their order; the message for the info log flows out. Strings are written as they are, without escapes,
//! since that is what readers of RocksDB's log expect.

use std::fmt::{Display, Write};

use super::numbers::general_text;

/// One line of the event log under construction. Its first member is the time.
#[derive(Clone, Debug)]
pub struct EventLine(String);

/// An item of a mixed list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListItem {
    /// An integer.
    Number(u64),
    /// A string.
    Text(String),
}

impl EventLine {
    /// A line for something that happened at this time (microseconds since the epoch).
    pub fn new(time_micros: u64) -> Self {
        Self(format!("EVENT_LOG_v1 {{\"time_micros\": {time_micros}"))
    }

    /// A line about a job: the members `job` and `event` come first.
    pub fn of_job(time_micros: u64, job: u64, event: &str) -> Self {
        Self::new(time_micros).number("job", job).text("event", event)
    }

    /// A line about a file that a job made: the members `cf_name`, `job` and `event` come first.
    pub fn of_file(time_micros: u64, column_family: &str, job: u64, event: &str) -> Self {
        Self::new(time_micros).text("cf_name", column_family).number("job", job).text("event", event)
    }

    fn member(mut self, name: &str, value: impl Display) -> Self {
        // Writing to a string cannot fail.
        let _ = write!(self.0, ", \"{name}\": {value}");
        self
    }

    /// Adds an integer.
    #[must_use]
    pub fn number(self, name: &str, value: impl Into<i128>) -> Self {
        self.member(name, value.into())
    }

    /// Adds a floating-point number, with six digits.
    #[must_use]
    pub fn float(self, name: &str, value: f64) -> Self {
        self.member(name, general_text(value, 6))
    }

    /// Adds a string.
    #[must_use]
    pub fn text(self, name: &str, value: &str) -> Self {
        self.member(name, format_args!("\"{value}\""))
    }

    /// Adds a list of integers.
    #[must_use]
    pub fn numbers(self, name: &str, values: impl IntoIterator<Item = u64>) -> Self {
        let values: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
        self.member(name, format_args!("[{}]", values.join(", ")))
    }

    /// Adds a list of integers and strings.
    #[must_use]
    pub fn list(self, name: &str, items: impl IntoIterator<Item = ListItem>) -> Self {
        let items: Vec<String> = items
            .into_iter()
            .map(|item| match item {
                ListItem::Number(number) => number.to_string(),
                ListItem::Text(text) => format!("\"{text}\""),
            })
            .collect();
        self.member(name, format_args!("[{}]", items.join(", ")))
    }

    /// Adds an object, built from members in the way of this line.
    #[must_use]
    pub fn object(mut self, name: &str, members: impl FnOnce(Self) -> Self) -> Self {
        let inner = members(Self(String::new())).0;
        let inner = inner.strip_prefix(", ").unwrap_or(&inner);
        let _ = write!(self.0, ", \"{name}\": {{{inner}}}");
        self
    }

    /// The message for the info log.
    pub fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_rocksdbs() {
        let line = EventLine::of_job(1_795_286_811_680_985, 4, "compaction_started")
            .text("compaction_reason", "ManualCompaction")
            .numbers("files_L0", [12, 9])
            .float("score", -1.0)
            .number("input_data_size", 2126u64)
            .number("oldest_snapshot_seqno", -1)
            .finish();
        assert_eq!(
            line,
            "EVENT_LOG_v1 {\"time_micros\": 1795286811680985, \"job\": 4, \"event\": \"compaction_started\", \
             \"compaction_reason\": \"ManualCompaction\", \"files_L0\": [12, 9], \"score\": -1, \"input_data_size\": 2126, \
             \"oldest_snapshot_seqno\": -1}"
        );
        let line = EventLine::of_file(7, "default", 2, "table_file_creation")
            .object("table_properties", |properties| properties.number("data_size", 9u64).text("comparator", "x"))
            .numbers("lsm_state", [])
            .finish();
        assert_eq!(
            line,
            "EVENT_LOG_v1 {\"time_micros\": 7, \"cf_name\": \"default\", \"job\": 2, \"event\": \"table_file_creation\", \
             \"table_properties\": {\"data_size\": 9, \"comparator\": \"x\"}, \"lsm_state\": []}"
        );
    }
}
