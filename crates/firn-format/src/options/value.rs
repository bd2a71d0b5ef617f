//! The text forms of scalars, lists and enumerations.
//!
//! Numbers follow the C library as RocksDB uses it: leading blanks and a sign, the digits, then one optional size suffix;
//! whatever follows is ignored. Text flows in and out; a failure names the option.

use firn_error::{Error, Result};

use super::codec::ValueKind;
use super::{ConfigOptions, Dialect};
use crate::options_text::{escape_value, join_list, split_list, strip_braces};

/// A value with a text form of its own, independent of the option that holds it.
pub trait OptionValue: Sized {
    /// What sort of value this is.
    const KIND: ValueKind;

    /// Reads the value of option `name` from `text`.
    fn parse_value(name: &str, text: &str, config: &ConfigOptions) -> Result<Self>;

    /// Writes the value.
    fn print_value(&self, dialect: Dialect) -> String;

    /// The strings of an enumeration, in the order of their numbers; empty for other values.
    fn choices() -> &'static [&'static str] {
        &[]
    }
}

fn parse_error(name: &str, what: &str) -> Error {
    Error::invalid_argument(format!("Error parsing {name}:{what}"))
}

impl OptionValue for bool {
    const KIND: ValueKind = ValueKind::Bool;

    fn parse_value(name: &str, text: &str, _config: &ConfigOptions) -> Result<Self> {
        match strip_braces(text) {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            other => Err(parse_error(name, other)),
        }
    }

    fn print_value(&self, _dialect: Dialect) -> String {
        self.to_string()
    }
}

/// The digits at the start of a text, and the byte after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsedNumber {
    /// Whether a minus sign came first.
    pub negative: bool,
    /// The number without its sign.
    pub magnitude: u64,
    /// The byte after the digits, if any: perhaps a size suffix.
    pub suffix: Option<u8>,
}

impl ParsedNumber {
    /// Reads leading blanks, a sign and decimal digits; `None` without digits or beyond 64 bits.
    pub fn read(text: &str) -> Option<Self> {
        let text = text.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
        let (negative, text) = match text.as_bytes().first() {
            Some(b'-') => (true, text.get(1..)?),
            Some(b'+') => (false, text.get(1..)?),
            _ => (false, text),
        };
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let magnitude = text.get(..digits)?.parse().ok()?;
        Some(Self { negative, magnitude, suffix: text.as_bytes().get(digits).copied() })
    }

    /// How many bits the suffix shifts: k, M, G and, where `with_tera`, T.
    fn shift(self, with_tera: bool) -> u32 {
        match self.suffix {
            Some(b'k' | b'K') => 10,
            Some(b'm' | b'M') => 20,
            Some(b'g' | b'G') => 30,
            Some(b't' | b'T') if with_tera => 40,
            _ => 0,
        }
    }
}

fn parse_u64(name: &str, text: &str) -> Result<u64> {
    let number = ParsedNumber::read(strip_braces(text)).ok_or_else(|| parse_error(name, "stoull"))?;
    let value = if number.negative { number.magnitude.wrapping_neg() } else { number.magnitude };
    Ok(value.wrapping_shl(number.shift(true)))
}

fn parse_signed(name: &str, text: &str, what: &str, with_tera: bool, min: i64, max: i64) -> Result<i64> {
    let number = ParsedNumber::read(strip_braces(text)).ok_or_else(|| parse_error(name, what))?;
    let wide = i128::from(number.magnitude) * if number.negative { -1 } else { 1 };
    let digits = i64::try_from(wide).map_err(|_| parse_error(name, what))?;
    let value = i128::from(digits) << number.shift(with_tera);
    i64::try_from(value).ok().filter(|value| (min..=max).contains(value)).ok_or_else(|| parse_error(name, what))
}

macro_rules! unsigned {
    ($($type:ty),*) => {$(
        impl OptionValue for $type {
            const KIND: ValueKind = ValueKind::Uint;

            fn parse_value(name: &str, text: &str, _config: &ConfigOptions) -> Result<Self> {
                let value = parse_u64(name, text)?;
                <$type>::try_from(value).map_err(|_| parse_error(name, strip_braces(text)))
            }

            fn print_value(&self, _dialect: Dialect) -> String {
                self.to_string()
            }
        }
    )*};
}

