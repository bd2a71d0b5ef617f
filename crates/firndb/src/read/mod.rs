//! Reading: what a point lookup and a scan do with the entries that memtables and tables give them.

#[cfg(test)]
mod conformance_tests;
mod db_iterator;
mod get_context;
pub mod merge_context;
pub mod merging_iterator;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
pub(crate) mod testing;
pub mod tombstone_cover;

pub use db_iterator::{DbIterator, DbIteratorConfig, ScanCounters};
pub use get_context::{GetContext, LookupMode, get_from_memtable};
pub use merge_context::{MergeContext, OperandOrder};
pub use merging_iterator::MergingIterator;

/// The error of a scan that would come to the same place again.
#[cold]
fn out_of_order() -> firn_error::Error {
    firn_error::Error::corruption("keys out of order: a seek past hidden entries does not lead on")
}
