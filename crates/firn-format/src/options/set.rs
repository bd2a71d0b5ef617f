//! A structure of options as a table of fields that can be read and written by name.

use firn_error::{Error, ErrorKind, Result};

use super::codec::{KeptOptions, ValueKind};
use super::{ConfigOptions, Dialect};
use crate::options_text::{braces_match, escape_line, parse_map, unescape};

/// At which level two configurations are compared in an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Only when every option must agree.
    Exact,
    /// Even when only compatibility is asked for.
    Loose,
    /// Not at all.
    Never,
}

/// The properties that a declaration lists after `=>`; each has a default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionFlags {
    /// Whether the option can be changed while the database is open. Default: false.
    pub mutable: bool,
    /// Whether the option is newer than RocksDB 7.8. Default: false.
    pub new: bool,
    /// Whether the option is read but never written. Default: false.
    pub parse_only: bool,
    /// When two configurations are compared in it. Default: [`Comparison::Exact`].
    pub comparison: Comparison,
    /// Whether the option is only read, kept and written, but has no effect. Default: false.
    pub inert: bool,
}

impl OptionFlags {
    /// An option that cannot be changed, old, written, and compared exactly.
    pub const DEFAULT: Self =
        Self { mutable: false, new: false, parse_only: false, comparison: Comparison::Exact, inert: false };

    /// Can be changed while the database is open.
    #[must_use]
    pub const fn mutable(self) -> Self {
        Self { mutable: true, ..self }
    }

    /// Is newer than RocksDB 7.8.
    #[must_use]
    pub const fn new(self) -> Self {
        Self { new: true, ..self }
    }

    /// Is read but never written.
    #[must_use]
    pub const fn parse_only(self) -> Self {
        Self { parse_only: true, ..self }
    }

    /// Has no effect.
    #[must_use]
    pub const fn inert(self) -> Self {
        Self { inert: true, ..self }
    }

    /// Is compared even loosely.
    #[must_use]
    pub const fn loose(self) -> Self {
        Self { comparison: Comparison::Loose, ..self }
    }

    /// Is never compared.
    #[must_use]
    pub const fn never(self) -> Self {
        Self { comparison: Comparison::Never, ..self }
    }
}

/// What a declaration says about an option.
#[derive(Clone, Copy, Debug)]
pub struct OptionDescriptor {
    /// The name in text.
    pub name: &'static str,
    /// The name of the Rust field.
    pub field: &'static str,
    /// The Rust type, as declared.
    pub type_name: &'static str,
    /// What sort of value it is.
    pub kind: ValueKind,
    /// The default, as declared.
    pub default: &'static str,
    /// The documentation.
    pub doc: &'static str,
    /// The other properties.
    pub flags: OptionFlags,
    /// The strings of an enumeration, in the order of their numbers; empty for other values.
    pub choices: fn() -> &'static [&'static str],
}

/// Reads text into an option of `S`: structure, option name, text, and how to read it.
pub type ParseOption<S> = fn(&mut S, &str, &str, &ConfigOptions) -> Result<()>;

/// Reads text into a field inside an option of `S`: structure, option name, field name, text, and how to read it.
pub type ParseOptionField<S> = fn(&mut S, &str, &str, &str, &ConfigOptions) -> Result<()>;

/// One option of the structure `S`: what it is, and how to read and write it.
pub struct OptionField<S> {
    /// What the declaration says.
    pub descriptor: OptionDescriptor,
    /// Reads the option.
    pub parse: ParseOption<S>,
    /// Reads a field inside the option.
    pub parse_field: ParseOptionField<S>,
    /// Writes the option; `None` when it has no text.
    pub print: fn(&S, Dialect) -> Option<String>,
}

