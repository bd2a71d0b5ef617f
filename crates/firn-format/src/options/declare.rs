//! The declaring macros.

/// Declares a structure of options, each in one place.
///
/// ```
/// firn_format::option_set! {
///     /// Options of a shelf.
///     pub struct ShelfOptions("ShelfOptions") {
///         /// Most bytes on the shelf.
///         capacity: u64 = 1 << 20 => mutable;
///         /// Whether the shelf is locked.
///         is_locked as "locked": bool = false;
///     }
///     aliases { "size" => "capacity" }
///     retired { "paint_color" }
/// }
/// use firn_format::options::{ConfigOptions, OptionSet};
/// let mut options = ShelfOptions::default();
/// options.set_text("capacity", "4k", &ConfigOptions::default()).unwrap();
/// assert_eq!(options.capacity, 4096);
/// assert_eq!(options.get_text("locked").as_deref(), Some("false"));
/// ```
///
/// One option is `field [as "name"]: Type = default [, with Codec] [=> flags];` where the flags are the methods of
/// [`OptionFlags`](crate::options::OptionFlags): `mutable`, `new`, `parse_only`, `loose`, `never`,
/// `inert`. Without a codec the type
/// must implement [`OptionValue`](crate::options::OptionValue). `legacy function;` before the options names the function that
/// reads the whole structure from a text without `=`. `impl Type(...) { ... }` makes a table for a structure that is there
/// already.
#[macro_export]
macro_rules! option_set {
    (
        impl $set:ident($title:literal) {
            $($(#[doc = $doc:literal])+
            $field:ident $(as $name:literal)? : $type:ty = $default:expr $(, with $codec:ty)? $(=> $($flag:ident)+)?;)*
        }
        $(aliases { $($alias:literal => $target:literal),* $(,)? })?
        $(retired { $($retired:literal),* $(,)? })?
        $(legacy $legacy:path;)?
    ) => {
        impl $crate::options::OptionSet for $set {
            const TITLE: &'static str = $title;
            const FIELDS: &'static [$crate::options::OptionField<Self>] = &[
                $($crate::options::OptionField {
                    descriptor: $crate::options::OptionDescriptor {
                        name: $crate::option_or!($($name)?, stringify!($field)),
                        field: stringify!($field),
                        type_name: stringify!($type),
                        kind: <$crate::option_codec!($($codec)?) as $crate::options::OptionCodec<$type>>::KIND,
                        default: stringify!($default),
                        doc: concat!($($doc, "\n"),+),
                        flags: $crate::options::OptionFlags::DEFAULT$($(.$flag())+)?,
                        choices: <$crate::option_codec!($($codec)?) as $crate::options::OptionCodec<$type>>::choices,
                    },
                    parse: |set, name, text, config| {
                        <$crate::option_codec!($($codec)?) as $crate::options::OptionCodec<$type>>::parse(
                            &mut set.$field, name, text, config,
                        )
                    },
                    parse_field: |set, name, field, text, config| {
                        <$crate::option_codec!($($codec)?) as $crate::options::OptionCodec<$type>>::parse_field(
                            &mut set.$field, name, field, text, config,
                        )
                    },
                    print: |set, dialect| {
                        <$crate::option_codec!($($codec)?) as $crate::options::OptionCodec<$type>>::print(
                            &set.$field, dialect,
                        )
                    },
                },)*
            ];
            const ALIASES: &'static [(&'static str, &'static str)] = &[$($(($alias, $target)),*)?];
            const RETIRED: &'static [&'static str] = &[$($($retired),*)?];

            fn kept_mut(&mut self) -> ::core::option::Option<&mut $crate::options::KeptOptions> {
                let mut found = ::core::option::Option::None;
                $(found = found.or(
                    <$crate::option_codec!($($codec)?) as $crate::options::OptionCodec<$type>>::kept(&mut self.$field)
                );)*
                found
            }

            fn kept(&self) -> ::core::option::Option<&$crate::options::KeptOptions> {
                let mut found = ::core::option::Option::None;
                $(found = found.or(
                    <$crate::option_codec!($($codec)?) as $crate::options::OptionCodec<$type>>::kept_ref(&self.$field)
                );)*
                found
            }

            $(fn parse_legacy(
                &mut self,
                name: &str,
                text: &str,
                config: &$crate::options::ConfigOptions,
            ) -> $crate::Result<()> {
                $legacy(self, name, text, config)
            })?
        }
    };
    (
        $(#[$meta:meta])*
        $vis:vis struct $set:ident($title:literal) {
            $($(#[doc = $doc:literal])+
            $field:ident $(as $name:literal)? : $type:ty = $default:expr $(, with $codec:ty)? $(=> $($flag:ident)+)?;)*
        }
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        #[allow(unreachable_pub)]
        #[derive(Clone)]
        $vis struct $set {
            $($(#[doc = $doc])+ pub $field: $type,)*
        }

        impl ::core::default::Default for $set {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl ::core::fmt::Debug for $set {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                use $crate::options::OptionSet;
                let mut debug = f.debug_struct(stringify!($set));
                for (name, text) in self.entries($crate::options::Dialect::RocksDb11) {
                    debug.field(&name, &::core::format_args!("{}", text));
                }
                debug.finish_non_exhaustive()
            }
        }

        $crate::option_set! {
            impl $set($title) {
                $($(#[doc = $doc])+
                $field $(as $name)? : $type = $default $(, with $codec)? $(=> $($flag)+)?;)*
            }
            $($rest)*
        }
    };
}

/// The first of two values that is given; used by [`option_set!`](crate::option_set).
#[doc(hidden)]
#[macro_export]
macro_rules! option_or {
    (, $otherwise:expr) => {
        $otherwise
    };
    ($value:expr, $otherwise:expr) => {
        $value
    };
}

/// The codec that a declaration names, or the plain one; used by [`option_set!`](crate::option_set).
#[doc(hidden)]
#[macro_export]
macro_rules! option_codec {
    () => {
        $crate::options::Plain
    };
    ($codec:ty) => {
        $codec
    };
}

/// Declares an enumeration with RocksDB's numbers and strings; the first variant is the default unless another is marked
/// `#[default]`.
///
/// `also "string" => Variant` lists strings that are read but not written.
#[macro_export]
macro_rules! option_enum {
    (
        $(#[$meta:meta])*
        $vis:vis enum $enum:ident {
            $($(#[$variant_meta:meta])+ $variant:ident = $number:literal => $name:literal),* $(,)?
        }
        $(also { $($alias:literal => $target:ident),* $(,)? })?
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        $vis enum $enum {
            $($(#[$variant_meta])+ $variant = $number,)*
        }

        #[allow(unreachable_pub, dead_code)]
        impl $enum {
            /// Every value, in the order of the numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// RocksDB's string of the value.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The value with this string.
            pub fn from_name(name: &str) -> ::core::option::Option<Self> {
                match name {
                    $($name => ::core::option::Option::Some(Self::$variant),)*
                    $($($alias => ::core::option::Option::Some(Self::$target),)*)?
                    _ => ::core::option::Option::None,
                }
            }

            /// RocksDB's number of the value.
            pub const fn number(self) -> u8 {
                self as u8
            }

            /// The value with this number.
            pub const fn from_number(number: u8) -> ::core::option::Option<Self> {
                match number {
                    $($number => ::core::option::Option::Some(Self::$variant),)*
                    _ => ::core::option::Option::None,
                }
            }
        }

        $crate::option_enum_value!($enum, [$($name),*]);
    };
}

/// Implements [`OptionValue`](crate::options::OptionValue) for an enumeration with `name`, `from_name` and these strings.
#[macro_export]
macro_rules! option_enum_value {
    ($enum:ty, [$($name:literal),* $(,)?]) => {
        impl $crate::options::OptionValue for $enum {
            const KIND: $crate::options::ValueKind = $crate::options::ValueKind::Enum;

            fn parse_value(name: &str, text: &str, _config: &$crate::options::ConfigOptions) -> $crate::Result<Self> {
                <$enum>::from_name($crate::options_text::strip_braces(text)).ok_or_else(|| {
                    $crate::Error::invalid_argument(format!("No mapping for enum : {name}"))
                })
            }

            fn print_value(&self, _dialect: $crate::options::Dialect) -> String {
                self.name().to_owned()
            }

            fn choices() -> &'static [&'static str] {
                &[$($name),*]
            }
        }
    };
}
