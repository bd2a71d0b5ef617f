//! Models of what the crate does not show, for `tests/shuttle`.

pub use crate::db::super_version::model::super_versions_change_hands;
