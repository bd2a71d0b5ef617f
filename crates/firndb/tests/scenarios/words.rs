//! How commands and answers are spelled: keys and values with escapes, flags, families, and what is shown of bytes.
//!
//! `driver.cc` spells the same; an answer that both engines give is the same text.

use std::collections::BTreeMap;

/// Values longer than this are shown by their beginning and length.
const LONGEST_SHOWN: usize = 40;

/// The head of a command (flags `-name=value`, families `@name`, a label `name:`) and what follows.
#[derive(Debug, Default)]
pub struct Words {
    pub flags: BTreeMap<String, String>,
    pub families: Vec<String>,
    pub label: Option<String>,
    pub rest: String,
}

/// What is wrong with a command; its scenario cannot go on.
pub type Parsed<T> = Result<T, String>;

impl Words {
    pub fn parse(line: &str) -> Self {
        let mut words = Self::default();
        let mut rest = line;
        while !rest.is_empty() {
            let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
            if let Some(flag) = word.strip_prefix('-').filter(|flag| !flag.is_empty()) {
                let (name, value) = flag.split_once('=').unwrap_or((flag, "true"));
                words.flags.insert(name.to_owned(), value.to_owned());
            } else if let Some(family) = word.strip_prefix('@').filter(|family| !family.is_empty()) {
                words.families.push(family.to_owned());
            } else if let Some(label) = word.strip_suffix(':').filter(|l| !l.is_empty() && words.label.is_none()) {
                words.label = Some(label.to_owned());
            } else {
                break;
            }
            rest = after;
        }
        rest.clone_into(&mut words.rest);
        words
    }

    pub fn words(&self) -> Vec<&str> {
        self.rest.split(' ').filter(|word| !word.is_empty()).collect()
    }

    /// The parts of the rest between semicolons.
    pub fn parts(&self) -> Vec<&str> {
        parts(&self.rest)
    }

    pub fn word(&self, at: usize) -> Parsed<&str> {
        self.words().get(at).copied().ok_or_else(|| "a word is missing".to_owned())
    }

    pub fn has(&self, name: &str) -> bool {
        self.flags.contains_key(name)
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.flags.get(name).map(String::as_str)
    }

    pub fn flag(&self, name: &str, otherwise: bool) -> bool {
        self.text(name).map_or(otherwise, |text| text != "false")
    }

    pub fn number(&self, name: &str, otherwise: i64) -> Parsed<i64> {
        self.text(name).map_or(Ok(otherwise), |text| text.parse().map_err(|_| format!("-{name}={text} is no number")))
    }

    pub fn unsigned<T: TryFrom<i64>>(&self, name: &str, otherwise: i64) -> Parsed<T> {
        self.number(name, otherwise)?.try_into().map_err(|_| format!("-{name} is out of range"))
    }
}

/// The parts of `text` between semicolons, trimmed.
pub fn parts(text: &str) -> Vec<&str> {
    text.split(';').map(str::trim).filter(|part| !part.is_empty()).collect()
}

/// The bytes that a word stands for.
pub fn unescape(word: &str) -> Parsed<Vec<u8>> {
    if word == "\"\"" {
        return Ok(Vec::new());
    }
    let mut bytes = Vec::new();
    let mut rest = word.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if let [b'\\', b'x', _, _, ..] = rest {
            let hex = std::str::from_utf8(&rest[2..4]).map_err(|_| "not text")?;
            bytes.push(u8::from_str_radix(hex, 16).map_err(|_| format!("\\x{hex} is no byte"))?);
            rest = &rest[4..];
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    Ok(bytes)
}

/// `key=value`.
pub fn pair(word: &str) -> Parsed<(Vec<u8>, Vec<u8>)> {
    let (key, value) = word.split_once('=').ok_or_else(|| format!("no = in {word}"))?;
    Ok((unescape(key)?, unescape(value)?))
}

/// `from..to`.
pub fn bounds(word: &str) -> Parsed<(Vec<u8>, Vec<u8>)> {
    let (from, to) = word.split_once("..").ok_or_else(|| format!("no .. in {word}"))?;
    Ok((unescape(from)?, unescape(to)?))
}

/// Bytes as a word: what `unescape` reads, but for long values.
pub fn show(bytes: &[u8]) -> String {
    let Some(first) = bytes.first() else { return "\"\"".to_owned() };
    let cut = bytes.len() > LONGEST_SHOWN;
    if cut && first.is_ascii_graphic() && bytes.iter().all(|byte| byte == first) {
        return format!("{}*{}", char::from(*first), bytes.len());
    }
    let mut text = String::new();
    for byte in &bytes[..if cut { 8 } else { bytes.len() }] {
        match byte {
            b'\\' | b'"' => text.push_str(&format!("\\x{byte:02x}")),
            byte if byte.is_ascii_graphic() => text.push(char::from(*byte)),
            byte => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    if cut { format!("{text}..({})", bytes.len()) } else { text }
}
