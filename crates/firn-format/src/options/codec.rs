//! How one option's field turns into text and back: the codecs that declarations name.
//!
//! [`Plain`] serves every type with a text form of its own; [`Nested`] a structure of options; [`Memory`] fields without
//! any text; [`Kept`] the store of text that is not acted on. Other crates add codecs for their objects.

use std::collections::BTreeMap;

use firn_error::{Error, Result};

use super::set::OptionSet;
use super::value::OptionValue;
use super::{ConfigOptions, Dialect};
use crate::options_text::{braces_match, escape_line, parse_map, strip_braces, trim};

/// What sort of value an option holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// `true` or `false`.
    Bool,
    /// A signed integer.
    Int,
    /// An unsigned integer.
    Uint,
    /// A floating-point number.
    Double,
    /// Text.
    Text,
    /// One of a fixed set of strings.
    Enum,
    /// A list joined by colons.
    List,
    /// A structure of options in braces.
    Struct,
    /// An object known by its id.
    Object,
    /// A value without text.
    Memory,
}

/// Reads and writes the field of type `T` of one option.
pub trait OptionCodec<T> {
    /// What sort of value this is.
    const KIND: ValueKind;

    /// Reads the value of option `name` from `text` into `slot`. On failure `slot` keeps its value.
    fn parse(slot: &mut T, name: &str, text: &str, config: &ConfigOptions) -> Result<()>;

    /// Reads one field of the value, addressed as `name.field=text`.
    fn parse_field(slot: &mut T, name: &str, field: &str, text: &str, config: &ConfigOptions) -> Result<()> {
        let _ = (slot, text, config);
        Err(Error::invalid_argument(format!("Unrecognized option: {name}.{field}")))
    }

    /// Writes the value; `None` when it has no text.
    fn print(value: &T, dialect: Dialect) -> Option<String>;

    /// The strings of an enumeration, in the order of their numbers; empty for other values.
    fn choices() -> &'static [&'static str] {
        &[]
    }

    /// The store of text that is not acted on, if this field is it.
    fn kept(slot: &mut T) -> Option<&mut KeptOptions> {
        let _ = slot;
        None
    }

    /// The same, to read.
    fn kept_ref(slot: &T) -> Option<&KeptOptions> {
        let _ = slot;
        None
    }
}

/// The codec of types that implement [`OptionValue`].
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl<T: OptionValue> OptionCodec<T> for Plain {
    const KIND: ValueKind = T::KIND;

    fn parse(slot: &mut T, name: &str, text: &str, config: &ConfigOptions) -> Result<()> {
        *slot = T::parse_value(name, text, config)?;
        Ok(())
    }

    fn print(value: &T, dialect: Dialect) -> Option<String> {
        Some(value.print_value(dialect))
    }

    fn choices() -> &'static [&'static str] {
        T::choices()
    }
}

/// The codec of structures of options: `{name=value;...;}`.
#[derive(Clone, Copy, Debug)]
pub struct Nested;

impl<T: OptionSet> OptionCodec<T> for Nested {
    const KIND: ValueKind = ValueKind::Struct;

    fn parse(slot: &mut T, name: &str, text: &str, config: &ConfigOptions) -> Result<()> {
        let text = strip_braces(text);
        let mut changed = slot.clone();
        if !text.contains('=') {
            changed.parse_legacy(name, text, config)?;
        } else {
            for (field, value) in parse_map(text)? {
                Self::parse_field(&mut changed, name, &field, &value, config)?;
            }
        }
        *slot = changed;
        Ok(())
    }

    fn parse_field(slot: &mut T, name: &str, field: &str, text: &str, config: &ConfigOptions) -> Result<()> {
        if !T::knows(field) {
            if config.ignore_unknown_options {
                return Ok(());
            }
            return Err(Error::invalid_argument(format!("Unrecognized option: {name}.{field}")));
        }
        // Whether the whole structure may change was decided by its own declaration.
        let config = ConfigOptions { mutable_options_only: false, ..config.clone() };
        slot.set_text(field, text, &config)
    }

