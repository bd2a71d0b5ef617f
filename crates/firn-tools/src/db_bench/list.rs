//! The `--benchmarks` list: names separated by commas, each with optional repeats `[X3-W1]`. Pure.

/// One entry of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListEntry {
    /// The benchmark's name.
    pub name: String,
    /// Measured runs, at least 1.
    pub repeats: u32,
    /// Runs before them whose results are printed but not averaged.
    pub warm_ups: u32,
}

/// Splits the list; empty names are skipped. Each entry is parsed on its own, because the earlier ones run before a
/// bad one is reported.
pub fn split(list: &str) -> impl Iterator<Item = Result<ListEntry, String>> + '_ {
    list.split(',').filter(|name| !name.is_empty()).map(parse_entry)
}

fn parse_entry(text: &str) -> Result<ListEntry, String> {
    let mut entry = ListEntry { name: text.to_owned(), repeats: 1, warm_ups: 0 };
    let Some(body) = text.strip_suffix(']') else {
        return Ok(entry);
    };
    let Some((name, arguments)) = body.split_once('[') else {
        return Err(format!("unknown benchmark arguments '{text}'"));
    };
    entry.name = name.to_owned();
    for argument in arguments.split('-') {
        let mut chars = argument.chars();
        let letter = chars.next();
        let count = chars.as_str().parse().unwrap_or(0);
        match letter {
            Some('X') => entry.repeats = count,
            Some('W') => entry.warm_ups = count,
            _ => {}
        }
    }
    entry.repeats = entry.repeats.max(1);
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, repeats: u32, warm_ups: u32) -> Result<ListEntry, String> {
        Ok(ListEntry { name: name.to_owned(), repeats, warm_ups })
    }

    #[test]
    fn names_repeats_and_warm_ups() {
        let read: Vec<_> = split("fillseq,,readrandom[X3-W1],a[W2],b[Z9-X0],bad],c").collect();
        assert_eq!(
            read,
            [
                entry("fillseq", 1, 0),
                entry("readrandom", 3, 1),
                entry("a", 1, 2),
                entry("b", 1, 0),
                Err("unknown benchmark arguments 'bad]'".to_owned()),
                entry("c", 1, 0),
            ]
        );
        assert_eq!(split("").count(), 0);
    }
}