/// A structure of options declared by [`option_set!`](crate::option_set).
pub trait OptionSet: Default + Clone + 'static {
    /// The name of the structure in messages.
    const TITLE: &'static str;

    /// The options in the order of their declaration.
    const FIELDS: &'static [OptionField<Self>];

    /// Other names under which options are read: alias, then name.
    const ALIASES: &'static [(&'static str, &'static str)];

    /// Retired names: read with any value, never acted on.
    const RETIRED: &'static [&'static str];

    /// The store of text that is not acted on, if the structure has one.
    fn kept_mut(&mut self) -> Option<&mut KeptOptions>;

    /// The same, to read.
    fn kept(&self) -> Option<&KeptOptions>;

    /// Reads a text without `=`, an older form of the whole structure.
    fn parse_legacy(&mut self, name: &str, text: &str, config: &ConfigOptions) -> Result<()> {
        let _ = config;
        if text.is_empty() {
            return Ok(());
        }
        Err(Error::invalid_argument(format!("unable to parse the specified CF option {name}")))
    }

    /// The option called `name` or having it as an alias.
    fn find(name: &str) -> Option<&'static OptionField<Self>> {
        let name = Self::ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, target)| target);
        Self::FIELDS.iter().find(|field| field.descriptor.name == name && field.descriptor.kind != ValueKind::Memory)
    }

    /// Whether `name`, or the part of it before the first dot, is an option or a retired name here.
    fn knows(name: &str) -> bool {
        let head = name.split_once('.').map_or(name, |(head, _)| head);
        Self::find(head).is_some() || Self::RETIRED.contains(&name)
    }

    /// Reads one option by name; `name.field` reaches into a structure or an object.
    ///
    /// Unknown names are `InvalidArgument` unless `config` ignores them; so are values that cannot be parsed and, where
    /// only mutable options may change, the others. The structure is unchanged on failure.
    fn set_text(&mut self, name: &str, text: &str, config: &ConfigOptions) -> Result<()> {
        let unescaped;
        let text = if config.input_strings_escaped {
            unescaped = unescape(text);
            unescaped.as_str()
        } else {
            text
        };
        let (head, inner) = match Self::find(name) {
            Some(_) => (name, None),
            None => name.split_once('.').map_or((name, None), |(head, inner)| (head, Some(inner))),
        };
        let Some(field) = Self::find(head) else {
            if Self::RETIRED.contains(&name) {
                self.keep(name, text);
                return Ok(());
            }
            // What is ignored is not kept: a file of this version with names that it does not know cannot be read.
            if config.ignore_unknown_options {
                return Ok(());
            }
            return Err(Error::invalid_argument(format!("Extra option not recognized: {name}")));
        };
        let descriptor = &field.descriptor;
        let mut changed = self.clone();
        let result = match inner {
            Some(inner) => (field.parse_field)(&mut changed, head, inner, text, config),
            None => (field.parse)(&mut changed, head, text, config),
        };
        if config.mutable_options_only && !descriptor.flags.mutable {
            let same_object = descriptor.kind == ValueKind::Object
                && text != "nullptr"
                && result.is_ok()
                && (field.print)(&changed, Dialect::RocksDb11) == (field.print)(self, Dialect::RocksDb11);
            if !same_object {
                return Err(Error::invalid_argument(format!("Option not changeable: {name}")));
            }
        }
        match result {
            Ok(()) => {
                if let Some(kept) = changed.kept_mut() {
                    kept.0.remove(descriptor.name);
                }
                *self = changed;
                Ok(())
            }
            Err(error) => {
                let unsupported = error.kind() == ErrorKind::NotSupported && config.ignore_unsupported_options;
                if !(unsupported || config.ignore_unknown_options) {
                    return Err(error);
                }
                if unsupported && inner.is_none() {
                    self.keep(descriptor.name, text);
                }
                Ok(())
            }
        }
    }

    /// Keeps the text of an option that is not acted on, in the form in which it is written back. Text with a brace too many
    /// is dropped: it would spoil what stands around it.
    fn keep(&mut self, name: &str, text: &str) {
        if braces_match(text)
            && let Some(kept) = self.kept_mut()
        {
            kept.0.insert(name.to_owned(), escape_line(text));
        }
    }

    /// Reads several options; all or none of them take effect.
    fn apply_map<'a>(
        &mut self,
        map: impl IntoIterator<Item = (&'a str, &'a str)>,
        config: &ConfigOptions,
    ) -> Result<()> {
        let mut changed = self.clone();
        for (name, text) in map {
            changed.set_text(name, text, config)?;
        }
        *self = changed;
        Ok(())
    }

    /// Reads an option string `name=value;...`; all or none of its options take effect.
    fn apply_string(&mut self, text: &str, config: &ConfigOptions) -> Result<()> {
        let map = parse_map(text)?;
        self.apply_map(map.iter().map(|(name, value)| (name.as_str(), value.as_str())), config)
    }

    /// A default structure with the options of `text` applied.
    fn from_text(text: &str, config: &ConfigOptions) -> Result<Self> {
        let mut set = Self::default();
        set.apply_string(text, config)?;
        Ok(set)
    }

    /// The text of the option called `name`; `None` for names without text.
    fn get_text(&self, name: &str) -> Option<String> {
        Self::find(name).and_then(|field| (field.print)(self, Dialect::RocksDb11))
    }

    /// Every option that is written in `dialect`, with its text: those with empty text too. Kept text comes last.
    fn entries(&self, dialect: Dialect) -> Vec<(String, String)> {
        let default = Self::default();
        let mut entries = Vec::with_capacity(Self::FIELDS.len());
        for field in Self::FIELDS.iter().filter(|field| !field.descriptor.flags.parse_only) {
            let Some(text) = (field.print)(self, dialect) else { continue };
            let name = field.descriptor.name;
            let at_default = || (field.print)(&default, dialect).as_ref() == Some(&text);
            if !dialect.prints(field.descriptor.flags.new, at_default) {
                continue;
            }
            // An object that is not known here left its option at the default and its text in the store.
            let kept = self.kept().and_then(|kept| kept.0.get(name)).filter(|_| at_default());
            entries.push((name.to_owned(), kept.cloned().unwrap_or(text)));
        }
        if let Some(kept) = self.kept() {
            let rest = kept.0.iter().filter(|(name, _)| Self::find(name).is_none());
            entries.extend(rest.map(|(name, text)| (name.clone(), text.clone())));
        }
        entries
    }

    /// The [`entries`](Self::entries) that have to be written for the structure to come back: an empty text is left out, as
    /// RocksDB does, unless the default is not empty.
    fn written_entries(&self, dialect: Dialect) -> Vec<(String, String)> {
        let default = Self::default();
        let tells = |name: &str| default.get_text(name).is_some_and(|text| !text.is_empty());
        let is_written = |(name, value): &(String, String)| !value.is_empty() || tells(name);
        self.entries(dialect).into_iter().filter(is_written).collect()
    }

    /// The options that were given a value and have no effect, with their texts; kept text too.
    fn ineffective(&self) -> Vec<(String, String)> {
        let default = Self::default();
        let inert = Self::FIELDS.iter().filter(|field| field.descriptor.flags.inert);
        let mut found: Vec<(String, String)> = inert
            .filter_map(|field| {
                let text = (field.print)(self, Dialect::RocksDb11)?;
                let changed = (field.print)(&default, Dialect::RocksDb11).as_ref() != Some(&text);
                changed.then(|| (field.descriptor.name.to_owned(), text))
            })
            .collect();
        found.extend(self.kept().into_iter().flat_map(|kept| kept.0.clone()));
        found
    }

    /// The option string of the structure: its [`written_entries`](Self::written_entries) as `name=value`, joined by
    /// `delimiter`.
    fn to_text(&self, dialect: Dialect, delimiter: &str) -> String {
        let mut text = String::new();
        for (name, value) in self.written_entries(dialect) {
            text.push_str(&name);
            text.push('=');
            text.push_str(&value);
            text.push_str(delimiter);
        }
        text
    }

    /// The structure as the value of an option: `{name=value;...;}`, with empty values.
    fn to_braced_text(&self, dialect: Dialect) -> String {
        let mut text = String::from("{");
        for (name, value) in self.entries(dialect) {
            text.push_str(&name);
            text.push('=');
            text.push_str(&value);
            text.push(';');
        }
        text.push('}');
        text
    }
}
