//! Whether two stores run with the same options: what their OPTIONS files say differently.

use std::collections::BTreeMap;

/// Name and value of each option of an OPTIONS file: `section.name`, or `section.name.member` for members of a structure.
fn options(text: &str) -> BTreeMap<String, &str> {
    let mut section = String::new();
    let mut list = BTreeMap::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name.split(' ').next().unwrap_or_default().to_owned();
        } else if let Some((name, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) {
            let members = value.strip_prefix('{').and_then(|value| value.strip_suffix('}'));
            match members.filter(|members| !members.contains('{')) {
                Some(members) => list.extend(
                    members
                        .split(';')
                        .filter_map(|member| member.split_once('='))
                        .map(|(member, value)| (format!("{section}.{name}.{member}"), value)),
                ),
                None => {
                    list.insert(format!("{section}.{name}"), value);
                }
            }
        }
    }
    list
}

/// One line for each option that the texts set differently, and one each for those that only one of them has.
pub fn differences(ours: &str, theirs: &str) -> Vec<String> {
    let (ours, theirs) = (options(ours), options(theirs));
    let mut lines: Vec<_> = ours
        .iter()
        .filter_map(|(name, value)| Some((name, value, theirs.get(name)?)))
        .filter(|(_, value, other)| value != other)
        .map(|(name, value, other)| format!("`{name}`: `{value}` against `{other}`"))
        .collect();
    for (which, these, those) in [("first", &ours, &theirs), ("second", &theirs, &ours)] {
        let names: Vec<_> =
            these.keys().filter(|name| !those.contains_key(*name)).map(|name| format!("`{name}`")).collect();
        if !names.is_empty() {
            lines.push(format!("only the {which} one writes {}", names.join(", ")));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_named() {
        let ours = "# a file\n[DBOptions]\n  max_open_files=-1\n  only=1\n[CFOptions \"default\"]\n  compression=kZSTD\n  \
                    fifo={a=1;b=2;}\n";
        let theirs = "[DBOptions]\n  max_open_files=-1\n[CFOptions \"default\"]\n  compression=kNoCompression\n  \
                      fifo={b=3;a=1;c=4}\n";
        let expected = [
            "`CFOptions.compression`: `kZSTD` against `kNoCompression`",
            "`CFOptions.fifo.b`: `2` against `3`",
            "only the first one writes `DBOptions.only`",
            "only the second one writes `CFOptions.fifo.c`",
        ];
        assert_eq!(differences(ours, theirs), expected);
    }
}
