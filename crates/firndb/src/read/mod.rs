//! Reading: what a point lookup and a scan do with the entries that memtables and tables give them.

#[cfg(test)]
pub(crate) mod testing;
