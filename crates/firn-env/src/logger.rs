//! The info log: what the store tells its operator.
//!
//! Messages flow in through the macros [`log_debug!`](crate::log_debug), [`log_info!`](crate::log_info),
//! [`log_warn!`](crate::log_warn), [`log_error!`](crate::log_error), which put the source location before the message,
//! and [`log_header!`](crate::log_header) and [`log_event!`](crate::log_event), which do not. A [`Logger`] writes
//! them down.
//!
//! Always true here: logging never fails and never blocks for long; a message below the logger's level costs one
//! comparison.

use std::fmt::{self, Debug};

/// How important a message is; the discriminants are RocksDB's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum LogLevel {
    /// For developers.
    Debug = 0,
    /// What happens.
    #[default]
    Info = 1,
    /// Something looks wrong.
    Warn = 2,
    /// Something failed.
    Error = 3,
    /// The store cannot go on.
    Fatal = 4,
    /// Facts repeated at the top of each log file; always written.
    Header = 5,
}

impl LogLevel {
    /// The level with RocksDB's number `value`; `None` when out of range.
    pub const fn from_u8(value: u8) -> Option<Self> {
        Some(match value {
            0 => Self::Debug,
            1 => Self::Info,
            2 => Self::Warn,
            3 => Self::Error,
            4 => Self::Fatal,
            5 => Self::Header,
            _ => return None,
        })
    }

    /// What stands before the message in a log line, the trailing blank included; empty for info and header.
    pub const fn tag(self) -> &'static str {
        match self {
            Self::Debug => "[DEBUG] ",
            Self::Info | Self::Header => "",
            Self::Warn => "[WARN] ",
            Self::Error => "[ERROR] ",
            Self::Fatal => "[FATAL] ",
        }
    }
}

/// Where messages go. Thread-safe.
pub trait Logger: Send + Sync + Debug {
    /// The lowest level that is written.
    fn level(&self) -> LogLevel;

    /// Changes the lowest level that is written.
    fn set_level(&self, level: LogLevel);

    /// Writes a message whatever its level; callers check [`Logger::is_enabled`] first (the macros do).
    fn write(&self, level: LogLevel, message: fmt::Arguments<'_>);

    /// Hands buffered messages to the operating system.
    fn flush(&self) {}

    /// Flushes and closes; later messages are dropped.
    fn close(&self) {}

    /// Whether a message of this level would be written.
    fn is_enabled(&self, level: LogLevel) -> bool {
        level >= self.level()
    }
}

impl<L: Logger + ?Sized> Logger for std::sync::Arc<L> {
    fn level(&self) -> LogLevel {
        (**self).level()
    }

    fn set_level(&self, level: LogLevel) {
        (**self).set_level(level);
    }

    fn write(&self, level: LogLevel, message: fmt::Arguments<'_>) {
        (**self).write(level, message);
    }

    fn flush(&self) {
        (**self).flush();
    }

    fn close(&self) {
        (**self).close();
    }

    fn is_enabled(&self, level: LogLevel) -> bool {
        (**self).is_enabled(level)
    }
}

/// Drops every message.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullLogger;

impl Logger for NullLogger {
    fn level(&self) -> LogLevel {
        LogLevel::Header
    }

    fn set_level(&self, _level: LogLevel) {}

    fn write(&self, _level: LogLevel, _message: fmt::Arguments<'_>) {}

    fn is_enabled(&self, _level: LogLevel) -> bool {
        false
    }
}

/// The part of a source path that stands in a log line: what follows the last `src/`.
pub const fn short_source_path(path: &'static str) -> &'static str {
    let bytes = path.as_bytes();
    let mut at = bytes.len();
    while at >= 4 {
        if bytes[at - 4] == b's' && bytes[at - 3] == b'r' && bytes[at - 2] == b'c' && bytes[at - 1] == b'/' {
            return path.split_at(at).1;
        }
        at -= 1;
    }
    path
}

/// Writes a message of the given level with the source location before it.
#[macro_export]
macro_rules! log_at {
    ($level:expr, $logger:expr, $($message:tt)+) => {{
        let logger: &dyn $crate::Logger = &*$logger;
        if logger.is_enabled($level) {
            const FILE: &str = $crate::logger::short_source_path(file!());
            logger.write($level, format_args!("[{}:{}] {}", FILE, line!(), format_args!($($message)+)));
        }
    }};
}

/// Writes a debug message: `log_debug!(logger, "format", args...)`; `logger` is a reference to a [`Logger`] or an `Arc` of one.
#[macro_export]
macro_rules! log_debug {
    ($logger:expr, $($message:tt)+) => { $crate::log_at!($crate::LogLevel::Debug, $logger, $($message)+) };
}

/// Writes an info message.
#[macro_export]
macro_rules! log_info {
    ($logger:expr, $($message:tt)+) => { $crate::log_at!($crate::LogLevel::Info, $logger, $($message)+) };
}

/// Writes a warning; the log is flushed.
#[macro_export]
macro_rules! log_warn {
    ($logger:expr, $($message:tt)+) => { $crate::log_at!($crate::LogLevel::Warn, $logger, $($message)+) };
}

/// Writes an error; the log is flushed.
#[macro_export]
macro_rules! log_error {
    ($logger:expr, $($message:tt)+) => { $crate::log_at!($crate::LogLevel::Error, $logger, $($message)+) };
}

/// Writes a header line, repeated at the top of each new log file. No source location.
#[macro_export]
macro_rules! log_header {
    ($logger:expr, $($message:tt)+) => {{
        let logger: &dyn $crate::Logger = &*$logger;
        logger.write($crate::LogLevel::Header, format_args!($($message)+));
    }};
}

/// Writes an info message without source location, as `EVENT_LOG_v1` lines are.
#[macro_export]
macro_rules! log_event {
    ($logger:expr, $($message:tt)+) => {{
        let logger: &dyn $crate::Logger = &*$logger;
        if logger.is_enabled($crate::LogLevel::Info) {
            logger.write($crate::LogLevel::Info, format_args!($($message)+));
        }
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortens_source_paths() {
        assert_eq!(short_source_path("crates/firndb/src/db/open.rs"), "db/open.rs");
        assert_eq!(short_source_path("open.rs"), "open.rs");
    }
}
