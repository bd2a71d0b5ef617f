//! Command-line flags in the manner of gflags, which `db_bench` scripts depend on.
//!
//! A program declares each flag once with [`declare_flags!`](crate::declare_flags): name, type, default, help. Out of
//! that one declaration come a struct with one typed field per flag, the parser's table and the `--help` text.
//!
//! In: the program's arguments, the environment (`--fromenv`) and flag files (`--flagfile`). Out: the filled struct, or
//! an [`Outcome`] that says what to print and with which status to exit. Nothing here prints or exits by itself.
//! Always true: errors of all flags are collected and reported together, sorted by flag name; the last occurrence of a
//! flag wins; arguments that are not flags are ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use firn_env::Env;

/// Type of one flag value: how it is parsed from text and printed in `--help`.
pub trait FlagValue: Sized {
    /// Name of the type in messages (`int32`, `string`, …).
    const TYPE_NAME: &'static str;
    /// Parses `text`; `None` when it is not a value of this type.
    fn parse(text: &str) -> Option<Self>;
    /// Prints the value so that [`FlagValue::parse`] reads it back.
    fn render(&self) -> String;
}

impl FlagValue for bool {
    const TYPE_NAME: &'static str = "bool";
    fn parse(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "1" | "t" | "true" | "y" | "yes" => Some(true),
            "0" | "f" | "false" | "n" | "no" => Some(false),
            _ => None,
        }
    }
    fn render(&self) -> String {
        self.to_string()
    }
}

/// Parses a decimal or `0x` number with optional sign, with C's tolerance for leading blanks.
fn parse_integer(text: &str) -> Option<i128> {
    let text = text.trim_start();
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let magnitude = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) if hex.bytes().all(|b| b.is_ascii_hexdigit()) => i128::from(u64::from_str_radix(hex, 16).ok()?),
        None if digits.bytes().all(|b| b.is_ascii_digit()) => i128::from(digits.parse::<u64>().ok()?),
        _ => return None,
    };
    Some(if negative { -magnitude } else { magnitude })
}

macro_rules! integer_flag_values {
    ($($rust:ty => $name:literal),*) => {$(
        impl FlagValue for $rust {
            const TYPE_NAME: &'static str = $name;
            fn parse(text: &str) -> Option<Self> {
                parse_integer(text).and_then(|value| <$rust>::try_from(value).ok())
            }
            fn render(&self) -> String {
                self.to_string()
            }
        }
    )*};
}
integer_flag_values!(i32 => "int32", u32 => "uint32", i64 => "int64", u64 => "uint64");

impl FlagValue for f64 {
    const TYPE_NAME: &'static str = "double";
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim_start();
        if text.contains(['x', 'X']) {
            // Hexadecimal floats are in use for integers only; fractions in hexadecimal are not.
            return parse_integer(text).map(|value| value as f64);
        }
        text.parse().ok()
    }
    fn render(&self) -> String {
        self.to_string()
    }
}

