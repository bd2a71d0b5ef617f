//! Prefix extractors: which part of a key its prefix filter and prefix seeks work on.
//!
//! A user key flows in, a sub-slice of it flows out. The string form of an extractor ([`SliceTransform::id`]) is written
//! into every table that used it; [`from_string`] makes an extractor from that form or from an option string.
//!
//! Always true here: `transform` is called only for keys in the domain, and its result is a prefix-like function of the
//! key alone, so that keys with equal prefixes stand side by side under the comparator.

use crate::{Error, Result};
use std::fmt::Debug;
use std::sync::Arc;

/// Extracts the prefix of a key. Implementations are shared between threads.
pub trait SliceTransform: Send + Sync + Debug {
    /// The name of the kind of transform, such as `rocksdb.FixedPrefix`.
    fn name(&self) -> &str;

    /// The name together with its parameters, such as `rocksdb.FixedPrefix.4`, as it stands in tables and OPTIONS files.
    fn id(&self) -> String {
        self.name().to_string()
    }

    /// Whether `key` has a prefix.
    fn in_domain(&self, key: &[u8]) -> bool;

    /// The prefix of `key`, which is in the domain.
    fn transform<'a>(&self, key: &'a [u8]) -> &'a [u8];

    /// The greatest length of a prefix in bytes, where it is fixed.
    fn full_length(&self) -> Option<usize> {
        None
    }

    /// Whether appending bytes to `prefix` leaves its transform as it is.
    fn same_result_when_appended(&self, prefix: &[u8]) -> bool {
        let _ = prefix;
        false
    }
}

/// The prefix of `key`, or `None` when `key` has none.
#[inline]
pub fn prefix_of<'a>(transform: &dyn SliceTransform, key: &'a [u8]) -> Option<&'a [u8]> {
    transform.in_domain(key).then(|| transform.transform(key))
}

/// The first `length` bytes of keys that have as many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedPrefix {
    length: usize,
}

impl FixedPrefix {
    /// Prefixes of `length` bytes.
    pub const fn new(length: usize) -> Self {
        Self { length }
    }
}

impl SliceTransform for FixedPrefix {
    fn name(&self) -> &str {
        "rocksdb.FixedPrefix"
    }

    fn id(&self) -> String {
        format!("rocksdb.FixedPrefix.{}", self.length)
    }

    fn in_domain(&self, key: &[u8]) -> bool {
        key.len() >= self.length
    }

    fn transform<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        debug_assert!(self.in_domain(key));
        key.get(..self.length).unwrap_or(key)
    }

    fn full_length(&self) -> Option<usize> {
        Some(self.length)
    }

    fn same_result_when_appended(&self, prefix: &[u8]) -> bool {
        self.in_domain(prefix)
    }
}

/// The first bytes of every key, at most `cap` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CappedPrefix {
    cap: usize,
}

impl CappedPrefix {
    /// Prefixes of at most `cap` bytes.
    pub const fn new(cap: usize) -> Self {
        Self { cap }
    }
}

impl SliceTransform for CappedPrefix {
    fn name(&self) -> &str {
        "rocksdb.CappedPrefix"
    }

    fn id(&self) -> String {
        format!("rocksdb.CappedPrefix.{}", self.cap)
    }

    fn in_domain(&self, _key: &[u8]) -> bool {
        true
    }

    fn transform<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        key.get(..self.cap).unwrap_or(key)
    }

    fn full_length(&self) -> Option<usize> {
        Some(self.cap)
    }

    fn same_result_when_appended(&self, prefix: &[u8]) -> bool {
        prefix.len() >= self.cap
    }
}

/// The whole key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoopTransform;

impl SliceTransform for NoopTransform {
    fn name(&self) -> &str {
        "rocksdb.Noop"
    }

    fn in_domain(&self, _key: &[u8]) -> bool {
        true
    }

    fn transform<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        key
    }
}

/// The extractor of an option string or of the table property `rocksdb.prefix.extractor.name`.
///
/// Accepts `fixed:N`, `rocksdb.FixedPrefix.N`, `capped:N`, `rocksdb.CappedPrefix.N`, `rocksdb.Noop`, each also as
/// `id=…` in braces or not; empty and `nullptr` mean none.
///
/// # Errors
/// `NotSupported` for anything else.
pub fn from_string(text: &str) -> Result<Option<Arc<dyn SliceTransform>>> {
    let mut inner = text.trim();
    if let Some(braced) = inner.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        inner = braced.trim().trim_end_matches(';').trim();
    }
    if let Some(id) = inner.strip_prefix("id=") {
        inner = id.trim();
    }
    if matches!(inner, "" | "nullptr") {
        return Ok(None);
    }
    if inner == "rocksdb.Noop" {
        return Ok(Some(Arc::new(NoopTransform)));
    }
    let length = |prefixes: [&str; 2]| -> Option<usize> {
        let digits = prefixes.iter().find_map(|prefix| inner.strip_prefix(prefix))?;
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| digits.parse().ok()).flatten()
    };
    if let Some(length) = length(["fixed:", "rocksdb.FixedPrefix."]) {
        return Ok(Some(Arc::new(FixedPrefix::new(length))));
    }
    if let Some(cap) = length(["capped:", "rocksdb.CappedPrefix."]) {
        return Ok(Some(Arc::new(CappedPrefix::new(cap))));
    }
    Err(Error::not_supported(format!("Could not load SliceTransform: {text}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn option_strings_and_ids() {
        for (text, id) in [
            ("fixed:4", "rocksdb.FixedPrefix.4"),
            ("rocksdb.FixedPrefix.8", "rocksdb.FixedPrefix.8"),
            ("capped:3", "rocksdb.CappedPrefix.3"),
            ("{id=rocksdb.CappedPrefix.9;}", "rocksdb.CappedPrefix.9"),
            ("rocksdb.Noop", "rocksdb.Noop"),
        ] {
            let transform = from_string(text).unwrap().unwrap();
            assert_eq!(transform.id(), id);
            assert_eq!(from_string(&transform.id()).unwrap().unwrap().id(), id);
        }
        assert!(from_string("").unwrap().is_none() && from_string("nullptr").unwrap().is_none());
        for text in ["noop", "fixed", "rocksdb.FixedPrefix", "fixed:", "fixed:x", "fixed:-1", "capped:1e3"] {
            assert!(from_string(text).is_err(), "{text}");
        }
    }

    #[test]
    fn prefixes() {
        assert_eq!(prefix_of(&FixedPrefix::new(3), b"ab"), None);
        assert_eq!(prefix_of(&FixedPrefix::new(3), b"abcd"), Some(&b"abc"[..]));
        assert_eq!(prefix_of(&CappedPrefix::new(3), b"ab"), Some(&b"ab"[..]));
        assert_eq!(prefix_of(&CappedPrefix::new(3), b"abcd"), Some(&b"abc"[..]));
        assert_eq!(prefix_of(&NoopTransform, b"abcd"), Some(&b"abcd"[..]));
        assert!(CappedPrefix::new(2).same_result_when_appended(b"ab"));
        assert!(!CappedPrefix::new(2).same_result_when_appended(b"a"));
    }
}
