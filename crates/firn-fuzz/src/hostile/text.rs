//! OPTIONS files and CURRENT, changed.

use super::numbers::Dice;

/// Changes a line or two of an OPTIONS file; says what.
pub(super) fn change_options(text: &[u8], dice: &mut Dice) -> (Vec<u8>, String) {
    let text = String::from_utf8_lossy(text).into_owned();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut what = String::new();
    for _ in 0..1 + dice.below(2) {
        let at = dice.below(lines.len());
        if lines.is_empty() || dice.once_in(6) {
            what += &dice.shuffle(&mut lines);
            continue;
        }
        let line = &mut lines[at];
        match line.split_once('=') {
            Some((name, value)) if dice.below(8) > 0 => {
                let value = match value.trim().parse::<u64>() {
                    Ok(number) if dice.below(4) > 0 => dice.number(number).to_string(),
                    _ => {
                        let choices =
                            ["", "-1", "true", "false", "nullptr", "{", "}", "{;}", "1.5e300", "NaN", "kZSTD", "0x10"];
                        choices[dice.below(choices.len())].to_owned()
                    }
                };
                *line = format!("{name}={value}");
            }
            _ => *line = String::from_utf8_lossy(&dice.scribble(line.as_bytes())).into_owned(),
        }
        what += &format!("line {at}: {line}; ");
    }
    (lines.join("\n").into_bytes(), what)
}

/// Another CURRENT; says what.
pub(super) fn change_current(text: &[u8], dice: &mut Dice) -> (Vec<u8>, String) {
    let choices = [
        "",
        "\n",
        "MANIFEST-000001\n",
        "MANIFEST-18446744073709551615\n",
        "MANIFEST-99999999999999999999999\n",
        "CURRENT\n",
        "../db/CURRENT\n",
        "/db/MANIFEST-000005\n",
        "MANIFEST-\n",
        "OPTIONS-000007\n",
    ];
    let text = match dice.below(6) {
        0 => dice.scribble(text),
        1 => text.trim_ascii_end().to_vec(),
        2 => [text, text].concat(),
        _ => choices[dice.below(choices.len())].into(),
    };
    let what = String::from_utf8_lossy(&text).into_owned();
    (text, what)
}