impl FlagValue for String {
    const TYPE_NAME: &'static str = "string";
    fn parse(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
    fn render(&self) -> String {
        self.clone()
    }
}

/// One declared flag of the flag struct `F`.
pub struct FlagSpec<F> {
    /// Name with underscores.
    pub name: &'static str,
    /// Type name as printed in messages.
    pub type_name: &'static str,
    /// One sentence for `--help`.
    pub help: &'static str,
    /// Sets the field from text; false when the text is not of the flag's type.
    pub set: fn(&mut F, &str) -> bool,
    /// The field's value as text.
    pub get: fn(&F) -> String,
}

/// A struct of flags made by [`declare_flags!`](crate::declare_flags).
pub trait FlagSet: Default {
    /// All flags in the order of declaration.
    fn specs() -> &'static [FlagSpec<Self>];
    /// Checks one flag after it was set; an error is the text of the validator's message (without the final
    /// `failed validation` line, which the parser adds).
    fn validate(&self, name: &str) -> Result<(), String> {
        let _ = name;
        Ok(())
    }
}

/// Declares the flags of a program: `declare_flags! { pub struct X { name: type = default, "help"; … } }`.
#[macro_export]
macro_rules! declare_flags {
    ($(#[$meta:meta])* $vis:vis struct $set:ident { $($name:ident : $kind:ty = $default:expr, $help:literal;)* }
     validate($flags:ident, $flag_name:ident) $validate:block) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        $vis struct $set {
            $(#[doc = $help] $vis $name: $kind,)*
        }

        impl Default for $set {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        impl $crate::flags::FlagSet for $set {
            fn specs() -> &'static [$crate::flags::FlagSpec<Self>] {
                static SPECS: &[$crate::flags::FlagSpec<$set>] = &[$($crate::flags::FlagSpec {
                    name: stringify!($name),
                    type_name: <$kind as $crate::flags::FlagValue>::TYPE_NAME,
                    help: $help,
                    set: |flags, text| match <$kind as $crate::flags::FlagValue>::parse(text) {
                        Some(value) => {
                            flags.$name = value;
                            true
                        }
                        None => false,
                    },
                    get: |flags| $crate::flags::FlagValue::render(&flags.$name),
                },)*];
                SPECS
            }

            fn validate(&self, $flag_name: &str) -> Result<(), String> {
                let $flags = self;
                $validate
            }
        }
    };
}

/// What the command line asks for.
#[derive(Debug)]
pub enum Outcome<F> {
    /// Run the program with these flags.
    Run {
        /// The values.
        flags: Box<F>,
        /// Names of the flags that occurred at least once.
        given: BTreeSet<&'static str>,
    },
    /// Print `text` on stdout and exit with `status` (`--help`, `--version`, …).
    Print {
        /// Text for stdout.
        text: String,
        /// Exit status.
        status: i32,
    },
    /// Print `text` on stderr and exit with status 1.
    Fail {
        /// Text for stderr.
        text: String,
    },
}

/// What the parser needs to know about the program besides its flags.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// Name as printed in help and version.
    pub name: &'a str,
    /// Version as printed by `--version`.
    pub version: &'a str,
    /// Usage text printed on top of `--help`.
    pub usage: &'a str,
}

/// Reads what lies outside the command line, so that tests need neither files nor environment.
pub trait Surroundings {
    /// Text of a flag file.
    fn read_flag_file(&self, path: &str) -> Result<String, String>;
    /// Value of an environment variable.
    fn environment(&self, name: &str) -> Option<String>;
}

/// The real files and environment variables.
pub struct Outside<'e>(pub &'e Env);

