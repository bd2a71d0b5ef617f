//! Compactions as the database runs them.

use std::sync::Arc;
use firn_env::sync::MutexGuard;
use firn_error::Result;
use super::column_family::ColumnFamilyData;
use super::{DbInner, DbState};
use crate::options::CompactRangeOptions;

impl DbInner {
    pub(crate) fn run_automatic_compaction(&self, _state: &mut MutexGuard<'_, DbState>, _id: u32) -> Result<()> { Ok(()) }
    pub(crate) fn mark_bottommost_files(&self, _state: &mut DbState, _id: u32) {}
    pub(crate) fn compact_range(&self, _o: &CompactRangeOptions, _d: &Arc<ColumnFamilyData>, _b: Option<&[u8]>, _e: Option<&[u8]>) -> Result<()> { Ok(()) }
    pub(crate) fn delete_files_in_range(&self, _d: &Arc<ColumnFamilyData>, _b: Option<&[u8]>, _e: Option<&[u8]>) -> Result<()> { Ok(()) }
}
