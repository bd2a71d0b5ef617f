//! Sorted table files.