impl Surroundings for Outside<'_> {
    fn read_flag_file(&self, path: &str) -> Result<String, String> {
        let read = firn_env::read_file(&**self.0.fs(), path.as_ref(), 1 << 20);
        read.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).map_err(|error| {
            if error.is_path_not_found() { format!("{path}: No such file or directory") } else { error.to_string() }
        })
    }

    fn environment(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

const BUILT_IN: &[(&str, &str)] = &[
    ("flagfile", "load flags from this file, one per line"),
    ("fromenv", "set these flags from the environment variables FLAGS_<name>"),
    ("tryfromenv", "as fromenv, but missing variables are no error"),
    ("undefok", "names of flags that may be unknown"),
    ("helpon", "show help on the flags of this module"),
    ("helpmatch", "show help on modules whose name contains this text"),
];
const BUILT_IN_BOOLS: &[&str] = &["help", "helpfull", "helpshort", "helppackage", "helpxml", "version"];

/// Deepest nesting of flag files that include each other.
const MAX_FLAG_FILE_DEPTH: usize = 16;

struct Parser<'s, F: FlagSet + 'static> {
    flags: F,
    given: BTreeSet<&'static str>,
    errors: BTreeMap<String, String>,
    unknown: BTreeMap<String, String>,
    undefok: BTreeSet<String>,
    built_in: BTreeMap<&'static str, String>,
    surroundings: &'s dyn Surroundings,
}

impl<F: FlagSet + 'static> Parser<'_, F> {
    fn find(name: &str) -> Option<&'static FlagSpec<F>> {
        F::specs().iter().find(|spec| spec.name == name)
    }

    /// True when a flag of this name takes no separate argument.
    fn is_bool(name: &str) -> Option<bool> {
        if let Some(spec) = Self::find(name) {
            return Some(spec.type_name == "bool");
        }
        if BUILT_IN_BOOLS.contains(&name) {
            return Some(true);
        }
        BUILT_IN.iter().any(|(known, _)| *known == name).then_some(false)
    }

    fn arguments(&mut self, arguments: &[String], depth: usize) {
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let Some(body) = argument.strip_prefix('-').filter(|body| !body.is_empty()) else {
                continue;
            };
            let body = body.strip_prefix('-').unwrap_or(body);
            if body.is_empty() {
                return;
            }
            self.one(body, &mut rest, depth);
        }
    }

    /// Handles one flag; `rest` supplies the argument of a flag written without `=`.
    fn one<'a>(&mut self, body: &str, rest: &mut impl Iterator<Item = &'a String>, depth: usize) {
        let (raw, mut value) = match body.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (body, None),
        };
        let mut name = raw.replace('-', "_");
        let boolean = match Self::is_bool(&name) {
            Some(boolean) => boolean,
            None => {
                let negated = name.strip_prefix("no").map(str::to_owned);
                match negated.as_deref().and_then(|positive| Self::find(positive).map(|spec| (positive, spec))) {
                    Some((positive, spec)) if spec.type_name == "bool" => {
                        name = positive.to_owned();
                        value = Some("0".to_owned());
                        true
                    }
                    Some((_, spec)) => {
                        let text =
                            format!("ERROR: boolean value ({raw}) specified for {} command line flag", spec.type_name);
                        self.errors.insert(raw.to_owned(), text);
                        return;
                    }
                    None => {
                        self.unknown.insert(raw.to_owned(), format!("ERROR: unknown command line flag '{raw}'"));
                        return;
                    }
                }
            }
        };
        let value = match value {
            Some(value) => value,
            None if boolean => "1".to_owned(),
            None => match rest.next() {
                Some(next) => next.clone(),
                None => {
                    let help = Self::find(&name).map_or("", |spec| spec.help);
                    let text = format!("ERROR: flag '--{raw}' is missing its argument; flag description: {help}");
                    self.errors.insert(name, text);
                    return;
                }
            },
        };
        self.assign(&name, &value, depth);
    }

    fn assign(&mut self, name: &str, value: &str, depth: usize) {
        let Some(spec) = Self::find(name) else {
            self.assign_built_in(name, value, depth);
            return;
        };
        let previous = (spec.get)(&self.flags);
        if !(spec.set)(&mut self.flags, value) {
            let text = format!("ERROR: illegal value '{value}' specified for {} flag '{name}'", spec.type_name);
            self.errors.insert(name.to_owned(), text);
            return;
        }
        if let Err(message) = self.flags.validate(name) {
            let shown = (spec.get)(&self.flags);
            (spec.set)(&mut self.flags, &previous);
            let text = format!("{message}\nERROR: failed validation of new value '{shown}' for flag '{name}'");
            self.errors.insert(name.to_owned(), text);
            return;
        }
        self.given.insert(spec.name);
    }

    fn assign_built_in(&mut self, name: &str, value: &str, depth: usize) {
        match name {
            "flagfile" => value.split(',').filter(|path| !path.is_empty()).for_each(|path| self.file(path, depth)),
            "fromenv" | "tryfromenv" => {
                for flag in value.split(',').filter(|flag| !flag.is_empty()) {
                    self.assign_from_environment(flag, name == "fromenv", depth);
                }
            }
            "undefok" => self.undefok.extend(value.split(',').map(|flag| flag.trim().replace('-', "_"))),
            _ => {
                let known = BUILT_IN.iter().map(|(known, _)| *known).chain(BUILT_IN_BOOLS.iter().copied());
                for known in known {
                    if known == name {
                        self.built_in.insert(known, value.to_owned());
                    }
                }
            }
        }
    }

    fn assign_from_environment(&mut self, flag: &str, required: bool, depth: usize) {
        let name = flag.replace('-', "_");
        if Self::is_bool(&name).is_none() {
            let text = format!("ERROR: unknown command line flag '{flag}' (via --fromenv or --tryfromenv)");
            self.unknown.insert(flag.to_owned(), text);
            return;
        }
        match self.surroundings.environment(&format!("FLAGS_{name}")) {
            Some(value) => self.assign(&name, &value, depth),
            None if required => {
                self.errors.insert(name.clone(), format!("ERROR: FLAGS_{name} not found in environment"));
            }
            None => {}
        }
    }

    fn file(&mut self, path: &str, depth: usize) {
        if depth >= MAX_FLAG_FILE_DEPTH {
            self.errors.insert("flagfile".to_owned(), format!("{path}: flag files nest too deep"));
            return;
        }
        let text = match self.surroundings.read_flag_file(path) {
            Ok(text) => text,
            Err(message) => {
                self.errors.insert("flagfile".to_owned(), message);
                return;
            }
        };
        let lines: Vec<String> = text
            .lines()
            .map(str::trim)
            .filter(|line| line.starts_with('-') && !line.starts_with('#'))
            .map(str::to_owned)
            .collect();
        for line in lines {
            // One flag per line: an argument never comes from the next line.
            self.arguments(&[line], depth + 1);
        }
    }
}

