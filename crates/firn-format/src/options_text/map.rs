//! Option strings (`a=1;b={c=2;d=3}`), lists (`1:2:{a:b}`) and the escapes of OPTIONS files.

use firn_error::{Error, Result};

/// Whether C's `isspace` holds for the byte.
pub const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

/// `text` without blanks at its ends.
pub fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| u8::try_from(c).is_ok_and(is_blank))
}

/// Escapes what would end a line or a name: `\`, `#`, `:`, LF and CR.
pub fn escape(text: &str) -> String {
    escape_with(text, &['\\', '#', ':'])
}

/// Escapes what would end a line of a file: `\`, `#`, LF and CR.
pub fn escape_line(text: &str) -> String {
    escape_with(text, &['\\', '#'])
}

/// Puts a `\` before each of `marks`, and writes LF and CR as letters.
fn escape_with(text: &str, marks: &[char]) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            mark if marks.contains(&mark) => escaped.extend(['\\', mark]),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Escapes a whole value: beside what [`escape`] does, blanks at the ends, which readers would trim.
pub fn escape_value(text: &str) -> String {
    let inner = text.trim_matches([' ', '\t']);
    if inner.len() == text.len() {
        return escape(text);
    }
    let at = text.len() - text.trim_start_matches([' ', '\t']).len();
    let (head, rest) = text.split_at(at);
    let (inner, tail) = rest.split_at(inner.len().min(rest.len()));
    let blanks = |blanks: &str| blanks.chars().flat_map(|blank| ['\\', blank]).collect::<String>();
    format!("{}{}{}", blanks(head), escape(inner), blanks(tail))
}

/// Takes escapes back; a lone `\` at the end is dropped.
pub fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => plain.push('\n'),
                Some('r') => plain.push('\r'),
                Some(other) => plain.push(other),
                None => {}
            },
            other => plain.push(other),
        }
    }
    plain
}

/// How many bytes the braced text at the start of `text` takes, both braces included; `None` without its closing brace.
fn braced_length(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// Whether every brace of `text` has its other half, so that the text stays one value where braces are put around it.
pub fn braces_match(text: &str) -> bool {
    let depth = text.bytes().try_fold(0usize, |depth, byte| match byte {
        b'{' => Some(depth + 1),
        b'}' => depth.checked_sub(1),
        _ => Some(depth),
    });
    depth == Some(0)
}

/// `text` without blanks at its ends and without one pair of braces, where that pair encloses all of it.
pub fn strip_braces(text: &str) -> &str {
    let text = trim(text);
    match braced_length(text) {
        Some(length) if length == text.len() => trim(text.get(1..length - 1).unwrap_or_default()),
        _ => text,
    }
}

/// Reads `name=value;...` into names and values in their order; a name may come twice.
///
/// Braces around the whole text are taken off; a value in braces loses one pair of them. Fails with `InvalidArgument` on
/// text that is no map.
pub fn parse_map(text: &str) -> Result<Vec<(String, String)>> {
    let mut rest = trim(text);
    while rest.len() > 2 && rest.starts_with('{') && rest.ends_with('}') {
        rest = trim(rest.get(1..rest.len() - 1).unwrap_or_default());
    }
    let mut map: Vec<(String, String)> = Vec::new();
    while !rest.is_empty() {
        let (name, value, after) = parse_pair(rest)?;
        match map.iter_mut().find(|(known, _)| *known == name) {
            Some(pair) => pair.1 = value,
            None => map.push((name, value)),
        }
        rest = after;
    }
    Ok(map)
}

/// Reads one pair from the start of `text`; gives its name, its value and the text after it.
fn parse_pair(text: &str) -> Result<(String, String, &str)> {
    let Some(end) = text.find(['=', '{', '}', ';']) else {
        return Err(Error::invalid_argument("Mismatched key value pair, '=' expected"));
    };
    let (name, rest) = text.split_at(end);
    if !rest.starts_with('=') {
        return Err(Error::invalid_argument("Unexpected char in key"));
    }
    let name = trim(name);
    if name.is_empty() {
        return Err(Error::invalid_argument("Empty key found"));
    }
    let rest = trim(rest.get(1..).unwrap_or_default());
    if !rest.starts_with('{') {
        let (value, after) = rest.split_once(';').unwrap_or((rest, ""));
        return Ok((name.to_owned(), trim(value).to_owned(), trim(after)));
    }
    let Some(length) = braced_length(rest) else {
        return Err(Error::invalid_argument("Mismatched curly braces for nested options"));
    };
    let (value, after) = rest.split_at(length);
    let value = trim(value.get(1..length - 1).unwrap_or_default());
    let after = trim(after);
    let after = match after.strip_prefix(';') {
        Some(after) => after,
        None if after.is_empty() => after,
        None => return Err(Error::invalid_argument("Unexpected chars after nested options")),
    };
    Ok((name.to_owned(), value.to_owned(), trim(after)))
}

/// Reads `a:b:{c:d}` into its elements; a colon at the end adds none.
pub fn split_list(text: &str) -> Result<Vec<String>> {
    let mut rest = trim(text);
    let mut elements = Vec::new();
    while !rest.is_empty() {
        if rest.starts_with('{') {
            let Some(length) = braced_length(rest) else {
                return Err(Error::invalid_argument("Mismatched curly braces for nested options"));
            };
            let (element, after) = rest.split_at(length);
            elements.push(trim(element.get(1..length - 1).unwrap_or_default()).to_owned());
            let after = trim(after);
            rest = match after.strip_prefix(':') {
                Some(after) => trim(after),
                None if after.is_empty() => after,
                None => return Err(Error::invalid_argument("Unexpected chars after nested options")),
            };
        } else {
            let (element, after) = rest.split_once(':').unwrap_or((rest, ""));
            elements.push(trim(element).to_owned());
            rest = trim(after);
        }
    }
    Ok(elements)
}

/// Writes a list: elements joined by colons, braces where an element or the list would be misread without. The braces of
/// every element have to [match](braces_match).
pub fn join_list(elements: impl IntoIterator<Item = String>) -> String {
    let mut text = String::new();
    for (at, element) in elements.into_iter().enumerate() {
        if at > 0 {
            text.push(':');
        }
        let is_braced = braced_length(&element) == Some(element.len());
        if !is_braced && (element.contains(':') || element.starts_with('{')) {
            text.extend(["{", &element, "}"]);
        } else {
            text.push_str(&element);
        }
    }
    if text.contains('=') || text.starts_with('{') { format!("{{{text}}}") } else { text }
}
