//! Table files that come and go: what the event log and the listeners are told of them.
//!
//! A [`TableReporter`] goes with a job to whoever writes its tables. Always true here: every table that was announced as
//! started is told to be created too, with the error when it was not.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_env::{Clock, Logger, log_event};
use firn_format::Error;
use firn_format::properties::TableProperties;
use firn_format::version_edit::NewFile;

use super::event_log::EventLine;
use super::events::{Listeners, TableCreationReason, TableFileCreationInfo, TableFileDeletionInfo};

/// Tells of the tables of one job.
#[derive(Clone, Debug)]
pub(crate) struct TableReporter {
    /// Who listens.
    pub(crate) listeners: Listeners,
    /// Where the event log goes.
    pub(crate) logger: Arc<dyn Logger>,
    /// What time it is.
    pub(crate) clock: Arc<dyn Clock>,
    /// The directory of the database.
    pub(crate) db_path: PathBuf,
    /// Name of the column family; empty where it does not matter (deletions).
    pub(crate) column_family: String,
    /// The job's number.
    pub(crate) job: u64,
    /// Why tables are created.
    pub(crate) reason: TableCreationReason,
}

impl TableReporter {
    /// Tells nobody.
    pub(crate) fn silent() -> Self {
        Self {
            listeners: Listeners::default(),
            logger: Arc::new(firn_env::NullLogger),
            clock: Arc::new(firn_env::SystemClock::new()),
            db_path: PathBuf::new(),
            column_family: String::new(),
            job: 0,
            reason: TableCreationReason::Misc,
        }
    }

    fn creation(&self, path: &Path) -> TableFileCreationInfo {
        TableFileCreationInfo {
            db_path: self.db_path.clone(),
            column_family: self.column_family.clone(),
            file_path: path.to_path_buf(),
            job: self.job,
            reason: self.reason,
            ..TableFileCreationInfo::default()
        }
    }

    /// A table is about to be created.
    pub(crate) fn started(&self, path: &Path) {
        if self.listeners.is_empty() {
            return;
        }
        let info = self.creation(path);
        self.listeners.tell(|listener| listener.on_table_file_creation_started(&info));
    }

    /// A table was created.
    pub(crate) fn created(&self, path: &Path, file: &NewFile, properties: &Arc<TableProperties>) {
        self.line(file, Some(properties), None);
        if self.listeners.is_empty() {
            return;
        }
        let info = TableFileCreationInfo {
            file_size: file.file_size,
            file_checksum: file.file_checksum.clone(),
            file_checksum_func_name: file.file_checksum_func_name.clone(),
            table_properties: Some(Arc::clone(properties)),
            ..self.creation(path)
        };
        self.listeners.tell(|listener| listener.on_table_file_created(&info));
    }

    /// A table was not created, or not kept.
    pub(crate) fn failed(&self, path: &Path, file: &NewFile, error: &Error) {
        self.line(file, None, Some(error));
        if self.listeners.is_empty() {
            return;
        }
        let info = TableFileCreationInfo { error: Some(error.clone()), ..self.creation(path) };
        self.listeners.tell(|listener| listener.on_table_file_created(&info));
    }

    fn line(&self, file: &NewFile, properties: Option<&TableProperties>, error: Option<&Error>) {
        let checksum: String = file.file_checksum.iter().map(|byte| format!("{byte:02X}")).collect();
        let mut line =
            EventLine::of_file(self.clock.now_micros(), &self.column_family, self.job, "table_file_creation")
                .number("file_number", file.number.get())
                .number("file_size", file.file_size)
                .text("file_checksum", &checksum)
                .text("file_checksum_func_name", &file.file_checksum_func_name)
                .number("smallest_seqno", file.smallest_sequence.get())
                .number("largest_seqno", file.largest_sequence.get());
        if let Some(properties) = properties {
            line = line.object("table_properties", |line| table_properties(line, properties));
        }
        log_event!(self.logger, "{}", line.text("status", &status_text(error)).finish());
    }

    /// A table was deleted, or could not be.
    pub(crate) fn deleted(&self, path: &Path, file_number: u64, error: Option<&Error>) {
        let line = EventLine::of_job(self.clock.now_micros(), self.job, "table_file_deletion")
            .number("file_number", file_number)
            .text("status", &status_text(error));
        log_event!(self.logger, "{}", line.finish());
        if self.listeners.is_empty() {
            return;
        }
        let info = TableFileDeletionInfo {
            db_path: self.db_path.clone(),
            file_path: path.to_path_buf(),
            job: self.job,
            error: error.cloned(),
        };
        self.listeners.tell_calmly(|listener| listener.on_table_file_deleted(&info));
    }
}

/// How a line says whether something went well.
pub(crate) fn status_text(error: Option<&Error>) -> String {
    error.map_or_else(|| "OK".to_owned(), Error::to_string)
}

/// Adds the members of the object `table_properties`.
fn table_properties(line: EventLine, p: &TableProperties) -> EventLine {
    let average = |bytes: u64| bytes.checked_div(p.num_entries).unwrap_or(0);
    let or_not_known = |text: &str| if text.is_empty() { "N/A".to_owned() } else { text.to_owned() };
    let mapping = or_not_known(&p.seqno_to_time_mapping.escape_ascii().to_string());
    line.number("data_size", p.data_size)
        .number("index_size", p.index_size)
        .number("index_partitions", p.index_partitions)
        .number("top_level_index_size", p.top_level_index_size)
        .number("index_key_is_user_key", p.index_key_is_user_key)
        .number("index_value_is_delta_encoded", p.index_value_is_delta_encoded)
        .number("filter_size", p.filter_size)
        .number("raw_key_size", p.raw_key_size)
        .number("raw_average_key_size", average(p.raw_key_size))
        .number("raw_value_size", p.raw_value_size)
        .number("raw_average_value_size", average(p.raw_value_size))
        .number("num_data_blocks", p.num_data_blocks)
        .number("num_entries", p.num_entries)
        .number("num_filter_entries", p.num_filter_entries)
        .number("num_deletions", p.num_deletions)
        .number("num_merge_operands", p.num_merge_operands)
        .number("num_range_deletions", p.num_range_deletions)
        .number("format_version", p.format_version)
        .number("fixed_key_len", p.fixed_key_length)
        .text("filter_policy", &p.filter_policy_name)
        .text("column_family_name", &p.column_family_name)
        .number("column_family_id", p.column_family_id)
        .text("comparator", &p.comparator)
        .number("user_defined_timestamps_persisted", p.user_defined_timestamps_persisted)
        .number("key_largest_seqno", p.key_largest_seqno)
        .number("key_smallest_seqno", p.key_smallest_seqno)
        .text("merge_operator", &p.merge_operator_name)
        .text("prefix_extractor_name", &p.prefix_extractor_name)
        .text("property_collectors", &p.property_collectors_names)
        .text("compression", &or_not_known(&p.compression_name))
        .text("compression_options", &or_not_known(&p.compression_options))
        .number("creation_time", p.creation_time)
        .number("oldest_key_time", p.oldest_key_time)
        .number("newest_key_time", p.newest_key_time)
        .number("file_creation_time", p.file_creation_time)
        .number("slow_compression_estimated_data_size", p.slow_compression_estimated_data_size)
        .number("fast_compression_estimated_data_size", p.fast_compression_estimated_data_size)
        .text("db_id", &p.db_id)
        .text("db_session_id", &p.db_session_id)
        .number("orig_file_number", p.original_file_number)
        .text("seqno_to_time_mapping", &mapping)
}