/// Parses `arguments` (without the program's name).
pub fn parse<F: FlagSet + 'static>(
    program: Program<'_>,
    arguments: &[String],
    surroundings: &dyn Surroundings,
) -> Outcome<F> {
    let mut parser = Parser::<F> {
        flags: F::default(),
        given: BTreeSet::new(),
        errors: BTreeMap::new(),
        unknown: BTreeMap::new(),
        undefok: BTreeSet::new(),
        built_in: BTreeMap::new(),
        surroundings,
    };
    parser.arguments(arguments, 0);
    let mut errors = std::mem::take(&mut parser.errors);
    for (name, text) in std::mem::take(&mut parser.unknown) {
        let plain = name.replace('-', "_");
        let forgiven = |flag: &str| {
            parser.undefok.contains(flag) || flag.strip_prefix("no").is_some_and(|f| parser.undefok.contains(f))
        };
        if !forgiven(&plain) {
            errors.insert(name, text);
        }
    }
    let asked = |name: &str| parser.built_in.get(name).is_some_and(|value| bool::parse(value) == Some(true));
    if !errors.is_empty() {
        let text: String = errors.values().map(|line| format!("{line}\n")).collect();
        return Outcome::Fail { text };
    }
    if asked("version") {
        return Outcome::Print { text: format!("{} version {}\n", program.name, program.version), status: 0 };
    }
    if asked("helpxml") {
        return Outcome::Print { text: help_xml(program, &parser.flags), status: 1 };
    }
    let matched = parser.built_in.get("helpon").or_else(|| parser.built_in.get("helpmatch"));
    if ["help", "helpfull", "helpshort", "helppackage"].iter().any(|name| asked(name)) || matched.is_some() {
        let show = matched.is_none_or(|module| program.name.contains(module.as_str()));
        return Outcome::Print { text: help(program, &parser.flags, show), status: 1 };
    }
    Outcome::Run { flags: Box::new(parser.flags), given: parser.given }
}