    fn print(value: &T, dialect: Dialect) -> Option<String> {
        Some(value.to_braced_text(dialect))
    }
}

/// The codec of fields that exist in memory only.
#[derive(Clone, Copy, Debug)]
pub struct Memory;

impl<T> OptionCodec<T> for Memory {
    const KIND: ValueKind = ValueKind::Memory;

    fn parse(_slot: &mut T, name: &str, _text: &str, _config: &ConfigOptions) -> Result<()> {
        Err(Error::invalid_argument(format!("Extra option not recognized: {name}")))
    }

    fn print(_value: &T, _dialect: Dialect) -> Option<String> {
        None
    }
}

/// Text of options that were read and are not acted on: retired names and objects that are not known here. It is written
/// back as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptOptions(pub BTreeMap<String, String>);

/// The codec of the [`KeptOptions`] of a structure.
#[derive(Clone, Copy, Debug)]
pub struct Kept;

impl OptionCodec<KeptOptions> for Kept {
    const KIND: ValueKind = ValueKind::Memory;

    fn parse(_slot: &mut KeptOptions, name: &str, _text: &str, _config: &ConfigOptions) -> Result<()> {
        Err(Error::invalid_argument(format!("Extra option not recognized: {name}")))
    }

    fn print(_value: &KeptOptions, _dialect: Dialect) -> Option<String> {
        None
    }

    fn kept(slot: &mut KeptOptions) -> Option<&mut KeptOptions> {
        Some(slot)
    }

    fn kept_ref(slot: &KeptOptions) -> Option<&KeptOptions> {
        Some(slot)
    }
}

/// An object-valued option that RocksDB knows and Firn does not act on: the text, without braces around it, is remembered
/// and written back.
///
/// `None` is `nullptr`. Whoever opens a database decides whether a value here must be refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnsupportedObject(pub Option<String>);

impl UnsupportedObject {
    /// Whether no object is named.
    pub fn is_null(&self) -> bool {
        self.0.is_none()
    }
}

impl OptionValue for UnsupportedObject {
    const KIND: ValueKind = ValueKind::Object;

    fn parse_value(name: &str, text: &str, _config: &ConfigOptions) -> Result<Self> {
        let mut text = trim(text);
        while strip_braces(text).len() < text.len() {
            text = strip_braces(text);
        }
        match text {
            "" | "nullptr" => Ok(Self(None)),
            other if braces_match(other) => Ok(Self(Some(other.to_owned()))),
            _ => Err(Error::invalid_argument(format!("Mismatched curly braces in {name}"))),
        }
    }

    fn print_value(&self, _dialect: Dialect) -> String {
        match &self.0 {
            None => "nullptr".into(),
            Some(text) if text.contains(['=', ';', '{', '}']) => format!("{{{}}}", escape_line(text)),
            Some(text) => escape_line(text),
        }
    }
}

/// The text of an object-valued option, taken apart: its id and its parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectText {
    /// The id; `None` when only parameters are given, which then change the present object.
    pub id: Option<String>,
    /// The parameters, in the order of the text.
    pub parameters: Vec<(String, String)>,
}

impl ObjectText {
    /// Takes `text` apart: `<id>`, `{id=<id>;p=v;...}` or `{p=v;...}`; `None` is `nullptr` or nothing.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.is_empty() || text == "nullptr" {
            return None;
        }
        if text.contains('=')
            && let Ok(mut parameters) = parse_map(text)
        {
            let id = parameters.iter().position(|(name, _)| name == "id").map(|at| parameters.remove(at).1);
            return match id.as_deref() {
                Some("" | "nullptr") => None,
                _ => Some(Self { id, parameters }),
            };
        }
        Some(Self { id: Some(strip_braces(text).to_owned()), parameters: Vec::new() })
    }
}
