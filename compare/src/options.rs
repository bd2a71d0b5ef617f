//! Whether two stores run with the same options: what their OPTIONS files say differently.

use std::collections::BTreeMap;

/// `section.name` and value of each option of an OPTIONS file.
fn options(text: &str) -> BTreeMap<String, String> {
    let mut section = String::new();
    let mut list = BTreeMap::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name.split(' ').next().unwrap_or_default().to_owned();
        } else if let Some((name, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) {
            list.insert(format!("{section}.{name}"), in_order(value));
        }
    }
    list
}

/// The value with the members of a structure in order: stores write them in theirs.
fn in_order(value: &str) -> String {
    let Some(members) = value.strip_prefix('{').and_then(|value| value.strip_suffix('}')) else {
        return value.to_owned();
    };
    let mut members: Vec<_> = members.split_terminator(';').collect();
    members.sort_unstable();
    format!("{{{}}}", members.join(";"))
}

/// One line for each option that only one of the texts has or that they set differently.
pub fn differences(ours: &str, theirs: &str) -> Vec<String> {
    let (ours, theirs) = (options(ours), options(theirs));
    let names: std::collections::BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
    let show = |value: Option<&String>| value.map_or("absent".to_owned(), |value| format!("`{value}`"));
    names
        .into_iter()
        .filter(|name| ours.get(*name) != theirs.get(*name))
        .map(|name| format!("`{name}`: {} against {}", show(ours.get(name)), show(theirs.get(name))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_named() {
        let ours =
            "# a file\n[DBOptions]\n  max_open_files=-1\n  only=1\n[CFOptions \"default\"]\n  compression=kZSTD\n";
        let theirs = "[DBOptions]\n  max_open_files=-1\n[CFOptions \"default\"]\n  compression=kNoCompression\n";
        let expected =
            ["`CFOptions.compression`: `kZSTD` against `kNoCompression`", "`DBOptions.only`: `1` against absent"];
        assert_eq!(differences(ours, theirs), expected);
    }
}