/// The `--help` text: usage, then all flags sorted by name, wrapped at 80 columns.
fn help<F: FlagSet + 'static>(program: Program<'_>, flags: &F, show: bool) -> String {
    let mut text = format!("{}: {}\n\n", program.name, program.usage);
    if !show {
        text.push_str("  No modules matched: use -help\n");
        return text;
    }
    let _ = writeln!(text, "  Flags from {}:", program.name);
    let defaults = F::default();
    let mut specs: Vec<_> = F::specs().iter().collect();
    specs.sort_by_key(|spec| spec.name);
    for spec in specs {
        let quote = |value: String| if spec.type_name == "string" { format!("\"{value}\"") } else { value };
        let (default, current) = ((spec.get)(&defaults), (spec.get)(flags));
        let mut words: Vec<String> = format!("-{} ({})", spec.name, spec.help).split(' ').map(str::to_owned).collect();
        words.push(format!("type: {}", spec.type_name));
        if default != current {
            words.push(format!("default: {}", quote(default)));
            words.push(format!("currently: {}", quote(current)));
        } else {
            words.push(format!("default: {}", quote(default)));
        }
        text.push_str(&wrap(&words));
    }
    text.push_str("\n  Flags of every program:\n");
    for (name, what) in BUILT_IN {
        let words: Vec<String> = format!("-{name} ({what})").split(' ').map(str::to_owned).collect();
        text.push_str(&wrap(&words));
    }
    text
}

fn wrap(words: &[String]) -> String {
    const WIDTH: usize = 80;
    let mut text = String::new();
    let mut line = String::from("   ");
    for word in words {
        if line.len() + 1 + word.len() >= WIDTH && line.trim() != "" {
            text.push_str(&line);
            text.push('\n');
            line = String::from("     ");
        }
        line.push(' ');
        line.push_str(word);
    }
    text.push_str(&line);
    text.push('\n');
    text
}