unsigned!(u8, u32, u64, usize);

impl OptionValue for i32 {
    const KIND: ValueKind = ValueKind::Int;

    fn parse_value(name: &str, text: &str, _config: &ConfigOptions) -> Result<Self> {
        let value = parse_signed(name, text, "stoi", false, i64::from(i32::MIN), i64::from(i32::MAX))?;
        i32::try_from(value).map_err(|_| parse_error(name, "stoi"))
    }

    fn print_value(&self, _dialect: Dialect) -> String {
        self.to_string()
    }
}

impl OptionValue for i64 {
    const KIND: ValueKind = ValueKind::Int;

    fn parse_value(name: &str, text: &str, _config: &ConfigOptions) -> Result<Self> {
        parse_signed(name, text, "stoll", true, i64::MIN, i64::MAX)
    }

    fn print_value(&self, _dialect: Dialect) -> String {
        self.to_string()
    }
}

/// The longest prefix of `text` that C's `strtod` would read as a decimal number, an infinity or a NaN.
fn double_prefix(text: &str) -> Option<f64> {
    let text = text.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    let sign = usize::from(matches!(text.as_bytes().first(), Some(b'-' | b'+')));
    let bytes = text.as_bytes().get(sign..)?;
    let starts = |word: &str| bytes.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word.as_bytes()));
    if starts("inf") {
        return Some(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY });
    }
    if starts("nan") {
        return Some(f64::NAN);
    }
    let digits_at = |from: usize| bytes.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits_at(0);
    let mut end = whole;
    let mut fraction = 0;
    if bytes.get(end) == Some(&b'.') {
        fraction = digits_at(end + 1);
        if whole + fraction > 0 {
            end += 1 + fraction;
        }
    }
    if whole + fraction == 0 {
        return None;
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let exponent_sign = usize::from(matches!(bytes.get(end + 1), Some(b'-' | b'+')));
        let exponent = digits_at(end + 1 + exponent_sign);
        if exponent > 0 {
            end += 1 + exponent_sign + exponent;
        }
    }
    text.get(..sign + end)?.parse().ok()
}

impl OptionValue for f64 {
    const KIND: ValueKind = ValueKind::Double;

    fn parse_value(name: &str, text: &str, _config: &ConfigOptions) -> Result<Self> {
        double_prefix(strip_braces(text)).ok_or_else(|| parse_error(name, "stod"))
    }

    fn print_value(&self, _dialect: Dialect) -> String {
        if self.is_nan() { "nan".into() } else { format!("{self:.6}") }
    }
}

impl OptionValue for String {
    const KIND: ValueKind = ValueKind::Text;

    fn parse_value(_name: &str, text: &str, _config: &ConfigOptions) -> Result<Self> {
        Ok(text.to_owned())
    }

    fn print_value(&self, _dialect: Dialect) -> String {
        escape_value(self)
    }
}

impl<T: OptionValue> OptionValue for Vec<T> {
    const KIND: ValueKind = ValueKind::List;

    fn parse_value(name: &str, text: &str, config: &ConfigOptions) -> Result<Self> {
        split_list(strip_braces(text))?.into_iter().map(|element| T::parse_value(name, &element, config)).collect()
    }

    fn print_value(&self, dialect: Dialect) -> String {
        join_list(self.iter().map(|element| element.print_value(dialect)))
    }

    fn choices() -> &'static [&'static str] {
        T::choices()
    }
}

impl OptionValue for crate::checksum::ChecksumType {
    const KIND: ValueKind = ValueKind::Enum;

    fn parse_value(name: &str, text: &str, _config: &ConfigOptions) -> Result<Self> {
        Self::from_option_name(strip_braces(text))
            .ok_or_else(|| Error::invalid_argument(format!("No mapping for enum : {name}")))
    }

    fn print_value(&self, _dialect: Dialect) -> String {
        self.option_name().to_owned()
    }

    fn choices() -> &'static [&'static str] {
        &["kNoChecksum", "kCRC32c", "kxxHash", "kxxHash64", "kXXH3"]
    }
}
