//! Options declared once.
//!
//! [`option_set!`](crate::option_set) declares a structure of options: for each one its field, type, default, properties
//! and documentation, in one place. From that come the Rust structure with its `Default`, the text of OPTIONS files and
//! option strings in both directions, changes by name (`set_options`), and a table of [`OptionField`]s that lists every
//! option for documentation, command-line flags and foreign interfaces. [`option_enum!`](crate::option_enum) does the same
//! for enumerations and their strings.
//!
//! Text flows in through [`OptionSet::set_text`] and [`OptionSet::apply_map`], out through [`OptionSet::entries`]; the
//! lexical rules live in [`crate::options_text`]. Always true here: text never panics, an option that fails to parse leaves
//! its field unchanged, and names and values that RocksDB knows but Firn does not act on survive in [`KeptOptions`].

mod codec;
mod compression;
mod declare;
mod set;
mod value;

pub use codec::{Kept, KeptOptions, Memory, Nested, ObjectText, OptionCodec, Plain, UnsupportedObject, ValueKind};
pub use set::{Comparison, OptionDescriptor, OptionField, OptionFlags, OptionSet, ParseOption, ParseOptionField};
pub use value::{OptionValue, ParsedNumber};

use std::any::Any;
use std::sync::Arc;

/// How option text is read; the fields are those of RocksDB's `ConfigOptions`.
#[derive(Clone)]
pub struct ConfigOptions {
    /// Skip names that are not known, and values that cannot be parsed, instead of failing. Default: false.
    pub ignore_unknown_options: bool,
    /// Leave an option at its default when its text names an object that is not known. Default: true.
    pub ignore_unsupported_options: bool,
    /// Whether values carry the escapes of OPTIONS files. Default: true.
    pub input_strings_escaped: bool,
    /// Refuse options that cannot be changed while the database is open. Default: false.
    pub mutable_options_only: bool,
    /// How exact a comparison of two configurations is. Default: [`SanityLevel::ExactMatch`].
    pub sanity_level: SanityLevel,
    /// Application-registered objects, looked up by the crates that define object-valued options. Default: none.
    pub registry: Option<Arc<dyn Any + Send + Sync>>,
}

impl Default for ConfigOptions {
    fn default() -> Self {
        Self {
            ignore_unknown_options: false,
            ignore_unsupported_options: true,
            input_strings_escaped: true,
            mutable_options_only: false,
            sanity_level: SanityLevel::ExactMatch,
            registry: None,
        }
    }
}

impl std::fmt::Debug for ConfigOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConfigOptions")
            .field("ignore_unknown_options", &self.ignore_unknown_options)
            .field("ignore_unsupported_options", &self.ignore_unsupported_options)
            .field("input_strings_escaped", &self.input_strings_escaped)
            .field("mutable_options_only", &self.mutable_options_only)
            .field("sanity_level", &self.sanity_level)
            .field("registry", &self.registry.is_some())
            .finish()
    }
}

/// How exact the comparison of two configurations is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum SanityLevel {
    /// Nothing is compared.
    None = 0x01,
    /// Only what decides whether the files can be read at all.
    LooselyCompatible = 0x02,
    /// Every option that has a text.
    #[default]
    ExactMatch = 0xff,
}

/// Which vocabulary printed option text uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Names that RocksDB 7.8 knows, and newer names only where they differ from their default: readable by both.
    #[default]
    Portable,
    /// Exactly what RocksDB 7.8 writes.
    RocksDb7,
    /// Exactly what RocksDB 11.9 writes.
    RocksDb11,
}

impl Dialect {
    /// The dialect that a file of this RocksDB version is written in.
    pub fn of_version(major: u32) -> Self {
        if major >= 8 { Self::RocksDb11 } else { Self::RocksDb7 }
    }

    /// Whether an option is printed, given whether it is newer than 7.8 and whether it stands at its default.
    pub(crate) fn prints(self, new: bool, at_default: impl FnOnce() -> bool) -> bool {
        match self {
            Self::RocksDb11 => true,
            Self::RocksDb7 => !new,
            Self::Portable => !new || !at_default(),
        }
    }
}

#[cfg(test)]
mod tests;