fn help_xml<F: FlagSet + 'static>(program: Program<'_>, flags: &F) -> String {
    let escape = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let mut text = format!(
        "<?xml version=\"1.0\"?>\n<AllFlags>\n<program>{}</program>\n<usage>{}</usage>\n",
        program.name,
        escape(program.usage)
    );
    let defaults = F::default();
    let mut specs: Vec<_> = F::specs().iter().collect();
    specs.sort_by_key(|spec| spec.name);
    for spec in specs {
        let _ = writeln!(
            text,
            "<flag><file>{}</file><name>{}</name><meaning>{}</meaning><default>{}</default><current>{}</current>\
             <type>{}</type></flag>",
            program.name,
            spec.name,
            escape(spec.help),
            escape(&(spec.get)(&defaults)),
            escape(&(spec.get)(flags)),
            spec.type_name
        );
    }
    text.push_str("</AllFlags>\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::declare_flags! {
        /// Flags for the tests.
        pub(crate) struct TestFlags {
            num: i64 = 5, "how many";
            value_size: i32 = 100, "bytes of a value";
            sync: bool = false, "sync writes";
            ratio: f64 = 0.5, "ratio";
            limit: u32 = 7, "limit";
            db: String = String::new(), "where";
            percent: i32 = 90, "percentage";
        }
        validate(flags, name) {
            if name == "percent" && !(1..100).contains(&flags.percent) {
                return Err(format!("Invalid value for --percent: {}", flags.percent));
            }
            Ok(())
        }
    }

    struct Fixed;
    impl Surroundings for Fixed {
        fn read_flag_file(&self, path: &str) -> Result<String, String> {
            match path {
                "good" => Ok("# comment\n--num=77\n  --sync\n\nnot a flag\n".to_owned()),
                "loop" => Ok("--flagfile=loop\n".to_owned()),
                _ => Err(format!("{path}: No such file or directory")),
            }
        }
        fn environment(&self, name: &str) -> Option<String> {
            (name == "FLAGS_num").then(|| "99".to_owned())
        }
    }

    const PROGRAM: Program<'static> = Program { name: "prog", version: "1.2.3", usage: "prog [OPTIONS]..." };

    fn run(arguments: &[&str]) -> Outcome<TestFlags> {
        let arguments: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
        parse(PROGRAM, &arguments, &Fixed)
    }

    fn flags(arguments: &[&str]) -> TestFlags {
        match run(arguments) {
            Outcome::Run { flags, .. } => *flags,
            other => panic!("{arguments:?}: {other:?}"),
        }
    }

    fn failure(arguments: &[&str]) -> String {
        match run(arguments) {
            Outcome::Fail { text } => text,
            other => panic!("{arguments:?}: {other:?}"),
        }
    }

    #[test]
    fn every_way_to_write_a_value() {
        assert_eq!(flags(&["-num=3"]).num, 3);
        assert_eq!(flags(&["--num", "3"]).num, 3);
        assert_eq!(flags(&["--num", "-3"]).num, -3);
        assert_eq!(flags(&["--num=0x10"]).num, 16);
        assert_eq!(flags(&["--value-size=12"]).value_size, 12);
        assert_eq!(flags(&["--num=1", "--num=2"]).num, 2);
        assert_eq!(flags(&["--ratio=1e-1"]).ratio, 0.1);
        assert_eq!(flags(&["--db="]).db, "");
        assert_eq!(flags(&["--db", "--num=2"]).db, "--num=2");
        assert_eq!(flags(&["=--num=1", "x=2", "--", "--num=9"]).num, 5);
    }

    #[test]
    fn booleans_never_take_the_next_argument() {
        assert!(flags(&["--sync", "false"]).sync);
        assert!(!flags(&["--sync", "--nosync"]).sync);
        assert!(!flags(&["--sync", "--nosync=1"]).sync);
        assert!(flags(&["--sync=YES"]).sync);
        assert!(!flags(&["--sync=n"]).sync);
    }

    #[test]
    fn errors_are_those_of_gflags() {
        assert_eq!(
            failure(&["--foo", "--bar=1", "--sync=maybe"]),
            "ERROR: unknown command line flag 'bar'\nERROR: unknown command line flag 'foo'\n\
             ERROR: illegal value 'maybe' specified for bool flag 'sync'\n"
        );
        assert_eq!(failure(&["--num=1e3"]), "ERROR: illegal value '1e3' specified for int64 flag 'num'\n");
        assert_eq!(failure(&["--num="]), "ERROR: illegal value '' specified for int64 flag 'num'\n");
        assert_eq!(
            failure(&["--value_size=99999999999"]),
            "ERROR: illegal value '99999999999' specified for int32 flag 'value_size'\n"
        );
        assert_eq!(failure(&["--limit=-1"]), "ERROR: illegal value '-1' specified for uint32 flag 'limit'\n");
        assert_eq!(failure(&["--num"]), "ERROR: flag '--num' is missing its argument; flag description: how many\n");
        assert_eq!(failure(&["--nonum"]), "ERROR: boolean value (nonum) specified for int64 command line flag\n");
        assert_eq!(
            failure(&["--percent=0"]),
            "Invalid value for --percent: 0\nERROR: failed validation of new value '0' for flag 'percent'\n"
        );
    }

    #[test]
    fn undefok_forgives_unknown_names() {
        assert_eq!(flags(&["--foo=1", "--nobar", "--undefok=foo,bar", "--num=2"]).num, 2);
    }

    #[test]
    fn files_and_environment_supply_flags() {
        let read = flags(&["--flagfile=good"]);
        assert_eq!((read.num, read.sync), (77, true));
        assert_eq!(failure(&["--flagfile=missing"]), "missing: No such file or directory\n");
        assert!(failure(&["--flagfile=loop"]).contains("too deep"));
        assert_eq!(flags(&["--fromenv=num"]).num, 99);
        assert_eq!(failure(&["--fromenv=db"]), "ERROR: FLAGS_db not found in environment\n");
        assert_eq!(flags(&["--tryfromenv=db,num"]).num, 99);
    }

    #[test]
    fn help_and_version() {
        match run(&["--version"]) {
            Outcome::Print { text, status } => assert_eq!((text.as_str(), status), ("prog version 1.2.3\n", 0)),
            other => panic!("{other:?}"),
        }
        match run(&["--help", "--num=4"]) {
            Outcome::Print { text, status } => {
                assert_eq!(status, 1);
                assert!(text.contains("    -num (how many) type: int64 default: 5 currently: 4\n"), "{text}");
                assert!(text.contains("    -db (where) type: string default: \"\"\n"), "{text}");
            }
            other => panic!("{other:?}"),
        }
    }
}
