//! Vector blocks of a page: text in, inputs with their stated meanings out.

use firn_format::{Error, Result};
use std::collections::BTreeMap;
use std::path::Path;

/// The name of a kind of vectors, and what renders the codec's answer to an input of it.
pub(crate) type Kind = (&'static str, fn(&Vector) -> Result<String>);

/// One line of a block: an input and its meaning.
pub(crate) struct Vector {
    /// Page and line, for failures.
    pub(crate) place: String,
    pub(crate) kind: String,
    attributes: BTreeMap<String, String>,
    names: BTreeMap<String, Vec<u8>>,
    /// The input as it stands on the page.
    pub(crate) input: String,
    meaning: String,
}

impl Vector {
    /// An attribute of the block's first line.
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).map(String::as_str)
    }

    /// Whether the input is meant to be read only: it is not what a writer makes.
    pub(crate) fn is_read_only(&self) -> bool {
        self.attribute("only") == Some("read")
    }

    /// The input as bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.bytes_of(&self.input)
    }

    /// A part of the input as bytes.
    pub(crate) fn bytes_of(&self, part: &str) -> Vec<u8> {
        bytes_of(part, &self.names, &self.place)
    }

    /// As [`round_trip`](Self::round_trip), for inputs that are text.
    pub(crate) fn round_trip_text(&self, written: &str) -> Result<()> {
        if self.is_read_only() || written == self.input {
            return Ok(());
        }
        Err(Error::corruption(format!("a writer makes {written}")))
    }

    /// Checks that a writer makes `encoded` again, unless the input is for readers only.
    pub(crate) fn round_trip(&self, encoded: &[u8]) -> Result<()> {
        if self.is_read_only() || encoded == self.bytes() {
            return Ok(());
        }
        Err(Error::corruption(format!("a writer makes {}", hex(encoded))))
    }
}

/// Compares what a codec answers with what the page says.
pub(crate) fn check(vector: &Vector, render: fn(&Vector) -> Result<String>) -> Result<(), String> {
    let answer = match render(vector) {
        Ok(text) => text,
        Err(error) => format!("error: {}", error.message()),
    };
    let answer = answer.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = match vector.meaning.strip_prefix("error") {
        // A page may state less than the whole message.
        Some(said) => answer.starts_with("error: ") && answer.contains(said.trim_start_matches(':').trim()),
        None => answer == vector.meaning,
    };
    if said {
        return Ok(());
    }
    Err(format!("{}: {}\n    page: {}\n    code: {answer}", vector.place, vector.input, vector.meaning))
}

/// The vectors of all pages that belong to `crate_name`.
pub(crate) fn read_all(crate_name: &str) -> Vec<Vector> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/format");
    #[allow(clippy::disallowed_methods, reason = "the pages are no files of a database")]
    let mut pages: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.sort();
    let mut vectors = Vec::new();
    for path in pages.iter().filter(|path| path.extension().is_some_and(|extension| extension == "md")) {
        let text = std::fs::read_to_string(path).unwrap();
        vectors.extend(vectors_of(path.file_name().unwrap().to_str().unwrap(), &text, crate_name));
    }
    vectors
}

/// The vectors of one page that belong to `crate_name`.
pub(crate) fn vectors_of(page: &str, text: &str, crate_name: &str) -> Vec<Vector> {
    let mut vectors = Vec::new();
    let mut lines = text.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        let Some(head) = line.strip_prefix("```vectors") else { continue };
        // The page that explains the syntax shows blocks inside a longer fence, indented.
        let attributes: BTreeMap<String, String> = head
            .split_whitespace()
            .map(|word| word.split_once('=').unwrap_or_else(|| panic!("{page}:{number}: {word}")))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let kind = attributes.get("kind").unwrap_or_else(|| panic!("{page}:{number}: no kind")).clone();
        let ours = attributes.get("crate").map_or("firn-format", String::as_str) == crate_name;
        let mut names = BTreeMap::new();
        for (line, place) in joined(page, &mut lines) {
            if !ours {
                continue;
            }
            if let Some((input, meaning)) = line.split_once("=>") {
                vectors.push(Vector {
                    place,
                    kind: kind.clone(),
                    attributes: attributes.clone(),
                    names: names.clone(),
                    input: input.trim().to_owned(),
                    meaning: meaning.split_whitespace().collect::<Vec<_>>().join(" "),
                });
            } else if let Some((name, value)) = line.split_once(" = ") {
                let value = bytes_of(value, &names, &place);
                names.insert(name.trim().to_owned(), value);
            } else {
                panic!("{place}: neither a vector nor a name: {line}");
            }
        }
    }
    vectors
}

/// The lines up to the end of the block, without comments, each with the indented lines that continue it.
fn joined<'a>(page: &str, lines: &mut impl Iterator<Item = (&'a str, i32)>) -> Vec<(String, String)> {
    let mut joined: Vec<(String, String)> = Vec::new();
    for (line, number) in lines.by_ref() {
        if line.starts_with("```") {
            return joined;
        }
        let content = line.split_once(" # ").map_or(line, |(content, _)| content);
        if content.trim().is_empty() || content.starts_with('#') {
            continue;
        }
        match joined.last_mut() {
            Some((last, _)) if content.starts_with(' ') => {
                last.push(' ');
                last.push_str(content.trim());
            }
            _ => joined.push((content.trim().to_owned(), format!("docs/format/{page}:{number}"))),
        }
    }
    panic!("{page}: a block of vectors does not end");
}

/// Bytes written as hex digits, `"text"`, `XX*count`, `P*count`, `$name` and `-` for none, side by side.
fn bytes_of(text: &str, names: &BTreeMap<String, Vec<u8>>, place: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let (inside, after) = quoted.split_once('"').unwrap_or_else(|| panic!("{place}: a quote is not closed"));
            bytes.extend_from_slice(inside.as_bytes());
            rest = after.trim_start();
            continue;
        }
        let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        rest = after.trim_start();
        if word == "-" {
            continue;
        }
        if let Some(length) = word.strip_prefix("P*") {
            bytes.extend((0..length.parse::<usize>().unwrap()).map(|at| (131 * at + 7) as u8));
            continue;
        }
        let (word, count) = word.split_once('*').map_or((word, 1), |(word, count)| (word, count.parse().unwrap()));
        let part = match word.strip_prefix('$') {
            Some(name) => names.get(name).unwrap_or_else(|| panic!("{place}: no name {name}")).clone(),
            None => unhex(word).unwrap_or_else(|| panic!("{place}: not bytes: {word}")),
        };
        bytes.extend(part.repeat(count));
    }
    bytes
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes();
    digits.len().is_multiple_of(2).then_some(())?;
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// Bytes as hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes as a page shows them: `"text"` where they are printable, hex digits elsewhere.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let printable = |byte: &u8| (b' '..=b'~').contains(byte) && *byte != b'"';
    if bytes.iter().all(printable) { format!("\"{}\"", String::from_utf8_lossy(bytes)) } else { hex(bytes) }
}
